"""CPython's own suites of subprocess, of posix's calls, of asyncio and multiprocessing under `python -m kumiki`: each test
has the result that it has without.

`cpython_suites.py [SUITE …]` runs each of these, or of all, twice, by the Python that runs this. A test that differs is
run again, alone, both ways, as some are about time: what differs in each of three runs differs. What may is named in
cpython-unlike.txt, with the reason; one of these that does not differ is a failure, as is any other that does.
"""

import argparse
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from reasons import reasons

SUITES = [
    "test.test_subprocess",
    "test.test_posix",
    "test.test_asyncio.test_subprocess",
    "test.test_asyncio.test_events",
    "test.test_asyncio.test_unix_events",
    "test.test_multiprocessing_fork",
    "test.test_multiprocessing_spawn",
    "test.test_multiprocessing_forkserver",
]
UNLIKE = pathlib.Path(__file__).with_name("cpython-unlike.txt")
# In the place of a test: whose function makes children.
STARTS = "children are made by"
# Of one suite, one way.
LONGEST = 3600
AGAIN = 2


class Result(unittest.TestResult):
    """Writes each test's result as it is there: a suite that ends half way has told of what it has run."""

    def __init__(self, to):
        super().__init__()
        self.to, self.now = to, ""

    def startTest(self, test):
        super().startTest(test)
        self.now = "holds"
        print(json.dumps([test.id(), "begins"]), file=self.to, flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        print(json.dumps([test.id(), self.now]), file=self.to, flush=True)

    def say(self, kind, test, why):
        # The first of a test with parts.
        if self.now == "holds":
            self.now = kind
        print(f"{kind}: {test.id()}: {why}", file=sys.stderr)

    def addError(self, test, err):
        self.say("fails", test, self._exc_info_to_string(err, test))
        if not self.testsRun or isinstance(test, unittest.suite._ErrorHolder):
            # A module's or a class's set-up.
            print(json.dumps([test.id(), "fails"]), file=self.to, flush=True)

    def addFailure(self, test, err):
        self.say("fails", test, self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.say("fails", test, f"{subtest}: {self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        self.now = "is passed over"

    def addUnexpectedSuccess(self, test):
        self.now = "holds, which it should not"

    def addExpectedFailure(self, test, err):
        self.now = "fails, as it should"


def module(suite):
    """Its name. Some installations of 3.12 have not all of multiprocessing's, whose tests they have."""
    try:
        importlib.import_module(suite)
    except ModuleNotFoundError:
        method = suite.rpartition("_")[2]
        suite = f"made_test_multiprocessing_{method}"
        lines = "from test._test_multiprocessing import install_tests_in_module_dict", f"install_tests_in_module_dict(globals(), {method!r})"
        pathlib.Path(f"{suite}.py").write_text("\n".join(lines) + "\n")
        # Processes find it there, too.
        sys.path.insert(0, os.getcwd())
    return suite


def run(suite, to, only):
    """Runs the tests here."""
    name = module(suite)
    names = only or [name]
    tests = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(name) for name in names)
    with open(to, "w") as results:
        print(json.dumps([STARTS, subprocess.Popen._execute_child.__module__]), file=results)
        tests.run(Result(results))


def results(suite, way, only=()):
    """Result of each test of a suite, by a Python of its own."""
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "results")
        line = [sys.executable, *way, os.path.abspath(__file__), "--run", suite, "--to", to, *only]
        # What a test writes to its working folder is nothing for the tree.
        with open(os.path.join(folder, "said"), "w+") as said, subprocess.Popen(
            line, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        ) as child:
            try:
                status = child.wait(LONGEST)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                status = "not within an hour"
            said.seek(0)
            text = said.read()
        lines = pathlib.Path(to).read_text().splitlines() if os.path.exists(to) else []
        found = dict(map(json.loads, lines))
        if status != 0:
            found["the suite's end"] = str(status)
            print(text[-4000:], file=sys.stderr)
        return found, text


def unlike(plain, ours):
    names = sorted(plain.keys() | ours.keys())
    return {name: (plain.get(name, "is not run"), ours.get(name, "is not run")) for name in names if plain.get(name) != ours.get(name)}


def compare(suite):
    """Whether a suite has the same results both ways."""
    begun = time.monotonic()
    plain, _ = results(suite, [])
    ours, said = results(suite, ["-m", "kumiki"])
    made = plain.pop(STARTS, None), ours.pop(STARTS, None)
    if made != ("subprocess", "kumiki._instead"):
        print(f"{suite}: children are made by {made[0]} without, and by {made[1]} under python -m kumiki", file=sys.stderr)
        return False
    known = {name: why for name, why in reasons(UNLIKE).items() if name in plain}
    differ = unlike(plain, ours)
    for _ in range(AGAIN):
        doubtful = [name for name in differ if name not in known and name in plain and "." in name]
        for name in doubtful:
            again = [results(suite, way, [name])[0] for way in ([], ["-m", "kumiki"])]
            if again[0].get(name) == again[1].get(name):
                print(f"{name}: {differ.pop(name)} at first, and the same when it is run alone", flush=True)
    for name in sorted(differ.keys() - known.keys()):
        without, with_it = differ[name]
        print(f"{name} {without} without, and {with_it} under python -m kumiki", file=sys.stderr)
    for name in sorted(known.keys() - differ.keys()):
        print(f"{name} has the same result both ways, but stands in {UNLIKE.name}: {known[name]}", file=sys.stderr)
    both = [name for name, result in plain.items() if result == "fails" and ours.get(name) == "fails"]
    if both:
        print(f"{suite}: fail both ways here: {', '.join(both)}", flush=True)
    count = {kind: list(ours.values()).count(kind) for kind in sorted(set(ours.values()))}
    wrong = differ.keys() ^ known.keys()
    if wrong:
        print(said[-20000:], file=sys.stderr)
    what = ", ".join(f"{number} {kind}" for kind, number in count.items())
    print(
        f"Python {sys.version.split()[0]}: {suite}: {len(plain)} tests, under python -m kumiki {what}; {len(differ)} have another "
        f"result, {len(wrong)} unexpected ({time.monotonic() - begun:.0f} s)",
        flush=True,
    )
    return not wrong and len(plain) > 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", metavar="SUITE", help=argparse.SUPPRESS)
    parser.add_argument("--to", help=argparse.SUPPRESS)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    asked = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in what a shell has started behind: some tests send it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked.run:
        return run(asked.run, asked.to, asked.suites)
    same = [compare(suite) for suite in asked.suites or SUITES]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
