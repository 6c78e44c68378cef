// A session of jedis and lettuce each by their defaults. Arguments: the port.
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScanIterator;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

public class Session {
    static void holds(boolean what, String name) {
        if (!what) throw new AssertionError("not so: " + name);
    }

    static void jedis(int port) {
        try (JedisPool pool = new JedisPool("127.0.0.1", port); Jedis r = pool.getResource();
                Jedis other = pool.getResource()) {
            r.flushAll();
            byte[] bytes = new byte[10240];
            for (int n = 0; n < bytes.length; n++) bytes[n] = (byte) n;
            r.set("bytes".getBytes(), bytes);
            holds(Arrays.equals(r.get("bytes".getBytes()), bytes), "binary");
            r.mset("a", "1", "b", "2");
            holds(r.mget("a", "no", "b").equals(Arrays.asList("1", null, "2")), "mget");
            holds(r.incr("a") == 2 && r.decrBy("a", 5) == -3 && r.incrByFloat("f", 1.5) == 1.5, "counting");
            holds("OK".equals(r.set("x", "1", SetParams.setParams().nx().ex(100)))
                    && r.set("x", "2", SetParams.setParams().nx()) == null && r.ttl("x") > 90, "options");
            try {
                r.incr("bytes");
                throw new AssertionError("no error");
            } catch (JedisDataException error) {
                holds(error.getMessage().contains("not an integer"), error.getMessage());
            }
            var pipe = r.pipelined();
            for (int n = 0; n < 300; n++) pipe.set("key:" + n, "" + n);
            holds(pipe.syncAndReturnAll().size() == 300, "a pipeline");
            var seen = new HashSet<String>();
            String cursor = "0";
            do {
                var some = r.scan(cursor, new ScanParams().match("key:*").count(20));
                seen.addAll(some.getResult());
                cursor = some.getCursor();
            } while (!cursor.equals("0"));
            holds(seen.size() == 300 && r.keys("key:*").size() == 300, "scan");
            for (boolean between : new boolean[] {false, true}) {
                r.watch("a");
                if (between) other.set("a", "9");
                var work = r.multi();
                work.incr("a");
                List<Object> done = work.exec();
                holds(between ? done == null : done.equals(List.of(-2L)), "a transaction");
            }
            holds(r.get("a").equals("9") && r.info().contains("redis_version"), "info");
            holds(r.configGet("maxmemory").containsKey("maxmemory"), "config");
            holds(other.clientKill(new redis.clients.jedis.params.ClientKillParams().id("" + r.clientId())) == 1, "kill");
            try {
                r.get("a");
            } catch (JedisConnectionException error) {
                System.out.println("cut");
            }
        }
        System.out.println("fine: jedis");
    }

    static void lettuce(int port) throws Exception {
        var client = RedisClient.create("redis://127.0.0.1:" + port);
        try (var line = client.connect(); var two = client.connect()) {
            var r = line.sync();
            r.flushall();
            r.mset(Map.of("a", "1", "b", "ü\r\n"));
            holds(r.get("b").equals("ü\r\n") && r.get("no") == null && r.mget("a", "no").size() == 2, "mget");
            holds(r.incr("a") == 2 && r.expire("a", 100) && r.ttl("a") > 90, "counting");
            var all = new java.util.ArrayList<io.lettuce.core.RedisFuture<Long>>();
            for (int n = 0; n < 1000; n++) all.add(line.async().incr("sum"));
            for (int n = 0; n < 1000; n++) holds(all.get(n).get() == n + 1, "many at once");
            for (int n = 0; n < 300; n++) r.set("key:" + n, "" + n);
            var seen = new HashSet<String>();
            ScanIterator.scan(r, io.lettuce.core.ScanArgs.Builder.matches("key:*").limit(20)).forEachRemaining(seen::add);
            holds(seen.size() == 300, "scan");
            for (boolean between : new boolean[] {false, true}) {
                r.watch("a");
                if (between) two.sync().set("a", "9");
                r.multi();
                r.incr("a");
                holds(r.exec().wasDiscarded() == between, "a transaction");
            }
            var copies = new java.util.concurrent.ConcurrentHashMap<String, String>();
            var cache = io.lettuce.core.support.caching.ClientSideCaching.enable(
                    io.lettuce.core.support.caching.CacheAccessor.forMap(copies), line, io.lettuce.core.TrackingArgs.Builder.enabled());
            for (int n = 0; n < 20; n++) {
                two.sync().set("copied", "" + n);
                long start = System.nanoTime();
                while (!cache.get("copied").equals("" + n)) {
                    holds(System.nanoTime() - start < 20_000_000_000L, "told of a change");
                    Thread.sleep(1);
                }
                holds(copies.get("copied").equals("" + n), "a copy");
            }
            two.sync().clientKill(io.lettuce.core.KillArgs.Builder.id(r.clientId()));
            holds(r.get("a").equals("9"), "reconnected");
        }
        client.shutdown();
        System.out.println("fine: lettuce");
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        jedis(port);
        lettuce(port);
    }
}
