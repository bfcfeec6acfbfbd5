/* recording.c - making, checking and describing what a recorder knows. */
#include "model/recording.h"

#include "base/cleanup.h"
#include "model/function_name.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

hx_error *hx_recording_create(struct hx_recording **ret)
{
    struct hx_recording *recording = calloc(1, sizeof *recording);
    if (!recording)
        return hx_error_nomem();
    *ret = recording;
    return NULL;
}

static void free_place(struct hx_rec_place *place)
{
    for (size_t i = 0; i < place->n_lines; i++) {
        free(place->lines[i].function);
        free(place->lines[i].source);
    }
    free(place->lines);
}

void hx_recording_destroy(struct hx_recording *recording)
{
    if (!recording)
        return;
    for (size_t i = 0; i < recording->files.n; i++) {
        free(recording->files.v[i].path);
        free(recording->files.v[i].name);
        free(recording->files.v[i].build_id);
    }
    for (size_t i = 0; i < recording->places.n; i++)
        free_place(&recording->places.v[i]);
    hx_vec_free(&recording->files);
    hx_vec_free(&recording->places);
    hx_vec_free(&recording->stack_places);
    hx_vec_free(&recording->stacks);
    hx_vec_free(&recording->costs);
    hx_big_free(&recording->block_mem);
    free(recording);
}

const struct hx_rec_block *hx_recording_block(const struct hx_recording *recording,
                                              uint64_t address)
{
    uint64_t low = 0, high = recording->n_blocks;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (recording->block[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < recording->n_blocks && recording->block[low].address == address;
    return found ? &recording->block[low] : NULL;
}

static void append_function(const struct hx_recording *recording, const struct hx_rec_place *place,
                            size_t line, struct hx_text *text)
{
    if (line < place->n_lines && place->lines[line].function)
        hx_function_name_short(text, place->lines[line].function);
    else if (place->file < recording->files.n)
        hx_text_putf(text, "%s+0x%" PRIx64, recording->files.v[place->file].name, place->vaddr);
    else
        hx_text_putf(text, "0x%" PRIx64, place->vaddr);
}

/* A function of a stack: a line of the place of one of its frames. */
struct at {
    uint32_t frame;
    size_t line;
};

static const struct hx_rec_place *place_at(const struct hx_recording *recording,
                                           const struct hx_rec_stack *stack, uint32_t frame)
{
    return &recording->places.v[recording->stack_places.v[stack->first + frame]];
}

/* The next function; the last one's frame is stack->n. */
static struct at next(const struct hx_recording *recording, const struct hx_rec_stack *stack,
                      struct at at)
{
    if (++at.line < place_at(recording, stack, at.frame)->n_lines)
        return at;
    return (struct at){at.frame + 1, 0};
}

/* The first function that is not the allocator's, if any is not; the same of what belongs to a
 * language's library alone. */
static struct at first_outside(const struct hx_recording *recording,
                               const struct hx_rec_stack *stack)
{
    struct at at = {0, 0}, outside;
    while (at.frame < stack->n && place_at(recording, stack, at.frame)->allocator)
        at.frame++;
    at.frame = at.frame < stack->n ? at.frame : 0;
    for (outside = at; outside.frame < stack->n; outside = next(recording, stack, outside)) {
        const struct hx_rec_place *place = place_at(recording, stack, outside.frame);
        const char *function = place->n_lines ? place->lines[outside.line].function : NULL;
        if (!place->allocator && (!function || !hx_function_name_internal(function)))
            return outside;
    }
    return at;
}

void hx_recording_label(const struct hx_recording *recording, uint32_t number, size_t frames,
                        struct hx_text *text)
{
    if (number >= recording->stacks.n) {
        hx_text_puts(text, number == HX_SITE_BEFORE ? "<before attach>" : "<unknown>");
        return;
    }
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    size_t shown = 0;
    bool more = stack->cut;
    struct at at = first_outside(recording, stack);
    bool only_allocator = at.frame < stack->n && place_at(recording, stack, at.frame)->allocator;
    for (; at.frame < stack->n; at = next(recording, stack, at)) {
        const struct hx_rec_place *place = place_at(recording, stack, at.frame);
        if (place->allocator && !only_allocator)
            continue;
        if (shown == frames) {
            more = true;
            break;
        }
        hx_text_puts(text, shown++ ? " < " : "");
        append_function(recording, place, at.line, text);
    }
    if (more)
        hx_text_puts(text, shown ? " < ..." : "...");
}

/* How many allocations a recorded one stands for. */
static double weight(const struct hx_recording *recording, uint64_t bytes)
{
    if (!recording->sample_bytes)
        return 1;
    return -1 / expm1(-(double)(bytes ? bytes : 1) / (double)recording->sample_bytes);
}

/* Sizes and weights are as large as the target likes. */
static uint64_t rounded(double value)
{
    return value < 0x1p63 ? (uint64_t)(value + 0.5) : (uint64_t)1 << 63;
}

void hx_recording_drop_young(struct hx_recording *recording, uint64_t age_ns)
{
    uint64_t latest = recording->frozen_ns > age_ns ? recording->frozen_ns - age_ns : 0;
    HX_FREE double *live = calloc(recording->stacks.n + 1, sizeof *live);
    HX_FREE double *bytes = calloc(recording->stacks.n + 1, sizeof *bytes);
    if (!live || !bytes)
        return; /* then the young ones count, too */
    for (size_t i = 0; i < recording->costs.n; i++)
        recording->costs.v[i].live_variance = 0;
    for (uint64_t i = 0; i < recording->n_blocks; i++) {
        const struct hx_rec_block *block = &recording->block[i];
        if (block->born_ns > latest || block->stack >= recording->costs.n)
            continue;
        double w = weight(recording, block->requested), size = (double)block->requested;
        live[block->stack] += w;
        bytes[block->stack] += w * size;
        recording->costs.v[block->stack].live_variance += w * (w - 1) * size * size;
    }
    for (size_t i = 0; i < recording->costs.n; i++) {
        recording->costs.v[i].live = rounded(live[i]);
        recording->costs.v[i].live_bytes = rounded(bytes[i]);
    }
}

static hx_error *broken(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "recording", NULL, "%s", why);
}

hx_error *hx_recording_check(const struct hx_recording *recording)
{
    if (recording->costs.n != recording->stacks.n)
        return broken("as many costs as stacks were expected");
    for (size_t i = 0; i < recording->stacks.n; i++) {
        const struct hx_rec_stack *stack = &recording->stacks.v[i];
        if (stack->first > recording->stack_places.n ||
            stack->n > recording->stack_places.n - stack->first)
            return broken("a stack has frames that are not there");
    }
    for (size_t i = 0; i < recording->stack_places.n; i++)
        if (recording->stack_places.v[i] >= recording->places.n)
            return broken("a frame has a place that is not there");
    for (size_t i = 0; i < recording->places.n; i++)
        if (recording->files.n && recording->places.v[i].file >= recording->files.n &&
            recording->places.v[i].file != UINT32_MAX)
            return broken("a place has a file that is not there");
    for (uint64_t i = 0; i < recording->n_blocks; i++) {
        if (i && recording->block[i - 1].address >= recording->block[i].address)
            return broken("blocks are not sorted");
        if (recording->block[i].stack >= recording->stacks.n &&
            recording->block[i].stack != HX_NO_STACK)
            return broken("a block has a stack that is not there");
    }
    return NULL;
}
