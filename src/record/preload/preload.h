/* preload.h - the library inside a recorded program: what its parts share.
 *
 * Everything here may run before libc's constructors, in the middle of the program's malloc, in
 * its signal handlers, and in a child between fork and exec. So: no allocation, no lock, no errno,
 * no stdio; system calls are made directly, and on the usual path there are none. What the library
 * holds of the program is memory only: no descriptor, no thread, no timer.
 *
 * The state is global by need: the program calls malloc(), which has no parameter for it.
 */
#ifndef HX_RECORD_PRELOAD_PRELOAD_H
#define HX_RECORD_PRELOAD_PRELOAD_H

#include "record/preload/unwind.h"
#include "record/ring.h"
#define HEAPX_SCC_DISABLE /* its types only */
#include "heapx/scc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* What the parts share is addressed directly; only what is exported can be replaced. */
#pragma GCC visibility push(hidden)

#define HX_EXPORT    __attribute__((visibility("default")))
#define HX_LIKELY(x) __builtin_expect(!!(x), 1)
#define HX_RARELY(x) __builtin_expect(!!(x), 0)

/* --- system calls, which leave errno alone -------------------------------------------------- */

static inline long hx_sys6(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#define HX_SYS(nr, a, b, c, d) hx_sys6((nr), (long)(a), (long)(b), (long)(c), (long)(d), 0L, 0L)

/* --- the process ---------------------------------------------------------------------------- */

/* Is anything recorded, and how? The one word that each call reads. Its page is MADV_WIPEONFORK,
 * so a child finds 0 after any kind of fork. */
enum hx_gate_mode {
    HX_GATE_SHUT = 0, /* not yet, not any more, or a child that has not looked yet */
    HX_GATE_ALL,      /* each allocation */
    HX_GATE_SAMPLED,  /* by bytes; the addresses of samples are known (sample.c) */
    HX_GATE_SIZES,    /* each of the wanted sizes */
};
struct hx_gate {
    _Alignas(4096) _Atomic uint32_t mode;
    uint8_t rest[4092];
};
extern struct hx_gate hx_gate;

enum hx_stage {
    HX_STAGE_NEW = 0,
    HX_STAGE_STARTING,
    HX_STAGE_RECORDS,
    HX_STAGE_OFF, /* for good */
};

/* Captured stacks are known by a number of the region, so that none is mistaken for one of another
 * process. Regions of so many parents are remembered. */
#define HX_STAMPS 8

/* What one ring's writer needs; private, one for each ring, with its unwinder's memory behind. */
struct hx_writer {
    struct hx_ring *ring;
    struct hx_unwind_thread *unwind;
    uint64_t head;  /* as in the ring */
    uint64_t limit; /* up to there is surely room, and nobody has to be woken */
    bool visit;     /* for one event only: its thread has given back its ring already */
};

struct hx_process {
    _Atomic int stage; /* enum hx_stage */
    struct hx_region *region;
    struct hx_unwind *unwind;
    uint8_t *own; /* all that was reserved, own_bytes of it */
    size_t own_bytes;
    struct hx_region *region_base; /* where the region is, or will be: mapped up to the index */
    struct hx_tables tables;       /* three more parts of it */
    struct hx_pages centres;       /* struct hx_region_centres */
    struct hx_ring *ring;          /* and the last one: n_rings, as far as they are populated */
    _Atomic uint32_t n_rings;
    _Atomic uint32_t rings_refused; /* by a lack of memory, since the last success */
    uint8_t *slots;                 /* where the memory of ring 0 ends; that of others is below */
    size_t slot_bytes;              /* of each: struct hx_writer, then the unwinder's */
    _Atomic uint64_t rings[HX_RINGS / 64];     /* bit: taken by this process */
    _Atomic uint64_t populated[HX_RINGS / 64]; /* bit: its memory is there */
    uint32_t mode;                             /* of the gate, while it is open */
    uint32_t flags;                            /* enum hx_run_flag */
    uint64_t clock_cost;                       /* least ticks between two looks at the clock */
    bool clock_ns;                             /* no usable time-stamp counter */
    _Atomic bool barred;                       /* system calls may be forbidden: make none */
    int pid;
    int reader_pid;  /* 0: not known here */
    bool foreign;    /* the reader is in another PID namespace */
    int execed_from; /* pid of who executed us, when it was recorded; else 0 */
    int tid_offset;  /* from the thread pointer to its tid; 0: not known */
    uint64_t sample_bytes, least_bytes, most_bytes;
    uint64_t fork_when; /* by the thread that forks; 0: nobody does */
    struct hx_stamp {
        uint32_t stamp; /* less than 2^31 */
        uint64_t end;   /* of keys that are known here */
    } stamp[HX_STAMPS]; /* of this region, of that which it goes on from, ... */
    uint32_t n_stamps;
    pthread_key_t key;
    bool has_key;
    _Atomic bool gave_up; /* on the reader, whose last sign of life was then: */
    _Atomic uint64_t gave_up_at;
    char folder[256];
    char library[512];  /* path of this library */
    char run_env[384];  /* "HEAPX_RUN=...", for what is executed */
    char preload[1024]; /* "LD_PRELOAD=...", with this library first */
};
extern struct hx_process hx_process;

/* --- the thread ----------------------------------------------------------------------------- */

/* Handlers that interrupt one another, each while the one below was writing. */
#define HX_LEVELS 4

struct hx_thread_state {
    int64_t until;   /* bytes to the next sample */
    uint64_t outer;  /* stack pointer of a call that is inside the allocator; 0: none */
    uint32_t levels; /* writers that are at work */
    uint32_t tid;
    uint64_t random;
    uint32_t allocs, frees; /* events: which ones are timed */
    uint32_t waits;         /* for room */
    uint8_t rounds;         /* of its destructors */
    bool ending;            /* rings were given back; from now on one is taken for each event */
    struct hx_writer *writer[HX_LEVELS];
};
extern __thread struct hx_thread_state hx_thread_state;
extern __thread struct hx_marks hx_marks;

/* Registers of the caller, after the call will have returned. */
struct hx_caller {
    uint64_t pc, sp, fp;
};
#define HX_CALLER()                                                                                \
    ((struct hx_caller){                                                                           \
        (uint64_t)__builtin_return_address(0),                                                     \
        (uint64_t)__builtin_frame_address(0) + 16,                                                 \
        *(const uint64_t *)__builtin_frame_address(0),                                             \
    })

/* --- the allocator's own functions (real.c) ------------------------------------------------- */

struct hx_real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    void (*cfree)(void *);
    size_t (*malloc_usable_size)(void *);
    uint64_t start, end;           /* the object that malloc lies in */
    uint64_t loader, loader_bytes; /* the dynamic linker */
    bool libc;                     /* which is libc */
};
extern struct hx_real hx_real;

/* Blocks from before the allocator was found. */
#define HX_ARENA_BYTES ((size_t)256 << 10)
extern uint8_t hx_arena[HX_ARENA_BYTES];
static inline bool hx_in_arena(const void *p)
{
    return (uint64_t)p - (uint64_t)hx_arena < HX_ARENA_BYTES;
}
size_t hx_arena_usable(const void *p);

/* Finds them, once. */
void hx_real_find(void);

/* The next definition of a function behind this library; NULL: there is none. */
void *hx_real_next(const char *name);

/* In a wrapper: `real` is the function that it wraps. */
#define HX_REAL(name)                                                                              \
    static __typeof__(&name) real;                                                                 \
    if (HX_RARELY(!real))                                                                          \
        *(void **)&real = hx_real_next(#name);

/* Makes functions of this library invisible to the loader from now on, those whose name wanted()
 * does not accept: what is looked up later is found as without it. */
void hx_real_hide(bool (*wanted)(const char *name));

/* C++ operators (cxx.c): does recording them make sense, and is this name one of them? */
void hx_cxx_find(void);
bool hx_cxx_wanted(const char *name, bool *ret_known);

/* --- start, fork, region (lifetime.c, env.c, region.c) --------------------------------------- */

/* Once, by the first call of anything; later calls return at once. */
void hx_start(void);

/* The gate is shut: a first call, or a child after fork. True: it is open now. */
bool hx_gate_check(void);

/* In a child, once. */
void hx_forked(void);

/* Reads what heapx asked for from the environment, and cleans that. False: nothing. */
bool hx_env_take(void);
void hx_env_write(void);

/* Put text, or a number, behind the first *len characters of text[size]. False: it is too long. */
bool hx_text_add(char *text, size_t size, size_t *len, const char *more);
bool hx_number_add(char *text, size_t size, size_t *len, uint64_t value, unsigned base);
/* The hexadecimal number behind the last ':' of text[0..*len), which is cut off. */
bool hx_number_off(const char *text, size_t *len, uint64_t *ret);

/* Makes the region and all that belongs to it. parent: 0, or the pid that forked this one. */
bool hx_region_make(int parent);

/* How much address space the library may take where so much is all there is. */
struct hx_region_room {
    uint32_t rings;
    uint64_t stack_bytes, frame_bytes;
};
struct hx_region_room hx_region_room(uint64_t limit);

/* In a child that is not recorded: memory that nobody sees takes its place. */
void hx_region_drop(void);

/* Before system calls are forbidden: makes what may be needed. */
void hx_region_stock(void);

/* The program is about to forbid system calls. */
void hx_bar_calls(void);

/* --- events (ring_writer.c) ----------------------------------------------------------------- */

uint64_t hx_now_ns(void);

static inline uint64_t hx_tsc(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

/* The time now, not earlier than anything that was done or seen before: rdtscp waits for that,
 * where rdtsc could tell a time at which another thread had not yet handed us the block that we
 * free. */
static inline uint64_t hx_now(void)
{
    uint32_t lo, hi, cpu;
    if (HX_RARELY(hx_process.clock_ns))
        return hx_now_ns();
    __asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(cpu)::"memory");
    return (uint64_t)hi << 32 | lo;
}

struct hx_writer *hx_writer_take(struct hx_thread_state *thread, uint32_t level);
void hx_writer_leave(struct hx_writer *writer);
bool hx_writer_room(struct hx_writer *writer, uint64_t bytes);
void hx_wake_reader(void);
void hx_sleep_ns(uint64_t ns);

/* Waits until *word has reached `value`: at most ns, and while the reader lives, and its last sign
 * of that is not older than `silence` (of one that is at work on this region: than 10 s, or 2 s
 * where it is not known whether it lives). One that never gave a sign has 1 s. True: it has. */
bool hx_wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns, uint64_t silence);

/* Gives back the rings of the thread. */
void hx_thread_leave(struct hx_thread_state *thread);

/* How much a block really holds. */
uint64_t hx_usable(void *p);

/* How long looking at the clock takes. */
void hx_clock_measure(void);

/* Events. None changes errno. */
void *hx_record_alloc(void *p, uint64_t bytes, uint64_t pc, uint64_t sp, uint64_t fp);
void hx_record_mapping(void *p, uint64_t bytes, const struct hx_caller *caller);
void hx_record_free(uint64_t address);
void hx_record_realloc(uint64_t old, void *p, uint64_t bytes, bool freed, uint64_t usable,
                       const struct hx_caller *caller);
void hx_record_realloc_begin(uint64_t old);
void hx_record_word(enum hx_event_kind kind, uint64_t word);

/* For an event of several steps: its writer, NULL when there is none; the event; the end. */
struct hx_writer *hx_writer_enter(struct hx_thread_state *thread);
void hx_writer_word(struct hx_writer *writer, enum hx_event_kind kind, uint64_t word);
void hx_writer_exit(struct hx_thread_state *thread, struct hx_writer *writer);

/* --- what the program marks (scc.c, region_names.c) ------------------------------------------ */

/* Gives all modules that have heapx/scc.h the listener. */
void hx_scc_find(void);
/* The dynamic linker calls malloc: perhaps it has mapped something. */
void hx_scc_loader_allocates(void);
void hx_marks_leave(void);

/* What stands for a region in frames. */
uint64_t hx_centre_word(const struct heapx_centre *centre);

/* --- samples (sample.c) --------------------------------------------------------------------- */

#define HX_FILTER_BITS 17
extern uint8_t hx_filter[1 << HX_FILTER_BITS];

static inline uint32_t hx_filter_of(uint64_t address)
{
    return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15ULL >> (64 - HX_FILTER_BITS));
}

size_t hx_sample_bytes(uint64_t most);
void hx_sample_use(void *memory, size_t bytes); /* zeroed; as hx_sample_bytes() said */
/* The countdown has run out at a request of so many bytes: is it a sample? */
bool hx_sample_hit(struct hx_thread_state *thread, uint64_t bytes);
/* False: there is no room for it. */
bool hx_sample_add(uint64_t address);
/* True: it was one, and is none any more. */
bool hx_sample_remove(uint64_t address);

/* --- the end (ending.c) ------------------------------------------------------------------------
 */

void hx_ending_start(void);
/* Asks for the last snapshot and waits; once. */
void hx_ending_snapshot(int signal);

#pragma GCC visibility pop

#endif
