/* sharing.c - a program's library of works: each work is in a list, a hash table and a tree, or in
 * some of them, and lives as long as one of these refers to it. */
#include "truth.h"

#include <stdio.h>

enum { BUCKETS = 8192, WORDS = 3 };

struct work {
    unsigned references, id;
    char *title;
    struct note {
        struct note *next;
        unsigned page;
        char text[];
    } * notes;
    char *keyword[WORDS];
};

struct link {
    struct link *next, *previous;
    struct work *work;
};

struct slot {
    struct slot *next;
    struct work *work;
};

struct branch {
    struct branch *left, *right;
    unsigned priority;
    struct work *work;
};

static struct link g_recent = {&g_recent, &g_recent, NULL}; /* a ring with its head */
static unsigned g_n_recent;
static struct slot *g_by_title[BUCKETS];
static struct branch *g_by_id;

static char *copy(const char *form, unsigned number)
{
    char text[160];
    snprintf(text, sizeof text, form, number, number % 77);
    return strdup(text);
}

static struct work *work_new(unsigned id)
{
    struct work *work = malloc(sizeof *work);
    work->references = 0;
    work->id = id;
    work->title = copy(id % 3 ? "work %u" : "the collected works of author %u, in %u volumes", id);
    work->notes = NULL;
    for (int i = 0; i < WORDS; i++)
        work->keyword[i] =
            truth_random(3) ? copy("keyword-%u", (unsigned)truth_random(1000)) : NULL;
    return work;
}

static void work_drop(struct work *work)
{
    if (--work->references > 0)
        return;
    free(work->title);
    for (struct note *note = work->notes, *next; note; note = next) {
        next = note->next;
        free(note);
    }
    for (int i = 0; i < WORDS; i++)
        free(work->keyword[i]);
    free(work);
}

static void work_annotate(struct work *work, unsigned page)
{
    size_t length = 8 + truth_random(90);
    struct note *note = malloc(sizeof *note + length);
    memset(note->text, 'n', length - 1);
    note->text[length - 1] = 0;
    note->page = page;
    note->next = work->notes;
    work->notes = note;
    unsigned n = 0;
    for (struct note **at = &work->notes; *at; at = &(*at)->next)
        if (++n > 5) {
            struct note *last = *at;
            *at = NULL;
            free(last);
            break;
        }
}

/* --- the list ----------------------------------------------------------------------- */

static void recent_add(struct work *work)
{
    struct link *link = malloc(sizeof *link);
    link->work = work;
    work->references++;
    link->next = g_recent.next;
    link->previous = &g_recent;
    g_recent.next->previous = link;
    g_recent.next = link;
    if (++g_n_recent <= 6000)
        return;
    link = g_recent.previous;
    link->previous->next = &g_recent;
    g_recent.previous = link->previous;
    work_drop(link->work);
    free(link);
    g_n_recent--;
}

/* --- the table ---------------------------------------------------------------------- */

static struct slot **by_title(unsigned id)
{
    struct slot **at = &g_by_title[id * 2654435761u % BUCKETS];
    while (*at && (*at)->work->id != id)
        at = &(*at)->next;
    return at;
}

static void title_add(struct work *work)
{
    struct slot **at = by_title(work->id);
    if (*at)
        return;
    *at = malloc(sizeof **at);
    **at = (struct slot){NULL, work};
    work->references++;
}

static void title_remove(unsigned id)
{
    struct slot **at = by_title(id), *slot = *at;
    if (!slot)
        return;
    *at = slot->next;
    work_drop(slot->work);
    free(slot);
}

/* --- the tree: a treap -------------------------------------------------------------- */

static void split(struct branch *tree, unsigned id, struct branch **less, struct branch **more)
{
    while (tree)
        if (tree->work->id < id) {
            *less = tree;
            less = &tree->right;
            tree = tree->right;
        } else {
            *more = tree;
            more = &tree->left;
            tree = tree->left;
        }
    *less = *more = NULL;
}

static struct branch **by_id(unsigned id)
{
    struct branch **at = &g_by_id;
    while (*at && (*at)->work->id != id)
        at = id < (*at)->work->id ? &(*at)->left : &(*at)->right;
    return at;
}

static void id_add(struct work *work)
{
    if (*by_id(work->id))
        return;
    struct branch *branch = malloc(sizeof *branch), **at = &g_by_id;
    branch->priority = (unsigned)truth_random(1u << 30);
    branch->work = work;
    work->references++;
    while (*at && (*at)->priority > branch->priority)
        at = work->id < (*at)->work->id ? &(*at)->left : &(*at)->right;
    split(*at, work->id, &branch->left, &branch->right);
    *at = branch;
}

static void id_remove(unsigned id)
{
    struct branch **at = by_id(id), *gone = *at;
    if (!gone)
        return;
    struct branch *left = gone->left, *right = gone->right;
    while (left && right)
        if (left->priority > right->priority) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    *at = left ? left : right;
    work_drop(gone->work);
    free(gone);
}

static struct work *find(unsigned id)
{
    struct slot *slot = *by_title(id);
    struct branch *branch = slot ? NULL : *by_id(id);
    return slot ? slot->work : branch ? branch->work : NULL;
}

static void step(unsigned id)
{
    struct work *work = find(id);
    switch (truth_random(9)) {
    case 0:
        title_remove(id);
        break;
    case 1:
        id_remove(id);
        break;
    case 2:
    case 3:
        if (work)
            work_annotate(work, id);
        break;
    case 4:
        title_add(work ? work : work_new(id));
        break;
    case 5:
        id_add(work ? work : work_new(id));
        break;
    case 6:
        if (work) {
            free(work->title);
            work->title = copy("renamed %u, %u", id);
        }
        break;
    default:
        if (truth_random(4) == 0)
            recent_add(work ? work : work_new(id));
    }
}

/* --- the truth ---------------------------------------------------------------------- */

static void tell_work(struct work *const *at, const char *root)
{
    const struct work *work = *at;
    truth_word(at);
    truth_owns(work, root);
    truth_words(work);
    truth_word(&work->title);
    truth_owns(work->title, root);
    truth_words(work->title);
    for (struct note *const *note = &work->notes; *note; note = &(*note)->next) {
        truth_word(note);
        truth_owns(*note, root);
        truth_words(*note);
    }
    for (int i = 0; i < WORDS; i++) {
        truth_word(&work->keyword[i]);
        truth_owns(work->keyword[i], root);
        truth_words(work->keyword[i]);
    }
}

static void tell_branch(struct branch *const *at, int depth)
{
    const struct branch *branch = *at;
    if (!branch || depth > 1000)
        return;
    truth_word(at);
    truth_owns(branch, "g_by_id");
    truth_words(branch);
    tell_work(&branch->work, "g_by_id");
    tell_branch(&branch->left, depth + 1);
    tell_branch(&branch->right, depth + 1);
}

static void tell(void *of)
{
    (void)of;
    TRUTH_ROOT(g_recent);
    TRUTH_ROOT(g_by_title);
    TRUTH_ROOT(g_by_id);
    truth_word(&g_recent.next);
    truth_word(&g_recent.previous);
    for (const struct link *link = g_recent.next; link != &g_recent; link = link->next) {
        truth_owns(link, "g_recent");
        truth_words(link);
        truth_word(&link->next);
        truth_word(&link->previous);
        tell_work(&link->work, "g_recent");
    }
    for (int i = 0; i < BUCKETS; i++)
        for (struct slot *const *at = &g_by_title[i]; *at; at = &(*at)->next) {
            truth_word(at);
            truth_owns(*at, "g_by_title");
            truth_words(*at);
            tell_work(&(*at)->work, "g_by_title");
        }
    tell_branch(&g_by_id, 0);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        step((unsigned)truth_random(24000));
    truth_rest(argc, argv, tell, NULL);
}
