/* snapshot_place.c - reads FILE[:N]. */
#include "cli/words/snapshot_place.h"

#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

static bool path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Is it what can stand behind the colon? */
static bool is_number(const char *word)
{
    return strcmp(word, "first") == 0 || strcmp(word, "last") == 0 ||
           (word[0] && word[strspn(word, "0123456789")] == 0);
}

hx_error *hx_place_parse(const char *word, struct hx_place *ret)
{
    struct hx_place place = {.file = strdup(word), .which = "last"};
    HX_NEED(place.file);
    char *colon = path_exists(word) ? NULL : strrchr(place.file, ':');
    if (colon && colon != place.file) {
        *colon = 0;
        if (is_number(colon + 1)) {
            place.which = colon + 1;
        } else if (path_exists(place.file)) {
            hx_place_deinit(&place);
            return hx_error_new(HX_E_USAGE, word, "write FILE:N, FILE:first or FILE:last",
                                "'%s' is no number of a snapshot", strrchr(word, ':') + 1);
        } else {
            *colon = ':'; /* a name with a colon, of a file that is not there */
        }
    }
    *ret = place;
    return NULL;
}
