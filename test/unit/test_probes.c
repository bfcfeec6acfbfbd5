/* test_probes.c - the recorder of running processes: where probes go, and what they see of victims
 * that this program forks. What needs the kernel's help is skipped, with the reason, where that
 * cannot be had. */
#include "probed.h"
#include "record/bpf/probes_find.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>

/* --- where probes go ------------------------------------------------------------- */

struct site {
    const char *name;
    uint8_t bytes[32];
    size_t len, at;
    bool stepped;
};

static const struct site sites[] = {
    {"push", {0x55, 0x48, 0x89, 0xe5}, 4, 0, false},
    {"push r12", {0x41, 0x54, 0x55}, 3, 0, false},
    {"endbr64, push", {0xf3, 0x0f, 0x1e, 0xfa, 0x53}, 5, 4, false},
    {"test, je", {0x48, 0x85, 0xff, 0x0f, 0x84, 1, 0, 0, 0}, 9, 3, false},
    {"mov to rbx, push", {0x48, 0x89, 0xfb, 0x53}, 4, 3, false},
    {"mov to rdi, push", {0x48, 0x89, 0xdf, 0x53}, 4, 0, true},
    {"mov from memory to rdi", {0x48, 0x8b, 0x3d, 0, 0, 0, 0, 0x53}, 8, 0, true},
    {"load with fs, push", {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x53}, 10, 9, false},
    {"sub from rsp", {0x48, 0x83, 0xec, 0x18, 0x53}, 5, 0, true},
    {"cmp with constant, ja", {0x48, 0x81, 0xff, 0, 4, 0, 0, 0x77, 0x10}, 9, 7, false},
    {"and of r8 into r12", {0x4d, 0x21, 0xc4, 0x53}, 4, 3, false},
    {"and into rsi", {0x83, 0xe6, 0x0f, 0x53}, 4, 0, true},
    {"constant to rax", {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0x53}, 11, 10, false},
    {"and of rax", {0x25, 0xf0, 0, 0, 0, 0x3c, 1, 0x75, 0}, 9, 7, false},
    {"jumped to", {0x48, 0x85, 0xff, 0x53, 0xeb, 0xfd}, 6, 0, true},
    {"cut off", {0x48, 0x8b}, 2, 0, true},
    {"unknown", {0xc5, 0xf8, 0x77, 0x53}, 4, 0, true},
    {"ret", {0xc3}, 1, 0, true},
};

static void test_sites(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        bool stepped = false;
        size_t at = hx_probe_site(sites[i].bytes, sites[i].len, HX_PROBE_KEEP_ARGS, &stepped);
        if (at != sites[i].at || stepped != sites[i].stepped)
            fail_msg("%s: %zu, %s", sites[i].name, at, stepped ? "stepped" : "emulated");
    }
}

/* Any bytes are taken; a site lies in them. */
static void test_any_bytes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("any bytes");
    for (size_t i = 0; i < unit_rounds(100000); i++) {
        size_t len = unit_below(&random, 40);
        HX_FREE uint8_t *bytes = malloc(len + 1);
        bool stepped;
        for (size_t k = 0; k < len; k++)
            bytes[k] = (uint8_t)unit_random(&random);
        size_t at = hx_probe_site(bytes, len, HX_PROBE_KEEP_ARGS, &stepped);
        assert_true(at == 0 || (at < len && !stepped));
    }
}

/* --- victims ------------------------------------------------------------------------ */

__attribute__((noinline, noclone, used)) static void *probe_deep(int depth, size_t bytes)
{
    void *p = depth ? probe_deep(depth - 1, bytes) : probe_leaf(bytes);
    STAYS(p);
    return p;
}

/* What one thread keeps. */
struct keeper {
    struct block block[256];
    uint64_t seed;
};

static void change(struct keeper *keeper, struct unit_random *random)
{
    struct block *b = &keeper->block[unit_below(random, 256)];
    size_t bytes = 1 + unit_below(random, 500);
    void *p = (void *)(uintptr_t)b->address;
    switch (b->address ? unit_below(random, 3) : 2 + unit_below(random, 4)) {
    case 0:
        free(p);
        *b = (struct block){0};
        return;
    case 1:
        p = realloc(p, bytes);
        break;
    case 2:
        free(p);
        p = malloc(bytes);
        break;
    case 3:
        p = calloc(bytes, 3);
        bytes *= 3;
        break;
    case 4:
        if (posix_memalign(&p, 64, bytes))
            p = NULL;
        break;
    default:
        p = realloc(NULL, bytes);
    }
    *b = (struct block){(uintptr_t)p, bytes};
}

static void *keep(void *argument)
{
    struct keeper *keeper = argument;
    struct unit_random random = {keeper->seed};
    for (size_t i = 0; i < 5000; i++)
        change(keeper, &random);
    return NULL;
}

static void victim_random(struct stage *stage)
{
    static struct keeper keepers[most_threads];
    pthread_t thread[most_threads];
    for (size_t i = 0; i < most_threads; i++) {
        keepers[i].seed = stage->note + i;
        pthread_create(&thread[i], NULL, keep, &keepers[i]);
    }
    for (size_t i = 0; i < most_threads; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < most_threads; i++)
        for (size_t k = 0; k < 256; k++)
            if (keepers[i].block[k].address)
                stage->block[stage->n++] = keepers[i].block[k];
}

static void victim_deep(struct stage *stage)
{
    note_block(stage, probe_deep(200, 123), 123);
}

static struct stage *handler_stage;

__attribute__((noinline, noclone, used)) static void probe_handler(int sig)
{
    (void)sig;
    note_block(handler_stage, probe_leaf(77), 77);
}

__attribute__((noinline, noclone, used)) static void probe_interrupted(void)
{
    raise(SIGUSR1);
    __asm__ volatile("" ::: "memory");
}

static void victim_signal(struct stage *stage)
{
    static char other[65536];
    handler_stage = stage;
    struct sigaction action = {.sa_handler = probe_handler};
    sigaction(SIGUSR1, &action, NULL);
    probe_interrupted();
    sigaltstack(&(stack_t){.ss_sp = other, .ss_size = sizeof other}, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    probe_interrupted();
}

static void victim_library(struct stage *stage)
{
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
    void *(*allocate)(int) = library ? (void *(*)(int))dlsym(library, "sqlite3_malloc") : NULL;
    if (!allocate)
        return;
    void *p = allocate(1234);
    stage->note = 1;
    /* it has a header of its own in front */
    note_block(stage, (char *)p - 8, 0);
}

/* Code that is in no file, and was mapped after the recorder came; it links its frames. */
static void victim_made(struct stage *stage)
{
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                   0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    memcpy(page, code, sizeof code);
    void *(*made)(void *(*)(size_t), size_t);
    memcpy(&made, &page, sizeof made);
    note_block(stage, made(probe_leaf, 61), 61);
    for (int i = 0; i < 100; i++)
        nap();
    note_block(stage, made(probe_leaf, 62), 62);
}

/* Is killed by a system call that was new when return probes began to use one. */
static void victim_filtered(struct stage *stage)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 335, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(98);
    atomic_store(&stage->done, 1);
    await(&stage->go, 2);
    note_block(stage, probe_leaf(63), 63);
}

static void victim_child(struct stage *stage)
{
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++)
            probe_leaf(55);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    stage->note = (uint64_t)status;
    note_block(stage, probe_leaf(56), 56);
}

static void victim_exec(struct stage *stage)
{
    note_block(stage, probe_leaf(57), 57);
    atomic_store(&stage->done, 1);
    execl("/bin/sleep", "sleep", "30", (char *)NULL);
}

static void *go_on_alone(void *argument)
{
    struct stage *stage = argument;
    for (int i = 0; i < 500; i++)
        nap();
    note_block(stage, probe_leaf(58), 58);
    atomic_store(&stage->done, 2);
    await(&stage->go, 3);
    _exit(0);
}

static void victim_headless(struct stage *stage)
{
    pthread_t thread;
    pthread_create(&thread, NULL, go_on_alone, stage);
    pthread_exit(NULL);
}

/* A request that fails, between others, and a block that realloc frees. */
static void victim_refused(struct stage *stage)
{
    size_t huge = (size_t)1 << 50;
    void *p = probe_leaf(59);
    STAYS(huge);
#ifndef __SANITIZE_ADDRESS__ /* whose malloc does not bear it */
    stage->note = malloc(huge) || realloc(p, huge) || calloc(huge, huge);
#endif
    note_block(stage, p, 59);
    void *q = probe_leaf(60);
    q = realloc(q, 0);
    STAYS(q);
    stage->note |= (uintptr_t)q;
}

static void victim_sampled(struct stage *stage)
{
    for (int i = 0; i < 40000; i++) {
        void *p = probe_leaf(200);
        stage->note += 200;
        if (i & 1)
            free(p);
    }
}

static void victim_busy(struct stage *stage)
{
    atomic_store(&stage->done, 1);
    while (atomic_load(&stage->go) < 2)
        free(probe_deep(5, 64));
    stage->note = 1;
}

/* --- what is seen of them --------------------------------------------------------------- */

static void test_live_blocks(void **state)
{
    NEEDS_PROBES;
    struct unit_random random = unit_random_begin("live blocks");
    struct scene scene;
    begin(&scene, victim_random, unit_random(&random), &everything);
    watch(&scene);
    assert_in_range(scene.stage->n, 100, most_blocks);
    for (size_t i = 0; i < scene.stage->n; i++) {
        const struct block *b = &scene.stage->block[i];
        const struct hx_rec_block *found = hx_recording_block(scene.recording, b->address);
        assert_non_null(found);
        assert_int_equal(found->requested, b->requested);
    }
    /* and no others, but what the threads' own start took */
    assert_in_range(scene.recording->n_blocks, scene.stage->n, scene.stage->n + 32);
    end(&scene);
}

static void test_deep(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    const char *name[512];
    begin(&scene, victim_deep, 0, &everything);
    watch(&scene);
    size_t n = functions(scene.recording, scene.stage->block[0].address, name, 512);
    assert_int_equal(count(name, n, "probe_deep"), 201);
    assert_true(position(name, n, "probe_leaf") < position(name, n, "probe_deep"));
    assert_true(position(name, n, "main") < n);
    end(&scene);
}

static void test_signal(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    const char *name[64];
    begin(&scene, victim_signal, 0, &everything);
    watch(&scene);
    assert_int_equal(scene.stage->n, 2);
    for (size_t i = 0; i < 2; i++) {
        size_t n = functions(scene.recording, scene.stage->block[i].address, name, 64);
        assert_true(position(name, n, "probe_handler") < position(name, n, "probe_interrupted"));
        assert_true(position(name, n, "probe_interrupted") < position(name, n, "main"));
        assert_true(position(name, n, "main") < n);
    }
    end(&scene);
}

static void see_library(void (*see)(struct scene *))
{
    struct scene scene;
    const char *name[64];
    begin(&scene, victim_library, 0, &everything);
    see(&scene);
    if (scene.stage->note) {
        uint64_t address = scene.stage->block[0].address;
        const struct hx_recording *recording = scene.recording;
        size_t n = functions(recording, address, name, 64);
        const struct hx_rec_stack *stack =
            &recording->stacks.v[hx_recording_block(recording, address)->stack];
        uint32_t innermost = recording->stack_places.v[stack->first];
        uint32_t file = recording->places.v[innermost].file;
        assert_true(file < recording->files.n);
        assert_non_null(strstr(recording->files.v[file].name, "libsqlite3"));
        assert_true(position(name, n, "victim_library") < position(name, n, "main"));
        assert_true(position(name, n, "main") < n);
    }
    end(&scene);
}

static void see_made(void (*see)(struct scene *))
{
    struct scene scene;
    const char *name[64];
    begin(&scene, victim_made, 0, &everything);
    see(&scene);
    for (size_t i = 0; i < scene.stage->n; i++) {
        size_t n = functions(scene.recording, scene.stage->block[i].address, name, 64);
        assert_int_equal(position(name, n, "probe_leaf") + 2, position(name, n, "victim_made"));
        assert_true(position(name, n, "main") < n);
    }
    end(&scene);
}

static void test_library(void **state)
{
    NEEDS_PROBES;
    see_library(watch);
    see_library(watch_late);
}

static void test_made(void **state)
{
    NEEDS_PROBES;
    see_made(watch);
    see_made(watch_late);
}

/* Either it bears the probes, or they are refused. */
static void test_filtered(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin_victim(&scene, victim_filtered, 0);
    atomic_store(&scene.stage->go, 1);
    await(&scene.stage->done, 1);
    hx_error *err = hx_probes_open(scene.victim, &everything, &scene.source, &scene.state, NULL);
    atomic_store(&scene.stage->go, 2);
    if (err) {
        assert_int_equal(err->kind, HX_E_LIMIT);
        assert_non_null(strstr(err->why, "seccomp"));
        hx_error_free(err);
    } else {
        watch(&scene);
        assert_non_null(hx_recording_block(scene.recording, scene.stage->block[0].address));
    }
    end(&scene);
}

static void test_child(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    struct hx_reader_figures figures;
    begin(&scene, victim_child, 0, &everything);
    watch(&scene);
    scene.source->figures(scene.state, &figures);
    assert_int_equal(scene.stage->note, 0);
    assert_in_range(figures.allocs, 1, 500);
    assert_non_null(hx_recording_block(scene.recording, scene.stage->block[0].address));
    end(&scene);
}

static void test_exec(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin(&scene, victim_exec, 0, &everything);
    for (int i = 0; !scene.source->ended(scene.state) && i < 20000; i++) {
        round_once(&scene);
        nap();
    }
    assert_true(scene.source->ended(scene.state));
    round_once(&scene);
    show_error(scene.source->freeze(scene.state, &scene.recording));
    hx_recording_sort(scene.recording);
    show_error(scene.source->name(scene.state, scene.recording, NULL));
    assert_non_null(hx_recording_block(scene.recording, scene.stage->block[0].address));
    kill(scene.victim, SIGKILL);
    hx_recording_destroy(scene.recording);
    scene.source->close(scene.state);
    waitpid(scene.victim, NULL, 0);
    munmap(scene.stage, sizeof *scene.stage);
}

/* The first thread ends; older kernels know the process by it. */
static void test_headless(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin(&scene, victim_headless, 0, &everything);
    for (int i = 0; atomic_load(&scene.stage->done) < 2 && i < 20000; i++) {
        round_once(&scene);
        scene.source->wait(scene.state, 1000000);
    }
    round_once(&scene);
    show_error(scene.source->freeze(scene.state, &scene.recording));
    hx_recording_sort(scene.recording);
    assert_non_null(hx_recording_block(scene.recording, scene.stage->block[0].address));
    end(&scene);
}

static void test_failing(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin(&scene, victim_refused, 0, &everything);
    watch(&scene);
    assert_int_equal(scene.stage->note, 0);
    assert_non_null(hx_recording_block(scene.recording, scene.stage->block[0].address));
    assert_int_equal(scene.recording->n_blocks, 1);
    end(&scene);
}

/* Measured, more than nothing, and no more than the program's time. */
static void test_overhead(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    struct hx_record_overhead overhead = {0};
    begin(&scene, victim_busy, 0, &everything);
    for (int i = 0; i < 300; i++) {
        round_once(&scene);
        nap();
    }
    scene.source->overhead(scene.state, &overhead);
    atomic_store(&scene.stage->go, 2);
    watch(&scene);
    assert_true(overhead.pair_ns > 50 && overhead.pair_ns < 1e6);
    assert_true(overhead.spent_ns > 0 && overhead.spent_ns <= overhead.program_ns);
    end(&scene);
}

static void test_end(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin(&scene, victim_deep, 0, &everything);
    watch(&scene);
    assert_false(scene.source->ended(scene.state));
    atomic_store(&scene.stage->go, 3);
    for (int i = 0; !scene.source->ended(scene.state) && i < 20000; i++)
        nap();
    assert_true(scene.source->ended(scene.state));
    end(&scene);
}

/* The estimate lies within five of its own standard errors. */
static void test_sampled(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    struct hx_record_options options = {.sample_bytes = 8192};
    struct hx_rec_costs sum = {0};
    begin(&scene, victim_sampled, 0, &options);
    watch(&scene);
    for (size_t i = 0; i < scene.recording->costs.n; i++) {
        const struct hx_rec_costs *costs = &scene.recording->costs.v[i];
        sum.alloc_bytes += costs->alloc_bytes;
        sum.live_bytes += costs->live_bytes;
        sum.alloc_variance += costs->alloc_variance;
    }
    double off = (double)sum.alloc_bytes - (double)scene.stage->note;
    double live_off = (double)sum.live_bytes - (double)scene.stage->note / 2;
    assert_true(off * off < 25 * (sum.alloc_variance + 1e6));
    assert_true(live_off * live_off < 25 * (sum.alloc_variance + 1e6));
    assert_in_range(scene.recording->events, 500, 4000);
    end(&scene);
}

/* A recorder that is killed leaves nothing behind, and the victim goes on. */
static void test_killed(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    uint8_t before[64], between[64], after[64];
    void *function = dlsym(RTLD_DEFAULT, "free");
    begin_victim(&scene, victim_busy, 0);
    read_text(scene.victim, function, before, sizeof before);
    pid_t recorder = fork();
    if (recorder == 0) {
        hx_error *err =
            hx_probes_open(scene.victim, &everything, &scene.source, &scene.state, NULL);
        atomic_store(&scene.stage->go, err ? 2 : 1);
        for (bool idle; !err;) {
            uint64_t stop;
            err = scene.source->round(scene.state, NULL, &idle, &stop);
        }
        _exit(1);
    }
    await(&scene.stage->done, 1);
    nap();
    read_text(scene.victim, function, between, sizeof between);
    kill(recorder, SIGKILL);
    waitpid(recorder, NULL, 0);
    for (int i = 0; i < 5000; i++) {
        read_text(scene.victim, function, after, sizeof after);
        if (!memcmp(before, after, sizeof after))
            break;
        nap();
    }
    assert_memory_equal(before, after, sizeof after);
    assert_true(memcmp(before, between, sizeof between) != 0);
    assert_true(is_empty("/sys/kernel/tracing/uprobe_events"));
    for (int i = 0; i < 50; i++)
        nap();
    atomic_store(&scene.stage->go, 2);
    await(&scene.stage->done, 2);
    assert_int_equal(scene.stage->note, 1);
    end(&scene);
}

static void test_refused(void **state)
{
    NEEDS_PROBES;
    const struct hx_source *source;
    void *opened;
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    hx_error *err = hx_probes_open(gone, &everything, &source, &opened, NULL);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_GONE);
    hx_error_free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sites),       cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_live_blocks), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_signal),      cmocka_unit_test(test_library),
        cmocka_unit_test(test_made),        cmocka_unit_test(test_filtered),
        cmocka_unit_test(test_child),       cmocka_unit_test(test_exec),
        cmocka_unit_test(test_headless),    cmocka_unit_test(test_failing),
        cmocka_unit_test(test_overhead),    cmocka_unit_test(test_end),
        cmocka_unit_test(test_sampled),     cmocka_unit_test(test_killed),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
