/* scc.c - what a program says by heapx/scc.h: the listener of its modules.
 *
 * Each program and shared object that includes the header has a variable where the listener is
 * put; a note tells where. They are looked for at the start, and when the loader has mapped more:
 * it allocates then, before any code of what it loads runs. Marks are kept right whether or not
 * anything is recorded at the moment, from the start of the recording to its end.
 */
#include "record/preload/wrapper.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

__thread struct hx_marks hx_marks;

/* --- marks ---------------------------------------------------------------------------------- */

/* Memory for many, once a thread needs it. */
static __attribute__((noinline, cold)) void grow(struct hx_thread_state *thread)
{
    if (atomic_load_explicit(&hx_process.barred, memory_order_relaxed))
        return;
    long p = hx_sys6(SYS_mmap, 0, HX_MARKS_MAX * sizeof(struct hx_mark), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p < 0 && p > -4096)
        return;
    if (hx_process.has_key) /* to give it back */
        pthread_setspecific(hx_process.key, thread);
    hx_marks_grow(&hx_marks, (struct hx_mark *)p);
}

/* The thread is about to end. */
void hx_marks_leave(void)
{
    struct hx_mark *large = hx_marks.large;
    if (!large || hx_marks.n > HX_MARKS_INLINE)
        return;
    memcpy(hx_marks.mark, large, sizeof hx_marks.mark);
    atomic_signal_fence(memory_order_seq_cst);
    hx_marks.large = NULL;
    HX_SYS(SYS_munmap, large, HX_MARKS_MAX * sizeof(struct hx_mark), 0, 0);
}

static bool keeps_marks(void)
{
    int stage = atomic_load_explicit(&hx_process.stage, memory_order_relaxed);
    return stage == HX_STAGE_RECORDS || stage == HX_STAGE_STARTING;
}

/* May events be written? A child decides it now. */
static bool records(void)
{
    return hx_mode() != HX_GATE_SHUT ||
           (hx_process.stage == HX_STAGE_RECORDS && hx_gate_check() && hx_mode() != HX_GATE_SHUT);
}

/* False: there is no room. */
static bool place_and_push_mark(struct hx_thread_state *thread, const struct hx_writer *writer,
                                const struct hx_caller *caller, struct hx_mark *mark)
{
    mark->sp = caller->sp;
    mark->base = 1;
    if (writer)
        hx_unwind_complete_mark(hx_process.unwind, writer->unwind, caller->pc, caller->sp,
                                caller->fp, mark);
    if (HX_RARELY(hx_marks.n == HX_MARKS_INLINE && !hx_marks.large))
        grow(thread);
    return hx_marks_push(&hx_marks, mark);
}

static void take_caller(const struct hx_caller *caller, uint64_t tag, uint64_t object)
{
    struct hx_thread_state *thread = &hx_thread_state;
    const struct hx_writer *first = thread->writer[0];
    struct hx_mark which = {.sp = caller->sp, .word = tag, .object = object, .base = 1};
    if (HX_LIKELY(first && hx_unwind_on_own(first->unwind, caller->sp, caller->sp))) {
        which.base = 0;
    } else if (records()) {
        struct hx_writer *writer = hx_writer_enter(thread);
        if (writer) {
            which.base = hx_unwind_base(hx_process.unwind, writer->unwind, caller->pc, caller->sp,
                                        caller->fp);
            hx_writer_exit(thread, writer);
        }
    }
    hx_marks_pop(&hx_marks, &which);
}

static void record_unbalanced(void)
{
    uint32_t n = hx_marks.unbalanced;
    if (HX_RARELY(n) && records()) {
        hx_marks.unbalanced = 0;
        hx_record_word(HX_EV_UNBALANCED, n);
    }
}

/* --- the listener --------------------------------------------------------------------------- */

static void push_centre(const struct heapx_centre *centre)
{
    struct hx_caller caller = HX_CALLER();
    struct hx_thread_state *thread = &hx_thread_state;
    if (!keeps_marks() || !centre)
        return;
    struct hx_writer *writer = records() ? hx_writer_enter(thread) : NULL;
    if (!keeps_marks())
        return;
    struct hx_mark mark = {.word = hx_process.region ? hx_centre_word(centre) : HX_EV_REGION,
                           .object = (uint64_t)centre};
    bool there = place_and_push_mark(thread, writer, &caller, &mark);
    if (writer) {
        if (HX_LIKELY(there))
            hx_writer_word(writer, HX_EV_ENTRY,
                           hx_unwind_marked(hx_process.unwind, writer->unwind, caller.pc, caller.sp,
                                            caller.fp, &hx_marks));
        hx_writer_exit(thread, writer);
    }
    record_unbalanced();
}

static void pop_region(const struct heapx_centre *centre)
{
    struct hx_caller caller = HX_CALLER();
    if (!keeps_marks() || !centre)
        return;
    take_caller(&caller, HX_EV_REGION, (uint64_t)centre);
    record_unbalanced();
}

/* Keys of a region that this one goes on from mean the same here, as far as they were given out. */
static uint64_t known_key(uint64_t id)
{
    uint64_t key = id & UINT32_MAX;
    for (uint32_t i = 0; i < hx_process.n_stamps; i++)
        if (hx_process.stamp[i].stamp == id >> 32)
            return key >= HX_EV_KEY_FIRST && key < hx_process.stamp[i].end ? key : 0;
    return 0;
}

static uint64_t capture_current(void)
{
    struct hx_caller caller = HX_CALLER();
    struct hx_thread_state *thread = &hx_thread_state;
    struct hx_writer *writer = keeps_marks() && records() ? hx_writer_enter(thread) : NULL;
    if (!writer)
        return 0;
    uint64_t key = hx_unwind_marked(hx_process.unwind, writer->unwind, caller.pc, caller.sp,
                                    caller.fp, &hx_marks);
    key = hx_unwind_capture(hx_process.unwind, writer->unwind, key);
    uint64_t stamp = hx_process.stamp[0].stamp;
    hx_writer_exit(thread, writer);
    record_unbalanced();
    return key >= HX_EV_KEY_FIRST ? stamp << 32 | key : 0;
}

static void push_object_mark(uint64_t id)
{
    struct hx_caller caller = HX_CALLER();
    struct hx_thread_state *thread = &hx_thread_state;
    if (!keeps_marks())
        return;
    struct hx_writer *writer = records() ? hx_writer_enter(thread) : NULL;
    if (!keeps_marks())
        return;
    struct hx_mark mark = {.word = HX_EV_DEFERRED | known_key(id), .object = id};
    place_and_push_mark(thread, writer, &caller, &mark);
    if (writer)
        hx_writer_exit(thread, writer);
}

static void pop_object_mark(uint64_t id)
{
    struct hx_caller caller = HX_CALLER();
    if (!keeps_marks())
        return;
    take_caller(&caller, HX_EV_DEFERRED, id);
    record_unbalanced();
}

static const struct heapx_scc_listener listener = {
    .version = 1,
    .push = push_centre,
    .pop = pop_region,
    .capture = capture_current,
    .enter = push_object_mark,
    .leave = pop_object_mark,
};

/* --- modules ------------------------------------------------------------------------------------
 */

/* A program header's memory. */
static bool lies_in(const struct dl_phdr_info *info, const ElfW(Phdr) * phdr, uint64_t at,
                    uint64_t bytes)
{
    uint64_t from = info->dlpi_addr + phdr->p_vaddr;
    return at >= from && at - from <= phdr->p_memsz && bytes <= phdr->p_memsz - (at - from);
}

/* Can it be written to, now and later? */
static bool is_writable_data(const struct dl_phdr_info *info, uint64_t at, uint64_t bytes)
{
    bool writable = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
        if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_W && lies_in(info, phdr, at, bytes))
            writable = true;
        if (phdr->p_type == PT_GNU_RELRO && lies_in(info, phdr, at, 1))
            return false;
    }
    return writable && at % sizeof(uint64_t) == 0;
}

/* Is it what the note says, and listened to by nobody? What is not ours is never written to. */
static bool is_free(const struct heapx_scc_module *module)
{
    return !module->listener && !module->unused[0] && !module->unused[1] && !module->unused[2];
}

/* The notes of a segment: of owner "heapx" and type 2, the distance from what it holds. */
static void find_listener_note(const struct dl_phdr_info *info, uint64_t at, uint64_t end,
                               uint64_t align)
{
    ElfW(Nhdr) note;
    while (end - at >= sizeof note) {
        memcpy(&note, (const void *)at, sizeof note);
        uint64_t name = at + sizeof note, left = end - name;
        uint64_t name_bytes = (note.n_namesz + align - 1) & ~(align - 1);
        uint64_t bytes = (note.n_descsz + align - 1) & ~(align - 1);
        if (name_bytes > left || note.n_descsz > left - name_bytes)
            return;
        uint64_t body = name + name_bytes, to;
        if (note.n_type == 2 && note.n_namesz == 6 && note.n_descsz == sizeof to &&
            memcmp((const void *)name, "heapx", 6) == 0) {
            memcpy(&to, (const void *)body, sizeof to);
            struct heapx_scc_module *module = (struct heapx_scc_module *)(body + to);
            if (is_writable_data(info, body + to, sizeof *module) && is_free(module))
                __atomic_store_n(&module->listener, &listener, __ATOMIC_RELEASE);
        }
        if (bytes > left - name_bytes)
            return;
        at = body + bytes;
    }
}

static bool is_in_segment(const struct dl_phdr_info *info, uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_R &&
            lies_in(info, &info->dlpi_phdr[i], at, bytes))
            return true;
    return false;
}

static int find_listener(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
        uint64_t at = info->dlpi_addr + phdr->p_vaddr;
        if (phdr->p_type == PT_NOTE && is_in_segment(info, at, phdr->p_filesz))
            find_listener_note(info, at, at + phdr->p_filesz, phdr->p_align == 8 ? 8 : 4);
    }
    return 0;
}

void hx_scc_find(void)
{
    dl_iterate_phdr(find_listener, NULL);
}

/* The loader holds its lock, or uses nothing that it guards: the list only grows meanwhile. */
void hx_scc_loader_allocates(void)
{
    if (keeps_marks() && _r_debug.r_state == RT_ADD)
        hx_scc_find();
}
