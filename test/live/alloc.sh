#!/bin/sh
# alloc.sh - the glibc walker on the system's libc: programs that tell the truth about their
# heap, dynamic, static, static-pie and stripped.
set -u
build=${HX_BUILDDIR:-.}
check=$build/test/live/alloc_check
[ "${HX_VALGRIND-}" != yes ] || exit 77
[ -x "$check" ] || {
    echo "not built: $check"
    exit 77
}
passed=0
failed=0

# One run: the options of alloc_check before --, of the victim after it.
try() {
    if "$check" -x 300 "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $*"
        failed=$((failed + 1))
    fi
}

for name in alloc_victim alloc_victim_static alloc_victim_static_pie alloc_victim_stripped; do
    victim=$build/test/live/$name
    try -- "$victim" ops=10000 max=300000 seed=1
    try -- "$victim" threads=8 ops=2000 max=100000 exit seed=2
    try -- "$victim" block ops=5000 threads=2 max=300000 seed=4
    try -- "$victim" sbrk ops=10000 max=50000 seed=5
    try -e -- "$victim" ops=5000 max=50000 smash=5 seed=7
done
victim=$build/test/live/alloc_victim
try -- "$victim" threads=64 ops=300 max=20000 fill seed=3
try -- "$victim" threads=4 ops=2000 max=50000 fork seed=6
try -- "$victim" ops=0 seed=1
try -e -- "$victim" ops=2000 max=50000 dangle=1
try -t 20 -- "$victim" ops=2000 max=5000 forever

# tcaches with mappings of their own: what they hold is free, so little more than the program's
# blocks is found. A fork leaves tcaches without a thread behind.
GLIBC_TUNABLES=glibc.malloc.mmap_threshold=64
export GLIBC_TUNABLES
for name in alloc_victim alloc_victim_static; do
    try -x 25 -- "$build/test/live/$name" ops=5000 max=3000 seed=5
    try -x 25 -- "$build/test/live/$name" threads=3 ops=2000 max=100000 seed=8
    try -x 25 -- "$build/test/live/$name" threads=4 ops=2000 max=50000 fork seed=6
    try -x 25 -- "$build/test/live/$name" threads=8 ops=2000 max=100000 exit seed=2
done
unset GLIBC_TUNABLES

# What tunables change: no tcache, a small or a large one, many arenas' heaps on huge pages.
for tunable in tcache_count=0 tcache_count=100 tcache_max=200 mmap_threshold=4096 \
    mmap_max=0 hugetlb=1 top_pad=0 arena_max=1 mxfast=0 perturb=85; do
    GLIBC_TUNABLES=glibc.malloc.$tunable
    export GLIBC_TUNABLES
    try -- "$victim" threads=3 ops=2000 max=100000 seed=8
    unset GLIBC_TUNABLES
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
