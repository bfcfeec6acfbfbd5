/* probes_map.c - gives the probes what they unwind with: where code is mapped, and the tables of
 * its files.
 *
 * The maps are made once, large enough for what is mapped then and a good deal more. A file that
 * finds no room has no table; frames in it are taken by frame pointer.
 */
#include "base/cleanup.h"
#include "base/timing.h"
#include "record/bpf/probes_private.h"

#include <stdlib.h>
#include <string.h>

/* Room for code that is mapped later: 64 MiB of it with its rows. */
enum { spare_pieces = 1 << 18, spare_rows = 1 << 21, spare_rules = 1 << 15 };

/* Raw stacks that the kernel may send between two readings of the mappings. */
enum { raw_stacks = 256 };

static hx_error *build_file_table(struct hx_probe_tables *tables, uint32_t file,
                                  struct hx_unwind_table *ret)
{
    struct hx_cfi cfi;
    *ret = (struct hx_unwind_table){0};
    if (!hx_code_cfi(tables->code, file, &cfi))
        return NULL;
    return hx_unwind_table_build(&cfi, 0, UINT64_MAX, ret);
}

/* One entry of files for each number. */
static bool grow_file_entries(struct hx_probe_tables *tables, uint32_t file)
{
    while (tables->files.n <= file)
        if (!hx_vec_push(&tables->files, (struct hx_probe_file){0}))
            return false;
    return true;
}

static hx_error *count_mapping(struct hx_probe_tables *tables, const struct hx_space_part *part)
{
    if (part->file == HX_NO_FILE || part->file < tables->built.n)
        return NULL;
    while (tables->built.n <= part->file) {
        struct hx_unwind_table table;
        HX_TRY(build_file_table(tables, (uint32_t)tables->built.n, &table));
        if (!hx_vec_push(&tables->built, table)) {
            hx_unwind_table_deinit(&table);
            return hx_error_nomem();
        }
        tables->sizes.pieces += table.n_pieces;
        tables->sizes.rows += table.n_rows;
        tables->sizes.rules += table.n_rules;
    }
    return NULL;
}

hx_error *hx_probe_tables_init(struct hx_probe_tables *tables, hx_code *code, hx_space *space)
{
    *tables = (struct hx_probe_tables){.code = code, .space = space};
    const struct hx_space_part *part;
    size_t n = hx_space_parts(space, &part);
    for (size_t i = 0; i < n; i++)
        HX_TRY(count_mapping(tables, &part[i]));
    struct hx_probe_sizes *sizes = &tables->sizes;
    sizes->pieces += spare_pieces;
    sizes->rules += spare_rules + HX_PROBE_RULE_FIRST;
    if (sizes->rules > 1u << HX_PROBE_RULES_LOG2)
        sizes->rules = 1u << HX_PROBE_RULES_LOG2;
    sizes->rows = (sizes->rows + spare_rows) >> HX_PROBE_ROWS_LOG2;
    tables->rules = HX_PROBE_RULE_FIRST;
    return NULL;
}

void hx_probe_tables_deinit(struct hx_probe_tables *tables)
{
    for (size_t i = 0; i < tables->built.n; i++)
        hx_unwind_table_deinit(&tables->built.v[i]);
    hx_vec_free(&tables->built);
    hx_vec_free(&tables->files);
    free(tables->last);
    *tables = (struct hx_probe_tables){0};
}

void hx_probe_tables_forget(struct hx_probe_tables *tables)
{
    tables->files.n = 0;
    tables->pieces = tables->rows = 0;
    tables->rules = HX_PROBE_RULE_FIRST;
    free(hx_steal(tables->last));
    tables->n_last = 0;
    tables->too_large = 0;
}

void hx_probe_put_fixed(struct hx_unwind_rule *rule)
{
    rule[HX_PROBE_RULE_FP] = (struct hx_unwind_rule){
        .cfa = HX_UW_CFA_FP,
        .fp = HX_UW_SAVE_AT_CFA,
        .ra = HX_UW_SAVE_AT_CFA,
        .cfa_off = 16,
        .fp_off = -16,
        .ra_off = -8,
    };
    rule[HX_PROBE_RULE_MISS] = (struct hx_unwind_rule){.cfa = HX_UW_CFA_UNKNOWN};
}

static void put_file_unwind_table(struct hx_probe_tables *tables, struct hx_probe_kernel *kernel,
                                  const struct hx_unwind_table *table, struct hx_probe_file *file)
{
    uint64_t rows = (uint64_t)tables->sizes.rows << HX_PROBE_ROWS_LOG2;
    if (!table->span)
        return;
    if (table->n_pieces > tables->sizes.pieces - tables->pieces ||
        table->n_rows > rows - tables->rows ||
        table->n_rules > tables->sizes.rules - tables->rules) {
        tables->too_large++;
        return;
    }
    file->has_table = true;
    file->table = (struct hx_unwind_file){.start = table->start,
                                          .span = table->span,
                                          .pieces = tables->pieces,
                                          .rows = tables->rows,
                                          .rules = tables->rules};
    memcpy((struct hx_unwind_piece *)kernel->pieces.base + tables->pieces, table->pieces,
           table->n_pieces * sizeof *table->pieces);
    memcpy((struct hx_unwind_row *)kernel->rows.base + tables->rows, table->rows,
           table->n_rows * sizeof *table->rows);
    memcpy((struct hx_unwind_rule *)kernel->rules.base + tables->rules, table->rules,
           table->n_rules * sizeof *table->rules);
    tables->pieces += table->n_pieces;
    tables->rows += table->n_rows;
    tables->rules += table->n_rules;
}

/* The table of a file, which the kernel gets when it sees the file first. */
static hx_error *push_table(struct hx_probe_tables *tables, struct hx_probe_kernel *kernel,
                            uint32_t number)
{
    HX_NEED(grow_file_entries(tables, number));
    struct hx_probe_file *file = &tables->files.v[number];
    if (file->seen)
        return NULL;
    file->seen = true;
    struct hx_unwind_table table;
    if (number < tables->built.n && tables->built.v[number].pieces) {
        table = tables->built.v[number];
        tables->built.v[number] = (struct hx_unwind_table){0};
    } else {
        HX_TRY(build_file_table(tables, number, &table));
    }
    put_file_unwind_table(tables, kernel, &table, file);
    hx_unwind_table_deinit(&table);
    return NULL;
}

static hx_error *list_parts(struct hx_probe_tables *tables, struct hx_probe_kernel *kernel,
                            struct hx_probe_part *list, size_t *ret_n)
{
    const struct hx_space_part *part;
    size_t n = hx_space_parts(tables->space, &part), kept = 0;
    tables->too_many_parts = n > HX_PROBE_PARTS ? n - HX_PROBE_PARTS : 0;
    for (size_t i = 0; i < n && kept < HX_PROBE_PARTS; i++) {
        struct hx_probe_part p = {.start = part[i].start, .end = part[i].end};
        if (part[i].file != HX_NO_FILE) {
            HX_TRY(push_table(tables, kernel, part[i].file));
            const struct hx_probe_file *file = &tables->files.v[part[i].file];
            p.base = part[i].bias + file->table.start;
            if (file->has_table) {
                p.span = file->table.span;
                p.pieces = file->table.pieces;
                p.rows = file->table.rows;
                p.rules = file->table.rules;
            }
        }
        list[kept++] = p;
    }
    *ret_n = kept;
    return NULL;
}

static bool same_part(const struct hx_probe_part *a, const struct hx_probe_part *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Is any of what was mapped not there any more? Both are sorted. */
static bool lost_any(const struct hx_probe_part *was, size_t n_was, const struct hx_probe_part *now,
                     size_t n_now)
{
    size_t k = 0;
    for (size_t i = 0; i < n_was; i++) {
        while (k < n_now && now[k].start < was[i].start)
            k++;
        if (k == n_now || !same_part(&was[i], &now[k]))
            return true;
    }
    return false;
}

hx_error *hx_probe_tables_push(struct hx_probe_tables *tables, struct hx_probe_kernel *kernel)
{
    struct hx_probe_shared *shared = kernel->shared;
    HX_FREE struct hx_probe_part *list = calloc(HX_PROBE_PARTS, sizeof *list);
    size_t n = 0;
    HX_NEED(list);
    hx_probe_put_fixed(kernel->rules.base);
    HX_TRY(list_parts(tables, kernel, list, &n));
    bool lost = lost_any(tables->last, tables->n_last, list, n);
    if (lost || n != tables->n_last) {
        uint32_t side = !shared->side;
        memcpy(shared->part[side], list, n * sizeof *list);
        shared->n_parts[side] = (uint32_t)n;
        __atomic_store_n(&shared->side, side, __ATOMIC_RELEASE);
        if (lost) {
            shared->seed = shared->seed * 0x9e3779b97f4a7c15 + 1;
            shared->epoch++;
        }
        uint32_t generation = (shared->generation + 1) % HX_PROBE_GENERATIONS;
        if (!generation)
            memset(shared->cache, 0, sizeof shared->cache);
        __atomic_store_n(&shared->generation, generation ? generation : 1, __ATOMIC_RELEASE);
        free(tables->last);
        tables->last = hx_steal(list);
        tables->n_last = n;
    }
    __atomic_store_n(&shared->raw_left, raw_stacks, __ATOMIC_RELAXED);
    return NULL;
}
