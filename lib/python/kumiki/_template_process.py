"""The process that a template is: it imports, and makes a child of itself for each start."""

import contextlib
import functools
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from importlib.machinery import SourceFileLoader
from typing import Any, Sequence

from . import _packets, _template_child
from ._packets import BEGAN, READY, SETUP, START, WRONG


def main(fd: int) -> None:
    # A child's terminal sends it to all of the program's processes, and this one is nobody's to end by it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _hear_of_children()
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    kind, _, fds = _packets.receive(control)
    if kind != SETUP:
        return
    try:
        files = _set_up(pickle.loads(_packets.of_memory(fds[0])))
        os.close(fds[0])
        template = _Template(control)
        _answer(control, READY, pickle.dumps(files))
    except BaseException as error:
        _packets.tell(control, WRONG, error)
        _flush()
        # Python would wait for a thread of the set-up first.
        os._exit(1)
    template.serve()


def _hear_of_children() -> None:
    """Where this is ignored, as a program may have it, nobody hears how a child has ended."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _waited(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # A handler of the set-up has waited for it.
        return 255


def _answer(control: socket.socket, kind: bytes, content: bytes) -> None:
    fd = _packets.in_memory(content)
    try:
        _packets.send(control, kind, b"", [fd])
    except OSError:
        # Nobody wants to know, and soon that is heard.
        pass
    finally:
        os.close(fd)


def _set_up(asked: "dict[str, Any]") -> "dict[str, tuple[int, int]]":
    """Imports and sets up; the files of all modules as they were when they were read."""
    seen: "dict[str, tuple[int, int]]" = {}
    plain = SourceFileLoader.path_stats
    if asked["reload"]:
        SourceFileLoader.path_stats = functools.partialmethod(_path_stats, seen)  # type: ignore[assignment, method-assign]
        _see(seen, asked["prepare"].get("init_main_from_path"))
    try:
        return _set_up_seeing(asked, seen)
    finally:
        SourceFileLoader.path_stats = plain  # type: ignore[method-assign]


_plain_stats = SourceFileLoader.path_stats


def _path_stats(loader: SourceFileLoader, seen: "dict[str, tuple[int, int]]", path: str) -> Any:
    """Of a module's file, which is read after that: a change meanwhile is one."""
    _see(seen, path)
    return _plain_stats(loader, path)


def _see(seen: "dict[str, tuple[int, int]]", path: "str | None") -> None:
    try:
        if path is not None:
            seen[path] = _packets.mark(os.stat(path))
    except OSError:
        # Who imports it is told.
        pass


def _set_up_seeing(asked: "dict[str, Any]", seen: "dict[str, tuple[int, int]]") -> "dict[str, tuple[int, int]]":
    from multiprocessing import process, spawn

    here: Any = process.current_process()
    here._inheriting = True
    try:
        spawn.prepare(asked["prepare"])
    finally:
        del here._inheriting
    for name in asked["modules"]:
        importlib.import_module(name)
    setup = pickle.loads(asked["setup"])
    if setup is not None:
        setup()
    _hear_of_children()
    _flush()
    # What is here is not looked at again, which would copy it into each child.
    gc.collect()
    gc.freeze()
    # Libraries that know of forks end their threads at one, and start them when they need them.
    child = os.fork()
    if child == 0:
        os._exit(0)
    _waited(child)
    threads = _without_numexpr(1)
    try:
        _refuse_threads()
    finally:
        _without_numexpr(threads)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    if not asked["reload"]:
        return {}
    for file in files:
        if isinstance(file, str) and file not in seen:
            _see(seen, file)
    return {file: mark for file, mark in seen.items() if file in files}


def _without_numexpr(threads: int) -> int:
    """Has numexpr, which pandas imports, so many threads: how many it had. It sees by the process id that it is in a
    child, and begins others there, so its own are fine; but they are not known by a name. With 1 it has none."""
    numexpr = sys.modules.get("numexpr")
    set_threads = getattr(numexpr, "set_num_threads", None)
    return 1 if set_threads is None else set_threads(threads)


def _threads() -> "list[str]":
    own = threading.get_native_id()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = []
    for number in map(int, os.listdir("/proc/self/task")):
        if number != own:
            try:
                with open(f"/proc/self/task/{number}/comm") as file:
                    command = file.read().strip()
            except OSError:
                # It is ending.
                continue
            # kumiki.files' own know of forks: a child begins others when it needs them.
            if number in names or not (command.startswith("parasc-") and "kumiki._many" in sys.modules):
                found.append(names.get(number) or f"{command!r}, which is not Python's")
    return found


# A thread that was joined is seen for a moment; one that ends by itself, too.
_ENDING = 0.1


def _refuse_threads() -> None:
    """A child has none of them, and what they hold is held there for ever."""
    end = time.monotonic() + _ENDING
    while (found := _threads()) and time.monotonic() < end:
        time.sleep(_ENDING / 20)
    if found:
        from ._template import TemplateError

        raise TemplateError(
            f"the template has threads: {', '.join(sorted(found))}; a child made of it has none of them, and waits for "
            "ever for what they hold: start them in the function that a child runs"
        )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass


def _spare() -> int:
    return os.open("/", os.O_PATH | os.O_CLOEXEC)


class _Template:
    def __init__(self, control: socket.socket) -> None:
        self._control: "socket.socket | None" = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        # By pidfd: process id, and who is told of its end.
        self._children: "dict[int, tuple[int, socket.socket]]" = {}
        # Closed while a message comes: who has asked finds a place, and is told, also where no other is left.
        self._spare = _spare()

    def serve(self) -> None:
        """Until the program is gone, or does not want it any more, and each child has ended."""
        while self._control is not None or self._children:
            for fd, _ in self._poll.poll():
                if fd in self._children:
                    self._end(fd)
                elif self._control is not None and fd == self._control.fileno():
                    self._hear(self._control)

    def _hear(self, control: socket.socket) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        try:
            self._take(control)
        finally:
            with contextlib.suppress(OSError):
                # Of a start more are closed than stay open; it may be the system that has none.
                self._spare = _spare()

    def _take(self, control: socket.socket) -> None:
        try:
            kind, _, fds = _packets.receive(control)
        except _packets.NoDescriptors as error:
            self._refuse(error)
            return
        if kind != START:
            self._poll.unregister(control)
            control.close()
            self._control = None
            return
        report, payload, *given = fds
        told = socket.socket(fileno=report)
        try:
            self._start(payload, told, given)
        except OSError as error:
            _packets.tell(told, WRONG, error)
            told.close()
        finally:
            for fd in (payload, *given):
                os.close(fd)

    def _refuse(self, error: _packets.NoDescriptors) -> None:
        """Tells who has asked, if that has found a place, why there is no child."""
        if error.fds:
            with socket.socket(fileno=error.fds.pop(0)) as told:
                _packets.tell(told, WRONG, OSError(error.errno, f"{error.strerror} (in the template, process {os.getpid()})"))
        for fd in error.fds:
            os.close(fd)

    def _start(self, payload: int, report: socket.socket, given: "list[int]") -> None:
        _flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._forget()
                status = _template_child.run(payload, report, given)
            finally:
                os._exit(status)
        # Nobody else waits for it, so its number is its own.
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Nobody would hear how it ends: who has asked is told that there is none.
            os.kill(pid, signal.SIGKILL)
            _waited(pid)
            raise
        self._children[pidfd] = (pid, report)
        self._poll.register(pidfd, select.POLLIN)
        _told(report, BEGAN, b"%d" % pid, [pidfd])

    def _forget(self) -> None:
        """Closes in a child what is the template's."""
        if self._control is not None:
            self._control.close()
        for pidfd, (_, report) in self._children.items():
            os.close(pidfd)
            report.close()

    def _end(self, pidfd: int) -> None:
        pid, report = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _told(report, _packets.ENDED, b"%d" % _waited(pid))
        report.close()


def _told(report: socket.socket, kind: bytes, head: bytes, fds: "Sequence[int]" = ()) -> None:
    try:
        _packets.send(report, kind, head, fds)
    except OSError:
        # Nobody wants to know.
        pass
