#!/usr/bin/env -S python3 -B
"""life.py - `heapx run` must not be noticed: the same output and exit status as without.

    life.py [TEST...]      environment: HX_LIFE=NAME,... only these modes of test/live/life

test/live/life does to itself what programs do: forks, executes, closes all descriptors, forbids
itself system calls, and more (see there). Then real programs. Each runs by itself, under heapx, and
under heapx with its children recorded.
"""
import os
import shutil
import signal
import stat
import subprocess
import time

import live
import recorded
from live import check

MODES = ["hello", "fork", "fork_threads", "exec", "exec_thread", "spawn", "closefrom", "clearenv",
         "environment", "strict", "filter", "signals", "handlers", "threads", "clone", "large"]
ONLY = os.environ.get("HX_LIFE", "").split(",") if os.environ.get("HX_LIFE") else None


def plain(command, text=b"", **options):
    run = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=60 * live.SLOW, preexec_fn=live.end_with_parent, **options)
    return run.returncode, run.stdout, run.stderr


def shell_status(status):
    """What a shell shows for what Popen says."""
    return status if status >= 0 else 128 - status


class Report:
    """Gathers what failed, so that one case does not hide the others."""

    def __init__(self):
        self.failed = []

    def same(self, folder, name, command, text=b"", children=True, **options):
        want = plain(command, text, **options)
        for more in ([], ["--children"]) if children else ([],):
            word = " ".join([name, *more])
            store = f"{folder}/{len(os.listdir(folder))}.db"
            begin = time.monotonic()
            try:
                with recorded.Run(store, command, "--at-exit", *more, **options) as target:
                    target.wait(60, text)
                have = target.status, target.out, target.err
            except live.Failure as why:
                self.failed.append(f"{word}: {why}")
                continue
            if shell_status(have[0]) != shell_status(want[0]):
                self.failed.append(f"{word}: exit {have[0]}, by itself {want[0]}; stderr: "
                                   f"{have[2][-400:]}")
            elif have[1] != want[1]:
                self.failed.append(f"{word}: wrote {have[1][-300:]}, by itself {want[1][-300:]}")
            elif want[2] not in have[2]:
                self.failed.append(f"{word}: stderr {have[2][-300:]}, by itself {want[2][-300:]}")
            elif have[2] != want[2] and os.environ.get("HX_LIFE_SHOW"):
                print(f"  {word}: heapx said {have[2].replace(want[2], b'').decode().strip()}")
            if time.monotonic() - begin > 5:
                print(f"  {word}: took {time.monotonic() - begin:.1f} s")

    def end(self):
        check(not self.failed, "\n  ".join(["", *self.failed]))


def modes(folder):
    report = Report()
    for mode in MODES:
        if ONLY is None or mode in ONLY:
            # children are recorded by what stands in their environment
            report.same(folder, mode, [live.victim("life"), mode],
                        children=mode not in ("environment", "clearenv"))
    report.end()


def libraries(folder):
    """Loaded and unloaded a hundred times, at the same addresses."""
    if not os.path.exists(f"{live.BUILD}/test/live/stacks_stripped.so"):
        raise live.Skip("no C++ compiler: no library")
    report = Report()
    report.same(folder, "dlclose", [live.victim("life"), "dlclose", live.victim("stacks_stripped.so")])
    report.end()


def nobody(folder):
    """Gives up its rights on the way."""
    if os.getuid() != 0:
        raise live.Skip("needs root")
    report = Report()
    report.same(folder, "nobody", [live.victim("life"), "nobody"])
    report.end()


def daemon(folder):
    """Goes on after the program that heapx waits for has ended; nothing may keep it from that."""
    want = None
    for more in (None, [], ["--children"]):
        path = f"{folder}/daemon"
        command = [live.victim("life"), "daemon", path]
        if more is None:
            check(plain(command)[0] == 0, "the program fails by itself")
        else:
            with recorded.Run(f"{folder}/d{len(more)}.db", command, "--at-exit", *more) as target:
                check(target.wait(30, b"") == 0, f"exit {target.status}: {target.err}")
        end = time.monotonic() + 10 * live.SLOW
        while not os.path.exists(path) or not os.path.getsize(path):
            check(time.monotonic() < end, f"the daemon does not come to its end: {more}")
            time.sleep(0.02)
        time.sleep(0.05)
        with open(path) as file:
            have = file.read()
        want = want or have
        check(have == want, f"the daemon wrote {have!r}, by itself {want!r}")
        os.unlink(path)


def refused(folder):
    """What cannot be preloaded: recorded by other means, or refused with a reason."""
    static = live.victim("life_static")
    want = plain([static, "hello"])
    with recorded.Run(f"{folder}/static.db", [static, "hello"]) as target:
        target.wait(30, b"")
    word = target.err.decode()
    if target.status == 1:
        check(word.startswith("heapx: ") and "static" in word and word.count("\n") == 1,
              f"no clear refusal: {word}")
    else:
        check((target.status, target.out) == want[:2], f"static: {target.status}, {target.out}, {word}")
    print(f"  static: exit {target.status}, {word.strip()}")
    if os.getuid() == 0:
        path = f"{folder}/rights"
        shutil.copy(live.victim("life"), path)
        os.chmod(folder, 0o755)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o755 | stat.S_ISUID)
        want = plain([path, "hello"])
        with recorded.Run(f"{folder}/rights.db", [path, "hello"]) as target:
            target.wait(30, b"")
        word = target.err.decode()
        if target.status == 1:
            check(word.startswith("heapx: "), f"no clear refusal: {word}")
        else:
            check((target.status, target.out) == want[:2], f"set-uid: {target.status}, {word}")
        print(f"  set-uid: exit {target.status}, {word.strip()}")
    for command, said in (["/nonexistent/program"], "nonexistent"), ([folder], ""):
        with recorded.Run(f"{folder}/none.db", command) as target:
            target.wait(30, b"")
        check(target.status in (1, 126, 127), f"{command}: exit {target.status}")
        check(said in target.err.decode() and target.err.startswith(b"heapx: "), f"{target.err}")


def shells(folder):
    """Scripts and pipelines."""
    report = Report()
    script = f"{folder}/script"
    with open(script, "w") as file:
        file.write("#!/bin/sh -e\nread -r line\necho \"$0 got $line\" | tr a-z A-Z\nexit 9\n")
    os.chmod(script, 0o700)
    report.same(folder, "shebang", [script], b"a line\n")
    report.same(folder, "pipeline", ["sh", "-c", "seq 3000 | sort -r | tail -n 5; (exit 3) || "
                                     "kill -TERM $$"])
    report.same(folder, "cat", ["cat"], b"x\n" * 100000)
    report.same(folder, "false", ["false"])
    report.same(folder, "path", ["env", "-i", "/bin/echo", "nothing"])
    report.same(folder, "limit", ["sh", "-c", f"ulimit -v 300000; ulimit -n 8; exec "
                                  f"{live.victim('life')} hello limited"])
    report.same(folder, "nested", ["sh", "-c", f"for i in 1 2 3; do {live.victim('life')} fork; done | "
                                   "sort | uniq -c"])
    report.end()


def interrupted(folder):
    """What the terminal sends, both get; what heapx alone gets must end the program too, or leave
    it running, but never in a broken state."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with recorded.Run(f"{folder}/{number}.db", ["sh", "-c", "echo here; exec sleep 20"],
                          start_new_session=True) as target:
            check(b"here" in target.process.stdout.readline(), "did not start")
            time.sleep(0.3)
            os.killpg(target.process.pid, number)
            target.wait(15)
            check(shell_status(target.status) in (130, 128 + number),
                  f"signal {number}: exit {target.status}: {target.err}")


def killed(folder):
    """heapx is killed by SIGKILL: the program goes on as if nothing had been."""
    command = ["sh", "-c", f"{live.victim('life')} signals && {live.victim('life')} threads >{folder}/out; "
               f"{live.victim('life')} hello; echo done >{folder}/done"]
    for more in ([], ["--children"]):
        for name in ("done", "out"):
            if os.path.exists(f"{folder}/{name}"):
                os.unlink(f"{folder}/{name}")
        with recorded.Run(f"{folder}/k{len(more)}.db", command, *more, stdout=subprocess.DEVNULL) as target:
            time.sleep(0.5)
            target.process.kill()
            target.process.wait()
            end = time.monotonic() + 20 * live.SLOW
            while not os.path.exists(f"{folder}/done"):
                check(time.monotonic() < end, f"the program does not go on {more}")
                time.sleep(0.05)
        with open(f"{folder}/out") as file:
            check(file.read() == "threads 1000\n", "another output")


def programs(folder):
    """Real programs."""
    report = Report()
    os.environ.update(GIT_CONFIG_NOSYSTEM="1", HOME=folder, LC_ALL="C.UTF-8",
                      GIT_AUTHOR_DATE="1700000000 +0000",
                      GIT_COMMITTER_DATE="1700000000 +0000")

    def have(program):
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            return True
        print(f"  {program} is not installed")
        return False

    report.same(folder, "python3", ["python3", "-c", "import json, threading, subprocess, sys\n"
                "t = [threading.Thread(target=lambda: json.dumps([{'a': i} for i in range(9999)])) for _ in range(4)]\n"
                "[x.start() for x in t]; [x.join() for x in t]\n"
                "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n"
                "print(len(json.dumps({str(i): i for i in range(50000)}))); sys.exit(11)"])
    if have("git"):
        where = f"{folder}/repository"
        subprocess.run(["git", "init", "-q", where], check=True)
        for i in range(20):
            with open(f"{where}/file{i}", "w") as file:
                file.write("line\n" * i * 50)
        git = ["git", "-C", where, "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
        with open(f"{where}/file3", "a") as file:
            file.write("more\n")
        report.same(folder, "git status", [*git, "status", "--short"])
        report.same(folder, "git log", [*git, "--no-pager", "log", "-p", "--stat"])
        report.same(folder, "git gc", [*git, "gc", "-q"])
    if have("sqlite3"):
        report.same(folder, "sqlite3", ["sqlite3", ":memory:"],
                    b"CREATE TABLE t(a, b);\nINSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                    b"SELECT i + 1 FROM n WHERE i < 50000) SELECT i, hex(i * 7919) FROM n;\n"
                    b"SELECT sum(a), count(DISTINCT b) FROM t;\n.exit 4\n")
    if have("vim"):
        with open(f"{folder}/text", "w") as file:
            file.writelines(f"line {i}\n" for i in range(3000))
        report.same(folder, "vim", ["vim", "-N", "-u", "NONE", "-i", "NONE", "-n", "-es", f"{folder}/text",
                                    "-c", "%s/line/word/ | 1000,$d | %p | cquit 3"])
    if have("nginx"):
        with open(f"{folder}/nginx.conf", "w") as file:
            file.write(f"pid {folder}/nginx.pid; error_log stderr; events {{}}\n"
                       f"http {{ access_log off; server {{ listen 127.0.0.1:1; }} }}\n")
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        report.same(folder, "nginx", [nginx, "-q", "-t", "-c", f"{folder}/nginx.conf", "-e", "stderr"])
    if have("gcc"):
        with open(f"{folder}/a.c", "w") as file:
            file.write("#include <stdio.h>\n#include <stdlib.h>\nint main(void){puts(\"x\");return 0;}\n")
        report.same(folder, "gcc", ["gcc", "-O2", "-g", "-S", "-o", "-", f"{folder}/a.c"])
        report.same(folder, "gcc error", ["gcc", "-c", "-o", "/dev/null", f"{folder}/nothing.c"])
    report.end()


def from_outside(folder):
    """A second heapx does not know what was requested of the first one's program, and says so."""
    with recorded.Run(f"{folder}/run.db", ["cat"]) as target:
        children = f"/proc/{target.process.pid}/task/{target.process.pid}/children"
        pid = None
        until = time.monotonic() + 10 * live.SLOW
        while not pid and time.monotonic() < until:
            with open(children) as file:
                pid = next((child for child in file.read().split() if comm(child) == "cat"), None)
        check(pid, "cat does not run")
        live.heapx("snap", pid, "-o", f"{folder}/snap.db")
        notes = live.row(f"{folder}/snap.db", "SELECT notes FROM snapshots")["notes"]
        check("another heapx records this process" in notes, notes)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return None


if __name__ == "__main__":
    live.main(modes, libraries, nobody, daemon, refused, shells, interrupted, killed, from_outside, programs,
              long=(modes, libraries, shells, programs))
