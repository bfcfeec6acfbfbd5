/* pass.c - passes over the rows that conditions let through. */
#include "store/objects/pass.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "store/objects/column_scan.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = HX_PICKED_MAX }; /* rows of a block at most that are read one by one */

struct pass {
    struct hx_part part;
    const struct hx_passed *passed; /* which rows pass; NULL: to be tested */
    struct hx_passed found;         /* the same of this pass; empty: not kept */
    struct hx_decoded few;          /* the column where few rows pass: others are anything */
    uint64_t few_value[HX_BLOCK_ROWS];
    uint64_t value[FEW];           /* of these rows */
    uint8_t tested[HX_BLOCK_ROWS]; /* 1 for each row that passes */
    uint16_t at[HX_BLOCK_ROWS];    /* then: which do */
    uint16_t next[FEW];            /* the same of a block that is read aside */
    const uint64_t *known;         /* values of all rows that pass; NULL: to be read */
    uint64_t *read;                /* the same while they are, to be kept; NULL: they are not */
    size_t gone;                   /* so many of these rows came in blocks before */
};

/* Columns of figures up to those of the whole heap: all of them would push all others out of what
 * is kept. Once it is known which rows pass, only theirs are wanted. */
static bool is_wide(enum hx_derived derived)
{
    return derived == HX_RETAINED || derived == HX_SURE || derived == HX_SURE_OBJECTS;
}

static hx_error *test_rows(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           struct pass *pass)
{
    const struct hx_top *top = pass->part.top;
    memset(pass->tested, 1, index->block[block].n);
    for (size_t c = 0; c < top->conditions; c++) {
        const struct hx_condition *condition = &top->condition[c];
        const struct hx_decoded *column;
        if (hx_condition_is_any(condition))
            continue;
        HX_TRY(
            hx_blocks_column(blocks, index, block, condition->derived, condition->column, &column));
        hx_scan_strike(column, condition->low, condition->high, pass->part.from, pass->part.end,
                       pass->tested);
        if (pass->found.bit && is_wide(condition->derived))
            hx_blocks_release_once(blocks, column);
        else
            hx_blocks_release(blocks, column);
        if (!memchr(pass->tested + pass->part.from, 1, pass->part.end - pass->part.from)) {
            pass->part.end = pass->part.from;
            return NULL;
        }
    }
    if (pass->found.bit)
        hx_passed_take(&pass->found, pass->part.row, pass->tested, pass->part.end);
    return NULL;
}

static size_t count_bytes(const struct pass *pass)
{
    uint32_t n = 0;
    for (size_t i = pass->part.from; i < pass->part.end; i++)
        n += pass->tested[i];
    return n;
}

/* From bytes to rows. */
HX_HOT static size_t list_rows(const struct pass *pass, uint16_t *at)
{
    size_t n = 0;
    for (size_t i = pass->part.from; i < pass->part.end; i++) {
        at[n] = (uint16_t)i;
        n += pass->tested[i];
    }
    return n;
}

static hx_error *fill_part(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           struct pass *pass, enum hx_wants wants)
{
    const struct hx_top *top = pass->part.top;
    const struct hx_block *where = &index->block[block];
    pass->part.row = where->from;
    pass->part.from = top->from > where->from ? (size_t)(top->from - where->from) : 0;
    pass->part.end =
        top->end < where->from + where->n ? (size_t)(top->end - where->from) : where->n;
    if (pass->part.all)
        return NULL;
    if (pass->passed)
        pass->part.n =
            hx_passed_list(pass->passed, where->from, pass->part.from, pass->part.end, pass->at);
    else
        HX_TRY(test_rows(blocks, index, block, pass));
    if (!pass->passed)
        pass->part.n = wants == HX_WANTS_COUNT ? count_bytes(pass) : list_rows(pass, pass->at);
    pass->part.end = pass->part.n ? pass->part.end : pass->part.from;
    return NULL;
}

/* So many rows of a block are few. */
static size_t few_of(const struct hx_top *top)
{
    return is_wide(top->derived) ? FEW : FEW / 16;
}

/* Reads the column that rows are ordered by, of few rows without decoding all. */
static hx_error *read_column(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                             struct pass *pass, const struct hx_decoded **ret_held)
{
    const struct hx_top *top = pass->part.top;
    const uint16_t *at = pass->at;
    const uint64_t *value = pass->known ? pass->known + pass->gone : pass->value;
    uint64_t *read = pass->read ? pass->read + pass->gone : NULL;
    const size_t n = pass->part.n;
    pass->gone += n;
    if (pass->part.all || (n > few_of(top) && !pass->known)) {
        HX_TRY(hx_blocks_column(blocks, index, block, top->derived, top->column, ret_held));
        pass->part.column = *ret_held;
        for (size_t i = 0; read && i < n; i++)
            read[i] = hx_decoded_at(pass->part.column, at[i]);
        return NULL;
    }
    if (!pass->known)
        HX_TRY(hx_blocks_pick(blocks, index, block, top->derived, top->column, at, n, pass->value));
    if (read)
        memcpy(read, value, n * sizeof *read);
    for (size_t i = 0; i < n; i++)
        pass->few_value[at[i]] = value[i];
    pass->few = (struct hx_decoded){.shift = 3, .n = index->block[block].n, .v = pass->few_value};
    pass->part.column = &pass->few;
    return NULL;
}

/* Begins to read what a pass will look at in a block; `values`: of what it orders by, too, whose
 * column is wanted `whole` unless few rows are known to pass. */
static void begin_aside(hx_blocks *blocks, const struct hx_block_index *index, struct pass *pass,
                        size_t block, bool values, bool whole)
{
    const struct hx_top *top = pass->part.top;
    struct hx_wanted wanted[HX_WANTED_MAX];
    const uint64_t from = block * (uint64_t)HX_BLOCK_ROWS;
    if (from >= top->end || pass->known)
        return;
    const size_t rows = index->block[block].n;
    const uint64_t end = from + rows < top->end ? from + rows : top->end;
    const uint64_t passed = pass->passed ? hx_passed_count(pass->passed, from, end) : 0;
    size_t n = 0;
    if (pass->passed && values && passed && passed <= few_of(top)) {
        n = hx_passed_list(pass->passed, from, 0, (size_t)(end - from), pass->next);
        hx_blocks_begin_pick_aside(blocks, index, block, top->derived, top->column, pass->next, n);
    }
    if (pass->passed && (!passed || n))
        return;
    for (size_t c = 0; c < top->conditions && n < HX_WANTED_MAX; c++)
        if (!pass->passed || hx_condition_is_any(&top->condition[c]))
            wanted[n++] = (struct hx_wanted){top->condition[c].derived, top->condition[c].column};
    if (values && (whole || pass->passed) && n < HX_WANTED_MAX)
        wanted[n++] = (struct hx_wanted){top->derived, top->column};
    hx_blocks_begin_aside(blocks, index, block, wanted, n);
}

/* Are all rows let through? If not, they may have been found before, or are found now. */
static void begin_part(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, struct pass *pass)
{
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    pass->part.top = top;
    pass->part.all = true;
    for (size_t c = 0; c < top->conditions; c++)
        pass->part.all &= hx_condition_is_any(&top->condition[c]);
    if (pass->part.all || !sets)
        return;
    pass->passed = hx_passed_find(sets, index, top);
    if (!pass->passed)
        hx_passed_begin(index, top, &pass->found);
}

/* Values of the rows that pass; NULL: they are not known. */
static const uint64_t *values_of_passed(const struct hx_top *top, const struct hx_passed *passed)
{
    return passed && passed->derived == top->derived && passed->column == top->column
               ? passed->value
               : NULL;
}

/* So many of them are to be kept once they are read; 0: none. Of other columns they are read as
 * fast. */
static size_t values_to_keep(const struct hx_block_index *index, const struct hx_top *top,
                             const struct hx_passed *passed)
{
    if (!passed || !is_wide(top->derived) || top->from || top->end != index->rows)
        return 0;
    const uint64_t n = hx_passed_count(passed, 0, index->rows);
    return n <= HX_PASSED_VALUES ? (size_t)n : 0;
}

static void begin_values(const struct hx_block_index *index, struct pass *pass)
{
    pass->known = pass->part.top->from ? NULL : values_of_passed(pass->part.top, pass->passed);
    const size_t n = pass->known ? 0 : values_to_keep(index, pass->part.top, pass->passed);
    if (n)
        pass->read = malloc(n * sizeof *pass->read);
}

hx_error *hx_pass_over(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, enum hx_wants wants, hx_part_fn *look,
                       void *context)
{
    struct pass *pass = calloc(1, sizeof *pass);
    HX_NEED(pass);
    pass->part.at = pass->at;
    begin_part(blocks, index, top, pass);
    hx_error *err = NULL;
    const bool with_column = wants == HX_WANTS_VALUES;
    bool whole = with_column && pass->part.all;
    if (with_column)
        begin_values(index, pass);
    const size_t first = top->from / HX_BLOCK_ROWS, asides = hx_blocks_asides();
    for (size_t block = first; block * (uint64_t)HX_BLOCK_ROWS < top->end && !err; block++) {
        if (asides && ((block - first) % (asides + 1) == 1 || block == first)) {
            const size_t next = block == first ? block + 1 : block + asides + 1;
            hx_blocks_end_asides(blocks);
            for (size_t i = 0; i < asides; i++)
                begin_aside(blocks, index, pass, next + i, with_column, whole);
        }
        err = hx_blocks_interrupted(blocks);
        if (!err)
            err = fill_part(blocks, index, block, pass, wants);
        if (err || pass->part.from == pass->part.end)
            continue;
        const struct hx_decoded *held = NULL;
        if (with_column)
            err = read_column(blocks, index, block, pass, &held);
        whole = held != NULL;
        if (!err)
            err = look(&pass->part, context);
        hx_blocks_release(blocks, held);
    }
    hx_blocks_end_asides(blocks);
    if (!err && pass->found.bit)
        hx_passed_keep(hx_tops_passed(blocks), &pass->found);
    hx_passed_free(&pass->found);
    if (!err && pass->read)
        hx_passed_keep_values(hx_tops_passed(blocks), pass->passed, top->derived, top->column,
                              hx_steal(pass->read));
    free(pass->read);
    free(pass);
    return err;
}

static hx_error *look_at_nothing(const struct hx_part *part, void *context)
{
    (void)part, (void)context;
    return NULL;
}

hx_error *hx_pass_values(hx_blocks *blocks, const struct hx_block_index *index,
                         const struct hx_top *top, const uint64_t **ret, size_t *ret_n)
{
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    const struct hx_passed *passed = sets ? hx_passed_find(sets, index, top) : NULL;
    *ret = NULL;
    *ret_n = values_to_keep(index, top, passed);
    if (!*ret_n)
        return NULL;
    if (!values_of_passed(top, passed))
        HX_TRY(hx_pass_over(blocks, index, top, HX_WANTS_VALUES, look_at_nothing, NULL));
    *ret = values_of_passed(top, passed);
    return NULL;
}
