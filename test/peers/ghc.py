#!/usr/bin/env -S python3 -B
"""ghc.py - what heapx writes for GHC's tools, as these read it.

Every event log by a strict reader on the library ghc-events, every heap profile by hp2ps: of
recorded programs and of stores with hostile names, deep stacks and phases of life. Each event of a
log has to be what the bytes say. Then a Haskell program is profiled, and its own log, heap profile
and report are held beside ours: the same events have the same layout, the same tables the same
columns.
"""
# needs: ghc ghc-prof libghc-ghc-events-dev
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRCDIR = os.environ["HX_SRCDIR"]
sys.path.insert(0, os.path.join(SRCDIR, "test/export"))
import eventlog  # noqa: E402
import ghc as ours  # noqa: E402
import ghc_check  # noqa: E402
from ghc_check import Failure, check, heapx  # noqa: E402

MODES = {"hc": 1, "hm": 2, "hd": 3, "hy": 4, "hr": 5, "hb": 6, "hT": 7}
PROGRAM = """
module Main (main) where
import qualified Data.Map as M
import Control.Concurrent (threadDelay)
build :: Int -> M.Map Int [Int]
build n = M.fromList [(i, [i .. i + 20]) | i <- [1 .. n]]
main :: IO ()
main = do
    let m = build 20000
    print (sum (map sum (M.elems m)))
    threadDelay 100000
    print (M.size m, sum (map length (M.elems m)))
"""


def run(*words, cwd=None, timeout=300):
    done = subprocess.run(list(map(str, words)), capture_output=True, timeout=timeout, cwd=cwd,
                          stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{words[0]}: exit {done.returncode}: {done.stderr[:800]}")
    return done.stdout


def compile_reader(folder):
    shutil.copy(os.path.join(SRCDIR, "test/peers/Strict.hs"), folder)
    packages = [word for name in ("ghc-events", "text", "vector") for word in ("-package", name)]
    run("ghc", "-v0", "-O0", *packages, "Strict.hs", "-o", "strict", cwd=folder)
    return os.path.join(folder, "strict")


# --- our logs -----------------------------------------------------------------------------------
def words_of(event):
    """What the strict reader has to print of an event."""
    f, n = event.fields, event.id
    joined = ",".join(map(str, f[-1])) if n in (163, 167) else ""
    kinds = {2: "CapsetOsProcess", 3: "CapsetClockDomain"}
    words = {
        16: lambda: ["message", f[0]],
        25: lambda: ["set", f[0], kinds[f[1]]],
        29: lambda: ["writer", *f],
        30: lambda: ["program", f[0], " ".join(f[1].split("\0")[:-1])],
        32: lambda: ["pid", *f],
        43: lambda: ["clock", *f],
        49: lambda: ["allocated", *f],
        50: lambda: ["size", *f],
        51: lambda: ["live", *f],
        160: lambda: ["begin", *f[:3], *f[3]],
        161: lambda: ["centre", *f],
        162: lambda: ["sample", *f],
        163: lambda: ["stack", f[0], f[1], len(f[2]), joined],
        164: lambda: ["string", *f],
        165: lambda: ["end", *f],
        166: lambda: ["biography", *f],
        167: lambda: ["tick", f[0], f[1], len(f[2]), joined],
        168: lambda: ["ticks", *f],
    }[n]()
    return "\t".join(map(str, [event.time, *words]))


def read_logs(reader, folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".eventlog"))
    text = run(reader, *(os.path.join(folder, name) for name in names)).decode("utf-8")
    found = re.split(r"^file\t.*\n", text, flags=re.M)[1:]
    check(len(found) == len(names), f"{len(found)} logs of {len(names)} were read")
    events = 0
    for name, part in zip(names, found):
        with open(os.path.join(folder, name), "rb") as file:
            want = [words_of(event) for event in eventlog.events(file.read())]
        got = part.split("\n")[:-1]
        for a, b in zip(want, got):
            check(a == b, f"{name}: {b[:300]!r} is read, {a[:300]!r} is written")
        check(len(want) == len(got), f"{name}: {len(got)} events, not {len(want)}")
        events += len(got)
    return len(names), events


def draw(folder):
    """hp2ps on every heap profile; its status tells, not that there is a file."""
    names = [name for name in os.listdir(folder) if name.endswith(".hp")]
    for name in names:
        for words in (["-c"], ["-e8in", "-m0"], ["-t0", "-i+"]):
            run("hp2ps", *words, name, cwd=folder)
        with open(os.path.join(folder, name[:-3] + ".ps"), "rb") as file:
            check(len(file.read()) > 1000, f"{name}: nothing is drawn")
    return len(names)


def all_stores(folder):
    """Writes every file of every store; each is judged by our own readers, too."""
    stores, files = os.path.join(folder, "stores"), os.path.join(folder, "files")
    os.mkdir(stores)
    os.mkdir(files)
    paths = ghc_check.make(stores)
    paths["program"] = os.path.join(stores, "program.db")
    ours.recorded(paths["program"])
    paths["many"] = os.path.join(stores, "many.db")
    ghc_check.drawn(paths["many"], 12, 300, "crowd")

    def keep(name, data):
        with open(os.path.join(files, name), "wb") as file:
            file.write(data)

    for path in paths.values():
        ghc_check.check_store(path, folder, keep)
    return files, paths


# --- GHC's own -----------------------------------------------------------------------------------
def profile(folder):
    """Compiles a program and profiles it in all modes; {mode: folder}"""
    with open(os.path.join(folder, "P.hs"), "w") as file:
        file.write(PROGRAM)
    run("ghc", "-v0", "-O0", "-prof", "-fprof-auto", "-eventlog", "-rtsopts", "P.hs", "-o", "prog",
        cwd=folder)
    folders = {}
    for mode in (*MODES, "P"):
        folders[mode] = os.path.join(folder, "mode-" + mode)
        os.mkdir(folders[mode])
        run(os.path.join(folder, "prog"), "+RTS", "-" + mode, "-l", "-i0.02", cwd=folders[mode])
    return folders


def raw_events(data):
    """(types, [(id, payload)]) of any event log"""
    cursor = eventlog.Cursor(data)
    check(cursor.take(8) == b"hdrbhetb", "no log")
    types = {}
    while cursor.take(4) == b"etb\0":
        number, size = cursor.u(2), cursor.u(2)
        cursor.take(cursor.u(4))
        cursor.take(cursor.u(4))
        cursor.take(4)
        types[number] = size
    cursor.take(8)
    found = []
    while (number := cursor.u(2)) != 0xffff:
        cursor.take(8)
        size = types[number] if types[number] != 0xffff else cursor.u(2)
        found.append((number, cursor.take(size)))
    return types, found


def compare_layout(mode, data):
    """Events that GHC and heapx both write: the same declared size, the same fields."""
    types, found = raw_events(data)
    seen = collections.Counter()
    for number, size in eventlog.SIZES.items():
        check(types.get(number, size) == size, f"type {number} is of size {types.get(number)}")
    for number, payload in found:
        if number not in eventlog.SIZES:
            continue
        cursor = eventlog.Cursor(payload)
        fields = eventlog.payload(number, cursor)
        check(cursor.at == cursor.end, f"event {number} of {mode}: {cursor.end - cursor.at} left")
        seen[number] += 1
        if number == 160:
            check(fields[2] == MODES[mode], f"{mode} is break-down {fields[2]}")
    order = [number for number, _ in found if number in (25, 43, 29, 30, 161, 160, 162, 166)]
    first = list(dict.fromkeys(order))
    return seen, first


def own_order(path, by):
    log = heapx("export", path, "eventlog", "--by", by, "-o", "/dev/stdout").stdout
    order = [number for number, _ in raw_events(log)[1] if number in (25, 43, 29, 30, 161, 160, 162,
                                                                      166)]
    return list(dict.fromkeys(order))


def check_order(mode, theirs, mine):
    """What comes before what in both."""
    common = [n for n in theirs if n in mine]
    check(common == [n for n in mine if n in theirs], f"{mode}: GHC has {theirs}, heapx {mine}")


def compare_reports(folders, path):
    """The tables of costs and the retainer report have the same words where GHC has them."""
    with open(os.path.join(folders["P"], "prog.prof")) as file:
        theirs = file.read()
    mine = heapx("export", path, "prof", "--by", "ccs").stdout.decode()
    for pattern in (r"^COST CENTRE .*$", r"^ +individual .*$"):
        a = [line.split() for line in re.findall(pattern, theirs, flags=re.M)]
        b = [line.split() for line in re.findall(pattern, mine, flags=re.M)]
        check(a == b, f"columns {b}, GHC's are {a}")
    for pattern in (r"^\t\w+ \w+ \d+ \d+:\d+ \d+ Time and Allocation Profiling Report  \(Final\)$",
                    r"^\ttotal time  = +\d+\.\d\d secs   \(", r"^\ttotal alloc = +[\d,]+ bytes  \("):
        check(re.search(pattern, theirs, flags=re.M) and re.search(pattern, mine, flags=re.M),
              f"{pattern} is not in both")
    with open(os.path.join(folders["hr"], "prog.prof")) as file:
        theirs = file.read()
    mine = heapx("export", path, "prof").stdout.decode()
    for pattern in (r"^Retainer Profiling: 0, at -?\d+\.\d{6} seconds$",
                    r"^\s+Average number of visits per object = (\d+\.\d{6}|-)$",
                    r"^Retainer sets created during profiling:$", r"^SET \d+ = \{.*\}$"):
        check(re.search(pattern, theirs, flags=re.M) and re.search(pattern, mine, flags=re.M),
              f"{pattern} is not in both")


def main():
    with tempfile.TemporaryDirectory(prefix="hx-ghc-") as folder:
        try:
            reader = compile_reader(folder)
            files, paths = all_stores(folder)
            print("logs of {} files, {} events: the same as the library reads".format(
                *read_logs(reader, files)))
            print(f"hp2ps draws {draw(files)} files in three ways")
            folders = profile(folder)
            words = {"hc": "ccs", "hm": "module", "hd": "kind", "hy": "type", "hr": "retainer",
                     "hb": "biography", "hT": "leak"}
            for mode, by in words.items():
                with open(os.path.join(folders[mode], "prog.eventlog"), "rb") as file:
                    seen, first = compare_layout(mode, file.read())
                check_order(mode, first, own_order(paths["life"], by))
                print(f"-{mode}: GHC's own events are of the same layout: {dict(seen)}")
            compare_reports(folders, paths["program"])
            print("reports have GHC's words")
        except (Failure, eventlog.Bad) as why:
            print(f"FAILED: {why}")
            sys.exit(1)


if __name__ == "__main__":
    main()
