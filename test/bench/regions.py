#!/usr/bin/env -S python3 -B
"""regions.py - what a push and a pop of heapx/scc.h cost: nobody listens, under `run`, under `record`.

Run by `scripts/bench regions`. Each compiler that is here builds test/bench/regions.c with and
without optimization; the figures are nanoseconds that a pair takes more than an empty loop, the best
of many rounds. Where the kernel has no probes for this user, `record` shows -.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402
import recorded  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FEW, MANY = 20000, 2000000


def more(text):
    found = re.search(r"without (\S+) with (\S+)", text)
    live.check(found, f"no figures in {text[-300:]!r}")
    return float(found[2]) - float(found[1])


def build(compiler, level, folder):
    program = os.path.join(folder, f"regions-{compiler}{level}")
    subprocess.run([compiler, "-std=gnu11", level, f"-I{HERE}/../../include", f"{HERE}/regions.c", "-o", program],
                   check=True)
    return program


def alone(program, _folder):
    return more(subprocess.run([program, str(MANY)], check=True, stdout=subprocess.PIPE, text=True).stdout)


def under_run(program, folder):
    with recorded.Run(f"{folder}/run.db", [program, str(FEW)]) as process:
        live.check(process.wait(120) in (0, 3), f"heapx run: {process.err[-300:]}")
        return more(process.out.decode())


def under_record(program, folder):
    try:
        recorded.may_probe()
    except live.Skip:
        return None
    with live.Target([program, str(FEW), "--wait"]) as target:
        entry = int(target.wait_line("entry").split()[1], 16)
        with recorded.Record(f"{folder}/record.db", target.pid, [entry]):
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            return more(target.wait_line("without"))


def main():
    print(f"{'':12}{'nobody':>10}{'run':>10}{'record':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for compiler in ("gcc", "clang"):
            for level in ("-O0", "-O2"):
                if not shutil.which(compiler):
                    continue
                program = build(compiler, level, folder)
                figures = [way(program, folder) for way in (alone, under_run, under_record)]
                print(f"{compiler + ' ' + level:12}" +
                      "".join("-".rjust(10) if f is None else f"{f:10.2f}" for f in figures), flush=True)


main()
