"""Builds libkumiki by cargo from the tree that this folder is in, and puts it into the
package. `KUMIKI_LIBRARY=FILE` takes that file instead."""

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # Before 70.1.
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent


def library() -> pathlib.Path:
    given = os.environ.get("KUMIKI_LIBRARY")
    if given:
        return pathlib.Path(given).resolve()
    if not (TREE / "lib" / "capi").is_dir():
        raise SystemExit(
            f"{TREE} is no tree of Kumiki: install from lib/python/ in a clone, or name a built "
            "libkumiki.so by KUMIKI_LIBRARY"
        )
    build = ["cargo", "rustc", "--package", "kumiki-capi", "--profile", "ship", "--locked"]
    # Without a library for Rust: it would keep cargo from optimizing across crates.
    build += ["--lib", "--crate-type", "cdylib"]
    subprocess.run(build, cwd=TREE, check=True)
    about = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    text = subprocess.run(about, cwd=TREE, check=True, stdout=subprocess.PIPE).stdout
    return pathlib.Path(json.loads(text)["target_directory"]) / "ship" / "libkumiki_c.so"


class Build(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            # The package is the clone's folder, which git is told to ignore this in: always
            # what was built last.
            own = HERE / "kumiki" / "libkumiki.so"
            own.unlink(missing_ok=True)
            own.symlink_to(library())
            return
        target = pathlib.Path(self.build_lib) / "kumiki" / "libkumiki.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        # An editable install's link would be written through.
        target.unlink(missing_ok=True)
        shutil.copyfile(library(), target)


class Wheel(bdist_wheel):
    def get_tag(self) -> "tuple[str, str, str]":
        """Of any Python: the library is loaded by ctypes."""
        _, _, platform = super().get_tag()
        # `cargo xtask dist` has looked which C library the bundled one needs at least.
        return "py3", "none", os.environ.get("KUMIKI_WHEEL_PLATFORM", platform)


class Native(Distribution):
    """A package for this processor, though setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        return True


def elsewhere() -> str:
    """A folder for what a build leaves, which goes with this process: the clone is no place."""
    folder = tempfile.mkdtemp(prefix="kumiki-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


AT = elsewhere()

setup(
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
    distclass=Native,
    options={"build": {"build_base": AT}, "egg_info": {"egg_base": AT}},
)
