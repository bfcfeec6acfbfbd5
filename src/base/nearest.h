/* nearest.h - the name that a misspelt word was meant to be. */
#ifndef HX_BASE_NEAREST_H
#define HX_BASE_NEAREST_H

/* The candidate nearest to word, when near enough for a hint; next(context) gives the
 * candidates one by one and NULL at the end. */
const char *hx_nearest(const char *word, const char *(*next)(void *context), void *context);

#endif
