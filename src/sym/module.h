/* module.h - the ELF objects of a target: where they lie, what their data is called.
 *
 * A module is one file mapped by the target. Files are opened through the target's own
 * view: /proc/PID/map_files, else /proc/PID/root/PATH when device and inode agree.
 * Symbols are read lazily, with elfutils, and cached for the life of the set.
 */
#ifndef HX_SYM_MODULE_H
#define HX_SYM_MODULE_H

#include "base/error.h"
#include "model/process.h"

struct hx_module;
typedef struct hx_modules hx_modules;

/* A named range of a writable segment, target addresses. */
struct hx_symbol {
    uint64_t address, size;
    const char *name; /* bare, owned by the set */
};

/* Groups mappings into modules. Keeps no pointer into `mapping`. pid 0: files are opened
 * by their path alone; those of a core by struct hx_mapping.local. */
hx_error *hx_modules_create(pid_t pid, const struct hx_mapping *mapping, size_t n,
                            hx_modules **ret);
void hx_modules_destroy(hx_modules *modules);

/* The same of modules whose bias is known, when the target is gone: module i is known[i]. `local`
 * may be a file of debug information alone; NULL, or no ELF file: the module has no segments. */
struct hx_known_module {
    const char *path, *local;
    uint64_t bias;
};
hx_error *hx_modules_create_known(const struct hx_known_module *known, size_t n, hx_modules **ret);

/* What is read of its files: who may end it, and what was left out. */
struct hx_reading;
struct hx_reading *hx_modules_reading(hx_modules *modules);

/* Opens a path read only, following links; -1 when it is no regular file. Never blocks, and never
 * opens a device. */
struct stat;
int hx_module_open_regular(const char *path, struct stat *ret);

size_t hx_modules_count(const hx_modules *modules);
const char *hx_module_name(const hx_modules *modules, size_t i); /* "libc.so.6" */
const char *hx_module_path(const hx_modules *modules, size_t i);
uint64_t hx_module_bias(const hx_modules *modules, size_t i); /* address - p_vaddr */

/* The module whose load segments (.bss included) contain addr; SIZE_MAX when none. */
size_t hx_modules_find(const hx_modules *modules, uint64_t addr);

/* The k-th load segment (.bss included) of all modules in order of address, [*start, *end); they
 * do not overlap. False when there are not so many. */
bool hx_modules_segment(const hx_modules *modules, size_t k, uint64_t *ret_start,
                        uint64_t *ret_end);

/* The writable load segments (.data, .bss) of a module, target addresses, page-rounded
 * neither way: [p_vaddr, p_vaddr + p_memsz). Returns how many, at most max. */
size_t hx_module_data(const hx_modules *modules, size_t i, uint64_t (*ranges)[2], size_t max);

/* Object symbols (STT_OBJECT, size > 0) inside [start, end), sorted by address, not overlapping (of
 * aliases the global one, then the shortest name): of .symtab, else of that in a separate debug
 * file, else of .dynsym. *ret is owned by the set. */
hx_error *hx_module_symbols(hx_modules *modules, size_t i, uint64_t start, uint64_t end,
                            const struct hx_symbol **ret, size_t *ret_n);

/* So far from 0 the same call has the thread-local variables of a module: a variable lies at
 * HX_TLS_SPACE + its offset in the module's block. hx_module_tls_bytes(): how long a block is. */
#define HX_TLS_SPACE ((uint64_t)1 << 63)
uint64_t hx_module_tls_bytes(const hx_modules *modules, size_t i);

/* Do module i's variables lack their names, because it was stripped and its debug file is not
 * there? Only of what hx_module_symbols() was asked about. *ret_build_id: NULL when it has none. */
bool hx_module_is_bare(const hx_modules *modules, size_t i, const char **ret_build_id);

/* The last of the symbols of hx_module_symbols() that begins at addr or below; NULL when none does.
 */
const struct hx_symbol *hx_module_symbol_below(const hx_modules *modules, size_t i, uint64_t addr);

/* Reads len bytes that lie in a read-only segment from the file (no relocation is applied).
 * False when they are not there. Safe from any thread once the module was opened. */
bool hx_module_read(hx_modules *modules, uint64_t addr, void *dst, size_t len);

/* Reads at most len bytes at addr as the file has them (zeros in .bss), also where the target may
 * write; how many, 0 when addr lies in no segment, nor behind one in its last page. For pages that
 * the target never wrote. */
size_t hx_module_read_initial(hx_modules *modules, uint64_t addr, void *dst, size_t len);

/* Is addr in an executable segment of a file? */
bool hx_modules_is_code(const hx_modules *modules, uint64_t addr);

/* The address of the symbol `name` in module i (.symtab, else .dynsym); false if absent. */
bool hx_module_symbol(hx_modules *modules, size_t i, const char *name, uint64_t *ret_addr,
                      uint64_t *ret_size);

/* Has module i a second symbol that reads as `untagged` does, which is how `symbol` reads without
 * its ABI tags? */
bool hx_module_has_namesake(hx_modules *modules, size_t i, const char *symbol,
                            const char *untagged);

/* Calls each() for the name of every variable of module i, of any size, also of those in
 * thread-local storage, until it returns false: then so does this. Some come twice. */
bool hx_module_each_variable(hx_modules *modules, size_t i,
                             bool (*each)(void *context, const char *name), void *context);

/* The loaded ELF note of this owner and type in module i whose content has exactly len bytes, the
 * first one; false if absent. *ret_addr: where the content lies in the target. */
bool hx_module_note(hx_modules *modules, size_t i, const char *owner, uint32_t type, void *dst,
                    size_t len, uint64_t *ret_addr);

#endif
