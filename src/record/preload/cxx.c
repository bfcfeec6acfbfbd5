/* cxx.c - C++ operator new and delete, in all their forms.
 *
 * They are recorded only where the allocator itself defines them (tcmalloc, jemalloc, mimalloc):
 * libstdc++'s call malloc, which is recorded anyway. Then these names are hidden from the loader,
 * so that a library which is loaded later finds the definition it would have found without us.
 */
#include "record/preload/wrapper.h"

#include <string.h>

/* Order: operator new as in NEWS, then delete as in DELETES. */
#define NEWS(X)                                                                                    \
    X(_Znwm)                                                                                       \
    X(_Znam)                                                                                       \
    X(_ZnwmRKSt9nothrow_t)                                                                         \
    X(_ZnamRKSt9nothrow_t)                                                                         \
    X(_ZnwmSt11align_val_t)                                                                        \
    X(_ZnamSt11align_val_t)                                                                        \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t)                                                          \
    X(_ZnamSt11align_val_tRKSt9nothrow_t)
#define DELETES(X)                                                                                 \
    X(_ZdlPv)                                                                                      \
    X(_ZdaPv)                                                                                      \
    X(_ZdlPvm)                                                                                     \
    X(_ZdaPvm)                                                                                     \
    X(_ZdlPvRKSt9nothrow_t)                                                                        \
    X(_ZdaPvRKSt9nothrow_t)                                                                        \
    X(_ZdlPvSt11align_val_t)                                                                       \
    X(_ZdaPvSt11align_val_t)                                                                       \
    X(_ZdlPvmSt11align_val_t)                                                                      \
    X(_ZdaPvmSt11align_val_t)                                                                      \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                         \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)

enum {
#define X(name) AT##name,
    NEWS(X) DELETES(X)
#undef X
        N_OPERATORS
};

static const char *const names[N_OPERATORS] = {
#define X(name) #name,
    NEWS(X) DELETES(X)
#undef X
};

/* The arguments differ; all are whole words, and passing more of them than are taken is harmless.
 */
typedef void *new_fn(size_t bytes, uint64_t a, uint64_t b);
typedef void delete_fn(void *p, uint64_t a, uint64_t b);
static union {
    void *any;
    new_fn *make;
    delete_fn *drop;
} next[N_OPERATORS];
static bool recorded[N_OPERATORS];

void hx_cxx_find(void)
{
    for (int i = 0; i < N_OPERATORS; i++) {
        next[i].any = hx_real_next(names[i]);
        recorded[i] = !hx_real.libc && (uint64_t)next[i].any >= hx_real.start &&
                      (uint64_t)next[i].any < hx_real.end;
    }
}

bool hx_cxx_wanted(const char *name, bool *ret_known)
{
    for (int i = 0; i < N_OPERATORS; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret_known = true;
            return recorded[i];
        }
    *ret_known = false;
    return false;
}

/* Called before anything was allocated, or by someone to whom the loader showed only us. */
static __attribute__((noinline, cold)) void *new_early(int i, size_t bytes, uint64_t a, uint64_t b)
{
    hx_start();
    if (!next[i].any)
        next[i].any = hx_real_next(names[i]);
    return next[i].any ? next[i].make(bytes, a, b) : hx_real.malloc(bytes ? bytes : 1);
}

static __attribute__((noinline, cold)) void delete_early(int i, void *p, uint64_t a, uint64_t b)
{
    hx_start();
    if (!next[i].any)
        next[i].any = hx_real_next(names[i]);
    if (next[i].any)
        next[i].drop(p, a, b);
    else
        hx_real.free(p);
}

#define X(name)                                                                                    \
    void *name(size_t bytes, uint64_t a, uint64_t b);                                              \
    HX_EXPORT void *name(size_t bytes, uint64_t a, uint64_t b)                                     \
    {                                                                                              \
        if (HX_RARELY(!next[AT##name].any))                                                        \
            return new_early(AT##name, bytes, a, b);                                               \
        if (!recorded[AT##name])                                                                   \
            return next[AT##name].make(bytes, a, b);                                               \
        struct hx_caller caller = HX_CALLER();                                                     \
        struct hx_thread_state *thread = &hx_thread_state;                                         \
        if (!hx_wants(thread, bytes, caller.pc))                                                   \
            return next[AT##name].make(bytes, a, b);                                               \
        uint64_t outer = hx_outer_begin(thread, caller.sp);                                        \
        void *p = next[AT##name].make(bytes, a, b);                                                \
        hx_outer_end(thread, outer);                                                               \
        if (HX_RARELY(!p))                                                                         \
            return p;                                                                              \
        return hx_record_alloc(p, bytes, caller.pc, caller.sp, caller.fp);                         \
    }
NEWS(X)
#undef X

#define X(name)                                                                                    \
    void name(void *p, uint64_t a, uint64_t b);                                                    \
    HX_EXPORT void name(void *p, uint64_t a, uint64_t b)                                           \
    {                                                                                              \
        if (HX_RARELY(!next[AT##name].any)) {                                                      \
            delete_early(AT##name, p, a, b);                                                       \
            return;                                                                                \
        }                                                                                          \
        if (!recorded[AT##name]) {                                                                 \
            next[AT##name].drop(p, a, b);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (HX_RARELY(hx_in_arena(p)))                                                             \
            return;                                                                                \
        struct hx_thread_state *thread = &hx_thread_state;                                         \
        if (hx_frees(thread, p, (uint64_t)__builtin_return_address(0))) {                          \
            hx_record_free((uint64_t)p);                                                           \
            uint64_t outer = hx_outer_begin(thread, (uint64_t)__builtin_frame_address(0));         \
            next[AT##name].drop(p, a, b);                                                          \
            hx_outer_end(thread, outer);                                                           \
            return;                                                                                \
        }                                                                                          \
        next[AT##name].drop(p, a, b);                                                              \
    }
DELETES(X)
#undef X
