#!/usr/bin/env -S python3 -B
"""bounds.py - files that a program chose: debug information, symbols and packed tables without end,
things that only look like files. heapx leaves them out, says so, and ends when it is told to."""
import lzma
import glob
import os
import re
import signal
import struct
import subprocess
import time
import zlib

import live

SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 100; i++)
        if (!malloc(100))
            return 1;
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""
MIB = 1 << 20
HEADER = "<IIQQQQIIQQ"


def compile_to(path, *flags):
    with open(path + ".c", "w", encoding="ascii") as file:
        file.write(SOURCE)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", *flags, path + ".c", "-o", path], check=True)


class Elf:
    """The sections of a file, to be changed."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.bytes = bytearray(file.read())
        self.at, = struct.unpack_from("<Q", self.bytes, 40)
        n, strings = struct.unpack_from("<HH", self.bytes, 60)
        self.sections = [list(struct.unpack_from(HEADER, self.bytes, self.at + 64 * i))
                         for i in range(n)]
        names = self.sections[strings][4]
        self.number = {}
        for i, section in enumerate(self.sections):
            start = names + section[0]
            self.number[self.bytes[start:self.bytes.index(0, start)].decode()] = i

    def append(self, data):
        self.bytes.extend(b"\0" * (-len(self.bytes) % 16))
        self.bytes.extend(data)
        return len(self.bytes) - len(data)

    def replace(self, name, data, size=None, packed=None):
        """Gives a section other bytes; packed: so many, of which data is what zlib makes."""
        section = self.sections[self.number[name]]
        if packed is not None:
            data = struct.pack("<IIQQ", 1, 0, packed, 1) + data
            section[2] |= 0x800
        section[4], section[5] = self.append(data), size or len(data)

    def write(self):
        for i, section in enumerate(self.sections):
            struct.pack_into(HEADER, self.bytes, self.at + 64 * i, *section)
        with open(self.path, "wb") as file:
            file.write(self.bytes)


def pack(first, part, times):
    stream = zlib.compressobj(1)
    data = stream.compress(first) + b"".join(stream.compress(part) for _ in range(times))
    return data + stream.flush(), len(first) + times * len(part)


def linked(path):
    """.gnu_debuglink to a sparse file of 4 GiB, without a build-id that would tell it apart."""
    compile_to(path, "-g", "-Wl,--build-id=none")
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={path}.debug", path], check=True,
                   cwd=os.path.dirname(path))
    os.truncate(path + ".debug", 4096 * MIB)


def linked_to(target):
    def make(path):
        compile_to(path, "-g", "-Wl,--build-id=none")
        subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
        subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={path}.debug", path],
                       check=True)
        os.unlink(path + ".debug")
        if target:
            os.symlink(target, path + ".debug")
        else:
            os.mkfifo(path + ".debug")
    return make


def packed(path):
    """.gnu_debugdata of 30 KiB that unpacks to 200 MiB."""
    compile_to(path, "-s")
    with open(path + ".xz", "wb") as file:
        file.write(lzma.compress(bytes(200 * MIB), preset=0))
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={path}.xz", path], check=True)


def symbols(path):
    """Five million symbols of one function."""
    compile_to(path, "-g")
    elf = Elf(path)
    section = elf.sections[elf.number[".symtab"]]
    table = elf.bytes[section[4]:section[4] + section[5]]
    main = next(table[i:i + 24] for i in range(0, len(table), 24)
                if table[i + 4] & 15 == 2 and table[i + 6:i + 8] != b"\0\0")
    elf.replace(".symtab", bytes(main) * (5 << 20))
    elf.write()


def unpacked(path):
    """.debug_info that claims, and has, 1.9 GiB of zeros."""
    compile_to(path, "-g")
    elf = Elf(path)
    data, size = pack(b"", bytes(MIB), 1900)
    elf.replace(".debug_info", data, packed=size)
    elf.write()


def entries(path):
    """One unit of 1 GiB, whose entries are in others without end."""
    compile_to(path, "-g", "-gdwarf-4")
    text = subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, check=True).stdout
    start, size = re.search(r" \.text +PROGBITS +(\w+) \w+ (\w+)", text.decode()).groups()
    elf = Elf(path)
    elf.replace(".debug_abbrev", bytes([1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, 2, 0x39, 1, 0, 0,
                                        3, 0x24, 1, 0, 0, 0]))
    unit = struct.pack("<HIBBQQ", 4, 0, 8, 1, int(start, 16), int(size, 16))
    unit = struct.pack("<I", len(unit) + 1024 * MIB) + unit
    data, size = pack(unit, bytes([3]) * MIB, 1024)
    elf.replace(".debug_info", data, packed=size)
    elf.write()


def lines(path):
    """A line table of 512 MiB, each byte of it a line."""
    compile_to(path, "-g", "-gdwarf-4")
    elf = Elf(path)
    section = elf.sections[elf.number[".debug_line"]]
    _, _, length = struct.unpack_from("<IHI", elf.bytes, section[4])
    header = bytes(elf.bytes[section[4] + 4:section[4] + 10 + length])
    data, size = pack(struct.pack("<I", len(header) + 512 * MIB) + header, b"\x4b" * MIB, 512)
    elf.replace(".debug_line", data, packed=size)
    elf.write()


class Unit:
    """Debug information of one unit, in which entries refer to each other by name."""

    FORMS = {"name": (0x03, 0x08), "size": (0x0b, 0x0b), "low": (0x11, 0x01), "high": (0x12, 0x07),
             "at": (0x02, 0x18), "base": (0x40, 0x18), "offset": (0x38, 0x0b), "type": (0x49, 0x13),
             "origin": (0x31, 0x13), "specification": (0x47, 0x13), "import": (0x18, 0x13),
             "extension": (0x54, 0x13), "sibling": (0x01, 0x13), "signature": (0x69, 0x13), "line": (0x3b, 0x0b), "file": (0x3a, 0x0b), "lines": (0x10, 0x17)}

    def __init__(self):
        self.info, self.abbreviations = bytearray(struct.pack("<IHIB", 0, 4, 0, 8)), bytearray()
        self.entries, self.references, self.kinds = {}, [], 0

    def entry(self, label, tag, children=False, **values):
        """A value is a number, bytes (a location), or the label of an entry, or what is its name."""
        self.kinds += 1
        self.entries[label] = len(self.info)
        self.info += bytes([self.kinds])
        self.abbreviations += bytes([self.kinds, tag, children])
        for key, value in values.items():
            attribute, form = self.FORMS[key]
            self.abbreviations += bytes([attribute, form])
            if form == 0x13:
                self.references.append((len(self.info), value))
                self.info += bytes(4)
            elif form == 0x18:
                self.info += bytes([len(value)]) + value
            elif form == 0x08:
                self.info += value.encode() + b"\0"
            else:
                self.info += value.to_bytes({0x0b: 1, 0x01: 8, 0x07: 8, 0x17: 4}[form], "little")
        self.abbreviations += bytes(2)

    def end(self):
        self.info += b"\0"

    def finish(self):
        self.end()
        for at, label in self.references:
            struct.pack_into("<I", self.info, at, self.entries[label])
        struct.pack_into("<I", self.info, 0, len(self.info) - 4)
        return bytes(self.info), bytes(self.abbreviations) + b"\0"


STRUCT, MEMBER, POINTER, TYPEDEF, CONST, ARRAY, VARIABLE, FUNCTION = 0x13, 0x0d, 0x0f, 0x16, 0x26, 0x01, 0x34, 0x2e


def circles(path):
    """Functions that are instances of each other, and types that are made of themselves."""
    compile_to(path, "-g", "-gdwarf-4")
    text = subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    start, size = (int(n, 16) for n in re.search(r" \.text +PROGBITS +(\w+) \w+ (\w+)", text).groups())
    bss = int(re.search(r" \.bss +NOBITS +(\w+)", text)[1], 16)
    unit = Unit()
    unit.entry("unit", 0x11, True, name="circles", low=start, high=size, lines=0)
    for kind, tag in (("typedef", TYPEDEF), ("const", CONST), ("pointer", POINTER), ("array", ARRAY)):
        for i in range(3):  # of each other, in a circle of three, and of itself
            unit.entry(f"{kind} {i}", tag, type=f"{kind} {(i + 1) % 3}", **({"name": f"t{i}"} if tag == TYPEDEF else {}))
        unit.entry(f"{kind} of itself", tag, type=f"{kind} of itself")
    unit.entry("node", STRUCT, True, name="node", size=112)
    for i, of in enumerate(("node", "node pointer", "typedef 0", "pointer 0", "array of itself", "base")):
        unit.entry(f"member {i}", MEMBER, name=f"m{i}", type=of, offset=8 * i)
    unit.entry("parent", 0x1c, type="node", offset=0)  # it inherits from itself
    unit.end()
    unit.entry("node pointer", POINTER, type="node", size=8)
    unit.entry("base", STRUCT, name="base", specification="base")
    unit.entry("declared", STRUCT, signature="declared")
    unit.entry("space", 0x39, True, extension="space")
    unit.entry("within", 0x3a, **{"import": "unit"})
    unit.end()
    unit.entry("whole", 0x3d, **{"import": "unit"})
    for i, of in enumerate(("node pointer", "pointer 0", "typedef 1", "const of itself", "array 0", "declared")):
        unit.entry(f"variable {i}", VARIABLE, name=f"v{i}", type=of, at=b"\x03" + struct.pack("<Q", bss + 8 * i))
    unit.entry("one", FUNCTION, origin="two", specification="two")
    unit.entry("two", FUNCTION, origin="one", specification="one")
    unit.entry("main", FUNCTION, True, low=start, high=size, origin="one", base=b"\x9c", name="main", file=1, line=4)
    for i, of in enumerate(("node pointer", "typedef 0", "pointer of itself", "array 1")):
        unit.entry(f"local {i}", VARIABLE, name=f"l{i}", type=of, at=b"\x91" + bytes([0x60 + 8 * i & 0x7f]))
    unit.entry("local of itself", VARIABLE, origin="local of itself", at=b"\x91\x70")
    unit.entry("inlined", 0x1d, low=start, high=size, origin="inlined")
    unit.entry("block", 0x0b, True, low=start, high=size, origin="main", sibling="block")
    unit.end()
    unit.end()
    info, abbreviations = unit.finish()
    elf = Elf(path)
    elf.replace(".debug_info", info)
    elf.replace(".debug_abbrev", abbreviations)
    elf.write()


def fields_of(pid):
    """Of /proc/PID/stat, from the state on."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rsplit(b")", 1)[1].split()


def used(pid):
    """Seconds of processor time so far of a process, its readers of files, and those that ended."""
    ticks = sum(int(n) for n in fields_of(pid)[11:15])
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(children, encoding="ascii") as file:
                ticks += sum(int(n) for child in file.read().split()
                             for n in fields_of(child)[11:15])
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


def ended_after(pid, delay):
    """Seconds of processor time that heapx goes on after a SIGTERM that comes after so many of
    them: others may have the processor meanwhile."""
    process = subprocess.Popen([live.HEAPX, "report", str(pid), "threads"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 100
    while used(process.pid) < delay and time.monotonic() < end:
        if fields_of(process.pid)[0] == b"Z":
            break
        time.sleep(0.01)
    before = used(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return usage.ru_utime + usage.ru_stime - before


def report(folder, pid):
    """What heapx says of a target, and in how much processor time."""
    store = os.path.join(folder, "store.hx")
    begun = os.times()
    live.heapx("snap", pid, "-o", store)
    ended = os.times()
    return (live.row(store, "select complete, notes from snapshots"),
            live.rows(store, "select * from losses"),
            ended[2] + ended[3] - begun[2] - begun[3])


def attack(folder, make, told=None, delays=(), whole=True):
    """whole: it is also let come to its end; delays: seconds after which it is ended."""
    path = os.path.join(folder, make.__name__)
    make(path)
    with live.Target([path]) as target:
        target.wait_line("ready")
        if whole:
            row, losses, seconds = report(folder, target.pid)
            print(f"  {make.__name__}: {seconds:.1f} s of processor time", flush=True)
            live.check(seconds < 8 * live.SLOW, f"{seconds:.1f} s of processor time")
            live.check(row["complete"] == 1, f"names are not the heap: {row}")
            live.check(not told or told in row["notes"], f"not told: {row}")
            live.check(not told or "not read" in str(losses), f"no loss: {losses}")
        for delay in delays:
            seconds = ended_after(target.pid, delay)
            print(f"  {make.__name__}: {seconds:.2f} s after SIGTERM", flush=True)
            live.check(seconds < live.SLOW, f"{seconds:.2f} s of processor time after SIGTERM")


def test_linked(folder):
    attack(folder, linked, "checksum would be one of more than 1 GiB")


def test_not_files(folder):
    for target in (None, "/dev/zero", "/proc/kmsg", "/sys/kernel/uevent_seqnum"):
        attack(folder, linked_to(target))
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))


def test_packed(folder):
    attack(folder, packed, "unpacks to more than 128 MiB", (0.1, 0.2))


def test_symbols(folder):
    attack(folder, symbols, "symbols beyond the first", (0.5, 1.5))


def test_unpacked(folder):
    attack(folder, unpacked, None, (0.5,))


def test_entries(folder):
    attack(folder, entries, None, (0.5, 2), whole=False)


def test_lines(folder):
    attack(folder, lines, "lines of units with more than 16 MiB", (0.3,))


def test_circles(folder):
    attack(folder, circles, None, ())
    live.check(live.rows(os.path.join(folder, "store.hx"), "select count(*) as n from objects")[0]["n"] > 100, "no heap")


if __name__ == "__main__":
    live.main(test_linked, test_not_files, test_packed, test_circles, test_symbols, test_unpacked, test_entries,
              test_lines, long=(test_symbols, test_unpacked, test_entries, test_lines))
