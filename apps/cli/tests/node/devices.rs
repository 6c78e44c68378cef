//! Devices that the host serves nodes: network, disk, folder, vsock.

use std::path::Path;

use kumiki_lab::{Cache, Talk, borrowed};

use crate::Host;
use crate::pool::Kind;

/// Of the node's card in what follows.
const NET: &str = "auto,address=10.77.0.2/24,host=10.77.0.1/24";
/// Until a line of the node's shell is true.
pub(crate) const UNTIL: &str = "for n in $(seq 50); do kumiki node exec n1 -- sh -c";

/// Prints the process that serves a node's devices.
const WORKER: &str = "ps | grep 'serve --worker' | grep -v grep | awk '{print $1}'";

#[test]
fn a_node_has_a_network_and_a_disk_comes_while_it_runs() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok(&format!("kumiki node create n1 --memory 256M --image deb --net {NET}"));
    host.ok("kumiki node start n1 --timeout 120");
    network(&host);
    disk(&host);
    refused(&host);
    folder(&host);
    host.ok("kumiki node device add n1 --vsock 42");
    vsock(&host);
    entropy(&host);
    console(&host);
    copies(&host);
    outputs(&host);
    user(&host);
    without_vhost_net(&host);
    assert!(turns(&host) > PINGS / 2, "its server has no turn of a ping");
    // Its next servers let vhost and the node tell each other.
    host.ok("insmod osnode-eventfd.ko");
    server_dies(&host);
    assert!(turns(&host) < PINGS / 2, "its server has a turn of each ping");
    // The next run is served by others, and has them all from the start.
    host.ok("kumiki node restart n1 --timeout 120; reached 10.77.0.2");
    let list = host.ok("kumiki node device ls n1");
    assert_eq!(list.matches(" served").count(), 4, "{list}");
    assert_eq!(host.ok("kumiki node exec n1 -- cat /mnt/shared/small"), "hello\n");
    // Nothing of it is left.
    host.ok(
        "kumiki node rm n1 --force; rmmod osnode_eventfd; rm -rf /opt/virtiofsd /opt/nft /usr/libexec/virtiofsd \
             /usr/sbin/nft",
    );
    host.leave();
}

/// On Debian 13, whose virtio is another one.
#[test]
fn what_goes_wrong_with_a_device_is_its_own_affair() {
    let Some(host) = Host::shared(Kind::Debian13) else { return };
    host.ok("insmod osnode-eventfd.ko; truncate -s 8M disk; \
             kumiki node create n1 --memory 256M --image deb --vsock 42 \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24,mac=02:00:00:00:00:07 --disk disk");
    host.ok("kumiki node start n1 --timeout 120; reached 10.77.0.2");
    taken(&host);
    disk_is_full(&host);
    past_the_cache(&host);
    tap_vanishes(&host);
    by_a_bridge(&host);
    ends_under_way(&host);
    host.ok("kumiki node rm n1 --force; rmmod osnode_eventfd");
    host.leave();
}

/// By vhost-net, and by the server's own threads; through a server's death and a restart.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to net_control.rs or to what a card's TAP is"]
fn a_card_has_queues_for_the_node_s_cpus() {
    let Some(host) = Host::shared(Kind::Debian13) else { return };
    host.ok(&format!(
        "insmod osnode-eventfd.ko; \
         kumiki node create n1 --cpus 2 --memory 256M --image deb --net {NET},queues=4; \
         kumiki node start n1 --timeout 120"
    ));
    // The driver has as many as the node has cpus, and the TAP those that are attached.
    let queues = |card: u32| {
        let line = |at: &str| format!("ls /sys/class/net/{at}/queues | grep -c rx");
        let there = format!("kumiki node exec n1 -- sh -c '{}'", line(&format!("eth{card}")));
        host.ok(&format!("{there}; {}", line(&format!("n1.net{card}"))))
    };
    assert_eq!(queues(0), "2\n2\n");
    network(&host);
    host.ok(&format!("kill -9 $({WORKER}); reached 10.77.0.2"));
    assert_eq!(queues(0), "2\n2\n");
    host.ok("kumiki node exec n1 -- rm /open");
    network(&host);
    host.ok("mv /dev/vhost-net /dev/kept");
    host.ok("kumiki node device add n1 --net auto,queues=2,address=10.78.0.2/24,host=10.78.0.1/24");
    host.ok("mv /dev/kept /dev/vhost-net; reached 10.78.0.2");
    assert_eq!(queues(1), "2\n2\n");
    // Other ports, so that frames may come by the other queue.
    for port in 7011..7015 {
        let take = format!("exec 3<>open; nc 10.78.0.1 {port} <&3 | md5sum");
        stream(
            &host,
            &format!("nc -l -p {port} < sent"),
            &format!("kumiki node exec n1 -- sh -c '{take}' > there; md5sum < sent | cmp - there"),
        );
    }
    host.ok("kumiki node restart n1 --timeout 120; reached 10.77.0.2; \
             reached 10.78.0.2");
    assert_eq!(queues(1), "2\n2\n");
    host.ok("kumiki node rm n1 --force; rmmod osnode_eventfd");
    host.leave();
}

/// Rare in a day's work.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to folders, or to what a node's devices do asleep"]
fn folders_go_and_devices_sleep() {
    let Some(host) = Host::shared(Kind::Debian13) else { return };
    host.ok("truncate -s 8M disk; kumiki node create n1 --memory 256M --image deb \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24 --disk disk");
    host.ok("kumiki node start n1 --timeout 120; reached 10.77.0.2");
    // Before there is a folder: its stock driver refuses to sleep.
    sleeps(&host);
    server_is_stopped(&host);
    host.ok("head -c 4000000 /dev/urandom > sent");
    folder(&host);
    folders_go(&host);
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

/// What only one node can have is refused to another one, by its name.
fn taken(host: &Host) {
    host.ok("kumiki node create n2 --memory 256M --image deb");
    for (device, says) in [
        ("--vsock 42", "CID 42 is node n1's"),
        ("--disk disk", "disk is node n1's"),
        ("--net auto,mac=02:00:00:00:00:07", "MAC 02:00:00:00:00:07 is node n1's"),
    ] {
        let said = host.refused(&format!("kumiki node device add n2 {device}"));
        assert!(said.contains(says), "{device}: {said}");
    }
    host.ok("kumiki node rm n2; mv /dev/net/tun /dev/kept");
    let said = host.refused("kumiki node device add n1 --net auto");
    assert!(said.contains("load the module tun"), "{said}");
    host.ok("mv /dev/kept /dev/net/tun");
}

/// The node gets an error for what finds no room, and the rest goes on.
fn disk_is_full(host: &Host) {
    host.ok("mkdir -p full; mount -t tmpfs -o size=1M none full; truncate -s 8M full/disk; \
             kumiki node device add n1 --disk full/disk,serial=full");
    host.ok(&format!("{UNTIL} '[ -b /dev/vdb ]' && exit 0; sleep 0.2; done; false"));
    let written =
        host.run("kumiki node exec n1 -- dd if=/dev/zero of=/dev/vdb bs=1M count=8 conv=fsync");
    assert_ne!(written.exit.code(), 0);
    host.ok("kumiki node exec n1 -- dd if=/dev/zero of=/dev/vda bs=1M count=8 conv=fsync");
    host.ok("kumiki node device rm n1 disk1; umount full; reached 10.77.0.2");
}

/// A block device of the host, read straight into the node's memory; and one whose reads fail,
/// which is an error of these reads and of nothing else.
fn past_the_cache(host: &Host) {
    host.ok("head -c 8388608 /dev/urandom > back; losetup /dev/loop0 back; \
             kumiki node device add n1 --disk /dev/loop0,direct");
    host.ok(&format!("{UNTIL} '[ -b /dev/vdb ]' && exit 0; sleep 0.2; done; false"));
    let direct = "kumiki node exec n1 -- sh -c 'dd if=/dev/vdb bs=1M iflag=direct | md5sum'";
    assert_eq!(host.ok(direct), host.ok("md5sum < back"));
    host.ok("kumiki node exec n1 -- sh -c 'head -c 3000000 /dev/urandom > /tmp/new; \
             dd if=/tmp/new of=/dev/vdb bs=1M conv=fsync; md5sum < /tmp/new' > there; \
             head -c 3000000 back | md5sum | cmp - there");
    let log = host.ok("cat /run/kumiki-node/n1.log");
    assert!(!log.contains("through the page cache"), "{log}");
    host.ok("truncate -s 1M back");
    let read = host.run("kumiki node exec n1 -- dd if=/dev/vdb of=/dev/null bs=1M skip=4 count=1");
    assert_ne!(read.exit.code(), 0);
    host.ok("kumiki node exec n1 -- dd if=/dev/vdb of=/dev/null bs=512K count=1; \
             kumiki node device rm n1 disk1; losetup -d /dev/loop0; rm back");
}

/// An address by DHCP through a bridge of the host, with frames of another length.
fn by_a_bridge(host: &Host) {
    host.ok("ip link add br0 type bridge; ip addr add 10.79.0.1/24 dev br0; ip link set br0 up; \
             printf 'start 10.79.0.10\nend 10.79.0.20\ninterface br0\nlease_file /root/leases\n\
             pidfile /root/udhcpd.pid\noption subnet 255.255.255.0\n' > udhcpd.conf; \
             touch leases; udhcpd udhcpd.conf");
    let card = host.ok("kumiki node device add n1 --net bridge=br0,address=dhcp,mtu=1400");
    let card = card.trim();
    host.ok(&format!(
        "{UNTIL} 'ip addr | grep -q \"inet 10.79.0.1\"' && exit 0; sleep 0.2; done; \
         kumiki node logs n1 | tail -n 20; ip addr; kumiki node exec n1 -- ip addr; false"
    ));
    host.ok("kumiki node exec n1 -- sh -c 'ip link | grep -q \"mtu 1400\"; \
             ping -c 1 -w 20 -s 1372 10.79.0.1'");
    host.ok(&format!("kumiki node device rm n1 {card}; kill $(cat udhcpd.pid); ip link del br0"));
}

/// The node's kernel has its devices sleep and wake up, as for a snapshot: they go on.
fn sleeps(host: &Host) {
    host.ok(
        "kumiki node exec n1 -- sh -c 'echo 1 > /sys/module/suspend/parameters/pm_test_delay; \
             echo devices > /sys/power/pm_test; echo freeze > /sys/power/state'",
    );
    let log = host.ok("kumiki node logs n1");
    assert!(log.contains("suspend debug: Waiting"), "{log}");
    host.ok("reached 10.77.0.2; \
             kumiki node exec n1 -- dd if=/dev/vda of=/dev/null bs=1M count=2 iflag=direct");
}

/// A server that lives on, and has the node's memory, keeps the node from being started.
fn server_is_stopped(host: &Host) {
    host.ok(&format!("{WORKER} > worker; kill -STOP $(cat worker); kumiki node kill n1"));
    let said = host.refused("kumiki node start n1 --timeout 120");
    assert!(said.contains("serve"), "{said}");
    host.ok("kill -9 $(cat worker); for n in $(seq 50); do kumiki node start n1 --timeout 120 && \
             exit 0; sleep 0.2; done; false");
    host.ok("reached 10.77.0.2");
}

/// Somebody on the host removes a card's TAP: the node's other devices go on.
fn tap_vanishes(host: &Host) {
    let card =
        host.ok("kumiki node device add n1 --net auto,address=10.78.0.2/24,host=10.78.0.1/24");
    host.ok("reached 10.78.0.2");
    host.ok(&format!("ip link del n1.{}; reached 10.77.0.2", card.trim()));
    host.ok("for n in $(seq 50); do kumiki node device ls n1 | grep 'TAP is gone' && exit 0; \
             sleep 0.2; done; false");
    host.ok(&format!("{UNTIL} '! ip addr | grep 10.78.0.2' && exit 0; sleep 0.2; done; false"));
    host.ok(&format!("kumiki node device rm n1 {}; reached 10.77.0.2", card.trim()));
}

/// The node ends while its disk and its card are busy, each way that it can: its memory is
/// left alone afterwards, so that it starts again.
fn ends_under_way(host: &Host) {
    for end in ["kill n1", "exec n1 -- sh -c 'echo c > /proc/sysrq-trigger'", "stop n1"] {
        host.run("kumiki node exec n1 -- sh -c 'while dd if=/dev/zero of=/dev/vda bs=1M count=8; \
                  do :; done' > /dev/null 2>&1 & ping -A -w 60 10.77.0.2 > /dev/null 2>&1 & sleep 1");
        host.run(&format!("kumiki node {end}"));
        host.ok("kumiki node restart n1 --timeout 120; reached 10.77.0.2");
        let list = host.ok("kumiki node device ls n1");
        assert_eq!(list.matches(" served").count(), 3, "{list}");
    }
}

const PINGS: u64 = 200;

/// How often the process that serves has been woken, of so many pings; by itself it looks five
/// times a second.
fn turns(host: &Host) -> u64 {
    let line =
        format!("awk '$1 == \"voluntary_ctxt_switches:\" {{ print $2 }}' /proc/$({WORKER})/status");
    let said = host.ok(&format!("{line}; ping -c {PINGS} -A -w 60 10.77.0.2 > /dev/null; {line}"));
    let counts: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    counts[1] - counts[0]
}

/// Sends a file into or out of the node: a stream that ends when all of it is there.
fn stream(host: &Host, sender: &str, receiver: &str) {
    let listens = format!("rm -f open; mkfifo open; {sender} & sleep 1; {receiver}; wait");
    host.ok(&listens);
}

fn network(host: &Host) {
    let list = host.ok("kumiki node device ls n1");
    assert!(list.contains("net0") && list.contains(" served"), "{list}");
    host.ok("reached 10.77.0.2");
    host.ok("kumiki node exec n1 -- ping -c 2 -w 20 10.77.0.1");
    // Each way, by the offloads of both sides. An input that stays open: nc ends with it.
    host.ok("head -c 4000000 /dev/urandom > sent");
    stream(
        host,
        "nc -l -p 7001 < sent",
        "kumiki node exec n1 -- sh -c \
         'mkfifo open; exec 3<>open; nc 10.77.0.1 7001 <&3 > /tmp/got; md5sum < /tmp/got' > there",
    );
    host.ok("md5sum < sent | cmp - there");
    stream(
        host,
        "{ exec 3<>open; nc -l -p 7002 <&3 > back; }",
        "kumiki node exec n1 -- sh -c 'nc 10.77.0.1 7002 < /tmp/got'",
    );
    host.ok("cmp sent back; rm back");
}

fn disk(host: &Host) {
    host.ok("head -c 8000000 /dev/urandom > disk; cp disk before");
    host.ok("kumiki node device add n1 --disk disk,serial=abc");
    host.ok(&format!("{UNTIL} '[ -b /dev/vda ]' && exit 0; sleep 0.2; done; false"));
    let told = host.ok("kumiki node exec n1 -- sh -c 'cat /sys/block/vda/serial; \
                        md5sum < /dev/vda'");
    let sum = host.ok("md5sum < disk");
    assert!(told.contains("abc") && told.ends_with(&sum), "{told}, {sum}");
    // Written, flushed, and given back to the host's file system.
    host.ok("kumiki node exec n1 -- sh -c 'head -c 3000000 /tmp/got > /dev/vda; sync; \
             blkdiscard -o 4096000 -l 1024000 /dev/vda'");
    host.ok("head -c 3000000 sent > want; head -c 3000000 disk | cmp - want");
    let hole = "dd if=disk bs=1024 skip=4000 count=1000 | tr -d '\\0' | wc -c";
    assert_eq!(host.ok(hole), "0\n");
    // What it is told to write and cannot is an error there, and nowhere else.
    host.ok("kumiki node device rm n1 disk0; cp before disk");
    host.ok(&format!("{UNTIL} '[ ! -b /dev/vda ]' && exit 0; sleep 0.2; done; false"));
    host.ok("kumiki node device add n1 --disk disk,ro");
    host.ok(&format!("{UNTIL} '[ -b /dev/vda ]' && exit 0; sleep 0.2; done; false"));
    assert_eq!(host.ok("kumiki node exec n1 -- cat /sys/block/vda/ro"), "1\n");
    // A disk that shrinks under the node: short reads are errors.
    host.ok("truncate -s 1000000 disk");
    let read = host.run("kumiki node exec n1 -- dd if=/dev/vda of=/dev/null bs=1M skip=4 count=1");
    assert_ne!(read.exit.code(), 0);
    host.ok("kumiki node device rm n1 disk0");
    host.ok("reached 10.77.0.2");
}

fn refused(host: &Host) {
    host.ok("kumiki node create n2 --memory 256M --image deb");
    for (device, says) in [
        ("--net n1.net0", "TAP n1.net0 is node n1's already"),
        ("--net auto,mac=02:00", "02:00:00:00:00:01"),
        ("--share /no:/mnt,rw", "one of ro is expected"),
    ] {
        let said = host.refused(&format!("kumiki node device add n2 {device}"));
        assert!(said.contains(says), "{device}: {said}");
    }
    host.ok("kumiki node rm n2");
    let said = host.refused("kumiki node device rm n1 disk7");
    assert!(said.contains("node n1 has no device disk7"), "{said}");
    // Of a node that runs it is tried at once, and is not there afterwards.
    let said = host.refused("kumiki node device add n1 --disk /no/such/file");
    assert!(said.contains("/no/such/file"), "{said}");
    let said = host.refused("kumiki node device add n1 --share /root:/mnt");
    assert!(said.contains("install the package virtiofsd"), "{said}");
    let list = host.ok("kumiki node device ls n1 --json");
    assert_eq!(list.matches(r#""name":"#).count(), 1, "{list}");
    // Whoever serves holds the node.
    let said = host.refused("kumiki node serve n1");
    assert!(said.contains("node n1 is served already"), "{said}");
}

/// Random bytes of the host's, which are others each time.
fn entropy(host: &Host) {
    host.ok("kumiki node device add n1 --rng");
    host.ok(&format!(
        "{UNTIL} 'grep -q virtio /sys/class/misc/hw_random/rng_current' && exit 0; sleep 0.2; \
         done; false"
    ));
    let read = "kumiki node exec n1 -- sh -c 'head -c 6000 /dev/hwrng | md5sum'";
    let (one, other) = (host.ok(read), host.ok(read));
    assert_ne!(one, other);
    assert!(!one.starts_with("d41d8cd9"), "nothing was read");
}

/// Lines both ways, and again when another process serves.
fn console(host: &Host) {
    host.ok("kumiki node device add n1 --console");
    let lines = |n: u32| {
        host.ok(&format!(
            "{UNTIL} '[ -c /dev/hvc0 ] && echo from node {n} > /dev/hvc0' && exit 0; sleep 0.2; done; false"
        ));
        // Among what the node's terminal has sent back of what was typed.
        host.ok(&format!("timeout 20 grep -m 1 'from node {n}' /run/kumiki-node/n1.console0"));
        host.ok(&format!(
            "(sleep 1; echo to node {n} > /run/kumiki-node/n1.console0) & \
             kumiki node exec n1 -- timeout 20 head -n 1 /dev/hvc0 > typed; \
             grep -qx 'to node {n}' typed; wait"
        ));
    };
    lines(1);
    host.ok(&format!("kill -9 $({WORKER}); sleep 1"));
    lines(2);
    host.ok("kumiki node device rm n1 console0; [ ! -e /run/kumiki-node/n1.console0 ]");
}

/// AF_VSOCK, and connections from both sides.
pub(crate) fn vsock(host: &Host) {
    host.ok(&format!(
        "{UNTIL} 'grep -q VSOCK /proc/net/protocols' && exit 0; sleep 0.2; done; false"
    ));
    host.ok("(kumiki node exec n1 -- kumiki node vsock listen 5000 --echo & echo) > /dev/null; \
             for n in $(seq 50); do kumiki node vsock connect 42 5000 < sent > echoed && break; \
             sleep 0.2; done; cmp sent echoed");
    host.ok("kumiki node vsock listen 5001 < sent > /dev/null & sleep 1; \
             kumiki node exec n1 -- sh -c 'kumiki node vsock connect 2 5001 < /dev/null | md5sum' \
             > there; md5sum < sent | cmp - there; wait");
}

fn copies(host: &Host) {
    host.ok("chmod 750 sent; kumiki node cp sent n1:/tmp; kumiki node cp n1:/tmp/sent again; \
             cmp sent again; [ $(stat -c %a again) = 750 ]; rm again");
    assert!(host.refused("kumiki node cp n1:/no x").contains("node n1: /no: "));
    assert!(host.refused("kumiki node cp sent n1:/no/x").contains("node n1: /no/x"));
    // What is there and is no plain file is written through, here and there.
    host.ok("touch -t 200109090146.40 sent; kumiki node cp sent n1:/tmp; \
             kumiki node cp n1:/tmp/sent again; [ $(stat -c %Y again) = $(stat -c %Y sent) ]");
    host.ok("kumiki node cp n1:/tmp/sent - | cmp - sent; \
             kumiki node cp n1:/tmp/sent /proc/self/fd/1 | cmp - sent");
    host.ok("kumiki node cp n1:/tmp/sent /dev/null; [ -c /dev/null ]");
    host.ok("ln -s target link; kumiki node cp n1:/tmp/sent link; [ -L link ]; cmp target sent");
    host.ok("mkfifo pipe; cat pipe > through & kumiki node cp n1:/tmp/sent pipe; wait; \
             cmp through sent; [ -p pipe ]");
    host.ok(
        "kumiki node cp - n1:/tmp/given < sent; kumiki node exec n1 cat /tmp/given | cmp - sent",
    );
    host.ok("kumiki node cp sent n1:/dev/null; kumiki node exec n1 -- test -c /dev/null");
    // Folders, and as archives by standard input and output.
    host.ok("mkdir -p tree/sub; cp sent tree/sub/; ln -s sub tree/link; chmod 700 tree/sub; \
             touch -t 200109090146.40 tree/sub/sent tree/sub tree; kumiki node cp tree n1:/tmp; \
             kumiki node cp n1:/tmp/tree tree2; diff -r tree tree2; [ -L tree2/link ]; \
             for name in . sub sub/sent; do \
             [ \"$(stat -c %a:%Y tree/$name)\" = \"$(stat -c %a:%Y tree2/$name)\" ]; done");
    assert!(
        host.refused(
            "kumiki node cp n1:/tmp/tree tree2/tree; kumiki node cp n1:/tmp/tree \
                          tree2"
        )
        .contains("tree2/tree: it is there already")
    );
    host.ok("kumiki node cp n1:/tmp/tree - | tar -tf - | grep -q sub/sent; \
             kumiki node exec n1 mkdir /tmp/given2; tar -cf - -C tree . | kumiki node cp - n1:/tmp/given2; \
             kumiki node exec n1 cat /tmp/given2/sub/sent | cmp - sent");
    assert!(host.refused("kumiki node cp n1:/no/folder x").contains("/no/folder"));
}

fn outputs(host: &Host) {
    for (command, status) in [
        ("nosuch", 127),
        ("/tmp/given", 126),
        ("echo text > /dev/full", 2),
        ("echo text >&-", 2),
        ("true >&-", 0),
    ] {
        host.ok(&format!("kumiki node exec n1 {command}; [ $? = {status} ]"));
    }
}

/// Behind the host's address a node reaches what its host reaches, and only once the host has
/// been told to.
fn user(host: &Host) {
    let said = host.refused("kumiki node device add n1 --net user");
    assert!(said.contains("kumiki node net up"), "{said}");
    let said = host.refused("kumiki node net up");
    assert!(said.contains("install the package nftables"), "{said}");
    let left = "ls /sys/class/net | grep -c kumiki0 || true; cat /proc/sys/net/ipv4/ip_forward";
    assert_eq!(host.ok(left), "0\n0\n");
    bring(host, "nftables", "/usr/sbin/nft", "/opt/nft");
    host.ok("kumiki node net up; kumiki node net up");
    // Another machine, which knows no way to the node.
    host.ok("unshare -n sleep 100000 > /dev/null 2>&1 & echo $! > outside; \
             until [ $(readlink /proc/$!/ns/net) != $(readlink /proc/self/ns/net) ]; do \
             sleep 0.1; done; ip link add near type veth; ip link set veth0 netns $!; \
             ip addr add 192.0.2.1/24 dev near; ip link set near up; \
             nsenter -t $! -n sh -c 'ip addr add 192.0.2.2/24 dev veth0; ip link set veth0 up'");
    let card = host.ok("kumiki node device add n1 --net user");
    let card = card.trim();
    host.ok(&format!("{UNTIL} 'ping -c 1 -w 2 192.0.2.2' && exit 0; sleep 0.2; done; false"));
    let said = host.refused("kumiki node net down");
    assert!(said.contains(&format!("in use by n1.{card}")), "{said}");
    host.ok(&format!(
        "kumiki node device rm n1 {card}; kumiki node net down; kumiki node net down"
    ));
    assert_eq!(host.ok(left), "0\n0\n");
    host.ok("kill -9 $(cat outside); ip link del near || true");
}

/// A host that has none moves a card's frames itself.
fn without_vhost_net(host: &Host) {
    host.ok("mv /dev/vhost-net /dev/kept");
    host.ok("kumiki node device add n1 --net auto,address=10.78.0.2/24,host=10.78.0.1/24,mtu=2000");
    host.ok("mv /dev/kept /dev/vhost-net; reached 10.78.0.2");
    assert!(host.ok("cat /run/kumiki-node/n1.log").contains("frames are moved by this process"));
    stream(
        host,
        "nc -l -p 7004 < sent",
        "kumiki node exec n1 -- sh -c \
         'exec 3<>open; nc 10.78.0.1 7004 <&3 | md5sum' > there",
    );
    host.ok("md5sum < sent | cmp - there");
    host.ok("kumiki node exec n1 -- ping -c 1 -w 20 -s 1900 10.78.0.1");
    host.ok("kumiki node device rm n1 net1");
}

/// A program that no Debian 12 has, or that a machine of the lab has not, with the libraries
/// that it needs.
pub(crate) fn bring(host: &Host, package: &str, program: &str, at: &str) {
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let cache = Cache::of_user().unwrap();
    let folder = borrowed(&cache, ("trixie", package), program, Path::new(at), talk).unwrap();
    host.machine.guest().put(folder.path(), Path::new(at)).unwrap();
    let place = Path::new(program).parent().unwrap().display();
    host.ok(&format!("mkdir -p {place}; ln -sf {at}/run {program}"));
}

pub(crate) fn folder(host: &Host) {
    bring(host, "virtiofsd", "/usr/libexec/virtiofsd", "/opt/virtiofsd");
    host.ok("mkdir -p shared; echo hello > shared/small; cp sent shared/large");
    host.ok("kumiki node device add n1 --share shared:/mnt/shared");
    host.ok(&format!("{UNTIL} '[ -e /mnt/shared/small ]' && exit 0; sleep 0.2; done; false"));
    let sums = host.ok("kumiki node exec n1 -- sh -c 'md5sum < /mnt/shared/large; \
                        head -c 1000000 /mnt/shared/large > /mnt/shared/part; sync'");
    assert_eq!(sums, host.ok("md5sum < shared/large"));
    host.ok("head -c 1000000 sent | cmp - shared/part");
}

/// A folder's server ends, or the folder itself is removed: the rest goes on.
fn folders_go(host: &Host) {
    // What serves it ends: the folder is gone, the rest goes on, and it can come again.
    host.ok("kill -9 $(ps | grep 'shared-di[r]' | awk '{print $1}'); for n in $(seq 50); do \
             kumiki node device ls n1 | grep 'virtiofsd has ended' && exit 0; sleep 0.2; done; false");
    host.ok("reached 10.77.0.2; kumiki node device rm n1 share0; \
             kumiki node device add n1 --share shared:/mnt/shared");
    host.ok(&format!("{UNTIL} '[ -e /mnt/shared/small ]' && exit 0; sleep 0.2; done; false"));
    // A folder that is not there any more is an error where it is read.
    host.ok("mkdir gone; echo 1 > gone/file; kumiki node device add n1 --share gone:/mnt/gone");
    host.ok(&format!("{UNTIL} '[ -e /mnt/gone/file ]' && exit 0; sleep 0.2; done; false"));
    host.ok(
        "rm -r gone; kumiki node exec n1 -- sh -c '! cat /mnt/gone/file; ls /mnt/shared/small'; \
             kumiki node device rm n1 share1",
    );
}

/// A stream goes on while the process that serves it is killed: another one takes over.
fn server_dies(host: &Host) {
    host.ok("kumiki node exec n1 -- sh -c 'rm -f open /tmp/got; mkfifo open' ; \
             head -c 20000000 /dev/urandom > sent");
    stream(
        host,
        &format!(
            "nc -l -p 7003 < sent & sleep 3; kill -9 $({WORKER}); sleep 0.5; \
             until kill -9 $({WORKER}); do sleep 0.1; done"
        ),
        "kumiki node exec n1 -- sh -c \
         'exec 3<>open; nc 10.77.0.1 7003 <&3 > /tmp/got; md5sum < /tmp/got' > there",
    );
    host.ok("md5sum < sent | cmp - there");
    let log = host.ok("cat /run/kumiki-node/n1.log");
    // One at the console, two here.
    assert_eq!(log.matches("has ended: signal: 9").count(), 3, "{log}");
}
