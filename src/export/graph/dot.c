/* dot.c - chains, dominators and types as graphs for Graphviz. */
#include "export/graph/dot.h"

#include "base/cleanup.h"
#include "export/svg/drawing.h"
#include "store/query/named.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- text --------------------------------------------------------------------------- */

/* Puts text that is for a string in quotes, where backslashes begin escapes and entities of HTML
 * are replaced. */
static void put_quoted(struct hx_text *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"' || s[i] == '\\')
            hx_text_putc(out, '\\');
        if (s[i] == '&')
            hx_text_puts(out, "&amp;");
        else
            hx_text_putc(out, s[i]);
    }
}

/* As people read it, whole or cut. */
static void put_dot_name(struct hx_text *out, const char *s, bool cut)
{
    HX_CLEANUP(hx_text_free) struct hx_text escaped = {0}, shown = {0};
    hx_text_escape(&escaped, s, strlen(s), false);
    if (cut)
        hx_drawing_cut(&shown, hx_text_str(&escaped), escaped.n, 40, 1, hx_letter_sans);
    const struct hx_text *text = cut ? &shown : &escaped;
    put_quoted(out, hx_text_str(text), text->n);
    out->failed |= escaped.failed || shown.failed;
}

void hx_dot_line(struct hx_text *label, const char *s)
{
    if (label->n)
        hx_text_puts(label, "\\n");
    put_dot_name(label, s, true);
}

void hx_dot_linef(struct hx_text *label, const char *format, ...)
{
    va_list args;
    if (label->n)
        hx_text_puts(label, "\\n");
    va_start(args, format);
    hx_text_vputf(label, format, args);
    va_end(args);
}

/* --- statements ----------------------------------------------------------------------- */

void hx_dot_begin(struct hx_sink *sink, const char *direction, const char *title)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    put_dot_name(&text, title, false);
    hx_sink_putf(sink,
                 "digraph \"heapx\" {\n"
                 "  graph [rankdir=%s,label=\"%s\",labelloc=t,labeljust=l,"
                 "fontname=\"Helvetica,Arial,sans-serif\",fontsize=16,nodesep=0.2,ranksep=0.45];\n"
                 "  node [shape=box,style=\"rounded,filled\",fillcolor=\"#ffffff\","
                 "color=\"#5a636d\",fontname=\"Helvetica,Arial,sans-serif\",fontsize=11,"
                 "margin=\"0.12,0.06\"];\n"
                 "  edge [color=\"#5a636d\",fontname=\"Helvetica,Arial,sans-serif\",fontsize=9,"
                 "fontcolor=\"#5a636d\",arrowsize=0.7];\n",
                 direction, hx_text_str(&text));
    if (text.failed && !sink->failed)
        sink->failed = ENOMEM;
}

void hx_dot_end(struct hx_sink *sink)
{
    hx_sink_puts(sink, "}\n");
}

void hx_dot_node(struct hx_sink *sink, const char *id, const struct hx_text *label,
                 const char *attributes, const char *name)
{
    HX_CLEANUP(hx_text_free) struct hx_text tip = {0};
    hx_sink_putf(sink, "  \"%s\" [label=\"", id);
    hx_sink_put(sink, hx_text_str(label), label->n);
    hx_sink_puts(sink, "\"");
    if (name) {
        put_dot_name(&tip, name, false);
        hx_sink_puts(sink, ",tooltip=\"");
        hx_sink_put(sink, hx_text_str(&tip), tip.n);
        hx_sink_puts(sink, "\"");
    }
    hx_sink_putf(sink, "%s];\n", attributes);
    if ((tip.failed || label->failed) && !sink->failed)
        sink->failed = ENOMEM;
}

/* --- the format ------------------------------------------------------------------------- */

hx_error *hx_dot_object(const struct hx_export *export, uint64_t *ret)
{
    char what[32];
    hx_rows *rows = NULL;
    bool more = false, found = false;
    HX_TRY(hx_query_named(
        export->store, export->has_object ? HX_QUERY_object_at : HX_QUERY_largest_dominator,
        HX_QUERY_ARGS(.snapshot = export->snapshot,
                      .address = export->object > INT64_MAX ? INT64_MAX : export->object),
        &rows));
    hx_error *err = hx_rows_next(rows, &more);
    if (!err && more) {
        *ret = (uint64_t)hx_rows_value(rows, 0).i;
        uint64_t bytes = (uint64_t)hx_rows_value(rows, 1).i;
        found = !export->has_object || export->object == *ret || export->object - *ret < bytes;
    }
    hx_rows_end(rows);
    HX_TRY(err);
    if (found)
        return NULL;
    if (!export->has_object)
        return hx_error_new(HX_E_ABSENT, export->title, "name an object with --object",
                            "knows no dominators of snapshot %" PRId64, export->snapshot);
    snprintf(what, sizeof what, "0x%" PRIx64, export->object);
    return hx_error_new(HX_E_ABSENT, what, "see: heapx report FILE objects",
                        "no object contains it");
}

static hx_error *write_dot(const struct hx_export *export, struct hx_sink *sink)
{
    const char *by = export->by ? export->by : export->has_object ? "chain" : "dominator";
    if (strcmp(by, "chain") == 0)
        return hx_dot_chains(export, sink);
    if (strcmp(by, "dominator") == 0)
        return hx_dot_dominators(export, sink);
    if (export->has_object)
        return hx_error_new(HX_E_USAGE, "--object", "leave it out",
                            "the graph of types is not about one object");
    return hx_dot_types(export, sink);
}

const struct hx_exporter hx_export_dot = {
    .name = "dot",
    .about = "chains, dominators and types as graphs for Graphviz",
    .by = "chain dominator type",
    .span = HX_EXPORT_ONE,
    .takes_object = true,
    .write = write_dot,
};
