/* paths.c - the tree of weighted paths: its frames, its nodes, what is left out of it. */
#include "export/paths/paths.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/preorder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- frames ------------------------------------------------------------------------ */

static uint64_t hash_text(uint64_t hash, const char *s)
{
    for (; *s; s++)
        hash = (hash ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static uint64_t hash_frame(const struct hx_path_frame *frame)
{
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), frame->name);
    hash = hash_text(hash, frame->symbol);
    hash = hash_text(hash, frame->module);
    hash = hash_text(hash, frame->file) + frame->line * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static bool same_frame(const struct hx_path_frame *a, const struct hx_path_frame *b)
{
    return a->line == b->line && strcmp(a->name, b->name) == 0 &&
           strcmp(a->symbol, b->symbol) == 0 && strcmp(a->module, b->module) == 0 &&
           strcmp(a->file, b->file) == 0;
}

static void free_frame(struct hx_path_frame *frame)
{
    free(frame->name);
    free(frame->symbol);
    free(frame->module);
    free(frame->file);
}

/* Where to cut a text of valid UTF-8 that is too long. */
static size_t cut_at(const char *s, size_t n)
{
    while (n && ((uint8_t)s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static hx_error *copy_frame_text(struct hx_paths *paths, const char *s, char **ret)
{
    struct hx_text text = {0};
    hx_text_escape(&text, s, strlen(s), false);
    bool failed = text.failed;
    if (!failed && text.n > HX_PATHS_NAME) {
        text.n = cut_at(text.s, HX_PATHS_NAME);
        text.s[text.n] = 0;
        paths->cut_names++;
    }
    char *copy = failed ? NULL : strdup(hx_text_str(&text));
    hx_text_free(&text);
    *ret = copy;
    return copy ? NULL : hx_error_nomem();
}

/* FILE:LINE; without a line it is a file. */
static hx_error *keep_source(struct hx_paths *paths, const char *source,
                             struct hx_path_frame *frame)
{
    uint64_t line = 0;
    const char *colon = strrchr(source, ':');
    HX_FREE char *file = strdup(source);
    HX_NEED(file);
    if (colon && hx_parse_u64(colon + 1, &line) && line <= INT32_MAX) {
        file[colon - source] = 0;
        frame->line = (uint32_t)line;
    }
    return copy_frame_text(paths, file, &frame->file);
}

static hx_error *make_frame(struct hx_paths *paths, const struct hx_frame_texts *texts,
                            struct hx_path_frame *frame)
{
    const char *name = texts->name && *texts->name ? texts->name : "(unknown)";
    bool modules = paths->detail & HX_PATHS_MODULES, lines = paths->detail & HX_PATHS_LINES;
    bool symbol = lines && texts->symbol && strcmp(texts->symbol, name) != 0;
    HX_TRY(copy_frame_text(paths, name, &frame->name));
    HX_TRY(copy_frame_text(paths, symbol ? texts->symbol : "", &frame->symbol));
    HX_TRY(copy_frame_text(paths, modules && texts->module ? texts->module : "", &frame->module));
    return keep_source(paths, lines && texts->source ? texts->source : "", frame);
}

static hx_error *add_frame(struct hx_paths *paths, struct hx_path_frame *frame, uint32_t *ret)
{
    uint64_t hash = hash_frame(frame);
    for (uint32_t at = 0; hx_index_next(&paths->frame_index, hash, &at, ret);)
        if (same_frame(&paths->frames.v[*ret], frame))
            return NULL;
    if (paths->frames.n >= HX_NO_FRAME)
        return hx_error_new(HX_E_LIMIT, "frames", NULL, "there are too many to look at");
    HX_NEED(hx_vec_push(&paths->frames, *frame));
    *frame = (struct hx_path_frame){0};
    *ret = (uint32_t)(paths->frames.n - 1);
    return hx_index_add(&paths->frame_index, hash, *ret);
}

hx_error *hx_paths_frame(struct hx_paths *paths, const struct hx_frame_texts *texts, uint32_t *ret)
{
    struct hx_path_frame frame = {0};
    hx_error *err = make_frame(paths, texts, &frame);
    if (!err)
        err = add_frame(paths, &frame, ret);
    free_frame(&frame);
    return err;
}

static hx_error *need_frame(struct hx_paths *paths, const char *name, uint32_t *frame)
{
    if (*frame != HX_NO_FRAME && paths->frames.n > *frame)
        return NULL;
    return hx_paths_frame(paths, &(struct hx_frame_texts){.name = name}, frame);
}

/* --- nodes ------------------------------------------------------------------------- */

static hx_error *add_child_entry(struct hx_paths *paths, uint32_t parent, uint32_t frame,
                                 uint32_t node)
{
    uint32_t *entry;
    HX_TRY(hx_pairs_at(&paths->entries, hx_pair_key(parent, frame), &entry));
    *entry = node;
    return NULL;
}

static bool find_child(const struct hx_paths *paths, uint32_t node, uint32_t frame, uint32_t *ret)
{
    *ret = hx_pairs_find(&paths->entries, hx_pair_key(node, frame));
    return *ret != HX_NO_PAIR;
}

static hx_error *make_node(struct hx_paths *paths, uint32_t parent, uint32_t frame, uint32_t *ret)
{
    struct hx_path node = {
        .parent = parent, .frame = frame, .depth = paths->nodes.v[parent].depth + 1};
    HX_NEED(hx_vec_push(&paths->nodes, node));
    *ret = (uint32_t)(paths->nodes.n - 1);
    return add_child_entry(paths, parent, frame, *ret);
}

/* Instead of a child that has no room. */
static hx_error *make_bound(struct hx_paths *paths, uint32_t node, uint32_t *ret)
{
    bool deep = paths->nodes.v[node].depth >= HX_PATHS_DEPTH - 1;
    uint32_t *frame = deep ? &paths->below : &paths->other;
    paths->deeper += deep;
    paths->beyond += !deep;
    HX_TRY(need_frame(paths, deep ? "(deeper)" : "(other)", frame));
    return find_child(paths, node, *frame, ret) ? NULL : make_node(paths, node, *frame, ret);
}

/* Nothing stands below these. */
static bool is_bound(const struct hx_paths *paths, uint32_t node)
{
    uint32_t frame = paths->nodes.v[node].frame;
    return frame != HX_NO_FRAME && (frame == paths->below || frame == paths->other);
}

hx_error *hx_paths_child(struct hx_paths *paths, uint32_t node, uint32_t frame, uint32_t *ret)
{
    if (is_bound(paths, node)) {
        *ret = node;
        return NULL;
    }
    if (find_child(paths, node, frame, ret))
        return NULL;
    if (paths->nodes.v[node].depth >= HX_PATHS_DEPTH - 1 || paths->nodes.n >= HX_PATHS_NODES)
        return make_bound(paths, node, ret);
    return make_node(paths, node, frame, ret);
}

hx_error *hx_paths_step(struct hx_paths *paths, uint32_t node, uint32_t frame, uint32_t *ret)
{
    if (paths->nodes.v[node].frame == frame || is_bound(paths, node)) {
        *ret = node;
        return NULL;
    }
    if (find_child(paths, node, frame, ret))
        return NULL;
    if (paths->nodes.v[node].depth < HX_PATHS_LONG)
        return hx_paths_child(paths, node, frame, ret);
    for (uint32_t up = node; up; up = paths->nodes.v[up].parent) {
        if (paths->nodes.v[up].frame != frame)
            continue;
        paths->recurring++;
        *ret = up;
        return add_child_entry(paths, node, frame, up);
    }
    return hx_paths_child(paths, node, frame, ret);
}

uint32_t hx_paths_frames(const struct hx_paths *paths, uint32_t node, uint32_t *ret)
{
    uint32_t depth = paths->nodes.v[node].depth;
    for (uint32_t at = depth; at--; node = paths->nodes.v[node].parent)
        ret[at] = paths->nodes.v[node].frame;
    return depth;
}

/* --- sums -------------------------------------------------------------------------- */

hx_error *hx_paths_inclusive(const struct hx_paths *paths, enum hx_path_value value, uint64_t **ret)
{
    size_t n = paths->nodes.n;
    uint64_t *sum = malloc((n + 1) * sizeof *sum);
    HX_NEED(sum);
    for (size_t i = 0; i < n; i++)
        sum[i] = paths->nodes.v[i].own[value];
    for (size_t i = n; i-- > 1;)
        hx_paths_add(&sum[paths->nodes.v[i].parent], sum[i]);
    *ret = sum;
    return NULL;
}

static bool has_own(const struct hx_path *node)
{
    for (int i = 0; i < HX_PATH_VALUES; i++)
        if (node->own[i])
            return true;
    return false;
}

size_t hx_paths_samples(const struct hx_paths *paths)
{
    size_t n = 0;
    for (size_t i = 1; i < paths->nodes.n; i++)
        n += has_own(&paths->nodes.v[i]);
    return n;
}

/* --- what is merged ------------------------------------------------------------------ */

struct cutting {
    struct hx_paths *paths;
    const struct hx_paths_cut *cut;
    uint64_t *weight; /* of each node with all below it */
    uint64_t *value;  /* the same of cut->value */
    uint32_t *place;  /* scratch */
};

static bool stays(const struct cutting *c, size_t node, uint64_t bar)
{
    const struct hx_paths *paths = c->paths;
    return node == 0 || (c->weight[node] >= bar && c->value[node] >= c->cut->least &&
                         paths->nodes.v[node].frame != paths->other);
}

/* Samples that are left when all nodes below the bar are merged. place[i]: 1 has a sample for the
 * others already, 2 is merged. */
static size_t count_left(const struct cutting *c, uint64_t bar)
{
    const struct hx_paths *paths = c->paths;
    size_t n = 0;
    memset(c->place, 0, paths->nodes.n * sizeof *c->place);
    for (size_t i = 1; i < paths->nodes.n; i++) {
        const struct hx_path *node = &paths->nodes.v[i];
        uint32_t *above = &c->place[node->parent];
        if (*above != 2 && stays(c, i, bar)) {
            n += has_own(node);
            continue;
        }
        c->place[i] = 2;
        if (*above == 0) {
            n++;
            *above = 1;
        }
    }
    return n;
}

/* The least bar that leaves no more than what is asked for. */
static uint64_t find_bar(const struct cutting *c)
{
    if (count_left(c, 0) <= c->cut->samples)
        return 0;
    /* with UINT64_MAX all is merged into one */
    return HX_LOWER_BOUND(UINT64_MAX, bar, count_left(c, bar) > c->cut->samples);
}

/* The child "(other)" of a node that stays. */
static hx_error *make_other(struct hx_paths *paths, uint32_t node, uint32_t *ret)
{
    return find_child(paths, node, paths->other, ret) ? NULL
                                                      : make_node(paths, node, paths->other, ret);
}

static void add_self_cost(struct hx_path *to, const struct hx_path *from)
{
    for (int i = 0; i < HX_PATH_VALUES; i++)
        hx_paths_add(&to->own[i], from->own[i]);
}

static void clear_nodes(struct hx_paths *paths)
{
    paths->nodes.n = 0;
    hx_pairs_free(&paths->entries);
}

/* Makes the tree anew. place[i]: the node that it went into. */
static hx_error *merge_small_paths(const struct cutting *c, uint64_t bar, struct hx_path *old,
                                   size_t n, size_t *merged)
{
    struct hx_paths *paths = c->paths;
    clear_nodes(paths);
    HX_NEED(hx_vec_push(&paths->nodes, old[0]));
    c->place[0] = 0;
    for (size_t i = 1; i < n; i++) {
        uint32_t above = c->place[old[i].parent];
        bool other = above && paths->nodes.v[above].frame == paths->other;
        if (!other && c->weight[i] >= bar && c->value[i] >= c->cut->least &&
            old[i].frame != paths->other) {
            HX_TRY(make_node(paths, above, old[i].frame, &c->place[i]));
        } else {
            *merged += has_own(&old[i]) && old[i].frame != paths->other;
            c->place[i] = above;
            if (!other)
                HX_TRY(make_other(paths, above, &c->place[i]));
        }
        add_self_cost(&paths->nodes.v[c->place[i]], &old[i]);
    }
    return NULL;
}

static hx_error *cut_by(struct cutting *c, size_t *merged)
{
    struct hx_paths *paths = c->paths;
    size_t n = paths->nodes.n;
    c->place = malloc((n + 1) * sizeof *c->place);
    HX_NEED(c->place);
    HX_TRY(hx_paths_inclusive(paths, c->cut->value, &c->value));
    HX_TRY(hx_paths_inclusive(paths, HX_PATH_BYTES, &c->weight));
    for (int value = 0; value < HX_PATH_BYTES; value++) {
        HX_FREE uint64_t *more = NULL;
        HX_TRY(hx_paths_inclusive(paths, (enum hx_path_value)value, &more));
        for (size_t i = 0; i < n; i++)
            hx_paths_add(&c->weight[i], more[i]);
    }
    uint64_t bar = find_bar(c);
    if (bar == 0 && c->cut->least == 0)
        return NULL;
    HX_TRY(need_frame(paths, "(other)", &paths->other));
    HX_FREE struct hx_path *old = paths->nodes.v;
    paths->nodes.v = NULL;
    paths->nodes.cap = 0;
    return merge_small_paths(c, bar, old, n, merged);
}

hx_error *hx_paths_cut(struct hx_paths *paths, const struct hx_paths_cut *cut, size_t *ret_merged)
{
    struct cutting c = {.paths = paths, .cut = cut};
    size_t merged = 0;
    hx_error *err = cut_by(&c, &merged);
    free(c.weight);
    free(c.value);
    free(c.place);
    if (!err)
        *ret_merged = merged;
    return err;
}

/* --- order ------------------------------------------------------------------------- */

struct ordering {
    const struct hx_paths *paths;
    const uint64_t *weight; /* NULL: by name */
};

static int compare_nodes(const void *a, const void *b, void *context)
{
    const struct ordering *o = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (o->weight && o->weight[x] != o->weight[y])
        return o->weight[x] > o->weight[y] ? -1 : 1;
    const struct hx_path_frame *f = &o->paths->frames.v[o->paths->nodes.v[x].frame],
                               *g = &o->paths->frames.v[o->paths->nodes.v[y].frame];
    int order = strcmp(f->name, g->name);
    if (!order)
        order = strcmp(f->module, g->module);
    if (!order)
        order = strcmp(f->file, g->file);
    if (!order)
        order = (f->line > g->line) - (f->line < g->line);
    return order ? order : strcmp(f->symbol, g->symbol);
}

hx_error *hx_paths_order(const struct hx_paths *paths, const uint64_t *weight, uint32_t **ret)
{
    struct ordering o = {paths, weight};
    return hx_preorder(HX_PARENTS(paths->nodes.v, parent, paths->nodes.n), compare_nodes, &o, ret);
}

/* --- all of it --------------------------------------------------------------------- */

void hx_paths_deinit(struct hx_paths *paths)
{
    for (size_t i = 0; i < paths->frames.n; i++)
        free_frame(&paths->frames.v[i]);
    hx_vec_free(&paths->frames);
    hx_vec_free(&paths->nodes);
    hx_index_free(&paths->frame_index);
    hx_pairs_free(&paths->entries);
    *paths = (struct hx_paths){0};
}

hx_error *hx_paths_clear(struct hx_paths *paths)
{
    if (!paths->frames.n)
        paths->other = paths->below = HX_NO_FRAME;
    paths->nodes.n = 0;
    clear_nodes(paths);
    struct hx_path top = {.frame = HX_NO_FRAME};
    return hx_vec_push(&paths->nodes, top) ? NULL : hx_error_nomem();
}

void hx_paths_note(const struct hx_export *export, const struct hx_paths *paths)
{
    if (paths->recurring)
        hx_text_putf(export->notes,
                     "%" PRIu64 " paths of more than %d frames go back to where their next type"
                     " stands already\n",
                     paths->recurring, HX_PATHS_LONG);
    if (paths->deeper)
        hx_text_putf(export->notes, "what is more than %d frames deep is shown as (deeper)\n",
                     HX_PATHS_DEPTH - 1);
    if (paths->beyond)
        hx_text_putf(export->notes, "there are more than %d paths; the others are in (other)\n",
                     HX_PATHS_NODES);
    if (paths->cut_names)
        hx_text_putf(export->notes, "%" PRIu64 " names are cut behind %d bytes\n", paths->cut_names,
                     HX_PATHS_NAME);
}
