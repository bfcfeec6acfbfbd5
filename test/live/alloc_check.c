/* alloc_check.c - the glibc walker against a program that tells the truth.
 *
 *   alloc_check [-v] [-e] [-x EXTRA] [-t ROUNDS] [-n NAME] -- PROGRAM [ARG...]
 *
 * Starts PROGRAM (alloc_victim or one that speaks like it), waits for its truth, stops it,
 * reads its memory, walks it and compares: every live block is an object with exactly its
 * usable size, nothing but a few blocks of the libraries is one besides (-x), segments,
 * objects and free ranges do not overlap, and the bytes are those of mallinfo. -e: damage is
 * expected; then a block may be missing for each header that was overwritten (a size that is
 * wrong but looks right can swallow the block after it). -n: the allocator's name
 * must begin so. -t: stops a program that never rests ROUNDS times at random moments instead;
 * then hardly anything may be called damaged, and most stops must be good.
 * Exit status 0 when all holds.
 */
#include "attach/alloc/alloc.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "model/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool verbose, damaged;
    uint64_t extra, rounds;
    const char *name;
} option = {.extra = 64};

struct truth {
    uint64_t pid, n, figures[3], n_smashed;
    uint64_t (*block)[2];
    uint64_t smashed[64];
};

static void die(const char *what)
{
    fprintf(stderr, "alloc_check: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void die_error(const char *what, hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "alloc_check: %s: %s\n", what, line);
    exit(2);
}

/* --- the target ------------------------------------------------------------------------ */

static void read_whole(int fd, void *bytes, size_t n)
{
    for (char *at = bytes; n > 0;) {
        ssize_t done = read(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            die("the truth ends early");
        at += done;
        n -= (size_t)done;
    }
}

static void read_truth(int fd, struct truth *ret)
{
    read_whole(fd, &ret->pid, sizeof ret->pid);
    read_whole(fd, &ret->n, sizeof ret->n);
    ret->block = calloc(ret->n + 1, sizeof *ret->block);
    if (!ret->block)
        die("truth");
    read_whole(fd, ret->block, ret->n * sizeof *ret->block);
    read_whole(fd, ret->figures, sizeof ret->figures);
    read_whole(fd, &ret->n_smashed, sizeof ret->n_smashed);
    read_whole(fd, ret->smashed, ret->n_smashed * sizeof *ret->smashed);
}

static pid_t start(char **argv, int *ret_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        execv(argv[0], argv);
        die(argv[0]);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static bool stop_thread(pid_t tid, struct hx_thread *ret)
{
    struct user_regs_struct regs;
    int status;
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) || ptrace(PTRACE_INTERRUPT, tid, 0, 0) ||
        waitpid(tid, &status, __WALL) != tid || ptrace(PTRACE_GETREGS, tid, 0, &regs))
        return false;
    *ret = (struct hx_thread){.tid = tid,
                              .ns_tid = tid,
                              .has_regs = true,
                              .sp = regs.rsp,
                              .pc = regs.rip,
                              .tp = regs.fs_base};
    return true;
}

static void stop_all(pid_t pid, struct hx_snapshot *snapshot)
{
    char path[64];
    size_t before;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    snapshot->thread = calloc(4096, sizeof *snapshot->thread);
    do {
        before = snapshot->n_threads;
        HX_DIR DIR *dir = opendir(path);
        if (!dir)
            die(path);
        for (struct dirent *entry; (entry = readdir(dir));) {
            pid_t tid = atoi(entry->d_name);
            bool known = tid <= 0 || snapshot->n_threads == 4096;
            for (size_t i = 0; i < snapshot->n_threads; i++)
                known |= snapshot->thread[i].tid == tid;
            if (!known && stop_thread(tid, &snapshot->thread[snapshot->n_threads]))
                snapshot->n_threads++;
        }
    } while (snapshot->n_threads != before);
}

static void release_all(struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n_threads; i++)
        ptrace(PTRACE_DETACH, snapshot->thread[i].tid, 0, 0);
}

static bool read_target(void *context, uint64_t addr, void *dst, size_t len)
{
    struct iovec local = {dst, len}, remote = {(void *)addr, len};
    return process_vm_readv(*(pid_t *)context, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static void read_maps(pid_t pid, struct hx_snapshot *snapshot)
{
    char path[64], *text;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    die_error(path, hx_proc_read(path, &text, &len));
    die_error(path, hx_proc_mappings(text, len, &snapshot->mapping, &snapshot->n_mappings));
    free(text);
}

static bool is_zero(const uint8_t *page)
{
    for (size_t i = 0; i < 4096; i++)
        if (page[i])
            return false;
    return true;
}

/* What the spans of an image lie in; the snapshot does not own it. */
typedef HX_VEC(uint8_t *) buffers;

/* All writable memory; pages of zeros are left out, as if they had not been there. */
static void read_memory(pid_t pid, struct hx_snapshot *snapshot, buffers *copies)
{
    HX_VEC(struct hx_span) spans = {0};
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *m = &snapshot->mapping[i];
        if (!(m->prot & HX_PROT_R) || !(m->prot & HX_PROT_W))
            continue;
        uint8_t *bytes = calloc(1, m->end - m->start);
        if (!bytes || !hx_vec_push(copies, bytes))
            die("memory");
        /* Guard pages of stacks can lie in a mapping that is writable. */
        if (!read_target(&pid, m->start, bytes, m->end - m->start))
            for (uint64_t at = m->start; at < m->end; at += 4096)
                read_target(&pid, at, bytes + (at - m->start), 4096);
        for (uint64_t at = m->start; at < m->end; at += 4096) {
            const uint8_t *page = bytes + (at - m->start);
            if (is_zero(page))
                continue;
            if (spans.n && spans.v[spans.n - 1].end == at && at != m->start)
                spans.v[spans.n - 1].end += 4096;
            else if (!hx_vec_push(&spans, (struct hx_span){at, at + 4096, page}))
                die("memory");
        }
    }
    snapshot->image = (struct hx_image){.span = spans.v, .n = spans.n};
}

/* --- the comparison ---------------------------------------------------------------------- */

static uint64_t n_wrong, unlocked_torn;

static void wrong(const char *what, uint64_t a, uint64_t b)
{
    if (n_wrong++ < 20)
        fprintf(stderr, "alloc_check: %s: 0x%" PRIx64 " %" PRIu64 "\n", what, a, b);
}

static void check_partition(const struct hx_snapshot *snapshot)
{
    const struct hx_graph *graph = &snapshot->graph;
    uint64_t before = 0, objects = 0, free_bytes = 0;
    size_t s = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        if (snapshot->segments.v[i].start < before)
            wrong("segment overlaps", snapshot->segments.v[i].start, i);
        before = snapshot->segments.v[i].end;
    }
    before = 0;
    size_t f = 0;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint64_t start = graph->addr[i], end = start + graph->size[i];
        if (start < before)
            wrong("object overlaps", start, i);
        before = end;
        objects += graph->size[i];
        while (s < snapshot->segments.n && snapshot->segments.v[s].end <= start)
            s++;
        if (s == snapshot->segments.n || start < snapshot->segments.v[s].start ||
            end > snapshot->segments.v[s].end)
            wrong("object outside segments", start, graph->size[i]);
        while (f < snapshot->free_ranges.n && snapshot->free_ranges.v[f].end <= start)
            f++;
        if (f < snapshot->free_ranges.n && snapshot->free_ranges.v[f].start < end)
            wrong("object in a free range", start, graph->size[i]);
    }
    before = 0;
    for (size_t i = 0; i < snapshot->free_ranges.n; i++) {
        if (snapshot->free_ranges.v[i].start < before)
            wrong("free range overlaps", snapshot->free_ranges.v[i].start, i);
        before = snapshot->free_ranges.v[i].end;
        free_bytes += before - snapshot->free_ranges.v[i].start;
    }
    if (objects != snapshot->heap_bytes || free_bytes != snapshot->free_bytes)
        wrong("sums", objects, free_bytes);
}

static int by_address(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

static void compare_blocks(const struct hx_snapshot *snapshot, struct truth *truth)
{
    const struct hx_graph *graph = &snapshot->graph;
    /* A smashed size can lead into a block that still holds the header of a larger one that was
     * there before: what that one covered is then taken for it, for nothing tells otherwise. */
    uint64_t extra = 0, missing = 0, allowed = option.damaged ? 20 * truth->n_smashed : 0;
    qsort(truth->block, truth->n, sizeof *truth->block, by_address);
    hx_obj i = 0;
    for (uint64_t k = 0; k < truth->n; k++) {
        while (i < graph->n && graph->addr[i] < truth->block[k][0]) {
            extra++;
            if (option.verbose && extra <= 10)
                fprintf(stderr, "extra 0x%" PRIx64 " %" PRIu64 "\n", graph->addr[i],
                        graph->size[i]);
            i++;
        }
        if (i == graph->n || graph->addr[i] != truth->block[k][0]) {
            if (++missing > allowed)
                wrong("live block is missing", truth->block[k][0], truth->block[k][1]);
            continue;
        }
        if (graph->size[i] != truth->block[k][1])
            wrong("size differs", graph->addr[i], graph->size[i]);
        i++;
    }
    extra += graph->n - i;
    if (extra > option.extra)
        wrong("objects that the program does not know", extra, option.extra);
    if (option.verbose)
        fprintf(stderr, "%u objects, %" PRIu64 " known, %" PRIu64 " extra, %" PRIu64 " missing\n",
                graph->n, truth->n, extra, missing);
}

/* mallinfo counts the memory of arenas with what lies between runs, and chunks of a tcache
 * as used. */
static void compare_figures(const struct hx_snapshot *snapshot, const struct truth *truth)
{
    uint64_t arena = 0, mapped = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        const struct hx_segment *segment = &snapshot->segments.v[i];
        *(segment->arena == HX_ARENA_MMAP ? &mapped : &arena) += segment->end - segment->start;
    }
    if (option.verbose)
        fprintf(stderr,
                "arena %" PRIu64 " mallinfo %" PRIu64 ", mapped %" PRIu64 " mallinfo %" PRIu64
                ", heap_bytes %" PRIu64 " uordblks %" PRIu64 "\n",
                arena, truth->figures[0], mapped, truth->figures[2], snapshot->heap_bytes,
                truth->figures[1]);
    if (option.damaged)
        return;
    /* In 2.43 each mremap adds 16 bytes too many. */
    uint64_t drift = truth->figures[2] - (uint32_t)mapped;
    if (drift && (drift % 16 || drift > 65536 || !strstr(snapshot->allocator, "2.43")))
        wrong("mapped bytes", mapped, truth->figures[2]);
    /* The first sbrk can begin unaligned (older versions copy tunables there before): mallinfo
     * counts what is left out for the alignment. */
    if (arena > truth->figures[0] ||
        (truth->figures[0] - arena >= 16 && !strstr(hx_text_str(&snapshot->notes), "others")))
        wrong("arena bytes", arena, truth->figures[0]);
}

/* --- one look ------------------------------------------------------------------------------- */

static void find_guards(const struct hx_alloc_target *target, struct hx_guard *ret)
{
    bool found = false;
    for (size_t i = 0; hx_allocators[i]; i++) {
        struct hx_allocator_share share = {0};
        void *state;
        die_error("find", hx_allocators[i]->find(target, &share, &state));
        found |= state != NULL;
        if (state) {
            die_error("guard", hx_allocators[i]->guard(state, target, ret));
            hx_allocators[i]->end(state);
        }
        hx_allocator_share_deinit(&share);
    }
    if (found)
        return;
    fprintf(stderr, "alloc_check: no allocator found\n");
    exit(1);
}

static enum hx_walk_verdict look(pid_t pid, struct truth *truth)
{
    struct hx_peek peek = {.read = read_target, .context = &pid};
    struct hx_snapshot *snapshot;
    struct hx_guard guard = {0};
    hx_ranges excluded = {0};
    hx_modules *modules;
    enum hx_walk_verdict verdict;
    struct timespec from, to;
    bool locked = false, found;
    die_error("snapshot", hx_snapshot_create(&snapshot));
    stop_all(pid, snapshot);
    read_maps(pid, snapshot);
    die_error("modules", hx_modules_create(pid, snapshot->mapping, snapshot->n_mappings, &modules));
    struct hx_alloc_target target = {snapshot->mapping, snapshot->n_mappings, pid, &peek, modules};
    struct hx_heaps_options options = {hx_allocators, false, 1};
    find_guards(&target, &guard);
    for (size_t i = 0; i < guard.locks.n; i++) {
        uint32_t word = 0;
        read_target(&pid, guard.locks.v[i].addr, &word, sizeof word);
        locked |= word & guard.locks.v[i].mask;
    }
    buffers copies = {0};
    read_memory(pid, snapshot, &copies);
    clock_gettime(CLOCK_MONOTONIC, &from);
    die_error("walk",
              hx_heaps_walk(&options, &target, snapshot, &excluded, NULL, &verdict, &found));
    clock_gettime(CLOCK_MONOTONIC, &to);
    release_all(snapshot);
    unlocked_torn += !locked && verdict == HX_WALK_TORN;
    if (option.verbose || (!truth && verdict == HX_WALK_BAD))
        fprintf(stderr, "%s: %s\n%u objects in %.3f s, %zu locks%s, verdict %d\n",
                snapshot->allocator, hx_text_str(&snapshot->notes), snapshot->graph.n,
                (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec),
                guard.locks.n, locked ? " (locked)" : "", (int)verdict);
    check_partition(snapshot);
    if (option.name && strncmp(snapshot->allocator, option.name, strlen(option.name)) != 0) {
        fprintf(stderr, "alloc_check: allocator %s\n", snapshot->allocator);
        n_wrong++;
    }
    if (truth) {
        compare_blocks(snapshot, truth);
        compare_figures(snapshot, truth);
        if (verdict != (option.damaged ? HX_WALK_BAD : HX_WALK_OK))
            wrong("verdict", (uint64_t)verdict, 0);
        if (option.damaged == snapshot->complete)
            wrong("complete", snapshot->complete, option.damaged);
    } else if (locked && verdict == HX_WALK_OK) {
        verdict = HX_WALK_TORN; /* what a caller would make of it */
    }
    for (size_t i = 0; i < copies.n; i++)
        free(copies.v[i]);
    hx_vec_free(&copies);
    hx_snapshot_destroy(snapshot);
    hx_guard_deinit(&guard);
    hx_modules_destroy(modules);
    hx_vec_free(&excluded);
    return verdict;
}

static int look_often(pid_t pid)
{
    uint64_t seen[3] = {0};
    uint64_t rng = (uint64_t)time(NULL);
    for (uint64_t i = 0; i < option.rounds; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        usleep(2000 + (unsigned)(rng >> 40) % 20000);
        seen[look(pid, NULL)]++;
    }
    printf("%" PRIu64 " good, %" PRIu64 " torn (%" PRIu64 " without a lock), %" PRIu64 " damaged\n",
           seen[0], seen[1], unlocked_torn, seen[2]);
    /* A block that is being split can look damaged once in a while; heapx stops again then. */
    return seen[2] * 5 > option.rounds || n_wrong || seen[0] * 4 < option.rounds;
}

int main(int argc, char **argv)
{
    int fd, c;
    while ((c = getopt(argc, argv, "+vex:t:n:")) != -1) {
        if (c == 'v')
            option.verbose = true;
        else if (c == 'e')
            option.damaged = true;
        else if (c == 'x')
            option.extra = strtoull(optarg, NULL, 10);
        else if (c == 't')
            option.rounds = strtoull(optarg, NULL, 10);
        else if (c == 'n')
            option.name = optarg;
        else
            return 2;
    }
    if (optind >= argc)
        return 2;
    pid_t pid = start(argv + optind, &fd);
    int status = 0;
    if (option.rounds) {
        usleep(200000);
        status = look_often(pid);
    } else {
        struct truth truth = {0};
        read_truth(fd, &truth);
        look((pid_t)truth.pid, &truth);
        if ((pid_t)truth.pid != pid)
            kill((pid_t)truth.pid, SIGKILL);
        status = n_wrong != 0;
        free(truth.block);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
    return status;
}
