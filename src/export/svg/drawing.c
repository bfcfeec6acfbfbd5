/* drawing.c - SVG documents. */
#include "export/svg/drawing.h"

#include "base/cleanup.h"
#include "layout/axis.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

/* Eight colours of about the same weight, no two of which are alike to whoever lacks one kind of
 * cones; in the dark each is somewhat lighter or less bright. */
static const char style_common[] =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,"
    "sans-serif;font-size:13px;fill:var(--ink)}"
    ".title{font-size:18px;font-weight:600}"
    ".dim{fill:var(--dim)}"
    ".number{font-variant-numeric:tabular-nums}"
    ".page{fill:var(--page)}"
    ".grid{stroke:var(--grid);stroke-width:1}"
    ".axis{stroke:var(--dim);stroke-width:1}"
    ".faint{fill:var(--faint)}"
    ".b0{fill:#0072b2}.b1{fill:#e69f00}.b2{fill:#009e73}.b3{fill:#cc79a7}"
    ".b4{fill:#56b4e9}.b5{fill:#d55e00}.b6{fill:#f0e442}.b7{fill:#882255}"
    ".bo{fill:var(--other)}"
    ":root{--page:#fff;--ink:#1b1f24;--dim:#5a636d;--grid:#e1e5ea;--faint:#f3f5f7;"
    "--other:#aab2bb}"
    "@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--dim:#9aa5b1;"
    "--grid:#2a313a;--faint:#171c23;--other:#5d6773}"
    ".b0{fill:#3b8fd0}.b6{fill:#ddd24a}.b7{fill:#b35a84}}"
    ":root{background:var(--page)}"
    "@media (max-width:560px){:root{height:auto}text{font-size:18px}.title{font-size:22px}}"
    "@media print{:root{--page:#fff;--ink:#000;--dim:#444}}";

void hx_drawing_words_deinit(struct hx_drawing_words *words)
{
    hx_text_free(&words->title);
    hx_text_free(&words->subtitle);
    hx_text_free(&words->about);
}

hx_error *hx_drawing_begin(struct hx_sink *sink, int height, const struct hx_drawing_words *words,
                           const char *style)
{
    const char *title = hx_text_str(&words->title);
    double width = HX_DRAWING_RIGHT - HX_DRAWING_LEFT;
    HX_NEED(!words->title.failed && !words->subtitle.failed && !words->about.failed);
    hx_sink_putf(sink,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\""
                 " viewBox=\"0 0 %d %d\" preserveAspectRatio=\"xMidYMin meet\" role=\"img\""
                 " aria-labelledby=\"title about\">\n<title id=\"title\">",
                 HX_DRAWING_WIDTH, height);
    hx_sink_xml(sink, title, words->title.n);
    hx_sink_puts(sink, "</title>\n<desc id=\"about\">");
    hx_sink_xml(sink, hx_text_str(&words->about), words->about.n);
    hx_sink_putf(sink, "</desc>\n<style>%s%s</style>\n", style_common, style ? style : "");
    /* beyond the page, too, where the reader's window has another shape */
    hx_sink_putf(sink,
                 "<rect class=\"page\" x=\"-5000\" y=\"-5000\" width=\"%d\" height=\"%d\"/>\n",
                 10000 + HX_DRAWING_WIDTH, 10000 + height);
    /* the letters of titles are a fifth larger than those that widths are for */
    hx_drawing_text(sink, "title", HX_DRAWING_LEFT, 30, HX_ANCHOR_START, width / 1.3, title);
    hx_drawing_text(sink, "dim", HX_DRAWING_LEFT, HX_DRAWING_HEAD, HX_ANCHOR_START, width,
                    hx_text_str(&words->subtitle));
    return NULL;
}

void hx_drawing_end(struct hx_sink *sink)
{
    hx_sink_puts(sink, "</svg>\n");
}

/* --- numbers and shapes --------------------------------------------------------------- */

void hx_drawing_number(struct hx_sink *sink, double value)
{
    int64_t hundredths = isfinite(value) && fabs(value) < 1e9 ? llround(value * 100) : 0;
    uint64_t left = hundredths < 0 ? -(uint64_t)hundredths : (uint64_t)hundredths;
    unsigned part = (unsigned)(left % 100);
    hx_sink_putf(sink, "%s%" PRIu64, hundredths < 0 ? "-" : "", left / 100);
    if (part % 10)
        hx_sink_putf(sink, ".%02u", part);
    else if (part)
        hx_sink_putf(sink, ".%u", part / 10);
}

void hx_drawing_at(struct hx_sink *sink, const char *name, double value)
{
    hx_sink_putf(sink, " %s=\"", name);
    hx_drawing_number(sink, value);
    hx_sink_putc(sink, '"');
}

void hx_drawing_line(struct hx_sink *sink, const char *class, double x1, double y1, double x2,
                     double y2)
{
    hx_sink_putf(sink, "<line class=\"%s\"", class);
    hx_drawing_at(sink, "x1", x1);
    hx_drawing_at(sink, "y1", y1);
    hx_drawing_at(sink, "x2", x2);
    hx_drawing_at(sink, "y2", y2);
    hx_sink_puts(sink, "/>\n");
}

void hx_drawing_box(struct hx_sink *sink, const char *class, double x, double y, double width,
                    double height, const char *tip)
{
    hx_sink_putf(sink, "<rect class=\"%s\"", class);
    hx_drawing_at(sink, "x", x);
    hx_drawing_at(sink, "y", y);
    hx_drawing_at(sink, "width", width > 0 ? width : 0);
    hx_drawing_at(sink, "height", height > 0 ? height : 0);
    if (tip) {
        hx_sink_puts(sink, "><title>");
        hx_sink_xml(sink, tip, strlen(tip));
        hx_sink_puts(sink, "</title></rect>\n");
    } else {
        hx_sink_puts(sink, "/>\n");
    }
}

/* --- texts ---------------------------------------------------------------------------- */

double hx_letter_sans(uint32_t c)
{
    if (c < 0x80)
        return strchr(" iIjl.,:;'|!", (int)c)      ? 0.40
               : strchr("ft()[]{}/\\-r\"", (int)c) ? 0.46
               : strchr("mwMW@%#&+<>=~", (int)c)   ? 0.98
               : c >= 'A' && c <= 'Z'              ? 0.76
                                                   : 0.64;
    if (c >= 0x1100 && c < 0x1f000)
        return c >= 0x2000 && c < 0x2e80 ? 0.9 : 1.05;
    return c < 0x1100 ? 0.8 : 1.4;
}

/* The next character of any bytes; what is no UTF-8 stands for one that shows so. */
static size_t next_letter(const char *s, size_t n, uint32_t *ret)
{
    size_t length = hx_utf8_char(s, n, ret);
    if (!length || hx_unsafe_char(*ret))
        *ret = 0xfffd;
    return length ? length : 1;
}

double hx_drawing_width(const char *s, size_t n, double size)
{
    double width = 0;
    uint32_t c;
    for (size_t i = 0; i < n;) {
        i += next_letter(s + i, n - i, &c);
        width += hx_letter_sans(c) * size;
    }
    return width;
}

bool hx_drawing_cut(struct hx_text *out, const char *s, size_t n, double width, double size,
                    double (*letter)(uint32_t c))
{
    double left = width - (letter ? letter(0x2026) : 1) * size, used = 0;
    size_t kept = 0;
    uint32_t c;
    for (size_t i = 0; i < n;) {
        i += next_letter(s + i, n - i, &c);
        used += (letter ? letter(c) : 1) * size;
        if (used <= left)
            kept = i;
        if (used > width) {
            hx_text_putn(out, s, kept);
            hx_text_puts(out, ELLIPSIS);
            return false;
        }
    }
    hx_text_putn(out, s, n);
    return true;
}

void hx_drawing_text(struct hx_sink *sink, const char *class, double x, double y,
                     enum hx_anchor anchor, double width, const char *s)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    HX_CLEANUP(hx_text_free) struct hx_text shown = {0};
    bool all = hx_drawing_cut(&shown, s, strlen(s), width, HX_LETTER_MOST, hx_letter_sans);
    if (shown.failed)
        sink->failed = sink->failed ? sink->failed : ENOMEM;
    hx_sink_putf(sink, "<text%s%s%s%s", *class ? " class=\"" : "", class, *class ? "\"" : "",
                 anchors[anchor]);
    hx_drawing_at(sink, "x", x);
    hx_drawing_at(sink, "y", y);
    hx_sink_putc(sink, '>');
    if (!all) {
        hx_sink_puts(sink, "<title>");
        hx_sink_xml(sink, s, strlen(s));
        hx_sink_puts(sink, "</title>");
    }
    hx_sink_xml(sink, hx_text_str(&shown), shown.n);
    hx_sink_puts(sink, "</text>\n");
}

/* --- axes ----------------------------------------------------------------------------- */

void hx_bytes_axis_scale(struct hx_bytes_axis *axis, uint64_t bytes, unsigned most)
{
    axis->step = hx_step_bytes(bytes, most);
    axis->top = (bytes / axis->step + 1) * axis->step;
}

double hx_bytes_axis_y(const struct hx_bytes_axis *axis, double bytes)
{
    return axis->y - axis->height * bytes / (double)axis->top;
}

void hx_bytes_axis_draw(struct hx_sink *sink, const struct hx_bytes_axis *axis)
{
    for (uint64_t bytes = 0; bytes <= axis->top; bytes += axis->step) {
        HX_CLEANUP(hx_text_free) struct hx_text text = {0};
        double y = hx_bytes_axis_y(axis, (double)bytes);
        hx_drawing_line(sink, bytes ? "grid" : "axis", axis->x, y, axis->x + axis->width, y);
        hx_put_step_bytes(&text, bytes);
        hx_drawing_text(sink, "dim number", axis->x - 8, y + 5, HX_ANCHOR_END, axis->x - 8,
                        hx_text_str(&text));
        if (axis->top - bytes < axis->step)
            break;
    }
}
