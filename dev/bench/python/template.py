"""`template.py GIB …`: kumiki.Template.run of a function that does nothing, in a template that has imported numpy and
pandas, from a program that has so much memory, beside a fresh interpreter that imports them. Prints the nanoseconds of
each way, as JSON."""

import json
import mmap
import subprocess
import sys
import time

import kumiki

MODULES = ["numpy", "pandas"]
SAMPLES, FRESH = 60, 5
PAGE = mmap.PAGESIZE


def nothing():
    pass


def took(work):
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


def grow(memory, bytes):
    """Ordinary pages, each written once: a fork copies what says where they are."""
    more = mmap.mmap(-1, bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    more.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, bytes, PAGE):
        more[at] = 1
    memory.append(more)


def main(sizes):
    memory, rows = [], []
    fresh = [sys.executable, "-c", f"import {', '.join(MODULES)}"]
    for gib in map(int, sizes):
        grow(memory, (gib << 30) - sum(map(len, memory)))
        with kumiki.Template(MODULES) as template:
            template.run(nothing)
            samples = {"kumiki": [took(lambda: template.run(nothing)) for _ in range(SAMPLES)]}
        samples["fresh"] = [took(lambda: subprocess.run(fresh, check=True)) for _ in range(FRESH)]
        rows.append({"case": "python_template", "n": gib, "samples": samples})
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
