/* sql_reply.c - how the columns of an answer to SQL look: by their names and by what is in them. */
#include "ui/list/sql_reply.h"

#include "ui/list/column_kind.h"
#include "ui/term/term.h"

#include <string.h>

/* Texts that are not longer have a width of their own; longer ones share what is left. */
#define TEXT_FIXED 14
#define TEXT_LEAST 20
#define COLUMN_MAX 40

static enum hx_as as_of(const struct hx_answer_column *column)
{
    const char *name = column->name;
    unsigned values = column->values & ~(unsigned)HX_ANSWER_NULLS;
    if (!values || values == HX_ANSWER_TEXTS)
        return HX_AS_TEXT;
    if (values & HX_ANSWER_TEXTS)
        return HX_AS_VALUE;
    if (hx_name_is_bytes(name))
        return HX_AS_BYTES;
    if (values & HX_ANSWER_REALS)
        return HX_AS_COUNT;
    if (hx_name_is_address(name))
        return HX_AS_HEX;
    if (hx_name_is_id(name))
        return HX_AS_NUMBER;
    return hx_name_is_us(name) && column->least >= 0 ? HX_AS_US : HX_AS_COUNT;
}

/* The widest of the sample, and of the whole numbers of all rows. */
static int widest_answer(const struct hx_column *column, const struct hx_answer_column *from,
                         const struct hx_table *sample, bool ascii)
{
    int width = 0;
    for (size_t row = 0; row < sample->n_rows && width < COLUMN_MAX; row++) {
        struct hx_text text = {0};
        hx_column_text(column, sample, row, NULL, ascii, &text);
        int n = hx_text_width(hx_text_str(&text));
        width = n > width ? n : width;
        hx_text_free(&text);
    }
    for (int i = 0; i < 2 && from->values & HX_ANSWER_INTS; i++) {
        struct hx_text text = {0};
        char digits[32];
        if (column->as == HX_AS_NUMBER || column->as == HX_AS_VALUE)
            hx_text_putf(&text, "%lld", (long long)(i ? from->most : from->least));
        else if (column->as == HX_AS_COUNT)
            hx_text_count(&text, i ? from->most : from->least);
        else if (column->as == HX_AS_HEX)
            snprintf(digits, sizeof digits, "0x%llx",
                     (unsigned long long)(i ? from->most : from->least)),
                hx_text_puts(&text, digits);
        width = (int)text.n > width ? (int)text.n : width;
        hx_text_free(&text);
    }
    return width;
}

static hx_error *describe_answer(struct hx_reply *reply, size_t i, const struct hx_table *sample,
                                 bool ascii)
{
    const struct hx_answer_column *from = &reply->answer.columns[i];
    struct hx_column *column = &reply->columns[i];
    struct hx_text title = {0};
    hx_text_escape(&title, from->given, strlen(from->given), ascii);
    if (title.failed || !title.n) {
        hx_text_free(&title);
        title = (struct hx_text){0};
    }
    *column = (struct hx_column){
        .name = from->name, .title = title.s, .as = as_of(from), .drop = i ? (int)i : 0};
    int width = widest_answer(column, from, sample, ascii);
    int heading = hx_text_width(column->title ? column->title : column->name);
    heading = heading > COLUMN_MAX ? COLUMN_MAX : heading;
    bool text = column->as == HX_AS_TEXT || column->as == HX_AS_VALUE;
    if (text && width > TEXT_FIXED)
        column->width = width < TEXT_LEAST ? -width : -TEXT_LEAST;
    else
        column->width = width > heading ? width : heading;
    if (text && from->values == 0 && column->width < 1)
        column->width = 1;
    reply->keys[i] = from->name;
    bool addresses = column->as == HX_AS_HEX;
    /* The edge of a root leads to its target; its address lies in the root. */
    if (addresses && (!reply->object ||
                      (strcmp(reply->object, "address") == 0 && strcmp(from->name, "target") == 0)))
        reply->object = from->name;
    return NULL;
}

hx_error *hx_reply_create(struct hx_answer *answer, const struct hx_table *sample, bool ascii,
                          struct hx_reply **ret)
{
    struct hx_reply *reply = calloc(1, sizeof *reply);
    if (!reply) {
        hx_answer_deinit(answer);
        return hx_error_nomem();
    }
    reply->answer = *answer;
    *answer = (struct hx_answer){0};
    size_t n = reply->answer.n_columns;
    reply->columns = calloc(n + 1, sizeof *reply->columns);
    reply->keys = calloc(n + 1, sizeof *reply->keys);
    hx_error *error = reply->columns && reply->keys ? NULL : hx_error_nomem();
    for (size_t i = 0; i < n && !error; i++)
        error = describe_answer(reply, i, sample, ascii);
    if (error)
        hx_reply_destroy(reply);
    else
        *ret = reply;
    return error;
}

void hx_reply_destroy(struct hx_reply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; reply->columns && i < reply->answer.n_columns; i++)
        free((char *)reply->columns[i].title);
    free(reply->columns);
    free(reply->keys);
    hx_answer_deinit(&reply->answer);
    free(reply);
}
