/* typed_words.c - what types say of the words of edges: their ranks, and the fields they lie in. */
#include "traverse/typing/typing_private.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/parallel.h"
#include "base/text.h"
#include "traverse/hold/rules.h"

#include <stdlib.h>
#include <string.h>

#define SMALL 40    /* bytes of a block */
#define AHEAD 32    /* edges */
#define ALIKE 32    /* words of a field: fewer say nothing */
#define LENT  97    /* percent of them, that others lead to, too */
#define OWN   97    /* percent of links, each of which leads to another object */
#define BLOCK 65536 /* objects that a worker judges at once */
#define FEW   32768 /* below this a second thread costs more than it brings */

/* The type that an object is as a whole, in the table; 0: none, or nothing of the table. */
static uint32_t type_as_whole(const hx_typing *typing, const struct hx_graph *graph, hx_obj object)
{
    const hx_typed typed = graph->typed[object];
    if (HX_TYPED_SOURCE(typed) == HX_TYPED_NOT)
        return 0;
    const uint32_t number = typing->number.v[graph->type[object]];
    if (number >= typing->source.table->n_types)
        return 0;
    return HX_TYPED_SOURCE(typed) != HX_TYPED_VTABLE ||
                   hx_typing_is_whole(typing, graph, object, number)
               ? number
               : 0;
}

/* --- ranks ----------------------------------------------------------------------- */

/* What counts of blocks alike say of a pointer field, its type knows better. It does not know
 * whether a pointer of an array is in use, whether there is something in a union, and what void
 * pointers are for. */
static bool is_outdone(const struct hx_word_map *map, uint64_t offset, bool repeats,
                       enum hx_rule rule)
{
    const uint64_t word = repeats && map->n ? offset / 8 % map->n : offset / 8;
    const uint32_t says = hx_map_word(map, offset, repeats);
    if (says == HX_WORD_OPEN || says == HX_WORD_ANY || hx_word_is_perhaps(map, word))
        return false;
    return rule == HX_RULE_bytes || rule == HX_RULE_field ||
           (rule == HX_RULE_slack && !repeats && word < map->n);
}

/* Is an object one of a type and nothing more, so that what lies behind its end is left over? Where
 * something larger begins with the type, the object's is a guess; the smallest blocks have room for
 * anything. */
static bool ends_with_type(const hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                           uint32_t type, const struct hx_word_map *map)
{
    return map->n && !map->tail && !(graph->typed[object] & HX_TYPED_REPEATS) &&
           graph->size[object] > SMALL && map->n * (uint64_t)8 > graph->size[object] / 2 &&
           hx_typing_is_whole(typing, graph, object, type);
}

#define PLAIN UINT32_MAX

/* A pointer to text or numbers that leads to a class, or a void pointer of a field. */
struct loose_word {
    hx_eidx edge;
    uint32_t type, word; /* of the field; PLAIN: of the former kind */
};

/* Void pointers of one field of a type. */
struct loose_field {
    uint64_t all, held;
};

/* Links by the only word of a type that points to its like, as in a list, and objects of the type
 * that these lead to. */
struct links {
    uint32_t edges, to;
};

struct judge {
    HX_VEC(struct loose_word) loose;
    struct links *links; /* of each type */
    hx_error *error;
};

struct judging {
    hx_typing *typing;
    struct hx_snapshot *snapshot;
    struct hx_graph *graph;
    unsigned threads;
    struct judge judge[HX_THREADS_MAX]; /* of each worker; links of all are in the first then */
    HX_VEC(struct loose_field) fields;
    struct hx_pairs field_of; /* types and words to fields */
    uint64_t *wanted;         /* bits of what loose words lead to */
    uint64_t *held;           /* of these: another word leads there, too */
    uint64_t *loose;          /* bits of edges */
    uint32_t *link_1;         /* of each type the word of links, + 1; 0: none, or several */
    uint64_t *linked;         /* bits of what links lead to */
};

/* Does a word lead to what is not of the type that it points to? */
static hx_error *leads_to_other(hx_typing *typing, const struct hx_graph *graph, hx_edge edge,
                                uint32_t word, bool *ret)
{
    const struct hx_type_table *table = typing->source.table;
    const struct hx_word_map *map;
    *ret = false;
    if (!HX_WORD_TARGET(word) || hx_edge_kind_of(edge) != HX_EDGE_START ||
        HX_WORD_TYPE(word) >= table->n_types)
        return NULL;
    const uint32_t type = hx_typing_element(table, HX_WORD_TYPE(word));
    HX_TRY(hx_word_map_of(&typing->maps, type, &map));
    *ret = hx_typing_lacks_vtable(graph, hx_edge_target(edge), map);
    return NULL;
}

/* Notes a word whose type does not say what it leads to. */
static hx_error *note_loose(struct judging *judging, struct judge *judge, struct loose_word word)
{
    hx_bit_add_shared(judging->wanted, hx_edge_target(judging->graph->edge[word.edge]));
    hx_bit_add_shared(judging->loose, word.edge);
    HX_NEED(hx_vec_push(&judge->loose, word));
    return NULL;
}

/* A pointer to text or numbers that leads to the start of a class. */
static hx_error *note_plain(struct judging *judging, struct judge *judge, hx_eidx edge)
{
    const struct hx_graph *graph = judging->graph;
    const hx_obj target = hx_edge_target(graph->edge[edge]);
    if (hx_edge_kind_of(graph->edge[edge]) != HX_EDGE_START ||
        graph->typed[target] != HX_TYPED(HX_CONFIDENCE_CERTAIN, HX_TYPED_VTABLE))
        return NULL;
    return note_loose(judging, judge, (struct loose_word){edge, PLAIN, 0});
}

/* A void pointer that is not left over. */
static hx_error *note_any(struct judging *judging, struct judge *judge, hx_eidx edge, uint32_t type,
                          uint64_t word)
{
    const struct hx_graph *graph = judging->graph;
    if (hx_edge_kind_of(graph->edge[edge]) != HX_EDGE_START || word > UINT32_MAX ||
        hx_rule_rank(HX_EVIDENCE_RULE(graph->evidence[edge])) == HX_RANK_STRAY)
        return NULL;
    return note_loose(judging, judge, (struct loose_word){edge, type, (uint32_t)word});
}

/* Words that are not loose may be what holds them. */
static void find_held(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct judging *judging = context;
    const struct hx_graph *graph = judging->graph;
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[to]; e++) {
        const hx_obj target = hx_edge_target(graph->edge[e]);
        if (hx_bit(judging->wanted, target) && !hx_bit(judging->loose, e) &&
            hx_edge_kind_of(graph->edge[e]) <= HX_EDGE_KNOWN &&
            hx_rule_rank(HX_EVIDENCE_RULE(graph->evidence[e])) != HX_RANK_STRAY)
            hx_bit_add_shared(judging->held, target);
    }
}

static void find_held_by_roots(struct judging *judging)
{
    const struct hx_snapshot *snapshot = judging->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (hx_bit(judging->wanted, edge->target) && edge->kind <= HX_EDGE_KNOWN &&
            !hx_root_is_scratch(&snapshot->roots.v[edge->root]))
            hx_bit_set(judging->held, edge->target);
    }
}

static bool is_held(const struct judging *judging, const struct loose_word *word)
{
    return hx_bit(judging->held, hx_edge_target(judging->graph->edge[word->edge]));
}

static hx_error *count_field(struct judging *judging, const struct loose_word *word)
{
    uint32_t *field;
    HX_TRY(hx_pairs_at(&judging->field_of, hx_pair_key(word->type, word->word), &field));
    if (*field == HX_NO_PAIR) {
        *field = (uint32_t)judging->fields.n;
        HX_NEED(hx_vec_push(&judging->fields, ((struct loose_field){0})));
    }
    judging->fields.v[*field].all++;
    judging->fields.v[*field].held += is_held(judging, word);
    return NULL;
}

/* Nearly all void pointers of the field lead to what others have. */
static hx_error *is_lent(struct judging *judging, const struct loose_word *word, bool *ret)
{
    uint32_t *field;
    HX_TRY(hx_pairs_at(&judging->field_of, hx_pair_key(word->type, word->word), &field));
    const struct loose_field *of = &judging->fields.v[*field];
    *ret = of->all >= ALIKE && of->held * 100 >= of->all * LENT;
    return NULL;
}

/* Where something else may hold an object of a class, a pointer to text or numbers is what memory
 * of another kind has left behind. Void pointers that lead to what others have, nearly all of a
 * field, only name it. */
static hx_error *judge_loose(struct judging *judging)
{
    struct hx_graph *graph = judging->graph;
    hx_parallel_blocks(judging->threads, graph->n, BLOCK, find_held, judging, NULL);
    find_held_by_roots(judging);
    for (unsigned k = 0; k < judging->threads; k++)
        for (size_t i = 0; i < judging->judge[k].loose.n; i++)
            if (judging->judge[k].loose.v[i].type != PLAIN)
                HX_TRY(count_field(judging, &judging->judge[k].loose.v[i]));
    for (unsigned k = 0; k < judging->threads; k++)
        for (size_t i = 0; i < judging->judge[k].loose.n; i++) {
            const struct loose_word *word = &judging->judge[k].loose.v[i];
            const bool plain = word->type == PLAIN;
            bool lent = false;
            if (!is_held(judging, word))
                continue;
            if (!plain)
                HX_TRY(is_lent(judging, word, &lent));
            if (plain || lent)
                graph->evidence[word->edge] =
                    HX_EVIDENCE(plain ? HX_RULE_other : HX_RULE_lent,
                                HX_EVIDENCE_KIND(graph->evidence[word->edge]));
        }
    return NULL;
}

/* --- one-way lists --------------------------------------------------------------- */

static hx_error *find_link_words(struct judging *judging)
{
    const hx_typing *typing = judging->typing;
    const struct hx_type_table *table = typing->source.table;
    for (size_t i = 0; i < typing->number.n; i++) {
        const uint32_t type = typing->number.v[i];
        const struct hx_word_map *map;
        unsigned own = 0;
        if (type >= table->n_types)
            continue;
        HX_TRY(hx_word_map_of(&judging->typing->maps, type, &map));
        for (uint32_t w = 0; map->self && w < map->n; w++)
            if (HX_WORD_TARGET(map->word[w]) && HX_WORD_TYPE(map->word[w]) == type) {
                judging->link_1[type] = w + 1;
                own++;
            }
        if (own != 1)
            judging->link_1[type] = 0;
    }
    return NULL;
}

/* The link of an object to the next one, where its type has one; else NULL. */
static hx_evidence *find_link(const struct judging *judging, hx_obj object, uint32_t type,
                              hx_obj *ret_to)
{
    const struct hx_graph *graph = judging->graph;
    const uint32_t word_1 = judging->link_1[type];
    if (!word_1 || graph->typed[object] & HX_TYPED_REPEATS)
        return NULL;
    const uint64_t offset = (word_1 - 1) * (uint64_t)8;
    const hx_eidx e = hx_graph_edge_from(graph, object, offset);
    if (e == graph->fwd[(size_t)object + 1] || hx_edge_offset(graph->edge[e]) != offset ||
        hx_edge_kind_of(graph->edge[e]) != HX_EDGE_START ||
        hx_edge_target(graph->edge[e]) == object ||
        hx_rule_rank(HX_EVIDENCE_RULE(graph->evidence[e])) == HX_RANK_STRAY)
        return NULL;
    *ret_to = hx_edge_target(graph->edge[e]);
    return &graph->evidence[e];
}

/* What a link leads to counts by its own type, so that it does not matter which link comes first.
 */
static void count_link(struct judging *judging, struct judge *judge, hx_obj object, uint32_t type)
{
    const struct hx_graph *graph = judging->graph;
    hx_obj to;
    if (!find_link(judging, object, type, &to))
        return;
    judge->links[type].edges++;
    judge->links[type].to += graph->typed[to] &&
                             judging->typing->number.v[graph->type[to]] == type &&
                             hx_bit_add_shared(judging->linked, to);
}

static bool is_list(const struct links *links)
{
    return links->edges >= ALIKE && (uint64_t)links->to * 100 >= (uint64_t)links->edges * OWN;
}

/* Where nearly each link leads to an object of its own these are lists, whatever other words stand
 * in such blocks; where several lead to one they are parents. */
static void judge_links(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct judging *judging = context;
    const struct hx_graph *graph = judging->graph;
    for (size_t i = from; i < to; i++) {
        hx_obj next;
        const uint32_t type = HX_TYPED_CONFIDENCE(graph->typed[i]) == HX_CONFIDENCE_GUESS
                                  ? 0
                                  : type_as_whole(judging->typing, graph, (hx_obj)i);
        hx_evidence *evidence = type && is_list(&judging->judge->links[type])
                                    ? find_link(judging, (hx_obj)i, type, &next)
                                    : NULL;
        if (evidence && HX_EVIDENCE_RULE(*evidence) != HX_RULE_link)
            *evidence = HX_EVIDENCE(HX_RULE_chain, HX_EVIDENCE_KIND(*evidence));
    }
}

/* Of all workers, into the first one's. */
static bool sum_links(struct judging *judging)
{
    struct links *all = judging->judge->links;
    bool any = false;
    for (uint32_t i = 0; i < judging->typing->source.table->n_types; i++) {
        for (unsigned k = 1; k < judging->threads; k++) {
            all[i].edges += judging->judge[k].links[i].edges;
            all[i].to += judging->judge[k].links[i].to;
        }
        any |= is_list(&all[i]);
    }
    return any;
}

/* --- all words ------------------------------------------------------------------- */

static hx_error *judge_words(struct judging *judging, struct judge *judge, hx_obj object,
                             uint32_t type, const struct hx_word_map *map)
{
    hx_typing *typing = judging->typing;
    struct hx_graph *graph = judging->graph;
    const bool repeats = graph->typed[object] & HX_TYPED_REPEATS;
    const bool ends = ends_with_type(typing, graph, object, type, map);
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        const hx_evidence evidence = graph->evidence[e];
        if (e + AHEAD < graph->n_edges)
            __builtin_prefetch(&graph->typed[hx_edge_target(graph->edge[e + AHEAD])]);
        const uint32_t word = hx_map_word(map, hx_edge_offset(graph->edge[e]), repeats);
        enum hx_rule rule = HX_RULE_NONE;
        bool other;
        if (word == HX_WORD_PLAIN)
            HX_TRY(note_plain(judging, judge, e));
        HX_TRY(leads_to_other(typing, graph, graph->edge[e], word, &other));
        if (other)
            rule = HX_RULE_other;
        else if (word == HX_WORD_SCALAR || (ends && hx_edge_offset(graph->edge[e]) / 8 >= map->n))
            rule = HX_RULE_scalar;
        else if (is_outdone(map, hx_edge_offset(graph->edge[e]), repeats,
                            HX_EVIDENCE_RULE(evidence)))
            rule = HX_RULE_pointer;
        if (rule != HX_RULE_NONE)
            graph->evidence[e] = HX_EVIDENCE(rule, HX_EVIDENCE_KIND(evidence));
        else if (word == HX_WORD_ANY && !repeats)
            HX_TRY(note_any(judging, judge, e, type, hx_edge_offset(graph->edge[e]) / 8));
    }
    return NULL;
}

static hx_error *judge_object(struct judging *judging, struct judge *judge, hx_obj object)
{
    const struct hx_graph *graph = judging->graph;
    const struct hx_word_map *map;
    if (HX_TYPED_CONFIDENCE(graph->typed[object]) == HX_CONFIDENCE_GUESS ||
        graph->fwd[object] == graph->fwd[(size_t)object + 1])
        return NULL;
    const uint32_t type = type_as_whole(judging->typing, graph, object);
    if (!type)
        return NULL;
    HX_TRY(hx_word_map_of(&judging->typing->maps, type, &map));
    if (map->n)
        HX_TRY(judge_words(judging, judge, object, type, map));
    count_link(judging, judge, object, type);
    return NULL;
}

static void judge_block(void *context, unsigned worker, size_t from, size_t to)
{
    struct judging *judging = context;
    struct judge *judge = &judging->judge[worker];
    for (size_t i = from; i < to && !judge->error; i++)
        judge->error = judge_object(judging, judge, (hx_obj)i);
}

static hx_error *init_judging(struct judging *judging)
{
    const struct hx_graph *graph = judging->graph;
    const size_t n_types = judging->typing->source.table->n_types,
                 words = (size_t)graph->n / 64 + 1;
    judging->threads = graph->n < FEW ? 1 : hx_threads(judging->typing->source.threads);
    judging->wanted = calloc(words, sizeof *judging->wanted);
    judging->held = calloc(words, sizeof *judging->held);
    judging->linked = calloc(words, sizeof *judging->linked);
    judging->loose = calloc(graph->n_edges / 64 + 1, sizeof *judging->loose);
    judging->link_1 = calloc(n_types, sizeof *judging->link_1);
    HX_NEED(judging->wanted && judging->held && judging->linked && judging->loose &&
            judging->link_1);
    for (unsigned i = 0; i < judging->threads; i++)
        HX_NEED(judging->judge[i].links = calloc(n_types, sizeof(struct links)));
    return find_link_words(judging);
}

static hx_error *judge_objects(struct judging *judging)
{
    const hx_obj n = judging->graph->n;
    size_t loose = 0;
    HX_TRY(init_judging(judging));
    hx_parallel_blocks(judging->threads, n, BLOCK, judge_block, judging, NULL);
    for (unsigned i = 0; i < judging->threads; i++) {
        HX_TRY(hx_steal(judging->judge[i].error));
        loose += judging->judge[i].loose.n;
    }
    if (loose)
        HX_TRY(judge_loose(judging));
    if (sum_links(judging))
        hx_parallel_blocks(judging->threads, n, BLOCK, judge_links, judging, NULL);
    return NULL;
}

/* Bits of the records that others contain. */
static hx_error *find_contained(const struct hx_type_table *table, uint64_t **ret)
{
    uint64_t *contained = calloc(table->n_types / 64 + 1, sizeof *contained);
    HX_NEED(contained);
    for (uint32_t i = 0; i < table->n_fields; i++)
        hx_bit_set(contained, hx_typing_element(table, table->field[i].type));
    *ret = contained;
    return NULL;
}

/* Does a variable point to a record in a block whose type nobody tells? It is a pool then, of which
 * nobody may have the start. What is part of other records may be so there: a link, say. */
static bool is_into_pool(const hx_typing *typing, const struct hx_graph *graph,
                         const struct hx_root_edge *edge, uint32_t word, const uint64_t *contained)
{
    const struct hx_type_table *table = typing->source.table;
    if (!HX_WORD_TARGET(word) || word >= table->n_types || hx_bit(contained, word) ||
        HX_TYPED_SOURCE(graph->typed[edge->target]) != HX_TYPED_NOT)
        return false;
    const struct hx_type_entry *type = &table->type[word];
    return hx_type_is_record(type) && type->size && type->size < graph->size[edge->target];
}

/* What a variable's type says of its word that leads into a block. */
static enum hx_rule judge_interior(const hx_typing *typing, const struct hx_snapshot *snapshot,
                                   const struct hx_root_edge *edge, uint32_t word,
                                   const uint64_t *contained)
{
    const struct hx_typed_place *place = hx_typing_place(&typing->source, snapshot, edge);
    if (hx_type_is_link(typing->source.table, place->type, edge->address - place->address))
        return HX_RULE_intrusive;
    return is_into_pool(typing, &snapshot->graph, edge, word, contained) ? HX_RULE_inside
                                                                         : HX_RULE_NONE;
}

/* Words of variables of the program, which live as long as it does. */
static hx_error *judge_roots(hx_typing *typing, struct hx_snapshot *snapshot)
{
    HX_FREE uint64_t *contained = NULL; /* only where a variable leads into a block */
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        uint32_t type, word;
        bool is_typed;
        if (root->kind == HX_ROOT_NAMED || hx_root_is_scratch(root) ||
            HX_EVIDENCE_RULE(edge->evidence) != HX_RULE_NONE)
            continue;
        HX_TRY(hx_typing_root_word(typing, snapshot, edge, &is_typed, &type, &word));
        enum hx_rule rule = HX_RULE_NONE;
        if (is_typed && word == HX_WORD_SCALAR)
            rule = HX_RULE_scalar;
        else if (is_typed && edge->kind == HX_EDGE_INTERIOR) {
            if (!contained)
                HX_TRY(find_contained(typing->source.table, &contained));
            rule = judge_interior(typing, snapshot, edge, word, contained);
        }
        if (rule != HX_RULE_NONE)
            edge->evidence = HX_EVIDENCE(rule, edge->kind);
    }
    return NULL;
}

static void deinit_judging(struct judging *judging)
{
    uint64_t *const bits[] = {judging->wanted, judging->held, judging->loose, judging->linked};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        free(bits[i]);
    free(judging->link_1);
    for (unsigned i = 0; i < judging->threads; i++) {
        hx_error_free(judging->judge[i].error);
        hx_vec_free(&judging->judge[i].loose);
        free(judging->judge[i].links);
    }
    hx_vec_free(&judging->fields);
    hx_pairs_free(&judging->field_of);
}

/* --- fields ---------------------------------------------------------------------- */

struct layouts {
    hx_typing *typing;
    struct hx_snapshot *snapshot;
    struct hx_pairs of;     /* type and repeats to layouts */
    struct hx_pairs fields; /* layout and word to 0 */
    HX_VEC(uint32_t) type;  /* of each layout */
    HX_VEC(uint64_t) known; /* of each layout bits of its first words: they are in `fields` */
    uint32_t before;        /* those that the snapshot had; nothing is added to them */
};

static hx_error *layout_of(struct layouts *layouts, uint32_t type, bool repeats, uint32_t *ret)
{
    struct hx_snapshot *snapshot = layouts->snapshot;
    uint32_t *number;
    HX_NEED(hx_vec_reserve(&snapshot->layouts, snapshot->layouts.n + 1));
    HX_TRY(hx_pairs_at(&layouts->of, hx_pair_key(type, repeats), &number));
    if (*number == HX_NO_PAIR) {
        *number = (uint32_t)snapshot->layouts.n;
        snapshot->layouts.v[snapshot->layouts.n++] = (struct hx_layout){
            .size = layouts->typing->source.table->type[type].size, .repeats = repeats};
        HX_NEED(hx_vec_push(&layouts->type, type) && hx_vec_push(&layouts->known, 0));
    }
    *ret = *number;
    return NULL;
}

static hx_error *name_target(struct layouts *layouts, uint32_t number, uint64_t offset, char **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const struct hx_word_map *map;
    HX_TRY(hx_word_map_of(&layouts->typing->maps, layouts->type.v[number], &map));
    const uint32_t word = hx_map_word(map, offset, false);
    if (!HX_WORD_TARGET(word))
        return NULL;
    hx_typing_put_name(layouts->typing, HX_WORD_TYPE(word), false, &name);
    *ret = strdup(hx_text_str(&name));
    HX_NEED(*ret && !name.failed);
    return NULL;
}

static hx_error *add_field(struct layouts *layouts, uint32_t number, uint64_t offset)
{
    struct hx_layout *layout = &layouts->snapshot->layouts.v[number];
    HX_CLEANUP(hx_text_free) struct hx_text path = {0};
    uint32_t *known;
    if (layout->repeats && layout->size)
        offset %= layout->size;
    const uint64_t bit = offset / 8 < 64 ? (uint64_t)1 << offset / 8 : 0;
    if (offset / 8 > UINT32_MAX || layouts->known.v[number] & bit)
        return NULL;
    layouts->known.v[number] |= bit;
    HX_TRY(hx_pairs_at(&layouts->fields, hx_pair_key(number, (uint32_t)(offset / 8)), &known));
    if (*known != HX_NO_PAIR)
        return NULL;
    *known = 0;
    if (!hx_type_put_path(layouts->typing->source.table, layouts->type.v[number], offset, false,
                          &path) ||
        (!path.n && !layout->repeats))
        return path.failed ? hx_error_nomem() : NULL;
    struct hx_field field = {.offset = offset, .name = strdup(hx_text_str(&path))};
    hx_error *err = field.name && !path.failed ? NULL : hx_error_nomem();
    if (!err)
        err = name_target(layouts, number, offset, &field.target);
    if (!err && !hx_vec_push(&layout->fields, field))
        err = hx_error_nomem();
    if (err) {
        free(field.name);
        free(field.target);
    }
    return err;
}

/* The layout of a type that an object has: nearly always known by then. */
static hx_error *layout_of_object(struct layouts *layouts, hx_obj object, uint32_t type,
                                  uint32_t *ret)
{
    struct hx_snapshot *snapshot = layouts->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    const bool repeats = graph->typed[object] & HX_TYPED_REPEATS;
    uint32_t *layout = &snapshot->types.v[graph->type[object]].layout;
    if (*layout > layouts->before && layouts->type.v[*layout - 1] == type &&
        snapshot->layouts.v[*layout - 1].repeats == repeats)
        return *ret = *layout - 1, NULL;
    HX_TRY(layout_of(layouts, type, repeats, ret));
    *layout = *ret + 1;
    return NULL;
}

static hx_error *object_fields(struct layouts *layouts)
{
    struct hx_snapshot *snapshot = layouts->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint32_t type = graph->fwd[i] < graph->fwd[(size_t)i + 1]
                            ? type_as_whole(layouts->typing, graph, i)
                            : 0,
                 layout;
        if (!type)
            continue;
        HX_TRY(layout_of_object(layouts, i, type, &layout));
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++)
            HX_TRY(add_field(layouts, layout, hx_edge_offset(graph->edge[e])));
    }
    return NULL;
}

static hx_error *root_fields(struct layouts *layouts)
{
    struct hx_snapshot *snapshot = layouts->snapshot;
    const struct hx_type_table *table = layouts->typing->source.table;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        struct hx_root *root = &snapshot->roots.v[edge->root];
        const struct hx_typed_place *place =
            root->kind == HX_ROOT_NAMED ? NULL
                                        : hx_typing_place(&layouts->typing->source, snapshot, edge);
        uint32_t layout;
        if (!place || place->address < root->address)
            continue;
        const uint64_t at = place->address ? place->address - root->address : 0;
        const uint32_t type = hx_typing_element(table, place->type);
        HX_TRY(layout_of(layouts, type, type != place->type, &layout));
        if (root->layout <= layouts->before) {
            root->layout = layout + 1;
            root->layout_at = at;
        }
        if (root->layout == layout + 1 && root->layout_at == at)
            HX_TRY(add_field(layouts, layout, edge->address - place->address));
    }
    return NULL;
}

static int compare_fields(const void *a, const void *b)
{
    const struct hx_field *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void sort_fields(struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->layouts.n; i++)
        if (snapshot->layouts.v[i].fields.n)
            qsort(snapshot->layouts.v[i].fields.v, snapshot->layouts.v[i].fields.n,
                  sizeof(struct hx_field), compare_fields);
}

static void deinit_layouts(struct layouts *layouts)
{
    hx_pairs_free(&layouts->of);
    hx_pairs_free(&layouts->fields);
    hx_vec_free(&layouts->type);
    hx_vec_free(&layouts->known);
}

/* --- both ------------------------------------------------------------------------ */

/* Maps of all types that objects have and of what their words point to: two threads read them. */
static hx_error *make_maps(hx_typing *typing)
{
    const struct hx_type_table *table = typing->source.table;
    const struct hx_word_map *map;
    for (size_t i = 0; i < typing->number.n; i++) {
        if (typing->number.v[i] >= table->n_types)
            continue;
        HX_TRY(hx_word_map_of(&typing->maps, typing->number.v[i], &map));
        const struct hx_word_map words = *map; /* maps can move */
        for (size_t w = 0; w < (size_t)words.n + words.tail; w++) {
            const uint32_t type = HX_WORD_TYPE(words.word[w]);
            if (HX_WORD_TARGET(words.word[w]) && type < table->n_types)
                HX_TRY(hx_word_map_of(&typing->maps, hx_typing_element(table, type), &map));
        }
    }
    return NULL;
}

struct fields_aside {
    struct layouts layouts;
    hx_error *error;
};

static void object_fields_aside(void *context)
{
    struct fields_aside *aside = context;
    aside->error = object_fields(&aside->layouts);
}

/* Ranks and fields, which have nothing in common but types. */
static hx_error *tell_objects(struct judging *judging, struct fields_aside *fields)
{
    const struct hx_graph *graph = judging->graph;
    struct hx_aside aside = {0};
    if (!graph->typed)
        return NULL;
    HX_TRY(make_maps(judging->typing));
    const bool alone = hx_threads(judging->typing->source.threads) < 2;
    if (alone)
        object_fields_aside(fields);
    else
        hx_aside_begin(object_fields_aside, fields, &aside);
    hx_error *err = graph->evidence ? judge_objects(judging) : NULL;
    if (!alone)
        hx_aside_end(&aside);
    if (err)
        hx_error_free(hx_steal(fields->error));
    return err ? err : fields->error;
}

hx_error *hx_typing_tell(hx_typing *typing, struct hx_snapshot *snapshot)
{
    struct judging judging = {.typing = typing, .snapshot = snapshot, .graph = &snapshot->graph};
    struct fields_aside fields = {.layouts = {.typing = typing,
                                              .snapshot = snapshot,
                                              .before = (uint32_t)snapshot->layouts.n}};
    struct layouts *layouts = &fields.layouts;
    hx_error *err = NULL;
    while (!err && layouts->type.n < layouts->before)
        err = hx_vec_push(&layouts->type, 0) && hx_vec_push(&layouts->known, 0) ? NULL
                                                                                : hx_error_nomem();
    if (!err)
        err = tell_objects(&judging, &fields);
    if (!err && snapshot->graph.typed && snapshot->graph.evidence)
        err = judge_roots(typing, snapshot);
    if (!err)
        err = root_fields(layouts);
    sort_fields(snapshot);
    deinit_judging(&judging);
    deinit_layouts(layouts);
    return err;
}
