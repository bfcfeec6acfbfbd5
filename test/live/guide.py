#!/usr/bin/env -S python3 -B
"""guide.py - the way to the line in doc/guide.md, as a person would go it.

A server leaks what can still be reached; from its growing row it takes at most three keys to the
chain of references that holds it, and to the line that allocated it.
"""
import os
import subprocess
import sys

import live
from live import check

VISITORS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../doc/example/visitors.py")


class Server(live.Target):
    """chatd, and people who come to it."""

    def __init__(self):
        super().__init__([live.victim("chatd"), "0"])
        self.port = int(self.wait_line("port").split()[1])
        self.visitors = None

    def visit(self, seconds, rate=50):
        """In the background."""
        self.visitors = subprocess.Popen(
            [sys.executable, "-B", VISITORS, str(self.port), str(rate), str(seconds)],
            preexec_fn=live.end_with_parent)

    def __exit__(self, *args):
        if self.visitors:
            self.visitors.kill()
            self.visitors.wait()
        super().__exit__(*args)


def look(folder, store, *lines):
    """The displays of a script, by name."""
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as script:
        script.write("\n".join(lines) + "\n")
    env = dict(os.environ, LINES="24", COLUMNS="100", LC_ALL="C.UTF-8", TERM="xterm")
    done = subprocess.run([live.HEAPX, "open", store, "--script", keys], env=env, cwd=folder,
                          capture_output=True, timeout=120 * live.SLOW)
    if b"without ncurses" in done.stderr:
        raise live.Skip("there is no explorer in this build")
    check(done.returncode == 0, f"explorer: {done.stderr.decode()}")
    shown = {}
    for line in lines:
        if line.startswith(":save-display "):
            with open(os.path.join(folder, line.split()[1]), encoding="utf-8") as display:
                shown[line.split()[1]] = display.read()
    return shown


def row_under_cursor(display):
    return next(line for line in display.splitlines() if line.startswith(">"))


def record(folder, server):
    """Two snapshots and more of the server under visitors, with who allocates where that works."""
    store = os.path.join(folder, "chatd.hx")
    server.visit(60)
    said = live.heapx("record", server.pid, "-o", store, "--every", "2s", "--duration", "6s",
                      ok=(0, 1, 3))
    if said[0] != 1:
        return store, True
    live.heapx("snap", server.pid, "-o", store, "--every", "2s", "--count", "3")
    return store, False


def grown(folder):
    """Differences of retainer sets: the first row is `rooms`; w leads to the chain, s to the line."""
    with Server() as server:
        store, recorded = record(folder, server)
        live.check_let_go(server.pid)
    shown = look(folder, store,
                 "2", ":save-display sets", "d", ":save-display grown", "w", ":save-display chain",
                 "2", "s", ":save-display stack", "6", ":save-display leaks",
                 "5", ":save-display types")
    check("rooms" in row_under_cursor(shown["sets"]), shown["sets"])
    check("rooms" in row_under_cursor(shown["grown"]) and "grown" in shown["grown"],
          shown["grown"])
    check("rooms" in shown["chain"] and "start" in shown["chain"], shown["chain"])
    check("chat::Room" in shown["chain"], f"no type in the chain:\n{shown['chain']}")
    if recorded:
        check("chatd.cc:" in shown["stack"], shown["stack"])


def agrees(folder):
    """What the explorer shows of it is what Valgrind says: nothing is lost."""
    with Server() as server:
        store, _ = record(folder, server)
    lost = live.rows(store, "SELECT leaked_bytes, heap_bytes FROM snapshots")
    check(len(lost) >= 2 and all(row["leaked_bytes"] < row["heap_bytes"] / 100 for row in lost),
          f"lost: {lost}")
    check(lost[-1]["heap_bytes"] > lost[0]["heap_bytes"] + 500_000, f"does not grow: {lost}")


if __name__ == "__main__":
    live.main(grown, agrees)
