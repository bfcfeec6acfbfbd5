/* prefetch.h - functions that do nothing but read ahead.
 *
 * GCC 12 takes such a function for one without effect and drops its calls, unless it was inlined
 * before.
 */
#ifndef HX_BASE_PREFETCH_H
#define HX_BASE_PREFETCH_H

#define HX_PREFETCHES static inline __attribute__((always_inline))

#endif
