/* known_shapes.c - words behind the end of what is in use: of a request, of a string, of a vector,
 * of a deque, and in the buffers of stdio.
 *
 * Layouts are those of libstdc++ (std::string: pointer, length, buffer or capacity; std::vector:
 * begin, end, end of storage; std::deque: map, its size, two iterators of four words), of libc++
 * (std::string: capacity + 1, size, pointer, or length * 2 and 22 bytes; its vectors are the same)
 * and of glibc's FILE.
 */
#include "traverse/hold/block_groups.h"

#include "base/index.h"

#define SSO_CAPACITY 15 /* libstdc++: of the buffer within a string */
#define SSO_BYTES    16
#define LIBCXX_SSO   22
#define LIBCXX_LONG  32 /* bytes: the least that libc++ asks for */
#define LIBCXX_BLOCK 4096
#define LIBCXX_WIDE  256 /* elements from here on are 16 to a block of a deque */
#define FILE_MAGIC   0xfbad0000u
#define FILE_WORDS   9 /* flags, and eight pointers into the buffer */
#define DEQUE_BLOCK  512
#define DEQUE_WORDS  10
#define SHAPE_WORDS  10 /* that any of these looks at */
#define FIELDS       (1 << 16)
#define FIELD_BYTES  1024 /* words of larger blocks are no fields */
#define FIELD_WORDS  (FIELD_BYTES / HX_WORD)
#define FEW          16 /* pointers of a field that say nothing of it */
#define PART         10 /* percent of a field's pointers that are of a shape, or it has another */
#define MOST         80

/* Where what is in use ends in a block, by all who point to it: where two disagree, one of them is
 * a leftover, and the larger one counts. */
enum { TEXT = 1, ELEMENTS = 2 }; /* no pointers; plus where the last element ends */
struct ends {
    uint64_t *of; /* for each object; 0: nobody said anything */
    struct hx_big of_mem;
};

/* What the edges from one offset in blocks of one size look like, in a sample of these. A block
 * that was freed and given out again has strings and vectors of its former life, but where most of
 * its kind have other things. Fields are found by a hash alone: two that share one spoil each
 * other, no more. */
struct field {
    uint32_t pointers, strings, libcxx_strings, vectors, empty, deques;
    uint32_t nodes, dead; /* pointers to blocks that begin with pointers; of these was_string() */
};

/* Which shapes there are in a field. */
enum {
    SEEN_STRING = 1,
    SEEN_SHORT = 2,
    SEEN_LIBCXX = 4,
    SEEN_LIBCXX_SHORT = 8,
    SEEN_VECTOR = 16,
    SEEN_DEQUE = 32,
    SEEN_LIBCXX_DEQUE = 64,
    SEEN_FILE = 128,
    SEEN_ANY = 255
};

/* Words [at, at + n) of an object (of a root: object is HX_NO_OBJ). */
struct place {
    const struct hx_judge *judge;
    const struct ends *ends;
    struct field *field; /* NULL: it is in no field */
    hx_obj object;
    uint64_t addr;            /* of word[0] */
    const uint64_t *word;     /* n of them */
    size_t before, n;         /* so many words are before word[0] */
    hx_obj target;            /* what word[0] points to */
    struct hx_peeked *window; /* a hint */
};

/* Most numbers are larger than any block: then it is not looked up. */
static inline bool fits(const struct hx_judge *judge, hx_obj block, uint64_t request)
{
    return request <= judge->groups->largest && hx_block_fits(judge->graph->size[block], request);
}

/* Where does this word point in the target, whose start word[0] is? */
static inline uint64_t in_target(const struct place *place, uint64_t value)
{
    return value - place->word[0];
}

static void used_up_to(const struct place *place, uint64_t end)
{
    uint64_t *of = &place->ends->of[place->target], now = __atomic_load_n(of, __ATOMIC_RELAXED);
    while (now < end &&
           !__atomic_compare_exchange_n(of, &now, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
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

static bool is_letters(const char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (((unsigned char)bytes[i] < 0x20 && bytes[i] != '\n' && bytes[i] != '\t') ||
            bytes[i] == 0x7f)
            return false;
    return true;
}

/* Is the first NUL of these bytes at `length`? What is shorter than a word is not taken for text
 * when it may be a number or a pointer. */
static bool ends_at(const struct hx_judge *judge, uint64_t addr, uint64_t length,
                    struct hx_peeked *window)
{
    const uint64_t *word = hx_judge_peek(judge, addr, length / HX_WORD + 1, window);
    const char *bytes = (const char *)word;
    return word && length && bytes[length] == '\0' && !memchr(bytes, '\0', length) &&
           (length >= HX_WORD || is_letters(bytes, length));
}

/* --- fields --------------------------------------------------------------------------------- */

/* May this word be what only so many of its field's are? */
static bool is_part(const struct place *place, uint32_t part, unsigned percent)
{
    return !place->field || place->field->pointers < FEW ||
           !hx_part_below(part, place->field->pointers, percent);
}

static uint64_t offset_of(const struct place *place)
{
    return place->addr - place->judge->graph->addr[place->object];
}

/* --- strings ------------------------------------------------------------------------------ */

/* The string's text is in a block of its own. */
static bool is_long_string(const struct place *place, uint64_t length, uint64_t capacity,
                           uint64_t request)
{
    return length <= capacity && capacity > SSO_CAPACITY &&
           fits(place->judge, place->target, request) &&
           ends_at(place->judge, place->word[0], length, place->window);
}

static bool is_string(const struct place *place)
{
    return place->n >= 3 &&
           is_long_string(place, place->word[1], place->word[2], place->word[2] + 1);
}

static bool leads_to_node(const struct place *place)
{
    const struct hx_graph *graph = place->judge->graph;
    const hx_eidx e = graph->fwd[place->target];
    return e < graph->fwd[(size_t)place->target + 1] &&
           hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START;
}

/* Length and capacity of a string whose block has pointers where its text was: it was given out
 * again. Text of bytes may have null bytes, but no pointers. */
static bool was_string(const struct place *place)
{
    const struct hx_graph *graph = place->judge->graph;
    return place->n >= 4 && place->word[1] <= place->word[2] && place->word[2] > SSO_CAPACITY &&
           fits(place->judge, place->target, place->word[2] + 1) && leads_to_node(place) &&
           hx_edge_offset(graph->edge[graph->fwd[place->target]]) < place->word[1];
}

/* In a union such pointers may be another's, who leaves length and capacity as they were. */
static bool is_dead_string(const struct place *place)
{
    const struct field *field = place->field;
    return field && field->dead >= FEW && !hx_part_below(field->dead, field->nodes, MOST) &&
           was_string(place);
}

/* libstdc++: {pointer, length, capacity, dead}. Where the capacity is a power of two it may be a
 * GString, whose fourth word is another's. */
static void judge_string(const struct place *place)
{
    if (!is_part(place, place->field ? place->field->strings : 0, PART))
        return;
    if (place->n < 4 || !is_string(place)) {
        if (is_dead_string(place))
            hx_judge_words(place->judge, place->object, offset_of(place),
                           offset_of(place) + HX_WORD, HX_RULE_field);
        return;
    }
    used_up_to(place, TEXT);
    bool round = !(place->word[2] & (place->word[2] - 1)) && place->word[1] < place->word[2];
    if (place->object != HX_NO_OBJ && !round)
        hx_judge_words(place->judge, place->object, offset_of(place) + 3 * HX_WORD,
                       offset_of(place) + 4 * HX_WORD, HX_RULE_string);
}

/* A pointer to the word two behind it. */
static bool is_short_string(const struct place *place)
{
    const uint64_t *word = place->word;
    const char *text = (const char *)&word[2];
    return place->target == place->object && place->n >= 4 &&
           word[0] == place->addr + 2 * HX_WORD && word[1] <= SSO_CAPACITY &&
           text[word[1]] == '\0' && !(word[1] && memchr(text, '\0', word[1]));
}

static void judge_short_string(const struct place *place)
{
    if (is_short_string(place))
        hx_judge_words(place->judge, place->object, offset_of(place) + 2 * HX_WORD,
                       offset_of(place) + 4 * HX_WORD, HX_RULE_string);
}

/* libc++: {what was requested | 1, length, pointer}. */
static bool is_libcxx_string(const struct place *place)
{
    if (place->before < 2)
        return false;
    uint64_t request = place->word[-2] - 1;
    return request % 16 == 0 && request >= LIBCXX_LONG &&
           is_long_string(place, place->word[-1], request - 1, request);
}

static void judge_libcxx_string(const struct place *place)
{
    if (is_libcxx_string(place) &&
        is_part(place, place->field ? place->field->libcxx_strings : 0, PART))
        used_up_to(place, TEXT);
}

/* libc++: {length * 2 as a byte, text, NUL, dead}; word[0] lies so many words behind its begin. */
static bool is_libcxx_short(const struct place *place, size_t words, uint64_t least)
{
    if (place->before < words)
        return false;
    const char *bytes = (const char *)(place->word - words);
    uint64_t length = (unsigned char)bytes[0] / 2;
    return bytes[0] % 2 == 0 && length >= least && length + 2 <= words * HX_WORD &&
           bytes[length + 1] == '\0' && is_letters(bytes + 1, length) &&
           !memchr(bytes + 1, '\0', length);
}

static bool is_sure_libcxx_short(const struct place *place)
{
    return place->object != HX_NO_OBJ &&
           (is_libcxx_short(place, 1, 3) || is_libcxx_short(place, 2, 3));
}

static void judge_libcxx_short(const struct place *place)
{
    bool strings = place->object != HX_NO_OBJ && place->field && place->field->pointers >= FEW &&
                   is_part(place, place->field->libcxx_strings, MOST) &&
                   (is_libcxx_short(place, 1, 0) || is_libcxx_short(place, 2, 0));
    if (strings || is_sure_libcxx_short(place))
        hx_judge_words(place->judge, place->object, offset_of(place), offset_of(place) + HX_WORD,
                       HX_RULE_string);
}

/* --- vectors and deques ------------------------------------------------------------------- */

static bool is_vector(const struct place *place)
{
    if (place->n < 3 || place->word[1] < place->word[0] || place->word[2] < place->word[1])
        return false;
    uint64_t capacity = in_target(place, place->word[2]);
    if (capacity < HX_WORD || !fits(place->judge, place->target, capacity))
        return false;
    /* {first, begin, end, capacity} of a deque of libc++ */
    if (place->n > 3 && place->word[3] >= place->word[2] &&
        in_target(place, place->word[3]) <= place->judge->graph->size[place->target])
        return false;
    /* {cur, first, last, node} of a deque looks the same */
    const uint64_t *node = place->n < 4 || place->word[0] != place->word[1]
                               ? NULL
                               : hx_judge_peek(place->judge, place->word[3], 1, place->window);
    return !node || *node != place->word[0];
}

static void judge_vector(const struct place *place)
{
    if (!is_vector(place))
        return;
    const struct field *field = place->field;
    const uint64_t end = in_target(place, place->word[1]);
    /* without elements it is more often one that was freed */
    if (end ? is_part(place, field ? field->vectors : 0, PART)
            : field && is_part(place, field->vectors + field->empty, MOST) &&
                  field->vectors >= field->empty / 16)
        used_up_to(place, ELEMENTS + end);
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

/* libstdc++: map, its size, {cur, first, last, node} of the first and of the last element, whose
 * blocks are where the map says. */
static bool is_deque(const struct place *place)
{
    if (place->n < DEQUE_WORDS || place->word[1] > place->judge->groups->largest / HX_WORD)
        return false;
    const uint64_t *first = place->word + 2, *last = place->word + 6;
    uint64_t map_end = place->word[0] + place->word[1] * HX_WORD;
    for (const uint64_t *iterator = first; iterator <= last; iterator += last - first)
        if (iterator[0] < iterator[1] || iterator[0] > iterator[2] ||
            iterator[2] - iterator[1] > DEQUE_BLOCK || iterator[3] < place->word[0] ||
            iterator[3] >= map_end)
            return false;
    if (!fits(place->judge, place->target, place->word[1] * HX_WORD))
        return false;
    for (const uint64_t *iterator = first; iterator <= last; iterator += last - first) {
        const uint64_t *node = hx_judge_peek(place->judge, iterator[3], 1, place->window);
        if (!node || *node != iterator[1])
            return false;
    }
    return first[3] <= last[3];
}

static void judge_deque(const struct place *place)
{
    if (!is_deque(place) || !is_part(place, place->field ? place->field->deques : 0, PART))
        return;
    const uint64_t *first = place->word + 2, *last = place->word + 6;
    hx_judge_words(place->judge, place->target, 0, first[3] - place->word[0], HX_RULE_deque);
    hx_judge_words(place->judge, place->target, last[3] + HX_WORD - place->word[0], UINT64_MAX,
                   HX_RULE_deque);
    if (first[1] == last[1]) {
        judge_deque_block(place->judge, first[1], first[0], last[0]);
        return;
    }
    const size_t n = (last[3] - first[3]) / HX_WORD;
    const uint64_t *node = hx_judge_peek(place->judge, first[3], n, place->window);
    for (size_t i = 0; node && i < n; i++)
        judge_deque_block(place->judge, node[i], i ? node[i] : first[0],
                          node[i] + (first[2] - first[1]));
    judge_deque_block(place->judge, last[1], last[1], last[0]);
}

/* Where in its blocks, taken as one, a deque of libc++ may have elements: for all sizes of elements
 * that agree with how many fit in a block. */
static bool find_elements(uint64_t blocks, uint64_t start, uint64_t size, uint64_t *from,
                          uint64_t *to)
{
    *from = size ? UINT64_MAX : 0;
    *to = 0;
    if (!size) /* it keeps its blocks */
        return start <= blocks * (LIBCXX_BLOCK / (HX_WORD / 2));
    for (uint64_t bytes = HX_WORD / 2; bytes < LIBCXX_WIDE; bytes += HX_WORD / 2) {
        uint64_t in_block = LIBCXX_BLOCK / bytes, room = blocks * in_block;
        if (start >= 2 * in_block || start + size > room || room - start - size > 2 * in_block)
            continue;
        uint64_t last = start + size - 1;
        uint64_t begins = start / in_block * LIBCXX_BLOCK + start % in_block * bytes;
        uint64_t ends = last / in_block * LIBCXX_BLOCK + (last % in_block + 1) * bytes;
        *from = begins < *from ? begins : *from;
        *to = ends > *to ? ends : *to;
    }
    return *to > 0;
}

/* libc++: map {first, begin, end, capacity}, the first element's number, how many there are. Where
 * in its blocks, taken as one, these may be. */
static bool is_libcxx_deque(const struct place *place, uint64_t *from, uint64_t *to)
{
    const struct hx_judge *judge = place->judge;
    const uint64_t *word = place->word;
    if (place->n < 6 || word[1] < word[0] || word[2] <= word[1] || word[3] < word[2] ||
        (word[1] | word[2]) % HX_WORD || !fits(judge, place->target, word[3] - word[0]) ||
        word[4] > UINT32_MAX || word[5] > UINT32_MAX)
        return false;
    uint64_t blocks = (word[2] - word[1]) / HX_WORD;
    const uint64_t *block = hx_judge_peek(judge, word[1], blocks, place->window);
    if (!block || !find_elements(blocks, word[4], word[5], from, to))
        return false;
    for (uint64_t i = 0; i < blocks; i++) {
        hx_obj object = target_of(judge, block[i]);
        if (object == HX_NO_OBJ || !fits(judge, object, LIBCXX_BLOCK))
            return false;
    }
    return true;
}

static void judge_libcxx_deque(const struct place *place)
{
    const struct hx_judge *judge = place->judge;
    const uint64_t *word = place->word;
    uint64_t from, to;
    if (!is_libcxx_deque(place, &from, &to) ||
        !is_part(place, place->field ? place->field->deques : 0, PART))
        return;
    const uint64_t blocks = (word[2] - word[1]) / HX_WORD;
    const uint64_t *block = hx_judge_peek(judge, word[1], blocks, place->window);
    hx_judge_words(judge, place->target, 0, word[1] - word[0], HX_RULE_deque);
    hx_judge_words(judge, place->target, word[2] - word[0], UINT64_MAX, HX_RULE_deque);
    for (uint64_t i = 0; block && i < blocks; i++) {
        hx_obj object = target_of(judge, block[i]);
        uint64_t begin = i * LIBCXX_BLOCK, end = begin + LIBCXX_BLOCK;
        hx_judge_words(judge, object, 0, from > begin ? from - begin : 0, HX_RULE_deque);
        hx_judge_words(judge, object, to > begin ? to < end ? to - begin : UINT64_MAX : 0,
                       UINT64_MAX, HX_RULE_deque);
    }
}

/* --- stdio -------------------------------------------------------------------------------- */

/* word[0] is the first pointer into the buffer; the flags lie before. */
static bool is_file(const struct place *place)
{
    if (place->before < 1 || place->n < FILE_WORDS - 1)
        return false;
    const uint64_t flags = place->word[-1];
    return !(flags >> 32) && (flags & 0xffff0000u) == FILE_MAGIC && place->word[7] > place->word[6];
}

static void judge_file(const struct place *place)
{
    hx_obj buffer = is_file(place) ? target_of(place->judge, place->word[6]) : HX_NO_OBJ;
    if (buffer != HX_NO_OBJ)
        hx_judge_words(place->judge, buffer, 0, UINT64_MAX, HX_RULE_stdio);
}

/* --- everywhere --------------------------------------------------------------------------- */

struct look {
    const struct hx_judge *judge;
    struct ends ends;
    struct field *fields;
    uint8_t *seen; /* of each field: what is in it, SEEN_... */
    /* For each group the same of its words; NULL: there is nothing. Of large blocks the last one
     * stands for all that follow. */
    const uint8_t **of;
    uint8_t (*words)[FIELD_WORDS], large[FIELD_WORDS];
    struct hx_big fields_mem, seen_mem, of_mem, words_mem;
};

/* What looks like a shape at an edge; what is not at the start of its target has fewer. */
static unsigned find_shapes(const struct place *place, bool start)
{
    uint64_t from, to;
    unsigned seen = is_sure_libcxx_short(place) ? SEEN_LIBCXX_SHORT : 0;
    seen |= is_short_string(place) ? SEEN_SHORT : 0;
    seen |= is_file(place) ? SEEN_FILE : 0;
    if (!start)
        return seen;
    seen |= place->n >= 4 && is_string(place) ? SEEN_STRING : 0;
    seen |= is_libcxx_string(place) ? SEEN_LIBCXX : 0;
    seen |= is_vector(place) ? SEEN_VECTOR : 0;
    seen |= is_deque(place) ? SEEN_DEQUE : 0;
    return seen | (is_libcxx_deque(place, &from, &to) ? SEEN_LIBCXX_DEQUE : 0);
}

/* `seen`: what there may be at this place. */
static void judge_place(const struct place *place, bool start, unsigned seen)
{
    if (seen & (SEEN_LIBCXX_SHORT | SEEN_LIBCXX))
        judge_libcxx_short(place);
    if (seen & SEEN_SHORT)
        judge_short_string(place);
    if (seen & SEEN_FILE)
        judge_file(place);
    if (!start)
        return;
    if (seen & SEEN_STRING)
        judge_string(place);
    if (seen & SEEN_LIBCXX)
        judge_libcxx_string(place);
    if (seen & SEEN_VECTOR)
        judge_vector(place);
    if (seen & SEEN_DEQUE)
        judge_deque(place);
    if (seen & SEEN_LIBCXX_DEQUE)
        judge_libcxx_deque(place);
}

static size_t field_number(uint64_t size, uint64_t at)
{
    return hx_hash(hx_hash(1, size), at) % FIELDS;
}

/* The place of an edge; false: the image lacks it. */
static bool find_place(const struct look *look, hx_obj i, hx_eidx e, struct hx_peeked window[2],
                       struct place *ret)
{
    const struct hx_graph *graph = look->judge->graph;
    uint64_t at = hx_edge_offset(graph->edge[e]), before = at / HX_WORD;
    uint64_t left = (graph->size[i] - at) / HX_WORD;
    before = before < 2 ? before : 2;
    size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
    const uint64_t *word =
        hx_judge_peek(look->judge, graph->addr[i] + at - before * HX_WORD, before + n, &window[0]);
    if (!word)
        return false;
    *ret = (struct place){.judge = look->judge,
                          .ends = &look->ends,
                          .field = !look->fields || graph->size[i] > FIELD_BYTES
                                       ? NULL
                                       : &look->fields[field_number(graph->size[i], at)],
                          .object = i,
                          .addr = graph->addr[i] + at,
                          .word = word + before,
                          .before = before,
                          .n = n,
                          .target = hx_edge_target(graph->edge[e]),
                          .window = &window[1]};
    return true;
}

static void add_one(uint32_t *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void count_edge(const struct look *look, hx_obj i, hx_eidx e, struct hx_peeked window[2])
{
    const struct hx_graph *graph = look->judge->graph;
    const bool start = hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START;
    struct place place;
    if (!find_place(look, i, e, window, &place))
        return;
    const unsigned seen = find_shapes(&place, start);
    struct field *field = place.field;
    add_one(&field->pointers);
    if (start && was_string(&place))
        add_one(&field->dead);
    if (!seen)
        return;
    __atomic_fetch_or(&look->seen[field - look->fields], (uint8_t)seen, __ATOMIC_RELAXED);
    if (seen & SEEN_STRING)
        add_one(&field->strings);
    if (seen & SEEN_VECTOR)
        add_one(in_target(&place, place.word[1]) ? &field->vectors : &field->empty);
    if (seen & SEEN_LIBCXX_SHORT)
        add_one(&field->libcxx_strings);
    if (seen & SEEN_LIBCXX)
        add_one(&field->libcxx_strings);
    if (seen & (SEEN_DEQUE | SEEN_LIBCXX_DEQUE))
        add_one(&field->deques);
}

static void count_group(void *context, unsigned worker, uint32_t number)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    const struct hx_block_group *group = &look->judge->groups->group[number];
    const hx_obj *sample = look->judge->groups->sample + group->first;
    HX_TWO_PEEKED window[2] = {{0}};
    for (uint32_t i = 0; group->size <= FIELD_BYTES && i < group->samples; i++) {
        hx_judge_look_ahead(look->judge, sample, i, group->samples, 1, &window[0]);
        for (hx_eidx e = graph->fwd[sample[i]]; e < graph->fwd[sample[i] + 1]; e++)
            count_edge(look, sample[i], e, window);
    }
}

/* Nodes of those fields that have dead ones. */
static void count_nodes(void *context, unsigned worker, uint32_t number)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    const struct hx_block_group *group = &look->judge->groups->group[number];
    const hx_obj *sample = look->judge->groups->sample + group->first;
    HX_TWO_PEEKED window[2] = {{0}};
    for (uint32_t i = 0; group->size <= FIELD_BYTES && i < group->samples; i++)
        for (hx_eidx e = graph->fwd[sample[i]]; e < graph->fwd[sample[i] + 1]; e++) {
            struct field *field =
                &look->fields[field_number(group->size, hx_edge_offset(graph->edge[e]))];
            struct place place;
            if (field->dead >= FEW && hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START &&
                find_place(look, sample[i], e, window, &place) && leads_to_node(&place))
                add_one(&field->nodes);
        }
}

static void find_words(struct look *look, uint32_t number)
{
    const uint64_t size = look->judge->groups->group[number].size;
    for (uint64_t i = 0; size <= FIELD_BYTES && i < size / HX_WORD; i++) {
        const uint8_t seen = look->seen[field_number(size, i * HX_WORD)];
        if (!seen)
            continue;
        look->words[number][i] = seen;
        look->of[number] = look->words[number];
    }
    if (size > FIELD_BYTES)
        look->of[number] = look->large;
}

static hx_error *count_fields(struct look *look)
{
    bool dead = false;
    HX_TRY(hx_judge_groups(look->judge, count_group, look));
    for (size_t i = 0; i < FIELDS; i++)
        dead |= look->fields[i].dead >= FEW;
    if (dead)
        HX_TRY(hx_judge_groups(look->judge, count_nodes, look));
    HX_TRY(hx_big_array(look->of, look->judge->groups->n));
    HX_TRY(hx_big_array(look->words, look->judge->groups->n));
    memset(look->large, SEEN_ANY, sizeof look->large);
    for (uint32_t i = 0; i < look->judge->groups->n; i++)
        find_words(look, i);
    return NULL;
}

static void judge_object(const struct look *look, hx_obj i, struct hx_peeked window[2])
{
    const struct hx_graph *graph = look->judge->graph;
    const uint8_t *seen = look->of[look->judge->groups->of[i]];
    for (hx_eidx e = graph->fwd[i]; seen && e < graph->fwd[(size_t)i + 1]; e++) {
        const size_t word = hx_edge_offset(graph->edge[e]) / HX_WORD;
        const unsigned what = seen[word < FIELD_WORDS ? word : FIELD_WORDS - 1];
        struct place place;
        if (what && find_place(look, i, e, window, &place))
            judge_place(&place, hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START, what);
    }
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    HX_TWO_PEEKED window[2] = {{0}};
    for (hx_obj i = from; i < to; i++) {
        if (to - i > HX_AHEAD_RANGE && look->of[look->judge->groups->of[i + HX_AHEAD_RANGE]])
            hx_judge_prefetch(look->judge, i + HX_AHEAD_RANGE, &window[0]);
        if (graph->requested && graph->requested[i] != HX_NO_REQUEST)
            judge_requested(look->judge, i);
        judge_object(look, i, window);
    }
}

/* Roots hold strings and vectors, too. */
static void judge_roots(const struct look *look)
{
    const struct hx_judge *judge = look->judge;
    const struct hx_snapshot *snapshot = judge->snapshot;
    HX_PEEKED window = {0}, other = {0};
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        if (hx_root_is_scratch(root))
            continue;
        uint64_t left = (root->address + root->size - edge->address) / HX_WORD;
        uint64_t before = (edge->address - root->address) / HX_WORD;
        before = before < 2 ? before : 2;
        size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
        const uint64_t *word =
            hx_judge_peek(judge, edge->address - before * HX_WORD, before + n, &window);
        if (!word || !n)
            continue;
        struct place place = {.judge = judge,
                              .ends = &look->ends,
                              .object = HX_NO_OBJ,
                              .addr = edge->address,
                              .word = word + before,
                              .before = before,
                              .n = n,
                              .target = edge->target,
                              .window = &other};
        judge_place(&place, edge->kind == HX_EDGE_START, SEEN_ANY);
    }
}

static void judge_ends(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    for (hx_obj i = from; i < to; i++) {
        uint64_t end = look->ends.of[i];
        if (end)
            hx_judge_words(look->judge, i, end == TEXT ? 0 : end - ELEMENTS, UINT64_MAX,
                           end == TEXT ? HX_RULE_text : HX_RULE_vector);
    }
}

/* Is the text of a string in a block of its own there, by the words beside its pointer? */
static bool may_be_long(const struct hx_judge *judge, const uint64_t *word, size_t i, size_t n)
{
    const uint64_t largest = judge->groups->largest;
    return (n - i >= 3 && word[i + 1] <= word[i + 2] && word[i + 2] < largest) ||
           (i >= 2 && word[i - 1] < word[i - 2] && word[i - 2] <= largest + 1);
}

/* Pointers to the text of strings, whatever statistics say: the others of a field are short. */
static void keep_object(const struct look *look, hx_obj i, struct hx_peeked window[2])
{
    const struct hx_graph *graph = look->judge->graph;
    const size_t n = graph->size[i] / HX_WORD;
    const uint64_t *word = NULL;
    for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
        hx_evidence now = graph->evidence[e];
        struct place place;
        if (HX_EVIDENCE_RULE(now) < HX_RULE_slack || HX_EVIDENCE_KIND(now) != HX_EDGE_START)
            continue;
        word = word ? word : hx_judge_peek(look->judge, graph->addr[i], n, &window[0]);
        if ((!word ||
             may_be_long(look->judge, word, hx_edge_offset(graph->edge[e]) / HX_WORD, n)) &&
            find_place(look, i, e, window, &place) &&
            (is_string(&place) || is_libcxx_string(&place)))
            graph->evidence[e] = HX_EVIDENCE(HX_RULE_NONE, HX_EVIDENCE_KIND(now));
    }
}

static void keep_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    HX_TWO_PEEKED window[2] = {{0}};
    for (hx_obj i = from; i < to; i++) {
        const struct look *look = context;
        if (to - i > HX_AHEAD_RANGE)
            hx_judge_prefetch(look->judge, i + HX_AHEAD_RANGE, &window[0]);
        keep_object(look, i, window);
    }
}

hx_error *hx_judge_texts(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    return hx_judge_objects(judge, keep_block, &look);
}

static hx_error *judge_shapes(struct look *look)
{
    HX_TRY(hx_big_array(look->ends.of, look->judge->graph->n));
    HX_TRY(hx_big_array(look->fields, FIELDS));
    HX_TRY(hx_big_array(look->seen, FIELDS));
    HX_TRY(count_fields(look));
    HX_TRY(hx_judge_objects(look->judge, judge_block, look));
    judge_roots(look);
    return hx_judge_objects(look->judge, judge_ends, look);
}

hx_error *hx_judge_known_shapes(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    hx_error *err = judge_shapes(&look);
    hx_big_free(&look.words_mem);
    hx_big_free(&look.of_mem);
    hx_big_free(&look.seen_mem);
    hx_big_free(&look.fields_mem);
    hx_big_free(&look.ends.of_mem);
    return err;
}
