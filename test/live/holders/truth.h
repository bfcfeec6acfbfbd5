/* truth.h - what programs share whose holders are known by construction.
 *
 * A program builds its containers, comes to rest, walks them and says of each block who
 * holds it. Then it prints "ready" and waits until stdin ends:
 *
 *   int main(int argc, char **argv)
 *   {
 *       ... truth_random(n) while it builds ...
 *       truth_rest(argc, argv, tell, NULL);   // tell(NULL) walks and calls truth_...()
 *   }
 *
 * The file argv[1] (without it nothing is walked) has lines, addresses as decimal numbers:
 *
 *   root NAME ADDRESS SIZE   a place outside the heap that holds
 *   owns ADDRESS NAME        the block that contains ADDRESS belongs to what NAME holds
 *   borrows ADDRESS NAME     genuine pointers lead from NAME to it, but it is another's
 *   word ADDRESS             a genuine pointer: the program would follow it
 *   words ADDRESS            all genuine pointers of this block (or root) are told
 *
 * NAME is a root, never a container within the heap. Walking leaves nothing behind: it
 * has a stack of its own that goes away, its text is in a buffer without pointers, and
 * nothing is allocated. For C++ there is `truth_std.h`, which knows standard containers.
 */
#ifndef HX_TEST_HOLDERS_TRUTH_H
#define HX_TEST_HOLDERS_TRUTH_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRUTH_NAMES = 12 };

/* Who holds a block; each list ends with its first NULL. */
struct truth_holders {
    const char *owners[TRUTH_NAMES + 1];
    const char *borrowers[TRUTH_NAMES + 1];
};

/* One for each program: header only, so that a program is one source. */
static struct {
    uint64_t random;
    int fd;
    size_t used;
    char text[1 << 16]; /* lines only, never the bytes of a pointer */
} truth_state = {0x9e3779b97f4a7c15u, -1, 0, {0}};

/* The same numbers in each run: 0 to below - 1. Not for several threads at once. */
static inline uint64_t truth_random(uint64_t below)
{
    uint64_t x = truth_state.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    truth_state.random = x;
    return x * 0x2545f4914f6cdd1du % below;
}

static inline void truth_flush(void)
{
    for (size_t done = 0; done < truth_state.used;) {
        ssize_t n = write(truth_state.fd, truth_state.text + done, truth_state.used - done);
        if (n <= 0)
            abort();
        done += (size_t)n;
    }
    truth_state.used = 0;
}

static inline void truth_put(const char *text)
{
    size_t n = strlen(text);
    if (truth_state.used + n > sizeof truth_state.text)
        truth_flush();
    memcpy(truth_state.text + truth_state.used, text, n);
    truth_state.used += n;
}

static inline void truth_put_number(uint64_t value)
{
    char digits[24], *p = digits + sizeof digits;
    *--p = 0;
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    truth_put(p);
}

static inline void truth_line(const char *what, const void *address, const char *name)
{
    truth_put(what);
    truth_put_number((uint64_t)(uintptr_t)address);
    truth_put(name ? " " : "");
    truth_put(name ? name : "");
    truth_put("\n");
}

static inline void truth_root(const char *name, const volatile void *address, size_t size)
{
    truth_put("root ");
    truth_put(name);
    truth_put(" ");
    truth_put_number((uint64_t)(uintptr_t)address);
    truth_put(" ");
    truth_put_number(size);
    truth_put("\n");
}

/* A variable under its own name. */
#define TRUTH_ROOT(variable) truth_root(#variable, &(variable), sizeof(variable))

static inline void truth_owns(const void *block, const char *root)
{
    if (block)
        truth_line("owns ", block, root);
}

static inline void truth_borrows(const void *block, const char *root)
{
    if (block)
        truth_line("borrows ", block, root);
}

static inline void truth_held(const void *block, const struct truth_holders *by)
{
    for (const char *const *name = by->owners; *name; name++)
        truth_owns(block, *name);
    for (const char *const *name = by->borrowers; *name; name++)
        truth_borrows(block, *name);
}

/* `at`: the address of the pointer, e.g. &node->next; none where it is NULL. */
static inline void truth_word(const void *at)
{
    void *value;
    memcpy(&value, at, sizeof value);
    if (value)
        truth_line("word ", at, NULL);
}

static inline void truth_words(const void *block)
{
    if (block)
        truth_line("words ", block, NULL);
}

/* --- at rest ------------------------------------------------------------------------ */

static struct {
    void (*tell)(void *);
    void *of;
    ucontext_t here, there;
} truth_walk;

static inline void truth_walk_main(void)
{
    truth_walk.tell(truth_walk.of);
}

/* Walks, prints "ready" and returns when stdin ends. `of` goes to `tell`: a local, say. */
static inline void truth_rest(int argc, char **argv, void (*tell)(void *), void *of)
{
    if (argc > 1) {
        size_t size = 8 << 20;
        void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        truth_state.fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (stack == MAP_FAILED || truth_state.fd < 0)
            abort();
        truth_walk.tell = tell;
        truth_walk.of = of;
        getcontext(&truth_walk.there);
        truth_walk.there.uc_stack.ss_sp = stack;
        truth_walk.there.uc_stack.ss_size = size;
        truth_walk.there.uc_link = &truth_walk.here;
        makecontext(&truth_walk.there, truth_walk_main, 0);
        swapcontext(&truth_walk.here, &truth_walk.there);
        truth_flush();
        close(truth_state.fd);
        munmap(stack, size);
        memset(&truth_walk, 0, sizeof truth_walk);
        memset(truth_state.text, 0, sizeof truth_state.text);
    }
    char byte;
    if (write(STDOUT_FILENO, "ready\n", 6) == 6)
        while (read(STDIN_FILENO, &byte, 1) > 0)
            continue;
}

#endif
