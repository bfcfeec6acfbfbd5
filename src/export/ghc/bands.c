/* bands.c - break-downs over time as GHC's formats want them. */
#include "export/ghc/bands.h"

#include "base/lower_bound.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEPARATOR 0x1f /* between the names of a set, in the statement below */
#define SITE      0x1e /* before the name of a site: "#12 inner < outer < ..." */

/* --- keys -------------------------------------------------------------------------- */

static hx_error *keep_key(void *context, hx_rows *rows)
{
    struct hx_bands *bands = context;
    struct hx_value key = hx_rows_value(rows, 0);
    size_t n = key.type == HX_VALUE_TEXT ? key.text_bytes : 0;
    struct hx_band_name name = {.key = bands->texts.n, .key_bytes = n};
    HX_NEED(bands->names.n < UINT32_MAX / 4 &&
            hx_vec_reserve(&bands->texts, bands->texts.n + n + 1) &&
            hx_vec_push(&bands->names, name));
    if (n)
        memcpy(bands->texts.v + bands->texts.n, key.text, n);
    bands->texts.v[bands->texts.n + n] = 0;
    bands->texts.n += n + 1;
    return NULL;
}

static hx_error *begin_rows(struct hx_bands *bands)
{
    enum hx_query_name query = bands->census->form == HX_KEY_TEXT  ? HX_QUERY_census_samples
                               : bands->census->form == HX_KEY_SET ? HX_QUERY_census_set_samples
                                                                   : HX_QUERY_census_stack_samples;
    HX_TRY(hx_query_named(
        bands->export->store, query,
        HX_QUERY_ARGS(.census = bands->census, .snapshot = bands->export->snapshot), &bands->rows));
    return hx_rows_next(bands->rows, &bands->more);
}

/* --- begin ------------------------------------------------------------------------- */

static hx_error *choose_bands(struct hx_bands *bands)
{
    const struct hx_export *export = bands->export;
    bool has = false;
    if (!export->by)
        HX_TRY(hx_export_choose(export, &bands->census));
    else
        bands->census = strcmp(export->by, hx_census_kinds.name) == 0 ? &hx_census_kinds
                                                                      : hx_census_find(export->by);
    HX_TRY(hx_export_has(export, bands->census, &has));
    return has ? NULL : hx_export_absent(export, bands->census->name);
}

hx_error *hx_bands_begin(const struct hx_export *export, enum hx_band_form form, size_t limit,
                         struct hx_bands *bands)
{
    *bands = (struct hx_bands){.export = export, .form = form, .limit = limit, .named = true};
    HX_TRY(hx_timepoints_load(export, &bands->timepoints));
    HX_TRY(choose_bands(bands));
    if (hx_census_calls(bands->census))
        HX_TRY(hx_export_stacktree(export,
                                   bands->census->form == HX_KEY_CCS ? HX_TREE_CCS : HX_TREE_FRAMES,
                                   &bands->tree));
    if (bands->census->form == HX_KEY_TEXT) {
        HX_TRY(hx_query_each(export->store, HX_QUERY_census_keys,
                             HX_QUERY_ARGS(.census = bands->census, .snapshot = export->snapshot),
                             keep_key, bands));
        HX_TRY(hx_bands_name_keys(bands));
    }
    return begin_rows(bands);
}

void hx_bands_deinit(struct hx_bands *bands)
{
    hx_timepoints_deinit(&bands->timepoints);
    hx_stacktree_deinit(&bands->tree);
    hx_rows_end(bands->rows);
    hx_vec_free(&bands->names);
    hx_vec_free(&bands->texts);
    hx_text_free(&bands->text);
    hx_text_free(&bands->scratch);
}

const char *hx_timepoints_program(const struct hx_timepoints *timepoints,
                                  const struct hx_export *export)
{
    const char *slash = strrchr(timepoints->exe, '/');
    if (slash && slash[1])
        return slash + 1;
    return timepoints->exe[0]    ? timepoints->exe
           : timepoints->comm[0] ? timepoints->comm
                                 : export->title;
}

const char *hx_band_date(int64_t at_ns, char buf[HX_BAND_DATE])
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t at = at_ns / 1000000000;
    struct tm tm;
    if (!gmtime_r(&at, &tm))
        tm = (struct tm){.tm_mday = 1};
    snprintf(buf, HX_BAND_DATE, "%s %s %02d %02d:%02d %d", days[tm.tm_wday], months[tm.tm_mon],
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_year + 1900);
    return buf;
}

/* --- samples ------------------------------------------------------------------------ */

static int64_t row_snapshot(const struct hx_bands *bands)
{
    struct hx_value value = hx_rows_value(bands->rows, 0);
    return value.type == HX_VALUE_INT ? value.i : 0;
}

static void tell_band_notes(struct hx_bands *bands)
{
    struct hx_text *notes = bands->export->notes;
    if (bands->absent)
        hx_text_putf(notes, "snapshots without data by %s are left out: %" PRIu64 "\n",
                     bands->census->name, bands->absent);
    if (bands->cut)
        hx_text_putf(notes, "names that were too long for the format and are cut: %" PRIu64 "\n",
                     bands->cut);
}

/* Leaves a row that was given out. */
static hx_error *step_band_row(struct hx_bands *bands)
{
    if (!bands->given)
        return NULL;
    bands->given = false;
    return hx_rows_next(bands->rows, &bands->more);
}

/* Rows that belong to no snapshot of ours are passed over: somebody has added one meanwhile. */
static hx_error *seek_snapshot_bands(struct hx_bands *bands, int64_t snapshot)
{
    HX_TRY(step_band_row(bands));
    while (bands->more && row_snapshot(bands) < snapshot)
        HX_TRY(hx_rows_next(bands->rows, &bands->more));
    return NULL;
}

hx_error *hx_bands_sample(struct hx_bands *bands, const struct hx_timepoint **ret)
{
    size_t n = bands->timepoints.v.n;
    for (; bands->next_timepoint < n; bands->absent++) {
        const struct hx_timepoint *timepoint = &bands->timepoints.v.v[bands->next_timepoint++];
        hx_progress_at(bands->export->progress, "exporting", bands->next_timepoint, n);
        if (hx_progress_cancelled(bands->export->progress))
            return hx_error_cancelled("export");
        HX_TRY(seek_snapshot_bands(bands, timepoint->snapshot));
        bool rows = bands->more && row_snapshot(bands) == timepoint->snapshot;
        if (!rows && timepoint->heap_bytes)
            continue;
        bands->sum = 0;
        *ret = bands->timepoint = timepoint;
        return NULL;
    }
    tell_band_notes(bands);
    *ret = bands->timepoint = NULL;
    return NULL;
}

static void end_sample(struct hx_bands *bands)
{
    const struct hx_timepoint *timepoint = bands->timepoint;
    if (timepoint->heap_bytes < 0 || (uint64_t)timepoint->heap_bytes == bands->sum)
        return;
    hx_text_putf(bands->export->notes,
                 "rows of snapshot %" PRId64 " add up to %" PRIu64 " bytes, its heap is %" PRId64
                 "\n",
                 timepoint->snapshot, bands->sum, timepoint->heap_bytes);
}

/* One name of a set; of a site the innermost centre, as GHC does. */
static void put_member(struct hx_bands *bands, const char *s, size_t n)
{
    const char *label = s + 1;
    if (n && *s == SITE) {
        n--;
        size_t digits = n && *label == '#' ? 1 + strspn(label + 1, "0123456789") : 0;
        if (digits > 1 && digits < n && label[digits] == ' ') {
            label += digits + 1;
            n -= digits + 1;
        }
        const char *end = memmem(label, n, " < ", 3);
        hx_band_clean(&bands->text, bands->form, label, end ? (size_t)(end - label) : n);
        return;
    }
    hx_band_clean(&bands->text, bands->form, s, n);
}

static void name_set(struct hx_bands *bands, const struct hx_band *band)
{
    struct hx_text *text = &bands->text;
    struct hx_value members = hx_rows_value(bands->rows, 3);
    const char *s = members.type == HX_VALUE_TEXT ? members.text : "";
    hx_text_clear(text);
    if (band->id == 0)
        hx_text_puts(text, "(unreachable)");
    else if (band->id == 1)
        hx_text_puts(text, "MANY");
    else
        hx_text_putf(text, "(%" PRId64 ")", band->id);
    while (*s && text->n <= bands->limit) {
        size_t n = strcspn(s, "\x1f");
        put_member(bands, s, n);
        s += n;
        if (*s == SEPARATOR) {
            hx_text_putc(text, ',');
            s++;
        }
    }
}

static hx_error *name_stack(struct hx_bands *bands, const struct hx_band *band)
{
    struct hx_text *text = &bands->text;
    struct hx_stacktree *tree = &bands->tree;
    hx_text_clear(text);
    uint32_t at = hx_stacktree_find(tree, band->id);
    if (at == HX_NO_STACK)
        return hx_export_damaged(bands->export, "stacks");
    if (tree->rows.v[at].parent != HX_NO_STACK)
        hx_text_putf(text, "(%" PRId64 ")", band->id);
    for (bool first = true; at != HX_NO_STACK && text->n <= bands->limit; first = false) {
        const struct hx_stack_row *row = &tree->rows.v[at];
        at = row->parent;
        if (at == HX_NO_STACK && !first) /* MAIN stands alone or not at all */
            break;
        const char *name = hx_stacktree_shown(tree, row->centre);
        HX_NEED(name);
        if (!first)
            hx_text_putc(text, '/');
        hx_band_clean(text, bands->form, name, strlen(name));
    }
    return NULL;
}

/* As SQL orders texts. */
static int compare_band_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static hx_error *find_band_name(struct hx_bands *bands, const char *key, size_t n, const char **ret)
{
    const struct hx_band_name *name = bands->names.v;
    const char *texts = bands->texts.v;
    size_t at = HX_LOWER_BOUND(
        bands->names.n, i, compare_band_bytes(texts + name[i].key, name[i].key_bytes, key, n) < 0);
    if (at == bands->names.n ||
        compare_band_bytes(texts + name[at].key, name[at].key_bytes, key, n) != 0)
        return hx_export_damaged(bands->export, "names"); /* it changed under our feet */
    *ret = texts + name[at].name;
    return NULL;
}

static hx_error *name_band(struct hx_bands *bands, struct hx_band *band)
{
    if (bands->census->form == HX_KEY_TEXT)
        return find_band_name(bands, band->key, band->key_bytes, &band->name);
    if (bands->census->form == HX_KEY_SET)
        name_set(bands, band);
    else
        HX_TRY(name_stack(bands, band));
    HX_NEED(!bands->text.failed);
    bands->cut += hx_band_cut(&bands->text, bands->limit);
    band->name = hx_text_str(&bands->text);
    return NULL;
}

/* The row at which `rows` stands. *ret_known false: its bytes are not. */
static hx_error *read_band(struct hx_bands *bands, struct hx_band *ret, bool *ret_known)
{
    struct hx_value key = hx_rows_value(bands->rows, 1), bytes = hx_rows_value(bands->rows, 2);
    bool text = bands->census->form == HX_KEY_TEXT;
    *ret_known = bytes.type != HX_VALUE_NULL;
    if (key.type != (text ? HX_VALUE_TEXT : HX_VALUE_INT) ||
        (*ret_known && (bytes.type != HX_VALUE_INT || bytes.i < 0)) ||
        __builtin_add_overflow(bands->sum, *ret_known ? (uint64_t)bytes.i : 0, &bands->sum))
        return hx_export_damaged(bands->export, "figures of a census");
    *ret = (struct hx_band){.bytes = (uint64_t)bytes.i};
    if (text) {
        ret->key = key.text;
        ret->key_bytes = key.text_bytes;
    } else
        ret->id = key.i;
    return *ret_known && bands->named ? name_band(bands, ret) : NULL;
}

hx_error *hx_bands_next(struct hx_bands *bands, struct hx_band *ret, bool *ret_more)
{
    for (bool known = false; !known;) {
        HX_TRY(step_band_row(bands));
        *ret_more = bands->more && row_snapshot(bands) == bands->timepoint->snapshot;
        if (!*ret_more) {
            end_sample(bands);
            return NULL;
        }
        HX_TRY(read_band(bands, ret, &known));
        bands->given = true;
    }
    return NULL;
}
