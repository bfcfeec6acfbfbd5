#!/usr/bin/env -S python3 -B
"""roots.py - the roots that a program or the user names, and what they share.

test/live/roots names roots with heapx/roots.h as it is told; the example is the one of the root
profiler for GHC, with malloc's sizes.
"""
import json
import os
import re
import shutil
import struct
import subprocess

import live
from live import Target, check, heapx, row, rows, victim

EXAMPLE = {"hsc": (104, 3), "hsc+eps": (64, 2), "hsc+fc": (88, 3), "hsc+eps+fc": (48, 2)}


def tell(target, line):
    """Sends a command; what the victim printed before it was done."""
    target.process.stdin.write(line.encode() + b"\n")
    target.process.stdin.flush()
    said = []
    for answer in target.process.stdout:
        if answer == b"done\n":
            return said
        said.append(answer.decode().strip())
    raise live.Failure(f"roots ended at {line!r}")


def bins(pid, *options):
    """{bin: (bytes, objects)} of a process, the unnamed rest left out; sums are tested."""
    out = heapx("report", pid, "bins", "--format", "json", *options)[1]
    found = {r["roots"]: (r["bytes"], r["objects"]) for r in json.loads(out)}
    check(all(r["objects"] > 0 for r in json.loads(out)), f"an empty bin: {found}")
    return {k: v for k, v in found.items() if k not in ("-", "(unreachable)")}


def snap(folder, pid, *options, name="s.db", ok=(0,)):
    store = os.path.join(folder, name)
    heapx("snap", pid, "-o", store, *options, ok=ok)
    return store


def check_example(pid):
    found = bins(pid)
    check(found == EXAMPLE, f"bins {found}")


def example(folder):
    for name in ("roots", "roots_stripped", "roots_static_pie", "roots_fixed"):
        with Target([victim(name)]) as target:
            tell(target, "example")
            check_example(target.pid)
            tell(target, "constant")
            found = bins(target.pid)
            # without symbols nobody knows where one variable ends: only first words count
            want = {"two": (304, 2)} if name == "roots_stripped" else {"cfg": (312, 1),
                                                                       "two": (304, 2)}
            check(found == want, f"{name}: bins {found}")


def split_off(folder):
    """Variables whose names are in a file of debug information."""
    path = os.path.join(folder, "split")
    subprocess.run(["objcopy", "--only-keep-debug", victim("roots"), path + ".debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={path}.debug", victim("roots"), path],
                   check=True, cwd=folder)
    with Target([path]) as target:
        tell(target, "constant")
        found = bins(target.pid)
        check(found == {"cfg": (312, 1), "two": (304, 2)}, f"split off: bins {found}")


def build_id(path):
    said = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    return re.search("Build ID: ([0-9a-f]+)", said)[1]


def hints(folder):
    """A variable without a name: who has its name, and what lies near."""
    with Target([victim("roots_stripped")]) as target:
        tell(target, "constant")
        names = f"debug file of build-id {build_id(victim('roots_stripped'))}"
        said = heapx("report", target.pid, "holders")[2]
        check(f"roots_stripped: its variables have no names here: {names}" in said, f"said {said}")
        store = snap(folder, target.pid, name="hints")
        page = heapx("open", store)[1]
        check("\nWho holds the memory\nholder" in page and f"names here: {names}\n" in page, page)
        held = rows(store, "SELECT address FROM objects WHERE holder LIKE 'roots_stripped+%'")
        said = heapx("why", store, held[0]["address"])[2]
        check(f"{names}; nearest symbol: " in said, f"why said {said}")
    dash = shutil.which("dash")
    if not dash or not os.path.exists("/var/lib/dpkg/info/dash.list"):
        return
    number = build_id(dash)
    if os.path.exists(f"/usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug"):
        return
    with Target([dash, "-c", "a=$(yes | head -c 100000); echo ready; read b"]) as target:
        target.wait_line("ready")
        said = heapx("report", target.pid, "holders")[2]
        check("dash: its variables have no names here: package dash-dbgsym" in said, f"said {said}")


NEIGHBOURS = {"cache": (15600, 150), "sessions": (1440, 20), "cache+sessions": (200, 1),
              "last": (312, 1)}


def neighbours(folder):
    """Variables that lie side by side, with and without symbols, at the stop and afterwards."""
    for name in ("roots", "roots_stripped"):
        with Target([victim(name)]) as target:
            places = tell(target, "neighbours")
            store = snap(folder, target.pid, name=name)
            tell(target, "none")
            bare = snap(folder, target.pid, name=name + "2")
            options = [o for n, place in zip(("cache", "sessions", "last"), places)
                       for o in ("--root", f"{n}={place}")]
            live_bins = bins(target.pid, *options)
        for how, found in (("by the program", bins(store)), ("by the user", live_bins),
                           ("afterwards", bins(bare, *options)),
                           ("renamed", {k.replace("c2", "cache"): v for k, v in bins(
                               bare, "--root", f"c2={places[0]}", *options[2:]).items()})):
            check(found == NEIGHBOURS, f"{name}, {how}: {found}")
        notes = row(store, "SELECT notes FROM snapshots")["notes"] or ""
        note = f"root cache: no symbols there, so only the pointer at {places[0]} counts"
        check((note in notes) == (name == "roots_stripped"), f"{name}: {notes!r}")
        found = rows(store, "SELECT kind, name, address, size, module FROM roots WHERE name IN"
                     " ('cache', 'sessions', 'last') ORDER BY name")
        kind, size = ("named", 8) if name == "roots_stripped" else ("global", 16)
        check([(r["kind"], r["name"], r["address"], r["module"]) for r in found] ==
              [(kind, n, int(p, 16), name) for n, p in sorted(zip(("cache", "sessions", "last"),
                                                                  places))], f"{found}")
        check(found[0]["size"] == size, f"{found}")


def in_a_library(folder):
    library = victim("roots_plugin.so")
    with Target([victim("roots")]) as target:
        check(bins(target.pid) == {}, "roots before there are any")
        tell(target, "library " + library)
        check_example(target.pid)
        tell(target, "example")  # one more array, of the program; its names are there already
        store = snap(folder, target.pid)
        notes = row(store, "SELECT notes FROM snapshots")["notes"]
        check("of several of this name the first counts" in notes, notes)
        check(sum(r["bytes"] for r in rows(store, "SELECT bytes FROM bins")) ==
              row(store, "SELECT heap_bytes b FROM snapshots")["b"], "bins do not sum up")
        taken = row(store, "SELECT name FROM roots WHERE kind = 'named' LIMIT 1")["name"]
        for where in (target.pid, store):
            err = heapx("report", where, "bins", "--root", f"{taken}=module:roots",
                        "--root", "free=module:roots")[2]
            check(err.count("\n") == 1 and "the program has a root of this name" in err and
                  taken in err, err)


def sums(folder):
    """Bins sum to the heap and are what a search from each root's edges finds."""
    with Target([victim("roots")]) as target:
        tell(target, "example")
        store = snap(folder, target.pid, "--root", "vars=global", "--root", "cfg=config")
    roots = {r["name"]: r["root_id"] for r in rows(store, "SELECT * FROM roots")}
    edges, start = {}, {}
    for e in rows(store, "SELECT * FROM edges WHERE kind <> 'x'"):
        edges.setdefault(e["source"], []).append(e["target"])
    for e in rows(store, "SELECT * FROM root_edges"):
        start.setdefault(e["root_id"], []).append(e["target"])
    reach = {}
    for name, root in (("hsc", "hsc"), ("eps", "eps"), ("fc", "fc"), ("vars", "global"),
                       ("cfg", "config")):
        seen, todo = set(), list(start[roots[root]])
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += edges.get(at, [])
        reach[name] = seen
    for o in rows(store, "SELECT address, bin, state FROM objects"):
        want = "+".join(n for n in reach if o["address"] in reach[n])
        want = want or ("-" if o["state"] in ("reachable", "possible") else "(unreachable)")
        check(o["bin"] == want, f"{o} should be in {want}")


def named_by_the_user(folder):
    with Target([victim("roots")]) as target:
        pid = target.pid
        both = ("--root", "two=global", "--root", "cfg=config")
        check(bins(pid, *both) == {"two": (104 + 200, 2), "cfg": (312, 1)} or
              bins(pid, *both) == {"two": (312, 2), "cfg": (312, 1)}, f"{bins(pid, *both)}")
        store = snap(folder, pid, *both, "--root", "none=empty_one", "--root",
                     f"self=thread:{pid}", "--root", "mod=module:roots")
        kinds = {r["name"]: r for r in rows(store, "SELECT * FROM roots WHERE kind = 'named'")}
        check(sorted(kinds) == ["mod", "none", "self"], f"named rows {sorted(kinds)}")
        check(kinds["none"]["direct_objects"] == 0 and kinds["mod"]["direct_objects"] >= 3 and
              kinds["self"]["direct_objects"] >= 1, f"{kinds}")
        check(all(k["address"] is None and k["size"] is None for name, k in kinds.items()
                  if name != "self"), f"{kinds}") # that one is all that holds something there
        check(all(k["retained_bytes"] is None for k in kinds.values()), f"{kinds}")
        notes = row(store, "SELECT notes FROM snapshots")["notes"]
        check("root none: no variable empty_one with a pointer in it" in notes, notes)
        target_of = row(store, "SELECT e.target t, e.address a FROM root_edges e JOIN roots r"
                        " USING (snapshot, root_id) WHERE r.name = 'config'")
        for expr in (hex(target_of["t"] + 5), f"*{hex(target_of['a'])}", str(target_of["t"]),
                     "roots!config", hex(target_of["a"] - 8)):
            check(bins(pid, "--root", f"x={expr}") == {"x": (312, 1)}, f"--root x={expr}")
        check(bins(pid, "--root", "x=of_thread") == {"x": (408, 1)}, "--root x=of_thread")
        for expr, status, why in (("no_such_one", 1, "no variable no_such_one in the process"),
                                  ("libc.so.6!config", 1, "no variable"), ("main", 1, "no variable"),
                                  ("config.no_list", 2, "debug information"),
                                  ("config->list->no", 2, "debug information"),
                                  ("frame:", 2, "function"), ("thread:x", 2, "thread"),
                                  ("", 2, "")):
            err = heapx("report", pid, "bins", "--root", f"x={expr}", ok=(status,))[2]
            check(why in err and err.count("\n") == 1, f"--root x={expr}: {err!r}")
        for expr in ("0x10", "thread:1", "module:nothing.so", "type:Nothing",
                     "frame:no_such"):
            check(bins(pid, "--root", f"x={expr}") == {}, f"--root x={expr}")


def changes(folder):
    """The array of each snapshot counts, also while a thread changes it all the time."""
    with Target([victim("roots")]) as target:
        store = snap(folder, target.pid)
        tell(target, "example")
        snap(folder, target.pid)
        tell(target, "none")
        snap(folder, target.pid)
        names = [[r["name"] for r in rows(store, "SELECT name FROM roots WHERE kind = 'named' AND"
                                          f" snapshot = {n} ORDER BY root_id")] for n in (1, 2, 3)]
        check(names == [[], ["hsc", "eps", "fc"], []], f"{names}")
        tell(target, "change")
        store = os.path.join(folder, "c.db")
        heapx("snap", target.pid, "-o", store, "--count", 12, "--every", "30ms")
        for n in range(1, 13):
            found = [r["name"] for r in rows(store, "SELECT name FROM roots WHERE kind = 'named' AND"
                                             f" snapshot = {n} ORDER BY root_id")]
            check(found in ([], ["one"], ["a", "b", "c"]), f"torn: {found}")


def odd_entries(folder):
    with Target([victim("roots")]) as target:
        tell(target, "odd")
        store = snap(folder, target.pid)
        check(row(store, "SELECT complete FROM snapshots")["complete"] == 1, "not complete")
        notes = row(store, "SELECT notes FROM snapshots")["notes"]
        for text in ("root null: a null pointer", "root freed: 0x",
                     "root wild: 0xdead0000beef lies in no object"):
            check(text in notes, f"no {text!r} in {notes}")
        names = [r["name"] for r in rows(store, "SELECT name FROM roots WHERE kind = 'named'"
                                         " ORDER BY root_id")]
        check(names[:5] == ["null", "freed", "wild", "root 4", "root 5"] and
              names[5] == "n" * 255 and names[6] == "a_b" and len(names) == 8, f"{names}")
        out = heapx("report", target.pid, "bins")[1]
        check("\x1b" not in out and "\\xff\\x1b[31m" in out, f"{out!r}")
        check(bins(target.pid).get("whole") == (312, 1), "a whole variable")


def absurd(folder):
    with Target([victim("roots")]) as target:
        for command in ("huge", "long", "bad"):
            tell(target, command)
            store = snap(folder, target.pid, name=command)
            r = row(store, "SELECT notes, complete FROM snapshots")
            check("the roots that roots names were not read" in r["notes"] and r["complete"] == 1,
                  f"{command}: {r}")
        tell(target, "many")
        store = snap(folder, target.pid)
        notes = row(store, "SELECT notes FROM snapshots")["notes"]
        check("of the 70000 roots that roots names 65536 were read" in notes, notes)
        check(row(store, "SELECT count(*) n FROM roots WHERE kind = 'named'")["n"] == 65536, "many")


CPP = r"""
#include <heapx/roots.h>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <unistd.h>
struct Base { virtual ~Base() {} Base *next = nullptr; };
struct Node : Base { long more[5] = {}; };
namespace app { Base *list; static Base *quiet; struct Pool { static Base *all; }; Base *Pool::all; }
namespace { Base *hidden; }
static Base *local;
std::map<std::string, int> m;
namespace svc {
std::list<std::string> slots, none;
thread_local Base *of_thread;
struct Cache {
    static Base *&get() { static Base *c; return c; }
    Base *&second() const { static Base *c; return c; }
};
Base *&get(int) { static Base *c; return c; }
}
static heapx_root roots[] = {{"list", &app::list}, {"first", nullptr}};
int main()
{
    app::list = new Node;
    app::list->next = new Base;
    app::quiet = new Base;
    app::Pool::all = new Node;
    hidden = new Base;
    local = new Node;
    m["one"] = 1;
    svc::slots.push_back("a text that is too long for a place in the string itself");
    svc::of_thread = new Base;
    svc::Cache::get() = new Node;
    svc::Cache().second() = new Base;
    svc::get(1) = new Node;
    roots[1].pointer = app::list->next;
    heapx_set_roots(roots);
    std::puts("ready");
    std::fflush(stdout);
    while (app::quiet && hidden && local)
        pause();
}
"""


def in_cpp(folder):
    """The names that a C++ program gives, and types."""
    if not shutil.which("g++"):
        raise live.Skip("no g++")
    source, program = os.path.join(folder, "cpp.cpp"), os.path.join(folder, "cpp")
    with open(source, "w") as file:
        file.write(CPP)
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include")
    subprocess.run(["g++", "-std=c++11", "-O1", "-I", include, source, "-o", program], check=True)
    with Target([program]) as target:
        target.wait_line("ready")
        found = bins(target.pid)
        check(found == {"list": (56, 1), "list+first": (24, 1)}, f"bins {found}")
        for name, size in (("app::quiet", 24), ("app::Pool::all", 56), ("hidden", 24),
                           ("(anonymous namespace)::hidden", 24), ("local", 56),
                           ("cpp!local", 56), ("svc::Cache::get()::c", 56),
                           ("svc::Cache::get::c", 56), ("svc::get(int)::c", 56),
                           ("cpp!svc::Cache::second() const::c", 24), ("svc::get::c", 56)):
            found = bins(target.pid, "--root", f"x={name}")
            check(found.get("x") == (size, 1), f"--root x={name}: {found}")
        for name, objects in (("m", 1), ("m[abi:cxx11]", 1), ("svc::slots[abi:cxx11]", 2),
                              ("svc::slots", 2), ("cpp!svc::slots", 2), ("svc::none", 0)):
            found = bins(target.pid, "--root", f"x={name}")
            check(found.get("x", (0, 0))[1] == objects, f"--root x={name}: {found}")
        for name in ("svc::of_thread", "cpp!svc::of_thread", "_ZN3svc9of_threadE"):
            found = bins(target.pid, "--root", f"x={name}")
            check(found.get("x", (0, 0))[1] == 1, f"--root x={name}: {found}")
        err = heapx("report", target.pid, "bins", "--root", "x=svc::slots[3]", ok=(2,))[2]
        check("debug information" in err, err)
        err = heapx("report", target.pid, "bins", "--root", "x=nothing[abi:cxx11]", ok=(1,))[2]
        check("no variable nothing[abi:cxx11] in the process" in err, err)
        err = heapx("report", target.pid, "bins", "--root", "x=app::nothing", ok=(1,))[2]
        check("no variable app::nothing" in err, err)
        snap(folder, target.pid)
        told(target.pid, snap(folder, target.pid))
        found = bins(target.pid, "--root", "n=type:^Node$", "--root", "b=type:Base")
        check(found == {"list+n": (56, 1), "list+first+n+b": (24, 1), "n": (224, 4),
                        "b": (96, 4)}, f"types: {found}")


TOLD = (  # options, what is told of them
    (("--root", "a=type:zz"), "--root: a=type:zz: no type matches 'zz' here"),
    (("--root", "a=type:^Node$"), None),
    (("--root", "a=svc::none"), "--root: a=svc::none: no such place, or no pointer in it"),
    (("--root", "list=m"), "--root: list=m: the program has a root of this name"),
    (("--retainer", "zz"), "--retainer: no type matches 'zz' here"),
    (("--retainer", "^Base$", "--retainer", "z="), "--retainer: no type matches 'z=' here"),
    (("--retainer", "^Base$", "--retainer", "Node"), None))


def told(pid, store):
    """What stands for nothing is told once, at the stop and afterwards; it is no failure."""
    for options, text in TOLD:
        for target in (pid, store):
            view = "bins" if options[0] == "--root" else "retainers"
            err = heapx("report", target, view, "--snapshot", "all", *options)[2]
            check(text in err and err.count("\n") == 1 if text else not err,
                  f"{target} {options}: {err!r}")


def pagemap(pid, start, end):
    """The addresses of the pages in [start, end) that are in memory."""
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(start // 4096 * 8)
        entries = struct.unpack(f"<{(end - start) // 4096}Q", file.read((end - start) // 512))
    return [start + 4096 * i for i, entry in enumerate(entries) if entry >> 63]


def resident(folder):
    """A block of which every second MiB has one page in memory."""
    with Target([victim("roots")]) as target:
        block = int(tell(target, "sparse")[0], 16)
        begin, end = block & ~4095, (block + (64 << 20)) & ~4095
        pages = pagemap(target.pid, begin, end)
        store = snap(folder, target.pid, "--root", "x=config")
        check(pagemap(target.pid, begin, end) == pages, "the pages changed")
        found = rows(store, "SELECT * FROM pages WHERE census = 'bin' AND key = 'x'")
        if not found:
            raise live.Skip("this version has no pages of bins")
        # the block's own, and the one on which the pointer to it lies among others
        check(len(pages) in (32, 33) and found[0]["only_pages"] == len(pages) and
              found[0]["shared_pages"] == 1, f"{len(pages)} pages: {found}")


if __name__ == "__main__":
    live.main(example, split_off, hints, neighbours, in_a_library, in_cpp, sums, named_by_the_user, changes,
              odd_entries, absurd, resident, long=(in_cpp, sums, changes, resident))
