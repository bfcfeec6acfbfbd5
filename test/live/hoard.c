/* hoard.c - a program that holds so much memory in blocks of one size, and lives.
 *
 * hoard MEGABYTES SIZE: says "ready BLOCKS" when it has them. A byte on its standard input: it
 * looks at each block and says "whole", or ends with status 1.
 */
#include "victim.h"

int main(int argc, char **argv)
{
    size_t megabytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 50;
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    static void **newest;
    size_t n = (megabytes << 20) / (size + 8);
    end_with_parent();
    for (size_t i = 0; i < n; i++) {
        void **block = need(malloc(size));
        fill(block);
        block[0] = newest;
        block[1] = (void *)~(uintptr_t)block;
        newest = block;
    }
    char line[64], byte;
    snprintf(line, sizeof line, "ready %zu\n", n);
    say(line);
    while (read(0, &byte, 1) == 1) {
        size_t seen = 0;
        for (void **block = newest; block; block = block[0])
            seen += block[1] == (void *)~(uintptr_t)block;
        if (seen != n)
            return 1;
        say("whole\n");
    }
    return 0;
}
