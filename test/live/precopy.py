#!/usr/bin/env -S python3 -B
"""precopy.py - method precopy: what is copied beside the running target is of one instant, and the
target goes on as before, whoever dies.
"""
import collections
import contextlib
import itertools
import os
import random
import select
import signal
import struct
import subprocess
import sys
import threading
import time

import live
from live import check, heapx, row, rows
from torture import family

WORDS = 8192
ROUNDS = int(os.environ.get("HX_ROUNDS", "60" if live.is_set("HX_NIGHTLY") else "4"))


def take(folder, pid, method="precopy", ok=(0,), analyse="now"):
    store = os.path.join(folder, f"{method}.db")
    if os.path.exists(store):
        os.unlink(store)
    heapx("snap", pid, "-o", store, "--pause", method, "--analyse", analyse, ok=ok)
    total = row(store, "select * from snapshots")
    if total["method"] != method and "no pre-copy, because" in total["notes"] and "kernel" in total["notes"]:
        raise live.Skip(total["notes"])
    check(total["method"] == method, f"method {total['method']}: {total['notes']}")
    return store, total


def traces(pid):
    """What a process shows of itself and may not change."""
    def text(name):
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    keep = ("SigBlk", "SigIgn", "SigCgt", "TracerPid", "FDSize", "Threads")
    status = [line for line in text("status").splitlines() if line.split(":")[0] in keep]
    return {"files": sorted(os.listdir(f"/proc/{pid}/fd")), "status": status,
            "maps": [line.split()[:2] for line in text("maps").splitlines()]}


def check_unharmed(target, before=None):
    live.check_let_go(target.pid, wait=5)
    check(target.process.poll() is None, "the target has ended")
    if select.select([target.process.stdout], [], [], 0)[0]:
        raise live.Failure(f"the target says: {os.read(target.process.stdout.fileno(), 200)}")
    if before:
        after = traces(target.pid)
        for what in before:
            odd = [(a, b) for a, b in itertools.zip_longest(before[what], after[what]) if a != b]
            check(not odd, f"{what} before and after: {odd[:4]}")


def victim(*what, before=()):
    target = live.Target([*before, live.victim("precopy_victim"), *map(str, what)])
    target.wait_line("ready")
    return target


def same(folder):
    """Of a process at rest it takes what copy takes."""
    with victim("idle") as target:
        before = traces(target.pid)
        stores = [take(folder, target.pid, method) for method in ("copy", "precopy")]
        for view in ("objects", "edges", "root_edges"):
            columns = "*" if view != "objects" else "address, bytes, state, holder"
            a, b = (rows(store, f"select {columns} from {view} where address is not null" if view == "objects"
                         else f"select * from {view}") for store, _ in stores)
            odd = [pair for pair in zip(a, b) if pair[0] != pair[1]]
            # stacks and registers of the threads that woke in between differ
            check(len(a) == len(b) or view == "root_edges", f"{view}: {len(a)} and {len(b)} rows")
            check(view == "root_edges" or len(odd) == 0, f"{view}: {odd[:3]}")
        check_unharmed(target, before)


LARGE = "b = bytearray(300 << 20); b[::4096] = b'x' * (300 << 8); print('ready', flush=True); input()"


def counted(folder):
    """Pages of a large process are counted, which tells the same as smaps."""
    with live.Target([sys.executable, "-S", "-c", LARGE]) as target:
        target.wait_line("ready")
        for method in ("copy", "precopy"):
            before = live.sum_of_rss(target.pid)
            store, total = take(folder, target.pid, method)
            after = live.sum_of_rss(target.pid)
            account = row(store, "select sum(bytes) n from account")["n"]
            check(before > 300 << 20 and account == total["rss_bytes"], f"{method}: {account} of {total['rss_bytes']} bytes")
            check(min(before, after) <= total["rss_bytes"] <= max(before, after),
                  f"{method}: {total['rss_bytes']} bytes, smaps said {before} before, {after} after")


def page_tables(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmPTE"))


def sparse(folder):
    """What is reserved and empty takes neither time nor page tables."""
    with victim("sparse") as target:
        before, tables = traces(target.pid), page_tables(target.pid)
        total = take(folder, target.pid)[1]
        now = page_tables(target.pid)
        print(f"  prepared in {total['prepare_us']} us, held {total['held_us']}, stopped {total['pause_us']}; "
              f"page tables {tables} kB, then {now}")
        check(now <= tables + max(tables / 100, 16), f"page tables: {tables} kB before, {now} after")
        check(total["prepare_us"] < 2e6 * live.SLOW, f"prepared in {total['prepare_us']} us")
        check_unharmed(target, before)


def huge_pages(pid):
    """Of its own memory, in kB."""
    with open(f"/proc/{pid}/smaps") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages"))


def huge(folder):
    """Huge pages that are written while they are protected are split, and put together again."""
    with victim("huge") as target:
        before = huge_pages(target.pid)
        if before < 64 << 10:
            raise live.Skip(f"no huge pages here ({before} kB)")
        for _ in range(ROUNDS):
            take(folder, target.pid, analyse="later")
            end = time.monotonic() + 10 * live.SLOW
            while huge_pages(target.pid) < before:
                check(time.monotonic() < end, f"huge pages: {before} kB, then {huge_pages(target.pid)}")
                time.sleep(0.02)
        check_unharmed(target)


def mismatches(store):
    """Words of a pair that differ, of all that there are."""
    blocks = rows(store, f"select address, bytes from objects where bytes between {WORDS * 8} and {WORDS * 8 + 64}")
    second = {r["address"] for r in blocks if r["bytes"] >= (WORDS + 2) * 8}
    words = collections.defaultdict(dict)
    for e in rows(store, "select source, target, offset from edges where source in (select address from objects "
                         f"where bytes between {WORDS * 8} and {WORDS * 8 + 64})"):
        words[e["source"]][e["offset"]] = e["target"]
    pairs = collections.defaultdict(dict)
    for block, found in words.items():
        pairs[found[0]][block in second] = found
    check(len(pairs) == 8 and all(len(pair) == 2 for pair in pairs.values()), f"{len(pairs)} pairs of blocks")
    odd = [(pair[False].get(k), pair[True].get(k)) for pair in pairs.values() for k in range(0, WORDS * 8, 8)
           if pair[False].get(k) != pair[True].get(k)]
    return odd


NODES, GAPS, CLOCK_BYTES = 4096, 16384, 9000  # as in precopy_victim.c


def in_a_stop(store, instants):
    """Does the clock of `wild` in the image show what it showed when the program stood still?"""
    with open(instants, "rb") as file:
        n, *words = struct.unpack(f"={1 + GAPS + NODES}Q", file.read())
    nodes = {~word & 0xffffffffffffffff: i for i, word in enumerate(words[GAPS:])}
    digits = rows(store, "select target from edges where offset in (8, 16) and source in (select address from objects "
                         f"where bytes between {CLOCK_BYTES} and {CLOCK_BYTES + 64}) order by offset")
    shown = sum(nodes[digit["target"]] * NODES**i for i, digit in enumerate(digits))
    gaps = words[:min(n, GAPS)]
    return any(shown + step in gaps for step in (-1, 0, 1))  # it was about to show it, or to note it


def instant(folder):
    """Words that are written in pairs differ in one place at most, and are those of an instant in the stop."""
    instants = os.path.join(folder, "instants")
    with open(instants, "wb") as file:
        file.write(bytes(8 * (1 + GAPS + NODES)))
    with victim("wild", before=["env", f"HX_INSTANTS={instants}"]) as target:
        before = traces(target.pid)
        for _ in range(ROUNDS):
            store = take(folder, target.pid)[0]
            odd = mismatches(store)
            check(len(odd) <= 1, f"{len(odd)} words are not of one instant: {odd[:3]}")
            check(in_a_stop(store, instants), "it is of an instant when the target ran")
        check_unharmed(target, before)


def shifting(folder):
    """The same while memory comes, moves and goes."""
    with victim("shifting") as target:
        for _ in range(ROUNDS):
            store, total = take(folder, target.pid, ok=(0, 3))
            odd = mismatches(store)
            check(len(odd) <= 1, f"{len(odd)} words are not of one instant: {odd[:3]}; {total['notes']}")
        check_unharmed(target)


def moving(folder):
    """mremap() works at any moment: no mapping of the program is cut in two."""
    with victim("moving") as target:
        for _ in range(ROUNDS * 3):
            take(folder, target.pid, ok=(0, 3), analyse="later")
        time.sleep(0.5)  # so long it may take to say that something is odd
        check_unharmed(target)


def promise(folder):
    """What --max-pause allows is more than any stop, and any wait for the lock of the mappings, that a snapshot tells
    of; else there is none, and a reason."""
    store, said = os.path.join(folder, "promise.db"), collections.Counter()
    with victim("wild") as target:
        for limit in (200, 500, 2000, 10000, 1000000 * live.SLOW) * max(ROUNDS // 4, 1):
            status, _, err = heapx("snap", target.pid, "-o", store, "--pause", "precopy", "--analyse", "later", "--max-pause",
                                   f"{limit}us", ok=(0, 1))
            said[limit, status] += 1
            check(limit < 1000000 or status == 0, f"{limit} us: {err}")
            check(status == 0 or "--max-pause" in err, f"{limit} us: {err}")
            if status == 0:
                total = row(store, "select * from snapshots")
                check(max(total["pause_us"], total["held_us"] or 0) <= limit, f"{limit} us: {total}")
                os.unlink(store)
        check_unharmed(target)
    print("  " + ", ".join(f"{limit} us: {n} {'refused' if status else 'taken'}" for (limit, status), n in said.items()))


WRITING = """
import mmap
rest = bytearray(b'x') * (64 << 20)
between = mmap.mmap(-1, 64 << 20)
some = bytearray(96 << 20)
print('ready', flush=True)
n = 0
while True:
    n += 1
    some[::4096] = bytes([n & 255]) * (96 << 8)
"""


def writing(folder):
    """Memory that is written all the time is not protected, unless somebody asks for it; what is at rest is."""
    with live.Target([sys.executable, "-S", "-c", WRITING]) as target:
        target.wait_line("ready")
        asked = take(folder, target.pid, analyse="later")[1]["notes"]
        check("written all the time" not in asked, asked)
        if "soft-dirty" in asked:
            raise live.Skip("soft-dirty bits protect all that there is, or nothing")
        for _ in range(10):  # beside other work it may not have run while it was looked at
            heapx("snap", target.pid, "-o", f"{folder}/auto.db", "--analyse", "later")
            notes = row(f"{folder}/auto.db", "select * from snapshots order by snapshot desc limit 1")["notes"]
            if "written all the time" in notes:
                break
        check("of mappings of 96.0M nothing was pre-copied" in notes, notes)
        check_unharmed(target)


def stop_and_go(pid, done):
    while not done.is_set():
        for signum in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(pid, signum)
            time.sleep(random.random() * 0.002)


def restless(folder):
    """It is stopped and goes on all the time, also while a thread is led: no file of it is lost, and none left."""
    with victim("opening") as target:
        done = threading.Event()
        other = threading.Thread(target=stop_and_go, args=(target.pid, done))
        other.start()
        try:
            for _ in range(ROUNDS):
                heapx("snap", target.pid, "-o", f"{folder}/s.db", "--pause", "precopy", "--analyse", "later", ok=(0, 3))
        finally:
            done.set()
            other.join()
        for fd in os.listdir(f"/proc/{target.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                check("userfault" not in os.readlink(f"/proc/{target.pid}/fd/{fd}"), "a userfaultfd is left")
        time.sleep(0.5)  # so long it may take to say that something is odd
        check_unharmed(target)


def own_mappings(pid):
    with open(f"/proc/{pid}/maps") as file:
        return [line for line in file if " rw-p " in line and line.split()[4] == "0"]


def growing(folder):
    """What grows while it is tracked is one mapping as before."""
    for how in ("growing", "spreading"):
        with victim(how) as target:
            time.sleep(0.3)
            before = own_mappings(target.pid)
            for _ in range(ROUNDS):
                take(folder, target.pid, ok=(0, 3), analyse="later")
            after = own_mappings(target.pid)
            check(len(after) == len(before), f"{how}: {''.join(before)} and then {''.join(after)}")
            check_unharmed(target)


def forking(folder):
    """Neither it nor its children notice."""
    with victim("forking") as target:
        for _ in range(ROUNDS):
            take(folder, target.pid, analyse="later")
        check_unharmed(target)


def ending(folder):
    """It becomes another program at the same addresses, or ends, at any moment: a snapshot of one of the
    two, or a reason."""
    rng, said = random.Random(int(os.environ.get("HX_SEED", "1"))), collections.Counter()
    store = os.path.join(folder, "ending.db")
    with victim("idle") as target:
        begun = time.monotonic()
        take(folder, target.pid)
        usual = (time.monotonic() - begun) * 1e6
    for i in range(ROUNDS * 2):
        what = ("exits", "execs")[i % 2]
        with victim(what, int(rng.random() * usual * 0.35), before=["setarch", "-R"]) as target:
            target.wait_line("written")
            status, _, err = heapx("snap", target.pid, "-o", store, "--pause", "precopy", ok=(0, 1, 3))
            check(status != 1 or "heapx: " in err, f"{what}: exit {status}: {err}")
            now = "refused"
            if status != 1:
                n = row(store, "select count(*) n from edges where source in (select address from objects where "
                        "bytes between 500 and 520 and snapshot = (select max(snapshot) from snapshots)) "
                        "and snapshot = (select max(snapshot) from snapshots)")["n"]
                now = {0: "after", 40000: "before"}.get(n)
                check(now, f"{what}: a mixture: {n} of 40000 pointers")
            said[what, now] += 1
            if what == "execs":
                target.wait_line("ready")
                check_unharmed(target)
            else:
                check(target.process.wait(10 * live.SLOW) == 0, f"the target ended with {target.process.returncode}")
    print("  " + ", ".join(f"{what}: {n} {now}" for (what, now), n in sorted(said.items())))


def keeps_bits():
    """Soft-dirty bits: where the kernel has them, new mappings are told as such."""
    with open("/proc/self/smaps") as file:
        return any("sd" in line.split()[1:] for line in file if line.startswith("VmFlags"))


def with_shadow_stack(folder, pid):
    """heapx where the kernel seems to say that the process has one: what the machine may lack."""
    with open(f"/proc/{pid}/status") as file, open(os.path.join(folder, "status"), "w") as shown:
        shown.write(file.read() + "x86_Thread_features:\tshstk \n")
    program = os.path.join(folder, "heapx")
    with open(program, "w") as script:
        script.write("#!/bin/sh\nexec unshare -m sh -c 'mount --bind \"$0\" \"$1\" && shift && exec \"$@\"' "
                     f"{shown.name} /proc/{pid}/task/{pid}/status {live.HEAPX} \"$@\"\n")
    os.chmod(program, 0o755)
    return program


# victim: why
REFUSED = {
    "filtered": "seccomp filter",
    "faults": "handles page faults itself",
    "full": "Too many open files",
    "shared": "the same table of files",
    "coroutine": "can be led through a call",
    "dispatched": "can be led through a call",
    "restartable": "can be led through a call",
    "idle": "it has shadow stacks",
}


def refused(folder):
    """What must not be led through a call is copied in the stop, or beside by what the kernel knows of its pages, with a
    note, and doctor knows."""
    for what, why in REFUSED.items():
        if what == "idle" and os.geteuid() != 0:
            continue
        by_bits = what != "faults" and keeps_bits()  # for which nothing runs in it
        with victim(what) as target:
            program = with_shadow_stack(folder, target.pid) if what == "idle" else live.HEAPX
            before = traces(target.pid)
            store = os.path.join(folder, what + ".db")
            heapx("snap", target.pid, "-o", store, "--pause", "precopy", program=program)
            total = row(store, "select * from snapshots")
            if "the kernel has no PAGEMAP_SCAN" in total["notes"]:
                why = "the kernel has no PAGEMAP_SCAN" if what != "faults" else why
            word = "pre-copied by soft-dirty bits, because" if by_bits else "no pre-copy, because"
            check(total["method"] == ("precopy" if by_bits else "copy") and word in total["notes"] and
                  why in total["notes"], f"{what}: {total['method']}: {total['notes']}")
            check((total["prepare_us"] is None) != by_bits and (total["held_us"] is None) != by_bits, f"{what}: {total}")
            said = heapx("doctor", target.pid, "--format", "csv", program=program)[1]
            in_the_stop = what in ("full", "coroutine", "dispatched", "restartable")  # is it found
            check(in_the_stop or (why in said and ("by soft-dirty bits" in said) == by_bits), f"{what}: doctor says {said}")
            live.check_let_go(target.pid, tracked=what == "faults")
            check(before == traces(target.pid), f"{what}: {before}; {traces(target.pid)}")


def killed(folder):
    """Whoever is killed, at any moment: heapx, its agent, or what copies."""
    rng = random.Random(int(os.environ.get("HX_SEED", "1")))
    store = os.path.join(folder, "killed.db")
    with victim("shifting") as target:
        for i in range(ROUNDS * 2):
            run = subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store, "--pause", "precopy"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=live.end_with_parent)
            time.sleep(rng.random() * 0.25 * live.SLOW)
            name = ("heapx-agent", "heapx-capture", None)[i % 3]
            for pid in [pid for pid in family(run.pid) if name and comm(pid) == name] or [run.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run.kill()
            run.wait()
            check_unharmed(target)
            for suffix in ("", "-wal", "-shm", "-journal"):
                if os.path.exists(store + suffix):
                    os.unlink(store + suffix)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return None


if __name__ == "__main__":
    live.main(same, counted, sparse, huge, instant, shifting, moving, promise, writing, restless, growing, forking, ending, refused, killed)
