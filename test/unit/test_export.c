/* test_export.c - what all exporters stand on: the sink, the words of a table, the moments of a
 * series; and how an importer is found and says where a file lies. */
#include "store_model.h"

#include "export/export.h"
#include "export/import/import.h"
#include "export/timepoints.h"

#include <errno.h>
#include <fcntl.h>

/* What was written with a sink, as text. */
static char *written(void (*write)(struct hx_sink *sink))
{
    char *text = NULL;
    size_t n = 0;
    struct hx_sink sink = {.file = open_memstream(&text, &n)};
    assert_non_null(sink.file);
    write(&sink);
    assert_int_equal(fclose(sink.file), 0);
    assert_int_equal(sink.failed, 0);
    assert_int_equal(sink.bytes, n);
    return text;
}

static void put_numbers(struct hx_sink *sink)
{
    hx_sink_u8(sink, 'a');
    hx_sink_u16(sink, 0x6263);
    hx_sink_u32(sink, 0x64656667);
    hx_sink_u64(sink, 0x68696a6b6c6d6e6f);
    hx_sink_putf(sink, "%s%d", "-", 7);
}

static void put_xml(struct hx_sink *sink)
{
    static const char text[] = "a<b>&\"c'\n\x1b\xff caf\xc3\xa9 \xe2\x80\xae \xed\xa0\x80";
    hx_sink_xml(sink, text, sizeof text - 1);
}

static void sink(void **state)
{
    (void)state;
    char *text = written(put_numbers);
    assert_string_equal(text, "abcdefghijklmno-7");
    free(text);
    text = written(put_xml);
    assert_string_equal(text, "a&lt;b&gt;&amp;&quot;c&#39;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                              " caf\xc3\xa9 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    free(text);
}

/* A write that fails is remembered, and the calls behind it do nothing. */
static void full(void **state)
{
    (void)state;
    struct hx_sink sink = {.file = fopen("/dev/full", "we")};
    assert_non_null(sink.file);
    setvbuf(sink.file, NULL, _IONBF, 0);
    hx_sink_puts(&sink, "text");
    assert_int_equal(sink.failed, ENOSPC);
    hx_sink_putf(&sink, "%d", 1);
    hx_sink_u8(&sink, 1);
    assert_int_equal(sink.failed, ENOSPC);
    fclose(sink.file);
}

static void words(void **state)
{
    (void)state;
    assert_true(hx_export_has_word("retainer bin ccs", "retainer"));
    assert_true(hx_export_has_word("retainer bin ccs", "bin"));
    assert_true(hx_export_has_word("retainer bin ccs", "ccs"));
    assert_false(hx_export_has_word("retainer bin ccs", "cc"));
    assert_false(hx_export_has_word("retainer bin ccs", "in"));
    assert_false(hx_export_has_word("retainers bin", "retainer"));
    assert_false(hx_export_has_word("retainer bin ccs", ""));
    assert_null(hx_exporter_find("no such format"));
    for (const struct hx_exporter *const *it = hx_exporters; *it; it++) {
        assert_ptr_equal(hx_exporter_find((*it)->name), *it);
        assert_true(strlen((*it)->about) <= 60);
        assert_non_null((*it)->write);
    }
}

static void add(hx_store *store, int64_t taken_at_ns, int64_t started_at_ns)
{
    struct hx_snapshot *snapshot;
    int64_t number;
    assert_done(hx_snapshot_create(&snapshot));
    snapshot->taken_at_ns = taken_at_ns;
    snapshot->started_at_ns = started_at_ns;
    snapshot->pid = 42;
    snapshot->comm = strdup("x\x1b[31m");
    snapshot->method = "copy";
    assert_done(hx_store_add(store, snapshot, NULL, NULL, &number));
    hx_snapshot_destroy(snapshot);
}

/* Times begin with the process and grow, whatever the clock did. */
static void timepoints(void **state)
{
    (void)state;
    static const int64_t second = 1000000000, began = 1700000000 * (int64_t)1000000000;
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    struct hx_export export = {.store = store, .title = "test"};
    struct hx_timepoints m;
    assert_refused(hx_timepoints_load(&export, &m), HX_E_ABSENT, "no snapshot");
    add(store, began + 5 * second, began);
    add(store, began + 4 * second, began + 1);    /* set back */
    add(store, INT64_MIN + 1, 0);                 /* far */
    add(store, began + 9 * second, began + 2000); /* only the first one counts */
    assert_done(hx_timepoints_load(&export, &m));
    assert_int_equal(m.v.n, 4);
    assert_true(m.has_start);
    assert_int_equal(m.began_ns, began);
    assert_int_equal(m.v.v[0].since_ns, 5 * second);
    assert_int_equal(m.v.v[1].since_ns, 5 * second + 1);
    assert_int_equal(m.v.v[2].since_ns, 5 * second + 2);
    assert_int_equal(m.v.v[3].since_ns, 9 * second);
    assert_int_equal(m.pid, 42);
    assert_string_equal(m.comm, "x\x1b[31m");
    assert_string_equal(m.exe, "");
    hx_timepoints_deinit(&m);
    export.snapshot = 3; /* one without a known start */
    assert_done(hx_timepoints_load(&export, &m));
    assert_int_equal(m.v.n, 1);
    assert_false(m.has_start);
    assert_int_equal(m.v.v[0].since_ns, 1);
    hx_timepoints_deinit(&m);
    assert_done(hx_store_close(store));
}

static void importers(void **state)
{
    (void)state;
    const struct hx_importer *importer;
    char *directory = model_directory(), *path = model_path(directory, "file");
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("nothing that anybody knows", file);
    assert_int_equal(fclose(file), 0);
    assert_done(hx_importer_detect(path, &importer));
    assert_null(importer);
    assert_done(hx_importer_detect("/dev/null", &importer));
    assert_null(importer);
    assert_int_equal(unlink(path), 0);
    assert_refused(hx_importer_detect(path, &importer), HX_E_OS, "No such file");
    struct hx_import import = {.path = "x.eventlog"};
    assert_refused(hx_import_error(&import, 291, "%d bytes are missing", 7), HX_E_CORRUPT,
                   "x.eventlog: at byte 291 (0x123): 7 bytes are missing; ");
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sink),       cmocka_unit_test(full),      cmocka_unit_test(words),
        cmocka_unit_test(timepoints), cmocka_unit_test(importers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
