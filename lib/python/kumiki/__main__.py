"""`python -m kumiki [--say] [--reload] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT …]`: a program as it is, whose children
are made by kumiki."""

import builtins
import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
import types
from typing import Any

from . import _template
from ._instead import put_in_place

_USAGE = "usage: python -m kumiki [--say] [--reload] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"


def main() -> None:
    words = sys.argv[1:]
    says = False
    while words[:1] in (["--say"], ["--reload"]):
        if words.pop(0) == "--say":
            says = True
        else:
            _template.reloads = True
    if words[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        print("Runs a Python program whose subprocesses are made without a fork.")
        print("--say tells of each start which way it went, on standard error.")
        print("--reload has templates, and multiprocessing's start method \"kumiki\", notice code that changes.")
        return
    if not words or words[0].startswith("-") and (words[0] not in ("-m", "-c") or len(words) < 2):
        sys.exit(_USAGE)
    put_in_place(says)
    if words[0] == "-m":
        sys.argv = words[1:]
        _search(os.getcwd())
        _module(importlib.machinery.BuiltinImporter)
        # What `python -m` itself calls: it runs in the main module that is there.
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        _search("")
        exec(compile(words[1], "<string>", "exec"), _module(importlib.machinery.BuiltinImporter).__dict__)
    else:
        sys.argv = words
        _run(words[0])


def _run(script: str) -> None:
    """A script, or a folder or an archive that has a __main__.py."""
    path = os.path.join(os.getcwd(), script)
    if os.path.isdir(path) or pkgutil.get_importer(path) is not None:
        # Python itself puts it there whatever -P says.
        sys.path.insert(0, path)
        if not sys.flags.safe_path:
            del sys.path[1]
        _module(importlib.machinery.BuiltinImporter)
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    try:
        with io.open_code(path) as file:
            code = pkgutil.read_code(file)
            if code is None:
                file.seek(0)
                code = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _search(os.path.dirname(os.path.realpath(path)))
    module = _module(importlib.machinery.SourceFileLoader("__main__", path))
    module.__file__, module.__cached__ = path, None  # type: ignore[attr-defined]
    exec(compile(code, path, "exec", dont_inherit=True) if isinstance(code, bytes) else code, module.__dict__)


def _search(first: str) -> None:
    """Python's own first folder of modules in place of that of `-m kumiki`; with -P there is none."""
    if not sys.flags.safe_path:
        sys.path[0] = first


def _module(loader: Any) -> types.ModuleType:
    """A main module that stays when this one is forgotten. Processes of multiprocessing know it by its other name, and
    what they send is of classes by that."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __loader__=loader)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    return module


if __name__ == "__main__":
    main()
