/* type_merge.h - the tables of several files as one, and types by their names. */
#ifndef HX_MODEL_TYPE_MERGE_H
#define HX_MODEL_TYPE_MERGE_H

#include "base/index.h"
#include "model/type_table.h"

struct hx_merged_types {
    struct hx_type_table table; /* without variables */
    void *block;                /* that it lies in; owned */
    uint32_t **number;          /* number[i][t]: of type t of file i in the table; owned */
    size_t n;
};

/* Equal types of several files are one, and what is only declared in one is what another defines.
 */
hx_error *hx_type_tables_merge(const struct hx_type_table *const *table, size_t n,
                               struct hx_merged_types *ret);
void hx_merged_types_deinit(struct hx_merged_types *types); /* a zeroed one is legal */

/* Finds types by how they are spelled: a full name, before it '*' for each pointer and [N] for each
 * array: "*ns::Node", "[16]*bucket". A name that several types have, as those of several files in C
 * may, finds none. Borrows the table. */
struct hx_type_index {
    const struct hx_type_table *table;
    struct hx_index by_name, by_target;
};
hx_error *hx_type_index_init(struct hx_type_index *index, const struct hx_type_table *table);
void hx_type_index_deinit(struct hx_type_index *index);
uint32_t hx_type_table_find(const struct hx_type_index *index, const char *spelling); /* 0: none */

#endif
