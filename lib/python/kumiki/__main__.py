"""`python -m kumiki [--say] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT …]`: a program as it is, whose children are
made by kumiki."""

import os
import runpy
import sys
import types

from ._instead import put_in_place

_USAGE = "usage: python -m kumiki [--say] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"


def main() -> None:
    words = sys.argv[1:]
    says = words[:1] == ["--say"]
    words = words[says:]
    if words[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        print("Runs a Python program whose subprocesses are made without a fork.")
        print("--say tells of each start which way it went, on standard error.")
        return
    if not words or words[0].startswith("-") and (words[0] not in ("-m", "-c") or len(words) < 2):
        sys.exit(_USAGE)
    put_in_place(says)
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = ""
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(words[1], "<string>", "exec"), module.__dict__)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
