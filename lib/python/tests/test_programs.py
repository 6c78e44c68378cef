"""The programs of docs/python-programs.md, as they stand there."""

import importlib.util
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "python-programs.md"


def section(title):
    """Blocks of a part of the page."""
    text = PAGE.read_text()
    part = text[text.index(f"\n## {title}\n") :].partition("\n## ")[2]
    part = part[: part.index("\n## ")] if "\n## " in part else part
    return re.findall(r"```(?:python|ini)\n(.*?)```", part, re.S)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, blocks):
        """Those that begin with a file's name, to these files."""
        for block in blocks:
            name = re.match(r"# (\S+\.\w+)\n", block)
            self.assertIsNotNone(name, block)
            (self.folder / name[1]).write_text(block)

    def run_it(self, *words):
        variables = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run([sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, env=variables)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_a_notebook(self):
        # A kernel's main module is no file, and its cells are run one after the other.
        cells = section("A notebook that outlives what it runs")
        self.assertEqual(len(cells), 4)
        magic, _, text = cells[0].partition("\n")
        self.assertEqual(magic, "%%writefile work.py")
        (self.folder / "work.py").write_text(text)
        later = "import time; time.sleep(0.01); open('work.py', 'a').write('def middle(count):\\n    return count\\n')"
        ran = self.run_it("-c", "".join(f"exec({cell!r})\n" for cell in [*cells[1:], later, "print(template.run(work.middle, 5))"]))
        self.assertIn("middle of 1001\n500\n", ran)
        self.assertIn("the notebook goes on", ran)
        self.assertIn("middle of 11\n 5", ran)
        self.assertTrue(ran.endswith("\n5\n"), ran)

    def test_a_queue_of_jobs(self):
        self.write(section("A queue of jobs"))
        given = [("add", 1, 2), ("crash",), ("sleep", 30), ("nothing",), ("add", "a", 1), ("add", 5, 6)]
        self.run_it("-c", f"import jobs; q = jobs.opened('q.db'); [jobs.put(q, *job) for job in {given!r}]")
        self.run_it("worker.py", "q.db", "--until-empty")
        with sqlite3.connect(self.folder / "q.db") as queue:
            found = [(state, json.loads(told)) for state, told in queue.execute("SELECT state, told FROM job ORDER BY id")]
        queue.close()
        self.assertEqual([found[0], found[2], found[5]], [("done", 3), ("failed", "longer than 2 s"), ("done", 11)])
        for at, words in [(1, "by signal 6"), (3, "AttributeError"), (4, "TypeError")]:
            self.assertEqual(found[at][0], "failed")
            self.assertIn(words, found[at][1])

    @unittest.skipIf(importlib.util.find_spec("pytest") is None, "there is no pytest")
    def test_a_test(self):
        self.write(section("pytest"))
        self.write([block for block in section("A queue of jobs") if block.startswith("# tasks.py")])
        ran = self.run_it("-m", "pytest", "-p", "kumiki_pytest", "-p", "no:cacheprovider", "--kumiki")
        self.assertIn("2 passed", ran)


if __name__ == "__main__":
    unittest.main()
