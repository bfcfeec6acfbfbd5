#!/usr/bin/env python3
"""monkey.py - random keys: no crash, no leak, no frozen screen.

    monkey.py [KEYS]        5,000 on each store, 20,000 with HX_NIGHTLY=1; HX_SEED chooses them

Presses every key and types every command of the explorer's own table, at changing sizes, on stores
to which snapshots are being added, one of them with a recording, on an empty one, and on one with
names that try to steer the terminal. A key that quits is followed by a new start. Whatever is said
on the terminal (a sanitizer's report, an error) is a failure, as is a key that takes longer than a
second (not under sanitizers or Valgrind), and a run that does not answer at its end.

HX_UI_RUN may hold a command to run the explorer with (Valgrind and its options).
"""
import concurrent.futures
import csv
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in emulator.py
BIN = os.path.abspath(os.environ.get("HX_UI_BIN", "test/ui"))
WRAP = shlex.split(os.environ.get("HX_UI_RUN", ""))
SLOWEST = 1.0
# Each screen is drawn to /dev/null, and the terminal itself is left alone.
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", "HEAPX_TIMING": "1"}
ENVIRONMENT.pop("HEAPX_SCRIPT", None)

WORDS = ["start", "[a", "sort", "日本", "bytes>9", "bytes > 100 and name ~ 'a'", "name = 'x", "0x55",
         "node", "(", "1", "2", "0", "main", "e\u0301", "cache", "type", "reachable", ".*", "leak",
         "SELECT * FROM objects LIMIT 400", "SELECT 1", "SELECT name, bytes FROM types", "DROP TABLE x",
         "SELECT * FROM nosuch", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
         " LIMIT 3000) SELECT i FROM n", "out.csv", "out.json", "/nosuch/x", "x" * 60]
ARGUMENTS = {
    "screen": ["account", "timeline", "holders", "retainers", "bins", "centres", "types", "leaks", "objects",
               "dominators", "roots", "losses", "pages", "sites", "threads", "help", "messages",
               "flame", "snapshots", "views", "named", "nosuch", "why"],
    "snapshot": ["first", "last", "1", "3", "99", "x"], "mark": ["1", "2", "99", ""],
    "difference": ["1", "2", "last", ""], "scheme": ["root", "module", "thread", "type", "site", "x"],
    "retainer": ["node", "net::*", "", "["], "max-set": ["0", "1", "8", "auto", "-1"],
    "threads-as": ["name", "one", "parts", "x"],
    "root": ["a=cache_head", "b=0x55d0c0de1000", "no=where", "", "c=thread:4242", "="],
    "unroot": ["cache", "a", "nosuch"], "why": ["0x55d0c0de1000", "0x1", "x", ""],
    "goto": ["0x55d0c0de1000", "0x55d0c0e5ce50", "7", "x"], "hex": ["0x55d0c0de1000", "x", ""],
    "stack": ["0x55d0c0de1000", "x", ""], "sort": ["bytes", "name", "nosuch", "objects", "type"],
    "set": ["mouse on", "mouse off", "mouse"], "resize": ["12 40", "24 80", "1 1", "60 200", "0 x"],
    "by": ["type", "retainer", "bin", "module", "x", ""], "sql": WORDS[20:26],
    "filter": WORDS[4:7] + [""], "search": WORDS[:4] + [""], "write": ["out.csv", "a.json", "/x/y"],
    "write!": ["out.csv", "a.txt"], "save-display": ["out"],
}
# Each stores a snapshot or analyses one anew, so these come ten times as rarely.
HEAVY = {"a", "snap", "scheme", "retainer", "max-set", "threads-as", "root", "unroot",
         "analyse"}


def table(folder):
    """Keys and commands, from the help screen."""
    script = os.path.join(folder, "help.keys")
    with open(script, "w") as file:
        file.write("?\n:write help.csv\n")
    run(folder, "empty.db", "help.keys")
    keys, commands = [], []
    with open(os.path.join(folder, "help.csv")) as file:
        for row in csv.DictReader(file):
            # a text that a spreadsheet would take for a formula has a quote in front
            keys += row["keys"].removeprefix("'").replace("\\\\", "\\").split()
            if row["command"]:
                commands.append(row["command"].strip()[1:].split(" ")[0])
    if len(set(keys)) < 60 or len(set(commands)) < 40:
        sys.exit("FAIL: the help screen lists too little")
    return sorted(set(keys)), sorted(set(commands))


def line(keys, commands):
    """One line of a script: a key, a command that is typed, text, another size."""
    chance = random.random()
    if chance < 0.02:
        return f":resize {random.randint(1, 60)} {random.randint(1, 200)}"
    if chance < 0.10:
        command = random.choice(commands)
        if command in HEAVY and random.random() < 0.9:
            command = "screen"
        argument = random.choice(ARGUMENTS.get(command, [""] * 9 + WORDS[:1])).replace('"', "")
        return f': "{command} {argument}" Enter'
    if chance < 0.16:
        return f'"{random.choice(WORDS)}" {random.choice(["Enter", "Esc", "Tab", "Up", "Left"])}'
    if chance < 0.20:
        return random.choice(["Delete", "Ctrl-A", "Ctrl-E", "Ctrl-K", "Ctrl-W", "Z", "é", "F12", "Mouse",
                              "Home", "Up", "Tab", "Ctrl-N"]).replace("é", '"é"')
    key = random.choice(keys)
    if key in HEAVY and random.random() < 0.9:
        key = "j"
    if key in ("Q", "q", "Ctrl-C", "F10") and random.random() < 0.9:
        key = "Esc"
    return key


def session(keys, commands, count):
    """Lines that press so many keys."""
    lines, pressed = [], 0
    while pressed < count:
        lines.append(line(keys, commands))
        text = lines[-1].split('"')
        pressed += sum(len(part) if i % 2 else len(part.split()) for i, part in enumerate(text))
    return lines


def run(folder, store, script):
    done = subprocess.run([*WRAP, f"{BIN}/explore", store, script], cwd=folder, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=(3000 if WRAP else 280) * SLOW)
    output = done.stdout + done.stderr
    times = []
    said = []
    for text in output.split(b"\n"):
        words = text.split()
        if words[:1] == [b"timing"]:
            if words[1] == b"keys":
                times.append(float(words[2]))
        elif text:
            said.append(text)
    if done.returncode or said:
        raise RuntimeError(f"exit {done.returncode}: {b' / '.join(said)[:3000]!r}")
    return times


def press(folder, store, lines, slowest):
    """All lines, from start to start; the times they took."""
    times = []
    starts = 0
    while len(times) < len(lines):
        name = f"{store}.{starts}.keys"
        with open(os.path.join(folder, name), "w") as file:
            file.write("\n".join(lines[len(times):]) + "\n")
            file.write("Esc Esc Esc\n:screen types\n:save-display end\n")
        got = run(folder, store, name)
        times += got[:len(lines) - len(times)]
        starts += 1
        if not got or starts > 5000:
            raise RuntimeError("it answers nothing")
        if len(got) > 0 and len(times) == len(lines):
            break
    worst = max(range(len(times)), key=times.__getitem__)
    if times[worst] > slowest * SLOW:
        raise RuntimeError(f"{lines[worst]!r} (line {worst + 1}) took {times[worst]:.2f} s")
    # What is left of the store is one: the explorer opens it, and still answers.
    with open(os.path.join(folder, "end.keys"), "w") as file:
        file.write(":screen types\n:save-display end\n")
    run(folder, store, "end.keys")
    with open(os.path.join(folder, "end")) as file:
        if "5 types]" not in file.read():
            raise RuntimeError("it does not answer any more")
    ordered = sorted(times)
    return (f"{len(times)} lines, {starts} starts, median {ordered[len(times) // 2] * 1e3:.1f} ms,"
            f" 99 % {ordered[len(times) * 99 // 100] * 1e3:.1f} ms, most {times[worst] * 1e3:.0f} ms"
            f" ({lines[worst][:40]})")


def is_plain():
    """Built without sanitizers, and run as it is."""
    with open(os.path.join(BIN, "../../config.status"), errors="replace") as file:
        return not WRAP and "-fsanitize" not in file.read()


def main():
    plain = is_plain()
    full = 20000 if os.environ.get("HX_NIGHTLY") else 5000
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600 if WRAP else full if plain else full // 2
    seed = os.environ.get("HX_SEED", str(int(time.time())))
    print(f"seed {seed}, {count} keys", flush=True)
    random.seed(seed)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, how in (("full.db", []), ("recorded.db", ["3", "60", "recorded"]),
                          ("empty.db", ["0"])):
            subprocess.run([f"{BIN}/make_store", name, *how], cwd=folder, check=True)
        shutil.copy(f"{folder}/recorded.db", f"{folder}/hostile.db")
        subprocess.run([sys.executable, f"{HERE}/hostile.py", f"{folder}/hostile.db"], check=True)
        keys, commands = table(folder)
        jobs = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for store in ("full.db", "recorded.db", "empty.db", "hostile.db"):
                lines = session(keys, commands, count)
                own = os.path.join(folder, store[:-3])
                os.mkdir(own)
                os.rename(f"{folder}/{store}", f"{own}/{store}")
                jobs[store] = pool.submit(press, own, store, lines, SLOWEST if plain else 1e9)
            for store, job in jobs.items():
                try:
                    print(f"{store}: {job.result()}", flush=True)
                except (RuntimeError, subprocess.TimeoutExpired) as problem:
                    print(f"FAIL: HX_SEED={seed} {count} on {store}: {problem}", flush=True)
                    failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
