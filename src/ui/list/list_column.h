/* list_column.h - the columns of lists: from a value to the text that people read. */
#ifndef HX_UI_LIST_LIST_COLUMN_H
#define HX_UI_LIST_LIST_COLUMN_H

#include "base/text.h"
#include "store/table.h"

enum hx_as {
    HX_AS_TEXT,   /* as it is, escaped */
    HX_AS_CALLS,  /* the label of a stack, shortened (call_label.h); too long: its end is cut */
    HX_AS_TYPE,   /* the name of a type, shortened (type_name.h); NULL: the row's column `shape` */
    HX_AS_NAMES,  /* names with ", " between, shortened; too long: the last ones are left out */
    HX_AS_NAME,   /* either of them; too long: the end of calls is cut */
    HX_AS_TREE,   /* the label of a node, indented by its depth (tree.h) */
    HX_AS_SOURCE, /* a file and line, without the folders */
    HX_AS_SAFE,   /* text of the explorer's own, escaped already */
    HX_AS_BYTES,  /* 1.50M */
    HX_AS_COUNT,  /* 1,234,567 */
    HX_AS_NUMBER, /* 1234567: a name in digits */
    HX_AS_VALUE,  /* numbers as they are, texts as they are */
    HX_AS_HEX,    /* 0x7f00 */
    HX_AS_OFFSET, /* +24 */
    HX_AS_US,     /* microseconds: 9.70ms */
    HX_AS_TIME,   /* ISO 8601: date and time of day */
    HX_AS_SHARE,  /* percent of `whole` */
    HX_AS_BAR,    /* a bar of value/whole, of which `marked` is drawn differently */
    HX_AS_CHANGE, /* +1.50M, -3.00K */
    HX_AS_COUNT_CHANGE, /* +1,234 */
    HX_AS_SWING, /* a bar from the middle, to the right for more and to the left for less of `whole`
                  */
    HX_AS_SPARK, /* numbers with blanks between, "-" for unknown ones, as a line of heights */
    HX_AS_OWN,   /* what the screen's cell() makes of the row; not searched */
    HX_AS_BAND,  /* the same, in the colour of the band whose number the value is */
};

/* A node is not indented by more levels than that. */
#define HX_INDENT_MAX 1000

/* A list of them ends with name NULL. */
struct hx_column {
    const char *name;  /* the view's column */
    const char *title; /* the heading; NULL: name */
    enum hx_as as;
    int width;          /* cells; 0 and less: takes what is left, at least -width */
    int drop;           /* narrow screens leave out the highest first; 0: never */
    const char *whole;  /* share, bar: the fact that is 100 % */
    const char *marked; /* bar: the column of the marked part; text: that of what is shown instead,
                           while searches and files have the text itself */
};

/* Appends the text of a row's cell, safe for a terminal; "-" for NULL, nothing for a bar.
 * `facts` has one row. Callable from any thread. */
void hx_column_text(const struct hx_column *column, const struct hx_table *rows, size_t row,
                    const struct hx_table *facts, bool ascii, struct hx_text *ret);

/* Appends the name of a tree's node, with what marks it: "walk (rec)". */
void hx_node_name(const struct hx_table *rows, size_t row, bool ascii, struct hx_text *ret);

/* Appends what search looks at: all cells with blanks between. */
void hx_column_row(const struct hx_column *columns, const struct hx_table *rows, size_t row,
                   const struct hx_table *facts, bool ascii, struct hx_text *ret);

/* Is it aligned to the right? */
bool hx_column_right(const struct hx_column *column);

/* Fills width[i] (0: left out) for a line of `width` cells, one blank between columns. */
#define HX_COLUMNS_MAX 20
void hx_column_layout(const struct hx_column *columns, int width, int ret[HX_COLUMNS_MAX]);

/* Numbers as a line of heights of at most `cells` cells, the oldest first; the largest of those
 * that fall into one cell counts. What is below 0 is not known and stays blank. */
void hx_text_spark(struct hx_text *text, const int64_t *value, size_t n, int cells, bool ascii);
/* The numbers of a text, with blanks between; "-": not known. Any text is legal. */
void hx_text_spark_of(struct hx_text *text, const char *numbers, int cells, bool ascii);

/* "+1.50M", "-3.00K", "0" */
void hx_text_change(struct hx_text *text, int64_t bytes);

#endif
