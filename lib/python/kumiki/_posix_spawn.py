"""os.posix_spawn and os.posix_spawnp by kumiki: where both mean the same, and else not."""

import functools
import os
import sys
from typing import Any, Callable

from ._library import RESETIDS, SETSID, Actions, Attributes

_KNOWN = frozenset(("file_actions", "setpgroup", "resetids", "setsid", "setsigmask", "setsigdef"))
# An iterator could be read once only, and what is not plain is for os.
_LISTS = (list, tuple)
_SETS = (list, tuple, set, frozenset, range)


class Spawn:
    """One that asks `theirs` for what is not plain, and for the errors of what is wrong; `tell` hears which way each
    start goes. No function, as that would be a method where a class has it, and theirs is none."""

    def __init__(self, theirs: "Callable[..., int]", search: bool, tell: "Callable[[Any, str], None]") -> None:
        functools.update_wrapper(self, theirs)
        self._theirs, self._search, self._tell = theirs, search, tell

    def __call__(self, path: Any, argv: Any, env: Any, /, **options: Any) -> int:
        more = sorted(options.keys() - _KNOWN)
        if more:
            self._tell(path, f"os: {', '.join(more)}")
            return self._theirs(path, argv, env, **options)
        with Attributes() as attributes, Actions() as actions:
            try:
                program, words, variables = os.fsencode(path), _words(argv), _variables(env)
                _ask(attributes, actions, **options)
            except (TypeError, ValueError, OSError, OverflowError):
                # What only os takes, or what os refuses by its own words.
                self._tell(path, "os: its arguments are not plain")
                return self._theirs(path, argv, env, **options)
            self._tell(path, "kumiki")
            sys.audit("os.posix_spawn", path, argv, env)
            try:
                return attributes.spawn(program, actions, words, variables, self._search)
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), path) from None


def _refuse_unless(fine: bool) -> None:
    if not fine:
        raise TypeError


def _bytes(text: Any) -> bytes:
    found = os.fsencode(text)
    _refuse_unless(0 not in found)
    return found


def _words(argv: Any) -> "list[bytes]":
    _refuse_unless(argv.__class__ in _LISTS and len(argv) > 0)
    words = [_bytes(word) for word in argv]
    _refuse_unless(words[0] != b"")
    return words


def _variables(env: Any) -> "list[bytes]":
    _refuse_unless(isinstance(env, (dict, os._Environ)))
    found = []
    for name, value in env.items():
        name = _bytes(name)
        _refuse_unless(name != b"" and b"=" not in name)
        found.append(name + b"=" + _bytes(value))
    return found


def _ask(
    attributes: Attributes,
    actions: Actions,
    file_actions: Any = (),
    setpgroup: Any = ...,
    resetids: Any = False,
    setsid: Any = False,
    setsigmask: Any = None,
    setsigdef: Any = None,
) -> None:
    _refuse_unless(file_actions.__class__ in _LISTS)
    for action in file_actions:
        _refuse_unless(action.__class__ is tuple)
        if len(action) == 5 and action[0] == os.POSIX_SPAWN_OPEN:
            actions.open(action[1], _bytes(action[2]), action[3], action[4])
        elif len(action) == 2 and action[0] == os.POSIX_SPAWN_CLOSE:
            actions.close(action[1])
        elif len(action) == 3 and action[0] == os.POSIX_SPAWN_DUP2:
            actions.dup2(action[1], action[2])
        else:
            _refuse_unless(False)
    if setpgroup is not ...:
        _refuse_unless(setpgroup.__class__ is int)
        attributes.process_group(setpgroup)
    for flag, asked in ((RESETIDS, resetids), (SETSID, setsid)):
        _refuse_unless(asked.__class__ is bool)
        attributes.flags |= flag * asked
    for ask, signals in ((attributes.signal_mask, setsigmask), (attributes.default_signals, setsigdef)):
        if signals is not None:
            _refuse_unless(signals.__class__ in _SETS)
            ask(signals)
