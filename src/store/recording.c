/* recording.c - stacks get their numbers, and objects the sites that are stored. */
#include "store/recording.h"

#include "base/cleanup.h"
#include "store/db.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- places ------------------------------------------------------------------------ */

/* The functions of the recording's places, in the numbers of the tree. */
struct naming {
    struct hx_ccs *ccs;
    const struct hx_recording *recording;
    uint32_t *file;            /* of each file; HX_NO_PAIR: not asked for yet */
    uint32_t *first, *count;   /* of each place: a part of `function`; 0 of them: the same */
    HX_VEC(uint32_t) function; /* outermost first */
    struct hx_text label, source;
};

static void deinit_naming(struct naming *naming)
{
    free(naming->file);
    free(naming->first);
    free(naming->count);
    hx_vec_free(&naming->function);
    hx_text_free(&naming->label);
    hx_text_free(&naming->source);
}

static hx_error *init_naming(struct naming *naming)
{
    size_t files = naming->recording->files.n, places = naming->recording->places.n;
    naming->file = malloc((files + 1) * sizeof *naming->file);
    naming->first = calloc(places + 1, sizeof *naming->first);
    naming->count = calloc(places + 1, sizeof *naming->count);
    if (!naming->file || !naming->first || !naming->count)
        return hx_error_nomem();
    memset(naming->file, 0xff, (files + 1) * sizeof *naming->file);
    return NULL;
}

static hx_error *file_of(struct naming *naming, const struct hx_rec_place *place, uint32_t *ret)
{
    *ret = HX_CCS_NO_FILE;
    if (place->file >= naming->recording->files.n)
        return NULL;
    uint32_t *known = &naming->file[place->file];
    const struct hx_rec_file *file = &naming->recording->files.v[place->file];
    if (*known == HX_NO_PAIR)
        HX_TRY(hx_ccs_file(naming->ccs, file->path ? file->path : "", file->name ? file->name : "",
                           file->build_id ? file->build_id : "", known));
    *ret = *known;
    return NULL;
}

static const char *module_of(const struct hx_recording *recording, const struct hx_rec_place *place)
{
    const char *name =
        place->file < recording->files.n ? recording->files.v[place->file].name : NULL;
    return name && *name ? name : "(unknown)";
}

/* One function: line `line` of a place (of none where it has no lines). */
static hx_error *name_function(struct naming *naming, const struct hx_rec_place *place, size_t line)
{
    const struct hx_rec_line *known = line < place->n_lines ? &place->lines[line] : NULL;
    hx_text_clear(&naming->label);
    hx_text_clear(&naming->source);
    if (known && known->function)
        hx_text_puts(&naming->label, known->function);
    else if (place->file < naming->recording->files.n)
        hx_text_putf(&naming->label, "%s+0x%" PRIx64, module_of(naming->recording, place),
                     place->vaddr);
    else
        hx_text_putf(&naming->label, "0x%" PRIx64, place->vaddr);
    if (known && known->source) {
        hx_text_puts(&naming->source, known->source);
        if (known->line)
            hx_text_putf(&naming->source, ":%u", known->line);
    }
    if (naming->label.failed || naming->source.failed)
        return hx_error_nomem();
    struct hx_ccs_place function = {
        .vaddr = place->vaddr,
        .inlined = (int32_t)(place->n_lines ? place->n_lines - 1 - line : 0),
        .label = hx_text_str(&naming->label),
        .module = module_of(naming->recording, place),
        .source = known && known->source ? hx_text_str(&naming->source) : NULL,
    };
    uint32_t number;
    HX_TRY(file_of(naming, place, &function.file));
    HX_TRY(hx_ccs_place(naming->ccs, &function, &number));
    return hx_vec_push(&naming->function, number) ? NULL : hx_error_nomem();
}

static hx_error *name_place(struct naming *naming, uint32_t number)
{
    if (naming->count[number])
        return NULL;
    const struct hx_rec_place *place = &naming->recording->places.v[number];
    size_t lines = place->n_lines ? place->n_lines : 1;
    if (naming->function.n + lines >= HX_NO_PAIR)
        return hx_error_new(HX_E_FAIL, "recording", NULL, "too many places in code");
    naming->first[number] = (uint32_t)naming->function.n;
    for (size_t line = lines; line-- > 0;)
        HX_TRY(name_function(naming, place, line));
    naming->count[number] = (uint32_t)lines;
    return NULL;
}

/* --- stacks ------------------------------------------------------------------------ */

/* How many of its innermost frames are the allocator's; 0 when all of them are. */
static uint32_t allocator_frames(const struct hx_recording *recording,
                                 const struct hx_rec_stack *stack)
{
    const uint32_t *place = recording->stack_places.v + stack->first;
    for (uint32_t i = 0; i < stack->n; i++)
        if (!recording->places.v[place[i]].allocator)
            return i;
    return 0;
}

static hx_error *place_stack(struct naming *naming, const struct hx_rec_stack *stack, uint32_t *ret)
{
    const uint32_t *place = naming->recording->stack_places.v + stack->first;
    uint32_t inner = allocator_frames(naming->recording, stack);
    uint32_t node = stack->cut || !stack->n ? HX_CCS_CUT - 1 : HX_CCS_MAIN - 1;
    for (uint32_t i = stack->n; i-- > inner;) {
        HX_TRY(name_place(naming, place[i]));
        uint32_t first = naming->first[place[i]], count = naming->count[place[i]];
        for (uint32_t k = first; k < first + count; k++)
            HX_TRY(hx_ccs_child(naming->ccs, node, naming->function.v[k], &node));
    }
    *ret = node;
    return NULL;
}

/* --- stacks as rows ---------------------------------------------------------------- */

void hx_site_label(int64_t ccs_id, const char *label, struct hx_text *ret)
{
    const char *builtin = hx_ccs_builtin_name(ccs_id);
    if (builtin && ccs_id != HX_CCS_CUT) /* nobody can mistake these */
        hx_text_puts(ret, builtin);
    else
        hx_text_putf(ret, "#%" PRId64 " %s", ccs_id, label);
}

/* The module of the nearest frame outside the allocator. */
static const char *stack_module(const struct hx_recording *recording, uint32_t number)
{
    if (number >= recording->stacks.n)
        return "(unknown)";
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    const uint32_t *place = recording->stack_places.v + stack->first;
    for (uint32_t i = 0; i < stack->n; i++)
        if (!recording->places.v[place[i]].allocator)
            return module_of(recording, &recording->places.v[place[i]]);
    return "(unknown)";
}

struct stacks {
    struct hx_writer *w;
    sqlite3_stmt *insert;
    bool *written; /* by index of the node */
    struct hx_text label, site;
};

/* Those of earlier snapshots have their labels already. */
static hx_error *find_written(const struct stacks *stacks)
{
    const struct hx_writer *w = stacks->w;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "SELECT ccs_id FROM hx_stack", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        size_t index = hx_ccs_index(&w->recorded->ccs, sqlite3_column_int64(st, 0));
        if (index != SIZE_MAX)
            stacks->written[index] = true;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

static hx_error *write_stack(struct stacks *stacks, uint32_t index, uint32_t number)
{
    const struct hx_ccs_node *node = &stacks->w->recorded->ccs.node.v[index];
    const struct hx_recording *recording = stacks->w->snapshot->recording;
    sqlite3_stmt *st = stacks->insert;
    if (stacks->written[index])
        return NULL;
    stacks->written[index] = true;
    hx_text_clear(&stacks->label);
    hx_text_clear(&stacks->site);
    hx_recording_label(recording, number, HX_STACK_FRAMES, &stacks->label);
    hx_recording_label(recording, number, HX_SITE_FRAMES, &stacks->site);
    if (stacks->label.failed || stacks->site.failed)
        return hx_error_nomem();
    bool empty = !stacks->label.n || node->id == HX_CCS_CUT;
    const char *cut = hx_ccs_builtin_name(HX_CCS_CUT);
    sqlite3_bind_int64(st, 1, node->id);
    hx_bind_text(st, 2, empty ? cut : hx_text_str(&stacks->label));
    hx_bind_text(st, 3, empty ? cut : hx_text_str(&stacks->site));
    hx_bind_text(st, 4, stack_module(recording, number));
    sqlite3_bind_int64(st, 5, (int64_t)node->identity);
    return hx_db_run(stacks->w->db, stacks->w->what, st);
}

/* Whole stacks have labels. */
static hx_error *write_stacks(struct hx_writer *w)
{
    const struct hx_recorded *recorded = w->recorded;
    HX_FREE bool *written = calloc(recorded->ccs.node.n, sizeof *written);
    struct stacks stacks = {.w = w, .written = written};
    if (!written)
        return hx_error_nomem();
    hx_error *err = find_written(&stacks);
    if (!err)
        err = hx_db_prepare(w->db, w->what, "INSERT OR IGNORE INTO hx_stack VALUES(?,?,?,?,?)",
                            &stacks.insert);
    if (!err)
        err = write_stack(&stacks, HX_CCS_BEFORE - 1, HX_SITE_BEFORE);
    if (!err)
        err = write_stack(&stacks, HX_CCS_UNKNOWN - 1, HX_SITE_UNKNOWN);
    for (size_t i = 0; i < w->snapshot->recording->stacks.n && !err; i++)
        if (recorded->node[i] != HX_NO_PAIR)
            err = write_stack(&stacks, recorded->node[i], (uint32_t)i);
    sqlite3_finalize(stacks.insert);
    hx_text_free(&stacks.label);
    hx_text_free(&stacks.site);
    return err;
}

/* --- sites ------------------------------------------------------------------------- */

static uint32_t node_of_site(const struct hx_recorded *recorded, const struct hx_site *site)
{
    const struct hx_recording *recording = recorded->shadow.recording;
    if (site->stack < recording->stacks.n && recorded->node[site->stack] != HX_NO_PAIR)
        return recorded->node[site->stack];
    return site->stack == HX_SITE_BEFORE ? HX_CCS_BEFORE - 1 : HX_CCS_UNKNOWN - 1;
}

static hx_error *add_site(struct hx_recorded *recorded, uint32_t node, uint32_t stack,
                          struct hx_text *text, uint32_t *ret)
{
    const struct hx_ccs_node *at = &recorded->ccs.node.v[node];
    struct hx_text label = {0};
    hx_recording_label(recorded->shadow.recording, stack, HX_SITE_FRAMES, &label);
    hx_text_clear(text);
    hx_site_label(at->id,
                  label.n && at->id != HX_CCS_CUT ? hx_text_str(&label)
                                                  : hx_ccs_builtin_name(HX_CCS_CUT),
                  text);
    bool failed = label.failed || text->failed;
    hx_text_free(&label);
    struct hx_site site = {.label = failed ? NULL : strdup(hx_text_str(text)),
                           .stack = stack,
                           .ccs_id = at->id,
                           .identity = at->identity};
    if (!site.label || !hx_vec_push(&recorded->shadow.sites, site)) {
        free(site.label);
        return hx_error_nomem();
    }
    *ret = (uint32_t)recorded->shadow.sites.n - 1;
    return NULL;
}

/* Several stacks of the recording may be one node: they differ in the allocator's frames only. */
static hx_error *merge_sites(struct hx_recorded *recorded, const struct hx_snapshot *snapshot,
                             uint32_t *number)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs known = {0};
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    for (size_t i = 0; i <= snapshot->sites.n; i++) { /* the last one: of no site */
        struct hx_site none = {.stack = HX_SITE_UNKNOWN};
        const struct hx_site *site = i < snapshot->sites.n ? &snapshot->sites.v[i] : &none;
        uint32_t node = node_of_site(recorded, site), *slot;
        uint32_t stack = node == HX_CCS_BEFORE - 1    ? HX_SITE_BEFORE
                         : node == HX_CCS_UNKNOWN - 1 ? HX_SITE_UNKNOWN
                                                      : site->stack;
        HX_TRY(hx_pairs_at(&known, node, &slot));
        if (*slot == HX_NO_PAIR)
            HX_TRY(add_site(recorded, node, stack, &text, slot));
        number[i] = *slot;
    }
    return NULL;
}

static hx_error *make_sites(struct hx_recorded *recorded, const struct hx_snapshot *snapshot)
{
    struct hx_graph *graph = &recorded->shadow.graph;
    const uint32_t *from = snapshot->graph.site;
    if (!from)
        return NULL;
    HX_FREE uint32_t *number = malloc((snapshot->sites.n + 1) * sizeof *number);
    if (!number)
        return hx_error_nomem();
    HX_TRY(merge_sites(recorded, snapshot, number));
    HX_TRY(hx_big_reserve(&graph->site_mem, (size_t)graph->n * sizeof *graph->site));
    graph->site = graph->site_mem.base;
    for (hx_obj i = 0; i < graph->n; i++)
        graph->site[i] = number[from[i] < snapshot->sites.n ? from[i] : snapshot->sites.n];
    return NULL;
}

/* --- the whole --------------------------------------------------------------------- */

/* Stacks that nothing is of stay out of the tree. */
static hx_error *place_stacks(struct hx_recorded *recorded, const struct hx_snapshot *snapshot)
{
    const struct hx_recording *recording = snapshot->recording;
    HX_CLEANUP(deinit_naming)
    struct naming naming = {.ccs = &recorded->ccs, .recording = recording};
    HX_FREE bool *wanted = calloc(recording->stacks.n + 1, sizeof *wanted);
    recorded->node = malloc((recording->stacks.n + 1) * sizeof *recorded->node);
    if (!wanted || !recorded->node)
        return hx_error_nomem();
    HX_TRY(init_naming(&naming));
    for (size_t i = 0; i < recording->stacks.n; i++) {
        wanted[i] = hx_has_costs(&recording->costs.v[i]);
        recorded->node[i] = HX_NO_PAIR;
    }
    for (size_t i = 0; i < snapshot->sites.n; i++)
        if (snapshot->sites.v[i].stack < recording->stacks.n)
            wanted[snapshot->sites.v[i].stack] = true;
    for (size_t i = 0; i < recording->stacks.n; i++)
        if (wanted[i])
            HX_TRY(place_stack(&naming, &recording->stacks.v[i], &recorded->node[i]));
    return NULL;
}

static hx_error *intern(struct hx_writer *w, const struct hx_snapshot *snapshot)
{
    struct hx_recorded *recorded = w->recorded;
    HX_TRY(hx_recording_check(snapshot->recording));
    HX_TRY(hx_ccs_load(w->db, w->what, &recorded->ccs));
    recorded->has_ccs = true;
    HX_TRY(place_stacks(recorded, snapshot));
    HX_TRY(hx_ccs_store(&recorded->ccs));
    HX_TRY(write_stacks(w));
    return make_sites(recorded, snapshot);
}

hx_error *hx_writer_recorded(struct hx_writer *w)
{
    const struct hx_snapshot *snapshot = w->snapshot;
    struct hx_recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded)
        return hx_error_nomem();
    w->recorded = recorded;
    recorded->shadow = *snapshot;
    memset(&recorded->shadow.sites, 0, sizeof recorded->shadow.sites);
    recorded->shadow.graph.site = NULL;
    recorded->shadow.graph.site_mem = (struct hx_big){0};
    if (!snapshot->recording) /* sites of another store's numbers mean nothing here */
        recorded->shadow.graph.requested = NULL;
    w->snapshot = &recorded->shadow;
    w->graph = &recorded->shadow.graph;
    return snapshot->recording ? intern(w, snapshot) : NULL;
}

void hx_recorded_destroy(struct hx_recorded *recorded)
{
    if (!recorded)
        return;
    for (size_t i = 0; i < recorded->shadow.sites.n; i++)
        free(recorded->shadow.sites.v[i].label);
    hx_vec_free(&recorded->shadow.sites);
    hx_big_free(&recorded->shadow.graph.site_mem);
    if (recorded->has_ccs)
        hx_ccs_deinit(&recorded->ccs);
    free(recorded->node);
    free(recorded);
}
