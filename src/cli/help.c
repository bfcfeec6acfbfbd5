/* help.c - `heapx help [COMMAND]`, made from the tables of commands and options. */
#include "base/text.h"
#include "cli/commands.h"
#include "export/export.h"
#include "export/import.h"

#include <stdio.h>

static hx_error *print(struct hx_text *text)
{
    if (text->failed) {
        hx_text_free(text);
        return hx_error_nomem();
    }
    fputs(hx_text_str(text), stdout);
    hx_text_free(text);
    return NULL;
}

static void put_views(struct hx_text *text)
{
    hx_text_puts(text, "\nViews:\n");
    for (const struct hx_view *view = hx_views; view->name; view++)
        hx_text_putf(text, "  %-30s %s\n", view->name, view->about);
}

static void put_formats(struct hx_text *text)
{
    hx_text_puts(text, "\nFormats, and what --by takes in each (the first is the default):\n");
    for (const struct hx_exporter *const *exporter = hx_exporters; *exporter; exporter++)
        hx_text_putf(text, "  %-30s %s\n  %-30s %s\n", (*exporter)->name, (*exporter)->about, "",
                     (*exporter)->by);
}

static void put_imports(struct hx_text *text)
{
    hx_text_puts(text, "\nWhat can be read, told by its first bytes:\n");
    for (const struct hx_importer *const *importer = hx_importers; *importer; importer++)
        hx_text_putf(text, "  %-30s %s\n", (*importer)->name, (*importer)->about);
}

static hx_error *help_command(const struct hx_command *command)
{
    struct hx_text text = {0};
    hx_text_putf(&text, "Usage: heapx %s%s%s [options]\n\n%s\n\nOptions:\n", command->name,
                 command->positional[0] ? " " : "", command->positional, command->about);
    for (int id = 0; id < HX_OPTS; id++)
        if ((command->options | HX_OPTS_ALWAYS) >> id & 1)
            hx_option_help((enum hx_option_id)id, &text);
    if (command->run == hx_cmd_report)
        put_views(&text);
    if (command->run == hx_cmd_export)
        put_formats(&text);
    if (command->run == hx_cmd_import)
        put_imports(&text);
    return print(&text);
}

static hx_error *help_all(void)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "Usage: heapx COMMAND [ARG...] [options]\n\n"
                        "Looks into the heap of a running process: what is there, who holds it, "
                        "what leaked.\n\nCommands:\n");
    for (const struct hx_command *command = hx_commands; command->name; command++) {
        struct hx_text left = {0};
        hx_text_putf(&left, "%s %s", command->name, command->positional);
        hx_text_putf(&text, "  %-30s %s\n", hx_text_str(&left), command->about);
        hx_text_free(&left);
    }
    hx_text_puts(&text, "\nA TARGET of digits is a PID, anything else a store (./123: a file).\n"
                        "`heapx help COMMAND` lists a command's options.\n\n"
                        "Exit status: 0 done; 1 failed; 2 usage; 3 done, but the snapshot is not "
                        "complete;\n4 a condition of check holds; 130 interrupted, and what was "
                        "complete is kept.\n");
    return print(&text);
}

hx_error *hx_cmd_help(const struct hx_args *args, int *status)
{
    (void)status;
    if (args->n_words == 0)
        return help_all();
    const struct hx_command *command = hx_command_find(args->word[0]);
    if (!command)
        return hx_command_unknown(args->word[0]);
    return help_command(command);
}
