"""subprocess's functions, with our Popen."""

import subprocess
import types
from typing import Any, Callable

from ._popen import Popen

# The functions find Popen, and each other, among their globals. With others of these they
# are the same functions, whatever version of Python this is.
_globals: dict[str, Any] = dict(vars(subprocess), Popen=Popen)


# For help(), which shows subprocess's words and names.
_FURTHER = {
    False: """

    This is kumiki's: the child is made without a fork, and what kumiki.Popen takes beside subprocess's arguments
    can be said here, too: cgroup, limits, namespaces, uid_map, gid_map, nice, affinity, parent_death_signal,
    signal_mask, signal_default, signal_ignore, controlling_terminal, kill_tree, by_server. preexec_fn is refused.
    """,
    True: """

    This is kumiki's: the child is made without a fork.
    """,
}


def _ours(name: str) -> Callable[..., Any]:
    theirs = getattr(subprocess, name)
    ours = types.FunctionType(
        theirs.__code__, _globals, name, theirs.__defaults__, theirs.__closure__
    )
    ours.__kwdefaults__ = theirs.__kwdefaults__
    ours.__doc__ = (theirs.__doc__ or "").rstrip() + _FURTHER[name.startswith("get")]
    ours.__module__ = "kumiki"
    _globals[name] = ours
    return ours


run = _ours("run")
call = _ours("call")
check_call = _ours("check_call")
check_output = _ours("check_output")
getstatusoutput = _ours("getstatusoutput")
getoutput = _ours("getoutput")
