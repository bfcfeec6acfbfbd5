/* bands_names.c - names that the readers of GHC's formats take, and that stay apart. */
#include "export/ghc/bands.h"

#include "base/cleanup.h"
#include "base/index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CUT_MARK "..."

/* --- clean texts ------------------------------------------------------------------------- */

static bool is_blank(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

void hx_band_clean(struct hx_text *text, enum hx_band_form form, const char *s, size_t n)
{
    while (n) {
        uint32_t c;
        size_t length = hx_utf8_char(s, n, &c);
        if (!length)
            hx_text_putf(text, "\\x%02x", (unsigned)(unsigned char)*s);
        else if (form == HX_BAND_WORD && is_blank(c))
            hx_text_putc(text, '_');
        else if (hx_unsafe_char(c))
            hx_text_putf(text, c < 0x80 ? "\\x%02x" : "\\u{%x}", c);
        else
            hx_text_putn(text, s, length);
        length = length ? length : 1;
        s += length;
        n -= length;
    }
}

bool hx_band_cut(struct hx_text *text, size_t limit)
{
    if (text->n <= limit)
        return false;
    size_t n = limit - strlen(CUT_MARK);
    while (n && ((unsigned char)text->s[n] & 0xc0) == 0x80)
        n--;
    memcpy(text->s + n, CUT_MARK, sizeof CUT_MARK);
    text->n = n + strlen(CUT_MARK);
    return true;
}

/* --- names of texts ---------------------------------------------------------------- */

/* A name on its way: which is not what the store calls it gives way to one that is. */
struct naming {
    struct hx_bands *bands;
    struct hx_index index; /* of names, by their text */
};

/* Takes the name in bands->text for a key, unless another one has it. */
static hx_error *claim_band_name(struct naming *naming, size_t index, bool *ret_taken)
{
    struct hx_bands *bands = naming->bands;
    const char *name = hx_text_str(&bands->text);
    uint64_t hash = hx_hash_bytes(name, bands->text.n);
    *ret_taken = false;
    for (uint32_t at = 0, i; hx_index_next(&naming->index, hash, &at, &i);) {
        *ret_taken = strcmp(bands->texts.v + bands->names.v[i].name, name) == 0;
        if (*ret_taken)
            return NULL;
    }
    HX_NEED(hx_vec_reserve(&bands->texts, bands->texts.n + bands->text.n + 1));
    memcpy(bands->texts.v + bands->texts.n, name, bands->text.n + 1);
    bands->names.v[index].name = bands->texts.n;
    bands->texts.n += bands->text.n + 1;
    return hx_index_add(&naming->index, hash, (uint32_t)index);
}

/* A phase of life has GHC's word. */
static const char *phase_of(const char *key)
{
    static const char *const phases[][2] = {
        {"lag", "LAG"},
        {"use", "USE"},
        {"drag", "DRAG"},
        {"void", "VOID"},
        {"inherent", "INHERENT_USE"},
    };
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        if (strcmp(phases[i][0], key) == 0)
            return phases[i][1];
    return key;
}

static bool is_keyword(const char *s)
{
    static const char *const words[] = {"JOB",  "DATE",         "SAMPLE_UNIT", "VALUE_UNIT",
                                        "MARK", "BEGIN_SAMPLE", "END_SAMPLE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], s) == 0)
            return true;
    return false;
}

/* The clean name of a key, into bands->text; *ret_same: it is the key itself. */
static void name_key(struct hx_bands *bands, const char *key, size_t n, bool *ret_same, bool *cut)
{
    struct hx_text *text = &bands->text;
    hx_text_clear(text);
    if (bands->census->ghc_number == HX_GHC_BIOGRAPHY) {
        key = phase_of(key);
        n = strlen(key);
    }
    hx_band_clean(text, bands->form, key, n);
    if (!text->n)
        hx_text_puts(text, "(empty)");
    if (bands->form == HX_BAND_WORD &&
        (strchr("\"0123456789", text->s[0]) || is_keyword(text->s))) {
        hx_text_clear(&bands->scratch);
        hx_text_putf(&bands->scratch, "_%s", hx_text_str(text));
        hx_text_clear(text);
        hx_text_puts(text, hx_text_str(&bands->scratch));
    }
    *cut = !text->failed && hx_band_cut(text, bands->limit);
    *ret_same = text->n == n && !text->failed && memcmp(text->s, key, n) == 0;
}

/* Numbers the clean name until nobody else has it. */
static hx_error *name_other(struct naming *naming, size_t index)
{
    struct hx_bands *bands = naming->bands;
    struct hx_text *text = &bands->text;
    HX_FREE char *base = strdup(hx_text_str(text));
    HX_NEED(base);
    bool taken = true;
    for (uint64_t number = 2; taken; number++) {
        HX_TRY(claim_band_name(naming, index, &taken));
        if (!taken)
            break;
        char tail[24];
        int digits = snprintf(tail, sizeof tail, "#%" PRIu64, number);
        hx_text_clear(text);
        hx_text_puts(text, base);
        if (!text->failed)
            hx_band_cut(text, bands->limit - (size_t)digits);
        hx_text_puts(text, tail);
        HX_NEED(!text->failed);
    }
    return NULL;
}

/* Those that are what the store calls them first, the others then. */
static hx_error *name_bands(struct naming *naming, bool same)
{
    struct hx_bands *bands = naming->bands;
    for (size_t i = 0; i < bands->names.n; i++) {
        struct hx_band_name *name = &bands->names.v[i];
        bool is_same, cut, taken;
        name_key(bands, bands->texts.v + name->key, name->key_bytes, &is_same, &cut);
        HX_NEED(!bands->text.failed && !bands->scratch.failed);
        if (is_same != same)
            continue;
        bands->cut += cut;
        HX_TRY(same ? claim_band_name(naming, i, &taken) : name_other(naming, i));
    }
    return NULL;
}

hx_error *hx_bands_name_keys(struct hx_bands *bands)
{
    struct naming naming = {.bands = bands};
    hx_error *err = name_bands(&naming, true);
    if (!err)
        err = name_bands(&naming, false);
    hx_index_free(&naming.index);
    return err;
}
