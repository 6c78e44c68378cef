"""subprocess.Popen whose children are made without a fork."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import Any, Callable, Iterable, Mapping, Sequence

from ._lasting import lasting
from ._library import CLOEXEC_DEFAULT, SETSID, Actions, Attributes, Tree, fitting

_NAMESPACES = {
    "time": 0x0000_0080,
    "mount": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "uts": 0x0400_0000,
    "ipc": 0x0800_0000,
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "net": 0x4000_0000,
}

# What Python itself ignores, and subprocess restores.
_RESTORED = [
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ") if hasattr(signal, name)
]

# Ids are 32 bits, and the last says "leave it".
_MOST_ID = (1 << 32) - 2

_NO_HOOK = (
    "preexec_fn: kumiki.Popen runs nothing of this program in the child. Use start_new_session, "
    "process_group, user, group, extra_groups, umask, nice, limits, affinity, cgroup, namespaces, "
    "parent_death_signal, cwd or pass_fds for what it does, or subprocess.Popen"
)

# With these a working folder may have been meant as well as the program.
_OF_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)

# With these it may be the cgroup that nobody can begin in: no folder of a cgroup2 file system, one
# that is not ours to write to, one with processes below, one of threads, one that is gone.
_OF_CGROUP = (errno.EBADF, errno.EACCES, errno.EBUSY, errno.EOPNOTSUPP, errno.ENODEV)


class Popen(subprocess.Popen):
    """As subprocess.Popen, and with the same arguments but preexec_fn, which is refused.

    What it has besides:

    cgroup: a folder in a cgroup2 file system, or a descriptor of one, in which the child begins.
    limits: a mapping of resource.RLIMIT_… to a number, or to a soft and a hard one.
    namespaces: some of "mount", "cgroup", "uts", "ipc", "user", "pid", "net", "time", or the
        CLONE_NEW… flags as a number: those that the child begins anew.
    uid_map, gid_map: of a user namespace of its own, ranges of users and groups: the first there,
        the first here, how many.
    nice: its nice value itself, from -20 to 19, not an increment.
    affinity: numbers of the cpus on which it runs.
    parent_death_signal: a signal that it gets when this program ends, not the thread that has
        started it.
    signal_mask: signals that are blocked in it; those of the calling thread, if nothing is said.
    signal_default, signal_ignore: signals that do there what they do by default, or nothing.
    controlling_terminal: a descriptor of a terminal, or what has one, that becomes the one of
        its session, which is a new one.
    kill_tree: kill(), and with it run(..., timeout=...), ends all that comes of it, too: by a cgroup
        of its own where one can be made, else by a process group of its own, which a process can
        leave, and only until the child has been waited for.
    by_server: a spawn server makes it also where the calling thread could.
    """

    def __init__(
        self,
        args: Any,
        bufsize: int = -1,
        executable: Any = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        preexec_fn: None = None,
        close_fds: bool = True,
        shell: bool = False,
        cwd: Any = None,
        env: Any = None,
        universal_newlines: "bool | None" = None,
        startupinfo: Any = None,
        creationflags: int = 0,
        restore_signals: bool = True,
        start_new_session: bool = False,
        pass_fds: "Iterable[int]" = (),
        *,
        cgroup: "str | bytes | os.PathLike[Any] | int | None" = None,
        limits: "Mapping[int, int | tuple[int, int]] | None" = None,
        namespaces: "Iterable[str] | int | None" = None,
        uid_map: "Iterable[tuple[int, int, int]]" = (),
        gid_map: "Iterable[tuple[int, int, int]]" = (),
        nice: "int | None" = None,
        affinity: "Iterable[int] | None" = None,
        parent_death_signal: "int | None" = None,
        signal_mask: "Iterable[int] | None" = None,
        signal_default: "Iterable[int]" = (),
        signal_ignore: "Iterable[int]" = (),
        controlling_terminal: "int | Any | None" = None,
        kill_tree: bool = False,
        by_server: bool = False,
        **named: Any,
    ) -> None:
        if preexec_fn is not None:
            raise ValueError(_NO_HOOK)
        self._cgroup = cgroup
        self._limits = _argument("limits", dict, limits or {})
        self._namespaces = _argument("namespaces", _flags, namespaces)
        self._mask = None if signal_mask is None else _argument("signal_mask", list, signal_mask)
        self._default = _argument("signal_default", list, signal_default)
        self._ignored = _argument("signal_ignore", list, signal_ignore)
        self._terminal = controlling_terminal
        self._by_server = by_server
        self._tree = Tree() if kill_tree else None
        self._maps = {
            "uid": _argument("uid_map", _ranges, uid_map),
            "gid": _argument("gid_map", _ranges, gid_map),
        }
        self._nice = None if nice is None else _argument("nice", _nice, nice)
        self._affinity = None if affinity is None else _argument("affinity", sorted, affinity)
        self._parent_death_signal = parent_death_signal
        super().__init__(
            args, bufsize, executable, stdin, stdout, stderr, None, close_fds, shell, cwd, env,
            universal_newlines, startupinfo, creationflags, restore_signals, start_new_session,
            pass_fds, **named,
        )  # fmt: skip

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env,
        startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, process_group,
    ) -> None:  # fmt: skip
        """Executes the program, as that of subprocess."""
        args, executable = _program(args, executable, shell)
        sys.audit("subprocess.Popen", executable, args, cwd, env)
        _numbers(pass_fds, umask, process_group)
        words = [_string(word) for word in args]
        variables = _variables(env)
        programs = _programs(_string(executable), env)
        folder = None if cwd is None else _string(cwd)
        with ExitStack() as stack:
            attributes = stack.enter_context(Attributes())
            actions = stack.enter_context(Actions())
            defaults = self._default + (_RESTORED if restore_signals else [])
            _argument("signal_default", attributes.default_signals, defaults)
            if start_new_session:
                attributes.flags |= SETSID
            if process_group >= 0:
                attributes.process_group(process_group)
            _identity(attributes, uid, gid, gids, umask)
            self._further(attributes, stack)
            given = [(0, p2cread), (1, c2pwrite), (2, errwrite)]
            _standard(actions, given, stack)
            for fd in sorted(set(map(int, pass_fds))):
                actions.dup2(fd, fd)
            if close_fds:
                attributes.flags |= CLOEXEC_DEFAULT
            if folder is not None:
                actions.chdir(folder)
            named = {"program": executable, "folder": cwd, "cgroup": self._cgroup}

            def start() -> int:
                return _first(attributes, programs, actions, words, variables, named)

            self.pid = lasting(start) if self._parent_death_signal else start()
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def kill(self) -> None:
        """Ends it by SIGKILL; with kill_tree all that came of it, too."""
        if self._tree is None:
            super().kill()
        else:
            self._tree.kill()

    def _further(self, attributes: Attributes, stack: ExitStack) -> None:
        """What subprocess has not."""
        if self._cgroup is not None:
            folder = self._cgroup
            if not isinstance(folder, int):
                folder = _argument("cgroup", os.fspath, folder)
                folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, folder)
            attributes.cgroup(folder)
        for which, limit in self._limits.items():
            soft, hard = _argument("limits", _both, limit)
            _argument("limits", lambda amounts: attributes.limit(which, *amounts), (soft, hard))
        if self._namespaces:
            attributes.namespaces(self._namespaces)
        for name, ranges in self._maps.items():
            if ranges:
                attributes.maps(name, ranges)
        if self._nice is not None:
            attributes.nice(self._nice)
        if self._affinity is not None:
            _argument("affinity", attributes.affinity, self._affinity)
        if self._tree is not None:
            attributes.tree(self._tree)
        if self._by_server:
            attributes.by_server()
        if self._mask is not None:
            _argument("signal_mask", attributes.signal_mask, self._mask)
        if self._ignored:
            _argument("signal_ignore", attributes.ignored_signals, self._ignored)
        if self._terminal is not None:
            fd = self._terminal
            descriptor = _argument("controlling_terminal", _descriptor, fd)
            _argument("controlling_terminal", attributes.terminal, descriptor)
        if self._parent_death_signal is not None:
            _argument("parent_death_signal", attributes.death_signal, self._parent_death_signal)


def _argument(name: str, use: "Callable[[Any], Any]", value: Any) -> Any:
    """What is made of an argument; an error about it says which it is. What the kernel refuses names itself."""
    try:
        return use(value)
    except OSError:
        raise
    except AttributeError as error:
        raise TypeError(f"{name}: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"{name}: {error}") from None


def _nice(nice: int) -> int:
    """The kernel takes any number and makes the nearest of it."""
    if not -20 <= fitting("nice value", nice) <= 19:
        raise ValueError(f"{nice} is not a nice value: they are from -20 to 19")
    return nice


def _both(limit: "int | tuple[int, int]") -> "tuple[int, int]":
    """A soft and a hard one."""
    soft, hard = (limit, limit) if isinstance(limit, int) else limit
    return soft, hard


def _descriptor(terminal: Any) -> int:
    return terminal if isinstance(terminal, int) else terminal.fileno()


def _flags(namespaces: "Iterable[str] | int | None") -> int:
    if namespaces is None or isinstance(namespaces, int):
        return namespaces or 0
    flags = 0
    for name in [namespaces] if isinstance(namespaces, str) else namespaces:
        if name not in _NAMESPACES:
            known = ", ".join(sorted(_NAMESPACES))
            raise ValueError(f"there is no namespace {name!r}; there are {known}")
        flags |= _NAMESPACES[name]
    return flags


def _ranges(ranges: "Iterable[tuple[int, int, int]]") -> "list[tuple[int, int, int]]":
    found = []
    for inside, outside, count in ranges:
        if not all(0 <= number < 1 << 32 for number in (inside, outside, count)):
            raise ValueError(f"{(inside, outside, count)}: ids are numbers of 32 bits")
        found.append((inside, outside, count))
    return found


def _program(args: Any, executable: Any, shell: bool) -> "tuple[list[Any], Any]":
    """Arguments and program, as subprocess finds them."""
    if isinstance(args, (str, bytes)):
        args = [args]
    elif isinstance(args, os.PathLike):
        if shell:
            raise TypeError("path-like args is not allowed when shell is true")
        args = [args]
    else:
        args = list(args)
    if shell:
        args = ["/bin/sh", "-c"] + args
        if executable:
            args[0] = executable
    return args, args[0] if executable is None else executable


def _numbers(pass_fds: "Iterable[int]", umask: int, process_group: int) -> None:
    """Refuses those that subprocess refuses, as it does."""
    if any(not 0 <= int(fd) < 1 << 31 for fd in pass_fds):
        raise ValueError("bad value(s) in pass_fds: descriptors are from 0 to 2147483647")
    fitting("umask", umask)
    fitting("process group", process_group)


def _string(text: Any) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def _variables(env: "Mapping[Any, Any] | None") -> "list[bytes] | None":
    if env is None:
        return None
    variables = []
    for name, value in env.items():
        name = _string(name)
        if b"=" in name:
            raise ValueError("illegal environment variable name")
        variables.append(name + b"=" + _string(value))
    return variables


def _programs(executable: bytes, env: Any) -> "list[bytes]":
    """Where it may be, in order."""
    if os.path.dirname(executable):
        return [executable]
    return [os.path.join(os.fsencode(folder), executable) for folder in os.get_exec_path(env)]


def _identity(attributes: Attributes, uid: Any, gid: Any, gids: Any, umask: int) -> None:
    # With subprocess's errors.
    for what, number in [("user", uid), ("group", gid)]:
        if number is not None and number > _MOST_ID:
            raise OverflowError(f"{what} id is greater than maximum")
    if any(number > _MOST_ID for number in gids or ()):
        raise ValueError("invalid group id")
    if gids is not None:
        attributes.groups(gids)
    elif uid is not None and os.geteuid() == 0:
        # subprocess leaves those of this program.
        attributes.groups(os.getgroups())
    if gid is not None:
        attributes.gid(gid)
    if uid is not None:
        attributes.uid(uid)
    if umask >= 0:
        attributes.umask(umask)


def _standard(actions: Actions, given: "list[tuple[int, int]]", stack: ExitStack) -> None:
    """The child's standard descriptors, where they are not this program's."""
    changed = {number for number, fd in given if fd not in (-1, number)}
    for number, fd in given:
        if fd == -1:
            continue
        if fd in changed:
            # It would be another one by the time it is copied.
            fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
            stack.callback(os.close, fd)
        actions.dup2(fd, number)


def _first(
    attributes: Attributes,
    programs: Sequence[bytes],
    actions: Actions,
    words: Sequence[bytes],
    variables: "Sequence[bytes] | None",
    named: "Mapping[str, Any]",
) -> int:
    """Starts the first of these that can be, as os.execvpe() searches; its process id. `named`
    are what an error may be about."""
    why: "OSError | None" = None
    last: "OSError | None" = None
    for program in programs:
        if len(programs) > 1 and os.path.isabs(program):
            try:
                os.lstat(program)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    last = OSError(error.errno, os.strerror(error.errno))
                    continue
        try:
            return attributes.spawn(program, actions, words, variables)
        except OSError as error:
            if _refused_at(error):
                # As all others will be.
                raise _told(error, named) from None
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                last = error
            else:
                why = why or error
    # As execve's own last answer, where none of these was there.
    raise _told(why or last, named) from None


def _told(why: "OSError | None", named: "Mapping[str, Any]") -> OSError:
    """With the file name that subprocess tells: of what is no file there is none."""
    number = why.errno if why else errno.ENOENT
    text, step = os.strerror(number), _refused_at(why)
    cgroup = named["cgroup"]
    if step.startswith("its working folder"):
        return OSError(number, text, named["folder"])
    if step == "making the process" and cgroup is not None and number in _OF_CGROUP:
        where = None if isinstance(cgroup, int) else cgroup
        return OSError(number, f"{text}: its cgroup", where)
    # No program is refused with EBADF: it is a descriptor.
    if step or number == errno.EBADF:
        return OSError(number, f"{text}: {step or 'its descriptors'}")
    cwd = named["folder"]
    where = cwd if number in _OF_FOLDER and not _is_folder(cwd) else named["program"]
    return OSError(number, text, where)


def _refused_at(error: "OSError | None") -> str:
    """What of the child was refused and by which value: "" if that is its program."""
    _, _, at = (error.strerror if error else "").partition(": refused at ")
    # The kernel's own text follows.
    return at.rpartition(": ")[0]


def _is_folder(cwd: Any) -> bool:
    """Whether it can be a working folder."""
    return cwd is None or (os.path.isdir(cwd) and os.access(cwd, os.X_OK))
