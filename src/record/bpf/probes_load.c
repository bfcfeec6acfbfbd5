/* probes_load.c - brings the programs into the kernel and sets their probes.
 *
 * Everything that holds them there is a descriptor of this process: whatever ends it, the kernel
 * takes the probes away.
 */
#include "base/cleanup.h"
#include "base/packet.h"
#include "base/timing.h"
#include "record/bpf/probes_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The compiled programs, from probes_object.S. */
extern const char hx_probes_object[], hx_probes_object_end[];

/* Of the kernel's interface, newer than the oldest headers that heapx is built with. */
enum { link_create = 28, uprobe_multi = 48, uprobe_session = 57, multi_return = 1 };

struct multi_attr {
    uint32_t prog_fd, target_fd, attach_type, flags;
    uint64_t path, offsets, ref_ctr_offsets, cookies;
    uint32_t cnt, multi_flags, pid;
};

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

/* --- loading ---------------------------------------------------------------------- */

static hx_error *size_map(struct bpf_object *object, const char *name, uint32_t entries)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, name);
    int rc = map ? bpf_map__set_max_entries(map, entries ? entries : 1) : -ENOENT;
    return rc ? hx_error_os(-rc, "the probes", name) : NULL;
}

static hx_error *configure(struct bpf_object *object, const struct hx_probe_config *config,
                           const struct hx_probe_sizes *sizes)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.config");
    int rc = map ? bpf_map__set_initial_value(map, config, sizeof *config) : -ENOENT;
    if (rc)
        return hx_error_os(-rc, "the probes", "config");
    HX_TRY(size_map(object, "ring", (uint32_t)sizes->ring_bytes));
    HX_TRY(size_map(object, "pieces", sizes->pieces));
    HX_TRY(size_map(object, "rows", sizes->rows));
    HX_TRY(size_map(object, "rules", sizes->rules));
    HX_TRY(size_map(object, "sampled", sizes->sampled));
    HX_TRY(size_map(object, "captures", sizes->captures));
    HX_TRY(size_map(object, "captured", sizes->captures / 4));
    return size_map(object, "scratches", config->scratches);
}

/* Which programs, and for which kind of link. That of marks comes when there are any. */
static void choose_bpf_programs(struct bpf_object *object, bool session)
{
    struct bpf_program *program;
    bpf_object__for_each_program(program, object)
    {
        const char *name = bpf_program__name(program);
        if (!strcmp(name, "on_session")) {
            bpf_program__set_autoload(program, session);
            bpf_program__set_expected_attach_type(program, (enum bpf_attach_type)uprobe_session);
        } else if (!strcmp(name, "on_entry") || !strcmp(name, "on_return")) {
            bpf_program__set_autoload(program, !session);
        } else if (!strcmp(name, "on_mark")) {
            bpf_program__set_autoload(program, false);
        } else if (session && strcmp(name, "on_exec") != 0) {
            bpf_program__set_expected_attach_type(program, (enum bpf_attach_type)uprobe_multi);
        }
    }
}

static hx_error *map_array(struct bpf_object *object, const char *name, struct hx_probe_array *ret)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, name);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t element = (bpf_map__value_size(map) + 7) & ~(size_t)7;
    ret->fd = bpf_map__fd(map);
    ret->bytes = (bpf_map__max_entries(map) * element + page - 1) & ~(page - 1);
    void *base = mmap(NULL, ret->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ret->fd, 0);
    if (base == MAP_FAILED)
        return hx_error_os(errno, "the probes", "mmap");
    ret->base = base;
    return NULL;
}

/* One page that says how far was read, one how far was written, then the data twice. */
static hx_error *map_ring(struct hx_probe_kernel *kernel, uint64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    kernel->ring_fd = bpf_map__fd(bpf_object__find_map_by_name(kernel->object, "ring"));
    void *consumed = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, kernel->ring_fd, 0);
    if (consumed == MAP_FAILED)
        return hx_error_os(errno, "the ring of the probes", "mmap");
    kernel->consumed = consumed;
    uint8_t *produced =
        mmap(NULL, page + 2 * bytes, PROT_READ, MAP_SHARED, kernel->ring_fd, (off_t)page);
    if (produced == MAP_FAILED)
        return hx_error_os(errno, "the ring of the probes", "mmap");
    kernel->produced = (void *)produced;
    kernel->ring = produced + page;
    kernel->ring_bytes = bytes;
    return NULL;
}

static hx_error *open_object(struct bpf_object **ret)
{
    /* Copied: the bytes need not be aligned as libelf wants them. */
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "heapx");
    *ret = bpf_object__open_mem(hx_probes_object, (size_t)(hx_probes_object_end - hx_probes_object),
                                &opts);
    return *ret ? NULL : hx_error_os(errno, "the probes", "bpf_object__open_mem");
}

static hx_error *load_bpf_object(const struct hx_probe_config *config,
                                 const struct hx_probe_sizes *sizes, struct hx_probe_kernel *kernel)
{
    libbpf_set_print(print_nothing);
    HX_TRY(open_object(&kernel->object));
    HX_TRY(configure(kernel->object, config, sizes));
    choose_bpf_programs(kernel->object, kernel->session);
    int rc = bpf_object__load(kernel->object);
    if (rc)
        return hx_probe_refused(-rc, "bpf");
    HX_TRY(map_array(kernel->object, ".bss.shared", &kernel->shared_array));
    kernel->shared = kernel->shared_array.base;
    HX_TRY(map_array(kernel->object, "pieces", &kernel->pieces));
    HX_TRY(map_array(kernel->object, "rows", &kernel->rows));
    HX_TRY(map_array(kernel->object, "rules", &kernel->rules));
    return map_ring(kernel, sizes->ring_bytes);
}

hx_error *hx_probe_load(const struct hx_probe_config *config, const struct hx_probe_sizes *sizes,
                        bool session, struct hx_probe_kernel *ret)
{
    struct hx_probe_kernel kernel = {.session = session, .ring_fd = -1};
    hx_error *err = load_bpf_object(config, sizes, &kernel);
    if (err)
        hx_probe_unload(&kernel);
    else
        *ret = kernel;
    return err;
}

/* The same programs once more, of which only that of marks is loaded, on the maps of the first. */
static hx_error *load_marks(const struct hx_probe_kernel *kernel, struct bpf_object *object)
{
    struct bpf_program *program;
    struct bpf_map *map;
    bpf_object__for_each_map(map, object)
    {
        struct bpf_map *first = bpf_object__find_map_by_name(kernel->object, bpf_map__name(map));
        int rc = first ? bpf_map__reuse_fd(map, bpf_map__fd(first)) : -ENOENT;
        if (rc)
            return hx_error_os(-rc, "the probes", "bpf_map__reuse_fd");
    }
    bpf_object__for_each_program(program, object)
    {
        bool is_mark = !strcmp(bpf_program__name(program), "on_mark");
        bpf_program__set_autoload(program, is_mark);
        if (is_mark && kernel->session)
            bpf_program__set_expected_attach_type(program, (enum bpf_attach_type)uprobe_multi);
    }
    int rc = bpf_object__load(object);
    return rc ? hx_probe_refused(-rc, "bpf") : NULL;
}

hx_error *hx_probe_load_marks(struct hx_probe_kernel *kernel)
{
    struct bpf_object *object;
    if (kernel->marks)
        return NULL;
    HX_TRY(open_object(&object));
    hx_error *err = load_marks(kernel, object);
    if (err)
        bpf_object__close(object);
    else
        kernel->marks = object;
    return err;
}

/* --- links --------------------------------------------------------------------------
 * A kernel whose caller is being killed does not take probes away: what it has set of a link that
 * it then gives up stays in the target, and so do its counts of listeners. So links are made, and
 * ended, by processes that whoever kills heapx does not kill, nor who kills its process group. */

static struct bpf_program *program(const struct hx_probe_kernel *kernel, const char *name)
{
    return bpf_object__find_program_by_name(
        strcmp(name, "on_mark") != 0 ? kernel->object : kernel->marks, name);
}

/* 0 or an errno, as all below. `semaphore`: NULL, or one for each offset. */
static int link_multi(struct hx_probe_kernel *kernel, const char *name, pid_t pid, const char *path,
                      const uint64_t *offset, const uint64_t *cookie, const uint64_t *semaphore,
                      size_t n, uint32_t flags)
{
    bool session = !strcmp(name, "on_session");
    struct multi_attr attr = {
        .prog_fd = (uint32_t)bpf_program__fd(program(kernel, name)),
        .attach_type = session ? uprobe_session : uprobe_multi,
        .path = (uintptr_t)path,
        .offsets = (uintptr_t)offset,
        .ref_ctr_offsets = (uintptr_t)semaphore,
        .cookies = (uintptr_t)cookie,
        .cnt = (uint32_t)n,
        .multi_flags = flags,
        .pid = (uint32_t)pid,
    };
    int fd = (int)syscall(SYS_bpf, link_create, &attr, sizeof attr);
    if (fd < 0)
        return errno;
    return hx_vec_push(&kernel->links, fd) ? 0 : ENOMEM;
}

/* The link holds the event, whose own descriptor ends with the process that makes it. */
static int link_one(struct hx_probe_kernel *kernel, const char *name, pid_t pid, const char *path,
                    uint64_t offset, uint64_t cookie, uint64_t semaphore, bool ret)
{
    LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = ret, .bpf_cookie = cookie,
                .ref_ctr_offset = semaphore);
    const struct bpf_link *link =
        bpf_program__attach_uprobe_opts(program(kernel, name), pid, path, offset, &opts);
    if (!link)
        return errno;
    return hx_vec_push(&kernel->links, bpf_link__fd(link)) ? 0 : ENOMEM;
}

static const char *program_of(const struct hx_probe_function *function)
{
    if (function->kind == HX_PROBE_FREE)
        return "on_free";
    if (function->kind >= HX_PROBE_PUSH)
        return "on_mark";
    return function->kind == HX_PROBE_MAPS ? "on_maps" : "on_session";
}

static uint64_t cookie_of(const struct hx_probe_functions *functions, size_t i)
{
    const struct hx_probe_function *function = &functions->v[i];
    return HX_PROBE_COOKIE(function->kind, i + 1) | (function->leaf ? HX_PROBE_LEAF : 0);
}

/* The functions [from, to) of one file that one program serves, by one link. */
static int link_program(struct hx_probe_kernel *kernel, const char *name, const char *path,
                        pid_t pid, const struct hx_probe_functions *functions, size_t from,
                        size_t to)
{
    HX_FREE uint64_t *offset = calloc(3 * (to - from), sizeof *offset);
    size_t n = 0;
    if (!offset)
        return ENOMEM;
    uint64_t *cookie = offset + (to - from), *semaphore = cookie + (to - from);
    bool counted = !strcmp(name, "on_mark");
    for (size_t i = from; i < to; i++)
        if (!strcmp(program_of(&functions->v[i]), name)) {
            offset[n] = functions->v[i].offset;
            semaphore[n] = functions->v[i].semaphore;
            cookie[n++] = cookie_of(functions, i);
        }
    return n ? link_multi(kernel, name, pid, path, offset, cookie, counted ? semaphore : NULL, n, 0)
             : 0;
}

/* One link a probe; the return first, so that no call is entered that is not seen to end. */
static int link_singly(struct hx_probe_kernel *kernel, const char *path, pid_t pid,
                       const struct hx_probe_functions *functions, size_t i)
{
    const struct hx_probe_function *function = &functions->v[i];
    const char *name = program_of(function);
    uint64_t cookie = cookie_of(functions, i);
    if (strcmp(name, "on_session") != 0)
        return link_one(kernel, name, pid, path, function->offset, cookie, function->semaphore,
                        false);
    int rc = link_one(kernel, "on_return", pid, path, function->offset, cookie, 0, true);
    return rc ? rc : link_one(kernel, "on_entry", pid, path, function->offset, cookie, 0, false);
}

/* Links, made by `link` of what is `wanted`. */
typedef int link_function(struct hx_probe_kernel *kernel, const void *wanted);

struct links_packet {
    int error;   /* of the link behind these; 0: none */
    uint32_t n;  /* in this packet */
    size_t left; /* in those behind it */
};

/* In the child. */
static _Noreturn void make_links(struct hx_probe_kernel *kernel, link_function *link,
                                 const void *wanted, int socket)
{
    size_t at = kernel->links.n;
    struct links_packet packet = {0};
    prctl(PR_SET_NAME, "heapx-links");
    setsid();
    packet.error = link(kernel, wanted);
    do {
        packet.left = kernel->links.n - at;
        packet.n = packet.left < HX_PACKET_FDS ? (uint32_t)packet.left : HX_PACKET_FDS;
        packet.left -= packet.n;
        if (!hx_packet_send(socket, &packet, sizeof packet, kernel->links.v + at, packet.n))
            break; /* nobody is there any more */
        at += packet.n;
    } while (packet.left);
    _exit(0);
}

/* 0 or an errno. */
static int take_links(struct hx_probe_kernel *kernel, int socket)
{
    struct links_packet packet;
    int rc = 0;
    do {
        int fd[HX_PACKET_FDS];
        ssize_t got = hx_packet_receive(socket, &packet, sizeof packet, fd, HX_PACKET_FDS);
        if (got != sizeof packet)
            return got < 0 ? errno : ECHILD;
        for (size_t i = 0; i < packet.n; i++)
            if (fd[i] < 0) {
                rc = EMFILE;
            } else if (!hx_vec_push(&kernel->links, fd[i])) {
                close(fd[i]);
                rc = ENOMEM;
            }
    } while (packet.left);
    return packet.error ? packet.error : rc;
}

static hx_error *link_aside(struct hx_probe_kernel *kernel, link_function *link, const void *wanted)
{
    int pair[2];
    const char *call = kernel->session ? "bpf (link)" : "perf_event_open";
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return hx_error_os(errno, "the probes", "socketpair");
    pid_t pid = fork();
    int rc = errno;
    if (pid == 0)
        make_links(kernel, link, wanted, pair[1]);
    close(pair[1]);
    if (pid > 0)
        rc = take_links(kernel, pair[0]);
    close(pair[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc == ENOMEM)
        return hx_error_nomem();
    return pid < 0 ? hx_error_os(rc, "the probes", "fork") : rc ? hx_probe_refused(rc, call) : NULL;
}

struct wanted_functions {
    hx_code *code;
    pid_t pid;
    const struct hx_probe_functions *functions;
    size_t from;
};

static int link_functions(struct hx_probe_kernel *kernel, const void *data)
{
    static const char *const names[] = {"on_session", "on_free", "on_maps", "on_mark"};
    const struct wanted_functions *wanted = data;
    const struct hx_probe_functions *functions = wanted->functions;
    int rc = 0;
    for (size_t i = wanted->from, to; !rc && i < functions->n; i = to) {
        for (to = i; to < functions->n && functions->v[to].file == functions->v[i].file; to++)
            ;
        const char *path = hx_code_open_path(wanted->code, functions->v[i].file);
        if (!path)
            continue;
        for (size_t k = 0; !rc && kernel->session && k < 4; k++)
            rc = link_program(kernel, names[k], path, wanted->pid, functions, i, to);
        for (size_t k = i; !rc && !kernel->session && k < to; k++)
            rc = link_singly(kernel, path, wanted->pid, functions, k);
    }
    return rc;
}

hx_error *hx_probe_link(struct hx_probe_kernel *kernel, hx_code *code, pid_t pid,
                        const struct hx_probe_functions *functions, size_t from)
{
    struct wanted_functions wanted = {code, pid, functions, from};
    return from < functions->n ? link_aside(kernel, link_functions, &wanted) : NULL;
}

hx_error *hx_probe_link_exec(struct hx_probe_kernel *kernel)
{
    int fd =
        bpf_raw_tracepoint_open("sched_process_exec", bpf_program__fd(program(kernel, "on_exec")));
    if (fd < 0)
        return hx_probe_refused(-fd, "bpf (tracepoint)");
    if (hx_vec_push(&kernel->links, fd))
        return NULL;
    close(fd);
    return hx_error_nomem();
}

/* Places in heapx's own program. */
struct wanted_own {
    pid_t pid;
    uint64_t alloc, free;
};

static const char own_path[] = "/proc/self/exe";

static int link_own(struct hx_probe_kernel *kernel, const void *data)
{
    const struct wanted_own *own = data;
    uint64_t cookie = HX_PROBE_COOKIE(HX_PROBE_ALIGNED, 1) | HX_PROBE_LEAF;
    int rc;
    if (kernel->session) {
        rc = link_multi(kernel, "on_session", own->pid, own_path, &own->alloc, &cookie, NULL, 1, 0);
        return rc ? rc
                  : link_multi(kernel, "on_free", own->pid, own_path, &own->free, &cookie, NULL, 1,
                               0);
    }
    rc = link_one(kernel, "on_return", own->pid, own_path, own->alloc, cookie, 0, true);
    if (!rc)
        rc = link_one(kernel, "on_entry", own->pid, own_path, own->alloc, cookie, 0, false);
    return rc ? rc : link_one(kernel, "on_free", own->pid, own_path, own->free, cookie, 0, false);
}

hx_error *hx_probe_link_own(struct hx_probe_kernel *kernel, uint64_t alloc, uint64_t free)
{
    pid_t self = kernel->session ? getpid() : (pid_t)syscall(SYS_gettid);
    return link_aside(kernel, link_own, &(struct wanted_own){self, alloc, free});
}

static int link_trial(struct hx_probe_kernel *kernel, const void *data)
{
    const struct wanted_own *own = data;
    uint64_t cookie = 0;
    if (kernel->session)
        return link_multi(kernel, "on_maps", own->pid, own_path, &own->alloc, &cookie, NULL, 1,
                          multi_return);
    return link_one(kernel, "on_maps", own->pid, own_path, own->alloc, cookie, 0, true);
}

hx_error *hx_probe_link_trial(struct hx_probe_kernel *kernel, pid_t pid, uint64_t offset)
{
    return link_aside(kernel, link_trial, &(struct wanted_own){pid, offset, 0});
}

/* --- the end ----------------------------------------------------------------------------
 * The kernel waits for all processors before a probe is gone, each time that the last descriptor of
 * one is closed: 50 probes take seconds, however many do it. So a process does it that nobody has
 * to wait for. */

static int compare_numbers(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* In a child: holds these alone once `go` is at its end, and ends. */
static _Noreturn void close_last(const int *fd, size_t n, const int go[2])
{
    char unused;
    unsigned at = 0;
    prctl(PR_SET_NAME, "heapx-release");
    setsid();
    close(go[1]);
    while (read(go[0], &unused, 1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < n; at = (unsigned)fd[i++] + 1)
        if ((unsigned)fd[i] > at)
            close_range(at, (unsigned)fd[i] - 1, 0);
    close_range(at, ~0U, 0);
    _exit(0);
}

/* Most are gone by then, on a kernel that has one link for many of them. */
static const uint64_t hurried_ns = 300000000;

static void await_release(pid_t pid, const atomic_bool *hurry)
{
    uint64_t end = UINT64_MAX;
    while (hx_now_ns() < end && waitpid(pid, NULL, WNOHANG) == 0) {
        if (hurry && atomic_load(hurry) && end == UINT64_MAX)
            end = hx_now_ns() + hurried_ns;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Not waited for much longer once *hurry is true. */
static void release(hx_probe_links *links, const atomic_bool *hurry)
{
    int go[2] = {-1, -1};
    if (!links->n)
        return;
    qsort(links->v, links->n, sizeof *links->v, compare_numbers);
    pid_t pid = pipe2(go, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid == 0)
        close_last(links->v, links->n, go);
    for (size_t i = 0; i < links->n; i++)
        close(links->v[i]); /* not the last one of each: that is quick */
    for (size_t i = 0; i < 2 && go[i] >= 0; i++)
        close(go[i]);
    hx_vec_free(links);
    if (pid > 0)
        await_release(pid, hurry);
}

void hx_probe_unlink(struct hx_probe_kernel *kernel, const atomic_bool *hurry)
{
    if (kernel->shared)
        __atomic_store_n(&kernel->shared->armed, 0, __ATOMIC_SEQ_CST);
    release(&kernel->links, hurry);
}

hx_error *hx_probe_relink(struct hx_probe_kernel *kernel, hx_code *code, pid_t pid,
                          const struct hx_probe_functions *functions,
                          const struct hx_probe_functions *marks)
{
    static const atomic_bool at_once = true;
    hx_probe_links old = kernel->links;
    kernel->links = (hx_probe_links){0};
    hx_error *err = hx_probe_link_exec(kernel);
    if (!err)
        err = hx_probe_link(kernel, code, pid, functions, 0);
    if (!err && kernel->marks)
        hx_error_free(hx_probe_link(kernel, code, pid, marks, 0));
    release(&old, &at_once);
    return err;
}

static void unmap_array(struct hx_probe_array *array)
{
    if (array->base)
        munmap(array->base, array->bytes);
}

void hx_probe_unload(struct hx_probe_kernel *kernel)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    hx_probe_unlink(kernel, NULL);
    unmap_array(&kernel->shared_array);
    unmap_array(&kernel->pieces);
    unmap_array(&kernel->rows);
    unmap_array(&kernel->rules);
    if (kernel->consumed)
        munmap((void *)kernel->consumed, page);
    if (kernel->produced)
        munmap((void *)kernel->produced, page + 2 * kernel->ring_bytes);
    bpf_object__close(kernel->marks);
    bpf_object__close(kernel->object);
    *kernel = (struct hx_probe_kernel){.ring_fd = -1};
}
