/* test_diff.c - snapshots object by object: src/traverse/diff.c.
 *
 * Random pairs of heaps, in which blocks come, go, and are handed out again with another size
 * or type, against a comparison of each object with each. */
#include "unit.h"

#include "traverse/diff.h"

enum { MOST = 200, NAMES = 6 };

/* One side, as plain columns; -1: unknown. */
struct heap {
    uint64_t addr[MOST], size[MOST];
    int type[MOST], site[MOST];
    size_t n;
    bool types, sites; /* somebody looked */
};

static void make_heap(struct unit_random *random, size_t most, struct heap *heap)
{
    *heap = (struct heap){.types = unit_below(random, 4) != 0, .sites = unit_below(random, 4) == 0};
    size_t n = (size_t)unit_below(random, most + 1);
    uint64_t addr = 0x1000 + 16 * unit_below(random, 3);
    while (heap->n < n) {
        size_t i = heap->n++;
        heap->addr[i] = addr;
        heap->size[i] = 8 + 16 * unit_below(random, 2);
        heap->type[i] = (int)unit_below(random, 3) - 1;
        heap->site[i] = (int)unit_below(random, 3) - 1;
        addr += 32 * (1 + unit_below(random, 2));
    }
}

/* Mostly as it was, with some objects gone, new, or changed in one way. */
static void change(struct unit_random *random, const struct heap *from, struct heap *heap)
{
    *heap = *from;
    heap->n = 0;
    for (size_t i = 0; i < from->n; i++) {
        size_t j = heap->n;
        heap->addr[j] = from->addr[i];
        heap->size[j] = from->size[i];
        heap->type[j] = from->type[i];
        heap->site[j] = from->site[i];
        switch (unit_below(random, 12)) {
        case 0:
            continue;
        case 1:
            heap->size[j] ^= 16;
            break;
        case 2:
            heap->type[j] = (int)unit_below(random, NAMES + 1) - 1;
            break;
        case 3:
            heap->site[j] = (int)unit_below(random, NAMES + 1) - 1;
            break;
        case 4:
            heap->addr[j] += 8;
            break;
        default:
            break;
        }
        heap->n++;
    }
    if (unit_below(random, 8) == 0)
        heap->types = !heap->types;
}

static void *column(struct hx_big *memory, size_t bytes)
{
    assert_null(hx_big_reserve(memory, bytes));
    return memory->base;
}

/* The names stand in an order of this side's own. */
static struct hx_snapshot *snapshot_of(struct unit_random *random, const struct heap *heap)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_snapshot_create(&snapshot));
    size_t shift = (size_t)unit_below(random, NAMES);
    for (size_t i = 0; i < NAMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "N%zu", (i + shift) % NAMES);
        struct hx_type type = {.name = strdup(name)};
        struct hx_site site = {.label = strdup(name)};
        assert_true(hx_vec_push(&snapshot->types, type));
        assert_true(hx_vec_push(&snapshot->sites, site));
    }
    struct hx_graph *graph = &snapshot->graph;
    graph->n = (hx_obj)heap->n;
    graph->addr = column(&graph->addr_mem, heap->n * 8);
    graph->size = column(&graph->size_mem, heap->n * 8);
    if (heap->types)
        graph->type = column(&graph->type_mem, heap->n * 4);
    if (heap->sites)
        graph->site = column(&graph->site_mem, heap->n * 4);
    for (size_t i = 0; i < heap->n; i++) {
        graph->addr[i] = heap->addr[i];
        graph->size[i] = heap->size[i];
        size_t type = ((size_t)heap->type[i] + NAMES - shift) % NAMES;
        size_t site = ((size_t)heap->site[i] + NAMES - shift) % NAMES;
        if (heap->types)
            graph->type[i] = heap->type[i] < 0 ? HX_NO_TYPE : (uint32_t)type;
        if (heap->sites)
            graph->site[i] = heap->site[i] < 0 ? HX_NO_SITE : (uint32_t)site;
    }
    return snapshot;
}

static bool same_or_unknown(bool known_a, int a, bool known_b, int b)
{
    return !known_a || !known_b || a < 0 || b < 0 || a == b;
}

static bool is_in(const struct heap *before, const struct heap *now, size_t j)
{
    for (size_t i = 0; i < before->n; i++)
        if (before->addr[i] == now->addr[j] && before->size[i] == now->size[j] &&
            same_or_unknown(before->types, before->type[i], now->types, now->type[j]) &&
            same_or_unknown(before->sites, before->site[i], now->sites, now->site[j]))
            return true;
    return false;
}

static void compare(struct unit_random *random, const struct heap *before, const struct heap *now)
{
    HX_SNAPSHOT struct hx_snapshot *a = snapshot_of(random, before);
    HX_SNAPSHOT struct hx_snapshot *b = snapshot_of(random, now);
    struct hx_big bits;
    assert_null(hx_diff_objects(a, b, NULL, &bits));
    for (size_t j = 0; j < now->n; j++)
        assert_int_equal(hx_diff_has(&bits, (hx_obj)j), is_in(before, now, j));
    hx_big_free(&bits);
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("diff");
    for (size_t round = unit_rounds(3000); round; round--) {
        struct heap before, now;
        make_heap(&random, round % 8 ? 20 : MOST, &before);
        if (unit_below(&random, 8))
            change(&random, &before, &now);
        else
            make_heap(&random, 20, &now);
        compare(&random, &before, &now);
        compare(&random, &now, &before);
        compare(&random, &before, &before);
    }
}

/* Numbers that name nothing, as a damaged file may have them, are unknown. */
static void test_wild_numbers(void **state)
{
    (void)state;
    struct unit_random random = {1};
    struct heap heap = {.n = 2,
                        .types = true,
                        .addr = {0x1000, 0x1020},
                        .size = {16, 16},
                        .type = {0, 1},
                        .site = {-1, -1}};
    HX_SNAPSHOT struct hx_snapshot *a = snapshot_of(&random, &heap);
    HX_SNAPSHOT struct hx_snapshot *b = snapshot_of(&random, &heap);
    b->graph.type[0] = NAMES;
    b->graph.type[1] = UINT32_MAX - 1;
    struct hx_big bits;
    assert_null(hx_diff_objects(a, b, NULL, &bits));
    assert_true(hx_diff_has(&bits, 0) && hx_diff_has(&bits, 1));
    hx_big_free(&bits);
}

static void test_cancel(void **state)
{
    (void)state;
    struct unit_random random = {1};
    struct heap heap = {.n = 1, .addr = {0x1000}, .size = {16}};
    HX_SNAPSHOT struct hx_snapshot *a = snapshot_of(&random, &heap);
    atomic_bool cancel = true;
    struct hx_progress progress = {.cancel = &cancel};
    struct hx_big bits;
    hx_error *err = hx_diff_objects(a, a, &progress, &bits);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
}

/* What a recorder has not seen may be anything; what was there before it is nothing that it saw. */
static void test_unseen(void **state)
{
    (void)state;
    enum { A, B, BEFORE, UNSEEN, SITES };
    static const bool same[SITES][SITES] = {
        [A] = {true, false, true, true},
        [B] = {false, true, true, true},
        [BEFORE] = {false, false, true, true},
        [UNSEEN] = {true, true, true, true},
    };
    struct unit_random random = unit_random_begin("test_unseen");
    for (int i = 0; i < SITES * SITES; i++) {
        struct hx_snapshot *side[2];
        for (int s = 0; s < 2; s++) {
            struct heap heap = {.n = 1, .addr = {64}, .size = {32}, .sites = true};
            side[s] = snapshot_of(&random, &heap);
            int site = s ? i % SITES : i / SITES;
            struct hx_site *own = &side[s]->sites.v[side[s]->graph.site[0]];
            own->stack = site == BEFORE   ? HX_SITE_BEFORE
                         : site == UNSEEN ? HX_SITE_UNKNOWN
                                          : HX_NO_STACK;
            own->identity = (uint64_t)site + 1; /* labels have numbers of their store */
            free(own->label);
            own->label = strdup(s ? "#1 f" : "#2 f");
        }
        struct hx_big bits;
        assert_null(hx_diff_objects(side[0], side[1], NULL, &bits));
        assert_int_equal(hx_diff_has(&bits, 0), same[i / SITES][i % SITES]);
        hx_big_free(&bits);
        hx_snapshot_destroy(side[0]);
        hx_snapshot_destroy(side[1]);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(hx_diff_name(HX_DIFF_GONE), "gone");
    assert_string_equal(hx_diff_name(HX_DIFF_APPEARED), "appeared");
    assert_string_equal(hx_diff_name(HX_DIFF_SAME), "same");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_wild_numbers),
        cmocka_unit_test(test_cancel), cmocka_unit_test(test_unseen),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
