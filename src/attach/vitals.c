/* vitals.c - what /proc tells of a process at a glance. */
#include "attach/vitals.h"

#include "base/cleanup.h"
#include "base/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {
#define X(id, name, about) name,
    HX_VITALS(X)
#undef X
};

const char *hx_vital_name(enum hx_vital vital)
{
    return names[vital];
}

#define BIT(id) (1u << HX_VITAL_##id)

/* Lines "Name:   12 kB", or a plain number. */
static const struct line {
    enum hx_vital vital;
    const char *name;
} in_status[] =
    {
        {HX_VITAL_RSS, "VmRSS"},      {HX_VITAL_ANON, "RssAnon"},    {HX_VITAL_FILE, "RssFile"},
        {HX_VITAL_SHMEM, "RssShmem"}, {HX_VITAL_SWAP, "VmSwap"},     {HX_VITAL_SIZE, "VmSize"},
        {HX_VITAL_DATA, "VmData"},    {HX_VITAL_THREADS, "Threads"},
},
  in_rollup[] = {{HX_VITAL_PSS, "Pss"}};

static void set_vital(struct hx_vitals *vitals, enum hx_vital vital, double value)
{
    vitals->has[vital] = true;
    vitals->value[vital] = value;
}

static void take_lines(const char *text, const struct line *line, size_t n, struct hx_vitals *ret)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = hx_proc_field(text, line[i].name);
        char unit[4] = "";
        uint64_t number;
        int fields = value ? sscanf(value, "%" SCNu64 " %3[A-Za-z]", &number, unit) : 0;
        if (fields >= 1)
            set_vital(ret, line[i].vital, (double)number * (strcmp(unit, "kB") == 0 ? 1024 : 1));
    }
}

static void take_heap(const char *maps, struct hx_vitals *ret)
{
    uint64_t sum = 0;
    for (const char *line = maps; *line;) {
        size_t n = strcspn(line, "\n");
        uint64_t start, end;
        if (n > 6 && memcmp(line + n - 6, "[heap]", 6) == 0 &&
            sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && end > start)
            sum += end - start;
        line += n + (line[n] == '\n');
    }
    set_vital(ret, HX_VITAL_HEAP, (double)sum); /* none is no bytes of it */
}

static void count_files(pid_t pid, struct hx_vitals *ret)
{
    char path[64];
    uint64_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    HX_DIR DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    set_vital(ret, HX_VITAL_FDS, (double)n);
}

static void take_uptime(pid_t pid, struct hx_vitals *ret)
{
    struct timespec now;
    int64_t began = hx_proc_started_at_ns(pid);
    clock_gettime(CLOCK_REALTIME, &now);
    double ns = (double)now.tv_sec * 1e9 + (double)now.tv_nsec - (double)began;
    if (began)
        set_vital(ret, HX_VITAL_UPTIME, ns > 0 ? ns / 1e9 : 0);
}

hx_error *hx_vitals_read(pid_t pid, unsigned wanted, struct hx_vitals *ret)
{
    static const unsigned of_status = BIT(RSS) | BIT(ANON) | BIT(FILE) | BIT(SHMEM) | BIT(SWAP) |
                                      BIT(SIZE) | BIT(DATA) | BIT(THREADS);
    *ret = (struct hx_vitals){0};
    pid_t living = hx_proc_living(pid); /* a first thread that has exited shows no memory */
    if (!living) {
        char what[32];
        snprintf(what, sizeof what, "PID %d", pid);
        return hx_error_new(HX_E_GONE, what, NULL, "has exited");
    }
    HX_FREE char *status = wanted & of_status ? hx_proc_text("/proc/%d/status", living) : NULL;
    HX_FREE char *rollup = wanted & BIT(PSS) ? hx_proc_text("/proc/%d/smaps_rollup", living) : NULL;
    HX_FREE char *maps = wanted & BIT(HEAP) ? hx_proc_text("/proc/%d/maps", living) : NULL;
    uint64_t cpu_ns;
    if (status)
        take_lines(status, in_status, sizeof in_status / sizeof *in_status, ret);
    if (rollup)
        take_lines(rollup, in_rollup, sizeof in_rollup / sizeof *in_rollup, ret);
    if (maps)
        take_heap(maps, ret);
    if (wanted & BIT(CPU) && hx_proc_cpu_ns(pid, &cpu_ns))
        set_vital(ret, HX_VITAL_CPU, (double)cpu_ns / 1e9);
    if (wanted & BIT(FDS))
        count_files(living, ret);
    if (wanted & BIT(UPTIME))
        take_uptime(pid, ret);
    return NULL;
}
