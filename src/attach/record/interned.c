/* interned.c - numbers for stacks and places. */
#include "attach/record/interned.h"

#include <stdlib.h>
#include <string.h>

void hx_interned_init(struct hx_interned *interned)
{
    *interned = (struct hx_interned){.seed = hx_hash_seed()};
}

void hx_interned_deinit(struct hx_interned *interned)
{
    hx_vec_free(&interned->places);
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
           (uint64_t)(interned->place_index.cap + interned->stack_index.cap +
                      interned->key_index.cap) *
               sizeof(struct hx_index_slot);
}

static hx_error *intern_place(struct hx_interned *interned, const struct hx_rec_place *place,
                              uint32_t *ret)
{
    uint64_t hash = hx_hash(interned->seed, hx_hash(place->vaddr, place->file));
    for (uint32_t at = 0; hx_index_next(&interned->place_index, hash, &at, ret);) {
        const struct hx_rec_place *old = &interned->places.v[*ret];
        if (old->vaddr == place->vaddr && old->file == place->file)
            return NULL;
    }
    *ret = (uint32_t)interned->places.n;
    if (!hx_vec_push(&interned->places, *place))
        return hx_error_nomem();
    return hx_index_add(&interned->place_index, hash, *ret);
}

static hx_error *place_frames(struct hx_interned *interned, const struct hx_reader_source *source,
                              const uint64_t *frame, size_t n, uint64_t exact, uint32_t *ret,
                              bool *cut)
{
    for (size_t i = 0; i < n; i++) {
        struct hx_placing placing = {.file = UINT32_MAX, .vaddr = frame[i]};
        source->place(source->context, frame[i], &placing);
        bool is_exact = i < 64 && exact >> i & 1;
        struct hx_rec_place place = {.file = placing.file,
                                     .allocator = placing.allocator,
                                     .vaddr = placing.vaddr - (is_exact || !placing.vaddr ? 0 : 1)};
        HX_TRY(intern_place(interned, &place, &ret[i]));
        *cut &= i + 1 < n || !placing.start;
    }
    return NULL;
}

static bool same_stack(const struct hx_interned *interned, uint32_t number, const uint32_t *place,
                       size_t n, bool cut)
{
    const struct hx_rec_stack *stack = &interned->stacks.v[number];
    return stack->n == n && stack->cut == cut &&
           (!n || !memcmp(&interned->stack_places.v[stack->first], place, n * sizeof *place));
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
    if (!hx_vec_reserve(&interned->stack_places, interned->stack_places.n + n) ||
        !hx_vec_reserve(&interned->stacks, interned->stacks.n + 1))
        return hx_error_nomem();
    uint32_t number = (uint32_t)interned->stacks.n;
    HX_TRY(hx_index_add(&interned->stack_index, hash, number));
    if (n)
        memcpy(&interned->stack_places.v[stack.first], place, n * sizeof *place);
    interned->stack_places.n += n;
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
            if (!hx_vec_reserve(&interned->dense, key + 1))
                return hx_error_nomem();
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
    if (!hx_vec_push(&interned->keys, (struct hx_interned_key){key, stack}))
        return hx_error_nomem();
    return hx_index_add(&interned->key_index, hash, (uint32_t)interned->keys.n - 1);
}

hx_error *hx_interned_bring(struct hx_interned *interned, const struct hx_reader_source *source,
                            uint64_t key, const uint64_t *frame, size_t n, uint64_t exact, bool cut,
                            uint32_t *ret)
{
    uint32_t place[HX_EV_FRAMES_MAX];
    *ret = HX_NO_STACK;
    if (key < HX_EV_KEY_FIRST)
        return NULL;
    if (n > HX_EV_FRAMES_MAX) {
        n = HX_EV_FRAMES_MAX;
        cut = true;
    }
    HX_TRY(place_frames(interned, source, frame, n, exact, place, &cut));
    HX_TRY(intern_stack(interned, place, n, cut, ret));
    return *ret == HX_NO_STACK ? NULL : set_key(interned, key, *ret);
}

hx_error *hx_interned_find(struct hx_interned *interned, const struct hx_reader_source *source,
                           uint64_t key, uint32_t *ret)
{
    *ret = hx_interned_known(interned, key);
    if (*ret != HX_NO_STACK || key < HX_EV_KEY_FIRST)
        return NULL;
    if (key >= HX_INTERNED_DENSE) {
        uint64_t hash = hx_hash(interned->seed, key);
        uint32_t number;
        for (uint32_t at = 0; hx_index_next(&interned->key_index, hash, &at, &number);)
            if (interned->keys.v[number].key == key) {
                *ret = interned->keys.v[number].stack;
                return NULL;
            }
    }
    uint64_t frame[HX_EV_FRAMES_MAX], exact = 0;
    size_t n = 0;
    bool cut = false;
    if (!source->stack ||
        !source->stack(source->context, key, frame, HX_EV_FRAMES_MAX, &n, &exact, &cut))
        return NULL;
    return hx_interned_bring(interned, source, key, frame, n, exact, cut, ret);
}
