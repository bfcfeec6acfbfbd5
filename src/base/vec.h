/* vec.h - growable arrays, small and huge.
 *
 * HX_VEC(T) is an array on malloc for small things. hx_big is address space for
 * columns of millions of entries: reserved once at its upper bound, which costs
 * nothing until touched, and never moved.
 */
#ifndef HX_BASE_VEC_H
#define HX_BASE_VEC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Invariant: n <= cap; v holds cap elements, the first n are valid. */
#define HX_VEC(type)                                                                               \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n, cap;                                                                             \
    }

/* Makes room for `need` elements; doubles. Returns false when out of memory or
 * when the byte count would overflow; the array is then as before. */
bool hx_vec_reserve_raw(void **v, size_t *cap, size_t need, size_t element);

#define hx_vec_reserve(vec, need)                                                                  \
    hx_vec_reserve_raw((void **)&(vec)->v, &(vec)->cap, (need), sizeof *(vec)->v)

/* Appends by value; false when out of memory, for HX_NEED(). */
#define hx_vec_push(vec, ...)                                                                      \
    (hx_vec_reserve((vec), (vec)->n + 1) ? ((vec)->v[(vec)->n++] = (__VA_ARGS__), true) : false)

#define hx_vec_free(vec)                                                                           \
    do {                                                                                           \
        free((vec)->v);                                                                            \
        (vec)->v = NULL;                                                                           \
        (vec)->n = (vec)->cap = 0;                                                                 \
    } while (0)

/* A reservation of `bytes` bytes of zeroed, private address space (MAP_NORESERVE,
 * huge pages advised). base is page-aligned; NULL when bytes is 0. */
struct hx_big {
    void *base;
    size_t bytes;
};

hx_error *hx_big_reserve(struct hx_big *big, size_t bytes);

/* The same for an array: p gets room for n elements, which p_mem, a struct hx_big that is declared
 * beside it, owns. */
#define hx_big_array(p, n)                                                                         \
    ({                                                                                             \
        hx_error *hx_big_error_ = hx_big_reserve(&p##_mem, (n) * sizeof *(p));                     \
        (p) = p##_mem.base;                                                                        \
        hx_big_error_;                                                                             \
    })

#define hx_big_array_free(p) (hx_big_free(&p##_mem), (void)((p) = NULL))

/* Gives everything from `used` bytes on back to the kernel; the base stays. */
void hx_big_trim(struct hx_big *big, size_t used);

/* Gives the whole pages inside [from, to) back; they read as zero afterwards. */
void hx_big_discard(struct hx_big *big, size_t from, size_t to);

void hx_big_free(struct hx_big *big);

#endif
