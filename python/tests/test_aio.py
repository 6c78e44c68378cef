"""kumiki.aio: what is not asyncio's own. The rest is held by asyncio's tests (test_cpython.py)."""

import asyncio
import os
import signal
import threading
import unittest
from unittest import mock

import kumiki
import kumiki.aio


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

    def test_a_loop_of_another_thread_has_children_too(self):
        ends = []

        async def main():
            child = await kumiki.aio.create_subprocess_shell("exit 5")
            ends.append(await child.wait())

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join()
        self.assertEqual(ends, [5])


if __name__ == "__main__":
    unittest.main()
