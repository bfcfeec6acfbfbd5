/* test_rootmap.c - root regions: layouts drawn by hand, and a child with living, exited and
 * strange threads. */
#include "live.h"

#include "attach/ranges.h"
#include "attach/roots/rootmap.h"
#include "attach/stop/registers.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096

/* --- what must hold for any root map ------------------------------------------------ */

static const hx_frame_parts no_frames = {0};

static const struct hx_root *root_at(const struct hx_snapshot *snapshot, uint64_t addr)
{
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_REGISTER && addr >= root->address &&
            addr - root->address < root->size)
            return root;
    }
    return NULL;
}

static const struct hx_root *root_named(const struct hx_snapshot *snapshot, const char *name)
{
    for (size_t i = 0; i < snapshot->roots.n; i++)
        if (strcmp(snapshot->roots.v[i].name, name) == 0)
            return &snapshot->roots.v[i];
    return NULL;
}

static const struct hx_root *stack_of(const struct hx_snapshot *snapshot, pid_t tid)
{
    char name[64];
    snprintf(name, sizeof name, "stack of thread %d", tid);
    return root_named(snapshot, name);
}

static void check_invariants(const struct hx_snapshot *snapshot)
{
    uint64_t done = 0;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        assert_true(root->name && root->module && root->size > 0);
        if (root->kind == HX_ROOT_REGISTER) {
            assert_int_equal(root->address, 0);
            assert_int_equal(done, 0);
            continue;
        }
        assert_true(root->address >= done);
        done = root->address + root->size;
        assert_true(done > root->address);
        for (size_t k = 0; k < snapshot->segments.n; k++)
            assert_true(snapshot->segments.v[k].end <= root->address ||
                        snapshot->segments.v[k].start >= done);
    }
}

/* --- layouts drawn by hand -------------------------------------------------------------- */

struct drawing {
    struct hx_snapshot *snapshot;
    HX_VEC(struct hx_mapping) mappings;
    HX_VEC(struct hx_thread) threads;
    HX_VEC(struct hx_span) spans;
    hx_ranges excluded;
    hx_root_list given;
    hx_modules *modules;
};

static void begin(struct drawing *drawing)
{
    *drawing = (struct drawing){0};
    assert_null(hx_snapshot_create(&drawing->snapshot));
}

static uint64_t *draw(struct drawing *drawing, uint64_t start, uint64_t bytes, uint32_t prot,
                      const char *path)
{
    uint64_t *words = calloc(1, bytes);
    assert_non_null(words);
    assert_true(hx_vec_push(&drawing->mappings, (struct hx_mapping){.start = start,
                                                                    .end = start + bytes,
                                                                    .prot = prot,
                                                                    .path = strdup(path)}));
    assert_true(
        hx_vec_push(&drawing->spans, (struct hx_span){start, start + bytes, (uint8_t *)words}));
    return words;
}

static void finish(struct drawing *drawing)
{
    struct hx_snapshot *snapshot = drawing->snapshot;
    snapshot->mapping = drawing->mappings.v;
    snapshot->n_mappings = drawing->mappings.n;
    snapshot->thread = drawing->threads.v;
    snapshot->n_threads = drawing->threads.n;
    snapshot->image.span = drawing->spans.v;
    snapshot->image.n = drawing->spans.n;
    assert_null(hx_modules_create(0, snapshot->mapping, snapshot->n_mappings, &drawing->modules));
    assert_null(
        hx_rootmap(snapshot, drawing->modules, &drawing->excluded, &no_frames, &drawing->given));
    hx_root_list_free(&drawing->given);
    check_invariants(snapshot);
}

static void end(struct drawing *drawing)
{
    for (size_t i = 0; i < drawing->spans.n; i++)
        free((void *)(uintptr_t)drawing->spans.v[i].bytes);
    hx_modules_destroy(drawing->modules);
    hx_vec_free(&drawing->excluded);
    hx_snapshot_destroy(drawing->snapshot);
}

#define RW       (HX_PROT_R | HX_PROT_W)
#define TP_BELOW 0x900 /* the record lies that much below the end of its block */

/* Writes the record of a thread whose block is [block, block + bytes) into the memory that
 * begins at `base`; the record is linked with itself. */
static uint64_t draw_record(uint64_t *memory, uint64_t base, uint64_t block, uint64_t bytes,
                            uint64_t guard, int32_t tid)
{
    uint64_t tp = block + bytes - TP_BELOW, *word = memory + (tp - base) / 8;
    word[0] = word[2] = tp;
    word[0x2c0 / 8] = word[0x2c8 / 8] = tp + 0x2c0;
    word[0x2d0 / 8] = (uint32_t)tid;
    word[0x690 / 8] = block;
    word[0x698 / 8] = bytes;
    word[0x6a0 / 8] = guard;
    return tp;
}

static struct hx_thread thread_at(pid_t tid, uint64_t sp, uint64_t tp)
{
    return (struct hx_thread){.tid = tid, .ns_tid = tid, .has_regs = true, .sp = sp, .tp = tp};
}

static void assert_root(const struct hx_snapshot *snapshot, uint64_t addr, enum hx_root_kind kind,
                        const char *name, uint64_t start, uint64_t stop)
{
    const struct hx_root *root = root_at(snapshot, addr);
    assert_non_null(root);
    assert_int_equal(root->kind, kind);
    assert_string_equal(root->name, name);
    assert_int_equal(root->address, start);
    assert_int_equal(root->address + root->size, stop);
}

/* One mapping holds, from below: other memory, a stack in use, a stack whose thread was joined,
 * one that waits to be joined, and other memory again. */
static void test_merged_mapping(void **state)
{
    (void)state;
    const uint64_t base = 0x7f0000000000, stack = 0x10000, size = 5 * stack;
    struct drawing drawing;
    begin(&drawing);
    uint64_t *memory = draw(&drawing, base, size, RW, "");
    uint64_t live = draw_record(memory, base, base + stack, stack, 0, 10);
    uint64_t joined = draw_record(memory, base, base + 2 * stack, stack, 0, -1);
    uint64_t waiting = draw_record(memory, base, base + 3 * stack, stack, 0, 0);
    uint64_t sp = live - 0x1008;
    /* A dtv with one block of static TLS, 0x40 bytes below the record. */
    memory[0] = 1;
    memory[(live - base) / 8 + 1] = base + 16;
    memory[4] = live - 0x40;
    assert_true(hx_vec_push(&drawing.threads, thread_at(10, sp, live)));
    finish(&drawing);

    const char *other = "anonymous memory at 0x7f0000000000";
    assert_root(drawing.snapshot, base, HX_ROOT_MAPPING, other, base, base + stack);
    assert_null(root_at(drawing.snapshot, base + stack));
    assert_null(root_at(drawing.snapshot, sp - 129));
    assert_root(drawing.snapshot, sp, HX_ROOT_STACK, "stack of thread 10", (sp - 128) & ~7ull,
                live - 0x40);
    assert_root(drawing.snapshot, live, HX_ROOT_TLS, "tls of thread 10", live - 0x40,
                base + 2 * stack);
    assert_null(root_at(drawing.snapshot, base + 2 * stack));
    assert_null(root_at(drawing.snapshot, joined));
    assert_root(drawing.snapshot, joined + 8, HX_ROOT_TLS, "tls of an exited thread", joined + 8,
                joined + 16);
    assert_null(root_at(drawing.snapshot, joined + 16));
    assert_null(root_at(drawing.snapshot, waiting - 8));
    assert_root(drawing.snapshot, waiting, HX_ROOT_TLS, "tls of an exited thread", waiting,
                base + 4 * stack);
    assert_root(drawing.snapshot, base + 4 * stack, HX_ROOT_MAPPING, other, base + 4 * stack,
                base + size);
    end(&drawing);
}

/* What only resembles a record is memory like any other. */
static void test_weak_evidence(void **state)
{
    (void)state;
    const uint64_t base = 0x7f0000000000, stack = 0x10000;
    for (int missing = 0; missing < 6; missing++) {
        struct drawing drawing;
        begin(&drawing);
        uint64_t *memory = draw(&drawing, base, 4 * stack, RW, "");
        uint64_t live = draw_record(memory, base, base, stack, 0, 10);
        uint64_t old = draw_record(memory, base, base + 2 * stack, stack, 0, missing == 5 ? 10 : 0);
        uint64_t *word = memory + (old - base) / 8, sp = live - 0x100;
        if (missing == 0)
            word[2] = 0;
        if (missing == 1)
            word[0x698 / 8] = 0x1000; /* a block that ends below the record */
        if (missing == 2)
            word[0x690 / 8] += 8;
        if (missing == 3)
            word[0x2c0 / 8] = base + 0x100; /* not in a list */
        assert_true(hx_vec_push(&drawing.threads, thread_at(10, sp, live)));
        if (missing == 4) /* a stack pointer in it */
            assert_true(hx_vec_push(&drawing.threads, thread_at(11, old - 0x800, 0)));
        finish(&drawing);
        assert_non_null(root_at(drawing.snapshot, old));
        assert_non_null(root_at(drawing.snapshot, old - 0x400));
        assert_non_null(root_at(drawing.snapshot, base + 2 * stack));
        end(&drawing);
    }
}

/* Guard pages, a stack without a record above one, and one in an unguarded mapping. */
static void test_stacks_without_record(void **state)
{
    (void)state;
    const uint64_t a = 0x7f0000000000, b = 0x7f0000100000, c = 0x7f0000200000;
    struct drawing drawing;
    begin(&drawing);
    draw(&drawing, a, PAGE, 0, "");
    draw(&drawing, a + PAGE, 4 * PAGE, RW, "");
    draw(&drawing, b, 4 * PAGE, RW, "");
    draw(&drawing, c, 4 * PAGE, RW, "[stack]");
    assert_true(hx_vec_push(&drawing.threads, thread_at(1, c + 3 * PAGE, 0)));
    assert_true(hx_vec_push(&drawing.threads, thread_at(2, a + 3 * PAGE, 0)));
    assert_true(hx_vec_push(&drawing.threads, thread_at(3, b + 2 * PAGE, 0)));
    assert_true(hx_vec_push(&drawing.threads, thread_at(4, 0x1000, 0x2000)));
    assert_true(hx_vec_push(&drawing.threads, thread_at(5, UINT64_MAX, UINT64_MAX)));
    finish(&drawing);
    const struct hx_snapshot *snapshot = drawing.snapshot;
    assert_null(root_at(snapshot, a));
    assert_null(root_at(snapshot, a + PAGE));
    assert_root(snapshot, a + 3 * PAGE, HX_ROOT_STACK, "stack of thread 2", a + 3 * PAGE - 128,
                a + 5 * PAGE);
    assert_root(snapshot, b, HX_ROOT_MAPPING, "anonymous memory at 0x7f0000100000", b,
                b + 2 * PAGE - 128);
    assert_root(snapshot, b + 2 * PAGE, HX_ROOT_STACK, "stack of thread 3", b + 2 * PAGE - 128,
                b + 4 * PAGE);
    assert_null(root_at(snapshot, c));
    assert_root(snapshot, c + 3 * PAGE, HX_ROOT_STACK, "stack of thread 1", c + 3 * PAGE - 128,
                c + 4 * PAGE);
    end(&drawing);
}

/* The kernel's stack is the first thread's: all of it while that one runs elsewhere, nothing
 * of it when only others go on. */
static void test_first_thread(void **state)
{
    (void)state;
    const uint64_t a = 0x7f0000000000, b = 0x7f0000200000;
    for (pid_t first = 1; first <= 2; first++) {
        struct drawing drawing;
        begin(&drawing);
        draw(&drawing, a, 4 * PAGE, RW, "");
        draw(&drawing, b, 4 * PAGE, RW, "[stack]");
        drawing.snapshot->pid = first;
        assert_true(hx_vec_push(&drawing.threads, thread_at(1, a + PAGE, 0)));
        finish(&drawing);
        if (first == 1)
            assert_root(drawing.snapshot, b, HX_ROOT_STACK, "stack of thread 1", b, b + 4 * PAGE);
        else
            assert_null(root_at(drawing.snapshot, b));
        end(&drawing);
    }
}

/* Segments and excluded ranges are holes; a stack on the heap is no root of its own; only what
 * can hold pointers is taken. */
static void test_holes_and_kinds(void **state)
{
    (void)state;
    const uint64_t a = 0x7f0000000000, b = 0x7f0000100000;
    struct drawing drawing;
    begin(&drawing);
    draw(&drawing, a, 16 * PAGE, RW, "[heap]");
    draw(&drawing, b, PAGE, HX_PROT_R, "");
    draw(&drawing, b + PAGE, PAGE, HX_PROT_R, "[anon:sealed]");
    draw(&drawing, b + 2 * PAGE, PAGE, RW | HX_PROT_SHARED, "/dev/shm/x y");
    draw(&drawing, b + 3 * PAGE, PAGE, RW, "/dev/mem");
    draw(&drawing, b + 4 * PAGE, PAGE, HX_PROT_R, "[vvar]");
    drawing.mappings.v[2].anonymous_bytes = PAGE;
    drawing.mappings.v[4].device = true;
    drawing.mappings.v[5].anonymous_bytes = PAGE;
    assert_true(hx_vec_push(&drawing.snapshot->segments,
                            (struct hx_segment){.start = a + PAGE, .end = a + 4 * PAGE}));
    assert_true(hx_vec_push(&drawing.excluded, (struct hx_range){a + 6 * PAGE, a + 6 * PAGE + 8}));
    assert_true(hx_vec_push(&drawing.excluded, (struct hx_range){a + 3 * PAGE, a + 5 * PAGE}));
    assert_true(hx_vec_push(&drawing.threads, thread_at(1, a + 2 * PAGE, 0)));
    finish(&drawing);
    const struct hx_snapshot *snapshot = drawing.snapshot;
    assert_root(snapshot, a, HX_ROOT_MAPPING, "[heap]", a, a + PAGE);
    assert_null(root_at(snapshot, a + PAGE));
    assert_null(root_at(snapshot, a + 4 * PAGE));
    assert_root(snapshot, a + 5 * PAGE, HX_ROOT_MAPPING, "[heap]", a + 5 * PAGE, a + 6 * PAGE);
    assert_null(root_at(snapshot, a + 6 * PAGE));
    assert_root(snapshot, a + 7 * PAGE, HX_ROOT_MAPPING, "[heap]", a + 6 * PAGE + 8, a + 16 * PAGE);
    assert_null(root_at(snapshot, b));
    assert_root(snapshot, b + PAGE, HX_ROOT_MAPPING, "[anon:sealed]", b + PAGE, b + 2 * PAGE);
    assert_root(snapshot, b + 2 * PAGE, HX_ROOT_MAPPING, "/dev/shm/x y", b + 2 * PAGE,
                b + 3 * PAGE);
    assert_null(root_at(snapshot, b + 3 * PAGE));
    assert_null(root_at(snapshot, b + 4 * PAGE));
    assert_null(stack_of(snapshot, 1));
    end(&drawing);
}

/* Draws memory full of addresses that lead somewhere: records, lists, stacks, or nonsense. */
static void draw_nonsense(struct unit_random *random, struct drawing *drawing, uint64_t base)
{
    uint64_t at = base;
    for (size_t i = 0; i < 8; i++) {
        static const char *const paths[] = {"", "", "[heap]", "[stack]", "[anon:x]", "/dev/shm/x"};
        uint64_t bytes = PAGE * (1 + unit_below(random, 8));
        uint64_t *memory =
            draw(drawing, at, bytes, unit_below(random, 4) ? RW : 0, paths[unit_below(random, 6)]);
        for (size_t k = 0; k < bytes / 8; k += 1 + unit_below(random, 64))
            memory[k] = base + unit_below(random, 64 * PAGE);
        for (uint64_t left = unit_below(random, 3); left && bytes >= 2 * PAGE; left--) {
            uint64_t block = at + PAGE * unit_below(random, bytes / PAGE - 1);
            uint64_t room = (at + bytes - block) / PAGE;
            uint64_t tp = draw_record(memory, at, block, PAGE * (1 + unit_below(random, room)), 0,
                                      (int32_t)unit_below(random, 6) - 1);
            if (unit_below(random, 2))
                assert_true(hx_vec_push(&drawing->threads,
                                        thread_at((pid_t)unit_below(random, 6),
                                                  base + unit_below(random, 64 * PAGE), tp)));
        }
        if (unit_below(random, 4) == 0)
            assert_true(hx_vec_push(&drawing->snapshot->segments,
                                    (struct hx_segment){.start = at + 64, .end = at + bytes - 8}));
        at += bytes + PAGE * unit_below(random, 2);
    }
}

/* Whatever memory says: roots do not overlap, and what a stack pointer points to is never
 * dropped. */
static void give(struct drawing *drawing, uint64_t address, uint64_t size)
{
    const struct hx_root root = {.kind = HX_ROOT_FRAME,
                                 .address = address,
                                 .size = size,
                                 .name = strdup("given"),
                                 .module = strdup("")};
    assert_true(hx_vec_push(&drawing->given, root));
}

/* Roots that are known already: what is around them is cut, and those that cannot be are not taken.
 */
static void test_given(void **state)
{
    (void)state;
    struct drawing drawing;
    begin(&drawing);
    draw(&drawing, 0x10000, 0x4000, RW, "");
    assert_true(hx_ranges_add(&drawing.excluded, 0x12000, 0x13000));
    give(&drawing, 0x13f00, 0x80);
    give(&drawing, 0x10100, 0x40);
    give(&drawing, 0x10120, 8);  /* in the one before */
    give(&drawing, 0x10140, 8);  /* right behind it */
    give(&drawing, 0x11ff8, 16); /* in what holds nothing */
    give(&drawing, 0x12800, 8);
    finish(&drawing);
    static const uint64_t expected[][2] = {{0x10000, 0x100},  {0x10100, 0x40},  {0x10140, 8},
                                           {0x10148, 0x1eb8}, {0x13000, 0xf00}, {0x13f00, 0x80},
                                           {0x13f80, 0x80}};
    assert_int_equal(drawing.snapshot->roots.n, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < drawing.snapshot->roots.n; i++) {
        const struct hx_root *root = &drawing.snapshot->roots.v[i];
        assert_int_equal(root->address, expected[i][0]);
        assert_int_equal(root->size, expected[i][1]);
        assert_int_equal(root->kind == HX_ROOT_FRAME, strcmp(root->name, "given") == 0);
    }
    end(&drawing);
}

static void test_nonsense(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("nonsense");
    for (size_t round = unit_rounds(500); round; round--) {
        struct drawing drawing;
        begin(&drawing);
        draw_nonsense(&random, &drawing, 0x7f0000000000);
        drawing.snapshot->pid = (pid_t)unit_below(&random, 6);
        finish(&drawing);
        const struct hx_snapshot *snapshot = drawing.snapshot;
        for (size_t i = 0; i < snapshot->n_threads; i++) {
            uint64_t sp = snapshot->thread[i].sp & ~7ull;
            size_t m = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, sp);
            bool memory = m < snapshot->n_mappings && snapshot->mapping[m].prot & HX_PROT_W;
            for (size_t k = 0; k < snapshot->segments.n; k++)
                memory &= sp < snapshot->segments.v[k].start || sp >= snapshot->segments.v[k].end;
            if (memory)
                assert_non_null(root_at(snapshot, sp));
        }
        end(&drawing);
    }
}

static void test_registers(void **state)
{
    (void)state;
    struct drawing drawing;
    begin(&drawing);
    struct hx_thread thread = thread_at(7, 0, 0);
    thread.n_regs = 16;
    for (size_t i = 0; i < 16; i++)
        thread.regs[i] = 0x10000 + i;
    thread.regs[1] = 12;
    thread.n_vector = HX_VECTOR_MAX;
    thread.vector[3 * HX_VECTOR_WORDS + 1] = 0x20000;
    thread.vector[5 * HX_VECTOR_WORDS + 3] = 0x20001;
    thread.vector[31 * HX_VECTOR_WORDS + 7] = 0x20002;
    assert_true(hx_vec_push(&drawing.threads, thread));
    finish(&drawing);
    const struct hx_root *root = root_named(drawing.snapshot, "rax of thread 7");
    assert_non_null(root);
    assert_int_equal(root->value, 0x10000);
    assert_int_equal(root->tid, 7);
    assert_null(root_named(drawing.snapshot, "rbx of thread 7"));
    assert_null(root_named(drawing.snapshot, "rsp of thread 7"));
    root = root_named(drawing.snapshot, "xmm3 of thread 7");
    assert_non_null(root);
    assert_int_equal(root->value, 0x20000);
    assert_int_equal(root_named(drawing.snapshot, "ymm5 of thread 7")->value, 0x20001);
    assert_int_equal(root_named(drawing.snapshot, "zmm31 of thread 7")->value, 0x20002);
    end(&drawing);
}

/* The extended state in cores of either maker's processors, whole and cut short. */
static void test_extended_state(void **state)
{
    (void)state;
    static const struct {
        size_t bytes, high, high_16;
    } layouts[] = {{2440, 896, 1408}, {2696, 1152, 1664}, {11008, 1152, 1664}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        uint64_t area[HX_ARCH_EXTENDED_BYTES / 8] = {0};
        struct hx_thread thread = {0};
        area[512 / 8] = 1 << 2 | 1 << 6 | 1 << 7;
        area[(160 + 2 * 16) / 8] = 1;
        area[(576 + 2 * 16) / 8] = 2;
        area[(layouts[i].high + 2 * 32) / 8] = 3;
        area[(layouts[i].high_16 + 15 * 64) / 8 + 7] = 4;
        hx_arch_core_float(area, layouts[i].bytes, &thread);
        assert_int_equal(thread.vector[2 * HX_VECTOR_WORDS], 1);
        assert_int_equal(thread.vector[2 * HX_VECTOR_WORDS + 2], 2);
        assert_int_equal(thread.vector[2 * HX_VECTOR_WORDS + 4], 3);
        assert_int_equal(thread.vector[31 * HX_VECTOR_WORDS + 7], 4);
        thread = (struct hx_thread){0};
        hx_arch_core_float(area, 600, &thread); /* the file ends within the ymm halves */
        assert_int_equal(thread.vector[2 * HX_VECTOR_WORDS], 1);
        assert_int_equal(thread.vector[2 * HX_VECTOR_WORDS + 2], 0);
        thread = (struct hx_thread){.in_syscall = true};
        hx_arch_core_float(area, layouts[i].bytes, &thread);
        assert_int_equal(thread.n_vector, 0);
    }
}

/* --- a real process ------------------------------------------------------------------------ */

enum { LIVING = 8, EXITED = 4 };
struct facts {
    struct {
        pid_t tid;
        uint64_t local, tls, low, high, below;
    } thread[LIVING + EXITED];
    uint64_t dead_stack, main_local;
    uint64_t sealed, plain, guard_stack;
};

void *volatile rootmap_global[5];
static char volatile rootmap_wide[5 * PAGE]; /* crosses from the file's last page to .bss */
static __thread void *volatile rootmap_tls[4];

static void note_thread(struct facts *facts, size_t i, void *volatile *local)
{
    pthread_attr_t attr;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &size);
    pthread_attr_destroy(&attr);
    rootmap_tls[1] = (void *)local;
    facts->thread[i].tid = (pid_t)syscall(SYS_gettid);
    facts->thread[i].local = (uintptr_t)local;
    facts->thread[i].tls = (uintptr_t)rootmap_tls;
    facts->thread[i].low = (uintptr_t)low;
    facts->thread[i].high = (uintptr_t)low + size;
}

struct start {
    struct facts *facts;
    size_t i;
    pthread_barrier_t *barrier;
};

static void *run_thread(void *context)
{
    struct start *start = context;
    void *volatile local[2] = {context, NULL};
    note_thread(start->facts, start->i, local);
    if (start->barrier) {
        pthread_barrier_wait(start->barrier);
        for (;;)
            pause();
    }
    return NULL;
}

static void victim(void *shared, int ready)
{
    struct facts *facts = shared;
    static struct start start[LIVING + EXITED];
    static pthread_barrier_t barrier;
    pthread_t thread[LIVING + EXITED];
    void *volatile local = start;
    pthread_barrier_init(&barrier, NULL, LIVING + 1);
    for (size_t i = 0; i < LIVING + EXITED; i++) {
        start[i] = (struct start){facts, i, i < LIVING ? &barrier : NULL};
        pthread_create(&thread[i], NULL, run_thread, &start[i]);
    }
    for (size_t i = LIVING; i < LIVING + EXITED; i++)
        if (i % 2)
            pthread_join(thread[i], NULL);
        else
            pthread_detach(thread[i]);
    pthread_barrier_wait(&barrier);
    usleep(50000); /* detached threads end, the others sleep */
    facts->main_local = (uintptr_t)&local;
    void **sealed = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sealed[3] = start;
    mprotect(sealed, PAGE, PROT_READ);
    facts->sealed = (uintptr_t)sealed;
    rootmap_global[2] = (void *)start;
    rootmap_wide[4 * PAGE] = 1;
    if (write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void assert_dead_below(const struct hx_snapshot *snapshot, uint64_t from, uint64_t to)
{
    for (uint64_t addr = from; addr < to; addr += 64)
        assert_null(root_at(snapshot, addr));
}

static void check_threads(const struct hx_snapshot *snapshot, const struct facts *facts)
{
    for (size_t i = 0; i < LIVING; i++) {
        const struct hx_root *stack = root_at(snapshot, facts->thread[i].local);
        assert_non_null(stack);
        assert_ptr_equal(stack, stack_of(snapshot, facts->thread[i].tid));
        assert_true(stack->address >= facts->thread[i].low);
        assert_true(stack->address + stack->size <= facts->thread[i].high);
        assert_dead_below(snapshot, facts->thread[i].low, stack->address);
        const struct hx_root *tls = root_at(snapshot, facts->thread[i].tls);
        assert_non_null(tls);
        assert_string_equal(tls->name, "rootmap_tls");
        assert_string_equal(tls->symbol, "rootmap_tls");
        assert_int_equal(tls->kind, HX_ROOT_TLS);
        assert_int_equal(tls->tid, facts->thread[i].tid);
        assert_int_equal(tls->address, facts->thread[i].tls);
        assert_int_equal(tls->size, sizeof rootmap_tls);
    }
    for (size_t i = LIVING; i < LIVING + EXITED; i++) {
        assert_null(root_at(snapshot, facts->thread[i].local));
        assert_null(root_at(snapshot, facts->thread[i].tls));
        assert_dead_below(snapshot, facts->thread[i].low, facts->thread[i].tls);
    }
}

static void test_process(void **state)
{
    (void)state;
    if (getenv("HX_VALGRIND"))
        skip(); /* nothing can be traced there */
    struct facts *facts =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = live_start(victim, facts);
    struct live live = live_capture(pid);
    struct hx_snapshot *snapshot = live.snapshot;
    hx_modules *modules;
    assert_null(hx_modules_create(pid, snapshot->mapping, snapshot->n_mappings, &modules));
    assert_null(hx_rootmap(snapshot, modules, NULL, &no_frames, NULL));
    check_invariants(snapshot);

    const struct hx_root *root = root_at(snapshot, (uintptr_t)&rootmap_global[2]);
    assert_non_null(root);
    assert_string_equal(root->name, "rootmap_global");
    assert_string_equal(root->module, hx_module_name(modules, 0));
    assert_int_equal(root->address, (uintptr_t)rootmap_global);
    assert_int_equal(root->size, sizeof rootmap_global);
    root = root_named(snapshot, "rootmap_wide");
    assert_non_null(root);
    assert_int_equal(root->address, (uintptr_t)rootmap_wide);
    assert_int_equal(root->size, sizeof rootmap_wide);
    assert_non_null(root_at(snapshot, facts->sealed + 24));
    root = stack_of(snapshot, pid);
    assert_non_null(root);
    assert_ptr_equal(root, root_at(snapshot, facts->main_local));
    assert_dead_below(snapshot, root->address - PAGE, root->address);
    check_threads(snapshot, facts);

    assert_null(hx_account(snapshot));
    uint64_t sum = 0;
    for (size_t i = 0; i < HX_PARTS; i++)
        sum += snapshot->account[i];
    assert_int_equal(sum, snapshot->rss_bytes);
    assert_true(snapshot->account[HX_PART_STACKS] >= (LIVING + 1) * PAGE);
    assert_true(snapshot->account[HX_PART_FILES] > 0);
    hx_modules_destroy(modules);
    live_free(&live);
    live_end(pid);
    munmap(facts, PAGE);
}

/* --- stacks in strange places ------------------------------------------------------------- */

/* Each of these children tells where a live local and a dead one are. */
struct places {
    pid_t tid;
    uint64_t live[4], dead[4];
    size_t n_live, n_dead;
    int ready;
};
static struct places *places;

static void note_live(const volatile void *addr)
{
    places->live[places->n_live++] = (uintptr_t)addr;
}

/* Leaves something behind below the stack pointer of the caller's caller. */
static __attribute__((noinline)) void leave_behind(void)
{
    volatile char deep[64 * 1024];
    memset((char *)deep, 1, sizeof deep);
    places->dead[places->n_dead++] = (uintptr_t)&deep[1024];
}

static void say_ready(void)
{
    places->tid = (pid_t)syscall(SYS_gettid);
    if (write(places->ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void on_signal(int number)
{
    volatile char local = (char)number;
    note_live(&local);
    say_ready();
}

static void raise_on(void *stack, size_t size)
{
    volatile char local = 1;
    note_live(&local);
    stack_t alternate = {.ss_sp = stack, .ss_size = size};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    leave_behind();
    raise(SIGUSR1);
    note_live(&local);
}

static char handler_stack[64 * 1024] __attribute__((aligned(16)));

static void handler_on_variable(void *shared, int ready)
{
    places = shared;
    places->ready = ready;
    raise_on(handler_stack, sizeof handler_stack);
}

static __attribute__((noinline)) void handler_within_stack(void *shared, int ready)
{
    char within[64 * 1024];
    places = shared;
    places->ready = ready;
    raise_on(within, sizeof within);
    note_live(within);
}

static void *raise_in_thread(void *context)
{
    raise_on(context, 64 * 1024);
    return NULL;
}

static void handler_in_thread(void *shared, int ready)
{
    pthread_t thread;
    places = shared;
    places->ready = ready;
    void *stack = mmap(NULL, 64 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, NULL, raise_in_thread, stack);
    pthread_join(thread, NULL);
}

static char own_stack[128 * 1024] __attribute__((aligned(16)));

static void *leave_and_wait(void *context)
{
    volatile char local = 1;
    note_live(&local);
    leave_behind();
    say_ready();
    return context;
}

static void stack_of_its_own(void *shared, int ready)
{
    pthread_t thread;
    pthread_attr_t attr;
    places = shared;
    places->ready = ready;
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, own_stack, sizeof own_stack);
    pthread_create(&thread, &attr, leave_and_wait, NULL);
    pthread_join(thread, NULL);
}

static void check_places(const char *what, void (*body)(void *shared, int ready))
{
    struct places *shared =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = live_start(body, shared);
    struct live live = live_capture(pid);
    hx_modules *modules;
    assert_null(
        hx_modules_create(pid, live.snapshot->mapping, live.snapshot->n_mappings, &modules));
    assert_null(hx_rootmap(live.snapshot, modules, NULL, &no_frames, NULL));
    check_invariants(live.snapshot);
    char name[64];
    snprintf(name, sizeof name, "stack of thread %d", shared->tid);
    for (size_t i = 0; i < shared->n_live; i++) {
        const struct hx_root *root = root_at(live.snapshot, shared->live[i]);
        if (!root || strcmp(root->name, name) != 0)
            fail_msg("%s: live place %zu: %s", what, i, root ? root->name : "no root");
    }
    for (size_t i = 0; i < shared->n_dead; i++)
        if (root_at(live.snapshot, shared->dead[i]))
            fail_msg("%s: dead place %zu: %s", what, i,
                     root_at(live.snapshot, shared->dead[i])->name);
    assert_true(shared->n_live > 0 && shared->n_dead > 0);
    hx_modules_destroy(modules);
    live_free(&live);
    live_end(pid);
    munmap(shared, PAGE);
}

static void test_strange_stacks(void **state)
{
    (void)state;
    if (getenv("HX_VALGRIND"))
        skip();
    check_places("handler_on_variable", handler_on_variable);
    check_places("handler_within_stack", handler_within_stack);
    check_places("handler_in_thread", handler_in_thread);
    check_places("stack_of_its_own", stack_of_its_own);
}

/* Ten thousand mappings and two thousand threads take no time worth mentioning. */
static void test_many(void **state)
{
    (void)state;
    struct drawing drawing;
    begin(&drawing);
    size_t n = unit_rounds(2000);
    const uint64_t base = 0x7f0000000000, step = 0x10000;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = base + i * step;
        draw(&drawing, at, PAGE, 0, "");
        uint64_t *memory = draw(&drawing, at + PAGE, 3 * PAGE, RW, "");
        uint64_t tp = draw_record(memory, at + PAGE, at, 4 * PAGE, PAGE, (int32_t)i + 1);
        assert_true(hx_vec_push(&drawing.threads, thread_at((pid_t)i + 1, at + 2 * PAGE, tp)));
        for (size_t k = 5; k < 9; k++)
            draw(&drawing, at + k * PAGE, PAGE / 2, RW, "");
    }
    clock_t start = clock();
    finish(&drawing);
    print_message("%zu mappings, %zu threads: %.3f s\n", drawing.mappings.n, n,
                  (double)(clock() - start) / CLOCKS_PER_SEC);
    for (size_t i = 0; i < n; i++) {
        const struct hx_root *root = stack_of(drawing.snapshot, (pid_t)i + 1);
        assert_non_null(root);
        assert_int_equal(root->address, base + i * step + 2 * PAGE - 128);
    }
    end(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged_mapping),
        cmocka_unit_test(test_weak_evidence),
        cmocka_unit_test(test_stacks_without_record),
        cmocka_unit_test(test_holes_and_kinds),
        cmocka_unit_test(test_first_thread),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_extended_state),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_strange_stacks),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
