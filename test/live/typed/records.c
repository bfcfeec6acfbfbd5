/* records.c - lists, trees, hashes, arrays, unions and what else programs in C make, each block
 * noted. records_other.c has a struct of the same name, and one that is only declared here. */
#define NOTE_HERE
#include "note.h"
#include "records.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct item {
    struct item *next;
    char *text;
    int number;
};
struct entry {
    struct entry *chain;
    void *value;
    unsigned long key;
};
struct hash {
    struct entry **slots;
    unsigned n;
};
struct tree {
    struct tree *left, *right, *up;
    double weight;
    union {
        long number;
        void *any;
    } of;
};
struct flexible {
    int n;
    struct item *items[];
};
struct rows {
    struct rows *next;
    unsigned n;
    struct {
        int key;
        struct item *item;
    } row[];
};
struct old_style {
    struct old_style *next;
    size_t n;
    struct item *items[1];
};
struct text {
    struct text *next;
    unsigned short n;
    char text[];
};
typedef struct {
    struct item *first;
    struct tree *top;
    struct hash index[2];
} model_t;
struct link {
    struct link *next, *prev;
};
struct task {
    int id;
    char name[20];
    struct link link;
    struct item *items;
};
struct timer {
    long when;
    struct link link;
};
struct job {
    struct link link;
    struct task *task;
    unsigned state : 3, priority : 5;
};
enum color { RED, BLACK };
struct colored {
    struct colored *child[2];
    enum color color;
    _Bool big;
    struct colored **where;
};
struct operations {
    int (*open)(const char *);
    void (*close)(int);
    const char *name;
};
struct device {
    const struct operations *operations;
    struct device *parent;
    void *payload;
};
struct matrix {
    double cell[4][4];
    struct item *of[2][3];
    struct matrix *next;
};
struct value {
    enum { NUMBER, TEXT, LIST } kind;
    union {
        double number;
        char *text;
        struct value *list;
    };
    struct value *next;
};
struct ring {
    struct ring *next;
};
struct slab {
    struct slab *next;
    struct item items[8];
};
struct wide {
    struct wide *next;
    long padding[60];
};
struct pair {
    struct item *key, *value;
};
typedef struct graph_node graph_node;
struct graph_node {
    unsigned degree;
    graph_node **neighbours;
    struct graph_node *visited;
};
typedef struct {
    union {
        struct {
            int x, y;
        };
        long both;
    };
    struct item *at;
} * handle;
struct tagged {
    uintptr_t next;
    int n;
};
struct same {
    long a;
    struct same *next;
    long b;
}; /* another one in records_other.c */

static struct {
    struct item *items;
    struct hash hash;
    struct tree *tree;
    struct flexible *flexible[8];
    struct rows *rows;
    struct old_style *old;
    struct text *texts;
    model_t *models;
    struct link tasks, jobs, timers;
    struct task **by_id;
    struct colored *colored;
    struct device *devices[16];
    struct matrix *matrices;
    struct value *values;
    struct ring *ring;
    struct slab *slabs;
    struct wide *wide;
    struct pair *pairs;
    graph_node *graph;
    handle *handles;
    struct tagged *tagged;
    struct same *same;
    struct item (*blocks)[4];
    char **words;
    struct opaque *opaque;
} all;
void *hidden;
struct task *current;

static int open_nothing(const char *name)
{
    return !name;
}
static const struct operations operations = {.open = open_nothing, .name = "nothing"};

#define MAKE(type)      ((struct type *)note(calloc(1, sizeof(struct type)), #type, 1))
#define MAKE_N(type, n) note(calloc(n, sizeof(type)), NAME_OF(#type), n)
#define NAME_OF(type)   (strncmp(type, "struct ", 7) == 0 ? (type) + 7 : (type))

static char *text(size_t n)
{
    char *made = note(malloc(n), "-", 1);
    memset(made, 'x', n);
    made[n - 1] = 0;
    return made;
}

static struct item *item(void)
{
    struct item *made = MAKE(item);
    made->text = text(20 + rand() % 60);
    return made;
}

static struct item *list(size_t n)
{
    struct item *first = NULL;
    while (n--) {
        struct item *made = item();
        made->next = first;
        first = made;
    }
    return first;
}

static struct tree *grow(size_t n, struct tree *up)
{
    if (!n)
        return NULL;
    struct tree *tree = MAKE(tree);
    tree->up = up;
    tree->left = grow((n - 1) / 2, tree);
    tree->right = grow(n - 1 - (n - 1) / 2, tree);
    if (n % 2)
        tree->of.any = text(40);
    else
        tree->of.number = 7;
    return tree;
}

static struct colored *color(size_t n, struct colored **where)
{
    if (!n)
        return NULL;
    struct colored *made = MAKE(colored);
    made->where = where; /* into the parent */
    made->child[0] = color((n - 1) / 2, &made->child[0]);
    made->child[1] = color(n - 1 - (n - 1) / 2, &made->child[1]);
    return made;
}

static void fill(struct hash *hash, unsigned n)
{
    hash->n = n;
    hash->slots = note(calloc(n, sizeof *hash->slots), "entry *", n);
    for (unsigned i = 0; i < 3 * n; i++) {
        struct entry *entry = MAKE(entry);
        entry->chain = hash->slots[i % n];
        entry->key = i;
        entry->value = text(70);
        hash->slots[i % n] = entry;
    }
}

static void link_in(struct link *head, struct link *link)
{
    link->next = head->next;
    link->prev = head;
    if (head->next)
        head->next->prev = link;
    head->next = link;
    if (!head->prev)
        head->prev = link;
}

static void make_lists(size_t n)
{
    all.items = list(n);
    for (size_t i = 0; i < n; i++) {
        struct rows *rows = note(calloc(1, sizeof *rows + i % 7 * 16), "rows", 1);
        rows->next = all.rows;
        for (rows->n = 0; rows->n < i % 7; rows->n++)
            rows->row[rows->n].item = item();
        all.rows = rows;
        struct old_style *old = note(calloc(1, sizeof *old + i % 5 * 8), "old_style", 1);
        old->next = all.old;
        for (old->n = 0; old->n <= i % 5; old->n++)
            old->items[old->n] = item();
        all.old = old;
        struct text *texts = note(calloc(1, sizeof *texts + i % 100), "text", 1);
        texts->next = all.texts;
        all.texts = texts;
        struct matrix *matrix = MAKE(matrix);
        matrix->next = all.matrices;
        matrix->of[1][2] = item();
        all.matrices = matrix;
        struct slab *slab = MAKE(slab);
        slab->next = all.slabs;
        slab->items[3].next = i % 2 ? &slab->items[4] : item();
        all.slabs = slab;
        struct wide *wide = MAKE(wide);
        wide->next = all.wide;
        all.wide = wide;
        struct same *same = MAKE(same);
        same->next = all.same;
        all.same = same;
        struct ring *ring = MAKE(ring);
        ring->next = all.ring ? all.ring->next : ring;
        if (all.ring)
            all.ring->next = ring;
        all.ring = ring;
        struct tagged *tagged =
            note(calloc(1, sizeof *tagged), i + 1 == n ? "tagged" : "?tagged", 1);
        tagged->next = (uintptr_t)all.tagged | 1;
        all.tagged = tagged;
    }
}

static void make_linked(size_t n)
{
    all.by_id = MAKE_N(struct task *, n);
    for (size_t i = 0; i < n; i++) {
        struct task *task = MAKE(task);
        task->items = i % 3 ? NULL : item();
        link_in(&all.tasks, &task->link);
        all.by_id[i] = task;
        struct job *job = MAKE(job);
        job->task = task;
        link_in(&all.jobs, &job->link);
        struct timer *timer = note(calloc(1, sizeof *timer), "?timer", 1);
        link_in(&all.timers, &timer->link);
    }
    current = all.by_id[0];
}

static void make_arrays(size_t n)
{
    for (size_t i = 0; i < 8; i++) {
        all.flexible[i] = note(malloc(sizeof *all.flexible[0] + n * sizeof(void *)), "flexible", 1);
        for (size_t k = 0; k < n; k++)
            all.flexible[i]->items[k] = k % 8 ? NULL : item();
    }
    all.models = MAKE_N(model_t, 20);
    for (size_t i = 0; i < 20; i++) {
        all.models[i].first = list(n / 20);
        all.models[i].top = grow(n / 20, NULL);
        fill(&all.models[i].index[1], (unsigned)n / 20 + 1);
    }
    all.pairs = MAKE_N(struct pair, n);
    all.handles = note(calloc(n, sizeof *all.handles), "(anonymous struct) *", n);
    all.blocks = note(calloc(n, sizeof *all.blocks), "item", 4 * n);
    all.words = MAKE_N(char *, n);
    for (size_t i = 0; i < n; i++) {
        all.pairs[i].key = item();
        all.pairs[i].value = i % 2 ? all.pairs[i].key : NULL;
        all.handles[i] = note(calloc(1, sizeof *all.handles[i]), "(anonymous struct)", 1);
        all.handles[i]->at = item();
        all.blocks[i][i % 4].next = item();
        all.words[i] = text(30);
    }
}

static void make_graph(size_t n)
{
    graph_node **nodes = malloc(n * sizeof *nodes);
    for (size_t i = 0; i < n; i++)
        nodes[i] = MAKE(graph_node);
    for (size_t i = 0; i < n; i++) {
        nodes[i]->degree = 2 + (unsigned)(i % 5);
        nodes[i]->neighbours =
            note(calloc(nodes[i]->degree, sizeof *nodes), "graph_node *", nodes[i]->degree);
        nodes[i]->neighbours[0] = nodes[(i + 1) % n];
        for (unsigned k = 1; k < nodes[i]->degree; k++)
            nodes[i]->neighbours[k] = nodes[(size_t)rand() % n];
    }
    all.graph = nodes[0];
    free(nodes);
}

static void make_others(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct device *device = MAKE(device);
        device->operations = &operations;
        device->parent = all.devices[i % 16];
        device->payload = note(malloc(64), "?payload", 1);
        all.devices[i % 16] = device;
        struct value *value = MAKE(value);
        value->kind = i % 3;
        value->next = all.values;
        if (i % 3 == TEXT)
            value->text = text(50);
        else if (i % 3 == LIST)
            value->list = note(calloc(1, sizeof *value), "?value", 1);
        all.values = value;
    }
    hidden = note(malloc(200), "?hidden", 1);
}

int main(int argc, char **argv)
{
    const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    make_lists(n);
    make_linked(n);
    make_arrays(n);
    make_graph(n);
    make_others(n);
    all.tree = grow(2 * n, NULL);
    all.colored = color(2 * n, NULL);
    fill(&all.hash, (unsigned)n);
    all.opaque = make_opaque(n);
    return note_ready(argv[1], "");
}
