"""`pytest --kumiki`: where pytest is there."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = """
import os, subprocess, sys

def pid():
    return os.getpid(), "json" in sys.modules

def test_who_makes_children():
    made = subprocess.Popen._execute_child.__module__
    print("made by", made)
    assert subprocess.check_output(["echo", "fine"]) == b"fine\\n"

def test_template(kumiki_template):
    (first, has_json), (second, _) = kumiki_template.run(pid), kumiki_template.run(pid)
    assert first != second != os.getpid() and has_json
"""


@unittest.skipIf(importlib.util.find_spec("pytest") is None, "there is no pytest")
class Plugin(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "test_it.py").write_text(TESTS)
        (self.folder / "pytest.ini").write_text("[pytest]\nkumiki_modules = json\n")

    def run_it(self, *words):
        # As an installed one by its entry point.
        line = [sys.executable, "-m", "pytest", "-p", "kumiki._pytest", "-p", "no:cacheprovider", "-s", *words]
        return subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def test_children_are_made_by_kumiki_where_it_is_asked_for(self):
        plain, asked, says = self.run_it(), self.run_it("--kumiki"), self.run_it("--kumiki-say")
        for ran in (plain, asked, says):
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertIn("2 passed", ran.stdout)
        self.assertIn("made by subprocess\n", plain.stdout)
        self.assertNotIn("kumiki: children", plain.stdout)
        self.assertIn("made by kumiki._instead\n", asked.stdout)
        self.assertIn("kumiki: children are made without a fork", asked.stdout)
        self.assertNotIn("kumiki: 'echo'", asked.stderr)
        self.assertIn("kumiki: 'echo' by kumiki", says.stderr)

    def test_afterwards_it_is_as_it_was(self):
        script = (
            "import subprocess, sys, pytest; from multiprocessing import util; before = util.spawnv_passfds; "
            "ended = pytest.main(['-q', '-p', 'kumiki._pytest', '-p', 'no:cacheprovider', '--kumiki', 'test_it.py']); "
            "print(ended == 0, subprocess.Popen._execute_child.__module__, before is util.spawnv_passfds)"
        )
        said = subprocess.run([sys.executable, "-c", script], cwd=self.folder, capture_output=True, text=True, env=os.environ)
        self.assertEqual(said.stdout.splitlines()[-1], "True subprocess True", said.stdout + said.stderr)


if __name__ == "__main__":
    unittest.main()
