/* code_symbols.c - which function a byte of code belongs to, and where functions are, by the
 * symbol tables of a file and of what was split off from it. */
#include "sym/code/code_private.h"

#include "base/lower_bound.h"
#include "base/text.h"
#include "sym/demangle.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX ((size_t)1 << 30) /* bytes of the names of all symbols of one file */

/* A symbol on its way. A label has size 0: it reaches to the next symbol or `limit`. */
struct draft {
    uint64_t start, end, limit;
    uint32_t name;
    uint8_t rank; /* of names for one function the one with the least rank is shown */
};

struct hx_code_draft {
    const struct hx_elf_layout *layout;
    struct hx_reading *reading;
    struct hx_code_symbols *symbols;
    HX_VEC(struct draft) drafts;
    bool nomem, left; /* left: there were too many */
};

static const struct hx_elf_segment *code_segment(const struct hx_elf_layout *layout, uint64_t vaddr)
{
    for (size_t i = 0; i < layout->load.n; i++) {
        const struct hx_elf_segment *seg = &layout->load.v[i];
        if (seg->flags & PF_X && vaddr >= seg->vaddr && vaddr - seg->vaddr < seg->filesz)
            return seg;
    }
    return NULL;
}

static bool put_symbol_name(struct hx_code_draft *draft, const char *name, size_t len,
                            uint32_t *ret)
{
    if (draft->symbols->names.n + len + 1 > NAMES_MAX ||
        !hx_vec_reserve(&draft->symbols->names, draft->symbols->names.n + len + 1)) {
        draft->nomem = true;
        return false;
    }
    *ret = (uint32_t)draft->symbols->names.n;
    memcpy(draft->symbols->names.v + *ret, name, len);
    draft->symbols->names.v[*ret + len] = 0;
    draft->symbols->names.n += len + 1;
    return true;
}

/* What a programmer knows a function by: not a local alias, no underscores put before. */
static uint8_t name_rank(const struct hx_elf_symbol *symbol)
{
    uint8_t underscores = 0;
    while (underscores < 7 && underscores < symbol->name_len && symbol->name[underscores] == '_')
        underscores++;
    bool local = symbol->bind == STB_LOCAL, weak = symbol->bind == STB_WEAK;
    return (uint8_t)(local << 6 | symbol->old_version << 5 | underscores << 1 | weak);
}

/* Which definition of a name counts. */
static uint8_t definition_rank(const struct hx_elf_symbol *symbol)
{
    bool label = symbol->type != STT_FUNC;
    bool local = symbol->bind == STB_LOCAL, weak = symbol->bind == STB_WEAK;
    return (uint8_t)(symbol->old_version << 3 | label << 2 | local << 1 | weak);
}

/* Takes functions, and an assembler's labels in code. */
static bool take_code(void *context, const struct hx_elf_symbol *symbol)
{
    struct hx_code_draft *draft = context;
    bool function = symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC;
    if (!function && (symbol->type != STT_NOTYPE || symbol->name[0] == '.'))
        return true;
    const struct hx_elf_segment *seg = code_segment(draft->layout, symbol->value);
    if (!seg || (symbol->section_flags && !(symbol->section_flags & SHF_EXECINSTR)))
        return true;
    uint64_t limit = seg->vaddr + seg->filesz;
    if (symbol->section_end && symbol->section_end < limit)
        limit = symbol->section_end;
    if (symbol->value >= limit)
        return true;
    if (draft->drafts.n == HX_READ_SYMBOLS) {
        draft->left = true;
        return false;
    }
    uint64_t size = symbol->size < limit - symbol->value ? symbol->size : limit - symbol->value;
    struct draft range = {.start = symbol->value,
                          .end = symbol->value + size,
                          .limit = limit,
                          .rank = name_rank(symbol)};
    if (!put_symbol_name(draft, symbol->name, symbol->name_len, &range.name))
        return false;
    struct hx_code_function named = {
        .vaddr = symbol->value, .size = size, .name = range.name, .rank = definition_rank(symbol)};
    draft->nomem =
        !hx_vec_push(&draft->drafts, range) ||
        (symbol->type != STT_GNU_IFUNC && !hx_vec_push(&draft->symbols->functions, named));
    return !draft->nomem;
}

static void take_stub(void *context, uint64_t vaddr, uint64_t size, const char *name)
{
    struct hx_code_draft *draft = context;
    const struct hx_elf_segment *seg = code_segment(draft->layout, vaddr);
    if (!seg || size > seg->filesz - (vaddr - seg->vaddr) || draft->drafts.n == HX_READ_SYMBOLS)
        return;
    struct hx_text text = {0};
    hx_text_putf(&text, "%s@plt", name);
    struct draft range = {.start = vaddr, .end = vaddr + size, .limit = vaddr + size, .rank = 0xff};
    if (!text.failed && put_symbol_name(draft, text.s, text.n, &range.name))
        draft->nomem |= !hx_vec_push(&draft->drafts, range);
    hx_text_free(&text);
}

/* By address; what has a size before labels, the larger first, the better name first. */
static int compare_symbol_addresses(const void *a, const void *b, void *names)
{
    const struct draft *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    const char *p = (const char *)names + x->name, *q = (const char *)names + y->name;
    size_t n = strlen(p), m = strlen(q);
    return n != m ? n < m ? -1 : 1 : strcmp(p, q);
}

static int compare_symbol_starts(const void *a, const void *b)
{
    const struct hx_code_symbol *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Keeps of the sized ones those that begin outside of others, cut where they only overlap. */
static bool place_sized(struct hx_code_draft *draft)
{
    uint64_t done = 0;
    for (size_t i = 0; i < draft->drafts.n; i++) {
        const struct draft *range = &draft->drafts.v[i];
        uint64_t start = range->start < done ? done : range->start;
        if (range->end <= start)
            continue;
        if (!hx_vec_push(
                &draft->symbols->ranges,
                (struct hx_code_symbol){.start = start, .end = range->end, .name = range->name}))
            return false;
        done = range->end;
    }
    return true;
}

/* Labels fill what is left free, each up to the next one. */
static bool place_labels(struct hx_code_draft *draft)
{
    struct hx_code_symbols *symbols = draft->symbols;
    size_t n_sized = symbols->ranges.n, sized = 0;
    for (size_t i = 0; i < draft->drafts.n; i++) {
        const struct draft *label = &draft->drafts.v[i];
        if (label->end != label->start)
            continue;
        while (sized < n_sized && symbols->ranges.v[sized].end <= label->start)
            sized++;
        uint64_t end = label->limit;
        if (sized < n_sized && symbols->ranges.v[sized].start < end)
            end = symbols->ranges.v[sized].start;
        /* The next one behind it; those at the same place are worse names of it. */
        size_t next = i + 1;
        while (next < draft->drafts.n && draft->drafts.v[next].start == label->start)
            next++;
        if (next < draft->drafts.n && draft->drafts.v[next].start < end)
            end = draft->drafts.v[next].start;
        if (end > label->start &&
            !hx_vec_push(
                &symbols->ranges,
                (struct hx_code_symbol){.start = label->start, .end = end, .name = label->name}))
            return false;
        i = next - 1;
    }
    if (symbols->ranges.n > n_sized)
        qsort(symbols->ranges.v, symbols->ranges.n, sizeof *symbols->ranges.v,
              compare_symbol_starts);
    return true;
}

static int compare_symbol_names(const void *a, const void *b, void *names)
{
    const struct hx_code_function *x = a, *y = b;
    int order = strcmp((const char *)names + x->name, (const char *)names + y->name);
    if (order)
        return order;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static bool sort_functions(const struct hx_code_draft *draft)
{
    struct hx_code_symbols *symbols = draft->symbols;
    struct hx_code_function *v = symbols->functions.v;
    if (!hx_reading_sort(draft->reading, v, symbols->functions.n, sizeof *v, compare_symbol_names,
                         symbols->names.v))
        return false;
    size_t n = 0;
    for (size_t i = 0; i < symbols->functions.n; i++)
        if (!n || strcmp(symbols->names.v + v[n - 1].name, symbols->names.v + v[i].name) != 0)
            v[n++] = v[i];
        else if (v[i].vaddr != v[n - 1].vaddr)
            v[n - 1].several = true;
    symbols->functions.n = n;
    return true;
}

hx_error *hx_code_symbols_read(const struct hx_module_file *file, struct hx_reading *reading,
                               const int *fds, size_t n, struct hx_code_symbols *ret)
{
    struct hx_code_symbols symbols = {0};
    struct hx_code_draft draft = {.layout = &file->layout, .reading = reading, .symbols = &symbols};
    for (size_t i = 0; i < n && !draft.nomem; i++) {
        if (fds[i] < 0)
            continue;
        hx_error_free(hx_elf_each_symbol(fds[i], reading, SHT_SYMTAB, take_code, &draft));
        hx_error_free(hx_elf_each_symbol(fds[i], reading, SHT_DYNSYM, take_code, &draft));
    }
    if (fds[0] >= 0 && !draft.nomem)
        hx_code_each_stub(fds[0], take_stub, &draft);
    if (draft.left)
        hx_reading_leave(reading, file->path, HX_UNREAD_SYMBOLS);
    bool failed = draft.nomem ||
                  !hx_reading_sort(reading, draft.drafts.v, draft.drafts.n, sizeof *draft.drafts.v,
                                   compare_symbol_addresses, symbols.names.v) ||
                  !place_sized(&draft) || !place_labels(&draft) || !sort_functions(&draft);
    hx_vec_free(&draft.drafts);
    if (failed) {
        hx_code_symbols_deinit(&symbols);
        return hx_error_nomem();
    }
    *ret = symbols;
    return NULL;
}

void hx_code_symbols_deinit(struct hx_code_symbols *symbols)
{
    hx_vec_free(&symbols->ranges);
    hx_vec_free(&symbols->functions);
    hx_vec_free(&symbols->names);
}

struct hx_code_symbol *hx_code_symbols_find(const struct hx_code_symbols *symbols, uint64_t vaddr)
{
    size_t low = HX_LOWER_BOUND(symbols->ranges.n, i, symbols->ranges.v[i].end <= vaddr);
    return low < symbols->ranges.n && symbols->ranges.v[low].start <= vaddr
               ? &symbols->ranges.v[low]
               : NULL;
}

/* The first function whose name is not below `name`. */
static size_t lower_bound_symbol(const struct hx_code_symbols *symbols, const char *name, size_t n)
{
    return HX_LOWER_BOUND(symbols->functions.n, i,
                          strncmp(symbols->names.v + symbols->functions.v[i].name, name, n) < 0);
}

const struct hx_code_function *hx_code_symbols_named(const struct hx_code_symbols *symbols,
                                                     const char *name)
{
    size_t i = lower_bound_symbol(symbols, name, strlen(name) + 1);
    return i < symbols->functions.n &&
                   strcmp(symbols->names.v + symbols->functions.v[i].name, name) == 0
               ? &symbols->functions.v[i]
               : NULL;
}

bool hx_code_symbols_namesake(const struct hx_code_symbols *symbols, const char *symbol,
                              const char *untagged)
{
    size_t n = hx_untagged_bytes(symbol);
    size_t first = lower_bound_symbol(symbols, symbol, n);
    for (size_t i = first; i < symbols->functions.n; i++) {
        const char *other = symbols->names.v + symbols->functions.v[i].name;
        if (strncmp(other, symbol, n) != 0)
            break;
        if (i - first == HX_NAMESAKES_MAX || hx_is_namesake(symbol, untagged, other))
            return true;
    }
    return false;
}
