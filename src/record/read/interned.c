/* interned.c - numbers for stacks and places. */
#include "record/read/interned.h"

#include "sym/code/code.h" /* HX_NO_FILE */

#include <stdlib.h>
#include <string.h>

void hx_interned_init(struct hx_interned *interned)
{
    *interned = (struct hx_interned){.seed = hx_hash_seed()};
}

void hx_interned_deinit(struct hx_interned *interned)
{
    for (size_t i = 0; i < interned->places.n; i++)
        if (interned->places.v[i].kind == HX_REC_REGION)
            hx_rec_place_free_lines(&interned->places.v[i]);
    hx_vec_free(&interned->places);
    hx_vec_free(&interned->centres);
    hx_vec_free(&interned->chain);
    hx_index_free(&interned->centre_index);
    hx_vec_free(&interned->stack_places);
    hx_vec_free(&interned->stacks);
    hx_vec_free(&interned->dense);
    hx_vec_free(&interned->keys);
    hx_index_free(&interned->place_index);
    hx_index_free(&interned->stack_index);
    hx_index_free(&interned->key_index);
}

uint64_t hx_interned_bytes(const struct hx_interned *interned)
{
    return interned->places.cap * sizeof *interned->places.v +
           (interned->stack_places.cap + interned->dense.cap) * sizeof(uint32_t) +
           interned->stacks.cap * sizeof *interned->stacks.v +
           interned->keys.cap * sizeof *interned->keys.v +
           interned->centres.cap * sizeof *interned->centres.v + interned->chain.cap +
           interned->text_bytes +
           (uint64_t)(interned->place_index.cap + interned->stack_index.cap +
                      interned->key_index.cap + interned->centre_index.cap) *
               sizeof(struct hx_index_slot);
}

/* --- places ---------------------------------------------------------------------- */

static bool same_place_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* A region without a file is what it is called: its memory may be another one's later. */
static bool same_place(const struct hx_rec_place *a, const struct hx_rec_place *b)
{
    if (a->vaddr != b->vaddr || a->file != b->file || a->kind != b->kind || a->stack != b->stack)
        return false;
    return a->n_lines == 0 || b->n_lines == 0 || a->file != HX_NO_FILE ||
           (same_place_text(a->lines->function, b->lines->function) &&
            same_place_text(a->lines->source, b->lines->source) &&
            a->lines->line == b->lines->line);
}

/* *ret_new: the place was taken over as it is, with its lines. */
static hx_error *intern_place(struct hx_interned *interned, const struct hx_rec_place *place,
                              uint32_t *ret, bool *ret_new)
{
    uint64_t hash = hx_hash(interned->seed, hx_hash(place->vaddr, place->file));
    hash = hx_hash(hash, (uint64_t)place->stack << 8 | place->kind);
    for (uint32_t at = 0; hx_index_next(&interned->place_index, hash, &at, ret);)
        if (same_place(&interned->places.v[*ret], place))
            return NULL;
    *ret = (uint32_t)interned->places.n;
    HX_TRY(hx_index_add(&interned->place_index, hash, *ret));
    if (hx_vec_push(&interned->places, *place)) {
        *ret_new = true;
        return NULL;
    }
    hx_index_remove(&interned->place_index, hash, *ret);
    return hx_error_nomem();
}

/* The next of the texts that stand one behind the other, as an owned string; NULL: none, or no
 * memory. */
static char *next_region_text(const char **text, const char *end)
{
    size_t n = strnlen(*text, (size_t)(end - *text));
    char *s = n ? strndup(*text, n) : NULL;
    *text += n < (size_t)(end - *text) ? n + 1 : n;
    return s;
}

/* A line of a region: its label, and where it was written. */
static struct hx_rec_line *region_line(const struct hx_ev_centre *event)
{
    const char *text = event->text, *end = text + event->n;
    struct hx_rec_line *line = calloc(1, sizeof *line);
    if (!line)
        return NULL;
    line->function = next_region_text(&text, end);
    line->declared = next_region_text(&text, end);
    line->source = next_region_text(&text, end);
    line->line = event->line;
    if (!line->function)
        line->function = strdup("<unknown region>");
    return line;
}

static hx_error *intern_region(struct hx_interned *interned, const struct hx_ev_centre *event,
                               const struct hx_location *location, uint32_t *ret)
{
    struct hx_rec_place place = {.file = location->file,
                                 .kind = HX_REC_REGION,
                                 .stack = HX_NO_STACK,
                                 .vaddr = location->vaddr,
                                 .lines = region_line(event)};
    bool added = false;
    place.n_lines = place.lines != NULL;
    hx_error *err = !place.lines || !place.lines->function ? hx_error_nomem() : NULL;
    if (!err)
        err = intern_place(interned, &place, ret, &added);
    if (added)
        interned->text_bytes += event->n + sizeof *place.lines;
    else
        hx_rec_place_free_lines(&place);
    return err;
}

static bool find_interned_centre(const struct hx_interned *interned, uint64_t word, uint32_t *ret)
{
    uint64_t hash = hx_hash(interned->seed, word);
    uint32_t number;
    for (uint32_t at = 0; hx_index_next(&interned->centre_index, hash, &at, &number);)
        if (interned->centres.v[number].word == word) {
            *ret = interned->centres.v[number].place;
            return true;
        }
    return false;
}

/* A word means one region for ever. */
hx_error *hx_interned_centre(struct hx_interned *interned, const struct hx_reader_source *source,
                             const struct hx_ev_centre *event)
{
    uint32_t place;
    if (HX_EV_TAG(event->word) != HX_EV_REGION || interned->centres.n >= HX_INTERNED_CENTRES ||
        find_interned_centre(interned, event->word, &place))
        return NULL;
    struct hx_location location = {.file = HX_NO_FILE, .vaddr = event->address};
    source->locate(source->context, event->address, &location);
    HX_TRY(intern_region(interned, event, &location, &place));
    HX_NEED(hx_vec_push(&interned->centres, (struct hx_interned_centre){event->word, place}));
    return hx_index_add(&interned->centre_index, hx_hash(interned->seed, event->word),
                        (uint32_t)interned->centres.n - 1);
}

/* The place of a region's word, from the source if need be. Unknown regions share one place, and
 * the source is asked again each time. */
static hx_error *region_place(struct hx_interned *interned, const struct hx_reader_source *source,
                              uint64_t word, uint32_t *ret)
{
    union {
        struct hx_ev_centre event;
        char bytes[sizeof(struct hx_ev_centre) + HX_EV_CENTRE_TEXT];
    } read = {.event = {0}};
    if (find_interned_centre(interned, word, ret))
        return NULL;
    if (source->centre && source->centre(source->context, word, &read.event) &&
        read.event.n <= HX_EV_CENTRE_TEXT) {
        read.event.word = word;
        HX_TRY(hx_interned_centre(interned, source, &read.event));
        if (find_interned_centre(interned, word, ret))
            return NULL;
    }
    struct hx_location nowhere = {.file = HX_NO_FILE};
    interned->lost_regions++;
    return intern_region(interned, &(struct hx_ev_centre){.n = 0}, &nowhere, ret);
}

hx_error *hx_interned_copy_lines(const struct hx_rec_place *from, struct hx_rec_place *to)
{
    to->lines = from->n_lines ? calloc(from->n_lines, sizeof *to->lines) : NULL;
    to->n_lines = to->lines ? from->n_lines : 0;
    for (size_t i = 0; i < to->n_lines; i++) {
        const struct hx_rec_line *line = &from->lines[i];
        to->lines[i].function = line->function ? strdup(line->function) : NULL;
        to->lines[i].source = line->source ? strdup(line->source) : NULL;
        to->lines[i].declared = line->declared ? strdup(line->declared) : NULL;
        to->lines[i].line = line->line;
        if ((line->function && !to->lines[i].function) || (line->source && !to->lines[i].source) ||
            (line->declared && !to->lines[i].declared))
            return hx_error_nomem();
    }
    return to->n_lines == from->n_lines ? NULL : hx_error_nomem();
}

/* --- stacks ---------------------------------------------------------------------- */

static uint32_t find_known_stack(const struct hx_interned *interned, uint64_t key)
{
    uint32_t stack = hx_interned_lookup(interned, key), number;
    if (stack != HX_NO_STACK || key < HX_INTERNED_DENSE)
        return stack;
    uint64_t hash = hx_hash(interned->seed, key);
    for (uint32_t at = 0; hx_index_next(&interned->key_index, hash, &at, &number);)
        if (interned->keys.v[number].key == key)
            return interned->keys.v[number].stack;
    return HX_NO_STACK;
}

/* A stack was entered: by its number, which is known by now or never. One that is known takes the
 * place of all that is further outside: what was entered there counts for nothing then. */
static hx_error *deferred_place(struct hx_interned *interned, uint64_t key, bool *replaced,
                                uint32_t *ret)
{
    struct hx_rec_place place = {
        .file = HX_NO_FILE, .kind = HX_REC_DEFERRED, .stack = find_known_stack(interned, key)};
    bool added = false;
    if (*replaced ||
        (place.stack != HX_NO_STACK && interned->chain.v[place.stack] + 1 >= HX_INTERNED_CHAIN))
        place.stack = HX_NO_STACK;
    interned->lost_captures += place.stack == HX_NO_STACK && !*replaced;
    *replaced |= place.stack != HX_NO_STACK;
    return intern_place(interned, &place, ret, &added);
}

static hx_error *code_place(struct hx_interned *interned, const struct hx_reader_source *source,
                            uint64_t frame, bool exact, uint32_t *ret, bool *ret_start)
{
    struct hx_location location = {.file = HX_NO_FILE, .vaddr = frame};
    source->locate(source->context, frame, &location);
    struct hx_rec_place place = {.file = location.file,
                                 .allocator = location.allocator,
                                 .stack = HX_NO_STACK,
                                 .vaddr = location.vaddr - (exact || !location.vaddr ? 0 : 1)};
    bool added = false;
    *ret_start = location.start;
    return intern_place(interned, &place, ret, &added);
}

static hx_error *place_frames(struct hx_interned *interned, const struct hx_reader_source *source,
                              const uint64_t *frame, size_t n, uint64_t exact, uint32_t *ret,
                              bool *cut)
{
    bool start = false, replaced = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t tag = HX_EV_TAG(frame[i]);
        start = false;
        if (tag == HX_EV_REGION)
            HX_TRY(region_place(interned, source, frame[i], &ret[i]));
        else if (tag == HX_EV_DEFERRED)
            HX_TRY(deferred_place(interned, HX_EV_VALUE(frame[i]), &replaced, &ret[i]));
        else
            HX_TRY(
                code_place(interned, source, frame[i], i < 64 && exact >> i & 1, &ret[i], &start));
    }
    *cut &= !start;
    return NULL;
}

static bool same_stack(const struct hx_interned *interned, uint32_t number, const uint32_t *place,
                       size_t n, bool cut)
{
    const struct hx_rec_stack *stack = &interned->stacks.v[number];
    return stack->n == n && stack->cut == cut &&
           (!n || !memcmp(&interned->stack_places.v[stack->first], place, n * sizeof *place));
}

static uint8_t chain_of(const struct hx_interned *interned, const uint32_t *place, size_t n)
{
    uint8_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t entered = interned->places.v[place[i]].stack;
        if (entered != HX_NO_STACK && interned->chain.v[entered] >= most)
            most = (uint8_t)(interned->chain.v[entered] + 1);
    }
    return most;
}

static hx_error *intern_stack(struct hx_interned *interned, const uint32_t *place, size_t n,
                              bool cut, uint32_t *ret)
{
    uint64_t hash = hx_hash(interned->seed, n << 1 | cut);
    for (size_t i = 0; i < n; i++)
        hash = hx_hash(hash, place[i]);
    for (uint32_t at = 0; hx_index_next(&interned->stack_index, hash, &at, ret);)
        if (same_stack(interned, *ret, place, n, cut))
            return NULL;
    *ret = HX_NO_STACK;
    if (interned->stacks.n >= HX_INTERNED_STACKS ||
        interned->stack_places.n + n > HX_INTERNED_FRAMES)
        return NULL;
    struct hx_rec_stack stack = {.first = interned->stack_places.n, .n = (uint32_t)n, .cut = cut};
    HX_NEED(hx_vec_reserve(&interned->stack_places, interned->stack_places.n + n) &&
            hx_vec_reserve(&interned->chain, interned->stacks.n + 1) &&
            hx_vec_reserve(&interned->stacks, interned->stacks.n + 1));
    uint32_t number = (uint32_t)interned->stacks.n;
    HX_TRY(hx_index_add(&interned->stack_index, hash, number));
    if (n)
        memcpy(&interned->stack_places.v[stack.first], place, n * sizeof *place);
    interned->stack_places.n += n;
    interned->chain.v[interned->chain.n++] = chain_of(interned, place, n);
    interned->stacks.v[interned->stacks.n++] = stack;
    *ret = number;
    return NULL;
}

/* From now on the key means that stack. */
static hx_error *set_key(struct hx_interned *interned, uint64_t key, uint32_t stack)
{
    if (key < HX_INTERNED_DENSE) {
        size_t n = interned->dense.n;
        if (key >= n) {
            HX_NEED(hx_vec_reserve(&interned->dense, key + 1));
            memset(interned->dense.v + n, 0, (key + 1 - n) * sizeof *interned->dense.v);
            interned->dense.n = key + 1;
        }
        interned->dense.v[key] = stack + 1;
        return NULL;
    }
    uint64_t hash = hx_hash(interned->seed, key);
    uint32_t number;
    for (uint32_t at = 0; hx_index_next(&interned->key_index, hash, &at, &number);)
        if (interned->keys.v[number].key == key) {
            interned->keys.v[number].stack = stack;
            return NULL;
        }
    if (interned->keys.n >= HX_INTERNED_STACKS)
        return NULL;
    HX_NEED(hx_vec_push(&interned->keys, (struct hx_interned_key){key, stack}));
    return hx_index_add(&interned->key_index, hash, (uint32_t)interned->keys.n - 1);
}

/* --- stacks with their keys --------------------------------------------------------- */

struct frames {
    uint64_t word[HX_EV_FRAMES_MAX];
    size_t n;
    uint64_t exact;
    bool cut;
};

/* Interns frames; what they enter is known, or never will be. */
static hx_error *intern_frames(struct hx_interned *interned, const struct hx_reader_source *source,
                               uint64_t key, const uint64_t *frame, size_t n, uint64_t exact,
                               bool cut, uint32_t *ret)
{
    uint32_t place[HX_EV_FRAMES_MAX];
    *ret = HX_NO_STACK;
    if (n > HX_EV_FRAMES_MAX) {
        n = HX_EV_FRAMES_MAX;
        cut = true;
    }
    HX_TRY(place_frames(interned, source, frame, n, exact, place, &cut));
    HX_TRY(intern_stack(interned, place, n, cut, ret));
    return *ret == HX_NO_STACK ? NULL : set_key(interned, key, *ret);
}

static bool read_interned_stack(const struct hx_reader_source *source, uint64_t key,
                                struct frames *ret)
{
    ret->n = 0;
    ret->exact = 0;
    ret->cut = false;
    return source->stack && source->stack(source->context, key, ret->word, HX_EV_FRAMES_MAX,
                                          &ret->n, &ret->exact, &ret->cut);
}

/* Stacks that are waiting for what they enter: outermost first. A key is on the way once, so stacks
 * that enter each other in a ring end where it closes. */
struct way {
    struct {
        uint64_t key;
        size_t looked; /* words of it that were looked at */
    } step[HX_INTERNED_CHAIN];
    size_t n;
    size_t read; /* stacks that the source was asked for */
};
#define READ_MAX 1024 /* for one key: a stack may enter many others */

static bool is_on_way(const struct way *way, uint64_t key)
{
    for (size_t i = 0; i < way->n; i++)
        if (way->step[i].key == key)
            return true;
    return false;
}

/* The next stack to be known before those frames; 0: none. Innermost first, until one is known. */
static uint64_t next_entered(const struct hx_interned *interned, const struct way *way,
                             const uint64_t *frame, size_t n, size_t *looked)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = frame[i], key = HX_EV_VALUE(word);
        if (HX_EV_TAG(word) != HX_EV_DEFERRED || key < HX_EV_KEY_FIRST)
            continue;
        if (find_known_stack(interned, key) != HX_NO_STACK)
            return 0;
        if (i < *looked || is_on_way(way, key))
            continue;
        *looked = i + 1;
        return key;
    }
    return 0;
}

/* Makes a stack known that the source has, and before it those that it enters. Nothing is kept of
 * a stack that waits but how far it was looked at: it is asked for again. */
static hx_error *learn_stack(struct hx_interned *interned, const struct hx_reader_source *source,
                             uint64_t key)
{
    struct way way = {.step[0].key = key, .n = 1};
    struct frames frames;
    if (interned->stacks.n >= HX_INTERNED_STACKS)
        return NULL;
    while (way.n) {
        uint64_t on = way.step[way.n - 1].key, entered = 0;
        bool there = read_interned_stack(source, on, &frames);
        if (there && way.n < HX_INTERNED_CHAIN && way.read++ < READ_MAX)
            entered =
                next_entered(interned, &way, frames.word, frames.n, &way.step[way.n - 1].looked);
        if (entered) {
            way.step[way.n].key = entered;
            way.step[way.n++].looked = 0;
            continue;
        }
        way.n--;
        uint32_t stack;
        if (there)
            HX_TRY(intern_frames(interned, source, on, frames.word, frames.n, frames.exact,
                                 frames.cut, &stack));
    }
    return NULL;
}

hx_error *hx_interned_add(struct hx_interned *interned, const struct hx_reader_source *source,
                          uint64_t key, const uint64_t *frame, size_t n, uint64_t exact, bool cut,
                          uint32_t *ret)
{
    const struct way itself = {.step[0].key = key, .n = 1};
    *ret = HX_NO_STACK;
    if (key < HX_EV_KEY_FIRST)
        return NULL;
    size_t words = n < HX_EV_FRAMES_MAX ? n : HX_EV_FRAMES_MAX;
    for (size_t looked = 0; source->stack;) {
        uint64_t entered = next_entered(interned, &itself, frame, words, &looked);
        if (!entered)
            break;
        HX_TRY(learn_stack(interned, source, entered));
    }
    return intern_frames(interned, source, key, frame, n, exact, cut, ret);
}

hx_error *hx_interned_find(struct hx_interned *interned, const struct hx_reader_source *source,
                           uint64_t key, uint32_t *ret)
{
    *ret = find_known_stack(interned, key);
    if (*ret != HX_NO_STACK || key < HX_EV_KEY_FIRST)
        return NULL;
    HX_TRY(learn_stack(interned, source, key));
    *ret = find_known_stack(interned, key);
    return NULL;
}
