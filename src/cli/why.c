/* why.c - `heapx why TARGET ADDR`: what keeps an object alive. */
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/from.h"
#include "cli/words/input_file.h"
#include "store/hints.h"
#include "traverse/leaks.h"
#include "traverse/hold/rounds.h"
#include "traverse/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHAINS_SHOWN = 1 };

static hx_error *parse_address(const char *word, uint64_t *ret)
{
    if (!hx_parse_u64(word, ret))
        return hx_error_new(HX_E_USAGE, word, "give it as 0x7f.. or in decimal",
                            "is not an address");
    return NULL;
}

/* The root whose range holds addr; NULL when none does. */
static const struct hx_root *root_at(const struct hx_snapshot *snapshot, uint64_t addr)
{
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_REGISTER && root->kind != HX_ROOT_NAMED &&
            addr >= root->address && addr - root->address < root->size)
            return root;
    }
    return NULL;
}

/* What lies at an address that is in no object. */
static hx_error *not_an_object(const struct hx_snapshot *snapshot, const char *word, uint64_t addr)
{
    const struct hx_graph *graph = &snapshot->graph;
    const char *todo = "see: heapx report TARGET objects";
    const struct hx_root *root = root_at(snapshot, addr);
    if (root)
        return hx_error_new(HX_E_ABSENT, word, todo, "lies in the root '%s', not in an object",
                            root->name);
    if (graph->n == 0)
        return hx_error_new(HX_E_ABSENT, word, NULL, "there are no objects in this snapshot");
    hx_obj low = HX_LOWER_BOUND(graph->n, i, graph->addr[i] <= addr); /* the first one above */
    struct hx_text near = {0};
    if (low > 0)
        hx_text_putf(&near, "0x%" PRIx64 " (%" PRIu64 " bytes) below", graph->addr[low - 1],
                     graph->size[low - 1]);
    if (low < graph->n)
        hx_text_putf(&near, "%s0x%" PRIx64 " (%" PRIu64 " bytes) above", low > 0 ? ", " : "",
                     graph->addr[low], graph->size[low]);
    hx_error *err = hx_error_new(HX_E_ABSENT, word, todo, "no object contains it; the nearest: %s",
                                 hx_text_str(&near));
    hx_text_free(&near);
    return err;
}

static struct hx_value int_value(uint64_t value)
{
    return (struct hx_value){.type = HX_VALUE_INT, .i = (int64_t)value};
}

/* NULL for an empty one. */
static struct hx_value text_value(const struct hx_text *text)
{
    if (!text->n)
        return (struct hx_value){.type = HX_VALUE_NULL};
    return (struct hx_value){.type = HX_VALUE_TEXT, .text = text->s, .text_bytes = text->n};
}

/* People read the shape of what has no type; programs read NULL. */
static struct hx_value type_value(const struct hx_snapshot *snapshot, hx_obj object,
                                  enum hx_format format, struct hx_text *name)
{
    const bool typed = hx_snapshot_number_of(snapshot, object) < snapshot->types.n;
    if (format == HX_FORMAT_TEXT || typed)
        hx_snapshot_put_name(snapshot, object, name);
    return text_value(name);
}

/* What a rule says of a word that is not firm, be the rule switched off or not. */
static hx_error *tell_rule(const struct hx_snapshot *snapshot, const struct hx_step *step,
                           struct hx_text *text)
{
    hx_eidx e = 0;
    enum hx_rule rule = (enum hx_rule)hx_step_rule(snapshot, step, &e);
    if (hx_rule_rank(rule) == HX_RANK_FIRM)
        return NULL;
    if (step->source != HX_NO_OBJ)
        return hx_rule_explain(snapshot, step->source, e, text);
    hx_text_puts(text, hx_rule_text(rule));
    return text->failed ? hx_error_nomem() : NULL;
}

static hx_error *add_step(hx_rows *rows, const struct hx_snapshot *snapshot, size_t chain,
                          size_t number, const struct hx_step *step, enum hx_format format)
{
    HX_CLEANUP(hx_text_free) struct hx_text said = {0};
    HX_CLEANUP(hx_text_free) struct hx_text field = {0};
    HX_TRY(tell_rule(snapshot, step, &said));
    hx_step_put_field(snapshot, step, &field);
    const struct hx_graph *graph = &snapshot->graph;
    const char *kind = hx_edge_kind_name((enum hx_edge_kind)step->kind);
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    struct hx_value null = {.type = HX_VALUE_NULL};
    struct hx_value values[] = {
        int_value(chain),
        int_value(number),
        step->source == HX_NO_OBJ ? int_value(step->root) : null,
        step->source == HX_NO_OBJ ? null : int_value(graph->addr[step->source]),
        int_value(graph->addr[step->target]),
        int_value(step->offset),
        {.type = HX_VALUE_TEXT, .text = kind, .text_bytes = strlen(kind)},
        int_value(graph->size[step->target]),
        type_value(snapshot, step->target, format, &name),
        text_value(&said),
        text_value(&field),
    };
    HX_NEED(!name.failed && !field.failed);
    return hx_rows_add(rows, values);
}

static hx_error *make_rows(const struct hx_snapshot *snapshot, const struct hx_chains *chains,
                           enum hx_format format, hx_rows **ret)
{
    static const char *const names[] = {"chain", "step",  "root_id", "source", "target", "offset",
                                        "kind",  "bytes", "type",    "rule",   "field"};
    HX_TRY(hx_rows_create(names, sizeof names / sizeof *names, ret));
    for (size_t i = 0; i < chains->n; i++)
        for (size_t j = 0; j < chains->chain[i].n; j++) {
            hx_error *err =
                add_step(*ret, snapshot, i + 1, j + 1, &chains->chain[i].step[j], format);
            if (err) {
                hx_rows_end(hx_steal(*ret));
                return err;
            }
        }
    return NULL;
}

/* What helps with a root that has no name. */
static hx_error *tell_hints(struct hx_console *console, const struct hx_snapshot *snapshot,
                            const struct hx_root *root)
{
    const struct hx_bare_module *bare =
        hx_root_is_nameless(root) ? hx_snapshot_bare(snapshot, root->module) : NULL;
    if (!bare)
        return NULL;
    HX_CLEANUP(hx_text_free) struct hx_text in = {0};
    hx_names_in(bare->path, bare->build_id, &in);
    HX_NEED(!in.failed);
    hx_say(console, root->name, "its name: %s%s%s", hx_text_str(&in),
           root->near ? "; nearest symbol: " : "", root->near ? root->near : "");
    return NULL;
}

/* Names the roots of the chains, which the rows give by number only. */
static hx_error *tell_roots(struct hx_console *console, const struct hx_snapshot *snapshot,
                            const struct hx_chains *chains)
{
    for (size_t i = 0; i < chains->n; i++) {
        const struct hx_root *root = &snapshot->roots.v[chains->chain[i].step[0].root];
        char what[48];
        snprintf(what, sizeof what, "chain %zu", i + 1);
        hx_say(console, what, "begins in %s (%s%s%s)", root->name, hx_root_kind_name(root->kind),
               root->module[0] ? " of " : "", root->module);
        HX_TRY(tell_hints(console, snapshot, root));
    }
    return NULL;
}

/* Below which leak an indirect object hangs. */
static hx_error *tell_leak(struct hx_console *console, const struct hx_graph *graph,
                           const char *word, hx_obj object)
{
    hx_obj leak;
    uint64_t steps;
    HX_TRY(hx_leaks_holder(graph, object, &console->progress, &leak, &steps));
    hx_console_clear(console);
    if (leak == HX_NO_OBJ)
        hx_say(console, word, "only leaked objects point to it (indirect)");
    else
        hx_say(console, word,
               "only leaked objects point to it (indirect): it hangs below the definite leak "
               "0x%" PRIx64 ", %" PRIu64 " step%s",
               graph->addr[leak], steps, steps == 1 ? "" : "s");
    return NULL;
}

static hx_error *tell_object(struct hx_console *console, const struct hx_snapshot *snapshot,
                             const char *word, uint64_t addr, hx_obj object)
{
    const struct hx_graph *graph = &snapshot->graph;
    enum hx_state state = (enum hx_state)graph->state[object];
    hx_console_clear(console);
    if (addr != graph->addr[object])
        hx_say(console, word,
               "lies inside the object 0x%" PRIx64 " (%" PRIu64 " bytes), offset %" PRIu64,
               graph->addr[object], graph->size[object], addr - graph->addr[object]);
    if (state == HX_STATE_DEFINITE)
        hx_say(console, word, "nothing keeps it alive: it is leaked (definite)");
    else if (state == HX_STATE_INDIRECT)
        return tell_leak(console, graph, word, object);
    return NULL;
}

/* None of the roots that were asked for reaches the object: which do? A lost one has none. */
static hx_error *not_from(const struct hx_args *args, struct hx_console *console,
                          const struct hx_snapshot *snapshot, hx_obj object, bool are_roots)
{
    HX_CLEANUP(hx_text_free) struct hx_text others = {0}, todo = {0};
    HX_TRY(hx_from_others(snapshot, object, &console->progress, &others));
    if (others.n)
        hx_text_putf(&todo, "these reach %s: %s", args->word[1], hx_text_str(&others));
    else
        hx_text_puts(&todo, "their names: heapx report TARGET roots");
    if (!are_roots)
        return hx_error_new(HX_E_ABSENT, "--from", hx_text_str(&todo),
                            "there is no root '%s' that keeps objects alive", args->from);
    if (others.n)
        return hx_error_new(HX_E_ABSENT, "--from", hx_text_str(&todo),
                            "no chain from a root '%s' leads there", args->from);
    return NULL;
}

static hx_error *print_chains(const struct hx_args *args, struct hx_console *console,
                              const struct hx_snapshot *snapshot, const struct hx_chains *chains)
{
    hx_rows *rows = NULL;
    HX_TRY(make_rows(snapshot, chains, args->format, &rows));
    hx_error *err = hx_rows_print(rows, args->format, stdout);
    hx_rows_end(rows);
    HX_TRY(err);
    if (args->format == HX_FORMAT_TEXT)
        HX_TRY(tell_roots(console, snapshot, chains));
    if (chains->left_out)
        hx_say(console, args->word[1],
               "%zu more roots reach it; their chains together would be too long: see --from",
               chains->left_out);
    return NULL;
}

/* Over the edges of holders, unless --all; where no chain of these leads there, over all. */
static hx_error *find_chains(const struct hx_args *args, struct hx_console *console,
                             struct hx_snapshot *snapshot, const struct hx_hold_options *hold,
                             hx_obj object, const struct hx_why_options *options,
                             struct hx_chains *ret)
{
    if (!args->all)
        HX_TRY(hx_choose(snapshot, hold, args->threads, &console->progress));
    hx_error *err = hx_why(snapshot, object, options, &console->progress, ret);
    hx_edges_restore(snapshot, args->threads);
    if (err || ret->n || args->all || !snapshot->graph.evidence)
        return err;
    return hx_why(snapshot, object, options, &console->progress, ret);
}

static hx_error *answer_why(const struct hx_args *args, struct hx_console *console,
                            struct hx_snapshot *snapshot, const struct hx_hold_options *hold,
                            uint64_t addr)
{
    const char *word = args->word[1];
    hx_obj object = hx_graph_find(&snapshot->graph, addr);
    if (object == HX_NO_OBJ)
        return not_an_object(snapshot, word, addr);
    HX_FREE uint64_t *roots = NULL;
    size_t n_roots = 0;
    if (args->from)
        HX_TRY(hx_from_roots(snapshot, args->from, &roots, &n_roots));
    HX_TRY(hx_graph_reverse(&snapshot->graph, args->threads, &console->progress));
    const struct hx_why_options options = {
        .limit = hx_args_given(args, HX_OPT_LIMIT) ? (size_t)args->limit : CHAINS_SHOWN,
        .roots = roots,
    };
    HX_CLEANUP(hx_chains_deinit) struct hx_chains chains = {0};
    HX_TRY(find_chains(args, console, snapshot, hold, object, &options, &chains));
    if (roots && !chains.n && (options.limit || !n_roots))
        HX_TRY(not_from(args, console, snapshot, object, n_roots > 0));
    HX_TRY(tell_object(console, snapshot, word, addr, object));
    return print_chains(args, console, snapshot, &chains);
}

static hx_error *load_why_snapshot(const struct hx_args *args, struct hx_console *console,
                                   struct hx_hold_options *hold, struct hx_snapshot **ret)
{
    HX_STORE hx_store *store = NULL;
    int64_t number;
    bool partial; /* the snapshot says so itself */
    HX_TRY(hx_file_open(args, console, args->word[0], &store, &partial));
    HX_TRY(hx_store_resolve(store, args->snapshot, &number));
    if (!args->analysis.has_hold)
        HX_TRY(hx_store_hold(store, number, hold));
    return hx_store_load(store, number, &console->progress, ret);
}

static hx_error *take_why_snapshot(const struct hx_args *args, struct hx_console *console,
                                   struct hx_snapshot **ret)
{
    HX_SESSION struct hx_session session = {0};
    HX_TRY(hx_session_open(args, args->word[0], &session));
    HX_TRY(hx_take(&session, &console->progress, ret));
    if (session.partial)
        hx_say(console, args->word[0], "the snapshot is not complete: %s",
               hx_text_str(&(*ret)->notes));
    return NULL;
}

hx_error *hx_cmd_why(const struct hx_args *args, int *status)
{
    uint64_t addr;
    HX_TRY(parse_address(args->word[1], &addr));
    if (strcmp(args->snapshot, "all") == 0)
        return hx_error_new(HX_E_USAGE, "--snapshot", "give a number, first or last",
                            "why looks at one snapshot");
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    bool live = hx_is_pid(args->word[0]);
    struct hx_hold_options hold = args->analysis.hold;
    HX_TRY(live ? take_why_snapshot(args, &console, &snapshot)
                : load_why_snapshot(args, &console, &hold, &snapshot));
    HX_TRY(answer_why(args, &console, snapshot, &hold, addr));
    if (live && !snapshot->complete)
        *status = HX_EXIT_PARTIAL;
    return NULL;
}
