/* code_reader.c - debug information, read by a process of its own for each file.
 *
 * That process keeps what it has read, and answers for one address after the other. Ahead: what
 * heapx asks and how it tests the answers; behind: the service.
 */
#include "sym/code/code_private.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "sym/reader/reader.h"
#include "sym/types/types_read.h"

#include <stdlib.h>
#include <string.h>

#define SERVICE   "debug-information"
#define TYPES_MAX 1000000 /* of one file */
#define PATH_ROOM 8192

enum op { OP_OPEN, OP_SCOPES, OP_LOCALS, OP_TYPES, OP_TYPE_TABLE };

/* --- heapx's end --------------------------------------------------------------- */

struct hx_code_reader {
    const char *path; /* of the file */
    struct hx_reading *reading;
    struct hx_reader *process; /* NULL: it has ended */
};

/* Asks for something; false when there is no answer, and never will be. */
static bool ask(struct hx_code_reader *reader, const struct hx_reader_call *call,
                struct hx_flat *ret)
{
    if (!reader->process)
        return false;
    hx_error *err = hx_reader_ask(reader->process, call, reader->reading, reader->path, ret);
    if (!err)
        return true;
    if (err->kind != HX_E_CANCEL) {
        struct hx_text what = {0};
        hx_text_putf(&what, "%s: %s", HX_CODE_READER_ENDED, err->why);
        hx_reading_leave(reader->reading, reader->path,
                         what.failed ? HX_CODE_READER_ENDED : hx_text_str(&what));
        hx_text_free(&what);
    }
    hx_error_free(err);
    hx_reader_stop(reader->process);
    reader->process = NULL;
    return false;
}

static void put_file(struct hx_flat *words, const struct hx_module_file *file)
{
    hx_flat_put_string(words, file->path);
    hx_flat_put(words, file->layout.load.n);
    for (size_t i = 0; i < file->layout.load.n; i++) {
        const struct hx_elf_segment *seg = &file->layout.load.v[i];
        hx_flat_put(words, seg->vaddr);
        hx_flat_put(words, seg->memsz);
        hx_flat_put(words, seg->flags);
    }
}

/* False: there is no debug information, nor anybody to read it. */
static bool open_file(struct hx_code_reader *reader, const struct hx_module_file *file,
                      const int fds[3])
{
    struct hx_flat answer, words = {.size = PATH_ROOM + file->layout.load.n * 24};
    words.bytes = malloc(words.size);
    if (!words.bytes)
        return false;
    put_file(&words, file);
    struct hx_reader_call call = {.op = OP_OPEN, .words = words, .fds = {fds[0], fds[1], fds[2]}};
    bool opened = ask(reader, &call, &answer) && hx_flat_take(&answer) == 1;
    free(words.bytes);
    return opened;
}

struct hx_code_reader *hx_code_reader_create(const struct hx_module_file *file,
                                             struct hx_reading *reading,
                                             struct hx_reader_stem **stem, const int fds[3])
{
    struct hx_code_reader *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    *made = (struct hx_code_reader){.path = file->path, .reading = reading};
    hx_error *err = hx_reader_start(SERVICE, stem, &made->process);
    if (err)
        hx_reading_leave(reading, file->path, "debug information, for want of a process");
    hx_error_free(err);
    if (!err && open_file(made, file, fds))
        return made;
    hx_code_reader_destroy(made);
    return NULL;
}

hx_error *hx_code_try_reader(unsigned *ret_guards)
{
    struct hx_reader *reader;
    HX_TRY(hx_reader_start(SERVICE, NULL, &reader));
    *ret_guards = hx_reader_guards(reader);
    hx_reader_stop(reader);
    return NULL;
}

void hx_code_reader_destroy(struct hx_code_reader *reader)
{
    if (!reader)
        return;
    hx_reader_stop(reader->process);
    free(reader);
}

static void put_scope(struct hx_flat *to, const struct hx_code_scope *scope)
{
    hx_flat_put_string(to, scope->linkage);
    hx_flat_put_string(to, scope->name);
    hx_flat_put(to, scope->n_within);
    for (uint32_t i = 0; i < scope->n_within; i++)
        hx_flat_put_string(to, scope->within[i]);
    hx_flat_put(to, scope->entry);
    hx_flat_put_string(to, scope->dir);
    hx_flat_put_string(to, scope->source);
    hx_flat_put(to, scope->line);
    hx_flat_put_string(to, scope->declared);
    hx_flat_put(to, scope->declared_line);
}

static void take_scope(struct hx_flat *from, struct hx_code_scope *ret)
{
    ret->linkage = hx_flat_take_string(from);
    ret->name = hx_flat_take_string(from);
    ret->n_within = (uint32_t)hx_flat_take_below(from, HX_CODE_WITHIN_MAX);
    for (uint32_t i = 0; i < ret->n_within; i++)
        if (!(ret->within[i] = hx_flat_take_string(from)))
            from->bad = true;
    ret->entry = hx_flat_take(from);
    ret->dir = hx_flat_take_string(from);
    ret->source = hx_flat_take_string(from);
    ret->line = (uint32_t)hx_flat_take_below(from, UINT32_MAX);
    ret->declared = hx_flat_take_string(from);
    ret->declared_line = (uint32_t)hx_flat_take_below(from, UINT32_MAX);
}

size_t hx_code_reader_scopes(struct hx_code_reader *reader, uint64_t vaddr,
                             struct hx_code_scope *scopes, size_t max)
{
    struct hx_flat answer;
    if (!ask(reader, &(struct hx_reader_call){.op = OP_SCOPES, .number = vaddr}, &answer))
        return 0;
    size_t n = hx_flat_take_below(&answer, max);
    for (size_t i = 0; i < n; i++)
        take_scope(&answer, &scopes[i]);
    return answer.bad ? 0 : n;
}

size_t hx_code_reader_locals(struct hx_code_reader *reader, uint64_t vaddr,
                             struct hx_code_local *local, size_t max)
{
    struct hx_flat answer;
    if (!ask(reader, &(struct hx_reader_call){.op = OP_LOCALS, .number = vaddr}, &answer))
        return 0;
    size_t n = hx_flat_take_below(&answer, max);
    for (size_t i = 0; i < n; i++) {
        local[i] = (struct hx_code_local){.name = hx_flat_take_string(&answer),
                                          .type = hx_flat_take_string(&answer)};
        local[i].depth = (uint32_t)hx_flat_take_below(&answer, HX_CODE_LINES_MAX - 1);
        local[i].base = (enum hx_code_base)hx_flat_take_below(&answer, HX_CODE_BASES - 1);
        local[i].offset = (int64_t)hx_flat_take(&answer);
        local[i].size = hx_flat_take(&answer);
        answer.bad |= !local[i].name || !local[i].type;
    }
    return answer.bad ? 0 : n;
}

bool hx_code_reader_types(struct hx_code_reader *reader, uint64_t deadline_ns,
                          bool (*each)(void *context, const char *name, uint64_t bytes),
                          void *context)
{
    struct hx_flat answer;
    if (!ask(reader, &(struct hx_reader_call){.op = OP_TYPES, .number = deadline_ns}, &answer))
        return false;
    for (const char *name; (name = hx_flat_take_string(&answer));)
        if (!each(context, name, hx_flat_take(&answer)))
            return false;
    return hx_flat_take(&answer) == 1 && !answer.bad;
}

bool hx_code_reader_type_table(struct hx_code_reader *reader, uint64_t deadline_ns,
                               struct hx_type_table *ret, void **ret_block, bool *ret_whole)
{
    struct hx_flat answer;
    const struct hx_reader_call call = {.op = OP_TYPE_TABLE, .number = deadline_ns};
    if (!ask(reader, &call, &answer))
        return false;
    *ret_whole = hx_flat_take_below(&answer, 1) && !hx_reader_has_asked(reader->process) &&
                 hx_reader_guards(reader->process) & HX_READER_CALLS; /* else it may not ask */
    const uint64_t bytes = hx_flat_take(&answer);
    const uint8_t *from = bytes ? hx_flat_step(&answer, bytes) : NULL;
    void *block = from ? malloc(bytes) : NULL;
    if (!block)
        return false;
    memcpy(block, from, bytes);
    hx_error *err = hx_type_table_open(block, bytes, ret);
    if (!err) {
        *ret_block = block;
        return true;
    }
    hx_error_free(err);
    free(block);
    return false;
}

/* --- the service --------------------------------------------------------------- */

struct service {
    struct hx_module_file file;
    struct hx_code_dwarf *dwarf;
};

static void answer_open(struct service *service, const struct hx_reader_work *work)
{
    struct hx_flat words = work->words;
    const char *path = hx_flat_take_string(&words);
    service->file = (struct hx_module_file){.path = strdup(path ? path : "")};
    for (uint64_t n = hx_flat_take(&words); n && !words.bad; n--) {
        struct hx_elf_segment seg = {.vaddr = hx_flat_take(&words), .memsz = hx_flat_take(&words)};
        seg.flags = (uint32_t)hx_flat_take(&words);
        words.bad |= !hx_vec_push(&service->file.layout.load, seg);
    }
    if (!words.bad && service->file.path)
        service->dwarf = hx_code_dwarf_create(&service->file, work->reading, work->fds,
                                              work->guards & HX_READER_CALLS);
    hx_flat_put(work->ret, service->dwarf != NULL);
}

static void answer_scopes(const struct service *service, const struct hx_reader_work *work)
{
    struct hx_code_scope scopes[HX_CODE_LINES_MAX];
    size_t n = hx_code_dwarf_scopes(service->dwarf, work->number, scopes, HX_CODE_LINES_MAX);
    hx_flat_put(work->ret, n);
    for (size_t i = 0; i < n; i++)
        put_scope(work->ret, &scopes[i]);
}

static void answer_locals(const struct service *service, const struct hx_reader_work *work)
{
    HX_FREE struct hx_code_local *local = malloc(HX_CODE_LOCALS_MAX * sizeof *local);
    size_t n =
        local ? hx_code_dwarf_locals(service->dwarf, work->number, local, HX_CODE_LOCALS_MAX) : 0;
    hx_flat_put(work->ret, n);
    for (size_t i = 0; i < n; i++) {
        hx_flat_put_string(work->ret, local[i].name);
        hx_flat_put_string(work->ret, local[i].type ? local[i].type : "");
        hx_flat_put(work->ret, local[i].depth);
        hx_flat_put(work->ret, local[i].base);
        hx_flat_put(work->ret, (uint64_t)local[i].offset);
        hx_flat_put(work->ret, local[i].size);
    }
}

struct type_keeper {
    struct hx_code_store names;
    struct hx_index index;
    HX_VEC(struct hx_code_type) types;
    struct hx_flat *ret;
};

/* Each type goes over once: every unit that includes a header has those in it. */
static bool put_type(void *context, const char *name, uint64_t bytes)
{
    struct type_keeper *keeper = context;
    struct hx_code_type type = {hx_code_store_string(&keeper->names, name, strlen(name)), bytes};
    uint64_t key = ((uint64_t)(uintptr_t)type.name + bytes) * 0x9e3779b97f4a7c15;
    if (keeper->types.n >= TYPES_MAX || !type.name)
        return false;
    for (uint32_t at = 0, i; hx_index_next(&keeper->index, key, &at, &i);)
        if (keeper->types.v[i].name == type.name && keeper->types.v[i].bytes == bytes)
            return true;
    if (!hx_vec_push(&keeper->types, type))
        return false;
    hx_error *err = hx_index_add(&keeper->index, key, (uint32_t)keeper->types.n - 1);
    hx_error_free(err);
    hx_flat_put_string(keeper->ret, name);
    hx_flat_put(keeper->ret, bytes);
    return !err && !keeper->ret->bad;
}

static void answer_types(const struct service *service, const struct hx_reader_work *work)
{
    struct type_keeper keeper = {.ret = work->ret};
    bool whole = hx_code_dwarf_types(service->dwarf, work->number, put_type, &keeper);
    hx_flat_put_string(work->ret, NULL);
    hx_flat_put(work->ret, whole);
    hx_code_store_free(&keeper.names);
    hx_index_free(&keeper.index);
    hx_vec_free(&keeper.types);
}

/* 0 bytes: the deadline has passed, or there was no memory. */
static void answer_type_table(const struct service *service, const struct hx_reader_work *work)
{
    void *block = NULL;
    size_t bytes = 0;
    hx_error *err = hx_types_read(service->dwarf, work->number, &block, &bytes);
    hx_error_free(err);
    hx_flat_put(work->ret, !hx_code_dwarf_is_spent(service->dwarf));
    hx_flat_put(work->ret, bytes);
    uint8_t *to = bytes ? hx_flat_step(work->ret, bytes) : NULL;
    if (to)
        memcpy(to, block, bytes);
    free(block);
}

static void answer_code(void *context, const struct hx_reader_work *work)
{
    struct service *service = context;
    if (work->op == OP_OPEN)
        answer_open(service, work);
    else if (service->dwarf && work->op == OP_SCOPES)
        answer_scopes(service, work);
    else if (service->dwarf && work->op == OP_LOCALS)
        answer_locals(service, work);
    else if (service->dwarf && work->op == OP_TYPES)
        answer_types(service, work);
    else if (service->dwarf && work->op == OP_TYPE_TABLE)
        answer_type_table(service, work);
}

HX_READER_SERVICE static void serve_code(int argc, char **argv)
{
    struct service service = {0};
    hx_reader_serve(argc, argv, SERVICE, answer_code, &service);
}
