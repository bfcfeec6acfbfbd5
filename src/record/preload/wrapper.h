/* wrapper.h - what the wrappers of all allocation functions have in common.
 *
 * A call is nested when the allocator makes it itself, inside another one: that one is recorded.
 * A call by a signal handler which interrupted the allocator is not nested.
 */
#ifndef HX_RECORD_PRELOAD_WRAPPER_H
#define HX_RECORD_PRELOAD_WRAPPER_H

#include "record/preload/preload.h"

/* A frame of libc's own that calls another of its functions is smaller; what the kernel pushes for
 * a signal is larger. */
#define HX_NESTED_BYTES 1024

/* This library, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* The caller is the allocator, or this library: where the real function hands the call on by a
 * jump, it is our wrapper that seems to call. */
static __attribute__((noinline, cold, unused)) bool hx_nested(const struct hx_thread_state *thread,
                                                              uint64_t pc)
{
    if (pc - (uint64_t)__ehdr_start < (uint64_t)(_end - __ehdr_start))
        return true;
    if (pc - hx_real.start >= hx_real.end - hx_real.start)
        return false;
    uint64_t below = thread->outer - (uint64_t)__builtin_frame_address(0);
    return !hx_real.libc || below < HX_NESTED_BYTES;
}

static inline uint32_t hx_mode(void)
{
    return atomic_load_explicit(&hx_gate.mode, memory_order_relaxed);
}

static inline bool hx_size_wanted(uint64_t bytes)
{
    return bytes >= hx_process.least_bytes &&
           (!hx_process.most_bytes || bytes <= hx_process.most_bytes);
}

static __attribute__((noinline, cold, unused)) bool hx_wants_rarely(struct hx_thread_state *thread,
                                                                    uint64_t bytes, uint64_t pc)
{
    if (hx_mode() == HX_GATE_SHUT && !hx_gate_check())
        return false;
    if (thread->outer && hx_nested(thread, pc))
        return false;
    if (hx_mode() == HX_GATE_SAMPLED)
        return thread->until < 0 && hx_sample_hit(thread, bytes);
    return hx_size_wanted(bytes);
}

/* Is a request of so many bytes to be recorded, should it succeed? */
static inline bool hx_wants(struct hx_thread_state *thread, uint64_t bytes, uint64_t pc)
{
    uint32_t mode = hx_mode();
    if (HX_LIKELY(mode == HX_GATE_ALL) && HX_LIKELY(!thread->outer))
        return true;
    if (mode == HX_GATE_SAMPLED) {
        thread->until -= (int64_t)(bytes & INT64_MAX);
        if (HX_LIKELY(thread->until >= 0))
            return false;
    }
    return hx_wants_rarely(thread, bytes, pc);
}

/* Around the call of the real function. What an exception or a jump left behind is recognized by
 * the stack, which is below it again. */
static inline uint64_t hx_outer_begin(struct hx_thread_state *thread, uint64_t sp)
{
    uint64_t outer = thread->outer;
    thread->outer = sp;
    atomic_signal_fence(memory_order_seq_cst);
    return HX_RARELY(outer && outer <= sp) ? 0 : outer;
}
static inline void hx_outer_end(struct hx_thread_state *thread, uint64_t outer)
{
    atomic_signal_fence(memory_order_seq_cst);
    thread->outer = outer;
}

static __attribute__((noinline, cold, unused)) bool hx_frees_rarely(struct hx_thread_state *thread,
                                                                    const void *p, uint64_t pc)
{
    if (hx_mode() == HX_GATE_SHUT && !hx_gate_check())
        return false;
    if (thread->outer && hx_nested(thread, pc))
        return false;
    return hx_mode() != HX_GATE_SAMPLED || hx_sample_remove((uint64_t)p);
}

/* Is the free of a block to be recorded? A sample is none any more then. */
static inline bool hx_frees(struct hx_thread_state *thread, const void *p, uint64_t pc)
{
    uint32_t mode = hx_mode();
    if (mode == HX_GATE_SAMPLED && HX_LIKELY(!hx_filter[hx_filter_of((uint64_t)p)]))
        return false;
    if (!p)
        return false;
    if (HX_LIKELY(mode == HX_GATE_ALL) && HX_LIKELY(!thread->outer))
        return true;
    return hx_frees_rarely(thread, p, pc);
}

#endif
