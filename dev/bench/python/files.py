"""`files.py`: kumiki.files beside a loop of os, warm and on a file system that answers in a millisecond. Prints the
nanoseconds of each way at each case, taken by turns, as JSON. Without root and /dev/fuse there is nothing slow."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from kumiki import files

ROUNDS = 30
WARM = 300
# Paths of a slow case: of a loop's fewer, as each takes as long as another.
SLOW, SLOW_LOOP, SIZE, MILLISECONDS = 10_000, 500, 3000, 1


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path):
    with open(path, "wb") as file:
        file.write(b"x" * SIZE)


def walked(walk, top):
    return sum(len(names) for _, _, names in walk(top))


def stats_of(scandir, top):
    with scandir(top) as entries:
        return sum(entry.stat().st_size for entry in entries)


def took(work):
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


def warm(folder):
    paths = [os.path.join(folder, str(number)) for number in range(WARM)]
    new = [path + "~" for path in paths]
    for path in paths:
        write(path)
    tree = "/usr/share/doc" if os.path.isdir("/usr/share/doc") else os.path.dirname(os.__file__)
    return {
        "stat": (lambda: files.stat_many(paths), lambda: [os.stat(path) for path in paths]),
        "stat_one": (lambda: files.stat_many(paths[:1]), lambda: [os.stat(path) for path in paths[:1]]),
        "stat_ten": (lambda: files.stat_many(paths[:10]), lambda: [os.stat(path) for path in paths[:10]]),
        "exists": (lambda: files.exists_many(paths), lambda: [os.path.exists(path) for path in paths]),
        "read": (lambda: files.read_many(paths), lambda: [read(path) for path in paths]),
        "write": (
            lambda: files.write_many((path, b"x" * SIZE) for path in paths),
            lambda: [write(path) for path in paths],
        ),
        "rename": (
            lambda: (files.rename_many(zip(paths, new)), files.rename_many(zip(new, paths))),
            lambda: [os.rename(*pair) for pair in [*zip(paths, new), *zip(new, paths)]],
        ),
        "walk": (lambda: walked(files.walk, tree), lambda: walked(os.walk, tree)),
        "scandir_stat": (lambda: stats_of(files.scandir, folder), lambda: stats_of(os.scandir, folder)),
    }


def rows_of(cases, rounds):
    samples = {name: {"kumiki": [], "os": []} for name in cases}
    for round in range(rounds + 5):
        for name, (ours, theirs) in cases.items():
            ways = [("kumiki", ours), ("os", theirs)]
            for way, work in ways if round % 2 else reversed(ways):
                ns = took(work)
                if round >= 5:
                    samples[name][way].append(ns)
    return samples


def slow(folder):
    """Of a path each."""
    paths = [os.path.join(folder, str(number)) for number in range(SLOW)]
    few = paths[:SLOW_LOOP]

    def forget():
        # Contents that the kernel keeps are asked for once.
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("1\n")

    rows = {}
    for name, ours, theirs in [
        ("slow_stat", lambda: files.stat_many(paths), lambda: [os.stat(path) for path in few]),
        ("slow_read", lambda: files.read_many(paths), lambda: [read(path) for path in few]),
    ]:
        samples = {"kumiki": [], "os": []}
        for _ in range(3):
            forget()
            samples["os"].append(took(theirs) / SLOW_LOOP)
            forget()
            samples["kumiki"].append(took(ours) / SLOW)
        rows[name] = samples
    return rows


def main():
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(warm(folder), ROUNDS)
    if os.geteuid() == 0 and os.path.exists("/dev/fuse"):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(__file__).with_name("slow_fs.py")
            line = [sys.executable, str(script), folder, str(MILLISECONDS), str(SLOW), str(SIZE)]
            with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
                if server.stdout.readline() != b"there\n":
                    sys.exit("files.py: the slow file system did not come up")
                rows |= slow(folder)
                server.stdin.close()
    json.dump(rows, sys.stdout)


main()
