"""Django's cache and flask-caching on redis by their defaults. Arguments: the port."""

import sys

import django.conf
import flask
import flask_caching

AT = f"redis://127.0.0.1:{sys.argv[1]}"


def with_django():
    backend = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": AT}
    django.conf.settings.configure(CACHES={"default": backend})
    from django.core.cache import cache

    cache.clear()
    cache.set("a", {"some": [1, 2.5, b"\0"]}, 100)
    assert cache.get("a") == {"some": [1, 2.5, b"\0"]} and cache.get("no", 7) == 7
    assert cache.add("b", 1) and not cache.add("b", 2) and cache.get("b") == 1
    assert cache.incr("b") == 2 and cache.decr("b", 5) == -3 and cache.has_key("b")
    assert cache.touch("b", 200) and not cache.touch("no", 200) and cache.touch("b", None)
    # One transaction, which has its keys in one shard: braces say so.
    assert cache.set_many({"{of}x": 1, "{of}y": "ü"}, timeout=50) == []
    assert cache.get_many(["{of}x", "{of}y", "no"]) == {"{of}x": 1, "{of}y": "ü"}
    assert cache.get_or_set("new", lambda: 5, 100) == 5 and cache.get("new") == 5
    assert cache.delete("{of}x") and not cache.delete("{of}x")
    cache.delete_many(["{of}y", "new"])
    cache.set("gone", 1, 0)
    assert cache.get("gone") is None and cache.incr_version("a") == 2 and cache.get("a", version=2)
    try:
        cache.incr("no")
        raise AssertionError("no error")
    except ValueError:
        pass
    cache.clear()
    assert cache.get("b") is None
    print("fine: Django", django.get_version())


def with_flask():
    app = flask.Flask(__name__)
    cache = flask_caching.Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": AT})
    with app.app_context():
        assert cache.set("a", [1, 2], timeout=100) and cache.get("a") == [1, 2]
        assert cache.add("b", 1) and not cache.add("b", 2)
        x, y = "{of}x", "{of}y"
        cache.set_many({x: 1, y: 2})
        assert cache.get_many(x, "no", y) == [1, None, 2] and cache.get_dict(x) == {x: 1}
        assert cache.has(x) and cache.delete(x) and cache.delete_many(y, "b")
        calls = []

        @cache.memoize(100)
        def twice(n):
            calls.append(n)
            return 2 * n

        assert [twice(4), twice(4)] == [8, 8] and calls == [4]
        cache.delete_memoized(twice)
        assert twice(4) == 8 and calls == [4, 4]
        assert cache.clear() and cache.get("a") is None
    print("fine: flask-caching")


with_django()
with_flask()
