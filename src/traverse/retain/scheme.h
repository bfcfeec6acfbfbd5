/* scheme.h - who retains, and by which name: the oracle isRetainer() and R() of the
 * retainer-profiling document.
 *
 * A scheme is a const table in one file, scheme_NAME.c. To add one: that file, a word in
 * HX_SCHEMES, one in Makefile.am, its expectation in test/unit/test_scheme.c (the random
 * graphs there then cover it), a sentence in heapx(1).
 */
#ifndef HX_TRAVERSE_RETAIN_SCHEME_H
#define HX_TRAVERSE_RETAIN_SCHEME_H

#include "model/snapshot.h"
#include "traverse/retain/retain.h"

#define HX_SCHEMES(X) X(root) X(module) X(thread) X(type) X(site)

/* Who a retainer is. Two retainers are the same when space and label are; kind, module and symbol
 * only describe it. */
struct hx_identity {
    const char *space;  /* what the label names: "root", "module", "thread", "type", "site" */
    const char *label;  /* "g_cache"; may be "" */
    const char *kind;   /* "global", "stack", ..., "module", "thread", "type", "site" */
    const char *module; /* NULL: none, or several */
    const char *symbol; /* the linker's name; NULL: none, or several */
};

/* Under which name stacks, registers and unnamed thread-local storage retain. */
enum hx_threads_as {
    HX_THREADS_AS_NAME,  /* those of all threads of one name: "thread NAME" */
    HX_THREADS_AS_ONE,   /* those of each thread: "thread TID NAME" */
    HX_THREADS_AS_PARTS, /* each by itself: "stack of thread TID", a frame as its function */
};
const char *hx_threads_as_name(enum hx_threads_as threads_as); /* "name", "one", "parts" */
bool hx_threads_as_parse(const char *word, enum hx_threads_as *ret);

struct hx_scheme_options {
    const char *const *pattern;    /* which types retain (scheme type; see pattern.h); 0 of them: */
    size_t n_patterns;             /* every known type */
    enum hx_threads_as threads_as; /* not for the schemes module and thread */
};

/* What a scheme says of one snapshot. Named roots are no retainers. Retainers are numbered by
 * (space, label), bytewise. Everything that is pointed to is the rule's own, except that space
 * and kind are literals. */
struct hx_scheme_rule {
    struct hx_retain_rule rule;
    struct hx_identity *identity; /* by hx_retainer */
    size_t n_identities;
    struct hx_big root_mem, object_mem; /* rule.of_root, rule.of_object */
    struct hx_text strings;             /* labels, modules, symbols, each with its end mark */
};

/* Space, kind and what the functions below put into an identity live as long as the snapshot. */
struct hx_scheme {
    const char *name, *about;
    /* Who is this root? `module` and `symbol` are NULL and `kind` is the root's before
     * the call. Where the label is
     * no string of the snapshot, it goes into `label` and ret->label stays NULL. */
    void (*root)(const struct hx_root *root, enum hx_threads_as threads_as, struct hx_text *label,
                 struct hx_identity *ret);
    /* Objects fall into groups. Returns the group of each object, of *ret_n ones (other numbers:
     * none), or NULL when that is not known. NULL: no object is a retainer. */
    const uint32_t *(*groups)(const struct hx_snapshot *snapshot, uint32_t *ret_n);
    /* Who are the objects of a group? */
    void (*group)(const struct hx_snapshot *snapshot, uint32_t group, struct hx_identity *ret);
    /* Is it a retainer at all? NULL: every group is. */
    bool (*retains)(const struct hx_snapshot *snapshot, uint32_t group);
    bool picks; /* only groups whose label the options' patterns pick are retainers */
    /* Is it one where there are no patterns? NULL: every group is. */
    bool (*by_default)(const struct hx_snapshot *snapshot, uint32_t group);
};

#define HX_SCHEME_DECLARE(name) extern const struct hx_scheme hx_scheme_##name;
HX_SCHEMES(HX_SCHEME_DECLARE)
#undef HX_SCHEME_DECLARE
extern const struct hx_scheme *const hx_schemes[]; /* ends with NULL; the first is the default */

const struct hx_scheme *hx_scheme_find(const char *name); /* NULL when unknown */

/* HX_E_USAGE for a pattern that is no expression. `options` may be NULL. */
hx_error *hx_scheme_apply(const struct hx_scheme *scheme, const struct hx_snapshot *snapshot,
                          const struct hx_scheme_options *options, struct hx_scheme_rule *ret);
void hx_scheme_rule_deinit(struct hx_scheme_rule *rule);

/* The identity that most schemes give roots: their name, or their thread's. */
void hx_scheme_root_by_name(const struct hx_root *root, enum hx_threads_as threads_as,
                            struct hx_text *label, struct hx_identity *ret);

/* The label of a root's thread: its name is left out where it is not known, else its number where
 * all of one name are together. */
void hx_scheme_put_thread(const struct hx_root *root, bool together, struct hx_text *label);

#endif
