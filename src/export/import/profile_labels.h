/* profile_labels.h - what the labels of a profile's rows stand for: sets of retainers, stacks of
 * cost centres, phases of life, names. */
#ifndef HX_EXPORT_IMPORT_PROFILE_LABELS_H
#define HX_EXPORT_IMPORT_PROFILE_LABELS_H

#include "export/import/profile.h"

/* By the looks of the rows of one kind. */
enum hx_breakdown hx_profile_looks(const struct hx_profile *profile, uint32_t kind);

struct hx_labels {
    struct hx_profile *profile;
    hx_imported *imported;
    size_t limit;    /* sets whose text has so many bytes may have been cut; SIZE_MAX: none was */
    bool cut;        /* there was one of that size, */
    bool shortened;  /* a stack whose outer end is missing, */
    bool unresolved; /* an info table that the file does not explain */
    uint32_t *table; /* the name of each of the profile's info tables; HX_NO_PAIR: not yet made */
    struct hx_pairs table_by_name;  /* of names that are made: whose */
    struct hx_pairs centre_by_name; /* of centres that are known by their names alone */
    HX_VEC(const char *) member;    /* of the label in hand */
    HX_VEC(size_t) bytes;
};

/* Gives the profile's cost centres their numbers. */
hx_error *hx_labels_init(struct hx_profile *profile, hx_imported *imported, struct hx_labels *ret);
void hx_labels_deinit(struct hx_labels *labels);

/* The number of what a row is of (struct hx_imported_row). An error tells where it lies. */
hx_error *hx_labels_number(struct hx_labels *labels, enum hx_breakdown breakdown,
                           const struct hx_profile_row *row, uint32_t *ret);

/* What is to be said of them, into the profile's notes. */
void hx_labels_note(const struct hx_labels *labels);

#endif
