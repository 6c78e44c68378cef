"""kumiki.files to await: the same functions, made by a few threads, which the loop does not wait for."""

import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Iterable

from . import files
from ._many import AT_ONCE

# Each of them makes many calls at once.
_THREADS = 4

_threads: "ThreadPoolExecutor | None" = None


def _forget() -> None:
    global _threads
    _threads = None


# A child of a fork has none of the threads.
os.register_at_fork(after_in_child=_forget)


async def _made(function: "Callable[..., Any]", *arguments: Any, **named: Any) -> Any:
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(_THREADS, "kumiki-files")
    work = functools.partial(function, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def _awaited(name: str) -> "Callable[..., Any]":
    function = getattr(files, name)

    @functools.wraps(function)
    async def awaited(*arguments: Any, **named: Any) -> Any:
        return await _made(function, *arguments, **named)

    awaited.__doc__ = f"kumiki.files.{name}, to be awaited. Who is cancelled does not wait; calls under way end."
    return awaited


exists_many = _awaited("exists_many")
read_many = _awaited("read_many")
rename_many = _awaited("rename_many")
rmdir_many = _awaited("rmdir_many")
stat_array = _awaited("stat_array")
stat_many = _awaited("stat_many")
unlink_many = _awaited("unlink_many")
write_many = _awaited("write_many")


async def each(
    function: "Callable[..., list[Any]]", items: "Iterable[Any]", *, chunk: int = AT_ONCE, **named: Any
) -> "AsyncIterator[tuple[Any, Any]]":
    """kumiki.files.each, as an asynchronous iterator."""
    if chunk < 1:
        raise ValueError(f"chunk {chunk}: at least one item is made at once")
    for part in files._growing(items, chunk):
        for pair in zip(part, await _made(function, part, **named)):
            yield pair


async def walk(
    top: Any, topdown: bool = True, onerror: Any = None, followlinks: bool = False
) -> "AsyncIterator[tuple[Any, list[Any], list[Any]]]":
    """kumiki.files.walk, as an asynchronous iterator. onerror is called by another thread."""
    steps = files.walk(top, topdown, onerror, followlinks)
    while (step := await _made(next, steps, None)) is not None:
        yield step
