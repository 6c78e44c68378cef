"""What mypy and pyright say of programs that use kumiki: lines that they take, and, marked, lines that they refuse."""

import os
import resource
import subprocess
from typing import assert_type

import kumiki
import kumiki.aio
from kumiki import files

assert_type(kumiki.run(["true"]), subprocess.CompletedProcess[bytes])
assert_type(kumiki.run(["true"], text=True, check=True, timeout=1.5), subprocess.CompletedProcess[str])
assert_type(kumiki.run("true", shell=True, encoding="utf-8", input="x").stdout, str)
assert_type(kumiki.check_output(["true"], nice=5), bytes)
assert_type(kumiki.check_output(["true"], universal_newlines=True), str)
assert_type(kumiki.call(["true"], limits={resource.RLIMIT_CORE: 0}), int)
assert_type(kumiki.getoutput("true"), str)
child: kumiki.Popen[str] = kumiki.Popen(["cat"], stdin=kumiki.PIPE, text=True, kill_tree=True)
assert_type(child.communicate("x"), tuple[str, str])
other: subprocess.Popen[bytes] = kumiki.Popen(["true"], cgroup="/sys/fs/cgroup", affinity={0, 1})
kumiki.Popen(["true"], namespaces=["pid"], uid_map=[(0, 1000, 1)], controlling_terminal=open("/dev/tty"))


async def main() -> None:
    started = await kumiki.aio.create_subprocess_exec("true", "x", stdout=kumiki.PIPE, nice=3)
    assert_type(started, kumiki.aio.Process)
    assert_type(await kumiki.aio.exists_many(["/"]), list[bool])
    await kumiki.aio.read_many("/", 3)  # type: ignore[call-arg]
    await kumiki.aio.create_subprocess_exec("true", nise=3)  # type: ignore[call-arg]
    await kumiki.aio.create_subprocess_shell("true", text=True)  # type: ignore[call-arg]


kumiki.run(["true"], nise=5)  # type: ignore[call-overload]
kumiki.run(["true"], nice="5")  # type: ignore[call-overload]
kumiki.Popen(["true"], preexec_fn=print)  # type: ignore[call-overload]
kumiki.check_output(["true"], limits=[1])  # type: ignore[call-overload]
kumiki.call(["true"], affinity="0")  # type: ignore[arg-type]

assert_type(files.stat_many(["/", b"/"]), list[os.stat_result | Exception])
assert_type(files.exists_many(["/"], follow_symlinks=False), list[bool])
assert_type(files.read_many(["/"]), list[bytes | Exception])
files.stat_many([1])  # type: ignore[list-item]
files.exists_many(["/"], follow=True)  # type: ignore[call-arg]
for path, there in files.each(files.exists_many, ["/"]):
    assert_type((path, there), tuple[str, bool])
with kumiki.Template(["json"], reload=True) as template:
    assert_type(template.start(len, "x", nice=3), kumiki.Child)
    assert_type(template.memory(), dict[str, int])
kumiki.Template(setup=3)  # type: ignore[arg-type]
