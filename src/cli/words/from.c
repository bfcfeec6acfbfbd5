/* from.c - from a name on the command line to roots, and from an object to their names. */
#include "cli/words/from.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "sym/cxxname.h"
#include "traverse/reach.h"

#include <string.h>

enum { OTHERS_LOOKED_AT = 64, OTHERS_NAMED = 5 };

/* Roots of a name, in a module or (NULL) in any. */
struct choice {
    const struct hx_snapshot *snapshot;
    const char *module;
    size_t module_len;
    uint64_t *roots;
    size_t n;
};

static bool is_in_module(const struct choice *choice, const char *module)
{
    return !choice->module || (strncmp(module, choice->module, choice->module_len) == 0 &&
                               module[choice->module_len] == 0);
}

static void choose_root(struct choice *choice, size_t root)
{
    hx_bit_set(choice->roots, root);
    choice->n++;
}

/* As the linker knows it, else as it is called, else as a C++ program may write it, too, at last
 * without the namespaces that have no name. */
static hx_error *choose_roots_named(struct choice *choice, const char *name)
{
    enum { LINKER, NAME, WRITTEN, INNER, WAYS };
    HX_CLEANUP(hx_cxx_name_deinit) struct hx_cxx_name written = {0};
    HX_TRY(hx_cxx_name_init(name, &written));
    for (int way = LINKER; way < WAYS && !choice->n; way++) {
        for (size_t i = 0; i < choice->snapshot->roots.n; i++) {
            const struct hx_root *root = &choice->snapshot->roots.v[i];
            if (root->kind != HX_ROOT_NAMED && is_in_module(choice, root->module) &&
                (way == LINKER ? root->symbol && strcmp(root->symbol, name) == 0
                 : way == NAME ? strcmp(root->name, name) == 0
                               : hx_cxx_name_is(&written, root->symbol, way == INNER)))
                choose_root(choice, i);
        }
    }
    return NULL;
}

/* A root that was named for bins: the variable that it stands for. */
static void choose_named(struct choice *choice, const char *name)
{
    for (size_t i = 0; i < choice->snapshot->named.n; i++) {
        const struct hx_named *named = &choice->snapshot->named.v[i];
        if (strcmp(named->name, name) != 0 ||
            choice->snapshot->roots.v[named->root].kind == HX_ROOT_NAMED)
            continue;
        choose_root(choice, named->root);
    }
}

hx_error *hx_from_roots(const struct hx_snapshot *snapshot, const char *name, uint64_t **ret,
                        size_t *ret_n)
{
    HX_FREE uint64_t *roots = calloc(snapshot->roots.n / 64 + 1, sizeof *roots);
    HX_NEED(roots);
    struct choice choice = {.snapshot = snapshot, .roots = roots};
    HX_TRY(choose_roots_named(&choice, name));
    const char *mark = strchr(name, '!');
    if (!choice.n && mark && mark[1]) {
        choice.module = name;
        choice.module_len = (size_t)(mark - name);
        HX_TRY(choose_roots_named(&choice, mark + 1));
    }
    if (!choice.n)
        choose_named(&choice, name);
    *ret_n = choice.n;
    *ret = hx_steal(roots);
    return NULL;
}

hx_error *hx_from_others(const struct hx_snapshot *snapshot, hx_obj object,
                         const struct hx_progress *progress, struct hx_text *ret)
{
    const char *named[OTHERS_NAMED];
    size_t n = 0;
    struct hx_chains chains;
    const struct hx_why_options options = {.limit = OTHERS_LOOKED_AT};
    HX_TRY(hx_why(snapshot, object, &options, progress, &chains));
    for (size_t i = 0; i < chains.n; i++) {
        const char *name = snapshot->roots.v[chains.chain[i].step[0].root].name;
        bool there = false;
        for (size_t k = 0; k < n; k++)
            there |= strcmp(named[k], name) == 0;
        if (there)
            continue;
        if (n == OTHERS_NAMED) {
            hx_text_puts(ret, ", ...");
            break;
        }
        named[n++] = name;
        hx_text_puts(ret, n > 1 ? ", " : "");
        hx_text_puts(ret, name);
    }
    hx_chains_deinit(&chains);
    return ret->failed ? hx_error_nomem() : NULL;
}
