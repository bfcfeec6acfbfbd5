/* lies.cc - pointers that do not mean what their types say: blocks that pools carve up, memory that
 * became something else, casts, unions, ends of buffers. */
#include <cstdint>
#include <cstring>
#include <vector>
#include "note.h"

struct noted *noted;

struct First {
    First *next;
    long a[6];
};
struct Second {
    Second *next;
    double weight;
    void *other;
};
struct Third {
    Third *left, *right;
    char text[40];
};
struct Same {
    long numbers[3];
}; /* as large as Fourth */
struct Fourth {
    Fourth *next;
    Same *same;
    double d;
};
struct Huge {
    Huge *self;
    long cell[100000];
};
struct Self {
    Self *self;
    Self **way;
};
struct Base {
    int kind;
};
struct Text : Base {
    char text[60];
};
struct Node : Base {
    Node *left, *right;
};
union Any {
    First *first;
    Second *second;
    uintptr_t number;
};
struct Tagged {
    int kind;
    Any any;
};

static struct {
    First *carved; /* the first of many things in one block */
    Second *within;
    First *stale; /* to what is a Third by now */
    Second *cast; /* to a Third */
    std::vector<First *> shrunk;
    Tagged *tagged;
    Huge *huge;
    Self *self;
    Base *base[64];
    Fourth *fourth;
} all;

template <class T> static T *made(T *block, const char *type, size_t n = 1)
{
    note(block, type, n);
    return block;
}

/* One block with records of three types, one after the other. */
static void carve()
{
    char *block = static_cast<char *>(calloc(1, 64 * 1024)), *at = block;
    note(block, "=pool", 1);
    all.carved = reinterpret_cast<First *>(at);
    for (int i = 0; i < 200; i++) {
        auto *first = reinterpret_cast<First *>(at);
        at += sizeof *first;
        auto *second = reinterpret_cast<Second *>(at);
        at += sizeof *second;
        first->next = reinterpret_cast<First *>(at);
        second->next = all.within;
        second->other = made(malloc(100), "-");
        all.within = second;
    }
}

int main(int, char **argv)
{
    carve();
    for (int i = 0; i < 1000; i++) {
        auto *was = static_cast<First *>(malloc(sizeof(First)));
        const uintptr_t address = reinterpret_cast<uintptr_t>(was);
        free(was);
        all.shrunk.push_back(reinterpret_cast<First *>(address));
        auto *third = made(static_cast<Third *>(calloc(1, sizeof(Third))), "?Third");
        third->left = reinterpret_cast<Third *>(all.cast);
        all.stale = reinterpret_cast<First *>(address);
        all.cast = reinterpret_cast<Second *>(third);
        auto *fourth = made(static_cast<Fourth *>(calloc(1, sizeof(Fourth))), "Fourth");
        fourth->next = all.fourth;
        fourth->same = reinterpret_cast<Same *>(all.fourth); /* a cast */
        all.fourth = fourth;
    }
    note(all.shrunk.data(), "=vector", 1);
    all.shrunk.resize(3); /* the others are stale */
    all.tagged = made(static_cast<Tagged *>(calloc(500, sizeof(Tagged))), "Tagged", 500);
    for (int i = 0; i < 500; i++) {
        all.tagged[i].kind = i % 2;
        all.tagged[i].any.first =
            static_cast<First *>(made(calloc(1, i % 2 ? sizeof(First) : sizeof(Second)), "-"));
    }
    all.huge = made(static_cast<Huge *>(calloc(1, sizeof(Huge))), "Huge");
    all.huge->self = all.huge;
    all.self = made(static_cast<Self *>(calloc(1, sizeof(Self))), "Self");
    all.self->self = all.self;
    all.self->way = &all.self->self;
    Node *last = nullptr;
    for (int i = 0; i < 64; i++) {
        all.base[i] =
            i % 2 ? static_cast<Base *>(made(new Text(), "Text")) : made(new Node(), "Node");
        if (i % 2 == 0) {
            static_cast<Node *>(all.base[i])->right = last;
            last = static_cast<Node *>(all.base[i]);
        }
    }
    return note_ready(argv[1], "");
}
