/* rtti.c - types of objects: which word of a block tells, for all blocks. */
#include "attach/types/rtti.h"

#include "attach/types/classes.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "sym/demangle.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WORD          8
#define SLACK         16 /* the request is above usable - SLACK */
#define SLACK_ALIGNED 48 /* the same of a block that was asked for with an alignment */
#define CHUNK         ((uint64_t)1 << 12) /* objects */
#define PREFETCH      8                   /* objects ahead */
#define REGION_SHIFT  21   /* first test: does a module have something in these 2 MiB? */
#define REGIONS       8192 /* a power of 2 */
#define SLOTS         8192 /* of a worker's answers; a power of 2 */
#define PROBES        4

/* How objects of a class were seen. Until the end, graph.type holds class * 2 + is array. */
enum { SEEN = 1, SEEN_LIKELY = 2 };

struct finder;

struct worker {
    struct finder *finder;
    struct hx_vtable *cache; /* SLOTS; address 0: free */
    uint8_t *seen;           /* HX_CLASSES_MAX * 2 */
    uint64_t unnamed;        /* objects of classes beyond HX_CLASSES_MAX */
};

struct finder {
    struct hx_snapshot *snapshot;
    const struct hx_rtti_source *source;
    const struct hx_progress *progress;
    unsigned threads;
    struct worker *worker;
    atomic_uint_fast64_t next;
    atomic_bool stop;
    uint8_t region[REGIONS];
    struct hx_classes classes;
    uint32_t *final; /* class * 2 + is array to index in types */
};

/* The answer for a word of an object, from the worker's own table when it is there. */
static const struct hx_vtable *find_vtable(struct worker *worker, uint64_t addr)
{
    size_t slot = hx_classes_hash(addr, SLOTS);
    struct hx_vtable *free_slot = &worker->cache[slot]; /* when all are taken: the first */
    for (size_t i = 0; i < PROBES; i++) {
        struct hx_vtable *cache = &worker->cache[(slot + i) & (SLOTS - 1)];
        if (cache->addr == addr)
            return cache;
        if (!cache->addr) {
            free_slot = cache;
            break;
        }
    }
    *free_slot = hx_classes_vtable(&worker->finder->classes, addr);
    return free_slot;
}

static inline bool is_candidate(const struct finder *finder, uint64_t word)
{
    return finder->region[word >> REGION_SHIFT & (REGIONS - 1)] && word % WORD == 0 && word;
}

/* The class of the vtable at `word`, HX_NO_CLASS when it is none; *ret_top its offset. */
static uint32_t vtable_class(struct worker *worker, uint64_t word, int32_t *ret_top)
{
    if (!is_candidate(worker->finder, word))
        return HX_NO_CLASS;
    const struct hx_vtable *cache = find_vtable(worker, word);
    *ret_top = cache->top;
    return cache->class;
}

/* --- one object ------------------------------------------------------------------------ */

/* new[] of a class puts the count before the elements, and before that what their alignment
 * wants. Is the block such an array of the class whose vtable is word k? */
static bool is_array(const struct worker *worker, uint64_t addr, uint64_t size,
                     const uint64_t *words, size_t k)
{
    uint64_t cookie = k * WORD, count = words[k - 1], align = cookie;
    if (size <= cookie || !count || count > size / WORD || (k > 1 && count == 1))
        return false;
    uint64_t slack = cookie > 2 * WORD ? SLACK_ALIGNED : SLACK;
    uint64_t high = size - cookie; /* the elements are in (high - slack, high] */
    uint64_t low = high >= slack ? high - slack + 1 : 1, step = count * align;
    uint64_t all = high - high % step;
    if (all < low || all == 0)
        return false;
    uint64_t second;
    return count == 1 ||
           (hx_image_u64(&worker->finder->snapshot->image, addr + cookie + all / count, &second) &&
            second == words[k]);
}

static uint32_t note_vtable(struct worker *worker, uint32_t class, bool array, bool likely)
{
    if (class == HX_CLASSES_MAX) {
        worker->unnamed++;
        return HX_NO_TYPE;
    }
    uint32_t type = class * 2 + array;
    worker->seen[type] |= likely ? SEEN | SEEN_LIKELY : SEEN;
    return type;
}

/* By the rules of the header for words 1 to n - 1. */
static uint32_t type_of_later(struct worker *worker, uint64_t addr, uint64_t size,
                              const uint64_t *words, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        int32_t top;
        uint32_t class = vtable_class(worker, words[k], &top);
        if (class == HX_NO_CLASS)
            continue;
        bool power_of_2 = (k & (k - 1)) == 0;
        if (top == 0 && power_of_2 && is_array(worker, addr, size, words, k))
            return note_vtable(worker, class, true, false);
        if (top == 0 || top == -(int32_t)(k * WORD))
            return note_vtable(worker, class, false, true);
    }
    return HX_NO_TYPE;
}

/* The type by the first word; false when it says nothing. */
static bool type_of_first(struct worker *worker, uint64_t word, uint32_t *ret)
{
    int32_t top;
    uint32_t class = vtable_class(worker, word, &top);
    if (class == HX_NO_CLASS || top != 0)
        return false;
    *ret = note_vtable(worker, class, false, false);
    return true;
}

/* Copies the words that the image has, at most HX_RTTI_WORDS. */
static size_t copy_words(const struct hx_image *image, uint64_t addr, uint64_t size,
                         uint64_t words[HX_RTTI_WORDS])
{
    size_t n = 0;
    while (n < HX_RTTI_WORDS && (n + 1) * WORD <= size &&
           hx_image_u64(image, addr + n * WORD, &words[n]))
        n++;
    return n;
}

/* --- all objects ----------------------------------------------------------------------- */

/* The type of an object whose first n words, 1 to HX_RTTI_WORDS, are at `bytes`. The usual
 * answer is no, and comes from one byte of a small table for each word. */
static inline uint32_t find_object_type(struct worker *worker, uint64_t addr, uint64_t size,
                                        const uint8_t *bytes, size_t n)
{
    const uint8_t *region = worker->finder->region;
    uint64_t words[HX_RTTI_WORDS], first;
    uint32_t type;
    memcpy(&first, bytes, WORD);
    if (type_of_first(worker, first, &type))
        return type;
    uint8_t any = 0;
    for (size_t i = 1; i < n; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * WORD, WORD);
        any |= region[word >> REGION_SHIFT & (REGIONS - 1)];
    }
    if (__builtin_expect(!any, 1))
        return HX_NO_TYPE;
    memcpy(words, bytes, n * WORD);
    return type_of_later(worker, addr, size, words, n);
}

static uint32_t match_objects(struct worker *worker, uint64_t addr, uint64_t size)
{
    uint64_t words[HX_RTTI_WORDS];
    uint32_t type;
    size_t n = copy_words(&worker->finder->snapshot->image, addr, size, words);
    if (!n)
        return HX_NO_TYPE;
    return type_of_first(worker, words[0], &type) ? type
                                                  : type_of_later(worker, addr, size, words, n);
}

static void type_objects(struct worker *worker, hx_obj from, hx_obj to)
{
    const struct hx_image *image = &worker->finder->snapshot->image;
    struct hx_graph *graph = &worker->finder->snapshot->graph;
    HX_PEEKED window = {0};
    for (hx_obj i = from; i < to; i++) {
        uint64_t addr = graph->addr[i], size = graph->size[i];
        size_t n = size / WORD < HX_RTTI_WORDS ? size / WORD : HX_RTTI_WORDS;
        const uint64_t *words = n ? hx_image_peek(image, addr, n, &window) : NULL;
        if (words && window.span < image->n && image->span[window.span].bytes && to - i > PREFETCH)
            __builtin_prefetch(words + (graph->addr[i + PREFETCH] - addr) / WORD);
        graph->type[i] = words ? find_object_type(worker, addr, size, (const uint8_t *)words, n)
                         : n   ? match_objects(worker, addr, size)
                               : HX_NO_TYPE;
    }
}

static void rtti_worker(void *context, unsigned i)
{
    struct finder *finder = context;
    const uint64_t n = finder->snapshot->graph.n;
    while (!atomic_load_explicit(&finder->stop, memory_order_relaxed)) {
        uint64_t from = atomic_fetch_add(&finder->next, CHUNK);
        if (from >= n)
            break;
        uint64_t to = n - from < CHUNK ? n : from + CHUNK;
        type_objects(&finder->worker[i], (hx_obj)from, (hx_obj)to);
        hx_progress_at(finder->progress, "types", to, n);
        if (hx_progress_cancelled(finder->progress) || atomic_load(&finder->classes.nomem))
            atomic_store(&finder->stop, true);
    }
}

/* --- the types that were found --------------------------------------------------------- */

struct candidate {
    uint32_t type; /* class * 2 + is array */
    uint8_t seen;
    char *name;
    const char *symbol; /* the class's; NULL: of an array */
};

static int compare_class_names(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->type < y->type ? -1 : x->type > y->type;
}

static uint8_t seen_by_all(const struct finder *finder, uint32_t type)
{
    uint8_t seen = 0;
    for (unsigned i = 0; i < finder->threads; i++)
        seen |= finder->worker[i].seen[type];
    return seen;
}

/* ABI tags stay only where there is a second name without them. */
static char *full_name(const struct finder *finder, const struct hx_class *class, bool array)
{
    static const char before[] = "typeinfo for ";
    const struct hx_rtti_source *source = finder->source;
    HX_CLEANUP(hx_text_free) struct hx_text info = {0};
    struct hx_text name = {0};
    hx_text_puts(&info, before);
    hx_put_untagged(&info, class->name);
    bool second = hx_has_tag(class->name) && source->has_namesake && !info.failed &&
                  source->has_namesake(source->context, class->symbol, info.s);
    hx_text_puts(&name, second ? class->name : hx_text_str(&info) + sizeof before - 1);
    hx_text_puts(&name, array ? "[]" : "");
    if (name.failed || info.failed)
        hx_text_free(&name);
    return name.s;
}

/* One type for each name; several classes can have the same (in libraries that do not share
 * theirs, or cut). Takes the names of the candidates. */
static bool make_types(struct finder *finder, struct candidate *candidate, size_t n)
{
    struct hx_snapshot *snapshot = finder->snapshot;
    if (n)
        qsort(candidate, n, sizeof *candidate, compare_class_names);
    for (size_t i = 0; i < n; i++) {
        enum hx_confidence confidence =
            candidate[i].seen & SEEN_LIKELY ? HX_CONFIDENCE_LIKELY : HX_CONFIDENCE_CERTAIN;
        struct hx_type *last = snapshot->types.n ? &snapshot->types.v[snapshot->types.n - 1] : NULL;
        if (last && strcmp(last->name, candidate[i].name) == 0) {
            if (confidence == HX_CONFIDENCE_LIKELY)
                last->confidence = confidence;
            const char *other = candidate[i].symbol;
            if (last->symbol && (!other || strcmp(last->symbol, other) != 0))
                free(hx_steal(last->symbol));
        } else {
            struct hx_type type = {.name = candidate[i].name, .confidence = confidence};
            const char *symbol = candidate[i].symbol;
            if (symbol && !(type.symbol = strdup(symbol)))
                return false;
            if (!hx_vec_push(&snapshot->types, type)) {
                free(type.symbol);
                return false;
            }
            candidate[i].name = NULL;
        }
        finder->final[candidate[i].type] = (uint32_t)(snapshot->types.n - 1);
    }
    return true;
}

static hx_error *collect_types(struct finder *finder)
{
    HX_VEC(struct candidate) candidates = {0};
    bool good = true;
    for (uint32_t type = 0; good && type < finder->classes.names.n * 2; type++) {
        struct candidate candidate = {.type = type, .seen = seen_by_all(finder, type)};
        if (!candidate.seen)
            continue;
        const struct hx_class *class = &finder->classes.names.v[type / 2];
        candidate.symbol = type % 2 ? NULL : class->symbol;
        candidate.name = full_name(finder, class, type % 2);
        good = candidate.name && hx_vec_push(&candidates, candidate);
        if (!good)
            free(candidate.name);
    }
    finder->final = calloc(finder->classes.names.n * 2 + 1, sizeof *finder->final);
    good = good && finder->final && make_types(finder, candidates.v, candidates.n);
    for (size_t i = 0; i < candidates.n; i++)
        free(candidates.v[i].name);
    hx_vec_free(&candidates);
    return good ? NULL : hx_error_nomem();
}

static void renumber_types(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct finder *finder = context;
    uint32_t *type = finder->snapshot->graph.type;
    for (size_t k = from; k < to; k++)
        if (type[k] != HX_NO_TYPE)
            type[k] = finder->final[type[k]];
}

/* --- the whole ------------------------------------------------------------------------- */

static void mark_regions(struct finder *finder)
{
    for (size_t i = 0; i < finder->source->n_ranges; i++) {
        const struct hx_range *range = &finder->source->range[i];
        uint64_t first = range->start >> REGION_SHIFT, last = (range->end - 1) >> REGION_SHIFT;
        for (uint64_t k = first; k <= last && k - first < REGIONS; k++)
            finder->region[k & (REGIONS - 1)] = 1;
    }
}

static hx_error *prepare_rtti(struct finder *finder)
{
    struct hx_graph *graph = &finder->snapshot->graph;
    mark_regions(finder);
    finder->worker = calloc(finder->threads, sizeof *finder->worker);
    HX_NEED(finder->worker);
    HX_TRY(hx_classes_init(&finder->classes, &finder->snapshot->image, finder->source));
    for (unsigned i = 0; i < finder->threads; i++) {
        struct worker *worker = &finder->worker[i];
        worker->finder = finder;
        worker->cache = calloc(SLOTS, sizeof *worker->cache);
        worker->seen = calloc(HX_CLASSES_MAX, 2);
        HX_NEED(worker->cache && worker->seen);
    }
    return hx_big_array(graph->type, graph->n);
}

static void finish_rtti(struct finder *finder)
{
    for (unsigned i = 0; finder->worker && i < finder->threads; i++) {
        free(finder->worker[i].cache);
        free(finder->worker[i].seen);
    }
    free(finder->worker);
    free(finder->final);
    hx_classes_deinit(&finder->classes);
}

static hx_error *find_types(struct finder *finder)
{
    HX_TRY(prepare_rtti(finder));
    hx_parallel(finder->threads, rtti_worker, finder);
    if (atomic_load(&finder->classes.nomem))
        return hx_error_nomem();
    if (hx_progress_cancelled(finder->progress))
        return hx_error_cancelled("types");
    HX_TRY(collect_types(finder));
    if (finder->snapshot->types.n)
        hx_parallel_blocks(finder->threads, finder->snapshot->graph.n, CHUNK, renumber_types,
                           finder, NULL);
    uint64_t unnamed = 0;
    for (unsigned i = 0; i < finder->threads; i++)
        unnamed += finder->worker[i].unnamed;
    if (unnamed)
        hx_snapshot_lose(finder->snapshot, "objects of more classes than are kept", unnamed, 0, 0);
    return NULL;
}

static void forget_types(struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->types.n; i++) {
        free(snapshot->types.v[i].name);
        free(snapshot->types.v[i].symbol);
    }
    hx_vec_free(&snapshot->types);
    hx_big_array_free(snapshot->graph.type);
}

hx_error *hx_rtti(struct hx_snapshot *snapshot, const struct hx_rtti_source *source,
                  unsigned threads, const struct hx_progress *progress)
{
    forget_types(snapshot);
    if (!snapshot->graph.n)
        return NULL;
    HX_FREE struct finder *finder = calloc(1, sizeof *finder);
    HX_NEED(finder);
    *finder = (struct finder){.snapshot = snapshot,
                              .source = source,
                              .progress = progress,
                              .threads = hx_threads(threads)};
    hx_error *err = find_types(finder);
    if (err)
        forget_types(snapshot);
    finish_rtti(finder);
    return err;
}
