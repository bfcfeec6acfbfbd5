/* unwind_table.c - makes compact tables of unwind rules for the kernel.
 *
 * All rows of .eh_frame are gathered with the numbers of their rules and sorted; then one pass
 * over them writes the table, in which a rule holds until the next one begins and gaps have a
 * number of their own.
 */
#include "record/bpf/unwind_table.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <string.h>

/* The number of the rule that cuts the stack; also what a rule becomes that finds no number. */
#define RULE_CUT 1

_Static_assert(sizeof(struct hx_unwind_rule) == sizeof(struct hx_cfi_rule), "one layout");
_Static_assert(
    offsetof(struct hx_unwind_rule, cfa) == offsetof(struct hx_cfi_rule, cfa) &&
        offsetof(struct hx_unwind_rule, fp) == offsetof(struct hx_cfi_rule, fp) &&
        offsetof(struct hx_unwind_rule, ra) == offsetof(struct hx_cfi_rule, ra) &&
        offsetof(struct hx_unwind_rule, signal) == offsetof(struct hx_cfi_rule, signal) &&
        offsetof(struct hx_unwind_rule, cfa_off) == offsetof(struct hx_cfi_rule, cfa_off) &&
        offsetof(struct hx_unwind_rule, fp_off) == offsetof(struct hx_cfi_rule, fp_off) &&
        offsetof(struct hx_unwind_rule, ra_off) == offsetof(struct hx_cfi_rule, ra_off),
    "one layout");
_Static_assert((int)HX_UW_CFA_END == HX_CFA_END && (int)HX_UW_CFA_SP == HX_CFA_SP &&
                   (int)HX_UW_CFA_FP == HX_CFA_FP && (int)HX_UW_CFA_AT_SP == HX_CFA_AT_SP &&
                   (int)HX_UW_CFA_AT_FP == HX_CFA_AT_FP && (int)HX_UW_CFA_PLT == HX_CFA_PLT &&
                   (int)HX_UW_CFA_UNKNOWN == HX_CFA_UNKNOWN,
               "one numbering");
_Static_assert((int)HX_UW_SAVE_SAME == HX_SAVE_SAME && (int)HX_UW_SAVE_AT_CFA == HX_SAVE_AT_CFA &&
                   (int)HX_UW_SAVE_AT_SP == HX_SAVE_AT_SP &&
                   (int)HX_UW_SAVE_AT_FP == HX_SAVE_AT_FP &&
                   (int)HX_UW_SAVE_UNKNOWN == HX_SAVE_UNKNOWN,
               "one numbering");
_Static_assert(sizeof(struct hx_unwind_piece) == 8 && sizeof(struct hx_unwind_row) == 4, "packed");

/* --- rules --- */

#define SLOTS ((size_t)1 << 17) /* twice the rules that have a number */

struct rules {
    HX_VEC(struct hx_unwind_rule) all;
    uint16_t *slots; /* open addressing; a rule's number, 0: free */
};

static size_t rule_slot(const struct hx_cfi_rule *rule)
{
    uint64_t x[2];
    memcpy(x, rule, sizeof x);
    uint64_t hash = (x[0] * 0x9e3779b97f4a7c15 ^ x[1]) * 0xbf58476d1ce4e5b9;
    return (size_t)(hash >> 40) % SLOTS;
}

/* The number of a rule; RULE_CUT with *lost grown when there is none left. False: no memory. */
static bool rule_number(struct rules *rules, const struct hx_cfi_rule *rule, uint16_t *ret,
                        uint64_t *lost)
{
    size_t slot = rule_slot(rule);
    for (; rules->slots[slot]; slot = (slot + 1) % SLOTS) {
        if (!memcmp(&rules->all.v[rules->slots[slot]], rule, sizeof *rule)) {
            *ret = rules->slots[slot];
            return true;
        }
    }
    if (rules->all.n >= HX_UNWIND_RULES_MAX) {
        ++*lost;
        *ret = RULE_CUT;
        return true;
    }
    struct hx_unwind_rule copy;
    memcpy(&copy, rule, sizeof copy);
    *ret = (uint16_t)rules->all.n;
    if (!hx_vec_push(&rules->all, copy))
        return false;
    rules->slots[slot] = *ret;
    return true;
}

static bool rules_init(struct rules *rules)
{
    static const struct hx_cfi_rule cut = {.cfa = HX_CFA_UNKNOWN};
    uint16_t number;
    uint64_t lost = 0;
    rules->slots = calloc(SLOTS, sizeof *rules->slots);
    return rules->slots && hx_vec_push(&rules->all, (struct hx_unwind_rule){0}) &&
           rule_number(rules, &cut, &number, &lost);
}

/* --- gathering --- */

struct gathered {
    uint64_t start;
    uint32_t len; /* of what is longer than a table may be, as much */
    uint16_t rule;
};

struct build {
    uint64_t start, end; /* what the caller wants of the code */
    struct rules rules;
    HX_VEC(struct gathered) in;
    bool sorted, nomem;
    uint64_t beyond;

    /* the table in the making */
    uint64_t base;
    uint32_t n_pieces, done; /* pieces that are written */
    uint16_t rule;           /* that holds now */
    struct hx_unwind_piece *pieces;
    HX_VEC(struct hx_unwind_row) rows;
};

static void build_deinit(struct build *b)
{
    free(b->rules.slots);
    hx_vec_free(&b->rules.all);
    hx_vec_free(&b->in);
    hx_vec_free(&b->rows);
    free(b->pieces);
}

static bool collect_rule(void *context, uint64_t start, uint64_t end,
                         const struct hx_cfi_rule *rule)
{
    struct build *b = context;
    if (start < b->start)
        start = b->start;
    if (end > b->end)
        end = b->end;
    if (start >= end)
        return true;
    if (b->in.n == HX_UNWIND_ROWS_MAX) {
        b->beyond++;
        return true;
    }
    uint64_t len = end - start;
    struct gathered row = {
        .start = start,
        .len = len < HX_UNWIND_SPAN_MAX ? (uint32_t)len : HX_UNWIND_SPAN_MAX,
    };
    if (b->in.n && b->in.v[b->in.n - 1].start > start)
        b->sorted = false;
    b->nomem = !rule_number(&b->rules, rule, &row.rule, &b->beyond) || !hx_vec_push(&b->in, row);
    return !b->nomem;
}

/* By start; of several at one place the last rule that was seen comes last, and counts. */
static int compare_rule_starts(const void *left, const void *right)
{
    const struct gathered *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->rule > b->rule) - (a->rule < b->rule);
}

/* --- writing --- */

/* Writes the pieces that begin before `off`; the rule has not changed since the last row. */
static void fill_pieces(struct build *b, uint64_t off)
{
    for (; b->done < b->n_pieces && (uint64_t)b->done * HX_UNWIND_PIECE < off; b->done++)
        b->pieces[b->done] =
            (struct hx_unwind_piece){.first = (uint32_t)b->rows.n, .rule = b->rule};
}

/* From `off` on another rule holds. False: there is no room, or no memory. */
static bool set_rule_from(struct build *b, uint64_t off, uint16_t rule)
{
    if (rule == b->rule)
        return true;
    fill_pieces(b, off);
    b->rule = rule;
    if (off % HX_UNWIND_PIECE == 0) {
        fill_pieces(b, off + 1);
        return true;
    }
    struct hx_unwind_row row = {.at = (uint8_t)(off % HX_UNWIND_PIECE), .rule = rule};
    if (b->rows.n == HX_UNWIND_ROWS_MAX)
        return false;
    if (!hx_vec_push(&b->rows, row)) {
        b->nomem = true;
        return false;
    }
    b->pieces[off / HX_UNWIND_PIECE].more++;
    return true;
}

/* The end of row i: a later entry takes over where it begins, and the bounds cut. */
static uint64_t rule_row_end(const struct build *b, size_t i)
{
    uint64_t end = b->in.v[i].start + b->in.v[i].len;
    if (i + 1 < b->in.n && b->in.v[i + 1].start < end)
        end = b->in.v[i + 1].start;
    return end - b->base < HX_UNWIND_SPAN_MAX ? end : b->base + HX_UNWIND_SPAN_MAX;
}

/* The table ends before the piece that could not be written whole. */
static void cut_table(struct build *b)
{
    b->n_pieces = b->done ? b->done - 1 : 0;
    b->rows.n = b->n_pieces < b->done ? b->pieces[b->n_pieces].first : 0;
}

static void write_unwind_table(struct build *b)
{
    for (size_t i = 0; i < b->in.n; i++) {
        uint64_t start = b->in.v[i].start, end = rule_row_end(b, i);
        if (start >= end)
            continue;
        bool gap = i + 1 == b->in.n || b->in.v[i + 1].start > end;
        if (!set_rule_from(b, start - b->base, b->in.v[i].rule) ||
            (gap && end - b->base < (uint64_t)b->n_pieces * HX_UNWIND_PIECE &&
             !set_rule_from(b, end - b->base, HX_UNWIND_NONE))) {
            b->beyond += b->in.n - i;
            cut_table(b);
            return;
        }
    }
    fill_pieces(b, (uint64_t)b->n_pieces * HX_UNWIND_PIECE);
}

/* Chooses where the table begins and how many pieces it has. */
static hx_error *lay_out_unwind_table(struct build *b)
{
    if (!b->in.n)
        return NULL;
    b->base = b->in.v[0].start & ~(uint64_t)(HX_UNWIND_PIECE - 1);
    while (b->in.v[b->in.n - 1].start - b->base >= HX_UNWIND_SPAN_MAX) {
        b->in.n--; /* the first one stays */
        b->beyond++;
    }
    uint64_t span = rule_row_end(b, b->in.n - 1) - b->base;
    b->n_pieces = (uint32_t)((span + HX_UNWIND_PIECE - 1) / HX_UNWIND_PIECE);
    b->pieces = calloc(b->n_pieces, sizeof *b->pieces);
    return b->pieces ? NULL : hx_error_nomem();
}

hx_error *hx_unwind_table_build(const struct hx_cfi *cfi, uint64_t start, uint64_t end,
                                struct hx_unwind_table *ret)
{
    struct build b HX_CLEANUP(build_deinit) = {.start = start, .end = end, .sorted = true};
    HX_NEED(rules_init(&b.rules));
    uint64_t damaged = hx_cfi_each(cfi, collect_rule, &b);
    HX_NEED(!b.nomem);
    if (!b.sorted)
        qsort(b.in.v, b.in.n, sizeof *b.in.v, compare_rule_starts);
    HX_TRY(lay_out_unwind_table(&b));
    write_unwind_table(&b);
    HX_NEED(!b.nomem);
    *ret = (struct hx_unwind_table){
        .start = b.base,
        .span = b.n_pieces * HX_UNWIND_PIECE,
        .n_pieces = b.n_pieces,
        .n_rows = (uint32_t)b.rows.n,
        .n_rules = (uint32_t)b.rules.all.n,
        .pieces = hx_steal(b.pieces),
        .rows = hx_steal(b.rows.v),
        .rules = hx_steal(b.rules.all.v),
        .damaged = damaged,
        .beyond = b.beyond,
    };
    return NULL;
}

void hx_unwind_table_deinit(struct hx_unwind_table *table)
{
    free(table->pieces);
    free(table->rows);
    free(table->rules);
    *table = (struct hx_unwind_table){0};
}

bool hx_unwind_table_find(const struct hx_unwind_table *table, uint64_t vaddr,
                          struct hx_cfi_rule *ret)
{
    uint64_t off = vaddr - table->start;
    if (off >= table->span)
        return false;
    struct hx_unwind_piece piece = table->pieces[off / HX_UNWIND_PIECE];
    uint32_t lo = 0, hi = piece.more, rule = piece.rule;
    for (unsigned step = 0; step < HX_UNWIND_STEPS && lo < hi; step++) {
        uint32_t mid = (lo + hi) / 2;
        if (table->rows[piece.first + mid].at <= off % HX_UNWIND_PIECE)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo > 0)
        rule = table->rows[piece.first + lo - 1].rule;
    if (rule == HX_UNWIND_NONE)
        return false;
    memcpy(ret, &table->rules[rule], sizeof *ret);
    return true;
}
