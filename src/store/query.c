/* query.c - rows out of a store: named views, and SQL that may only read. */
#include "store/query.h"

#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/text.h"
#include "store/db.h"
#include "store/objects/window.h"
#include "store/query/object_name.h"
#include "store/query/set_label.h"
#include "store/store_private.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define VIEW(name, sort, about) {#name, sort, about},
const struct hx_view hx_views[] = {HX_VIEWS(VIEW){NULL, NULL, NULL}};
#undef VIEW

/* What makes a row of a view unique: breaks ties, so that the same question gives the same
 * answer. */
static const struct {
    const char *view, *columns;
} keys[] = {
    {"snapshots", "snapshot"},
    {"account", "snapshot, part"},
    {"censuses", "snapshot"},
    {"retainers", "snapshot, set_id"},
    {"retainer_members", "set_id, position"},
    {"bins", "snapshot, roots"},
    {"roots", "snapshot, root_id"},
    {"types", "snapshot, type"},
    {"pages", "snapshot, census, key"},
    {"dominators", "snapshot, address"},
    {"leaks", "snapshot, kind, type, site"},
    {"sites", "snapshot, ccs_id"},
    {"modules", "snapshot, module"},
    {"biography", "snapshot, phase"},
    {"ccs", "ccs_id"},
    {"costs", "snapshot, ccs_id"},
    {"estimates", "snapshot, ccs_id"},
    {"stacks", "snapshot, stack_id"},
    {"frames", "frame_id"},
    {"threads", "snapshot, tid"},
    {"losses", "snapshot, what, address"},
    {"mprof_leaks", "snapshot, kept_bytes DESC, path, cut"},
    {"mprof_held", "snapshot, path, cut"},
    {"mprof_bins", "snapshot, size = '<TOTAL>', size = 'other bins', size = '> 1024', size"},
    {"mprof_direct", "snapshot, name <> '<TOTAL>', bytes DESC, name"},
    {"mprof_graph", "snapshot, entry, line = 'descendant', line = 'member', line = 'self',"
                    " bytes DESC, name_entry"},
    {"objects", "snapshot, address"},
    {"edges", "snapshot, source"},
    {"root_edges", "snapshot, root_id"},
};

const struct hx_view *hx_view_find(const char *name)
{
    for (const struct hx_view *view = hx_views; view->name; view++)
        if (strcmp(view->name, name) == 0)
            return view;
    return NULL;
}

static hx_error *no_such_view(const char *name)
{
    struct hx_text todo = {0};
    hx_text_puts(&todo, "the views are: ");
    for (const struct hx_view *view = hx_views; view->name; view++)
        hx_text_putf(&todo, "%s%s", view == hx_views ? "" : ", ", view->name);
    hx_error *err = hx_error_new(HX_E_USAGE, name, hx_text_str(&todo), "there is no such view");
    hx_text_free(&todo);
    return err;
}

/* --- named views ------------------------------------------------------------------- */

static void put_sql_name(struct hx_text *sql, const char *name)
{
    hx_text_putc(sql, '"');
    hx_text_puts(sql, name);
    hx_text_putc(sql, '"');
}

/* Is it a column of the view? The error names those there are. */
static hx_error *check_column(hx_store *store, const char *view, const char *column)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "SELECT * FROM ");
    put_sql_name(&text, view);
    HX_STATEMENT sqlite3_stmt *st = NULL;
    hx_error *err = text.failed ? hx_error_nomem()
                                : hx_db_prepare(store->db, store->path, hx_text_str(&text), &st);
    hx_text_clear(&text);
    hx_text_putf(&text, "columns of %s: ", view);
    bool found = false;
    for (int i = 0; !err && i < sqlite3_column_count(st); i++) {
        const char *name = sqlite3_column_name(st, i);
        found |= name && strcmp(name, column) == 0;
        hx_text_putf(&text, "%s%s", i ? ", " : "", name ? name : "");
    }
    if (!err && !found)
        err = hx_error_new(HX_E_USAGE, column, hx_text_str(&text), "not a column to sort by");
    hx_text_free(&text);
    return err;
}

static const char *view_key(const char *view)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].view, view) == 0)
            return keys[i].columns;
    return "1";
}

/* Is `word` one of the words in "a, b, c"? */
static bool is_listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ',' || p[n] == 0))
            return true;
    return false;
}

/* `window`: which has an order of NULL of its own. */
static void put_query_order(struct hx_text *sql, const struct hx_query *query,
                            const struct hx_view *view, bool window)
{
    const char *sort = query->sort ? query->sort : view->sort, *key = view_key(view->name);
    hx_text_puts(sql, " ORDER BY ");
    if (sort) {
        put_sql_name(sql, sort);
        /* what is not known comes last; the columns of a key are always known */
        hx_text_puts(sql, !query->ascending                ? " DESC"
                          : window || is_listed(key, sort) ? ""
                                                           : " NULLS LAST");
        hx_text_puts(sql, ", ");
    }
    hx_text_puts(sql, key);
}

/* Members, cost centres and frames belong to all snapshots that have their set, figures of them, or
 * threads in them. */
static const char *of_snapshot(const char *view)
{
    if (strcmp(view, "retainer_members") == 0)
        return " WHERE set_id IN (SELECT set_id FROM retainers WHERE snapshot = ?1)";
    if (strcmp(view, "ccs") == 0)
        return " WHERE ccs_id IN (WITH RECURSIVE up(id) AS"
               " (SELECT ccs_id FROM costs WHERE snapshot = ?1"
               " UNION SELECT ccs_id FROM sites WHERE snapshot = ?1"
               " UNION SELECT ccs_id FROM threads WHERE snapshot = ?1"
               " UNION SELECT c.parent_id FROM up CROSS JOIN hx_ccs AS c ON c.ccs_id = up.id)"
               " SELECT id FROM up)";
    if (strcmp(view, "frames") == 0)
        return " WHERE frame_id IN (WITH RECURSIVE up(id) AS"
               " (SELECT stack_id FROM hx_stack_cost WHERE snapshot = ?1"
               " UNION SELECT stack_id FROM hx_stack_site WHERE snapshot = ?1"
               " UNION SELECT stack_id FROM hx_thread WHERE snapshot = ?1"
               " UNION SELECT f.parent_id FROM up CROSS JOIN hx_frame AS f ON f.frame_id = up.id"
               " UNION SELECT p.target FROM up CROSS JOIN hx_frame AS f ON f.frame_id = up.id"
               " CROSS JOIN hx_place AS p ON p.place = f.place AND p.target IS NOT NULL)"
               " SELECT id FROM up)";
    return " WHERE snapshot = ?1";
}

hx_error *hx_query_view(hx_store *store, const struct hx_query *query, hx_rows **ret)
{
    return hx_query_from(store, query, NULL, ret);
}

/* All but the order. */
static void put_rows(struct hx_text *sql, const struct hx_query *query, const char *from,
                     const char *columns)
{
    hx_text_putf(sql, "SELECT %s FROM ", columns);
    if (from)
        hx_text_putf(sql, "(%s) AS ", from); /* conditions name the view */
    put_sql_name(sql, query->view);
    if (query->snapshot)
        hx_text_puts(sql, of_snapshot(query->view));
    const char *conditions[] = {query->where, query->also};
    const char *before = query->snapshot ? " AND " : " WHERE ";
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (conditions[i]) {
            hx_text_putf(sql, "%s(%s)", before, conditions[i]);
            before = " AND ";
        }
}

static int note_read(void *tables, int action, const char *first, const char *second,
                     const char *database, const char *trigger)
{
    (void)second, (void)trigger;
    ((struct hx_tables *)tables)->queries += action == SQLITE_SELECT;
    if (action == SQLITE_READ)
        hx_tables_note(tables, first, database);
    return SQLITE_OK;
}

static const char *shown_columns(const struct hx_query *query)
{
    if (query->columns)
        return query->columns;
    if (query->brief && strcmp(query->view, "dominators") == 0)
        return "snapshot, address, coalesce(type, (SELECT o.shape || " HX_MAKER_OF(
            "o") " FROM objects o"
                 " WHERE o.snapshot = dominators.snapshot AND o.address = dominators.address))"
                 " AS type, bytes, retained_bytes, retained_objects, sure_retained_bytes,"
                 " sure_retained_objects, parent";
    return query->brief && strcmp(query->view, "retainers") == 0
               ? "snapshot, set_id, members, many, " HX_SET_BRIEF(
                     "retainers.set_id", "members", "label", "") " AS label, bytes, objects"
               : "*";
}

/* `window`: to be asked for one; *ret is NULL when there is a query within. */
static hx_error *prepare_query(hx_store *store, const struct hx_query *query, const char *from,
                               const struct hx_view *view, bool window, sqlite3_stmt **ret)
{
    struct hx_text sql = {0};
    struct hx_tables tables = {0};
    bool limited = query->limit >= 0 || query->offset > 0;
    put_rows(&sql, query, from, shown_columns(query));
    put_query_order(&sql, query, view, window);
    if (limited)
        hx_text_puts(&sql, " LIMIT ?2 OFFSET ?3");
    sqlite3_set_authorizer(store->db, note_read, &tables);
    hx_error *err = sql.failed ? hx_error_nomem()
                               : hx_db_prepare(store->db, store->path, hx_text_str(&sql), ret);
    sqlite3_set_authorizer(store->db, NULL, NULL);
    hx_text_free(&sql);
    if (err)
        return err;
    err = hx_tables_check(store, &tables);
    if (err || (window && tables.queries > 1)) {
        sqlite3_finalize(*ret);
        *ret = NULL;
        return err;
    }
    if (query->snapshot)
        sqlite3_bind_int64(*ret, 1, query->snapshot);
    if (limited) {
        sqlite3_bind_int64(*ret, 2, query->limit >= 0 ? query->limit : -1);
        sqlite3_bind_int64(*ret, 3, query->offset > 0 ? query->offset : 0);
    }
    return NULL;
}

/* Asks the object table for a window. *ret is its statement, which was stepped; NULL: SQLite has to
 * sort, or test more than a pass can. */
static hx_error *ask_window(hx_store *store, const struct hx_query *query, struct hx_window *window,
                            sqlite3_stmt **ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    *ret = NULL;
    if (strcmp(query->view, "objects") != 0 || !query->snapshot || query->limit <= 0)
        return NULL;
    window->nulls_last = query->ascending;
    HX_TRY(prepare_query(store, query, NULL, hx_view_find(query->view), true, &st));
    if (!st)
        return NULL;
    int code = hx_window_step(store->blocks, st, window);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(store->db, code, store->path);
    *ret = window->found ? hx_steal(st) : NULL;
    return NULL;
}

hx_error *hx_query_from(hx_store *store, const struct hx_query *query, const char *from,
                        hx_rows **ret)
{
    const struct hx_view *view = hx_view_find(query->view);
    struct hx_window rows = {.about = HX_WINDOW_ROWS};
    if (!view)
        return no_such_view(query->view);
    if (query->sort)
        HX_TRY(check_column(store, view->name, query->sort));
    sqlite3_stmt *st = NULL;
    if (!from)
        HX_TRY(ask_window(store, query, &rows, &st));
    if (!st)
        HX_TRY(prepare_query(store, query, from, view, false, &st));
    return hx_rows_over(store, st, ret);
}

hx_error *hx_query_place(hx_store *store, const struct hx_query *query, uint64_t address, bool near,
                         int64_t *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    struct hx_query any = *query;
    struct hx_window place = {.about = HX_WINDOW_PLACE, .address = address, .near = near};
    any.limit = 1;
    HX_TRY(ask_window(store, &any, &place, &st));
    *ret = place.there ? (int64_t)place.number : -1;
    return NULL;
}

static hx_error *count_rows(hx_store *store, const struct hx_query *query, int64_t *ret)
{
    struct hx_text sql = {0};
    HX_STATEMENT sqlite3_stmt *st = NULL;
    put_rows(&sql, query, NULL, "count(*)");
    hx_error *err = sql.failed ? hx_error_nomem()
                               : hx_db_prepare(store->db, store->path, hx_text_str(&sql), &st);
    hx_text_free(&sql);
    if (err)
        return err;
    if (query->snapshot)
        sqlite3_bind_int64(st, 1, query->snapshot);
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(store->db, code, store->path);
    *ret = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    return NULL;
}

hx_error *hx_query_count(hx_store *store, const struct hx_query *query, int64_t *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    struct hx_query any = *query; /* in the order that costs nothing */
    struct hx_window count = {.about = HX_WINDOW_COUNT};
    if (!hx_view_find(query->view))
        return no_such_view(query->view);
    any.sort = "address";
    any.limit = 1;
    HX_TRY(ask_window(store, &any, &count, &st));
    if (!st)
        return count_rows(store, query, ret);
    *ret = (int64_t)count.number;
    return NULL;
}

/* --- SQL --------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; name && *list; list++)
        if (strcasecmp(name, *list) == 0)
            return true;
    return false;
}

/* Pragmas that only tell something. Those of the second list do so when nothing is set. */
static bool may_ask(const char *pragma, bool sets)
{
    static const char *const tell[] = {
        "table_info",    "table_xinfo",    "table_list",       "index_list",
        "index_info",    "index_xinfo",    "foreign_key_list", "database_list",
        "function_list", "module_list",    "pragma_list",      "collation_list",
        "page_count",    "freelist_count", "compile_options",  NULL};
    static const char *const tell_unless_set[] = {
        "user_version",   "application_id", "encoding", "page_size",
        "schema_version", "journal_mode",   NULL};
    return is_one_of(pragma, tell) || (!sets && is_one_of(pragma, tell_unless_set));
}

/* What a statement of the user's may do: read. */
static int may_read(void *context, int action, const char *first, const char *second,
                    const char *database, const char *trigger)
{
    note_read(context, action, first, second, database, trigger);
    static const char *const effects[] = {"load_extension", "fts3_tokenizer", NULL};
    static const char pragma[] = "pragma_";
    bool allowed = false;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        allowed = true;
        break;
    case SQLITE_UPDATE: /* how a table function declares itself when it is first used; an UPDATE
                         * of the user's is no read-only statement and refused for that */
        allowed = first && strcmp(first, "sqlite_master") == 0;
        break;
    case SQLITE_READ: /* pragmas are tables, too */
        allowed = !first || strncasecmp(first, pragma, sizeof pragma - 1) != 0 ||
                  may_ask(first + sizeof pragma - 1, true);
        break;
    case SQLITE_FUNCTION:
        allowed = !is_one_of(second, effects);
        break;
    case SQLITE_PRAGMA:
        allowed = may_ask(first, second != NULL);
        break;
    default:
        break;
    }
    return allowed ? SQLITE_OK : SQLITE_DENY;
}

/* --- what a misspelt name was meant to be --- */

static bool is_name_byte(char c)
{
    return c == '_' || isalnum((unsigned char)c);
}

/* Where a name stands in a statement, as a word of its own; NULL: nowhere. */
static const char *find_word(const char *sql, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = sql; n && (s = strcasestr(s, name)); s++)
        if ((s == sql || !is_name_byte(s[-1])) && !is_name_byte(s[n]))
            return s;
    return NULL;
}

static const char *next_view(void *context)
{
    const struct hx_view **next = context;
    return (*next)->name ? (*next)++->name : NULL;
}

/* The columns of the views that a statement speaks of. */
struct columns_of {
    const char *sql;
    struct hx_filter_schema schema;
    size_t next;
};

static const char *next_column(void *context)
{
    struct columns_of *of = context;
    while (of->next < of->schema.n) {
        const struct hx_filter_column *column = &of->schema.columns[of->next++];
        if (find_word(of->sql, column->view))
            return column->name;
    }
    return NULL;
}

/* What to do about a name that does not exist; nothing where none is near. */
static void put_meant(const char *sql, const char *name, bool table, struct hx_text *ret)
{
    const struct hx_view *view = hx_views;
    struct columns_of of = {.sql = sql};
    const char *dot = strrchr(name, '.'), *bare = dot ? dot + 1 : name, *near;
    if (table) {
        near = hx_nearest(bare, next_view, &view);
    } else {
        hx_view_schema(NULL, &of.schema);
        near = hx_nearest(bare, next_column, &of);
    }
    if (near) {
        hx_text_putf(ret, "did you mean %s?", near);
    } else if (table) {
        hx_text_puts(ret, "the views are: ");
        for (view = hx_views; view->name; view++)
            hx_text_putf(ret, "%s%s", view == hx_views ? "" : ", ", view->name);
    } else {
        of.next = 0;
        for (const char *column; (column = next_column(&of));)
            hx_text_putf(ret, "%s%s", ret->n ? ", " : "there are: ", column);
    }
}

/* In characters, from 1. */
static int sql_character(const char *sql, size_t offset)
{
    int column = 1;
    for (size_t i = 0; i < offset && sql[i]; i++)
        column += ((unsigned char)sql[i + 1] & 0xc0) != 0x80;
    return column;
}

static hx_error *sql_error(hx_store *store, int code, const char *sql, size_t *ret_offset)
{
    static const char no_table[] = "no such table: ", no_column[] = "no such column: ";
    if ((code & 0xff) == SQLITE_AUTH)
        return hx_error_new(HX_E_USAGE, "SQL", "use SELECT, WITH, VALUES or EXPLAIN",
                            "only reading is possible");
    if ((code & 0xff) != SQLITE_ERROR)
        return hx_db_error(store->db, code, store->path);
    const char *message = sqlite3_errmsg(store->db), *at = NULL, *name = NULL;
    int offset = sqlite3_error_offset(store->db);
    bool table = strncmp(message, no_table, sizeof no_table - 1) == 0;
    if (table)
        name = message + sizeof no_table - 1;
    else if (strncmp(message, no_column, sizeof no_column - 1) == 0)
        name = message + sizeof no_column - 1;
    if (name && offset < 0)
        at = find_word(sql, name);
    struct hx_text todo = {0};
    if (name)
        put_meant(sql, name, table, &todo);
    if (at)
        offset = (int)(at - sql);
    bool known = offset >= 0 && (size_t)offset <= strlen(sql);
    if (known && ret_offset)
        *ret_offset = (size_t)offset;
    const char *what = todo.n ? hx_text_str(&todo) : NULL;
    hx_error *error = known ? hx_error_new(HX_E_USAGE, "SQL", what, "%s, at column %d", message,
                                           sql_character(sql, (size_t)offset))
                            : hx_error_new(HX_E_USAGE, "SQL", what, "%s", message);
    hx_text_free(&todo);
    return error;
}

/* Is there another statement behind the first one? Comments and blanks are none. */
static bool another(hx_store *store, const char *tail)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    return tail && *tail && (sqlite3_prepare_v2(store->db, tail, -1, &st, NULL) != SQLITE_OK || st);
}

hx_error *hx_query_prepare(hx_store *store, const char *sql, size_t *ret_offset, sqlite3_stmt **ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    const char *tail = NULL;
    hx_error *err = NULL;
    struct hx_tables tables = {0};
    sqlite3_set_authorizer(store->db, may_read, &tables);
    int code = sqlite3_prepare_v2(store->db, sql, -1, &st, &tail);
    if (code != SQLITE_OK)
        err = sql_error(store, code, sql, ret_offset);
    else if (!st)
        err = hx_error_new(HX_E_USAGE, "SQL", "give one SELECT statement", "there is no statement");
    else if (!sqlite3_stmt_readonly(st))
        err = sql_error(store, SQLITE_AUTH, sql, NULL);
    else if (another(store, tail))
        err = hx_error_new(HX_E_USAGE, "SQL", "give them one by one", "more than one statement");
    sqlite3_set_authorizer(store->db, NULL, NULL);
    if (!err)
        err = hx_tables_check(store, &tables);
    if (!err)
        *ret = hx_steal(st);
    return err;
}

hx_error *hx_query_sql(hx_store *store, const char *sql, hx_rows **ret)
{
    sqlite3_stmt *st;
    HX_TRY(hx_query_prepare(store, sql, NULL, &st));
    return hx_rows_over(store, st, ret);
}
