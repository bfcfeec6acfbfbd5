/* test_place.c - FILE[:N] as a word: src/cli/words/snapshot_place.c. */
#include "unit.h"

#include "base/cleanup.h"
#include "cli/words/snapshot_place.h"

#include <sys/stat.h>

static void expect(const char *word, const char *file, const char *which)
{
    HX_PLACE struct hx_place place;
    assert_null(hx_place_parse(word, &place));
    assert_string_equal(place.file, file);
    assert_string_equal(place.which, which);
}

static void expect_refused(const char *word)
{
    struct hx_place place;
    hx_error *err = hx_place_parse(word, &place);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_USAGE);
    hx_error_free(err);
}

/* None of these files exists. */
static void test_words(void **state)
{
    (void)state;
    expect("store", "store", "last");
    expect("store:1", "store", "1");
    expect("store:first", "store", "first");
    expect("store:last", "store", "last");
    expect("dir.x/store:007", "dir.x/store", "007");
    expect("a:b:2", "a:b", "2");
    expect("a:1:2", "a:1", "2");
    expect("123", "123", "last");
    expect("123:4", "123", "4");
    expect("store:", "store:", "last");
    expect("store:all", "store:all", "last");
    expect(":1", ":1", "last");
    expect("store:-1", "store:-1", "last");
    expect("store: 1", "store: 1", "last");
    expect("store:99999999999999999999", "store", "99999999999999999999");
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void test_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/heapx-place-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    touch("store");
    touch("other:1");
    expect("store:2", "store", "2");
    expect("other:1", "other:1", "last"); /* the file of the whole name */
    expect("other:1:3", "other:1", "3");
    expect("other:2", "other", "2");
    expect_refused("store:all");
    expect_refused("store:");
    expect_refused("store:2x");
    expect_refused("other:1:two");
    assert_int_equal(unlink("store") | unlink("other:1"), 0);
    assert_int_equal(chdir("/") | rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
