/* records.c - blocks of records, in which a tag says what the other words are: values of an
 * interpreter or of JSON, std::variant and std::optional.
 *
 * An array is searched for the period after which a tag comes again; a block with a type is one
 * record. Where all of a word's values are pointers for some tags, and for another tag many are
 * not, those that are do so by accident: a number, or what was there before.
 */
#include "traverse/hold/word_table.h"

#include <stdlib.h>

#define CELLS       (1 << 16) /* words of a group that are looked at */
#define ALIKE       32        /* fewer say nothing */
#define PERIOD_MOST 12        /* words of a record in an array */
#define WHOLE_MOST  64        /* of a record that is a block */
#define VALUES      16        /* of a tag: it is below */
#define TAGS        8         /* words of a record that may be one */
#define PAYLOADS    6         /* words of a record that tags tell something of */
#define PARTS       4         /* of an array, all but the last of which have to look alike */
#define FEW_GONE    3

/* Percent. */
enum {
    SMALL = 97,  /* values of a tag that are small */
    ODD = 60,    /* and not null, of a word that is more than the tag */
    VARIED = 5,  /* values of a tag that are another */
    SOME = 3,    /* words of a part that are pointers */
    PURE = 1,    /* words that are neither null nor pointers: fewer where pointers are meant */
    IMPURE = 10, /* as many where no pointer is meant */
    GONE = 1,    /* of the pointers, those to what was freed: leftovers, if ... */
    MIXED = 5    /* ... so many lead to blocks with a type, and so many to others */
};

struct tag {
    uint8_t word;
    bool upper; /* half of the word; else the lowest byte */
};

struct payload {
    uint8_t word;
    struct tag tag;
    uint16_t dead, doubtful; /* bits for the tag's values: no pointers */
};

/* What is found of a group. */
struct records {
    uint8_t period, n; /* in words */
    uint64_t
        numbers; /* bits for words: their lowest byte is a tag, what lies above it is left over */
    struct payload payload[PAYLOADS];
};

struct look {
    const struct hx_judge *judge;
    struct records *of; /* for each group */
    struct hx_big of_mem;
};

/* Of words that have one tag. */
struct class
{
    uint32_t count[HX_WORD_KINDS];
};

struct scan {
    const struct hx_judge *judge;
    struct hx_word_table table;
    uint32_t *pointers, *others, *small[2], *odd, *set; /* by a word's place in the block */
    size_t period, in_row;                              /* words of a record, records of a row */
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

/* Some pointers and some other values, and pointers not only at one end. */
static bool is_payload(const struct scan *scan, size_t word)
{
    uint64_t pointers = sum_of(scan, scan->pointers, word), part[PARTS] = {0}, in_part[PARTS] = {0};
    if (pointers < ALIKE || sum_of(scan, scan->others, word) * 200 < pointers)
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
            if (value < VALUES)
                class[value].count[hx_word_kind(table, r, at + word)]++;
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
        uint16_t live = 0, dead = 0, doubtful = 0;
        if (tag[i].word == word)
            continue;
        count_classes(scan, word, tag[i], class);
        for (unsigned v = 0; v < VALUES; v++) {
            uint32_t pointers = pointers_of(&class[v]), others = others_of(&class[v]);
            rest += pointers < others ? pointers : others;
            *(is_dead(&class[v])       ? &dead
              : is_doubtful(&class[v]) ? &doubtful
              : is_live(&class[v])     ? &live
                                       : &(uint16_t){0}) |= (uint16_t)(1u << v);
        }
        if (!live || !(dead | doubtful) || rest >= least)
            continue;
        if (doubtful && !find_mixed(scan, word, tag[i], class, live))
            doubtful = find_mixed(scan, word, tag[i], class, doubtful);
        else
            doubtful = 0;
        if (!(dead | doubtful))
            continue;
        least = rest;
        *ret = (struct payload){
            .word = (uint8_t)word, .tag = tag[i], .dead = dead, .doubtful = doubtful};
    }
    return least != UINT64_MAX;
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

static bool find_records(struct scan *scan, size_t period, struct records *ret)
{
    struct tag tag[TAGS];
    scan->period = period;
    scan->in_row = scan->table.words / period;
    if (scan->in_row * scan->table.rows < 2 * ALIKE)
        return false;
    size_t tags = find_tags(scan, tag);
    *ret = (struct records){.period = (uint8_t)period};
    if (period == scan->table.words)
        ret->numbers = find_numbers(scan);
    if (period == scan->table.words && !is_typed(scan->judge, scan->table.object[0]))
        return false;
    for (size_t i = 0; tags && i < period && ret->n < PAYLOADS; i++)
        if (is_payload(scan, i))
            ret->n += find_payload(scan, i, tag, tags, &ret->payload[ret->n]);
    if (ret->n)
        ret->numbers = find_numbers(scan);
    return ret->n > 0;
}

/* A block without a type may be an array, of at least three records. */
static void find_period(struct scan *scan, struct records *ret)
{
    const struct hx_word_table *table = &scan->table;
    count_places(scan);
    if (!is_typed(scan->judge, table->object[0]))
        for (size_t period = 2; period <= PERIOD_MOST && period * (PARTS - 1) <= table->words;
             period++)
            if (find_records(scan, period, ret))
                return;
    if (table->words <= WHOLE_MOST)
        find_records(scan, table->words, ret);
    else
        *ret = (struct records){0};
}

static hx_error *scan_group(void *context, uint32_t group, bool *ret_found)
{
    struct look *look = context;
    struct scan scan = {.judge = look->judge};
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
        find_period(&scan, &look->of[group]);
    }
    free(places);
    *ret_found = look->of[group].n || look->of[group].numbers;
    hx_word_table_deinit(&scan.table);
    return places ? NULL : hx_error_nomem();
}

/* --- judging ------------------------------------------------------------------------------ */

/* Bits for values of the tag that say that the word is no pointer. Other blocks of that size may be
 * arrays of something else, so one that is large enough has to show it by itself. */
static uint16_t find_dead(const struct hx_judge *judge, hx_obj object, const uint64_t *word,
                          size_t n, size_t period, const struct payload *payload)
{
    const struct hx_graph *graph = judge->graph;
    uint32_t set[VALUES + 1] = {0}, pointers[VALUES + 1] = {0}, typed[VALUES + 1] = {0};
    uint16_t dead = 0;
    if (n / period < ALIKE)
        return payload->dead | payload->doubtful;
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
    }
    for (unsigned v = 0; v < VALUES; v++) {
        bool shown =
            payload->dead >> v & 1
                ? pointers[v] < set[v] && !hx_part_below(set[v] - pointers[v], set[v], IMPURE / 2)
                : payload->doubtful >> v & 1 && is_mixed(typed[v], pointers[v]);
        dead |= (uint16_t)(shown << v);
    }
    return dead;
}

static void judge_payload(const struct look *look, hx_obj object, const uint64_t *word, size_t n,
                          size_t period, const struct payload *payload)
{
    const struct hx_graph *graph = look->judge->graph;
    const uint16_t dead = find_dead(look->judge, object, word, n, period, payload);
    for (hx_eidx e = graph->fwd[object]; dead && e < graph->fwd[object + 1]; e++) {
        const size_t i = hx_edge_offset(graph->edge[e]) / HX_WORD, at = i - i % period;
        if (payload->word != i % period || at + payload->tag.word >= n)
            continue;
        unsigned value = tag_of(word + at, payload->tag);
        if (value < VALUES && dead >> value & 1)
            hx_judge_edge(look->judge, e, HX_RULE_field);
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
}

hx_error *hx_judge_records(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    HX_TRY(hx_big_array(look.of, judge->groups->n));
    const struct hx_group_judge how = {scan_group, judge_object, &look};
    hx_error *err = hx_judge_by_group(judge, &how);
    hx_big_free(&look.of_mem);
    return err;
}
