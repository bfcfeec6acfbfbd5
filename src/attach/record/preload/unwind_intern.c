/* unwind_intern.c - whole stacks in the region: each is stored once and has a key.
 *
 * Lock-free. An entry is claimed by its hash and published by its n. A writer that is interrupted
 * between the two (by a signal whose handler takes the same stack, by the end of its thread) is not
 * waited for: the next entry is taken, and the stack has a second key, which does no harm.
 */
#include "attach/record/preload/unwind_private.h"

#include <string.h>

#define HX_PROBES 256 /* entries looked at before the table counts as full */

static bool same(const struct hx_region *region, const struct hx_region_stack *stack, uint32_t n,
                 uint16_t generation, const struct hx_taken *taken)
{
    if (n != taken->n || stack->exact != taken->exact || stack->generation != generation ||
        stack->flags != (taken->cut ? HX_EV_STACK_CUT : 0))
        return false;
    /* heapx may write to the region, too: not even its own entries are believed */
    if (stack->first > HX_REGION_FRAMES || HX_REGION_FRAMES - stack->first < n)
        return false;
    const uint64_t *frame = region->frame + stack->first;
    uint64_t differ = 0;
    for (uint32_t i = 0; i < n; i++)
        differ |= frame[i] ^ taken->frame[i];
    return differ == 0;
}

/* Room for n frames, or HX_REGION_FRAMES. */
static uint64_t take_frames(struct hx_region *region, uint32_t n)
{
    uint64_t first = atomic_load_explicit(&region->frames_used, memory_order_relaxed);
    do {
        if (first > HX_REGION_FRAMES || HX_REGION_FRAMES - first < n)
            return HX_REGION_FRAMES;
    } while (!atomic_compare_exchange_weak_explicit(&region->frames_used, &first, first + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return first;
}

static bool full(const struct hx_region *region, uint32_t n)
{
    uint64_t frames = atomic_load_explicit(&region->frames_used, memory_order_relaxed);
    return frames > HX_REGION_FRAMES || HX_REGION_FRAMES - frames < n ||
           atomic_load_explicit(&region->stacks_used, memory_order_relaxed) >=
               HX_REGION_STACKS / 8 * 7;
}

/* Each frame for itself and by its position, so that no step waits for the one before. */
static uint64_t hash_frames(const struct hx_taken *taken)
{
    uint64_t hash = 0, position = 0x2545f4914f6cdd1d;
    for (uint32_t i = 0; i < taken->n; i++) {
        uint64_t mixed = (taken->frame[i] + position) * 0xd6e8feb86659fd93;
        hash += mixed ^ mixed >> 32;
        position += 0x9e3779b97f4a7c15;
    }
    return hash;
}

uint64_t hx_intern(struct hx_region *region, const struct hx_taken *taken)
{
    uint16_t generation = (uint16_t)atomic_load_explicit(&region->generation, memory_order_acquire);
    uint64_t hash = hx_hash_mix(hash_frames(taken),
                                (uint64_t)generation << 32 | taken->n << 1 | (uint64_t)taken->cut);
    hash = hx_hash_mix(hash, taken->exact) | 1;

    for (uint64_t probe = 0; probe < HX_PROBES; probe++) {
        uint64_t index = ((hash >> 20) + probe) & (HX_REGION_STACKS - 1);
        struct hx_region_stack *stack = &region->stack[index];
        uint64_t held = __atomic_load_n(&stack->hash, __ATOMIC_RELAXED);
        if (held == 0) {
            if (full(region, taken->n))
                break;
            if (__atomic_compare_exchange_n(&stack->hash, &held, hash, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED)) {
                atomic_fetch_add_explicit(&region->stacks_used, 1, memory_order_relaxed);
                uint64_t first = take_frames(region, taken->n);
                if (first == HX_REGION_FRAMES)
                    break;
                memcpy(region->frame + first, taken->frame, taken->n * sizeof(uint64_t));
                stack->first = first;
                stack->exact = taken->exact;
                stack->flags = taken->cut ? HX_EV_STACK_CUT : 0;
                stack->generation = generation;
                atomic_store_explicit(&stack->n, taken->n, memory_order_release);
                return HX_EV_KEY_FIRST + index;
            }
        }
        if (held != hash)
            continue;
        uint32_t n = atomic_load_explicit(&stack->n, memory_order_acquire);
        if (n != 0 && same(region, stack, n, generation, taken))
            return HX_EV_KEY_FIRST + index;
    }
    atomic_fetch_add_explicit(&region->stacks_full, 1, memory_order_relaxed);
    return HX_EV_KEY_FULL;
}
