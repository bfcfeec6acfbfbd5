#!/bin/sh
# types.sh - the types of C++ objects, in programs that are dynamic, static, static-pie,
# stripped, without RTTI, and with classes that came by dlopen.
set -u
build=${HX_BUILDDIR:-.}/test/live
[ "${HX_VALGRIND-}" != yes ] || exit 77
[ -x "$build/types_check" ] && [ -x "$build/classes" ] || {
    echo "not built: no C++ compiler"
    exit 77
}
failed=0
passed=0

try() {
    "$build/types_check" "$@"
    rc=$?
    [ "$rc" != 77 ] || exit 77
    if [ "$rc" = 0 ]; then
        passed=$((passed + 1))
    else
        echo "FAILED: $*"
        failed=$((failed + 1))
    fi
}

try "$build/classes"
try "$build/classes" "$build/classes_plugin.so"
try "$build/classes_fixed" "$build/classes_plugin.so"
try "$build/classes_static_stripped"
try "$build/classes_static_pie"
try "$build/classes_plain"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
