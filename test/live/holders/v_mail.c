/* v_mail.c - mailboxes: messages on intrusive lists, in threads that are trees, with their texts in
 * a table that counts references; an index by date that only points, and drafts that wait
 * to be sent.
 */
#include "u_tell.h"

#include <stddef.h>
#include <stdio.h>

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct link {
    struct link *next, *prev;
};

struct text {
    struct text *chain;
    uint32_t uses, hash;
    char bytes[];
};

struct attachment {
    struct attachment *next;
    size_t size;
    unsigned char *bytes;
};

struct message {
    uint64_t date;
    struct text *subject, *from;
    char *body;
    struct link box;                       /* a mailbox's */
    struct link flagged;                   /* to itself if it is not */
    struct message *parent, *child, *next; /* of its thread */
    struct attachment *attachments;
    uint32_t number, index;
};

struct mailbox {
    struct text *name;
    struct link messages;
};

struct draft {
    struct text *to, *subject;
    struct link queue;
    char *body;
    struct attachment *attachments;
    unsigned tries;
};

enum { BOXES = 12, BUCKETS = 2048, MESSAGES = 6000 };

static struct {
    struct text *buckets[BUCKETS];
    size_t count;
} texts;
static struct mailbox boxes[BOXES];
static struct link flagged;
static struct {
    struct message **at;
    size_t used, room;
} by_date;
static struct link drafts;
static unsigned draft_count;
static uint64_t now;

static void list_init(struct link *l)
{
    l->next = l->prev = l;
}

static void list_add(struct link *l, struct link *head)
{
    l->next = head;
    l->prev = head->prev;
    head->prev->next = l;
    head->prev = l;
}

static void list_remove(struct link *l)
{
    l->next->prev = l->prev;
    l->prev->next = l->next;
    list_init(l);
}

static struct text *text_get(const char *bytes)
{
    uint32_t h = 0;
    for (const char *b = bytes; *b; b++)
        h = h * 131 + (unsigned char)*b;
    for (struct text *t = texts.buckets[h % BUCKETS]; t; t = t->chain)
        if (t->hash == h && strcmp(t->bytes, bytes) == 0) {
            t->uses++;
            return t;
        }
    struct text *t = malloc(sizeof *t + strlen(bytes) + 1);
    t->uses = 1;
    t->hash = h;
    strcpy(t->bytes, bytes);
    t->chain = texts.buckets[h % BUCKETS];
    texts.buckets[h % BUCKETS] = t;
    texts.count++;
    return t;
}

static void text_put(struct text *t)
{
    if (--t->uses > 0)
        return;
    struct text **at = &texts.buckets[t->hash % BUCKETS];
    while (*at != t)
        at = &(*at)->chain;
    *at = t->chain;
    texts.count--;
    free(t);
}

static struct text *some_text(const char *what, uint64_t below)
{
    char bytes[100];
    snprintf(bytes, sizeof bytes, "%s %lu", what, (unsigned long)truth_random(below));
    return text_get(bytes);
}

static char *some_body(void)
{
    size_t size = 30 + truth_random(400);
    char *body = malloc(size);
    memset(body, 'm', size - 1);
    body[size - 1] = 0;
    return body;
}

static struct attachment *some_attachments(void)
{
    struct attachment *first = NULL;
    while (truth_random(3) == 0) {
        struct attachment *a = malloc(sizeof *a);
        a->size = 64 + truth_random(1000);
        a->bytes = malloc(a->size);
        memset(a->bytes, 0xa7, a->size);
        a->next = first;
        first = a;
    }
    return first;
}

static void free_attachments(struct attachment *a)
{
    while (a) {
        struct attachment *next = a->next;
        free(a->bytes);
        free(a);
        a = next;
    }
}

static struct message *any(void)
{
    return by_date.used ? by_date.at[truth_random(by_date.used)] : NULL;
}

static void deliver(struct message *parent, struct text *subject, char *body,
                    struct attachment *attachments)
{
    struct message *m = malloc(sizeof *m);
    m->date = now;
    m->subject = subject;
    m->from = some_text(truth_random(2) ? "anna" : "the list of those who are interested", 900);
    m->body = body;
    m->attachments = attachments;
    m->number = (uint32_t)now;
    list_add(&m->box, &boxes[truth_random(BOXES)].messages);
    list_init(&m->flagged);
    m->parent = parent;
    m->child = m->next = NULL;
    if (parent) {
        m->next = parent->child;
        parent->child = m;
    }
    if (by_date.used == by_date.room) {
        by_date.room = by_date.room * 2 + 64;
        by_date.at = realloc(by_date.at, by_date.room * sizeof(struct message *));
    }
    m->index = (uint32_t)by_date.used;
    by_date.at[by_date.used++] = m; /* the newest is the last */
}

/* Its answers take its place. */
static void leave_thread(struct message *m)
{
    struct message *last = NULL;
    for (struct message *c = m->child; c; c = c->next) {
        c->parent = m->parent;
        last = c;
    }
    if (m->parent) {
        struct message **at = &m->parent->child;
        while (*at != m)
            at = &(*at)->next;
        if (last) {
            last->next = m->next;
            *at = m->child;
        } else {
            *at = m->next;
        }
    } else {
        for (struct message *c = m->child, *next; c; c = next) {
            next = c->next;
            c->next = NULL;
        }
    }
}

static void expunge(struct message *m)
{
    leave_thread(m);
    list_remove(&m->box);
    list_remove(&m->flagged);
    memmove(by_date.at + m->index, by_date.at + m->index + 1,
            (by_date.used - m->index - 1) * sizeof(struct message *));
    by_date.used--;
    for (size_t i = m->index; i < by_date.used; i++)
        by_date.at[i]->index = (uint32_t)i;
    text_put(m->subject);
    text_put(m->from);
    free(m->body);
    free_attachments(m->attachments);
    free(m);
}

static void move(struct message *m)
{
    struct mailbox *to = &boxes[truth_random(BOXES)];
    list_remove(&m->box);
    list_add(&m->box, &to->messages);
}

static void answer(struct message *m)
{
    m->subject->uses++;
    deliver(m, m->subject, some_body(), some_attachments());
}

static void write_draft(void)
{
    struct draft *d = malloc(sizeof *d);
    d->to = some_text("bernd", 900);
    d->subject = some_text("about the matter of", 4000);
    d->body = some_body();
    d->attachments = some_attachments();
    d->tries = 0;
    list_add(&d->queue, &drafts);
    draft_count++;
}

/* What is sent is kept as a message: subject, body and attachments move there. */
static void send_draft(void)
{
    if (drafts.next == &drafts)
        return;
    struct draft *d = container_of(drafts.next, struct draft, queue);
    list_remove(&d->queue);
    draft_count--;
    text_put(d->to);
    if (truth_random(4)) {
        deliver(NULL, d->subject, d->body, d->attachments);
    } else {
        text_put(d->subject);
        free(d->body);
        free_attachments(d->attachments);
    }
    free(d);
}

static void churn(void)
{
    list_init(&flagged);
    list_init(&drafts);
    for (size_t i = 0; i < BOXES; i++) {
        list_init(&boxes[i].messages);
        boxes[i].name = some_text("mailbox", 1000000);
    }
    for (now = 0; now < 300000; now++) {
        struct message *m = any();
        uint64_t what = truth_random(100);
        if (!m || what < 10) {
            deliver(NULL, some_text("about the matter of", 4000), some_body(), some_attachments());
        } else if (what < 22) {
            answer(m);
        } else if (what < 50) {
            move(m);
        } else if (what < 60) {
            if (m->flagged.next != &m->flagged)
                list_remove(&m->flagged);
            else if (truth_random(5) == 0)
                list_add(&m->flagged, &flagged);
        } else if (what < 68) {
            free_attachments(m->attachments);
            m->attachments = some_attachments();
        } else if (what < 78 && draft_count < 600) {
            write_draft();
        } else if (what < 86 && draft_count > 200) {
            send_draft();
        }
        while (by_date.used > MESSAGES || (by_date.used > MESSAGES / 2 && what > 93))
            if (what++ > 93 && truth_random(3) == 0)
                break;
            else
                expunge(any());
    }
}

/* --- truth -------------------------------------------------------------------------- */

/* The text is counted, what is behind it in the table is another's. */
static void tell_text(const struct tell_as *t, struct text *const *at)
{
    tell_word(t, at);
    tell_block(t, *at);
    for (const struct text *x = (*at)->chain; x; x = x->chain)
        truth_borrows(x, t->name);
}

static void tell_attachments(const struct tell_as *t, struct attachment *const *first)
{
    tell_word(t, first);
    for (const struct attachment *a = *first; a; a = a->next) {
        tell_block(t, a);
        tell_word(t, &a->next);
        tell_word(t, &a->bytes);
        tell_words(t, a);
        tell_block(t, a->bytes);
        tell_words(t, a->bytes);
    }
}

static void tell_messages(const struct tell_as *t)
{
    for (size_t i = 0; i < BOXES; i++)
        for (struct link *l = boxes[i].messages.next; l != &boxes[i].messages; l = l->next) {
            struct message *m = container_of(l, struct message, box);
            tell_block(t, m);
            tell_text(t, &m->subject);
            tell_text(t, &m->from);
            tell_word(t, &m->body);
            tell_block(t, m->body);
            tell_words(t, m->body);
            tell_word(t, &m->box.next);
            tell_word(t, &m->box.prev);
            tell_word(t, &m->flagged.next);
            tell_word(t, &m->flagged.prev);
            tell_word(t, &m->parent);
            tell_word(t, &m->child);
            tell_word(t, &m->next);
            tell_attachments(t, &m->attachments);
            tell_words(t, m);
        }
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(texts);
    TELL_ROOT(boxes);
    TELL_ROOT(flagged);
    TELL_ROOT(by_date);
    TELL_ROOT(drafts);

    struct tell_as t = {"texts", true, true};
    for (size_t i = 0; i < BUCKETS; i++) {
        tell_word(&t, &texts.buckets[i]);
        for (struct text *x = texts.buckets[i]; x; x = x->chain) {
            tell_block(&t, x);
            tell_word(&t, &x->chain);
            tell_words(&t, x);
        }
    }

    t.name = "boxes";
    for (size_t i = 0; i < BOXES; i++) {
        tell_text(&t, &boxes[i].name);
        tell_word(&t, &boxes[i].messages.next);
        tell_word(&t, &boxes[i].messages.prev);
    }
    tell_messages(&t);

    /* A message leads to all, on its lists. */
    t.name = "flagged";
    tell_word(&t, &flagged.next);
    tell_word(&t, &flagged.prev);
    if (flagged.next != &flagged)
        tell_messages(&(struct tell_as){"flagged", false, false});

    t.name = "by_date";
    tell_word(&t, &by_date.at);
    tell_block(&t, by_date.at);
    for (size_t i = 0; i < by_date.used; i++)
        tell_word(&t, &by_date.at[i]);
    tell_words(&t, by_date.at);
    tell_messages(&(struct tell_as){"by_date", false, false});

    t.name = "drafts";
    tell_word(&t, &drafts.next);
    tell_word(&t, &drafts.prev);
    for (struct link *l = drafts.next; l != &drafts; l = l->next) {
        struct draft *d = container_of(l, struct draft, queue);
        tell_block(&t, d);
        tell_text(&t, &d->to);
        tell_text(&t, &d->subject);
        tell_word(&t, &d->queue.next);
        tell_word(&t, &d->queue.prev);
        tell_word(&t, &d->body);
        tell_block(&t, d->body);
        tell_words(&t, d->body);
        tell_attachments(&t, &d->attachments);
        tell_words(&t, d);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
