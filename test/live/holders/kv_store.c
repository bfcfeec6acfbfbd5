/* kv_store.c - a key-value store: a hash table of entries, the order in which they were used,
 * a skip list of scores, and a second table of those that expire. */
#include "truth.h"

#include <stddef.h>
#include <stdio.h>

enum { LEVELS = 16 };

struct text { /* length before the bytes, which are what is pointed to */
    uint32_t length, size;
    char bytes[];
};

struct entry {
    struct entry *next; /* in its bucket */
    char *key;
    enum { TEXT, LIST } kind;
    void *value;                 /* char * of a text, or struct list * */
    struct entry *newer, *older; /* valid while in_order */
    int in_order, accesses;
};

struct list {
    struct item {
        struct item *next, *previous;
        char *value;
    } * head, *tail;
    size_t length;
};

struct expiry {
    struct expiry *next;
    struct entry *entry; /* whose it is */
    uint64_t when;
};

struct score {
    char *member;
    double score;
    struct score *back;
    struct level {
        struct score *next;
        size_t span;
    } level[];
};

static struct {
    struct entry **bucket;
    size_t size, used;
} g_table;
static struct {
    struct entry *newest, *oldest;
    size_t length;
} g_order;
static struct {
    struct expiry **bucket;
    size_t size, used;
} g_expires;
static struct {
    struct score *head, *tail;
    int levels;
    size_t length;
} g_scores;
static uint64_t g_now;

static char *text_new(const char *bytes, size_t length)
{
    size_t room = length + length / 4;
    struct text *text = malloc(sizeof *text + room + 1);
    text->length = (uint32_t)length;
    text->size = (uint32_t)room;
    memcpy(text->bytes, bytes, length);
    text->bytes[length] = 0;
    return text->bytes;
}

static char *text_append(char *bytes, const char *more, size_t n)
{
    struct text *text = (struct text *)(bytes - offsetof(struct text, bytes));
    if (text->length + n > text->size) {
        text->size = (uint32_t)(2 * (text->length + n));
        text = realloc(text, sizeof *text + text->size + 1);
    }
    memcpy(text->bytes + text->length, more, n);
    text->length += (uint32_t)n;
    text->bytes[text->length] = 0;
    return text->bytes;
}

static void text_free(char *bytes)
{
    free(bytes - offsetof(struct text, bytes));
}

static uint64_t hash(const char *key)
{
    uint64_t h = 14695981039346656037u;
    while (*key)
        h = (h ^ (unsigned char)*key++) * 1099511628211u;
    return h ^ h >> 29;
}

/* --- the order of use --------------------------------------------------------------- */

static void order_remove(struct entry *entry)
{
    if (!entry->in_order)
        return;
    *(entry->newer ? &entry->newer->older : &g_order.newest) = entry->older;
    *(entry->older ? &entry->older->newer : &g_order.oldest) = entry->newer;
    entry->in_order = 0;
    g_order.length--;
}

static void order_push(struct entry *entry)
{
    order_remove(entry);
    entry->newer = NULL;
    entry->older = g_order.newest;
    *(g_order.newest ? &g_order.newest->newer : &g_order.oldest) = entry;
    g_order.newest = entry;
    entry->in_order = 1;
    g_order.length++;
}

/* --- tables ------------------------------------------------------------------------- */

static struct entry **table_find(const char *key)
{
    struct entry **at = &g_table.bucket[hash(key) & (g_table.size - 1)];
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

static void table_grow(void)
{
    size_t size = 2 * g_table.size;
    struct entry **bucket = calloc(size, sizeof *bucket);
    for (size_t i = 0; i < g_table.size; i++)
        for (struct entry *entry = g_table.bucket[i], *next; entry; entry = next) {
            next = entry->next;
            struct entry **at = &bucket[hash(entry->key) & (size - 1)];
            entry->next = *at;
            *at = entry;
        }
    free(g_table.bucket);
    g_table.bucket = bucket;
    g_table.size = size;
}

static struct expiry **expiry_find(const struct entry *entry)
{
    struct expiry **at = &g_expires.bucket[hash(entry->key) & (g_expires.size - 1)];
    while (*at && (*at)->entry != entry)
        at = &(*at)->next;
    return at;
}

static void expiry_remove(const struct entry *entry)
{
    struct expiry **at = expiry_find(entry), *expiry = *at;
    if (!expiry)
        return;
    *at = expiry->next;
    free(expiry);
    g_expires.used--;
}

static void value_free(struct entry *entry)
{
    if (entry->kind == TEXT) {
        text_free(entry->value);
        return;
    }
    struct list *list = entry->value;
    for (struct item *item = list->head, *next; item; item = next) {
        next = item->next;
        text_free(item->value);
        free(item);
    }
    free(list);
}

static void entry_remove(struct entry **at)
{
    struct entry *entry = *at;
    expiry_remove(entry);
    order_remove(entry);
    *at = entry->next;
    value_free(entry);
    text_free(entry->key);
    free(entry);
    g_table.used--;
}

static struct entry *entry_of(const char *key, int kind)
{
    struct entry **at = table_find(key);
    if (*at && (int)(*at)->kind != kind)
        entry_remove(at);
    at = table_find(key);
    if (*at)
        return *at;
    if (g_table.used >= g_table.size) {
        table_grow();
        at = table_find(key);
    }
    struct entry *entry = malloc(sizeof *entry);
    entry->key = text_new(key, strlen(key));
    entry->kind = kind;
    entry->value = kind == TEXT ? (void *)text_new("", 0) : calloc(1, sizeof(struct list));
    entry->in_order = 0;
    entry->accesses = 0;
    entry->next = *at;
    *at = entry;
    g_table.used++;
    return entry;
}

/* --- the skip list ------------------------------------------------------------------ */

static struct score *score_new(int levels, const char *member, double value)
{
    struct score *score = malloc(sizeof *score + (size_t)levels * sizeof score->level[0]);
    score->member = member ? text_new(member, strlen(member)) : NULL;
    score->score = value;
    score->back = NULL;
    for (int i = 0; i < levels; i++)
        score->level[i] = (struct level){NULL, 0};
    return score;
}

static int score_before(const struct score *a, double score, const char *member)
{
    return a && (a->score < score || (a->score == score && strcmp(a->member, member) < 0));
}

static void scores_path(double value, const char *member, struct score *path[LEVELS])
{
    struct score *at = g_scores.head;
    for (int i = g_scores.levels - 1; i >= 0; i--) {
        while (score_before(at->level[i].next, value, member))
            at = at->level[i].next;
        path[i] = at;
    }
}

static void score_set(double value, const char *member)
{
    struct score *path[LEVELS];
    scores_path(value, member, path);
    struct score *found = path[0]->level[0].next;
    if (found && found->score == value && strcmp(found->member, member) == 0) {
        for (int i = 0; i < g_scores.levels; i++)
            if (path[i]->level[i].next == found)
                path[i]->level[i].next = found->level[i].next;
        *(found->level[0].next ? &found->level[0].next->back : &g_scores.tail) = found->back;
        text_free(found->member);
        free(found);
        g_scores.length--;
        return;
    }
    int levels = 1;
    while (levels < LEVELS && truth_random(4) == 0)
        levels++;
    for (; g_scores.levels < levels; g_scores.levels++)
        path[g_scores.levels] = g_scores.head;
    struct score *score = score_new(levels, member, value);
    for (int i = 0; i < levels; i++) {
        score->level[i].next = path[i]->level[i].next;
        path[i]->level[i].next = score;
    }
    score->back = path[0] == g_scores.head ? NULL : path[0];
    *(score->level[0].next ? &score->level[0].next->back : &g_scores.tail) = score;
    g_scores.length++;
}

/* --- commands ----------------------------------------------------------------------- */

static void push(struct list *list, const char *value)
{
    struct item *item = malloc(sizeof *item);
    item->value = text_new(value, strlen(value));
    item->next = NULL;
    item->previous = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = item;
    list->tail = item;
    list->length++;
    if (list->length > 9) {
        item = list->head;
        list->head = item->next;
        list->head->previous = NULL;
        text_free(item->value);
        free(item);
        list->length--;
    }
}

static void command(void)
{
    char key[64], value[400];
    uint64_t n = truth_random(30000);
    snprintf(key, sizeof key, n % 3 ? "user:%u" : "a:longer:key:of:something:%u", (unsigned)n);
    memset(value, 'v', sizeof value);
    value[truth_random(n % 50 ? 60 : 399)] = 0;
    g_now++;
    switch (truth_random(10)) {
    case 0 ... 2: {
        struct entry *entry = entry_of(key, TEXT);
        text_free(entry->value);
        entry->value = text_new(value, strlen(value));
        order_push(entry);
        break;
    }
    case 3: {
        struct entry *entry = entry_of(key, TEXT);
        struct text *text = (struct text *)((char *)entry->value - offsetof(struct text, bytes));
        if (text->length < 500)
            entry->value = text_append(entry->value, value, strlen(value));
        order_push(entry);
        break;
    }
    case 4: {
        struct entry *entry = entry_of(key, LIST);
        push(entry->value, value);
        order_push(entry);
        break;
    }
    case 5: {
        struct entry **at = table_find(key);
        if (*at)
            entry_remove(at);
        break;
    }
    case 6: {
        struct entry **at = table_find(key);
        if (!*at)
            break;
        struct expiry **place = expiry_find(*at);
        if (!*place) {
            *place = malloc(sizeof **place);
            (*place)->next = NULL;
            (*place)->entry = *at;
            g_expires.used++;
        }
        (*place)->when = g_now + 40000;
        break;
    }
    case 7: { /* what is pinned is in no order */
        struct entry **at = table_find(key);
        if (*at && (*at)->accesses++ % 3 == 0)
            order_remove(*at);
        break;
    }
    default:
        snprintf(key, sizeof key, "player%u", (unsigned)n);
        score_set((double)(n * 7 % 1000), key);
    }
    while (g_order.length > 16000) { /* the least used one goes */
        struct entry **at = table_find(g_order.oldest->key);
        entry_remove(at);
    }
}

/* --- the truth ---------------------------------------------------------------------- */

static const char *const table = "g_table";
/* The first of a bucket by which it is entered from elsewhere leads to the rest of it. */
static const struct truth_holders of_entries[] = {
    {{"g_table"}, {NULL}}, {{"g_table"}, {"g_expires"}}, {{"g_table"}, {"g_expires", "g_order"}}};
static const struct truth_holders of_expiries = {{"g_expires"}, {NULL}};
static const struct truth_holders of_scores = {{"g_scores"}, {NULL}};

static void tell_block(const void *at, const struct truth_holders *by)
{
    const void *block = *(const void *const *)at;
    truth_word(at);
    truth_held(block, by);
    truth_words(block);
}

static void tell_entry(struct entry *const *at, const struct truth_holders *by)
{
    const struct entry *entry = *at;
    tell_block(at, by);
    truth_word(&entry->next);
    tell_block(&entry->key, by);
    tell_block(&entry->value, by);
    if (entry->in_order) {
        truth_word(&entry->newer);
        truth_word(&entry->older);
    }
    if (entry->kind == TEXT)
        return;
    const struct list *list = entry->value;
    truth_word(&list->tail);
    for (struct item *const *item = &list->head; *item; item = &(*item)->next) {
        tell_block(item, by);
        truth_word(&(*item)->previous);
        tell_block(&(*item)->value, by);
    }
}

static void tell(void *of)
{
    (void)of;
    TRUTH_ROOT(g_table);
    TRUTH_ROOT(g_order);
    TRUTH_ROOT(g_expires);
    TRUTH_ROOT(g_scores);
    truth_word(&g_table.bucket);
    truth_owns(g_table.bucket, table);
    truth_words(g_table.bucket);
    for (size_t i = 0; i < g_table.size; i++) {
        int entered = 0;
        for (struct entry *const *at = &g_table.bucket[i]; *at; at = &(*at)->next) {
            if ((*at)->in_order)
                entered = 2;
            else if (entered == 0 && *expiry_find(*at))
                entered = 1;
            tell_entry(at, &of_entries[entered]);
        }
    }
    truth_word(&g_order.newest);
    truth_word(&g_order.oldest);
    tell_block(&g_expires.bucket, &of_expiries);
    for (size_t i = 0; i < g_expires.size; i++)
        for (struct expiry *const *at = &g_expires.bucket[i]; *at; at = &(*at)->next) {
            tell_block(at, &of_expiries);
            truth_word(&(*at)->entry);
        }
    tell_block(&g_scores.head, &of_scores);
    truth_word(&g_scores.tail);
    for (int i = 0; i < g_scores.levels; i++)
        truth_word(&g_scores.head->level[i].next);
    /* As many levels as lead to it: those of the path. */
    struct score *path[LEVELS];
    for (int i = 0; i < LEVELS; i++)
        path[i] = g_scores.head->level[i].next;
    for (const struct score *score = path[0]; score; score = score->level[0].next) {
        truth_owns(score, "g_scores");
        truth_words(score);
        tell_block(&score->member, &of_scores);
        truth_word(&score->back);
        for (int i = 0; i < LEVELS && path[i] == score; i++) {
            truth_word(&score->level[i].next);
            path[i] = score->level[i].next;
        }
    }
}

int main(int argc, char **argv)
{
    g_table.size = 64;
    g_table.bucket = calloc(g_table.size, sizeof *g_table.bucket);
    g_expires.size = 4096;
    g_expires.bucket = calloc(g_expires.size, sizeof *g_expires.bucket);
    g_scores.head = score_new(LEVELS, NULL, 0);
    g_scores.levels = 1;
    for (int i = 0; i < 300000; i++)
        command();
    truth_rest(argc, argv, tell, NULL);
}
