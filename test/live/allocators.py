#!/usr/bin/env -S python3 -B
"""allocators.py - the heap of each allocator, block by block, against what itself says.

A program of eight threads (allocators_victim.c) takes and frees blocks of all sizes, also those of
other threads, and writes down each one that is left with the usable size that the allocator's own
function tells. The objects of a snapshot are these, no block less, and no more than what libraries
have beside them; figures of the view `allocators` add up to those of `snapshots`.

An allocator is a row of ALLOCATORS. What is not installed is skipped, and said so.
"""
import array
import bisect
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import core
import live
from live import check, heapx

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allocators_victim.c")
DAMAGES = ((3, 10, 30, 100, 200, 300) if live.is_set("HX_NIGHTLY") else
           (30, 300) if live.is_set("HX_QUICK") else (300,))  # what is quick is sanitized
BLOCKS = 1_000_000 if live.is_set("HX_NIGHTLY") else 20_000 if live.is_set("HX_QUICK") else 100_000
CHURNS = 200 if live.is_set("HX_NIGHTLY") else 2
EXTRA = 100  # blocks of the libraries: buffers, tables of threads


class Allocator:
    """name, version: as `allocators` has them (version: how it begins). flags: of the compiler. preload: a
    library that takes malloc's place. other: allocators that have a heap beside it. inside: an aligned block may
    be the end of a larger one, which is the object."""

    def __init__(self, name, version, flags=(), preload=None, needs=None, other=("glibc",), compiler="gcc",
                 inside=False):
        self.name, self.version, self.flags, self.preload = name, version, list(flags), preload
        self.needs, self.other, self.compiler, self.inside = needs or preload, other, compiler, inside

    def path(self, name):
        found = glob.glob(f"/usr/lib/*/{name}") or glob.glob(f"/usr/lib/{name}") or glob.glob(name)
        return found[0] if found else None

    def missing(self):
        return self.needs if self.needs and not self.path(self.needs) else None

    def environment(self):
        return dict(os.environ, LD_PRELOAD=self.path(self.preload)) if self.preload else dict(os.environ)

    def __str__(self):
        way = f"preloaded {self.preload}" if self.preload else " ".join(self.flags) or "linked"
        return f"{self.name} {self.version} ({way})"


MIMALLOC = ["-DPREFIX(n)=mi_##n", "-DUSABLE=mi_usable_size", "-lmimalloc"]
TCMALLOC_STATIC = ["-Wl,--whole-archive", "-ltcmalloc_minimal", "-Wl,--no-whole-archive", "-lstdc++", "-lm"]
ALLOCATORS = [
    Allocator("glibc", "2."),
    Allocator("glibc", "2.", ["-static"]),
    Allocator("mallocng", "1.2.", needs="/usr/bin/musl-gcc", other=(), compiler="musl-gcc"),
    Allocator("mallocng", "", ["-static"], needs="/usr/bin/musl-gcc", other=(), compiler="musl-gcc"),
    Allocator("mallocng", "", ["-static", "-s"], needs="/usr/bin/musl-gcc", other=(), compiler="musl-gcc"),
    Allocator("tcmalloc", "2.", ["-ltcmalloc_minimal"], needs="libtcmalloc_minimal.so"),
    Allocator("tcmalloc", "2.", preload="libtcmalloc_minimal.so.4"),
    Allocator("tcmalloc", "2.", preload="libtcmalloc.so.4"),
    Allocator("tcmalloc", "2.", ["-static", *TCMALLOC_STATIC], needs="libtcmalloc_minimal.a"),
    Allocator("tcmalloc", "2.", ["-static", "-s", *TCMALLOC_STATIC], needs="libtcmalloc_minimal.a"),
    Allocator("tbbmalloc", "2", ["-DPREFIX(name)=scalable_##name", "-DUSABLE=scalable_msize", "-ltbbmalloc"],
              needs="libtbbmalloc.so", inside=True),
    Allocator("tbbmalloc", "2", preload="libtbbmalloc_proxy.so.2", inside=True),
    Allocator("mimalloc", "2.0", preload="libmimalloc.so.2", inside=True),
    Allocator("mimalloc", "2.0", MIMALLOC, needs="libmimalloc.so", inside=True),
    # its segments lie in a block of glibc's
    Allocator("mimalloc", "2.0", [*MIMALLOC, "-DNESTED"], needs="libmimalloc.so", inside=True),
    Allocator("jemalloc", "5.", ["-ljemalloc"], needs="libjemalloc.so"),
    Allocator("jemalloc", "5.", preload="libjemalloc.so.2"),
    Allocator("jemalloc", "5.", ["-l:libjemalloc.a", "-lm", "-lstdc++"], needs="libjemalloc.a"),
    Allocator("jemalloc", "5.", ["-static", "-s", "-l:libjemalloc.a", "-lm", "-lstdc++"], needs="libjemalloc.a"),
]


def drawn():
    """With HX_TURN of each allocator one row, and a third of the others; else, and at night, all of them."""
    turn = os.environ.get("HX_TURN")
    if not turn or live.is_set("HX_NIGHTLY"):
        return ALLOCATORS
    rows = random.Random(turn).sample(ALLOCATORS, len(ALLOCATORS))
    first = {row.name: row for row in rows if not row.missing()}.values()
    rest = [row for row in rows if row not in first]
    return [*first, *rest[:len(rest) // 3]]


def build(folder, allocator):
    program = os.path.join(folder, "program")
    subprocess.run([allocator.compiler, "-O1", "-w", "-fno-builtin", SOURCE, "-o", program, "-pthread", *allocator.flags],
                   check=True)
    return program


def read_truth(path):
    words = array.array("Q")
    with open(path, "rb") as file:
        words.frombytes(file.read())
    return dict(zip(words[::2], words[1::2]))


def read_objects(store):
    text = heapx("sql", store, "select address, bytes from objects", "--format", "csv")[1]
    objects = {}
    for line in text.splitlines()[1:]:
        address, size = line.split(",")
        objects[live.number(address)] = int(size)
    return objects


def enclose(truth, objects):
    """The objects that blocks end. One of no bytes is an object of one."""
    truth = {address: size or 1 for address, size in truth.items()}
    ends = {address + size: (address, size) for address, size in objects.items()}
    return dict((address, size) if address in objects else ends.get(address + size, (address, size))
                for address, size in truth.items())


def compare(allocator, store, truth, extra=EXTRA):
    objects = read_objects(store)
    if allocator.inside:
        truth = enclose(truth, objects)
    missing = [address for address in truth if address not in objects]
    sizes = [address for address, size in truth.items() if objects.get(address, size) != size]
    more = [address for address in objects if address not in truth]
    print(f"  {len(truth)} blocks, {len(objects)} objects, {len(missing)} missing, {len(sizes)} of another size, "
          f"{len(more)} more")
    check(not missing, f"{allocator}: {len(missing)} missing: {[(hex(a), truth[a]) for a in missing[:5]]}")
    check(not sizes, f"{allocator}: sizes: {[(hex(a), truth[a], objects[a]) for a in sizes[:5]]}")
    check(len(more) <= extra, f"{allocator}: {len(more)} more: {[(hex(a), objects[a]) for a in sorted(more)[:8]]}")
    order = sorted(objects)
    check(all(a + objects[a] <= b for a, b in zip(order, order[1:])), f"{allocator}: objects overlap")


def check_shares(allocator, store):
    snapshot = live.row(store, "select * from snapshots")
    shares = live.rows(store, "select * from allocators")
    mine = [share for share in shares if share["allocator"] == allocator.name]
    check(len(mine) == 1 and (mine[0]["version"] or "").startswith(allocator.version), f"{allocator}: {shares}")
    check(float(mine[0]["coverage"]) == 1, f"{allocator}: {shares}")
    check(f"{allocator.name} {mine[0]['version'] or ''}".strip() in snapshot["allocator"], f"{snapshot['allocator']}: {shares}")
    for column, whole in (("bytes", "heap_bytes"), ("objects", "heap_objects"), ("free_bytes", "free_bytes"),
                          ("overhead_bytes", "overhead_bytes")):
        check(sum(share[column] for share in shares) == snapshot[whole], f"{allocator}: {column}: {shares} {snapshot}")
    check(snapshot["complete"] == 1, f"{allocator}: {snapshot}")
    part = {row["part"]: row["bytes"] for row in live.rows(store, "select * from account")}
    check(sum(part.values()) == snapshot["rss_bytes"], f"{allocator}: account")


def run(folder, allocator, *words):
    missing = allocator.missing()
    if missing:
        print(f"  not installed: {missing}")
        return
    program, told, store = build(folder, allocator), os.path.join(folder, "told"), os.path.join(folder, "store.db")
    with live.Target([program, str(BLOCKS), "3", told, *words], env=allocator.environment()) as target:
        pid = int(target.wait_line("ready").split()[1])
        try:
            heapx("snap", pid, "-o", store)
        finally:
            if pid != target.pid:
                os.kill(pid, 9)
    compare(allocator, store, read_truth(told))
    check_shares(allocator, store)
    os.unlink(store)


def blocks(folder):
    for allocator in drawn():
        print(f"  {allocator}")
        run(folder, allocator)


def after_fork(folder):
    for allocator in drawn():
        if not allocator.flags:
            print(f"  {allocator}")
            run(folder, allocator, "fork")


def standing_blocks(pid, slots, n):
    """What the table of a program that stands still has: a block is put there once it was made, and
    taken out before it is freed."""
    words = array.array("Q")
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(slots)
        words.frombytes(memory.read(8 * n))
    return [word for word in words if word]


def has_block(allocator, objects, order, address):
    """Whether an object is there: with some allocators one that the block is the end of."""
    before = order[bisect.bisect_right(order, address) - 1]
    return address in objects or allocator.inside and before < address < before + objects[before]


def compare_churning(allocator, target, store, table):
    """One snapshot of a program that was stopped anywhere: all its blocks, or that it lacks some."""
    os.kill(target.pid, signal.SIGSTOP)
    heapx("snap", target.pid, "-o", store, ok=(0, 3))
    truth = standing_blocks(target.pid, *table)
    os.kill(target.pid, signal.SIGCONT)
    complete, notes = live.row(store, "select complete, notes from snapshots").values()
    if complete:
        objects = read_objects(store)
        order = sorted(objects)
        missing = [hex(address) for address in truth if not has_block(allocator, objects, order, address)]
        check(not missing, f"{allocator}: {len(missing)} of {len(truth)} missing: {missing[:5]}; {notes}")
        check(len(objects) <= len(truth) + EXTRA, f"{allocator}: {len(objects)} objects, {len(truth)} blocks; {notes}")
    os.unlink(store)
    return complete


def churning(folder):
    """Of a program that never rests threads are led out of malloc; where that cannot be, as a signal has
    stopped it, a snapshot says so."""
    rows = [row for row in ALLOCATORS if not row.missing() and not row.flags]
    for allocator in rows if live.is_set("HX_NIGHTLY") else live.third(rows):
        program, store = build(folder, allocator), os.path.join(folder, "store.db")
        led, whole = 0, 0
        with live.Target([program, "20000", "5", "/dev/null", "forever"], env=allocator.environment()) as target:
            table = [int(word, 0) for word in target.wait_line("ready").split()[1:]]
            rounds = 0
            while rounds < CHURNS or (not (led + whole) and rounds < 10 * CHURNS): # busy, none may be for a while
                rounds += 1
                time.sleep(random.random() / 20)
                heapx("snap", target.pid, "-o", store, ok=(0, 3))
                rows = live.row(store, "select complete, heap_objects, notes from snapshots")
                check(rows["heap_objects"] is not None, f"{allocator}: {rows}")
                led += rows["complete"]
                os.unlink(store)
                whole += compare_churning(allocator, target, store, table)
        print(f"  {allocator}: complete {led} of {rounds}, stopped by a signal {whole}")
        check(led + whole, f"{allocator}: none was complete")


def cores(folder):
    """The same of a core. What it holds in memory that was given back to the system is not."""
    for allocator in drawn():
        if allocator.missing() or allocator.name == "glibc":
            continue
        print(f"  {allocator}")
        program, store = build(folder, allocator), os.path.join(folder, "live.db")
        with live.Target([program, "5000", "3", "/dev/null"], env=allocator.environment()) as target:
            target.wait_line("ready")
            heapx("snap", target.pid, "-o", store)
            path = core.gcore(folder, target.pid)
        taken, _ = core.take(folder, path)
        check(read_objects(store) == read_objects(taken), f"{allocator}: objects of the core are others")
        a, b = (live.rows(each, "select * from allocators") for each in (store, taken))
        check(a == b, f"{allocator}: live {a}, of the core {b}")
        for each in (store, path, taken):
            os.unlink(each)


class Core:
    """A core whose words can be damaged, and put right again."""

    def __init__(self, path, seed):
        self.file, self.random, self.old = open(path, "r+b"), random.Random(seed), {}
        header = self.file.read(64)
        self.file.seek(struct.unpack_from("<Q", header, 32)[0])
        heads = [struct.unpack("<IIQQQQQQ", self.file.read(56)) for _ in range(struct.unpack_from("<H", header, 56)[0])]
        self.writable = [(offset, address, size) for kind, flags, offset, address, _, size, *_ in heads
                         if kind == 1 and flags & 2 and size]

    def word(self, offset):
        self.file.seek(offset)
        return int.from_bytes(self.file.read(8), "little")

    def pointer(self):
        """Where a word that leads to memory of the program lies, and the word."""
        weights = [size for _, _, size in self.writable]
        while True:
            offset, _, size = self.random.choices(self.writable, weights)[0]
            place = offset + self.random.randrange(size // 8) * 8
            word = self.word(place)
            if any(address <= word < address + length for _, address, length in self.writable):
                return place, word

    def damage(self):
        place, word = self.pointer()
        self.old.setdefault(place, word)
        changed = self.random.choice([0, word + 8, word - 8, word + 4096, word ^ 1 << self.random.randrange(64),
                                      self.random.getrandbits(64), self.pointer()[1], 2**64 - 1])
        self.write(place, changed % 2**64)

    def write(self, place, word):
        self.file.seek(place)
        self.file.write(word.to_bytes(8, "little"))
        self.file.flush()

    def heal(self):
        for place, word in self.old.items():
            self.write(place, word)
        self.old.clear()


def damaged(folder):
    """Structures that lie: no crash, no object twice, and what is missing is told."""
    if not shutil.which("gcore"):
        raise live.Skip("gdb is not installed")
    done = set()
    for allocator in ALLOCATORS:
        if allocator.missing() or allocator.name in done:
            continue
        done.add(allocator.name)
        program, store = build(folder, allocator), os.path.join(folder, "store.db")
        with live.Target([program, "3000", "5", os.path.join(folder, "told")], env=allocator.environment()) as target:
            target.wait_line("ready")
            subprocess.run(["gcore", "-o", f"{folder}/core", str(target.pid)], capture_output=True, check=True,
                           timeout=120 * live.SLOW)
            path = f"{folder}/core.{target.pid}"
        image, complete = Core(path, 7), []
        for words in DAMAGES:
            for _ in range(words):
                image.damage()
            heapx("import", path, "-o", store, ok=(0, 3))
            objects = read_objects(store)
            order = sorted(objects)
            check(all(a + objects[a] <= b for a, b in zip(order, order[1:])), f"{allocator}: objects overlap")
            complete.append(live.row(store, "select complete, heap_objects from snapshots"))
            shares = live.rows(store, "select coverage from allocators where coverage is not null")
            check(all(0 <= float(share["coverage"]) <= 1 for share in shares), f"{allocator}: {shares}")
            image.heal()
            os.unlink(store)
        print(f"  {allocator}: {[(row['complete'], row['heap_objects']) for row in complete]}")
        check(not complete[-1]["complete"], f"{allocator}: {complete}")
        os.unlink(path)


if __name__ == "__main__":
    LONG = (after_fork, churning, cores)
    live.main(blocks, *LONG, damaged, long=(blocks, *LONG))
