/* fields.c - what fields of alike blocks hold: words that are pointers where the others are not, or
 * that point to what the others do not point to.
 *
 * Words that are a pointer in some members of a group and another value in others tell variants
 * apart: a class of a field is those members whose other such words are of the same kind. What a
 * field holds is counted by class, in a sample of the group; what is to be said of the words of a
 * class is decided once.
 */
#include "traverse/hold/word_table.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/pairs.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/vote.h"

#include <stdlib.h>

#define WORDS    64 /* of a block that are looked at as fields: bits of a mask */
#define ALIKE    32 /* fewer say nothing */
#define TARGETS  4
#define TAIL     3 /* words that may lie behind the request */
#define FEW_GONE 3
#define SURE     128  /* pointers, none of which leads to what was freed: they are genuine */
#define VARIANTS 4096 /* of a group; members of others are not looked at */
#define TAGS     16   /* values of a field that tells variants apart */
#define SAMPLES  64 /* links of a field that are tried: enough to tell whether they are answered */
#define TOO_MANY (HX_NO_PAIR - 1)
#define LANDINGS 4 /* of intrusive lists in one block */

/* What a word says of the variant, but for a tag and for the group that it leads to. */
enum { ZERO, POINTER, VALUE, LETTERS, FIRST_TAG };

/* Percent. */
enum {
    VALUES = 10,   /* pointers below this part of what is not null: a field of other values */
    HARDLY = 3,    /* pointers below this part of all: a field that is hardly ever set */
    AT_END = 25,   /* the same of the last word of a block, which may lie behind the request */
    MOSTLY = 97,   /* values of a field that are small: a tag */
    ANSWERED = 60, /* links that are answered, so that others are the exception */
    ONE_WAY = 80,  /* pointers of a class to one group: a field of a rare variant */
    NEARLY = 90,   /* of the pointers of a class: all lead to one group */
    GONE = 2,      /* of the pointers at the end of a block, those to what was freed: leftovers */
    MANY_GONE = 4, /* the same, where only the whole group has enough of them */
    TELLING = 10   /* pointers of a field to one group: that tells variants apart */
};

/* Of one word of a group: what tells variants apart. */
struct field {
    uint32_t all, pointer, value, text; /* the others of `all` are null */
    uint32_t gone;                      /* of the values, pointers to what was freed */
    uint32_t small;                     /* of the values, those whose lowest byte is below TAGS */
    struct target {
        uint32_t group, count;
        uint32_t links, answered; /* pointers that were tried; those whose targets point back */
    } target[TARGETS];            /* the groups that most pointers lead to (Misra and Gries) */
};

/* Of a word of a variant: of all members whose other words say the same. */
struct class
{
    uint32_t all, pointer, value, text;
    uint32_t gone;   /* as in struct field */
    uint32_t target; /* the group that most pointers lead to, by vote */
    int32_t votes;
    uint32_t to_target;       /* how many do */
    uint32_t to_nodes;        /* of the pointers, those to blocks that have pointers themselves */
    uint32_t links, answered; /* as in struct target */
    uint32_t interior;        /* plain interior pointers */
    uint64_t place;           /* where most of these lead to: group and offset, by vote */
    int32_t place_votes;
    uint32_t to_place;
    uint8_t rule; /* enum hx_rule, of a word where nothing else is said */
    bool is_link, is_chain, is_intrusive;
};

struct group {
    size_t first_field;
    uint8_t n_words;      /* 0: it is not looked at */
    uint8_t owner;        /* the worker whose tables have its fields and classes */
    uint8_t gone;         /* percent, of the last words' pointers in the whole group: leftovers */
    uint64_t mixed, tags; /* bits for words: they tell variants apart, by their value */
    uint64_t none;        /* what words that are null add to the variant */
    bool has_interior;    /* pointers, in its sample */
    uint64_t judged;      /* of some class there is something to say */
    uint64_t links;       /* of some class targets are asked whether they point back */
    uint64_t lists;       /* links between blocks alike, which are answered */
    uint64_t own_chains, chains; /* links to the next one alike; of a kin, too */
    uint8_t landings; /* places that links of intrusive lists lead to, LANDINGS + 1 at most */
};

/* What the words of an object are, as far as it was asked: bits for those that are pointers, text
 * and other values. The others are null, or pointers that other rules have judged. */
struct kinds {
    uint64_t pointers, letters, values;
};

/* Of a group's sample. */
struct member {
    struct kinds is;
    uint64_t gone;    /* of the last values, those that lead to what was freed */
    uint32_t variant; /* in tables.variants; HX_NO_PAIR: it is not looked at */
    bool is_missing;  /* from the image */
};

/* How often each of 64 bits was set: the lowest digit of each number, then the next. */
struct columns {
    uint64_t digit[32];
};

struct variant {
    uint32_t class_of, members;
    struct columns letters, values;
};

/* What one worker found about its groups. */
struct tables {
    HX_VEC(struct field) fields;
    HX_VEC(struct class) classes;
    HX_VEC(uint32_t) class_of; /* of a variant: its group, then the class of each word */
    struct hx_pairs variant_by_key, class_by_key;
    HX_VEC(struct member) members;   /* of the group that it is at */
    HX_VEC(struct variant) variants; /* the same */
    bool failed;
};

struct fields {
    const struct hx_judge *judge;
    const struct hx_graph *graph;
    const struct hx_block_groups *groups;
    struct group *group;
    struct tables tables[HX_THREADS_MAX];
    struct hx_pairs landings;
    uint64_t factor[WORDS]; /* odd, of each word that tells variants apart */
};

/* Where a worker is. */
struct cursor {
    const struct fields *fields;
    struct hx_peeked window;
    uint64_t last_key; /* of the variant that was looked up last */
    uint32_t last_variant;
};

static inline uint32_t group_of(const struct fields *fields, hx_obj object)
{
    return fields->groups->of[object];
}

/* --- an object's words -------------------------------------------------------------------- */

struct words {
    uint32_t number; /* of the group */
    struct group *group;
    struct field *field;  /* of the first word */
    const uint64_t *word; /* NULL: nobody has looked yet */
    size_t n;
    struct kinds is;
    uint64_t cleared;   /* bits for pointers that other rules have judged */
    hx_eidx first, end; /* edges of these words */
};

/* At least two letters and no other bytes, up to the last one that is not null. */
static bool is_text(uint64_t word)
{
    const unsigned used = hx_bytes_used(word);
    const uint64_t text = hx_bytes_pad(word, used), low = hx_bytes_below(text, ' ');
    return used > 1 &&
           (!low || !(low & ~(hx_bytes_that_are(text, '\n') | hx_bytes_that_are(text, '\t'))));
}

/* Which word of the object an edge lies in. */
static inline size_t word_of(const struct fields *fields, hx_eidx e)
{
    return hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
}

/* False: it is not looked at. */
static bool find_words(const struct fields *fields, hx_obj object, struct words *ret)
{
    ret->number = group_of(fields, object);
    ret->group = &fields->group[ret->number];
    ret->n = ret->group->n_words;
    if (!ret->n)
        return false;
    ret->field = fields->tables[ret->group->owner].fields.v + ret->group->first_field;
    return true;
}

static void find_pointers(const struct fields *fields, hx_obj object, struct words *words)
{
    const struct hx_graph *graph = fields->graph;
    const hx_eidx end = graph->fwd[(size_t)object + 1];
    words->is = (struct kinds){0};
    words->cleared = 0;
    words->first = graph->fwd[object];
    for (words->end = words->first; words->end < end; words->end++) {
        size_t i = word_of(fields, words->end);
        if (i >= words->n)
            break;
        const unsigned rule = HX_EVIDENCE_RULE(graph->evidence[words->end]);
        const bool cleared = rule && rule != HX_RULE_piece && rule != HX_RULE_lent;
        *(cleared ? &words->cleared : &words->is.pointers) |= UINT64_C(1) << i;
    }
}

/* False: the image lacks them. */
static bool peek_words(const struct fields *fields, hx_obj object, struct hx_peeked *window,
                       struct words *words)
{
    words->word = hx_judge_peek(fields->judge, fields->graph->addr[object], words->n, window);
    return words->word != NULL;
}

/* What those words are that `wanted` has bits for. */
static void find_values(uint64_t wanted, struct words *words)
{
    for (uint64_t left = wanted & ~(words->is.pointers | words->cleared); left; left &= left - 1) {
        const uint64_t word = words->word[__builtin_ctzll(left)], bit = left & -left;
        if (!word)
            continue;
        if (is_text(word))
            words->is.letters |= bit;
        else
            words->is.values |= bit;
    }
}

static uint64_t all_words(size_t n)
{
    return UINT64_MAX >> (WORDS - n);
}

typedef void member_fn(const struct fields *fields, struct tables *tables, hx_obj object,
                       struct words *words, struct member *member);

/* All but the first time with what the words are, as far as these are there; `looks`: it needs
 * their values. */
static void each_member(const struct fields *fields, struct tables *tables, uint32_t number,
                        bool looks, member_fn *work)
{
    const struct hx_block_group *group = &fields->groups->group[number];
    const hx_obj *sample = fields->groups->sample + group->first;
    HX_PEEKED window = {0};
    for (uint32_t i = 0; i < group->samples; i++) {
        struct member *member = &tables->members.v[i];
        struct words words;
        hx_judge_look_ahead(fields->judge, sample, i, group->samples, 1, looks ? &window : NULL);
        if (member->is_missing || !find_words(fields, sample[i], &words))
            continue;
        if (looks)
            member->is_missing = !peek_words(fields, sample[i], &window, &words);
        words.is = member->is;
        words.first = fields->graph->fwd[sample[i]];
        words.end = fields->graph->fwd[(size_t)sample[i] + 1];
        if (!member->is_missing)
            work(fields, tables, sample[i], &words, member);
    }
}

/* --- groups' words -------------------------------------------------------------------------- */

static void vote_target(struct field *field, uint32_t group)
{
    size_t free_slot = TARGETS;
    for (size_t i = 0; i < TARGETS; i++) {
        if (field->target[i].count && field->target[i].group == group) {
            field->target[i].count++;
            return;
        }
        if (!field->target[i].count)
            free_slot = i;
    }
    if (free_slot < TARGETS) {
        field->target[free_slot].group = group;
        field->target[free_slot].count = 1;
        return;
    }
    for (size_t i = 0; i < TARGETS; i++)
        field->target[i].count--;
}

static inline uint32_t target_group(const struct fields *fields, hx_eidx e)
{
    return group_of(fields, hx_edge_target(fields->graph->edge[e]));
}

static bool is_tail(const struct group *group, size_t i)
{
    return i && i + TAIL >= group->n_words && group->n_words < WORDS;
}

/* Bits for the values at the end of an object that lead to what was freed. */
static uint64_t find_gone_values(const struct fields *fields, const struct words *words)
{
    uint64_t gone = 0;
    for (size_t i = words->n < TAIL ? 0 : words->n - TAIL; i < words->n; i++)
        if (words->is.values >> i & 1 && is_tail(words->group, i))
            gone |= (uint64_t)hx_is_gone(fields->graph, words->word[i]) << i;
    return gone;
}

/* Finds what the words are, and counts every so many. */
static void count_words(const struct fields *fields, struct tables *tables, hx_obj object,
                        struct words *words, struct member *member)
{
    const uint32_t step = hx_sample_step(&fields->groups->group[words->number]);
    find_pointers(fields, object, words);
    find_values(all_words(words->n), words);
    member->is = words->is;
    member->gone = find_gone_values(fields, words);
    for (hx_eidx e = words->first; e < words->end; e++)
        words->group->has_interior |= hx_edge_kind_of(fields->graph->edge[e]) == HX_EDGE_INTERIOR;
    if ((size_t)(member - tables->members.v) % step)
        return;
    words->field->all++;
    for (uint64_t left = words->is.letters; left; left &= left - 1)
        words->field[__builtin_ctzll(left)].text++;
    for (uint64_t left = words->is.values; left; left &= left - 1) {
        struct field *field = &words->field[__builtin_ctzll(left)];
        const uint64_t word = words->word[__builtin_ctzll(left)];
        field->value++;
        field->gone += hx_is_gone(fields->graph, word);
        field->small += (word & 0xff) < TAGS;
    }
    for (hx_eidx e = words->first; e < words->end; e++)
        if (words->is.pointers >> word_of(fields, e) & 1) {
            words->field[word_of(fields, e)].pointer++;
            vote_target(&words->field[word_of(fields, e)], target_group(fields, e));
        }
}

/* --- variants ----------------------------------------------------------------------------- */

/* Small numbers: a tag, a colour. */
static bool is_tag(const struct field *field)
{
    return field->value >= ALIKE && !field->pointer &&
           !hx_part_below(field->small, field->value, MOSTLY);
}

static bool is_telling_target(const struct field *field, size_t i)
{
    return field->target[i].count &&
           !hx_part_below(field->target[i].count, field->pointer, TELLING);
}

/* What is counted of pointers to a group; NULL: too few. */
static struct target *telling_target(struct field *field, uint32_t group)
{
    for (size_t i = 0; i < TARGETS; i++)
        if (field->target[i].group == group && is_telling_target(field, i))
            return &field->target[i];
    return NULL;
}

/* Does this word tell variants apart? */
static bool is_mixed(const struct field *field)
{
    unsigned targets = 0;
    for (size_t i = 0; i < TARGETS; i++)
        targets += is_telling_target(field, i);
    return (field->pointer && (field->value || field->text)) || (field->value && field->text) ||
           targets > 1 || is_tag(field);
}

static void find_mixed(const struct fields *fields, struct group *group, struct field *field)
{
    for (size_t i = 0; i < group->n_words; i++) {
        field[i].all = field->all;
        group->tags |= (uint64_t)is_tag(&field[i]) << i;
        group->mixed |= (uint64_t)is_mixed(&field[i]) << i;
        group->none += group->mixed >> i & 1 ? fields->factor[i] : 0;
    }
}

/* What a word that tells variants apart says; of a pointer that leads to one of several groups, in
 * which it leads. */
static uint64_t said_by(const struct words *words, size_t i)
{
    const uint64_t bit = UINT64_C(1) << i;
    return words->is.letters & bit    ? LETTERS
           : words->group->tags & bit ? FIRST_TAG + (words->word[i] & 0xff)
           : words->is.values & bit   ? VALUE
           : words->is.pointers & bit ? POINTER
                                      : ZERO;
}

static bool is_told(const struct fields *fields, const struct words *words, hx_eidx e)
{
    const size_t i = word_of(fields, e);
    return words->group->mixed & words->is.pointers & UINT64_C(1) << i &&
           telling_target(&words->field[i], target_group(fields, e));
}

/* Sum over the words that tell variants apart. */
static uint64_t find_variant(const struct fields *fields, const struct words *words)
{
    const struct group *group = words->group;
    const struct kinds *is = &words->is;
    uint64_t sum = group->none;
    for (uint64_t left = group->mixed & (group->tags | is->letters | is->values | is->pointers);
         left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left);
        sum += said_by(words, i) * fields->factor[i];
    }
    for (hx_eidx e = words->first; group->mixed & is->pointers && e < words->end; e++) {
        const size_t i = word_of(fields, e);
        if (i >= words->n)
            break;
        if (is_told(fields, words, e))
            sum +=
                (hx_pair_key(1, target_group(fields, e)) - said_by(words, i)) * fields->factor[i];
    }
    return sum;
}

/* What each of them adds to it. */
static void find_marks(const struct fields *fields, const struct words *words, uint64_t mark[WORDS])
{
    for (size_t i = 0; i < words->n; i++)
        mark[i] = words->group->mixed >> i & 1 ? said_by(words, i) + 1 : 0;
    for (hx_eidx e = words->first; e < words->end && word_of(fields, e) < words->n; e++)
        if (is_told(fields, words, e))
            mark[word_of(fields, e)] = hx_pair_key(1, target_group(fields, e)) + 1;
    for (size_t i = 0; i < words->n; i++)
        mark[i] *= fields->factor[i];
}

static hx_error *add_class(struct tables *tables, uint64_t key)
{
    uint32_t *class;
    HX_TRY(hx_pairs_at(&tables->class_by_key, key, &class));
    if (*class == HX_NO_PAIR) {
        *class = (uint32_t)tables->classes.n;
        HX_NEED(hx_vec_push(&tables->classes, ((struct class){0})));
    }
    HX_NEED(hx_vec_push(&tables->class_of, *class));
    return NULL;
}

static uint64_t key_of(const struct words *words, uint64_t variant)
{
    return hx_mix((uint64_t)words->number + 1, variant);
}

/* *ret: its number in tables.variants; HX_NO_PAIR: there are too many. */
static hx_error *add_variant(const struct fields *fields, struct tables *tables,
                             const struct words *words, uint32_t *ret)
{
    const uint64_t variant = find_variant(fields, words);
    uint64_t mark[WORDS];
    uint32_t *row;
    HX_TRY(hx_pairs_at(&tables->variant_by_key, key_of(words, variant), &row));
    if (*row == HX_NO_PAIR && tables->variants.n < VARIANTS) {
        *row = (uint32_t)tables->class_of.n;
        HX_NEED(hx_vec_push(&tables->variants, ((struct variant){.class_of = *row + 1})));
        HX_NEED(hx_vec_push(&tables->class_of, words->number));
        find_marks(fields, words, mark);
        for (size_t i = 0; i < words->n; i++)
            HX_TRY(add_class(tables, hx_mix(hx_mix(words->number, i), variant - mark[i])));
    } else if (*row == HX_NO_PAIR) {
        *row = TOO_MANY;
    }
    const bool is_own = *row < TOO_MANY && tables->class_of.v[*row] == words->number;
    *ret = is_own ? (uint32_t)((*row + 1 - tables->variants.v->class_of) / (1 + words->n))
                  : HX_NO_PAIR;
    return NULL;
}

/* The class of the first of the words; NULL: it is not looked at. */
static const uint32_t *classes_of(struct cursor *cursor, const struct words *words)
{
    const struct tables *tables = &cursor->fields->tables[words->group->owner];
    uint64_t key = key_of(words, find_variant(cursor->fields, words));
    if (cursor->last_variant == HX_NO_PAIR || key != cursor->last_key) {
        cursor->last_key = key;
        cursor->last_variant = hx_pairs_find(&tables->variant_by_key, key);
    }
    if (cursor->last_variant >= TOO_MANY)
        return NULL;
    const uint32_t *row = tables->class_of.v + cursor->last_variant;
    return row[0] == words->number ? row + 1 : NULL;
}

/* --- counting ----------------------------------------------------------------------------- */

/* What has many edges is taken to have this one, too. */
static bool points_back(const struct hx_graph *graph, hx_obj from, hx_obj to)
{
    hx_eidx e = graph->fwd[from], end = graph->fwd[from + 1];
    if (end - e > WORDS)
        return true;
    while (e < end && hx_edge_target(graph->edge[e]) != to)
        e++;
    return e < end;
}

/* Where in blocks of its group an address lies. */
static uint64_t place_of(const struct fields *fields, hx_obj target, uint64_t value)
{
    return hx_pair_key(group_of(fields, target), (uint32_t)(value - fields->graph->addr[target]));
}

static void add_columns(struct columns *columns, uint64_t bits)
{
    for (size_t i = 0; bits; i++) {
        const uint64_t carry = columns->digit[i] & bits;
        columns->digit[i] ^= bits;
        bits = carry;
    }
}

static uint32_t column_of(const struct columns *columns, size_t i)
{
    uint32_t n = 0;
    for (size_t digit = 0; digit < 32; digit++)
        n |= (uint32_t)(columns->digit[digit] >> i & 1) << digit;
    return n;
}

static void count_class(const struct fields *fields, struct tables *tables, hx_obj object,
                        struct words *words, struct member *member)
{
    (void)object;
    hx_error *err = add_variant(fields, tables, words, &member->variant);
    if (err) {
        tables->failed = true;
        member->variant = HX_NO_PAIR;
        hx_error_free(err);
    }
    if (member->variant == HX_NO_PAIR)
        return;
    struct variant *variant = &tables->variants.v[member->variant];
    const uint32_t *class_of = tables->class_of.v + variant->class_of;
    variant->members++;
    add_columns(&variant->letters, words->is.letters);
    add_columns(&variant->values, words->is.values);
    for (uint64_t left = member->gone; left; left &= left - 1)
        tables->classes.v[class_of[__builtin_ctzll(left)]].gone++;
    for (hx_eidx e = words->first; e < words->end && word_of(fields, e) < words->n; e++) {
        size_t i = word_of(fields, e);
        struct class *class = &tables->classes.v[class_of[i]];
        hx_edge edge = fields->graph->edge[e];
        if (!(words->is.pointers >> i & 1))
            continue;
        class->pointer++;
        HX_VOTE(class->target, class->votes, target_group(fields, e));
        if (hx_edge_kind_of(edge) == HX_EDGE_INTERIOR) {
            class->interior++;
            HX_VOTE(class->place, class->place_votes,
                    place_of(fields, hx_edge_target(edge), words->word[i]));
        }
    }
}

static void add_variants(struct tables *tables, size_t n)
{
    for (size_t k = 0; k < tables->variants.n; k++) {
        const struct variant *variant = &tables->variants.v[k];
        for (size_t i = 0; i < n; i++) {
            struct class *class = &tables->classes.v[tables->class_of.v[variant->class_of + i]];
            class->all += variant->members;
            class->text += column_of(&variant->letters, i);
            class->value += column_of(&variant->values, i);
        }
    }
}

/* The candidates of the votes, counted. */
static void count_targets(const struct fields *fields, struct tables *tables, hx_obj object,
                          struct words *words, struct member *member)
{
    if (member->variant == HX_NO_PAIR)
        return;
    const uint32_t *class_of = tables->class_of.v + tables->variants.v[member->variant].class_of;
    for (hx_eidx e = words->first; e < words->end && word_of(fields, e) < words->n; e++) {
        hx_edge edge = fields->graph->edge[e];
        hx_obj target = hx_edge_target(edge);
        size_t i = word_of(fields, e);
        struct class *class = &tables->classes.v[class_of[i]];
        if (!(words->is.pointers >> i & 1))
            continue;
        class->to_target += target_group(fields, e) == class->target;
        class->to_nodes += fields->graph->fwd[target] != fields->graph->fwd[target + 1];
        struct target *to = telling_target(&words->field[i], target_group(fields, e));
        if (to && target != object && to->links < SAMPLES) {
            bool back = points_back(fields->graph, target, object);
            to->links++;
            to->answered += back;
            class->links++;
            class->answered += back;
        }
        if (hx_edge_kind_of(edge) == HX_EDGE_INTERIOR)
            class->to_place += class->place == place_of(fields, target, words->word[i]);
    }
}

/* --- judging ------------------------------------------------------------------------------ */

static bool is_slack(const struct group *group, size_t i)
{
    return i + 1 == group->n_words && group->n_words < WORDS && group->n_words % 2 == 1;
}

/* Is a word that may lie behind the request no pointer in most of the group? */
static bool is_idle(const struct field *field)
{
    return hx_part_below(field->pointer, field->all, AT_END);
}

static bool leads_to_freed(uint64_t gone, uint64_t pointers, unsigned percent)
{
    return gone >= FEW_GONE && !hx_part_below(gone, gone + pointers, percent);
}

/* Do pointers at the end of a block lead to what was freed? A class of few pointers does not tell
 * by itself, and an array may end there. */
static bool is_leftover(const struct group *group, size_t i, const struct field *field,
                        const struct class *class)
{
    if (!is_tail(group, i) || (!group->gone && !is_slack(group, i)))
        return false;
    return class->gone < FEW_GONE && class->pointer < SURE
               ? group->gone && leads_to_freed(field->gone, field->pointer, group->gone)
               : leads_to_freed(class->gone, class->pointer, GONE);
}

/* By what the words of the class are; of the group where the class is small. */
static enum hx_rule judge_kind(const struct group *group, size_t i, const struct field *field,
                               const struct class *class)
{
    const bool first = i == 0, slack = is_slack(group, i);
    /* what begins with text is text, and no struct like those that begin with a pointer */
    uint64_t values = (uint64_t) class->value + (first ? 0 : class->text);
    uint64_t all = class->all - (first ? class->text : 0);
    if (is_leftover(group, i, field, class))
        return HX_RULE_slack;
    if (all < ALIKE)
        return slack && is_idle(field) ? HX_RULE_slack : HX_RULE_NONE;
    if (slack && hx_part_below(class->pointer, all, AT_END))
        return HX_RULE_slack;
    /* the first word is always written */
    if (!first && hx_part_below(class->pointer, class->pointer + values, VALUES))
        return class->pointer >= ALIKE &&
                       !hx_part_below((uint64_t) class->votes, class->pointer, ONE_WAY)
                   ? HX_RULE_few
                   : HX_RULE_field;
    return hx_part_below(class->pointer, all, HARDLY) ? HX_RULE_few : HX_RULE_NONE;
}

static bool is_answered(uint32_t links, uint32_t answered)
{
    return links >= ALIKE && !hx_part_below(answered, links, ANSWERED);
}

/* Do nearly all of these words lead to the next one alike, or are null? */
static bool is_chain(const struct class *class)
{
    return class->pointer >= ALIKE && !hx_part_below(class->to_target, class->pointer, NEARLY) &&
           !hx_part_below(class->pointer, (uint64_t) class->pointer + class->value + class->text,
                          NEARLY);
}

/* Plain interior pointers that all lead to one place in blocks alike: links of an intrusive list.
 * Leftovers may do so, too, but not in nearly all of a class. */
static bool is_intrusive(const struct class *class)
{
    uint64_t values = (uint64_t) class->value + class->text;
    return class->interior >= ALIKE && !hx_part_below(class->to_place, class->interior, NEARLY) &&
           !hx_part_below(class->interior, class->pointer, NEARLY) &&
           !hx_part_below(class->pointer, class->pointer + values, NEARLY) &&
           !hx_part_below(class->pointer, class->all, AT_END);
}

/* What is to be said of the words of a class, as far as it does not depend on the word. */
static void settle_class(const struct group *group, const struct field *field, size_t i,
                         struct class *class)
{
    class->rule = judge_kind(group, i, &field[i], class);
    for (size_t k = 0; k < TARGETS; k++)
        class->is_link |= is_telling_target(&field[i], k) &&
                          (is_answered(field[i].target[k].links, field[i].target[k].answered) ||
                           is_answered(class->links, class->answered));
    class->is_chain = class->rule == HX_RULE_NONE && is_chain(class);
    class->is_intrusive = class->rule == HX_RULE_NONE && is_intrusive(class);
}

static void settle_group(struct tables *tables, struct group *group, uint32_t number)
{
    const struct field *field = tables->fields.v + group->first_field;
    for (size_t k = 0; k < tables->variants.n; k++)
        for (size_t i = 0; i < group->n_words; i++) {
            struct class *class =
                &tables->classes.v[tables->class_of.v[tables->variants.v[k].class_of + i]];
            settle_class(group, field, i, class);
            if (class->rule != HX_RULE_NONE || class->is_link || class->is_chain ||
                class->is_intrusive)
                group->judged |= UINT64_C(1) << i;
            group->links |= (uint64_t) class->is_link << i;
            group->own_chains |= (uint64_t)(class->is_chain && class->target == number) << i;
        }
    for (size_t i = 0; i < group->n_words; i++)
        group->judged |= (uint64_t)(is_slack(group, i) && is_idle(&field[i])) << i;
}

/* Blocks of one type end at one place; of others the words before must tell that they are no arrays
 * with leftovers of their own. */
static uint8_t find_gone(const struct fields *fields, const struct group *group, hx_obj member)
{
    const struct hx_graph *graph = fields->graph;
    const struct field *field = fields->tables[group->owner].fields.v + group->first_field;
    uint64_t gone = 0, pointers = 0;
    HX_PEEKED window = {0};
    const uint64_t *word = hx_judge_peek(fields->judge, graph->addr[member], 1, &window);
    if ((graph->type && graph->type[member] != HX_NO_TYPE) ||
        (word && hx_judge_module(fields->judge, *word)))
        return GONE;
    for (size_t i = 0; i + TAIL < group->n_words; i++) {
        gone += field[i].gone;
        pointers += field[i].pointer;
    }
    return gone * 200 <= pointers ? MANY_GONE : 0;
}

static void count_group(void *context, unsigned worker, uint32_t number)
{
    const struct fields *fields = context;
    const struct hx_block_group *of = &fields->groups->group[number];
    struct tables *tables = (struct tables *)&fields->tables[worker];
    const uint64_t words = of->size / HX_WORD;
    if (of->objects < ALIKE || !words)
        return;
    struct group *group = &fields->group[number];
    const size_t n = words < WORDS ? words : WORDS;
    group->first_field = tables->fields.n;
    group->owner = (uint8_t)worker;
    if (!hx_vec_reserve(&tables->fields, tables->fields.n + n) ||
        !hx_vec_reserve(&tables->members, of->samples)) {
        tables->failed = true;
        return;
    }
    memset(tables->members.v, 0, of->samples * sizeof *tables->members.v);
    tables->variants.n = 0;
    memset(tables->fields.v + tables->fields.n, 0, n * sizeof *tables->fields.v);
    tables->fields.n += n;
    group->n_words = (uint8_t)n;
    each_member(fields, tables, number, true, count_words);
    find_mixed(fields, group, tables->fields.v + group->first_field);
    group->gone = find_gone(fields, group, fields->groups->sample[of->first]);
    each_member(fields, tables, number, group->tags || group->has_interior, count_class);
    add_variants(tables, n);
    each_member(fields, tables, number, group->has_interior, count_targets);
    settle_group(tables, group, number);
}

/* May blocks of these groups have been given out for one request? A chunk that is not worth
 * splitting is 16 bytes larger. */
static bool are_near(const struct fields *fields, uint32_t group, uint32_t other)
{
    const uint64_t a = fields->groups->group[group].size, b = fields->groups->group[other].size;
    return a <= b ? b - a <= 16 : a - b <= 16;
}

/* Has a field links to blocks of a group that are answered? */
static bool has_links(const struct fields *fields, uint32_t number, size_t i, uint32_t to)
{
    const struct group *group = &fields->group[number];
    if (i >= group->n_words)
        return false;
    struct field *field = &fields->tables[group->owner].fields.v[group->first_field + i];
    const struct target *target = telling_target(field, to);
    return target && is_answered(target->links, target->answered);
}

/* Lists and chains within a group, and of members of others' whose chunks were not split. */
static void find_lists(struct fields *fields)
{
    for (uint32_t g = 0; g < fields->groups->n; g++) {
        struct group *group = &fields->group[g];
        const struct field *field = fields->tables[group->owner].fields.v + group->first_field;
        for (size_t i = 0; i < group->n_words; i++) {
            bool is_list = has_links(fields, g, i, g), is_chain = group->own_chains >> i & 1;
            for (size_t k = 0; k < TARGETS; k++) {
                const uint32_t other = field[i].target[k].group;
                if (!is_telling_target(&field[i], k) || !are_near(fields, g, other))
                    continue;
                is_list |= has_links(fields, g, i, other) && has_links(fields, other, i, other);
                is_chain |= fields->group[other].own_chains >> i & 1;
            }
            group->lists |= (uint64_t)is_list << i;
            group->chains |= (uint64_t)is_chain << i;
        }
        group->links |= group->lists;
        group->judged |= group->lists | group->chains;
    }
}

static hx_error *find_landings(struct fields *fields)
{
    for (unsigned i = 0; i < fields->judge->threads; i++)
        for (size_t k = 0; k < fields->tables[i].classes.n; k++) {
            const struct class *class = &fields->tables[i].classes.v[k];
            uint32_t *landing;
            if (!is_intrusive(class))
                continue;
            HX_TRY(hx_pairs_at(&fields->landings, class->place, &landing));
            struct group *group = &fields->group[class->place >> 32];
            group->landings += *landing == HX_NO_PAIR && group->landings <= LANDINGS;
            *landing = 1;
        }
    return NULL;
}

/* Blocks in which pointers land at many places are pools: what lies there are pieces, no links. */
static bool is_pool(const struct fields *fields, hx_obj object)
{
    return fields->group[group_of(fields, object)].landings > LANDINGS;
}

static bool is_landing(const struct fields *fields, hx_obj target, uint64_t value)
{
    return !is_pool(fields, target) &&
           hx_pairs_find(&fields->landings, place_of(fields, target, value)) != HX_NO_PAIR;
}

/* From blocks that are alone of their kind, as the heads of such lists are. */
static void judge_landings(struct cursor *cursor, hx_obj object)
{
    const struct fields *fields = cursor->fields;
    const struct hx_graph *graph = fields->graph;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        if (HX_EVIDENCE_KIND(graph->evidence[e]) != HX_EDGE_INTERIOR || target == object)
            continue;
        const uint64_t *word =
            hx_judge_peek(fields->judge, graph->addr[object] + hx_edge_offset(graph->edge[e]), 1,
                          &cursor->window);
        if (word && is_landing(fields, target, *word))
            hx_judge_edge(fields->judge, e, HX_RULE_intrusive);
    }
}

static void judge_root_landings(const struct fields *fields)
{
    struct hx_snapshot *snapshot = fields->judge->snapshot;
    HX_PEEKED window = {0};
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const uint64_t *word = hx_judge_root_word(fields->judge, edge, &window);
        if (edge->kind == HX_EDGE_INTERIOR && word && is_landing(fields, edge->target, *word))
            edge->evidence = HX_EVIDENCE(HX_RULE_intrusive, edge->kind);
    }
}

/* `class`: NULL where too few are alike. */
static enum hx_rule judge_word(const struct fields *fields, hx_obj object, hx_eidx e,
                               const struct words *words, const struct class *class)
{
    const hx_obj target = hx_edge_target(fields->graph->edge[e]);
    const size_t i = word_of(fields, e);
    const uint32_t group = target_group(fields, e);
    const bool own = group == words->number;
    const bool piece = HX_EVIDENCE_RULE(fields->graph->evidence[e]) == HX_RULE_piece;
    struct field *field = &words->field[i];
    if (words->group->links >> i & 1 && target != object && !piece) {
        const struct target *to = telling_target(field, group);
        if (words->group->lists >> i & 1 && are_near(fields, words->number, group) &&
            points_back(fields->graph, target, object))
            return HX_RULE_link;
        if (to && class && class->is_link &&
            (is_answered(to->links, to->answered) || is_answered(class->links, class->answered)))
            return points_back(fields->graph, target, object) ? own ? HX_RULE_link : HX_RULE_NONE
                   : hx_part_below(class->to_nodes, class->pointer, 50) ? HX_RULE_NONE
                                                                        : HX_RULE_unanswered;
    }
    if (class && class->rule != HX_RULE_NONE)
        return class->rule;
    if (words->group->chains >> i & 1 && !piece &&
        (!own || !class || class->is_chain || class->pointer < ALIKE) &&
        are_near(fields, words->number, group))
        return HX_RULE_chain;
    return !class && is_slack(words->group, i) && is_idle(field) ? HX_RULE_slack : HX_RULE_NONE;
}

/* An interior word that nothing is said of, or that is a link: is it one of an intrusive list? */
static enum hx_rule judge_intrusive(const struct fields *fields, hx_obj target, uint64_t value,
                                    const struct class *class, enum hx_rule rule)
{
    if (rule == HX_RULE_link)
        return is_landing(fields, target, value) ? HX_RULE_ring : rule;
    return rule == HX_RULE_NONE && class && class->is_intrusive && !is_pool(fields, target) &&
                   class->place == place_of(fields, target, value)
               ? HX_RULE_intrusive
               : rule;
}

static void judge_object(struct cursor *cursor, hx_obj object, struct words *words)
{
    const struct fields *fields = cursor->fields;
    if (!peek_words(fields, object, &cursor->window, words))
        return;
    find_values(words->group->mixed, words);
    const uint32_t *class_of = classes_of(cursor, words);
    for (hx_eidx e = words->first; e < words->end; e++) {
        size_t i = word_of(fields, e);
        if (!(words->is.pointers & words->group->judged & UINT64_C(1) << i))
            continue;
        const struct class *class =
            class_of ? &fields->tables[words->group->owner].classes.v[class_of[i]] : NULL;
        enum hx_rule rule = judge_word(fields, object, e, words, class);
        if (HX_EVIDENCE_KIND(fields->graph->evidence[e]) == HX_EDGE_INTERIOR &&
            !HX_EVIDENCE_RULE(fields->graph->evidence[e]))
            rule = judge_intrusive(fields, hx_edge_target(fields->graph->edge[e]), words->word[i],
                                   class, rule);
        if (rule != HX_RULE_NONE)
            hx_judge_edge(fields->judge, e, rule);
    }
}

/* Reads ahead what is asked of targets that there is something to say of: of all their group, of
 * those of links where their edges are, then these. */
HX_PREFETCHES void look_ahead(const struct cursor *cursor, hx_obj i, hx_obj to)
{
    const struct fields *fields = cursor->fields;
    const struct hx_graph *graph = fields->graph;
    if (to - i > HX_AHEAD_RANGE) {
        const hx_obj soon = i + HX_AHEAD_RANGE;
        const struct group *group = &fields->group[group_of(fields, soon)];
        for (hx_eidx e = graph->fwd[soon]; group->judged && e < graph->fwd[(size_t)soon + 1]; e++) {
            const size_t word = word_of(fields, e);
            if (word >= WORDS)
                break;
            if (group->judged >> word & 1)
                __builtin_prefetch(&fields->groups->of[hx_edge_target(graph->edge[e])]);
            if (group->links >> word & 1)
                __builtin_prefetch(&graph->fwd[hx_edge_target(graph->edge[e])]);
        }
    }
    if (to - i > HX_AHEAD_EDGES) {
        const hx_obj next = i + HX_AHEAD_EDGES;
        const struct group *group = &fields->group[group_of(fields, next)];
        if (group->judged && group->mixed)
            hx_judge_prefetch(fields->judge, next, &cursor->window);
        for (hx_eidx e = graph->fwd[next]; group->links && e < graph->fwd[(size_t)next + 1]; e++) {
            const size_t word = word_of(fields, e);
            if (word >= WORDS)
                break;
            if (group->links >> word & 1)
                __builtin_prefetch(&graph->edge[graph->fwd[hx_edge_target(graph->edge[e])]]);
        }
    }
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    struct cursor cursor = {.fields = context, .last_variant = HX_NO_PAIR};
    struct words words;
    for (hx_obj i = from; i < to; i++) {
        look_ahead(&cursor, i, to);
        if (cursor.fields->graph->fwd[i] == cursor.fields->graph->fwd[i + 1])
            continue;
        if (!find_words(cursor.fields, i, &words)) {
            if (cursor.fields->landings.n)
                judge_landings(&cursor, i);
        } else if (words.group->judged) {
            find_pointers(cursor.fields, i, &words);
            if (words.is.pointers & words.group->judged)
                judge_object(&cursor, i, &words);
        }
    }
    hx_peeked_deinit(&cursor.window);
}

static hx_error *judge_fields(struct fields *fields)
{
    fields->group = calloc((size_t)fields->groups->n + 1, sizeof *fields->group);
    HX_NEED(fields->group);
    HX_TRY(hx_judge_groups(fields->judge, count_group, fields));
    for (unsigned i = 0; i < fields->judge->threads; i++)
        HX_NEED(!fields->tables[i].failed);
    find_lists(fields);
    HX_TRY(find_landings(fields));
    HX_TRY(hx_judge_objects(fields->judge, judge_block, fields));
    judge_root_landings(fields);
    return NULL;
}

hx_error *hx_judge_fields(const struct hx_judge *judge)
{
    HX_FREE struct fields *fields = calloc(1, sizeof *fields);
    HX_NEED(fields);
    fields->judge = judge;
    fields->graph = judge->graph;
    fields->groups = judge->groups;
    for (size_t i = 0; i < WORDS; i++)
        fields->factor[i] = hx_mix(3, i) | 1;
    hx_error *err = judge_fields(fields);
    for (unsigned i = 0; i < judge->threads; i++) {
        struct tables *tables = &fields->tables[i];
        hx_vec_free(&tables->fields);
        hx_vec_free(&tables->classes);
        hx_vec_free(&tables->class_of);
        hx_vec_free(&tables->members);
        hx_vec_free(&tables->variants);
        hx_pairs_free(&tables->variant_by_key);
        hx_pairs_free(&tables->class_by_key);
    }
    free(fields->group);
    hx_pairs_free(&fields->landings);
    return err;
}
