/* fuzz.c - the frame of fuzzing drivers: reads seeds, makes cases, runs them in batches. */
#include "fuzz.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A case may take CASE_SECONDS, and SLOW_SECONDS of processor time. */
enum { BATCH = 200, CASE_SECONDS = 60, SLOW_SECONDS = 8, LARGEST = 1 << 24 };

struct seed {
    const char *path;
    uint8_t *bytes;
    size_t n;
};

/* Shared with the processes of batches. */
struct outcome {
    uint64_t kinds[HX_FUZZ_KINDS];
    uint64_t at; /* number of the case in hand */
    uint64_t failed;
};

struct run {
    const struct hx_fuzz *fuzz;
    struct seed *seeds;
    size_t n_seeds;
    bool cuts;
    uint64_t first;
    struct outcome *outcome;
};

uint64_t hx_fuzz_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t hx_fuzz_below(uint64_t *state, size_t n)
{
    return n ? (size_t)(hx_fuzz_next(state) % n) : 0;
}

/* --- mutations ---------------------------------------------------------------------- */

/* Room for twice the largest seed and some more is there. */
static void insert(struct hx_fuzz_case *c, size_t at, const void *bytes, size_t n, size_t room)
{
    if (c->n + n > room)
        return;
    memmove(c->bytes + at + n, c->bytes + at, c->n - at);
    memmove(c->bytes + at, bytes, n);
    c->n += n;
}

static void overwrite(struct hx_fuzz_case *c, uint64_t *state)
{
    static const uint64_t numbers[] = {0,          1,          2,
                                       0x7f,       0xff,       0x100,
                                       0x7fff,     0xffff,     0x10000,
                                       0x7fffffff, 0xffffffff, UINT64_C(1) << 32,
                                       INT64_MAX,  UINT64_MAX, INT64_MAX - 1};
    uint64_t value = numbers[hx_fuzz_below(state, sizeof numbers / sizeof *numbers)];
    size_t width = (size_t)1 << hx_fuzz_below(state, 4), at = hx_fuzz_below(state, c->n);
    if (hx_fuzz_next(state) & 1 && at + width <= c->n) { /* near what is there */
        value = 0;
        for (size_t i = 0; i < width; i++)
            value = value << 8 | c->bytes[at + i];
        value += hx_fuzz_below(state, 9);
        value -= 4;
    }
    for (size_t i = 0; i < width && at + i < c->n; i++)
        c->bytes[at + i] = (uint8_t)(value >> 8 * (width - 1 - i));
}

static void copy_part(struct hx_fuzz_case *c, uint64_t *state, size_t room)
{
    uint8_t part[256];
    size_t from = hx_fuzz_below(state, c->n), n = 1 + hx_fuzz_below(state, sizeof part - 1);
    n = n < c->n - from ? n : c->n - from;
    memcpy(part, c->bytes + from, n);
    insert(c, hx_fuzz_below(state, c->n + 1), part, n, room);
}

static void remove_part(struct hx_fuzz_case *c, uint64_t *state)
{
    size_t from = hx_fuzz_below(state, c->n),
           n = 1 + hx_fuzz_below(state, hx_fuzz_next(state) & 1 ? 8 : 256);
    n = n < c->n - from ? n : c->n - from;
    memmove(c->bytes + from, c->bytes + from + n, c->n - from - n);
    c->n -= n;
}

static void mutate_once(const struct hx_fuzz *fuzz, struct hx_fuzz_case *c, uint64_t *state,
                        size_t room)
{
    uint8_t random[8];
    size_t words = 0;
    switch (c->n ? hx_fuzz_below(state, 9) : 8) {
    case 0:
    case 1:
        c->bytes[hx_fuzz_below(state, c->n)] ^= (uint8_t)(1u << hx_fuzz_below(state, 8));
        break;
    case 2:
        c->bytes[hx_fuzz_below(state, c->n)] = (uint8_t)hx_fuzz_next(state);
        break;
    case 3:
    case 4:
        overwrite(c, state);
        break;
    case 5:
        copy_part(c, state, room);
        break;
    case 6:
        remove_part(c, state);
        break;
    case 7:
        if (hx_fuzz_next(state) & 1)
            c->n = hx_fuzz_below(state, c->n + 1);
        break;
    default:
        while (fuzz->words && fuzz->words[words])
            words++;
        if (words) {
            const char *word = fuzz->words[hx_fuzz_below(state, words)];
            insert(c, hx_fuzz_below(state, c->n + 1), word, strlen(word), room);
            break;
        }
        for (size_t i = 0; i < sizeof random; i++)
            random[i] = (uint8_t)hx_fuzz_next(state);
        insert(c, hx_fuzz_below(state, c->n + 1), random,
               1 + hx_fuzz_below(state, sizeof random - 1), room);
    }
}

/* --- cases --------------------------------------------------------------------------- */

/* Case `number`; false: there is none. */
static bool make_case(const struct run *run, uint64_t number, struct hx_fuzz_case *ret, size_t room)
{
    uint64_t state = number;
    const struct seed *seed = run->seeds;
    size_t n = 0;
    if (run->cuts) {
        for (n = number; seed < run->seeds + run->n_seeds && n > seed->n; seed++)
            n -= seed->n + 1;
        if (seed == run->seeds + run->n_seeds)
            return false;
    } else {
        seed += hx_fuzz_below(&state, run->n_seeds);
        n = seed->n;
    }
    ret->seed = seed->path;
    ret->n = n;
    ret->cut = run->cuts;
    ret->number = number;
    ret->own = !run->cuts && run->fuzz->own && hx_fuzz_below(&state, 100) < run->fuzz->own;
    memcpy(ret->bytes, seed->bytes, n);
    for (size_t i = run->cuts || ret->own ? 0 : 1 + hx_fuzz_below(&state, 3); i-- > 0;)
        mutate_once(run->fuzz, ret, &state, room);
    return true;
}

/* Cases [from, to) in this process. */
static bool run_here(const struct run *run, uint64_t from, uint64_t to)
{
    size_t largest = 0;
    for (size_t i = 0; i < run->n_seeds; i++)
        largest = run->seeds[i].n > largest ? run->seeds[i].n : largest;
    size_t room = 2 * largest + 4096;
    void *context = run->fuzz->begin ? run->fuzz->begin() : NULL;
    bool right = true;
    for (uint64_t number = from; number < to; number++) {
        /* of its own and no larger than its bytes, so that reading behind them is noticed */
        uint8_t *work = malloc(room);
        struct hx_fuzz_case c = {.bytes = work};
        unsigned kind = 0;
        run->outcome->at = number;
        if (!work || !make_case(run, number, &c, room)) {
            free(work);
            break;
        }
        c.bytes = malloc(c.n + !c.n);
        if (!c.bytes)
            abort();
        memcpy(c.bytes, work, c.n);
        free(work);
        alarm(CASE_SECONDS);
        clock_t begun = clock();
        if (!run->fuzz->one(context, &c, &kind)) {
            printf("case %" PRIu64 " of %s\n", number, c.seed);
            run->outcome->failed++;
            right = false;
        }
        alarm(0);
        double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
        if (seconds > SLOW_SECONDS) {
            printf("case %" PRIu64 " of %s: took %.1f s\n", number, c.seed, seconds);
            run->outcome->failed++;
            right = false;
        }
        run->outcome->kinds[kind % HX_FUZZ_KINDS]++;
        free(c.bytes);
    }
    if (run->fuzz->end)
        run->fuzz->end(context);
    return right;
}

static bool run_batch(const struct run *run, uint64_t from, uint64_t to)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        exit(run_here(run, from, to) ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        printf("case %" PRIu64 ": signal %d%s\n", run->outcome->at, WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? " (took too long)" : "");
    else if (WEXITSTATUS(status) != 1)
        printf("case %" PRIu64 ": exit status %d\n", run->outcome->at, WEXITSTATUS(status));
    else
        return false; /* it has said which */
    printf("again by: --cases 1 --from %" PRIu64 "%s\n", run->outcome->at,
           run->cuts ? " --cuts" : "");
    return false;
}

/* --- the call -------------------------------------------------------------------------- */

static bool read_seed(const char *path, struct seed *ret)
{
    FILE *file = fopen(path, "re");
    struct stat stat;
    if (!file || fstat(fileno(file), &stat) != 0) {
        perror(path);
        return false;
    }
    size_t n = (size_t)stat.st_size;
    uint8_t *bytes = n <= LARGEST ? malloc(n + 1) : NULL;
    bool read = bytes && fread(bytes, 1, n, file) == n;
    fclose(file);
    if (!read) {
        fprintf(stderr, "%s: cannot be read whole\n", path);
        free(bytes);
        return false;
    }
    *ret = (struct seed){path, bytes, n};
    return true;
}

static uint64_t total_of(const struct run *run)
{
    uint64_t n = 0;
    for (size_t i = 0; i < run->n_seeds; i++)
        n += run->seeds[i].n + 1;
    return n;
}

static int summarize(const struct run *run, uint64_t done, bool right)
{
    printf("%" PRIu64 " cases from %" PRIu64 ":", done, run->first);
    for (size_t i = 0; i < HX_FUZZ_KINDS && run->fuzz->kinds[i]; i++)
        printf(" %s %" PRIu64 "%s", run->fuzz->kinds[i], run->outcome->kinds[i],
               run->fuzz->kinds[i + 1] ? "," : "\n");
    return right && !run->outcome->failed ? 0 : 1;
}

int hx_fuzz_main(const struct hx_fuzz *fuzz, int argc, char **argv)
{
    const char *first = getenv("HX_SEED");
    uint64_t cases = 10000, seconds = 0;
    struct run run = {.fuzz = fuzz, .first = first ? strtoull(first, NULL, 0) : 1};
    bool from = false;
    run.seeds = calloc((size_t)argc, sizeof *run.seeds);
    run.outcome =
        mmap(NULL, sizeof *run.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!run.seeds || run.outcome == MAP_FAILED)
        return 1;
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--cases") == 0 && has_value) {
            cases = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--seconds") == 0 && has_value) {
            seconds = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--from") == 0 && has_value) {
            run.first = strtoull(argv[++i], NULL, 0);
            from = true;
        } else if (strcmp(argv[i], "--cuts") == 0) {
            run.cuts = true;
        } else if (!read_seed(argv[i], &run.seeds[run.n_seeds++])) {
            return 1;
        }
    }
    if (!run.n_seeds)
        return 2;
    if (run.cuts && !from) {
        run.first = 0;
        cases = total_of(&run);
    }
    time_t begun = time(NULL);
    uint64_t done = 0;
    bool right = true;
    for (; done < cases && (!seconds || time(NULL) - begun < (time_t)seconds); done += BATCH) {
        uint64_t n = cases - done < BATCH ? cases - done : BATCH;
        right &= run_batch(&run, run.first + done, run.first + done + n);
    }
    int status = summarize(&run, done < cases ? done : cases, right);
    for (size_t i = 0; i < run.n_seeds; i++)
        free(run.seeds[i].bytes);
    free(run.seeds);
    return status;
}
