#!/usr/bin/env -S python3 -B
"""programs.py - real programs: heap_bytes against mallinfo2, the account against smaps.

Each program runs with test/live/mallinfo.so, which makes it write malloc's own figures
and rest while heapx looks. From those follow the bytes in use: uordblks + hblkhd less 8
bytes of header a block (16 for one with a mapping of its own), less what the thread's
cache holds and the allocator's own blocks.
"""
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import live
from live import check, rows

SIGNAL = 40  # HX_SIGNAL of mallinfo.c
TCACHE_STRUCT = 0x290  # the chunk of the cache itself


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise live.Skip(f"{program} is not installed")


def environment(folder, **more):
    library = live.victim("mallinfo.so")
    where = f"{folder}/mallinfo"
    os.makedirs(where, exist_ok=True)
    return dict(os.environ, LD_PRELOAD=library, HX_MALLINFO=where, **more)


def settle(pid, seconds=30):
    """Waits until the process sleeps and uses no more time."""
    def used():
        with open(f"/proc/{pid}/stat") as stat:
            field = stat.read().rsplit(")", 1)[1].split()
        return field[0], field[11], field[12]

    end, last, since = time.monotonic() + seconds * live.SLOW, None, time.monotonic()
    while time.monotonic() < end:
        now = used()
        if now != last or now[0] != "S":
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 0.3:
            return
        time.sleep(0.02)
    raise live.Failure(f"PID {pid} does not come to rest")


def figures(folder, pid, seconds=30):
    """What malloc says; the process rests from here on until release()."""
    path = f"{folder}/mallinfo/{pid}"
    open(f"{folder}/mallinfo/hold", "w").close()
    if os.path.exists(path):
        os.unlink(path)
    os.kill(pid, SIGNAL)
    end = time.monotonic() + seconds * live.SLOW
    while not os.path.exists(path):
        check(time.monotonic() < end, f"PID {pid} does not write its figures")
        time.sleep(0.005)
    with open(path) as file:
        return {k: int(v) for k, v in (line.split() for line in file)}


def release(folder):
    os.unlink(f"{folder}/mallinfo/hold")


def compare(folder, pid, name, least):
    """One program at rest; `least` blocks must be there for the test to mean something."""
    said = figures(folder, pid)
    try:
        if not said["tcache_known"]:
            raise live.Skip("malloc's cache has another layout here")
        before = live.sum_of_rss(pid)
        store = f"{folder}/{name}.db"
        live.heapx("snap", pid, "-o", store)
        live.check_let_go(pid)
        after = live.sum_of_rss(pid)
    finally:
        release(folder)
    snapshot = live.row(store, "SELECT * FROM snapshots")
    check(snapshot["complete"] == 1, f"{name}: not complete: {snapshot['notes']}")
    shares = live.rows(store, "SELECT * FROM allocators WHERE allocator = 'glibc'")
    check(len(shares) == 1, f"{name}: {shares}")
    blocks, have = shares[0]["objects"], shares[0]["bytes"]
    want = (said["uordblks"] + said["hblkhd"] - said["tcache_bytes"] - TCACHE_STRUCT -
            8 * (blocks - said["hblks"]) - 16 * said["hblks"])
    print(f"  {name}: {blocks} objects, {have} bytes, {have - want:+d} to malloc's own figure, "
          f"rss {snapshot['rss_bytes']}, paused {snapshot['pause_us']} us")
    check(snapshot["heap_objects"] >= least, f"{name}: only {snapshot['heap_objects']} objects")
    check(abs(have - want) <= 0.001 * want, f"{name}: heap_bytes {have}, malloc says {want}: {said}")
    total = live.row(store, "SELECT sum(bytes) n FROM account")["n"]
    check(total == snapshot["rss_bytes"], f"{name}: the account sums to {total}: "
          f"{rows(store, 'SELECT part, bytes FROM account')}, rss {snapshot['rss_bytes']}")
    # The kernel may map pages of files that are cached, or take them, at any time.
    check(min(before, after) <= snapshot["rss_bytes"] <= max(before, after),
          f"{name}: rss_bytes {snapshot['rss_bytes']}, smaps said {before} before, {after} after")
    states = live.row(store, "SELECT sum(bytes) b, count(*) n FROM objects")
    have = snapshot["heap_bytes"]
    check((states["b"], states["n"]) == (have, snapshot["heap_objects"]), f"{name}: objects hold {states}")
    check(snapshot["reachable_bytes"] + snapshot["leaked_bytes"] == have,
          f"{name}: reachable and leaked do not add up: {snapshot}")


PYTHON = ("import sys\nd = {i: str(i) for i in range(%d)}\nprint('ready', flush=True)\n"
          "sys.stdin.read()")


def python(folder):
    """A dict of a million entries, in the interpreter's own arenas."""
    need("python3")
    with live.Target(["python3", "-c", PYTHON % 10**6], env=environment(folder)) as target:
        target.wait_line("ready")
        compare(folder, target.pid, "python", 100)


def python_malloc(folder):
    """The same with every object a block of malloc."""
    need("python3")
    env = environment(folder, PYTHONMALLOC="malloc")
    with live.Target(["python3", "-c", PYTHON % 10**6], env=env) as target:
        target.wait_line("ready")
        compare(folder, target.pid, "python_malloc", 2 * 10**6)


def sqlite(folder):
    need("sqlite3")
    with live.Target(["sqlite3", ":memory:"], env=environment(folder)) as target:
        target.process.stdin.write(
            b"CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c BLOB);\n"
            b"INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            b"WHERE i < 200000) SELECT i, hex(i * 7919), zeroblob(i % 90) FROM n;\n"
            b"CREATE INDEX tb ON t(b);\nDELETE FROM t WHERE a % 3 = 0;\nSELECT 'ready';\n")
        target.process.stdin.flush()
        target.wait_line("ready")
        compare(folder, target.pid, "sqlite", 1000)


def make_repository(folder):
    """Many versions of many files, so that a repack has something to do."""
    where = f"{folder}/repository"
    subprocess.run(["git", "init", "-q", "--bare", where], check=True)
    stream = []
    text = [f"line {i * 7919 % 1009} of a file that changes\n" for i in range(400)]
    for n in range(2500):
        text[n * 31 % 400] = f"version {n} {n * n * 2654435761 % 10**9}\n"
        body = "".join(text)
        stream.append(f"blob\nmark :{n + 1}\ndata {len(body)}\n{body}\n")
    stream.append("commit refs/heads/main\ncommitter a <a@b> 1 +0000\ndata 1\nx\n")
    stream += [f"M 100644 :{n + 1} dir{n % 50}/file{n}\n" for n in range(2500)]
    subprocess.run(["git", "-C", where, "fast-import", "--quiet"], check=True,
                   input="".join(stream).encode())
    return where


def find_child(pid, word, seconds=20):
    """A descendant whose command line contains word."""
    end = time.monotonic() + seconds * live.SLOW
    while time.monotonic() < end:
        todo = [pid]
        while todo:
            at = todo.pop()
            try:
                with open(f"/proc/{at}/cmdline", "rb") as file:
                    if at != pid and word in file.read():
                        return at
                with open(f"/proc/{at}/task/{at}/children") as file:
                    todo += map(int, file.read().split())
            except OSError:
                pass
        time.sleep(0.01)
    raise live.Failure(f"no child {word} of PID {pid}")


def git(folder):
    """In the middle of a repack."""
    need("git")
    os.environ.update(GIT_CONFIG_NOSYSTEM="1", HOME=folder)
    where = make_repository(folder)
    argv = ["git", "-C", where, "-c", "pack.threads=1", "repack", "-a", "-d", "-f", "-q",
            "--window=500", "--depth=50"]
    with live.Target(argv, env=environment(folder)) as target:
        packer = find_child(target.pid, b"pack-objects")
        time.sleep(0.7)
        check(target.process.poll() is None, "the repack was over too soon")
        compare(folder, packer, "git", 1000)
        check(target.process.wait(timeout=200 * live.SLOW) == 0, "git repack failed afterwards")


def vim(folder):
    need("vim")
    with open(f"{folder}/text", "w") as file:
        file.writelines(f"line {i} with some words in it\n" for i in range(50000))
    master, slave = pty.openpty()

    def drain():
        try:
            while os.read(master, 65536):
                pass
        except OSError:
            pass

    threading.Thread(target=drain, daemon=True).start()
    env = environment(folder, TERM="xterm", HOME=folder)
    argv = ["vim", "-N", "-u", "NONE", "-i", "NONE", "-n", "-X", f"{folder}/text"]
    with live.Target(argv, env=env, stdin=slave, stdout=slave, stderr=slave,
                     start_new_session=True) as target:
        os.close(slave)
        time.sleep(0.3)
        settle(target.pid)
        os.write(master, b":%s/words/more words/g\rGyyp")
        settle(target.pid)
        compare(folder, target.pid, "vim", 1000)
    os.close(master)


NGINX = """daemon off; worker_processes 1; pid %(f)s/pid; error_log %(f)s/log;
events { worker_connections 64; }
http { access_log off; client_body_temp_path %(f)s/b; proxy_temp_path %(f)s/p;
fastcgi_temp_path %(f)s/f; uwsgi_temp_path %(f)s/u; scgi_temp_path %(f)s/s;
server { listen unix:%(f)s/socket; location / { return 200 "hello"; } } }
"""


def nginx(folder):
    need("nginx")
    os.chmod(folder, 0o755)
    with open(f"{folder}/nginx.conf", "w") as file:
        file.write(NGINX % {"f": folder} + ("user root;\n" if os.getuid() == 0 else ""))
    argv = ["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/log"]
    with live.Target(argv, env=environment(folder)) as target:
        try:
            worker = find_child(target.pid, b"worker process")
            held = []
            for _ in range(20):
                s = socket.socket(socket.AF_UNIX)
                s.connect(f"{folder}/socket")
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                check(b"hello" in s.recv(4096), "nginx does not answer")
                held.append(s)
            for pid in (target.pid, worker):
                settle(pid)
                compare(folder, pid, f"nginx_{pid}", 20)
            held[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            check(b"hello" in held[0].recv(4096), "nginx does not answer afterwards")
        finally:
            target.process.send_signal(signal.SIGTERM)  # so that the worker goes too
            target.process.wait(timeout=10 * live.SLOW)


if __name__ == "__main__":
    sys.exit(live.main(python, python_malloc, sqlite, git, vim, nginx, nightly=(git,)))
