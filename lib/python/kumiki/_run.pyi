"""Types of subprocess's functions with kumiki.Popen: which of text, encoding, errors and universal_newlines make streams text, and what else
can be said. Held against the code by tests/test_types.py."""

from subprocess import CompletedProcess
from typing import Any, Literal, Unpack, overload

from ._popen import Args, Options, Path

@overload
def run(
    args: Args, *, text: Literal[True], encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[str]: ...
@overload
def run(
    args: Args, *, encoding: str, text: bool | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[str]: ...
@overload
def run(
    args: Args, *, errors: str, text: bool | None = ..., encoding: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[str]: ...
@overload
def run(
    args: Args, *, universal_newlines: Literal[True], text: bool | None = ..., encoding: str | None = ..., errors: str | None = ...,
    input: str | None = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[str]: ...
@overload
def run(
    args: Args, *, text: Literal[False] | None = ..., encoding: None = ..., errors: None = ..., universal_newlines: Literal[False] | None = ...,
    input: bytes | bytearray | memoryview | None = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[bytes]: ...
@overload
def run(
    args: Args, *, text: bool | None = ..., encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: Any = ..., capture_output: bool = ..., timeout: float | None = ..., check: bool = ...,
    **named: Unpack[Options],
) -> CompletedProcess[Any]: ...
@overload
def check_output(
    args: Args, *, text: Literal[True], encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> str: ...
@overload
def check_output(
    args: Args, *, encoding: str, text: bool | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> str: ...
@overload
def check_output(
    args: Args, *, errors: str, text: bool | None = ..., encoding: str | None = ..., universal_newlines: bool | None = ...,
    input: str | None = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> str: ...
@overload
def check_output(
    args: Args, *, universal_newlines: Literal[True], text: bool | None = ..., encoding: str | None = ..., errors: str | None = ...,
    input: str | None = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> str: ...
@overload
def check_output(
    args: Args, *, text: Literal[False] | None = ..., encoding: None = ..., errors: None = ..., universal_newlines: Literal[False] | None = ...,
    input: bytes | bytearray | memoryview | None = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> bytes: ...
@overload
def check_output(
    args: Args, *, text: bool | None = ..., encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
    input: Any = ..., timeout: float | None = ...,
    **named: Unpack[Options],
) -> Any: ...
def call(
    args: Args, *, timeout: float | None = ..., text: bool | None = ..., encoding: str | None = ...,
    errors: str | None = ..., universal_newlines: bool | None = ..., **named: Unpack[Options],
) -> int: ...
def check_call(
    args: Args, *, timeout: float | None = ..., text: bool | None = ..., encoding: str | None = ...,
    errors: str | None = ..., universal_newlines: bool | None = ..., **named: Unpack[Options],
) -> int: ...
def getstatusoutput(cmd: Path, *, encoding: str | None = ..., errors: str | None = ...) -> tuple[int, str]: ...
def getoutput(cmd: Path, *, encoding: str | None = ..., errors: str | None = ...) -> str: ...
