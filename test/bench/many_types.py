#!/usr/bin/env -S python3 -B
"""many_types.py - makes a program with as much debug information as is asked for.

many_types.py FILE MIB [DISTINCT]: a program in C whose tables of debug information have about MIB
MiB. One part in DISTINCT of its units (20) have types that no other unit has; the others have them,
too, as programs have that include the same headers everywhere. It prints its PID and waits, with a
list of 100,000 objects.
"""
import os
import random
import subprocess
import sys
import tempfile

MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct bench_node { struct bench_node *next; long number; void *more; };
struct bench_node *first;
int main(void)
{
    for (int i = 0; i < 100000; i++) {
        struct bench_node *node = malloc(sizeof *node);
        *node = (struct bench_node){first, i, NULL};
        first = node;
    }
    printf("%d\\n", getpid());
    fflush(stdout);
    pause();
}
"""
STRUCTS = 20000  # of a unit: about 3 MiB


def write_unit(path, unit):
    chance = random.Random(unit)
    scalars = ["int", "long", "char *", "void *", "double", "unsigned short", "unsigned char"]
    with open(path, "w") as file:
        for n in range(STRUCTS):
            name = f"record_{unit}_{n}"
            file.write(f"struct {name} {{ struct {name} *next;")
            for field in range(chance.randrange(3, 12)):
                to = chance.randrange(n + 1)
                kind = chance.choice(scalars + [f"struct record_{unit}_{to} *"] * 4)
                file.write(f" {kind} field_{field};")
            file.write(" };\n")
        # the compiler leaves out what nothing uses
        file.write("static struct {")
        for n in range(STRUCTS):
            file.write(f" struct record_{unit}_{n} *to_{n};")
        file.write(f" }} *volatile all_{unit} __attribute__((used));\n")


def main():
    path, mib = sys.argv[1], int(sys.argv[2])
    distinct = int(sys.argv[3]) if sys.argv[3:] else 20
    with tempfile.TemporaryDirectory(prefix="hx-many-") as folder:
        def build(name, *words):
            subprocess.run(["gcc", "-g", "-O0", "-c", f"{folder}/{name}.c", "-o",
                            f"{folder}/{name}.o", *words], check=True)

        with open(f"{folder}/main.c", "w") as file:
            file.write(MAIN)
        build("main")
        write_unit(f"{folder}/0.c", 0)
        build("0")
        size = os.path.getsize(f"{folder}/0.o") // 3  # the rest is for the linker
        units = max(1, (mib << 20) // size)
        own = max(1, units // distinct)
        for unit in range(1, own):
            write_unit(f"{folder}/{unit}.c", unit)
            build(str(unit))
        objects = [f"{folder}/{unit % own}.o" for unit in range(units)]
        with open(f"{folder}/objects", "w") as file:
            file.write("\n".join(objects))
        subprocess.run(["gcc", "-o", path, f"{folder}/main.o", f"@{folder}/objects"], check=True)


main()
