#!/bin/bash
# Tests ./pagewalk, ./test and scripts/setup.sh: messages, actions and exit codes on machines that lack things.
# Each case runs a copy of the scripts on a stand-in machine: a PATH of its own with stubs of apt-get,
# sudo, valgrind, gcc and cargo that log how they were called.
set -uo pipefail

here=${BASH_SOURCE[0]%/*}
[[ $here == /* ]] || here=$PWD/$here
root=$(cd "$here/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
cases=0

# --- The stand-in machine ---------------------------------------------------------------------------

# Makes a machine in $machine with everything installed; test cases remove things.
new_machine() {
    machine=$work/$((++cases))
    mkdir -p "$machine"/{bin,include/valgrind,home,repo/{scripts,crates,machines,structures,.cargo},elsewhere}
    cp "$root/pagewalk" "$root/test" "$root/Cargo.toml" "$machine/repo/"
    cp "$root/scripts/setup.sh" "$machine/repo/scripts/"
    touch "$machine/repo/Cargo.lock" "$machine/repo/crates/lib.rs" "$machine/log"
    local tool
    for tool in env find grep head mkdir mktemp mv readlink rm sed sort touch cat chmod; do
        ln -s "$(type -P "$tool")" "$machine/bin/"
    done
    stub gcc; stub cc; install_valgrind
    stub cargo "case \$1 in
        --version) echo 'cargo 99.0.0 (0000000 2099-01-01)' ;;
        -vV) echo 'host: x86_64-unknown-linux-gnu' ;;
        build) while [[ \$1 != --target-dir ]]; do shift; done
               cp_binary \"\$2/release/pagewalk\" ;;
    esac"
    chmod -R a+rwX "$work"
}

# The binary that the stub cargo builds: prints its arguments and input, exits with 7.
binary_text='#!/bin/bash
for argument in "$@"; do printf "<%s>" "$argument"; done
while read -r line; do printf "in:%s" "$line"; done
exit 7'

# Writes a stub for program $1 that logs its call and then runs the script text $2.
stub() {
    cat >"$machine/bin/$1" <<STUB
#!/bin/bash
echo "$1 \$*" >>"$machine/log"
cp_binary() { printf '%s\n' '$binary_text' >"\$1"; chmod +x "\$1"; }
${2-}
STUB
    chmod a+rx "$machine/bin/$1"
}

install_valgrind() { stub valgrind; touch "$machine/include/valgrind/pub_tool_basics.h"; }
lose_valgrind() { rm -f "$machine/bin/valgrind"; }

# Chooses a user other than root for the next runs. Fails if that is not possible.
as_user() {
    local setpriv
    (( EUID == 0 )) || return 0
    setpriv=$(type -P setpriv) && user=("$setpriv" --reuid=65534 --regid=65534 --clear-groups)
}

# Runs the script $1 on the machine with the other arguments; fills $out, $err, $code.
run() {
    local script=$1
    shift
    env --ignore-environment PATH="$machine/bin" HOME="$machine/home" TMPDIR="$machine" \
        ${target_dir:+CARGO_TARGET_DIR="$target_dir"} "${user[@]}" "$script" "$@" >"$machine/out" 2>"$machine/err" <<<"${input-}"
    code=$?
    out=$(<"$machine/out") err=$(<"$machine/err")
}
user=()

# --- Expectations -----------------------------------------------------------------------------------

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s: %s\n--- exit %s\n--- stdout: %s\n--- stderr: %s\n--- calls:\n%s\n' \
        "$case_name" "$1" "$code" "$out" "$err" "$(<"$machine/log")"
}
expect_code() { [[ $code == "$1" ]] || fail "expected exit code $1"; }
expect_out() { [[ $out == "$1" ]] || fail "expected on stdout: $1"; }
expect_err() { [[ $err == *"$1"* ]] || fail "expected on stderr: $1"; }
expect_no_err() { [[ $err != *"$1"* ]] || fail "did not expect on stderr: $1"; }
expect_calls() { [[ $(grep -c "^$1" "$machine/log") == "$2" ]] || fail "expected $2 calls of \`$1\`"; }

begin() { case_name=$1; new_machine; unset input target_dir; user=(); }

# --- Packages ---------------------------------------------------------------------------------------

begin "--no-install lists what is missing and how to get it"
lose_valgrind
rm "$machine/bin/gcc"
run "$machine/repo/pagewalk" --no-install doctor
expect_code 4
expect_err "valgrind   runs the program"
expect_err "gcc        compiles"
expect_err "--no-install was given"
expect_err "apt-get install --yes valgrind gcc"
expect_no_err "libc6-dev"
expect_out ""
expect_calls apt-get 0

begin "an empty PATH is told the same, by builtins alone"
rm "$machine"/bin/*
run "$machine/repo/pagewalk" --no-install
expect_code 4
expect_err "apt-get install --yes valgrind gcc"
expect_no_err "not found"

begin "valgrind without its headers counts as missing"
rm "$machine/include/valgrind/pub_tool_basics.h"
run "$machine/repo/pagewalk" --no-install
expect_code 4
expect_err "apt-get install --yes valgrind"
expect_no_err "gcc "

begin "valgrind is found through a link to its program"
mkdir -p "$machine/opt/bin"
mv "$machine/bin/valgrind" "$machine/opt/bin/"
mv "$machine/include" "$machine/opt/"
ln -s "$machine/opt/bin/valgrind" "$machine/bin/valgrind"
run "$machine/repo/pagewalk" --no-install
expect_code 7

begin "valgrind is found through a link to its folder"
mkdir "$machine/usr"
mv "$machine/bin" "$machine/include" "$machine/usr/"
ln -s usr/bin "$machine/bin"
run "$machine/repo/pagewalk" --no-install
expect_code 7

begin "--no-install is pagewalk's own only in first place"
run "$machine/repo/pagewalk" profile --no-install
expect_code 7
expect_out "<profile><--no-install>in:"

begin "only what is missing is installed, without an update of the index"
lose_valgrind
stub apt-get "printf '#!/bin/bash\n' >$machine/bin/valgrind; chmod +x $machine/bin/valgrind"
(( EUID == 0 )) || stub sudo 'exec "$@"'
run "$machine/repo/pagewalk" machines
expect_code 7
expect_calls "apt-get" 1
expect_calls "apt-get install --yes valgrind$" 1
expect_err "installing:"

begin "an old package index is fetched again"
lose_valgrind
stub apt-get "case \$1 in
    update) touch $machine/fresh ;;
    install) [[ -e $machine/fresh ]] || { echo 'E: Unable to locate package valgrind'; exit 100; }
             printf '#!/bin/bash\n' >$machine/bin/valgrind; chmod +x $machine/bin/valgrind ;;
esac"
(( EUID == 0 )) || stub sudo 'exec "$@"'
run "$machine/repo/pagewalk"
expect_code 7
expect_calls "apt-get update" 1
expect_calls "apt-get install" 2

begin "without network: one reason, exit 4"
lose_valgrind
stub apt-get "echo 'E: Failed to fetch http://deb.example/valgrind.deb'; exit 100"
(( EUID == 0 )) || stub sudo 'exec "$@"'
run "$machine/repo/pagewalk"
expect_code 4
expect_err "could not install valgrind: E: Failed to fetch"
expect_calls cargo 0

begin "an apt-get that claims success is not believed"
lose_valgrind
stub apt-get
(( EUID == 0 )) || stub sudo 'exec "$@"'
run "$machine/repo/pagewalk"
expect_code 4
expect_err "still not where pagewalk looks"

begin "a system without apt-get is told so"
lose_valgrind
run "$machine/repo/pagewalk"
expect_code 4
expect_err "apt-get is not here"

if as_user; then
    begin "a user without sudo is told what to run as root"
    as_user
    lose_valgrind
    stub apt-get
    run "$machine/repo/pagewalk"
    expect_code 4
    expect_err "As root run: apt-get install --yes valgrind"
    expect_calls apt-get 0

    begin "a user with sudo installs through it"
    as_user
    lose_valgrind
    stub sudo "printf '#!/bin/bash\n' >$machine/bin/valgrind; chmod +x $machine/bin/valgrind"
    stub apt-get
    chmod a+rwX "$machine/bin"
    run "$machine/repo/pagewalk"
    expect_code 7
    expect_err "installing: sudo apt-get install --yes valgrind"
    expect_calls "sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes valgrind" 1

    begin "a sudo that refuses is named as the reason, and one that says nothing ends with exit 4 too"
    as_user
    lose_valgrind
    stub sudo "echo 'sudo: a password is required' >&2; exit 1"
    stub apt-get
    run "$machine/repo/pagewalk"
    expect_code 4
    expect_err "could not install valgrind: sudo: a password is required"
    stub sudo "exit 1"
    run "$machine/repo/pagewalk"
    expect_code 4
    expect_err "could not install valgrind: see "
fi

# --- Rust toolchain ---------------------------------------------------------------------------------

begin "no cargo: the needed version and where to get it"
rm "$machine/bin/cargo"
run "$machine/repo/pagewalk"
expect_code 4
expect_err "Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml") or newer is needed"
expect_err "rustup.rs"

begin "cargo outside PATH, where rustup puts it, is found"
mkdir -p "$machine/home/.cargo/bin"
mv "$machine/bin/cargo" "$machine/home/.cargo/bin/"
run "$machine/repo/pagewalk"
expect_code 7

begin "an old cargo is named with its version"
stub cargo "echo 'cargo 1.63.0'"
run "$machine/repo/pagewalk"
expect_code 4
expect_err "is version 1.63.0; Rust"

begin "cargo is asked in the root: a toolchain file where the user stands does not count"
as_of_root="[[ \$PWD == $machine/repo ]] || { echo 'error: toolchain of this folder is not installed' >&2; exit 1; }"
sed -i "2i $as_of_root" "$machine/bin/cargo"
stub g++; stub python3
cd "$machine/elsewhere"
run "$machine/repo/pagewalk"
expect_code 7
expect_calls "cargo fetch --quiet --locked --target x86_64-unknown-linux-gnu$" 1
run "$machine/repo/test"
expect_no_err "the Rust toolchain lacks"
cd "$root"

begin "what rustup says before cargo answers is passed over"
sed -i "s/--version) /&echo 'info: syncing channel updates' >\&2; /" "$machine/bin/cargo"
run "$machine/repo/pagewalk"
expect_code 7

# --- The build --------------------------------------------------------------------------------------

begin "builds once, and again when a source changed"
input="text"
run "$machine/repo/pagewalk" one "two words" ""
expect_code 7
expect_out "<one><two words><>in:text"
expect_err "building"
expect_calls "cargo build" 1
run "$machine/repo/pagewalk" again
expect_out "<again>in:text"
expect_calls "cargo build" 1
[[ $err == "" ]] || fail "a second start is silent"
builds=1
for source in crates/lib.rs machines/one.toml structures/one.toml; do
    touch "$machine/repo/$source"
    run "$machine/repo/pagewalk"
    expect_calls "cargo build" $((++builds))
    run "$machine/repo/pagewalk"
    expect_calls "cargo build" $builds
done

begin "starts from anywhere, through a link, with a target directory of its own"
ln -s "$machine/repo/pagewalk" "$machine/elsewhere/pw"
target_dir="my target"
( cd "$machine/elsewhere" && run ./pw a; [[ $code == 7 && $out == "<a>in:" ]] ) || fail "through a link"
[[ -x "$machine/elsewhere/my target/release/pagewalk" ]] || fail "the target directory is the user's"
( cd "$machine" && unset target_dir && run repo/pagewalk b; [[ $code == 7 ]] ) || fail "by a relative path"
( cd "$machine/repo" && run ./pagewalk c; [[ $code == 7 ]] ) || fail "from the root"

begin "a failing build is exit 1 and tried again"
mkdir -p "$machine/repo/target/release"
stub cargo "case \$1 in --version) echo 'cargo 99.0.0' ;; build) echo 'error: E0001' >&2; exit 101 ;; esac"
run "$machine/repo/pagewalk"
expect_code 1
expect_err "error: E0001"
expect_err "the build failed"
run "$machine/repo/pagewalk"
expect_calls "cargo build" 2

begin "a long build says how far it is, and what cargo says besides"
shown=$(
    root=$machine/repo
    . "$machine/repo/scripts/setup.sh"
    progress_seconds=0
    printf '%s\n' '   Compiling one v1' 'warning: odd' '   Compiling two v1' '    Finished' | show_progress 3 2>&1
)
[[ $shown == *"building crate 1 of 3"*"warning: odd"*"building crate 2 of 3"* && $shown != *Compiling* ]] ||
    fail "progress is shown: $shown"
stub cargo "case \$1 in --version) echo 'cargo 99.0.0' ;; tree) printf '%s\n' 'one v1' 'two v1' 'one v1 (*)' ;;
    build) echo '   Compiling one v1' >&2; while [[ \$1 != --target-dir ]]; do shift; done; cp_binary \"\$2/release/pagewalk\" ;; esac"
counted=$(root=$machine/repo; . "$machine/repo/scripts/setup.sh"; cargo=$machine/bin/cargo; count_crates)
[[ $counted == 2 ]] || fail "a crate that cargo lists twice counts once, not $counted"
run "$machine/repo/pagewalk" a
expect_out "<a>in:"
[[ $err != *Compiling* ]] || fail "cargo's lines are not shown where nobody watches"

begin "crates that cannot be fetched are the network's fault: exit 4"
stub cargo "case \$1 in --version) echo 'cargo 99.0.0' ;; fetch) exit 101 ;; esac"
run "$machine/repo/pagewalk"
expect_code 4
expect_err "could not be fetched"

if as_user; then
    begin "a checkout of somebody else's is built elsewhere"
    as_user
    chmod a-w "$machine/repo"
    run "$machine/repo/pagewalk"
    expect_code 4
    expect_err "set CARGO_TARGET_DIR to a folder of yours"
    expect_calls "cargo build" 0
    target_dir=$machine/elsewhere
    run "$machine/repo/pagewalk"
    expect_code 7
    chmod u+w "$machine/repo"

    begin "as is one with a build of somebody else's that is older than the sources"
    as_user
    mkdir -p "$machine/repo/target/release"
    chmod a-w "$machine/repo/target/release"
    run "$machine/repo/pagewalk"
    expect_code 4
    expect_err "set CARGO_TARGET_DIR to a folder of yours"
    chmod u+w "$machine/repo/target/release"
fi

begin "this host's cargo builds what the script asks of it"
mkdir "$machine/repo/src"
printf '%s\n' '[package]' 'name = "pagewalk"' 'version = "0.0.0"' 'edition = "2024"' 'rust-version = "1.95"' \
    >"$machine/repo/Cargo.toml"
printf '%s\n' 'version = 4' '[[package]]' 'name = "pagewalk"' 'version = "0.0.0"' >"$machine/repo/Cargo.lock"
printf '%s\n' 'fn main() { println!("{:?}", std::env::args().nth(1)); }' >"$machine/repo/src/main.rs"
rm "$machine/bin/cargo"
cargo=$(type -P cargo) || cargo=${CARGO_HOME:-$HOME/.cargo}/bin/cargo
# In this script's environment: there the host's compiler is found, wherever rustup keeps it.
{ echo '#!/bin/bash'; export -p; printf 'exec %q "$@"\n' "$cargo"; } >"$machine/bin/cargo"
chmod +x "$machine/bin/cargo"
run "$machine/repo/pagewalk" doctor
expect_code 0
expect_out 'Some("doctor")'

# --- Speed ------------------------------------------------------------------------------------------

begin "a second start adds under 50 ms"
run "$machine/repo/pagewalk"
best_us=1000000
for _ in {1..15}; do
    from=${EPOCHREALTIME/./}
    run "$machine/repo/pagewalk"
    took_us=$(( ${EPOCHREALTIME/./} - from ))
    (( took_us < best_us )) && best_us=$took_us
done
(( best_us < 50000 )) || fail "the best of 15 starts took $best_us us"

printf 'scripts: %d cases, %d failed; second start %d.%01d ms\n' \
    "$cases" "$failures" $((best_us / 1000)) $((best_us % 1000 / 100))
(( failures == 0 ))
