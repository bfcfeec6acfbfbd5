/* code_lines.c - names, files and lines of addresses, each found once. */
#include "sym/code/code_private.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/timing.h"
#include "sym/demangle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define READERS_MAX 256               /* processes at a time */
#define LARGE       ((off_t)16 << 20) /* files of which nothing is read in a moment */

/* --- the answers that were given --------------------------------------------- */

static size_t hash_vaddr(uint32_t file, uint64_t vaddr)
{
    uint64_t h = (vaddr + ((uint64_t)file << 48)) * 0x9e3779b97f4a7c15;
    return (size_t)(h ^ h >> 29);
}

/* The slot of an address: its answer, or a free one. */
static struct hx_code_answer *find_slot(const hx_code *code, uint32_t file, uint64_t vaddr)
{
    size_t mask = code->n_slots - 1, at = hash_vaddr(file, vaddr) & mask;
    while (code->answers[at].lines &&
           (code->answers[at].vaddr != vaddr || code->answers[at].file != file))
        at = (at + 1) & mask;
    return &code->answers[at];
}

static bool grow_lines(hx_code *code)
{
    struct hx_code_answer *old = code->answers;
    size_t n_old = code->n_slots, n = n_old ? n_old * 2 : 256;
    struct hx_code_answer *answers = calloc(n, sizeof *answers);
    if (!answers)
        return false;
    code->answers = answers;
    code->n_slots = n;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].lines)
            *find_slot(code, old[i].file, old[i].vaddr) = old[i];
    free(old);
    return true;
}

/* --- making one -------------------------------------------------------------- */

static const char *keep_line_text(hx_code *code, const char *s)
{
    return s ? hx_code_store_string(&code->store, s, strlen(s)) : NULL;
}

static const char *full_path(hx_code *code, const char *dir, const char *source)
{
    if (!source || source[0] == '/' || !dir || dir[0] != '/')
        return keep_line_text(code, source);
    struct hx_text text = {0};
    hx_text_putf(&text, "%s/%s", dir, source);
    const char *path = text.failed ? NULL : keep_line_text(code, hx_text_str(&text));
    hx_text_free(&text);
    return path;
}

/* The same without "." and ".." in it, which depend on from where the compiler was called. */
static const char *clean_path(hx_code *code, const char *path)
{
    if (!path || path[0] != '/')
        return path;
    struct hx_text text = {0};
    for (const char *at = path; *at;) {
        const char *name = at + strspn(at, "/");
        size_t n = strcspn(name, "/");
        at = name + n;
        if (n == 2 && name[0] == '.' && name[1] == '.') {
            while (text.n && text.s[--text.n] != '/')
                ;
        } else if (n && !(n == 1 && name[0] == '.')) {
            hx_text_putn(&text, "/", 1);
            hx_text_putn(&text, name, n);
        }
    }
    const char *clean =
        text.failed || !text.n ? path : hx_code_store_string(&code->store, text.s, text.n);
    hx_text_free(&text);
    return clean;
}

/* ABI tags stay only where the file has a second function of that name. */
static const char *demangled(hx_code *code, const struct hx_code_file *file, const char *name)
{
    struct hx_text full = {0}, untagged = {0};
    hx_demangle_symbol(&full, name);
    hx_put_untagged(&untagged, hx_text_str(&full));
    bool tagged = untagged.n < full.n &&
                  hx_code_symbols_namesake(&file->symbols, name, hx_text_str(&untagged));
    const char *shown = full.failed || untagged.failed
                            ? NULL
                            : keep_line_text(code, hx_text_str(tagged ? &full : &untagged));
    hx_text_free(&full);
    hx_text_free(&untagged);
    return shown;
}

/* How much of a symbol is the function's name: without what the compiler put behind it when it
 * moved a part of the function away, or made a special one of it ("f.part.0.cold"). */
static size_t bare_length(const char *name)
{
    static const char *const words[] = {"cold",  "part", "constprop",  "isra",        "lto_priv",
                                        "clone", "llvm", "localalias", "specialized", "__uniq"};
    size_t n = strlen(name);
    for (;;) {
        size_t end = n, dot;
        while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
            end--;
        end = end && end < n && name[end - 1] == '.' ? end - 1 : n;
        for (dot = end; dot && name[dot - 1] != '.'; dot--)
            ;
        bool known = false;
        for (size_t i = 0; dot > 1 && !known && i < sizeof words / sizeof *words; i++)
            known = end - dot == strlen(words[i]) && !memcmp(name + dot, words[i], end - dot);
        if (!known)
            return n;
        n = dot - 1;
    }
}

/* Is the symbol the function itself, or a part that the compiler made of it ("f.cold",
 * "f.part.0")? */
static bool is_of_function(const char *symbol, const char *function)
{
    size_t n = strlen(function);
    return strncmp(symbol, function, n) == 0 && (symbol[n] == '.' || !symbol[n]);
}

/* The function's own symbol. Where debug information tells what function it is, nothing behind a
 * mangled name says more. */
static const char *bare_symbol(hx_code *code, const char *name, bool is_declared)
{
    const char *dot = is_declared && strncmp(name, "_Z", 2) == 0 ? strchr(name, '.') : NULL;
    return hx_code_store_string(&code->store, name, dot ? (size_t)(dot - name) : bare_length(name));
}

/* Fills in how the function is called by its program and by the linker. */
static void name_scope(hx_code *code, const struct hx_code_file *file,
                       const struct hx_code_scope *scope, struct hx_code_line *line)
{
    if (scope->linkage && scope->linkage[0]) {
        line->symbol = keep_line_text(code, scope->linkage);
        line->function = demangled(code, file, scope->linkage);
        return;
    }
    if (!scope->name || !scope->name[0])
        return;
    struct hx_text text = {0};
    for (uint32_t i = scope->n_within; i-- > 0;)
        hx_text_putf(&text, "%s::", scope->within[i]);
    hx_text_puts(&text, scope->name);
    line->function = text.failed ? NULL : keep_line_text(code, hx_text_str(&text));
    line->symbol = scope->n_within ? NULL : line->function;
    hx_text_free(&text);
}

/* Where the function begins that the code at vaddr is of, also when it is a part of it that lies
 * somewhere else; 0: unknown. */
static uint64_t find_function_entry(hx_code *code, struct hx_code_file *file, uint64_t vaddr,
                                    const struct hx_code_symbol *symbol, uint64_t by_dwarf)
{
    struct hx_cfi cfi;
    uint64_t start, end;
    if (symbol) {
        const char *name = file->symbols.names.v + symbol->name;
        size_t n = bare_length(name);
        const char *bare = name[n] ? hx_code_store_string(&code->store, name, n) : NULL;
        const struct hx_code_function *whole =
            bare ? hx_code_symbols_named(&file->symbols, bare) : NULL;
        return whole && !whole->several ? whole->vaddr : symbol->start;
    }
    if (by_dwarf != UINT64_MAX)
        return by_dwarf;
    return hx_code_file_cfi(file, &cfi) && hx_cfi_function(&cfi, vaddr, &start, &end) ? start : 0;
}

/* The function that the code belongs to. Where its symbol has another name than the debug
 * information gives, callers know it by the symbol (malloc, whose source says __libc_malloc). */
static void put_outermost(hx_code *code, struct hx_code_file *file, uint64_t vaddr,
                          const struct hx_code_scope *scope, struct hx_code_line *line)
{
    struct hx_code_symbol *symbol = hx_code_symbols_find(&file->symbols, vaddr);
    const char *name = symbol ? file->symbols.names.v + symbol->name : NULL;
    const char *declared = scope->linkage ? scope->linkage : scope->name;
    line->entry = find_function_entry(code, file, vaddr, symbol, scope->entry);
    if (symbol)
        line->offset = vaddr - symbol->start;
    else if (vaddr >= scope->entry)
        line->offset = vaddr - scope->entry;
    /* What no other file sees has a mangled name only where it has code of its own: as that does
     * not tell the calls that were inlined, it is not used at all. */
    bool unseen = !scope->linkage && name && strncmp(name, "_Z", 2) == 0;
    if (declared && (!name || unseen || is_of_function(name, declared))) {
        name_scope(code, file, scope, line);
    } else if (symbol) {
        line->symbol = bare_symbol(code, name, declared);
        if (!symbol->shown && line->symbol)
            symbol->shown = demangled(code, file, line->symbol);
        line->function = symbol->shown;
    }
}

bool hx_code_debug_open(hx_code *code, struct hx_code_file *file, struct hx_code_debug *ret)
{
    HX_CODE_DEBUG struct hx_code_debug debug = HX_CODE_DEBUG_NONE;
    pthread_mutex_lock(&file->lock);
    debug.fd[0] = hx_code_file_fd(file, &debug.close);
    pthread_mutex_unlock(&file->lock);
    if (debug.fd[0] < 0)
        return false;
    const struct hx_debug_search search = hx_code_debug_search(code, file);
    debug.fd[1] = hx_debug_open(&search, debug.fd[0]);
    if (debug.fd[1] < 0 && !hx_debug_is_inside(debug.fd[0]))
        return false;
    debug.fd[2] = hx_debug_open_shared(&search, debug.fd[debug.fd[1] >= 0]);
    *ret = debug;
    debug = HX_CODE_DEBUG_NONE;
    return true;
}

void hx_code_debug_close(struct hx_code_debug *debug)
{
    for (size_t i = debug->close ? 0 : 1; i < HX_TYPE_FILES; i++)
        hx_cleanup_fd(&debug->fd[i]);
    *debug = HX_CODE_DEBUG_NONE;
}

/* Notes what is read, when it is the same before and after. */
static void start_reader(hx_code *code, struct hx_code_file *file,
                         const struct hx_code_debug *debug)
{
    struct hx_file_stamp before, after;
    for (size_t i = 0; i < HX_TYPE_FILES; i++)
        hx_file_stamp(debug->fd[i], &file->read[i]);
    file->dwarf = hx_code_reader_create(&file->file, &code->reading, &code->stem, debug->fd);
    for (size_t i = 0; i < HX_TYPE_FILES; i++) {
        before = file->read[i];
        if (!hx_file_stamp(debug->fd[i], &after) || memcmp(&before, &after, sizeof after) != 0)
            file->read[i].device = UINT64_MAX;
    }
    code->n_readers += file->dwarf != NULL;
}

bool hx_code_is_large(hx_code *code, struct hx_code_file *file)
{
    HX_CODE_DEBUG struct hx_code_debug debug = HX_CODE_DEBUG_NONE;
    struct stat st;
    if (file->size_tried || !file->sound)
        return file->large;
    file->size_tried = true;
    if (!hx_code_debug_open(code, file, &debug))
        return false;
    for (size_t i = debug.fd[1] >= 0; i < HX_TYPE_FILES; i++)
        file->large |= debug.fd[i] >= 0 && fstat(debug.fd[i], &st) == 0 && st.st_size > LARGE;
    return file->large;
}

/* With the lock of names. */
static bool waits(hx_code *code, struct hx_code_file *file)
{
    return hx_reading_late(&code->reading) || (hx_reading_hurries(&code->reading) &&
                                               !file->dwarf_tried && hx_code_is_large(code, file));
}

bool hx_code_waits(hx_code *code, uint32_t i)
{
    if (i >= hx_code_count(code))
        return false;
    pthread_mutex_lock(&code->names);
    const bool later = waits(code, hx_code_file_at(code, i));
    pthread_mutex_unlock(&code->names);
    return later;
}

bool hx_code_load_dwarf(hx_code *code, struct hx_code_file *file)
{
    if (!hx_code_load_symbols(code, file))
        return false;
    if (file->dwarf_tried || !file->sound)
        return true;
    if (waits(code, file))
        return false;
    file->dwarf_tried = true;
    const uint64_t begun = hx_timing_begin();
    HX_CODE_DEBUG struct hx_code_debug debug = HX_CODE_DEBUG_NONE;
    if (!hx_code_debug_open(code, file, &debug))
        ;
    else if (code->n_readers == READERS_MAX)
        hx_reading_leave(&code->reading, file->file.path,
                         "debug information, as 256 files are being read already");
    else
        start_reader(code, file, &debug);
    hx_timing_end(begun, "debug-information", 1);
    return true;
}

void hx_code_forget_dwarf(hx_code *code, struct hx_code_file *file)
{
    code->n_readers -= file->dwarf != NULL;
    hx_code_reader_destroy(file->dwarf);
    file->dwarf = NULL;
    file->dwarf_tried = false;
    hx_vec_free(&file->types);
    file->types_tried = false;
}

/* A return address that no call has left, but the kernel (to the end of a signal handler) or
 * makecontext(), is where a function begins; less one it is in none, and the function is meant. */
static uint64_t meant(const struct hx_code_file *file, uint64_t vaddr)
{
    if (vaddr == UINT64_MAX || hx_code_symbols_find(&file->symbols, vaddr))
        return vaddr;
    const struct hx_code_symbol *next = hx_code_symbols_find(&file->symbols, vaddr + 1);
    return next && next->start == vaddr + 1 ? vaddr + 1 : vaddr;
}

/* Fills lines, which has HX_CODE_LINES_MAX places; 0: reading is to end. */
static size_t name_address(hx_code *code, struct hx_code_file *file, uint64_t vaddr,
                           struct hx_code_line *lines)
{
    struct hx_code_scope scopes[HX_CODE_LINES_MAX];
    if (!hx_code_load_dwarf(code, file))
        return 0;
    vaddr = meant(file, vaddr);
    size_t n =
        file->dwarf ? hx_code_reader_scopes(file->dwarf, vaddr, scopes, HX_CODE_LINES_MAX) : 0;
    if (!n) {
        scopes[0] = (struct hx_code_scope){.entry = UINT64_MAX};
        n = 1;
    }
    for (size_t i = 0; i < n; i++) {
        lines[i] = (struct hx_code_line){
            .source = full_path(code, scopes[i].dir, scopes[i].source),
            .line = scopes[i].line,
            .declared = clean_path(code, full_path(code, scopes[i].dir, scopes[i].declared)),
            .declared_line = scopes[i].declared_line};
        if (i + 1 < n)
            name_scope(code, file, &scopes[i], &lines[i]);
        else
            put_outermost(code, file, vaddr, &scopes[i], &lines[i]);
    }
    if (!hx_reading_late(&code->reading))
        return n;
    hx_code_forget_dwarf(code, file);
    return 0;
}

/* With the lock of names. *ret stays when there is no memory. */
static size_t find_lines(hx_code *code, uint32_t file, uint64_t vaddr,
                         const struct hx_code_line **ret)
{
    if (code->n_answers * 2 >= code->n_slots && !grow_lines(code))
        return 1;
    struct hx_code_answer *answer = find_slot(code, file, vaddr);
    if (!answer->lines) {
        struct hx_code_line lines[HX_CODE_LINES_MAX];
        size_t n = name_address(code, hx_code_file_at(code, file), vaddr, lines);
        struct hx_code_line *kept = n ? hx_code_store_take(&code->store, n * sizeof *kept) : NULL;
        if (!kept)
            return 1;
        memcpy(kept, lines, n * sizeof *kept);
        *answer =
            (struct hx_code_answer){.vaddr = vaddr, .file = file, .n = (uint32_t)n, .lines = kept};
        code->n_answers++;
    }
    *ret = answer->lines;
    return answer->n;
}

size_t hx_code_lines(hx_code *code, uint32_t file, uint64_t vaddr, const struct hx_code_line **ret)
{
    static const struct hx_code_line unknown = {0};
    *ret = &unknown;
    if (file >= hx_code_count(code))
        return 1;
    pthread_mutex_lock(&code->names);
    size_t n = find_lines(code, file, vaddr, ret);
    pthread_mutex_unlock(&code->names);
    return n;
}

/* --- what lies on the stack ---------------------------------------------------- */

static void find_locals(hx_code *code, struct hx_code_file *file, struct hx_code_answer *answer)
{
    HX_FREE struct hx_code_local *local = malloc(HX_CODE_LOCALS_MAX * sizeof *local);
    answer->locals_tried = true;
    size_t n = file->dwarf && local ? hx_code_reader_locals(file->dwarf, meant(file, answer->vaddr),
                                                            local, HX_CODE_LOCALS_MAX)
                                    : 0;
    if (hx_reading_late(&code->reading)) {
        answer->locals_tried = false;
        hx_code_forget_dwarf(code, file);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = local[i].depth < answer->n ? local[i].depth : answer->n - 1;
        local[i].function = answer->lines[at].function;
        local[i].name = keep_line_text(code, local[i].name);
        local[i].type = keep_line_text(code, local[i].type);
        if (!local[i].name || !local[i].type)
            return;
    }
    struct hx_code_local *kept = n ? hx_code_store_take(&code->store, n * sizeof *kept) : NULL;
    if (!kept)
        return;
    memcpy(kept, local, n * sizeof *kept);
    answer->locals = kept;
    answer->n_locals = (uint32_t)n;
}

size_t hx_code_frame(hx_code *code, uint32_t file, uint64_t vaddr, const char **ret_function,
                     const struct hx_code_local **ret)
{
    size_t n = 0;
    const struct hx_code_line *line = NULL;
    *ret_function = NULL;
    *ret = NULL;
    if (file >= hx_code_count(code))
        return 0;
    pthread_mutex_lock(&code->names);
    size_t n_lines = find_lines(code, file, vaddr, &line);
    struct hx_code_answer *answer = line ? find_slot(code, file, vaddr) : NULL;
    struct hx_code_file *of = hx_code_file_at(code, file);
    if (answer && answer->lines && hx_code_load_dwarf(code, of) && of->dwarf &&
        line[n_lines - 1].declared_line) {
        if (!answer->locals_tried)
            find_locals(code, of, answer);
        *ret_function = line[n_lines - 1].function;
        *ret = answer->locals;
        n = answer->n_locals;
    }
    pthread_mutex_unlock(&code->names);
    return n;
}

/* --- types ------------------------------------------------------------------- */

struct type_keeper {
    hx_code *code;
    struct hx_code_file *file;
};

static bool keep_type(void *context, const char *name, uint64_t bytes)
{
    struct type_keeper *keeper = context;
    struct hx_code_type type = {keep_line_text(keeper->code, name), bytes};
    return type.name && hx_vec_push(&keeper->file->types, type);
}

static void load_types(hx_code *code, struct hx_code_file *file, uint64_t deadline_ns)
{
    struct type_keeper keeper = {.code = code, .file = file};
    if (!hx_code_load_dwarf(code, file))
        return;
    file->types_tried = true;
    file->types_whole =
        !file->dwarf || hx_code_reader_types(file->dwarf, deadline_ns, keep_type, &keeper);
    if (hx_reading_late(&code->reading))
        hx_code_forget_dwarf(code, file);
}

bool hx_code_types(hx_code *code, uint32_t i, uint64_t deadline_ns,
                   bool (*each)(void *context, const char *name, uint64_t bytes), void *context)
{
    if (i >= hx_code_count(code))
        return true;
    pthread_mutex_lock(&code->names);
    struct hx_code_file *file = hx_code_file_at(code, i);
    if (!file->types_tried)
        load_types(code, file, deadline_ns);
    bool whole = file->types_tried && file->types_whole;
    for (size_t k = 0; k < file->types.n; k++)
        if (!each(context, file->types.v[k].name, file->types.v[k].bytes)) {
            whole = false;
            break;
        }
    pthread_mutex_unlock(&code->names);
    return whole;
}

/* --- without debug information ------------------------------------------------ */

void hx_code_symbol_line(hx_code *code, uint32_t i, uint64_t vaddr, struct hx_code_line *ret)
{
    const struct hx_code_scope none = {.entry = UINT64_MAX};
    *ret = (struct hx_code_line){0};
    if (i >= hx_code_count(code))
        return;
    struct hx_code_file *file = hx_code_file_at(code, i);
    if (!hx_code_load_symbols(code, file))
        return;
    pthread_mutex_lock(&code->names);
    put_outermost(code, file, meant(file, vaddr), &none, ret);
    pthread_mutex_unlock(&code->names);
}
