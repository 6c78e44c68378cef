"""The types of kumiki: that they name what the code takes, and, where mypy is there, what they are good for."""

import ast
import importlib.util
import inspect
import pathlib
import subprocess
import sys
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

    def test_mypy_takes_what_runs_and_refuses_what_does_not(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("there is no mypy")
        from importlib.metadata import version

        if tuple(map(int, version("mypy").split(".")[:2])) < (1, 11):
            self.skipTest(f"mypy {version('mypy')} is too old for these types")
        line = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir=/dev/null", str(HERE / "typed.py")]
        said = subprocess.run(line, capture_output=True, text=True, env={"MYPYPATH": str(PACKAGE.parent)})
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)


if __name__ == "__main__":
    unittest.main()
