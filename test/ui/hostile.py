#!/usr/bin/env python3
"""hostile.py - gives everything in a store a name that tries to harm a terminal.

    hostile.py STORE [words]     words: also those that heapx itself writes (kinds, states, times)
"""
import sqlite3
import sys

# Numbers 4242 tell sequences of ours apart from those that curses writes.
HARM = [
    b"\x1b]0;owned\x07", b"\x1b[4242m\x1b[2J", b"\xc2\x9b4242m", b"\x9b4242m\xff\xfe",
    "\u202e\u2066\u200f".encode(), b"\xcc\x81\xcc\x81leading e" + b"\xcc\x81" * 300,
    "日本語キャッシュ".encode() * 12, "😀👨\u200d👩\u200d👧\ufe0f🇩🇪".encode(), b"a\nb\r\nc\td",
    b"long " + b"x" * 10000, b"\x1bP4242\x1b\\\x1b_4242\x1b\\\x1b^\x1bc\x1b#8\x05\x0e\x7f\x08\x08",
    b"\xed\xa0\x80\xc0\x9b\xf4\x90\x80\x80\xe2\x80", "\U000e0041\ufeff\u00ad\u2028".encode(),
    b"nul\x00\x1b[4242m", b"\\", b"'\"`$(reboot);--", "ﷺ\u0e33ก\u0e33\u1100\u1161".encode(),
    b"%n%s%1000000d", "日".encode() * 3000,
]
# What heapx writes itself and reads again.
WORDS = {"kind", "kind_name", "state", "part", "method", "scheme", "confidence", "census", "space",
         "taken_at", "patterns", "path"}


def main():
    base = sqlite3.connect(sys.argv[1], isolation_level=None)
    base.text_factory = bytes
    words = sys.argv[2:] == ["words"]
    base.execute("BEGIN")
    tables = [name.decode() for name, in base.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'hx_%'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%'")]
    for table in tables:
        for _, column, kind, *_ in base.execute(f"PRAGMA table_info({table})").fetchall():
            column = column.decode()
            if kind != b"TEXT" or (column in WORDS and not words):
                continue
            values = [value for value, in base.execute(
                f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL")]
            for number, value in enumerate(values):
                harm = HARM[(number + len(table) + len(column)) % len(HARM)]
                base.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)"
                             f" WHERE {column} = CAST(? AS TEXT)", (harm + value, value))
    base.execute("COMMIT")
    base.close()


if __name__ == "__main__":
    main()
