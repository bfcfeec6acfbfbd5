#!/usr/bin/env python3
"""manual.py - does the manual tell the truth where that can be tried?

The programs in heapx-scc(3) and heapx-roots(3) compile without a warning and end with 0, and who
allocates in them is who their comments say; each
statement of SQL in heapx(5) is understood, by heapx and, where it asks views alone, by the sqlite3
shell; and the columns of heapx(5) are those of a real store, in their order. Help keeps to 80
columns, and its examples to the options that there are.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.environ["HX_SRCDIR"]
BUILD = os.environ["HX_BUILDDIR"]
HEAPX = os.path.join(BUILD, "heapx")
PAGES = ("heapx-roots.3", "heapx-scc.3")
OBJECT_TABLES = ("objects", "edges", "root_edges")
failures = []


def expect(ok, what):
    if not ok:
        failures.append(what)
        print(f"FAIL: {what}", flush=True)


def page(name):
    with open(os.path.join(SRC, "man", name), encoding="utf-8") as file:
        return file.read()


def run(*words, **more):
    more.setdefault("timeout", 60)
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


def literal(text):
    """What a display shows, without the escapes of the page."""
    return text.replace("\\&", "").replace("\\e", "\\").replace("\\(dq", '"')


def programs(folder):
    """Compiles and runs every example; gives the names of the programs."""
    made = []
    for name in PAGES:
        found = re.findall(r'(?ms)^\.\\" example (\S+)\n\.Bd [^\n]*\n(.*?)^\.Ed$', page(name))
        expect(len(found) >= 2, f"{name} has examples")
        for file, text in found:
            source = os.path.join(folder, file)
            with open(source, "w", encoding="utf-8") as out:
                out.write(literal(text))
            cxx = file.endswith(".cc")
            if cxx and not shutil.which("g++"):
                continue
            compiler = ["g++", "-std=c++14"] if cxx else ["gcc", "-std=gnu11"]
            program = os.path.join(folder, file.replace(".", "_"))
            done = run(*compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I",
                       os.path.join(SRC, "include"), "-o", program, source)
            expect(done.returncode == 0, f"{name}: {file} compiles: {done.stderr}")
            if done.returncode == 0:
                expect(run(program).returncode == 0, f"{name}: {file} ends with 0")
                made.append(program)
    return made


def stacks(program, store):
    """malloc(N) with a comment A < B belongs to the stack of these functions."""
    source = re.sub(r"_(c|cc)$", r".\1", program)
    with open(source, encoding="utf-8") as file:
        told = re.findall(r"malloc\((\d+)\); /\* ((?:\w+ < )+\w+)", file.read())
    if not told:
        return
    done = run(HEAPX, "run", "-o", store, "--at-exit", "--", program)
    expect(done.returncode in (0, 3), f"heapx run {program}: {done.stderr}")
    done = run(HEAPX, "sql", store, "SELECT alloc_bytes, site FROM stacks", "--format", "csv")
    for size, site in told:
        expect(re.search(rf"(?m)^{size},\"?{site} < ", done.stdout),
               f"{site} allocates {size} bytes: {done.stdout}")


def statements(store):
    found = re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(SELECT .*?;)\n\.Ed$", page("heapx.5"))
    expect(len(found) >= 4, "heapx.5 has examples")
    for sql in found:
        sql = literal(sql)
        done = run(HEAPX, "sql", store, sql.rstrip(";"))
        expect(done.returncode == 0, f"heapx takes {sql!r}: {done.stderr}")
        if shutil.which("sqlite3") and not re.search("|".join(OBJECT_TABLES), sql):
            done = run("sqlite3", "-readonly", store, sql)
            expect(done.returncode == 0, f"sqlite3 takes {sql!r}: {done.stderr}")


def columns(store):
    found = re.findall(r'(?ms)^\.\\" begin columns (\S+)\n(.*?)^\.\\" end', page("heapx.5"))
    expect(len(found) > 20, "heapx.5 has the columns of the views")
    for view, text in found:
        done = run(HEAPX, "sql", store, f"SELECT name FROM pragma_table_info('{view}')",
                   "--format", "csv")
        real = done.stdout.split()[1:]
        told = re.findall(r"(?m)^\.It Li (\S+)", text)
        expect(told == real, f"columns of {view}: {told} told, {real} real")


def helps():
    every = run(HEAPX, "help").stdout
    commands = sorted(set(re.findall(r"(?m)^  ([a-z]+)( |$)", every)))
    expect(len(commands) > 10, "help lists the commands")
    for name in ["", "views", "formats", "conditions"] + [name for name, _ in commands]:
        text = run(HEAPX, "help", *filter(None, [name])).stdout
        long = [line for line in text.splitlines() if len(line) > 80]
        expect(not long, f"help {name} keeps to 80 columns: {long}")
        if not name or name not in dict(commands):
            continue
        options = set(re.findall(r"(?m)^  (?:(-\w), )?(--[\w-]+)", text))
        options = {word for pair in options for word in pair if word}
        examples = re.findall(rf"(?m)^  heapx {name}(?: (.*))?$", text)
        expect(examples, f"help {name} has examples")
        for line in examples:
            words = [word for word in line.split(" -- ")[0].split() if re.match("--?[a-z]", word)]
            expect(set(words) <= options, f"help {name}: {line!r} has options that it lacks")
            if name == "export":
                expect(re.search(rf"(?m)^  {line.split()[1]} ", text), f"{line!r} names a format")


def main():
    folder = tempfile.mkdtemp(prefix="hx-manual.")
    helps()
    try:
        made = programs(folder)
        for program in made:
            stacks(program, program + ".hx")
        store = os.path.join(folder, "queue_c.hx")
        expect(os.path.exists(store), "there is a store to ask")
        if not failures:
            statements(store)
            columns(store)
    finally:
        shutil.rmtree(folder)
    if not failures:
        print("the manual is true where it was tried")
    return 1 if failures else 0


sys.exit(main())
