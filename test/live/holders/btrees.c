/* btrees.c - a table of records with a B-tree by number, another by name, and a radix tree of
 * routes. What lies behind the count of a node is what was moved from there. */
#include "truth.h"

#include <stdio.h>

enum { KEYS = 15 }; /* of a node; odd */

struct record {
    uint64_t id;
    char *name;
    size_t length;
    unsigned char *body;
};

struct node {
    unsigned short n, leaf;
    struct record *record[KEYS];
    struct node *child[]; /* of inner nodes: KEYS + 1 */
};

struct tree {
    struct node *root;
    size_t n;
    int (*compare)(const struct record *, const struct record *);
};

/* Radix tree: bytes that all below share, then one child for each next byte. */
struct radix {
    char *prefix;
    struct target {
        unsigned port;
        char host[];
    } * target;
    unsigned short n, size;
    unsigned char *byte;
    struct radix **child;
};

static int order_id(const struct record *a, const struct record *b)
{
    return (a->id > b->id) - (a->id < b->id);
}

static int order_name(const struct record *a, const struct record *b)
{
    int order = strcmp(a->name, b->name);
    return order ? order : order_id(a, b);
}

static struct tree g_by_id = {NULL, 0, order_id};
static struct tree g_by_name = {NULL, 0, order_name};
static struct radix g_routes;

/* --- B-tree ------------------------------------------------------------------------- */

static struct node *node_new(int leaf)
{
    struct node *node = malloc(sizeof *node + (leaf ? 0 : (KEYS + 1) * sizeof(struct node *)));
    node->n = 0;
    node->leaf = (unsigned short)leaf;
    return node;
}

static unsigned place(const struct tree *tree, const struct node *node, const struct record *key,
                      int *equal)
{
    unsigned i = 0;
    int order = -1;
    while (i < node->n && (order = tree->compare(node->record[i], key)) < 0)
        i++;
    *equal = i < node->n && order == 0;
    return i;
}

static void split_child(struct node *parent, unsigned i)
{
    struct node *left = parent->child[i], *right = node_new(left->leaf);
    enum { HALF = KEYS / 2 };
    right->n = HALF;
    memcpy(right->record, left->record + HALF + 1, HALF * sizeof left->record[0]);
    if (!left->leaf)
        memcpy(right->child, left->child + HALF + 1, (HALF + 1) * sizeof left->child[0]);
    left->n = HALF;
    memmove(parent->record + i + 1, parent->record + i, (parent->n - i) * sizeof parent->record[0]);
    memmove(parent->child + i + 2, parent->child + i + 1,
            (parent->n - i) * sizeof parent->child[0]);
    parent->record[i] = left->record[HALF];
    parent->child[i + 1] = right;
    parent->n++;
}

static void tree_add(struct tree *tree, struct record *record)
{
    int equal;
    if (!tree->root)
        tree->root = node_new(1);
    if (tree->root->n == KEYS) {
        struct node *root = node_new(0);
        root->child[0] = tree->root;
        tree->root = root;
        split_child(root, 0);
    }
    struct node *node = tree->root;
    for (;;) {
        unsigned i = place(tree, node, record, &equal);
        if (node->leaf) {
            memmove(node->record + i + 1, node->record + i, (node->n - i) * sizeof node->record[0]);
            node->record[i] = record;
            node->n++;
            tree->n++;
            return;
        }
        if (node->child[i]->n == KEYS) {
            split_child(node, i);
            i += tree->compare(node->record[i], record) < 0;
        }
        node = node->child[i];
    }
}

/* Child i and i + 1, with what is between them, become one. */
static void merge(struct node *node, unsigned i)
{
    struct node *left = node->child[i], *right = node->child[i + 1];
    left->record[left->n] = node->record[i];
    memcpy(left->record + left->n + 1, right->record, right->n * sizeof right->record[0]);
    if (!left->leaf)
        memcpy(left->child + left->n + 1, right->child, (right->n + 1u) * sizeof right->child[0]);
    left->n = (unsigned short)(left->n + 1 + right->n);
    node->n--;
    memmove(node->record + i, node->record + i + 1, (node->n - i) * sizeof node->record[0]);
    memmove(node->child + i + 1, node->child + i + 2, (node->n - i) * sizeof node->child[0]);
    free(right);
}

/* The least record of child i + 1 goes up, and the one between comes down to child i. */
static void rotate_left(struct node *node, unsigned i)
{
    struct node *child = node->child[i], *from = node->child[i + 1];
    child->record[child->n] = node->record[i];
    node->record[i] = from->record[0];
    from->n--;
    child->n++;
    memmove(from->record, from->record + 1, from->n * sizeof from->record[0]);
    if (!child->leaf) {
        child->child[child->n] = from->child[0];
        memmove(from->child, from->child + 1, (from->n + 1u) * sizeof from->child[0]);
    }
}

/* Child i gets a record more than the least, from a neighbour or by merging; returns its place. */
static unsigned enrich(struct node *node, unsigned i)
{
    struct node *child = node->child[i];
    if (child->n > KEYS / 2)
        return i;
    if (i > 0 && node->child[i - 1]->n > KEYS / 2) {
        struct node *from = node->child[i - 1];
        memmove(child->record + 1, child->record, child->n * sizeof child->record[0]);
        child->record[0] = node->record[i - 1];
        node->record[i - 1] = from->record[from->n - 1];
        if (!child->leaf) {
            memmove(child->child + 1, child->child, (child->n + 1u) * sizeof child->child[0]);
            child->child[0] = from->child[from->n];
        }
        from->n--;
        child->n++;
        return i;
    }
    if (i < node->n && node->child[i + 1]->n > KEYS / 2) {
        rotate_left(node, i);
        return i;
    }
    i -= i == node->n;
    merge(node, i);
    return i;
}

static void tree_remove(struct tree *tree, const struct record *record)
{
    struct record **hole = NULL;
    struct node *node = tree->root;
    while (node) {
        int equal = 0;
        unsigned i = hole ? node->n : place(tree, node, record, &equal);
        if (node->leaf) {
            if (hole) {
                *hole = node->record[--node->n];
            } else if (equal) {
                node->n--;
                memmove(node->record + i, node->record + i + 1,
                        (node->n - i) * sizeof node->record[0]);
            } else
                abort();
            break;
        }
        /* Its predecessor takes its place, unless making room below moves it. */
        if (equal && node->child[i]->n > KEYS / 2) {
            hole = &node->record[i];
            node = node->child[i];
            continue;
        }
        if (equal && node->child[i + 1]->n <= KEYS / 2)
            merge(node, i);
        else if (equal)
            rotate_left(node, i); /* which brings it down */
        else
            i = enrich(node, i);
        struct node *next = node->child[i];
        if (node == tree->root && node->n == 0) {
            tree->root = next;
            free(node);
        }
        node = next;
    }
    tree->n--;
}

static struct record *tree_find(const struct tree *tree, const struct record *key)
{
    for (struct node *node = tree->root; node;) {
        int equal;
        unsigned i = place(tree, node, key, &equal);
        if (equal)
            return node->record[i];
        node = node->leaf ? NULL : node->child[i];
    }
    return NULL;
}

/* --- radix tree --------------------------------------------------------------------- */

static struct radix **radix_child(struct radix *node, unsigned char byte)
{
    for (unsigned i = 0; i < node->n; i++)
        if (node->byte[i] == byte)
            return &node->child[i];
    return NULL;
}

static void radix_add_child(struct radix *node, unsigned char byte, struct radix *child)
{
    if (node->n == node->size) {
        node->size = (unsigned short)(node->size ? 2 * node->size : 2);
        node->byte = realloc(node->byte, node->size);
        node->child = realloc(node->child, node->size * sizeof(struct radix *));
    }
    node->byte[node->n] = byte;
    node->child[node->n++] = child;
}

static struct radix *radix_new(const char *prefix, size_t n)
{
    struct radix *node = calloc(1, sizeof *node);
    node->prefix = strndup(prefix, n);
    return node;
}

static struct radix *radix_find(const char *path, int make)
{
    struct radix *node = &g_routes;
    while (*path) {
        struct radix **at = radix_child(node, (unsigned char)*path);
        if (!at) {
            if (!make)
                return NULL;
            struct radix *child = radix_new(path, strlen(path));
            radix_add_child(node, (unsigned char)*path, child);
            return child;
        }
        struct radix *child = *at;
        size_t same = 0;
        while (child->prefix[same] && child->prefix[same] == path[same])
            same++;
        if (child->prefix[same]) {
            if (!make)
                return NULL;
            struct radix *between = radix_new(child->prefix, same);
            char *rest = strdup(child->prefix + same);
            free(child->prefix);
            child->prefix = rest;
            radix_add_child(between, (unsigned char)*rest, child);
            *at = child = between;
        }
        path += same;
        node = child;
    }
    return node;
}

/* Leaves without a target go when their parent is passed again. */
static void radix_prune(struct radix *node)
{
    for (unsigned i = 0; i < node->n; i++) {
        struct radix *child = node->child[i];
        if (child->n == 0 && !child->target) {
            node->n--;
            node->byte[i] = node->byte[node->n];
            node->child[i] = node->child[node->n];
            free(child->prefix);
            free(child->byte);
            free(child->child);
            free(child);
            return;
        }
        if (truth_random(2))
            node = child, i = (unsigned)-1;
    }
}

static void route(unsigned number)
{
    char path[100];
    static const char *const top[] = {"/api/v1/users", "/api/v2/orders", "/static/images", "/a"};
    snprintf(path, sizeof path, "%s/%u/%s", top[number % 4], number / 4,
             number % 5 ? "view" : "edit/all");
    struct radix *node = radix_find(path, truth_random(3) != 0);
    if (!node)
        return;
    free(node->target);
    node->target = NULL;
    if (truth_random(3)) {
        node->target = malloc(sizeof *node->target + 24 + number % 30);
        node->target->port = number;
        snprintf(node->target->host, 24, "backend-%u.internal", number);
    } else
        radix_prune(&g_routes);
}

/* --- what is done ------------------------------------------------------------------- */

static void record_name(struct record *record)
{
    char name[80];
    snprintf(name, sizeof name, "%s-%u", record->id % 3 ? "name" : "a-name-that-is-rather-long",
             (unsigned)truth_random(1u << 24));
    record->name = strdup(name);
}

static void step(void)
{
    struct record key = {.id = truth_random(40000)};
    struct record *record = tree_find(&g_by_id, &key);
    switch (truth_random(8)) {
    case 0:
    case 1:
        if (!record)
            break;
        tree_remove(&g_by_name, record);
        tree_remove(&g_by_id, record);
        free(record->name);
        free(record->body);
        free(record);
        break;
    case 2:
        if (!record)
            break;
        tree_remove(&g_by_name, record);
        free(record->name);
        record_name(record);
        tree_add(&g_by_name, record);
        break;
    case 3:
        if (!record)
            break;
        record->length = truth_random(200);
        record->body = realloc(record->body, record->length + 1);
        memset(record->body, 'b', record->length + 1);
        break;
    case 4 ... 5:
        if (record)
            break;
        record = malloc(sizeof *record);
        record->id = key.id;
        record->length = 0;
        record->body = NULL;
        record_name(record);
        tree_add(&g_by_id, record);
        tree_add(&g_by_name, record);
        break;
    default:
        route((unsigned)truth_random(16000));
    }
}

/* --- the truth ---------------------------------------------------------------------- */

static void tell_node(struct node *const *at, const char *root, int owns)
{
    const struct node *node = *at;
    truth_word(at);
    truth_owns(node, root);
    truth_words(node);
    for (unsigned i = 0; i < node->n; i++) {
        const struct record *record = node->record[i];
        truth_word(&node->record[i]);
        void (*held)(const void *, const char *) = owns ? truth_owns : truth_borrows;
        held(record, root);
        held(record->name, root);
        held(record->body, root);
        truth_words(record);
        truth_words(record->name);
        truth_words(record->body);
        truth_word(&record->name);
        truth_word(&record->body);
    }
    for (unsigned i = 0; !node->leaf && i <= node->n; i++)
        tell_node(&node->child[i], root, owns);
}

static void tell_radix(const struct radix *node)
{
    truth_word(&node->prefix);
    truth_word(&node->target);
    truth_word(&node->byte);
    truth_word(&node->child);
    const void *const blocks[] = {node->prefix, node->target, node->byte, node->child};
    for (int i = 0; i < 4; i++) {
        truth_owns(blocks[i], "g_routes");
        truth_words(blocks[i]);
    }
    for (unsigned i = 0; i < node->n; i++) {
        truth_word(&node->child[i]);
        truth_owns(node->child[i], "g_routes");
        truth_words(node->child[i]);
        tell_radix(node->child[i]);
    }
}

static void tell(void *of)
{
    (void)of;
    TRUTH_ROOT(g_by_id);
    TRUTH_ROOT(g_by_name);
    TRUTH_ROOT(g_routes);
    tell_node(&g_by_id.root, "g_by_id", 1);
    tell_node(&g_by_name.root, "g_by_name", 0);
    tell_radix(&g_routes);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        step();
    truth_rest(argc, argv, tell, NULL);
}
