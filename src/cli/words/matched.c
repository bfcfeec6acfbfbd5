/* matched.c - telling of roots and patterns that stand for nothing. */
#include "cli/words/matched.h"

#include "query/pattern.h"

#include <stdlib.h>
#include <string.h>

hx_error *hx_matched_init(const struct hx_args *args, struct hx_matched *ret)
{
    *ret = (struct hx_matched){
        .args = args,
        .root = calloc(args->n_roots + 1, sizeof *ret->root),
        .retainer = calloc(args->analysis.options.n_patterns + 1, sizeof *ret->retainer)};
    if (ret->root && ret->retainer)
        return NULL;
    hx_matched_deinit(ret);
    return hx_error_nomem();
}

void hx_matched_deinit(struct hx_matched *matched)
{
    free(matched->root);
    free(matched->retainer);
    matched->root = NULL;
    matched->retainer = NULL;
}

static enum hx_matched_root look_for(const struct hx_snapshot *snapshot, const char *naming)
{
    size_t n = strcspn(naming, "=");
    for (size_t i = 0; i < snapshot->named.n; i++) {
        const struct hx_named *named = &snapshot->named.v[i];
        if (strncmp(named->name, naming, n) != 0 || named->name[n])
            continue;
        if (!named->expr)
            return HX_MATCHED_TAKEN;
        return snapshot->roots.v[named->root].direct_objects ? HX_MATCHED_SOMETHING
                                                             : HX_MATCHED_NOTHING;
    }
    return HX_MATCHED_NOTHING;
}

static hx_error *match(const struct hx_snapshot *snapshot, const char *pattern, bool *ret)
{
    hx_patterns *patterns;
    HX_TRY(hx_patterns_create(&pattern, 1, &patterns));
    for (size_t i = 0; i < snapshot->types.n && !*ret; i++)
        *ret = hx_patterns_match(patterns, snapshot->types.v[i].name);
    hx_patterns_destroy(patterns);
    return NULL;
}

hx_error *hx_matched_look(struct hx_matched *matched, const struct hx_snapshot *snapshot)
{
    const struct hx_args *args = matched->args;
    for (size_t i = 0; i < args->n_roots; i++) {
        enum hx_matched_root root = look_for(snapshot, args->root[i]);
        if (root > matched->root[i])
            matched->root[i] = root;
    }
    for (size_t i = 0; i < args->analysis.options.n_patterns; i++)
        if (!matched->retainer[i])
            HX_TRY(match(snapshot, args->retainer[i], &matched->retainer[i]));
    matched->looked = true;
    return NULL;
}

static void tell_root(struct hx_console *console, const char *naming, enum hx_matched_root root)
{
    static const char type[] = "=type:";
    const char *expr = strchr(naming, '=');
    if (root == HX_MATCHED_TAKEN)
        hx_say(console, "--root",
               "%s: the program has a root of this name, which counts; choose another name",
               naming);
    else if (expr && strncmp(expr, type, sizeof type - 1) == 0)
        hx_say(console, "--root", "%s: no type matches '%s' here", naming, expr + sizeof type - 1);
    else
        hx_say(console, "--root", "%s: no such place, or no pointer in it", naming);
}

void hx_matched_tell(const struct hx_matched *matched, struct hx_console *console)
{
    const struct hx_args *args = matched->args;
    for (size_t i = 0; i < args->n_roots && matched->looked; i++)
        if (matched->root[i] != HX_MATCHED_SOMETHING)
            tell_root(console, args->root[i], matched->root[i]);
    for (size_t i = 0; i < args->analysis.options.n_patterns && matched->looked; i++)
        if (!matched->retainer[i])
            hx_say(console, "--retainer", "no type matches '%s' here", args->retainer[i]);
}
