#!/usr/bin/env -S python3 -B
"""pictures.py - drawings in a browser, graphs in Graphviz.

Chromium shows each drawing wide and narrow, light and dark: it is not blank, no text lies on
another one or leaves the page, by the boxes that the browser itself measures. `dot -Tcanon` and
`dot -Tsvg` take each graph without a word, and draw every node and edge of it.

    pictures.py [STORE...]    these stores instead of those made here
"""
# needs: chromium graphviz
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zlib

SRCDIR, BUILDDIR = os.environ["HX_SRCDIR"], os.environ["HX_BUILDDIR"]
HEAPX = os.path.join(BUILDDIR, "heapx")
WORDS = ("retainer", "bin", "ccs", "type", "module", "site", "leak", "account")
MEASURE = """<script><![CDATA[
addEventListener("load", () => {
  const page = document.documentElement, whole = page.getBoundingClientRect(), wrong = [];
  const texts = [...document.querySelectorAll("text")].map(text => {
    const box = text.getBoundingClientRect();
    return {box, name: text.lastChild.data, size: getComputedStyle(text).fontSize};
  });
  const view = page.viewBox.baseVal, scale = page.getScreenCTM().a;
  for (const [i, {box, name}] of texts.entries()) {
    if (box.left < whole.left - 1 || box.right > whole.right + 1 || box.width === 0)
      wrong.push(`'${name}' is not inside`);
    for (const other of texts.slice(0, i)) {
      const x = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
      const y = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
      if (x > 1 && y > 0.3 * Math.min(box.height, other.box.height) && x * y > 12)
        wrong.push(`'${name}' lies on '${other.name}'`);
    }
  }
  const least = Math.min(...texts.map(text => parseFloat(text.size))) * scale;
  page.setAttribute("data-verdict", JSON.stringify({n: texts.length, wrong, least}));
});
]]></script></svg>"""


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, timeout=180, stdin=subprocess.DEVNULL)
    check(done.returncode == status, f"{command}: {done.returncode}, {done.stderr[:500]}")
    return done.stdout, done.stderr


def browser(folder, url, width, height, *options):
    return run("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={folder}/profile", "--virtual-time-budget=2000",
               f"--window-size={width},{height}", *options, url)[0]


def colours(path):
    """How many different rows of pixels a screenshot has: a blank one has one."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed, width = 8, b"", int.from_bytes(data[16:20], "big")
    depth = {2: 3, 6: 4}[data[25]]
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    pixels, row = zlib.decompress(packed), width * depth + 1
    return len({pixels[i:i + row] for i in range(0, len(pixels), row)})


def drawing_test(folder, name, data):
    path = os.path.join(folder, "drawing.svg")
    with open(path, "wb") as file:
        file.write(data)
    measured = os.path.join(folder, "measured.svg")
    with open(measured, "wb") as file:
        file.write(data.replace(b"</svg>", MEASURE.encode()))
    for width, least in ((1280, 11), (500, 9)): # 500: the least that a window of it has
        dom = browser(folder, f"file://{measured}", width, 900, "--dump-dom").decode()
        verdict = re.search(r'data-verdict="([^"]*)"', dom)
        check(verdict, f"{name}: no verdict in {dom[:300]}")
        text = verdict.group(1).replace("&quot;", '"').replace("&amp;", "&")
        check('"wrong":[]' in text, f"{name} at {width}: {text}")
        letters = float(re.search(r'"least":([0-9.]+)', text).group(1))
        check(letters >= least or width == 1280, f"{name} at {width}: letters of {letters}")
    page = os.path.join(folder, "page.html")
    for width, height in ((1280, 800), (390, 844)):
        with open(page, "w") as file:
            file.write(f'<body style="margin:0"><img src="drawing.svg" width="{width}">')
        shot = os.path.join(folder, "shot.png")
        browser(folder, f"file://{page}", max(width, 500), height, f"--screenshot={shot}")
        check(colours(shot) > 20, f"{name} at {width}: blank")


def graph_test(name, path, *options):
    data, _ = run(HEAPX, "export", path, "dot", *options)
    nodes = len(re.findall(rb'^  "(?:[^"\\]|\\.)*" \[', data, re.M))
    edges = len(re.findall(rb'^  "(?:[^"\\]|\\.)*" -> ', data, re.M))
    for form in ("canon", "svg"):
        done = subprocess.run(["dot", f"-T{form}"], input=data, capture_output=True, timeout=180,
                              check=True)
        check(not done.stderr, f"{name}: dot says {done.stderr}")
    page = ElementTree.fromstring(done.stdout)
    drawn = [group.get("class") for group in page.iter("{http://www.w3.org/2000/svg}g")]
    check(drawn.count("node") == nodes and drawn.count("edge") == edges,
          f"{name}: {nodes} nodes, {edges} edges, drawn {drawn}")


def store_test(folder, path):
    name = os.path.basename(path)
    for word in WORDS:
        done = subprocess.run([HEAPX, "export", path, "svg", "--by", word], capture_output=True,
                              timeout=180, stdin=subprocess.DEVNULL)
        if done.returncode != 1: # there is data
            drawing_test(folder, f"{name} by {word}", done.stdout)
    drawing_test(folder, f"bars of {name}", run(HEAPX, "export", path, "svg", "--snapshot",
                                                "last")[0])
    for word in ("chain", "dominator", "type"):
        graph_test(f"{name} by {word}", path, "--by", word)


def main():
    with tempfile.TemporaryDirectory(prefix="heapx.pictures.") as folder:
        stores = sys.argv[1:]
        for name, *command in (() if stores else (
                ("few.db", "test/ui/make_store", "2", "30", "recorded"),
                ("crowd.db", "test/ui/make_store", "20", "60", "crowd"),
                ("long.db", "test/ui/make_store", "200", "20"),
                ("random.db", "test/export/random_store", "9", os.environ.get("HX_SEED", "11")))):
            stores.append(os.path.join(folder, name))
            run(os.path.join(BUILDDIR, command[0]), stores[-1], *command[1:])
        for path in stores:
            store_test(folder, path)
    print("pictures: all right")


main()
