#!/usr/bin/env -S python3 -B
"""pipes.py - cores and profiles that come through a pipe are read like files.

What is imported through standard input, a FIFO and from nobody's standard output is what the file
gives; where there is no room it says what to do and leaves nothing; a pipe that says nothing does
not keep it from ending.
"""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HEAPX = os.path.join(os.environ.get("HX_BUILDDIR", "."), "heapx")
PROFILE = ('JOB "prog"\nDATE "today"\nSAMPLE_UNIT "seconds"\nVALUE_UNIT "bytes"\n'
           "BEGIN_SAMPLE 0.00\nmain\t120\nEND_SAMPLE 0.00\n"
           "BEGIN_SAMPLE 1.00\nmain\t240\nEND_SAMPLE 1.00\n").encode()


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def heapx(*arguments, status=(0,), **how):
    done = subprocess.run([HEAPX, *arguments], capture_output=True, timeout=60, **how)
    said = done.stderr.decode()
    check(done.returncode in status, f"heapx {' '.join(arguments)}: {done.returncode}, {said}")
    return done.stdout, said


def views(store):
    """What does not depend on when it was read."""
    return [heapx("report", store, view, "--snapshot", "all", "--format", "csv", status=(0, 1, 3))[0]
            for view in ("retainers", "types", "roots", "account", "leaks")]


def through_fifo(path, data, *command, **how):
    os.mkfifo(path)

    def write():
        with open(path, "wb") as fifo:
            fifo.write(data)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        return heapx(*command, **how)
    finally:
        writer.join()
        os.unlink(path)


def same_everywhere(folder, data, name):
    path = f"{folder}/{name}"
    with open(path, "wb") as file:
        file.write(data)
    heapx("import", path, "-o", f"{folder}/file.db", status=(0, 3))
    want = views(f"{folder}/file.db")
    heapx("import", "-", "-o", f"{folder}/pipe.db", input=data, status=(0, 3))
    check(views(f"{folder}/pipe.db") == want, f"{name} through standard input")
    with open(path, "rb") as file:
        heapx("import", "-", "-o", f"{folder}/input.db", stdin=file, status=(0, 3))
    check(views(f"{folder}/input.db") == want, f"{name} as standard input")
    through_fifo(f"{folder}/fifo", data, "import", f"{folder}/fifo", "-o", f"{folder}/fifo.db",
                 status=(0, 3))
    check(views(f"{folder}/fifo.db") == want, f"{name} through a FIFO")
    out, _ = through_fifo(f"{folder}/fifo", data, "report", f"{folder}/fifo", "types", "--format",
                          "csv", status=(0, 1, 3))
    check(out == heapx("report", path, "types", "--format", "csv", status=(0, 1, 3))[0], "a report")
    for store in "pipe.db", "input.db", "fifo.db", "file.db":
        os.unlink(f"{folder}/{store}")


def as_core_handler(folder, data):
    """The kernel gives its handler a pipe as descriptor 0 and no other."""
    heapx_line = f"exec {HEAPX} import - -o {folder}/kernel.db 1>&- 2>&-"
    done = subprocess.run(["sh", "-c", heapx_line], input=data, env={}, cwd="/", timeout=60)
    check(done.returncode in (0, 3), f"without descriptors: {done.returncode}")
    check(b"snapshot" in heapx("report", f"{folder}/kernel.db", "snapshots")[0], "what it stored")


def closed_output():
    """Results that cannot be written are no success."""
    done = subprocess.run(["sh", "-c", f"exec {HEAPX} report - snapshots 1>&-"], input=PROFILE,
                          stderr=subprocess.PIPE, timeout=60)
    check(done.returncode == 1 and b"standard output" in done.stderr,
          f"closed: {done.returncode}, {done.stderr}")


def without_room(folder, data):
    temporary = f"{folder}/tmp"
    os.mkdir(temporary)
    limit = len(data) // 4

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    _, said = heapx("import", "-", "-o", f"{folder}/none.db", input=data, status=(1,),
                    preexec_fn=small, env={**os.environ, "TMPDIR": temporary})
    check("standard input: no room in" in said and "set TMPDIR to a directory" in said, said)
    check(not os.listdir(temporary) and not os.path.exists(f"{folder}/none.db"), "something is left")
    _, said = heapx("import", "-", "-o", f"{folder}/none.db", input=data, status=(1,),
                    env={**os.environ, "TMPDIR": "/nonexistent"})
    check("set TMPDIR" in said, said)


def silent(folder):
    for number in signal.SIGTERM, signal.SIGINT:
        started = subprocess.Popen([HEAPX, "import", "-", "-o", f"{folder}/none.db"],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.3)
        begin = time.monotonic()
        started.send_signal(number)
        check(started.wait(10) == 130, f"status {started.returncode}")
        check(time.monotonic() - begin < 1, f"it took {time.monotonic() - begin:.1f} s to end")
        check(b"standard input: interrupted" in started.stderr.read(), "what it says")
        started.stdin.close()
        started.stderr.close()
    check(not os.path.exists(f"{folder}/none.db"), "a store of nothing is left")


def what_is_none(folder):
    heapx("import", "-", "-o", f"{folder}/none.db", input=b"text\n" * 100, status=(1,))
    heapx("import", "-", "-o", f"{folder}/none.db", input=b"", status=(1,))
    heapx("sql", f"{folder}/profile.hp", "SELECT 1")
    heapx("import", f"{folder}/profile.hp", "-o", f"{folder}/s.db", status=(0, 3))
    with open(f"{folder}/s.db", "rb") as file:
        data = file.read()
    for command in (("report", "-", "types"), ("sql", "-", "SELECT 1"), ("open", "-")):
        _, said = heapx(*command, input=data, status=(1,))
        check("a store has to be a file" in said, said)


def core():
    """Of a small process; None where there is no gdb."""
    if not shutil.which("gdb"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = subprocess.Popen(["sleep", "100"])
        try:
            subprocess.run(["gdb", "-p", str(target.pid), "-batch", "-nx", "-ex",
                            f"generate-core-file {folder}/core"], capture_output=True, timeout=60,
                           stdin=subprocess.DEVNULL)
        finally:
            target.kill()
            target.wait()
        if not os.path.exists(f"{folder}/core"):
            return None
        with open(f"{folder}/core", "rb") as file:
            return file.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        same_everywhere(folder, PROFILE, "profile.hp")
        what_is_none(folder)
        closed_output()
        silent(folder)
        without_room(folder, PROFILE * 30000)
        data = core()
        if not data:
            print("pipes: profiles are all right; no core: gdb is missing or may not trace")
            return
        same_everywhere(folder, data, "core")
        as_core_handler(folder, data)
    print("pipes: all right")


main()
