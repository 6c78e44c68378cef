"""asyncio's subprocesses whose children are made without a fork.

>>> import asyncio, kumiki.aio
>>> async def main():
...     child = await kumiki.aio.create_subprocess_exec("echo", "hello", stdout=kumiki.PIPE)
...     return await child.communicate()
>>> asyncio.run(main())
(b'hello\\n', None)

Streams, protocols and processes are asyncio's own. The child is made by kumiki.Popen, whose
arguments these functions take too, and its end is seen by a pidfd in the loop: no thread, no
SIGCHLD, no child watcher, and no matter which thread the loop runs in.
"""

import asyncio
import logging
import os
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process, SubprocessStreamProtocol
from typing import Any, Callable

from ._popen import Popen

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Process",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "subprocess_exec",
    "subprocess_shell",
]

# asyncio's, of a stream's buffer.
_LIMIT = 2**16

# What asyncio refuses: streams are bytes, and have no buffer below asyncio's.
_FIXED = {
    "universal_newlines": False,
    "text": False,
    "bufsize": 0,
    "encoding": None,
    "errors": None,
}

_logger = logging.getLogger("asyncio")


async def create_subprocess_exec(
    program: Any,
    *args: Any,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    limit: int = _LIMIT,
    **named: Any,
) -> Process:
    """As that of asyncio, with the further arguments of kumiki.Popen."""
    loop = asyncio.get_running_loop()
    transport, protocol = await subprocess_exec(
        loop, lambda: SubprocessStreamProtocol(limit=limit, loop=loop), program, *args,
        stdin=stdin, stdout=stdout, stderr=stderr, **named,
    )  # fmt: skip
    return Process(transport, protocol, loop)


async def create_subprocess_shell(
    cmd: "str | bytes",
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    limit: int = _LIMIT,
    **named: Any,
) -> Process:
    """As that of asyncio, with the further arguments of kumiki.Popen."""
    loop = asyncio.get_running_loop()
    transport, protocol = await subprocess_shell(
        loop, lambda: SubprocessStreamProtocol(limit=limit, loop=loop), cmd,
        stdin=stdin, stdout=stdout, stderr=stderr, **named,
    )  # fmt: skip
    return Process(transport, protocol, loop)


async def subprocess_exec(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: "Callable[[], asyncio.SubprocessProtocol]",
    program: Any,
    *args: Any,
    shell: bool = False,
    **named: Any,
) -> "tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]":
    """As the loop's method of this name."""
    if shell:
        raise ValueError("shell must be False")
    return await _start(loop, protocol_factory, (program, *args), False, named)


async def subprocess_shell(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: "Callable[[], asyncio.SubprocessProtocol]",
    cmd: "str | bytes",
    *,
    shell: bool = True,
    **named: Any,
) -> "tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]":
    """As the loop's method of this name."""
    if not isinstance(cmd, (bytes, str)):
        raise ValueError("cmd must be a string")
    if not shell:
        raise ValueError("shell must be True")
    return await _start(loop, protocol_factory, cmd, True, named)


async def _start(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: "Callable[[], asyncio.SubprocessProtocol]",
    args: Any,
    shell: bool,
    named: "dict[str, Any]",
) -> "tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]":
    for name, only in _FIXED.items():
        if named.pop(name, only) not in (only, None):
            raise ValueError(f"{name} must be {only}")
    standard = [named.pop(name, PIPE) for name in ("stdin", "stdout", "stderr")]
    protocol = protocol_factory()
    waiter = loop.create_future()
    transport = _Transport(loop, protocol, args, shell, *standard, 0, waiter=waiter, **named)
    try:
        await waiter
    except BaseException:
        # Whoever is cancelled here has no transport by which to end the child.
        transport.close()
        await transport._wait()
        raise
    return transport, protocol


class _Transport(BaseSubprocessTransport):
    """asyncio's, of a child of kumiki.Popen, which sees its end itself."""

    _pidfd = -1

    def _start(
        self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **named: Any
    ) -> None:
        self._proc = Popen(
            args, shell=shell, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=bufsize, **named
        )
        try:
            self._pidfd = os.pidfd_open(self._proc.pid)
            self._loop.add_reader(self._pidfd, self._has_ended)
        except OSError:
            # A system call that is refused, no descriptor, or a loop that takes none.
            self._forget()
            threading.Thread(target=self._wait_for_it, args=(self._proc, self._loop), daemon=True).start()

    def _forget(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _has_ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._forget()
        # What has come through its pipes is handed on first.
        self._loop.call_soon(self._process_exited, _status(self._proc))

    def _wait_for_it(self, proc: Popen, loop: asyncio.AbstractEventLoop) -> None:
        try:
            os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass
        try:
            loop.call_soon_threadsafe(lambda: self._process_exited(_status(proc)))
        except RuntimeError:
            _logger.warning("Loop that handles pid %d is closed", proc.pid)

    def __del__(self) -> None:
        super().__del__()
        self._forget()


def _status(proc: Popen) -> int:
    """How a process has ended that has."""
    if proc.returncode is not None:
        return proc.returncode
    try:
        _, status = os.waitpid(proc.pid, 0)
    except ChildProcessError:
        # As asyncio does: somebody else has waited for it.
        _logger.warning("Unknown child process pid %d, will report returncode 255", proc.pid)
        return 255
    return os.waitstatus_to_exitcode(status)
