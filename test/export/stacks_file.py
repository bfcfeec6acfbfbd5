"""stacks_file.py - strict readers of the formats of stacks.

profile(): gzipped profile.proto, by its wire format: only known fields, of the right type and once
where they are single, ids 1, 2, ... in the order of their tables, every reference resolved, every
text UTF-8, the bounds of those who take such profiles. folded(), speedscope(), flamegraph(): the
same for lines, JSON and SVG. What is not exactly as said is an error. Each gives a mapping from
paths (names, the root first) to bytes, or to all values.
"""
import collections
import gzip
import json
import re
import xml.etree.ElementTree as etree

VARINT, BYTES = 0, 2
# message: {field: (name, wire type, message or kind, repeated)}
FIELDS = {
    "profile": {1: ("types", BYTES, "type", True), 2: ("samples", BYTES, "sample", True),
                3: ("mappings", BYTES, "mapping", True),
                4: ("locations", BYTES, "location", True),
                5: ("functions", BYTES, "function", True), 6: ("strings", BYTES, "text", True),
                9: ("time", VARINT, None, False), 10: ("duration", VARINT, None, False),
                11: ("period_type", BYTES, "type", False), 12: ("period", VARINT, None, False),
                13: ("comments", VARINT, None, True), 14: ("default", VARINT, None, False)},
    "type": {1: ("type", VARINT, None, False), 2: ("unit", VARINT, None, False)},
    "sample": {1: ("locations", BYTES, "packed", False), 2: ("values", BYTES, "packed", False)},
    "mapping": {1: ("id", VARINT, None, False), 5: ("file", VARINT, None, False),
                6: ("build_id", VARINT, None, False), 7: ("functions", VARINT, None, False),
                8: ("files", VARINT, None, False), 9: ("lines", VARINT, None, False),
                10: ("inlined", VARINT, None, False)},
    "location": {1: ("id", VARINT, None, False), 2: ("mapping", VARINT, None, False),
                 4: ("lines", BYTES, "line", True)},
    "line": {1: ("function", VARINT, None, False), 2: ("line", VARINT, None, False)},
    "function": {1: ("id", VARINT, None, False), 2: ("name", VARINT, None, False),
                 3: ("symbol", VARINT, None, False), 4: ("file", VARINT, None, False)},
}
TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
         ("inuse_space", "bytes")]


class Failure(Exception):
    """Something is not as it should be."""


def check(condition, text):
    if not condition:
        raise Failure(text)


# --- profile.proto ------------------------------------------------------------------

def varint(data, at):
    value = shift = 0
    while True:
        check(at < len(data) and shift < 70, "a number without end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            check(value < 2 ** 64 and (byte or shift == 7), "a number that is too long")
            return value, at


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def message(kind, data):
    fields = FIELDS[kind]
    made = {name: [] if repeated else None for name, _, _, repeated in fields.values()}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        check(key >> 3 in fields, f"{kind}: field {key >> 3}")
        name, wire, inner, repeated = fields[key >> 3]
        check(key & 7 == wire, f"{kind}.{name}: wire type {key & 7}")
        value, at = varint(data, at)
        if wire == BYTES:
            check(value <= len(data) - at, f"{kind}.{name}: longer than what holds it")
            body = bytes(data[at:at + value])
            at += value
            value = (body.decode("utf-8") if inner == "text" else packed(body)
                     if inner == "packed" else message(inner, body))
        if repeated:
            made[name].append(value)
        else:
            check(made[name] is None, f"{kind}.{name}: twice")
            check(value or wire == BYTES, f"{kind}.{name}: a zero that is written")
            made[name] = value
    return made


def unzip(data):
    check(data[:4] == b"\x1f\x8b\x08\x00" and data[4:8] == bytes(4),
          "no plain gzip header without a time")
    return gzip.decompress(data)


def in_order(table, what):
    check([entry["id"] for entry in table] == list(range(1, len(table) + 1)), f"ids of {what}")


def profile(data):
    """(message, [names of the sample types], {path: [values]})"""
    raw = unzip(data)
    check(len(raw) < 4 << 20, f"{len(raw)} bytes unpacked")
    made = message("profile", raw)
    strings = made["strings"]
    check(strings and strings[0] == "" and len(set(strings)) == len(strings), "table of strings")
    check(max(len(s.encode()) for s in strings) <= 65535, "a string is too long")

    def text(number, what):
        check((number or 0) < len(strings), f"{what}: no string {number}")
        return strings[number or 0]

    types = [(text(t["type"], "type"), text(t["unit"], "unit")) for t in made["types"]]
    check(types == [t for t in TYPES if t in types] and ("inuse_space", "bytes") in types,
          f"sample types {types}")
    check(text(made["default"], "default") == "inuse_space", "default sample type")
    period = made["period_type"]
    check((text(period["type"], "period"), text(period["unit"], "period")) == ("space", "bytes")
          and made["period"] >= 1, "period")
    for comment in made["comments"]:
        check(text(comment, "comment"), "an empty comment")
    check(made["mappings"] and text(made["mappings"][0]["file"], "file"), "the first mapping")
    for what in ("mappings", "locations", "functions"):
        in_order(made[what], what)
    for mapping in made["mappings"]:
        text(mapping["file"], "file")
        text(mapping["build_id"], "build id")
    for function in made["functions"]:
        check(text(function["name"], "name"), "a function without a name")
        text(function["symbol"], "symbol")
        text(function["file"], "file")
    names = {}
    for location in made["locations"]:
        check(1 <= location["mapping"] <= len(made["mappings"]), "mapping of a location")
        check(len(location["lines"]) == 1, "lines of a location")
        function = location["lines"][0]["function"]
        check(function and function <= len(made["functions"]), "function of a line")
        names[location["id"]] = strings[made["functions"][function - 1]["name"]]
    used, paths = set(), collections.defaultdict(lambda: [0] * len(types))
    check(len(made["samples"]) <= 16000, f"{len(made['samples'])} samples")
    for sample in made["samples"]:
        check(len(sample["values"] or []) == len(types), "values of a sample")
        check(sample["locations"] and len(sample["locations"]) <= 1000, "depth of a sample")
        check(all(value < 2 ** 63 for value in sample["values"]) and any(sample["values"]),
              "values of a sample")
        used.update(sample["locations"])
        path = tuple(names[number] for number in reversed(sample["locations"]))
        for i, value in enumerate(sample["values"]):
            paths[path][i] += value
    check(used == set(names), "locations that no sample has")
    return made, [name for name, _ in types], dict(paths)


# --- lines, JSON, SVG ---------------------------------------------------------------

def folded(data):
    text = data.decode("utf-8")
    check(text == "" or text.endswith("\n"), "no end of the last line")
    paths = {}
    for line in text.split("\n")[:-1]:
        stack, _, value = line.rpartition(" ")
        check(re.fullmatch("[1-9][0-9]*", value), f"the number of {line!r}")
        frames = tuple(stack.split(";"))
        check(all(frames), f"an empty frame in {line!r}")
        check(not re.search("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", line), f"{line!r}")
        check(frames not in paths, f"twice: {line!r}")
        paths[frames] = int(value)
    return paths


def keys(thing, must, may, what):
    check(isinstance(thing, dict) and set(must) <= set(thing) <= set(must) | set(may),
          f"members of {what}: {list(thing)}")


def no_twins(pairs):
    check(len({key for key, _ in pairs}) == len(pairs), "a member twice")
    return dict(pairs)


def speedscope(data):
    """{name of the profile: {path: bytes}}, and the frames"""
    made = json.loads(data.decode("utf-8"), object_pairs_hook=no_twins)
    keys(made, ["$schema", "shared", "profiles"], ["name", "exporter", "activeProfileIndex"],
         "the file")
    check(made["$schema"] == "https://www.speedscope.app/file-format-schema.json", "$schema")
    check(0 <= made["activeProfileIndex"] < len(made["profiles"]), "activeProfileIndex")
    keys(made["shared"], ["frames"], [], "shared")
    frames = made["shared"]["frames"]
    for frame in frames:
        keys(frame, ["name"], ["file", "line"], "a frame")
        check(frame["name"] and isinstance(frame.get("file", ""), str) and
              isinstance(frame.get("line", 1), int), f"{frame}")
    profiles, used = {}, set()
    for one in made["profiles"]:
        keys(one, ["type", "name", "unit", "startValue", "endValue", "samples", "weights"], [],
             "a profile")
        check(one["type"] == "sampled" and one["unit"] == "bytes" and one["startValue"] == 0,
              "head of a profile")
        check(len(one["samples"]) == len(one["weights"]), "as many weights as samples")
        check(all(isinstance(w, int) and 0 < w < 2 ** 53 for w in one["weights"]), "weights")
        check(one["endValue"] == sum(one["weights"]), "endValue")
        paths = collections.Counter()
        for sample, weight in zip(one["samples"], one["weights"]):
            check(sample and all(0 <= i < len(frames) for i in sample), "frames of a sample")
            used.update(sample)
            paths[tuple(frames[i]["name"] for i in sample)] += weight
        check(one["name"] not in profiles, "two profiles of one name")
        profiles[one["name"]] = dict(paths)
    check(used == set(range(len(frames))), "frames that no sample has")
    return profiles, frames


SVG = "{http://www.w3.org/2000/svg}"


def percent(text):
    check(re.fullmatch(r"\d+\.\d{4}%", text), f"place {text}")
    return float(text[:-1])


def flamegraph(data):
    """[(level, from, to, name, bytes)]: percents of the width"""
    text = data.decode("utf-8")
    check(not re.search(r"(href|src|url\(|@import|<image|<use|<foreignObject)", text),
          "what is not in the file itself")
    root = etree.fromstring(text)
    check(root.tag == SVG + "svg" and int(root.get("width")) and int(root.get("height")), "size")
    boxes = []
    for box in root.iter(SVG + "svg"):
        if box.get("class") != "b":
            continue
        title = box.find(SVG + "title").text
        said = re.search(r"\(([0-9,]+) bytes\)", title)
        check(said, f"title {title!r}")
        x, width = percent(box.get("x")), percent(box.get("width"))
        y, height = int(box.get("y")), int(box.get("height"))
        check(y % 19 == 0 and height == 18, "place of a box")
        check(0 <= x and x + width <= 100.0005, f"a box beside the picture: {title!r}")
        check(y + height + 104 < int(root.get("height")), "a box below the picture")
        boxes.append((y // 19, x, x + width, title.split("\n")[0],
                      int(said.group(1).replace(",", ""))))
    levels = collections.defaultdict(list)
    for level, start, end, _, _ in boxes:
        levels[level].append((start, end))
    for places in levels.values():
        places.sort()
        for (_, end), (start, _) in zip(places, places[1:]):
            check(end <= start + 0.0002, "boxes that overlap")
    for level, start, end, name, _ in boxes:
        check(level == 0 or any(a - 0.0002 <= start and end <= b + 0.0002
                                for a, b in levels[level - 1]), f"nothing above {name!r}")
    return boxes
