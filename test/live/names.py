#!/usr/bin/env -S python3 -B
"""names.py - is a thing called the same everywhere?

A C++ program's variables, types and functions in text, CSV, JSON, SQL and conditions: as the program
writes them, ABI tags left out where there is no second name then. The linker's names are in the
columns `symbol`, and conditions and --root take them.
"""
import csv
import io
import json
import os
import subprocess

import live
from live import check, heapx, rows

PROGRAM = """
#include <cstdio>
#include <unistd.h>
#define TAG __attribute__((abi_tag("cxx11")))
namespace app {
struct Node { virtual ~Node() {} char pad[40]; };
Node *cache;
TAG void *tagged;
TAG void *twice;
void *after;
namespace { void *volatile hidden; }
TAG __attribute__((noinline)) Node *make() { Node *volatile node = new Node; return node; }
}
extern "C" { void *plain; }
asm(".globl _ZN3app5twiceE; .type _ZN3app5twiceE, @object; .size _ZN3app5twiceE, 8;"
    ".bss; .balign 8; _ZN3app5twiceE: .zero 8; .text");
int main()
{
    app::cache = app::make();
    app::tagged = new char[100];
    app::twice = new char[101];
    app::hidden = new char[102];
    plain = new char[103];
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""
NAMES = {
    "_ZN3app5cacheE": "app::cache",
    "_ZN3app6taggedB5cxx11E": "app::tagged",
    "_ZN3app5twiceB5cxx11E": "app::twice[abi:cxx11]",
    "_ZN3app12_GLOBAL__N_16hiddenE": "app::(anonymous namespace)::hidden",
    "plain": "plain",
}


def named(folder):
    with open(os.path.join(live.BUILD, "config.h")) as config:
        if "#define HX_HAVE_DEMANGLER 1" not in config.read():
            raise live.Skip("built without a demangler")
    source, program = os.path.join(folder, "p.cc"), os.path.join(folder, "p")
    store = os.path.join(folder, "store")
    with open(source, "w") as file:
        file.write(PROGRAM)
    subprocess.run(["g++", "-O1", "-g", source, "-o", program], check=True)
    with live.Target([program]) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store)
    globals_of = f"kind = 'global' and module = '{os.path.basename(program)}'"
    found = {r["symbol"]: r["name"] for r in rows(store, f"SELECT * FROM roots WHERE {globals_of}")}
    check({s: found.get(s) for s in NAMES} == NAMES, f"{found}")
    data = json.loads(heapx("report", store, "roots", "--format", "json")[1])
    table = list(csv.DictReader(io.StringIO(heapx("report", store, "roots", "--format", "csv")[1])))
    text = heapx("report", store, "roots")[1]
    for symbol, name in NAMES.items():
        check(sum(r["name"] == name for r in data) == 1, f"JSON: {name}")
        check(sum(r["name"] == name for r in table) == 1, f"CSV: {name}")
        check(name in text, f"text: {name}")
        for word in (symbol, name):
            told = json.loads(heapx("report", store, "roots", "--where", f"name = '{word}'",
                                    "--format", "json")[1])
            check([r["symbol"] for r in told] == [symbol], f"--where {word}: {told}")
            bins = json.loads(heapx("report", store, "bins", "--root", f"x={word}",
                                    "--format", "json")[1])
            check("x" in [r["roots"] for r in bins], f"--root {word}: {bins}")
            sets = json.loads(heapx("report", store, "retainers", "--where", f"label = '{name}'",
                                    "--format", "json")[1])
            check(len(sets) == 1, f"label = {name}: {sets}")
        other = json.loads(heapx("report", store, "roots", "--where", f"name != '{symbol}'",
                                 "--format", "json")[1])
        check(len(other) == len(data) - 1, f"!= {symbol}")
    types = {r["type"]: r["symbol"] for r in rows(store, "SELECT * FROM types")}
    check(types.get("app::Node") == "_ZTIN3app4NodeE", f"{types}")


if __name__ == "__main__":
    live.main(named)
