#!/bin/bash
# completion.sh - does the completion offer what the program takes, as a shell would ask for it?
#
# Words are taken apart at : and = as readline does it. Then a real shell is asked through a
# terminal, where there is a python3 for that.
set -u
heapx=$HX_BUILDDIR/heapx
export HEAPX_COMPLETION_SECONDS=20 # however busy the machine is
. "$HX_SRCDIR/completion/heapx" || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/hx-completion.XXXXXX") || exit 1
trap '[ -z "${victim-}" ] || kill "$victim"; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

# split LINE: COMP_WORDS and COMP_CWORD for a line with the cursor at its end.
split() {
    local rest=$1 token=
    COMP_WORDS=()
    while [ -n "$rest" ]; do
        case $rest in
        [:=]*)
            [ -z "$token" ] || COMP_WORDS+=("$token")
            token=
            COMP_WORDS+=("${rest%"${rest#?}"}")
            ;;
        ' '*)
            [ -z "$token" ] || COMP_WORDS+=("$token")
            token=
            ;;
        *) token+=${rest%"${rest#?}"} ;;
        esac
        rest=${rest#?}
    done
    case $1 in
    *[:=]) ;; # the sign itself is the last word
    *) COMP_WORDS+=("$token") ;;
    esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_LINE=$1
    COMP_POINT=${#1}
}

offered() {
    split "$1"
    COMPREPLY=()
    _heapx heapx "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]-}"
}

# gives LINE WORD...: just these are offered, in any order.
gives() {
    local line=$1 got wanted
    shift
    offered "$line"
    got=$(printf '%s\n' "${COMPREPLY[@]-}" | sort)
    wanted=$(printf '%s\n' "${@-}" | sort)
    if [ "$got" != "$wanted" ]; then
        echo "FAIL: '$line' offers:" $got "and not:" $wanted
        failed=1
    fi
}

# has LINE WORD...: these are among what is offered.
has() {
    local line=$1 word
    shift
    offered "$line"
    for word; do
        case " ${COMPREPLY[*]-} " in
        *" $word "*) ;;
        *)
            echo "FAIL: '$line' does not offer $word"
            failed=1
            ;;
        esac
    done
}

# --- commands, options and their words ------------------------------------------------
gives 'heapx att' attach
gives 'heapx re' record report
has 'heapx ' attach open snap run doctor help --version
for command in $("$heapx" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort -u); do
    has 'heapx ' "$command"
    has "heapx help " "$command"
    has "heapx $command --" $("$heapx" help "$command" | sed -n 's/^  \(-., \)\?\(--[a-z-]*\).*/\2/p')
done
gives 'heapx snap 1 --du' --duration
gives 'heapx report x roots --scheme ' root module thread type site
gives 'heapx report x roots --scheme t' thread type
gives 'heapx report x roots --scheme=t' thread type
gives 'heapx report x roots --format ' text json csv
gives 'heapx report x roots --color=' auto always never
gives 'heapx snap 1 --pause p' precopy
gives 'heapx report x roots --sort ret' retained_bytes
gives 'heapx report x roots --sort bytes:' asc desc
gives 'heapx report x roots --where dir' direct_objects
gives 'heapx report x reta' retainers retainer_members retainer_entries
gives 'heapx report --limit 3 x retainer_' retainer_members retainer_entries
gives 'heapx check x leaked_b' leaked_bytes
gives 'heapx check x leaked_bytes types.conf' types.confidence
gives 'heapx check x ledgers.'
gives 'heapx report x roots --limit '
gives 'heapx demo x'
gives 'heapx help fo' formats
gives 'heapx nonsense '
for format in $(_heapx_words formats); do
    has 'heapx export x ' "$format"
    gives "heapx export x $format --by " $(_heapx_words "by $format")
done

# --- files, snapshots, processes --------------------------------------------------------
mkdir sub 'a folder'
touch one.hx
gives 'heapx open o' one.hx
gives 'heapx snap 1 -o o' one.hx
gives 'heapx open x --sysroot s' sub
gives 'heapx report on' one.hx
words=("$heapx")
"$heapx" run -o two.hx --every 100ms --count 2 -- sleep 0.6 2>/dev/null
n=$(sqlite3 two.hx 'SELECT count(*) FROM snapshots' 2>/dev/null || echo 2)
PATH=$HX_BUILDDIR:$PATH
gives 'heapx diff two.hx:' first last $(seq "$n")
gives 'heapx diff two.hx:1 two.hx:f' first
gives 'heapx report two.hx roots --snapshot ' first last all $(seq "$n")
gives 'heapx report one.hx roots --snapshot ' first last all
name=hxv$$ # no other run of this test has it
cp "$(command -v sleep)" "$name"
"./$name" 60 &
victim=$!
sleep 0.2
gives "heapx attach $name" "$victim"
gives "heapx attach $victim" "$victim"
has 'heapx attach ' "$victim ($(cat /proc/$victim/comm))"
gives "heapx why $victim" "$victim"

# --- a real shell ------------------------------------------------------------------------
if command -v python3 >/dev/null; then
    cat >rc <<END
PS1='> '
bind 'set enable-bracketed-paste off' 'set bell-style none' 2>/dev/null
. "$HX_SRCDIR/completion/heapx"
END
    python3 - "$dir" <<'END' || failed=1
import os, pty, select, sys, time

pid, tty = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", INPUTRC="/dev/null", HISTFILE="/dev/null")
    os.execvp("bash", ["bash", "--noprofile", "--rcfile", "rc", "-i"])

def until(text, seconds=10.0):
    seen, end = b"", time.monotonic() + seconds
    while text not in seen and time.monotonic() < end:
        if select.select([tty], [], [], 0.1)[0]:
            try:
                seen += os.read(tty, 4096)
            except OSError:
                break
    return seen

bad = 0
until(b"> ")
for typed, wanted in ((b"heapx rep\t", b"heapx report "),
                      (b"two.hx mprof_he\t", b"mprof_held "),
                      (b"--scheme=thr\t", b"--scheme=thread "),
                      (b"--snapshot la\t", b"--snapshot last ")):
    os.write(tty, typed)
    seen = until(wanted)
    if wanted not in seen:
        print(f"FAIL: a shell answers {typed!r} with {seen!r}")
        bad = 1
os.write(tty, b"\x15heapx diff two.hx:la\t")
seen = until(b"two.hx:last ")
if b"two.hx:last " not in seen:
    print(f"FAIL: a shell answers with {seen!r}")
    bad = 1
os.write(tty, b"\x15exit\r")
until(b"never", 0.5)
os.close(tty)
sys.exit(bad)
END
fi
exit "$failed"
