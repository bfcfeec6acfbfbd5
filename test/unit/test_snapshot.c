/* test_snapshot.c - names, notes and losses of a snapshot: src/model/snapshot.c. */
#include "unit.h"

#include "model/snapshot.h"

static void names(void **state)
{
    (void)state;
    assert_string_equal(hx_root_kind_name(HX_ROOT_GLOBAL), "global");
    assert_string_equal(hx_root_kind_name(HX_ROOT_STACK), "stack");
    assert_string_equal(hx_root_kind_name(HX_ROOT_REGISTER), "register");
    assert_string_equal(hx_root_kind_name(HX_ROOT_TLS), "tls");
    assert_string_equal(hx_root_kind_name(HX_ROOT_MAPPING), "mapping");
    assert_string_equal(hx_root_kind_name(HX_ROOT_NAMED), "named");
    assert_string_equal(hx_root_kind_name((enum hx_root_kind)99), "?");
    assert_string_equal(hx_part_name(HX_PART_LIVE), "live");
    assert_string_equal(hx_part_name(HX_PART_OTHER), "other");
    assert_string_equal(hx_part_name(HX_PARTS), "?");
}

static void begins_complete_and_empty(void **state)
{
    (void)state;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    assert_null(hx_snapshot_create(&snapshot));
    assert_true(snapshot->complete);
    assert_string_equal(snapshot->method, "copy");
    assert_int_equal(snapshot->losses.n, 0);
    hx_snapshot_destroy(NULL);
}

static void notes_are_joined(void **state)
{
    (void)state;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    assert_null(hx_snapshot_create(&snapshot));
    hx_snapshot_note(snapshot, false, "first %d", 1);
    assert_true(snapshot->complete);
    hx_snapshot_note(snapshot, true, "second");
    assert_false(snapshot->complete);
    hx_snapshot_note(snapshot, false, "third");
    assert_false(snapshot->complete); /* what is partial stays so */
    assert_string_equal(hx_text_str(&snapshot->notes), "first 1; second; third");
}

static void names_come_later(void **state)
{
    (void)state;
    for (size_t at = 0; at < 3; at++) { /* before, between and behind the others */
        HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
        assert_null(hx_snapshot_create(&snapshot));
        for (size_t i = 0; i < 3; i++)
            hx_snapshot_note(snapshot, false, "%s", i == at ? HX_UNNAMED : "first");
        snapshot->unnamed = true;
        hx_snapshot_named(snapshot);
        assert_false(snapshot->unnamed);
        assert_string_equal(hx_text_str(&snapshot->notes), "first; first");
        assert_int_equal(snapshot->notes.n, strlen("first; first"));
    }
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    assert_null(hx_snapshot_create(&snapshot));
    hx_snapshot_named(snapshot);
    hx_snapshot_note(snapshot, false, HX_UNNAMED);
    hx_snapshot_named(snapshot);
    assert_string_equal(hx_text_str(&snapshot->notes), "");
    assert_null(strstr(HX_UNNAMED, "; ")); /* it is one sentence */
}

static void losses_add_up_by_kind_and_place(void **state)
{
    (void)state;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    assert_null(hx_snapshot_create(&snapshot));
    hx_snapshot_lose(snapshot, "pages unreadable", 1, 4096, 0x1000);
    hx_snapshot_lose(snapshot, "pages unreadable", 2, 8192, 0x1000);
    hx_snapshot_lose(snapshot, "pages unreadable", 1, 0, 0x9000);
    hx_snapshot_lose(snapshot, "threads not stopped", 3, 0, 0);
    assert_int_equal(snapshot->losses.n, 3);
    const struct hx_loss *loss = snapshot->losses.v;
    assert_string_equal(loss[0].what, "pages unreadable");
    assert_int_equal(loss[0].count, 3);
    assert_int_equal(loss[0].bytes, 12288);
    assert_true(loss[0].has_bytes && loss[0].has_address);
    assert_false(loss[1].has_bytes); /* not measured is not 0 */
    assert_true(loss[1].has_address);
    assert_false(loss[2].has_bytes || loss[2].has_address);
    assert_int_equal(loss[2].count, 3);
}

/* However broken a heap is, the rows have a bound and nothing goes uncounted. */
static void losses_have_a_bound(void **state)
{
    (void)state;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    assert_null(hx_snapshot_create(&snapshot));
    const uint64_t planted = 20 * HX_LOSSES_MAX;
    for (uint64_t i = 1; i <= planted; i++)
        hx_snapshot_lose(snapshot, i % 2 ? "blocks skipped" : "pages unreadable", 1, 16, i * 16);
    assert_in_range(snapshot->losses.n, HX_LOSSES_MAX, HX_LOSSES_MAX + 2);
    for (uint64_t i = 0; i < planted; i++) {
        char what[32];
        snprintf(what, sizeof what, "kind %llu", (unsigned long long)i);
        hx_snapshot_lose(snapshot, what, 1, 16, 0);
    }
    assert_in_range(snapshot->losses.n, HX_LOSSES_MAX, 2 * HX_LOSSES_MAX + 1);
    uint64_t count = 0, bytes = 0;
    for (size_t i = 0; i < snapshot->losses.n; i++) {
        count += snapshot->losses.v[i].count;
        bytes += snapshot->losses.v[i].bytes;
    }
    assert_int_equal(count, 2 * planted);
    assert_int_equal(bytes, 32 * planted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(begins_complete_and_empty),
        cmocka_unit_test(notes_are_joined),
        cmocka_unit_test(names_come_later),
        cmocka_unit_test(losses_add_up_by_kind_and_place),
        cmocka_unit_test(losses_have_a_bound),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
