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

#include <stdlib.h>

#define WORDS   64   /* of a block that are looked at as fields */
#define ALIKE   32   /* fewer say nothing */
#define LARGE   4096 /* bytes: looked at as a whole where it is alone */
#define TAGS    16   /* values of a field that tells variants apart */
#define SAMPLES 64   /* links of a field that are tried before all are looked at */

/* Percent. */
enum {
    VALUES = 10,   /* pointers below this part of what is not null: a field of other values */
    HARDLY = 3,    /* pointers below this part of all: a field that is hardly ever set */
    AT_END = 25,   /* the same of the last word of a block, which may lie behind the request */
    MOSTLY = 97,   /* pointers to one group, so that the others are the exception */
    ANSWERED = 60, /* links that are answered, so that others are the exception */
    ONE_WAY = 80   /* pointers of a class to one group: a field of a rare variant */
};

enum kind { ZERO, POINTER, VALUE, LETTERS };

/* Of one word of a group. */
struct field {
    uint32_t zero, pointer, value, text;
    uint32_t small;    /* of the values, those whose lowest byte is below TAGS */
    uint32_t interior; /* of the pointers, plain interior ones */
    uint32_t target;   /* the group that most pointers lead to, by Boyer and Moore's vote */
    int32_t votes;
    uint32_t to_target; /* how many do */
    uint64_t place;     /* in the target, by the same vote, for interior ones */
    int32_t place_votes;
    uint32_t to_place;
    uint32_t links, answered; /* pointers to `target`; those whose targets point back */
};

struct group {
    uint32_t objects;
    uint32_t first_field;
    uint16_t n_words;
    bool suspicious; /* some field of it has to be looked at by class */
};

/* Of a field of a class. */
struct class
{
    uint32_t zero, pointer, value, text;
    uint32_t target; /* by vote */
    int32_t votes;
};

struct fields {
    const struct hx_judge *judge;
    const struct hx_graph *graph;
    uint32_t *group_of; /* for each object */
    struct hx_big group_of_mem;
    HX_VEC(struct group) groups;
    HX_VEC(struct field) fields;
    HX_VEC(struct class) classes;
    struct hx_pairs group_by_key, class_by_key, landings;
    uint64_t module_low, module_high;
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
    return i < snapshot->n_mappings && snapshot->mapping[i].inode;
}

static void find_modules(struct fields *fields)
{
    const struct hx_snapshot *snapshot = fields->judge->snapshot;
    fields->module_low = UINT64_MAX;
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (!mapping->inode)
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
    uint64_t key = hx_hash(1, graph->size[object]);
    if (graph->type && graph->type[object] != HX_NO_TYPE)
        key = hx_hash(key, graph->type[object]);
    if (is_module_address(fields, first_word))
        key = hx_hash(key + 1, first_word);
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
static bool look_at(struct fields *fields, hx_obj object, size_t *span, struct words *ret)
{
    const struct hx_graph *graph = fields->graph;
    struct group *group = &fields->groups.v[fields->group_of[object]];
    if (group->objects < ALIKE || !group->n_words)
        return false;
    ret->word = hx_judge_peek(fields->judge, graph->addr[object], group->n_words, span);
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

static void vote(uint32_t *candidate, int32_t *votes, uint32_t value)
{
    if (*votes == 0)
        *candidate = value;
    *votes += *candidate == value ? 1 : -1;
}

static void count_pointer(const struct fields *fields, hx_eidx e, struct field *field,
                          uint64_t value)
{
    hx_obj target = hx_edge_target(fields->graph->edge[e]);
    uint32_t group = fields->group_of[target];
    vote(&field->target, &field->votes, group);
    if (hx_edge_kind_of(fields->graph->edge[e]) == HX_EDGE_INTERIOR) {
        uint64_t place = hx_pair_key(group, (uint32_t)(value - fields->graph->addr[target]));
        field->interior++;
        if (field->place_votes == 0)
            field->place = place;
        field->place_votes += field->place == place ? 1 : -1;
    }
}

static void count_words(struct fields *fields, hx_obj object, struct words *words)
{
    (void)object;
    for (size_t i = 0; i < words->n; i++) {
        struct field *field = &words->field[i];
        field->zero += words->kind[i] == ZERO;
        field->pointer += words->kind[i] == POINTER;
        field->value += words->kind[i] == VALUE;
        field->text += words->kind[i] == LETTERS;
        field->small += words->kind[i] == VALUE && (words->word[i] & 0xff) < TAGS;
    }
    for (hx_eidx e = words->first; e < words->end; e++) {
        uint64_t i = hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
        if (words->kind[i] == POINTER)
            count_pointer(fields, e, &words->field[i], words->word[i]);
    }
}

/* The candidates of the votes, counted. */
static void count_targets(struct fields *fields, hx_obj object, struct words *words)
{
    for (hx_eidx e = words->first; e < words->end; e++) {
        hx_obj target = hx_edge_target(fields->graph->edge[e]);
        uint64_t i = hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
        struct field *field = &words->field[i];
        if (words->kind[i] != POINTER)
            continue;
        uint32_t group = fields->group_of[target];
        field->to_target += group == field->target;
        if (group == field->target && target != object &&
            (field->links < SAMPLES || field->answered * 2 >= field->links)) {
            field->links++;
            field->answered += points_back(fields->graph, target, object);
        }
        if (hx_edge_kind_of(fields->graph->edge[e]) == HX_EDGE_INTERIOR)
            field->to_place +=
                field->place ==
                hx_pair_key(group, (uint32_t)(words->word[i] - fields->graph->addr[target]));
    }
}

typedef void object_fn(struct fields *fields, hx_obj object, struct words *words);

static hx_error *each_object(struct fields *fields, object_fn *look)
{
    size_t span = 0;
    for (hx_obj i = 0; i < fields->graph->n; i++) {
        struct words words;
        if ((i & 0xffff) == 0 && hx_progress_cancelled(fields->judge->progress))
            return hx_error_cancelled("words");
        if (look_at(fields, i, &span, &words))
            look(fields, i, &words);
    }
    return fields->failed ? hx_error_nomem() : NULL;
}

/* --- classes ------------------------------------------------------------------------------ */

/* Small numbers: a tag, a colour. */
static bool is_tag(const struct field *field)
{
    return field->value >= ALIKE && !field->pointer &&
           (uint64_t)field->small * 100 >= (uint64_t)field->value * MOSTLY;
}

/* Does this word tell variants apart? */
static bool is_mixed(const struct field *field)
{
    return (field->pointer && (field->value || field->text)) || (field->value && field->text) ||
           is_tag(field);
}

/* What a word says of the variant. One that is null: as most of the others of its group. */
static uint64_t resolved(const struct field *field, uint8_t kind, uint64_t word)
{
    if (is_tag(field) && kind != LETTERS)
        return LETTERS + 1 + (word & 0xff);
    if (kind != ZERO)
        return kind;
    return field->pointer >= (uint64_t)field->value + field->text ? POINTER : VALUE;
}

static uint64_t word_mark(const struct words *words, size_t i)
{
    return hx_hash(i + 3, resolved(&words->field[i], words->kind[i], words->word[i]) + 1);
}

/* Sum over the words that tell variants apart. */
static uint64_t variant_of(const struct words *words)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < words->n; i++)
        if (is_mixed(&words->field[i]))
            sum += word_mark(words, i);
    return sum;
}

static uint64_t class_key(const struct fields *fields, const struct words *words, uint64_t variant,
                          size_t i)
{
    if (is_mixed(&words->field[i]))
        variant -= word_mark(words, i);
    return hx_hash(hx_hash((uint64_t)(words->group - fields->groups.v), i), variant);
}

/* Does a field of a group have to be looked at by class? */
static bool is_suspicious(const struct field *field, bool last)
{
    uint64_t all = (uint64_t)field->zero + field->pointer + field->value + field->text;
    return field->pointer &&
           (field->value || field->text || part_below(field->pointer, all, last ? 50 : 25));
}

static bool is_slack(const struct words *words, size_t i)
{
    return i + 1 == words->n && words->n < WORDS && words->n % 2 == 1;
}

static void find_suspicious(struct fields *fields)
{
    for (size_t g = 0; g < fields->groups.n; g++) {
        struct group *group = &fields->groups.v[g];
        for (size_t i = 0; i < group->n_words && group->objects >= ALIKE; i++)
            group->suspicious |=
                is_suspicious(&fields->fields.v[group->first_field + i], i + 1 == group->n_words);
    }
}

/* The group that a word points to. */
static uint32_t target_group(const struct fields *fields, const struct words *words, size_t i)
{
    const hx_edge *edge = fields->graph->edge;
    hx_eidx e = words->first;
    while (hx_edge_offset(edge[e]) != i * HX_WORD)
        e++;
    return fields->group_of[hx_edge_target(edge[e])];
}

static void count_class(struct fields *fields, hx_obj object, struct words *words)
{
    (void)object;
    if (!words->group->suspicious)
        return;
    uint64_t variant = variant_of(words);
    for (size_t i = 0; i < words->n; i++) {
        uint32_t *number;
        if (!is_suspicious(&words->field[i], i + 1 == words->n))
            continue;
        hx_error *err =
            hx_pairs_at(&fields->class_by_key, class_key(fields, words, variant, i), &number);
        if (!err && *number == HX_NO_PAIR) {
            *number = (uint32_t)fields->classes.n;
            err = hx_vec_push(&fields->classes, ((struct class){0})) ? NULL : hx_error_nomem();
        }
        if (err) {
            hx_error_free(err);
            fields->failed = true;
            return;
        }
        struct class *class = &fields->classes.v[*number];
        class->zero += words->kind[i] == ZERO;
        class->pointer += words->kind[i] == POINTER;
        class->value += words->kind[i] == VALUE;
        class->text += words->kind[i] == LETTERS;
        if (words->kind[i] == POINTER)
            vote(&class->target, &class->votes, target_group(fields, words, i));
    }
}

/* --- judging ------------------------------------------------------------------------------ */

static enum hx_rule judge_class(const struct fields *fields, const struct words *words,
                                uint64_t variant, size_t i)
{
    uint32_t number = hx_pairs_find(&fields->class_by_key, class_key(fields, words, variant, i));
    if (number == HX_NO_PAIR)
        return HX_RULE_NONE;
    const struct class *class = &fields->classes.v[number];
    /* what begins with text is text, and no struct like those that begin with a pointer */
    uint64_t values = (uint64_t) class->value + (i ? class->text : 0);
    uint64_t all = class->zero + class->pointer + values;
    if (all < ALIKE)
        return HX_RULE_NONE;
    if (is_slack(words, i) && part_below(class->pointer, all, AT_END))
        return HX_RULE_slack;
    if (part_below(class->pointer, class->pointer + values, VALUES))
        return class->pointer >= ALIKE &&
                       (uint64_t) class->votes * 100 >= (uint64_t) class->pointer * ONE_WAY
                   ? HX_RULE_few
                   : HX_RULE_field;
    return part_below(class->pointer, all, HARDLY) ? HX_RULE_few : HX_RULE_NONE;
}

static enum hx_rule judge_target(const struct fields *fields, hx_obj object, hx_eidx e,
                                 const struct field *field)
{
    hx_obj target = hx_edge_target(fields->graph->edge[e]);
    uint32_t group = fields->group_of[target];
    if (field->links >= ALIKE && group == field->target && target != object &&
        !part_below(field->answered, field->links, ANSWERED) &&
        !points_back(fields->graph, target, object))
        return HX_RULE_unanswered;
    if (field->pointer >= ALIKE && group != field->target &&
        !part_below(field->to_target, field->pointer, MOSTLY))
        return HX_RULE_target;
    return HX_RULE_NONE;
}

static void judge_object(struct fields *fields, hx_obj object, struct words *words)
{
    uint64_t variant = words->group->suspicious ? variant_of(words) : 0;
    for (hx_eidx e = words->first; e < words->end; e++) {
        uint64_t i = hx_edge_offset(fields->graph->edge[e]) / HX_WORD;
        struct field *field = &words->field[i];
        if (words->kind[i] != POINTER)
            continue;
        enum hx_rule rule = HX_RULE_NONE;
        if (is_suspicious(field, i + 1 == words->n))
            rule = judge_class(fields, words, variant, i);
        if (rule == HX_RULE_NONE)
            rule = judge_target(fields, object, e, field);
        if (rule != HX_RULE_NONE)
            hx_judge_edge(fields->judge, e, rule);
    }
}

static hx_error *judge_fields(struct fields *fields)
{
    find_modules(fields);
    HX_TRY(find_groups(fields));
    HX_TRY(each_object(fields, count_words));
    HX_TRY(each_object(fields, count_targets));
    find_suspicious(fields);
    HX_TRY(each_object(fields, count_class));
    return each_object(fields, judge_object);
}

hx_error *hx_judge_fields(const struct hx_judge *judge)
{
    struct fields fields = {.judge = judge, .graph = judge->graph};
    hx_error *err = judge_fields(&fields);
    hx_big_free(&fields.group_of_mem);
    hx_vec_free(&fields.groups);
    hx_vec_free(&fields.fields);
    hx_vec_free(&fields.classes);
    hx_pairs_free(&fields.group_by_key);
    hx_pairs_free(&fields.class_by_key);
    hx_pairs_free(&fields.landings);
    return err;
}
