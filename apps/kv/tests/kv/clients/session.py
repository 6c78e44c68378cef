"""A session of redis-py by its defaults, blocking and asyncio. Arguments: the port."""

import asyncio
import sys
import time

import redis
import redis.asyncio

PORT = int(sys.argv[1])
BYTES = bytes(range(256)) * 40


def fails(what, kind=redis.ResponseError, text=""):
    try:
        what()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError("no error")


def blocking():
    r = redis.Redis(port=PORT)
    other = redis.Redis(port=PORT)
    assert r.ping()
    r.flushall()
    # Strings.
    assert r.set("a", "1") and r.get("a") == b"1"
    assert r.mset({"b": "2", "c": BYTES, "": "empty", "ü \r\n": "x"})
    assert r.mget("a", "b", "no", "c") == [b"1", b"2", None, BYTES]
    assert r.get("") == b"empty" and r.get("ü \r\n") == b"x"
    assert r.incr("a") == 2 and r.incr("a", 5) == 7 and r.decr("a") == 6 and r.decr("a", 3) == 3
    assert r.incrbyfloat("a", 0.5) == 3.5
    assert r.append("b", "more") == 5 and r.strlen("b") == 5
    assert r.getrange("b", 1, 2) == b"mo" and r.setrange("b", 1, "X") == 5 and r.get("b") == b"2Xore"
    assert r.setnx("new", 1) and not r.setnx("new", 2)
    assert r.set("new", 3, nx=True) is None and r.set("new", 3, xx=True, get=True) == b"1"
    assert r.getset("new", 4) == b"3" and r.getdel("new") == b"4" and r.get("new") is None
    assert r.msetnx({"{n}1": 1, "{n}2": 2}) and not r.msetnx({"{n}2": 1, "{n}3": 1})
    # Times.
    assert r.set("t", "v", ex=100) and 99 <= r.ttl("t") <= 100 and r.persist("t") and r.ttl("t") == -1
    assert r.set("t", "v", px=100_000) and 90_000 < r.pttl("t") <= 100_000
    assert r.expire("t", 1000) and r.pexpire("t", 2_000_000) and r.ttl("no") == -2
    assert r.expireat("t", 1_999_999_999) and r.getex("t", persist=True) == b"v"
    assert r.set("t", "w", ex=1000, keepttl=False) and r.set("t", "x", keepttl=True) and r.ttl("t") > 900
    # Keys.
    names = {b"key:%d" % number for number in range(300)}
    assert r.mset({name: 1 for name in names})
    assert set(r.scan_iter("key:*")) == names and set(r.keys("key:*")) == names
    assert set(r.scan_iter("key:*", count=1000)) == names and r.randomkey() is not None
    assert r.dbsize() == 300 + 8, r.dbsize()
    assert r.type("a") == b"string" and r.type("no") == b"none"
    assert r.exists("a", "a", "no") == 2 and r.touch("a", "no") == 1
    # What is between two keys is in one shard, as in a cluster.
    assert r.rename("a", "{a}2") and r.get("{a}2") == b"3.5" and not r.renamenx("{a}2", "{a}2")
    fails(lambda: r.rename("{a}no", "a"), text="no such key")
    assert r.copy("{a}2", "{a}3") and r.get("{a}3") == b"3.5"
    assert r.delete("{a}2", "{a}3", "no") == 2 and r.unlink("b") == 1
    # Errors leave the connection as it was.
    r.set("text", "text")
    fails(lambda: r.incr("text"), text="not an integer")
    fails(lambda: r.execute_command("GET"), text="wrong number of arguments")
    fails(lambda: r.execute_command("NOSUCHCOMMAND", "x"), text="unknown command")
    assert r.get("text") == b"text"
    # Many at once, plain and in a transaction.
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"p{number}", number).get(f"p{number}")
        assert pipe.execute()[1::2] == [b"%d" % number for number in range(1000)]
    with r.pipeline() as pipe:
        assert pipe.set("m", 1).incr("m").get("m").execute() == [True, 2, b"2"]
    with r.pipeline() as pipe:
        pipe.incr("text").set("{text}", 9)
        got = pipe.execute(raise_on_error=False)
        assert isinstance(got[0], redis.ResponseError) and got[1] is True and r.get("{text}") == b"9"
    # Somebody comes between WATCH and EXEC, and nobody does.
    with r.pipeline() as pipe:
        pipe.watch("m")
        assert pipe.get("m") == b"2"
        other.set("m", 10)
        pipe.multi()
        pipe.set("m", 11)
        fails(pipe.execute, redis.WatchError)
    assert r.get("m") == b"10"
    assert r.transaction(lambda pipe: (pipe.get("m"), pipe.multi(), pipe.set("m", 12)), "m") == [True]
    # Who is there, and what it is.
    assert r.client_setname("me") and r.client_getname() in (b"me", "me")
    me = r.client_id()
    assert isinstance(me, int) and any(client["name"] == "me" for client in r.client_list())
    assert r.info()["redis_version"] and r.info("memory")["used_memory"] > 0
    assert r.config_get("maxmemory") and r.command_count() > 50 and r.time()[0] > 1_600_000_000
    assert r.echo("back") == b"back" and r.select(0)
    # The connection is cut: the next command goes by a new one.
    killed = other.execute_command("CLIENT", "KILL", "ID", me)
    assert killed == 1, killed
    try:
        r.get("m")
    except redis.ConnectionError:
        pass
    assert r.get("m") == b"12" and r.client_id() != me
    r.connection_pool.disconnect()
    assert r.get("m") == b"12"
    text = redis.Redis.from_url(f"redis://127.0.0.1:{PORT}/0", decode_responses=True)
    assert text.get("m") == "12"
    for protocol in [2, 3] if int(redis.__version__.split(".")[0]) >= 5 else []:
        one = redis.Redis(port=PORT, protocol=protocol)
        assert one.mget("m", "no") == [b"12", None] and one.info() and one.config_get("*")
    fails(lambda: redis.Redis(port=PORT, db=1).ping(), redis.RedisError)


async def asynchronous():
    r = redis.asyncio.Redis(port=PORT)
    await r.set("async", 0)

    async def add():
        for _ in range(50):
            await r.incr("async")

    await asyncio.gather(*(add() for _ in range(20)))
    assert await r.get("async") == b"1000"
    async with r.pipeline(transaction=True) as pipe:
        assert await pipe.incr("async").get("async").execute() == [1001, b"1001"]
    assert [key async for key in r.scan_iter("asy*")] == [b"async"]
    await (getattr(r, "aclose", None) or r.close)()


def copies():
    """Answers are kept here, and a copy is gone when another client changes the key."""
    from redis.cache import CacheConfig

    r = redis.Redis(port=PORT, protocol=3, cache_config=CacheConfig(), decode_responses=True)
    other = redis.Redis(port=PORT)
    for n in range(20):
        other.set("copied", n)
        start = time.monotonic()
        while r.get("copied") != str(n):
            assert time.monotonic() - start < 20, "it was not told of a change"
        assert r.get_cache().size >= 1 and r.get("copied") == str(n)


blocking()
# Of redis-py's own: it keeps copies of servers from 7.4 on.
if int(redis.__version__.split(".")[0]) >= 6 and redis.Redis(port=PORT).info()["redis_version"] >= "7.4":
    copies()
asyncio.run(asynchronous())
print("fine: redis-py", redis.__version__)
