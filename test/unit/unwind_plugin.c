/* unwind_plugin.c - a library that is loaded and unloaded: built several times, with other frames
 * at the same addresses.
 */
#ifndef ROOM
#define ROOM 64
#endif

void unwind_plugin(void (*take)(void));

static __attribute__((noinline, noclone)) void inner(void (*take)(void), volatile char *bytes)
{
    volatile char room[ROOM];
    room[0] = bytes[0];
    take();
    bytes[0] = room[0];
}

void unwind_plugin(void (*take)(void))
{
    volatile char room[ROOM * 2];
    room[0] = 1;
    inner(take, room);
    room[1] = 2;
}
