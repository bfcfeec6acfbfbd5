/* unwind_rules.c - from an address to its rule: the process-wide cache, and what fills it.
 *
 * The object of an address is told by the dynamic linker, where it has a lock-free way to say it,
 * else by the kernel's list of mappings; never by dl_iterate_phdr, whose lock may be held by the
 * thread that a signal interrupted, or by one that waits for this one.
 */
#include "record/preload/unwind_private.h"

#include <dlfcn.h>
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#define PAGE ((uint64_t)4096)

#ifndef DLFO_STRUCT_HAS_EH_DBASE
struct dl_find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    void *link_map, *eh_frame;
    unsigned long long reserved[7];
};
#define DLFO_STRUCT_HAS_EH_DBASE 0
#endif
extern int _dl_find_object(void *address, struct dl_find_object *ret) __attribute__((weak));

/* An ELF file as it lies in memory, readable from base to end but for gaps between segments. */
struct object {
    uint64_t base, end;
};

/* Where the bytes [addr, addr + len) of a readable segment of the object go on to; 0: in none. */
static uint64_t segment_end(const Elf64_Phdr *headers, int n, uint64_t bias, uint64_t addr,
                            uint64_t end)
{
    for (int i = 0; i < n; i++) {
        uint64_t start = bias + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_R) && addr >= start &&
            addr - start < headers[i].p_filesz) {
            uint64_t to = start + headers[i].p_filesz;
            return to < end ? to : end;
        }
    }
    return 0;
}

/* The address of .eh_frame as .eh_frame_hdr gives it; 0 when it does not, or oddly. */
static uint64_t eh_frame_address(const uint8_t *hdr, uint64_t len)
{
    if (len < 12 || hdr[0] != 1)
        return 0;
    uint64_t at = (uint64_t)(uintptr_t)hdr + 4;
    uint64_t base = (hdr[1] & 0x70) == 0x10 ? at : (hdr[1] & 0x70) == 0x30 ? at - 4 : 0;
    if ((hdr[1] & 0x80) || (base == 0 && (hdr[1] & 0x70)))
        return 0;
    int32_t small;
    uint64_t large;
    memcpy(&small, hdr + 4, 4);
    memcpy(&large, hdr + 4, 8);
    switch (hdr[1] & 0x0f) {
    case 0x03: /* udata4 */
        return base + (uint32_t)small;
    case 0x0b: /* sdata4 */
        return base + (uint64_t)(int64_t)small;
    case 0x00: /* absptr, udata8, sdata8 */
    case 0x04:
    case 0x0c:
        return base + large;
    default:
        return 0;
    }
}

/* The program headers of the file whose first page lies at base: *ret_n of them. */
static const Elf64_Phdr *program_headers(uint64_t base, int *ret_n)
{
    Elf64_Ehdr ehdr;
    memcpy(&ehdr, (const void *)(uintptr_t)base, sizeof ehdr);
    *ret_n = 0;
    if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
        ehdr.e_phentsize != sizeof(Elf64_Phdr) || ehdr.e_phoff > PAGE || ehdr.e_phoff % 8 != 0 ||
        ehdr.e_phnum > (PAGE - ehdr.e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    *ret_n = ehdr.e_phnum;
    return (const Elf64_Phdr *)(uintptr_t)(base + ehdr.e_phoff);
}

/* The tables of an object, every byte of which can be read. */
static bool find_tables(const struct object *object, struct hx_cfi *ret)
{
    int n;
    if (object->end - object->base < PAGE)
        return false;
    const Elf64_Phdr *headers = program_headers(object->base, &n);
    const Elf64_Phdr *hdr = NULL, *first = NULL;
    for (int i = 0; i < n; i++) {
        if (headers[i].p_type == PT_LOAD && first == NULL)
            first = &headers[i];
        if (headers[i].p_type == PT_GNU_EH_FRAME)
            hdr = &headers[i];
    }
    if (first == NULL || hdr == NULL || first->p_offset >= PAGE)
        return false;
    uint64_t bias = object->base - (first->p_vaddr & ~(PAGE - 1));

    uint64_t at = bias + hdr->p_vaddr;
    uint64_t end = segment_end(headers, n, bias, at, object->end);
    if (end == 0 || at < object->base)
        return false;
    uint64_t len = end - at < hdr->p_memsz ? end - at : hdr->p_memsz;
    ret->hdr = (struct hx_cfi_bytes){(const uint8_t *)(uintptr_t)at, len, at};
    uint64_t frame = eh_frame_address(ret->hdr.bytes, len);
    end = segment_end(headers, n, bias, frame, object->end);
    if (frame == 0 || end == 0 || frame < object->base)
        return false;
    ret->frame = (struct hx_cfi_bytes){(const uint8_t *)(uintptr_t)frame, end - frame, frame};
    return true;
}

/* --- the kernel's list -------------------------------------------------------------------------
 */

/* The mapping of pc, and the readable ones of the same file that lie before and around it without
 * a gap, beginning with the file's own beginning. */
struct mapping {
    uint64_t pc;
    struct hx_map map; /* that contains pc; end 0: none */
    struct object object;
    uint64_t inode, device;
};

static bool match_mapping(void *context, const struct hx_map *map)
{
    struct mapping *found = context;
    struct object *object = &found->object;
    if (map->read && map->inode != 0 && map->start == object->end && map->inode == found->inode &&
        map->device == found->device) {
        object->end = map->end;
    } else {
        if (found->map.end != 0)
            return false;
        bool begins = map->read && map->offset == 0 &&
                      (map->inode != 0 || memcmp(map->name, "[vdso]", 6) == 0);
        *object = begins ? (struct object){map->start, map->end} : (struct object){0};
        found->inode = map->inode;
        found->device = map->device;
    }
    if (found->pc >= map->start && found->pc < map->end)
        found->map = *map;
    return map->start <= found->pc || found->map.end != 0;
}

/* --- rules -------------------------------------------------------------------------------------
 */

static uint32_t small_rule(const struct hx_cfi_rule *rule, uint64_t pc)
{
    if (rule->signal)
        return HX_RULE_NONE;
    if (rule->cfa == HX_CFA_END)
        return HX_RULE_MAKE_OTHER(HX_OTHER_END, 0);
    if (rule->ra != HX_SAVE_AT_CFA || rule->ra_off != -8)
        return HX_RULE_NONE;
    uint32_t kind = rule->cfa == HX_CFA_FP ? HX_RULE_FP : HX_RULE_SP;
    int64_t offset = rule->cfa_off;
    if (rule->cfa == HX_CFA_PLT)
        offset = (int64_t)(pc & 15) >= rule->cfa_off ? 16 : 8;
    else if (rule->cfa != HX_CFA_SP && rule->cfa != HX_CFA_FP)
        return HX_RULE_NONE;
    if (offset < 8 || offset % 8 != 0 || offset / 8 > 0x3ffff)
        return HX_RULE_NONE;
    uint32_t saved;
    if (rule->fp == HX_SAVE_SAME)
        saved = 0;
    else if (rule->fp == HX_SAVE_UNKNOWN)
        saved = 4095;
    else if (rule->fp == HX_SAVE_AT_CFA && rule->fp_off < 0 && rule->fp_off % 8 == 0 &&
             rule->fp_off > -4095 * 8)
        saved = (uint32_t)(-rule->fp_off / 8);
    else
        return HX_RULE_NONE;
    return kind | (uint32_t)(offset / 8) << 2 | saved << 20;
}

static bool same_rule(const struct hx_cfi_rule *a, const struct hx_cfi_rule *b)
{
    return a->cfa == b->cfa && a->fp == b->fp && a->ra == b->ra && a->signal == b->signal &&
           a->cfa_off == b->cfa_off && a->fp_off == b->fp_off && a->ra_off == b->ra_off;
}

/* The rule's place in the book, HX_RULE_BOOK when that is full. */
static uint32_t add_rule(struct hx_unwind *unwind, const struct hx_cfi_rule *rule)
{
    uint32_t used = atomic_load_explicit(&unwind->book_used, memory_order_relaxed);
    for (uint32_t i = 0; i < used; i++)
        if (atomic_load_explicit(&unwind->book_ready[i], memory_order_acquire) &&
            same_rule(&unwind->book[i], rule))
            return i;
    do {
        if (used >= HX_RULE_BOOK)
            return HX_RULE_BOOK;
    } while (!atomic_compare_exchange_weak_explicit(&unwind->book_used, &used, used + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    unwind->book[used] = *rule;
    atomic_store_explicit(&unwind->book_ready[used], 1, memory_order_release);
    return used;
}

/* A rule for the cache. PLTs depend on the address, so theirs is settled here. */
static uint32_t pack_rule(struct hx_unwind *unwind, const struct hx_cfi_rule *rule, uint64_t pc,
                          struct hx_cfi_rule *ret_big)
{
    uint32_t small = small_rule(rule, pc);
    if (small != HX_RULE_NONE)
        return small;
    *ret_big = *rule;
    if (rule->cfa == HX_CFA_PLT) {
        ret_big->cfa = HX_CFA_SP;
        ret_big->cfa_off = (int64_t)(pc & 15) >= rule->cfa_off ? 16 : 8;
    }
    uint32_t index = add_rule(unwind, ret_big);
    return index < HX_RULE_BOOK ? HX_RULE_MAKE_OTHER(HX_OTHER_BOOK, index) : HX_RULE_NONE;
}

/* Writes an entry, unless what it says was forgotten meanwhile. Whoever forgets raises the epoch
 * first and clears then: an entry written behind its back is either cleared, or its writer sees the
 * new epoch and takes it back. */
static void remember_rule(struct hx_unwind *unwind, uint64_t pc, uint32_t rule, uint32_t epoch)
{
    _Atomic uint64_t *set = unwind->rule[hx_rule_set(pc)];
    uint64_t entry = pc >> HX_RULE_BITS << 32 | rule;
    uint64_t before = atomic_load_explicit(&set[0], memory_order_relaxed);
    if (before != 0 && before >> 32 != entry >> 32)
        atomic_store_explicit(&set[1], before, memory_order_relaxed);
    atomic_store_explicit(&set[0], entry, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&unwind->epoch, memory_order_relaxed) != epoch) {
        atomic_store_explicit(&set[0], 0, memory_order_relaxed);
        atomic_store_explicit(&set[1], 0, memory_order_relaxed);
    }
}

void hx_rules_forget(struct hx_unwind *unwind)
{
    atomic_fetch_add_explicit(&unwind->epoch, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < HX_RULE_BARE; i++)
        atomic_store_explicit(&unwind->bare[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < HX_RULE_SETS; i++)
        for (int way = 0; way < 2; way++)
            if (atomic_load_explicit(&unwind->rule[i][way], memory_order_relaxed) != 0)
                atomic_store_explicit(&unwind->rule[i][way], 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static bool is_bare(struct hx_unwind *unwind, uint64_t pc)
{
    for (int i = 0; i < HX_RULE_BARE; i++) {
        uint64_t range = atomic_load_explicit(&unwind->bare[i], memory_order_relaxed);
        if (range != 0 && pc / PAGE - (range >> 28) < (range & 0xfffffff))
            return true;
    }
    return false;
}

static void add_bare(struct hx_unwind *unwind, uint64_t start, uint64_t end)
{
    uint64_t pages = (end - start) / PAGE;
    uint64_t range = start / PAGE << 28 | (pages < 0xfffffff ? pages : 0xfffffff);
    uint32_t next = atomic_fetch_add_explicit(&unwind->bare_next, 1, memory_order_relaxed);
    atomic_store_explicit(&unwind->bare[next % HX_RULE_BARE], range, memory_order_relaxed);
}

/* The object of pc by the dynamic linker, else the vdso. */
static bool linked_object(const struct hx_unwind *unwind, uint64_t pc, struct object *ret)
{
    struct dl_find_object found;
    if (_dl_find_object != NULL && _dl_find_object((void *)(uintptr_t)pc, &found) == 0) {
        *ret = (struct object){(uint64_t)(uintptr_t)found.dlfo_map_start,
                               (uint64_t)(uintptr_t)found.dlfo_map_end};
        return ret->end > ret->base;
    }
    *ret = (struct object){unwind->vdso, unwind->vdso_end};
    return pc >= ret->base && pc < ret->end;
}

uint32_t hx_rule_find(struct hx_unwind *unwind, uint64_t pc, char *buffer, size_t len,
                      struct hx_cfi_rule *ret_big)
{
    if (pc < PAGE || pc >> 47 != 0)
        return HX_RULE_MAKE_OTHER(HX_OTHER_NO_CODE, 0);
    uint32_t epoch = atomic_load_explicit(&unwind->epoch, memory_order_seq_cst);
    uint32_t rule = HX_RULE_MAKE_OTHER(HX_OTHER_BARE, 0);
    struct mapping mapping = {.pc = pc};
    bool has_object = linked_object(unwind, pc, &mapping.object);
    if (!has_object && !is_bare(unwind, pc)) {
        bool barred = atomic_load_explicit(&unwind->barred, memory_order_relaxed) != 0;
        if (barred || !hx_maps_each(buffer, len, match_mapping, &mapping))
            return HX_RULE_MAKE_OTHER(HX_OTHER_NO_CODE, 0);
        if (mapping.map.end == 0 || !mapping.map.exec)
            rule = HX_RULE_MAKE_OTHER(HX_OTHER_NO_CODE, 0);
        else
            has_object = pc >= mapping.object.base && pc < mapping.object.end;
    }

    struct hx_cfi cfi;
    uint64_t start, end;
    struct hx_cfi_rule full;
    if (has_object && find_tables(&mapping.object, &cfi)) {
        if (hx_cfi_find(&cfi, pc, &full, &start, &end))
            rule = pack_rule(unwind, &full, pc, ret_big);
        else if (hx_cfi_find(&cfi, pc + 1, &full, &start, &end))
            /* a return address at which a function begins is the hand-made end of a stack, as
             * makecontext() makes it */
            rule = HX_RULE_MAKE_OTHER(HX_OTHER_END, 0);
    } else if (mapping.map.exec && mapping.map.inode == 0)
        add_bare(unwind, mapping.map.start, mapping.map.end);
    if (rule != HX_RULE_NONE)
        remember_rule(unwind, pc, rule, epoch);
    return rule;
}

void hx_rules_init(struct hx_unwind *unwind, uint64_t vdso)
{
    int n;
    uint64_t pages = 0;
    if (vdso == 0)
        return;
    const Elf64_Phdr *headers = program_headers(vdso, &n);
    for (int i = 0; i < n; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0)
            pages = (headers[i].p_memsz + PAGE - 1) / PAGE;
    unwind->vdso = vdso;
    unwind->vdso_end = vdso + pages * PAGE;
}

/* --- for the whole process -------------------------------------------------------------------
 */

size_t hx_unwind_bytes(void)
{
    return sizeof(struct hx_unwind);
}

void hx_unwind_init(struct hx_unwind *unwind, struct hx_tables *tables)
{
    /* Rules of the parent hold in a child, but what threads remember are keys of its region. */
    unwind->tables = tables;
    unwind->on_stack = getauxval(AT_RANDOM);
    hx_rules_init(unwind, getauxval(AT_SYSINFO_EHDR));
    atomic_fetch_add_explicit(&unwind->epoch, 1, memory_order_seq_cst);
}

void hx_unwind_forget(struct hx_unwind *unwind)
{
    hx_rules_forget(unwind);
}

void hx_unwind_bar_calls(struct hx_unwind *unwind)
{
    atomic_store_explicit(&unwind->barred, 1, memory_order_relaxed);
}
