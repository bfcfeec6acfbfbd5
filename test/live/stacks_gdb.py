"""stacks_gdb.py - in gdb: writes the frames of each marked call of malloc in test/live/stacks.

Started by stacks.py, with HX_STACKS_OUT naming the file: a JSON array of {size, begun, frames},
each frame {name, kind, module, pc}, innermost first.
"""
import json
import os

import gdb

# How each entry's request follows from its registers; the order is that of stacks_entry.
SIZES = ["$rdi", "$rdi * $rsi", "$rsi", "$rsi", "$rdx", "$rsi", "$rdi"]
KINDS = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.TAILCALL_FRAME: "tail",
         gdb.SIGTRAMP_FRAME: "signal"}
ALLOCATOR = {"malloc", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign", "valloc",
             "reallocarray", "__libc_reallocarray"}
found = []


def marked(size):
    return 20007 <= size < 20007 + 16 * 256 and size % 16 == 7


def whole(expression):
    return int(gdb.parse_and_eval(expression)) & (2**64 - 1)


def frames():
    result, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid() and frame.pc():
        result.append({"name": frame.name(), "kind": KINDS.get(frame.type(), "other"),
                       "module": gdb.solib_name(frame.pc()) or "", "pc": frame.pc()})
        frame = frame.older()
    return result


class Entry(gdb.Breakpoint):
    """One of malloc and its kin."""

    def __init__(self, address, size):
        super().__init__(f"*{address:#x}", internal=True)
        self.size = size

    def stop(self):
        size = whole(self.size)
        if not marked(size) and not whole("(long)stacks_extra"):
            return False
        stack = frames()
        if len(stack) < 2 or str(stack[1]["name"]).removeprefix("__GI_").removeprefix(
                "__libc_") not in ALLOCATOR:
            found.append({"size": size, "begun": whole("(long)stacks_begun"), "frames": stack})
        return False


class Located(gdb.Breakpoint):
    """The program knows where they are."""

    def stop(self):
        seen = set()
        for i, size in enumerate(SIZES):
            address = whole(f"(long)stacks_entry[{i}]")
            if address not in seen:
                seen.add(address)
                todo.append((address, size))
        return True


todo = []
for setting in ("pagination off", "confirm off", "backtrace past-main on", "backtrace past-entry on",
                "backtrace limit 1000", "debuginfod enabled off", "print thread-events off",
                "breakpoint pending on"):
    try:
        gdb.execute(f"set {setting}")
    except gdb.error:
        pass
for number in ("SIGUSR1", "SIGUSR2", "SIGSEGV", "SIGALRM"):
    gdb.execute(f"handle {number} nostop noprint pass", to_string=True)
located = Located("stacks_located", internal=True)
gdb.execute("run", to_string=True)
for address, size in todo:
    Entry(address, size)
gdb.execute("continue", to_string=True)  # its input is empty: it ends
with open(os.environ["HX_STACKS_OUT"], "w") as out:
    json.dump(found, out)
gdb.execute("quit")
