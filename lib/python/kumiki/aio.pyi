"""Types of kumiki.aio: which of text, encoding, errors and universal_newlines make streams text, and what else
can be said. Held against the code by tests/test_types.py."""

import asyncio
from asyncio.subprocess import DEVNULL as DEVNULL
from asyncio.subprocess import PIPE as PIPE
from asyncio.subprocess import STDOUT as STDOUT
from asyncio.subprocess import Process as Process
from typing import Callable, TypeVar, Unpack

from ._popen import Options, Path

_P = TypeVar("_P", bound=asyncio.SubprocessProtocol)

async def create_subprocess_exec(
    program: Path, *args: Path, limit: int = ..., **named: Unpack[Options]
) -> Process: ...
async def create_subprocess_shell(cmd: str | bytes, limit: int = ..., **named: Unpack[Options]) -> Process: ...
async def subprocess_exec(
    loop: asyncio.AbstractEventLoop, protocol_factory: Callable[[], _P], program: Path, *args: Path,
    **named: Unpack[Options],
) -> tuple[asyncio.SubprocessTransport, _P]: ...
async def subprocess_shell(
    loop: asyncio.AbstractEventLoop, protocol_factory: Callable[[], _P], cmd: str | bytes,
    **named: Unpack[Options],
) -> tuple[asyncio.SubprocessTransport, _P]: ...
