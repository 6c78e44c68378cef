"""Loaders of data by processes: PyTorch's DataLoader where it is there, and one of its shape for where it is not."""

import collections
import importlib.util
import os
import queue

HAS_TORCH = importlib.util.find_spec("torch") is not None

# Batches that are asked of each process before the first is used, as by PyTorch.
AHEAD = 2
# Of an answer, where a process may have been killed.
SECONDS = 120


class Samples:
    """Names in a list, as of files of a data set: each process that touches one writes to its page, as it counts who has it."""

    def __init__(self, count):
        self.names = [f"sample-{number:08}.jpg" for number in range(count)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, at):
        return [at, len(self.names[at]), os.getpid(), os.getppid()]


class Tensors(Samples):
    """The same for PyTorch."""

    def __getitem__(self, at):
        import torch

        return torch.tensor(super().__getitem__(at))


def _work(samples, asked, made, begin):
    if begin is not None:
        begin(0)
    while (job := asked.get()) is not None:
        at, numbers = job
        made.put((at, [samples[number] for number in numbers]))


class Loader:
    """Of the shape of PyTorch's: a process gets numbers of samples by a queue of its own, and gives batches by one that
    all have; batches come in order."""

    def __init__(self, samples, batch_size, num_workers, context, begin=None):
        self._samples, self._size = samples, batch_size
        self._made = context.Queue()
        self._asked = [context.SimpleQueue() for _ in range(num_workers)]
        self._workers = [
            context.Process(target=_work, args=(samples, asked, self._made, begin), daemon=True) for asked in self._asked
        ]
        for worker in self._workers:
            worker.start()

    def __iter__(self):
        numbers = range(len(self._samples))
        jobs = enumerate(numbers[at : at + self._size] for at in range(0, len(numbers), self._size))
        waiting, found, sent = collections.deque(), {}, 0

        def ask():
            nonlocal sent
            for job in jobs:
                self._asked[sent % len(self._asked)].put(job)
                waiting.append(job[0])
                sent += 1
                return

        for _ in range(AHEAD * len(self._asked)):
            ask()
        while waiting:
            at = waiting.popleft()
            while at not in found:
                number, batch = self._next()
                found[number] = batch
            ask()
            yield found.pop(at)

    def _next(self):
        try:
            return self._made.get(timeout=SECONDS)
        except queue.Empty:
            ended = [worker.exitcode for worker in self._workers]
            raise RuntimeError(f"no batch for {SECONDS} s; processes of the loader have ended with {ended}") from None

    def close(self):
        for asked in self._asked:
            asked.put(None)
        for worker in self._workers:
            worker.join()
            worker.close()
        self._made.close()


class OfTorch:
    """PyTorch's, with the same methods."""

    def __init__(self, samples, batch_size, num_workers, context, begin=None):
        from torch.utils.data import DataLoader

        self._loader = DataLoader(
            samples,
            batch_size=batch_size,
            num_workers=num_workers,
            multiprocessing_context=context,
            persistent_workers=True,
            worker_init_fn=begin,
        )

    def __iter__(self):
        for batch in self._loader:
            yield batch.tolist()

    def close(self):
        # Its processes end with the iterator that it keeps.
        del self._loader


def made(count, batch_size, num_workers, context, begin=None, of_torch=HAS_TORCH):
    """A loader whose batches are lists of [number, length of the name, process, its parent]."""
    samples = Tensors(count) if of_torch else Samples(count)
    return (OfTorch if of_torch else Loader)(samples, batch_size, num_workers, context, begin)


def proportional(pid):
    """Bytes of a process by the kernel's own division of what is shared, and those that are its alone."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if rest.endswith("kB\n"):
                found[name] = int(rest.split()[0]) << 10
    return found["Pss"], found["Private_Clean"] + found["Private_Dirty"]
