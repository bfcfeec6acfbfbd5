/* lower_bound.h - binary searches in sorted arrays. */
#ifndef HX_BASE_LOWER_BOUND_H
#define HX_BASE_LOWER_BOUND_H

#include <stddef.h>
#include <stdint.h>

/* The least i of [0, n) for which `before`, an expression of i, is false; n when there is none:
 *
 *     size_t at = HX_LOWER_BOUND(n, i, v[i].address < address);
 *
 * `before` is true up to some i and false from there on; it is evaluated at most 1 + log2(n) times,
 * for numbers of [0, n) alone. Of what is not sorted, any number of [0, n]. The type is that of n.
 */
#define HX_LOWER_BOUND(n, i, before)                                                               \
    ({                                                                                             \
        __typeof__((n) + 0) hx_low_ = 0, hx_left_ = (n);                                           \
        while (hx_left_ > 0) {                                                                     \
            __typeof__(hx_low_) hx_half_ = hx_left_ / 2, i = hx_low_ + hx_half_;                   \
            if (before) {                                                                          \
                hx_low_ = i + 1;                                                                   \
                hx_left_ -= hx_half_ + 1;                                                          \
            } else {                                                                               \
                hx_left_ = hx_half_;                                                               \
            }                                                                                      \
        }                                                                                          \
        hx_low_;                                                                                   \
    })

/* The i of [0, n) at which `id`, an expression of i, is `wanted`; SIZE_MAX when there is none. Ids
 * grow. Mostly they have no gaps: the place that wanted then has is looked at first. */
#define HX_FIND_ID(n, i, id, wanted)                                                               \
    ({                                                                                             \
        size_t hx_low_ = 0, hx_high_ = (n), hx_found_ = SIZE_MAX;                                  \
        __auto_type hx_wanted_ = (wanted);                                                         \
        uint64_t hx_guess_ = 0;                                                                    \
        if (hx_high_) {                                                                            \
            size_t i = 0;                                                                          \
            hx_guess_ = (uint64_t)hx_wanted_ - (uint64_t)(id);                                     \
        }                                                                                          \
        while (hx_found_ == SIZE_MAX && hx_low_ < hx_high_) {                                      \
            size_t i = hx_guess_ < hx_high_ ? hx_guess_ : hx_low_ + (hx_high_ - hx_low_) / 2;      \
            hx_guess_ = UINT64_MAX;                                                                \
            if ((id) == hx_wanted_)                                                                \
                hx_found_ = i;                                                                     \
            else if ((id) < hx_wanted_)                                                            \
                hx_low_ = i + 1;                                                                   \
            else                                                                                   \
                hx_high_ = i;                                                                      \
        }                                                                                          \
        hx_found_;                                                                                 \
    })

#endif
