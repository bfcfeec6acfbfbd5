#!/usr/bin/env -S python3 -B
"""stacks.py - recorded stacks against gdb's.

    stacks.py [oracle|run|record]        environment: HX_STACKS_SHOW=1 prints every mismatch

gdb breaks at malloc and its kin in test/live/stacks and writes the frames of each marked
call; the recorders must find the same functions in at least 98 of 100 frames. Frames that gdb
only infers (tail calls, which have left nothing on the stack) count against the recorder too.
"""
import difflib
import json
import os
import re
import shutil
import subprocess
import time

import live
import recorded
from live import check

LEAST = 0.98
ALLOCATOR = re.compile(
    r"^(__GI_)?(__libc_|_int_|__)?(malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|"
    r"posix_memalign|valloc|pvalloc|_mid_memalign)(_impl)?$|^operator new(\[\])?$")


def victim_argv():
    plugin, stripped = live.victim("stacks_plugin.so"), live.victim("stacks_stripped.so")
    return [live.victim("stacks"), plugin, stripped]


def brackets_off(text, opening, closing):
    """Without what stands in balanced brackets."""
    result, depth = [], 0
    for char in text:
        if char == opening:
            depth += 1
        elif char == closing and depth:
            depth -= 1
        elif depth == 0:
            result.append(char)
    return "".join(result)


def base(name):
    """A function's name without arguments, template arguments, return type and clone."""
    name = re.sub(r"@.*$", "", name)
    name = re.sub(r"\s*\[clone [^]]*\]", "", name)
    if name.startswith("non-virtual thunk to "):
        name = name[len("non-virtual thunk to "):]
    name = name.replace("(anonymous namespace)", "{anonymous}")
    name = name.replace("operator()", "operator{}").replace("operator<<", "operator{l}")
    name = name.replace("operator<", "operator{s}").replace("operator->", "operator{a}")
    name = brackets_off(brackets_off(name, "<", ">"), "(", ")").strip()
    name = re.sub(r"(\s+const)?(\s*&+)?$", "", name)
    if "operator new" in name or "operator delete" in name:
        name = re.sub(r"^.*\b(operator (new|delete))\b", r"\1", name)
    elif " " in name:
        name = name.rsplit(" ", 1)[1]
    name = re.sub(r"\[abi:[^]]*\]", "", name)
    name = re.sub(r"\.(part|constprop|isra|cold|lto_priv)(\.\d+)*", "", name)
    return re.sub(r"::\{lambda.*\}::", "::", name)


class Aliases:
    """All names that a library has for one address, from its symbols and separate ones."""

    def __init__(self):
        self.known = {}

    def address(self, module, name):
        if module not in self.known:
            self.known[module] = self.read(module)
        return self.known[module].get(name)

    @staticmethod
    def read(module):
        files, table = [module], {}
        notes = subprocess.run(["readelf", "-n", module], capture_output=True, text=True).stdout
        build = re.search(r"Build ID: ([0-9a-f]+)", notes)
        if build:
            files.append(f"/usr/lib/debug/.build-id/{build[1][:2]}/{build[1][2:]}.debug")
        for file in files:
            for option in ([], ["-D"], ["-C"]):
                said = subprocess.run(["nm", *option, file], capture_output=True, text=True).stdout
                for line in said.splitlines():
                    part = line.split(maxsplit=2)
                    if len(part) == 3 and part[1] in "tTwWiI":
                        table.setdefault(base(part[2]), int(part[0], 16))
        return table


ALIASES = Aliases()


def same(ours, theirs):
    """ours: {label, module}; theirs: {name, module, kind} of gdb."""
    if theirs["name"] is None:  # stripped: the module must be the same
        return os.path.basename(theirs["module"]) in (ours["label"].split("+")[0],
                                                      os.path.basename(ours["module"] or ""))
    a, b = base(ours["label"]), base(theirs["name"])
    if a == b or a.removeprefix("__GI_") == b.removeprefix("__GI_"):
        return True
    # gdb leaves out the enclosing function of a lambda, and of local classes
    if a.rsplit("::", 1)[-1] == b.rsplit("::", 1)[-1] in ("operator{}", "_FUN"):
        return True
    if theirs["module"]:
        one, two = (ALIASES.address(theirs["module"], n) for n in (a, b))
        return one is not None and one == two
    return False


def outermost_first(frames):
    """gdb's frames without malloc itself, and without those that it found beyond the end."""
    frames = frames[::-1]
    while frames and frames[0]["name"] is None:
        frames.pop(0)
    while frames and ALLOCATOR.match(base(frames[-1]["name"] or "?")):
        frames.pop()
    return frames


def compare_one(ours, theirs):
    """(frames of gdb found, frames of gdb, frames that gdb has not, text)"""
    ours = [f for f in ours if f["label"] != "MAIN"]
    while ours and ALLOCATOR.match(base(ours[-1]["label"])):
        ours.pop()
    if ours and base(ours[0]["label"]) == "__start_context":
        ours.pop(0)  # where a context of makecontext() ends; gdb has no name for it
    # Names in our frames are replaced by gdb's where they mean the same, then it is a plain diff.
    key = [f"{f['name']}|{f['module']}" for f in theirs]
    mine = []
    for frame in ours:
        match = next((k for k, t in zip(key, theirs) if same(frame, t)), None)
        mine.append(match or "?" + frame["label"])
    matcher = difflib.SequenceMatcher(None, key, mine, autojunk=False)
    found = sum(block.size for block in matcher.get_matching_blocks())
    lines = []
    for op, a0, a1, b0, b1 in matcher.get_opcodes():
        if op != "equal":
            lines += [f"    gdb only: {t['name']} ({t['kind']}, {os.path.basename(t['module'])})"
                      for t in theirs[a0:a1]]
            lines += [f"    ours only: {f['label']} ({f['module']})" for f in ours[b0:b1]]
    return found, len(theirs), len(ours) - found, "\n".join(lines)


def oracle_frames(folder):
    if not shutil.which("gdb"):
        raise live.Skip("gdb is not installed")
    if "python" not in subprocess.run(["gdb", "-nx", "-batch", "-ex", "python print('python')"],
                                      capture_output=True, text=True).stdout:
        raise live.Skip("gdb has no Python")
    path = f"{folder}/gdb.json"
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stacks_gdb.py")
    run = subprocess.run(["gdb", "-nx", "-batch", "-x", script, "--args", *victim_argv()],
                         env=dict(os.environ, HX_STACKS_OUT=path), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=100 * live.SLOW,
                         preexec_fn=live.end_with_parent)
    check(os.path.exists(path), f"gdb: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    with open(path) as file:
        found = json.load(file)
    by_size = {}
    for call in found:
        if by_size.get(call["size"], call)["begun"] == call["begun"]:
            by_size.setdefault(call["size"], call)
    return by_size


def oracle(folder):
    """gdb alone: what the comparison rests on."""
    calls = oracle_frames(folder)
    frames = [f for call in calls.values() for f in call["frames"]]
    kinds = {kind: sum(f["kind"] == kind for f in frames) for kind in {f["kind"] for f in frames}}
    print(f"  {len(calls)} stacks, {len(frames)} frames: {kinds}")
    check(len(calls) >= 60, f"only {len(calls)} stacks")
    check(max(len(call["frames"]) for call in calls.values()) > 200, "no deep recursion")
    # The comparison itself: gdb's frames against themselves are all found, and damage is seen.
    for call in calls.values():
        theirs = outermost_first(call["frames"])
        ours = [{"label": f["name"] or os.path.basename(f["module"]) + "+0x10",
                 "module": f["module"]} for f in theirs]
        found, total, extra, text = compare_one(ours, theirs)
        check((found, extra) == (total, 0), f"size {call['size']}:\n{text}")
        found, total, _, _ = compare_one(ours[1:], theirs)
        check(found == total - 1, f"size {call['size']}: a lost frame is not seen")


def compare(folder, store, before_too):
    """The objects of the store's last snapshot against gdb."""
    calls = oracle_frames(folder)
    tree = recorded.Frames(store)
    blocks = {}
    for row in recorded.objects(store):
        if row["requested"] is not None:
            blocks.setdefault(row["requested"], []).append(row)
    stacks = found = total = extra = inferred = 0
    show = os.environ.get("HX_STACKS_SHOW")
    text = []
    for size, call in sorted(calls.items()):
        mine = blocks.get(size, [])
        marked = 20007 <= size < 24103 and size % 16 == 7
        if not call["begun"] and not before_too or not marked and (len(mine) != 1 or size < 200):
            continue
        theirs = outermost_first(call["frames"])
        stacks += 1
        total += len(theirs)
        inferred += sum(f["kind"] == "tail" for f in theirs)
        if len(mine) != 1:
            text.append(f"  size {size}: {len(mine)} blocks of it recorded")
            continue
        one, _, more, lines = compare_one(tree.path(mine[0]["stack_id"]), theirs)
        found += one
        extra += more
        if lines:
            text.append(f"  size {size} (mark {(size - 20007) // 16}):\n{lines}")
    print(f"  {stacks} stacks, {total} frames of gdb ({inferred} inferred), {found} found = "
          f"{100 * found / max(total, 1):.2f} %, {extra} more")
    if text and (show or found + 0 < LEAST * (total + extra)):
        print("\n".join(text))
    check(stacks >= 50, f"only {stacks} stacks")
    check(found >= LEAST * (total + extra), f"{found} of {total} frames, {extra} that gdb has not")


def run(folder):
    """heapx run: from the first allocation on, static constructors too."""
    store = f"{folder}/run.db"
    with recorded.Run(store, victim_argv(), "--at-exit", stdin=subprocess.DEVNULL) as target:
        check(target.wait(60) == 0, f"exit {target.status}: {target.err}")
    compare(folder, store, True)


def record(folder):
    """heapx record: from where it was attached."""
    recorded.may_probe()
    store = f"{folder}/record.db"
    with live.Target([*victim_argv(), "wait"]) as target:
        entries = [int(e, 16) for e in target.wait_line("entry").split()[1:]]
        with recorded.Record(store, target.pid, entries) as recorder:
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            target.wait_line("ready")
            time.sleep(0.3)
            recorder.end()
    compare(folder, store, False)


if __name__ == "__main__":
    live.main(oracle, run, record)
