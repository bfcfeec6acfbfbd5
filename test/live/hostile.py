#!/usr/bin/env -S python3 -B
"""hostile.py - folders and files of other users: what they put beside a store, into the folder for
temporary files, or in the place of either, never makes heapx touch a file that it was not told of.

    hostile.py [TEST...]      environment: HX_TRIES (20; 4 with HX_QUICK=1) for each race;
                              HX_COMMANDS (0): that many commands beside all attacks at once

Who is attacked is root, and mostly the attacker is user 65534; 65533 is a user with a home. Each
race has a process that watches a folder with inotify and strikes in the moment in which a name
appears there. scripts/soak hostile does all of it for longer.
"""
import contextlib
import glob
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

import live
from live import check

TRIES = int(os.environ.get("HX_TRIES", "4" if live.is_set("HX_QUICK") else "20"))
COMMANDS = int(os.environ.get("HX_COMMANDS", "0"))
SEED = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))
ATTACKER, ALICE = 65534, 65533
PROFILE = """JOB "x"\nDATE "y"\nSAMPLE_UNIT "seconds"\nVALUE_UNIT "bytes"
BEGIN_SAMPLE 1.00\na\t100\nb\t200\nEND_SAMPLE 1.00\n"""
SIDECARS = ("-journal", "-wal", "-shm")
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
IN_CREATE = 0x100
MAGIC = bytes.fromhex("d9d505f920a163d7")


def hot_journal(pages, super_journal, page_size=4096):
    """A journal that SQLite plays back: it changes nothing and names a super-journal, which goes."""
    name = super_journal.encode()
    header = MAGIC + struct.pack(">IIIII", 0, 1, pages, 512, page_size)
    lock_page = (1 << 30) // page_size + 1
    return (header.ljust(512, b"\0") + struct.pack(">I", lock_page) + name +
            struct.pack(">II", len(name), sum(name)) + MAGIC)


def pages_of(store):
    return os.path.getsize(store) // 4096


def as_user(user):
    """For preexec_fn: what runs has the rights of that user, and dies with the test."""
    def drop():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        os.umask(0o022)
        live.end_with_parent()
    return drop


@contextlib.contextmanager
def child(user, work, *args):
    """Runs work(tell, *args) in a child with the rights of a user, until the block ends."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            as_user(user)()
            work(tell, *args)
        finally:
            os._exit(1)
    os.close(tell)
    try:
        check(os.read(ready, 1) == b"+", "the attacker did not begin")
        yield
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def put(path, data):
    """A file with these bytes, if there is none."""
    with contextlib.suppress(OSError):
        with open(path, "xb") as file:
            file.write(data)


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
            if name.startswith(wanted) and not name.endswith(SIDECARS):
                strike(os.path.join(folder, name))


class Scene:
    """Files of root's that are to stay as they are, and a folder for everybody, as /tmp is."""

    def __init__(self, folder):
        if os.geteuid() != 0:
            raise live.Skip("only root can be two users")
        if not os.path.exists(live.HEAPX):
            raise live.Skip(f"{live.HEAPX} is not built")
        os.chmod(folder, 0o755)
        self.folder = folder
        self.heapx_file = os.path.join(folder, "heapx")
        shutil.copy(live.HEAPX, self.heapx_file) # others may not reach the build folder
        self.secrets = self.make("secrets", 0o755)
        self.victim = os.path.join(self.secrets, "victim")
        self.open_victim = os.path.join(self.secrets, "open") # of which anybody may make links
        self.temporary = self.make("temporary", 0o1777)
        self.shared = self.make("shared", 0o1777)
        self.home = self.make("home", 0o755, ALICE)
        self.profile = os.path.join(folder, "profile.hp")
        with open(self.profile, "w") as file:
            file.write(PROFILE)
        self.example = self.store("example.hpx")
        self.mine = self.store("secrets/mine.hpx")
        self.restore()

    def make(self, name, mode, owner=0, group=None):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chown(path, owner, owner if group is None else group)
        os.chmod(path, mode)
        return path

    def run(self, *args, user=0, tmp=None, timeout=60):
        """(status, what it said on standard error)"""
        run = subprocess.run([self.heapx_file, *map(str, args)], capture_output=True,
                             timeout=timeout, errors="replace", preexec_fn=as_user(user),
                             env=dict(os.environ, TMPDIR=tmp or self.temporary))
        check(run.returncode in (0, 1), f"heapx {args}: exit {run.returncode}\n{run.stderr}")
        return run.returncode, run.stderr

    def good(self, *args, **options):
        status, said = self.run(*args, **options)
        check(status == 0, f"heapx {args}: {said}")

    def refused(self, text, *args, **options):
        """Refused by one line that holds the text and what to do."""
        status, said = self.run(*args, **options)
        check(status == 1 and said.count("\n") == 1 and text in said and "; " in said,
              f"heapx {args}: exit {status}: {said!r}, and not {text!r}")

    def store(self, name, owner=0, mode=0o600):
        path = os.path.join(self.folder, name)
        self.good("import", self.profile, "-o", path)
        os.chmod(path, mode)
        os.chown(path, owner, owner)
        return path

    def restore(self):
        for path, mode in ((self.victim, 0o600), (self.open_victim, 0o666)):
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w") as file:
                file.write("what root wrote\n")
            os.chmod(path, mode)
        self.stamp = self.look()

    def look(self):
        """What is to stay as it is."""
        found = [sorted(os.listdir(self.secrets))]
        for path in (self.victim, self.open_victim, self.mine):
            with contextlib.suppress(FileNotFoundError):
                with open(path, "rb") as file:
                    st = os.stat(path)
                    found.append((path, file.read(), st.st_ino, st.st_uid, st.st_gid, st.st_mode,
                                  st.st_mtime_ns))
        return found

    def hurt(self):
        """Was something touched? Makes it anew."""
        hurt = self.look() != self.stamp
        if hurt:
            self.restore()
        return hurt

    def unhurt(self, what):
        check(not self.hurt(), f"{what}: a file of root's was touched")


def clear(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def plants(scene, pages):
    """What may lie beside a store: how it is called, and what puts it there."""
    def journal(path):
        put(path, hot_journal(pages, scene.victim))

    def link(path):
        os.symlink(scene.victim, path)

    def hard(path):
        os.link(scene.open_victim, path)

    return {"a file": journal, "a symbolic link": link, "a hard link": hard, "a pipe": os.mkfifo,
            "a folder": os.mkdir}


def plant(scene, how, path, owner):
    """It belongs to that user, as far as it can."""
    plants(scene, pages_of(scene.example))[how](path)
    if how != "a hard link":
        os.chown(path, owner, owner, follow_symlinks=False)


# --- numbers of tries ----------------------------------------------------------------------------

def private_store(folder):
    """Beside the private store of a command, and in its folder."""
    scene = Scene(folder)
    journal = hot_journal(pages_of(scene.example), scene.victim)

    def strike(path):
        put(path + "-journal", journal)
        put(os.path.join(path, "store-journal"), journal)

    hurt = 0
    with child(ATTACKER, race, scene.temporary, "heapx-", strike):
        for _ in range(TRIES):
            scene.good("report", scene.profile, "snapshots")
            hurt += scene.hurt()
    check(hurt == 0, f"{hurt} of {TRIES} times a file of root's was touched")
    clear(scene.temporary)


def beside_new(folder):
    """Beside `-o NEW`, in the moment in which it appears."""
    scene = Scene(folder)
    journal = hot_journal(pages_of(scene.example), scene.victim)
    old = scene.store("old.hpx") # with a log that holds a snapshot which nobody took
    with sqlite3.connect(old) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE hx_snapshot SET comm = 'invented'")
        db.commit()
        with open(old + "-wal", "rb") as file:
            log = file.read()

    def strike(path):
        put(path + "-journal", journal)
        put(path + "-wal", log)
        with contextlib.suppress(OSError):
            os.link(scene.open_victim, path + "-shm")

    hurt = invented = 0
    with child(ATTACKER, race, scene.shared, "new", strike):
        for i in range(TRIES):
            store = os.path.join(scene.shared, f"new{i}.hpx")
            status, _ = scene.run("import", scene.profile, "-o", store)
            hurt += scene.hurt()
            if status == 0:
                for suffix in SIDECARS:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(store + suffix)
                found = live.row(store, "SELECT count(*) n, min(comm) comm FROM snapshots")
                invented += found != {"n": 1, "comm": "x"}
            clear(scene.shared)
    check(hurt == 0, f"{hurt} of {TRIES} times a file of root's was touched")
    check(invented == 0, f"{invented} of {TRIES} times a snapshot was invented")


def exchange(tell, scene, store, seed):
    """As the owner of a folder: exchanges without end what lies beside a store, and the store."""
    chance = random.Random(seed)
    os.write(tell, b"+")
    while True:
        path = store + chance.choice(SIDECARS)
        how = chance.choice(["a file", "a symbolic link", "a hard link", "a pipe"])
        aside = path + f".{chance.randrange(4)}"
        with contextlib.suppress(OSError):
            if os.path.lexists(aside) and chance.random() < 0.7:
                os.unlink(aside)
            plants(scene, pages_of(store))[how](aside)
        with contextlib.suppress(OSError):
            os.rename(aside, path)
        with contextlib.suppress(OSError):
            if chance.random() < 0.5:
                os.unlink(path)
        if chance.random() < 0.2: # the folder, for a moment
            with contextlib.suppress(OSError):
                home = os.path.dirname(store)
                os.rename(home, home + ".aside")
                os.symlink(scene.secrets, home)
                os.unlink(home)
            with contextlib.suppress(OSError):
                os.rename(home + ".aside", home)


def in_foreign_folder(folder):
    """In the folder of a user who exchanges sidecars, and the folder itself, all the time."""
    scene = Scene(folder)
    os.chown(folder, ALICE, ALICE)
    os.mkdir(os.path.join(scene.home, "data"))
    os.chown(os.path.join(scene.home, "data"), ALICE, ALICE)
    hers = scene.store("home/data/hers.hpx", ALICE)
    hurt = good = 0
    with child(ALICE, exchange, scene, hers, SEED):
        for i in range(TRIES):
            for call in (["report", hers, "snapshots"], ["import", scene.profile, "-o", hers],
                         ["import", scene.profile, "-o", os.path.join(os.path.dirname(hers), "mine.hpx")]):
                run = subprocess.run([scene.heapx_file, *call], capture_output=True, timeout=60,
                                     env=dict(os.environ, TMPDIR=scene.temporary))
                check(run.returncode in (0, 1), f"{call}: exit {run.returncode}\n{run.stderr}")
                good += run.returncode == 0
                hurt += scene.hurt()
    check(hurt == 0, f"{hurt} of {3 * TRIES} times a file of root's was touched (seed {SEED})")
    print(f"  {good} of {3 * TRIES} commands came to their end all the same")


# --- single attacks ------------------------------------------------------------------------------

def planted(folder):
    """What lies beside a store or its new name: refused with its name, and left as it is."""
    scene = Scene(folder)
    cases = 0
    for how in plants(scene, 0):
        for suffix in SIDECARS:
            for place, owner in (("shared", ATTACKER), ("home", ALICE)):
                where = os.path.join(scene.folder, place)
                new, old = os.path.join(where, "new.hpx"), scene.store(f"{place}/old.hpx")
                own = f"{how}, {suffix}, {place}"
                for store in (new, old):
                    plant(scene, how, store + suffix, owner)
                before = os.lstat(new + suffix)
                scene.refused("new.hpx" + suffix, "import", scene.profile, "-o", new)
                check(not os.path.exists(new), f"{own}: the new store was made")
                check(os.lstat(new + suffix) == before, f"{own}: what lay there was touched")
                scene.refused("old.hpx" + suffix, "import", scene.profile, "-o", old)
                scene.refused("old.hpx" + suffix, "report", old, "snapshots")
                scene.unhurt(own)
                clear(where)
                cases += 1
    print(f"  {cases} cases")


def renamed(folder):
    """A file of root's in her folder that she has renamed to a sidecar does not become hers."""
    scene = Scene(folder)
    for suffix in SIDECARS:
        store = scene.store("home/hers.hpx", ALICE)
        with open(store + suffix, "w") as file:
            file.write("what root wrote\n" * 100)
            file.flush()
            os.chmod(store + suffix, 0o600)
            scene.run("report", store, "snapshots")
            check(os.fstat(file.fileno()).st_uid == 0, f"{suffix}: read, and it is hers")
            scene.run("import", scene.profile, "-o", store)
            check(os.fstat(file.fileno()).st_uid == 0, f"{suffix}: written, and it is hers")
        clear(scene.home)


def foreign(folder):
    """A store of hers with a journal of hers: root's heapx opens no other file for it."""
    scene = Scene(folder)
    store = scene.store("home/hers.hpx", ALICE)
    put(store + "-journal", hot_journal(pages_of(store), scene.victim))
    os.chown(store + "-journal", ALICE, ALICE)
    before = os.stat(store)
    for call in (["report", store, "snapshots"], ["import", scene.profile, "-o", store]):
        scene.refused("no journal of heapx", *call)
        scene.unhurt(call)
    check(os.stat(store).st_mtime_ns == before.st_mtime_ns, "her store was written")
    check(os.listdir(scene.temporary) == [], f"left: {os.listdir(scene.temporary)}")
    # the same as she sees it: her own heapx deletes nothing of hers
    scene.refused("no journal of heapx", "report", store, "snapshots", user=ALICE)


def cut_off(tell, store, mode):
    """Writes to a store and dies in the middle: its journal is hot, or its log full."""
    db = sqlite3.connect(store, isolation_level=None)
    db.execute(f"PRAGMA journal_mode = {mode}")
    db.execute("PRAGMA cache_size = 2")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("BEGIN")
    db.execute("UPDATE hx_snapshot SET comm = 'changed'")
    if mode == "wal":
        db.execute("COMMIT")
    else:
        db.execute("CREATE TABLE spill (x)")
        for _ in range(100):
            db.execute("INSERT INTO spill VALUES (randomblob(4000))")
    os.write(tell, b"+")
    os.kill(os.getpid(), signal.SIGKILL)


def recovered(folder):
    """What a program of hers that was killed has left is played back: for her, and for root."""
    scene = Scene(folder)
    for mode, suffix, comm in (("delete", "-journal", "x"), ("wal", "-wal", "changed")):
        store = scene.store(f"home/{mode}.hpx", ALICE)
        with child(ALICE, cut_off, store, mode):
            pass
        check(os.path.getsize(store + suffix) > 512, f"{mode}: nothing was left")
        before = {path: os.stat(path) for path in glob.glob(store + "*")}

        def snapshots(user):
            out = subprocess.run([scene.heapx_file, "sql", store, "SELECT comm FROM snapshots",
                                  "--format", "csv"], capture_output=True, text=True,
                                 preexec_fn=as_user(user),
                                 env=dict(os.environ, TMPDIR=scene.temporary))
            check(out.returncode == 0, f"{mode}: {out.stderr}")
            return out.stdout.split()

        check(snapshots(0) == ["comm", comm], f"{mode}: root sees {snapshots(0)}")
        after = {path: os.stat(path) for path in glob.glob(store + "*")}
        check({p: (s.st_mtime_ns, s.st_size, s.st_uid) for p, s in before.items() if "-shm" not in p}
              == {p: (s.st_mtime_ns, s.st_size, s.st_uid) for p, s in after.items() if "-shm" not in p},
              f"{mode}: root's look changed her files")
        check(snapshots(ALICE) == ["comm", comm], f"{mode}: she sees {snapshots(ALICE)}")
        check(glob.glob(store + "*") == [store], f"{mode}: left: {glob.glob(store + '*')}")
    # and root writes to it
    with child(ALICE, cut_off, store, "wal"):
        pass
    scene.good("import", scene.profile, "-o", store)
    check(glob.glob(store + "*") == [store] and os.stat(store).st_uid == ALICE, "not one file of hers")
    scene.good("report", store, "snapshots", user=ALICE)


def together(folder):
    """Several of root's commands that write to her store at once wait for each other."""
    scene = Scene(folder)
    store = scene.store("home/hers.hpx", ALICE)
    runs = [subprocess.Popen([scene.heapx_file, "import", scene.profile, "-o", store],
                             stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [run.communicate(timeout=60)[1] for run in runs]
    check(not any(said) and not any(run.returncode for run in runs), f"{said}")
    check(live.row(store, "SELECT count(*) n FROM snapshots") == {"n": 5}, "snapshots are lost")


def folders(folder):
    """Where a store is written, and where it is only read."""
    scene = Scene(folder)
    shared = "other users may replace"
    for name, mode, owner, group, user, good in (
            ("private", 0o700, ALICE, ALICE, ALICE, True),
            ("plain", 0o755, ALICE, ALICE, ALICE, True),
            ("her_group", 0o775, ALICE, ALICE, ALICE, True),
            ("set_group", 0o2775, ALICE, ALICE, ALICE, True),
            ("sticky", 0o1777, 0, 0, ALICE, True),
            ("root_group", 0o775, 0, 0, 0, True),
            ("hers", 0o755, ALICE, ALICE, 0, True),
            ("her_group2", 0o775, ALICE, ALICE, 0, True),
            ("users", 0o775, ALICE, 100, ALICE, False),
            ("users_sticky", 0o1775, ALICE, 100, ALICE, True),
            ("everybody", 0o777, ALICE, ALICE, ALICE, False),
            ("everybody2", 0o777, 0, 0, 0, False),
            ("everybody3", 0o757, ALICE, ALICE, 0, False)):
        where = scene.make(name, mode, owner, group)
        store = scene.store(f"{name}.hpx", user)
        new, old = os.path.join(where, "new.hpx"), os.path.join(where, "old.hpx")
        os.rename(store, old)
        for path in (new, old):
            if good:
                scene.good("import", scene.profile, "-o", path, user=user)
            else:
                scene.refused(shared, "import", scene.profile, "-o", path, user=user)
        scene.good("report", old, "snapshots", user=user)
        check(sorted(os.listdir(where)) == (["new.hpx", "old.hpx"] if good else ["old.hpx"]),
              f"{name}: {os.listdir(where)}")
    check(os.listdir(scene.temporary) == [], f"left: {os.listdir(scene.temporary)}")
    scene.unhurt("folders")


def links(folder):
    """Links are followed, but those of another user not to what is not his."""
    scene = Scene(folder)
    link = os.path.join(scene.home, "link.hpx")
    os.symlink(scene.mine, link)
    os.chown(link, ALICE, ALICE, follow_symlinks=False)
    scene.refused("link of another user", "import", scene.profile, "-o", link)
    scene.good("report", link, "snapshots")
    way = os.path.join(scene.home, "way")
    os.symlink(scene.secrets, way)
    os.chown(way, ALICE, ALICE, follow_symlinks=False)
    scene.refused("link of another user", "import", scene.profile, "-o", way + "/new.hpx")
    scene.refused("link of another user", "export", scene.example, "csv", "-o", way + "/victim")
    scene.refused("link of another user", "report", scene.profile, "snapshots", tmp=way)
    second = os.path.join(scene.shared, "second.hpx")
    os.link(scene.mine, second)
    scene.refused("hard link", "import", scene.profile, "-o", second)
    os.unlink(second)
    scene.unhurt("links")
    # hers to hers, and root's to anything
    hers = scene.store("home/hers.hpx", ALICE)
    os.symlink(hers, os.path.join(scene.home, "to_hers"))
    os.chown(os.path.join(scene.home, "to_hers"), ALICE, ALICE, follow_symlinks=False)
    os.symlink("../home/to_hers", os.path.join(scene.shared, "to_link"))
    scene.good("import", scene.profile, "-o", os.path.join(scene.shared, "to_link"))
    scene.good("import", scene.profile, "-o", os.path.join(scene.home, "to_hers"), user=ALICE)
    check(live.row(hers, "SELECT count(*) n FROM snapshots") == {"n": 3}, "links were not followed")
    check(os.stat(hers).st_uid == ALICE, "her store is not hers")
    # a hard link of hers is replaced, and not written
    out = os.path.join(scene.shared, "out.csv")
    os.link(scene.open_victim, out)
    scene.stamp = scene.look()
    scene.good("export", scene.example, "csv", "-o", out)
    scene.unhurt("export over a hard link")


def written(folder):
    """What the explorer writes: not through a link of another user, nor into a second name."""
    scene = Scene(folder)
    script = os.path.join(folder, "script")
    for how in ("link", "hard"):
        for command in ("write! {}", "save-display {}"):
            out = os.path.join(scene.shared, "out.csv")
            if how == "link":
                os.symlink(scene.victim, out)
                os.chown(out, ATTACKER, ATTACKER, follow_symlinks=False)
            else:
                os.link(scene.open_victim, out)
            scene.stamp = scene.look()
            with open(script, "w") as file:
                file.write("1\n:" + command.format(out) + "\n")
            run = subprocess.run([scene.heapx_file, "open", scene.example, "--script", script],
                                 capture_output=True, timeout=60, text=True)
            text = "link of another user" if how == "link" else "hard link"
            check(run.returncode in (1, 2) and text in run.stderr, f"{command}: {run}")
            scene.unhurt(f"{command}: {how}")
            os.unlink(out)
            scene.stamp = scene.look()
    with open(script, "w") as file:
        file.write(f"1\n:write {scene.shared}/new.csv\n:save-display {scene.shared}/display\n")
    run = subprocess.run([scene.heapx_file, "open", scene.example, "--script", script],
                         capture_output=True, timeout=60, text=True)
    check(run.returncode == 0 and sorted(os.listdir(scene.shared)) == ["display", "new.csv"],
          f"{run}: {os.listdir(scene.shared)}")


def large_sort(folder):
    """What SQLite spills is for nobody's eyes."""
    scene = Scene(folder)

    def strike(path):
        put(os.path.join(scene.shared, "struck"), b"")
        with contextlib.suppress(OSError):
            with open(path, "rb"):
                put(os.path.join(scene.shared, "read"), b"")
        with contextlib.suppress(OSError):
            os.rename(path, path + ".aside")
        with contextlib.suppress(OSError):
            os.symlink(scene.victim, path)

    spills = ("SELECT count(*) FROM (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c "
              "LIMIT 60000) SELECT randomblob(400) r FROM c ORDER BY r LIMIT -1 OFFSET 1)")
    with child(ATTACKER, race, scene.shared, "etilqs_", strike):
        run = subprocess.run([scene.heapx_file, "sql", scene.example, spills, "--format", "csv"],
                             capture_output=True, text=True, timeout=60,
                             env=dict(os.environ, TMPDIR=scene.shared, SQLITE_TMPDIR=scene.shared))
    check(run.returncode == 0 and "59999" in run.stdout, f"{run}")
    names = os.listdir(scene.shared)
    check("struck" in names and "read" not in names, f"found: {names}")
    scene.unhurt("large sort")


def migrated(folder):
    """A store that root brings up to date stays hers, and nothing is left beside it."""
    scene = Scene(folder)
    store = os.path.join(scene.home, "old.hpx")
    golden = os.path.join(os.environ.get("HX_SRCDIR", os.path.join(os.path.dirname(__file__), "../..")),
                          "test/golden/store-schema-2.sql")
    with open(golden) as file, sqlite3.connect(store) as db:
        db.executescript(file.read())
    os.chown(store, ALICE, ALICE)
    os.chmod(store, 0o640)
    scene.good("import", scene.profile, "-o", store)
    st = os.stat(store)
    check((st.st_uid, st.st_gid, st.st_mode & 0o7777) == (ALICE, ALICE, 0o640), f"now {st}")
    check(os.listdir(scene.home) == ["old.hpx"], f"left: {os.listdir(scene.home)}")


def no_temporary(folder):
    """A TMPDIR in which others may exchange things is not used."""
    scene = Scene(folder)
    open_to_all = scene.make("open", 0o777)
    for call in (["report", scene.profile, "snapshots"], ["sql", scene.profile, "SELECT 1"]):
        scene.refused("set TMPDIR", *call, tmp=open_to_all)
        scene.refused("set TMPDIR", *call, tmp=os.path.join(folder, "none"))
    check(os.listdir(open_to_all) == [], f"left: {os.listdir(open_to_all)}")
    scene.good("report", scene.example, "snapshots", tmp=open_to_all) # needs none


@contextlib.contextmanager
def busy(scene, store, user=0, before=()):
    """A heapx that works on a private copy of a store until the block ends; (process, folder)."""
    there = set(os.listdir(scene.temporary))
    process = subprocess.Popen([*before, scene.heapx_file, "sql", store, ENDLESS],
                               preexec_fn=as_user(user), stdout=subprocess.DEVNULL,
                               env=dict(os.environ, TMPDIR=scene.temporary))
    try:
        end = time.monotonic() + 30
        while True:
            found = glob.glob(os.path.join(scene.temporary, "heapx-*/store"))
            found = [os.path.dirname(p) for p in found if os.path.basename(os.path.dirname(p)) not in there]
            if found and os.path.getsize(found[0] + "/store") == os.path.getsize(store):
                break
            check(time.monotonic() < end and process.poll() is None, "no private copy came")
            time.sleep(0.01)
        yield process, found[0]
    finally:
        process.kill()
        process.wait()


def sweep(folder):
    """What a killed heapx leaves goes with the next one; what is in use or not its own stays."""
    scene = Scene(folder)
    where = scene.make("everybody", 0o777) # is read from a copy
    store = scene.store("copied.hpx", mode=0o644)
    store = shutil.move(store, where)
    link = os.path.join(scene.temporary, "heapx-link01")
    os.symlink(scene.secrets, link)
    plain = os.path.join(scene.temporary, "heapx-mine01") # a folder of root's by that name
    os.mkdir(plain, 0o700)
    put(os.path.join(plain, "file"), b"mine")
    os.utime(plain, (1, 1))
    marked = os.path.join(scene.temporary, "heapx-mark01") # and one that others may write
    os.mkdir(marked)
    os.chmod(marked, 0o777)
    os.symlink("a private folder of heapx", os.path.join(marked, ".heapx"))
    put(os.path.join(marked, "file"), b"mine")
    with busy(scene, store, user=ALICE) as (_, hers):
        pass # killed
    check(os.path.exists(hers), "she cleaned up after SIGKILL")
    stays = [link, os.path.join(plain, "file"), os.path.join(marked, "file"), hers + "/store"]
    with busy(scene, store) as (process, mine):
        st = os.stat(mine)
        check(st.st_mode & 0o7777 == 0o700 and st.st_uid == 0, f"the private folder has {st}")
        scene.good("report", store, "snapshots")
        check(os.path.exists(mine + "/store") and process.poll() is None, "it was in use")
    check(os.path.exists(mine + "/store"), "it cleaned up after SIGKILL")
    scene.good("report", store, "snapshots")
    check(not os.path.exists(mine), "what was left stays")
    with contextlib.suppress(FileNotFoundError):
        with busy(scene, store, before=["unshare", "--pid", "--fork", "--kill-child"]) as (_, other):
            scene.good("report", store, "snapshots")
            check(os.path.exists(other + "/store"), "one of another PID namespace was in use")
    for path in stays:
        check(os.path.lexists(path), f"{path} was removed")
    scene.unhurt("sweep")
    scene.good("report", store, "snapshots", user=ALICE)
    check(not os.path.exists(hers), "what was left of hers stays for herself, too")


def beside(folder):
    """All attacks at once beside many commands of root's."""
    if not COMMANDS:
        raise live.Skip("HX_COMMANDS is 0")
    scene = Scene(folder)
    os.chown(folder, ALICE, ALICE)
    scene.make("home/data", 0o755, ALICE)
    hers = scene.store("home/data/hers.hpx", ALICE)
    crafted = scene.store("shared/crafted.hpx", ATTACKER)
    journal = hot_journal(pages_of(scene.example), scene.victim)
    everybody = scene.make("everybody", 0o777)
    readable = shutil.move(scene.store("readable.hpx", mode=0o644), everybody)
    endless = scene.store("home/endless.hpx", mode=0o644)
    with sqlite3.connect(endless) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute("UPDATE sqlite_master SET sql = 'CREATE VIEW leaks AS ' || ? WHERE name = 'leaks'",
                   (ENDLESS,))
    chance = random.Random(SEED)
    out = os.path.join(scene.shared, "out.csv")

    def strike(path):
        put(path + "-journal", journal)
        put(path + "/store-journal", journal)
        with contextlib.suppress(OSError):
            os.symlink(scene.victim, path + "-wal")
        with contextlib.suppress(OSError):
            os.link(scene.open_victim, path + "-shm")
        with contextlib.suppress(OSError):
            os.symlink(scene.victim, out)

    def calls(i, pid):
        new = os.path.join(scene.shared, f"new{i}.hpx")
        return [["report", scene.profile, "snapshots"], ["import", scene.profile, "-o", new],
                ["import", scene.profile, "-o", os.path.join(os.path.dirname(hers), "mine.hpx")],
                ["import", scene.profile, "-o", hers], ["report", hers, "snapshots"],
                ["report", crafted, "snapshots"], ["import", scene.profile, "-o", crafted],
                ["report", readable, "snapshots"], ["import", scene.profile, "-o", readable],
                ["export", scene.example, "csv", "-o", out],
                ["report", endless, "leaks"], ["import", scene.profile, "-o", endless], ["report", pid, "snapshots"],
                ["snap", pid, "-o", new], ["run", "-o", new, "true"]]

    hurt = 0
    statuses = {}
    with live.Target(["sleep", "3600"]) as target, contextlib.ExitStack() as attackers:
        for where in (scene.temporary, scene.shared, everybody):
            attackers.enter_context(child(ATTACKER, race, where, ("heapx-", "new", "out"), strike))
        attackers.enter_context(child(ALICE, exchange, scene, hers, SEED))
        for i in range(COMMANDS):
            call = [str(word) for word in chance.choice(calls(i, target.pid))]
            put(crafted + "-journal", journal)
            with contextlib.suppress(OSError):
                os.chown(crafted + "-journal", ATTACKER, ATTACKER, follow_symlinks=False)
            run = subprocess.run([live.HEAPX, *call], capture_output=True, timeout=60, errors="replace",
                                 env=dict(os.environ, TMPDIR=scene.temporary))
            statuses[run.returncode] = statuses.get(run.returncode, 0) + 1
            if run.returncode == 1:
                told = "; " in run.stderr or "I/O error" in run.stderr # exchanged while it was written
                check(run.stderr.count("\n") == 1 and told, f"{call}: {run.stderr}")
                if os.environ.get("HX_SHOW"):
                    print(f"  {' '.join(call)}: {run.stderr}", end="")
            check(run.returncode in (0, 1, 3), f"{call}: exit {run.returncode}\n{run.stderr}")
            if scene.hurt():
                hurt += 1
                print(f"  {call}: a file of root's was touched\n{run.stderr}")
    print(f"  {COMMANDS} commands: {statuses} by exit status; seed {SEED}")
    check(hurt == 0, f"{hurt} of {COMMANDS} times a file of root's was touched")


if __name__ == "__main__":
    live.main(private_store, beside_new, in_foreign_folder, planted, renamed, foreign, recovered,
              together, folders, links, written, large_sort, migrated, no_temporary, sweep, beside,
              traces=False)
