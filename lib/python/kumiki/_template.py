"""Warm workers: a process that has imported, and children that are forks of it."""

import fcntl
import functools
import logging
import os
import pickle
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
from typing import Any, Callable, Coroutine, Iterable, Mapping

from . import _forks, _packets
from ._packets import BEGAN, DONE, ENDED, READY, RUNS, SETUP, START, WRONG
from ._popen import Popen, _both

# What a child of a template cannot be: it is there when it is told, and another process's child.
_NOT_HERE = {
    "executable": "its program is Python",
    "shell": "its program is Python",
    "startupinfo": "it is Windows'",
    "uid_map": "a process of its own is needed to write it",
    "gid_map": "a process of its own is needed to write it",
    "parent_death_signal": "its parent is the template",
    "controlling_terminal": "a terminal has one session",
    "kill_tree": "the tree's cgroup is made with the process; give it a cgroup",
    "by_server": "the template makes it",
}
# Of these a process cannot become part: its next child would.
_FOR_CHILDREN = 0x2000_0000 | 0x1000_0000 | 0x0000_0080

# Of what no types are known to others.
_subprocess: Any = subprocess

_logger = logging.getLogger("kumiki")

#: What a template does where its program does not say: `python -m kumiki --reload`.
reloads = False


class TemplateError(RuntimeError):
    """A template that cannot make children, or a child that ended without a result."""


class Template:
    """A process that has imported modules, and of which each start is a fork.

    modules: names of modules to import.
    setup: a function, called after that: whatever takes long and does not depend on the work.
    env, cwd: its variables and working folder, this program's if nothing is said.
    reload: before each start look whether a file of its modules has changed, and begin anew if so; if nothing is said,
    as `python -m kumiki --reload` has it, and else not.

    It is a Python of its own, which has nothing of this program but the modules and the main module, which is imported
    there under the name __mp_main__, as multiprocessing's "spawn" does: a script needs its `if __name__ ==
    "__main__":`. A start costs what a fork of the template does, whatever this program's size.
    """

    def __init__(
        self,
        modules: "Iterable[str]" = (),
        setup: "Callable[[], Any] | None" = None,
        *,
        env: "Mapping[str, str] | None" = None,
        cwd: "str | os.PathLike[str] | None" = None,
        reload: "bool | None" = None,
    ) -> None:
        if isinstance(modules, str):
            raise TypeError(f"modules {modules!r}: one name, where many are taken; put it into a list")
        self.modules = tuple(modules)
        self._setup = pickle.dumps(setup)
        self._env, self._cwd, self._reload = env, cwd, reloads if reload is None else reload
        self._lock = threading.Lock()
        self._files: "dict[str, tuple[int, int] | None]" = {}
        self._is_closed = self._has_failed = self._is_lost = False
        self._begin()
        _forks.templates.add(self)

    def _begin(self) -> None:
        prepare = _preparation()
        if self._cwd is not None:
            # There it begins.
            prepare.pop("dir", None)
        asked = {
            "prepare": prepare,
            "reload": self._reload,
            "modules": self.modules,
            "setup": self._setup,
        }
        control, theirs = _packets.pair()
        folders = [os.path.abspath(folder) for folder in sys.path]
        line = f"import sys; sys.path[:] = {folders!r}; from kumiki._template_process import main; main({theirs.fileno()})"
        try:
            memory = _packets.in_memory(pickle.dumps(asked))
        except BaseException:
            control.close()
            theirs.close()
            raise
        try:
            with theirs:
                self._process = Popen(
                    [sys.executable, *_subprocess._args_from_interpreter_flags(), "-c", line],
                    pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=self._env, cwd=self._cwd,
                )  # fmt: skip
        except BaseException:
            control.close()
            os.close(memory)
            raise
        try:
            _packets.send(control, SETUP, b"", [memory])
        except OSError:
            # It has ended; who waits for it is told.
            pass
        finally:
            os.close(memory)
        self._control, self._is_ready, self._is_lost, self._ids = control, False, False, _ids()

    @property
    def pid(self) -> int:
        """The template's own process id."""
        return self._process.pid

    def ready(self) -> "Template":
        """Waits until it has imported and set up; raises what that raised. start() does so, too."""
        with self._lock:
            self._await_ready()
        return self

    def _await_ready(self) -> None:
        if self._is_ready:
            return
        if self._is_lost:
            raise TemplateError(
                f"the template (process {self.pid}) was not ready when this process was forked, and tells its parent: wait "
                "for it by ready() before the fork, or make one here"
            )
        try:
            kind, head, fds = _packets.receive(self._control)
        except _packets.NoDescriptors:
            # It has told, and says it once.
            self._is_closed = True
            self._process.kill()
            self._end()
            raise
        self._has_failed = kind != READY
        if kind not in (READY, WRONG):
            raise TemplateError(f"the template (process {self.pid}) has ended before it was ready: {self._how()}")
        # Without a descriptor what is wrong comes in the message.
        content = _packets.of_memory(fds[0]) if fds else head
        for fd in fds:
            os.close(fd)
        if kind == WRONG:
            self._process.wait()
            _packets.opened(content)
        else:
            self._files = pickle.loads(content)
            self._is_ready = True

    def _how(self) -> str:
        try:
            status = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "it has closed its socket, and runs"
        return f"by signal {-status}" if status < 0 else f"with status {status}"

    def start(self, function: "Callable[..., Any]", *args: Any, **options: Any) -> "Child":
        """A child that runs function(*args), as kumiki.Popen's by its attributes and methods, and with a result().

        Options are kumiki.Popen's: stdin, stdout, stderr, text and the like, env, cwd, pass_fds, user, group,
        extra_groups, umask, start_new_session, process_group, cgroup, limits, nice, affinity, signal_mask,
        signal_default, signal_ignore, and of namespaces mount, uts, ipc, net and cgroup. Arguments with names are
        functools.partial's.
        """
        child = self._started(function, args, options)
        child._await_start()
        return child

    def run(self, function: "Callable[..., Any]", *args: Any, timeout: "float | None" = None, **options: Any) -> Any:
        """What function(*args) returns or raises in a child, which is ended if that takes longer than `timeout`
        seconds (subprocess.TimeoutExpired)."""
        with self.start(function, *args, **options) as child:
            try:
                if child.stdin or child.stdout or child.stderr:
                    child.communicate(timeout=timeout)
                return child.result(timeout)
            except BaseException:
                child.kill()
                raise

    async def start_async(self, function: "Callable[..., Any]", *args: Any, **options: Any) -> "Child":
        """As start(). Who is cancelled leaves no child."""
        if not self._is_ready:
            import asyncio

            await asyncio.get_running_loop().run_in_executor(None, self.ready)
        child = self._started(function, args, options)
        # Told in milliseconds, and before that nobody knows which process is to be ended.
        try:
            await _to_its_end(child._hears(lambda: bool(child._runs and child.pid)))
            child._await_start()
        except BaseException:
            await child._end_async()
            raise
        return child

    async def run_async(
        self, function: "Callable[..., Any]", *args: Any, timeout: "float | None" = None, **options: Any
    ) -> Any:
        """As run(). Who is cancelled ends the child."""
        import asyncio

        for name in ("stdin", "stdout", "stderr"):
            if options.get(name) == subprocess.PIPE:
                raise ValueError(f"{name}: run_async() reads no pipe; start_async() gives a child that has one")
        child = await self.start_async(function, *args, **options)
        try:
            try:
                await asyncio.wait_for(child._hears(lambda: child._is_done), timeout)
            except asyncio.TimeoutError:
                raise subprocess.TimeoutExpired(child.args, timeout or 0) from None
            return child.result(0)
        finally:
            await child._end_async()

    def _started(self, function: Any, args: Any, options: "dict[str, Any]") -> "Child":
        with self._lock:
            if self._is_closed:
                raise TemplateError(f"the template (process {self.pid}) is closed")
            self._await_newest()
            if _ids() != self._ids:
                raise TemplateError(
                    f"the template (process {self.pid}) has the users and groups {self._ids}, and this program has "
                    f"{_ids()} by now: a child would be who this program no longer is; reload() the template"
                )
            return Child(self, functools.partial(function, *args), options)

    def reload(self) -> None:
        """Begins anew: imports and sets up again. Children that run are not touched."""
        with self._lock:
            self._anew()

    def _anew(self) -> None:
        self._end()
        self._has_failed = self._is_closed = False
        self._begin()

    def _await_newest(self) -> None:
        """Ready, with its code as it is by now if that is to be noticed."""
        if not self._reload:
            self._await_ready()
            return
        if self._has_failed:
            self._anew()
        self._await_ready()
        changed = [file for file, mark in zip(self._files, _marks(self._files)) if self._files[file] != mark]
        if changed:
            _logger.info("template %d begins anew: %s changed", self.pid, ", ".join(changed))
            self._anew()
            self._await_ready()

    def memory(self) -> "dict[str, int]":
        """Bytes of the template's memory: see Child.memory()."""
        return _memory(self.pid)

    def close(self) -> None:
        """Ends it. Children that run go on, and are known of until they end."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        self._control.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            # It has children; it ends after the last of them.
            _subprocess._active.append(self._process)
            self._process._child_created = False

    def __enter__(self) -> "Template":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        control, process = getattr(self, "_control", None), getattr(self, "_process", None)
        if control is not None and control.fileno() >= 0:
            control.close()
            if process is not None and process._internal_poll() is None:
                _subprocess._active.append(process)
                process._child_created = False

    def __repr__(self) -> str:
        return f"<kumiki.Template of {', '.join(self.modules) or 'no modules'}: process {self.pid}>"


class Child(Popen[Any]):
    """A child of a template: a kumiki.Popen whose program is a function."""

    # Descriptors that it is handed besides, whatever their numbers are there.
    _handed: "list[int]" = []

    def __init__(self, template: Any, call: "functools.partial[Any]", options: "dict[str, Any]") -> None:
        for name, why in _NOT_HERE.items():
            value = options.get(name)
            # Descriptor 0 is one.
            if value or value == 0 and value is not False:
                raise ValueError(f"{name} of a template's child: {why}")
        self._template = template
        self._call = pickle.dumps((call.func, call.args, call.keywords))
        self._report: "socket.socket | None" = None
        self._pidfd, self._memory = -1, -1
        self._runs = self._is_done = False
        self._wrong: "bytes | None" = None
        self._content: "bytes | None" = None
        self._hearing = threading.Lock()
        _forks.children.add(self)
        super().__init__([getattr(call.func, "__qualname__", repr(call.func))], **options)

    def _execute_child(  # type: ignore[no-untyped-def]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env,
        startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, process_group,
    ) -> None:  # fmt: skip
        """Has the template make the child."""
        if self._namespaces & _FOR_CHILDREN:
            raise ValueError("namespaces of a template's child: mount, uts, ipc, net and cgroup; others begin with a process")
        standard, fds = [], []
        for number, fd in enumerate((p2cread, c2pwrite, errwrite)):
            fd = number if fd == -1 else fd
            if _is_open(fd):
                standard.append(number)
                fds.append(fd)
        passed = sorted(set(map(int, pass_fds)))
        if gids is None and uid is not None and os.geteuid() == 0:
            # As subprocess, which leaves those of this program.
            gids = os.getgroups()
        asked = {
            "call": self._call,
            "standard": standard,
            "pass_fds": passed,
            "cwd": None if cwd is None else os.fspath(cwd),
            "env": dict(os.environb) if env is None else {os.fsencode(n): os.fsencode(v) for n, v in env.items()},
            "start_new_session": start_new_session,
            "process_group": process_group,
            "cgroup": _path(self._cgroup),
            "limits": {which: _both(limit) for which, limit in self._limits.items()},
            "namespaces": self._namespaces,
            "nice": self._nice,
            "affinity": self._affinity,
            "groups": gids,
            "gid": gid,
            "uid": uid,
            "umask": umask,
            "signal_mask": self._mask,
            "signal_default": self._default,
            "signal_ignore": self._ignored,
        }
        self._report, theirs = _packets.pair()
        folder = payload = -1
        try:
            self._memory = _packets.in_memory(b"")
            payload = _packets.in_memory(pickle.dumps(asked))
            folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            # First who is told why there is no child, where only one finds a place.
            given = [theirs.fileno(), payload, self._memory, folder, _tracker(), *fds, *passed, *self._handed]
            if len(given) > _packets.MOST_DESCRIPTORS:
                raise ValueError(f"pass_fds: {len(passed)} descriptors, and a template's child gets some 240 at most")
            _packets.send(self._template._control, START, b"", given)
        except (BrokenPipeError, ConnectionResetError) as error:
            self._close()
            raise TemplateError(f"the template (process {self._template.pid}) has ended: {self._template._how()}") from error
        except BaseException:
            self._close()
            raise
        finally:
            theirs.close()
            for fd in (folder, payload):
                if fd >= 0:
                    os.close(fd)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _hear(self) -> bool:
        """Takes a message, if one is there: whether there may be more."""
        with self._hearing:
            if self._report is None:
                return False
            try:
                kind, head, fds = _packets.receive(self._report, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except _packets.NoDescriptors as error:
                self._give_up(error)
                raise
            if kind == BEGAN:
                self.pid, self._pidfd = int(head), fds[0]
            elif kind == RUNS:
                self._runs = True
            elif kind == DONE:
                # What is not to be written into memory comes in the message.
                self._is_done, self._content = True, head or None
            elif kind == WRONG:
                self._wrong = _packets.of_memory(fds[0]) if fds else head
                for fd in fds:
                    os.close(fd)
            elif kind == ENDED:
                self.returncode = int(head)
                self._lose()
            else:
                # The template is gone, and with it who knows how the child ends.
                if self.pid:
                    warnings.warn(f"template of child {self.pid} has ended: returncode 255 stands for any", RuntimeWarning)
                self.returncode = 255
                self._lose()
            return self._report is not None

    def _give_up(self, error: "_packets.NoDescriptors") -> None:
        """Ends a child that cannot be told of: nobody could end it later."""
        # Room for one.
        os.close(self._memory)
        self._memory = -1
        self._lose()
        try:
            pidfd = os.pidfd_open(int(error.head))
        except (OSError, ValueError):
            return
        try:
            # Its number may be another's by now.
            if _parent(int(error.head)) == self._template.pid:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os.close(pidfd)

    def _lose(self) -> None:
        if self._report is not None:
            self._report.close()
            self._report = None

    def _hear_until(self, heard: "Callable[[], bool]", timeout: "float | None" = None) -> bool:
        """Waits until this is true, or nothing is to be heard any more; False if that takes too long."""
        end = None if timeout is None else time.monotonic() + timeout
        while not heard() and self.returncode is None:
            report = self._report
            if report is None:
                break
            poll = select.poll()
            try:
                poll.register(report, select.POLLIN)
            except ValueError:
                # Another thread has heard the last of it.
                continue
            left = None if end is None else max(0.0, 1000 * (end - time.monotonic()))
            if poll.poll(left):
                self._hear()
            elif left == 0:
                return heard()
        return True

    async def _hears(self, heard: "Callable[[], bool]") -> None:
        """As _hear_until, in a loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        while not heard() and self.returncode is None and self._wrong is None and self._report is not None:
            # By a number of its own: others may wait, too.
            fd = os.dup(self._report.fileno())
            readable = loop.create_future()
            loop.add_reader(fd, _told, readable)
            try:
                if not self._hear():
                    await readable
            finally:
                loop.remove_reader(fd)
                os.close(fd)

    async def _end_async(self) -> None:
        """Ends it unless its function has returned, and waits for its end, also if the caller is cancelled."""
        if not self._is_done:
            self.kill()
        try:
            await _to_its_end(self._hears(lambda: False))
        finally:
            self._close()

    def _await_start(self) -> None:
        try:
            self._hear_until(lambda: self._runs and bool(self.pid) or self._wrong is not None)
            if self._runs and self._wrong is None:
                return
            self._hear_until(lambda: False)
            if self._wrong is None and self.pid:
                raise TemplateError(f"the child {self._name()} (process {self.pid}) has ended {self._ended()}, before its function began")
            if self._wrong is None:
                raise TemplateError(f"the template (process {self._template.pid}) has made no child: {self._template._how()}")
            _packets.opened(self._wrong)
        except BaseException:
            if self.pid:
                self.kill()
            self._close()
            raise

    def _close(self) -> None:
        """Closes what is this program's."""
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        self._child_created = False
        self._lose()
        for name in ("_pidfd", "_memory"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)

    def result(self, timeout: "float | None" = None) -> Any:
        """What the function has returned, or raises what it raised, with its traceback; subprocess.TimeoutExpired
        after so many seconds, TemplateError of a child that ended without either."""
        if not self._hear_until(lambda: self._is_done, timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        content = self._result()
        if not content:
            raise TemplateError(f"the child {self._name()} (process {self.pid}) has ended {self._ended()}, without a result")
        return _packets.opened(content)

    def _name(self) -> str:
        return str(self.args[0])  # type: ignore[index]

    def _ended(self) -> str:
        return f"by signal {-self.returncode}" if (self.returncode or 0) < 0 else f"with status {self.returncode}"

    def _result(self) -> bytes:
        if self._content is None and self._is_done and self._memory >= 0:
            self._content = _packets.of_memory(self._memory)
        return self._content or b""

    async def result_async(self) -> Any:
        """As result()."""
        await self._hears(lambda: self._is_done)
        return self.result(0)

    async def wait_async(self) -> int:
        """As wait()."""
        await self._hears(lambda: False)
        return self.wait(0)

    def _internal_poll(self, _deadstate: Any = None, *_: Any) -> "int | None":
        while self.returncode is None and self._hear():
            pass
        if self.returncode is None and self._report is None and self._has_ended():
            # What it ended with is told to the process that this one is a fork of.
            self.returncode = 255
        return self.returncode

    def _has_ended(self) -> bool:
        return self._pidfd < 0 or bool(select.select([self._pidfd], [], [], 0)[0])

    def _wait(self, timeout: "float | None") -> int:
        if not self._hear_until(lambda: False, timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode if self.returncode is not None else 255

    def send_signal(self, sig: int) -> None:
        """Sends it, and never to another process that has its number."""
        self.poll()
        if self.returncode is None and self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, sig)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def memory(self) -> "dict[str, int]":
        """Bytes of its memory, as the kernel tells: "rss" in all, "pss" its part of what it shares, "shared" what others
        have, too, as the template, and "private"."""
        return _memory(self.pid)

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        # It may be asked for after that, too.
        self._result()
        self._close()

    def __del__(self, *arguments: Any, **named: Any) -> None:
        if getattr(self, "_report", None) is not None:
            self._internal_poll()
        if self.__dict__.get("_child_created") and self.returncode is None:
            warnings.warn(f"child {self.pid} of a template is still running", ResourceWarning, source=self)
        self._child_created = False
        if "_memory" in self.__dict__:
            # Files of a child that nobody has closed are Python's to warn of.
            self.stdin = self.stdout = self.stderr = None
            self._close()


def _tracker() -> int:
    """Of this program's process that unlinks what nobody else has: a child that had its own would unlink this
    program's memory at its end."""
    from multiprocessing import resource_tracker

    fd = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]
    # To ask whether it lives wakes it.
    if fd is None:
        fd = resource_tracker.getfd()
    return int(fd)


def _told(readable: Any) -> None:
    if not readable.done():
        readable.set_result(None)


def _ids() -> "tuple[Any, ...]":
    """Who this program is, and a child of a template that it has made."""
    return os.getresuid(), os.getresgid(), sorted(os.getgroups())


async def _to_its_end(work: "Coroutine[Any, Any, None]") -> None:
    """Awaits what ends soon, and is cancelled only after that."""
    import asyncio

    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _preparation() -> "dict[str, Any]":
    """What a process needs to unpickle what this one has, and no key by which it would be one of multiprocessing's."""
    from multiprocessing import spawn

    # Refuses to go on where the main module is being imported: a script without its `if __name__ == "__main__":`.
    data = dict(spawn.get_preparation_data("template"))
    for name in ("log_to_stderr", "authkey", "start_method", "log_level"):
        data.pop(name, None)
    return data


def _marks(files: "Iterable[str]") -> "list[tuple[int, int] | None]":
    """By which a change of a file is seen."""
    from . import files as many

    found = many.stat_many(list(files))
    return [_packets.mark(it) if isinstance(it, os.stat_result) else None for it in found]


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _path(cgroup: Any) -> "str | bytes | None":
    """Of a cgroup's folder, which may have been given as a descriptor."""
    if isinstance(cgroup, int):
        if not stat.S_ISDIR(os.fstat(cgroup).st_mode):
            raise NotADirectoryError(20, os.strerror(20), cgroup)
        return os.readlink(f"/proc/self/fd/{cgroup}")
    return None if cgroup is None else os.path.abspath(os.fspath(cgroup))


def _memory(pid: int) -> "dict[str, int]":
    found = {"rss": 0, "pss": 0, "shared": 0, "private": 0}
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            part = name.partition("_")[0].lower()
            if name in ("Rss", "Pss") or name in ("Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty"):
                found[part] += 1024 * int(rest.split()[0])
    return found
