#!/usr/bin/env python3
"""attached.py - the explorer on a live process: whatever ends it, the process goes on, and the
terminal is left in order.

    attached.py [TEST...]
"""
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import live  # noqa: E402
from emulator import SLOW, Terminal  # noqa: E402

BUILD = os.environ.get("HX_BUILDDIR", os.getcwd())
HEAPX = f"{BUILD}/heapx"
TARGET = "import time\nheld = [bytearray(300) for _ in range(20000)]\nprint(1, flush=True)\n" \
         "while True:\n    held.append(bytearray(100))\n    time.sleep(0.002)\n"


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


def expect(terminal, what, pattern, seconds=40):
    if terminal.wait_for(pattern, seconds) is None:
        raise Failed(f"{what}: nothing like {pattern!r} on\n{terminal.screen.text()}")


def state(pid):
    with open(f"/proc/{pid}/status") as file:
        words = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    return words["State"][0], int(words["TracerPid"])


def goes_on(target, seconds=15):
    """Neither stopped nor traced, and at work."""
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        now, tracer = state(target.pid)
        if now in "RS" and tracer == 0:
            before = switches(target.pid)
            time.sleep(0.1)
            if switches(target.pid) > before:
                return True
        time.sleep(0.05)
    return False


def switches(pid):
    with open(f"/proc/{pid}/status") as file:
        return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)


def children(pid):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            if int(fields[1]) == pid:
                found.append(int(entry))
        except (OSError, IndexError, ValueError):
            pass
    return found


def attach(target, *arguments, **how):
    terminal = Terminal([HEAPX, "attach", str(target.pid), *arguments], **how)
    expect(terminal, "first snapshot", "snapshot 1 of 1")
    return terminal


def test_quit(target):
    terminal = attach(target, "--every", "300ms")
    expect(terminal, "more of them", "snapshot [3-9]")
    terminal.send("8")
    expect(terminal, "objects", r"\[8 obj")
    leave(terminal)
    check(terminal.wait() == 0 and terminal.is_sane(), f"status {terminal.status}")
    check(goes_on(target), "the process does not go on")


def leave(terminal, key="Q"):
    terminal.send(key)
    expect(terminal, "the question", "in no file: s saves, d throws away")
    terminal.send("d")


def snapshots(store):
    found = subprocess.run([HEAPX, "report", store, "snapshots", "--snapshot", "all", "--format", "csv"],
                           capture_output=True, text=True)
    check(found.returncode in (0, 3), f"{store}: {found.stderr}")
    return len(found.stdout.splitlines()) - 1


def test_question(target):
    """Nobody loses snapshots by one key, and :save keeps them."""
    with tempfile.TemporaryDirectory() as folder:
        terminal = attach(target, "--analyse", "now", cwd=folder)  # so that Ctrl-C cancels nothing
        expect(terminal, "the first one", r"\? help")
        time.sleep(2.5)  # else Ctrl-C says that the snapshot is taken already
        for key in "q", "Q", "\003":
            terminal.send(key)
            expect(terminal, f"{key!r} asks", "1 snapshot is in no file: s saves, d throws away")
            terminal.send("x\r\033")  # neither of them answers
            expect(terminal, "goes on", r"\? help")
        terminal.send(":save kept.db\r")
        expect(terminal, "saved", "up to 1 are kept in kept.db")
        check(snapshots(f"{folder}/kept.db") == 1, "the file does not hold it")
        check(os.stat(f"{folder}/kept.db").st_mode & 0o777 == 0o600, "others may read the file")
        terminal.send("a")
        expect(terminal, "another one", "snapshot 2 of 2")
        open(f"{folder}/other", "w").write("text")
        terminal.send("qs\025other\r")  # Ctrl-U empties the line
        expect(terminal, "refused", "not a heapx store")
        check(open(f"{folder}/other").read() == "text", "a file of somebody was changed")
        terminal.send("qs\025two.db\r")
        check(terminal.wait() == 0 and terminal.is_sane(), f"status {terminal.status}")
        check(snapshots(f"{folder}/two.db") == 2, "the file does not hold both")
        check(sorted(os.listdir(folder)) == ["kept.db", "other", "two.db"], os.listdir(folder))
        terminal = attach(target, "-o", "out.db", cwd=folder)
        terminal.send("q")
        check(terminal.wait() == 0, "with -o it asks")


def kept(pid):
    folder = f"{os.environ['XDG_STATE_HOME']}/heapx"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{name}" for name in names if name.startswith(f"heapx-{pid}-")]


def test_kept(target):
    """What cuts the explorer off does not take the snapshots with it, and the next one tells."""
    for number in signal.SIGHUP, signal.SIGTERM:
        terminal = attach(target)
        terminal.send("a")
        expect(terminal, "two", "snapshot 2 of 2")
        os.kill(terminal.pid, number)
        os.kill(terminal.pid, number)  # as a shell and the kernel do together
        expect(terminal, "told", r"2 that no file held are kept in ")
        check(terminal.wait() == 130, f"status {terminal.status}")
        files = kept(target.pid)
        check(len(files) == 1 and snapshots(files[0]) == 2, f"{number!r}: {files}")
        check(os.stat(files[0]).st_mode & 0o777 == 0o600, "others may read it")
        terminal = attach(target)
        expect(terminal, "the next one tells", "snapshots of a session that was cut off: ")
        leave(terminal)
        terminal.wait()
        os.unlink(files[0])
    with tempfile.TemporaryDirectory() as folder:
        terminal = attach(target, cwd=folder, XDG_STATE_HOME="/nonexistent", HOME="/nonexistent")
        os.kill(terminal.pid, signal.SIGHUP)
        terminal.wait()
        found = os.listdir(folder)
        check(len(found) == 1 and snapshots(f"{folder}/{found[0]}") == 1, f"here: {found}")


def test_ahead(target):
    """Keys that come before their row wait for it."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/s.db"
        check(subprocess.run([HEAPX, "snap", str(target.pid), "-o", store],
                             capture_output=True).returncode in (0, 3), "snap")
        with sqlite3.connect(store) as rows:  # a list that takes a while
            rows.executemany("INSERT INTO hx_type(snapshot, type, name, bytes, objects)"
                             " VALUES (1, ?, ?, ?, 1)",
                             ((i, f"type {i * 7919 % 200003}", i * 31 % 1009)
                              for i in range(1_000_000, 1_200_000)))
        rows.close()
        for keys, what in (("5i", r"› details"), ("5jji", r"› details"), ("8\rw", r"› object › why"), ("2\ro", r"Objects (held|retained) by"),
                           ("8/[0-9]\r\rw", r"› object › why"), (":screen roots\r\r", "› root")):
            terminal = Terminal([HEAPX, "open", store])
            terminal.send(keys)  # before it has drawn anything
            expect(terminal, f"{keys!r}", what)
            check("no row" not in terminal.screen.text(), terminal.screen.text())
            terminal.send("Q")
            terminal.wait()


def test_kills(target):
    """At many moments of a snapshot."""
    for number, moments in ((signal.SIGKILL, (0.0, 0.004, 0.015, 0.05)), (signal.SIGTERM, (0.01,)),
                            (signal.SIGSEGV, (0.005, 0.02)), (signal.SIGHUP, (0.005,))):
        for moment in moments:
            terminal = attach(target)
            terminal.send("a")
            time.sleep(moment)
            os.kill(terminal.pid, number)
            check(terminal.wait() is not None, f"{number!r} does not end it")
            # What nobody can catch leaves the terminal as it is; the process goes on all the same.
            check(number == signal.SIGKILL or terminal.is_sane(), f"{number!r}: the terminal")
            check(goes_on(target), f"{number!r} after {moment} s: the process does not go on")
            terminal.close()


def test_hangup(target):
    terminal = attach(target)
    terminal.send("a")
    os.close(terminal.master)
    terminal.master = -1
    end = time.monotonic() + 15 * SLOW
    while time.monotonic() < end and not os.waitpid(terminal.pid, os.WNOHANG)[0]:
        time.sleep(0.02)
    terminal.status = 0
    check(time.monotonic() < end, "it goes on without a terminal")
    files = kept(target.pid)
    check(len(files) == 1 and snapshots(files[0]) == 1, f"kept: {files}")
    os.unlink(files[0])
    check(goes_on(target), "the process does not go on")


def test_agent_killed(target):
    terminal = attach(target)
    agents = children(terminal.pid)
    check(agents, "there is no agent")
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    terminal.settle()
    terminal.send("a")
    terminal.settle(0.5)
    terminal.send("8")
    expect(terminal, "it goes on", r"\[8 obj")
    check(goes_on(target), "the process does not go on")
    leave(terminal)
    check(terminal.wait() == 0 and terminal.is_sane(), f"status {terminal.status}")


def test_target_killed(_target):
    other = start_target()
    terminal = attach(other, "--every", "100ms")
    other.kill()
    other.wait()
    terminal.settle(0.5)
    terminal.send("8")
    expect(terminal, "what was stored stays", r"\[8 obj")
    leave(terminal)
    check(terminal.wait() == 0 and terminal.is_sane(), f"status {terminal.status}")


def test_background(target):
    """A job in the background waits until it is brought to the front; so does a stopped one."""
    if not shutil.which("bash"):
        return
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], PS1="$ ")
    expect(terminal, "shell", r"^\$")
    terminal.send(f"{HEAPX} attach {target.pid} &\r")
    time.sleep(1)
    terminal.send("echo al''ive\r")
    expect(terminal, "the shell has the terminal", "^alive")
    for _ in range(40):  # it first has to come to the terminal
        terminal.send("clear; jobs\r")
        if terminal.wait_for("Stopped", 1) is not None:
            break
    expect(terminal, "it waits", "Stopped")
    check(goes_on(target), "the process does not go on")
    terminal.send("fg\r")
    expect(terminal, "fg", "snapshot 1 of 1")
    terminal.send("\032")
    expect(terminal, "Ctrl-Z", "Stopped")
    check(goes_on(target), "the process does not go on while heapx is stopped")
    terminal.send("bg\r")
    terminal.settle(0.3)
    terminal.send("echo st''ill\r")
    expect(terminal, "bg", "^still")
    terminal.send("fg\r")
    expect(terminal, "fg again", "snapshot 1 of 1")
    terminal.send("a")
    expect(terminal, "a snapshot then", "snapshot 2 of 2")
    leave(terminal, "q")
    expect(terminal, "the shell again", r"\$$")
    terminal.send("exit\r")
    check(terminal.wait() is not None, "the shell does not end")


def start_target():
    target = subprocess.Popen([*live.PYTHON, TARGET], stdout=subprocess.PIPE)
    target.stdout.readline()
    return target


def main():
    tests = {name[5:]: value for name, value in globals().items() if name.startswith("test_")}
    chosen = sys.argv[1:] or list(tests)
    target = start_target()
    try:
        return run(target, tests, chosen)
    finally:
        target.kill()


def run(target, tests, chosen):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        probe = subprocess.run([HEAPX, "snap", str(target.pid), "-o", f"{folder}/s.db"],
                               capture_output=True)
    if probe.returncode not in (0, 3):
        print(probe.stderr.decode(errors="replace"))
        return 77
    for name in chosen:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as state:
            os.environ["XDG_STATE_HOME"] = state
            try:
                tests[name](target)
            except Failed as problem:
                print(f"FAIL: {name}: {problem}")
                failed = True
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
