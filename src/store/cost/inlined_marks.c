/* inlined_marks.c - the function that made a mark, by where its pushes were seen to come from. */
#include "store/cost/inlined_marks.h"

#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>

/* A region that is pushed at more places than that is told by these. */
#define MAX_PLACES 64

static int by_region(const void *a, const void *b)
{
    const struct hx_pushed *x = a, *y = b;
    if (x->region != y->region)
        return x->region < y->region ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* The frame that made the innermost mark of a stack; UINT32_MAX: none. */
static uint32_t made_by(const struct hx_recording *recording, const struct hx_rec_stack *stack)
{
    const uint32_t *place = recording->stack_places.v + stack->first;
    for (uint32_t i = 1; i < stack->n; i++)
        if (recording->places.v[place[i]].kind == HX_REC_CODE)
            return place[i];
    return UINT32_MAX;
}

hx_error *hx_marks_init(struct hx_marks *marks, const struct hx_recording *recording)
{
    const struct hx_rec_stack *stack = recording->stacks.v;
    for (size_t i = 0; i < recording->stacks.n && i < recording->costs.n; i++) {
        if (!recording->costs.v[i].entries || !stack[i].n)
            continue;
        uint32_t region = recording->stack_places.v[stack[i].first];
        uint32_t place = made_by(recording, &stack[i]);
        if (place == UINT32_MAX || recording->places.v[region].kind != HX_REC_REGION)
            continue;
        HX_NEED(hx_vec_push(&marks->pushed, (struct hx_pushed){region, place}));
    }
    struct hx_pushed *v = marks->pushed.v;
    size_t n = 0;
    if (marks->pushed.n)
        qsort(v, marks->pushed.n, sizeof *v, by_region);
    for (size_t i = 0; i < marks->pushed.n; i++)
        if (!n || by_region(&v[n - 1], &v[i]))
            v[n++] = v[i];
    marks->pushed.n = n;
    return NULL;
}

void hx_marks_deinit(struct hx_marks *marks)
{
    hx_vec_free(&marks->pushed);
}

static bool same_mark_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Line `i` of a place, counted from the outermost. */
static const struct hx_rec_line *place_line(const struct hx_rec_place *place, size_t i)
{
    return &place->lines[place->n_lines - 1 - i];
}

static bool same_function(const struct hx_rec_line *a, const struct hx_rec_line *b)
{
    return a->function && same_mark_text(a->function, b->function) &&
           same_mark_text(a->declared, b->declared) && a->declared_line == b->declared_line;
}

/* So many functions are the same in both, called at the same places. */
static size_t in_common(const struct hx_rec_place *a, const struct hx_rec_place *b)
{
    size_t n = 0;
    while (n < a->n_lines && n < b->n_lines && same_function(place_line(a, n), place_line(b, n))) {
        n++;
        if (place_line(a, n - 1)->line != place_line(b, n - 1)->line ||
            !same_mark_text(place_line(a, n - 1)->source, place_line(b, n - 1)->source))
            break;
    }
    return n;
}

static size_t first_of(const struct hx_marks *marks, uint32_t region)
{
    return HX_LOWER_BOUND(marks->pushed.n, i, marks->pushed.v[i].region < region);
}

/* A push by a function that the place is in, too, is what made the mark; of several, for functions
 * that were inlined into themselves, the outermost that is free. Without one it is where a push
 * comes nearest: it may have been in a function for just that. */
static size_t region_depth(const struct hx_marks *marks, const struct hx_recording *recording,
                           uint32_t frame, uint32_t region, size_t above)
{
    const struct hx_rec_place *at = &recording->places.v[frame];
    size_t first = first_of(marks, region), next = SIZE_MAX, whole = 0, near = 0;
    for (size_t i = first; i < marks->pushed.n && i - first < MAX_PLACES; i++) {
        if (marks->pushed.v[i].region != region)
            break;
        const struct hx_rec_place *push = &recording->places.v[marks->pushed.v[i].place];
        size_t n = in_common(push, at);
        if (n && n == push->n_lines) {
            whole = n > whole ? n : whole;
            next = n > above && n < next ? n : next;
        }
        near = n > near ? n : near;
    }
    return next != SIZE_MAX ? next : whole ? whole : near;
}

/* A callable of the header entered what is inside it. */
static size_t entered_depth(const struct hx_rec_place *at, size_t above)
{
    for (size_t i = above + 1; i < at->n_lines; i++)
        if (place_line(at, i)->entered)
            return i;
    return 0;
}

size_t hx_marks_depth(const struct hx_marks *marks, const struct hx_recording *recording,
                      uint32_t frame, uint32_t mark, size_t above)
{
    if (recording->places.v[mark].kind == HX_REC_DEFERRED)
        return entered_depth(&recording->places.v[frame], above);
    return region_depth(marks, recording, frame, mark, above);
}
