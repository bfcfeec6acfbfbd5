/* u_editor.c - an editor's buffers: a rope of lines for each (a treap by position), the line that
 * is edited in a gap buffer, a list of what can be undone, marks, a ring of what was killed.
 *
 * Texts of lines are counted: the rope, the undo list and the kill ring share them.
 */
#include "u_tell.h"

#include <stdio.h>

struct text {
    unsigned uses, length;
    char bytes[];
};

struct line {
    struct line *left, *right;
    struct text *text;
    uint32_t priority, count; /* of lines in this subtree */
};

struct undo {
    struct undo *next;
    struct text *text; /* what stood there */
    uint32_t at;
    enum { INSERTED, DELETED, CHANGED } kind;
};

struct mark {
    struct mark *next;
    struct buffer *buffer;
    char *label;
    uint32_t at;
};

struct gap {
    char *text;
    size_t size, from, to;
};

struct buffer {
    struct buffer *next, *previous;
    char *name;
    struct line *lines;
    struct undo *undo;
    unsigned undos;
    struct mark *marks;
    struct gap gap;
    int64_t edited; /* the line in the gap buffer, or -1 */
};

enum { KILLS = 60, BOOKMARKS = 200, BUFFERS = 56, UNDOS = 500, HISTORY = 400 };

static struct buffer buffers = {.next = &buffers, .previous = &buffers}; /* the list's head */
static unsigned buffer_count;
static struct buffer *current;
static struct {
    struct text **texts; /* of several lines, one after another */
    unsigned count;
} kill_ring[KILLS];
static unsigned kill_next;
static struct mark *bookmarks[BOOKMARKS];
static struct {
    struct undo *free;
    unsigned count;
} undo_records;
static struct {
    char **lines;
    size_t count, size;
} history;
static uint64_t made;

/* --- texts and lines ---------------------------------------------------------------- */

static struct text *text_new(const char *bytes, size_t n)
{
    struct text *t = malloc(sizeof *t + n);
    t->uses = 1;
    t->length = (unsigned)n;
    memcpy(t->bytes, bytes, n);
    return t;
}

static struct text *text_use(struct text *t)
{
    t->uses++;
    return t;
}

static void text_drop(struct text *t)
{
    if (t && --t->uses == 0)
        free(t);
}

static uint32_t count(const struct line *l)
{
    return l ? l->count : 0;
}

static struct line *counted(struct line *l)
{
    l->count = 1 + count(l->left) + count(l->right);
    return l;
}

static struct line *join(struct line *a, struct line *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a->right = join(a->right, b);
        return counted(a);
    }
    b->left = join(a, b->left);
    return counted(b);
}

static void split(struct line *l, uint32_t at, struct line **a, struct line **b)
{
    if (!l) {
        *a = *b = NULL;
    } else if (count(l->left) < at) {
        split(l->right, at - count(l->left) - 1, &l->right, b);
        *a = counted(l);
    } else {
        split(l->left, at, a, &l->left);
        *b = counted(l);
    }
}

static struct line *line_at(struct line *l, uint32_t at)
{
    while (at != count(l->left)) {
        if (at < count(l->left)) {
            l = l->left;
        } else {
            at -= count(l->left) + 1;
            l = l->right;
        }
    }
    return l;
}

static void lines_free(struct line *l)
{
    if (!l)
        return;
    lines_free(l->left);
    lines_free(l->right);
    text_drop(l->text);
    free(l);
}

/* --- undo --------------------------------------------------------------------------- */

static void undo_put(struct undo *u)
{
    text_drop(u->text);
    if (undo_records.count > 2000) {
        free(u);
        return;
    }
    u->next = undo_records.free;
    undo_records.free = u;
    undo_records.count++;
}

static void remember(struct buffer *b, int kind, uint32_t at, struct text *text)
{
    struct undo *u = undo_records.free;
    if (u) {
        undo_records.free = u->next;
        undo_records.count--;
    } else {
        u = malloc(sizeof *u);
    }
    u->kind = kind;
    u->at = at;
    u->text = text;
    u->next = b->undo;
    b->undo = u;
    if (++b->undos > UNDOS) { /* the older half goes */
        for (unsigned i = 1; i < UNDOS / 2; i++)
            u = u->next;
        struct undo *old = u->next;
        u->next = NULL;
        b->undos = UNDOS / 2;
        for (struct undo *next; old; old = next) {
            next = old->next;
            undo_put(old);
        }
    }
}

static void insert_line(struct buffer *b, uint32_t at, struct text *text)
{
    struct line *l = malloc(sizeof *l), *before, *after;
    l->left = l->right = NULL;
    l->text = text;
    l->priority = (uint32_t)truth_random(1u << 31);
    l->count = 1;
    split(b->lines, at, &before, &after);
    b->lines = join(join(before, l), after);
}

static struct text *take_line(struct buffer *b, uint32_t at)
{
    struct line *before, *l, *after;
    split(b->lines, at, &before, &after);
    split(after, 1, &l, &after);
    b->lines = join(before, after);
    struct text *text = l->text;
    free(l);
    return text;
}

static void undo(struct buffer *b)
{
    struct undo *u = b->undo;
    if (!u)
        return;
    b->undo = u->next;
    b->undos--;
    uint32_t n = count(b->lines);
    if (u->kind == INSERTED && u->at < n && n > 1) {
        text_drop(take_line(b, u->at));
    } else if (u->kind == DELETED && u->at <= n) {
        insert_line(b, u->at, text_use(u->text));
    } else if (u->kind == CHANGED && u->at < n) {
        struct line *l = line_at(b->lines, u->at);
        text_drop(l->text);
        l->text = text_use(u->text);
    }
    undo_put(u);
}

/* --- the line that is edited -------------------------------------------------------- */

static void gap_open(struct gap *g, const struct text *text)
{
    if (g->size < text->length + 32) {
        g->size = text->length + 96;
        g->text = realloc(g->text, g->size);
    }
    memcpy(g->text, text->bytes, text->length);
    g->from = text->length;
    g->to = g->size;
}

static void gap_move(struct gap *g, size_t to)
{
    if (to < g->from) {
        size_t n = g->from - to;
        memmove(g->text + g->to - n, g->text + to, n);
        g->from -= n;
        g->to -= n;
    }
}

static void gap_type(struct gap *g, char c)
{
    if (g->from == g->to) {
        size_t behind = g->size - g->to;
        g->text = realloc(g->text, g->size * 2);
        memmove(g->text + g->size * 2 - behind, g->text + g->to, behind);
        g->to = g->size * 2 - behind;
        g->size *= 2;
    }
    g->text[g->from++] = c;
}

static void commit(struct buffer *b)
{
    if (b->edited < 0)
        return;
    struct gap *g = &b->gap;
    size_t behind = g->size - g->to;
    if (b->edited < count(b->lines)) {
        memmove(g->text + g->from, g->text + g->to, behind);
        struct line *l = line_at(b->lines, (uint32_t)b->edited);
        size_t n = g->from + behind > 240 ? 240 : g->from + behind;
        remember(b, CHANGED, (uint32_t)b->edited, l->text);
        l->text = text_new(g->text, n);
    }
    b->edited = -1;
}

/* --- commands ----------------------------------------------------------------------- */

static struct text *new_line(void)
{
    char text[300];
    int n =
        snprintf(text, sizeof text, "%.*s%lu: %.*s", (int)truth_random(16), "                ",
                 made++, (int)truth_random(100),
                 "the quick brown fox jumps over the lazy dog; sphinx of black quartz, judge my "
                 "vow; pack my box");
    return text_new(text, (size_t)n);
}

static void open_buffer(void)
{
    struct buffer *b = calloc(1, sizeof *b);
    char name[100];
    snprintf(name, sizeof name, made % 2 ? "notes-%lu.txt" : "src/parser/expressions/file-%lu.c",
             made);
    b->name = strdup(name);
    b->edited = -1;
    b->next = &buffers;
    b->previous = buffers.previous;
    b->previous->next = b->next->previous = b;
    buffer_count++;
    for (uint64_t i = 200 + truth_random(900); i > 0; i--)
        insert_line(b, count(b->lines), new_line());
    current = b;
}

static void close_buffer(struct buffer *b)
{
    b->next->previous = b->previous;
    b->previous->next = b->next;
    buffer_count--;
    current = b->next == &buffers ? buffers.next : b->next;
    for (struct mark *m = b->marks, *next; m; m = next) {
        next = m->next;
        for (size_t i = 0; i < BOOKMARKS; i++)
            if (bookmarks[i] == m)
                bookmarks[i] = NULL;
        free(m->label);
        free(m);
    }
    for (struct undo *u = b->undo, *next; u; u = next) {
        next = u->next;
        undo_put(u);
    }
    lines_free(b->lines);
    free(b->gap.text);
    free(b->name);
    free(b);
}

static void kill_lines(struct buffer *b, uint32_t at, uint32_t n)
{
    unsigned slot = kill_next++ % KILLS;
    for (unsigned i = 0; i < kill_ring[slot].count; i++)
        text_drop(kill_ring[slot].texts[i]);
    free(kill_ring[slot].texts);
    kill_ring[slot].texts = malloc(n * sizeof(struct text *));
    kill_ring[slot].count = n;
    for (uint32_t i = 0; i < n; i++) {
        struct text *text = take_line(b, at);
        kill_ring[slot].texts[i] = text_use(text);
        remember(b, DELETED, at, text);
    }
}

static void yank(struct buffer *b, uint32_t at)
{
    unsigned slot = (unsigned)truth_random(KILLS);
    for (unsigned i = 0; i < kill_ring[slot].count; i++) {
        insert_line(b, at + i, text_use(kill_ring[slot].texts[i]));
        remember(b, INSERTED, at + i, NULL);
    }
}

static void set_mark(struct buffer *b, uint32_t at)
{
    char label[60];
    struct mark *m = malloc(sizeof *m);
    snprintf(label, sizeof label, "mark at line %u", at);
    *m = (struct mark){b->marks, b, strdup(label), at};
    b->marks = m;
    if (truth_random(4) == 0)
        bookmarks[truth_random(BOOKMARKS)] = m;
}

static void remove_mark(struct buffer *b)
{
    struct mark *m = b->marks;
    if (!m)
        return;
    b->marks = m->next;
    for (size_t i = 0; i < BOOKMARKS; i++)
        if (bookmarks[i] == m)
            bookmarks[i] = NULL;
    free(m->label);
    free(m);
}

static void into_history(void)
{
    char line[80];
    snprintf(line, sizeof line, "find-file /home/user/documents/%lu", made);
    if (history.count == HISTORY) {
        free(history.lines[0]);
        memmove(history.lines, history.lines + 1, (HISTORY - 1) * sizeof(char *));
        history.count--;
    }
    if (history.count == history.size) {
        history.size = history.size ? history.size * 2 : 16;
        history.lines = realloc(history.lines, history.size * sizeof(char *));
    }
    history.lines[history.count++] = strdup(line);
}

static void switch_buffer(void)
{
    commit(current);
    for (uint64_t i = truth_random(BUFFERS); i > 0; i--)
        current = current->next == &buffers ? buffers.next : current->next;
}

static void churn(void)
{
    while (buffer_count < BUFFERS)
        open_buffer();
    for (int i = 0; i < 300000; i++) {
        struct buffer *b = current;
        uint32_t n = count(b->lines), at = (uint32_t)truth_random(n);
        uint64_t what = truth_random(1000);
        if (what < 2) {
            if (buffer_count > 20)
                close_buffer(b);
            while (buffer_count < BUFFERS - 4)
                open_buffer();
        } else if (what < 60) {
            switch_buffer();
            if (what < 10)
                into_history();
        } else if (what < 260 && n < 1500) {
            commit(b);
            insert_line(b, at, new_line());
            remember(b, INSERTED, at, NULL);
        } else if (what < 400 && n > 60) {
            commit(b);
            remember(b, DELETED, at, take_line(b, at));
        } else if (what < 750) {
            commit(b);
            b->edited = at;
            gap_open(&b->gap, line_at(b->lines, at)->text);
            gap_move(&b->gap, truth_random(b->gap.from + 1));
            for (uint64_t k = truth_random(12); k > 0; k--)
                gap_type(&b->gap, 'k');
        } else if (what < 800) {
            commit(b);
            undo(b);
        } else if (what < 830 && n > 200) {
            commit(b);
            uint32_t lines = (uint32_t)truth_random(20) + 1;
            kill_lines(b, at > n - lines ? n - lines : at, lines);
        } else if (what < 850 && n < 1500) {
            commit(b);
            yank(b, at);
        } else if (what < 870) {
            set_mark(b, at);
        } else if (what < 885) {
            remove_mark(b);
        }
    }
    commit(current);
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_lines(const struct tell_as *t, const struct line *l)
{
    if (!l)
        return;
    tell_block(t, l);
    tell_block(t, l->text);
    tell_word(t, &l->left);
    tell_word(t, &l->right);
    tell_word(t, &l->text);
    tell_words(t, l);
    tell_lines(t, l->left);
    tell_lines(t, l->right);
}

static void tell_buffers(const struct tell_as *t)
{
    for (const struct buffer *b = buffers.next; b != &buffers; b = b->next) {
        tell_block(t, b);
        tell_block(t, b->name);
        tell_block(t, b->gap.text);
        tell_word(t, &b->next);
        tell_word(t, &b->previous);
        tell_word(t, &b->name);
        tell_word(t, &b->lines);
        tell_word(t, &b->undo);
        tell_word(t, &b->marks);
        tell_word(t, &b->gap.text);
        tell_words(t, b);
        tell_lines(t, b->lines);
        for (const struct undo *u = b->undo; u; u = u->next) {
            tell_block(t, u);
            tell_block(t, u->text);
            tell_word(t, &u->next);
            tell_word(t, &u->text);
            tell_words(t, u);
        }
        for (const struct mark *m = b->marks; m; m = m->next) {
            tell_block(t, m);
            tell_block(t, m->label);
            tell_word(t, &m->next);
            tell_word(t, &m->buffer);
            tell_word(t, &m->label);
            tell_words(t, m);
        }
    }
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(buffers);
    TELL_ROOT(current);
    TELL_ROOT(kill_ring);
    TELL_ROOT(bookmarks);
    TELL_ROOT(undo_records);
    TELL_ROOT(history);

    struct tell_as t = {"buffers", true, true};
    tell_word(&t, &buffers.next);
    tell_word(&t, &buffers.previous);
    tell_buffers(&t);

    t = (struct tell_as){"current", true, true};
    tell_word(&t, &current);
    t.own = false;
    t.words = false;
    tell_buffers(&t);

    t = (struct tell_as){"bookmarks", true, true};
    bool some = false;
    for (size_t i = 0; i < BOOKMARKS; i++) {
        tell_word(&t, &bookmarks[i]);
        some = some || bookmarks[i];
    }
    t.own = false;
    t.words = false;
    if (some)
        tell_buffers(&t);

    t = (struct tell_as){"kill_ring", true, true};
    for (size_t i = 0; i < KILLS; i++) {
        tell_word(&t, &kill_ring[i].texts);
        tell_block(&t, kill_ring[i].texts);
        for (unsigned k = 0; k < kill_ring[i].count; k++) {
            tell_word(&t, &kill_ring[i].texts[k]);
            tell_block(&t, kill_ring[i].texts[k]);
        }
        tell_words(&t, kill_ring[i].texts);
    }

    t = (struct tell_as){"undo_records", true, true};
    tell_word(&t, &undo_records.free);
    for (const struct undo *u = undo_records.free; u; u = u->next) {
        tell_block(&t, u);
        tell_word(&t, &u->next);
        tell_words(&t, u);
    }

    t = (struct tell_as){"history", true, true};
    tell_word(&t, &history.lines);
    tell_block(&t, history.lines);
    for (size_t i = 0; i < history.count; i++) {
        tell_word(&t, &history.lines[i]);
        tell_block(&t, history.lines[i]);
    }
    tell_words(&t, history.lines);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
