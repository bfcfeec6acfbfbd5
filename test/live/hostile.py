#!/usr/bin/env -S python3 -B
"""hostile.py - folders and files of other users: what they put beside a store, into the folder for
temporary files, or in the place of either, never makes heapx touch a file that it was not told of.

    hostile.py [TEST...]      environment: HX_TRIES (20) for each race

The attacker is user 65534, the user who is attacked is root; each race has one process that watches
a folder with inotify and strikes in the moment in which a name appears.
"""
import contextlib
import ctypes
import fcntl
import os
import signal
import sqlite3
import struct
import subprocess
import time

import live
from live import check, heapx

TRIES = int(os.environ.get("HX_TRIES", "20"))
ATTACKER, ALICE = 65534, 65533
PROFILE = """JOB "x"\nDATE "y"\nSAMPLE_UNIT "seconds"\nVALUE_UNIT "bytes"
BEGIN_SAMPLE 1.00\na\t100\nb\t200\nEND_SAMPLE 1.00\n"""
IN_CREATE, IN_OPEN = 0x100, 0x20


def hot_journal(pages, super_journal, page_size=4096):
    """A journal that SQLite plays back: it changes nothing and names a super-journal, which goes."""
    name = super_journal.encode()
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 1, pages, 512, page_size)
    lock_page = (1 << 30) // page_size + 1
    tail = struct.pack(">I", lock_page) + name + struct.pack(">II", len(name), sum(name))
    return header.ljust(512, b"\0") + tail + bytes.fromhex("d9d505f920a163d7")


def pages_of(store):
    return os.path.getsize(store) // 4096


def as_user(user):
    """For preexec_fn: what runs has the rights of that user, and dies with the test."""
    def drop():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        live.end_with_parent()
    return drop


@contextlib.contextmanager
def child(user, work, *args):
    """Runs work(*args) in a child with the rights of a user, until the block ends."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            as_user(user)()
            work(tell, *args)
            status = 0
        finally:
            os._exit(status)
    os.close(tell)
    try:
        check(os.read(ready, 1) == b"+", "the attacker did not begin")
        yield
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def put(path, data):
    """As an attacker: a file with these bytes, or with it is there already, nothing."""
    try:
        with open(path, "xb") as file:
            file.write(data)
    except OSError:
        pass


def race(tell, folder, wanted, strike):
    """Calls strike(path) as soon as a name that begins with `wanted` appears in the folder."""
    watch = live.LIBC.inotify_init1(0)
    live.LIBC.inotify_add_watch(watch, folder.encode(), IN_CREATE)
    os.write(tell, b"+")
    while True:
        events = os.read(watch, 65536)
        while events:
            _, _, _, size = struct.unpack_from("iIII", events)
            name = events[16:16 + size].rstrip(b"\0").decode()
            events = events[16 + size:]
            if name.startswith(wanted) and "-journal" not in name:
                strike(os.path.join(folder, name))


class Scene:
    """A folder of root's with a file to be hurt, and one that everybody may write, as /tmp is."""

    def __init__(self, folder):
        if os.geteuid() != 0:
            raise live.Skip("only root can be two users")
        os.chmod(folder, 0o755)
        self.folder = folder
        self.victim = os.path.join(folder, "victim")
        self.shared = self.make("shared", 0o1777)
        self.profile = os.path.join(folder, "profile.hp")
        with open(self.profile, "w") as file:
            file.write(PROFILE)
        self.example = self.store("example.hpx")
        self.restore()

    def make(self, name, mode, owner=0):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
        return path

    def store(self, name, owner=0, mode=0o600):
        path = os.path.join(self.folder, name)
        heapx("import", self.profile, "-o", path)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
        return path

    def restore(self):
        with open(self.victim, "w") as file:
            file.write("what root wrote\n")
        os.chmod(self.victim, 0o600)
        self.stamp = self.look()

    def look(self):
        """What is to stay as it is: None, when the file is gone."""
        try:
            with open(self.victim) as file:
                st = os.stat(self.victim)
                return (file.read(), st.st_ino, st.st_uid, st.st_gid, st.st_mode, st.st_mtime_ns)
        except FileNotFoundError:
            return None

    def hurt(self):
        """Was it touched? Makes it anew."""
        hurt = self.look() != self.stamp
        if hurt:
            self.restore()
        return hurt


def private_store(folder):
    """Beside the private store of a command: a hot journal with a super-journal."""
    scene = Scene(folder)
    journal = hot_journal(pages_of(scene.example), scene.victim)

    def strike(path):
        put(path + "-journal", journal)
        for inside in ("store-journal", "heapx-journal"):
            put(os.path.join(path, inside), journal)

    hurt = 0
    with child(ATTACKER, race, scene.shared, "heapx-", strike):
        for _ in range(TRIES):
            heapx("report", scene.profile, "snapshots", env={"TMPDIR": scene.shared})
            hurt += scene.hurt()
            for name in os.listdir(scene.shared):
                if name.endswith("-journal"):
                    os.unlink(os.path.join(scene.shared, name))
    check(hurt == 0, f"{hurt} of {TRIES} times a file was deleted")
    check(os.listdir(scene.shared) == [], f"left: {os.listdir(scene.shared)}")


def new_store(folder):
    """Beside `-o NEW`, before it is there: a journal with a super-journal."""
    scene = Scene(folder)
    journal = hot_journal(pages_of(scene.example), scene.victim)
    store = os.path.join(scene.shared, "new.hpx")
    put(store + "-journal", journal)
    os.chown(store + "-journal", ATTACKER, ATTACKER)
    heapx("import", scene.profile, "-o", store, ok=(0, 1))
    check(not scene.hurt(), "a file was deleted")


def foreign(folder):
    scene = Scene(folder)
    store = scene.store("shared/foreign.hpx", ATTACKER)
    put(store + "-journal", hot_journal(pages_of(store), scene.victim))
    os.chown(store + "-journal", ATTACKER, ATTACKER)
    heapx("report", store, "snapshots", ok=(0, 1))
    check(not scene.hurt(), "a file was deleted")

if __name__ == "__main__":
    live.main(private_store, new_store, foreign, traces=False)
