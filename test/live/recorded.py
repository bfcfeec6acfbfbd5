"""recorded.py - what the tests of the recorders share: `heapx run`, `heapx record`, and the
stacks, blocks and costs that a store holds afterwards."""
import ctypes
import json
import os
import signal
import subprocess
import time

import live
from live import check, rows


class Tree:
    """The cost-centre stacks of a store."""

    def __init__(self, store):
        self.node = {row["ccs_id"]: row for row in
                     rows(store, "SELECT ccs_id, parent_id, depth, label, module, source FROM ccs")}

    def path(self, ccs_id):
        """Frames from the outermost to the innermost, the root MAIN first."""
        found = []
        while ccs_id is not None and ccs_id in self.node:
            check(len(found) < 5000, f"ccs {ccs_id}: the tree has a cycle")
            found.append(self.node[ccs_id])
            ccs_id = self.node[ccs_id]["parent_id"]
        return found[::-1]

    def words(self, ccs_id):
        return [str(frame["label"]) for frame in self.path(ccs_id)]


def objects(store, where="1"):
    """The objects of the last snapshot."""
    return rows(store, "SELECT address, bytes, requested, state, ccs_id, stack_id FROM objects WHERE snapshot = "
                       f"(SELECT max(snapshot) FROM snapshots) AND ({where})")


def last(store):
    return live.row(store, "SELECT * FROM snapshots ORDER BY snapshot DESC LIMIT 1")


def losses(store):
    return {row["what"]: row["count"] for row in
            rows(store, "SELECT what, count FROM losses WHERE snapshot = "
                        "(SELECT max(snapshot) FROM snapshots)")}


class Frames(Tree):
    """The stacks of a store as they were recorded, by the stack_id of objects."""

    def __init__(self, store):
        self.node = {row["frame_id"]: row | {"ccs_id": row["frame_id"]} for row in
                     rows(store, "SELECT frame_id, parent_id, depth, label, module, source FROM frames")}


class Run:
    """`heapx run ARGS -- CMD`, until the `with` block ends."""

    def __init__(self, store, command, *args, **options):
        if not os.path.exists(live.HEAPX):
            raise live.Skip(f"{live.HEAPX} is not built")
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("preexec_fn", live.end_with_parent)
        where = ["-o", store] if store else []
        self.process = subprocess.Popen([live.HEAPX, "run", *where, *args, "--", *command], **options)
        self.status, self.out, self.err = None, b"", b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def wait(self, seconds, text=None):
        """Its exit status, as Popen gives it; out and err are kept."""
        try:
            self.out, self.err = self.process.communicate(text, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise live.Failure(f"heapx run does not end: {self.process.args}")
        self.status = self.process.returncode
        return self.status


def bpf(command, words):
    attr = (ctypes.c_uint64 * 16)(*words)
    return live.LIBC.syscall(321, command, ctypes.byref(attr), 128)


def may_probe():
    """Skips where the kernel or this user cannot have probes in user programs."""
    kind = "/sys/bus/event_source/devices/uprobe/type"
    if not os.path.exists(kind):
        raise live.Skip("this kernel has no uprobes")
    # BPF_MAP_CREATE of an array: type 2, 4-byte keys, 8-byte values, one entry
    fd = bpf(0, [4 << 32 | 2, 1 << 32 | 8])
    if fd < 0:
        raise live.Skip(f"bpf: {os.strerror(ctypes.get_errno())}")
    os.close(fd)


def text(pid, address, length=1):
    """Bytes of a process as they are, breakpoints of the kernel included."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(length)


class Record:
    """`heapx record PID`, which is attached once the code at `entries[0]` changes."""

    def __init__(self, store, pid, entries, *args):
        if not os.path.exists(live.HEAPX):
            raise live.Skip(f"{live.HEAPX} is not built")
        self.pid, self.entries = pid, entries
        before = text(pid, entries[0], 48)  # the probe may lie a few instructions further on
        self.process = subprocess.Popen(
            [live.HEAPX, "record", str(pid), "-o", store, *map(str, args)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=live.end_with_parent)
        end = time.monotonic() + 30 * live.SLOW
        while text(pid, entries[0], 48) == before:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                err = self.process.communicate()[1].decode(errors="replace")
                if "without libbpf" in err or "built without" in err:
                    raise live.Skip(err.strip())
                raise live.Failure(f"heapx record did not attach: {err}")
            time.sleep(0.01)
        time.sleep(0.5)  # the other functions

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def end(self, seconds=60):
        """As the user would with Ctrl-C: the last snapshot is taken and kept."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        err = self.process.communicate(timeout=seconds)[1].decode(errors="replace")
        check(self.process.returncode in (0, 130, 3),
              f"heapx record: exit {self.process.returncode}: {err}")
        return err


def nothing_left():
    """Names of what a recorder could leave in tracefs and bpffs; [] is right."""
    found = []
    for path in ("/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"):
        try:
            with open(path) as file:
                found += [line for line in file.read().splitlines() if "heapx" in line or "hx_" in line]
        except OSError:
            pass
    try:
        found += [f"/sys/fs/bpf/{name}" for name in os.listdir("/sys/fs/bpf") if "hx" in name or
                  "heapx" in name]
    except OSError:
        pass
    return found


def programs():
    """How many BPF programs and links are loaded; None where bpftool is missing."""
    try:
        said = subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True, timeout=20 * live.SLOW,
                              env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    except (OSError, subprocess.TimeoutExpired):
        return None
    return len(json.loads(said.stdout or b"[]")) if said.returncode == 0 else None
