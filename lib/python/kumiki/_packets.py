"""What a program and its template say to each other: messages of a few bytes, what is long in memory that both see."""

import errno
import os
import pickle
import resource
import socket
from array import array
from typing import Any, Sequence

# To a template.
SETUP, START = b"s", b"f"
# Of it, and of the children.
READY, WRONG, BEGAN, RUNS, DONE, ENDED = b"r", b"w", b"b", b"o", b"d", b"e"

# The kernel's, of descriptors in one message.
MOST_DESCRIPTORS = 253


def pair() -> "tuple[socket.socket, socket.socket]":
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        # Whatever a program has set by socket.setdefaulttimeout().
        end.setblocking(True)
    return ends


def in_memory(content: bytes) -> int:
    """A descriptor of memory that holds this."""
    fd = os.memfd_create("kumiki", os.MFD_CLOEXEC)
    try:
        put(fd, content)
    except BaseException:
        os.close(fd)
        raise
    return fd


def mark(found: os.stat_result) -> "tuple[int, int]":
    """By which a change of a file is seen."""
    return found.st_mtime_ns, found.st_size


def put(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def of_memory(fd: int) -> bytes:
    """All that was written there, by whichever process."""
    size, found = os.fstat(fd).st_size, []
    at = 0
    while at < size:
        part = os.pread(fd, size - at, at)
        if not part:
            break
        found.append(part)
        at += len(part)
    return b"".join(found)


class NoDescriptors(OSError):
    """A message whose descriptors have no place here; head and the first of them are there."""

    def __init__(self, head: bytes, fds: "list[int]") -> None:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        text = (
            f"{os.strerror(errno.EMFILE)}: of a message's descriptors {len(fds)} have found a place; close some, or raise "
            f"RLIMIT_NOFILE, which is {most}"
        )
        super().__init__(errno.EMFILE, text)
        self.head, self.fds = head, fds


def send(to: socket.socket, kind: bytes, head: bytes = b"", fds: "Sequence[int]" = ()) -> None:
    socket.send_fds(to, [kind + head], list(fds))


def receive(of: socket.socket, flags: int = 0) -> "tuple[bytes, bytes, list[int]]":
    """Kind, head and descriptors, which no program that is executed gets; an empty kind at the end. socket.recv_fds
    does not hand its flags on."""
    fds = array("i")
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * fds.itemsize)
    try:
        data, messages, told, _ = of.recvmsg(4096, room, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # The other end was closed, and had not heard all.
        return b"", b"", []
    for level, kind, content in messages:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if told & socket.MSG_CTRUNC:
        raise NoDescriptors(data[1:], list(fds))
    return data[:1], data[1:], list(fds)


def outcome(call: Any) -> "tuple[bytes, BaseException | None]":
    """What a call gives or raises, pickled for another process; what it raised."""
    try:
        result, error = call(), None
        return pickle.dumps((True, result), pickle.HIGHEST_PROTOCOL), None
    except BaseException as raised:
        error = raised
    return failure(error), error


def failure(error: BaseException) -> bytes:
    from concurrent.futures import process

    _ExceptionWithTraceback: Any = process._ExceptionWithTraceback
    try:
        packed = pickle.dumps((False, _ExceptionWithTraceback(error, error.__traceback__)))
        # Some can be packed, and not unpacked.
        pickle.loads(packed)
    except Exception as why:
        text = f"{type(error).__name__}: {error} (which cannot be sent to another process: {why})"
        packed = pickle.dumps((False, _ExceptionWithTraceback(RuntimeError(text), error.__traceback__)))
    return packed


def tell(to: socket.socket, kind: bytes, error: BaseException) -> None:
    """Says what was raised: in memory, or where no descriptor is left for that, without its traceback in the message."""
    try:
        fd = in_memory(failure(error))
    except OSError:
        brief = OSError(getattr(error, "errno", None), f"{type(error).__name__}: {error}"[:1000])
        fd, head = -1, pickle.dumps((False, brief))
    else:
        head = b""
    try:
        send(to, kind, head, [fd] if fd >= 0 else [])
    except OSError:
        # Nobody wants to know.
        pass
    finally:
        if fd >= 0:
            os.close(fd)


def opened(packed: bytes) -> Any:
    """The result, or raises the exception."""
    good, value = pickle.loads(packed)
    if good:
        return value
    try:
        raise value
    finally:
        # A frame that an exception knows, and that knows the exception, is a cycle.
        del value
