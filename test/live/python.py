#!/usr/bin/env -S python3 -B
"""python.py - Python objects: are they counted, named and held as Python itself says?

A program with known objects (python_victim.py) counts them with the means of the language. Its types
in a snapshot have these counts, pymalloc's blocks are as many as it says, and what was asked for is
what sys.getsizeof() says. A leak in a module's dict is the first one among dominators. The same
under PYTHONMALLOC=malloc and its debug hooks. A program that damages itself gets a snapshot that
says so. Of each interpreter that is installed.
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys

import live
from live import Target, check, heapx

VICTIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_victim.py")
PARTS = {"dict keys", "list items", "set table", "bytearray bytes", "str text", "attribute values"}
# What no walk by referents finds: texts that only tables of the interpreter have, tuples and bytes
# within code and types; and names and numbers that counting itself takes.
HIDDEN = {"str", "tuple", "bytes", "int", "float", "cell", "dict", "list", "code", "function", "method",
          "builtin_function_or_method", "weakref.ReferenceType", "_io.TextIOWrapper"}
EXACT = {"__main__.Node": 20000, "__main__.Slotted": 3000, "__main__.Wide": 500, "__main__.Word": 300,
         "bytearray": 999}


def interpreters():
    """Those that heapx knows, each once."""
    found = {}
    for path in ("/usr/bin/python3", sys.executable, shutil.which("python3")):
        said = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2], hasattr(sys, 'abiflags')"
                               " and sys.abiflags)"], capture_output=True, text=True) if path else None
        if said and said.returncode == 0:
            version = tuple(map(int, said.stdout.split()[:2]))
            if (3, 11) <= version <= (3, 14):
                found[os.path.realpath(path)] = version
    if not found:
        raise live.Skip("no Python from 3.11 to 3.14")
    return list(found)


def start(interpreter, *words, stderr=None, **environment):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **environment)
    return Target([interpreter, "-P", *words], env=environment, stderr=stderr)


def take(folder, pid, ok=(0,)):
    store = f"{folder}/store.db"
    if os.path.exists(store):
        os.unlink(store)
    heapx("snap", pid, "-o", store, ok=ok)
    return store


def types_of(store):
    """Objects and bytes that were asked for, by type; what is named after its owner counts as its type."""
    found = {}
    for row in live.rows(store, "SELECT type, count(*) AS n, total(requested) AS requested, "
                         "sum(requested IS NULL) AS unknown FROM objects WHERE type IS NOT NULL GROUP BY type"):
        name = str(row["type"]).split(" (")[0]
        n, requested, unknown = found.get(name, (0, 0, 0))
        found[name] = n + row["n"], requested + float(row["requested"]), unknown + row["unknown"]
    return found


def compare(folder, interpreter, mode):
    with open(f"{folder}/stats", "w+") as stats:
        with start(interpreter, VICTIM, stderr=stats, PYTHONMALLOC=mode) as target:
            truth = json.loads(target.process.stdout.readline())
            target.wait_line("ready")
            store = take(folder, target.pid)
        stats.seek(0)
        blocks = sum(int(words[3]) for words in map(str.split, stats) if len(words) == 5 and words[0].isdigit())
    types, counts, sizes = types_of(store), truth["counts"], truth["bytes"]
    for name, n in EXACT.items():
        check(types.get(name, (0,))[0] == counts[name] == n, f"{name}: {types.get(name)}, not {n}")
    for name, n in counts.items():
        has = types.get(name, (0,))[0]
        check(has == n or name in HIDDEN and has > n - 100, f"{name}: {has} objects, {n} by referents")
    total, known = sum(counts.values()), sum(types.get(name, (0,))[0] for name in counts)
    check(total <= known + 200 and known < total * 1.05, f"{known} objects, {total} by referents")
    check_requested(types, counts, sizes)
    check_blocks(store, mode, blocks)
    print(f"  {interpreter} {mode}: {known} objects of {len(counts)} types, {total} by referents")


def check_requested(types, counts, sizes):
    """sys.getsizeof() counts a dict's keys and a list's items with it, values of attributes not."""
    for name in ("bytearray", "__main__.Word", "__main__.Slotted", "float"):
        check(types[name][2] == 0, f"{name}: bytes that were asked for are not known of all")
    alike = [name for name in counts if abs(types.get(name, (0,))[0] - counts[name]) <= 0.01 * counts[name] and
             name != "__main__.Node"]
    asked = sum(types[name][1] for name in alike + list(PARTS) if name in types)
    said = sum(sizes[name] for name in alike)
    # the interpreter's own dict of texts, which nothing refers to, has large keys
    check(-0.01 * said <= asked - said <= 0.03 * said, f"asked for {asked}, by getsizeof() {said}")


def check_blocks(store, mode, blocks):
    share = live.row(store, "SELECT * FROM allocators WHERE allocator = 'pymalloc'")
    check(abs(share["objects"] - blocks) <= 20, f"{mode}: {share}, not {blocks}")
    snapshot = live.row(store, "SELECT * FROM snapshots")
    check(snapshot["complete"] == 1 and snapshot["leaked_objects"] < 20, f"{mode}: {snapshot}")


def counts(folder):
    for interpreter in interpreters():
        compare(folder, interpreter, "pymalloc")


def malloc(folder):
    for mode in ("malloc", "pymalloc_debug"):
        compare(folder, interpreters()[0], mode)


LEAK = """
import time
class Session:
    def __init__(self, i): self.user, self.data = 'user%d' % i, [i] * 3
SESSIONS = {}
def add(i): SESSIONS[i * 1000] = Session(i)
for i in range(200000): add(i)
print('ready', flush=True)
time.sleep(600)
"""


def leak(folder):
    """What a module's dict holds is held by it, and each word has the name of its attribute."""
    for interpreter in interpreters():
        with start(interpreter, "-c", LEAK) as target:
            target.wait_line("ready")
            store = take(folder, target.pid)
        whole = live.row(store, "SELECT heap_bytes FROM snapshots")["heap_bytes"]
        first = [row for row in live.rows(store, "SELECT * FROM dominators ORDER BY retained_bytes DESC LIMIT 4")
                 if row["type"] == "dict (__main__.SESSIONS)"]
        check(first and first[0]["retained_bytes"] > 0.8 * whole, f"{interpreter}: SESSIONS is not held by its dict")
        frames = live.rows(store, "SELECT name, direct_objects FROM roots WHERE name LIKE 'frames of Python%'")
        check(len(frames) == 1 and frames[0]["direct_objects"] > 0, f"{interpreter}: {frames}")
        tree = live.rows(store, "SELECT label, depth, retained_bytes FROM tree LIMIT 6")
        check(any("__main__.Session" in row["label"] for row in tree), f"{interpreter}: {tree}")
        session = live.row(store, "SELECT address FROM objects WHERE type = '__main__.Session' LIMIT 1 OFFSET 5000")
        said = heapx("why", store, session["address"])[1]
        check("dict (__main__.SESSIONS)" in said and "keys" in said, said)
        items = live.row(store, "SELECT e.source FROM edges e JOIN objects o ON o.address = e.target WHERE "
                         "e.source = (SELECT min(address) FROM objects WHERE type = 'list (__main__.Session.data)')"
                         " AND o.type = 'list items'")
        said = heapx("why", store, items["source"])[1]
        check(" data" in said, said)


DAMAGED = """
import gc, sys, time
class Node: pass
class Other: pass
kept = [Node() for i in range(20000)] + [[i] for i in range(5000)] + [(i, str(i)) for i in range(5000)]
gc.collect(); gc.disable()
print(id(Node), id(Other), *map(id, kept[::10]), flush=True)
time.sleep(600)
"""
POOL, ARENA, WORD = 1 << 14, 1 << 20, (1 << 64) - 1


class Memory:
    """Of a process that stands still."""

    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.maps = []
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                word = line.split()
                self.maps.append((*(int(x, 16) for x in word[0].split("-")), word[1], "".join(word[5:])))

    def words(self, at, n):
        try:
            self.file.seek(at)
            return struct.unpack(f"<{n}Q", self.file.read(8 * n))
        except (OSError, ValueError, OverflowError, struct.error):
            return (0,) * n

    def put(self, at, value):
        self.file.seek(at)
        self.file.write(struct.pack("<Q", value & WORD))

    def records(self):
        """Of arenas: what words of the interpreter's data lead to."""
        data, after = [], 0
        for start, end, rights, path in self.maps:
            if "w" in rights and ("python" in path or start == after and not path):
                data.append((start, end))
                after = end
        found = set()
        for start, end in data:
            for word in self.words(start, (end - start) // 8):
                if not 0x10000 < word < 1 << 47 or word % 8:
                    continue
                address, pools, n = self.words(word, 3)
                if address and not pools % POOL and 0 < pools - address <= ARENA and n >> 32 in (63, 64):
                    found.add(word)
        return found


def damage_objects(memory, ids, what):
    node, other, *kept = ids
    for at in kept[1::2]:
        if what == "types":
            memory.put(at + 8, random.choice([0, 1, at, node + 8, kept[0], random.getrandbits(64), WORD - 0xff]))
        elif what == "sizes":
            memory.put(at + 16, random.choice([-1, -2 ** 63, 2 ** 62, random.getrandbits(64)]))
        elif what == "pools":
            memory.put(at & -POOL | random.randrange(6) * 8, random.choice([0, at, -1, random.getrandbits(64), at & -POOL]))
    for record in memory.records() if what == "arenas" else ():
        for at in range(record, record + 8 * 48, 8):
            if random.random() < 0.2:
                memory.put(at, random.choice([0, at, -1, random.getrandbits(64), memory.words(at, 1)[0] + POOL]))
    if what == "cycle":
        for of, is_a in ((node, other), (other, node)):
            memory.put(of + 8, is_a)
            memory.put(of + 256, is_a)
        memory.put(other + 32, -16)


def damage(folder):
    """A heap that lies: a snapshot comes out, no object twice, and damage is told of."""
    interpreter = interpreters()[0]
    random.seed(int(os.environ.get("HX_SEED", "7")))
    for what in ("types", "sizes", "cycle", "pools", "arenas"):
        with start(interpreter, "-c", DAMAGED) as target:
            ids = [int(word) for word in target.process.stdout.readline().split()]
            damage_objects(Memory(target.pid), ids, what)
            store = take(folder, target.pid, ok=(0, 3))
        snapshot = live.row(store, "SELECT * FROM snapshots")
        distinct = live.row(store, "SELECT count(*) AS n, count(DISTINCT address) AS d FROM objects")
        losses = live.rows(store, "SELECT * FROM losses")
        nodes = types_of(store).get("__main__.Node", (0,))[0]
        print(f"  {what}: {snapshot['heap_objects']} objects, {nodes} Nodes, {len(losses)} losses")
        check(distinct["n"] == distinct["d"] == snapshot["heap_objects"], f"{what}: {distinct}")
        check(bool(losses) == (what in ("pools", "arenas")), f"{what}: {losses}")
        check(what != "types" or 18900 < nodes <= 19050, f"{what}: {nodes}")
        check(what != "cycle" or not nodes, f"{what}: {nodes}")


if __name__ == "__main__":
    live.main(counts, malloc, leak, damage)
