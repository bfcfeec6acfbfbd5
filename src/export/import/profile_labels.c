/* profile_labels.c - the labels of a profile's rows, read. */
#include "export/import/profile_labels.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 25               /* of a retainer set's text, unless -L says otherwise */
#define NO_TABLE   (HX_NO_PAIR - 1) /* the file says nothing of this address */
#define MOST_DEPTH 255              /* of a stack: what is deeper has lost its outer end */

static const char *row_label(const struct hx_profile *profile, const struct hx_profile_row *row)
{
    return (const char *)profile->import->bytes + row->text.at;
}

static bool is_text(const char *s, size_t n, const char *what)
{
    return n == strlen(what) && memcmp(s, what, n) == 0;
}

/* "(71)" at the beginning: how many bytes that is. */
static size_t id_bytes(const char *s, size_t n)
{
    size_t i = 1;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return n && s[0] == '(' && i > 1 && i < n && s[i] == ')' ? i + 1 : 0;
}

/* --- looks ---------------------------------------------------------------------------- */

static const struct {
    const char *label;
    enum hx_imported_phase phase;
} phases[] = {
    {"VOID", HX_IMPORTED_VOID}, {"LAG", HX_IMPORTED_LAG},
    {"USE", HX_IMPORTED_USE},   {"INHERENT_USE", HX_IMPORTED_INHERENT},
    {"DRAG", HX_IMPORTED_DRAG},
};

static bool find_phase(const char *s, size_t n, uint32_t *ret)
{
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        if (is_text(s, n, phases[i].label)) {
            *ret = phases[i].phase;
            return true;
        }
    return false;
}

static bool read_address(const char *s, size_t n, uint64_t *ret)
{
    uint64_t value = 0;
    if (n < 3 || n > 18 || s[0] != '0' || s[1] != 'x')
        return false;
    for (size_t i = 2; i < n; i++) {
        int c = tolower((unsigned char)s[i]);
        if (!isxdigit(c))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret = value;
    return true;
}

/* "Data.Map.Internal": words with a large first letter, and points between them. */
static bool is_module(const char *s, size_t n, bool *ret_dotted)
{
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (first ? !isupper(c) : !isalnum(c) && c != '_' && c != '\'' && c != '.')
            return false;
        first = c == '.';
        *ret_dotted |= first;
    }
    return !first;
}

enum hx_breakdown hx_profile_looks(const struct hx_profile *profile, uint32_t kind)
{
    size_t n = 0, life = 0, addresses = 0, numbered = 0, paths = 0, lists = 0;
    size_t modules = 0;
    bool many = false, main = false, dotted = false;
    for (size_t i = 0; i < profile->rows.n; i++) {
        const struct hx_profile_row *row = &profile->rows.v[i];
        const char *s = row_label(profile, row);
        uint32_t phase;
        uint64_t address;
        if (row->profile != kind)
            continue;
        if (row->is_stack)
            return HX_BREAKDOWN_CENTRE;
        n++;
        life += find_phase(s, row->text.n, &phase);
        addresses += read_address(s, row->text.n, &address);
        modules += is_module(s, row->text.n, &dotted);
        many |= is_text(s, row->text.n, "MANY");
        main |= is_text(s, row->text.n, "MAIN");
        if (!id_bytes(s, row->text.n))
            continue;
        numbered++;
        paths += memchr(s, '/', row->text.n) != NULL;
        lists += memchr(s, ',', row->text.n) != NULL;
    }
    if (n && life == n)
        return HX_BREAKDOWN_BIOGRAPHY;
    if (n && addresses == n)
        return HX_BREAKDOWN_INFO_TABLE;
    if (n && modules == n && dotted)
        return HX_BREAKDOWN_MODULE;
    if (!numbered || numbered + many + main < n / 2)
        return many && numbered ? HX_BREAKDOWN_RETAINER : HX_BREAKDOWN_CLOSURE;
    return many || lists > paths ? HX_BREAKDOWN_RETAINER : HX_BREAKDOWN_CENTRE;
}

/* --- stacks ---------------------------------------------------------------------------- */

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool is_main(const struct hx_profile_centre *centre)
{
    return strcmp(centre->label, "MAIN") == 0 && strcmp(centre->module, "MAIN") == 0;
}

static hx_error *number_stack(struct hx_labels *labels, const struct hx_profile_row *row,
                              uint32_t *ret)
{
    struct hx_profile *profile = labels->profile;
    size_t depth = row->text.n;
    uint32_t stack = depth == MOST_DEPTH ? HX_IMPORTED_CUT : HX_IMPORTED_MAIN;
    labels->shortened |= depth == MOST_DEPTH;
    for (size_t i = depth; i-- > 0;) {
        size_t at = row->text.at + 4 * i;
        uint32_t id = big_endian(profile->import->bytes + at), *index;
        HX_TRY(hx_pairs_at(&profile->centre_by_id, id, &index));
        if (*index == HX_NO_PAIR)
            return hx_import_error(profile->import, at, "cost centre %" PRIu32 " is not defined",
                                   id);
        const struct hx_profile_centre *centre = &profile->centres.v[*index];
        if (stack != HX_IMPORTED_MAIN || !is_main(centre)) /* which is below every stack */
            HX_TRY(hx_imported_push(labels->imported, stack, centre->number, &stack));
    }
    *ret = stack;
    return NULL;
}

/* A centre that is known by its name alone: "label", or "Module.CAF". */
static hx_error *named_centre(struct hx_labels *labels, const char *s, size_t n, uint32_t *ret)
{
    static const char caf[] = ".CAF";
    size_t tail = sizeof caf - 1;
    uint32_t name = 0, *number;
    HX_TRY(hx_imported_name(labels->imported, s, n, &name));
    HX_TRY(hx_pairs_at(&labels->centre_by_name, name, &number));
    if (*number == HX_NO_PAIR) {
        bool is_caf = n > tail && memcmp(s + n - tail, caf, tail) == 0;
        size_t bytes = is_caf ? n - tail : n;
        HX_FREE char *text = malloc(bytes + 1); /* of a file: it has no end of its own */
        HX_NEED(text);
        memcpy(text, s, bytes);
        text[bytes] = 0;
        struct hx_imported_centre centre = {
            .label = is_caf ? "CAF" : text,
            .module = is_caf ? text : "(unknown)",
            .is_caf = is_caf,
        };
        HX_TRY(hx_imported_centre(labels->imported, &centre, number));
    }
    *ret = *number;
    return NULL;
}

/* The names of a path, innermost first. An operator may begin with a slash: a name is never empty.
 */
static bool split_path(struct hx_labels *labels, const char *s, size_t n)
{
    labels->member.n = labels->bytes.n = 0;
    for (size_t begin = 0, end; begin < n; begin = end + 1) {
        for (end = begin + 1; end < n && s[end] != '/'; end++)
            ;
        if (!hx_vec_push(&labels->member, s + begin) || !hx_vec_push(&labels->bytes, end - begin))
            return false;
    }
    return true;
}

/* "(12)inner/outer", "MAIN"; of a cut one the last name is a part of one, and others are missing.
 */
static hx_error *number_path(struct hx_labels *labels, const struct hx_profile_row *row,
                             uint32_t *ret)
{
    const char *s = row_label(labels->profile, row);
    size_t skip = id_bytes(s, row->text.n), n = row->text.n - skip;
    s += skip;
    *ret = HX_IMPORTED_MAIN;
    if (is_text(s, row->text.n, "MAIN"))
        return NULL;
    if (n > 3 && memcmp(s + n - 3, "...", 3) == 0) {
        *ret = HX_IMPORTED_CUT;
        labels->shortened = true;
    }
    HX_NEED(split_path(labels, s, n));
    for (size_t i = labels->member.n; i-- > 0;) {
        uint32_t centre = HX_IMPORTED_MAIN;
        HX_TRY(named_centre(labels, labels->member.v[i], labels->bytes.v[i], &centre));
        HX_TRY(hx_imported_push(labels->imported, *ret, centre, ret));
    }
    return NULL;
}

/* --- retainer sets --------------------------------------------------------------------- */

static bool is_label_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

#define MOST_NESTED 32

/* The brackets that are open. */
struct nesting {
    char close[MOST_NESTED]; /* what closes each of them */
    size_t depth;
};

/* Takes one character of a name. False: brackets do not match. A `<` opens behind a word only, and
 * what is no `>` of such a one is an operator. */
static bool nest(struct nesting *nesting, char before, char c)
{
    static const char open[] = "([{<", close[] = ")]}>";
    const char *opens = c ? strchr(open, c) : NULL;
    if (opens && (c != '<' || is_label_char(before))) {
        if (nesting->depth == MOST_NESTED)
            return false;
        nesting->close[nesting->depth++] = close[opens - open];
        return true;
    }
    if (!c || !strchr(close, c))
        return true;
    bool matches = nesting->depth && nesting->close[nesting->depth - 1] == c;
    nesting->depth -= matches;
    return matches || c == '>';
}

/* Splits at commas; with `nested` not at those within brackets. False: these do not match. */
static bool split(struct hx_labels *labels, const char *s, size_t n, bool nested, bool *ret_nomem)
{
    struct nesting nesting = {.depth = 0};
    size_t begin = 0;
    labels->member.n = labels->bytes.n = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && nested && !nest(&nesting, i > begin ? s[i - 1] : ' ', s[i]))
            return false;
        if (i < n && (s[i] != ',' || nesting.depth))
            continue;
        if (!hx_vec_push(&labels->member, s + begin) || !hx_vec_push(&labels->bytes, i - begin)) {
            *ret_nomem = true;
            return true;
        }
        begin = i + 1;
    }
    return nesting.depth == 0;
}

/* "(71)a,b,c", "MANY". Numbers of sets are those of one census: a set is known by its members. */
static hx_error *number_set(struct hx_labels *labels, const struct hx_profile_row *row,
                            uint32_t *ret)
{
    const char *s = row_label(labels->profile, row);
    size_t skip = id_bytes(s, row->text.n), n = row->text.n - skip;
    bool nomem = false;
    s += skip;
    *ret = HX_IMPORTED_MANY;
    if (is_text(s, n, "MANY") && !skip)
        return NULL;
    *ret = HX_IMPORTED_UNREACHABLE;
    if (is_text(s, n, "(unreachable)"))
        return NULL;
    if (row->text.n >= labels->limit) { /* where its last name ends is not known */
        labels->cut = true;
        return hx_imported_set(labels->imported, &s, &n, 1, ret);
    }
    if (!split(labels, s, n, true, &nomem))
        split(labels, s, n, false, &nomem);
    HX_NEED(!nomem);
    return hx_imported_set(labels->imported, labels->member.v, labels->bytes.v, labels->member.n,
                           ret);
}

/* --- info tables ----------------------------------------------------------------------- */

/* "Module.label :: type (file:span)", as far as it is told. */
static void put_info_label(const struct hx_profile_table *table, struct hx_text *text)
{
    const char *name = *table->label ? table->label : table->name;
    if (*table->module)
        hx_text_putf(text, "%s.", table->module);
    hx_text_puts(text, name);
    if (*table->type)
        hx_text_putf(text, " :: %s", table->type);
    if (*table->source && strcmp(table->source, ":") != 0)
        hx_text_putf(text, " (%s)", table->source);
}

/* Tables that would be called the same are told apart by their addresses. */
static hx_error *name_table(struct hx_labels *labels, uint32_t index, struct hx_text *text,
                            uint32_t *ret)
{
    const struct hx_profile_table *table = &labels->profile->tables.v[index];
    uint32_t *whose;
    put_info_label(table, text);
    HX_TRY(text->failed ? hx_error_nomem()
                        : hx_imported_name(labels->imported, hx_text_str(text), text->n, ret));
    HX_TRY(hx_pairs_at(&labels->table_by_name, *ret, &whose));
    if (*whose == HX_NO_PAIR)
        *whose = index;
    if (*whose == index)
        return NULL;
    hx_text_putf(text, " at 0x%" PRIx64, table->address);
    return text->failed ? hx_error_nomem()
                        : hx_imported_name(labels->imported, hx_text_str(text), text->n, ret);
}

static hx_error *number_table(struct hx_labels *labels, const struct hx_profile_row *row,
                              uint32_t *ret)
{
    const char *s = row_label(labels->profile, row);
    uint64_t address = 0;
    uint32_t *index;
    if (!read_address(s, row->text.n, &address))
        return hx_imported_name(labels->imported, s, row->text.n, ret);
    HX_TRY(hx_pairs_at(&labels->profile->table_by_address, address, &index));
    if (*index == HX_NO_PAIR || *index == NO_TABLE) {
        *index = NO_TABLE;
        labels->unresolved = true;
        return hx_imported_name(labels->imported, s, row->text.n, ret);
    }
    uint32_t *known = &labels->table[*index];
    if (*known == HX_NO_PAIR) {
        struct hx_text text = {0};
        hx_error *err = name_table(labels, *index, &text, known);
        hx_text_free(&text);
        HX_TRY(err);
    }
    *ret = *known;
    return NULL;
}

/* --- all of them ------------------------------------------------------------------------ */

static hx_error *number_era(struct hx_labels *labels, const struct hx_profile_row *row,
                            uint32_t *ret)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "era ");
    hx_text_putn(&text, row_label(labels->profile, row), row->text.n);
    hx_error *err = text.failed
                        ? hx_error_nomem()
                        : hx_imported_name(labels->imported, hx_text_str(&text), text.n, ret);
    hx_text_free(&text);
    return err;
}

hx_error *hx_labels_number(struct hx_labels *labels, enum hx_breakdown breakdown,
                           const struct hx_profile_row *row, uint32_t *ret)
{
    const struct hx_profile *profile = labels->profile;
    if (row->is_stack && breakdown != HX_BREAKDOWN_CENTRE)
        return hx_import_error(profile->import, row->text.at,
                               "a stack of cost centres in a profile by %s",
                               hx_breakdown_name(breakdown));
    switch (breakdown) {
    case HX_BREAKDOWN_CENTRE:
        return row->is_stack ? number_stack(labels, row, ret) : number_path(labels, row, ret);
    case HX_BREAKDOWN_RETAINER:
        return number_set(labels, row, ret);
    case HX_BREAKDOWN_BIOGRAPHY:
        if (find_phase(row_label(profile, row), row->text.n, ret))
            return NULL;
        return hx_import_error(profile->import, row->text.at,
                               "a phase of life that there is none of");
    case HX_BREAKDOWN_INFO_TABLE:
        return number_table(labels, row, ret);
    case HX_BREAKDOWN_ERA:
        return number_era(labels, row, ret);
    default:
        return hx_imported_name(labels->imported, row_label(profile, row), row->text.n, ret);
    }
}

/* Where a longer one is there, none was cut at that size. */
static size_t find_limit(const struct hx_profile *profile)
{
    size_t limit = profile->name_bytes ? profile->name_bytes : NAME_BYTES;
    for (size_t i = 0; i < profile->rows.n; i++) {
        const struct hx_profile_row *row = &profile->rows.v[i];
        if (profile->kinds.v[row->profile].breakdown == HX_BREAKDOWN_RETAINER &&
            row->text.n > limit)
            return SIZE_MAX;
    }
    return limit;
}

hx_error *hx_labels_init(struct hx_profile *profile, hx_imported *imported, struct hx_labels *ret)
{
    *ret = (struct hx_labels){.profile = profile, .imported = imported};
    ret->limit = find_limit(profile);
    ret->table = malloc((profile->tables.n + 1) * sizeof *ret->table);
    HX_NEED(ret->table);
    memset(ret->table, 0xff, (profile->tables.n + 1) * sizeof *ret->table);
    for (size_t i = 0; i < profile->centres.n; i++) {
        struct hx_profile_centre *centre = &profile->centres.v[i];
        struct hx_imported_centre told = {
            .label = centre->label,
            .module = centre->module,
            .source = *centre->source ? centre->source : NULL,
            .is_caf = centre->is_caf,
        };
        HX_TRY(hx_imported_centre(imported, &told, &centre->number));
    }
    return NULL;
}

void hx_labels_deinit(struct hx_labels *labels)
{
    free(labels->table);
    labels->table = NULL;
    hx_pairs_free(&labels->table_by_name);
    hx_pairs_free(&labels->centre_by_name);
    hx_vec_free(&labels->member);
    hx_vec_free(&labels->bytes);
}

void hx_labels_note(const struct hx_labels *labels)
{
    struct hx_text *notes = &labels->profile->notes;
    if (labels->cut)
        hx_profile_note(notes,
                        "names of retainer sets are cut at %zu bytes: such a set is one name, and"
                        " those cut to the same are one set",
                        labels->limit);
    if (labels->shortened)
        hx_profile_note(notes, "stacks that were cut begin with <cut>");
    if (labels->unresolved)
        hx_profile_note(notes, "some info tables are known by their addresses alone");
}
