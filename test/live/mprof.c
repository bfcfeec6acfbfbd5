/* mprof.c - a program with known allocations: the worked example of mprof's paper, 10,000 widgets
 * of which 4,981 are freed, and functions that call each other. */
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))

struct widget {
    char body[204];
};

static struct widget *volatile kept[5019];
static void *volatile rounds[64];

static APART struct widget *make_widget(void)
{
    struct widget *widget = malloc(sizeof *widget);
    if (!widget)
        abort();
    widget->body[0] = 1;
    return widget;
}

static APART void make_red_widget(int i)
{
    kept[i] = make_widget();
    __asm__ volatile("" ::: "memory");
}

static APART void make_blue_widget(void)
{
    free(make_widget());
    __asm__ volatile("" ::: "memory");
}

static APART void even(int n);

static APART void odd(int n)
{
    rounds[n] = malloc(10);
    if (n)
        even(n - 1);
    __asm__ volatile("" ::: "memory");
}

static APART void even(int n)
{
    if (n)
        odd(n - 1);
    __asm__ volatile("" ::: "memory");
}

int main(void)
{
    for (int i = 0; i < 5019; i++)
        make_red_widget(i);
    for (int i = 0; i < 4981; i++)
        make_blue_widget();
    even(8); /* odd asks for 10 bytes four times */
    return 0;
}
