/* sample.c - sampling by bytes: which allocations are recorded, and whose frees.
 *
 * A Poisson process over the bytes that a thread requests: the distances are drawn from an
 * exponential distribution with the mean that heapx asked for. The addresses of all live samples
 * stand in a table, so that no other free costs more than a look at a small filter.
 */
#include "record/preload/preload.h"

#include <string.h>

uint8_t hx_filter[1 << HX_FILTER_BITS]; /* how many samples have this hash; 255: once too many */

/* Open addressing without locks. An address stands in one slot at most, as only its owner adds and
 * removes it, and within PROBES slots of its hash. */
#define SLOT_BITS 22 /* fewer, where address space is scarce */
#define PROBES    128
#define GONE      1 /* had an address once: looking goes on behind it */
static _Atomic uint64_t *table;
static unsigned slot_bits;

size_t hx_sample_bytes(uint64_t most)
{
    size_t bytes = sizeof *table << SLOT_BITS;
    while (bytes > most && bytes > 65536)
        bytes /= 2;
    return bytes;
}

void hx_sample_use(void *memory, size_t bytes)
{
    table = memory;
    slot_bits = (unsigned)__builtin_ctzll(bytes / sizeof *table);
}

static uint64_t sample_slot(uint64_t address)
{
    return (address >> 4) * 0x9e3779b97f4a7c15ULL >> (64 - slot_bits);
}

/* --- distances ------------------------------------------------------------------------------ */

static uint64_t random_bits(struct hx_thread_state *thread)
{
    if (!thread->random) {
        thread->random = hx_tsc() ^ (uint64_t)thread * 0x2545f4914f6cdd1dULL;
        thread->random |= !thread->random;
    }
    uint64_t x = thread->random; /* xorshift, finished by a multiplication */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    thread->random = x;
    return x * 0x2545f4914f6cdd1dULL;
}

/* -ln(u) of a uniform u in (0, 1], without libm: the exponent apart, then the series of atanh. */
static double exponential(uint64_t bits)
{
    double u = (double)((bits >> 11) + 1) * 0x1p-53;
    uint64_t word;
    memcpy(&word, &u, 8);
    int exponent = (int)(word >> 52) - 1023;
    word = (word & 0xfffffffffffffULL) | 1023ULL << 52;
    double m; /* in [1, 2) */
    memcpy(&m, &word, 8);
    double s = (m - 1) / (m + 1), q = s * s, sum = 0;
    for (int k = 21; k > 0; k -= 2)
        sum = sum * q + 1.0 / k;
    return -(exponent * 0.693147180559945309417 + 2 * s * sum);
}

static int64_t sample_distance(struct hx_thread_state *thread)
{
    double d = exponential(random_bits(thread)) * (double)hx_process.sample_bytes;
    return d >= 0x1p62 ? INT64_MAX / 2 : (int64_t)d;
}

bool hx_sample_hit(struct hx_thread_state *thread, uint64_t bytes)
{
    if (!thread->random) {
        /* this thread's first request: it has no distance yet */
        thread->until = sample_distance(thread) - (int64_t)(bytes & INT64_MAX);
        if (thread->until >= 0)
            return false;
    }
    thread->until = sample_distance(thread);
    return bytes >= hx_process.least_bytes &&
           (!hx_process.most_bytes || bytes <= hx_process.most_bytes);
}

/* --- the live samples --------------------------------------------------------------------- */

static void filter_add(uint64_t address, int change)
{
    uint8_t *count = &hx_filter[hx_filter_of(address)];
    uint8_t old = __atomic_load_n(count, __ATOMIC_RELAXED);
    while (old != 255 && !__atomic_compare_exchange_n(count, &old, (uint8_t)(old + change), false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

bool hx_sample_add(uint64_t address)
{
    uint64_t slot = sample_slot(address);
    for (unsigned i = 0; i < PROBES; i++) {
        _Atomic uint64_t *at = &table[(slot + i) & ((1ULL << slot_bits) - 1)];
        uint64_t there = atomic_load(at);
        if (there > GONE)
            continue;
        filter_add(address, 1);
        if (atomic_compare_exchange_strong(at, &there, address))
            return true;
        filter_add(address, -1);
    }
    return false;
}

bool hx_sample_remove(uint64_t address)
{
    uint64_t slot = sample_slot(address);
    for (unsigned i = 0; i < PROBES; i++) {
        _Atomic uint64_t *at = &table[(slot + i) & ((1ULL << slot_bits) - 1)];
        uint64_t there = atomic_load(at);
        if (!there)
            return false;
        if (there == address) {
            atomic_store(at, GONE);
            filter_add(address, -1);
            return true;
        }
    }
    return false;
}
