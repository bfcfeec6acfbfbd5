/* analysis.h - what the user wants to have worked out of snapshots: whose retainer sets, which
 * roots have names.
 *
 * The choice holds for all snapshots: each that is looked at later is revised then, in the
 * background, and new ones are stored with it.
 */
#ifndef HX_UI_ANALYSIS_H
#define HX_UI_ANALYSIS_H

#include "base/vec.h"
#include "store/store.h"
#include "traverse/named.h"

/* A name that is given, or (expr NULL) taken away. */
struct hx_naming_edit {
    char *name, *expr; /* owned */
};

struct hx_choice {
    /* What was not chosen is as it was for the snapshot in question. */
    const struct hx_scheme *scheme; /* NULL: not chosen */
    HX_VEC(char *) patterns;        /* owned */
    bool has_patterns, has_max_set, has_threads_as, has_holders, holders;
    unsigned max_set;
    enum hx_threads_as threads_as;
    uint64_t rules_on, rules_off;        /* bit for each that was switched */
    HX_VEC(struct hx_naming_edit) edits; /* of the names that a snapshot has, in this order */
    bool instead; /* they take the place of those that the user gave when it was stored */
    uint64_t retainers, bins, holds; /* so many times it was changed */
};

/* What was done with one snapshot. */
struct hx_revision {
    int64_t snapshot;
    uint64_t retainers, bins, holds; /* it has this choice; or it was tried in vain */
    unsigned want;                   /* parts to work out in any case (enum hx_analysis_part) */
    unsigned failed;                 /* parts that could not be worked out, or were cancelled */
    bool missing;                    /* and those that the store does not have */
    bool later;   /* they were left to whoever looks: one after the other, and nobody is told */
    bool begun;   /* with that; it is not tried again by itself */
    bool unnamed; /* its names were left to later: they come before everything else */
    uint64_t began_ns; /* CLOCK_MONOTONIC: of what others go on with; 0: of nothing */
};

struct hx_ui;
struct hx_progress;

void hx_choice_deinit(struct hx_choice *choice);
hx_error *hx_choice_copy(const struct hx_choice *from, struct hx_choice *ret);

/* What a new snapshot is stored with; valid as long as the choice is. */
void hx_choice_analysis(const struct hx_choice *choice, const struct hx_analysis *otherwise,
                        struct hx_analysis *ret);

/* Names the roots of a snapshot as chosen, beside those that it has. */
hx_error *hx_choice_name(const struct hx_choice *choice, struct hx_snapshot *snapshot,
                         size_t *ret_missing);

/* The choice that the options begin with. */
hx_error *hx_ui_begin_choice(struct hx_ui *ui);

/* The shown snapshot is revised when it is not as chosen, then the one that it is compared with. */
void hx_ui_revise(struct hx_ui *ui);

/* A new snapshot was stored with this state of the choice. */
void hx_ui_is_revised(struct hx_ui *ui, int64_t snapshot, const struct hx_choice *choice);

/* A new snapshot lacks the names that options.name gives it. */
void hx_ui_is_unnamed(struct hx_ui *ui, int64_t snapshot);

/* Whoever names one stops for what comes first, and begins again after it. */
void hx_ui_put_off_names(struct hx_ui *ui);

/* The commands. */
hx_error *hx_ui_analyse(struct hx_ui *ui, const char *word); /* sure, or "" */
hx_error *hx_ui_choose_scheme(struct hx_ui *ui, const char *name);
hx_error *hx_ui_choose_retainer(struct hx_ui *ui, const char *pattern); /* "": none any more */
hx_error *hx_ui_choose_max_set(struct hx_ui *ui, const char *number);
hx_error *hx_ui_choose_threads_as(struct hx_ui *ui, const char *word);
hx_error *hx_ui_choose_holders(struct hx_ui *ui, const char *word); /* on, off */
hx_error *hx_ui_choose_rules(struct hx_ui *ui, const char *names);  /* -NAME, +NAME */
hx_error *hx_ui_choose_root(struct hx_ui *ui, const char *naming);  /* NAME=EXPR */
hx_error *hx_ui_choose_no_root(struct hx_ui *ui, const char *name);

#endif
