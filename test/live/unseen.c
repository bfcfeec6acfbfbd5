/* unseen.c - a program that keeps blocks where one has to look twice.
 *
 *   unseen
 *
 * Each block is held once: by a page without the right to read it, inside a block or in memory of
 * its own; by shared memory that was made read-only; by a half of a vector register. Says
 * "BLOCK NAME ADDRESS" for each, "lacks NAME" for what this machine has not, "zmm OFFSET" of
 * its state, then "ready", and works until stdin ends. */
#include "victim.h"

#include <cpuid.h>
#include <pthread.h>

enum { PAGE = 4096, BYTES = 777 };

/* A block whose address is nowhere yet: inverted. */
static uint64_t hide(const char *name)
{
    char line[64];
    void *p = block_new(BYTES, TRUTH_LIVE);
    snprintf(line, sizeof line, "BLOCK %s %llu\n", name, (unsigned long long)(uintptr_t)p);
    say(line);
    memset(line, 0, sizeof line);
    return ~(uint64_t)(uintptr_t)p;
}

static void put(void *at, const char *name)
{
    *(uint64_t *)at = ~hide(name);
}

static void *map(int flags, int fd)
{
    char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    return p == MAP_FAILED ? need(NULL) : p;
}

static void protect(void *at, int prot)
{
    if (mprotect(at, PAGE, prot))
        abort();
}

void *held[2]; /* the blocks whose pages are hidden */

/* The middle page of a block in an arena, and one of a block that is a mapping. */
static void hide_pages(void)
{
    char *small = need(aligned_alloc(PAGE, 3 * PAGE)), *large = need(malloc(64 * PAGE));
    memset(small, 0, 3 * PAGE);
    memset(large, 0, 64 * PAGE);
    char *inside = large + (PAGE - (uintptr_t)large % PAGE) + 4 * PAGE;
    put(small + PAGE + 64, "page_in_arena");
    put(inside + 128, "page_in_mapping");
    held[0] = small;
    held[1] = large;
    protect(small + PAGE, PROT_NONE);
    protect(inside, PROT_NONE);
    char *own = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    put(own + PAGE, "page_of_its_own");
    protect(own + PAGE, PROT_NONE);
    put(own + 2 * PAGE, "execute_only");
    protect(own + 2 * PAGE, PROT_EXEC);
}

static void hide_shared(void)
{
    char *p = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    put(p + PAGE, "shared_anonymous");
    mprotect(p, 3 * PAGE, PROT_READ);
    int fd = memfd_create("unseen", MFD_CLOEXEC);
    if (ftruncate(fd, 3 * PAGE))
        abort();
    p = map(MAP_SHARED, fd);
    put(p + PAGE, "shared_memfd");
    mprotect(p, 3 * PAGE, PROT_READ);
    p = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    put(p, "shared_none");
    mprotect(p, 3 * PAGE, PROT_NONE);
}

/* Where the state of a processor has the upper halves of zmm0 to zmm15. */
static unsigned zmm_offset(void)
{
    unsigned size, offset, flags, none;
    return __get_cpuid_count(0xd, 6, &size, &offset, &flags, &none) ? offset : 0;
}

/* --- vector registers ------------------------------------------------------------------ */

static volatile bool ending;
static atomic_int spinning;

/* The block is in the word of the register that `load` puts it into, and nowhere else. */
#define SPIN(name, load)                                                                           \
    static NOINLINE void name(uint64_t not_held)                                                   \
    {                                                                                              \
        __asm__ volatile("not %0\n\tvpxor %%xmm0, %%xmm0, %%xmm0\n\t" load "\n\t"                  \
                         "xor %k0, %k0\n\tlock incl %1\n"                                          \
                         "1:\tpause\n\tcmpb $0, %2\n\tje 1b\n\tvzeroupper"                         \
                         : "+r"(not_held), "+m"(spinning)                                          \
                         : "m"(ending)                                                             \
                         : "memory", "cc", "xmm0", "xmm1", "xmm2");                                \
    }

SPIN(spin_xmm, "vmovq %0, %%xmm2")
SPIN(spin_ymm, "vmovq %0, %%xmm1\n\tvinserti128 $1, %%xmm1, %%ymm0, %%ymm2\n\t"
               "vpxor %%xmm1, %%xmm1, %%xmm1")
SPIN(spin_zmm, "vmovq %0, %%xmm1\n\tvinserti64x4 $1, %%ymm1, %%zmm0, %%zmm2\n\t"
               "vpxor %%xmm1, %%xmm1, %%xmm1")
SPIN(spin_zmm16, "vmovq %0, %%xmm16\n\tvmovdqa64 %%xmm16, %%xmm31\n\t"
                 "vpxorq %%xmm16, %%xmm16, %%xmm16")
SPIN(spin_zmm31, "vmovq %0, %%xmm1\n\tvinserti64x2 $3, %%xmm1, %%zmm0, %%zmm30\n\t"
                 "vpxor %%xmm1, %%xmm1, %%xmm1")

static struct spinner {
    const char *name;
    void (*spin)(uint64_t not_held);
    int needs; /* 0: AVX, 1: AVX2, 2: AVX-512 */
    uint64_t not_held;
} spinners[] = {
    {"register_xmm", spin_xmm, 0, 0},     {"register_ymm", spin_ymm, 1, 0},
    {"register_zmm", spin_zmm, 2, 0},     {"register_xmm31", spin_zmm16, 2, 0},
    {"register_zmm30", spin_zmm31, 2, 0},
};

static void *run(void *arg)
{
    struct spinner *spinner = arg;
    spinner->spin(spinner->not_held);
    return NULL;
}

static bool has(int level)
{
    return level == 0   ? __builtin_cpu_supports("avx")
           : level == 1 ? __builtin_cpu_supports("avx2")
                        : __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                              __builtin_cpu_supports("avx512dq");
}

static void hide_all(void *arg)
{
    (void)arg;
    hide_pages();
    hide_shared();
    for (size_t i = 0; i < sizeof spinners / sizeof *spinners; i++)
        if (has(spinners[i].needs))
            spinners[i].not_held = hide(spinners[i].name);
    (void)hide("leaked");
}

int main(void)
{
    char line[64], byte;
    pthread_t thread;
    int n = 0;
    end_with_parent();
    truth_init(1000);
    on_deep_stack(hide_all, NULL);
    wipe_stack();
    for (size_t i = 0; i < sizeof spinners / sizeof *spinners; i++) {
        if (spinners[i].not_held) {
            n++;
            pthread_create(&thread, NULL, run, &spinners[i]);
            continue;
        }
        snprintf(line, sizeof line, "lacks %s\n", spinners[i].name);
        say(line);
    }
    while (atomic_load(&spinning) < n)
        usleep(1000);
    snprintf(line, sizeof line, "zmm %u\n", zmm_offset());
    say(line);
    say("ready\n");
    while (read(0, &byte, 1) > 0)
        ;
    ending = true;
    return 0;
}
