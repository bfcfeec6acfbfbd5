/* v_dns.c - a resolver's cache: names in a chained hash that grows, the least recently used first
 * in a list of its own, records with a length before their data, a wheel of what ends
 * when, questions that wait for an answer, and names of the hosts file.
 */
#include "u_tell.h"

#include <stdio.h>

struct link {
    struct link *next, *prev;
};

struct record {
    struct record *next;
    uint16_t type, length;
    uint32_t ttl;
    unsigned char data[];
};

struct entry {
    struct link lru; /* first: a link is an entry */
    struct entry *chain;
    char *name;
    struct record *records;
    uint32_t hash, ends;
    uint16_t slot, place; /* in the wheel */
};

struct question {
    struct question *next;
    struct entry *alias; /* what led to it, or NULL */
    uint16_t id, size;
    unsigned char *packet;
    char name[64];
};

struct host {
    char *name;
    unsigned char address[4];
};

enum { SLOTS = 512, ENTRIES = 9000, HOSTS = 300 };

static struct {
    struct entry **buckets;
    size_t size, count;
    struct link lru; /* the sentinel */
} cache;
static struct {
    struct entry **at;
    uint16_t used, room;
} wheel[SLOTS];
static struct {
    struct question *first, **last;
    unsigned count;
} waiting;
static struct {
    struct host *hosts;
    size_t count;
} hosts;
static uint32_t now;

static uint32_t hash_of(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static void lru_remove(struct entry *e)
{
    e->lru.next->prev = e->lru.prev;
    e->lru.prev->next = e->lru.next;
}

static void lru_add(struct entry *e)
{
    e->lru.next = &cache.lru;
    e->lru.prev = cache.lru.prev;
    cache.lru.prev->next = &e->lru;
    cache.lru.prev = &e->lru;
}

static void wheel_remove(struct entry *e)
{
    struct entry *last = wheel[e->slot].at[--wheel[e->slot].used];
    wheel[e->slot].at[e->place] = last;
    last->place = e->place;
}

static void wheel_add(struct entry *e, uint32_t ttl)
{
    e->ends = now + ttl;
    e->slot = (uint16_t)(e->ends / 64 % SLOTS);
    if (wheel[e->slot].used == wheel[e->slot].room) {
        wheel[e->slot].room = (uint16_t)(wheel[e->slot].room * 2 + 6);
        wheel[e->slot].at =
            realloc(wheel[e->slot].at, wheel[e->slot].room * sizeof(struct entry *));
    }
    e->place = wheel[e->slot].used;
    wheel[e->slot].at[wheel[e->slot].used++] = e;
}

static void grow(void)
{
    size_t size = cache.size ? cache.size * 2 : 256;
    struct entry **buckets = calloc(size, sizeof *buckets);
    for (size_t i = 0; i < cache.size; i++)
        for (struct entry *e = cache.buckets[i], *next; e; e = next) {
            next = e->chain;
            e->chain = buckets[e->hash & (size - 1)];
            buckets[e->hash & (size - 1)] = e;
        }
    free(cache.buckets);
    cache.buckets = buckets;
    cache.size = size;
}

static void free_records(struct entry *e)
{
    for (struct record *r = e->records, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    e->records = NULL;
}

static void drop(struct entry *e)
{
    struct entry **at = &cache.buckets[e->hash & (cache.size - 1)];
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    cache.count--;
    lru_remove(e);
    wheel_remove(e);
    for (struct question *q = waiting.first; q; q = q->next)
        if (q->alias == e)
            q->alias = NULL;
    free_records(e);
    free(e->name);
    free(e);
}

static struct entry *find(const char *name)
{
    uint32_t h = hash_of(name);
    for (struct entry *e = cache.size ? cache.buckets[h & (cache.size - 1)] : NULL; e; e = e->chain)
        if (e->hash == h && strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

static void add_record(struct entry *e)
{
    static const uint16_t lengths[] = {4, 4, 16, 0, 40};
    uint64_t kind = truth_random(5);
    uint16_t length = lengths[kind];
    if (kind == 3)
        length = (uint16_t)(8 + truth_random(200));
    struct record *r = malloc(sizeof *r + length);
    r->type = (uint16_t)kind;
    r->length = length;
    r->ttl = 60;
    for (uint16_t i = 0; i < length; i++)
        r->data[i] = (unsigned char)(kind < 3 ? truth_random(256) : 'a' + i % 26u);
    r->next = e->records;
    e->records = r;
}

static void store(const char *name)
{
    struct entry *e = find(name);
    if (e) {
        free_records(e);
        lru_remove(e);
        wheel_remove(e);
    } else {
        if (cache.count >= cache.size)
            grow();
        if (cache.count >= ENTRIES)
            drop((struct entry *)cache.lru.next);
        e = malloc(sizeof *e);
        e->name = strdup(name);
        e->hash = hash_of(name);
        e->records = NULL;
        e->chain = cache.buckets[e->hash & (cache.size - 1)];
        cache.buckets[e->hash & (cache.size - 1)] = e;
        cache.count++;
    }
    for (uint64_t i = truth_random(4); i > 0; i--)
        add_record(e);
    lru_add(e);
    wheel_add(e, (uint32_t)(100 + truth_random(25000)));
}

static void ask(const char *name, struct entry *alias)
{
    struct question *q = malloc(sizeof *q);
    q->next = NULL;
    q->alias = alias;
    q->id = (uint16_t)truth_random(65536);
    q->size = (uint16_t)(40 + truth_random(470));
    q->packet = malloc(q->size);
    memset(q->packet, 'q', q->size);
    snprintf(q->name, sizeof q->name, "%s", name);
    *waiting.last = q;
    waiting.last = &q->next;
    waiting.count++;
}

static void answer(void)
{
    struct question *q = waiting.first;
    if (!q)
        return;
    waiting.first = q->next;
    if (!q->next)
        waiting.last = &waiting.first;
    waiting.count--;
    if (truth_random(8)) /* else there is no answer */
        store(q->name);
    free(q->packet);
    free(q);
}

static void expire(void)
{
    uint32_t slot = now / 64 % SLOTS;
    for (uint16_t i = wheel[slot].used; i-- > 0;)
        if (wheel[slot].at[i]->ends <= now)
            drop(wheel[slot].at[i]);
}

static void churn(void)
{
    cache.lru.next = cache.lru.prev = &cache.lru;
    waiting.last = &waiting.first;
    hosts.hosts = malloc(HOSTS * sizeof *hosts.hosts);
    for (; hosts.count < HOSTS; hosts.count++) {
        char name[64];
        snprintf(name, sizeof name, "printer-%zu.%s", hosts.count,
                 hosts.count % 2 ? "lan" : "office.example.org");
        hosts.hosts[hosts.count].name = strdup(name);
        memset(hosts.hosts[hosts.count].address, 10, 4);
    }
    for (now = 0; now < 300000; now++) {
        char name[64];
        uint64_t n = truth_random(truth_random(2) ? 6000 : 40000);
        snprintf(name, sizeof name,
                 n % 4 ? "www.site%lu.org" : "host-%lu.a.subdomain.of.example.com",
                 (unsigned long)n);
        struct entry *e = find(name);
        uint64_t what = truth_random(100);
        if (e && what < 70) {
            lru_remove(e);
            lru_add(e);
            if (what < 10)
                add_record(e);
        } else if (e && what < 75) {
            drop(e);
        } else if (waiting.count < 400) {
            ask(name, e);
        }
        if (waiting.count > 150 && truth_random(2))
            answer();
        if (now % 64 == 63)
            expire();
    }
}

/* --- truth -------------------------------------------------------------------------- */

/* The list of all leads from one entry to all, but not to the array of buckets. */
static void tell_entries(const struct tell_as *t)
{
    for (struct link *l = cache.lru.next; l != &cache.lru; l = l->next) {
        struct entry *e = (struct entry *)l;
        tell_block(t, e);
        tell_word(t, &e->lru.next);
        tell_word(t, &e->lru.prev);
        tell_word(t, &e->chain);
        tell_word(t, &e->name);
        tell_word(t, &e->records);
        tell_words(t, e);
        tell_block(t, e->name);
        tell_words(t, e->name);
        for (struct record *r = e->records; r; r = r->next) {
            tell_block(t, r);
            tell_word(t, &r->next);
            tell_words(t, r);
        }
    }
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(cache);
    TELL_ROOT(wheel);
    TELL_ROOT(waiting);
    TELL_ROOT(hosts);

    struct tell_as t = {"cache", true, true};
    tell_word(&t, &cache.buckets);
    tell_word(&t, &cache.lru.next);
    tell_word(&t, &cache.lru.prev);
    tell_block(&t, cache.buckets);
    for (size_t i = 0; i < cache.size; i++)
        tell_word(&t, &cache.buckets[i]);
    tell_words(&t, cache.buckets);
    tell_entries(&t);

    t.name = "wheel";
    for (size_t i = 0; i < SLOTS; i++) {
        tell_word(&t, &wheel[i].at);
        tell_block(&t, wheel[i].at);
        for (uint16_t k = 0; k < wheel[i].used; k++)
            tell_word(&t, &wheel[i].at[k]);
        tell_words(&t, wheel[i].at);
    }
    tell_entries(&(struct tell_as){"wheel", false, false});

    t.name = "waiting";
    bool alias = false;
    tell_word(&t, &waiting.first);
    tell_word(&t, &waiting.last);
    for (struct question *q = waiting.first; q; q = q->next) {
        tell_block(&t, q);
        tell_word(&t, &q->next);
        tell_word(&t, &q->alias);
        tell_word(&t, &q->packet);
        tell_words(&t, q);
        tell_block(&t, q->packet);
        tell_words(&t, q->packet);
        alias |= q->alias != NULL;
    }
    if (alias)
        tell_entries(&(struct tell_as){"waiting", false, false});

    t.name = "hosts";
    tell_word(&t, &hosts.hosts);
    tell_block(&t, hosts.hosts);
    for (size_t i = 0; i < hosts.count; i++) {
        tell_word(&t, &hosts.hosts[i].name);
        tell_block(&t, hosts.hosts[i].name);
        tell_words(&t, hosts.hosts[i].name);
    }
    tell_words(&t, hosts.hosts);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
