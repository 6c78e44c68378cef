"""What kumiki has beyond subprocess."""

import ctypes
import os
import pathlib
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import kumiki

ROOT = os.geteuid() == 0


def says(script, **named):
    return kumiki.check_output(["sh", "-c", script], text=True, **named).strip()


def own_cgroup():
    """The folder of this program's own cgroup, if another one can be made there."""
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    place = next((line[3:] for line in lines if line.startswith("0::")), None)
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if place is not None and fields[fields.index("-") + 1] == "cgroup2" and fields[3] == "/":
            folder = pathlib.Path(fields[4] + place)
            try:
                made = pathlib.Path(tempfile.mkdtemp(prefix="kumiki-test-", dir=folder))
            except OSError:
                return None
            ends = (made / "cgroup.kill").exists()
            made.rmdir()
            return folder if ends else None
    return None


class Functions(unittest.TestCase):
    def test_they_are_subprocess_s_with_our_popen(self):
        self.assertEqual(kumiki.run(["sh", "-c", "exit 3"]).returncode, 3)
        self.assertEqual(kumiki.call(["true"]), 0)
        self.assertEqual(kumiki.check_call(["true"]), 0)
        self.assertEqual(kumiki.getoutput("echo a; echo b >&2"), "a\nb")
        self.assertEqual(kumiki.getstatusoutput("exit 4"), (4, ""))
        with self.assertRaises(kumiki.CalledProcessError) as raised:
            kumiki.check_output(["sh", "-c", "echo out; exit 5"])
        self.assertEqual((raised.exception.returncode, raised.exception.output), (5, b"out\n"))
        with self.assertRaises(kumiki.TimeoutExpired):
            kumiki.run(["sleep", "1000"], timeout=0.05)
        self.assertEqual(says("umask", umask=0o031), "0031")
        # Theirs are as they were.
        self.assertIs(subprocess.run.__globals__["Popen"], subprocess.Popen)
        self.assertIs(kumiki.run.__globals__["Popen"], kumiki.Popen)

    def test_it_has_what_subprocess_tells_beside_them(self):
        self.assertIs(kumiki.list2cmdline, subprocess.list2cmdline)
        workspace = pathlib.Path(__file__).parents[3] / "Cargo.toml"
        version = re.search(r'(?m)^version = "(.*)"$', workspace.read_text())[1]
        self.assertEqual(kumiki.__version__, version)
        # Nothing that a user may type is missing.
        unix = set(subprocess.__all__) - {"Popen"}
        self.assertLessEqual(unix, set(dir(kumiki)))

    def test_variables_that_python_does_not_know_of_reach_children(self):
        os.putenv("KUMIKI_PUT", "by putenv")
        ctypes.CDLL(None).setenv(b"KUMIKI_SET", b"by setenv", 1)
        os.environ["KUMIKI_OWN"] = "by Python"
        self.addCleanup(lambda: [os.unsetenv(name) for name in ("KUMIKI_PUT", "KUMIKI_SET")])
        self.addCleanup(os.environ.pop, "KUMIKI_OWN")
        said = says("echo $KUMIKI_PUT, $KUMIKI_SET, $KUMIKI_OWN")
        self.assertEqual(said, "by putenv, by setenv, by Python")
        self.assertEqual(says("echo $KUMIKI_PUT", env={}), "")

    def test_the_child_is_ours_not_the_server_s(self):
        kumiki.start_server()
        self.assertEqual(int(says("echo $PPID")), os.getpid())

    def test_a_hook_is_refused_and_told_what_to_use(self):
        with self.assertRaisesRegex(ValueError, "limits, affinity, cgroup"):
            kumiki.Popen(["true"], preexec_fn=os.setsid)


class Attributes(unittest.TestCase):
    def test_nice_is_a_value(self):
        self.assertEqual(int(says("nice", nice=11)), 11)

    def test_limits_are_numbers_or_pairs(self):
        both = says("ulimit -Sn; ulimit -Hn", limits={resource.RLIMIT_NOFILE: 40})
        self.assertEqual(both.split(), ["40", "40"])
        both = says("ulimit -Sn; ulimit -Hn", limits={resource.RLIMIT_NOFILE: (41, 50)})
        self.assertEqual(both.split(), ["41", "50"])
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        if hard == resource.RLIM_INFINITY:
            limits = {resource.RLIMIT_CORE: (0, resource.RLIM_INFINITY)}
            self.assertEqual(says("ulimit -Sc; ulimit -Hc", limits=limits).split(), ["0", "unlimited"])
        with self.assertRaises(OSError):
            says("true", limits={1000: 1})

    def test_affinity_is_a_list_of_cpus(self):
        cpu = min(os.sched_getaffinity(0))
        allowed = says("grep Cpus_allowed_list /proc/self/status", affinity=[cpu])
        self.assertEqual(allowed.split(), ["Cpus_allowed_list:", str(cpu)])

    def test_a_session_and_a_group_of_its_own(self):
        stat = "set $(cat /proc/$$/stat); echo $$ $5 $6"
        pid, group, session = says(stat, start_new_session=True).split()
        self.assertEqual((group, session), (pid, pid))
        pid, group, session = says(stat, process_group=0).split()
        self.assertEqual(group, pid)

    def test_the_signal_at_the_parent_s_end(self):
        tells = "import ctypes; n = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(n)); print(n.value)"
        said = kumiki.check_output([sys.executable, "-c", tells], parent_death_signal=signal.SIGTERM)
        self.assertEqual(int(said), signal.SIGTERM)

    def test_the_end_of_a_thread_is_not_the_parent_s(self):
        """A child of a thread that has ended goes on, and ends with the program."""
        script = (
            "import kumiki, threading, signal, sys\n"
            "def start():\n"
            "    global child\n"
            "    child = kumiki.Popen(['sleep', '1000'], parent_death_signal=signal.SIGKILL)\n"
            "thread = threading.Thread(target=start)\n"
            "thread.start(); thread.join()\n"
            "print(child.pid, flush=True)\n"
            "sys.stdin.read()\n"
            "print(child.poll(), flush=True)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            pidfd = os.pidfd_open(int(program.stdout.readline()))
            self.addCleanup(os.close, pidfd)
            status = pathlib.Path(f"/proc/{program.pid}/task")
            # The thread that has started it is gone: two are left, the main one and its parent.
            while len(list(status.iterdir())) > 2:
                time.sleep(0.01)
            program.stdin.close()
            self.assertEqual(program.stdout.read(), "None\n")
        self.assertTrue(select.select([pidfd], [], [], 60)[0], "it outlives the program")

    def test_an_error_in_such_a_thread_is_the_caller_s(self):
        errors = []

        def start():
            try:
                kumiki.Popen(["/nonexistent"], parent_death_signal=signal.SIGKILL)
            except OSError as error:
                errors.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        self.assertEqual([error.filename for error in errors], ["/nonexistent"])

    def test_a_timeout_ends_the_whole_tree(self):
        """Also what holds the pipe open when the child itself has ended, and in a session of its own
        where a cgroup can be made."""
        for script in ["sleep 1000 & sleep 1000", "sleep 1000 &"]:
            with self.subTest(script=script), self.assertRaises(kumiki.TimeoutExpired):
                # It would wait for the end of the pipe, of which the other one has a copy.
                kumiki.run(["sh", "-c", script], stdout=kumiki.PIPE, timeout=0.2, kill_tree=True)

    def test_a_tree_leaves_no_cgroup(self):
        folder = own_cgroup()
        if folder is None:
            self.skipTest("no cgroup can be made here")
        with kumiki.Popen(["setsid", "sleep", "1000"], kill_tree=True) as child:
            made = [each for each in folder.iterdir() if each.name.startswith(f"kumiki-{os.getpid()}-")]
            self.assertEqual(len(made), 1)
            child.kill()
            self.assertEqual(child.wait(), -signal.SIGKILL)
        del child
        self.assertFalse(made[0].exists())

    def test_a_program_that_is_being_written_is_tried_again(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_bytes(pathlib.Path("/bin/true").read_bytes())
            program.chmod(0o755)
            file = open(program, "ab")
            timer = threading.Timer(0.03, file.close)
            timer.start()
            self.assertEqual(kumiki.call([program]), 0)
            timer.join()
            with open(program, "ab"), self.assertRaises(OSError) as raised:
                kumiki.call([program])
            self.assertEqual((raised.exception.errno, raised.exception.filename), (26, program))

    def test_a_number_that_does_not_fit_is_refused(self):
        for named in [
            {"namespaces": 1 << 64},
            {"namespaces": -1},
            {"stdin": 1 << 32},
            {"cgroup": 1 << 31},
            {"controlling_terminal": 1 << 32},
            {"umask": 1 << 31},
            {"process_group": 1 << 31},
            {"nice": 1 << 31},
            {"nice": -(1 << 40)},
            {"parent_death_signal": 1 << 32},
            {"limits": {resource.RLIMIT_NOFILE: 1 << 64}},
            {"limits": {resource.RLIMIT_NOFILE: (-2, 5)}},
            {"limits": {1 << 32: 5}},
            {"affinity": [1 << 32]},
            {"user": 1 << 32},
            {"group": 1 << 32},
        ]:
            with self.subTest(named=named), self.assertRaises(OverflowError):
                kumiki.Popen(["true"], **named)
        # In descriptors that are handed on as numbers, too.
        with self.assertRaises(ValueError):
            kumiki.Popen(["true"], pass_fds=[1 << 32])

    def test_signals_are_blocked_ignored_or_as_by_default(self):
        def state(field, **named):
            # Not a shell's, which may have a mask of its own.
            line = kumiki.check_output(["grep", f"^{field}:", "/proc/self/status"], text=True, **named)
            return int(line.split()[1], 16)

        usr1, usr2, hup = signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP
        self.assertEqual(state("SigBlk", signal_mask=[usr1, usr2]), 1 << usr1 - 1 | 1 << usr2 - 1)
        self.assertEqual(state("SigBlk", signal_mask=[]), 0)
        self.assertTrue(state("SigIgn", signal_ignore=[usr1]) & 1 << usr1 - 1)
        former = signal.signal(hup, signal.SIG_IGN)
        try:
            self.assertTrue(state("SigIgn") & 1 << hup - 1)
            self.assertFalse(state("SigIgn", signal_default=[hup]) & 1 << hup - 1)
        finally:
            signal.signal(hup, former)
        with self.assertRaisesRegex(ValueError, "65 is not a signal"):
            kumiki.Popen(["true"], signal_mask=[65])

    def test_a_terminal_of_its_own_session(self):
        ours, theirs = os.openpty()
        with open(ours, "rb", buffering=0) as read, open(theirs, "wb", buffering=0) as terminal:
            self.assertEqual(says("echo hello > /dev/tty", controlling_terminal=terminal), "")
            self.assertEqual(read.read(64), b"hello\r\n")
        with open("/dev/null") as null, self.assertRaises(OSError) as raised:
            kumiki.Popen(["true"], controlling_terminal=null)
        self.assertIn("its controlling terminal", raised.exception.strerror)

    def test_namespaces_have_names(self):
        with self.assertRaisesRegex(ValueError, "'moon'; there are cgroup"):
            kumiki.Popen(["true"], namespaces=["moon"])
        own = os.readlink("/proc/self/ns/uts")
        try:
            its = says("readlink /proc/self/ns/uts", namespaces=["uts", "ipc"])
        except PermissionError:
            self.skipTest("no new namespaces here")
        self.assertNotEqual(its, own)

    def test_ids_of_a_user_namespace(self):
        maps = {"uid_map": [(7, os.getuid(), 1)], "gid_map": [(9, os.getgid(), 1)]}
        try:
            kumiki.check_call(["true"], namespaces=["user"])
        except OSError:
            self.skipTest("no new user namespaces here")
        self.assertEqual(says("id -u; id -g", **maps).split(), ["7", "9"])
        with self.assertRaises(OSError) as raised:
            kumiki.Popen(["true"], uid_map=[(0, 0, 0)])
        self.assertIn("the maps of its user namespace", raised.exception.strerror)
        with self.assertRaisesRegex(ValueError, "32 bits"):
            kumiki.Popen(["true"], uid_map=[(-1, 0, 1)])

    @unittest.skipUnless(ROOT, "only root has children of other users")
    def test_a_user_needs_no_fork(self):
        said = says("id -u; id -g; id -G", user=65534, group=65533, extra_groups=[100], cwd="/")
        self.assertEqual(said.split("\n"), ["65534", "65533", "65533 100"])

    def test_an_error_names_what_was_refused(self):
        for named, step in [
            ({"process_group": 1 << 22}, f"its process group {1 << 22}"),
            ({"limits": {resource.RLIMIT_NOFILE: (6, 5)}}, "its limits Nofile 6 5"),
        ]:
            with self.assertRaises(OSError) as raised:
                kumiki.Popen(["true"], **named)
            error = raised.exception
            self.assertEqual(error.strerror, f"{os.strerror(error.errno)}: {step}")
            self.assertIsNone(error.filename)
        with self.assertRaises(OSError) as raised:
            kumiki.Popen(["true"], cgroup="/proc")
        self.assertEqual(raised.exception.filename, "/proc")
        with self.assertRaises(FileNotFoundError) as raised:
            kumiki.Popen(["true"], cgroup="/nonexistent")
        self.assertEqual(raised.exception.filename, "/nonexistent")
        # What subprocess names itself is as there.
        with self.assertRaises(FileNotFoundError) as raised:
            kumiki.Popen(["true"], cwd="/nonexistent")
        self.assertEqual(raised.exception.strerror, os.strerror(raised.exception.errno))

    def test_an_error_names_its_argument(self):
        wrong = {
            "nice": [1000, -21, "5", 2**40], "limits": [{resource.RLIMIT_CORE: "x"}, [1], {resource.RLIMIT_CORE: (1,)}],
            "affinity": [["a"], 5, {2**40}], "namespaces": ["none", 1.5], "uid_map": [[(1, 2)], 7],
            "gid_map": [[(0, 0, -1)]], "signal_mask": [["INT"], [0]], "signal_default": [[65]], "signal_ignore": [3],
            "controlling_terminal": ["/dev/tty"], "parent_death_signal": ["KILL"], "cgroup": [1.5],
        }  # fmt: skip
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name, value=value):
                    with self.assertRaises((TypeError, ValueError, OverflowError)) as raised:
                        kumiki.Popen(["true"], **{name: value})
                    self.assertIn(name, str(raised.exception))
        with self.assertRaisesRegex(TypeError, "nise"):
            kumiki.Popen(["true"], nise=5)
        self.assertEqual(says("nice", nice=19), "19")

    def test_help_tells_of_what_is_more(self):
        for function in (kumiki.run, kumiki.call, kumiki.check_call, kumiki.check_output, kumiki.Popen):
            self.assertIn("kill_tree", function.__doc__)

    def test_a_program_that_is_not_there_is_so_as_of_subprocess(self):
        """Also where a part of its path is a file, or its name is too long; by a path and by PATH."""
        long = "x" * 300
        for program in ["no-such", "/no/such", "/etc/passwd/x", long, "/" + long, "/etc/passwd", "/etc"]:
            for path in [None, "/etc/passwd", "/no:/etc/passwd", "/etc/passwd:/no", "/" + long, "/no:/" + long]:
                told = []
                for popen in (subprocess.Popen, kumiki.Popen):
                    with self.assertRaises(OSError) as raised:
                        popen([program], env={} if path is None else {"PATH": path})
                    told.append((raised.exception.errno, raised.exception.filename))
                self.assertEqual(*told, (program, path))

    def test_a_cgroup_is_a_folder(self):
        with open("/proc/self/mountinfo") as mounts:
            fields = [line.split() for line in mounts]
        found = [line[4] for line in fields if line[line.index("-") + 1] == "cgroup2"]
        try:
            folder = tempfile.mkdtemp(prefix="kumiki-test-", dir=found[0])
        except (IndexError, OSError) as why:
            self.skipTest(f"no cgroup v2 to write to: {why}")
        self.addCleanup(os.rmdir, folder)
        try:
            said = says("grep ^0:: /proc/self/cgroup", cgroup=folder)
        except OSError as why:
            self.skipTest(f"the kernel lets nobody begin in a cgroup: {why}")
        self.assertTrue(said.endswith("/" + pathlib.Path(folder).name), said)
        with self.assertRaises(OSError):
            kumiki.Popen(["true"], cgroup="/proc")


if __name__ == "__main__":
    unittest.main()
