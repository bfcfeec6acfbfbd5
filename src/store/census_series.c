/* census_series.c - adds up a census over all snapshots. */
#include "store/census_series.h"

#include "base/index.h"
#include "base/lower_bound.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 65536 /* bytes */

enum { BAND_REST = -1, BAND_LEFT_OUT = -2 };

/* A row of the census, in whatever snapshots it is. */
struct entry {
    struct hx_band_key key;
    double area;
    int band; /* or BAND_... */
};

struct reading {
    const struct hx_census_series_request *request;
    struct hx_census_series *series;
    const struct hx_progress *progress;
    struct hx_text sql;
    HX_VEC(struct entry) entry;
    struct hx_index index; /* of entries */
    bool uncounted;        /* objects are not */
    bool unknown;          /* the bytes of this row are */
};

bool hx_band_key_same(const struct hx_band_key *a, const struct hx_band_key *b)
{
    if (!a->text || !b->text)
        return !a->text && !b->text && a->number == b->number;
    return strcmp(a->text, b->text) == 0;
}

hx_error *hx_band_key_copy(const struct hx_band_key *from, struct hx_band_key *ret)
{
    *ret = (struct hx_band_key){.number = from->number};
    if (from->text)
        HX_NEED(ret->text = strdup(from->text));
    return NULL;
}

static void band_end(struct hx_census_band *band)
{
    free(band->key.text);
    free(band->label);
    free(band->bytes);
    free(band->objects);
}

void hx_census_series_destroy(struct hx_census_series *series)
{
    if (!series)
        return;
    for (size_t i = 0; i < series->n_bands; i++)
        band_end(&series->band[i]);
    band_end(&series->rest);
    free(series->band);
    free(series->snapshot);
    free(series->time);
    free(series->total);
    free(series->rss);
    free(series->known);
    free(series->differs);
    free(series->scheme);
    free(series);
}

size_t hx_census_series_find(const struct hx_census_series *series, int64_t snapshot)
{
    size_t low = HX_LOWER_BOUND(series->n, i, series->snapshot[i] < snapshot);
    return low < series->n && series->snapshot[low] == snapshot ? low : series->n;
}

static hx_error *begin_band(struct hx_census_band *band, size_t n)
{
    band->bytes = calloc(n + 1, sizeof *band->bytes);
    band->objects = calloc(n + 1, sizeof *band->objects);
    return band->bytes && band->objects ? NULL : hx_error_nomem();
}

/* --- snapshots --- */

static int64_t measured(const struct hx_value *value)
{
    return value->type == HX_VALUE_INT && value->i >= 0 ? value->i : -1;
}

static hx_error *reserve_snapshots(struct hx_census_series *series, size_t n)
{
    series->snapshot = calloc(n + 1, sizeof *series->snapshot);
    series->time = calloc(n + 1, sizeof *series->time);
    series->total = calloc(n + 1, sizeof *series->total);
    series->rss = calloc(n + 1, sizeof *series->rss);
    series->known = calloc(n + 1, sizeof *series->known);
    series->differs = calloc(n + 1, sizeof *series->differs);
    HX_NEED(series->snapshot && series->time && series->total && series->rss && series->known &&
            series->differs);
    return NULL;
}

/* One number. */
static hx_error *ask_number(hx_store *store, const char *sql, int64_t *ret)
{
    hx_rows *rows;
    bool more = false;
    *ret = 0;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_error *error = hx_rows_next(rows, &more);
    if (!error && more)
        *ret = hx_rows_value(rows, 0).i;
    hx_rows_end(rows);
    return error;
}

/* One text, NULL where there is none. */
static hx_error *ask_text(hx_store *store, const char *sql, char **ret)
{
    hx_rows *rows;
    bool more = false;
    *ret = NULL;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_error *error = hx_rows_next(rows, &more);
    if (!error && more) {
        struct hx_value value = hx_rows_value(rows, 0);
        size_t n = value.text_bytes < LABEL_MAX ? value.text_bytes : LABEL_MAX;
        if (value.type == HX_VALUE_TEXT && !(*ret = strndup(value.text, n)))
            error = hx_error_nomem();
    }
    hx_rows_end(rows);
    return error;
}

static hx_error *read_snapshots(struct hx_census_series *series, hx_store *store)
{
    int64_t n;
    bool rss = strcmp(series->census->total, "rss_bytes") == 0;
    HX_TRY(ask_number(store, "SELECT count(*) FROM hx_snapshot", &n));
    HX_TRY(reserve_snapshots(series, (size_t)n));
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_sql(store,
                        "SELECT snapshot, taken_at_ns, heap_bytes, rss_bytes FROM hx_snapshot"
                        " ORDER BY snapshot",
                        &rows));
    double first = 0;
    for (bool more; series->n < (size_t)n; series->n++) {
        size_t i = series->n;
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        struct hx_value heap = hx_rows_value(rows, 2), resident = hx_rows_value(rows, 3);
        double at = (double)hx_rows_value(rows, 1).i / 1e9;
        first = i ? first : at;
        series->snapshot[i] = hx_rows_value(rows, 0).i;
        series->rss[i] = measured(&resident);
        series->total[i] = rss ? series->rss[i] : measured(&heap);
        /* A clock that was set back stands still here. */
        series->time[i] = i && at - first < series->time[i - 1] ? series->time[i - 1] : at - first;
    }
    return NULL;
}

/* --- rows --- */

static uint64_t hash_value(const struct hx_value *value)
{
    uint64_t hash = 0xcbf29ce484222325u;
    if (value->type != HX_VALUE_TEXT)
        hash ^= (uint64_t)value->i;
    for (size_t i = 0; value->type == HX_VALUE_TEXT && value->text[i]; i++)
        hash = (hash ^ (unsigned char)value->text[i]) * 0x100000001b3u;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static bool is_key(const struct entry *entry, const struct hx_value *value)
{
    if ((value->type == HX_VALUE_TEXT) != (entry->key.text != NULL))
        return false;
    return entry->key.text ? strcmp(entry->key.text, value->text) == 0
                           : entry->key.number == value->i;
}

/* The entry of a key; NULL when there is none. */
static struct entry *find_series_entry(const struct reading *reading, const struct hx_value *value)
{
    uint64_t hash = hash_value(value);
    for (uint32_t at = 0, i; hx_index_next(&reading->index, hash, &at, &i);)
        if (is_key(&reading->entry.v[i], value))
            return &reading->entry.v[i];
    return NULL;
}

static bool is_left_out(const struct hx_census_series_request *request,
                        const struct hx_band_key *key)
{
    for (size_t i = 0; i < request->n_without; i++)
        if (hx_band_key_same(&request->without[i], key))
            return true;
    return false;
}

static hx_error *add_series_entry(struct reading *reading, const struct hx_value *value,
                                  struct entry **ret)
{
    struct entry entry = {.key.number = value->i, .band = BAND_REST};
    if (value->type == HX_VALUE_TEXT)
        HX_NEED(entry.key.text = strdup(value->text));
    if (is_left_out(reading->request, &entry.key))
        entry.band = BAND_LEFT_OUT;
    if (!hx_vec_push(&reading->entry, entry)) {
        free(entry.key.text);
        return hx_error_nomem();
    }
    *ret = &reading->entry.v[reading->entry.n - 1];
    return hx_index_add(&reading->index, hash_value(value), (uint32_t)reading->entry.n - 1);
}

/* What a snapshot counts in an area: the time around it. */
static double snapshot_weight(const struct hx_census_series *series, size_t i)
{
    const double *time = series->time;
    double from = i ? time[i - 1] : time[0];
    double to = i + 1 < series->n ? time[i + 1] : time[series->n - 1];
    return (to - from) / 2 + 1e-9;
}

static void add_saturated(int64_t *sum, int64_t part)
{
    if (__builtin_add_overflow(*sum, part, sum)) /* a store that lies */
        *sum = INT64_MAX;
}

/* The rest is all, at first. */
static hx_error *add_weighted(struct reading *reading, size_t i, const struct hx_value *key,
                              int64_t bytes, int64_t objects)
{
    struct entry *entry = find_series_entry(reading, key);
    struct hx_census_series *series = reading->series;
    if (!entry)
        HX_TRY(add_series_entry(reading, key, &entry));
    series->known[i] |= !reading->request->plain || !reading->unknown;
    if (entry->band == BAND_LEFT_OUT)
        return NULL;
    entry->area += (double)bytes * (reading->request->plain ? 1 : snapshot_weight(series, i));
    add_saturated(&series->rest.bytes[i], bytes);
    add_saturated(&series->rest.objects[i], objects < 0 ? 0 : objects);
    reading->uncounted |= objects < 0;
    return NULL;
}

static hx_error *take_down(struct reading *reading, size_t i, const struct hx_value *key,
                           int64_t bytes, int64_t objects)
{
    const struct entry *entry = find_series_entry(reading, key);
    struct hx_census_band *rest = &reading->series->rest;
    if (!entry || entry->band < 0)
        return NULL; /* it came just now */
    struct hx_census_band *band = &reading->series->band[entry->band];
    objects = objects < 0 ? 0 : objects;
    add_saturated(&band->bytes[i], bytes);
    add_saturated(&band->objects[i], objects);
    rest->bytes[i] -= bytes < rest->bytes[i] ? bytes : rest->bytes[i];
    rest->objects[i] -= objects < rest->objects[i] ? objects : rest->objects[i];
    return NULL;
}

typedef hx_error *each_fn(struct reading *reading, size_t i, const struct hx_value *key,
                          int64_t bytes, int64_t objects);

static hx_error *each_series_row(struct reading *reading, hx_store *store, each_fn *each)
{
    HX_ROWS hx_rows *rows = NULL;
    const struct hx_census_series *series = reading->series;
    HX_NEED(!reading->sql.failed);
    HX_TRY(hx_query_sql(store, reading->sql.s, &rows));
    size_t at = 0;
    for (uint64_t count = 0;; count++) {
        bool more = false;
        if (count % 4096 == 0) {
            if (hx_progress_cancelled(reading->progress))
                return hx_error_cancelled("chart");
            hx_progress_at(reading->progress, "adding up", count, 0);
        }
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        int64_t snapshot = hx_rows_value(rows, 0).i;
        struct hx_value key = hx_rows_value(rows, 1), bytes = hx_rows_value(rows, 2),
                        objects = hx_rows_value(rows, 3);
        if (at >= series->n || series->snapshot[at] != snapshot)
            at = hx_census_series_find(series, snapshot);
        reading->unknown = bytes.type != HX_VALUE_INT;
        if (at < series->n && !series->differs[at])
            HX_TRY(each(reading, at, &key, bytes.i > 0 ? bytes.i : 0, measured(&objects)));
    }
}

/* --- bands --- */

static int by_area(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
    if ((x->band == BAND_LEFT_OUT) != (y->band == BAND_LEFT_OUT))
        return x->band == BAND_LEFT_OUT ? 1 : -1;
    if (x->area != y->area)
        return x->area < y->area ? 1 : -1;
    if (x->key.text && y->key.text)
        return strcmp(x->key.text, y->key.text);
    return x->key.number < y->key.number ? -1 : x->key.number > y->key.number;
}

/* The largest become bands. */
static hx_error *choose_series_bands(struct reading *reading)
{
    struct hx_census_series *series = reading->series;
    size_t n = reading->entry.n, left_out = 0;
    HX_FREE struct entry **order = calloc(n + 1, sizeof *order);
    HX_NEED(order);
    for (size_t i = 0; i < n; i++) {
        order[i] = &reading->entry.v[i];
        left_out += order[i]->band == BAND_LEFT_OUT;
    }
    qsort(order, n, sizeof *order, by_area);
    n -= left_out;
    size_t most = reading->request->most;
    size_t bands = n <= most ? n : most - !reading->request->plain;
    series->n_rest = n - bands;
    series->band = calloc(bands + 1, sizeof *series->band);
    HX_NEED(series->band);
    for (; series->n_bands < bands; series->n_bands++) {
        struct hx_census_band *band = &series->band[series->n_bands];
        order[series->n_bands]->band = (int)series->n_bands;
        hx_error *error = hx_band_key_copy(&order[series->n_bands]->key, &band->key);
        if (!error)
            error = begin_band(band, series->n);
        if (error) {
            band_end(band);
            return error;
        }
    }
    return NULL;
}

static void put_key(const struct hx_band_key *key, struct hx_text *sql)
{
    if (key->text)
        hx_text_sql(sql, key->text);
    else
        hx_text_putf(sql, "%" PRId64, key->number);
}

/* Only those of the bands. */
static void put_bands(struct reading *reading)
{
    const struct hx_census_series *series = reading->series;
    hx_text_puts(&reading->sql, series->scheme ? " AND key IN (" : " WHERE key IN (");
    for (size_t b = 0; b < series->n_bands; b++) {
        hx_text_puts(&reading->sql, b ? ", " : "");
        put_key(&series->band[b].key, &reading->sql);
    }
    hx_text_puts(&reading->sql, ")");
}

static hx_error *read_label(const struct hx_census_series *series, struct hx_census_band *band,
                            hx_store *store)
{
    struct hx_text key = {0}, sql = {0};
    put_key(&band->key, &key);
    hx_text_puts(&sql, "SELECT ");
    hx_census_brief_sql(series->census, hx_text_str(&key), &sql);
    hx_error *error =
        key.failed || sql.failed ? hx_error_nomem() : ask_text(store, sql.s, &band->label);
    hx_text_free(&key);
    hx_text_free(&sql);
    if (!error && !band->label && !(band->label = strdup("(unknown)")))
        error = hx_error_nomem();
    return error;
}

/* --- all of it --- */

/* What an imported profile is broken down by; NULL: there is none. */
static hx_error *find_imported(hx_store *store, const struct hx_stored_census **ret)
{
    static const char *const told[] = {"ccs", "biography", "module", "type"};
    *ret = NULL;
    for (size_t i = 0; i < sizeof told / sizeof *told && !*ret; i++) {
        const struct hx_stored_census *census = hx_census_find(told[i]);
        char sql[128];
        int64_t there = 0;
        snprintf(sql, sizeof sql, "SELECT EXISTS (SELECT 1 FROM %s WHERE bytes IS NOT NULL)",
                 census->also ? census->also : census->table);
        HX_TRY(ask_number(store, sql, &there));
        if (there)
            *ret = census;
    }
    return NULL;
}

static hx_error *choose_census(const struct hx_census_series_request *request, hx_store *store,
                               struct hx_census_series *series)
{
    int64_t holders = 0, retainers = 0, heaps = 0, objects = 0;
    series->census = request->census;
    if (series->census)
        return NULL;
    HX_TRY(ask_number(store, "SELECT EXISTS (SELECT 1 FROM hx_holding)", &holders));
    HX_TRY(ask_number(store, "SELECT EXISTS (SELECT 1 FROM hx_retention)", &retainers));
    HX_TRY(ask_number(store,
                      "SELECT EXISTS (SELECT 1 FROM snapshots WHERE heap_bytes IS NOT NULL)"
                      " OR NOT EXISTS (SELECT 1 FROM hx_account)",
                      &heaps));
    HX_TRY(ask_number(store,
                      "SELECT NOT EXISTS (SELECT 1 FROM snapshots WHERE method = 'import')"
                      " OR EXISTS (SELECT 1 FROM snapshots WHERE heap_objects IS NOT NULL)",
                      &objects));
    if (!retainers && !objects)
        HX_TRY(find_imported(store, &series->census));
    if (!series->census)
        series->census = hx_census_find(holders     ? "holder"
                                        : retainers ? "retainer"
                                        : heaps     ? "leak"
                                                    : "account");
    return NULL;
}

/* Retainer sets of one scheme can be compared. */
static hx_error *choose_scheme(const struct hx_census_series_request *request, hx_store *store,
                               struct hx_census_series *series)
{
    struct hx_text sql = {0};
    if (request->scheme) {
        series->scheme = strdup(request->scheme);
        return series->scheme ? NULL : hx_error_nomem();
    }
    hx_text_putf(&sql,
                 "SELECT scheme FROM censuses WHERE scheme IS NOT NULL"
                 " ORDER BY snapshot = %" PRId64 " DESC, snapshot DESC LIMIT 1",
                 request->snapshot);
    hx_error *error = sql.failed ? hx_error_nomem() : ask_text(store, sql.s, &series->scheme);
    hx_text_free(&sql);
    return error;
}

/* The named roots of a snapshot, which is an expression in SQL, as one text. */
#define NAMES(snapshot)                                                                            \
    "(SELECT group_concat(name || '=' || coalesce(expr, ''), ' ') FROM"                            \
    " (SELECT name, expr FROM hx_named WHERE snapshot = " snapshot " ORDER BY position))"

/* Bins of the same named roots can be compared: those of the snapshot that is looked at, else of
 * the last that has some. */
static hx_error *choose_names(struct reading *reading, hx_store *store)
{
    struct hx_census_series *series = reading->series;
    struct hx_text sql = {0};
    int64_t like = 0;
    hx_text_putf(&sql,
                 "SELECT snapshot FROM hx_named ORDER BY snapshot = %" PRId64
                 " DESC, snapshot DESC LIMIT 1",
                 reading->request->snapshot);
    hx_error *error = sql.failed ? hx_error_nomem() : ask_number(store, sql.s, &like);
    hx_text_clear(&sql);
    series->named = like != 0;
    hx_text_putf(&sql,
                 "SELECT DISTINCT snapshot FROM hx_named AS n WHERE " NAMES(
                     "n.snapshot") " <> " NAMES("%" PRId64),
                 like);
    HX_ROWS hx_rows *rows = NULL;
    if (!error)
        error = sql.failed ? hx_error_nomem() : hx_query_sql(store, sql.s, &rows);
    hx_text_free(&sql);
    HX_TRY(error);
    for (bool more = true;;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        size_t i = hx_census_series_find(series, hx_rows_value(rows, 0).i);
        if (i < series->n)
            series->differs[i] = true;
    }
}

static hx_error *put_statement(struct reading *reading, hx_store *store)
{
    struct hx_census_series *series = reading->series;
    hx_text_puts(&reading->sql, "SELECT snapshot, key, bytes, objects FROM (");
    hx_census_sql(series->census, reading->request->plain ? reading->request->snapshot : 0,
                  &reading->sql);
    hx_text_puts(&reading->sql, ")");
    if (reading->request->plain)
        return reading->sql.failed ? hx_error_nomem() : NULL;
    if (series->census->alike == HX_ALIKE_SCHEME)
        HX_TRY(choose_scheme(reading->request, store, series));
    if (series->scheme) {
        hx_text_puts(&reading->sql,
                     " WHERE snapshot IN (SELECT snapshot FROM hx_census WHERE scheme = ");
        hx_text_sql(&reading->sql, series->scheme);
        hx_text_puts(&reading->sql, ")");
    }
    if (series->census->alike == HX_ALIKE_ROOTS)
        HX_TRY(choose_names(reading, store));
    return reading->sql.failed ? hx_error_nomem() : NULL;
}

/* Of an empty heap there is nothing to break down. */
static void settle_series(struct reading *reading)
{
    struct hx_census_series *series = reading->series;
    for (size_t i = 0; i < series->n; i++) {
        series->known[i] |= !reading->request->plain && series->total[i] == 0;
        series->n_known += series->known[i];
    }
    for (size_t b = 0; reading->uncounted && b <= series->n_bands; b++) {
        struct hx_census_band *band = b < series->n_bands ? &series->band[b] : &series->rest;
        for (size_t i = 0; i < series->n; i++)
            band->objects[i] = -1;
    }
}

static hx_error *read_series(struct reading *reading, hx_store *store)
{
    struct hx_census_series *series = reading->series;
    HX_TRY(choose_census(reading->request, store, series));
    HX_TRY(read_snapshots(series, store));
    HX_TRY(begin_band(&series->rest, series->n));
    HX_TRY(put_statement(reading, store));
    HX_TRY(each_series_row(reading, store, add_weighted));
    HX_TRY(choose_series_bands(reading));
    put_bands(reading);
    HX_TRY(each_series_row(reading, store, take_down));
    settle_series(reading);
    for (size_t i = 0; i < series->n_bands; i++)
        HX_TRY(read_label(series, &series->band[i], store));
    return NULL;
}

hx_error *hx_census_series_read(hx_store *store, const struct hx_census_series_request *request,
                                const struct hx_progress *progress, struct hx_census_series **ret)
{
    struct reading reading = {.request = request, .progress = progress};
    reading.series = calloc(1, sizeof *reading.series);
    HX_NEED(reading.series);
    hx_error *error = read_series(&reading, store);
    for (size_t i = 0; i < reading.entry.n; i++)
        free(reading.entry.v[i].key.text);
    hx_vec_free(&reading.entry);
    hx_index_free(&reading.index);
    hx_text_free(&reading.sql);
    if (error)
        hx_census_series_destroy(reading.series);
    else
        *ret = reading.series;
    return error;
}
