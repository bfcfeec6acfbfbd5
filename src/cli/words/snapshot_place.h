/* snapshot_place.h - FILE[:N], a snapshot in a store, as a word of the command line. */
#ifndef HX_CLI_WORDS_SNAPSHOT_PLACE_H
#define HX_CLI_WORDS_SNAPSHOT_PLACE_H

#include "base/cleanup.h"
#include "base/error.h"

struct hx_place {
    char *file;        /* owned */
    const char *which; /* "first", "last" or digits; inside file's memory or a literal */
};

/* Splits FILE[:N]; N is a number, first or last, and last by default. When a file of the whole
 * name exists it is that file. */
hx_error *hx_place_parse(const char *word, struct hx_place *ret);

static inline void hx_place_deinit(struct hx_place *place)
{
    free(place->file);
    place->file = NULL;
}
#define HX_PLACE HX_CLEANUP(hx_place_deinit)

#endif
