/* unwind_plugin.c - a library that is loaded and unloaded: built several times, with other frames
 * at the same addresses.
 */
#include <stdlib.h>

#ifndef ROOM
#define ROOM 64
#endif

void unwind_plugin(void (*take)(void));

static void (*take_once)(void);

static int by_nothing(const void *a, const void *b)
{
    if (take_once) {
        take_once();
        take_once = NULL;
    }
    return a < b;
}

/* The first call of qsort() here goes through the dynamic linker. */
static __attribute__((noinline, noclone)) void inner(void (*take)(void), volatile char *bytes)
{
    volatile char room[ROOM + 200];
    char sorted[3] = {1, 2, 3};
    room[0] = bytes[0];
    take_once = take;
    qsort(sorted, 3, 1, by_nothing);
    bytes[0] = room[0];
}

void unwind_plugin(void (*take)(void))
{
    volatile char room[ROOM * 2 + 200];
    room[0] = 1;
    inner(take, room);
    room[1] = 2;
}
