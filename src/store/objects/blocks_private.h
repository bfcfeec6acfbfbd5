/* blocks_private.h - what the files of blocks.h share: a connection's blocks, and entries of its
 * cache. */
#ifndef HX_STORE_OBJECTS_BLOCKS_PRIVATE_H
#define HX_STORE_OBJECTS_BLOCKS_PRIVATE_H

#include "base/parallel.h"
#include "store/cost/stack_map.h"
#include "store/db.h"
#include "store/objects/blocks.h"
#include "traverse/hold/rules.h"

#include <stdatomic.h>

enum { HX_ENTRY_SLOTS = 1 << 12 };

struct hx_entry {
    struct hx_decoded decoded; /* first: the caller's pointer is the entry's */
    int64_t snapshot, id;      /* of the block */
    unsigned what;             /* derived << 8 | column */
    unsigned users;
    bool again;     /* it was asked for more than once */
    bool ahead;     /* it was decoded aside, and nobody has asked for it yet */
    bool aloof;     /* it was decoded aloof */
    bool forgotten; /* in no list any more; the last user frees it */
    size_t bytes;
    struct hx_entry *next;          /* in the slot */
    struct hx_entry *newer, *older; /* by use */
};

struct hx_named_list {
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
    HX_VEC(struct hx_named_list) named;
    size_t name_bytes, last_named; /* the index in `named` that was asked for last */
    hx_stack_map *stacks;          /* NULL: not asked for yet */
    int64_t ruled;                 /* the snapshot whose rules these are; 0: none */
    struct hx_hold_options rules;
    struct hx_entry *slot[HX_ENTRY_SLOTS];
    struct hx_entry *newest, *oldest;
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
    struct hx_blocks_aside *aside[HX_ASIDES]; /* NULL: nothing was decoded there yet */
    struct asked { /* for one row of a block: it costs less than all, for a while */
        int64_t id;
        unsigned what, times;
    } asked[1024];
    const struct hx_stash *stash; /* where columns lie that are decoded aside; NULL: in the store */
    uint64_t value[HX_BLOCK_ROWS], other[HX_BLOCK_ROWS], spare[HX_BLOCK_ROWS];
};

/* Columns of one block as they are stored, copied for another thread. */
enum { HX_STASHED = 4 * HX_WANTED_MAX, HX_SOURCES_MAX = 4 };
struct hx_stash {
    struct stashed {
        int64_t id; /* as in hx_column */
        void *blob; /* owned */
        size_t bytes, room;
        bool there;
    } column[HX_STASHED];
    size_t n;
    const struct hx_decoded *place; /* where rows lie by class; NULL: not known yet; held */
    const struct hx_decoded *size;  /* of objects; the same */
    struct {                        /* of edges: columns of the objects that they come from, held */
        size_t number;              /* of the block */
        enum hx_derived derived;
        const struct hx_decoded *column;
    } object[2 * HX_SOURCES_MAX];
    size_t objects;
    const struct hx_block_index *next; /* of the objects: classes of the block with that number, */
    size_t next_block;                 /* which the block behind wants, are made, too; NULL: not */
};

/* What was picked on another thread: values of rows of a block, as hx_blocks_pick() gives them. */
struct hx_picked {
    int64_t id;
    unsigned what;
    size_t n; /* 0: nothing */
    uint16_t at[HX_PICKED_MAX];
    uint64_t value[HX_PICKED_MAX];
};

/* Decoding on another thread: by blocks of its own, whose entries are then moved; or picking. */
struct hx_blocks_aside {
    struct hx_helper thread;
    hx_blocks *blocks;
    struct hx_stash stash;
    const struct hx_block_index *index;
    size_t block;
    struct hx_wanted wanted[HX_WANTED_MAX];
    size_t n;
    struct hx_picked picked[2]; /* the one that is made, where n is not 0, and the one before */
    unsigned picking;           /* which of them is made */
    bool begun;
};

/* --- block_cache.c: decoded columns that are kept --- */

/* The entry of a block; what: hx_entry_what(). NULL: there is none. */
struct hx_entry *hx_entry_find(hx_blocks *blocks, int64_t id, unsigned what);
unsigned hx_entry_what(enum hx_derived derived, int column);

/* New ones, in no list yet: with room for n values of 1 << shift bytes, or with the first n of
 * blocks->value. hx_entry_shift(): how large values must be for such a range. */
hx_error *hx_entry_make(hx_blocks *blocks, uint64_t base, unsigned shift, size_t n,
                        struct hx_entry **ret);
hx_error *hx_entry_pack(hx_blocks *blocks, size_t n, struct hx_entry **ret);
unsigned hx_entry_shift(uint64_t range);

/* An entry is in a slot, where it is found, and in the list by use. */
void hx_entry_put_in_slot(hx_blocks *blocks, struct hx_entry *entry);
void hx_entry_unlink_from_slot(hx_blocks *blocks, struct hx_entry *entry);
void hx_entry_link_newest(hx_blocks *blocks, struct hx_entry *entry);
void hx_entry_unlink_use(hx_blocks *blocks, struct hx_entry *entry);

/* Takes it out of both; whoever holds it still has it. */
void hx_entry_drop(hx_blocks *blocks, struct hx_entry *entry);

/* Makes room for so many bytes. */
void hx_blocks_evict(hx_blocks *blocks, size_t bytes);

/* --- block_decode.c: columns of a block, as they are stored and computed --- */

/* Reads a column as it is stored, which lasts until blocks->column is reset; NULL: absent. */
hx_error *hx_blocks_find_blob(hx_blocks *blocks, int64_t id, const void **ret, size_t *ret_bytes);

/* A column that may be absent is all 0 then, which *ret_there tells; NULL: it has to be there. */
hx_error *hx_blocks_decode_if_there(hx_blocks *blocks, const struct hx_block *block, int column,
                                    uint64_t *value, bool *ret_there);

/* Is it one of those that an analysis adds? */
bool hx_column_is_optional(enum hx_family family, int column);

/* Leaves the values of a column that is computed in blocks->value. */
hx_error *hx_blocks_derive(hx_blocks *blocks, const struct hx_block_index *index,
                           const struct hx_block *block, enum hx_derived derived, int column);

/* Classes of the rows, or their places by class. */
hx_error *hx_blocks_make_classes(hx_blocks *blocks, const struct hx_block *block, bool places,
                                 struct hx_entry **ret);

/* Begins to read a column: the caller calls hx_blocks_done_planes() at the end, and before that has
 * the planes. *ret_there false: it is not there; `must`: then that is an error. */
hx_error *hx_blocks_find_planes(hx_blocks *blocks, const struct hx_block *block, int column,
                                bool must, struct hx_planes *ret, bool *ret_there);
hx_error *hx_blocks_has_column(hx_blocks *blocks, const struct hx_block *block, int column,
                               bool *ret);
void hx_blocks_done_planes(hx_blocks *blocks, enum hx_family family);

/* A column of block `number` of the objects that a block of edges comes from: held, unless a stash
 * has it. */
hx_error *hx_blocks_find_objects(hx_blocks *blocks, const struct hx_block *block, size_t number,
                                 enum hx_derived derived, int column,
                                 const struct hx_decoded **ret);

/* --- block_pick.c: some rows of a block --- */

/* Were they picked aside? Those of a snapshot that was revised have to be forgotten. */
bool hx_blocks_take_picked(hx_blocks *blocks, int64_t id, unsigned what, const uint16_t *at,
                           size_t n, uint64_t *ret);

void hx_blocks_forget_picked(hx_blocks *blocks);

/* The first row of the block whose address is >= key, which is above the first one. */
hx_error *hx_blocks_search_addresses(hx_blocks *blocks, const struct hx_block *block, uint64_t key,
                                     uint64_t *ret);

/* HX_STEPS of a block. */
hx_error *hx_blocks_make_steps(hx_blocks *blocks, const struct hx_block *block,
                               struct hx_entry **ret);

/* --- blocks.c --- */

/* Without memory there is none. */
void hx_blocks_make_sieve(hx_blocks *blocks, struct hx_block_index *index, size_t block,
                          const struct hx_decoded *column);

/* Each index has one column that is asked for single values. */
bool hx_blocks_has_sieve(enum hx_derived derived);
hx_error *hx_block_damaged(const char *how);

#endif
