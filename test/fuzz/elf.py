#!/usr/bin/env -S python3 -B
"""elf.py - some mutated programs, their debug information, unwind tables and symbols: none may crash,
abort or hang. scripts/fuzz elf does it 100,000 times. HX_SEED repeats a run."""
import glob
import os
import random
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("HX_SRCDIR", os.path.dirname(os.path.dirname(sys.path[0])))
BUILD = os.path.abspath(os.environ.get("HX_BUILDDIR", "."))
QUICK = os.environ.get("HX_QUICK") == "1"


def main():
    seed = os.environ.get("HX_SEED") or str(random.randrange(1 << 31))
    print("HX_SEED=%s" % seed)
    env = dict(os.environ, HX_SEED=seed)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(os.path.abspath(SOURCE), "test/fuzz/seeds_elf")], cwd=folder,
                       timeout=120, check=True)
        subprocess.run([os.path.join(BUILD, "test/fuzz/fuzz_elf"), "--cases", "200" if QUICK else "2000",
                        "--seconds", "4"] + sorted(glob.glob(os.path.join(folder, "*"))),
                       timeout=240, check=True, env=env)


main()
