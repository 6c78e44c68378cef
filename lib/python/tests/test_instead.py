"""`python -m kumiki`: a program as it is, whose children are made by kumiki."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = """
import asyncio, multiprocessing, os, subprocess, sys

def child(queue):
    queue.put(("spawned", __name__))

class Own(subprocess.Popen):
    pass

async def awaited():
    made = await asyncio.create_subprocess_exec("echo", "awaited", stdout=subprocess.PIPE)
    return (await made.communicate())[0]

if __name__ == "__main__":
    print(sys.argv[1:], os.path.basename(sys.argv[0]), sys.path[0] == os.path.dirname(os.path.realpath(__file__)))
    print(subprocess.run(["echo", "plain"], capture_output=True, text=True).stdout, end="")
    print(subprocess.run(["echo", "hook"], preexec_fn=os.getpid, capture_output=True, text=True).stdout, end="")
    with Own("echo shell; exit 3", shell=True, stdout=subprocess.PIPE) as own:
        print(own.communicate()[0], own.returncode, isinstance(own, subprocess.Popen))
    print(asyncio.run(awaited()))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    made = context.Process(target=child, args=(queue,))
    made.start()
    print(queue.get(), made.join(), made.exitcode)
    try:
        subprocess.run(["/nowhere"])
    except FileNotFoundError as error:
        print(error)
    sys.exit(5)
"""
CHANGES = """
import multiprocessing, pathlib
import kumiki.mp, kumiki_changing

def tell():
    print(kumiki_changing.value(), flush=True)

def told():
    print(template.run(kumiki_changing.value), flush=True)
    made = context.Process(target=tell)
    made.start()
    made.join()

if __name__ == "__main__":
    context = multiprocessing.get_context("kumiki")
    multiprocessing.set_forkserver_preload(["kumiki_changing"])
    with kumiki.Template(["kumiki_changing"]) as template:
        told()
        pathlib.Path(kumiki_changing.__file__).write_text("def value(): return 22\\n")
        told()
"""
SPAWNS = """
import os, signal, sys

def told(function, path, argv, env, **options):
    # What the child says goes to a pipe.
    ours, theirs = os.pipe()
    options["file_actions"] = [(os.POSIX_SPAWN_DUP2, theirs, 1), *options.get("file_actions", [])]
    try:
        pid = function(path, argv, env, **options)
    except Exception as error:
        os.close(theirs)
        os.close(ours)
        return print(type(error).__name__, error, getattr(error, "filename", None))
    os.close(theirs)
    with open(ours) as file:
        print(file.read().split(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

sh = ["sh", "-c", "echo $A; exit 3"]
told(os.posix_spawn, "/bin/sh", sh, {"A": "x", b"B": b"y"})
told(os.posix_spawnp, "sh", tuple(sh), os.environ)
told(os.posix_spawnp, b"nowhere-at-all", [b"x"], {})
told(os.posix_spawn, "/nowhere", ["x"], {})
told(os.posix_spawn, "/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/proc/self/comm", os.O_RDONLY, 0)])
told(os.posix_spawn, "/bin/sh", ["sh", "-c", "cat <&5"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 5, "/nowhere", os.O_RDONLY, 0)])
told(os.posix_spawn, "/bin/sh", ["sh", "-c", "set -- $(cat /proc/$$/stat); test $6 = $$ && echo own"], os.environ, setsid=True, setsigdef=[signal.SIGPIPE])
told(os.posix_spawn, "/bin/grep", ["grep", "SigBlk", "/proc/self/status"], {}, setsigmask={signal.SIGUSR1}, setpgroup=0, resetids=True)
told(os.posix_spawn, "/bin/sh", sh, {}, scheduler=(os.SCHED_BATCH, os.sched_param(0)))
told(os.posix_spawn, "/bin/sh", [], {})
told(os.posix_spawn, "/bin/sh", ["a\\0b"], {})
told(os.posix_spawn, "/bin/sh", sh, {"A=": "x"})
told(os.posix_spawn, "/bin/sh", sh, {}, setsigmask=[1000])
told(os.posix_spawn, "/bin/sh", sh, {}, file_actions=[(os.POSIX_SPAWN_CLOSE, "x")])
told(os.posix_spawn, 3, sh, {})
"""
SAID = """['one', '--two'] script.py True
plain
hook
b'shell\\n' 3 True
b'awaited\\n'
('spawned', '__mp_main__') None 0
[Errno 2] No such file or directory: '/nowhere'
"""


class Instead(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = pathlib.Path(folder.name, "script.py")
        self.script.write_text(SCRIPT)

    def run_it(self, *words, **variables):
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=120, env=os.environ | variables
        )

    def test_a_script_does_the_same(self):
        plain = self.run_it(self.script, "one", "--two")
        self.assertEqual((plain.stdout, plain.stderr, plain.returncode), (SAID, "", 5))
        ours = self.run_it("-m", "kumiki", self.script, "one", "--two")
        self.assertEqual((ours.stdout, ours.stderr, ours.returncode), (SAID, "", 5))

    def test_classes_of_a_script_come_back(self):
        self.script.write_text(
            "import multiprocessing, os, sys\n"
            "class Pair:\n"
            "    def __init__(self, at): self.at = at\n"
            "if __name__ == '__main__':\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
            "        found = pool.map_async(Pair, range(3)).get(timeout=60)\n"
            "    print([(type(each) is Pair, each.at) for each in found], sys.modules['__main__'].Pair is Pair)\n"
        )
        said = "[(True, 0), (True, 1), (True, 2)] True\n"
        ours = self.run_it("-m", "kumiki", self.script)
        self.assertEqual((ours.stdout, ours.stderr, ours.returncode), (said, "", 0))
        # And of a module.
        module = subprocess.run(
            [sys.executable, "-m", "kumiki", "-m", "script"], cwd=self.script.parent, capture_output=True, text=True, timeout=120
        )
        self.assertEqual((module.stdout, module.stderr, module.returncode), (said, "", 0))

    def test_a_script_finds_itself_where_it_is(self):
        self.script.write_text(
            "import sys, atexit\n"
            "def late(): print(sys.modules['__main__'].late is late)\n"
            "atexit.register(late)\n"
            "print(__file__, sys.path[0], type(__loader__).__name__, __spec__, __cached__, __package__, __doc__, __name__)\n"
        )
        folder, name = self.script.parent, self.script.name
        for words in ([name], ["./" + name], ["-P", name], ["nowhere.py"], ["-c", "import sys; print(sys.path[0], __loader__)"]):
            flags = [word for word in words if word == "-P"]
            rest = [word for word in words if word != "-P"]
            plain, ours = (
                subprocess.run(
                    [sys.executable, *flags, *first, *rest], cwd=folder, capture_output=True, text=True, timeout=120
                )
                for first in ([], ["-m", "kumiki"])
            )
            self.assertEqual((plain.stdout, plain.stderr, plain.returncode), (ours.stdout, ours.stderr, ours.returncode))

    def test_a_folder_is_a_program(self):
        inside = self.script.with_name("__main__.py")
        inside.write_text("import sys\nprint(sys.path[0], sys.argv, __file__, __name__, __spec__.name, __package__)\n")
        plain, ours = self.run_it(inside.parent, "one"), self.run_it("-m", "kumiki", inside.parent, "one")
        self.assertEqual((plain.stdout, plain.stderr, plain.returncode), (ours.stdout, ours.stderr, ours.returncode))

    def test_each_start_is_told(self):
        ours = self.run_it("-m", "kumiki", "--say", self.script, "one", "--two")
        self.assertEqual((ours.stdout, ours.returncode), (SAID, 5))
        lines = ours.stderr.splitlines()
        self.assertEqual(lines[0], "kumiki: 'echo' by kumiki")
        self.assertRegex(lines[1], "'echo' by subprocess: a preexec_fn")
        self.assertEqual(lines[2], "kumiki: '/bin/sh' by kumiki")
        self.assertEqual(len([line for line in lines if sys.executable in line]), 2, lines)

    def test_code_that_changes_is_noticed_where_that_is_asked(self):
        self.script.write_text(CHANGES)
        for says, newest in (("--say", "1"), ("--reload", "22")):
            pathlib.Path(self.script.parent, "kumiki_changing.py").write_text("def value(): return 1\n")
            ours = self.run_it("-m", "kumiki", says, self.script)
            self.assertEqual(ours.stdout.split(), ["1", "1", newest, newest], ours.stderr)

    def test_posix_spawn_is_that_of_os(self):
        self.script.write_text(SPAWNS)
        plain, ours = self.run_it(self.script), self.run_it("-m", "kumiki", "--say", self.script)
        self.assertEqual((plain.stderr, plain.returncode), ("", 0))
        self.assertEqual((ours.stdout, ours.returncode), (plain.stdout, 0))
        self.assertEqual(plain.stdout.count("\n"), SPAWNS.count("told(") - 1, plain.stdout)
        ways = [line.rpartition("' by ")[2] for line in ours.stderr.splitlines() if " by " in line]
        self.assertEqual(ways.count("kumiki"), 8, ours.stderr)
        self.assertIn("os: scheduler", ways)
        self.assertIn("os: its arguments are not plain", ways)

    def test_no_fork_is_made(self):
        # A fork of this program would be seen by its hook.
        code = (
            "import os, subprocess; os.fork = None; import _posixsubprocess as p\n"
            "import multiprocessing.util as u, sys\n"
            "p.fork_exec = subprocess._fork_exec = None; subprocess._USE_POSIX_SPAWN = False\n"
            "print(subprocess.getoutput('echo fine'))"
        )
        self.assertIn("TypeError", self.run_it("-c", code).stderr)
        # That something was put in its place is respected: put there before, it is what was there.
        ours = self.run_it("-c", "import subprocess\nsubprocess._fork_exec = None\nimport kumiki\nprint(subprocess.getoutput('echo fine'))", KUMIKI_SUBPROCESS="1")
        self.assertEqual(ours.stdout, "fine\n", ours.stderr)

    def test_a_variable_does_it_for_who_imports_kumiki(self):
        code = "import kumiki, subprocess; subprocess.run(['true'])"
        self.assertEqual(self.run_it("-c", code).stderr, "")
        self.assertEqual(self.run_it("-c", code, KUMIKI_SUBPROCESS="0").stderr, "")
        self.assertEqual(self.run_it("-c", code, KUMIKI_SUBPROCESS="1").stderr, "")
        self.assertEqual(self.run_it("-c", code, KUMIKI_SUBPROCESS="say").stderr, "kumiki: 'true' by kumiki\n")

    def test_modules_and_code_run_too(self):
        self.assertEqual(self.run_it("-m", "kumiki", "-c", "import sys; print(sys.argv, __name__)", "x").stdout, "['-c', 'x'] __main__\n")
        said = self.run_it("-m", "kumiki", "-m", "json.tool", "--help")
        self.assertIn("json", said.stdout)
        for wrong in ([], ["-x"], ["-c"], ["--say"]):
            said = self.run_it("-m", "kumiki", *wrong)
            self.assertEqual(said.returncode, 1)
            self.assertIn("usage", said.stderr)
        self.assertIn("usage", self.run_it("-m", "kumiki", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
