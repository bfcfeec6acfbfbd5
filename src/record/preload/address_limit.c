/* address_limit.c - a program that limits its own address space gets back what the library has
 * reserved and not used: it has counted on all of the limit.
 */
#include "record/preload/preload.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The last rings, whose claim bits are taken here, so that nobody claims them meanwhile. */
static void give_back_rings(uint32_t keep)
{
    struct hx_process *process = &hx_process;
    uint32_t had = process->n_rings, n = had;
    while (n > keep) {
        uint64_t bit = 1ULL << (n - 1) % 64;
        if (atomic_fetch_or(&process->rings[(n - 1) / 64], bit) & bit)
            break;
        if (atomic_load(&process->populated[(n - 1) / 64]) & bit) {
            atomic_fetch_and(&process->rings[(n - 1) / 64], ~bit);
            break;
        }
        n--;
    }
    if (n == had)
        return;
    process->n_rings = n;
    HX_SYS(SYS_munmap, &process->ring[n], (had - n) * sizeof *process->ring, 0, 0);
    HX_SYS(SYS_munmap, process->slots - had * process->slot_bytes, (had - n) * process->slot_bytes,
           0, 0);
}

static void give_back_region_memory(uint64_t bytes)
{
    struct hx_process *process = &hx_process;
    static _Atomic bool busy;
    struct hx_region_room room = hx_region_room(bytes);
    if (process->stage != HX_STAGE_RECORDS || process->barred || atomic_exchange(&busy, true))
        return;
    give_back_rings(room.rings);
    hx_pages_shrink(&process->tables.stacks, room.stack_bytes);
    hx_pages_shrink(&process->tables.frames, room.frame_bytes);
    atomic_store(&busy, false);
}

static void heed_limit(int resource, uint64_t bytes)
{
    int saved = errno;
    if (resource == RLIMIT_AS && bytes != RLIM_INFINITY)
        give_back_region_memory(bytes);
    errno = saved;
}

#define SETRLIMIT(name, limit_type)                                                                \
    HX_EXPORT int name(__rlimit_resource_t resource, const limit_type *limit)                      \
    {                                                                                              \
        HX_REAL(name)                                                                              \
        int ret = real(resource, limit);                                                           \
        if (ret == 0)                                                                              \
            heed_limit((int)resource, limit->rlim_cur);                                            \
        return ret;                                                                                \
    }
SETRLIMIT(setrlimit, struct rlimit)
SETRLIMIT(setrlimit64, struct rlimit64)

#define PRLIMIT(name, limit_type)                                                                  \
    HX_EXPORT int name(pid_t pid, enum __rlimit_resource resource, const limit_type *limit,        \
                       limit_type *old)                                                            \
    {                                                                                              \
        HX_REAL(name)                                                                              \
        int ret = real(pid, resource, limit, old);                                                 \
        if (ret == 0 && limit && (pid == 0 || pid == hx_process.pid))                              \
            heed_limit((int)resource, limit->rlim_cur);                                            \
        return ret;                                                                                \
    }
PRLIMIT(prlimit, struct rlimit)
PRLIMIT(prlimit64, struct rlimit64)
