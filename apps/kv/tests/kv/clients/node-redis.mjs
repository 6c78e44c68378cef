// A session of node-redis by its defaults. Arguments: the port.
import assert from 'node:assert/strict';
import { createClient, RESP_TYPES } from 'redis';

const port = Number(process.argv[2]);
const open = async () => createClient({ socket: { port } }).on('error', () => {}).connect();
const [r, other] = [await open(), await open()];
await r.flushAll();
assert.equal(await r.ping(), 'PONG');
await r.set('a', '1');
await r.mSet({ b: '2', 'ü\r\n': 'x' });
assert.deepEqual(await r.mGet(['a', 'no', 'b', 'ü\r\n']), ['1', null, '2', 'x']);
assert.equal(await r.incr('a'), 2);
assert.equal(await r.decrBy('a', 5), -3);
assert.equal(Number(await r.incrByFloat('f', 1.5)), 1.5);
assert.equal(await r.set('x', '1', { EX: 100, NX: true }), 'OK');
assert.equal(await r.set('x', '2', { NX: true }), null);
assert.ok((await r.ttl('x')) > 90 && (await r.persist('x')) && (await r.ttl('x')) === -1);
const bytes = Buffer.from(Array.from({ length: 10240 }, (_, n) => n % 256));
await r.set('bytes', bytes);
const binary = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
assert.ok(bytes.equals(await binary.get('bytes')));
await assert.rejects(r.incr('bytes'), /not an integer/);
await assert.rejects(r.sendCommand(['NOSUCHCOMMAND']), /unknown command/);
await Promise.all(Array.from({ length: 300 }, (_, n) => r.set(`key:${n}`, `${n}`)));
const seen = new Set();
for await (const keys of r.scanIterator({ MATCH: 'key:*', COUNT: 20 })) for (const key of [keys].flat()) seen.add(key);
assert.equal(seen.size, 300);
assert.equal((await r.keys('key:*')).length, 300);
// Many at once.
const counts = await Promise.all(Array.from({ length: 1000 }, () => r.incr('sum')));
assert.deepEqual(counts, Array.from({ length: 1000 }, (_, n) => n + 1));
assert.deepEqual(await r.multi().set('t', '1').incr('t').exec(), ['OK', 2]);
await r.watch('t');
await other.set('t', '9');
await assert.rejects(r.multi().set('t', '10').exec(), /WatchError|watched keys/i);
assert.equal(await r.get('t'), '9');
assert.match(await r.info(), /redis_version/);
assert.ok((await r.dbSize()) > 300 && (await r.type('t')) === 'string');
const id = await r.clientId();
assert.equal(await other.sendCommand(['CLIENT', 'KILL', 'ID', `${id}`]), 1);
// It connects anew by itself.
let got;
for (let n = 0; got !== '9' && n < 100; n++) got = await r.get('t').catch(() => new Promise((done) => setTimeout(done, 20)));
assert.equal(got, '9');
await r.close();
await other.close();
console.log('fine: node-redis');
