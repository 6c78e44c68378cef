"""Resources of other processes, OS nodes and machines, called by their names.

    with kumiki.place.Places() as places:                   # this user's, on this machine
        places.create("web.core1/counter/hits", 40)
        places.call("web.core1/counter/hits", "add", 2)     # 42
        call = places.start("web.core1/counter/hits", "get")
        ...
        call.wait()

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
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from typing import Any, Iterator

__all__ = ["Call", "Gone", "NotSent", "PlaceError", "Places", "Refused", "Unknown", "Watch"]


class PlaceError(OSError):
    """What was asked of a place has failed; its errno says how."""


class Gone(PlaceError):
    """Nobody answers at the place: it has not run."""


class NotSent(PlaceError):
    """There was no connection: it has not run."""


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
            f"kumiki.place needs libkumiki-places: {error}; install it, or name it by KUMIKI_PLACES_LIBRARY"
        ) from error
    shapes = {
        "open": (c_int, POINTER(c_void_p), c_char_p, c_char_p),
        "close": (None, c_void_p),
        "start_create": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_call": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_destroy": (c_int, c_void_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_ls": (c_int, c_void_p, c_char_p, c_char_p, c_uint64, POINTER(c_void_p)),
        "start_places": (c_int, c_void_p, c_uint64, POINTER(c_void_p)),
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
    return result


def _text(text: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{text!r} has a zero in it")
    return encoded


def _ms(timeout: float | None) -> int:
    """For how long a call is tried: 0 is the library's own limit."""
    return 0 if timeout is None else max(1, round(timeout * 1000))


def _limit(timeout: float | None) -> int:
    """For how long is waited: without limit if negative."""
    return -1 if timeout is None else max(0, round(timeout * 1000))


def _taken(name: str, of: c_void_p, timeout: float | None) -> Any:
    given = c_void_p()
    _call(name, of, _limit(timeout), byref(given))
    try:
        return json.loads(ctypes.string_at(given.value or 0))
    finally:
        _library.kumiki_places_free(given)


class Call:
    """Something that was asked of a place, and may be under way. It can be awaited in asyncio, too."""

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer

    def wait(self, timeout: float | None = None) -> Any:
        """What it gives; TimeoutError if it is still under way after `timeout` seconds."""
        if not self._pointer:
            raise ValueError("the call was given up")
        return _taken("call_wait", self._pointer, timeout)

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
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        fd = self.fileno()
        loop.add_reader(fd, ended.set)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            loop.remove_reader(fd)
            self.cancel()
            raise
        loop.remove_reader(fd)
        return self.wait(0)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.cancel()


class Watch:
    """News of a place: dictionaries whose "news" is here, created, destroyed, missed, gone or unheard."""

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer

    def next(self, timeout: float | None = None) -> dict[str, Any]:
        """The next one; TimeoutError if there is none within `timeout` seconds."""
        if not self._pointer:
            raise ValueError("the watch has ended")
        return _taken("watch_next", self._pointer, timeout)

    def fileno(self) -> int:
        """A descriptor that is readable while there are news."""
        return _call("watch_fd", self._pointer)

    def close(self) -> None:
        pointer, self._pointer = self._pointer, c_void_p()
        _library.kumiki_places_watch_end(pointer)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self.next()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()


class Places:
    """This user's places on this machine, or those behind a NATS server.

    A `timeout` is for how many seconds a call is tried: ten, if nothing is said. It is not to be used in a child of
    os.fork().
    """

    def __init__(self, nats: str | None = None, credentials: str | os.PathLike[str] | None = None) -> None:
        self._pointer = c_void_p()
        url = None if nats is None else _text(nats)
        file = None if credentials is None else _text(credentials)
        _call("open", byref(self._pointer), url, file)

    def create(self, name: str, wishes: Any = None, timeout: float | None = None) -> str:
        """Makes the resource "place/kind/unique", and gives its id."""
        return self.start_create(name, wishes, timeout).wait()

    def call(self, name: str, part: str, value: Any = None, timeout: float | None = None) -> Any:
        """Calls a program part of a resource, and gives what it gives."""
        return self.start(name, part, value, timeout).wait()

    def destroy(self, name: str, timeout: float | None = None) -> None:
        """Destroys a resource."""
        self._start("start_destroy", _text(name), _ms(timeout)).wait()

    def ls(self, place: str, pattern: str = "**", timeout: float | None = None) -> list[dict[str, Any]]:
        """A place's resources whose names match."""
        return self._start("start_ls", _text(place), _text(pattern), _ms(timeout)).wait()

    def places(self, timeout: float | None = None) -> list[str]:
        """The places that answer."""
        return self._start("start_places", _ms(timeout)).wait()

    def start_create(self, name: str, wishes: Any = None, timeout: float | None = None) -> Call:
        """Starts to make a resource."""
        return self._start("start_create", _text(name), json.dumps(wishes).encode(), _ms(timeout))

    def start(self, name: str, part: str, value: Any = None, timeout: float | None = None) -> Call:
        """Starts a call of a program part."""
        return self._start("start_call", _text(name), _text(part), json.dumps(value).encode(), _ms(timeout))

    def watch(self, place: str, pattern: str = "**", timeout: float | None = None) -> Watch:
        """Watches names of a place, and the place itself, from now on."""
        watch = c_void_p()
        _call("watch", self._pointer, _text(place), _text(pattern), _ms(timeout), byref(watch))
        return Watch(watch)

    def _start(self, name: str, *arguments: Any) -> Call:
        call = c_void_p()
        _call(name, self._pointer, *arguments, byref(call))
        return Call(call)

    def close(self) -> None:
        """Ends its connections once its calls and watches have ended."""
        pointer, self._pointer = self._pointer, c_void_p()
        _library.kumiki_places_close(pointer)

    def __enter__(self) -> "Places":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()
