#!/usr/bin/env python3
"""memory.py - heapx inside and beside the memory cgroup of its target, with little room.

The target never dies of it, and the answer is a right snapshot or one line that says why there is
none. Without arguments a few runs of each kind with a small target. `memory.py soak MEGABYTES RUNS`
makes the whole table: rooms of 0 to 400 % of the heap, with and without swap, heapx inside and
outside, with and without memory.oom.group where cgroups are of version 2. HX_SWAP: a file to swap
to (it is switched on for that time).
"""
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

import live
from live import Failure, Skip, check

ROOMS = (0, 10, 50, 100, 150, 200, 250, 300, 400)
SIZES = (1000, 100, 24, 100000)
START = 6 << 20 # what a program must have to start there at all
REFUSAL = re.compile(r"heapx: memory: [^\n]+; [^\n]+\n")


class Cgroup:
    """A memory cgroup of its own, of either version; gone with the `with` block."""

    def __init__(self, parent=None):
        self.version, top = find_hierarchy()
        self.folder = os.path.join(parent.folder if parent else top, f"heapx-test-{os.getpid()}")
        try:
            if self.version == 2 and not parent:
                with open(os.path.join(top, "cgroup.subtree_control"), "w") as control:
                    control.write("+memory")
            os.mkdir(self.folder)
        except OSError as why:
            raise Skip(f"no memory cgroup can be made: {why}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(500):
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.01)
        raise Failure(f"{self.folder} cannot be removed")

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def limit(self, n):
        """n bytes, None: unlimited."""
        if self.version == 2:
            self.write("memory.max", "max" if n is None else n)
        else:
            self.write("memory.limit_in_bytes", -1 if n is None else n)

    def usage(self):
        return int(self.read("memory.current" if self.version == 2 else "memory.usage_in_bytes"))

    def enter(self):
        """For preexec_fn."""
        live.end_with_parent()
        self.write("cgroup.procs", os.getpid())

    def kills(self):
        text = self.read("memory.events" if self.version == 2 else "memory.oom_control")
        return int(re.search(r"^oom_kill (\d+)", text, re.M)[1])


def find_hierarchy():
    """(version, folder) of the hierarchy with the memory controller."""
    found = None
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            head, tail = line.split(" - ")
            point, kind, options = head.split()[4], tail.split()[0], tail.split()[2].split(",")
            if kind == "cgroup" and "memory" in options:
                return 1, point
            if kind == "cgroup2":
                with open(os.path.join(point, "cgroup.controllers")) as controllers:
                    if "memory" in controllers.read().split():
                        found = 2, point
    if not found:
        raise Skip("there is no memory controller")
    return found


def rss_of(pid):
    with open(f"/proc/{pid}/status") as status:
        figures = dict(re.findall(r"^(VmRSS|VmSwap):\s+(\d+) kB", status.read(), re.M))
    return 1024 * int(figures["VmRSS"]), 1024 * int(figures["VmSwap"])


class Hoard(live.Target):
    """A target in a cgroup whose limit leaves `room` % of its heap."""

    def __init__(self, cgroup, megabytes, size, room, swapped=0, group=False):
        self.cgroup, self.heap = cgroup, megabytes << 20
        super().__init__([live.victim("hoard"), str(megabytes), str(size)],
                         preexec_fn=cgroup.enter)
        self.blocks = int(self.wait_line("ready").split()[1])
        if cgroup.version == 2:
            cgroup.write("memory.oom.group", int(group))
        if swapped:
            cgroup.limit(self.heap * (100 - swapped) // 100)
        cgroup.limit(sum(rss_of(self.pid)) + START + self.heap * room // 100)

    def check_whole(self):
        check(self.process.poll() is None, f"the target is dead ({self.process.poll()})")
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        self.wait_line("whole")


def snap(hoard, store, inside):
    """One run; "snapshot" or "refused"."""
    run = subprocess.run([live.HEAPX, "snap", str(hoard.pid), "-o", store], capture_output=True,
                         preexec_fn=hoard.cgroup.enter if inside else live.end_with_parent,
                         timeout=300, text=True)
    told = f"status {run.returncode}, {run.stdout!r}, {run.stderr!r}"
    check(hoard.process.poll() is None, f"the target is dead ({hoard.process.poll()}): {told}")
    if run.returncode == 0:
        db = sqlite3.connect(store)
        objects, leaked, complete = db.execute(
            "SELECT heap_objects, leaked_objects, complete FROM snapshots").fetchone()
        db.close()
        os.unlink(store)
        check(hoard.blocks <= objects < hoard.blocks + 100 and leaked == 0 and complete == 1,
              f"{objects} objects of {hoard.blocks}, {leaked} leaked, complete {complete}: {told}")
        return "snapshot"
    check(run.returncode == 1 and REFUSAL.fullmatch(run.stderr) and not run.stdout, told)
    if os.path.exists(store):
        os.unlink(store) # only where heapx had no time left to do it
    return "refused" if "a snapshot needs" in run.stderr else "given up"


def runs(folder, megabytes, size, room, inside, n, swapped=0, group=False):
    """n runs at one target; how many ended in each way."""
    count = {}
    with Cgroup() as cgroup, Hoard(cgroup, megabytes, size, room, swapped, group) as hoard:
        before = cgroup.kills()
        for _ in range(n):
            how = snap(hoard, os.path.join(folder, "store.db"), inside)
            count[how] = count.get(how, 0) + 1
        hoard.check_whole()
        kills = cgroup.kills() - before
        if kills:
            count["killed by the kernel"] = kills
    return count


def inside(folder):
    """Too little room is a refusal, much is a snapshot; nobody is killed."""
    for room, wanted in ((0, {"refused": 2}), (60, {"refused": 2}), (400, {"snapshot": 1})):
        count = runs(folder, 50, 1000, room, True, sum(wanted.values()))
        check(count == wanted, f"{room} %: {count}")


def small_blocks(folder):
    """An analysis that takes more than was estimated is given up in time, or just fits."""
    count = runs(folder, 50, 24, 300, True, 2)
    check(set(count) <= {"given up", "snapshot"}, f"{count}")


def eaten(folder):
    """So is one whose memory somebody else takes meanwhile (who may come too late, and does again)."""
    check(any(eat(folder) for _ in range(4)), "four snapshots were done before the memory was gone")


def eat(folder):
    """Was the snapshot given up?"""
    code = ("import sys; sys.stdin.readline(); x = bytearray(int(sys.argv[1]));"
            "x[::4096] = bytes(len(x[::4096])); sys.stdin.read()")
    with Cgroup() as cgroup, Hoard(cgroup, 100, 24, 700) as hoard:
        before = cgroup.kills()
        cgroup.limit(1 << 30)
        with live.Target([sys.executable, "-c", code, str((1 << 30) - cgroup.usage() - (190 << 20))],
                         preexec_fn=cgroup.enter) as eater:
            time.sleep(0.5)
            store = os.path.join(folder, "store.db")
            process = subprocess.Popen([live.HEAPX, "snap", str(hoard.pid), "-o", store],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=cgroup.enter)
            await_worker(process)
            eater.process.stdin.write(b"\n")
            eater.process.stdin.flush()
            out, err = process.communicate()
            given_up = process.returncode != 0
            if given_up:
                check(process.returncode == 1 and not out and REFUSAL.fullmatch(err)
                      and "a snapshot needs" not in err, f"{process.returncode}, {out!r}, {err!r}")
            if os.path.exists(store):
                os.unlink(store)
            check(eater.process.poll() is None, "the other process is dead")
        hoard.check_whole()
        check(cgroup.kills() == before, "the kernel had to end somebody")
    return given_up


def beside(folder):
    """From outside the target's limit is not touched."""
    count = runs(folder, 50, 1000, 0, False, 2)
    check(count == {"snapshot": 2}, f"{count}")


def page_cache(folder):
    """What the kernel can take back at once is free."""
    with Cgroup() as cgroup, Hoard(cgroup, 50, 1000, 400) as hoard:
        path = os.path.join(folder, "file")
        code = ("import os,sys;f=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT);"
                "[os.write(f,bytes(1<<20)) for _ in range(256)];os.fsync(f)")
        subprocess.run([sys.executable, "-c", code, path], preexec_fn=cgroup.enter, check=True)
        if cgroup.usage() < hoard.heap * 3:
            raise Skip("what is read there is no page cache of that cgroup")
        how = snap(hoard, os.path.join(folder, "store.db"), True)
        check(how == "snapshot", how)


def volunteers(folder):
    """All of heapx's processes, and nobody who is started by it."""
    own = int(open("/proc/self/oom_score_adj").read())
    out = live.heapx("run", "-o", os.path.join(folder, "run.db"), "--", sys.executable, "-c",
                     "print(open('/proc/self/oom_score_adj').read())")[1]
    check(int(out.split()[0]) == own, f"a program under run: {out}")
    with live.Target([live.victim("hoard"), "10", "1000"]) as target:
        target.wait_line("ready")
        process = subprocess.Popen([live.HEAPX, "snap", str(target.pid), "--every", "0.2s", "-o",
                                    os.path.join(folder, "every.db")], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, preexec_fn=live.end_with_parent)
        process.stdout.readline()
        seen = []
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            for pid in [process.pid, *map(int, children.read().split())]:
                seen.append(int(open(f"/proc/{pid}/oom_score_adj").read()))
        process.terminate()
        process.communicate()
        check(len(seen) >= 2 and set(seen) == {1000}, f"heapx, agent, readers: {seen}")


def killed_worker(folder):
    """What the kernel does to the process that copies is told as what it is."""
    with live.Target([live.victim("hoard"), "300", "1000"]) as target:
        target.wait_line("ready")
        store = os.path.join(folder, "store.db")
        for _ in range(50):
            process = subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=live.end_with_parent)
            worker = await_worker(process)
            killed = worker and not os.kill(worker, 9)
            out, err = process.communicate()
            if process.returncode != 0:
                break
            os.unlink(store)
        check(killed and process.returncode == 1 and not out and REFUSAL.fullmatch(err)
              and "killed" in err, f"status {process.returncode}: {out!r} {err!r}")
        live.check_let_go(target.pid)


def recorded(folder):
    """Where there is no room for a snapshot of a child it is recorded all the same."""
    code = ("import os\nx = bytearray(100 << 20)\nx[::4096] = bytes(len(x[::4096]))\n"
            "if os.fork(): os.wait()\nos._exit(9)")
    store = os.path.join(folder, "run.db")
    with Cgroup() as cgroup:
        cgroup.limit(250 << 20)
        run = subprocess.run([live.HEAPX, "run", "--children", "-o", store, "--", sys.executable, "-c", code],
                             capture_output=True, preexec_fn=cgroup.enter, timeout=300, text=True)
    check(run.returncode == 9, f"status {run.returncode}: {run.stderr}")
    rows = live.rows(store, "SELECT complete, notes, (SELECT count(*) FROM costs c WHERE c.snapshot = s.snapshot) "
                            "costs FROM snapshots s")
    check(len(rows) == 2 and all(row["costs"] for row in rows)
          and any("a snapshot needs" in row["notes"] for row in rows), f"{rows}, {run.stderr}")


def await_worker(process):
    """The process of heapx that copies, as soon as it is there; None: it came and went."""
    while process.poll() is None:
        try:
            for agent in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split():
                for worker in open(f"/proc/{agent}/task/{agent}/children").read().split():
                    if open(f"/proc/{worker}/comm").read().strip() == "heapx-capture":
                        return int(worker)
        except OSError:
            pass
    return None


def untouched(folder):
    """Looking at a process brings no page of a file in, and what is stored was so before."""
    programs = (["/usr/bin/python3", "-c", "import json, time; time.sleep(100)"],
                ["/usr/bin/perl", "-e", "sleep 100"])
    for argv in programs:
        if not os.path.exists(argv[0]):
            continue
        with live.Target(argv) as target:
            before = settled_rss(target.pid)
            for command in ("doctor", "snap"):
                store = os.path.join(folder, os.path.basename(argv[0]))
                live.heapx(command, target.pid, *(["-o", store] if command == "snap" else []))
                after = live.sum_of_rss(target.pid)
                check(after == before, f"{argv[0]}, {command}: {before}, then {after}")
            stored = live.row(store, "SELECT rss_bytes FROM snapshots")["rss_bytes"]
            parts = live.row(store, "SELECT sum(bytes) AS sum FROM account")["sum"]
            check(stored == before == parts, f"{argv[0]}: {before}, {stored} stored, {parts} in all")


def settled_rss(pid):
    """Once the process does nothing more."""
    last = 0
    for _ in range(100):
        time.sleep(0.2)
        now = live.sum_of_rss(pid)
        with open(f"/proc/{pid}/stat") as stat:
            if now == last and stat.read().rsplit(")")[-1].split()[0] == "S":
                return now
        last = now
    raise Skip("the process does not come to rest")


# --- the soak ------------------------------------------------------------------------------


class Swap:
    """The file of HX_SWAP as swap, while the `with` block lasts."""

    def __enter__(self):
        self.path = os.environ["HX_SWAP"]
        subprocess.run(["swapon", self.path], check=True)

    def __exit__(self, *_):
        subprocess.run(["swapoff", self.path], check=True)


def table(megabytes, n, swapped, group):
    for is_inside in (True, False):
        for room in ROOMS if is_inside else ROOMS[:6]:
            count = {}
            begin = time.monotonic()
            for size in SIZES:
                with tempfile.TemporaryDirectory(prefix="hx-soak-") as folder:
                    some = runs(folder, megabytes, size, room, is_inside, n // len(SIZES),
                                swapped, group)
                for how, many in some.items():
                    count[how] = count.get(how, 0) + many
            print(f"v{find_hierarchy()[0]} {megabytes} MB, room {room} %, heapx "
                  f"{'inside' if is_inside else 'outside'}{', oom.group' if group else ''}"
                  f"{', 40 % swapped' if swapped else ''}: "
                  f"{', '.join(f'{many} {how}' for how, many in sorted(count.items()))} "
                  f"({time.monotonic() - begin:.0f} s)", flush=True)


def soak(megabytes, n):
    groups = (False, True) if find_hierarchy()[0] == 2 else (False,)
    for group in groups:
        table(megabytes, n, 0, group)
    if not os.environ.get("HX_SWAP"):
        print("HX_SWAP names no file: nothing is swapped")
        return
    with Swap():
        for group in groups:
            table(megabytes, n, 40, group)


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        soak(int(sys.argv[2]), int(sys.argv[3]))
    else:
        live.main(inside, small_blocks, eaten, beside, page_cache, volunteers, killed_worker,
                  recorded, untouched)
