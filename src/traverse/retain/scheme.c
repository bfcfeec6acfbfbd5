/* scheme.c - the list of schemes, and one of them applied to a snapshot. */
#include "traverse/retain/scheme.h"

#include "query/pattern.h"

#include <stdlib.h>
#include <string.h>

#define IN_TEXT SIZE_MAX

const struct hx_scheme *const hx_schemes[] = {
#define HX_SCHEME_ENTRY(name) &hx_scheme_##name,
    HX_SCHEMES(HX_SCHEME_ENTRY)
#undef HX_SCHEME_ENTRY
        NULL};

const struct hx_scheme *hx_scheme_find(const char *name)
{
    for (size_t i = 0; hx_schemes[i]; i++)
        if (strcmp(hx_schemes[i]->name, name) == 0)
            return hx_schemes[i];
    return NULL;
}

static const char *const threads_as_names[] = {
    [HX_THREADS_AS_NAME] = "name",
    [HX_THREADS_AS_ONE] = "one",
    [HX_THREADS_AS_PARTS] = "parts",
};

const char *hx_threads_as_name(enum hx_threads_as threads_as)
{
    return threads_as_names[threads_as];
}

bool hx_threads_as_parse(const char *word, enum hx_threads_as *ret)
{
    for (size_t i = 0; i < sizeof threads_as_names / sizeof *threads_as_names; i++)
        if (strcmp(threads_as_names[i], word) == 0) {
            *ret = (enum hx_threads_as)i;
            return true;
        }
    return false;
}

/* Something that was identified: a root, or behind all roots a group. */
struct member {
    struct hx_identity identity;
    size_t source;
    size_t offset; /* of the label in `labels`, IN_TEXT when it is not there */
};

struct work {
    const struct hx_scheme *scheme;
    const struct hx_snapshot *snapshot;
    enum hx_threads_as threads_as;
    hx_patterns *patterns;
    bool by_default; /* there are none */
    HX_VEC(struct member) members;
    struct hx_text labels; /* those that are no strings of the snapshot */
    const uint32_t *group_of;
    uint32_t n_groups;
    hx_retainer *of_group;
};

static hx_error *identify_roots(struct work *work)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind == HX_ROOT_NAMED)
            continue;
        struct member member = {
            .source = i, .offset = IN_TEXT, .identity.kind = hx_root_kind_name(root->kind)};
        size_t offset = work->labels.n;
        work->scheme->root(root, work->threads_as, &work->labels, &member.identity);
        if (!member.identity.label) {
            member.offset = offset;
            hx_text_putc(&work->labels, '\0');
        }
        HX_NEED(hx_vec_push(&work->members, member));
    }
    return work->labels.failed ? hx_error_nomem() : NULL;
}

static hx_error *identify_groups(struct work *work)
{
    const struct hx_scheme *scheme = work->scheme;
    if (scheme->groups)
        work->group_of = scheme->groups(work->snapshot, &work->n_groups);
    for (uint32_t g = 0; work->group_of && g < work->n_groups; g++) {
        struct member member = {.source = work->snapshot->roots.n + g, .offset = IN_TEXT};
        if (scheme->retains && !scheme->retains(work->snapshot, g))
            continue;
        scheme->group(work->snapshot, g, &member.identity);
        if (scheme->picks && !hx_patterns_match(work->patterns, member.identity.label))
            continue;
        if (work->by_default && scheme->by_default && !scheme->by_default(work->snapshot, g))
            continue;
        HX_NEED(hx_vec_push(&work->members, member));
    }
    return NULL;
}

static int compare_identities(const struct hx_identity *a, const struct hx_identity *b)
{
    int order = strcmp(a->space, b->space);
    return order ? order : strcmp(a->label, b->label);
}

/* Those of one identity in the order of the snapshot. */
static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int order = compare_identities(&x->identity, &y->identity);
    return order ? order : (x->source > y->source) - (x->source < y->source);
}

/* Offsets become pointers when the text does not move any more. */
static void sort_members(struct work *work)
{
    for (size_t i = 0; i < work->members.n; i++) {
        struct member *member = &work->members.v[i];
        if (member->offset != IN_TEXT)
            member->identity.label = work->labels.s + member->offset;
    }
    if (work->members.n)
        qsort(work->members.v, work->members.n, sizeof *work->members.v, compare_members);
}

/* What two members of one identity both say; else NULL. */
static const char *common(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0 ? a : NULL;
}

/* Gives each member its number. What describes an identity comes from its first member, and its
 * module and symbol only when all of them have the same. */
static hx_error *number_members(struct work *work, struct hx_scheme_rule *rule)
{
    const size_t n_roots = work->snapshot->roots.n;
    hx_retainer *of_root = rule->root_mem.base;
    rule->identity = calloc(work->members.n + 1, sizeof *rule->identity);
    HX_NEED(rule->identity);
    for (size_t i = 0; i < n_roots; i++)
        of_root[i] = HX_NO_RETAINER;
    for (size_t i = 0; i < work->members.n; i++) {
        const struct member *member = &work->members.v[i];
        struct hx_identity *last = rule->identity + rule->n_identities - (i > 0);
        if (i == 0 || compare_identities(last, &member->identity) != 0) {
            if (rule->n_identities == HX_NO_RETAINER)
                return hx_error_new(HX_E_FAIL, "retainers", NULL, "too many for a number");
            rule->identity[rule->n_identities++] = member->identity;
        } else {
            last->module = common(last->module, member->identity.module);
            last->symbol = common(last->symbol, member->identity.symbol);
        }
        hx_retainer number = (hx_retainer)(rule->n_identities - 1);
        if (member->source < n_roots)
            of_root[member->source] = number;
        else
            work->of_group[member->source - n_roots] = number;
    }
    return NULL;
}

/* Puts the strings into the rule's own memory. */
static hx_error *keep_strings(struct hx_scheme_rule *rule)
{
    size_t bytes = 0;
    for (size_t i = 0; i < rule->n_identities; i++) {
        const struct hx_identity *identity = &rule->identity[i];
        bytes += strlen(identity->label) + 1;
        bytes += identity->module ? strlen(identity->module) + 1 : 0;
        bytes += identity->symbol ? strlen(identity->symbol) + 1 : 0;
    }
    char *at = malloc(bytes + 1);
    HX_NEED(at);
    rule->strings = (struct hx_text){.s = at, .n = bytes, .cap = bytes + 1};
    for (size_t i = 0; i < rule->n_identities; i++) {
        struct hx_identity *identity = &rule->identity[i];
        const char **text[] = {&identity->label, &identity->module, &identity->symbol};
        for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
            const char *from = *text[k];
            *text[k] = from ? at : NULL;
            at = from ? stpcpy(at, from) + 1 : at;
        }
    }
    *at = '\0';
    return NULL;
}

/* From groups to objects; no table when none of them retains. */
static hx_error *spread_groups(struct work *work, struct hx_scheme_rule *rule)
{
    const hx_obj n = work->snapshot->graph.n;
    bool any = false;
    for (uint32_t g = 0; work->group_of && g < work->n_groups; g++)
        any |= work->of_group[g] != HX_NO_RETAINER;
    if (!any)
        return NULL;
    HX_TRY(hx_big_reserve(&rule->object_mem, (size_t)n * sizeof(hx_retainer)));
    hx_retainer *of_object = rule->object_mem.base;
    for (hx_obj i = 0; i < n; i++) {
        uint32_t group = work->group_of[i];
        of_object[i] = group < work->n_groups ? work->of_group[group] : HX_NO_RETAINER;
    }
    rule->rule.of_object = of_object;
    return NULL;
}

static hx_error *apply_scheme(struct work *work, const struct hx_scheme_options *options,
                              struct hx_scheme_rule *rule)
{
    const struct hx_scheme_options none = {0};
    const struct hx_scheme_options *given = options ? options : &none;
    HX_TRY(hx_patterns_create(given->pattern, given->n_patterns, &work->patterns));
    work->by_default = !given->n_patterns;
    HX_TRY(identify_roots(work));
    HX_TRY(identify_groups(work));
    sort_members(work);
    work->of_group = malloc((size_t)work->n_groups * sizeof *work->of_group + 1);
    HX_NEED(work->of_group);
    memset(work->of_group, 0xff, (size_t)work->n_groups * sizeof *work->of_group);
    HX_TRY(hx_big_reserve(&rule->root_mem, work->snapshot->roots.n * sizeof(hx_retainer)));
    rule->rule.of_root = rule->root_mem.base;
    HX_TRY(number_members(work, rule));
    HX_TRY(keep_strings(rule));
    return spread_groups(work, rule);
}

hx_error *hx_scheme_apply(const struct hx_scheme *scheme, const struct hx_snapshot *snapshot,
                          const struct hx_scheme_options *options, struct hx_scheme_rule *ret)
{
    struct work work = {.scheme = scheme,
                        .snapshot = snapshot,
                        .threads_as = options ? options->threads_as : HX_THREADS_AS_NAME};
    struct hx_scheme_rule rule = {0};
    hx_error *err = apply_scheme(&work, options, &rule);
    hx_patterns_destroy(work.patterns);
    hx_vec_free(&work.members);
    hx_text_free(&work.labels);
    free(work.of_group);
    if (err)
        hx_scheme_rule_deinit(&rule);
    else
        *ret = rule;
    return err;
}

void hx_scheme_rule_deinit(struct hx_scheme_rule *rule)
{
    free(rule->identity);
    hx_big_free(&rule->root_mem);
    hx_big_free(&rule->object_mem);
    hx_text_free(&rule->strings);
    *rule = (struct hx_scheme_rule){0};
}
