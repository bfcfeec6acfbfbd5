/* complete.c - what Tab makes of the beginning of a word at the prompt. */
#include "ui/command/complete.h"

#include "ui/app.h"
#include "ui/command/request.h"

#include "store/census.h"

#include "store/census.h"
#include "ui/analysis.h"
#include "ui/command/prompt.h"
#include "ui/command/requests.h"
#include "ui/list/pane.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Words that are shown behind the text when there are several. */
#define HINTS_MAX 200

/* Collects the words that begin as what was typed. */
struct completion {
    const char *part; /* what was typed of the word */
    size_t n;
    bool any_case;
    size_t found;
    struct hx_text common; /* what all of them begin with */
    struct hx_text words;  /* for the hint */
};

static void offer_completion(struct completion *completion, const char *word)
{
    int differs = completion->any_case ? strncasecmp(word, completion->part, completion->n)
                                       : strncmp(word, completion->part, completion->n);
    if (differs)
        return;
    if (!completion->found++) {
        hx_text_puts(&completion->common, word);
    } else {
        struct hx_text *common = &completion->common;
        size_t same = 0;
        while (same < common->n && common->s[same] == word[same])
            same++;
        if (!common->failed && common->n) {
            common->n = same;
            common->s[same] = 0;
        }
    }
    if (completion->found < HINTS_MAX) {
        hx_text_puts(&completion->words, completion->found > 1 ? " " : "");
        hx_text_escape(&completion->words, word, strlen(word), false);
    }
}

/* Writes what is certain behind the part; `after` when the word is complete. */
static hx_error *finish_completion(struct hx_prompt *prompt, struct completion *completion,
                                   const char *after)
{
    const char *common = hx_text_str(&completion->common);
    bool bad = completion->common.failed || completion->words.failed;
    if (!bad && completion->common.n > completion->n)
        hx_prompt_insert(prompt, common + completion->n, completion->common.n - completion->n);
    if (!bad && completion->found == 1)
        hx_prompt_insert(prompt, after, strlen(after));
    hx_text_clear(&prompt->hint);
    if (completion->found > 1)
        hx_text_puts(&prompt->hint, hx_text_str(&completion->words));
    else if (!completion->found)
        hx_text_puts(&prompt->hint, "nothing begins so");
    hx_text_free(&completion->common);
    hx_text_free(&completion->words);
    return bad ? hx_error_nomem() : NULL;
}

/* The word before the cursor: what behind the last of `ends`. */
static size_t word_before(const struct hx_prompt *prompt, const char *ends)
{
    const char *s = hx_text_str(&prompt->text);
    size_t n = prompt->at;
    while (n && !strchr(ends, s[n - 1]))
        n--;
    return n;
}

/* --- where words come from --- */

static void offer_screens(struct completion *completion)
{
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (!hx_screens[i]->by_argument)
            offer_completion(completion, hx_screens[i]->name);
}

static void offer_columns(struct completion *completion, const struct hx_pane *pane)
{
    for (const struct hx_column *column = pane->columns; column && column->name; column++) {
        bool first = column->as != HX_AS_BAR && column->as != HX_AS_SHARE;
        for (const struct hx_column *other = pane->columns; other < column; other++)
            first &= strcmp(other->name, column->name) != 0 || other->as == HX_AS_BAR ||
                     other->as == HX_AS_SHARE;
        if (first)
            offer_completion(completion, column->name);
    }
}

static void offer_censuses(struct completion *completion)
{
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        offer_completion(completion, census->name);
}

static void offer_snapshots(struct completion *completion, const struct hx_ui *ui)
{
    for (size_t i = 0; i < ui->snapshots.n_rows; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld",
                 (long long)hx_table_int(&ui->snapshots, i, "snapshot", 0));
        offer_completion(completion, number);
    }
    offer_completion(completion, "first");
    offer_completion(completion, "last");
}

/* Names that were given here, and those that a list of them shows. */
static void offer_names(struct completion *completion, const struct hx_ui *ui)
{
    struct hx_text seen = {0};
    for (size_t i = 0; i < ui->open.n; i++) {
        const struct hx_pane *pane = ui->open.v[i];
        for (size_t row = 0; pane->screen == &hx_screen_named && row < pane->rows.n_rows; row++) {
            offer_completion(completion, hx_table_text(&pane->rows, row, "name"));
            hx_text_putf(&seen, "\n%s\n", hx_table_text(&pane->rows, row, "name"));
        }
    }
    for (size_t i = 0; i < ui->choice->edits.n; i++) {
        struct hx_text line = {0};
        hx_text_putf(&line, "\n%s\n", ui->choice->edits.v[i].name);
        if (ui->choice->edits.v[i].expr && !strstr(hx_text_str(&seen), hx_text_str(&line)))
            offer_completion(completion, ui->choice->edits.v[i].name);
        hx_text_free(&line);
    }
    hx_text_free(&seen);
}

/* "root|module|thread", "mouse on|off": words in capitals stand for something else. */
static void offer_choices(struct completion *completion, const char *args)
{
    size_t common = strcspn(args, "|");
    while (common && args[common - 1] != ' ')
        common--;
    for (const char *s = args + common; *s;) {
        size_t n = strcspn(s, "|]");
        struct hx_text word = {0};
        hx_text_putn(&word, args, common);
        hx_text_putn(&word, s, n);
        if (islower((unsigned char)*s) && !word.failed)
            offer_completion(completion, hx_text_str(&word));
        hx_text_free(&word);
        s += n + (s[n] != 0);
    }
}

static void offer_breakdowns(struct completion *completion)
{
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        offer_completion(completion, census->name);
}

static void offer_files(struct completion *completion, struct hx_text *folder)
{
    const char *slash = strrchr(completion->part, '/');
    hx_text_putn(folder, completion->part, slash ? (size_t)(slash + 1 - completion->part) : 0);
    DIR *directory = opendir(folder->n ? folder->s : ".");
    if (!directory)
        return;
    bool hidden = (slash ? slash[1] : completion->part[0]) == '.';
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct hx_text path = {0};
        bool is_folder = entry->d_type == DT_DIR;
        if (!hidden && entry->d_name[0] == '.')
            continue;
        hx_text_putf(&path, "%s%s%s", hx_text_str(folder), entry->d_name, is_folder ? "/" : "");
        if (!path.failed)
            offer_completion(completion, hx_text_str(&path));
        hx_text_free(&path);
    }
    closedir(directory);
}

/* --- what they are offered for --- */

static void offer_argument(struct completion *completion, const struct hx_ui *ui,
                           const struct hx_request *request, struct hx_text *folder)
{
    const char *name = request->name, *args = request->args;
    if (strcmp(name, "screen") == 0)
        offer_screens(completion);
    else if (strcmp(name, "sort") == 0)
        offer_columns(completion, hx_ui_pane(ui));
    else if (strcmp(name, "by") == 0)
        offer_censuses(completion);
    else if (strcmp(name, "unroot") == 0)
        offer_names(completion, ui);
    else if (strstr(args, "FILE"))
        offer_files(completion, folder);
    else if (strstr(args, "SNAPSHOT") || strstr(args, "first|last"))
        offer_snapshots(completion, ui);
    else if (strstr(args, "BREAKDOWN"))
        offer_breakdowns(completion);
    else if (strchr(args, '|'))
        offer_choices(completion, args);
}

hx_error *hx_complete_file(struct hx_ui *ui, struct hx_prompt *prompt)
{
    HX_FREE char *part = strndup(hx_text_str(&prompt->text), prompt->at);
    struct hx_text folder = {0};
    (void)ui;
    HX_NEED(part);
    struct completion completion = {.part = part, .n = strlen(part)};
    offer_files(&completion, &folder);
    hx_text_free(&folder);
    return finish_completion(prompt, &completion, "");
}

hx_error *hx_complete_command(struct hx_ui *ui, struct hx_prompt *prompt)
{
    HX_FREE char *line = strndup(hx_text_str(&prompt->text), prompt->at);
    HX_NEED(line);
    const char *name = line + strspn(line, " \t");
    size_t n = strcspn(name, " \t");
    struct completion completion = {.part = name, .n = n};
    if (!name[n]) {
        for (const struct hx_request *request = hx_requests; request->name; request++)
            offer_completion(&completion, request->name);
        const struct hx_request *only = completion.found == 1 ? hx_request_find(name, n) : NULL;
        return finish_completion(prompt, &completion, only && *only->args ? " " : "");
    }
    const struct hx_request *request = hx_request_find(name, n);
    struct hx_text folder = {0};
    completion.part = name + n + strspn(name + n, " \t");
    completion.n = strlen(completion.part);
    if (request && strcmp(request->name, "sql") == 0)
        return hx_complete_sql(ui, prompt);
    if (request && strcmp(request->name, "filter") == 0)
        return hx_complete_condition(ui, prompt);
    if (request)
        offer_argument(&completion, ui, request, &folder);
    hx_text_free(&folder);
    return finish_completion(prompt, &completion, "");
}

hx_error *hx_complete_condition(struct hx_ui *ui, struct hx_prompt *prompt)
{
    static const char *const words[] = {"and", "or", "not", "is null", "is not null"};
    const struct hx_pane *pane = hx_ui_pane(ui);
    size_t first = word_before(prompt, " \t()=<>!~");
    HX_FREE char *part = strndup(hx_text_str(&prompt->text) + first, prompt->at - first);
    HX_NEED(part);
    struct completion completion = {.part = part, .n = strlen(part)};
    struct hx_filter_schema schema = {0};
    if (hx_pane_is_brief(pane))
        hx_view_schema("objects", &schema);
    for (size_t i = 0; i < schema.n; i++)
        offer_completion(&completion, schema.columns[i].name);
    for (size_t i = 0; i < pane->rows.n_columns && !schema.n; i++)
        offer_completion(&completion, pane->rows.names[i]);
    for (size_t i = 0; i < sizeof words / sizeof *words && completion.n; i++)
        offer_completion(&completion, words[i]);
    return finish_completion(prompt, &completion, " ");
}

/* Does a word stand in the statement? */
static bool mentions(const char *sql, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = sql; (s = strcasestr(s, word)); s++)
        if ((s == sql || !(isalnum((unsigned char)s[-1]) || s[-1] == '_')) &&
            !(isalnum((unsigned char)s[n]) || s[n] == '_'))
            return true;
    return false;
}

/* Views, the columns of those that stand in the statement, and what joins them. */
hx_error *hx_complete_sql(struct hx_ui *ui, struct hx_prompt *prompt)
{
    static const char *const words[] = {"SELECT", "FROM",   "WHERE",  "GROUP BY", "ORDER BY",
                                        "LIMIT",  "HAVING", "JOIN",   "DISTINCT", "count(*)",
                                        "sum(",   "DESC",   "IS NULL"};
    const char *sql = hx_text_str(&prompt->text);
    size_t first = word_before(prompt, " \t(),.=<>*+-/");
    HX_FREE char *part = strndup(sql + first, prompt->at - first);
    struct hx_filter_schema schema = {0};
    (void)ui;
    HX_NEED(part);
    struct completion completion = {.part = part, .n = strlen(part)};
    for (const struct hx_view *view = hx_views; view->name; view++)
        offer_completion(&completion, view->name);
    hx_view_schema(NULL, &schema);
    for (size_t i = 0; i < schema.n; i++) {
        bool again = !mentions(sql, schema.columns[i].view);
        for (size_t k = 0; k < i && !again; k++)
            again = strcmp(schema.columns[k].name, schema.columns[i].name) == 0 &&
                    mentions(sql, schema.columns[k].view);
        if (!again)
            offer_completion(&completion, schema.columns[i].name);
    }
    completion.any_case = true;
    for (size_t i = 0; i < sizeof words / sizeof *words && completion.n; i++)
        offer_completion(&completion, words[i]);
    if (completion.found == 1 &&
        strncmp(hx_text_str(&completion.common), part, completion.n) != 0) {
        prompt->at = first; /* in small letters: as it is written */
        memcpy(prompt->text.s + first, completion.common.s, completion.n);
        prompt->at += completion.n;
    }
    return finish_completion(prompt, &completion, "");
}

hx_error *hx_ui_begin_command(struct hx_ui *ui, const char *name, bool type)
{
    const struct hx_request *request = hx_request_find(name, strlen(name));
    bool needs = request && *request->args && (type || *request->args != '[');
    if (!needs && !type)
        return hx_command_run(ui, name);
    struct hx_text line = {0};
    hx_text_putf(&line, "%s%s", name, request && *request->args ? " " : "");
    hx_ui_prompt(ui, ":", hx_text_str(&line), hx_command_run);
    ui->prompt->complete = hx_complete_command;
    hx_text_free(&line);
    return NULL;
}
