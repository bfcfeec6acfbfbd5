"""eventlog.py - strict readers of what heapx writes for GHC's tools.

    eventlog.py LOG...       decodes event logs, a line for each event

Log: event logs. Each byte is accounted for; types declared; strings UTF-8; cost centres defined
before they are used; samples numbered from 0 on; times that do not fall. hp(): .hp files by the
grammar that hp2ps has. What is not exactly as said is an error.
"""
import collections
import re
import struct
import sys

VARIES = 0xffff
# number: bytes of the payload
SIZES = {16: VARIES, 25: 6, 29: VARIES, 30: VARIES, 32: 8, 43: 16, 49: 12, 50: 12, 51: 12,
         160: VARIES, 161: VARIES, 162: 8, 163: VARIES, 164: VARIES, 165: 8, 166: 16,
         167: VARIES, 168: 8}
COST_CENTRE, MODULE, CLOSURE, TYPE, RETAINER, BIOGRAPHY, CLOSURE_TYPE = range(1, 8)


class Bad(Exception):
    """The file is not as it should be."""


def need(condition, text):
    if not condition:
        raise Bad(text)


class Cursor:
    """Bytes that are taken one field after the other, and no more than there are."""

    def __init__(self, data, at=0, end=None):
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def take(self, n):
        need(0 <= n <= self.end - self.at, f"at byte {self.at}: {n} bytes, {self.end - self.at} left")
        self.at += n
        return self.data[self.at - n:self.at]

    def u(self, n):
        return int.from_bytes(self.take(n), "big")

    def string(self):
        end = self.data.find(b"\0", self.at, self.end)
        need(end >= 0, f"at byte {self.at}: a string without end")
        text = self.take(end - self.at)
        self.take(1)
        return text.decode("utf-8")

    def rest(self):
        return self.take(self.end - self.at)


Event = collections.namedtuple("Event", "id time fields")


def header(cursor):
    need(cursor.take(8) == b"hdrbhetb", "no header")
    types = {}
    while True:
        word = cursor.take(4)
        if word == b"hete":
            break
        need(word == b"etb\0", f"at byte {cursor.at - 4}: {word}")
        number, size = cursor.u(2), cursor.u(2)
        need(number not in types, f"type {number} twice")
        cursor.take(cursor.u(4)).decode("utf-8")
        need(cursor.u(4) == 0, "an extra field")
        need(cursor.take(4) == b"ete\0", "end of a type")
        need(number in SIZES and SIZES[number] == size, f"type {number} of size {size}")
        types[number] = size
    need(cursor.take(8) == b"hdredatb", "end of the header")
    return types


def payload(number, c):
    """The fields of an event; the cursor holds exactly its payload."""
    if number == 16:
        return (c.rest().decode("utf-8"),)
    if number == 25:
        return c.u(4), c.u(2)
    if number == 29:
        return c.u(4), c.rest().decode("utf-8")
    if number == 30:
        return c.u(4), c.rest().decode("utf-8")
    if number in (32,):
        return c.u(4), c.u(4)
    if number == 43:
        return c.u(4), c.u(8), c.u(4)
    if number in (49, 50, 51):
        return c.u(4), c.u(8)
    if number == 160:
        return c.u(1), c.u(8), c.u(4), tuple(c.string() for _ in range(7))
    if number == 161:
        return c.u(4), c.string(), c.string(), c.string(), c.u(1)
    if number in (162, 165, 168):
        return (c.u(8),)
    if number == 163:
        return c.u(1), c.u(8), tuple(c.u(4) for _ in range(c.u(1)))
    if number == 164:
        return c.u(1), c.u(8), c.string()
    if number == 166:
        return c.u(8), c.u(8)
    if number == 167:
        return c.u(4), c.u(8), tuple(c.u(4) for _ in range(c.u(1)))
    raise Bad(f"event {number}")


def events(data):
    cursor = Cursor(data)
    types = header(cursor)
    before = 1
    while True:
        number = cursor.u(2)
        if number == 0xffff:
            break
        need(number in types, f"event {number} is not declared")
        time = cursor.u(8)
        need(time >= before, f"event {number}: time {time} behind {before}")
        before = time
        size = types[number] if types[number] != VARIES else cursor.u(2)
        c = Cursor(data, cursor.at, cursor.at + size)
        cursor.take(size)
        fields = payload(number, c)
        need(c.at == c.end, f"event {number}: {c.end - c.at} bytes too many")
        yield Event(number, time, fields)
    need(cursor.at == len(data), f"{len(data) - cursor.at} bytes behind the end")


class Sample:
    def __init__(self, number, time):
        self.number, self.time = number, time
        self.rows = []  # (stack of cost centres or text, bytes)
        self.heap = {}  # event: bytes
        self.ticks = {}  # capability: stack

    def total(self):
        return sum(count for _, count in self.rows)


class Log:
    """An event log by what it says: begin, centres, samples, sets, program, messages."""

    def __init__(self, data):
        self.events = list(events(data))
        self.begin = self.tick_interval = self.pid = self.program = self.writer = self.clock = None
        self.centres, self.samples, self.sets, self.messages = {}, [], {}, []
        self.sample = self.last = None
        self.heap = {}
        for event in self.events:
            self.read(event)
        need(self.sample is None, "a sample without end")
        need(self.begin is not None, "no begin of samples")
        need(self.sets == {0: 2, 1: 3}, f"sets of capabilities: {self.sets}")
        need(self.writer and self.program is not None and self.clock, "who, what or when is missing")

    def read(self, event):
        n, f = event.id, event.fields
        if n == 16:
            self.messages.append(f[0])
        elif n == 25:
            need(f[0] not in self.sets, "a set twice")
            self.sets[f[0]] = f[1]
        elif n in (29, 30, 32, 43, 49, 50, 51):
            need(f[0] in self.sets, f"event {n} of a set that is not there")
            if n == 29:
                self.writer = f[1]
            elif n == 30:
                need(f[1].endswith("\0"), "program without end")
                self.program = f[1].split("\0")[:-1]
            elif n == 32:
                self.pid = f[1]
            elif n == 43:
                need(f[2] < 10**9, "nanoseconds")
                self.clock = f[1] * 10**9 + f[2] - event.time
            else:
                need(self.sample is None, "the heap within a sample")
                self.heap[n] = f[1]
        elif n == 160:
            need(self.begin is None and f[0] == 0 and 1 <= f[2] <= 7, f"begin {f}")
            self.begin = f
        elif n == 161:
            need(f[0] not in self.centres and f[4] in (0, 1), f"cost centre {f}")
            self.centres[f[0]] = f[1:]
        elif n in (162, 166):
            need(self.begin is not None and self.sample is None, "begin of a sample")
            need((n == 166) == (self.begin[2] == BIOGRAPHY), f"event {n} for {self.begin[2]}")
            need(f[0] == len(self.samples), f"sample {f[0]}, not {len(self.samples)}")
            need(n == 162 or f[1] == event.time, "the time of a biography")
            need(not self.samples or event.time > self.samples[-1].time, "time of a sample")
            self.sample = Sample(f[0], event.time)
            self.sample.heap, self.heap = self.heap, {}
        elif n in (163, 164):
            need(self.sample is not None and f[0] == 0, "a row outside of a sample")
            need((n == 163) == (self.begin[2] == COST_CENTRE), f"event {n} for {self.begin[2]}")
            if n == 163:
                need(all(c in self.centres for c in f[2]), f"unknown cost centre in {f[2]}")
            self.sample.rows.append((f[2], f[1]))
        elif n == 165:
            need(self.sample is not None and f[0] == self.sample.number, "end of a sample")
            names = [name for name, _ in self.sample.rows]
            need(len(set(names)) == len(names), "a name twice in a sample")
            self.samples.append(self.sample)
            self.sample = None
        elif n == 167:
            need(self.tick_interval is not None and self.samples, "a tick before they begin")
            need(f[1] == self.samples[-1].number, f"tick {f[1]}")
            need(all(c in self.centres for c in f[2]), f"unknown cost centre in {f[2]}")
            need(f[0] not in self.samples[-1].ticks, "a capability twice in a tick")
            self.samples[-1].ticks[f[0]] = f[2]
        elif n == 168:
            need(self.tick_interval is None and self.begin[2] == COST_CENTRE, "begin of ticks")
            self.tick_interval = f[0]


# --- .hp files --------------------------------------------------------------------------------
KEYWORDS = ("JOB", "DATE", "SAMPLE_UNIT", "VALUE_UNIT", "MARK", "BEGIN_SAMPLE", "END_SAMPLE")
HEAD = re.compile(r'(JOB|DATE|SAMPLE_UNIT|VALUE_UNIT) "((?:[^"]|"")*)"')


def hp(data):
    """({key: text}, [(time, [(name, bytes)])]) of a .hp file"""
    need(data.endswith(b"\n"), "no end of line")
    lines = data.decode("utf-8").split("\n")[:-1]
    head, samples, now = {}, [], None
    for key, line in zip(KEYWORDS[:4], lines):
        match = HEAD.fullmatch(line)
        need(match and match[1] == key, f"{line!r} is not {key}")
        head[key] = match[2].replace('""', '"')
    need(len(head) == 4, "header")
    for line in lines[4:]:
        words = line.split()
        need(len(words) == 2, f"{line!r} is not two words")
        if words[0] in ("BEGIN_SAMPLE", "END_SAMPLE"):
            need(re.fullmatch(r"(BEGIN|END)_SAMPLE \d+\.\d{6}", line), line)
            if words[0] == "END_SAMPLE":
                need(now == words[1], "end of a sample")
                now = None
                continue
            need(now is None, "a sample within a sample")
            now = words[1]
            need(not samples or float(now) >= float(samples[-1][0]), "time falls")
            samples.append((now, []))
            continue
        name, count = line.split("\t")
        need(now is not None, f"{line!r} outside of a sample")
        need(re.fullmatch(r"\d{1,32}", count), f"{count!r} is no number")
        need(name not in KEYWORDS and name[0] != '"', f"{name!r} is no name")
        need(len(name.encode()) <= 4999, "a name that is too long")
        samples[-1][1].append((name, int(count)))
    need(now is None and samples, "no samples, or one without end")
    for _, rows in samples:
        need(len({name for name, _ in rows}) == len(rows), "a name twice in a sample")
    return head, samples


def main():
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            for event in events(file.read()):
                print(event.time, event.id, *event.fields)


if __name__ == "__main__":
    main()
