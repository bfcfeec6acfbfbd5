/* doctor.c - `heapx doctor [PID]`: the preflight's list as a table. */
#include "attach/preflight.h"
#include "base/cleanup.h"
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hx_value text_value(const char *text)
{
    struct hx_value value = {.type = HX_VALUE_TEXT, .text = text, .text_bytes = strlen(text)};
    return text[0] ? value : (struct hx_value){.type = HX_VALUE_NULL};
}

static hx_error *add_check(hx_rows *rows, const struct hx_check *check)
{
    static const char *const results[] = {
        [HX_CHECK_OK] = "OK", [HX_CHECK_NO] = "NO", [HX_CHECK_UNKNOWN] = "?"};
    struct hx_value values[] = {text_value(check->name), text_value(results[check->result]),
                                text_value(check->required ? "yes" : "no"),
                                text_value(check->detail), text_value(check->todo)};
    return hx_rows_add(rows, values);
}

hx_error *hx_cmd_doctor(const struct hx_args *args, int *status)
{
    (void)status;
    static const char *const names[] = {"check", "result", "needed", "detail", "todo"};
    pid_t pid = 0;
    bool no_such_pid = false;
    if (args->n_words) {
        hx_error *err = hx_parse_pid(args->word[0], &pid);
        no_such_pid = err && err->kind == HX_E_ABSENT;
        if (err && !no_such_pid)
            return err;
        hx_error_free(err);
    }
    HX_FREE struct hx_check *checks = calloc(HX_CHECKS_MAX, sizeof *checks);
    HX_NEED(checks);
    size_t n = hx_preflight(pid, checks);
    hx_rows *rows = NULL;
    HX_TRY(hx_rows_create(names, sizeof names / sizeof *names, &rows));
    hx_error *err = NULL;
    for (size_t i = 0; i < n && !err; i++)
        err = add_check(rows, &checks[i]);
    if (!err && no_such_pid) {
        struct hx_check check = {.name = "exists",
                                 .result = HX_CHECK_NO,
                                 .required = true,
                                 .detail = "no such process",
                                 .todo = "see: ps -e"};
        err = add_check(rows, &check);
    }
    if (!err)
        err = hx_rows_print(rows, args->format, stdout);
    hx_rows_end(rows);
    return err;
}
