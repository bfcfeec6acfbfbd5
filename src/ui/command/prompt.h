/* prompt.h - a line that is being typed: editing, history, completion.
 *
 * While it is open every key that writes is text; no key does anything else but those that edit,
 * end it, suspend, or draw the screen anew.
 */
#ifndef HX_UI_COMMAND_PROMPT_H
#define HX_UI_COMMAND_PROMPT_H

#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"

struct hx_ui;

/* Lines of one kind of prompt, the newest last. */
struct hx_history {
    const char *label; /* of the prompts that it belongs to */
    HX_VEC(char *) lines;
};
/* Kinds of prompts that have one. */
#define HX_HISTORIES 8

/* Invariant: at <= text.n, at the beginning of a character. */
struct hx_prompt {
    bool active;
    const char *label;   /* "/", ":", "write to " */
    struct hx_text text; /* as the locale writes it */
    size_t at;           /* bytes before the cursor */
    /* Enter: what to do with it. */
    hx_error *(*done)(struct hx_ui *ui, const char *text);
    /* Tab, when it is not NULL: changes text and at (hx_prompt_insert()). */
    hx_error *(*complete)(struct hx_ui *ui, struct hx_prompt *prompt);
    struct hx_text hint; /* stands behind the text until the next key: what it could become */
    /* Any key that is not pasted: true when it was all that it does. NULL: none is special. */
    bool (*key)(struct hx_ui *ui, int key);
    void (*changed)(struct hx_ui *ui); /* after each key; NULL: nobody looks on */
    void (*left)(struct hx_ui *ui);    /* it was left without Enter; may be NULL */

    struct hx_history history[HX_HISTORIES];
    size_t back;          /* lines of the history that were gone back, 0: none */
    struct hx_text draft; /* what stood there before */
};

/* Opens one; `complete`, `key`, `changed` and `left` are then NULL. */
void hx_ui_prompt(struct hx_ui *ui, const char *label, const char *text,
                  hx_error *(*done)(struct hx_ui *, const char *));

/* What a key does to the open prompt; of a pasted one only its character counts. */
void hx_prompt_key(struct hx_ui *ui, int key, bool pasted);

/* Writes at the cursor, as far as there is room. */
void hx_prompt_insert(struct hx_prompt *prompt, const char *bytes, size_t n);

/* Keeps a line for a kind of prompts, as if it had been typed there; the label is a literal. */
void hx_prompt_remember(struct hx_prompt *prompt, const char *label, const char *text);

/* Draws it into a line; returns the column of the cursor. */
int hx_prompt_draw(const struct hx_ui *ui, int y, int columns);

void hx_prompt_deinit(struct hx_prompt *prompt);

#endif
