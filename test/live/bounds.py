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
            live.check(seconds < 8, f"{seconds:.1f} s of processor time")
            live.check(row["complete"] == 1, f"names are not the heap: {row}")
            live.check(not told or told in row["notes"], f"not told: {row}")
            live.check(not told or "not read" in str(losses), f"no loss: {losses}")
        for delay in delays:
            seconds = ended_after(target.pid, delay)
            print(f"  {make.__name__}: {seconds:.2f} s after SIGTERM", flush=True)
            live.check(seconds < 1, f"{seconds:.2f} s of processor time after SIGTERM")


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


if __name__ == "__main__":
    live.main(test_linked, test_not_files, test_packed, test_symbols, test_unpacked, test_entries,
              test_lines, long=(test_symbols, test_unpacked, test_entries, test_lines))
