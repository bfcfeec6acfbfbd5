/* image.c - reading drawn heaps. */
#include "image.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)

/* An object or root while the text is read. */
struct item {
    enum { OBJECT, ROOT } is;
    struct hx_root root; /* ROOT */
    char *name;
    uint64_t addr, size;
    bool placed, sized;
};

/* A word that has to be put somewhere once all places are known. */
struct word {
    size_t item;
    uint64_t offset;
    char *name; /* NULL: a number */
    uint64_t number;
};

struct reader {
    const char *at;
    unsigned line;
    HX_VEC(struct item) items;
    HX_VEC(struct word) words;
    hx_ranges holes;
};

static hx_error *mistake(const struct reader *reader, const char *what)
{
    char where[32];
    snprintf(where, sizeof where, "line %u", reader->line);
    return hx_error_new(HX_E_CORRUPT, where, NULL, "%s near \"%.20s\"", what, reader->at);
}

/* --- tokens ------------------------------------------------------------------ */

static void skip_blanks(struct reader *reader)
{
    while (*reader->at == ' ' || *reader->at == '\t')
        reader->at++;
    if (*reader->at == '#')
        reader->at += strcspn(reader->at, "\n");
}

static bool at_end(struct reader *reader)
{
    skip_blanks(reader);
    return !*reader->at || *reader->at == ';' || *reader->at == '\n';
}

static bool take(struct reader *reader, const char *token)
{
    skip_blanks(reader);
    size_t n = strlen(token);
    if (strncmp(reader->at, token, n) != 0)
        return false;
    reader->at += n;
    return true;
}

static bool take_number(struct reader *reader, uint64_t *ret)
{
    skip_blanks(reader);
    if (!isdigit((unsigned char)*reader->at))
        return false;
    char *end;
    *ret = strtoull(reader->at, &end, 0);
    reader->at = end;
    return true;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static char *take_name(struct reader *reader)
{
    skip_blanks(reader);
    size_t n = 0;
    while (is_name(reader->at[n]))
        n++;
    char *name = n ? strndup(reader->at, n) : NULL;
    reader->at += n;
    return name;
}

/* --- items ------------------------------------------------------------------- */

static hx_error *read_words(struct reader *reader)
{
    uint64_t next = 0;
    while (!at_end(reader)) {
        struct word word = {.item = reader->items.n - 1, .offset = next};
        if (take_number(reader, &word.number)) {
            if (take(reader, "->")) {
                word.offset = word.number;
                word.number = 0;
                if (!take_number(reader, &word.number))
                    word.name = take_name(reader);
                else
                    goto push;
            } else {
                goto push;
            }
        } else {
            word.name = take_name(reader);
        }
        if (!word.name)
            return mistake(reader, "no value");
        if (take(reader, "+") && !take_number(reader, &word.number)) {
            free(word.name);
            return mistake(reader, "no number after +");
        }
    push:
        if (!hx_vec_push(&reader->words, word)) {
            free(word.name);
            return hx_error_nomem();
        }
        next = word.offset + 8;
        struct item *item = &reader->items.v[reader->items.n - 1];
        if (next > item->size) {
            if (item->sized)
                return mistake(reader, "the word lies outside");
            item->size = next;
        }
    }
    return NULL;
}

static bool take_kind(struct reader *reader, enum hx_root_kind *ret)
{
    for (enum hx_root_kind kind = HX_ROOT_GLOBAL; kind <= HX_ROOT_NAMED; kind++) {
        if (take(reader, hx_root_kind_name(kind))) {
            *ret = kind;
            return true;
        }
    }
    return false;
}

static hx_error *read_item(struct reader *reader)
{
    struct item item = {0};
    bool cluster = false;
    uint64_t addr, size;
    if (take(reader, "hole ")) {
        if (!take_number(reader, &addr) || !take_number(reader, &size))
            return mistake(reader, "hole ADDR SIZE");
        return hx_vec_push(&reader->holes, (struct hx_range){addr, addr + size}) ? NULL
                                                                                 : hx_error_nomem();
    }
    if (take(reader, "obj "))
        item.is = OBJECT;
    else if (take(reader, "root "))
        item.is = ROOT;
    else if ((cluster = take(reader, "cluster ")))
        item.is = ROOT;
    else
        return mistake(reader, "neither obj, root, cluster nor hole");
    item.name = take_name(reader);
    if (!item.name)
        return mistake(reader, "no name");
    if (!hx_vec_push(&reader->items, item)) {
        free(item.name);
        return hx_error_nomem();
    }
    struct item *kept = &reader->items.v[reader->items.n - 1];
    kept->root.cluster = cluster;
    kept->root.bias = cluster ? HX_DRAW_CLUSTER_BIAS : 0;
    if (kept->is == OBJECT) {
        if (!take_number(reader, &kept->size))
            return mistake(reader, "no size");
        kept->sized = true;
    } else {
        take_kind(reader, &kept->root.kind);
    }
    if (take(reader, "@")) {
        if (!take_number(reader, &kept->addr))
            return mistake(reader, "no address after @");
        kept->placed = true;
    }
    if (kept->is == ROOT && take(reader, "/")) {
        if (!take_number(reader, &kept->size))
            return mistake(reader, "no size after /");
        kept->sized = true;
    }
    if (take(reader, ":"))
        HX_TRY(read_words(reader));
    return at_end(reader) ? NULL : mistake(reader, "what is this");
}

static hx_error *read_text(struct reader *reader)
{
    reader->line = 1;
    while (*reader->at) {
        if (!at_end(reader))
            HX_TRY(read_item(reader));
        if (*reader->at == '\n')
            reader->line++;
        if (*reader->at)
            reader->at++;
    }
    return NULL;
}

/* --- places ------------------------------------------------------------------ */

static void place_items(struct reader *reader)
{
    uint64_t heap = HX_DRAW_HEAP_BASE, roots = HX_DRAW_ROOT_BASE;
    for (size_t i = 0; i < reader->items.n; i++) {
        struct item *item = &reader->items.v[i];
        if (item->is == ROOT && item->root.kind == HX_ROOT_REGISTER)
            continue;
        uint64_t *next = item->is == OBJECT ? &heap : &roots;
        if (!item->placed)
            item->addr = *next;
        uint64_t end = item->addr + item->size + (item->is == OBJECT ? 16 : HX_DRAW_ROOT_GAP);
        *next = (end + 15) & ~UINT64_C(15);
    }
}

static int compare_items(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;
    if ((*x)->addr != (*y)->addr)
        return (*x)->addr < (*y)->addr ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

/* Pointers to the items of one kind by address; the caller frees. */
static struct item **sorted_items(const struct reader *reader, int is, size_t *ret_n)
{
    struct item **sorted = calloc(reader->items.n + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; sorted && i < reader->items.n; i++)
        if (is < 0 || (int)reader->items.v[i].is == is)
            sorted[n++] = &reader->items.v[i];
    if (sorted)
        qsort(sorted, n, sizeof *sorted, compare_items);
    *ret_n = n;
    return sorted;
}

/* Adds [start, end) without the holes in it. */
static bool add_spans(struct hx_image *image, size_t *cap, const hx_ranges *holes, uint64_t start,
                      uint64_t end)
{
    while (start < end) {
        uint64_t stop = end, resume = end;
        for (size_t i = 0; i < holes->n; i++) {
            const struct hx_range *hole = &holes->v[i];
            if (hole->end <= start || hole->start >= stop)
                continue;
            stop = hole->start > start ? hole->start : start;
            resume = hole->end < end ? hole->end : end;
        }
        if (stop > start) {
            if (!hx_vec_reserve_raw((void **)&image->span, cap, image->n + 1, sizeof *image->span))
                return false;
            image->span[image->n++] = (struct hx_span){.start = start, .end = stop};
        }
        start = resume;
    }
    return true;
}

/* Spans of whole pages around all items, then their bytes. */
static hx_error *make_image(const struct reader *reader, struct hx_image *image)
{
    size_t n, cap = 0;
    struct item **sorted = sorted_items(reader, -1, &n);
    bool fine = sorted != NULL;
    uint64_t end = 0;
    for (size_t i = 0; fine && i < n; i++) {
        if (sorted[i]->is == ROOT && sorted[i]->root.kind == HX_ROOT_REGISTER)
            continue;
        uint64_t from = sorted[i]->addr / PAGE * PAGE;
        uint64_t to = (sorted[i]->addr + sorted[i]->size + PAGE - 1) / PAGE * PAGE;
        from = from > end ? from : end;
        if (from < to)
            fine = add_spans(image, &cap, &reader->holes, from, to);
        end = to > end ? to : end;
    }
    free(sorted);
    if (!fine)
        return hx_error_nomem();
    for (size_t i = 0; i < image->n; i++)
        image->mapping_bytes += image->span[i].end - image->span[i].start;
    if (!image->mapping_bytes)
        return NULL;
    image->mapping = mmap(NULL, image->mapping_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image->mapping == MAP_FAILED) {
        image->mapping = NULL;
        return hx_error_nomem();
    }
    uint8_t *bytes = image->mapping;
    for (size_t i = 0; i < image->n; i++) {
        image->span[i].bytes = bytes;
        bytes += image->span[i].end - image->span[i].start;
    }
    return NULL;
}

static const struct item *item_named(const struct reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->items.n; i++)
        if (strcmp(reader->items.v[i].name, name) == 0)
            return &reader->items.v[i];
    return NULL;
}

static hx_error *put_words(struct reader *reader, const struct hx_image *image)
{
    for (size_t i = 0; i < reader->words.n; i++) {
        const struct word *word = &reader->words.v[i];
        struct item *item = &reader->items.v[word->item];
        uint64_t value = word->number;
        if (word->name) {
            const struct item *target = item_named(reader, word->name);
            if (!target)
                return hx_error_new(HX_E_CORRUPT, word->name, NULL, "nothing has this name");
            value += target->addr;
        }
        if (item->is == ROOT && item->root.kind == HX_ROOT_REGISTER) {
            item->root.value = value;
            continue;
        }
        for (unsigned b = 0; b < 8; b++) { /* single bytes, as the word may be cut by a hole */
            const uint8_t *at = hx_image_at(image, item->addr + word->offset + b, 1);
            if (at)
                *(uint8_t *)(uintptr_t)at = (uint8_t)(value >> 8 * b);
        }
    }
    return NULL;
}

/* --- the snapshot ------------------------------------------------------------ */

hx_error *hx_image_plain(const uint64_t *addr, const uint64_t *size, hx_obj n,
                         struct hx_snapshot **ret)
{
    struct hx_snapshot *snapshot HX_SNAPSHOT = NULL;
    HX_TRY(hx_snapshot_create(&snapshot));
    struct hx_graph *graph = &snapshot->graph;
    HX_TRY(hx_big_reserve(&graph->addr_mem, n * sizeof(uint64_t)));
    HX_TRY(hx_big_reserve(&graph->size_mem, n * sizeof(uint64_t)));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    graph->n = n;
    for (hx_obj i = 0; i < n; i++) {
        graph->addr[i] = addr[i];
        graph->size[i] = size[i];
        snapshot->heap_bytes += size[i];
    }
    *ret = hx_steal(snapshot);
    return NULL;
}

static hx_error *add_objects(const struct reader *reader, struct hx_drawing *drawing)
{
    size_t n;
    struct item **sorted = sorted_items(reader, OBJECT, &n);
    uint64_t *place = calloc(2 * n + 1, sizeof *place);
    drawing->drawn = calloc(n + 1, sizeof *drawing->drawn);
    hx_error *err = sorted && place && drawing->drawn ? NULL : hx_error_nomem();
    for (size_t i = 0; !err && i < n; i++) {
        place[i] = sorted[i]->addr;
        place[n + i] = sorted[i]->size;
        drawing->drawn[drawing->n++] =
            (struct hx_drawn){.name = hx_steal(sorted[i]->name), .addr = sorted[i]->addr};
    }
    if (!err)
        err = hx_image_plain(place, place + n, (hx_obj)n, &drawing->snapshot);
    free(place);
    free(sorted);
    return err;
}

static hx_error *add_roots(const struct reader *reader, struct hx_snapshot *snapshot)
{
    size_t n;
    struct item **sorted = sorted_items(reader, ROOT, &n);
    bool fine = sorted != NULL;
    for (size_t i = 0; fine && i < n; i++) {
        struct hx_root root = sorted[i]->root;
        root.address = sorted[i]->addr;
        root.size = sorted[i]->size;
        root.module = strdup(root.cluster ? sorted[i]->name : "");
        root.name = strdup(root.cluster ? "" : sorted[i]->name);
        fine = root.module && root.name && hx_vec_push(&snapshot->roots, root);
        if (!fine) {
            free(root.module);
            free(root.name);
        }
    }
    free(sorted);
    return fine ? NULL : hx_error_nomem();
}

static hx_error *draw(struct reader *reader, struct hx_drawing *drawing)
{
    struct hx_image image = {0};
    HX_TRY(read_text(reader));
    place_items(reader);
    hx_error *err = make_image(reader, &image);
    if (!err)
        err = put_words(reader, &image);
    if (!err)
        err = add_objects(reader, drawing);
    if (err) {
        hx_image_deinit(&image);
        return err;
    }
    drawing->snapshot->image = image;
    return add_roots(reader, drawing->snapshot);
}

hx_error *hx_image_draw(const char *text, struct hx_drawing *ret)
{
    struct reader reader = {.at = text};
    struct hx_drawing drawing = {0};
    hx_error *err = draw(&reader, &drawing);
    for (size_t i = 0; i < reader.items.n; i++)
        free(reader.items.v[i].name);
    for (size_t i = 0; i < reader.words.n; i++)
        free(reader.words.v[i].name);
    hx_vec_free(&reader.items);
    hx_vec_free(&reader.words);
    hx_vec_free(&reader.holes);
    if (err)
        hx_drawing_deinit(&drawing);
    else
        *ret = drawing;
    return err;
}

void hx_drawing_deinit(struct hx_drawing *drawing)
{
    for (size_t i = 0; i < drawing->n; i++)
        free(drawing->drawn[i].name);
    free(drawing->drawn);
    hx_snapshot_destroy(drawing->snapshot);
    *drawing = (struct hx_drawing){0};
}

hx_obj hx_drawing_object(const struct hx_drawing *drawing, const char *name)
{
    for (size_t i = 0; i < drawing->n; i++)
        if (strcmp(drawing->drawn[i].name, name) == 0)
            return hx_graph_find(&drawing->snapshot->graph, drawing->drawn[i].addr);
    return HX_NO_OBJ;
}

uint32_t hx_drawing_root(const struct hx_drawing *drawing, const char *name)
{
    for (size_t i = 0; i < drawing->snapshot->roots.n; i++)
        if (strcmp(drawing->snapshot->roots.v[i].name, name) == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

/* --- graphs given by their edges --------------------------------------------- */

static hx_error *add_edges(struct hx_graph *graph, const struct hx_drawn_edge *edge, size_t n)
{
    HX_TRY(hx_big_reserve(&graph->fwd_mem, ((size_t)graph->n + 1) * sizeof(hx_eidx)));
    HX_TRY(hx_big_reserve(&graph->edge_mem, n * sizeof(hx_edge)));
    graph->fwd = graph->fwd_mem.base;
    graph->edge = graph->edge_mem.base;
    graph->n_edges = n;
    size_t at = 0;
    for (hx_obj i = 0; i < graph->n; i++) {
        graph->fwd[i] = at;
        for (size_t first = at; at < n && edge[at].source == i; at++)
            graph->edge[at] = hx_edge_make(edge[at].target, at - first, edge[at].kind);
    }
    graph->fwd[graph->n] = at;
    return NULL;
}

static hx_error *add_root_edges(struct hx_snapshot *snapshot, uint32_t n_roots,
                                const struct hx_drawn_edge *edge, size_t n)
{
    size_t at = 0;
    uint64_t address = HX_DRAW_ROOT_BASE;
    for (uint32_t i = 0; i < n_roots; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%u", i);
        struct hx_root root = {
            .address = address, .size = 8, .name = strdup(name), .module = strdup("")};
        for (; at < n && edge[at].source == i; at++, address += 8)
            if (!hx_vec_push(&snapshot->root_edges, (struct hx_root_edge){.root = i,
                                                                          .target = edge[at].target,
                                                                          .address = address,
                                                                          .kind = edge[at].kind}))
                return hx_error_nomem();
        if (address > root.address)
            root.size = address - root.address;
        address = root.address + root.size;
        if (!hx_vec_push(&snapshot->roots, root))
            return hx_error_nomem();
    }
    return NULL;
}

hx_error *hx_image_graph(hx_obj n, const struct hx_drawn_edge *edge, size_t n_edges,
                         uint32_t n_roots, const struct hx_drawn_edge *root_edge,
                         size_t n_root_edges, struct hx_snapshot **ret)
{
    uint64_t *place = calloc(2 * (size_t)n + 1, sizeof *place);
    if (!place)
        return hx_error_nomem();
    uint64_t next = HX_DRAW_HEAP_BASE;
    size_t at = 0;
    for (hx_obj i = 0; i < n; i++) {
        size_t first = at;
        while (at < n_edges && edge[at].source == i)
            at++;
        place[i] = next;
        place[n + i] = ((at - first) * 8 + 15) / 16 * 16 + 8;
        next += place[n + i] + 8;
    }
    struct hx_snapshot *snapshot HX_SNAPSHOT = NULL;
    hx_error *err = hx_image_plain(place, place + n, n, &snapshot);
    free(place);
    if (!err)
        err = add_edges(&snapshot->graph, edge, n_edges);
    if (!err)
        err = add_root_edges(snapshot, n_roots, root_edge, n_root_edges);
    if (!err)
        *ret = hx_steal(snapshot);
    return err;
}
