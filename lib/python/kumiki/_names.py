"""Paths as <kumiki/files.h> takes them: bytes, one after the other, each with a zero at its end."""

import os
import sys
from typing import Any, Sequence

_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()


class Names:
    """Some paths; `wrong` has those that are none, by their places, and why."""

    __slots__ = ("paths", "packed", "wrong")

    def __init__(self, paths: "Sequence[Any]") -> None:
        self.paths = paths
        self.wrong: "dict[int, Exception]" = {}
        packed = self._at_once(set(map(type, paths)))
        self.packed = self._one_by_one() if packed is None else packed

    @property
    def size(self) -> int:
        """With the zero at the end, which Python keeps behind all bytes."""
        return len(self.packed) + 1

    def error(self, at: int, number: int) -> OSError:
        """That of a path, as os has it."""
        return OSError(number, os.strerror(number), os.fspath(self.paths[at]))

    def _at_once(self, kinds: "set[type]") -> "bytes | None":
        """All of one kind, and nothing wrong: some 20 ns a path."""
        if kinds == {str}:
            try:
                packed = "\0".join(self.paths).encode(_ENCODING, _ERRORS)
            except UnicodeEncodeError:
                return None
        elif kinds == {bytes}:
            packed = b"\0".join(self.paths)
        else:
            return None if kinds else b""
        return packed if packed.count(0) == len(self.paths) - 1 else None

    def _one_by_one(self) -> bytes:
        """What os refuses with anything but an OSError is refused in its place, but for what is no path at all."""
        found = []
        for at, path in enumerate(self.paths):
            try:
                name = os.fsencode(path)
                if 0 in name:
                    raise ValueError("embedded null byte")
            except ValueError as error:
                self.wrong[at] = error
                name = b""
            found.append(name)
        return b"\0".join(found)
