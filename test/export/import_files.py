"""Makes event logs and heap profiles for test/export/import.py: well-formed ones of every break-down,
and lies. Run by itself it writes them into a folder: import_files.py FOLDER."""
import os
import struct
import sys

VARIABLE = 0xffff
# number: (declared size, name)
KINDS = {
    16: (VARIABLE, "Log message"), 18: (14, "Block marker"), 25: (6, "Create capability set"),
    29: (VARIABLE, "RTS name and version"), 30: (VARIABLE, "Program arguments"),
    32: (8, "Process ID"), 43: (16, "Wall clock time"), 50: (12, "Heap size"), 51: (12, "Heap live"),
    160: (VARIABLE, "Start of heap profile"), 161: (VARIABLE, "Cost-centre definition"),
    162: (8, "Start of heap profile sample"), 163: (VARIABLE, "Heap profile cost-centre sample"),
    164: (VARIABLE, "Heap profile string sample"), 165: (8, "End of heap profile sample"),
    166: (16, "Start of heap profile (biographical) sample"),
    167: (VARIABLE, "Time profile sample"), 168: (8, "Start of a time profile"),
    169: (VARIABLE, "Info table entry"), 700: (VARIABLE, "Something private"),
}
CENTRE, MODULE, CLOSURE, TYPE, RETAINER, BIOGRAPHY, CLOSURE_TYPE, INFO, ERA = range(1, 10)
SECOND = 10**9
WALL = 1_700_000_000


def header(kinds=KINDS, ids=None):
    out = b"hdrbhetb"
    for number in sorted(ids or kinds):
        size, name = kinds[number]
        text = name.encode()
        out += b"etb\0" + struct.pack(">HHI", number, size, len(text)) + text
        out += struct.pack(">I", 0) + b"ete\0"
    return out + b"hetehdredatb"


def event(number, time, payload, length=None, kinds=KINDS):
    out = struct.pack(">HQ", number, time)
    if kinds[number][0] == VARIABLE:
        out += struct.pack(">H", len(payload) if length is None else length)
    return out + payload


def text(s):
    return (s if isinstance(s, bytes) else s.encode()) + b"\0"


def begin(breakdown, profile=0, filters=("",) * 7, time=5):
    return event(160, time, struct.pack(">BQI", profile, 20_000_000, breakdown) +
                 b"".join(text(f) for f in filters))


def centre(number, label, module="Main", source="A.hs:1:1", caf=0, time=4):
    return event(161, time, struct.pack(">I", number) + text(label) + text(module) + text(source) +
                 bytes([caf]))


def string(label, size, profile=0, time=10):
    return event(164, time, struct.pack(">BQ", profile, size) + text(label))


def stack(numbers, size, profile=0, depth=None, time=10):
    return event(163, time, struct.pack(">BQB", profile, size,
                                        len(numbers) if depth is None else depth) +
                 b"".join(struct.pack(">I", n) for n in numbers))


def sample(rows, time, ordinal=0, end=True):
    return (event(162, time, struct.pack(">Q", ordinal)) + b"".join(rows) +
            (event(165, time, struct.pack(">Q", ordinal)) if end else b""))


def life(rows, inner, ordinal):
    return (event(166, 99 * SECOND, struct.pack(">QQ", ordinal, inner)) + b"".join(rows) +
            event(165, 99 * SECOND, struct.pack(">Q", ordinal)))


def program(arguments=("/usr/bin/prog", "arg", "+RTS", "-hT", "-l")):
    return (event(25, 1, struct.pack(">IH", 0, 2)) +
            event(43, 2, struct.pack(">IQI", 1, WALL, 2)) +
            event(32, 3, struct.pack(">II", 0, 4711)) +
            event(29, 3, struct.pack(">I", 0) + b"GHC-9.4.7 rts_p") +
            event(30, 3, struct.pack(">I", 0) + b"\0".join(a.encode() for a in arguments)))


def log(*parts, end=True, ids=None, kinds=KINDS):
    return header(kinds, ids) + b"".join(parts) + (b"\xff\xff" if end else b"")


def table(address, name, label, module, source, kind="Tree"):
    return event(169, 4, struct.pack(">Q", address) + text(name) + text("17") + text(kind) +
                 text(label) + text(module) + text(source))


PHASES = ("VOID", "LAG", "USE", "INHERENT_USE", "DRAG")


def logs():
    """name: (log, view, column, rows of each snapshot)"""
    def named(breakdown, first, second):
        return log(program(), begin(breakdown),
                   sample([string(n, b) for n, b in first.items()], SECOND),
                   sample([string(n, b) for n, b in second.items()], 2 * SECOND))
    types = ({"Node": 4096, ":": 16, "I#": 8}, {"Node": 8192, "Ünï": 24})
    modules = ({"Main": 100, "Data.Map": 50}, {"Main": 300})
    centres = [centre(1, "MAIN", "MAIN", "<built-in>"), centre(2, "CAF", "Main", "<entire-module>", 1),
               centre(3, "main"), centre(4, "f", source="A.hs:2:1"), centre(5, "g")]
    stacks = [sample([stack([], 7), stack([3], 10), stack([4, 3], 20), stack([5, 4, 3], 40),
                      stack([2], 5)], SECOND),
              sample([stack([4, 3], 25), stack([5, 4, 3], 80)], 2 * SECOND)]
    out = {
        "closure": (named(CLOSURE, *types), "types", "type", types),
        "type": (named(TYPE, *types), "types", "type", types),
        "closure_type": (named(CLOSURE_TYPE, *types), "types", "type", types),
        "module": (named(MODULE, *modules), "modules", "module", modules),
        "era": (named(ERA, {"1": 10, "2": 20}, {"2": 30}), "types", "type",
                ({"era 1": 10, "era 2": 20}, {"era 2": 30})),
        "newer": (named(42, *types), "types", "type", types),
        "retainer": (named(RETAINER, {"(12)f,main": 100, "(13)main": 5, "MANY": 60, "(4)SYSTEM": 1},
                           {"(3)main,f": 200, "(2)std::map<a, b>,main": 7, "(9)g,g": 3}),
                     "retainers", "label",
                     ({"f, main": 100, "main": 5, "MANY": 60, "SYSTEM": 1},
                      {"f, main": 200, "main, std::map<a, b>": 7, "g, g (2)": 3})),
        "info": (log(program(), table(0x4f3a8, "mk_info", "mk", "Main", "A.hs:10:1-20"),
                     table(0x4f3b0, "mk2_info", "mk", "Main", "A.hs:10:1-20"), begin(INFO),
                     sample([string("0x4f3a8", 10), string("0x4f3b0", 20), string("0x99", 5)],
                            SECOND)),
                 "types", "type", ({"Main.mk :: Tree (A.hs:10:1-20)": 10,
                                    "Main.mk :: Tree (A.hs:10:1-20) at 0x4f3b0": 20, "0x99": 5},)),
        "biography": (log(program(), begin(BIOGRAPHY),
                          life([string(p, 200 + i) for i, p in enumerate(PHASES)], 2 * SECOND, 2),
                          life([string(p, 100 + i) for i, p in enumerate(PHASES)], SECOND, 2)),
                      "biography", "phase",
                      ({"void": 100, "lag": 101, "use": 102, "inherent": 103, "drag": 104},
                       {"void": 200, "lag": 201, "use": 202, "inherent": 203, "drag": 204})),
        "centre": (log(program(), *centres, begin(CENTRE), *stacks), "sites", "label",
                   ({"MAIN": 7, "main": 10, "f": 20, "g": 40, "CAF": 5}, {"f": 25, "g": 80})),
        # as GHC 9.0 orders them; definitions behind their use; block markers; what is unknown
        "order": (log(event(18, 0, struct.pack(">IQH", 24, 9, 0xffff)), begin(CENTRE), *stacks,
                      event(700, 5, b"secret"), *centres, program()), "sites", "label",
                  ({"MAIN": 7, "main": 10, "f": 20, "g": 40, "CAF": 5}, {"f": 25, "g": 80})),
        # two break-downs at a time, and one that fits in no table any more
        "profiles": (log(begin(MODULE, 0), begin(TYPE, 1), begin(CLOSURE, 2),
                         sample([string("M", 30, 0), string("T", 20, 1), string("t", 10, 1),
                                 string("C", 30, 2)], SECOND)),
                     "types", "type", ({"T": 20, "t": 10},)),
        # no begin event: as the program was called, else by looks
        "unnamed": (log(program(("p", "+RTS", "-hm")), sample([string("Main", 3)], SECOND)),
                    "modules", "module", ({"Main": 3},)),
        "looks": (log(sample([string("(2)a,b", 3), string("MANY", 4)], SECOND)),
                  "retainers", "label", ({"a, b": 3, "MANY": 4},)),
        # older runtimes do not say where a sample ends
        "endless": (log(begin(TYPE), sample([string("A", 1)], SECOND, end=False),
                        sample([string("A", 2), string("A", 3)], 2 * SECOND, end=False)),
                    "types", "type", ({"A": 1}, {"A": 5})),
    }
    cut = "(123)abcdefghijklmnop,qrst"[:25]
    out["cut_name"] = (named(RETAINER, {cut: 5, "(1)abc,d": 6}, {"(7)" + cut[5:]: 9}),
                       "retainers", "label",
                       ({cut[5:]: 5, "abc, d": 6}, {"abcdefghijklmnop, qrs": 9}))
    return out


def lies():
    """name: (log, the offset that has to be told or None, a word of the error)"""
    good = [string("A", 5)]
    start = len(header())
    out = {}

    def add(name, parts, word, at=None):
        data = log(*parts)
        out[name] = (data, at, word)
    b = begin(TYPE)
    first = start + len(b) + len(event(162, SECOND, struct.pack(">Q", 0)))
    add("length", [b, sample([event(164, 1, struct.pack(">BQ", 0, 5) + text("A"), length=60000)],
                             SECOND)], "more than the file has left", first + 10)
    add("no_end_of_string", [b, sample([event(164, 1, struct.pack(">BQ", 0, 5) + b"AB")], SECOND)],
        "has no end", first + 12 + 9)
    add("short", [b, sample([event(164, 1, b"\0\0\0")], SECOND)], "ends before", first + 12 + 1)
    c = begin(CENTRE)
    add("depth", [centre(1, "a"), c, sample([stack([1], 5, depth=9)], SECOND)], "cost centres in")
    add("undefined", [centre(1, "a"), c, sample([stack([1, 2], 5)], SECOND)], "is not defined")
    add("twice", [centre(1, "a"), centre(1, "b"), c, sample([stack([1], 5)], SECOND)],
        "defined twice")
    add("two_breakdowns", [b, begin(MODULE), sample(good, SECOND)], "begins twice")
    add("nothing", [begin(0), sample(good, SECOND)], "by nothing", start + 12 + 9)
    add("not_begun", [b, sample([string("A", 1, profile=3)], SECOND)], "which has not begun")
    add("utf8", [b, sample([string(b"a\xc3(", 5)], SECOND)], "UTF-8", first + 12 + 9 + 1)
    add("time", [program(), b, sample(good, 2**64 - 5)], "a time that is none")
    add("wall", [event(43, 2, struct.pack(">IQI", 1, 2**62, 2)), b, sample(good, SECOND)],
        "time of day")
    add("sum", [b, sample([string("A", 2**62), string("B", 2**62), string("C", 1)], SECOND)],
        "more than 2^63")
    add("phase", [begin(BIOGRAPHY), sample([string("LIFE", 1)], SECOND)], "phase of life")
    add("stack_in_types", [centre(1, "a"), b, sample([stack([1], 5)], SECOND)], "by type")
    add("ordinal", [b, event(162, 1, struct.pack(">Q", 4)) + event(165, 1, struct.pack(">Q", 5))],
        "sample 4 has begun")
    add("table_twice", [table(1, "a", "l", "M", "f"), table(1, "b", "l", "M", "f"), begin(INFO),
                        sample([string("0x1", 1)], SECOND)], "explained twice")
    add("undeclared", [b, struct.pack(">HQ", 999, 1), sample(good, SECOND)], "not declared",
        start + len(b))
    bad = log(b, sample(good, SECOND))
    out["kind_twice"] = (bad.replace(b"hetb", b"hetb" + b"etb\0" + struct.pack(">HHI", 164, 9, 0) +
                                     struct.pack(">I", 0) + b"ete\0", 1), None, "declared twice")
    out["name_length"] = (b"hdrbhetbetb\0" + struct.pack(">HHI", 1, 2, 2**31) + b"abc", 16,
                          "more than the file has left")
    out["mark"] = (b"hdrbhetbxxxx" + bad, 8, "missing in its header")
    return out


HP = ('JOB "prog arg +RTS -{} -i0.1"\nDATE "Sat Nov 21 06:25 2026"\nSAMPLE_UNIT "seconds"\n'
      'VALUE_UNIT "bytes"\n')


def hps():
    def hp(option, first, second, sep="\t"):
        out = HP.format(option) + "BEGIN_SAMPLE 0.000000\nEND_SAMPLE 0.000000\n"
        for time, rows in ((0.5, first), (1.25, second)):
            out += "BEGIN_SAMPLE %f\n" % time
            out += "".join("%s%s%d\n" % (n, sep, b) for n, b in rows)
            out += "END_SAMPLE %f\n" % time
        return (out + "BEGIN_SAMPLE 2.000000\nEND_SAMPLE 2.000000\n").encode()
    paths = [("MAIN", 7), ("(3)main", 10), ("(4)f/main", 20), ("(9)Main.CAF", 3)]
    return {
        "hp_type": (hp("hy", [("Node", 12), ("77", 3)], [("Node", 13)]), "types", "type",
                    ({"Node": 12, "77": 3}, {"Node": 13})),
        "hp_centre": (hp("hc", paths, paths[:2], " "), "sites", "label",
                      ({"MAIN": 7, "main": 10, "f": 20, "CAF": 3}, {"MAIN": 7, "main": 10})),
        "hp_module": (hp("hm", [("Main", 12)], [("Main", 13)]), "modules", "module",
                      ({"Main": 12}, {"Main": 13})),
        "hp_retainer": (hp("hr", [("(12)a,b", 12), ("MANY", 5)], [("(2)b,a", 13)]), "retainers",
                        "label", ({"a, b": 12, "MANY": 5}, {"a, b": 13})),
        "hp_biography": (hp("hb", [(p, 1) for p in PHASES], [(p, 2) for p in PHASES]), "biography",
                         "phase", ({p: 1 for p in ("void", "lag", "use", "inherent", "drag")},
                                   {p: 2 for p in ("void", "lag", "use", "inherent", "drag")})),
        "hp_looks": (hp("i", [("(12)a/b", 12), ("MAIN", 5)], [("(12)a/b", 13)]), "sites", "label",
                     ({"a": 12, "MAIN": 5}, {"a": 13})),
        # header behind the samples, marks, CRLF, twice the same name, rows before a sample
        "hp_form": (b"BEGIN_SAMPLE 1.5\r\nA 1\r\nA 2\r\nEND_SAMPLE 7.0\r\nMARK 1.6 B 4\n"
                    b"BEGIN_SAMPLE 2. C 5 END_SAMPLE 2.0 " + HP.format("hd").replace(
                        "prog", 'a ""b"" ').encode(), "types", "type",
                    ({"A": 3}, {"B": 4, "C": 5})),
    }


def hp_lies():
    good = HP.format("hy") + "BEGIN_SAMPLE 1.0\nA 1\nEND_SAMPLE 1.0\n"
    n = len(good)
    lie = {
        "hp_back": ("BEGIN_SAMPLE 0.5\nEND_SAMPLE 0.5\n", n, "earlier"),
        "hp_mark": ("BEGIN_SAMPLE 2.0\nMARK 2.0\nEND_SAMPLE 2.0\n", n + 17, "mark"),
        "hp_integer": ("BEGIN_SAMPLE 2\nEND_SAMPLE 2.0\n", n + 13, "point"),
        "hp_exponent": ("BEGIN_SAMPLE 2.0e1\nEND_SAMPLE 2.0\n", n + 13, "point"),
        "hp_sign": ("BEGIN_SAMPLE 2.0\nB -5\nEND_SAMPLE 2.0\n", n + 19, "number"),
        "hp_big": ("BEGIN_SAMPLE 2.0\nB 9223372036854775808\nEND_SAMPLE 2.0\n", n + 19, "2^63"),
        "hp_blank": ("BEGIN_SAMPLE 2.0\nB C 5\nEND_SAMPLE 2.0\n", n + 19, "number"),
        "hp_quote": ('BEGIN_SAMPLE 2.0\n"B" 5\nEND_SAMPLE 2.0\n', n + 17, "string"),
        "hp_nested": ("BEGIN_SAMPLE 2.0\nBEGIN_SAMPLE 3.0\n", n + 17, "within"),
        "hp_end": ("END_SAMPLE 2.0\n", n, "not begun"),
        "hp_year": ("BEGIN_SAMPLE 99999999999999999999.0\nEND_SAMPLE 2.0\n", n + 13, "none"),
        "hp_long": ("BEGIN_SAMPLE 2.0\n" + 5000 * "x" + " 1\nEND_SAMPLE 2.0\n", n + 17, "4999"),
    }
    out = {name: ((good + more).encode(), at, word) for name, (more, at, word) in lie.items()}
    out["hp_utf8"] = (good.encode() + b"BEGIN_SAMPLE 2.0\n\xff\xfe 5\nEND_SAMPLE 2.0\n", n + 17,
                      "UTF-8")
    out["hp_no_date"] = (good.replace("DATE", "DATA").encode(), None, "number")
    out["hp_header"] = (b'JOB "x"\nBEGIN_SAMPLE 1.0\nEND_SAMPLE 1.0\n', 40, "without its DATE")
    out["hp_empty"] = (HP.format("hy").encode(), len(HP.format("hy")), "without a whole sample")
    return out


def main():
    for group in (logs(), lies(), hps(), hp_lies()):
        for name, entry in group.items():
            ending = ".hp" if name.startswith("hp_") else ".eventlog"
            with open(os.path.join(sys.argv[1], name + ending), "wb") as out:
                out.write(entry[0])


if __name__ == "__main__":
    main()
