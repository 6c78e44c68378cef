"""`pytest --kumiki`: where pytest is there."""

import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

try:
    import pytest
except ImportError:
    pytest = None

HERE = pathlib.Path(__file__).parent

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

WITHIN = """
import pathlib, subprocess, pytest

def test_within_another_run(tmp_path):
    (tmp_path / "test_inner.py").write_text("import subprocess\\ndef test(): subprocess.check_call(['true'])\\n")
    assert pytest.main(["-p", "kumiki_pytest", "-p", "no:cacheprovider", "--kumiki", "-s", str(tmp_path)]) == 0
    assert subprocess.Popen._execute_child.__module__ == "kumiki._instead"
    subprocess.check_call(["echo", "after"])
"""
ALONE = """
import sys

def test_it():
    assert "kumiki" not in sys.modules
"""


@unittest.skipIf(pytest is None, "there is no pytest")
class Plugin(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "test_it.py").write_text(TESTS)
        (self.folder / "pytest.ini").write_text("[pytest]\nkumiki_modules = json\n")

    def run_it(self, *words, **variables):
        # As an installed one by its entry point.
        line = [sys.executable, "-m", "pytest", "-p", "kumiki_pytest", "-p", "no:cacheprovider", "-s", *words]
        return subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=120, env=os.environ | variables)

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
            "ended = pytest.main(['-q', '-p', 'kumiki_pytest', '-p', 'no:cacheprovider', '--kumiki', 'test_it.py']); "
            "print(ended == 0, subprocess.Popen._execute_child.__module__, before is util.spawnv_passfds)"
        )
        said = subprocess.run([sys.executable, "-c", script], cwd=self.folder, capture_output=True, text=True, env=os.environ)
        self.assertEqual(said.stdout.splitlines()[-1], "True subprocess True", said.stdout + said.stderr)

    def test_a_run_within_another_leaves_that_as_it_was(self):
        (self.folder / "test_it.py").write_text(WITHIN)
        ran = self.run_it("--kumiki-say")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("kumiki: 'echo' by kumiki", ran.stderr)
        # The inner one says nothing.
        self.assertNotIn("kumiki: 'true'", ran.stderr)

    def test_who_does_not_ask_for_it_needs_no_library(self):
        (self.folder / "test_it.py").write_text(ALONE)
        plain = self.run_it(KUMIKI_LIBRARY="/nowhere/libkumiki.so")
        self.assertEqual(plain.returncode, 0, plain.stdout + plain.stderr)
        self.assertIn("1 passed", plain.stdout)
        asked = self.run_it("--kumiki", KUMIKI_LIBRARY="/nowhere/libkumiki.so")
        self.assertEqual(asked.returncode, pytest.ExitCode.USAGE_ERROR, asked.stdout + asked.stderr)
        self.assertRegex(asked.stderr, "ERROR: --kumiki: kumiki needs libkumiki: /nowhere/libkumiki.so")
        self.assertNotIn("Traceback", asked.stderr)

    def test_its_entry_point_is_the_module_that_imports_nothing(self):
        about = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
        self.assertEqual(about["project"]["entry-points"]["pytest11"], {"kumiki": "kumiki_pytest"})
        self.assertEqual(about["tool"]["setuptools"]["py-modules"], ["kumiki_pytest"])


if __name__ == "__main__":
    unittest.main()
