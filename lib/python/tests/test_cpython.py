"""CPython's own tests of subprocess, with kumiki.Popen in place of subprocess.Popen, or those of
asyncio's subprocesses, with kumiki.aio in its place, or those of multiprocessing, with the start method "kumiki".

`test_cpython.py [--asyncio | --multiprocessing] [--by-server] [NAME …]`: those whose names have one of these words;
with a spawn server that makes each child. Tests that cannot hold are named in
cpython-expected.txt, each with the reason. One of them that holds is a failure, as is any other
that does not.
"""

import argparse
import asyncio
import importlib
import pathlib
import re
import resource
import subprocess
import sys
import unittest

import kumiki
import kumiki.aio
from reasons import reasons

EXPECTED = pathlib.Path(__file__).with_name("cpython-expected.txt")


def tests(suite):
    for test in suite:
        yield from tests(test) if isinstance(test, unittest.TestSuite) else [test]


def name(test) -> str:
    return ".".join(test.id().split(".")[-2:])


class Result(unittest.TextTestResult):
    """Names of those that did not hold; a part of a test counts as the test."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.broken = {}

    def addError(self, test, err):
        super().addError(test, err)
        self.broken[name(test)] = err

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.broken[name(test)] = err

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.broken[name(test)] = err

    def printErrors(self):
        """Only of those that should have held."""
        self.stream.writeln()
        known = reasons(EXPECTED)
        for kind, found in [("ERROR", self.errors), ("FAIL", self.failures)]:
            self.printErrorList(kind, [(t, e) for t, e in found if re.sub(r" .*", "", name(t)) not in known])


def by_server():
    class Popen(kumiki.Popen):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, by_server=True, **named)

    return Popen


def put_in_place(popen) -> None:
    """Of subprocess, and of asyncio, by its functions and its loops' methods."""
    subprocess.Popen = kumiki.aio.Popen = popen
    for name in ("create_subprocess_exec", "create_subprocess_shell"):
        for module in (asyncio, asyncio.subprocess):
            setattr(module, name, getattr(kumiki.aio, name))
    for name in ("subprocess_exec", "subprocess_shell"):
        setattr(asyncio.BaseEventLoop, name, getattr(kumiki.aio, name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asyncio", action="store_true")
    parser.add_argument("--multiprocessing", action="store_true")
    parser.add_argument("--by-server", action="store_true")
    parser.add_argument("words", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    put_in_place(by_server() if asked.by_server else kumiki.Popen)
    # Some look what a child of a program with few descriptors left needs, where that is soon.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = most if 0 <= most < 1024 else 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    whose = "test_asyncio.test_subprocess" if asked.asyncio else "test_subprocess"
    if asked.multiprocessing:
        # Beside this file, as processes import it to unpickle its classes.
        whose, theirs = "test_multiprocessing", importlib.import_module("cpython_multiprocessing")
    else:
        theirs = importlib.import_module(f"test.{whose}")
    from test import support

    suite = unittest.defaultTestLoader.loadTestsFromModule(theirs)
    chosen = [t for t in tests(suite) if not asked.words or any(w in name(t) for w in asked.words)]
    # Each as often as it stands there; modules may tell which once more.
    names = {name(test) for test in chosen}
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=1)
    with support.swap_attr(support, "verbose", False):
        result = runner.run(unittest.TestSuite(chosen))
    if hasattr(theirs, "tearDownModule") and not asked.multiprocessing:
        theirs.tearDownModule()
    known = {n: why for n, why in reasons(EXPECTED).items() if n in names}
    skipped = {name(test) for test, _ in result.skipped}
    unexpected = sorted(set(result.broken) - set(known))
    held = sorted(set(known) - set(result.broken) - skipped)
    for each in unexpected:
        print(f"{each} fails, and is not in {EXPECTED.name}", file=sys.stderr)
    for each in held:
        print(f"{each} holds, but stands in {EXPECTED.name}: {known[each]}", file=sys.stderr)
    good = result.testsRun - len(result.broken) - len(result.skipped)
    failed = len(unexpected) + len(held)
    print(
        f"Python {sys.version.split()[0]}: {result.testsRun} tests of {whose}, {good} hold, "
        f"{len(result.skipped)} skipped, {len(known) - len(held)} cannot hold, {failed} unexpected"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
