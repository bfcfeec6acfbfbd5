#!/bin/sh
# roots_header.sh - does heapx/roots.h compile and work in every way that programs are built?
#
# Several files of one program include it; they must share one array, and the note must be there
# once, or not at all where nothing is named.
set -eu
src=${HX_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat > one.c << 'END'
#include <heapx/roots.h>
extern struct heapx_roots *array(void);
extern void set(void);
static struct heapx_root roots[1];
int main(void)
{
    roots[0].name = "x";
    roots[0].pointer = &roots;
    heapx_set_roots(roots, 1);
    if (heapx_roots_v1.roots != roots || heapx_roots_v1.n != 1 || array() != &heapx_roots_v1)
        return 1;
    set();
    return heapx_roots_v1.roots == roots || heapx_roots_v1.n != 2;
}
END
cat > two.c << 'END'
#include <heapx/roots.h>
struct heapx_roots *array(void);
void set(void);
struct heapx_roots *array(void) { return &heapx_roots_v1; }
void set(void)
{
    static const struct heapx_root two[2] = {{"a", 0}, {"b", 0}};
    heapx_set_roots(two, 2);
}
END
cat > unused.c << 'END'
#include <heapx/roots.h>
int unused_file;
END
cat > plus.cpp << 'END'
#include <heapx/roots.h>
static heapx_root roots[3] = {{"a", nullptr}, {"b", roots}, {"c", "c"}};
int main()
{
    heapx_set_roots(roots);
    if (heapx_roots_v1.n != 3)
        return 1;
    heapx_set_roots(nullptr, 7);
    return heapx_roots_v1.n != 0;
}
END
echo 'int main(void) { return 0; }' > none.c

warn="-Wall -Wextra -Wpedantic -Wshadow -Wunused -Wundef -Werror -I$src/include"
failed=0
fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' log 2> /dev/null | head -n 5
    failed=1
}
notes()
{
    readelf -n "$1" 2> /dev/null | grep -c '^  heapx ' || true
}

# build COMPILER STANDARD OPTIONS SOURCES: runs it, and the note has to be there once.
build()
{
    # shellcheck disable=SC2086 # options are words
    if ! $1 -std=$2 $warn $3 $4 -o program > log 2>&1 || ! ./program > log 2>&1; then
        fail "$1 -std=$2 $3"
    elif [ "$(notes program)" != 1 ]; then
        fail "$1 -std=$2 $3: $(notes program) notes"
    fi
}

ways="-O0|-O2|-O2 -fPIC|-O2 -fno-common -s|-O2 -flto|-no-pie -fno-pie|-static|-static-pie -fPIE
-Os -ffunction-sections -fdata-sections -Wl,--gc-sections|-O2 -flto -fPIE -static-pie"
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
        build $cc c99 "$options -pedantic" "one.c two.c unused.c"
    done
    if command -v $cxx > /dev/null; then
        build $cxx c++11 -O2 plus.cpp
        build $cxx c++17 "-O0 -Wold-style-cast -Wzero-as-null-pointer-constant" plus.cpp
    fi
    # what names nothing keeps nothing
    # shellcheck disable=SC2086
    $cc $warn -Wl,--gc-sections unused.c none.c -o program > log 2>&1 || fail "$cc unused"
    [ "$(notes program)" = 0 ] || fail "$cc: a note without an array"
done
[ $compilers -gt 0 ] || exit 77
[ $failed = 0 ] && echo "roots_header: ok with $compilers compilers"
exit $failed
