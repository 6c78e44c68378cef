# A session of Perl's Redis by its defaults. Arguments: the port.
use strict;
use warnings;
use Redis;

sub holds { my ($what, $name) = @_; die "not so: $name\n" unless $what }

my $r = Redis->new(server => "127.0.0.1:$ARGV[0]");
my $other = Redis->new(server => "127.0.0.1:$ARGV[0]");
$r->flushall;
holds($r->ping, 'ping');
my $bytes = join '', map { chr } 0 .. 255;
$r->set(bytes => $bytes);
holds($r->get('bytes') eq $bytes, 'binary');
$r->mset(a => 1, b => 2);
my @all = $r->mget('a', 'no', 'b');
holds($all[0] == 1 && !defined $all[1] && $all[2] == 2, 'mget');
holds($r->incr('a') == 2 && $r->decrby('a', 5) == -3, 'counting');
$r->expire(a => 100);
holds($r->ttl('a') > 90 && $r->exists('a') && !$r->exists('no'), 'expire');
holds(!eval { $r->incr('bytes'); 1 } && $@ =~ /not an integer/, "an error: $@");
$r->set("key:$_" => $_) for 1 .. 200;
my ($cursor, %seen) = (0);
do {
	($cursor, my $keys) = $r->scan($cursor, MATCH => 'key:*', COUNT => 20);
	$seen{$_} = 1 for @$keys;
} while $cursor;
holds(keys %seen == 200 && scalar($r->keys('key:*')) == 200, 'scan');
my $sum = 0;
$r->incr('sum', sub { $sum += $_[0] }) for 1 .. 1000;
$r->wait_all_responses;
holds($sum == 500500, 'a pipeline');
for my $between (0, 1) {
	$r->watch('a');
	$other->set(a => 7) if $between;
	$r->multi;
	$r->incr('a');
	my @done = eval { $r->exec };
	holds($between ? !@done || !defined $done[0] : $done[0] == -2, 'a transaction');
}
holds($r->get('a') == 7 && $r->info->{redis_version}, 'info');
my $again = Redis->new(server => "127.0.0.1:$ARGV[0]", reconnect => 10, name => 'again');
holds($again->client_getname eq 'again', 'a name');
$other->client_kill('ID', $again->client_id);
holds($again->get('a') == 7, 'reconnected');
$r->quit;
print "fine: Redis.pm $Redis::VERSION\n";
