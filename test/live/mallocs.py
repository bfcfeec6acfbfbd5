#!/usr/bin/env -S python3 -B
"""mallocs.py - whose malloc does a program call?

Programs whose blocks come from another allocator than the C library's, linked, preloaded and built
in, exported under all of glibc's names or hidden: what nobody walks is not reported as an empty
heap, and never as complete. Wrappers around the C library's malloc change nothing.
"""
import os
import re
import subprocess

import live
from live import check, heapx

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *keep[1000];
int main(void)
{
    for (int i = 0; i < 1000; i++) {
        keep[i] = malloc(100 + i);
        memset(keep[i], 1, 100);
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""
# Hands out a pool from its beginning to its end.
ALLOCATOR = """
#include <stddef.h>
#include <string.h>
static _Alignas(16) char pool[8 << 20];
static size_t used;
NAMED void *malloc(size_t n)
{
    size_t *block = (size_t *)(pool + used);
    used += (n + 31) & ~(size_t)15;
    *block = n;
    return block + 2;
}
NAMED void free(void *p) { (void)p; }
#ifndef FEW
NAMED void *calloc(size_t n, size_t m) { return malloc(n * m); }
NAMED void *realloc(void *p, size_t n)
{
    size_t old = p ? ((size_t *)p)[-2] : 0;
    void *block = malloc(n);
    return p ? memcpy(block, p, old < n ? old : n) : block;
}
#endif
#ifdef AS_GLIBC
void *__libc_malloc(size_t n) { return malloc(n); }
void __libc_free(void *p) { free(p); }
void *__libc_calloc(size_t n, size_t m) { return calloc(n, m); }
#endif
"""
WRAPPER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
static void *(*next)(size_t);
void *malloc(size_t n)
{
    if (!next)
        next = dlsym(RTLD_NEXT, "malloc");
    return next(n);
}
"""
INTERNAL = """
#include <stddef.h>
void *__libc_malloc(size_t n);
void *malloc(size_t n) { return __libc_malloc(n); }
"""


# Its data begin with what the linker of Go writes there.
GO = r"""
char first[64] = "\xff Go buildinf:";
__asm__(".globl _start\n_start: mov $1, %eax\n mov $1, %edi\n lea said(%rip), %rsi\n mov $6, %edx\n syscall\n"
        "again: mov $34, %eax\n syscall\n jmp again\nsaid: .ascii \"ready\\n\"\n");
"""


def build(folder, name, sources, *flags):
    paths = []
    for i, text in enumerate(sources):
        paths.append(os.path.join(folder, f"{name}.{i}.c"))
        with open(paths[-1], "w") as file:
            file.write(text)
    out = os.path.join(folder, name)
    subprocess.run(["gcc", "-O1", "-fno-builtin", *paths, "-o", out, *flags], check=True)
    return out


def snapshot(folder, program, preload, status, checked=False):
    store = os.path.join(folder, "store")
    env = dict(os.environ, LD_PRELOAD=preload) if preload else None
    with live.Target([program], env=env) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store, ok=(status,))
        if checked:
            heapx("check", target.pid, "leaked_bytes > 0", ok=(status,))
    row = live.row(store, "select * from snapshots")
    os.unlink(store)
    check(row["complete"] == (status == 0), f"{program} {preload}: {row}")
    return row


def foreign(folder, program, preload=None):
    """Nothing of its heap is known."""
    row = snapshot(folder, program, preload, 3)
    for name in ("heap_bytes", "heap_objects", "leaked_bytes", "reachable_objects"):
        check(row[name] is None, f"{program} {preload}: {name} was not measured: {row}")


def half(folder, program, preload=None):
    """The C library's blocks are known, and that there are others."""
    row = snapshot(folder, program, preload, 3)
    check(row["heap_bytes"] is not None and "malloc of its own" in row["notes"], f"{row}")


def named(folder, program, preload, name):
    """It is not walked, but known by a function."""
    row = snapshot(folder, program, preload, 3)
    check(name in row["notes"], f"{preload}: {row['notes']}")


def known(folder, program, preload=None):
    row = snapshot(folder, program, preload, 0)
    check(row["heap_bytes"] >= 1000 * 100, f"{program} {preload}: {row}")


def whose(folder):
    plain = build(folder, "plain", [PROGRAM])
    shared = ["-shared", "-fPIC"]
    library = build(folder, "libpool.so", [ALLOCATOR], "-DNAMED=", "-DAS_GLIBC", *shared)
    few = build(folder, "libfew.so", [ALLOCATOR], "-DNAMED=", "-DFEW", *shared)
    wrapper = build(folder, "libwrapper.so", [WRAPPER], *shared)
    internal = build(folder, "libinternal.so", [INTERNAL], *shared)
    known(folder, plain)
    known(folder, build(folder, "static", [PROGRAM], "-static"))
    known(folder, plain, wrapper)
    known(folder, plain, internal)
    snapshot(folder, plain, library, 3, checked=True)
    foreign(folder, plain, library)
    foreign(folder, build(folder, "linked", [PROGRAM], library))
    foreign(folder, build(folder, "inside", [PROGRAM, ALLOCATOR], "-DNAMED=", "-DAS_GLIBC"))
    foreign(folder, build(folder, "alone", [PROGRAM, ALLOCATOR], "-DNAMED=", "-static"))
    half(folder, build(folder, "hidden", [PROGRAM, ALLOCATOR],
                       '-DNAMED=__attribute__((visibility("hidden")))'))
    snapshot(folder, plain, few, 3)
    google = build(folder, "libgoogle.so", [ALLOCATOR, "void TCMallocInternalMalloc(void) {}"], "-DNAMED=", *shared)
    named(folder, plain, google, "libgoogle.so (Google's tcmalloc)")


def runtimes(folder):
    """A language with a heap of its own is named."""
    for symbol, name in (("JNI_CreateJavaVM", "Java"),
                         ("_ZN2v87Isolate3NewERKNS0_12CreateParamsE", r"JavaScript \(V8\)"), ("zend_mm_gc", "PHP"),
                         ("coreclr_initialize", r"\.NET"), ("caml_gc_full_major", "OCaml"),
                         ("hs_init_ghc", r"Haskell \(GHC\)"), ("GC_gcollect", "Boehm's collector")):
        library = build(folder, "libruntime.so", [f"int {symbol}(void) {{ return 0; }}"], "-shared", "-fPIC")
        notes = snapshot(folder, build(folder, "plain", [PROGRAM]), library, 0)["notes"]
        check(re.search(f"a process of {name}: ", notes), notes)
    go = build(folder, "go", [GO], "-nostdlib", "-static")
    notes = snapshot(folder, go, None, 3)["notes"]
    check(re.search("a process of Go: .*pprof tells them", notes), notes)
    store, keys, display = (os.path.join(folder, name) for name in ("go.hx", "keys", "display"))
    with open(keys, "w") as file:
        file.write(f"5\n:save-display {display}\n")
    with live.Target([go]) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store, ok=(3,))
    heapx("open", store, "--script", keys)
    with open(display) as file:
        said = " ".join(file.read().split())
    check("Screen 0 shows the resident memory. Of a program that calls malloc," in said, said)


if __name__ == "__main__":
    live.main(whose, runtimes)
