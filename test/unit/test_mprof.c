/* test_mprof.c - mprof's tables: the worked example of the paper, and each of its rules for itself,
 * over stacks that are written down as paths. */
#include "store_model.h"

#include "base/text.h"
#include "store/cost/mprof.h"
#include "store/cost/mprof_fill.h"
#include "store/db.h"
#include "store/print/print_mprof.h"
#include "store/schema/schema.h"

#include <math.h>

/* --- recordings written down -------------------------------------------------------- */

struct asked {
    char path[4096];
    struct hx_rec_costs costs;
    uint32_t node;
    const char *holder;
};

/* Requests by size, of all stacks. */
struct sized {
    int64_t size;
    uint64_t allocs, frees;
};

struct recorded {
    char *directory, *file;
    sqlite3 *db;
    struct hx_frames frames;
    struct hx_attribution how;
    struct asked asked[512];
    size_t n;
    struct sized sized[512];
    size_t n_sized;
    bool classes;
    int64_t snapshots;
    hx_store *store;
};

static int begin(void **state)
{
    struct recorded *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->directory = model_directory();
    r->file = model_path(r->directory, "store");
    r->how = HX_ATTRIBUTION_DEFAULT;
    r->classes = true;
    *state = r;
    return 0;
}

static int end(void **state)
{
    struct recorded *r = *state;
    hx_store_close(r->store);
    free(r->file);
    model_remove(r->directory);
    free(r);
    return 0;
}

/* `allocs` requests of `size` bytes at a stack "main > f > g", of which `frees` were freed. "f@2"
 * is f calling at another place. */
static void ask(struct recorded *r, const char *path, uint64_t size, uint64_t allocs,
                uint64_t frees)
{
    size_t i = 0, s = 0;
    while (i < r->n && strcmp(r->asked[i].path, path) != 0)
        i++;
    assert_true(i < 512 && strlen(path) < sizeof r->asked[i].path);
    strcpy(r->asked[i].path, path);
    r->n = i == r->n ? i + 1 : r->n;
    struct hx_rec_costs *costs = &r->asked[i].costs;
    costs->allocs += allocs;
    costs->alloc_bytes += allocs * size;
    costs->frees += frees;
    costs->freed_bytes += frees * size;
    costs->alloc_class[hx_size_class(size)] += allocs * size;
    costs->freed_class[hx_size_class(size)] += frees * size;
    while (s < r->n_sized && r->sized[s].size != (int64_t)size)
        s++;
    assert_true(s < 512);
    r->n_sized = s == r->n_sized ? s + 1 : r->n_sized;
    r->sized[s].size = (int64_t)size;
    r->sized[s].allocs += allocs;
    r->sized[s].frees += frees;
}

/* The node of one function called from another one. */
static uint32_t call(struct recorded *r, uint32_t parent, const char *word)
{
    char name[512];
    uint32_t place, node;
    uint64_t vaddr = 0x1000;
    strcpy(name, word);
    for (const char *p = word; *p && *p != '@'; p++)
        vaddr = vaddr * 33 % 0xfffff0 + (uint8_t)*p;
    uint64_t entry = vaddr * 256;
    char *at = strchr(name, '@');
    if (at)
        *at = 0;
    struct hx_frames_centre centre = {.kind = HX_CENTRE_FUNCTION,
                                      .file = HX_FRAMES_NO_FILE,
                                      .label = name,
                                      .module = "program",
                                      .entry = entry};
    struct hx_frames_place of = {.file = HX_FRAMES_NO_FILE,
                                 .vaddr = entry + 4 + (at ? strtoull(at + 1, NULL, 10) : 0),
                                 .entry = entry,
                                 .label = name,
                                 .module = "program",
                                 .kind = HX_FRAME_CODE};
    assert_done(hx_frames_centre(&r->frames, &centre, &of.centre));
    assert_done(hx_frames_place(&r->frames, &of, &place));
    assert_done(hx_frames_child(&r->frames, parent, place, &node));
    return node;
}

/* A tilde stands for an arrow that belongs to a name. */
static uint32_t name_node(struct recorded *r, uint32_t parent, const char *word)
{
    struct hx_text name = {0};
    for (; *word; word++)
        hx_text_puts(&name, *word == '~' ? " > " : (char[]){*word, 0});
    uint32_t node = call(r, parent, hx_text_str(&name));
    hx_text_free(&name);
    return node;
}

static uint32_t path_node(struct recorded *r, const char *path)
{
    char words[4096];
    strcpy(words, path);
    uint32_t node = HX_CCS_MAIN - 1;
    for (char *word = words, *next; word; word = next) {
        next = strstr(word, " > ");
        if (next) {
            *next = 0;
            next += 3;
        }
        if (strcmp(word, "<cut>") == 0)
            node = HX_CCS_CUT - 1;
        else if (strcmp(word, "<unknown>") == 0)
            node = HX_CCS_UNKNOWN - 1;
        else
            node = name_node(r, node, word);
    }
    return node;
}

static void run(struct recorded *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void run(struct recorded *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    assert_done(hx_db_exec(r->db, "test", sql));
    sqlite3_free(sql);
}

#define CLASSES(c) (long long)(c)[0], (long long)(c)[1], (long long)(c)[2], (long long)(c)[3]

static void store_stack(struct recorded *r, const struct asked *asked)
{
    const struct hx_rec_costs *c = &asked->costs;
    long long id = r->frames.node.v[asked->node].id, n = r->snapshots;
    run(r,
        "INSERT OR IGNORE INTO hx_stack(stack_id, label, site, module, identity, origin)"
        " VALUES(%lld, '', '', '', 0, %lld)",
        id, id);
    run(r,
        "INSERT INTO hx_stack_cost(snapshot, stack_id, alloc_bytes, alloc_objects, freed_bytes,"
        " freed_objects, live_bytes, live_objects) VALUES(%lld,%lld,%lld,%lld,%lld,%lld,0,0)",
        n, id, (long long)c->alloc_bytes, (long long)c->allocs, (long long)c->freed_bytes,
        (long long)c->frees);
    if (r->classes)
        run(r,
            "UPDATE hx_stack_cost SET alloc_s = %lld, alloc_m = %lld, alloc_l = %lld,"
            " alloc_x = %lld, freed_s = %lld, freed_m = %lld, freed_l = %lld, freed_x = %lld"
            " WHERE snapshot = %lld AND stack_id = %lld",
            CLASSES(c->alloc_class), CLASSES(c->freed_class), n, id);
}

/* Writes everything asked for so far as one more snapshot. */
static void snapshot(struct recorded *r)
{
    assert_int_equal(sqlite3_open(r->file, &r->db), SQLITE_OK);
    if (!r->snapshots++)
        assert_done(hx_schema_create(r->db, "test"));
    run(r, "BEGIN");
    assert_done(hx_frames_load(r->db, "test", true, &r->frames));
    for (size_t i = 0; i < r->n; i++)
        r->asked[i].node = path_node(r, r->asked[i].path);
    assert_done(hx_frames_store(&r->frames));
    for (size_t i = 0; i < r->n; i++)
        store_stack(r, &r->asked[i]);
    for (size_t i = 0; i < r->n_sized && r->classes; i++)
        run(r, "INSERT INTO hx_size VALUES(%lld, %lld, %lld, %lld, %lld, %lld)",
            (long long)r->snapshots, (long long)r->sized[i].size, (long long)r->sized[i].allocs,
            (long long)(r->sized[i].allocs * (uint64_t)r->sized[i].size),
            (long long)r->sized[i].frees,
            (long long)(r->sized[i].frees * (uint64_t)r->sized[i].size));
    run(r, "INSERT INTO hx_recording(snapshot, method) VALUES(%lld, 'run')",
        (long long)r->snapshots);
    run(r,
        "INSERT INTO hx_snapshot(snapshot, taken_at_ns, taken_at, interior, complete)"
        " VALUES(%lld, 0, '', 0, 1)",
        (long long)r->snapshots);
    struct hx_attributing a;
    assert_done(hx_attributing_init(r->db, "test", &r->frames, &r->how, NULL, &a));
    assert_done(hx_mprof_chains(&a));
    assert_done(hx_mprof_snapshot(&a, r->snapshots));
    hx_attributing_deinit(&a);
    hx_frames_deinit(&r->frames);
    run(r, "COMMIT");
    assert_int_equal(sqlite3_close(r->db), SQLITE_OK);
}

static void sql(struct recorded *r, const char *statement)
{
    assert_int_equal(sqlite3_open(r->file, &r->db), SQLITE_OK);
    run(r, "%s", statement);
    assert_int_equal(sqlite3_close(r->db), SQLITE_OK);
}

/* --- looking at them ----------------------------------------------------------------- */

static hx_store *opened(struct recorded *r)
{
    if (!r->store)
        assert_done(hx_store_open(r->file, &r->store));
    return r->store;
}

static struct hx_query query_of(const char *view)
{
    return (struct hx_query){.view = view, .limit = -1};
}

static bool is_wanted(const char *columns, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = columns; (p = strstr(p, name)); p += n)
        if ((p == columns || p[-1] == ' ') && (!p[n] || p[n] == ' '))
            return true;
    return false;
}

/* Rows as lines: values between bars, reals as percents, NULL as "-". columns NULL: all but the
 * snapshot. */
static char *rows_of(struct recorded *r, const struct hx_query *query, enum hx_mprof_level level,
                     const char *columns)
{
    struct hx_text text = {0};
    hx_rows *rows = NULL;
    assert_done(hx_query_mprof(opened(r), query, level, &rows));
    for (;;) {
        bool more, first = true;
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
        for (size_t c = 0; c < hx_rows_columns(rows); c++) {
            struct hx_value value = hx_rows_value(rows, c);
            if (columns ? !is_wanted(columns, hx_rows_name(rows, c)) : c == 0)
                continue;
            hx_text_puts(&text, first ? "" : "|");
            first = false;
            if (value.type == HX_VALUE_INT)
                hx_text_putf(&text, "%lld", (long long)value.i);
            else if (value.type == HX_VALUE_REAL)
                hx_text_putf(&text, "%.10g%%", value.real);
            else
                hx_text_puts(&text, value.type == HX_VALUE_TEXT ? value.text : "-");
        }
        hx_text_putc(&text, '\n');
    }
    hx_rows_end(rows);
    assert_false(text.failed);
    return text.s ? text.s : strdup("");
}

static void expect_columns(struct recorded *r, const char *view, enum hx_mprof_level level,
                           const char *columns, const char *expected)
{
    struct hx_query query = query_of(view);
    char *rows = rows_of(r, &query, level, columns);
    assert_string_equal(rows, expected);
    free(rows);
}

static void expect_rows(struct recorded *r, const char *view, enum hx_mprof_level level,
                        const char *expected)
{
    expect_columns(r, view, level, NULL, expected);
}

static char *printed(struct recorded *r, const struct hx_query *query, enum hx_mprof_level level)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_done(hx_mprof_print(opened(r), query, level, file));
    fclose(file);
    return text;
}

static void expect_text(struct recorded *r, const char *view, enum hx_mprof_level level,
                        const char *expected)
{
    struct hx_query query = query_of(view);
    char *text = printed(r, &query, level);
    assert_string_equal(text, expected);
    free(text);
}

/* --- the worked example -------------------------------------------------------------- */

static void ask_widgets(struct recorded *r)
{
    ask(r, "main > make_red_widget > make_widget", 204, 5019, 0);
    ask(r, "main > make_blue_widget > make_widget", 204, 4981, 4981);
    ask(r, "main > open_file", 24, 1, 0);
}

static void test_example_rows(void **state)
{
    struct recorded *r = *state;
    ask_widgets(r);
    snapshot(r);
    expect_rows(r, "mprof_leaks", HX_MPROF_NORMAL,
                "1023876|99.99765602%|5019|1023876|99.99765602%|0|0|0%|"
                "main > make_red_widget > make_widget|0\n");
    expect_rows(r, "mprof_bins", HX_MPROF_VERBOSE,
                "24|1|24|0.001176456748%|0|24|0.002343978904%|-\n"
                "204|10000|2040000|99.99882354%|4981|1023876|99.99765602%|-\n"
                "<TOTAL>|10001|2040024|100%|4981|1023900|100%|-\n");
    expect_rows(r, "mprof_direct", HX_MPROF_NORMAL,
                "100%|2040024|0.001176456748%|99.99882354%|0%|0%|1023900|0.002343978904%|"
                "99.99765602%|0%|0%|10001|<TOTAL>\n"
                "99.99882354%|2040000|0%|99.99882354%|0%|0%|1023876|0%|99.99765602%|0%|0%|10000|"
                "make_widget\n"
                "0.001176456748%|24|0.001176456748%|0%|0%|0%|24|0.002343978904%|0%|0%|0%|1|"
                "open_file\n");
}

static void test_example_text(void **state)
{
    struct recorded *r = *state;
    ask_widgets(r);
    snapshot(r);
#define HEAD(title)                                                                                \
    title " of snapshot 1\n2040024 bytes in 10001 allocations, 1023900 bytes not freed\n\n"
    expect_text(
        r, "mprof_leaks", HX_MPROF_VERBOSE,
        HEAD("Memory leaks") "kept bytes (%)   allocs    bytes (%)   frees  bytes (%)   path\n"
                             "   1023876 (99)    5019  1023876 (99)      0      0       || > main "
                             "> make_red_widget >"
                             " make_widget\n"
                             "        24 (.)        1       24 (.)       0      0       || > main "
                             "> open_file\n");
    expect_text(
        r, "mprof_bins", HX_MPROF_NORMAL,
        HEAD("Allocation bins") "      size  allocs    bytes (%)   frees     kept (%)   types\n"
                                "       204   10000  2040000 (99)   4981  1023876 (99)\n"
                                "other bins       1       24 (.)       0       24 (.)\n"
                                "   <TOTAL>   10001  2040024 (**)   4981  1023900 (**)\n");
    expect_text(r, "mprof_direct", HX_MPROF_NORMAL,
                HEAD("Direct allocation") "% mem    bytes  % mem(size)  bytes kept  % all kept   "
                                          "calls  name\n"
                                          "                 s  m  l  x               s  m  l  x\n"
                                          "   **  2040024   . 99           1023900   . 99        "
                                          "10001  <TOTAL>\n"
                                          "   99  2040000     99           1023876     99        "
                                          "10000  make_widget\n"
                                          "    .       24   .                   24   .             "
                                          "  1  open_file\n");
}

#define RULE                                                                                       \
    "----------------------------------------------------------------------------------------"     \
    "------------\n"

static void test_example_graph(void **state)
{
    struct recorded *r = *state;
    ask_widgets(r);
    snapshot(r);
    /* clang-format off */
    expect_text(r, "mprof_graph", HX_MPROF_NORMAL,
        "Allocation call graph of snapshot 1\n"
        "2040024 bytes in 10001 allocations, 1023900 bytes not freed\n"
        "\n"
        "index self     self        size-func    frac\n"
        "      desc    bytes (%)    s  m  l  x   s  m  l  x  called/total  name [index]\n"
        RULE
        "[0]     **        0                    -----------       0        main [0]\n"
        "            1023876 (50)     **           50          5019/5019     make_red_widget [2]\n"
        "            1016124 (49)     **           49          4981/4981     make_blue_widget [3]\n"
        "                 24 (.)   **            .                1/1        open_file [4]\n"
        "            2040024 (**)   . 99         . 99         10001          all\n"
        RULE
        "            2040000 (**)     **           **         10000          all\n"
        "            1023876 (50)     **           50          5019/5019     make_red_widget [2]\n"
        "            1016124 (49)     **           49          4981/4981     make_blue_widget [3]\n"
        "[1]     99  2040000 (**)     **        -----------   10000        make_widget [1]\n"
        RULE
        "            1023876 (**)     **           **          5019/10001    main [0]\n"
        "[2]     50        0                    -----------    5019        make_red_widget [2]\n"
        "            1023876 (**)     **           **          5019/10000    make_widget [1]\n"
        RULE
        "            1016124 (**)     **           **          4981/10001    main [0]\n"
        "[3]     49        0                    -----------    4981        make_blue_widget [3]\n"
        "            1016124 (**)     **           **          4981/10000    make_widget [1]\n"
        RULE
        "                 24 (**)  **           **                1/10001    main [0]\n"
        "[4]      .       24 (**)  **           -----------       1        open_file [4]\n");
    /* clang-format on */
}

/* --- cells and classes --------------------------------------------------------------- */

static void test_cells(void **state)
{
    (void)state;
    static const struct {
        double share;
        const char *cell;
    } cases[] = {{0, ""},      {1e-9, "."}, {0.5, "."},    {0.999999, "."}, {1, "1"},
                 {1.9, "1"},   {9.99, "9"}, {10, "10"},    {98.999, "98"},  {99, "99"},
                 {99.9, "99"}, {100, "**"}, {100.5, "**"}, {NAN, ""},       {-1, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char cell[HX_MPROF_CELL], full[16] = "";
        struct hx_value share = {.type = HX_VALUE_REAL, .real = cases[i].share};
        struct hx_text text = {0};
        hx_mprof_cell(share, cell);
        assert_string_equal(cell, cases[i].cell);
        if (*cell)
            snprintf(full, sizeof full, "(%s)", cases[i].cell);
        hx_mprof_put_share(&text, share);
        assert_int_equal(text.n, 4);
        assert_memory_equal(text.s, full, strlen(full));
        hx_text_free(&text);
    }
    char cell[HX_MPROF_CELL];
    hx_mprof_cell((struct hx_value){.type = HX_VALUE_NULL}, cell);
    assert_string_equal(cell, "");
}

static void test_classes(void **state)
{
    struct recorded *r = *state;
    static const struct {
        uint64_t size;
        const char *name;
    } sizes[] = {{32, "a"},   {33, "b"},   {256, "c"},  {257, "d"},
                 {2048, "e"}, {2049, "f"}, {0, "zero"}, {1, "g"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ask(r, sizes[i].name, sizes[i].size, 1, i % 2);
    snapshot(r);
    /* bytes: s 33, m 289, l 2305, x 2049, of 4676; kept 32, 256, 2048, 0, of 2336 */
    expect_text(r, "mprof_direct", HX_MPROF_NORMAL,
                "Direct allocation of snapshot 1\n4676 bytes in 8 allocations, 2336 bytes not"
                " freed\n\n"
                "% mem  bytes  % mem(size)  bytes kept  % all kept   calls  name\n"
                "               s  m  l  x               s  m  l  x\n"
                "   **   4676   .  6 49 43        2336   1 10 87         8  <TOTAL>\n"
                "   43   2049           43           0                   1  f\n"
                "   43   2048        43           2048        87         1  e\n"
                "    5    257         5              0                   1  d\n"
                "    5    256      5               256     10            1  c\n"
                "    .     33      .                 0                   1  b\n"
                "    .     32   .                   32   1               1  a\n"
                "    .      1   .                    0                   1  g\n");
}

/* --- levels -------------------------------------------------------------------------- */

/* At 0.5 and 1 % of the bytes allocated, not of those kept. */
static void test_leak_levels(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > most", 981, 1, 0);
    ask(r, "main > one", 5, 2, 1); /* 1 % exactly, and 0.5 % of what is kept */
    ask(r, "main > half", 5, 1, 0);
    ask(r, "main > less", 4, 1, 0);
    ask(r, "main > freed", 100000, 1, 1); /* not in the table, and in none of its shares */
    snapshot(r);
    expect_columns(r, "mprof_leaks", HX_MPROF_TERSE, "path", "main > most\nmain > one\n");
    expect_columns(r, "mprof_leaks", HX_MPROF_NORMAL, "path",
                   "main > most\nmain > half\nmain > one\n");
    expect_rows(r, "mprof_leaks", HX_MPROF_VERBOSE,
                "981|98.59296482%|1|981|98.1%|0|0|0%|main > most|0\n"
                "5|0.5025125628%|1|5|0.5%|0|0|0%|main > half|0\n"
                "5|0.5025125628%|2|10|1%|1|5|100%|main > one|0\n"
                "4|0.4020100503%|1|4|0.4%|0|0|0%|main > less|0\n");
}

static void test_bin_levels(void **state)
{
    struct recorded *r = *state;
    ask(r, "f", 8, 932, 900);
    ask(r, "f", 9, 20, 0);  /* 1/50 exactly */
    ask(r, "f", 10, 21, 0); /* more */
    ask(r, "f", 11, 10, 0); /* a type, 1/100 exactly */
    ask(r, "f", 12, 11, 0); /* a type, more */
    ask(r, "f", 13, 2, 0);  /* 1/500 exactly */
    ask(r, "f", 14, 3, 0);  /* more */
    ask(r, "f", 100, 0, 0);
    ask(r, "f", 101, 1, 0); /* large enough */
    snapshot(r);
    sql(r, "INSERT INTO hx_size_type VALUES(1, 11, 'eleven'), (1, 12, 'twelve'),"
           " (1, 12, 'dozen'), (1, 77, 'absent')");
    expect_columns(r, "mprof_bins", HX_MPROF_TERSE, "size allocs bytes frees kept_bytes types",
                   "8|932|7456|900|256|-\n"
                   "10|21|210|0|210|-\n"
                   "12|11|132|0|132|dozen, twelve\n"
                   "other bins|36|459|0|459|-\n"
                   "<TOTAL>|1000|8257|900|1057|-\n");
    expect_columns(r, "mprof_bins", HX_MPROF_NORMAL, "size allocs bytes frees kept_bytes types",
                   "8|932|7456|900|256|-\n"
                   "9|20|180|0|180|-\n"
                   "10|21|210|0|210|-\n"
                   "11|10|110|0|110|eleven\n"
                   "12|11|132|0|132|dozen, twelve\n"
                   "14|3|42|0|42|-\n"
                   "101|1|101|0|101|-\n"
                   "other bins|2|26|0|26|-\n"
                   "<TOTAL>|1000|8257|900|1057|-\n");
    expect_columns(r, "mprof_bins", HX_MPROF_VERBOSE, "size allocs",
                   "8|932\n9|20\n10|21\n11|10\n12|11\n13|2\n14|3\n101|1\n<TOTAL>|1000\n");
    struct hx_query query = query_of("mprof_bins");
    query.where = "mprof_bins.size = 'other bins'"; /* as the filter language makes it */
    char *rows = rows_of(r, &query, HX_MPROF_TERSE, "bytes bytes_percent kept_percent");
    assert_string_equal(rows, "459|5.558919704%|43.42478713%\n");
    free(rows);
}

/* 1023 and 1024 have rows of their own; what is larger has one, with its types. */
static void test_large_bins(void **state)
{
    struct recorded *r = *state;
    ask(r, "f", 1022, 1, 0);
    ask(r, "f", 1023, 1, 0);
    ask(r, "f", 1024, 2, 1);
    ask(r, "f", 1025, 3, 1);
    ask(r, "f", 5000, 1, 0);
    snapshot(r);
    sql(r, "INSERT INTO hx_size VALUES(1, -1, 2, 20000, 0, 0);"
           "INSERT INTO hx_size_type VALUES(1, 1024, 'page'), (1, 1025, 'more'),"
           " (1, 5000, 'pair<int, long>'), (1, 5000, 'big'), (1, 9999, 'more'), (1, 7000, 'huge')");
    expect_columns(r, "mprof_bins", HX_MPROF_NORMAL, "size allocs bytes frees kept_bytes types",
                   "1022|1|1022|0|1022|-\n"
                   "1023|1|1023|0|1023|-\n"
                   "1024|2|2048|1|1024|page\n"
                   "> 1024|6|28075|1|27050|big, huge, more, pair<int, long>\n"
                   "<TOTAL>|10|32168|2|30119|-\n");
    struct hx_query query = query_of("mprof_bins");
    char *text = printed(r, &query, HX_MPROF_NORMAL);
    assert_non_null(strstr(text,
                           "    > 1024       6  28075 (87)      1  27050 (89)  big, huge, more,\n"
                           "                                                   pair<int, long>"
                           "\n   <TOTAL>"));
    free(text);
}

/* --- chains -------------------------------------------------------------------------- */

static void test_chains(void **state)
{
    struct recorded *r = *state;
    ask(r, "_start > __libc_start_main > main > a > b > c > d", 9, 1, 0);
    ask(r, "main > a > b > c > d > e", 8, 1, 0);
    ask(r, "clone > thread > worker", 7, 1, 0); /* shorter than five */
    ask(r, "<cut> > x > y", 6, 1, 0);
    ask(r, "<unknown>", 5, 1, 0);
    ask(r, "main > f@1 > g", 3, 1, 0);
    ask(r, "main > f@9 > g", 1, 1, 0);
    ask(r, "main > main > r > r > r > r > r", 2, 1, 0);
    snapshot(r);
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "kept_bytes allocs path cut",
                   "9|1|main > a > b > c > d|0\n"
                   "8|1|a > b > c > d > e|1\n"
                   "7|1|clone > thread > worker|0\n"
                   "6|1|x > y|1\n"
                   "5|1|<unknown>|1\n"
                   "4|2|main > f > g|0\n"
                   "2|1|r > r > r > r > r|1\n");
}

static void test_chain_options(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > a > b > c > d > e", 8, 1, 0);
    ask(r, "main > f@1 > g", 3, 1, 0);
    ask(r, "main > f@9 > g", 1, 1, 0);
    snapshot(r);
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    how.chain_depth = 2;
    assert_done(hx_store_attribute(opened(r), 0, &how, NULL, NULL));
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "kept_bytes path cut",
                   "8|d > e|1\n4|f > g|1\n");
    how.chain_depth = 0;
    assert_done(hx_store_attribute(opened(r), 0, &how, NULL, NULL));
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "kept_bytes path cut",
                   "8|main > a > b > c > d > e|0\n4|main > f > g|0\n");
    how.offsets = true;
    how.chain_depth = 3;
    assert_done(hx_store_attribute(opened(r), 1, &how, NULL, NULL));
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "kept_bytes path cut",
                   "8|c+5 > d+5 > e+5|1\n3|main+5 > f+6 > g+5|0\n1|main+5 > f+14 > g+5|0\n");
}

static void test_nothing_freed(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > f", 10, 2, 0);
    snapshot(r);
    expect_text(r, "mprof_leaks", HX_MPROF_NORMAL,
                "Memory leaks of snapshot 1\n20 bytes in 2 allocations, 20 bytes not freed\n\n"
                "kept bytes (%)   allocs  bytes (%)   path\n"
                "        20 (**)       2     20 (**)  || > main > f\n");
}

static void test_no_leaks(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > f", 10, 2, 2);
    snapshot(r);
    expect_text(r, "mprof_leaks", HX_MPROF_NORMAL,
                "Memory leaks of snapshot 1\n20 bytes in 2 allocations, 0 bytes not freed\n\n"
                "kept bytes (%)   allocs  bytes (%)   frees  bytes (%)   path\n");
    expect_columns(r, "mprof_direct", HX_MPROF_NORMAL, "percent kept_bytes kept_s name",
                   "100%|0|0%|<TOTAL>\n100%|0|0%|f\n");
}

/* --- the call graph ------------------------------------------------------------------ */

/* F and G call each other; G asks for 10 bytes in the second round, and for 30 of h. */
static void test_cycle(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > F > G > F > G", 10, 1, 0);
    ask(r, "main > G > h > h", 30, 2, 0);
    ask(r, "main > own", 40, 1, 0);
    snapshot(r);
    expect_columns(r, "mprof_graph", HX_MPROF_NORMAL,
                   "entry line name name_entry self_desc_percent bytes bytes_percent size_s size_m"
                   " frac_s frac_m called total recursive cycle",
                   "0|self|main|0|100%|0|0%|0%|0%|-|-|0|-|0|-\n"
                   "0|descendant|G|3|-|60|54.54545455%|100%|0%|54.54545455%|0%|2|4|-|1\n"
                   "0|descendant|own|5|-|40|36.36363636%|0%|100%|0%|36.36363636%|1|1|-|-\n"
                   "0|descendant|F|2|-|10|9.090909091%|100%|0%|9.090909091%|0%|1|2|-|1\n"
                   "1|ancestor|main|0|-|70|100%|100%|0%|100%|0%|3|4|-|-\n"
                   "1|self|<cycle 1>|1|63.63636364%|10|14.28571429%|100%|0%|-|-|3|-|3|1\n"
                   "1|member|G|3|-|10|100%|100%|0%|100%|0%|4|-|0|1\n"
                   "1|member|F|2|-|0|0%|0%|0%|0%|0%|2|-|0|1\n"
                   "1|descendant|h|4|-|60|100%|100%|0%|100%|0%|2|2|-|-\n"
                   "2|ancestor|main|0|-|10|100%|100%|0%|100%|0%|1|4|-|-\n"
                   "2|ancestor|G|3|-|-|-|-|-|-|-|1|3|-|1\n"
                   "2|self|F|2|-|0|-|0%|0%|-|-|2|-|0|1\n"
                   "2|descendant|G|3|-|-|-|-|-|-|-|2|4|-|1\n"
                   "3|ancestor|main|0|-|60|100%|100%|0%|100%|0%|2|4|-|-\n"
                   "3|ancestor|F|2|-|-|-|-|-|-|-|2|2|-|1\n"
                   "3|self|G|3|-|10|-|100%|0%|-|-|4|-|0|1\n"
                   "3|descendant|h|4|-|60|100%|100%|0%|100%|0%|2|2|-|-\n"
                   "3|descendant|F|2|-|-|-|-|-|-|-|1|2|-|1\n"
                   "4|ancestor|G|3|-|60|100%|100%|0%|100%|0%|2|3|-|1\n"
                   "4|self|h|4|54.54545455%|60|100%|100%|0%|-|-|2|-|2|-\n"
                   "5|ancestor|main|0|-|40|100%|0%|100%|0%|100%|1|4|-|-\n"
                   "5|self|own|5|36.36363636%|40|100%|0%|100%|-|-|1|-|0|-\n");
    /* clang-format off */
    expect_text(r, "mprof_graph", HX_MPROF_NORMAL,
        "Allocation call graph of snapshot 1\n"
        "110 bytes in 4 allocations, 110 bytes not freed\n"
        "\n"
        "index self   self        size-func    frac\n"
        "      desc  bytes (%)    s  m  l  x   s  m  l  x  called/total  name [index]\n"
        RULE
        "[0]     **      0                    -----------       0        main [0]\n"
        "               60 (54)  **           54                2/4        G [3] <cycle 1>\n"
        "               40 (36)     **           36             1/1        own [5]\n"
        "               10 (9)   **            9                1/2        F [2] <cycle 1>\n"
        "              110 (**)  63 36        63 36             4          all\n"
        RULE
        "[1]     63     10 (14)  **           -----------       3+3      <cycle 1> [1] as a whole\n"
        "               10 (**)  **           **                4          G [3] <cycle 1>\n"
        "                0                                      2          F [2] <cycle 1>\n"
        RULE
        "               70 (**)  **           **                3/4        main [0]\n"
        "[1]     63     10 (14)  **           -----------       3+3      <cycle 1> [1]\n"
        "               60 (**)  **           **                2/2        h [4]\n"
        RULE
        "               10 (**)  **           **                2          all\n"
        "               10 (**)  **           **                1/4        main [0]\n"
        "                                                       1/3        G [3] <cycle 1>\n"
        "[2]             0                    -----------       2        F [2] in <cycle 1>\n"
        "                                                       2/4        G [3] <cycle 1>\n"
        RULE
        "               60 (**)  **           **                4          all\n"
        "               60 (**)  **           **                2/4        main [0]\n"
        "                                                       2/2        F [2] <cycle 1>\n"
        "[3]            10       **           -----------       4        G [3] in <cycle 1>\n"
        "               60 (**)  **           **                2/2        h [4]\n"
        "                                                       1/2        F [2] <cycle 1>\n"
        "               60 (**)  **           **                3          all\n"
        RULE
        "               60 (**)  **           **                2/3        G [3] <cycle 1>\n"
        "[4]     54     60 (**)  **           -----------       2+2      h [4]\n"
        RULE
        "               40 (**)     **           **             1/4        main [0]\n"
        "[5]     36     40 (**)     **        -----------       1        own [5]\n");
    /* clang-format on */
}

/* --- snapshots, attributions, files of older versions ------------------------------------ */

/* A later snapshot adds to what is there, and changes nothing of it. */
static void test_snapshots(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > f > g", 10, 2, 0);
    ask(r, "main > k", 50, 1, 0);
    snapshot(r);
    ask(r, "main > a > g", 100, 1, 0);
    ask(r, "main > f", 7, 1, 0);
    ask(r, "main > k", 50, 0, 1);
    snapshot(r);
    struct hx_query query = query_of("mprof_leaks");
    query.snapshot = 1;
    char *rows = rows_of(r, &query, HX_MPROF_VERBOSE, "snapshot kept_bytes path");
    assert_string_equal(rows, "1|50|main > k\n1|20|main > f > g\n");
    free(rows);
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "snapshot kept_bytes path",
                   "1|50|main > k\n1|20|main > f > g\n"
                   "2|100|main > a > g\n2|20|main > f > g\n2|7|main > f\n");
    assert_int_equal(ask_int(r->store, "SELECT count(*) FROM hx_chain"), 4);
    query = query_of("mprof_direct");
    query.sort = "bytes";
    query.limit = 2;
    char *text = printed(r, &query, HX_MPROF_VERBOSE); /* one limit for both tables */
    assert_non_null(strstr(text, "snapshot 1\n"));
    assert_non_null(strstr(text, "snapshot 2\n"));
    assert_null(strstr(strstr(text, "snapshot 2\n"), "<TOTAL>"));
    free(text);
}

/* What is not chosen is passed over: its cost goes to the nearest chosen caller. */
static void test_selection(void **state)
{
    struct recorded *r = *state;
    const char *const pattern[] = {"^app_", "^main$"}, *const none[] = {"^app_"};
    ask(r, "main > app_one > lib > helper", 10, 3, 1);
    ask(r, "main > app_one > lib > app_two > lib", 100, 1, 0);
    ask(r, "main > lib", 1, 1, 0);
    snapshot(r);
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    how.pattern = pattern;
    how.n_patterns = 2;
    assert_done(hx_store_attribute(opened(r), 0, &how, NULL, NULL));
    expect_columns(r, "mprof_leaks", HX_MPROF_VERBOSE, "kept_bytes path cut",
                   "100|main > app_one > app_two|0\n20|main > app_one|0\n1|main|0\n");
    expect_columns(r, "mprof_direct", HX_MPROF_VERBOSE, "bytes kept_bytes calls name",
                   "131|121|5|<TOTAL>\n100|100|1|app_two\n30|20|3|app_one\n1|1|1|main\n");
    expect_columns(r, "mprof_graph", HX_MPROF_VERBOSE, "entry line name bytes called",
                   "0|self|main|1|0\n0|descendant|app_one|130|4\n"
                   "1|ancestor|main|130|4\n1|self|app_one|30|4\n1|descendant|app_two|100|1\n"
                   "2|ancestor|app_one|100|1\n2|self|app_two|100|1\n");
    how.pattern = none;
    how.n_patterns = 1;
    assert_done(hx_store_attribute(opened(r), 0, &how, NULL, NULL));
    expect_columns(r, "mprof_direct", HX_MPROF_VERBOSE, "bytes name",
                   "131|<TOTAL>\n100|app_two\n30|app_one\n1|MAIN\n");
}

static void test_without_classes(void **state)
{
    struct recorded *r = *state;
    r->classes = false;
    ask(r, "main > f", 10, 2, 1);
    snapshot(r);
    expect_rows(r, "mprof_leaks", HX_MPROF_NORMAL, "10|100%|2|20|100%|1|10|100%|main > f|0\n");
    expect_columns(r, "mprof_direct", HX_MPROF_NORMAL, "percent bytes s x kept_bytes kept_s name",
                   "100%|20|-|-|10|-|<TOTAL>\n100%|20|-|-|10|-|f\n");
    struct hx_query bins = query_of("mprof_bins"), graph = query_of("mprof_graph");
    hx_rows *rows = NULL;
    assert_refused(hx_query_mprof(r->store, &bins, HX_MPROF_NORMAL, &rows), HX_E_ABSENT, "older");
    assert_refused(hx_mprof_print(r->store, &graph, HX_MPROF_NORMAL, stdout), HX_E_ABSENT, "older");
    bins.snapshot = 7;
    assert_refused(hx_query_mprof(r->store, &bins, HX_MPROF_NORMAL, &rows), HX_E_ABSENT,
                   "nothing was recorded");
}

/* That nothing was allocated is known. */
static void test_nothing_allocated(void **state)
{
    struct recorded *r = *state;
    snapshot(r);
    expect_rows(r, "mprof_leaks", HX_MPROF_NORMAL, "");
    expect_columns(r, "mprof_direct", HX_MPROF_NORMAL, "percent bytes s kept_x name",
                   "0%|0|0%|0%|<TOTAL>\n");
    expect_rows(r, "mprof_graph", HX_MPROF_NORMAL, "");
}

/* --- who holds it ------------------------------------------------------------------------ */

static void test_held(void **state)
{
    struct recorded *r = *state;
    ask(r, "main > f@1 > g", 100, 9, 0);
    ask(r, "main > f@9 > g", 100, 1, 0);
    ask(r, "main > gone", 50, 1, 0);
    snapshot(r);
    sql(r, "INSERT INTO hx_retainer VALUES(1, 'root', 'pool', 'global', 'm', NULL),"
           " (2, 'root', 'cache', 'global', 'm', NULL);"
           "INSERT INTO hx_set VALUES(2, 1, 1), (3, 2, 1);"
           "INSERT INTO hx_set_member VALUES(2, 1, 1), (3, 1, 2);"
           "INSERT INTO hx_retention VALUES(1, 2, 700, 7), (1, 3, 200, 2);"
           "INSERT INTO hx_holder SELECT 1, stack_id, 'reachable', 2, 700, 7 FROM hx_stack"
           " WHERE stack_id = (SELECT min(stack_id) FROM hx_stack);"
           "INSERT INTO hx_holder SELECT 1, stack_id, 'possible', 3, 201, 2 FROM hx_stack"
           " WHERE stack_id = (SELECT min(stack_id) FROM hx_stack);"
           "INSERT INTO hx_holder SELECT 1, stack_id, 'indirect', 0, 4, 1 FROM hx_stack"
           " WHERE stack_id = (SELECT min(stack_id) FROM hx_stack)");
    hx_rows *rows = NULL;
    bool more;
    assert_done(hx_query_sql(opened(r),
                             "SELECT path || cut || ' ' || reachable_bytes || ' ' ||"
                             " possible_bytes || ' ' || lost_bytes || ' ' || objects ||"
                             " ' ' || coalesce(holder || holder_bytes, '-')"
                             " FROM mprof_held",
                             &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_string_equal(hx_rows_value(rows, 0).text, "main > f > g0 700 201 4 10 pool700");
    assert_done(hx_rows_next(rows, &more));
    assert_string_equal(hx_rows_value(rows, 0).text, "main > gone0 0 0 0 0 -");
    hx_rows_end(rows);
    expect_text(
        r, "mprof_leaks", HX_MPROF_NORMAL,
        "Memory leaks of snapshot 1\n1050 bytes in 11 allocations, 1050 bytes not freed\n\n"
        "kept bytes (%)   allocs  bytes (%)   path\n"
        "      1000 (95)      10   1000 (95)  || > main > f > g\n"
        "                                     held: 77 % reachable; 22 % possibly reachable;"
        " < 1 % lost\n"
        "                                           mostly by `pool`\n"
        "        50 (4)        1     50 (4)   || > main > gone\n");
}

/* --- width and foreign names -------------------------------------------------------------- */

#define LONG_NAME "std::vector<std::pair<unsigned long, std::basic_string<char>>>::emplace_back_for"
#define MANY      100000000ULL

static void test_width(void **state)
{
    struct recorded *r = *state;
    static const char *const views[] = {"mprof_leaks", "mprof_bins", "mprof_direct", "mprof_graph"};
    ask(r, "main > " LONG_NAME "_a > " LONG_NAME "_b > caf\xc3\xa9\x1b[31m\xff > " LONG_NAME "_c",
        24, MANY, MANY - 3);
    ask(r, "main > f > g > f", 3000, 1000000, 5);
    ask(r, "main > " LONG_NAME "_b", 20, 5, 5);
    snapshot(r);
    sql(r, "INSERT INTO hx_size_type VALUES(1, 24, '" LONG_NAME "'), (1, 24, '" LONG_NAME "2')");
    for (size_t v = 0; v < 4; v++) {
        struct hx_query query = query_of(views[v]);
        char *text = printed(r, &query, HX_MPROF_VERBOSE);
        assert_null(strchr(text, 0x1b));
        assert_null(strchr(text, (char)0xff));
        for (char *line = text, *next; *line; line = next) {
            next = strchr(line, '\n') + 1;
            size_t wide = hx_print_width(line, (size_t)(next - 1 - line));
            if (wide > 100)
                fail_msg("%s: %zu wide: %.*s", views[v], wide, (int)(next - 1 - line), line);
        }
        assert_non_null(strstr(text, v == 1 ? "100000000" : "2400000000"));
        free(text);
    }
    setenv("COLUMNS", "160", 1);
    struct hx_query query = query_of("mprof_direct");
    char *text = printed(r, &query, HX_MPROF_VERBOSE);
    unsetenv("COLUMNS");
    assert_non_null(strstr(text, LONG_NAME "_c\n"));
    free(text);
}

/* An arrow within template arguments is no call. */
static void test_arrows(void **state)
{
    struct recorded *r = *state;
    static const char *const whole[] = {"app::make<int>", "app::operator>(int)", "app::operator->",
                                        "app::keep(std::set<int, std::less<int> > const&)"};
    ask(r,
        "app::make<int> > app::keep(std::set<int, std::less<int>~const&) > app::operator>(int)"
        " > app::operator-> > last",
        24, 9, 0);
    snapshot(r);
    struct hx_query query = query_of("mprof_leaks");
    setenv("COLUMNS", "60", 1);
    char *text = printed(r, &query, HX_MPROF_VERBOSE);
    unsetenv("COLUMNS");
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_non_null(strstr(text, whole[i]));
    assert_non_null(strstr(text, " > last\n"));
    assert_null(strstr(text, "  > const&"));
    free(text);
}

/* --- sums over random stacks --------------------------------------------------------------- */

static void ask_random(struct recorded *r, struct unit_random *random)
{
    static const char *const words[] = {"main", "a", "b", "c", "d", "e@1", "e@2", "operator>"};
    for (size_t i = 0, n = unit_below(random, 40); i < n; i++) {
        char path[256] = "";
        uint64_t allocs = unit_below(random, 50), depth = 1 + unit_below(random, 9);
        strcpy(path, unit_below(random, 9) ? words[unit_below(random, 8)] : "<cut> > a");
        for (uint64_t k = 1; k < depth; k++) {
            strcat(path, " > ");
            strcat(path, words[unit_below(random, 8)]);
        }
        ask(r, path, unit_below(random, 4000), allocs, unit_below(random, allocs + 1));
    }
}

/* Rows for which a figure is not what it has to be. */
static const char *const sums[] = {
    "SELECT count(*) FROM hx_mprof AS t WHERE t.bytes IS NOT (SELECT sum(alloc_bytes) FROM"
    " hx_stack_cost AS k WHERE k.snapshot = t.snapshot) AND t.bytes > 0",
    "SELECT count(*) FROM mprof_direct AS t WHERE name = '<TOTAL>' AND (bytes, kept_bytes) IS NOT"
    " (SELECT coalesce(sum(bytes), 0), coalesce(sum(kept_bytes), 0) FROM mprof_direct AS d"
    " WHERE d.snapshot = t.snapshot AND name <> '<TOTAL>')",
    "SELECT count(*) FROM mprof_direct WHERE abs(percent - s - m - l - x) > 1e-9",
    "SELECT count(*) FROM (SELECT sum(percent) AS p FROM mprof_direct WHERE name <> '<TOTAL>'"
    " GROUP BY snapshot) WHERE abs(p - 100) > 1e-9",
    "SELECT count(*) FROM hx_mprof AS t WHERE t.kept_bytes IS NOT (SELECT coalesce(sum(kept_bytes),"
    " 0) FROM mprof_leaks AS k WHERE k.snapshot = t.snapshot)",
    "SELECT count(*) FROM mprof_bins AS t WHERE size = '<TOTAL>' AND (allocs, bytes, frees,"
    " kept_bytes) IS NOT (SELECT coalesce(sum(allocs), 0), coalesce(sum(bytes), 0),"
    " coalesce(sum(frees), 0), coalesce(sum(kept_bytes), 0) FROM mprof_bins AS b"
    " WHERE b.snapshot = t.snapshot AND size <> '<TOTAL>')",
    "SELECT count(*) FROM (SELECT sum(bytes_percent) AS p, max(bytes) AS bytes FROM mprof_graph"
    " WHERE line IN ('ancestor', 'descendant') GROUP BY snapshot, entry, line)"
    " WHERE bytes > 0 AND abs(p - 100) > 1e-9",
    "SELECT count(*) FROM mprof_graph WHERE bytes > 0"
    " AND abs(size_s + size_m + size_l + size_x - 100) > 1e-9",
    "SELECT count(*) FROM mprof_graph AS s JOIN hx_mprof AS t USING(snapshot) WHERE line = 'self'"
    " AND self_desc_percent IS NOT NULL AND abs(self_desc_percent * t.bytes / 100 - s.bytes"
    " - coalesce((SELECT sum(bytes) FROM mprof_graph AS d WHERE d.snapshot = s.snapshot"
    " AND d.entry = s.entry AND d.line = 'descendant'), 0)) > 0.01",
    "SELECT count(*) FROM mprof_graph AS a JOIN mprof_graph AS b USING(snapshot)"
    " WHERE a.line = 'self' AND b.line = 'self' AND a.entry < b.entry"
    " AND a.self_desc_percent < b.self_desc_percent",
    "SELECT count(*) FROM mprof_graph AS a WHERE a.line IN ('ancestor', 'descendant')"
    " AND (a.bytes IS NULL) <> (a.cycle IS NOT NULL AND a.cycle IS (SELECT s.cycle FROM mprof_graph"
    " AS s WHERE s.snapshot = a.snapshot AND s.entry = a.entry AND s.line = 'self'))",
    "SELECT count(*) FROM mprof_leaks WHERE path LIKE '% > main > %' AND path NOT LIKE 'main >%'"
    " AND path NOT LIKE '% > main > main%' AND NOT cut",
};

static void test_sums(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sums");
    for (size_t round = 0, n = unit_rounds(20); round < n; round++) {
        void *each = NULL;
        begin(&each);
        struct recorded *r = each;
        for (uint64_t k = 0, times = 1 + unit_below(&random, 3); k < times; k++) {
            ask_random(r, &random);
            snapshot(r);
        }
        for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
            if (ask_int(opened(r), sums[i]) && (i != 3 || ask_int(r->store, "SELECT min(bytes) > 0"
                                                                            " FROM hx_mprof")))
                fail_msg("%s", sums[i]);
        end(&each);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_example_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_example_text, begin, end),
        cmocka_unit_test_setup_teardown(test_example_graph, begin, end),
        cmocka_unit_test(test_cells),
        cmocka_unit_test_setup_teardown(test_classes, begin, end),
        cmocka_unit_test_setup_teardown(test_leak_levels, begin, end),
        cmocka_unit_test_setup_teardown(test_bin_levels, begin, end),
        cmocka_unit_test_setup_teardown(test_large_bins, begin, end),
        cmocka_unit_test_setup_teardown(test_chains, begin, end),
        cmocka_unit_test_setup_teardown(test_chain_options, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_freed, begin, end),
        cmocka_unit_test_setup_teardown(test_no_leaks, begin, end),
        cmocka_unit_test_setup_teardown(test_cycle, begin, end),
        cmocka_unit_test_setup_teardown(test_snapshots, begin, end),
        cmocka_unit_test_setup_teardown(test_selection, begin, end),
        cmocka_unit_test_setup_teardown(test_without_classes, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_allocated, begin, end),
        cmocka_unit_test_setup_teardown(test_held, begin, end),
        cmocka_unit_test_setup_teardown(test_width, begin, end),
        cmocka_unit_test_setup_teardown(test_arrows, begin, end),
        cmocka_unit_test(test_sums),
    };
    return unit_run_some(tests);
}
