"""Ends a program after a time, and with it all that it has started.

    python3 time_limit.py 1 sh -c 'sleep 1000 & sleep 1000'
"""

import subprocess
import sys

import kumiki

if len(sys.argv) < 3:
    sys.exit("usage: time_limit.py SECONDS PROGRAM [ARGUMENT]...")
seconds, *command = sys.argv[1:]

try:
    # subprocess would kill the shell alone, and wait for its children as long as they hold a pipe.
    child = kumiki.run(command, stdout=kumiki.PIPE, timeout=float(seconds), kill_tree=True)
except subprocess.TimeoutExpired as late:
    sys.exit(f"ended after {late.timeout:g} s, with all that it had started")
sys.stdout.buffer.write(child.stdout)
sys.exit(0 if child.returncode == 0 else 1)
