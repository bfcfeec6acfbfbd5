/* v_trie.c - a radix tree of routes: inner nodes of three sizes, which grow and shrink, leaves that
 * are told by the lowest bit of a pointer. A list by name points to leaves, nodes that are
 * not used wait in lists of their own, and requests remember the leaf that they went to.
 */
#include "u_tell.h"

#include <stdio.h>

enum type { NODE4, NODE16, NODE48, TYPES };
enum { PREFIX = 12, NAMES = 512, ROUTES = 7000, REQUESTS = 1000, KEPT = 250 };

struct node {
    uint8_t type, count, prefix_length;
    unsigned char prefix[PREFIX];
};
struct node4 {
    struct node n;
    unsigned char keys[4];
    void *children[4];
};
struct node16 {
    struct node n;
    unsigned char keys[16];
    void *children[16];
};
struct node48 {
    struct node n;
    unsigned char at[256]; /* index + 1 */
    void *children[48];
};

struct handler {
    char *name;
    uint32_t calls, uses;
    void *filters[3];
};

struct leaf {
    struct handler *handler;
    uint64_t hits;
    uint32_t length; /* with the 0 */
    char path[];
};

struct named {
    struct named *next;
    struct leaf *leaf;
};

struct request {
    struct leaf *leaf; /* NULL: no such route, or it is gone */
    char *body;
    uint64_t when;
};

static struct {
    void *root;
    size_t leaves;
} routes;
static struct named *by_name[NAMES];
static struct {
    void *first[TYPES]; /* each begins with a pointer to the next */
    unsigned count[TYPES];
} unused;
static struct request requests[REQUESTS];

static const size_t sizes[] = {sizeof(struct node4), sizeof(struct node16), sizeof(struct node48)};
static const unsigned room[] = {4, 16, 48};

static bool is_leaf(const void *p)
{
    return (uintptr_t)p & 1;
}
static struct leaf *leaf_of(const void *p)
{
    return (struct leaf *)((uintptr_t)p - 1);
}
static void *tagged(struct leaf *l)
{
    return (char *)l + 1;
}

static void **children_of(struct node *n)
{
    return n->type == NODE4    ? ((struct node4 *)n)->children
           : n->type == NODE16 ? ((struct node16 *)n)->children
                               : ((struct node48 *)n)->children;
}

static unsigned char *keys_of(struct node *n)
{
    return n->type == NODE4 ? ((struct node4 *)n)->keys : ((struct node16 *)n)->keys;
}

static struct node *node_alloc(enum type type)
{
    struct node *n = unused.first[type];
    if (n) {
        memcpy(&unused.first[type], n, sizeof(void *));
        unused.count[type]--;
    } else {
        n = malloc(sizes[type]);
    }
    n->type = (uint8_t)type;
    n->count = n->prefix_length = 0;
    if (type == NODE48)
        memset(((struct node48 *)n)->at, 0, 256);
    return n;
}

static void node_free(struct node *n)
{
    enum type type = n->type;
    if (unused.count[type] >= KEPT) {
        free(n);
        return;
    }
    memcpy(n, &unused.first[type], sizeof(void *));
    unused.first[type] = n;
    unused.count[type]++;
}

static void **child(struct node *n, unsigned char key)
{
    if (n->type == NODE48) {
        unsigned at = ((struct node48 *)n)->at[key];
        return at ? &children_of(n)[at - 1] : NULL;
    }
    for (unsigned i = 0; i < n->count; i++)
        if (keys_of(n)[i] == key)
            return &children_of(n)[i];
    return NULL;
}

/* There is room. */
static void put(struct node *n, unsigned char key, void *what)
{
    if (n->type == NODE48)
        ((struct node48 *)n)->at[key] = (unsigned char)(n->count + 1);
    else
        keys_of(n)[n->count] = key;
    children_of(n)[n->count++] = what;
}

static struct node *resized(struct node *n, enum type type)
{
    struct node *m = node_alloc(type);
    memcpy(m->prefix, n->prefix, PREFIX);
    m->prefix_length = n->prefix_length;
    for (unsigned key = 0; key < 256; key++) {
        void **c = child(n, (unsigned char)key);
        if (c)
            put(m, (unsigned char)key, *c);
    }
    node_free(n);
    return m;
}

static void add(void **at, unsigned char key, void *what)
{
    struct node *n = *at;
    if (n->count == room[n->type])
        *at = n = resized(n, n->type + 1);
    put(n, key, what);
}

/* Nodes for what two paths have in common from `from`; then one with both. */
static void split(void **at, struct leaf *old, struct leaf *new, size_t from)
{
    size_t to = from;
    while (old->path[to] == new->path[to])
        to++;
    for (;;) {
        struct node *n = node_alloc(NODE4);
        size_t length = to - from < PREFIX ? to - from : PREFIX;
        memcpy(n->prefix, new->path + from, length);
        n->prefix_length = (uint8_t)length;
        from += length;
        *at = n;
        if (from == to)
            break;
        put(n, (unsigned char)new->path[from++], NULL);
        at = &children_of(n)[0];
    }
    add(at, (unsigned char)old->path[to], tagged(old));
    add(at, (unsigned char)new->path[to], tagged(new));
}

static void insert(struct leaf *l)
{
    void **at = &routes.root;
    size_t depth = 0;
    for (;;) {
        if (!*at) {
            *at = tagged(l);
            return;
        }
        if (is_leaf(*at)) {
            split(at, leaf_of(*at), l, depth);
            return;
        }
        struct node *n = *at;
        unsigned same = 0;
        while (same < n->prefix_length && n->prefix[same] == (unsigned char)l->path[depth + same])
            same++;
        if (same < n->prefix_length) {
            struct node *above = node_alloc(NODE4);
            memcpy(above->prefix, n->prefix, same);
            above->prefix_length = (uint8_t)same;
            put(above, n->prefix[same], n);
            put(above, (unsigned char)l->path[depth + same], tagged(l));
            n->prefix_length = (uint8_t)(n->prefix_length - same - 1);
            memmove(n->prefix, n->prefix + same + 1, n->prefix_length);
            *at = above;
            return;
        }
        depth += n->prefix_length;
        unsigned char key = (unsigned char)l->path[depth++];
        void **next = child(n, key);
        if (!next) {
            add(at, key, tagged(l));
            return;
        }
        at = next;
    }
}

/* The place of its leaf, and the place of the node above. */
static void **find(const char *path, void ***above)
{
    void **at = &routes.root;
    size_t depth = 0, length = strlen(path) + 1;
    *above = NULL;
    while (at && *at && !is_leaf(*at)) {
        struct node *n = *at;
        if (depth + n->prefix_length >= length)
            return NULL;
        *above = at;
        depth += n->prefix_length;
        at = child(n, (unsigned char)path[depth++]);
    }
    return at && *at && strcmp(leaf_of(*at)->path, path) == 0 ? at : NULL;
}

static void take_out(void **at, void **above)
{
    struct node *n = above ? *above : NULL;
    if (!n) {
        *at = NULL;
        return;
    }
    unsigned i = (unsigned)(at - children_of(n)), last = --n->count;
    if (n->type == NODE48) {
        unsigned char *index = ((struct node48 *)n)->at;
        for (unsigned key = 0; key < 256; key++)
            if (index[key] == i + 1)
                index[key] = 0;
            else if (index[key] == last + 1)
                index[key] = (unsigned char)(i + 1);
    } else {
        keys_of(n)[i] = keys_of(n)[last];
    }
    children_of(n)[i] = children_of(n)[last];
    if (n->count == 1 && is_leaf(children_of(n)[0])) {
        *above = children_of(n)[0];
        node_free(n);
    } else if (n->count == 0) {
        *above = NULL; /* the next one there fills it again */
        node_free(n);
    } else if (n->type != NODE4 && n->count + 2u <= room[n->type - 1]) {
        *above = resized(n, n->type - 1);
    }
}

static uint32_t slot_of(const char *path)
{
    uint32_t h = 5381;
    for (; *path; path++)
        h = h * 33 + (unsigned char)*path;
    return h % NAMES;
}

static void make_path(char *path, size_t size)
{
    static const char *const areas[] = {"api/v1/users", "api/v2/organisations", "static", "a"};
    uint64_t n = truth_random(truth_random(2) ? 3000 : 30000);
    snprintf(path, size, "/%s/%lu%s", areas[n % 4], (unsigned long)(n * 7919 % 30011),
             n % 3   ? ""
             : n % 2 ? "/edit"
                     : "/attachments/latest");
}

static void add_route(const char *path)
{
    size_t length = strlen(path) + 1;
    struct leaf *l = malloc(sizeof *l + length);
    memcpy(l->path, path, length);
    l->length = (uint32_t)length;
    l->hits = 0;
    l->handler = malloc(sizeof *l->handler);
    char name[40];
    snprintf(name, sizeof name, "on_%s%lu", length % 2 ? "get" : "any_method_that_is_allowed",
             (unsigned long)truth_random(1000));
    l->handler->name = strdup(name);
    l->handler->calls = l->handler->uses = 0;
    for (size_t i = 0; i < 3; i++)
        l->handler->filters[i] = truth_random(3) ? NULL : calloc(1, 16 + truth_random(90));
    insert(l);
    routes.leaves++;
    struct named *n = malloc(sizeof *n);
    n->leaf = l;
    n->next = by_name[slot_of(path)];
    by_name[slot_of(path)] = n;
}

static void remove_route(void **at, void **above)
{
    struct leaf *l = leaf_of(*at);
    take_out(at, above);
    routes.leaves--;
    struct named **n = &by_name[slot_of(l->path)];
    while ((*n)->leaf != l)
        n = &(*n)->next;
    struct named *gone = *n;
    *n = gone->next;
    free(gone);
    for (size_t i = 0; i < REQUESTS; i++)
        if (requests[i].leaf == l)
            requests[i].leaf = NULL;
    for (size_t i = 0; i < 3; i++)
        free(l->handler->filters[i]);
    free(l->handler->name);
    free(l->handler);
    free(l);
}

static void churn(void)
{
    for (uint64_t now = 0; now < 300000; now++) {
        char path[96];
        void **above;
        make_path(path, sizeof path);
        void **at = find(path, &above);
        uint64_t what = truth_random(100);
        if (!at && what < 60 && routes.leaves < ROUTES) {
            add_route(path);
        } else if (at && what < 50) {
            remove_route(at, above);
        } else if (what < 75) {
            struct request *r = &requests[truth_random(REQUESTS)];
            free(r->body);
            r->leaf = at ? leaf_of(*at) : NULL;
            r->body = malloc(20 + truth_random(300));
            memset(r->body, 'b', 20);
            r->when = now;
        } else if (at) {
            struct handler *h = leaf_of(*at)->handler;
            size_t i = truth_random(3);
            free(h->filters[i]);
            h->filters[i] = truth_random(2) ? NULL : calloc(1, 16 + truth_random(90));
            leaf_of(*at)->hits++;
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_leaf(const struct tell_as *t, struct leaf *l)
{
    tell_block(t, l);
    tell_word(t, &l->handler);
    tell_words(t, l);
    tell_block(t, l->handler);
    tell_word(t, &l->handler->name);
    tell_block(t, l->handler->name);
    tell_words(t, l->handler->name);
    for (size_t i = 0; i < 3; i++) {
        tell_word(t, &l->handler->filters[i]);
        if (l->handler->filters[i]) {
            tell_block(t, l->handler->filters[i]);
            tell_words(t, l->handler->filters[i]);
        }
    }
    tell_words(t, l->handler);
}

/* As deep as a path is long. */
static void tell_tree(const struct tell_as *t, void *const *at)
{
    if (!*at)
        return;
    tell_word(t, at);
    if (is_leaf(*at)) {
        tell_leaf(t, leaf_of(*at));
        return;
    }
    struct node *n = *at;
    tell_block(t, n);
    for (unsigned i = 0; i < n->count; i++)
        tell_tree(t, &children_of(n)[i]);
    tell_words(t, n);
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(routes);
    TELL_ROOT(by_name);
    TELL_ROOT(unused);
    TELL_ROOT(requests);

    struct tell_as t = {"routes", true, true};
    tell_tree(&t, &routes.root);

    t.name = "by_name";
    struct tell_as borrower = {"by_name", false, false};
    for (size_t i = 0; i < NAMES; i++) {
        tell_word(&t, &by_name[i]);
        for (struct named *n = by_name[i]; n; n = n->next) {
            tell_block(&t, n);
            tell_word(&t, &n->next);
            tell_word(&t, &n->leaf);
            tell_words(&t, n);
            tell_leaf(&borrower, n->leaf);
        }
    }

    t.name = "unused";
    for (unsigned i = 0; i < TYPES; i++) {
        tell_word(&t, &unused.first[i]);
        for (void *n = unused.first[i]; n; memcpy(&n, n, sizeof n)) {
            tell_block(&t, n);
            tell_word(&t, n);
            tell_words(&t, n);
        }
    }

    t.name = borrower.name = "requests";
    for (size_t i = 0; i < REQUESTS; i++) {
        struct request *r = &requests[i];
        tell_word(&t, &r->leaf);
        tell_word(&t, &r->body);
        tell_block(&t, r->body);
        tell_words(&t, r->body);
        if (r->leaf)
            tell_leaf(&borrower, r->leaf);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
