/* stacks.c - live stacks, thread-local storage, and stacks of threads that have exited. */
#include "attach/roots/stacks.h"

#include "attach/ranges.h"
#include "attach/roots/pthread_record.h"
#include "attach/roots/sigframe.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>

#define TLS_MAX      ((uint64_t)1 << 20)  /* static TLS of a thread whose stack has no record */
#define GUARDED_MAX  ((uint64_t)64 << 20) /* a guarded mapping up to this size is one stack */
#define DATA_MAX     64                   /* writable segments looked at in one module */
#define RECORD_ALIGN 16                   /* of struct pthread, in all versions */

struct finder {
    const struct hx_snapshot *snapshot;
    const struct hx_image *image;
    hx_modules *modules; /* NULL: not wanted */
    struct hx_stacks *stacks;
    const struct hx_thread **by_tid; /* threads by ns_tid */
    uint64_t *pointers;              /* all stack pointers, sorted */
    uint64_t *records;               /* thread pointers, sorted */
    bool *placed;                    /* by index of thread: its stack was found */
    size_t n;
    size_t tid_offset; /* in struct pthread; 0: unknown */
    uint64_t main_sp;  /* of the first thread, on the stack that a signal may have interrupted */
    bool nomem;
};

static void push_stack_part(struct finder *finder, uint64_t start, uint64_t end,
                            enum hx_root_kind kind, pid_t tid)
{
    start = (start + 7) & ~(uint64_t)7;
    if (start < end &&
        !hx_vec_push(&finder->stacks->parts, (struct hx_stack_part){start, end, kind, tid}))
        finder->nomem = true;
}

static void add_dead(struct finder *finder, uint64_t start, uint64_t end)
{
    finder->nomem |= !hx_ranges_add(&finder->stacks->dead, start, end);
}

static void add_extent(struct finder *finder, uint64_t start, uint64_t end)
{
    finder->nomem |= !hx_ranges_add(&finder->stacks->extents, start, end);
}

/* The first address of a live stack, not below `low`. */
static uint64_t live_start(uint64_t sp, uint64_t low)
{
    uint64_t start = sp < HX_RED_ZONE ? 0 : (sp - HX_RED_ZONE) & ~(uint64_t)7;
    return start < low ? low : start;
}

static const struct hx_mapping *mapping_of(const struct finder *finder, uint64_t addr)
{
    const struct hx_snapshot *snapshot = finder->snapshot;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, addr);
    return i < snapshot->n_mappings ? &snapshot->mapping[i] : NULL;
}

static bool is_anonymous(const struct hx_mapping *mapping)
{
    return (mapping->prot & (HX_PROT_W | HX_PROT_SHARED)) == HX_PROT_W && !mapping->device &&
           (!mapping->path || !mapping->path[0] || strncmp(mapping->path, "[anon", 5) == 0);
}

static bool is_main_stack(const struct hx_mapping *mapping)
{
    return mapping && mapping->path && strcmp(mapping->path, "[stack]") == 0;
}

/* Index of the first segment that ends above addr. */
static size_t segment_after(const struct hx_snapshot *snapshot, uint64_t addr)
{
    return HX_LOWER_BOUND(snapshot->segments.n, i, snapshot->segments.v[i].end <= addr);
}

/* --- threads with a record ---------------------------------------------------- */

/* The stack and the thread-local storage of a live thread whose bounds are known. When the
 * stack pointer is elsewhere (an alternate stack, a coroutine), how much of the stack is in
 * use is unknown, and all of it counts. */
static void place_block(struct finder *finder, const struct hx_thread *thread,
                        const struct hx_pthread_record *record)
{
    uint64_t end = record->block + record->bytes, low = record->block + record->guard;
    bool inside = thread->sp >= record->block && thread->sp < end;
    uint64_t start = inside ? live_start(thread->sp, low) : low;
    uint64_t tls = hx_pthread_tls_start(finder->image, record, inside ? thread->sp : low);
    push_stack_part(finder, start, tls, HX_ROOT_STACK, thread->tid);
    push_stack_part(finder, tls, end, HX_ROOT_TLS, thread->tid);
    add_dead(finder, record->block, start);
    add_extent(finder, record->block, end);
}

/* Thread-local storage around a thread pointer that no stack block contains: the main
 * thread's, or another C library's. */
static uint64_t place_tls(struct finder *finder, const struct hx_thread *thread,
                          const struct hx_pthread_record *record)
{
    const struct hx_mapping *mapping = mapping_of(finder, thread->tp);
    if (!mapping)
        return thread->tp;
    uint64_t low = thread->tp > TLS_MAX ? thread->tp - TLS_MAX : 0;
    if (low < mapping->start)
        low = mapping->start;
    if (thread->sp >= low && thread->sp < thread->tp)
        low = thread->sp;
    uint64_t start = hx_pthread_tls_start(finder->image, record, low);
    uint64_t end =
        mapping->end - thread->tp < HX_PTHREAD_BYTES ? mapping->end : thread->tp + HX_PTHREAD_BYTES;
    push_stack_part(finder, start, end, HX_ROOT_TLS, thread->tid);
    return start;
}

/* --- threads without -------------------------------------------------------------- */

/* A mapping right above inaccessible memory is a stack made by mmap and mprotect, and below
 * the stack pointer there is nothing alive. */
static bool is_guarded(const struct finder *finder, const struct hx_mapping *mapping)
{
    const struct hx_mapping *below = mapping - 1;
    return mapping > finder->snapshot->mapping && is_anonymous(mapping) &&
           mapping->end - mapping->start <= GUARDED_MAX && below->end == mapping->start &&
           !(below->prot & (HX_PROT_R | HX_PROT_W | HX_PROT_X));
}

/* The end of the variable that contains addr, an address in a module; 0 when it has no name. */
static uint64_t variable_end(const struct finder *finder, size_t module, uint64_t addr)
{
    uint64_t ranges[DATA_MAX][2];
    size_t n = hx_module_data(finder->modules, module, ranges, DATA_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct hx_symbol *symbol;
        size_t n_symbols;
        if (addr < ranges[i][0] || addr >= ranges[i][1])
            continue;
        hx_error *err = hx_module_symbols(finder->modules, module, ranges[i][0], ranges[i][1],
                                          &symbol, &n_symbols);
        for (size_t k = 0; !err && k < n_symbols && symbol[k].address <= addr; k++)
            if (addr - symbol[k].address < symbol[k].size)
                return symbol[k].address + symbol[k].size;
        hx_error_free(err);
    }
    return 0;
}

/* The stack of a thread of which only the stack pointer is known: up to the end of the mapping,
 * or to where its thread-local storage begins. */
static void place_by_pointer(struct finder *finder, const struct hx_thread *thread,
                             uint64_t tls_start)
{
    const struct hx_mapping *mapping = mapping_of(finder, thread->sp);
    if (!mapping || !(mapping->prot & HX_PROT_W) || mapping->device)
        return;
    const struct hx_snapshot *snapshot = finder->snapshot;
    uint64_t end = mapping->end;
    if (tls_start > thread->sp && tls_start < end)
        end = tls_start;
    size_t next = segment_after(snapshot, thread->sp);
    if (next < snapshot->segments.n) {
        if (snapshot->segments.v[next].start <= thread->sp)
            return; /* on the heap: its object holds the stack */
        if (snapshot->segments.v[next].start < end)
            end = snapshot->segments.v[next].start;
    }
    size_t module = finder->modules ? hx_modules_find(finder->modules, thread->sp) : SIZE_MAX;
    if (module != SIZE_MAX) {
        uint64_t variable = variable_end(finder, module, thread->sp);
        if (!variable)
            return; /* nameless data: a root anyway */
        end = variable < end ? variable : end;
    }
    uint64_t start = live_start(thread->sp, mapping->start);
    push_stack_part(finder, start, end, HX_ROOT_STACK, thread->tid);
    if (is_main_stack(mapping) || is_guarded(finder, mapping)) {
        add_dead(finder, mapping->start, start);
        add_extent(finder, mapping->start, end);
    }
}

/* --- threads that are no more ---------------------------------------------------------- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int compare_ns_tid(const void *a, const void *b)
{
    const struct hx_thread *x = *(const struct hx_thread *const *)a;
    const struct hx_thread *y = *(const struct hx_thread *const *)b;
    return x->ns_tid < y->ns_tid ? -1 : x->ns_tid > y->ns_tid;
}

/* Index of the first of n sorted numbers that is >= value. */
static size_t lower_bound_u64(const uint64_t *v, size_t n, uint64_t value)
{
    return HX_LOWER_BOUND(n, i, v[i] < value);
}

static const struct hx_thread *thread_by_ns_tid(const struct finder *finder, pid_t tid)
{
    const struct hx_thread key = {.ns_tid = tid}, *key_pointer = &key;
    const struct hx_thread **hit =
        bsearch(&key_pointer, finder->by_tid, finder->n, sizeof *finder->by_tid, compare_ns_tid);
    return hit ? *hit : NULL;
}

/* A thread that was joined, or that was detached when it ended, keeps nothing but its dtv: the
 * next thread on this stack uses that again. One that waits to be joined keeps its record,
 * which holds the result. */
static void drop_exited(struct finder *finder, const struct hx_pthread_record *record, pid_t tid)
{
    uint64_t tp = record->address, end = record->block + record->bytes;
    bool detached = false;
    for (size_t i = 3; i < record->n; i++)
        detached |= record->word[i] == tp;
    add_extent(finder, record->block, end);
    add_dead(finder, record->block, tp);
    if (tid == 0 && !detached) {
        push_stack_part(finder, tp, end, HX_ROOT_TLS, 0);
        return;
    }
    add_dead(finder, tp, tp + 8);
    push_stack_part(finder, tp + 8, tp + 16, HX_ROOT_TLS, 0);
    add_dead(finder, tp + 16, end);
}

/* Judges a record that belongs to no thread pointer that is known. Returns where to look on. */
static uint64_t judge_record(struct finder *finder, const struct hx_pthread_record *record)
{
    uint64_t next = record->address + RECORD_ALIGN;
    if (!record->has_block || !hx_pthread_is_listed(finder->image, record, finder->tid_offset))
        return next;
    size_t sp = lower_bound_u64(finder->pointers, finder->n, record->block);
    pid_t tid = (pid_t)record->word[finder->tid_offset / 8];
    const struct hx_thread *alive = tid > 0 ? thread_by_ns_tid(finder, tid) : NULL;
    if (alive && !alive->tp) {
        place_block(finder, alive, record);
        finder->placed[alive - finder->snapshot->thread] = true;
    } else if (!alive &&
               (sp == finder->n || finder->pointers[sp] >= record->block + record->bytes)) {
        drop_exited(finder, record, tid);
    } else {
        return next;
    }
    return record->block + record->bytes;
}

/* Looks for records in [start, end) of a span. */
static void search_span(struct finder *finder, uint64_t start, uint64_t end)
{
    uint64_t at = (start + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
    HX_PEEKED peeked = {0};
    while (at < end && end - at >= 24) {
        const uint64_t *word = hx_image_peek(finder->image, at, 3, &peeked);
        if (!word)
            break;
        struct hx_pthread_record record;
        size_t known = word[0] == at ? lower_bound_u64(finder->records, finder->n, at) : 0;
        if (word[0] != at || word[2] != at || (known < finder->n && finder->records[known] == at) ||
            !hx_pthread_read(finder->image, at, &record))
            at += RECORD_ALIGN;
        else
            at = judge_record(finder, &record);
    }
}

/* Looks through anonymous memory that no allocator explains. */
static void search_exited(struct finder *finder)
{
    const struct hx_snapshot *snapshot = finder->snapshot;
    for (size_t i = 0; i < snapshot->n_mappings && !finder->nomem; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (!is_anonymous(mapping))
            continue;
        size_t segment = segment_after(snapshot, mapping->start);
        uint64_t at = mapping->start;
        while (at < mapping->end) {
            uint64_t end = mapping->end, next = mapping->end;
            if (segment < snapshot->segments.n && snapshot->segments.v[segment].start < end) {
                end = snapshot->segments.v[segment].start;
                next = snapshot->segments.v[segment++].end;
            }
            for (size_t s = hx_image_find(finder->image, at);
                 s < finder->image->n && finder->image->span[s].start < end; s++) {
                const struct hx_span *span = &finder->image->span[s];
                search_span(finder, span->start > at ? span->start : at,
                            span->end < end ? span->end : end);
            }
            at = next > at ? next : mapping->end;
        }
    }
}

/* --- all threads ---------------------------------------------------------------------------- */

/* A thread made by a bare clone() can share the thread pointer of the one that made it. */
static bool is_borrowed(const struct finder *finder, const struct hx_thread *thread,
                        const struct hx_pthread_record *record)
{
    size_t tid_word = finder->tid_offset / 8;
    if (!tid_word || tid_word >= record->n)
        return false;
    const struct hx_thread *owner = thread_by_ns_tid(finder, (pid_t)record->word[tid_word]);
    return owner && owner != thread && owner->tp == thread->tp;
}

static bool is_inside_stack(const struct hx_pthread_record *record, uint64_t sp)
{
    return record->has_block && sp >= record->block && sp - record->block < record->bytes;
}

/* Goes back from a signal handler's own stack to the one that was interrupted: takes the first
 * as a part and sets the stack pointer to where it was in the second. */
static void leave_handler(struct finder *finder, struct hx_thread *thread)
{
    const struct hx_mapping *mapping = mapping_of(finder, thread->sp);
    struct hx_sigframe frame;
    if (!mapping || !hx_sigframe_find(finder->image, thread->sp, mapping->end, &frame))
        return;
    uint64_t start = live_start(thread->sp, frame.start);
    push_stack_part(finder, start, frame.end, HX_ROOT_STACK, thread->tid);
    add_dead(finder, frame.start, start);
    add_extent(finder, frame.start, frame.end);
    thread->sp = frame.sp;
}

static void place_thread(struct finder *finder, size_t i)
{
    struct hx_thread thread = finder->snapshot->thread[i];
    struct hx_pthread_record record;
    uint64_t tls_start = 0;
    if (finder->placed[i])
        return;
    bool known = thread.tp && hx_pthread_read(finder->image, thread.tp, &record) &&
                 !is_borrowed(finder, &finder->snapshot->thread[i], &record);
    leave_handler(finder, &thread);
    if (known && record.has_block) {
        place_block(finder, &thread, &record);
    } else if (known) {
        tls_start = place_tls(finder, &thread, &record);
    } else if (thread.tp > thread.sp) {
        tls_start = thread.tp;
    }
    if (thread.sp && !(known && is_inside_stack(&record, thread.sp)))
        place_by_pointer(finder, &thread, tls_start);
    if (thread.tid == finder->snapshot->pid)
        finder->main_sp = thread.sp;
}

/* The stack that the kernel made belongs to the first thread. When that one runs elsewhere all
 * of it counts; when it has exited, and others go on, nothing does. */
static void place_main(struct finder *finder)
{
    const struct hx_snapshot *snapshot = finder->snapshot;
    const struct hx_mapping *stack = NULL;
    const struct hx_thread *first = NULL;
    for (size_t i = 0; i < snapshot->n_mappings && !stack; i++)
        if (is_main_stack(&snapshot->mapping[i]))
            stack = &snapshot->mapping[i];
    for (size_t i = 0; i < snapshot->n_threads && !first; i++)
        if (snapshot->thread[i].tid == snapshot->pid)
            first = &snapshot->thread[i];
    if (!stack || !snapshot->pid || !snapshot->n_threads)
        return;
    add_extent(finder, stack->start, stack->end);
    if (!first)
        add_dead(finder, stack->start, stack->end);
    else if (finder->main_sp < stack->start || finder->main_sp >= stack->end)
        push_stack_part(finder, stack->start, stack->end, HX_ROOT_STACK, first->tid);
}

/* --- putting it together ------------------------------------------------------------------- */

static bool prepare_stacks(struct finder *finder)
{
    const struct hx_snapshot *snapshot = finder->snapshot;
    finder->n = snapshot->n_threads;
    finder->by_tid = calloc(finder->n + 1, sizeof *finder->by_tid);
    finder->pointers = calloc(finder->n + 1, sizeof *finder->pointers);
    finder->records = calloc(finder->n + 1, sizeof *finder->records);
    finder->placed = calloc(finder->n + 1, sizeof *finder->placed);
    if (!finder->by_tid || !finder->pointers || !finder->records || !finder->placed)
        return false;
    for (size_t i = 0; i < finder->n; i++) {
        const struct hx_thread *thread = &snapshot->thread[i];
        struct hx_pthread_record record;
        finder->by_tid[i] = thread;
        finder->pointers[i] = thread->sp;
        finder->records[i] = thread->tp;
        if (!finder->tid_offset && thread->tp &&
            hx_pthread_read(finder->image, thread->tp, &record))
            finder->tid_offset = hx_pthread_tid_offset(finder->image, &record, thread->ns_tid);
    }
    qsort(finder->by_tid, finder->n, sizeof *finder->by_tid, compare_ns_tid);
    qsort(finder->pointers, finder->n, sizeof *finder->pointers, compare_u64);
    qsort(finder->records, finder->n, sizeof *finder->records, compare_u64);
    return true;
}

static int compare_stack_starts(const void *a, const void *b)
{
    const struct hx_stack_part *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Where two parts overlap, the one that begins later keeps the common bytes, unless it is but
 * a piece of the other (a handler's stack that lies within the thread's own). */
static void disentangle(struct hx_stacks *stacks)
{
    struct hx_stack_part *v = stacks->parts.v;
    size_t kept = 0;
    if (stacks->parts.n)
        qsort(v, stacks->parts.n, sizeof *v, compare_stack_starts);
    for (size_t i = 0; i < stacks->parts.n; i++) {
        if (kept && v[kept - 1].end >= v[i].end && v[kept - 1].tid == v[i].tid &&
            v[kept - 1].kind == v[i].kind)
            continue;
        if (kept && v[kept - 1].end > v[i].start)
            v[kept - 1].end = v[i].start;
        if (kept && v[kept - 1].end <= v[kept - 1].start)
            kept--;
        v[kept++] = v[i];
    }
    stacks->parts.n = kept;
}

/* No evidence outweighs a stack pointer: what lies above one is not dead. */
static void spare_running(struct finder *finder)
{
    hx_ranges *dead = &finder->stacks->dead;
    for (size_t i = 0; i < dead->n; i++) {
        size_t first = lower_bound_u64(finder->pointers, finder->n, dead->v[i].start);
        if (first == finder->n || finder->pointers[first] >= dead->v[i].end)
            continue;
        dead->v[i].end = live_start(finder->pointers[first], dead->v[i].start);
    }
}

hx_error *hx_stacks_find(const struct hx_snapshot *snapshot, hx_modules *modules,
                         struct hx_stacks *ret)
{
    struct hx_stacks stacks = {0};
    struct finder finder = {
        .snapshot = snapshot, .image = &snapshot->image, .modules = modules, .stacks = &stacks};
    finder.nomem = !prepare_stacks(&finder);
    if (!finder.nomem && finder.tid_offset)
        search_exited(&finder);
    for (size_t i = 0; i < finder.n && !finder.nomem; i++)
        place_thread(&finder, i);
    if (!finder.nomem)
        place_main(&finder);
    if (!finder.nomem) {
        disentangle(&stacks);
        spare_running(&finder);
        hx_ranges_join(&stacks.dead);
        hx_ranges_join(&stacks.extents);
    }
    free(finder.by_tid);
    free(finder.pointers);
    free(finder.records);
    free(finder.placed);
    if (finder.nomem) {
        hx_stacks_deinit(&stacks);
        return hx_error_nomem();
    }
    *ret = stacks;
    return NULL;
}

void hx_stacks_deinit(struct hx_stacks *stacks)
{
    hx_vec_free(&stacks->parts);
    hx_vec_free(&stacks->dead);
    hx_vec_free(&stacks->extents);
}
