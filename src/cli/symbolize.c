/* symbolize.c - `heapx symbolize FILE`: names and types of a store, from files that are found later
 * or elsewhere. */
#include "attach/roots/rename.h"
#include "attach/types/debug_types.h"
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/take/take_types.h"
#include "store/hints.h"
#include "sym/debug_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct symbolizing {
    const struct hx_args *args;
    struct hx_console *console;
    hx_store *store;
    bool any, told; /* a file was found; a snapshot tells of files */
};

/* The files of one snapshot that are here. */
struct found_files {
    hx_code *code;
    hx_modules *modules;
    char **local; /* of each loaded one; NULL: none */
    size_t n;
    bool any;
};

static void cleanup_found(struct found_files *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->local[i]);
    free(found->local);
    hx_modules_destroy(found->modules);
    hx_code_destroy(found->code);
}

/* What one gave: who looks for names has to see which of them has none. */
static void put_found(const struct hx_loaded_file *file, const char *local, struct hx_text *line)
{
    const enum hx_debug_level level = hx_debug_level(local, file->build_id);
    hx_text_escape(line, local, strlen(local), false);
    if (level == HX_DEBUG_TYPES) {
        hx_text_puts(line, "  names and types");
        return;
    }
    hx_text_puts(line, level == HX_DEBUG_NAMES ? "  names, no debug information: "
                                               : "  no debug information: ");
    hx_names_in(file->path, file->build_id, line);
    hx_text_puts(line, ", here or in --debug DIR");
}

static void tell_file(const struct hx_loaded_file *file, const char *local, bool other)
{
    struct hx_text line = {0};
    hx_text_escape(&line, file->path, strlen(file->path), false);
    hx_text_puts(&line, "  ");
    if (local)
        put_found(file, local, &line);
    else if (file->build_id)
        hx_text_putf(&line, "%s: build-id %.128s", other ? "another build" : "not found",
                     file->build_id);
    else
        hx_text_puts(&line, "has no build-id that would tell which file it was");
    puts(hx_text_str(&line));
    hx_text_free(&line);
}

/* Opens it in the set, so that its number is known. */
static hx_error *open_file(struct found_files *found, struct hx_loaded_file *file, size_t i)
{
    const struct hx_mapping mapping = {.start = file->bias,
                                       .end = file->bias + 4096,
                                       .prot = HX_PROT_R | HX_PROT_X,
                                       .inode = i + 1, /* no two are one */
                                       .path = file->path,
                                       .local = found->local[i]};
    return hx_code_add(found->code, 0, &mapping, &file->code);
}

static hx_error *find_files(const struct symbolizing *symbolizing, struct hx_snapshot *snapshot,
                            struct found_files *found)
{
    HX_FREE struct hx_known_module *known = calloc(snapshot->loaded.n + 1, sizeof *known);
    found->local = calloc(snapshot->loaded.n + 1, sizeof *found->local);
    HX_NEED(known && found->local);
    found->n = snapshot->loaded.n;
    HX_TRY(hx_code_create(&found->code));
    if (symbolizing->args->type_cache)
        hx_code_cache_types(found->code);
    for (size_t i = 0; i < found->n; i++) {
        struct hx_loaded_file *file = &snapshot->loaded.v[i];
        bool other = false;
        if (file->build_id)
            found->local[i] =
                hx_debug_find(symbolizing->args->debug, file->path, file->build_id, &other);
        tell_file(file, found->local[i], other);
        known[i] = (struct hx_known_module){file->path, found->local[i], file->bias};
        if (found->local[i])
            HX_TRY(open_file(found, file, i));
        found->any |= found->local[i] != NULL;
        if (atomic_load(hx_interrupted()))
            return hx_error_cancelled("names");
    }
    return hx_modules_create_known(known, found->n, &found->modules);
}

/* Names and types of one snapshot, and what follows from them. */
static hx_error *symbolize_one(struct symbolizing *symbolizing, int64_t number)
{
    const struct hx_args *args = symbolizing->args;
    const struct hx_progress *progress = &symbolizing->console->progress;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_CLEANUP(cleanup_found) struct found_files found = {0};
    HX_CLEANUP(hx_debug_types_deinit) struct hx_debug_types types = {0};
    unsigned parts;
    char word[32];
    HX_TRY(hx_store_parts(symbolizing->store, number, &parts));
    HX_TRY(hx_store_load(symbolizing->store, number, progress, &snapshot));
    HX_TRY(hx_store_load_stop(symbolizing->store, number, snapshot));
    if (snapshot->no_heap || !snapshot->loaded.n)
        return NULL;
    symbolizing->told = true;
    HX_TRY(find_files(symbolizing, snapshot, &found));
    if (!found.any)
        return NULL;
    symbolizing->any = true;
    HX_TRY(hx_roots_rename(snapshot, found.modules, found.code, progress));
    HX_TRY(hx_debug_types_find(snapshot, found.code, UINT64_MAX, progress, &types));
    HX_TRY(hx_type_objects(args, snapshot, &types, progress));
    hx_snapshot_named(snapshot);
    HX_TRY(hx_store_rename(symbolizing->store, number, snapshot, progress));
    snprintf(word, sizeof word, "%lld", (long long)number);
    return hx_revise(args, symbolizing->console, symbolizing->store, word, parts);
}

static hx_error *symbolize_all(struct symbolizing *symbolizing)
{
    const char *which =
        hx_args_given(symbolizing->args, HX_OPT_SNAPSHOT) ? symbolizing->args->snapshot : "all";
    int64_t number;
    if (strcmp(which, "all") != 0) {
        HX_TRY(hx_store_resolve(symbolizing->store, which, &number));
        return symbolize_one(symbolizing, number);
    }
    HX_TRY(hx_store_resolve(symbolizing->store, "first", &number)); /* an empty one is an error */
    for (number = 0;;) {
        HX_TRY(hx_store_next(symbolizing->store, number, &number));
        if (!number)
            return NULL;
        HX_TRY(symbolize_one(symbolizing, number));
    }
}

hx_error *hx_cmd_symbolize(const struct hx_args *args, int *status)
{
    (void)status;
    struct hx_output output = {0};
    if (access(args->word[0], F_OK) != 0)
        return hx_error_os(errno, args->word[0], "open");
    HX_TRY(hx_output_open(args->word[0], &output));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    hx_store_cancelled_by(output.store, hx_interrupted());
    struct symbolizing symbolizing = {.args = args, .console = &console, .store = output.store};
    hx_error *err = symbolize_all(&symbolizing);
    hx_console_clear(&console);
    hx_error *close_err = hx_output_close(&output);
    if (!err && !close_err && !symbolizing.told)
        return hx_error_new(HX_E_ABSENT, args->word[0], "take a new one",
                            "it does not say where its files lay: it was imported, or made by an "
                            "older heapx");
    if (!err && !close_err && !symbolizing.any)
        return hx_error_new(HX_E_ABSENT, args->word[0], "say where they are: --debug DIR",
                            "no file of its snapshots is here");
    if (!err)
        return close_err;
    hx_error_free(close_err);
    return err;
}
