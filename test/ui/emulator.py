"""emulator.py - a program on a terminal of our own: what it writes, and what that looks like.

The terminal understands what curses sends to an xterm and its like, and nothing else: any other
sequence, any control character, and any character that is not meant to be seen is remembered in
`strange`, for whatever comes from a target must not get that far.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

SLOW = int(os.environ.get("HX_SLOW", "1"))  # multiplies limits of time; scripts/check finds it

# Finals of control sequences that descriptions of terminals hold.
KNOWN_FINALS = "ABCDGHJKLMPSTX@`abcdfhlmrtnxZ"
INVISIBLE = re.compile("[\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                       "\ufff9-\ufffb\U000e0000-\U000e0fff]")


def width_of(char):
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    """Cells, a cursor, and the modes that were set."""

    def __init__(self, lines, columns, encoding="utf-8"):
        self.encoding = encoding
        self.rest = b""
        self.strange = []
        self.modes = set()
        self.styles = set()
        self.saved = (0, 0)
        self.resize(lines, columns)
        self.y = self.x = 0

    def resize(self, lines, columns):
        self.lines, self.columns = lines, columns
        self.cells = [[" "] * columns for _ in range(lines)]
        self.top, self.bottom = 0, lines - 1
        self.y, self.x = 0, 0

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def line(self, number):
        return "".join(self.cells[number]).rstrip()

    # --- bytes

    def feed(self, data):
        data = self.rest + data
        at = 0
        while at < len(data):
            used = self.one(data, at)
            if not used:
                break
            at += used
        self.rest = data[at:]

    def one(self, data, at):
        """Takes one character or sequence; 0 when more of it is needed."""
        byte = data[at]
        if byte == 27:
            return self.escape(data, at)
        if byte < 32 or byte == 127:
            self.control(byte)
            return 1
        if byte < 128:
            self.put(chr(byte))
            return 1
        if self.encoding != "utf-8":
            self.strange.append(f"byte {byte:#x}")
            return 1
        length = 2 if byte < 0xe0 else 3 if byte < 0xf0 else 4
        if at + length > len(data):
            return 0
        try:
            self.put(data[at:at + length].decode("utf-8"))
        except UnicodeDecodeError:
            self.strange.append(f"bytes {data[at:at + length]!r}")
            return 1
        return length

    def control(self, byte):
        if byte == 13:
            self.x = 0
        elif byte == 10:
            self.down()
        elif byte == 8:
            self.x = max(0, self.x - 1)
        elif byte == 9:
            self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
        elif byte not in (0, 14, 15):  # padding, character sets
            self.strange.append(f"control {byte:#x}")

    def escape(self, data, at):
        left = data[at:at + 64]
        if len(left) < 2:
            return 0
        if left[1:2] == b"[":
            found = re.match(rb"\x1b\[([0-?]*)([ -/]*)([@-~])", left)
            if not found:
                if re.fullmatch(rb"\x1b\[[0-?]*[ -/]*", left) and len(left) < 60:
                    return 0
                self.strange.append(f"sequence {left!r}")
                return 2
            self.sequence(found.group(1).decode(), found.group(3).decode(),
                          found.group(0))
            return found.end()
        if left[1:2] in (b"(", b")"):
            return 3 if len(left) > 2 else 0
        if left[1:2] in (b"7", b"8"):
            if left[1:2] == b"7":
                self.saved = self.y, self.x
            else:
                self.y, self.x = self.saved
        elif left[1:2] == b"M":
            self.up()
        elif left[1:2] == b"]" and left[2:3] == b"R":  # the Linux console's colours
            return 3
        elif left[1:2] not in (b"=", b">", b"c"):
            self.strange.append(f"escape {left[:8]!r}")
        return 2

    def sequence(self, arguments, final, raw):
        private = arguments[:1] if arguments[:1] in "<=>?" else ""
        numbers = [int(n) if n.isdigit() else 0 for n in arguments.lstrip("<=>?").split(";")]
        first = numbers[0] or 1
        if final not in KNOWN_FINALS or any(n > 3000 for n in numbers):
            self.strange.append(f"sequence {raw!r}")
        elif final in "hl":
            for n in numbers:
                (self.modes.add if final == "h" else self.modes.discard)(private + str(n))
            if private + str(numbers[0]) in ("?1049", "?47"):
                self.resize(self.lines, self.columns)
        elif final in "Hf":
            self.y = min(first, self.lines) - 1
            self.x = min((numbers + [1])[1] or 1, self.columns) - 1
        elif final == "d":
            self.y = min(first, self.lines) - 1
        elif final in "G`":
            self.x = min(first, self.columns) - 1
        elif final == "A":
            self.y = max(0, self.y - first)
        elif final == "B":
            self.y = min(self.lines - 1, self.y + first)
        elif final in "Ca":
            self.x = min(self.columns - 1, self.x + first)
        elif final == "D":
            self.x = max(0, self.x - first)
        elif final == "b":
            for _ in range(first):
                self.put(self.last)
        elif final == "r":
            self.top = first - 1
            self.bottom = ((numbers + [0])[1] or self.lines) - 1
            self.y = self.x = 0
        elif final == "m":
            self.styles.update(numbers)
        else:
            self.edit(final, numbers[0], first)

    def edit(self, final, number, first):
        line = self.cells[self.y]
        blank = [" "] * self.columns
        if final == "J":
            if number in (0, 2):
                for y in range(self.y + (0 if number == 2 else 1), self.lines):
                    self.cells[y] = list(blank)
            if number == 2:
                self.cells = [list(blank) for _ in range(self.lines)]
            elif number == 0:
                line[self.x:] = blank[self.x:]
            else:
                for y in range(self.y):
                    self.cells[y] = list(blank)
                line[:self.x + 1] = blank[:self.x + 1]
        elif final == "K":
            if number == 0:
                line[self.x:] = blank[self.x:]
            elif number == 1:
                line[:self.x + 1] = blank[:self.x + 1]
            else:
                line[:] = blank
        elif final == "X":
            end = min(self.columns, self.x + first)
            line[self.x:end] = blank[self.x:end]
        elif final == "P":
            line[self.x:] = (line[self.x + first:] + blank)[:self.columns - self.x]
        elif final == "@":
            line[self.x:] = (blank[:first] + line[self.x:])[:self.columns - self.x]
        elif final in "LM":
            for _ in range(first):
                if final == "L":
                    self.cells.insert(self.y, list(blank))
                    del self.cells[self.bottom + 1]
                else:
                    self.cells.insert(self.bottom + 1, list(blank))
                    del self.cells[self.y]
        elif final in "ST":
            for _ in range(first):
                (self.scroll_up if final == "S" else self.scroll_down)()

    def scroll_up(self):
        del self.cells[self.top]
        self.cells.insert(self.bottom, [" "] * self.columns)

    def scroll_down(self):
        del self.cells[self.bottom]
        self.cells.insert(self.top, [" "] * self.columns)

    def down(self):
        if self.y == self.bottom:
            self.scroll_up()
        elif self.y < self.lines - 1:
            self.y += 1

    def up(self):
        if self.y == self.top:
            self.scroll_down()
        elif self.y > 0:
            self.y -= 1

    def put(self, char):
        if INVISIBLE.match(char):
            self.strange.append(f"character {ord(char):#x}")
            return
        width = width_of(char)
        self.last = char
        if width == 0:
            self.cells[self.y][max(0, min(self.x, self.columns) - 1)] += char
            return
        if self.x + width > self.columns:
            self.x = 0
            self.down()
        self.cells[self.y][self.x] = char
        if width == 2:
            self.cells[self.y][self.x + 1] = ""
        self.x += width


class Terminal:
    """A program with a terminal of its own."""

    def __init__(self, command, lines=24, columns=80, term="xterm-256color", locale="C.UTF-8",
                 cwd=None, **environment):
        self.screen = Screen(lines, columns, "utf-8" if "UTF-8" in locale else "ascii")
        self.bytes = bytearray()
        self.status = None
        env = {**os.environ, "TERM": term, "LC_ALL": locale, **environment}
        for name in ("LINES", "COLUMNS", "NO_COLOR", "HEAPX_SCRIPT", "TMUX"):
            if name not in environment:
                env.pop(name, None)
        if term is None:
            del env["TERM"]
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                if cwd:
                    os.chdir(cwd)
                # The size is there before the program looks.
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as a shell leaves them
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self.before = termios.tcgetattr(self.master)

    def resize(self, lines, columns):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        """What is written within that time; False when nothing was."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            time.sleep(min(seconds, 0.01))
            return False
        self.bytes += data
        self.screen.feed(data)
        return True

    def send(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())

    def settle(self, quiet=0.12, most=10):
        """Until nothing was written for a while."""
        end = time.monotonic() + most * SLOW
        while time.monotonic() < end and self.read(quiet):
            pass

    def wait_for(self, what, seconds=15):
        """Until the screen shows that (a pattern); the time it took, None when it did not."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds * SLOW:
            if re.search(what, self.screen.text(), re.M):
                return time.monotonic() - begin
            self.read(0.02)
        return None

    def wait(self, seconds=15):
        """Until it ends: its exit status, negative for a signal; None when it goes on."""
        end = time.monotonic() + seconds * SLOW
        while self.status is None and time.monotonic() < end:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        while self.status is not None and self.read(0.02):
            pass
        return self.status

    def is_sane(self):
        """Is everything as it was found?"""
        now = termios.tcgetattr(self.master)
        wrong = self.screen.modes & {"?1000", "?1002", "?1003", "?1006", "?2004", "?1049", "?1"}
        return now[:4] == self.before[:4] and not wrong

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        if self.master >= 0:
            os.close(self.master)
            self.master = -1
