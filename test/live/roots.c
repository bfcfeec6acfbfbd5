/* roots.c - names its roots in the way that each line of its input says, and answers "done".
 *
 * The end of the input ends it.
 */
#include "victim.h"

#include <heapx/roots.h>

#ifndef ROOTS_STATIC
#include <dlfcn.h>
#endif
#include <pthread.h>
#include <stdio.h>

void example(void);

/* Variables to name from outside. */
static void *global[2];
static struct {
    long unused;
    void *list;
} config;
static long empty_one[4];
static __thread void *of_thread;

/* Side by side, and none reaches what another one alone holds. */
struct list {
    void *first;
    long n;
};
static struct list cache, sessions;
static void *last;

/* In a program that lies where the linker put it, these are in its file alone. */
static const struct heapx_root constant[] = {{"cfg", &config}, {"two", &global}};

enum { MANY = 70000 };

static void in_library(const char *path)
{
#ifndef ROOTS_STATIC
    void *library = dlopen(path, RTLD_NOW);
    void (*function)(void) = NULL;
    if (library)
        *(void **)&function = dlsym(library, "example");
    if (!function) {
        fprintf(stderr, "roots: %s\n", dlerror());
        exit(1);
    }
    function();
#else
    (void)path;
#endif
}

/* A thread that sets other roots again and again, never a length without its array. */
static void *change(void *unused)
{
    static struct heapx_root one[1], three[3];
    (void)unused;
    one[0] = (struct heapx_root){"one", global[0]};
    for (int i = 0; i < 3; i++)
        three[i] = (struct heapx_root){"a\0b\0c" + 2 * i, global[1]};
    for (;;) {
        heapx_set_roots(one, 1);
        heapx_set_roots(three, 3);
    }
    return NULL;
}

static void odd_entries(void)
{
    static struct heapx_root odd[9];
    static char name[400];
    memset(name, 'n', sizeof name - 1);
    void *gone = need(malloc(1000));
    odd[0] = (struct heapx_root){"null", NULL};
    odd[1] = (struct heapx_root){"freed", gone};
    odd[2] = (struct heapx_root){"wild", (void *)0xdead0000beef};
    odd[3] = (struct heapx_root){NULL, global[0]};
    odd[4] = (struct heapx_root){(const char *)0x10, global[0]};
    odd[5] = (struct heapx_root){name, global[0]};
    odd[6] = (struct heapx_root){"a+b", global[1]};
    odd[7] = (struct heapx_root){"\xff\x1b[31m", global[1]};
    odd[8] = (struct heapx_root){"whole", &config};
    free(gone);
    need(malloc(8 << 20)); /* merges and moves what is free, so that `gone` lies in none */
    heapx_set_roots(odd, 9);
}

static void many(void)
{
    struct heapx_root *roots = need(calloc(MANY, sizeof *roots));
    char *name = need(calloc(MANY, 8));
    for (int i = 0; i < MANY; i++) {
        snprintf(name + 8 * i, 8, "m%d", i);
        roots[i] = (struct heapx_root){name + 8 * i, i % 2 ? global[0] : global[1]};
    }
    heapx_set_roots(roots, MANY);
}

static void sparse(void)
{
    char *block = need(malloc(64 << 20)); /* a mapping of its own */
    for (size_t i = 0; i < 64; i += 2)
        block[(i << 20) + 5000] = 1;
    char **list = need(calloc(2, sizeof *list));
    list[0] = block;
    config.list = list;
    printf("%p\n", (void *)block);
}

static void prepend(struct list *list, size_t size)
{
    void **node = need(calloc(1, size));
    node[0] = list->first;
    list->first = node;
    list->n++;
}

/* 150 nodes of 104 bytes, 20 of 72; a block of 200 at the end of both lists. */
static void neighbours(void)
{
    static const struct heapx_root roots[] = {
        {"cache", &cache}, {"sessions", &sessions}, {"last", &last}};
    cache.first = sessions.first = need(malloc(200));
    for (int i = 0; i < 150; i++)
        prepend(&cache, 100);
    for (int i = 0; i < 20; i++)
        prepend(&sessions, 64);
    last = need(malloc(300));
    heapx_set_roots(roots, 3);
    printf("%p\n%p\n%p\n", (void *)&cache, (void *)&sessions, (void *)&last);
}

static void command(const char *line)
{
    pthread_t thread;
    if (!strcmp(line, "example"))
        example();
    else if (!strncmp(line, "library ", 8))
        in_library(line + 8);
    else if (!strcmp(line, "none"))
        heapx_set_roots(NULL, 0);
    else if (!strcmp(line, "odd"))
        odd_entries();
    else if (!strcmp(line, "constant"))
        heapx_set_roots(constant, 2);
    else if (!strcmp(line, "many"))
        many();
    else if (!strcmp(line, "huge"))
        heapx_set_roots((const struct heapx_root *)&config, SIZE_MAX / 16);
    else if (!strcmp(line, "long"))
        heapx_set_roots((const struct heapx_root *)&config, 1u << 30);
    else if (!strcmp(line, "bad"))
        heapx_set_roots((const struct heapx_root *)0x123456789000, 5);
    else if (!strcmp(line, "sparse"))
        sparse();
    else if (!strcmp(line, "neighbours"))
        neighbours();
    else if (!strcmp(line, "change") && pthread_create(&thread, NULL, change, NULL) != 0)
        exit(1);
}

int main(void)
{
    char line[4096];
    end_with_parent();
    setvbuf(stdin, NULL, _IONBF, 0);
    global[0] = need(malloc(100));
    global[1] = need(malloc(200));
    *(void **)global[0] = global[1];
    config.list = need(malloc(300));
    of_thread = need(malloc(400));
    empty_one[0] = 1;
    KEEP(empty_one);
    KEEP(of_thread);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        command(line);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
