/* asked.c - telling of roots and patterns that stand for nothing. */
#include "cli/asked.h"

#include "traverse/pattern.h"

#include <stdlib.h>
#include <string.h>

hx_error *hx_asked_init(const struct hx_args *args, struct hx_asked *ret)
{
    *ret = (struct hx_asked){
        .args = args,
        .root = calloc(args->n_roots + 1, sizeof *ret->root),
        .retainer = calloc(args->analysis.options.n_patterns + 1, sizeof *ret->retainer)};
    if (ret->root && ret->retainer)
        return NULL;
    hx_asked_deinit(ret);
    return hx_error_nomem();
}

void hx_asked_deinit(struct hx_asked *asked)
{
    free(asked->root);
    free(asked->retainer);
    asked->root = NULL;
    asked->retainer = NULL;
}

static enum hx_asked_root look_for(const struct hx_snapshot *snapshot, const char *naming)
{
    size_t n = strcspn(naming, "=");
    for (size_t i = 0; i < snapshot->named.n; i++) {
        const struct hx_named *named = &snapshot->named.v[i];
        if (strncmp(named->name, naming, n) != 0 || named->name[n])
            continue;
        if (!named->expr)
            return HX_ASKED_TAKEN;
        return snapshot->roots.v[named->root].direct_objects ? HX_ASKED_SOMETHING
                                                             : HX_ASKED_NOTHING;
    }
    return HX_ASKED_NOTHING;
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

hx_error *hx_asked_look(struct hx_asked *asked, const struct hx_snapshot *snapshot)
{
    const struct hx_args *args = asked->args;
    for (size_t i = 0; i < args->n_roots; i++) {
        enum hx_asked_root root = look_for(snapshot, args->root[i]);
        if (root > asked->root[i])
            asked->root[i] = root;
    }
    for (size_t i = 0; i < args->analysis.options.n_patterns; i++)
        if (!asked->retainer[i])
            HX_TRY(match(snapshot, args->retainer[i], &asked->retainer[i]));
    asked->looked = true;
    return NULL;
}

static void tell_root(struct hx_console *console, const char *naming, enum hx_asked_root root)
{
    static const char type[] = "=type:";
    const char *expr = strchr(naming, '=');
    if (root == HX_ASKED_TAKEN)
        hx_say(console, "--root",
               "%s: the program has a root of this name, which counts; choose another name",
               naming);
    else if (expr && strncmp(expr, type, sizeof type - 1) == 0)
        hx_say(console, "--root", "%s: no type matches '%s' here", naming, expr + sizeof type - 1);
    else
        hx_say(console, "--root", "%s: no such place, or no pointer in it", naming);
}

void hx_asked_tell(const struct hx_asked *asked, struct hx_console *console)
{
    const struct hx_args *args = asked->args;
    for (size_t i = 0; i < args->n_roots && asked->looked; i++)
        if (asked->root[i] != HX_ASKED_SOMETHING)
            tell_root(console, args->root[i], asked->root[i]);
    for (size_t i = 0; i < args->analysis.options.n_patterns && asked->looked; i++)
        if (!asked->retainer[i])
            hx_say(console, "--retainer", "no type matches '%s' here", args->retainer[i]);
}
