#!/usr/bin/env -S python3 -B
"""python.py - Python objects: are they counted, named and held as Python itself says?

A program with known objects (python_victim.py) counts them with the means of the language. Its types
in a snapshot have these counts, pymalloc's blocks are as many as it says, and what was asked for is
what sys.getsizeof() says. A leak in a module's dict is the first one among dominators. The same
under PYTHONMALLOC=malloc and its debug hooks. A program that damages itself gets a snapshot that
says so. Of each interpreter that is installed. The functions that its threads are in are those that
faulthandler tells, and what their variables have is held by them. Text that is built in holds nothing.
"""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import core
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
    """Those that heapx knows, each once: their versions."""
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
    return found


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
    check_requested(store, types, counts, sizes)
    check_blocks(store, mode, blocks)
    print(f"  {interpreter} {mode}: {known} objects of {len(counts)} types, {total} by referents")


def check_requested(store, types, counts, sizes):
    """sys.getsizeof() counts a dict's keys and a list's items with it, values of attributes not."""
    for name in ("bytearray", "__main__.Word", "__main__.Slotted", "float", "str text", "re._constants._NamedIntConstant"):
        check(name not in types or types[name][2] == 0, f"{name}: bytes that were asked for are not known of all")
    alike = [name for name in counts if abs(types.get(name, (0,))[0] - counts[name]) <= 0.01 * counts[name] and
             name != "__main__.Node"]
    asked = sum(types[name][1] for name in alike + list(PARTS) if name in types)
    said = sum(sizes[name] for name in alike)
    # of dicts that nothing refers to the interpreter's own one of texts has large keys
    keys = live.row(store, "SELECT o.requested FROM root_edges AS r JOIN edges AS e ON e.source = r.target JOIN objects AS o"
                    " ON o.address = e.target JOIN roots AS n ON n.root_id = r.root_id WHERE n.name = 'interned strings'"
                    " AND o.type = 'dict keys'")
    asked -= keys["requested"]
    print(f"  asked for {asked:.0f}, by getsizeof() {said}")
    check(abs(asked - said) <= 0.01 * said, f"asked for {asked}, by getsizeof() {said}")


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
        compare(folder, next(iter(interpreters())), mode)


LEAK = """
import time
class Session:
    def __init__(self, i): self.user, self.data = 'user%d' % i, [i] * 3
SESSIONS = {}
def add(i): SESSIONS[i * 1000] = Session(i)
for i in range(100000): add(i)
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
        tree = live.rows(store, "SELECT label, depth, retained_bytes FROM tree LIMIT 6")
        check(any("__main__.Session" in row["label"] for row in tree), f"{interpreter}: {tree}")
        session = live.row(store, "SELECT address FROM objects WHERE type = '__main__.Session' LIMIT 1 OFFSET 5000")
        said = heapx("why", store, session["address"])[1]
        check("dict (__main__.SESSIONS)" in said and "keys" in said and "[key]" in said, said)
        items = live.row(store, "SELECT e.source FROM edges e JOIN objects o ON o.address = e.target WHERE "
                         "e.source = (SELECT min(address) FROM objects WHERE type = 'list (__main__.Session.data)')"
                         " AND o.type = 'list items'")
        said = heapx("why", store, items["source"])[1]
        check(" data" in said, said)


def at_line(lines, source):
    return "\n" * (lines - 1) + source


# Each of these ends in a call of wait(), in a thread of its own.
STACKS = {
    "recursion": "def f(n):\n    if n: f(n - 1)\n    else: wait()\ndef go(): f(300)",
    "generator": "def inner():\n    yield 1\n    wait()\ndef outer(): yield from inner()\n"
                 "def go():\n    for x in outer(): pass",
    "coroutine": "async def task(): wait()\nasync def outer(): await task()\n"
                 "def go():\n    try: outer().send(None)\n    except StopIteration: pass",
    "call of C": "import re\ndef key(x): return [wait() for y in [x]]\n"
                 "def replace(m): return sorted([m], key=key)[0][0]\n"
                 "def go(): return list(map(lambda x: re.sub('a', replace, x), ['a']))",
    "class": "class Outer:\n    def make():\n        class Inner:\n            wait()\n    made = make()",
    "exec": "def go():\n    exec('def inner():\\n  eval(\"wait()\")\\ninner()', {'wait': wait})",
    "lines": "def go(a=1):\n    for i in range(2):\n        x = (a +\n             (lambda:\n"
             "              wait())\n             () + 5 if i\n             else 3)",
    "far": "def go():\n    if not wait:" + "\n" * 700 + "        pass\n    return [\n1,\n2,\n" + "wait()]",
    "names": "def größe_\u4e2d\u6587():\n    \U0001d4ae = 1\n    wait()\ngo = größe_\u4e2d\u6587",
}
FILES = {"names": "m\u00f6d\u4e2d\U0001f600\udce9.py", "lines": "/" + "x" * 600 + "/lines.py"}
STANDING = """
import faulthandler, gc, json, signal, sys, threading, time
STACKS, FILES = json.loads(sys.argv[1])
ready, lock = threading.Semaphore(0), threading.Lock()
lock.acquire()
def wait():
    ready.release()
    lock.acquire()
class Holder:
    def hold(self, depth):
        held = bytearray(3000000)
        count = len(held)
        return self.hold(depth - 1) if depth else wait()
def run(name):
    space = {"wait": wait}
    exec(compile(STACKS[name], FILES.get(name, "/srv/" + name + ".py"), "exec"), space)
    if "go" in space: space["go"]()
threads = [threading.Thread(target=run, args=(name,), name=name, daemon=True) for name in STACKS]
threads.append(threading.Thread(target=lambda: Holder().hold(1), name="holder", daemon=True))
for thread in threads: thread.start()
for thread in threads: ready.acquire()
faulthandler.register(signal.SIGUSR1)
gc.collect()
print(json.dumps({hex(thread.ident): thread.native_id for thread in threading.enumerate()}), flush=True)
time.sleep(600)
"""


def ascii_of(text):
    """As faulthandler writes it."""
    def escape(c):
        n = ord(c)
        return c if 32 <= n < 127 else f"\\x{n:02x}" if n < 256 else f"\\u{n:04x}" if n < 65536 else f"\\U{n:08x}"
    text = "".join(map(escape, text))
    return text if len(text) < 500 else text[:500]


def frames_by_faulthandler(text):
    """Of each thread: function, file and line, innermost first; whether there are more."""
    found = {}
    for line in text.splitlines():
        head = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)", line)
        frame = re.match(r'  File "(.*)", line (\d+) in (.*)$', line)
        if head:
            found[hex(int(head.group(1), 16))] = current = []
        elif frame:
            current.append((frame.group(3), frame.group(1).removesuffix("..."), int(frame.group(2))))
    return found


def wait_for_text(path, end):
    deadline = time.monotonic() + 30 * live.SLOW
    while time.monotonic() < deadline:
        with open(path) as file: # of its own: the program writes where a shared one stands
            text = file.read()
        if text.endswith(end):
            return text
        time.sleep(0.02)
    raise live.Failure(f"faulthandler has not ended: {text[-200:]}")


def plain_rows(store, sql):
    """Not escaped."""
    return json.loads(heapx("sql", store, sql, "--format", "json")[1])


def frames_by_heapx(store, lines=True):
    """The same of each thread by number, of Python's functions and of all."""
    call = {row["frame_id"]: row for row in plain_rows(store, "SELECT * FROM frames")}
    found, every = {}, {}
    for thread in plain_rows(store, "SELECT tid, stack_id FROM threads WHERE stack_id IS NOT NULL"):
        at, stack = call[thread["stack_id"]], []
        while at:
            stack.append(at)
            at = call.get(at["parent_id"])
        every[thread["tid"]] = stack
        found[thread["tid"]] = [(ascii_of(row["label"]), ascii_of(row["source"].rpartition(":")[0]),
                                 int(row["source"].rpartition(":")[2] if lines else 0)) for row in stack if row["module"] == "Python"]
    return found, every


def standing(interpreter, folder):
    """A store of threads that stand still, what faulthandler says of them, and their numbers."""
    words = json.dumps([STACKS, FILES])
    with open(f"{folder}/faults", "w") as faults:
        with start(interpreter, "-c", STANDING, words, stderr=faults) as target:
            tids = json.loads(target.process.stdout.readline())
            store = take(folder, target.pid)
            os.kill(target.pid, signal.SIGUSR1)
            said = wait_for_text(faults.name, "in <module>\n")
    return store, frames_by_faulthandler(said), {hex(int(ident, 16)): tid for ident, tid in tids.items()}


def frames(folder):
    """What each thread is in: the same as faulthandler says."""
    for interpreter in interpreters():
        store, said, tids = standing(interpreter, folder)
        found, every = frames_by_heapx(store)
        for ident, stack in said.items():
            mine = found[tids[ident]]
            check(mine[:len(stack)] == stack and (len(mine) == len(stack) or len(stack) == 100),
                  f"{interpreter}: {stack}\nby heapx {mine}\n{[row['label'] for row in every[tids[ident]]]}\n"
                  f"{live.rows(store, 'SELECT * FROM losses')}")
        check(max(map(len, found.values())) > 300, f"{interpreter}: {max(map(len, found.values()))} frames at most")
        inside = [row["label"] for row in every[tids[next(i for i in said if said[i][0][0] == "wait")]]]
        check(not inside[0].startswith("wait"), f"{interpreter}: no frames of C: {inside[:9]}")
        print(f"  {interpreter}: {sum(map(len, said.values()))} frames of {len(said)} threads")
        check(not live.rows(store, "SELECT * FROM losses"), live.rows(store, "SELECT * FROM losses"))
        check_locals(store, interpreter)


def stack_of_core(folder):
    """Of a core: the same frames and variables as of the process."""
    if not shutil.which("gcore"):
        return
    kinds = "SELECT name, module, direct_objects FROM roots WHERE kind = 'frame' AND module LIKE '%.py' ORDER BY address"
    for interpreter in list(interpreters())[:1 if live.is_set("HX_QUICK") else None]:
        with start(interpreter, "-c", STANDING, json.dumps([STACKS, FILES])) as target:
            target.process.stdout.readline()
            store, other = take(folder, target.pid), f"{folder}/core.db"
            heapx("import", core.gcore(folder, target.pid), "-o", other, ok=(0, 3))
        check(frames_by_heapx(store)[0] == frames_by_heapx(other)[0], f"{interpreter}: other frames in a core")
        check(live.rows(store, kinds) == live.rows(other, kinds), f"{interpreter}: other variables in a core")
        os.unlink(other)


def check_locals(store, interpreter):
    """Variables are roots, and hold what they lead to."""
    root = live.rows(store, "SELECT * FROM roots WHERE kind = 'frame' AND name = 'Holder.hold: held'")
    check(len(root) == 2 and all(row["retained_bytes"] > 3000000 for row in root), f"{interpreter}: {root}")
    check({row["module"] for row in root} == {"<string>"}, root)
    other = live.rows(store, "SELECT name FROM roots WHERE name = 'größe_\u4e2d\u6587 +0x0' AND kind = 'frame'")
    check(len(other) == 1, f"{interpreter}: {other}")
    held = live.row(store, "SELECT e.target AS address FROM root_edges AS e JOIN roots AS r USING (snapshot, root_id)"
                     " WHERE r.name = 'Holder.hold: held' LIMIT 1")
    said = heapx("why", store, held["address"])[2]
    check("begins in Holder.hold: held (frame of <string>)" in said, said)
    names = {row["name"]: row for row in live.rows(store, "SELECT * FROM roots WHERE module LIKE '%python%'")}
    for name in ("sys.modules", "interned strings", "gc generation 2"):
        check(name in names and names[name]["direct_objects"] <= 2, f"{interpreter}: no root {name}")
    check(names["interned strings"]["retained_bytes"] > 10000, names["interned strings"])
    check(not names["gc generation 2"]["retained_bytes"], names["gc generation 2"])
    nameless = live.rows(store, "SELECT name FROM roots WHERE name LIKE 'frames of Python%' AND direct_objects > 0")
    check(not nameless, f"{interpreter}: {nameless}")


INTERPRETERS = """
import os, sys, threading, time
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
number, (ready, to) = interpreters.create(), os.pipe()
CODE = "import os, time\\ndef inside():\\n  os.write(" + str(to) + ", b'x')\\n  time.sleep(600)\\ninside()"
def enter(): interpreters.run_string(number, CODE)
threading.Thread(target=enter, name="other", daemon=True).start()
os.read(ready, 1)
print("ready", flush=True)
time.sleep(600)
"""


def subinterpreters(folder):
    """A thread in another interpreter is in functions of both; a heap that nobody knows is told of."""
    for interpreter, version in interpreters().items():
        with start(interpreter, "-c", INTERPRETERS) as target:
            target.wait_line("ready")
            store = take(folder, target.pid, ok=(0,) if version < (3, 12) else (3,))
        stacks = [[frame[0] for frame in stack] for stack in frames_by_heapx(store)[0].values()]
        check(["<module>"] in stacks and ["inside", "<module>", "enter", "run", "_bootstrap_inner", "_bootstrap"] in stacks,
              f"{interpreter}: {stacks}")
        losses = [row["what"] for row in live.rows(store, "SELECT * FROM losses")]
        check(losses == (["heaps of sub-interpreters"] if version >= (3, 12) else []), f"{interpreter}: {losses}")


BUILT_IN = """
import ctypes, gc, os, posixpath, stat, sys, time
with open("/proc/self/maps") as maps:
    data = [[int(word, 16) for word in line.split()[0].split("-")] for line in maps if " rw-p " in line and "python" in line]
def is_built_in(item): return any(start <= id(item) < end for start, end in data)
codes = [item.__code__ for module in (os, posixpath, stat) for item in vars(module).values() if hasattr(item, "__code__")]
texts = [item for code in codes for item in (code.co_linetable, *code.co_consts)
         if type(item) in (bytes, str) and item.isascii() | (type(item) is bytes) and len(item) > 99 and is_built_in(item)]
allocate = ctypes.CDLL(None).malloc
allocate.restype = ctypes.c_uint64
for kind in (bytes, str):
    for text in [text for text in texts if type(text) is kind][:1]:
        block = allocate(5000)
        ctypes.c_uint64.from_address((id(text) + sys.getsizeof(text) & -8) - 16).value = block
        print(block, flush=True)
print("ready", flush=True)
time.sleep(600)
"""


def built_in(folder):
    """Text of objects that the interpreter has built in holds nothing."""
    for interpreter, version in interpreters().items():
        with start(interpreter, "-c", BUILT_IN) as target:
            blocks = [int(line) for line in iter(target.process.stdout.readline, b"ready\n")]
            store = take(folder, target.pid)
        held = live.rows(store, "SELECT n.name, e.target FROM root_edges AS e JOIN roots AS n USING (snapshot, root_id)"
                         f" WHERE n.kind = 'global' AND e.target IN ({', '.join(map(str, blocks)) or 'NULL'})")
        print(f"  {interpreter}: {len(blocks)} texts that look like pointers")
        check(len(blocks) == 2 or version != (3, 11) or "/usr/bin" not in interpreter, f"{interpreter}: {blocks}")
        check(not held, f"{interpreter}: text holds {held}")


REUSED = """
import sys, time
spare = [[] for _ in range(200)], [{} for _ in range(200)]
del spare # eighty of each wait to be used again
lists, dicts = [[i] for i in range(400)], [{i: i} for i in range(400)]
print(*map(id, lists), flush=True)
print(*map(id, dicts), flush=True)
print("ready", flush=True)
time.sleep(600)
"""


def reused(folder):
    """Of objects that were taken from the interpreter's free lists these know nothing any more."""
    for interpreter in interpreters():
        with start(interpreter, "-c", REUSED) as target:
            blocks = [[int(word) - 16 for word in target.process.stdout.readline().split()] for _ in range(2)]
            target.wait_line("ready")
            store = take(folder, target.pid)
        for kind, addresses in zip(("lists", "dicts"), blocks):
            held = live.rows(store, "SELECT n.name, e.target FROM root_edges AS e JOIN roots AS n USING (snapshot, root_id)"
                             f" WHERE n.kind = 'global' AND n.name NOT LIKE 'gc %' AND e.target IN"
                             f" ({', '.join(map(str, addresses))})")
            print(f"  {interpreter}: {len(held)} of {len(addresses)} {kind} held by globals")
            check(not held, f"{interpreter}: {kind}: {held}")


BEHIND = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc_usable_size.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
kept = [type(f"Class{i}", (), {"__slots__": [f"a{k}" for k in range(i)]}) for i in range(40)]
for i, item in enumerate(kept):
    start, asked = id(item) - 16, 16 + type.__basicsize__ + (i + 1) * type.__itemsize__
    if libc.malloc_usable_size(start) >= asked + 8:
        block = libc.malloc(5000)
        ctypes.c_uint64.from_address(start + asked).value = block
        print(start, block, flush=True)
print("ready", flush=True)
time.sleep(600)
"""


def behind(folder):
    """Words behind what was asked for an object hold nothing, of any type."""
    for interpreter in interpreters():
        with start(interpreter, "-c", BEHIND, PYTHONMALLOC="malloc") as target:
            pairs = [tuple(map(int, line.split())) for line in iter(target.process.stdout.readline, b"ready\n")]
            store = take(folder, target.pid)
        check(len(pairs) > 5, f"{interpreter}: {pairs}")
        rules = [row["rule"] for source, block in pairs for row in live.rows(
            store, f"SELECT rule FROM edges WHERE source = {source} AND target = {block}")]
        print(f"  {interpreter}: {len(pairs)} words behind classes")
        check(rules == ["requested"] * len(pairs), f"{interpreter}: {rules}")


DAMAGED = """
import gc, sys, time
class Node: pass
class Other: pass
kept = [Node() for i in range(20000)] + [[i] for i in range(5000)] + [(i, str(i)) for i in range(5000)]
gc.collect(); gc.disable()
stack = []
def deep(n):
    stack.append(sys._getframe())
    if n: return deep(n - 1)
    print(id(Node), id(Other), *map(id, kept[::10]), flush=True)
    print(id(deep.__code__), *map(id, stack), flush=True)
    time.sleep(600)
deep(40)
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


def wait_for_sleep(pid):
    """Until then it would work with what is damaged."""
    sleeps = ("35 ", "230 ")  # nanosleep, clock_nanosleep
    for _ in range(int(1000 * live.SLOW)):
        with open(f"/proc/{pid}/syscall") as syscall:
            if syscall.read().startswith(sleeps):
                return
        time.sleep(0.01)
    raise live.Failure(f"{pid} does not sleep")


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


def damage_frames(memory, code, frames, what):
    """`code`: a code object; `frames`: frame objects, whose frames lie elsewhere."""
    frames = [memory.words(at + 24, 1)[0] for at in frames]
    previous = next(k for k in range(10) if memory.words(frames[9] + 8 * k, 1)[0] == frames[8])
    if what == "round":
        memory.put(frames[3] + 8 * previous, frames[33])
    for at in random.sample(frames, 20) if what == "frames" else ():
        memory.put(at + 8 * random.randrange(9), random.choice([0, at, -1, random.getrandbits(64), code, frames[0]]))
    for at in range(code + 48, code + 144, 8) if what == "code" else ():
        memory.put(at, random.choice([0, code, -1, random.getrandbits(64), frames[0], memory.words(at, 1)[0] ^ 1 << 20]))


def damage_stacks(folder):
    """Frames and code that lie: functions end where they make no sense, and that is told."""
    random.seed(int(os.environ.get("HX_SEED", "7")))
    for interpreter in interpreters():
        for what in ("round", "code", *["frames"] * (2 if live.is_set("HX_QUICK") else 6)):
            with start(interpreter, "-c", DAMAGED) as target:
                target.process.stdout.readline()
                code, *frames = [int(word) for word in target.process.stdout.readline().split()]
                wait_for_sleep(target.pid)
                damage_frames(Memory(target.pid), code, frames, what)
                store = take(folder, target.pid, ok=(0, 3))
            n = max(map(len, frames_by_heapx(store, lines=False)[0].values()))
            losses = {row["what"] for row in live.rows(store, "SELECT * FROM losses")}
            missing = "threads whose outer frames of Python are missing" in losses
            check(n <= 128 and (missing or n >= 42 or what == "frames"), f"{interpreter} {what}: {n} frames, {losses}")
            check(missing or what != "round", f"{interpreter}: {n} frames, {losses}")


def damage(folder):
    """A heap that lies: a snapshot comes out, no object twice, and damage is told of."""
    interpreter = next(iter(interpreters()))
    random.seed(int(os.environ.get("HX_SEED", "7")))
    for what in ("types", "sizes", "cycle", "pools", "arenas"):
        with start(interpreter, "-c", DAMAGED) as target:
            ids = [int(word) for word in target.process.stdout.readline().split()]
            wait_for_sleep(target.pid)
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
    TESTS = (counts, malloc, leak, frames, stack_of_core, subinterpreters, built_in, reused, behind, damage, damage_stacks)
    live.main(*TESTS, turns=TESTS)
