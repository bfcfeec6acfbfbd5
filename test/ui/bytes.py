#!/usr/bin/env python3
"""bytes.py - nothing that a target or a store says steers the terminal.

Opens stores whose every name tries to on all screens, and looks at each byte that is written: what
curses itself sends is known, anything else is a failure. Columns must stay where they are.
"""
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from emulator import Terminal  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(os.environ.get("HX_UI_BIN", "test/ui"))
# A file's name is not ours either.
FILE = b"evil\x1b]0;owned\x07\x1b[4242m\xc2\x9b\xff\xe2\x80\xae\n.db"
OTHERS = ("losses", "pages", "sites", "threads", "named", "messages", "help", "views", "flame",
          "snapshots")


class Failed(Exception):
    pass


def make(folder, name, words):
    path = os.path.join(os.fsencode(folder), name)
    subprocess.run([f"{BIN}/make_store", path, "3", "60", "recorded"], check=True)
    subprocess.run([sys.executable, f"{HERE}/hostile.py", path, *words], check=True)
    return path


def look(terminal, what):
    terminal.settle(0.012)
    if terminal.screen.strange:
        raise Failed(f"{what}: {terminal.screen.strange[:3]}\n{terminal.screen.text()}")
    if terminal.screen.text().strip() == "":
        raise Failed(f"{what}: an empty screen")


def aligned(terminal, what):
    """Each row has its bytes in the cells below their heading, whatever its name is."""
    cells = terminal.screen.cells
    for y, line in enumerate(cells):
        found = re.search(r"bytes.?(?= |$)", "".join(line)) if re.search(r"\bname\b", "".join(line)) else None
        if found:
            break
    else:
        return
    end = found.end() - 1
    for row in cells[y + 1:-1]:
        if not "".join(row).strip():
            return
        if not (row[end].isalnum() or row[end] == "-") or row[end + 1:end + 2] not in ([" "], []):
            raise Failed(f"{what}: not aligned\n{terminal.screen.text()}")


def run(folder, store, size, locale):
    lines, columns = size
    terminal = Terminal([f"{BIN}/explore".encode(), store], lines, columns, locale=locale,
                        cwd=folder)
    if terminal.wait_for(r"\[1 [a-z]+\]|\[1\]") is None:
        raise Failed(f"does not start\n{terminal.screen.text()}")
    names = [(f"screen {digit}", str(digit)) for digit in range(10)]
    names += [(name, f":screen {name}\r") for name in OTHERS]
    for name, keys in names:
        terminal.send(keys)
        look(terminal, name)
        aligned(terminal, name)
        for key in ("G", "i", "\033", "g", "\r", "j", "\r", "\033", "\033", "w", "\033", "o", "\033",
                    "s", "\033", "R", "x", "\033", "\033", "v", "v", "d", "d", "*", "/owned\r",
                    "jjj\r", "i"):
            terminal.send(key)
            look(terminal, f"{name}, key {key!r}")
            if terminal.status is not None or os.waitpid(terminal.pid, os.WNOHANG)[0]:
                terminal.status = -1
                raise Failed(f"{name}, key {key!r}: it ended")
    for keys in (":\x01\u0301日e\u0301\u202e\u200d\r", "f\u0301name = '\u202e'\r", ":nosuch\u2066 \u0085\r",
                 ":write /\u202e/\u0301x\r", ":screen \u200bx\r", ":messages\r"):
        terminal.send(keys)
        look(terminal, f"typed {keys!r}")
    terminal.send("Q")
    if terminal.wait() != 0 or not terminal.is_sane():
        raise Failed(f"status {terminal.status}, or the terminal is not as it was")
    if terminal.screen.strange:
        raise Failed(f"at the end: {terminal.screen.strange[:3]}")


def one(job):
    """A line about it, and whether all was well."""
    folder, store, size, locale = job
    begin = time.monotonic()
    what = f"{os.path.basename(store)!r} at {size[1]}x{size[0]} in {locale}"
    try:
        run(folder, store, size, locale)
    except Failed as problem:
        return f"FAIL: {what}: {problem}", False
    return f"{what}: {time.monotonic() - begin:.1f} s", True


def main():
    well = True
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for name, words in ((FILE, []), (b"words.db", ["words"])):
            store = make(folder, name, words)
            for size, locale in (((24, 80), "C.UTF-8"), ((12, 40), "C"), ((24, 80), "C"),
                                 ((12, 40), "C.UTF-8"))[:2 if words else 4]:
                jobs.append((folder, store, size, locale))
        with multiprocessing.Pool(3) as pool:  # they mostly wait
            for line, good in pool.imap(one, jobs):
                print(line, flush=True)
                well = well and good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
