"""ghc_check.py - what heapx writes for GHC's tools, against the views of the store that it is of.

Stores to export: of real programs, drawn ones, hostile and deep ones. Each figure of a file has to
be that of a view, each name what the view calls it, and all that a view has has to be there.
"""
import collections
import os
import re
import sqlite3
import subprocess
import sys

import eventlog

BUILD = os.environ["HX_BUILDDIR"]
SRC = os.environ["HX_SRCDIR"]
HEAPX = os.environ.get("HEAPX", os.path.join(BUILD, "heapx"))
WORDS = ("retainer", "bin", "ccs", "type", "module", "site", "leak", "biography", "kind")
NUMBERS = {"ccs": 1, "site": 1, "module": 2, "kind": 3, "type": 4, "retainer": 5, "bin": 5,
           "biography": 6, "leak": 7}
PHASES = {"lag": "LAG", "use": "USE", "drag": "DRAG", "void": "VOID", "inherent": "INHERENT_USE"}
PLAIN = re.compile(r"(?!_Z|.* _Z)[!-~]([ -~]*[!-~])?")  # a name that stays as it is


class Failure(Exception):
    """heapx is wrong."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def heapx(*words, status=0):
    run = subprocess.run([HEAPX, *map(str, words)], capture_output=True, timeout=120,
                         stdin=subprocess.DEVNULL)
    check(run.returncode == status,
          f"heapx {' '.join(map(str, words))}: exit {run.returncode}: {run.stderr[:500]}")
    return run


# --- stores -----------------------------------------------------------------------------------
def drawn(path, *words):
    subprocess.run([os.path.join(BUILD, "test/ui/make_store"), path, *map(str, words)],
                   check=True, timeout=60)


def write(path, *statements):
    base = sqlite3.connect(path, isolation_level=None)
    for sql, *values in statements:
        base.execute(sql, *values)
    base.close()


def hostile(path):
    subprocess.run([sys.executable, "-B", os.path.join(SRC, "test/ui/hostile.py"), path],
                   check=True, timeout=60)


def with_biography(path):
    """Phases of life, one of which nothing is in, and in one snapshot none at all."""
    write(path,
          ("INSERT INTO hx_biography SELECT snapshot, 'drag', heap_bytes / 3, 5 FROM hx_snapshot"
           " WHERE snapshot > 1",),
          ("INSERT INTO hx_biography SELECT snapshot, 'inherent', heap_bytes / 4, 5"
           " FROM hx_snapshot WHERE snapshot > 1",),
          ("INSERT INTO hx_biography SELECT s.snapshot, 'lag', s.heap_bytes - sum(b.bytes), 9"
           " FROM hx_snapshot AS s JOIN hx_biography AS b USING(snapshot) GROUP BY 1",))


def with_deep_stacks(path):
    """Stacks deeper than an event can say: two that differ at their far end only, and a third."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("BEGIN")
    number = base.execute("SELECT max(ccs_id) FROM hx_ccs").fetchone()[0]
    centres = [c for c, in base.execute("SELECT centre FROM hx_centre WHERE centre > 5")][:6]
    leaves = []
    for branch in range(3):
        at, parent = 0, 1
        for depth in range(1, 301):
            number += 1
            at = 7000 + branch if depth == 1 else centres[depth % 3 + (3 if branch == 2 else 0)]
            if depth == 1:
                base.execute("INSERT INTO hx_centre(centre, kind, label, module, is_caf)"
                             " VALUES(?, 'function', ?, 'deep', 0)", (at, f"far{branch}"))
            base.execute("INSERT INTO hx_ccs(ccs_id, parent_id, depth, centre) VALUES(?, ?, ?, ?)",
                         (number, parent, depth, at))
            parent = number
        leaves.append(number)
    for leaf in leaves:
        base.execute("INSERT INTO hx_site(snapshot, ccs_id, bytes, objects) SELECT snapshot, ?, 8,"
                     " 1 FROM hx_site GROUP BY 1", (leaf,))
    base.execute("UPDATE hx_site SET bytes = bytes - 24 WHERE (snapshot, ccs_id) IN (SELECT"
                 " snapshot, ccs_id FROM (SELECT snapshot, ccs_id, max(bytes) FROM hx_site GROUP BY"
                 " 1))")
    base.execute("COMMIT")
    base.close()


def make(folder):
    """{name: path} of stores that are made here."""
    paths = {}

    def new(name, *words):
        paths[name] = os.path.join(folder, name + ".db")
        drawn(paths[name], *words)
        return paths[name]

    new("drawn", 4, 60, "recorded")
    new("plain", 3, 20)
    with_biography(new("life", 4, 30, "recorded"))
    with_deep_stacks(new("deep", 3, 20, "recorded"))
    hostile(new("hostile", 3, 30, "recorded"))
    return paths


# --- what has to be in a file ----------------------------------------------------------------
class Store:
    def __init__(self, path):
        self.path = path
        self.base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.base.text_factory = lambda b: b.decode("utf-8", "surrogateescape")
        self.heap = dict(self.rows("SELECT snapshot, heap_bytes FROM snapshots"))
        self.trees = {
            "ccs": self.tree("SELECT ccs_id, parent_id, label, module, source, is_caf FROM ccs"),
            "site": self.tree("SELECT frame_id, parent_id, p.label, p.module, p.source, p.is_caf"
                              " FROM hx_frame AS f JOIN hx_place AS p USING(place)")}

    def rows(self, sql, *values):
        return self.base.execute(sql, values).fetchall()

    def tree(self, sql):
        return {row[0]: row[1:] for row in self.rows(sql + " ORDER BY 1")}

    def stack(self, by, number):
        """[(label, module, source)], the innermost first, with MAIN at the end"""
        found = []
        while number is not None:
            parent, *centre, _ = self.trees[by][number]
            found.append(tuple(c or "" for c in centre))
            number = parent
        return found

    def census(self, by):
        """{snapshot: {key: bytes}}"""
        sql = {
            "retainer": "SELECT snapshot, set_id, bytes FROM retainers",
            "bin": "SELECT snapshot, roots, bytes FROM bins",
            "ccs": "SELECT snapshot, ccs_id, bytes FROM sites",
            "type": "SELECT snapshot, type, bytes FROM types",
            "module": "SELECT snapshot, module, bytes FROM modules",
            "site": "SELECT snapshot, stack_id, bytes FROM hx_stack_site",
            "leak": "SELECT snapshot, kind, bytes FROM leaks UNION ALL SELECT snapshot,"
                    " 'reachable', heap_bytes - (SELECT total(bytes) FROM leaks AS l WHERE"
                    " l.snapshot = s.snapshot) FROM snapshots AS s",
            "biography": "SELECT snapshot, phase, bytes FROM biography",
            "kind": "SELECT snapshot, CASE confidence WHEN 'likely' THEN 'object of likely type'"
                    " WHEN 'certain' THEN 'object of known type' ELSE 'block of unknown type' END,"
                    " bytes FROM types",
        }[by]
        found = collections.defaultdict(collections.Counter)
        for snapshot, key, count in self.rows(sql):
            found[snapshot][key] += int(count)
        return {s: +keys for s, keys in sorted(found.items())}

    def label(self, number):
        return ",".join(label for label, in self.rows(
            "SELECT label FROM retainer_members WHERE set_id = ? ORDER BY position", number))


def clean_word(name):
    return name.replace(" ", "_")


def check_name(by, key, name, store, word):
    """Is it what the view calls this key? word: without blanks."""
    change = clean_word if word else str
    want = None
    if by == "retainer":
        want = {0: "(unreachable)", 1: "MANY"}.get(key)
        if want is None:
            check(name.startswith(f"({key})"), f"set {key} is {name!r}")
            label = store.label(key)
            want = f"({key}){label}" if PLAIN.fullmatch(label) and "#" not in label else None
    elif by in ("ccs", "site"):
        stack = [label for label, _, _ in store.stack(by, key)]
        check(len(stack) == 1 or name.startswith(f"({key})"), f"stack {key} is {name!r}")
        short = all(re.fullmatch(r"[A-Za-z]\w*", label) and label != "CAF" for label in stack)
        want = "MAIN" if len(stack) == 1 else f"({key})" + "/".join(stack[:-1]) if short else None
    elif by == "biography":
        want = PHASES.get(key)
    elif PLAIN.fullmatch(key) and key[0] != '"' and key not in eventlog.KEYWORDS:
        want = key
    if want is not None and len(want) < 4000:
        check(change(want) == name, f"{by} {key!r} is {name!r}, not {change(want)!r}")


def number_of(name):
    match = re.match(r"\((\d+)\)", name)
    return int(match[1]) if match else {"(unreachable)": 0, "MANY": 1, "MAIN": 1}.get(name)


def check_rows(by, want, rows, store, word):
    """rows: [(name, bytes)] of one sample"""
    if by in ("retainer", "ccs", "site"):
        found = {number_of(name): (name, count) for name, count in rows}
        check({k: count for k, (_, count) in found.items()} == dict(want), f"{by}: {found}, {want}")
        for key, (name, _) in found.items():
            check_name(by, key, name, store, word)
        return
    if by == "biography" and not word:  # all phases are there
        rows = [(name, count) for name, count in rows if count]
    check(sorted(c for _, c in rows) == sorted(want.values()), f"{by}: {rows}, not {want}")
    names = dict(rows)
    for key, count in want.items():
        name = PHASES.get(key, key) if by == "biography" else key
        name = clean_word(name) if word else name
        if PLAIN.fullmatch(key) and key[0] != '"' and key not in eventlog.KEYWORDS:
            check(names.get(name) == count or f"{name}#2" in names, f"{by}: no {name!r}: {names}")


def check_hp(store, by, data):
    head, samples = eventlog.hp(data)
    check(head["SAMPLE_UNIT"] == "seconds" and head["VALUE_UNIT"] == "bytes", f"{head}")
    census = store.census(by)
    check(len(samples) == len(census), f"{by}: {len(samples)} samples, not {len(census)}")
    for (snapshot, want), (_, rows) in zip(census.items(), samples):
        check(sum(count for _, count in rows) == store.heap[snapshot], f"{by}: the sum")
        check_rows(by, want, rows, store, word=True)


def inner(stack):
    return tuple(stack[:-1][:255])


def check_stacks(store, by, log, want, sample):
    found, merged = collections.Counter(), collections.Counter()
    for stack, count in sample.rows:  # two cost centres may have the same names
        found[tuple(log.centres[c][:3] for c in stack)] += count
    plain = True
    for key, count in want.items():
        stack = inner(store.stack(by, key))
        plain = plain and all(not s or PLAIN.fullmatch(s) for centre in stack for s in centre)
        merged[stack] += count
    if plain:
        check(found == merged, f"{by}: {found}, not {merged}")
    check(sum(found.values()) == sum(merged.values()), f"{by}: figures")
    check(sorted(set(map(len, found))) == sorted(set(map(len, merged))), f"{by}: depths")


def check_log(store, by, data):
    log = eventlog.Log(data)
    check(log.begin[2] == NUMBERS[by], f"{by}: break-down {log.begin[2]}")
    census = store.census(by)
    check(len(log.samples) == len(census), f"{by}: {len(log.samples)} samples, not {len(census)}")
    for (snapshot, want), sample in zip(census.items(), log.samples):
        check(sample.total() == store.heap[snapshot], f"{by}: the sum")
        check(sample.heap.get(51) == store.heap[snapshot], f"{by}: live")
        if by == "biography":
            check([name for name, _ in sample.rows] == ["VOID", "LAG", "USE", "INHERENT_USE", "DRAG"],
                  "phases")
        check_log_rows(store, by, log, want, sample)
        if by == "ccs":
            check_ticks(store, log, snapshot, sample)
    check(by == "ccs" or log.tick_interval is None, f"{by}: ticks")
    return log


def check_log_rows(store, by, log, want, sample):
    if NUMBERS[by] == 1:
        check_stacks(store, by, log, want, sample)
    else:
        check_rows(by, want, sample.rows, store, word=False)


def check_ticks(store, log, snapshot, sample):
    rows = store.rows("SELECT tid, ccs_id FROM threads WHERE snapshot = ? AND ccs_id IS NOT NULL AND"
                      " snapshot IN (SELECT snapshot FROM hx_recording) ORDER BY tid", snapshot)
    check(len(rows) == len(sample.ticks), f"ticks of {snapshot}: {sample.ticks}, not {rows}")
    for (_, ccs), capability in zip(rows, sorted(sample.ticks)):
        check(len(sample.ticks[capability]) == len(inner(store.stack("ccs", ccs))), "depth of a tick")


# --- reports ----------------------------------------------------------------------------------
BLOCK = re.compile(r"Retainer Profiling: (\d+), at (\d+\.\d{6}) seconds\n"
                   r"  Average number of visits per object = (\d+\.\d{6}|-)\n"
                   r"  Current total costs = (\d+)\n"
                   r"  Number of retainer sets = (\d+)\n")


def check_retainers(store, text):
    blocks, sets = text.split("\nRetainer sets created during profiling:\n")
    found = BLOCK.findall(blocks)
    check("".join(m[0] for m in re.finditer(BLOCK, blocks)) == blocks, "what is between blocks")
    census = store.rows("SELECT snapshot, visits_per_object, total_bytes FROM censuses ORDER BY 1")
    check(len(found) == len(census), f"{len(found)} blocks, not {len(census)}")
    seen = set()
    for number, ((snapshot, visits, total), block) in enumerate(zip(census, found)):
        seen |= {s for s in store.census("retainer")[snapshot] if s > 1}
        check(int(block[0]) == number and int(block[3]) == total and int(block[4]) == len(seen),
              f"block {block}: {number}, {total}, {len(seen)}")
        expected = "-" if visits is None else f"{visits:f}"
        check(block[2] == expected, f"visits {block[2]}, not {expected}")
        check(number == 0 or float(found[number - 1][1]) <= float(block[1]), "time falls")
    check_sets(store, sets)


def member_text(store, label, module, space):
    site = re.match(r"#(\d+) ", label) if space == "site" else None
    if site:
        return ",".join(f"{la}[{mo or '-'}]" for la, mo, _ in store.stack("ccs", int(site[1])))
    return f"{label}[{module or '-'}]"


def check_sets(store, text):
    found = {}
    before = -1
    for line in text.splitlines():
        match = re.fullmatch(r"SET (\d+) = \{(.*)\}", line)
        check(match and int(match[1]) > before, f"{line!r}")
        before = int(match[1])
        found[before] = match[2]
    want = {s for rows in store.census("retainer").values() for s in rows}
    check(set(found) == want, f"sets {set(found) ^ want}")
    for number, members in found.items():
        rows = store.rows("SELECT label, module, kind FROM retainer_members WHERE set_id = ?"
                          " ORDER BY position", number)
        texts = [member_text(store, *row) for row in rows]
        if all(PLAIN.fullmatch(t) for t in texts):
            text = "MANY" if number == 1 else ", ".join(f"<{t}>" for t in texts)
            check(members == text, f"set {number}: {members}, not {text}")


def check_costs(store, text):
    parts = re.split(r"^COST CENTRE .*\n\n", text, flags=re.M)
    check(len(parts) == 3, "two tables")
    head, flat, tree = parts
    flat = flat.split("\n\n")[0]
    snapshot = store.rows("SELECT max(snapshot) FROM costs WHERE alloc_bytes IS NOT NULL")[0][0]
    costs = {r[0]: r[1:] for r in store.rows(
        "SELECT ccs_id, entries, alloc_bytes, inherited_alloc_bytes FROM costs WHERE snapshot = ?",
        snapshot)}
    total = sum(c[1] or 0 for c in costs.values())
    said = re.search(r"\ttotal alloc = +([\d,]+) bytes", head)[1]
    check(int(said.replace(",", "")) == total, f"total {said}, not {total}")
    above, seen = [], set()
    for line in tree.splitlines():
        depth = len(line) - len(line.lstrip(" "))
        words = line.split()
        check(len(words) == 11, f"{len(words)} words: {line!r}")
        label, module, _, number, entries, _, alloc, _, inherited, _, count = words
        number = int(number)
        parent = store.trees["ccs"][number][0]
        check(depth <= len(above) and (above[depth - 1] if depth else None) == parent,
              f"{number} is below {above[:depth]}")
        above[depth:] = [number]
        seen.add(number)
        want = costs.get(number, (None, None, None))
        check(entries == ("-" if want[0] is None else str(want[0])), f"entries of {number}")
        check(count == ("-" if want[1] is None else str(want[1])), f"bytes of {number}")
        for text_of, value in ((alloc, want[1]), (inherited, want[2])):
            check(text_of == "-" if value is None else
                  abs(float(text_of) - 100 * value / max(total, 1)) < 0.051, f"percent of {number}")
        name = store.trees["ccs"][number][1] or ""
        if PLAIN.fullmatch(name) and len(name) < 400:
            check(label == clean_word(name), f"{label} is not {name}")
    check(seen >= {n for n, c in costs.items() if c[0] or c[1]}, "stacks are missing")
    by_centre = collections.Counter()
    for number, (_, alloc, _) in costs.items():
        centre = store.rows("SELECT centre FROM hx_ccs WHERE ccs_id = ?", number)[0][0]
        by_centre[centre] += alloc or 0
    figures = [int(line.split()[-1]) for line in flat.splitlines()]
    check(figures == sorted((a for a in by_centre.values() if a > total // 100), reverse=True),
          f"flat: {figures}")


def check_store(path, folder, keep=None):
    """All formats of a store; keep(name, bytes) gets each file. Returns how many there were."""
    store = Store(path)
    files = 0
    for by in WORDS:
        has = bool(store.census(by))
        for form, checker in (("hp", check_hp), ("eventlog", check_log)):
            out = os.path.join(folder, f"out.{form}")
            heapx("export", path, form, "--by", by, "-o", out, status=0 if has else 1)
            if not has:
                check(not os.path.exists(out), f"{out} is there without data")
                continue
            with open(out, "rb") as file:
                data = file.read()
            try:
                checker(store, by, data)
            except eventlog.Bad as why:
                raise Failure(f"{path} {form} by {by}: {why}") from why
            files += 1
            if keep:
                keep(f"{os.path.basename(path)}.{by}.{form}", data)
            os.unlink(out)
    if store.census("retainer"):
        check_retainers(store, heapx("export", path, "prof").stdout.decode("utf-8"))
    if store.rows("SELECT 1 FROM costs LIMIT 1"):
        check_costs(store, heapx("export", path, "prof", "--by", "ccs").stdout.decode("utf-8"))
    return files
