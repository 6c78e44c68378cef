"""A loader of data of the shape of PyTorch's, and where that is there its own DataLoader, by each start method from a program
that has a million objects in memory: how long a start takes until its first batch is there, and how much memory the
processes have (PSS: of what several have each has its part), as they are after all batches and once their collectors
of garbage have run. Prints nanoseconds and MiB of each way, as JSON."""

import argparse
import gc
import json
import multiprocessing
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "lib/python/tests"))

import kumiki.mp  # noqa: F401
import loaders

WAYS = ["kumiki", "fork", "spawn", "forkserver"]
COUNT, BATCH, WORKERS = 20_000, 64, 2
OBJECTS = 1_000_000
STARTS = 7


def collect(_):
    gc.collect()


def used(of_torch, context, begin=None):
    """PSS of a loader's processes, in MiB, after all batches."""
    loader = loaders.made(COUNT, BATCH, WORKERS, context, begin, of_torch)
    rows = [row for batch in loader for row in batch]
    assert [row[0] for row in rows] == list(range(COUNT))
    pids = {row[2] for row in rows}
    assert len(pids) == WORKERS, pids
    memory = sum(loaders.proportional(pid)[0] for pid in pids) / (1 << 20)
    loader.close()
    return memory


def started(of_torch, context):
    """Nanoseconds from nothing to the first batch."""
    begin = time.perf_counter_ns()
    loader = loaders.made(BATCH * 8, BATCH, WORKERS, context, None, of_torch)
    batches = iter(loader)
    assert next(batches)
    took = time.perf_counter_ns() - begin
    for _ in batches:
        pass
    loader.close()
    return took


def one(way, of_torch):
    """All figures of a way, in a program of its own."""
    if of_torch:
        import torch  # noqa: F401

        multiprocessing.set_forkserver_preload(["torch", "torch.utils.data"])
    # What the program has beside the data.
    large = [(number, str(number)) for number in range(OBJECTS)]
    context = multiprocessing.get_context(way)
    first = started(of_torch, context)
    starts = [started(of_torch, context) for _ in range(STARTS)]
    found = {"first": first, "start": starts, "pss": used(of_torch, context), "collected": used(of_torch, context, collect)}
    assert len(large) == OBJECTS
    json.dump(found, sys.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--of-torch", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        one(asked.way, asked.of_torch)
    else:
        kinds = [False, True] if loaders.HAS_TORCH else [False]
        json.dump([row for of_torch in kinds for row in rows(of_torch)], sys.stdout)


def rows(of_torch):
    """What was seen of each way, each in a program of its own."""
    found = {}
    for way in WAYS:
        line = [sys.executable, __file__, "--way", way, *(["--of-torch"] * of_torch)]
        found[way] = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout)
    case = "python_loader_of_torch" if of_torch else "python_loader"

    def row(part, unit, of):
        samples = {way: of(found[way]) for way in WAYS}
        return {"case": f"{case}_{part}", "n": WORKERS, "unit": unit, "samples": samples}

    return [
        row("first", "ns", lambda way: [way["first"]]),
        row("start", "ns", lambda way: way["start"]),
        row("memory", "MiB", lambda way: [way["pss"]]),
        row("memory_collected", "MiB", lambda way: [way["collected"]]),
    ]


if __name__ == "__main__":
    main()
