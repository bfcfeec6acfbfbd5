#!/usr/bin/env python3
"""manners.py - the explorer on terminals of our own: keys, mouse, sizes, signals, ways out.

    manners.py [TEST...]
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from emulator import SLOW, Terminal  # noqa: E402

BIN = os.path.abspath(os.environ.get("HX_UI_BIN", "test/ui"))
MARK_OF_SCREEN = r"\[%d [a-z-]+\]"


class Failed(Exception):
    pass


def expect(terminal, what, pattern, seconds=15):
    took = terminal.wait_for(pattern, seconds)
    if took is None:
        raise Failed(f"{what}: nothing like {pattern!r} on\n{terminal.screen.text()}")
    return took


def check(holds, what):
    if not holds:
        raise Failed(what)


def start(*arguments, **how):
    terminal = Terminal([f"{BIN}/explore", "test.db", *arguments], cwd=FOLDER, **how)
    if how.get("term", "x") is not None and how.get("columns", 80) >= 40:
        expect(terminal, "start", MARK_OF_SCREEN % 1)
    return terminal


def cursor_row(terminal):
    for line in terminal.screen.text().split("\n"):
        if line.startswith(">"):
            return line
    return None


def on_objects(**how):
    """At the top of the list of objects."""
    terminal = start(**how)
    terminal.send("8")
    expect(terminal, "screen 8", MARK_OF_SCREEN % 8)
    expect(terminal, "rows", "^>")
    terminal.settle()
    return terminal


def quit_of(terminal, keys="Q"):
    terminal.send(keys)
    status = terminal.wait()
    check(status == 0, f"status {status} instead of 0")
    check(terminal.is_sane(), "the terminal was left changed")


# --- keys


def test_escape_is_quick():
    terminal = on_objects()
    terminal.send("\r")
    expect(terminal, "open", r"object$")
    terminal.settle()
    terminal.send("\033")
    took = expect(terminal, "escape", r"\[8 objects\]")
    check(took < 0.5 * SLOW, f"Esc took {took:.3f} s")
    quit_of(terminal)


def test_keys_in_parts():
    terminal = on_objects()
    first = cursor_row(terminal)
    for parts in (["\033", "[B"], ["\033[", "B"], ["\033", "OB"], ["\033", "[", "B"],
                  ["\033[1", ";1B"], ["\033", "[1;1B"]):
        terminal.send("g")
        end = time.monotonic() + SLOW
        while cursor_row(terminal) != first and time.monotonic() < end:
            terminal.settle()
        check(cursor_row(terminal) == first, "g does not lead to the top")
        terminal.send("\r")
        expect(terminal, "open", r"object$")
        for part in parts:
            terminal.send(part)
            # Above what an Esc waits for; a bracket that comes late must have its letter at once.
            time.sleep(0.06 if parts != ["\033", "[", "B"] or part == "\033" else 0.005)
        terminal.settle()
        check("object" in terminal.screen.line(1), f"{parts} went back:\n{terminal.screen.text()}")
        terminal.send("\033")
        expect(terminal, "back", r"\[8 objects\]")
    # In a prompt too the Esc is taken back.
    terminal.send(":abc")
    terminal.settle()
    terminal.send("\033")
    time.sleep(0.06)
    terminal.send("[D")
    terminal.settle()
    terminal.send("X")
    expect(terminal, "prompt", "^:abXc")
    terminal.send("\033")
    terminal.settle()
    terminal.send("[")  # a bracket that was typed is the previous snapshot
    expect(terminal, "bracket", "snapshot 3 of 4")
    quit_of(terminal)


def test_unknown_sequences():
    terminal = on_objects()
    first = cursor_row(terminal)
    for keys in (b"\033[1;5D", b"\033[27;5;9~", b"\033[97;5u", b"\033[I", b"\033[O",
                 b"\033[?62;22c", b"\033]11;rgb:0000/0000/0000\033\\", b"\033P1$r0m\033\\",
                 b"\033[38;5;9999999999999999999999999m", b"\033[" + b"1;" * 200 + b"m",
                 b"\xff\xfe", b"\xe9", b"\xc2\x9b", b"\033[200"):
        terminal.send(keys)
        terminal.settle(1.3 if keys in (b"\033[200", b"\xe9") else 0.1)
        check("[8 objects]" in terminal.screen.line(1) and
              cursor_row(terminal) == first, f"{keys!r} did something\n{terminal.screen.text()}")
    terminal.send("j")
    terminal.settle()
    check(cursor_row(terminal) != first, "j does nothing any more")
    quit_of(terminal)


def test_paste():
    terminal = on_objects()
    first = cursor_row(terminal)
    terminal.send("\033[200~jjQ\r:quit\r\033[201~")
    expect(terminal, "paste", "pasted text is taken only")
    check(cursor_row(terminal) == first, "pasted text was run")
    terminal.send(":")
    terminal.send("\033[200~quit\r\nsort\tbytes\033[3~\033[201~")
    expect(terminal, "prompt", r"^:quit  sort bytes\[3~")
    terminal.send("\033")
    terminal.settle()
    terminal.send("\033[200~lost end")
    terminal.settle()
    terminal.send("\003")  # ends it
    terminal.settle()
    terminal.send("j")
    for _ in range(50):  # the end of what was pasted may take a while
        terminal.settle()
        if cursor_row(terminal) != first:
            break
        time.sleep(0.1)
    check(cursor_row(terminal) != first, "the keyboard is deaf")
    quit_of(terminal)


def test_prompt():
    terminal = on_objects()
    for keys, shown in ((":abc\033[D\033[DX", "^:aXbc"), ("\001Y\005Z", "^:YaXbcZ"),
                        ("\033[D\033[D\013", "^:YaXb$"), ("\001\033[3~", "^:aXb$"),
                        ("\005 8 Q", "^:aXb 8 Q$"), ("\027\027", "^:aXb$"),
                        ("\025日本\010", "^:日$"), ("\033[D語", "^:語日$"),
                        ("\005\025help\r", r"help$"), (":\033[A", "^:help$"),
                        ("\033[B", "^:$"), ("a\010\010", "help$"), ("h/\\\\.x", r"^/\\\\.x$"),
                        ("\033", "objects")):
        terminal.send(keys)
        expect(terminal, f"prompt {keys!r}", shown)
    quit_of(terminal)


def test_read_ahead():
    """Who waits has rows of the snapshots beside read ahead: they are those that hurry brings."""
    shown = []
    for idle in (0, 0.3 * SLOW):
        terminal = on_objects()
        terminal.send(":filter bytes > 10\r")
        expect(terminal, "filter", "Filter: bytes > 10")
        for key in "[]>[]":
            terminal.settle()
            time.sleep(idle)
            terminal.send(key)
            terminal.settle()
            shown.append(terminal.screen.text())
        quit_of(terminal)
    half = len(shown) // 2
    check(shown[:half] == shown[half:], "what was read ahead is not what is there")
    check(shown[0] != shown[1], "both snapshots show the same")


# --- mouse


def click(terminal, x, y, button=0):
    terminal.send(f"\033[<{button};{x};{y}M\033[<{button};{x};{y}m")
    terminal.settle()


def expect_chosen(terminal, what, line):
    expect(terminal, what, r"\A(?:.*\n){%d}>" % line)


def test_mouse():
    terminal = on_objects()
    check({"?1000", "?1006", "?2004"} <= terminal.screen.modes, "no reports of the mouse")
    lines = terminal.screen.text().split("\n")
    row = next(i for i, line in enumerate(lines) if line.startswith(">"))
    click(terminal, 5, row + 4)
    expect_chosen(terminal, "a click chooses the row", row + 3)
    click(terminal, 5, row + 4)
    expect(terminal, "a second click opens", "object$")
    terminal.send("h")
    expect_chosen(terminal, "back to the row", row + 3)
    click(terminal, 5, row + 1, 65)
    expect_chosen(terminal, "the wheel moves down", row + 6)
    click(terminal, 5, row + 1, 64)
    expect_chosen(terminal, "the wheel moves up", row + 3)
    terminal.send("\033[M" + chr(32) + chr(32 + 5) + chr(32 + row + 2))  # the old form
    expect_chosen(terminal, "an X10 report is understood", row + 1)
    heading = terminal.screen.line(row - 1)
    click(terminal, heading.index("address") + 1, row)
    expect(terminal, "a click on a heading sorts", "address▴")
    click(terminal, heading.index("address") + 1, row)
    expect(terminal, "another click turns the order around", "address▾")
    click(terminal, terminal.screen.line(1).index(" 5 ") + 2, 2)
    expect(terminal, "a click on a name", MARK_OF_SCREEN % 5)
    for x in (1, 80, 500):
        for y in (1, 2, 3, 24, 25, 500):
            click(terminal, x, y)
    terminal.send(":set mouse off\r")
    expect(terminal, "off", "mouse off")
    check("?1000" not in terminal.screen.modes, "the mouse stays on")
    terminal.send(":set mouse on\r")
    expect(terminal, "on", "mouse on")
    check("?1000" in terminal.screen.modes, "the mouse stays off")
    quit_of(terminal)


# --- sizes


def test_sizes():
    terminal = on_objects()
    terminal.send(":abc")
    for lines, columns in ((12, 40), (1, 1), (24, 80), (2, 200), (60, 200), (5, 20), (200, 300),
                           (1000, 3), (24, 80)):
        terminal.resize(lines, columns)
        terminal.settle()
        check(os.waitpid(terminal.pid, os.WNOHANG)[0] == 0, f"ended at {lines} x {columns}")
    expect(terminal, "prompt after sizes", "^:abc")
    terminal.send("\033")
    terminal.settle()
    for screen in "0123456789":
        for lines, columns in ((12, 40), (1, 1), (60, 200), (24, 80)):
            terminal.send(screen)
            terminal.resize(lines, columns)
        expect(terminal, f"screen {screen}", MARK_OF_SCREEN % int(screen))
        terminal.settle(0.05)
        check("too small" not in terminal.screen.text(), "still too small")
    for _ in range(30):  # faster than it can draw
        terminal.resize(12, 40)
        terminal.resize(24, 80)
    terminal.settle()
    terminal.send("8")
    expect(terminal, "after many sizes", MARK_OF_SCREEN % 8)
    quit_of(terminal)
    # What the environment says of the size is older than the terminal itself.
    terminal = start(LINES="50", COLUMNS="200")
    expect(terminal, "environment", MARK_OF_SCREEN % 1)
    quit_of(terminal)


def test_terminals():
    for term in ("xterm", "xterm-256color", "screen", "screen-256color", "tmux", "linux", "vt100",
                 "vt220", "rxvt", "rxvt-unicode", "ansi"):
        if subprocess.run(["infocmp", term], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode:
            continue
        for locale in ("C.UTF-8", "C"):
            terminal = start(term=term, locale=locale)
            for screen in "8":
                terminal.send(screen)
                expect(terminal, f"{term} screen {screen}", MARK_OF_SCREEN % int(screen))
            terminal.settle(0.05)
            check(not terminal.screen.strange, f"{term}: {terminal.screen.strange[:3]}")
            quit_of(terminal)
    for term, words in (("dumb", "cannot move the cursor"), ("nosuch", "is not known here"),
                        ("", "TERM is not set"), ("nos\033[31much", r"nos\\x1b\[31much")):
        terminal = start(term=term, columns=30, lines=24)
        status = terminal.wait()
        text = terminal.bytes.decode()
        check(status == 1 and words.replace("\\\\", "\\").replace("\\[", "[") in text,
              f"{term!r}: status {status}, {text}")
        check(terminal.is_sane(), f"{term!r} changed the terminal")


def test_other_locales():
    """A locale that is not UTF-8: ASCII, and what is typed is in its characters."""
    if not shutil.which("localedef"):
        return
    made = subprocess.run(["localedef", "-i", "en_US", "-f", "ISO-8859-1",
                           f"{FOLDER}/en_US.ISO-8859-1"], capture_output=True)
    if made.returncode:
        return
    terminal = on_objects(locale="en_US.ISO-8859-1", LOCPATH=FOLDER)
    check("bytesv" in terminal.screen.text(), "the order's mark is not ASCII")
    terminal.send(b":a\xe9\xe8b\010\010c")
    expect(terminal, "prompt", r"^:a\\xe9c")
    terminal.send("\033")
    for screen in "0123456789":
        terminal.send(screen)
        expect(terminal, f"screen {screen}", MARK_OF_SCREEN % int(screen))
    check(not terminal.screen.strange, f"{terminal.screen.strange[:3]}")
    quit_of(terminal)
    # A locale that is not there is the C locale.
    terminal = on_objects(locale="xx_XX.nosuch")
    check(not terminal.screen.strange, f"{terminal.screen.strange[:3]}")
    quit_of(terminal)


def test_suspend_while_typing():
    """Ctrl-Z and Ctrl-L are no text; what was typed is still there then."""
    if not shutil.which("bash"):
        return
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], cwd=FOLDER, PS1="$ ")
    expect(terminal, "shell", r"^\$")
    terminal.send(f"{BIN}/explore test.db\r")
    expect(terminal, "start", MARK_OF_SCREEN % 1)
    terminal.send("/some text")
    expect(terminal, "prompt", "^/some text")
    terminal.send("\032")
    expect(terminal, "Ctrl-Z", "Stopped")
    check("?1049" not in terminal.screen.modes and "?1000" not in terminal.screen.modes, "modes")
    terminal.resize(12, 40)
    terminal.send("fg\r")
    expect(terminal, "fg", "^/some text")
    terminal.send("\014\177X")
    expect(terminal, "goes on typing", "^/some texX")
    terminal.send("\033")
    terminal.settle()
    terminal.send("Q")
    expect(terminal, "quit", r"\$$")
    terminal.send("exit\r")
    check(terminal.wait() is not None, "the shell does not end")


def test_colours():
    foreground = set(range(30, 38)) | set(range(90, 98)) | {38}
    terminal = on_objects()
    check(terminal.screen.styles & foreground, "no colours on a terminal that has them")
    quit_of(terminal)
    for how in ({"NO_COLOR": "1"}, {"term": "vt100"}):
        terminal = on_objects(**how)
        check(not terminal.screen.styles & foreground, f"colours with {how}")
        quit_of(terminal)


# --- signals and ways out


def test_kills():
    for number, status in ((signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGINT, 130),
                           (signal.SIGQUIT, None), (signal.SIGSEGV, None), (signal.SIGABRT, None),
                           (signal.SIGBUS, None), (signal.SIGFPE, None), (signal.SIGUSR1, None),
                           (signal.SIGALRM, None)):
        terminal = on_objects()
        terminal.send(":half a command")
        terminal.settle(0.05)
        os.kill(terminal.pid, number)
        got = terminal.wait()
        check(got == status if status else got not in (None, 0), f"{number!r}: status {got}")
        check(terminal.is_sane(), f"{number!r} left the terminal changed")
        terminal.close()


def test_crash_of_a_thread():
    """Also where rows are loaded a fault leaves the terminal in order."""
    libc = ctypes.CDLL(None, use_errno=True)
    terminal = on_objects()
    threads = [int(tid) for tid in os.listdir(f"/proc/{terminal.pid}/task")
               if int(tid) != terminal.pid]
    check(threads, "there are no other threads")
    for number in (signal.SIGSEGV, signal.SIGABRT):
        libc.syscall(234, terminal.pid, threads[0], int(number))  # tgkill
        got = terminal.wait()
        check(got not in (None, 0), f"{number!r} in a thread: status {got}")
        check(terminal.is_sane(), f"{number!r} in a thread left the terminal changed")
        terminal.close()
        terminal = on_objects()
        threads = [int(tid) for tid in os.listdir(f"/proc/{terminal.pid}/task")
                   if int(tid) != terminal.pid]
    quit_of(terminal)


def test_progress():
    """A bar, a rate and the time left; Ctrl-C ends it, also when the screen is narrow, and Esc goes
    back without ending it."""
    for columns, what in ((80, r"snapshot: copy \[[█░]+\] \d+%"), (40, r"snapshot: copy.*\(Ctrl-C\)")):
        terminal = start("-", "0", "20000", columns=columns)
        terminal.send("a")
        expect(terminal, "progress", what)
        if columns == 80:
            expect(terminal, "rate and rest", r"\d+%, [\d.]+K?/s, \d+s left \(Ctrl-C cancels\)")
        terminal.send("8G\r")
        expect(terminal, "keys meanwhile", r"\[8 obj.*›")
        terminal.send("\033")
        expect(terminal, "back, and it goes on", r"^ [^›]*\[8 obj[^›]*\n(.*\n)*.*snapshot: copy")
        terminal.send("\003")
        expect(terminal, "cancel", "interrupted")
        terminal.send("\003")
        expect(terminal, "a second one comes too late", "come to its end already")
        time.sleep(1)
        terminal.send("\003")
        check(terminal.wait() == 0, "Ctrl-C does not quit when nothing is under way")
        terminal = start("-", "0", "20000", columns=columns)
        quit_of(terminal)


def test_files():
    """Writing to what takes nothing is an error at once, and takes no device away."""
    pipe = os.path.join(FOLDER, "pipe")
    os.mkfifo(pipe)
    terminal = on_objects()
    for command, words in ((f":write! {pipe}", "No such device or address"),
                           (f":save-display {pipe}", "No such device or address"),
                           (":write! /dev/full", "No space left"),
                           (":save-display /dev/full", "No space left"),
                           (":write /nosuch/x", "No such file"), (f":write {FOLDER}/w.csv", "written")):
        terminal.send(command + "\r")
        expect(terminal, command, words)
    check(os.path.exists("/dev/full") and os.path.exists(pipe), "a device was removed")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for _ in range(12):  # more than it holds
        terminal.send(f":write! {pipe}\r")
        terminal.settle(0.05)
    expect(terminal, "a full pipe", "temporarily unavailable")
    os.close(reader)
    quit_of(terminal)


def test_hangup():
    terminal = on_objects()
    terminal.send("a")
    terminal.settle(0.05)
    os.close(terminal.master)
    terminal.master = -1
    end = time.monotonic() + 10 * SLOW
    while time.monotonic() < end:
        pid, _ = os.waitpid(terminal.pid, os.WNOHANG)
        if pid:
            terminal.status = 0
            return
        time.sleep(0.01)
    terminal.close()
    raise Failed("it goes on without a terminal")


def test_silent_hangup():
    """The same with SIGHUP ignored, as nohup does: reading says it."""
    terminal = Terminal(["sh", "-c", f"trap '' HUP; exec {BIN}/explore test.db"], cwd=FOLDER)
    expect(terminal, "start", MARK_OF_SCREEN % 1)
    os.close(terminal.master)
    terminal.master = -1
    end = time.monotonic() + 10 * SLOW
    while time.monotonic() < end:
        pid, _, usage = os.wait4(terminal.pid, os.WNOHANG)
        if pid:
            terminal.status = 0
            check(usage.ru_utime < 5, f"it was busy for {usage.ru_utime} s")
            return
        time.sleep(0.01)
    terminal.close()
    raise Failed("it goes on without a terminal")


def test_stuck_terminal():
    """Nobody reads what it draws: a second signal ends it all the same."""
    terminal = on_objects()
    for _ in range(400):  # more than fits in between
        try:
            terminal.send("12345678\014")
        except BlockingIOError:
            break
    time.sleep(0.5)
    os.kill(terminal.pid, signal.SIGTERM)
    time.sleep(2.5)
    os.kill(terminal.pid, signal.SIGTERM)
    end = time.monotonic() + 10 * SLOW
    while time.monotonic() < end:
        pid, _ = os.waitpid(terminal.pid, os.WNOHANG)
        if pid:
            terminal.status = 0
            break
        time.sleep(0.01)
    check(terminal.status == 0, "nothing ends it")
    while terminal.read(0.05):
        pass
    terminal.close()


def test_stop_and_go():
    terminal = on_objects()
    for _ in range(3):
        os.kill(terminal.pid, signal.SIGSTOP)
        time.sleep(0.05)
        terminal.screen.modes.clear()
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.settle()
        check("?1000" in terminal.screen.modes, "the terminal was not taken again")
    expect(terminal, "after the stop", MARK_OF_SCREEN % 8)
    terminal.send("\014")
    terminal.screen.resize(24, 80)  # what another program garbled
    expect(terminal, "Ctrl-L", MARK_OF_SCREEN % 8)
    # Nobody would bring it back: the leader of a session has no shell.
    terminal.send("\032")
    terminal.settle()
    terminal.send("5")
    expect(terminal, "Ctrl-Z without a shell", MARK_OF_SCREEN % 5)
    quit_of(terminal)


def main():
    global FOLDER
    tests = {name[5:]: value for name, value in globals().items() if name.startswith("test_")}
    chosen = sys.argv[1:] or list(tests)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = folder
        subprocess.run([f"{BIN}/make_store", f"{folder}/test.db"], check=True)
        for name in chosen:
            begin = time.monotonic()
            try:
                tests[name]()
            except Failed as problem:
                print(f"FAIL: {name}: {problem}")
                failed = True
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failed else 0


FOLDER = None
if __name__ == "__main__":
    sys.exit(main())
