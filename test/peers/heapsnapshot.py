#!/usr/bin/env -S python3 -B
"""heapsnapshot.py - heap snapshots as memlab and the engine of Chrome's DevTools read them.

Both load 500 random heaps and those of real programs; the dominator and the retained size that
each of them finds for every reachable object have to be those of the store, and so what each root
retains. DevTools' allocation view has to name what was recorded.

HX_SEED: the random heaps. Give files (stores) as arguments to compare these instead.
"""
# needs: redis-server sqlite3
# npm: @memlab/core@2.0.5 @memlab/heap-analysis@2.0.5 heap-snapshot-toolkit@1.1.3
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

SRCDIR, BUILDDIR = os.environ["HX_SRCDIR"], os.environ["HX_BUILDDIR"]
sys.path.insert(0, os.path.join(SRCDIR, "test/export"))
from heapsnapshot_file import HEAPX, Stored, check, rows, run  # noqa: E402

READERS = ("memlab", "devtools")
ROUNDS = 50 if os.environ.get("HX_QUICK", "0") not in ("", "0") else 500


def read(reader, files, folder):
    """{file: [(name, name of the dominator, retained size, reached)]}, {file: allocations}"""
    names, out = os.path.join(folder, "names"), os.path.join(folder, "out")
    with open(names, "w") as f:
        f.write("".join(name + "\n" for name in files))
    script = os.path.join(SRCDIR, "test/peers", f"heapsnapshot_{reader}.mjs")
    done = subprocess.run(["node", "--max-old-space-size=4000", script, names, out],
                          capture_output=True, timeout=600, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{reader}: {done.returncode}, {done.stdout}, {done.stderr}")
    found, allocated, nodes = {}, collections.defaultdict(list), {}
    with open(out) as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if line.startswith("file "):
                nodes = found[line[5:-1]] = {}
                file = line[5:-1]
            elif words[0] == "allocated":
                allocated[file].append([json.loads(words[1]), json.loads(words[2]),
                                        *map(int, words[3:])])
            else:
                nodes[words[0]] = (json.loads(words[1]), words[3], int(words[4]),
                                   words[5] == "1")
    check(sorted(found) == sorted(files), f"{reader}: {len(found)} of {len(files)} files")
    return {file: [(name, nodes[above][0] if above != "-" else "", retained, reached)
                   for name, above, retained, reached in nodes.values()]
            for file, nodes in found.items()}, allocated


def compare_allocations(path, number, found):
    """Each function that allocates, with what it asked for and what is there of it."""
    want = collections.Counter()
    for r in rows(path, "select c.label as label, count(*) as n, sum(o.bytes) as bytes"
                        " from objects as o join ccs as c using (ccs_id)"
                        f" where o.snapshot = {number} and o.bytes < 4294967296 group by 1"):
        name = r["label"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        want[name, "objects"] += r["n"]
        want[name, "bytes"] += r["bytes"]
    live = collections.Counter()
    for name, _, _, _, _, count, size in found:
        live[name, "objects"] += count
        live[name, "bytes"] += size
    return all(live[key] == value for key, value in want.items()), want, live


def compare_classes(path, folder):
    """Objects of one type or shape are one class in DevTools, lost ones one of their own."""
    file = os.path.join(folder, "types.heapsnapshot")
    run("export", path, "heapsnapshot", "--by", "type", "-o", file)
    number = Stored(path).snapshots[-1]
    want = rows(path, "select coalesce(type, shape), state in ('definite', 'indirect') as lost, count(*) as n from"
                      f" objects where snapshot = {number} group by 1, 2 order by 3")
    read("devtools", [file], folder)
    classes = collections.Counter()
    with open(os.path.join(folder, "out")) as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if len(words) == 7 and json.loads(words[1]).startswith("<"):
                classes[json.loads(words[6])] += 1
    check(sorted(classes.values()) == sorted(r["n"] for r in want), f"{classes}, {want}")


def compare(path, folder):
    stored = Stored(path)
    files = {}
    for number in stored.snapshots:
        out = os.path.join(folder, f"{number}.heapsnapshot")
        run("export", path, "heapsnapshot", "--snapshot", number, "-o", out)
        files[out] = number
    compared, views = 0, 0
    for reader in READERS:
        found, allocated = read(reader, list(files), folder)
        compared = 0
        for file, nodes in found.items():
            compared += stored.compare(files[file], nodes, f"{reader}, snapshot {files[file]}")
        for file, view in allocated.items():
            huge = any(o["bytes"] > 2 ** 32 - 1 for o in stored.objects[files[file]].values())
            same, want, live = compare_allocations(path, files[file], view)
            check(huge or same, f"allocations of snapshot {files[file]}: {want}, {live}")
            views += 1
    for file in files:
        os.unlink(file)
    return len(files), compared, views


# --- real programs ----------------------------------------------------------------------

PYTHON = "import time, json, collections, re; d = [json.loads('{\"a\": [1, 2, {}]}') " \
         "for _ in range(3000)]; print('ready', flush=True); time.sleep(100)"


def snap(folder, name, command, feed=b"", ready=b""):
    """The store of a program that sleeps after it has said `ready`."""
    path = os.path.join(folder, f"{name}.db")
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, cwd=folder)
    try:
        program.stdin.write(feed)
        program.stdin.flush()
        for line in program.stdout if ready else ():
            if ready in line:
                break
        time.sleep(0.5)
        run("snap", program.pid, "-o", path)
    finally:
        program.kill()
        program.communicate()
    return path


SQL = b"create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n" \
      b" where i < 2000) insert into t select i, hex(randomblob(50)) from n;" \
      b" create index x on t(b); select 'ready';\n"


def redis(folder):
    """Its allocator is known by what it hands out only, so it is recorded."""
    path, socket = os.path.join(folder, "redis.db"), os.path.join(folder, "redis.sock")
    server = subprocess.Popen(
        [HEAPX, "run", "-o", path, "--at-exit", "--", "redis-server", "--port", "0", "--save", "",
         "--unixsocket", socket], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd=folder)
    try:
        for _ in range(100):
            if os.path.exists(socket):
                break
            time.sleep(0.1)
        client = ["redis-cli", "-s", socket]
        script = "for i = 1, 3000 do redis.call('lpush', 'k' .. i % 300, string.rep('x', i)) end"
        subprocess.run([*client, "eval", script, "0"], check=True, timeout=60,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        subprocess.run([*client, "shutdown", "nosave"], timeout=60, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        server.wait(60)
    finally:
        server.kill()
        server.wait()
    return path


def programs(folder):
    yield "python3", snap(folder, "python3", ["python3", "-c", PYTHON], ready=b"ready")
    yield "sqlite3", snap(folder, "sqlite3", ["sqlite3", "-batch", ":memory:"], SQL, b"ready")
    yield "redis", redis(folder)
    demo = os.path.join(BUILDDIR, "heapx-demo")
    if os.path.exists(demo):
        yield "demo", snap(folder, "demo", [demo])
    path = os.path.join(folder, "recorded.db")
    script = PYTHON.replace("time.sleep(100)", "__import__('os')._exit(0)")
    subprocess.run([HEAPX, "run", "-o", path, "--at-exit", "--", "python3", "-c", script],
                   check=True, timeout=120, stdin=subprocess.DEVNULL, capture_output=True)
    yield "recorded", path


def main():
    with tempfile.TemporaryDirectory(prefix="hx-heapsnapshot.") as folder:
        if sys.argv[1:]:
            for path in sys.argv[1:]:
                print(path, *compare(path, folder), flush=True)
            return
        path = os.path.join(folder, "random.db")
        maker = os.path.join(BUILDDIR, "test/export/random_store")
        subprocess.run([maker, path, str(ROUNDS)], check=True, timeout=60)
        heaps, objects, views = compare(path, folder)
        check(heaps == ROUNDS and objects > ROUNDS and views > ROUNDS / 10,
              f"{heaps} heaps, {objects} objects, {views} allocation views")
        said = []
        for name, path in programs(folder):
            _, count, views = compare(path, folder)
            check(count > 100, f"{name}: {count} objects")
            compare_classes(path, folder)
            said.append(f"{name} {count}")
        check(views > 0, "the recorded program has no allocation view")
        print(f"{heaps} random heaps with {objects} reachable objects, {', '.join(said)}:"
              " dominators and retained sizes as in the store, by both readers")


main()
