/* canvas.c - cells of a picture. */
#include "ui/picture/canvas.h"

#include <stdlib.h>

hx_error *hx_canvas_begin(struct hx_canvas *canvas, int width, int height)
{
    *canvas = (struct hx_canvas){0};
    if (width <= 0 || height <= 0)
        return NULL;
    if (width > HX_CANVAS_MAX || height > HX_CANVAS_MAX)
        return hx_error_new(HX_E_LIMIT, "picture", NULL, "is larger than any screen");
    canvas->ink = calloc((size_t)width * (size_t)height, sizeof *canvas->ink);
    HX_NEED(canvas->ink);
    canvas->width = width;
    canvas->height = height;
    return NULL;
}

void hx_canvas_end(struct hx_canvas *canvas)
{
    free(canvas->ink);
    *canvas = (struct hx_canvas){0};
}

struct hx_ink *hx_canvas_at(const struct hx_canvas *canvas, int x, int y)
{
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height)
        return NULL;
    return canvas->ink + (size_t)y * (size_t)canvas->width + (size_t)x;
}

void hx_canvas_put(struct hx_canvas *canvas, int x, int y, uint32_t c, enum hx_style style)
{
    struct hx_ink *ink = hx_canvas_at(canvas, x, y);
    if (ink)
        *ink = (struct hx_ink){.c = c, .style = (uint8_t)style};
}

void hx_canvas_text(struct hx_canvas *canvas, int x, int y, const char *s, enum hx_style style)
{
    for (; *s; s++, x++)
        hx_canvas_put(canvas, x, y, (unsigned char)*s, style);
}

void hx_text_utf8(struct hx_text *text, uint32_t c)
{
    if (c < 0x80) {
        hx_text_putc(text, (char)c);
    } else if (c < 0x800) {
        hx_text_putc(text, (char)(0xc0 | c >> 6));
        hx_text_putc(text, (char)(0x80 | (c & 0x3f)));
    } else {
        hx_text_putc(text, (char)(0xe0 | (c >> 12 & 0x0f)));
        hx_text_putc(text, (char)(0x80 | (c >> 6 & 0x3f)));
        hx_text_putc(text, (char)(0x80 | (c & 0x3f)));
    }
}

void hx_canvas_line(const struct hx_canvas *canvas, int y, struct hx_text *ret)
{
    for (int x = 0; x < canvas->width; x++) {
        const struct hx_ink *ink = hx_canvas_at(canvas, x, y);
        hx_text_utf8(ret, ink && ink->c ? ink->c : ' ');
    }
}

/* Cells of one style are put at once. */
static int put_run(const struct hx_term *term, const struct hx_canvas *canvas, int y, int x,
                   int from, int line)
{
    const struct hx_ink *first = hx_canvas_at(canvas, from, line), *ink = first;
    struct hx_text run = {0};
    int at = from;
    while (ink && ink->style == first->style && ink->over == first->over) {
        hx_text_utf8(&run, ink->c ? ink->c : ' ');
        ink = hx_canvas_at(canvas, ++at, line);
    }
    hx_put_over(term, y, x + from, at - from, hx_text_str(&run), first->style, first->over);
    hx_text_free(&run);
    return at;
}

void hx_canvas_draw(const struct hx_term *term, const struct hx_canvas *canvas, int y, int x)
{
    for (int line = 0; line < canvas->height; line++)
        for (int at = 0; at < canvas->width;)
            at = put_run(term, canvas, y + line, x, at, line);
}
