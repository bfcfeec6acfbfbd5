/* write_recording.c - stacks get their numbers, and objects the sites that are stored. */
#include "store/write/write_recording.h"

#include "base/cleanup.h"
#include "model/function_name.h"
#include "store/cost/inlined_marks.h"
#include "store/db.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- places ------------------------------------------------------------------------ */

/* A function of a place. */
struct function {
    uint32_t place; /* in the numbers of the tree */
    bool internal;  /* of the language's library: its caller asked for the memory */
};

/* The functions of the recording's places. */
struct naming {
    struct hx_frames *frames;
    const struct hx_recording *recording;
    const uint32_t *node;             /* of each stack that was placed */
    uint32_t *file;                   /* of each file; HX_NO_PAIR: not asked for yet */
    uint32_t *first, *count;          /* of each place: a part of `function`; 0 of them: the same */
    HX_VEC(struct function) function; /* outermost first */
    struct hx_marks marks;
    struct hx_text label, source, declared, centre;
};

static void deinit_naming(struct naming *naming)
{
    free(naming->file);
    free(naming->first);
    free(naming->count);
    hx_vec_free(&naming->function);
    hx_marks_deinit(&naming->marks);
    hx_text_free(&naming->label);
    hx_text_free(&naming->source);
    hx_text_free(&naming->declared);
    hx_text_free(&naming->centre);
}

static hx_error *init_naming(struct naming *naming)
{
    size_t files = naming->recording->files.n, places = naming->recording->places.n;
    naming->file = malloc((files + 1) * sizeof *naming->file);
    naming->first = calloc(places + 1, sizeof *naming->first);
    naming->count = calloc(places + 1, sizeof *naming->count);
    HX_NEED(naming->file && naming->first && naming->count);
    memset(naming->file, 0xff, (files + 1) * sizeof *naming->file);
    return hx_marks_init(&naming->marks, naming->recording);
}

static hx_error *place_file(struct naming *naming, const struct hx_rec_place *place, uint32_t *ret)
{
    *ret = HX_FRAMES_NO_FILE;
    if (place->file >= naming->recording->files.n)
        return NULL;
    uint32_t *known = &naming->file[place->file];
    const struct hx_rec_file *file = &naming->recording->files.v[place->file];
    if (*known == HX_NO_PAIR)
        HX_TRY(hx_frames_file(naming->frames, file->path ? file->path : "",
                              file->name ? file->name : "", file->build_id ? file->build_id : "",
                              known));
    *ret = *known;
    return NULL;
}

static const char *place_module(const struct hx_recording *recording,
                                const struct hx_rec_place *place)
{
    if (place->language)
        return place->language;
    const char *name =
        place->file < recording->files.n ? recording->files.v[place->file].name : NULL;
    return name && *name ? name : "(unknown)";
}

/* A name for what has none. */
static void put_address(const struct naming *naming, const struct hx_rec_place *place,
                        uint64_t vaddr, struct hx_text *text)
{
    if (place->file < naming->recording->files.n)
        hx_text_putf(text, "%s+0x%" PRIx64, place_module(naming->recording, place), vaddr);
    else
        hx_text_putf(text, "0x%" PRIx64, vaddr);
}

/* "FILE:LINE"; NULL: unknown. */
static const char *put_source(const char *source, uint32_t line, struct hx_text *text)
{
    hx_text_clear(text);
    if (!source)
        return NULL;
    hx_text_puts(text, source);
    if (line)
        hx_text_putf(text, ":%u", line);
    return hx_text_str(text);
}

/* The code object or region that a line of a place is. */
static hx_error *centre_of(struct naming *naming, const struct hx_rec_place *place,
                           const struct hx_rec_line *line, uint32_t file, hx_centre *ret)
{
    static const struct hx_rec_line none = {0};
    const struct hx_rec_line *known = line ? line : &none;
    bool region = place->kind == HX_REC_REGION;
    hx_text_clear(&naming->centre);
    if (known->function)
        hx_text_puts(&naming->centre, known->function);
    else
        put_address(naming, place, known->entry ? known->entry : place->vaddr, &naming->centre);
    struct hx_frames_centre centre = {
        .kind = region ? HX_CENTRE_REGION : HX_CENTRE_FUNCTION,
        .file = file,
        .module = place_module(naming->recording, place),
        .symbol = known->symbol,
        .source = region ? put_source(known->source, known->line, &naming->declared)
                         : put_source(known->declared, known->declared_line, &naming->declared),
        .entry = region ? place->vaddr : known->entry,
    };
    HX_NEED(!naming->centre.failed && !naming->declared.failed);
    centre.label = hx_text_str(&naming->centre);
    return hx_frames_centre(naming->frames, &centre, ret);
}

static hx_error *add_function(struct naming *naming, const struct hx_frames_place *place,
                              bool internal)
{
    struct function function = {.internal = internal};
    HX_TRY(hx_frames_place(naming->frames, place, &function.place));
    return hx_vec_push(&naming->function, function) ? NULL : hx_error_nomem();
}

/* Of functions in one place, the one that initialises; what calls an initialiser is the innermost.
 */
static uint8_t initialiser_of(const struct hx_rec_place *place, size_t line, size_t lines)
{
    bool at = place->initialiser == HX_REC_INITIALISES
                  ? line + 1 + place->initialiser_callers == lines
                  : line == 0;
    return at ? place->initialiser : HX_REC_NOT_INITIALISER;
}

/* One function: line `line` of a place (of none where it has no lines). */
static hx_error *name_function(struct naming *naming, const struct hx_rec_place *place, size_t line)
{
    const struct hx_rec_line *known = line < place->n_lines ? &place->lines[line] : NULL;
    hx_text_clear(&naming->label);
    if (known && known->function)
        hx_text_puts(&naming->label, known->function);
    else
        put_address(naming, place, place->vaddr, &naming->label);
    struct hx_frames_place function = {
        .vaddr = place->vaddr,
        .entry = known && place->kind == HX_REC_CODE ? known->entry : 0,
        .inlined = (int32_t)(place->n_lines ? place->n_lines - 1 - line : 0),
        .module = place_module(naming->recording, place),
        .source = known ? put_source(known->source, known->line, &naming->source) : NULL,
        .kind = place->kind == HX_REC_REGION ? HX_FRAME_REGION : HX_FRAME_CODE,
        .initialiser = initialiser_of(place, line, place->n_lines ? place->n_lines : 1),
    };
    HX_NEED(!naming->label.failed && !naming->source.failed);
    function.label = hx_text_str(&naming->label);
    HX_TRY(place_file(naming, place, &function.file));
    HX_TRY(centre_of(naming, place, known, function.file, &function.centre));
    bool internal = place->kind == HX_REC_CODE && !place->language && known && known->function &&
                    hx_function_name_internal(known->function);
    return add_function(naming, &function, internal);
}

static hx_error *name_entered(struct naming *naming, const struct hx_rec_place *place)
{
    bool known = place->stack < naming->recording->stacks.n;
    struct hx_frames_place entered = {
        .file = HX_FRAMES_NO_FILE,
        .label = "(entered stack)",
        .module = "<built-in>",
        .kind = HX_FRAME_DEFERRED,
        .target = known ? naming->node[place->stack] : HX_NO_PAIR,
        .centre = HX_NO_CENTRE,
    };
    return add_function(naming, &entered, true);
}

static hx_error *store_recorded_place(struct naming *naming, uint32_t number)
{
    if (naming->count[number])
        return NULL;
    const struct hx_rec_place *place = &naming->recording->places.v[number];
    bool deferred = place->kind == HX_REC_DEFERRED;
    bool region = place->kind == HX_REC_REGION;
    size_t lines = place->n_lines && !deferred && !region ? place->n_lines : 1;
    if (naming->function.n + lines >= HX_NO_PAIR)
        return hx_error_new(HX_E_FAIL, "recording", NULL, "too many places in code");
    naming->first[number] = (uint32_t)naming->function.n;
    if (deferred)
        HX_TRY(name_entered(naming, place));
    for (size_t line = lines; line-- > 0 && !deferred;)
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

/* The nearest frame of code that is not the allocator's; NULL: none. */
static const struct hx_rec_place *nearest_code(const struct hx_recording *recording,
                                               const struct hx_rec_stack *stack)
{
    const uint32_t *place = recording->stack_places.v + stack->first;
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct hx_rec_place *at = &recording->places.v[place[i]];
        if (!at->allocator && at->kind == HX_REC_CODE)
            return at;
    }
    return NULL;
}

static bool ends_name(char c)
{
    return c == 0 || c == '(' || c == '<' || c == '.' || c == '[' || c == ' ';
}

/* Is that the function of this name? It may come with what it belongs to, and with its types. */
static bool is_function_named(const char *function, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = function; n && (at = strstr(at, name)); at++)
        if ((at == function || at[-1] == ':' || at[-1] == ' ') && ends_name(at[n]))
            return true;
    return false;
}

/* Where a stack is being placed. */
struct placing {
    uint32_t next; /* places further inside than that are still to come */
    bool push;     /* the innermost one is a region where it is pushed: it stays that */
    uint32_t node, origin;
};

/* Marks of one frame that were placed: the last region and the last entered stack, each with how
 * many functions of the frame it is in. */
struct made {
    uint32_t region;
    size_t depth, entered;
};

static hx_error *place_function(struct naming *naming, uint32_t place, uint32_t function,
                                struct placing *at)
{
    const struct function *of = &naming->function.v[function];
    HX_TRY(hx_frames_child(naming->frames, at->node, of->place, &at->node));
    if (!of->internal && !naming->recording->places.v[place].allocator)
        at->origin = at->node;
    return NULL;
}

/* The mark belongs to function `k` of the place it stands behind, or to one further outside. */
static bool is_made_by(const struct naming *naming, uint32_t frame, uint32_t mark, size_t k,
                       struct made *made)
{
    const struct hx_recording *recording = naming->recording;
    const struct hx_rec_place *region = &recording->places.v[mark],
                              *at = &recording->places.v[frame];
    bool deferred = region->kind == HX_REC_DEFERRED;
    size_t above = deferred ? made->entered : made->region == mark ? made->depth : 0;
    size_t depth = hx_marks_depth(&naming->marks, recording, frame, mark, above);
    const struct hx_rec_line *line = &at->lines[at->n_lines - 1 - k];
    bool here = depth ? depth <= k + 1
                      : !deferred && line->function && region->n_lines && region->lines->declared &&
                            is_function_named(line->function, region->lines->declared);
    if (here && deferred)
        made->entered = k + 1;
    else if (here)
        *made = (struct made){.region = mark, .depth = k + 1, .entered = made->entered};
    return here;
}

/* Marks stand behind the frame in which they are. Where functions were inlined it is several, and
 * each mark goes with the one that made it. */
static hx_error *place_marks(struct naming *naming, const uint32_t *place, uint32_t inner,
                             uint32_t frame, size_t k, struct made *made, struct placing *at)
{
    for (; at->next > inner + at->push; at->next--) {
        uint32_t mark = place[at->next - 1];
        if (naming->recording->places.v[mark].kind == HX_REC_CODE ||
            !is_made_by(naming, frame, mark, k, made))
            return NULL;
        HX_TRY(store_recorded_place(naming, mark));
        HX_TRY(place_function(naming, mark, naming->first[mark], at));
    }
    return NULL;
}

static hx_error *place_stack(struct naming *naming, const struct hx_rec_stack *stack, uint32_t *ret,
                             uint32_t *ret_origin)
{
    const struct hx_recording *recording = naming->recording;
    const uint32_t *place = recording->stack_places.v + stack->first;
    const struct hx_rec_place *nearest = nearest_code(recording, stack);
    if (nearest && nearest->recorder) {
        HX_TRY(hx_frames_recorder(naming->frames, ret));
        *ret_origin = *ret;
        return NULL;
    }
    uint32_t inner = allocator_frames(recording, stack);
    size_t index = (size_t)(stack - recording->stacks.v);
    struct placing at = {
        .next = stack->n,
        .push = index < recording->costs.n && recording->costs.v[index].entries,
        .node = stack->cut || !stack->n ? HX_CCS_CUT - 1 : HX_CCS_MAIN - 1,
        .origin = HX_NO_PAIR,
    };
    while (at.next > inner) {
        uint32_t number = place[--at.next];
        HX_TRY(store_recorded_place(naming, number));
        uint32_t first = naming->first[number], count = naming->count[number];
        struct made made = {.region = UINT32_MAX};
        for (uint32_t k = 0; k < count; k++) {
            HX_TRY(place_function(naming, number, first + k, &at));
            if (count > 1)
                HX_TRY(place_marks(naming, place, inner, number, k, &made, &at));
        }
    }
    *ret = at.node;
    *ret_origin = at.origin == HX_NO_PAIR ? at.node : at.origin;
    return NULL;
}

/* What was entered is in the tree, too. It stands before the stacks that it is in. */
static void want_entered(const struct hx_recording *recording, bool *placed)
{
    for (size_t i = recording->stacks.n; i-- > 0;) {
        const struct hx_rec_stack *stack = &recording->stacks.v[i];
        for (uint32_t k = 0; placed[i] && k < stack->n; k++) {
            uint32_t number = recording->stack_places.v[stack->first + k];
            const struct hx_rec_place *place = &recording->places.v[number];
            if (place->kind == HX_REC_DEFERRED && place->stack < i)
                placed[place->stack] = true;
        }
    }
}

/* Stacks that are not wanted, and that no wanted one entered, stay out of the tree. */
static hx_error *place_stacks(struct hx_frames *frames, const struct hx_recording *recording,
                              struct hx_placed *placed)
{
    size_t n = recording->stacks.n;
    HX_FREE bool *chosen = calloc(n + 1, sizeof *chosen);
    placed->node = malloc((n + 1) * sizeof *placed->node);
    placed->origin = malloc((n + 1) * sizeof *placed->origin);
    HX_NEED(chosen && placed->node && placed->origin);
    HX_CLEANUP(deinit_naming)
    struct naming naming = {.frames = frames, .recording = recording, .node = placed->node};
    HX_TRY(init_naming(&naming));
    memcpy(chosen, placed->wanted, n * sizeof *chosen);
    want_entered(recording, chosen);
    memset(placed->node, 0xff, (n + 1) * sizeof *placed->node);
    for (size_t i = 0; i < n; i++)
        if (chosen[i])
            HX_TRY(place_stack(&naming, &recording->stacks.v[i], &placed->node[i],
                               &placed->origin[i]));
    return NULL;
}

/* --- stacks as rows ---------------------------------------------------------------- */

struct stacks {
    struct hx_writer *w;
    const struct hx_recording *recording;
    bool *written; /* by index of the node */
    struct hx_text label, site;
};

/* Those of earlier snapshots have their labels already. */
static hx_error *find_written(const struct stacks *stacks)
{
    const struct hx_writer *w = stacks->w;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "SELECT stack_id FROM hx_stack", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        size_t index = hx_frames_index(&w->recorded->frames, sqlite3_column_int64(st, 0));
        if (index != SIZE_MAX)
            stacks->written[index] = true;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

/* The module of the nearest frame outside the allocator. */
static const char *stack_module(const struct hx_recording *recording, uint32_t number)
{
    const struct hx_rec_place *nearest = NULL;
    if (number < recording->stacks.n)
        nearest = nearest_code(recording, &recording->stacks.v[number]);
    return nearest ? place_module(recording, nearest) : "(unknown)";
}

static hx_error *write_stack(struct stacks *stacks, uint32_t index, uint32_t origin,
                             uint32_t number)
{
    const struct hx_frames_node *node = stacks->w->recorded->frames.node.v;
    if (stacks->written[index])
        return NULL;
    stacks->written[index] = true;
    hx_text_clear(&stacks->label);
    hx_text_clear(&stacks->site);
    hx_recording_label(stacks->recording, number, HX_STACK_FRAMES, &stacks->label);
    hx_recording_label(stacks->recording, number, HX_SITE_FRAMES, &stacks->site);
    HX_NEED(!stacks->label.failed && !stacks->site.failed);
    bool empty = !stacks->label.n || node[index].id == HX_CCS_CUT;
    const char *cut = hx_builtin_name(HX_CCS_CUT);
    return hx_insert(&stacks->w->insert, stack, .stack_id = hx_int(node[index].id),
                     .label = hx_str(empty ? cut : hx_text_str(&stacks->label)),
                     .site = hx_str(empty ? cut : hx_text_str(&stacks->site)),
                     .module = hx_str(stack_module(stacks->recording, number)),
                     .identity = hx_int(node[index].identity), .origin = hx_int(node[origin].id));
}

static hx_error *write_placed(struct stacks *stacks, const struct hx_recording *recording,
                              const struct hx_placed *placed)
{
    stacks->recording = recording;
    for (size_t i = 0; recording && i < recording->stacks.n; i++)
        if (placed->wanted[i])
            HX_TRY(write_stack(stacks, placed->node[i], placed->origin[i], (uint32_t)i));
    return NULL;
}

/* Whole stacks have labels. */
static hx_error *write_recorded_stacks(struct hx_writer *w)
{
    const struct hx_recorded *recorded = w->recorded;
    const struct hx_recording *recording = w->snapshot->recording;
    HX_FREE bool *written = calloc(recorded->frames.node.n, sizeof *written);
    struct stacks stacks = {.w = w, .written = written, .recording = recording};
    HX_NEED(written);
    hx_error *err = find_written(&stacks);
    if (!err && recording)
        err = write_stack(&stacks, HX_CCS_BEFORE - 1, HX_CCS_BEFORE - 1, HX_SITE_BEFORE);
    if (!err && recording)
        err = write_stack(&stacks, HX_CCS_UNKNOWN - 1, HX_CCS_UNKNOWN - 1, HX_SITE_UNKNOWN);
    if (!err)
        err = write_placed(&stacks, recording, &recorded->stacks);
    if (!err)
        err = write_placed(&stacks, w->snapshot->backtraces, &recorded->backtraces);
    hx_text_free(&stacks.label);
    hx_text_free(&stacks.site);
    return err;
}

/* --- threads ----------------------------------------------------------------------- */

static hx_error *write_threads(struct hx_writer *w)
{
    const struct hx_snapshot *snapshot = w->snapshot;
    const struct hx_placed *placed = &w->recorded->backtraces;
    const size_t n_stacks = snapshot->backtraces ? snapshot->backtraces->stacks.n : 0;
    for (size_t i = 0; i < snapshot->n_threads; i++) {
        uint32_t stack = i < snapshot->thread_stack.n ? snapshot->thread_stack.v[i] : HX_NO_STACK;
        const char *name = snapshot->thread[i].nameless ? NULL : snapshot->thread[i].comm;
        HX_TRY(hx_write(w, thread, .tid = hx_int(snapshot->thread[i].tid), .name = hx_str(name),
                        .stack_id = hx_int_if(stack < n_stacks,
                                              w->recorded->frames.node.v[placed->node[stack]].id)));
    }
    return NULL;
}

/* --- sites ------------------------------------------------------------------------- */

static uint32_t node_of_site(const struct hx_recorded *recorded, const struct hx_site *site)
{
    const struct hx_recording *recording = recorded->shadow.recording;
    if (site->stack < recording->stacks.n && recorded->stacks.node[site->stack] != HX_NO_PAIR)
        return recorded->stacks.node[site->stack];
    return site->stack == HX_SITE_BEFORE ? HX_CCS_BEFORE - 1 : HX_CCS_UNKNOWN - 1;
}

static hx_error *add_site(struct hx_recorded *recorded, uint32_t node, uint32_t stack,
                          struct hx_text *text, uint32_t *ret)
{
    const struct hx_frames_node *at = &recorded->frames.node.v[node];
    hx_ccs_row row = recorded->attributing.row[node];
    hx_text_clear(text);
    hx_ccs_label(hx_attributing_name, &recorded->attributing, row, text);
    struct hx_site site = {.label = text->failed ? NULL : strdup(hx_text_str(text)),
                           .stack = stack,
                           .stack_id = at->id,
                           .ccs_id = hx_ccs_id_of(row),
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
    HX_NEED(number);
    HX_TRY(merge_sites(recorded, snapshot, number));
    HX_TRY(hx_big_array(graph->site, graph->n));
    for (hx_obj i = 0; i < graph->n; i++)
        graph->site[i] = number[from[i] < snapshot->sites.n ? from[i] : snapshot->sites.n];
    return NULL;
}

/* --- the whole --------------------------------------------------------------------- */

/* Those that something is of. */
static hx_error *want_stacks(const struct hx_snapshot *snapshot, bool **ret)
{
    const struct hx_recording *recording = snapshot->recording;
    bool *wanted = *ret = calloc(recording->stacks.n + 1, sizeof *wanted);
    HX_NEED(wanted);
    for (size_t i = 0; i < recording->stacks.n; i++)
        wanted[i] = hx_has_costs(&recording->costs.v[i]);
    for (size_t i = 0; i < snapshot->sites.n; i++)
        if (snapshot->sites.v[i].stack < recording->stacks.n)
            wanted[snapshot->sites.v[i].stack] = true;
    return NULL;
}

static hx_error *want_backtraces(const struct hx_snapshot *snapshot, bool **ret)
{
    size_t n = snapshot->backtraces->stacks.n;
    bool *wanted = *ret = calloc(n + 1, sizeof *wanted);
    HX_NEED(wanted);
    for (size_t i = 0; i < snapshot->thread_stack.n; i++)
        if (snapshot->thread_stack.v[i] < n)
            wanted[snapshot->thread_stack.v[i]] = true;
    return NULL;
}

static hx_error *place_all(struct hx_recorded *recorded, const struct hx_snapshot *snapshot)
{
    if (snapshot->recording) {
        HX_TRY(hx_recording_check(snapshot->recording));
        HX_TRY(want_stacks(snapshot, &recorded->stacks.wanted));
        HX_TRY(place_stacks(&recorded->frames, snapshot->recording, &recorded->stacks));
    }
    if (!snapshot->backtraces)
        return NULL;
    HX_TRY(hx_recording_check(snapshot->backtraces));
    HX_TRY(want_backtraces(snapshot, &recorded->backtraces.wanted));
    return place_stacks(&recorded->frames, snapshot->backtraces, &recorded->backtraces);
}

/* Cost-centre stacks are always attributed by the default choice; that of a reader is his own. */
static hx_error *intern_recording(struct hx_writer *w, const struct hx_snapshot *snapshot)
{
    struct hx_recorded *recorded = w->recorded;
    const struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    HX_TRY(hx_frames_load(w->db, w->what, true, &recorded->frames));
    recorded->has_frames = true;
    HX_TRY(place_all(recorded, snapshot));
    HX_TRY(hx_attributing_init(w->db, w->what, &recorded->frames, &how, w->progress,
                               &recorded->attributing));
    HX_TRY(hx_frames_store(&recorded->frames));
    HX_TRY(write_recorded_stacks(w));
    HX_TRY(write_threads(w));
    HX_TRY(hx_attribute_stacks(&recorded->attributing));
    return snapshot->recording ? make_sites(recorded, snapshot) : NULL;
}

hx_error *hx_writer_recorded(struct hx_writer *w)
{
    const struct hx_snapshot *snapshot = w->snapshot;
    struct hx_recorded *recorded = calloc(1, sizeof *recorded);
    HX_NEED(recorded);
    w->recorded = recorded;
    recorded->shadow = *snapshot;
    memset(&recorded->shadow.sites, 0, sizeof recorded->shadow.sites);
    recorded->shadow.graph.site = NULL;
    recorded->shadow.graph.site_mem = (struct hx_big){0};
    w->snapshot = &recorded->shadow;
    w->graph = &recorded->shadow.graph;
    return snapshot->recording || snapshot->backtraces ? intern_recording(w, snapshot)
                                                       : write_threads(w);
}

static void deinit_placed(struct hx_placed *placed)
{
    free(placed->node);
    free(placed->origin);
    free(placed->wanted);
}

void hx_recorded_destroy(struct hx_recorded *recorded)
{
    if (!recorded)
        return;
    for (size_t i = 0; i < recorded->shadow.sites.n; i++)
        free(recorded->shadow.sites.v[i].label);
    hx_vec_free(&recorded->shadow.sites);
    hx_big_free(&recorded->shadow.graph.site_mem);
    hx_attributing_deinit(&recorded->attributing);
    if (recorded->has_frames)
        hx_frames_deinit(&recorded->frames);
    deinit_placed(&recorded->stacks);
    deinit_placed(&recorded->backtraces);
    free(recorded);
}
