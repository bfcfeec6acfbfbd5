/* interior.c - the rules for known interior pointers. */
#include "traverse/scan/interior.h"

#include <string.h>

#define WORD      8
#define SLACK     16   /* the request is above usable - SLACK */
#define UNSPLIT   32   /* and above this of a block whose rest was too small for another one */
#define PAGE_ZERO 4096 /* no vtable lies below */

void hx_interior_rules_init(struct hx_interior_rules *rules, const struct hx_image *image,
                            const struct hx_scan_options *options)
{
    memset(rules, 0, sizeof *rules);
    rules->image = image;
    rules->options = options;
}

/* The span that holds addr, NULL when none does. */
static inline const struct hx_span *span_of(struct hx_interior_rules *rules, uint64_t addr)
{
    const struct hx_image *image = rules->image;
    if (rules->span >= image->n || addr < image->span[rules->span].start ||
        addr >= image->span[rules->span].end) {
        rules->span = hx_image_find(image, addr);
        if (rules->span == image->n || addr < image->span[rules->span].start)
            return NULL;
    }
    return &image->span[rules->span];
}

/* The target's word at addr. */
static inline bool peek_target_word(struct hx_interior_rules *rules, uint64_t addr, uint64_t *ret)
{
    const struct hx_span *span = span_of(rules, addr);
    if (!span)
        return false;
    if (span->end - addr < WORD || !span->bytes)
        return hx_image_u64(rules->image, addr, ret); /* across two spans, or not at all */
    memcpy(ret, span->bytes + (addr - span->start), sizeof *ret);
    return true;
}

/* length, capacity, reference count, then capacity + 1 bytes of text. */
static bool is_string(struct hx_interior_rules *rules, uint64_t addr, uint64_t size)
{
    const uint64_t header = 3 * WORD + 1;
    uint64_t length, capacity;
    if (!peek_target_word(rules, addr + WORD, &capacity) || !peek_target_word(rules, addr, &length))
        return false;
    return size >= header && capacity <= size - header && size - header - capacity < UNSPLIT &&
           length <= capacity;
}

/* A length prefix, whose one element is all that follows: request - 8. Else a count in the first
 * word that divides what follows, where more slack would make every small number one. */
static bool is_counted(struct hx_interior_rules *rules, uint64_t addr, uint64_t size)
{
    uint64_t count;
    if (!peek_target_word(rules, addr, &count) || count == 0)
        return false;
    /* What follows the first word is at least one byte (else the pointer would point
     * behind the request) and lies in [low, high]. */
    uint64_t high = size - WORD;
    uint64_t low = high >= SLACK ? high - SLACK + 1 : 1;
    return count <= high && (high - count < UNSPLIT || high - high % count >= low);
}

static bool is_vtable(struct hx_interior_rules *rules, uint64_t word)
{
    if (word % WORD || word < PAGE_ZERO)
        return false;
    size_t slot = (size_t)(word * 0x9e3779b97f4a7c15u >> 32) & (HX_INTERIOR_RULES_SLOTS - 1);
    if (rules->verdict[slot] && rules->word[slot] == word)
        return rules->verdict[slot] == 2;
    bool yes = rules->options->is_vtable(rules->options->context, word);
    rules->word[slot] = word;
    rules->verdict[slot] = yes ? 2 : 1;
    return yes;
}

static bool is_base_class(struct hx_interior_rules *rules, uint64_t addr, uint64_t size,
                          uint64_t offset)
{
    uint64_t inner, first;
    return size - offset >= WORD && peek_target_word(rules, addr + offset, &inner) &&
           is_vtable(rules, inner) && peek_target_word(rules, addr, &first) &&
           is_vtable(rules, first);
}

bool hx_interior_rules_match(struct hx_interior_rules *rules, uint64_t addr, uint64_t size,
                             uint64_t offset)
{
    if (offset % WORD)
        return false;
    if (offset == 3 * WORD && is_string(rules, addr, size))
        return true;
    if (offset == WORD && is_counted(rules, addr, size))
        return true;
    return rules->options->is_vtable && is_base_class(rules, addr, size, offset);
}

void hx_interior_rules_prefetch(struct hx_interior_rules *rules, uint64_t addr, uint64_t offset)
{
    if (offset % WORD || (offset > 3 * WORD && !rules->options->is_vtable))
        return;
    const struct hx_span *span = span_of(rules, addr);
    if (!span || !span->bytes)
        return;
    const uint8_t *first = span->bytes + (addr - span->start);
    __builtin_prefetch(first);
    if (offset > 3 * WORD && offset < span->end - addr)
        __builtin_prefetch(first + offset);
}
