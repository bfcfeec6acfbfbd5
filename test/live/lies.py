#!/usr/bin/env -S python3 -B
"""lies.py - stores whose tables lie about what was recorded: cells and rows of a real recording
are changed at random, and all views, forms, options and screens look at it.

    lies.py        environment: HX_SEED, HX_SECONDS (5), HX_STORE (a store to begin with)

Errors are right. Crashes, reports of sanitizers, hangs, much memory, and bytes on the display that
were not escaped are not. scripts/soak lies does it for ten minutes.
"""
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import time

import live
import recorded
from live import check

SEED = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))
SECONDS = float(os.environ.get("HX_SECONDS", "5"))
PATIENCE = 40 if SECONDS < 60 else 120
MEMORY = 1 << 30

TABLES = """hx_frame hx_place hx_centre hx_ccs hx_cost hx_stack hx_stack_cost hx_stack_site hx_site
    hx_chain hx_stack_chain hx_chain_cost hx_function hx_call hx_cycle hx_mprof hx_size hx_size_type
    hx_thread hx_holder hx_attributed hx_recording hx_estimate hx_file hx_leak hx_page""".split()
VIEWS = """ccs costs estimates sites modules stacks frames threads leaks mprof_leaks mprof_held
    mprof_bins mprof_direct mprof_graph pages snapshots objects""".split()
TEXTS = ["", "\x1b[31mred\x1b]0;title\x07", "\x9b5n", "a\nb\rc\td", "\u202eright", "x" * 100000,
         "%s%n%d", "\U0001f600" * 40, "e\u0301" * 300, "'; DROP TABLE hx_ccs; --", "main", "file:1",
         "0\0hidden", "std::vector<int, std::allocator<int> >::push_back(int const&)", ">" * 5000]
BLOBS = [b"", b"\xff\xfe\x1b[2J", b"\xc3", b"\0" * 50, bytes(range(256))]
NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7, -1, -2, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 2,
           2**32 - 1, 2**32, 2**48, 2**53, 2**62, 2**63 - 1, -2**63, 0.5, 1e300, float("inf"), -1e9]
KEYS = """j k Up Down PgDn PgUp Home End g G Enter Right Esc Left h Tab < > I s + - * d f F w o R i
    [ ] n N Space U 4 4 4 6 1 2 5 8 :threads :screen_sites :screen_centres :scheme_site""".split()
CENTRES = ["*", "a*", "module:*", "module:libc*", "file:*.c", "region:*", "!m*", "!region:*", "main",
           "\x1b*", "x" * 500]


class Lies:
    """One store after the other, each a copy of the first with changes."""

    def __init__(self, folder, base, chance):
        self.folder, self.base, self.chance = folder, base, chance
        self.store = os.path.join(folder, "lies.db")
        self.rounds = self.calls = 0
        self.said = []
        with sqlite3.connect(base) as db:
            there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            self.columns = {table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                            for table in TABLES if table in there}

    def value(self, db, table, column):
        """Anything, but mostly what could be true."""
        kind = self.chance.random()
        if kind < 0.4:
            other = self.chance.choice(self.columns[table]) if kind < 0.1 else column
            try:
                found = db.execute(f'SELECT "{other}" FROM {table} ORDER BY random() LIMIT 1').fetchone()
            except sqlite3.Error: # it was dropped before
                found = None
            return found[0] if found else None
        if kind < 0.75:
            return self.chance.choice(NUMBERS)
        if kind < 0.9:
            return self.chance.choice(TEXTS)
        return self.chance.choice(BLOBS) if kind < 0.96 else None

    def where(self, table):
        kind = self.chance.random()
        first = self.columns[table][0]
        if kind < 0.5:
            return f" WHERE {first} = (SELECT {first} FROM {table} ORDER BY random() LIMIT 1)"
        if kind < 0.8:
            return f" WHERE abs(random()) % {self.chance.choice([2, 5, 20, 100])} = 0"
        return ""

    def change(self, db):
        table = self.chance.choice(list(self.columns))
        column = self.chance.choice(self.columns[table])
        kind = self.chance.random()
        if kind < 0.62:
            value = self.value(db, table, column)
            self.do(db, f'UPDATE OR IGNORE {table} SET "{column}" = ?{self.where(table)}', [value])
        elif kind < 0.72: # numbers that point elsewhere
            to = self.chance.choice(['+ 1', '- 1', '* 2', '/ 2', '% 7', '* -1'])
            self.do(db, f'UPDATE OR IGNORE {table} SET "{column}" = "{column}" {to}{self.where(table)}')
        elif kind < 0.78: # to each other: cycles
            self.do(db, f'UPDATE OR IGNORE {table} SET "{column}" = (SELECT max("{column}") FROM {table}) '
                        f'- "{column}"{self.where(table)}')
        elif kind < 0.82:
            own = self.columns[table][0]
            self.do(db, f'UPDATE OR IGNORE {table} SET "{column}" = {own}{self.where(table)}')
        elif kind < 0.92:
            self.do(db, f"DELETE FROM {table}{self.where(table)}")
        elif kind < 0.98:
            values = [self.value(db, table, name) for name in self.columns[table]]
            marks = ", ".join("?" * len(values))
            self.do(db, f"INSERT OR IGNORE INTO {table} VALUES({marks})", values)
        else:
            self.do(db, f"DROP TABLE {table}")

    def do(self, db, sql, values=()):
        try:
            db.execute(sql, values)
            self.said.append(f"{sql} {str(values)[:200]}")
        except sqlite3.Error:
            pass

    def lie(self):
        shutil.copy(self.base, self.store)
        for end in ("-wal", "-shm", "-journal"):
            if os.path.exists(self.store + end):
                os.unlink(self.store + end)
        self.said = []
        db = sqlite3.connect(self.store)
        for _ in range(self.chance.choice([1, 1, 2, 3, 8])):
            self.change(db)
        db.commit()
        db.close()

    def heapx(self, *args, raw=False):
        self.calls += 1
        columns = str(self.chance.choice([20, 40, 80, 100, 300]))
        env = dict(os.environ, COLUMNS=columns, LC_ALL=self.chance.choice(["C", "C.UTF-8"]))
        env["ASAN_OPTIONS"] = "hard_rss_limit_mb=2000:allocator_may_return_null=0"
        # what it prints may be much, and is read once
        with open(os.path.join(self.folder, "out"), "w+b") as out:
            run = subprocess.Popen([live.HEAPX, *args], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.PIPE, env=env, preexec_fn=prepare)
            try:
                err = run.communicate(timeout=PATIENCE)[1]
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
                self.fail(args, f"does not end within {PATIENCE} s")
            out.seek(0)
            shown = out.read(4 << 20)
        if run.returncode not in (0, 1, 2, 3, 4) or b"Sanitizer" in err or b"runtime error" in err:
            self.fail(args, f"exit {run.returncode}: {err[-6000:].decode(errors='replace')}")
        if run.returncode == 1 and not 1 <= err.count(b"\n") <= 3: # notes may come first
            self.fail(args, f"says no line: {err}")
        for text in (err, b"" if raw else shown):
            bad = unescaped(text)
            if bad:
                self.fail(args, f"prints {bad!r}")

    def fail(self, args, text):
        kept = f"/tmp/lies-{SEED}-{self.rounds}.db"
        shutil.copy(self.store, kept)
        lines = "\n".join(self.said)
        raise live.Failure(f"HX_SEED={SEED}, round {self.rounds}, {kept}: heapx {args}: {text}\n{lines}")

    def report(self):
        view = self.chance.choice(VIEWS)
        form = self.chance.choice(["text", "text", "json", "csv"])
        more = ["--snapshot", self.chance.choice(["all", "last", "first"])]
        if self.chance.random() < 0.3:
            more += ["--centre", self.chance.choice(CENTRES)]
        if self.chance.random() < 0.2:
            more += ["--recursion", self.chance.choice(["whole", "truncate"])]
        if view.startswith("mprof") and self.chance.random() < 0.5:
            more.append(self.chance.choice(["--terse", "--normal", "--verbose", "--depth=0", "--depth=1",
                                            "--offsets"]))
        if view == "objects":
            self.heapx("sql", self.store, "SELECT snapshot, ccs_id, stack_id, count(*) FROM objects "
                       "GROUP BY 1, 2, 3", "--format", form)
        else:
            self.heapx("report", self.store, view, "--format", form, *more, raw=form == "csv")

    def explore(self):
        script = os.path.join(self.folder, "keys")
        with open(script, "w") as file:
            print(f":resize {self.chance.choice([24, 12, 50])} {self.chance.choice([80, 40, 200])}", file=file)
            for i in range(60):
                key = self.chance.choice(KEYS).replace("_", " ")
                print(key, file=file)
                if i % 20 == 19:
                    print(f":save-display {self.folder}/display", file=file)
        self.heapx("open", self.store, "--script", script)
        shown = os.path.join(self.folder, "display")
        if os.path.exists(shown):
            with open(shown, "rb") as file:
                check(not unescaped(file.read()), "a display has raw bytes in it")

    def differ(self):
        self.heapx("diff", self.store, self.store, self.chance.choice(["sites", "leaks", "costs", "types"]))

    def again(self):
        """What else goes through the recording: another scheme, a condition."""
        way = self.chance.randrange(3)
        if way == 0:
            self.heapx("report", self.store, "retainers", "--scheme", "site")
        elif way == 1:
            self.heapx("check", self.store, "costs.live_bytes > 0", "mprof_direct.percent > 200")
        else:
            self.heapx("report", self.store, "stacks", "--sort", "live_bytes", "--limit", "3")

    def round(self):
        self.rounds += 1
        self.lie()
        for _ in range(4):
            self.report()
        self.chance.choice([self.explore, self.explore, self.differ, self.again])()


def prepare():
    live.end_with_parent()
    if not sanitized():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def sanitized():
    with open(live.HEAPX, "rb") as file:
        return b"__asan_init" in file.read()


def unescaped(text):
    """Bytes that a terminal would obey, or that are no characters."""
    try:
        shown = text.decode()
    except UnicodeDecodeError as error:
        cut = error.end >= len(text) - 4  # read to there
        return None if cut else text[max(0, error.start - 20):error.end + 20]
    for at, letter in enumerate(shown):
        if (letter < " " and letter != "\n") or "\x7f" <= letter <= "\x9f" or letter in "\u202a\u202b\u202c" \
                "\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f":
            return shown[max(0, at - 20):at + 20]
    return None


def recording(folder):
    """Two snapshots of a program that marks regions."""
    base = os.path.join(folder, "base.db")
    plugin = os.path.join(live.BUILD, "test/live/scc_plugin.so")
    small = os.path.exists(os.path.join(live.BUILD, "test/live/scc_pool"))
    for name in ["scc_pool"] * 2 if small else ["scc_victim"] * 2:
        command = [live.victim(name)] + ([plugin] if os.path.exists(plugin) else [])
        with recorded.Run(base, command, "--at-exit") as process:
            check(process.wait(120) == 0, f"{name}: {process.err}")
    return base


def lies(folder):
    print(f"  HX_SEED={SEED} HX_SECONDS={SECONDS:g}")
    lying = Lies(folder, os.environ.get("HX_STORE") or recording(folder), random.Random(SEED))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        lying.round()
    print(f"  {lying.rounds} stores, {lying.calls} looks at them")


if __name__ == "__main__":
    live.main(lies, traces=False)
