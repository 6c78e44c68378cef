"""Children of kumiki.aio in one loop, as many at a time as there are tasks: what each wrote, copied and ended by is
what it was to. Words: seconds, seed. It says what it has done, a line each, and "FAILED: why" if something was wrong."""

import asyncio
import collections
import os
import random
import resource
import signal
import sys
import time

import kumiki
import kumiki.aio

TASKS = 12
# A child without an end for so many seconds is lost, where this loop gets its cpu; it has eight times as long as the
# loop was late beside, for it waits for a cpu, too, and so does its server. At last it is lost in any case.
LOST = 5
AT_LAST = 120

counts: "collections.Counter[str]" = collections.Counter()
longest = 0.0
excused_until = 0.0
late = 0.0


def fail(why: str) -> None:
    print("FAILED:", why, flush=True)
    # Whoever has started this looks at its stacks, and ends it.
    time.sleep(60)
    os._exit(1)


def start(*words: str, **named: object) -> object:
    return kumiki.aio.create_subprocess_exec(*words, **named)


async def writes(rng: random.Random) -> str:
    word = "%x" % rng.getrandbits(200)
    child = await start("/bin/echo", word, stdout=kumiki.PIPE)
    said, _ = await child.communicate()
    assert said == word.encode() + b"\n" and child.returncode == 0, (word, said, child.returncode)
    return "wrote"


async def copies(rng: random.Random) -> str:
    data = rng.randbytes(rng.randrange(100_000))
    child = await start("/bin/cat", stdin=kumiki.PIPE, stdout=kumiki.PIPE)
    back, _ = await child.communicate(data)
    assert back == data and child.returncode == 0, (len(data), len(back), child.returncode)
    return "copied"


async def ends(rng: random.Random) -> str:
    number = rng.randrange(256)
    child = await kumiki.aio.create_subprocess_shell(f"exit {number}")
    assert await child.wait() == number, (number, child.returncode)
    return "ended by a number"


async def is_missing(rng: random.Random) -> str:
    try:
        await start("/no/such/program")
    except FileNotFoundError:
        return "not there"
    raise AssertionError("a program that is not there was started")


async def is_killed(rng: random.Random) -> str:
    child = await start("/bin/sleep", "1000")
    await asyncio.sleep(rng.random() / 500)
    how = rng.choice([signal.SIGKILL, signal.SIGTERM])
    child.send_signal(how)
    assert await child.wait() == -how, child.returncode
    return "killed"


async def is_given_up(rng: random.Random) -> str:
    """A task that is cancelled while its child starts or runs."""

    async def run() -> None:
        child = await start("/bin/sleep", "0.05")
        await child.wait()

    task = asyncio.ensure_future(run())
    await asyncio.sleep(rng.random() / 100)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "given up"
    return "ended before it was given up"


ACTS = [writes, copies, ends, is_missing, is_killed, is_given_up]


async def ends_in_time(act: object, rng: random.Random) -> str:
    began, late_before = time.monotonic(), late
    task = asyncio.ensure_future(act(rng))
    while not (await asyncio.wait({task}, timeout=1))[0]:
        waited = time.monotonic() - began
        if waited > min(LOST + 8 * (late - late_before), AT_LAST):
            fail(f"no end for {waited:.1f} s: a child that {act.__name__}; this loop was {late - late_before:.1f} s late")
    return task.result()


async def beats(end: float) -> None:
    """Notes how late this loop is."""
    global late
    while time.monotonic() < end + AT_LAST:
        began = time.monotonic()
        await asyncio.sleep(0.1)
        late += time.monotonic() - began - 0.1


async def client(seed: int, end: float) -> None:
    global longest
    rng = random.Random(seed)
    while time.monotonic() < end:
        act, began = rng.choice(ACTS), time.monotonic()
        try:
            counts[await ends_in_time(act, rng)] += 1
        except OSError as error:
            if time.monotonic() > excused_until or error.errno not in (24, 11):
                fail(f"a child that {act.__name__}: {error!r}")
            counts["refused"] += 1
        except BaseException as error:
            fail(f"a child that {act.__name__}: {error!r}")
        longest = max(longest, time.monotonic() - began)


async def faults(seed: int, end: float) -> None:
    """Descriptors that run out for a moment."""
    global excused_until
    rng = random.Random(seed)
    _, hard = usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    while time.monotonic() < end:
        await asyncio.sleep(rng.random())
        # What was refused may be told as late as an end may come.
        excused_until = time.monotonic() + 2 + AT_LAST
        resource.setrlimit(resource.RLIMIT_NOFILE, (rng.randrange(6, 60), hard))
        await asyncio.sleep(rng.random() / 20)
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        counts["fault: descriptors out"] += 1


async def main() -> None:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    end = time.monotonic() + seconds
    tasks = [client(seed + task, end) for task in range(TASKS)]
    beat = asyncio.ensure_future(beats(end))
    await asyncio.gather(*tasks, faults(seed - 1, end))
    beat.cancel()
    # None is left but those that were given up, which end by themselves.
    await asyncio.sleep(0.2)
    for what, count in counts.items():
        print("count", count, what, flush=True)
    print("longest", round(longest * 1000), flush=True)


print("begun", flush=True)
asyncio.run(main())
