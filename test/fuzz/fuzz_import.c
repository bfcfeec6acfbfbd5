/* fuzz_import.c - mutated event logs and heap profiles through the importers: none may crash, hang
 * or say nothing of where a lie is. What is stored has to add up. */
#include "export/import/import.h"
#include "fuzz.h"
#include "store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORED, PARTIAL, REFUSED, WITHOUT_PROFILE, UNKNOWN };
static const char *const kinds[] = {"stored",       "partial", "refused", "without a profile",
                                    "of no format", NULL};
static const char *const words[] = {
    "\xff\xff",
    "BEGIN_SAMPLE 0.5\n",
    "END_SAMPLE 0.5\n",
    "MARK 0.1\n",
    "MANY\t12\n",
    "(3)a,b\t7\n",
    "JOB \"x +RTS -hr\"\n",
    "0x4000 9\n",
    "\"",
    "etb",
    "hete",
    "+RTS",
    "-hb",
    "\x00\xa2",
    "\x00\xa5",
    "99999999999999999999",
    NULL,
};

/* The store of a batch; it is made when the first case gets so far. */
struct context {
    hx_store *store;
};

static void *begin(void)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context || hx_store_temporary(&context->store))
        abort();
    return context;
}

static void end(void *opaque)
{
    struct context *context = opaque;
    hx_error_free(hx_store_close(context->store));
    free(context);
}

static bool wrong(const char *why)
{
    printf("wrong: %s\n", why);
    return false;
}

/* The rows of each break-down that a snapshot has add up to no more than its heap. */
static bool adds_up(hx_store *store, int64_t last)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM snapshots AS s WHERE snapshot > %" PRId64
             " AND heap_bytes <> max("
             " (SELECT coalesce(sum(bytes), 0) FROM retainers AS x WHERE x.snapshot = s.snapshot),"
             " (SELECT coalesce(sum(bytes), 0) FROM types AS x WHERE x.snapshot = s.snapshot),"
             " (SELECT coalesce(sum(bytes), 0) FROM sites AS x WHERE x.snapshot = s.snapshot),"
             " (SELECT coalesce(sum(bytes), 0) FROM biography AS x WHERE x.snapshot = s.snapshot),"
             " (SELECT coalesce(sum(bytes), 0) FROM hx_module AS x WHERE x.snapshot = s.snapshot))",
             last);
    hx_rows *rows = NULL;
    bool more = false, right = false;
    hx_error *err = hx_query_sql(store, sql, &rows);
    if (!err)
        err = hx_rows_next(rows, &more);
    right = !err && more && hx_rows_value(rows, 0).i == 0;
    hx_rows_end(rows);
    hx_error_free(err);
    return right;
}

static const struct hx_importer *detect(const struct hx_fuzz_case *c)
{
    size_t head = c->n < 4096 ? c->n : 4096;
    for (const struct hx_importer *const *importer = hx_importers; *importer; importer++)
        if ((*importer)->detect(c->bytes, head, c->n))
            return *importer;
    return NULL;
}

/* What lies is refused with the place. */
static bool judge_error(const hx_error *err, unsigned *kind)
{
    char line[512];
    hx_error_line(err, line, sizeof line);
    *kind = REFUSED;
    if (err->kind == HX_E_CORRUPT && strstr(line, "at byte "))
        return true;
    *kind = WITHOUT_PROFILE;
    if (err->kind == HX_E_FAIL && strstr(line, "has "))
        return true;
    return wrong(line);
}

static bool one(void *opaque, const struct hx_fuzz_case *c, unsigned *kind)
{
    struct context *context = opaque;
    const struct hx_importer *importer = detect(c);
    struct hx_import import = {
        .path = "case", .bytes = c->bytes, .n = c->n, .store = context->store};
    int64_t before = 0, after = 0;
    *kind = UNKNOWN;
    if (!importer)
        return true;
    hx_error_free(hx_store_resolve(context->store, "last", &before));
    hx_error *err = importer->read(&import);
    if (err) {
        bool right = judge_error(err, kind);
        hx_error_free(err);
        hx_error_free(hx_store_resolve(context->store, "last", &after));
        return right && (before == after || wrong("something was stored of what was refused"));
    }
    *kind = import.partial ? PARTIAL : STORED;
    hx_error_free(hx_store_resolve(context->store, "last", &after));
    if (after <= before)
        return wrong("nothing was stored");
    return adds_up(context->store, before) || wrong("it does not add up");
}

int main(int argc, char **argv)
{
    const struct hx_fuzz fuzz = {
        .one = one, .kinds = kinds, .begin = begin, .end = end, .words = words};
    return hx_fuzz_main(&fuzz, argc, argv);
}
