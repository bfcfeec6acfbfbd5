/* cfi_file.h - the unwind tables of ELF files, for tests: read with libelf, addresses as p_vaddr.
 */
#ifndef HX_TEST_CFI_FILE_H
#define HX_TEST_CFI_FILE_H

#include "unit.h"

#include "sym/cfi.h"

#include <fcntl.h>
#include <gelf.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Of each kind of producer something; a name that does not exist is left out. */
static const char *const cfi_files[] = {
    "/proc/self/exe",
    "[vdso]",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/bin/python3",
    "/usr/bin/gdb",
    "/usr/bin/redis-server",
    "/usr/bin/redis-check-rdb",
};
#define CFI_FILES (sizeof cfi_files / sizeof *cfi_files)

struct cfi_file {
    int fd;
    Elf *elf;
    struct hx_cfi cfi;
};

static inline struct hx_cfi_bytes cfi_file_section(Elf *elf, const char *wanted)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names))
        return (struct hx_cfi_bytes){0};
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        const char *name = gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;
        Elf_Data *data = name && !strcmp(name, wanted) ? elf_rawdata(scn, NULL) : NULL;
        if (data && data->d_buf)
            return (struct hx_cfi_bytes){data->d_buf, data->d_size, shdr.sh_addr};
    }
    return (struct hx_cfi_bytes){0};
}

static inline Elf *cfi_file_vdso(void)
{
    char *image = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!image)
        return NULL;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    return elf_memory(image, head->e_shoff + (size_t)head->e_shnum * head->e_shentsize);
}

/* False: there is no such file here. */
static inline bool cfi_file_open(struct cfi_file *file, const char *path)
{
    *file = (struct cfi_file){.fd = -1};
    elf_version(EV_CURRENT);
    if (!strcmp(path, "[vdso]")) {
        file->elf = cfi_file_vdso();
    } else {
        file->fd = open(path, O_RDONLY | O_CLOEXEC);
        file->elf = file->fd < 0 ? NULL : elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
    }
    if (!file->elf || elf_kind(file->elf) != ELF_K_ELF) {
        elf_end(file->elf);
        if (file->fd >= 0)
            close(file->fd);
        return false;
    }
    file->cfi.hdr = cfi_file_section(file->elf, ".eh_frame_hdr");
    file->cfi.frame = cfi_file_section(file->elf, ".eh_frame");
    return true;
}

static inline void cfi_file_close(struct cfi_file *file)
{
    elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
}

static inline bool cfi_rules_equal(const struct hx_cfi_rule *a, const struct hx_cfi_rule *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* One line about a rule, in one of a few buffers. */
static inline const char *cfi_rule_text(const struct hx_cfi_rule *rule)
{
    static char lines[4][96];
    static unsigned next;
    char *line = lines[next++ % 4];
    snprintf(line, sizeof lines[0], "cfa %u%+d rbp %u%+d ra %u%+d signal %u", rule->cfa,
             rule->cfa_off, rule->fp, rule->fp_off, rule->ra, rule->ra_off, rule->signal);
    return line;
}

#endif
