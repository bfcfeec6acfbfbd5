/* flamegraph.c - a flame graph as a standalone SVG: the roots on top, each box as wide as its part
 * of the heap.
 *
 * Places are percents of the width and nothing is scaled, so that text is as large on a phone as
 * on a desk; a box is a viewport of its own, which clips its name. All is there without the
 * script; with it a click zooms, names are cut to fit, and a search marks. What would be thinner
 * than a pixel at WIDTH is merged, and the head says how much.
 */
#include "export/paths/paths.h"
#include "export/svg/drawing.h"
#include "export/timepoints.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "layout/flame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1200, /* as it is made for */
    SAMPLES = 20000,
    ROW = 19, /* of a level, and a box of it */
    BOX = 18,
    HEAD = 104,  /* above the boxes */
    GLYPH = 73,  /* tenths of a pixel that a character takes */
    NARROW = 30, /* pixels that a name is worth */
};

struct flame {
    const struct hx_export *export;
    struct hx_sink *sink;
    const struct hx_paths *paths;
    const struct hx_timepoint *timepoint;
    uint64_t *bytes, *objects; /* of each node with all below it */
    uint32_t *order;
    struct hx_flame_block *block; /* of the nodes in that order */
    int levels;
    size_t merged;
    uint64_t merged_bytes;
};

static void deinit_flame(struct flame *f)
{
    free(f->bytes);
    free(f->objects);
    free(f->order);
    free(f->block);
}

/* --- numbers and texts --------------------------------------------------------------------- */

/* value / whole in units of 1 / parts, rounded down. */
static uint64_t scaled_part(uint64_t value, uint64_t whole, uint64_t parts)
{
    return whole ? (uint64_t)((unsigned __int128)value * parts / whole) : 0;
}

/* 12.3456 %; a decimal point in every locale. */
static void put_svg_percent(struct hx_sink *sink, const char *attribute, uint64_t value,
                            uint64_t whole)
{
    uint64_t v = scaled_part(value, whole, 1000000);
    hx_sink_putf(sink, " %s=\"%" PRIu64 ".%04" PRIu64 "%%\"", attribute, v / 10000, v % 10000);
}

static void put_share(struct hx_sink *sink, uint64_t value, uint64_t whole)
{
    uint64_t v = scaled_part(value, whole, 1000);
    hx_sink_putf(sink, "%" PRIu64 ".%" PRIu64 " %%", v / 10, v % 10);
}

static void put_count(struct hx_sink *sink, uint64_t value)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_text_count(&text, (int64_t)value);
    hx_sink_puts(sink, hx_text_str(&text));
}

static void put_escaped_text(struct hx_sink *sink, const char *s)
{
    hx_sink_xml(sink, s, strlen(s));
}

/* So much of a name as has room in some tenths of a pixel. */
static void put_fitting(struct hx_sink *sink, const char *s, uint64_t room)
{
    HX_CLEANUP(hx_text_free) struct hx_text shown = {0};
    hx_drawing_cut(&shown, s, strlen(s), (double)room, GLYPH, NULL);
    if (shown.failed)
        sink->failed = sink->failed ? sink->failed : ENOMEM;
    hx_sink_xml(sink, hx_text_str(&shown), shown.n);
}

/* --- colours ------------------------------------------------------------------------------- */

static uint32_t hash_name(const char *s)
{
    uint32_t hash = hx_flame_hash(s);
    return hash ^ hash >> 15;
}

/* One of the colours of a circle; light and soft, for dark letters. */
static uint32_t colour_of_hue(uint32_t hue, uint32_t low, uint32_t high)
{
    uint32_t sector = hue / 60, rest = hue % 60, span = high - low;
    uint32_t up = low + span * rest / 60, down = high - span * rest / 60;
    const uint32_t rgb[6][3] = {{high, up, low},   {down, high, low}, {low, high, up},
                                {low, down, high}, {up, low, high},   {high, low, down}};
    const uint32_t *c = rgb[sector % 6];
    return c[0] << 16 | c[1] << 8 | c[2];
}

/* Frames of one module have one hue; where there are no modules, those of one name. */
static uint32_t colour(const struct hx_path_frame *frame)
{
    if (strcmp(frame->name, "(other)") == 0 || strcmp(frame->name, "(deeper)") == 0 ||
        strcmp(frame->name, "(unknown)") == 0)
        return 0xc9ced6;
    if (strcmp(frame->name, "(unreachable)") == 0)
        return 0xff9d8a;
    uint32_t hash = hash_name(frame->module[0] ? frame->module : frame->name);
    uint32_t shade = hash_name(frame->name) % 22;
    return colour_of_hue(hash % 360, 138 + shade, 226 + shade);
}

/* --- boxes --------------------------------------------------------------------------------- */

/* From which width of the window on its name is worth showing: a class of the style below. */
static int label_class(uint64_t thousandths)
{
    static const int windows[] = {360, 600, 900, 1180};
    for (int i = 0; i < 4; i++)
        if (thousandths * (uint64_t)windows[i] * 98 / 100 >= NARROW * 1000)
            return i;
    return -1;
}

static void put_objects(const struct flame *f, const char *before, uint32_t node)
{
    if (!f->paths->has_objects)
        return;
    hx_sink_puts(f->sink, before);
    put_count(f->sink, f->objects[node]);
    hx_sink_puts(f->sink, f->objects[node] == 1 ? " object" : " objects");
}

static void put_title(const struct flame *f, uint32_t node, const struct hx_path_frame *frame)
{
    struct hx_sink *sink = f->sink;
    char human[HX_HUMAN];
    hx_sink_puts(sink, "<title>");
    put_escaped_text(sink, frame->name);
    if (frame->module[0]) {
        hx_sink_puts(sink, "\n");
        put_escaped_text(sink, frame->module);
    }
    hx_sink_putf(sink, "\n%s (", hx_human_bytes(f->bytes[node], human));
    put_count(sink, f->bytes[node]);
    hx_sink_puts(sink, " bytes), ");
    put_share(sink, f->bytes[node], f->bytes[0]);
    put_objects(f, "\n", node);
    hx_sink_puts(sink, "</title>");
}

static void put_box(const struct flame *f, uint32_t node, const struct hx_flame_block *block)
{
    struct hx_sink *sink = f->sink;
    static const struct hx_path_frame all = {
        .name = (char *)"all", .symbol = (char *)"", .module = (char *)"", .file = (char *)""};
    const struct hx_path_frame *frame =
        node ? &f->paths->frames.v[f->paths->nodes.v[node].frame] : &all;
    hx_sink_puts(sink, "<svg class=\"b\"");
    put_svg_percent(sink, "x", block->from, f->bytes[0]);
    hx_sink_putf(sink, " y=\"%d\"", block->line * ROW);
    put_svg_percent(sink, "width", f->bytes[node], f->bytes[0]);
    hx_sink_putf(sink, " height=\"%d\">", BOX);
    put_title(f, node, frame);
    hx_sink_putf(sink, "<rect width=\"100%%\" height=\"100%%\" fill=\"#%06" PRIx32 "\"/>",
                 node ? colour(frame) : 0xdfe3e8);
    int class = label_class(scaled_part(f->bytes[node], f->bytes[0], 1000));
    if (class >= 0) {
        uint64_t room = scaled_part(f->bytes[node], f->bytes[0], WIDTH * 98 / 10) - 80;
        hx_sink_putf(sink, "<text class=\"c%d\" x=\"4\" y=\"13\">", class);
        put_fitting(sink, frame->name, room);
        hx_sink_puts(sink, "</text>");
    }
    hx_sink_puts(sink, "</svg>\n");
}

static void put_boxes(const struct flame *f)
{
    for (size_t i = 0; i < f->paths->nodes.n; i++)
        /* Also "(other)" may be too thin to be seen. */
        if (scaled_part(f->bytes[f->order[i]], f->bytes[0], 2 * (uint64_t)WIDTH))
            put_box(f, f->order[i], &f->block[i]);
}

/* --- head ---------------------------------------------------------------------------------- */

static const char style[] =
    ":root{max-width:100%;color-scheme:light dark;background:#fff;"
    "font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}\n"
    ".h{fill:#1a1d21}.s{fill:#565d66}.t{font-size:15px;font-weight:bold}\n"
    ".b text{fill:#14171a}.b rect{stroke:#fff;stroke-width:1}\n"
    ".l{fill:#0b5cad;cursor:pointer;display:none}.z{opacity:.55}.m rect{fill:#c03bd6}\n"
    ".m text{fill:#fff}.c1,.c2,.c3{display:none}\n"
    "@media(min-width:600px){.c1{display:inline}}\n"
    "@media(min-width:900px){.c2{display:inline}}\n"
    "@media(min-width:1180px){.c3{display:inline}}\n"
    "@media(prefers-color-scheme:dark){:root{background:#15181c}.h{fill:#eceff3}"
    ".s{fill:#a2aab5}.b rect{stroke:#15181c}.l{fill:#79b8ff}}\n";

/* Places are those of the attributes; `o` remembers them. */
static const char script[] =
    "(function(){\n"
    "var root=document.documentElement,say=document.getElementById('say'),"
    "found=document.getElementById('found'),whole=say.textContent,now=null;\n"
    "var all=[].map.call(document.querySelectorAll('svg.b'),function(e){\n"
    "  var t=e.querySelector('title').textContent;\n"
    "  return{e:e,x:parseFloat(e.getAttribute('x')),w:parseFloat(e.getAttribute('width')),\n"
    "    y:+e.getAttribute('y'),name:t.split('\\n')[0],title:t,text:e.querySelector('text')};});\n"
    "function fit(){\n"
    "  var px=root.getBoundingClientRect().width*.98/100;\n"
    "  all.forEach(function(o){\n"
    "    if(o.out)return;\n"
    "    var n=Math.floor((o.nw*px-8)/7.3),s=Array.from(o.name);\n"
    "    if(n<3&&!o.text)return;\n"
    "    if(!o.text){o.text=document.createElementNS('http://www.w3.org/2000/svg','text');\n"
    "      o.text.setAttribute('x',4);o.text.setAttribute('y',13);o.e.appendChild(o.text);}\n"
    "    o.text.style.display='inline';\n"
    "    o.text.textContent=n<3?'':s.length<=n?o.name:s.slice(0,n-1).join('')+'\\u2026';});}\n"
    "function zoom(b){\n"
    "  now=b;\n"
    "  var x=b?b.x:0,w=b?b.w:100,y=b?b.y:0,eps=1e-3;\n"
    "  all.forEach(function(o){\n"
    "    var above=o.y<y&&o.x<=x+eps&&o.x+o.w>=x+w-eps;\n"
    "    o.nx=above?0:(o.x-x)/w*100;o.nw=above?100:o.w/w*100;\n"
    "    o.out=!above&&(o.y<y||o.nx+o.nw<=eps||o.nx>=100-eps);\n"
    "    o.e.style.display=o.out?'none':'';\n"
    "    o.e.classList.toggle('z',above);\n"
    "    o.e.setAttribute('x',o.nx+'%');o.e.setAttribute('width',o.nw+'%');});\n"
    "  fit();}\n"
    "function tell(o){say.textContent=o?o.title.split('\\n').join('  '):whole;}\n"
    "function search(){\n"
    "  var p=prompt('Names that match (regular expression):','');\n"
    "  if(p===null)return;\n"
    "  var r=null,n=0;\n"
    "  try{r=p?new RegExp(p,'i'):null;}catch(e){found.textContent='no regular "
    "expression';return;}\n"
    "  all.forEach(function(o){var m=!!r&&r.test(o.name);n+=m;o.e.classList.toggle('m',m);});\n"
    "  found.textContent=r?n+' marked':'search';}\n"
    "all.forEach(function(o){\n"
    "  o.e.style.cursor='pointer';\n"
    "  o.e.addEventListener('click',function(){zoom(o===now||o.w>=100?null:o);tell(o);});\n"
    "  o.e.addEventListener('mouseover',function(){tell(o);});\n"
    "  o.e.addEventListener('mouseout',function(){tell(null);});});\n"
    "document.getElementById('reset').addEventListener('click',function(){zoom(null);});\n"
    "found.addEventListener('click',search);\n"
    "[].forEach.call(document.querySelectorAll('.l'),function(e){e.style.display='inline';});\n"
    "addEventListener('resize',fit);\n"
    "zoom(null);\n"
    "})();\n";

static void put_merged(const struct flame *f)
{
    char human[HX_HUMAN];
    if (!f->merged) {
        hx_sink_puts(f->sink, "no stack is left out");
        return;
    }
    put_count(f->sink, f->merged);
    hx_sink_putf(f->sink, " thin %s (%s, ", f->merged == 1 ? "stack" : "stacks",
                 hx_human_bytes(f->merged_bytes, human));
    put_share(f->sink, f->merged_bytes, f->bytes[0]);
    hx_sink_puts(f->sink, f->merged == 1 ? ") is in (other)" : ") are in (other)");
}

static void put_svg_head(const struct flame *f)
{
    struct hx_sink *sink = f->sink;
    char human[HX_HUMAN];
    struct hx_text title = {0};
    hx_text_escape(&title, f->export->title, strlen(f->export->title), false);
    hx_sink_puts(sink, "<title>");
    put_escaped_text(sink, hx_text_str(&title));
    hx_sink_putf(sink, ": heap by %s</title>\n<style>\n%s</style>\n", f->paths->by, style);
    hx_sink_puts(sink, "<svg x=\"1%\" width=\"98%\" height=\"100\">\n"
                       "<text class=\"h t\" y=\"22\">");
    put_escaped_text(sink, hx_text_str(&title));
    hx_text_free(&title);
    hx_sink_putf(sink, "</text>\n<text class=\"h\" y=\"41\">%s",
                 hx_human_bytes(f->bytes[0], human));
    put_objects(f, " in ", 0);
    hx_sink_putf(sink, " by %s, snapshot %" PRId64 "</text>\n<text class=\"s\" y=\"58\">",
                 f->paths->by, f->timepoint->snapshot);
    put_merged(f);
    hx_sink_puts(sink, "</text>\n<text class=\"s\" y=\"75\" id=\"say\">root on top, width: bytes"
                       "</text>\n<text class=\"l\" y=\"93\" id=\"reset\">whole heap</text>\n"
                       "<text class=\"l\" x=\"96\" y=\"93\" id=\"found\">search</text>\n</svg>\n");
}

static void put_svg(const struct flame *f)
{
    int height = f->levels * ROW;
    hx_sink_putf(f->sink,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n",
                 WIDTH, HEAD + height + 8);
    put_svg_head(f);
    hx_sink_putf(f->sink, "<svg x=\"1%%\" y=\"%d\" width=\"98%%\" height=\"%d\">\n", HEAD, height);
    put_boxes(f);
    hx_sink_putf(f->sink, "</svg>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", script);
}

/* --- all of it ------------------------------------------------------------------------------- */

/* What went into "(other)" of it: all such boxes together. */
static uint64_t other_bytes(const struct hx_paths *paths)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < paths->nodes.n; i++)
        if (paths->nodes.v[i].frame == paths->other)
            hx_paths_add(&sum, paths->nodes.v[i].own[HX_PATH_BYTES]);
    return sum;
}

static hx_error *lay_out_boxes(struct flame *f, const struct hx_paths *paths)
{
    size_t n = paths->nodes.n;
    HX_FREE struct hx_flame_node *node = calloc(n, sizeof *node);
    HX_FREE uint32_t *place = calloc(n, sizeof *place); /* of a node in the order */
    f->block = calloc(n, sizeof *f->block);
    HX_NEED(node && place && f->block);
    for (uint32_t i = 0; i < n; i++) {
        const struct hx_path *path = &paths->nodes.v[f->order[i]];
        place[f->order[i]] = i;
        node[i] = (struct hx_flame_node){.parent = i ? place[path->parent] : 0,
                                         .value = f->bytes[f->order[i]],
                                         .own = path->own[HX_PATH_BYTES]};
    }
    hx_flame_lay(node, n, WIDTH, f->block);
    for (size_t i = 0; i < n; i++)
        if (f->block[i].to > f->block[i].from && f->block[i].line >= f->levels)
            f->levels = f->block[i].line + 1;
    return NULL;
}

static hx_error *prepare_boxes(struct flame *f, struct hx_paths *paths)
{
    HX_FREE uint64_t *before = NULL;
    HX_TRY(hx_paths_inclusive(paths, HX_PATH_BYTES, &before));
    struct hx_paths_cut cut = {
        .samples = SAMPLES, .value = HX_PATH_BYTES, .least = before[0] / WIDTH};
    HX_TRY(hx_paths_cut(paths, &cut, &f->merged));
    f->merged_bytes = other_bytes(paths);
    HX_TRY(hx_paths_inclusive(paths, HX_PATH_BYTES, &f->bytes));
    HX_TRY(hx_paths_inclusive(paths, HX_PATH_OBJECTS, &f->objects));
    HX_TRY(hx_paths_order(paths, f->bytes, &f->order));
    return lay_out_boxes(f, paths);
}

static hx_error *write_flamegraph(const struct hx_export *export, struct hx_sink *sink)
{
    HX_PATHS struct hx_paths paths = {.detail = HX_PATHS_MODULES};
    HX_TIMEPOINTS struct hx_timepoints timepoints = {0};
    HX_TRY(hx_timepoints_load(export, &timepoints));
    HX_TRY(hx_paths_load(export, export->snapshot, &paths));
    HX_CLEANUP(deinit_flame)
    struct flame f = {.export = export,
                      .sink = sink,
                      .paths = &paths,
                      .timepoint = &timepoints.v.v[timepoints.v.n - 1]};
    HX_TRY(prepare_boxes(&f, &paths));
    put_svg(&f);
    hx_paths_note(export, &paths);
    return NULL;
}

const struct hx_exporter hx_export_flamegraph = {
    .name = "flamegraph",
    .about = "a flame graph as one SVG, to look at in a browser",
    .by = HX_PATHS_BY,
    .censuses = HX_CENSUS_FLAT,
    .span = HX_EXPORT_ONE,
    .write = write_flamegraph,
};
