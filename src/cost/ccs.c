/* ccs.c - the table of cost-centre stacks: push, call rule, and the machine on top of it.
 *
 * The memo of pushes: each row names the first one on it, which mostly is the only one, and all
 * others stand in one open hash over all stacks. Either is a row, whose parent and centre are the
 * key, or the number of a back edge; so who walks the rows never meets a back edge. Slots of the
 * hash have half of it beside them, so that others are passed without a look at their rows.
 *
 * Whether a centre is on a stack already is asked once for each new row. The way to MAIN is walked
 * in segments of SEGMENT rows: each row holds which centres may stand between it and its segment's
 * beginning, as bits of a hash, and where the segment before ends. */
#include "cost/ccs.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT   16u /* rows */
#define ROWS_MAX  (UINT32_C(1) << 30)
#define BACK_EDGE (UINT32_C(1) << 31) /* the rest is an index in back_edges */
#define DEPTH_MAX (UINT32_C(1) << 16) /* what can be recorded is a fourth of it */
#define NO_ABOVE  (ROWS_MAX - 1)

struct segment {
    uint32_t mask[2];    /* 64 bits: centres from the segment's beginning to this row */
    uint32_t above : 30; /* the row before the segment; NO_ABOVE: it begins with MAIN */
    uint32_t caf : 1;    /* this row's centre is a CAF */
    uint32_t more : 1;   /* something else was pushed on it, too */
    uint32_t first;      /* pushed on it: a row + 1, or BACK_EDGE and an index; 0: nothing */
};

struct back_edge {
    hx_ccs_row on, to;
    hx_centre centre;
};

struct slot {
    uint32_t value; /* 0: empty; else as `first` of a segment */
    uint32_t tag;   /* the upper half of the hash */
};

struct hx_ccs_table {
    enum hx_recursion recursion;
    struct hx_ccs_entry *row;
    struct segment *segment;
    uint32_t n, cap;
    struct slot *slot;
    struct hx_big slot_mem;
    uint32_t n_slots, n_used; /* n_slots: a power of two; at most 7 of 10 are used */
    HX_VEC(struct back_edge) back_edges;
    HX_VEC(hx_centre) pending; /* of the call rule; between calls empty */
};

static uint64_t hash_push(hx_ccs_row on, hx_centre centre)
{
    uint64_t hash = ((uint64_t)on << 32 | centre) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

static uint64_t mask_of(hx_centre centre)
{
    return UINT64_C(1) << (centre * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/* --- the memo ---------------------------------------------------------------------- */

static bool has_key(const struct hx_ccs_table *table, uint32_t value, hx_ccs_row on,
                    hx_centre centre)
{
    if (value & BACK_EDGE) {
        const struct back_edge *edge = &table->back_edges.v[value & ~BACK_EDGE];
        return edge->on == on && edge->centre == centre;
    }
    const struct hx_ccs_entry *row = &table->row[value - 1];
    return row->parent == on && row->centre == centre;
}

/* What stands in the slot of a key; 0: it has none. */
static uint32_t find_call_slot(const struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre)
{
    const struct segment *segment = &table->segment[on];
    if (segment->first && has_key(table, segment->first, on, centre))
        return segment->first;
    if (!segment->more)
        return 0;
    uint64_t hash = hash_push(on, centre);
    uint32_t at = (uint32_t)hash & (table->n_slots - 1);
    for (; table->slot[at].value; at = (at + 1) & (table->n_slots - 1))
        if (table->slot[at].tag == hash >> 32 && has_key(table, table->slot[at].value, on, centre))
            break;
    return table->slot[at].value;
}

/* Puts a key that is in no slot yet into the first empty one. */
static void fill_slot(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre, uint32_t value)
{
    table->segment[on].more = 1;
    uint64_t hash = hash_push(on, centre);
    uint32_t at = (uint32_t)hash & (table->n_slots - 1);
    while (table->slot[at].value)
        at = (at + 1) & (table->n_slots - 1);
    table->slot[at] = (struct slot){value, (uint32_t)(hash >> 32)};
}

/* Remembers a push that is not known yet. There is room. */
static void remember_push(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre,
                          uint32_t value)
{
    if (!table->segment[on].first) {
        table->segment[on].first = value;
        return;
    }
    fill_slot(table, on, centre, value);
    table->n_used++;
}

/* Doubles the slots, and fills them anew in the order of the rows: that of memory. */
static hx_error *grow_slots(struct hx_ccs_table *table)
{
    uint32_t n = table->n_slots;
    struct hx_big mem;
    if (n > UINT32_MAX / 2)
        return hx_error_nomem();
    HX_TRY(hx_big_reserve(&mem, (size_t)n * 2 * sizeof *table->slot));
    hx_big_free(&table->slot_mem);
    table->slot_mem = mem;
    table->slot = mem.base;
    table->n_slots = n * 2;
    for (uint32_t i = 1; i < table->n; i++) {
        const struct hx_ccs_entry *row = &table->row[i];
        if (table->segment[row->parent].first != i + 1)
            fill_slot(table, row->parent, row->centre, i + 1);
    }
    for (uint32_t i = 0; i < table->back_edges.n; i++) {
        const struct back_edge *edge = &table->back_edges.v[i];
        if (table->segment[edge->on].first != (BACK_EDGE | i))
            fill_slot(table, edge->on, edge->centre, BACK_EDGE | i);
    }
    return NULL;
}

/* Room for one row or back edge more. Rows grow by an eighth: there may be millions. */
static hx_error *reserve_ccs_row(struct hx_ccs_table *table)
{
    if (table->n >= ROWS_MAX - 2 || table->back_edges.n >= ROWS_MAX - 2)
        return hx_error_new(HX_E_LIMIT, "cost-centre stacks", "select fewer cost centres",
                            "there are more than %u of them", ROWS_MAX - 2);
    if (table->n_used >= (uint64_t)table->n_slots * 7 / 10)
        HX_TRY(grow_slots(table));
    if (table->n < table->cap)
        return NULL;
    uint32_t cap = table->cap + table->cap / 8 + 64;
    struct hx_ccs_entry *row = realloc(table->row, (size_t)cap * sizeof *row);
    HX_NEED(row);
    table->row = row;
    struct segment *segment = realloc(table->segment, (size_t)cap * sizeof *segment);
    HX_NEED(segment);
    table->segment = segment;
    table->cap = cap;
    return NULL;
}

/* --- rows -------------------------------------------------------------------------- */

/* Room was made, the depth was tested, and there is no such row. */
static hx_ccs_row add_ccs_row(struct hx_ccs_table *table, hx_ccs_row parent, hx_ccs_row root,
                              hx_centre centre)
{
    hx_ccs_row made = table->n++;
    uint32_t depth = made ? table->row[parent].depth + 1 : 0;
    table->row[made] =
        (struct hx_ccs_entry){.parent = parent, .root = root, .depth = depth, .centre = centre};
    uint64_t mask = mask_of(centre);
    uint32_t above = made ? parent : NO_ABOVE;
    if (depth % SEGMENT) {
        const struct segment *before = &table->segment[parent];
        mask |= (uint64_t)before->mask[1] << 32 | before->mask[0];
        above = before->above;
    }
    table->segment[made] =
        (struct segment){.mask = {(uint32_t)mask, (uint32_t)(mask >> 32)}, .above = above};
    if (made) /* MAIN is nobody's child */
        remember_push(table, parent, centre, made + 1);
    return made;
}

/* Where the centre stands on a stack; HX_NO_CCS_ROW: nowhere. */
static hx_ccs_row occurrence(const struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre)
{
    uint64_t bit = mask_of(centre);
    for (uint32_t end = on; end != NO_ABOVE; end = table->segment[end].above) {
        const struct segment *segment = &table->segment[end];
        if (!(((uint64_t)segment->mask[1] << 32 | segment->mask[0]) & bit))
            continue;
        for (hx_ccs_row at = end;; at = table->row[at].parent) {
            if (table->row[at].centre == centre)
                return at;
            if (table->row[at].depth % SEGMENT == 0)
                break;
        }
    }
    return HX_NO_CCS_ROW;
}

static hx_error *no_such_row(hx_ccs_row row)
{
    return hx_error_new(HX_E_FAIL, "cost-centre stacks", NULL, "there is no stack %u", row);
}

/* A push that is not known yet: the slot it is remembered by. */
static hx_error *push_new(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre,
                          uint32_t *ret)
{
    HX_TRY(reserve_ccs_row(table));
    hx_ccs_row earlier = occurrence(table, on, centre);
    if (earlier != HX_NO_CCS_ROW && table->recursion == HX_RECURSION_TRUNCATES) {
        hx_ccs_mark_recursive(table, earlier);
        struct back_edge edge = {on, earlier, centre};
        HX_NEED(hx_vec_push(&table->back_edges, edge));
        *ret = BACK_EDGE | (uint32_t)(table->back_edges.n - 1);
        remember_push(table, on, centre, *ret);
        return NULL;
    }
    if (table->row[on].depth >= DEPTH_MAX)
        return hx_error_new(HX_E_LIMIT, "cost-centre stacks", "select fewer cost centres",
                            "one is more than %u centres deep", DEPTH_MAX);
    *ret = add_ccs_row(table, on, table->row[on].root, centre) + 1;
    if (earlier != HX_NO_CCS_ROW)
        hx_ccs_mark_recursive(table, *ret - 1);
    return NULL;
}

void hx_ccs_mark_recursive(struct hx_ccs_table *table, hx_ccs_row row)
{
    table->row[row].recursive = 1;
}

hx_error *hx_ccs_push(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre, hx_ccs_row *ret,
                      bool *ret_back)
{
    if (on >= table->n)
        return no_such_row(on);
    uint32_t value = on + 1; /* on top already */
    if (table->row[on].centre != centre && !(value = find_call_slot(table, on, centre)))
        HX_TRY(push_new(table, on, centre, &value));
    *ret = value & BACK_EDGE ? table->back_edges.v[value & ~BACK_EDGE].to : value - 1;
    if (ret_back)
        *ret_back = value & BACK_EDGE;
    return NULL;
}

hx_error *hx_ccs_root(struct hx_ccs_table *table, hx_centre centre, bool is_caf, hx_ccs_row *ret)
{
    hx_ccs_row row;
    uint32_t slot = find_call_slot(table, HX_CCS_TOP, centre);
    if (centre == table->row[HX_CCS_TOP].centre || slot & BACK_EDGE ||
        (slot && (table->row[slot - 1].root != slot - 1 || table->segment[slot - 1].caf != is_caf)))
        return hx_error_new(HX_E_CORRUPT, "cost-centre stacks", NULL,
                            "cost centre %u is of two kinds", centre);
    if (slot) {
        row = slot - 1;
    } else {
        HX_TRY(reserve_ccs_row(table));
        row = add_ccs_row(table, HX_CCS_TOP, table->n, centre);
        table->segment[row].caf = is_caf;
    }
    *ret = row;
    return NULL;
}

/* --- the call rule ----------------------------------------------------------------- */

static hx_error *push_pending(struct hx_ccs_table *table, hx_ccs_row on, hx_ccs_row *ret)
{
    hx_error *err = NULL;
    while (!err && table->pending.n)
        err = hx_ccs_push(table, on, table->pending.v[--table->pending.n], &on, NULL);
    table->pending.n = 0;
    if (!err)
        *ret = on;
    return err;
}

static bool defer_row(struct hx_ccs_table *table, hx_ccs_row row)
{
    return hx_vec_push(&table->pending, table->row[row].centre);
}

hx_error *hx_ccs_call(struct hx_ccs_table *table, hx_ccs_row current, hx_ccs_row function,
                      hx_ccs_row *ret)
{
    if (current >= table->n || function >= table->n)
        return no_such_row(current >= table->n ? current : function);
    const struct hx_ccs_entry *row = table->row;
    hx_ccs_row f = function;
    bool room = true;
    if (row[f].root != row[current].root) {
        for (; room && f != HX_CCS_TOP && !table->segment[f].caf; f = row[f].parent)
            room = defer_row(table, f);
    } else if (!table->segment[f].caf) {
        hx_ccs_row c = current;
        while (row[c].depth > row[f].depth)
            c = row[c].parent;
        for (; room && f != c; f = row[f].parent) {
            if (row[c].depth == row[f].depth)
                c = row[c].parent;
            room = defer_row(table, f);
        }
    }
    if (!room) {
        table->pending.n = 0;
        return hx_error_nomem();
    }
    return push_pending(table, current, ret);
}

/* --- the table --------------------------------------------------------------------- */

hx_error *hx_ccs_table_create(hx_centre main, enum hx_recursion recursion,
                              struct hx_ccs_table **ret)
{
    struct hx_ccs_table *table = calloc(1, sizeof *table);
    HX_NEED(table);
    table->recursion = recursion;
    table->n_slots = 128; /* at first, when they are doubled */
    hx_error *err = grow_slots(table);
    if (!err)
        err = reserve_ccs_row(table);
    if (err) {
        hx_ccs_table_destroy(table);
        return err;
    }
    add_ccs_row(table, HX_CCS_TOP, HX_CCS_TOP, main);
    *ret = table;
    return NULL;
}

void hx_ccs_table_destroy(struct hx_ccs_table *table)
{
    if (!table)
        return;
    free(table->row);
    free(table->segment);
    hx_big_free(&table->slot_mem);
    hx_vec_free(&table->back_edges);
    hx_vec_free(&table->pending);
    free(table);
}

uint32_t hx_ccs_count(const struct hx_ccs_table *table)
{
    return table->n;
}

const struct hx_ccs_entry *hx_ccs_rows(const struct hx_ccs_table *table)
{
    return table->row;
}

static const char *wrong_row(const struct hx_ccs_table *table, hx_ccs_row i)
{
    const struct hx_ccs_entry *row = &table->row[i];
    if (row->parent >= i)
        return "its parent stands behind it";
    if (row->depth != table->row[row->parent].depth + 1)
        return "its depth is not its parent's and one";
    if (row->root != i && row->root != table->row[row->parent].root)
        return "its root is not its parent's";
    if (row->root == i && row->parent != HX_CCS_TOP)
        return "it is a root, and MAIN's child it is not";
    if (find_call_slot(table, row->parent, row->centre) != i + 1)
        return "another row has its parent and centre";
    if (table->recursion == HX_RECURSION_TRUNCATES) {
        for (hx_ccs_row at = row->parent;; at = table->row[at].parent) {
            if (table->row[at].centre == row->centre)
                return "its centre is on it twice";
            if (at == HX_CCS_TOP)
                break;
        }
    }
    return NULL;
}

hx_error *hx_ccs_table_check(const struct hx_ccs_table *table)
{
    const struct hx_ccs_entry *top = &table->row[HX_CCS_TOP];
    const char *wrong = top->parent || top->root || top->depth ? "row 0 is not that of MAIN" : NULL;
    uint32_t at = 0;
    for (uint32_t i = 1; i < table->n && !wrong; i++) {
        wrong = wrong_row(table, i);
        at = i;
    }
    for (size_t i = 0; i < table->back_edges.n && !wrong; i++) {
        const struct back_edge *edge = &table->back_edges.v[i];
        at = edge->on;
        if (occurrence(table, edge->on, edge->centre) != edge->to)
            wrong = "a back edge does not lead to where its centre stands";
    }
    if (!wrong)
        return NULL;
    return hx_error_new(HX_E_FAIL, "cost-centre stacks", NULL, "stack %u: %s", at, wrong);
}

/* --- the machine ------------------------------------------------------------------- */

hx_error *hx_ccs_machine_init(struct hx_ccs_machine *machine, struct hx_ccs_table *table)
{
    *machine = (struct hx_ccs_machine){.table = table};
    return hx_vec_push(&machine->stack, HX_CCS_TOP) ? NULL : hx_error_nomem();
}

void hx_ccs_machine_deinit(struct hx_ccs_machine *machine)
{
    hx_vec_free(&machine->stack);
}

hx_ccs_row hx_ccs_current(const struct hx_ccs_machine *machine)
{
    return machine->stack.v[machine->stack.n - 1];
}

hx_error *hx_ccs_push_center(struct hx_ccs_machine *machine, hx_centre centre)
{
    hx_ccs_row *current = &machine->stack.v[machine->stack.n - 1];
    return hx_ccs_push(machine->table, *current, centre, current, NULL);
}

hx_error *hx_ccs_dup_stack(struct hx_ccs_machine *machine)
{
    return hx_ccs_push_stack(machine, hx_ccs_current(machine));
}

hx_error *hx_ccs_push_stack(struct hx_ccs_machine *machine, hx_ccs_row captured)
{
    if (captured >= machine->table->n)
        return no_such_row(captured);
    return hx_vec_push(&machine->stack, captured) ? NULL : hx_error_nomem();
}

void hx_ccs_pop_stack(struct hx_ccs_machine *machine)
{
    if (machine->stack.n > 1)
        machine->stack.n--;
    else
        machine->unbalanced++;
}
