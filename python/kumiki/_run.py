"""subprocess's functions, with our Popen."""

import subprocess
import types
from typing import Any, Callable

from ._popen import Popen

# The functions find Popen, and each other, among their globals. With others of these they
# are the same functions, whatever version of Python this is.
_globals: dict[str, Any] = dict(vars(subprocess), Popen=Popen)


def _ours(name: str) -> Callable[..., Any]:
    theirs = getattr(subprocess, name)
    ours = types.FunctionType(
        theirs.__code__, _globals, name, theirs.__defaults__, theirs.__closure__
    )
    ours.__kwdefaults__ = theirs.__kwdefaults__
    ours.__doc__ = theirs.__doc__
    ours.__module__ = "kumiki"
    _globals[name] = ours
    return ours


run = _ours("run")
call = _ours("call")
check_call = _ours("check_call")
check_output = _ours("check_output")
getstatusoutput = _ours("getstatusoutput")
getoutput = _ours("getoutput")
