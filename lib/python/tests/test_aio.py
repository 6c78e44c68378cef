"""kumiki.aio: what is not asyncio's own. The rest is held by asyncio's tests (test_cpython.py)."""

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from unittest import mock

import kumiki
import kumiki.aio


# Starts that are given up at a drawn step.
STARTS = int(os.environ.get("KUMIKI_AIO_STARTS", "1000"))


class Aio(unittest.IsolatedAsyncioTestCase):
    async def test_streams_and_ends_are_asyncio_s(self):
        cat = await kumiki.aio.create_subprocess_exec("cat", stdin=kumiki.PIPE, stdout=kumiki.PIPE)
        self.assertIsInstance(cat, asyncio.subprocess.Process)
        self.assertIsNone(cat.returncode)
        cat.stdin.write(b"one\n")
        self.assertEqual(await cat.stdout.readline(), b"one\n")
        self.assertEqual(await cat.communicate(b"two\n"), (b"two\n", None))
        self.assertEqual(cat.returncode, 0)
        shell = await kumiki.aio.create_subprocess_shell("echo out; echo err >&2; exit 3", stderr=-1)
        self.assertEqual((await shell.communicate(), shell.returncode), ((None, b"err\n"), 3))

    async def test_it_takes_the_arguments_of_popen(self):
        child = await kumiki.aio.create_subprocess_exec("nice", stdout=kumiki.PIPE, nice=7)
        self.assertEqual((await child.communicate())[0], b"7\n")
        for named in [{"text": True}, {"bufsize": 1}, {"encoding": "utf-8"}, {"shell": True}]:
            with self.assertRaises(ValueError):
                await kumiki.aio.create_subprocess_exec("true", **named)
        with self.assertRaises(ValueError):
            await kumiki.aio.create_subprocess_shell(["true"])
        with self.assertRaises(FileNotFoundError):
            await kumiki.aio.create_subprocess_exec("/nonexistent")

    async def test_many_children_need_no_thread(self):
        threads = threading.active_count()
        start = kumiki.aio.create_subprocess_exec
        children = await asyncio.gather(*(start("sleep", "1000") for _ in range(50)))
        self.assertEqual(threading.active_count(), threads)
        for child in children:
            child.kill()
        ends = await asyncio.gather(*(child.wait() for child in children))
        self.assertEqual(ends, [-signal.SIGKILL] * 50)
        self.assertEqual(threading.active_count(), threads)

    async def test_no_descriptor_is_left(self):
        async def once():
            child = await kumiki.aio.create_subprocess_exec("true", stdout=kumiki.PIPE)
            await child.communicate()

        await once()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await once()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    async def test_without_pidfds_a_thread_waits(self):
        with mock.patch("os.pidfd_open", side_effect=OSError(38, "as in an old container")):
            child = await kumiki.aio.create_subprocess_exec("sh", "-c", "exit 4")
            self.assertEqual(await child.wait(), 4)

    async def test_who_is_cancelled_leaves_no_child(self):
        async def start():
            await kumiki.aio.create_subprocess_exec("sleep", "1000")

        task = asyncio.ensure_future(start())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        with self.assertRaises(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) == (0, 0):
                await asyncio.sleep(0.01)

    async def test_who_waits_for_it_elsewhere_is_told_of(self):
        child = await kumiki.aio.create_subprocess_exec("sleep", "1000")
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        with self.assertLogs("asyncio", "WARNING"):
            self.assertEqual(await child.wait(), 255)

    def test_who_is_cancelled_at_any_step_ends_and_leaves_nothing(self):
        """A start is given up after so many turns of the loop: alone, in a loop that lives on; with all other tasks,
        as asyncio.run does at its end; twice. It ends, with its child, and leaves no descriptor."""
        every = dict(stdin=kumiki.PIPE, stdout=kumiki.PIPE, stderr=kumiki.PIPE)
        ways = {"alone": self._alone, "twice": self._twice, "all": self._all}
        self.addCleanup(signal.alarm, 0)
        asyncio.run(asyncio.sleep(0))
        before = self._descriptors()
        for program in (["sleep", "1000"], ["true"], ["cat"]):
            for way, give_up in ways.items():
                cancelled = 0
                for turns in range(12):
                    with self.subTest(program=program[0], way=way, turns=turns):
                        # What hangs is ended, and its line is above.
                        signal.alarm(30)
                        cancelled += asyncio.run(give_up(program, every, turns))
                        self._no_child()
                        self.assertEqual(self._descriptors(), before)
                self.assertGreater(cancelled, 3, "no start was given up half way")

    async def _begun(self, program, every, turns):
        task = asyncio.ensure_future(kumiki.aio.create_subprocess_exec(*program, **every))
        # One that was refused may be asked by nobody.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        for _ in range(turns):
            await asyncio.sleep(0)
        return task

    async def _alone(self, program, every, turns, times=1):
        task = await self._begun(program, every, turns)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        if task.cancelled():
            # The loop goes on, also with the numbers of the descriptors that were closed.
            other = await kumiki.aio.create_subprocess_exec("echo", "fine", stdout=kumiki.PIPE)
            self.assertEqual((await other.communicate())[0], b"fine\n")
            return 1
        child = task.result()
        if child.returncode is None:
            child.kill()
        await child.communicate()
        return 0

    async def _twice(self, program, every, turns):
        return await self._alone(program, every, turns, times=2)

    async def _all(self, program, every, turns):
        task = await self._begun(program, every, turns)
        if not task.done():
            # The end of the loop cancels it, and each task that is left.
            return 1
        child = task.result()
        if child.returncode is None:
            child.kill()
        await child.communicate()
        return 0

    def test_starts_that_are_cancelled_at_drawn_steps_leave_nothing(self):
        seed = int(os.environ.get("KUMIKI_AIO_SEED", random.randrange(1 << 32)))
        draw, ways = random.Random(seed), (self._alone, self._twice, self._all)
        self.addCleanup(signal.alarm, 0)
        asyncio.run(asyncio.sleep(0))
        before, cancelled, left = self._descriptors(), 0, STARTS
        while left > 0:
            together = min(left, draw.choice((1, 1, 5, 20)))
            left -= together

            async def main():
                return await asyncio.gather(*(self._drawn(draw, draw.choice(ways)) for _ in range(together)))

            with self.subTest(seed=seed, left=left):
                signal.alarm(60)
                cancelled += sum(asyncio.run(main()))
                self._no_child()
                self.assertEqual(self._descriptors(), before)
        self.assertGreater(cancelled, STARTS // 8, "few starts were given up half way")

    async def _drawn(self, draw, way):
        program = draw.choice((["sleep", "1000"], ["true"], ["cat"], ["/nowhere"]))
        pipes = {name: draw.choice((None, kumiki.PIPE)) for name in ("stdin", "stdout", "stderr")}
        pipes = {name: pipe or kumiki.DEVNULL for name, pipe in pipes.items()}
        await asyncio.sleep(draw.choice((0, 0, draw.random() / 100)))
        try:
            return await way(program, pipes, draw.randrange(9))
        except FileNotFoundError:
            return 0

    def _descriptors(self):
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def _no_child(self):
        """Waits, for it may be ending: a start that was given up twice does not."""
        with warnings.catch_warnings():
            # The loop's end may have come with the start's.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass

    def test_a_pipe_that_cannot_be_connected_is_an_error(self):
        for refused in ("connect_write_pipe", "connect_read_pipe"):

            async def main():
                loop = asyncio.get_running_loop()
                with mock.patch.object(loop, refused, side_effect=ValueError("no such pipe")):
                    with self.assertRaisesRegex(ValueError, "no such pipe"):
                        await kumiki.aio.create_subprocess_exec("sleep", "1000", stdin=-1, stdout=-1)

            signal.alarm(30)
            self.addCleanup(signal.alarm, 0)
            before = self._descriptors()
            asyncio.run(main())
            self._no_child()
            self.assertEqual(self._descriptors(), before)

    def test_a_loop_that_is_closed_over_its_children_leaves_nothing(self):
        for pipes in ({}, dict(stdin=-1, stdout=-1)):

            async def main():
                start = kumiki.aio.create_subprocess_exec
                return [await start("sleep", "1000", **pipes) for _ in range(20)]

            before = self._descriptors()
            with warnings.catch_warnings():
                # Each child, and each of its pipes, is said to be unclosed.
                warnings.simplefilter("ignore", ResourceWarning)
                asyncio.run(main())
                self.assertEqual(self._descriptors(), before)
            self._all_gone()

    def _all_gone(self):
        for _ in range(2000):
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                return
            time.sleep(0.01)
        self.fail("children are left")

    def test_a_loop_of_another_thread_has_children_too(self):
        ends = []

        async def main():
            child = await kumiki.aio.create_subprocess_shell("exit 5")
            ends.append(await child.wait())

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join()
        self.assertEqual(ends, [5])



async def cancelled_before_its_pipes_are_connected():
    """103847: nobody ever hears of the start again."""
    every = dict(stdin=kumiki.PIPE, stdout=kumiki.PIPE, stderr=kumiki.PIPE)
    for turns in range(6):
        task = asyncio.ensure_future(kumiki.aio.create_subprocess_exec("sleep", "0.001", **every))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


async def ended_while_others_start():
    """125502: the loop's end cancels starts, and waits for ever."""

    async def one():
        child = await kumiki.aio.create_subprocess_exec("sleep", "0.002", stdout=kumiki.PIPE)
        await child.communicate()

    pending = set()
    try:
        async with asyncio.timeout(0.3):
            while True:
                while len(pending) < 20:
                    pending.add(asyncio.create_task(one()))
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        pass


async def beside_a_task_that_fails():
    """133536: the start is cancelled by its group, and hangs."""

    async def starts():
        await kumiki.aio.create_subprocess_shell("ls", stdin=kumiki.PIPE, stdout=kumiki.PIPE, stderr=kumiki.PIPE)

    async def fails():
        raise KeyError("task 2 failed")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(starts())
            group.create_task(fails())
    except* KeyError:
        pass
    else:
        raise AssertionError("no task has failed")


async def terminated_and_left():
    """88050: a child that was ended just before the loop."""

    async def inner():
        child = await asyncio.create_task(
            kumiki.aio.create_subprocess_exec("sleep", "10", stdout=kumiki.PIPE, stderr=kumiki.PIPE)
        )
        try:
            await asyncio.wait_for(child.wait(), 0.02)
        except asyncio.TimeoutError:
            child.terminate()

    await asyncio.wait_for(inner(), 60)


async def ended_while_a_grandchild_has_its_pipe():
    """119710: the child's end is not seen before the grandchild's."""
    child = await kumiki.aio.create_subprocess_shell("sleep 1000 & echo $!", stdout=kumiki.PIPE)
    grandchild = int(await child.stdout.readline())
    try:
        assert await asyncio.wait_for(child.wait(), 60) == 0
    finally:
        os.kill(grandchild, signal.SIGKILL)
    assert await child.stdout.read() == b""


async def cancelled_between_its_outputs():
    """139373: what communicate() had read is lost."""
    code = "import signal; print('first', flush=True); signal.sigwait([signal.SIGUSR1]); print('last')"
    line = [sys.executable, "-c", code]
    blocked = [signal.SIGUSR1]
    child = await kumiki.aio.create_subprocess_exec(*line, stdout=kumiki.PIPE, signal_mask=blocked)
    talk = asyncio.ensure_future(child.communicate())
    while not child._read[1]:
        await asyncio.sleep(0.01)
    talk.cancel()
    await asyncio.wait([talk])
    child.send_signal(signal.SIGUSR1)
    assert (await child.communicate())[0] == b"first\nlast\n"
    # Input that was not all written, in the middle of it.
    child = await kumiki.aio.create_subprocess_exec("sh", "-c", "sleep 0.2; cat", stdin=kumiki.PIPE, stdout=kumiki.PIPE)
    data = random.randbytes(1 << 20)
    try:
        await asyncio.wait_for(child.communicate(data), 0.05)
    except asyncio.TimeoutError:
        pass
    try:
        await child.communicate(b"more")
    except ValueError:
        pass
    else:
        raise AssertionError("input was taken twice")
    assert (await child.communicate())[0] == data


async def cancelled_with_its_task():
    """118516: who cancels a start ends the child."""
    task = asyncio.create_task(kumiki.aio.create_subprocess_exec("sleep", "1000"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    try:
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            await asyncio.sleep(0.01)
    except ChildProcessError:
        pass


# Issues of CPython's tracker, by their numbers, as a program each.
TRACKER = [
    cancelled_before_its_pipes_are_connected,
    ended_while_others_start,
    beside_a_task_that_fails,
    terminated_and_left,
    ended_while_a_grandchild_has_its_pipe,
    cancelled_between_its_outputs,
    cancelled_with_its_task,
]


class Tracker(unittest.TestCase):
    def test_what_was_reported_of_asyncio_is_not_so_here(self):
        for program in TRACKER:
            with self.subTest(program.__doc__.split(":")[0]):
                # A process of its own: one that hangs is told of, and what it says at its end is seen.
                line = [sys.executable, "-X", "dev", __file__, program.__name__]
                said = subprocess.run(line, capture_output=True, text=True, timeout=120)
                self.assertEqual(said.returncode, 0, said.stderr)
                noise = [text for text in said.stderr.splitlines() if "Error" in text or "Traceback" in text]
                self.assertEqual(noise, [], said.stderr)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in (program.__name__ for program in TRACKER):
        asyncio.run(globals()[sys.argv[1]]())
    else:
        unittest.main()
