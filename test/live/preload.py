#!/usr/bin/env python3
"""preload.py - the library inside a program, by itself: programs that make life hard for it run as
without it, and a plain reader (preload_reader.c) finds every event in order, once, and whole.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in live.py
BUILD = os.environ.get("HX_BUILDDIR", ".")
READER = os.path.join(BUILD, "test/live/preload_reader")
VICTIM = os.path.join(BUILD, "test/live/preload_victim")
HEAPX = os.path.join(BUILD, "heapx")
ALLOCATOR = os.path.join(BUILD, "test/live/preload_allocator")
SAFE = os.path.join(BUILD, "test/live/preload_safe.so")
FAILED = []


def run(command, env=None):
    clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return subprocess.run(command, env={**clean, "HX_BUILDDIR": BUILD, **(env or {})},
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120 * SLOW)


def record(options, command, env=None):
    """Returns the status, the standard output, the standard error, and a dict for each process."""
    # the reader itself, which may be sanitized, wants no other allocator
    env = {"HX_TEST_PRELOAD" if k == "LD_PRELOAD" else k: v for k, v in (env or {}).items()}
    done = run([READER, *options, "--", *command], env)
    lines = done.stderr.decode(errors="replace").splitlines()
    processes = [{k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)}
                 for line in lines if line.startswith("pid=")]
    errors = "\n".join(line for line in lines if not line.startswith("pid="))
    return done.returncode, done.stdout, errors, processes


def expect(what, condition, *more):
    if not condition:
        FAILED.append(what)
        print("FAILED:", what, *more)


def exact(what, process):
    """Nothing was lost, torn, or out of order."""
    for word in "lost", "unknown", "twice", "torn", "nostack":
        expect(f"{what}: {word} is 0", process[word] == 0, process)


def victims():
    safe = {"LD_PRELOAD": SAFE}
    cases = [("plain", {}), ("threads", {}), ("handing", {}), ("short", {}), ("exits", {}),
             ("storm", safe), ("forks", {}), ("vforks", {}), ("again", {}), ("environment", {}),
             ("cleared", {}), ("closed", {}), ("unloads", {}), ("jailed", {}),
             ("jailed", {"HX_SECCOMP_CALL": "1"}), ("limits", {}), ("errors", {}),
             ("handlers", {}), ("mappings", {}), ("limited", {}), ("locked", {}), ("moved", {}),
             ("bare", {})]
    for word, env in cases:
        alone = run([VICTIM, word], env)
        status, out, errors, processes = record([], [VICTIM, word], env)
        expect(f"{word}: ends as alone", status == alone.returncode, status, errors)
        expect(f"{word}: prints what it prints alone", out == alone.stdout)
        # what the process itself becomes is recorded as well
        expect(f"{word}: one process", len(processes) == (2 if word == "again" else 1), processes)
        for process in processes:
            exact(word, process)
    for name in "libjemalloc.so.2", "libtcmalloc_minimal.so.4":
        path = "/usr/lib/x86_64-linux-gnu/" + name
        if os.path.exists(path):
            status, _, errors, processes = record([], [VICTIM, "threads"], {"LD_PRELOAD": path})
            expect(f"{name}: ends well", status == 0, errors)
            exact(name, processes[0])


def counts():
    """Figures that are known: of threads(), 8 times 100,000 operations, all freed at the end."""
    process = record([], [VICTIM, "threads"])[3][0]
    expect("threads: operations", process["allocs"] + process["reallocs"] > 790000, process)
    expect("threads: what is left is libc's and one block", process["live"] < 20, process)
    process = record([], [VICTIM, "short"])[3][0]
    expect("short: each thread", process["allocs"] >= 10000 and process["rings"] < 64, process)
    process = record(["-m"], [VICTIM, "mappings"])[3][0]
    expect("mappings: each one", process["allocs"] >= 100 and process["live"] < 10, process)
    process = record(["-l", "500", "-M", "600"], [VICTIM, "threads"])[3][0]
    expect("sizes: only those", 0 < process["allocs"] < 200000, process)
    process = record(["-s", "65536"], [VICTIM, "threads"])[3][0]
    bytes_sampled = (process["allocs"] + process["reallocs"]) * 65536
    expect("samples: stand for all bytes", 0.6e9 < bytes_sampled < 0.95e9, bytes_sampled, process)
    expect("samples: all freed", process["live"] < 20 and process["twice"] == 0, process)


def children():
    status, _, errors, processes = record(["-c"], [VICTIM, "forks"])
    expect("children: ends well", status == 0, errors)
    expect("children: each fork", len(processes) == 11, len(processes))
    first = [p["pid"] for p in processes if not p["parent"]]  # on a busy machine not found first
    expect("children: know their parent",
           len(first) == 1 and sum(p["parent"] == first[0] for p in processes) == 10, processes)
    # a block of the parent's is freed in each, which this reader does not know there
    expect("children: whole", all(p["unknown"] <= 1 and p["torn"] == 0 for p in processes))
    for word in "again", "cleared":
        status, _, errors, processes = record(["-c"], [VICTIM, word])
        expect(f"{word}: ends well", status == 0, errors)
        expect(f"{word}: what is executed is recorded",
               sum(p["execed"] for p in processes) == 1, processes)


def ends():
    for word in ("plain", "abort", "segv", "overflow", "term", "_exit", "quick", "trap", "caught",
                 "handlers"):
        alone = run([VICTIM, word])
        status, _, errors, processes = record(["-e"], [VICTIM, word])
        wanted = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
        expect(f"{word}: ends as alone", status == wanted, status, wanted, errors)
        expect(f"{word}: asks once for the last snapshot", processes[0]["exit"] == 1, processes)


def without_reader():
    for options in (["-n"], ["-k", "20"]):
        for word in "threads", "unloads":
            status, _, errors, processes = record(options, [VICTIM, word])
            expect(f"{word} {options}: ends well", status == 0, errors)
            for process in processes:
                expect(f"{word} {options}: whole", process["torn"] == 0, process)
    for word, wanted in ("plain", 0), ("segv", 139):
        status = record(["-n", "-e"], [VICTIM, word])[0]
        expect(f"{word}: ends without a reader", status == wanted, status)


def programs():
    for command in (["/bin/ls", "/"], ["env"], ["sqlite3", ":memory:", "select sqlite_version()"],
                    ["sh", "-c", "echo $(expr 1 + 2) | sed s/3/4/; exit 9"],
                    [sys.executable, "-c", "import json,threading;print(json.dumps([1]*1000))"]):
        try:
            alone = run(command)
        except FileNotFoundError:
            continue
        for options in ([], ["-e"], ["-s", "4096"]):
            status, out, errors, processes = record(options, command)
            expect(f"{command[0]} {options}: as alone",
                   (status, out) == (alone.returncode, alone.stdout), status, errors)
            if processes and not options:
                exact(command[0], processes[0])


def without_room():
    """Address space, files, and the file system of the rings: what cannot be had is a loss."""
    alone = run([VICTIM, "threads"])
    # prlimit allocates nothing between setting the limit and exec: it would run out itself.
    for limit in "--as=30000000", "--as=100000000", "--as=400000000", "--as=3000000000", "--fsize=1000000":
        for word in "plain", "_exit":
            command = ["prlimit", limit, VICTIM, word]
            wanted = run(command).returncode
            status, _, errors, _ = record([], command)
            expect(f"{word} with {limit}: as alone", status == wanted, status, errors)
    for size in "64k", "500k", "1m", "3m":
        inside = (f"mount -t tmpfs -o size={size} none /dev/shm || exit 77; "
                  f"HX_BUILDDIR={BUILD} exec {READER} -c -- {VICTIM} threads")
        done = run(["unshare", "-m", "sh", "-c", inside])
        errors = done.stderr.decode(errors="replace")
        if done.returncode == 77 or "unshare" in errors:
            return # not allowed
        expect(f"{size} of shared memory: ends as alone",
               (done.returncode, done.stdout) == (alone.returncode, alone.stdout),
               done.returncode, errors)
        process = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", errors)}
        expect(f"{size} of shared memory: losses are counted, or it was enough",
               process.get("torn") == 0 and
               process["allocs"] + process["reallocs"] + process["lost"] > 790000, process)
        expect("64k are not enough", size != "64k" or process["lost"] > 0, process)


def heapx(options, command, prefix=()):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.db")
        begun = time.monotonic()
        done = run([*prefix, HEAPX, "run", *options, "-o", out, "--", *command])
        return done.returncode, done.stderr.decode(errors="replace"), time.monotonic() - begun


def refusals():
    """Who cannot be recorded is told why, at once."""
    prefix = ["sh", "-c", "ulimit -f 1000; exec \"$@\"", "sh"]
    status, errors, took = heapx([], [VICTIM, "plain"], prefix)
    expect("small files: told", "ulimit -f" in errors and took < 5 * SLOW, status, errors, took)
    status, errors, _ = heapx([], [ALLOCATOR], ["setpriv", "--reuid", "65534", "--clear-groups"])
    expect("its own malloc: refused without probes", status != 0, status, errors)
    expect("its own malloc: told", "malloc of its own" in errors or "denied" in errors, errors)


def await_file(path):
    end = time.monotonic() + 10
    while not (os.path.exists(path) and os.path.getsize(path)) and time.monotonic() < end:
        time.sleep(0.005)
    return open(path).read() if os.path.exists(path) else ""


def killed():
    """When heapx is killed, the program ends as it would, and soon."""
    for word, wanted in ("plain", 0), ("segv", 139), ("threads", 0):
        with tempfile.TemporaryDirectory() as folder:
            script = f"echo x > {folder}/began; {VICTIM} {word}; echo $? > {folder}/status"
            command = [HEAPX, "run", "--children", "--at-exit", "-o", os.path.join(folder, "out.db"), "--",
                       "sh", "-c", script]
            heap = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env={**os.environ, "HX_BUILDDIR": BUILD})
            await_file(folder + "/began")
            heap.kill()
            status = await_file(folder + "/status") # heapx is a zombie so long
            expect(f"{word}: goes on alone", status.strip() == str(wanted), status)
            heap.wait()


def main():
    if os.environ.get("HX_VALGRIND") == "yes":
        return 77
    for part in victims, counts, children, ends, without_reader, programs, without_room, refusals, killed:
        part()
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
