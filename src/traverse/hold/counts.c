/* counts.c - slots behind a count in the same block: nodes of B-trees, small arrays with their
 * length at the head.
 *
 * A count is a small number at one place in blocks alike, and slots follow each other, of which
 * those below the count are pointers. Then each slot is a pointer where the count is large enough,
 * and often none where it is less: a staircase, which nothing else makes. Tables of buckets, rings
 * and sets of flags do not have it.
 */
#include "traverse/hold/word_table.h"

#include <stdlib.h>

#define CELLS   (1 << 15) /* words of a group that are looked at */
#define WORDS   128 /* of a block: larger ones hold no counted slots of which there are many */
#define ROWS    64  /* blocks: fewer say nothing */
#define STEPS   3   /* slots that begin to be pointers at a count of their own */
#define TOLD    16  /* blocks with a larger count, and with a smaller one: less say nothing */
#define SHOWN   4   /* blocks that show one of them */
#define WIDE    8   /* words of a slot */
#define RARE    500 /* one row in so many */
#define ANCHORS 4
#define RUNS    4 /* of slots in a block: keys, children */
#define SMALL   (WORDS + 1)

/* Percent. */
enum {
    BEHIND = 1,   /* slots behind the count that are no pointers; of those below, half as many */
    ACCIDENT = 2, /* blocks in which a slot behind it always is one, by accident */
    ANCHOR = 97,  /* blocks with a small number in which a word is a pointer */
    EXACT = 60,   /* slots of a run that are always pointers from its count on, but not before */
    COUNTS = 50   /* blocks with a small count: there may be others of that size */
};

/* Where a count lies, and how wide it is. */
struct count {
    uint8_t word, shift, bits;
};

/* Slots of `stride` words from word `first` on, up to `end`: of which `more` than the count are in
 * use. */
struct run {
    uint8_t first, end, stride;
    int8_t more;
};

struct counted {
    struct count count;
    uint8_t anchors, n;
    uint8_t anchor[ANCHORS]; /* words that are always pointers: other blocks are no such nodes */
    struct run run[RUNS];
};

struct look {
    const struct hx_judge *judge;
    struct counted *of; /* for each group */
    struct hx_big of_mem;
};

struct scan {
    struct hx_word_table table;
    uint8_t *value;              /* the count of each row */
    uint32_t rows[SMALL];        /* of each count */
    uint32_t (*pointers)[SMALL]; /* of each word, by count */
    unsigned least, most;        /* counts */
};

static unsigned value_of(const uint64_t *word, struct count count)
{
    uint64_t value = word[count.word] >> count.shift;
    if (count.bits < 64)
        value &= (UINT64_C(1) << count.bits) - 1;
    return value < SMALL ? (unsigned)value : SMALL;
}

/* --- staircases --------------------------------------------------------------------------- */

/* The least count from which on a word is a pointer; most + 1: it never is. */
static unsigned step_of(const struct scan *scan, size_t i)
{
    unsigned step = scan->most + 1;
    for (unsigned c = scan->most + 1; c-- > scan->least;) {
        if ((scan->rows[c] - scan->pointers[i][c]) * 200 > scan->rows[c])
            break;
        if (scan->rows[c])
            step = c;
    }
    return step;
}

/* The least count that some row has, from one on. */
static unsigned from(const struct scan *scan, long count)
{
    unsigned c = count < (long)scan->least ? scan->least : (unsigned)count;
    while (c <= scan->most && !scan->rows[c])
        c++;
    return c;
}

/* May a word begin to be a pointer at that count? Few rows may have one by accident before. */
static bool fits(const struct scan *scan, const unsigned *step, size_t i, unsigned count)
{
    uint64_t rows = 0;
    for (unsigned c = step[i]; c < count; c++)
        rows += scan->rows[c];
    return step[i] <= count && (rows < 8 || hx_part_below(rows, scan->table.rows, ACCIDENT));
}

/* Is a word no pointer in some blocks where it is behind the count? */
static bool is_shown(const struct scan *scan, size_t i, unsigned count)
{
    uint64_t rows = 0, none = 0;
    for (unsigned c = scan->least; c < count; c++) {
        rows += scan->rows[c];
        none += scan->rows[c] - scan->pointers[i][c];
    }
    return none >= SHOWN && !hx_part_below(none, rows, BEHIND);
}

/* Do enough blocks have more, and enough less? */
static bool is_told(const struct scan *scan, unsigned count)
{
    uint64_t below = 0, above = 0;
    for (unsigned c = scan->least; c <= scan->most; c++)
        *(c < count ? &below : &above) += scan->rows[c];
    return below >= TOLD && above >= TOLD;
}

/* The slots before and behind slot i, which begins to be a pointer at its step; how many of them do
 * so exactly, 0: there are none. */
static unsigned find_run(const struct scan *scan, const unsigned *step, size_t i, size_t stride,
                         struct run *ret)
{
    size_t first = i, end = i;
    unsigned exact = 0, told = 0;
    long at = step[i];
    for (; end < scan->table.words && at <= (long)scan->most; end += stride, at++) {
        unsigned count = from(scan, at);
        if (!fits(scan, step, end, count) || !is_shown(scan, end, count))
            break;
        told += is_told(scan, count);
        exact += is_told(scan, count) && step[end] == count;
    }
    for (at = (long)step[i] - 1;
         first >= stride && at > 0 && fits(scan, step, first - stride, from(scan, at)); at--)
        first -= stride;
    *ret = (struct run){.first = (uint8_t)first,
                        .end = (uint8_t)end,
                        .stride = (uint8_t)stride,
                        .more = (int8_t)((long)((i - first) / stride) + 1 - (long)step[i])};
    return exact >= STEPS && !hx_part_below(exact, told, EXACT) ? exact : 0;
}

/* The run with most slots that begin where it says, of words that are in none yet. */
static unsigned find_best(const struct scan *scan, const unsigned *step, const bool *taken,
                          struct run *ret)
{
    unsigned best = 0;
    for (size_t stride = 1; stride <= WIDE; stride++)
        for (size_t i = 0; i < scan->table.words; i++) {
            struct run run;
            if (taken[i] || step[i] <= scan->least || step[i] > scan->most)
                continue;
            unsigned exact = find_run(scan, step, i, stride, &run);
            if (exact > best) {
                best = exact;
                *ret = run;
            }
        }
    return best;
}

static unsigned find_runs(const struct scan *scan, struct counted *ret)
{
    unsigned step[WORDS], all = 0, exact;
    bool taken[WORDS] = {false};
    for (size_t i = 0; i < scan->table.words; i++)
        step[i] = step_of(scan, i);
    while (ret->n < RUNS && (exact = find_best(scan, step, taken, &ret->run[ret->n]))) {
        const struct run *run = &ret->run[ret->n++];
        for (size_t k = run->first; k < run->end; k += run->stride)
            taken[k] = true;
        all += exact;
    }
    return all;
}

/* --- counts ------------------------------------------------------------------------------- */

static bool has_anchors(const struct scan *scan, const struct counted *counted, size_t row)
{
    for (size_t k = 0; k < counted->anchors; k++)
        if (hx_word_kind(&scan->table, row, counted->anchor[k]) != HX_WORD_POINTER)
            return false;
    return true;
}

/* Reads the count of each row that is such a node; false: it is none. */
static bool read_counts(struct scan *scan, const struct counted *counted)
{
    const struct hx_word_table *table = &scan->table;
    uint64_t none = 0;
    unsigned various = 0;
    memset(scan->rows, 0, sizeof scan->rows);
    scan->least = SMALL;
    scan->most = 0;
    for (size_t r = 0; r < table->rows; r++) {
        unsigned value = value_of(hx_word_row(table, r), counted->count);
        scan->value[r] = UINT8_MAX;
        if (value > table->words || !has_anchors(scan, counted, r)) {
            if (++none > r / 2 + table->rows / 8)
                return false;
            continue;
        }
        scan->value[r] = (uint8_t)value;
        scan->rows[value]++;
    }
    /* what hardly any row has may be the word of another block */
    for (unsigned c = 0; c < SMALL; c++) {
        if (scan->rows[c] * RARE < table->rows - none)
            scan->rows[c] = 0;
        if (!scan->rows[c])
            continue;
        various++;
        scan->least = c < scan->least ? c : scan->least;
        scan->most = c;
    }
    return various > STEPS && table->rows - none >= ROWS &&
           !hx_part_below(table->rows - none, table->rows, COUNTS);
}

static void count_pointers(struct scan *scan)
{
    const struct hx_word_table *table = &scan->table;
    memset(scan->pointers, 0, table->words * sizeof *scan->pointers);
    for (size_t r = 0; r < table->rows; r++)
        for (size_t i = 0;
             i < table->words && scan->value[r] != UINT8_MAX && scan->rows[scan->value[r]]; i++)
            scan->pointers[i][scan->value[r]] += hx_word_kind(table, r, i) == HX_WORD_POINTER;
}

/* Words that are pointers in nearly all rows with a count. */
static void find_anchors(const struct scan *scan, struct counted *counted)
{
    uint64_t rows = 0;
    for (unsigned c = scan->least; c <= scan->most; c++)
        rows += scan->rows[c];
    for (size_t i = 0; i < scan->table.words && counted->anchors < ANCHORS; i++) {
        uint64_t pointers = 0;
        for (unsigned c = scan->least; c <= scan->most; c++)
            pointers += scan->pointers[i][c];
        if (!hx_part_below(pointers, rows, ANCHOR))
            counted->anchor[counted->anchors++] = (uint8_t)i;
    }
}

/* How many slots show that it is a count. */
static unsigned try_count(struct scan *scan, struct counted *counted)
{
    if (!read_counts(scan, counted))
        return 0;
    count_pointers(scan);
    find_anchors(scan, counted);
    if (counted->anchors) {
        if (!read_counts(scan, counted))
            return 0;
        count_pointers(scan);
    }
    return find_runs(scan, counted);
}

/* Are there words that are pointers in some blocks alone? */
static bool have_slots(const struct hx_word_table *table)
{
    size_t slots = 0;
    for (size_t i = 0; i < table->words; i++) {
        uint64_t pointers = 0;
        for (size_t r = 0; r < table->rows; r++)
            pointers += hx_word_kind(table, r, i) == HX_WORD_POINTER;
        slots += pointers >= SHOWN && pointers < table->rows;
    }
    return slots >= STEPS;
}

/* The count that explains most slots. */
static void find_count(struct scan *scan, struct counted *ret)
{
    static const uint8_t bits[] = {64, 32, 16, 8};
    unsigned most = 0;
    for (size_t i = 0; i < scan->table.words; i++)
        for (size_t b = 0; b < sizeof bits; b++)
            for (unsigned shift = 0; shift < 64; shift += bits[b]) {
                struct counted found = {.count = {(uint8_t)i, (uint8_t)shift, bits[b]}};
                unsigned slots = try_count(scan, &found);
                if (slots > most) {
                    most = slots;
                    *ret = found;
                }
            }
}

static hx_error *scan_group(void *context, uint32_t group, bool *ret_found)
{
    struct look *look = context;
    const struct hx_judge *judge = look->judge;
    const struct hx_block_group *of = &judge->groups->group[group];
    struct scan scan = {0};
    uint64_t words = judge->graph->size[judge->groups->sample[of->first]] / HX_WORD;
    if (of->samples < ROWS || words < STEPS + 2 || words > WORDS)
        return NULL;
    HX_TRY(hx_word_table_fill(judge, of, CELLS, false, &scan.table));
    scan.value = malloc(scan.table.rows + 1);
    scan.pointers = malloc((scan.table.words + 1) * sizeof *scan.pointers);
    bool failed = !scan.value || !scan.pointers;
    if (!failed && scan.table.rows >= ROWS && have_slots(&scan.table))
        find_count(&scan, &look->of[group]);
    free(scan.value);
    free(scan.pointers);
    *ret_found = look->of[group].n > 0;
    hx_word_table_deinit(&scan.table);
    return failed ? hx_error_nomem() : NULL;
}

/* --- judging ------------------------------------------------------------------------------ */

static bool is_node(const struct hx_graph *graph, hx_obj object, const struct counted *counted)
{
    unsigned found = 0;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1] && found < counted->anchors;
         e++)
        found += hx_edge_offset(graph->edge[e]) / HX_WORD == counted->anchor[found];
    return found == counted->anchors;
}

static void judge_object(void *context, hx_obj object, struct hx_peeked *window)
{
    const struct look *look = context;
    const struct counted *counted = &look->of[look->judge->groups->of[object]];
    const struct hx_graph *graph = look->judge->graph;
    if (!is_node(graph, object, counted))
        return;
    const uint64_t *word =
        hx_judge_peek(look->judge, graph->addr[object], graph->size[object] / HX_WORD, window);
    unsigned value = word ? value_of(word, counted->count) : SMALL;
    for (hx_eidx e = graph->fwd[object]; value < SMALL && e < graph->fwd[object + 1]; e++) {
        const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD;
        for (size_t k = 0; k < counted->n; k++) {
            const struct run *run = &counted->run[k];
            if (i >= run->first && i < run->end && (i - run->first) % run->stride == 0 &&
                (long)((i - run->first) / run->stride) >= (long)value + run->more)
                hx_judge_edge(look->judge, e, HX_RULE_count);
        }
    }
}

hx_error *hx_judge_counts(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    HX_TRY(hx_big_array(look.of, judge->groups->n));
    const struct hx_group_judge how = {scan_group, judge_object, &look};
    hx_error *err = hx_judge_by_group(judge, &how);
    hx_big_free(&look.of_mem);
    return err;
}
