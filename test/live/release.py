#!/usr/bin/env -S python3 -B
"""release.py - `heapx record` lets its probes go: whoever does not wait for that is obeyed.

The kernel takes its time for each probe of a process whose first thread has exited.
"""
import os
import signal
import subprocess
import time

import live
import recorded
from live import check
from servers import code


def releasing():
    """Processes that let probes go."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/comm") as file:
                found += [int(pid)] if pid.isdigit() and file.read() == "heapx-release\n" else []
        except OSError:
            pass
    return found


def terminated(folder):
    """SIGTERM while the probes go: exit 130 at once, what was stored is kept, and nothing stays."""
    recorded.may_probe()
    others = releasing()
    with live.Target([live.victim("restless"), "leaderless"]) as target:
        target.wait_line("ready")
        store = f"{folder}/a.db"
        with subprocess.Popen([live.HEAPX, "record", str(target.pid), "-o", store, "--duration", "1s"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=live.end_with_parent) as record:
            line = record.stdout.readline()
            begun = time.monotonic()
            record.send_signal(signal.SIGTERM)
            said = record.communicate(timeout=60)[1]
            took = time.monotonic() - begun
            check("snapshot 1" in line, f"it said {line!r}, {said!r}")
        check(record.returncode == 130, f"exit {record.returncode} after {took:.1f} s: {said}")
        check(took < live.SLOW, f"it took {took:.1f} s")
        check("kept in" in said and live.row(store, "SELECT count(*) n FROM snapshots")["n"] == 1, said)
        end = time.monotonic() + 20
        while code(target.pid) or recorded.nothing_left() or set(releasing()) - set(others):
            check(time.monotonic() < end, f"left: {code(target.pid)}, {recorded.nothing_left()}, {releasing()}")
            time.sleep(0.05)
        print(f"  ended after {took:.2f} s, and the last probe after {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    live.main(terminated)
