/* test_types.c - tables of types: each type once, what lies at an offset, tables that lie, hints,
 * and objects that get their types by pointers.
 */
#include "random_graph.h"

#include "base/text.h"
#include "model/type_build.h"
#include "model/type_merge.h"
#include "query/type_hints.h"
#include "traverse/typing/typing.h"

struct made {
    struct hx_type_build build;
    struct hx_type_table table;
    void *block;
};

static uint32_t string_of(struct hx_type_build *build, const char *s)
{
    uint32_t ret;
    assert_null(hx_type_build_string(build, s, strlen(s), &ret));
    return ret;
}

static uint32_t add(struct hx_type_build *build, struct hx_type_entry type)
{
    assert_true(hx_vec_push(&build->types, type));
    return (uint32_t)build->types.n - 1;
}

static uint32_t add_scalar(struct hx_type_build *build, const char *name, enum hx_type_kind kind,
                           uint64_t size)
{
    return add(build, (struct hx_type_entry){
                          .name = string_of(build, name), .kind = (uint8_t)kind, .size = size});
}

static uint32_t add_pointer(struct hx_type_build *build, uint32_t target)
{
    return add(build, (struct hx_type_entry){.kind = HX_TYPE_POINTER, .size = 8, .target = target});
}

struct member {
    const char *name;
    uint32_t type;
    uint64_t offset;
};

/* Of a record that is there already, whose pointers may point to it. */
static void set_fields(struct hx_type_build *build, uint32_t record, const struct member *member,
                       uint32_t n)
{
    build->types.v[record].first = (uint32_t)build->fields.n;
    build->types.v[record].n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct hx_type_field field = {.name = string_of(build, member[i].name),
                                      .type = member[i].type,
                                      .offset = member[i].offset};
        assert_true(hx_vec_push(&build->fields, field));
    }
}

static void finish(struct made *made, uint32_t *number)
{
    size_t bytes;
    assert_null(hx_type_build_finish(&made->build, number, &made->block, &bytes));
    assert_null(hx_type_table_open(made->block, bytes, &made->table));
    hx_type_build_deinit(&made->build);
}

/* struct item { item *next; char *text; int n; }, struct flex { long n; item *items[]; },
 * struct outer { item first; item *table[4]; double d; void *any; }, and a declaration of item. */
enum {
    INT,
    CHAR,
    ITEM,
    ITEM_P,
    CHAR_P,
    FLEX,
    ITEMS,
    TABLE,
    OUTER,
    DOUBLE,
    VOID_P,
    LONG,
    DECLARED,
    DECLARED_P,
    AGAIN,
    AGAIN_P,
    TYPES
};

static void make_types(struct made *made, uint32_t number[TYPES + 1])
{
    struct hx_type_build *b = &made->build;
    assert_null(hx_type_build_init(b));
    uint32_t t[TYPES];
    t[INT] = add_scalar(b, "int", HX_TYPE_INT, 4);
    t[CHAR] = add_scalar(b, "char", HX_TYPE_INT, 1);
    b->types.v[t[CHAR]].flags = HX_TYPE_CHAR;
    t[ITEM] = add_scalar(b, "item", HX_TYPE_RECORD, 24);
    t[ITEM_P] = add_pointer(b, t[ITEM]);
    t[CHAR_P] = add_pointer(b, t[CHAR]);
    t[FLEX] = add_scalar(b, "flex", HX_TYPE_RECORD, 8);
    t[ITEMS] = add(b, (struct hx_type_entry){.kind = HX_TYPE_ARRAY, .target = t[ITEM_P]});
    t[TABLE] =
        add(b, (struct hx_type_entry){.kind = HX_TYPE_ARRAY, .target = t[ITEM_P], .count = 4});
    t[OUTER] = add_scalar(b, "ns::outer", HX_TYPE_RECORD, 72);
    t[DOUBLE] = add_scalar(b, "double", HX_TYPE_FLOAT, 8);
    t[VOID_P] = add_pointer(b, 0);
    t[LONG] = add_scalar(b, "long", HX_TYPE_INT, 8);
    t[DECLARED] = add_scalar(b, "item", HX_TYPE_OPAQUE, 0);
    b->types.v[t[DECLARED]].flags = HX_TYPE_DECLARED;
    t[DECLARED_P] = add_pointer(b, t[DECLARED]);
    t[AGAIN] = add_scalar(b, "item", HX_TYPE_RECORD, 24); /* of another unit */
    t[AGAIN_P] = add_pointer(b, t[AGAIN]);
    for (int i = 0; i < 2; i++)
        set_fields(b, t[i ? AGAIN : ITEM],
                   (struct member[]){{"next", t[i ? AGAIN_P : ITEM_P], 0},
                                     {"text", t[CHAR_P], 8},
                                     {"n", t[INT], 16}},
                   3);
    set_fields(b, t[FLEX], (struct member[]){{"n", t[LONG], 0}, {"items", t[ITEMS], 8}}, 2);
    set_fields(b, t[OUTER],
               (struct member[]){{"d", t[DOUBLE], 56}, /* in no order */
                                 {"first", t[ITEM], 0},
                                 {"table", t[TABLE], 24},
                                 {"any", t[VOID_P], 64}},
               4);
    uint32_t all[TYPES + 1];
    finish(made, all);
    for (int i = 0; i < TYPES; i++)
        number[i] = all[t[i]];
}

static void each_once(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t t[TYPES + 1];
    make_types(&made, t);
    assert_int_equal(t[ITEM], t[AGAIN]);
    assert_int_equal(t[ITEM_P], t[AGAIN_P]);
    assert_int_equal(t[DECLARED], t[ITEM]);
    assert_int_equal(t[DECLARED_P], t[ITEM_P]);
    assert_int_not_equal(t[FLEX], t[ITEM]);
    assert_int_equal(made.table.n_types, TYPES - 4 + 1);
    struct hx_type_index index;
    assert_null(hx_type_index_init(&index, &made.table));
    assert_int_equal(hx_type_table_find(&index, "item"), t[ITEM]);
    assert_int_equal(hx_type_table_find(&index, "*item"), t[ITEM_P]);
    assert_int_equal(hx_type_table_find(&index, "[4]*item"), t[TABLE]);
    assert_int_equal(hx_type_table_find(&index, "ns::outer"), t[OUTER]);
    assert_int_equal(hx_type_table_find(&index, "**item"), 0);
    assert_int_equal(hx_type_table_find(&index, "[x"), 0);
    hx_type_index_deinit(&index);
    free(made.block);
}

static void several_of_one_name(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t number[6];
    struct hx_type_build *b = &made.build;
    assert_null(hx_type_build_init(b));
    uint32_t four = add_scalar(b, "twin", HX_TYPE_INT, 4);
    uint32_t eight = add_scalar(b, "twin", HX_TYPE_INT, 8);
    uint32_t single = add_scalar(b, "single", HX_TYPE_INT, 8);
    add_pointer(b, eight);
    finish(&made, number);
    struct hx_type_index index;
    assert_null(hx_type_index_init(&index, &made.table));
    assert_int_not_equal(number[four], number[eight]);
    assert_int_equal(hx_type_table_find(&index, "single"), number[single]);
    assert_int_equal(hx_type_table_find(&index, "twin"), 0);
    assert_int_equal(hx_type_table_find(&index, "*twin"), 0);
    hx_type_index_deinit(&index);
    free(made.block);
}

static void words_and_paths(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t t[TYPES + 1];
    make_types(&made, t);
    static const struct {
        int type;
        uint64_t offset;
        enum hx_word_kind kind;
        int target; /* -1: none */
        const char *path;
    } words[] = {
        {ITEM, 0, HX_WORD_POINTER, ITEM, "next"},
        {ITEM, 8, HX_WORD_POINTER, CHAR, "text"},
        {ITEM, 16, HX_WORD_NONE, -1, "n"},
        {OUTER, 0, HX_WORD_POINTER, ITEM, "first.next"},
        {OUTER, 40, HX_WORD_POINTER, ITEM, "table[2]"},
        {OUTER, 56, HX_WORD_NONE, -1, "d"},
        {OUTER, 64, HX_WORD_POINTER, -1, "any"},
        {FLEX, 0, HX_WORD_UNKNOWN, -1, "n"},
        {FLEX, 8 + 8 * 7, HX_WORD_POINTER, ITEM, "items[7]"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct hx_text path = {0};
        struct hx_word_type word =
            hx_type_word(&made.table, t[words[i].type], words[i].offset, false);
        assert_int_equal(word.kind, words[i].kind);
        if (words[i].target >= 0)
            assert_int_equal(word.target, t[words[i].target]);
        assert_true(hx_type_put_path(&made.table, t[words[i].type], words[i].offset, false, &path));
        assert_string_equal(hx_text_str(&path), words[i].path);
        hx_text_free(&path);
    }
    free(made.block);
}

static void several_files(void **state)
{
    (void)state;
    struct made made[2];
    memset(made, 0, sizeof made);
    uint32_t t[TYPES + 1];
    make_types(&made[0], t);
    make_types(&made[1], t);
    struct hx_merged_types types;
    assert_null(hx_type_tables_merge(
        (const struct hx_type_table *[]){&made[0].table, &made[1].table}, 2, &types));
    assert_int_equal(types.table.n_types, made[0].table.n_types);
    for (uint32_t i = 0; i < made[0].table.n_types; i++) {
        assert_int_equal(types.number[0][i], types.number[1][i]);
        assert_string_equal(hx_type_table_name(&types.table, types.number[0][i]),
                            hx_type_table_name(&made[0].table, i));
    }
    hx_merged_types_deinit(&types);
    free(made[0].block);
    free(made[1].block);
}

/* Whatever a block says: it is refused, or every offset of every type can be asked for, and it can
 * be merged. */
static void lies(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("lies");
    struct made made = {0};
    uint32_t t[TYPES + 1];
    make_types(&made, t);
    unsigned char *copy = malloc(made.table.bytes);
    size_t opened = 0;
    for (size_t round = unit_rounds(20000); round; round--) {
        struct hx_type_table table;
        memcpy(copy, made.block, made.table.bytes);
        for (uint64_t k = 1 + unit_below(&random, 3); k; k--) {
            uint64_t at = unit_below(&random, made.table.bytes);
            copy[at] =
                (unsigned char)(unit_below(&random, 2) ? unit_random(&random) : copy[at] + 1u);
        }
        const size_t bytes =
            unit_below(&random, 20) ? made.table.bytes : unit_below(&random, made.table.bytes);
        hx_error *err = hx_type_table_open(copy, bytes, &table);
        hx_error_free(err);
        if (err)
            continue;
        opened++;
        for (uint32_t i = 0; i < table.n_types; i++)
            for (uint64_t offset = 0; offset < 128; offset += 8) {
                struct hx_text path = {0};
                (void)hx_type_word(&table, i, offset, offset & 8);
                (void)hx_type_put_path(&table, i, offset, false, &path);
                hx_text_free(&path);
            }
        struct hx_merged_types types;
        assert_null(hx_type_tables_merge((const struct hx_type_table *[]){&table}, 1, &types));
        hx_merged_types_deinit(&types);
    }
    assert_true(opened); /* a name that is spelled otherwise is no lie */
    free(copy);
    free(made.block);
}

/* What no walk from a type comes upon is tested all the same, since merging goes over all of it;
 * and records that share fields would take the square of their number. */
static void lies_beside(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t t[TYPES + 1];
    make_types(&made, t);
    unsigned char *copy = malloc(made.table.bytes);
    struct hx_type_table_head *head = (struct hx_type_table_head *)copy;
    struct hx_type_entry *type = (struct hx_type_entry *)(head + 1);
    enum { OF_RECORD, OF_SCALAR, SHARED, OF_NONE, AS_MADE };
    for (int lie = OF_RECORD; lie <= AS_MADE; lie++) {
        struct hx_type_table table;
        memcpy(copy, made.block, made.table.bytes);
        if (lie == OF_RECORD)
            type[t[ITEM]].target = made.table.n_types;
        else if (lie == OF_SCALAR)
            type[t[INT]].target = made.table.n_types;
        else if (lie == SHARED)
            type[t[OUTER]].first = type[t[ITEM]].first;
        else if (lie == OF_NONE)
            type[t[OUTER]].n--;
        hx_error *err = hx_type_table_open(copy, made.table.bytes, &table);
        assert_int_equal(err != NULL, lie != AS_MADE);
        hx_error_free(err);
    }
    free(copy);
    free(made.block);
}

static void hints(void **state)
{
    (void)state;
    hx_type_hints hints = {0};
    static const char good[] = "# nothing\n redis: dictEntry.key -> robj | robj... | +sds # one\n"
                               "std::map< * >._M_t.a, b.c -> *std::node< $2 , int * >\nx.y = $1\n";
    assert_null(hx_type_hints_parse("good", good, sizeof good - 1, &hints));
    assert_int_equal(hints.n, 4);
    assert_string_equal(hints.v[0].program, "redis");
    assert_string_equal(hints.v[0].field, "key");
    assert_string_equal(hints.v[0].target, "robj|robj...|+sds");
    assert_string_equal(hints.v[2].field, "b.c");
    assert_false(hints.v[2].within);
    assert_true(hints.v[3].within);
    struct hx_text target = {0};
    assert_true(hx_glob_matches(hints.v[1].type, "std::map<a,b<c,d>>", 18));
    assert_true(hx_type_hint_target(&hints.v[1], "std::map<a,b<c,d>>", &target));
    assert_string_equal(hx_text_str(&target), "*std::node<b<c,d>,int*>");
    hx_text_clear(&target);
    assert_false(hx_type_hint_target(&hints.v[1], "std::map<a>", &target));
    hx_text_free(&target);
    static const struct {
        const char *line, *place;
    } bad[] = {
        {"a.b", "line 1, column 1"},
        {"\n  .b -> c", "line 2, column 3"},
        {"a -> c", "line 1, column 1"},
        {"a.b c -> d", "line 1, column 3"},
        {"a.b -> ", "line 1, column 7"},
        {"a.b -> x<$0>", "line 1, column 10"},
        {"a.b, -> d", "line 1, column 5"},
        {"a.b -> c | ", "line 1, column 11"},
        {"a.b -> c | | d", "line 1, column 11"},
        {"a.b = c | d", "line 1, column 9"},
        {"a.b = +c", "line 1, column 7"},
        {"a.b -> +c | +d", "line 1, column 13"},
        {"a.b -> c+ | d", "line 1, column 9"},
        {"a.b -> +", "line 1, column 9"},
        {"a.b -> c... | d...e", "line 1, column 16"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hx_error *err = hx_type_hints_parse("bad", bad[i].line, strlen(bad[i].line), &hints);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_USAGE);
        if (!strstr(err->why, bad[i].place))
            fail_msg("%s: %s", bad[i].line, err->why);
        hx_error_free(err);
    }
    hx_type_hints_free(&hints);
    assert_null(hx_type_hints_builtin(&hints));
    assert_true(hints.n > 10);
    hx_type_hints_free(&hints);
}

/* What compilers and demanglers write in several ways is one name. */
static void plain_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *plain;
    } names[] = {
        {"Foo<long unsigned int, short int>", "Foo<unsigned long,short>"},
        {"Foo<unsigned long, short>", "Foo<unsigned long,short>"},
        {"std::pair<int const, char const*>", "std::pair<int,char*>"},
        {"Box<5ul, (ns::Kind)3, -1l>", "Box<5,3,-1>"},
        {"P<a, (__gnu_cxx::_Lock_policy)2>", "P<a,2>"},
        {"P<a, __gnu_cxx::_S_atomic>", "P<a,2>"},
        {"(anonymous namespace)::X<unsigned>", "(anonymous namespace)::X<unsigned int>"},
        {"long long unsigned int", "unsigned long long"},
        {"constant< integer >", "constant<integer>"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hx_text text = {0};
        hx_type_hint_plain(&text, names[i].name, strlen(names[i].name));
        assert_string_equal(hx_text_str(&text), names[i].plain);
        hx_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once),
        cmocka_unit_test(several_of_one_name),
        cmocka_unit_test(words_and_paths),
        cmocka_unit_test(several_files),
        cmocka_unit_test(lies),
        cmocka_unit_test(lies_beside),
        cmocka_unit_test(hints),
        cmocka_unit_test(plain_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
