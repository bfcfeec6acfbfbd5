/* u_table.c - an engine of tables, as in SQL: rows in pages of a B+tree, which a page cache keeps
 * as far as it has room, an index of names in memory, a cache of rows as values, prepared
 * statements with cursors.
 */
#include "u_tell.h"

#include <stdio.h>

enum {
    PAGE = 4096,
    FRAMES = 1000,
    DISK = 8192, /* pages */
    LEAF = 40,   /* rows in a page */
    INNER = 300,
    ORDER = 24, /* of the index */
    TABLES = 4,
    ROWS = 4000,
    STATEMENTS = 300,
    BUCKETS = 2048
};

/* --- pages -------------------------------------------------------------------------- */

struct record {
    uint64_t id;
    char name[56];
    double price;
    int64_t count;
};

/* What is in a page: no pointers, as it would be on a disk. */
struct page {
    uint32_t leaf, count, next;
    union {
        struct record rows[LEAF];
        struct {
            uint64_t key[INNER];
            uint32_t child[INNER];
        } inner;
    } u;
};
_Static_assert(sizeof(struct page) <= PAGE, "a page");

struct frame {
    struct frame *in_bucket, *newer, *older;
    uint32_t number;
    unsigned pins;
    bool dirty;
    struct page *page;
};

static struct {
    struct frame *bucket[BUCKETS];
    struct frame *newest, *oldest, *spare;
    unsigned count;
    uint32_t pages;
} pager;
static unsigned char (*disk)[PAGE]; /* mapped, like a file */

static void frame_unlink(struct frame *f)
{
    *(f->newer ? &f->newer->older : &pager.newest) = f->older;
    *(f->older ? &f->older->newer : &pager.oldest) = f->newer;
}

static void frame_first(struct frame *f)
{
    f->newer = NULL;
    f->older = pager.newest;
    *(f->older ? &f->older->newer : &pager.oldest) = f;
    pager.newest = f;
}

static void evict(void)
{
    struct frame *f = pager.oldest;
    while (f && f->pins > 0)
        f = f->newer;
    if (!f)
        return;
    if (f->dirty)
        memcpy(disk[f->number], f->page, sizeof *f->page);
    struct frame **at = &pager.bucket[f->number % BUCKETS];
    while (*at != f)
        at = &(*at)->in_bucket;
    *at = f->in_bucket;
    frame_unlink(f);
    free(f->page);
    f->in_bucket = pager.spare;
    pager.spare = f;
    pager.count--;
}

static struct frame *pin(uint32_t number)
{
    struct frame *f = pager.bucket[number % BUCKETS];
    while (f && f->number != number)
        f = f->in_bucket;
    if (f) {
        frame_unlink(f);
    } else {
        if (pager.count >= FRAMES)
            evict();
        f = pager.spare;
        if (f)
            pager.spare = f->in_bucket;
        else
            f = malloc(sizeof *f);
        f->number = number;
        f->pins = 0;
        f->dirty = false;
        f->page = malloc(PAGE);
        memcpy(f->page, disk[number], sizeof *f->page);
        f->in_bucket = pager.bucket[number % BUCKETS];
        pager.bucket[number % BUCKETS] = f;
        pager.count++;
    }
    frame_first(f);
    f->pins++;
    return f;
}

static void unpin(struct frame *f)
{
    f->pins--;
}

static struct frame *new_page(bool leaf)
{
    struct frame *f = pin(pager.pages++);
    memset(f->page, 0, sizeof *f->page);
    f->page->leaf = leaf;
    f->dirty = true;
    return f;
}

/* --- the index of names -------------------------------------------------------------- */

/* Keys of inner nodes are copies: the leaf's own may go. */
struct node {
    uint16_t leaf, count;
    struct node *next; /* leaf */
    char *key[ORDER];
    union {
        struct node *child[ORDER + 1];
        uint64_t id[ORDER + 1];
    } u;
};

static struct node *node_new(bool leaf)
{
    struct node *n = malloc(sizeof *n);
    n->leaf = leaf;
    n->count = 0;
    n->next = NULL;
    return n;
}

/* The first key that is not below. */
static unsigned node_find(const struct node *n, const char *key)
{
    unsigned low = 0, high = n->count;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (strcmp(n->key[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Splits the full child `at`: the upper half moves, its slots stay as they were. */
static void node_split(struct node *parent, unsigned at)
{
    struct node *n = parent->u.child[at], *upper = node_new(n->leaf);
    unsigned half = ORDER / 2, from = n->leaf ? half : half + 1;
    upper->count = (uint16_t)(n->count - from);
    memcpy(upper->key, n->key + from, upper->count * sizeof *n->key);
    memcpy(upper->u.child, n->u.child + from, (upper->count + 1u) * sizeof *n->u.child);
    char *middle = n->leaf ? strdup(n->key[half - 1]) : n->key[half];
    n->count = (uint16_t)half;
    if (n->leaf) {
        upper->next = n->next;
        n->next = upper;
    }
    memmove(parent->key + at + 1, parent->key + at, (parent->count - at) * sizeof *parent->key);
    memmove(parent->u.child + at + 2, parent->u.child + at + 1,
            (parent->count - at) * sizeof *parent->u.child);
    parent->key[at] = middle;
    parent->u.child[at + 1] = upper;
    parent->count++;
}

static void index_insert(struct node **root, const char *key, uint64_t id)
{
    struct node *n = *root;
    if (n->count == ORDER) {
        *root = node_new(false);
        (*root)->u.child[0] = n;
        node_split(*root, 0);
        n = *root;
    }
    while (!n->leaf) {
        unsigned at = node_find(n, key);
        if (n->u.child[at]->count == ORDER) {
            node_split(n, at);
            at = node_find(n, key);
        }
        n = n->u.child[at];
    }
    unsigned at = node_find(n, key);
    memmove(n->key + at + 1, n->key + at, (n->count - at) * sizeof *n->key);
    memmove(n->u.id + at + 1, n->u.id + at, (n->count - at) * sizeof *n->u.id);
    n->key[at] = strdup(key);
    n->u.id[at] = id;
    n->count++;
}

static void index_remove(struct node *n, const char *key, uint64_t id)
{
    while (!n->leaf)
        n = n->u.child[node_find(n, key)];
    for (unsigned at = node_find(n, key); n; n = n->next, at = 0)
        for (; at < n->count; at++)
            if (n->u.id[at] == id && strcmp(n->key[at], key) == 0) {
                free(n->key[at]);
                n->count--;
                memmove(n->key + at, n->key + at + 1, (n->count - at) * sizeof *n->key);
                memmove(n->u.id + at, n->u.id + at + 1, (n->count - at) * sizeof *n->u.id);
                return;
            }
}

/* --- tables ------------------------------------------------------------------------- */

struct column {
    char *name;
    int type;
    char *check;
};

struct table {
    char *name;
    uint32_t root;
    uint64_t next_id, rows;
    unsigned column_count;
    struct column *columns;
    struct node *by_name;
};

static struct {
    struct table *tables[TABLES];
    unsigned version;
} schema;

static struct frame *find_leaf(struct table *t, uint64_t id)
{
    struct frame *f = pin(t->root);
    while (!f->page->leaf) {
        unsigned low = 0, high = f->page->count; /* the last key that is not above */
        while (high - low > 1) {
            unsigned mid = (low + high) / 2;
            if (f->page->u.inner.key[mid] <= id)
                low = mid;
            else
                high = mid;
        }
        uint32_t child = f->page->u.inner.child[low];
        unpin(f);
        f = pin(child);
    }
    return f;
}

/* Ids grow, so a leaf is full only at the right edge; what is deleted leaves room that nobody
 * takes. The tree has two levels. */
static void append_row(struct table *t, const struct record *r)
{
    struct frame *root = pin(t->root);
    uint32_t last = root->page->u.inner.child[root->page->count - 1];
    struct frame *leaf = pin(last);
    if (leaf->page->count == LEAF) {
        struct frame *fresh = new_page(true);
        leaf->page->next = fresh->number;
        root->page->u.inner.key[root->page->count] = r->id;
        root->page->u.inner.child[root->page->count++] = fresh->number;
        root->dirty = leaf->dirty = true;
        unpin(leaf);
        leaf = fresh;
    }
    leaf->page->u.rows[leaf->page->count++] = *r;
    leaf->dirty = true;
    unpin(leaf);
    unpin(root);
}

static struct record *row_in(struct frame *f, uint64_t id)
{
    for (uint32_t i = 0; i < f->page->count; i++)
        if (f->page->u.rows[i].id == id)
            return &f->page->u.rows[i];
    return NULL;
}

/* --- rows as values ----------------------------------------------------------------- */

struct value {
    enum { NONE, INTEGER, REAL, TEXT } type;
    union {
        int64_t integer;
        double real;
        char *text;
    } u;
};

struct row {
    struct row *in_bucket, *newer, *older;
    struct table *table;
    uint64_t id;
    unsigned count;
    struct value value[6];
};

static struct {
    struct row **bucket;
    struct row *newest, *oldest;
    unsigned count;
} rows;

static void row_unlink(struct row *r)
{
    *(r->newer ? &r->newer->older : &rows.newest) = r->older;
    *(r->older ? &r->older->newer : &rows.oldest) = r->newer;
}

static void row_first(struct row *r)
{
    r->newer = NULL;
    r->older = rows.newest;
    *(r->older ? &r->older->newer : &rows.oldest) = r;
    rows.newest = r;
}

static struct row **row_place(struct table *t, uint64_t id)
{
    struct row **at = &rows.bucket[(id * 31 + t->root) % BUCKETS];
    while (*at && ((*at)->id != id || (*at)->table != t))
        at = &(*at)->in_bucket;
    return at;
}

static void row_forget(struct table *t, uint64_t id)
{
    struct row **at = row_place(t, id), *r = *at;
    if (!r)
        return;
    *at = r->in_bucket;
    row_unlink(r);
    for (unsigned i = 0; i < r->count; i++)
        if (r->value[i].type == TEXT)
            free(r->value[i].u.text);
    free(r);
    rows.count--;
}

static struct row *row_get(struct table *t, uint64_t id)
{
    struct row **at = row_place(t, id), *r = *at;
    if (r) {
        row_unlink(r);
        row_first(r);
        return r;
    }
    struct frame *f = find_leaf(t, id);
    struct record *record = row_in(f, id);
    if (record) {
        r = malloc(sizeof *r);
        r->table = t;
        r->id = id;
        r->count = 3 + id % 3;
        r->value[0].type = INTEGER;
        r->value[0].u.integer = record->count;
        r->value[1].type = TEXT;
        r->value[1].u.text = strdup(record->name);
        r->value[2].type = REAL;
        r->value[2].u.real = record->price;
        for (unsigned i = 3; i < r->count; i++) {
            r->value[i].type = id % 2 ? NONE : TEXT;
            if (id % 2 == 0)
                r->value[i].u.text = strdup("a value by default");
        }
        r->in_bucket = *at;
        *at = r;
        row_first(r);
        if (++rows.count > ROWS)
            row_forget(rows.oldest->table, rows.oldest->id);
    }
    unpin(f);
    return r;
}

/* --- statements --------------------------------------------------------------------- */

struct cursor {
    struct table *table;
    struct frame *frame; /* pinned, or NULL */
    struct node *leaf;
    uint32_t at;
};

struct op {
    int code, a, b;
    union {
        char *text;
        struct column *column;
        int64_t integer;
    } p;
};

struct statement {
    struct statement *next;
    char *sql;
    unsigned op_count;
    struct op *ops;
    struct cursor *cursor;
    struct value parameters[4];
};

enum { OP_COLUMN, OP_TEXT, OP_INTEGER };

static struct {
    struct statement *first;
    unsigned count;
} statements;
static uint64_t prepared;

static void reset(struct statement *s)
{
    if (s->cursor->frame)
        unpin(s->cursor->frame);
    s->cursor->frame = NULL;
    for (unsigned i = 0; i < 4; i++) {
        if (s->parameters[i].type == TEXT)
            free(s->parameters[i].u.text);
        s->parameters[i].type = NONE;
    }
}

static void prepare(void)
{
    char text[200];
    struct statement *s = calloc(1, sizeof *s);
    struct table *t = schema.tables[truth_random(TABLES)];
    snprintf(text, sizeof text, "select * from %s where name > ? and price < %lu order by id",
             t->name, prepared++);
    s->sql = strdup(text);
    s->op_count = 4 + (unsigned)truth_random(20);
    s->ops = malloc(s->op_count * sizeof *s->ops);
    for (unsigned i = 0; i < s->op_count; i++) {
        struct op *op = &s->ops[i];
        op->code = (int)truth_random(3);
        op->a = op->b = (int)i;
        if (op->code == OP_COLUMN) {
            op->p.column = &t->columns[truth_random(t->column_count)];
        } else if (op->code == OP_TEXT) {
            snprintf(text, sizeof text, "literal %u of %lu", i, prepared);
            op->p.text = strdup(text);
        } else {
            op->p.integer = (int64_t)i;
        }
    }
    s->cursor = calloc(1, sizeof *s->cursor);
    s->cursor->table = t;
    s->next = statements.first;
    statements.first = s;
    statements.count++;
}

static void finalize(struct statement **at)
{
    struct statement *s = *at;
    *at = s->next;
    reset(s);
    for (unsigned i = 0; i < s->op_count; i++)
        if (s->ops[i].code == OP_TEXT)
            free(s->ops[i].p.text);
    free(s->ops);
    free(s->cursor);
    free(s->sql);
    free(s);
    statements.count--;
}

static struct statement **any_statement(void)
{
    struct statement **at = &statements.first;
    for (uint64_t i = truth_random(statements.count); i > 0; i--)
        at = &(*at)->next;
    return at;
}

static void step(struct statement *s)
{
    struct cursor *c = s->cursor;
    char text[64];
    if (!c->frame) {
        snprintf(text, sizeof text, "%c parameter of some length", (char)('a' + truth_random(26)));
        s->parameters[0].type = TEXT;
        s->parameters[0].u.text = strdup(text);
        c->leaf = c->table->by_name;
        while (!c->leaf->leaf)
            c->leaf = c->leaf->u.child[node_find(c->leaf, text)];
        c->frame = find_leaf(c->table, truth_random(c->table->next_id + 1));
        c->at = 0;
        return;
    }
    for (unsigned i = 0; i < 12; i++) {
        if (c->at >= c->frame->page->count) {
            uint32_t next = c->frame->page->next;
            unpin(c->frame);
            c->frame = NULL;
            if (next == 0) {
                reset(s);
                return;
            }
            c->frame = pin(next);
            c->at = 0;
        } else {
            row_get(c->table, c->frame->page->u.rows[c->at++].id);
        }
    }
}

/* --- churn -------------------------------------------------------------------------- */

static void insert(struct table *t)
{
    struct record r = {.id = t->next_id};
    if (r.id / LEAF >= INNER)
        return;
    t->next_id++;
    snprintf(r.name, sizeof r.name, "%c%lu %.*s", (char)('a' + truth_random(26)), r.id,
             (int)truth_random(40), "of the second series, with handles and cover");
    r.price = (double)truth_random(100000) / 100;
    append_row(t, &r);
    index_insert(&t->by_name, r.name, r.id);
    t->rows++;
}

static void rename_row(struct table *t, uint64_t id)
{
    struct frame *f = find_leaf(t, id);
    struct record *r = row_in(f, id);
    if (r) {
        index_remove(t->by_name, r->name, id);
        snprintf(r->name, sizeof r->name, "%c%lu renamed", (char)('a' + truth_random(26)), id);
        index_insert(&t->by_name, r->name, id);
        f->dirty = true;
        row_forget(t, id);
    }
    unpin(f);
}

static void delete_row(struct table *t, uint64_t id)
{
    struct frame *f = find_leaf(t, id);
    struct record *r = row_in(f, id);
    if (r) {
        index_remove(t->by_name, r->name, id);
        row_forget(t, id);
        *r = f->page->u.rows[--f->page->count];
        f->dirty = true;
        t->rows--;
    }
    unpin(f);
}

static void create_table(unsigned n)
{
    char text[80];
    struct table *t = schema.tables[n] = calloc(1, sizeof *t);
    snprintf(text, sizeof text, n % 2 ? "orders_%u" : "products_with_their_prices_%u", n);
    t->name = strdup(text);
    t->column_count = 6;
    t->columns = calloc(t->column_count, sizeof *t->columns);
    for (unsigned i = 0; i < t->column_count; i++) {
        snprintf(text, sizeof text, "column_%u", i);
        t->columns[i].name = strdup(text);
        if (i % 2)
            t->columns[i].check = strdup("value is not null and value > 0");
    }
    t->by_name = node_new(true);
    struct frame *root = new_page(false), *leaf = new_page(true);
    t->root = root->number;
    root->page->u.inner.child[0] = leaf->number;
    root->page->count = 1;
    unpin(root);
    unpin(leaf);
}

static void churn(void)
{
    disk =
        mmap(NULL, (size_t)DISK * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rows.bucket = calloc(BUCKETS, sizeof(struct row *));
    pager.pages = 1; /* 0 is none */
    for (unsigned i = 0; i < TABLES; i++)
        create_table(i);
    for (int i = 0; i < 300000; i++) {
        struct table *t = schema.tables[truth_random(TABLES)];
        uint64_t id = truth_random(t->next_id + 1);
        uint64_t what = truth_random(100);
        if (what < 20)
            insert(t);
        else if (what < 24)
            delete_row(t, id);
        else if (what < 32)
            rename_row(t, id);
        else if (what < 36 || statements.count < 20)
            prepare();
        else if (what < 70)
            step(*any_statement());
        else if (what < 76)
            reset(*any_statement());
        else
            row_get(t, id);
        if (statements.count > STATEMENTS)
            finalize(any_statement());
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_node(const struct tell_as *t, const struct node *n)
{
    tell_block(t, n);
    for (unsigned i = 0; i < n->count; i++) {
        tell_block(t, n->key[i]);
        tell_word(t, &n->key[i]);
    }
    if (n->leaf)
        tell_word(t, &n->next);
    for (unsigned i = 0; !n->leaf && i <= n->count; i++) {
        tell_word(t, &n->u.child[i]);
        tell_node(t, n->u.child[i]);
    }
    tell_words(t, n);
}

static void tell_table(const struct tell_as *t, const struct table *table)
{
    tell_block(t, table);
    tell_block(t, table->name);
    tell_block(t, table->columns);
    tell_word(t, &table->name);
    tell_word(t, &table->columns);
    tell_word(t, &table->by_name);
    for (unsigned i = 0; i < table->column_count; i++) {
        tell_block(t, table->columns[i].name);
        tell_block(t, table->columns[i].check);
        tell_word(t, &table->columns[i].name);
        tell_word(t, &table->columns[i].check);
    }
    tell_words(t, table->columns);
    tell_words(t, table);
    tell_node(t, table->by_name);
}

static void tell_tables(const struct tell_as *t)
{
    for (unsigned i = 0; i < TABLES; i++)
        tell_table(t, schema.tables[i]);
}

static void tell_frames(const struct tell_as *t)
{
    for (const struct frame *f = pager.newest; f; f = f->older) {
        tell_block(t, f);
        tell_block(t, f->page);
        tell_word(t, &f->in_bucket);
        tell_word(t, &f->newer);
        tell_word(t, &f->older);
        tell_word(t, &f->page);
        tell_words(t, f);
        tell_words(t, f->page);
    }
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(schema);
    TELL_ROOT(pager);
    TELL_ROOT(rows);
    TELL_ROOT(statements);

    struct tell_as t = {"schema", true, true};
    for (unsigned i = 0; i < TABLES; i++)
        tell_word(&t, &schema.tables[i]);
    tell_tables(&t);

    t = (struct tell_as){"pager", true, true};
    for (unsigned i = 0; i < BUCKETS; i++)
        tell_word(&t, &pager.bucket[i]);
    tell_word(&t, &pager.newest);
    tell_word(&t, &pager.oldest);
    tell_word(&t, &pager.spare);
    tell_frames(&t);
    for (const struct frame *f = pager.spare; f; f = f->in_bucket) {
        tell_block(&t, f);
        tell_word(&t, &f->in_bucket);
        tell_words(&t, f);
    }

    t = (struct tell_as){"rows", true, true};
    tell_block(&t, rows.bucket);
    tell_word(&t, &rows.bucket);
    tell_word(&t, &rows.newest);
    tell_word(&t, &rows.oldest);
    for (unsigned i = 0; i < BUCKETS; i++)
        tell_word(&t, &rows.bucket[i]);
    tell_words(&t, rows.bucket);
    for (const struct row *r = rows.newest; r; r = r->older) {
        tell_block(&t, r);
        tell_word(&t, &r->in_bucket);
        tell_word(&t, &r->newer);
        tell_word(&t, &r->older);
        tell_word(&t, &r->table);
        for (unsigned i = 0; i < r->count; i++)
            if (r->value[i].type == TEXT) {
                tell_block(&t, r->value[i].u.text);
                tell_word(&t, &r->value[i].u.text);
            }
        tell_words(&t, r);
    }
    /* Thousands of rows: there is one of each table, and it leads there. */
    t.own = t.words = false;
    tell_tables(&t);

    t = (struct tell_as){"statements", true, true};
    bool pinned = false;
    tell_word(&t, &statements.first);
    for (const struct statement *s = statements.first; s; s = s->next) {
        tell_block(&t, s);
        tell_block(&t, s->sql);
        tell_block(&t, s->ops);
        tell_block(&t, s->cursor);
        tell_word(&t, &s->next);
        tell_word(&t, &s->sql);
        tell_word(&t, &s->ops);
        tell_word(&t, &s->cursor);
        for (unsigned i = 0; i < 4; i++)
            if (s->parameters[i].type == TEXT) {
                tell_block(&t, s->parameters[i].u.text);
                tell_word(&t, &s->parameters[i].u.text);
            }
        tell_words(&t, s);
        for (unsigned i = 0; i < s->op_count; i++) {
            if (s->ops[i].code == OP_TEXT)
                tell_block(&t, s->ops[i].p.text);
            if (s->ops[i].code != OP_INTEGER)
                tell_word(&t, &s->ops[i].p);
        }
        tell_words(&t, s->ops);
        tell_word(&t, &s->cursor->table);
        tell_word(&t, &s->cursor->frame);
        if (s->cursor->frame) /* else it looks anew when it starts */
            tell_word(&t, &s->cursor->leaf);
        tell_words(&t, s->cursor);
        pinned = pinned || s->cursor->frame;
    }
    t.own = t.words = false;
    tell_tables(&t);
    if (pinned) /* one frame leads to all, through the list by last use */
        tell_frames(&t);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
