/* rules.h - why a word that looks like a reference is taken for stray, or for less than one.
 *
 * A rule is a row: its name, the rank of the words that it finds, and what is said of one of them.
 * To add one: a line here, who finds such words (evidence.c and the files beside it), a line in
 * heapx(1). Stores keep a rule's number, so the order stays, and new ones come last.
 */
#ifndef HX_TRAVERSE_HOLD_RULES_H
#define HX_TRAVERSE_HOLD_RULES_H

#include "base/error.h"
#include "base/text.h"
#include "model/snapshot.h"

enum hx_rank { HX_RANK_FIRM = 0, HX_RANK_SPARSE = 1, HX_RANK_STRAY = 2 };

/* X(number, name, rank, what is said of a word) */
#define HX_RULES(X)                                                                                \
    X(1, requested, HX_RANK_STRAY, "behind the requested bytes")                                   \
    X(2, string, HX_RANK_STRAY, "dead half of a std::string")                                      \
    X(3, text, HX_RANK_STRAY, "behind the end of a string")                                        \
    X(4, vector, HX_RANK_STRAY, "behind the end of a vector")                                      \
    X(5, deque, HX_RANK_STRAY, "outside of what a deque holds")                                    \
    X(6, stdio, HX_RANK_STRAY, "in the buffer of a FILE")                                          \
    X(7, bytes, HX_RANK_STRAY, "in a block of bytes or text")                                      \
    X(8, slack, HX_RANK_STRAY, "at the end of a block, behind what is in use in those alike")      \
    X(9, field, HX_RANK_STRAY, "in a field that holds other values")                               \
    X(10, unanswered, HX_RANK_SPARSE, "a link that is not answered, where those alike are")        \
    X(11, few, HX_RANK_SPARSE, "in a field that is hardly ever set")                               \
    X(12, intrusive, HX_RANK_FIRM, "a link of an intrusive list")                                  \
    X(13, link, HX_RANK_FIRM, "a link that is answered")                                           \
    X(14, chain, HX_RANK_FIRM, "a link to the next one alike")                                     \
    X(15, count, HX_RANK_STRAY, "behind the count of its block")                                   \
    X(16, piece, HX_RANK_FIRM, "to a piece of a block, as those alike")                            \
    X(17, pointer, HX_RANK_FIRM, "a pointer by its type")                                          \
    X(18, scalar, HX_RANK_STRAY, "in a field that is no pointer by its type")                      \
    X(19, other, HX_RANK_STRAY, "to what cannot be of the type that it points to")                 \
    X(20, weak, HX_RANK_STRAY, "a reference that keeps nothing alive")                             \
    X(21, tag, HX_RANK_STRAY, "left over, by a tag beside it")                                     \
    X(22, lent, HX_RANK_SPARSE, "to what others have, as those alike, some of which is gone")      \
    X(23, inside, HX_RANK_FIRM, "a variable's pointer by its type, into a block of no type")       \
    X(24, ring, HX_RANK_FIRM, "a link of an intrusive list that is answered")

enum hx_rule {
    HX_RULE_NONE = 0,
#define HX_RULE_NUMBER(number, name, rank, text) HX_RULE_##name = number,
    HX_RULES(HX_RULE_NUMBER)
#undef HX_RULE_NUMBER
        HX_RULE_COUNT,
};

const char *hx_rule_name(enum hx_rule rule);  /* "requested"; NULL: none */
const char *hx_rule_text(enum hx_rule rule);  /* "behind the requested bytes"; NULL: none */
enum hx_rank hx_rule_rank(enum hx_rule rule); /* of a word; HX_RULE_NONE: firm */
/* By its name; HX_RULE_NONE: there is none of that name. */
enum hx_rule hx_rule_find(const char *name);

/* How the graph of holders is made. */
struct hx_hold_options {
    bool holders; /* false: all edges count, as far as snapshot.interior lets them */
    uint64_t off; /* bit for each rule that is switched off: its words are firm */
};

static inline bool hx_rule_is_on(const struct hx_hold_options *options, enum hx_rule rule)
{
    return rule != HX_RULE_NONE && !(options->off >> rule & 1);
}

/* The rank of a word by the rules that are on. */
enum hx_rank hx_word_rank(hx_evidence evidence, const struct hx_hold_options *options);

/* Switches off what "-NAME" or "-NAME,-NAME" names; "+NAME" switches on. HX_E_USAGE for a name that
 * no rule has. */
hx_error *hx_rules_parse(const char *text, uint64_t *off);

/* What is counted about a word of an object. */
struct hx_word_figures {
    int64_t requested;    /* bytes of the object; -1: not known */
    int64_t words, alike; /* so many of those alike have a pointer there; alike 0: not counted */
};

/* Does a rule go by how many of those alike have a pointer there? */
bool hx_rule_counts(enum hx_rule rule);

/* Appends what is said of a word with these figures: "behind the 47 requested bytes", "a pointer in
 * 119 of 20,000 alike: in a field that is hardly ever set"; nothing of HX_RULE_NONE. */
void hx_rule_put(enum hx_rule rule, const struct hx_word_figures *figures, struct hx_text *text);

/* The same of the word of edge `e`. Counts those alike: linear. */
hx_error *hx_rule_explain(const struct hx_snapshot *snapshot, hx_obj source, hx_eidx e,
                          struct hx_text *text);

#endif
