<?php
// A session of PHP's redis by its defaults. Arguments: the port.
function holds($what, $name) { if (!$what) { fwrite(STDERR, "not so: $name\n"); exit(1); } }

$r = new Redis();
$other = new Redis();
holds($r->connect('127.0.0.1', (int)$argv[1]) && $other->connect('127.0.0.1', (int)$argv[1]), 'connect');
$r->flushAll();
holds($r->ping(), 'ping');
$bytes = str_repeat(implode('', array_map('chr', range(0, 255))), 40);
holds($r->set('bytes', $bytes) && $r->get('bytes') === $bytes, 'binary');
holds($r->mset(['a' => 1, 'b' => 2]) && $r->mget(['a', 'no', 'b']) === ['1', false, '2'], 'mget');
holds($r->incr('a') === 2 && $r->decrBy('a', 5) === -3 && $r->incrByFloat('f', 1.5) === 1.5, 'counting');
holds($r->set('x', 1, ['nx', 'ex' => 100]) && !$r->set('x', 2, ['nx']) && $r->ttl('x') > 90, 'options');
holds($r->setex('y', 100, 'v') && $r->persist('y') && $r->ttl('y') === -1, 'times');
holds($r->incr('bytes') === false && strpos($r->getLastError(), 'not an integer'), 'an error');
$r->clearLastError();
for ($n = 0; $n < 200; $n++) $r->set("key:$n", $n);
$seen = [];
$cursor = null;
$r->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
while ($keys = $r->scan($cursor, 'key:*')) foreach ($keys as $key) $seen[$key] = 1;
holds(count($seen) === 200 && count($r->keys('key:*')) === 200, 'scan');
$pipe = $r->pipeline();
for ($n = 0; $n < 1000; $n++) $pipe->incr('sum');
holds($pipe->exec() === range(1, 1000), 'a pipeline');
holds($r->multi()->set('t', 1)->incr('t')->exec() === [true, 2], 'a transaction');
$r->watch('t');
$other->set('t', 9);
holds(!$r->multi()->set('t', 10)->exec() && $r->get('t') === '9', 'a conflict');
holds($r->info()['redis_version'] && $r->dbSize() > 200 && $r->type('t') === Redis::REDIS_STRING, 'info');
$id = $r->rawCommand('CLIENT', 'ID');
holds($other->rawCommand('CLIENT', 'KILL', 'ID', $id) === 1, 'kill');
try { $got = $r->get('t'); } catch (RedisException $e) { $got = $r->get('t'); }
holds($got === '9', 'reconnected');
// Where PHP keeps sessions: set and read by its handler.
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://127.0.0.1:$argv[1]");
ini_set('session.use_cookies', '0');
session_id('kumiki');
session_start();
$_SESSION['n'] = 42;
session_write_close();
session_start();
holds($_SESSION['n'] === 42, 'a session');
session_destroy();
echo 'fine: phpredis ', phpversion('redis'), "\n";
