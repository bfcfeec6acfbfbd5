#!/bin/sh
# terminal.sh - the explorer in a real terminal: start, resize, suspend, mouse, kill.
#
# Runs in tmux; without it the test is skipped (status 77).
set -u
command -v tmux >/dev/null || exit 77
bin=$(cd "${HX_UI_BIN:-test/ui}" && pwd)
work=$(mktemp -d) || exit 1
tm() { tmux -L "heapx-test-$$" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null; rm -rf "$work"' EXIT
failed=0
unset TMUX NO_COLOR HEAPX_SCRIPT
export LC_ALL=C.UTF-8

show() { tm capture-pane -t t -p; }

# Waits until the screen shows a line like the pattern.
await() { # WHAT PATTERN
    for _ in $(seq $((100 * ${HX_SLOW:-1}))); do
        show | grep -qE -e "$2" && return 0
        sleep 0.1
    done
    echo "FAIL: $1: no line like: $2"
    show
    failed=1
    return 1
}

keys() { tm send-keys -t t "$@"; }

start() { # ARGUMENT...
    keys "clear; $bin/explore $work/test.db $*; echo status \$?" Enter
    await start '\[1 [a-z]*\]'
}

# The process of the explorer, a child of the pane's shell.
pid() {
    shell=$(tm display-message -t t -p '#{pane_pid}')
    awk '{ print $NF }' "/proc/$shell/task/$shell/children"
}

terminal_is_sane() { # WHAT
    keys "stty -a | tr ' ;' '\\n\\n' | grep -cxE 'icanon|echo|isig|icrnl|opost'" Enter
    await "$1: cooked terminal" '^5$'
    keys clear Enter
}

"$bin/make_store" "$work/test.db" || exit 1
tm new-session -d -s t -x 80 -y 24 "env PS1='\$ ' ${SHELL_FOR_TEST:-bash} --norc --noprofile" || exit 77
await shell '^\$'

start - 0 2000
keys 8
await digit '\[8 objects\]'
keys j j Enter
await enter 'object$'
keys Escape
await escape '^>.*69.0K'
for size in 60x12 200x50 30x8 80x24; do
    tm resize-window -t t -x "${size%x*}" -y "${size#*x}"
    await "resize to $size" '^>.*69.0K'
done
tm resize-window -t t -x 19 -y 4
await 'tiny window' 'too small'
tm resize-window -t t -x 80 -y 24
await 'large again' '^>.*69.0K'

# X10 reports, which every terminal of tmux's kind understands: button, column, row + 32.
tm send-keys -t t -l "$(printf '\033[M\040\045\053\033[M\043\045\053')"
await click '^>.*65.0K'
tm send-keys -t t -l "$(printf '\033[M\140\045\053')"
await wheel '^>.*68.0K'
keys ':' 'set mouse off' Enter
await setting 'mouse off'

keys a
await 'snapshot under way' 'snapshot: copy'
keys G
await 'keys meanwhile' '283/283'
keys C-c
await cancel 'interrupted'

keys C-z
await suspend 'Stopped'
terminal_is_sane suspend
keys fg Enter
await fg '283/283'
keys g
await 'after fg' '^>.*71.0K'
keys Q
await 'shell again' '^\$ *$' # what is typed before curses has ended is thrown away
keys 'echo status $?' Enter
await quit 'status 0'
terminal_is_sane quit

for signal in TERM HUP INT SEGV ABRT; do
    start
    kill -$signal "$(pid)"
    case $signal in
    SEGV | ABRT) await "$signal" 'status 1' ;; # 1 where a sanitizer reports
    *) await "$signal" 'status 130' ;;
    esac
    keys clear Enter
    terminal_is_sane "$signal"
done

keys "clear; TERM=dumb $bin/explore $work/test.db" Enter
await dumb 'cannot move the cursor'
keys "clear; NO_COLOR=1 TERM=vt100 LC_ALL=C $bin/explore $work/test.db; echo status \$?" Enter
await 'vt100 in the C locale' '\[1 [a-z]*\]'
keys 2
await 'bars in the C locale' '####'
keys C-c
await 'Ctrl-C' 'status 0'
keys clear Enter
terminal_is_sane 'Ctrl-C'

# The same walk over all screens for the types of terminals that tmux can stand for.
for type in xterm-256color xterm screen screen-256color tmux linux vt100 vt220 rxvt; do
    infocmp "$type" >/dev/null 2>&1 || continue
    for locale in C.UTF-8 C; do
        keys "clear; TERM=$type LC_ALL=$locale $bin/explore $work/test.db" Enter
        for screen in 0 1 2 3 4 5 6 7 8 9; do
            keys "$screen"
            await "$type in $locale: screen $screen" "^ .*\\[$screen [a-z]*\\]"
        done
        keys Down Enter
        await "$type in $locale: arrow and Enter" ' (>|›) '
        keys Escape
        sleep 0.1
        keys Q
        await "$type in $locale: quit" '^\$ *$' || exit 1
    done
done
terminal_is_sane 'all types'

# What another program wrote over the screen goes with Ctrl-L.
start
keys 8
await 'screen 8' '\[8 objects\]'
tty=$(tm display-message -t t -p '#{pane_tty}')
printf '\033[5;5Hgarbage\033[2J' >"$tty"
await garbled '^$'
keys C-l
await redraw '\[8 objects\]'
keys ':suspend' Enter
await 'command suspend' 'Stopped'
keys fg Enter
await 'fg again' '\[8 objects\]'
keys Q
exit $failed
