"""kumiki.Popen beside subprocess.Popen, with options crossed at random: the children are alike,
or the errors are."""

import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import kumiki

ROOT = os.geteuid() == 0
CASES = int(os.environ.get("KUMIKI_SAME_CASES", "60"))

# What a child is, in a shell that changes none of it. The last field of its stat that is asked
# for is told as "its own" or not, as numbers differ.
TELLS = r"""
echo "ids $(id -u) $(id -g) $(id -G)"; umask; pwd -P
set -- $(cat /proc/$$/stat) ; test "$5" = $$ && echo leads ; test "$6" = $$ && echo session
grep -E '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status
for n in 0 1 2 3 4 5 6 7 8 9 40; do
    test -e /proc/$$/fd/$n && echo "$n $(readlink /proc/$$/fd/$n)"
done
env | grep -v -E '^(_|OLDPWD|PWD|SHLVL)=' | sort; exit 3
"""


def choices(files):
    """Of each argument the values that are drawn, and those that are wrong."""
    good = {
        "cwd": [None, "/", b"/usr"],
        "env": [None, {}, {"A": "1", "PATH": "/bin:/usr/bin"}, {b"B": b"\xff"}],
        "close_fds": [True, False],
        "pass_fds": [(), (files[0],), (files[0], files[0])],
        "restore_signals": [True, False],
        "start_new_session": [False, True],
        "process_group": [None, 0],
        "umask": [-1, 0o22, 0o777, 0o7777, -2],
        "stdin": [None, subprocess.DEVNULL, subprocess.PIPE, files[0]],
        "stderr": [subprocess.DEVNULL, subprocess.STDOUT, files[1], None],
        "executable": [None, "/bin/sh", b"/bin/sh", "sh"],
        "user": [None],
        "group": [None],
        "extra_groups": [None],
    }
    wrong = {
        "cwd": ["/nonexistent", b"/etc/passwd"],
        "env": [{"A=": "1"}, {"A": "\0"}],
        "pass_fds": [(999,), (-1,), (1 << 32,)],
        "process_group": [1 << 22, 1 << 31],
        "umask": [1 << 31],
        "stdin": [999, 1 << 32],
        "executable": ["/nonexistent", "/etc", ""],
        "user": [-1, "no-such-user", 1 << 32],
        "group": [-1, "no-such-group", 1 << 32],
        "extra_groups": [[1 << 32], [-1]],
    }
    if ROOT:
        good["user"] += [0, 65534, "nobody"]
        good["group"] += [0, 65534]
        good["extra_groups"] += [[], [5, 6]]
    else:
        for name, value in [("user", 0), ("group", 0), ("extra_groups", [0])]:
            wrong[name].append(value)
    return good, wrong


def drawn(draw, good, wrong):
    """Of wrong ones no two: which of them is told of first is nobody's promise."""
    named = {name: draw.choice(values) for name, values in good.items() if draw.random() < 0.3}
    leads = named.get("start_new_session") and named.get("process_group") == 0
    # One that leads a session moves to no group.
    if not leads and draw.random() < 0.4:
        name = draw.choice(sorted(wrong))
        named[name] = draw.choice(wrong[name])
    return named


def told(popen, named):
    """What the child says and how it ends, or how it could not begin."""
    try:
        warnings.simplefilter("ignore", RuntimeWarning)
        with popen(["sh", "-c", TELLS], stdout=subprocess.PIPE, **named) as child:
            out, _ = child.communicate()
    except OSError as error:
        return type(error), error.errno, error.filename
    except Exception as error:
        return type(error)
    return re.sub(rb"(pipe|socket):\[\d+\]", rb"\1", out), child.returncode


class Same(unittest.TestCase):
    def setUp(self):
        # Where subprocess takes posix_spawn(3) it names the program whatever was refused, and
        # its children ignore the C library's own signals.
        subprocess._USE_POSIX_SPAWN = False

    def test_children_and_errors_are_alike(self):
        with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
            files = (one.fileno(), other.fileno())
            leak = os.dup2(files[0], 40)
            self.addCleanup(os.close, leak)
            seed = int(os.environ.get("KUMIKI_SAME_SEED", random.randrange(1 << 32)))
            draw, (good, wrong) = random.Random(seed), choices(files)
            began = 0
            for case in range(CASES):
                named = drawn(draw, good, wrong)
                theirs, ours = told(subprocess.Popen, named), told(kumiki.Popen, named)
                began += isinstance(ours, tuple) and isinstance(ours[0], bytes)
                if isinstance(theirs, tuple) and theirs[-1] == named.get("cwd") is not None:
                    # Up to 3.11 the folder stands for all that was refused before exec.
                    if os.path.isdir(theirs[-1]) and sys.version_info < (3, 12):
                        theirs, ours = theirs[:2], ours[:2]
                with self.subTest(seed=seed, case=case, named=named):
                    self.assertEqual(ours, theirs)
            # Not all of them were refused.
            self.assertGreater(began, CASES // 3)


if __name__ == "__main__":
    unittest.main()
