/* probed.h - a victim that the test forks, under the recorder of running processes: what the tests
 * of that recorder share. */
#ifndef HX_UNIT_PROBED_H
#define HX_UNIT_PROBED_H

#include "base/cleanup.h"
#include "record/record.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- victims ------------------------------------------------------------------------ */

enum { most_blocks = 4096, most_threads = 4 };
struct block {
    uint64_t address, requested;
};
struct stage {
    atomic_int go;   /* by the test: the step that the victim may take */
    atomic_int done; /* by the victim: the step that it has taken */
    size_t n;
    struct block block[most_blocks];
    uint64_t note; /* what a victim has to tell */
};

static inline void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static inline void await(atomic_int *word, int value)
{
    for (int i = 0; atomic_load(word) < value; i++) {
        if (i > 20000)
            _exit(99);
        nap();
    }
}

static inline void note_block(struct stage *stage, void *p, size_t requested)
{
    stage->block[stage->n++] = (struct block){(uintptr_t)p, requested};
}

/* Keeps a call from becoming a jump, and a block from being thought away. */
#define STAYS(p) __asm__ volatile("" : "+r"(p)::"memory")

__attribute__((noinline, noclone, used)) static void *probe_leaf(size_t bytes)
{
    void *p = malloc(bytes);
    STAYS(p);
    return p;
}

/* --- the recorder over them ------------------------------------------------------------- */

struct scene {
    struct stage *stage;
    pid_t victim;
    const struct hx_source *source;
    void *state;
    struct hx_recording *recording;
};

static inline void show_error(hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    hx_error_free(err);
    fail_msg("%s", line);
}

static inline void begin_victim(struct scene *scene, void (*act)(struct stage *), uint64_t note)
{
    *scene = (struct scene){0};
    scene->stage =
        mmap(NULL, sizeof *scene->stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene->stage != MAP_FAILED);
    scene->stage->note = note;
    fflush(NULL);
    scene->victim = fork();
    assert_true(scene->victim >= 0);
    if (scene->victim == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        await(&scene->stage->go, 1);
        act(scene->stage);
        atomic_store(&scene->stage->done, 2);
        await(&scene->stage->go, 3);
        _exit(0);
    }
}

static inline void begin(struct scene *scene, void (*act)(struct stage *), uint64_t note,
                         const struct hx_record_options *options)
{
    begin_victim(scene, act, note);
    show_error(hx_probes_open(scene->victim, options, &scene->source, &scene->state, NULL));
    atomic_store(&scene->stage->go, 1);
}

static inline void round_once(struct scene *scene)
{
    bool idle;
    uint64_t stop;
    show_error(scene->source->round(scene->state, NULL, &idle, &stop));
}

/* Rounds until the victim has done all. */
static inline void watch(struct scene *scene)
{
    for (int i = 0; atomic_load(&scene->stage->done) < 2 && i < 20000; i++) {
        round_once(scene);
        scene->source->wait(scene->state, 1000000);
    }
    assert_int_equal(atomic_load(&scene->stage->done), 2);
    round_once(scene);
    show_error(scene->source->freeze(scene->state, &scene->recording));
    hx_recording_sort(scene->recording);
    show_error(scene->source->name(scene->state, scene->recording, NULL));
    show_error(hx_recording_check(scene->recording));
    assert_int_equal(scene->recording->lost_allocs, 0);
    assert_int_equal(scene->recording->lost_frees, 0);
}

/* The same when the victim has done all before anybody looked. */
static inline void watch_late(struct scene *scene)
{
    await(&scene->stage->done, 2);
    watch(scene);
}

static inline void end(struct scene *scene)
{
    int status = 0;
    hx_recording_destroy(scene->recording);
    if (scene->source)
        scene->source->close(scene->state);
    atomic_store(&scene->stage->go, 3);
    assert_int_equal(waitpid(scene->victim, &status, 0), scene->victim);
    assert_int_equal(status, 0);
    munmap(scene->stage, sizeof *scene->stage);
}

/* The functions of a block's stack, innermost first, those without a name as "?". */
static inline size_t functions(const struct hx_recording *recording, uint64_t address,
                               const char **ret, size_t max)
{
    const struct hx_rec_block *block = hx_recording_block(recording, address);
    size_t n = 0;
    assert_non_null(block);
    assert_true(block->stack < recording->stacks.n);
    const struct hx_rec_stack *stack = &recording->stacks.v[block->stack];
    assert_false(stack->cut);
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct hx_rec_place *place =
            &recording->places.v[recording->stack_places.v[stack->first + i]];
        for (size_t k = 0; k < (place->n_lines ? place->n_lines : 1) && n < max; k++)
            ret[n++] = place->n_lines && place->lines[k].function ? place->lines[k].function : "?";
    }
    return n;
}

static inline size_t count(const char *const *name, size_t n, const char *wanted)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcmp(name[i], wanted) == 0;
    return found;
}

static inline size_t position(const char *const *name, size_t n, const char *wanted)
{
    size_t i = 0;
    while (i < n && strcmp(name[i], wanted) != 0)
        i++;
    return i;
}

static inline bool impossible(void)
{
    const char *valgrind = getenv("HX_VALGRIND");
    if (valgrind && !strcmp(valgrind, "yes")) {
        puts("skipped: Valgrind does not know what the kernel writes into shared maps");
        return true;
    }
    hx_error *err = hx_probes_possible();
    if (err) {
        char line[512];
        hx_error_line(err, line, sizeof line);
        printf("skipped: %s\n", line);
        hx_error_free(err);
        return true;
    }
    return false;
}

#define NEEDS_PROBES                                                                               \
    do {                                                                                           \
        (void)state;                                                                               \
        if (impossible())                                                                          \
            skip();                                                                                \
    } while (0)

static const struct hx_record_options everything = {0};

/* The bytes of a function as the victim has them. */
static inline void read_text(pid_t pid, const void *function, uint8_t *buf, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, buf, n, (off_t)(uintptr_t)function), n);
}

static inline bool is_empty(const char *path)
{
    HX_FILE FILE *f = fopen(path, "re");
    return !f || fgetc(f) == EOF;
}

#endif
