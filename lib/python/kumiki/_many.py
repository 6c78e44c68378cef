"""libkumiki's <kumiki/files.h>: many files by one call, without Python's lock."""

import ctypes
import os
import struct
from array import array
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any, Callable, Sequence

from ._library import _lib, last_error
from ._names import Names

# No errno: the library has no answer, and a plain call has; and a descriptor in place of a size.
ASK, OPEN = -1, -2
# Flags of a write.
SYNC, NEW, APPEND = 1, 2, 4
# <fcntl.h>
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_REMOVEDIR = 0x200

# Paths of one call of C. Between two of them signals are handled.
AT_ONCE = 4096
# And of one that needs an array of pointers, whose type ctypes makes for each length.
_WRITES = 1024

# struct kumiki_files_stat
RECORD = struct.Struct("@4Q6q3d5qQ")
FIELDS = (
    *("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size"),
    *("_atime", "_mtime", "_ctime", "st_atime", "st_mtime", "st_ctime"),
    *("st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_blksize", "st_blocks", "st_rdev"),
)

_dir_and_names: "list[Any]" = [c_int, c_char_p, c_size_t, c_size_t]
_lib.kumiki_files_stat.argtypes = [*_dir_and_names, c_int, c_void_p, c_void_p]
_lib.kumiki_files_unlink.argtypes = [*_dir_and_names, c_int, c_void_p]
_lib.kumiki_files_rename.argtypes = [c_int, c_char_p, c_size_t, *_dir_and_names, c_void_p]
_lib.kumiki_files_write.argtypes = [*_dir_and_names, c_void_p, c_uint, c_uint, c_void_p]
_lib.kumiki_files_read.argtypes = [*_dir_and_names, POINTER(c_void_p)]
_lib.kumiki_files_list.argtypes = [*_dir_and_names, POINTER(c_void_p)]
for _of in ("contents", "listing"):
    _table = getattr(_lib, f"kumiki_files_{_of}_list")
    _table.argtypes, _table.restype = [c_void_p], c_void_p
    _destroy = getattr(_lib, f"kumiki_files_{_of}_destroy")
    _destroy.argtypes, _destroy.restype = [c_void_p], None


def _is_in_order() -> bool:
    """Whether this Python's os.stat_result has the fields of a record, and no others."""
    if os.stat_result.n_fields != len(FIELDS):
        return False
    probe = os.stat_result(range(len(FIELDS)))
    return all(name[0] == "_" or getattr(probe, name) == at for at, name in enumerate(FIELDS))


def _by_names(record: "tuple[Any, ...]") -> os.stat_result:
    return os.stat_result(record[:10], dict(zip(FIELDS[10:], record[10:])))


result: "Callable[[tuple[Any, ...]], os.stat_result]" = os.stat_result if _is_in_order() else _by_names


def _failed(answer: int) -> int:
    """How many have failed; an error of the whole is one here."""
    if answer < 0:
        raise OSError(-answer, last_error())
    return answer


def _dir(dir_fd: "int | None") -> int:
    return _AT_FDCWD if dir_fd is None else dir_fd


def _errors(count: int) -> "array[int]":
    return array("i", bytes(4 * count))


def stat(names: Names, dir_fd: "int | None", follow: bool, wants: bool) -> "tuple[memoryview, Sequence[int], int]":
    """Records of what is there, if they are wanted; errors, or nothing where there are none; how many there are."""
    count = len(names.paths)
    size = RECORD.size * count if wants else 0
    # One buffer, as each costs as much as a call of the kernel's.
    buffer = bytearray(size + 4 * count + 1)
    place = c_char.from_buffer(buffer)
    failed = _lib.kumiki_files_stat(
        _dir(dir_fd), names.packed, names.size, count, 0 if follow else _AT_SYMLINK_NOFOLLOW,
        byref(place) if wants else None, byref(place, size),
    )  # fmt: skip
    whole = memoryview(buffer)
    errors = whole[size:-1].cast("i") if failed else ()
    return whole[:size], errors, _failed(failed)


def unlink(names: Names, dir_fd: "int | None", is_dir: bool) -> "tuple[array[int], int]":
    count = len(names.paths)
    errors = _errors(count)
    failed = _lib.kumiki_files_unlink(
        _dir(dir_fd), names.packed, names.size, count, _AT_REMOVEDIR if is_dir else 0, errors.buffer_info()[0]
    )
    return errors, _failed(failed)


def rename(source: Names, src_dir_fd: "int | None", target: Names, dst_dir_fd: "int | None") -> "tuple[array[int], int]":
    count = len(source.paths)
    errors = _errors(count)
    failed = _lib.kumiki_files_rename(
        _dir(src_dir_fd), source.packed, source.size, _dir(dst_dir_fd), target.packed, target.size, count,
        errors.buffer_info()[0],
    )  # fmt: skip
    return errors, _failed(failed)


def write(
    names: Names, dir_fd: "int | None", data: "Sequence[bytes]", mode: int, flags: int
) -> "tuple[array[int], int]":
    """Of at most _WRITES files."""
    count = len(names.paths)
    errors = _errors(count)
    table = array("Q", bytes(16 * count))
    table[0::2] = array("Q", bytes((c_char_p * _WRITES)(*data)))[:count]
    table[1::2] = array("Q", map(len, data))
    failed = _lib.kumiki_files_write(
        _dir(dir_fd), names.packed, names.size, count, table.buffer_info()[0], mode, flags, errors.buffer_info()[0]
    )
    return errors, _failed(failed)


def _bytes(address: int, size: int) -> bytes:
    """A copy of this memory. ctypes.string_at takes no size above an int's."""
    return ctypes.string_at(address, size) if size < 1 << 31 else bytes((c_char * size).from_address(address))


class _Table:
    """What the library has for each path, until it is closed."""

    def __init__(self, call: str, of: str, row: str, names: Names, dir_fd: "int | None") -> None:
        self._of, self._row, self._handle = of, struct.Struct(row), c_void_p()
        self._is_taken = False
        self._count = count = len(names.paths)
        answer = getattr(_lib, f"kumiki_files_{call}")(
            _dir(dir_fd), names.packed, names.size, count, byref(self._handle)
        )
        self.failed = _failed(answer)
        self.rows = self._rows()
        self._is_taken = True

    def _rows(self) -> "list[tuple[int, ...]]":
        address = getattr(_lib, f"kumiki_files_{self._of}_list")(self._handle)
        return list(self._row.iter_unpack(_bytes(address, self._row.size * self._count) if self._count else b""))

    def __enter__(self) -> "_Table":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # What an exception of a signal's handler has left, of which no `with` knows yet.
        self.close()

    def close(self) -> None:
        if self._handle and not self._is_taken and self._of == "contents":
            self._is_taken = True
            for _, fd, error in self._rows():
                if error == OPEN:
                    os.close(fd)
        handle, self._handle = self._handle, c_void_p()
        if handle:
            getattr(_lib, f"kumiki_files_{self._of}_destroy")(handle)


def read(names: Names, dir_fd: "int | None") -> "list[tuple[Any, int]]":
    """Content and error of each; with OPEN a descriptor."""
    with _Table("read", "contents", "@QNq", names, dir_fd) as contents:
        rows = contents.rows
        try:
            return [
                (size if error == OPEN else _bytes(data, size) if size else b"", error) for data, size, error in rows
            ]
        except BaseException:
            for _, fd, error in rows:
                if error == OPEN:
                    os.close(fd)
            raise


class Entries:
    """Of directories, one after the other: names, each with a zero at its end, and kinds; and of each directory
    how many bytes of names and how many entries there are, and its error."""

    __slots__ = ("names", "kinds", "folders")

    def __init__(self, names: Names, dir_fd: "int | None") -> None:
        with _Table("list", "listing", "@QNQQNq", names, dir_fd) as listing:
            rows = listing.rows
            self.folders = [(row[1], row[4], row[5]) for row in rows]
            size, count = sum(row[1] for row in rows), sum(row[4] for row in rows)
            first = rows[0] if rows else (0,) * 6
            self.names = _bytes(first[0], size) if size else b""
            self.kinds = _bytes(first[2], count) if count else b""
