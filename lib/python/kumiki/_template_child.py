"""What a child of a template is before its function runs, and after it."""

import atexit
import contextlib
import ctypes
import errno
import fcntl
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import weakref
from multiprocessing import resource_tracker
from typing import Any

from . import _packets
from ._packets import DONE, RUNS, WRONG


# Of what no types are known to others.
_threading: Any = threading
# Descriptors that the child was handed besides, whatever their numbers are.
handed: "list[int]" = []
# What is the template's, and would do something at its end.
_kept: "list[Any]" = []


def run(payload: int, report: socket.socket, given: "list[int]") -> int:
    """The child's whole life after its fork; its exit status."""
    with contextlib.ExitStack() as stack:
        return _run(payload, report, given, stack)


def _run(payload: int, report: socket.socket, given: "list[int]", stack: contextlib.ExitStack) -> int:
    try:
        asked = pickle.loads(_packets.of_memory(payload))
        os.close(payload)
        report, passed = _lift(report, given, asked)
        stack.enter_context(report)
        result = _place(passed, asked)
        _become(asked)
        _renew(asked)
    except BaseException as error:
        _packets.tell(report, WRONG, error)
        return 255
    try:
        _packets.send(report, RUNS)
    except OSError:
        # Who has asked is gone.
        return 255
    packed, raised = _packets.outcome(lambda: _call(asked["call"]))
    status = _status(raised)
    problem = _finish()
    if raised is None and problem is not None:
        packed, status = _packets.failure(problem), 1
    instead = b""
    try:
        _packets.put(result, packed)
    except OSError as why:
        # Of a limit of files' sizes, which is one of this memory, too. Without a traceback it fits into a message.
        text = f"{why.strerror}: a result of {len(packed)} bytes; a limit of the size of files (RLIMIT_FSIZE) is one of results, too"
        instead, status = pickle.dumps((False, OSError(why.errno, text))), 1
    try:
        _packets.send(report, DONE, instead)
    except OSError:
        pass
    return status


def _call(packed: bytes) -> Any:
    function, arguments, named = pickle.loads(packed)
    return function(*arguments, **named)


def _status(error: "BaseException | None") -> int:
    """As Python's own when a script ends so."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _targets(asked: "dict[str, Any]") -> "list[int]":
    return [*asked["standard"], *asked["pass_fds"]]


def _lift(report: socket.socket, given: "list[int]", asked: "dict[str, Any]") -> "tuple[socket.socket, list[int]]":
    """Moves descriptors above the numbers that they are to have."""
    above = max([2, *_targets(asked), *given]) + 1

    def up(fd: int) -> int:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)

    told, *passed = map(up, (report.fileno(), *given))
    report.close()
    for fd in given:
        os.close(fd)
    return socket.socket(fileno=told), passed


def _place(lifted: "list[int]", asked: "dict[str, Any]") -> int:
    """Moves descriptors to their numbers: the standard ones, and those that were passed. The one of the result."""
    targets = _targets(asked)
    result, folder, tracker, *passed = lifted
    # The program's. One that the set-up has begun is the template's.
    resource_tracker._resource_tracker._fd, resource_tracker._resource_tracker._pid = tracker, None  # type: ignore[attr-defined]
    handed[:] = passed[len(targets) :]
    for number in asked["pass_fds"]:
        if number > 2 and os.path.lexists(f"/proc/self/fd/{number}"):
            has = os.readlink(f"/proc/self/fd/{number}")
            raise OSError(errno.EBUSY, f"pass_fds: the template's set-up has {has} open as descriptor {number}; pass another number")
    for number in set(range(3)) - set(asked["standard"]):
        # Closed where it is closed in the program that has asked.
        try:
            os.close(number)
        except OSError:
            pass
    for fd, number in zip(passed, targets):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.fchdir(folder)
    os.close(folder)
    return result


def _become(asked: "dict[str, Any]") -> None:
    """What kumiki.Popen has a child be, by the same names."""
    if asked["start_new_session"]:
        os.setsid()
    if asked["process_group"] >= 0:
        os.setpgid(0, asked["process_group"])
    if asked["cgroup"] is not None:
        with open(os.path.join(asked["cgroup"], "cgroup.procs"), "wb", buffering=0) as procs:
            procs.write(b"0")
    for which, limits in asked["limits"].items():
        resource.setrlimit(which, limits)
    if asked["namespaces"]:
        if ctypes.CDLL(None, use_errno=True).unshare(ctypes.c_int(asked["namespaces"])) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)}: its namespaces {asked['namespaces']:#x}")
    if asked["nice"] is not None:
        os.setpriority(os.PRIO_PROCESS, 0, asked["nice"])
    if asked["affinity"] is not None:
        os.sched_setaffinity(0, asked["affinity"])
    if asked["groups"] is not None:
        os.setgroups(asked["groups"])
    if asked["gid"] is not None:
        os.setresgid(*[asked["gid"]] * 3)
    if asked["uid"] is not None:
        os.setresuid(*[asked["uid"]] * 3)
    if asked["umask"] >= 0:
        os.umask(asked["umask"])
    if asked["cwd"] is not None:
        os.chdir(asked["cwd"])
    for name in os.environb.keys() - asked["env"].keys():
        del os.environb[name]
    for name, value in asked["env"].items():
        if os.environb.get(name) != value:
            os.environb[name] = value


def _renew(asked: "dict[str, Any]") -> None:
    """Makes this process one that has just begun, as far as Python knows."""
    signal.set_wakeup_fd(-1)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in asked["signal_default"]:
        signal.signal(number, signal.SIG_DFL)
    for number in asked["signal_ignore"]:
        signal.signal(number, signal.SIG_IGN)
    if asked["signal_mask"] is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, asked["signal_mask"])
    # They are the template's, which has not ended.
    atexit._clear()
    # So are those of objects; those of the child's are to be called.
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    if "logging" in sys.modules:
        atexit.register(sys.modules["logging"].shutdown)
    # Python's own generator knows of forks.
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=os.isatty(fd) or fd == 2)
    if "multiprocessing.process" in sys.modules:
        process, util = _multiprocessing()
        process._children = set()
        util._finalizer_registry.clear()
        util._run_after_forkers()
    if "asyncio" in sys.modules:
        import asyncio

        # A loop of the template's waits by descriptors that are the template's, too: it is not used, and not ended. As
        # at a beginning there is none, which is not the same as set_event_loop(None).
        policy = asyncio.events._event_loop_policy  # type: ignore[attr-defined]
        local = getattr(policy, "_local", None)
        if local is not None:
            _kept.append(local)
            policy._local = type(local)()


def _finish() -> "BaseException | None":
    """As at the end of a program: threads are waited for, atexit's functions are called, streams are flushed."""
    problem: "BaseException | None" = None
    for end in (_threading._shutdown, atexit._run_exitfuncs, _end_multiprocessing):
        try:
            end()
        except BaseException as error:
            problem = problem or error
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as error:
            problem = problem or error
    return problem


def _end_multiprocessing() -> None:
    if "multiprocessing.util" in sys.modules:
        _multiprocessing()[1]._exit_function()


def _multiprocessing() -> "tuple[Any, Any]":
    from multiprocessing import process, util

    return process, util
