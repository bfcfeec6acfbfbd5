#!/bin/sh
# glibc-versions.sh - the glibc walker on other versions than the system's.
#
# Takes Debian's libc6 packages of other releases from the mirror that apt is configured with
# (into a private folder; nothing is installed) and runs alloc_check with a victim that each
# of them loads. Skipped (77) when apt or the packages are not there.
set -u
build=${HX_BUILDDIR:-.}
check=$build/test/live/alloc_check
victim=$build/test/live/alloc_victim_old
releases='bullseye trixie forky'
known='2.31 2.36 2.41 2.43' # what src/attach/alloc/glibc_layout.c calls proven
[ -x "$check" ] && [ -x "$victim" ] || {
    echo "not built: $check, $victim"
    exit 77
}
[ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 77
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hx-glibc.XXXXXX") || exit 77
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# The first mirror of the system's own sources.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^ *#' | grep -o 'https\{0,1\}://[^ ]*debian/\{0,1\}\([[:space:]]\|$\)' | head -n 1 |
    tr -d ' \t')
mirror=${mirror:-http://deb.debian.org/debian}

# Fetches libc6 of release $1 into $tmp/$1/root.
fetch() {
    dir=$tmp/$1
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/root"
    : >"$dir/state/status"
    for source in "$mirror" http://archive.debian.org/debian; do
        echo "deb $source $1 main" >"$dir/sources.list"
        set -- "$1" -q -o Dir::State="$dir/state" -o Dir::State::status="$dir/state/status" \
            -o Dir::Cache="$dir/cache" -o Dir::Etc::sourcelist="$dir/sources.list" \
            -o Dir::Etc::sourceparts=- -o Acquire::Languages=none -o APT::Architecture=amd64 \
            -o APT::Sandbox::User=root -o Acquire::Retries=1 -o Acquire::http::Timeout=10
        release=$1
        shift
        if timeout 60 apt-get "$@" update >"$dir/log" 2>&1 &&
            (cd "$dir" && timeout 60 apt-get "$@" download libc6 >>"$dir/log" 2>&1) &&
            dpkg-deb -x "$dir"/libc6_*_amd64.deb "$dir/root" 2>>"$dir/log"; then
            return 0
        fi
        set -- "$release"
    done
    return 1
}

# Runs the victim under the libc in $1, which calls itself $2, with the arguments that follow.
try() {
    libs=$1
    name="glibc $2"
    shift 2
    preload=
    [ ! -e "$libs/libpthread.so.0" ] || preload="--preload libpthread.so.0"
    if "$check" -x 300 -n "$name" $expect -- "$libs/ld-linux-x86-64.so.2" --library-path "$libs" \
        $preload "$victim" "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $name: $expect $*"
        failed=$((failed + 1))
    fi
}

passed=0
failed=0
for release in $releases; do
    if ! fetch "$release"; then
        echo "libc6 of $release cannot be had:"
        tail -n 2 "$tmp/$release/log"
        continue
    fi
    libs=$(dirname "$(find "$tmp/$release/root" -name libc.so.6 | head -n 1)")
    version=$(cd "$tmp/$release" && echo libc6_*_amd64.deb | sed 's/^libc6_\([0-9]*\.[0-9]*\).*/\1/')
    case " $known " in
    *" $version "*) ;;
    *)
        echo "libc6 of $release is $version, which is not known yet"
        continue
        ;;
    esac
    expect=
    try "$libs" "$version" ops=10000 max=300000 seed=1
    try "$libs" "$version" threads=8 ops=2000 max=100000 exit seed=2
    try "$libs" "$version" threads=40 ops=500 max=20000 fill seed=3
    try "$libs" "$version" block ops=5000 threads=2 max=300000 seed=4
    try "$libs" "$version" sbrk ops=10000 max=50000 seed=5
    try "$libs" "$version" threads=4 ops=2000 max=50000 fork seed=6
    # tcaches with mappings of their own: what they hold must not count as live
    expect='-x 25'
    GLIBC_TUNABLES=glibc.malloc.mmap_threshold=64
    export GLIBC_TUNABLES
    try "$libs" "$version" ops=5000 max=3000 seed=5
    try "$libs" "$version" threads=3 ops=2000 max=100000 seed=8
    try "$libs" "$version" threads=4 ops=2000 max=50000 fork seed=6
    unset GLIBC_TUNABLES
    expect=-e
    try "$libs" "$version" ops=5000 max=50000 smash=5 seed=7
    expect='-t 10'
    try "$libs" "$version" ops=2000 max=5000 forever
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
