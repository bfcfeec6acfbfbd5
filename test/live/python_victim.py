"""python_victim.py - a program with known Python objects, for python.py.

What it has it counts in a child: there the heap is as it is here, and what counting takes is not in
ours. Objects are those that the garbage collector knows, and what they refer to, but for what lies
in files. Prints the counts as JSON, and pymalloc's own figures to standard error; then waits.
"""
import gc
import json
import os
import sys
import time


class Node:
    def __init__(self, i):
        self.number, self.following, self.things = i, None, {}


class Slotted:
    __slots__ = ("left", "right", "__weakref__")


class Wide(dict):
    pass


class Word(str):
    pass


CACHE = {f"k{i}": Node(i * 1000) for i in range(20000)}
KEPT = {
    "slotted": [Slotted() for _ in range(3000)],
    "dicts": [Wide(a=i) for i in range(500)],
    "words": [Word("x" * i) for i in range(300)] + ["\u20ac" * i for i in range(2, 400)],
    "sets": [set(range(i)) for i in range(200)] + [frozenset(range(1000, 1000 + i)) for i in range(100)],
    "bytes": [bytearray(b"q" * i) for i in range(1, 1000)] + [b"r" * i for i in range(2, 1000)],
    "numbers": [1 << i for i in range(3000)] + [i / 7 for i in range(2000)],
    "functions": [lambda x=i: x for i in range(400)],
}
for slotted in KEPT["slotted"]:
    slotted.left, slotted.right = [1, 2, slotted], (slotted, 3.5 * id(slotted))


def in_files():
    """What is mapped from files, and the .bss of the interpreter."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            word = line.split()
            start, end = (int(x, 16) for x in word[0].split("-"))
            if len(word) > 5 and word[5].startswith("/"):
                name = os.path.basename(word[5])
                found.append((start, end, name.startswith(("python3", "libpython3"))))
            elif found and len(word) == 5 and found[-1][1] == start and found[-1][2]:
                found.append((start, end, False))
    return found


def name_of(kind):
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def referents(item):
    found = gc.get_referents(item)
    if isinstance(item, dict):
        found += dict.keys(item)
    if isinstance(item, type(name_of.__code__)):
        found += [item.co_consts, item.co_names, item.co_filename, item.co_name, item.co_linetable]
    if isinstance(item, type):
        found += type.__subclasses__(item) + list(vars(item).values())
    return found


def count():
    todo, files = gc.get_objects(), in_files()
    seen, counts, bytes_of = {}, {}, {}
    own = {id(x) for x in (todo, files, seen, counts, bytes_of, sys._getframe())}
    todo += object.__subclasses__()
    while todo:
        item = todo.pop()
        if id(item) in seen or id(item) in own:
            continue
        seen[id(item)] = item
        todo += referents(item)
        if any(start <= id(item) < end for start, end, _ in files):
            continue
        name = name_of(type(item))
        counts[name] = counts.get(name, 0) + 1
        bytes_of[name] = bytes_of.get(name, 0) + sys.getsizeof(item)
    print(json.dumps({"counts": counts, "bytes": bytes_of}), flush=True)


def main():
    gc.collect()
    gc.disable()
    if os.fork() == 0:
        sys._debugmallocstats()
        count()
        os._exit(0)
    os.wait()
    print("ready", flush=True)
    time.sleep(600)


main()
