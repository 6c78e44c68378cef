"""kumiki where a program asks subprocess, asyncio or multiprocessing: where both mean the same, and else not."""

import contextlib
import os
import posix
import subprocess
import sys
from typing import Any

from ._popen import Popen
from ._posix_spawn import Spawn

# Of what no types are known to others.
_TheirPopen: Any = subprocess.Popen
_theirs = _TheirPopen._execute_child
_fork_exec = getattr(subprocess, "_fork_exec", None)
_says = False
# What was in place before each put_in_place(), the last one's last: a run of pytest may be within another one.
_before: "list[tuple[list[Any], bool]]" = []


def _places() -> "list[tuple[Any, str, Any]]":
    """Where something of ours is put."""
    from multiprocessing import util

    return [
        (_TheirPopen, "_execute_child", _execute_child),
        (util, "spawnv_passfds", _spawnv_passfds),
        (os, "posix_spawn", _posix_spawn),
        (posix, "posix_spawn", _posix_spawn),
        (os, "posix_spawnp", _posix_spawnp),
        (posix, "posix_spawnp", _posix_spawnp),
    ]


def put_in_place(say: bool = False) -> None:
    """From now on children of subprocess, and so of asyncio, are made without a fork, and those of os.posix_spawn, of
    multiprocessing's "spawn", its fork server and its resource tracker too. With `say` each start is told on standard
    error."""
    global _says
    places = _places()
    _before.append(([getattr(where, name) for where, name, _ in places], _says))
    for where, name, ours in places:
        setattr(where, name, ours)
    _says = say


def put_back() -> None:
    """As it was before the last put_in_place()."""
    global _says
    before, _says = _before.pop()
    for (where, name, _), was in zip(_places(), before):
        setattr(where, name, was)


def _tell(program: Any, by: str) -> None:
    if _says:
        if not isinstance(program, (str, bytes, os.PathLike)):
            with contextlib.suppress(TypeError, IndexError):
                program = list(program)[0]
        print(f"kumiki: {program!r} by {by}", file=sys.stderr)


def _execute_child(self: Any, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
    # The last of them but the pipes: is it for a shell?
    program = executable or ("/bin/sh" if rest[6] else args)
    why = None
    if preexec_fn is not None:
        why = "a preexec_fn runs this program in the child"
    elif getattr(subprocess, "_fork_exec", None) is not _fork_exec:
        why = "the program has put something in place of its fork"
    if why is not None:
        _tell(program, f"subprocess: {why}")
        _theirs(self, args, executable, preexec_fn, *rest)
        return
    _tell(program, "kumiki")
    # What kumiki.Popen has besides is not asked for.
    plain: "dict[str, Any]" = {"_default": [], "_cgroup": None, "_parent_death_signal": None, "_further": lambda attributes, stack: None}
    self.__dict__.update(plain)
    try:
        Popen._execute_child(self, args, executable, preexec_fn, *rest)
    finally:
        for name in plain:
            del self.__dict__[name]


def _spawnv_passfds(path: Any, args: Any, passfds: Any) -> int:
    """multiprocessing's: a program with these descriptors, and no others but the standard ones; its process id."""
    _tell(path, "kumiki")
    child = Popen(list(args), executable=path, pass_fds=[fd for fd in passfds if fd > 2], restore_signals=False)
    # Who has asked waits for it, by its number.
    child._child_created = False
    return child.pid


_posix_spawn = Spawn(os.posix_spawn, False, _tell)
_posix_spawnp = Spawn(os.posix_spawnp, True, _tell)
