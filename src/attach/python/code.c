/* code.c - code objects of Python: which function of which file, which line, which variables. */
#include "attach/python/code.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define UNIT           2    /* bytes of code */
#define CHARACTERS_MAX 1000 /* characters */
#define BYTES_MAX      ((uint64_t)1 << 30)

/* Bytes objects and tuples: what they hold follows. */
enum { BYTES_DATA = 32, TUPLE_ITEMS = 24 };

/* --- lines ------------------------------------------------------------------------------ */

/* Numbers are written in sixes of bits, the lowest first; all but the last have this bit. */
static uint64_t read_number(const uint8_t *table, size_t n, size_t *at)
{
    enum { MORE = 0x40, BITS = 6, SHIFT_MAX = 30 };
    uint64_t value = 0;
    for (unsigned shift = 0; *at < n && shift <= SHIFT_MAX; shift += BITS) {
        const uint8_t byte = table[(*at)++];
        value |= (uint64_t)(byte & (MORE - 1)) << shift;
        if (!(byte & MORE))
            break;
    }
    return value;
}

/* Entries begin with a byte that has the highest bit set, which no other one has:
 *
 *   1 kkkk nnn    nnn + 1 units of code, and how their line is told by kind k:
 *                 10 to 12 it is k - 10 more than that before, 13 and 14 a number follows (its
 * lowest bit is the sign), 15 there is none; else it is the same; columns may follow
 */
uint32_t hx_py_line_of(const uint8_t *table, size_t n, uint32_t first_line, uint64_t unit)
{
    enum { FIRST = 0x80, SHORT_LAST = 9, ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    int64_t line = first_line;
    uint64_t before = 0;
    for (size_t at = 0; at < n;) {
        const uint8_t head = table[at++], kind = head >> 3 & 15;
        if (!(head & FIRST))
            continue;
        if (kind == NO_COLUMNS || kind == LONG) {
            const uint64_t delta = read_number(table, n, &at);
            line += delta & 1 ? -(int64_t)(delta >> 1) : (int64_t)(delta >> 1);
        } else if (kind > SHORT_LAST && kind < NO_COLUMNS) {
            line += kind - ONE_LINE;
        }
        before += (head & 7) + 1u;
        if (unit < before)
            return kind == NONE || line <= 0 || line > INT32_MAX ? 0 : (uint32_t)line;
    }
    return 0;
}

hx_error *hx_py_code_line(struct hx_py_codes *codes, uint32_t number, uint64_t instruction,
                          uint32_t *ret)
{
    const struct hx_py_code *code = &codes->code.v[number];
    const uint64_t n = code->n_lines < HX_PY_TABLE_MAX ? code->n_lines : HX_PY_TABLE_MAX;
    *ret = 0;
    if (instruction + UNIT == code->start) { /* it has not begun */
        *ret = code->first_line;
        return NULL;
    }
    if (!codes->table)
        HX_NEED(codes->table = malloc(HX_PY_TABLE_MAX));
    if (instruction < code->start || instruction - code->start >= code->bytes ||
        codes->looked_at >= HX_PY_TABLES_MAX ||
        !hx_peek_read(codes->classes->peek, code->lines, codes->table, n))
        return NULL;
    codes->looked_at += n;
    *ret = hx_py_line_of(codes->table, n, code->first_line, (instruction - code->start) / UNIT);
    return NULL;
}

/* --- objects ---------------------------------------------------------------------------- */

static hx_error *read_name(const struct hx_py_codes *codes, uint64_t at, char **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    uint64_t str, type;
    if (!hx_image_u64(codes->classes->image, at, &str) ||
        !hx_image_u64(codes->classes->image, str + HX_PY_TYPE, &type) ||
        hx_py_class_at(codes->classes, type).kind != HX_PY_STR ||
        !hx_py_put_any_str(codes->classes, str, CHARACTERS_MAX, &text)) {
        hx_text_clear(&text);
        hx_text_puts(&text, "?");
    }
    HX_NEED(!text.failed && (*ret = strdup(hx_text_str(&text))));
    return NULL;
}

/* All but the names. */
static bool read_code(const struct hx_py_codes *codes, uint64_t addr, struct hx_py_code *ret)
{
    const struct hx_py_code_layout *layout = codes->layout;
    const struct hx_image *image = codes->classes->image;
    uint64_t type, units, lines;
    if (addr % 8 || !hx_image_u64(image, addr + HX_PY_TYPE, &type))
        return false;
    const struct hx_py_class class = hx_py_class_at(codes->classes, type);
    if (class.number == HX_PY_NO_CLASS || class.kind != HX_PY_CODE || !class.exact ||
        !hx_image_u64(image, addr + HX_PY_SIZE, &units) || units > BYTES_MAX / UNIT ||
        !hx_image_u32(image, addr + layout->first_line, &ret->first_line) ||
        !hx_image_u32(image, addr + layout->n_locals, &ret->n_locals) ||
        !hx_image_u32(image, addr + layout->stacksize, &ret->n_stack) ||
        !hx_image_u64(image, addr + layout->local_names, &ret->local_names) ||
        !hx_image_u64(image, addr + layout->lines, &lines) || ret->n_locals > HX_PY_STACK_MAX ||
        ret->n_stack > HX_PY_STACK_MAX)
        return false;
    ret->addr = addr;
    ret->start = addr + layout->code;
    ret->bytes = units * UNIT;
    ret->lines = lines + BYTES_DATA;
    if (!hx_image_u64(image, lines + HX_PY_SIZE, &ret->n_lines) || ret->n_lines > BYTES_MAX)
        ret->n_lines = 0;
    return true;
}

static void free_names(struct hx_py_code *code)
{
    free(code->name);
    free(code->qualname);
    free(code->file);
}

static hx_error *add_code(struct hx_py_codes *codes, struct hx_py_code *code)
{
    const struct hx_py_code_layout *layout = codes->layout;
    HX_TRY(read_name(codes, code->addr + layout->name, &code->name));
    HX_TRY(read_name(codes, code->addr + layout->qualname, &code->qualname));
    HX_TRY(read_name(codes, code->addr + layout->file, &code->file));
    HX_NEED(hx_vec_push(&codes->code, *code));
    return NULL;
}

hx_error *hx_py_code_at(struct hx_py_codes *codes, uint64_t addr, uint32_t *ret)
{
    uint32_t *number;
    struct hx_py_code code = {0};
    *ret = hx_pairs_find(&codes->by_addr, addr);
    if (*ret != HX_NO_PAIR || codes->code.n >= HX_PY_CODES_MAX || !read_code(codes, addr, &code))
        return NULL;
    HX_TRY(hx_pairs_at(&codes->by_addr, addr, &number));
    hx_error *err = add_code(codes, &code);
    if (err)
        free_names(&code);
    else
        *ret = *number = (uint32_t)codes->code.n - 1;
    return err;
}

bool hx_py_code_put_local(const struct hx_py_codes *codes, uint32_t number, uint32_t local,
                          struct hx_text *text)
{
    const struct hx_py_code *code = &codes->code.v[number];
    uint64_t n, str;
    return local < HX_PY_LOCALS_MAX &&
           hx_image_u64(codes->classes->image, code->local_names + HX_PY_SIZE, &n) && local < n &&
           hx_image_u64(codes->classes->image, code->local_names + TUPLE_ITEMS + local * 8, &str) &&
           hx_py_put_str(codes->classes, str, text);
}

void hx_py_codes_deinit(struct hx_py_codes *codes)
{
    for (size_t i = 0; i < codes->code.n; i++)
        free_names(&codes->code.v[i]);
    hx_vec_free(&codes->code);
    hx_pairs_free(&codes->by_addr);
    free(codes->table);
}
