/* heapx/roots.h - a program names what heapx should tell apart in its heap.
 *
 * Permission to use, copy, modify, and distribute this file for any purpose, with or without fee,
 * and without this notice, is hereby granted. It comes without any warranty.
 *
 *     #include <heapx/roots.h>
 *
 *     static struct heapx_root roots[2];
 *
 *     roots[0].name = "sessions";
 *     roots[0].pointer = session_table;
 *     roots[1].name = "cache";
 *     roots[1].pointer = &cache;
 *     heapx_set_roots(roots, 2);
 *
 * From then on each snapshot says how much memory every combination of these roots reaches:
 * `heapx report PID bins`. A pointer leads to an object of the heap, which counts itself, or into a
 * global variable, which stands for all pointers in it.
 *
 * The array and the names stay the program's and are read whenever heapx takes a snapshot. So they
 * have to live until another array, or none (NULL, 0), takes their place; entries may be changed
 * in between without a call. A null or dangling pointer does no harm: heapx says so in its
 * notes. heapx reads 255 bytes of a name and 65,536 roots of a process. A '+' in a name is shown
 * as '_', because it joins the names of roots that share memory.
 *
 * Nothing else is needed: no library, no option of the compiler or linker. A call costs a few
 * stores, and at all other times nothing happens. Each program and each shared object that
 * includes this header has an array of its own, however many of its files do; heapx reads all of
 * them, and finds them in stripped programs too. The array is memory of the program like any other:
 * what it points to is reachable for heapx when the array itself is.
 *
 * C99 and C++11, GCC or Clang, 64-bit ELF. Elsewhere the function is there and does nothing.
 */
#ifndef HEAPX_ROOTS_H
#define HEAPX_ROOTS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct heapx_root {
    const char *name;
    const void *pointer; /* to an object, or into a global variable */
};

#if defined __ELF__ && defined __LP64__ && defined __GNUC__

/* What heapx looks for: the symbol heapx_roots_v1, or, where symbols were stripped, a note of owner
 * "heapx" and type 1 that holds the distance to it from the note's own 8 bytes. This layout never
 * changes; another one would have another name. */
struct heapx_roots {
    const struct heapx_root *roots;
    size_t n;      /* 0 while the array changes */
    unsigned busy; /* a thread changes it now */
    unsigned unused[3];
};
extern struct heapx_roots heapx_roots_v1 __attribute__((visibility("hidden")));

/* One for all files of a module: variable and note are in one group, so the linker keeps both or
 * none of them, and the first of many. All files are assembled as one by link-time optimisation,
 * hence the test. */
__asm__(".ifndef heapx_roots_v1\n"
        "\t.pushsection .bss.heapx_roots_v1,\"awG\",%nobits,heapx_roots_v1,comdat\n"
        "\t.weak heapx_roots_v1\n"
        "\t.hidden heapx_roots_v1\n"
        "\t.type heapx_roots_v1,%object\n"
        "\t.size heapx_roots_v1,32\n"
        "\t.balign 16\n"
        "heapx_roots_v1:\n"
        "\t.zero 32\n"
        "\t.popsection\n"
        "\t.pushsection .note.heapx,\"aG\",%note,heapx_roots_v1,comdat\n"
        "\t.balign 4\n"
        "\t.4byte 6,8,1\n"
        "\t.ascii \"heapx\\0\\0\\0\"\n"
        "\t.8byte heapx_roots_v1-.\n"
        "\t.popsection\n"
        ".endif\n");

/* Makes these n roots those of the module that the call is in. From any thread, at any time. */
static inline void heapx_set_roots(const struct heapx_root *roots, size_t n)
{
    struct heapx_roots *mine = &heapx_roots_v1;
    const size_t none = 0;
    unsigned spins = 0;
    /* Another thread needs three stores for it. One that went away in the middle, as in the child
     * of a fork, is not waited for. */
    while (__atomic_exchange_n(&mine->busy, 1u, __ATOMIC_ACQUIRE) && ++spins < 1u << 20) {
    }
    /* Whoever stops the program in between sees no roots, never another array's length. */
    __atomic_store_n(&mine->n, none, __ATOMIC_RELAXED);
    __atomic_store_n(&mine->roots, roots, __ATOMIC_RELEASE);
    __atomic_store_n(&mine->n, roots ? n : none, __ATOMIC_RELEASE);
    __atomic_store_n(&mine->busy, 0u, __ATOMIC_RELEASE);
}

#else

static inline void heapx_set_roots(const struct heapx_root *roots, size_t n)
{
    (void)roots;
    (void)n;
}

#endif

#ifdef __cplusplus
}

/* The whole of an array. */
template <size_t n> inline void heapx_set_roots(const struct heapx_root (&roots)[n])
{
    heapx_set_roots(roots, n);
}
#endif

#endif
