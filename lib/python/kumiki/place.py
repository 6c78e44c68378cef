"""Resources of other processes, OS nodes and machines, called by their names.

    with kumiki.place.Places() as places:                   # this user's, on this machine
        places.create("web.core1/counter/hits", 40)
        places.call("web.core1/counter/hits", "add", 2)     # 42
        call = places.start("web.core1/counter/hits", "get")
        ...
        call.wait()
        add = places.bind("web.core1/counter/hits", "add")  # looked up once
        add(1)                                              # 43

`Places("nats://127.0.0.1")` has those behind a NATS server. What program parts take and give is what JSON can
say. Each call runs once, or raises Gone, NotSent or Refused, and has not; or Unknown, and nobody knows. It needs
libkumiki-places, a library of its own (<kumiki/places.h> has its reference).
"""

import asyncio
import ctypes
import errno
import json
import os
import pathlib
import select
import threading
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from typing import Any, AsyncIterator, Callable, Iterator, TypeVar

__all__ = ["Bound", "Call", "Gone", "NotSent", "PlaceError", "Places", "Refused", "Unknown", "Watch"]


class PlaceError(OSError):
    """What was asked of a place has failed; its errno says how."""


class Gone(PlaceError):
    """Nobody answers at the place: it has not run."""


class NotSent(PlaceError):
    """There was no connection, or it was a question that has no answer: it has not run."""


class Refused(PlaceError):
    """The place has refused it."""


class Unknown(PlaceError):
    """It was sent, and nobody knows whether it has run."""


_KINDS: dict[int, type[PlaceError]] = {
    errno.ESRCH: Gone,
    errno.ENOTCONN: NotSent,
    errno.ECONNABORTED: Unknown,
    errno.ECANCELED: Unknown,
    **dict.fromkeys(
        (errno.EACCES, errno.ENOENT, errno.EEXIST, errno.ESTALE, errno.EAGAIN, errno.EREMOTEIO),
        Refused,
    ),
}


def _load() -> ctypes.CDLL:
    own = pathlib.Path(__file__).with_name("libkumiki-places.so")
    path = os.environ.get("KUMIKI_PLACES_LIBRARY")
    path = path or (str(own) if own.exists() else "libkumiki-places.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"kumiki.place needs libkumiki-places: {error}; install it (Debian: libkumiki-places0), or name it by "
            "KUMIKI_PLACES_LIBRARY"
        ) from error
    shapes = {
        "open": (c_int, POINTER(c_void_p), c_char_p, c_char_p),
        "close": (None, c_void_p),
        "start_create": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_call": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_destroy": (c_int, c_void_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_ls": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_places": (c_int, c_void_p, c_uint64, POINTER(c_void_p)),
        "bind": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_bound": (c_int, c_void_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "bound_end": (None, c_void_p),
        "call_fd": (c_int, c_void_p),
        "call_wait": (c_int, c_void_p, c_int64, POINTER(c_void_p)),
        "call_end": (c_int, c_void_p),
        "watch": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "watch_fd": (c_int, c_void_p),
        "watch_next": (c_int, c_void_p, c_int64, POINTER(c_void_p)),
        "watch_end": (None, c_void_p),
        "free": (None, c_void_p),
        "last_error": (c_char_p,),
    }
    for name, (result, *arguments) in shapes.items():
        function = getattr(library, "kumiki_places_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _call(name: str, *arguments: Any) -> int:
    """Calls a function of the library; its error is raised."""
    result = getattr(_library, "kumiki_places_" + name)(*arguments)
    if result < 0:
        text = _library.kumiki_places_last_error().decode("utf-8", "replace")
        if result == -errno.ETIMEDOUT:
            raise TimeoutError(errno.ETIMEDOUT, text)
        if result == -errno.EINVAL:
            raise ValueError(text)
        raise _KINDS.get(-result, PlaceError)(-result, text)
    return int(result)


def _text(text: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{text!r} has a zero in it")
    return encoded


def _ms(timeout: float | None) -> int:
    """For how long a call is tried: 0 is the library's own limit."""
    if timeout is None:
        return 0
    if timeout != timeout:
        raise ValueError("timeout is not a number")
    # Longer than anybody waits, and as much as the library takes.
    return round(min(max(timeout * 1000, 1), 1 << 62))


# For how many milliseconds at most a wait does not look: nothing is awaited for ever that cannot come.
_SLICE = 10_000
# What has rung its descriptor is there within this, in milliseconds.
_SOON = 1000


def _taken(name: str, of: c_void_p, limit_ms: int) -> Any:
    given = c_void_p()
    _call(name, of, limit_ms, byref(given))
    try:
        return json.loads(ctypes.string_at(given.value or 0))
    finally:
        _library.kumiki_places_free(given)


def _awaited(name: str, of: c_void_p, fd: int, timeout: float | None) -> Any:
    """As _taken, once the descriptor is readable. It is poll(2) of Python's that waits: a signal's handler, as that
    of Ctrl-C, runs at once, and its exception ends the wait. C's functions know nothing of handlers in Python."""
    end = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        left = _SLICE if end is None else min(_SLICE, max(0.0, end - time.monotonic()) * 1000)
        is_rung = poll.poll(left)
        try:
            return _taken(name, of, 0)
        except TimeoutError:
            # Somebody else has taken it, or its last step is under way.
            if end is not None and time.monotonic() >= end:
                raise
            if is_rung:
                time.sleep(0.001)


def _beside(work: "Callable[[], Any]", undo: "Callable[[Any], None]") -> Any:
    """What `work` gives, which waits in C, by a thread of its own: a signal's handler runs meanwhile, and if that
    raises, `undo` has what comes later."""
    lock, ended = threading.Lock(), threading.Event()
    outcome: list[Any] = []
    given_up = False

    def run() -> None:
        try:
            made: tuple[Any, BaseException | None] = (work(), None)
        except BaseException as error:
            made = (None, error)
        with lock:
            outcome.append(made)
            if given_up and made[1] is None:
                undo(made[0])
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        with lock:
            given_up = True
            if outcome and outcome[0][1] is None:
                undo(outcome[0][0])
        raise
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


async def _readable(fd: int) -> None:
    """Waits in asyncio until the descriptor is readable."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


class Call:
    """Something that was asked of a place, and may be under way. It can be awaited in asyncio, too."""

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer

    def wait(self, timeout: float | None = None) -> Any:
        """What it gives; TimeoutError if it is still under way after `timeout` seconds."""
        if not self._pointer:
            raise ValueError("the call was given up")
        return _awaited("call_wait", self._pointer, self.fileno(), timeout)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        try:
            self.wait(0)
        except TimeoutError:
            return False
        except (OSError, ValueError):
            pass
        return True

    def fileno(self) -> int:
        """A descriptor that is readable once it has ended."""
        return _call("call_fd", self._pointer)

    def cancel(self) -> bool:
        """Gives it up: True if it was under way, and then nobody knows whether it has run."""
        pointer, self._pointer = self._pointer, c_void_p()
        try:
            _call("call_end", pointer)
        except Unknown:
            return True
        return False

    def __await__(self) -> Any:
        return self._ended().__await__()

    async def _ended(self) -> Any:
        try:
            await _readable(self.fileno())
        except asyncio.CancelledError:
            self.cancel()
            raise
        return _taken("call_wait", self._pointer, _SOON)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.cancel()


_SomeHeld = TypeVar("_SomeHeld", bound="_Held")


class _Held:
    """Something of the library's, until it is closed: at the end of its `with`, or when nobody has it any more."""

    _end: str

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer

    def close(self) -> None:
        """Gives it up."""
        pointer, self._pointer = self._pointer, c_void_p()
        getattr(_library, self._end)(pointer)

    def __enter__(self: _SomeHeld) -> _SomeHeld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()


class Bound(_Held):
    """A program part of one resource, bound once: each call is one request, without a look at its name.

    If the resource has been destroyed or its place started anew, a call raises Refused, once, and has not run; the next
    one binds anew, to what has the name then. Closed, calls that were started go on.
    """

    _end = "kumiki_places_bound_end"

    def __call__(self, value: Any = None, timeout: float | None = None) -> Any:
        """Calls it, and gives what it gives."""
        return self.start(value, timeout).wait()

    def start(self, value: Any = None, timeout: float | None = None) -> Call:
        """Starts a call of it."""
        if not self._pointer:
            raise ValueError("what was bound was closed")
        call = c_void_p()
        _call("start_bound", self._pointer, json.dumps(value).encode(), _ms(timeout), byref(call))
        return Call(call)


class Watch(_Held):
    """News of a place: dictionaries whose "news" is here, created, destroyed, missed, gone or unheard.

    `for` and `async for` wait for the next ones.
    """

    _end = "kumiki_places_watch_end"

    def next(self, timeout: float | None = None) -> dict[str, Any]:
        """The next one; TimeoutError if there is none within `timeout` seconds."""
        if not self._pointer:
            raise ValueError("the watch has ended")
        news: dict[str, Any] = _awaited("watch_next", self._pointer, self.fileno(), timeout)
        return news

    def fileno(self) -> int:
        """A descriptor that is readable while there are news."""
        return _call("watch_fd", self._pointer)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self.next()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            try:
                yield self.next(0)
            except TimeoutError:
                await _readable(self.fileno())


class Places(_Held):
    """This user's places on this machine, or those behind a NATS server.

    Who asks a server stands in its URL (USER:PASSWORD@, TOKEN@), in `credentials`, a file, or in the environment, as
    NATS' own tools have it (NATS_CREDS, NATS_NKEY, NATS_USER and so on).

    A `timeout` is for how many seconds a call is tried: ten, if nothing is said. It is not to be used in a child of
    os.fork(). Closed, it ends its connections once its calls and watches have ended.
    """

    _end = "kumiki_places_close"

    def __init__(self, nats: str | None = None, credentials: str | os.PathLike[str] | None = None) -> None:
        super().__init__(c_void_p())
        url = None if nats is None else _text(nats)
        file = None if credentials is None else _text(credentials)

        def opened() -> c_void_p:
            pointer = c_void_p()
            _call("open", byref(pointer), url, file)
            return pointer

        self._pointer = _beside(opened, _library.kumiki_places_close)

    def create(self, name: str, wishes: Any = None, timeout: float | None = None) -> str:
        """Makes the resource "place/kind/unique", and gives its id."""
        return str(self.start_create(name, wishes, timeout).wait())

    def call(self, name: str, part: str, value: Any = None, timeout: float | None = None) -> Any:
        """Calls a program part of a resource, and gives what it gives."""
        return self.start(name, part, value, timeout).wait()

    def destroy(self, name: str, timeout: float | None = None) -> None:
        """Destroys a resource."""
        self._start("start_destroy", _text(name), _ms(timeout)).wait()

    def ls(self, place: str, pattern: str = "**", timeout: float | None = None) -> list[dict[str, Any]]:
        """A place's resources whose names match."""
        return list(self._start("start_ls", _text(place), _text(pattern), _ms(timeout)).wait())

    def places(self, timeout: float | None = None) -> list[str]:
        """The places that answer."""
        return list(self._start("start_places", _ms(timeout)).wait())

    def start_create(self, name: str, wishes: Any = None, timeout: float | None = None) -> Call:
        """Starts to make a resource."""
        return self._start("start_create", _text(name), json.dumps(wishes).encode(), _ms(timeout))

    def start(self, name: str, part: str, value: Any = None, timeout: float | None = None) -> Call:
        """Starts a call of a program part."""
        return self._start("start_call", _text(name), _text(part), json.dumps(value).encode(), _ms(timeout))

    def bind(self, name: str, part: str, timeout: float | None = None) -> Bound:
        """Binds a program part of a resource."""
        names, limit = (_text(name), _text(part)), _ms(timeout)

        def bound() -> c_void_p:
            made = c_void_p()
            _call("bind", self._pointer, *names, limit, byref(made))
            return made

        return Bound(_beside(bound, _library.kumiki_places_bound_end))

    def watch(self, place: str, pattern: str = "**", timeout: float | None = None) -> Watch:
        """Watches names of a place, and the place itself, from now on."""
        names, limit = (_text(place), _text(pattern)), _ms(timeout)

        def watched() -> c_void_p:
            watch = c_void_p()
            _call("watch", self._pointer, *names, limit, byref(watch))
            return watch

        return Watch(_beside(watched, _library.kumiki_places_watch_end))

    def _start(self, name: str, *arguments: Any) -> Call:
        call = c_void_p()
        _call(name, self._pointer, *arguments, byref(call))
        return Call(call)
