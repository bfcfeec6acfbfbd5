#!/usr/bin/env -S python3 -B
"""typed_programs.py - types of objects that are built as large C programs build theirs.

What redis, git and nginx do, in small: nodes that begin with a link ("hashmap_entry" of
git) or have text behind them, arrays so large that they are mapped, strings whose pointers lead
behind a header, void pointers to one of several things, and tiny objects with their text inside.
"""
import os

import live
import typed
from live import check, heapx, rows

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct link { struct link *next; unsigned hash; };
struct links { struct link **slots; unsigned n; };
struct commit { struct link link; void *buffer; long date; struct commit *parents[4]; };
struct file { struct link link; char *path; long size[3]; };
struct named { struct named *next; long length; char *path; };
struct event { int mask; void *data; };
struct value { unsigned type, count; void *is; };
struct pair { struct value *first, *last; };
struct table { const char *kind; struct item **slots; long n, used; };
struct item { char *key; void *value; struct item *next; };
static const char *const kind = "table";
struct links links;
struct names { struct named *first; long n; } *names;
struct event *events;
struct table *table;
static void *made(void *block, const char *type)
{
    printf("%p %s\n", block, type);
    return block;
}
/* A string behind a header of three bytes; its name is `str`. */
static char *string(int n)
{
    char *block = made(calloc(1, 3 + n + 1), "str");
    memset(block + 3, 'x', n);
    return block + 3;
}
static struct table *new_table(long n)
{
    struct table *made_table = made(calloc(1, sizeof *made_table), "table");
    made_table->kind = kind;
    made_table->n = n;
    made_table->slots = made(calloc(n, sizeof *made_table->slots), "item *[]");
    return made_table;
}
static void *new_value(int i)
{
    const int n = 4 + i % 28;
    struct value *value;
    if (i % 4 == 3) { /* with the text inside */
        value = made(calloc(1, sizeof *value + 40), "value...");
        value->is = (char *)(value + 1) + 3;
        memset(value->is, 'y', n);
        return value;
    }
    value = made(calloc(1, sizeof *value), "value");
    if (i % 4 == 0) {
        value->is = string(n);
    } else if (i % 4 == 1) {
        struct pair *pair = made(calloc(1, sizeof *pair), "pair");
        pair->first = made(calloc(1, sizeof *value), "value");
        pair->last = pair->first;
        value->is = pair;
    } else {
        struct table *inner = new_table(4);
        inner->slots[1] = made(calloc(1, sizeof **inner->slots), "item");
        inner->slots[1]->key = string(n);
        inner->slots[1]->value = string(n);
        value->is = inner;
    }
    return value;
}
static void add_link(struct link *link, unsigned hash)
{
    link->hash = hash;
    link->next = links.slots[hash % links.n];
    links.slots[hash % links.n] = link;
}
int main(void)
{
    links.n = 128;
    links.slots = made(calloc(links.n, sizeof *links.slots), "link *[]");
    names = made(calloc(1, sizeof *names), "names");
    table = new_table(256);
    for (int i = 0; i < 1000; i++) {
        struct commit *commit = made(calloc(1, sizeof *commit), "commit");
        commit->buffer = made(malloc(90 + i % 50), "-");
        add_link(&commit->link, i);
        struct file *file = made(calloc(1, sizeof *file), "file");
        file->path = made(calloc(1, 30 + i % 20), "-");
        add_link(&file->link, i * 7);
        struct named *named = made(calloc(1, sizeof *named + 60), "named...");
        named->path = strcpy((char *)(named + 1), "a path that stands behind");
        named->next = names->first;
        names->first = named;
        struct item *item = made(calloc(1, sizeof *item), "item");
        item->key = string(20);
        item->value = new_value(i);
        item->next = table->slots[i % 256];
        table->slots[i % 256] = item;
    }
    events = made(calloc(20479, sizeof *events), "event[]"); /* mapped: up to a page is left */
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
"""
HINTS = """
item.key -> +str
names.first -> named...
named.next -> named | named...
item.value -> value | value... | +str
p: value.is -> table | pair | packed | +str
"""


CLASSES = r"""
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
struct Base { virtual ~Base() {} long body[4]; };
struct Derived : Base { long more[3]; };
struct Slot { Base *one; char *text; long number[6]; };
Slot *slots;
int main()
{
    slots = new Slot[64]();
    for (int i = 0; i < 60; i++) {
        slots[i].one = i % 2 ? new Base : new Derived;
        slots[i].text = (char *)malloc(20);
    }
    slots[60].text = (char *)slots[1].one;  /* what a Slot of old has left there */
    void **other = (void **)calloc(1, sizeof(Base));
    *other = slots[1].text;
    slots[61].one = (Base *)other;          /* no Base any more */
    slots[62].text = (char *)new Base;      /* nothing else leads there */
    printf("%p %p %p\nready\n", (void *)slots, (void *)other, (void *)slots[62].text);
    fflush(stdout);
    pause();
}
"""


def no_such_class(folder):
    """Words to what cannot be of their type are stray, and give nothing that type."""
    program = typed.build(folder, CLASSES, ".cc", "g++", "-w", "-g", "-O1")
    store = os.path.join(folder, "store")
    with live.Target([program]) as target:
        slots, other, kept = (int(word, 16) for word in target.wait_line("0x").split())
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store)
    rules = {(int(r["offset"]) // 64, int(r["offset"]) % 64): r["rule"] for r in
             rows(store, f"SELECT offset, rule FROM edges WHERE source = {slots}")}
    odd = {at for at, rule in rules.items() if rule == "other"}
    check(odd == {(60, 8), (61, 0)} and len(rules) == 123, f"{odd}, {len(rules)}")
    types = {int(r["address"]): r["type"] for r in rows(store, "SELECT address, type FROM objects")}
    check(types[other] is None and types[kept] == "Base", f"{types[other]}, {types[kept]}")


def hinted(folder):
    """All that is built so has its type, and nothing has another one."""
    hints = os.path.join(folder, "p.types")
    with open(hints, "w") as file:
        file.write(HINTS)
    for compiler in typed.compilers():
        for flags in ("-O0", "-O2"):
            program = typed.build(folder, PROGRAM, ".c", compiler, "-w", "-g", flags)
            os.unlink(typed.judge(program, folder, f"{compiler} {flags}", "--types", hints))


def plain(folder):
    """Without hints nothing is said of what void * and char * lead to; what is said is true."""
    program = typed.build(folder, PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    store = os.path.join(folder, "store")
    with typed.Program(program) as target:
        heapx("snap", target.pid, "-o", store)
        truth = target.types
    seen = {}
    for r in rows(store, "SELECT address, type, confidence FROM objects WHERE type IS NOT NULL"):
        kind = truth.get(int(r["address"]))
        check(kind in (None, r["type"]), f"{kind}: {r}")
        check(not r["type"].endswith("...") or r["confidence"] == "guess", f"{r}")
        seen[r["type"]] = seen.get(r["type"], 0) + 1
    want = {"link *[]": 1, "commit": 1000, "file": 1000, "item": 1000, "event[]": 1, "table": 1}
    check({t: seen.get(t) for t in want} == want, f"{seen}")
    fields = {r["field"] for r in rows(store, "SELECT DISTINCT f.name AS field FROM hx_field f")}
    check("next" in fields, f"{fields}")


if __name__ == "__main__":
    live.main(no_such_class, hinted, plain)
