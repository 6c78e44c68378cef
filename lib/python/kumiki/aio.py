"""asyncio's subprocesses whose children are made without a fork.

>>> import asyncio, kumiki.aio
>>> async def main():
...     child = await kumiki.aio.create_subprocess_exec("echo", "hello", stdout=kumiki.PIPE)
...     return await child.communicate()
>>> asyncio.run(main())
(b'hello\\n', None)

Streams and protocols are asyncio's own. The child is made by kumiki.Popen, whose
arguments these functions take too, and its end is seen by a pidfd in the loop: no thread, no
SIGCHLD, no child watcher, and no matter which thread the loop runs in.

The functions of kumiki.files are here, too, to be awaited.
"""

import asyncio
import logging
import os
import threading
from asyncio.base_subprocess import (
    BaseSubprocessTransport,
    ReadSubprocessPipeProto,
    WriteSubprocessPipeProto,
)
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, SubprocessStreamProtocol
from typing import Any, Callable

from ._aio_files import (
    each,
    exists_many,
    read_many,
    rename_many,
    rmdir_many,
    stat_array,
    stat_many,
    unlink_many,
    walk,
    write_many,
)
from ._popen import Popen

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Process",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "each",
    "exists_many",
    "read_many",
    "rename_many",
    "rmdir_many",
    "stat_array",
    "stat_many",
    "subprocess_exec",
    "subprocess_shell",
    "unlink_many",
    "walk",
    "write_many",
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


class Process(asyncio.subprocess.Process):
    """asyncio's. Its communicate() may be cancelled, by a timeout say, and called again, as subprocess's may: what was
    read is kept, and what was to be written is written on."""

    def __init__(self, transport: Any, protocol: Any, loop: Any) -> None:
        super().__init__(transport, protocol, loop)
        self._read: "dict[int, list[bytes]]" = {1: [], 2: []}
        self._has_begun = False

    async def communicate(self, input: "bytes | bytearray | memoryview | None" = None) -> "tuple[Any, Any]":
        """All output, of each pipe that there is, after all of `input`; None of others."""
        if self._has_begun and input:
            raise ValueError("Cannot send input after starting communication")
        # Nothing more: what was to be written is written on, and then the pipe is closed.
        rest = b"" if self._has_begun and self.stdin is not None else input
        self._has_begun = True
        return await super().communicate(rest)

    async def _read_stream(self, fd: int) -> bytes:
        stream, read = (self.stdout, self.stderr)[fd - 1], self._read[fd]
        while part := await stream.read(_LIMIT):
            # Before anything else may be awaited.
            read.append(part)
        self._transport.get_pipe_transport(fd).close()
        return b"".join(read)


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
    transport = _Transport(loop, protocol, args, shell, *standard, 0, **named)
    try:
        await transport._connect()
    except BaseException:
        # Whoever is cancelled here has no transport by which to end the child.
        if transport._give_up():
            await transport._wait()
        raise
    return transport, protocol


class _Transport(BaseSubprocessTransport):
    """asyncio's, of a child of kumiki.Popen, which sees its end itself."""

    _pidfd = -1
    _is_refused = False

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

    async def _connect_pipes(self, waiter: Any) -> None:
        """Nothing: asyncio connects in a task of its own, and where that is cancelled, as the end of a loop
        does, nobody ever hears of it."""

    async def _connect(self) -> None:
        """Connects the child's pipes, all of them, and is cancelled only after that. It takes a few turns of the loop
        and waits for nobody; a pipe that is closed while it is being connected stays in the loop's selector."""
        loop, connected = self._loop, self._loop.create_future()
        _Steps(loop, self._each_pipe(), connected).go()
        cancelled = None
        while not connected.done():
            try:
                await asyncio.shield(connected)
            except asyncio.CancelledError as error:
                cancelled = error
            except BaseException:
                # Told below.
                pass
        error = connected.exception()
        if cancelled is not None or error is not None:
            raise cancelled or error

    async def _each_pipe(self) -> None:
        loop, proc = self._loop, self._proc
        if proc.stdin is not None:
            _, self._pipes[0] = await loop.connect_write_pipe(
                lambda: WriteSubprocessPipeProto(self, 0), proc.stdin
            )
        if proc.stdout is not None:
            _, self._pipes[1] = await loop.connect_read_pipe(
                lambda: ReadSubprocessPipeProto(self, 1), proc.stdout
            )
        if proc.stderr is not None:
            _, self._pipes[2] = await loop.connect_read_pipe(
                lambda: ReadSubprocessPipeProto(self, 2), proc.stderr
            )
        # The protocol hears of it before the caller does, and then of what has happened meanwhile.
        loop.call_soon(self._protocol.connection_made, self)
        calls, self._pending_calls = self._pending_calls, None
        for callback, data in calls:
            loop.call_soon(callback, *data)

    def _give_up(self) -> bool:
        """Ends a child whose start was given up: whether it ends soon."""
        if self._pending_calls is not None:
            # Not all pipes could be connected. The caller's protocol has heard of nothing, and never will.
            self._protocol, self._pending_calls = asyncio.SubprocessProtocol(), None
            for fd, file in enumerate((self._proc.stdin, self._proc.stdout, self._proc.stderr)):
                if file is not None and self._pipes.get(fd) is None:
                    file.close()
                    self._pipes.pop(fd, None)
        self.close()
        return not self._is_refused

    def close(self) -> None:
        """As asyncio's, also if the loop is closed, or the child may not be killed."""
        if self._closed:
            return
        self._closed = True
        for protocol in self._pipes.values():
            if protocol is None or protocol.pipe is None:
                continue
            try:
                protocol.pipe.close()
            except RuntimeError:
                # The loop is closed: what is left of the pipe closes it.
                pass
        if self._proc is None or self._returncode is not None or self._proc.poll() is not None:
            return
        try:
            self._proc.kill()
        except ProcessLookupError:
            pass
        except PermissionError:
            self._is_refused = True

    def kill(self) -> None:
        if self._proc is None or self._proc._tree is None:
            super().kill()
        else:
            self._proc.kill()

    def _forget(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _process_exited(self, returncode: int) -> None:
        super()._process_exited(returncode)
        # Its end is its end, also where somebody else has its pipes; asyncio waits for theirs, too.
        waiters, self._exit_waiters = self._exit_waiters or [], []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(returncode)

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
        try:
            super().__del__()
        finally:
            self._forget()
            proc = getattr(self, "_proc", None)
            if proc is not None and proc.returncode is None and not self._is_refused:
                # Its loop is closed, and it was killed just now.
                try:
                    threading.Thread(target=proc.wait, daemon=True).start()
                except RuntimeError:
                    # The program is ending.
                    pass


class _Steps:
    """A coroutine whose steps are callbacks of the loop, and no task's: nobody can cancel it half way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, steps: Any, ended: "asyncio.Future[None]") -> None:
        self._loop, self._steps, self._ended = loop, steps, ended

    def go(self, _: Any = None) -> None:
        try:
            awaited = self._steps.send(None)
        except StopIteration:
            # After what the last step has asked for.
            self._loop.call_soon(self._ended.set_result, None)
        except BaseException as error:
            self._ended.set_exception(error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        else:
            if awaited is None:
                self._loop.call_soon(self.go)
            else:
                # As a task says that it has seen what was awaited.
                awaited._asyncio_future_blocking = False
                awaited.add_done_callback(self.go)


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
