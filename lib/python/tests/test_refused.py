"""Where something is refused, kumiki starts what subprocess starts there, or its error says at
which step. Each place is a forked process: one system call less, or a small limit."""

import ctypes
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import unittest

import kumiki

ROOT = os.geteuid() == 0
# System calls by x86-64's numbers: those that interpreter, caller, child and server make at a
# start. Without exit_group(2) nothing ends.
CALLS = {
    "access": 21, "brk": 12, "chdir": 80, "clone": 56, "clone3": 435, "close": 3,
    "close_range": 436, "dup2": 33, "dup3": 292, "execve": 59, "execveat": 322, "fchdir": 81,
    "fcntl": 72, "fork": 57, "ftruncate": 77, "futex": 202, "getdents64": 217, "getegid": 108,
    "getpgid": 121, "getpid": 39, "getppid": 110, "getrandom": 318, "getsid": 124, "gettid": 186,
    "getuid": 102, "ioctl": 16, "kcmp": 312, "kill": 62, "madvise": 28, "memfd_create": 319,
    "mmap": 9, "mprotect": 10, "munmap": 11, "newfstatat": 262, "open": 2, "openat": 257,
    "personality": 135, "pidfd_open": 434, "pidfd_send_signal": 424, "pipe2": 293, "poll": 7,
    "prctl": 157, "pread64": 17, "prlimit64": 302, "read": 0, "readlink": 89, "readlinkat": 267,
    "recvmsg": 47, "rseq": 334, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "sched_getaffinity": 204, "sched_getattr": 315, "sched_setaffinity": 203, "sendmsg": 46,
    "set_robust_list": 273, "setgroups": 116, "setpgid": 109, "setresgid": 119,
    "setresuid": 117, "shutdown": 48, "socketpair": 53, "statx": 332, "vfork": 58, "wait4": 61,
    "waitid": 247, "write": 1,
}  # fmt: skip
LIMITS = [
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_FSIZE, 1 << 20),
    (resource.RLIMIT_NOFILE, 4),
    (resource.RLIMIT_NOFILE, 8),
    (resource.RLIMIT_NOFILE, 12),
    (resource.RLIMIT_MEMLOCK, 0),
    (resource.RLIMIT_STACK, 1 << 17),
]
# How it is started; the last by a server, if root may be somebody else.
WAYS = [{}, {"start_new_session": True}] + ([{"user": 65534, "group": 65534}] if ROOT else [])
# In the shared word: who is at it, and how it went.
THEIRS, OURS, ALIKE, SAID, DIFFERS = 1, 2, 3, 4, 5


def refuse(number: int, error: int) -> None:
    """As seccomp(2): this call fails from here on."""
    op = struct.Struct("HBBI").pack
    program = b"".join(
        [
            op(0x20, 0, 0, 0),  # the call's number
            op(0x15, 0, 1, number),  # if it is that one
            op(0x06, 0, 0, 0x0005_0000 | error),  # it fails
            op(0x06, 0, 0, 0x7FFF_0000),
        ]
    )
    held = ctypes.create_string_buffer(program)

    class Filter(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    said = Filter(4, ctypes.addressof(held))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0, "no_new_privs"
    assert prctl(22, 2, ctypes.byref(said), 0, 0) == 0, "seccomp"


def outcome(start, way):
    """What came of it: an exit status, or the error."""
    try:
        return start(["/bin/true"], **way).wait(), ""
    except Exception as error:
        return type(error).__name__, str(error)


class Refused(unittest.TestCase):
    def alike(self, place, make) -> None:
        for way in WAYS:
            word = mmap.mmap(-1, 4096)
            child = os.fork()
            if child == 0:
                # Of one that waits for ever this tells which.
                signal.alarm(20)
                make()
                word[0] = THEIRS
                theirs, _ = outcome(subprocess.Popen, way)
                word[0] = OURS
                ours, text = outcome(kumiki.Popen, way)
                if ours == theirs or theirs != 0:
                    word[0] = ALIKE
                else:
                    word[0] = SAID if text.strip() and len(text) > 12 else DIFFERS
                    word[1:200] = f"{ours}: {text}".encode()[:199].ljust(199)
                # Not by a signal to its own number: where getpid(2) is refused that is -1, everybody.
                os._exit(0)
            os.waitpid(child, 0)
            how = word[0]
            text = bytes(word[1:200]).decode(errors="replace").strip()
            # What subprocess does not survive need not be survived.
            self.assertIn(how, (0, THEIRS, ALIKE, SAID), (place, way, how, text))
            if how == SAID:
                print(f"{place}, {way}: {text}: not as subprocess")

    def test_one_system_call_less(self) -> None:
        # Loaded before anything is refused.
        self.assertEqual(kumiki.Popen(["/bin/true"]).wait(), 0)
        for name, number in CALLS.items():
            for error in (1, 38):
                self.alike(f"{name} {error}", lambda: refuse(number, error))

    def test_a_small_limit(self) -> None:
        for which, soft in LIMITS:

            def make():
                resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))

            self.alike(f"limit {which} {soft}", make)


if __name__ == "__main__":
    if os.uname().machine != "x86_64":
        print("skipped: the numbers are those of x86-64")
        sys.exit(0)
    unittest.main()
