/* test_unwind_table.c - compact tables of unwind rules: the same rule as .eh_frame itself gives, on
 * whole files and at the bounds; and both on tables whose bytes were changed.
 */
#include "cfi_file.h"

#include "record/bpf/unwind_table.h"

static void check_layout(const struct hx_unwind_table *table)
{
    uint64_t rows = 0;
    assert_int_equal(table->start % HX_UNWIND_PIECE, 0);
    assert_int_equal(table->span, (uint64_t)table->n_pieces * HX_UNWIND_PIECE);
    assert_true(table->span <= HX_UNWIND_SPAN_MAX && table->n_rows <= HX_UNWIND_ROWS_MAX);
    assert_true(table->n_rules <= HX_UNWIND_RULES_MAX);
    for (uint32_t i = 0; i < table->n_pieces; i++) {
        const struct hx_unwind_piece *piece = &table->pieces[i];
        assert_true(piece->first == rows && piece->rule < table->n_rules);
        for (unsigned r = 0, at = 0; r < piece->more; r++) {
            const struct hx_unwind_row *row = &table->rows[rows++];
            assert_true(row->at > at && row->rule < table->n_rules);
            at = row->at;
        }
    }
    assert_int_equal(rows, table->n_rows);
}

struct both {
    const char *path;
    const struct hx_cfi *cfi;
    struct hx_unwind_table table;
    uint64_t n, stride;
};

static void compare_at(const struct both *both, uint64_t pc)
{
    struct hx_cfi_rule want, got;
    uint64_t start, end;
    bool has = hx_cfi_find(both->cfi, pc, &want, &start, &end);
    if (hx_unwind_table_find(&both->table, pc, &got) != has)
        fail_msg("%s: 0x%lx: should have a rule: %d", both->path, pc, has);
    if (has && !cfi_rules_equal(&want, &got))
        fail_msg("%s: at 0x%lx %s, should be %s", both->path, pc, cfi_rule_text(&got),
                 cfi_rule_text(&want));
}

static bool compare_row(void *context, uint64_t start, uint64_t end, const struct hx_cfi_rule *rule)
{
    struct both *both = context;
    struct hx_cfi_rule got;
    if (both->n++ % both->stride)
        return true;
    assert_true(hx_unwind_table_find(&both->table, start, &got) && cfi_rules_equal(rule, &got));
    assert_true(hx_unwind_table_find(&both->table, end - 1, &got) && cfi_rules_equal(rule, &got));
    compare_at(both, start - 1);
    compare_at(both, end);
    return true;
}

static void test_files(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("test_unwind_table");
    for (size_t i = 0; i < CFI_FILES; i++) {
        struct cfi_file file;
        if (!cfi_file_open(&file, cfi_files[i]))
            continue;
        struct both both = {.path = cfi_files[i], .cfi = &file.cfi};
        both.stride = !unit_quick() ? 1 : 100;
        assert_null(hx_unwind_table_build(&file.cfi, 0, UINT64_MAX, &both.table));
        check_layout(&both.table);
        assert_int_equal(both.table.damaged + both.table.beyond, 0);
        assert_int_equal(hx_cfi_each(&file.cfi, compare_row, &both), 0);
        for (size_t n = unit_rounds(50000); n-- > 0;)
            compare_at(&both, both.table.start - 1000 +
                                  unit_below(&random, both.table.span + (uint64_t)2000));
        printf("%s: %lu rows in, %u rows, %u pieces, %u rules\n", cfi_files[i], both.n,
               both.table.n_rows, both.table.n_pieces, both.table.n_rules);
        hx_unwind_table_deinit(&both.table);
        cfi_file_close(&file);
    }
}

/* Only what the caller asked for. */
static void test_range(void **state)
{
    (void)state;
    struct cfi_file file;
    struct hx_unwind_table all, part;
    struct hx_cfi_rule a, b;
    assert_true(cfi_file_open(&file, "/proc/self/exe"));
    assert_null(hx_unwind_table_build(&file.cfi, 0, UINT64_MAX, &all));
    uint64_t start = all.start + all.span / 4 + 3, end = all.start + all.span / 2 + 5;
    assert_null(hx_unwind_table_build(&file.cfi, start, end, &part));
    check_layout(&part);
    for (uint64_t pc = all.start; pc < all.start + all.span; pc++) {
        bool has = hx_unwind_table_find(&all, pc, &a) && pc >= start && pc < end;
        assert_int_equal(hx_unwind_table_find(&part, pc, &b), has);
        assert_true(!has || cfi_rules_equal(&a, &b));
    }
    hx_unwind_table_deinit(&part);
    assert_null(hx_unwind_table_build(&file.cfi, 1, 2, &part));
    assert_int_equal(part.span, 0);
    assert_false(hx_unwind_table_find(&part, 1, &a));
    hx_unwind_table_deinit(&part);
    hx_unwind_table_deinit(&part);
    hx_unwind_table_deinit(&all);
    cfi_file_close(&file);
}

/* --- tables made by hand --- */

struct frames {
    uint8_t *at;
    size_t n, cap;
};

static void put(struct frames *f, uint64_t value, size_t width)
{
    if (f->n + width > f->cap) {
        f->cap = 2 * f->cap + 64;
        f->at = realloc(f->at, f->cap);
        assert_non_null(f->at);
    }
    memcpy(f->at + f->n, &value, width);
    f->n += width;
}

/* A common entry with absolute addresses. */
static void put_cie(struct frames *f)
{
    static const uint8_t body[] = {1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
    put(f, 4 + sizeof body, 4);
    put(f, 0, 4);
    for (size_t i = 0; i < sizeof body; i++)
        put(f, body[i], 1);
}

/* An entry of `n` rows of `step` bytes (below 64), each with another CFA, from offset `first`. */
static void put_fde(struct frames *f, uint64_t start, uint64_t n, unsigned step, uint64_t first)
{
    size_t head = f->n;
    put(f, 0, 4);
    put(f, f->n, 4); /* the common entry is the first of all */
    put(f, start, 8);
    put(f, n * step, 8);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t offset = first + i;
        put(f, 0x0e, 1); /* DW_CFA_def_cfa_offset */
        for (; offset >= 0x80; offset >>= 7)
            put(f, offset | 0x80, 1);
        put(f, offset, 1);
        put(f, 0x40 | step, 1);
    }
    uint32_t length = (uint32_t)(f->n - head - 4);
    memcpy(f->at + head, &length, sizeof length);
}

static struct hx_unwind_table build(struct frames *f, struct hx_cfi *ret_cfi)
{
    struct hx_unwind_table table;
    put(f, 0, 4);
    *ret_cfi = (struct hx_cfi){.frame = {f->at, f->n, 0x100000}};
    assert_null(hx_unwind_table_build(ret_cfi, 0, UINT64_MAX, &table));
    check_layout(&table);
    return table;
}

static void compare_range(struct both *both, uint64_t start, uint64_t end)
{
    for (uint64_t pc = start; pc < end; pc++)
        compare_at(both, pc);
}

/* Rows at each byte, at the edges of pieces, over many pieces, gaps of all kinds, in any order. */
static void test_edges(void **state)
{
    (void)state;
    struct frames f = {0};
    struct hx_cfi cfi;
    put_cie(&f);
    put_fde(&f, 0x5000, 600, 1, 8);
    put_fde(&f, 0x1001, 3, 1, 8);
    put_fde(&f, 0x10ff, 1, 1, 8);
    put_fde(&f, 0x1100, 1, 1, 16);
    put_fde(&f, 0x1101, 200, 60, 16);
    put_fde(&f, 0x6000, 1, 1, 8);
    put_fde(&f, 0x9100, 16, 16, 8);
    put_fde(&f, 0x4d00, 12, 64 - 1, 8);
    struct both both = {.path = "edges", .table = build(&f, &cfi), .cfi = &cfi};
    assert_int_equal(both.table.damaged + both.table.beyond, 0);
    assert_int_equal(both.table.start, 0x1000);
    assert_int_equal(both.table.span, 0x9200 - 0x1000);
    compare_range(&both, 0xf00, 0x9400);
    hx_unwind_table_deinit(&both.table);
    free(f.at);
}

/* Entries over others: one that begins later counts from there on. */
static void test_overlap(void **state)
{
    (void)state;
    struct frames f = {0};
    struct hx_cfi cfi;
    struct hx_cfi_rule rule;
    put_cie(&f);
    put_fde(&f, 0x2000, 1, 32, 16);
    put_fde(&f, 0x2010, 1, 32, 24);
    put_fde(&f, 0x2010, 1, 32, 32);
    struct hx_unwind_table table = build(&f, &cfi);
    assert_true(hx_unwind_table_find(&table, 0x200f, &rule) && rule.cfa_off == 16);
    assert_true(hx_unwind_table_find(&table, 0x2010, &rule) && rule.cfa_off == 32);
    assert_true(hx_unwind_table_find(&table, 0x202f, &rule) && rule.cfa_off == 32);
    assert_false(hx_unwind_table_find(&table, 0x2030, &rule));
    hx_unwind_table_deinit(&table);
    free(f.at);
}

/* Too many different rules: the ones that find no number cut the stack. Too far away: left out. */
static void test_bounds(void **state)
{
    (void)state;
    const uint64_t n = HX_UNWIND_RULES_MAX + 1000;
    struct frames f = {0};
    struct hx_cfi cfi;
    struct hx_cfi_rule rule;
    put_cie(&f);
    put_fde(&f, 0x2000, n, 1, 8);
    put_fde(&f, 0x2000 + n, 1, 1, 8);
    put_fde(&f, 0x2000 + (uint64_t)HX_UNWIND_SPAN_MAX, 2, 1, 8);
    put_fde(&f, UINT64_MAX - 100, 2, 1, 8);
    struct hx_unwind_table table = build(&f, &cfi);
    assert_int_equal(table.n_rules, HX_UNWIND_RULES_MAX);
    assert_int_equal(table.beyond, n - (HX_UNWIND_RULES_MAX - 2) + 4);
    assert_true(hx_unwind_table_find(&table, 0x2000 + 60000, &rule) && rule.cfa_off == 60008);
    assert_true(hx_unwind_table_find(&table, 0x2000 + n - 1, &rule));
    assert_int_equal(rule.cfa, HX_CFA_UNKNOWN);
    assert_true(hx_unwind_table_find(&table, 0x2000 + n, &rule) && rule.cfa_off == 8);
    assert_false(hx_unwind_table_find(&table, 0x2000 + n + 1, &rule));
    assert_false(hx_unwind_table_find(&table, UINT64_MAX - 100, &rule));
    hx_unwind_table_deinit(&table);
    free(f.at);
}

/* --- bytes that were changed --- */

static bool count_row(void *context, uint64_t start, uint64_t end, const struct hx_cfi_rule *rule)
{
    assert_true(start < end);
    assert_true(rule->cfa <= HX_CFA_UNKNOWN && rule->fp <= HX_SAVE_UNKNOWN);
    ++*(uint64_t *)context;
    return true;
}

/* A copy that ends where its memory ends, so that a sanitizer sees a byte too many being read. */
static struct hx_cfi_bytes copy_of(const struct hx_cfi_bytes *bytes, size_t len)
{
    struct hx_cfi_bytes copy = {malloc(len ? len : 1), len, bytes->addr};
    assert_non_null(copy.bytes);
    memcpy((uint8_t *)copy.bytes, bytes->bytes, len);
    return copy;
}

static void mutate(struct unit_random *random, struct hx_cfi_bytes *bytes)
{
    static const uint8_t liked[] = {0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x0b, 0x0f, 0x10, 0x41, 0xc6};
    uint8_t *at = (uint8_t *)bytes->bytes;
    size_t n = bytes->len ? 1 + unit_below(random, 1 + bytes->len / 50) : 0;
    while (n-- > 0) {
        uint64_t r = unit_random(random);
        size_t i = (r >> 16) % bytes->len;
        at[i] = r & 1   ? (uint8_t)(r >> 8)
                : r & 2 ? liked[(r >> 8) % sizeof liked]
                        : at[i] ^ (uint8_t)(1 << (r >> 8) % 8);
    }
}

static void use_all(struct unit_random *random, const struct hx_cfi *cfi, uint64_t text,
                    uint64_t span)
{
    struct hx_unwind_table table;
    struct hx_cfi_rule rule;
    uint64_t rows = 0, start, end;
    hx_cfi_each(cfi, count_row, &rows);
    assert_null(hx_unwind_table_build(cfi, text, text + span, &table));
    check_layout(&table);
    for (unsigned i = 0; i < 30; i++) {
        uint64_t pc = text + unit_below(random, span);
        if (hx_cfi_find(cfi, pc, &rule, &start, &end))
            assert_true(pc >= start && pc < end && rule.cfa <= HX_CFA_UNKNOWN);
        hx_unwind_table_find(&table, pc, &rule);
    }
    hx_unwind_table_deinit(&table);
}

static void test_mutated(void **state)
{
    (void)state;
    static const char *const paths[] = {"/lib64/ld-linux-x86-64.so.2", "[vdso]", "/proc/self/exe"};
    struct unit_random random = unit_random_begin("test_mutated");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct cfi_file file;
        struct hx_unwind_table table;
        if (!cfi_file_open(&file, paths[i]))
            continue;
        assert_null(hx_unwind_table_build(&file.cfi, 0, UINT64_MAX, &table));
        for (size_t n = unit_rounds(300); n-- > 0;) {
            size_t cut = file.cfi.frame.len / (1 + unit_below(&random, 8));
            struct hx_cfi cfi = {copy_of(&file.cfi.hdr, file.cfi.hdr.len),
                                 copy_of(&file.cfi.frame, cut)};
            struct hx_cfi unsorted = {.frame = cfi.frame};
            if (n % 2)
                mutate(&random, &cfi.hdr);
            mutate(&random, &cfi.frame);
            use_all(&random, &cfi, table.start, table.span);
            use_all(&random, &unsorted, table.start, table.span);
            free((void *)cfi.hdr.bytes);
            free((void *)cfi.frame.bytes);
        }
        hx_unwind_table_deinit(&table);
        cfi_file_close(&file);
    }
}

/* Common entries and entries out of random instructions. */
static void test_random_programs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("test_random_programs");
    for (size_t round = unit_rounds(3000); round-- > 0;) {
        struct frames f = {0};
        put_cie(&f);
        for (unsigned entry = 0; entry < 4; entry++) {
            size_t head = f.n, n = unit_below(&random, 80);
            put(&f, 20 + n, 4);
            put(&f, head + 4, 4);
            put(&f, 0x1000 + unit_below(&random, 500), 8);
            put(&f, unit_below(&random, 2000), 8);
            while (n-- > 0) {
                uint64_t r = unit_random(&random);
                put(&f, r & 1 ? (r >> 8) % 0x18 : r & 2 ? 6 + (r >> 8) % 2 : (uint8_t)(r >> 8), 1);
            }
        }
        struct hx_cfi cfi = {.frame = copy_of(&(struct hx_cfi_bytes){f.at, f.n, 0}, f.n)};
        use_all(&random, &cfi, 0, 0x2000);
        free((void *)cfi.frame.bytes);
        free(f.at);
    }
}

/* Bytes that cost most: many entries that each want the longest common program, read by turns, and
 * long programs behind one address. */
static void test_time(void **state)
{
    (void)state;
    struct frames f = {0};
    uint64_t rows = 0, start, end;
    struct hx_cfi_rule rule;
    size_t cie[2];
    for (unsigned i = 0; i < 2; i++) {
        cie[i] = f.n;
        put(&f, 4 + 10 + 1000, 4);
        put(&f, 0, 4);
        put(&f, 0x010001, 3); /* version, no augmentation, code alignment */
        put(&f, 0x1078, 2);   /* data alignment, return address */
        for (size_t n = 4 + 10 + 1000 - 4 - 5; n-- > 0;)
            put(&f, 0, 1);
    }
    for (unsigned i = 0; i < 20000; i++) {
        put(&f, 20, 4);
        put(&f, f.n - cie[i % 2], 4);
        put(&f, 0x1000 + i, 8);
        put(&f, 1, 8);
    }
    struct hx_cfi cfi = {.frame = {f.at, f.n, 0}};
    clock_t before = clock();
    hx_cfi_each(&cfi, count_row, &rows);
    for (unsigned i = 0; i < 20; i++)
        hx_cfi_find(&cfi, 0x1000 + 20000 - 1 - i, &rule, &start, &end);
    double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
    printf("%lu rows, %.3f s\n", rows, seconds);
    assert_int_equal(rows, 20000);
    assert_true(getenv("HX_VALGRIND") || seconds < 5);
    free(f.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),           cmocka_unit_test(test_range),
        cmocka_unit_test(test_edges),           cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_bounds),          cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_random_programs), cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
