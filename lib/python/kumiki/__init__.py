"""subprocess whose children are made without a fork.

>>> import kumiki
>>> kumiki.check_output(["echo", "hello"], nice=5, start_new_session=True)
b'hello\\n'

What a child costs does not grow with the memory of this program, also with a user, limits, a
cgroup or namespaces of its own, for which others need a fork.
"""

import os
from subprocess import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    SubprocessError,
    TimeoutExpired,
    list2cmdline,
)

from ._library import start_server
from ._popen import Popen
from ._template import Child, Template, TemplateError
from ._run import call, check_call, check_output, getoutput, getstatusoutput, run
from ._version import __version__

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "Child",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "Template",
    "TemplateError",
    "TimeoutExpired",
    "__version__",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "list2cmdline",
    "run",
    "start_server",
]

# Where a program imports kumiki anyway, and is not to be changed: as `python -m kumiki`.
if os.environ.get("KUMIKI_SUBPROCESS", "0") not in ("", "0"):
    from ._instead import put_in_place

    put_in_place(os.environ["KUMIKI_SUBPROCESS"] == "say")
