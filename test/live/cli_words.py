#!/usr/bin/env -S python3 -B
"""cli_words.py - what heapx answers to words that are wrong, and its help.

Needs no tracing. Every refusal is exactly one line on stderr that begins with "heapx: ",
nothing on stdout, the contract's exit status, and no file left behind.
"""
import os
import re
import subprocess
import sys
import threading

import live
from live import check, heapx


def refused(status, *args, says="", cwd=None, **options):
    """heapx ARGS must end with `status` and one line that holds `says`."""
    run = subprocess.run([live.HEAPX, *args], capture_output=True, text=True, timeout=60 * live.SLOW,
                         stdin=subprocess.DEVNULL, cwd=cwd, errors="replace", **options)
    name = f"heapx {' '.join(map(repr, args))}"
    check(run.returncode == status, f"{name}: exit {run.returncode}, not {status}: {run.stderr}")
    check(run.stdout == "", f"{name}: wrote results: {run.stdout[:200]}")
    lines = run.stderr.splitlines()
    check(len(lines) == 1 and lines[0].startswith("heapx: ") and run.stderr.endswith("\n"),
          f"{name}: not one line: {run.stderr!r}")
    check(says in lines[0], f"{name}: {lines[0]!r} does not say {says!r}")
    check(lines[0].count(": ") >= 2, f"{name}: not `heapx: what: why`: {lines[0]!r}")


def help_and_version(folder):
    rules = heapx("help", "rules")[1]
    check(rules == heapx("help", "holders")[1] and "--rules -NAME" in rules and "  few " in rules, rules)
    for args in (["help"], ["--help"], ["-h"]):
        status, out, err = heapx(*args)
        check(err == "" and out.startswith("Usage: heapx COMMAND"), f"{args}: {out[:80]} {err}")
    commands = re.findall(r"^  (\w+) .*", out, re.M)
    known = {"attach", "open", "snap", "report", "why", "diff", "check", "sql", "doctor", "demo"}
    check(known <= set(commands), f"commands in help: {commands}")
    for command in commands:
        one = heapx("help", command)[1]
        check(one.startswith(f"Usage: heapx {command}"), f"help {command}: {one[:80]}")
        check(heapx(command, "--help")[1] == one, f"{command} --help is not help {command}")
        check(heapx(command, "-h", "x", "y", "z")[1] == one, f"{command} -h with words")
    for args in (["--version"], ["-V"], ["report", "--version"]):
        check(re.fullmatch(r"heapx \d+(\.\d+)+\S*\n", heapx(*args)[1]), f"{args}")


def usage(folder):
    for args, says in (
            ([], "help"),
            ([""], "unknown command"),
            (["snpa"], "did you mean snap?"),
            (["snapshot", "1"], "did you mean snap?"),
            (["1234"], "attach 1234"),
            (["--foo"], "unknown option"),
            (["help", "nothing"], "unknown command"),
            (["attach"], "missing"),
            (["attach", ""], "empty"),
            (["attach", "1", "2"], "too many"),
            (["attach", "abc"], "PID"),
            (["attach", "1x"], "PID"),
            (["attach", "+1"], "PID"),
            (["attach", " 1"], "PID"),
            (["attach", "1.5"], "PID"),
            (["attach", "0x10"], "PID"),
            (["attach", "-5"], "PID"),
            (["attach", "--", "-5"], "PID"),
            (["attach", "1", "--evry", "1s"], "did you mean --every?"),
            (["attach", "1", "-x"], "-x"),
            (["attach", "1", "--count", "3"], "no option of attach"),
            (["snap", "1"], "-o FILE"),
            (["snap", "1", "-o"], "missing"),
            (["snap", "1", "-o", ""], "empty"),
            (["snap", "abc", "-o", "x"], "PID"),
            (["snap", "1", "-o", "x", "--every", "0"], "--every"),
            (["snap", "1", "-o", "x", "--every", "soon"], "--every"),
            (["snap", "1", "-o", "x", "--every", "-1s"], "--every"),
            (["snap", "1", "-o", "x", "--count", "0"], "--count"),
            (["snap", "1", "-o", "x", "--count", "1e3"], "--count"),
            (["snap", "1", "-o", "x", "--count", "99999999999999999999"], "--count"),
            (["snap", "1", "-o", "x", "--duration", "1y"], "--duration"),
            (["snap", "1", "-o", "x", "--when", "rss >"], "at column 6"),
            (["snap", "1", "-o", "x", "--when", "res > 1"], "unknown column"),
            (["snap", "1", "-o", "x", "--when", ""], "empty"),
            (["record", "1", "-o", "x", "--when", "rss > 1"], "no option of record"),
            (["check", "x", "pid = 1", "--strict"], "--suppressions"),
            (["report", "x", "types", "--suppressions", "y"], "leaks or snapshots"),
            (["snap", "1", "-o", "x", "--pause", "long"], "--pause"),
            (["snap", "1", "-o", "x", "--interior", "maybe"], "--interior"),
            (["snap", "1", "-o", "x", "--threads", "0"], "--threads"),
            (["snap", "1", "-o", "x", "--content", "some"], "--content"),
            (["report", "x"], "missing"),
            (["report", "", "leaks"], "empty"),
            (["report", "x", ""], "empty"),
            (["report", "x", "leak"], "did you mean leaks?"),
            (["report", "x", "nonsense"], "unknown view"),
            (["report", "x", "leaks", "more"], "too many"),
            (["report", "x", "leaks", "--format", "xml"], "--format"),
            (["report", "x", "leaks", "--format="], "--format"),
            (["report", "x", "leaks", "--limit", "-1"], "--limit"),
            (["report", "x", "leaks", "--limit", "many"], "--limit"),
            (["report", "x", "leaks", "--snapshot", "newest"], "--snapshot"),
            (["report", "x", "leaks", "--sort", ":asc"], "--sort"),
            (["report", "x", "leaks", "--sort", "bytes:up"], "--sort"),
            (["report", "x", "leaks", "--help=yes"], "--help"),
            (["report", "x", "leaks", "--color=blue"], "--color"),
            (["why", "x", "nowhere"], "address"),
            (["why", "x", "0x"], "address"),
            (["why", "x", "-1"], "-1"),
            (["why", "x", "0x1ffffffffffffffff"], "address"),
            (["why", "x", "0x10", "--snapshot", "all"], "--snapshot"),
            (["sql", "x"], "missing"),
            (["sql", "x", ""], "empty"),
            (["open"], "missing"),
            (["demo", "now"], "too many"),
            (["doctor", "abc"], "PID"),
            (["doctor", ""], "empty")):
        refused(2, *args, says=says, cwd=folder)
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def not_in_this_version(folder):
    for args in (["snap", "1", "-o", "x", "--content", "full"],
                 ["attach", "1", "--content", "strings"]):
        refused(2, *args, says="not in this version", cwd=folder)
    for args in (["import", "x", "-o", "y"], ["open", "x", "--exe", "y"],
                 ["report", "x", "biography"], ["diff", "x:1", "x:2", "biography"]):
        refused(1, *args, says="x: ", cwd=folder)  # there is no such file
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def no_such_process(folder):
    for pid in ("0", "00", "4194304000", "99999999", "99999999999999999999999"):
        for args in (["attach", pid], ["snap", pid, "-o", "x"], ["report", pid, "leaks"],
                     ["why", pid, "0x10"], ["check", pid, "leaked_bytes > 0"]):
            refused(1, *args, says="no such process", cwd=folder)
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")
    status, out, err = heapx("doctor", "99999999", "--format", "csv")
    check("exists,NO,yes,no such process" in out, out)


def a_thread(folder):
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    try:
        refused(1, "attach", str(thread.native_id), says=f"thread of process {os.getpid()}")
        refused(1, "snap", str(thread.native_id), "-o", "x", says=f"give {os.getpid()}", cwd=folder)
        check("process,NO" in heapx("doctor", thread.native_id, "--format", "csv")[1], "doctor")
    finally:
        go.set()
        thread.join()
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def a_zombie(folder):
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        refused(1, "snap", str(child), "-o", "x", says="zombie", cwd=folder)
    finally:
        os.waitpid(child, 0)
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def a_kernel_thread(folder):
    try:
        with open("/proc/2/comm") as comm:
            kernel = comm.read() == "kthreadd\n"
    except OSError:
        kernel = False
    if not kernel:
        raise live.Skip("PID 2 is no kernel thread here")
    refused(1, "snap", "2", "-o", "x", says="kernel thread", cwd=folder)
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def itself(folder):
    run = subprocess.run(["sh", "-c", f"exec {live.HEAPX} attach $$"], capture_output=True,
                         text=True, stdin=subprocess.DEVNULL)
    check(run.returncode == 1 and run.stderr.count("\n") == 1 and "heapx itself" in run.stderr,
          f"{run.returncode} {run.stderr}")


def another_user(folder):
    if os.geteuid() != 0:
        refused(1, "attach", "1", says="sudo heapx")
        return
    os.chmod(folder, 0o777)
    with live.Target(["sleep", "60"]) as target:
        options = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            subprocess.run([live.HEAPX, "--version"], check=True, capture_output=True, **options)
        except OSError as why:
            raise live.Skip(f"another user cannot run {live.HEAPX}") from why
        refused(1, "snap", str(target.pid), "-o", "x", says="another user (root", cwd=folder,
                **options)
    closed = ["python3", "-c", "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); "
              "print('ready', flush=True); sys.stdin.read()"]
    with live.Target(closed, **options) as target:
        target.wait_line("ready")
        refused(1, "snap", str(target.pid), "-o", "x", says="not dumpable", cwd=folder, **options)
    check(os.listdir(folder) == [], f"files were left: {os.listdir(folder)}")


def thirty_two_bits(folder):
    path = os.path.join(folder, "small")
    code = bytes.fromhex("b81d000000cd80ebf7")  # pause() for ever
    header = (b"\x7fELF\1\1\1" + bytes(9) + (2).to_bytes(2, "little") + (3).to_bytes(2, "little") +
              b"".join(n.to_bytes(4, "little") for n in (1, 0x08048054, 52, 0, 0)) +
              b"".join(n.to_bytes(2, "little") for n in (52, 32, 1, 0, 0, 0)))
    segment = b"".join(n.to_bytes(4, "little")
                       for n in (1, 0, 0x08048000, 0x08048000, 84 + len(code), 84 + len(code),
                                 5, 4096))
    with open(path, "wb") as file:
        file.write(header + segment + code)
    os.chmod(path, 0o755)
    try:
        target = live.Target([path])
    except OSError as why:
        raise live.Skip("no 32-bit programs run here") from why
    with target:
        refused(1, "snap", str(target.pid), "-o", "x", says="32-bit", cwd=folder)
    check(os.listdir(folder) == ["small"], f"files were left: {os.listdir(folder)}")


def files(folder):
    def path(name):
        return os.path.join(folder, name)

    with open(path("text"), "w") as file:
        file.write("this is no store\n")
    with open(path("empty"), "w"):
        pass
    os.mkdir(path("folder"))
    os.mkfifo(path("pipe"))
    before = sorted(os.listdir(folder))
    for name in ("absent", "text", "empty", "folder", "pipe", "text/x", "/dev/null", "/dev/zero"):
        for args in (["open", name], ["report", name, "leaks"], ["sql", name, "select 1"],
                     ["why", name, "16"]):
            refused(1, *args, cwd=folder)
    pid = str(os.getpid())
    for name in ("text", "folder", "pipe", "absent/x", "text/x", "/dev/null", "/dev/full"):
        refused(1, "snap", pid, "-o", name, cwd=folder)
    check(sorted(os.listdir(folder)) == before, f"files changed: {os.listdir(folder)}")
    with open(path("text")) as file:
        check(file.read() == "this is no store\n", "a file that is no store was changed")
    os.mkdir(path("digits"))
    refused(1, "report", "./123", "leaks", says="123", cwd=path("digits"))


def doctor(folder):
    status, out, err = heapx("doctor", os.getpid(), "--format", "csv")
    check(err == "", err)
    lines = out.splitlines()
    check(lines[0] == "check,result,needed,detail,todo", lines[0])
    names = [line.split(",")[0] for line in lines[1:]]
    check({"kernel", "ptrace", "exists", "permission", "architecture"} <= set(names), names)
    check(all(line.split(",")[1] in ("OK", "NO", "?") for line in lines[1:]), out)


def full_disk(folder):
    with open("/dev/full", "w") as full:
        run = subprocess.run([live.HEAPX, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    check(run.returncode == 1 and "No space left" in run.stderr, f"{run.returncode} {run.stderr}")
    victim = subprocess.Popen(["sleep", "60"])
    try:
        with open("/dev/full", "w") as full:
            run = subprocess.run([live.HEAPX, "snap", str(victim.pid), "-o", "kept"], cwd=folder,
                                 stdout=full, stderr=subprocess.PIPE, text=True)
    finally:
        victim.kill()
        victim.wait()
    check(run.returncode == 1 and "standard output: write: No space left" in run.stderr, run.stderr)
    check(os.listdir(folder) == ["kept"], f"the snapshot was lost: {os.listdir(folder)}")


if __name__ == "__main__":
    live.main(help_and_version, usage, not_in_this_version, no_such_process, a_thread, a_zombie,
              a_kernel_thread, itself, another_user, thirty_two_bits, files, doctor, full_disk,
              traces=False)
