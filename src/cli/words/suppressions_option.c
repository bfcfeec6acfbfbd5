/* suppressions_option.c - the files of --suppressions on the command line. */
#include "cli/words/suppressions_option.h"

#include "base/cleanup.h"
#include "cli/words/text_file.h"

#include <inttypes.h>
#include <string.h>

enum { TOLD = 20 }; /* entries that take out nothing, by name */

/* --- reading ----------------------------------------------------------------------- */

hx_error *hx_suppress_read(const struct hx_args *args, hx_suppressions **ret)
{
    *ret = NULL;
    if (!args->n_suppressions)
        return NULL;
    HX_SUPPRESSIONS hx_suppressions *list = NULL;
    HX_TRY(hx_suppressions_create(&list));
    for (size_t i = 0; i < args->n_suppressions; i++) {
        HX_FREE char *text = NULL;
        size_t n = 0;
        HX_TRY(hx_text_file_read(args->suppressions[i], HX_SUPPRESSIONS_MAX_BYTES, &text, &n));
        HX_TRY(hx_suppressions_parse(list, args->suppressions[i], text, n));
    }
    *ret = hx_steal(list);
    return NULL;
}

/* --- taking out -------------------------------------------------------------------- */

static void tell_suppression(struct hx_console *console, const struct hx_suppression *entry)
{
    struct hx_text place = {0};
    char human[HX_HUMAN];
    hx_text_putf(&place, "%s:%u", entry->file, entry->line);
    if (entry->over_objects)
        hx_say(console, hx_text_str(&place),
               "%s would take out %s in %" PRIu64 " objects, above its limit: nothing is taken out",
               entry->name, hx_human_bytes(entry->over_bytes, human), entry->over_objects);
    else
        hx_say(console, hx_text_str(&place), "%s matches nothing here", entry->name);
    hx_text_free(&place);
}

static void tell_unused(struct hx_console *console, const hx_suppressions *list)
{
    size_t n = 0;
    for (size_t i = 0; i < hx_suppressions_count(list); i++) {
        const struct hx_suppression *entry = hx_suppressions_at(list, i);
        if ((!entry->objects || entry->over_objects) && n++ < TOLD)
            tell_suppression(console, entry);
    }
    if (n > TOLD)
        hx_say(console, "--suppressions", "%zu other entries take out nothing", n - TOLD);
}

static hx_error *apply_all(struct hx_console *console, hx_store *store, hx_suppressions *list)
{
    for (int64_t number = 0;;) {
        HX_TRY(hx_store_next(store, number, &number));
        if (!number)
            return NULL;
        HX_TRY(hx_store_suppress(store, number, list, &console->progress));
    }
}

hx_error *hx_suppress_apply(struct hx_console *console, hx_store *store, int64_t number,
                            hx_suppressions *list)
{
    if (!list)
        return NULL;
    HX_TRY(number ? hx_store_suppress(store, number, list, &console->progress)
                  : apply_all(console, store, list));
    hx_console_clear(console);
    tell_unused(console, list);
    return NULL;
}

/* --- writing ----------------------------------------------------------------------- */

/* The column's text; NULL: it has none. */
static const char *suppression_text(hx_rows *rows, const char *name)
{
    for (size_t i = 0; i < hx_rows_columns(rows); i++)
        if (strcmp(hx_rows_name(rows, i), name) == 0) {
            struct hx_value value = hx_rows_value(rows, i);
            return value.type == HX_VALUE_TEXT ? value.text : NULL;
        }
    return NULL;
}

static int64_t int_of(hx_rows *rows, const char *name)
{
    for (size_t i = 0; i < hx_rows_columns(rows); i++)
        if (strcmp(hx_rows_name(rows, i), name) == 0 && hx_rows_value(rows, i).type == HX_VALUE_INT)
            return hx_rows_value(rows, i).i;
    return 0;
}

static hx_error *print_entries(hx_rows *rows)
{
    bool more;
    for (size_t n = 1;; n++) {
        char name[32];
        struct hx_text text = {0};
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        snprintf(name, sizeof name, "leak_%zu", n);
        hx_suppression_put(&text, name, suppression_text(rows, "kind"),
                           suppression_text(rows, "type"), suppression_text(rows, "site"),
                           (uint64_t)int_of(rows, "objects"));
        bool failed = text.failed;
        if (!failed)
            fputs(hx_text_str(&text), stdout);
        hx_text_free(&text);
        HX_NEED(!failed);
    }
}

hx_error *hx_suppress_print(hx_rows *rows)
{
    hx_error *err = print_entries(rows);
    hx_rows_end(rows);
    return err;
}
