#!/usr/bin/env -S python3 -B
"""servers.py - servers under load, to which the recorder is attached again and again.

    servers.py [redis|python|...]     environment: HX_ROUNDS (3); HX_REDIS, another redis-server

A client sends requests without a pause, many at once, and checks each answer. Nothing may be
missing or wrong, whether heapx ends by itself, is interrupted, or is killed; afterwards the
code of the server is as in its files, and nothing is left in tracefs and bpffs. `scripts/soak
redis` does it twenty times, also with a redis-server that is built to use libc's malloc.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import live
import recorded
from live import check

ROUNDS = int(os.environ.get("HX_ROUNDS", "3"))
SEED = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))


class Client(threading.Thread):
    """Sends batches and checks the answers, until told to end."""

    def __init__(self, path, seed):
        super().__init__(daemon=True)
        self.dice, self.answers, self.error, self.slowest = random.Random(seed), 0, None, 0
        self.ending = threading.Event()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        self.start()

    def run(self):
        try:
            while not self.ending.is_set():
                begin = time.monotonic()
                self.answers += self.batch()
                self.slowest = max(self.slowest, time.monotonic() - begin)
        except Exception as why:
            self.error = why

    def end(self):
        self.ending.set()
        self.join(90)
        self.socket.close()
        check(not self.is_alive(), "the client hangs: an answer is missing")
        check(self.error is None, f"the client: {self.error!r}")
        return self.answers


class RedisClient(Client):
    """RESP, pipelined; it knows what each of its keys holds."""

    def __init__(self, path, seed):
        self.mine, self.prefix = {}, f"c{seed}:"
        super().__init__(path, seed)

    def reply(self):
        line = self.file.readline()
        check(line.endswith(b"\r\n"), f"cut off: {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind in b"+:":
            return rest
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.file.read(int(rest) + 2)[:-2]
        raise live.Failure(f"answer {line!r}")

    def batch(self):
        out, want = [], []
        for _ in range(200):
            key = f"{self.prefix}{self.dice.randrange(2000)}"
            dice = self.dice.random()
            if dice < 0.45:
                value = str(self.dice.random()).encode() * self.dice.randrange(1, 60)
                words, answer = [b"SET", key.encode(), value], b"OK"
                self.mine[key] = value
            elif dice < 0.55:
                words, answer = [b"DEL", key.encode()], b"%d" % (key in self.mine)
                self.mine.pop(key, None)
            elif dice < 0.6 and key in self.mine:
                self.mine[key] += b"more" * 20
                words, answer = [b"APPEND", key.encode(), b"more" * 20], b"%d" % len(self.mine[key])
            else:
                words, answer = [b"GET", key.encode()], self.mine.get(key)
            out.append(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            want.append(answer)
        self.socket.sendall(b"".join(out))
        for answer in want:
            have = self.reply()
            check(have == answer, f"got {have!r}, wanted {answer!r}")
        return len(want)


class LineClient(Client):
    """One JSON text a line, there and back."""

    def batch(self):
        numbers = [self.dice.randrange(1, 400) for _ in range(50)]
        self.socket.sendall(b"".join(b"%d\n" % n for n in numbers))
        for n in numbers:
            have = json.loads(self.file.readline())
            check(have == {str(i): [i] * (i % 7) for i in range(n)}, f"wrong answer to {n}")
        return len(numbers)


PYTHON_SERVER = """
import json, socketserver, sys, threading
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            text = json.dumps({str(i): [i] * (i % 7) for i in range(int(line))})
            self.wfile.write(text.encode() + b"\\n")
class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
server = Server(sys.argv[1], Answer)
print("ready", flush=True)
server.serve_forever()
"""


def code(pid):
    """{(path, offset): bytes} differ from the file: the executable parts that are mapped. [] is
    right."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            part = line.split()
            if len(part) < 6 or "x" not in part[1] or not part[5].startswith("/"):
                continue
            start, end = (int(x, 16) for x in part[0].split("-"))
            try:
                with open(part[5], "rb") as file:
                    file.seek(int(part[2], 16))
                    want = file.read(end - start)
                have = recorded.text(pid, start, len(want))
            except OSError as why:
                found.append(f"{part[5]}: {why}")
                continue
            if have != want:
                first = next(i for i, (a, b) in enumerate(zip(have, want)) if a != b)
                found.append(f"{part[5]}+{first + int(part[2], 16):#x}: {have[first]:#x}, "
                             f"not {want[first]:#x}")
    return found


def malloc_of(pid):
    """Where the program's malloc begins: in the first of its files that exports one, the C library
    last."""
    candidate = {}
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            part = line.split()
            if len(part) >= 6 and part[5].startswith("/"):
                candidate.setdefault(part[5], int(part[0].split("-")[0], 16) - int(part[2], 16))
    for path, base in sorted(candidate.items(), key=lambda c: "libc.so" in c[0]):
        if "ld-linux" in path:
            continue
        said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
        match = re.search(r"^(\w+) [TW] malloc(@.*)?$", said.stdout, re.M)
        if match:
            return base + int(match[1], 16), os.path.basename(path)
    raise live.Failure("no malloc found")


def wait_as_before(pid, what, seconds=10):
    """Nothing of the recorder is left in the server or in the kernel."""
    end = time.monotonic() + seconds * live.SLOW
    while True:
        found = code(pid) + recorded.nothing_left()
        if not found:
            break
        check(time.monotonic() < end, f"{what}: left behind: {found}")
        time.sleep(0.05)
    live.check_let_go(pid)


def one_round(store, pid, entry, how, dice):
    """Attaches, and lets go as `how` says."""
    with recorded.Record(store, pid, [entry], *(["--duration", "1s"] if how == "duration" else [])) as rec:
        if how == "duration":
            rec.process.wait(60)
            check(rec.process.returncode in (0, 3),
                  f"exit {rec.process.returncode}: {rec.process.stderr.read()}")
        elif how == "interrupt":
            time.sleep(dice.random())
            rec.end()
        else:
            time.sleep(dice.random())
            rec.process.kill()
            rec.process.wait()


def rounds(folder, target, clients, name):
    """The whole of it, on a server that runs, with clients that send."""
    recorded.may_probe()
    dice = random.Random(SEED)
    pid, store = target.pid, f"{folder}/{name}.db"
    entry, module = malloc_of(pid)
    before = recorded.programs()
    check(not code(pid), f"code differs before: {code(pid)}")
    time.sleep(0.5)
    quiet = sum(c.answers for c in clients)
    for n in range(ROUNDS):
        how = ("duration", "kill", "interrupt")[n % 3]
        one_round(store, pid, entry, how, dice)
        wait_as_before(pid, f"round {n}, {how}")
        check(target.process.poll() is None, f"round {n}, {how}: the server is gone")
        for client in clients:
            check(client.is_alive(), f"round {n}, {how}: {client.error!r}")
    killed_now = subprocess.Popen([live.HEAPX, "record", str(pid), "-o", f"{folder}/early.db"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=live.end_with_parent)
    time.sleep(dice.random() * 0.4)  # while it attaches
    killed_now.kill()
    killed_now.wait()
    wait_as_before(pid, "killed while it attached")
    answers = sum(client.end() for client in clients)
    print(f"  HX_SEED={SEED} {name} ({module}): {answers} answers, {answers - quiet} while attaching "
          f"{ROUNDS} times; slowest batch {max(c.slowest for c in clients):.2f} s")
    check(target.process.poll() is None, "the server is gone")
    end = time.monotonic() + 10 * live.SLOW
    while before is not None and recorded.programs() > before:
        check(time.monotonic() < end, "BPF links are left")
        time.sleep(0.1)
    last = recorded.last(store)
    sites = live.row(store, f"SELECT count(*) n, sum(objects) o FROM sites WHERE snapshot = {last['snapshot']}")
    costs = live.row(store, "SELECT sum(alloc_objects) n FROM costs WHERE snapshot = "
                            f"{last['snapshot']}")
    print(f"  {last['allocator']}: {last['heap_objects']} objects, {sites['n']} sites, "
          f"{costs['n']} allocations recorded; losses {recorded.losses(store)}")
    check(costs["n"] > 100, "next to nothing was recorded under load")


def redis_server(folder, program, name):
    if not shutil.which(program):
        raise live.Skip(f"{program} is not installed")
    path = f"{folder}/{name}.sock"
    with live.Target([program, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                      "--dir", folder, "--daemonize", "no", "--logfile", f"{folder}/log"]) as target:
        end = time.monotonic() + 20 * live.SLOW
        while not os.path.exists(path):
            check(time.monotonic() < end and target.process.poll() is None, f"{program} does not start")
            time.sleep(0.02)
        clients = [RedisClient(path, SEED + i) for i in range(2)]
        rounds(folder, target, clients, name)


def redis(folder):
    """Debian's, with jemalloc."""
    redis_server(folder, "redis-server", "redis")


def redis_libc(folder):
    """One that was built with libc's malloc: HX_REDIS."""
    if not os.environ.get("HX_REDIS"):
        raise live.Skip("HX_REDIS names no redis-server (scripts/soak redis builds one)")
    redis_server(folder, os.environ["HX_REDIS"], "redis_libc")


def python(folder):
    """Threads that answer with texts and dictionaries."""
    path = f"{folder}/python.sock"
    with live.Target([sys.executable, "-c", PYTHON_SERVER, path]) as target:
        target.wait_line("ready")
        rounds(folder, target, [LineClient(path, SEED + i) for i in range(3)], "python")


def oracle(folder):
    """The load by itself, and that a changed byte would be seen."""
    path = f"{folder}/python.sock"
    with live.Target([sys.executable, "-c", PYTHON_SERVER, path]) as target:
        target.wait_line("ready")
        client = LineClient(path, SEED)
        time.sleep(0.3)
        check(client.end() > 50, "no load")
        entry, module = malloc_of(target.pid)
        check(not code(target.pid), f"{code(target.pid)}")
        os.kill(target.pid, signal.SIGSTOP)
        byte = recorded.text(target.pid, entry)
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(entry)
            memory.write(b"\xcc")
        check(code(target.pid) and module in code(target.pid)[0], "a breakpoint is not seen")
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(entry)
            memory.write(byte)
        check(not code(target.pid), "the byte is not as before")


if __name__ == "__main__":
    live.main(oracle, redis, redis_libc, python, nightly=(python,))
