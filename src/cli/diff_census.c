/* diff_census.c - two snapshots by the rows of a census: both sides are summed up by key in one
 * skip list, which takes the logarithm of its rows for each of them whatever the keys are. */
#include "cli/diff.h"

#include "base/vec.h"
#include "cli/take/take.h"
#include "cli/words/view.h"
#include "traverse/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { KEYS = 4, A = 0, B = 1 };

/* Which columns are what. */
struct hx_diff_census {
    const char *view;
    const char *key[KEYS];
    const char *of_rows;         /* the same as SQL over the view; NULL: columns of these names */
    const char *bytes, *objects; /* columns or SQL; objects NULL: it counts none */
    bool whole;                  /* has a row for every object, so none at all is no data */
    const char *of_objects;      /* the same key as columns of `objects`; NULL: has none */
    bool labels;                 /* that is a set_id, and the key its label; or a ccs_id, and the
                                    label is the second key */
    bool numbered;               /* the first key is a number that means something in one store */
    const char *identity; /* SQL: the same in every store, not shown; NULL: the keys say it */
    bool lost_only;       /* speaks only of objects that are lost, or may be */
    bool largest_only;    /* rows are left out: `objects` has the others, by address */
};

/* What the store says of the whole stack that allocated an object. */
#define STACK(column) "(SELECT t." column " FROM hx_stack AS t WHERE t.stack_id = x.stack_id)"

/* Of a site's cost-centre stack: its innermost functions, and what it is in every store. */
#define CCS_LABEL                                                                                  \
    "(WITH RECURSIVE up(parent, n, label) AS (SELECT c.parent_id, 0, k.label FROM hx_ccs AS c"     \
    " JOIN hx_centre AS k ON k.centre = c.centre WHERE c.ccs_id = x.ccs_id UNION ALL"              \
    " SELECT c.parent_id, up.n + 1, k.label FROM up CROSS JOIN hx_ccs AS c ON c.ccs_id ="          \
    " up.parent CROSS JOIN hx_centre AS k ON k.centre = c.centre"                                  \
    " WHERE c.parent_id IS NOT NULL AND up.n < 12)"                                                \
    " SELECT group_concat(CASE n WHEN 12 THEN '...' ELSE label END, ' < ') FROM up)"
#define CCS_IDENTITY "(SELECT c.identity FROM hx_ccs AS c WHERE c.ccs_id = x.ccs_id)"

static const struct hx_diff_census censuses[] = {
    {.view = "retainers",
     .key = {"label"},
     .bytes = "bytes",
     .objects = "objects",
     .whole = true,
     .of_objects = "set_id",
     .labels = true},
    {.view = "bins",
     .key = {"roots"},
     .bytes = "bytes",
     .objects = "objects",
     .whole = true,
     .of_objects = "bin"},
    {.view = "types",
     .key = {"type"},
     .bytes = "bytes",
     .objects = "objects",
     .whole = true,
     .of_objects = "coalesce(type, '(unknown)')"},
    {.view = "leaks",
     .key = {"kind", "type", "site"},
     .bytes = "bytes",
     .objects = "objects",
     .of_objects = "state, type, " STACK("label"),
     .lost_only = true},
    {.view = "sites",
     .key = {"ccs_id", "label"},
     .of_rows = "ccs_id, " CCS_LABEL,
     .bytes = "bytes",
     .objects = "objects",
     .whole = true,
     .of_objects = "ccs_id, NULL",
     .labels = true,
     .numbered = true,
     .identity = CCS_IDENTITY},
    {.view = "costs", /* what is live now of what was allocated below a cost centre */
     .key = {"ccs_id", "label"},
     .of_rows = "ccs_id, " CCS_LABEL,
     .bytes = "inherited_live_bytes",
     .objects = "inherited_live_objects",
     .whole = true,
     .numbered = true,
     .identity = CCS_IDENTITY},
    {.view = "modules",
     .key = {"module"},
     .bytes = "bytes",
     .objects = "objects",
     .whole = true,
     .of_objects = "coalesce(" STACK("module") ", '(unknown)')"},
    {.view = "roots",
     .key = {"kind", "name", "module"},
     .bytes = "retained_bytes",
     .objects = "direct_objects"},
    {.view = "dominators",
     .key = {"address", "type"},
     .bytes = "retained_bytes",
     .objects = "retained_objects",
     .largest_only = true},
    {.view = "account", .key = {"part"}, .bytes = "bytes"},
    {.view = "biography", .key = {"phase"}, .bytes = "bytes", .objects = "objects", .whole = true},
};
enum { N_CENSUSES = sizeof censuses / sizeof *censuses };

const struct hx_diff_census *hx_diff_census(const char *view)
{
    for (size_t i = 0; i < N_CENSUSES; i++)
        if (strcmp(censuses[i].view, view) == 0)
            return &censuses[i];
    return NULL;
}

void hx_diff_censuses(bool still, struct hx_text *text)
{
    for (size_t i = 0; i < N_CENSUSES; i++)
        if (!still || censuses[i].of_objects)
            hx_text_putf(text, "%s, ", censuses[i].view);
    hx_text_puts(text, "objects");
}

static size_t count_keys(const struct hx_diff_census *census)
{
    size_t n = 0;
    while (n < KEYS && census->key[n])
        n++;
    return n;
}

/* --- the sums ---------------------------------------------------------------------- */

struct sum {
    int64_t n;
    bool unknown; /* a part of it is: all of it is */
};

struct figures {
    bool there;
    struct sum bytes, objects;
};

struct change {
    struct hx_value key[KEYS]; /* texts lie behind it; what is beyond the view's is NULL */
    struct figures side[2];
    struct change *next[]; /* by key, on each of its levels */
};

/* Entries lie in blocks, so that a million of them are gone at once. */
struct block {
    struct block *next;
    char bytes[];
};
enum { BLOCK = 1 << 18, LEVELS = 24 };

struct census {
    const struct hx_diff_census *definition;
    struct hx_diff_choice choice;
    struct change *first[LEVELS]; /* of each level, by key */
    uint64_t random;
    struct block *blocks;
    size_t room, end; /* of the first of them: bytes that are free, at its end, and in all */
    HX_VEC(struct change *) entries;
    struct change *latest; /* what the last row went into: often the next one, too */
    size_t next;
};

static int compare_census_keys(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int order = 0;
    for (size_t i = 0; i < KEYS && !order; i++)
        order = hx_value_order(x->key[i], y->key[i]);
    return order;
}

/* Memory that lives as long as the census; NULL: there is none. */
static void *allocate_in_census(struct census *census, size_t n)
{
    n = (n + 7) & ~(size_t)7;
    if (census->room < n) {
        size_t bytes = n > BLOCK ? n : BLOCK;
        struct block *block = malloc(sizeof *block + bytes);
        if (!block)
            return NULL;
        block->next = census->blocks;
        census->blocks = block;
        census->room = census->end = bytes;
    }
    void *room = census->blocks->bytes + (census->end - census->room);
    census->room -= n;
    return room;
}

static struct change *copy_entry(struct census *census, const struct change *from, int levels)
{
    struct change *entry =
        allocate_in_census(census, sizeof *entry + (size_t)levels * sizeof *entry->next);
    if (!entry)
        return NULL;
    *entry = *from;
    for (size_t i = 0; i < KEYS; i++) {
        struct hx_value *key = &entry->key[i];
        if (key->type != HX_VALUE_TEXT)
            continue;
        char *text = allocate_in_census(census, key->text_bytes + 1);
        if (!text)
            return NULL;
        memcpy(text, key->text ? key->text : "", key->text_bytes);
        text[key->text_bytes] = 0;
        key->text = text;
    }
    return entry;
}

/* The entry of a key, NULL: there is none. `link`: what leads to it, or would, on each level. */
static struct change *look_up_change(struct census *census, const struct change *wanted,
                                     struct change **link[LEVELS])
{
    struct change **links = census->first, *found = NULL;
    for (int i = LEVELS - 1; i >= 0; i--) {
        int order = -1;
        while (links[i] && links[i] != found && (order = compare_census_keys(links[i], wanted)) < 0)
            links = links[i]->next;
        if (links[i] && order == 0)
            found = links[i];
        link[i] = &links[i];
    }
    return found;
}

/* One in four entries of a level is on the next one, too; who makes the keys cannot know which. */
static int choose_levels(struct census *census)
{
    int levels = 1;
    census->random ^= census->random << 13;
    census->random ^= census->random >> 7;
    census->random ^= census->random << 17;
    for (uint64_t bits = census->random; levels < LEVELS && !(bits & 3); bits >>= 2)
        levels++;
    return levels;
}

/* The entry of this key, a new one where there is none. */
static hx_error *find_or_add_change(struct census *census, const struct change *wanted,
                                    struct change **ret)
{
    *ret = census->latest;
    if (*ret && compare_census_keys(*ret, wanted) == 0)
        return NULL;
    struct change **link[LEVELS], *found = look_up_change(census, wanted, link);
    if (!found) {
        int levels = choose_levels(census);
        found = copy_entry(census, wanted, levels);
        HX_NEED(found);
        for (int i = 0; i < levels; i++) {
            found->next[i] = *link[i];
            *link[i] = found;
        }
    }
    *ret = census->latest = found;
    return NULL;
}

static void add_to(struct sum *sum, struct hx_value value)
{
    if (value.type != HX_VALUE_INT || __builtin_add_overflow(sum->n, value.i, &sum->n))
        sum->unknown = true;
}

static hx_error *add_census_row(struct census *census, int side, const struct change *key,
                                struct hx_value bytes, struct hx_value objects)
{
    struct change *entry;
    HX_TRY(find_or_add_change(census, key, &entry));
    struct figures *figures = &entry->side[side];
    figures->there = true;
    add_to(&figures->bytes, bytes);
    add_to(&figures->objects, objects);
    return NULL;
}

/* --- reading ----------------------------------------------------------------------- */

typedef hx_error *take_row_fn(void *context, hx_rows *rows);

/* Hands each row of a statement on; an interrupt ends it. */
static hx_error *each_statement_row(hx_store *store, const char *sql, take_row_fn *take,
                                    void *context)
{
    hx_rows *rows;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_interrupts_end_queries(store);
    bool more = true;
    hx_error *err = NULL;
    while (!err && more) {
        err = atomic_load(hx_interrupted()) ? hx_error_cancelled("comparison")
                                            : hx_rows_next(rows, &more);
        if (!err && more)
            err = take(context, rows);
    }
    hx_interrupts_end_queries(NULL);
    hx_rows_end(rows);
    return err;
}

struct reading {
    struct census *census;
    int side;
    uint64_t rows;
    bool other_store; /* the sides are of two stores */
};

static hx_error *take_census_row(void *context, hx_rows *rows)
{
    struct reading *reading = context;
    struct change key = {0};
    size_t keys = count_keys(reading->census->definition);
    for (size_t i = 0; i < keys; i++)
        key.key[i] = hx_rows_value(rows, i);
    if (reading->census->definition->numbered && reading->other_store)
        key.key[0] = (struct hx_value){.type = HX_VALUE_NULL};
    if (reading->census->definition->identity)
        key.key[keys] = hx_rows_value(rows, keys + 2);
    reading->rows++;
    return add_census_row(reading->census, reading->side, &key, hx_rows_value(rows, keys),
                          hx_rows_value(rows, keys + 1));
}

static hx_error *take_int(void *context, hx_rows *rows)
{
    *(struct hx_value *)context = hx_rows_value(rows, 0);
    return NULL;
}

/* A census without rows is one of an empty heap, or none was made. */
static hx_error *check_rows(const struct hx_diff_side *side, const struct reading *reading)
{
    const struct hx_diff_census *definition = reading->census->definition;
    if (!definition->whole || reading->rows)
        return NULL;
    char sql[96];
    struct hx_value objects = {.type = HX_VALUE_NULL};
    snprintf(sql, sizeof sql, "SELECT heap_objects FROM snapshots WHERE snapshot = %" PRId64,
             side->number);
    HX_TRY(each_statement_row(side->store, sql, take_int, &objects));
    if (objects.type == HX_VALUE_INT && objects.i == 0)
        return NULL;
    return hx_error_new(HX_E_ABSENT, side->place.file, "take another view, or another snapshot",
                        "snapshot %" PRId64 " has no %s", side->number, definition->view);
}

static hx_error *read_side(const struct hx_diff_call *call, int side, struct census *census)
{
    const struct hx_diff_census *definition = census->definition;
    const struct hx_diff_side *from = &call->side[side];
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, from->number);
    HX_TRY(
        hx_revise(call->args, call->console, from->store, number, hx_view_parts(definition->view)));
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT ");
    for (size_t i = 0; i < count_keys(definition) && !definition->of_rows; i++)
        hx_text_putf(&sql, "\"%s\", ", definition->key[i]);
    if (definition->of_rows)
        hx_text_putf(&sql, "%s, ", definition->of_rows);
    hx_text_putf(&sql, "%s, %s, %s FROM %s AS x WHERE snapshot = %s", definition->bytes,
                 definition->objects ? definition->objects : "NULL",
                 definition->identity ? definition->identity : "NULL", definition->view, number);
    struct reading reading = {.census = census,
                              .side = side,
                              .other_store =
                                  call->side[HX_SIDE_A].store != call->side[HX_SIDE_B].store};
    census->latest = NULL;
    hx_error *err =
        sql.failed ? hx_error_nomem()
                   : each_statement_row(from->store, hx_text_str(&sql), take_census_row, &reading);
    hx_text_free(&sql);
    return err ? err : check_rows(from, &reading);
}

static hx_error *take_text(void *context, hx_rows *rows)
{
    struct hx_value value = hx_rows_value(rows, 0);
    if (value.type == HX_VALUE_TEXT)
        hx_text_putn(context, value.text, value.text_bytes);
    return NULL;
}

static hx_error *scheme_of(const struct hx_diff_side *side, struct hx_text *ret)
{
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT scheme FROM snapshots WHERE snapshot = %" PRId64,
             side->number);
    HX_TRY(each_statement_row(side->store, sql, take_text, ret));
    return ret->failed ? hx_error_nomem() : NULL;
}

/* Sets by two schemes have little to do with each other: that is said. */
static hx_error *compare_schemes(const struct hx_diff_call *call)
{
    const struct hx_diff_side *a = &call->side[HX_SIDE_A], *b = &call->side[HX_SIDE_B];
    struct hx_text of_a = {0}, of_b = {0};
    hx_error *err = scheme_of(a, &of_a);
    if (!err)
        err = scheme_of(b, &of_b);
    hx_console_clear(call->console);
    if (!err && strcmp(hx_text_str(&of_a), hx_text_str(&of_b)) != 0)
        hx_say(call->console, "retainers",
               "snapshot %" PRId64 " has those of scheme %s, snapshot %" PRId64 " of scheme %s",
               a->number, hx_text_str(&of_a), b->number, hx_text_str(&of_b));
    hx_text_free(&of_a);
    hx_text_free(&of_b);
    return err;
}

/* --- objects that are not among the largest ------------------------------------------ */

struct missing {
    struct census *census;
    int side;             /* that has no row of it */
    struct hx_text *list; /* of addresses */
};

static void list_missing(const struct missing *missing)
{
    for (const struct change *at = missing->census->first[0]; at; at = at->next[0])
        if (!at->side[missing->side].there)
            hx_text_putf(missing->list, "%s%" PRId64, missing->list->n ? ", " : "", at->key[0].i);
}

/* What is found is there, only small; what nothing keeps alive retains nothing. */
static hx_error *take_missing(void *context, hx_rows *rows)
{
    const struct missing *missing = context;
    struct change key = {.key = {hx_rows_value(rows, 0), hx_rows_value(rows, 1)}};
    struct change **link[LEVELS], *found = look_up_change(missing->census, &key, link);
    struct hx_value bytes = hx_rows_value(rows, 2);
    if (!found || found->side[missing->side].there || bytes.type != HX_VALUE_INT)
        return NULL;
    return add_census_row(missing->census, missing->side, &key, bytes, hx_rows_value(rows, 3));
}

/* An object that is among the largest on one side only has figures on the other one, too. */
static hx_error *find_missing(const struct hx_diff_call *call, int side, struct census *census)
{
    const struct hx_diff_side *from = &call->side[side];
    struct hx_text list = {0}, sql = {0};
    struct missing missing = {census, side, &list};
    list_missing(&missing);
    hx_text_putf(&sql,
                 "SELECT address, type, %s, %s FROM objects WHERE snapshot = %" PRId64
                 " AND address IN (",
                 census->definition->bytes, census->definition->objects, from->number);
    hx_text_puts(&sql, hx_text_str(&list));
    hx_text_puts(&sql, ")");
    hx_error *err = list.failed || sql.failed ? hx_error_nomem()
                                              : each_statement_row(from->store, hx_text_str(&sql),
                                                                   take_missing, &missing);
    hx_text_free(&list);
    hx_text_free(&sql);
    return err;
}

/* --- objects that are still there -------------------------------------------------- */

struct label {
    int64_t set_id; /* or ccs_id */
    char *label;    /* NULL: it has none */
    struct hx_value identity;
};

/* The objects of B one by one, beside the bits that choose among them. */
struct counting {
    struct census *census;
    const struct hx_snapshot *b;
    struct hx_big bits;
    size_t at;                   /* the next object */
    HX_VEC(struct label) labels; /* by set_id */
};

static hx_error *take_label(void *context, hx_rows *rows)
{
    struct counting *counting = context;
    struct hx_value text = hx_rows_value(rows, 1);
    struct label label = {.set_id = hx_rows_value(rows, 0).i, .identity = hx_rows_value(rows, 2)};
    if (text.type == HX_VALUE_TEXT)
        HX_NEED(label.label = strdup(text.text));
    if (hx_vec_push(&counting->labels, label))
        return NULL;
    free(label.label);
    return hx_error_nomem();
}

static int by_set(const void *a, const void *b)
{
    int64_t x = ((const struct label *)a)->set_id, y = ((const struct label *)b)->set_id;
    return (x > y) - (x < y);
}

static const struct label *label_of_set(const struct counting *counting, struct hx_value set)
{
    static const struct label none = {.identity = {.type = HX_VALUE_NULL}};
    struct label wanted = {.set_id = set.i};
    const struct label *found = NULL;
    if (set.type == HX_VALUE_INT && counting->labels.n)
        found = bsearch(&wanted, counting->labels.v, counting->labels.n, sizeof wanted, by_set);
    return found ? found : &none;
}

/* Numbers of objects become what the rows say. */
static void name_key(const struct counting *counting, struct change *key)
{
    const struct hx_diff_census *definition = counting->census->definition;
    const struct label *label = label_of_set(counting, key->key[0]);
    key->key[definition->numbered] = hx_value_text(label->label);
    if (definition->identity)
        key->key[count_keys(definition)] = label->identity;
}

static bool is_leaked(struct hx_value state)
{
    static const enum hx_state lost[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (state.type == HX_VALUE_TEXT && strcmp(state.text, hx_state_name(lost[i])) == 0)
            return true;
    return false;
}

/* address, then the key. */
static hx_error *take_census_object(void *context, hx_rows *rows)
{
    struct counting *counting = context;
    const struct hx_graph *graph = &counting->b->graph;
    const struct hx_diff_census *definition = counting->census->definition;
    size_t object = counting->at++;
    if (object >= graph->n || hx_rows_value(rows, 0).i != (int64_t)graph->addr[object])
        return hx_error_new(HX_E_CORRUPT, "objects", "take it from a backup or make it again",
                            "the store is damaged (objects are out of order)");
    if (!hx_diff_has(&counting->bits, (hx_obj)object))
        return NULL;
    struct change key = {0};
    for (size_t i = 0; i < count_keys(definition); i++)
        key.key[i] = hx_rows_value(rows, i + 1);
    if (definition->labels)
        name_key(counting, &key);
    if (definition->lost_only && !is_leaked(key.key[0]))
        return NULL;
    return add_census_row(counting->census, B, &key, hx_value_int((int64_t)graph->size[object]),
                          hx_value_int(1));
}

static hx_error *count_objects(const struct hx_diff_side *side, struct counting *counting)
{
    const struct hx_diff_census *definition = counting->census->definition;
    char sql[1024];
    if (definition->labels) {
        snprintf(sql, sizeof sql, "SELECT %s, %s FROM %s AS x WHERE snapshot = %" PRId64,
                 definition->of_rows ? definition->of_rows : "set_id, label",
                 definition->identity ? definition->identity : "NULL", definition->view,
                 side->number);
        HX_TRY(each_statement_row(side->store, sql, take_label, counting));
        if (counting->labels.n)
            qsort(counting->labels.v, counting->labels.n, sizeof *counting->labels.v, by_set);
    }
    snprintf(sql, sizeof sql,
             "SELECT address, %s FROM objects AS x WHERE snapshot = %" PRId64 " ORDER BY address",
             definition->of_objects, side->number);
    return each_statement_row(side->store, sql, take_census_object, counting);
}

static hx_error *read_still(const struct hx_diff_call *call, struct census *census)
{
    const struct hx_diff_side *b = &call->side[HX_SIDE_B];
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, b->number);
    HX_TRY(hx_revise(call->args, call->console, b->store, number,
                     hx_view_parts(census->definition->view)));
    HX_SNAPSHOT struct hx_snapshot *objects = NULL;
    HX_TRY(hx_diff_load(call, HX_SIDE_B, &objects));
    struct counting counting = {.census = census, .b = objects};
    hx_error *err = hx_diff_still(call, objects, &counting.bits);
    if (!err)
        err = count_objects(b, &counting);
    for (size_t i = 0; i < counting.labels.n; i++)
        free(counting.labels.v[i].label);
    hx_vec_free(&counting.labels);
    hx_big_free(&counting.bits);
    return err;
}

/* --- rows -------------------------------------------------------------------------- */

enum { STATUS, BYTES_A, BYTES_B, BYTES_DELTA, OBJECTS_A, OBJECTS_B, OBJECTS_DELTA };

static struct hx_value null_value(void)
{
    return (struct hx_value){.type = HX_VALUE_NULL};
}

/* A side without the row has none of it. */
static struct hx_value side_figure(bool there, const struct sum *sum)
{
    return there && sum->unknown ? null_value() : hx_value_int(there ? sum->n : 0);
}

static struct hx_value delta_of(struct hx_value a, struct hx_value b)
{
    int64_t delta;
    if (a.type != HX_VALUE_INT || b.type != HX_VALUE_INT ||
        __builtin_sub_overflow(b.i, a.i, &delta))
        return null_value();
    return hx_value_int(delta);
}

/* By bytes, else by objects; unknown where both are. */
static const char *change_status(const struct change *entry, struct hx_value bytes,
                                 struct hx_value objects)
{
    if (!entry->side[A].there)
        return hx_diff_name(HX_DIFF_APPEARED);
    if (!entry->side[B].there)
        return hx_diff_name(HX_DIFF_GONE);
    int64_t delta = bytes.type == HX_VALUE_INT && bytes.i ? bytes.i : objects.i;
    if (bytes.type != HX_VALUE_INT && objects.type != HX_VALUE_INT)
        return NULL;
    return delta > 0 ? "grown" : delta < 0 ? "shrunk" : hx_diff_name(HX_DIFF_SAME);
}

static void make_values(const struct hx_diff_census *definition, const struct change *entry,
                        struct hx_value *values)
{
    const struct figures *a = &entry->side[A], *b = &entry->side[B];
    size_t keys = count_keys(definition);
    memcpy(values, entry->key, keys * sizeof *values);
    values += keys;
    values[BYTES_A] = side_figure(a->there, &a->bytes);
    values[BYTES_B] = side_figure(b->there, &b->bytes);
    values[BYTES_DELTA] = delta_of(values[BYTES_A], values[BYTES_B]);
    values[OBJECTS_A] = definition->objects ? side_figure(a->there, &a->objects) : null_value();
    values[OBJECTS_B] = definition->objects ? side_figure(b->there, &b->objects) : null_value();
    values[OBJECTS_DELTA] = delta_of(values[OBJECTS_A], values[OBJECTS_B]);
    values[STATUS] =
        hx_value_text(change_status(entry, values[BYTES_DELTA], values[OBJECTS_DELTA]));
}

/* The larger change first, unknown ones last. */
static int by_change(struct hx_value a, struct hx_value b)
{
    if (a.type != HX_VALUE_INT || b.type != HX_VALUE_INT)
        return (a.type != HX_VALUE_INT) - (b.type != HX_VALUE_INT);
    uint64_t x = a.i < 0 ? -(uint64_t)a.i : (uint64_t)a.i;
    uint64_t y = b.i < 0 ? -(uint64_t)b.i : (uint64_t)b.i;
    return (x < y) - (x > y);
}

static int by_choice(const void *a, const void *b, void *context)
{
    const struct census *census = context;
    const struct hx_diff_choice *choice = &census->choice;
    if (atomic_load(hx_interrupted())) /* then nobody reads the order */
        return 0;
    const struct change *const *x = a, *const *y = b;
    struct hx_value left[HX_DIFF_COLUMNS], right[HX_DIFF_COLUMNS];
    make_values(census->definition, *x, left);
    make_values(census->definition, *y, right);
    size_t keys = count_keys(census->definition);
    int order = choice->sort < choice->columns
                    ? hx_diff_order(choice, left[choice->sort], right[choice->sort])
                    : by_change(left[keys + BYTES_DELTA], right[keys + BYTES_DELTA]);
    if (!order)
        order = by_change(left[keys + OBJECTS_DELTA], right[keys + OBJECTS_DELTA]);
    return order ? order : compare_census_keys(*x, *y);
}

static hx_error *choose_entries(struct census *census)
{
    struct hx_value values[HX_DIFF_COLUMNS];
    for (struct change *entry = census->first[0]; entry; entry = entry->next[0]) {
        if (atomic_load(hx_interrupted()))
            return hx_error_cancelled("comparison");
        make_values(census->definition, entry, values);
        if (hx_diff_chosen(&census->choice, values))
            HX_NEED(hx_vec_push(&census->entries, entry));
    }
    return NULL;
}

static hx_error *next_row(void *context, struct hx_value *values, bool *ret_more)
{
    struct census *census = context;
    if (atomic_load(hx_interrupted()))
        return hx_error_cancelled("comparison");
    *ret_more = census->next < census->entries.n && census->next < census->choice.limit;
    if (*ret_more)
        make_values(census->definition, census->entries.v[census->next++], values);
    return NULL;
}

static hx_error *print_census_diff(const struct hx_diff_call *call, struct census *census)
{
    HX_TRY(choose_entries(census));
    if (census->entries.n)
        qsort_r(census->entries.v, census->entries.n, sizeof *census->entries.v, by_choice, census);
    hx_rows *rows;
    HX_TRY(hx_rows_generate(census->choice.name, census->choice.columns, next_row, census, &rows));
    hx_console_clear(call->console);
    hx_error *err = hx_rows_print(rows, call->args->format, stdout);
    hx_rows_end(rows);
    return err;
}

/* --- the whole --------------------------------------------------------------------- */

static void name_columns(struct census *census)
{
    static const char *const figures[] = {"bytes_a",   "bytes_b",   "bytes_delta",
                                          "objects_a", "objects_b", "objects_delta"};
    struct hx_diff_choice *choice = &census->choice;
    for (size_t i = 0; i < count_keys(census->definition); i++) {
        bool number = strcmp(census->definition->key[i], "address") == 0 ||
                      (census->definition->numbered && !i);
        hx_diff_column(choice, census->definition->key[i],
                       number ? HX_FILTER_NUMBER : HX_FILTER_TEXT);
    }
    hx_diff_column(choice, "status", HX_FILTER_TEXT);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        hx_diff_column(choice, figures[i], HX_FILTER_NUMBER);
}

static hx_error *check_still(const struct hx_diff_census *definition)
{
    if (definition->of_objects)
        return NULL;
    struct hx_text todo = {0};
    hx_text_puts(&todo, "views that can: ");
    hx_diff_censuses(true, &todo);
    hx_error *err = hx_error_new(HX_E_USAGE, "--still", hx_text_str(&todo),
                                 "%s does not say which objects it counts", definition->view);
    hx_text_free(&todo);
    return err;
}

hx_error *hx_diff_print_census(struct hx_diff_call *call, const struct hx_diff_census *definition)
{
    bool still = hx_diff_is_still(call);
    if (still)
        HX_TRY(check_still(definition));
    struct census census = {.definition = definition};
    if (getrandom(&census.random, sizeof census.random, GRND_NONBLOCK) < 0 || !census.random)
        census.random = hx_now_ns() | 1;
    name_columns(&census);
    hx_error *err = hx_diff_choose(call->args, &census.choice);
    if (!err)
        err = hx_diff_open(call);
    if (!err && still)
        err = read_still(call, &census);
    for (int side = HX_SIDE_A; side <= HX_SIDE_B && !err && !still; side++)
        err = read_side(call, side, &census);
    if (!err && definition->labels && !definition->numbered && !still)
        err = compare_schemes(call);
    for (int side = HX_SIDE_A; side <= HX_SIDE_B && !err && definition->largest_only; side++)
        err = find_missing(call, side, &census);
    if (!err)
        err = print_census_diff(call, &census);
    for (struct block *next; census.blocks; census.blocks = next) {
        next = census.blocks->next;
        free(census.blocks);
    }
    hx_vec_free(&census.entries);
    hx_diff_choice_deinit(&census.choice);
    return err;
}
