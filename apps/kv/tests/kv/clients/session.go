// A session of go-redis, rueidis and redigo each by their defaults. Arguments: the port.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

var ctx = context.Background()
var binary = bytes.Repeat([]byte{0, 1, '\r', '\n', 255}, 2000)

func holds(what bool, name string, more ...any) {
	if !what {
		log.Fatalln("not so:", name, more)
	}
}

func well(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func withGoRedis(at string) {
	r := goredis.NewClient(&goredis.Options{Addr: at})
	well(r.FlushAll(ctx).Err())
	well(r.MSet(ctx, "a", 1, "b", binary).Err())
	all, err := r.MGet(ctx, "a", "no", "b").Result()
	well(err)
	holds(all[0] == "1" && all[1] == nil && all[2] == string(binary), "mget")
	holds(r.Incr(ctx, "a").Val() == 2 && r.DecrBy(ctx, "a", 5).Val() == -3, "counting")
	holds(r.SetNX(ctx, "x", 1, 100e9).Val() && !r.SetNX(ctx, "x", 1, 0).Val(), "setnx")
	holds(r.TTL(ctx, "x").Val() > 90e9 && r.Persist(ctx, "x").Val(), "ttl")
	holds(strings.Contains(r.Incr(ctx, "b").Err().Error(), "not an integer"), "an error")
	holds(r.Get(ctx, "no").Err() == goredis.Nil, "nil")
	pipe := r.Pipeline()
	for n := range 300 {
		pipe.Set(ctx, fmt.Sprint("key:", n), n, 0)
	}
	_, err = pipe.Exec(ctx)
	well(err)
	seen := map[string]bool{}
	for walk := r.Scan(ctx, 0, "key:*", 20).Iterator(); walk.Next(ctx); {
		seen[walk.Val()] = true
	}
	holds(len(seen) == 300, "scan")
	_, err = r.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Set(ctx, "t", 1, 0)
		p.Incr(ctx, "t")
		return nil
	})
	well(err)
	err = r.Watch(ctx, func(tx *goredis.Tx) error {
		well(r.Set(ctx, "t", 9, 0).Err())
		_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Set(ctx, "t", 10, 0).Err() })
		return err
	}, "t")
	holds(errors.Is(err, goredis.TxFailedErr) && r.Get(ctx, "t").Val() == "9", "a conflict", err)
	holds(strings.Contains(r.Info(ctx).Val(), "redis_version") && r.DBSize(ctx).Val() > 300, "info")
	conn := r.Conn()
	other := goredis.NewClient(&goredis.Options{Addr: at})
	holds(other.ClientKillByFilter(ctx, "ID", fmt.Sprint(conn.ClientID(ctx).Val())).Val() == 1, "kill")
	conn.Close()
	holds(r.Get(ctx, "t").Val() == "9", "reconnected")
	well(r.Close())
	fmt.Println("fine: go-redis", goredis.Version())
}

func withRueidis(at string) {
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at}})
	well(err)
	defer r.Close()
	// It keeps a copy, and is told when another client changes the key.
	o, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at}, DisableCache: true})
	well(err)
	defer o.Close()
	for n := range 20 {
		value := fmt.Sprint(n)
		well(o.Do(ctx, o.B().Set().Key("copied").Value(value).Build()).Error())
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			got := r.DoCache(ctx, r.B().Get().Key("copied").Cache(), time.Hour)
			text, err := got.ToString()
			well(err)
			if text == value {
				break
			}
			holds(time.Since(start) < 20*time.Second, "told of a change", text, value)
		}
		got := r.DoCache(ctx, r.B().Get().Key("copied").Cache(), time.Hour)
		holds(got.IsCacheHit(), "a copy")
	}
	copies, err := rueidis.MGetCache(r, ctx, time.Hour, []string{"copied", "none"})
	well(err)
	holds(len(copies) == 2, "copies of several")
	well(r.Do(ctx, r.B().Flushall().Build()).Error())
	well(r.Do(ctx, r.B().Set().Key("a").Value(rueidis.BinaryString(binary)).Build()).Error())
	got, err := r.Do(ctx, r.B().Get().Key("a").Build()).AsBytes()
	well(err)
	holds(bytes.Equal(got, binary), "binary")
	holds(rueidis.IsRedisNil(r.Do(ctx, r.B().Get().Key("no").Build()).Error()), "nil")
	many := make(rueidis.Commands, 0, 300)
	for n := range 300 {
		many = append(many, r.B().Incrby().Key("sum").Increment(int64(n)).Build())
	}
	replies := r.DoMulti(ctx, many...)
	last, err := replies[299].AsInt64()
	well(err)
	holds(last == 299*300/2, "a pipeline")
	values, err := r.Do(ctx, r.B().Mget().Key("sum", "no").Build()).ToArray()
	well(err)
	holds(len(values) == 2 && values[1].IsNil(), "mget")
	well(r.Dedicated(func(c rueidis.DedicatedClient) error {
		for _, between := range []bool{false, true} {
			well(c.Do(ctx, c.B().Watch().Key("sum").Build()).Error())
			if between {
				well(r.Do(ctx, r.B().Set().Key("sum").Value("1").Build()).Error())
			}
			replies := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Incr().Key("sum").Build(), c.B().Exec().Build())
			holds(rueidis.IsRedisNil(replies[2].Error()) == between, "a transaction", replies[2].Error())
		}
		return nil
	}))
	seen, cursor := map[string]bool{}, uint64(0)
	for walks := true; walks; walks = cursor != 0 {
		scan, err := r.Do(ctx, r.B().Scan().Cursor(cursor).Match("*").Count(100).Build()).AsScanEntry()
		well(err)
		for _, key := range scan.Elements {
			seen[key] = true
		}
		cursor = scan.Cursor
	}
	holds(len(seen) == 2, "scan")
	fmt.Println("fine: rueidis", rueidis.LibVer)
}

func withRedigo(at string) {
	c, err := redis.Dial("tcp", at)
	well(err)
	defer c.Close()
	_, err = c.Do("MSET", "a", 1, "b", binary)
	well(err)
	got, err := redis.Bytes(c.Do("GET", "b"))
	holds(err == nil && bytes.Equal(got, binary), "binary")
	for range 100 {
		well(c.Send("INCR", "a"))
	}
	well(c.Flush())
	for n := range 100 {
		got, err := redis.Int(c.Receive())
		holds(err == nil && got == n+2, "a pipeline")
	}
	well(c.Send("MULTI"))
	well(c.Send("INCR", "a"))
	done, err := redis.Ints(c.Do("EXEC"))
	holds(err == nil && done[0] == 102, "a transaction")
	fmt.Println("fine: redigo")
}

func main() {
	at := "127.0.0.1:" + os.Args[1]
	withGoRedis(at)
	withRueidis(at)
	withRedigo(at)
}
