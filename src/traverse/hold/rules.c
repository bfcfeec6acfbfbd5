/* rules.c - the table of rules, and what is said of a word. */
#include "traverse/hold/rules.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static const struct rule {
    const char *name;
    enum hx_rank rank;
    const char *text;
} rules[HX_RULE_COUNT] = {
#define HX_RULE_ROW(number, name, rank, text) [number] = {#name, rank, text},
    HX_RULES(HX_RULE_ROW)
#undef HX_RULE_ROW
};

const char *hx_rule_name(enum hx_rule rule)
{
    return (unsigned)rule < HX_RULE_COUNT ? rules[rule].name : NULL;
}

const char *hx_rule_text(enum hx_rule rule)
{
    return (unsigned)rule < HX_RULE_COUNT ? rules[rule].text : NULL;
}

enum hx_rank hx_rule_rank(enum hx_rule rule)
{
    return (unsigned)rule < HX_RULE_COUNT ? rules[rule].rank : HX_RANK_FIRM;
}

enum hx_rank hx_word_rank(hx_evidence evidence, const struct hx_hold_options *options)
{
    enum hx_rule rule = HX_EVIDENCE_RULE(evidence);
    return rule < HX_RULE_COUNT && hx_rule_is_on(options, rule) ? rules[rule].rank : HX_RANK_FIRM;
}

enum hx_rule hx_rule_find(const char *name)
{
    for (int i = 1; i < HX_RULE_COUNT; i++)
        if (strcmp(rules[i].name, name) == 0)
            return (enum hx_rule)i;
    return HX_RULE_NONE;
}

static hx_error *no_such_rule(const char *name)
{
    struct hx_text names = {0};
    for (int i = 1; i < HX_RULE_COUNT; i++)
        hx_text_putf(&names, "%s%s", i > 1 ? ", " : "", rules[i].name);
    hx_error *err = hx_error_new(HX_E_USAGE, "--rules", "-NAME switches one off",
                                 "'%s' is no rule; there are %s", name, hx_text_str(&names));
    hx_text_free(&names);
    return err;
}

hx_error *hx_rules_parse(const char *text, uint64_t *off)
{
    HX_FREE char *copy = strdup(text);
    HX_NEED(copy);
    char *rest = NULL;
    for (char *word = strtok_r(copy, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        enum hx_rule rule = *word == '-' || *word == '+' ? hx_rule_find(word + 1) : HX_RULE_NONE;
        if (rule == HX_RULE_NONE)
            return no_such_rule(word);
        *off = *word == '-' ? *off | UINT64_C(1) << rule : *off & ~(UINT64_C(1) << rule);
    }
    return NULL;
}

/* How many blocks look like the source, and how many of them have an edge at the same offset. */
static void count_alike(const struct hx_graph *graph, hx_obj source, uint64_t offset,
                        int64_t *ret_edges, int64_t *ret_blocks)
{
    int64_t edges = 0, blocks = 0;
    for (hx_obj i = 0; i < graph->n; i++) {
        if (graph->shape[i] != graph->shape[source])
            continue;
        blocks++;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++)
            edges += hx_edge_offset(graph->edge[e]) == offset;
    }
    *ret_edges = edges;
    *ret_blocks = blocks;
}

bool hx_rule_counts(enum hx_rule rule)
{
    return rule == HX_RULE_slack || rule == HX_RULE_field || rule == HX_RULE_few;
}

void hx_rule_put(enum hx_rule rule, const struct hx_word_figures *figures, struct hx_text *text)
{
    if (rule == HX_RULE_NONE || !hx_rule_text(rule))
        return;
    if (rule == HX_RULE_requested && figures->requested >= 0) {
        hx_text_puts(text, "behind the ");
        hx_text_count(text, figures->requested);
        hx_text_puts(text, " requested bytes");
        return;
    }
    if (hx_rule_counts(rule) && figures->alike > 0) {
        hx_text_puts(text, "a pointer in ");
        hx_text_count(text, figures->words);
        hx_text_puts(text, " of ");
        hx_text_count(text, figures->alike);
        hx_text_puts(text, " alike: ");
    }
    hx_text_puts(text, hx_rule_text(rule));
}

hx_error *hx_rule_explain(const struct hx_snapshot *snapshot, hx_obj source, hx_eidx e,
                          struct hx_text *text)
{
    const struct hx_graph *graph = &snapshot->graph;
    enum hx_rule rule = graph->evidence ? HX_EVIDENCE_RULE(graph->evidence[e]) : HX_RULE_NONE;
    struct hx_word_figures figures = {.requested = -1};
    if (graph->requested && graph->requested[source] != HX_NO_REQUEST)
        figures.requested = (int64_t)graph->requested[source];
    if (graph->shape && graph->shape[source] != HX_NO_SHAPE && hx_rule_counts(rule))
        count_alike(graph, source, hx_edge_offset(graph->edge[e]), &figures.words, &figures.alike);
    hx_rule_put(rule, &figures, text);
    return text->failed ? hx_error_nomem() : NULL;
}
