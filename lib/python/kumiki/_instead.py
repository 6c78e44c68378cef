"""kumiki where a program asks subprocess, asyncio or multiprocessing: where both mean the same, and else not."""

import os
import subprocess
import sys
from typing import Any

from ._popen import Popen

_theirs = subprocess.Popen._execute_child
_fork_exec = getattr(subprocess, "_fork_exec", None)
_their_spawnv: Any = None
_says = False


def put_in_place(say: bool = False) -> None:
    """From now on children of subprocess, and so of asyncio, are made without a fork, and those of multiprocessing's
    "spawn", its fork server and its resource tracker too. With `say` each start is told on standard error."""
    global _says, _their_spawnv
    _says = say
    subprocess.Popen._execute_child = _execute_child
    from multiprocessing import util

    if util.spawnv_passfds is not _spawnv_passfds:
        _their_spawnv, util.spawnv_passfds = util.spawnv_passfds, _spawnv_passfds


def put_back() -> None:
    """As it was."""
    from multiprocessing import util

    subprocess.Popen._execute_child = _theirs
    util.spawnv_passfds = _their_spawnv


def _tell(program: Any, by: str) -> None:
    if _says:
        if not isinstance(program, (str, bytes, os.PathLike)):
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
        return _theirs(self, args, executable, preexec_fn, *rest)
    _tell(program, "kumiki")
    # What kumiki.Popen has besides is not asked for.
    plain = {"_default": [], "_cgroup": None, "_parent_death_signal": None, "_further": lambda attributes, stack: None}
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
