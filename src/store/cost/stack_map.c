/* stack_map.c - a table from stacks to cost-centre stacks: an array by number, as numbers are dense
 * enough unless a store lies, else sorted pairs. */
#include "store/cost/stack_map.h"

#include "base/lower_bound.h"
#include "base/vec.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdlib.h>

struct pair {
    uint64_t stack_id, ccs_id;
};

struct hx_stack_map {
    bool same;                /* each stack is its own */
    HX_VEC(struct pair) pair; /* by stack_id */
    uint64_t *ccs_id;         /* by stack_id, below n; NULL: search */
    size_t n;
};

/* How many numbers there may be for a stack: as many as stacks have frames. */
enum { FRAMES_A_STACK = 512, SMALL = 1 << 16 };

static hx_error *read_pairs(sqlite3 *db, hx_stack_map *map)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, "store",
                         "SELECT stack_id, ccs_id FROM hx_attributed ORDER BY stack_id", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct pair pair = {(uint64_t)sqlite3_column_int64(st, 0),
                            (uint64_t)sqlite3_column_int64(st, 1)};
        if ((int64_t)pair.stack_id < 1 || (int64_t)pair.ccs_id < 1)
            return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                                "the store is damaged (cost-centre stacks)");
        HX_NEED(hx_vec_push(&map->pair, pair));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(db, code, "store");
}

static hx_error *spread_stacks(hx_stack_map *map)
{
    uint64_t last = map->pair.n ? map->pair.v[map->pair.n - 1].stack_id : 0;
    if (last / FRAMES_A_STACK > map->pair.n && last > SMALL)
        return NULL;
    map->n = (size_t)last + 1;
    map->ccs_id = calloc(map->n, sizeof *map->ccs_id);
    HX_NEED(map->ccs_id);
    for (size_t i = 0; i < map->pair.n; i++)
        map->ccs_id[map->pair.v[i].stack_id] = map->pair.v[i].ccs_id;
    hx_vec_free(&map->pair);
    return NULL;
}

hx_error *hx_stack_map_load(sqlite3 *db, hx_stack_map **ret)
{
    hx_stack_map *map = calloc(1, sizeof *map);
    HX_NEED(map);
    map->same = sqlite3_table_column_metadata(db, NULL, "hx_attributed", NULL, NULL, NULL, NULL,
                                              NULL, NULL) != SQLITE_OK;
    hx_error *err = map->same ? NULL : read_pairs(db, map);
    if (!err)
        err = spread_stacks(map);
    if (err) {
        hx_stack_map_free(map);
        return err;
    }
    *ret = map;
    return NULL;
}

void hx_stack_map_free(hx_stack_map *map)
{
    if (!map)
        return;
    hx_vec_free(&map->pair);
    free(map->ccs_id);
    free(map);
}

uint64_t hx_stack_map_at(const hx_stack_map *map, uint64_t stack_id)
{
    if (map->same)
        return stack_id;
    if (map->ccs_id)
        return stack_id < map->n ? map->ccs_id[stack_id] : 0;
    size_t low = HX_LOWER_BOUND(map->pair.n, i, map->pair.v[i].stack_id < stack_id);
    bool found = low < map->pair.n && map->pair.v[low].stack_id == stack_id;
    return found ? map->pair.v[low].ccs_id : 0;
}
