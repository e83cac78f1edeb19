#!/usr/bin/env bash
# Drives four desktop programs on a separate display, identically each time, and records their memory references:
# successors of the programs and tasks of Konireddygari (2008, section 2.5).
#
#   scripts/desktop.sh [--no-install] [-o FOLDER] [SESSION…] [-- WRAPPER…]
#
# Sessions: evince, evince-2 (a second input), abiword, gthumb, gnome-calculator; all by default. Each gives
# FOLDER/SESSION.pwt. With a WRAPPER the program is started by that instead of `pagewalk record`, for instance
#   scripts/desktop.sh evince -- pagewalk layout run evince.plan.toml --verify --
# The next key is pressed when the program is idle, however slow it is.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"

readonly instructions=${PAGEWALK_DESKTOP_INSTRUCTIONS:-1000000000}
readonly packages=(xvfb xdotool dbus evince abiword gthumb gnome-calculator)
mode=install folder=. sessions=() wrapper=()
while (( $# > 0 )); do
    case $1 in
        --no-install) mode=no-install ;;
        -o) folder=${2:?-o needs a folder}; shift ;;
        --) shift; wrapper=("$@"); break ;;
        evince | evince-2 | abiword | gthumb | gnome-calculator) sessions+=("$1") ;;
        *) say "no session $1: evince, evince-2, abiword, gthumb or gnome-calculator"; exit 2 ;;
    esac
    shift
done
(( ${#sessions[@]} > 0 )) || sessions=(evince evince-2 abiword gthumb gnome-calculator)

# --- input files ----------------------------------------------------------------------------------------

# A PDF of three pages of text, about 32 KB.
write_pdf() {
    python3 - "$1" <<'PYTHON'
import sys
objects = [b"<< /Type /Catalog /Pages 2 0 R >>", None, b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
pages = []
for page in range(3):
    lines = [f"({page + 1}.{line} Where a library lies decides which sets its pages fall into, "
             f"and so whom they drive away; {line * 7919 % 1000} of {page * 104729 % 1000}.) Tj T*" for line in range(80)]
    stream = ("BT /F1 8 Tf 9 TL 40 800 Td\n" + "\n".join(lines) + "\nET").encode()
    objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
                   b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects))
    pages.append(b"%d 0 R" % len(objects))
objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(pages), len(pages))
out, places = b"%PDF-1.4\n", []
for number, body in enumerate(objects, 1):
    places.append(len(out))
    out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
table = b"".join(b"%010d 00000 n \n" % place for place in places)
out += b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
    len(objects) + 1, table, len(objects) + 1, len(out))
open(sys.argv[1], "wb").write(out)
PYTHON
}

# A picture of about 8 KB.
write_picture() {
    python3 - "$1" <<'PYTHON'
import struct, sys, zlib
width = height = 56
rows = b"".join(b"\0" + bytes(((x * x + y * y) >> 4 & 255, x * y >> 5 & 255, (x ^ y) & 255)[c]
                for x in range(width) for c in range(3)) for y in range(height))
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                              + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
PYTHON
}

# --- pressing keys --------------------------------------------------------------------------------------

# Processor time of the program and its children so far, in ticks.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 + $14 + $15 }' "/proc/$program/stat" 2>/dev/null || echo ended; }

# Waits until the program has been idle for a second.
settle() {
    local before now still=0
    before=$(ticks)
    while (( still < 5 )); do
        sleep 0.2
        now=$(ticks)
        [[ $now != ended ]] || return 0
        if (( now > before + 1 )); then still=0; else still=$((still + 1)); fi
        before=$now
    done
}

# Keys go to the newest visible window of the program.
focus() {
    local windows
    windows=$(xdotool search --onlyvisible --pid "$program" 2>/dev/null || true)
    [[ -z $windows ]] || xdotool windowfocus "$(tail -n 1 <<<"$windows")" 2>/dev/null || true
}

press() {
    local key
    for key in "$@"; do focus; xdotool key --clearmodifiers "$key"; settle; done
}

write() { focus; xdotool type --clearmodifiers --delay 30 -- "$1"; settle; }

# --- the sessions ---------------------------------------------------------------------------------------

# Each: starts its program with `start`, does its task, ends the program as a user would.
session_evince() { # print to a file
    write_pdf a.pdf
    start evince a.pdf
    press ctrl+p Tab Home space Return ctrl+w
}

session_evince-2() { # another input: zoom in three times, out once, best fit, save
    write_pdf a.pdf
    start evince a.pdf
    press ctrl+plus ctrl+plus ctrl+plus ctrl+minus f ctrl+s Return ctrl+w
}

session_abiword() { # fifteen sentences, aligned at the right, saved
    start abiword
    local sentence
    for sentence in {1..15}; do write "This is sentence $sentence of a text that nobody will read. "; done
    press ctrl+r ctrl+s
    write "a"
    press Return ctrl+q
}

session_gthumb() { # a folder with one picture; select it, look at it
    mkdir pictures
    write_picture pictures/a.png
    start gthumb pictures
    press Home Right Return Escape ctrl+q
}

session_gnome-calculator() { # 45 x 3 / 7, a slip, a difference, a sum
    start gnome-calculator
    write "45*3/7"; press Return
    write "6"; press BackSpace
    write "9-"; write "4"; press Return
    write "+.03"; press Return ctrl+q
}

# Starts a program; returns when its window exists and it is idle.
start() {
    "${wrapper[@]}" "$@" >>"$log" 2>&1 &
    starter=$!
    local tries
    for (( tries = 0; tries < 3000; tries++ )); do
        kill -0 "$starter" 2>/dev/null || break
        program=$(window_owner || true)
        [[ -z $program ]] || { settle; return; }
        sleep 0.2
    done
    tail -n 5 "$log" >&2
    cannot "$1 showed no window on display $DISPLAY"
}

# The process of the first window that belongs to a process.
window_owner() {
    local window
    for window in $(xdotool search --onlyvisible --name '.' 2>/dev/null); do
        xdotool getwindowpid "$window" 2>/dev/null && return
    done
    return 1
}

# One session, with a separate display, bus, home and folder.
session() (
    local name=$1 bus code
    work=$(mktemp -d)
    log=$work/log
    trap 'kill "${xvfb:-}" "${bus_pid:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
    mkdir -p "$work/home/.cache" "$work/in" "$work/runtime"
    ln -s "$cache" "$work/home/.cache/pagewalk"
    chmod 700 "$work/runtime"
    # Programs use their defaults instead of the user's settings.
    unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
    export HOME=$work/home XDG_RUNTIME_DIR=$work/runtime LC_ALL=C.UTF-8 TZ=UTC GSETTINGS_BACKEND=memory GDK_BACKEND=x11 \
        GSK_RENDERER=cairo LIBGL_ALWAYS_SOFTWARE=1 NO_AT_BRIDGE=1 GTK_A11Y=none GIO_USE_VFS=local
    # A display resets when its last client leaves, and refuses a program that connects at that moment; xdotool connects
    # and leaves repeatedly.
    Xvfb -noreset -displayfd 3 -screen 0 1024x768x24 -nolisten tcp 3>"$work/display" >>"$log" 2>&1 &
    xvfb=$!
    until [[ -s $work/display ]]; do kill -0 "$xvfb" || cannot "no display: $(tail -n 1 "$log")"; sleep 0.1; done
    export DISPLAY=:$(<"$work/display")
    { read -r bus; read -r bus_pid; } < <(dbus-daemon --session --fork --print-address=1 --print-pid=1 2>>"$log")
    export DBUS_SESSION_BUS_ADDRESS=$bus
    [[ ${#wrapper[@]} -gt 0 ]] || wrapper=("$binary" record -q -o "$folder/$name.pwt" --max-instructions "$instructions" --)
    say "$name"
    cd "$work/in"
    "session_$name"
    wait "$starter" || { code=$?; tail -n 5 "$log" >&2; say "$name ended with $code"; exit 1; }
    [[ -z ${PAGEWALK_DESKTOP_LOG-} ]] || cat "$log" >&2
)

# --- main -----------------------------------------------------------------------------------------------

need_packages "$mode" valgrind gcc libc6-dev python3 "${packages[@]}"
need_binary
# Builds the engine once instead of in each session's home.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pagewalk
mkdir -p "$cache" "$folder"
folder=$(cd "$folder" && pwd)
for name in "${sessions[@]}"; do session "$name"; done
