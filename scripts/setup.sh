# shellcheck shell=bash
# Set-up shared by ./pagewalk, ./test, ./pagewalk-bench and scripts: what a fresh Debian or Ubuntu machine lacks, and the build.
# Sourced by bash with `root` set to the repository's absolute path. Everything printed goes to stderr,
# and nothing is exported: the traced program must see the user's own environment.
#
# The fast path (nothing missing, nothing changed) runs one external command, `find`.

: "${root:?set by the script that sources this one}"
readonly exit_cannot=4
progress_seconds=10

say() { printf 'pagewalk: %s\n' "$*" >&2; }

# Exits because this host lacks something; every argument is a line of the message.
cannot() {
    local line
    for line in "$@"; do say "$line"; done
    exit "$exit_cannot"
}

# --- Debian packages --------------------------------------------------------------------------------

# Prints why pagewalk needs a package.
reason_for() {
    case $1 in
        valgrind) printf 'runs the program; its headers and libraries build the capture engine' ;;
        gcc) printf 'compiles the capture engine and links the Rust build' ;;
        libc6-dev) printf 'C headers and start-up files for linking' ;;
        g++) printf 'compiles the C++ programs that the tests look up symbols in' ;;
        gzip | sqlite3) printf 'one of the programs that the benchmark measures' ;;
        nodejs) printf 'runs the scripts of the report page in the tests' ;;
        npm) printf 'fetches the DOM that they run in' ;;
        python3-venv) printf 'holds the packages that the tests of the Python package need' ;;
        python3) printf 'runs the benchmark, and is one of the programs that it measures' ;;
        xvfb | dbus | xdotool) printf 'a display, a message bus and a keyboard of our own for desktop programs' ;;
        evince | abiword | gthumb | gnome-calculator) printf 'one of the desktop programs that are recorded' ;;
    esac
}

# Whether a package's files exist. Tests files, because asking dpkg takes longer than the whole start.
is_installed() {
    local program
    case $1 in
        valgrind)
            program=$(type -P valgrind) || return 1
            has_headers "$program" || has_headers "$(readlink --canonicalize "$program")" ;;
        gcc) type -P gcc >/dev/null && type -P cc >/dev/null ;;
        libc6-dev) [[ -e /usr/include/stdio.h ]] ;;
        xvfb) type -P Xvfb >/dev/null ;;
        python3-venv) python3 -c 'import ensurepip' 2>/dev/null ;;
        nodejs) type -P node >/dev/null ;;
        dbus) type -P dbus-daemon >/dev/null ;;
        *) type -P "$1" >/dev/null ;;
    esac
}

# Whether Valgrind's headers are beside its program $1. If that is a link (/bin, /usr/local/bin), they are beside its
# target.
has_headers() { [[ -e ${1%/bin/*}/include/valgrind/pub_tool_basics.h ]]; }

# Makes sure that the named packages are installed. $1: `install` or `no-install`.
need_packages() {
    local mode=$1 package missing=()
    shift
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    (( ${#missing[@]} == 0 )) && return

    local as_root=()
    (( EUID == 0 )) || as_root=(sudo)
    local apt_line="${as_root[*]}${as_root:+ }apt-get install --yes ${missing[*]}"

    say "this machine lacks:"
    for package in "${missing[@]}"; do
        printf '    %-10s %s\n' "$package" "$(reason_for "$package")" >&2
    done
    [[ $mode == install ]] || cannot "--no-install was given, so nothing is installed. To install: $apt_line"
    type -P apt-get >/dev/null ||
        cannot "apt-get is not here; install the equivalents of these Debian packages with this system's own tools"
    (( EUID == 0 )) || type -P sudo >/dev/null ||
        cannot "not root, and sudo is not here. As root run: apt-get install --yes ${missing[*]}"
    say "installing: $apt_line"
    install_packages "${missing[@]}"
    for package in "${missing[@]}"; do
        is_installed "$package" ||
            cannot "apt-get installed $package, but its files are still not where pagewalk looks for them"
    done
}

# Runs apt-get without questions. The package index is fetched only when installing with the present one
# fails, because it is the slow part and mostly up to date. Needs `as_root` of the caller.
install_packages() {
    local log
    log=$(mktemp)
    [[ -t 2 ]] || say "this takes a minute or two; apt-get's output goes to $log"
    if ! logged "$log" apt_get install --yes "$@"; then
        say "the package index lacks them or is out of date: apt-get update"
        if ! { logged "$log" apt_get update && logged "$log" apt_get install --yes "$@"; }; then
            local why
            why=$(grep --max-count=1 -E '^(E|sudo): ' "$log" || true)
            cannot "apt-get could not install $*: ${why:-see $log}" \
                "whole output: $log. Is the network reachable? Without it, install the packages by other means."
        fi
    fi
    rm -f "$log"
}

apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" </dev/null; }

# Runs a command with its output in the file $1; a terminal shows the last line.
logged() {
    local log=$1 watcher code=0
    shift
    [[ -t 2 ]] || { "$@" >"$log" 2>&1; return; }
    : >"$log"
    watch_log "$log" &
    watcher=$!
    "$@" >"$log" 2>&1 || code=$?
    kill "$watcher"
    wait "$watcher" 2>/dev/null || true
    printf '\r\e[K' >&2
    return "$code"
}

# Shows the file's last line, and how long this takes, for as long as the script runs. An empty file is not shown, as
# sudo may ask for a password then.
watch_log() {
    local begun=$SECONDS last
    while sleep 1 && kill -0 "$$" 2>/dev/null; do
        last=$(tail -n 1 "$1" 2>/dev/null) || return 0
        [[ -z $last ]] || printf '\r\e[K    %d s: %s' "$((SECONDS - begun))" "${last:0:68}" >&2
    done
}

# --- Rust toolchain ---------------------------------------------------------------------------------

# Sets `cargo` to a cargo that is new enough, or exits.
need_cargo() {
    local line required="" found how
    while read -r line; do
        [[ $line =~ ^rust-version\ *=\ *\"([0-9.]+)\" ]] && required=${BASH_REMATCH[1]}
    done <"$root/Cargo.toml"
    how="get it from https://rustup.rs (Debian's and Ubuntu's own cargo packages are older): rustup toolchain install stable"

    cargo=$(type -P cargo) || cargo=${CARGO_HOME:-${HOME-}/.cargo}/bin/cargo
    [[ $cargo == /* ]] || cargo=$PWD/$cargo
    [[ -x $cargo ]] || cannot "cargo, the Rust build tool, is not here; Rust $required or newer is needed" "$how"
    found=$(ask_cargo --version 2>&1) || cannot "$cargo does not run: $found" "$how"
    # rustup may first print what it installs.
    [[ $'\n'$found =~ $'\n'cargo\ ([0-9.]+) ]] || cannot "$cargo answers \`$found\` to --version" "$how"
    found=${BASH_REMATCH[1]}
    [[ $(printf '%s\n' "$required" "$found" | sort -V | head -n 1) == "$required" ]] ||
        cannot "$cargo is version $found; Rust $required or newer is needed" "$how"
}

# Makes sure that cargo has the named components (rustfmt, clippy): rustup's minimal profile leaves them out.
need_components() {
    local component rustup missing=()
    for component in "$@"; do
        ask_cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || missing+=("$component")
    done
    (( ${#missing[@]} == 0 )) && return
    rustup=$(type -P rustup) || rustup=${cargo%/*}/rustup
    [[ -x $rustup ]] || cannot "the Rust toolchain lacks ${missing[*]}, which the checks need"
    say "installing: rustup component add ${missing[*]}"
    in_root "$rustup" component add "${missing[@]}" ||
        cannot "rustup could not add ${missing[*]}; is the network reachable?"
}

# --- The build --------------------------------------------------------------------------------------

# Sets `binary` to an up-to-date release build of pagewalk.
need_binary() {
    local target=${CARGO_TARGET_DIR:-$root/target}
    [[ $target == /* ]] || target=$PWD/$target
    binary=$target/release/pagewalk
    # The stamp carries the time at which the last good build *began*: cargo leaves the binary alone when
    # an edit did not change it, and an edit during a build must count as newer.
    # Its own name until then, so that two first starts at once do not take it from each other.
    local stamp=$binary.stamp begun=$binary.stamp.$$
    if [[ -x $binary && -e $stamp ]] && is_older_than "$stamp"; then
        return
    fi
    need_cargo
    mkdir -p "$target/release" 2>/dev/null && [[ -w $target/release ]] ||
        cannot "no build can be written to $target/release: set CARGO_TARGET_DIR to a folder of yours, and start again"
    if [[ -x $binary ]]; then
        say "sources changed: building"
    else
        say "first start: fetching crates and building (about 10 minutes on two processors; the last crate takes longest)"
    fi
    # From the root, so that the repository's own .cargo/config.toml counts wherever the user stands.
    local quiet=(--quiet)
    [[ ! -t 2 ]] || quiet=()
    in_root "$cargo" fetch "${quiet[@]}" --locked --target "$(host_triple)" ||
        cannot "the Rust crates that Cargo.lock names could not be fetched; the first build needs the network"
    : >"$begun"
    if ! build --release --locked --package pagewalk --target-dir "$target"; then
        rm -f "$begun"
        say "the build failed; cargo's messages are above"
        exit 1
    fi
    [[ -x $binary ]] || cannot "the build left no $binary; does a cargo configuration set another target?"
    mv "$begun" "$stamp"
}

# Runs cargo build with these options and shows progress: cargo's own bar on a terminal, else a line every
# $progress_seconds. Other messages of cargo are passed on.
build() {
    [[ ! -t 2 ]] || { in_root "$cargo" build "$@"; return; }
    in_root "$cargo" build "$@" 2>&1 | show_progress "$(count_crates)"
    return "${PIPESTATUS[0]}"
}

# Prints how many crates a build compiles. cargo marks those that it lists again.
count_crates() {
    ask_cargo tree --locked --package pagewalk --edges normal,build --prefix none 2>/dev/null |
        sed 's/ (\*)$//' | sort -u | grep -c .
}

# Reads cargo's messages; $1: the number of crates.
show_progress() {
    local line='' ended begun=0 started=$SECONDS said=$SECONDS
    while true; do
        IFS= read -r -t 2 line
        ended=$?
        if (( SECONDS - said >= progress_seconds )); then
            say "building crate $begun of $(( $1 < begun ? begun : $1 )), for $((SECONDS - started)) s"
            said=$SECONDS
        fi
        # A status above 128 means a timeout: nothing was read.
        (( ended <= 128 )) || continue
        (( ended == 0 )) || [[ -n $line ]] || return 0
        case $line in
            *' Compiling '*) (( ++begun )) ;;
            *' Downloading '* | *' Downloaded '* | *' Finished '* | *' Fresh '* | *' Blocking '*) ;;
            *) printf '%s\n' "$line" >&2 ;;
        esac
        (( ended == 0 )) || return 0
    done
}

# Runs cargo from the repository's root, so that the toolchain file of the user's current project is not used.
ask_cargo() { ( cd "$root" && exec "$cargo" "$@" </dev/null ); }

# Runs a command from the repository's root. It must not read the traced program's input or write to its output.
in_root() { ( cd "$root" && exec "$@" </dev/null >&2 ); }

# Whether no source is newer than the file $1.
is_older_than() {
    local newer
    newer=$(find "$root"/{.cargo,Cargo.lock,Cargo.toml,crates,machines,structures} -newer "$1" -print -quit) &&
        [[ -z $newer ]]
}

# The Rust name of this machine, such as x86_64-unknown-linux-gnu.
host_triple() { ask_cargo -vV | sed -n 's/^host: //p'; }
