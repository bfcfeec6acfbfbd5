/* blocks.c - index and cache of blocks, and of the names that their columns speak of. */
#include "store/objects/blocks.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/parallel.h"
#include "base/vec.h"
#include "model/graph.h"
#include "store/cost/stack_map.h"
#include "store/db.h"
#include "store/objects/classes.h"
#include "store/objects/ends.h"
#include "store/objects/overlay.h"
#include "store/objects/top.h"
#include "traverse/hold/rules.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bits of a block's sieve: as many rows set an eighth of them. All sieves of an index together have
 * a limit; blocks beyond it have none. */
enum { SIEVE_BITS = 1 << 19, SIEVE_BYTES = 26 << 20 };

/* Decoded columns to keep. The addresses and sizes of 10 million objects are 60 MB, where their
 * rows lie 20. */
enum { CACHE_BYTES = 68 << 20, NAME_BYTES = 64 << 20, SLOTS = 1 << 12 };

/* Of these, sizes, and where rows lie, which is made of three columns: most others are made with
 * them, so up to that many bytes stay when others go. */
enum { STAYING_BYTES = 48 << 20 };

/* Of these, columns that nobody looks at. */
enum { ALOOF_BYTES = 8 << 20 };

/* Indexes and lists of names to keep: they are looked for one after the other, and a store may have
 * a snapshot for each second of a day. */
enum { KEPT_LISTS = 256 };

/* So many rows lie between two whose addresses are kept. */
enum { STEP = 256 };

struct entry {
    struct hx_decoded decoded; /* first: the caller's pointer is the entry's */
    int64_t snapshot, id;      /* of the block */
    unsigned what;             /* derived << 8 | column */
    unsigned users;
    bool again;     /* it was asked for more than once */
    bool ahead;     /* it was decoded aside, and nobody has asked for it yet */
    bool aloof;     /* it was decoded aloof */
    bool forgotten; /* in no list any more; the last user frees it */
    size_t bytes;
    struct entry *next;          /* in the slot */
    struct entry *newer, *older; /* by use */
};

struct named {
    int64_t snapshot;
    enum hx_name_list list;
    hx_names *names;
};

struct hx_blocks {
    sqlite3 *db;
    unsigned refs;
    unsigned version; /* of the file when it was last looked at */
    sqlite3_stmt *column;
    hx_codec *codec;
    HX_VEC(struct hx_block_index *) index;
    HX_VEC(struct named) named;
    size_t name_bytes, last_named; /* the index in `named` that was asked for last */
    hx_stack_map *stacks;          /* NULL: not asked for yet */
    int64_t ruled;                 /* the snapshot whose rules these are; 0: none */
    struct hx_hold_options rules;
    struct entry *slot[SLOTS];
    struct entry *newest, *oldest;
    size_t bytes;
    struct hx_kept_tops *tops;
    struct hx_window *window;
    struct hx_found found;
    size_t sieves;
    atomic_bool interrupted;
    bool aloof;           /* what is decoded now nobody looks at: */
    size_t aloof_bytes;   /* in entries that were decoded so */
    size_t staying_bytes; /* in entries that stay when others go */
    const uint16_t *pick; /* the rows of the block that are decoded; NULL: all */
    size_t picks;
    const struct hx_decoded *place; /* held: where rows lie of the planes that were found */
    struct aside *aside;            /* NULL: nothing was decoded aside yet */
    struct asked { /* for one row of a block: it costs less than all, for a while */
        int64_t id;
        unsigned what, times;
    } asked[1024];
    const struct stash *stash; /* where columns lie that are decoded aside; NULL: in the store */
    uint64_t value[HX_BLOCK_ROWS], other[HX_BLOCK_ROWS], spare[HX_BLOCK_ROWS];
};

/* Columns of one block as they are stored, copied for another thread. */
enum { STASHED = 4 * HX_WANTED_MAX, SOURCES_MAX = 4 };
struct stash {
    struct stashed {
        int64_t id; /* as in hx_column */
        void *blob; /* owned */
        size_t bytes, room;
        bool there;
    } column[STASHED];
    size_t n;
    const struct hx_decoded *place; /* where rows lie by class; NULL: not known yet */
    struct {                        /* of edges: columns of the objects that they come from, held */
        size_t number;              /* of the block */
        enum hx_derived derived;
        const struct hx_decoded *column;
    } object[2 * SOURCES_MAX];
    size_t objects;
};

/* Decoding on another thread: by blocks of its own, whose entries are then moved. */
struct aside {
    struct hx_aside thread;
    hx_blocks *blocks;
    struct stash stash;
    const struct hx_block_index *index;
    size_t block;
    struct hx_wanted wanted[HX_WANTED_MAX];
    size_t n;
    bool begun;
};

void hx_found_begin(struct hx_found *found, int64_t snapshot, uint64_t target)
{
    found->snapshot = snapshot;
    found->target = target;
    found->end = 0;
    found->row.n = 0;
    found->begun++;
}

static hx_error *damaged_block(const char *how)
{
    return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                        "the store is damaged (%s)", how);
}

/* --- the cache --------------------------------------------------------------------- */

static struct entry **cache_slot(hx_blocks *blocks, int64_t id, unsigned what)
{
    uint64_t h = ((uint64_t)id * 64 + what) * 0x9e3779b97f4a7c15u;
    return &blocks->slot[h >> 52];
}

static void unlink_use(hx_blocks *blocks, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &blocks->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &blocks->oldest) = entry->newer;
}

static void link_newest(hx_blocks *blocks, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = blocks->newest;
    *(blocks->newest ? &blocks->newest->newer : &blocks->oldest) = entry;
    blocks->newest = entry;
}

static bool is_staying(const struct entry *entry)
{
    return entry->what >> 8 == HX_PLACE || entry->what == (HX_PLAIN << 8 | HX_COL_SIZE);
}

static void unlink_from_slot(hx_blocks *blocks, struct entry *entry)
{
    struct entry **link = cache_slot(blocks, entry->id, entry->what);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    blocks->bytes -= entry->bytes;
    blocks->aloof_bytes -= entry->aloof ? entry->bytes : 0;
    blocks->staying_bytes -= is_staying(entry) ? entry->bytes : 0;
}

static void drop(hx_blocks *blocks, struct entry *entry)
{
    unlink_from_slot(blocks, entry);
    unlink_use(blocks, entry);
    entry->forgotten = true;
    if (!entry->users)
        free(entry);
}

/* --- the life of it all ------------------------------------------------------------- */

hx_error *hx_blocks_create(sqlite3 *db, hx_blocks **ret)
{
    hx_blocks *blocks = calloc(1, sizeof *blocks);
    HX_NEED(blocks);
    hx_error *err = hx_codec_create(&blocks->codec);
    if (err) {
        free(blocks);
        return err;
    }
    blocks->db = db;
    blocks->refs = 1;
    *ret = blocks;
    return NULL;
}

void hx_blocks_interrupt(hx_blocks *blocks)
{
    atomic_store(&blocks->interrupted, true);
}

void hx_blocks_go_on(hx_blocks *blocks)
{
    atomic_store(&blocks->interrupted, false);
}

void hx_blocks_aloof(hx_blocks *blocks, bool on)
{
    blocks->aloof = on;
    for (struct entry *entry = blocks->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        if (entry->aloof && !entry->users)
            drop(blocks, entry);
    }
}

hx_error *hx_blocks_interrupted(const hx_blocks *blocks)
{
    return atomic_load(&blocks->interrupted) ? hx_error_cancelled("store") : NULL;
}

void hx_blocks_ref(hx_blocks *blocks)
{
    blocks->refs++;
}

void hx_blocks_rest(hx_blocks *blocks)
{
    sqlite3_finalize(blocks->column);
    blocks->column = NULL;
}

enum { EVERYTHING = -1 }; /* no snapshot has that number */

static void forget_snapshot_blocks(hx_blocks *blocks, int64_t snapshot)
{
    hx_blocks_end_aside(blocks);
    hx_blocks_rest(blocks); /* it may have been made before there were temporary tables */
    hx_stack_map_free(blocks->stacks);
    blocks->stacks = NULL;
    hx_tops_free(blocks->tops);
    blocks->tops = NULL;
    blocks->ruled = 0;
    hx_found_begin(&blocks->found, 0, 0);
    for (struct entry *entry = blocks->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        if (snapshot == EVERYTHING || entry->snapshot == snapshot)
            drop(blocks, entry);
    }
    size_t kept = 0;
    for (size_t i = 0; i < blocks->index.n; i++) {
        struct hx_block_index *index = blocks->index.v[i];
        if (snapshot == EVERYTHING || index->snapshot == snapshot)
            hx_blocks_index_done(blocks, index);
        else
            blocks->index.v[kept++] = index;
    }
    blocks->index.n = kept;
    kept = 0;
    for (size_t i = 0; i < blocks->named.n; i++) {
        struct named named = blocks->named.v[i];
        if (snapshot == EVERYTHING || named.snapshot == snapshot) {
            blocks->name_bytes -= hx_names_bytes(named.names);
            hx_names_free(named.names);
        } else {
            blocks->named.v[kept++] = named;
        }
    }
    blocks->named.n = kept;
    blocks->last_named = 0;
}

void hx_blocks_forget(hx_blocks *blocks, int64_t snapshot)
{
    forget_snapshot_blocks(blocks, snapshot);
}

void hx_blocks_forget_all(hx_blocks *blocks)
{
    forget_snapshot_blocks(blocks, EVERYTHING);
}

void hx_blocks_refresh(hx_blocks *blocks)
{
    unsigned version = blocks->version;
    if (sqlite3_file_control(blocks->db, "main", SQLITE_FCNTL_DATA_VERSION, &version) ==
            SQLITE_OK &&
        version == blocks->version)
        return;
    blocks->version = version;
    forget_snapshot_blocks(blocks, EVERYTHING);
}

static void free_aside(struct aside *aside)
{
    for (size_t i = 0; aside && i < STASHED; i++)
        free(aside->stash.column[i].blob);
    if (aside)
        hx_blocks_unref(aside->blocks);
    free(aside);
}

void hx_blocks_unref(hx_blocks *blocks)
{
    if (!blocks || --blocks->refs)
        return;
    hx_blocks_rest(blocks);
    forget_snapshot_blocks(blocks, EVERYTHING);
    free_aside(blocks->aside);
    hx_vec_free(&blocks->index);
    hx_vec_free(&blocks->named);
    hx_vec_free(&blocks->found.row);
    hx_codec_destroy(blocks->codec);
    free(blocks);
}

/* --- the index --------------------------------------------------------------------- */

static hx_error *read_index(hx_blocks *blocks, struct hx_block_index *index)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_overlay_blocks(blocks->db, "store", index->snapshot, index->family, &st));
    size_t cap = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t n = sqlite3_column_int64(st, 2);
        struct hx_block block = {
            .index = index,
            .id = sqlite3_column_int64(st, 0),
            .from = (uint64_t)sqlite3_column_int64(st, 1),
            .first_key = (uint64_t)sqlite3_column_int64(st, 3),
            .last_key = (uint64_t)sqlite3_column_int64(st, 4),
            .bytes = (uint64_t)sqlite3_column_int64(st, 5),
        };
        const struct hx_block *before = index->n ? &index->block[index->n - 1] : NULL;
        if (!hx_block_id_is_sane(block.id) || n < 1 || n > HX_BLOCK_ROWS ||
            block.from != (uint64_t)index->n * HX_BLOCK_ROWS || block.from != index->rows ||
            block.first_key > block.last_key || (before && before->last_key > block.first_key) ||
            index->rows >= HX_ROWS_MAX)
            return damaged_block("index of blocks");
        block.n = (uint32_t)n;
        index->rows += block.n;
        HX_NEED(hx_vec_reserve_raw((void **)&index->block, &cap, index->n + 1, sizeof block));
        index->block[index->n++] = block;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(blocks->db, code, "store");
}

bool hx_blocks_knows(const hx_blocks *blocks, int64_t snapshot)
{
    for (size_t i = blocks->index.n; i-- > 0;)
        if (blocks->index.v[i]->snapshot == snapshot)
            return true;
    return false;
}

/* Gives the older half back when there are many; who holds one of them keeps it. */
static void forget_older_indexes(hx_blocks *blocks)
{
    size_t older = blocks->index.n / 2;
    if (blocks->index.n < KEPT_LISTS)
        return;
    for (size_t i = 0; i < older; i++)
        hx_blocks_index_done(blocks, blocks->index.v[i]);
    blocks->index.n -= older;
    memmove(blocks->index.v, blocks->index.v + older, blocks->index.n * sizeof *blocks->index.v);
}

hx_error *hx_blocks_index(hx_blocks *blocks, int64_t snapshot, enum hx_family family,
                          const struct hx_block_index **ret)
{
    for (size_t i = blocks->index.n; i-- > 0;) {
        struct hx_block_index *index = blocks->index.v[i];
        if (index->snapshot == snapshot && index->family == family) {
            index->users++;
            *ret = index;
            return NULL;
        }
    }
    struct hx_block_index *index = calloc(1, sizeof *index);
    HX_NEED(index);
    index->snapshot = snapshot;
    index->family = family;
    index->users = 1;
    forget_older_indexes(blocks);
    hx_error *err = read_index(blocks, index);
    if (!err && !hx_vec_push(&blocks->index, index))
        err = hx_error_nomem();
    if (err) {
        hx_blocks_index_done(blocks, index);
        return err;
    }
    index->users++;
    *ret = index;
    return NULL;
}

static void free_sieves(hx_blocks *blocks, struct hx_block_index *index);

void hx_blocks_index_done(hx_blocks *blocks, const struct hx_block_index *done)
{
    struct hx_block_index *index = (struct hx_block_index *)done;
    if (!index || --index->users)
        return;
    free_sieves(blocks, index);
    free(index->sizes);
    free(index->block);
    free(index);
}

/* --- names ------------------------------------------------------------------------- */

hx_error *hx_blocks_names(hx_blocks *blocks, int64_t snapshot, enum hx_name_list list,
                          const hx_names **ret)
{
    for (size_t n = blocks->named.n, i = blocks->last_named; n--; i++) {
        const struct named *named = &blocks->named.v[i %= blocks->named.n];
        if (named->snapshot == snapshot && named->list == list) {
            blocks->last_named = i;
            *ret = named->names;
            return NULL;
        }
    }
    if (blocks->name_bytes > NAME_BYTES || blocks->named.n >= KEPT_LISTS) {
        for (size_t i = 0; i < blocks->named.n; i++)
            hx_names_free(blocks->named.v[i].names);
        blocks->named.n = blocks->name_bytes = 0;
    }
    struct named named = {.snapshot = snapshot, .list = list};
    HX_TRY(hx_names_load(blocks->db, snapshot, list, &named.names));
    if (!hx_vec_push(&blocks->named, named)) {
        hx_names_free(named.names);
        return hx_error_nomem();
    }
    blocks->name_bytes += hx_names_bytes(named.names);
    blocks->last_named = blocks->named.n - 1;
    *ret = named.names;
    return NULL;
}

/* --- decoded columns ---------------------------------------------------------------- */

static void evict_blocks(hx_blocks *blocks, size_t bytes)
{
    struct entry *entry = blocks->oldest, *newer;
    for (; entry && blocks->aloof && blocks->aloof_bytes + bytes > ALOOF_BYTES; entry = newer) {
        newer = entry->newer;
        if (!entry->users && entry->aloof)
            drop(blocks, entry);
    }
    for (entry = blocks->oldest; entry && blocks->bytes + bytes > CACHE_BYTES; entry = newer) {
        newer = entry->newer;
        if (!entry->users && !(is_staying(entry) && blocks->staying_bytes <= STAYING_BYTES))
            drop(blocks, entry);
    }
}

static hx_error *make_entry(hx_blocks *blocks, uint64_t base, unsigned shift, size_t n,
                            struct entry **ret)
{
    size_t bytes = sizeof(struct entry) + (n << shift);
    evict_blocks(blocks, bytes);
    struct entry *entry = malloc(bytes);
    HX_NEED(entry);
    *entry =
        (struct entry){.decoded = {.base = base, .shift = shift, .n = (uint32_t)n, .v = entry + 1},
                       .bytes = bytes};
    *ret = entry;
    return NULL;
}

static unsigned shift_of(uint64_t range)
{
    return range <= UINT8_MAX ? 0 : range <= UINT16_MAX ? 1 : range <= UINT32_MAX ? 2 : 3;
}

/* Packs blocks->value into a new entry of the narrowest element. */
HX_HOT static hx_error *pack(hx_blocks *blocks, size_t n, struct entry **ret)
{
    const uint64_t *value = blocks->value;
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < n; i++)
        high |= value[i];
    if (high > UINT32_MAX) { /* comparing costs more */
        low = high = value[0];
        for (size_t i = 0; i < n; i++) {
            low = value[i] < low ? value[i] : low;
            high = value[i] > high ? value[i] : high;
        }
    }
    unsigned shift = shift_of(high - low);
    HX_TRY(make_entry(blocks, low, shift, n, ret));
    void *v = *ret + 1;
    for (size_t i = 0; i < n && shift == 0; i++)
        ((uint8_t *)v)[i] = (uint8_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 1; i++)
        ((uint16_t *)v)[i] = (uint16_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 2; i++)
        ((uint32_t *)v)[i] = (uint32_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 3; i++)
        ((uint64_t *)v)[i] = value[i] - low;
    return NULL;
}

/* --- decoding ---------------------------------------------------------------------- */

/* Is it one of those that an analysis adds? */
static bool is_optional(enum hx_family family, int column)
{
    return family == HX_FAMILY_OBJECT ? column >= HX_COL_TYPE : column == HX_COL_EVIDENCE;
}

/* Reads a column as it is stored, which lasts until blocks->column is reset; NULL: absent. */
static hx_error *find_blob(hx_blocks *blocks, int64_t id, const void **ret, size_t *ret_bytes)
{
    for (size_t i = 0; blocks->stash && i < blocks->stash->n; i++) {
        const struct stashed *column = &blocks->stash->column[i];
        *ret = column->there ? column->blob : NULL;
        *ret_bytes = column->bytes;
        if (column->id == id)
            return NULL;
    }
    if (blocks->stash)
        return damaged_block("a column is missing"); /* nobody is told: hx_blocks_begin_aside() */
    if (!blocks->column)
        HX_TRY(hx_overlay_column(blocks->db, "store", &blocks->column));
    sqlite3_reset(blocks->column); /* where it was interrupted it would keep the column it had */
    sqlite3_bind_int64(blocks->column, 1, id);
    int code = sqlite3_step(blocks->column);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? damaged_block("a column is missing")
                                   : hx_db_error(blocks->db, code, "store");
    bool there = sqlite3_column_type(blocks->column, 0) != SQLITE_NULL;
    *ret = there ? sqlite3_column_blob(blocks->column, 0) : NULL;
    *ret_bytes = (size_t)sqlite3_column_bytes(blocks->column, 0);
    return there && !*ret ? damaged_block("an empty column") : NULL;
}

static hx_error *has_column(hx_blocks *blocks, const struct hx_block *block, int column, bool *ret)
{
    const void *blob;
    size_t bytes;
    hx_error *err = find_blob(blocks, block->id * HX_COLUMN_SLOTS + column, &blob, &bytes);
    sqlite3_reset(blocks->column);
    *ret = !err && blob;
    return err;
}

/* Begins to read a column: the caller calls done_planes() at the end, and before that has the
 * planes. *ret_there false: it is not there; `must`: then that is an error. */
static hx_error *find_planes(hx_blocks *blocks, const struct hx_block *block, int column, bool must,
                             struct hx_planes *ret, bool *ret_there)
{
    const int64_t id = block->id * HX_COLUMN_SLOTS + column;
    const uint16_t *place = NULL;
    const void *blob;
    size_t bytes;
    HX_TRY(find_blob(blocks, id, &blob, &bytes));
    *ret_there = blob != NULL;
    if (!blob)
        return must ? damaged_block("a column is missing") : NULL;
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
        HX_TRY(find_blob(blocks, id, &blob, &bytes));
        if (!blob)
            return damaged_block("a column is missing");
    }
    return hx_column_planes(blocks->codec, blob, bytes, place, block->n, ret);
}

static void done_planes(hx_blocks *blocks, enum hx_family family)
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

/* A column that may be absent is all 0 then, which *ret_there tells; NULL: it has to be there. */
static hx_error *decode_if_there(hx_blocks *blocks, const struct hx_block *block, int column,
                                 uint64_t *value, bool *ret_there)
{
    struct hx_planes planes;
    bool there = false;
    hx_error *err = find_planes(blocks, block, column, !ret_there, &planes, &there);
    if (!err && !there)
        memset(value, 0, decoded_rows(blocks, block) * sizeof *value);
    else if (!err && !blocks->pick)
        hx_planes_expand(&planes, 0, block->n, value);
    for (size_t i = 0; !err && there && blocks->pick && i < blocks->picks; i++)
        value[i] = hx_planes_at(&planes, blocks->pick[i]);
    if (ret_there)
        *ret_there = there;
    done_planes(blocks, block->index->family);
    return err;
}

static hx_error *decode_block(hx_blocks *blocks, const struct hx_block *block, int column,
                              uint64_t *value)
{
    return decode_if_there(blocks, block, column, value, NULL);
}

/* Turns differences into running sums that begin at `at` and must end at `last`. */
HX_HOT static hx_error *sum_up(uint64_t *value, size_t n, uint64_t at, uint64_t last)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        bad |= __builtin_add_overflow(at, value[i], &at);
        value[i] = at;
    }
    return bad || at != last ? damaged_block("keys of a block") : NULL;
}

static struct entry *find_cached_block(hx_blocks *blocks, int64_t id, unsigned what);
static unsigned what_is(enum hx_derived derived, int column);

#define WIDEN(type)                                                                                \
    for (size_t i = 0; i < n; i++)                                                                 \
        ret[i] = column->base + ((const type *)column->v)[from + i];

HX_HOT static void widen(const struct hx_decoded *column, size_t from, size_t n,
                         uint64_t *restrict ret)
{
    if (column->shift == 0)
        WIDEN(uint8_t)
    else if (column->shift == 1)
        WIDEN(uint16_t)
    else if (column->shift == 2)
        WIDEN(uint32_t)
    else
        WIDEN(uint64_t)
}

/* The sizes of objects, which many columns are made with and often are there already. */
HX_HOT static hx_error *decode_sizes(hx_blocks *blocks, const struct hx_block *block,
                                     uint64_t *size)
{
    const struct entry *entry =
        find_cached_block(blocks, block->id, what_is(HX_PLAIN, HX_COL_SIZE));
    if (!entry)
        return decode_block(blocks, block, HX_COL_SIZE, size);
    for (size_t i = 0; blocks->pick && i < blocks->picks; i++)
        size[i] = hx_decoded_at(&entry->decoded, blocks->pick[i]);
    if (!blocks->pick)
        widen(&entry->decoded, 0, block->n, size);
    return NULL;
}

/* --- rows by class ------------------------------------------------------------------ */

static hx_error *find_objects(hx_blocks *blocks, const struct hx_block *block, size_t number,
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
        return damaged_block("an edge from nowhere");
    HX_TRY(hx_blocks_index(blocks, block->index->snapshot, HX_FAMILY_OBJECT, &objects));
    hx_error *err = number < objects->n
                        ? hx_blocks_column(blocks, objects, number, derived, column, ret)
                        : damaged_block("an edge from nowhere");
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
    hx_error *err = find_planes(blocks, block, column, true, &planes, &there);
    for (size_t from = 0, n; !err && from < block->n; from += n) {
        n = block->n - from < sizeof count ? block->n - from : sizeof count;
        hx_planes_clip(&planes, from, n, HX_CLASS_COUNTS, count);
        add_count(count, n, column == HX_COL_OUT ? 2 : 0, class + from);
    }
    done_planes(blocks, block->index->family);
    return err;
}

/* Sizes stay: what lies by class often is made with them, too. */
static hx_error *classify_objects(hx_blocks *blocks, const struct hx_block *block, uint16_t *class)
{
    const struct hx_decoded *size;
    HX_TRY(hx_blocks_column(blocks, block->index, block->from / HX_BLOCK_ROWS, HX_PLAIN,
                            HX_COL_SIZE, &size));
    classes_of_sizes(size, class);
    hx_blocks_release(blocks, size);
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
        err = find_objects(blocks, block, number, HX_PLAIN, HX_COL_OUT, &out);
        if (!err && class)
            err = find_objects(blocks, block, number, HX_CLASS, 0, &classes);
        if (!err)
            good = spread_part(block, out, classes, &source, &at, value, class) &&
                   (at == block->n || source % HX_BLOCK_ROWS == 0);
        release_objects(blocks, out);
        release_objects(blocks, classes);
    }
    if (!err && (!good || at != block->n || source != block->last_key + 1))
        err = damaged_block("sources of edges");
    return err;
}

static hx_error *make_classes(hx_blocks *blocks, const struct hx_block *block, bool places,
                              struct entry **ret)
{
    HX_TRY(make_entry(blocks, 0, 1, block->n, ret));
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
    HX_TRY(has_column(blocks, block, HX_COL_SOURCE, &there));
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
            return damaged_block("addresses");
    return sum_up(gap, block->n, block->first_key, block->last_key);
}

/* Targets stay below `objects`: rows are never trusted as indexes before. */
static hx_error *check_targets(const uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value[i] >= HX_NO_OBJ)
            return damaged_block("an edge to nowhere");
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
    hx_error *err = find_planes(blocks, block, HX_COL_TARGET, true, &planes, &there);
    if (!err)
        hx_planes_join(&planes);
    for (size_t from = 0, n; !err && from < block->n; from += n) {
        n = block->n - from < PART ? block->n - from : PART;
        hx_planes_expand(&planes, from, n, apart);
        good &= add_sources(apart, n, blocks->value + from);
    }
    done_planes(blocks, block->index->family);
    return good ? err : damaged_block("an edge to nowhere");
}

HX_HOT static hx_error *derive_plus_one(hx_blocks *blocks, const struct hx_block *block, int column)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value;
    bool there, bad = false;
    HX_TRY(decode_if_there(blocks, block, column, value, &there));
    for (size_t i = 0; there && i < n; i++)
        bad |= ++value[i] == 0;
    return bad ? damaged_block("a number") : NULL;
}

/* From whole stacks to what they are attributed to now. */
static hx_error *derive_ccs(hx_blocks *blocks, const struct hx_block *block)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value;
    bool there;
    HX_TRY(decode_if_there(blocks, block, HX_COL_STACK, value, &there));
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
    HX_TRY(decode_if_there(blocks, block, HX_COL_DOMINATOR, value, &there));
    if (!blocks->pick)
        good = find_dominators(value, block->n, block->from);
    for (size_t i = 0; blocks->pick && i < blocks->picks; i++)
        good &= find_dominators(value + i, 1, decoded_row(blocks, block, i));
    return good ? NULL : damaged_block("a dominator that is not there");
}

/* Retained bytes over all edges, in blocks->value, as stored before schema 9. */
HX_HOT static hx_error *derive_retained_before(hx_blocks *blocks, const struct hx_block *block)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value, *size = blocks->other;
    bool there, bad = false;
    HX_TRY(decode_if_there(blocks, block, HX_COL_RETAINED, value, &there));
    if (!there)
        return NULL;
    HX_TRY(decode_sizes(blocks, block, size));
    for (size_t i = 0; i < n; i++)
        if (value[i])
            bad |= __builtin_add_overflow(value[i], size[i], &value[i]);
    return bad ? damaged_block("a retained size") : NULL;
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
    HX_TRY(decode_if_there(blocks, block, HX_COL_RETAINED_REST, value, &there));
    if (!there)
        return derive_retained_before(blocks, block);
    HX_TRY(decode_sizes(blocks, block, size));
    HX_TRY(decode_if_there(blocks, block, HX_COL_RETAINED_OBJECTS, objects, &there));
    return retained_of(value, size, objects, blocks->picks, value)
               ? NULL
               : damaged_block("a retained size");
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
    hx_error *err = hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_SIZE, &size);
    if (!err)
        err = hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_RETAINED_OBJECTS,
                               &objects);
    if (!err)
        err = find_planes(blocks, block, HX_COL_RETAINED_REST, false, &rest, &there);
    if (!err && there)
        hx_planes_join(&rest);
    for (size_t from = 0, n; !err && there && from < block->n; from += n) {
        n = block->n - from < PART ? block->n - from : PART;
        hx_planes_expand(&rest, from, n, part[0]);
        widen(size, from, n, part[1]);
        widen(objects, from, n, part[2]);
        good &= retained_of(part[0], part[1], part[2], n, blocks->value + from);
    }
    done_planes(blocks, block->index->family);
    hx_blocks_release(blocks, size);
    hx_blocks_release_once(blocks, objects);
    if (!err && !there)
        return derive_retained_before(blocks, block);
    return good ? err : damaged_block("a retained size");
}

/* Retained figures over sure edges, which are stored as differences from those over all. */
HX_HOT static hx_error *derive_sure(hx_blocks *blocks, const struct hx_block *block, bool objects)
{
    size_t n = decoded_rows(blocks, block);
    uint64_t *value = blocks->value, *sure = blocks->other;
    const int column = objects ? HX_COL_SURE_OBJECTS : HX_COL_SURE;
    bool there, bad = false;
    HX_TRY(has_column(blocks, block, column, &there));
    if (!there) { /* nobody asked for them: most stores have none */
        memset(value, 0, n * sizeof *value);
        return NULL;
    }
    if (objects) { /* plus 1, as derive_retained() gives it; all 0 stay 0 */
        HX_TRY(decode_if_there(blocks, block, HX_COL_RETAINED_OBJECTS, value, &there));
        for (size_t i = 0; i < n; i++)
            bad |= value[i] && ++value[i] == 0;
    } else {
        HX_TRY(derive_retained(blocks, block));
    }
    HX_TRY(decode_if_there(blocks, block, column, sure, &there));
    for (size_t i = 0; i < n; i++) {
        if (!sure[i]) {
            value[i] = 0;
            continue;
        }
        bad |= !value[i];
        value[i] += (uint64_t)hx_unzigzag(sure[i] - 1);
        bad |= value[i] == 0 || value[i] > INT64_MAX;
    }
    return bad ? damaged_block("a retained size") : NULL;
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
    return bad ? damaged_block("a rule that is not there") : err;
}

static hx_error *derive_ranks(hx_blocks *blocks, int64_t snapshot, const struct hx_block *block)
{
    uint64_t *value = blocks->value;
    bool there, bad = false;
    HX_TRY(decode_if_there(blocks, block, HX_COL_EVIDENCE, value, &there));
    if (there && blocks->ruled != snapshot)
        HX_TRY(find_rules(blocks, snapshot));
    for (size_t i = 0; there && i < decoded_rows(blocks, block); i++) {
        bad |= value[i] >= HX_RULE_COUNT;
        value[i] = 1 + hx_word_rank(HX_EVIDENCE(value[i] & 63, 0), &blocks->rules);
    }
    return bad ? damaged_block("a rule that is not there") : NULL;
}

static hx_error *derive(hx_blocks *blocks, const struct hx_block_index *index,
                        const struct hx_block *block, enum hx_derived derived, int column)
{
    enum hx_family family = index->family;
    uint64_t *value = blocks->value, at = 0;
    bool there;
    switch (derived) {
    case HX_PLAIN:
        return decode_if_there(blocks, block, column, value,
                               is_optional(family, column) ? &there : NULL);
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
    return damaged_block("unknown column");
}

/* --- sieves -------------------------------------------------------------------------- */

/* Each index has one column that is asked for single values. */
static bool has_sieve(enum hx_derived derived)
{
    return derived == HX_TARGET_OBJ || derived == HX_DOMINATOR;
}

static size_t sieve_bit(uint64_t value)
{
    return value * 0x9e3779b97f4a7c15u >> 45;
}

bool hx_blocks_may_hold(const struct hx_block_index *index, size_t block, enum hx_derived derived,
                        uint64_t value)
{
    const uint64_t *sieve = has_sieve(derived) && index->sieve ? index->sieve[block] : NULL;
    return !sieve || hx_bit(sieve, sieve_bit(value));
}

enum { SIEVES_MAX = SIEVE_BYTES / (SIEVE_BITS / 8) };

static void free_sieves(hx_blocks *blocks, struct hx_block_index *index)
{
    for (size_t i = 0; index->sieve && i < index->n; i++) {
        blocks->sieves -= index->sieve[i] != NULL;
        free(index->sieve[i]);
    }
    free(index->sieve);
    index->sieve = NULL;
}

/* All but those of one snapshot. */
static void drop_sieves(hx_blocks *blocks, int64_t snapshot)
{
    for (size_t i = 0; i < blocks->index.n; i++)
        if (blocks->index.v[i]->snapshot != snapshot)
            free_sieves(blocks, blocks->index.v[i]);
}

/* Without memory there is none. */
static void make_sieve(hx_blocks *blocks, struct hx_block_index *index, size_t block,
                       const struct hx_decoded *column)
{
    if (blocks->sieves >= SIEVES_MAX)
        drop_sieves(blocks, index->snapshot);
    if (index->n < 8 || blocks->sieves >= SIEVES_MAX)
        return;
    if (!index->sieve)
        index->sieve = calloc(index->n, sizeof *index->sieve);
    if (!index->sieve || index->sieve[block])
        return;
    uint64_t *sieve = index->sieve[block] = calloc(SIEVE_BITS / 64, sizeof *sieve);
    blocks->sieves += sieve != NULL;
    for (size_t i = 0; sieve && i < column->n; i++)
        hx_bit_set(sieve, sieve_bit(hx_decoded_at(column, i)));
}

struct hx_window **hx_blocks_window(hx_blocks *blocks)
{
    return &blocks->window;
}

struct hx_found *hx_blocks_found(hx_blocks *blocks)
{
    return &blocks->found;
}

struct hx_kept_tops **hx_blocks_tops(hx_blocks *blocks)
{
    return &blocks->tops;
}

/* A column that is served as it is stored, or plus 1, needs no room for 64 bits a value. */
static hx_error *pack_stored(hx_blocks *blocks, enum hx_family family, const struct hx_block *block,
                             bool plus_one, int column, struct entry **ret)
{
    struct hx_planes planes;
    bool there = false;
    hx_error *err =
        find_planes(blocks, block, column, !is_optional(family, column), &planes, &there);
    if (!err && !there)
        planes = (struct hx_planes){0};
    uint64_t most = err ? 0 : planes.n < 8 ? ((uint64_t)1 << 8 * planes.n) - 1 : UINT64_MAX;
    if (!err && there && plus_one && (most == UINT64_MAX || planes.base >= UINT64_MAX - most))
        err = damaged_block("a number");
    unsigned shift = shift_of(most);
    if (!err)
        err = make_entry(blocks, planes.base + (there && plus_one), shift, block->n, ret);
    if (!err)
        hx_planes_narrow(&planes, block->n, shift, *ret + 1);
    done_planes(blocks, family);
    return err;
}

static struct entry *find_cached_block(hx_blocks *blocks, int64_t id, unsigned what)
{
    struct entry *entry = *cache_slot(blocks, id, what);
    while (entry && (entry->id != id || entry->what != what))
        entry = entry->next;
    return entry;
}

static unsigned what_is(enum hx_derived derived, int column)
{
    return (unsigned)derived << 8 | (unsigned)column;
}

/* --- addresses of some rows ----------------------------------------------------------- */

/* What they are added up from. */
struct steps {
    const struct hx_decoded *step, *gap, *size; /* held */
};

#define SUM(type)                                                                                  \
    for (size_t i = from; i < end; i++)                                                            \
        sum += ((const type *)column->v)[i];

HX_HOT static uint64_t sum_decoded(const struct hx_decoded *column, size_t from, size_t end)
{
    uint64_t sum = (end - from) * column->base;
    if (column->shift == 0)
        SUM(uint8_t)
    else if (column->shift == 1)
        SUM(uint16_t)
    else if (column->shift == 2)
        SUM(uint32_t)
    else
        SUM(uint64_t)
    return sum;
}

static bool is_small(const struct hx_decoded *column)
{
    return hx_decoded_most(column) < (uint64_t)1 << 40;
}

/* To the address of the next row; *bad where there is none such. */
static uint64_t next_address(const struct steps *steps, size_t row, uint64_t at, bool *bad)
{
    *bad |= __builtin_add_overflow(at, hx_decoded_at(steps->size, row), &at);
    *bad |= __builtin_add_overflow(at, hx_decoded_at(steps->gap, row + 1), &at);
    return at;
}

static hx_error *sum_steps(const struct hx_block *block, const struct steps *steps, uint64_t *step)
{
    const bool small = is_small(steps->gap) && is_small(steps->size);
    const size_t n = block->n, last = n - 1;
    uint64_t at = block->first_key;
    bool bad = __builtin_add_overflow(at, hx_decoded_at(steps->gap, 0), &at);
    for (size_t from = 0, end; from < last || !from; from = end) {
        step[from / STEP] = at;
        end = last - from < STEP ? last : from + STEP;
        const uint64_t before = at;
        for (size_t row = from; !small && row < end; row++)
            at = next_address(steps, row, at, &bad);
        if (small)
            at += sum_decoded(steps->size, from, end) + sum_decoded(steps->gap, from + 1, end + 1);
        bad |= at < before;
        if (end == last)
            break;
    }
    if (last % STEP == 0)
        step[last / STEP] = at;
    return bad || at != block->last_key ? damaged_block("keys of a block") : NULL;
}

static hx_error *find_gaps_and_sizes(hx_blocks *blocks, const struct hx_block *block,
                                     struct steps *ret)
{
    const size_t number = block->from / HX_BLOCK_ROWS;
    HX_TRY(hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_GAP, &ret->gap));
    return hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_SIZE, &ret->size);
}

static void release_steps(hx_blocks *blocks, struct steps *steps)
{
    hx_blocks_release(blocks, steps->step);
    hx_blocks_release(blocks, steps->gap);
    hx_blocks_release(blocks, steps->size);
}

static hx_error *make_steps(hx_blocks *blocks, const struct hx_block *block, struct entry **ret)
{
    struct steps steps = {0};
    hx_error *err = find_gaps_and_sizes(blocks, block, &steps);
    if (!err)
        err = make_entry(blocks, 0, 3, (block->n + STEP - 1) / STEP, ret);
    if (!err && (err = sum_steps(block, &steps, (uint64_t *)(*ret + 1))))
        free(hx_steal(*ret));
    release_steps(blocks, &steps);
    return err;
}

/* Whatever comes of it, to be given back. */
static hx_error *find_steps(hx_blocks *blocks, const struct hx_block *block, struct steps *ret)
{
    *ret = (struct steps){0};
    HX_TRY(hx_blocks_column(blocks, block->index, block->from / HX_BLOCK_ROWS, HX_STEPS, 0,
                            &ret->step));
    return find_gaps_and_sizes(blocks, block, ret);
}

static hx_error *pick_addresses(hx_blocks *blocks, const struct hx_block *block, const uint16_t *at,
                                size_t n, uint64_t *ret)
{
    struct steps steps;
    hx_error *err = find_steps(blocks, block, &steps);
    for (size_t i = 0; !err && i < n; i++) {
        const size_t row = at[i], from = row - row % STEP;
        ret[i] = hx_decoded_at(steps.step, row / STEP) + sum_decoded(steps.size, from, row) +
                 sum_decoded(steps.gap, from + 1, row + 1);
    }
    release_steps(blocks, &steps);
    return err;
}

/* The first row of the block whose address is >= key, which is above the first one. */
static hx_error *search_addresses(hx_blocks *blocks, const struct hx_block *block, uint64_t key,
                                  uint64_t *ret)
{
    struct steps steps;
    hx_error *err = find_steps(blocks, block, &steps);
    if (!err) {
        const size_t above = HX_LOWER_BOUND(steps.step->n, i, hx_decoded_at(steps.step, i) < key);
        size_t row = above ? (above - 1) * STEP : 0;
        uint64_t at = hx_decoded_at(steps.step, row / STEP);
        bool bad = false;
        for (; at < key && row + 1 < block->n; row++)
            at = next_address(&steps, row, at, &bad);
        *ret = block->from + row + (at < key);
    }
    release_steps(blocks, &steps);
    return err;
}

/* The source of one edge of a block, by how many edges the objects before it have. */
static hx_error *pick_source(hx_blocks *blocks, const struct hx_block *block, size_t row,
                             uint64_t *ret)
{
    uint64_t source = block->first_key, left = row + block->bytes;
    while (source <= block->last_key) {
        const struct hx_decoded *out;
        HX_TRY(find_objects(blocks, block, (size_t)(source / HX_BLOCK_ROWS), HX_PLAIN, HX_COL_OUT,
                            &out));
        size_t k = source % HX_BLOCK_ROWS;
        for (uint64_t n; k + STEP <= out->n && (n = sum_decoded(out, k, k + STEP)) <= left;
             k += STEP)
            left -= n;
        for (uint64_t n; k < out->n && (n = hx_decoded_at(out, k)) <= left; k++)
            left -= n;
        *ret = source - source % HX_BLOCK_ROWS + k;
        const bool found = k < out->n;
        hx_blocks_release(blocks, out);
        if (found)
            return *ret <= block->last_key ? NULL : damaged_block("sources of edges");
        source = *ret;
    }
    return damaged_block("sources of edges");
}

/* Is one row of the block asked for that seldom? */
static bool is_seldom_asked(hx_blocks *blocks, int64_t id, unsigned what)
{
    enum { SELDOM = 3 };
    struct asked *asked = &blocks->asked[((uint64_t)id + 157 * (uint64_t)what) % 1024];
    if (asked->id != id || asked->what != what)
        *asked = (struct asked){.id = id, .what = what};
    if (asked->times++ < SELDOM)
        return true;
    asked->id = 0;
    return false;
}

hx_error *hx_blocks_pick(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                         enum hx_derived derived, int column, const uint16_t *at, size_t n,
                         uint64_t *ret)
{
    const struct hx_block *where = &index->block[block];
    bool whole = derived != HX_PLAIN && derived != HX_PLUS_ONE && derived != HX_DOMINATOR &&
                 derived != HX_RETAINED && derived != HX_SURE && derived != HX_SURE_OBJECTS &&
                 derived != HX_CCS;
    const unsigned what = what_is(derived, column);
    const bool known = find_cached_block(blocks, where->id, what);
    if (derived == HX_ADDRESS && n < HX_BLOCK_ROWS / STEP && !known)
        return pick_addresses(blocks, where, at, n, ret);
    if (derived == HX_SOURCE_OBJ && n == 1 && !known) {
        bool stored;
        HX_TRY(has_column(blocks, where, HX_COL_SOURCE, &stored));
        if (!stored)
            return pick_source(blocks, where, *at, ret);
    }
    if (whole || known || (n == 1 && !is_seldom_asked(blocks, where->id, what))) {
        const struct hx_decoded *decoded;
        HX_TRY(hx_blocks_column(blocks, index, block, derived, column, &decoded));
        for (size_t i = 0; i < n; i++)
            ret[i] = hx_decoded_at(decoded, at[i]);
        hx_blocks_release(blocks, decoded);
        return NULL;
    }
    blocks->pick = at;
    blocks->picks = n;
    hx_error *err = derive(blocks, index, where, derived, column);
    blocks->pick = NULL;
    if (!err)
        memcpy(ret, blocks->value, n * sizeof *ret);
    return err;
}

static void put_in_slot(hx_blocks *blocks, struct entry *entry)
{
    struct entry **slot = cache_slot(blocks, entry->id, entry->what);
    entry->next = *slot;
    *slot = entry;
    blocks->bytes += entry->bytes;
    entry->aloof = blocks->aloof;
    blocks->aloof_bytes += entry->aloof ? entry->bytes : 0;
    blocks->staying_bytes += is_staying(entry) ? entry->bytes : 0;
}

hx_error *hx_blocks_column(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           enum hx_derived derived, int column, const struct hx_decoded **ret)
{
    const struct hx_block *where = &index->block[block];
    unsigned what = what_is(derived, column);
    struct entry *entry = find_cached_block(blocks, where->id, what);
    if (entry) {
        entry->again = !entry->ahead;
        entry->ahead = false;
        unlink_use(blocks, entry);
    } else {
        if (derived == HX_PLAIN || derived == HX_PLUS_ONE) {
            HX_TRY(
                pack_stored(blocks, index->family, where, derived == HX_PLUS_ONE, column, &entry));
        } else if (derived == HX_STEPS) {
            HX_TRY(make_steps(blocks, where, &entry));
        } else if (derived == HX_CLASS || derived == HX_PLACE) {
            HX_TRY(make_classes(blocks, where, derived == HX_PLACE, &entry));
        } else {
            HX_TRY(derive(blocks, index, where, derived, column));
            HX_TRY(pack(blocks, where->n, &entry));
            if (has_sieve(derived) && !blocks->stash)
                make_sieve(blocks, (struct hx_block_index *)index, block, &entry->decoded);
        }
        entry->snapshot = index->snapshot;
        entry->id = where->id;
        entry->what = what;
        put_in_slot(blocks, entry);
    }
    link_newest(blocks, entry);
    entry->users++;
    *ret = &entry->decoded;
    return NULL;
}

/* --- decoding aside ------------------------------------------------------------------ */

/* The stored columns that one is made of, of edges with those of stash_objects(); 0: others, too.
 */
static size_t stored_columns(const struct hx_wanted *wanted, int ret[STASHED / HX_WANTED_MAX])
{
    switch (wanted->derived) {
    case HX_PLAIN:
    case HX_PLUS_ONE:
        ret[0] = wanted->column;
        return 1;
    case HX_DOMINATOR:
        ret[0] = HX_COL_DOMINATOR;
        return 1;
    case HX_RETAINED:
        ret[0] = HX_COL_RETAINED;
        ret[1] = HX_COL_RETAINED_REST;
        ret[2] = HX_COL_RETAINED_OBJECTS;
        ret[3] = HX_COL_SIZE;
        return 4;
    case HX_TARGET_OBJ:
        ret[0] = HX_COL_TARGET;
        ret[1] = HX_COL_SOURCE;
        return 2;
    default:
        return 0;
    }
}

static hx_error *stash_column(hx_blocks *blocks, int64_t id, struct stash *stash)
{
    struct stashed *to = &stash->column[stash->n];
    const void *blob;
    size_t bytes;
    for (size_t i = 0; i < stash->n; i++)
        if (stash->column[i].id == id)
            return NULL;
    if (stash->n == STASHED)
        return hx_error_nomem();
    HX_TRY(find_blob(blocks, id, &blob, &bytes));
    if (blob && to->room < bytes) {
        free(to->blob);
        to->blob = malloc(to->room = bytes);
    }
    bool failed = blob && !to->blob;
    if (blob && !failed)
        memcpy(to->blob, blob, bytes);
    sqlite3_reset(blocks->column);
    to->room = failed ? 0 : to->room;
    to->id = id;
    to->bytes = bytes;
    to->there = blob != NULL;
    stash->n++;
    return failed ? hx_error_nomem() : NULL;
}

/* Where the rows lie, if one of the columns wants that: it is known, or made of three others. */
static hx_error *stash_place(hx_blocks *blocks, const struct hx_block *block, struct stash *stash)
{
    static const int made_of[] = {HX_COL_SIZE, HX_COL_IN, HX_COL_OUT};
    bool placed = false;
    for (size_t i = 0; i < stash->n; i++)
        placed |= stash->column[i].there &&
                  hx_column_is_placed(stash->column[i].blob, stash->column[i].bytes);
    struct entry *known =
        placed ? find_cached_block(blocks, block->id, what_is(HX_PLACE, 0)) : NULL;
    if (known) {
        known->users++;
        stash->place = &known->decoded;
    }
    bool made = placed && !known && block->index->family == HX_FAMILY_OBJECT;
    for (size_t i = 0; made && i < 3; i++)
        HX_TRY(stash_column(blocks, block->id * HX_COLUMN_SLOTS + made_of[i], stash));
    return NULL;
}

/* What tells the sources of a block's edges, and their classes. */
static hx_error *stash_objects(hx_blocks *blocks, const struct hx_block *block, struct stash *stash)
{
    const uint64_t first = block->first_key / HX_BLOCK_ROWS, last = block->last_key / HX_BLOCK_ROWS;
    if (last - first >= SOURCES_MAX)
        return damaged_block("too many sources"); /* or so it looks: not aside */
    for (uint64_t number = first; number <= last; number++)
        for (int classes = 0; classes < 2; classes++) {
            const enum hx_derived derived = classes ? HX_CLASS : HX_PLAIN;
            const struct hx_decoded *column;
            HX_TRY(find_objects(blocks, block, (size_t)number, derived, classes ? 0 : HX_COL_OUT,
                                &column));
            stash->object[stash->objects].number = (size_t)number;
            stash->object[stash->objects].derived = derived;
            stash->object[stash->objects++].column = column;
        }
    return NULL;
}

static bool has_stashed(const struct stash *stash)
{
    for (size_t i = 0; i < stash->n; i++)
        if (stash->column[i].there)
            return true;
    return false;
}

static void decode_aside(void *context)
{
    struct aside *aside = context;
    for (size_t i = 0; i < aside->n; i++) {
        const struct hx_decoded *column = NULL;
        hx_error_free(hx_blocks_column(aside->blocks, aside->index, aside->block,
                                       aside->wanted[i].derived, aside->wanted[i].column, &column));
        hx_blocks_release(aside->blocks, column);
    }
}

static struct aside *find_aside(hx_blocks *blocks)
{
    if (blocks->aside || hx_threads(0) < 2)
        return blocks->aside;
    struct aside *aside = calloc(1, sizeof *aside);
    if (!aside)
        return NULL;
    hx_error *err = hx_blocks_create(NULL, &aside->blocks);
    if (err) {
        hx_error_free(err);
        free(aside);
        return NULL;
    }
    aside->blocks->stash = &aside->stash;
    return blocks->aside = aside;
}

static void forget_held(hx_blocks *blocks, struct stash *stash)
{
    hx_blocks_release(blocks, stash->place);
    stash->place = NULL;
    while (stash->objects)
        hx_blocks_release(blocks, stash->object[--stash->objects].column);
}

void hx_blocks_begin_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           const struct hx_wanted *wanted, size_t n)
{
    bool whole =
        (index->family == HX_FAMILY_OBJECT || index->family == HX_FAMILY_EDGE) && block < index->n;
    struct aside *aside = whole ? find_aside(blocks) : NULL;
    if (!aside || aside->begun)
        return;
    const struct hx_block *where = &index->block[block];
    hx_error *err = NULL;
    aside->n = aside->stash.n = 0;
    aside->index = index;
    aside->block = block;
    for (size_t i = 0; i < n && !err; i++) {
        int columns[STASHED / HX_WANTED_MAX];
        size_t stored = stored_columns(&wanted[i], columns);
        if (!stored || aside->stash.n + stored > STASHED - 3 || aside->n == HX_WANTED_MAX ||
            find_cached_block(blocks, where->id, what_is(wanted[i].derived, wanted[i].column)))
            continue;
        for (size_t c = 0; c < stored && !err; c++)
            err = stash_column(blocks, where->id * HX_COLUMN_SLOTS + columns[c], &aside->stash);
        aside->wanted[aside->n++] = wanted[i];
    }
    if (!err && aside->n && index->family == HX_FAMILY_EDGE)
        err = stash_objects(blocks, where, &aside->stash);
    if (!err)
        err = stash_place(blocks, where, &aside->stash);
    aside->begun = !err && has_stashed(&aside->stash);
    hx_error_free(err);
    if (aside->begun)
        hx_aside_begin(decode_aside, aside, &aside->thread);
    else
        forget_held(blocks, &aside->stash);
}

void hx_blocks_end_aside(hx_blocks *blocks)
{
    struct aside *aside = blocks->aside;
    if (!aside || !aside->begun)
        return;
    hx_aside_end(&aside->thread);
    aside->begun = false;
    forget_held(blocks, &aside->stash);
    hx_blocks *from = aside->blocks;
    for (struct entry *entry = from->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        unlink_from_slot(from, entry);
        unlink_use(from, entry);
        if (find_cached_block(blocks, entry->id, entry->what)) { /* asked for meanwhile */
            free(entry);
            continue;
        }
        evict_blocks(blocks, entry->bytes);
        entry->again = false;
        entry->ahead = true;
        put_in_slot(blocks, entry);
        link_newest(blocks, entry);
        if (has_sieve((enum hx_derived)(entry->what >> 8)))
            make_sieve(blocks, (struct hx_block_index *)aside->index, aside->block,
                       &entry->decoded);
    }
}

hx_error *hx_blocks_ends(hx_blocks *blocks, const struct hx_block_index *index, int column,
                         uint64_t *ret, bool *ret_there)
{
    struct hx_block ends = index->block[0];
    bool bad = false;
    ends.n = (uint32_t)hx_ends_values(column);
    HX_TRY(decode_if_there(blocks, &ends, HX_COL_ENDS + column, ret, ret_there));
    for (size_t i = 0; i < HX_ENDS_VALUES && *ret_there; i++)
        bad |= ret[i] >= index->rows;
    if (!hx_ends_are_some(column))
        ret[HX_ENDS_VALUES] = index->rows;
    bad |= *ret_there && ret[HX_ENDS_VALUES] > index->rows;
    return bad ? damaged_block("ends of an order") : NULL;
}

void hx_blocks_release(hx_blocks *blocks, const struct hx_decoded *column)
{
    (void)blocks;
    struct entry *entry = (struct entry *)column;
    if (entry && --entry->users == 0 && entry->forgotten)
        free(entry);
}

void hx_blocks_release_once(hx_blocks *blocks, const struct hx_decoded *column)
{
    struct entry *entry = (struct entry *)column;
    if (entry && !entry->again && !entry->forgotten && entry->users == 1) {
        entry->users = 0;
        drop(blocks, entry);
    } else {
        hx_blocks_release(blocks, column);
    }
}

hx_error *hx_blocks_address(hx_blocks *blocks, const struct hx_block_index *objects,
                            uint64_t object, uint64_t *ret)
{
    if (object >= objects->rows)
        return damaged_block("an edge to nowhere");
    const uint16_t at = (uint16_t)(object % HX_BLOCK_ROWS);
    return hx_blocks_pick(blocks, objects, object / HX_BLOCK_ROWS, HX_ADDRESS, 0, &at, 1, ret);
}

hx_error *hx_blocks_lower_bound(hx_blocks *blocks, const struct hx_block_index *index, uint64_t key,
                                uint64_t *ret)
{
    size_t low = HX_LOWER_BOUND(index->n, i, index->block[i].last_key < key);
    if (low == index->n) {
        *ret = index->rows;
        return NULL;
    }
    const struct hx_block *block = &index->block[low];
    if (block->first_key >= key) {
        *ret = block->from;
        return NULL;
    }
    if (index->family == HX_FAMILY_OBJECT &&
        !find_cached_block(blocks, block->id, what_is(HX_ADDRESS, 0)))
        return search_addresses(blocks, block, key, ret);
    static const enum hx_derived keys[] = {[HX_FAMILY_OBJECT] = HX_ADDRESS,
                                           [HX_FAMILY_EDGE] = HX_SOURCE_OBJ,
                                           [HX_FAMILY_ROOT_EDGE] = HX_ROOT_NUMBER};
    const struct hx_decoded *column;
    HX_TRY(hx_blocks_column(blocks, index, low, keys[index->family], 0, &column));
    *ret = block->from + HX_LOWER_BOUND(block->n, i, hx_decoded_at(column, i) < key);
    hx_blocks_release(blocks, column);
    return NULL;
}
