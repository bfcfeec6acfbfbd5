/* profile.c - the samples of a profile into a store. What its labels mean is in profile_labels.c.
 */
#include "export/import/profile.h"

#include "base/cleanup.h"
#include "export/import/profile_labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    char option; /* of -h; 0: none */
    enum hx_imported_by by;
} breakdowns[HX_BREAKDOWNS] = {
    [HX_BREAKDOWN_UNKNOWN] = {"what is not said", 0, HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_CENTRE] = {"cost-centre stack", 'c', HX_IMPORTED_CCS},
    [HX_BREAKDOWN_MODULE] = {"module", 'm', HX_IMPORTED_MODULE},
    [HX_BREAKDOWN_CLOSURE] = {"closure description", 'd', HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_TYPE] = {"type description", 'y', HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_RETAINER] = {"retainer set", 'r', HX_IMPORTED_RETAINER},
    [HX_BREAKDOWN_BIOGRAPHY] = {"phase of life", 'b', HX_IMPORTED_BIOGRAPHY},
    [HX_BREAKDOWN_CLOSURE_TYPE] = {"closure type", 'T', HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_INFO_TABLE] = {"info table", 'i', HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_ERA] = {"era", 'e', HX_IMPORTED_TYPE},
    [HX_BREAKDOWN_NEWER] = {"something newer than this heapx", 0, HX_IMPORTED_TYPE},
};

static const char *const losses[HX_LOSSES] = {
    [HX_LOSS_NEWER_EVENTS] = "events of kinds that are not known",
    [HX_LOSS_NEWER_BYTES] = "bytes of events behind what is known of them",
    [HX_LOSS_TICKS] = "samples of the time profile",
    [HX_LOSS_OUTSIDE] = "rows outside of samples",
    [HX_LOSS_UNFINISHED] = "samples without their end",
    [HX_LOSS_SECOND] = "rows of a second break-down of the same kind",
    [HX_LOSS_BEHIND] = "bytes behind the end of the log",
};

const char *hx_breakdown_name(enum hx_breakdown breakdown)
{
    return breakdowns[breakdown].name;
}

void hx_profile_deinit(struct hx_profile *profile)
{
    for (size_t i = 0; i < profile->samples.n; i++)
        hx_text_free(&profile->samples.v[i].notes);
    hx_vec_free(&profile->rows);
    hx_vec_free(&profile->samples);
    hx_vec_free(&profile->kinds);
    hx_vec_free(&profile->centres);
    hx_vec_free(&profile->tables);
    hx_pairs_free(&profile->centre_by_id);
    hx_pairs_free(&profile->table_by_address);
    hx_text_free(&profile->notes);
    free(profile->comm);
    free(profile->exe);
    profile->comm = profile->exe = NULL;
}

void hx_profile_note(struct hx_text *notes, const char *format, ...)
{
    va_list args;
    hx_text_puts(notes, notes->n ? "; " : "");
    va_start(args, format);
    hx_text_vputf(notes, format, args);
    va_end(args);
}

/* --- the program's call --------------------------------------------------------------- */

/* With more behind its letter an option only restricts a break-down. */
enum hx_breakdown hx_breakdown_of_option(const char *word, size_t n)
{
    if (n != 3 || memcmp(word, "-h", 2) != 0)
        return HX_BREAKDOWN_UNKNOWN;
    for (int i = HX_BREAKDOWN_CENTRE; i < HX_BREAKDOWNS; i++)
        if (breakdowns[i].option == word[2])
            return (enum hx_breakdown)i;
    return HX_BREAKDOWN_UNKNOWN;
}

/* -L: how long names may be. */
static size_t name_bytes(const char *word, size_t n)
{
    size_t value = 0;
    if (n < 3 || n > 10 || memcmp(word, "-L", 2) != 0)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if (word[i] < '0' || word[i] > '9')
            return 0;
        value = 10 * value + (size_t)(word[i] - '0');
    }
    return value;
}

void hx_profile_option(struct hx_profile *profile, const char *word, size_t n)
{
    enum hx_breakdown breakdown = hx_breakdown_of_option(word, n);
    size_t bytes = name_bytes(word, n);
    if (breakdown)
        profile->option = breakdown;
    if (bytes && profile->name_bytes != SIZE_MAX)
        profile->name_bytes = bytes;
}

static char *valid_copy(const char *s, size_t n)
{
    struct hx_text text = {0};
    while (n) {
        uint32_t c;
        size_t length = hx_utf8_char(s, n, &c);
        hx_text_putn(&text, length ? s : "\xef\xbf\xbd", length ? length : 3);
        length = length ? length : 1;
        s += length;
        n -= length;
    }
    char *copy = text.failed ? NULL : strdup(hx_text_str(&text));
    hx_text_free(&text);
    return copy;
}

hx_error *hx_profile_program(struct hx_profile *profile, const char *path, size_t n)
{
    if (profile->exe || !n)
        return NULL;
    profile->exe = valid_copy(path, n);
    HX_NEED(profile->exe);
    const char *slash = strrchr(profile->exe, '/');
    profile->comm = strdup(slash && slash[1] ? slash + 1 : profile->exe);
    return profile->comm ? NULL : hx_error_nomem();
}

hx_error *hx_profile_kind(struct hx_profile *profile, uint8_t number, size_t at, uint32_t *ret)
{
    size_t i = 0;
    while (i < profile->kinds.n && profile->kinds.v[i].number != number)
        i++;
    *ret = (uint32_t)i;
    if (i < profile->kinds.n)
        return NULL;
    HX_NEED(hx_vec_push(&profile->kinds, ((struct hx_profile_kind){.number = number, .at = at})));
    return NULL;
}

hx_error *hx_profile_utf8(const struct hx_import *import, size_t at, size_t n)
{
    const char *s = (const char *)import->bytes + at;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = hx_utf8_char(s + i, n - i, &c);
        if (!length || !c)
            return hx_import_error(import, at + i, "a name is not valid UTF-8 without NUL");
        i += length;
    }
    return NULL;
}

/* --- what is what ---------------------------------------------------------------------- */

/* Rows of a kind that the file does not name: by the program's options, else by their looks. */
static void guess(struct hx_profile *profile)
{
    bool any_begun = false, guessed = false;
    for (size_t i = 0; i < profile->kinds.n; i++)
        any_begun |= profile->kinds.v[i].begun;
    for (size_t i = 0; i < profile->kinds.n; i++) {
        struct hx_profile_kind *kind = &profile->kinds.v[i];
        if (kind->breakdown)
            continue;
        kind->breakdown = any_begun ? HX_BREAKDOWN_UNKNOWN : profile->option;
        if (!kind->breakdown) {
            kind->breakdown = hx_profile_looks(profile, (uint32_t)i);
            guessed = true;
        }
    }
    if (guessed)
        hx_profile_note(&profile->notes, "what it is broken down by was told from its rows");
}

/* Of two kinds that would go into one table the later one is left out. */
static void drop_second(struct hx_profile *profile, bool taken[HX_PROFILE_KINDS])
{
    bool used[HX_IMPORTED_BYS] = {false};
    for (size_t i = 0; i < profile->kinds.n; i++) {
        enum hx_imported_by by = breakdowns[profile->kinds.v[i].breakdown].by;
        taken[i] = !used[by];
        used[by] = true;
        if (taken[i])
            hx_profile_note(&profile->notes, "heap profile by %s",
                            hx_breakdown_name(profile->kinds.v[i].breakdown));
    }
    for (size_t i = 0; i < profile->rows.n; i++)
        profile->lost[HX_LOSS_SECOND] += !taken[profile->rows.v[i].profile];
}

/* --- samples --------------------------------------------------------------------------- */

static int compare_profile_times(const void *left, const void *right)
{
    const struct hx_profile_sample *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Those at the beginning and end of a run that are empty only say when it began and ended. */
static void skip_empty(struct hx_profile *profile, size_t *ret_from, size_t *ret_to)
{
    size_t from = 0, to = profile->samples.n;
    while (from < to && !profile->samples.v[from].n)
        from++;
    while (to > from && !profile->samples.v[to - 1].n)
        to--;
    if (from == to) { /* all of them are */
        from = 0;
        to = profile->samples.n;
    }
    size_t skipped = profile->samples.n - (to - from);
    for (size_t i = 0; i < from; i++) { /* what they say is said of others */
        const char *notes = hx_text_str(&profile->samples.v[i].notes);
        if (*notes)
            hx_profile_note(&profile->samples.v[from].notes, "%s", notes);
    }
    for (size_t i = to; i < profile->samples.n; i++) {
        const char *notes = hx_text_str(&profile->samples.v[i].notes);
        if (*notes)
            hx_profile_note(&profile->samples.v[to - 1].notes, "%s", notes);
    }
    if (skipped)
        hx_profile_note(&profile->notes, "%zu empty sample%s at its beginning and end left out",
                        skipped, skipped == 1 ? "" : "s");
    *ret_from = from;
    *ret_to = to;
}

struct storing {
    struct hx_profile *profile;
    hx_imported *imported;
    bool taken[HX_PROFILE_KINDS];
    unsigned told;
    struct hx_imported_row *row; /* of each row of the profile that is taken */
    size_t *place;               /* of each sample: where its rows are; one more at the end */
};

/* All rows get their numbers, and with that are tested, before anything is written. */
static hx_error *number_rows(struct storing *storing, size_t from, size_t to)
{
    struct hx_profile *profile = storing->profile;
    HX_CLEANUP(hx_labels_deinit) struct hx_labels labels = {0};
    size_t n = 0;
    HX_TRY(hx_labels_init(profile, storing->imported, &labels));
    for (size_t i = from; i < to; i++) {
        const struct hx_profile_sample *sample = &profile->samples.v[i];
        uint64_t total[HX_IMPORTED_BYS] = {0};
        storing->place[i] = n;
        if (hx_progress_cancelled(profile->import->progress))
            return hx_error_cancelled(profile->import->path);
        for (size_t k = sample->first; k < sample->first + sample->n; k++) {
            const struct hx_profile_row *row = &profile->rows.v[k];
            enum hx_breakdown breakdown = profile->kinds.v[row->profile].breakdown;
            struct hx_imported_row *to_row = &storing->row[n];
            if (!storing->taken[row->profile])
                continue;
            *to_row = (struct hx_imported_row){breakdowns[breakdown].by, 0, row->bytes};
            HX_TRY(hx_labels_number(&labels, breakdown, row, &to_row->number));
            if (row->bytes > INT64_MAX || total[to_row->by] > INT64_MAX - row->bytes)
                return hx_import_error(profile->import, row->text.at,
                                       "the bytes of a sample add up to more than 2^63");
            total[to_row->by] += row->bytes;
            n++;
        }
    }
    storing->place[to] = n;
    hx_labels_note(&labels);
    return NULL;
}

static size_t list_losses(const struct hx_profile *profile, struct hx_imported_loss *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < HX_LOSSES; i++)
        if (profile->lost[i])
            ret[n++] = (struct hx_imported_loss){losses[i], profile->lost[i]};
    return n;
}

/* What is missing is missing behind the last sample. */
static void put_profile_notes(const struct hx_profile *profile,
                              const struct hx_profile_sample *sample, bool last,
                              struct hx_text *ret)
{
    const char *own = hx_text_str(&sample->notes);
    hx_text_puts(ret, hx_text_str(&profile->notes));
    if (*own)
        hx_profile_note(ret, "%s", own);
    if (last && profile->cut)
        hx_profile_note(ret,
                        "the file ends too early, at byte %zu (0x%zx): what came behind this"
                        " sample is missing",
                        profile->cut_at, profile->cut_at);
}

static hx_error *add_sample(const struct storing *storing, size_t i, bool last)
{
    const struct hx_profile *profile = storing->profile;
    const struct hx_profile_sample *sample = &profile->samples.v[i];
    struct hx_imported_loss loss[HX_LOSSES];
    struct hx_text notes = {0};
    int64_t number;
    put_profile_notes(profile, sample, last, &notes);
    struct hx_imported_snapshot snapshot = {
        .taken_at_ns = profile->began_ns + (int64_t)sample->time_ns,
        .started_at_ns = profile->began_ns,
        .pid = profile->pid,
        .comm = profile->comm,
        .exe = profile->exe,
        .complete = !(last && profile->cut),
        .notes = notes.n ? hx_text_str(&notes) : NULL,
        .told = storing->told,
        .row = storing->row + storing->place[i],
        .n = storing->place[i + 1] - storing->place[i],
        .loss = loss,
        .losses = last ? list_losses(profile, loss) : 0,
    };
    hx_error *err = notes.failed || sample->notes.failed || profile->notes.failed
                        ? hx_error_nomem()
                        : hx_imported_add(storing->imported, &snapshot, &number);
    hx_text_free(&notes);
    return err;
}

static hx_error *check_times(struct hx_profile *profile)
{
    if (!profile->has_clock) {
        profile->began_ns = 1; /* what began at 0 is not known */
        hx_profile_note(&profile->notes,
                        "the file does not say when the program ran: times count from 1970 on");
    }
    for (size_t i = 0; i < profile->samples.n; i++) {
        const struct hx_profile_sample *sample = &profile->samples.v[i];
        int64_t sum;
        if (sample->time_ns > INT64_MAX ||
            __builtin_add_overflow(profile->began_ns, (int64_t)sample->time_ns, &sum))
            return hx_import_error(profile->import, sample->at,
                                   "a sample is of a time that is none (%" PRIu64 " ns)",
                                   sample->time_ns);
    }
    return NULL;
}

static hx_error *store_samples(struct storing *storing, size_t from, size_t to)
{
    const struct hx_import *import = storing->profile->import;
    HX_TRY(number_rows(storing, from, to));
    for (size_t i = from; i < to; i++) {
        hx_progress_at(import->progress, "importing", i - from, to - from);
        HX_TRY(add_sample(storing, i, i + 1 == to));
    }
    return NULL;
}

hx_error *hx_profile_store(struct hx_profile *profile)
{
    size_t from, to;
    struct storing storing = {.profile = profile};
    HX_TRY(check_times(profile));
    guess(profile);
    drop_second(profile, storing.taken);
    for (size_t i = 0; i < profile->kinds.n; i++)
        if (storing.taken[i])
            storing.told |= 1u << breakdowns[profile->kinds.v[i].breakdown].by;
    qsort(profile->samples.v, profile->samples.n, sizeof *profile->samples.v,
          compare_profile_times);
    skip_empty(profile, &from, &to);
    if (profile->lost[HX_LOSS_TICKS])
        hx_profile_note(&profile->notes, "%" PRIu64 " samples of the time profile left out",
                        profile->lost[HX_LOSS_TICKS]);
    HX_FREE struct hx_imported_row *row = calloc(profile->rows.n + 1, sizeof *row);
    HX_FREE size_t *place = calloc(profile->samples.n + 1, sizeof *place);
    HX_IMPORTED hx_imported *imported = NULL;
    HX_NEED(row && place);
    storing.row = row;
    storing.place = place;
    HX_TRY(hx_imported_create(profile->import->store, profile->import->progress, &imported));
    storing.imported = imported;
    HX_TRY(store_samples(&storing, from, to));
    profile->import->partial = profile->cut;
    return NULL;
}
