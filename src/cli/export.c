/* export.c - `heapx export FILE FORMAT`: a store in the format of another program. */
#include "export/export.h"

#include "base/cleanup.h"
#include "base/nearest.h"
#include "base/pin.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"
#include "cli/words/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- The words of the call ------------------------------------------------------ */

static const char *next_format(void *context)
{
    const struct hx_exporter *const **cursor = context;
    return **cursor ? (*(*cursor)++)->name : NULL;
}

static hx_error *unknown_format(const char *name)
{
    const struct hx_exporter *const *cursor = hx_exporters;
    const char *near = hx_nearest(name, next_format, &cursor);
    struct hx_text todo = {0};
    if (near)
        hx_text_putf(&todo, "did you mean %s?", near);
    else
        hx_text_puts(&todo, "the formats are:");
    for (cursor = hx_exporters; !near && *cursor; cursor++)
        hx_text_putf(&todo, "%s %s", cursor == hx_exporters ? "" : ",", (*cursor)->name);
    hx_error *err = hx_error_new(HX_E_USAGE, name, hx_text_str(&todo), "unknown format");
    hx_text_free(&todo);
    return err;
}

static hx_error *check_words(const struct hx_args *args, const struct hx_exporter *exporter)
{
    HX_CLEANUP(hx_text_free) struct hx_text words = {0};
    hx_export_words(exporter, &words);
    HX_NEED(!words.failed);
    if (args->by && !hx_export_has_word(hx_text_str(&words), args->by)) {
        char todo[512];
        snprintf(todo, sizeof todo, "%s takes: %s", exporter->name, hx_text_str(&words));
        return hx_error_new(HX_E_USAGE, "--by", todo, "'%s' is none of them", args->by);
    }
    if (hx_args_given(args, HX_OPT_OBJECT) && !exporter->takes_object)
        return hx_error_new(HX_E_USAGE, "--object", "leave it out", "%s is not about one object",
                            exporter->name);
    if (exporter->span == HX_EXPORT_ONE && strcmp(args->snapshot, "all") == 0)
        return hx_error_new(HX_E_USAGE, "--snapshot", "give a number, first or last",
                            "%s holds one snapshot", exporter->name);
    if (exporter->binary && (!args->out || strcmp(args->out, "-") == 0) && isatty(STDOUT_FILENO))
        return hx_error_new(HX_E_USAGE, exporter->name, "add: -o FILE", "is not for terminals");
    return NULL;
}

/* What has to be worked out before `by` can be told. */
static unsigned parts_of(const char *by)
{
    if (!by)
        return HX_ANALYSE_ALL;
    const struct hx_stored_census *census = hx_census_find(by);
    return census ? census->needs : HX_ANALYSE_ALL;
}

/* --- Where it goes ---------------------------------------------------------------- */

/* A result appears whole or not at all: it is written beside its name and moved there. What is no
 * file of its own (a pipe, /dev/null) is written as it comes. */
struct place {
    const char *name;  /* for errors */
    struct hx_pin pin; /* the file; none: written as it comes */
    char *temporary;   /* its path until it is whole */
    FILE *file;
};

static void deinit_place(struct place *place)
{
    if (place->file && place->file != stdout)
        fclose(place->file);
    if (place->temporary)
        unlink(place->temporary);
    free(place->temporary);
    hx_pin_deinit(&place->pin);
}

/* A store holds what cannot be made again. */
static hx_error *refuse_store(const struct hx_pin *pin, const char *path)
{
    char head[16] = "";
    HX_FD int fd = open(pin->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || read(fd, head, sizeof head) != sizeof head ||
        memcmp(head, "SQLite format 3", sizeof head) != 0)
        return NULL;
    return hx_error_new(HX_E_FAIL, path, "choose another name", "is a database, and is kept");
}

static hx_error *use_fd(struct place *place, int fd)
{
    place->file = fdopen(fd, "w");
    if (place->file)
        return NULL;
    close(fd);
    return hx_error_nomem();
}

static hx_error *open_adjacent(struct place *place)
{
    if (asprintf(&place->temporary, "%s.XXXXXX", place->pin.at) < 0) {
        place->temporary = NULL;
        return hx_error_nomem();
    }
    int fd = mkostemp(place->temporary, O_CLOEXEC); /* for the user alone, as the store is */
    if (fd < 0) {
        hx_error *err = hx_error_os(errno, place->name, "create");
        free(place->temporary);
        place->temporary = NULL;
        return err;
    }
    return use_fd(place, fd);
}

static hx_error *open_place(const char *out, struct place *place)
{
    struct stat st;
    if (out && strcmp(out, "-") == 0)
        out = NULL;
    place->name = out ? out : "standard output";
    place->file = out ? NULL : stdout;
    place->pin = HX_PIN_NONE;
    if (!out)
        return NULL;
    HX_TRY(hx_pin(out, &place->pin)); /* links stay links */
    bool there = lstat(place->pin.at, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return hx_error_new(HX_E_FAIL, out, "name a file", "is a folder");
    if (there && !S_ISREG(st.st_mode)) {
        int fd = -1;
        hx_pin_deinit(&place->pin);
        HX_TRY(hx_pin_write(out, 0, &fd));
        return use_fd(place, fd);
    }
    if (there)
        HX_TRY(refuse_store(&place->pin, out));
    if (place->pin.doubt == HX_PIN_LED)
        return hx_pin_doubted(&place->pin, out);
    return open_adjacent(place);
}

static hx_error *close_place(struct place *place, int failed)
{
    errno = failed;
    if (!failed && fflush(place->file) == 0 && !ferror(place->file))
        errno = 0;
    else
        return hx_error_os(errno ? errno : EIO, place->name, "write");
    if (place->pin.folder < 0)
        return NULL;
    if (rename(place->temporary, place->pin.at))
        return hx_error_os(errno, place->name, "rename");
    free(place->temporary);
    place->temporary = NULL;
    return NULL;
}

/* --- The command -------------------------------------------------------------------- */

static hx_error *write_export(const struct hx_args *args, const struct hx_exporter *exporter,
                              const struct hx_export *export)
{
    HX_CLEANUP(deinit_place) struct place place = {0};
    HX_TRY(open_place(args->out, &place));
    struct hx_sink sink = {.file = place.file};
    hx_interrupts_end_queries(export->store);
    hx_error *err = exporter->write(export, &sink);
    hx_interrupts_end_queries(NULL);
    HX_TRY(err);
    return close_place(&place, sink.failed);
}

static void tell_export_notes(struct hx_console *console, const char *name,
                              const struct hx_text *notes)
{
    hx_console_clear(console);
    for (const char *line = hx_text_str(notes); *line;) {
        size_t n = strcspn(line, "\n");
        hx_say(console, name, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

hx_error *hx_cmd_export(const struct hx_args *args, int *status)
{
    const struct hx_exporter *exporter = hx_exporter_find(args->word[1]);
    if (!exporter)
        return unknown_format(args->word[1]);
    HX_TRY(check_words(args, exporter));
    bool series = exporter->span == HX_EXPORT_SERIES;
    const char *which = series && !hx_args_given(args, HX_OPT_SNAPSHOT) ? "all" : args->snapshot;
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_STORE hx_store *store = NULL;
    bool partial = false;
    HX_TRY(hx_file_open(args, &console, args->word[0], &store, &partial));
    HX_TRY(hx_reattribute(args, &console, store, which));
    HX_TRY(hx_revise(args, &console, store, which, parts_of(args->by)));
    const char *slash = strrchr(args->word[0], '/');
    struct hx_text notes = {0};
    struct hx_export export = {
        .store = store,
        .by = args->by,
        .title = slash && slash[1] ? slash + 1 : args->word[0],
        .object = args->object,
        .has_object = hx_args_given(args, HX_OPT_OBJECT),
        .analysis = &args->analysis,
        .attribution = &args->attribution,
        .progress = &console.progress,
        .notes = &notes,
    };
    if (strcmp(which, "all") != 0)
        HX_TRY(hx_store_resolve(store, which, &export.snapshot));
    hx_error *err = write_export(args, exporter, &export);
    if (!err)
        tell_export_notes(&console, exporter->name, &notes);
    hx_text_free(&notes);
    if (partial)
        *status = HX_EXIT_PARTIAL;
    return err;
}
