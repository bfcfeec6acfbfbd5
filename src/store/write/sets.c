/* sets.c - the persistent numbers of retainers and sets.
 *
 * A set is looked for under an order-free key: the sum of its retainers' weights (S. Park,
 * S. Peyton Jones, "Implementation of Retainer Profiling", section 3). The weight's upper half
 * is the retainer's number, so that singletons lie in order in the index; the lower one is mixed
 * up, so that hardly any two sets share a key. Only sets that were there before this call are
 * looked for: two sets of one traversal are never the same. */
#include "store/write/sets.h"

#include "base/cleanup.h"
#include "store/db.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SET  2 /* 0: unreachable, 1: MANY */
#define CHECK_MASK 0x3fff

struct member {
    uint32_t rank; /* by label */
    int64_t retainer;
};

struct keeper {
    struct hx_writer *w;
    const hx_sets *sets;
    const struct hx_scheme_rule *rule;
    const uint64_t *objects;
    int64_t *retainer; /* the store's number by that of the rule; 0: not needed */
    uint32_t *rank;    /* by label; NULL: the rule's order is that of labels */
    int64_t last_set, next_set;
    sqlite3_stmt *find, *members;
    HX_VEC(struct member) member; /* of the set in hand */
    HX_VEC(int64_t) sorted, other;
};

static hx_error *sets_cancelled(const struct hx_writer *w, uint64_t done, uint64_t total)
{
    hx_progress_at(w->progress, "storing sets", done, total);
    return hx_progress_cancelled(w->progress) ? hx_error_cancelled(w->what) : NULL;
}

/* --- retainers --------------------------------------------------------------------- */

static bool is_other(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) != 0 : a != b;
}

struct retainer_statements {
    sqlite3_stmt *find, *blur;
};

/* Finds or makes the row of one retainer. Module and symbol stay only while all say the same. */
static hx_error *store_retainer(struct hx_writer *w, const struct retainer_statements *st,
                                const struct hx_identity *who, int64_t *ret)
{
    hx_bind_name(st->find, 1, hx_str(who->space));
    hx_bind_name(st->find, 2, hx_str(who->label));
    int code = sqlite3_step(st->find);
    if (code == SQLITE_ROW) {
        *ret = sqlite3_column_int64(st->find, 0);
        const char *module = (const char *)sqlite3_column_text(st->find, 1);
        const char *symbol = (const char *)sqlite3_column_text(st->find, 2);
        bool other_module = module && is_other(module, who->module);
        bool other_symbol = symbol && is_other(symbol, who->symbol);
        sqlite3_reset(st->find);
        if (!other_module && !other_symbol)
            return NULL;
        sqlite3_bind_int64(st->blur, 1, *ret);
        sqlite3_bind_int(st->blur, 2, other_module);
        sqlite3_bind_int(st->blur, 3, other_symbol);
        return hx_db_run(w->db, w->what, st->blur);
    }
    sqlite3_reset(st->find);
    if (code != SQLITE_DONE)
        return hx_db_error(w->db, code, w->what);
    HX_TRY(hx_insert(&w->insert, retainer, .space = hx_str(who->space), .label = hx_str(who->label),
                     .kind = hx_str(who->kind), .module = hx_str(who->module),
                     .symbol = hx_str(who->symbol)));
    *ret = sqlite3_last_insert_rowid(w->db);
    return NULL;
}

static hx_error *prepare_retainers(const struct hx_writer *w, struct retainer_statements *st)
{
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT retainer, module, symbol FROM hx_retainer"
                         " WHERE space = ? AND label = ?",
                         &st->find));
    return hx_db_prepare(w->db, w->what,
                         "UPDATE hx_retainer SET module = iif(?2, NULL, module),"
                         " symbol = iif(?3, NULL, symbol) WHERE retainer = ?1",
                         &st->blur);
}

/* In the rule's order, which is that of the table's index. */
hx_error *hx_retainers_store(struct hx_writer *w, const struct hx_scheme_rule *rule,
                             int64_t *retainer)
{
    struct retainer_statements st = {0};
    hx_error *err = prepare_retainers(w, &st);
    size_t n = rule->n_identities;
    for (size_t i = 0; i < n && !err; i++) {
        if (retainer[i])
            err = store_retainer(w, &st, &rule->identity[i], &retainer[i]);
        if (!err && (i & CHECK_MASK) == CHECK_MASK)
            err = sets_cancelled(w, i, n);
    }
    sqlite3_finalize(st.find);
    sqlite3_finalize(st.blur);
    return err;
}

/* Which retainers are in sets of any object: retainer[i] becomes 1. */
static hx_error *find_used(struct keeper *k)
{
    hx_set n = hx_sets_count(k->sets);
    k->retainer = calloc(k->rule->n_identities + 1, sizeof *k->retainer);
    HX_NEED(k->retainer);
    for (hx_set set = FIRST_SET; set < n; set++) {
        const hx_retainer *element = NULL;
        size_t members = k->objects[set] ? hx_sets_elements(k->sets, set, &element) : 0;
        for (size_t i = 0; i < members; i++)
            k->retainer[element[i]] = 1;
    }
    return NULL;
}

struct labelled {
    const char *label;
    uint32_t retainer;
};

static int compare_member_labels(const void *left, const void *right)
{
    const struct labelled *a = left, *b = right;
    int order = strcmp(a->label, b->label);
    return order ? order : a->retainer < b->retainer ? -1 : 1;
}

/* The rule counts by space, then label. With more than one space labels need an order of their
 * own. */
static hx_error *rank_labels(struct keeper *k)
{
    size_t n = k->rule->n_identities;
    const struct hx_identity *identity = k->rule->identity;
    if (!n || strcmp(identity[0].space, identity[n - 1].space) == 0)
        return NULL;
    HX_FREE struct labelled *label = calloc(n, sizeof *label);
    k->rank = calloc(n, sizeof *k->rank);
    HX_NEED(label && k->rank);
    for (size_t i = 0; i < n; i++)
        label[i] = (struct labelled){identity[i].label, (uint32_t)i};
    qsort(label, n, sizeof *label, compare_member_labels);
    for (size_t i = 0; i < n; i++)
        k->rank[label[i].retainer] = (uint32_t)i;
    return NULL;
}

/* --- sets -------------------------------------------------------------------------- */

uint64_t hx_set_weight(int64_t retainer)
{
    uint64_t z = (uint64_t)retainer * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((uint64_t)retainer << 32) + (z >> 32);
}

static int by_rank(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int compare_label_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Takes a set in hand: its members by label, and their numbers sorted. */
static hx_error *take_retainer_set(struct keeper *k, hx_set set, uint64_t *ret_key)
{
    const hx_retainer *element;
    size_t n = hx_sets_elements(k->sets, set, &element);
    HX_NEED(hx_vec_reserve(&k->member, n) && hx_vec_reserve(&k->sorted, n) &&
            hx_vec_reserve(&k->other, n));
    k->member.n = k->sorted.n = n;
    uint64_t key = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t retainer = k->retainer[element[i]];
        k->member.v[i] = (struct member){k->rank ? k->rank[element[i]] : element[i], retainer};
        k->sorted.v[i] = retainer;
        key += hx_set_weight(retainer);
    }
    if (k->rank && n)
        qsort(k->member.v, n, sizeof *k->member.v, by_rank);
    if (n)
        qsort(k->sorted.v, n, sizeof *k->sorted.v, compare_label_numbers);
    *ret_key = key;
    return NULL;
}

/* Has a stored set the members of the one in hand? */
static hx_error *is_same_stored_set(struct keeper *k, int64_t set, bool *ret)
{
    size_t n = 0;
    int code;
    sqlite3_bind_int64(k->members, 1, set);
    while ((code = sqlite3_step(k->members)) == SQLITE_ROW && n < k->sorted.n)
        k->other.v[n++] = sqlite3_column_int64(k->members, 0);
    sqlite3_reset(k->members);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(k->w->db, code, k->w->what);
    *ret = code == SQLITE_DONE && n == k->sorted.n;
    if (!*ret || !n)
        return NULL;
    qsort(k->other.v, n, sizeof *k->other.v, compare_label_numbers);
    *ret = memcmp(k->other.v, k->sorted.v, n * sizeof *k->sorted.v) == 0;
    return NULL;
}

/* The number of the set in hand; 0 when the store does not know it. */
static hx_error *find_stored_set(struct keeper *k, uint64_t key, int64_t *ret)
{
    hx_error *err = NULL;
    bool same = false;
    int code = SQLITE_DONE;
    *ret = 0;
    if (k->last_set < FIRST_SET)
        return NULL;
    sqlite3_bind_int64(k->find, 1, (int64_t)key);
    sqlite3_bind_int64(k->find, 2, (int64_t)k->sorted.n);
    sqlite3_bind_int64(k->find, 3, k->last_set);
    while (!err && !same && (code = sqlite3_step(k->find)) == SQLITE_ROW) {
        int64_t set = sqlite3_column_int64(k->find, 0);
        err = is_same_stored_set(k, set, &same);
        if (same)
            *ret = set;
    }
    sqlite3_reset(k->find);
    if (!err && code != SQLITE_ROW && code != SQLITE_DONE)
        err = hx_db_error(k->w->db, code, k->w->what);
    return err;
}

static hx_error *add_stored_set(struct keeper *k, uint64_t key, int64_t *ret)
{
    struct hx_writer *w = k->w;
    int64_t set = k->next_set++;
    HX_TRY(hx_insert(&w->insert, set, .set_id = hx_int(set), .key = hx_int(key),
                     .members = hx_int(k->member.n)));
    for (size_t i = 0; i < k->member.n; i++)
        HX_TRY(hx_insert(&w->insert, set_member, .set_id = hx_int(set), .position = hx_int(i + 1),
                         .retainer = hx_int(k->member.v[i].retainer)));
    *ret = set;
    return NULL;
}

static hx_error *prepare_sets(struct keeper *k)
{
    struct hx_writer *w = k->w;
    HX_TRY(hx_db_int(w->db, w->what, "SELECT coalesce(max(set_id), 0) FROM hx_set", &k->last_set));
    /* all numbers of this call fit */
    if (k->last_set > INT64_MAX / 2)
        return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                            "the store is damaged (numbers of sets)");
    k->next_set = k->last_set < FIRST_SET ? FIRST_SET : k->last_set + 1;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT set_id FROM hx_set WHERE key = ?1 AND members = ?2"
                         " AND set_id BETWEEN 2 AND ?3 ORDER BY set_id",
                         &k->find));
    return hx_db_prepare(w->db, w->what, "SELECT retainer FROM hx_set_member WHERE set_id = ?",
                         &k->members);
}

static hx_error *store_sets(struct keeper *k, int64_t *stored)
{
    hx_set n = hx_sets_count(k->sets);
    for (hx_set set = FIRST_SET; set < n; set++) {
        if ((set & CHECK_MASK) == CHECK_MASK)
            HX_TRY(sets_cancelled(k->w, set, n));
        if (!k->objects[set])
            continue;
        uint64_t key = 0;
        HX_TRY(take_retainer_set(k, set, &key));
        HX_TRY(find_stored_set(k, key, &stored[set]));
        if (!stored[set])
            HX_TRY(add_stored_set(k, key, &stored[set]));
    }
    return NULL;
}

static hx_error *store_all(struct keeper *k, int64_t *stored)
{
    HX_TRY(find_used(k));
    HX_TRY(hx_retainers_store(k->w, k->rule, k->retainer));
    HX_TRY(rank_labels(k));
    HX_TRY(prepare_sets(k));
    return store_sets(k, stored);
}

static void deinit_set_keeper(struct keeper *k)
{
    sqlite3_finalize(k->find);
    sqlite3_finalize(k->members);
    free(k->retainer);
    free(k->rank);
    hx_vec_free(&k->member);
    hx_vec_free(&k->sorted);
    hx_vec_free(&k->other);
}

hx_error *hx_sets_store(struct hx_writer *w, const hx_sets *sets, const struct hx_scheme_rule *rule,
                        const uint64_t *objects, int64_t **ret_stored)
{
    struct keeper k = {.w = w, .sets = sets, .rule = rule, .objects = objects};
    hx_set n = hx_sets_count(sets);
    HX_FREE int64_t *stored = malloc(((size_t)n + FIRST_SET) * sizeof *stored);
    HX_NEED(stored);
    for (hx_set set = 0; set < n; set++)
        stored[set] = set < FIRST_SET ? (int64_t)set : -1;
    hx_error *err = store_all(&k, stored);
    deinit_set_keeper(&k);
    if (!err)
        *ret_stored = hx_steal(stored);
    return err;
}
