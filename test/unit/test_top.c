/* test_top.c - windows of ordered rows against a plain sort: each order, with and without
 * conditions, values around the edges of 8 to 64 bits in columns with any base, windows anywhere;
 * and what is stored of an order's ends, whoever gathered them.
 * The blocks are made up here: top.c sees nothing else of a store. */
#include "unit.h"

#include "base/parallel.h"
#include "store/objects/children.h"
#include "store/objects/ends.h"
#include "store/objects/top.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 6, RANKS = 40, COLUMNS = 2 /* 0: ordered by; 1: of conditions */ };
enum { CONDITION = HX_COL_HOLDER }; /* the column of conditions; any other is what is ordered by */

/* --- a store of two columns ------------------------------------------------------------- */

static struct {
    uint64_t *value[COLUMNS], n;
    struct hx_decoded decoded[COLUMNS][BLOCKS];
    struct hx_block block[BLOCKS];
    struct hx_kept_tops *tops;
    uint64_t ends[HX_ENDS_ROOM];
    bool has_ends, read_ends, no_pass, no_order; /* the last: what is ordered by is not read */
    uint16_t *picked[BLOCKS]; /* rows that were said to be picked; owned; NULL: none */
    size_t n_picked[BLOCKS], picks;
} made;

hx_error *hx_blocks_interrupted(const hx_blocks *blocks)
{
    (void)blocks;
    return NULL;
}

hx_error *hx_blocks_column(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           enum hx_derived derived, int column, const struct hx_decoded **ret)
{
    (void)blocks;
    assert_true(block < index->n);
    assert_false(made.no_pass || (made.no_order && column != CONDITION));
    *ret = &made.decoded[column == CONDITION || derived == HX_DOMINATOR][block];
    return NULL;
}

void hx_blocks_begin_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           const struct hx_wanted *wanted, size_t n)
{
    (void)blocks, (void)wanted, (void)n;
    assert_true(block < index->n);
}

size_t hx_blocks_asides(void)
{
    return 2;
}

void hx_blocks_begin_pick_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                                enum hx_derived derived, int column, const uint16_t *at, size_t n)
{
    (void)blocks, (void)column;
    assert_true(block < index->n && n > 0 && n <= HX_PICKED_MAX);
    if (derived != HX_RETAINED)
        return;
    free(made.picked[block]);
    made.picked[block] = malloc(n * sizeof *at);
    assert_non_null(made.picked[block]);
    memcpy(made.picked[block], at, n * sizeof *at);
    made.n_picked[block] = n;
}

void hx_blocks_end_asides(hx_blocks *blocks)
{
    (void)blocks;
}

/* What was said to be picked is what is picked. */
static void check_picked(size_t block, const uint16_t *at, size_t n)
{
    if (!made.picked[block])
        return;
    assert_int_equal(n, made.n_picked[block]);
    assert_memory_equal(at, made.picked[block], n * sizeof *at);
    free(made.picked[block]);
    made.picked[block] = NULL;
    made.picks++;
}

/* Here the edges tell of no level; test/export/levels.py has those that they do. */
hx_error *hx_children_find(hx_blocks *blocks, const struct hx_block_index *objects,
                           uint64_t dominator, uint64_t **ret, size_t *ret_n, bool *ret_all)
{
    (void)blocks, (void)objects, (void)dominator;
    *ret = NULL;
    *ret_n = 0;
    *ret_all = false;
    return NULL;
}

hx_error *hx_blocks_ends(hx_blocks *blocks, const struct hx_block_index *index, int column,
                         uint64_t *ret, bool *ret_there)
{
    (void)blocks;
    (void)index;
    (void)column;
    *ret_there = made.has_ends;
    if (made.has_ends)
        memcpy(ret, made.ends, sizeof made.ends);
    made.read_ends = true;
    return NULL;
}

void hx_blocks_release(hx_blocks *blocks, const struct hx_decoded *column)
{
    (void)blocks;
    (void)column;
}

void hx_blocks_release_once(hx_blocks *blocks, const struct hx_decoded *column)
{
    hx_blocks_release(blocks, column);
}

hx_error *hx_blocks_pick(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                         enum hx_derived derived, int column, const uint16_t *at, size_t n,
                         uint64_t *ret)
{
    (void)blocks;
    assert_false(made.no_order && column != CONDITION && derived == HX_RETAINED);
    if (derived == HX_RETAINED)
        check_picked(block, at, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(at[i] < index->block[block].n);
        ret[i] = made.value[column == CONDITION || derived == HX_DOMINATOR]
                           [index->block[block].from + at[i]];
    }
    return NULL;
}

struct hx_kept_tops **hx_blocks_tops(hx_blocks *blocks)
{
    (void)blocks;
    return &made.tops;
}

/* In elements that are as small as can be, or larger, behind a base at or below the least. */
static void decode(struct unit_random *random, const uint64_t *value, uint32_t n,
                   struct hx_decoded *ret)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        least = value[i] < least ? value[i] : least;
        most = value[i] > most ? value[i] : most;
    }
    unsigned shift = 0;
    while (shift < 3 && most - least >= (uint64_t)1 << (8 << shift))
        shift++;
    shift += (unsigned)unit_below(random, 4 - shift);
    uint64_t room = (shift == 3 ? UINT64_MAX : ((uint64_t)1 << (8 << shift)) - 1) - (most - least);
    room = room < least ? room : least;
    uint64_t base =
        least - (unit_below(random, 2)                         ? 0
                 : unit_below(random, 2) || room == UINT64_MAX ? room
                                                               : unit_below(random, room + 1));
    void *v = malloc((size_t)n << shift);
    assert_non_null(v);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t element = value[i] - base;
        memcpy((char *)v + ((size_t)i << shift), &element, (size_t)1 << shift);
    }
    *ret = (struct hx_decoded){.base = base, .shift = shift, .n = n, .v = v};
}

static void make(struct unit_random *random, struct hx_block_index *index)
{
    *index = (struct hx_block_index){.snapshot = 1, .block = made.block, .rows = made.n};
    for (uint64_t from = 0; from < made.n; from += HX_BLOCK_ROWS, index->n++) {
        uint32_t n = (uint32_t)(made.n - from < HX_BLOCK_ROWS ? made.n - from : HX_BLOCK_ROWS);
        made.block[index->n] = (struct hx_block){.from = from, .n = n};
        for (int c = 0; c < COLUMNS; c++)
            decode(random, made.value[c] + from, n, &made.decoded[c][index->n]);
    }
}

static void forget_blocks(const struct hx_block_index *index)
{
    for (size_t b = 0; b < index->n; b++)
        for (int c = 0; c < COLUMNS; c++)
            free((void *)made.decoded[c][b].v);
}

static void forget(struct hx_block_index *index)
{
    forget_blocks(index);
    hx_tops_free(made.tops);
    made.tops = NULL;
    for (int c = 0; c < COLUMNS; c++)
        free(made.value[c]);
}

/* --- the plain sort ---------------------------------------------------------------------- */

struct plain {
    uint64_t class, value, row; /* class: 1 comes behind all of 0 */
};

static int compare(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static size_t sort(const struct hx_top *top, struct plain *plain)
{
    size_t n = 0;
    for (uint64_t row = top->from; row < top->end; row++) {
        uint64_t value = made.value[0][row];
        if (top->conditions &&
            (made.value[1][row] < top->condition->low || made.value[1][row] > top->condition->high))
            continue;
        if (top->conditions == 2 && !value)
            continue;
        if (top->rank)
            value = value < top->ranks ? top->rank[value] : top->ranks;
        plain[n++] = (struct plain){.class = top->zero_last && value == 0,
                                    .value = top->largest ? UINT64_MAX - value : value,
                                    .row = row};
    }
    if (n)
        qsort(plain, n, sizeof *plain, compare);
    return n;
}

/* --- comparison -------------------------------------------------------------------------- */

static uint64_t pick(struct unit_random *random, const uint64_t *v, size_t n)
{
    return v[unit_below(random, n)];
}
#define PICK(random, ...)                                                                          \
    pick(random, (const uint64_t[]){__VA_ARGS__},                                                  \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static const uint64_t top32 = (uint64_t)1 << 32, top63 = (uint64_t)1 << 63;

/* Around one of the edges, as far as a spread. */
static void fill(struct unit_random *random, uint64_t *value, uint64_t n)
{
    uint64_t low = PICK(random, 0, 0, 1, 200, 65530, top32 - 9, top32, top63 - 1, top63,
                        UINT64_MAX - 3, UINT64_MAX - 70000, UINT64_MAX - top32);
    uint64_t spread = PICK(random, 0, 1, 255, 256, 4095, 4096, 65535, 65536, top32 - 1, top32,
                           (uint64_t)1 << 45, top63, UINT64_MAX);
    spread = spread < UINT64_MAX - low ? spread : UINT64_MAX - low;
    unsigned few = (unsigned)unit_below(random, 3);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t word = unit_random(random);
        uint64_t far = spread == UINT64_MAX ? word : word % (spread + 1);
        /* many rows of few values, at both ends of the range too */
        value[i] = few && word >> 60 > 3 ? low + (few == 1 ? 0 : spread)
                   : word >> 57 == 1     ? low
                   : word >> 57 == 2     ? low + spread
                                         : low + far;
    }
}

static void compare_window(const struct hx_block_index *index, const struct hx_top *top,
                           const struct plain *plain, size_t n)
{
    uint64_t *row;
    size_t got, from = top->offset < n ? (size_t)top->offset : n;
    size_t want = top->limit < n - from ? (size_t)top->limit : n - from;
    assert_null(hx_top_rows(NULL, index, top, &row, &got));
    if (got != want)
        fail_msg("%zu rows of %zu at %llu, limit %llu: %zu", got, n,
                 (unsigned long long)top->offset, (unsigned long long)top->limit, want);
    for (size_t i = 0; i < want; i++)
        if (row[i] != plain[from + i].row)
            fail_msg("row %zu of the window at %llu is %llu instead of %llu", i,
                     (unsigned long long)top->offset, (unsigned long long)row[i],
                     (unsigned long long)plain[from + i].row);
    free(row);
}

static void compare_place(struct unit_random *random, const struct hx_block_index *index,
                          const struct hx_top *top, const struct plain *plain, size_t n,
                          uint64_t before)
{
    bool there;
    uint64_t place, at = unit_below(random, n);
    assert_null(hx_top_place(NULL, index, top, plain[at].row, false, &there, &place));
    assert_true(there);
    assert_int_equal(place, before + at);
}

static void windows(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("windows");
    static struct plain plain[BLOCKS * HX_BLOCK_ROWS];
    for (size_t round = 0; round < unit_rounds(150); round++) {
        struct hx_block_index index;
        struct hx_condition condition = {.derived = HX_PLAIN, .column = CONDITION};
        uint32_t rank[RANKS];
        made.n = round % 8 ? 17000 + unit_below(&random, 24000)
                           : HX_BLOCK_ROWS + unit_below(&random, 2 * HX_BLOCK_ROWS);
        for (int c = 0; c < COLUMNS; c++) {
            made.value[c] = malloc(made.n * sizeof *made.value[c]);
            assert_non_null(made.value[c]);
            fill(&random, made.value[c], made.n);
        }
        struct hx_top top = {.end = made.n, .largest = unit_below(&random, 2)};
        top.zero_last = !top.largest && unit_below(&random, 2);
        if (unit_below(&random, 4) == 0) {
            for (uint64_t i = 0; i < made.n; i++)
                made.value[0][i] %= RANKS + 2;
            for (int i = 0; i < RANKS; i++)
                rank[i] = (uint32_t)unit_below(&random, RANKS);
            top.rank = rank;
            top.ranks = RANKS;
        }
        make(&random, &index);
        if (unit_below(&random, 2)) {
            top.condition = &condition;
            top.conditions = 1;
            condition.low = made.value[1][unit_below(&random, made.n)];
            condition.high = PICK(&random, condition.low, UINT64_MAX, UINT64_MAX);
        }
        if (unit_below(&random, 3) == 0) {
            top.from = unit_below(&random, made.n / 8);
            top.end -= unit_below(&random, made.n / 8);
        }
        size_t n = sort(&top, plain);
        for (int i = 0; i < 12; i++) {
            uint64_t some = n ? unit_below(&random, n) : 0;
            top.offset = PICK(&random, 0, some, some, n, n - (n > 3 ? 3 : 0), n - n / 100, n / 2,
                              n + 7, 16384, UINT64_MAX, top63 - 1);
            top.limit = PICK(&random, 1, 3, 100, 2048, 2049, 20000, n, UINT64_MAX);
            compare_window(&index, &top, plain, n);
            if (n)
                compare_place(&random, &index, &top, plain, n, 0);
        }
        forget(&index);
    }
}

/* What a filtered list retains is read once, whatever window of whichever order is asked for. */
static void values(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("values");
    static struct plain plain[BLOCKS * HX_BLOCK_ROWS];
    made.picks = 0; /* a single round may pick nothing: as many as it takes, of all of them */
    for (size_t round = 0; round < unit_rounds(10) || (!made.picks && round < 10); round++) {
        struct hx_block_index index;
        struct hx_condition condition = {.derived = HX_PLAIN, .column = CONDITION, .high = 2};
        made.n = HX_BLOCK_ROWS + unit_below(&random, (BLOCKS - 1) * HX_BLOCK_ROWS);
        for (int c = 0; c < COLUMNS; c++) {
            made.value[c] = malloc(made.n * sizeof *made.value[c]);
            assert_non_null(made.value[c]);
        }
        fill(&random, made.value[0], made.n);
        for (uint64_t i = 0; i < made.n; i++)
            made.value[1][i] = unit_below(&random, round % 2 ? 8 : 4000);
        make(&random, &index);
        struct hx_top top = {
            .end = made.n, .condition = &condition, .conditions = 1, .largest = round % 3 != 0};
        uint64_t n;
        assert_null(hx_top_count(NULL, &index, &top, &n));
        for (int i = 0; i < 6; i++) {
            top.derived = i == 2 ? HX_PLAIN : HX_RETAINED; /* another column is in nobody's way */
            made.no_order = i > 0 && i != 2;
            top.largest = !top.largest;
            top.offset = i < 2 ? 0 : n / 7 * (uint64_t)i;
            top.limit = 1 + unit_below(&random, 50);
            compare_window(&index, &top, plain, sort(&top, plain));
        }
        made.no_order = false;
        top.from = made.n / 3; /* some of these rows only */
        compare_window(&index, &top, plain, sort(&top, plain));
        top.from = 0;
        condition.high = 1; /* other rows */
        assert_null(hx_top_count(NULL, &index, &top, &n));
        compare_window(&index, &top, plain, sort(&top, plain));
        forget(&index);
    }
    assert_true(made.picks > 0);
}

/* --- stored ends ------------------------------------------------------------------------- */

/* Blocks in any order, by two threads. */
struct gathering {
    hx_ends *ends;
    const uint64_t *value;
    size_t order[BLOCKS], n;
};

static void gather(void *context, unsigned worker)
{
    const struct gathering *gathering = context;
    for (size_t i = worker; i < gathering->n; i += 2) {
        const struct hx_block *block = &made.block[gathering->order[i]];
        size_t half = block->n / 3;
        hx_ends_take(gathering->ends, block->from + half, gathering->value + block->from + half,
                     block->n - half);
        hx_ends_take(gathering->ends, block->from, gathering->value + block->from, half);
    }
}

static void gather_ends(struct unit_random *random, const struct hx_block_index *index,
                        hx_ends *ends, const uint64_t *value)
{
    struct gathering gathering = {.ends = ends, .value = value, .n = index->n};
    for (size_t i = 0; i < index->n; i++)
        gathering.order[i] = i;
    for (size_t i = index->n; i-- > 1;) {
        size_t k = unit_below(random, i + 1), other = gathering.order[i];
        gathering.order[i] = gathering.order[k];
        gathering.order[k] = other;
    }
    hx_parallel(2, gather, &gathering);
    assert_null(hx_ends_list(ends, made.ends));
    hx_ends_destroy(ends);
}

/* Both orders by a column whose ends are stored, without a look at the column. */
static void ends(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("ends");
    static struct plain plain[BLOCKS * HX_BLOCK_ROWS];
    for (size_t round = 0; round < unit_rounds(24); round++) {
        struct hx_block_index index;
        uint32_t rank[RANKS];
        bool nulls = false;
        made.n = HX_ENDS_LEAST + unit_below(&random, HX_BLOCK_ROWS);
        for (int c = 0; c < COLUMNS; c++) {
            made.value[c] = calloc(made.n, sizeof *made.value[c]);
            assert_non_null(made.value[c]);
        }
        fill(&random, made.value[0], made.n);
        struct hx_top top = {.end = made.n};
        top.column = round % 2 ? HX_COL_SIZE : HX_COL_TYPE;
        assert_int_equal(hx_ends_of(HX_PLAIN, top.column, &nulls), top.column);
        for (uint64_t i = 0; i < made.n && nulls && unit_below(&random, 1000); i++)
            made.value[0][i] = unit_below(&random, 3) ? made.value[0][i] : 0;
        if (round % 4 == 0) {
            for (uint64_t i = 0; i < made.n; i++)
                made.value[0][i] %= RANKS + 2;
            for (int i = 0; i < RANKS; i++)
                rank[i] = i ? 1 + (uint32_t)unit_below(&random, RANKS) : 0;
            top.rank = rank;
            top.ranks = RANKS;
        }
        make(&random, &index);
        hx_ends *gathered;
        assert_null(hx_ends_create(nulls, top.rank, top.ranks, &gathered));
        gather_ends(&random, &index, gathered, made.value[0]);
        made.has_ends = made.no_pass = true;
        for (int largest = 0; largest < 2; largest++) {
            top.largest = largest;
            top.zero_last = !largest && nulls;
            size_t n = sort(&top, plain);
            for (int i = 0; i < 8; i++) {
                uint64_t some = unit_below(&random, 2048);
                top.limit = 1 + unit_below(&random, 2048);
                top.offset = i % 2 ? some : n - some;
                compare_window(&index, &top, plain, n);
                compare_place(&random, &index, &top, plain + (i % 2 ? 0 : n - HX_ENDS), HX_ENDS,
                              i % 2 ? 0 : n - HX_ENDS);
            }
        }
        /* of half of the rows, or of fewer than what is stored can tell */
        struct hx_condition condition = {.derived = HX_PLAIN, .column = CONDITION, .high = 1};
        for (uint64_t i = 0; i < made.n; i++)
            made.value[1][i] = unit_below(&random, round % 3 == 2 ? 2000 : 4);
        forget_blocks(&index);
        make(&random, &index);
        top.condition = &condition;
        top.conditions = 1;
        made.no_pass = false;
        made.no_order = round % 3 != 2;
        size_t n = sort(&top, plain);
        for (int i = 0; i < 4; i++) {
            top.limit = 1 + unit_below(&random, 200);
            top.offset = unit_below(&random, 200);
            compare_window(&index, &top, plain, n);
        }
        uint64_t count;
        assert_null(hx_top_count(NULL, &index, &top, &count));
        assert_int_equal(count, n);
        for (int i = 0; i < 4 && n > 1000; i++) {
            top.limit = 1 + unit_below(&random, 200);
            top.offset = n - 1 - unit_below(&random, 200);
            compare_window(&index, &top, plain, n);
        }
        assert_true(made.read_ends);
        made.has_ends = made.read_ends = made.no_order = false;
        forget(&index);
    }
}

/* What hangs directly under the roots, by what it retains: few rows and many, without a look at the
 * columns where one of the ends is asked for. */
static void under_roots(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("under_roots");
    static struct plain plain[BLOCKS * HX_BLOCK_ROWS];
    static uint64_t offered[BLOCKS * HX_BLOCK_ROWS];
    const struct hx_condition conditions[] = {
        {.derived = HX_DOMINATOR}, {.derived = HX_RETAINED, .low = 1, .high = UINT64_MAX}};
    for (size_t round = 0; round < unit_rounds(12); round++) {
        struct hx_block_index index;
        hx_ends *gathered;
        made.n = HX_ENDS_LEAST + unit_below(&random, HX_BLOCK_ROWS);
        for (int c = 0; c < COLUMNS; c++) {
            made.value[c] = calloc(made.n, sizeof *made.value[c]);
            assert_non_null(made.value[c]);
        }
        fill(&random, made.value[0], made.n);
        for (uint64_t i = 0; i < made.n; i++) {
            made.value[0][i] *= unit_below(&random, 4) > 0;
            made.value[1][i] = unit_below(&random, round % 3 == 0   ? 2
                                                   : round % 3 == 1 ? 100
                                                                    : 100000);
            offered[i] = made.value[1][i] ? 0 : made.value[0][i];
        }
        make(&random, &index);
        assert_null(hx_ends_create_some(&gathered));
        gather_ends(&random, &index, gathered, offered);
        made.has_ends = made.no_pass = true;
        struct hx_top top = {.end = made.n, .condition = conditions, .conditions = 2};
        for (int largest = 0; largest < 2; largest++) {
            uint64_t count;
            top.derived = HX_RETAINED;
            top.largest = largest;
            top.zero_last = !largest && unit_below(&random, 2);
            size_t n = sort(&top, plain), end = n < 2000 ? n : 2000;
            for (int i = 0; i < 6; i++) {
                uint64_t some = unit_below(&random, end + 1);
                top.limit = 1 + unit_below(&random, 2000);
                top.offset = i % 2 ? some : n - some;
                compare_window(&index, &top, plain, n);
            }
            top.derived = HX_ADDRESS;
            assert_null(hx_top_count(NULL, &index, &top, &count));
            assert_int_equal(count, n);
        }
        made.no_pass = false;
        top.derived = HX_RETAINED;
        size_t n = sort(&top, plain);
        top.limit = 100;
        top.offset = n / 2;
        compare_window(&index, &top, plain, n);
        made.has_ends = made.read_ends = false;
        forget(&index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(values),
                                       cmocka_unit_test(ends), cmocka_unit_test(under_roots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
