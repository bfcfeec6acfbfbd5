/* exits.c - a program with known leaks, and every way to end.
 *
 *   exits HOW      return exit _exit quick_exit abort SIGTERM SIGSEGV SIGFPE SIGKILL pthread_exit
 *                  thread_exit atexit
 *
 * What is planted stands in plant(): each kind of block has one site and one size. Ends with
 * status 7 where it has one.
 */
#include "victim.h"

#include <pthread.h>
#include <sys/resource.h>

struct node {
    struct node *next;
    char room[];
};

void *held_direct[3];
struct node *held_chain;
__thread void *held_local;

static NOINLINE struct node *new_node(size_t bytes, struct node *next)
{
    struct node *node = malloc(bytes);
    if (!node)
        abort();
    memset(node, 0, bytes);
    node->next = next;
    return node;
}

static NOINLINE void leak_direct(void)
{
    for (int i = 0; i < 5; i++)
        KEEP(malloc(501));
}

static NOINLINE void leak_zeroed(void)
{
    KEEP(calloc(3, 201));
}

static NOINLINE void leak_resized(void)
{
    void *p = malloc(20);
    p = realloc(p, 1801);
    KEEP(p);
}

/* The head is lost, the others hang on it. */
static NOINLINE struct node *make_tail(int n)
{
    struct node *list = NULL;
    for (int i = 0; i < n; i++)
        list = new_node(701, list);
    return list;
}

static NOINLINE struct node *make_head(struct node *tail)
{
    struct node *head = malloc(801);
    if (!head)
        abort();
    memset(head, 0, 801);
    head->next = tail;
    return head;
}

static NOINLINE void leak_chain(void)
{
    struct node *head = make_head(make_tail(4));
    KEEP(head);
}

static NOINLINE void hold_direct(void)
{
    for (int i = 0; i < 3; i++)
        held_direct[i] = malloc(901);
}

static NOINLINE void hold_chain(void)
{
    for (int i = 0; i < 6; i++)
        held_chain = new_node(1001, held_chain);
}

static NOINLINE void hold_local(void)
{
    held_local = malloc(1101);
}

static NOINLINE void come_and_go(void)
{
    for (int i = 0; i < 1000; i++) {
        void *p = malloc((size_t)(1 + i));
        KEEP(p);
        free(p);
    }
}

static void plant(void *unused)
{
    (void)unused;
    leak_direct();
    leak_zeroed();
    leak_resized();
    leak_chain();
    hold_direct();
    hold_chain();
    hold_local();
    come_and_go();
}

static void *last_thread(void *how)
{
    usleep(100000);
    if (strcmp(how, "thread_exit") == 0)
        exit(7);
    return NULL;
}

static void at_exit(void)
{
    say("atexit\n");
}

/* A literal, so that gcc cannot see that it faults. */
static int *volatile nowhere;
static volatile int zero;

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const char *how = argv[1];
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    on_deep_stack(plant, NULL);
    wipe_stack();
    printf("unflushed\n");
    if (strcmp(how, "exit") == 0)
        exit(7);
    if (strcmp(how, "atexit") == 0) {
        atexit(at_exit);
        exit(7);
    }
    if (strcmp(how, "_exit") == 0)
        _exit(7);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(7);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "SIGTERM") == 0)
        raise(SIGTERM);
    if (strcmp(how, "SIGKILL") == 0)
        raise(SIGKILL);
    if (strcmp(how, "SIGSEGV") == 0)
        *nowhere = 1;
    if (strcmp(how, "SIGFPE") == 0)
        return argc / zero;
    if (strcmp(how, "pthread_exit") == 0 || strcmp(how, "thread_exit") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, last_thread, (void *)(uintptr_t)how))
            return 1;
        pthread_detach(thread);
        pthread_exit(NULL);
    }
    return 7;
}
