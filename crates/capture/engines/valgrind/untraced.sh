#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Takes the place of a 32-bit tool, which this engine does not have: when a traced program starts a 32-bit program,
# Valgrind's launcher starts this with its options and the program, and the program runs on without Valgrind.

while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
    esac
done

# What Valgrind has added to the environment of the program that starts this one.
kept=
IFS=:
for library in $LD_PRELOAD; do
    case $library in
        */vgpreload_*) ;;
        *) kept=$kept${kept:+:}$library ;;
    esac
done
unset IFS VALGRIND_LAUNCHER VALGRIND_LIB LD_PRELOAD
[ -z "$kept" ] || export LD_PRELOAD="$kept"

exec "$@"
