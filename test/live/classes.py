#!/usr/bin/env -S python3 -B
"""classes.py - are the types of a C++ program served as the program itself knows them?

Snapshots of test/live/classes in the shapes that programs come in; every block that it
tells of is compared with `objects`, and the view `types` with the sums over `objects`.
"""
import json
import os
import sys

import live
from live import check, heapx, rows


def mangled():
    """Was heapx built without what makes names readable?"""
    try:
        with open(os.path.join(live.BUILD, "config.h")) as config:
            return "#define HX_HAVE_DEMANGLER 1" not in config.read()
    except FileNotFoundError:
        return False


def read_truth(target):
    """{address: (confidence, name)}, None and None for a block without a type."""
    truth = {}
    for line in target.process.stdout:
        words = line.decode().rstrip("\n").split(" ", 2)
        if words == ["ready"]:
            return truth
        address, confidence, name = words
        truth[int(address, 16)] = (None, None) if name == "-" else (confidence, name)
    raise live.Failure("the truth ends early")


def check_objects(truth, store):
    types = {r["address"]: r["type"] for r in rows(store, "SELECT address, type FROM objects")}
    wrong = [(hex(a), name, types.get(a, "no object"))
             for a, (_, name) in truth.items() if types.get(a, "no object") != name]
    check(not wrong, f"{len(wrong)} objects of another type: {wrong[:5]}")


def check_view(truth, store):
    view = {r["type"]: r for r in rows(store, "SELECT * FROM types")}
    sums = rows(store, "SELECT coalesce(type, '(unknown)') AS type, count(*) AS objects, "
                       "sum(bytes) AS bytes FROM objects GROUP BY 1")
    for one in sums:
        found = view.get(one["type"])
        check(found and (found["objects"], found["bytes"]) == (one["objects"], one["bytes"]),
              f"types has {found} where objects has {one}")
    check(len(sums) == len(view), f"{len(view)} types, {len(sums)} in objects")
    heap = live.row(store, "SELECT heap_bytes AS bytes FROM snapshots")["bytes"]
    check(sum(r["bytes"] for r in view.values()) == heap, "types do not sum to heap_bytes")
    for name in {name for _, name in truth.values() if name}:
        likely = any(c == "likely" for c, n in truth.values() if n == name)
        check(view[name]["confidence"] == ("likely" if likely else "certain"),
              f"{name} is called {view[name]['confidence']}")
    check(view.get("(unknown)", {}).get("confidence") is None, "what is unknown is certain")


def run(folder, name, *arguments):
    store = os.path.join(folder, "store")
    plugins = [live.victim(a) for a in arguments]
    command = [live.victim(name)] + (["-m"] if mangled() else []) + plugins
    with live.Target(command) as target:
        truth = read_truth(target)
        heapx("snap", target.pid, "-o", store, "--threads", 2)
    check_objects(truth, store)
    check_view(truth, store)
    named = sum(1 for _, n in truth.values() if n)
    print(f"  {len(truth)} blocks, {named} with a type")
    check((named > 300) != (name == "classes_plain"), "the program made something else")


def dynamic(folder):
    run(folder, "classes")


def plugin(folder):
    run(folder, "classes", "classes_plugin.so")


def fixed(folder):
    run(folder, "classes_fixed", "classes_plugin.so")


def static_stripped(folder):
    run(folder, "classes_static_stripped")


def static_pie(folder):
    run(folder, "classes_static_pie")


def without_rtti(folder):
    run(folder, "classes_plain")


def chosen_stay(folder):
    """Another limit of the sets asks for the types that were chosen at first."""
    store = os.path.join(folder, "store")
    with live.Target([live.victim("classes")]) as target:
        read_truth(target)
        heapx("snap", target.pid, "-o", store)
        name = live.row(store, "SELECT type AS name FROM types WHERE confidence = 'certain' "
                               "ORDER BY retained_bytes DESC LIMIT 1")["name"]
        heapx("snap", target.pid, "-o", store, "--retainer", name, "--retainer", "none such",
              "--max-set", 0)
    first = rows(store, "SELECT * FROM retainers WHERE snapshot = 2 ORDER BY set_id")
    again = json.loads(heapx("report", store, "retainers", "--max-set", 0, "--sort", "set_id",
                             "--format", "json")[1])
    check(again == first, f"{again[:5]} are not {first[:5]}")
    every = json.loads(heapx("report", store, "retainers", "--max-set", 0, "--scheme", "type",
                             "--format", "json")[1])
    check(len(every) > len(first), "all types are no more than one")


if __name__ == "__main__":
    sys.exit(live.main(dynamic, plugin, fixed, static_stripped, static_pie, without_rtti,
                       chosen_stay))
