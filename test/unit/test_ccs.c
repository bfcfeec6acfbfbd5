/* test_ccs.c - cost-centre stacks: the rules of push and call, the machine's operations, and
 * attribution against a reckoner that knows nothing but lists. */
#include "cost/ccs.h"

#include "base/timing.h"
#include "unit.h"

/* Centres are letters in these tests; MAIN is '*'. */
enum { MAIN = '*' };

static struct hx_ccs_table *new_table(enum hx_recursion recursion)
{
    struct hx_ccs_table *table;
    assert_null(hx_ccs_table_create(MAIN, recursion, &table));
    return table;
}

static void end_table(struct hx_ccs_table *table)
{
    assert_null(hx_ccs_table_check(table));
    hx_ccs_table_destroy(table);
}

static hx_ccs_row push(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre)
{
    hx_ccs_row row;
    assert_null(hx_ccs_push(table, on, centre, &row, NULL));
    return row;
}

static bool push_is_back(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre)
{
    hx_ccs_row row;
    bool back;
    assert_null(hx_ccs_push(table, on, centre, &row, &back));
    return back;
}

static hx_ccs_row root(struct hx_ccs_table *table, hx_centre centre, bool is_caf)
{
    hx_ccs_row row;
    assert_null(hx_ccs_root(table, centre, is_caf, &row));
    return row;
}

/* Pushes letters one after the other. */
static hx_ccs_row stack_on(struct hx_ccs_table *table, hx_ccs_row on, const char *letters)
{
    for (; *letters; letters++)
        on = push(table, on, (hx_centre)*letters);
    return on;
}

static hx_ccs_row stack(struct hx_ccs_table *table, const char *letters)
{
    return stack_on(table, HX_CCS_TOP, letters);
}

static hx_ccs_row call(struct hx_ccs_table *table, hx_ccs_row current, hx_ccs_row function)
{
    hx_ccs_row row;
    assert_null(hx_ccs_call(table, current, function, &row));
    return row;
}

/* A stack as letters, MAIN left out. */
static const char *letters(const struct hx_ccs_table *table, hx_ccs_row row)
{
    static char text[64];
    const struct hx_ccs_entry *rows = hx_ccs_rows(table);
    assert_true(rows[row].depth < sizeof text);
    text[rows[row].depth] = '\0';
    for (; row != HX_CCS_TOP; row = rows[row].parent)
        text[rows[row].depth - 1] = (char)rows[row].centre;
    return text;
}

#define assert_stack(table, row, expected) assert_string_equal(letters(table, row), expected)

/* --- push -------------------------------------------------------------------------- */

static void test_push(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    assert_int_equal(hx_ccs_count(table), 1);
    hx_ccs_row a = stack(table, "a"), ab = stack(table, "ab");
    assert_int_equal(push(table, a, 'a'), a); /* on top already: the same */
    assert_false(push_is_back(table, a, 'a'));
    assert_int_equal(stack(table, "ab"), ab); /* the same stack is the same row */
    assert_int_equal(hx_ccs_count(table), 3);
    assert_int_equal(hx_ccs_rows(table)[ab].parent, a);
    assert_int_equal(hx_ccs_rows(table)[ab].depth, 2);
    assert_int_equal(hx_ccs_rows(table)[ab].root, HX_CCS_TOP);
    assert_int_equal(push(table, HX_CCS_TOP, MAIN), HX_CCS_TOP);
    assert_int_equal(push(table, ab, MAIN), HX_CCS_TOP);
    end_table(table);
}

/* f and g call each other, m began it. */
static void test_mutual_recursion(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row mf = stack(table, "mf"), mfg = stack(table, "mfg");
    uint32_t before = hx_ccs_count(table);
    hx_ccs_row at = mf;
    for (int i = 0; i < 10; i++) {
        at = push(table, at, 'g');
        assert_int_equal(at, mfg);
        at = push(table, at, 'f');
        assert_int_equal(at, mf);
    }
    assert_int_equal(hx_ccs_count(table), before); /* never deeper */
    assert_true(push_is_back(table, mfg, 'f'));
    assert_true(push_is_back(table, mfg, 'm'));
    assert_false(push_is_back(table, mf, 'g'));
    /* what began it elsewhere stays where it began */
    hx_ccs_row mzg = stack(table, "mzg"), mzgf = push(table, mzg, 'f');
    assert_stack(table, mzgf, "mzgf");
    assert_int_equal(push(table, mzgf, 'g'), mzg);
    end_table(table);

    table = new_table(HX_RECURSION_WHOLE);
    assert_stack(table, stack(table, "mfgfgf"), "mfgfgf");
    assert_stack(table, stack(table, "mffgg"), "mfg"); /* but on top already: the same */
    assert_false(push_is_back(table, stack(table, "mfg"), 'f'));
    end_table(table);
}

/* Entries count at what the push yields: f is entered five times from main. */
/* Those that a push was truncated to, or made again; what is on top only when it is said. */
static void test_recursive(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row a = stack(table, "A"), ab = stack(table, "AB"), abc = stack(table, "ABC");
    assert_false(hx_ccs_rows(table)[ab].recursive);
    assert_int_equal(push(table, abc, 'B'), ab);
    assert_int_equal(push(table, a, 'A'), a);
    assert_false(hx_ccs_rows(table)[a].recursive);
    assert_true(hx_ccs_rows(table)[ab].recursive);
    assert_false(hx_ccs_rows(table)[abc].recursive);
    hx_ccs_mark_recursive(table, a);
    assert_true(hx_ccs_rows(table)[a].recursive);
    assert_int_equal(hx_ccs_rows(table)[abc].depth, 3);
    end_table(table);
    table = new_table(HX_RECURSION_WHOLE);
    hx_ccs_row again = stack(table, "ABAB");
    for (hx_ccs_row row = again; row != HX_CCS_TOP; row = hx_ccs_rows(table)[row].parent)
        assert_int_equal(hx_ccs_rows(table)[row].recursive, hx_ccs_rows(table)[row].depth > 2);
    end_table(table);
}

static void test_entries(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    uint64_t entries[16] = {0};
    hx_ccs_row at = stack(table, "m");
    for (int i = 0; i < 5; i++) {
        entries[at = push(table, at, 'f')]++;
        entries[at = push(table, at, 'g')]++;
    }
    assert_int_equal(entries[stack(table, "mf")], 5);
    assert_int_equal(entries[stack(table, "mfg")], 5);
    end_table(table);
}

/* Rows are the tree; a back edge is none of them, so a walk over children and parents ends. */
static void test_walk(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row mfg = stack(table, "mfg");
    assert_true(push_is_back(table, mfg, 'f'));
    assert_int_equal(hx_ccs_count(table), 4);
    uint64_t inherited[4] = {0, 1, 10, 100};
    for (uint32_t i = hx_ccs_count(table); --i;)
        inherited[hx_ccs_rows(table)[i].parent] += inherited[i];
    assert_int_equal(inherited[HX_CCS_TOP], 111);
    end_table(table);
}

/* A centre is an object; two of the same label are two. Deep stacks find their own as well. */
static void test_deep(void **state)
{
    (void)state;
    enum { DEPTH = 1000 };
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row at[DEPTH + 1] = {HX_CCS_TOP};
    for (unsigned i = 1; i <= DEPTH; i++)
        at[i] = push(table, at[i - 1], 1000 + i);
    for (unsigned i = 1; i <= DEPTH; i += 7) {
        assert_int_equal(push(table, at[DEPTH], 1000 + i), at[i]);
        assert_int_equal(push(table, at[DEPTH - 1], 1000 + i), at[i]);
    }
    assert_int_equal(hx_ccs_count(table), DEPTH + 1);
    end_table(table);
}

static void test_roots(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row unknown = root(table, 'U', false), caf = root(table, 'C', true);
    assert_int_equal(root(table, 'U', false), unknown);
    assert_int_equal(push(table, HX_CCS_TOP, 'C'), caf);
    hx_ccs_row in = stack_on(table, caf, "fg");
    assert_int_equal(hx_ccs_rows(table)[in].root, caf);
    assert_int_equal(hx_ccs_rows(table)[unknown].root, unknown);
    assert_int_equal(hx_ccs_rows(table)[caf].parent, HX_CCS_TOP);
    stack(table, "a");
    hx_ccs_row row;
    const struct {
        hx_centre centre;
        bool is_caf;
    } wrong[] = {{'a', false}, {'C', false}, {'U', true}, {MAIN, false}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hx_error *err = hx_ccs_root(table, wrong[i].centre, wrong[i].is_caf, &row);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_CORRUPT);
        hx_error_free(err);
    }
    end_table(table);
}

/* --- the call rule ----------------------------------------------------------------- */

static void test_call_rule(void **state)
{
    (void)state;
    static const struct {
        const char *current, *function, *result;
    } cases[] = {
        {"abc", "ab", "abc"},     {"ab", "abc", "abc"},
        {"abc", "abd", "abcd"},   {"abc", "", "abc"},
        {"", "abc", "abc"},       {"abc", "abc", "abc"},
        {"abc", "xy", "abcxy"},   {"abc", "abd", "abcd"},
        {"abc", "adb", "ab"},     /* pushed one at a time, so recursion truncates: abcd, then b */
        {"mfgh", "mfj", "mfghj"}, /* a partial application extended by its caller */
    };
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hx_ccs_row current = stack(table, cases[i].current);
        hx_ccs_row function = stack(table, cases[i].function);
        assert_stack(table, call(table, current, function), cases[i].result);
    }
    end_table(table);
}

static void test_call_roots(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row caf = root(table, 'C', true), unknown = root(table, 'U', false);
    hx_ccs_row main_ab = stack(table, "ab"), caf_g = stack_on(table, caf, "g");
    /* a function of a CAF alone changes nothing */
    assert_int_equal(call(table, main_ab, caf), main_ab);
    assert_int_equal(call(table, caf_g, caf), caf_g);
    /* of another root: all of it but the CAF or MAIN is pushed */
    assert_stack(table, call(table, main_ab, caf_g), "abg");
    assert_stack(table, call(table, caf_g, main_ab), "Cgab");
    assert_int_equal(hx_ccs_rows(table)[call(table, caf_g, main_ab)].root, caf);
    assert_int_equal(call(table, caf_g, HX_CCS_TOP), caf_g);
    assert_stack(table, call(table, main_ab, stack_on(table, unknown, "x")), "abUx");
    hx_ccs_row other = stack_on(table, root(table, 'D', true), "gh");
    assert_stack(table, call(table, caf_g, other), "Cgh"); /* g is on top already */
    end_table(table);
}

/* h is inlined into g: whether its own frame exists or not, what f calls has the same stack. */
static void test_inlining_changes_nothing(void **state)
{
    (void)state;
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    hx_ccs_row defined = stack(table, "mf"); /* where the function value was made */
    hx_ccs_row called = call(table, stack(table, "mfg"), defined);
    assert_stack(table, called, "mfg");
    /* inlined: no call at all */
    assert_int_equal(called, stack(table, "mfg"));
    /* its body pushes h: before, and where it was inlined */
    assert_int_equal(push(table, called, 'h'), stack(table, "mfgh"));
    end_table(table);
}

/* --- the machine ------------------------------------------------------------------- */

struct fixture {
    struct hx_ccs_table *table;
    struct hx_ccs_machine machine;
};

static void begin_machine(struct fixture *fixture)
{
    fixture->table = new_table(HX_RECURSION_TRUNCATES);
    assert_null(hx_ccs_machine_init(&fixture->machine, fixture->table));
}

static void end_machine(struct fixture *fixture)
{
    hx_ccs_machine_deinit(&fixture->machine);
    end_table(fixture->table);
}

static void centre(struct fixture *fixture, char letter)
{
    assert_null(hx_ccs_push_center(&fixture->machine, (hx_centre)letter));
}

static void enter(struct fixture *fixture, hx_ccs_row captured)
{
    assert_null(hx_ccs_push_stack(&fixture->machine, captured));
}

static void dup_stack(struct fixture *fixture)
{
    assert_null(hx_ccs_dup_stack(&fixture->machine));
}

static void leave(struct fixture *fixture)
{
    hx_ccs_pop_stack(&fixture->machine);
}

#define assert_current(fixture, expected)                                                          \
    assert_stack((fixture)->table, hx_ccs_current(&(fixture)->machine), expected)

static void test_PUSH_CENTER(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    assert_current(&f, "");
    centre(&f, 'f');
    centre(&f, 'g');
    assert_current(&f, "fg");
    centre(&f, 'f');
    assert_current(&f, "f");
    assert_int_equal(f.machine.stack.n, 1); /* in place */
    end_machine(&f);
}

static void test_DUP_STACK(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    centre(&f, 'f');
    dup_stack(&f);
    assert_current(&f, "f");
    centre(&f, 'g');
    centre(&f, 'h');
    assert_current(&f, "fgh");
    leave(&f);
    assert_current(&f, "f");
    end_machine(&f);
}

static void test_PUSH_STACK(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    centre(&f, 'f');
    hx_ccs_row captured = hx_ccs_current(&f.machine);
    centre(&f, 'g');
    enter(&f, captured);
    assert_current(&f, "f");
    centre(&f, 'h');
    assert_current(&f, "fh");
    leave(&f);
    assert_current(&f, "fg");
    hx_error *err = hx_ccs_push_stack(&f.machine, 999);
    assert_non_null(err); /* there is no such stack */
    hx_error_free(err);
    assert_current(&f, "fg");
    end_machine(&f);
}

static void test_POP_STACK(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    centre(&f, 'f');
    leave(&f); /* nothing to discard: counted, and the current stack stays */
    assert_current(&f, "f");
    assert_int_equal(f.machine.unbalanced, 1);
    dup_stack(&f);
    dup_stack(&f);
    centre(&f, 'g');
    leave(&f);
    leave(&f);
    assert_current(&f, "f");
    assert_int_equal(f.machine.unbalanced, 1);
    end_machine(&f);
}

/* double is called by main, not by map: by the box its stack is captured where it is passed. */
static void test_map_and_double(void **state)
{
    (void)state;
    for (int boxed = 0; boxed < 2; boxed++) {
        struct fixture f;
        begin_machine(&f);
        centre(&f, 'm'); /* main */
        hx_ccs_row box = hx_ccs_current(&f.machine);
        dup_stack(&f);
        centre(&f, 'p'); /* map */
        for (int i = 0; i < 3; i++) {
            if (boxed)
                enter(&f, box);
            else
                dup_stack(&f);
            centre(&f, 'd'); /* double */
            assert_current(&f, boxed ? "md" : "mpd");
            leave(&f);
            assert_current(&f, "mp");
        }
        leave(&f);
        assert_current(&f, "m");
        end_machine(&f);
    }
}

/* id f 3: <main,id,f> where lexically it is <main,f>, as it is by the box. */
static void test_id(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    centre(&f, 'm');
    hx_ccs_row box = hx_ccs_current(&f.machine);
    dup_stack(&f);
    centre(&f, 'i');
    dup_stack(&f);
    centre(&f, 'f');
    assert_current(&f, "mif");
    leave(&f);
    enter(&f, box);
    centre(&f, 'f');
    assert_current(&f, "mf");
    leave(&f);
    leave(&f);
    assert_current(&f, "m");
    end_machine(&f);
}

/* g is a constant: j, made when it is first wanted, has its stack <CAF,g>, whoever wants it; by
 * the call rule it is called with the context of who does. */
static void test_caf_g(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    hx_ccs_row caf = root(f.table, 'C', true);
    centre(&f, 'm');
    enter(&f, caf);
    centre(&f, 'g');
    assert_current(&f, "Cg");
    hx_ccs_row j = hx_ccs_current(&f.machine);
    leave(&f);
    assert_current(&f, "m");
    assert_stack(f.table, call(f.table, hx_ccs_current(&f.machine), j), "mg");
    end_machine(&f);
}

/* test12: j is free in p, so p has captured it with the stack of the constant g, and no box at the
 * use of p changes that. test14: p takes j as an argument, and the box at g1 captures it. */
static void test_captured_too_early(void **state)
{
    (void)state;
    struct fixture f;
    begin_machine(&f);
    hx_ccs_row caf = root(f.table, 'C', true);
    enter(&f, caf);
    centre(&f, 'g');
    hx_ccs_row j = hx_ccs_current(&f.machine);
    leave(&f);
    centre(&f, 'm'); /* main */
    centre(&f, 'n'); /* main1 */
    centre(&f, '1'); /* g1: p1 = p is boxed here */
    hx_ccs_row p1 = hx_ccs_current(&f.machine);
    enter(&f, p1);
    centre(&f, 'c'); /* constr calls j, of which it has the early stack */
    enter(&f, j);
    centre(&f, 'd');
    assert_current(&f, "Cgd"); /* test12: the context mn1 is lost */
    leave(&f);
    enter(&f, p1); /* test14: j1 = j was boxed at g1 */
    centre(&f, 'd');
    assert_current(&f, "mn1d");
    leave(&f);
    leave(&f);
    assert_current(&f, "mn1");
    end_machine(&f);
}

/* --- attribution ------------------------------------------------------------------- */

static const struct hx_frame nothing = {
    .target = UINT32_MAX, .centre = HX_NO_CENTRE, .caf = HX_NO_CENTRE};

static struct hx_frame frame(uint32_t parent, int letter)
{
    struct hx_frame made = nothing;
    made.parent = parent;
    made.centre = (hx_centre)letter;
    return made;
}

static struct hx_frame deferred(uint32_t parent, uint32_t target)
{
    struct hx_frame made = nothing;
    made.parent = parent;
    made.kind = HX_FRAME_DEFERRED;
    made.target = target;
    return made;
}

/* Attributes frames and compares; expected of frame 0 is "". */
static void attribute(const struct hx_frame *frames, uint32_t n, const char *unselected,
                      enum hx_recursion recursion, const char *const *expected)
{
    bool selected[256];
    for (int i = 0; i < 256; i++)
        selected[i] = !strchr(unselected, i);
    struct hx_ccs_table *table = new_table(recursion);
    hx_ccs_row *row;
    assert_null(hx_ccs_attribute(frames, n, *unselected ? selected : NULL, table, NULL, &row));
    for (uint32_t i = 0; i < n; i++)
        assert_stack(table, row[i], expected[i]);
    free(row);
    end_table(table);
}

static void test_attribute(void **state)
{
    (void)state;
    struct hx_frame frames[12] = {frame(0, MAIN), frame(0, 'm'),  frame(1, 'f'),
                                  frame(2, 'g'),  frame(3, 'f'),  frame(4, 'h'),
                                  frame(0, 'w'),  deferred(6, 3), frame(7, 'd')};
    frames[9] = frame(8, 'x');
    frames[10] = frame(0, 'U');
    frames[10].kind = HX_FRAME_BUILTIN;
    frames[11] = frame(10, 'm');
    attribute(frames, 12, "", HX_RECURSION_TRUNCATES,
              (const char *[]){"", "m", "mf", "mfg", "mf", "mfh", "w", "mfg", "mfgd", "mfgdx", "U",
                               "Um"});
    attribute(frames, 12, "", HX_RECURSION_WHOLE,
              (const char *[]){"", "m", "mf", "mfg", "mfgf", "mfgfh", "w", "mfg", "mfgd", "mfgdx",
                               "U", "Um"});
    /* built-in ones stay, whatever was chosen */
    attribute(
        frames, 12, "fU", HX_RECURSION_TRUNCATES,
        (const char *[]){"", "m", "m", "mg", "mg", "mgh", "w", "mg", "mgd", "mgdx", "U", "Um"});
}

static void test_attribute_deferred(void **state)
{
    (void)state;
    struct hx_frame frames[] = {
        frame(0, MAIN),          frame(0, 'm'),  frame(1, 's'), /* submits */
        frame(0, 'w'),                                          /* the worker */
        deferred(3, 2),          frame(4, 't'),                 /* runs the task */
        deferred(5, 1),          frame(6, 'u'),  /* which enters another stack inside */
        deferred(3, UINT32_MAX),                 /* not known any more: the worker's own stays */
        frame(8, 'v'),           frame(5, 'k'),  /* beside the inner one */
        deferred(9, 8),          frame(11, 'y'), /* a captured stack may end in such a frame */
    };
    attribute(
        frames, 13, "", HX_RECURSION_TRUNCATES,
        (const char *[]){"", "m", "ms", "w", "ms", "mst", "m", "mu", "w", "wv", "mstk", "w", "wy"});
}

static void test_attribute_caf(void **state)
{
    (void)state;
    struct hx_frame frames[] = {frame(0, MAIN), frame(0, 'm'),  frame(1, 'i'), frame(2, 'g'),
                                frame(0, 'w'),  deferred(4, 3), frame(5, 'i'), frame(6, 'h'),
                                deferred(7, 1), frame(8, 'z'),  frame(3, 'j'), frame(1, 'i')};
    frames[2].caf = 'C';  /* an initialiser of one module */
    frames[6].caf = 'C';  /* inside entered work: the module's */
    frames[10].caf = 'D'; /* inside another's */
    frames[11].caf = 'C'; /* whose function is no cost centre */
    frames[11].centre = HX_NO_CENTRE;
    attribute(
        frames, 12, "", HX_RECURSION_TRUNCATES,
        (const char *[]){"", "m", "Ci", "Cig", "w", "Cig", "Ci", "Cih", "m", "mz", "Dj", "C"});
    attribute(frames, 12, "iCD", HX_RECURSION_TRUNCATES,
              (const char *[]){"", "m", "C", "Cg", "w", "Cg", "C", "Ch", "m", "mz", "Dj", "C"});
}

/* A frame for each of several functions at one place, or a call that is there: the same. */
static void test_attribute_inlined(void **state)
{
    (void)state;
    /* m calls f with g inlined twice, and out of line; recursion was turned into a loop */
    struct hx_frame frames[] = {frame(0, MAIN), frame(0, 'm'), frame(1, 'f'), frame(2, 'g'),
                                frame(2, 'g'),  frame(3, 'h'), frame(4, 'h'), frame(2, 'f'),
                                frame(7, 'g'),  frame(8, 'h')};
    attribute(frames, 10, "", HX_RECURSION_TRUNCATES,
              (const char *[]){"", "m", "mf", "mfg", "mfg", "mfgh", "mfgh", "mf", "mfg", "mfgh"});
}

static void test_attribute_damaged(void **state)
{
    (void)state;
    struct hx_frame parent[] = {frame(0, MAIN), frame(1, 'm')};
    struct hx_frame target[] = {frame(0, MAIN), deferred(0, 1)};
    struct hx_frame twice[] = {frame(0, MAIN), frame(0, 'm'), frame(0, 'm')};
    struct hx_frame none[] = {frame(0, MAIN), frame(0, 'm')};
    twice[2].kind = HX_FRAME_BUILTIN;
    none[1].kind = HX_FRAME_BUILTIN;
    none[1].centre = HX_NO_CENTRE;
    const struct {
        const struct hx_frame *frame;
        uint32_t n;
    } cases[] = {{parent, 2}, {target, 2}, {twice, 3}, {none, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
        hx_ccs_row *row;
        hx_error *err = hx_ccs_attribute(cases[i].frame, cases[i].n, NULL, table, NULL, &row);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_CORRUPT);
        hx_error_free(err);
        end_table(table);
    }
}

/* Deeper than anything recorded: a file made to take long is refused, and work can be ended. */
static void test_attribute_ends(void **state)
{
    (void)state;
    enum { N = 70000 };
    struct hx_frame *frames = malloc(N * sizeof *frames);
    assert_non_null(frames);
    for (uint32_t i = 0; i < N; i++)
        frames[i] = frame(i ? i - 1 : 0, (int)i);
    struct hx_ccs_table *table = new_table(HX_RECURSION_WHOLE);
    hx_ccs_row *row;
    hx_error *err = hx_ccs_attribute(frames, N, NULL, table, NULL, &row);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_LIMIT);
    hx_error_free(err);
    end_table(table);
    table = new_table(HX_RECURSION_TRUNCATES);
    atomic_bool cancel = true;
    struct hx_progress progress = {.cancel = &cancel};
    err = hx_ccs_attribute(frames, N, NULL, table, &progress, &row);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    end_table(table);
    free(frames);
}

static void test_callers(void **state)
{
    (void)state;
    struct hx_frame frames[] = {
        frame(0, MAIN), frame(0, 'm'), nothing,        frame(2, 'f'),           frame(0, 'w'),
        deferred(4, 3), frame(5, 't'), deferred(6, 2), frame(7, 'u'),           frame(3, 'i'),
        frame(9, 'j'),  frame(0, 'U'), frame(11, 'x'), deferred(4, UINT32_MAX), frame(13, 'y')};
    frames[2].parent = 1;
    frames[9].caf = 'C';
    frames[11].kind = HX_FRAME_BUILTIN;
    const uint32_t expected[] = {0, 0, 1, 1, 0, 3, 3, 1, 1, 0, 9, 0, 11, 4, 4};
    uint32_t *caller;
    assert_null(hx_frames_callers(frames, 15, &caller));
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(caller[i], expected[i]);
    free(caller);
}

/* --- against lists ----------------------------------------------------------------- */

/* A stack as a list of centres, outermost first, MAIN at its beginning. */
struct list {
    hx_centre centre[512];
    size_t n;
};

enum { N_CENTRES = 12, FIRST_CAF = N_CENTRES, N_CAFS = 3, N_ALL = N_CENTRES + N_CAFS + 2 };

static void list_push(struct list *list, hx_centre pushed, enum hx_recursion recursion)
{
    if (recursion == HX_RECURSION_WHOLE && list->centre[list->n - 1] == pushed)
        return;
    for (size_t i = 0; recursion == HX_RECURSION_TRUNCATES && i < list->n; i++) {
        if (list->centre[i] == pushed) {
            list->n = i + 1;
            return;
        }
    }
    assert_true(list->n < sizeof list->centre / sizeof *list->centre);
    list->centre[list->n++] = pushed;
}

/* The stack of one frame, from the raw stacks alone: back to where it begins, then forward. */
static void reckon(const struct hx_frame *frames, uint32_t at, const bool *selected,
                   enum hx_recursion recursion, struct list *list)
{
    uint32_t way[512];
    size_t n = 0;
    *list = (struct list){.centre = {MAIN}, .n = 1};
    while (at) {
        const struct hx_frame *f = &frames[at];
        way[n++] = at;
        assert_true(n < 512);
        if (f->kind == HX_FRAME_BUILTIN || f->caf != HX_NO_CENTRE)
            break;
        at = f->kind == HX_FRAME_DEFERRED && f->target != UINT32_MAX ? f->target : f->parent;
    }
    while (n--) {
        const struct hx_frame *f = &frames[way[n]];
        bool always = f->kind == HX_FRAME_BUILTIN;
        if (f->caf != HX_NO_CENTRE && !always)
            list_push(list, f->caf, recursion);
        if (f->centre != HX_NO_CENTRE && (always || selected[f->centre]))
            list_push(list, f->centre, recursion);
    }
}

static void random_frames(struct unit_random *random, struct hx_frame *frames, uint32_t n)
{
    frames[0] = frame(0, MAIN);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t near = i < 8 ? i : 8, kind = (uint32_t)unit_below(random, 20);
        uint32_t parent = unit_below(random, 3) ? i - 1 - (uint32_t)unit_below(random, near)
                                                : (uint32_t)unit_below(random, i);
        frames[i] = frame(parent, (int)unit_below(random, N_CENTRES));
        if (kind == 0)
            frames[i] = deferred(parent, unit_below(random, 5) ? (uint32_t)unit_below(random, i)
                                                               : UINT32_MAX);
        else if (kind == 1)
            frames[i].caf = FIRST_CAF + (hx_centre)unit_below(random, N_CAFS);
        else if (kind == 2)
            frames[i].centre = HX_NO_CENTRE;
        else if (kind == 3)
            frames[i].kind = HX_FRAME_REGION;
        else if (kind == 4 && i % 5 == 0) {
            frames[i].kind = HX_FRAME_BUILTIN;
            frames[i].centre = FIRST_CAF + N_CAFS + (hx_centre)unit_below(random, 2);
        }
    }
}

static void compare(const struct hx_ccs_table *table, hx_ccs_row row, const struct list *list)
{
    const struct hx_ccs_entry *rows = hx_ccs_rows(table);
    assert_int_equal(rows[row].depth + 1, list->n);
    for (size_t i = list->n; i--; row = rows[row].parent)
        assert_int_equal(rows[row].centre, list->centre[i]);
}

/* Where recursion is kept, just those are recursive whose centre stands below them again. */
static void assert_repeated_marked(const struct hx_ccs_table *table)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(table);
    for (hx_ccs_row row = 1; row < hx_ccs_count(table); row++) {
        bool again = false;
        for (hx_ccs_row at = row; at != HX_CCS_TOP && !again;) {
            at = entry[at].parent;
            again = entry[at].centre == entry[row].centre;
        }
        assert_int_equal(entry[row].recursive, again);
    }
}

static void test_random_attribution(void **state)
{
    (void)state;
    enum { N = 400 };
    struct unit_random random = unit_random_begin("attribution");
    static struct hx_frame frames[N];
    for (size_t round = unit_rounds(120); round--;) {
        enum hx_recursion recursion = (enum hx_recursion)(round & 1);
        uint32_t n = 1 + (uint32_t)unit_below(&random, N);
        random_frames(&random, frames, n);
        bool selected[N_ALL];
        for (size_t i = 0; i < N_ALL; i++)
            selected[i] = unit_below(&random, 4);
        struct hx_ccs_table *table = new_table(recursion);
        hx_ccs_row *row;
        assert_null(hx_ccs_attribute(frames, n, selected, table, NULL, &row));
        for (uint32_t i = 0; i < n; i++) {
            struct list list;
            reckon(frames, i, selected, recursion, &list);
            compare(table, row[i], &list);
        }
        if (recursion == HX_RECURSION_WHOLE)
            assert_repeated_marked(table);
        free(row);
        end_table(table);
    }
}

/* Frames that come behind others change nothing of theirs: the same rows have the same numbers. */
static void test_random_extension(void **state)
{
    (void)state;
    enum { N = 400 };
    struct unit_random random = unit_random_begin("extension");
    static struct hx_frame frames[N];
    for (size_t round = unit_rounds(40); round--;) {
        enum hx_recursion recursion = (enum hx_recursion)(round & 1);
        uint32_t n = 2 + (uint32_t)unit_below(&random, N - 2), half = n / 2;
        random_frames(&random, frames, n);
        struct hx_ccs_table *small = new_table(recursion), *large = new_table(recursion);
        hx_ccs_row *in_small, *in_large;
        assert_null(hx_ccs_attribute(frames, half, NULL, small, NULL, &in_small));
        assert_null(hx_ccs_attribute(frames, n, NULL, large, NULL, &in_large));
        assert_memory_equal(in_small, in_large, half * sizeof *in_small);
        assert_true(hx_ccs_count(small) <= hx_ccs_count(large));
        for (hx_ccs_row r = 0; r < hx_ccs_count(small); r++) {
            struct hx_ccs_entry x = hx_ccs_rows(small)[r], y = hx_ccs_rows(large)[r];
            assert_true(x.parent == y.parent && x.root == y.root && x.depth == y.depth &&
                        x.centre == y.centre);
            assert_true(y.recursive || !x.recursive); /* what recursed has done so */
        }
        free(in_small);
        free(in_large);
        end_table(small);
        end_table(large);
    }
}

/* The call rule on lists: what they share at their beginnings is not pushed again. */
static void test_random_calls(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("calls");
    struct hx_ccs_table *table = new_table(HX_RECURSION_TRUNCATES);
    for (size_t round = unit_rounds(5000); round--;) {
        hx_ccs_row made[2];
        struct list list[2];
        for (int s = 0; s < 2; s++) {
            made[s] = HX_CCS_TOP;
            list[s] = (struct list){.centre = {MAIN}, .n = 1};
            for (uint64_t k = unit_below(&random, 6); k--;) {
                hx_centre c = (hx_centre)unit_below(&random, 4);
                made[s] = push(table, made[s], c);
                list_push(&list[s], c, HX_RECURSION_TRUNCATES);
            }
        }
        size_t shared = 0;
        while (shared < list[0].n && shared < list[1].n &&
               list[0].centre[shared] == list[1].centre[shared])
            shared++;
        for (; shared < list[1].n; shared++)
            list_push(&list[0], list[1].centre[shared], HX_RECURSION_TRUNCATES);
        compare(table, call(table, made[0], made[1]), &list[0]);
    }
    end_table(table);
}

/* --- size and time ----------------------------------------------------------------- */

/* A million frames, like those of a large program: 30 to 60 deep, each with few ways to go on. */
static void test_million(void **state)
{
    (void)state;
    uint32_t n = (uint32_t)unit_rounds(1000000);
    struct hx_frame *frames = malloc(n * sizeof *frames);
    uint32_t *path = calloc(64, sizeof *path);
    assert_non_null(frames);
    assert_non_null(path);
    struct unit_random random = {7};
    frames[0] = frame(0, 0);
    size_t depth = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (depth >= 30 + unit_below(&random, 31))
            depth -= 1 + unit_below(&random, 12);
        frames[i] = frame(path[depth], 1 + (int)unit_below(&random, 20000));
        path[++depth] = i;
    }
    struct hx_ccs_table *table;
    assert_null(hx_ccs_table_create(0, HX_RECURSION_TRUNCATES, &table));
    uint64_t begun = hx_now_ns();
    hx_ccs_row *row;
    assert_null(hx_ccs_attribute(frames, n, NULL, table, NULL, &row));
    uint64_t ended = hx_now_ns();
    print_message("%u frames, %u stacks: %.3f s\n", n, hx_ccs_count(table),
                  (double)(ended - begun) / 1e9);
    assert_null(hx_ccs_table_check(table));
    free(row);
    free(frames);
    free(path);
    hx_ccs_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_mutual_recursion),
        cmocka_unit_test(test_recursive),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_call_rule),
        cmocka_unit_test(test_call_roots),
        cmocka_unit_test(test_inlining_changes_nothing),
        cmocka_unit_test(test_PUSH_CENTER),
        cmocka_unit_test(test_DUP_STACK),
        cmocka_unit_test(test_PUSH_STACK),
        cmocka_unit_test(test_POP_STACK),
        cmocka_unit_test(test_map_and_double),
        cmocka_unit_test(test_id),
        cmocka_unit_test(test_caf_g),
        cmocka_unit_test(test_captured_too_early),
        cmocka_unit_test(test_attribute),
        cmocka_unit_test(test_attribute_deferred),
        cmocka_unit_test(test_attribute_caf),
        cmocka_unit_test(test_attribute_inlined),
        cmocka_unit_test(test_attribute_damaged),
        cmocka_unit_test(test_attribute_ends),
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_random_attribution),
        cmocka_unit_test(test_random_extension),
        cmocka_unit_test(test_random_calls),
        cmocka_unit_test(test_million),
    };
    return unit_run_some(tests);
}
