/* lookup.c - looking up a batch of words step by step. */
#include "traverse/scan/lookup.h"

/* kind of a word whose object is known, but not whether it contains the word or how */
#define UNPROVEN 3

/* Step 1: the directory. Leaves in entry[] the address of a unit, or an odd rank. */
static inline __attribute__((always_inline)) size_t find_units(struct hx_lookup *lookup,
                                                               uint64_t *entry)
{
    const struct hx_blockmap *map = lookup->map;
    size_t kept = 0;
    for (size_t i = 0; i < lookup->n; i++) {
        uint64_t value = lookup->value[i];
        uint64_t found = hx_blockmap_entry(map, value);
        if (!(found & 1)) {
            const struct hx_block_unit *unit = hx_blockmap_unit(map, found, value);
            __builtin_prefetch(unit);
            found = (uintptr_t)unit;
        }
        entry[kept] = found;
        lookup->value[kept] = value;
        lookup->tag[kept] = lookup->tag[i];
        kept += found != 1;
    }
    return kept;
}

/* Step 2: the rank. A word that points to no start waits for step 3. */
static inline __attribute__((always_inline)) size_t
rank_words(struct hx_lookup *lookup, const uint64_t *entry, size_t n, size_t *unproven)
{
    const struct hx_blockmap *map = lookup->map;
    size_t kept = 0, waiting = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = lookup->value[i], rank = entry[i] >> 1;
        bool start = false;
        if (!(entry[i] & 1)) {
            const struct hx_block_unit *unit = (const struct hx_block_unit *)(uintptr_t)entry[i];
            rank = hx_blockmap_rank(map, unit, value);
            start = hx_blockmap_starts(map, unit, value);
        }
        lookup->value[kept] = value;
        lookup->tag[kept] = lookup->tag[i];
        lookup->target[kept] = (hx_obj)(rank - 1);
        lookup->kind[kept] = start ? HX_EDGE_START : UNPROVEN;
        if (!start && rank) {
            __builtin_prefetch(&lookup->graph->addr[rank - 1]);
            __builtin_prefetch(&lookup->graph->size[rank - 1]);
            waiting++;
        }
        kept += rank != 0;
    }
    *unproven = waiting;
    return kept;
}

/* Step 3: whether the object reaches that far. */
static size_t prove_words(struct hx_lookup *lookup, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        hx_obj target = lookup->target[i];
        uint8_t kind = lookup->kind[i];
        uint64_t value = lookup->value[i];
        if (kind == UNPROVEN) {
            uint64_t addr = lookup->graph->addr[target];
            if (value - addr >= lookup->graph->size[target])
                continue;
            hx_interior_rules_prefetch(&lookup->rules, addr, value - addr);
        }
        lookup->value[kept] = value;
        lookup->tag[kept] = lookup->tag[i];
        lookup->target[kept] = target;
        lookup->kind[kept++] = kind;
    }
    return kept;
}

/* Step 4: what kind of interior pointer it is. */
static void judge_words(struct hx_lookup *lookup, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lookup->kind[i] != UNPROVEN)
            continue;
        uint64_t addr = lookup->graph->addr[lookup->target[i]];
        uint64_t size = lookup->graph->size[lookup->target[i]];
        bool matches = hx_interior_rules_match(&lookup->rules, addr, size, lookup->value[i] - addr);
        lookup->kind[i] = matches ? HX_EDGE_KNOWN : HX_EDGE_INTERIOR;
    }
}

static inline __attribute__((always_inline)) size_t run(struct hx_lookup *lookup)
{
    uint64_t entry[HX_LOOKUP_BATCH + HX_LOOKUP_RUN];
    size_t unproven;
    size_t n = find_units(lookup, entry);
    n = rank_words(lookup, entry, n, &unproven);
    lookup->n = 0;
    if (unproven) {
        n = prove_words(lookup, n);
        judge_words(lookup, n);
    }
    return n;
}

#ifdef __x86_64__
/* The baseline has no instruction for a population count; nearly every machine has. */
__attribute__((target("popcnt"))) static size_t run_popcnt(struct hx_lookup *lookup)
{
    return run(lookup);
}
#endif

static size_t run_plain(struct hx_lookup *lookup)
{
    return run(lookup);
}

size_t hx_lookup_run(struct hx_lookup *lookup)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("popcnt"))
        return run_popcnt(lookup);
#endif
    return run_plain(lookup);
}
