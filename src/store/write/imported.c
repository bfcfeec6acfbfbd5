/* imported.c - break-downs of other programs' profiles into the tables behind the views.
 *
 * What is named is kept here first. The first snapshot's transaction gives it the store's own
 * numbers: cost-centre stacks as frames, which are then attributed like recorded ones, so that
 * another choice of cost centres works on them, too; retainers as sets that have one number for
 * good. The later ones write nothing but figures. */
#include "store/write/imported.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "store/cost/attribute.h"
#include "store/db.h"
#include "store/store_private.h"
#include "store/write/sets.h"
#include "store/write/write_recording.h"

#include <stdlib.h>
#include <string.h>

const char *const hx_imported_phases[HX_IMPORTED_PHASES] = {
    [HX_IMPORTED_LAG] = "lag",   [HX_IMPORTED_USE] = "use",           [HX_IMPORTED_DRAG] = "drag",
    [HX_IMPORTED_VOID] = "void", [HX_IMPORTED_INHERENT] = "inherent",
};

#define NO_TEXT       SIZE_MAX
#define ENDED_AT_ONCE 64 /* snapshots whose log is moved into the file together */

struct name {
    size_t text, bytes; /* in strings, with an end mark behind */
    uint32_t next;      /* of the same hash; HX_NO_PAIR: none */
};

struct set {
    size_t first, n; /* in members */
    uint32_t next;
};

struct centre {
    size_t label, module, source; /* in strings */
    bool is_caf;
};

struct stack {
    uint32_t parent, centre;
};

struct hx_imported {
    hx_store *store;

    HX_VEC(char) strings;
    HX_VEC(struct name) names;
    HX_VEC(struct set) sets;  /* set i + HX_IMPORTED_MANY + 1 */
    HX_VEC(uint32_t) members; /* names, ascending in each set */
    HX_VEC(uint32_t) hand;    /* of the set that is being made */
    HX_VEC(struct centre) centres;
    HX_VEC(struct stack) stacks; /* the first two need no centre */
    struct hx_pairs name_by_hash, set_by_hash, children;

    /* since the first snapshot */
    bool sealed;
    bool has_frames;
    struct hx_frames frames;
    struct hx_attributing attributing;
    uint32_t *node;      /* of each stack */
    int64_t *stored_set; /* of each set */

    /* of the snapshot in hand */
    struct hx_writer writer;
    uint64_t added;                      /* snapshots before it */
    HX_VEC(struct hx_imported_row) rows; /* one for each break-down and number, in this order */
    uint64_t total[HX_IMPORTED_BYS];
};

/* --- naming ------------------------------------------------------------------------- */

static hx_error *keep_imported_text(hx_imported *imported, const char *text, size_t bytes,
                                    size_t *ret)
{
    HX_NEED(hx_vec_reserve(&imported->strings, imported->strings.n + bytes + 1));
    char *to = imported->strings.v + imported->strings.n;
    if (bytes)
        memcpy(to, text, bytes);
    to[bytes] = 0;
    *ret = imported->strings.n;
    imported->strings.n += bytes + 1;
    return NULL;
}

static const char *imported_text(const hx_imported *imported, size_t at)
{
    return at == NO_TEXT ? NULL : imported->strings.v + at;
}

static hx_error *sealed(const hx_imported *imported)
{
    return hx_error_new(HX_E_FAIL, imported->store->path, NULL,
                        "something new was named behind the first snapshot");
}

static hx_error *too_many(const hx_imported *imported)
{
    return hx_error_new(HX_E_LIMIT, imported->store->path, "import a shorter profile",
                        "the profile names too much");
}

hx_error *hx_imported_name(hx_imported *imported, const char *name, size_t bytes, uint32_t *ret)
{
    uint32_t *first;
    HX_CLEANUP(hx_text_free) struct hx_text bounded = {0};
    if (bytes > HX_TEXT_NAME) {
        hx_text_name(&bounded, name, bytes);
        HX_NEED(!bounded.failed);
        name = bounded.s;
        bytes = bounded.n;
    }
    HX_TRY(hx_pairs_at(&imported->name_by_hash, hx_hash_bytes(name, bytes), &first));
    for (uint32_t i = *first; i != HX_NO_PAIR; i = imported->names.v[i].next) {
        const struct name *known = &imported->names.v[i];
        if (known->bytes == bytes &&
            memcmp(imported_text(imported, known->text), name, bytes) == 0) {
            *ret = i;
            return NULL;
        }
    }
    if (imported->sealed || imported->names.n >= HX_NO_PAIR - 1)
        return imported->sealed ? sealed(imported) : too_many(imported);
    struct name known = {.bytes = bytes, .next = *first};
    HX_TRY(keep_imported_text(imported, name, bytes, &known.text));
    HX_NEED(hx_vec_push(&imported->names, known));
    *ret = *first = (uint32_t)imported->names.n - 1;
    return NULL;
}

static int compare_row_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* A retainer's name that is there already stands for another retainer: "name (2)". */
static hx_error *name_again(hx_imported *imported, uint32_t name, size_t times, uint32_t *ret)
{
    struct hx_text text = {0};
    hx_text_putn(&text, imported_text(imported, imported->names.v[name].text),
                 imported->names.v[name].bytes);
    hx_text_putf(&text, " (%zu)", times);
    hx_error *err = text.failed ? hx_error_nomem()
                                : hx_imported_name(imported, hx_text_str(&text), text.n, ret);
    hx_text_free(&text);
    return err;
}

static void sort_hand(hx_imported *imported)
{
    if (imported->hand.n)
        qsort(imported->hand.v, imported->hand.n, sizeof *imported->hand.v, compare_row_numbers);
}

static bool has_twins(const hx_imported *imported)
{
    for (size_t i = 1; i < imported->hand.n; i++)
        if (imported->hand.v[i] == imported->hand.v[i - 1])
            return true;
    return false;
}

/* Makes the members differ. What a renamed one is called may be a name of the set, too, which then
 * is renamed in the next round, to a longer one. */
static hx_error *tell_apart(hx_imported *imported)
{
    for (sort_hand(imported); has_twins(imported); sort_hand(imported)) {
        uint32_t *v = imported->hand.v;
        for (size_t i = 0, end; i < imported->hand.n; i = end) {
            uint32_t name = v[i];
            for (end = i + 1; end < imported->hand.n && v[end] == name; end++)
                HX_TRY(name_again(imported, name, end - i + 1, &v[end]));
        }
    }
    return NULL;
}

hx_error *hx_imported_set(hx_imported *imported, const char *const *name, const size_t *bytes,
                          size_t n, uint32_t *ret)
{
    uint32_t *first;
    HX_NEED(hx_vec_reserve(&imported->hand, n + 1));
    imported->hand.n = n;
    for (size_t i = 0; i < n; i++)
        HX_TRY(hx_imported_name(imported, name[i], bytes[i], &imported->hand.v[i]));
    HX_TRY(tell_apart(imported));
    size_t size = n * sizeof *imported->hand.v;
    HX_TRY(hx_pairs_at(&imported->set_by_hash, hx_hash_bytes(imported->hand.v, size), &first));
    for (uint32_t i = *first; i != HX_NO_PAIR; i = imported->sets.v[i].next) {
        const struct set *set = &imported->sets.v[i];
        if (set->n == n &&
            (!n || memcmp(imported->members.v + set->first, imported->hand.v, size) == 0)) {
            *ret = i + HX_IMPORTED_MANY + 1;
            return NULL;
        }
    }
    if (imported->sealed || imported->sets.n >= INT32_MAX / 2)
        return imported->sealed ? sealed(imported) : too_many(imported);
    struct set set = {imported->members.n, n, *first};
    HX_NEED(hx_vec_reserve(&imported->members, imported->members.n + n + 1) &&
            hx_vec_push(&imported->sets, set));
    if (n)
        memcpy(imported->members.v + set.first, imported->hand.v, size);
    imported->members.n += n;
    *first = (uint32_t)imported->sets.n - 1;
    *ret = *first + HX_IMPORTED_MANY + 1;
    return NULL;
}

hx_error *hx_imported_centre(hx_imported *imported, const struct hx_imported_centre *centre,
                             uint32_t *ret)
{
    struct centre kept = {.source = NO_TEXT, .is_caf = centre->is_caf};
    if (imported->sealed || imported->centres.n >= HX_NO_CENTRE - 1)
        return imported->sealed ? sealed(imported) : too_many(imported);
    HX_TRY(keep_imported_text(imported, centre->label, strlen(centre->label), &kept.label));
    HX_TRY(keep_imported_text(imported, centre->module, strlen(centre->module), &kept.module));
    if (centre->source)
        HX_TRY(keep_imported_text(imported, centre->source, strlen(centre->source), &kept.source));
    HX_NEED(hx_vec_push(&imported->centres, kept));
    *ret = (uint32_t)imported->centres.n - 1;
    return NULL;
}

hx_error *hx_imported_push(hx_imported *imported, uint32_t stack, uint32_t centre, uint32_t *ret)
{
    uint32_t *number;
    HX_TRY(hx_pairs_at(&imported->children, hx_pair_key(stack, centre), &number));
    if (*number == HX_NO_PAIR) {
        if (imported->sealed || imported->stacks.n >= HX_NO_PAIR - 1)
            return imported->sealed ? sealed(imported) : too_many(imported);
        HX_NEED(hx_vec_push(&imported->stacks, ((struct stack){stack, centre})));
        *number = (uint32_t)imported->stacks.n - 1;
    }
    *ret = *number;
    return NULL;
}

/* --- the store's numbers ------------------------------------------------------------- */

static hx_error *import_cancelled(const hx_imported *imported)
{
    return hx_progress_cancelled(imported->writer.progress)
               ? hx_error_cancelled(imported->store->path)
               : NULL;
}

/* Where a centre stands in a stack: on others as a function does; a CAF that is outermost is a root
 * of its own, which every choice of cost centres has. */
static hx_error *centre_place(hx_imported *imported, const struct centre *centre, bool is_root,
                              uint32_t *ret)
{
    struct hx_frames_centre who = {
        .kind = is_root ? HX_CENTRE_CAF : HX_CENTRE_FUNCTION,
        .file = HX_FRAMES_NO_FILE,
        .label = imported_text(imported, centre->label),
        .module = imported_text(imported, centre->module),
        .source = imported_text(imported, centre->source),
    };
    struct hx_frames_place place = {
        .file = HX_FRAMES_NO_FILE,
        .label = who.label,
        .module = who.module,
        .source = who.source,
        .kind = is_root ? HX_FRAME_BUILTIN : HX_FRAME_CODE,
        .target = HX_NO_PAIR,
    };
    HX_TRY(hx_frames_centre(&imported->frames, &who, &place.centre));
    return hx_frames_place(&imported->frames, &place, ret);
}

static hx_error *make_frames(hx_imported *imported)
{
    struct hx_frames *frames = &imported->frames;
    imported->node = calloc(imported->stacks.n + 1, sizeof *imported->node);
    HX_NEED(imported->node);
    imported->node[HX_IMPORTED_MAIN] = HX_CCS_MAIN - 1;
    imported->node[HX_IMPORTED_CUT] = HX_CCS_CUT - 1;
    /* parents stand before their children */
    for (size_t i = HX_IMPORTED_CUT + 1; i < imported->stacks.n; i++) {
        const struct stack *stack = &imported->stacks.v[i];
        const struct centre *centre = &imported->centres.v[stack->centre];
        uint32_t place = 0;
        HX_TRY(centre_place(imported, centre, centre->is_caf && stack->parent == HX_IMPORTED_MAIN,
                            &place));
        HX_TRY(hx_frames_child(frames, imported->node[stack->parent], place, &imported->node[i]));
    }
    return NULL;
}

static hx_error *seal_stacks(hx_imported *imported)
{
    sqlite3 *db = imported->store->db;
    const char *what = imported->store->path;
    const struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    HX_TRY(hx_frames_load(db, what, true, &imported->frames));
    imported->has_frames = true;
    HX_TRY(make_frames(imported));
    HX_TRY(hx_attributing_init(db, what, &imported->frames, &how, imported->writer.progress,
                               &imported->attributing));
    HX_TRY(hx_frames_store(&imported->frames));
    return hx_attribute_stacks(&imported->attributing);
}

/* Retainers in the order of their names, as store/sets.h wants them. */
struct ranked {
    const char *label;
    uint32_t name;
};

static int compare_imported_labels(const void *left, const void *right)
{
    return strcmp(((const struct ranked *)left)->label, ((const struct ranked *)right)->label);
}

/* *ret_rule: the identities alone; *ret_rank: the retainer of each name that is one. */
static hx_error *rank_retainers(hx_imported *imported, struct hx_scheme_rule *ret_rule,
                                hx_retainer **ret_rank)
{
    HX_FREE struct ranked *ranked = calloc(imported->names.n + 1, sizeof *ranked);
    HX_FREE hx_retainer *rank = malloc((imported->names.n + 1) * sizeof *rank);
    size_t n = 0;
    HX_NEED(ranked && rank);
    memset(rank, 0xff, (imported->names.n + 1) * sizeof *rank);
    for (size_t i = 0; i < imported->members.n; i++) {
        uint32_t name = imported->members.v[i];
        if (rank[name] != UINT32_MAX)
            continue;
        rank[name] = 0;
        ranked[n++] = (struct ranked){imported_text(imported, imported->names.v[name].text), name};
    }
    qsort(ranked, n, sizeof *ranked, compare_imported_labels);
    HX_FREE struct hx_identity *identity = calloc(n + 1, sizeof *identity);
    HX_NEED(identity);
    for (size_t i = 0; i < n; i++) {
        rank[ranked[i].name] = (hx_retainer)i;
        identity[i] =
            (struct hx_identity){.space = "import", .label = ranked[i].label, .kind = "imported"};
    }
    *ret_rule = (struct hx_scheme_rule){.identity = hx_steal(identity), .n_identities = n};
    *ret_rank = hx_steal(rank);
    return NULL;
}

static hx_error *make_set(const hx_imported *imported, const struct set *set,
                          const hx_retainer *rank, hx_sets *sets, hx_set *ret)
{
    HX_FREE hx_set *one = malloc((set->n + 1) * sizeof *one);
    HX_NEED(one);
    for (size_t i = 0; i < set->n; i++)
        one[i] = hx_sets_singleton(sets, rank[imported->members.v[set->first + i]]);
    *ret = hx_sets_union_all(sets, one, set->n);
    return hx_sets_failed(sets) ? hx_sets_error(sets) : NULL;
}

/* hx_sets_store() of what is in `number`: the set of each of ours. */
static hx_error *number_sets(hx_imported *imported, const struct hx_scheme_rule *rule,
                             const hx_sets *sets, const hx_set *number)
{
    HX_FREE uint64_t *objects = calloc(hx_sets_count(sets), sizeof *objects);
    HX_FREE int64_t *stored = NULL;
    HX_NEED(objects);
    for (size_t i = 0; i < imported->sets.n; i++)
        objects[number[i]] = 1;
    HX_TRY(hx_sets_store(&imported->writer, sets, rule, objects, &stored));
    for (size_t i = 0; i < imported->sets.n; i++)
        imported->stored_set[i] = stored[number[i]];
    return NULL;
}

static hx_error *make_sets(hx_imported *imported, const struct hx_scheme_rule *rule,
                           const hx_retainer *rank, hx_sets *sets)
{
    HX_FREE hx_set *number = calloc(imported->sets.n, sizeof *number);
    imported->stored_set = calloc(imported->sets.n, sizeof *imported->stored_set);
    HX_NEED(number && imported->stored_set);
    for (size_t i = 0; i < imported->sets.n; i++)
        HX_TRY(make_set(imported, &imported->sets.v[i], rank, sets, &number[i]));
    return number_sets(imported, rule, sets, number);
}

static hx_error *seal_sets(hx_imported *imported)
{
    struct hx_scheme_rule rule = {0};
    HX_FREE hx_retainer *rank = NULL;
    hx_sets *sets = NULL;
    if (!imported->sets.n)
        return NULL;
    hx_error *err = rank_retainers(imported, &rule, &rank);
    if (!err)
        err = hx_sets_create(0, &sets);
    if (!err)
        err = make_sets(imported, &rule, rank, sets);
    hx_sets_destroy(sets);
    free(rule.identity);
    return err;
}

/* --- a snapshot ---------------------------------------------------------------------- */

static int compare_imported_keys(const void *left, const void *right)
{
    const struct hx_imported_row *a = left, *b = right;
    if (a->by != b->by)
        return a->by < b->by ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The rows, each once, and their sums. */
static hx_error *merge_imported_rows(hx_imported *imported,
                                     const struct hx_imported_snapshot *snapshot)
{
    memset(imported->total, 0, sizeof imported->total);
    imported->rows.n = 0;
    HX_NEED(hx_vec_reserve(&imported->rows, snapshot->n + 1));
    struct hx_imported_row *row = imported->rows.v;
    if (snapshot->n) {
        memcpy(row, snapshot->row, snapshot->n * sizeof *row);
        qsort(row, snapshot->n, sizeof *row, compare_imported_keys);
    }
    size_t n = 0;
    for (size_t i = 0; i < snapshot->n; i++) {
        uint64_t *total = &imported->total[row[i].by];
        if (row[i].bytes > INT64_MAX || *total > INT64_MAX - row[i].bytes)
            return hx_error_new(HX_E_LIMIT, imported->store->path, NULL,
                                "the bytes of a snapshot are more than 2^63");
        *total += row[i].bytes;
        if (n && compare_imported_keys(&row[n - 1], &row[i]) == 0)
            row[n - 1].bytes += row[i].bytes;
        else
            row[n++] = row[i];
    }
    imported->rows.n = n;
    return NULL;
}

/* Rows of one break-down: [*ret_from, *ret_to). */
static void breakdown_rows(const hx_imported *imported, enum hx_imported_by by, size_t *ret_from,
                           size_t *ret_to)
{
    size_t i = 0;
    while (i < imported->rows.n && imported->rows.v[i].by < by)
        i++;
    *ret_from = i;
    while (i < imported->rows.n && imported->rows.v[i].by == by)
        i++;
    *ret_to = i;
}

static hx_error *add_retention(hx_imported *imported)
{
    size_t from, to;
    int64_t sets = 0;
    breakdown_rows(imported, HX_IMPORTED_RETAINER, &from, &to);
    for (size_t i = from; i < to; i++) {
        const struct hx_imported_row *row = &imported->rows.v[i];
        int64_t set = row->number <= HX_IMPORTED_MANY
                          ? row->number
                          : imported->stored_set[row->number - HX_IMPORTED_MANY - 1];
        sets += set != 0;
        HX_TRY(hx_write(&imported->writer, retention, .set_id = hx_int(set),
                        .bytes = hx_int(row->bytes)));
    }
    return hx_write(&imported->writer, census,
                    .total_bytes = hx_int(imported->total[HX_IMPORTED_RETAINER]),
                    .sets = hx_int(sets));
}

/* Types are numbered in each snapshot for itself. */
static hx_error *add_named(hx_imported *imported, enum hx_imported_by by)
{
    size_t from, to;
    breakdown_rows(imported, by, &from, &to);
    for (size_t i = from; i < to; i++) {
        struct hx_int bytes = hx_int(imported->rows.v[i].bytes);
        const struct name *name = &imported->names.v[imported->rows.v[i].number];
        struct hx_str text = {imported_text(imported, name->text), name->bytes};
        HX_TRY(by == HX_IMPORTED_TYPE
                   ? hx_write(&imported->writer, type, .name = text, .bytes = bytes,
                              .type = hx_int(i - from + 1))
                   : hx_write(&imported->writer, module, .name = text, .bytes = bytes));
    }
    return NULL;
}

static hx_error *add_biography(hx_imported *imported)
{
    size_t from, to;
    breakdown_rows(imported, HX_IMPORTED_BIOGRAPHY, &from, &to);
    for (size_t i = from; i < to; i++)
        HX_TRY(hx_write(&imported->writer, biography,
                        .phase = hx_str(hx_imported_phases[imported->rows.v[i].number]),
                        .bytes = hx_int(imported->rows.v[i].bytes)));
    return NULL;
}

/* --- its stacks --- */

/* What stands at the outer end of a stack; NULL: it has centres. */
static const char *name_of_end(uint32_t stack)
{
    return stack == HX_IMPORTED_MAIN  ? hx_builtin_name(HX_CCS_MAIN)
           : stack == HX_IMPORTED_CUT ? hx_builtin_name(HX_CCS_CUT)
                                      : NULL;
}

/* Innermost first, of at most `most` centres. */
static void put_imported_label(const hx_imported *imported, uint32_t stack, size_t most,
                               struct hx_text *text)
{
    size_t n = 0;
    for (; stack > HX_IMPORTED_CUT; stack = imported->stacks.v[stack].parent) {
        const struct centre *centre = &imported->centres.v[imported->stacks.v[stack].centre];
        hx_text_puts(text, n ? " < " : "");
        if (n++ == most) {
            hx_text_puts(text, "...");
            return;
        }
        hx_text_puts(text, imported_text(imported, centre->label));
    }
    if (!n || stack == HX_IMPORTED_CUT)
        hx_text_putf(text, "%s%s", n ? " < " : "", name_of_end(stack));
}

static const char *imported_stack_module(const hx_imported *imported, uint32_t stack)
{
    const char *end = name_of_end(stack);
    return end ? end
               : imported_text(imported,
                               imported->centres.v[imported->stacks.v[stack].centre].module);
}

/* The stack as a row; it may be there. */
static hx_error *add_imported_stack(hx_imported *imported, uint32_t stack)
{
    const struct hx_frames_node *node = &imported->frames.node.v[imported->node[stack]];
    HX_CLEANUP(hx_text_free) struct hx_text label = {0}, site = {0};
    put_imported_label(imported, stack, HX_STACK_FRAMES, &label);
    put_imported_label(imported, stack, HX_SITE_FRAMES, &site);
    HX_NEED(!label.failed && !site.failed);
    return hx_insert(&imported->writer.insert, stack, .stack_id = hx_int(node->id),
                     .label = hx_str(hx_text_str(&label)), .site = hx_str(hx_text_str(&site)),
                     .module = hx_str(imported_stack_module(imported, stack)),
                     .identity = hx_int(node->identity), .origin = hx_int(node->id));
}

static hx_error *add_stack_rows(hx_imported *imported)
{
    struct hx_writer *w = &imported->writer;
    size_t from, to;
    breakdown_rows(imported, HX_IMPORTED_CCS, &from, &to);
    for (size_t i = from; i < to; i++) {
        const struct hx_imported_row *row = &imported->rows.v[i];
        uint32_t node = imported->node[row->number];
        struct hx_int stack = hx_int(imported->frames.node.v[node].id), bytes = hx_int(row->bytes);
        HX_TRY(add_imported_stack(imported, row->number));
        HX_TRY(hx_insert(&w->insert, attributed, .stack_id = stack,
                         .ccs_id = hx_int(hx_ccs_id_of(imported->attributing.row[node]))));
        HX_TRY(hx_write(w, stack_cost, .stack_id = stack, .live_bytes = bytes));
        HX_TRY(hx_write(w, stack_site, .stack_id = stack, .bytes = bytes));
    }
    return NULL;
}

static hx_error *add_ccs(hx_imported *imported)
{
    HX_TRY(hx_write(&imported->writer, recording, .method = hx_str(HX_RECORDING_IMPORT)));
    HX_TRY(add_stack_rows(imported));
    HX_TRY(hx_attribute_costs(&imported->attributing, imported->writer.id));
    return hx_attribute_sites(&imported->attributing, imported->writer.id);
}

/* --- its own row --- */

static hx_error *add_losses(hx_imported *imported, const struct hx_imported_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->losses; i++)
        HX_TRY(hx_write(&imported->writer, loss, .what = hx_str(snapshot->loss[i].what),
                        .count = hx_count(snapshot->loss[i].count)));
    return NULL;
}

static hx_error *add_summary(hx_imported *imported, const struct hx_imported_snapshot *snapshot)
{
    HX_CLEANUP(hx_text_free) struct hx_text notes = {0};
    uint64_t heap = 0;
    char taken_at[64];
    for (size_t by = 0; by < HX_IMPORTED_BYS; by++)
        heap = imported->total[by] > heap ? imported->total[by] : heap;
    hx_writer_time(snapshot->taken_at_ns, taken_at, sizeof taken_at);
    if (snapshot->notes)
        hx_text_names(&notes, snapshot->notes, strlen(snapshot->notes));
    HX_NEED(!notes.failed);
    return hx_write(&imported->writer, snapshot, .taken_at_ns = hx_int(snapshot->taken_at_ns),
                    .taken_at = hx_str(taken_at), .pid = hx_int_if(snapshot->pid, snapshot->pid),
                    .comm = hx_str(snapshot->comm), .exe = hx_str(snapshot->exe),
                    .method = hx_str("import"), .heap_bytes = hx_int(heap),
                    .interior = hx_int(HX_INTERIOR_KNOWN), .complete = hx_int(snapshot->complete),
                    .notes = hx_str(snapshot->notes ? hx_text_str(&notes) : NULL),
                    .parts = hx_int(HX_ANALYSE_ALL), /* there is nothing left to be worked out */
                    .started_at_ns = hx_int_if(snapshot->started_at_ns, snapshot->started_at_ns));
}

static hx_error *write_imported_snapshot(hx_imported *imported,
                                         const struct hx_imported_snapshot *snapshot)
{
    HX_TRY(hx_db_int(imported->store->db, imported->store->path,
                     "SELECT coalesce(max(snapshot), 0) + 1 FROM hx_snapshot",
                     &imported->writer.id));
    if (!imported->sealed)
        HX_TRY(seal_sets(imported));
    imported->sealed = true;
    bool stacks = snapshot->told & 1u << HX_IMPORTED_CCS;
    if (!imported->has_frames && (stacks || imported->centres.n))
        HX_TRY(seal_stacks(imported));
    if (snapshot->told & 1u << HX_IMPORTED_RETAINER)
        HX_TRY(add_retention(imported));
    if (stacks)
        HX_TRY(add_ccs(imported));
    HX_TRY(add_named(imported, HX_IMPORTED_TYPE));
    HX_TRY(add_named(imported, HX_IMPORTED_MODULE));
    HX_TRY(add_biography(imported));
    HX_TRY(add_losses(imported, snapshot));
    return add_summary(imported, snapshot); /* last: with it the snapshot exists */
}

hx_error *hx_imported_add(hx_imported *imported, const struct hx_imported_snapshot *snapshot,
                          int64_t *ret)
{
    hx_store *store = imported->store;
    HX_TRY(import_cancelled(imported));
    HX_TRY(merge_imported_rows(imported, snapshot));
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE"));
    hx_error *err = write_imported_snapshot(imported, snapshot);
    /* the log grows to some snapshots: each of them is whole in it, too */
    if (err || ++imported->added % ENDED_AT_ONCE == 0)
        err = hx_store_end(store, err);
    else if ((err = hx_db_exec(store->db, store->path, "COMMIT")))
        err = hx_store_end(store, err);
    HX_TRY(err);
    store->added = true;
    *ret = imported->writer.id;
    return NULL;
}

/* --- the whole ------------------------------------------------------------------------ */

hx_error *hx_imported_create(hx_store *store, const struct hx_progress *progress, hx_imported **ret)
{
    if (!store->writer)
        return hx_error_new(HX_E_FAIL, store->path, NULL, "the store is open for reading only");
    HX_TRY(hx_store_attributed_end(store));
    HX_IMPORTED hx_imported *imported = calloc(1, sizeof *imported);
    HX_NEED(imported && hx_vec_push(&imported->stacks, (struct stack){0}) &&
            hx_vec_push(&imported->stacks, (struct stack){0}));
    imported->store = store;
    imported->writer = (struct hx_writer){
        .db = store->db,
        .what = store->path,
        .progress = progress,
        .insert = {.db = store->db, .what = store->path},
    };
    *ret = hx_steal(imported);
    return NULL;
}

void hx_imported_destroy(hx_imported *imported)
{
    if (!imported)
        return;
    hx_writer_deinit(&imported->writer);
    hx_attributing_deinit(&imported->attributing);
    if (imported->has_frames)
        hx_frames_deinit(&imported->frames);
    hx_vec_free(&imported->strings);
    hx_vec_free(&imported->names);
    hx_vec_free(&imported->sets);
    hx_vec_free(&imported->members);
    hx_vec_free(&imported->hand);
    hx_vec_free(&imported->centres);
    hx_vec_free(&imported->stacks);
    hx_vec_free(&imported->rows);
    hx_pairs_free(&imported->name_by_hash);
    hx_pairs_free(&imported->set_by_hash);
    hx_pairs_free(&imported->children);
    free(imported->node);
    free(imported->stored_set);
    free(imported);
}
