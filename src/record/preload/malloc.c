/* malloc.c - malloc and its family, as the program calls them.
 *
 * Each does what the real one does, errors and errno included, and tells of it: of a new block once
 * the allocator has given it, of an old one before the allocator gets it back.
 */
#include "record/preload/wrapper.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void free_sized(void *p, size_t bytes);
void free_aligned_sized(void *p, size_t align, size_t bytes);
void cfree(void *p);

/* Calls the real function, and tells of the block. */
#define ALLOCATE(bytes, call)                                                                      \
    do {                                                                                           \
        struct hx_caller caller_ = HX_CALLER();                                                    \
        struct hx_thread_state *thread_ = &hx_thread_state;                                        \
        if (!hx_wants(thread_, (bytes), caller_.pc))                                               \
            return call;                                                                           \
        uint64_t outer_ = hx_outer_begin(thread_, caller_.sp);                                     \
        void *p_ = call;                                                                           \
        hx_outer_end(thread_, outer_);                                                             \
        if (HX_RARELY(!p_))                                                                        \
            return p_;                                                                             \
        return hx_record_alloc(p_, (bytes), caller_.pc, caller_.sp, caller_.fp);                   \
    } while (0)

HX_EXPORT void *malloc(size_t bytes)
{
    if (HX_RARELY((uint64_t)__builtin_return_address(0) - hx_real.loader < hx_real.loader_bytes))
        hx_scc_loader_allocates();
    ALLOCATE(bytes, hx_real.malloc(bytes));
}

HX_EXPORT void *calloc(size_t n, size_t size)
{
    ALLOCATE(n * size, hx_real.calloc(n, size)); /* a product that is too large fails */
}

HX_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
    ALLOCATE(bytes, hx_real.aligned_alloc(align, bytes));
}

HX_EXPORT void *memalign(size_t align, size_t bytes)
{
    ALLOCATE(bytes, hx_real.memalign(align, bytes));
}

HX_EXPORT void *valloc(size_t bytes)
{
    ALLOCATE(bytes, hx_real.valloc(bytes));
}

HX_EXPORT void *pvalloc(size_t bytes)
{
    ALLOCATE(bytes, hx_real.pvalloc(bytes));
}

HX_EXPORT int posix_memalign(void **ret, size_t align, size_t bytes)
{
    struct hx_caller caller = HX_CALLER();
    struct hx_thread_state *thread = &hx_thread_state;
    if (!hx_wants(thread, bytes, caller.pc))
        return hx_real.posix_memalign(ret, align, bytes);
    uint64_t outer = hx_outer_begin(thread, caller.sp);
    int failed = hx_real.posix_memalign(ret, align, bytes);
    hx_outer_end(thread, outer);
    if (!failed && *ret)
        hx_record_alloc(*ret, bytes, caller.pc, caller.sp, caller.fp);
    return failed;
}

/* --- free ----------------------------------------------------------------------------------- */

#define RELEASE(call)                                                                              \
    do {                                                                                           \
        if (HX_RARELY(hx_in_arena(p)))                                                             \
            return;                                                                                \
        if (hx_frees(&hx_thread_state, p, (uint64_t)__builtin_return_address(0)))                  \
            hx_record_free((uint64_t)p);                                                           \
        call;                                                                                      \
    } while (0)

HX_EXPORT void free(void *p)
{
    RELEASE(hx_real.free(p));
}

HX_EXPORT void cfree(void *p)
{
    RELEASE(hx_real.cfree(p));
}

HX_EXPORT void free_sized(void *p, size_t bytes)
{
    RELEASE(hx_real.free_sized(p, bytes));
}

HX_EXPORT void free_aligned_sized(void *p, size_t align, size_t bytes)
{
    RELEASE(hx_real.free_aligned_sized(p, align, bytes));
}

HX_EXPORT size_t malloc_usable_size(void *p)
{
    return HX_RARELY(hx_in_arena(p)) ? hx_arena_usable(p) : hx_real.malloc_usable_size(p);
}

/* --- realloc -------------------------------------------------------------------------------- */

/* One under way. */
struct moving {
    void *old;
    bool frees; /* of the old block's end, which may turn out to be none */
    bool wanted;
    uint64_t bytes, outer;
    struct hx_caller caller;
};

/* False: nothing of it is to be recorded. */
static inline bool move_begin(struct moving *move, void *old, uint64_t bytes,
                              const struct hx_caller *caller)
{
    struct hx_thread_state *thread = &hx_thread_state;
    uint32_t mode = hx_mode();
    if (HX_RARELY(mode == HX_GATE_SHUT) && !hx_gate_check())
        return false;
    if (HX_RARELY(thread->outer != 0) && hx_nested(thread, caller->pc))
        return false;
    move->wanted = hx_wants(thread, bytes, caller->pc);
    move->frees = old && hx_frees(thread, old, caller->pc);
    if (!move->wanted && !move->frees)
        return false;
    move->old = old;
    move->bytes = bytes;
    move->caller = *caller;
    if (move->frees)
        hx_record_realloc_begin((uint64_t)old);
    move->outer = hx_outer_begin(thread, caller->sp);
    return true;
}

static void move_end(const struct moving *move, void *p)
{
    hx_outer_end(&hx_thread_state, move->outer);
    bool sampled = hx_process.mode == HX_GATE_SAMPLED;
    if (!move->frees) {
        if (p)
            hx_record_alloc(p, move->bytes, move->caller.pc, move->caller.sp, move->caller.fp);
        return;
    }
    bool freed = !p && move->bytes == 0;
    bool kept = p && move->wanted;
    if (!p && !freed && sampled)
        hx_sample_add((uint64_t)move->old); /* it lives on */
    if (kept && sampled)
        kept = hx_sample_add((uint64_t)p);
    if (p && !kept)
        freed = true; /* as far as the recording knows */
    hx_record_realloc((uint64_t)move->old, kept ? p : NULL, move->bytes, freed,
                      kept ? hx_usable(p) : 0, &move->caller);
}

/* A block of the arena moves to the allocator. */
static __attribute__((noinline, cold)) void *out_of_arena(const void *old, size_t bytes)
{
    void *p = malloc(bytes);
    size_t usable = hx_arena_usable(old);
    if (p)
        memcpy(p, old, usable < bytes ? usable : bytes);
    return p;
}

HX_EXPORT void *realloc(void *old, size_t bytes)
{
    struct hx_caller caller = HX_CALLER();
    struct moving move;
    if (HX_RARELY(hx_in_arena(old)))
        return out_of_arena(old, bytes);
    if (!move_begin(&move, old, bytes, &caller))
        return hx_real.realloc(old, bytes);
    void *p = hx_real.realloc(old, bytes);
    move_end(&move, p);
    return p;
}

HX_EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
    struct hx_caller caller = HX_CALLER();
    struct moving move;
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (HX_RARELY(hx_in_arena(old)))
        return out_of_arena(old, bytes);
    if (!move_begin(&move, old, bytes, &caller))
        return hx_real.reallocarray(old, n, size);
    void *p = hx_real.reallocarray(old, n, size);
    move_end(&move, p);
    return p;
}
