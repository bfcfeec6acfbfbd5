/* take_roots.c - the named roots of a snapshot: those of the program itself, then those of the
 * call.
 */
#include "cli/take/take.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "sym/cxxname.h"
#include "traverse/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct naming {
    struct hx_program_roots program;
    struct hx_naming *v; /* the program's, then the call's */
    size_t n;
    char **name; /* of the call's */
    size_t n_names;
};

static void cleanup_naming(struct naming *naming)
{
    hx_program_roots_deinit(&naming->program);
    for (size_t i = 0; i < naming->n_names; i++)
        free(naming->name[i]);
    free(naming->name);
    free(naming->v);
}

static hx_error *collect_named_roots(struct hx_session *session, struct hx_snapshot *snapshot,
                                     const struct hx_progress *progress, struct naming *naming)
{
    const struct hx_args *args = session->args;
    HX_TRY(hx_attach_program_roots(session->attach, snapshot, progress, &naming->program));
    naming->v = calloc(naming->program.n + args->n_roots + 1, sizeof *naming->v);
    naming->name = calloc(args->n_roots + 1, sizeof *naming->name);
    HX_NEED(naming->v && naming->name);
    for (size_t i = 0; i < naming->program.n; i++)
        naming->v[naming->n++] = (struct hx_naming){.name = naming->program.v[i].name,
                                                    .address = naming->program.v[i].address};
    for (size_t i = 0; i < args->n_roots; i++) {
        struct hx_naming *next = &naming->v[naming->n];
        HX_TRY(hx_naming_parse(args->root[i], &naming->name[i], &next->expr));
        next->name = naming->name[i];
        naming->n_names++;
        naming->n++;
    }
    return NULL;
}

static bool has_root(const struct hx_snapshot *snapshot, const char *name)
{
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_NAMED &&
            (strcmp(root->name, name) == 0 || (root->symbol && strcmp(root->symbol, name) == 0)))
            return true;
    }
    return false;
}

/* What the target has under a name. */
struct hunt {
    const char *symbol;
    struct hx_cxx_name name;
    bool found;
};

/* As the linker knows it, or as a C++ program writes it. */
static bool look_up_symbol(void *context, const char *name)
{
    struct hunt *hunt = context;
    hunt->found = strcmp(name, hunt->symbol) == 0 || hx_cxx_name_is(&hunt->name, name, false) ||
                  hx_cxx_name_is(&hunt->name, name, true);
    return !hunt->found;
}

static hx_error *has_variable(const struct hx_session *session, const char *module,
                              const char *symbol, bool *ret)
{
    struct hunt hunt = {.symbol = symbol};
    HX_TRY(hx_cxx_name_init(symbol, &hunt.name));
    hx_attach_each_variable(session->attach, module, look_up_symbol, &hunt);
    hx_cxx_name_deinit(&hunt.name);
    *ret = hunt.found;
    return NULL;
}

/* Refuses the name of a variable that is in no module, most likely a typing error. A variable that
 * holds no pointer now is legal. */
static hx_error *test_symbol(struct hx_session *session, const struct hx_snapshot *snapshot,
                             const char *expr)
{
    HX_FREE char *module = NULL;
    const char *symbol = NULL;
    bool is_symbol;
    HX_TRY(hx_naming_symbol(expr, &is_symbol, &module, &symbol));
    if (!is_symbol || has_root(snapshot, expr))
        return NULL;
    bool found;
    HX_TRY(has_variable(session, module, symbol, &found));
    if (found)
        return NULL;
    const size_t whole = strcspn(symbol, ".[-"); /* of a part of a variable */
    HX_FREE char *variable = symbol[whole] ? strndup(symbol, whole) : NULL;
    if (variable)
        HX_TRY(has_variable(session, module, variable, &found));
    if (found)
        return NULL;
    return hx_error_new(HX_E_ABSENT, hx_attach_name(session->attach),
                        "its names: heapx report TARGET roots", "no variable %s in the process",
                        expr);
}

hx_error *hx_take_roots(struct hx_session *session, struct hx_snapshot *snapshot,
                        const struct hx_progress *progress)
{
    HX_CLEANUP(cleanup_naming) struct naming naming = {0};
    uint64_t begun = hx_timing_begin();
    HX_TRY(collect_named_roots(session, snapshot, progress, &naming));
    HX_TRY(hx_named_set(snapshot, naming.v, naming.n, NULL));
    hx_timing_end(begun, "named", naming.n);
    for (size_t i = 0; i < snapshot->named.n && !session->roots_tested; i++) {
        const struct hx_named *named = &snapshot->named.v[i];
        if (named->expr && !snapshot->roots.v[named->root].direct_objects)
            HX_TRY(test_symbol(session, snapshot, named->expr));
    }
    session->roots_tested = true;
    return NULL;
}
