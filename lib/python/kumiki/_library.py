"""libkumiki's <kumiki/spawn.h>."""

import ctypes
import operator
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64
from typing import Any, Iterable, Sequence

# Flags of attributes.
RESETIDS = 0x01
SETPGROUP = 0x02
SETSIGDEF = 0x04
SETSIGMASK = 0x08
SETSID = 0x80
CLOEXEC_DEFAULT = 0x4000

# Numbers of signals in a set, and its size in the C library.
_SIGNALS = 1024


def _find() -> str:
    """The library named by KUMIKI_LIBRARY, the one in this package, or an installed one."""
    named = os.environ.get("KUMIKI_LIBRARY")
    if named:
        return named
    own = pathlib.Path(__file__).with_name("libkumiki.so")
    return str(own) if own.exists() else "libkumiki.so.0"


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"kumiki needs libkumiki: {error}; install this package by pip from Kumiki's tree, "
            "or name the library by KUMIKI_LIBRARY"
        ) from error


class _Handle(ctypes.Structure):
    """kumiki_spawnattr_t, kumiki_spawn_file_actions_t."""

    _fields_ = [("inner", ctypes.c_void_p)]


class _Limit(ctypes.Structure):
    """struct rlimit."""

    _fields_ = [("soft", c_uint64), ("hard", c_uint64)]


class _Signals(ctypes.Structure):
    """sigset_t."""

    _fields_ = [("words", c_uint64 * (_SIGNALS // 64))]


def fitting(what: str, number: int, kind: Any = c_int) -> int:
    """A number that is one in C, too: ctypes cuts what does not fit without a word."""
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} {number!r} is no whole number") from None
    bits = 8 * ctypes.sizeof(kind)
    least = -(1 << bits - 1) if kind(-1).value < 0 else 0
    most = least + (1 << bits) - 1
    if not least <= number <= most:
        raise OverflowError(f"{what} {number} does not fit: it is from {least} to {most}")
    return number


def _list(what: str, numbers: Sequence[int]) -> Any:
    return (c_uint * len(numbers))(*(fitting(what, number, c_uint) for number in numbers))


def _signals(numbers: Iterable[int]) -> _Signals:
    found = _Signals()
    for number in numbers:
        if not 1 <= fitting("signal", number) <= 64:
            raise ValueError(f"{number} is not a signal: they have the numbers 1 to 64")
        found.words[0] |= 1 << (number - 1)
    return found


_lib = _load()
_own_environ = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ")
_lib.kumiki_last_error.restype = c_char_p
for _start in (_lib.kumiki_spawn, _lib.kumiki_spawnp):
    _start.argtypes = [POINTER(c_int), c_char_p, *[ctypes.c_void_p] * 4]


def last_error() -> str:
    """The sentence to the last error of this thread."""
    return str(_lib.kumiki_last_error().decode(errors="replace"))


def _checked(error: int) -> None:
    if error != 0:
        raise OSError(error, last_error())


def start_server() -> None:
    """Starts this process's spawn server, if it has none yet.

    The first child that needs one does so, too: this is for programs that want it before they
    are large.
    """
    _checked(_lib.kumiki_spawn_start_server())


class Tree:
    """A child and all that comes of it, as long as this object lives."""

    def __init__(self) -> None:
        self._handle = _Handle()
        _checked(_lib.kumiki_spawn_tree_init(byref(self._handle)))

    @property
    def address(self) -> int:
        return ctypes.addressof(self._handle)

    def kill(self) -> None:
        _checked(_lib.kumiki_spawn_tree_kill(byref(self._handle)))

    def __del__(self, destroy: Any = _lib.kumiki_spawn_tree_destroy) -> None:
        destroy(ctypes.byref(self._handle))


class Attributes:
    """What a child is to be. Closes itself at the end of a with statement."""

    def __init__(self) -> None:
        self._handle = _Handle()
        self.flags = 0
        _checked(_lib.kumiki_spawnattr_init(byref(self._handle)))

    def __enter__(self) -> "Attributes":
        return self

    def __exit__(self, *_: object) -> None:
        _lib.kumiki_spawnattr_destroy(byref(self._handle))

    def _set(self, name: str, *arguments: Any) -> None:
        _checked(getattr(_lib, f"kumiki_spawnattr_set{name}")(byref(self._handle), *arguments))

    def default_signals(self, signals: Iterable[int]) -> None:
        self.flags |= SETSIGDEF
        self._set("sigdefault", byref(_signals(signals)))

    def signal_mask(self, signals: Iterable[int]) -> None:
        self.flags |= SETSIGMASK
        self._set("sigmask", byref(_signals(signals)))

    def ignored_signals(self, signals: Iterable[int]) -> None:
        self._set("sigignore", byref(_signals(signals)))

    def _number(self, name: str, what: str, number: int, kind: Any = c_int) -> None:
        self._set(name, kind(fitting(what, number, kind)))

    def terminal(self, fd: int) -> None:
        self._number("terminal", "descriptor", fd)

    def process_group(self, group: int) -> None:
        self.flags |= SETPGROUP
        self._number("pgroup", "process group", group)

    def uid(self, uid: int) -> None:
        self._number("uid", "user", uid, c_uint)

    def gid(self, gid: int) -> None:
        self._number("gid", "group", gid, c_uint)

    def groups(self, groups: Sequence[int]) -> None:
        self._set("groups", c_size_t(len(groups)), _list("group", groups))

    def umask(self, mask: int) -> None:
        self._number("umask", "umask", mask, c_uint)

    def nice(self, nice: int) -> None:
        self._number("nice", "nice value", nice)

    def limit(self, resource: int, soft: int, hard: int) -> None:
        # resource.RLIM_INFINITY is -1.
        amounts = [
            (1 << 64) - 1 if amount == -1 else fitting("limit", amount, c_uint64)
            for amount in (soft, hard)
        ]
        self._set("limit", c_int(fitting("resource", resource)), byref(_Limit(*amounts)))

    def cgroup(self, folder: int) -> None:
        self._number("cgroup", "descriptor", folder)

    def namespaces(self, flags: int) -> None:
        self._number("namespaces", "namespaces", flags, c_uint64)

    def maps(self, name: str, ranges: "Sequence[tuple[int, int, int]]") -> None:
        """Of "uid" or "gid"."""
        flat = [number for each in ranges for number in each]
        self._set(f"{name}map", c_size_t(len(ranges)), _list("id", flat))

    def affinity(self, cpus: Sequence[int]) -> None:
        self._set("affinity", c_size_t(len(cpus)), _list("cpu", cpus))

    def death_signal(self, signal: int) -> None:
        self._number("deathsignal", "signal", signal)

    def tree(self, tree: Tree) -> None:
        self._set("tree", ctypes.c_void_p(tree.address))

    def by_server(self) -> None:
        self._set("byserver", c_int(1))

    def spawn(
        self,
        path: bytes,
        actions: "Actions",
        args: Sequence[bytes],
        env: "Sequence[bytes] | None",
        search: bool = False,
    ) -> int:
        """Starts the program, which may be searched for in PATH; its process id. Without `env` with the variables of this process
        as C has them, which os.putenv() and C's setenv() change, and os.environ does not show."""
        self._set("flags", c_int(self.flags))
        pid = c_int(-1)
        start = _lib.kumiki_spawnp if search else _lib.kumiki_spawn
        error = start(
            byref(pid),
            path,
            actions.address,
            ctypes.addressof(self._handle),
            _strings(args),
            _environ() if env is None else _strings(env),
        )
        _checked(error)
        return pid.value


def _environ() -> ctypes.c_void_p:
    """That moves when a variable is added."""
    return ctypes.c_void_p(_own_environ.value) if _own_environ.value else _strings([])


def _strings(strings: Sequence[bytes]) -> Any:
    return (c_char_p * (len(strings) + 1))(*strings, None)


class Actions:
    """What the child's descriptors and working folder become, in their order."""

    def __init__(self) -> None:
        # Most children have none.
        self._handle: "_Handle | None" = None

    @property
    def address(self) -> "int | None":
        return None if self._handle is None else ctypes.addressof(self._handle)

    def __enter__(self) -> "Actions":
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            _lib.kumiki_spawn_file_actions_destroy(byref(self._handle))

    def _add(self, name: str, *arguments: Any) -> None:
        if self._handle is None:
            handle = _Handle()
            _checked(_lib.kumiki_spawn_file_actions_init(byref(handle)))
            self._handle = handle
        add = getattr(_lib, f"kumiki_spawn_file_actions_add{name}")
        _checked(add(byref(self._handle), *arguments))

    def dup2(self, fd: int, new_fd: int) -> None:
        self._add("dup2", fitting("descriptor", fd), fitting("descriptor", new_fd))

    def open(self, fd: int, path: bytes, flags: int, mode: int) -> None:
        self._add("open", fitting("descriptor", fd), path, fitting("flags", flags), c_uint(fitting("mode", mode, c_uint)))

    def close(self, fd: int) -> None:
        self._add("close", fitting("descriptor", fd))

    def chdir(self, folder: bytes) -> None:
        self._add("chdir", folder)
