/* symbols.c - the names of a module's data, read once and kept; single symbols and notes. */
#include "sym/module_private.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/lower_bound.h"
#include "base/text.h"
#include "sym/debug_file.h"
#include "sym/demangle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of both tables, until *done. */
static void each_symbol(hx_modules *modules, int fd,
                        bool (*each)(void *context, const struct hx_elf_symbol *symbol),
                        void *context, const bool *done)
{
    static const uint32_t tables[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (int i = 0; i < 2 && !*done; i++)
        hx_error_free(hx_elf_each_symbol(fd, &modules->reading, tables[i], each, context));
}

/* A symbol on its way: its name is still an offset into the names. */
struct draft {
    uint64_t address, end;
    size_t name, name_len;
    bool global;
};

struct collect {
    const struct hx_elf_layout *layout;
    uint64_t bias;
    HX_VEC(struct draft) drafts;
    HX_VEC(char) names;
    struct hx_reading *reading;
    bool nomem, left; /* left: there were too many */
};

/* Where a variable lies, and how much of it is there. False: outside of all segments. */
static bool place_symbol(const struct collect *collect, const struct hx_elf_symbol *symbol,
                         uint64_t *ret_address, uint64_t *ret_room)
{
    const struct hx_elf_layout *layout = collect->layout;
    if (symbol->type == STT_TLS) {
        *ret_address = HX_TLS_SPACE + symbol->value;
        *ret_room = layout->tls_bytes - symbol->value;
        return layout->tls_bytes < HX_TLS_SPACE && symbol->value < layout->tls_bytes;
    }
    for (size_t i = 0; i < layout->load.n; i++) {
        const struct hx_elf_segment *seg = &layout->load.v[i];
        if (symbol->value < seg->vaddr || symbol->value - seg->vaddr >= seg->memsz)
            continue;
        *ret_address = collect->bias + symbol->value;
        *ret_room = seg->memsz - (symbol->value - seg->vaddr);
        return true;
    }
    return false;
}

/* Takes named data that lies in a load segment, or in thread-local storage. */
static bool take_data_symbol(void *context, const struct hx_elf_symbol *symbol)
{
    struct collect *collect = context;
    uint64_t address, room;
    if ((symbol->type != STT_OBJECT && symbol->type != STT_COMMON && symbol->type != STT_TLS) ||
        !symbol->size || !place_symbol(collect, symbol, &address, &room))
        return true;
    if (collect->drafts.n == HX_READ_SYMBOLS) {
        collect->left = true;
        return false;
    }
    struct draft draft = {.address = address,
                          .end = address + (symbol->size < room ? symbol->size : room),
                          .name = collect->names.n,
                          .name_len = symbol->name_len,
                          .global = symbol->bind != STB_LOCAL};
    if (!hx_vec_reserve(&collect->names, collect->names.n + symbol->name_len + 1) ||
        !hx_vec_push(&collect->drafts, draft)) {
        collect->nomem = true;
        return false;
    }
    memcpy(collect->names.v + collect->names.n, symbol->name, symbol->name_len);
    collect->names.v[collect->names.n + symbol->name_len] = 0;
    collect->names.n += symbol->name_len + 1;
    return true;
}

/* By address; of those at one address the largest, then the global one, then the one with the
 * shortest name comes first. */
static int compare_data_symbols(const void *a, const void *b, void *names)
{
    const struct draft *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    if (x->global != y->global)
        return x->global ? -1 : 1;
    if (x->name_len != y->name_len)
        return x->name_len < y->name_len ? -1 : 1;
    return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

/* Drops what lies within a symbol that was kept, and cuts what only begins in one. */
static hx_error *keep_disjoint(struct collect *collect, struct hx_module *module)
{
    if (!collect->drafts.n)
        return NULL;
    if (!hx_reading_sort(collect->reading, collect->drafts.v, collect->drafts.n,
                         sizeof *collect->drafts.v, compare_data_symbols, collect->names.v))
        return hx_reading_ended(collect->reading) ? hx_error_cancelled("symbols")
                                                  : hx_error_nomem();
    uint64_t done = 0;
    for (size_t i = 0; i < collect->drafts.n; i++) {
        struct draft *draft = &collect->drafts.v[i];
        uint64_t start = draft->address < done ? done : draft->address;
        if (draft->end <= start)
            continue;
        HX_NEED(hx_vec_push(&module->symbols,
                            (struct hx_symbol){.address = start,
                                               .size = draft->end - start,
                                               .name = collect->names.v + draft->name}));
        done = draft->end;
    }
    return NULL;
}

/* Those of another table, where those before had none, or made no sense. */
static hx_error *collect_more(struct collect *collect, hx_error *before, int fd, uint32_t type)
{
    if (fd < 0 || collect->drafts.n || collect->nomem || (before && before->kind != HX_E_CORRUPT))
        return before;
    hx_error_free(before);
    return hx_elf_each_symbol(fd, collect->reading, type, take_data_symbol, collect);
}

/* The file of debug information that was split off from this one; -1: none. */
static int open_debug(hx_modules *modules, struct hx_module *module, int fd)
{
    struct stat mounts;
    char build_id[HX_BUILD_ID];
    const struct hx_module_file *file = &modules->files.v[module->file];
    if (!hx_build_id(fd, build_id))
        return -1;
    module->build_id = *build_id ? strdup(build_id) : NULL;
    HX_FD int root = hx_module_root(modules->pid, &mounts);
    const struct hx_debug_search search = {
        .root = root, .path = file->path, .build_id = build_id, .reading = &modules->reading};
    return hx_debug_open(&search, fd);
}

static hx_error *read_symbols(hx_modules *modules, struct hx_module *module)
{
    const struct hx_module_file *file = &modules->files.v[module->file];
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    if (fd < 0)
        return hx_error_new(HX_E_ABSENT, file->path, NULL, "cannot be opened any more");
    struct collect collect = {
        .layout = &file->layout, .bias = module->bias, .reading = &modules->reading};
    hx_error *err = collect_more(&collect, NULL, fd, SHT_SYMTAB);
    HX_FD int debug = collect.drafts.n ? -1 : open_debug(modules, module, fd);
    err = collect_more(&collect, err, debug, SHT_SYMTAB);
    module->bare = !collect.drafts.n;
    err = collect_more(&collect, err, fd, SHT_DYNSYM);
    if (!err && collect.nomem)
        err = hx_error_nomem();
    if (collect.left)
        hx_reading_leave(&modules->reading, file->path, HX_UNREAD_SYMBOLS);
    if (!err)
        err = keep_disjoint(&collect, module);
    if (!err)
        module->names = hx_steal(collect.names.v);
    else
        hx_vec_free(&module->symbols);
    hx_vec_free(&collect.drafts);
    free(collect.names.v);
    return err;
}

static size_t first_symbol_at(const struct hx_module *module, uint64_t addr)
{
    return HX_LOWER_BOUND(module->symbols.n, i, module->symbols.v[i].address < addr);
}

hx_error *hx_module_symbols(hx_modules *modules, size_t i, uint64_t start, uint64_t end,
                            const struct hx_symbol **ret, size_t *ret_n)
{
    struct hx_module *module = &modules->modules.v[i];
    hx_error *err = NULL;
    pthread_mutex_lock(&modules->lock);
    if (!module->symbols_tried) {
        module->symbols_tried = true;
        err = read_symbols(modules, module);
    }
    pthread_mutex_unlock(&modules->lock);
    HX_TRY(err);
    size_t first = first_symbol_at(module, start), last = first_symbol_at(module, end);
    if (last > first &&
        module->symbols.v[last - 1].address + module->symbols.v[last - 1].size > end)
        last--;
    *ret = module->symbols.v ? module->symbols.v + first : NULL;
    *ret_n = last > first ? last - first : 0;
    return NULL;
}

uint64_t hx_module_tls_bytes(const hx_modules *modules, size_t i)
{
    return modules->files.v[modules->modules.v[i].file].layout.tls_bytes;
}

bool hx_module_is_bare(const hx_modules *modules, size_t i, const char **ret_build_id)
{
    *ret_build_id = modules->modules.v[i].build_id;
    return modules->modules.v[i].bare;
}

const struct hx_symbol *hx_module_symbol_below(const hx_modules *modules, size_t i, uint64_t addr)
{
    const struct hx_module *module = &modules->modules.v[i];
    size_t above = first_symbol_at(module, addr + 1);
    return above ? &module->symbols.v[above - 1] : NULL;
}

struct wanted {
    const char *name;
    size_t len;
    uint64_t value, size;
    bool found;
};

static bool is_wanted_type(const struct hx_elf_symbol *symbol)
{
    return symbol->type != STT_TLS && symbol->type != STT_SECTION && symbol->type != STT_FILE;
}

static bool match_name(void *context, const struct hx_elf_symbol *symbol)
{
    struct wanted *wanted = context;
    if (!is_wanted_type(symbol) || symbol->name_len != wanted->len ||
        memcmp(symbol->name, wanted->name, wanted->len) != 0)
        return true;
    /* A global one ends the search; a local one stands until a global one comes. */
    if (!wanted->found || symbol->bind != STB_LOCAL) {
        wanted->value = symbol->value;
        wanted->size = symbol->size;
        wanted->found = true;
    }
    return symbol->bind == STB_LOCAL;
}

static size_t bit_of_name(const struct hx_module_file *file, const char *name, size_t len)
{
    return hx_hash_bytes(name, len) & (file->named_bits - 1);
}

static bool note_name(void *context, const struct hx_elf_symbol *symbol)
{
    struct hx_module_file *file = context;
    if (is_wanted_type(symbol))
        hx_bit_set(file->named, bit_of_name(file, symbol->name, symbol->name_len));
    return true;
}

static void note_names(hx_modules *modules, struct hx_module_file *file, int fd)
{
    static const uint32_t tables[] = {SHT_SYMTAB, SHT_DYNSYM};
    const uint64_t bytes_a_symbol = 16, most_bits = 1 << 25;
    struct stat st;
    file->named_bits = 1024;
    for (uint64_t n = fstat(fd, &st) == 0 ? (uint64_t)st.st_size / bytes_a_symbol : 0;
         file->named_bits < n && file->named_bits < most_bits;)
        file->named_bits *= 2;
    file->named = calloc(file->named_bits / 64, sizeof *file->named);
    for (int i = 0; file->named && i < 2; i++) {
        hx_error *err = hx_elf_each_symbol(fd, &modules->reading, tables[i], note_name, file);
        if (err && err->kind != HX_E_CORRUPT) { /* what is corrupt is not found later either */
            free(file->named);
            file->named = NULL;
        }
        hx_error_free(err);
    }
}

/* Most files have none of the many names that are looked for, those of other allocators: a Bloom
 * filter (B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", 1970) says so
 * without reading them again. */
static bool lacks(hx_modules *modules, struct hx_module_file *file, int fd, const char *name)
{
    pthread_mutex_lock(&modules->lock);
    if (!file->named && fd >= 0)
        note_names(modules, file, fd);
    bool lacks = file->named && !hx_bit(file->named, bit_of_name(file, name, strlen(name)));
    pthread_mutex_unlock(&modules->lock);
    return lacks;
}

bool hx_module_symbol(hx_modules *modules, size_t i, const char *name, uint64_t *ret_addr,
                      uint64_t *ret_size)
{
    const struct hx_module *module = &modules->modules.v[i];
    struct hx_module_file *file = &modules->files.v[module->file];
    struct wanted wanted = {.name = name, .len = strlen(name)};
    if (!wanted.len || lacks(modules, file, file->fd, name))
        return false;
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    if (fd < 0 || lacks(modules, file, fd, name))
        return false;
    each_symbol(modules, fd, match_name, &wanted, &wanted.found);
    if (!wanted.found)
        return false;
    *ret_addr = module->bias + wanted.value;
    *ret_size = wanted.size;
    return true;
}

struct namesake {
    const char *symbol, *untagged;
    size_t shared; /* bytes with which any other begins, too */
    size_t asked;
    struct hx_text other;
    bool found;
};

static bool match_namesake(void *context, const struct hx_elf_symbol *symbol)
{
    struct namesake *namesake = context;
    if (symbol->name_len < namesake->shared ||
        memcmp(symbol->name, namesake->symbol, namesake->shared) != 0)
        return true;
    hx_text_clear(&namesake->other);
    hx_text_putn(&namesake->other, symbol->name, symbol->name_len);
    namesake->found =
        namesake->asked++ == HX_NAMESAKES_MAX ||
        hx_is_namesake(namesake->symbol, namesake->untagged, hx_text_str(&namesake->other));
    return !namesake->found;
}

bool hx_module_has_namesake(hx_modules *modules, size_t i, const char *symbol, const char *untagged)
{
    const struct hx_module *module = &modules->modules.v[i];
    const struct hx_module_file *file = &modules->files.v[module->file];
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    struct namesake namesake = {
        .symbol = symbol, .untagged = untagged, .shared = hx_untagged_bytes(symbol)};
    if (fd < 0)
        return false;
    each_symbol(modules, fd, match_namesake, &namesake, &namesake.found);
    hx_text_free(&namesake.other);
    return namesake.found;
}

struct variables {
    hx_modules *modules;
    uint64_t bias;
    bool (*each)(void *context, const char *name);
    void *context;
    struct hx_text name;
    bool ended;
};

/* An assembler's label may have no type; code is no variable. */
static bool take_variable(void *context, const struct hx_elf_symbol *symbol)
{
    struct variables *variables = context;
    if (symbol->type != STT_TLS && symbol->type != STT_OBJECT && symbol->type != STT_COMMON &&
        (symbol->type != STT_NOTYPE ||
         hx_modules_is_code(variables->modules, variables->bias + symbol->value)))
        return true;
    hx_text_clear(&variables->name);
    hx_text_putn(&variables->name, symbol->name, symbol->name_len);
    variables->ended = !variables->each(variables->context, hx_text_str(&variables->name));
    return !variables->ended;
}

bool hx_module_each_variable(hx_modules *modules, size_t i,
                             bool (*each)(void *context, const char *name), void *context)
{
    const struct hx_module *module = &modules->modules.v[i];
    const struct hx_module_file *file = &modules->files.v[module->file];
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    struct variables variables = {
        .modules = modules, .bias = module->bias, .each = each, .context = context};
    if (fd < 0)
        return true;
    each_symbol(modules, fd, take_variable, &variables, &variables.ended);
    hx_text_free(&variables.name);
    return !variables.ended;
}

struct wanted_note {
    const char *owner;
    uint32_t type;
    void *dst;
    size_t len;
    uint64_t vaddr;
    bool found;
};

static bool match_note(void *context, const struct hx_elf_note *note)
{
    struct wanted_note *wanted = context;
    if (note->type != wanted->type || note->desc_len != wanted->len ||
        note->owner_len != strlen(wanted->owner) ||
        memcmp(note->owner, wanted->owner, note->owner_len) != 0)
        return true;
    memcpy(wanted->dst, note->desc, wanted->len);
    wanted->vaddr = note->vaddr;
    wanted->found = true;
    return false;
}

bool hx_module_note(hx_modules *modules, size_t i, const char *owner, uint32_t type, void *dst,
                    size_t len, uint64_t *ret_addr)
{
    const struct hx_module *module = &modules->modules.v[i];
    const struct hx_module_file *file = &modules->files.v[module->file];
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    struct wanted_note wanted = {.owner = owner, .type = type, .dst = dst, .len = len};
    if (fd < 0)
        return false;
    hx_error_free(hx_elf_each_note(fd, match_note, &wanted));
    if (wanted.found)
        *ret_addr = module->bias + wanted.vaddr;
    return wanted.found;
}
