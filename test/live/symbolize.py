#!/usr/bin/env -S python3 -B
"""symbolize.py - a store that was taken without debug information gets the names and types that one
has which was taken with it, of the same process.

Programs are those of typed.py, stripped: in C, in C++ with containers, and with thread-local
variables and a library that is loaded later. Files lie by build-id, by name, or anyhow in a folder.
"""
import os
import shutil
import subprocess
import time

import live
import typed
from live import check, heapx, row, rows

QUESTIONS = {
    "types": "SELECT type, confidence, bytes, objects, retained_bytes, symbol, source FROM types"
             " ORDER BY type",
    "roots": "SELECT kind, name, module, symbol, address, size, direct_objects, retained_bytes"
             " FROM roots ORDER BY kind, name, address",
    "holders": "SELECT holder, kind, module, bytes, objects, alone_bytes, contested_bytes, entries"
               " FROM holders ORDER BY holder, kind, module",
    "retainers": "SELECT label, bytes, objects FROM retainers ORDER BY label",
    "leaks": "SELECT kind, type, bytes, objects FROM leaks ORDER BY kind, type",
    "edges": "SELECT rank, count(*) AS n FROM edges GROUP BY rank",
    "objects": "SELECT address, type, holder, dominator, retained_bytes FROM objects"
               " ORDER BY address",
    "snapshots": "SELECT typed_bytes, stray_edges, analysed FROM snapshots",
}


def split(folder, program, keep):
    """Strips a program; its debug information goes to `keep`."""
    debug = os.path.join(folder, "split")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    os.makedirs(os.path.dirname(keep), exist_ok=True)
    shutil.move(debug, keep)


def build_id(path):
    text = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    return text.split("Build ID:")[1].split()[0]


def linked(program, debug):
    """Where a debugger looks for it, beside the program: by the checksum of its debug link."""
    place = os.path.join(os.path.dirname(program), ".debug")
    os.makedirs(place, exist_ok=True)
    name = os.path.join(place, os.path.basename(debug))
    shutil.copy(debug, name)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={name}", program], check=True)
    return place


def compare(folder, program, what, files):
    """files: (file, where its debug information is). It is beside the file for the first snapshot
    only."""
    places = [linked(file, debug) for file, debug in files]
    before, after = (os.path.join(folder, name) for name in ("with", "without"))
    where = files[0][1].split("/.build-id/")[0]
    where = os.path.dirname(where) if os.path.isfile(where) else where
    with typed.Program(program) as target:
        time.sleep(0.3)
        heapx("snap", target.pid, "-o", before)
        for place in set(places):
            shutil.rmtree(place)
        heapx("snap", target.pid, "-o", after)
    check(any(a != b for a, b in zip(rows(before, QUESTIONS["types"]),
                                     rows(after, QUESTIONS["types"]))), f"{what}: already typed")
    said = heapx("symbolize", after, "--debug", where)[1]
    for file, debug in files:
        check(f"{file}  {debug}  names and types\n" in said, f"{what}: {said}")
    for name, question in QUESTIONS.items():
        a, b = rows(before, question), rows(after, question)
        differ = [pair for pair in zip(a, b) if pair[0] != pair[1]]
        check(a == b, f"{what}: {name}: {len(a)} and {len(b)} rows: {differ[:3]}")
    heapx("symbolize", after, "--debug", where)
    check(all(rows(before, q) == rows(after, q) for q in QUESTIONS.values()), f"{what}: twice")
    os.unlink(before)
    os.unlink(after)


def c_program(folder):
    for flags in ("-O0", "-O2"):
        program = typed.build(folder, typed.C_PROGRAM, ".c", "gcc", "-w", "-g", flags)
        debug = f"{folder}/debug/.build-id/{build_id(program)[:2]}/{build_id(program)[2:]}.debug"
        split(folder, program, debug)
        os.makedirs(f"{folder}/anyhow", exist_ok=True)
        shutil.copy(debug, f"{folder}/anyhow/some.file")
        for place in (f"{folder}/anyhow/some.file", debug):
            copy = f"{program}.{os.path.basename(place)}"
            shutil.copy(program, copy)
            compare(folder, copy, f"C {flags}", [(copy, place)])


def cxx_program(folder):
    program = typed.build(folder, typed.CXX_PROGRAM, ".cc", "g++", "-std=c++17", "-w", "-g", "-O1")
    split(folder, program, f"{folder}/debug/p.debug")
    compare(folder, program, "C++", [(program, f"{folder}/debug/p.debug")])


def thread_locals(folder):
    """But for those of the library, whose blocks lie on the heap."""
    source = os.path.join(folder, "lib.c")
    with open(source, "w") as file:
        file.write(typed.LOCAL_LIBRARY)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", "lib.so", source], check=True, cwd=folder)
    program = typed.build(folder, typed.LOCAL_PROGRAM, ".cc", "g++", "-std=c++17", "-g", "-O1")
    split(folder, program, f"{folder}/debug/p.debug")
    store, before = os.path.join(folder, "local"), os.getcwd()
    os.chdir(folder)
    with typed.Program(program) as target:
        heapx("snap", target.pid, "-o", store)
        truth = {at: name for at, name in target.types.items() if name.startswith("app::")}
    os.chdir(before)
    heapx("symbolize", store, "--debug", f"{folder}/debug")
    roots = {int(r["address"]): r for r in rows(store, "SELECT * FROM roots WHERE kind = 'tls'")}
    check(len(truth) == 8, f"{truth}")
    for address, name in truth.items():
        check(address in roots and roots[address]["name"] == name, f"{name}: {roots.get(address)}")
    held = {r["holder"]: int(r["objects"]) for r in rows(store, "SELECT * FROM holders")}
    check(held.get("app::mine") == held.get("app::cache") == 6100, held)
    nodes = row(store, "SELECT objects FROM types WHERE type = 'Node'")
    check(nodes and int(nodes["objects"]) == 6100, nodes)


def refused(folder):
    """Files of another build, and stores that do not say what they are of."""
    program = typed.build(folder, typed.C_PROGRAM, ".c", "gcc", "-w", "-g")
    shutil.copy(program, f"{folder}/kept")
    split(folder, program, f"{folder}/debug/p.debug")
    store = os.path.join(folder, "store")
    with typed.Program(program) as target:
        heapx("snap", target.pid, "-o", store)
        heapx("snap", target.pid, "-o", store)
    typed.build(folder, typed.C_PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    with open(store, "rb") as file:
        bytes_before = file.read()
    os.makedirs(f"{folder}/wrong", exist_ok=True)
    shutil.move(program, f"{folder}/wrong/p.debug")
    said = heapx("symbolize", store, "--debug", f"{folder}/wrong", "--snapshot", "1")[1]
    check(f"{program}  another build: build-id " in said, said)
    check(not rows(store, "SELECT * FROM types WHERE type = 'item'"), "types of another build")
    with open(store, "wb") as file:
        file.write(bytes_before)
    shutil.copy(f"{folder}/kept", program)
    subprocess.run(["strip", "-g", program], check=True)
    said = heapx("symbolize", store)[1]
    wanted = f"debug information: debug file of build-id {build_id(program)}, here or in --debug DIR\n"
    check(f"{program}  {program}  names, no {wanted}" in said, said)
    subprocess.run(["strip", program], check=True)
    said = heapx("symbolize", store)[1]
    check(f"{program}  {program}  no {wanted}" in said, said)
    check(not rows(store, "SELECT * FROM types WHERE type = 'item'"), "types of a stripped file")
    shutil.move(f"{folder}/kept", program)
    said = heapx("symbolize", store)[1]
    check(f"{program}  {program}  names and types\n" in said, said)
    typed_bytes = [r["typed_bytes"] for r in rows(store, "SELECT typed_bytes FROM snapshots")]
    check(len(typed_bytes) == 2 and typed_bytes[0] == typed_bytes[1] != "0", f"{typed_bytes}")
    subprocess.run(["sqlite3", store, "DELETE FROM hx_loaded; DELETE FROM hx_stopped_frame;"
                    " DELETE FROM hx_tls_block"], check=True)
    error = heapx("symbolize", store, ok=(1,))[2]
    check("does not say where its files lay" in error, error)
    error = heapx("symbolize", f"{folder}/none", ok=(1,))[2]
    check("none: open: No such file" in error, error)


if __name__ == "__main__":
    TESTS = (c_program, cxx_program, thread_locals, refused)
    live.main(*TESTS, turns=TESTS)
