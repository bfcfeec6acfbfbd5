#!/usr/bin/env -S python3 -B
"""types_cost.py - what types cost: large debug information, and eleven million objects.

    types_cost.py [--megabytes N] [--objects N]

Run by scripts/bench types. A program whose .debug_info of N MB (200; 1000 is the issue's) is made here,
unit by unit, beside the same one without: the first screen, and the types of that file, first and
again, against `eu-readelf --debug-dump=info`. Then the forest of N objects (10,980,000): how long types
take beside marking, alone on one thread and with all (columns are encoded while types are found), how
many of its words types and shapes judge differently, and the stop, with the program's debug information
and without. Ratios are of one run.
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ui"))
import bench  # noqa: E402
import live  # noqa: E402
import emulator  # noqa: E402

FOREST = os.path.join(live.BUILD, "test/bench/forest")
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct node { struct node *next; long body[4]; } *head;
int main(void)
{
    for (int i = 0; i < 1000; i++) {
        struct node *node = calloc(1, sizeof *node);
        node->next = head;
        head = node;
    }
    puts("ready");
    fflush(stdout);
    pause();
}
"""
SETTLED = 60  # seconds without a change, after which the hash of a file is kept
WARM = 200  # bytes an object that a snapshot touches, and more
STRUCTS = 2000  # of a unit: name, members `next`, `number`, `ratio`, `inner`
ABBREVIATIONS = bytes((
    1, 0x11, 1, 0x25, 0x08, 0x13, 0x0b, 0x03, 0x08, 0, 0,      # unit: producer, language, name
    2, 0x24, 0, 0x0b, 0x0b, 0x3e, 0x0b, 0x03, 0x08, 0, 0,      # base type: size, encoding, name
    3, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0,                  # structure: name, size
    4, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0,      # member: name, type, place
    5, 0x0f, 0, 0x0b, 0x0b, 0x49, 0x13, 0, 0,                  # pointer: size, type
    6, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0,      # variable: name, type, location
    0))


def unit(number, variables=()):
    """One unit of DWARF 4, in which `@@@@@@` of each name stands for its number."""
    out = bytearray(struct.pack("<HIB", 4, 0, 8) + b"\x01heapx bench\0\x0cunit @@@@@@\0")

    def here():
        return len(out) + 4
    long, out_of = here(), out.extend
    out_of(b"\x02\x08\x05long\0")
    double = here()
    out_of(b"\x02\x08\x04double\0")
    inner, pointer = None, None
    for i in range(STRUCTS):
        at = here()
        out_of(b"\x03s@@@@@@_%d\0\x20" % i)
        for j, (name, kind) in enumerate(((b"next", pointer or long), (b"number", long),
                                          (b"ratio", double), (b"inner", pointer or long))):
            out_of(b"\x04" + name + b"\0" + struct.pack("<IB", kind, 8 * j))
        out_of(b"\0")
        pointer, inner = here(), at
        out_of(b"\x05\x08" + struct.pack("<I", inner))
    for name, address in variables:
        node = here()
        out_of(b"\x03node\0\x28\x04next\0" + struct.pack("<IB", node + 6 + 1 + 16, 0) + b"\0")
        star = here()
        out[node - 4 + 13:node - 4 + 17] = struct.pack("<I", star)
        out_of(b"\x05\x08" + struct.pack("<I", node))
        out_of(b"\x06" + name + b"\0" + struct.pack("<IBBQ", star, 9, 3, address))
    out_of(b"\0")
    return bytes(struct.pack("<I", len(out)) + out).replace(b"@@@@@@", b"%06d" % number)


def programs(folder, megabytes):
    """The program without debug information, and with so much of it."""
    source, plain, large = (os.path.join(folder, n) for n in ("p.c", "plain", "large"))
    with open(source, "w") as file:
        file.write(PROGRAM)
    subprocess.run(["gcc", "-O1", "-no-pie", "-o", plain, source], check=True)
    names = subprocess.run(["nm", plain], check=True, stdout=subprocess.PIPE, text=True).stdout
    head = int(re.search(r"([0-9a-f]+) . head", names)[1], 16)
    info, abbreviations = os.path.join(folder, "info"), os.path.join(folder, "abbrev")
    with open(abbreviations, "wb") as file:
        file.write(ABBREVIATIONS)
    with open(info, "wb") as file:
        file.write(unit(0, [(b"head", head)]))
        template = unit(999999)
        for i in range(1, max(1, megabytes * 1000000 // len(template))):
            file.write(template.replace(b"999999", b"%06d" % i))
    subprocess.run(["objcopy", "--add-section", f".debug_info={info}",
                    "--add-section", f".debug_abbrev={abbreviations}", plain, large], check=True)
    return plain, large


def first_screen(program):
    """Seconds until `attach` shows its first snapshot, the best of three."""
    took = []
    with live.Target([program]) as target:
        target.wait_line("ready")
        for _ in range(3):
            begin = time.monotonic()
            shown = emulator.Terminal([live.HEAPX, "attach", str(target.pid)])
            shown.wait_for("snapshot 1 of 1", 60)
            took.append(time.monotonic() - begin)
            shown.send("Q")
            shown.wait_for("d throws away", 60)
            shown.send("d")
            shown.wait(60)
    return min(took)


def names_after(program, store):
    """Seconds from the first screen until names and types have come."""
    with live.Target([program]) as target:
        target.wait_line("ready")
        shown = emulator.Terminal([live.HEAPX, "attach", str(target.pid), "-o", store])
        shown.wait_for("snapshot 1 of 1", 60)
        begin = time.monotonic()
        while "still to be read" in live.row(store, "SELECT notes FROM snapshots")["notes"]:
            shown.read(0.1)
        took = time.monotonic() - begin
        shown.send("Q")
        shown.wait(60)
    return took


def snapped(pid, store, *options):
    """The stages of a snapshot and their seconds."""
    err = live.heapx("snap", pid, "-o", store, *options, env={"HEAPX_TIMING": "1"}, timeout=900)[2]
    return {m[1]: float(m[2]) for m in re.finditer(r"^timing (.+?) ([0-9.]+) \d+$", err, re.M)}


def large_information(folder, megabytes):
    plain, large = programs(folder, megabytes)
    screens = first_screen(plain), first_screen(large)
    print(f"first screen: {screens[0]:.2f} s, with {megabytes} MB of DWARF {screens[1]:.2f} s: "
          f"{screens[1] - screens[0]:+.2f} s (limit +0.2)")
    begin = time.monotonic()
    readelf = shutil.which("eu-readelf")
    if readelf:
        subprocess.run([readelf, "--debug-dump=info", large], stdout=subprocess.DEVNULL, check=True)
    floor = time.monotonic() - begin
    took, found = [], None
    with live.Target([large]) as target:
        target.wait_line("ready")
        for i in range(4):
            if i == 2:
                time.sleep(max(0, os.stat(large).st_ctime + SETTLED + 1 - time.time()))
            store = os.path.join(folder, f"large{i}")
            took.append(snapped(target.pid, store)["type tables"])
            found = live.row(store, "SELECT sum(objects) AS n FROM types WHERE type = 'node'")["n"]
    against = f", {took[0] / floor:.2f} x eu-readelf's {floor:.2f} s (limit 2)" if readelf else ""
    print(f"its types: {took[0]:.2f} s{against}; {found} nodes typed")
    print(f"again {took[1]:.2f} s, of a file that was not changed for a minute {took[3]:.2f} s (limit 0.1)")
    print(f"first screen then: {first_screen(large) - screens[0]:+.2f} s, "
          f"names and types {names_after(large, os.path.join(folder, 'named')):.1f} s later")


def forest(folder, objects):
    stripped = os.path.join(folder, "forest")
    subprocess.run(["strip", "-o", stripped, FOREST], check=True)
    stops = {}
    store = os.path.join(folder, "forest.db")
    for program in (stripped, FOREST):
        with live.Target([program, "--objects", str(objects), "--stray", "1000"]) as target:
            target.wait_line("ready")
            for threads in (["--threads", "1"], []) if program == FOREST else ([],):
                if os.path.exists(store):
                    os.unlink(store)
                bench.warm(objects * WARM)
                stages = snapped(target.pid, store, "--analyse", "later", *threads)
                if threads:
                    alone = stages
            row = live.row(store, "SELECT pause_us, heap_objects, heap_bytes, typed_bytes FROM snapshots")
        stops[program] = int(row["pause_us"]) / 1000
    n = int(row["heap_objects"])
    for what, of in (("one thread", alone), ("all threads, columns being encoded meanwhile", stages)):
        print(f"types of {n:,} objects, {what}: {of['typing']:.2f} s, {of['typing'] / of['mark']:.2f} x "
              f"marking and states of {of['mark']:.2f} s{' (limit 2)' if of is alone else ''}")
    print(f"{100 * int(row['typed_bytes']) / int(row['heap_bytes']):.1f} % of the bytes typed")
    print(f"stop: {stops[stripped]:.1f} ms stripped, {stops[FOREST]:.1f} ms with types")
    rules = {r["rule"]: int(r["n"]) for r in
             live.rows(store, "SELECT coalesce(rule, 'none') AS rule, count(*) AS n FROM edges GROUP BY 1")}
    differs = rules.get("scalar", 0) + rules.get("pointer", 0)
    print(f"words that types judge otherwise than shapes: {100 * differs / sum(rules.values()):.3f} %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--objects", type=int, default=10980000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        large_information(folder, args.megabytes)
        forest(folder, args.objects)


if __name__ == "__main__":
    main()
