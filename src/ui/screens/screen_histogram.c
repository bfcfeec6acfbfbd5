/* screen_histogram.c - the objects that a row stands for by type, shape, size, site, age or state.
 */
#include "base/cleanup.h"
#include "store/query/histogram.h"
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <stdlib.h>
#include <ctype.h>
#include <string.h>

struct histogram {
    size_t by;    /* in hx_histogram_words */
    char *filter; /* of the list that it was asked in, as typed, and in SQL; NULL: none */
    char *condition;
};

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of these", HX_AS_SHARE, 8, 2, "bytes", NULL},
    {"bytes", "", HX_AS_BAR, 10, 3, "bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"key", "what", HX_AS_NAME, -24, 0, NULL, NULL},
    {0},
};

static const char *word_of(const struct hx_pane *pane)
{
    const struct histogram *histogram = pane->data;
    return hx_histogram_words[histogram ? histogram->by : 0];
}

/* People read the shapes of what has no type. */
static const char *key_of(const struct hx_pane *pane)
{
    const char *word = word_of(pane);
    return strcmp(word, "type") == 0 ? HX_HISTOGRAM_NAMES : word;
}

static void histogram_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text where = {0};
    const struct histogram *histogram = pane->data;
    struct hx_of of = hx_pane_of(pane);
    hx_of_where(&of, &where);
    if (histogram && histogram->condition)
        hx_text_putf(&where, "%s(%s)", where.n ? " AND " : "", histogram->condition);
    hx_histogram_sql(key_of(pane), snapshot, hx_text_str(&where), &ret->sql);
    /* Some view has the sums of most sets: then there are as many rows as objects at most, and the
     * list ends where they do. */
    if (of.subset == HX_SUBSET_DOMINATED || (histogram && histogram->condition))
        hx_histogram_facts(key_of(pane), snapshot, hx_text_str(&where), &ret->facts);
    else
        hx_of_facts(&of, snapshot, &ret->facts);
    ret->sql.failed |= where.failed;
}

static void histogram_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    hx_pane_put_subset(pane, !ui->term.utf8, ret);
    hx_text_putf(ret, " by %s", word_of(pane));
    if (pane->facts.n_rows)
        hx_text_putf(ret, ": %s in all",
                     hx_human_bytes((uint64_t)hx_table_int(&pane->facts, 0, "bytes", 0), size));
    hx_text_puts(ret, "; b: by ");
    for (const char *const *word = hx_histogram_words; *word; word++)
        if (strcmp(*word, word_of(pane)) != 0)
            hx_text_putf(ret, "%s%s", *word, word[1] ? " " : "");
}

/* --- the objects of a row ------------------------------------------------------------------ */

static void put_quoted(const char *text, struct hx_text *ret)
{
    hx_text_putc(ret, '\'');
    for (; *text; text++)
        hx_text_putn(ret, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    hx_text_putc(ret, '\'');
}

/* A size class is "24", "40" ... or "1032-1079". */
static void put_size(const char *key, struct hx_text *ret)
{
    char *end;
    unsigned long long least = strtoull(key, &end, 10), most = least;
    if (*end == '-')
        most = strtoull(end + 1, NULL, 10);
    else
        least = most <= 24 ? 0 : most - 15;
    hx_text_putf(ret, "bytes >= %llu and bytes <= %llu", least, most);
}

/* In the filter language; nothing where it has no word for it. */
static void put_row(const struct hx_pane *pane, size_t row, struct hx_text *ret)
{
    const char *word = word_of(pane), *key = hx_table_text(&pane->rows, row, "key");
    if (strcmp(word, "size") == 0) {
        put_size(key, ret);
    } else if (strcmp(word, "site") != 0 && strcmp(word, "age") != 0) {
        bool shape = strcmp(word, "type") == 0 && isdigit((unsigned char)*key);
        hx_text_putf(ret, "%s ", shape ? "type is null and shape" : word);
        if (strcmp(key, "(unknown)") == 0) {
            hx_text_puts(ret, "is null");
        } else {
            hx_text_puts(ret, "= ");
            put_quoted(key, ret);
        }
    }
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    HX_CLEANUP(hx_text_free) struct hx_text filter = {0}, condition = {0};
    const struct histogram *histogram = pane->data;
    struct hx_of of = hx_pane_of(pane);
    put_row(pane, row, &filter);
    if (!filter.n)
        return hx_error_new(HX_E_ABSENT, "this row", "b shows it by type, shape, size or state",
                            "objects cannot be listed by %s", word_of(pane));
    if (histogram && histogram->filter)
        hx_text_putf(&filter, " and (%s)", histogram->filter);
    HX_NEED(!filter.failed);
    HX_TRY(hx_objects_where(hx_text_str(&filter), pane->snapshot, &condition));
    HX_TRY(hx_ui_open_of(ui, &hx_screen_objects, &of));
    pane = hx_ui_pane(ui);
    pane->filter = strdup(hx_text_str(&filter));
    pane->condition = strdup(hx_text_str(&condition));
    HX_NEED(pane->filter && pane->condition);
    return NULL;
}

/* --- by what --------------------------------------------------------------------------------- */

static void free_histogram(void *data)
{
    struct histogram *histogram = data;
    if (!histogram)
        return;
    free(histogram->filter);
    free(histogram->condition);
    free(histogram);
}

static hx_error *find_word(const char *word, size_t *ret)
{
    for (size_t i = 0; hx_histogram_words[i]; i++)
        if (strcmp(hx_histogram_words[i], word) == 0) {
            *ret = i;
            return NULL;
        }
    return hx_error_new(HX_E_USAGE, word, "one of type, shape, size, site, age, state",
                        "there is no such histogram");
}

hx_error *hx_histogram_by(struct hx_ui *ui, struct hx_pane *pane, const char *word)
{
    struct histogram *histogram = pane->data;
    size_t by = histogram->by + 1;
    if (*word)
        HX_TRY(find_word(word, &by));
    histogram->by = hx_histogram_words[by] ? by : 0;
    hx_pane_reload(ui, pane);
    return NULL;
}

/* Of a list of objects a row is one object: it is the list that is looked at. */
static hx_error *find_objects(const struct hx_pane *pane, struct hx_of *ret)
{
    size_t row;
    *ret = hx_pane_of(pane);
    if (pane->screen == &hx_screen_objects || pane->screen == &hx_screen_histogram)
        return NULL;
    if (hx_pane_row(pane, &row)) {
        HX_TRY(hx_difference_gone(pane, row));
        if (pane->screen->of && pane->screen->of(pane, row, ret))
            return NULL;
    }
    return hx_error_new(HX_E_ABSENT, "histogram", "8 has all objects", "no objects stand here");
}

static hx_error *copy_filter(const struct hx_pane *pane, struct histogram *histogram)
{
    if (pane->screen != &hx_screen_objects || !pane->filter || !pane->condition)
        return NULL;
    histogram->filter = strdup(pane->filter);
    histogram->condition = strdup(pane->condition);
    HX_NEED(histogram->filter && histogram->condition);
    return NULL;
}

hx_error *hx_do_histogram(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    struct hx_of of;
    size_t by = 0;
    if (*arg)
        HX_TRY(find_word(arg, &by));
    if (pane->screen == &hx_screen_histogram)
        return hx_histogram_by(ui, pane, arg);
    HX_TRY(find_objects(pane, &of));
    struct histogram *histogram = calloc(1, sizeof *histogram);
    HX_NEED(histogram);
    histogram->by = by;
    hx_error *err = copy_filter(pane, histogram);
    if (!err)
        err = hx_ui_open_of(ui, &hx_screen_histogram, &of);
    if (err) {
        free_histogram(histogram);
        return err;
    }
    hx_ui_pane(ui)->data = histogram;
    hx_ui_pane(ui)->free_data = free_histogram;
    return NULL;
}

static const char *const key[] = {"key", NULL};

const struct hx_screen hx_screen_histogram = {
    .name = "histogram",
    .about = "the objects of a row by type, shape, size, site, age or state",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .source = histogram_source,
    .head = histogram_title,
    .empty = "There are no objects here.",
    .open = open_row,
    .objects = open_row,
};
