"""multiprocessing whose processes are forks of a template: they start as "fork"'s and hold as little as "spawn"'s.

>>> import multiprocessing, kumiki.mp
>>> context = multiprocessing.get_context("kumiki")
>>> context.get_start_method()
'kumiki'

Importing this module makes the start method "kumiki" known. Processes, pools, queues, managers and shared memory of
its context are multiprocessing's own, and ProcessPoolExecutor(mp_context=…) takes it. Processes start in one that has
imported the main module and what set_forkserver_preload() names, and nothing else of this program, as with
"forkserver"; its rules, those of "spawn", are these too: a main module has its `if __name__ == "__main__":`.
"""

import functools
import io
import os
import pickle
import sys
import threading
import traceback
from multiprocessing import connection, context, forkserver, popen_fork, popen_forkserver, process, reduction, spawn, util
from typing import Any

from . import _template_child
from ._template import Child, Template

# Of what no types are known to others.
_context: Any = context
_forkserver: Any = forkserver._forkserver
_util: Any = util

__all__ = ["KumikiContext", "KumikiProcess", "template"]


class _Attached:
    """The template of the process that has started this one."""

    def __init__(self, control: Any, pid: int) -> None:
        self._control, self.pid = control, pid
        self._lock = threading.Lock()

    def _await_newest(self) -> None:
        """It is ready, or this process would not be, and what has changed is its program's to notice."""

    def _how(self) -> str:
        return "nobody here knows how"


_lock = threading.Lock()
_current: "Template | _Attached | None" = None


def template() -> Template:
    """The template that processes are made of, which is made if there is none."""
    made = _made()
    if isinstance(made, _Attached):
        raise RuntimeError("this process was made of its parent's template, which is the parent's")
    return made


def _made() -> "Template | _Attached":
    global _current
    with _lock:
        if isinstance(_current, Template) and _current._process.poll() is not None:
            # It was killed, perhaps.
            _current.close()
            _current = None
        if _current is None:
            names = [name for name in _forkserver._preload_modules if name != "__main__"]
            _current = Template(setup=functools.partial(_preload, names))
        return _current


def _preload(names: "list[str]") -> None:
    """As a fork server does: what is not there is not there in the process either."""
    for name in names:
        try:
            __import__(name)
        except ImportError:
            pass


def _forget() -> None:
    """In a child of fork(2): the template is the parent's, and so is what it tells."""
    global _current, _lock
    _current, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


class _Worker(Child):
    """A child that is told by multiprocessing."""

    def __init__(self, of: Any, data: bytes, handed: "list[int]") -> None:
        self._handed = handed
        super().__init__(of, functools.partial(_main, data, of.pid), {})

    def __del__(self, *_: Any, **__: Any) -> None:
        # Nobody need wait for a process: as with multiprocessing's own.
        self._child_created = False
        super().__del__()


class Popen(popen_fork.Popen):
    """A process that is a fork of the template."""

    method = "kumiki"
    DupFd = popen_forkserver._DupFd

    def __init__(self, process_obj: Any) -> None:
        self._fds: "list[int]" = []
        super().__init__(process_obj)

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return len(self._fds) - 1

    def _launch(self, process_obj: Any) -> None:
        data = _preparation_data(process_obj._name)
        packed = io.BytesIO()
        _context.set_spawning_popen(self)
        try:
            reduction.dump(data, packed)
            reduction.dump(process_obj, packed)
        finally:
            _context.set_spawning_popen(None)
        of = _made()
        # What the process sees this one's end by.
        theirs, ours = os.pipe()
        try:
            with of._lock:
                of._await_newest()
                self._child = _Worker(of, packed.getvalue(), [of._control.fileno(), theirs, *self._fds])
            self._child._await_start()
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self.pid = self._child.pid
        self.sentinel = os.dup(self._child._pidfd)
        self.finalizer = util.Finalize(self, _util.close_fds, (ours, self.sentinel))

    def poll(self, flag: int = os.WNOHANG) -> "int | None":
        if self.returncode is None:
            if self._child._internal_poll() is None:
                if flag == os.WNOHANG and not connection.wait([self.sentinel], 0):
                    return None
                # It has ended, or is waited for; the template tells how.
                self._child.wait()
            self.returncode = self._child.returncode
            self._child._close()
        return self.returncode

    def _send_signal(self, sig: int) -> None:
        if self.returncode is None:
            self._child.send_signal(sig)


class KumikiProcess(process.BaseProcess):
    _start_method = "kumiki"

    @staticmethod
    def _Popen(process_obj: Any) -> Popen:
        return Popen(process_obj)


class KumikiContext(context.BaseContext):
    _name = "kumiki"
    Process = KumikiProcess


def _main(data: bytes, template_pid: int) -> None:
    """The life of a process, in a child of the template."""
    global _current
    import socket

    control, parent, *fds = _template_child.handed
    _forkserver._inherited_fds = fds
    _current = _Attached(socket.socket(fileno=control), template_pid)
    packed = io.BytesIO(data)
    here: Any = process.current_process()
    here._inheriting = True
    try:
        spawn.prepare(pickle.load(packed))
        itself = pickle.load(packed)
    except BaseException:
        # Nobody asks for the result of this; a process of "spawn" ends so, too.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    finally:
        del here._inheriting
    status = itself._bootstrap(parent)
    if sys.version_info >= (3, 13):
        # From then on functions of atexit are called in multiprocessing's processes, too.
        _template_child._finish()
    _template_child._end_multiprocessing()
    os._exit(status)


_preparation_data = spawn.get_preparation_data


def _without_start_method(name: str) -> "dict[str, Any]":
    """What a process of "spawn" or "forkserver" is told before it knows of this module, which it may never do. One of a
    context's sets its own method anyway."""
    data = _preparation_data(name)
    if data.get("start_method") == "kumiki":
        del data["start_method"]
    return data


spawn.get_preparation_data = _without_start_method
_context._concrete_contexts.setdefault("kumiki", KumikiContext())
