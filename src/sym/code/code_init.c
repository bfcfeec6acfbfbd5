/* code_init.c - the functions that the loader calls when it has loaded a file, as the dynamic
 * section says; without one, as sections say. */
#include "sym/code/code_private.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DYNAMIC_MAX ((uint64_t)1 << 20) /* bytes of the dynamic section */
#define ARRAY_MAX   ((uint64_t)8 << 20) /* of one array of functions */
#define ARRAYS      2                   /* .init_array and .preinit_array */

struct array {
    uint64_t vaddr, size;
    uint64_t *word;
    size_t n;
};

struct dynamic {
    uint64_t init, rela, rela_size, symbols;
    struct array array[ARRAYS];
    bool found;
};

static void take_entry(struct dynamic *dynamic, const Elf64_Dyn *entry)
{
    uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
    case DT_INIT:
        dynamic->init = value;
        break;
    case DT_INIT_ARRAY:
        dynamic->array[0].vaddr = value;
        break;
    case DT_INIT_ARRAYSZ:
        dynamic->array[0].size = value;
        break;
    case DT_PREINIT_ARRAY:
        dynamic->array[1].vaddr = value;
        break;
    case DT_PREINIT_ARRAYSZ:
        dynamic->array[1].size = value;
        break;
    case DT_RELA:
        dynamic->rela = value;
        break;
    case DT_RELASZ:
        dynamic->rela_size = value;
        break;
    case DT_SYMTAB:
        dynamic->symbols = value;
        break;
    default:
        break;
    }
}

static bool take_section(void *context, const struct hx_elf_section *section)
{
    struct dynamic *dynamic = context;
    struct array found = {.vaddr = section->vaddr, .size = section->size};
    if (section->type == SHT_INIT_ARRAY)
        dynamic->array[0] = found;
    else if (section->type == SHT_PREINIT_ARRAY)
        dynamic->array[1] = found;
    return true;
}

static void find_dynamic(struct hx_code_file *file, int fd, struct dynamic *ret)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (pread(fd, &header, sizeof header, 0) != sizeof header ||
        header.e_phentsize != sizeof segment)
        return;
    for (size_t i = 0; i < header.e_phnum && !ret->found; i++) {
        uint64_t at = header.e_phoff + i * sizeof segment;
        if (at > INT64_MAX ||
            pread(fd, &segment, sizeof segment, (off_t)at) != (ssize_t)sizeof segment)
            return;
        if (segment.p_type != PT_DYNAMIC || segment.p_filesz > DYNAMIC_MAX)
            continue;
        struct hx_cfi_bytes bytes;
        HX_FREE void *owned =
            hx_code_file_read(file, fd, segment.p_vaddr, segment.p_filesz, &bytes);
        ret->found = owned;
        for (size_t k = 0; owned && k + sizeof(Elf64_Dyn) <= bytes.len; k += sizeof(Elf64_Dyn)) {
            Elf64_Dyn entry;
            memcpy(&entry, bytes.bytes + k, sizeof entry);
            if (entry.d_tag == DT_NULL)
                break;
            take_entry(ret, &entry);
        }
    }
    if (!ret->found)
        hx_error_free(hx_elf_each_section(fd, take_section, ret));
}

static uint64_t symbol_value(struct hx_code_file *file, int fd, const struct dynamic *dynamic,
                             uint64_t number)
{
    struct hx_cfi_bytes bytes;
    Elf64_Sym symbol = {0};
    HX_FREE void *owned = hx_code_file_read(file, fd, dynamic->symbols + number * sizeof symbol,
                                            sizeof symbol, &bytes);
    if (owned && bytes.len == sizeof symbol)
        memcpy(&symbol, bytes.bytes, sizeof symbol);
    return symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
}

/* What the loader would write into the arrays. Words without an entry here have their value in
 * place: that is how packed relocations (DT_RELR) and files at fixed addresses have them. */
static void relocate(struct hx_code_file *file, int fd, struct dynamic *dynamic,
                     struct hx_code_inits *ret)
{
    struct hx_cfi_bytes bytes;
    if (dynamic->rela_size > HX_READ_TABLE)
        return;
    ret->relocations = hx_code_file_read(file, fd, dynamic->rela, dynamic->rela_size, &bytes);
    ret->n_relocations = ret->relocations ? bytes.len / sizeof(Elf64_Rela) : 0;
    for (size_t i = 0; i < ret->n_relocations; i++) {
        const Elf64_Rela *rela = &ret->relocations[i];
        for (size_t k = 0; k < ARRAYS; k++) {
            struct array *array = &dynamic->array[k];
            uint64_t at = (rela->r_offset - array->vaddr) / 8;
            if (rela->r_offset < array->vaddr || at >= array->n)
                continue;
            if (ELF64_R_TYPE(rela->r_info) == R_X86_64_RELATIVE)
                array->word[at] = (uint64_t)rela->r_addend;
            else if (ELF64_R_TYPE(rela->r_info) == R_X86_64_64)
                array->word[at] = symbol_value(file, fd, dynamic, ELF64_R_SYM(rela->r_info)) +
                                  (uint64_t)rela->r_addend;
        }
    }
}

void hx_code_inits_find(struct hx_code_file *file, int fd, struct hx_code_inits *ret)
{
    struct dynamic dynamic = {0};
    *ret = (struct hx_code_inits){0};
    find_dynamic(file, fd, &dynamic);
    for (size_t k = 0; k < ARRAYS; k++) {
        struct array *array = &dynamic.array[k];
        struct hx_cfi_bytes bytes;
        if (!array->size || array->size > ARRAY_MAX)
            continue;
        array->word = hx_code_file_read(file, fd, array->vaddr, array->size, &bytes);
        array->n = array->word ? bytes.len / 8 : 0;
    }
    relocate(file, fd, &dynamic, ret);
    if (dynamic.init)
        (void)hx_vec_push(&ret->entries, dynamic.init);
    for (size_t k = 0; k < ARRAYS; k++) {
        struct array *array = &dynamic.array[k];
        for (size_t i = 0; i < array->n; i++)
            if (array->word[i] && array->word[i] != UINT64_MAX)
                (void)hx_vec_push(&ret->entries, array->word[i]);
        free(array->word);
    }
}

void hx_code_inits_free(struct hx_code_inits *inits)
{
    hx_vec_free(&inits->entries);
    free(inits->relocations);
    *inits = (struct hx_code_inits){0};
}
