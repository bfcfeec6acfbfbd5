/* test_rings.c - reading the rings of a process, with a small writer that was forked.
 *
 * The writer's side of ring.h in a few lines: threads that allocate, free and pass blocks on, rings
 * that are full, a writer that is killed, and one that cuts the file short.
 */
#include "unit.h"

#include "base/timing.h"
#include "record/launch.h"
#include "record/record.h"
#include "record/ring.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 6
#define SLOTS   64

struct folder {
    char path[64];
    int fd;
};

static void make_folder(struct folder *folder)
{
    strcpy(folder->path, "/tmp/heapx-test-rings-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY);
    assert_true(folder->fd >= 0);
}

static void remove_folder(struct folder *folder)
{
    close(folder->fd);
    assert_int_equal(rmdir(folder->path), 0); /* and so is every name in it gone */
}

/* --- the writer ------------------------------------------------------------------------ */

struct shared { /* what the test is told of the writer */
    _Atomic uint64_t pairs, live, lost;
    _Atomic uint32_t go_on;
};

struct writer {
    struct hx_region *region;
    struct shared *shared;
    int fd;
    uint64_t rounds;
    _Atomic uint64_t *slot; /* SLOTS blocks that threads pass on to each other */
    _Atomic uint32_t next;
};

static struct hx_region *make_region(struct folder *folder, int *ret_fd)
{
    char name[64];
    snprintf(name, sizeof name, "%d.0", (int)getpid());
    *ret_fd = openat(folder->fd, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (*ret_fd < 0 || ftruncate(*ret_fd, sizeof(struct hx_region)) != 0)
        _exit(9);
    struct hx_region *region =
        mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *ret_fd, 0);
    if (region == MAP_FAILED)
        _exit(9);
    region->version = HX_REGION_VERSION;
    region->bytes = sizeof *region;
    region->pid = getpid();
    region->clock = 1;
    region->began = hx_now_ns();
    region->stack[0].first = 0;
    region->frame[0] = (uint64_t)(uintptr_t)&make_region + 1;
    atomic_store(&region->stack[0].n, 1);
    __atomic_store_n(&region->magic, HX_REGION_MAGIC, __ATOMIC_RELEASE);
    return region;
}

/* A record goes in; waits for room as long as it takes. */
static void put(struct hx_ring *ring, const void *record, uint64_t bytes)
{
    uint64_t head = atomic_load(&ring->head), at = head % HX_RING_BYTES;
    uint64_t pad = at + bytes > HX_RING_BYTES ? HX_RING_BYTES - at : 0;
    while (head + pad + bytes - atomic_load(&ring->tail) > HX_RING_BYTES)
        sched_yield();
    if (pad)
        *(uint64_t *)(ring->bytes + at) = HX_EV_PAD;
    memcpy(ring->bytes + (head + pad) % HX_RING_BYTES, record, bytes);
    atomic_store_explicit(&ring->head, head + pad + bytes, memory_order_release);
}

static void *write_events(void *argument)
{
    struct writer *writer = argument;
    uint32_t number = atomic_fetch_add(&writer->next, 1);
    struct hx_ring *ring = &writer->region->ring[number];
    struct unit_random random = {number};
    atomic_store(&ring->state, HX_RING_USED);
    uint32_t used = atomic_load(&writer->region->rings_used);
    while (used < number + 1 &&
           !atomic_compare_exchange_weak(&writer->region->rings_used, &used, number + 1))
        ;
    for (uint64_t i = 0; i < writer->rounds; i++) {
        struct hx_ev_alloc alloc = {.requested = 1 + i % 100, .stack = HX_EV_KEY_FIRST};
        alloc.address = (uint64_t)(uintptr_t)malloc(16);
        alloc.head = HX_EV_HEAD(HX_EV_ALLOC, hx_now_ns());
        put(ring, &alloc, sizeof alloc);
        uint64_t old = atomic_exchange(&writer->slot[unit_below(&random, SLOTS)], alloc.address);
        if (!old)
            continue;
        struct hx_ev_free gone = {HX_EV_HEAD(HX_EV_FREE, hx_now_ns()), old};
        put(ring, &gone, sizeof gone);
        free((void *)(uintptr_t)old);
        atomic_fetch_add(&writer->shared->pairs, 1);
    }
    atomic_store(&ring->state, HX_RING_LEFT);
    return NULL;
}

enum ending { END_WELL, END_KILLED, END_CUT };

static void be_writer(struct folder *folder, struct shared *shared, uint64_t rounds,
                      enum ending ending)
{
    static _Atomic uint64_t slots[SLOTS];
    static struct writer writer;
    writer = (struct writer){.shared = shared, .rounds = rounds, .slot = slots};
    writer.region = make_region(folder, &writer.fd);
    if (ending == END_CUT) {
        while (!atomic_load(&shared->go_on))
            sched_yield();
        if (ftruncate(writer.fd, 4096) != 0)
            _exit(9);
        atomic_store(&shared->go_on, 2);
        pause();
    }
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, write_events, &writer) != 0)
            _exit(9);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    uint64_t live = 0;
    for (int i = 0; i < SLOTS; i++)
        live += atomic_load(&slots[i]) != 0;
    atomic_store(&shared->live, live);
    _exit(0);
}

static pid_t start_writer(struct folder *folder, struct shared **ret, uint64_t rounds,
                          enum ending ending)
{
    struct shared *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0)
        be_writer(folder, shared, rounds, ending);
    assert_true(pid > 0);
    *ret = shared;
    return pid;
}

/* --- the reader -------------------------------------------------------------------------- */

static void open_rings(struct folder *folder, pid_t pid, const struct hx_source **ret, void **state)
{
    uint64_t end = hx_now_ns() + 20000000000ULL;
    for (;;) {
        pid_t found = 0;
        hx_error *err = hx_rings_open(folder->fd, pid, NULL, NULL, 0, ret, state);
        if (!err)
            break;
        assert_int_equal(err->kind, HX_E_ABSENT);
        hx_error_free(err);
        assert_true(hx_now_ns() < end);
        if (hx_rings_list(folder->fd, &found, 1))
            assert_int_equal(found, pid);
        usleep(1000);
    }
    assert_int_equal(hx_rings_list(folder->fd, &pid, 1), 0);
}

/* Rounds until all is read, or ns have passed. */
static void pump(const struct hx_source *source, void *state, uint64_t ns)
{
    uint64_t end = hx_now_ns() + ns, stop_ns;
    while (hx_now_ns() < end && !source->ended(state)) {
        bool idle = false;
        assert_null(source->round(state, NULL, &idle, &stop_ns));
        if (idle)
            source->wait(state, 2000000);
    }
}

static void test_threads(void **unused)
{
    (void)unused;
    struct folder folder;
    struct shared *shared;
    const struct hx_source *source;
    void *state;
    make_folder(&folder);
    uint64_t rounds = unit_rounds(60000);
    pid_t pid = start_writer(&folder, &shared, rounds, END_WELL);
    open_rings(&folder, pid, &source, &state);
    pump(source, state, 100000000000);
    assert_true(source->ended(state));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(source->freeze(state, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    assert_int_equal(recording->unmatched_frees, 0);
    assert_int_equal(recording->implied_frees, 0);
    assert_int_equal(recording->lost_frees, 0);
    assert_int_equal(recording->stacks.n, 1);
    assert_int_equal(recording->costs.v[0].allocs, rounds * THREADS);
    assert_int_equal(recording->costs.v[0].frees, atomic_load(&shared->pairs));
    assert_int_equal(recording->n_blocks, atomic_load(&shared->live));
    assert_true(recording->from_start);
    source->close(state);
    waitpid(pid, NULL, 0);
    munmap(shared, 4096);
    remove_folder(&folder);
}

static void test_killed(void **unused)
{
    (void)unused;
    struct folder folder;
    struct shared *shared;
    const struct hx_source *source;
    void *state;
    make_folder(&folder);
    pid_t pid = start_writer(&folder, &shared, UINT64_MAX, END_KILLED);
    open_rings(&folder, pid, &source, &state);
    pump(source, state, 50000000);
    assert_false(source->ended(state));
    kill(pid, SIGKILL);
    pump(source, state, 20000000000);
    assert_true(source->ended(state));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(source->freeze(state, &recording));
    hx_recording_sort(recording);
    assert_null(hx_recording_check(recording));
    source->close(state);
    waitpid(pid, NULL, 0);
    munmap(shared, 4096);
    remove_folder(&folder);
}

static void test_cut_short(void **unused)
{
    (void)unused;
    struct folder folder;
    struct shared *shared;
    const struct hx_source *source;
    void *state;
    make_folder(&folder);
    pid_t pid = start_writer(&folder, &shared, 0, END_CUT);
    open_rings(&folder, pid, &source, &state);
    pump(source, state, 1000000);
    atomic_store(&shared->go_on, 1);
    while (atomic_load(&shared->go_on) != 2)
        usleep(100);
    pump(source, state, 20000000);
    kill(pid, SIGKILL);
    pump(source, state, 20000000000);
    assert_true(source->ended(state));
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(source->freeze(state, &recording));
    hx_recording_sort(recording);
    source->close(state);
    waitpid(pid, NULL, 0);
    munmap(shared, 4096);
    remove_folder(&folder);
}

/* What cannot be seen here may be making its region elsewhere, but not for ever. */
static void test_unfinished(void **unused)
{
    (void)unused;
    struct folder folder;
    const pid_t nobody = 5000000; /* more than any number can be */
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    const uint64_t magic = HX_REGION_MAGIC;
    const uint32_t foreign = 1;
    make_folder(&folder);
    struct hx_launched launched = {.folder_fd = folder.fd};
    int fd = openat(folder.fd, "5000000.0", O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(hx_launched_owner(&launched, nobody), HX_LAUNCHED_UNKNOWN);
    assert_int_equal(futimens(fd, long_ago), 0);
    assert_int_equal(hx_launched_owner(&launched, nobody), HX_LAUNCHED_GONE);
    assert_int_equal(pwrite(fd, &magic, sizeof magic, 0), sizeof magic);
    assert_int_equal(pwrite(fd, &foreign, sizeof foreign, offsetof(struct hx_region, foreign)),
                     sizeof foreign);
    assert_int_equal(hx_launched_owner(&launched, nobody), HX_LAUNCHED_FOREIGN);
    close(fd);
    hx_launched_refuse(&launched, nobody);
    remove_folder(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
