/* u_arena.c - a server that parses each request into an arena of its connection.
 *
 * Arenas are chains of blocks, which go to a list of free blocks when the request is done
 * and from there to the next who needs one. Sessions have small arenas of their own, and
 * are in a table and in a list by their last use. Answers are cached.
 */
#include "u_tell.h"

#include <stdio.h>

/* --- arenas ------------------------------------------------------------------------- */

struct block {
    struct block *next;
    size_t used, size;
    char data[];
};

/* What does not fit into a block. */
struct large {
    struct large *next;
    char data[];
};

struct block_pool {
    struct block *free;
    size_t count, most, size;
};

struct arena {
    struct block_pool *pool;
    struct block *first, *current;
    struct large *large;
};

static struct block_pool request_blocks = {.most = 600, .size = 4080};
static struct block_pool session_blocks = {.most = 800, .size = 496};

static struct block *block_get(struct block_pool *pool)
{
    struct block *b = pool->free;
    if (b) {
        pool->free = b->next;
        pool->count--;
    } else {
        b = malloc(pool->size);
        b->size = pool->size - sizeof *b;
    }
    b->next = NULL;
    b->used = 0;
    return b;
}

static void block_put(struct block_pool *pool, struct block *b)
{
    if (pool->count >= pool->most) {
        free(b);
        return;
    }
    b->next = pool->free;
    pool->free = b;
    pool->count++;
}

static void *arena_alloc(struct arena *a, size_t size)
{
    size = (size + 7) & ~(size_t)7;
    if (size > a->pool->size / 2) {
        struct large *l = malloc(sizeof *l + size);
        l->next = a->large;
        a->large = l;
        return l->data;
    }
    if (!a->current || a->current->used + size > a->current->size) {
        struct block *b = block_get(a->pool);
        if (a->current)
            a->current->next = b;
        else
            a->first = b;
        a->current = b;
    }
    void *p = a->current->data + a->current->used;
    a->current->used += size;
    return p;
}

static void arena_reset(struct arena *a)
{
    for (struct block *b = a->first, *next; b; b = next) {
        next = b->next;
        block_put(a->pool, b);
    }
    for (struct large *l = a->large, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    a->first = a->current = NULL;
    a->large = NULL;
}

static char *arena_text(struct arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(arena_alloc(a, n), text, n);
}

/* --- the server --------------------------------------------------------------------- */

struct pair {
    struct pair *next;
    const char *name, *value;
};

struct session {
    struct session *in_bucket, *older, *newer;
    uint64_t id;
    struct arena arena;
    struct pair *attributes;
    unsigned connections;
};

struct request {
    const char *method, *path;
    struct pair *headers, **last_header;
    struct pair *arguments;
    char *body;
    size_t body_size;
};

struct answer {
    struct answer *in_bucket;
    uint64_t hash;
    size_t size;
    char *path;
    char *body;
};

struct connection {
    int fd;
    unsigned requests;
    struct arena arena;
    struct request *request;
    struct session *session;
    char *peer;
};

enum { CONNECTIONS = 1400, SESSIONS = 4096, ANSWERS = 8192 };

static struct {
    struct connection **by_fd;
    size_t size;
} connections;
static struct {
    struct session *bucket[SESSIONS];
    struct session *newest, *oldest;
    size_t count;
} sessions;
static struct {
    struct answer **bucket;
    size_t count;
} answers;
static uint64_t next_session;

static const char *header_name(uint64_t n)
{
    static const char *const names[] = {"Host",   "Accept",          "User-Agent",
                                        "Cookie", "X-Forwarded-For", "Referer"};
    return names[n % 6];
}

static void session_unlink(struct session *s)
{
    *(s->newer ? &s->newer->older : &sessions.newest) = s->older;
    *(s->older ? &s->older->newer : &sessions.oldest) = s->newer;
}

static void session_first(struct session *s)
{
    s->newer = NULL;
    s->older = sessions.newest;
    *(s->older ? &s->older->newer : &sessions.oldest) = s;
    sessions.newest = s;
}

static void session_free(struct session *s)
{
    struct session **at = &sessions.bucket[s->id % SESSIONS];
    while (*at != s)
        at = &(*at)->in_bucket;
    *at = s->in_bucket;
    session_unlink(s);
    arena_reset(&s->arena);
    free(s);
    sessions.count--;
}

static struct session *session_new(void)
{
    struct session *s = malloc(sizeof *s);
    s->id = next_session++;
    s->arena = (struct arena){.pool = &session_blocks};
    s->attributes = NULL;
    s->connections = 0;
    s->in_bucket = sessions.bucket[s->id % SESSIONS];
    sessions.bucket[s->id % SESSIONS] = s;
    session_first(s);
    sessions.count++;
    for (struct session *old = sessions.oldest, *newer; old && sessions.count > 7000; old = newer) {
        newer = old->newer;
        if (old->connections == 0 && old != s)
            session_free(old);
    }
    return s;
}

static struct session *session_find(uint64_t id)
{
    struct session *s = sessions.bucket[id % SESSIONS];
    while (s && s->id != id)
        s = s->in_bucket;
    return s;
}

static void session_remember(struct session *s, uint64_t n)
{
    char value[80];
    struct pair *p = arena_alloc(&s->arena, sizeof *p);
    snprintf(value, sizeof value, "visited page %lu with basket %lu", n, n * 31);
    p->name = arena_text(&s->arena, n % 2 ? "last" : "basket");
    p->value = arena_text(&s->arena, value);
    p->next = s->attributes;
    s->attributes = p;
    if (s->arena.first != s->arena.current && s->arena.first->next != s->arena.current) {
        arena_reset(&s->arena); /* enough: begins anew */
        s->attributes = NULL;
    }
}

static void parse(struct connection *c)
{
    char text[200];
    struct arena *a = &c->arena;
    arena_reset(a);
    struct request *r = c->request = arena_alloc(a, sizeof *r);
    memset(r, 0, sizeof *r);
    r->last_header = &r->headers;
    r->method = truth_random(4) ? "GET" : arena_text(a, "POST");
    snprintf(text, sizeof text, "/shop/items/%lu?sort=price", truth_random(9000));
    r->path = arena_text(a, text);
    for (uint64_t i = 0, n = 4 + truth_random(30); i < n; i++) {
        struct pair *h = arena_alloc(a, sizeof *h);
        h->name = header_name(i);
        snprintf(
            text, sizeof text, "%s: %lu; %.*s", h->name, truth_random(1u << 30),
            (int)truth_random(90),
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp;q=0.8");
        h->value = arena_text(a, text);
        h->next = NULL;
        *r->last_header = h;
        r->last_header = &h->next;
    }
    for (uint64_t i = truth_random(5); i > 0; i--) {
        struct pair *p = arena_alloc(a, sizeof *p);
        snprintf(text, sizeof text, "argument-%lu", i);
        p->name = arena_text(a, text);
        p->value = r->path + 6;
        p->next = r->arguments;
        r->arguments = p;
    }
    if (r->method[0] == 'P') {
        r->body_size = truth_random(truth_random(8) ? 600 : 9000);
        r->body = arena_alloc(a, r->body_size + 1);
        memset(r->body, 'b', r->body_size);
        r->body[r->body_size] = 0;
    }
    c->requests++;
}

static void connection_close(struct connection *c)
{
    arena_reset(&c->arena);
    if (c->session)
        c->session->connections--;
    connections.by_fd[c->fd] = NULL;
    free(c->peer);
    free(c);
}

static struct connection *connection_open(size_t fd)
{
    struct connection *c = calloc(1, sizeof *c);
    char peer[60];
    c->fd = (int)fd;
    c->arena.pool = &request_blocks;
    snprintf(peer, sizeof peer, "10.%lu.0.%zu:%lu", truth_random(256), fd % 256,
             truth_random(65536));
    c->peer = strdup(peer);
    return connections.by_fd[fd] = c;
}

static uint64_t hash(const char *text)
{
    uint64_t h = 5381;
    while (*text)
        h = h * 33 + (unsigned char)*text++;
    return h;
}

static void answer(struct connection *c)
{
    if (!c->request)
        return;
    uint64_t h = hash(c->request->path);
    struct answer **at = &answers.bucket[h % ANSWERS];
    while (*at && ((*at)->hash != h || strcmp((*at)->path, c->request->path) != 0))
        at = &(*at)->in_bucket;
    if (!*at) {
        struct answer *a = malloc(sizeof *a);
        a->in_bucket = NULL;
        a->hash = h;
        a->path = strdup(c->request->path);
        a->size = 40 + truth_random(600);
        a->body = malloc(a->size);
        memset(a->body, 'a', a->size);
        *at = a;
        answers.count++;
    } else if (truth_random(5) == 0) { /* stale */
        struct answer *old = *at;
        *at = old->in_bucket;
        free(old->path);
        free(old->body);
        free(old);
        answers.count--;
    }
}

static void churn(void)
{
    connections.size = CONNECTIONS;
    connections.by_fd = calloc(CONNECTIONS, sizeof(struct connection *));
    answers.bucket = calloc(ANSWERS, sizeof(struct answer *));
    for (int i = 0; i < 300000; i++) {
        size_t fd = truth_random(CONNECTIONS);
        struct connection *c = connections.by_fd[fd];
        uint64_t what = truth_random(100);
        if (!c) {
            connection_open(fd);
        } else if (what < 4) {
            connection_close(c);
        } else if (what < 40) {
            parse(c);
        } else if (what < 70) {
            answer(c);
        } else if (what < 75) { /* kept alive, with nothing to do */
            arena_reset(&c->arena);
            c->request = NULL;
        } else {
            struct session *s = c->session;
            if (!s) {
                s = next_session > 10 ? session_find(next_session - 1 - truth_random(9)) : NULL;
                s = s && what < 80 ? s : session_new();
                c->session = s;
                s->connections++;
            } else {
                session_unlink(s);
                session_first(s);
            }
            session_remember(s, truth_random(1000));
            if (truth_random(3) == 0) {
                s->connections--;
                c->session = NULL;
            }
        }
    }
    for (size_t fd = 0; fd < CONNECTIONS; fd += 4) /* the evening: fewer requests */
        if (connections.by_fd[fd]) {
            arena_reset(&connections.by_fd[fd]->arena);
            connections.by_fd[fd]->request = NULL;
        }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_arena(const struct tell_as *t, const struct arena *a)
{
    tell_word(t, &a->pool);
    tell_word(t, &a->first);
    tell_word(t, &a->current);
    for (const struct block *b = a->first; b; b = b->next) {
        tell_block(t, b);
        tell_word(t, &b->next);
    }
    tell_word(t, &a->large);
    for (const struct large *l = a->large; l; l = l->next) {
        tell_block(t, l);
        tell_word(t, &l->next);
    }
}

static bool in_arena(const struct arena *a, const void *at)
{
    const char *p = at;
    for (const struct block *b = a->first; b; b = b->next)
        if (p >= b->data && p < b->data + b->size)
            return true;
    return false;
}

static void tell_pairs(const struct tell_as *t, const struct arena *a, const struct pair *p)
{
    for (; p; p = p->next) {
        tell_word(t, &p->next);
        if (in_arena(a, p->name)) /* else a literal */
            tell_word(t, &p->name);
        tell_word(t, &p->value);
    }
}

static void tell_connection(const struct tell_as *t, const struct connection *c)
{
    const struct request *r = c->request;
    tell_block(t, c);
    tell_block(t, c->peer);
    tell_word(t, &c->peer);
    tell_word(t, &c->session);
    tell_word(t, &c->request);
    tell_arena(t, &c->arena);
    tell_words(t, c);
    if (!r)
        return;
    if (in_arena(&c->arena, r->method))
        tell_word(t, &r->method);
    tell_word(t, &r->path);
    tell_word(t, &r->headers);
    tell_word(t, &r->last_header);
    tell_word(t, &r->arguments);
    tell_word(t, &r->body);
    tell_pairs(t, &c->arena, r->headers);
    tell_pairs(t, &c->arena, r->arguments);
    for (const struct block *b = c->arena.first; b; b = b->next)
        tell_words(t, b);
}

static void tell_session(const struct tell_as *t, const struct session *s)
{
    tell_block(t, s);
    tell_word(t, &s->in_bucket);
    tell_word(t, &s->older);
    tell_word(t, &s->newer);
    tell_arena(t, &s->arena);
    tell_word(t, &s->attributes);
    tell_pairs(t, &s->arena, s->attributes);
    tell_words(t, s);
    for (const struct block *b = s->arena.first; b; b = b->next)
        tell_words(t, b);
}

static void tell_pool(const char *name, const struct block_pool *pool)
{
    struct tell_as t = {name, true, true};
    tell_word(&t, &pool->free);
    for (const struct block *b = pool->free; b; b = b->next) {
        tell_block(&t, b);
        tell_word(&t, &b->next);
        tell_words(&t, b);
    }
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(connections);
    TELL_ROOT(sessions);
    TELL_ROOT(answers);
    TELL_ROOT(request_blocks);
    TELL_ROOT(session_blocks);

    struct tell_as t = {"connections", true, true};
    tell_block(&t, connections.by_fd);
    tell_word(&t, &connections.by_fd);
    bool with_session = false;
    for (size_t i = 0; i < connections.size; i++)
        if (connections.by_fd[i]) {
            tell_word(&t, &connections.by_fd[i]);
            tell_connection(&t, connections.by_fd[i]);
            with_session = with_session || connections.by_fd[i]->session;
        }
    tell_words(&t, connections.by_fd);

    t = (struct tell_as){"sessions", true, true};
    for (size_t i = 0; i < SESSIONS; i++)
        tell_word(&t, &sessions.bucket[i]);
    tell_word(&t, &sessions.newest);
    tell_word(&t, &sessions.oldest);
    /* One session leads to all others, through the list by last use. */
    struct tell_as also = {"connections", false, false};
    for (const struct session *s = sessions.newest; s; s = s->older) {
        tell_session(&t, s);
        if (with_session)
            tell_session(&also, s);
    }

    t = (struct tell_as){"answers", true, true};
    tell_block(&t, answers.bucket);
    tell_word(&t, &answers.bucket);
    for (size_t i = 0; i < ANSWERS; i++) {
        tell_word(&t, &answers.bucket[i]);
        for (const struct answer *a = answers.bucket[i]; a; a = a->in_bucket) {
            tell_block(&t, a);
            tell_block(&t, a->path);
            tell_block(&t, a->body);
            tell_word(&t, &a->in_bucket);
            tell_word(&t, &a->path);
            tell_word(&t, &a->body);
            tell_words(&t, a);
        }
    }
    tell_words(&t, answers.bucket);

    tell_pool("request_blocks", &request_blocks);
    tell_pool("session_blocks", &session_blocks);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
