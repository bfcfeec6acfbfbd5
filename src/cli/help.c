/* help.c - `heapx help [COMMAND]`, made from the tables of commands, options, views and formats. */
#include "cli/commands.h"
#include "cli/help.h"
#include "export/export.h"
#include "export/import/import.h"
#include "traverse/hold/rules.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, LEFT = 33 }; /* of a line, and up to the words of a table */

static const struct example {
    const char *command, *line, *about;
} examples[] = {
#define X(command, line, about) {#command, line, about},
    HX_EXAMPLES(X)
#undef X
};

static hx_error *print_help(struct hx_text *text)
{
    if (text->failed) {
        hx_text_free(text);
        return hx_error_nomem();
    }
    fputs(hx_text_str(text), stdout);
    hx_text_free(text);
    return NULL;
}

/* Words from a column on, in lines that all begin there. The cursor stands in it. */
static void put_wrapped_words(struct hx_text *text, int column, const char *words)
{
    int at = column;
    while (*words) {
        int n = (int)strcspn(words, " ");
        if (at > column && at + 1 + n >= WIDTH) {
            hx_text_putf(text, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            hx_text_putc(text, ' ');
            at++;
        }
        hx_text_putn(text, words, (size_t)n);
        at += n;
        words += n;
        words += strspn(words, " ");
    }
    hx_text_putc(text, '\n');
}

void hx_help_row(struct hx_text *text, const char *left, const char *about)
{
    if (strlen(left) > LEFT - 3)
        hx_text_putf(text, "  %s\n%*s", left, LEFT, "");
    else
        hx_text_putf(text, "  %-*s", LEFT - 2, left);
    put_wrapped_words(text, LEFT, about);
}

static void put_paragraph(struct hx_text *text, const char *words)
{
    put_wrapped_words(text, 0, words);
}

static void put_views(struct hx_text *text)
{
    hx_text_puts(text, "\nViews:\n");
    for (const struct hx_view *view = hx_views; view->name; view++)
        hx_help_row(text, view->name, view->about);
}

/* Words of --by; those that are all the views are not told one by one. */
static void put_words(struct hx_text *text, const char *words)
{
    struct hx_text shown = {0};
    const char *first = strstr(words, hx_views[0].name);
    bool all = first && first > words;
    for (const struct hx_view *view = hx_views; view->name; view++)
        all = all && hx_export_has_word(words, view->name);
    if (all)
        hx_text_putf(&shown, "%.*sand every view", (int)(first - words), words);
    hx_text_puts(text, "      --by ");
    put_wrapped_words(text, 11, all ? hx_text_str(&shown) : words);
    text->failed |= shown.failed;
    hx_text_free(&shown);
}

static void put_formats(struct hx_text *text)
{
    hx_text_puts(text, "\nFormats, and what --by takes in each:\n");
    for (const struct hx_exporter *const *exporter = hx_exporters; *exporter; exporter++) {
        hx_text_putf(text, "  %-14s%s\n", (*exporter)->name, (*exporter)->about);
        struct hx_text words = {0};
        hx_export_words(*exporter, &words);
        put_words(text, hx_text_str(&words));
        text->failed |= words.failed;
        hx_text_free(&words);
    }
}

static void put_imports(struct hx_text *text)
{
    hx_text_puts(text, "\nWhat can be read, told by its first bytes:\n"
                       "  core          ELF core of a process, whole or cut\n");
    for (const struct hx_importer *const *importer = hx_importers; *importer; importer++)
        hx_text_putf(text, "  %-14s%s\n", (*importer)->name, (*importer)->about);
}

static void put_examples(struct hx_text *text, const char *command)
{
    hx_text_puts(text, "\nExamples:\n");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (strcmp(examples[i].command, command) == 0) {
            hx_text_putf(text, "  %s\n      ", examples[i].line);
            put_wrapped_words(text, 6, examples[i].about);
        }
}

/* --- topics ------------------------------------------------------------------------------ */

static void help_views(struct hx_text *text)
{
    put_paragraph(text, "The views of a store, for `heapx report`, `heapx sql` and sqlite3, with "
                        "their columns; heapx(5) says what these are. The last three are to be "
                        "had in sqlite3 with the extension heapx_sqlite only.");
    for (const struct hx_view *view = hx_views; view->name; view++) {
        struct hx_filter_schema schema;
        struct hx_text columns = {0};
        hx_text_putf(text, "\n%s - ", view->name);
        put_paragraph(text, view->about);
        if (!hx_view_schema(view->name, &schema))
            continue;
        for (size_t i = 0; i < schema.n; i++)
            hx_text_putf(&columns, "%s%s", schema.columns[i].name, i + 1 < schema.n ? ", " : "");
        text->failed |= columns.failed;
        hx_text_puts(text, "  ");
        put_wrapped_words(text, 2, hx_text_str(&columns));
        hx_text_free(&columns);
    }
}

static void help_formats(struct hx_text *text)
{
    put_paragraph(text, "`heapx export FILE FORMAT` writes a store for other programs, and `heapx "
                        "import IN -o FILE` reads what others wrote; `open`, `report` and the "
                        "like take such files as they are.");
    put_formats(text);
    put_imports(text);
}

static void help_conditions(struct hx_text *text)
{
    static const char *const rows[][2] = {
        {"= == != < <= > >=", "comparison"},
        {"~ !~", "a POSIX extended regular expression is found in the text, or is not"},
        {"and or not ( )", "not binds tighter than and, and that tighter than or"},
        {"is null, is not null", "whether a value is known"},
        {"512K 1.5G 0x7f00", "numbers; K, M, G and T are powers of 1024"},
        {"'text' \"text\"", "texts"},
        {"column", "report: of the view; check: of snapshots"},
        {"view.column", "check: of any row of a view, of the same row within one condition"},
    };
    put_paragraph(text, "--where, check and the explorer's filter take the same conditions:");
    hx_text_putc(text, '\n');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        hx_help_row(text, rows[i][0], rows[i][1]);
    hx_text_putc(text, '\n');
    put_paragraph(text, "A comparison with a value that is not known is false. `heapx help views` "
                        "lists the columns.");
}

static void help_holders(struct hx_text *text)
{
    put_paragraph(text, "The holder of an object is one root, the nearest that reaches it: a "
                        "variable, a thread, a mapping. Bytes of all holders add up to the heap.");
    hx_text_putc(text, '\n');
    put_paragraph(text, "Programs leave pointers behind. A word that is one by the rules below is "
                        "stray, or sparse where less speaks against it, and counts only where no "
                        "firm word leads. Globals come before threads. What a second root reaches "
                        "firmly from many places is contested, and a block that serves several is "
                        "(mixed).");
    hx_text_putc(text, '\n');
    put_paragraph(text,
                  "--rules -NAME switches a rule off, --holders off all of them; `heapx why`, "
                  "and w, x and i in the explorer, say which rule found a word:");
    hx_text_putc(text, '\n');
    for (enum hx_rule rule = 1; rule < HX_RULE_COUNT; rule++) {
        static const char *const ranks[] = {" (firm)", " (sparse)", ""};
        struct hx_text about = {0};
        hx_text_putf(&about, "%s%s", hx_rule_text(rule), ranks[hx_rule_rank(rule)]);
        hx_help_row(text, hx_rule_name(rule), hx_text_str(&about));
        text->failed |= about.failed;
        hx_text_free(&about);
    }
}

static const struct topic {
    const char *name;
    void (*put)(struct hx_text *text);
} topics[] = {
    {"views", help_views},     {"formats", help_formats}, {"conditions", help_conditions},
    {"holders", help_holders}, {"rules", help_holders},
};

/* --- commands ---------------------------------------------------------------------------- */

static hx_error *help_command(const struct hx_command *command)
{
    struct hx_text text = {0};
    hx_text_putf(&text, "Usage: heapx %s%s%s [options]\n\n", command->name,
                 command->positional[0] ? " " : "", command->positional);
    put_paragraph(&text, command->about);
    hx_text_puts(&text, "\nOptions:\n");
    for (int id = 0; id < HX_OPTS; id++)
        if ((command->options | HX_OPTS_ALWAYS) >> id & 1)
            hx_option_help((enum hx_option_id)id, &text);
    if (command->run == hx_cmd_report)
        put_views(&text);
    if (command->run == hx_cmd_export)
        put_formats(&text);
    if (command->run == hx_cmd_import)
        put_imports(&text);
    put_examples(&text, command->name);
    return print_help(&text);
}

static hx_error *help_all(void)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "Usage: heapx COMMAND [ARG...] [options]\n\n");
    put_paragraph(&text, "Looks into the heap of a running process: what is there, who holds it, "
                         "what leaked.");
    hx_text_puts(&text, "\nCommands:\n");
    for (const struct hx_command *command = hx_commands; command->name; command++) {
        struct hx_text left = {0};
        hx_text_putf(&left, "%s %s", command->name, command->positional);
        hx_help_row(&text, hx_text_str(&left), command->about);
        hx_text_free(&left);
    }
    hx_text_putc(&text, '\n');
    put_paragraph(&text, "A TARGET of digits is a PID, anything else a store (./123: a file).");
    put_paragraph(&text, "`heapx help COMMAND` lists a command's options; `heapx help views`, "
                         "`formats`, `conditions` and `holders` say what these words stand for.");
    hx_text_putc(&text, '\n');
    put_paragraph(&text, "Exit status: 0 done; 1 failed; 2 usage; 3 done, but the snapshot is not "
                         "complete; 4 a condition of check holds; 130 interrupted, and what was "
                         "complete is kept.");
    return print_help(&text);
}

hx_error *hx_cmd_help(const struct hx_args *args, int *status)
{
    (void)status;
    if (args->n_words == 0)
        return help_all();
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(topics[i].name, args->word[0]) == 0) {
            struct hx_text text = {0};
            topics[i].put(&text);
            return print_help(&text);
        }
    const struct hx_command *command = hx_command_find(args->word[0]);
    if (!command)
        return hx_command_unknown(args->word[0]);
    return help_command(command);
}
