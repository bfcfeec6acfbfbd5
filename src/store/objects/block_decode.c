/* block_decode.c - columns of a block: as they are stored, and what is computed from them. */
#include "store/objects/blocks_private.h"

#include "base/cleanup.h"
#include "store/objects/classes.h"
#include "store/objects/overlay.h"

#include <stdlib.h>
#include <string.h>

/* --- as they are stored ---------------------------------------------------------------------- */

bool hx_column_is_optional(enum hx_family family, int column)
{
    return family == HX_FAMILY_OBJECT ? column >= HX_COL_TYPE : column == HX_COL_EVIDENCE;
}

hx_error *hx_blocks_find_blob(hx_blocks *blocks, int64_t id, const void **ret, size_t *ret_bytes)
{
    for (size_t i = 0; blocks->stash && i < blocks->stash->n; i++) {
        const struct stashed *column = &blocks->stash->column[i];
        *ret = column->there ? column->blob : NULL;
        *ret_bytes = column->bytes;
        if (column->id == id)
            return NULL;
    }
    if (blocks->stash)
        return hx_block_damaged(
            "a column is missing"); /* nobody is told: hx_blocks_begin_aside() */
    if (!blocks->column)
        HX_TRY(hx_overlay_column(blocks->db, "store", &blocks->column));
    sqlite3_reset(blocks->column); /* where it was interrupted it would keep the column it had */
    sqlite3_bind_int64(blocks->column, 1, id);
    int code = sqlite3_step(blocks->column);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? hx_block_damaged("a column is missing")
                                   : hx_db_error(blocks->db, code, "store");
    bool there = sqlite3_column_type(blocks->column, 0) != SQLITE_NULL;
    *ret = there ? sqlite3_column_blob(blocks->column, 0) : NULL;
    *ret_bytes = (size_t)sqlite3_column_bytes(blocks->column, 0);
    return there && !*ret ? hx_block_damaged("an empty column") : NULL;
}

hx_error *hx_blocks_has_column(hx_blocks *blocks, const struct hx_block *block, int column,
                               bool *ret)
{
    const void *blob;
    size_t bytes;
    hx_error *err =
        hx_blocks_find_blob(blocks, block->id * HX_COLUMN_SLOTS + column, &blob, &bytes);
    sqlite3_reset(blocks->column);
    *ret = !err && blob;
    return err;
}

hx_error *hx_blocks_find_planes(hx_blocks *blocks, const struct hx_block *block, int column,
                                bool must, struct hx_planes *ret, bool *ret_there)
{
    const int64_t id = block->id * HX_COLUMN_SLOTS + column;
    const uint16_t *place = NULL;
    const void *blob;
    size_t bytes;
    HX_TRY(hx_blocks_find_blob(blocks, id, &blob, &bytes));
    *ret_there = blob != NULL;
    if (!blob)
        return must ? hx_block_damaged("a column is missing") : NULL;
    bool placed =
        hx_column_is_placed(blob, bytes) && hx_column_may_be_placed(block->index->family, column);
    if (placed && blocks->stash && blocks->stash->place) {
        place = blocks->stash->place->v;
    } else if (placed) {
        const struct hx_decoded *held;
        sqlite3_reset(blocks->column);
        HX_TRY(hx_blocks_column(blocks, block->index, block->from / HX_BLOCK_ROWS, HX_PLACE, 0,
                                &held));
        blocks->place = held;
        place = held->v;
        HX_TRY(hx_blocks_find_blob(blocks, id, &blob, &bytes));
        if (!blob)
            return hx_block_damaged("a column is missing");
    }
    return hx_column_planes(blocks->codec, blob, bytes, place, block->n, ret);
}

void hx_blocks_done_planes(hx_blocks *blocks, enum hx_family family)
{
    const struct hx_decoded *place = blocks->place;
    blocks->place = NULL;
    sqlite3_reset(blocks->column);
    if (family == HX_FAMILY_EDGE && !blocks->pick) /* there are more of them, and fewer columns */
        hx_blocks_release_once(blocks, place);
    else
        hx_blocks_release(blocks, place);
}

/* So many rows of the block are decoded, and that is the number of one of them. */
static size_t decoded_rows(const hx_blocks *blocks, const struct hx_block *block)
{
    return blocks->pick ? blocks->picks : block->n;
}
static uint64_t decoded_row(const hx_blocks *blocks, const struct hx_block *block, size_t i)
{
    return block->from + (blocks->pick ? blocks->pick[i] : i);
}

hx_error *hx_blocks_decode_if_there(hx_blocks *blocks, const struct hx_block *block, int column,
                                    uint64_t *value, bool *ret_there)
{
    struct hx_planes planes;
    bool there = false;
    hx_error *err = hx_blocks_find_planes(blocks, block, column, !ret_there, &planes, &there);
    if (!err && !there)
        memset(value, 0, decoded_rows(blocks, block) * sizeof *value);
    else if (!err && !blocks->pick)
        hx_planes_expand(&planes, 0, block->n, value);
    for (size_t i = 0; !err && there && blocks->pick && i < blocks->picks; i++)
        value[i] = hx_planes_at(&planes, blocks->pick[i]);
    if (ret_there)
        *ret_there = there;
    hx_blocks_done_planes(blocks, block->index->family);
    return err;
}

static hx_error *decode_block(hx_blocks *blocks, const struct hx_block *block, int column,
                              uint64_t *value)
{
    return hx_blocks_decode_if_there(blocks, block, column, value, NULL);
}

/* Turns differences into running sums that begin at `at` and must end at `last`. */
HX_HOT static hx_error *sum_up(uint64_t *value, size_t n, uint64_t at, uint64_t last)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        bad |= __builtin_add_overflow(at, value[i], &at);
        value[i] = at;
    }
    return bad || at != last ? hx_block_damaged("keys of a block") : NULL;
}

#define WIDEN(type)                                                                                \
    for (size_t i = 0; i < n; i++)                                                                 \
        ret[i] = column->base + ((const type *)column->v)[from + i];

HX_HOT static void widen(const struct hx_decoded *column, size_t from, size_t n,
                         uint64_t *restrict ret)
{
    HX_BY_SHIFT(column->shift, WIDEN);
}

/* Sizes of objects: held, unless a stash has them. */
static hx_error *find_sizes(hx_blocks *blocks, const struct hx_block *block,
                            const struct hx_decoded **ret)
{
    *ret = blocks->stash ? blocks->stash->size : NULL;
    return *ret ? NULL
                : hx_blocks_column(blocks, block->index, block->from / HX_BLOCK_ROWS, HX_PLAIN,
                                   HX_COL_SIZE, ret);
}

static void release_sizes(hx_blocks *blocks, const struct hx_decoded *size)
{
    if (!blocks->stash || size != blocks->stash->size) /* else it is the other thread's */
        hx_blocks_release(blocks, size);
}

/* The sizes of objects, which many columns are made with and often are there already. */
HX_HOT static hx_error *decode_sizes(hx_blocks *blocks, const struct hx_block *block,
                                     uint64_t *size)
{
    const struct hx_entry *entry =
        hx_entry_find(blocks, block->id, hx_entry_what(HX_PLAIN, HX_COL_SIZE));
    const struct hx_decoded *known = entry           ? &entry->decoded
                                     : blocks->stash ? blocks->stash->size
                                                     : NULL;
    if (!known)
        return decode_block(blocks, block, HX_COL_SIZE, size);
    for (size_t i = 0; blocks->pick && i < blocks->picks; i++)
        size[i] = hx_decoded_at(known, blocks->pick[i]);
    if (!blocks->pick)
        widen(known, 0, block->n, size);
    return NULL;
}

/* --- rows by class ------------------------------------------------------------------ */

hx_error *hx_blocks_find_objects(hx_blocks *blocks, const struct hx_block *block, size_t number,
                                 enum hx_derived derived, int column, const struct hx_decoded **ret)
{
    const struct hx_block_index *objects;
    for (size_t i = 0; blocks->stash && i < blocks->stash->objects; i++) {
        *ret = blocks->stash->object[i].column;
        if (blocks->stash->object[i].number == number &&
            blocks->stash->object[i].derived == derived)
            return NULL;
    }
    *ret = NULL;
    if (blocks->stash)
        return hx_block_damaged("an edge from nowhere");
    HX_TRY(hx_blocks_index(blocks, block->index->snapshot, HX_FAMILY_OBJECT, &objects));
    hx_error *err = number < objects->n
                        ? hx_blocks_column(blocks, objects, number, derived, column, ret)
                        : hx_block_damaged("an edge from nowhere");
    hx_blocks_index_done(blocks, objects);
    return err;
}

static void release_objects(hx_blocks *blocks, const struct hx_decoded *column)
{
    if (!blocks->stash) /* else it is the other thread's */
        hx_blocks_release(blocks, column);
}

#define CLASSES_OF(type)                                                                           \
    for (size_t from = 0, end; from < size->n; from = end) {                                       \
        const type *v = size->v, base = (type)size->base;                                          \
        type all = 0;                                                                              \
        end = size->n - from < PART ? size->n : from + PART;                                       \
        for (size_t i = from; i < end; i++) {                                                      \
            const type bytes = (type)(v[i] + base);                                                \
            class[i] = (uint16_t)((bytes & (EXACT - 1)) / 8 << 4);                                 \
            all |= v[i] | bytes;                                                                   \
        }                                                                                          \
        for (size_t i = from; (all | size->base) >= EXACT && i < end; i++)                         \
            class[i] = hx_class_of_size(hx_decoded_at(size, i));                                   \
    }

/* Few rows are of a size that is not told apart by words: the others need no branch. */
HX_HOT static void classes_of_sizes(const struct hx_decoded *size, uint16_t *class)
{
    enum { PART = 64, EXACT = 8 * HX_CLASS_EXACT };
    if (size->shift == 1)
        CLASSES_OF(uint16_t)
    else if (size->shift == 2)
        CLASSES_OF(uint32_t)
    else
        for (size_t i = 0; i < size->n; i++)
            class[i] = hx_class_of_size(hx_decoded_at(size, i));
}

HX_HOT static void add_count(const uint8_t *count, size_t n, unsigned shift, uint16_t *class)
{
    for (size_t i = 0; i < n; i++)
        class[i] += (uint16_t)(count[i] << shift);
}

/* Adds what one column, of references in or out, says of the classes. Clobbers no value that is
 * being made: it may be that of a column that lies by class. */
static hx_error *classify_by(hx_blocks *blocks, const struct hx_block *block, int column,
                             uint16_t *class)
{
    uint8_t count[4096];
    struct hx_planes planes;
    bool there;
    hx_error *err = hx_blocks_find_planes(blocks, block, column, true, &planes, &there);
    for (size_t from = 0, n; !err && from < block->n; from += n) {
        n = block->n - from < sizeof count ? block->n - from : sizeof count;
        hx_planes_clip(&planes, from, n, HX_CLASS_COUNTS, count);
        add_count(count, n, column == HX_COL_OUT ? 2 : 0, class + from);
    }
    hx_blocks_done_planes(blocks, block->index->family);
    return err;
}

/* Sizes stay: what lies by class often is made with them, too. */
static hx_error *classify_objects(hx_blocks *blocks, const struct hx_block *block, uint16_t *class)
{
    const struct hx_decoded *size;
    HX_TRY(find_sizes(blocks, block, &size));
    classes_of_sizes(size, class);
    release_sizes(blocks, size);
    HX_TRY(classify_by(blocks, block, HX_COL_IN, class));
    return classify_by(blocks, block, HX_COL_OUT, class);
}

/* Most objects have few references, and how many is hard to foresee: FEW edges are written for
 * each, and the next object's over those that are too many. Ends before an object that has more,
 * and where the block might end or has ended. Returns how many objects were gone over. */
#define SPREAD_FEW(to)                                                                             \
    for (; k < out->n && i + FEW <= room && counts[k] <= most; k++) {                              \
        for (size_t nth = 0; nth < FEW; nth++)                                                     \
            to;                                                                                    \
        i += out->base + counts[k];                                                                \
    }

HX_HOT static size_t spread_few(const struct hx_decoded *out, const struct hx_decoded *classes,
                                uint64_t source, size_t room, size_t *at, uint64_t *value,
                                uint16_t *class)
{
    enum { FEW = 4 };
    const uint8_t *counts = out->v;
    const size_t from = source % HX_BLOCK_ROWS;
    size_t k = from, i = *at;
    if (out->shift || out->base > FEW || (class && (classes->shift != 1 || classes->base)))
        return 0;
    const uint8_t most = (uint8_t)(FEW - out->base);
    if (value) {
        SPREAD_FEW(value[i + nth] = source + (k - from))
    } else {
        const uint16_t *of = classes->v;
        SPREAD_FEW(class[i + nth] = hx_edge_class_of(of[k], nth))
    }
    *at = i;
    return k - from;
}

/* Edges lie by source: goes over the objects [*source, ...) of one block, those from row *at on
 * being of *source and those behind it. Leaves the indexes of
 * the sources, or the classes of the edges. */
HX_HOT static bool spread_part(const struct hx_block *block, const struct hx_decoded *out,
                               const struct hx_decoded *classes, uint64_t *source, uint64_t *at,
                               uint64_t *value, uint16_t *class)
{
    size_t i = (size_t)*at;
    bool first = i == 0;
    const bool last = block + 1 == block->index->block + block->index->n;
    for (size_t k = *source % HX_BLOCK_ROWS; k < out->n && i < block->n; k++, ++*source) {
        size_t few = first ? 0 : spread_few(out, classes, *source, block->n, &i, value, class);
        *source += few;
        k += few;
        if (k == out->n || i == block->n)
            break;
        uint64_t n = hx_decoded_at(out, k);
        if (first && n <= block->bytes)
            return false;
        n -= first ? block->bytes : 0;
        first = false;
        if (n > block->n - i && last)
            return false; /* there are no more edges */
        n = n < block->n - i ? n : block->n - i;
        for (uint64_t nth = 0; nth < n; nth++, i++) {
            if (value)
                value[i] = *source;
            else
                class[i] = hx_edge_class_of((uint16_t)hx_decoded_at(classes, k), nth);
        }
    }
    *at = i;
    return true;
}

static hx_error *spread_sources(hx_blocks *blocks, const struct hx_block *block, uint64_t *value,
                                uint16_t *class)
{
    uint64_t source = block->first_key, at = 0;
    bool good = block->from || !block->bytes;
    hx_error *err = NULL;
    while (!err && good && at < block->n && source <= block->last_key) {
        const struct hx_decoded *out = NULL, *classes = NULL;
        size_t number = source / HX_BLOCK_ROWS;
        err = hx_blocks_find_objects(blocks, block, number, HX_PLAIN, HX_COL_OUT, &out);
        if (!err && class)
            err = hx_blocks_find_objects(blocks, block, number, HX_CLASS, 0, &classes);
        if (!err)
            good = spread_part(block, out, classes, &source, &at, value, class) &&
                   (at == block->n || source % HX_BLOCK_ROWS == 0);
        release_objects(blocks, out);
        release_objects(blocks, classes);
    }
    if (!err && (!good || at != block->n || source != block->last_key + 1))
        err = hx_block_damaged("sources of edges");
    return err;
}

hx_error *hx_blocks_make_classes(hx_blocks *blocks, const struct hx_block *block, bool places,
                                 struct hx_entry **ret)
{
    HX_TRY(hx_entry_make(blocks, 0, 1, block->n, ret));
    uint16_t *class = (uint16_t *)(*ret + 1);
    hx_error *err = block->index->family == HX_FAMILY_OBJECT
                        ? classify_objects(blocks, block, class)
                        : spread_sources(blocks, block, NULL, class);
    if (!err && places)
        err = hx_classes_place(class, block->n, class);
    if (err)
        free(hx_steal(*ret));
    return err;
}

static hx_error *derive_sources(hx_blocks *blocks, const struct hx_block *block, uint64_t *value)
{
    bool there;
    HX_TRY(hx_blocks_has_column(blocks, block, HX_COL_SOURCE, &there));
    if (!there)
        return spread_sources(blocks, block, value, NULL);
    HX_TRY(decode_block(blocks, block, HX_COL_SOURCE, value));
    return sum_up(value, block->n, block->first_key, block->last_key);
}

/* --- what is made of columns ---------------------------------------------------------- */

HX_HOT static hx_error *derive_addresses(hx_blocks *blocks, const struct hx_block *block)
{
    uint64_t *gap = blocks->value, *size = blocks->other;
    HX_TRY(decode_block(blocks, block, HX_COL_GAP, gap));
    HX_TRY(decode_sizes(blocks, block, size));
    for (size_t i = block->n; i-- > 1;)
        if (__builtin_add_overflow(gap[i], size[i - 1], &gap[i]))
            return hx_block_damaged("addresses");
    return sum_up(gap, block->n, block->first_key, block->last_key);
}

/* Targets stay below `objects`: rows are never trusted as indexes before. */
static hx_error *check_targets(const uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value[i] >= HX_NO_OBJ)
            return hx_block_damaged("an edge to nowhere");
    return NULL;
}

/* Puts a part of targets in the place of their sources, all of which are below HX_NO_OBJ. */
HX_HOT static bool add_sources(const uint64_t *apart, size_t n, uint64_t *value)
{
    uint64_t high = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t target = value[i] + (uint64_t)hx_unzigzag(apart[i]);
        high |= target | (target + 1);
        value[i] = target;
    }
    return high <= HX_NO_OBJ;
}

static hx_error *derive_targets(hx_blocks *blocks, const struct hx_block *block)
{
    enum { PART = 512 };
    struct hx_planes planes;
    uint64_t apart[PART];
    bool there, good = true;
    HX_TRY(derive_sources(blocks, block, blocks->value));
    hx_error *err = hx_blocks_find_planes(blocks, block, HX_COL_TARGET, true, &planes, &there);
    if (!err)
        hx_planes_join(&planes);
    for (size_t from = 0, n; !err && from < block->n; from += n) {
        n = block->n - from < PART ? block->n - from : PART;
        hx_planes_expand(&planes, from, n, apart);
        good &= add_sources(apart, n, blocks->value + from);
    }
    hx_blocks_done_planes(blocks, block->index->family);
    return good ? err : hx_block_damaged("an edge to nowhere");
}

HX_HOT static hx_error *derive_plus_one(hx_blocks *blocks, const struct hx_block *block, int column)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value;
    bool there, bad = false;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, column, value, &there));
    for (size_t i = 0; there && i < n; i++)
        bad |= ++value[i] == 0;
    return bad ? hx_block_damaged("a number") : NULL;
}

/* From whole stacks to what they are attributed to now. */
static hx_error *derive_ccs(hx_blocks *blocks, const struct hx_block *block)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value;
    bool there;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_STACK, value, &there));
    if (there && !blocks->stacks)
        HX_TRY(hx_stack_map_load(blocks->db, &blocks->stacks));
    for (size_t i = 0; there && i < n; i++)
        value[i] = hx_stack_map_at(blocks->stacks, value[i]);
    return NULL;
}

/* From how far the dominators of rows from `row` on lie from them to their indexes, plus 1. An
 * object is not its own dominator: 0 is free for none. */
HX_HOT static bool find_dominators(uint64_t *value, size_t n, uint64_t row)
{
    uint64_t high = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t some = 0 - ((value[i] | (0 - value[i])) >> 63); /* all bits, or none */
        const uint64_t dominator = row + i + (uint64_t)hx_unzigzag(value[i]);
        high |= some & (dominator | (dominator + 1));
        value[i] = some & (dominator + 1);
    }
    return high <= HX_NO_OBJ;
}

static hx_error *derive_dominators(hx_blocks *blocks, const struct hx_block *block)
{
    uint64_t *value = blocks->value;
    bool there, good = true;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_DOMINATOR, value, &there));
    if (!blocks->pick)
        good = find_dominators(value, block->n, block->from);
    for (size_t i = 0; blocks->pick && i < blocks->picks; i++)
        good &= find_dominators(value + i, 1, decoded_row(blocks, block, i));
    return good ? NULL : hx_block_damaged("a dominator that is not there");
}

/* Retained bytes over all edges, in blocks->value, as stored before schema 9. */
HX_HOT static hx_error *derive_retained_before(hx_blocks *blocks, const struct hx_block *block)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value, *size = blocks->other;
    bool there, bad = false;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_RETAINED, value, &there));
    if (!there)
        return NULL;
    HX_TRY(decode_sizes(blocks, block, size));
    for (size_t i = 0; i < n; i++)
        if (value[i])
            bad |= __builtin_add_overflow(value[i], size[i], &value[i]);
    return bad ? hx_block_damaged("a retained size") : NULL;
}

/* Retained bytes, plus 1, of rows: 0 where no object is. Of numbers below 1 << 31, as most are,
 * products fit. */
HX_HOT static bool retained_of_small(const uint64_t *rest, const uint64_t *size,
                                     const uint64_t *objects, size_t n, uint64_t *ret)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t none = 0 - ((objects[i] - 1) >> 63);
        const uint64_t bytes =
            (uint64_t)(uint32_t)objects[i] * (uint32_t)size[i] + (uint64_t)hx_unzigzag(rest[i]);
        wrong |= (bytes & (uint64_t)1 << 63) | (none & rest[i]);
        ret[i] = ~none & (bytes + 1);
    }
    return !wrong;
}

HX_HOT static bool retained_of(const uint64_t *rest, const uint64_t *size, const uint64_t *objects,
                               size_t n, uint64_t *ret)
{
    bool bad = false;
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= size[i] | objects[i];
    if (all <= INT32_MAX)
        return retained_of_small(rest, size, objects, n, ret);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        bad |= __builtin_mul_overflow(objects[i], size[i], &bytes);
        bytes += (uint64_t)hx_unzigzag(rest[i]);
        bad |= bytes > INT64_MAX || (!objects[i] && rest[i]);
        ret[i] = objects[i] ? bytes + 1 : 0;
    }
    return !bad;
}

/* The same now, of the rows that are picked. */
static hx_error *derive_picked(hx_blocks *blocks, const struct hx_block *block)
{
    uint64_t *value = blocks->value, *size = blocks->other, *objects = blocks->spare;
    bool there;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_RETAINED_REST, value, &there));
    if (!there)
        return derive_retained_before(blocks, block);
    HX_TRY(decode_sizes(blocks, block, size));
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_RETAINED_OBJECTS, objects, &there));
    return retained_of(value, size, objects, blocks->picks, value)
               ? NULL
               : hx_block_damaged("a retained size");
}

/* The same of all rows: three columns are put together part by part, in the caches near by. */
static hx_error *derive_retained(hx_blocks *blocks, const struct hx_block *block)
{
    enum { PART = 256 };
    struct hx_planes rest;
    const struct hx_decoded *size = NULL, *objects = NULL;
    const size_t number = block->from / HX_BLOCK_ROWS;
    uint64_t part[3][PART];
    bool there = false, good = true;
    if (blocks->pick)
        return derive_picked(blocks, block);
    hx_error *err = find_sizes(blocks, block, &size);
    if (!err)
        err = hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_RETAINED_OBJECTS,
                               &objects);
    if (!err)
        err = hx_blocks_find_planes(blocks, block, HX_COL_RETAINED_REST, false, &rest, &there);
    if (!err && there)
        hx_planes_join(&rest);
    for (size_t from = 0, n; !err && there && from < block->n; from += n) {
        n = block->n - from < PART ? block->n - from : PART;
        hx_planes_expand(&rest, from, n, part[0]);
        widen(size, from, n, part[1]);
        widen(objects, from, n, part[2]);
        good &= retained_of(part[0], part[1], part[2], n, blocks->value + from);
    }
    hx_blocks_done_planes(blocks, block->index->family);
    release_sizes(blocks, size);
    hx_blocks_release_once(blocks, objects);
    if (!err && !there)
        return derive_retained_before(blocks, block);
    return good ? err : hx_block_damaged("a retained size");
}

/* Retained figures over sure edges, which are stored as differences from those over all. */
HX_HOT static hx_error *derive_sure(hx_blocks *blocks, const struct hx_block *block, bool objects)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value, *sure = blocks->other;
    const int column = objects ? HX_COL_SURE_OBJECTS : HX_COL_SURE;
    bool there, bad = false;
    HX_TRY(hx_blocks_has_column(blocks, block, column, &there));
    if (!there) { /* nobody asked for them: most stores have none */
        memset(value, 0, n * sizeof *value);
        return NULL;
    }
    if (objects) { /* plus 1, as derive_retained() gives it; all 0 stay 0 */
        HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_RETAINED_OBJECTS, value, &there));
        for (size_t i = 0; i < n; i++)
            bad |= value[i] && ++value[i] == 0;
    } else {
        HX_TRY(derive_retained(blocks, block));
    }
    HX_TRY(hx_blocks_decode_if_there(blocks, block, column, sure, &there));
    for (size_t i = 0; i < n; i++) {
        if (!sure[i]) {
            value[i] = 0;
            continue;
        }
        bad |= !value[i];
        value[i] += (uint64_t)hx_unzigzag(sure[i] - 1);
        bad |= value[i] == 0 || value[i] > INT64_MAX;
    }
    return bad ? hx_block_damaged("a retained size") : NULL;
}

/* The rules that the snapshot was made by. */
static hx_error *find_rules(hx_blocks *blocks, int64_t snapshot)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    blocks->rules.off = 0;
    blocks->ruled = snapshot;
    if (sqlite3_table_column_metadata(blocks->db, NULL, "hx_census", "rules", NULL, NULL, NULL,
                                      NULL, NULL) != SQLITE_OK)
        return NULL;
    HX_TRY(
        hx_db_prepare(blocks->db, "store", "SELECT rules FROM hx_census WHERE snapshot = ?", &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(blocks->db, code, "store");
    if (!text || !*text)
        return NULL;
    hx_error *err = hx_rules_parse(text, &blocks->rules.off);
    bool bad = err && err->kind == HX_E_USAGE;
    if (bad)
        hx_error_free(hx_steal(err));
    return bad ? hx_block_damaged("a rule that is not there") : err;
}

static hx_error *derive_ranks(hx_blocks *blocks, int64_t snapshot, const struct hx_block *block)
{
    uint64_t *value = blocks->value;
    bool there, bad = false;
    HX_TRY(hx_blocks_decode_if_there(blocks, block, HX_COL_EVIDENCE, value, &there));
    if (there && blocks->ruled != snapshot)
        HX_TRY(find_rules(blocks, snapshot));
    for (size_t i = 0; there && i < decoded_rows(blocks, block); i++) {
        bad |= value[i] >= HX_RULE_COUNT;
        value[i] = 1 + hx_word_rank(HX_EVIDENCE(value[i] & 63, 0), &blocks->rules);
    }
    return bad ? hx_block_damaged("a rule that is not there") : NULL;
}

hx_error *hx_blocks_derive(hx_blocks *blocks, const struct hx_block_index *index,
                           const struct hx_block *block, enum hx_derived derived, int column)
{
    enum hx_family family = index->family;
    uint64_t *value = blocks->value, at = 0;
    bool there;
    switch (derived) {
    case HX_PLAIN:
        return hx_blocks_decode_if_there(blocks, block, column, value,
                                         hx_column_is_optional(family, column) ? &there : NULL);
    case HX_PLUS_ONE:
        return derive_plus_one(blocks, block, column);
    case HX_RANK:
        return derive_ranks(blocks, index->snapshot, block);
    case HX_CCS:
        return derive_ccs(blocks, block);
    case HX_DOMINATOR:
        return derive_dominators(blocks, block);
    case HX_RETAINED:
        return derive_retained(blocks, block);
    case HX_SURE:
    case HX_SURE_OBJECTS:
        return derive_sure(blocks, block, derived == HX_SURE_OBJECTS);
    case HX_ADDRESS:
        return derive_addresses(blocks, block);
    case HX_SOURCE_OBJ:
        HX_TRY(derive_sources(blocks, block, value));
        return check_targets(value, block->n);
    case HX_TARGET_OBJ:
        return derive_targets(blocks, block);
    case HX_ROOT_NUMBER:
        HX_TRY(decode_block(blocks, block, HX_COL_ROOT, value));
        return sum_up(value, block->n, block->first_key, block->last_key);
    case HX_ROOT_TARGET_OBJ:
    case HX_ROOT_WORD:
        HX_TRY(decode_block(blocks, block,
                            derived == HX_ROOT_WORD ? HX_COL_WORD : HX_COL_ROOT_TARGET, value));
        for (size_t i = 0; i < block->n; i++)
            value[i] = at += (uint64_t)hx_unzigzag(value[i]);
        return derived == HX_ROOT_WORD ? NULL : check_targets(value, block->n);
    case HX_CLASS:
    case HX_PLACE:
    case HX_STEPS:
        break; /* in no need of 64 bits a value */
    }
    return hx_block_damaged("unknown column");
}
