/* shapes.c - which blocks look alike, and what is said of them.
 *
 * A sample of each group (blocks of one size) tells which variants it has: text, arrays, structs
 * with the address of something in a module in front, and structs that have a pointer where
 * others have a value. Frequent variants are shapes; each block is then put to its own. The words
 * of a shape's sample make its label. What two shapes have in common down to the label is one.
 */
#include "traverse/hold/shapes.h"

#include "traverse/hold/block_groups.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/lower_bound.h"
#include "base/pairs.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/timing.h"
#include "base/vote.h"

#include <stdatomic.h>
#include <stdlib.h>

#define WORDS       24    /* of a block that are looked at */
#define SAMPLE      1024  /* blocks of a group that are looked at to find its variants */
#define ALIKE       32    /* fewer have no fields that one could tell of */
#define KEPT        16    /* variants of a group that are shapes of their own */
#define TRIED       64    /* variants of its sample that are compared with each other */
#define FIRST_WORDS 8     /* that are asked for again */
#define HEAD        4     /* words in one of which the address of a type is looked for */
#define ITEMS       6     /* words, or runs of them, in a label */
#define LABEL       60    /* bytes of a label, about */
#define NAME        24    /* bytes of a type's or variable's name in it */
#define LARGE       512   /* bytes: looked at by itself, whether it is an array */
#define WINDOW      36    /* words that are looked at in each quarter of a large block */
#define STRIDES     6     /* words of an array's element, at most */
#define FEW         32768 /* objects: fewer are no work for two */
#define SHAPES      (HX_NO_SHAPE - 1)

/* Percent. */
enum {
    SEEN = 5,     /* words of a field that are not null: fewer are not worth telling */
    MOST = 60,    /* of one kind, or to one noun */
    SAME = 95,    /* with one value */
    PATTERN = 85, /* of an array's words */
    MIXED = 10    /* pointers and values: the word tells variants apart */
};

enum kind { ZERO, POINTER, TEXT, INT, DOUBLE, BYTES, GLOBAL, CODE, KINDS };

enum content { STRUCT, STRING, ARRAY, ZEROS, OTHER };

struct makeup {
    enum content content;
    uint8_t stride;        /* of an array */
    uint8_t item[STRIDES]; /* enum kind */
};

struct shape {
    uint64_t size;
    uint32_t type; /* HX_NO_TYPE: not known, or several */
    struct makeup of;
    bool has_fields;   /* else it is its size that counts */
    uint32_t first, n; /* in `sample` */
    uint16_t final;
};

/* What tells the variants of a group apart: `marks` has two bits for each mixed word, 0 where it is
 * null, which says nothing. */
struct key {
    uint64_t base, marks;
};

struct variant {
    struct key key;
    struct makeup of;
    hx_obj example;
    uint16_t shape;
};

struct group {
    const hx_obj *sample;
    uint32_t samples;
    size_t first_variant; /* of those that its worker found */
    uint8_t worker, variants;
    bool many_others; /* are in no variant */
    uint32_t mixed;   /* bit for each word that tells variants apart */
    bool uniform;     /* all of its sample are one variant: the others are not looked at */
    bool letters_too; /* one to three letters are text as well */
    bool no_text;     /* what begins with text has pointers behind it */
    uint16_t rest;    /* the shape of what is in no variant */
};

struct shapes {
    const struct hx_judge *judge;
    struct hx_graph *graph;
    struct group *group;
    hx_obj *sample; /* by group, later by shape */
    size_t n_samples;
    HX_VEC(struct shape) shapes;
    struct worker {
        struct look *look; /* of a group's sample */
        struct candidate *candidate;
        HX_VEC(struct variant) variants;
        bool failed;
    } worker[HX_THREADS_MAX];
    struct hx_pairs plain; /* shapes that no group owns */
    uint64_t stray;        /* bits for rules of stray words */
    size_t n_roots;        /* without those that a user named */
};

/* --- words -------------------------------------------------------------------------------- */

static bool is_letter(uint8_t byte)
{
    return (byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\t' || byte == '\r';
}

/* The last letters of a text, and anything behind its null byte. */
static bool ends_text(uint64_t word)
{
    if (!(word & 0xff))
        return false;
    for (; word & 0xff; word >>= 8)
        if (!is_letter(word & 0xff) && (word & 0xff) < 0x80)
            return false;
    return true;
}

static enum kind kind_of(const struct shapes *shapes, uint64_t word)
{
    const unsigned exponent = word >> 52 & 0x7ff;
    if (!word)
        return ZERO;
    if (word < UINT64_C(1) << 32 && !hx_bytes_are_text(word))
        return INT;
    const struct hx_mapping *module = word >> 47 ? NULL : hx_judge_module(shapes->judge, word);
    if (module)
        return module->prot & HX_PROT_X ? CODE : GLOBAL;
    if (hx_bytes_are_text(word))
        return TEXT;
    if (exponent >= 1023 - 40 && exponent <= 1023 + 40)
        return DOUBLE;
    return word >> 48 == 0 || word >> 31 == (UINT64_C(1) << 33) - 1 ? INT : BYTES;
}

struct words {
    const uint64_t *word;        /* until others are looked at */
    uint64_t first[FIRST_WORDS]; /* the first of them, for good */
    size_t n;
    uint8_t kind[WINDOW]; /* enum kind */
    hx_obj target[WINDOW];
};

static inline bool is_stray(const struct shapes *shapes, hx_eidx e)
{
    return shapes->stray >> HX_EVIDENCE_RULE(shapes->graph->evidence[e]) & 1;
}

static uint64_t used_bytes(const struct hx_graph *graph, hx_obj object)
{
    const uint64_t *requested = graph->requested;
    bool known =
        requested && requested[object] != HX_NO_REQUEST && requested[object] < graph->size[object];
    return known ? (requested[object] + HX_WORD - 1) / HX_WORD * HX_WORD : graph->size[object];
}

/* The n words of an object from word `from` on, or as many as it has. Stale ones count as null. */
static bool look_at(const struct shapes *shapes, hx_obj object, size_t from, size_t n,
                    struct hx_peeked *window, struct words *ret)
{
    const struct hx_graph *graph = shapes->graph;
    const uint64_t has = used_bytes(graph, object) / HX_WORD;
    ret->n = has <= from ? 0 : has - from < n ? has - from : n;
    ret->word = hx_judge_peek(shapes->judge, graph->addr[object] + from * HX_WORD, ret->n, window);
    if (!ret->word || !ret->n)
        return false;
    memcpy(ret->first, ret->word, (ret->n < FIRST_WORDS ? ret->n : FIRST_WORDS) * HX_WORD);
    for (size_t i = 0; i < ret->n; i++)
        ret->kind[i] = KINDS;
    hx_eidx e = from ? hx_graph_edge_from(graph, object, from * HX_WORD) : graph->fwd[object];
    for (; e < graph->fwd[object + 1]; e++) {
        size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD - from;
        if (i >= ret->n)
            break;
        ret->kind[i] = is_stray(shapes, e) ? ZERO : POINTER;
        ret->target[i] = hx_edge_target(graph->edge[e]);
    }
    for (size_t i = 0; i < ret->n; i++) {
        const bool on = i && ret->kind[i - 1] == TEXT && ret->word[i - 1] >> 56;
        if (ret->kind[i] == KINDS)
            ret->kind[i] = on && ends_text(ret->word[i]) ? TEXT : kind_of(shapes, ret->word[i]);
    }
    return true;
}

/* How many letters a block begins with, if a null byte, or at least 63 others, follow; else 0. */
static size_t count_letters(const uint64_t *word, size_t words)
{
    const char *s = (const char *)word;
    size_t bytes = words * HX_WORD < 64 ? words * HX_WORD : 64, n = 0;
    while (n < bytes && s[n]) {
        uint32_t c;
        size_t length = hx_utf8_char(s + n, bytes - n, &c);
        if (!length && bytes - n < 4 && n > 16) /* it is cut */
            break;
        if (!length || (c < 0x80 && !is_letter((uint8_t)c)) || c == 0x7f)
            return 0;
        n += length;
    }
    return n;
}

/* --- one block ---------------------------------------------------------------------------- */

struct look {
    struct makeup of;
    size_t letters;     /* a struct that begins with so many */
    struct words words; /* the first ones; n 0: not there */
};

/* Words of a large block, from each of its quarters. */
struct census {
    uint32_t at[4 * WINDOW]; /* which word */
    uint8_t kind[4 * WINDOW];
    uint32_t n;
};

static size_t begin_of_quarter(size_t words, size_t quarter, size_t stride)
{
    return words / 4 * quarter / stride * stride;
}

static void take_census(const struct shapes *shapes, hx_obj object, struct hx_peeked *window,
                        struct census *census)
{
    const size_t has = used_bytes(shapes->graph, object) / HX_WORD;
    census->n = 0;
    for (size_t quarter = 0; quarter < 4; quarter++) {
        struct words words;
        size_t from = begin_of_quarter(has, quarter, 1);
        if (!look_at(shapes, object, from, WINDOW, window, &words))
            continue;
        for (size_t i = 0; i < words.n && i < has / 4; i++) {
            census->at[census->n] = (uint32_t)(from + i);
            census->kind[census->n++] = words.kind[i];
        }
    }
}

/* What most words have, of those that are not null: *fit of *all. All values are one kind. */
static enum kind find_item(const uint32_t count[KINDS], uint32_t *fit, uint32_t *all)
{
    const uint32_t values = count[INT] + count[BYTES];
    enum kind best = !values ? ZERO : count[INT] >= count[BYTES] ? INT : BYTES;
    uint32_t most = values;
    *all += values;
    for (unsigned kind = POINTER; kind < KINDS; kind++) {
        if (kind == INT || kind == BYTES)
            continue;
        *all += count[kind];
        if (count[kind] > most) {
            most = count[kind];
            best = (enum kind)kind;
        }
    }
    *fit += most;
    return best;
}

/* Several words are an element where one of them is no mere number or text. */
static bool is_element(const uint8_t *item, size_t stride)
{
    bool has = stride == 1;
    for (size_t i = 0; i < stride; i++)
        has |= item[i] == POINTER || item[i] == GLOBAL || item[i] == CODE || item[i] == DOUBLE;
    return has;
}

static void look_for_array(const struct shapes *shapes, hx_obj object, struct hx_peeked *window,
                           struct look *look)
{
    struct census census;
    take_census(shapes, object, window, &census);
    for (size_t stride = 1; census.n && stride <= STRIDES; stride++) {
        uint32_t fit = 0, all = 0, count[STRIDES][KINDS] = {{0}};
        for (size_t i = 0; i < census.n; i++)
            count[census.at[i] % stride][census.kind[i]]++;
        for (size_t at = 0; at < stride; at++)
            look->of.item[at] = (uint8_t)find_item(count[at], &fit, &all);
        if (all &&
            (all < 4 || hx_part_below(fit, all, PATTERN) || !is_element(look->of.item, stride)))
            continue;
        look->of.content = !all ? ZEROS : stride == 1 && look->of.item[0] == TEXT ? STRING : ARRAY;
        look->of.stride = (uint8_t)stride;
        return;
    }
}

static bool is_string(const struct group *group, size_t letters)
{
    return letters >= (group->letters_too ? 1 : 4) && !group->no_text;
}

/* At `n` words, at most. */
static void look_whole(const struct shapes *shapes, hx_obj object, const struct group *group,
                       size_t n, struct hx_peeked *window, struct look *ret)
{
    const struct hx_graph *graph = shapes->graph;
    ret->of = (struct makeup){.content = STRUCT};
    ret->letters = 0;
    if (!look_at(shapes, object, 0, n, window, &ret->words))
        ret->words.n = 0;
    if (graph->size[object] >= LARGE)
        look_for_array(shapes, object, window, ret);
    if (ret->of.content != STRUCT || !ret->words.n || ret->words.kind[0] == POINTER)
        return;
    ret->letters = count_letters(ret->words.first, ret->words.n);
    if (is_string(group, ret->letters))
        ret->of.content = STRING;
}

static uint32_t type_of(const struct hx_graph *graph, hx_obj object)
{
    return graph->type ? graph->type[object] : HX_NO_TYPE;
}

static struct key variant_key(const struct shapes *shapes, hx_obj object, const struct group *group,
                              const struct look *look)
{
    struct key key = {hx_hash(look->of.content + 1, type_of(shapes->graph, object)), 0};
    if (look->of.content == ARRAY)
        for (size_t i = 0; i < look->of.stride; i++)
            key.base = hx_hash(key.base + 1, look->of.item[i]);
    if (look->of.content != STRUCT)
        return key;
    const struct words *words = &look->words;
    size_t at = 0;
    while (at < words->n && at < HEAD && words->kind[at] != GLOBAL && words->kind[at] != CODE)
        at++;
    if (at < words->n && at < HEAD)
        key.base = hx_hash(key.base + 1 + at, words->first[at]);
    for (size_t i = 0; i < words->n && i < WORDS; i++)
        if (group->mixed >> i & 1 && words->kind[i] != ZERO)
            key.marks |= (words->kind[i] == POINTER ? UINT64_C(1) : UINT64_C(2)) << 2 * i;
    return key;
}

static uint64_t marked(uint64_t marks)
{
    return (marks | marks >> 1) & UINT64_C(0x5555555555555555);
}

/* Do less than a quarter of the words say otherwise? */
static bool are_alike(struct key a, struct key b, uint64_t size)
{
    const uint64_t differ = marked(a.marks ^ b.marks) & marked(a.marks) & marked(b.marks);
    const unsigned words = size / HX_WORD < WORDS ? (unsigned)(size / HX_WORD) : WORDS;
    return a.base == b.base && (unsigned)__builtin_popcountll(differ) * 4 < (words ? words : 1);
}

/* What one of them has null is told by the other. */
static uint64_t join_marks(uint64_t marks, uint64_t more)
{
    const uint64_t set = marked(marks);
    return marks | (more & ~(set | set << 1));
}

/* --- shapes ------------------------------------------------------------------------------- */

/* Sizes are told with so many digits; large ones that differ by less are alike. */
static uint64_t told_size(uint64_t size, const char **unit)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;
    for (; i < 4 && size >= 10240; i++)
        size = (size + 512) / 1024;
    *unit = i == 0 && size == 1 ? "byte" : units[i];
    return size;
}

static hx_error *add_shape(struct shapes *shapes, const struct shape *shape, uint16_t *ret)
{
    static const struct shape other = {.of.content = OTHER, .type = HX_NO_TYPE};
    const size_t n = shapes->shapes.n;
    if (n < SHAPES)
        HX_NEED(hx_vec_push(&shapes->shapes, n + 1 < SHAPES ? *shape : other));
    *ret = (uint16_t)(shapes->shapes.n - 1);
    return NULL;
}

/* The shape of all blocks of a size and content. */
static hx_error *find_plain(struct shapes *shapes, uint64_t size, const struct makeup *of,
                            uint16_t *ret)
{
    const char *unit;
    uint64_t key = hx_hash(1, told_size(size, &unit));
    const struct shape shape = {.size = size, .type = HX_NO_TYPE, .of = *of};
    key = hx_hash(key + (uint8_t)unit[0], of->content + 1);
    for (size_t i = 0; of->content == ARRAY && i < of->stride; i++)
        key = hx_hash(key + 1, of->item[i]);
    uint32_t *number;
    HX_TRY(hx_pairs_at(&shapes->plain, key, &number));
    if (*number == HX_NO_PAIR) {
        uint16_t added;
        HX_TRY(add_shape(shapes, &shape, &added));
        *number = added;
    }
    *ret = (uint16_t)*number;
    return NULL;
}

/* --- variants ----------------------------------------------------------------------------- */

struct candidate {
    struct key key;
    uint32_t objects, example; /* in the group's sample */
};

static int more_frequent(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->objects != y->objects)
        return x->objects > y->objects ? -1 : 1;
    return (x->example > y->example) - (x->example < y->example);
}

/* What the sample says of the group as a whole. */
static void survey(struct group *group, const struct look *look)
{
    uint32_t texts = 0, letters = 0, structs = 0;
    struct {
        uint32_t pointer, value, behind_text;
    } word[WORDS] = {{0}};
    for (size_t s = 0; s < group->samples; s++) {
        const bool text = look[s].of.content == STRING;
        texts += text;
        letters += look[s].letters > 0 && look[s].letters < 4;
        structs += look[s].of.content == STRUCT;
        for (size_t i = 0; i < look[s].words.n && (text || look[s].of.content == STRUCT); i++) {
            const uint8_t kind = look[s].words.kind[i];
            word[i].behind_text += text && kind == POINTER;
            word[i].pointer += !text && kind == POINTER;
            word[i].value += !text && kind > POINTER;
        }
    }
    group->letters_too |= letters && texts >= 2 * letters;
    group->mixed = 0;
    for (size_t i = 0; i < WORDS; i++) {
        group->no_text |= word[i].behind_text && !hx_part_below(word[i].behind_text, texts, 50);
        if (structs >= ALIKE && !hx_part_below(word[i].pointer, structs, MIXED) &&
            !hx_part_below(word[i].value, structs, MIXED))
            group->mixed |= UINT32_C(1) << i;
    }
}

static void look_at_sample(const struct shapes *shapes, struct group *group, struct look *look)
{
    HX_PEEKED window = {0};
    for (unsigned again = 0; again < 2; again++) { /* with what the first survey found */
        for (size_t s = 0; s < group->samples; s++) {
            hx_judge_look_ahead(shapes->judge, group->sample, s, group->samples, 1, &window);
            look_whole(shapes, group->sample[s], group, WORDS, &window, &look[s]);
        }
        survey(group, look);
        if (!group->letters_too && !group->no_text)
            break;
    }
}

/* Counts the variants of a sample; the most frequent first. */
static hx_error *find_candidates(const struct shapes *shapes, const struct group *group,
                                 const struct look *look, struct candidate *candidate, size_t *ret)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs by_key = {0};
    size_t n = 0;
    for (uint32_t s = 0; s < group->samples; s++) {
        uint32_t *number;
        const hx_obj object = group->sample[s];
        struct key key = variant_key(shapes, object, group, &look[s]);
        HX_TRY(hx_pairs_at(&by_key, hx_hash(key.base, key.marks), &number));
        if (*number == HX_NO_PAIR) {
            *number = (uint32_t)n;
            candidate[n++] = (struct candidate){.key = key, .example = s};
        }
        candidate[*number].objects++;
    }
    qsort(candidate, n, sizeof *candidate, more_frequent);
    *ret = n;
    return NULL;
}

/* Puts those together that are alike; returns how many are left. */
static size_t merge_candidates(struct candidate *candidate, size_t n, uint64_t size)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < left && !are_alike(candidate[k].key, candidate[i].key, size))
            k++;
        if (k < left) {
            uint64_t *marks = &candidate[k].key.marks;
            *marks = join_marks(*marks, candidate[i].key.marks);
            candidate[k].objects += candidate[i].objects;
        } else if (left < TRIED) {
            candidate[left++] = candidate[i];
        }
    }
    qsort(candidate, left, sizeof *candidate, more_frequent);
    return left;
}

static hx_error *add_variants(struct worker *worker, struct group *group, size_t n)
{
    uint32_t covered = 0;
    group->first_variant = worker->variants.n;
    for (size_t i = 0; i < n && group->variants < KEPT; i++) {
        const struct candidate *candidate = &worker->candidate[i];
        const struct variant variant = {.key = candidate->key,
                                        .of = worker->look[candidate->example].of,
                                        .example = group->sample[candidate->example]};
        if (variant.of.content == STRUCT &&
            (candidate->objects < ALIKE || hx_part_below(candidate->objects, group->samples, 2)))
            continue;
        HX_NEED(hx_vec_push(&worker->variants, variant));
        covered += candidate->objects;
        group->variants++;
    }
    group->uniform = n == 1 && group->variants == 1;
    group->many_others = group->samples - covered >= ALIKE;
    return NULL;
}

static void find_variants(void *context, unsigned i, uint32_t number)
{
    struct shapes *shapes = context;
    struct worker *worker = &shapes->worker[i];
    struct group *group = &shapes->group[number];
    size_t n = 0;
    if (worker->failed)
        return;
    group->worker = (uint8_t)i;
    look_at_sample(shapes, group, worker->look);
    hx_error *err = find_candidates(shapes, group, worker->look, worker->candidate, &n);
    if (!err) {
        n = merge_candidates(worker->candidate, n, shapes->graph->size[group->sample[0]]);
        err = add_variants(worker, group, n);
    }
    worker->failed |= err != NULL;
    hx_error_free(err);
}

static const struct variant *variants_of(const struct shapes *shapes, const struct group *group)
{
    return shapes->worker[group->worker].variants.v + group->first_variant;
}

static hx_error *number_variants(struct shapes *shapes, struct group *group)
{
    static const struct makeup none = {.content = STRUCT};
    struct variant *variant = (struct variant *)variants_of(shapes, group);
    struct shape shape = {.size = shapes->graph->size[group->sample[0]],
                          .type = HX_NO_TYPE,
                          .of = none,
                          .has_fields = true};
    for (size_t i = 0; i < group->variants; i++) {
        shape.type = type_of(shapes->graph, variant[i].example);
        if (variant[i].of.content == STRUCT)
            HX_TRY(add_shape(shapes, &shape, &variant[i].shape));
        else
            HX_TRY(find_plain(shapes, shape.size, &variant[i].of, &variant[i].shape));
    }
    shape.type = HX_NO_TYPE;
    return group->many_others ? add_shape(shapes, &shape, &group->rest)
                              : find_plain(shapes, shape.size, &none, &group->rest);
}

/* --- each block --------------------------------------------------------------------------- */

/* The same as variant_key(), by no more words than tell; false: all have to be looked at. */
static bool find_key(const struct shapes *shapes, hx_obj object, const struct group *group,
                     size_t told, struct hx_peeked *window, struct key *ret)
{
    const struct hx_graph *graph = shapes->graph;
    const uint64_t has = used_bytes(graph, object) / HX_WORD;
    const size_t n = has < told ? has : told;
    const uint64_t *word = hx_judge_peek(shapes->judge, graph->addr[object], n, window);
    uint64_t pointers = 0, stale = 0;
    if (graph->size[object] >= LARGE || !word || !n)
        return false;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD;
        if (i >= n)
            break;
        *(is_stray(shapes, e) ? &stale : &pointers) |= UINT64_C(1) << i;
    }
    const bool is_text = !(pointers & 1) && is_string(group, count_letters(word, n));
    *ret = (struct key){hx_hash((is_text ? STRING : STRUCT) + 1, type_of(graph, object)), 0};
    if (is_text)
        return true;
    for (size_t i = 0; i < n && i < HEAD; i++)
        if (!((pointers | stale) >> i & 1) && hx_judge_is_by_modules(shapes->judge, word[i]))
            return false;
    for (uint64_t left = group->mixed & (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX); left;
         left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left);
        const bool set = word[i] && !(stale >> i & 1);
        ret->marks |= (pointers >> i & 1 ? UINT64_C(1) : (uint64_t)set << 1) << 2 * i;
    }
    return true;
}

static uint16_t shape_of(const struct shapes *shapes, hx_obj object, struct hx_peeked *window)
{
    const struct group *group = &shapes->group[shapes->judge->groups->of[object]];
    const struct variant *variant = variants_of(shapes, group);
    if (!group->variants)
        return group->rest;
    if (group->uniform)
        return variant->shape;
    struct key key;
    const size_t told = group->mixed >> 8 ? 32 - (size_t)__builtin_clz(group->mixed) : 8;
    if (!find_key(shapes, object, group, told, window, &key)) {
        struct look look;
        look_whole(shapes, object, group, told, window, &look);
        key = variant_key(shapes, object, group, &look);
    }
    for (uint32_t i = 0; i < group->variants; i++)
        if (are_alike(variant[i].key, key, shapes->graph->size[object]))
            return variant[i].shape;
    return group->rest;
}

static bool is_looked_at(const struct shapes *shapes, hx_obj object)
{
    const struct group *group = &shapes->group[shapes->judge->groups->of[object]];
    return group->variants && !group->uniform;
}

static void give_shapes(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    struct shapes *shapes = context;
    HX_PEEKED window = {0};
    for (hx_obj i = from; i < to; i++) {
        if (to - i > HX_AHEAD_RANGE && is_looked_at(shapes, i + HX_AHEAD_RANGE))
            hx_judge_prefetch(shapes->judge, i + HX_AHEAD_RANGE, &window);
        shapes->graph->shape[i] = shape_of(shapes, i, &window);
    }
}

/* Every so many of a group's sample. */
static hx_error *take_sample(struct shapes *shapes)
{
    const struct hx_block_groups *groups = shapes->judge->groups;
    for (uint32_t g = 0; g < groups->n; g++)
        shapes->n_samples += groups->group[g].samples < SAMPLE ? groups->group[g].samples : SAMPLE;
    shapes->sample = malloc((shapes->n_samples + 1) * sizeof *shapes->sample);
    HX_NEED(shapes->sample);
    hx_obj *next = shapes->sample;
    for (uint32_t g = 0; g < groups->n; g++) {
        const hx_obj *of = groups->sample + groups->group[g].first;
        const uint64_t n = groups->group[g].samples, kept = n < SAMPLE ? n : SAMPLE;
        shapes->group[g].sample = next;
        shapes->group[g].samples = (uint32_t)kept;
        for (uint64_t i = 0; i < kept; i++)
            *next++ = of[i * n / kept];
    }
    return NULL;
}

static hx_error *find_shapes(struct shapes *shapes)
{
    for (unsigned i = 0; i < shapes->judge->threads; i++) {
        struct worker *worker = &shapes->worker[i];
        worker->look = calloc(SAMPLE, sizeof *worker->look);
        worker->candidate = calloc(SAMPLE, sizeof *worker->candidate);
        HX_NEED(worker->look && worker->candidate);
    }
    HX_TRY(hx_judge_groups(shapes->judge, find_variants, shapes));
    for (unsigned i = 0; i < shapes->judge->threads; i++)
        HX_NEED(!shapes->worker[i].failed);
    for (uint32_t g = 0; g < shapes->judge->groups->n; g++)
        HX_TRY(number_variants(shapes, &shapes->group[g]));
    return hx_judge_objects(shapes->judge, give_shapes, shapes);
}

/* The sample in order of shape. */
static hx_error *sort_sample(struct shapes *shapes)
{
    const uint16_t *shape_of_object = shapes->graph->shape;
    HX_FREE hx_obj *by_group = shapes->sample;
    uint32_t at = 0;
    shapes->sample = malloc((shapes->n_samples + 1) * sizeof *shapes->sample);
    HX_NEED(shapes->sample);
    for (size_t i = 0; i < shapes->n_samples; i++)
        shapes->shapes.v[shape_of_object[by_group[i]]].n++;
    for (size_t i = 0; i < shapes->shapes.n; i++) {
        shapes->shapes.v[i].first = at;
        at += shapes->shapes.v[i].n;
        shapes->shapes.v[i].n = 0;
    }
    for (size_t i = 0; i < shapes->n_samples; i++) {
        struct shape *shape = &shapes->shapes.v[shape_of_object[by_group[i]]];
        shapes->sample[shape->first + shape->n++] = by_group[i];
    }
    return NULL;
}

/* --- nouns -------------------------------------------------------------------------------- */

enum noun_kind { NO_NOUN, SELF, A_TEXT, AN_ARRAY, A_TYPE, A_SIZE };

/* What a pointer leads to. */
static uint64_t noun_of(const struct shapes *shapes, hx_obj target, const struct shape *self)
{
    const struct hx_graph *graph = shapes->graph;
    const struct shape *shape = &shapes->shapes.v[graph->shape[target]];
    if (shape == self)
        return hx_pair_key(SELF, 0);
    if (shape->of.content == STRING)
        return hx_pair_key(A_TEXT, 0);
    if (type_of(graph, target) != HX_NO_TYPE)
        return hx_pair_key(A_TYPE, graph->type[target]);
    if (shape->of.content == ARRAY)
        return hx_pair_key(AN_ARRAY, 0);
    uint64_t size = graph->size[target];
    return hx_pair_key(A_SIZE, size < UINT32_MAX ? (uint32_t)size : UINT32_MAX);
}

static void put_name(struct hx_text *text, const char *name)
{
    size_t n = strlen(name);
    if (n > NAME) {
        n = NAME - 3;
        while (n && ((uint8_t)name[n] & 0xc0) == 0x80)
            n--;
        hx_text_putn(text, name, n);
        hx_text_puts(text, "...");
        return;
    }
    hx_text_puts(text, name);
}

static void put_size(struct hx_text *text, uint64_t size)
{
    const char *unit;
    uint64_t told = told_size(size, &unit);
    hx_text_putf(text, "%llu %s", (unsigned long long)told, unit);
}

static void put_noun(const struct shapes *shapes, struct hx_text *text, uint64_t noun)
{
    hx_text_puts(text, noun ? "-> " : "->");
    switch ((enum noun_kind)(noun >> 32)) {
    case NO_NOUN:
        break;
    case SELF:
        hx_text_puts(text, "self");
        break;
    case A_TEXT:
        hx_text_puts(text, "text");
        break;
    case AN_ARRAY:
        hx_text_puts(text, "array");
        break;
    case A_TYPE:
        put_name(text, shapes->judge->snapshot->types.v[(uint32_t)noun].name);
        break;
    case A_SIZE:
        put_size(text, (uint32_t)noun);
        break;
    }
}

/* The majority of what is said of one after the other, by Boyer and Moore's vote; then counted. */
struct majority {
    uint64_t candidate;
    int32_t votes;
    uint32_t n, agree;
};

static void vote(struct majority *majority, uint64_t value, bool count)
{
    if (count) {
        majority->n++;
        majority->agree += value == majority->candidate;
        return;
    }
    HX_VOTE(majority->candidate, majority->votes, value);
}

/* --- what words hold ---------------------------------------------------------------------- */

/* Of a word of a shape. */
struct field {
    uint32_t count[KINDS];
    uint32_t n;
    struct majority noun, place; /* what pointers lead to; addresses in modules */
};

static void count_member(const struct shapes *shapes, hx_obj object, const struct shape *self,
                         size_t from, size_t n, bool count, struct hx_peeked *window,
                         struct field *field, size_t period)
{
    struct words words;
    if (!look_at(shapes, object, from, n, window, &words))
        return;
    for (size_t i = 0; i < words.n; i++) {
        struct field *of = &field[i % period];
        const uint8_t kind = words.kind[i];
        of->n += count;
        of->count[kind] += count;
        if (kind == POINTER)
            vote(&of->noun, noun_of(shapes, words.target[i], self), count);
        if (kind == GLOBAL || kind == CODE)
            vote(&of->place, words.word[i], count);
    }
}

static uint64_t load_bias(const struct hx_snapshot *snapshot, const struct hx_mapping *module)
{
    uint64_t bias = module->start;
    for (size_t i = (size_t)(module - snapshot->mapping) + 1; i-- > 0;) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (mapping->inode != module->inode || mapping->dev != module->dev)
            break;
        bias = mapping->start;
    }
    return bias;
}

/* The variable at an address; NULL: there is none that has a name. */
static const char *variable_at(const struct shapes *shapes, uint64_t address)
{
    const struct hx_root *root = shapes->judge->snapshot->roots.v;
    size_t i = HX_LOWER_BOUND(shapes->n_roots, k, root[k].address < address);
    if (i == shapes->n_roots || root[i].address != address || root[i].kind != HX_ROOT_GLOBAL ||
        hx_root_is_nameless(&root[i]))
        return NULL;
    return root[i].name;
}

static void put_place(const struct shapes *shapes, struct hx_text *text, uint64_t address,
                      bool first)
{
    const struct hx_mapping *module = hx_judge_module(shapes->judge, address);
    const char *name = variable_at(shapes, address);
    if (name) {
        hx_text_puts(text, "-> ");
        put_name(text, name);
    } else if (module) {
        const char *slash = strrchr(module->path, '/');
        const bool table = first && !(module->prot & (HX_PROT_W | HX_PROT_X));
        hx_text_puts(text, table ? "vtable " : "-> ");
        put_name(text, slash ? slash + 1 : module->path);
        hx_text_putf(text, "+0x%llx",
                     (unsigned long long)(address - load_bias(shapes->judge->snapshot, module)));
    }
}

static bool is_most(uint32_t part, uint32_t whole)
{
    return !hx_part_below(part, whole, MOST);
}

/* What most members have there; `type`: of them all. */
static void put_field(const struct shapes *shapes, struct hx_text *text, const struct field *field,
                      uint32_t type, bool first)
{
    const uint32_t *count = field->count, set = field->n - count[ZERO];
    const uint32_t values = count[INT] + count[BYTES];
    if (!set || hx_part_below(set, field->n, SEEN)) {
        hx_text_puts(text, "0");
    } else if (is_most(count[POINTER], set)) {
        const struct majority *noun = &field->noun;
        put_noun(shapes, text, is_most(noun->agree, noun->n) ? noun->candidate : 0);
    } else if (is_most(count[GLOBAL] + count[CODE], set)) {
        const struct majority *place = &field->place;
        if (first && type != HX_NO_TYPE)
            put_name(text, shapes->judge->snapshot->types.v[type].name);
        else if (!hx_part_below(place->agree, place->n, SAME))
            put_place(shapes, text, place->candidate, first);
        else
            hx_text_puts(text, count[CODE] > count[GLOBAL] ? "-> code" : "-> global");
    } else if (is_most(count[DOUBLE], set)) {
        hx_text_puts(text, "double");
    } else if (is_most(count[TEXT], set)) {
        hx_text_puts(text, "text");
    } else {
        hx_text_puts(text, is_most(values + count[DOUBLE] + count[TEXT], set) ? "int" : "?");
    }
}

/* --- labels ------------------------------------------------------------------------------- */

/* "{-> self, 4 x int}" of fields; those of the same text are told once. */
static void put_fields(const struct shapes *shapes, struct hx_text *text, const struct field *field,
                       size_t n, const char *more, uint32_t type)
{
    HX_CLEANUP(hx_text_free) struct hx_text item = {0}, next = {0};
    unsigned items = 0;
    hx_text_putc(text, '{');
    if (n)
        put_field(shapes, &next, &field[0], type, true);
    for (size_t i = 0, run; i < n; i += run) {
        hx_text_clear(&item);
        hx_text_puts(&item, hx_text_str(&next));
        for (run = 1; i + run < n; run++) {
            hx_text_clear(&next);
            put_field(shapes, &next, &field[i + run], type, false);
            if (strcmp(hx_text_str(&item), hx_text_str(&next)) != 0)
                break;
        }
        if (items == ITEMS || (items && text->n + item.n > LABEL)) {
            more = more ? more : "...";
            break;
        }
        hx_text_puts(text, items++ ? ", " : "");
        if (run > 1 && strcmp(hx_text_str(&item), "text") != 0)
            hx_text_putf(text, "%zu x ", run);
        hx_text_puts(text, hx_text_str(&item));
        text->failed |= item.failed || next.failed;
    }
    if (more)
        hx_text_putf(text, "%s%s", items ? ", " : "", more);
    hx_text_putc(text, '}');
}

/* What is behind the words that are told: "...", and of a large block what is at its end. */
static void put_more(const struct shapes *shapes, struct hx_text *text, const struct shape *shape)
{
    struct field last = {.n = 0};
    HX_PEEKED window = {0};
    hx_text_puts(text, "...");
    if (shape->size < LARGE)
        return;
    for (unsigned count = 0; count < 2; count++)
        for (uint32_t s = 0; s < shape->n; s++) {
            const hx_obj object = shapes->sample[shape->first + s];
            const size_t has = used_bytes(shapes->graph, object) / HX_WORD;
            if (has > WORDS)
                count_member(shapes, object, shape, has - WORDS, WORDS, count, &window, &last, 1);
        }
    hx_text_puts(text, ", ");
    put_field(shapes, text, &last, HX_NO_TYPE, false);
}

static void put_struct(const struct shapes *shapes, struct hx_text *text, const struct shape *shape)
{
    struct field field[WORDS] = {{.n = 0}};
    const size_t words = shape->size / HX_WORD;
    HX_PEEKED window = {0};
    size_t n = 0;
    for (unsigned count = 0; count < 2; count++)
        for (uint32_t s = 0; s < shape->n; s++)
            count_member(shapes, shapes->sample[shape->first + s], shape, 0, WORDS, count, &window,
                         field, WORDS);
    while (n < WORDS && n < words && field[n].n)
        n++;
    put_size(text, shape->size);
    if (!n)
        return;
    hx_text_puts(text, ": ");
    HX_CLEANUP(hx_text_free) struct hx_text more = {0};
    put_more(shapes, &more, shape);
    put_fields(shapes, text, field, n, n < words ? hx_text_str(&more) : NULL, shape->type);
    text->failed |= more.failed;
}

static void put_array(const struct shapes *shapes, struct hx_text *text, const struct shape *shape)
{
    struct field field[STRIDES] = {{.n = 0}};
    HX_PEEKED window = {0};
    const bool pointers = memchr(shape->of.item, POINTER, shape->of.stride) != NULL;
    for (unsigned count = 0; pointers && count < 2; count++)
        for (uint32_t s = 0; s < shape->n; s++)
            for (size_t quarter = 0; quarter < 4; quarter++) {
                const hx_obj object = shapes->sample[shape->first + s];
                size_t has = used_bytes(shapes->graph, object) / HX_WORD;
                count_member(shapes, object, shape,
                             begin_of_quarter(has, quarter, shape->of.stride), WINDOW, count,
                             &window, field, shape->of.stride);
            }
    put_size(text, shape->size);
    hx_text_puts(text, ": array of ");
    if (shape->of.stride > 1)
        hx_text_putc(text, '{');
    for (size_t i = 0; i < shape->of.stride; i++) {
        static const char *const words[KINDS] = {"0",      "->",    "text",      "int",
                                                 "double", "bytes", "-> global", "-> code"};
        const struct majority *noun = &field[i].noun;
        hx_text_puts(text, i ? ", " : "");
        if (shape->of.item[i] == POINTER && is_most(noun->agree, noun->n))
            put_noun(shapes, text, noun->candidate);
        else
            hx_text_puts(text, words[shape->of.item[i]]);
    }
    if (shape->of.stride > 1)
        hx_text_putc(text, '}');
}

/* glibc has 24, 40, 56, ... bytes for up to as many. */
static void put_string(struct hx_text *text, uint64_t size)
{
    if (size < LARGE && size % 16 == 8)
        hx_text_putf(text, "%u..", size <= 24 ? 1 : (unsigned)size - 15);
    put_size(text, size);
    hx_text_puts(text, " of text");
}

static void put_label(const struct shapes *shapes, struct hx_text *text, const struct shape *shape)
{
    switch (shape->of.content) {
    case STRUCT:
        if (shape->has_fields)
            put_struct(shapes, text, shape);
        else
            put_size(text, shape->size);
        break;
    case STRING:
        put_string(text, shape->size);
        break;
    case ARRAY:
        put_array(shapes, text, shape);
        break;
    case ZEROS:
        put_size(text, shape->size);
        hx_text_puts(text, " of zeros");
        break;
    case OTHER:
        hx_text_puts(text, "other sizes");
        break;
    }
}

struct labels {
    const struct shapes *shapes;
    struct hx_text *text; /* of each shape */
    atomic_size_t next;
};

static void label_worker(void *context, unsigned worker)
{
    (void)worker;
    struct labels *labels = context;
    size_t i;
    while ((i = atomic_fetch_add(&labels->next, 1)) < labels->shapes->shapes.n)
        put_label(labels->shapes, &labels->text[i], &labels->shapes->shapes.v[i]);
}

/* Shapes of one label become one. */
static hx_error *join_labels(struct shapes *shapes, struct hx_text *text)
{
    struct hx_snapshot *snapshot = shapes->judge->snapshot;
    HX_CLEANUP(hx_pairs_free) struct hx_pairs by_label = {0};
    for (size_t i = 0; i < shapes->shapes.n; i++) {
        uint32_t *number;
        HX_NEED(!text[i].failed);
        HX_TRY(hx_pairs_at(&by_label, hx_hash_bytes(text[i].s, text[i].n), &number));
        if (*number == HX_NO_PAIR) {
            *number = (uint32_t)snapshot->shapes.n;
            HX_NEED(hx_vec_push(&snapshot->shapes, (struct hx_shape){strdup(text[i].s)}));
            HX_NEED(snapshot->shapes.v[*number].label);
        }
        shapes->shapes.v[i].final = (uint16_t)*number;
    }
    return NULL;
}

static hx_error *label_shapes(struct shapes *shapes)
{
    const size_t n = shapes->shapes.n;
    struct labels labels = {.shapes = shapes, .text = calloc(n + 1, sizeof *labels.text)};
    HX_NEED(labels.text);
    hx_parallel(shapes->graph->n < FEW ? 1 : shapes->judge->threads, label_worker, &labels);
    hx_error *err = join_labels(shapes, labels.text);
    for (size_t i = 0; i < n; i++)
        hx_text_free(&labels.text[i]);
    free(labels.text);
    return err;
}

static void give_final(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    struct shapes *shapes = context;
    for (hx_obj i = from; i < to; i++)
        shapes->graph->shape[i] = shapes->shapes.v[shapes->graph->shape[i]].final;
}

static hx_error *make_shapes(struct shapes *shapes)
{
    const struct hx_snapshot *snapshot = shapes->judge->snapshot;
    shapes->n_roots = snapshot->roots.n;
    while (shapes->n_roots && snapshot->roots.v[shapes->n_roots - 1].kind == HX_ROOT_NAMED)
        shapes->n_roots--;
    shapes->group = calloc((size_t)shapes->judge->groups->n + 1, sizeof *shapes->group);
    HX_NEED(shapes->group);
    HX_TRY(hx_big_array(shapes->graph->shape, shapes->graph->n));
    HX_TRY(take_sample(shapes));
    HX_TRY(find_shapes(shapes));
    HX_TRY(sort_sample(shapes));
    HX_TRY(label_shapes(shapes));
    return hx_judge_objects(shapes->judge, give_final, shapes);
}

hx_error *hx_shapes_make(const struct hx_judge *judge)
{
    HX_FREE struct shapes *shapes = calloc(1, sizeof *shapes);
    HX_NEED(shapes);
    shapes->judge = judge;
    shapes->graph = judge->graph;
    for (unsigned rule = 1; rule < HX_RULE_COUNT; rule++)
        shapes->stray |= (uint64_t)(hx_rule_rank(rule) == HX_RANK_STRAY) << rule;
    const uint64_t begun = hx_timing_begin();
    hx_error *err = make_shapes(shapes);
    hx_timing_end(begun, "shapes", judge->graph->n);
    for (unsigned i = 0; i < judge->threads; i++) {
        free(shapes->worker[i].look);
        free(shapes->worker[i].candidate);
        hx_vec_free(&shapes->worker[i].variants);
    }
    free(shapes->group);
    free(shapes->sample);
    hx_vec_free(&shapes->shapes);
    hx_pairs_free(&shapes->plain);
    return err;
}
