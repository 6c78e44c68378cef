"""os.walk and os.scandir that read ahead: directories and attributes that will be asked for, many at a time."""

import itertools
import operator
import os
import stat as _stat
import sys
from collections import deque
from operator import not_
from time import perf_counter_ns
from typing import Any, Callable, Iterator

from . import _many
from ._names import Names

_DIRECTORY, _FILE, _LINK, _UNKNOWN = _stat.S_IFDIR >> 12, _stat.S_IFREG >> 12, _stat.S_IFLNK >> 12, 0

# Directories that are read at the same time, and how many may have been read and not been visited.
_AHEAD = 64
_KEPT = 16 * _AHEAD
# Attributes that are asked for at the same time.
_ATTRIBUTES = 1024
# Nanoseconds from which on a directory's first entries come from somewhere else than memory: of a large one 200,000 are
# taken by those that the kernel gives at once.
_LONG = 500_000


class _Folder:
    """A directory's entries as os.walk tells them, and which of its directories it goes into."""

    __slots__ = ("dirs", "files", "into")

    def __init__(self, dirs: "list[Any]", files: "list[Any]", into: "list[Any]") -> None:
        self.dirs, self.files, self.into = dirs, files, into


def _before(folder: Any) -> Any:
    """What os.path.join puts before a name, which is no path: a tenth of its time."""
    slash = b"/" if isinstance(folder, bytes) else "/"
    return folder if not folder or folder.endswith(slash) else folder + slash


def _split(packed: bytes, as_bytes: bool) -> "list[Any]":
    if not packed:
        return []
    return packed[:-1].split(b"\0") if as_bytes else os.fsdecode(packed[:-1]).split("\0")


class _Reader:
    """Directories that have been read, by their paths."""

    def __init__(self, followlinks: bool) -> None:
        self._follows = followlinks
        # Some directory has been read slowly.
        self._is_slow = False
        self.read: "dict[Any, _Folder | OSError]" = {}

    def take(self, path: Any, stack: "list[Any]") -> "_Folder | OSError":
        """This one, which is read with others that come after it if it has not been yet."""
        found = self.read.pop(path, None)
        if found is not None:
            return found
        ahead = self._next(stack) if stack else []
        if len(ahead) < 2 and not self._is_slow:
            # A call of C costs what two of os do.
            plain = _plainly(path, self._follows)
            if plain is not None:
                return plain
            self._is_slow = True
        self._read([path, *ahead])
        return self.read.pop(path)

    def forget(self, path: Any) -> None:
        """What was read of a directory that is not visited, and of those below it."""
        found = self.read.pop(path, None)
        if isinstance(found, _Folder):
            for name in found.into:
                self.forget(os.path.join(path, name))

    def _next(self, stack: "list[Any]") -> "list[Any]":
        """Those that will be visited next and have not been read, as far as can be seen from here."""
        found: "list[Any]" = []
        if len(self.read) >= _KEPT:
            return found
        looked = 0
        below = deque(reversed(stack[-_AHEAD:]))
        while below and len(found) < _AHEAD - 1 and looked < 4 * _AHEAD:
            path = below.popleft()
            looked += 1
            if isinstance(path, tuple):
                continue
            folder = self.read.get(path)
            if folder is None:
                found.append(path)
            elif isinstance(folder, _Folder):
                before = _before(path)
                below += [before + name for name in folder.into]
        return found

    def _read(self, paths: "list[Any]") -> None:
        names = Names(paths)
        for why in names.wrong.values():
            raise why
        entries = _many.Entries(names, None)
        kinds = entries.kinds
        # Whether an entry is a directory, and whether it is gone into; where a link leads to, and what the file system
        # does not tell, is asked for all of them at once.
        is_dir = goes_into = list(map(_DIRECTORY.__eq__, kinds))
        packed, as_bytes = entries.names, isinstance(paths[0], bytes)
        found = _split(packed, as_bytes)
        if _LINK in kinds or _UNKNOWN in kinds:
            is_dir, goes_into = self._doubtful(paths, entries, found, is_dir)
        at = 0
        for path, (_, count, error) in zip(paths, entries.folders):
            end = at + count
            if error:
                self.read[path] = OSError(error, os.strerror(error), path)
            elif True in is_dir[at:end]:
                here = is_dir[at:end]
                dirs = list(itertools.compress(found[at:end], here))
                files = list(itertools.compress(found[at:end], map(not_, here)))
                into = dirs[:] if goes_into is is_dir else list(itertools.compress(found[at:end], goes_into[at:end]))
                self.read[path] = _Folder(dirs, files, into)
            else:
                self.read[path] = _Folder([], found[at:end], [])
            at = end

    def _doubtful(
        self, paths: "list[Any]", entries: _many.Entries, found: "list[Any]", known: "list[bool]"
    ) -> "tuple[list[bool], list[bool]]":
        is_dir, goes_into = known[:], known[:]
        asked, places, at = [], [], 0
        for path, (_, count, _) in zip(paths, entries.folders):
            for place in range(at, at + count):
                if entries.kinds[place] in (_LINK, _UNKNOWN):
                    asked.append(os.path.join(path, found[place]))
                    places.append(place)
            at += count
        for place, there, itself in zip(places, _modes(asked, True), _modes(asked, False)):
            is_dir[place] = _stat.S_ISDIR(there)
            goes_into[place] = is_dir[place] and (self._follows or not _stat.S_ISLNK(itself))
        return is_dir, goes_into


def _modes(paths: "list[Any]", follow: bool) -> "list[int]":
    """Kinds of these; 0 of what cannot be known."""
    if not paths:
        return []
    records, _, _ = _many.stat(Names(paths), None, follow, True)
    return [record[0] for record in _many.RECORD.iter_unpack(records)]


def walk(
    top: Any,
    topdown: bool = True,
    onerror: "Callable[[OSError], Any] | None" = None,
    followlinks: bool = False,
) -> "Iterator[tuple[Any, list[Any], list[Any]]]":
    """os.walk, which reads directories before they are asked for, up to 64 at the same time.

    As there, `dirs` may be changed, topdown, to leave some out or to add some. What the program changes in a
    directory further down after its first entries have come may be seen or not: it may have been read before.
    """
    sys.audit("os.walk", top, topdown, onerror, followlinks)
    reader = _Reader(followlinks)
    top = os.fspath(top)
    stack: "list[Any]" = [top]
    while stack:
        path = stack.pop()
        if isinstance(path, tuple):
            yield path
            continue
        folder = reader.take(path, stack)
        if isinstance(folder, OSError):
            if onerror is not None:
                onerror(folder)
            continue
        dirs, into = folder.dirs, folder.into
        if not topdown:
            if not into:
                yield path, dirs, folder.files
                continue
            stack.append((path, dirs, folder.files))
            before = _before(path)
            stack += [before + name for name in reversed(into)]
            continue
        yield path, dirs, folder.files
        if not dirs and not into:
            continue
        known = set(into)
        join, is_link = os.path.join, os.path.islink
        for name in known.difference(dirs):
            reader.forget(join(path, name))
        for name in reversed(dirs):
            below = join(path, name)
            if name in known or followlinks or not is_link(below):
                stack.append(below)


def _plainly(path: Any, followlinks: bool) -> "_Folder | OSError | None":
    """A directory beside which no other is read yet, as os.walk reads it; None where that takes long."""
    dirs: "list[Any]" = []
    files: "list[Any]" = []
    into: "list[Any]" = []
    before = perf_counter_ns()
    try:
        with os.scandir(path) as found:
            for entry in found:
                if before:
                    if perf_counter_ns() - before > _LONG:
                        return None
                    before = 0
                try:
                    is_dir = entry.is_dir()
                except OSError:
                    is_dir = False
                if is_dir:
                    dirs.append(entry.name)
                    if followlinks or not _is_link(entry):
                        into.append(entry.name)
                else:
                    files.append(entry.name)
    except OSError as error:
        return error
    return _Folder(dirs, files, into)


def _is_link(entry: "os.DirEntry[Any]") -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


class DirEntry:
    """As os.DirEntry, but that attributes come for many entries at once."""

    __slots__ = ("name", "_scan", "_at")

    def __init__(self, name: Any, scan: "Scan", at: int) -> None:
        self.name = name
        self._scan = scan
        self._at = at

    @property
    def _plain(self) -> "os.DirEntry[Any]":
        return self._scan._plain[self._at]

    @property
    def path(self) -> Any:
        return self._plain.path

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        return self._plain.inode()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = self._scan._known[follow_symlinks][self._at] or self._scan._ask(self._at, follow_symlinks)
        if found.__class__ is os.stat_result:
            return found
        raise found

    def is_symlink(self) -> bool:
        return self._plain.is_symlink()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        if follow_symlinks and self._plain.is_symlink():
            return self._leads_to(_stat.S_IFDIR)
        return self._plain.is_dir(follow_symlinks=False)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        if follow_symlinks and self._plain.is_symlink():
            return self._leads_to(_stat.S_IFREG)
        return self._plain.is_file(follow_symlinks=False)

    if sys.version_info >= (3, 12):

        def is_junction(self) -> bool:
            return False

    def _leads_to(self, mode: int) -> bool:
        try:
            return _stat.S_IFMT(self.stat().st_mode) == mode
        except FileNotFoundError:
            return False


class Scan:
    """The entries of a directory that is read slowly: an iterator, and a context manager as that of os.scandir."""

    def __init__(self, fd: "int | None", plain: "list[os.DirEntry[Any]]") -> None:
        self._fd, self._plain = fd, plain
        # What is known of each entry, of itself and at the end of links.
        self._known: "list[list[Any]]" = [[None] * len(plain), [None] * len(plain)]
        # How many the next question asks for: one that asks for one entry's attributes pays for one.
        self._next = [1, 1]
        names = map(operator.attrgetter("name"), plain)
        self._entries: "Iterator[DirEntry]" = map(DirEntry, names, itertools.repeat(self), itertools.count())

    def __iter__(self) -> "Iterator[DirEntry]":
        return self._entries

    def __next__(self) -> DirEntry:
        return next(self._entries)

    def __enter__(self) -> "Scan":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration; entries that were given keep what they know."""
        self._entries = iter(())

    def _ask(self, at: int, follow: bool) -> Any:
        """This one's attributes, and those of entries after it: four times as many as the last time."""
        known, count = self._known[follow], self._next[follow]
        self._next[follow] = min(4 * count, _ATTRIBUTES)
        places = [place for place in range(at, min(at + 2 * count, len(known))) if known[place] is None][:count]
        paths = [self._plain[place].path for place in places]
        records, errors, _ = _many.stat(Names(paths), self._fd, follow, True)
        results = map(_many.result, _many.RECORD.iter_unpack(records))
        for place, path, result, number in zip(places, paths, results, errors or itertools.repeat(0)):
            if number == _many.ASK:
                result = os.stat(path, dir_fd=self._fd, follow_symlinks=follow)
            elif number:
                known[place] = OSError(number, os.strerror(number), path)
                continue
            known[place] = result
        return known[at]


class Plain(itertools.chain["os.DirEntry[Any]"]):
    """os.scandir's own entries, the first of which has been read: an iterator, and a context manager."""

    __slots__ = ("_found",)

    _found: Any

    # It gives itself; a function of Python's would take twice as long.
    __enter__ = itertools.chain.__iter__

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._found.close()
        # The first, if nobody has taken it.
        next(self, None)

    def close(self) -> None:
        self.__exit__(None, None, None)


def scandir(path: Any = ".") -> "Scan | Plain":
    """os.scandir. Where the directory is read slowly its entries' attributes are asked for ahead: the first
    entry.stat() asks for one, the next for four, up to 1,024 at the same time. Elsewhere entries are those of os."""
    before = perf_counter_ns()
    found = os.scandir(path)
    first = next(found, None)
    if perf_counter_ns() - before > _LONG:
        with found:
            entries = [] if first is None else [first, *found]
        return Scan(path if isinstance(path, int) else None, entries)
    if first is None:
        return found  # type: ignore[return-value]
    plain = Plain((first,), found)
    plain._found = found
    return plain
