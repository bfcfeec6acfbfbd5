/* heapx-demo.c - the sample program of `heapx demo`: a make-believe server that leaks.
 *
 * What there is to find: a page cache that only grows, a registry of sessions, request
 * buffers that were forgotten (definite), a queue that was dropped whole (one definite, its
 * items indirect), two peers that hold only each other (a lost cycle), and a ring that is
 * held by a pointer into its middle (possible). Some sessions read a page, so that registry and
 * cache share the pages behind it. Writes "ready" when its heap stands, then
 * lives on and keeps leaking a little until it is ended.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSIONS = 1500,
    BUCKETS = 512,
    PAGES_AT_FIRST = 700,
    PAGES_MOST = 20000,
    PAGES_READ = 200,
    FORGOTTEN_AT_FIRST = 120,
    QUEUE_ITEMS = 400,
    RING_BYTES = 48 * 1024,
};

struct session {
    struct session *next;
    char *user;
    char *token;
    struct page *reading;
};

struct page {
    struct page *older;
    char *url;
    char *body;
    size_t bytes;
};

struct request {
    char *line;
    struct request *next;
    char buffer[512];
};

struct peer {
    struct peer *other;
    char name[56];
};

static struct session *session_registry[BUCKETS];
static struct page *page_cache;
static size_t cached_pages;
/* The ring's beginning is kept nowhere; volatile, for nobody reads it and it must stay. */
static char *volatile log_ring_position;

/* The pointers of leaked blocks pass through here, so that nothing is optimised away. */
static void *volatile passing;

static void *must(void *block)
{
    if (!block)
        exit(1);
    passing = block;
    passing = NULL;
    return block;
}

static void *zalloc(size_t bytes)
{
    return must(calloc(1, bytes));
}

static char *format(const char *pattern, unsigned n)
{
    char text[96];
    snprintf(text, sizeof text, pattern, n);
    return must(strdup(text));
}

static void open_session(unsigned n)
{
    struct session *session = zalloc(sizeof *session);
    session->user = format("user%05u@example.org", n);
    session->token = format("token-%08x-0123456789abcdef0123456789abcdef", n * 2654435761u);
    struct session **bucket = &session_registry[n * 2654435761u % BUCKETS];
    session->next = *bucket;
    *bucket = session;
}

static __attribute__((noinline)) void cache_page(unsigned n)
{
    struct page *page = zalloc(sizeof *page);
    page->bytes = 1024 + n * 2654435761u % 6144;
    page->url = format("/articles/%u/index.html", n);
    page->body = zalloc(page->bytes);
    memset(page->body, 'a' + (int)(n % 26), page->bytes - 1);
    page->older = page_cache;
    page_cache = page;
    cached_pages++;
}

/* Every session of a bucket reads the newest page. */
static void read_page(struct session *session)
{
    for (; session; session = session->next)
        session->reading = page_cache;
}

static struct request *make_request(unsigned n)
{
    struct request *request = zalloc(sizeof *request);
    request->line = format("GET /articles/%u/index.html HTTP/1.1", n);
    return request;
}

/* The error path of a handler that returns without freeing. */
static __attribute__((noinline)) void forget_request(unsigned n)
{
    make_request(n);
}

static __attribute__((noinline)) void drop_queue(void)
{
    struct request *head = NULL;
    for (unsigned i = 0; i < QUEUE_ITEMS; i++) {
        struct request *request = make_request(i);
        request->next = head;
        head = request;
    }
    must(head);
}

static __attribute__((noinline)) void lose_cycle(void)
{
    struct peer *left = zalloc(sizeof *left), *right = zalloc(sizeof *right);
    snprintf(left->name, sizeof left->name, "left");
    snprintf(right->name, sizeof right->name, "right");
    left->other = right;
    right->other = left;
}

static __attribute__((noinline)) void open_ring(void)
{
    char *ring = must(malloc(RING_BYTES));
    memset(ring, '.', RING_BYTES);
    log_ring_position = ring + RING_BYTES / 2;
}

/* Overwrites what the calls before left on the stack and in registers. */
static __attribute__((noinline)) void scrub(void)
{
    volatile char below[16384];
    for (size_t i = 0; i < sizeof below; i++)
        below[i] = 0;
}

static __attribute__((noinline)) void build(void)
{
    for (unsigned i = 0; i < SESSIONS; i++)
        open_session(i);
    for (unsigned i = 0; i < PAGES_AT_FIRST; i++) {
        cache_page(i);
        if (i < PAGES_READ)
            read_page(session_registry[i]);
    }
    for (unsigned i = 0; i < FORGOTTEN_AT_FIRST; i++)
        forget_request(i);
    drop_queue();
    for (int i = 0; i < 8; i++)
        lose_cycle();
    open_ring();
    scrub();
}

static void rest(long milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&pause, &pause) != 0)
        ;
}

static void *serve(void *unused)
{
    (void)unused;
    for (unsigned n = PAGES_AT_FIRST;; n++) {
        rest(20);
        if (cached_pages < PAGES_MOST)
            cache_page(n);
        if (n % 10 == 0 && cached_pages < PAGES_MOST)
            forget_request(n);
        scrub();
    }
    return NULL;
}

int main(void)
{
    /* Where only descendants may be traced, this process lets everybody. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    build();
    pthread_t worker;
    if (pthread_create(&worker, NULL, serve, NULL) != 0)
        return 1;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
