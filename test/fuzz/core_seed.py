#!/usr/bin/env -S python3 -B
"""core_seed.py - makes a small core of a core, for fuzz_core: what is zero or only code is left out.

    core_seed.py [--cut] CORE OUT

--cut: it ends before the data of libraries, and so does not have main_arena.
"""
import struct
import sys

PAGE = 4096
# What is read of a thread's floating-point state; the rest of it is of no interest.
NOTES = {("CORE", 1), ("CORE", 2), ("CORE", 3), ("CORE", 6), ("CORE", 0x46494c45)}


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def notes(data):
    """The notes that heapx reads."""
    out, at = b"", 0
    while at + 12 <= len(data):
        name_n, desc_n, kind = struct.unpack_from("<III", data, at)
        name_end = at + 12 + (name_n + 3) // 4 * 4
        end = name_end + (desc_n + 3) // 4 * 4
        owner = data[at + 12:at + 12 + name_n].rstrip(b"\0").decode("latin-1")
        if (owner, kind) in NOTES:
            out += data[at:end]
        at = end
    return out


def runs(data):
    """(first page, pages) of what is not zero."""
    pages = [any(data[i:i + PAGE]) for i in range(0, len(data), PAGE)]
    start = None
    for i, used in enumerate(pages + [False]):
        if used and start is None:
            start = i
        elif not used and start is not None:
            yield start, i - start
            start = None


def shrink(core):
    at, n = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    note, loads = b"", []
    for i in range(n):
        kind, flags, offset, vaddr, _, filesz, memsz, _ = struct.unpack_from("<IIQQQQQQ", core,
                                                                             at + 56 * i)
        data = core[offset:offset + filesz]
        if kind == 4:
            note += notes(data)
        elif kind == 1:
            kept = list(runs(data)) if flags & 2 else [(0, 1)] if data[:4] == b"\x7fELF" else []
            done = 0
            for first, pages in kept:
                if first > done:
                    loads.append((flags, vaddr + done * PAGE, b"", (first - done) * PAGE))
                loads.append((flags, vaddr + first * PAGE,
                              data[first * PAGE:(first + pages) * PAGE], pages * PAGE))
                done = first + pages
            if memsz > done * PAGE:
                # what nobody wrote is no loss
                loads.append((flags & ~2, vaddr + done * PAGE, b"", memsz - done * PAGE))
    head = bytearray(core[:64])
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<H", head, 56, len(loads) + 1)
    offset = 64 + 56 * (len(loads) + 1)
    table = struct.pack("<IIQQQQQQ", 4, 0, offset, 0, 0, len(note), 0, 4)
    offset += len(note)
    body = b""
    for flags, vaddr, data, memsz in loads:
        table += struct.pack("<IIQQQQQQ", 1, flags, offset + len(body), vaddr, 0, len(data), memsz, 1)
        body += data
    return bytes(head) + table + note + body


def cut(core):
    """What lies below the libraries, and the first piece of memory there."""
    at, n = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    for i in range(n):
        kind, _, offset, vaddr, _, filesz, _, _ = struct.unpack_from("<IIQQQQQQ", core, at + 56 * i)
        if kind == 1 and filesz and vaddr >> 44 == 7:
            return core[:offset + filesz]
    return core


def main():
    words = [word for word in sys.argv[1:] if word != "--cut"]
    if len(words) != 2:
        sys.exit(__doc__)
    with open(words[0], "rb") as source, open(words[1], "wb") as out:
        small = shrink(source.read())
        out.write(cut(small) if "--cut" in sys.argv else small)


if __name__ == "__main__":
    main()
