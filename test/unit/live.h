/* live.h - a snapshot of a child of the test: threads, mappings and memory, without the
 * agent and without an allocator, for tests of what is made of them.
 */
#ifndef HX_TEST_LIVE_H
#define HX_TEST_LIVE_H

#include "unit.h"

#include "attach/stop/pagemap.h"
#include "attach/stop/registers.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "model/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

struct live {
    pid_t pid;
    struct hx_snapshot *snapshot;
    HX_VEC(struct hx_thread) threads;
    HX_VEC(struct hx_span) spans;
};

static inline void live_stop_thread(struct live *live, pid_t tid)
{
    struct hx_thread thread = {.tid = tid, .ns_tid = tid, .has_regs = true};
    struct hx_arch_layout layout;
    struct hx_arch_call call;
    int status;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
        return;
    assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
    assert_int_equal(waitpid(tid, &status, __WALL), tid);
    assert_true(WIFSTOPPED(status));
    hx_arch_learn_layout(&layout);
    assert_true(hx_arch_stopped(tid, &layout, &thread, &call));
    assert_true(hx_vec_push(&live->threads, thread));
}

static inline bool live_read_run(void *context, uint64_t start, uint64_t end, bool swapped)
{
    (void)swapped;
    struct live *live = context;
    uint8_t *bytes = malloc(end - start);
    struct iovec local = {bytes, end - start}, remote = {(void *)(uintptr_t)start, end - start};
    assert_non_null(bytes);
    if (process_vm_readv(live->pid, &local, 1, &remote, 1, 0) != (ssize_t)(end - start))
        free(bytes);
    else
        assert_true(hx_vec_push(&live->spans, (struct hx_span){start, end, bytes}));
    return true;
}

/* Stops the child, takes everything, lets it go on. Free with live_free(). */
static inline struct live live_capture(pid_t pid)
{
    struct live live = {.pid = pid};
    char path[64], *text;
    size_t len;
    assert_null(hx_snapshot_create(&live.snapshot));
    live.snapshot->pid = pid;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    HX_DIR DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            live_stop_thread(&live, atoi(entry->d_name));
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    assert_null(hx_proc_read(path, &text, &len));
    assert_null(hx_proc_mappings(text, len, &live.snapshot->mapping, &live.snapshot->n_mappings));
    free(text);
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    HX_FD int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < live.snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &live.snapshot->mapping[i];
        if (mapping->prot & HX_PROT_W || (mapping->prot & HX_PROT_R && mapping->anonymous_bytes))
            hx_pagemap_runs(pagemap, mapping->start, mapping->end, mapping->inode != 0, NULL,
                            live_read_run, &live);
    }
    for (size_t i = 0; i < live.threads.n; i++)
        assert_int_equal(ptrace(PTRACE_DETACH, live.threads.v[i].tid, NULL, NULL), 0);
    live.snapshot->thread = live.threads.v;
    live.snapshot->n_threads = live.threads.n;
    live.snapshot->image.span = live.spans.v;
    live.snapshot->image.n = live.spans.n;
    return live;
}

static inline void live_free(struct live *live)
{
    for (size_t i = 0; i < live->spans.n; i++)
        free((void *)(uintptr_t)live->spans.v[i].bytes);
    hx_snapshot_destroy(live->snapshot);
}

/* A child that runs `body`, writes one byte when it is ready, and then waits to be killed.
 * `shared` is memory that both see. */
static inline pid_t live_start(void (*body)(void *shared, int ready), void *shared)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion ends the test early */
        close(ready[0]);
        body(shared, ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static inline void live_end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

#endif
