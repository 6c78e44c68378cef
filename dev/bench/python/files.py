"""`files.py [CASE …]`: kumiki.files beside a loop of os, warm and on a file system that answers in a millisecond. Prints
the nanoseconds of each way at each case, taken by turns, as JSON. Without root and /dev/fuse there is nothing slow."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from kumiki import files

ROUNDS = 60
WARM = 300
# Counts of paths of one call, and of files in a folder of few.
COUNTS, FEW = (1, 2, 4, 10, 16, WARM), 4
# Turns of one sample are added up until it is as long as that, as what takes microseconds is interrupted.
NANOSECONDS = 1_000_000
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


def names_of(scandir, top):
    with scandir(top) as entries:
        return [entry.name for entry in entries]


def stats_of(scandir, top):
    with scandir(top) as entries:
        return sum(entry.stat().st_size for entry in entries)


def took(work):
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


def warm(folder):
    """Cases: how many paths each has, and the two ways."""
    few = os.path.join(folder, "few")
    folder = os.path.join(folder, "many")
    os.mkdir(few)
    os.mkdir(folder)
    for number in range(FEW):
        write(os.path.join(few, str(number)))
    paths = [os.path.join(folder, str(number)) for number in range(WARM)]
    new = [path + "~" for path in paths]
    for path in paths:
        write(path)
    tree = "/usr/share/doc" if os.path.isdir("/usr/share/doc") else os.path.dirname(os.__file__)
    cases = {
        "python_write": (
            WARM,
            lambda: files.write_many((path, b"x" * SIZE) for path in paths),
            lambda: [write(path) for path in paths],
        ),
        "python_rename": (
            WARM,
            lambda: (files.rename_many(zip(paths, new)), files.rename_many(zip(new, paths))),
            lambda: [os.rename(*pair) for pair in [*zip(paths, new), *zip(new, paths)]],
        ),
        "python_walk": (0, lambda: walked(files.walk, tree), lambda: walked(os.walk, tree)),
    }
    for count, top in ((FEW, few), (WARM, folder)):
        for name, work in (("scandir", names_of), ("scandir_stat", stats_of)):
            cases[f"python_{name}", count] = (
                count,
                lambda work=work, top=top: work(files.scandir, top),
                lambda work=work, top=top: work(os.scandir, top),
            )
    cases["python_walk", FEW] = (FEW, lambda: walked(files.walk, few), lambda: walked(os.walk, few))
    for name, ours, theirs in [
        ("stat", files.stat_many, os.stat),
        ("exists", files.exists_many, os.path.exists),
        ("read", files.read_many, read),
    ]:
        for count in COUNTS:
            some = paths[:count]
            cases[f"python_{name}", count] = (
                count,
                lambda ours=ours, some=some: ours(some),
                lambda theirs=theirs, some=some: [theirs(path) for path in some],
            )
    return [(name if isinstance(name, str) else name[0], *case) for name, case in cases.items()]


def rows_of(cases, rounds):
    rows = []
    for name, count, ours, theirs in cases:
        samples = {"kumiki": [], "os": []}
        took(theirs)
        times = max(1, NANOSECONDS // took(theirs))
        for round in range(rounds + 5):
            ways = [("kumiki", ours), ("os", theirs)]
            for way, work in ways if round % 2 else reversed(ways):
                ns = took(lambda: [work() for _ in range(times)]) / times
                if round >= 5:
                    samples[way].append(ns)
        rows.append({"case": name, "n": count, "samples": samples})
    return rows


def slow(folder):
    """Of a path each."""
    paths = [os.path.join(folder, str(number)) for number in range(SLOW)]
    few = paths[:SLOW_LOOP]

    def forget():
        # Contents that the kernel keeps are asked for once.
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("1\n")

    rows = []
    for name, ours, theirs in [
        ("python_slow_stat", lambda: files.stat_many(paths), lambda: [os.stat(path) for path in few]),
        ("python_slow_read", lambda: files.read_many(paths), lambda: [read(path) for path in few]),
    ]:
        samples = {"kumiki": [], "os": []}
        for _ in range(3):
            forget()
            samples["os"].append(took(theirs) / SLOW_LOOP)
            forget()
            samples["kumiki"].append(took(ours) / SLOW)
        rows.append({"case": name, "n": SLOW, "samples": samples})
    return rows


def main(only):
    with tempfile.TemporaryDirectory() as folder:
        cases = [case for case in warm(folder) if not only or case[0] in only]
        rows = rows_of(cases, ROUNDS)
    is_asked = not only or any(name.startswith("python_slow_") for name in only)
    if is_asked and os.geteuid() == 0 and os.path.exists("/dev/fuse"):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(__file__).with_name("slow_fs.py")
            line = [sys.executable, str(script), folder, str(MILLISECONDS), str(SLOW), str(SIZE)]
            with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
                if server.stdout.readline() != b"there\n":
                    sys.exit("files.py: the slow file system did not come up")
                rows += slow(folder)
                server.stdin.close()
    json.dump(rows, sys.stdout)


main(sys.argv[1:])
