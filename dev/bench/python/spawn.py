"""`spawn.py MIB PROGRAM`: a program started by a Python that has MIB resident, with a
session, a limit and, where there is cgroup v2, a cgroup of its own. Prints nanoseconds of
each way, taken by turns, as JSON."""

import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time

import kumiki

SAMPLES = 20
WARM = 2
PAGE = mmap.PAGESIZE
FILES = (256, 256)


def resident(mib):
    """Ordinary pages, each written once."""
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), PAGE):
        memory[at] = 1
    return memory


def cgroup():
    """A folder of cgroup v2 for the programs, or None."""
    with open("/proc/self/mountinfo") as mounts:
        fields = (line.split() for line in mounts)
        found = [line[4] for line in fields if line[line.index("-") + 1] == "cgroup2"]
    try:
        return tempfile.mkdtemp(prefix="kumiki-bench-", dir=found[0])
    except (IndexError, OSError) as why:
        print(f"python_spawn: without a cgroup: {why}", file=sys.stderr)
        return None


def main(mib, program):
    memory = resident(int(mib))
    group = cgroup()
    procs = group and os.path.join(group, "cgroup.procs")

    def hook():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_NOFILE, FILES)
        if procs:
            with open(procs, "w") as joined:
                joined.write("0")

    ways = {
        "kumiki": lambda: kumiki.Popen(
            [program],
            start_new_session=True,
            limits={resource.RLIMIT_NOFILE: FILES},
            cgroup=group,
        ),
        "subprocess": lambda: subprocess.Popen([program], preexec_fn=hook),
    }
    samples = {name: [] for name in ways}
    for at in range(SAMPLES + WARM):
        for name, start in ways.items():
            begin = time.perf_counter_ns()
            status = start().wait()
            ns = time.perf_counter_ns() - begin
            if status != 0:
                sys.exit(f"{name}: {program} ended with {status}")
            if at >= WARM:
                samples[name].append(ns)
    if group:
        os.rmdir(group)
    json.dump(samples, sys.stdout)
    del memory


main(*sys.argv[1:])
