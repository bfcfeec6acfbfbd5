/* unwind_maps.c - what the kernel says of this process's memory, asked by system calls of our own.
 *
 * The C library's functions are not used: they may be replaced by the program, set errno, and be
 * points of cancellation. Nothing here allocates or locks.
 */
#include "record/preload/unwind_private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#define GROWTH_MAX ((uint64_t)1 << 30) /* of the main thread's stack at once */
#define PAGE       ((uint64_t)4096)

static long raw_maps_syscall(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    long ret;
    register uint64_t r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return ret;
}

bool hx_readable(uint64_t addr)
{
    /* The kernel reads the set before it refuses what shall be done with it, so that nothing
     * changes and the answer tells whether it could. */
    const long invalid = -22;
    return raw_maps_syscall(SYS_rt_sigprocmask, ~(uint64_t)0, addr, 0, 8) == invalid;
}

bool hx_mapped(uint64_t start, uint64_t end, char *buffer, size_t len)
{
    const uint64_t page = 4096;
    start &= ~(page - 1);
    while (start < end) {
        uint64_t part = end - start < len * page ? end - start : len * page;
        if (raw_maps_syscall(SYS_mincore, start, part, (uint64_t)(uintptr_t)buffer, 0) != 0)
            return false;
        start += part;
    }
    return true;
}

/* A line that is being read, character by character. */
struct line {
    struct hx_map map;
    uint64_t number;
    int field; /* 0 start, 1 end, 2 permissions, 3 offset, 4 5 device, 6 inode, 7 name */
    size_t at; /* in permissions or name */
};

static int maps_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void end_field(struct line *line)
{
    uint64_t number = line->number;
    switch (line->field) {
    case 0:
        line->map.start = number;
        break;
    case 1:
        line->map.end = number;
        break;
    case 3:
        line->map.offset = number;
        break;
    case 4:
    case 5:
        line->map.device = line->map.device << 32 | number;
        break;
    case 6:
        line->map.inode = number;
        break;
    default:
        break;
    }
    line->number = 0;
    line->at = 0;
    line->field++;
}

static void take_maps_char(struct line *line, char c)
{
    if (line->field == 7) {
        if (c == ' ' && line->at == 0)
            return;
        if (line->at < sizeof line->map.name)
            line->map.name[line->at++] = c;
    } else if (c == ' ' || (c == '-' && line->field == 0) || (c == ':' && line->field == 4)) {
        end_field(line);
    } else if (line->field == 2) {
        line->map.read |= line->at == 0 && c == 'r';
        line->map.exec |= line->at == 2 && c == 'x';
        line->at++;
    } else if (maps_hex_digit(c) >= 0) {
        line->number = line->number * (line->field == 6 ? 10 : 16) + (uint64_t)maps_hex_digit(c);
    }
}

bool hx_maps_each(char *buffer, size_t len, bool (*each)(void *context, const struct hx_map *map),
                  void *context)
{
    static const char path[] = "/proc/self/maps";
    long fd =
        raw_maps_syscall(SYS_openat, (uint64_t)AT_FDCWD, (uint64_t)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct line line = {0};
    bool more = true;
    long got = 0;
    while (more) {
        got = raw_maps_syscall(SYS_read, (uint64_t)fd, (uint64_t)buffer, len, 0);
        if (got == -4)
            continue; /* EINTR */
        if (got <= 0)
            break;
        for (long i = 0; i < got && more; i++) {
            if (buffer[i] != '\n') {
                take_maps_char(&line, buffer[i]);
                continue;
            }
            if (line.field == 6)
                end_field(&line);
            more = each(context, &line.map);
            memset(&line, 0, sizeof line);
        }
    }
    raw_maps_syscall(SYS_close, (uint64_t)fd, 0, 0, 0);
    return got >= 0;
}

struct own_search {
    struct hx_unwind_thread *thread;
    uint64_t sp, on_stack;
};

static bool find_own_stack(void *context, const struct hx_map *map)
{
    struct own_search *search = context;
    struct hx_unwind_thread *thread = search->thread;
    if (search->on_stack >= map->start && search->on_stack < map->end)
        thread->own[0] = (struct hx_span){map->start, map->end};
    if (thread->self >= map->start && thread->self < map->end) {
        thread->own[1] = (struct hx_span){map->start, thread->self};
        return !(search->sp >= map->start && search->sp < thread->self);
    }
    return thread->own[0].end == 0 || thread->own[1].end == 0;
}

bool hx_find_own(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t sp)
{
    bool barred = atomic_load_explicit(&unwind->barred, memory_order_relaxed) != 0;
    if (!thread->looked && !barred) {
        struct own_search search = {thread, sp, unwind->on_stack};
        hx_maps_each(thread->buffer, sizeof thread->buffer, find_own_stack, &search);
        thread->looked = true;
    }
    struct hx_span *stack = &thread->own[0];
    if (stack->end != 0 && sp < stack->start && stack->start - sp < GROWTH_MAX && !barred &&
        hx_mapped(sp, stack->start, thread->buffer, sizeof thread->buffer))
        stack->start = sp & ~(PAGE - 1);
    for (int i = 0; i < 2; i++)
        if (sp >= thread->own[i].start && sp < thread->own[i].end) {
            thread->now = thread->own[i];
            return true;
        }
    return false;
}
