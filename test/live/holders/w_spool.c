/* w_spool.c - a spooler: jobs of several kinds in one union, taken from and given back to a list of
 * free ones without being cleared, users in a table, and cookies that are only compared.
 */
#include "u_tell.h"

#include <stdio.h>

enum kind { PRINT, MAIL, BATCH, WAIT, KINDS };

struct page {
    struct page *next;
    size_t bytes;
    char text[];
};

struct user {
    struct user *next; /* of its bucket */
    char *name;
    unsigned number, jobs;
    const void *last; /* only compared: was it this one? */
};

struct job {
    struct job *next;
    enum kind kind;
    unsigned number;
    union {
        struct {
            char *title;
            struct page *pages;
        } print;
        struct {
            char *from, *to;
        } mail;
        struct {
            uint64_t begin;
            char **arguments; /* ends with NULL */
        } batch;
        struct {
            double until, since;
        } wait;
    };
    struct user *user; /* the table's */
};

enum { BUCKETS = 512, USERS = 3000, LINES = 400 };

static struct user *users[BUCKETS];
static struct {
    struct job *first, **last;
    unsigned count;
} queue = {NULL, &queue.first, 0};
static struct job *free_jobs;
static unsigned free_count;
static char *history[LINES];
static unsigned user_count, next_user;

static char *text(const char *form, uint64_t below)
{
    char *line = NULL;
    if (asprintf(&line, form, (unsigned)truth_random(below)) < 0)
        abort();
    return line;
}

static struct user *find_user(unsigned number)
{
    struct user *u = users[number % BUCKETS];
    while (u && u->number != number)
        u = u->next;
    return u;
}

static void add_user(void)
{
    struct user *u = malloc(sizeof *u);
    u->number = next_user++;
    u->name = text("user-with-a-name-%u", 100000);
    u->jobs = 0;
    u->last = NULL;
    u->next = users[u->number % BUCKETS];
    users[u->number % BUCKETS] = u;
    user_count++;
}

static void remove_user(unsigned number)
{
    struct user **at = &users[number % BUCKETS];
    while (*at && ((*at)->number != number || (*at)->jobs))
        at = &(*at)->next;
    struct user *u = *at;
    if (!u)
        return;
    *at = u->next;
    free(u->name);
    free(u);
    user_count--;
}

static struct page *make_pages(void)
{
    struct page *first = NULL;
    for (uint64_t n = 1 + truth_random(3); n > 0; n--) {
        const size_t bytes = 40 + truth_random(200);
        struct page *p = malloc(sizeof *p + bytes);
        memset(p->text, 'p', bytes / 2);
        p->bytes = bytes;
        p->next = first;
        first = p;
    }
    return first;
}

static void put_job(void)
{
    struct user *u = find_user((unsigned)truth_random(next_user));
    struct job *j = free_jobs;
    if (!u)
        return;
    if (j) {
        free_jobs = j->next;
        free_count--;
    } else {
        j = malloc(sizeof *j);
    }
    j->kind = (enum kind)truth_random(KINDS);
    j->number = u->jobs++;
    j->user = u;
    j->next = NULL;
    switch (j->kind) {
    case PRINT:
        j->print.title = text("a title %u of what is printed", 9999);
        j->print.pages = make_pages();
        break;
    case MAIL:
        j->mail.from = text("from%u@example.org", 9999);
        j->mail.to = text("to%u@a-longer-name.example.org", 9999);
        break;
    case BATCH: {
        const size_t n = truth_random(6);
        j->batch.begin = truth_random(1000);
        j->batch.arguments = malloc((n + 1) * sizeof(char *));
        for (size_t i = 0; i < n; i++)
            j->batch.arguments[i] = text("--argument=%u", 9999);
        j->batch.arguments[n] = NULL;
        break;
    }
    default: /* what was there stays: `since` is set when it is waited for */
        if (truth_random(2))
            j->wait.until = (double)truth_random(1000);
        break;
    }
    u->last = j;
    *queue.last = j;
    queue.last = &j->next;
    queue.count++;
}

static void run_job(void)
{
    struct job *j = queue.first;
    if (!j)
        return;
    queue.first = j->next;
    if (!queue.first)
        queue.last = &queue.first;
    queue.count--;
    j->user->jobs--;
    char **line = &history[truth_random(LINES)];
    switch (j->kind) {
    case PRINT:
        free(*line);
        *line = j->print.title;
        for (struct page *p = j->print.pages, *next; p; p = next) {
            next = p->next;
            free(p);
        }
        break;
    case MAIL:
        free(j->mail.from);
        free(j->mail.to);
        break;
    case BATCH:
        for (char **a = j->batch.arguments; *a; a++)
            free(*a);
        free(j->batch.arguments);
        break;
    default:
        break;
    }
    if (free_count < 500) {
        j->next = free_jobs;
        free_jobs = j;
        free_count++;
    } else {
        free(j);
    }
}

static void churn(void)
{
    while (user_count < USERS)
        add_user();
    for (unsigned i = 0; i < 300000; i++) {
        const uint64_t what = truth_random(100);
        if (what < 45 && queue.count < 6000)
            put_job();
        else if (what < 85 && queue.count > 4000)
            run_job();
        else if (what < 92 && user_count < USERS + 500)
            add_user();
        else if (what < 98)
            remove_user((unsigned)truth_random(next_user));
    }
}

static void tell_user(const struct tell_as *t, struct user *u)
{
    tell_block(t, u);
    tell_word(t, &u->next);
    tell_word(t, &u->name);
    tell_words(t, u);
    tell_block(t, u->name);
    tell_words(t, u->name);
}

static void tell_job(const struct tell_as *t, struct job *j)
{
    const struct tell_as lent = {t->name, false, false};
    tell_block(t, j);
    tell_word(t, &j->next);
    tell_word(t, &j->user);
    for (struct user *u = j->user; u; u = u->next)
        tell_user(&lent, u);
    if (j->kind == PRINT) {
        tell_word(t, &j->print.title);
        tell_word(t, &j->print.pages);
        tell_block(t, j->print.title);
        tell_words(t, j->print.title);
        for (struct page *p = j->print.pages; p; p = p->next) {
            tell_block(t, p);
            tell_word(t, &p->next);
            tell_words(t, p);
        }
    } else if (j->kind == MAIL) {
        tell_word(t, &j->mail.from);
        tell_word(t, &j->mail.to);
        tell_block(t, j->mail.from);
        tell_words(t, j->mail.from);
        tell_block(t, j->mail.to);
        tell_words(t, j->mail.to);
    } else if (j->kind == BATCH) {
        tell_word(t, &j->batch.arguments);
        tell_block(t, j->batch.arguments);
        tell_words(t, j->batch.arguments);
        for (char **a = j->batch.arguments; *a; a++) {
            tell_word(t, a);
            tell_block(t, *a);
            tell_words(t, *a);
        }
    }
    tell_words(t, j);
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(users);
    TELL_ROOT(queue);
    TELL_ROOT(free_jobs);
    TELL_ROOT(history);
    struct tell_as t = {"users", true, true};
    for (size_t i = 0; i < BUCKETS; i++) {
        tell_word(&t, &users[i]);
        for (struct user *u = users[i]; u; u = u->next)
            tell_user(&t, u);
    }
    t.name = "queue";
    tell_word(&t, &queue.first);
    tell_word(&t, &queue.last);
    for (struct job *j = queue.first; j; j = j->next)
        tell_job(&t, j);
    t.name = "free_jobs";
    tell_word(&t, &free_jobs);
    for (struct job *j = free_jobs; j; j = j->next) {
        tell_block(&t, j);
        tell_word(&t, &j->next);
        tell_words(&t, j);
    }
    t.name = "history";
    for (size_t i = 0; i < LINES; i++) {
        tell_word(&t, &history[i]);
        if (!history[i])
            continue;
        tell_block(&t, history[i]);
        tell_words(&t, history[i]);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
