/* elf.h - what the loader and a debugger want to know of one ELF file.
 *
 * The file comes from a target, so nothing in it is believed: sizes are bounded by the
 * file's own, counts by constants, and a file that makes no sense is HX_E_CORRUPT.
 * Only 64-bit little-endian files of this machine's architecture are read. The file is
 * read with pread, never mapped: its owner may truncate it at any moment.
 */
#ifndef HX_SYM_ELF_H
#define HX_SYM_ELF_H

#include "base/error.h"
#include "base/vec.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

/* A PT_LOAD header. Invariants: filesz <= memsz, nothing wraps, vaddr and offset agree
 * modulo the page size. */
struct hx_elf_segment {
    uint64_t vaddr, memsz, offset, filesz;
    uint32_t flags; /* PF_R, PF_W, PF_X */
};

struct hx_elf_layout {
    bool fixed;                         /* ET_EXEC: loaded where it says, bias 0 */
    HX_VEC(struct hx_elf_segment) load; /* by vaddr */
    uint64_t relro_start, relro_end;    /* vaddr; made read-only after relocation */
    uint64_t unwind_start, unwind_size; /* vaddr of .eh_frame_hdr; size 0: there is none */
    uint64_t tls_bytes;                 /* of thread-local variables, for each thread */
};

struct hx_elf_symbol {
    const char *name; /* not terminated; without @VERSION */
    size_t name_len;
    uint64_t value, size;
    uint8_t type, bind;     /* STT_, STB_ */
    bool old_version;       /* another definition of the name is the default one */
    uint64_t section_end;   /* vaddr where its section ends; 0: unknown */
    uint64_t section_flags; /* SHF_; 0: unknown */
};

struct hx_elf_note {
    const char *owner; /* not terminated; without the zero bytes at its end */
    size_t owner_len;
    uint32_t type;
    const uint8_t *desc;
    size_t desc_len;
    uint64_t vaddr; /* of desc */
};

struct hx_elf_section {
    const char *name; /* valid during the call */
    uint64_t vaddr, size, offset, flags, align;
    uint32_t type;
};

/* Reads the program headers. fd stays the caller's. */
hx_error *hx_elf_layout(int fd, struct hx_elf_layout *ret);
void hx_elf_layout_deinit(struct hx_elf_layout *layout);

/* Opens a file for libelf after looking at what libelf would take memory for: how many sections and
 * segments there are, and their names. NULL: it is no such file. Ended with elf_end(). */
struct Elf;
struct Elf *hx_elf_begin(int fd);

/* Calls each() for every defined symbol of the table of that section type (SHT_SYMTAB or
 * SHT_DYNSYM), until it returns false. A file without such a table has no symbols. HX_E_CANCEL:
 * reading is to end (NULL: it never is). */
struct hx_reading;
hx_error *hx_elf_each_symbol(int fd, struct hx_reading *reading, uint32_t section_type,
                             bool (*each)(void *context, const struct hx_elf_symbol *symbol),
                             void *context);

/* Calls each() for every section, until it returns false. */
hx_error *hx_elf_each_section(int fd,
                              bool (*each)(void *context, const struct hx_elf_section *section),
                              void *context);

/* Calls each() for every note that is loaded with the file, until it returns false. Notes that do
 * not fit into their segment end it. */
hx_error *hx_elf_each_note(int fd, bool (*each)(void *context, const struct hx_elf_note *note),
                           void *context);

/* The same of what sections of notes hold: in a file of debug information nothing is loaded. */
hx_error *hx_elf_each_section_note(int fd,
                                   bool (*each)(void *context, const struct hx_elf_note *note),
                                   void *context);

#endif
