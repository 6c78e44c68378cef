"""Many files at once.

>>> from kumiki import files
>>> files.exists_many(["/etc/passwd", "/nowhere"])
[True, False]
>>> [type(error).__name__ for error in files.read_many(["/nowhere"])]
['FileNotFoundError']

Each function does for many paths what os, open() or os.path does for one: what a call on a slow file system waits
for, the others wait for at the same time, and what is in memory takes less time than a loop, as one call of C makes
many system calls, on several cpus where that is faster, and without Python's lock.

A path that fails has its error in its place in the list, an OSError as os raises it: one of a million ends nothing.
No order is promised among the paths of one call. kumiki.aio has the same functions to await.
"""

import errno
import functools
import io
import itertools
import os
import select
from array import array
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import _many
from ._ahead import DirEntry, Scan, scandir, walk
from ._many import AT_ONCE
from ._names import Names

__all__ = [
    "DirEntry",
    "Scan",
    "each",
    "exists_many",
    "read_many",
    "rename_many",
    "rmdir_many",
    "scandir",
    "stat_array",
    "stat_many",
    "unlink_many",
    "walk",
    "write_many",
]

AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_T = TypeVar("_T")
_R = TypeVar("_R")


# So many are asked for one by one: a call of C costs what some of os do, and each path in it less, if by little where no
# other cpu helps.
_FEW_STATS, _FEW_EXIST, _FEW_CHANGES = 15, 4, 4
# Of more than so many the rest is asked for at the same time where the first takes so many nanoseconds. To look at the
# clock would be a twentieth of fewer.
_SOON, _LONG, _MANY = 4, 100_000, (None,)
_PLAIN = frozenset((str, bytes))


def _parts(items: "Iterable[_T]", size: int = AT_ONCE) -> "Iterable[Sequence[_T]]":
    """All of them in lists; one that is short enough as it is."""
    if isinstance(items, (list, tuple)):
        if len(items) <= size:
            return (items,) if items else ()
    elif isinstance(items, (str, bytes, os.PathLike)):
        raise TypeError(f"paths {items!r}: one path, where many are taken; put it into a list")
    return _lists(iter(items), size)


def _lists(rest: "Iterator[_T]", size: int) -> "Iterator[Sequence[_T]]":
    while part := list(itertools.islice(rest, size)):
        yield part


def _tell(results: "list[Any]", names: Names, errors: "Iterable[int]", again: "Callable[[Any], Any]") -> None:
    """Puts errors into the places of what has failed; what the library has no answer to is asked again."""
    for at, number in enumerate(errors):
        if number == _many.ASK:
            results[at] = _or_error(again, names.paths[at])
        elif number:
            results[at] = names.error(at, number)
    for at, why in names.wrong.items():
        results[at] = why


def _rest(function: "Callable[[Any], Any]", paths: "Sequence[Any]", results: "list[Any]") -> "list[Any]":
    """Results of a short list one of whose paths has failed."""
    for path in paths[len(results) :]:
        results.append(_or_error(function, path))
    return results


def _or_error(function: "Callable[[Any], _R]", path: Any) -> "_R | Exception":
    try:
        return function(path)
    except (OSError, ValueError) as error:
        return error


def stat_many(
    paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None, follow_symlinks: bool = True
) -> "list[os.stat_result | Exception]":
    """os.stat of each path: an os.stat_result, or the error."""
    one: "Callable[[Any], os.stat_result]" = os.stat
    if dir_fd is not None or not follow_symlinks:
        one = functools.partial(os.stat, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    results: "list[Any]" = []
    if (paths.__class__ is list or paths.__class__ is tuple) and len(paths) <= _FEW_STATS:
        names: "Iterable[Any]" = paths
        try:
            if len(paths) > _SOON and paths[0].__class__ in _PLAIN:
                names, before = iter(paths), perf_counter_ns()
                results.append(one(next(names)))
                if perf_counter_ns() - before > _LONG:
                    names = _MANY
            # In place, as a function's call would be a twentieth of one path.
            for path in names:
                if path.__class__ is not str and path.__class__ is not bytes:
                    break
                results.append(one(path))
            else:
                return results
        except (OSError, ValueError) as error:
            results.append(error)
            if len(paths) - len(results) <= _SOON:
                return _rest(one, paths, results)
        paths = paths[len(results) :]
    for part in _parts(paths):
        packed = Names(part)
        records, errors, failed = _many.stat(packed, dir_fd, follow_symlinks, True)
        found = list(map(_many.result, _many.RECORD.iter_unpack(records)))
        if failed or packed.wrong:
            _tell(found, packed, errors, one)
        results += found
    return results


def stat_array(
    paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None, follow_symlinks: bool = True
) -> "tuple[Any, Any]":
    """os.stat of each path as numpy arrays: one whose fields have the names of os.stat_result, st_size and the like,
    and one of error numbers, 0 where there is none. Where there is one, the fields are 0."""
    try:
        import numpy  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(f"kumiki.files.stat_array gives arrays of numpy: {error}; take stat_many") from error
    kinds = [{"Q": "u8", "q": "i8", "d": "f8"}[kind] for count, kind in _pairs() for _ in range(count)]
    offsets = [8 * at for at, name in enumerate(_many.FIELDS) if name[0] != "_"]
    fields: Any = {
        "names": [name for name in _many.FIELDS if name[0] != "_"],
        "formats": [kinds[at // 8] for at in offsets],
        "offsets": offsets,
        "itemsize": _many.RECORD.size,
    }
    all_records, all_errors = bytearray(), bytearray()
    for part in _parts(paths):
        names = Names(part)
        records, errors, failed = _many.stat(names, dir_fd, follow_symlinks, True)
        numbers = array("i", errors if failed else bytes(4 * len(part)))
        for at in names.wrong:
            numbers[at] = errno.EINVAL
        all_records += records
        all_errors += numbers.tobytes()
    return numpy.frombuffer(all_records, dtype=fields), numpy.frombuffer(all_errors, dtype="i4")


def _pairs() -> "list[tuple[int, str]]":
    """Counts and kinds of the fields of a record."""
    found, count = [], ""
    for letter in _many.RECORD.format.lstrip("@"):
        if letter.isdigit():
            count += letter
        else:
            found.append((int(count or 1), letter))
            count = ""
    return found


def exists_many(
    paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None, follow_symlinks: bool = True
) -> "list[bool]":
    """os.path.exists of each path: False, too, where nobody can know."""
    one: "Callable[[Any], bool]" = os.path.exists
    if dir_fd is not None or not follow_symlinks:
        one = functools.partial(_exists, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    results: "list[bool]" = []
    if (paths.__class__ is list or paths.__class__ is tuple) and len(paths) <= _FEW_EXIST:
        # In place, as a function's call would be a twentieth of one path.
        for path in paths:
            if path.__class__ is not str and path.__class__ is not bytes:
                break
            results.append(one(path))
        else:
            return results
        paths = paths[len(results) :]
    for part in _parts(paths):
        names = Names(part)
        _, errors, failed = _many.stat(names, dir_fd, follow_symlinks, False)
        found = list(map((0).__eq__, errors)) if failed else [True] * len(part)
        for at in names.wrong:
            found[at] = False
        results += found
    return results


def _exists(path: Any, *, dir_fd: "int | None", follow_symlinks: bool) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    except (OSError, ValueError):
        return False
    return True


def read_many(paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None) -> "list[bytes | Exception]":
    """open(path, "rb").read() of each path: its bytes, or the error."""
    results: "list[Any]" = []
    if isinstance(paths, (list, tuple)) and len(paths) == 1 and paths[0].__class__ in _PLAIN:
        return _rest(lambda path: _read(path, dir_fd), paths, results)
    for part in _parts(paths):
        names = Names(part)
        pairs = _many.read(names, dir_fd)
        found: "list[Any]" = [data for data, _ in pairs]
        errors = [error for _, error in pairs]
        if any(errors) or names.wrong:
            opened = [at for at, error in enumerate(errors) if error == _many.OPEN]
            try:
                while opened:
                    at = opened.pop()
                    found[at], errors[at] = _or_error(_read_open, found[at]), 0
            finally:
                # A signal's handler has raised.
                for at in opened:
                    os.close(found[at])
            _tell(found, names, errors, lambda path: _read(path, dir_fd))
        results += found
    return results


def _read(path: Any, dir_fd: "int | None") -> bytes:
    """Reads one file, which may wait where it is no ordinary one."""
    opener = None if dir_fd is None else lambda name, flags: os.open(name, flags, dir_fd=dir_fd)
    with io.FileIO(path, opener=opener) as file:
        return file.readall()


def _read_open(fd: int) -> bytes:
    """Reads what is no file, and was opened, to its end: a FIFO without a writer has none before there was one."""
    found: "list[bytes]" = []
    with open(fd, "rb", buffering=0) as file:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while True:
            poll.poll()
            part = file.read(1 << 16)
            if part == b"":
                return b"".join(found)
            if part is not None:
                found.append(part)


def write_many(
    items: "Mapping[Any, Any] | Iterable[tuple[Any, Any]]",
    *,
    fsync: bool = False,
    append: bool = False,
    exclusive: bool = False,
    mode: int = 0o666,
    dir_fd: "int | None" = None,
) -> "list[None | Exception]":
    """open(path, "wb").write(data) for each (path, data): None, or the error.

    A path that stands there twice is written twice, in the order of the items: the last one's data is what it holds, as
    after a loop. That is so of one name; two names of one file may hold a mixture.

    With fsync they are on the disk when this returns, by os.fsync of all of a part at the same time; not so the
    names of new ones, which are their directory's. append and exclusive are open()'s "ab" and "xb", mode is
    os.open()'s.
    """
    flags = fsync * _many.SYNC + exclusive * _many.NEW + append * _many.APPEND
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"mode {mode:#o}: permissions are from 0 to 0o7777")
    results: "list[None | Exception]" = []
    for part in _parts(items.items() if isinstance(items, Mapping) else items, _many._WRITES):
        for once in _without_repeats(part):
            names = Names([path for path, _ in once])
            errors, failed = _many.write(names, dir_fd, [_bytes(data) for _, data in once], mode, flags)
            results += _ends(names, errors, failed)
    return results


def _without_repeats(part: "Sequence[tuple[Any, Any]]") -> "Iterator[Sequence[tuple[Any, Any]]]":
    """Pieces in which no path stands twice: what is written of one path at the same time is mixed."""
    named = [path if path.__class__ in _PLAIN else os.fspath(path) for path, _ in part]
    if len(set(named)) == len(named) and len(set(map(type, named))) < 2:
        yield part
        return
    seen: "set[Any]" = set()
    begin = 0
    for at, path in enumerate(named):
        # One that cannot be encoded is refused later.
        name = _or_error(os.fsencode, path)
        if name in seen:
            yield part[begin:at]
            begin, seen = at, set()
        seen.add(name)
    yield part[begin:]


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        raise TypeError("a str is to be written: encode() it, as a file is bytes")
    return data if type(data) is bytes else bytes(memoryview(data))


def _ends(names: Names, errors: "Iterable[int]", failed: int) -> "list[None | Exception]":
    found: "list[None | Exception]" = [None] * len(names.paths)
    if failed or names.wrong:
        _tell(found, names, errors, lambda _: None)
    return found


def unlink_many(paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None) -> "list[None | Exception]":
    """os.unlink of each path: None, or the error."""
    return _remove(paths, dir_fd, False)


def rmdir_many(paths: "Iterable[AnyPath]", *, dir_fd: "int | None" = None) -> "list[None | Exception]":
    """os.rmdir of each path: None, or the error. None of them may be in another."""
    return _remove(paths, dir_fd, True)


def _remove(paths: "Iterable[Any]", dir_fd: "int | None", is_dir: bool) -> "list[None | Exception]":
    results: "list[None | Exception]" = []
    if _is_short(paths):
        remove = os.rmdir if is_dir else os.unlink
        return [_or_error(lambda path: remove(path, dir_fd=dir_fd), path) for path in paths]
    for part in _parts(paths):
        names = Names(part)
        results += _ends(names, *_many.unlink(names, dir_fd, is_dir))
    return results


def _is_short(items: Any) -> bool:
    """Whether these are names, and so few that each is changed by a call of its own."""
    return items.__class__ is list and 0 < len(items) <= _FEW_CHANGES and _PLAIN.issuperset(map(type, items))


def rename_many(
    pairs: "Iterable[tuple[Any, Any]]", *, src_dir_fd: "int | None" = None, dst_dir_fd: "int | None" = None
) -> "list[None | Exception]":
    """os.rename of each (source, target): None, or the error. No target may be another's source."""
    results: "list[None | Exception]" = []
    if isinstance(pairs, list) and len(pairs) <= _FEW_CHANGES:
        if all(pair.__class__ is tuple and len(pair) == 2 and _PLAIN.issuperset(map(type, pair)) for pair in pairs):
            rename = functools.partial(os.rename, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return [_or_error(lambda pair: rename(*pair), pair) for pair in pairs]
    for part in _parts(pairs.items() if isinstance(pairs, Mapping) else pairs):
        source, target = Names([pair[0] for pair in part]), Names([pair[1] for pair in part])
        errors, failed = _many.rename(source, src_dir_fd, target, dst_dir_fd)
        found = _ends(source, errors, failed)
        for at, why in target.wrong.items():
            found[at] = why
        for at, error in enumerate(found):
            if isinstance(error, OSError):
                paths = (os.fspath(name.paths[at]) for name in (source, target))
                first, second = paths
                found[at] = OSError(error.errno, error.strerror, first, None, second)
        results += found
    return results


def each(
    function: "Callable[..., list[_R]]", items: "Iterable[_T]", *, chunk: int = AT_ONCE, **named: Any
) -> "Iterator[tuple[_T, _R]]":
    """Each item with what the function gives for it, as they come: each(files.stat_many, paths).

    The items may be without end: at most twice `chunk` are taken ahead. While the program uses results, the next ones
    are made, by a thread.
    """
    if chunk < 1:
        raise ValueError(f"chunk {chunk}: at least one item is made at once")
    return _each(function, items, chunk, named)


def _each(
    function: "Callable[..., list[_R]]", items: "Iterable[_T]", chunk: int, named: "dict[str, Any]"
) -> "Iterator[tuple[_T, _R]]":
    with ThreadPoolExecutor(1, "kumiki-files") as thread:
        before, pending = None, None
        for part in _growing(items, chunk):
            begun = thread.submit(function, part, **named)
            if before is not None and pending is not None:
                yield from zip(before, pending.result())
            before, pending = part, begun
        if before is not None and pending is not None:
            yield from zip(before, pending.result())


def _growing(items: "Iterable[_T]", most: int) -> "Iterator[list[_T]]":
    """Few first, so that the first results come soon."""
    rest, size = iter(items), min(32, most)
    while part := list(itertools.islice(rest, size)):
        yield part
        size = min(2 * size, most)
