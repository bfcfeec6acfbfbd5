#!/bin/sh
# run.sh - the explorer's displays against the expected ones.
#
#   test/ui/run.sh [SCREEN...]      UPDATE=1 writes the expected displays anew
#
# Each folder test/ui/SCREEN holds scripts, NAME.keys, and for each size a folder with the
# displays that they save. A script runs in a scratch folder on a fresh copy of one store,
# so that `:save-display x` there is compared with SCREEN/SIZE/x. A first line `# sizes: ...`
# says at which sizes (80x24 40x12), `# locale: C` in which locale (C.UTF-8), `# store: bare`
# that nothing is worked out in the store, `# store: recorded` that it has who allocated, `# store: crowd` that there are
# forty snapshots of many globals, `# store: one` that there is one snapshot, `# store: held` that it has holders, `# live: no` that
# there is no live target, `# needs: demangler` that it is skipped without one.
#
# commands/ has a script for each command of the help screen, which saves `before` and
# `after`; these must differ, so that no command is without effect or without a script.
set -u
srcdir=${srcdir:-$(dirname "$0")/../..}
srcdir=$(cd "$srcdir" && pwd)
bin=$(cd "${HX_UI_BIN:-test/ui}" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
unset NO_COLOR HEAPX_SCRIPT

fail() {
    echo "FAIL: $*"
    failed=1
}

header() { # FILE WORD DEFAULT
    value=$(sed -n "1,2s/^# $2: //p" "$1")
    echo "${value:-$3}"
}

compare() { # GOT EXPECTED
    if [ "${UPDATE:-}" ]; then
        mkdir -p "$(dirname "$2")" && cp "$1" "$2"
    elif ! diff -u "$2" "$1"; then
        fail "$2"
    fi
}

# Runs one script at one size; its displays stay in $work/run.
play() { # SCRIPT SIZE
    rm -rf "$work/run" && mkdir "$work/run" && cp "$work/$(header "$1" store full)" "$work/run/test.db" || exit 1
    (
        cd "$work/run" || exit 1
        locale=$(header "$1" locale C.UTF-8)
        HX_UI_LIVE=$(header "$1" live yes) LC_ALL=$locale COLUMNS=${2%x*} LINES=${2#*x} TERM=xterm \
            timeout $((60 * ${HX_SLOW:-1})) "$bin/explore" test.db "$1" </dev/null >out 2>&1
    ) || { fail "$1 at $2: exit $?"; cat "$work/run/out"; }
    if [ -s "$work/run/out" ]; then
        fail "$1 at $2: wrote to the terminal"
        head -c 2000 "$work/run/out" | cat -v
    fi
}

# Was it built with what the script needs?
can_play() { # SCRIPT
    case $(header "$1" needs nothing) in
    demangler) grep -q 'define HX_HAVE_DEMANGLER' "$bin/../../config.h" ;;
    esac
}

screen() { # FOLDER
    for script in "$1"/*.keys; do
        can_play "$script" || continue
        for size in $(header "$script" sizes "80x24 40x12"); do
            play "$script" "$size"
            for name in $(sed -n 's/^:save-display //p' "$script"); do
                if [ -f "$work/run/$name" ]; then
                    compare "$work/run/$name" "$1/$size/$name"
                else
                    fail "$script at $size: no display $name"
                fi
            done
        done
    done
}

# Commands whose effect no display shows, and why.
invisible="redraw quit close cancel"

command_scripts() {
    play "$srcdir/test/ui/help/table.keys" 80x24
    names=$(sed -n 's/^.*,:\([a-z!-]*\) *.*$/\1/p' "$work/run/help.csv" | sort -u)
    [ "$(echo "$names" | wc -l)" -gt 30 ] || fail "the help screen lists too few commands"
    for name in $names; do
        script=$srcdir/test/ui/commands/$name.keys
        if [ ! -f "$script" ]; then
            fail "command $name has no script"
            continue
        fi
        play "$script" 80x24
        case " $invisible " in *" $name "*) visible= ;; *) visible=1 ;; esac
        if [ ! -f "$work/run/before" ]; then
            fail "$script: no display"
        elif [ ! "$visible" ]; then
            case $name in
            redraw) cmp -s "$work/run/before" "$work/run/after" || fail "redraw changes the display" ;;
            *) [ ! -e "$work/run/after" ] || fail "$name does not end the script" ;;
            esac
        elif cmp -s "$work/run/before" "$work/run/after"; then
            fail "command $name changes nothing"
        else
            compare "$work/run/after" "$srcdir/test/ui/commands/80x24/$name"
        fi
    done
}

"$bin/make_store" "$work/full" || exit 1
"$bin/make_store" "$work/bare" 2 30 bare || exit 1
"$bin/make_store" "$work/recorded" 3 60 recorded || exit 1
"$bin/make_store" "$work/crowd" 40 8 crowd || exit 1
"$bin/make_store" "$work/one" 1 60 || exit 1
"$bin/make_store" "$work/held" 4 60 held || exit 1
if [ $# -eq 0 ]; then
    for folder in "$srcdir"/test/ui/*/; do
        case $folder in */commands/) ;; *) [ -z "$(ls "$folder"/*.keys 2>/dev/null)" ] || screen "${folder%/}" ;; esac
    done
    command_scripts
else
    for name; do
        case $name in commands) command_scripts ;; *) screen "$srcdir/test/ui/$name" ;; esac
    done
fi
exit $failed
