"""An ordinary program in Python: does what `ordinary.c` does.

What is not needed on the way from exec to exec is imported where it is used.
"""

import os
import sys
import time

COMMANDS, ANSWERS, NOTEBOOK = range(3)
COUNTER_DIGITS = 10
STAMP_BYTES = 16 + 2 * 144


def clock():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def own_ns():
    """Processor time: the module of getrusage is not loaded in an exec."""
    return [time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), 0, 0]


def usage_ns():
    """Own user and system time, and that of the waited children."""
    from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

    own, children = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    times = own.ru_utime, own.ru_stime, children.ru_utime + children.ru_stime
    return [round(seconds * 1e9) for seconds in times]


def stamp(clock_ns, usage):
    """A clock and two `struct rusage`, as answer.rs reads them."""
    import struct

    user, system, children = (divmod(ns // 1000, 1_000_000) for ns in usage)
    words = [*divmod(clock_ns, 1_000_000_000), *user, *system, *[0] * 14, *children, *[0] * 16]
    return struct.pack("=38q", *words)


def say(done, start, end):
    os.write(ANSWERS, done.to_bytes(8, sys.byteorder) + bytes(16) + start + end)


def hear(size):
    """A whole command; fewer bytes mean that the harness has gone."""
    command = os.read(COMMANDS, size)
    if len(command) != size:
        os._exit(0)
    return command


def forking():
    done, start, end = 0, bytes(STAMP_BYTES), bytes(STAMP_BYTES)
    usage_ns()
    while True:
        say(done, start, end)
        count = int.from_bytes(hear(8), sys.byteorder)
        usage_before, before = usage_ns(), clock()
        for done in range(count):
            child = os.fork()
            if child == 0:
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status:
                os._exit(1)
        after, usage_after = clock(), usage_ns()
        done, start, end = count, stamp(before, usage_before), stamp(after, usage_after)


def execing(counter):
    left = int(counter)
    while left == 0:
        end, usage_end = clock(), own_ns()
        start = os.pread(NOTEBOOK, STAMP_BYTES, 0)
        say(0, start, stamp(end, usage_end))
        left = int(hear(COUNTER_DIGITS))
        usage_start, start = own_ns(), clock()
        os.pwrite(NOTEBOOK, stamp(start, usage_start), 0)
    counter = str(left - 1).zfill(COUNTER_DIGITS)
    os.execv(sys.executable, [sys.executable, sys.argv[0], "exec", counter])


if sys.argv[1:] == ["fork"]:
    forking()
elif sys.argv[1:2] == ["exec"]:
    execing(sys.argv[2])
