/* dot.h - graphs in the language of Graphviz: what dot*.c share. */
#ifndef HX_EXPORT_GRAPH_DOT_H
#define HX_EXPORT_GRAPH_DOT_H

#include "export/export.h"
#include "model/graph.h"

/* The head of a graph, and its end. */
void hx_dot_begin(struct hx_sink *sink, const char *direction, const char *title);
void hx_dot_end(struct hx_sink *sink);

/* A label is lines of text. Names come from the target: quotes and backslashes, entities and what
 * a display would obey are escaped, long ones cut. */
void hx_dot_line(struct hx_text *label, const char *s);
/* One of our own: printf, not escaped. */
void hx_dot_linef(struct hx_text *label, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A node: `id` has nothing that would have to be escaped; `attributes` are more of them, each with
 * a comma before; `name`: what is shown whole when it is pointed at, NULL: nothing. */
void hx_dot_node(struct hx_sink *sink, const char *id, const struct hx_text *label,
                 const char *attributes, const char *name);

#define HX_DOT_ROOT  ",fillcolor=\"#cfe5f5\",shape=box"
#define HX_DOT_OTHER ",style=\"rounded,dashed\",color=\"#7a838c\",fontcolor=\"#5a636d\""
#define HX_DOT_MAIN  ",fillcolor=\"#fbe3b0\",penwidth=2"

/* Each writes a whole graph of one snapshot. */
hx_error *hx_dot_chains(const struct hx_export *export, struct hx_sink *sink);
hx_error *hx_dot_dominators(const struct hx_export *export, struct hx_sink *sink);
hx_error *hx_dot_types(const struct hx_export *export, struct hx_sink *sink);

/* The address of the object at which a drawing begins: that which contains --object. HX_E_ABSENT:
 * none does. */
hx_error *hx_dot_object(const struct hx_export *export, uint64_t *ret);

#endif
