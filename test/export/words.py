#!/usr/bin/env -S python3 -B
"""words.py - the words of `heapx export` and `import`, where results go, and every format of the
table: it writes something, alike each time, or says what is missing; and never half a file."""
import os
import re
import signal
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402
from live import check, heapx  # noqa: E402


def formats(store):
    """(name, words of --by) of each: names from the help, words from the error."""
    text = heapx("help", "export")[1]
    found = []
    for name in re.findall(r"(?m)^  ([a-z]\w*) ", text[text.index("Formats"):].split("\n\n")[0]):
        err = heapx("export", store, name, "--by", "?", ok=(2,))[2]
        found.append((name, err.split("takes: ")[1].split(" and every view")[0].split()))
    check(len(found) > 10 and all(by for _, by in found), f"formats: {found}")
    return found


def make_store(path, kind):
    maker = os.path.join(live.BUILD, "test/ui/make_store")
    if not os.path.exists(maker):
        raise live.Skip("the explorer is not built, and nothing makes a store")
    subprocess.run([maker, path, "3", "40", kind], check=True)


def refuse(args, status, words, out=None):
    _, text, err = heapx("export", *args, ok=(status,))
    check(words in err, f"{args}: {words!r} is not in {err!r}")
    check(err.startswith("heapx: ") and err.count("\n") == 1, f"{args}: not one line: {err!r}")
    check(text == "", f"{args}: wrote {text!r}")
    check(out is None or not os.path.exists(out), f"{args}: left {out}")


def names(folder, known):
    """Nothing is in the folder but what is known."""
    there = set(os.listdir(folder))
    check(there == set(known), f"{folder} holds {sorted(there)}")


def words(folder):
    store = os.path.join(folder, "store.db")
    make_store(store, "recorded")
    out = os.path.join(folder, "out")
    refuse([store, "hprof-of-nobody"], 2, "unknown format", out)
    refuse([store, "folded", "--by", "colour"], 2, "none of them")
    refuse([store, "folded", "--snapshot", "all"], 2, "one snapshot")
    refuse([store, "folded", "--object", "0x10"], 2, "not about one object")
    refuse([store, "dot", "--object", "x"], 2, "an address")
    refuse([store, "folded", "--snapshot", "77"], 1, "77")
    refuse([out, "folded"], 1, "no such file")
    refuse(["/dev/null", "folded"], 1, "/dev/null")
    refuse([store, "biography-of", "-o", out], 2, "unknown format", out)
    refuse([store, "csv", "--by", "biography", "-o", out], 1, "biography", out)
    refuse([store, "folded", "-o", folder], 1, "folder")
    refuse([store, "folded", "-o", os.path.join(folder, "no/such/place")], 1, "No such file")
    refuse([store, "folded", "-o", store], 1, "is a database")  # and is kept
    heapx("report", store, "snapshots")
    names(folder, ["store.db"])


def places(folder):
    """A file appears whole, for the user alone, through links, and in place of an older one."""
    store = os.path.join(folder, "store.db")
    out = os.path.join(folder, "out")
    make_store(store, "recorded")
    whole = heapx("export", store, "csv")[1]
    check(heapx("export", store, "csv", "-o", out)[1] == "", "-o wrote to stdout, too")
    check(heapx("export", store, "csv", "-o", "-")[1] == whole, "-o - is not stdout")
    with open(out, encoding="utf-8") as file:
        check(file.read() == whole, "-o and stdout differ")
    check(stat.S_IMODE(os.stat(out).st_mode) == 0o600, "others may read it")
    link = os.path.join(folder, "link")
    os.symlink("out", link)
    heapx("export", store, "jsonl", "-o", link)
    check(os.path.islink(link), "the link is gone")
    with open(out, encoding="utf-8") as file:
        check(file.read() == heapx("export", store, "jsonl")[1], "the link's file is another")
    heapx("export", store, "csv", "-o", "/dev/null")
    check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is a file now")
    _, text, err = heapx("export", store, "csv", "-o", "/dev/full", ok=(1,))
    check("No space left" in err, err)
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = subprocess.run([live.HEAPX, "export", store, "csv"], stdout=full,
                             stderr=subprocess.PIPE, check=False)
    check(run.returncode == 1 and b"No space left" in run.stderr, run.stderr)
    reader = subprocess.Popen([live.HEAPX, "export", store, "json", "--by", "objects"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader.stdout.close()  # goes away, as `head` does
    _, err = reader.communicate(timeout=60 * live.SLOW)
    check(reader.returncode in (0, -signal.SIGPIPE) and err == b"", (reader.returncode, err))
    names(folder, ["store.db", "out", "link"])
    os.unlink(link)
    os.unlink(out)


def alike(store, name, by, times):
    """Exports are the same bytes each time. What is absent says so, and leaves nothing."""
    data = set()
    for _ in range(times):
        place = f"{store}.out"
        args = ["export", store, name, *(["--by", by] if by else []), "-o", place]
        status, _, err = heapx(*args, ok=(0, 1))
        check(os.path.exists(place) == (status == 0), f"{args}: exit {status}: {err}")
        data.add(None)
        if status == 0:
            with open(place, "rb") as file:
                data.add(file.read())
            os.unlink(place)
    check(len(data) <= 2, f"{args}: twice not the same")
    check(b"" not in data or name == "jsonl", f"{args}: an empty file")


def recorded(folder):
    store = os.path.join(folder, "store.db")
    make_store(store, "recorded")
    for name, by in formats(store):
        alike(store, name, None, 2)
        for word in by:
            alike(store, name, word, 1)
    names(folder, ["store.db"])


def bare(folder):
    store = os.path.join(folder, "store.db")
    make_store(store, "bare")
    for name, by in formats(store):
        alike(store, name, by[-1], 1)
    names(folder, ["store.db"])


def imports(folder):
    out = os.path.join(folder, "new.db")
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("no profile\n")
    for args, status, word in (
            (["import", text], 2, "-o"),
            (["import", text, "-o", out], 1, "no known format"),
            (["import", text + ".gone", "-o", out], 1, "No such file"),
            (["import", folder, "-o", out], 1, folder)):
        err = heapx(*args, ok=(status,))[2]
        check(word in err and err.count("\n") == 1, f"{args}: {err!r}")
        check(not os.path.exists(out), f"{args}: left {out}")


if __name__ == "__main__":
    live.main(words, places, imports, recorded, bare, traces=False)
