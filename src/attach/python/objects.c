/* objects.c - which blocks hold Python objects, and what else they have. */
#include "attach/python/objects.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WORD       8
#define WORDS      10 /* of a block that are looked at, behind what debug hooks put there */
#define CHUNK      ((uint64_t)1 << 12) /* objects */
#define SLOTS      4096                /* of a worker's answers; a power of 2 */
#define SLACK      64 /* bytes of a block that an object of one size leaves, at most */
#define SMALL      65536
#define DEBUG_HEAD 16
#define DEBUG_TAIL 8
#define SAMPLE     1024 /* blocks */

struct worker {
    struct finder *finder;
    struct hx_py_class *cache; /* SLOTS */
};

struct finder {
    struct hx_py_objects *objects;
    const struct hx_progress *progress;
    struct worker *worker;
    unsigned threads;
    bool parts; /* the second pass */
    atomic_uint_fast64_t next;
    atomic_bool stop;
};

/* What of a block is read. */
struct block {
    uint64_t addr, size; /* without what debug hooks have of it */
    uint64_t word[WORDS];
    size_t n; /* words that are there */
};

/* Is this what debug hooks put before a block? */
static bool is_marked(const struct hx_snapshot *snapshot, uint64_t addr)
{
    uint64_t word;
    return hx_image_u64(&snapshot->image, addr + WORD, &word) &&
           (word & ~UINT64_C(0xff)) == UINT64_C(0xfdfdfdfdfdfdfd00);
}

uint64_t hx_py_before(const struct hx_py_objects *objects, hx_obj i)
{
    const struct hx_snapshot *snapshot = objects->snapshot;
    if (!objects->before)
        return 0;
    return is_marked(snapshot, snapshot->graph.addr[i] + DEBUG_HEAD) ? 2 * DEBUG_HEAD : DEBUG_HEAD;
}

/* --- one block ------------------------------------------------------------------------- */

static const struct hx_py_class *class_at(struct worker *worker, uint64_t addr)
{
    struct hx_py_class *slot =
        &worker->cache[(addr / WORD * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (SLOTS - 1)];
    if (slot->addr != addr)
        *slot = hx_py_class_at(worker->finder->objects->classes, addr);
    return slot;
}

/* Is it a count of references? An array of pointers to objects has a pointer in its place. */
static bool is_count(struct hx_py_classes *classes, uint64_t word)
{
    uint64_t type;
    const uint64_t flags = classes->layout->version >= HX_PYTHON(3, 14) ? word >> 48 : 0;
    const uint64_t count = word - (flags << 48);
    if (!count || count >> 32)
        return false;
    return count < SMALL || word % WORD ||
           !hx_image_u64(classes->image, word + HX_PY_TYPE, &type) ||
           hx_py_class_at(classes, type).number == HX_PY_NO_CLASS;
}

/* Can these two words be the garbage collector's links? */
static bool are_links(const uint64_t *word)
{
    enum { FLAGS = 3 };
    return (!word[0] || word[0] >= SMALL) && word[0] % WORD <= FLAGS;
}

/* The bytes of a str, without what it has in another block; 0: it is none. */
static uint64_t str_bytes(const struct hx_py_layout *layout, const uint64_t *word, size_t n,
                          const struct hx_py_class *class)
{
    if (n <= HX_PY_STR_STATE / WORD)
        return 0;
    const uint32_t state = (uint32_t)word[HX_PY_STR_STATE / WORD], kind = state >> 2 & 7;
    const uint64_t length = word[HX_PY_SIZE / WORD];
    if ((kind != 1 && kind != 2 && kind != 4 && kind) || length >> 40)
        return 0;
    if (!(state & HX_PY_STR_COMPACT))
        return class->basicsize;
    return state & HX_PY_STR_ASCII ? layout->ascii + length + 1
                                   : layout->compact + (length + 1) * kind;
}

static uint64_t int_bytes(const struct hx_py_layout *layout, uint64_t size)
{
    enum { TAG_BITS = 3 };
    int64_t digits = layout->long_tag ? (int64_t)(size >> TAG_BITS) : (int64_t)size;
    digits = digits < 0 ? -digits : digits;
    return digits >> 40 || digits < 0 ? 0 : (uint64_t)(digits ? digits : 1) * 4;
}

static uint64_t whole_words(uint64_t bytes)
{
    return (bytes + WORD - 1) & ~(uint64_t)(WORD - 1);
}

/* The bytes of an object, 0: it is none of the class; *ret_asked: those that were asked for, 0:
 * that is not known. For objects with items of a class that a program made it is one more. */
static uint64_t object_bytes(const struct hx_py_layout *layout, const uint64_t *word, size_t n,
                             const struct hx_py_class *class, uint64_t *ret_asked)
{
    uint64_t bytes;
    const uint64_t items = n > HX_PY_SIZE / WORD ? word[HX_PY_SIZE / WORD] : 0;
    switch (class->kind) {
    case HX_PY_STR:
        return *ret_asked = str_bytes(layout, word, n, class);
    case HX_PY_INT:
        bytes = int_bytes(layout, items);
        if (!bytes)
            return 0;
        bytes += class->basicsize;
        break;
    case HX_PY_TUPLE:
    case HX_PY_BYTES:
    case HX_PY_CODE:
    case HX_PY_CLASS:
        if (items >> 40)
            return 0;
        const uint64_t last = class->kind == HX_PY_CLASS; /* an empty one */
        bytes = class->basicsize + (items + last) * class->itemsize;
        break;
    default:
        *ret_asked = class->itemsize ? 0 : class->basicsize;
        return class->basicsize;
    }
    *ret_asked = class->kind == HX_PY_CODE ? whole_words(bytes)
                 : class->exact || class->kind == HX_PY_CLASS
                     ? bytes
                     : whole_words(bytes + class->itemsize);
    return bytes;
}

/* Bytes behind an object for values of attributes: their number stands there. */
static uint64_t inline_bytes(const struct hx_py_classes *classes, uint64_t addr,
                             const struct hx_py_class *class)
{
    uint64_t word;
    if (!classes->layout->inline_values || !(class->flags & HX_PY_FLAG_INLINE) ||
        !hx_image_u64(classes->image, addr + class->basicsize, &word))
        return 0;
    const uint64_t n = word & 0xff;
    return ((n + WORD - 1) & ~(uint64_t)(WORD - 1)) + (n + 1) * WORD;
}

/* Is there an object of a type with so many bytes before it? Fills the bytes that were asked for,
 * HX_NO_REQUEST where that is not known. */
static bool match_at(struct worker *worker, const struct block *block, uint32_t prefix,
                     uint32_t *ret_class, uint64_t *ret_bytes)
{
    struct hx_py_classes *classes = worker->finder->objects->classes;
    const size_t at = prefix / WORD;
    uint64_t asked = 0;
    if (block->n < at + 2)
        return false;
    const uint64_t type = block->word[at + 1];
    if (type < SMALL || type % WORD)
        return false;
    const struct hx_py_class *class = class_at(worker, type);
    if (class->number == HX_PY_NO_CLASS || class->prefix != prefix ||
        (class->flags & HX_PY_FLAG_GC && !are_links(&block->word[at - 2])) ||
        !is_count(classes, block->word[at]))
        return false;
    const uint64_t bytes =
        object_bytes(classes->layout, &block->word[at], block->n - at, class, &asked);
    const bool one_size = !class->itemsize && class->kind != HX_PY_STR;
    const uint64_t before =
        prefix + (bytes ? inline_bytes(classes, block->addr + prefix, class) : 0);
    if (!bytes || before + bytes > block->size ||
        (one_size && block->size - before - bytes >= SLACK))
        return false;
    *ret_class = class->number;
    *ret_bytes = !asked                         ? HX_NO_REQUEST
                 : before + asked > block->size ? block->size
                                                : before + asked;
    return true;
}

static bool read_block(const struct finder *finder, hx_obj i, struct hx_peeked *window,
                       struct block *ret)
{
    const struct hx_snapshot *snapshot = finder->objects->snapshot;
    const uint64_t before = hx_py_before(finder->objects, i);
    const uint64_t after = before / DEBUG_HEAD * DEBUG_TAIL;
    ret->addr = snapshot->graph.addr[i] + before;
    ret->size = snapshot->graph.size[i];
    if (ret->size < before + after + 2 * WORD)
        return false;
    ret->size -= before + after;
    ret->n = ret->size / WORD < WORDS ? ret->size / WORD : WORDS;
    const uint64_t *words = hx_image_peek(&snapshot->image, ret->addr, ret->n, window);
    if (words)
        memcpy(ret->word, words, ret->n * WORD);
    return words != NULL;
}

static void match_block(struct worker *worker, hx_obj i, struct hx_peeked *window)
{
    static const uint32_t prefixes[] = {16, 0, 32};
    struct hx_py_objects *objects = worker->finder->objects;
    struct hx_graph *graph = &objects->snapshot->graph;
    struct block block;
    if (!read_block(worker->finder, i, window, &block))
        return;
    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
        uint32_t class;
        uint64_t bytes;
        if (!match_at(worker, &block, prefixes[k], &class, &bytes))
            continue;
        objects->role[i] = HX_PY_ROLE(HX_PY_ROLE_OBJECT, class);
        if (graph->requested[i] == HX_NO_REQUEST)
            graph->requested[i] = bytes;
        return;
    }
}

static void match_blocks(struct worker *worker, hx_obj from, hx_obj to)
{
    HX_PEEKED window = {0};
    for (hx_obj i = from; i < to; i++)
        match_block(worker, i, &window);
}

/* --- blocks of objects ------------------------------------------------------------------- */

hx_obj hx_py_follow(const struct hx_py_objects *objects, hx_obj i, uint64_t addr)
{
    const struct hx_graph *graph = &objects->snapshot->graph;
    const uint64_t offset = addr - graph->addr[i];
    if (!graph->fwd || addr < graph->addr[i] || offset >= graph->size[i])
        return HX_NO_OBJ;
    const hx_eidx e = hx_graph_edge_from(graph, i, offset);
    return e < graph->fwd[(size_t)i + 1] && hx_edge_offset(graph->edge[e]) == offset
               ? hx_edge_target(graph->edge[e])
               : HX_NO_OBJ;
}

/* The block that the word at addr leads to has a role, unless it has one or is too small. Two
 * objects can have the same (keys are shared): both say so. */
static void give_role(const struct hx_py_objects *objects, hx_obj i, uint64_t addr, uint32_t role,
                      uint64_t bytes)
{
    struct hx_graph *graph = &objects->snapshot->graph;
    const hx_obj block = hx_py_follow(objects, i, addr);
    if (block == HX_NO_OBJ ||
        HX_PY_ROLE_IS(__atomic_load_n(&objects->role[block], __ATOMIC_RELAXED)) != HX_PY_ROLE_NONE)
        return;
    if (bytes != HX_NO_REQUEST && bytes > graph->size[block])
        return;
    __atomic_store_n(&objects->role[block], role, __ATOMIC_RELAXED);
    if (graph->requested[block] == HX_NO_REQUEST)
        __atomic_store_n(&graph->requested[block], bytes, __ATOMIC_RELAXED);
}

static uint64_t word_at(const struct hx_py_objects *objects, uint64_t addr)
{
    uint64_t word;
    return hx_image_u64(&objects->snapshot->image, addr, &word) ? word : 0;
}

/* So many items of so many bytes, where that can be. */
static uint64_t items_bytes(uint64_t n, uint64_t bytes)
{
    return n >> 40 ? HX_NO_REQUEST - 1 : n * bytes;
}

static void give_keys(const struct hx_py_objects *objects, hx_obj i, uint64_t at)
{
    struct hx_py_keys keys;
    if (hx_py_keys_at(objects->classes, word_at(objects, at), &keys))
        give_role(objects, i, at, HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_KEYS), keys.bytes);
}

/* Values of attributes, before 3.13: the word leads into their block, behind the order in which
 * they were set, which ends with how long it is. The first objects of a class have room for more.
 */
static void give_values(const struct hx_py_objects *objects, hx_obj i, uint64_t object,
                        const struct hx_py_class *class)
{
    const bool tagged = objects->classes->layout->tagged_values;
    const uint64_t at = object - (tagged ? HX_PY_BEFORE_DICT : HX_PY_BEFORE_OTHER);
    const uint64_t values = word_at(objects, at) + tagged;
    if (values % WORD || values < WORD)
        return;
    if (class->values_bytes && word_at(objects, values - WORD) >> 56 == class->values_first)
        give_role(objects, i, at, HX_PY_ROLE(HX_PY_ROLE_VALUES, class->number),
                  class->values_bytes);
    else
        give_role(objects, i, at, HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_VALUES), HX_NO_REQUEST);
}

/* The bytes of text of so many characters, and a null. */
static uint64_t text_bytes(uint64_t length, uint64_t kind)
{
    return kind == 1 || kind == 2 || kind == 4 ? items_bytes(length + 1, kind) : HX_NO_REQUEST;
}

/* Text that is not behind the str: of a class made of it, or the same in UTF-8, whose length stands
 * before the pointer to it. */
static void give_text(const struct hx_py_objects *objects, hx_obj i, uint64_t object)
{
    const struct hx_py_layout *layout = objects->classes->layout;
    const uint64_t state = word_at(objects, object + HX_PY_STR_STATE);
    const uint32_t role = HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_TEXT);
    if (!(state & HX_PY_STR_COMPACT))
        give_role(objects, i, object + layout->str_data, role,
                  text_bytes(word_at(objects, object + HX_PY_SIZE), state >> 2 & 7));
    if (!(state & HX_PY_STR_ASCII))
        give_role(objects, i, object + layout->str_utf8, role,
                  text_bytes(word_at(objects, object + layout->str_utf8 - WORD), 1));
}

static void find_parts(const struct hx_py_objects *objects, hx_obj i)
{
    if (hx_py_class_of(objects, i) == HX_PY_NO_CLASS)
        return;
    const struct hx_py_class *class = &objects->classes->class.v[hx_py_class_of(objects, i)];
    const uint64_t at = hx_py_object_at(objects, i, class);
    if (class->kind == HX_PY_DICT)
        give_keys(objects, i, at + HX_PY_DICT_KEYS);
    else if (class->kind == HX_PY_CLASS)
        give_keys(objects, i, at + objects->classes->layout->cached_keys);
    else if (class->kind == HX_PY_LIST)
        give_role(objects, i, at + HX_PY_LIST_ITEMS, HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_ITEMS),
                  items_bytes(word_at(objects, at + HX_PY_LIST_ALLOCATED), WORD));
    else if (class->kind == HX_PY_SET)
        give_role(objects, i, at + HX_PY_SET_TABLE, HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_TABLE),
                  items_bytes(word_at(objects, at + HX_PY_SET_MASK) + 1, 2 * (uint64_t)WORD));
    else if (class->kind == HX_PY_BYTEARRAY)
        give_role(objects, i, at + HX_PY_BYTEARRAY_BYTES,
                  HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_BYTES),
                  items_bytes(word_at(objects, at + HX_PY_BYTEARRAY_ALLOCATED), 1));
    else if (class->kind == HX_PY_STR)
        give_text(objects, i, at);
    if (class->flags & HX_PY_FLAG_DICT && !objects->classes->layout->inline_values)
        give_values(objects, i, at, class);
}

/* --- all of them ------------------------------------------------------------------------- */

static void objects_worker(void *context, unsigned number)
{
    struct finder *finder = context;
    const uint64_t n = finder->objects->snapshot->graph.n;
    while (!atomic_load_explicit(&finder->stop, memory_order_relaxed)) {
        const uint64_t from = atomic_fetch_add(&finder->next, CHUNK);
        if (from >= n)
            break;
        const uint64_t to = n - from < CHUNK ? n : from + CHUNK;
        if (finder->parts)
            for (uint64_t i = from; i < to; i++)
                find_parts(finder->objects, (hx_obj)i);
        else
            match_blocks(&finder->worker[number], (hx_obj)from, (hx_obj)to);
        if (hx_progress_cancelled(finder->progress) || finder->objects->classes->nomem)
            atomic_store(&finder->stop, true);
    }
}

/* Does each block have the marks of the interpreter's debug hooks (python -X dev)? */
static bool has_debug_hooks(const struct hx_snapshot *snapshot)
{
    uint64_t marked = 0;
    for (hx_obj i = 0; i < snapshot->graph.n && i < SAMPLE; i++)
        marked += is_marked(snapshot, snapshot->graph.addr[i]);
    return marked > SAMPLE / 4;
}

static hx_error *run(struct finder *finder)
{
    finder->worker = calloc(finder->threads, sizeof *finder->worker);
    HX_NEED(finder->worker);
    for (unsigned i = 0; i < finder->threads; i++) {
        finder->worker[i].finder = finder;
        HX_NEED(finder->worker[i].cache = calloc(SLOTS, sizeof *finder->worker[i].cache));
        for (size_t k = 0; k < SLOTS; k++)
            finder->worker[i].cache[k].number = HX_PY_NO_CLASS;
    }
    hx_parallel(finder->threads, objects_worker, finder);
    finder->parts = true;
    atomic_store(&finder->next, 0);
    hx_parallel(finder->threads, objects_worker, finder);
    if (hx_progress_cancelled(finder->progress))
        return hx_error_cancelled("types");
    HX_NEED(!finder->objects->classes->nomem);
    return NULL;
}

hx_error *hx_py_objects_find(struct hx_py_objects *objects, unsigned threads,
                             const struct hx_progress *progress)
{
    struct hx_graph *graph = &objects->snapshot->graph;
    struct finder finder = {
        .objects = objects, .progress = progress, .threads = hx_threads(threads)};
    objects->before = has_debug_hooks(objects->snapshot) ? DEBUG_HEAD : 0;
    HX_TRY(hx_big_array(objects->role, graph->n));
    if (!graph->requested) {
        HX_TRY(hx_big_array(graph->requested, graph->n));
        memset(graph->requested, 0xff, graph->n * sizeof *graph->requested);
    }
    hx_error *err = run(&finder);
    for (unsigned i = 0; finder.worker && i < finder.threads; i++)
        free(finder.worker[i].cache);
    free(finder.worker);
    return err;
}

void hx_py_objects_deinit(struct hx_py_objects *objects)
{
    hx_big_array_free(objects->role);
}
