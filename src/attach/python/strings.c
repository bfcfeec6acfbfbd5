/* strings.c - text of Python's str objects and of C. */
#include "attach/python/classes.h"

#define PIECE 64 /* characters that are read at once */

bool hx_py_put_text(const struct hx_py_classes *classes, uint64_t addr, struct hx_text *text)
{
    char bytes[16];
    for (size_t n = 0; n < HX_PY_NAME_MAX; n += sizeof bytes) {
        size_t got = sizeof bytes; /* the text may end where memory does */
        while (got && !hx_peek_read(classes->peek, addr + n, bytes, got))
            got /= 2;
        for (size_t i = 0; i < got; i++) {
            if (!bytes[i])
                return n + i > 0;
            if ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f)
                return false;
            hx_text_putn(text, &bytes[i], 1);
        }
        if (got < sizeof bytes)
            return false;
    }
    return true;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* As UTF-8; what that has no form for, and null, as Python writes it. */
static void put_char(uint32_t c, struct hx_text *text)
{
    enum { LEAD_2 = 0xc0, LEAD_3 = 0xe0, LEAD_4 = 0xf0, NEXT = 0x80 };
    if (!c || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) {
        hx_text_putf(text, !c ? "\\x00" : c > 0xffff ? "\\U%08x" : "\\u%04x", c);
        return;
    }
    if (c >= 0x10000)
        hx_text_putc(text, (char)(LEAD_4 | c >> 18));
    else if (c >= 0x800)
        hx_text_putc(text, (char)(LEAD_3 | c >> 12));
    else if (c >= 0x80)
        hx_text_putc(text, (char)(LEAD_2 | c >> 6));
    else
        hx_text_putc(text, (char)c);
    for (int shift = c >= 0x10000 ? 12
                     : c >= 0x800 ? 6
                     : c >= 0x80  ? 0
                                  : -1;
         shift >= 0; shift -= 6)
        hx_text_putc(text, (char)(NEXT | (c >> shift & 0x3f)));
}

/* The characters of a str that has them behind its head. */
struct characters {
    uint64_t addr, n;
    uint32_t bytes; /* of each */
};

static bool find_characters(const struct hx_py_classes *classes, uint64_t str,
                            struct characters *ret)
{
    uint32_t state;
    if (!hx_image_u64(classes->image, str + HX_PY_SIZE, &ret->n) ||
        !hx_image_u32(classes->image, str + HX_PY_STR_STATE, &state) ||
        !(state & HX_PY_STR_COMPACT))
        return false;
    const bool ascii = state & HX_PY_STR_ASCII;
    ret->bytes = ascii ? 1 : state >> 2 & 7;
    ret->addr = str + (ascii ? classes->layout->ascii : classes->layout->compact);
    return ret->bytes == 1 || ret->bytes == 2 || ret->bytes == 4;
}

/* Characters [0, n). False: they cannot be read, or `plain` and one is for control. */
static bool put_characters(const struct hx_py_classes *classes, const struct characters *of,
                           uint64_t n, bool plain, struct hx_text *text)
{
    uint8_t piece[4 * PIECE];
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *at = &piece[i % PIECE * of->bytes];
        const uint64_t rest = n - i < PIECE ? n - i : PIECE;
        if (i % PIECE == 0 &&
            !hx_peek_read(classes->peek, of->addr + i * of->bytes, piece, rest * of->bytes))
            return false;
        const uint32_t c = of->bytes == 1   ? at[0]
                           : of->bytes == 2 ? (uint32_t)at[0] | (uint32_t)at[1] << 8
                                            : hx_load_u32(at);
        if (plain && is_control(c))
            return false;
        put_char(c, text);
    }
    return true;
}

bool hx_py_put_str(const struct hx_py_classes *classes, uint64_t str, struct hx_text *text)
{
    struct characters of;
    return find_characters(classes, str, &of) && of.n && of.n <= HX_PY_NAME_MAX &&
           put_characters(classes, &of, of.n, true, text);
}

bool hx_py_put_any_str(const struct hx_py_classes *classes, uint64_t str, uint64_t max,
                       struct hx_text *text)
{
    struct characters of;
    if (!find_characters(classes, str, &of) ||
        !put_characters(classes, &of, of.n < max ? of.n : max, false, text))
        return false;
    if (of.n > max)
        hx_text_puts(text, "...");
    return true;
}
