#!/usr/bin/env -S python3 -B
"""mprof.py - mprof's tables of real programs under `heapx run`.

test/live/mprof is the worked example of mprof's paper with functions that call each other, and
test/live/mprof_cxx a C++ program: their figures are known, and rows add up to the totals.
"""
import os

import live
from live import check


def record(folder, program):
    store = os.path.join(folder, program + ".db")
    live.heapx("run", "-o", store, "--at-exit", "--", live.victim(program))
    return store


def one(store, sql):
    return real(live.row(store, sql))


def real(row):
    """Shares are no whole numbers."""
    return {key: float(value) if isinstance(value, str) and value.replace(".", "", 1).replace(
        "e-", "", 1).isdigit() else value for key, value in row.items()}


def adds_up(store):
    """Functions sum to <TOTAL>, and so do leaks and sizes."""
    total = one(store, "SELECT * FROM mprof_direct WHERE name = '<TOTAL>'")
    parts = one(store, "SELECT sum(bytes) AS bytes, sum(kept_bytes) AS kept, sum(percent) AS"
                            " percent FROM mprof_direct WHERE name <> '<TOTAL>'")
    check(parts["bytes"] == total["bytes"] and parts["kept"] == total["kept_bytes"]
          and abs(parts["percent"] - 100) < 1e-6, f"{parts} of {total}")
    leaks = one(store, "SELECT sum(kept_bytes) AS kept FROM mprof_leaks")
    check(leaks["kept"] == total["kept_bytes"], f"leaks: {leaks} of {total}")
    bins = one(store, "SELECT * FROM mprof_bins WHERE size = '<TOTAL>'")
    check(bins["bytes"] == total["bytes"] and bins["allocs"] == total["calls"],
          f"sizes: {bins} of {total}")
    return total


def example(folder):
    """10,000 widgets of 204 bytes, 4,981 freed."""
    store = record(folder, "mprof")
    adds_up(store)
    leak = one(store, "SELECT * FROM mprof_leaks WHERE path LIKE '%make_widget'")
    check(leak["path"] == "main > make_red_widget > make_widget" and not leak["cut"]
          and (leak["kept_bytes"], leak["allocs"], leak["frees"]) == (1023876, 5019, 0)
          and leak["kept_percent"] > 99, f"leak {leak}")
    held = one(store, "SELECT * FROM mprof_held WHERE path LIKE '%make_widget'")
    check(held["holder"] == "kept" and held["objects"] == 5019 and held["lost_bytes"] == 0,
          f"held {held}")
    size = one(store, "SELECT * FROM mprof_bins WHERE size = 204")
    check((size["allocs"], size["frees"], size["kept_bytes"]) == (10000, 4981, 1023876),
          f"size {size}")
    direct = one(store, "SELECT * FROM mprof_direct WHERE name = 'make_widget'")
    check(direct["m"] == direct["percent"] > 99 and direct["kept_m"] > 99
          and direct["s"] == direct["l"] == direct["x"] == 0, f"direct {direct}")
    red = one(store, "SELECT a.* FROM mprof_graph AS a JOIN mprof_graph AS s USING(entry)"
                          " WHERE s.line = 'self' AND s.name = 'make_widget'"
                          " AND a.line = 'ancestor' AND a.name = 'make_red_widget'")
    check(red["bytes"] == 1023876 and 50 < red["frac_m"] < 51 and red["called"] == 5019,
          f"ancestor {red}")
    text = live.heapx("report", store, "mprof_leaks")[1]
    check("|| > main > make_red_widget > make_widget" in text and "by `kept`" in text, text)
    check(all(len(line) <= 100 for line in live.heapx("report", store, "mprof_graph")[1].split("\n")),
          "the call graph is wider than 100 columns")


def recursion(folder):
    """Two functions that call each other are a cycle."""
    store = record(folder, "mprof")
    lines = live.rows(store, "SELECT g.* FROM mprof_graph AS g JOIN mprof_graph AS s USING(entry)"
                             " WHERE s.line = 'self' AND s.name = '<cycle 1>'")
    members = {line["name"] for line in lines if line["line"] == "member"}
    above = [line for line in lines if line["line"] == "ancestor"]
    own = [real(line) for line in lines if line["line"] == "self"]
    check(members == {"even", "odd"}, f"members {lines}")
    check([(line["name"], line["bytes"], line["called"]) for line in above] == [("main", 40, 4)],
          f"ancestors {above}")
    check(own[0]["bytes"] == 40 and own[0]["bytes_percent"] == 100, f"cycle {own}")
    inside = live.rows(store, "SELECT g.* FROM mprof_graph AS g JOIN mprof_graph AS s USING(entry)"
                              " WHERE s.line = 'self' AND s.name = 'odd' AND g.name = 'even'")
    check(inside and all(line["bytes"] is None and line["called"] for line in inside),
          f"inside {inside}")


def cxx(folder):
    """operator new is nobody's function; what a vector asks for is asked on behalf of its user."""
    store = record(folder, "mprof_cxx")
    total = adds_up(store)
    direct = one(store, "SELECT * FROM mprof_direct WHERE name LIKE 'grow%'")
    check(direct["bytes"] == direct["kept_bytes"] == 100 * 300 and direct["calls"] == 100
          and direct["l"] == direct["percent"], f"grow {direct}")
    grow = one(store, "SELECT * FROM mprof_graph WHERE line = 'self' AND name LIKE 'grow%'")
    vector = 8 * (2 ** 8 - 1)  # 1, 2, 4 ... 128 pointers
    check(round(grow["self_desc_percent"] * total["bytes"] / 100) == 100 * 300 + vector,
          f"grow {grow} of {total}")
    size = one(store, "SELECT * FROM mprof_bins WHERE size = 300")
    check(size["allocs"] == 100 and "part" in size["types"].split(", "), f"size {size}")


live.main(example, recursion, cxx, traces=False)
