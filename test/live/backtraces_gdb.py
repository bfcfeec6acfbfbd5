"""backtraces_gdb.py - in gdb: writes the frames of all threads of the process.

Started by backtraces.py, with HX_STACKS_OUT naming the file: a JSON object of TID to frames, each
{name, kind, module}, innermost first.
"""
import json
import os

import gdb

KINDS = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.TAILCALL_FRAME: "tail",
         gdb.SIGTRAMP_FRAME: "signal"}


def mappings():
    """(start, end, path) of the program's files."""
    found = []
    with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
        for line in maps:
            part = line.split(maxsplit=5)
            if len(part) == 6:
                start, end = (int(word, 16) for word in part[0].split("-"))
                found.append((start, end, part[5].rstrip("\n")))
    return found


MAPPINGS = mappings()


def module(pc):
    return next((path for start, end, path in MAPPINGS if start <= pc < end), "")


def frames():
    result, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid() and len(result) < 300:
        result.append({"name": frame.name(), "kind": KINDS.get(frame.type(), "other"),
                       "module": module(frame.pc())})
        frame = frame.older()
    return result


gdb.execute("set backtrace past-main on")
FOUND = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    FOUND[thread.ptid[1]] = frames()
with open(os.environ["HX_STACKS_OUT"], "w") as out:
    json.dump(FOUND, out)
