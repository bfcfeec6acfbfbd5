#!/usr/bin/env -S python3 -B
"""typed.py - are the types of objects the ones that the program gave them?

Programs in C and C++ that print the address and the type of each block that they make: lists, trees,
hashes, arrays, flexible arrays, unions and void * in C, the containers of the library and classes
with and without virtual functions in C++. Built by gcc and clang (where it is), without and with
optimisation, with DWARF 4 and 5, split, with type units, by dwz. With HX_NIGHTLY=1 a million objects.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import time

import live
from live import check, heapx, row, rows

C_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct item { struct item *next; char *text; int number; };
struct entry { struct entry *chain; void *value; unsigned long key; };
struct hash { struct entry **slots; unsigned n; };
struct tree { struct tree *left, *right; double weight; union { long number; void *any; } of; };
struct flexible { int n; struct item *items[]; };
typedef struct { struct item *first; struct tree *top; struct hash index[2]; } model_t;
struct later;
struct later *forward;
struct later { model_t model; struct later *other; };
static struct item *head;
struct hash table;
struct tree *volatile root;
struct flexible *flexible;
model_t *models;
void *hidden;
static void *made(void *block, const char *type)
{
    printf("%p %s\\n", block, type);
    return block;
}
#define MAKE(type, name) (type *)made(calloc(1, sizeof(type)), name)
static struct tree *grow(int depth)
{
    if (!depth)
        return NULL;
    struct tree *tree = MAKE(struct tree, "tree");
    tree->left = grow(depth - 1);
    tree->right = grow(depth - 1);
    tree->of.any = made(malloc(40), "-");
    return tree;
}
static struct item *list(int n)
{
    struct item *first = NULL;
    while (n--) {
        struct item *item = MAKE(struct item, "item");
        item->next = first;
        item->text = made(malloc(30 + n % 50), "-");
        first = item;
    }
    return first;
}
static void fill(struct hash *hash, unsigned n)
{
    hash->n = n;
    hash->slots = made(calloc(n, sizeof *hash->slots), "entry *[]");
    for (unsigned i = 0; i < 3 * n; i++) {
        struct entry *entry = MAKE(struct entry, "entry");
        entry->chain = hash->slots[i % n];
        entry->value = made(malloc(70), "-");
        hash->slots[i % n] = entry;
    }
}
int main(void)
{
    static struct item *inner;
    head = list(2000);
    inner = list(10);
    fill(&table, 64);
    root = grow(9);
    flexible = made(malloc(sizeof *flexible + 20 * sizeof(void *)), "flexible");
    for (int i = 0; i < 20; i++)
        flexible->items[i] = list(1);
    models = made(calloc(5, sizeof *models), "model_t[]");
    for (int i = 0; i < 5; i++) {
        models[i].first = list(5);
        models[i].top = grow(3);
        fill(&models[i].index[1], 16);
    }
    forward = MAKE(struct later, "later");
    forward->other = MAKE(struct later, "later");
    forward->other->model.first = list(3);
    hidden = made(malloc(200), "-");
    puts("ready");
    fflush(stdout);
    pause();
    return inner == head;
}
"""

CXX_PROGRAM = """
#include <cstdio>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>
namespace app {
struct Point { double x, y; Point *near; };
struct Shape { virtual ~Shape() {} Point *at = nullptr; };
struct Circle : Shape { double radius = 1; };
template <class T> struct Tree { T value; Tree *left = nullptr, *right = nullptr; };
struct Store {
    std::map<int, Point> map;
    std::unordered_map<std::string, Point *> names;
    std::unordered_map<int, int> numbers;
    std::list<Point> list;
    std::forward_list<Point> forward;
    std::set<long> set;
    std::vector<Point> points;
    std::vector<Shape *> shapes;
    std::vector<std::unique_ptr<Point>> owned;
    std::unique_ptr<Point> one;
    Tree<int> *tree = nullptr;
};
}
template <class T> static T *made(T *block, const char *type)
{
    std::printf("%p %s\\n", (void *)block, type);
    return block;
}
static app::Tree<int> *grow(int depth)
{
    if (!depth)
        return nullptr;
    auto *tree = made(new app::Tree<int>, "app::Tree<int>");
    tree->left = grow(depth - 1);
    tree->right = grow(depth - 1);
    return tree;
}
app::Store store, *second;
int main()
{
    second = made(new app::Store, "app::Store");
    for (app::Store *to : {&store, second}) {
        for (int i = 0; i < 500; i++) {
            app::Point point = {1, 2, nullptr};
            std::string name = "a name that is long enough " + std::to_string(i);
            to->map[i] = point;
            to->names[name] = made(new app::Point(point), "app::Point");
            to->names[name]->near = made(new app::Point(point), "app::Point");
            to->numbers[i] = i;
            to->list.push_back(point);
            to->forward.push_front(point);
            to->set.insert(i);
            to->points.push_back(point);
            auto *circle = made(new app::Circle, "app::Circle");
            circle->at = made(new app::Point(point), "app::Point");
            to->shapes.push_back(circle);
            to->owned.emplace_back(made(new app::Point(point), "app::Point"));
        }
        to->one.reset(made(new app::Point, "app::Point"));
        to->tree = grow(8);
        made(to->points.data(), "app::Point[]");
        made(to->shapes.data(), "app::Shape *[]");
    }
    std::puts("ready");
    std::fflush(stdout);
    pause();
}
"""
NODES = {"std::_Rb_tree_node<std::pair<int const, app::Point> >": 1000,
         "std::_Rb_tree_node<long int>": 1000,
         "std::_List_node<app::Point>": 1000,
         "std::_Fwd_list_node<app::Point>": 1000,
         "std::__detail::_Hash_node<std::pair<int const, int>, false>": 1000}


def build(folder, text, ending, *flags):
    source, program = os.path.join(folder, "p" + ending), os.path.join(folder, "p")
    with open(source, "w") as file:
        file.write(text)
    subprocess.run([*flags, "-o", program, source], check=True, cwd=folder)
    return program


class Program(live.Target):
    """Reads what each block is until it is ready."""

    def __init__(self, program):
        super().__init__([program])
        self.types = {}
        while (line := self.process.stdout.readline().decode().strip()) != "ready":
            address, kind = line.split(" ", 1)
            self.types[int(address, 16)] = kind


def judge(program, folder, what, *options):
    """How many blocks have their type, and what is wrong."""
    store = os.path.join(folder, "store")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store, *options)
        truth = target.types
    found = {int(r["address"]): r for r in
             rows(store, "SELECT address, type, confidence FROM objects")}
    wrong, missing, known = [], [], 0
    for address, kind in truth.items():
        check(address in found, f"{what}: no object at {address:#x}")
        got = found[address]["type"] or "-"
        known += kind != "-"
        if got == kind:
            continue
        if got == "-":
            missing.append(kind)
        else:
            wrong.append((kind, got, found[address]["confidence"]))
    check(not [w for w in wrong if w[2] == "certain"], f"{what}: certain and wrong: {wrong[:5]}")
    check(len(wrong) * 1000 <= len(truth), f"{what}: {len(wrong)} of {len(truth)}: {wrong[:5]}")
    check(len(missing) * 100 <= known, f"{what}: no type: {len(missing)} of {known}: {missing[:5]}")
    return store


def compilers():
    return [name for name in ("gcc", "clang") if shutil.which(name)]


VARIANTS = [("-O0", "-gdwarf-5"), ("-O2", "-gdwarf-4"), ("-O2", "-gdwarf-5", "-gsplit-dwarf")]


def c_programs(folder):
    for compiler in compilers():
        for flags in VARIANTS:
            program = build(folder, C_PROGRAM, ".c", compiler, "-w", *flags)
            judge(program, folder, f"{compiler} {' '.join(flags)}")
            os.unlink(os.path.join(folder, "store"))


def cxx_programs(folder):
    for compiler in compilers():
        for flags in (VARIANTS[0], VARIANTS[1] + ("-fdebug-types-section",)):
            program = build(folder, CXX_PROGRAM, ".cc", compiler.replace("gcc", "g++")
                            .replace("clang", "clang++"), "-std=c++17", "-w", *flags)
            store = judge(program, folder, f"{compiler} {' '.join(flags)}")
            if compiler == "gcc":
                for name, n in NODES.items():
                    seen = [int(r["objects"]) for r in
                            rows(store, f"SELECT objects FROM types WHERE type = '{name}'")]
                    check(seen and n - 2 <= seen[0] <= n, f"{name}: {seen}, not {n}")
            os.unlink(store)


HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "typed")
NIGHTLY = os.environ.get("HX_NIGHTLY") == "1"
# What std::allocator makes is noted: libstdc++ lets its base be another one, libc++ is changed.
ALLOCATOR = """
#ifndef _GLIBCXX_CXX_ALLOCATOR_H
#define _GLIBCXX_CXX_ALLOCATOR_H 1
#include <bits/new_allocator.h>
#include <typeinfo>
#include "note.h"
namespace std {
template <class T> struct noting_allocator : __new_allocator<T> {
    noting_allocator() = default;
    template <class U> noting_allocator(const noting_allocator<U> &) {}
    T *allocate(size_t n, const void * = nullptr)
    {
        T *block = __new_allocator<T>::allocate(n);
        ::note(block, is_scalar_v<T> && !is_pointer_v<T> ? "-" : typeid(T).name(), n);
        return block;
    }
    void deallocate(T *block, size_t n) { ::note_gone(block); __new_allocator<T>::deallocate(block, n); }
};
template <class T> using __allocator_base = noting_allocator<T>;
}
#endif
"""
# Of g++, of clang++, of both: flags of the variants. What comes first is tested each time.
OBJECTS = [("g++", ["-O2", "-gdwarf-4", "-fdebug-types-section"]),
           ("clang++", ["-O0", "-gdwarf-5", "-stdlib=libc++"]),
           ("g++", ["-O0", "-gdwarf-5", "dwz"]),
           ("clang++", ["-O2", "-gdwarf-4", "-gsplit-dwarf"]),
           ("g++", ["-O2", "-gdwarf-5", "-gsplit-dwarf"]),
           ("g++", ["-O0", "-gdwarf-4", "dwz -m"]),
           ("clang++", ["-O2", "-gdwarf-5", "-fdebug-types-section"]),
           ("clang++", ["-O2", "-gdwarf-4", "-stdlib=libc++"])]
RECORDS = [("gcc", ["-O2", "-gdwarf-5"]), ("clang", ["-O0", "-gdwarf-4"])]
INTEGERS = {"long int": "long", "long unsigned int": "unsigned long"}


def plain(name):
    """A type's name without what compilers and demanglers write in several ways, and without its size."""
    name = re.sub(r" \(\d+ bytes\)$", "", name)
    name = re.sub(r"\b(long unsigned int|long int)\b", lambda m: INTEGERS[m[1]], name)
    name = re.sub(r"pointers\(app::Store&, unsigned long\)::|^pointers::", "", name)
    name = re.sub(r"^(\{lambda\(\)#\d\}|\$_\d|.*<lambda\(\)>)$", "(anonymous struct)", name)
    name = re.sub(r"\bconst\b|std::__cxx11::", lambda m: "std::" if m[0][0] == "s" else "", name)
    return re.sub(r"\s+", "", name)


def noted(path):
    """Addresses, types and numbers of what note.h wrote."""
    lines = [line.split(" ", 2) for line in open(path).read().splitlines()]
    names = sorted({line[2] for line in lines})
    shown = subprocess.run(["c++filt"], input="\n".join(n.lstrip("?") for n in names), text=True,
                           capture_output=True, check=True).stdout.splitlines()
    shown = {n: n[:n.startswith("?")] + s.removeprefix("typeinfo name for ")
             for n, s in zip(names, shown)}
    return [(int(address, 16), shown[name] + "[]" * (int(n) > 1 and name != "-"), name[0])
            for address, n, name in lines]


def is_same(want, got):
    """A bucket's pointers lead to bases of nodes: which nodes they are is more than that."""
    want, got = plain(want), plain(got)
    return want == got or ("node_base" in want and "ode<" in got and got.endswith("*[]") and
                           want.endswith("*[]"))


def count_right(program, n, what):
    """Blocks by how well they are typed. Hidden ones, which only void * leads to, may have none."""
    folder = os.path.dirname(program)
    truth, store = os.path.join(folder, "truth"), os.path.join(folder, "store")
    with live.Target([program, truth, str(n)], cwd=folder) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store)
    found = {int(r["address"]): r for r in rows(store, "SELECT address, type, confidence FROM objects")}
    os.unlink(store)
    seen, errors = collections.Counter(), collections.Counter()
    for address, kind, mark in noted(truth):
        check(address in found, f"{what}: no object at {address:#x}")
        got, confidence = found[address]["type"] or "-", found[address]["confidence"]
        if mark == "=" or (mark == "?" and got == "-"):
            check(confidence != "certain", f"{what}: certain of {kind}: {got}")
            continue
        right = is_same(kind.lstrip("?"), got)
        seen["right" if right else "missing" if got == "-" else f"wrong, {confidence}"] += 1
        if not right:
            errors[(kind, got, confidence)] += 1
    return seen, errors


def judge_objects(program, n, what, wrong=1000):
    """At least 99 % right, at most one of `wrong` is not, and never certainly."""
    seen, errors = count_right(program, n, what)
    total = sum(seen.values())
    told = f"{what}: {dict(seen)}: {errors.most_common(5)}"
    if NIGHTLY:
        print(told)
    check(not seen["wrong, certain"], told)
    check(sum(v for k, v in seen.items() if k[0] == "w") * wrong <= total, told)
    check(seen["right"] * 100 >= total * 99, told)


def compile_objects(folder, compiler, flags):
    """objects.cc; the words that are no flags are said to dwz."""
    overlay, program = os.path.join(folder, "overlay"), os.path.join(folder, "objects")
    os.makedirs(os.path.join(overlay, "bits"), exist_ok=True)
    os.makedirs(os.path.join(overlay, "llvm/__memory"), exist_ok=True)
    with open(os.path.join(overlay, "bits/c++allocator.h"), "w") as file:
        file.write(ALLOCATOR)
    include = [overlay]
    if "-stdlib=libc++" in flags:
        include = [change_libcxx(os.path.join(overlay, "llvm"))]
    subprocess.run([compiler, "-std=c++17", "-w", *["-I" + i for i in include + [HERE]],
                    *[f for f in flags if f[0] == "-"], "-o", program, os.path.join(HERE, "objects.cc")],
                   check=True, cwd=folder)
    if "dwz" in flags:
        subprocess.run(["dwz", program], check=True)
    if "dwz -m" in flags:
        shutil.copy(program, program + "_too")
        subprocess.run(["dwz", "-m", program + ".common", program, program + "_too"], check=True)
    return program


def change_libcxx(folder):
    """Its allocator, told of what it makes."""
    run = subprocess.run(["clang++", "-stdlib=libc++", "-x", "c++", "-E", "-include",
                          "__memory/allocator.h", "/dev/null"], capture_output=True, text=True)
    header = re.search(r'^# 1 "(/.*/__memory/allocator\.h)"', run.stdout, re.M)
    if not header:
        raise live.Skip(f"libc++ is not here: {run.stderr.strip() or 'no such header'}")
    with open(header[1]) as file:
        text = file.read()
    call = "_VSTD::__libcpp_allocate(__n * sizeof(_Tp), _LIBCPP_ALIGNOF(_Tp))"
    check(call in text, f"{header[1]} allocates in another way")
    text = text.replace(call, f"::note({call}, is_scalar<_Tp>::value && !is_pointer<_Tp>::value ? "
                              '"-" : typeid(_Tp).name(), __n)')
    text = text.replace("_VSTD::__libcpp_deallocate((void*)__p,",
                        "::note_gone((void*)__p), _VSTD::__libcpp_deallocate((void*)__p,")
    text = text.replace("#include <type_traits>",
                        '#include <type_traits>\n#include <typeinfo>\n#include "note.h"')
    with open(os.path.join(folder, "__memory/allocator.h"), "w") as file:
        file.write(text)
    return folder


def objects_of_all_kinds(folder):
    """What is built the first way has a million objects in all at night."""
    for i, (compiler, flags) in enumerate(OBJECTS[:None if NIGHTLY else 1 if live.is_set("HX_QUICK") else 2]):
        needs = [compiler] + ["dwz"] * ("dwz" in " ".join(flags))
        what = f"{compiler} {' '.join(flags)}"
        try:
            for need in needs:
                if not shutil.which(need):
                    raise live.Skip(f"{need} is not here")
            program = compile_objects(folder, compiler, flags)
        except live.Skip as why:
            print(f"  NOT RUN: {what}: {why}")
            continue
        judge_objects(program, 8000 if NIGHTLY and not i else 100, what)


def records_of_all_kinds(folder):
    program = os.path.join(folder, "records")
    for compiler, flags in RECORDS:
        if shutil.which(compiler):
            subprocess.run([compiler, "-w", *flags, "-o", program, os.path.join(HERE, "records.c"),
                            os.path.join(HERE, "records_other.c")], check=True, cwd=folder)
            judge_objects(program, 5000 if NIGHTLY else 300, f"{compiler} {' '.join(flags)}")


def lies_are_not_certain(folder):
    """Blocks that pools carve up, what became something else, casts."""
    program = os.path.join(folder, "lies")
    subprocess.run(["g++", "-std=c++17", "-w", "-O1", "-g", "-o", program,
                    os.path.join(HERE, "lies.cc")], check=True)
    judge_objects(program, 0, "lies", wrong=200)


def debug_files_elsewhere(folder):
    """A stripped program, whose debug file is found by its build-id or its name: the same types."""
    program = os.path.join(folder, "records")
    subprocess.run(["gcc", "-w", "-O2", "-g", "-Wl,--build-id", "-o", program,
                    os.path.join(HERE, "records.c"), os.path.join(HERE, "records_other.c")], check=True)
    before = count_right(program, 50, "with debug information")
    debug = os.path.join(folder, ".debug")
    os.makedirs(debug, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", "records", ".debug/records.debug"], check=True,
                   cwd=folder)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=.debug/records.debug", "records"],
                   check=True, cwd=folder)
    after = count_right(program, 50, "stripped")
    check(before == after and before[0]["right"] > 1000, f"{before}, {after}")
    os.unlink(os.path.join(debug, "records.debug"))
    none = count_right(program, 50, "without debug information")
    check(none[0]["missing"] > 1000, f"{none}")


def section_at(program, name):
    """Where the bytes of a section begin in a file."""
    text = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    return int(re.search(rf" {re.escape(name)} +PROGBITS +\S+ +(\S+)", text)[1], 16)


def packed_wrongly(folder):
    """Tables that say of themselves that they are 1 TiB, or 1 GiB: no types, and that is told."""
    program = build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g", "-gz=zlib")
    at, store = section_at(program, ".debug_info") + 8, os.path.join(folder, "packed")
    for size in 1 << 40, 1 << 30:
        with open(program, "r+b") as file:
            file.seek(at)
            file.write(size.to_bytes(8, "little"))
        with Program(program) as target:
            heapx("snap", target.pid, "-o", store)
        lost = rows(store, "SELECT * FROM losses WHERE what LIKE 'parts of files%'")
        check(len(lost) == 1, f"{size}: {lost}")
        check(not row(store, "SELECT typed_bytes FROM snapshots")["typed_bytes"], "types of nothing")
        os.unlink(store)


def packed_units_are_told(folder):
    """Entries in files that are not there."""
    program = build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g", "-gsplit-dwarf")
    for name in os.listdir(folder):
        if name.endswith(".dwo"):
            os.unlink(os.path.join(folder, name))
    store = os.path.join(folder, "packed")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store)
    notes = row(store, "SELECT notes FROM snapshots")["notes"]
    check("split units" in notes and "(.dwp)" in notes, notes)


def fields_have_names(folder):
    """Steps of why, and parts of a variable as a root."""
    program = build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    store = os.path.join(folder, "store")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store, "--root", "second=models->[0].index[1].slots",
              "--root", "right=root->right")
    leaf = row(store, "SELECT address FROM objects WHERE type = 'tree' AND edges_out = 1"
               " AND holder = 'root' LIMIT 1")["address"]
    steps = heapx("why", store, leaf, "--format", "csv")[1].splitlines()
    check(any(line.endswith(",left") or line.endswith(",right") for line in steps), steps)
    dot = heapx("export", store, "dot", "--by", "chain", "--object", leaf)[1]
    check('\\nleft"' in dot or '\\nright"' in dot, dot)
    bins = {r["roots"]: int(r["objects"]) for r in rows(store, "SELECT * FROM bins")}
    check(bins.get("right") == 2 * 255, f"{bins}")
    check(bins.get("second") == 1 + 2 * 3 * 16, f"{bins}")
    sums = row(store, "SELECT typed_bytes, (SELECT sum(bytes) FROM types WHERE type <> '(unknown)')"
               " AS types, (SELECT sum(bytes) FROM objects WHERE source IS NOT NULL) AS objects"
               " FROM snapshots")
    check(sums["typed_bytes"] == sums["types"] == sums["objects"], f"{sums}")


LINKED_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct link { struct link *next; unsigned hash; };
struct commit { struct link link; void *buffer; long date[4]; char *name; };
struct file { struct link link; char *path; long size[4]; struct file *in; };
struct tag { struct link link; long id[20]; };
struct link **slots;
struct commit *commit; /* unset: what nobody uses is in no debug information */
struct file *file;
struct tag *tag;
static void put(unsigned at, void *block)
{
    struct link *link = block;
    link->next = slots[at % 64];
    slots[at % 64] = link;
}
int main(void)
{
    slots = calloc(64, sizeof *slots);
    for (unsigned i = 0; i < 300; i++) {
        put(3 * i, calloc(1, sizeof(struct commit)));
        put(3 * i + 1, calloc(1, sizeof(struct file)));
        put(3 * i + 2, calloc(1, sizeof(struct tag)));
    }
    puts("ready");
    fflush(stdout);
    pause();
    return sizeof(struct commit) + sizeof(struct file) + sizeof(struct tag);
}
"""


def nodes_begin_with_a_link(folder):
    """What could be several things that begin with it is called so; what could be one is that one."""
    program = build(folder, LINKED_PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    store = os.path.join(folder, "store")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store)
    types = {r["type"]: (r["confidence"], int(r["objects"])) for r in
             rows(store, "SELECT type, confidence, objects FROM types")}
    check(types.get("link...") == ("guess", 600), f"{types}")
    check(types.get("tag") == ("guess", 300), f"{types}")
    os.unlink(store)


LOCAL_LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
struct item {
    struct item *next;
    char text[40];
};
static __thread char unaligned[3];
__thread struct item *lib_items;
static __thread struct item **lib_slots;
void lib_fill(int n)
{
    lib_slots = calloc(n, sizeof *lib_slots);
    for (int i = 0; i < n; i++) {
        struct item *item = calloc(1, sizeof *item);
        item->next = lib_items;
        lib_items = item;
        lib_slots[i] = calloc(1, sizeof *item);
    }
    unaligned[n % 3] = 1;
    printf("%p lib_items\n%p lib_slots\n", (void *)&lib_items, (void *)&lib_slots);
}
"""
LOCAL_PROGRAM = r"""
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
struct Node {
    Node *next;
    long v[6];
};
namespace app {
thread_local Node *mine;
static thread_local std::map<int, long> cache;
} // namespace app
static void fill(int n)
{
    static std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    for (int i = 0; i < n; i++) {
        app::mine = new Node{app::mine, {}};
        app::cache[i] = i;
    }
    std::printf("%p app::mine\n%p app::cache\n", (void *)&app::mine, (void *)&app::cache);
    reinterpret_cast<void (*)(int)>(dlsym(dlopen("./lib.so", RTLD_NOW), "lib_fill"))(n);
}
int main()
{
    for (int i = 1; i <= 3; i++)
        std::thread([=] { fill(1000 * i); sleep(1000); }).detach();
    fill(100);
    sleep(1);
    std::puts("ready");
    std::fflush(stdout);
    sleep(1000);
}
"""


def thread_locals_have_names(folder):
    """Of the program, and of a library that it loaded, whose block lies on the heap."""
    source = os.path.join(folder, "lib.c")
    with open(source, "w") as file:
        file.write(LOCAL_LIBRARY)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", "lib.so", source], check=True, cwd=folder)
    program = build(folder, LOCAL_PROGRAM, ".cc", "g++", "-std=c++17", "-g", "-O1")
    store, before = os.path.join(folder, "local"), os.getcwd()
    os.chdir(folder)
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store, "--root", "mine=app::mine", "--root", "map=app::cache",
              "--root", "rest=lib_items->next")
        truth = target.types
    os.chdir(before)
    roots = {int(r["address"]): r for r in rows(store, "SELECT * FROM roots WHERE kind = 'tls'")}
    check(len(truth) == 16, f"{truth}")
    for address, name in truth.items():
        check(address in roots and roots[address]["name"] == name, f"{name}: {roots.get(address)}")
    held = {r["holder"]: int(r["objects"]) for r in rows(store, "SELECT * FROM holders")}
    check(held.get("app::mine") == held.get("app::cache") == held.get("lib_items") == 6100, held)
    check(held.get("lib_slots") == 6104, held)
    own = row(store, "SELECT count(*) AS n FROM roots WHERE name = 'lib_items' AND retained_bytes > 0")
    check(int(own["n"]) == 4, "a block of thread-local storage keeps what its variables hold")
    bins = {r["roots"]: int(r["objects"]) for r in rows(store, "SELECT * FROM bins")}
    check(bins.get("mine") == bins.get("map") == 6100 and bins.get("rest") == 6096, bins)
    types = {r["type"]: int(r["objects"]) for r in rows(store, "SELECT * FROM types")}
    check(types.get("Node") == 6100 and types.get("item") == 12200, types)


STATIC_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *cache;
struct item { struct item *next; long n[800]; } *volatile items;
static void *third(void) { static void *volatile deep; return deep = malloc(5000); }
__attribute__((noinline)) void *first(void) { static void *volatile cache; return cache = malloc(1000); }
__attribute__((noinline)) void *second(void) { static void *volatile cache[2]; { static void *volatile inner; inner = malloc(3000); } return cache[1] = malloc(2000); }
int main(void)
{
    cache = malloc(4000);
    items = calloc(1, sizeof *items);
    third();
    first();
    second();
    puts("ready");
    fflush(stdout);
    pause();
    return cache != 0;
}
"""


def statics_have_functions(folder):
    """Which function a static of C is in; what the linker calls it goes on to be a name of it."""
    for compiler in (("gcc",), ("gcc", "-flto"), ("clang",)):
        program = build(folder, STATIC_PROGRAM, ".c", *compiler, "-w", "-g", "-O2")
        store = os.path.join(folder, "store")
        with Program(program) as target:
            heapx("snap", target.pid, "-o", store)
        names = {int(r["bytes"]) // 1000: (r["holder"], r["symbol"]) for r in rows(store, "SELECT o.bytes, o.holder, r.symbol"
                 " FROM objects AS o JOIN roots AS r ON r.name = o.holder WHERE o.bytes > 999 AND r.module = 'p'")}
        want = {1: "first::cache", 2: "second::cache", 3: "second::inner", 4: "cache", 5: "third::deep", 6: "items"}
        check({n: name for n, (name, _) in names.items()} == want, f"{compiler}: {names}")
        types = {r["holder"]: r["type"] for r in rows(store, "SELECT holder, type FROM objects")}
        check(types["items"] == "item", f"{compiler}: {types}")
        for root in names[1]:
            again = heapx("report", store, "bins", "--root", f"x={root}", "--format", "csv")[1]
            check("1,x,1000,1" in again.splitlines(), f"{root}: {again}")
        os.unlink(store)


POOL_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct pool { char *last, *end; struct pool *next; };
struct link { struct link *left, *right; long key; };
struct event { void *data; struct link timer; long flags; };
struct connection { struct event *read; struct pool *pool; long fd; };
struct cycle { struct connection *connections; struct event *events; long n; char name[400]; };
static struct pool *make_pool(size_t size)
{
    struct pool *pool = malloc(size);
    *pool = (struct pool){(char *)(pool + 1), (char *)pool + size, NULL};
    return pool;
}
static void *take(struct pool *pool, size_t size) { pool->last += size; return pool->last - size; }
struct cycle *current;
struct link *timers;
struct ready { unsigned events; union { void *pointer; int fd; unsigned long number; } data; } *ready;
int main(void)
{
    struct pool *pool = make_pool(16384);
    take(pool, 512);
    current = take(pool, sizeof *current);
    current->connections = calloc(100, sizeof *current->connections);
    current->events = calloc(100, sizeof *current->events);
    pool->next = make_pool(4096);
    ready = calloc(64, sizeof *ready);
    for (int i = 0; i < 100; i++) {
        struct connection *c = &current->connections[i];
        c->read = &current->events[i];
        c->pool = make_pool(616);
        *(struct pool **)take(c->pool, 8) = pool;
        c->read->data = c;
        c->read->timer.left = timers;
        timers = &c->read->timer;
        if (i % 9 == 0)
            ready[i / 9].data.pointer = c->pool;
    }
    printf("%p pool\\n%p connections\\n%p events\\n%p next\\nready\\n", pool, current->connections, current->events, pool->next);
    fflush(stdout);
    pool = NULL;
    pause();
}
"""


def pools_are_whose_they_are(folder):
    """Nobody has the start of the pool that all begins in but what it holds, and what is left over."""
    program = build(folder, POOL_PROGRAM, ".c", "gcc", "-w", "-g", "-O2")
    store = os.path.join(folder, "store")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store)
    holders = {int(r["address"]): r["holder"] for r in rows(store, "SELECT address, holder FROM objects")}
    check({holders[a] for a in target.types} == {"current"}, {name: holders[a] for a, name in target.types.items()})


LIST_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct link { struct link *next, *prev; };
struct job { long id; char *name; struct link link; };
static struct link jobs = {&jobs, &jobs};
struct job *volatile current;
int main(void)
{
    for (int i = 0; i < 2000; i++) {
        struct job *job = calloc(1, sizeof *job);
        job->name = calloc(1, 24);
        job->link.next = &jobs;
        job->link.prev = jobs.prev;
        jobs.prev->next = &job->link;
        jobs.prev = &job->link;
        current = i == 7 ? job : current;
        printf("%p job\\n", job);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return (int)current->id;
}
"""


def lists_belong_to_their_heads(folder):
    """Whose links lie within their blocks, and in which somebody else looks at one: also without debug information;
    with it what they are is guessed by what has such a link and their size."""
    for flags in (("-g",), ("-g0",)):
        program = build(folder, LIST_PROGRAM, ".c", "gcc", "-w", "-O2", *flags)
        store = os.path.join(folder, "store")
        with Program(program) as target:
            heapx("snap", target.pid, "-o", store)
        holders = {int(r["address"]): r["holder"] for r in rows(store, "SELECT address, holder FROM objects")}
        held = [holders[a] for a in target.types]
        check(held.count("jobs") >= 1999, f"{flags}: {held.count('jobs')}")
        types = {r["type"]: (int(r["objects"]), r["confidence"]) for r in rows(store, "SELECT * FROM types")}
        check(flags == ("-g0",) or types.get("job") == (2000, "guess"), f"{flags}: {types}")
        os.unlink(store)


SCALAR_PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct item { double weight; int counts[4]; struct item *next; };
struct sigaction before;
struct item item;
double weights[8];
char room[64];
unsigned long word;
int main(void)
{
    void *places[] = {(char *)&before.sa_mask + 16, &item.counts[2], &weights[3], &item.next, room + 8, &word};
    for (int i = 0; i < 6; i++) {
        void *block = calloc(1, 1000 + 16 * i);
        memcpy(places[i], &block, sizeof block);
        printf("%p -\\n", block);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return (int)item.weight + room[0] + (int)weights[0] + (int)word + !before.sa_flags;
}
"""


def numbers_hold_nothing(folder):
    """Words of variables in which no pointer can stand, and sets of signals; others may."""
    program = build(folder, SCALAR_PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    store = os.path.join(folder, "store")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store)
    rules = {int(r["bytes"]): r["rule"] for r in rows(store, "SELECT o.bytes, e.rule FROM root_edges AS e JOIN roots AS r"
             " USING (snapshot, root_id) JOIN objects AS o ON o.address = e.target WHERE r.kind = 'global' AND o.bytes > 999"
             " AND r.module = 'p'")}
    check(rules == {1000 + 16 * i: "scalar" if i < 3 else None for i in range(6)}, rules)


def hints_are_taken(folder):
    program = build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g", "-O1")
    hints, store = os.path.join(folder, "x.types"), os.path.join(folder, "store")
    with open(hints, "w") as file:
        file.write("# values\np: entry.value -> payload\nother: tree.of -> wrong\n")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store, "--types", hints)
        with open(hints, "w") as file:
            file.write("\n  entry -> payload\n")
        bad = heapx("report", target.pid, "types", "--types", hints, ok=(2,))
    n = row(store, "SELECT objects FROM types WHERE type = 'payload'")["objects"]
    check(int(n) == 3 * 64 + 5 * 3 * 16, f"{n} payloads")
    check("line 2, column 3" in bad[2], bad)


TWIN_PROGRAM = """
#include <stdlib.h>
#ifdef OTHER
struct dict { struct entry **entries; void *of; unsigned long size, mask, used; void *own; };
#else
#include <stdio.h>
#include <unistd.h>
struct dict { void *of; struct entry **table[2]; unsigned long used[2]; long at; short paused; };
#endif
struct entry { struct entry *next; double weight; long key, hash; };
struct dict *MAKE(void)
{
    struct dict *dict = calloc(1, sizeof *dict);
    struct entry **table = calloc(8, sizeof *table);
    for (int i = 0; i < 8; i++)
        table[i] = calloc(1, sizeof **table);
#ifdef OTHER
    dict->entries = table;
#else
    dict->table[0] = table;
#endif
    return dict;
}
#ifdef OTHER
struct dict *others[3];
void make_others(void) { for (int i = 0; i < 3; i++) others[i] = MAKE(); }
#else
void make_others(void);
struct box { void *value; } *boxes[40];
int main(void)
{
    make_others();
    for (int i = 0; i < 40; i++) {
        boxes[i] = malloc(sizeof *boxes[i]);
        boxes[i]->value = MAKE();
    }
    puts("ready");
    fflush(stdout);
    pause();
}
#endif
"""


def twins_are_told_apart(folder):
    """Two files have each a type of one name: a hint that says it means both, and both are in the tables."""
    part = os.path.join(folder, "other.c")
    with open(part, "w") as file:
        file.write("#define OTHER\n#define MAKE make_other\n" + TWIN_PROGRAM)
    program = build(folder, "#define MAKE make\n" + TWIN_PROGRAM, ".c", "gcc", "-w", "-g", "-O1", part)
    hints, store = os.path.join(folder, "x.types"), os.path.join(folder, "store")
    with open(hints, "w") as file:
        file.write("p: box.value -> dict\n")
    with Program(program) as target:
        heapx("snap", target.pid, "-o", store, "--types", hints)
    types = {r["type"]: int(r["objects"]) for r in rows(store, "SELECT * FROM types")}
    want = {"dict (48 bytes)": 3, "dict (56 bytes)": 40, "entry *[]": 43, "entry": 43 * 8, "box": 40}
    check({name: types.get(name) for name in want} == want and "dict" not in types, types)
    fields = {(r["type"], r["name"]) for r in rows(store, "SELECT t.name AS type, f.name FROM hx_type AS t JOIN hx_field AS f USING (layout)")}
    check({("dict (48 bytes)", "entries"), ("dict (56 bytes)", "table[0]")} <= fields, fields)
    heapx("symbolize", store, "--types", hints)
    again = {r["type"]: int(r["objects"]) for r in rows(store, "SELECT * FROM types")}
    check(again == types, again)
    for pattern, n in (("dict", 43), ("dict \\(48 bytes\\)", 3), ("dict (48 bytes)", 3)):
        bins = json.loads(heapx("report", store, "bins", "--format", "json", "--root", f"d=type:{pattern}")[1])
        held = sum(int(r["objects"]) for r in bins if r["roots"] == "d")
        check(held == n * 10, f"{pattern}: {held} of {n * 10} objects: {bins}")


OPAQUE_PARTS = ("""
#include <stdlib.h>
struct left { long words[7]; };
struct impl { int key; struct left *left; struct impl *next; };
struct impl *make_left(void)
{
    struct impl *impl = calloc(1, sizeof *impl);
    impl->left = calloc(1, sizeof *impl->left);
    impl->next = calloc(1, sizeof *impl);
    return impl;
}
""", """
#include <stdlib.h>
struct right { long words[3]; };
struct impl { double numbers[5]; struct right *right; };
struct impl *make_right(void)
{
    struct impl *impl = calloc(1, sizeof *impl);
    impl->right = calloc(1, sizeof *impl->right);
    return impl;
}
""", """
#include <stdio.h>
#include <unistd.h>
struct impl *make_left(void), *make_right(void), *both[20];
int main(void)
{
    for (int i = 0; i < 20; i++)
        both[i] = i % 2 ? make_left() : make_right();
    puts("ready");
    fflush(stdout);
    pause();
}
""")


def opaque_twins_are_told_apart(folder):
    """Who points to them knows a declaration alone, of which two files have each a definition."""
    parts = [os.path.join(folder, f"{i}.c") for i in range(2)]
    for path, text in zip(parts, OPAQUE_PARTS):
        with open(path, "w") as file:
            file.write(text)
    for compiler in ("gcc", "clang"):
        program = build(folder, OPAQUE_PARTS[2], ".c", compiler, "-w", "-g", "-O2", *parts)
        store = os.path.join(folder, "store")
        with Program(program) as target:
            heapx("snap", target.pid, "-o", store)
        types = {r["type"]: int(r["objects"]) for r in rows(store, "SELECT * FROM types")}
        want = {"impl (24 bytes)": 20, "impl (48 bytes)": 10, "left": 10, "right": 10}
        check({name: types.get(name) for name in want} == want, f"{compiler}: {types}")
        os.unlink(store)


def tables_are_kept(folder):
    """A second snapshot has from the cache what the first one has read, and it is the same."""
    cache, store = os.path.join(folder, "cache"), os.path.join(folder, "store")
    kept = os.path.join(cache, "heapx")

    def take(target, *options):
        """How many tables came from the cache, and the types."""
        said = heapx("snap", target.pid, "-o", store, *options,
                     env={"XDG_CACHE_HOME": cache, "HEAPX_TIMING": "1"})[2]
        types = rows(store, "SELECT * FROM types")
        os.unlink(store)
        return said.count("type table from the cache"), types

    def tables():
        return [os.path.join(kept, name) for name in os.listdir(kept) if name.endswith(".types")]

    with Program(build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g")) as target:
        time.sleep(0.2)  # files that were only just changed are not kept
        plain = take(target, "--type-cache", "off")
        check(plain[0] == 0 and not os.path.exists(kept), "without a cache something is kept")
        first = take(target)
        n = len(tables())
        check(first == plain and n > 0, f"{n} tables are kept, and what is read is the same")
        check(take(target) == (n, plain[1]), "the cache gives the same types")
        check(take(target, "--type-cache", "off") == plain, "the cache is left out")
        for path in tables():
            with open(path, "r+b") as file:
                file.seek(200)
                byte = file.read(1)
                file.seek(200)
                file.write(bytes([byte[0] ^ 1]))
        check(take(target) == plain, "what is damaged is made again")
        check(take(target) == (n, plain[1]), "and kept")
    shutil.rmtree(kept)
    with Program(build(folder, C_PROGRAM, ".c", "gcc", "-w", "-g", "-gsplit-dwarf")) as target:
        time.sleep(0.2)
        take(target)
        check(len(tables()) == n - 1, "a table that another file has a part of is kept")


if __name__ == "__main__":
    TESTS = (c_programs, cxx_programs, objects_of_all_kinds, records_of_all_kinds, lies_are_not_certain,
             debug_files_elsewhere, packed_units_are_told, packed_wrongly, nodes_begin_with_a_link, fields_have_names,
             thread_locals_have_names, statics_have_functions, pools_are_whose_they_are,
             lists_belong_to_their_heads, numbers_hold_nothing, hints_are_taken, twins_are_told_apart,
             opaque_twins_are_told_apart, tables_are_kept)
    live.main(*TESTS, turns=TESTS)
