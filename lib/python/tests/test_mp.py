"""multiprocessing with the start method "kumiki": what is not multiprocessing's own. The rest is held by CPython's tests
(test_cpython.py --multiprocessing)."""

import concurrent.futures
import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from multiprocessing import shared_memory

import kumiki.mp

BALLAST = None


def square(number):
    return number * number


def has_ballast():
    return BALLAST is not None


def put(queue, value):
    queue.put((value, os.getppid()))


class Squares:
    """A data set of PyTorch."""

    def __len__(self):
        return 64

    def __getitem__(self, at):
        import torch

        return torch.tensor([at, at * at, os.getppid(), os.getpid()])


def fails():
    raise ValueError("on purpose")


def exits(code):
    sys.exit(code)


def nested(connection):
    context = multiprocessing.get_context("kumiki")
    with context.Pool(2) as pool:
        connection.send((pool.map(square, range(5)), multiprocessing.get_start_method(), os.getppid()))


def puts_and_has_it_put(queue):
    queue.put(2)
    child = multiprocessing.Process(target=queue.put, args=(multiprocessing.get_start_method(),))
    child.start()
    child.join()


def writes(name):
    memory = shared_memory.SharedMemory(name)
    memory.buf[0] = 7
    memory.close()


def counts(value, lock):
    for _ in range(100):
        with lock:
            value.value += 1


class Unknown:
    """What the process cannot make again."""

    def __reduce__(self):
        return int, ("no number",)

    def __call__(self):
        pass


def sleeps():
    time.sleep(1000)


def sees_its_end(connection):
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    connection.send("parent has ended")


def starts_one_and_ends(connection):
    context = multiprocessing.get_context("kumiki")
    context.Process(target=sees_its_end, args=(connection,)).start()
    os._exit(0)


class Multiprocessing(unittest.TestCase):
    def setUp(self):
        self.context = multiprocessing.get_context("kumiki")

    def test_processes_are_made_of_the_template(self):
        queue = self.context.Queue()
        started = [self.context.Process(target=put, args=(queue, number)) for number in range(3)]
        for each in started:
            each.start()
        found = sorted(queue.get(timeout=60) for _ in started)
        self.assertEqual(found, [(number, kumiki.mp.template().pid) for number in range(3)])
        for each in started:
            each.join(60)
            self.assertEqual(each.exitcode, 0)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "there is no torch")
    def test_a_data_loader_of_pytorch_takes_it(self):
        from torch.utils.data import DataLoader

        loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context=multiprocessing.get_context("kumiki"), persistent_workers=True)
        for _ in range(2):
            rows = [row for batch in loader for row in batch.tolist()]
            self.assertEqual([row[1] for row in rows], [number * number for number in range(64)])
            self.assertEqual({row[2] for row in rows}, {kumiki.mp.template().pid})
            self.assertEqual(len({row[3] for row in rows}), 2)

    def test_they_have_nothing_of_this_program(self):
        global BALLAST
        BALLAST = bytearray(1 << 20)
        with self.context.Pool(1) as pool:
            self.assertFalse(pool.apply(has_ballast))

    def test_ends_are_told_as_by_others(self):
        for target, args, code in ((exits, (3,), 3), (fails, (), 1), (os._exit, (9,), 9), (sleeps, (), -signal.SIGTERM)):
            child = self.context.Process(target=target, args=args)
            with tempfile.TemporaryFile() as silent:
                saved = os.dup(2)
                os.dup2(silent.fileno(), 2)
                child.start()
                os.dup2(saved, 2)
                os.close(saved)
            if target is sleeps:
                self.assertIsNone(child.exitcode)
                self.assertTrue(child.is_alive())
                child.terminate()
            multiprocessing.connection.wait([child.sentinel])
            child.join()
            self.assertEqual(child.exitcode, code)
            child.close()

    def test_what_a_process_cannot_be_made_of_is_told(self):
        with tempfile.TemporaryFile("w+") as said:
            saved = os.dup(2)
            os.dup2(said.fileno(), 2)
            try:
                child = self.context.Process(target=Unknown())
                child.start()
                child.join(60)
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            said.seek(0)
            self.assertIn("ValueError: invalid literal", said.read())
        self.assertEqual(child.exitcode, 1)

    def test_pools_managers_memory_and_futures_work(self):
        with self.context.Pool(3) as pool:
            self.assertEqual(pool.map(square, range(50)), [n * n for n in range(50)])
            with self.assertRaisesRegex(ValueError, "on purpose"):
                pool.apply(fails)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=self.context) as pool:
            self.assertEqual(list(pool.map(square, range(20))), [n * n for n in range(20)])
        with self.context.Manager() as manager:
            shared = manager.list([1])
            self.context.Process(target=shared.append, args=(2,)).start()
            for _ in range(500):
                if len(shared) == 2:
                    break
                time.sleep(0.01)
            self.assertEqual(list(shared), [1, 2])
        value, lock = self.context.Value("i", 0), self.context.Lock()
        children = [self.context.Process(target=counts, args=(value, lock)) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        self.assertEqual(value.value, 300)
        memory = shared_memory.SharedMemory(create=True, size=10)
        child = self.context.Process(target=writes, args=(memory.name,))
        child.start()
        child.join(60)
        self.assertEqual((child.exitcode, memory.buf[0]), (0, 7))
        memory.close()
        memory.unlink()

    def test_a_process_has_processes_of_the_same_template(self):
        ours, theirs = self.context.Pipe()
        child = self.context.Process(target=nested, args=(theirs,))
        child.start()
        self.assertTrue(ours.poll(60))
        squares, method, parent = ours.recv()
        self.assertEqual((squares, method, parent), ([0, 1, 4, 9, 16], "kumiki", kumiki.mp.template().pid))
        child.join(60)

    def test_the_default_is_inherited(self):
        multiprocessing.set_start_method("kumiki", force=True)
        self.addCleanup(multiprocessing.set_start_method, None, force=True)
        queue = multiprocessing.Queue()
        child = multiprocessing.Process(target=puts_and_has_it_put, args=(queue,))
        child.start()
        child.join(60)
        self.assertEqual({queue.get(timeout=60), queue.get(timeout=60)}, {2, "kumiki"})
        # Who has not heard of it starts, and is as it is by itself.
        child = multiprocessing.get_context("spawn").Process(target=square, args=(1,))
        child.start()
        child.join(60)
        self.assertEqual(child.exitcode, 0)

    def test_a_process_sees_the_end_of_who_has_started_it(self):
        ours, theirs = self.context.Pipe()
        child = self.context.Process(target=starts_one_and_ends, args=(theirs,))
        child.start()
        self.assertTrue(ours.poll(60))
        self.assertEqual(ours.recv(), "parent has ended")
        child.join(60)

    def test_a_template_that_was_killed_is_made_again(self):
        with self.context.Pool(1) as pool:
            pool.apply(square, (1,))
        first = kumiki.mp.template().pid
        os.kill(first, signal.SIGKILL)
        for _ in range(500):
            if kumiki.mp._current is None or kumiki.mp._current._process.poll() is not None:
                break
            time.sleep(0.01)
        with self.context.Pool(1) as pool:
            self.assertEqual(pool.apply(square, (2,)), 4)
        self.assertNotEqual(kumiki.mp.template().pid, first)

    def test_no_descriptor_is_left(self):
        def once():
            child = self.context.Process(target=square, args=(1,))
            child.start()
            child.join(60)
            child.close()

        once()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            once()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "there is no numpy")
    def test_no_two_processes_draw_the_same_numbers_of_numpy(self):
        # Those of "fork" do, as each has a copy of the program's.
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text(
                "import multiprocessing, kumiki.mp\n"
                "def draw(connection):\n"
                "    import numpy.random\n"
                "    connection.send(float(numpy.random.random()))\n"
                "if __name__ == '__main__':\n"
                "    multiprocessing.set_forkserver_preload(['numpy.random'])\n"
                "    context = multiprocessing.get_context('kumiki')\n"
                "    ours, theirs = context.Pipe()\n"
                "    for _ in range(5):\n"
                "        child = context.Process(target=draw, args=(theirs,))\n"
                "        child.start()\n"
                "        child.join()\n"
                "    print(len({ours.recv() for _ in range(5)}))\n"
            )
            said = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
        self.assertEqual((said.stdout, said.stderr), ("5\n", ""))

    def test_a_script_without_its_guard_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text(
                "import multiprocessing, kumiki.mp\n"
                "multiprocessing.get_context('kumiki').Process(target=print).start()\n"
            )
            said = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("__main__", said.stderr)


if __name__ == "__main__":
    signal.alarm(600)
    unittest.main()
