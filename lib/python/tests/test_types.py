"""The types of kumiki: that they name what the code takes, and, where mypy and pyright are there, what they are good for."""

import ast
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kumiki

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(kumiki.__file__).parent

# In the types these are each function's own: they say what streams are.
OF_STREAMS = {"self", "args", "text", "encoding", "errors", "universal_newlines"}


class Types(unittest.TestCase):
    def test_they_name_each_argument_and_no_other(self):
        tree = ast.parse((PACKAGE / "_popen.pyi").read_text())
        options = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Options")
        named = {line.target.id for line in options.body if isinstance(line, ast.AnnAssign)}
        theirs = set(inspect.signature(subprocess.Popen.__init__).parameters)
        ours = set(inspect.signature(kumiki.Popen.__init__).parameters) - {"named"}
        self.assertEqual(named, (theirs | ours) - OF_STREAMS)

    def test_they_have_each_name(self):
        for module in ("_run", "aio"):
            tree = ast.parse((PACKAGE / f"{module}.pyi").read_text())
            defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
            code = __import__(f"kumiki.{module}", fromlist=["x"])
            public = {
                name
                for name, value in vars(code).items()
                if inspect.isfunction(value) and not name.startswith("_") and value.__module__.startswith("kumiki")
            }
            self.assertEqual(defined, public, module)

    def mypy(self):
        mypy = shutil.which("mypy")
        if mypy is None:
            self.skipTest("there is no mypy")
        version = subprocess.run([mypy, "--version"], capture_output=True, text=True, check=True).stdout
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < (1, 11):
            self.skipTest(f"{version.strip()} is too old for these types")
        return mypy

    def test_mypy_has_nothing_to_say_of_the_package(self):
        line = [self.mypy(), "--strict", "--cache-dir=/dev/null", "--package=kumiki"]
        said = subprocess.run(line, cwd=PACKAGE.parent, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_mypy_takes_what_runs_and_refuses_what_does_not(self):
        line = [self.mypy(), "--strict", "--follow-imports=silent", "--cache-dir=/dev/null", str(HERE / "typed.py")]
        said = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"MYPYPATH": str(PACKAGE.parent)})
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_pyright_takes_what_runs_and_refuses_what_does_not(self):
        pyright = shutil.which("pyright")
        if pyright is None:
            self.skipTest("there is no pyright")
        with tempfile.TemporaryDirectory() as folder:
            # Its settings are of the folder that a file is in.
            shutil.copy(HERE / "typed.py", folder)
            settings = {
                "include": ["typed.py"],
                "strict": ["typed.py"],
                "extraPaths": [str(PACKAGE.parent)],
                # A line that is marked, and not refused, is one.
                "reportUnnecessaryTypeIgnoreComment": "error",
            }
            pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(settings))
            said = subprocess.run([pyright, "--project", folder], capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)


if __name__ == "__main__":
    unittest.main()
