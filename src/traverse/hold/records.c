/* records.c - blocks of records, in which a tag says what the other words are: values of an
 * interpreter or of JSON, std::variant and std::optional.
 *
 * An array is searched for the period after which a tag comes again; a block with a type is one
 * record. Where all of a word's values are pointers for some tags, and for another tag many are
 * not, those that are do so by accident: a number, or what was there before. What was there before
 * leads to what somebody else has by now, so where nearly all pointers of a tag do, and those of
 * another tag do not, it is left over, too.
 */
#include "traverse/hold/word_table.h"

#include <pthread.h>
#include <stdlib.h>

#define CELLS       (1 << 16) /* words of a group that are looked at */
#define ALIKE       32        /* fewer say nothing */
#define PERIOD_MOST 12        /* words of a record in an array */
#define WHOLE_MOST  64        /* of a record that is a block */
#define VALUES      16        /* of a tag: it is below */
#define TAGS        8         /* words of a record that may be one */
#define PAYLOADS    12        /* words of a record that tags tell something of */
#define PARTS       4         /* of an array, all but the last of which have to look alike */
#define FEW_GONE    3
#define AHEAD       16 /* edges */

/* Percent. */
enum {
    SMALL = 97,  /* values of a tag that are small */
    ODD = 60,    /* and not null, of a word that is more than the tag */
    VARIED = 5,  /* values of a tag that are another */
    SOME = 3,    /* words of a part that are pointers */
    PURE = 1,    /* words that are neither null nor pointers: fewer where pointers are meant */
    IMPURE = 10, /* as many where no pointer is meant */
    GONE = 1,    /* of the pointers, those to what was freed: leftovers, if ... */
    MIXED = 5,   /* ... so many lead to blocks with a type, and so many to others */
    LENT = 97,   /* of the pointers, those to blocks that others point to, too: leftovers, if ... */
    OWN = 80,    /* ... fewer of another tag's do, and ... */
    HOLES = 2,   /* ... so many words are no pointers */
    ANSWERED = 10 /* of the pointers, those that are answered: links of a list */
};

struct tag {
    uint8_t word;
    bool upper; /* half of the word; else the lowest byte */
};

struct payload {
    uint8_t word;
    struct tag tag;
    uint16_t dead, doubtful, lent; /* bits for the tag's values: no pointers */
};

/* What is found of a group. */
struct records {
    uint8_t period, n; /* in words */
    uint64_t
        numbers;   /* bits for words: their lowest byte is a tag, what lies above it is left over */
    uint64_t lent; /* the same: to what others have, or to what is gone */
    struct payload payload[PAYLOADS];
};

struct look {
    const struct hx_judge *judge;
    struct records *of; /* for each group */
    struct hx_big of_mem;
    uint8_t *held; /* of each object: words that lead to its start, 2: or more; NULL: not counted */
    struct hx_big held_mem;
    pthread_mutex_t lock; /* of `held` */
};

/* Of words that have one tag. */
struct class
{
    uint32_t count[HX_WORD_KINDS];
    uint32_t starts, lent; /* of the pointers, those to a block's start; others lead there, too */
};

struct scan {
    const struct hx_judge *judge;
    struct look *look;
    struct hx_word_table table;
    uint8_t *held; /* as in struct look, of what each word leads to the start of */
    uint32_t *pointers, *others, *small[2], *odd, *set; /* by a word's place in the block */
    size_t period, in_row;                              /* words of a record, records of a row */
    bool mixed; /* one record is a row, which may be of several types: counts say less */
};

static bool is_typed(const struct hx_judge *judge, hx_obj object)
{
    const struct hx_graph *graph = judge->graph;
    HX_PEEKED window = {0};
    if (object == HX_NO_OBJ)
        return false;
    const uint64_t *word = graph->size[object] < HX_WORD
                               ? NULL
                               : hx_judge_peek(judge, graph->addr[object], 1, &window);
    return (graph->type && graph->type[object] != HX_NO_TYPE) ||
           (word && hx_judge_module(judge, *word));
}

/* -1 stands for none. In the upper half of a word a byte may be one of an address. */
static inline unsigned value_of(uint64_t word, bool upper)
{
    uint64_t value = upper ? word >> 32 : word & 0xff, none = upper ? UINT32_MAX : UINT8_MAX;
    return value == none ? VALUES - 1 : value < VALUES - 1 ? (unsigned)value : VALUES;
}

static inline unsigned tag_of(const uint64_t *record, struct tag tag)
{
    return value_of(record[tag.word], tag.upper);
}

static inline uint32_t others_of(const struct class *class)
{
    return class->count[HX_WORD_GONE] + class->count[HX_WORD_VALUE];
}

static inline uint32_t pointers_of(const struct class *class)
{
    return class->count[HX_WORD_POINTER];
}

/* --- what leads to a block ----------------------------------------------------------------- */

static void count_holder(uint8_t *held, hx_obj target, enum hx_edge_kind kind, enum hx_rule rule)
{
    if (kind == HX_EDGE_START && hx_rule_rank(rule) != HX_RANK_STRAY && held[target] < 2)
        held[target]++;
}

static hx_error *count_holders(struct look *look)
{
    const struct hx_snapshot *snapshot = look->judge->snapshot;
    const struct hx_graph *graph = look->judge->graph;
    HX_TRY(hx_big_array(look->held, graph->n));
    for (hx_eidx e = 0; e < graph->n_edges; e++) {
        if (e + AHEAD < graph->n_edges)
            __builtin_prefetch(&look->held[hx_edge_target(graph->edge[e + AHEAD])], 1);
        count_holder(look->held, hx_edge_target(graph->edge[e]), hx_edge_kind_of(graph->edge[e]),
                     HX_EVIDENCE_RULE(graph->evidence[e]));
    }
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (!hx_root_is_scratch(&snapshot->roots.v[edge->root]))
            count_holder(look->held, edge->target, edge->kind, HX_EVIDENCE_RULE(edge->evidence));
    }
    return NULL;
}

/* Groups are scanned by several threads, and most snapshots need no such counts. */
static hx_error *need_holders(struct look *look)
{
    hx_error *err = NULL;
    pthread_mutex_lock(&look->lock);
    if (!look->held)
        err = count_holders(look);
    pthread_mutex_unlock(&look->lock);
    return err;
}

/* Fills scan.held. */
static hx_error *find_held(struct scan *scan)
{
    const struct hx_word_table *table = &scan->table;
    const struct hx_graph *graph = scan->judge->graph;
    if (scan->held)
        return NULL;
    HX_TRY(need_holders(scan->look));
    HX_NEED(scan->held = calloc(table->rows, table->words));
    for (size_t r = 0; r < table->rows; r++) {
        const hx_obj object = table->object[r];
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
            const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD;
            if (i < table->words && hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START)
                scan->held[r * table->words + i] = scan->look->held[hx_edge_target(graph->edge[e])];
        }
    }
    return NULL;
}

/* --- tags --------------------------------------------------------------------------------- */

static void count_places(struct scan *scan)
{
    const struct hx_word_table *table = &scan->table;
    for (size_t r = 0; r < table->rows; r++)
        for (size_t i = 0; i < table->words; i++) {
            enum hx_word_kind kind = hx_word_kind(table, r, i);
            scan->pointers[i] += kind == HX_WORD_POINTER;
            scan->others[i] += kind == HX_WORD_GONE || kind == HX_WORD_VALUE;
            scan->small[0][i] += value_of(hx_word_row(table, r)[i], false) < VALUES;
            scan->small[1][i] += value_of(hx_word_row(table, r)[i], true) < VALUES;
            scan->odd[i] += value_of(hx_word_row(table, r)[i], false) - 1 < VALUES - 1;
            scan->set[i] += hx_word_row(table, r)[i] != 0;
        }
}

static uint64_t sum_of(const struct scan *scan, const uint32_t *of, size_t word)
{
    uint64_t sum = 0;
    for (size_t e = 0; e < scan->in_row; e++)
        sum += of[e * scan->period + word];
    return sum;
}

/* The part of an array that record e of a row lies in. */
static inline size_t part_of(const struct scan *scan, size_t e)
{
    return e * PARTS / (scan->in_row < PARTS ? PARTS : scan->in_row);
}

/* Has it several values, in all parts of the block? */
static bool is_varied(const struct scan *scan, struct tag tag)
{
    const struct hx_word_table *table = &scan->table;
    uint32_t count[PARTS][VALUES + 1] = {0};
    for (size_t r = 0; r < table->rows; r++)
        for (size_t e = 0; e < scan->in_row; e++) {
            unsigned value = tag_of(hx_word_row(table, r) + e * scan->period, tag);
            count[part_of(scan, e)][value]++;
        }
    for (size_t part = 0; part < (scan->in_row > 1 ? PARTS - 1 : 1); part++) {
        uint64_t all = 0, values = 0;
        for (size_t v = 0; v <= VALUES; v++)
            all += count[part][v];
        for (size_t v = 0; v < VALUES; v++)
            values += count[part][v] && !hx_part_below(count[part][v], all, VARIED);
        if (values < 2 || !hx_part_below(count[part][VALUES], all, 2 * VARIED))
            return false;
    }
    return true;
}

static size_t find_tags(const struct scan *scan, struct tag tag[TAGS])
{
    const uint64_t records = (uint64_t)scan->table.rows * scan->in_row;
    size_t n = 0;
    for (size_t i = 0; i < scan->period && n < TAGS; i++)
        for (size_t half = 0; half < 2 && n < TAGS; half++) {
            tag[n] = (struct tag){.word = (uint8_t)i, .upper = half == 1};
            n += !hx_part_below(sum_of(scan, scan->small[half], i), records, SMALL) &&
                 is_varied(scan, tag[n]);
        }
    return n;
}

/* --- what they tell -------------------------------------------------------------------------- */

/* Some pointers and some other values or none, and pointers not only at one end. */
static bool is_payload(const struct scan *scan, size_t word)
{
    const uint64_t pointers = sum_of(scan, scan->pointers, word),
                   others = sum_of(scan, scan->others, word),
                   none = (uint64_t)scan->table.rows * scan->in_row - sum_of(scan, scan->set, word);
    uint64_t part[PARTS] = {0}, in_part[PARTS] = {0};
    if (pointers < ALIKE || (others + none) * 200 < pointers)
        return false;
    for (size_t e = 0; e < scan->in_row; e++) {
        part[part_of(scan, e)] += scan->pointers[e * scan->period + word];
        in_part[part_of(scan, e)] += scan->table.rows;
    }
    for (size_t i = 0; i < (scan->in_row > 1 ? PARTS - 1 : 1); i++)
        if (hx_part_below(part[i], in_part[i], SOME))
            return false;
    return true;
}

static void count_classes(const struct scan *scan, size_t word, struct tag tag,
                          struct class class[VALUES])
{
    const struct hx_word_table *table = &scan->table;
    memset(class, 0, VALUES * sizeof *class);
    for (size_t r = 0; r < table->rows; r++)
        for (size_t at = 0; at < scan->in_row * scan->period; at += scan->period) {
            unsigned value = tag_of(hx_word_row(table, r) + at, tag);
            if (value >= VALUES)
                continue;
            const enum hx_word_kind kind = hx_word_kind(table, r, at + word);
            const uint8_t held = scan->held[r * table->words + at + word];
            class[value].count[kind]++;
            class[value].starts += kind == HX_WORD_POINTER && held;
            class[value].lent += kind == HX_WORD_POINTER && held > 1;
        }
}

static bool is_live(const struct class *class)
{
    return pointers_of(class) >= ALIKE &&
           others_of(class) * 100ul <= (pointers_of(class) + others_of(class)) * (uint64_t)PURE;
}

static bool is_dead(const struct class *class)
{
    uint64_t all = (uint64_t)pointers_of(class) + others_of(class);
    return pointers_of(class) && all >= ALIKE && !hx_part_below(others_of(class), all, IMPURE);
}

/* Some of these pointers lead to what was freed. */
static bool is_doubtful(const struct class *class)
{
    return pointers_of(class) >= ALIKE && class->count[HX_WORD_GONE] >= FEW_GONE &&
           !hx_part_below(class->count[HX_WORD_GONE],
                          (uint64_t)pointers_of(class) + class->count[HX_WORD_GONE], GONE);
}

/* Do nearly all of these pointers lead to what others have, while some words are no pointers? */
static bool is_lent(const struct class *class)
{
    const uint64_t holes = (uint64_t)others_of(class) + class->count[HX_WORD_ZERO];
    return class->starts >= ALIKE && !hx_part_below(class->starts, pointers_of(class), LENT) &&
           !hx_part_below(class->lent, class->starts, LENT) &&
           !hx_part_below(holes, holes + pointers_of(class), HOLES);
}

/* And do those of another tag lead to what nobody else has? */
static bool is_own(const struct class *class)
{
    return class->starts >= ALIKE && hx_part_below(class->lent, class->starts, OWN);
}

static bool is_mixed(uint64_t typed, uint64_t pointers)
{
    return !hx_part_below(typed, pointers, MIXED) &&
           !hx_part_below(pointers - typed, pointers, MIXED);
}

/* Those where pointers lead to blocks with a type as well as to others. */
static uint16_t find_mixed(const struct scan *scan, size_t word, struct tag tag,
                           const struct class class[VALUES], uint16_t wanted)
{
    const struct hx_word_table *table = &scan->table;
    uint32_t typed[VALUES] = {0};
    uint16_t mixed = 0;
    for (size_t r = 0; r < table->rows; r++)
        for (size_t at = 0; at < scan->in_row * scan->period; at += scan->period) {
            unsigned value = tag_of(hx_word_row(table, r) + at, tag);
            if (value < VALUES && wanted >> value & 1 &&
                hx_word_kind(table, r, at + word) == HX_WORD_POINTER)
                typed[value] +=
                    is_typed(scan->judge,
                             hx_graph_find(scan->judge->graph, hx_word_row(table, r)[at + word]));
        }
    for (unsigned v = 0; v < VALUES; v++)
        if (wanted >> v & 1 && is_mixed(typed[v], pointers_of(&class[v])))
            mixed |= (uint16_t)(1u << v);
    return mixed;
}

/* The tag that leaves the fewest words in doubt; false: none tells anything. */
static bool find_payload(const struct scan *scan, size_t word, const struct tag *tag, size_t n,
                         struct payload *ret)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        struct class class[VALUES];
        uint64_t rest = 0;
        uint16_t live = 0, dead = 0, doubtful = 0, lent = 0;
        bool own = false;
        if (tag[i].word == word)
            continue;
        count_classes(scan, word, tag[i], class);
        for (unsigned v = 0; v < VALUES; v++) {
            uint32_t pointers = pointers_of(&class[v]), others = others_of(&class[v]);
            rest += pointers < others ? pointers : others;
            own |= is_live(&class[v]) && is_own(&class[v]);
            lent |= (uint16_t)(is_lent(&class[v]) << v);
            *(is_dead(&class[v])       ? &dead
              : is_doubtful(&class[v]) ? &doubtful
              : is_live(&class[v])     ? &live
                                       : &(uint16_t){0}) |= (uint16_t)(1u << v);
        }
        lent = own ? lent : 0;
        if (scan->mixed)
            dead = doubtful = 0;
        if (!(live & (uint16_t)~lent) || !(dead | doubtful | lent) || rest >= least)
            continue;
        if (doubtful && !find_mixed(scan, word, tag[i], class, live & (uint16_t)~lent))
            doubtful = find_mixed(scan, word, tag[i], class, doubtful);
        else
            doubtful = 0;
        if (!(dead | doubtful | lent))
            continue;
        least = rest;
        *ret = (struct payload){
            .word = (uint8_t)word, .tag = tag[i], .dead = dead, .doubtful = doubtful, .lent = lent};
    }
    return least != UINT64_MAX;
}

/* Does what a word leads to lead back? What has many edges is taken to do so. */
static bool is_answered(const struct hx_graph *graph, hx_obj object, hx_obj target)
{
    hx_eidx e = graph->fwd[target], end = graph->fwd[(size_t)target + 1];
    if (end - e > WHOLE_MOST)
        return true;
    while (e < end && hx_edge_target(graph->edge[e]) != object)
        e++;
    return e < end;
}

/* Of the pointers in a word of all rows, those that are answered. */
static uint64_t count_answered(const struct scan *scan, size_t word)
{
    const struct hx_graph *graph = scan->judge->graph;
    uint64_t n = 0;
    for (size_t r = 0; r < scan->table.rows; r++) {
        const hx_obj object = scan->table.object[r];
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++)
            if (hx_edge_offset(graph->edge[e]) / HX_WORD == word)
                n += is_answered(graph, object, hx_edge_target(graph->edge[e]));
    }
    return n;
}

/* Words that only name what others have: nearly all lead there, and some to what is gone, so
 * nothing lives by them. Links of lists lead to what others have, too. */
static hx_error *find_lent(struct scan *scan, struct records *ret)
{
    const struct hx_word_table *table = &scan->table;
    for (size_t i = 0; i < table->words; i++) {
        struct class all = {0};
        uint64_t gone = 0;
        if (scan->pointers[i] < ALIKE || scan->others[i] < FEW_GONE)
            continue;
        HX_TRY(find_held(scan));
        for (size_t r = 0; r < table->rows; r++) {
            const enum hx_word_kind kind = hx_word_kind(table, r, i);
            const uint8_t held = scan->held[r * table->words + i];
            all.count[kind]++;
            all.starts += kind == HX_WORD_POINTER && held;
            all.lent += kind == HX_WORD_POINTER && held > 1;
        }
        gone = all.count[HX_WORD_GONE];
        if (gone >= FEW_GONE && !hx_part_below(gone, gone + pointers_of(&all), GONE) &&
            is_lent(&all) && hx_part_below(count_answered(scan, i), pointers_of(&all), ANSWERED))
            ret->lent |= UINT64_C(1) << i;
    }
    return NULL;
}

/* Words that have a small lowest byte, but no address that is aligned. */
static uint64_t find_numbers(const struct scan *scan)
{
    const uint64_t records = (uint64_t)scan->table.rows * scan->in_row;
    uint64_t numbers = 0;
    for (size_t i = 0; i < scan->period; i++) {
        uint64_t set = sum_of(scan, scan->set, i), zero = records - set,
                 small = sum_of(scan, scan->small[0], i);
        if (set >= ALIKE && sum_of(scan, scan->pointers, i) && small > zero &&
            !hx_part_below(small - zero, set, SMALL) &&
            !hx_part_below(sum_of(scan, scan->odd, i), set, ODD))
            numbers |= UINT64_C(1) << i;
    }
    return numbers;
}

/* ret->n: 0 when there is nothing. */
static hx_error *find_records(struct scan *scan, size_t period, struct records *ret)
{
    struct tag tag[TAGS];
    scan->period = period;
    scan->in_row = scan->table.words / period;
    *ret = (struct records){.period = (uint8_t)period};
    if (scan->in_row * scan->table.rows < 2 * ALIKE)
        return NULL;
    size_t tags = find_tags(scan, tag);
    if (period == scan->table.words)
        ret->numbers = find_numbers(scan);
    scan->mixed = period == scan->table.words && !is_typed(scan->judge, scan->table.object[0]);
    for (size_t i = 0; tags && i < period && ret->n < PAYLOADS; i++) {
        if (!is_payload(scan, i))
            continue;
        HX_TRY(find_held(scan));
        ret->n += find_payload(scan, i, tag, tags, &ret->payload[ret->n]);
    }
    if (ret->n)
        ret->numbers = find_numbers(scan);
    return NULL;
}

/* Rows without a pointer are text or numbers, of another type than the others, or say nothing. */
static void leave_out(struct scan *scan)
{
    struct hx_word_table *table = &scan->table;
    const size_t words = table->words;
    size_t kept = 0;
    for (size_t r = 0; r < table->rows; r++) {
        if (!memchr(table->kind + r * words, HX_WORD_POINTER, words))
            continue;
        memmove(table->kind + kept * words, table->kind + r * words, words);
        memmove(table->word + kept * words, table->word + r * words, words * sizeof *table->word);
        table->object[kept++] = table->object[r];
    }
    table->rows = kept;
}

/* A block without a type may be an array, of at least three records. */
static hx_error *find_period(struct scan *scan, struct records *ret)
{
    const struct hx_word_table *table = &scan->table;
    const bool typed = is_typed(scan->judge, table->object[0]);
    if (!typed)
        leave_out(scan);
    count_places(scan);
    for (size_t period = 2; !typed && period <= PERIOD_MOST && period * (PARTS - 1) <= table->words;
         period++) {
        HX_TRY(find_records(scan, period, ret));
        if (ret->n)
            return NULL;
    }
    *ret = (struct records){0};
    if (table->words > WHOLE_MOST)
        return NULL;
    HX_TRY(find_records(scan, table->words, ret));
    return find_lent(scan, ret);
}

static hx_error *scan_group(void *context, uint32_t group, bool *ret_found)
{
    struct look *look = context;
    struct scan scan = {.judge = look->judge, .look = look};
    hx_error *err = NULL;
    HX_TRY(hx_word_table_fill(look->judge, &look->judge->groups->group[group], CELLS, true,
                              &scan.table));
    uint32_t *places = calloc(6 * scan.table.words + 1, sizeof *places);
    if (places && scan.table.rows) {
        scan.pointers = places;
        scan.others = places + scan.table.words;
        scan.small[0] = places + 2 * scan.table.words;
        scan.small[1] = places + 3 * scan.table.words;
        scan.odd = places + 4 * scan.table.words;
        scan.set = places + 5 * scan.table.words;
        err = find_period(&scan, &look->of[group]);
    }
    if (!places)
        err = hx_error_nomem();
    free(places);
    free(scan.held);
    *ret_found = look->of[group].n || look->of[group].numbers || look->of[group].lent;
    hx_word_table_deinit(&scan.table);
    return err;
}

/* --- judging ------------------------------------------------------------------------------ */

/* Bits for values of the tag that say that the word is no pointer. Other blocks of that size may be
 * arrays of something else, so one that is large enough has to show it by itself. */
static uint16_t find_dead(const struct look *look, hx_obj object, const uint64_t *word, size_t n,
                          size_t period, const struct payload *payload)
{
    const struct hx_judge *judge = look->judge;
    const struct hx_graph *graph = judge->graph;
    uint32_t set[VALUES + 1] = {0}, pointers[VALUES + 1] = {0}, typed[VALUES + 1] = {0},
                          lent[VALUES + 1] = {0};
    uint16_t dead = 0;
    if (n / period < ALIKE)
        return payload->dead | payload->doubtful | payload->lent;
    size_t none = 0;
    for (size_t at = 0; at + period <= n; at += period) {
        unsigned value = tag_of(word + at, payload->tag);
        set[value] += word[at + payload->word] != 0;
        none += value == VALUES;
    }
    if (!hx_part_below(none, n / period, 2 * VARIED))
        return 0;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
        size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD, at = i - i % period;
        if (i % period != payload->word || at + period > n)
            continue;
        unsigned value = tag_of(word + at, payload->tag);
        pointers[value]++;
        typed[value] += payload->doubtful && is_typed(judge, hx_edge_target(graph->edge[e]));
        lent[value] += payload->lent && look->held[hx_edge_target(graph->edge[e])] > 1;
    }
    for (unsigned v = 0; v < VALUES; v++) {
        bool shown =
            payload->dead >> v & 1
                ? pointers[v] < set[v] && !hx_part_below(set[v] - pointers[v], set[v], IMPURE / 2)
                : payload->doubtful >> v & 1 && is_mixed(typed[v], pointers[v]);
        shown |= payload->lent >> v & 1 && !hx_part_below(lent[v], pointers[v], LENT);
        dead |= (uint16_t)(shown << v);
    }
    return dead;
}

static void judge_payload(const struct look *look, hx_obj object, const uint64_t *word, size_t n,
                          size_t period, const struct payload *payload)
{
    const struct hx_graph *graph = look->judge->graph;
    const uint16_t dead = find_dead(look, object, word, n, period, payload);
    for (hx_eidx e = graph->fwd[object]; dead && e < graph->fwd[object + 1]; e++) {
        const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD, at = i - i % period;
        if (payload->word != i % period || at + payload->tag.word >= n)
            continue;
        unsigned value = tag_of(word + at, payload->tag);
        if (value < VALUES && dead >> value & 1)
            hx_judge_edge(look->judge, e, HX_RULE_tag);
    }
}

static void judge_object(void *context, hx_obj object, struct hx_peeked *window)
{
    const struct look *look = context;
    const struct records *records = &look->of[look->judge->groups->of[object]];
    const struct hx_graph *graph = look->judge->graph;
    const size_t n = graph->size[object] / HX_WORD;
    const uint64_t *word = graph->fwd[object] == graph->fwd[object + 1]
                               ? NULL
                               : hx_judge_peek(look->judge, graph->addr[object], n, window);
    if (!word)
        return;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
        const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD;
        if (records->numbers >> i % records->period & 1 && word[i] % HX_WORD)
            hx_judge_edge(look->judge, e, HX_RULE_field);
    }
    for (size_t k = 0; k < records->n; k++)
        judge_payload(look, object, word, n, records->period, &records->payload[k]);
    for (hx_eidx e = graph->fwd[object]; records->lent && e < graph->fwd[object + 1]; e++)
        if (records->lent >> hx_edge_offset(graph->edge[e]) / HX_WORD & 1 &&
            hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START)
            hx_judge_edge(look->judge, e, HX_RULE_lent);
}

hx_error *hx_judge_records(const struct hx_judge *judge)
{
    struct look look = {.judge = judge, .lock = PTHREAD_MUTEX_INITIALIZER};
    HX_TRY(hx_big_array(look.of, judge->groups->n));
    const struct hx_group_judge how = {scan_group, judge_object, &look};
    hx_error *err = hx_judge_by_group(judge, &how);
    hx_big_free(&look.of_mem);
    hx_big_free(&look.held_mem);
    pthread_mutex_destroy(&look.lock);
    return err;
}
