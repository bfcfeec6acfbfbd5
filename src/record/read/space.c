/* space.c - where code lies in a recorded process, and unwinding through it. */
#include "record/read/space.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "base/lower_bound.h"
#include "base/proc.h"
#include "base/timing.h"
#include "model/process.h"

#include <stdlib.h>
#include <string.h>

#define RULES_CACHED 4096 /* a power of two */
#define REFRESH_GAP_NS                                                                             \
    100000000 /* between readings because of an address that is in no mapping                      \
               */

/* Functions whose frames are the allocator's own, not its caller's. */
static const char *const allocator_functions[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "free",
    "cfree",
    "free_sized",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "mallocx",
    "rallocx",
    "je_malloc",
    "je_calloc",
    "je_realloc",
    "je_memalign",
    "je_aligned_alloc",
    "je_posix_memalign",
    "je_mallocx",
    "je_rallocx",
    "tc_malloc",
    "tc_calloc",
    "tc_realloc",
    "tc_memalign",
    "tc_posix_memalign",
    "tc_new",
    "tc_newarray",
    "mi_malloc",
    "mi_calloc",
    "mi_realloc",
    "mi_malloc_aligned",
    "mi_new",
};

struct span {
    uint64_t start, end; /* p_vaddr */
};

/* What is known of a file, by its number. */
struct file_info {
    bool has_info, has_cfi;
    bool has_allocator;
    struct hx_cfi cfi;
    HX_VEC(struct span) allocator;
};

struct cached_rule {
    uint64_t start, end; /* p_vaddr; end 0: empty */
    uint32_t file;
    bool found;
    struct hx_cfi_rule rule;
};

struct hx_space {
    pid_t pid;
    hx_code *code;
    HX_VEC(struct hx_space_part) parts; /* sorted, apart */
    HX_VEC(struct file_info) files;
    struct cached_rule *rules; /* RULES_CACHED */
    bool fixed;                /* the mappings are not read again */
    uint64_t futile_ns;        /* when the mappings were read last because of an address, in vain */
};

static hx_error *create_space(pid_t pid, hx_code *code, hx_space **ret)
{
    hx_space *space = calloc(1, sizeof *space);
    HX_NEED(space);
    space->pid = pid;
    space->code = code;
    space->rules = calloc(RULES_CACHED, sizeof *space->rules);
    if (!space->rules) {
        free(space);
        return hx_error_nomem();
    }
    *ret = space;
    return NULL;
}

static hx_error *space_created(hx_space *space, hx_error *err, hx_space **ret)
{
    if (err)
        hx_space_destroy(space);
    else
        *ret = space;
    return err;
}

hx_error *hx_space_create(pid_t pid, hx_code *code, hx_space **ret)
{
    hx_space *space;
    HX_TRY(create_space(pid, code, &space));
    return space_created(space, hx_space_refresh(space), ret);
}

void hx_space_destroy(hx_space *space)
{
    if (!space)
        return;
    for (size_t i = 0; i < space->files.n; i++)
        hx_vec_free(&space->files.v[i].allocator);
    hx_vec_free(&space->files);
    hx_vec_free(&space->parts);
    free(space->rules);
    free(space);
}

/* The part that a mapping is: its file, and how addresses of it read in the file. */
static hx_error *mapping_space_part(hx_space *space, const struct hx_mapping *mapping,
                                    struct hx_space_part *ret)
{
    *ret = (struct hx_space_part){mapping->start, mapping->end, HX_NO_FILE, 0};
    HX_TRY(hx_code_add(space->code, space->pid, mapping, &ret->file));
    if (ret->file != HX_NO_FILE && !hx_code_bias(space->code, ret->file, mapping, &ret->bias))
        ret->bias = mapping->start - mapping->offset; /* at least where it is in the file */
    return NULL;
}

/* Code among the mappings takes the place of what was known, if there is any. */
static hx_error *take_mappings(hx_space *space, const struct hx_mapping *mapping, size_t n)
{
    hx_error *err = NULL;
    HX_VEC(struct hx_space_part) parts = {0};
    for (size_t i = 0; i < n && !err; i++) {
        struct hx_space_part part;
        if (!(mapping[i].prot & HX_PROT_X) || strcmp(mapping[i].path, "[vsyscall]") == 0)
            continue;
        err = mapping_space_part(space, &mapping[i], &part);
        if (!err && !hx_vec_push(&parts, part))
            err = hx_error_nomem();
    }
    if (err || !parts.n) {
        hx_vec_free(&parts);
        return err;
    }
    free(space->parts.v);
    space->parts.v = parts.v;
    space->parts.n = parts.n;
    space->parts.cap = parts.cap;
    return NULL;
}

hx_error *hx_space_refresh(hx_space *space)
{
    size_t n = 0;
    struct hx_mapping *mapping = NULL;
    pid_t living = hx_proc_living(space->pid);
    hx_error *err = hx_proc_read_mappings(living ? living : space->pid, "maps", &mapping, &n);
    if (err) { /* it is gone: what was known is kept */
        bool nomem = err->kind == HX_E_NOMEM;
        if (!nomem)
            hx_error_free(err);
        return nomem ? err : NULL;
    }
    err = take_mappings(space, mapping, n);
    hx_mappings_free(mapping, n);
    return err;
}

hx_error *hx_space_create_fixed(pid_t pid, hx_code *code, const struct hx_mapping *mapping,
                                size_t n, hx_space **ret)
{
    hx_space *space;
    HX_TRY(create_space(pid, code, &space));
    space->fixed = true;
    return space_created(space, take_mappings(space, mapping, n), ret);
}

static const struct hx_space_part *mapped_part(const hx_space *space, uint64_t pc)
{
    size_t low = HX_LOWER_BOUND(space->parts.n, i, space->parts.v[i].end <= pc);
    return low < space->parts.n && space->parts.v[low].start <= pc ? &space->parts.v[low] : NULL;
}

const struct hx_space_part *hx_space_find(hx_space *space, uint64_t pc)
{
    const struct hx_space_part *part = mapped_part(space, pc);
    if (part || space->fixed || pc < 4096 || pc >> 63 ||
        hx_now_ns() - space->futile_ns < REFRESH_GAP_NS)
        return part;
    hx_error_free(hx_space_refresh(space)); /* without it, the address has no file */
    part = mapped_part(space, pc);
    if (!part)
        space->futile_ns = hx_now_ns();
    return part;
}

size_t hx_space_parts(const hx_space *space, const struct hx_space_part **ret)
{
    *ret = space->parts.v;
    return space->parts.n;
}

/* --- files ----------------------------------------------------------------------- */

/* NULL: out of memory, or no file. */
static struct file_info *info_of(hx_space *space, uint32_t file)
{
    size_t n = space->files.n;
    if (file == HX_NO_FILE || file >= hx_code_count(space->code))
        return NULL;
    if (file >= n) {
        if (!hx_vec_reserve(&space->files, (size_t)file + 1))
            return NULL;
        memset(space->files.v + n, 0, (file + 1 - n) * sizeof *space->files.v);
        space->files.n = (size_t)file + 1;
    }
    struct file_info *info = &space->files.v[file];
    if (info->has_info)
        return info;
    info->has_info = true;
    info->has_cfi = hx_code_cfi(space->code, file, &info->cfi);
    return info;
}

/* Symbols take their time: they are looked at when something is placed, not for unwinding. */
static void find_allocator(hx_space *space, uint32_t file, struct file_info *info)
{
    info->has_allocator = true;
    for (size_t i = 0; i < sizeof allocator_functions / sizeof *allocator_functions; i++) {
        uint64_t start, size;
        if (hx_code_function(space->code, file, allocator_functions[i], &start, &size) &&
            !hx_vec_push(&info->allocator, (struct span){start, start + size}))
            break;
    }
}

/* A return address may lie just behind its function. */
static bool in_allocator(const struct file_info *info, uint64_t vaddr)
{
    for (size_t i = 0; i < info->allocator.n; i++)
        if (vaddr >= info->allocator.v[i].start && vaddr <= info->allocator.v[i].end)
            return true;
    return false;
}

/* The code whose file has data at an address: all segments of a file have one bias, and code lies
 * between them or beside them. */
static const struct hx_space_part *adjacent_data(const hx_space *space, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(space->parts.n, i, space->parts.v[i].start <= addr);
    for (size_t i = low ? low - 1 : 0; i <= low && i < space->parts.n; i++) {
        const struct hx_space_part *part = &space->parts.v[i];
        uint64_t offset;
        if (part->file != HX_NO_FILE &&
            hx_code_file_offset(space->code, part->file, addr - part->bias, &offset))
            return part;
    }
    return NULL;
}

/* What was loaded from a file, code or data; the mappings are read again when it is nowhere. */
static const struct hx_space_part *find_loaded(hx_space *space, uint64_t addr)
{
    const struct hx_space_part *part = mapped_part(space, addr);
    if (!part)
        part = adjacent_data(space, addr);
    if (!part)
        part = hx_space_find(space, addr);
    return part ? part : adjacent_data(space, addr);
}

void hx_space_locate(void *context, uint64_t pc, struct hx_location *ret)
{
    hx_space *space = context;
    *ret = (struct hx_location){.file = HX_NO_FILE, .vaddr = pc};
    const struct hx_space_part *part = find_loaded(space, pc);
    if (!part || part->file == HX_NO_FILE)
        return;
    ret->file = part->file;
    ret->vaddr = pc - part->bias;
    struct file_info *info = info_of(space, ret->file);
    if (info && !info->has_allocator)
        find_allocator(space, ret->file, info);
    ret->allocator = info && in_allocator(info, ret->vaddr);
    ret->start = hx_code_is_start(space->code, ret->file, ret->vaddr);
}

/* --- unwinding -------------------------------------------------------------------- */

/* The rule at an address in a file. False: no table covers it. */
static bool find_rule(hx_space *space, uint32_t file, uint64_t vaddr, struct hx_cfi_rule *ret)
{
    struct cached_rule *cached = &space->rules[hx_hash(file, vaddr) & (RULES_CACHED - 1)];
    if (cached->end <= vaddr || cached->start > vaddr || cached->file != file) {
        const struct file_info *info = info_of(space, file);
        struct cached_rule found = {.start = vaddr, .end = vaddr + 1, .file = file};
        if (!info || !info->has_cfi)
            return false;
        found.found = hx_cfi_find(&info->cfi, vaddr, &found.rule, &found.start, &found.end);
        if (!found.found) {
            found.start = vaddr;
            found.end = vaddr + 1;
        }
        *cached = found;
    }
    *ret = cached->rule;
    return cached->found;
}

/* Code without a table (a JIT) keeps frame pointers, if anything. */
static const struct hx_cfi_rule frame_pointer_rule = {
    .cfa = HX_CFA_FP,
    .fp = HX_SAVE_AT_CFA,
    .ra = HX_SAVE_AT_CFA,
    .cfa_off = 16,
    .fp_off = -16,
    .ra_off = -8,
};

static bool unwind_rule_at(hx_space *space, const struct hx_cfi_frame *frame,
                           struct hx_cfi_rule *ret)
{
    uint64_t pc = frame->exact ? frame->pc : frame->pc - 1;
    const struct hx_space_part *part = hx_space_find(space, pc);
    if (!part)
        return false;
    if (part->file != HX_NO_FILE && find_rule(space, part->file, pc - part->bias, ret))
        return true;
    const struct file_info *info = part->file == HX_NO_FILE ? NULL : info_of(space, part->file);
    *ret = frame_pointer_rule;
    return (!info || !info->has_cfi) && frame->fp_known;
}

/* One step out. The caller of what is no code (a NULL function pointer) is the return address that
 * the call has pushed. */
static enum hx_step step_out(hx_space *space, struct hx_cfi_frame *frame,
                             bool (*read)(void *context, uint64_t addr, uint64_t *ret),
                             void *context)
{
    struct hx_cfi_rule rule;
    uint64_t caller;
    if (unwind_rule_at(space, frame, &rule))
        return hx_cfi_step(&rule, frame, read, context);
    if (!frame->exact || hx_space_find(space, frame->pc) || !read(context, frame->sp, &caller) ||
        !hx_space_find(space, caller - 1))
        return HX_STEP_CUT;
    frame->pc = caller;
    frame->sp += 8;
    frame->exact = false;
    return HX_STEP_OK;
}

bool hx_space_unwind(hx_space *space, struct hx_cfi_frame from,
                     bool (*read)(void *context, uint64_t addr, uint64_t *ret), void *context,
                     uint64_t *frame, struct hx_cfi_frame *state, size_t max, size_t *n,
                     uint64_t *exact)
{
    while (*n < max) {
        enum hx_step step = step_out(space, &from, read, context);
        if (step == HX_STEP_END || (step == HX_STEP_OK && !from.pc && !from.exact))
            return true;
        if (step != HX_STEP_OK || HX_EV_TAG(from.pc)) /* no address: it would read as a region */
            return false;
        if (from.exact && *n < 64)
            *exact |= (uint64_t)1 << *n;
        if (state)
            state[*n] = from;
        frame[(*n)++] = from.pc;
    }
    return false;
}
