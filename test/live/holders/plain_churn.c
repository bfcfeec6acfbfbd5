/* plain_churn.c - a proxy's tables as C programmers write them: connections, requests and
 * buffers. Fields of what was freed stay as they were: who reads them looks at a state first. */
#include "truth.h"

#include <stdio.h>

enum { SLOTS = 4096, HOSTS = 1024 };

struct buffer {
    struct buffer *next;
    size_t used, size;
    char bytes[];
};

struct host {
    struct host *next;
    char *name;
    unsigned requests, connections;
    const void *last; /* only compared: was it this one? */
};

struct request {
    struct connection *connection;
    struct request *next;
    struct host *host; /* held by g_hosts */
    char *line;
    char *referer; /* NULL, or valid while has_referer */
    struct buffer *body, *body_end;
    int state, has_referer;
};

struct connection {
    int fd;
    enum { IDLE, BUSY, CLOSING } state;
    char peer[40];
    struct request *current, *waiting; /* current: valid while BUSY */
    struct buffer *out;
    unsigned n_waiting;
};

static struct connection *g_connections[SLOTS];
static struct host *g_hosts[HOSTS];
static struct request *g_free_requests; /* kept for the next one */
static unsigned g_n_free_requests;
static struct buffer *g_free_buffers;
static struct {
    char **lines;
    size_t n, size;
} g_log;

static char *text(const char *form, unsigned a, unsigned b)
{
    char *line = NULL;
    if (asprintf(&line, form, a, b) < 0)
        abort();
    return line;
}

static struct host *host_of(unsigned number)
{
    struct host **at = &g_hosts[number % HOSTS];
    for (; *at; at = &(*at)->next)
        if ((unsigned)atoi((*at)->name + 5) == number)
            return *at;
    struct host *host = malloc(sizeof *host);
    host->next = NULL;
    host->name = text("host-%u.example.org:%u", number, 80 + number % 9);
    host->requests = host->connections = 0;
    return *at = host;
}

static struct buffer *buffer_new(size_t size)
{
    struct buffer *buffer = g_free_buffers;
    if (buffer && size > 256 && buffer->size >= size)
        g_free_buffers = buffer->next;
    else {
        buffer = malloc(sizeof *buffer + size);
        buffer->size = size;
    }
    buffer->next = NULL;
    buffer->used = truth_random(size);
    memset(buffer->bytes, 'x', buffer->used);
    return buffer;
}

static void buffers_free(struct buffer *buffer)
{
    while (buffer) {
        struct buffer *next = buffer->next;
        if (buffer->size >= 512 && truth_random(2)) {
            buffer->next = g_free_buffers;
            g_free_buffers = buffer;
        } else
            free(buffer);
        buffer = next;
    }
}

static struct request *request_new(struct connection *connection)
{
    struct request *request = g_free_requests;
    if (request) {
        g_free_requests = request->next;
        g_n_free_requests--;
    } else
        request = malloc(sizeof *request);
    request->connection = connection;
    request->next = NULL;
    request->host = host_of((unsigned)truth_random(5000));
    request->host->requests++;
    request->host->last = request;
    request->line =
        text("GET /%u/index-%u.html HTTP/1.1", (unsigned)truth_random(100000), connection->fd);
    request->has_referer = truth_random(3) == 0;
    if (request->has_referer)
        request->referer = text("http://referer-%u.example/%u", (unsigned)truth_random(5000), 1);
    request->state = 0;
    request->body = request->body_end = NULL;
    for (unsigned n = (unsigned)truth_random(3); n > 0; n--) {
        struct buffer *buffer = buffer_new(64 + truth_random(600));
        if (request->body)
            request->body_end->next = buffer;
        else
            request->body = buffer;
        request->body_end = buffer;
    }
    return request;
}

static void request_free(struct request *request)
{
    if (request->host->last == request)
        request->host->connections++;
    request->host->requests--;
    free(request->line);
    if (request->has_referer)
        free(request->referer);
    buffers_free(request->body);
    if (g_n_free_requests < 500) {
        request->next = g_free_requests; /* all else stays as it was */
        g_free_requests = request;
        g_n_free_requests++;
    } else
        free(request);
}

static void log_line(const struct request *request)
{
    if (g_log.n == g_log.size) {
        g_log.size = g_log.size ? 2 * g_log.size : 64;
        g_log.lines = realloc(g_log.lines, g_log.size * sizeof *g_log.lines);
    }
    g_log.lines[g_log.n++] =
        text("%u done, state %u", (unsigned)atoi(request->line + 5), (unsigned)request->state);
    if (g_log.n >= 9000) {
        for (size_t i = 0; i < 4500; i++)
            free(g_log.lines[i]);
        g_log.n -= 4500;
        memmove(g_log.lines, g_log.lines + 4500, g_log.n * sizeof *g_log.lines);
    }
}

static void finish(struct connection *connection)
{
    if (connection->state != BUSY)
        return;
    log_line(connection->current);
    request_free(connection->current);
    connection->state = IDLE;
    if (connection->n_waiting > 0) {
        connection->current = connection->waiting;
        connection->waiting = connection->current->next;
        connection->n_waiting--;
        connection->state = BUSY;
    }
}

/* Requests come in waves. */
static void event(unsigned fd, int busy)
{
    struct connection *connection = g_connections[fd];
    if (!connection) {
        g_connections[fd] = connection = malloc(sizeof *connection);
        connection->fd = (int)fd;
        connection->state = IDLE;
        connection->n_waiting = 0;
        connection->waiting = NULL;
        connection->out = NULL;
        snprintf(connection->peer, sizeof connection->peer, "10.0.%u.%u", fd / 256, fd % 256);
        return;
    }
    switch (truth_random(busy ? 12 : 30)) {
    case 0: /* hangs up */
        while (connection->state == BUSY)
            finish(connection);
        buffers_free(connection->out);
        free(connection);
        g_connections[fd] = NULL;
        break;
    case 1 ... 6:
        if (connection->state == IDLE) {
            connection->current = request_new(connection);
            connection->state = BUSY;
        } else if (connection->n_waiting < 4) {
            struct request *request = request_new(connection), **at = &connection->waiting;
            for (unsigned i = 0; i < connection->n_waiting; i++)
                at = &(*at)->next;
            *at = request;
            connection->n_waiting++;
        }
        break;
    case 7: {
        struct buffer *buffer = buffer_new(64 + truth_random(600));
        buffer->next = connection->out;
        connection->out = buffer;
        break;
    }
    case 8:
        buffers_free(connection->out);
        connection->out = NULL;
        break;
    default:
        finish(connection);
    }
}

/* --- the truth ---------------------------------------------------------------------- */

static void tell_buffers(struct buffer *const *at, const char *root)
{
    for (; *at; at = &(*at)->next) {
        truth_word(at);
        truth_words(*at);
        truth_owns(*at, root);
    }
}

static void tell_hosts(struct host *const *at, const char *root, int owns)
{
    for (; *at; at = &(*at)->next) {
        (owns ? truth_owns : truth_borrows)(*at, root);
        (owns ? truth_owns : truth_borrows)((*at)->name, root);
        truth_words(*at);
        truth_words((*at)->name);
        truth_word(at);
        truth_word(&(*at)->name);
    }
}

static void tell_request(struct request *const *at, const char *root)
{
    const struct request *request = *at;
    truth_word(at);
    truth_owns(request, root);
    truth_words(request);
    truth_word(&request->connection);
    tell_hosts(&request->host, root, 0);
    truth_word(&request->line);
    truth_owns(request->line, root);
    truth_words(request->line);
    if (request->has_referer) {
        truth_word(&request->referer);
        truth_owns(request->referer, root);
        truth_words(request->referer);
    }
    tell_buffers(&request->body, root);
    truth_word(&request->body_end);
}

static void tell(void *of)
{
    (void)of;
    TRUTH_ROOT(g_connections);
    TRUTH_ROOT(g_hosts);
    TRUTH_ROOT(g_free_requests);
    TRUTH_ROOT(g_free_buffers);
    TRUTH_ROOT(g_log);
    for (int i = 0; i < HOSTS; i++)
        tell_hosts(&g_hosts[i], "g_hosts", 1);
    for (int i = 0; i < SLOTS; i++) {
        struct connection *connection = g_connections[i];
        if (!connection)
            continue;
        truth_word(&g_connections[i]);
        truth_owns(connection, "g_connections");
        truth_words(connection);
        if (connection->state == BUSY)
            tell_request(&connection->current, "g_connections");
        struct request **at = &connection->waiting;
        for (unsigned n = 0; n < connection->n_waiting; n++, at = &(*at)->next)
            tell_request(at, "g_connections");
        tell_buffers(&connection->out, "g_connections");
    }
    for (struct request **at = &g_free_requests; *at; at = &(*at)->next) {
        truth_word(at);
        truth_words(*at);
        truth_owns(*at, "g_free_requests");
    }
    tell_buffers(&g_free_buffers, "g_free_buffers");
    truth_word(&g_log.lines);
    truth_owns(g_log.lines, "g_log");
    truth_words(g_log.lines);
    for (size_t i = 0; i < g_log.n; i++) {
        truth_word(&g_log.lines[i]);
        truth_owns(g_log.lines[i], "g_log");
        truth_words(g_log.lines[i]);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        event((unsigned)truth_random(SLOTS), i / 20000 % 2);
    truth_rest(argc, argv, tell, NULL);
}
