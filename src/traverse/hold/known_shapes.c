/* known_shapes.c - words behind the end of what is in use: of a request, of a string, of a vector,
 * of a deque, and in the buffers of stdio.
 *
 * Layouts are those of libstdc++ (std::string: pointer, length, buffer or capacity; std::vector:
 * begin, end, end of storage; std::deque: map, its size, two iterators of four words), of libc++
 * (std::string: capacity + 1, size, pointer, or length * 2 and 22 bytes; its vectors are the same)
 * and of glibc's FILE.
 */
#include "traverse/hold/judge.h"

#define SSO_CAPACITY 15 /* libstdc++: of the buffer within a string */
#define SSO_BYTES    16
#define LIBCXX_SSO   22
#define SLACK        32 /* what is usable is at most so much more than was requested */
#define LARGE        ((uint64_t)64 << 10)
#define PAGE         4096
#define FILE_MAGIC   0xfbad0000u
#define FILE_WORDS   9 /* flags, and eight pointers into the buffer */
#define DEQUE_BLOCK  512
#define DEQUE_WORDS  10
#define SHAPE_WORDS  10 /* that any of these looks at */

/* Where what is in use ends in a block, by all who point to it: where two disagree, one of them is
 * a leftover, and the larger one counts. Plus 1; 0: nobody said anything. */
struct ends {
    uint64_t *of; /* for each object */
    struct hx_big of_mem;
};

/* Words [at, at + n) of an object (of a root: object is HX_NO_OBJ). */
struct place {
    const struct hx_judge *judge;
    const struct ends *ends;
    hx_obj object;
    uint64_t addr;        /* of word[0] */
    const uint64_t *word; /* n of them */
    size_t n;
    hx_obj target; /* what word[0] points to the start of */
    size_t *span;  /* a hint */
};

static inline uint64_t size_of(const struct place *place)
{
    return place->judge->graph->size[place->target];
}

/* Where does this word point in the target? */
static inline uint64_t in_target(const struct place *place, uint64_t value)
{
    return value - place->judge->graph->addr[place->target];
}

static void used_up_to(const struct place *place, uint64_t end)
{
    uint64_t *of = &place->ends->of[place->target], now = __atomic_load_n(of, __ATOMIC_RELAXED);
    while (now < end + 1 && !__atomic_compare_exchange_n(of, &now, end + 1, true, __ATOMIC_RELAXED,
                                                         __ATOMIC_RELAXED))
        ;
}

/* --- what was asked for ------------------------------------------------------------------- */

static void judge_requested(const struct hx_judge *judge, hx_obj object)
{
    const struct hx_graph *graph = judge->graph;
    uint64_t requested = graph->requested[object];
    if (requested < graph->size[object])
        hx_judge_words(judge, object, requested < HX_WORD ? 0 : requested - HX_WORD + 1, UINT64_MAX,
                       HX_RULE_requested);
}

/* --- strings ------------------------------------------------------------------------------ */

/* Is the first NUL of these bytes at `length`? */
static bool ends_at(const struct hx_judge *judge, uint64_t addr, uint64_t length, size_t *span)
{
    const uint64_t *word = hx_judge_peek(judge, addr, length / HX_WORD + 1, span);
    const char *bytes = (const char *)word;
    return word && bytes[length] == '\0' && (!length || !memchr(bytes, '\0', length));
}

/* Does a block of this size hold a request of so many bytes? Large ones have pages of their own. */
static bool fits(uint64_t size, uint64_t request)
{
    return request <= size && size - request <= (size < LARGE ? SLACK : SLACK + PAGE);
}

/* The string's text is in a block of its own. `half`: word after length and capacity that is dead,
 * or 0. */
static bool judge_long_string(const struct place *place, uint64_t length, uint64_t capacity)
{
    if (length > capacity || capacity <= SSO_CAPACITY || !fits(size_of(place), capacity + 1) ||
        !ends_at(place->judge, place->judge->graph->addr[place->target], length, place->span))
        return false;
    used_up_to(place, 0);
    return true;
}

static void judge_string(const struct place *place)
{
    if (place->n < 4)
        return;
    if (judge_long_string(place, place->word[1], place->word[2]) && place->object != HX_NO_OBJ) {
        uint64_t at = place->addr - place->judge->graph->addr[place->object];
        hx_judge_words(place->judge, place->object, at + 3 * HX_WORD, at + 4 * HX_WORD,
                       HX_RULE_string);
    }
}

/* A pointer to the word two behind it. */
static void judge_short_string(const struct hx_judge *judge, hx_obj object, uint64_t at,
                               const uint64_t *word, size_t n)
{
    const char *text = (const char *)&word[2];
    if (n < 4 || word[1] > SSO_CAPACITY || text[word[1]] != '\0' ||
        (word[1] && memchr(text, '\0', word[1])))
        return;
    hx_judge_words(judge, object, at + 2 * HX_WORD, at + 4 * HX_WORD, HX_RULE_string);
}

/* --- vectors and deques ------------------------------------------------------------------- */

static void judge_vector(const struct place *place)
{
    if (place->n < 3)
        return;
    uint64_t end = in_target(place, place->word[1]), capacity = in_target(place, place->word[2]);
    if (place->word[1] < place->word[0] || place->word[2] < place->word[1] || capacity < HX_WORD ||
        !fits(size_of(place), capacity))
        return;
    /* {cur, first, last, node} of a deque looks the same */
    const uint64_t *node = place->n < 4 || place->word[0] != place->word[1]
                               ? NULL
                               : hx_judge_peek(place->judge, place->word[3], 1, place->span);
    if (!node || *node != place->word[0])
        used_up_to(place, end);
}

static hx_obj target_of(const struct hx_judge *judge, uint64_t value)
{
    hx_obj object = hx_graph_find(judge->graph, value);
    return object != HX_NO_OBJ && judge->graph->addr[object] == value ? object : HX_NO_OBJ;
}

/* What lies in a block of a deque before or behind what is in use. */
static void judge_deque_block(const struct hx_judge *judge, uint64_t first, uint64_t from,
                              uint64_t to)
{
    hx_obj block = target_of(judge, first);
    if (block == HX_NO_OBJ || from < first || to < first)
        return;
    hx_judge_words(judge, block, 0, from - first, HX_RULE_deque);
    hx_judge_words(judge, block, to - first, UINT64_MAX, HX_RULE_deque);
}

/* map, its size, {cur, first, last, node} of the first and of the last element. */
static void judge_deque(const struct place *place)
{
    if (place->n < DEQUE_WORDS || place->word[1] > size_of(place) / HX_WORD ||
        !fits(size_of(place), place->word[1] * HX_WORD))
        return;
    const uint64_t *first = place->word + 2, *last = place->word + 6;
    uint64_t map_end = place->word[0] + place->word[1] * HX_WORD;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t *iterator = i ? last : first;
        if (iterator[0] < iterator[1] || iterator[0] > iterator[2] ||
            iterator[2] - iterator[1] > DEQUE_BLOCK || iterator[3] < place->word[0] ||
            iterator[3] >= map_end)
            return;
    }
    if (first[3] > last[3])
        return;
    hx_judge_words(place->judge, place->target, 0, first[3] - place->word[0], HX_RULE_deque);
    hx_judge_words(place->judge, place->target, last[3] + HX_WORD - place->word[0], UINT64_MAX,
                   HX_RULE_deque);
    if (first[1] == last[1]) {
        judge_deque_block(place->judge, first[1], first[0], last[0]);
        return;
    }
    judge_deque_block(place->judge, first[1], first[0], UINT64_MAX);
    judge_deque_block(place->judge, last[1], last[1], last[0]);
}

/* --- stdio -------------------------------------------------------------------------------- */

/* word[0] is the first pointer into the buffer; the flags lie before. */
static void judge_file(const struct place *place, uint64_t flags)
{
    if ((flags >> 32) || (flags & 0xffff0000u) != FILE_MAGIC || place->n < FILE_WORDS - 1)
        return;
    uint64_t base = place->word[6], end = place->word[7];
    hx_obj buffer = target_of(place->judge, base);
    if (buffer != HX_NO_OBJ && end > base)
        hx_judge_words(place->judge, buffer, 0, UINT64_MAX, HX_RULE_stdio);
}

/* --- everywhere --------------------------------------------------------------------------- */

static void judge_place(const struct place *place)
{
    judge_string(place);
    judge_vector(place);
    judge_deque(place);
}

struct look {
    const struct hx_judge *judge;
    struct ends ends;
};

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_judge *judge = look->judge;
    const struct hx_graph *graph = judge->graph;
    size_t span = 0, other = 0;
    for (hx_obj i = from; i < to; i++) {
        if (graph->requested && graph->requested[i] != HX_NO_REQUEST)
            judge_requested(judge, i);
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_edge edge = graph->edge[e];
            uint64_t at = hx_edge_offset(edge), left = (graph->size[i] - at) / HX_WORD;
            size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
            bool self = hx_edge_target(edge) == i;
            bool start = hx_edge_kind_of(edge) == HX_EDGE_START;
            if (n < 3 || (!self && !start && at != HX_WORD))
                continue;
            const uint64_t *word = hx_judge_peek(judge, graph->addr[i] + at, n, &span);
            if (!word)
                continue;
            if (self && word[0] == graph->addr[i] + at + 2 * HX_WORD)
                judge_short_string(judge, i, at, word, n);
            struct place place = {judge, &look->ends,          i,     graph->addr[i] + at, word,
                                  n,     hx_edge_target(edge), &other};
            if (hx_edge_kind_of(edge) == HX_EDGE_START)
                judge_place(&place);
            if (at == HX_WORD && n == SHAPE_WORDS)
                judge_file(&place, word[-1]);
        }
    }
}

/* Roots hold strings and vectors, too. */
static void judge_roots(const struct look *look)
{
    const struct hx_judge *judge = look->judge;
    const struct hx_snapshot *snapshot = judge->snapshot;
    size_t span = 0, other = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        if (root->kind == HX_ROOT_REGISTER || root->kind == HX_ROOT_STACK)
            continue;
        uint64_t left = (root->address + root->size - edge->address) / HX_WORD;
        size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
        const uint64_t *word = n < 3 ? NULL : hx_judge_peek(judge, edge->address, n, &span);
        if (!word)
            continue;
        struct place place = {judge, &look->ends, HX_NO_OBJ,    edge->address,
                              word,  n,           edge->target, &other};
        if (edge->kind == HX_EDGE_START)
            judge_place(&place);
        const uint64_t *before = edge->address >= root->address + HX_WORD
                                     ? hx_judge_peek(judge, edge->address - HX_WORD, 1, &other)
                                     : NULL;
        if (before && n >= FILE_WORDS - 1)
            judge_file(&place, *before);
    }
}

static void judge_ends(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    for (hx_obj i = from; i < to; i++)
        if (look->ends.of[i])
            hx_judge_words(look->judge, i, look->ends.of[i] - 1, UINT64_MAX,
                           look->ends.of[i] == 1 ? HX_RULE_text : HX_RULE_vector);
}

hx_error *hx_judge_known_shapes(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    HX_TRY(hx_big_array(look.ends.of, judge->graph->n));
    hx_error *err = hx_judge_objects(judge, judge_block, &look);
    if (!err) {
        judge_roots(&look);
        err = hx_judge_objects(judge, judge_ends, &look);
    }
    hx_big_free(&look.ends.of_mem);
    return err;
}
