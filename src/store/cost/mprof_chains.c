/* mprof_chains.c - partial call chains: the last few functions of each recorded stack.
 *
 * Stacks whose chains read the same have one chain, whatever the addresses were. A chain is found
 * as a path of names from the innermost function outwards, so that no text is made for one that is
 * known already. */
#include "store/cost/mprof_fill.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "store/db.h"
#include "store/schema/row.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_NAME      UINT32_MAX
#define LONGEST_PATH ((size_t)1 << 16) /* bytes; what is longer is cut */

struct name {
    size_t text;   /* in `strings` */
    uint32_t next; /* of the same hash; NO_NAME: none */
};

struct call {
    uint64_t vaddr, entry; /* of the call, and where its function begins; 0: unknown */
};

struct chains {
    const struct hx_attributing *a;
    struct hx_mprof_tree tree;
    HX_VEC(struct name) names;
    HX_VEC(char) strings;
    struct hx_pairs by_hash; /* to the first name */
    struct call *call;       /* of each frame; NULL without offsets */
    uint32_t *name;          /* of each frame; NO_NAME: not asked for yet */
    struct hx_pairs paths;   /* (path, name) to a longer path; path 0 is empty */
    HX_VEC(int64_t) number;  /* of each path and whether it is cut: [path * 2 + cut]; 0: none */
    int64_t last;
    struct hx_text text;
    HX_VEC(uint32_t) chain; /* names of the one at hand, innermost first */
};

/* --- names --------------------------------------------------------------------------- */

static hx_error *name_of_text(struct chains *c, const char *text, uint32_t *ret)
{
    uint32_t *first;
    size_t bytes = strlen(text) + 1;
    HX_TRY(hx_pairs_at(&c->by_hash, hx_hash_bytes(text, bytes), &first));
    for (uint32_t i = *first; i != NO_NAME; i = c->names.v[i].next) {
        if (strcmp(c->strings.v + c->names.v[i].text, text) == 0) {
            *ret = i;
            return NULL;
        }
    }
    HX_NEED(hx_vec_reserve(&c->strings, c->strings.n + bytes) &&
            hx_vec_push(&c->names, (struct name){c->strings.n, *first}));
    memcpy(c->strings.v + c->strings.n, text, bytes);
    c->strings.n += bytes;
    *first = *ret = (uint32_t)c->names.n - 1;
    return NULL;
}

/* Where each frame calls: of those in code. */
static hx_error *load_calls(struct chains *c)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    c->call = calloc((size_t)c->tree.n + 1, sizeof *c->call);
    HX_NEED(c->call);
    HX_TRY(hx_db_prepare(c->a->db, c->a->what,
                         "SELECT f.frame_id, p.vaddr, p.entry FROM hx_frame AS f"
                         " CROSS JOIN hx_place AS p ON p.place = f.place",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        size_t frame = hx_frames_index(c->a->frames, sqlite3_column_int64(st, 0));
        if (frame < c->tree.n)
            c->call[frame] = (struct call){(uint64_t)sqlite3_column_int64(st, 1),
                                           (uint64_t)sqlite3_column_int64(st, 2)};
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(c->a->db, code, c->a->what);
}

/* By the address that the call returns to, as debuggers have it: "+28" behind the beginning of the
 * function, else (it was inlined) "@0x401136" in the file. */
static void put_offset(struct chains *c, uint32_t frame)
{
    const struct call *call = &c->call[frame];
    if (call->entry && call->entry <= call->vaddr)
        hx_text_putf(&c->text, "+%" PRIu64, call->vaddr - call->entry + 1);
    else
        hx_text_putf(&c->text, "@0x%" PRIx64, call->vaddr + 1);
}

/* "f", or with offsets "f+28". */
static hx_error *chain_frame_name(struct chains *c, uint32_t frame, uint32_t *ret)
{
    if (c->name[frame] == NO_NAME) {
        hx_text_clear(&c->text);
        hx_centre centre = c->a->frame[frame].centre;
        hx_text_puts(&c->text, centre < c->a->frames->centres.n
                                   ? hx_frames_label(c->a->frames, centre)
                                   : "?");
        if (c->a->how.offsets && c->a->frame[frame].kind == HX_FRAME_CODE)
            put_offset(c, frame);
        HX_NEED(!c->text.failed);
        HX_TRY(name_of_text(c, hx_text_str(&c->text), &c->name[frame]));
    }
    *ret = c->name[frame];
    return NULL;
}

/* --- paths ---------------------------------------------------------------------------- */

/* The centre of a built-in frame as a number of enum hx_builtin; 0: it is a call. MAIN is one. */
static int64_t builtin_of(const struct chains *c, uint32_t frame)
{
    if (frame && c->a->frame[frame].kind != HX_FRAME_BUILTIN)
        return 0;
    hx_centre centre = c->a->frame[frame].centre;
    return centre < HX_BUILTINS ? (int64_t)centre + 1 : HX_CCS_UNKNOWN;
}

static hx_error *take_function(struct chains *c, uint32_t frame, size_t *bytes)
{
    uint32_t name = NO_NAME;
    HX_TRY(chain_frame_name(c, frame, &name));
    *bytes += strlen(c->strings.v + c->names.v[name].text) + strlen(" > ");
    return hx_vec_push(&c->chain, name) ? NULL : hx_error_nomem();
}

/* Takes the functions of a stack, innermost first. It is cut when there are more callers, or when
 * nobody knows whether there are. */
static hx_error *take_chain(struct chains *c, uint32_t frame, bool *ret_cut)
{
    size_t bytes = 0;
    uint32_t depth = c->a->how.chain_depth;
    int64_t builtin = builtin_of(c, frame);
    c->chain.n = 0;
    if (builtin) {
        *ret_cut = builtin == HX_CCS_CUT || builtin == HX_CCS_UNKNOWN;
        return take_function(c, frame, &bytes);
    }
    do {
        HX_TRY(take_function(c, frame, &bytes));
        frame = c->tree.caller[frame];
        builtin = builtin_of(c, frame);
    } while (!builtin && (!depth || c->chain.n < depth) && bytes < LONGEST_PATH);
    *ret_cut = builtin != HX_CCS_MAIN;
    return NULL;
}

/* The slot for the number of the chain at hand. */
static hx_error *find_number(struct chains *c, bool cut, int64_t **ret)
{
    uint32_t path = 0, *longer;
    for (size_t i = 0; i < c->chain.n; i++) {
        HX_TRY(hx_pairs_at(&c->paths, hx_pair_key(path, c->chain.v[i]), &longer));
        if (*longer == HX_NO_PAIR)
            *longer = (uint32_t)c->paths.n; /* from 1 */
        path = *longer;
    }
    size_t slot = (size_t)path * 2 + cut, had = c->number.n;
    if (slot >= had) {
        HX_NEED(hx_vec_reserve(&c->number, slot + 1));
        c->number.n = slot + 1;
        memset(c->number.v + had, 0, (slot + 1 - had) * sizeof *c->number.v);
    }
    *ret = &c->number.v[slot];
    return NULL;
}

/* --- rows ----------------------------------------------------------------------------- */

static hx_error *write_chain(struct chains *c, struct hx_inserter *insert, int64_t number, bool cut)
{
    hx_text_clear(&c->text);
    for (size_t i = c->chain.n; i-- > 0;) {
        hx_text_puts(&c->text, c->strings.v + c->names.v[c->chain.v[i]].text);
        if (i)
            hx_text_puts(&c->text, " > ");
    }
    HX_NEED(!c->text.failed);
    return hx_insert(insert, chain, .chain = hx_int(number),
                     .path = {hx_text_str(&c->text), c->text.n}, .cut = hx_int(cut));
}

/* A stack of the file. */
struct stack {
    int64_t id, chain; /* chain 0: it has none yet */
    uint32_t frame;
};
struct stacks {
    HX_VEC(struct stack) of;
};

static hx_error *load_stacks(struct chains *c, struct stacks *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(c->a->db, c->a->what,
                         "SELECT t.stack_id, coalesce(t.origin, 0), coalesce(c.chain, 0)"
                         " FROM hx_stack AS t"
                         " LEFT JOIN hx_stack_chain AS c ON c.stack_id = t.stack_id"
                         " ORDER BY t.stack_id",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct stack stack = {.id = sqlite3_column_int64(st, 0),
                              .chain = sqlite3_column_int64(st, 2)};
        HX_TRY(
            hx_mprof_origin(c->a, &c->tree, sqlite3_column_int64(st, 1), stack.id, &stack.frame));
        HX_NEED(hx_vec_push(&ret->of, stack));
    }
    if (code != SQLITE_DONE)
        return hx_db_error(c->a->db, code, c->a->what);
    return hx_db_int(c->a->db, c->a->what, "SELECT max(chain) FROM hx_chain", &c->last);
}

/* What is there already keeps its number. */
static hx_error *know_chains(struct chains *c, const struct stacks *stacks)
{
    for (size_t i = 0; i < stacks->of.n; i++) {
        const struct stack *stack = &stacks->of.v[i];
        int64_t *number;
        bool cut;
        if (!stack->chain)
            continue;
        HX_TRY(take_chain(c, stack->frame, &cut));
        HX_TRY(find_number(c, cut, &number));
        *number = stack->chain;
    }
    return NULL;
}

static hx_error *write_chain_stacks(struct chains *c, const struct stacks *stacks)
{
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = c->a->db, .what = c->a->what};
    for (size_t i = 0; i < stacks->of.n; i++) {
        const struct stack *stack = &stacks->of.v[i];
        int64_t *number;
        bool cut;
        if (stack->chain)
            continue;
        HX_TRY(take_chain(c, stack->frame, &cut));
        HX_TRY(find_number(c, cut, &number));
        if (!*number) {
            *number = ++c->last;
            HX_TRY(write_chain(c, &insert, *number, cut));
        }
        HX_TRY(hx_insert(&insert, stack_chain, .stack_id = hx_int(stack->id),
                         .chain = hx_int(*number)));
    }
    return NULL;
}

static hx_error *lack_any(const struct chains *c, bool *ret)
{
    int64_t lacking;
    HX_TRY(hx_db_int(c->a->db, c->a->what,
                     "SELECT EXISTS (SELECT 1 FROM hx_stack AS t WHERE NOT EXISTS (SELECT 1"
                     " FROM hx_stack_chain AS c WHERE c.stack_id = t.stack_id))",
                     &lacking));
    *ret = lacking != 0;
    return NULL;
}

static hx_error *make_chains(struct chains *c, struct stacks *stacks)
{
    bool lacking;
    HX_TRY(lack_any(c, &lacking));
    if (!lacking)
        return NULL;
    HX_TRY(hx_mprof_tree_make(c->a, &c->tree));
    c->name = malloc(((size_t)c->tree.n + 1) * sizeof *c->name);
    HX_NEED(c->name);
    memset(c->name, 0xff, ((size_t)c->tree.n + 1) * sizeof *c->name);
    if (c->a->how.offsets)
        HX_TRY(load_calls(c));
    HX_TRY(load_stacks(c, stacks));
    HX_TRY(know_chains(c, stacks));
    return write_chain_stacks(c, stacks);
}

hx_error *hx_mprof_chains(const struct hx_attributing *a)
{
    struct chains c = {.a = a};
    struct stacks stacks = {0};
    hx_error *err = make_chains(&c, &stacks);
    hx_mprof_tree_deinit(&c.tree);
    hx_vec_free(&stacks.of);
    hx_vec_free(&c.names);
    hx_vec_free(&c.strings);
    hx_vec_free(&c.number);
    hx_vec_free(&c.chain);
    hx_pairs_free(&c.by_hash);
    hx_pairs_free(&c.paths);
    hx_text_free(&c.text);
    free(c.name);
    free(c.call);
    return err;
}
