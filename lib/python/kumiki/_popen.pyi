"""Types of kumiki.Popen: which of text, encoding, errors and universal_newlines make streams text, and what else
can be said. Held against the code by tests/test_types.py."""

import os
import subprocess
from typing import IO, Any, AnyStr, Iterable, Literal, Mapping, Protocol, Sequence, TypedDict, Unpack, overload

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Args = Path | Sequence[Path]
_File = int | IO[Any] | None

class HasFileno(Protocol):
    def fileno(self) -> int: ...

class Options(TypedDict, total=False):
    """Arguments of Popen, but those that say whether its streams are text."""

    bufsize: int
    executable: Path | None
    stdin: _File
    stdout: _File
    stderr: _File
    preexec_fn: None
    close_fds: bool
    shell: bool
    cwd: Path | None
    env: Mapping[str, Path] | Mapping[bytes, Path] | None
    startupinfo: Any
    creationflags: int
    restore_signals: bool
    start_new_session: bool
    pass_fds: Iterable[int]
    user: str | int | None
    group: str | int | None
    extra_groups: Iterable[str | int] | None
    umask: int
    pipesize: int
    process_group: int | None
    cgroup: Path | int | None
    limits: Mapping[int, int | tuple[int, int]] | None
    namespaces: Iterable[str] | int | None
    uid_map: Iterable[tuple[int, int, int]]
    gid_map: Iterable[tuple[int, int, int]]
    nice: int | None
    affinity: Iterable[int] | None
    parent_death_signal: int | None
    signal_mask: Iterable[int] | None
    signal_default: Iterable[int]
    signal_ignore: Iterable[int]
    controlling_terminal: int | HasFileno | None
    kill_tree: bool
    by_server: bool

class Popen(subprocess.Popen[AnyStr]):
    @overload
    def __init__(
        self: Popen[str], args: Args, *, text: Literal[True], encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
        **named: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Popen[str], args: Args, *, encoding: str, text: bool | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
        **named: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Popen[str], args: Args, *, errors: str, text: bool | None = ..., encoding: str | None = ..., universal_newlines: bool | None = ...,
        **named: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Popen[str], args: Args, *, universal_newlines: Literal[True], text: bool | None = ..., encoding: str | None = ..., errors: str | None = ...,
        **named: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Popen[bytes], args: Args, *, text: Literal[False] | None = ..., encoding: None = ..., errors: None = ..., universal_newlines: Literal[False] | None = ...,
        **named: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: Popen[Any], args: Args, *, text: bool | None = ..., encoding: str | None = ..., errors: str | None = ..., universal_newlines: bool | None = ...,
        **named: Unpack[Options],
    ) -> None: ...

    # What the package's own modules use besides.
    _affinity: Any
    _cgroup: Any
    _child_created: bool
    _default: list[int]
    _ignored: Any
    _limits: Mapping[int, int | tuple[int, int]]
    _mask: Any
    _namespaces: int
    _nice: int | None
    def _close_pipe_fds(self, *fds: int) -> None: ...
    def _execute_child(self, *arguments: Any) -> None: ...
    def _internal_poll(self, *arguments: Any) -> int | None: ...

def _both(limit: int | tuple[int, int]) -> tuple[int, int]: ...
