/* backtraces_show.c - prints the stacks of a process's threads as a snapshot has them.
 *
 *   backtraces_show PID
 *
 * A line for each thread, "thread TID cut" or "thread TID whole", and below it one for each
 * function, innermost first: "MODULE<tab>FUNCTION", either may be empty.
 */
#include "config.h"

#include "attach/attach.h"

#include <stdio.h>
#include <stdlib.h>

static void die_error(hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "backtraces_show: %s\n", line);
    exit(err->kind == HX_E_PERM ? 77 : 1);
}

static void show_place(const struct hx_recording *recording, const struct hx_rec_place *place)
{
    const char *module =
        place->file < recording->files.n ? recording->files.v[place->file].path : "";
    for (size_t i = 0; i < place->n_lines; i++)
        printf("%s\t%s\n", module, place->lines[i].function ? place->lines[i].function : "");
    if (!place->n_lines)
        printf("%s\t\n", module);
}

static void show_stack(const struct hx_recording *recording, uint32_t number)
{
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    for (uint32_t i = 0; i < stack->n; i++)
        show_place(recording, &recording->places.v[recording->stack_places.v[stack->first + i]]);
}

int main(int argc, char **argv)
{
    hx_attach *attach;
    struct hx_snapshot *snapshot;
    struct hx_capture_options options = {0};
    if (argc != 2)
        return 2;
    die_error(hx_attach_open(atoi(argv[1]), &attach));
    die_error(hx_attach_capture(attach, &options, NULL, &snapshot));
    const struct hx_recording *recording = snapshot->backtraces;
    for (size_t i = 0; i < snapshot->n_threads; i++) {
        uint32_t stack = snapshot->thread_stack.v[i];
        bool known = stack != HX_NO_STACK;
        printf("thread %d %s\n", snapshot->thread[i].tid,
               known && !recording->stacks.v[stack].cut ? "whole" : "cut");
        if (known)
            show_stack(recording, stack);
    }
    hx_snapshot_destroy(snapshot);
    hx_attach_close(attach);
    return 0;
}
