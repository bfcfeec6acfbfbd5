#!/usr/bin/env -S python3 -B
"""bytes.py - `hex` on a live program: its bytes of now, pointers that have moved, its end.

The script is a pipe, so that the program can be told to change between two looks.
"""
import csv
import os
import subprocess
import sys
import time

import live
from live import check


def wait_for(path, process):
    end = time.monotonic() + 60 * live.SLOW
    while not os.path.exists(path):
        check(process.poll() is None, f"heapx has ended ({process.returncode})")
        check(time.monotonic() < end, f"no {os.path.basename(path)}")
        time.sleep(0.02)


class Looks:
    """Looks at one object, each into files of its own."""

    def __init__(self, pid, folder):
        self.folder, self.n = folder, 0
        script = os.path.join(folder, "script")
        os.mkfifo(script)
        env = dict(os.environ, LINES="24", COLUMNS="100", TERM="xterm", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen([live.HEAPX, "attach", str(pid), "--script", script], env=env,
                                        cwd=folder, stdin=subprocess.DEVNULL,
                                        preexec_fn=live.end_with_parent)
        self.pipe = open(script, "w")

    def look(self, keys):
        self.n += 1
        display = os.path.join(self.folder, f"display{self.n}")
        table = os.path.join(self.folder, f"table{self.n}.csv")
        self.pipe.write(f"{keys}\n:write {table}\n:save-display {display}\n")
        self.pipe.flush()
        wait_for(display, self.process)
        return list(csv.DictReader(open(table))), open(display).read()

    def end(self):
        self.pipe.close()
        return self.process.wait(timeout=60 * live.SLOW)


def changes(folder):
    with live.Target([live.victim("bytes")]) as target:
        node, first, text, other = (int(word, 16) for word in target.process.stdout.readline().split())
        looks = Looks(target.pid, folder)
        rows, display = looks.look(f":hex {node:#x}")
        check([int(row["offset"]) for row in rows] == [8 * i for i in range(len(rows))], rows)
        check(rows[0]["hex"] == first.to_bytes(8, "little").hex(" "), rows[0])
        check((rows[0]["mark"], int(rows[0]["target"])) == ("*", first), rows[0])
        check((rows[1]["mark"], int(rows[1]["target"]), rows[1]["kind"]) == ("*", text, "start"), rows[1])
        check([row["text"] for row in rows[2:4]] == ["note.[31", "m.. byte"], rows)
        check(rows[2]["mark"] == " " and rows[2]["target"] == "", rows[2])
        check("2 of 2 pointers lead where they did" in display, display)
        live.check_let_go(target.pid)

        target.process.stdin.write(b"move\n")
        target.process.stdin.flush()
        check(target.process.stdout.readline() == b"moved\n", "the program does not answer")
        rows, display = looks.look("x")
        check(rows[0]["hex"] == other.to_bytes(8, "little").hex(" "), rows[0])
        check(rows[0]["mark"] == "!" and f"now {other:#x}" in rows[0]["leads"], rows[0])
        check(int(rows[0]["target"]) == first, "the snapshot's target is not kept")
        check(rows[4]["value"] == "1", rows[4])
        check("1 of 2 pointers lead where they did" in display, display)

        target.process.kill()
        target.process.wait()
        rows, display = looks.look("x")
        check([int(row["target"]) for row in rows] == [first, text], rows)
        check("has exited" in display and all(not row["hex"] for row in rows), display)
        check(looks.end() == 0, "heapx did not end well")


if __name__ == "__main__":
    sys.exit(live.main(changes))
