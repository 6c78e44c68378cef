# A session of Ruby's redis by its defaults. Arguments: the port.
require 'redis'

def holds(what, name) = what || abort("not so: #{name}")

r = Redis.new(port: ARGV[0].to_i)
other = Redis.new(port: ARGV[0].to_i)
r.flushall
holds(r.ping == 'PONG', 'ping')
bytes = (0..255).map(&:chr).join.b * 40
r.set('bytes', bytes)
holds(r.get('bytes').b == bytes, 'binary')
r.mset('a', 1, 'b', 2)
holds(r.mget('a', 'no', 'b') == ['1', nil, '2'], 'mget')
holds(r.incr('a') == 2 && r.decrby('a', 5) == -3 && r.incrbyfloat('f', 1.5) == 1.5, 'counting')
holds(r.set('x', 1, ex: 100, nx: true) && !r.set('x', 2, nx: true) && r.ttl('x') > 90, 'options')
begin
  r.incr('bytes')
  abort('no error')
rescue Redis::CommandError => e
  holds(e.message.include?('not an integer'), e.message)
end
r.mapped_mset((1..200).to_h { |n| ["key:#{n}", n] })
holds(r.scan_each(match: 'key:*').to_a.uniq.size == 200 && r.keys('key:*').size == 200, 'scan')
got = r.pipelined { |pipe| 1000.times { pipe.incr('sum') } }
holds(got == (1..1000).to_a, 'a pipeline')
holds(r.multi { |m| m.set('t', 1); m.incr('t') } == ['OK', 2], 'a transaction')
done = r.watch('t') do |client|
  other.set('t', 9)
  (client.respond_to?(:multi) ? client : r).multi { |m| m.set('t', 10) }
end
holds(done.nil? && r.get('t') == '9', "a conflict: #{done.inspect}")
holds(r.info['redis_version'] && r.dbsize > 200, 'info')
other.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
holds(r.get('t') == '9', 'reconnected')
puts "fine: redis-rb #{Redis::VERSION}"
