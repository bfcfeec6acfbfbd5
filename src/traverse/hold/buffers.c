/* buffers.c - words behind the end of text in large blocks, and behind the end of arrays in C.
 *
 * An array is {pointer, length, capacity} in any order, where the capacity fits the block for some
 * size of its elements. A table of buckets and a ring look the same, but in them the words behind
 * the length are as often pointers as those before: where the array was longer once, some of what
 * its former elements point to is gone.
 */
#include "traverse/hold/block_groups.h"

#include "base/index.h"

#define BYTES_LEAST  256 /* of a block with text */
#define TEXT_LEAST   16  /* words of text in one piece */
#define ARRAY_LEAST  64  /* bytes */
#define ELEMENT_MOST 256
#define NEAR         64 /* elements that are looked at before and behind the length */
#define LONG         32 /* elements in use: it speaks for itself */
#define ALIKE        8  /* arrays of a field that speak for each other */
#define FIELDS       (1 << 16)
#define FIELD_BYTES  1024

/* Percent. */
enum {
    JUNK = 60,   /* of the words behind text, those that are neither null nor pointers */
    SPREAD = 12, /* of the pointers behind text in blocks of one size, those at one offset */
    FULL = 97,   /* of the elements in use, those that are not null */
    GONE = 80,   /* pointers behind the length, against those before */
    MOST = 80
};

struct counts {
    uint32_t pointers, arrays, capacities;           /* the last: bits */
    uint32_t before, before_set, behind, behind_set; /* pointers; words that are not null */
    uint32_t elements, set;
};

struct look {
    const struct hx_judge *judge;
    uint32_t *tail; /* pointers behind text, by size and offset */
    struct counts *counts;
    uint8_t *seen; /* of each field: it has arrays */
    bool *asked;   /* for each group: its blocks may have text or arrays */
    struct hx_big tail_mem, counts_mem, seen_mem, asked_mem;
    bool count;
};

static void add(uint32_t *count, uint64_t n)
{
    __atomic_fetch_add(count, (uint32_t)n, __ATOMIC_RELAXED);
}

static uint64_t key_of(uint64_t size, uint64_t at)
{
    return hx_hash(hx_hash(1, size), at);
}

/* --- text --------------------------------------------------------------------------------- */

static bool is_letters(uint64_t word)
{
    for (size_t i = 0; i < HX_WORD; i++, word >>= 8) {
        unsigned byte = word & 0xff;
        if ((byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7f)
            return false;
    }
    return true;
}

/* Where the longest piece of text ends, 0: there is none to speak of. */
static size_t find_text_end(const uint64_t *word, size_t n)
{
    size_t longest = 0, end = 0, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = is_letters(word[i]) ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            end = i + 1;
        }
    }
    return longest >= TEXT_LEAST && longest * 4 >= n ? end : 0;
}

/* Pointers behind text in blocks of a size, and all words there that are not null. */
static uint32_t *all_of(const struct look *look, uint64_t size)
{
    return &look->tail[key_of(size, UINT64_MAX) % FIELDS];
}

static uint32_t *all_set_of(const struct look *look, uint64_t size)
{
    return &look->tail[key_of(size, UINT64_MAX - 1) % FIELDS];
}

static bool may_have_text(const struct look *look, uint64_t size)
{
    if (size < BYTES_LEAST || look->count)
        return size >= BYTES_LEAST;
    const uint32_t all = *all_of(look, size), set = *all_set_of(look, size);
    return all && !hx_part_below((uint64_t)set - all, set, JUNK);
}

static void judge_text(const struct look *look, hx_obj i, struct hx_peeked *window)
{
    const struct hx_graph *graph = look->judge->graph;
    uint64_t size = graph->size[i];
    size_t n = size / HX_WORD, set = 0;
    hx_eidx last = graph->fwd[i + 1];
    if (graph->fwd[i] == last || !may_have_text(look, size))
        return;
    uint32_t *all = all_of(look, size), *all_set = all_set_of(look, size);
    const uint64_t *word = hx_judge_peek(look->judge, graph->addr[i], n, window);
    size_t end = word ? find_text_end(word, n) : 0;
    if (!end)
        return;
    hx_eidx first = hx_graph_edge_from(graph, i, end * HX_WORD);
    for (size_t at = end; at < n; at++)
        set += word[at] != 0;
    if (look->count)
        add(all_set, set);
    if (first == last || (!look->count && hx_part_below(set - (last - first), set, JUNK)))
        return;
    if (look->count)
        add(all, last - first);
    for (hx_eidx e = first; e < last; e++) {
        uint32_t *here = &look->tail[key_of(size, hx_edge_offset(graph->edge[e])) % FIELDS];
        if (look->count)
            add(here, 1);
        else if (hx_part_below(*here, *all, SPREAD))
            hx_judge_edge(look->judge, e, HX_RULE_bytes);
    }
}

/* --- arrays ------------------------------------------------------------------------------- */

struct array {
    hx_obj block;
    uint64_t used, bytes; /* bytes in use, of an element */
    uint64_t capacity;
    struct counts counts; /* its own */
    uint64_t kind;        /* where its length and capacity are, and the size of its elements */
};

/* What is said of a length and a capacity. */
static bool measure(const struct hx_graph *graph, uint64_t length, uint64_t capacity, uint64_t kind,
                    struct array *array)
{
    uint64_t size = graph->size[array->block];
    if (!length || length >= capacity || capacity > size / HX_WORD || size < ARRAY_LEAST)
        return false;
    array->bytes = size / capacity / HX_WORD * HX_WORD;
    array->capacity = capacity;
    array->used = length * array->bytes;
    array->kind = hx_hash(kind + 1, array->bytes);
    return array->bytes <= ELEMENT_MOST && hx_block_fits(size, capacity * array->bytes);
}

/* Length and capacity beside a pointer: two words, or two halves of one. */
static bool find_array(const struct hx_graph *graph, const uint64_t *word, size_t before, size_t n,
                       struct array *array)
{
    static const struct {
        int length, capacity; /* words from the pointer on */
    } form[] = {{1, 2}, {2, 1}, {-1, 1}, {1, -1}, {-2, -1}, {-1, -2}};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        if (-form[i].length <= (int)before && -form[i].capacity <= (int)before &&
            form[i].length < (int)n && form[i].capacity < (int)n &&
            measure(graph, word[form[i].length], word[form[i].capacity], i, array))
            return true;
    static const int half[] = {1, -1, -2};
    for (size_t i = 0; i < sizeof half / sizeof *half; i++) {
        if (-half[i] > (int)before || half[i] >= (int)n)
            continue;
        uint64_t low = word[half[i]] & UINT32_MAX, high = word[half[i]] >> 32;
        if (measure(graph, low, high, 16 + 2 * i, array) ||
            measure(graph, high, low, 17 + 2 * i, array))
            return true;
    }
    return false;
}

static bool count_array(const struct look *look, struct array *array, struct hx_peeked *window)
{
    const struct hx_graph *graph = look->judge->graph;
    uint64_t per = array->bytes / HX_WORD, length = array->used / array->bytes;
    uint64_t from = length < NEAR ? 0 : length - NEAR, n = array->capacity - from;
    n = n < length - from + NEAR ? n : length - from + NEAR;
    uint64_t begin = from * array->bytes, end = begin + n * array->bytes;
    const uint64_t *word =
        hx_judge_peek(look->judge, graph->addr[array->block] + begin, n * per, window);
    struct counts *counts = &array->counts;
    *counts = (struct counts){.arrays = 1, .capacities = 1u << array->capacity % 31};
    if (!word)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t set = 0;
        for (uint64_t at = 0; at < per; at++)
            set += word[i * per + at] != 0;
        bool used = from + i < length;
        *(used ? &counts->before_set : &counts->behind_set) += set;
        counts->elements += used;
        counts->set += used && set;
    }
    for (hx_eidx e = hx_graph_edge_from(graph, array->block, begin);
         e < graph->fwd[array->block + 1]; e++) {
        uint64_t at = hx_edge_offset(graph->edge[e]);
        if (at >= end)
            break;
        ++*(at < array->used ? &counts->before : &counts->behind);
    }
    return true;
}

/* Are the words behind the length leftovers? */
static bool has_leftovers(const struct counts *counts)
{
    uint64_t before = (uint64_t)counts->before * counts->behind_set,
             behind = (uint64_t)counts->behind * counts->before_set;
    return counts->behind && counts->before &&
           !hx_part_below(counts->set, counts->elements, FULL) &&
           hx_part_below(behind, before, GONE);
}

static void add_array(struct counts *sum, const struct counts *counts)
{
    add(&sum->arrays, 1);
    add(&sum->before, counts->before);
    add(&sum->before_set, counts->before_set);
    add(&sum->behind, counts->behind);
    add(&sum->behind_set, counts->behind_set);
    add(&sum->elements, counts->elements);
    add(&sum->set, counts->set);
    __atomic_fetch_or(&sum->capacities, counts->capacities, __ATOMIC_RELAXED);
}

/* Do the arrays of a field agree, of various capacities? */
static bool agree(const struct counts *all, const struct counts *field)
{
    return field->arrays >= ALIKE && !hx_part_below(field->arrays, all->pointers, MOST) &&
           __builtin_popcount(field->capacities) >= 3 && has_leftovers(field);
}

/* `size`, `at`: of the block that the words are in; 0: none. */
static void judge_array(const struct look *look, uint64_t size, uint64_t at, hx_obj target,
                        const uint64_t *word, size_t before, size_t n, struct hx_peeked *window)
{
    struct array array = {.block = target};
    struct counts *all = &look->counts[key_of(size, at) % FIELDS];
    if (look->count)
        add(&all->pointers, 1);
    if (!find_array(look->judge->graph, word, before, n, &array) ||
        !count_array(look, &array, window))
        return;
    struct counts *field = &look->counts[hx_hash(key_of(size, at), array.kind) % FIELDS];
    if (look->count) {
        __atomic_store_n(&look->seen[key_of(size, at) % FIELDS], 1, __ATOMIC_RELAXED);
        add_array(field, &array.counts);
    } else if (((array.counts.elements >= LONG && has_leftovers(&array.counts)) ||
                (size && agree(all, field))))
        hx_judge_words(look->judge, target, array.used, UINT64_MAX, HX_RULE_vector);
}

/* --- all of them -------------------------------------------------------------------------- */

static void judge_object(const struct look *look, hx_obj i, struct hx_peeked window[2])
{
    const struct hx_graph *graph = look->judge->graph;
    const uint64_t size = graph->size[i];
    judge_text(look, i, &window[0]);
    for (hx_eidx e = graph->fwd[i]; size <= FIELD_BYTES && e < graph->fwd[i + 1]; e++) {
        uint64_t at = hx_edge_offset(graph->edge[e]);
        if (hx_edge_kind_of(graph->edge[e]) != HX_EDGE_START ||
            (!look->count && !look->seen[key_of(size, at) % FIELDS]))
            continue;
        size_t before = at < 2 * HX_WORD ? at / HX_WORD : 2, n = (size - at) / HX_WORD;
        n = n < 3 ? n : 3;
        const uint64_t *word = hx_judge_peek(look->judge, graph->addr[i] + at - before * HX_WORD,
                                             before + n, &window[0]);
        if (word)
            judge_array(look, size, at, hx_edge_target(graph->edge[e]), word + before, before, n,
                        &window[1]);
    }
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const uint32_t *group = look->judge->groups->of;
    HX_TWO_PEEKED window[2] = {{0}};
    for (hx_obj i = from; i < to; i++) {
        if (to - i > HX_AHEAD_RANGE && look->asked[group[i + HX_AHEAD_RANGE]])
            hx_judge_prefetch(look->judge, i + HX_AHEAD_RANGE, &window[0]);
        if (look->asked[group[i]])
            judge_object(look, i, window);
    }
}

static bool is_asked(const struct look *look, uint64_t size)
{
    bool arrays = false;
    for (uint64_t at = 0; size <= FIELD_BYTES && at < size; at += HX_WORD)
        arrays |= look->seen[key_of(size, at) % FIELDS];
    return arrays || may_have_text(look, size);
}

static void count_group(void *context, unsigned worker, uint32_t number)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_block_group *group = &look->judge->groups->group[number];
    const hx_obj *sample = look->judge->groups->sample + group->first;
    const uint32_t step = hx_sample_step(group);
    HX_TWO_PEEKED window[2] = {{0}};
    for (uint32_t i = 0; i < group->samples; i += step) {
        hx_judge_look_ahead(look->judge, sample, i, group->samples, step, &window[0]);
        judge_object(look, sample[i], window);
    }
}

static void judge_roots(const struct look *look)
{
    const struct hx_snapshot *snapshot = look->judge->snapshot;
    HX_PEEKED window = {0}, other = {0};
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        if (hx_root_is_scratch(root) || edge->kind != HX_EDGE_START)
            continue;
        uint64_t at = edge->address - root->address;
        size_t before = at < 2 * HX_WORD ? at / HX_WORD : 2, n = (root->size - at) / HX_WORD;
        n = n < 3 ? n : 3;
        const uint64_t *word =
            hx_judge_peek(look->judge, edge->address - before * HX_WORD, before + n, &window);
        if (word)
            judge_array(look, 0, 0, edge->target, word + before, before, n, &other);
    }
}

static hx_error *judge_buffers(struct look *look)
{
    HX_TRY(hx_big_array(look->tail, FIELDS));
    HX_TRY(hx_big_array(look->counts, FIELDS));
    HX_TRY(hx_big_array(look->seen, FIELDS));
    look->count = true;
    HX_TRY(hx_judge_groups(look->judge, count_group, look));
    look->count = false;
    HX_TRY(hx_big_array(look->asked, look->judge->groups->n));
    for (uint32_t i = 0; i < look->judge->groups->n; i++)
        look->asked[i] = is_asked(look, look->judge->groups->group[i].size);
    judge_roots(look);
    return hx_judge_objects(look->judge, judge_block, look);
}

hx_error *hx_judge_buffers(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    hx_error *err = judge_buffers(&look);
    hx_big_free(&look.tail_mem);
    hx_big_free(&look.counts_mem);
    hx_big_free(&look.seen_mem);
    hx_big_free(&look.asked_mem);
    return err;
}
