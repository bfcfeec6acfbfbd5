#!/usr/bin/env -S python3 -B
"""core.py - does a core say what the live process says?

Victims stand still; a snapshot is taken of each of them, then a core, by gdb and by the kernel.
Both stores must have the same rows in every view and object table, but for what a core cannot know.
Then cores that are cut short, also before malloc's own data, whose files are gone or others, and
headers that lie.
"""
import os
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import live
from live import Target, check, heapx, row, rows, victim

# The time, how it was taken, what is resident: a core does not have them.
NOT_IN_CORES = {"snapshots": {"taken_at", "pause_us", "method", "notes", "rss_bytes", "complete"},
                "account": None, "pages": None}
OBJECT_TABLES = {"objects": "address", "edges": "source, target, offset, kind",
                 "root_edges": "root_id, address, target, kind"}


def views(store):
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
        return [name for name, in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]


def content(store, name, order=None, leave=()):
    found = rows(store, f"SELECT * FROM {name}" + (f" ORDER BY {order}" if order else ""))
    said = [tuple((k, v) for k, v in r.items() if k not in leave) for r in found]
    return said if order else sorted(said, key=repr)


def same(a, b, leave=None, what=""):
    """Fails where two stores differ."""
    for name, order in [(v, None) for v in views(a)] + list(OBJECT_TABLES.items()):
        out = dict(NOT_IN_CORES, **(leave or {})).get(name, ())
        if out is None:
            check(not rows(b, f"SELECT * FROM {name}"), f"{what}: a core has {name}")
            continue
        x, y = content(a, name, order, out), content(b, name, order, out)
        if x != y:
            only = [r for r in x if r not in set(y)][:4], [r for r in y if r not in set(x)][:4]
            raise live.Failure(f"{what}: {name} differs ({len(x)} rows live, {len(y)}): only live "
                               f"{only[0]}, only in the core {only[1]}")


def gcore(folder, pid):
    if not shutil.which("gcore"):
        raise live.Skip("gdb is not installed")
    done = subprocess.run(["gcore", "-o", f"{folder}/core", str(pid)], capture_output=True,
                          timeout=120 * live.SLOW, preexec_fn=live.end_with_parent)
    path = f"{folder}/core.{pid}"
    check(os.path.exists(path), f"gcore: {done.stderr[-400:]}")
    return path


def take(folder, path, *options, name="core.db", ok=(0,)):
    store = f"{folder}/{name}"
    if os.path.exists(store):
        os.unlink(store)
    said = heapx("import", path, "-o", store, "--threads-as", "parts", *options, ok=ok)
    return store, said[2]


def threads_leave(pid):
    return {"threads": {"name"}} if len(os.listdir(f"/proc/{pid}/task")) > 1 else {}


def compare(folder, target, what, leave=None):
    """Live against gcore; returns the core's path and the live store."""
    own = f"{folder}/{target.pid}"
    os.mkdir(own)
    os.kill(target.pid, signal.SIGSTOP)
    store = f"{own}/live.db"
    heapx("snap", target.pid, "-o", store, "--threads-as", "parts")  # a core does not name threads
    path = gcore(own, target.pid)
    core, _ = take(own, path)
    same(store, core, dict(threads_leave(target.pid), **(leave or {})), what)
    snapshot = row(core, "SELECT * FROM snapshots")
    check(snapshot["method"] == "core" and snapshot["pause_us"] is None and
          snapshot["rss_bytes"] is None and snapshot["complete"] == 1, f"{what}: {snapshot}")
    return path, store


def same_why(path, store):
    """The way to an object, told of the core itself, is that of the live store."""
    found = rows(store, "SELECT state, min(address) AS first, max(address) AS last FROM objects "
                        "GROUP BY state")
    chosen = {r["first"] for r in found} | {found[0]["last"]}
    for address in sorted(chosen):
        live_said = heapx("why", store, address, "--format", "csv", ok=(0, 1))
        core_said = heapx("why", path, address, "--format", "csv", ok=(0, 1))
        check(live_said[:2] == core_said[:2], f"why {address}: {live_said}, of the core {core_said}")
        check(live_said[0] == 1 or live_said[1].count("\n") > 1, f"why {address}: {live_said}")


def programs(folder):
    """Everything the same, of many kinds of programs."""
    log = f"{folder}/truth.bin"
    for name in ("truth", "truth_static_pie"):
        with Target([victim(name), "--out", log, "--steps", "1500", "--threads", "3",
                     "--leaks", "60"]) as target:
            target.wait_line("ready")
            compare(folder, target, name)
    for name in ("classes", "classes_static_stripped"):
        with Target([victim(name)]) as target:
            target.wait_line("ready")
            compare(folder, target, name)
    with Target([victim("roots")]) as target:
        said(target, "example")
        path, store = compare(folder, target, "named roots")
        same_why(path, store)


def servers(folder):
    for argv in (["python3", "-c", "import json, time, threading\n"
                  "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
                  "a = [json.loads('{\"x\": [1, 2, \"three\"]}') for i in range(300)]\n"
                  "print('ready', flush=True)\ntime.sleep(600)"],):
        with Target(argv) as target:
            target.wait_line("ready")
            compare(folder, target, argv[0])
    with Target(["sqlite3", ":memory:"]) as target:
        target.process.stdin.write(b"CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                                   b"SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT "
                                   b"hex(randomblob(20)) FROM n; SELECT 'ready';\n.print\n")
        target.process.stdin.flush()
        target.wait_line("ready")
        time.sleep(0.2)
        compare(folder, target, "sqlite3")


# --- cores of the kernel -----------------------------------------------------------------


def may_dump():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    live.end_with_parent()


def kernel_core(folder):
    """A core that the kernel wrote says the same, and of which signal."""
    with open("/proc/sys/kernel/core_pattern") as pattern:
        if "/" in pattern.read() or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            raise live.Skip("cores of the kernel do not come into the current folder here")
    with Target([victim("roots")], cwd=folder, preexec_fn=may_dump) as target:
        said(target, "example")
        os.kill(target.pid, signal.SIGSTOP)
        heapx("snap", target.pid, "-o", f"{folder}/live.db", "--threads-as", "parts")
        os.kill(target.pid, signal.SIGSEGV)
        os.kill(target.pid, signal.SIGCONT)
        target.process.wait(60)
    cores = [name for name in os.listdir(folder) if name.startswith("core")]
    if not cores:
        raise live.Skip("the kernel writes no cores here")
    path = os.path.join(folder, cores[0])
    store, _ = take(folder, path, name="kernel.db")
    same(f"{folder}/live.db", store, what="kernel")
    notes = row(store, "SELECT notes FROM snapshots")["notes"]
    check("signal 11" in notes, notes)
    # cut: the notes are in front, so who it was stays known
    with open(path, "rb") as file:
        whole = file.read()
    cut = write(folder, "cut", whole[:len(whole) * 6 // 10])
    store, told = take(folder, cut, name="cut.db", ok=(3,))
    snapshot = row(store, "SELECT * FROM snapshots")
    check(snapshot["pid"] == target.pid and snapshot["complete"] == 0 and
          "cut short" in snapshot["notes"] and "not complete" in told, f"{snapshot} {told}")
    check_losses(whole, len(whole) * 6 // 10, store)


UNTOUCHED = """
import ctypes, mmap, os, signal
untouched = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
os.kill(os.getpid(), signal.SIGABRT)
"""


def untouched(folder):
    """What the kernel leaves out because nobody touched it is no loss; what it was told to is."""
    with open("/proc/sys/kernel/core_pattern") as pattern:
        if "/" in pattern.read() or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            raise live.Skip("cores of the kernel do not come into the current folder here")
    for mask, ok in ((0x33, 0), (0x31, 0), (0x32, 3)):
        def dumps(mask=mask):
            may_dump()
            with open("/proc/self/coredump_filter", "w") as file:
                file.write(hex(mask))
        with Target([sys.executable, "-S", "-c", UNTOUCHED], cwd=folder, preexec_fn=dumps) as target:
            target.process.wait(60)
        cores = [name for name in os.listdir(folder) if name.startswith("core")]
        if not cores:
            raise live.Skip("the kernel writes no cores here")
        path = os.path.join(folder, cores[0])
        store, _ = take(folder, path, name=f"untouched{mask}.db", ok=(ok,))
        snapshot = row(store, "SELECT * FROM snapshots")
        check(snapshot["complete"] == (ok == 0), f"{mask:#x}: {snapshot}")
        check(("written without some" in snapshot["notes"]) == (ok == 3), f"{mask:#x}: {snapshot}")
        check(ok or not rows(store, "SELECT * FROM losses"), f"{mask:#x}: losses")
        os.unlink(path)


# --- cores that lack something --------------------------------------------------------------


def said(target, command):
    target.process.stdin.write(command.encode() + b"\n")
    target.process.stdin.flush()
    target.wait_line("done")


def write(folder, name, data):
    path = f"{folder}/{name}"
    with open(path, "wb") as file:
        file.write(data)
    return path


def headers(core):
    """(offset of the header, type, flags, offset, vaddr, filesz, memsz) of each segment."""
    at, n = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    for i in range(n):
        kind, flags, offset, vaddr, _, filesz, memsz, _ = struct.unpack_from("<IIQQQQQQ", core,
                                                                             at + 56 * i)
        yield at + 56 * i, kind, flags, offset, vaddr, filesz, memsz


def check_losses(whole, size, store):
    """Each byte of writable memory behind the cut is counted."""
    lost = sum(r["bytes"] for r in rows(store, "SELECT * FROM losses WHERE what LIKE 'memory behind%'"))
    least = sum(max(0, min(filesz, offset + filesz - size))
                for _, kind, flags, offset, _, filesz, _ in headers(whole)
                if kind == 1 and flags & 2)
    check(least <= lost <= len(whole) - size + 4096, f"{lost} bytes lost, at least {least} were cut")


def small_core(folder, name="roots"):
    with Target([victim(name)]) as target:
        said(target, "example")
        path = gcore(folder, target.pid)
    with open(path, "rb") as file:
        return path, file.read()


def cut(folder):
    """Cores that end too early: partial, or refused with the place."""
    path, whole = small_core(folder)
    table = [h[0] for h in headers(whole)]
    places = {len(whole) * p // 100 for p in (60, 90)} | {0, 1, 20, 63, 64, len(whole) - 1}
    places |= {h[3] + d for h in list(headers(whole))[::4] for d in (0, 5)} | set(table[::5])
    for size in sorted(places):
        short = write(folder, "short", whole[:size])
        status, _, told = heapx("import", short, "-o", f"{folder}/cut.{size}", ok=(0, 1, 3))
        check(status != 0 or size >= len(whole) - 8, f"cut at {size}: taken as whole")
        if size <= table[-1]:
            check(status == 1 and (size < 20 or f"at byte {size} " in told), f"cut at {size}: {told}")
            check(not os.path.exists(f"{folder}/cut.{size}"), f"cut at {size}: a store is left")
        elif status == 3:
            check_losses(whole, size, f"{folder}/cut.{size}")
    status, out, _ = heapx("report", path, "bins", "--format", "csv")
    check("hsc+eps+fc,48,2" in out, out)
    status, out, _ = heapx("report", path, "snapshots", "--scheme", "type", "--format", "csv")
    check(",type," in out, out)
    heapx("report", path, "bins", "--interior", "on")
    heapx("report", path, "bins", "--record", ok=(2,))
    heapx("report", f"{folder}/cut.{len(whole) - 1}", "bins", "--exe", victim("roots"), ok=(2,))
    # gdb writes the notes last: without them the program is known when it is named
    short = write(folder, "short", whole[:len(whole) * 9 // 10])
    status, out, told = heapx("report", short, "bins", "--format", "csv", "--exe", victim("roots"),
                              ok=(3,))
    check("hsc+eps+fc,48,2" in out and "only the program" in told, out + told)
    address = row(f"{folder}/cut.{len(whole) - 1}", "SELECT max(address) AS a FROM objects")["a"]
    if address:
        heapx("why", path, hex(address), ok=(0, 1))


def notes_first(core):
    """The same core in the order of the kernel, which writes notes before memory."""
    order = sorted(headers(core), key=lambda h: h[1] != 4)
    head = bytearray(core[:64])
    struct.pack_into("<Q", head, 32, 64)
    table, body, at = b"", [], 64 + 56 * len(order)
    for place, _, _, offset, _, filesz, _ in order:
        entry = bytearray(core[place:place + 56])
        struct.pack_into("<Q", entry, 8, at)
        table += entry
        body.append(core[offset:offset + filesz])
        at += filesz
    return b"".join([bytes(head), table] + body)


def sizes_of(store):
    return {int(str(r["address"]), 0): r["bytes"]
            for r in rows(store, "SELECT address, bytes FROM objects")}


def check_found(folder, core, size, whole, freed):
    """The objects of a core that is cut: those of the whole one, and what may be in fastbins."""
    short = write(folder, "short", core[:size])
    store, told = take(folder, short, name="short.db", ok=(3,))
    there = [(vaddr, vaddr + max(0, min(filesz, size - offset)))
             for _, kind, flags, offset, vaddr, filesz, _ in headers(core)
             if kind == 1 and flags & 2 and offset < size]
    expected = {a: n for a, n in sizes_of(whole).items()
                if any(start <= a and a + n <= end for start, end in there)}
    found = sizes_of(store)
    wrong = [hex(a) for a, n in expected.items() if found.get(a) != n]
    more = set(found) - set(expected)
    check(len(expected) > 2000 and not wrong,
          f"cut at {size}: {len(wrong)} of {len(expected)} are not as they were: {wrong[:9]}")
    check(more <= freed and all(found[a] <= 120 for a in more),
          f"cut at {size}: no blocks of fastbins: {[hex(a) for a in more - freed][:9]}")
    snapshot = row(store, "SELECT * FROM snapshots")
    check(snapshot["complete"] == 0 and snapshot["allocator"] == "glibc" and
          "without main_arena" in snapshot["notes"] and "leaks are not proven" in told,
          f"{snapshot} {told}")
    losses = {r["what"]: r["count"] for r in rows(store, "SELECT * FROM losses")}
    check("heap blocks with a damaged header" not in losses, losses)
    return len(more), losses


def before_libc(folder):
    """A core that ends before libc's data has the heap all the same."""
    with Target([victim("cut"), "20000", f"{folder}/freed"]) as target:
        target.wait_line("ready")
        path = gcore(folder, target.pid)
    whole, _ = take(folder, path, name="whole.db")
    with open(path, "rb") as file:
        core = file.read()
    os.unlink(path)
    with open(f"{folder}/freed", "rb") as file:
        freed = {a for a, in struct.iter_unpack("<Q", file.read())}
    for data in (core, notes_first(core)):
        loads = [h for h in headers(data) if h[1] == 1]
        heap = max((h for h in loads if h[2] & 2 and h[4] < 0x7000 << 32), key=lambda h: h[5])
        places = heap[3] + heap[5] // 2 + 9, heap[3] + heap[5], len(data) * 6 // 10
        more = [check_found(folder, data, size, whole, freed) for size in places]
        version = re.search(r"2\.(\d+)", row(whole, "SELECT allocator FROM snapshots")["allocator"])
        fastbins = int(version.group(1)) < 43
        check((more[-1][0] > 1000) == fastbins and
              ("fastbins of main_arena" in more[-1][1]) == fastbins, more)


def files(folder):
    """Binaries elsewhere, others of the same name, none."""
    own = f"{folder}/roots"
    shutil.copy(victim("roots"), own)
    with Target([own]) as target:
        said(target, "example")
        path, store = compare(folder, target, "copy")
    libc = rows(store, "SELECT DISTINCT module FROM roots WHERE module LIKE 'libc.so%'")
    moved = f"{folder}/moved"
    os.rename(own, moved)
    # gone: said, and the rest is there
    gone, told = take(folder, path, name="gone.db", ok=(3,))
    check("/roots" in told and row(gone, "SELECT heap_objects FROM snapshots") ==
          row(store, "SELECT heap_objects FROM snapshots"), told)
    # named by --exe, found below --sysroot
    found, _ = take(folder, path, "--exe", moved, name="exe.db")
    same(store, found, what="--exe")
    root = f"{folder}/root"
    names = {own: moved}
    names.update({p: p for p in mapped(path)})
    for name, source in names.items():
        if os.path.exists(source):
            os.makedirs(os.path.dirname(root + name), exist_ok=True)
            shutil.copy(source, root + name)
    found, _ = take(folder, path, "--sysroot", root, name="root.db")
    same(store, found, what="--sysroot")
    # another program of that name
    shutil.copy(victim("truth"), own)
    found, told = take(folder, path, name="other.db", ok=(3,))
    check("build id" in told, told)
    status, _, told = heapx("import", path, "-o", f"{folder}/no.db", "--exe", own, ok=(2,))
    check("is not the program" in told and not os.path.exists(f"{folder}/no.db"), told)
    heapx("import", path, "-o", f"{folder}/no.db", "--exe", f"{folder}/nothing", ok=(1,))
    # an empty sysroot: no file at all
    os.mkdir(f"{folder}/empty")
    found, told = take(folder, path, "--sysroot", f"{folder}/empty", name="empty.db", ok=(3,))
    check("libc.so" in told or not libc, told)


def mapped(path):
    """Files that a core names."""
    with open(path, "rb") as file:
        core = file.read()
    return {p.decode() for p in core.split(b"\0") if p.startswith(b"/usr/lib/") and len(p) < 200
            and p.isascii()}


# --- lies -------------------------------------------------------------------------------------


def lies(folder):
    """Headers and notes that claim what cannot be: refused, with the place."""
    _, whole = small_core(folder)
    loads = [h for h in headers(whole) if h[1] == 1]
    note = next(h for h in headers(whole) if h[1] == 4)

    def lie(name, *changes):
        data = bytearray(whole)
        for at, form, value in changes:
            struct.pack_into(form, data, at, value)
        bad = write(folder, "lie", data)
        status, _, told = heapx("import", bad, "-o", f"{folder}/lie.db", ok=(1,), timeout=20 * live.SLOW)
        check(("at byte " in told or "machine" in told or "format" in told or "no file" in told)
              and not os.path.exists(f"{folder}/lie.db"), f"{name}: {told}")

    first, second = loads[3][0], loads[4][0]
    lie("32 bits", (4, "<B", 1))
    lie("big-endian", (5, "<B", 2))
    lie("another machine", (18, "<H", 183))
    lie("no segments", (56, "<H", 0))
    lie("segments elsewhere", (32, "<Q", 1 << 40))
    lie("short headers", (54, "<H", 32))
    lie("more segments than file", (56, "<H", 0xfffe))
    lie("a count that is not there", (56, "<H", 0xffff), (40, "<Q", 1 << 50))
    lie("beyond all addresses", (first + 40, "<Q", 1 << 63 | 4096), (first + 16, "<Q", 1 << 63))
    lie("no pages", (first + 16, "<Q", loads[3][4] + 8))
    lie("more in the file than in memory", (first + 32, "<Q", loads[3][6] + 4096))
    lie("overlap", (second + 16, "<Q", loads[3][4]))
    lie("beyond any file", (first + 8, "<Q", (1 << 63) - 1))
    lie("notes without end", (note[0] + 32, "<Q", 1 << 40))
    lie("a note that does not fit", (note[3] + 4, "<I", 0x7fffffff))
    lie("a name that does not fit", (note[3], "<I", 0xffffffff))
    sizes = [i for i in range(note[3], len(whole) - 12, 4)
             if whole[i:i + 12] == struct.pack("<III", 5, 336, 1)]
    check(sizes, "no status of a thread")
    lie("a thread of another size", (sizes[0] + 4, "<I", 332))
    lie("thread -1", (sizes[0] + 20 + 32, "<i", -1))
    # the number of segments in section 0 is legal
    data = bytearray(whole) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0,
                                          len(list(headers(whole))), 0, 0)
    struct.pack_into("<Q", data, 40, len(whole))
    struct.pack_into("<H", data, 56, 0xffff)
    many, _ = take(folder, write(folder, "many", data), name="many.db")
    check(row(many, "SELECT complete FROM snapshots")["complete"] == 1, "PN_XNUM")


def mutations(folder):
    """Random changes: test/fuzz/fuzz_core says what is wrong."""
    path, _ = small_core(folder)
    with Target([victim("cut")]) as target:
        target.wait_line("ready")
        long = gcore(folder, target.pid)
    driver = os.path.join(live.BUILD, "test/fuzz/fuzz_core")
    if not os.path.exists(driver):
        raise live.Skip(f"{driver} is not built")
    maker = os.path.join(os.environ.get("HX_SRCDIR", os.path.dirname(__file__) + "/../.."),
                         "test/fuzz/core_seed.py")
    subprocess.run([maker, path, f"{folder}/seed"], check=True)
    subprocess.run([maker, "--cut", long, f"{folder}/cut"], check=True)
    done = subprocess.run([driver, "--cases", "2000", "--seconds", "5", f"{folder}/seed",
                           f"{folder}/cut"],
                          capture_output=True, timeout=120 * live.SLOW, text=True)
    check(done.returncode == 0, done.stdout + done.stderr[-3000:])


if __name__ == "__main__":
    live.main(programs, servers, kernel_core, untouched, cut, before_libc, files, lies, mutations,
              turns=(programs, kernel_core, untouched, cut, before_libc, files), nightly=(servers,))
