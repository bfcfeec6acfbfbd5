#!/usr/bin/env -S python3 -B
"""caf.py - what is initialised once is charged to its module, whoever came first.

Builds test/live/caf with a library and a plugin: as a compiler likes it, with a function for each
function, and stripped. Sizes of blocks tell where they were asked for.
"""
import os
import subprocess

import live
import recorded
from live import check, rows

HERE = os.path.dirname(os.path.abspath(__file__))
CXX = os.environ.get("CXX", "c++")

PROGRAM, LIBRARY, PLUGIN = "caf", "libcaf.so", "caf_plugin.so"
# The module whose CAF a block of this size belongs to; None: to whoever called.
WANTED = {
    **{size: PROGRAM for size in (1001, 1002, 1003, 1102, 1201, 1202, 1203, 1204, 1205, 1206,
                                  1301)},
    **{size: None for size in (1101, 1103, 1104, 1105, 1207, 1208, 1303, 3004, 5004)},
    **{size: LIBRARY for size in (3001, 3002, 3003)},
    **{size: PLUGIN for size in (5001, 5002, 5003)},
}


def below(folder, name):
    path = os.path.join(folder, name)
    os.mkdir(path)
    return path


def build(folder, *options):
    """The program and its plugin; Skip without a compiler."""
    def compile(*words):
        try:
            subprocess.run([CXX, "-g", "-pthread", *options, *words], check=True, cwd=folder,
                           stdin=subprocess.DEVNULL, timeout=120 * live.SLOW)
        except FileNotFoundError:
            raise live.Skip(f"{CXX} is not here")
    library = os.path.join(HERE, "caf_library.cc")
    compile("-fPIC", "-shared", library, "-o", LIBRARY)
    compile("-fPIC", "-shared", "-DPLUGIN", library, "-o", PLUGIN)
    compile(os.path.join(HERE, "caf.cc"), "-L.", "-lcaf", "-Wl,-rpath,$ORIGIN", "-ldl", "-o", PROGRAM)
    return [os.path.join(folder, PROGRAM), os.path.join(folder, PLUGIN)]


def record(folder, *options):
    """The tree of a run, and the stacks of each size's blocks."""
    store = os.path.join(folder, "caf.db")
    with recorded.Run(store, build(folder, *options), "--at-exit") as run:
        check(run.wait(60, b"") == 0, f"caf ended with {run.status}: {run.err}")
    tree = recorded.Tree(store)
    caf = {row["ccs_id"] for row in rows(store, "SELECT ccs_id FROM ccs WHERE is_caf")}
    stacks = {}
    for block in recorded.objects(store, "requested is not null"):
        if block["requested"] in WANTED:
            stacks.setdefault(block["requested"], set()).add(block["ccs_id"])
    check(set(stacks) == set(WANTED), f"sizes without a block: {set(WANTED) - set(stacks)}")
    return tree, caf, stacks


def charged(folder, *options):
    """Each block lies under the right CAF; the labels of the stacks by size."""
    tree, caf, stacks = record(folder, *options)
    words = {}
    for size, module in WANTED.items():
        for stack in stacks[size]:
            path = tree.path(stack)
            shown = " > ".join(str(frame["label"]) for frame in path)
            found = [frame for frame in path if frame["ccs_id"] in caf]
            if module is None:
                check(not found, f"{options}: {size} is no initialisation, but has {shown}")
                check(len(path) > 4, f"{options}: {size}: its callers are lost: {shown}")
            else:
                check(len(found) == 1 and found[0]["depth"] == 1 and found[0]["module"] == module
                      and found[0]["label"] == "CAF",
                      f"{options}: {size} belongs to the CAF of {module}, not {shown}")
            words.setdefault(size, set()).add(tuple(tree.words(stack)))
    return words


def inlining(folder):
    """The same stacks, inlined or not."""
    one = charged(below(folder, "fast"), "-O2", "-fno-optimize-sibling-calls")
    other = charged(below(folder, "plain"), "-O0", "-fno-inline")
    for size in WANTED:
        check(one[size] == other[size],
              f"{size}: optimised {sorted(one[size] - other[size])}, "
              f"plain {sorted(other[size] - one[size])}")


def stripped(folder):
    """Without names and debug information the structure tells as much."""
    charged(below(folder, "stripped"), "-O2", "-s")
    charged(below(folder, "small"), "-Os", "-s", "-no-pie", "-fno-plt")


live.main(inlining, stripped, traces=False)
