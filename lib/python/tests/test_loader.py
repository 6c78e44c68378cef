"""A loader of data by processes of the start method "kumiki": PyTorch's where it is there, else one of its shape.

What its processes hold is what those of "spawn" hold, and nothing of the program: counted by the kernel. How long they
take to start is a bench's (dev/bench/python/loader.py)."""

import gc
import multiprocessing
import unittest

import kumiki.mp
import loaders

WORKERS, COUNT, BATCH = 2, 4096, 64
# What the program has beside its data: tuples, which a collector of garbage writes to.
BALLAST = 100_000


def collect(_):
    gc.collect()


class Loader(unittest.TestCase):
    of_torch = False

    def rows(self, method, begin=None):
        """All that a loader gives in two rounds, and the memory of its processes: PSS, and theirs alone."""
        context = multiprocessing.get_context(method)
        loader = loaders.made(COUNT, BATCH, WORKERS, context, begin, self.of_torch)
        try:
            rounds = [[row for batch in loader for row in batch] for _ in range(2)]
            pids = {row[2] for row in rounds[0]}
            memory = [loaders.proportional(pid) for pid in pids]
        finally:
            loader.close()
        return rounds, [sum(of) for of in zip(*memory)]

    def test_batches_come_in_order_of_processes_of_the_template(self):
        rounds, _ = self.rows("kumiki")
        for rows in rounds:
            self.assertEqual([row[:2] for row in rows], [[number, len("sample-00000000.jpg")] for number in range(COUNT)])
            self.assertEqual({row[3] for row in rows}, {kumiki.mp.template().pid})
            self.assertEqual(len({row[2] for row in rows}), WORKERS)
        # The same processes in both rounds.
        self.assertEqual({row[2] for row in rounds[0]}, {row[2] for row in rounds[1]})

    def test_its_processes_hold_no_more_than_those_of_spawn(self):
        ballast = [(number, str(number)) for number in range(BALLAST)]
        _, (kumiki_pss, kumiki_own) = self.rows("kumiki", collect)
        _, (spawn_pss, spawn_own) = self.rows("spawn", collect)
        _, (_, fork_own) = self.rows("fork", collect)
        self.assertEqual(len(ballast), BALLAST)
        said = f"PSS {kumiki_pss} against {spawn_pss} by spawn, alone {kumiki_own} against {spawn_own}, {fork_own} by fork"
        self.assertLessEqual(kumiki_pss, spawn_pss, said)
        self.assertLessEqual(kumiki_own, spawn_own, said)
        # What the test is about is there: a fork of the program copies that.
        self.assertGreater(fork_own, kumiki_own, said)


@unittest.skipUnless(loaders.HAS_TORCH, "there is no torch: a loader of its shape is tried in its place; Debian's is python3-torch")
class OfTorch(Loader):
    of_torch = True

    @classmethod
    def setUpClass(cls):
        # Imported where all processes have it: what each would import takes seconds.
        multiprocessing.set_forkserver_preload(["torch", "torch.utils.data"])
        if kumiki.mp._current is not None:
            kumiki.mp._current.close()
            kumiki.mp._forget()


if __name__ == "__main__":
    unittest.main()
