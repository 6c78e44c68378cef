"""kumiki.Template where a program forks, where descriptors are short, and where a child ends too soon."""

import errno
import functools
import os
import pathlib
import resource
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import kumiki
from kumiki import _packets, files


def few_descriptors(most=24):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def leaves(count):
    """A set-up after which so many descriptors are free."""
    few_descriptors(48)
    held = []
    while True:
        try:
            held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
    for fd in held[len(held) - count :]:
        os.close(fd)


def no_pidfds():
    def refused(pid, flags=0):
        # As many as were asked for have failed, and then it works again.
        os.pidfd_open = plain
        raise OSError(24, os.strerror(24))

    plain, os.pidfd_open = os.pidfd_open, refused


def children_end_at_once():
    os.register_at_fork(after_in_child=lambda: os._exit(7))


def slow():
    time.sleep(1)


def answer():
    return 42


def touched_after(seconds, path):
    time.sleep(seconds)
    pathlib.Path(path).write_text("ran")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def forked(work):
    """What a child of fork(2) has of it, as its exit status; None if it hangs."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


class Edges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_child_of_fork_has_no_lock_of_a_thread_that_is_gone(self):
        with kumiki.Template().ready() as template:
            taken, let_go = threading.Event(), threading.Event()

            def hold():
                with template._lock:
                    taken.set()
                    let_go.wait()

            thread = threading.Thread(target=hold)
            thread.start()
            taken.wait()
            try:
                self.assertEqual(forked(lambda: template.run(answer)), 42)
            finally:
                let_go.set()
                thread.join()
            self.assertEqual(template.run(answer), 42)

    def test_a_child_of_fork_takes_no_answer_from_its_parent(self):
        with kumiki.Template(setup=slow) as template:

            def start():
                try:
                    template.run(answer)
                except kumiki.TemplateError as error:
                    return 7 if "was not ready when this process was forked" in str(error) else 1
                return 0

            self.assertEqual(forked(start), 7)
            self.assertEqual(template.run(answer), 42)
            child = template.start(time.sleep, 0.3)

            def forget():
                # It has ended by then, and what tells of that is the parent's.
                time.sleep(0.6)
                child.__del__()
                return 0

            self.assertEqual(forked(forget), 0)
            with child:
                self.assertEqual((child.result(5), child.wait(5)), (None, 0))

    def test_a_child_of_fork_learns_by_poll_that_a_child_has_ended(self):
        with kumiki.Template() as template:
            child = template.start(time.sleep, 0.3)

            def poll():
                end = time.monotonic() + 20
                while child.poll() is None:
                    if time.monotonic() > end:
                        return 1
                    time.sleep(0.02)
                # What it ended with only the parent is told.
                return 0 if child.returncode == 255 else 2

            self.assertEqual(forked(poll), 0)
            with child:
                self.assertEqual(child.wait(5), 0)

    def test_a_template_that_has_too_few_descriptors_says_so_and_goes_on(self):
        with kumiki.Template(setup=few_descriptors) as template:
            self.assertEqual(template.run(answer), 42)
            held = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
            before = descriptors()
            for _ in range(3):
                with self.assertRaisesRegex(OSError, "Too many open files.*in the template"):
                    template.run(answer, pass_fds=held)
            self.assertEqual(descriptors(), before)
            self.assertEqual(template.run(answer), 42)
            for fd in held:
                os.close(fd)

    def test_however_few_descriptors_a_template_has_it_says_so_at_once(self):
        refused = []
        for count in (0, 1, 2, 3, 4, 6, 8, 10, 30):
            begin = time.monotonic()
            try:
                with kumiki.Template(setup=functools.partial(leaves, count)) as template:
                    template.ready()
                    for _ in range(3):
                        try:
                            self.assertEqual(template.run(answer), 42)
                        except OSError as error:
                            self.assertEqual(error.errno, errno.EMFILE)
                            if count == 2:
                                self.assertRegex(str(error), "RLIMIT_NOFILE, which is 48 .in the template")
                            refused.append(count)
            except OSError as error:
                # It had none for what a template is besides.
                self.assertEqual(error.errno, errno.EMFILE)
                self.assertLess(count, 3)
            self.assertLess(time.monotonic() - begin, 8, f"{count} free")
        self.assertLessEqual({3, 4, 6}, set(refused))
        self.assertNotIn(30, refused)

    def test_a_child_that_nobody_can_hear_of_is_ended(self):
        there = self.folder / "there"
        with kumiki.Template(setup=no_pidfds) as template:
            before = descriptors()
            with self.assertRaises(OSError) as raised:
                template.run(touched_after, 0.5, str(there))
            self.assertEqual(raised.exception.errno, 24)
            # It came between, and was not left behind.
            children = pathlib.Path(f"/proc/{template.pid}/task/{template.pid}/children").read_text()
            self.assertEqual(children.split(), [])
            self.assertEqual(template.run(answer), 42)
            self.assertEqual(descriptors(), before)
            time.sleep(0.7)
            self.assertFalse(there.exists())

    def test_a_program_without_descriptors_leaves_no_child(self):
        there = self.folder / "there"
        with kumiki.Template().ready() as template:
            template.run(answer)
            before = descriptors()
            plain, held = _packets.receive, []

            def without(of, flags=0):
                try:
                    while True:
                        held.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    return plain(of, flags)

            few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 20, most))
            try:
                with unittest.mock.patch.object(_packets, "receive", without):
                    with self.assertRaisesRegex(OSError, "RLIMIT_NOFILE"):
                        template.run(touched_after, 0.5, str(there))
            finally:
                for fd in held:
                    os.close(fd)
                resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
            self.assertEqual(descriptors(), before)
            self.assertEqual(template.run(answer), 42)
            time.sleep(0.7)
            self.assertFalse(there.exists())

    def test_a_program_without_descriptors_is_told_that_its_template_is_gone(self):
        before = descriptors()
        template = kumiki.Template()
        with unittest.mock.patch.object(_packets, "receive", side_effect=_packets.NoDescriptors(b"", [])):
            with self.assertRaisesRegex(OSError, "RLIMIT_NOFILE"):
                template.ready()
        with self.assertRaisesRegex(kumiki.TemplateError, "closed"):
            template.start(answer)
        self.assertEqual(descriptors(), before)

    def test_a_template_whose_program_is_not_there_leaves_no_descriptor(self):
        before = descriptors()
        with unittest.mock.patch.object(sys, "executable", "/nowhere/python"):
            try:
                kumiki.Template()
            except FileNotFoundError as error:
                # Its traceback holds frames, and they what they have open.
                self.assertEqual(descriptors(), before, error)
            else:
                self.fail("a template of a program that is not there")

    def test_a_child_that_ends_before_its_function_is_told_at_once(self):
        with kumiki.Template(setup=children_end_at_once) as template:
            begin = time.monotonic()
            with self.assertRaisesRegex(kumiki.TemplateError, "ended with status 7, before its function"):
                template.run(answer)
            self.assertLess(time.monotonic() - begin, 5)

    def test_a_child_of_fork_has_files_whatever_threads_were_doing(self):
        paths = [__file__] * 3000
        self.assertEqual(len(files.read_many(paths)), 3000)
        ended = threading.Event()

        def work():
            while not ended.is_set():
                files.stat_many(paths)
                files.read_many(paths[:100])

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                count = forked(lambda: len(files.stat_many(paths)) // 100 + len(files.read_many(paths[:200])) // 100)
                self.assertEqual(count, 32)
        finally:
            ended.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    unittest.main()
