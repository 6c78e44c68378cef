"""Starts a program that may use so much memory and no more.

    python3 memory_limit.py 64 sh -c 'ulimit -v'
"""

import resource
import sys

import kumiki

if len(sys.argv) < 3:
    sys.exit("usage: memory_limit.py MIB PROGRAM [ARGUMENT]...")
mib, *command = sys.argv[1:]

# The address space of each process by itself. `cgroup=FOLDER` begins it in a cgroup, whose
# memory.max holds for all that it starts, too.
child = kumiki.run(command, limits={resource.RLIMIT_AS: int(mib) << 20})
print(f"it ended with {child.returncode}", file=sys.stderr)
sys.exit(0 if child.returncode == 0 else 1)
