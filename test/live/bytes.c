/* bytes.c - a program whose objects change when it is told so: each line of its input moves the
 * pointer of one object. It prints where the objects are. */
#include "victim.h"

struct node {
    struct node *next;
    char *text;
    char note[16];
    uint64_t moves;
};

static struct node *volatile first;

int main(void)
{
    char line[64];
    first = calloc(1, sizeof *first);
    struct node *other = calloc(1, sizeof *other);
    first->next = calloc(1, 256);
    first->text = strdup("what the text says");
    memcpy(first->note, "note\x1b[31m\xff\x00 bytes", sizeof first->note);
    other->next = first->next;
    printf("%p %p %p %p\n", (void *)first, (void *)first->next, (void *)first->text, (void *)other);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        first->next = other;
        first->moves++;
        puts("moved");
        fflush(stdout);
    }
    return 0;
}
