/* fields.c - what fields of alike blocks hold: words that are pointers where the others are not, or
 * that point to what the others do not point to.
 *
 * Words that are a pointer in some members of a group and another value in others tell variants
 * apart: a class of a field is those members whose other such words are of the same kind. What a
 * field holds is counted by class, in a sample of the group; what is to be said of the words of a
 * class is decided once.
 */
#include "traverse/hold/word_table.h"

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

enum kind { ZERO, POINTER, VALUE, LETTERS };

enum { AHEAD_RANGE = 16, AHEAD_EDGES = 8 }; /* objects */

/* Of one word of a group: what tells variants apart. */
struct field {
    uint32_t zero, pointer, value, text;
    uint32_t gone;  /* of the values, pointers to what was freed */
    uint32_t small; /* of the values, those whose lowest byte is below TAGS */
    struct target {
        uint32_t group, count;
        uint32_t links, answered; /* pointers that were tried; those whose targets point back */
    } target[TARGETS];            /* the groups that most pointers lead to (Misra and Gries) */
};

/* Of a word of a variant: of all members whose other words say the same. */
struct class
{
    uint32_t zero, pointer, value, text;
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
    uint8_t n_words; /* 0: it is not looked at */
    uint8_t owner;   /* the worker whose tables have its fields and classes */
    uint8_t gone;    /* percent, of the last words' pointers in the whole group: leftovers */
    uint32_t variants;
    uint64_t mixed, tags;        /* bits for words: they tell variants apart, by their value */
    uint64_t judged;             /* of some class there is something to say */
    uint64_t links;              /* of some class targets are asked whether they point back */
    uint64_t lists;              /* links between blocks alike, which are answered */
    uint64_t own_chains, chains; /* links to the next one alike; of a kin, too */
};

/* What one worker found about its groups. */
struct tables {
    HX_VEC(struct field) fields;
    HX_VEC(struct class) classes;
    HX_VEC(uint32_t) class_of; /* of a variant: its group, then the class of each word */
    struct hx_pairs variant_by_key, class_by_key;
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
    struct tables *tables; /* to add to; NULL: everything is counted */
    size_t span;           /* a hint */
    uint64_t last_key;     /* of the variant that was looked up last */
    uint32_t last_variant;
};

static inline uint32_t group_of(const struct fields *fields, hx_obj object)
{
    return fields->groups->of[object];
}

/* --- an object's words -------------------------------------------------------------------- */

struct words {
    uint32_t number; /* of the group */
    const struct group *group;
    struct field *field; /* of the first word */
    const uint64_t *word;
    size_t n;
    uint64_t pointers, cleared; /* bits for words: edges; those that other rules have judged */
    uint8_t kind[WORDS];        /* enum kind; of words that are no pointers where it was asked */
    hx_eidx first, end;         /* edges of these words */
};

static bool is_text(uint64_t word)
{
    unsigned printable = 0;
    for (; word; word >>= 8) {
        unsigned byte = word & 0xff;
        if (byte < 0x20 && byte != '\n' && byte != '\t')
            return false;
        printable++;
    }
    return printable >= 2;
}

/* Which word of the object an edge lies in. */
static inline size_t word_of(const struct fields *fields, hx_eidx e)
{
    return hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
}

/* Pointers that other rules have judged count as nothing. False: it is not looked at. */
static bool find_pointers(const struct fields *fields, hx_obj object, struct words *ret)
{
    const struct hx_graph *graph = fields->graph;
    ret->number = group_of(fields, object);
    ret->group = &fields->group[ret->number];
    ret->n = ret->group->n_words;
    if (!ret->n)
        return false;
    ret->field = fields->tables[ret->group->owner].fields.v + ret->group->first_field;
    ret->pointers = ret->cleared = 0;
    ret->first = graph->fwd[object];
    for (ret->end = ret->first; ret->end < graph->fwd[object + 1]; ret->end++) {
        size_t i = word_of(fields, ret->end);
        if (i >= ret->n)
            break;
        const unsigned rule = HX_EVIDENCE_RULE(graph->evidence[ret->end]);
        *(rule && rule != HX_RULE_piece ? &ret->cleared : &ret->pointers) |= UINT64_C(1) << i;
    }
    return true;
}

/* What the words are that `wanted` has bits for; false: the image lacks them. */
static bool find_kinds(struct cursor *cursor, hx_obj object, uint64_t wanted, struct words *words)
{
    const struct fields *fields = cursor->fields;
    words->word =
        hx_judge_peek(fields->judge, fields->graph->addr[object], words->n, &cursor->span);
    if (!words->word)
        return false;
    for (uint64_t left = wanted; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left);
        const uint64_t word = words->word[i];
        words->kind[i] = words->pointers >> i & 1           ? POINTER
                         : !word || words->cleared >> i & 1 ? ZERO
                         : is_text(word)                    ? LETTERS
                                                            : VALUE;
    }
    return true;
}

static uint64_t all_words(const struct words *words)
{
    return UINT64_MAX >> (WORDS - words->n);
}

typedef void object_fn(struct cursor *cursor, hx_obj object, struct words *words);

static void each_sample(struct cursor *cursor, uint32_t number, uint32_t step, object_fn *count)
{
    const struct fields *fields = cursor->fields;
    const struct hx_block_group *group = &fields->groups->group[number];
    cursor->last_variant = HX_NO_PAIR;
    const hx_obj *sample = fields->groups->sample + group->first;
    for (uint32_t i = 0; i < group->samples; i += step) {
        struct words words;
        const hx_obj object = sample[i];
        if (group->samples - i > AHEAD_RANGE) {
            __builtin_prefetch(&fields->graph->fwd[sample[i + AHEAD_RANGE]]);
            __builtin_prefetch(&fields->graph->addr[sample[i + AHEAD_RANGE]]);
        }
        if (group->samples - i > AHEAD_EDGES) {
            __builtin_prefetch(&fields->graph->edge[fields->graph->fwd[sample[i + AHEAD_EDGES]]]);
            hx_judge_prefetch(fields->judge, sample[i + AHEAD_EDGES], cursor->span);
        }
        if (find_pointers(fields, object, &words) &&
            find_kinds(cursor, object, all_words(&words), &words))
            count(cursor, object, &words);
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

static void count_words(struct cursor *cursor, hx_obj object, struct words *words)
{
    const struct fields *fields = cursor->fields;
    (void)object;
    for (size_t i = 0; i < words->n; i++) {
        struct field *field = &words->field[i];
        field->zero += words->kind[i] == ZERO;
        field->pointer += words->kind[i] == POINTER;
        field->value += words->kind[i] == VALUE;
        field->text += words->kind[i] == LETTERS;
        field->gone += words->kind[i] == VALUE && hx_is_gone(fields->graph, words->word[i]);
        field->small += words->kind[i] == VALUE && (words->word[i] & 0xff) < TAGS;
    }
    for (hx_eidx e = words->first; e < words->end; e++)
        if (words->pointers >> word_of(fields, e) & 1)
            vote_target(&words->field[word_of(fields, e)], target_group(fields, e));
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

static void find_mixed(struct group *group, const struct field *field)
{
    for (size_t i = 0; i < group->n_words; i++) {
        group->tags |= (uint64_t)is_tag(&field[i]) << i;
        group->mixed |= (uint64_t)is_mixed(&field[i]) << i;
    }
}

/* Sum over the words that tell variants apart, and what each of them adds to it. */
static uint64_t find_variant(const struct fields *fields, const struct words *words,
                             uint64_t mark[WORDS])
{
    uint64_t said[WORDS], sum = 0;
    for (uint64_t left = words->group->mixed; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left);
        said[i] = words->group->tags >> i & 1 && words->kind[i] != LETTERS
                      ? LETTERS + 1 + (words->word[i] & 0xff)
                      : words->kind[i];
    }
    for (hx_eidx e = words->first; e < words->end; e++) {
        size_t i = word_of(fields, e);
        if (words->group->mixed & words->pointers & UINT64_C(1) << i &&
            telling_target(&words->field[i], target_group(fields, e)))
            said[i] = hx_pair_key(1, target_group(fields, e));
    }
    for (uint64_t left = words->group->mixed; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(left);
        mark[i] = (said[i] + 1) * fields->factor[i];
        sum += mark[i];
    }
    return sum;
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

#define TOO_MANY (HX_NO_PAIR - 1)

static hx_error *add_variant(struct cursor *cursor, const struct words *words, uint64_t key,
                             const uint64_t mark[WORDS], uint64_t variant, uint32_t *ret)
{
    struct tables *tables = cursor->tables;
    struct group *group = &cursor->fields->group[words->number];
    uint32_t *first;
    HX_TRY(hx_pairs_at(&tables->variant_by_key, key, &first));
    if (*first == HX_NO_PAIR && group->variants < VARIANTS) {
        group->variants++;
        *first = (uint32_t)tables->class_of.n;
        HX_NEED(hx_vec_push(&tables->class_of, words->number));
        for (size_t i = 0; i < words->n; i++)
            HX_TRY(add_class(tables, hx_mix(hx_mix(words->number, i),
                                            variant - (group->mixed >> i & 1 ? mark[i] : 0))));
    } else if (*first == HX_NO_PAIR) {
        *first = TOO_MANY;
    }
    *ret = *first;
    return NULL;
}

/* The class of the first of the words; NULL: it is not looked at. */
static const uint32_t *classes_of(struct cursor *cursor, const struct words *words)
{
    const struct tables *tables = &cursor->fields->tables[words->group->owner];
    uint64_t mark[WORDS], variant = find_variant(cursor->fields, words, mark);
    uint64_t key = hx_mix((uint64_t)words->number + 1, variant);
    if (cursor->last_variant == HX_NO_PAIR || key != cursor->last_key) {
        cursor->last_key = key;
        hx_error *err = NULL;
        if (!cursor->tables)
            cursor->last_variant = hx_pairs_find(&tables->variant_by_key, key);
        else
            err = add_variant(cursor, words, key, mark, variant, &cursor->last_variant);
        if (err) {
            cursor->tables->failed = true;
            cursor->last_variant = HX_NO_PAIR;
            hx_error_free(err);
        }
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

static bool is_tail(const struct group *group, size_t i)
{
    return i && i + TAIL >= group->n_words && group->n_words < WORDS;
}

static void count_class(struct cursor *cursor, hx_obj object, struct words *words)
{
    const struct fields *fields = cursor->fields;
    (void)object;
    const uint32_t *class_of = classes_of(cursor, words);
    struct class *classes = cursor->tables->classes.v;
    for (size_t i = 0; class_of && i < words->n; i++) {
        struct class *class = &classes[class_of[i]];
        class->zero += words->kind[i] == ZERO;
        class->pointer += words->kind[i] == POINTER;
        class->value += words->kind[i] == VALUE;
        class->text += words->kind[i] == LETTERS;
        class->gone += words->kind[i] == VALUE && is_tail(words->group, i) &&
                       hx_is_gone(fields->graph, words->word[i]);
    }
    for (hx_eidx e = words->first; class_of && e < words->end; e++) {
        size_t i = word_of(fields, e);
        struct class *class = &classes[class_of[i]];
        hx_edge edge = fields->graph->edge[e];
        if (!(words->pointers >> i & 1))
            continue;
        HX_VOTE(class->target, class->votes, target_group(fields, e));
        if (hx_edge_kind_of(edge) == HX_EDGE_INTERIOR) {
            class->interior++;
            HX_VOTE(class->place, class->place_votes,
                    place_of(fields, hx_edge_target(edge), words->word[i]));
        }
    }
}

/* The candidates of the votes, counted. */
static void count_targets(struct cursor *cursor, hx_obj object, struct words *words)
{
    const struct fields *fields = cursor->fields;
    const uint32_t *class_of = classes_of(cursor, words);
    for (hx_eidx e = words->first; class_of && e < words->end; e++) {
        hx_edge edge = fields->graph->edge[e];
        hx_obj target = hx_edge_target(edge);
        size_t i = word_of(fields, e);
        struct class *class = &cursor->tables->classes.v[class_of[i]];
        if (!(words->pointers >> i & 1))
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
    uint64_t all = (uint64_t)field->zero + field->pointer + field->value + field->text;
    return hx_part_below(field->pointer, all, AT_END);
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
    uint64_t all = class->zero + class->pointer + values;
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
    uint64_t all = class->zero + class->pointer + values;
    return class->interior >= ALIKE && !hx_part_below(class->to_place, class->interior, NEARLY) &&
           !hx_part_below(class->interior, class->pointer, NEARLY) &&
           !hx_part_below(class->pointer, class->pointer + values, NEARLY) &&
           !hx_part_below(class->pointer, all, AT_END);
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

/* Variants from class_of.v[first] on. */
static void settle_group(struct tables *tables, struct group *group, uint32_t number, size_t first)
{
    const struct field *field = tables->fields.v + group->first_field;
    for (size_t at = first; at < tables->class_of.n; at += 1 + (size_t)group->n_words)
        for (size_t i = 0; i < group->n_words; i++) {
            struct class *class = &tables->classes.v[tables->class_of.v[at + 1 + i]];
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
    size_t span = 0;
    const uint64_t *word = hx_judge_peek(fields->judge, graph->addr[member], 1, &span);
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
    struct cursor cursor = {.fields = fields, .tables = tables};
    const uint64_t words = of->size / HX_WORD;
    if (of->objects < ALIKE || !words)
        return;
    struct group *group = &fields->group[number];
    const size_t n = words < WORDS ? words : WORDS, first = tables->class_of.n;
    group->first_field = tables->fields.n;
    group->owner = (uint8_t)worker;
    if (!hx_vec_reserve(&tables->fields, tables->fields.n + n)) {
        tables->failed = true;
        return;
    }
    memset(tables->fields.v + tables->fields.n, 0, n * sizeof *tables->fields.v);
    tables->fields.n += n;
    group->n_words = (uint8_t)n;
    each_sample(&cursor, number, hx_sample_step(of), count_words);
    find_mixed(group, tables->fields.v + group->first_field);
    group->gone = find_gone(fields, group, fields->groups->sample[of->first]);
    each_sample(&cursor, number, 1, count_class);
    each_sample(&cursor, number, 1, count_targets);
    settle_group(tables, group, number, first);
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
            *landing = 1;
        }
    return NULL;
}

static bool is_landing(const struct fields *fields, hx_obj target, uint64_t value)
{
    return hx_pairs_find(&fields->landings, place_of(fields, target, value)) != HX_NO_PAIR;
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
        const uint64_t *word = hx_judge_peek(
            fields->judge, graph->addr[object] + hx_edge_offset(graph->edge[e]), 1, &cursor->span);
        if (word && is_landing(fields, target, *word))
            hx_judge_edge(fields->judge, e, HX_RULE_intrusive);
    }
}

static void judge_root_landings(const struct fields *fields)
{
    struct hx_snapshot *snapshot = fields->judge->snapshot;
    size_t span = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        const uint64_t *word = root->kind == HX_ROOT_REGISTER
                                   ? &root->value
                                   : hx_judge_peek(fields->judge, edge->address, 1, &span);
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

static void judge_object(struct cursor *cursor, hx_obj object, struct words *words)
{
    const struct fields *fields = cursor->fields;
    if (!find_kinds(cursor, object, words->group->mixed, words))
        return;
    const uint32_t *class_of = classes_of(cursor, words);
    for (hx_eidx e = words->first; e < words->end; e++) {
        size_t i = word_of(fields, e);
        if (!(words->pointers & words->group->judged & UINT64_C(1) << i))
            continue;
        const struct class *class =
            class_of ? &fields->tables[words->group->owner].classes.v[class_of[i]] : NULL;
        enum hx_rule rule = judge_word(fields, object, e, words, class);
        if (rule == HX_RULE_NONE && class && class->is_intrusive &&
            !HX_EVIDENCE_RULE(fields->graph->evidence[e]) &&
            HX_EVIDENCE_KIND(fields->graph->evidence[e]) == HX_EDGE_INTERIOR &&
            class->place ==
                place_of(fields, hx_edge_target(fields->graph->edge[e]), words->word[i]))
            rule = HX_RULE_intrusive;
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
    if (to - i > AHEAD_RANGE) {
        const hx_obj soon = i + AHEAD_RANGE;
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
    if (to - i > AHEAD_EDGES) {
        const hx_obj next = i + AHEAD_EDGES;
        const struct group *group = &fields->group[group_of(fields, next)];
        if (group->judged && group->mixed)
            hx_judge_prefetch(fields->judge, next, cursor->span);
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
        const struct group *group = &cursor.fields->group[group_of(cursor.fields, i)];
        look_ahead(&cursor, i, to);
        if ((group->n_words && !group->judged) ||
            cursor.fields->graph->fwd[i] == cursor.fields->graph->fwd[i + 1])
            continue;
        if (!find_pointers(cursor.fields, i, &words)) {
            if (cursor.fields->landings.n)
                judge_landings(&cursor, i);
        } else if (words.pointers & words.group->judged) {
            judge_object(&cursor, i, &words);
        }
    }
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
        hx_pairs_free(&tables->variant_by_key);
        hx_pairs_free(&tables->class_by_key);
    }
    free(fields->group);
    hx_pairs_free(&fields->landings);
    return err;
}
