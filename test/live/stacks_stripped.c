/* stacks_stripped.c - a library without symbols, for stacks.cc. */
#include "stacks.h"

static NOINLINE void inner(int n)
{
    stacks_keep(malloc(MARK(n)));
    NO_TAILCALL;
}

static NOINLINE void middle(int n, volatile char *room)
{
    room[n % 16]++;
    inner(n);
    NO_TAILCALL;
}

void stripped_direct(int n)
{
    volatile char room[48] = {0};
    middle(n, room);
    NO_TAILCALL;
}

static NOINLINE void descend(int n, int depth)
{
    if (depth == 0)
        inner(n);
    else
        descend(n, depth - 1);
    NO_TAILCALL;
}

void stripped_deep(int n, int depth)
{
    descend(n, depth);
    NO_TAILCALL;
}

void stripped_callback(void (*call)(int), int n)
{
    volatile char room[200] = {0};
    room[n % 200]++;
    call(n);
    NO_TAILCALL;
}
