/* fuzz_store.c - mutated stores, looked at as heapx looks at them: views, tables of objects, graphs
 * that are loaded and analysed anew, other cost centres, all exports. Each look ends in time with
 * rows or an error, without much memory and without bytes that no store of that size holds.
 *
 * A part of the cases has damaged bytes; the others are changed by SQL (lies.h), because SQLite
 * itself sees most damage. test/fuzz/seeds_store makes seeds.
 */
#include "export/export.h"
#include "fuzz.h"
#include "lies.h"
#include "store/query.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { READ, IN_PART, REFUSED };
static const char *const kinds[] = {"read", "read in part", "refused", NULL};

enum { ROWS = 300, MOST_WRITTEN = 64 << 20, MOST_MEMORY_KB = 1 << 20, LOOKS = 8 };

/* Who allocates without a bound gets no memory, and says so. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=512:allocator_may_return_null=1:quarantine_size_mb=8";
}

struct look {
    hx_store *store;
    uint64_t state;
    int64_t snapshot; /* 0: all */
    unsigned errors;
    bool wrong;
};

static void wrong(struct look *look, const char *what, const char *why)
{
    printf("wrong: %s: %s\n", what, why);
    look->wrong = true;
}

/* Any error is right but that of memory, which must not depend on what a file says. */
static bool ended(struct look *look, const char *what, hx_error *err)
{
    if (!err)
        return true;
    char line[4096];
    hx_error_line(err, line, sizeof line);
    if (err->kind == HX_E_NOMEM || err->kind == HX_E_CANCEL || !*line)
        wrong(look, what, line);
    look->errors += err->kind != HX_E_ABSENT;
    hx_error_free(err);
    return false;
}

/* --- rows ---------------------------------------------------------------------------- */

static void read_rows(struct look *look, const char *what, hx_error *err, hx_rows *rows)
{
    bool more = true;
    if (!ended(look, what, err))
        return;
    for (unsigned i = 0; i < ROWS && more; i++) {
        if (!ended(look, what, hx_rows_next(rows, &more)))
            break;
        for (size_t k = 0; more && k < hx_rows_columns(rows); k++) {
            struct hx_value value = hx_rows_value(rows, k);
            if (value.type == HX_VALUE_TEXT && value.text[value.text_bytes])
                wrong(look, what, "a text without an end");
        }
    }
    hx_rows_end(rows);
}

static size_t views(void)
{
    size_t n = 0;
    while (hx_views[n].name)
        n++;
    return n;
}

static void look_at_view(struct look *look)
{
    const struct hx_view *view = &hx_views[hx_fuzz_below(&look->state, views())];
    struct hx_query query = {
        .view = view->name,
        .snapshot = look->snapshot,
        .limit = hx_fuzz_below(&look->state, 2) ? ROWS : -1,
        .offset = (int64_t)hx_fuzz_below(&look->state, 3),
        .ascending = hx_fuzz_below(&look->state, 2),
    };
    hx_rows *rows = NULL;
    hx_error *err = hx_query_view(look->store, &query, &rows);
    read_rows(look, view->name, err, rows);
}

static void look_by_sql(struct look *look)
{
    static const char *const statements[] = {
        "SELECT state, type, set_id, bin, count(*), sum(bytes) FROM objects GROUP BY 1, 2, 3, 4",
        "SELECT * FROM objects WHERE address = (SELECT max(address) FROM objects)",
        "SELECT * FROM objects ORDER BY retained_bytes DESC LIMIT 20",
        "SELECT * FROM objects WHERE dominator IS NOT NULL ORDER BY address DESC LIMIT 20",
        "SELECT kind, count(*), max(offset) FROM edges GROUP BY 1",
        "SELECT * FROM edges WHERE target IN (SELECT address FROM objects LIMIT 5)",
        "SELECT r.kind, count(*) FROM root_edges AS e JOIN roots AS r USING (snapshot, root_id)"
        " GROUP BY 1",
        "SELECT ccs_id, stack_id, sum(requested) FROM objects GROUP BY 1, 2",
        "SELECT a.address, b.address FROM objects AS a JOIN objects AS b ON b.address = a.dominator"
        " LIMIT 50",
    };
    size_t i = hx_fuzz_below(&look->state, sizeof statements / sizeof *statements);
    hx_rows *rows = NULL;
    hx_error *err = hx_query_sql(look->store, statements[i], &rows);
    read_rows(look, statements[i], err, rows);
}

/* --- files that are written ------------------------------------------------------------- */

static ssize_t count(void *cookie, const char *bytes, size_t n)
{
    uint64_t *written = cookie;
    (void)bytes;
    *written += n;
    return *written > MOST_WRITTEN ? 0 : (ssize_t)n;
}

/* A file that counts, and fails when it is too much. */
static FILE *open_counter(uint64_t *written)
{
    FILE *file = fopencookie(written, "w", (cookie_io_functions_t){.write = count});
    if (!file)
        abort();
    return file;
}

static void print_view(struct look *look)
{
    const struct hx_view *view = &hx_views[hx_fuzz_below(&look->state, views())];
    struct hx_query query = {.view = view->name, .snapshot = look->snapshot, .limit = ROWS};
    hx_rows *rows = NULL;
    if (!ended(look, view->name, hx_query_view(look->store, &query, &rows)))
        return;
    uint64_t written = 0;
    FILE *file = open_counter(&written);
    ended(look, view->name,
          hx_rows_print(rows, (enum hx_format)hx_fuzz_below(&look->state, 4), file));
    hx_rows_end(rows);
    fclose(file);
    if (written > MOST_WRITTEN)
        wrong(look, view->name, "printed too much");
}

/* A word of a list, or NULL. */
static const char *a_word(struct look *look, const char *list, char word[64])
{
    size_t words = 1;
    for (const char *at = list; *at; at++)
        words += *at == ' ';
    size_t i = hx_fuzz_below(&look->state, words + 1);
    if (i == words)
        return NULL;
    for (; i > 0; i--)
        list = strchr(list, ' ') + 1;
    snprintf(word, 64, "%.*s", (int)strcspn(list, " "), list);
    return word;
}

static uint64_t an_address(struct look *look)
{
    uint64_t address = hx_fuzz_next(&look->state);
    hx_rows *rows = NULL;
    bool more = false;
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT address FROM objects WHERE snapshot = %" PRId64 " LIMIT 1 OFFSET %zu",
             look->snapshot, hx_fuzz_below(&look->state, 30));
    hx_error *err = hx_query_sql(look->store, sql, &rows);
    if (!err)
        err = hx_rows_next(rows, &more);
    if (!err && more)
        address = (uint64_t)hx_rows_value(rows, 0).i;
    hx_rows_end(rows);
    hx_error_free(err);
    return address;
}

static void export_as(struct look *look, const struct hx_exporter *exporter)
{
    char word[64], what[128];
    struct hx_text notes = {0}, words = {0};
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = HX_SETS_AUTO, .threads = 1};
    struct hx_attribution attribution = HX_ATTRIBUTION_DEFAULT;
    uint64_t written = 0;
    FILE *file = open_counter(&written);
    struct hx_sink sink = {.file = file};
    hx_export_words(exporter, &words);
    struct hx_export export = {
        .store = look->store,
        .snapshot = look->snapshot,
        .by = a_word(look, hx_text_str(&words), word),
        .title = "store<&>\"\x1b",
        .has_object = exporter->takes_object && hx_fuzz_below(&look->state, 2),
        .analysis = &analysis,
        .attribution = &attribution,
        .notes = &notes,
    };
    if (exporter->span == HX_EXPORT_SERIES && hx_fuzz_below(&look->state, 2))
        export.snapshot = 0;
    if (export.has_object)
        export.object = an_address(look);
    snprintf(what, sizeof what, "%s by %s", exporter->name, export.by ? export.by : "nothing");
    ended(look, what, exporter->write(&export, &sink));
    fclose(file);
    if (notes.n > 1 << 20)
        wrong(look, what, "notes without an end");
    hx_text_free(&notes);
    hx_text_free(&words);
    if (written > MOST_WRITTEN)
        wrong(look, what, "wrote too much");
}

/* --- graphs -------------------------------------------------------------------------------- */

static void analyse_again(struct look *look)
{
    size_t schemes = 0;
    while (hx_schemes[schemes])
        schemes++;
    static const unsigned sets[] = {0, 1, 2, 8};
    struct hx_analysis analysis = {
        .scheme = hx_schemes[hx_fuzz_below(&look->state, schemes)],
        .max_set = sets[hx_fuzz_below(&look->state, 4)],
        .threads = 1,
    };
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    if (!ended(look, "load", hx_store_load(look->store, look->snapshot, NULL, &snapshot)))
        return;
    ended(look, "load stop", hx_store_load_stop(look->store, look->snapshot, snapshot));
    unsigned parts = 1 + (unsigned)hx_fuzz_below(&look->state, HX_ANALYSE_ALL);
    ended(look, "revise",
          hx_store_revise(look->store, look->snapshot, snapshot, &analysis, parts, NULL));
}

static void attribute(struct look *look)
{
    static const char *const patterns[] = {"*", "module:*", "!m*", "file:*.c", "region:*", "main"};
    const char *pattern = patterns[hx_fuzz_below(&look->state, 6)], *idle = NULL;
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    how.pattern = &pattern;
    how.n_patterns = hx_fuzz_below(&look->state, 2);
    how.recursion = hx_fuzz_below(&look->state, 2) ? HX_RECURSION_WHOLE : how.recursion;
    how.chain_depth = (uint32_t)hx_fuzz_below(&look->state, 4);
    how.offsets = hx_fuzz_below(&look->state, 2);
    int64_t snapshot = hx_fuzz_below(&look->state, 2) ? look->snapshot : 0;
    ended(look, "attribute", hx_store_attribute(look->store, snapshot, &how, NULL, &idle));
}

static void look_backwards(struct look *look)
{
    HX_BACKWARDS hx_backwards *backwards = NULL;
    HX_SNAPSHOT struct hx_snapshot *into = NULL;
    uint64_t *chosen = NULL;
    hx_obj object = HX_NO_OBJ;
    uint64_t address = an_address(look);
    if (!ended(look, "backwards",
               hx_store_backwards(look->store, look->snapshot, NULL, NULL, NULL, &backwards)) ||
        !ended(look, "roots", hx_store_load_roots(look->store, look->snapshot, NULL, &into)) ||
        !ended(look, "object", hx_store_object(look->store, look->snapshot, address, &object)) ||
        object == HX_NO_OBJ)
        return;
    hx_error *err = hx_backwards_choose(backwards, into, object,
                                        1 + hx_fuzz_below(&look->state, 100), NULL, &chosen);
    if (ended(look, "choose", err))
        ended(look, "load chosen",
              hx_store_load_chosen(look->store, look->snapshot, chosen, NULL, into));
    free(chosen);
}

static void small_answers(struct look *look)
{
    const struct hx_scheme *scheme = NULL;
    char *patterns = NULL;
    unsigned parts = 0;
    int64_t rows = 0;
    struct hx_query query = {.view = "objects", .snapshot = look->snapshot, .limit = -1};
    ended(look, "parts", hx_store_parts(look->store, look->snapshot, &parts));
    ended(look, "scheme", hx_store_scheme(look->store, look->snapshot, &scheme, &patterns));
    free(patterns);
    ended(look, "place",
          hx_query_place(look->store, &query, an_address(look), hx_fuzz_below(&look->state, 2),
                         &rows));
    query.view = hx_views[hx_fuzz_below(&look->state, views())].name;
    ended(look, query.view, hx_query_count(look->store, &query, &rows));
}

/* --- a case ---------------------------------------------------------------------------------- */

static void choose_snapshot(struct look *look)
{
    int64_t found = 0;
    hx_error_free(hx_store_resolve(look->store, "last", &look->snapshot));
    if (hx_fuzz_below(&look->state, 2) &&
        ended(look, "next", hx_store_next(look->store, 0, &found)) && found)
        look->snapshot = found;
}

static void look_once(struct look *look)
{
    size_t kind = hx_fuzz_below(&look->state, 12);
    if (kind < 4)
        look_at_view(look);
    else if (kind < 6)
        look_by_sql(look);
    else if (kind < 7)
        print_view(look);
    else if (kind < 8)
        small_answers(look);
    else if (kind < 10)
        analyse_again(look);
    else if (kind < 11)
        attribute(look);
    else
        look_backwards(look);
}

/* All exports come somewhere between the looks, so before and after what these lay over it. */
static void look_at_all(struct look *look)
{
    size_t before = hx_fuzz_below(&look->state, LOOKS);
    for (size_t i = 0; i < LOOKS; i++) {
        if (i == before)
            for (const struct hx_exporter *const *exporter = hx_exporters; *exporter; exporter++)
                export_as(look, *exporter);
        look_once(look);
    }
}

static void write_file(const char *path, const struct hx_fuzz_case *c)
{
    FILE *file = fopen(path, "we");
    if (!file || fwrite(c->bytes, 1, c->n, file) != c->n || fclose(file)) {
        perror(path);
        abort();
    }
}

static void lie(const char *path, uint64_t *state)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) == SQLITE_OK)
        hx_lies(db, state);
    sqlite3_close(db);
}

/* What one case left must not be read by the next. */
static void remove_all(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        abort();
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static bool one(void *folder, const struct hx_fuzz_case *c, unsigned *kind)
{
    char path[4096];
    struct look look = {.state = ~c->number};
    struct rusage usage;
    snprintf(path, sizeof path, "%s/store", (const char *)folder);
    remove_all(folder);
    write_file(path, c);
    if (c->own)
        lie(path, &look.state);
    *kind = REFUSED;
    if (ended(&look, "open", hx_store_open(path, &look.store))) {
        look.errors = 0;
        choose_snapshot(&look);
        look_at_all(&look);
        *kind = look.errors ? IN_PART : READ;
        ended(&look, "close", hx_store_close(look.store));
    }
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss > MOST_MEMORY_KB)
        wrong(&look, "memory", "too much");
    return !look.wrong;
}

/* HX_FUZZ_FOLDER is made by main(), before the processes of the batches are. */
static void *begin(void)
{
    return strdup(getenv("HX_FUZZ_FOLDER"));
}

int main(int argc, char **argv)
{
    const struct hx_fuzz fuzz = {
        .one = one, .kinds = kinds, .begin = begin, .end = free, .own = 80};
    char folder[] = "/dev/shm/fuzz_store.XXXXXX", other[] = "/tmp/fuzz_store.XXXXXX";
    char *made = mkdtemp(folder);
    if (!made)
        made = mkdtemp(other);
    /* private copies of stores that are brought up to date go there, too */
    if (!made || setenv("HX_FUZZ_FOLDER", made, 1) || setenv("TMPDIR", made, 1))
        return 1;
    int status = hx_fuzz_main(&fuzz, argc, argv);
    remove_all(made);
    rmdir(made);
    return status;
}
