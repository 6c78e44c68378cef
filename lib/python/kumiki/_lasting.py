"""A parent that lasts: the kernel ends a child by its parent-death signal when the *thread* ends
whose child it is, not the program."""

import _thread
import errno
import os
import queue
import threading
from typing import Callable


def lasting(start: "Callable[[], int]") -> int:
    """What starts a child, called by a thread that ends when the child has ended, or with the
    program; the child's process id.

    The main thread is one. Any other makes one for this child alone: so it has from the calling
    thread all that the child inherits, users, filters of system calls and rules too.
    """
    if threading.get_native_id() == os.getpid():
        return start()
    made: "queue.SimpleQueue[tuple[int, BaseException | None]]" = queue.SimpleQueue()

    def parent() -> None:
        try:
            pid = start()
        except BaseException as error:
            made.put((-1, error))
            return
        made.put((pid, None))
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            # Somebody has waited for it.
            pass

    try:
        _thread.start_new_thread(parent, ())
    except RuntimeError as error:
        text = f"{os.strerror(errno.EAGAIN)}: a thread whose child has a parent-death signal"
        raise BlockingIOError(errno.EAGAIN, text) from error
    pid, why = made.get()
    if why is not None:
        raise why
    return pid
