/* known_shapes.c - words behind the end of what is in use: of a request, of a string, of a vector,
 * of a deque, and in the buffers of stdio.
 *
 * Layouts are those of libstdc++ (std::string: pointer, length, buffer or capacity; std::vector:
 * begin, end, end of storage; std::deque: map, its size, two iterators of four words), of libc++
 * (std::string: capacity + 1, size, pointer, or length * 2 and 22 bytes; its vectors are the same)
 * and of glibc's FILE.
 */
#include "traverse/hold/judge.h"

#include "base/index.h"

#define SSO_CAPACITY 15 /* libstdc++: of the buffer within a string */
#define SSO_BYTES    16
#define LIBCXX_SSO   22
#define LIBCXX_LONG  32 /* bytes: the least that libc++ asks for */
#define LIBCXX_BLOCK 4096
#define LIBCXX_WIDE  256 /* elements from here on are 16 to a block of a deque */
#define SLACK        32  /* what is usable is at most so much more than was requested */
#define LARGE        ((uint64_t)64 << 10)
#define PAGE         4096
#define FILE_MAGIC   0xfbad0000u
#define FILE_WORDS   9 /* flags, and eight pointers into the buffer */
#define DEQUE_BLOCK  512
#define DEQUE_WORDS  10
#define SHAPE_WORDS  10 /* that any of these looks at */
#define FIELDS       (1 << 16)
#define FIELD_BYTES  1024 /* words of larger blocks are no fields */
#define FEW          16   /* pointers of a field that say nothing of it */
#define PART         10   /* percent of a field's pointers that are of a shape, or it has another */
#define MOST         80

/* Where what is in use ends in a block, by all who point to it: where two disagree, one of them is
 * a leftover, and the larger one counts. */
enum { TEXT = 1, ELEMENTS = 2 }; /* no pointers; plus where the last element ends */
struct ends {
    uint64_t *of; /* for each object; 0: nobody said anything */
    struct hx_big of_mem;
};

/* What the edges from one offset in blocks of one size look like. A block that was freed and given
 * out again has strings and vectors of its former life, but where most of its kind have other
 * things. Fields are found by a hash alone: two that share one spoil each other, no more. */
struct field {
    uint32_t pointers, strings, libcxx_strings, vectors, empty;
};

/* Words [at, at + n) of an object (of a root: object is HX_NO_OBJ). */
struct place {
    const struct hx_judge *judge;
    const struct ends *ends;
    struct field *field; /* NULL: it is in no field */
    bool count;          /* for the field; nothing is judged */
    hx_obj object;
    uint64_t addr;        /* of word[0] */
    const uint64_t *word; /* n of them */
    size_t before, n;     /* so many words are before word[0] */
    hx_obj target;        /* what word[0] points to */
    size_t *span;         /* a hint */
};

/* Does a block hold a request of so many bytes? Large ones have pages of their own. */
static bool fits(const struct hx_graph *graph, hx_obj block, uint64_t request)
{
    uint64_t size = graph->size[block];
    return request <= size && size - request <= (size < LARGE ? SLACK : SLACK + PAGE);
}

/* Where does this word point in the target? */
static inline uint64_t in_target(const struct place *place, uint64_t value)
{
    return value - place->judge->graph->addr[place->target];
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
static bool ends_at(const struct hx_judge *judge, uint64_t addr, uint64_t length, size_t *span)
{
    const uint64_t *word = hx_judge_peek(judge, addr, length / HX_WORD + 1, span);
    const char *bytes = (const char *)word;
    return word && length && bytes[length] == '\0' && !memchr(bytes, '\0', length) &&
           (length >= HX_WORD || is_letters(bytes, length));
}

/* --- fields --------------------------------------------------------------------------------- */

static inline void count_one(uint32_t *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* May this word be what only so many of its field's are? */
static bool is_part(const struct place *place, uint32_t part, unsigned percent)
{
    return !place->field || place->field->pointers < FEW ||
           (uint64_t)part * 100 >= (uint64_t)place->field->pointers * percent;
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
    const struct hx_graph *graph = place->judge->graph;
    return length <= capacity && capacity > SSO_CAPACITY && fits(graph, place->target, request) &&
           ends_at(place->judge, graph->addr[place->target], length, place->span);
}

static bool is_string(const struct place *place)
{
    return place->n >= 3 &&
           is_long_string(place, place->word[1], place->word[2], place->word[2] + 1);
}

/* libstdc++: {pointer, length, capacity, dead}. Where the capacity is a power of two it may be a
 * GString, whose fourth word is another's. */
static void judge_string(const struct place *place)
{
    if (!is_string(place) || place->n < 4)
        return;
    if (place->count) {
        count_one(&place->field->strings);
        return;
    }
    if (!is_part(place, place->field ? place->field->strings : 0, PART))
        return;
    used_up_to(place, TEXT);
    bool round = !(place->word[2] & (place->word[2] - 1)) && place->word[1] < place->word[2];
    if (place->object != HX_NO_OBJ && !round)
        hx_judge_words(place->judge, place->object, offset_of(place) + 3 * HX_WORD,
                       offset_of(place) + 4 * HX_WORD, HX_RULE_string);
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
    if (!is_libcxx_string(place))
        return;
    if (place->count)
        count_one(&place->field->libcxx_strings);
    else if (is_part(place, place->field ? place->field->libcxx_strings : 0, PART))
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

static void judge_libcxx_short(const struct place *place)
{
    if (place->object == HX_NO_OBJ)
        return;
    bool sure = is_libcxx_short(place, 1, 3) || is_libcxx_short(place, 2, 3);
    if (place->count) {
        if (sure)
            count_one(&place->field->libcxx_strings);
        return;
    }
    bool strings = place->field && place->field->pointers >= FEW &&
                   is_part(place, place->field->libcxx_strings, MOST) &&
                   (is_libcxx_short(place, 1, 0) || is_libcxx_short(place, 2, 0));
    if (sure || strings)
        hx_judge_words(place->judge, place->object, offset_of(place), offset_of(place) + HX_WORD,
                       HX_RULE_string);
}

/* --- vectors and deques ------------------------------------------------------------------- */

static void judge_vector(const struct place *place)
{
    if (place->n < 3)
        return;
    uint64_t end = in_target(place, place->word[1]), capacity = in_target(place, place->word[2]);
    if (place->word[1] < place->word[0] || place->word[2] < place->word[1] || capacity < HX_WORD ||
        !fits(place->judge->graph, place->target, capacity))
        return;
    /* {first, begin, end, capacity} of a deque of libc++ */
    if (place->n > 3 && place->word[3] >= place->word[2] &&
        in_target(place, place->word[3]) <= place->judge->graph->size[place->target])
        return;
    /* {cur, first, last, node} of a deque looks the same */
    const uint64_t *node = place->n < 4 || place->word[0] != place->word[1]
                               ? NULL
                               : hx_judge_peek(place->judge, place->word[3], 1, place->span);
    if (node && *node == place->word[0])
        return;
    struct field *field = place->field;
    if (place->count) {
        count_one(end ? &field->vectors : &field->empty);
        return;
    }
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

/* libstdc++: map, its size, {cur, first, last, node} of the first and of the last element. */
static void judge_deque(const struct place *place)
{
    const struct hx_graph *graph = place->judge->graph;
    if (place->count || place->n < DEQUE_WORDS ||
        place->word[1] > graph->size[place->target] / HX_WORD ||
        !fits(graph, place->target, place->word[1] * HX_WORD))
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

/* Where in its blocks, taken as one, a deque of libc++ may have elements: for all sizes of elements
 * that agree with how many fit in a block. */
static bool find_elements(uint64_t blocks, uint64_t start, uint64_t size, uint64_t *from,
                          uint64_t *to)
{
    *from = UINT64_MAX;
    *to = 0;
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

/* libc++: map {first, begin, end, capacity}, the first element's number, how many there are. */
static void judge_libcxx_deque(const struct place *place)
{
    const struct hx_judge *judge = place->judge;
    const uint64_t *word = place->word;
    if (place->count || place->n < 6 || word[1] < word[0] || word[2] <= word[1] ||
        word[3] < word[2] || (word[1] | word[2]) % HX_WORD ||
        !fits(judge->graph, place->target, word[3] - word[0]) || !word[5] || word[4] > UINT32_MAX ||
        word[5] > UINT32_MAX)
        return;
    uint64_t blocks = (word[2] - word[1]) / HX_WORD, from, to;
    const uint64_t *block = hx_judge_peek(judge, word[1], blocks, place->span);
    if (!block || !find_elements(blocks, word[4], word[5], &from, &to))
        return;
    for (uint64_t i = 0; i < blocks; i++) {
        hx_obj object = target_of(judge, block[i]);
        if (object == HX_NO_OBJ || !fits(judge->graph, object, LIBCXX_BLOCK))
            return;
    }
    hx_judge_words(judge, place->target, 0, word[1] - word[0], HX_RULE_deque);
    hx_judge_words(judge, place->target, word[2] - word[0], UINT64_MAX, HX_RULE_deque);
    for (uint64_t i = 0; i < blocks; i++) {
        hx_obj object = target_of(judge, block[i]);
        uint64_t begin = i * LIBCXX_BLOCK, end = begin + LIBCXX_BLOCK;
        hx_judge_words(judge, object, 0, from > begin ? from - begin : 0, HX_RULE_deque);
        hx_judge_words(judge, object, to > begin ? to < end ? to - begin : UINT64_MAX : 0,
                       UINT64_MAX, HX_RULE_deque);
    }
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

struct look {
    const struct hx_judge *judge;
    struct ends ends;
    struct field *fields;
    struct hx_big fields_mem;
    bool count;
};

static void judge_place(const struct place *place, bool start)
{
    judge_libcxx_short(place);
    if (!start)
        return;
    judge_string(place);
    judge_libcxx_string(place);
    judge_vector(place);
    judge_deque(place);
    judge_libcxx_deque(place);
}

static struct field *field_of(const struct look *look, uint64_t size, uint64_t at)
{
    return !look->fields || size > FIELD_BYTES
               ? NULL
               : &look->fields[hx_hash(hx_hash(1, size), at) % FIELDS];
}

/* The place of an edge; false: the image lacks it. */
static bool find_place(const struct look *look, hx_obj i, hx_eidx e, size_t span[2],
                       struct place *ret)
{
    const struct hx_graph *graph = look->judge->graph;
    uint64_t at = hx_edge_offset(graph->edge[e]), before = at / HX_WORD;
    uint64_t left = (graph->size[i] - at) / HX_WORD;
    before = before < 2 ? before : 2;
    size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
    const uint64_t *word =
        hx_judge_peek(look->judge, graph->addr[i] + at - before * HX_WORD, before + n, &span[0]);
    if (!word)
        return false;
    *ret = (struct place){.judge = look->judge,
                          .ends = &look->ends,
                          .field = field_of(look, graph->size[i], at),
                          .count = look->count,
                          .object = i,
                          .addr = graph->addr[i] + at,
                          .word = word + before,
                          .before = before,
                          .n = n,
                          .target = hx_edge_target(graph->edge[e]),
                          .span = &span[1]};
    return true;
}

static void judge_object(const struct look *look, hx_obj i, size_t span[2])
{
    const struct hx_judge *judge = look->judge;
    const struct hx_graph *graph = judge->graph;
    for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
        hx_edge edge = graph->edge[e];
        uint64_t at = hx_edge_offset(edge);
        struct place place;
        if ((look->count && graph->size[i] > FIELD_BYTES) || !find_place(look, i, e, span, &place))
            continue;
        if (look->count)
            count_one(&place.field->pointers);
        judge_place(&place, hx_edge_kind_of(edge) == HX_EDGE_START);
        if (look->count)
            continue;
        if (place.target == i && place.word[0] == place.addr + 2 * HX_WORD)
            judge_short_string(judge, i, at, place.word, place.n);
        if (at == HX_WORD && place.n == SHAPE_WORDS)
            judge_file(&place, place.word[-1]);
    }
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    size_t span[2] = {0, 0};
    for (hx_obj i = from; i < to; i++) {
        if (!look->count && graph->requested && graph->requested[i] != HX_NO_REQUEST)
            judge_requested(look->judge, i);
        judge_object(look, i, span);
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
        uint64_t before = (edge->address - root->address) / HX_WORD;
        before = before < 2 ? before : 2;
        size_t n = left < SHAPE_WORDS ? left : SHAPE_WORDS;
        const uint64_t *word =
            hx_judge_peek(judge, edge->address - before * HX_WORD, before + n, &span);
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
                              .span = &other};
        judge_place(&place, edge->kind == HX_EDGE_START);
        if (before && n >= FILE_WORDS - 1)
            judge_file(&place, place.word[-1]);
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

/* Pointers to the text of strings, whatever statistics say: the others of a field are short. */
static void keep_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    size_t span[2] = {0, 0};
    for (hx_obj i = from; i < to; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_evidence now = graph->evidence[e];
            struct place place;
            if (HX_EVIDENCE_RULE(now) >= HX_RULE_slack && HX_EVIDENCE_KIND(now) == HX_EDGE_START &&
                find_place(look, i, e, span, &place) &&
                (is_string(&place) || is_libcxx_string(&place)))
                graph->evidence[e] = HX_EVIDENCE(HX_RULE_NONE, HX_EVIDENCE_KIND(now));
        }
}

hx_error *hx_judge_texts(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    return hx_judge_objects(judge, keep_block, &look);
}

static hx_error *judge_shapes(struct look *look)
{
    look->count = true;
    HX_TRY(hx_judge_objects(look->judge, judge_block, look));
    look->count = false;
    HX_TRY(hx_judge_objects(look->judge, judge_block, look));
    judge_roots(look);
    return hx_judge_objects(look->judge, judge_ends, look);
}

hx_error *hx_judge_known_shapes(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    HX_TRY(hx_big_array(look.ends.of, judge->graph->n));
    hx_error *err = hx_big_array(look.fields, FIELDS);
    if (!err)
        err = judge_shapes(&look);
    hx_big_free(&look.fields_mem);
    hx_big_free(&look.ends.of_mem);
    return err;
}
