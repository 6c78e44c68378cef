"""kumiki.Template: what a child is after its fork, what comes back of it, and how it ends."""

import asyncio
import atexit
import concurrent.futures
import contextlib
import faulthandler
import functools
import importlib
import importlib.util
import logging
import logging.handlers
import multiprocessing
import os
import pathlib
import queue
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from multiprocessing import shared_memory

import kumiki
from kumiki import files

LOCK = threading.Lock()
LOOP = FOLDER = None
KEPT = []


# What templates set up.


def with_state():
    """All that a fork copies and a new process would not have."""
    global LOOP
    KEPT.append(b"x" * (1 << 25))
    random.seed(7)
    random.random()
    atexit.register(os.write, 1, b"the template's atexit\n")
    sys.stdout.write("said at set-up\n")
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"the template's handler\n"))
    LOOP = asyncio.new_event_loop()
    asyncio.set_event_loop(LOOP)
    faulthandler.enable()
    LOCK.acquire()
    LOCK.release()


def with_thread():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="a thread of the set-up").start()


def evaluated(count):
    import numexpr
    import numpy

    signal.alarm(60)
    numbers = numpy.arange(float(count))
    return numexpr.nthreads, float(numexpr.evaluate("sum(numbers * 2)"))


def with_numexpr_s_threads():
    import numexpr

    numexpr.set_num_threads(3)
    evaluated(1_000_000)


def with_numexpr_s_threads_and_another():
    with_numexpr_s_threads()
    with_thread()


def with_numpy():
    import numpy.random

    numpy.random.seed(7)


def draws_of_numpy():
    import numpy.random

    return float(numpy.random.random())


def with_a_thread_of_c():
    # Its watchdog is a thread that Python's list does not have.
    faulthandler.dump_traceback_later(1000, exit=False)


def with_a_wakeup():
    one, two = socket.socketpair()
    two.setblocking(False)
    signal.set_wakeup_fd(two.fileno())
    KEPT.append((one, two))


def wakeup():
    return signal.set_wakeup_fd(-1)


def with_locks_used():
    """Those that a thread may have had: of imports, of logs, of streams, of a queue and a pool."""

    def use():
        logging.getLogger("kumiki.test").warning("of a thread")
        importlib.import_module("colorsys")
        print(end="", file=sys.stderr, flush=True)
        KEPT[0].put(1)

    logging.basicConfig(stream=open(os.devnull, "w"))
    KEPT.append(queue.Queue())
    for _ in range(3):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(abs, range(20)))


def uses_locks():
    signal.alarm(60)
    logging.getLogger("kumiki.test").warning("of a child")
    importlib.import_module("wave")
    print("of a child", flush=True)
    KEPT[0].put(2)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [KEPT[0].get(timeout=50) for _ in range(4)], list(pool.map(abs, range(3))), threading.active_count()


def with_a_child():
    # It has ended, and multiprocessing has not looked.
    multiprocessing.get_context("fork").Process(target=abs, args=(1,)).start()


def of_multiprocessing():
    return multiprocessing.current_process().name, multiprocessing.active_children(), threading.current_thread().name


def with_lasting_thread():
    threading.Thread(target=time.sleep, args=(1000,), name="a lasting one").start()


def that_fails():
    raise KeyError("no such model")


def that_ends():
    os._exit(7)


# What children run.


def add(*numbers):
    return sum(numbers)


def named(first, *, second):
    return first, second


def own_id():
    return os.getpid(), os.getppid()


def fails(error):
    raise error


def exits(code):
    sys.exit(code)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps():
    time.sleep(1000)


def draws():
    return random.random()


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass
    return found


def locks():
    return LOCK.acquire(timeout=5)


def runs_a_loop():
    async def main():
        await asyncio.sleep(0)
        return "ran"

    return asyncio.run(main())


def registers():
    atexit.register(os.write, 1, b"the child's atexit\n")
    print("printed")


def joins_threads():
    def late():
        time.sleep(0.1)
        print("a thread's")

    threading.Thread(target=late).start()


def is_interrupted():
    try:
        os.write(1, b"begun\n")
        time.sleep(1000)
    except KeyboardInterrupt:
        return "interrupted"


def crashes():
    faulthandler._sigsegv()


def has_become():
    return {
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": os.sched_getaffinity(0),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "leads": os.getsid(0) == os.getpid(),
        "ids": (os.getresuid(), os.getresgid(), os.getgroups()),
        "umask": os.umask(0),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "ignored": signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN,
    }


def host_name():
    os.uname()
    with open("/proc/sys/kernel/hostname", "w") as file:
        file.write("in-a-template")
    return os.uname().nodename


def reads(fd):
    return os.read(fd, 100)


def echoes():
    data = sys.stdin.read()
    print(data.upper(), end="")
    print("told", file=sys.stderr)
    return len(data)


def large(count):
    return b"x" * count


def with_a_descriptor():
    os.dup2(os.open("/dev/zero", os.O_RDONLY), 61)


def with_a_thread_that_ends():
    thread = threading.Thread(target=time.sleep, args=(0.05,), daemon=True)
    thread.start()


def with_files():
    files.exists_many(["/nowhere/%d" % number for number in range(9000)])


def with_finalizer():
    KEPT.append(tempfile.TemporaryDirectory())
    logging.getLogger("kumiki.test").addHandler(logging.NullHandler())


def makes_a_folder():
    handler = logging.handlers.MemoryHandler(1000, target=logging.StreamHandler(sys.stdout))
    logging.getLogger().addHandler(handler)
    logging.getLogger().warning("kept in memory")
    KEPT.append(handler)
    KEPT.append(tempfile.TemporaryDirectory())
    return KEPT[0].name, KEPT[-1].name


def folder_then():
    return FOLDER


def with_folder():
    global FOLDER
    FOLDER = os.getcwd()


def has_a_loop():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return type(asyncio.get_event_loop()).__name__


def counts_files(names):
    return len(files.exists_many(names))


def writes_there(name):
    memory = shared_memory.SharedMemory(name)
    memory.buf[0] = 7
    memory.close()


def makes_memory():
    memory = shared_memory.SharedMemory(create=True, size=10)
    memory.buf[0] = 8
    memory.close()
    return memory.name


def main_module():
    return sys.modules["__main__"].__name__, __name__


class Template(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.template = kumiki.Template(["json", "decimal"])

    @classmethod
    def tearDownClass(cls):
        cls.template.close()

    def output(self, template, function, *args, **options):
        with template.start(function, *args, stdout=subprocess.PIPE, text=True, **options) as child:
            out, _ = child.communicate(timeout=60)
        return out

    def test_a_result_comes_back(self):
        self.assertEqual(self.template.run(add, 1, 2, 39), 42)
        self.assertEqual(self.template.run(functools.partial(named, 1, second=2)), (1, 2))
        self.assertEqual(len(self.template.run(large, 5_000_000)), 5_000_000)
        self.assertEqual(self.template.run(len, "x" * 3_000_000), 3_000_000)
        child, parent = self.template.run(own_id)
        self.assertNotEqual(child, os.getpid())
        self.assertEqual(parent, self.template.pid)

    def test_a_child_has_what_the_template_imported(self):
        self.assertIn("decimal", self.template.run(modules))
        self.assertNotIn("decimal", kumiki.Template().ready().run(modules))
        self.assertEqual(self.template.run(main_module), ("__mp_main__", "__mp_main__"))

    def test_an_exception_comes_back_with_its_traceback(self):
        with self.assertRaises(ZeroDivisionError) as raised:
            self.template.run(fails, ZeroDivisionError("by nought"))
        self.assertIn("in fails", str(raised.exception.__cause__))
        with self.assertRaises(SystemExit) as ended:
            self.template.run(exits, 3)
        self.assertEqual(ended.exception.code, 3)
        with self.template.start(exits, 3) as child:
            self.assertEqual(child.wait(), 3)
        # What cannot be pickled is said, and no child waits for ever.
        with self.assertRaisesRegex((TypeError, AttributeError, RuntimeError), "pickle|local|sent"):
            self.template.run(unpicklable)
        with self.assertRaisesRegex(RuntimeError, "Odd: of two"):
            self.template.run(raises_odd)
        with self.assertRaises((AttributeError, TypeError, Exception)):
            self.template.run(lambda: 1)

    def test_a_child_that_ends_without_a_result_is_told_of(self):
        with self.assertRaisesRegex(kumiki.TemplateError, "is_killed .* by signal 9"):
            self.template.run(is_killed)
        with self.template.start(is_killed) as child:
            self.assertEqual(child.wait(timeout=60), -signal.SIGKILL)
        with self.assertRaisesRegex(kumiki.TemplateError, "status 9"):
            self.template.run(os._exit, 9)

    def test_a_time_limit_ends_the_child(self):
        begun = time.monotonic()
        with self.assertRaises(subprocess.TimeoutExpired):
            self.template.run(sleeps, timeout=0.2)
        self.assertLess(time.monotonic() - begun, 100)
        with sleeping(self.template) as child:
            self.assertIsNone(child.poll())
            with self.assertRaises(subprocess.TimeoutExpired):
                child.wait(timeout=0.05)
            child.terminate()
            self.assertEqual(child.wait(timeout=60), -signal.SIGTERM)
            # Nobody's number is taken for its.
            child.kill()

    def test_its_output_is_that_of_a_subprocess(self):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with self.template.start(echoes, text=True, **pipes) as child:
            self.assertEqual(child.communicate("hello", timeout=60), ("HELLO", "told\n"))
            self.assertEqual((child.result(), child.returncode), (5, 0))
        with tempfile.TemporaryFile() as file:
            self.template.run(registers, stdout=file)
            file.seek(0)
            self.assertEqual(sorted(file.readlines()), [b"printed\n", b"the child's atexit\n"])
        self.assertEqual(self.output(self.template, joins_threads), "a thread's\n")
        self.template.run(registers, stdout=subprocess.DEVNULL)

    def test_what_is_written_at_set_up_is_written_once(self):
        script = (
            "import kumiki, sys\nsys.path.insert(0, {!r})\nimport test_template as t\n"
            "if __name__ == '__main__':\n with kumiki.Template(setup=t.with_state) as made:\n"
            "  made.run(t.add, 1)\n  made.run(t.add, 1)\n"
        ).format(str(pathlib.Path(__file__).parent))
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(script)
            file.flush()
            said = subprocess.run([sys.executable, file.name], capture_output=True, text=True)
        self.assertEqual((said.stdout, said.stderr), ("said at set-up\nthe template's atexit\n", ""))

    def test_no_two_children_draw_the_same_numbers(self):
        with kumiki.Template(setup=with_state) as template:
            self.assertEqual(len({template.run(draws) for _ in range(5)}), 5)

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "there is no numpy")
    def test_no_two_children_draw_the_same_numbers_of_numpy(self):
        with kumiki.Template(["numpy.random"], setup=with_numpy) as template:
            self.assertEqual(len({template.run(draws_of_numpy) for _ in range(5)}), 5)

    def test_locks_that_threads_of_the_set_up_had_are_free(self):
        with kumiki.Template(setup=with_locks_used) as template:
            with template.start(uses_locks, stdout=subprocess.PIPE, text=True) as child:
                self.assertEqual(child.communicate(timeout=60)[0], "of a child\n")
                self.assertEqual(child.result(), ([1, 1, 1, 2], [0, 1, 2], 3))

    def test_signals_wake_no_loop_of_the_set_up(self):
        with kumiki.Template(setup=with_a_wakeup) as template:
            self.assertEqual(template.run(wakeup), -1)

    def test_a_child_has_no_children_of_multiprocessing(self):
        with kumiki.Template(["multiprocessing"], setup=with_a_child) as template:
            self.assertEqual(template.run(of_multiprocessing), ("template", [], "MainThread"))

    def test_after_the_fork_it_is_as_new(self):
        with kumiki.Template(setup=with_state) as template:
            self.assertTrue(template.run(locks))
            self.assertEqual(template.run(runs_a_loop), "ran")
            # Its own functions at exit, and nobody else's.
            said = self.output(template, registers)
            self.assertEqual(sorted(said.splitlines()), ["printed", "the child's atexit"])
            # Handlers of the set-up are there, as all that it has set.
            with template.start(is_interrupted, stdout=subprocess.PIPE) as child:
                self.assertEqual(child.stdout.readline(), b"begun\n")
                child.send_signal(signal.SIGUSR1)
                self.assertEqual(child.stdout.readline(), b"the template's handler\n")
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.result(timeout=60), "interrupted")
            with template.start(crashes, stderr=subprocess.PIPE, text=True) as child:
                _, said = child.communicate(timeout=60)
            self.assertEqual(child.returncode, -signal.SIGSEGV)
            self.assertIn("in crashes", said)

    def test_objects_of_a_child_end_with_it_and_those_of_the_set_up_do_not(self):
        with kumiki.Template(setup=with_finalizer) as template:
            with template.start(makes_a_folder, stdout=subprocess.PIPE, text=True) as child:
                out, _ = child.communicate(timeout=60)
                set_up, own = child.result()
            self.assertEqual((out, os.path.exists(set_up), os.path.exists(own)), ("kept in memory\n", True, False))

    @unittest.skipIf(sys.version_info >= (3, 14), "a loop is made by whoever needs one")
    def test_a_child_is_asked_for_its_first_loop(self):
        with kumiki.Template(setup=with_state) as template:
            self.assertIn("Loop", template.run(has_a_loop))

    def test_a_folder_that_was_named_is_that_of_the_set_up(self):
        with tempfile.TemporaryDirectory() as folder, kumiki.Template(setup=with_folder, cwd=folder) as template:
            self.assertEqual(template.run(folder_then), os.path.realpath(folder))

    def test_a_number_that_the_set_up_has_open_is_refused(self):
        with tempfile.TemporaryFile() as file, kumiki.Template(setup=with_a_descriptor) as template:
            high = os.dup2(file.fileno(), 61)
            self.addCleanup(os.close, high)
            with self.assertRaisesRegex(OSError, "/dev/zero open as descriptor 61"):
                template.run(reads, 61, pass_fds=[61])
            self.assertEqual(template.run(add, 1), 1)

    def test_a_set_up_may_use_files_and_threads_that_end(self):
        with kumiki.Template(setup=with_files) as template:
            self.assertEqual(template.run(counts_files, ["/nowhere"] * 9000), 9000)
        with kumiki.Template(setup=with_a_thread_that_ends) as template:
            self.assertEqual(template.run(add, 1), 1)

    def test_children_are_waited_for_where_their_ends_are_ignored(self):
        script = (
            "import kumiki, signal, math\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "if __name__ == '__main__':\n with kumiki.Template() as made:\n"
            "  with made.start(math.sqrt, 4) as child: print(child.result(60), child.wait(60))\n"
        )
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(script)
            file.flush()
            said = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=120)
        # Python 3.13.5 asks at its end how its resource tracker has ended, which nobody hears then.
        named = r"(?s)Exception ignored in: <function ResourceTracker.__del__ .*\nChildProcessError: [^\n]*\n"
        self.assertEqual((said.stdout, re.sub(named, "", said.stderr)), ("2.0 0\n", ""))

    def test_a_result_that_a_limit_forbids_is_told(self):
        with self.assertRaisesRegex(OSError, "RLIMIT_FSIZE"):
            self.template.run(large, 100_000, limits={resource.RLIMIT_FSIZE: (5000, 5000)})

    def test_a_result_is_there_after_the_child(self):
        with self.template.start(add, 1, 2) as child:
            pass
        self.assertEqual((child.result(), child.result()), (3, 3))
        template = kumiki.Template().ready()
        template.close()
        with self.assertRaisesRegex(kumiki.TemplateError, "is closed"):
            template.start(add)

    def test_memory_of_the_program_stays_when_a_child_has_ended(self):
        memory = shared_memory.SharedMemory(create=True, size=10)
        self.addCleanup(memory.unlink)
        self.addCleanup(memory.close)
        self.template.run(writes_there, memory.name)
        made = self.template.run(makes_memory)
        # A tracker of theirs would have begun with them, and ended after them.
        time.sleep(1)
        self.assertEqual(memory.buf[0], 7)
        shared_memory.SharedMemory(memory.name).close()
        theirs = shared_memory.SharedMemory(made)
        self.assertEqual(theirs.buf[0], 8)
        theirs.close()
        theirs.unlink()

    def test_the_template_is_not_ended_from_the_terminal(self):
        with kumiki.Template() as template:
            template.ready()
            os.kill(template.pid, signal.SIGINT)
            self.assertEqual(template.run(add, 1), 1)
            self.assertIs(template.run(signal.getsignal, signal.SIGINT), signal.default_int_handler)

    def test_it_has_no_descriptor_but_its_own(self):
        with tempfile.TemporaryFile() as file, sleeping(self.template):
            high = os.dup2(file.fileno(), 87)
            self.addCleanup(os.close, high)
            has = self.template.run(descriptors)
            # The standard ones, what it tells by, where its result goes, and the folder that it lists.
            self.assertLessEqual(len(has), 6, has)
            self.assertEqual([has.get(n) for n in (0, 1, 2)], [descriptors().get(n) for n in (0, 1, 2)])
        one, two = os.pipe()
        os.write(two, b"through")
        self.assertEqual(self.template.run(reads, one, pass_fds=[one]), b"through")
        os.close(one)
        os.close(two)

    def test_none_is_left_here(self):
        def once():
            self.template.run(add, 1, stdout=subprocess.PIPE)
            with self.assertRaises(ValueError):
                self.template.run(fails, ValueError())
            with self.assertRaises(FileNotFoundError):
                self.template.run(add, cwd="/nowhere")
            with self.assertRaises(subprocess.TimeoutExpired):
                self.template.run(sleeps, timeout=0.01)

        once()
        before = len(os.listdir("/proc/self/fd"))
        theirs = len(os.listdir(f"/proc/{self.template.pid}/fd"))
        for _ in range(5):
            once()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        for _ in range(100):
            # Told just now of the last one's end, as perhaps before, too.
            if len(os.listdir(f"/proc/{self.template.pid}/fd")) <= theirs:
                return
            time.sleep(0.02)
        self.fail("descriptors are left in the template")

    def test_a_child_becomes_what_it_is_to_be(self):
        was = has_become()
        os.umask(was["umask"])
        with tempfile.TemporaryDirectory() as folder:
            is_ = self.template.run(
                has_become, nice=7, affinity=[min(os.sched_getaffinity(0))], limits={resource.RLIMIT_NOFILE: (50, 60)},
                start_new_session=True, umask=0o27, cwd=folder, env={"A": "1", "PATH": "/bin"},
                signal_mask=[signal.SIGUSR1], signal_ignore=[signal.SIGUSR2],
            )  # fmt: skip
            self.assertEqual(is_.pop("ids"), was["ids"])
            self.assertEqual(
                is_,
                {
                    "nice": 7, "affinity": {min(os.sched_getaffinity(0))}, "files": (50, 60), "leads": True,
                    "umask": 0o27, "cwd": os.path.realpath(folder), "env": {"A": "1", "PATH": "/bin"},
                    "blocked": {signal.SIGUSR1}, "ignored": True,
                },
            )  # fmt: skip
        # Nothing of it stays with the next one, which has the program's own folder and variables as they are then.
        os.environ["KUMIKI_LATE"] = "1"
        self.addCleanup(os.environ.pop, "KUMIKI_LATE")
        then = self.template.run(has_become)
        self.assertEqual((then["env"], then["cwd"], then["nice"]), (dict(os.environ), os.getcwd(), was["nice"]))

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes somebody else")
    def test_a_child_becomes_somebody_else(self):
        ids = self.template.run(has_become, user=65534, group=65533, extra_groups=[5, 6])["ids"]
        self.assertEqual(ids, ((65534,) * 3, (65533,) * 3, [5, 6]))
        self.assertEqual(self.template.run(has_become)["ids"][0], (0, 0, 0))
        self.assertEqual(self.template.run(host_name, namespaces=["uts"]), "in-a-template")
        self.assertNotEqual(os.uname().nodename, "in-a-template")

    def test_what_cannot_be_is_refused_by_name(self):
        for named in (
            {"shell": True}, {"executable": "/bin/sh"}, {"kill_tree": True}, {"uid_map": [(0, 0, 1)]},
            {"parent_death_signal": 9}, {"controlling_terminal": 0}, {"by_server": True}, {"preexec_fn": print},
            {"namespaces": ["pid"]},
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, next(iter(named))):
                self.template.start(add, **named)
        with self.assertRaises(FileNotFoundError):
            self.template.start(add, cwd="/nowhere")
        with self.assertRaises(OSError):
            self.template.start(add, cgroup="/nowhere")
        with self.assertRaises(TypeError):
            kumiki.Template("json")

    def test_a_template_that_has_threads_is_refused(self):
        with self.assertRaisesRegex(kumiki.TemplateError, "a thread of the set-up"):
            kumiki.Template(setup=with_thread).ready()

    def test_a_template_that_has_a_thread_which_is_not_python_s_is_refused(self):
        with self.assertRaisesRegex(kumiki.TemplateError, "which is not Python's"):
            kumiki.Template(setup=with_a_thread_of_c).ready()

    @unittest.skipIf(importlib.util.find_spec("numexpr") is None, "there is no numexpr")
    def test_numexpr_s_threads_are_fine(self):
        with kumiki.Template(["numexpr", "numpy"], setup=with_numexpr_s_threads) as template:
            for _ in range(3):
                self.assertEqual(template.run(evaluated, 2_000_000, timeout=100)[1], 1_999_999 * 2_000_000.0)
        with self.assertRaisesRegex(kumiki.TemplateError, "a thread of the set-up"):
            kumiki.Template(["numexpr"], setup=with_numexpr_s_threads_and_another).ready()

    def test_a_template_that_is_refused_ends_whatever_runs_in_it(self):
        with self.assertRaisesRegex(kumiki.TemplateError, "a lasting one"):
            kumiki.Template(setup=with_lasting_thread).ready()

    def test_it_starts_where_an_exception_is_handled(self):
        try:
            raise KeyError("handled")
        except KeyError:
            self.assertEqual(self.template.run(add, 1, 2), 3)

    def test_a_default_timeout_of_sockets_is_not_its_own(self):
        socket.setdefaulttimeout(0.05)
        self.addCleanup(socket.setdefaulttimeout, None)
        with kumiki.Template() as template, sleeping(template) as child:
            self.assertIsNone(child.poll())
            time.sleep(0.2)
            self.assertIsNone(child.poll())

    @unittest.skipUnless(os.geteuid() == 0, "only root becomes somebody else")
    def test_a_program_that_became_somebody_else_has_no_child_of_who_it_was(self):
        os.seteuid(65534)
        try:
            with self.assertRaisesRegex(kumiki.TemplateError, "no longer is"):
                self.template.run(own_id)
        finally:
            os.seteuid(0)
        self.assertEqual(self.template.run(add, 1), 1)

    def test_a_set_up_that_fails_is_told(self):
        with self.assertRaisesRegex(KeyError, "no such model"):
            kumiki.Template(setup=that_fails).run(add)
        with self.assertRaises(ModuleNotFoundError):
            kumiki.Template(["no_such_module_here"]).ready()
        with self.assertRaisesRegex(kumiki.TemplateError, "before it was ready: with status 7"):
            kumiki.Template(setup=that_ends).ready()

    def test_a_template_that_was_killed_is_told_of(self):
        template = kumiki.Template().ready()
        with sleeping(template) as child:
            os.kill(template.pid, signal.SIGKILL)
            # It runs on, and its end is seen, though not how it was.
            with self.assertRaises(subprocess.TimeoutExpired):
                child.wait(timeout=0.1)
            child.kill()
            with self.assertWarnsRegex(RuntimeWarning, "has ended"):
                self.assertEqual(child.wait(timeout=60), 255)
        with self.assertRaisesRegex(kumiki.TemplateError, "by signal 9"):
            template.run(add)
        template.close()

    def test_children_outlive_a_template_that_is_closed(self):
        template = kumiki.Template().ready()
        child = template.start(reads, 0, stdin=subprocess.PIPE)
        template.close()
        child.stdin.write(b"late")
        child.stdin.close()
        self.assertEqual(child.result(timeout=60), b"late")
        self.assertEqual(child.wait(timeout=60), 0)

    def test_it_ends_with_the_program(self):
        script = "import kumiki; made = kumiki.Template().ready(); print(made.pid, flush=True); import os; os._exit(0)"
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in range(500):
            if not is_running(int(said.stdout)):
                return
            time.sleep(0.02)
        self.fail("the template runs on")

    def test_code_that_changes_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "kumiki_changing.py")
            module.write_text("def value(): return 1\n")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            changing = importlib.import_module("kumiki_changing")
            with kumiki.Template(["kumiki_changing"], reload=True) as template:
                self.assertEqual(template.run(changing.value), 1)
                pid = template.pid
                self.assertEqual(template.run(changing.value), 1)
                self.assertEqual(template.pid, pid)
                module.write_text("def value(): return 2222\n")
                with self.assertLogs("kumiki", logging.INFO) as logs:
                    self.assertEqual(template.run(changing.value), 2222)
                self.assertIn(str(module), logs.output[0])
                self.assertNotEqual(template.pid, pid)
                module.write_text("def value(): return 33333\n")
            with kumiki.Template(["kumiki_changing"]) as template:
                self.assertEqual(template.run(changing.value), 33333)
                module.write_text("def value(): return 4\n")
                self.assertEqual(template.run(changing.value), 33333)
                template.reload()
                self.assertEqual(template.run(changing.value), 4)

    def test_code_that_was_wrong_is_tried_again_when_it_is_right(self):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "kumiki_mended.py")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            module.write_text("")
            with kumiki.Template(["kumiki_mended"], reload=True) as template:
                self.assertEqual(template.run(add, 1), 1)
                module.write_text("def value(: return 1\n")
                for _ in range(2):
                    with self.assertRaises(SyntaxError):
                        template.run(add, 1)
                module.write_text("def value(): return 1\n")
                self.assertEqual(template.run(add, 1), 1)

    def test_code_that_changes_while_it_is_read_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "kumiki_changes_itself.py")
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            # Once: what is there after the import is not what was read.
            module.write_text("import pathlib\npathlib.Path(__file__).write_text('first = False\\n')\n")
            with kumiki.Template(["kumiki_changes_itself"], reload=True) as template:
                with self.assertLogs("kumiki", logging.INFO):
                    template.run(add, 1)
                pid = template.pid
                template.run(add, 1)
                self.assertEqual(template.pid, pid)

    def test_memory_is_shared_with_the_template(self):
        with kumiki.Template(setup=with_state) as template, sleeping(template) as child:
            memory = child.memory()
            self.assertGreater(memory["shared"], 1 << 25)
            self.assertLess(memory["pss"], memory["rss"] - (1 << 23))
            self.assertGreater(template.memory()["rss"], 1 << 25)

    def test_many_threads_have_children(self):
        wrong = []

        def use(number):
            for at in range(10):
                if self.template.run(add, number, at) != number + at:
                    wrong.append((number, at))

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_that_nobody_waits_for_is_warned_of(self):
        child = self.template.start(sleeps)
        pidfd = os.dup(child._pidfd)
        with self.assertWarnsRegex(ResourceWarning, "still running"):
            del child
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


class Awaited(unittest.IsolatedAsyncioTestCase):
    async def test_results_are_awaited(self):
        with kumiki.Template() as template:
            results = await asyncio.gather(*(template.run_async(add, number, 1) for number in range(20)))
            self.assertEqual(results, list(range(1, 21)))
            with self.assertRaises(ZeroDivisionError):
                await template.run_async(fails, ZeroDivisionError())
            with self.assertRaises(subprocess.TimeoutExpired):
                await template.run_async(sleeps, timeout=0.05)
            with self.assertRaises(FileNotFoundError):
                await template.run_async(add, cwd="/nowhere")
            with self.assertRaisesRegex(ValueError, "stdout"):
                await template.run_async(add, stdout=subprocess.PIPE)
            child = await template.start_async(add, 3)
            self.assertEqual((await child.result_async(), await child.wait_async()), (3, 0))
            child._close()

    async def test_who_is_cancelled_leaves_nothing(self):
        with kumiki.Template() as template:
            await template.run_async(add)
            before = len(os.listdir("/proc/self/fd"))
            cancelled = 0
            for turns in range(12):
                for function in (sleeps, add):
                    task = asyncio.ensure_future(template.run_async(function))
                    for _ in range(turns):
                        await asyncio.sleep(0.001 * (turns % 3))
                    task.cancel()
                    await asyncio.wait([task])
                    cancelled += task.cancelled()
                    self.assertEqual(len(os.listdir("/proc/self/fd")), before, (turns, function))
            self.assertGreater(cancelled, 6)
            children = pathlib.Path(f"/proc/{template.pid}/task/{template.pid}/children").read_text()
            self.assertEqual(children, "")


@contextlib.contextmanager
def sleeping(template):
    """A child that is ended however the test ends."""
    with template.start(sleeps) as child:
        try:
            yield child
        finally:
            child.kill()


def modules():
    return list(sys.modules)


def unpicklable():
    return lambda: 1


class Odd(Exception):
    """An exception that is pickled, and cannot be made again of that."""

    def __init__(self, one, two):
        super().__init__(f"of {two}")


def raises_odd():
    raise Odd("one", "two")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


if __name__ == "__main__":
    signal.alarm(600)
    unittest.main()
