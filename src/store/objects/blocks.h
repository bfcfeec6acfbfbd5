/* blocks.h - random access to the blocks of objects and edges, for the virtual tables.
 *
 * One hx_blocks belongs to one connection. It keeps the index of blocks of each snapshot
 * that was asked for, the names of types and bins, and decoded columns in as few bytes a value
 * as they need, least recently used out first. Finished snapshots change only when they are
 * revised: hx_blocks_refresh() and hx_blocks_forget() then drop what was kept. What somebody
 * still holds stays as it was until he gives it back.
 */
#ifndef HX_STORE_OBJECTS_BLOCKS_H
#define HX_STORE_OBJECTS_BLOCKS_H

#include "base/error.h"
#include "base/vec.h"
#include "store/objects/column_names.h"
#include "store/objects/packed_column.h"
#include "store/schema/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* rowid of the virtual tables = snapshot << HX_ROW_BITS | row */
#define HX_ROW_BITS 40
#define HX_ROWS_MAX ((uint64_t)1 << HX_ROW_BITS)

struct hx_block_index;
struct hx_block {
    const struct hx_block_index *index; /* that it stands in */
    int64_t id;
    uint64_t from; /* first row */
    uint32_t n;
    uint64_t first_key, last_key; /* see enum hx_family */
    uint64_t
        bytes; /* objects: sum of their sizes; edges: how many of the first source lie before */
};

/* The blocks of one family of one snapshot. Invariants: block[i].from == i * HX_BLOCK_ROWS,
 * all blocks but the last are full, block[i].last_key <= block[i + 1].first_key. */
struct hx_block_index {
    int64_t snapshot;
    enum hx_family family;
    struct hx_block *block;
    size_t n;
    uint64_t rows;
    uint64_t *
        *sieve;  /* for each block whose targets or dominators were decoded: which there may be */
    void *sizes; /* what sizes.c counted; NULL: nothing yet; owned */
    unsigned users; /* who hold it, blocks.c itself one of them */
};

/* A decoded column: value i is base + v[i], v in elements of 1 << shift bytes. */
struct hx_decoded {
    uint64_t base;
    unsigned shift;
    uint32_t n;
    const void *v;
};

/* No value of the column is above it. */
static inline uint64_t hx_decoded_most(const struct hx_decoded *column)
{
    uint64_t most = column->shift == 3 ? UINT64_MAX : ((uint64_t)1 << (8 << column->shift)) - 1;
    return column->base > UINT64_MAX - most ? UINT64_MAX : column->base + most;
}

static inline uint64_t hx_decoded_at(const struct hx_decoded *column, size_t i)
{
    switch (column->shift) {
    case 0:
        return column->base + ((const uint8_t *)column->v)[i];
    case 1:
        return column->base + ((const uint16_t *)column->v)[i];
    case 2:
        return column->base + ((const uint32_t *)column->v)[i];
    default:
        return column->base + ((const uint64_t *)column->v)[i];
    }
}

/* A loop over such values for each of their types. */
#define HX_BY_SHIFT(shift, LOOP)                                                                   \
    if ((shift) == 0)                                                                              \
        LOOP(uint8_t)                                                                              \
    else if ((shift) == 1)                                                                         \
        LOOP(uint16_t)                                                                             \
    else if ((shift) == 2)                                                                         \
        LOOP(uint32_t)                                                                             \
    else                                                                                           \
        LOOP(uint64_t)

/* Columns that are computed from the stored ones while they are decoded. */
enum hx_derived {
    HX_PLAIN,       /* as stored */
    HX_ADDRESS,     /* object: address, from gaps and sizes */
    HX_SOURCE_OBJ,  /* edge: index of the source */
    HX_TARGET_OBJ,  /* edge: index of the target */
    HX_ROOT_NUMBER, /* root edge: number of the root */
    HX_ROOT_TARGET_OBJ,
    HX_ROOT_WORD,    /* root edge: address of the word, 0: none */
    HX_PLUS_ONE,     /* as stored, plus 1; 0: absent */
    HX_DOMINATOR,    /* object: index of the dominator, plus 1; 0: none */
    HX_RETAINED,     /* object: retained bytes, plus 1; 0: NULL */
    HX_SURE,         /* object: the same over sure edges */
    HX_SURE_OBJECTS, /* object: retained objects over sure edges, plus 1; 0: NULL */
    HX_RANK,         /* edge, root edge: enum hx_rank by the snapshot's own rule, plus 1; 0: NULL */
    HX_CCS,          /* object: ccs_id that the stack of its site is attributed to; 0: NULL */
    HX_CLASS,        /* object: its class (classes.h) */
    HX_PLACE,        /* object, edge: where its row lies in columns that lie by class */
    HX_STEPS,        /* blocks.c's own, of objects: addresses of some rows only */
};

typedef struct hx_blocks hx_blocks;
hx_error *hx_blocks_create(sqlite3 *db, hx_blocks **ret);
void hx_blocks_ref(hx_blocks *blocks);
void hx_blocks_unref(hx_blocks *blocks); /* NULL is legal; the last one frees */

/* Statements hold the connection open: ends them until the next use. */
void hx_blocks_rest(hx_blocks *blocks);

/* Drops all that is kept of a snapshot, which was revised; of all, when stacks are attributed
 * anew. */
void hx_blocks_forget(hx_blocks *blocks, int64_t snapshot);
void hx_blocks_forget_all(hx_blocks *blocks);

/* Drops all that is kept of any snapshot when the file has changed since the last call, by
 * whomever. To be called before something is read for a new statement. */
void hx_blocks_refresh(hx_blocks *blocks);

/* Ends what a table function does now with HX_E_CANCEL; from any thread or a signal handler. A
 * statement that begins later is not concerned. */
void hx_blocks_interrupt(hx_blocks *blocks);
void hx_blocks_go_on(hx_blocks *blocks);
hx_error *hx_blocks_interrupted(const hx_blocks *blocks);

/* From `on` until off, what is decoded nobody looks at: it has little room and is then dropped. */
void hx_blocks_aloof(hx_blocks *blocks, bool on);

/* Was an index of that snapshot asked for before? */
bool hx_blocks_knows(const hx_blocks *blocks, int64_t snapshot);

/* The index of a snapshot that is finished, as its row in hx_snapshot says. *ret stays valid
 * until hx_blocks_index_done(*ret). A snapshot without rows of the family has an index without
 * blocks. */
hx_error *hx_blocks_index(hx_blocks *blocks, int64_t snapshot, enum hx_family family,
                          const struct hx_block_index **ret);
void hx_blocks_index_done(hx_blocks *blocks, const struct hx_block_index *index); /* or NULL */

/* Decodes (or finds) a column of a block of `index`; `column` names the stored one for
 * HX_PLAIN and HX_PLUS_ONE. A column that an analysis would have made and that is not there is
 * all 0. *ret stays valid until hx_blocks_release(*ret). */
hx_error *hx_blocks_column(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           enum hx_derived derived, int column, const struct hx_decoded **ret);
void hx_blocks_release(hx_blocks *blocks, const struct hx_decoded *column);

/* So many blocks can be decoded aside at once, each on a thread of its own; 0: there is one core.
 */
enum { HX_ASIDES = 4 };
size_t hx_blocks_asides(void);

/* Begins to decode columns of a block on another thread, for who goes over blocks one after the
 * other and decodes the one before meanwhile; until all such are ended only hx_blocks_column(),
 * _pick() and _release() are for anybody. Where it makes no sense nothing is begun, and what is
 * wrong with a column hx_blocks_column() tells. */
enum { HX_WANTED_MAX = 4 }; /* columns; more are not decoded aside */
struct hx_wanted {
    enum hx_derived derived;
    int column;
};
void hx_blocks_begin_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           const struct hx_wanted *wanted, size_t n);
/* The same for rows that will be picked: hx_blocks_pick() of the same ones has their values then.
 */
enum { HX_PICKED_MAX = 8192 }; /* rows; more are not picked aside */
void hx_blocks_begin_pick_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                                enum hx_derived derived, int column, const uint16_t *at, size_t n);
/* Ends all that was begun; what was decoded is kept as if it had been asked for. */
void hx_blocks_end_asides(hx_blocks *blocks);

/* False: no row of the block has that value in the column. */
bool hx_blocks_may_hold(const struct hx_block_index *index, size_t block, enum hx_derived derived,
                        uint64_t value);

/* What top.c keeps of one connection, from one window to the next; goes with what it was made of.
 */
struct hx_kept_tops;
struct hx_kept_tops **hx_blocks_tops(hx_blocks *blocks);

/* The edges to one object, as far as they were looked for: a list of them is read window by window,
 * and none of them begins anew. */
enum { HX_FOUND_MAX = 1 << 16 };
struct hx_found {
    int64_t snapshot; /* 0: nothing here */
    uint64_t target;  /* index */
    HX_VEC(uint64_t) row;
    uint64_t end;   /* there are no others before this row */
    unsigned begun; /* another number for each target */
};
struct hx_found *hx_blocks_found(hx_blocks *blocks);
void hx_found_begin(struct hx_found *found, int64_t snapshot, uint64_t target);

/* What the statement that begins now is asked besides (window.h); NULL: nothing. */
struct hx_window;
struct hx_window **hx_blocks_window(hx_blocks *blocks);

/* The same for who reads whole tables once: what nobody else has asked for is not kept. */
void hx_blocks_release_once(hx_blocks *blocks, const struct hx_decoded *column);

/* The values of some rows of a block: of the n <= HX_BLOCK_ROWS numbers in `at`, each below the
 * block's rows. Costs less than decoding the block, which is then not kept; of one row that is
 * asked for often it is. */
hx_error *hx_blocks_pick(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                         enum hx_derived derived, int column, const uint16_t *at, size_t n,
                         uint64_t *ret);

/* The same of any rows, rising and below the index's rows: on two threads, where they lie in
 * several blocks. */
hx_error *hx_blocks_pick_rows(hx_blocks *blocks, const struct hx_block_index *index,
                              enum hx_derived derived, int column, const uint64_t *row, size_t n,
                              uint64_t *ret);

/* The ends of the order by a stored column of objects (ends.h), HX_ENDS_ROOM values with how many
 * rows it has; *ret_there false: none are stored. */
hx_error *hx_blocks_ends(hx_blocks *blocks, const struct hx_block_index *index, int column,
                         uint64_t *ret, bool *ret_there);

/* The names of types or of bins of a snapshot; *ret stays valid until the next call. */
hx_error *hx_blocks_names(hx_blocks *blocks, int64_t snapshot, enum hx_name_list list,
                          const hx_names **ret);

/* The address of an object by its index. */
hx_error *hx_blocks_address(hx_blocks *blocks, const struct hx_block_index *objects,
                            uint64_t object, uint64_t *ret);

/* The first row whose key is >= key (index->rows when none is): a binary search over the
 * index and in one block. Objects: address; edges: source's index; root edges: root. */
hx_error *hx_blocks_lower_bound(hx_blocks *blocks, const struct hx_block_index *index, uint64_t key,
                                uint64_t *ret);

#endif
