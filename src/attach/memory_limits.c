/* memory_limits.c - memory cgroups, found by the mounts and read level by level. */
#include "attach/memory_limits.h"

#include "base/cleanup.h"
#include "base/proc.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sixteenth, within these bounds: analyses grow by up to 6 MiB a millisecond. */
static const uint64_t least_reserve = 32 << 20, most_reserve = 256 << 20;

/* Limits from here on are none: version 1 says "none" by the largest multiple of a page. */
static const uint64_t no_limit = (uint64_t)1 << 60;

/* How the two versions name things. high and limit are limits alike: above the first one the
 * kernel slows down all that is below. */
static const struct files {
    const char *usage, *limit, *high;
    const char *stat_prefix; /* of the figures that include the levels below */
} files[] = {
    [HX_LIMIT_V2] = {"memory.current", "memory.max", "memory.high", ""},
    [HX_LIMIT_V1] = {"memory.usage_in_bytes", "memory.limit_in_bytes", NULL, "total_"},
    [HX_LIMIT_V1_SWAP] = {"memory.memsw.usage_in_bytes", "memory.memsw.limit_in_bytes", NULL,
                          "total_"},
};

/* --- reading -------------------------------------------------------------------------- */

enum { TEXT_MAX = 8192, NUMBER_MAX = 64 };

/* The beginning of an open file, NUL-terminated; false when there is none. */
static bool read_fd(int fd, char *buf, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, buf, size - 1, 0);
    buf[n > 0 ? n : 0] = 0;
    return n > 0;
}

static int open_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

/* A file of one number; "max", and no such file: UINT64_MAX. */
static uint64_t number_in(const char *folder, const char *name)
{
    char text[NUMBER_MAX];
    HX_FD int fd = name ? open_in(folder, name) : -1;
    return read_fd(fd, text, sizeof text) && text[0] >= '0' && text[0] <= '9'
               ? strtoull(text, NULL, 10)
               : UINT64_MAX;
}

/* "PREFIXNAME VALUE" among lines; 0 when there is none. */
static uint64_t limit_figure(const char *lines, const char *prefix, const char *name)
{
    size_t n_prefix = strlen(prefix), n = strlen(name);
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, prefix, n_prefix) == 0 && strncmp(line + n_prefix, name, n) == 0 &&
            line[n_prefix + n] == ' ')
            return strtoull(line + n_prefix + n + 1, NULL, 10);
    return 0;
}

/* Page cache that goes away for the asking: not what is mapped, which the target runs on, nor what
 * must be written first. Files of a tmpfs are none of it. */
static uint64_t reclaimable(const struct hx_limit *limit)
{
    char text[TEXT_MAX];
    const char *prefix = files[limit->kind].stat_prefix;
    if (!read_fd(limit->stat_fd, text, sizeof text))
        return 0;
    bool v2 = limit->kind == HX_LIMIT_V2;
    uint64_t cache =
        limit_figure(text, prefix, "inactive_file") + limit_figure(text, prefix, "active_file");
    uint64_t kept = limit_figure(text, prefix, v2 ? "file_mapped" : "mapped_file") +
                    limit_figure(text, prefix, v2 ? "file_dirty" : "dirty") +
                    limit_figure(text, prefix, v2 ? "file_writeback" : "writeback");
    uint64_t slab = v2 ? limit_figure(text, prefix, "slab_reclaimable") / 2 : 0;
    return (cache > kept ? cache - kept : 0) + slab;
}

static uint64_t meminfo(int fd, const char *name)
{
    char text[TEXT_MAX];
    const char *field = read_fd(fd, text, sizeof text) ? hx_proc_field(text, name) : NULL;
    return field ? strtoull(field, NULL, 10) * 1024 : UINT64_MAX;
}

uint64_t hx_limit_left(const struct hx_limit *limit, uint64_t enough)
{
    if (limit->kind == HX_LIMIT_MACHINE)
        return meminfo(limit->usage_fd, "MemAvailable");
    char text[NUMBER_MAX];
    if (!read_fd(limit->usage_fd, text, sizeof text))
        return UINT64_MAX; /* the cgroup has been removed */
    uint64_t usage = strtoull(text, NULL, 10);
    uint64_t left = usage < limit->bytes ? limit->bytes - usage : 0;
    if (left >= enough)
        return left;
    uint64_t back = reclaimable(limit);
    usage = usage > back ? usage - back : 0;
    return usage < limit->bytes ? limit->bytes - usage : 0;
}

/* --- finding -------------------------------------------------------------------------- */

/* A hierarchy that is mounted: where, and which of its cgroups is seen there. */
struct mount {
    enum hx_limit_kind kind; /* V2 or V1 */
    char *at, *top;
};
typedef HX_VEC(struct mount) mounts;

/* Takes the next word of a line, in which \040 and the like stand for blanks; NULL at its end. */
static char *next_mount_field(char **line)
{
    char *word = *line + strspn(*line, " "), *to = word, *from = word;
    while (*from && *from != ' ') {
        if (*from == '\\' && strspn(from + 1, "01234567") >= 3) {
            *to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *line = from + (*from == ' ');
    *to = 0;
    return to > word ? word : NULL;
}

static bool has_option(const char *options, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = options; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* "36 35 98:0 ROOT POINT options [optional ...] - TYPE source SUPER_OPTIONS" */
static bool parse_mount(char *line, const char *root, struct mount *ret)
{
    char *word[5], *type = NULL, *options = NULL;
    for (int i = 0; i < 5; i++)
        if (!(word[i] = next_mount_field(&line)))
            return false;
    for (char *at; (at = next_mount_field(&line));)
        if (strcmp(at, "-") == 0)
            break;
    type = next_mount_field(&line);
    if (!type || !next_mount_field(&line))
        return false;
    options = next_mount_field(&line);
    bool v2 = strcmp(type, "cgroup2") == 0;
    if (!v2 && (strcmp(type, "cgroup") != 0 || !options || !has_option(options, "memory")))
        return false;
    *ret = (struct mount){.kind = v2 ? HX_LIMIT_V2 : HX_LIMIT_V1};
    ret->top = strdup(strcmp(word[3], "/") == 0 ? "" : word[3]);
    if (asprintf(&ret->at, "%s%s", root, word[4]) < 0)
        ret->at = NULL;
    return true;
}

static void mounts_free(mounts *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].at);
        free(list->v[i].top);
    }
    hx_vec_free(list);
}
#define HX_MOUNTS __attribute__((cleanup(mounts_free)))

static hx_error *find_mounts(const char *root, mounts *ret)
{
    HX_FREE char *text = hx_proc_text("%s/proc/self/mountinfo", root);
    char *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        struct mount mount;
        if (!parse_mount(line, root, &mount))
            continue;
        if (!mount.at || !mount.top || !hx_vec_push(ret, mount)) {
            free(mount.at);
            free(mount.top);
            return hx_error_nomem();
        }
    }
    return NULL;
}

/* The process's path in a hierarchy, from /proc/PID/cgroup ("NUMBER:CONTROLLERS:PATH"); NULL: it
 * is in none. Points into text. */
static char *path_in(char *text, enum hx_limit_kind kind)
{
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || (next && path > next)) {
            next += next != NULL;
            continue;
        }
        size_t n = (size_t)(path - controllers - 1);
        HX_FREE char *names = strndup(controllers + 1, n);
        if (names && (kind == HX_LIMIT_V2 ? n == 0 : has_option(names, "memory"))) {
            if (next)
                *next = 0;
            return path + 1;
        }
        next += next != NULL;
    }
    return NULL;
}

/* The part of a path below what a mount shows; NULL: it lies elsewhere. */
static const char *path_below_mount(const char *path, const char *top)
{
    size_t n = strlen(top);
    if (strncmp(path, top, n) != 0 || (path[n] && path[n] != '/') || strstr(path + n, "/.."))
        return NULL;
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

static uint64_t reserve_of(uint64_t bytes)
{
    uint64_t part = bytes / 16;
    return part < least_reserve ? least_reserve : part > most_reserve ? most_reserve : part;
}

static void limit_deinit(struct hx_limit *limit)
{
    free(limit->name);
    if (limit->usage_fd >= 0)
        close(limit->usage_fd);
    if (limit->stat_fd >= 0 && limit->stat_fd != limit->usage_fd)
        close(limit->stat_fd);
}

/* Takes it over; one whose usage cannot be read is none. */
static hx_error *add_limit(hx_limits *list, struct hx_limit limit)
{
    limit.reserve = reserve_of(limit.bytes);
    bool good = limit.usage_fd >= 0 && limit.name;
    if (good && hx_vec_push(list, limit))
        return NULL;
    bool nomem = good || !limit.name;
    limit_deinit(&limit);
    return nomem ? hx_error_nomem() : NULL;
}

static void belong(struct hx_limit *limit, bool ours)
{
    limit->ours |= ours;
    limit->its |= !ours;
}

/* One cgroup's limit of one kind. `hidden`, when lower: that of one above it which cannot be seen;
 * its usage is at least that of this one. */
static hx_error *add_level(hx_limits *list, enum hx_limit_kind kind, const char *folder,
                           uint64_t hidden, bool ours)
{
    const struct files *file = &files[kind];
    uint64_t bytes = number_in(folder, file->limit), high = number_in(folder, file->high);
    bytes = high < bytes ? high : bytes;
    bytes = hidden < bytes ? hidden : bytes;
    if (bytes >= no_limit)
        return NULL;
    static const char before[] = "the memory cgroup ";
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i].kind == kind && strcmp(list->v[i].name + sizeof before - 1, folder) == 0) {
            belong(&list->v[i], ours);
            return NULL;
        }
    struct hx_limit limit = {.kind = kind,
                             .bytes = bytes,
                             .usage_fd = open_in(folder, file->usage),
                             .stat_fd = open_in(folder, "memory.stat")};
    if (asprintf(&limit.name, "%s%s", before, folder) < 0)
        limit.name = NULL;
    belong(&limit, ours);
    return add_limit(list, limit);
}

/* The lowest limit above the top that is seen, where the kernel tells (version 1). */
static uint64_t hidden_limit(const char *folder, const char *name)
{
    char text[TEXT_MAX];
    HX_FD int fd = open_in(folder, "memory.stat");
    uint64_t bytes = read_fd(fd, text, sizeof text) ? limit_figure(text, "", name) : 0;
    return bytes ? bytes : UINT64_MAX;
}

static hx_error *add_levels(hx_limits *list, const struct mount *mount, const char *path, bool ours)
{
    const char *low = path_below_mount(path, mount->top);
    if (!low)
        return NULL;
    size_t n_top = strlen(mount->top), n = n_top + strlen(low);
    for (size_t end = n_top; end <= n; end++) {
        if (end > n_top && end < n && path[end] != '/')
            continue;
        char folder[PATH_MAX];
        if (snprintf(folder, sizeof folder, "%s%.*s", mount->at, (int)(end - n_top),
                     path + n_top) >= (int)sizeof folder)
            return NULL;
        bool v1 = mount->kind == HX_LIMIT_V1, top = end == n_top;
        uint64_t hidden =
            v1 && top ? hidden_limit(folder, "hierarchical_memory_limit") : UINT64_MAX;
        HX_TRY(add_level(list, mount->kind, folder, hidden, ours));
        hidden = v1 && top ? hidden_limit(folder, "hierarchical_memsw_limit") : UINT64_MAX;
        if (v1)
            HX_TRY(add_level(list, HX_LIMIT_V1_SWAP, folder, hidden, ours));
    }
    return NULL;
}

static hx_error *add_process_limits(const char *root, const char *who, bool ours,
                                    const mounts *mounted, hx_limits *list)
{
    for (enum hx_limit_kind kind = HX_LIMIT_V2; kind <= HX_LIMIT_V1; kind++) {
        HX_FREE char *text = hx_proc_text("%s/proc/%s/cgroup", root, who);
        const char *path = text ? path_in(text, kind) : NULL;
        for (size_t i = 0; path && i < mounted->n; i++)
            if (mounted->v[i].kind == kind)
                HX_TRY(add_levels(list, &mounted->v[i], path, ours));
    }
    return NULL;
}

static hx_error *add_machine(const char *root, bool its, hx_limits *list)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct hx_limit limit = {.kind = HX_LIMIT_MACHINE,
                             .name = strdup("this machine"),
                             .ours = true,
                             .its = its,
                             .bytes = meminfo(fd, "MemTotal"),
                             .usage_fd = fd,
                             .stat_fd = fd};
    return add_limit(list, limit);
}

hx_error *hx_limits_find(const char *root, pid_t pid, hx_limits *ret)
{
    HX_MOUNTS mounts mounted = {0};
    hx_limits list = {0};
    char who[16];
    snprintf(who, sizeof who, "%d", (int)pid);
    hx_error *err = find_mounts(root, &mounted);
    if (!err)
        err = add_process_limits(root, "self", true, &mounted, &list);
    if (!err && pid > 0)
        err = add_process_limits(root, who, false, &mounted, &list);
    if (!err)
        err = add_machine(root, pid > 0, &list);
    if (err) {
        hx_limits_deinit(&list);
        return err;
    }
    *ret = list;
    return NULL;
}

void hx_limits_deinit(hx_limits *limits)
{
    for (size_t i = 0; i < limits->n; i++)
        limit_deinit(&limits->v[i]);
    hx_vec_free(limits);
}

/* --- judging -------------------------------------------------------------------------- */

uint64_t hx_memory_analysis(uint64_t bytes)
{
    const uint64_t base = 24 << 20; /* as measured with a target of 1 MiB */
    return bytes / 2 + base;
}

static uint64_t wanted_by_limit(const struct hx_limit *limit, const struct hx_memory_need *need)
{
    return (limit->ours ? need->ours : 0) + (limit->its ? need->its : 0);
}

const struct hx_limit *hx_limits_short(const hx_limits *limits, const struct hx_memory_need *need,
                                       uint64_t *ret_left)
{
    for (size_t i = 0; i < limits->n; i++) {
        const struct hx_limit *limit = &limits->v[i];
        uint64_t want = wanted_by_limit(limit, need);
        uint64_t left = want ? hx_limit_left(limit, want + limit->reserve) : 0;
        if (!want || left >= want + limit->reserve)
            continue;
        *ret_left = left;
        return limit;
    }
    return NULL;
}

const char *hx_limit_todo(const struct hx_limit *limit)
{
    if (limit->kind == HX_LIMIT_MACHINE)
        return "free some memory, or take the snapshot where there is more";
    if (!limit->ours)
        return "raise the limit of that cgroup";
    if (limit->its)
        return "run heapx from outside that cgroup (from the host of a container; or: systemd-run "
               "--scope heapx ...), or raise its limit";
    return "raise its limit, or run heapx in another cgroup (systemd-run --scope heapx ...)";
}

hx_error *hx_limits_fit(const hx_limits *limits, const struct hx_memory_need *need)
{
    uint64_t left = 0;
    const struct hx_limit *limit = hx_limits_short(limits, need, &left);
    if (!limit)
        return NULL;
    char want[HX_HUMAN], have[HX_HUMAN], all[HX_HUMAN], reserve[HX_HUMAN];
    return hx_error_new(HX_E_LIMIT, "memory", hx_limit_todo(limit),
                        "a snapshot needs about %s, and %s has %s left of %s, of which heapx "
                        "leaves %s free%s",
                        hx_human_bytes(wanted_by_limit(limit, need), want), limit->name,
                        hx_human_bytes(left, have), hx_human_bytes(limit->bytes, all),
                        hx_human_bytes(limit->reserve, reserve),
                        limit->ours ? "" : " (swapped pages come back)");
}
