/* named.c - from the expressions that name roots to the edges that they stand for.
 *
 * The new set is made beside the old one and takes its place at the end, so that a snapshot is
 * left as it was when something fails.
 */
#include "traverse/named.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "query/pattern.h"
#include "sym/cxxname.h"
#include "traverse/expression.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* So many roots without edges get a sentence of their own; the others are counted. */
enum { NOTES_MAX = 20 };

/* --- the roots that are there anyway ---------------------------------------------------- */

struct builder {
    struct hx_snapshot *snapshot;
    uint32_t n;           /* roots that stay: what is behind them are old named ones */
    uint32_t *by_name;    /* those, by name and number */
    uint32_t *by_address; /* globals, by address */
    uint32_t n_globals;
    /* the new set; rows[i] becomes root n + i, and so its edges say */
    HX_VEC(struct hx_named) named;
    HX_VEC(struct hx_root) rows;
    HX_VEC(struct hx_root_edge) edges;
    HX_VEC(hx_obj) targets; /* to count distinct ones */
    size_t missing, words;  /* named roots without edges; that are one word among others */
    struct hx_text notes;
};

static void builder_deinit(struct builder *builder)
{
    free(builder->by_name);
    free(builder->by_address);
    for (size_t i = 0; i < builder->named.n; i++) {
        free(builder->named.v[i].name);
        free(builder->named.v[i].expr);
    }
    for (size_t i = 0; i < builder->rows.n; i++)
        hx_root_deinit(&builder->rows.v[i]);
    hx_vec_free(&builder->named);
    hx_vec_free(&builder->rows);
    hx_vec_free(&builder->edges);
    hx_vec_free(&builder->targets);
    hx_text_free(&builder->notes);
}

static int compare_row_names(const void *a, const void *b, void *context)
{
    const struct hx_root *roots = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(roots[x].name, roots[y].name);
    return order ? order : (x > y) - (x < y);
}

static int compare_global_addresses(const void *a, const void *b, void *context)
{
    const struct hx_root *roots = context;
    const struct hx_root *x = &roots[*(const uint32_t *)a], *y = &roots[*(const uint32_t *)b];
    return (x->address > y->address) - (x->address < y->address);
}

static hx_error *make_indexes(struct builder *builder)
{
    const struct hx_root *roots = builder->snapshot->roots.v;
    builder->by_name = calloc((size_t)builder->n + 1, sizeof *builder->by_name);
    builder->by_address = calloc((size_t)builder->n + 1, sizeof *builder->by_address);
    HX_NEED(builder->by_name && builder->by_address);
    for (uint32_t i = 0; i < builder->n; i++) {
        builder->by_name[i] = i;
        if (roots[i].kind == HX_ROOT_GLOBAL)
            builder->by_address[builder->n_globals++] = i;
    }
    if (!builder->n)
        return NULL;
    qsort_r(builder->by_name, builder->n, sizeof(uint32_t), compare_row_names, (void *)roots);
    qsort_r(builder->by_address, builder->n_globals, sizeof(uint32_t), compare_global_addresses,
            (void *)roots);
    return NULL;
}

/* The first place in by_name whose name is not below `name`. */
static uint32_t first_named(const struct builder *builder, const char *name)
{
    return HX_LOWER_BOUND(builder->n, i,
                          strcmp(builder->snapshot->roots.v[builder->by_name[i]].name, name) < 0);
}

/* The global that contains addr; UINT32_MAX when none does. */
static uint32_t global_at(const struct builder *builder, uint64_t addr)
{
    const struct hx_root *roots = builder->snapshot->roots.v;
    uint32_t low =
        HX_LOWER_BOUND(builder->n_globals, i, roots[builder->by_address[i]].address <= addr);
    if (!low)
        return UINT32_MAX;
    const struct hx_root *root = &roots[builder->by_address[low - 1]];
    return addr - root->address < root->size ? builder->by_address[low - 1] : UINT32_MAX;
}

/* --- rows of their own -------------------------------------------------------------------- */

/* What one expression stands for. */
struct meaning {
    uint32_t whole; /* this root; UINT32_MAX: a row of its own, with the edges behind `first` */
    size_t first;
    uint64_t address, size;
    const char *module; /* of all its roots; "" when they differ, NULL when there is none */
    bool nameless;      /* an address among data without symbols */
};

static hx_error *add_edge(struct builder *builder, hx_obj target, uint64_t address, uint8_t kind)
{
    struct hx_root_edge edge = {
        .target = target, .address = address, .kind = kind, .evidence = HX_EVIDENCE(0, kind)};
    return hx_vec_push(&builder->edges, edge) ? NULL : hx_error_nomem();
}

static hx_error *add_named_root(struct builder *builder, uint32_t number, struct meaning *meaning)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    const struct hx_root *root = &snapshot->roots.v[number];
    if (!meaning->module) {
        meaning->module = root->module;
        if (root->kind != HX_ROOT_REGISTER) {
            meaning->address = root->address;
            meaning->size = root->size;
        }
    } else {
        if (strcmp(meaning->module, root->module) != 0)
            meaning->module = "";
        meaning->address = meaning->size = 0;
    }
    for (size_t i = hx_snapshot_root_edges(snapshot, number);
         i < snapshot->root_edges.n && snapshot->root_edges.v[i].root == number; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        HX_TRY(add_edge(builder, edge->target, edge->address, edge->kind));
    }
    return NULL;
}

/* The roots of one name, in a module or (NULL) in any. */
struct search {
    const char *module;
    size_t module_len;
    uint32_t found, last; /* how many, and one of them */
};

static bool is_in_searched_module(const struct search *search, const struct hx_root *root)
{
    return !search->module || (strncmp(root->module, search->module, search->module_len) == 0 &&
                               root->module[search->module_len] == 0);
}

/* Takes the edges of a root when it is one of those that are searched for. */
static hx_error *add_found(struct builder *builder, uint32_t number, struct search *search,
                           struct meaning *meaning)
{
    const struct hx_root *root = &builder->snapshot->roots.v[number];
    if (root->kind == HX_ROOT_NAMED || !is_in_searched_module(search, root))
        return NULL;
    search->last = number;
    search->found++;
    return add_named_root(builder, number, meaning);
}

/* Those that the linker knows by the name; else those that are called so. */
static hx_error *add_called(struct builder *builder, const char *name, struct search *search,
                            struct meaning *meaning)
{
    const struct hx_root *roots = builder->snapshot->roots.v;
    for (uint32_t i = 0; i < builder->n; i++)
        if (roots[i].symbol && strcmp(roots[i].symbol, name) == 0)
            HX_TRY(add_found(builder, i, search, meaning));
    if (search->found)
        return NULL;
    for (uint32_t i = first_named(builder, name); i < builder->n; i++) {
        uint32_t number = builder->by_name[i];
        if (strcmp(roots[number].name, name) != 0)
            break;
        HX_TRY(add_found(builder, number, search, meaning));
    }
    return NULL;
}

/* Those that a C++ program calls so; at first without looking into nameless namespaces. */
static hx_error *add_cxx(struct builder *builder, const char *symbol, struct search *search,
                         struct meaning *meaning)
{
    const struct hx_root *roots = builder->snapshot->roots.v;
    HX_CLEANUP(hx_cxx_name_deinit) struct hx_cxx_name name = {0};
    HX_TRY(hx_cxx_name_init(symbol, &name));
    for (int inner = 0; inner < 2 && !search->found; inner++)
        for (uint32_t i = 0; i < builder->n; i++)
            if (hx_cxx_name_is(&name, roots[i].symbol, inner))
                HX_TRY(add_found(builder, i, search, meaning));
    return NULL;
}

/* Takes the edges of all roots of that name, else of that name in C++; a single global as a
 * whole. */
static hx_error *find_symbol(struct builder *builder, struct search *search, const char *symbol,
                             struct meaning *meaning)
{
    HX_TRY(add_called(builder, symbol, search, meaning));
    if (!search->found)
        HX_TRY(add_cxx(builder, symbol, search, meaning));
    if (search->found == 1 && builder->snapshot->roots.v[search->last].kind == HX_ROOT_GLOBAL) {
        meaning->whole = search->last;
        builder->edges.n = meaning->first;
    }
    return NULL;
}

/* --- parts of variables ------------------------------------------------------------------- */

/* Is the field `path` what `wanted` (n bytes, "" for all) says, or a part of that? */
static bool is_part(const char *path, const char *wanted, size_t n)
{
    return strncmp(path, wanted, n) == 0 && (!n || !path[n] || path[n] == '.' || path[n] == '[');
}

/* Where the path of fields at `at` ends: at "->" or the end. */
static const char *path_end(const char *at)
{
    const char *arrow = strstr(at, "->");
    return arrow ? arrow : at + strlen(at);
}

/* The words of a root that lie in a part of it; *ret_known: are its fields? */
static hx_error *add_part_of_root(struct builder *builder, uint32_t number, const char *path,
                                  size_t n, bool *ret_known)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    HX_CLEANUP(hx_text_free) struct hx_text field = {0};
    *ret_known = snapshot->roots.v[number].layout != 0;
    for (size_t i = hx_snapshot_root_edges(snapshot, number);
         *ret_known && i < snapshot->root_edges.n && snapshot->root_edges.v[i].root == number;
         i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        hx_text_clear(&field);
        hx_snapshot_put_root_field(snapshot, number, edge->address, &field);
        if (is_part(hx_text_str(&field), path, n))
            HX_TRY(add_edge(builder, edge->target, edge->address, edge->kind));
    }
    return field.failed ? hx_error_nomem() : NULL;
}

/* The same of the objects that the edges behind meaning->first lead to, in place of these. */
static hx_error *follow_part(struct builder *builder, const char *path, size_t n,
                             const struct meaning *meaning, bool *ret_known)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    HX_CLEANUP(hx_text_free) struct hx_text field = {0};
    const size_t end = builder->edges.n;
    *ret_known = end == meaning->first;
    for (size_t i = meaning->first; i < end; i++) {
        const hx_obj object = builder->edges.v[i].target;
        *ret_known |= graph->type && graph->type[object] < snapshot->types.n &&
                      snapshot->types.v[graph->type[object]].layout;
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
            const uint64_t offset = hx_edge_offset(graph->edge[e]);
            hx_text_clear(&field);
            if (hx_snapshot_put_field(snapshot, object, offset, &field) &&
                is_part(hx_text_str(&field), path, n))
                HX_TRY(add_edge(builder, hx_edge_target(graph->edge[e]),
                                graph->addr[object] + offset,
                                (uint8_t)hx_edge_kind_of(graph->edge[e])));
        }
    }
    const size_t found = builder->edges.n - end;
    if (found)
        memmove(builder->edges.v + meaning->first, builder->edges.v + end,
                found * sizeof *builder->edges.v);
    builder->edges.n = meaning->first + found;
    return field.failed ? hx_error_nomem() : NULL;
}

/* A thread-local variable is one root for each thread. */
static bool is_same_variable(const struct builder *builder, uint32_t root, uint32_t as)
{
    const struct hx_root *x = &builder->snapshot->roots.v[root],
                         *y = &builder->snapshot->roots.v[as];
    return root == as ||
           (x->kind == HX_ROOT_TLS && y->kind == HX_ROOT_TLS && x->symbol && y->symbol &&
            strcmp(x->symbol, y->symbol) == 0 && strcmp(x->module, y->module) == 0);
}

static bool is_one_variable(const struct builder *builder, const struct search *search)
{
    size_t n = 0;
    for (uint32_t i = 0; search->found && i <= search->last; i++)
        n += is_same_variable(builder, i, search->last);
    return n && n == search->found;
}

/* symbol.field[3]->field: the words of a part of a variable, and of what they point to. */
static hx_error *mean_part(struct builder *builder, const char *expr, struct meaning *meaning)
{
    const char *mark = strchr(expr, '!');
    struct search search = {0};
    bool known;
    if (mark)
        search = (struct search){.module = expr, .module_len = (size_t)(mark - expr)};
    const char *symbol = mark ? mark + 1 : expr;
    size_t n = strcspn(symbol, ".[-");
    HX_FREE char *name = strndup(symbol, n);
    HX_NEED(name);
    HX_TRY(find_symbol(builder, &search, name, meaning));
    if (!is_one_variable(builder, &search))
        return search.found || strstr(symbol, "->") || strchr(symbol, '[')
                   ? hx_expression_needs_debug(expr) /* or several have the name */
                   : NULL;                           /* a dot in a name that is not there */
    meaning->whole = UINT32_MAX;
    builder->edges.n = meaning->first;
    const char *path = symbol + n, *end = path_end(path);
    path += *path == '.';
    bool any = false;
    for (uint32_t i = 0; i <= search.last; i++) {
        if (!is_same_variable(builder, i, search.last))
            continue;
        HX_TRY(add_part_of_root(builder, i, path, (size_t)(end - path), &known));
        any |= known;
    }
    if (!any || (end > path && builder->edges.n == meaning->first))
        return hx_expression_needs_debug(expr);
    meaning->module = builder->snapshot->roots.v[search.last].module;
    meaning->address = meaning->size = 0;
    while (*end) {
        path = end + 2;
        end = path_end(path);
        HX_TRY(follow_part(builder, path, (size_t)(end - path), meaning, &known));
        if (!known)
            return hx_expression_needs_debug(expr);
    }
    return NULL;
}

static hx_error *mean_symbol(struct builder *builder, const char *expr, struct meaning *meaning)
{
    struct search search = {0};
    HX_TRY(find_symbol(builder, &search, expr, meaning));
    const char *mark = search.found ? NULL : strchr(expr, '!');
    if (mark) {
        search = (struct search){.module = expr, .module_len = (size_t)(mark - expr)};
        HX_TRY(find_symbol(builder, &search, mark + 1, meaning));
    }
    return !search.found && hx_expression_has_part(expr) ? mean_part(builder, expr, meaning) : NULL;
}

/* A frame is no variable of its module. */
static bool belongs_to(const struct hx_root *root, const struct hx_expression *expression)
{
    switch (expression->form) {
    case HX_FORM_THREAD:
        return root->tid > 0 && (uint64_t)root->tid == expression->number;
    case HX_FORM_FRAME:
        return root->kind == HX_ROOT_FRAME &&
               strlen(expression->text) == hx_root_function_length(root) &&
               strncmp(root->name, expression->text, strlen(expression->text)) == 0;
    default:
        return root->kind != HX_ROOT_FRAME && strcmp(root->module, expression->text) == 0;
    }
}

/* All roots of a thread, a module or a function. */
static hx_error *mean_roots(struct builder *builder, const struct hx_expression *expression,
                            struct meaning *meaning)
{
    for (uint32_t i = 0; i < builder->n; i++) {
        const struct hx_root *root = &builder->snapshot->roots.v[i];
        if (root->kind != HX_ROOT_NAMED && belongs_to(root, expression))
            HX_TRY(add_named_root(builder, i, meaning));
    }
    return NULL;
}

static hx_error *mean_type(struct builder *builder, const char *pattern)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    HX_FREE bool *wanted = calloc(snapshot->types.n + 1, sizeof *wanted);
    HX_NEED(wanted);
    hx_patterns *patterns;
    HX_TRY(hx_patterns_create(&pattern, 1, &patterns));
    for (size_t i = 0; i < snapshot->types.n; i++)
        wanted[i] = hx_patterns_match(patterns, snapshot->types.v[i].name);
    hx_patterns_destroy(patterns);
    for (hx_obj i = 0; graph->type && i < graph->n; i++)
        if (graph->type[i] < snapshot->types.n && wanted[graph->type[i]])
            HX_TRY(add_edge(builder, i, 0, HX_EDGE_START));
    return NULL;
}

/* The pointer in the word at addr, which is one of an object or of a root. */
static hx_error *mean_pointer(struct builder *builder, uint64_t addr, struct meaning *meaning)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    hx_obj object = hx_graph_find(graph, addr);
    meaning->address = addr;
    meaning->size = 8;
    if (object != HX_NO_OBJ && graph->fwd) {
        uint64_t offset = addr - graph->addr[object];
        hx_eidx e = hx_graph_edge_from(graph, object, offset);
        if (e < graph->fwd[(size_t)object + 1] && hx_edge_offset(graph->edge[e]) == offset)
            return add_edge(builder, hx_edge_target(graph->edge[e]), addr,
                            (uint8_t)hx_edge_kind_of(graph->edge[e]));
        return NULL;
    }
    for (size_t i = 0; addr && i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (edge->address == addr && edge->root < builder->n)
            return add_edge(builder, edge->target, addr, edge->kind);
    }
    return NULL;
}

/* The pointer in the word at addr of a global without a symbol. */
static hx_error *mean_word(struct builder *builder, uint32_t global, uint64_t addr,
                           struct meaning *meaning)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    size_t first = hx_snapshot_root_edges(snapshot, global);
    size_t n = hx_snapshot_root_edges(snapshot, (uint64_t)global + 1) - first;
    const struct hx_root_edge *edge = snapshot->root_edges.v + first;
    size_t at = HX_LOWER_BOUND(n, i, edge[i].address < addr);
    meaning->nameless = true;
    meaning->address = addr;
    meaning->size = 8;
    meaning->module = snapshot->roots.v[global].module;
    if (at == n || edge[at].address != addr)
        return NULL;
    return add_edge(builder, edge[at].target, addr, edge[at].kind);
}

/* The object that contains addr, itself counted whatever --interior says; or a whole global. Where
 * no symbol tells one variable from the next, only the word at addr is sure to belong to it. */
static hx_error *mean_object(struct builder *builder, uint64_t addr, struct meaning *meaning)
{
    hx_obj object = hx_graph_find(&builder->snapshot->graph, addr);
    if (object != HX_NO_OBJ)
        return add_edge(builder, object, 0, HX_EDGE_START);
    uint32_t global = global_at(builder, addr);
    if (global != UINT32_MAX && hx_root_is_nameless(&builder->snapshot->roots.v[global]))
        return mean_word(builder, global, addr, meaning);
    meaning->whole = global;
    return NULL;
}

/* --- what stands for nothing ---------------------------------------------------------------- */

static void note_address(struct builder *builder, uint64_t addr)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    if (!addr) {
        hx_text_puts(&builder->notes, "a null pointer");
        return;
    }
    for (uint32_t i = 0; i < builder->n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind == HX_ROOT_REGISTER || root->kind == HX_ROOT_NAMED ||
            addr - root->address >= root->size)
            continue;
        hx_text_putf(&builder->notes, "0x%" PRIx64 " lies in no object but in %s", addr,
                     root->name);
        return;
    }
    hx_text_putf(&builder->notes,
                 "0x%" PRIx64 " lies in no object and in no variable with a pointer in it", addr);
}

/* A struct, or an array, of which only one word counts. */
static void note_word(struct builder *builder, const struct hx_naming *naming, uint64_t addr)
{
    if (builder->words++ < NOTES_MAX)
        hx_text_putf(&builder->notes,
                     "%sroot %s: no symbols there, so only the pointer at 0x%" PRIx64 " counts",
                     builder->notes.n ? "; " : "", naming->name, addr);
}

static void note_missing(struct builder *builder, const struct hx_naming *naming,
                         const struct hx_expression *expression, const struct meaning *meaning)
{
    if (builder->missing++ >= NOTES_MAX)
        return;
    struct hx_text *notes = &builder->notes;
    hx_text_putf(notes, "%sroot %s: ", notes->n ? "; " : "", naming->name);
    switch (expression->form) {
    case HX_FORM_SYMBOL:
        hx_text_putf(notes, "no variable %s with a pointer in it", naming->expr);
        break;
    case HX_FORM_THREAD:
        hx_text_putf(notes, "no thread %" PRIu64 " with a pointer to an object",
                     expression->number);
        break;
    case HX_FORM_MODULE:
        hx_text_putf(notes, "no module %s with a pointer to an object", expression->text);
        break;
    case HX_FORM_FRAME:
        hx_text_putf(notes, "no frame of a function %s with a pointer to an object",
                     expression->text);
        break;
    case HX_FORM_TYPE:
        hx_text_putf(notes, "no object of a type %s", expression->text);
        break;
    case HX_FORM_OBJECT:
        if (meaning->nameless)
            hx_text_putf(notes, "no symbols there, and no pointer to an object at 0x%" PRIx64,
                         expression->number);
        else
            note_address(builder, expression->number);
        break;
    case HX_FORM_POINTER:
        hx_text_putf(notes, "no pointer to an object at 0x%" PRIx64, expression->number);
        break;
    }
}

/* --- the set ---------------------------------------------------------------------------------- */

static int compare_objects(const void *a, const void *b)
{
    hx_obj x = *(const hx_obj *)a, y = *(const hx_obj *)b;
    return (x > y) - (x < y);
}

static int compare_edges(const void *a, const void *b)
{
    const struct hx_root_edge *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

/* Sorts the edges from `first` on by address and counts their distinct targets. */
static hx_error *finish_edges(struct builder *builder, size_t first, uint64_t *ret)
{
    struct hx_root_edge *edge = builder->edges.v + first;
    size_t n = builder->edges.n - first, distinct = 0;
    *ret = 0;
    if (!n)
        return NULL;
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = compare_edges(&edge[i - 1], &edge[i]) <= 0;
    if (!sorted)
        qsort(edge, n, sizeof *edge, compare_edges);
    HX_NEED(hx_vec_reserve(&builder->targets, n));
    hx_obj *target = builder->targets.v;
    for (size_t i = 0; i < n; i++)
        target[i] = edge[i].target;
    qsort(target, n, sizeof *target, compare_objects);
    for (size_t i = 0; i < n; i++)
        distinct += !i || target[i] != target[i - 1];
    *ret = distinct;
    return NULL;
}

static hx_error *add_name_row(struct builder *builder, const char *name,
                              const struct meaning *meaning, uint32_t *ret)
{
    struct hx_root row = {
        .kind = HX_ROOT_NAMED, .address = meaning->address, .size = meaning->size};
    if (builder->rows.n >= UINT32_MAX - 1 - builder->n)
        return hx_error_nomem();
    HX_TRY(finish_edges(builder, meaning->first, &row.direct_objects));
    uint32_t number = builder->n + (uint32_t)builder->rows.n;
    for (size_t i = meaning->first; i < builder->edges.n; i++)
        builder->edges.v[i].root = number;
    row.name = strdup(name);
    row.module = strdup(meaning->module ? meaning->module : "");
    if (!row.name || !row.module || !hx_vec_push(&builder->rows, row)) {
        hx_root_deinit(&row);
        return hx_error_nomem();
    }
    *ret = number;
    return NULL;
}

static hx_error *find_meaning(struct builder *builder, const struct hx_naming *naming,
                              struct hx_expression *expression, struct meaning *meaning)
{
    *expression = (struct hx_expression){.form = HX_FORM_OBJECT, .number = naming->address};
    if (naming->expr)
        HX_TRY(hx_expression_parse(naming->expr, expression));
    switch (expression->form) {
    case HX_FORM_SYMBOL:
        return mean_symbol(builder, expression->text, meaning);
    case HX_FORM_THREAD:
    case HX_FORM_MODULE:
    case HX_FORM_FRAME:
        return mean_roots(builder, expression, meaning);
    case HX_FORM_TYPE:
        return mean_type(builder, expression->text);
    case HX_FORM_OBJECT:
        return mean_object(builder, expression->number, meaning);
    case HX_FORM_POINTER:
        return mean_pointer(builder, expression->number, meaning);
    }
    return NULL;
}

static hx_error *add_naming(struct builder *builder, const struct hx_naming *naming)
{
    struct hx_expression expression;
    struct meaning meaning = {.whole = UINT32_MAX, .first = builder->edges.n};
    HX_TRY(find_meaning(builder, naming, &expression, &meaning));
    struct hx_named named = {.root = meaning.whole};
    if (meaning.whole == UINT32_MAX) {
        if (builder->edges.n == meaning.first)
            note_missing(builder, naming, &expression, &meaning);
        else if (meaning.nameless)
            note_word(builder, naming, meaning.address);
        HX_TRY(add_name_row(builder, naming->name, &meaning, &named.root));
    }
    named.name = strdup(naming->name);
    named.expr = naming->expr ? strdup(naming->expr) : NULL;
    if (!named.name || (naming->expr && !named.expr) || !hx_vec_push(&builder->named, named)) {
        free(named.name);
        free(named.expr);
        return hx_error_nomem();
    }
    return NULL;
}

static int by_naming(const void *a, const void *b, void *context)
{
    const struct hx_naming *naming = context;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = strcmp(naming[x].name, naming[y].name);
    return order ? order : (x > y) - (x < y);
}

/* Which ones have the name of an earlier one. */
static hx_error *find_doubles(const struct hx_naming *naming, size_t n, bool *ret_double)
{
    HX_FREE size_t *order = calloc(n + 1, sizeof *order);
    HX_NEED(order);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (n)
        qsort_r(order, n, sizeof *order, by_naming, (void *)naming);
    for (size_t i = 1; i < n; i++)
        ret_double[order[i]] = !strcmp(naming[order[i - 1]].name, naming[order[i]].name);
    return NULL;
}

/* Takes a root that the program has named over as it is. */
static hx_error *keep_program_root(struct builder *builder, const struct hx_named *old)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    struct hx_named named = {.root = old->root};
    if (old->root >= builder->n) {
        const struct hx_root *root = &snapshot->roots.v[old->root];
        struct meaning meaning = {.first = builder->edges.n,
                                  .address = root->address,
                                  .size = root->size,
                                  .module = root->module};
        for (size_t i = hx_snapshot_root_edges(snapshot, old->root);
             i < snapshot->root_edges.n && snapshot->root_edges.v[i].root == old->root; i++) {
            const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
            HX_TRY(add_edge(builder, edge->target, edge->address, edge->kind));
        }
        HX_TRY(add_name_row(builder, old->name, &meaning, &named.root));
    }
    named.name = strdup(old->name);
    if (!named.name || !hx_vec_push(&builder->named, named)) {
        free(named.name);
        return hx_error_nomem();
    }
    return NULL;
}

static hx_error *keep_programs(struct builder *builder)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    for (size_t i = 0; i < snapshot->named.n; i++)
        if (!snapshot->named.v[i].expr && snapshot->named.v[i].root < snapshot->roots.n)
            HX_TRY(keep_program_root(builder, &snapshot->named.v[i]));
    return NULL;
}

/* Is this the name of a root that was kept? */
static bool is_kept_root_name(const struct builder *builder, size_t kept, const char *name)
{
    for (size_t i = 0; i < kept; i++)
        if (strcmp(builder->named.v[i].name, name) == 0)
            return true;
    return false;
}

static hx_error *add_names(struct builder *builder, const struct hx_naming *naming, size_t n)
{
    size_t kept = builder->named.n;
    HX_FREE bool *is_double = calloc(n + 1, sizeof *is_double);
    HX_NEED(is_double);
    HX_TRY(find_doubles(naming, n, is_double));
    size_t doubles = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_double[i] && !is_kept_root_name(builder, kept, naming[i].name))
            HX_TRY(add_naming(builder, &naming[i]));
        else if (doubles++ < NOTES_MAX)
            hx_text_putf(&builder->notes, "%sroot %s: of several of this name the first counts",
                         builder->notes.n ? "; " : "", naming[i].name);
    }
    if (builder->missing > NOTES_MAX)
        hx_text_putf(&builder->notes, "; %zu more named roots stand for nothing",
                     builder->missing - NOTES_MAX);
    if (builder->words > NOTES_MAX)
        hx_text_putf(&builder->notes,
                     "; of %zu more named roots only a pointer counts: no symbols there",
                     builder->words - NOTES_MAX);
    if (doubles > NOTES_MAX)
        hx_text_putf(&builder->notes, "; %zu more names of roots are there several times",
                     doubles - NOTES_MAX);
    return builder->notes.failed ? hx_error_nomem() : NULL;
}

/* Puts the new set in the place of the old one. Nothing fails once something has changed. */
static hx_error *replace_roots(struct builder *builder)
{
    struct hx_snapshot *snapshot = builder->snapshot;
    size_t kept = 0;
    HX_NEED(hx_vec_reserve(&snapshot->roots, builder->n + builder->rows.n) &&
            hx_vec_reserve(&snapshot->root_edges, snapshot->root_edges.n + builder->edges.n));
    for (size_t i = 0; i < snapshot->root_edges.n; i++)
        if (snapshot->root_edges.v[i].root < builder->n)
            snapshot->root_edges.v[kept++] = snapshot->root_edges.v[i];
    for (size_t i = 0; i < builder->edges.n; i++)
        snapshot->root_edges.v[kept++] = builder->edges.v[i];
    snapshot->root_edges.n = kept;
    for (size_t i = builder->n; i < snapshot->roots.n; i++)
        hx_root_deinit(&snapshot->roots.v[i]);
    snapshot->roots.n = builder->n;
    for (size_t i = 0; i < builder->rows.n; i++)
        snapshot->roots.v[snapshot->roots.n++] = builder->rows.v[i];
    builder->rows.n = 0;
    for (size_t i = 0; i < snapshot->named.n; i++) {
        free(snapshot->named.v[i].name);
        free(snapshot->named.v[i].expr);
    }
    free(snapshot->named.v);
    snapshot->named.v = hx_steal(builder->named.v);
    snapshot->named.n = builder->named.n;
    snapshot->named.cap = builder->named.cap;
    builder->named.n = 0;
    /* the same roots may be named again and again */
    const char *notes = hx_text_str(&builder->notes);
    if (*notes && !strstr(hx_text_str(&snapshot->notes), notes))
        hx_snapshot_note(snapshot, false, "%s", notes);
    return NULL;
}

static hx_error *set_named_roots(struct hx_snapshot *snapshot, const struct hx_naming *naming,
                                 size_t n, bool keeps, size_t *ret_missing)
{
    HX_CLEANUP(builder_deinit) struct builder builder = {.snapshot = snapshot};
    size_t real = snapshot->roots.n;
    while (real && snapshot->roots.v[real - 1].kind == HX_ROOT_NAMED)
        real--;
    if (real >= UINT32_MAX)
        return hx_error_nomem();
    builder.n = (uint32_t)real;
    HX_TRY(make_indexes(&builder));
    if (keeps)
        HX_TRY(keep_programs(&builder));
    HX_TRY(add_names(&builder, naming, n));
    HX_TRY(replace_roots(&builder));
    if (ret_missing)
        *ret_missing = builder.missing;
    return NULL;
}

hx_error *hx_named_set(struct hx_snapshot *snapshot, const struct hx_naming *naming, size_t n,
                       size_t *ret_missing)
{
    return set_named_roots(snapshot, naming, n, false, ret_missing);
}

hx_error *hx_named_renew(struct hx_snapshot *snapshot, const struct hx_naming *naming, size_t n,
                         size_t *ret_missing)
{
    return set_named_roots(snapshot, naming, n, true, ret_missing);
}
