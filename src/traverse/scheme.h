/* scheme.h - who retains, and by which name: the oracle isRetainer() and R() of the
 * retainer-profiling document.
 *
 * A scheme is a const table in one file, scheme_NAME.c. To add one: that file, a line in
 * HX_SCHEMES, one in Makefile.am, its expectation in test/unit/test_scheme.c (the random
 * graphs there then cover it), a sentence in the man page.
 */
#ifndef HX_TRAVERSE_SCHEME_H
#define HX_TRAVERSE_SCHEME_H

#include "model/snapshot.h"
#include "traverse/retain.h"

#define HX_SCHEMES(X) X(root) X(module) X(thread) X(type) X(site)

/* Who a retainer is. Two retainers are the same when space and label are; kind and module only
 * describe it. Strings are valid as long as the rule that they are in. */
struct hx_identity {
    const char *space;  /* what the label names: "root", "module", "thread", "type", "site" */
    const char *label;  /* "g_cache" */
    const char *kind;   /* "global", "stack", ..., "module", "thread", "type", "site" */
    const char *module; /* NULL: none, or several */
};

struct hx_scheme_options {
    const char *const *pattern; /* which types retain (scheme type): the name itself or a POSIX */
    size_t n_patterns;          /* extended expression somewhere in it; 0: every known type */
};

/* What a scheme says of one snapshot. The arrays of `rule` are the rule's own. Named roots are no
 * retainers. Retainers are numbered by (space, label), bytewise. */
struct hx_scheme_rule {
    struct hx_retain_rule rule;
    struct hx_identity *identity; /* by hx_retainer */
    size_t n_identities;
    struct hx_big root_mem, object_mem; /* and the storage of the strings, see scheme.c */
    struct hx_text strings;
};

struct hx_scheme {
    const char *name, *about;
    /* Who is this root? Text goes into `label`, or *ret has strings of the snapshot. */
    void (*root)(const struct hx_snapshot *snapshot, const struct hx_root *root,
                 struct hx_text *label, struct hx_identity *ret);
    /* Objects fall into groups, of which some retain. NULL: no object does. */
    const uint32_t *(*groups)(const struct hx_snapshot *snapshot, uint32_t *ret_n);
    /* Does the group retain, and who is it? */
    bool (*group)(const struct hx_snapshot *snapshot, uint32_t group,
                  const struct hx_scheme_options *options, struct hx_identity *ret);
};

#define HX_SCHEME_DECLARE(name) extern const struct hx_scheme hx_scheme_##name;
HX_SCHEMES(HX_SCHEME_DECLARE)
#undef HX_SCHEME_DECLARE
extern const struct hx_scheme *const hx_schemes[]; /* ends with NULL; the first is the default */

const struct hx_scheme *hx_scheme_find(const char *name); /* NULL when unknown */

/* HX_E_USAGE for a pattern that is no expression. */
hx_error *hx_scheme_apply(const struct hx_scheme *scheme, const struct hx_snapshot *snapshot,
                          const struct hx_scheme_options *options, struct hx_scheme_rule *ret);
void hx_scheme_rule_deinit(struct hx_scheme_rule *rule);

#endif
