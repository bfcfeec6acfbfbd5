#!/bin/sh
# monkey.sh - random keys: no crash, no leak, no frozen screen.
#
#   test/ui/monkey.sh [KEYS]        HX_SEED chooses the keys
#
# Presses keys of all kinds at changing sizes, on stores with snapshots being added, one
# with a recording, and on an empty one. What does not quit is allowed; a sanitizer's report or a hang fails.
set -u
bin=$(cd "${HX_UI_BIN:-test/ui}" && pwd)
keys=${1:-1500}
seed=${HX_SEED:-$(date +%s)}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset HEAPX_SCRIPT
echo "seed $seed"

awk -v seed="$seed" -v keys="$keys" 'BEGIN {
    srand(seed)
    n = split("j k Up Down PgUp PgDn Home End g G Ctrl-D Ctrl-U Enter Right l Esc Left h " \
              "Backspace L w o R i Tab Shift-Tab [ ] / n N < > I P : ? F1 a Ctrl-L Ctrl-Z " \
              "0 1 2 3 4 5 6 7 8 9 s + - * d f F \\ Space x Z Delete F3 \"0x55\" \"start\" \"[a\" \"sort\" \"日\" \"bytes>9\" Enter Enter Esc",
              key, " ")
    commands = split(":scheme type,:scheme root,:scheme module,:retainer node,:retainer," \
                     ":max-set 1,:max-set 0,:root a=cache_head,:root b=0x55d0c0de1000," \
                     ":root no=where,:root,:unroot cache,:unroot a,:analyse," \
                     ":screen pages,:screen sites,:threads,:screen centres", command, ",")
    for (i = 0; i < keys; i++) {
        if (rand() < 0.02)
            printf ":resize %d %d\n", 1 + rand() * 60, 1 + rand() * 200
        else if (rand() < 0.02)
            printf ":snapshot %s\n", rand() < 0.5 ? "first" : "last"
        else if (rand() < 0.03)
            print command[1 + int(rand() * commands)]
        else
            print key[1 + int(rand() * n)]
    }
}' >"$work/keys"

cd "$work" || exit 1
"$bin/make_store" full.db || exit 1
"$bin/make_store" recorded.db 3 60 recorded || exit 1
"$bin/make_store" empty.db 0 || exit 1
for store in full.db recorded.db empty.db; do
    # A quitting key may come; what follows it is of no interest.
    grep -v -E '^:(snapshot|scheme|retainer|max-set|root .*|unroot|analyse)' keys >"keys.$store"
    [ $store = empty.db ] || cp keys "keys.$store"
    if ! LC_ALL=C.UTF-8 timeout 300 "$bin/explore" $store "keys.$store" </dev/null >out 2>&1 || [ -s out ]; then
        echo "FAIL: HX_SEED=$seed on $store"
        cat out
        exit 1
    fi
done
