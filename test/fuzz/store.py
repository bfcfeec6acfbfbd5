#!/usr/bin/env -S python3 -B
"""store.py - some mutated stores, all views, analyses and exports of them: none may crash, hang, ask
for much memory or end without an error where there is one. scripts/fuzz store does it 100,000
times. HX_SEED repeats a run."""
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
    env = dict(os.environ, HX_SRCDIR=os.path.abspath(SOURCE), HX_BUILDDIR=BUILD, HX_SEED=seed)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(env["HX_SRCDIR"], "test/fuzz/seeds_store")], cwd=folder, env=env,
                       timeout=120, check=True)
        subprocess.run([os.path.join(BUILD, "test/fuzz/fuzz_store"), "--cases", "200" if QUICK else "1000",
                        "--seconds", "3"] + sorted(glob.glob(os.path.join(folder, "*"))),
                       timeout=240, check=True, env=env)


main()
