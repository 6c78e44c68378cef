"""Builds libkumiki by cargo from the tree that this folder is in, and puts it into the
package. `KUMIKI_LIBRARY=FILE` takes that file instead."""

import json
import os
import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

TREE = pathlib.Path(__file__).resolve().parent.parent


def library() -> pathlib.Path:
    given = os.environ.get("KUMIKI_LIBRARY")
    if given:
        return pathlib.Path(given)
    if not (TREE / "crates" / "capi").is_dir():
        raise SystemExit(
            f"{TREE} is no tree of Kumiki: install from python/ in a clone, or name a built "
            "libkumiki.so by KUMIKI_LIBRARY"
        )
    build = ["cargo", "build", "--package", "kumiki-capi", "--profile", "dist", "--locked"]
    subprocess.run(build, cwd=TREE, check=True)
    about = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    text = subprocess.run(about, cwd=TREE, check=True, stdout=subprocess.PIPE).stdout
    return pathlib.Path(json.loads(text)["target_directory"]) / "dist" / "libkumiki_c.so"


class Build(build_py):
    def run(self) -> None:
        super().run()
        target = pathlib.Path(self.build_lib) / "kumiki" / "libkumiki.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library(), target)


class Native(Distribution):
    """A package for this processor, though setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": Build}, distclass=Native)
