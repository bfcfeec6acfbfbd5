#!/bin/sh
# scc_header.sh - does heapx/scc.h compile and work in every way that programs are built?
#
# Several files of one program include it; they must share one listener, and note and probes must be
# there once, or not at all where nothing is marked. A listener of the test's own checks that each
# call arrives, and comes from the function that it stands in.
set -eu
src=${HX_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat > one.c << 'END'
#include <heapx/scc.h>
#include <string.h>
struct heapx_scc_module *module(void);
int two(void);
HEAPX_CENTRE(whole, "whole");
static char seen[256];
static unsigned n;
static const void *frames[8];
static void note(char what)
{
    seen[n++] = what;
}
static void push(const struct heapx_centre *centre)
{
    frames[0] = __builtin_frame_address(0);
    note(centre == &whole ? 'W' : centre->label[0]);
}
static void pop(const struct heapx_centre *centre)
{
    note(centre == &whole ? 'w' : '-');
}
static uint64_t capture(void)
{
    note('c');
    return 77;
}
static void enter(uint64_t id)
{
    note(id == 77 ? 'e' : '?');
}
static void leave(uint64_t id)
{
    note(id == 77 ? 'l' : '?');
}
static const struct heapx_scc_listener listener = {1, push, pop, capture, enter, leave};

static int scopes(int early)
{
    HEAPX_SCC("a");
    {
        HEAPX_SCC("b"); { HEAPX_SCC("c"); }
        if (early)
            return 1;
    }
    heapx_scc_push(&whole);
    heapx_scc_pop(&whole);
    return 0;
}
static int deferred(void)
{
    heapx_stack stack = heapx_scc_capture();
    {
        HEAPX_SCC_ENTER(stack);
    }
    heapx_scc_enter(stack);
    heapx_scc_leave(stack);
    return (int)stack.id;
}
int main(void)
{
    int wrong = scopes(0) != 0 || scopes(1) != 1 || two() != 5 || n != 0;
    wrong |= deferred() != 0 || heapx_scc_v1.captures != 0;
    wrong |= module() != &heapx_scc_v1;
    heapx_scc_v1.listener = &listener;
    scopes(0);
    scopes(1);
    wrong |= strcmp(seen, "abc--Ww-" "abc---") != 0 || !frames[0];
    n = 0;
    memset(seen, 0, sizeof seen);
    wrong |= deferred() != 77 || strcmp(seen, "celel") != 0 || two() != 5 || strcmp(seen, "celelt-");
    heapx_scc_v1.listener = 0;
    heapx_scc_v1.semaphore = 1; /* as if a probe was set */
    wrong |= !(heapx_scc_capture().id >> 63) || heapx_scc_v1.captures != 2;
    wrong |= heapx_scc_capture().id == heapx_scc_capture().id;
    scopes(0);
    return wrong || n != 7;
}
END
cat > two.c << 'END'
#include <heapx/scc.h>
struct heapx_scc_module *module(void);
int two(void);
struct heapx_scc_module *module(void) { return &heapx_scc_v1; }
int two(void)
{
    HEAPX_SCC("t");
    return 5;
}
END
cat > unused.c << 'END'
#include <heapx/scc.h>
int unused_file;
END
cat > off.c << 'END'
#define HEAPX_SCC_DISABLE
#include <heapx/scc.h>
HEAPX_CENTRE(whole, "whole");
int main(void)
{
    HEAPX_SCC("a");
    heapx_stack stack = heapx_scc_capture();
    HEAPX_SCC_ENTER(stack);
    heapx_scc_push(&whole);
    heapx_scc_pop(&whole);
    heapx_scc_enter(stack);
    heapx_scc_leave(stack);
    return (int)stack.id;
}
END
cat > plus.cpp << 'END'
#include <heapx/scc.h>
#include <functional>
#include <memory>
#include <string>
#if HEAPX_SCC_ENABLED
static std::string seen;
static void push(const heapx_centre *centre) { seen += centre->label; }
static void pop(const heapx_centre *) { seen += '-'; }
static uint64_t capture() { return 77; }
static void enter(uint64_t id) { seen += id == 77 ? '<' : '?'; }
static void leave(uint64_t id) { seen += id == 77 ? '>' : '?'; }
static const heapx_scc_listener listener = {1, push, pop, capture, enter, leave};
#endif
HEAPX_CENTRE(whole, "W");
template <class T> inline int twice(T x)
{
    HEAPX_SCC("t");
    return int(x + x);
}
inline int method() { HEAPX_SCC("m"); return 1; }
struct thing
{
    int operator()(int x) const { return x + 1; }
};
static void throws()
{
    heapx::scope in(&whole);
    HEAPX_SCC("x");
    throw 1;
}
int main()
{
#if HEAPX_SCC_ENABLED
    heapx_scc_v1.listener = &listener;
#endif
    try {
        throws();
    } catch (int) {
    }
    int got = twice(1) + twice(1.5) + method();
    std::function<int()> f = heapx::box([] { HEAPX_SCC("l"); return 3; });
    got += f();
    int calls = 0;
    auto counts = heapx::box([calls](int &n) mutable { n++; return calls++; });
    got += counts(got);
    const auto constant = heapx::box(thing());
    got += constant(1);
    auto owner = heapx::box(OWNER);
    got += owner(std::unique_ptr<int>(new int(6)));
    auto moved = std::move(owner);
    (void)moved;
    {
        HEAPX_SCC_ENTER(heapx_scc_capture());
    }
#if HEAPX_SCC_ENABLED
    heapx_scc_v1.listener = nullptr;
    if (seen != "Wx--t-t-m-<l-><><><><>")
        return 1;
#endif
    return got != 2 + 3 + 1 + 3 + 1 + 0 + 2 + 11;
}
END
sed 's/OWNER/[](std::unique_ptr<int> q) { return 5 + *q; }/' plus.cpp > plus11.cpp
sed -i 's/OWNER/[p = std::unique_ptr<int>(new int(5))](std::unique_ptr<int> q) { return *p + *q; }/' \
    plus.cpp
echo 'int main(void) { return 0; }' > none.c

warn="-Wall -Wextra -Wpedantic -Wshadow -Wunused -Wundef -Wconversion -Wsign-conversion -Werror"
warn="$warn -I$src/include"
failed=0
fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' log 2> /dev/null | head -n 8
    failed=1
}
# notes FILE: those of the module, and its probes
notes()
{
    readelf -n "$1" 2> /dev/null |
        awk '/^  heapx /{m++} /^    Provider: heapx/{p++} END{print m+0 "," p+0}'
}

# build COMPILER STANDARD OPTIONS SOURCES: runs it, and the note has to be there once.
build()
{
    # shellcheck disable=SC2086 # options are words
    if ! $1 -std=$2 $warn $3 $4 -o program > log 2>&1 || ! ./program > log 2>&1; then
        fail "$1 -std=$2 $3"
    elif [ "$(notes program)" != 1,5 ]; then
        fail "$1 -std=$2 $3: $(notes program) notes"
    fi
}

ways="-O0|-O1 -g -fno-asynchronous-unwind-tables|-O2|-O3 -fPIC -fno-plt|-O2 -fno-common -s|-O2 -flto
-no-pie -fno-pie|-static|-static-pie -fPIE
-Os -ffunction-sections -fdata-sections -Wl,--gc-sections -fcf-protection"
compilers=0
for cc in gcc clang; do
    command -v $cc > /dev/null || continue
    compilers=$((compilers + 1))
    cxx=g++
    [ $cc = gcc ] || cxx=clang++
    rest=$(echo "$ways" | tr '\n' '|')
    while [ -n "$rest" ]; do
        options=${rest%%|*}
        rest=${rest#*|}
        case "$cc $options" in
        *-flto*) $cc -flto none.c -o program 2> /dev/null || continue ;; # not with every linker
        esac
        build $cc c99 "$options" "one.c two.c unused.c"
    done
    build $cc c11 -O2 "one.c two.c unused.c"
    build $cc gnu17 -O3 "one.c two.c unused.c"
    if command -v $cxx > /dev/null; then
        build $cxx c++11 -O2 plus11.cpp
        build $cxx c++14 -O3 plus.cpp
        build $cxx c++17 "-O0 -Wold-style-cast -Wzero-as-null-pointer-constant" plus.cpp
        build $cxx c++20 "-O2 -fPIC" plus.cpp
        # shellcheck disable=SC2086
        { $cxx -std=c++17 $warn -DHEAPX_SCC_DISABLE plus.cpp -o program > log 2>&1 && ./program; } ||
            fail "$cxx switched off"
    fi
    # shellcheck disable=SC2086
    { $cc $warn off.c -o program > log 2>&1 && ./program && [ "$(notes program)" = 0,0 ]; } ||
        fail "$cc switched off"
    # a shared object has one of its own, also without symbols
    # shellcheck disable=SC2086
    $cc $warn -O2 -fPIC -shared -s two.c unused.c -o libtwo.so > log 2>&1 || fail "$cc -shared"
    [ "$(notes libtwo.so)" = 1,5 ] || fail "$cc -shared: $(notes libtwo.so) notes"
    # what marks nothing keeps nothing
    # shellcheck disable=SC2086
    $cc $warn -Wl,--gc-sections unused.c none.c -o program > log 2>&1 || fail "$cc unused"
    [ "$(notes program)" = 0,0 ] || fail "$cc: notes without a region: $(notes program)"
done
[ $compilers -gt 0 ] || exit 77
[ $failed = 0 ] && echo "scc_header: ok with $compilers compilers"
exit $failed
