/* blocks.c - index of blocks, and the names that their columns speak of. */
#include "store/objects/blocks_private.h"

#include "base/bits.h"
#include "base/lower_bound.h"
#include "store/objects/ends.h"
#include "store/objects/overlay.h"
#include "store/objects/top.h"

#include <stdlib.h>
#include <string.h>

/* Bits of a block's sieve: as many rows set an eighth of them. All sieves of an index together have
 * a limit; blocks beyond it have none. */
enum { SIEVE_BITS = 1 << 19, SIEVE_BYTES = 26 << 20 };

/* Indexes and lists of names to keep: they are looked for one after the other, and a store may have
 * a snapshot for each second of a day. */
enum { KEPT_LISTS = 256, NAME_BYTES = 64 << 20 };

hx_error *hx_block_damaged(const char *how)
{
    return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                        "the store is damaged (%s)", how);
}

void hx_found_begin(struct hx_found *found, int64_t snapshot, uint64_t target)
{
    found->snapshot = snapshot;
    found->target = target;
    found->end = 0;
    found->row.n = 0;
    found->begun++;
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
    for (struct hx_entry *entry = blocks->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        if (entry->aloof && !entry->users)
            hx_entry_drop(blocks, entry);
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
    hx_blocks_end_asides(blocks);
    hx_blocks_forget_picked(blocks);
    hx_blocks_rest(blocks); /* it may have been made before there were temporary tables */
    hx_stack_map_free(blocks->stacks);
    blocks->stacks = NULL;
    hx_tops_free(blocks->tops);
    blocks->tops = NULL;
    blocks->ruled = 0;
    hx_found_begin(&blocks->found, 0, 0);
    for (struct hx_entry *entry = blocks->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        if (snapshot == EVERYTHING || entry->snapshot == snapshot)
            hx_entry_drop(blocks, entry);
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
        struct hx_named_list named = blocks->named.v[i];
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

static void free_aside(struct hx_blocks_aside *aside)
{
    if (!aside)
        return;
    hx_helper_stop(&aside->thread);
    for (size_t i = 0; i < HX_STASHED; i++)
        free(aside->stash.column[i].blob);
    hx_blocks_unref(aside->blocks);
    free(aside);
}

void hx_blocks_unref(hx_blocks *blocks)
{
    if (!blocks || --blocks->refs)
        return;
    hx_blocks_rest(blocks);
    forget_snapshot_blocks(blocks, EVERYTHING);
    for (size_t i = 0; i < HX_ASIDES; i++)
        free_aside(blocks->aside[i]);
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
            return hx_block_damaged("index of blocks");
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
        const struct hx_named_list *named = &blocks->named.v[i %= blocks->named.n];
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
    struct hx_named_list named = {.snapshot = snapshot, .list = list};
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

/* --- sieves -------------------------------------------------------------------------- */

bool hx_blocks_has_sieve(enum hx_derived derived)
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
    const uint64_t *sieve =
        hx_blocks_has_sieve(derived) && index->sieve ? index->sieve[block] : NULL;
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

#define SET_SIEVE(type)                                                                            \
    for (size_t i = 0; i < column->n; i++)                                                         \
        hx_bit_set(sieve, sieve_bit(column->base + ((const type *)column->v)[i]));

HX_HOT static void set_sieve(const struct hx_decoded *column, uint64_t *sieve)
{
    HX_BY_SHIFT(column->shift, SET_SIEVE);
}

void hx_blocks_make_sieve(hx_blocks *blocks, struct hx_block_index *index, size_t block,
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
    if (sieve)
        set_sieve(column, sieve);
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
                             bool plus_one, int column, struct hx_entry **ret)
{
    struct hx_planes planes;
    bool there = false;
    hx_error *err = hx_blocks_find_planes(blocks, block, column,
                                          !hx_column_is_optional(family, column), &planes, &there);
    if (!err && !there)
        planes = (struct hx_planes){0};
    uint64_t most = err ? 0 : planes.n < 8 ? ((uint64_t)1 << 8 * planes.n) - 1 : UINT64_MAX;
    if (!err && there && plus_one && (most == UINT64_MAX || planes.base >= UINT64_MAX - most))
        err = hx_block_damaged("a number");
    unsigned shift = hx_entry_shift(most);
    if (!err)
        err = hx_entry_make(blocks, planes.base + (there && plus_one), shift, block->n, ret);
    if (!err)
        hx_planes_narrow(&planes, block->n, shift, *ret + 1);
    hx_blocks_done_planes(blocks, family);
    return err;
}

hx_error *hx_blocks_column(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           enum hx_derived derived, int column, const struct hx_decoded **ret)
{
    const struct hx_block *where = &index->block[block];
    unsigned what = hx_entry_what(derived, column);
    struct hx_entry *entry = hx_entry_find(blocks, where->id, what);
    if (entry) {
        entry->again = !entry->ahead;
        entry->ahead = false;
        hx_entry_unlink_use(blocks, entry);
    } else {
        if (derived == HX_PLAIN || derived == HX_PLUS_ONE) {
            HX_TRY(
                pack_stored(blocks, index->family, where, derived == HX_PLUS_ONE, column, &entry));
        } else if (derived == HX_STEPS) {
            HX_TRY(hx_blocks_make_steps(blocks, where, &entry));
        } else if (derived == HX_CLASS || derived == HX_PLACE) {
            HX_TRY(hx_blocks_make_classes(blocks, where, derived == HX_PLACE, &entry));
        } else {
            HX_TRY(hx_blocks_derive(blocks, index, where, derived, column));
            HX_TRY(hx_entry_pack(blocks, where->n, &entry));
            if (hx_blocks_has_sieve(derived) && !blocks->stash)
                hx_blocks_make_sieve(blocks, (struct hx_block_index *)index, block,
                                     &entry->decoded);
        }
        entry->snapshot = index->snapshot;
        entry->id = where->id;
        entry->what = what;
        hx_entry_put_in_slot(blocks, entry);
    }
    hx_entry_link_newest(blocks, entry);
    entry->users++;
    *ret = &entry->decoded;
    return NULL;
}

hx_error *hx_blocks_ends(hx_blocks *blocks, const struct hx_block_index *index, int column,
                         uint64_t *ret, bool *ret_there)
{
    struct hx_block ends = index->block[0];
    bool bad = false;
    ends.n = (uint32_t)hx_ends_values(column);
    HX_TRY(hx_blocks_decode_if_there(blocks, &ends, HX_COL_ENDS + column, ret, ret_there));
    for (size_t i = 0; i < HX_ENDS_VALUES && *ret_there; i++)
        bad |= ret[i] >= index->rows;
    if (!hx_ends_are_some(column))
        ret[HX_ENDS_VALUES] = index->rows;
    bad |= *ret_there && ret[HX_ENDS_VALUES] > index->rows;
    return bad ? hx_block_damaged("ends of an order") : NULL;
}

void hx_blocks_release(hx_blocks *blocks, const struct hx_decoded *column)
{
    (void)blocks;
    struct hx_entry *entry = (struct hx_entry *)column;
    if (entry && --entry->users == 0 && entry->forgotten)
        free(entry);
}

void hx_blocks_release_once(hx_blocks *blocks, const struct hx_decoded *column)
{
    struct hx_entry *entry = (struct hx_entry *)column;
    if (entry && !entry->again && !entry->forgotten && entry->users == 1) {
        entry->users = 0;
        hx_entry_drop(blocks, entry);
    } else {
        hx_blocks_release(blocks, column);
    }
}

hx_error *hx_blocks_address(hx_blocks *blocks, const struct hx_block_index *objects,
                            uint64_t object, uint64_t *ret)
{
    if (object >= objects->rows)
        return hx_block_damaged("an edge to nowhere");
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
        !hx_entry_find(blocks, block->id, hx_entry_what(HX_ADDRESS, 0)))
        return hx_blocks_search_addresses(blocks, block, key, ret);
    static const enum hx_derived keys[] = {[HX_FAMILY_OBJECT] = HX_ADDRESS,
                                           [HX_FAMILY_EDGE] = HX_SOURCE_OBJ,
                                           [HX_FAMILY_ROOT_EDGE] = HX_ROOT_NUMBER};
    const struct hx_decoded *column;
    HX_TRY(hx_blocks_column(blocks, index, low, keys[index->family], 0, &column));
    *ret = block->from + HX_LOWER_BOUND(block->n, i, hx_decoded_at(column, i) < key);
    hx_blocks_release(blocks, column);
    return NULL;
}
