/* input.h - from the bytes that a terminal sends to keys.
 *
 * Curses could do it, but holds an escape sequence that comes in two parts for several keys, hands
 * on what it does not know byte by byte (as commands, then), and loses half-read characters.
 * Here Esc is a key 25 ms after it came; what follows it late and can only be the rest of a key is
 * that key, and the Esc is to be taken back. Sequences that nobody knows are swallowed whole.
 */
#ifndef HX_UI_TERM_INPUT_H
#define HX_UI_TERM_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key that means nothing to the explorer. */
#define HX_KEY_UNKNOWN (-1)

enum hx_mouse { HX_MOUSE_NONE, HX_MOUSE_CLICK, HX_MOUSE_UP, HX_MOUSE_DOWN };

struct hx_input_key {
    char bytes[16];
    unsigned char n;
    int key;
};

struct hx_input {
    /* What was read and not decoded: bytes[at .. n). Invariant: at >= 1, so that an Esc can be put
     * back before it. */
    unsigned char bytes[4096];
    size_t at, n;
    uint64_t last_ns;    /* when the last of them came */
    uint64_t escaped_ns; /* when an Esc was told of that nothing followed; 0: something did */
    struct hx_input_key keys[48];
    size_t n_keys;

    /* Of the last key: it was pasted; it turned the Esc before it into its own beginning; what the
     * mouse did. */
    bool pasted, late;
    enum hx_mouse mouse;
    int mouse_row, mouse_column;

    bool pasting;
};

void hx_input_init(struct hx_input *input);

/* Bytes that mean a key (as curses numbers them, negative); for the terminal's own, besides those
 * that all terminals of today have in common. */
void hx_input_add_key(struct hx_input *input, const char *bytes, int key);

/* Room for bytes that are read; hx_input_took() says how many came. */
unsigned char *hx_input_room(struct hx_input *input, size_t *ret_n);
void hx_input_took(struct hx_input *input, size_t n, uint64_t now_ns);

/* The next key: a character, or negative as curses numbers them. False when there is none before
 * more comes, or before hx_input_wait_ms() is over. */
bool hx_input_next(struct hx_input *input, uint64_t now_ns, int *ret);

/* How long what is there may still become another key; -1: nothing is there. */
int hx_input_wait_ms(const struct hx_input *input, uint64_t now_ns);

#endif
