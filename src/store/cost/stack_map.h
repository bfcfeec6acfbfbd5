/* stack_map.h - from whole stacks to the cost-centre stacks that they are attributed to. */
#ifndef HX_STORE_COST_STACK_MAP_H
#define HX_STORE_COST_STACK_MAP_H

#include "base/error.h"
#include "store/sqlite.h"

#include <stdint.h>

typedef struct hx_stack_map hx_stack_map;

/* hx_attributed as this connection sees it. In a store that has no such table a stack is its own.
 */
hx_error *hx_stack_map_load(sqlite3 *db, hx_stack_map **ret);
void hx_stack_map_free(hx_stack_map *map); /* NULL is legal */

/* The ccs_id of a stack_id; 0: there is none. */
uint64_t hx_stack_map_at(const hx_stack_map *map, uint64_t stack_id);

#endif
