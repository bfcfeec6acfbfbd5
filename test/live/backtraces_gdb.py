"""backtraces_gdb.py - in gdb: writes the frames of all threads of the process.

Started by backtraces.py, with HX_STACKS_OUT naming the file: a JSON object of TID to frames, each
{name, kind, module, pointers}, innermost first; pointers: [name, value] of variables in scope.
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


def pointers(frame):
    """Of inner blocks first; of what another one hides, too."""
    found = []
    try:
        block = frame.block()
    except RuntimeError:
        return found
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if not (symbol.is_variable or symbol.is_argument) or symbol.addr_class in (
                    gdb.SYMBOL_LOC_STATIC, gdb.SYMBOL_LOC_OPTIMIZED_OUT):
                continue
            try:
                value = symbol.value(frame)
                if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
                    found.append((symbol.name, int(value)))
            except (gdb.error, gdb.MemoryError):
                pass # it has none here
        if block.function is not None:
            break
        block = block.superblock
    return found


def frames():
    result, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid() and len(result) < 300:
        result.append({"name": frame.name(), "kind": KINDS.get(frame.type(), "other"),
                       "module": module(frame.pc()), "pointers": pointers(frame)})
        frame = frame.older()
    return result


gdb.execute("set backtrace past-main on")
FOUND = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    FOUND[thread.ptid[1]] = frames()
with open(os.environ["HX_STACKS_OUT"], "w") as out:
    json.dump(FOUND, out)
