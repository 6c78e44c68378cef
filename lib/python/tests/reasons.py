"""Tests of CPython's that do not hold, with the reason of each, from a file of lines."""

import pathlib
import re
import sys


def reasons(path: pathlib.Path) -> "dict[str, str]":
    """Names of tests and reasons; those of later versions of Python are left out."""
    found = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(None, 1)
            since = re.match(r"from 3\.(\d+) on: ", reason)
            if since is None or sys.version_info >= (3, int(since[1])):
                found[name] = reason
    return found
