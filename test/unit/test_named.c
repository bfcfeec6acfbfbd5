/* test_named.c - what the expressions that name roots stand for, and that named roots decide
 * nothing but bins.
 */
#include "config.h"
#include "random_graph.h"

#include "sym/demangle.h"
#include "traverse/dominate/dominators.h"
#include "traverse/named.h"
#include "traverse/reach.h"
#include "traverse/retain/bins.h"
#include "traverse/retain/retain.h"
#include "traverse/retain/scheme.h"
#include "traverse/scan/scan.h"

#include <inttypes.h>

/* --- parsing ------------------------------------------------------------------- */

static void assert_refused(const char *arg)
{
    char *name = NULL;
    const char *expr = NULL;
    hx_error *err = hx_naming_parse(arg, &name, &expr);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_USAGE);
    assert_null(name);
    hx_error_free(err);
}

static void test_parse(void **state)
{
    (void)state;
    static const char *const good[][3] = {
        {"a=b", "a", "b"},
        {"a b=c=d", "a b", "c=d"},
        {"x=mod!sym", "x", "mod!sym"},
        {"x=thread:12", "x", "thread:12"},
        {"x=module:libc.so.6", "x", "module:libc.so.6"},
        {"x=type:^ns::.*Node$", "x", "type:^ns::.*Node$"},
        {"x=0xdeadbeef", "x", "0xdeadbeef"},
        {"x=12345", "x", "12345"},
        {"x=*0x10", "x", "*0x10"},
        {"x=*16", "x", "*16"},
        {"x=counter.0", "x", "counter.0"},
        {"x=stack of thread 7", "x", "stack of thread 7"},
        {"x=a->b[3]", "x", "a->b[3]"}, /* a root may be called so: refused later */
        {"\xff=a", "\xff", "a"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char *name = NULL;
        const char *expr = NULL;
        assert_null(hx_naming_parse(good[i][0], &name, &expr));
        assert_string_equal(name, good[i][1]);
        assert_string_equal(expr, good[i][2]);
        free(name);
    }
    static const char *const bad[] = {"",
                                      "a",
                                      "=a",
                                      "a=",
                                      "a+b=c",
                                      "-=c",
                                      "(unreachable)=c",
                                      "a=thread:",
                                      "a=thread:x",
                                      "a=thread:-1",
                                      "a=thread:1x",
                                      "a=module:",
                                      "a=type:",
                                      "a=type:(",
                                      "a=type:[a",
                                      "a=frame:",
                                      "a=*",
                                      "a=*x",
                                      "a=*0x",
                                      "a=0x",
                                      "a=0xg",
                                      "a=0x1ffffffffffffffff",
                                      "a=99999999999999999999",
                                      "a=**0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(bad[i]);
    char name[HX_NAME_MAX + 8];
    memset(name, 'n', sizeof name);
    memcpy(name + HX_NAME_MAX, "=a", 3);
    char *copy = NULL;
    const char *expr;
    assert_null(hx_naming_parse(name, &copy, &expr));
    assert_int_equal(strlen(copy), HX_NAME_MAX);
    free(copy);
    memcpy(name + HX_NAME_MAX, "n=a", 4);
    assert_refused(name);
}

static void test_symbols(void **state)
{
    (void)state;
    bool is;
    char *module = NULL;
    const char *symbol;
    assert_null(hx_naming_symbol("a.b", &is, &module, &symbol));
    assert_true(is);
    assert_null(module);
    assert_string_equal(symbol, "a.b");
    assert_null(hx_naming_symbol("libx.so!y", &is, &module, &symbol));
    assert_true(is);
    assert_string_equal(module, "libx.so");
    assert_string_equal(symbol, "y");
    free(module);
    assert_null(hx_naming_symbol("module:a!b", &is, &module, &symbol));
    assert_false(is);
    assert_null(module);
    hx_error *err = hx_naming_symbol("0x", &is, &module, &symbol);
    assert_non_null(err);
    hx_error_free(err);
}

/* --- what they stand for ---------------------------------------------------------- */

static struct hx_drawing draw(const char *text)
{
    struct hx_drawing drawing;
    assert_null(hx_image_draw(text, &drawing));
    assert_null(hx_scan(drawing.snapshot, NULL, NULL));
    assert_null(hx_reach(drawing.snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    return drawing;
}

/* Sets one root by its expression; the row that it came to. */
static const struct hx_root *name_one(struct hx_snapshot *snapshot, const char *expr,
                                      size_t *ret_missing)
{
    struct hx_naming naming = {.name = "N", .expr = expr};
    assert_null(hx_named_set(snapshot, &naming, 1, ret_missing));
    assert_int_equal(snapshot->named.n, 1);
    assert_string_equal(snapshot->named.v[0].name, "N");
    assert_string_equal(snapshot->named.v[0].expr, expr);
    return &snapshot->roots.v[snapshot->named.v[0].root];
}

/* The targets of a root's edges by name, in order. */
static void assert_edges(const struct hx_drawing *drawing, const struct hx_root *root,
                         const char *expected)
{
    const struct hx_snapshot *snapshot = drawing->snapshot;
    struct hx_text got = {0};
    uint32_t number = (uint32_t)(root - snapshot->roots.v);
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (i) /* in the order that the store wants */
            assert_true(edge[-1].root < edge->root ||
                        (edge[-1].root == edge->root && edge[-1].address <= edge->address));
        for (size_t k = 0; edge->root == number && k < drawing->n; k++)
            if (drawing->drawn[k].addr == snapshot->graph.addr[edge->target])
                hx_text_putf(&got, "%s%s", got.n ? " " : "", drawing->drawn[k].name);
    }
    assert_string_equal(hx_text_str(&got), expected);
    hx_text_free(&got);
}

static const char scene[] =
    "obj a 24: b; obj b 40 @0x20000000: 8->c+8; obj c 56; obj d 24; obj lost 24\n"
    "root g @0x700000001000: a 0 b; root g @0x700000002000: c; root h @0x700000003000: d d\n"
    "root counter.0 @0x700000004000: c; root empty @0x700000005000: 5\n"
    "root rax register: d; root stack7 stack @0x700000006000: c\n";

static void check(const char *expr, enum hx_root_kind kind, const char *edges, uint64_t direct)
{
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    size_t before = snapshot->roots.n, missing = 9;
    const struct hx_root *root = name_one(snapshot, expr, &missing);
    assert_int_equal(missing, !*edges);
    assert_int_equal(snapshot->notes.n > 0, !*edges);
    assert_int_equal(root->kind, kind);
    assert_int_equal(snapshot->roots.n, before + (kind == HX_ROOT_NAMED));
    assert_edges(&drawing, root, edges);
    assert_int_equal(root->direct_objects, direct);
    if (kind == HX_ROOT_NAMED)
        assert_string_equal(root->name, "N");
    hx_drawing_deinit(&drawing);
}

static void test_forms(void **state)
{
    (void)state;
    check("h", HX_ROOT_GLOBAL, "d d", 1);
    check("counter.0", HX_ROOT_GLOBAL, "c", 1);
    check("g", HX_ROOT_NAMED, "a b c", 3); /* both of them */
    check("stack7", HX_ROOT_NAMED, "c", 1);
    check("rax", HX_ROOT_NAMED, "d", 1);
    check("nothing", HX_ROOT_NAMED, "", 0);
    check("empty", HX_ROOT_NAMED, "", 0);
    check("nothing.field", HX_ROOT_NAMED, "", 0);
    check("0x20000000", HX_ROOT_NAMED, "b", 1);
    check("536870951", HX_ROOT_NAMED, "b", 1); /* its last byte */
    check("0x20000028", HX_ROOT_NAMED, "", 0);
    check("0x700000003008", HX_ROOT_GLOBAL, "d d", 1);
    check("0x700000003010", HX_ROOT_NAMED, "", 0);
    check("0x700000006000", HX_ROOT_NAMED, "", 0); /* a stack is no variable */
    check("0", HX_ROOT_NAMED, "", 0);
    check("0xffffffffffffffff", HX_ROOT_NAMED, "", 0);
    check("*0x20000008", HX_ROOT_NAMED, "c", 1);
    check("*0x20000000", HX_ROOT_NAMED, "", 0);
    check("*0x20000009", HX_ROOT_NAMED, "", 0);
    check("*0x700000001010", HX_ROOT_NAMED, "b", 1);
    check("*0x700000001008", HX_ROOT_NAMED, "", 0);
    check("*0x700000006000", HX_ROOT_NAMED, "c", 1);
    check("*0", HX_ROOT_NAMED, "", 0); /* not the word of a register */
    check("type:x", HX_ROOT_NAMED, "", 0);
    check("thread:7", HX_ROOT_NAMED, "", 0);
    check("module:m", HX_ROOT_NAMED, "", 0);
    check("frame:main", HX_ROOT_NAMED, "", 0);
}

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = strdup(value);
    assert_non_null(*text);
}

static void test_threads_and_modules(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_GLOBAL)
            root->tid = 7;
        else
            set_text(&root->module, root->address < 0x700000002000 ? "libx.so" : "app");
    }
    assert_edges(&drawing, name_one(snapshot, "thread:7", NULL), "d c");
    const struct hx_root *root = name_one(snapshot, "module:app", NULL);
    assert_edges(&drawing, root, "c d d c");
    assert_string_equal(root->module, "app");
    assert_int_equal(root->direct_objects, 2);
    assert_int_equal(root->address, 0);
    assert_int_equal(root->size, 0);
    root = name_one(snapshot, "libx.so!g", NULL);
    assert_int_equal(root->kind, HX_ROOT_GLOBAL);
    assert_edges(&drawing, root, "a b");
    for (size_t i = 0; i < snapshot->roots.n; i++)
        if (strcmp(snapshot->roots.v[i].name, "stack7") == 0) {
            set_text(&snapshot->roots.v[i].name, "ns::f: it");
            set_text(&snapshot->roots.v[i].module, "app");
            snapshot->roots.v[i].kind = HX_ROOT_FRAME;
        }
    assert_edges(&drawing, name_one(snapshot, "frame:ns::f", NULL), "c");
    assert_edges(&drawing, name_one(snapshot, "module:app", NULL), "c d d c");
    assert_edges(&drawing, name_one(snapshot, "thread:7", NULL), "d c");
    size_t missing;
    name_one(snapshot, "frame:ns", &missing);
    assert_int_equal(missing, 1);
    name_one(snapshot, "libx.s!g", &missing);
    assert_int_equal(missing, 1);
    root = name_one(snapshot, "ns::f: it", NULL);
    assert_int_equal(root->address, 0x700000006000);
    assert_int_equal(root->size, 8);
    assert_int_equal(root->tid, 0);
    hx_drawing_deinit(&drawing);
}

static void test_types(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    struct hx_graph *graph = &snapshot->graph;
    assert_null(hx_big_reserve(&graph->type_mem, graph->n * sizeof *graph->type));
    graph->type = graph->type_mem.base;
    for (hx_obj i = 0; i < graph->n; i++)
        graph->type[i] = HX_NO_TYPE;
    static const char *const names[] = {"Node", "NodeList", "op()"};
    for (size_t i = 0; i < 3; i++)
        assert_true(hx_vec_push(&snapshot->types, (struct hx_type){.name = strdup(names[i])}));
    graph->type[hx_drawing_object(&drawing, "a")] = 0;
    graph->type[hx_drawing_object(&drawing, "c")] = 1;
    graph->type[hx_drawing_object(&drawing, "lost")] = 2;
    assert_edges(&drawing, name_one(snapshot, "type:Node", NULL), "a c");
    assert_edges(&drawing, name_one(snapshot, "type:^Node$", NULL), "a");
    assert_edges(&drawing, name_one(snapshot, "type:op()", NULL), "lost");
    hx_drawing_deinit(&drawing);
}

static void test_fields_are_refused(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    name_one(snapshot, "g", NULL);
    size_t roots = snapshot->roots.n, edges = snapshot->root_edges.n;
    static const char *const bad[] = {"g->x", "h.list[3]", "frame:", "0x"};
    for (size_t i = 0; i < 4; i++) {
        struct hx_naming naming[] = {{.name = "M", .expr = "h"}, {.name = "N", .expr = bad[i]}};
        hx_error *err = hx_named_set(snapshot, naming, 2, NULL);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_USAGE);
        hx_error_free(err);
    }
    assert_int_equal(snapshot->roots.n, roots); /* as it was */
    assert_int_equal(snapshot->root_edges.n, edges);
    assert_int_equal(snapshot->named.n, 1);
    set_text(&snapshot->roots.v[0].name, "h[3]"); /* something really called so */
    name_one(snapshot, "h[3]", NULL);
    hx_drawing_deinit(&drawing);
}

static void test_sets(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    size_t roots = snapshot->roots.n, edges = snapshot->root_edges.n, missing;
    uint64_t a = snapshot->graph.addr[hx_drawing_object(&drawing, "a")];
    struct hx_naming naming[] = {{.name = "one", .expr = "g"},      {.name = "two", .address = a},
                                 {.name = "one", .expr = "h"},      {.name = "null"},
                                 {.name = "bad", .address = 0x123}, {.name = "six", .expr = "h"}};
    assert_null(hx_named_set(snapshot, naming, 6, &missing));
    assert_int_equal(missing, 2);
    assert_int_equal(snapshot->named.n, 5);
    assert_int_equal(snapshot->roots.n, roots + 4);
    assert_null(snapshot->named.v[1].expr);
    assert_edges(&drawing, &snapshot->roots.v[snapshot->named.v[0].root], "a b c");
    assert_edges(&drawing, &snapshot->roots.v[snapshot->named.v[1].root], "a");
    assert_edges(&drawing, &snapshot->roots.v[snapshot->named.v[4].root], "d d");
    assert_string_equal(hx_text_str(&snapshot->notes),
                        "root one: of several of this name the first counts; root null: a null "
                        "pointer; root bad: 0x123 lies in no object and in no variable with a "
                        "pointer in it");
    size_t notes = snapshot->notes.n;
    assert_null(hx_named_set(snapshot, naming, 6, NULL)); /* again: the same, said once */
    assert_int_equal(snapshot->roots.n, roots + 4);
    assert_int_equal(snapshot->notes.n, notes);
    assert_true(snapshot->complete);
    assert_null(hx_named_set(snapshot, NULL, 0, NULL));
    assert_int_equal(snapshot->roots.n, roots);
    assert_int_equal(snapshot->root_edges.n, edges);
    assert_int_equal(snapshot->named.n, 0);
    hx_drawing_deinit(&drawing);
}

static void set_symbol(struct hx_root *root, const char *symbol)
{
    free(root->name);
    set_text(&root->symbol, symbol);
    root->name = hx_written_name(symbol);
}

/* The names of C++ variables as a compiler writes them, and as the user does. */
static void test_mangled(void **state)
{
    (void)state;
#ifndef HX_HAVE_DEMANGLER
    skip();
#endif
    static const char *const names[][2] = {
        {"_ZL5cache", "cache"},
        {"_ZN3app12_GLOBAL__N_15cacheE", "app::cache"},
        {"_ZN3app6Widget3allE", "app::Widget::all"},
        {"_ZN3svc5slotsB5cxx11E", "svc::slots[abi:cxx11]"},
        {"_ZZN3svc5Cache3getEvE1c", "svc::Cache::get()::c"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hx_drawing drawing = draw(scene);
        struct hx_snapshot *snapshot = drawing.snapshot;
        uint32_t g = hx_drawing_root(&drawing, "g"), h = hx_drawing_root(&drawing, "h");
        set_symbol(&snapshot->roots.v[g], "_ZN12_GLOBAL__N_15cacheE");
        set_symbol(&snapshot->roots.v[h], names[i][0]);
        set_text(&snapshot->roots.v[h].module, "m");
        assert_ptr_equal(name_one(snapshot, names[i][1], NULL), &snapshot->roots.v[h]);
        char text[64];
        snprintf(text, sizeof text, "m!%s", names[i][1]);
        assert_ptr_equal(name_one(snapshot, text, NULL), &snapshot->roots.v[h]);
        assert_ptr_equal(name_one(snapshot, "(anonymous namespace)::cache", NULL),
                         &snapshot->roots.v[g]);
        size_t missing;
        name_one(snapshot, "none[abi:cxx11]", &missing);
        assert_int_equal(missing, 1);
        assert_ptr_equal(name_one(snapshot, names[i][0], NULL), &snapshot->roots.v[h]);
        set_symbol(&snapshot->roots.v[g], names[i][1]); /* what is really called so */
        assert_ptr_equal(name_one(snapshot, names[i][1], NULL), &snapshot->roots.v[g]);
        hx_drawing_deinit(&drawing);
    }
}

/* Without symbols an address is the word there, whatever lies behind it. */
static void test_nameless(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    uint32_t g = hx_drawing_root(&drawing, "g");
    uint64_t addr = snapshot->roots.v[g].address;
    struct hx_naming naming[] = {{.name = "user"}, {.name = "program", .address = addr}};
    char expr[32], note[100];
    snprintf(expr, sizeof expr, "0x%" PRIx64, addr);
    naming[0].expr = expr;
    static const struct {
        const char *name, *module;
        bool nameless;
    } roots[] = {{"m+0x1f0", "m", true},  {"m+0x1f0", "n", false}, {"+0x1f0", "", false},
                 {"m+0x", "m", false},    {"m+0x1g", "m", false},  {"m", "m", false},
                 {"m.so+0x0", "m", false}};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        set_text(&snapshot->roots.v[g].name, roots[i].name);
        set_text(&snapshot->roots.v[g].module, roots[i].module);
        hx_text_clear(&snapshot->notes);
        assert_null(hx_named_set(snapshot, naming, 2, NULL));
        for (size_t k = 0; k < 2; k++) {
            const struct hx_root *root = &snapshot->roots.v[snapshot->named.v[k].root];
            assert_edges(&drawing, root, roots[i].nameless ? "a" : "a b");
            assert_int_equal(root->kind, roots[i].nameless ? HX_ROOT_NAMED : HX_ROOT_GLOBAL);
            assert_int_equal(root->address, addr);
            assert_string_equal(root->module, roots[i].module);
            snprintf(note, sizeof note,
                     "root %s: no symbols there, so only the pointer at 0x%" PRIx64 " counts",
                     naming[k].name, addr);
            assert_int_equal(strstr(hx_text_str(&snapshot->notes), note) != NULL,
                             roots[i].nameless);
        }
    }
    set_text(&snapshot->roots.v[g].name, "m+0x1f0");
    set_text(&snapshot->roots.v[g].module, "m");
    snprintf(expr, sizeof expr, "0x%" PRIx64, addr + 4); /* no word */
    size_t missing;
    assert_null(hx_named_set(snapshot, naming, 1, &missing));
    assert_int_equal(missing, 1);
    assert_non_null(strstr(hx_text_str(&snapshot->notes), "root user: no symbols there, and no "));
    hx_drawing_deinit(&drawing);
}

/* What the program has named stays when the user names others. */
static void test_renew(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw(scene);
    struct hx_snapshot *snapshot = drawing.snapshot;
    uint64_t a = snapshot->graph.addr[hx_drawing_object(&drawing, "a")];
    size_t roots = snapshot->roots.n;
    struct hx_naming program[] = {{.name = "p", .address = a},
                                  {.name = "null"},
                                  {.name = "var", .address = 0x700000003000},
                                  {.name = "user", .expr = "g"}};
    assert_null(hx_named_set(snapshot, program, 4, NULL));
    for (size_t round = 0; round < 3; round++) {
        struct hx_naming more[] = {{.name = "p", .expr = "h"}, {.name = "other", .expr = "g"}};
        size_t missing;
        assert_null(hx_named_renew(snapshot, more, 2, &missing));
        assert_int_equal(missing, 0);
        static const char *const names[] = {"p", "null", "var", "other"};
        static const char *const edges[] = {"a", "", "d d", "a b c"};
        assert_int_equal(snapshot->named.n, 4);
        assert_int_equal(snapshot->roots.n, roots + 3);
        for (size_t i = 0; i < 4; i++) {
            assert_string_equal(snapshot->named.v[i].name, names[i]);
            assert_int_equal(!snapshot->named.v[i].expr, i < 3);
            assert_edges(&drawing, &snapshot->roots.v[snapshot->named.v[i].root], edges[i]);
        }
        assert_non_null(strstr(hx_text_str(&snapshot->notes), "root p: of several"));
    }
    hx_drawing_deinit(&drawing);
}

/* Many that stand for nothing: named all, told of a few. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 65536 };
    struct hx_drawing drawing = draw(scene);
    struct hx_naming *naming = calloc(MANY, sizeof *naming);
    char(*name)[16] = calloc(MANY, sizeof *name);
    assert_non_null(naming);
    assert_non_null(name);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof name[i], "root %zu", i / 2);
        naming[i].name = name[i];
        naming[i].address = i;
    }
    size_t missing;
    assert_null(hx_named_set(drawing.snapshot, naming, MANY, &missing));
    assert_int_equal(missing, MANY / 2);
    assert_int_equal(drawing.snapshot->named.n, MANY / 2);
    assert_true(drawing.snapshot->notes.n < 8192);
    free(naming);
    free(name);
    hx_drawing_deinit(&drawing);
}

/* --- named roots decide bins only ------------------------------------------------------ */

static void name_some(struct hx_snapshot *snapshot, struct unit_random *random)
{
    char text[8][3][48];
    struct hx_naming naming[8] = {0};
    size_t n = 1 + unit_below(random, 8);
    for (size_t i = 0; i < n; i++) {
        const struct hx_graph *graph = &snapshot->graph;
        uint64_t object = graph->n ? graph->addr[unit_below(random, graph->n)] : 0;
        snprintf(text[i][0], sizeof text[i][0], "n%zu", i);
        naming[i].name = text[i][0];
        naming[i].expr = text[i][1];
        switch (unit_below(random, 5)) {
        case 0:
            snprintf(text[i][1], sizeof text[i][1], "r%u", (unsigned)unit_below(random, 5));
            break;
        case 1:
            snprintf(text[i][1], sizeof text[i][1], "*0x%llx",
                     (unsigned long long)object + 8 * unit_below(random, 4));
            break;
        case 2:
            snprintf(text[i][1], sizeof text[i][1], "0x%llx", (unsigned long long)object);
            break;
        case 3:
            naming[i].expr = NULL;
            naming[i].address = object;
            break;
        default:
            snprintf(text[i][1], sizeof text[i][1], "module:");
            naming[i].expr = "module:m";
        }
    }
    for (size_t i = 0; i < snapshot->roots.n; i++)
        if (unit_below(random, 2))
            set_text(&snapshot->roots.v[i].module, "m");
    assert_null(hx_named_set(snapshot, naming, n, NULL));
}

static void assert_same_states(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    if (a->graph.n)
        assert_memory_equal(a->graph.state, b->graph.state, a->graph.n);
    assert_memory_equal(a->state_bytes, b->state_bytes, sizeof a->state_bytes);
    assert_memory_equal(a->state_objects, b->state_objects, sizeof a->state_objects);
}

static void assert_same_dominators(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    for (enum hx_dominators_over over = HX_OVER_FOLLOWED; over <= HX_OVER_SURE; over++) {
        struct hx_dominators x, y;
        assert_null(hx_dominators_find(a, over, NULL, &x));
        assert_null(hx_dominators_find(b, over, NULL, &y));
        for (hx_obj i = 0; i < a->graph.n; i++) {
            assert_int_equal(x.parent[i], y.parent[i]);
            assert_int_equal(x.bytes[i], y.bytes[i]);
            assert_int_equal(x.objects[i], y.objects[i]);
        }
        for (size_t i = 0; i < a->roots.n; i++)
            assert_int_equal(x.root_bytes[i], y.root_bytes[i]);
        hx_dominators_deinit(&x);
        hx_dominators_deinit(&y);
    }
}

/* The same retainers, by name: their numbers are each rule's own. */
static void assert_same_retainers(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    for (size_t k = 0; hx_schemes[k]; k++) {
        struct hx_scheme_options options = {0};
        struct hx_scheme_rule p, q;
        struct hx_retention x, y;
        assert_null(hx_scheme_apply(hx_schemes[k], a, &options, &p));
        assert_null(hx_scheme_apply(hx_schemes[k], b, &options, &q));
        assert_int_equal(p.n_identities, q.n_identities);
        for (size_t i = 0; i < p.n_identities; i++)
            assert_string_equal(p.identity[i].label, q.identity[i].label);
        hx_sets *s, *t;
        assert_null(hx_sets_create(8, &s));
        assert_null(hx_sets_create(8, &t));
        assert_null(hx_retain(a, &p.rule, s, NULL, &x));
        assert_null(hx_retain(b, &q.rule, t, NULL, &y));
        for (hx_obj i = 0; i < a->graph.n; i++) {
            const hx_retainer *some, *other;
            size_t n = hx_sets_elements(s, x.set[i], &some);
            assert_int_equal(n, hx_sets_elements(t, y.set[i], &other));
            assert_int_equal(x.set[i] == HX_SET_MANY, y.set[i] == HX_SET_MANY);
            if (n)
                assert_memory_equal(some, other, n * sizeof *some);
        }
        hx_retention_deinit(&x);
        hx_retention_deinit(&y);
        hx_sets_destroy(s);
        hx_sets_destroy(t);
        hx_scheme_rule_deinit(&p);
        hx_scheme_rule_deinit(&q);
    }
}

static void assert_same_chains(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    for (hx_obj i = 0; i < a->graph.n; i++) {
        struct hx_chains x, y;
        assert_null(hx_why(a, i, &(struct hx_why_options){.limit = 20}, NULL, &x));
        assert_null(hx_why(b, i, &(struct hx_why_options){.limit = 20}, NULL, &y));
        assert_int_equal(x.n, y.n);
        for (size_t c = 0; c < x.n; c++) {
            assert_int_equal(x.chain[c].n, y.chain[c].n);
            for (size_t s = 0; s < x.chain[c].n; s++) {
                const struct hx_step *p = &x.chain[c].step[s], *q = &y.chain[c].step[s];
                assert_true(p->root == q->root && p->source == q->source &&
                            p->target == q->target && p->offset == q->offset && p->kind == q->kind);
            }
        }
        hx_chains_deinit(&x);
        hx_chains_deinit(&y);
    }
}

static void test_decide_bins_only(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("named roots decide bins only");
    static struct random_graph graph;
    for (size_t round = unit_rounds(300); round; round--) {
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        enum hx_interior interior = (enum hx_interior)unit_below(&random, 3);
        struct hx_snapshot *plain = random_graph_snapshot(&graph);
        struct hx_snapshot *named = random_graph_snapshot(&graph);
        name_some(named, &random);
        for (size_t i = 0; i < plain->roots.n; i++)
            set_text(&plain->roots.v[i].module, named->roots.v[i].module);
        assert_null(hx_reach(plain, interior, 1, NULL));
        assert_null(hx_reach(named, interior, 1, NULL));
        assert_null(hx_graph_reverse(&plain->graph, 1, NULL));
        assert_null(hx_graph_reverse(&named->graph, 1, NULL));
        assert_same_states(plain, named);
        assert_same_dominators(plain, named);
        assert_same_chains(plain, named);
        assert_same_retainers(plain, named);
        hx_snapshot_destroy(plain);
        hx_snapshot_destroy(named);
    }
}

/* --- the example of the root profiler for GHC, with its own sizes ------------------------ */

static void test_example(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw("obj hsc 32: 0 eps fc other; obj eps 32: 0 x y e\n"
                                     "obj fc 40: 0 x y z f; obj other 32: 0 x z t\n"
                                     "obj x 16; obj y 16; obj z 16; obj e 16; obj f 16; obj t 16\n"
                                     "root all: hsc");
    struct hx_snapshot *snapshot = drawing.snapshot;
    struct hx_naming naming[] = {{.name = "hsc"}, {.name = "eps"}, {.name = "fc"}};
    for (size_t i = 0; i < 3; i++)
        naming[i].address = snapshot->graph.addr[hx_drawing_object(&drawing, naming[i].name)];
    assert_null(hx_named_set(snapshot, naming, 3, NULL));
    struct hx_bins bins;
    assert_null(hx_bins_find(snapshot, NULL, &bins));
    static const struct {
        const char *label;
        uint64_t bytes;
    } expected[] = {{"hsc", 80},        {"eps", 0},     {"fc", 0},
                    {"hsc+eps", 48},    {"hsc+fc", 72}, {"eps+fc", 0},
                    {"hsc+eps+fc", 32}, {"-", 0},       {"(unreachable)", 0}};
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        uint64_t bytes = 0;
        for (hx_obj i = 0; i < snapshot->graph.n; i++) {
            struct hx_text label = {0};
            hx_bin_label(snapshot, &bins, bins.bin[i], &label);
            if (strcmp(hx_text_str(&label), expected[k].label) == 0)
                bytes += snapshot->graph.size[i];
            hx_text_free(&label);
        }
        assert_int_equal(bytes, expected[k].bytes);
    }
    hx_bins_deinit(&bins);
    hx_drawing_deinit(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),    cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_forms),    cmocka_unit_test(test_threads_and_modules),
        cmocka_unit_test(test_types),    cmocka_unit_test(test_fields_are_refused),
        cmocka_unit_test(test_sets),     cmocka_unit_test(test_mangled),
        cmocka_unit_test(test_nameless), cmocka_unit_test(test_renew),
        cmocka_unit_test(test_many),     cmocka_unit_test(test_decide_bins_only),
        cmocka_unit_test(test_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
