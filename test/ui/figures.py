#!/usr/bin/env python3
"""figures.py - what the explorer's screens hold against what `report` prints and `sql` answers.

    figures.py [STORE]      without one: stores that are made here

Each screen over a view, written to a file, has every row and every column of that view with the same
values. That holds for each snapshot, in the order of the first look, in csv, json and text, with a filter by
each column of the view, and in each order that the screen offers.
"""
import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ.get("HX_BUILDDIR", os.getcwd())
SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in emulator.py
HEAPX = f"{BUILD}/heapx"
OBJECTS = ("SELECT * FROM objects WHERE snapshot = {} ORDER BY bytes DESC, address")
# screen: its view, or what answers the same
SCREENS = {
    "account": "account", "snapshots": "snapshots", "retainers": "retainers", "bins": "bins",
    "holders": "holders",
    "types": "types", "leaks": "leaks", "largest": "dominators", "objects": OBJECTS,
    "roots": "roots", "losses": "losses", "pages": "pages", "modules": "modules",
}
# in the order of the time, of the words; unlike `report`, which begins with the largest
OTHER_ORDER = {"snapshots", "losses", "pages"}

# for which `report` and `sql` work nothing out that the store does not have
AS_STORED = {"snapshots", "objects"}


def run(*command, folder, status=(0,), **more):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=200 * SLOW, text=True, errors="surrogateescape", **more)
    if done.returncode not in status:
        sys.exit(f"FAIL: {command}: exit {done.returncode}: {(done.stdout + done.stderr)[:2000]}")
    return done.stdout


def explore(folder, keys, *options):
    script = os.path.join(folder, "script.keys")
    with open(script, "w", errors="surrogateescape") as file:
        file.write("\n".join(keys) + "\n")
    env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="24", COLUMNS="80")
    env.pop("HEAPX_SCRIPT", None)
    out = run(HEAPX, "open", "test.db", "--script", script, *options, folder=folder, env=env)
    if out:
        sys.exit(f"FAIL: it said {out[:2000]}")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def shown(folder, name):
    path = os.path.join(folder, name)
    with open(path, newline="", errors="surrogateescape") as file:
        text = file.read()
    os.unlink(path)
    return text


def printed(folder, view, snapshot, *options):
    if view.startswith("SELECT"):
        return rows_of(run(HEAPX, "sql", "test.db", view.format(snapshot), "--format", "csv",
                           "--analyse", "later", folder=folder))
    number = "all" if view == "snapshots" else str(snapshot)
    return rows_of(run(HEAPX, "report", "test.db", view, "--snapshot", number, "--format", "csv",
                       *options, folder=folder, status=(0, 1, 3)))


def compare(what, ours, theirs, ordered):
    """Rows of a view, and the same rows with more columns behind."""
    if not theirs:
        if ours:
            sys.exit(f"FAIL: {what}: {len(ours)} rows that report does not have: {ours[0]}")
        return 0
    columns = list(theirs[0])
    if ours and [name for name in columns if name not in ours[0]]:
        sys.exit(f"FAIL: {what}: no column {[n for n in columns if n not in ours[0]]}")
    a = [tuple(row[name] for name in columns) for row in ours]
    b = [tuple(row[name] for name in columns) for row in theirs]
    if sorted(a) != sorted(b):
        many = [row for row in a if row not in b] or ["none"]
        few = [row for row in b if row not in a] or ["none"]
        sys.exit(f"FAIL: {what}: {len(a)} rows, not {len(b)}; too many {many[0]}, missing {few[0]}")
    by = "retained_bytes" if "parent" in columns else "bytes"
    if ordered and by in columns:
        n = columns.index(by)
        if [row[n] for row in a] != [row[n] for row in b]:
            sys.exit(f"FAIL: {what}: not in the order of {by}")
    return len(b)


def check_snapshot(folder, snapshot):
    keys = [f":snapshot {snapshot}"]
    screens = dict(SCREENS)
    if not printed(folder, "holders", snapshot):
        del screens["holders"]  # retainer sets stand for it
    for screen in sorted(screens, key=lambda name: name not in AS_STORED):
        keys += [":analyse"] * (screen not in AS_STORED)
        keys += [f":screen {screen}", f":write {screen}.csv"]
    explore(folder, keys)
    seen = 0
    for screen, view in screens.items():
        seen += compare(f"{screen} of snapshot {snapshot}", rows_of(shown(folder, screen + ".csv")),
                        printed(folder, view, snapshot), screen not in OTHER_ORDER)
    return seen


def check_choices(folder):
    """A choice of the command line gives what `report` gives with it, and so does its command."""
    for choice in (["--scheme", "module"], ["--scheme", "thread"], ["--scheme", "site"],
                   ["--scheme", "type"], ["--scheme", "type", "--retainer", "*block*"],
                   ["--max-set", "1"], ["--max-set", "0"], ["--max-set", "auto"],
                   ["--threads-as", "one"], ["--threads-as", "parts"],
                   ["--root", "new=cache_head"]):
        view = "bins" if choice[0] == "--root" else "retainers"
        theirs = rows_of(run(HEAPX, "report", "test.db", view, "--format", "csv", *choice,
                             folder=folder, status=(0, 3)))
        explore(folder, [f":screen {view}", ":write chosen.csv"], *choice)
        ways = {"options": "chosen"}
        if view == "retainers":  # sets are numbered as they come
            words = [f":{name[2:]} {value}" for name, value in zip(choice[::2], choice[1::2])]
            explore(folder, [*words, f":screen {view}", ":write typed.csv"])
            ways["commands"] = "typed"
            theirs = [{name: row[name] for name in row if name != "set_id"} for row in theirs]
        for way, name in ways.items():
            compare(f"{view} by {way} {choice}", rows_of(shown(folder, name + ".csv")), theirs, False)


def total(rows, name):
    return sum(int(row[name] or 0) for row in rows)


def check_costs(folder, snapshot):
    """The whole tree has each cost-centre stack with its costs, and sites add up by these."""
    explore(folder, [f":snapshot {snapshot}", ":screen centres", "g", "*", ":write tree.csv",
                     ":screen sites", ":write sites.csv", ":screen timeline", ":by site",
                     ":write bands.csv"])
    names = {row["ccs_id"]: row for row in rows_of(
        run(HEAPX, "report", "test.db", "ccs", "--format", "csv", folder=folder, status=(0, 1)))}
    costs = {row["ccs_id"]: row for row in printed(folder, "costs", snapshot)}
    tree = rows_of(shown(folder, "tree.csv"))
    for row in tree:
        cost, name = costs.get(row["ccs_id"]), names[row["ccs_id"]]
        for column in ("parent_id", "depth", "label", "module", "source", "is_caf"):
            if row[column] != name[column]:
                sys.exit(f"FAIL: {column} of {row} is not that of {name}")
        for column in cost or ():
            if column != "snapshot" and row[column] != cost[column]:
                sys.exit(f"FAIL: {column} of {row} is not that of {cost}")
    if missing := set(costs) - {row["ccs_id"] for row in tree}:
        sys.exit(f"FAIL: the tree of {snapshot} does not have {missing}")
    sites, stacks = printed(folder, "sites", snapshot), rows_of(shown(folder, "sites.csv"))
    bands = rows_of(shown(folder, "bands.csv"))
    for name in ("bytes", "objects"):
        for row in sites:
            of = [stack for stack in stacks if stack["ccs_id"] == row["ccs_id"]]
            if total(of, name) != int(row[name]):
                sys.exit(f"FAIL: {name} of {of} are not those of {row}")
        if not total(sites, name) == total(stacks, name) == total(bands, name):
            sys.exit(f"FAIL: {name} by site, stack and band of {snapshot} differ")


def check_bands(folder, snapshot):
    """Each break-down of the chart adds up to the heap, or to what is resident."""
    facts, = [row for row in printed(folder, "snapshots", 0) if row["snapshot"] == str(snapshot)]
    unseen = () if printed(folder, "sites", snapshot) else ("ccs", "module", "site")
    for name in ("retainer", "bin", "ccs", "type", "module", "site", "leak", "account"):
        explore(folder, [f":snapshot {snapshot}", ":screen timeline", f":by {name}",
                         ":write bands.csv"])
        bands = rows_of(shown(folder, "bands.csv"))
        whole = int(facts["rss_bytes" if name == "account" else "heap_bytes"])
        if name in unseen and not bands:  # nobody recorded who allocated
            continue
        if total(bands, "bytes") != whole:
            sys.exit(f"FAIL: bands by {name} add up to {total(bands, 'bytes')}, not {whole}")


def check_formats(folder, snapshot):
    """csv and json hold the same; text has a line for each row."""
    keys = [f":snapshot {snapshot}"]
    for screen in SCREENS:
        keys += [f":screen {screen}"] + [f":write {screen}.{end}" for end in ("csv", "json", "txt")]
    explore(folder, keys)
    for screen in SCREENS:
        table = rows_of(shown(folder, screen + ".csv"))
        objects = json.loads(shown(folder, screen + ".json"))
        words = [{name: "" if value is None else str(value) for name, value in row.items()}
                 for row in objects]
        # control characters of the target are escaped in csv, and JSON's own way in json
        plain = [[{name: value for name, value in row.items() if "\\" not in escaped[name]}
                  for row, escaped in zip(rows, table)] for rows in (words, table)]
        if len(words) != len(table) or plain[0] != plain[1]:
            sys.exit(f"FAIL: {screen}: csv and json differ")
        text = shown(folder, screen + ".txt")
        if table and len(text.splitlines()) < len(table):
            sys.exit(f"FAIL: {screen}: {len(text.splitlines())} lines of text")


def literal(value):
    try:
        int(value)
        return value
    except ValueError:
        return "'" + value.replace("'", "''") + "'"


def check_filters(folder, snapshot, rng):
    """The same condition leaves the same rows, for each column of each view."""
    for screen, view in SCREENS.items():
        rows = printed(folder, view, snapshot)
        if view.startswith("SELECT") or not rows:
            continue
        keys, conditions = [f":snapshot {snapshot}", f":screen {screen}"], []
        for i, name in enumerate(rows[0]):
            value = rng.choice(rows)[name]
            if any(c in value for c in "'\n\\") or len(value) > 200:
                continue
            words = [f"{name} is null"]
            if value:
                words.append(f"{name} = {literal(value)}")
                words.append(f"not {name} >= {literal(value)}")
            for condition in words:
                keys += [f":filter {condition}", f":write {len(conditions)}.csv"]
                conditions.append(condition)
        explore(folder, keys)
        for n, condition in enumerate(conditions):
            compare(f"{screen} where {condition}", rows_of(shown(folder, f"{n}.csv")),
                    printed(folder, view, snapshot, "--where", condition), False)


def in_order(rows, name):
    values = [row[name] for row in rows if row[name]]
    if all(value.lstrip("-").isdigit() for value in values):
        values = [int(value) for value in values]
    return values in (sorted(values), sorted(values, reverse=True))


def check_orders(folder, snapshot):
    """Each column that a screen shows is one to sort by, in both directions, and loses no row."""
    for screen, view in SCREENS.items():
        if not printed(folder, view, snapshot):
            continue
        keys = [f":snapshot {snapshot}", f":screen {screen}"] + ["<"] * 12
        for n in range(10):
            keys += [f":write {n}-1.csv", "I", f":write {n}-2.csv", "I", ">"]
        explore(folder, keys)
        all_rows = None
        for n in range(10):
            for direction in (1, 2):
                rows = rows_of(shown(folder, f"{n}-{direction}.csv"))
                sorted_by = [name for name in rows[0] if in_order(rows, name) and
                             len({row[name] for row in rows}) > 1]
                if len(rows) > 1 and not sorted_by:
                    sys.exit(f"FAIL: {screen}, order {n}: by no column")
                words = sorted(tuple(row.values()) for row in rows)
                if words != (all_rows or words):
                    sys.exit(f"FAIL: {screen}, order {n}: other rows")
                all_rows = words


def check_store(path, rng, whole):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(path), os.path.join(folder, "test.db"))
        numbers = [int(row["snapshot"]) for row in printed(folder, "snapshots", 0)]
        seen = 0
        for snapshot in numbers if len(numbers) < 5 else rng.sample(numbers, 3):
            seen += check_snapshot(folder, snapshot)
        if whole:
            check_costs(folder, numbers[-1])
            check_bands(folder, numbers[-1])
            if len(sys.argv) == 1:  # whose globals are known
                check_choices(folder)
            check_formats(folder, numbers[-1])
            check_filters(folder, numbers[-1], rng)
            check_orders(folder, numbers[-1])
        print(f"{os.path.basename(path)}: {seen} rows alike")


def main():
    seed = int(os.environ.get("HX_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"HX_SEED={seed}")
    rng = random.Random(seed)
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            check_store(path, rng, True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, *more in (("full", "4", "60"), ("recorded", "3", "60", "recorded"),
                            ("bare", "2", "30", "bare"), ("crowd", "12", "8", "crowd"),
                            ("held", "2", "60", "held")):
            path = os.path.join(folder, name)
            run(f"{BUILD}/test/ui/make_store", path, *more, folder=folder)
            if name != "bare":
                run(f"{BUILD}/heapx", "analyse", path, "--analyse", "sure", folder=folder)
            check_store(path, rng, name == "recorded" and not os.environ.get("HX_QUICK"))


main()
