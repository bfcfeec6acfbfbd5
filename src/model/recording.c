/* recording.c - making, checking and describing what a recorder knows. */
#include "model/recording.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "model/function_name.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

hx_error *hx_recording_create(struct hx_recording **ret)
{
    struct hx_recording *recording = calloc(1, sizeof *recording);
    HX_NEED(recording);
    *ret = recording;
    return NULL;
}

void hx_rec_place_free_lines(struct hx_rec_place *place)
{
    for (size_t i = 0; i < place->n_lines; i++) {
        free(place->lines[i].function);
        free(place->lines[i].symbol);
        free(place->lines[i].source);
        free(place->lines[i].declared);
        free(place->lines[i].brief);
    }
    free(place->lines);
    place->lines = NULL;
    place->n_lines = 0;
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
        hx_rec_place_free_lines(&recording->places.v[i]);
    hx_vec_free(&recording->files);
    hx_vec_free(&recording->places);
    hx_vec_free(&recording->stack_places);
    hx_vec_free(&recording->stacks);
    hx_vec_free(&recording->costs);
    hx_vec_free(&recording->sizes);
    for (size_t i = 0; i < recording->sized_types.n; i++)
        free(recording->sized_types.v[i].name);
    hx_vec_free(&recording->sized_types);
    hx_text_free(&recording->unread_notes);
    hx_big_free(&recording->block_mem);
    free(recording);
}

const struct hx_rec_block *hx_recording_block(const struct hx_recording *recording,
                                              uint64_t address)
{
    uint64_t low = HX_LOWER_BOUND(recording->n_blocks, i, recording->block[i].address < address);
    bool found = low < recording->n_blocks && recording->block[low].address == address;
    return found ? &recording->block[low] : NULL;
}

static void append_function(const struct hx_recording *recording, const struct hx_rec_place *place,
                            size_t line, struct hx_text *text)
{
    const char *function = line < place->n_lines ? place->lines[line].function : NULL;
    const char *brief = function ? place->lines[line].brief : NULL;
    if (function && place->kind == HX_REC_REGION)
        hx_text_puts(text, function); /* a label, not to be shortened */
    else if (brief)
        hx_text_puts(text, brief);
    else if (function)
        hx_function_name_short(text, function);
    else if (place->file < recording->files.n)
        hx_text_putf(text, "%s+0x%" PRIx64, recording->files.v[place->file].name, place->vaddr);
    else
        hx_text_putf(text, "0x%" PRIx64, place->vaddr);
}

/* --- labels ------------------------------------------------------------------------ */

/* A function of a stack: a line of the place of one of its frames. Where a captured stack was
 * entered the walk goes on in that one, whose number is lower: it ends. */
struct at {
    const struct hx_rec_stack *stack;
    uint32_t number; /* of the stack */
    uint32_t frame;  /* stack->n: behind the last one */
    size_t line;
};

static const struct hx_rec_place *place_at(const struct hx_recording *recording,
                                           const struct at *at)
{
    return &recording->places.v[recording->stack_places.v[at->stack->first + at->frame]];
}

/* Goes into what was entered at this frame; of what is not known any more the frames of who entered
 * it are left. */
static void enter_caller(const struct hx_recording *recording, struct at *at)
{
    while (at->frame < at->stack->n) {
        const struct hx_rec_place *place = place_at(recording, at);
        if (place->kind != HX_REC_DEFERRED)
            return;
        bool known = place->stack < at->number;
        at->frame = known ? 0 : at->frame + 1;
        if (known) {
            at->number = place->stack;
            at->stack = &recording->stacks.v[at->number];
        }
    }
}

static void next_frame(const struct hx_recording *recording, struct at *at)
{
    at->frame++;
    at->line = 0;
    enter_caller(recording, at);
}

static void step_to_caller(const struct hx_recording *recording, struct at *at)
{
    if (++at->line >= place_at(recording, at)->n_lines)
        next_frame(recording, at);
}

static struct at innermost(const struct hx_recording *recording, uint32_t number)
{
    struct at at = {.stack = &recording->stacks.v[number], .number = number};
    enter_caller(recording, &at);
    return at;
}

static bool is_internal(const struct hx_rec_line *line)
{
    return line->brief ? line->internal
                       : line->function && hx_function_name_internal(line->function);
}

/* The first function that is not the allocator's, if any is not; the same of what belongs to a
 * language's library alone. */
static struct at first_outside(const struct hx_recording *recording, uint32_t number)
{
    struct at at = innermost(recording, number);
    while (at.frame < at.stack->n && place_at(recording, &at)->allocator)
        next_frame(recording, &at);
    if (at.frame == at.stack->n)
        at = innermost(recording, number);
    for (struct at outside = at; outside.frame < outside.stack->n;
         step_to_caller(recording, &outside)) {
        const struct hx_rec_place *place = place_at(recording, &outside);
        bool internal = place->kind == HX_REC_CODE && place->n_lines &&
                        is_internal(&place->lines[outside.line]);
        if (!place->allocator && !internal)
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
    size_t shown = 0;
    struct at at = first_outside(recording, number);
    bool some = at.frame < at.stack->n, more = false;
    bool only_allocator = some && place_at(recording, &at)->allocator;
    if (some && !only_allocator && place_at(recording, &at)->recorder) {
        hx_text_puts(text, "<recorder>");
        return;
    }
    for (; at.frame < at.stack->n && !more; step_to_caller(recording, &at)) {
        const struct hx_rec_place *place = place_at(recording, &at);
        if (place->allocator && !only_allocator)
            continue;
        more = shown == frames;
        if (more)
            break;
        hx_text_puts(text, shown++ ? " < " : "");
        append_function(recording, place, at.line, text);
    }
    if (more || at.stack->cut)
        hx_text_puts(text, shown ? " < ..." : "...");
    else if (!shown && recording->stacks.v[number].n) /* nothing but what is lost */
        hx_text_puts(text, "<unknown>");
}

/* How many allocations a recorded one stands for. */
static double sample_weight(const struct hx_recording *recording, uint64_t bytes)
{
    if (!recording->sample_bytes)
        return 1;
    return -1 / expm1(-(double)(bytes ? bytes : 1) / (double)recording->sample_bytes);
}

/* Sizes and weights are as large as the target likes. */
static uint64_t round_estimate(double value)
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
        double w = sample_weight(recording, block->requested), size = (double)block->requested;
        live[block->stack] += w;
        bytes[block->stack] += w * size;
        recording->costs.v[block->stack].live_variance += w * (w - 1) * size * size;
    }
    for (size_t i = 0; i < recording->costs.n; i++) {
        recording->costs.v[i].live = round_estimate(live[i]);
        recording->costs.v[i].live_bytes = round_estimate(bytes[i]);
    }
}

static hx_error *broken_recording(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "recording", NULL, "%s", why);
}

static uint64_t sum_size_classes(const uint64_t by_class[HX_SIZE_CLASSES])
{
    uint64_t all = 0;
    for (unsigned i = 0; i < HX_SIZE_CLASSES; i++)
        all += by_class[i];
    return all;
}

static hx_error *check_stacks(const struct hx_recording *recording)
{
    for (uint32_t i = 0; i < recording->stacks.n; i++) {
        const struct hx_rec_stack *stack = &recording->stacks.v[i];
        if (stack->first > recording->stack_places.n ||
            stack->n > recording->stack_places.n - stack->first)
            return broken_recording("a stack has frames that are not there");
        for (uint32_t k = 0; k < stack->n; k++) {
            uint32_t number = recording->stack_places.v[stack->first + k];
            if (number >= recording->places.n)
                return broken_recording("a frame has a place that is not there");
            const struct hx_rec_place *place = &recording->places.v[number];
            if (place->kind == HX_REC_DEFERRED && place->stack >= i && place->stack != HX_NO_STACK)
                return broken_recording("a stack enters one that does not come before it");
        }
    }
    return NULL;
}

/* Costs of stacks, where there are any: those of threads at the stop have none. */
static hx_error *check_costs(const struct hx_recording *recording)
{
    if (recording->costs.n != recording->stacks.n)
        return broken_recording("as many costs as stacks were expected");
    for (size_t i = 0; i < recording->costs.n; i++) {
        const struct hx_rec_costs *costs = &recording->costs.v[i];
        uint64_t allocated = sum_size_classes(costs->alloc_class),
                 freed = sum_size_classes(costs->freed_class);
        if ((allocated || freed) &&
            (allocated != costs->alloc_bytes || freed != costs->freed_bytes))
            return broken_recording("classes of sizes do not add up to what was allocated");
    }
    for (size_t i = 1; i < recording->sizes.n; i++)
        if (recording->sizes.v[i - 1].size >= recording->sizes.v[i].size)
            return broken_recording("sizes are not sorted");
    for (size_t i = 1; i < recording->sized_types.n; i++)
        if (recording->sized_types.v[i - 1].bytes > recording->sized_types.v[i].bytes)
            return broken_recording("types are not sorted by size");
    return NULL;
}

hx_error *hx_recording_check(const struct hx_recording *recording)
{
    HX_TRY(check_costs(recording));
    HX_TRY(check_stacks(recording));
    for (size_t i = 0; i < recording->places.n; i++) {
        const struct hx_rec_place *place = &recording->places.v[i];
        if (place->kind > HX_REC_DEFERRED)
            return broken_recording("a place is of no kind");
        if (recording->files.n && place->file >= recording->files.n && place->file != UINT32_MAX)
            return broken_recording("a place has a file that is not there");
    }
    for (uint64_t i = 0; i < recording->n_blocks; i++) {
        if (i && recording->block[i - 1].address >= recording->block[i].address)
            return broken_recording("blocks are not sorted");
        if (recording->block[i].stack >= recording->stacks.n &&
            recording->block[i].stack != HX_NO_STACK)
            return broken_recording("a block has a stack that is not there");
    }
    return NULL;
}
