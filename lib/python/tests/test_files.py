"""kumiki.files beside os: on trees drawn at random, with names of any bytes, each result and each error is alike."""

import asyncio
import errno
import itertools
import os
import pathlib
import random
import resource
import shutil
import tempfile
import threading
import unittest
import unittest.mock

import kumiki.aio
from kumiki import _ahead, _many, files

SEED = int(os.environ.get("KUMIKI_FILES_SEED", random.randrange(1 << 32)))
CASES = int(os.environ.get("KUMIKI_FILES_CASES", "4"))


def told(function, *arguments, **named):
    """What it gives or raises, to compare."""
    try:
        return function(*arguments, **named)
    except (OSError, ValueError) as error:
        return error


def plain(result):
    """Comparable: errors by what they say."""
    if isinstance(result, OSError):
        return type(result), result.errno, result.strerror, result.filename, result.filename2
    if isinstance(result, Exception):
        # Its words differ from function to function, and from version to version.
        return type(result)
    if isinstance(result, os.stat_result):
        names = [name for name in dir(result) if name.startswith("st_")]
        return [(name, getattr(result, name)) for name in names], tuple(result)
    return result


def as_path(path):
    """One that says the same: a Path has no slash at its end."""
    made = pathlib.Path(os.fsdecode(path))
    return made if os.fsencode(made) == path else path


class Tree:
    """Files, folders, links, FIFOs and sockets with odd names."""

    def __init__(self, draw: random.Random, top: bytes, most: int = 60) -> None:
        self.draw, self.top, self.paths = draw, top, [top]
        folders = [top]
        for _ in range(draw.randrange(2, most)):
            path = os.path.join(draw.choice(folders), self.name())
            if os.path.lexists(path):
                continue
            self.paths.append(path)
            kind = draw.randrange(8)
            if kind < 3:
                os.mkdir(path)
                folders.append(path)
            elif kind < 6:
                with open(path, "wb") as file:
                    file.write(draw.randbytes(draw.choice([0, 1, 100, 5000, 70000])))
                os.utime(path, ns=(draw.randrange(1 << 62), draw.randrange(-1 << 30, 1 << 62)))
                os.chmod(path, draw.randrange(0o1000))
            elif kind == 6:
                os.symlink(draw.choice([b"..", b".", b"/", b"nowhere", path, draw.choice(self.paths)]), path)
            else:
                os.mkfifo(path)
        self.folders = folders

    def name(self) -> bytes:
        draw = self.draw
        length = draw.choice([1, 2, 5, 20, 255])
        made = bytes(draw.choice([*range(1, 47), *range(48, 256)]) for _ in range(length))
        return b"_" if made in (b".", b"..") else made

    def asked(self) -> "list[bytes]":
        """Paths that are there, and others."""
        draw, found = self.draw, []
        for _ in range(draw.randrange(1, 80)):
            path = draw.choice(self.paths)
            what = draw.randrange(8)
            if what == 0:
                path += b"/x"
            elif what == 1:
                path += b"nope"
            elif what == 2:
                path += b"/"
            elif what == 3:
                path = b"" if draw.random() < 0.5 else path + b"\0" + b"x"
            elif what == 4:
                path += b"/" + b"y" * draw.choice([256, 5000])
            found.append(path)
        return found


def as_kind(draw, paths):
    """The same as bytes, str, paths, or all of it."""
    kinds = [lambda p: p, os.fsdecode, as_path]
    kind = draw.randrange(4)
    return [(draw.choice(kinds) if kind == 3 else kinds[kind])(path) for path in paths]


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = os.fsencode(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def drawn(self, most=60):
        for case in range(CASES):
            draw = random.Random(SEED + case)
            top = tempfile.mkdtemp(dir=self.folder)
            yield draw, Tree(draw, top, most)

    def alike(self, ours, theirs, asked, shown=None):
        shown = shown or plain
        self.assertEqual(len(ours), len(theirs))
        for mine, its, path in zip(ours, theirs, asked):
            self.assertEqual(shown(mine), shown(its), path)

    def test_attributes_are_those_of_os(self):
        for draw, tree in self.drawn():
            asked = as_kind(draw, tree.asked())
            for follow in (True, False):
                theirs = [told(os.stat, path, follow_symlinks=follow) for path in asked]
                # Who follows a link reads it, and the kernel notes when.
                shown = plain if follow else but_when_read
                self.alike(files.stat_many(asked, follow_symlinks=follow), theirs, asked, shown)
                self.alike(files.stat_many(iter(asked), follow_symlinks=follow), theirs, asked, shown)
            self.assertEqual(files.exists_many(asked), [os.path.exists(path) for path in asked])
            there = files.exists_many(asked, follow_symlinks=False)
            self.assertEqual(there, [os.path.lexists(path) for path in asked])

    def test_of_a_few_paths_those_after_a_slow_one_are_asked_for_at_once(self):
        paths = [os.path.join(self.folder, b"%d" % number) for number in range(10)]
        for path in paths[:5]:
            open(path, "w").close()
        asked = unittest.mock.Mock(side_effect=_many.stat)
        with unittest.mock.patch.object(_many, "stat", asked):
            for is_slow in (False, True):
                found = files.stat_many(paths)
                self.assertEqual([type(each) for each in found], [os.stat_result] * 5 + [FileNotFoundError] * 5)
                self.assertEqual(asked.call_count, is_slow)
                self.addCleanup(setattr, files, "_LONG", files._LONG)
                files._LONG = -1

    def test_a_directory_s_descriptor_is_where_paths_start(self):
        for draw, tree in self.drawn():
            asked = [os.path.relpath(path, tree.top) for path in tree.paths]
            fd = os.open(tree.top, os.O_RDONLY)
            self.addCleanup(os.close, fd)
            theirs = [told(os.stat, path, dir_fd=fd) for path in asked]
            self.alike(files.stat_many(asked, dir_fd=fd), theirs, asked)
            ended = files.write_many([(b"new", b"x"), (b"gone/new", b"x")], dir_fd=fd)
            self.assertEqual([error and error.errno for error in ended], [None, errno.ENOENT])
            self.assertEqual(files.read_many([b"new"], dir_fd=fd), [b"x"])
            files.rename_many([(b"new", b"newer")], src_dir_fd=fd, dst_dir_fd=fd)
            self.assertEqual(files.unlink_many([b"newer"], dir_fd=fd), [None])
        self.assertEqual(files.stat_many(["x"], dir_fd=-7)[0].errno, errno.EBADF)
        with self.assertRaises(OSError) as raised:
            files.stat_many(["x"] * 20, dir_fd=-7)
        self.assertEqual(raised.exception.errno, errno.EBADF)
        self.assertEqual(files.stat_many(["x"] * 20, dir_fd=1 << 20)[19].errno, errno.EBADF)

    def test_contents_are_those_of_open(self):
        def read(path):
            with open(path, "rb") as file:
                return file.read()

        for draw, tree in self.drawn():
            asked = [path for path in tree.asked() if not is_fifo(path)]
            asked = as_kind(draw, asked)
            self.alike(files.read_many(asked), [told(read, path) for path in asked], asked)
        # Files that tell no length, one that is no file, one of which somebody else has the other end.
        fifo = os.path.join(self.folder, b"fifo")
        os.mkfifo(fifo)
        threading.Thread(target=pathlib.Path(os.fsdecode(fifo)).write_bytes, args=(b"through",)).start()
        with open("/proc/self/status", "rb") as status:
            lines = len(status.read().splitlines())
        said, empty, through = files.read_many(["/proc/self/status", "/dev/null", fifo])
        self.assertEqual((len(said.splitlines()), empty, through), (lines, b"", b"through"))

    def test_who_is_interrupted_leaves_nothing(self):
        fifos = [os.path.join(self.folder, b"%d" % number) for number in range(3)]
        for fifo in fifos:
            os.mkfifo(fifo)
        destroy, freed = _many._lib.kumiki_files_contents_destroy, []

        def counted(handle):
            freed.append(handle)
            destroy(handle)

        def interrupted(*arguments):
            raise KeyboardInterrupt

        def read_open(fd):
            os.close(fd)
            raise KeyboardInterrupt

        copied, calls = _many._bytes, itertools.count()

        def interrupted_later(address, size):
            return interrupted() if next(calls) else copied(address, size)

        before = len(os.listdir("/proc/self/fd"))
        for where, name, by in (
            (_many, "_failed", interrupted), (_many, "_bytes", interrupted_later), (files, "_read_open", read_open),
        ):  # fmt: skip
            with (
                self.subTest(name),
                unittest.mock.patch.object(_many._lib, "kumiki_files_contents_destroy", counted),
                unittest.mock.patch.object(where, name, by),
            ):
                freed.clear()
                asked = [*fifos, "/etc/passwd"] if where is _many else fifos
                with self.assertRaises(KeyboardInterrupt):
                    files.read_many(asked)
                self.assertEqual(len(freed), 1)
                self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_what_is_written_is_there(self):
        for draw, tree in self.drawn(20):
            for named in ({}, {"fsync": True}, {"append": True}, {"exclusive": True}, {"mode": 0o600}):
                some = [path for path in apart(tree.asked()) if not is_fifo(path)]
                items = {path: draw.randbytes(draw.choice([0, 1, 70000])) for path in as_kind(draw, dict.fromkeys(some))}
                before = {path: told(self.content, path) for path in items}
                ended = files.write_many(items, **named)
                how = "ab" if "append" in named else "xb" if "exclusive" in named else "wb"
                for (path, data), error in zip(items.items(), ended):
                    if error is None:
                        kept = before[path] if how == "ab" and isinstance(before[path], bytes) else b""
                        self.assertEqual(self.content(path), kept + data, (path, named))
                        continue
                    self.assertEqual(plain(error), plain(told(open, path, how)), (path, named))
        path = os.path.join(self.folder, b"new")
        self.assertEqual(files.write_many([(path, b"x")], mode=0o604), [None])
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o604 & ~mask)
        for wrong in ("text", 7):
            with self.assertRaises(TypeError):
                files.write_many([(path, wrong)])
        # One name, several times: as a loop writes.
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, str(number)) for number in range(40)]
            drawn = random.Random(SEED)
            for append in (False, True):
                items = [(drawn.choice(names), b"%d" % at * drawn.randrange(1, 5000)) for at in range(400)]
                items += [(pathlib.Path(name), b"p") for name in names[::3]] + [(os.fsencode(name), b"b") for name in names[::2]]
                held = {}
                if append:
                    held = dict(zip(names, files.read_many(names)))
                for name, data in items:
                    held[os.fsdecode(name)] = held.get(os.fsdecode(name), b"") * append + data
                self.assertEqual(files.write_many(items, append=append), [None] * len(items))
                self.assertEqual(files.read_many(held), list(held.values()))
            twice = files.write_many([("\ud800", b""), (names[0], b"1"), (names[0], b"2"), ("\ud800", b"")])
            self.assertEqual([type(error) for error in twice], [UnicodeEncodeError, type(None), type(None), UnicodeEncodeError])
            new = os.path.join(folder, "new")
            made = files.write_many([(new, b"1"), (new, b"2")], exclusive=True)
            self.assertEqual((made[0], type(made[1]), files.read_many([new])), (None, FileExistsError, [b"1"]))
        self.assertEqual(files.write_many([(path, bytearray(b"y")), ("/dev/full", b"z")])[1].errno, errno.ENOSPC)

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_names_go_and_change_as_by_os(self):
        for draw, tree in self.drawn():
            other = self.folder + b"/other%d" % draw.randrange(1 << 60)
            shutil.copytree(tree.top, other, symlinks=True, copy_function=copied)
            asked = apart(tree.asked())
            draw.shuffle(asked)
            theirs = [path.replace(tree.top, other, 1) for path in asked]
            if draw.random() < 0.5:
                pairs = [(path, path + b"~") for path in asked]
                ours = files.rename_many(pairs)
                for (path, to), mine in zip(pairs, ours):
                    its = told(os.rename, path.replace(tree.top, other, 1), to.replace(tree.top, other, 1))
                    self.assertEqual(numbers(mine), numbers(its), path)
                # What is in a folder that was renamed may have been there, or not.
            else:
                ours = files.unlink_many(asked)
                for path, mine, its in zip(asked, ours, [told(os.unlink, path) for path in theirs]):
                    self.assertEqual(numbers(mine), numbers(its), path)
                gone = files.rmdir_many([tree.top + b"/nowhere", tree.top])
                self.assertEqual(gone[0].errno, errno.ENOENT)

    def slow(self):
        """Has each directory taken for one that is read slowly."""
        self.long(-1)

    def long(self, time):
        """Has a directory be slow from such a time on: how long one takes to read, other work decides, too."""
        self.addCleanup(setattr, _ahead, "_LONG", _ahead._LONG)
        _ahead._LONG = time

    def test_a_walk_is_that_of_os(self):
        self.walks()
        self.slow()
        self.walks()

    def walks(self):
        for _, tree in self.drawn(150):
            for top, down, links in itertools.product(
                (tree.top, os.fsdecode(tree.top), tree.top + b"/nowhere"), (True, False), (False,)
            ):
                ours, theirs = [], []
                mine = list(files.walk(top, down, lambda error: ours.append(plain(error)), links))
                its = list(os.walk(top, down, lambda error: theirs.append(plain(error)), links))
                self.assertEqual(mine, its)
                self.assertEqual(ours, theirs)
        top = os.path.join(self.folder, b"links%d" % _ahead._LONG)
        os.makedirs(top + b"/a/b")
        os.symlink(b"../a", top + b"/to")
        os.symlink(top + b"/a/b", top + b"/other")
        self.assertEqual(list(files.walk(top, followlinks=True)), list(os.walk(top, followlinks=True)))
        with self.assertRaises(ValueError):
            list(files.walk("a\0b"))

    def test_of_a_slow_tree_one_directory_is_read_twice(self):
        os.makedirs(os.path.join(self.folder, *[b"d"] * 20))
        self.slow()
        asked = unittest.mock.Mock(side_effect=os.scandir)
        with unittest.mock.patch.object(os, "scandir", asked):
            self.assertEqual(len(list(files.walk(self.folder))), 21)
        self.assertEqual(asked.call_count, 1)

    def test_directories_may_be_left_out_and_added(self):
        for draw, tree in self.drawn(150):
            def changed(walk):
                seen, choose = [], random.Random(draw.random())
                for path, dirs, names in walk(tree.top):
                    seen.append((path, list(dirs), names))
                    for name in list(dirs):
                        if len(name) % 3 == 1:
                            dirs.remove(name)
                    dirs.reverse()
                    if path == tree.top:
                        dirs.append(b"not there")
                return seen

            self.assertEqual(changed(files.walk), changed(os.walk))

    def test_what_was_read_ahead_and_is_not_visited_is_forgotten(self):
        top = os.path.join(self.folder, b"wide")
        for number in range(200):
            os.makedirs(os.path.join(top, b"%d" % number, b"x", b"y"))
        readers = []

        class Reader(_ahead._Reader):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                readers.append(self)

        original, _ahead._Reader = _ahead._Reader, Reader
        self.addCleanup(setattr, _ahead, "_Reader", original)
        for path, dirs, _ in files.walk(top):
            if path != top:
                dirs.clear()
        self.assertEqual(readers[0].read, {})
        self.assertEqual(len(list(files.walk(top))), 601)

    def test_entries_are_those_of_os(self):
        self.scans()
        self.slow()
        self.scans()

    def scans(self):
        for draw, tree in self.drawn():
            for folder in tree.folders:
                for where in (folder, os.fsdecode(folder), pathlib.Path(os.fsdecode(folder))):
                    with files.scandir(where) as ours, os.scandir(where) as theirs:
                        self.entries(draw, list(ours), list(theirs))
                fd = os.open(folder, os.O_RDONLY)
                self.addCleanup(os.close, fd)
                self.entries(draw, list(files.scandir(fd)), list(os.scandir(fd)))
        for wrong in (b"/nowhere", "/etc/passwd", "a\0b"):
            self.assertEqual(plain(told(files.scandir, wrong)), plain(told(os.scandir, wrong)))
        self.assertEqual(sorted(e.name for e in files.scandir()), sorted(os.listdir()))

    def test_a_scan_that_is_left_is_closed(self):
        for _ in range(2):
            fds = len(os.listdir("/proc/self/fd"))
            with files.scandir("/proc") as some:
                next(some)
            with self.assertRaises(StopIteration):
                next(some)
            some = files.scandir("/proc")
            some.close()
            self.assertEqual(list(some), [])
            self.assertEqual(len(os.listdir("/proc/self/fd")), fds)
            self.slow()

    def test_attributes_are_asked_for_ahead_where_a_directory_is_slow(self):
        for number in range(300):
            open(os.path.join(self.folder, b"%d" % number), "w").close()
        asked = unittest.mock.Mock(side_effect=_many.stat)
        with unittest.mock.patch.object(_many, "stat", asked):
            self.long(1 << 62)
            self.assertEqual({entry.stat().st_size for entry in files.scandir(self.folder)}, {0})
            self.assertEqual(asked.call_count, 0)
            self.slow()
            self.assertEqual({entry.stat().st_size for entry in files.scandir(self.folder)}, {0})
            # One, 4, 16, 64, and what is left.
            self.assertEqual(asked.call_count, 5)

    def entries(self, draw, ours, theirs):
        self.assertEqual([e.name for e in ours], [e.name for e in theirs])
        for mine, its in zip(ours, theirs):
            self.assertEqual(os.fspath(mine), os.fspath(its))
            self.assertEqual((mine.inode(), mine.is_symlink(), repr(mine)), (its.inode(), its.is_symlink(), repr(its)))
            for follow in (True, False):
                for asked in ("is_dir", "is_file", "stat"):
                    if draw.random() < 0.7:
                        results = (told(getattr(e, asked), follow_symlinks=follow) for e in (mine, its))
                        self.assertEqual(*map(but_when_read, results))

    def test_results_come_before_all_paths_are_known(self):
        def paths():
            for number in itertools.count():
                yield f"/nowhere/{number}"

        some = list(itertools.islice(files.each(files.exists_many, paths(), chunk=50), 500))
        self.assertEqual(some[499], ("/nowhere/499", False))
        self.assertEqual(list(files.each(files.exists_many, [])), [])
        with self.assertRaises(ValueError):
            files.each(files.exists_many, [], chunk=0)
        with self.assertRaises(TypeError):
            list(files.each(files.stat_many, [7]))

    def test_many_paths_from_many_threads(self):
        paths = [os.path.join(self.folder, b"%d" % number) for number in range(3000)]
        self.assertEqual(files.write_many((path, path) for path in paths), [None] * 3000)
        failed = []

        def use():
            for _ in range(3):
                if [s.st_size for s in files.stat_many(paths)] != [len(path) for path in paths]:
                    failed.append("stat")
                if files.read_many(paths) != paths:
                    failed.append("read")

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        # A child of a fork has none of the threads.
        child = os.fork()
        if child == 0:
            os._exit(0 if files.read_many(paths) == paths and all(files.exists_many(paths)) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(files.unlink_many(paths), [None] * 3000)

    def test_few_descriptors_are_enough(self):
        paths = [os.path.join(self.folder, b"%d" % number) for number in range(400)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        folders = [os.path.join(self.folder, b"folder%d" % number) for number in range(200)]
        for folder in folders:
            os.makedirs(os.path.join(folder, b"in"))
        files.exists_many(paths * 4)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual(files.write_many(((path, path) for path in paths), fsync=True), [None] * 400)
        self.assertEqual(files.read_many(paths), paths)
        self.assertEqual(len(list(files.walk(self.folder))), 401)

    def test_arrays_have_the_same_numbers(self):
        try:
            import numpy
        except ImportError:
            with self.assertRaisesRegex(ImportError, "stat_many"):
                files.stat_array(["/"])
            self.skipTest("there is no numpy")
        paths = ["/", "/nowhere", "a\0b", "/etc/passwd"]
        stats, errors = files.stat_array(paths)
        self.assertEqual(errors.tolist(), [0, errno.ENOENT, errno.EINVAL, 0])
        for at in (0, 3):
            its = os.stat(paths[at])
            for name in stats.dtype.names:
                self.assertEqual(stats[name][at], getattr(its, name), name)
        self.assertEqual(stats["st_size"][1], 0)
        self.assertIsInstance(stats, numpy.ndarray)

    def test_one_path_where_many_are_taken_is_refused(self):
        for path in ("x", b"x", pathlib.Path("x")):
            for function in (files.stat_many, files.exists_many, files.read_many, files.unlink_many):
                with self.assertRaisesRegex(TypeError, "list"):
                    function(path)
        self.assertEqual(files.stat_many([]), [])
        with self.assertRaises(TypeError):
            files.stat_many([3])

    def test_a_record_of_another_python_is_built_by_names(self):
        record = next(_many.RECORD.iter_unpack(_many.stat(_names("/etc/passwd"), None, True, True)[0]))
        self.assertEqual(plain(_many._by_names(record)), plain(os.stat("/etc/passwd")))
        self.assertEqual(plain(_many.result(record)), plain(os.stat("/etc/passwd")))

    def test_all_of_it_can_be_awaited(self):
        path = os.path.join(self.folder, b"x")

        async def main():
            self.assertEqual(await kumiki.aio.write_many({path: b"y"}), [None])
            self.assertEqual(await kumiki.aio.read_many([path, b"/nope"]), [b"y", unittest.mock.ANY])
            self.assertEqual(await kumiki.aio.exists_many([path]), [True])
            (stat,) = await kumiki.aio.stat_many([path], follow_symlinks=False)
            self.assertEqual(stat.st_size, 1)
            self.assertEqual(await kumiki.aio.rename_many([(path, path + b"2")]), [None])
            self.assertEqual(await kumiki.aio.unlink_many([path + b"2"]), [None])
            seen = [item async for item in kumiki.aio.each(files.exists_many, ["/", "/nope"])]
            self.assertEqual(seen, [("/", True), ("/nope", False)])
            walked = [step async for step in kumiki.aio.walk(self.folder)]
            self.assertEqual(walked, list(os.walk(self.folder)))

        asyncio.run(main())


def is_fifo(path) -> bool:
    """Whether an open of it might wait."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return (mode & 0o170000) == 0o010000


def apart(paths):
    """Those that say nothing about each other: none within another, none by a link."""
    found = []
    for path in dict.fromkeys(paths):
        lies = path.rstrip(b"/")
        within = (other.rstrip(b"/") for other in paths if other != path)
        if any(lies == other or lies.startswith(other + b"/") or other.startswith(lies + b"/") for other in within):
            continue
        if 0 in path or os.path.realpath(path) == lies:
            found.append(path)
    return found


def copied(source, target):
    if is_fifo(source) and not os.path.islink(source):
        os.mkfifo(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def but_when_read(result):
    """A listing is a read of the folder, and a way through a link one of the link."""
    if not isinstance(result, os.stat_result):
        return plain(result)
    return [(name, getattr(result, name)) for name in dir(result) if name.startswith("st_") and "atime" not in name]


def numbers(error):
    return None if error is None else getattr(error, "errno", type(error))


def _names(path):
    from kumiki._names import Names

    return Names([path])


if __name__ == "__main__":
    print(f"KUMIKI_FILES_SEED={SEED}")
    unittest.main()
