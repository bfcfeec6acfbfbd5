"""heapsnapshot_file.py - a strict reader of .heapsnapshot files, and what a store says of the same.

Strict: everything that a known reader insists on is demanded, also what others forgive.
"""
import collections
import json
import os
import re
import subprocess

HEAPX = os.path.join(os.environ.get("HX_BUILDDIR", "."), "heapx")
U32 = 2 ** 32 - 1
NODE_FIELDS = ["type", "name", "id", "self_size", "edge_count"]
FOLLOWED = {"known": ("start", "known", "interior"), "on": ("start", "known", "interior"),
            "off": ("start", "known")}


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def run(*words, status=0):
    done = subprocess.run([HEAPX, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)
    check(done.returncode == status, f"heapx {words}: {done.returncode}, {done.stderr}")
    return done


def rows(store, sql):
    return json.loads(run("sql", store, sql, "--format", "json").stdout)


Node = collections.namedtuple("Node", "index type name id size trace edges")
Edge = collections.namedtuple("Edge", "type name to")


class Heap:
    """nodes, with edges; the tree of traces as {id: (function, count, size, parent)}."""

    def __init__(self, data):
        text = data.decode("utf-8")
        members = json.loads(text, object_pairs_hook=list, parse_constant=self.refuse)
        check([k for k, _ in members] == [
            "snapshot", "nodes", "edges", "trace_function_infos", "trace_tree", "samples",
            "locations", "strings"], f"members {[k for k, _ in members]}")
        self.file = {k: v for k, v in members}
        self.head = dict(self.file["snapshot"])
        self.meta = dict(self.head["meta"])
        self.read_meta()
        self.read_strings()
        self.read_nodes()
        self.read_traces()

    @staticmethod
    def refuse(word):
        raise SystemExit(f"FAILED: {word} in the file")

    def numbers(self, key, fields):
        values = self.file[key]
        check(len(values) % fields == 0, f"{key}: {len(values)} is not a multiple of {fields}")
        check(all(type(v) is int and 0 <= v <= U32 for v in values), f"{key}: not 32 bits")
        return [values[i:i + fields] for i in range(0, len(values), fields)]

    def read_meta(self):
        meta = self.meta
        self.traced = meta["node_fields"] == NODE_FIELDS + ["trace_node_id"]
        check(self.traced or meta["node_fields"] == NODE_FIELDS, meta["node_fields"])
        check(len(meta["node_types"]) == len(meta["node_fields"]), "node_types")
        check(meta["node_types"][0][8:10] == ["native", "synthetic"], meta["node_types"])
        check(meta["edge_fields"] == ["type", "name_or_index", "to_node"], meta["edge_fields"])
        check(meta["edge_types"] == [["context", "element", "property", "internal", "hidden",
                                      "shortcut", "weak"], "string_or_number", "node"],
              meta["edge_types"])
        check(not meta.get("sample_fields") or "samples" in self.file, "no samples")
        check(not meta.get("location_fields") or "locations" in self.file, "no locations")

    def read_strings(self):
        self.strings = self.file["strings"]
        check(all(type(s) is str for s in self.strings), "strings")
        check(len(self.strings) <= U32, "too many strings")

    def read_nodes(self):
        fields = len(self.meta["node_fields"])
        nodes, edges = self.numbers("nodes", fields), self.numbers("edges", 3)
        check(self.head["node_count"] == len(nodes), "node_count")
        check(self.head["edge_count"] == len(edges), "edge_count")
        check(sum(n[4] for n in nodes) == len(edges), "edge counts do not add up")
        check(len({n[2] for n in nodes}) == len(nodes), "an id comes twice")
        self.nodes, at = [], 0
        for index, node in enumerate(nodes):
            check(node[2] % 2 == 1, f"an even id: {node}")
            mine, at = edges[at:at + node[4]], at + node[4]
            for edge in mine:
                check(edge[0] < 7 and edge[2] % fields == 0 and edge[2] // fields < len(nodes),
                      f"edge {edge} of {node}")
                check(edge[0] in (1, 4) or edge[1] < len(self.strings), f"name of {edge}")
            self.nodes.append(Node(index, self.meta["node_types"][0][node[0]],
                                   self.strings[node[1]], node[2], node[3],
                                   node[5] if self.traced else 0,
                                   [Edge(self.meta["edge_types"][0][e[0]],
                                         e[1] if e[0] in (1, 4) else self.strings[e[1]],
                                         e[2] // fields) for e in mine]))

    def read_traces(self):
        infos = self.numbers("trace_function_infos", 6)
        check(self.head["trace_function_count"] == len(infos), "trace_function_count")
        check(all(i[1] < len(self.strings) and i[2] < len(self.strings) for i in infos), "infos")
        self.functions = [(self.strings[i[1]], self.strings[i[2]], i[4]) for i in infos]
        self.traces = {}
        todo = [(self.file["trace_tree"], 0)]
        while todo:
            flat, parent = todo.pop()
            check(len(flat) % 5 == 0, "trace_tree")
            for i in range(0, len(flat), 5):
                name, function, count, size, children = flat[i:i + 5]
                check(name not in self.traces and name > 0 and function < len(infos),
                      f"trace {flat[i:i + 4]}")
                self.traces[name] = (function, count, size, parent)
                todo.append((children, name))
        check(all(n.trace == 0 or n.trace in self.traces for n in self.nodes), "a trace")

    def layout(self):
        """Is it V8's? The nodes of the roots, in their order."""
        root, gc = self.nodes[0], self.nodes[1]
        check(root.type == gc.type == "synthetic" and gc.name == "(GC roots)", f"{root} {gc}")
        check(all(n.type == "native" for n in self.nodes[2:]), "a node that is not native")
        check(root.edges[0].type == "element" and root.edges[0].to == 1, root)
        categories = [e.to for e in root.edges[1:]]
        check(all(e.type == "shortcut" for e in root.edges[1:]), root)
        check(len(set(categories)) == len(categories), "an edge twice")
        check([e.to for e in gc.edges] == categories, gc)
        check(all(e.type == "internal" for e in gc.edges), gc)
        roots = []
        for c in categories:
            check(self.nodes[c].size == 0 and self.nodes[c].edges, self.nodes[c])
            check(all(e.type == "property" for e in self.nodes[c].edges), self.nodes[c])
            roots += [e.to for e in self.nodes[c].edges]
        check(len(set(roots)) == len(roots), "a root in two categories")
        check(all(self.nodes[r].size == 0 for r in roots), "a root with a size")
        return sorted(roots)

    def reach(self, without=None):
        seen, todo = {0} - {without}, [0] * (without != 0)
        while todo:
            for edge in self.nodes[todo.pop()].edges:
                if edge.to not in seen and edge.to != without:
                    seen.add(edge.to)
                    todo.append(edge.to)
        return seen

    def figures(self):
        """{index: (index of the dominator, retained size)}, by the definition itself."""
        all_of_them = self.reach()
        owned = {i: all_of_them - self.reach(i) for i in all_of_them}
        found = {0: (None, sum(self.nodes[i].size for i in all_of_them))}
        for i in all_of_them - {0}:
            above = [d for d in all_of_them if d != i and i in owned[d]]
            found[i] = (min(above, key=lambda d: len(owned[d])),
                        sum(self.nodes[k].size for k in owned[i]))
        return found


ADDRESS = re.compile(r" 0x([0-9a-f]+)>?\Z")


def address_of(name):
    found = ADDRESS.search(name)
    return int(found[1], 16) if found else None


class Stored:
    """What the store says of one snapshot, for many of them asked at once."""

    def __init__(self, path):
        self.snapshots = [r["snapshot"] for r in rows(path, "select snapshot from snapshots")]
        self.interior = {r["snapshot"]: ("known", "on", "off")[r["interior"]]
                         for r in rows(path, "select snapshot, interior from hx_snapshot")}
        self.objects = collections.defaultdict(dict)
        for r in rows(path, "select * from objects"):
            self.objects[r["snapshot"]][r["address"]] = r
        self.roots = collections.defaultdict(dict)
        for r in rows(path, "select * from roots"):
            self.roots[r["snapshot"]][r["root_id"]] = r
        self.edges = self.group(rows(path, "select * from edges"))
        self.root_edges = self.group(rows(path, "select * from root_edges"))

    @staticmethod
    def group(found):
        groups = collections.defaultdict(list)
        for r in found:
            groups[r["snapshot"]].append(r)
        return groups

    def shown_roots(self, snapshot):
        """Those that hold something, in order."""
        kinds = FOLLOWED[self.interior[snapshot]]
        held = {e["root_id"] for e in self.root_edges[snapshot] if e["kind"] in kinds}
        return [r for n, r in sorted(self.roots[snapshot].items())
                if n in held and r["kind"] != "named"]

    def compare(self, snapshot, found, where):
        """`found`: [(name, name of the dominator, retained size, reached)] of all nodes, in order.
        Returns how many objects were compared."""
        objects = self.objects[snapshot]
        n_roots = len(self.shown_roots(snapshot))
        named = {}
        for name, dominator, retained, reached in found:
            address = address_of(name)
            if address in objects and not name.startswith("more of "):
                check(address not in named, f"{where}: {name} comes twice")
                named[address] = (dominator, retained, reached)
        check(len(named) == len(objects), f"{where}: {len(named)} of {len(objects)} objects")
        compared = 0
        for address, (dominator, retained, reached) in named.items():
            o = objects[address]
            check(bool(reached) == (o["retained_bytes"] is not None), f"{where}: {o} {reached}")
            if not reached:
                continue
            compared += 1
            check(retained == o["retained_bytes"], f"{where}: {o}, retained size {retained}")
            above = address_of(dominator)
            check((above if above in objects else None) == o["dominator"],
                  f"{where}: {o}, dominator {dominator}")
        first = next(i for i, f in enumerate(found) if address_of(f[0]) in objects)
        for f, r in zip(found[first - n_roots:first], self.shown_roots(snapshot)):
            check(f[2] == r["retained_bytes"], f"{where}: root {r}, retained size {f[2]}")
        return compared
