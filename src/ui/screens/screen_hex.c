/* screen_hex.c - the bytes of an object, a row for each word, and where its pointers lead.
 *
 * A snapshot holds which words are pointers, not what the others are: bytes come from the live
 * target and are those of now. Without one only the pointers are listed. Of a large object there is
 * a window around the cursor.
 */
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "layout/type_name.h"
#include "traverse/hold/rules.h"
#include "ui/list/pane.h"
#include "ui/ui_options.h"

#include <inttypes.h>
#include <string.h>

#define WORD      8
#define PAGE      4096
#define WHOLE     8192                /* rows of an object that is loaded at once */
#define WINDOW    2048                /* of a larger one */
#define SIZE_MOST (UINT64_C(1) << 47) /* bytes; a store that says more lies */
#define EDGES_MAX (INT64_C(1) << 40)

/* clang-format off */
#define WITH_BYTES(offset_width)                           \
    {"mark", "", HX_AS_SAFE, 1, 0, NULL, NULL},            \
    {"offset", NULL, HX_AS_OFFSET, offset_width, 0, NULL, NULL}, \
    {"hex", "bytes now", HX_AS_SAFE, 23, 2, NULL, NULL},   \
    {"text", NULL, HX_AS_SAFE, 8, 1, NULL, NULL},          \
    {"leads", "points to", HX_AS_SAFE, -18, 0, NULL, NULL}, \
    {"type", NULL, HX_AS_TYPE, -8, 3, NULL, NULL},         \
    {"points", "as", HX_AS_TEXT, 8, 4, NULL, NULL},          \
    {"bytes", NULL, HX_AS_BYTES, 7, 5, NULL, NULL},        \
    {0}
/* clang-format on */
static const struct hx_column with_bytes[] = {WITH_BYTES(8)};
static const struct hx_column of_large[] = {WITH_BYTES(12)};
#define LARGE 10000000 /* bytes; its offsets take more room */
static const struct hx_column pointers_only[] = {
    {"offset", NULL, HX_AS_OFFSET, 12, 0, NULL, NULL},
    {"leads", "points to", HX_AS_SAFE, -18, 0, NULL, NULL},
    {"points", "as", HX_AS_TEXT, 8, 1, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 2, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -10, 3, NULL, NULL},
    {0},
};

static const char *const names[] = {"mark",  "offset",      "hex",       "text", "leads",  "type",
                                    "kind",  "bytes",       "points",    "rule", "target", "inside",
                                    "value", "alike_words", "alike_all", NULL};
enum {
    MARK,
    OFFSET,
    HEX,
    TEXT,
    LEADS,
    TYPE,
    KIND,
    BYTES,
    POINTS,
    RULE,
    TARGET,
    INSIDE,
    VALUE,
    WORDS,
    ALIKE
};

/* What the title says; one row of the pane's facts. */
static const char *const fact_names[] = {"bytes",  "type",    "pointers", "pid",  "requested",
                                         "shape",  "round",   "holder",   "seen", "agree",
                                         "unread", "problem", NULL};
enum {
    F_BYTES,
    F_TYPE,
    F_POINTERS,
    F_PID,
    F_REQUESTED,
    F_SHAPE,
    F_ROUND,
    F_HOLDER,
    F_SEEN,
    F_AGREE,
    F_UNREAD,
    F_PROBLEM
};

struct asking {
    struct hx_job job;
    const struct hx_ui_options *options;
    uint64_t pane, want;
    uint64_t address;
    int64_t snapshot, first, total;
    bool all, live, found;
    struct hx_table rows, facts;
};

/* The bytes of a window. */
struct bytes {
    uint64_t first, n; /* offset in the object, and how many */
    uint8_t *v;
    bool *known;
};

static void bytes_free(struct bytes *bytes)
{
    free(bytes->v);
    free(bytes->known);
}

/* --- reading --- */

/* The object itself. */
static hx_error *read_object_facts(struct asking *asking, hx_store *store)
{
    HX_ROWS hx_rows *rows = NULL;
    struct hx_cell *cell;
    HX_TRY(hx_query_named(store, HX_QUERY_object_head,
                          HX_QUERY_ARGS(.snapshot = asking->snapshot, .address = asking->address),
                          &rows));
    HX_TRY(hx_table_begin(&asking->facts, fact_names));
    HX_TRY(hx_rows_next(rows, &asking->found));
    if (!asking->found)
        return NULL;
    HX_TRY(hx_table_add(&asking->facts, &cell));
    for (size_t i = F_BYTES; i <= F_HOLDER; i++) {
        struct hx_value value = hx_rows_value(rows, i);
        HX_TRY(hx_cell_set_value(&cell[i], &value));
    }
    return NULL;
}

static hx_error *bytes_read(const struct asking *asking, struct bytes *bytes)
{
    const struct hx_ui_options *options = asking->options;
    bytes->v = calloc(bytes->n + WORD, 1);
    bytes->known = calloc(bytes->n + WORD, sizeof *bytes->known);
    HX_NEED(bytes->v && bytes->known);
    for (uint64_t done = 0; done < bytes->n;) {
        uint64_t at = asking->address + bytes->first + done;
        size_t got = 0;
        HX_TRY(options->read(options->context, at, bytes->n - done, bytes->v + done, &got));
        got = got > bytes->n - done ? bytes->n - done : got;
        memset(bytes->known + done, true, got);
        done += got;
        /* Behind a page that cannot be read there may be others that can. */
        if (done < bytes->n)
            done += PAGE - (asking->address + bytes->first + done) % PAGE;
    }
    return NULL;
}

/* --- rows --- */

static bool printable(uint8_t c)
{
    return c >= 0x20 && c < 0x7f;
}

static hx_error *set_text(struct hx_cell *cell, struct hx_text *text)
{
    hx_error *error =
        text->failed ? hx_error_nomem() : hx_cell_set_text(cell, hx_text_str(text), text->n);
    hx_text_free(text);
    return error;
}

/* The word at offset `at`, the last one possibly a shorter one. */
static hx_error *add_word(struct asking *asking, const struct bytes *bytes, uint64_t at,
                          struct hx_cell **ret)
{
    uint64_t i = at - bytes->first, n = bytes->n - i < WORD ? bytes->n - i : WORD;
    struct hx_text hex = {0}, text = {0};
    bool whole = n == WORD;
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&asking->rows, &cell));
    for (uint64_t k = i; k < i + n; k++) {
        hx_text_puts(&hex, k > i ? " " : "");
        if (bytes->known[k])
            hx_text_putf(&hex, "%02x", bytes->v[k]);
        else
            hx_text_puts(&hex, "--");
        hx_text_putc(&text, !bytes->known[k]         ? '-'
                            : printable(bytes->v[k]) ? (char)bytes->v[k]
                                                     : '.');
        whole &= bytes->known[k];
    }
    hx_cell_set_int(&cell[OFFSET], (int64_t)at);
    if (whole) {
        uint64_t value;
        memcpy(&value, bytes->v + i, sizeof value);
        hx_cell_set_int(&cell[VALUE], (int64_t)value);
    }
    *ret = cell;
    hx_error *error = set_text(&cell[HEX], &hex), *other = set_text(&cell[TEXT], &text);
    if (error)
        hx_error_free(other);
    return error ? error : other;
}

/* What is no pointer has nothing to tell. */
static hx_error *put_plain(struct hx_cell *cell)
{
    HX_TRY(hx_cell_set_text(&cell[MARK], " ", 1));
    HX_TRY(hx_cell_set_text(&cell[LEADS], "", 0));
    HX_TRY(hx_cell_set_text(&cell[TYPE], "", 0));
    HX_TRY(hx_cell_set_text(&cell[POINTS], "", 0));
    return hx_cell_set_text(&cell[KIND], "", 0);
}

static void count_edges(struct asking *asking, int fact)
{
    struct hx_cell *cell = &asking->facts.cell[fact];
    hx_cell_set_int(cell, (cell->type == HX_VALUE_INT ? cell->i : 0) + 1);
}

/* A word that was a pointer in the snapshot: is it still, to the same object? */
static hx_error *put_pointer(struct asking *asking, struct hx_cell *cell, hx_rows *edge)
{
    struct hx_value kind = hx_rows_value(edge, 2), bytes = hx_rows_value(edge, 3),
                    type = hx_rows_value(edge, 4), points = hx_rows_value(edge, 5),
                    rule = hx_rows_value(edge, 6);
    uint64_t target = (uint64_t)hx_rows_value(edge, 1).i;
    uint64_t value = (uint64_t)cell[VALUE].i, inside = value - target;
    bool known = cell[VALUE].type == HX_VALUE_INT;
    bool same = known && (inside < (uint64_t)bytes.i || inside == 0);
    const char *mark = !known ? "?" : same ? "*" : "!";
    struct hx_text leads = {0};
    hx_cell_set_int(&cell[TARGET], (int64_t)target);
    HX_TRY(hx_cell_set_value(&cell[KIND], &kind));
    HX_TRY(hx_cell_set_value(&cell[POINTS], &points));
    HX_TRY(hx_cell_set_value(&cell[RULE], &rule));
    HX_TRY(hx_cell_set_value(&cell[BYTES], &bytes));
    HX_TRY(hx_cell_set_value(&cell[TYPE], &type));
    HX_TRY(hx_cell_set_text(&cell[MARK], mark, 1));
    hx_text_putf(&leads, "0x%" PRIx64, target);
    if (same) {
        hx_cell_set_int(&cell[INSIDE], (int64_t)inside);
        if (inside)
            hx_text_putf(&leads, "+%" PRIu64, inside);
    } else if (known) {
        hx_text_clear(&leads);
        hx_text_putf(&leads, "now 0x%" PRIx64, value);
    }
    if (asking->live) {
        count_edges(asking, known ? F_SEEN : F_UNREAD);
        if (same)
            count_edges(asking, F_AGREE);
    }
    return set_text(&cell[LEADS], &leads);
}

/* --- the pointers of the snapshot --- */

/* The rows of an object's edges are numbered one after the other, in the order of their offsets:
 * *ret is the first one that is not before `offset`. */
static hx_error *find_edge(const struct asking *asking, hx_store *store, int64_t first, int64_t n,
                           uint64_t offset, int64_t *ret)
{
    int64_t low = first, high = first + n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, at = INT64_MAX;
        HX_TRY(hx_query_number(store, HX_QUERY_edge_offset,
                               HX_QUERY_ARGS(.id = middle, .address = asking->address), &at));
        if ((uint64_t)at < offset)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = low;
    return NULL;
}

/* Those from an offset on or (`by_row`) from the so-many-th on, up to WHOLE. Of many only these are
 * looked at. */
static hx_error *open_edges(const struct asking *asking, hx_store *store, uint64_t begin,
                            bool by_row, hx_rows **ret)
{
    int64_t n = hx_table_int(&asking->facts, 0, "pointers", 0), first = 0;
    struct hx_query_args args = {
        .snapshot = asking->snapshot, .address = asking->address, .limit = WHOLE};
    n = n < EDGES_MAX ? n : EDGES_MAX;
    if (n <= WHOLE) {
        args.limit = by_row ? WHOLE : 0;
        args.offset = (int64_t)begin;
        return hx_query_named(store, HX_QUERY_edges_by_offset, &args, ret);
    }
    HX_TRY(hx_query_number(store, HX_QUERY_edge_first, &args, &first));
    if (first < 0 || first > INT64_MAX - EDGES_MAX)
        first = 0; /* a store that lies; nothing is found */
    args.id = first + (int64_t)(begin < EDGES_MAX ? begin : EDGES_MAX);
    if (!by_row)
        HX_TRY(find_edge(asking, store, first, n, begin, &args.id));
    return hx_query_named(store, HX_QUERY_edges_by_number, &args, ret);
}

static hx_error *add_pointers(struct asking *asking, hx_store *store)
{
    HX_ROWS hx_rows *edges = NULL;
    bool more = false;
    HX_TRY(open_edges(asking, store, (uint64_t)asking->first, true, &edges));
    while (asking->rows.n_rows < WHOLE) {
        struct hx_cell *cell;
        HX_TRY(hx_rows_next(edges, &more));
        if (!more)
            break;
        HX_TRY(hx_table_add(&asking->rows, &cell));
        hx_cell_set_int(&cell[OFFSET], hx_rows_value(edges, 0).i);
        HX_TRY(put_pointer(asking, cell, edges));
    }
    return NULL;
}

static hx_error *add_words(struct asking *asking, hx_store *store, const struct bytes *bytes)
{
    HX_ROWS hx_rows *edges = NULL;
    bool more = false;
    HX_TRY(open_edges(asking, store, bytes->first, false, &edges));
    HX_TRY(hx_rows_next(edges, &more));
    for (uint64_t at = bytes->first; at < bytes->first + bytes->n; at += WORD) {
        struct hx_cell *cell;
        HX_TRY(add_word(asking, bytes, at, &cell));
        while (more && (uint64_t)hx_rows_value(edges, 0).i < at)
            HX_TRY(hx_rows_next(edges, &more));
        if (more && (uint64_t)hx_rows_value(edges, 0).i == at)
            HX_TRY(put_pointer(asking, cell, edges));
        else
            HX_TRY(put_plain(cell));
    }
    return NULL;
}

/* Of words that are judged by those of other objects: how many of these have a pointer there. */
static hx_error *count_alike(struct asking *asking, hx_store *store)
{
    size_t row = 0, n = asking->rows.n_rows, columns = asking->rows.n_columns;
    struct hx_cell *cell = asking->rows.cell;
    while (row < n && !hx_rule_counts(hx_rule_find(hx_cell_text(&cell[row * columns + RULE]))))
        row++;
    if (row == n)
        return NULL;
    HX_ROWS hx_rows *counts = NULL;
    const struct hx_query_args args = {.snapshot = asking->snapshot, .address = asking->address};
    HX_TRY(hx_query_named(store, HX_QUERY_alike, &args, &counts));
    for (bool more = true; more && row < n;) {
        HX_TRY(hx_rows_next(counts, &more));
        int64_t offset = more ? hx_rows_value(counts, 0).i : INT64_MAX;
        while (row < n && cell[row * columns + OFFSET].i < offset)
            row++;
        if (row == n || cell[row * columns + OFFSET].i != offset)
            continue;
        hx_cell_set_int(&cell[row * columns + WORDS], hx_rows_value(counts, 1).i);
        hx_cell_set_int(&cell[row * columns + ALIKE], hx_rows_value(counts, 2).i);
    }
    return NULL;
}

/* So many rows in all, and which of them to load. */
static void choose_hex_window(struct asking *asking, int64_t total)
{
    int64_t n = total <= WHOLE ? total : WINDOW, middle = asking->first;
    asking->total = total;
    asking->all = n == total;
    asking->first = middle < n / 2 || asking->all ? 0 : middle - n / 2;
    if (asking->first > total - n)
        asking->first = total - n;
}

static hx_error *live_rows(struct asking *asking, hx_store *store)
{
    uint64_t size = (uint64_t)hx_table_int(&asking->facts, 0, "bytes", 0);
    size = size < SIZE_MOST ? size : SIZE_MOST;
    HX_CLEANUP(bytes_free) struct bytes bytes = {0};
    choose_hex_window(asking, (int64_t)((size + WORD - 1) / WORD));
    bytes.first = (uint64_t)asking->first * WORD;
    bytes.n = (uint64_t)(asking->all ? asking->total : WINDOW) * WORD;
    if (bytes.n > size - bytes.first)
        bytes.n = size - bytes.first;
    HX_TRY(bytes_read(asking, &bytes));
    return add_words(asking, store, &bytes);
}

static hx_error *hex_job_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct asking *asking = (struct asking *)job;
    int64_t middle = asking->first;
    (void)progress;
    HX_TRY(hx_table_begin(&asking->rows, names));
    HX_TRY(read_object_facts(asking, store));
    if (!asking->found)
        return NULL;
    hx_error *error = asking->live ? live_rows(asking, store) : NULL;
    if (error) { /* the process is gone: the pointers of the snapshot stay */
        char line[256];
        hx_error_line(error, line, sizeof line);
        hx_error_free(error);
        HX_TRY(hx_cell_set_text(&asking->facts.cell[F_PROBLEM], line, strlen(line)));
        hx_table_deinit(&asking->rows);
        HX_TRY(hx_table_begin(&asking->rows, names));
        asking->live = false;
        asking->first = middle;
    }
    if (!asking->live) {
        choose_hex_window(asking, hx_table_int(&asking->facts, 0, "pointers", 0));
        HX_TRY(add_pointers(asking, store));
    }
    return count_alike(asking, store);
}

/* --- the pane --- */

static void fail_hex(struct hx_pane *pane, hx_error *error)
{
    char line[512];
    hx_error_line(error, line, sizeof line);
    free(pane->problem);
    pane->problem = strdup(line);
}

static void done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct asking *asking = (struct asking *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, asking->pane);
    if (!pane || pane->want != asking->want) {
        hx_error_free(error);
        return;
    }
    pane->loading = false;
    pane->loaded = true;
    if (error) {
        fail_hex(pane, error);
        hx_ui_complain(ui, error);
        return;
    }
    free(hx_steal(pane->problem));
    if (!asking->all && pane->parsed)
        pane->problem = strdup("This list is too long to be filtered here; F clears the filter.");
    hx_table_deinit(&pane->facts);
    pane->facts = asking->facts;
    asking->facts = (struct hx_table){0};
    pane->columns = !asking->live                                        ? pointers_only
                    : hx_table_int(&pane->facts, 0, "bytes", 0) >= LARGE ? of_large
                                                                         : with_bytes;
    int64_t cursor = pane->cursor, top = pane->top;
    hx_pane_set_rows(pane, &asking->rows);
    if (!asking->all) { /* a part of the list */
        pane->offset = asking->first;
        pane->total = asking->total;
        pane->top = top;
        hx_pane_go(pane, cursor);
    }
}

static void hex_job_destroy(struct hx_job *job)
{
    struct asking *asking = (struct asking *)job;
    hx_table_deinit(&asking->rows);
    hx_table_deinit(&asking->facts);
    free(asking);
}

static hx_error *fill_hex(struct hx_ui *ui, struct hx_pane *pane)
{
    struct asking *asking = calloc(1, sizeof *asking);
    HX_NEED(asking);
    asking->job = (struct hx_job){.what = "reading the object",
                                  .quiet = true,
                                  .lane = HX_LANE_READ,
                                  .run = hex_job_run,
                                  .done = done,
                                  .destroy = hex_job_destroy};
    asking->options = ui->options;
    asking->pane = pane->serial;
    asking->want = ++pane->want;
    asking->address = pane->address;
    asking->snapshot = pane->snapshot;
    asking->live = ui->options->read != NULL;
    asking->first = pane->cursor;
    pane->loading = true;
    hx_jobs_start(ui->jobs, &asking->job);
    return NULL;
}

/* --- the title --- */

static void put_agreement(const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t seen = hx_table_int(facts, 0, "seen", 0), agree = hx_table_int(facts, 0, "agree", 0);
    int64_t unread = hx_table_int(facts, 0, "unread", 0);
    const char *where = (int64_t)pane->rows.n_rows < pane->total ? " near here" : "";
    hx_text_puts(ret, "\nnow: ");
    if (!seen && !unread) {
        hx_text_putf(ret, "there were no pointers%s in snapshot %" PRId64, where, pane->snapshot);
        return;
    }
    if (seen) {
        hx_text_count(ret, agree);
        hx_text_puts(ret, " of ");
        hx_text_count(ret, seen);
        hx_text_putf(ret, " pointer%s%s lead%s where %s did in snapshot %" PRId64,
                     seen == 1 ? "" : "s", where, seen == 1 ? "s" : "", seen == 1 ? "it" : "they",
                     pane->snapshot);
        hx_text_puts(ret, agree * 2 < seen ? "; perhaps freed" : "");
    }
    if (unread) {
        hx_text_puts(ret, seen ? "; " : "");
        hx_text_count(ret, unread);
        hx_text_puts(ret, unread == 1 ? " pointer cannot be read" : " pointers cannot be read");
    }
}

static void put_absence(const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    const char *problem = hx_table_text(facts, 0, "problem");
    int64_t pid = hx_table_int(facts, 0, "pid", 0);
    if (*problem) {
        hx_text_putf(ret, "\nno bytes: %s", problem);
        return;
    }
    hx_text_puts(ret, "\nsnapshots hold no bytes; heapx attach ");
    if (pid)
        hx_text_putf(ret, "%" PRId64, pid);
    else
        hx_text_puts(ret, "PID");
    hx_text_puts(ret, " shows them while it runs");
}

/* "stray: behind the 47 requested bytes" */
static void put_doubt(const struct hx_pane *pane, size_t row, struct hx_text *ret)
{
    enum hx_rule rule = hx_rule_find(hx_table_text(&pane->rows, row, "rule"));
    const struct hx_word_figures figures = {
        .requested = hx_table_int(&pane->facts, 0, "requested", -1),
        .words = hx_table_int(&pane->rows, row, "alike_words", 0),
        .alike = hx_table_int(&pane->rows, row, "alike_all", 0),
    };
    if (rule == HX_RULE_NONE)
        return;
    hx_text_putf(ret, "\n%s: ", hx_table_text(&pane->rows, row, "points"));
    hx_rule_put(rule, &figures, ret);
}

/* All that is known of the word under the cursor, where columns are too narrow. */
static void put_word(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    const struct hx_table *rows = &pane->rows;
    size_t row;
    if (!hx_pane_row(pane, &row))
        return;
    hx_text_putf(ret, "\n+%" PRId64, hx_table_int(rows, row, "offset", 0));
    const struct hx_cell *value = hx_table_at(rows, row, "value");
    const struct hx_cell *target = hx_table_at(rows, row, "target");
    if (value->type == HX_VALUE_INT)
        hx_text_putf(ret, ": 0x%" PRIx64, (uint64_t)value->i);
    if (target->type != HX_VALUE_INT)
        return;
    int64_t inside = hx_table_int(rows, row, "inside", 0);
    const char *type = hx_table_text(rows, row, "type");
    const char *mark = hx_table_text(rows, row, "mark");
    hx_text_puts(ret, *mark == '!' ? ", was a pointer to " : ", pointer to ");
    hx_text_putf(ret, "0x%" PRIx64, (uint64_t)target->i);
    if (inside)
        hx_text_putf(ret, "+%" PRId64, inside);
    hx_text_putf(ret, " (%s), ", hx_table_text(rows, row, "kind"));
    hx_text_count(ret, hx_table_int(rows, row, "bytes", 0));
    hx_text_puts(ret, " bytes");
    if (*type) {
        hx_text_puts(ret, ", ");
        hx_text_type_shown(ret, type, ascii);
    }
    put_doubt(pane, row, ret);
}

static void hex_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    const char *type = hx_table_text(facts, 0, "type");
    hx_text_putf(ret, "Bytes of 0x%" PRIx64, pane->address);
    if (!pane->loaded || (pane->problem && !facts->n_rows))
        return;
    if (!facts->n_rows) {
        hx_text_puts(ret, ": no such object in this snapshot");
        return;
    }
    hx_text_puts(ret, ": ");
    hx_text_count(ret, hx_table_int(facts, 0, "bytes", 0));
    hx_text_puts(ret, " bytes");
    if (*type) {
        hx_text_puts(ret, ", ");
        hx_text_type_shown(ret, type, !ui->term.utf8);
    }
    if (pane->columns != pointers_only)
        put_agreement(pane, ret);
    else
        put_absence(pane, ret);
    put_word(pane, !ui->term.utf8, ret);
    hx_ui_put_held(facts, !ui->term.utf8, ret);
    if (pane->chosen)
        hx_text_putf(ret, "\n%s", pane->chosen);
}

hx_error *hx_ui_open_hex(struct hx_ui *ui, uint64_t object)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, &hx_screen_hex, &pane));
    pane->address = object;
    return hx_ui_push(ui, pane);
}

/* Follows a pointer to the bytes there. */
static hx_error *open_hex_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_hex(ui, address);
    return hx_error_new(HX_E_ABSENT, "this word", "those with a mark are",
                        "is no pointer in snapshot %" PRId64, pane->snapshot);
}

/* Those of the type that a pointer leads to. */
static bool hex_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    uint64_t address;
    if (!hx_pane_object(pane, row, &address))
        return false;
    const char *type = hx_table_text(&pane->rows, row, "type");
    *ret = (struct hx_of){HX_SUBSET_TYPE, *type ? type : NULL, NULL, 0};
    return true;
}

hx_error *hx_do_hex(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    uint64_t address;
    if (*arg) {
        if (!hx_parse_u64(arg, &address))
            return hx_error_new(HX_E_USAGE, arg, "write it like 0x55d0c0de", "is no address");
        return hx_ui_resolve(ui, address, hx_ui_open_hex);
    }
    if (pane->screen == &hx_screen_hex) { /* once more: bytes change */
        hx_pane_reload(ui, pane);
        return NULL;
    }
    return hx_ui_for_object(ui, hx_ui_open_hex);
}

const struct hx_screen hx_screen_hex = {
    .name = "hex",
    .about = "the bytes of an object and where its pointers lead",
    .digit = -1,
    .by_argument = true,
    .columns = with_bytes,
    .object = "target",
    .fill = fill_hex,
    .windows = true,
    .head = hex_title,
    .empty = "It has no pointers.",
    .open = open_hex_row,
    .of = hex_row_set,
};
