/* take_types.c - debug information and hints, together on the objects of a snapshot. */
#include "cli/take/take_types.h"

#include "attach/types/debug_types.h"
#include "base/cleanup.h"
#include "base/timing.h"
#include "cli/words/text_file.h"
#include "traverse/typing/typing.h"

#include <string.h>

#define HURRY_NS  UINT64_C(50000000) /* of an explorer for types */
#define HINTS_MAX ((size_t)1 << 20)  /* bytes of a file of --types */

/* Is a file of that name, or with that beginning, loaded? */
static bool runs_program(const struct hx_snapshot *snapshot, const char *program)
{
    for (size_t i = 0; i < snapshot->loaded.n; i++) {
        const char *name = strrchr(snapshot->loaded.v[i].path, '/');
        if (name && strncmp(name + 1, program, strlen(program)) == 0)
            return true;
    }
    return false;
}

static hx_error *read_hints(const struct hx_args *args, const struct hx_snapshot *snapshot,
                            hx_type_hints *hints)
{
    for (size_t i = 0; i < args->n_types; i++) {
        HX_FREE char *text = NULL;
        size_t n;
        HX_TRY(hx_text_file_read(args->types[i], HINTS_MAX, &text, &n));
        if (n > HINTS_MAX)
            return hx_error_new(HX_E_LIMIT, args->types[i], NULL, "has more than 1 MiB");
        HX_TRY(hx_type_hints_parse(args->types[i], text, n, hints));
    }
    HX_TRY(hx_type_hints_builtin(hints));
    size_t kept = 0;
    for (size_t i = 0; i < hints->n; i++)
        if (!hints->v[i].program || runs_program(snapshot, hints->v[i].program))
            hints->v[kept++] = hints->v[i];
        else
            hx_type_hint_deinit(&hints->v[i]);
    hints->n = kept;
    return NULL;
}

hx_error *hx_type_objects(const struct hx_args *args, struct hx_snapshot *snapshot,
                          const struct hx_debug_types *types, const struct hx_progress *progress)
{
    HX_CLEANUP(hx_type_hints_free) hx_type_hints hints = {0};
    HX_TYPING hx_typing *typing = NULL;
    HX_TRY(read_hints(args, snapshot, &hints)); /* they are wrong, also when nobody needs them */
    if (!types->types.table.n_types)
        return NULL;
    const struct hx_typing_source source = {.table = &types->types.table,
                                            .place = types->places.v,
                                            .n_places = types->places.n,
                                            .hints = &hints,
                                            .threads = args->threads};
    HX_TRY(hx_typing_find(snapshot, &source, progress, &typing));
    return hx_typing_tell(typing, snapshot);
}

static void move_stacks(struct hx_snapshot *from, struct hx_snapshot *to)
{
    to->thread = hx_steal(from->thread);
    to->n_threads = from->n_threads;
    from->n_threads = 0;
    memcpy(&to->thread_stack, &from->thread_stack, sizeof to->thread_stack);
    memset(&from->thread_stack, 0, sizeof from->thread_stack);
    to->backtraces = hx_steal(from->backtraces);
}

hx_error *hx_keep_stacks(struct hx_session *session, int64_t number, struct hx_snapshot *snapshot)
{
    struct hx_unnamed kept = {.number = number};
    if (!snapshot->backtraces)
        return NULL;
    HX_NEED(hx_vec_reserve(&session->unnamed, session->unnamed.n + 1));
    HX_TRY(hx_snapshot_create(&kept.stacks));
    move_stacks(snapshot, kept.stacks);
    session->unnamed.v[session->unnamed.n++] = kept;
    return NULL;
}

static struct hx_snapshot *kept_stacks(const struct hx_session *session, int64_t number)
{
    for (size_t i = 0; i < session->unnamed.n; i++)
        if (session->unnamed.v[i].number == number)
            return session->unnamed.v[i].stacks;
    return NULL;
}

static void forget_stacks(struct hx_session *session, int64_t number)
{
    size_t n = 0;
    for (size_t i = 0; i < session->unnamed.n; i++)
        if (session->unnamed.v[i].number == number)
            hx_snapshot_destroy(session->unnamed.v[i].stacks);
        else
            session->unnamed.v[n++] = session->unnamed.v[i];
    session->unnamed.n = n;
}

static hx_error *find_names(struct hx_session *session, struct hx_snapshot *snapshot,
                            const struct hx_progress *progress)
{
    HX_CLEANUP(hx_debug_types_deinit) struct hx_debug_types types = {0};
    HX_TRY(hx_attach_rename(session->attach, snapshot, progress));
    HX_TRY(hx_attach_debug_types(session->attach, snapshot, UINT64_MAX, progress, &types));
    HX_TRY(hx_type_objects(session->args, snapshot, &types, progress));
    hx_snapshot_named(snapshot);
    hx_attach_note_unread(session->attach, snapshot);
    return NULL;
}

hx_error *hx_take_names(struct hx_session *session, hx_store *store, int64_t number,
                        const struct hx_apart *apart, const struct hx_progress *progress)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    const uint64_t begun = hx_timing_begin();
    HX_TRY(hx_store_load(store, number, progress, &snapshot));
    HX_TRY(hx_store_load_stop(store, number, snapshot));
    if (apart->leave)
        apart->leave(apart->context);
    struct hx_snapshot *stacks = kept_stacks(session, number);
    hx_error *err = find_names(session, snapshot, progress);
    if (!err && stacks && stacks->backtraces)
        err = hx_attach_name_stacks(session->attach, stacks->backtraces, progress);
    if (apart->enter)
        apart->enter(apart->context);
    HX_TRY(err);
    if (stacks)
        move_stacks(stacks, snapshot);
    err = hx_store_rename(store, number, snapshot, progress);
    if (err && stacks)
        move_stacks(snapshot, stacks);
    HX_TRY(err);
    forget_stacks(session, number);
    hx_timing_end(begun, "names later", snapshot->graph.n);
    return NULL;
}

hx_error *hx_take_types(struct hx_session *session, struct hx_snapshot *snapshot,
                        const struct hx_progress *progress)
{
    HX_CLEANUP(hx_debug_types_deinit) struct hx_debug_types types = {0};
    if (session->args->type_cache)
        hx_attach_cache_types(session->attach);
    if (!snapshot->no_heap)
        HX_TRY(hx_attach_debug_types(session->attach, snapshot,
                                     session->hurries ? hx_now_ns() + HURRY_NS : UINT64_MAX,
                                     progress, &types));
    snapshot->unnamed |= types.late > 0;
    if (snapshot->unnamed)
        hx_snapshot_note(snapshot, false, HX_UNNAMED);
    return hx_type_objects(session->args, snapshot, &types, progress);
}
