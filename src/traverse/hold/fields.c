/* fields.c - what fields of alike blocks hold: words that are pointers where the others are not, or
 * that point to what the others do not point to.
 *
 * Blocks of one size (and one type, as far as it is known: a first word that points into a module)
 * are a group. Words that are a pointer in some members and another value in others tell variants
 * apart: a class of a field is those members whose other such words are of the same kind. What a
 * field holds is counted by class.
 */
#include "traverse/hold/judge.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "base/lower_bound.h"
#include "base/pairs.h"
#include "traverse/hold/shapes.h"

#include <stdlib.h>

#define WORDS    64    /* of a block that are looked at as fields */
#define ALIKE    32    /* fewer say nothing */
#define LARGE    4096  /* bytes: looked at as a whole where it is alone */
#define SAMPLE   16384 /* members of a group that are counted */
#define TARGETS  4
#define VARIANTS 4096 /* of a group; members of others are not looked at */
#define TAGS     16   /* values of a field that tells variants apart */
#define SAMPLES  64   /* links of a field that are tried before all are looked at */

/* Percent. */
enum {
    VALUES = 10,   /* pointers below this part of what is not null: a field of other values */
    HARDLY = 3,    /* pointers below this part of all: a field that is hardly ever set */
    AT_END = 25,   /* the same of the last word of a block, which may lie behind the request */
    MOSTLY = 97,   /* values of a field that are small: a tag */
    ANSWERED = 60, /* links that are answered, so that others are the exception */
    ONE_WAY = 80,  /* pointers of a class to one group: a field of a rare variant */
    NEARLY = 90,   /* of the pointers of a class: all lead to one group */
    TELLING = 10   /* pointers of a field to one group: that tells variants apart */
};

enum kind { ZERO, POINTER, VALUE, LETTERS };

/* Of one word of a group: what tells variants apart. */
struct field {
    uint32_t zero, pointer, value, text;
    uint32_t small; /* of the values, those whose lowest byte is below TAGS */
    struct target {
        uint32_t group, count;
        uint32_t links, answered; /* pointers that were tried; those whose targets point back */
    } target[TARGETS];            /* the groups that most pointers lead to (Misra and Gries) */
};

struct group {
    uint32_t objects;
    uint32_t first_field;
    uint16_t n_words;
    uint32_t variants;
};

/* Of a word of a variant: of all members whose other words say the same. */
struct class
{
    uint32_t zero, pointer, value, text;
    uint32_t target; /* the group that most pointers lead to, by Boyer and Moore's vote */
    int32_t votes;
    uint32_t to_target;       /* how many do */
    uint32_t to_nodes;        /* of the pointers, those to blocks that have pointers themselves */
    uint32_t links, answered; /* as in struct target */
    uint32_t interior;        /* plain interior pointers */
    uint64_t place;           /* where most of these lead to: group and offset, by vote */
    int32_t place_votes;
    uint32_t to_place;
};

struct fields {
    const struct hx_judge *judge;
    const struct hx_graph *graph;
    uint32_t *group_of; /* for each object */
    struct hx_big group_of_mem;
    HX_VEC(struct group) groups;
    HX_VEC(struct field) fields;
    HX_VEC(struct class) classes;
    HX_VEC(uint32_t) class_of; /* of a variant: its group, then the class of each word */
    struct hx_pairs group_by_key, variant_by_key, class_by_key, landings;
    uint64_t module_low, module_high;
    bool frozen; /* everything is counted: tables are only read, by several threads */
};

/* Where a worker is. */
struct cursor {
    struct fields *fields;
    size_t span;       /* a hint */
    uint64_t last_key; /* of the variant that was looked up last */
    uint32_t last_variant;
    bool failed;
};

static bool part_below(uint64_t part, uint64_t whole, unsigned percent)
{
    return part * 100 < whole * percent;
}

/* --- groups ------------------------------------------------------------------------------- */

/* Does a word look like the address of something in a file, a vtable say? */
static bool is_module_address(const struct fields *fields, uint64_t value)
{
    if (value - fields->module_low >= fields->module_high - fields->module_low)
        return false;
    const struct hx_snapshot *snapshot = fields->judge->snapshot;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, value);
    return i < snapshot->n_mappings && hx_mapping_is_file(&snapshot->mapping[i]);
}

static void find_modules(struct fields *fields)
{
    const struct hx_snapshot *snapshot = fields->judge->snapshot;
    fields->module_low = UINT64_MAX;
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (!hx_mapping_is_file(mapping))
            continue;
        if (mapping->start < fields->module_low)
            fields->module_low = mapping->start;
        fields->module_high = mapping->end;
    }
    if (fields->module_low > fields->module_high)
        fields->module_low = fields->module_high = 0;
}

static uint64_t group_key(const struct fields *fields, hx_obj object, uint64_t first_word)
{
    const struct hx_graph *graph = fields->graph;
    uint64_t key = hx_mix(1, graph->size[object]);
    if (graph->type && graph->type[object] != HX_NO_TYPE)
        key = hx_mix(key, graph->type[object]);
    if (is_module_address(fields, first_word))
        key = hx_mix(key + 1, first_word);
    return key;
}

static hx_error *find_groups(struct fields *fields)
{
    const struct hx_graph *graph = fields->graph;
    size_t span = 0;
    uint64_t last_key = 0;
    uint32_t last = HX_NO_PAIR;
    HX_TRY(hx_big_array(fields->group_of, graph->n));
    for (hx_obj i = 0; i < graph->n; i++) {
        const uint64_t *word = graph->size[i] < HX_WORD
                                   ? NULL
                                   : hx_judge_peek(fields->judge, graph->addr[i], 1, &span);
        uint64_t key = group_key(fields, i, word ? *word : 0);
        if (last == HX_NO_PAIR || key != last_key) {
            uint32_t *group;
            HX_TRY(hx_pairs_at(&fields->group_by_key, key, &group));
            if (*group == HX_NO_PAIR) {
                uint64_t words = graph->size[i] / HX_WORD;
                struct group new = {.first_field = (uint32_t)fields->fields.n,
                                    .n_words = (uint16_t)(words < WORDS ? words : WORDS)};
                *group = (uint32_t)fields->groups.n;
                HX_NEED(hx_vec_push(&fields->groups, new));
                HX_NEED(hx_vec_reserve(&fields->fields, fields->fields.n + new.n_words));
                memset(fields->fields.v + fields->fields.n, 0,
                       new.n_words * sizeof *fields->fields.v);
                fields->fields.n += new.n_words;
            }
            last_key = key;
            last = *group;
        }
        fields->group_of[i] = last;
        fields->groups.v[last].objects++;
    }
    return NULL;
}

/* --- an object's words -------------------------------------------------------------------- */

struct words {
    struct group *group;
    struct field *field; /* of the first word */
    const uint64_t *word;
    size_t n;
    uint8_t kind[WORDS]; /* enum kind */
    hx_eidx first, end;  /* edges of these words */
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

/* Pointers that other rules have judged count as nothing. False: it is not looked at. */
static bool look_at(struct cursor *cursor, hx_obj object, struct words *ret)
{
    struct fields *fields = cursor->fields;
    const struct hx_graph *graph = fields->graph;
    struct group *group = &fields->groups.v[fields->group_of[object]];
    if (group->objects < ALIKE || !group->n_words)
        return false;
    ret->word = hx_judge_peek(fields->judge, graph->addr[object], group->n_words, &cursor->span);
    if (!ret->word)
        return false;
    ret->group = group;
    ret->field = fields->fields.v + group->first_field;
    ret->n = group->n_words;
    for (size_t i = 0; i < ret->n; i++)
        ret->kind[i] = !ret->word[i] ? ZERO : is_text(ret->word[i]) ? LETTERS : VALUE;
    ret->first = graph->fwd[object];
    for (ret->end = ret->first; ret->end < graph->fwd[object + 1]; ret->end++) {
        uint64_t i = hx_edge_offset(graph->edge[ret->end]) / HX_WORD;
        if (i >= ret->n)
            break;
        ret->kind[i] = HX_EVIDENCE_RULE(graph->evidence[ret->end]) ? ZERO : POINTER;
    }
    return true;
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

/* Which word of the object an edge lies in. */
static inline size_t word_of(const struct fields *fields, hx_eidx e)
{
    return hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
}

static inline uint32_t target_group(const struct fields *fields, hx_eidx e)
{
    return fields->group_of[hx_edge_target(fields->graph->edge[e])];
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
        field->small += words->kind[i] == VALUE && (words->word[i] & 0xff) < TAGS;
    }
    for (hx_eidx e = words->first; e < words->end; e++)
        if (words->kind[word_of(fields, e)] == POINTER)
            vote_target(&words->field[word_of(fields, e)], target_group(fields, e));
}

typedef void object_fn(struct cursor *cursor, hx_obj object, struct words *words);

/* Of large groups a sample is enough: members that do not depend on who looks. */
static bool is_sample(const struct fields *fields, hx_obj object)
{
    uint32_t objects = fields->groups.v[fields->group_of[object]].objects;
    return objects <= SAMPLE || hx_mix(7, object) % objects < SAMPLE;
}

static hx_error *each_sample(struct fields *fields, object_fn *count)
{
    struct cursor cursor = {.fields = fields, .last_variant = HX_NO_PAIR};
    for (hx_obj i = 0; i < fields->graph->n; i++) {
        struct words words;
        if ((i & 0xffff) == 0 && hx_progress_cancelled(fields->judge->progress))
            return hx_error_cancelled("words");
        if (is_sample(fields, i) && look_at(&cursor, i, &words))
            count(&cursor, i, &words);
    }
    return cursor.failed ? hx_error_nomem() : NULL;
}

/* --- variants ----------------------------------------------------------------------------- */

/* Small numbers: a tag, a colour. */
static bool is_tag(const struct field *field)
{
    return field->value >= ALIKE && !field->pointer &&
           (uint64_t)field->small * 100 >= (uint64_t)field->value * MOSTLY;
}

static bool is_telling_target(const struct field *field, size_t i)
{
    return field->target[i].count && !part_below(field->target[i].count, field->pointer, TELLING);
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

/* Sum over the words that tell variants apart, and what each of them adds to it. */
static uint64_t find_variant(const struct fields *fields, const struct words *words,
                             uint64_t mark[WORDS])
{
    uint64_t said[WORDS], sum = 0;
    for (size_t i = 0; i < words->n; i++)
        said[i] = is_tag(&words->field[i]) && words->kind[i] != LETTERS
                      ? LETTERS + 1 + (words->word[i] & 0xff)
                      : words->kind[i];
    for (hx_eidx e = words->first; e < words->end; e++) {
        size_t i = word_of(fields, e);
        if (words->kind[i] == POINTER && telling_target(&words->field[i], target_group(fields, e)))
            said[i] = hx_pair_key(1, target_group(fields, e));
    }
    for (size_t i = 0; i < words->n; i++) {
        mark[i] = is_mixed(&words->field[i]) ? hx_mix(i + 3, said[i] + 1) : 0;
        sum += mark[i];
    }
    return sum;
}

static hx_error *add_class(struct fields *fields, uint64_t key)
{
    uint32_t *class;
    HX_TRY(hx_pairs_at(&fields->class_by_key, key, &class));
    if (*class == HX_NO_PAIR) {
        *class = (uint32_t)fields->classes.n;
        HX_NEED(hx_vec_push(&fields->classes, ((struct class){0})));
    }
    HX_NEED(hx_vec_push(&fields->class_of, *class));
    return NULL;
}

#define TOO_MANY (HX_NO_PAIR - 1)

static hx_error *add_variant(struct fields *fields, const struct words *words, uint64_t key,
                             const uint64_t mark[WORDS], uint64_t variant, uint32_t *ret)
{
    uint64_t group = (uint64_t)(words->group - fields->groups.v);
    uint32_t *first;
    HX_TRY(hx_pairs_at(&fields->variant_by_key, key, &first));
    if (*first == HX_NO_PAIR && words->group->variants < VARIANTS) {
        words->group->variants++;
        *first = (uint32_t)fields->class_of.n;
        HX_NEED(hx_vec_push(&fields->class_of, (uint32_t)group));
        for (size_t i = 0; i < words->n; i++)
            HX_TRY(add_class(fields, hx_mix(hx_mix(group, i), variant - mark[i])));
    } else if (*first == HX_NO_PAIR) {
        *first = TOO_MANY;
    }
    *ret = *first;
    return NULL;
}

/* The class of the first of the words; NULL: it is not looked at. */
static const uint32_t *classes_of(struct cursor *cursor, const struct words *words)
{
    struct fields *fields = cursor->fields;
    uint64_t mark[WORDS], variant = find_variant(fields, words, mark);
    uint64_t key = hx_mix((uint64_t)(words->group - fields->groups.v) + 1, variant);
    if (cursor->last_variant == HX_NO_PAIR || key != cursor->last_key) {
        cursor->last_key = key;
        hx_error *err = NULL;
        if (fields->frozen)
            cursor->last_variant = hx_pairs_find(&fields->variant_by_key, key);
        else
            err = add_variant(fields, words, key, mark, variant, &cursor->last_variant);
        cursor->failed |= err != NULL;
        hx_error_free(err);
        if (err)
            cursor->last_variant = HX_NO_PAIR;
    }
    if (cursor->last_variant >= TOO_MANY)
        return NULL;
    const uint32_t *row = fields->class_of.v + cursor->last_variant;
    return row[0] == (uint32_t)(words->group - fields->groups.v) ? row + 1 : NULL;
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

static uint64_t place_of(const struct fields *fields, hx_eidx e, uint64_t value)
{
    hx_obj target = hx_edge_target(fields->graph->edge[e]);
    return hx_pair_key(fields->group_of[target], (uint32_t)(value - fields->graph->addr[target]));
}

static void count_class(struct cursor *cursor, hx_obj object, struct words *words)
{
    struct fields *fields = cursor->fields;
    (void)object;
    const uint32_t *class_of = classes_of(cursor, words);
    for (size_t i = 0; class_of && i < words->n; i++) {
        struct class *class = &fields->classes.v[class_of[i]];
        class->zero += words->kind[i] == ZERO;
        class->pointer += words->kind[i] == POINTER;
        class->value += words->kind[i] == VALUE;
        class->text += words->kind[i] == LETTERS;
    }
    for (hx_eidx e = words->first; class_of && e < words->end; e++) {
        size_t i = word_of(fields, e);
        struct class *class = &fields->classes.v[class_of[i]];
        if (words->kind[i] != POINTER)
            continue;
        if (class->votes == 0)
            class->target = target_group(fields, e);
        class->votes += class->target == target_group(fields, e) ? 1 : -1;
        if (hx_edge_kind_of(fields->graph->edge[e]) == HX_EDGE_INTERIOR) {
            uint64_t place = place_of(fields, e, words->word[i]);
            class->interior++;
            if (class->place_votes == 0)
                class->place = place;
            class->place_votes += class->place == place ? 1 : -1;
        }
    }
}

/* The candidates of the votes, counted. */
static void count_targets(struct cursor *cursor, hx_obj object, struct words *words)
{
    struct fields *fields = cursor->fields;
    const uint32_t *class_of = classes_of(cursor, words);
    for (hx_eidx e = words->first; class_of && e < words->end; e++) {
        hx_obj target = hx_edge_target(fields->graph->edge[e]);
        size_t i = word_of(fields, e);
        struct class *class = &fields->classes.v[class_of[i]];
        if (words->kind[i] != POINTER)
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
        if (hx_edge_kind_of(fields->graph->edge[e]) == HX_EDGE_INTERIOR)
            class->to_place += class->place == place_of(fields, e, words->word[i]);
    }
}

/* --- judging ------------------------------------------------------------------------------ */

static bool is_slack(const struct words *words, size_t i)
{
    return i + 1 == words->n && words->n < WORDS && words->n % 2 == 1;
}

/* Is a word that may lie behind the request no pointer in most of the group? */
static bool is_idle(const struct field *field)
{
    uint64_t all = (uint64_t)field->zero + field->pointer + field->value + field->text;
    return part_below(field->pointer, all, AT_END);
}

/* By what the words of the class are; of the group where the class is small. */
static enum hx_rule judge_kind(const struct field *field, const struct class *class, bool first,
                               bool slack)
{
    /* what begins with text is text, and no struct like those that begin with a pointer */
    uint64_t values = (uint64_t) class->value + (first ? 0 : class->text);
    uint64_t all = class->zero + class->pointer + values;
    if (all < ALIKE)
        return slack && is_idle(field) ? HX_RULE_slack : HX_RULE_NONE;
    if (slack && part_below(class->pointer, all, AT_END))
        return HX_RULE_slack;
    /* the first word is always written */
    if (!first && part_below(class->pointer, class->pointer + values, VALUES))
        return class->pointer >= ALIKE &&
                       (uint64_t) class->votes * 100 >= (uint64_t) class->pointer * ONE_WAY
                   ? HX_RULE_few
                   : HX_RULE_field;
    return part_below(class->pointer, all, HARDLY) ? HX_RULE_few : HX_RULE_NONE;
}

static bool is_answered(uint32_t links, uint32_t answered)
{
    return links >= ALIKE && !part_below(answered, links, ANSWERED);
}

/* Do nearly all of these words lead to the next one alike, or are null? */
static bool is_chain(const struct class *class)
{
    return class->pointer >= ALIKE && !part_below(class->to_target, class->pointer, NEARLY) &&
           !part_below(class->pointer, (uint64_t) class->pointer + class->value + class->text,
                       NEARLY);
}

/* Plain interior pointers that all lead to one place in blocks alike: links of an intrusive list.
 * Leftovers may do so, too, but not in nearly all of a class. */
static bool is_intrusive(const struct class *class)
{
    uint64_t values = (uint64_t) class->value + class->text;
    uint64_t all = class->zero + class->pointer + values;
    return class->interior >= ALIKE && !part_below(class->to_place, class->interior, NEARLY) &&
           !part_below(class->interior, class->pointer, NEARLY) &&
           !part_below(class->pointer, class->pointer + values, NEARLY) &&
           !part_below(class->pointer, all, AT_END);
}

static hx_error *find_landings(struct fields *fields)
{
    for (size_t i = 0; i < fields->classes.n; i++) {
        uint32_t *landing;
        if (!is_intrusive(&fields->classes.v[i]))
            continue;
        HX_TRY(hx_pairs_at(&fields->landings, fields->classes.v[i].place, &landing));
        *landing = 1;
    }
    return NULL;
}

static bool is_landing(const struct fields *fields, hx_obj target, uint64_t value)
{
    uint64_t place =
        hx_pair_key(fields->group_of[target], (uint32_t)(value - fields->graph->addr[target]));
    return hx_pairs_find(&fields->landings, place) != HX_NO_PAIR;
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

static enum hx_rule judge_word(const struct fields *fields, hx_obj object, hx_eidx e,
                               struct field *field, const struct class *class, bool slack)
{
    hx_obj target = hx_edge_target(fields->graph->edge[e]);
    bool usual = target_group(fields, e) == class->target;
    bool own = target_group(fields, e) == fields->group_of[object];
    const struct target *to = telling_target(field, target_group(fields, e));
    if (to && target != object &&
        (is_answered(to->links, to->answered) || is_answered(class->links, class->answered)))
        return points_back(fields->graph, target, object)        ? own ? HX_RULE_link : HX_RULE_NONE
               : part_below(class->to_nodes, class->pointer, 50) ? HX_RULE_NONE
                                                                 : HX_RULE_unanswered;
    enum hx_rule rule = judge_kind(field, class, word_of(fields, e) == 0, slack);
    if (rule == HX_RULE_NONE && own && usual && is_chain(class))
        rule = HX_RULE_chain;
    return rule;
}

static void judge_object(struct cursor *cursor, hx_obj object, struct words *words)
{
    struct fields *fields = cursor->fields;
    const uint32_t *class_of = classes_of(cursor, words);
    for (hx_eidx e = words->first; class_of && e < words->end; e++) {
        size_t i = word_of(fields, e);
        if (words->kind[i] != POINTER)
            continue;
        const struct class *class = &fields->classes.v[class_of[i]];
        enum hx_rule rule =
            judge_word(fields, object, e, &words->field[i], class, is_slack(words, i));
        if (rule == HX_RULE_NONE &&
            HX_EVIDENCE_KIND(fields->graph->evidence[e]) == HX_EDGE_INTERIOR &&
            is_intrusive(class) && class->place == place_of(fields, e, words->word[i]))
            rule = HX_RULE_intrusive;
        if (rule != HX_RULE_NONE)
            hx_judge_edge(fields->judge, e, rule);
    }
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    struct cursor cursor = {.fields = context, .last_variant = HX_NO_PAIR};
    struct words words;
    for (hx_obj i = from; i < to; i++) {
        if (cursor.fields->graph->fwd[i] == cursor.fields->graph->fwd[i + 1])
            continue;
        if (look_at(&cursor, i, &words))
            judge_object(&cursor, i, &words);
        else if (cursor.fields->landings.n)
            judge_landings(&cursor, i);
    }
}

static hx_error *judge_fields(struct fields *fields)
{
    find_modules(fields);
    HX_TRY(find_groups(fields));
    HX_TRY(each_sample(fields, count_words));
    HX_TRY(each_sample(fields, count_class));
    HX_TRY(each_sample(fields, count_targets));
    HX_TRY(find_landings(fields));
    fields->frozen = true;
    HX_TRY(hx_judge_objects(fields->judge, judge_block, fields));
    judge_root_landings(fields);
    return hx_shapes_make(fields->judge, fields->group_of, (uint32_t)fields->groups.n);
}

hx_error *hx_judge_fields(const struct hx_judge *judge)
{
    struct fields fields = {.judge = judge, .graph = judge->graph};
    hx_error *err = judge_fields(&fields);
    hx_big_free(&fields.group_of_mem);
    hx_vec_free(&fields.groups);
    hx_vec_free(&fields.fields);
    hx_vec_free(&fields.classes);
    hx_vec_free(&fields.class_of);
    hx_pairs_free(&fields.variant_by_key);
    hx_pairs_free(&fields.group_by_key);
    hx_pairs_free(&fields.class_by_key);
    hx_pairs_free(&fields.landings);
    return err;
}
