"""kumiki.place with a place of another process: argument 1."""

import asyncio
import errno
import faulthandler
import importlib.util
import os
import pathlib
import select
import signal
import sys
import threading
import time
import unittest

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    print("skipped: no place of another process is named, as lib/capi-places/tests names one")
    sys.exit(0)

# By its file: `import kumiki` would want libkumiki, too, which it does without.
_file = pathlib.Path(__file__).parents[1] / "kumiki/place.py"
_spec = importlib.util.spec_from_file_location("kumiki_place", _file)
place = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(place)
Gone, NotSent, Places, Refused, Unknown = (
    place.Gone, place.NotSent, place.Places, place.Refused, place.Unknown,
)

# What hangs tells where, before the alarm ends it.
faulthandler.register(signal.SIGALRM, chain=True)
# A shell without job control starts what runs in its background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
PLACE = sys.argv.pop(1)
MINUTE = 60_000


def name(unique: str) -> str:
    return f"{PLACE}/counter/{unique}"


class Calls(unittest.TestCase):
    def setUp(self) -> None:
        self.places = Places()
        self.addCleanup(self.places.close)
        self.unique = f"{self._testMethodName}-{time.monotonic_ns()}"
        self.name = name(self.unique)
        self.places.create(self.name, 40)

    def test_by_name(self) -> None:
        self.assertEqual(self.places.call(self.name, "add", 2), 42)
        listed = self.places.ls(PLACE, "**/counter/" + self.unique)
        self.assertEqual([(one["name"], one["state"]) for one in listed], [(self.name, "42")])
        self.assertIn(PLACE, self.places.places())
        self.places.destroy(self.name)
        with self.assertRaises(Refused) as caught:
            self.places.call(self.name, "get")
        self.assertEqual(caught.exception.errno, errno.ENOENT)

    def test_errors(self) -> None:
        with self.assertRaises(Refused) as caught:
            self.places.create(self.name, 1)
        self.assertEqual(caught.exception.errno, errno.EEXIST)
        with self.assertRaises(Gone) as gone:
            self.places.ls("nobody.core0")
        # No server is behind this user's processes: the cure does not ask for one's address.
        self.assertIn("`kumiki resource ls` shows those of this machine", str(gone.exception))
        with self.assertRaises(NotSent):
            Places("nats://127.0.0.1:1")
        for call in [
            lambda: self.places.call("nonsense", "add"),
            lambda: self.places.call(self.name, "grow"),
            lambda: self.places.call(self.name + "\0", "add"),
            lambda: self.places.watch(PLACE, "["),
        ]:
            self.assertRaises(ValueError, call)

    def test_bound_once(self) -> None:
        with self.places.bind(self.name, "add") as add:
            self.assertEqual((add(2), add.start(1).wait(), add(0, timeout=60)), (42, 43, 43))
            self.places.destroy(self.name)
            self.places.create(self.name, 7)
            with self.assertRaises(Refused) as stale:
                add(1)
            self.assertEqual(stale.exception.errno, errno.ESTALE)
            self.assertEqual(add(1), 8)
        self.assertRaises(ValueError, add, 1)
        self.assertRaises(ValueError, self.places.bind, self.name, "grow")
        with self.assertRaises(Refused) as absent:
            self.places.bind(name("absent"), "add")
        self.assertEqual(absent.exception.errno, errno.ENOENT)

    def test_started_timed_and_given_up(self) -> None:
        later = self.places.start(self.name, "later", 10 * MINUTE)
        self.assertRaises(TimeoutError, later.wait, 0.02)
        self.assertFalse(later.done())
        # Others run meanwhile.
        call = self.places.start(self.name, "get")
        self.assertEqual(select.select([call], [], [], 60)[0], [call])
        self.assertTrue(call.done())
        self.assertEqual((call.wait(), call.wait(0)), (40, 40))
        self.assertFalse(call.cancel())
        self.assertTrue(later.cancel())
        self.assertRaises(ValueError, later.wait)
        self.assertRaises(Unknown, self.places.call, self.name, "later", 10 * MINUTE, 0.3)

    def test_a_limit_is_as_long_as_its_number(self) -> None:
        for limit in [1e300, float("inf"), 2**70, 60, 60.5]:
            self.assertEqual(self.places.call(self.name, "get", None, limit), 40, limit)
            self.assertEqual(self.places.start(self.name, "get", timeout=limit).wait(limit), 40, limit)
        later = self.places.start(self.name, "later", 10 * MINUTE, timeout=1e300)
        self.assertRaises(TimeoutError, later.wait, 0.02)
        self.assertTrue(later.cancel())
        self.assertRaises(ValueError, self.places.call, self.name, "get", None, float("nan"))

    def test_asyncio(self) -> None:
        async def several() -> list[int]:
            later = asyncio.ensure_future(_awaited(self.places.start(self.name, "later", 10 * MINUTE)))
            calls = [_awaited(self.places.start(self.name, "add", 1)) for _ in range(50)]
            sums = await asyncio.gather(*calls)
            later.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await later
            return sums

        self.assertEqual(sorted(asyncio.run(several())), list(range(41, 91)))

    def test_watch(self) -> None:
        with self.places.watch(PLACE, "**/counter/w-*") as watch:
            self.assertEqual(watch.next(60)["news"], "here")
            self.assertRaises(TimeoutError, watch.next, 0)
            self.places.create(name("w-" + self.unique), 1)
            self.assertEqual(select.select([watch], [], [], 60)[0], [watch])
            news = next(iter(watch))
            self.assertEqual((news["news"], news["name"]), ("created", name("w-" + self.unique)))

    def test_each_wait_ends_by_a_signal(self) -> None:
        """Ctrl-C's handler raises: no wait of this package goes on in C meanwhile, with a limit or without."""
        watch = self.places.watch(PLACE, "**/counter/nothing-" + self.unique)
        self.addCleanup(watch.close)
        self.assertEqual(watch.next(60)["news"], "here")
        later = self.places.start(self.name, "later", 10 * MINUTE)
        self.addCleanup(later.cancel)

        async def news() -> None:
            async for _ in watch:
                pass

        waits = {
            "for news in watch": lambda: list(watch),
            "async for news in watch": lambda: asyncio.run(news()),
            "watch.next": lambda: watch.next(600),
            "call.wait": later.wait,
            "call.wait with a limit": lambda: later.wait(600),
            "await call": lambda: asyncio.run(_awaited(self.places.start(self.name, "later", 10 * MINUTE))),
            "places.call": lambda: self.places.call(self.name, "later", 10 * MINUTE, timeout=600),
            "places.ls": lambda: self.places.ls("nobody-" + self.unique + ".core0", timeout=600),
            "places.watch": lambda: self.places.watch("nobody-" + self.unique + ".core0", timeout=600),
        }
        for what, wait in waits.items():
            with self.subTest(what):
                self._interrupt(wait)

    def _interrupt(self, wait) -> None:
        """Sends SIGINT to this process until the wait has ended; whatever is not interrupted is ended by SIGALRM."""
        # Plain lists: an interrupt in the midst of an Event's method may leave its lock taken.
        begun: list[bool] = []
        done: list[bool] = []

        def signals() -> None:
            # Seldom after the first: asyncio takes it to cancel, and one more may come just as that has ended.
            pause = 0.2
            while not done:
                time.sleep(0.05)
                pause -= 0.05
                if begun and not done and pause <= 0:
                    pause = 3.0
                    os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=signals)
        sender.start()
        signal.alarm(20)
        while not done:
            try:
                if not begun:
                    begun.append(True)
                    wait()
                done.append(True)
            except (KeyboardInterrupt, Gone):
                # Gone is said at once.
                continue
        while sender.is_alive():
            try:
                sender.join()
            except KeyboardInterrupt:
                continue
        signal.alarm(0)

    def test_async_for(self) -> None:
        async def first() -> list[str]:
            found = []
            with self.places.watch(PLACE, "**/counter/a-*") as watch:
                async for news in watch:
                    found.append(news["news"])
                    if len(found) == 3:
                        return found
                    self.places.create(name(f"a-{len(found)}-{self.unique}"), 1)
            return found

        self.assertEqual(asyncio.run(first()), ["here", "created", "created"])

    def test_zz_the_place_s_end(self) -> None:
        with self.places.watch(PLACE) as watch:
            later = self.places.start(self.name, "later", 10 * MINUTE, timeout=60)
            # It is there only once the place counts it; one that has not been sent would be Gone.
            while self.places.ls(PLACE, "**/counter/" + self.unique)[0]["calls"] == 0:
                self.assertRaises(TimeoutError, later.wait, 0.1)
            print("end the place", flush=True)
            self.assertRaises(Unknown, later.wait)
            kinds = [watch.next(60)["news"]]
            while kinds[-1] != "gone":
                kinds.append(watch.next(60)["news"])
            self.assertEqual(kinds[0], "here")
        self.assertRaises(Gone, self.places.call, self.name, "get")


async def _awaited(call):
    return await call


if __name__ == "__main__":
    unittest.main()
