//! Nodes that sleep in files, their memory with the host.

use crate::Host;
use crate::pool::Kind;
use crate::snapshots::{HAS, LEAVE};

const FILE: &str = "/root/n1.asleep";
/// A card and a disk; and what the node has on the disk, mounted for writing.
const DEVICES: &str = "--net auto,address=10.77.0.2/24,host=10.77.0.1/24 --disk disk";
const DISK_HAS: &str =
    "kumiki node exec n1 -- sh -c 'cat /data/said; echo again > /data/more; sync'";
const STATES: &str = "cat /sys/devices/system/memory/memory*/state | sort | uniq -c";

/// Its memory is the host's as long as nobody asks, comes back for one packet or a command, and is
/// what it was, mounted disks included.
#[test]
#[ignore = "five minutes, most of them for compressing and hashing: `cargo xtask test long`, after a change to idle nodes, their files, or how memory is taken"]
fn an_idle_node_leaves_its_memory_to_its_host() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let before = host.ok(STATES);
    of_the_host_s_own_allocator(&host);
    host.ok(&format!(
        "truncate -s 8M disk; kumiki node create n1 --memory 256M --memory-from offline --image deb \
         {DEVICES}; kumiki node start n1 --timeout 120; reached 10.77.0.2"
    ));
    host.ok(LEAVE);
    host.ok("kumiki node exec n1 -- sh -c 'mkdir -p /data; mke2fs /dev/vda > /dev/null 2>&1; \
             mount -t ext4 /dev/vda /data; echo kept > /data/said'");
    let has_memory = host.ok(STATES);
    assert!(has_memory.contains("2 offline"), "{has_memory}");
    host.ok(&format!("kumiki node idle n1 --after 3s --file {FILE} 2> said & echo $! > idle.pid"));
    is_away(&host);
    assert_eq!(host.ok(STATES), before);
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), crate::ALL_CPUS);
    as_it_is_seen(&host);
    // The host's own data, where the node's was: it moves.
    host.ok("mkdir full; mount -t tmpfs -o size=400m none full; \
             yes kumiki | head -c 300000000 > full/own; md5sum < full/own > sum");
    // One packet, which waits for the node.
    host.ok("ping -c 1 -W 300 10.77.0.2");
    host.ok("for n in $(seq 240); do grep -q 'n1: awake' said && exit; sleep 0.25; done; \
             cat said; exit 1");
    host.ok("md5sum < full/own | cmp - sum");
    assert_eq!(host.ok(HAS), "before\n");
    assert_eq!(host.ok(DISK_HAS), "kept\n");
    is_away(&host);
    nobody_looks(&host);
    host.ok("umount full");
    what_goes_wrong(&host, &before);
    assert_eq!(host.ok(HAS), "before\n");
    assert_eq!(host.ok(DISK_HAS), "kept\n");
    assert_eq!(host.ok(STATES), has_memory);
    host.ok(&format!("! test -e {FILE} && ping -c 1 -w 30 10.77.0.2"));
    is_started_anew(&host);
    host.ok("kumiki node rm n1 --force; ! test -e /run/kumiki-node/n1.stowed");
    assert_eq!(host.ok(STATES), before);
    host.leave();
}

/// Waits until it is in its file.
fn is_away(host: &Host) {
    host.ok("for n in $(seq 1200); do \
             kumiki node ls --json | grep -q '\"bytes\":0' && exit; sleep 0.5; done; cat said; exit 1");
}

/// From now on it is woken by commands alone.
fn nobody_looks(host: &Host) {
    host.ok("kill $(cat idle.pid); while kill -0 $(cat idle.pid) 2> /dev/null; do sleep 0.1; done");
}

fn of_the_host_s_own_allocator(host: &Host) {
    host.ok("kumiki node create n1 --memory 256M --memory-from contig --image deb; \
             kumiki node start n1 --timeout 120");
    let said = host.refused("kumiki node idle n1 --after 3s --file");
    assert!(said.contains("--memory-from offline, or boot"), "{said}");
    host.ok("kumiki node rm n1 --force");
}

/// It is a node still, with all that it has but memory.
fn as_it_is_seen(host: &Host) {
    let list = host.ok("kumiki node ls --json");
    assert!(list.contains(r#""state":"idle""#) && list.contains(r#""bytes":0"#), "{list}");
    assert!(host.ok("kumiki node device ls n1").contains("disk0"));
    let said = host.refused(&format!("kumiki image load cold {FILE}"));
    assert!(said.contains("where a node sleeps while nobody asks for it"), "{said}");
    let said = host.refused("kumiki node create n2 --memory 256M --image deb --disk disk");
    assert!(said.contains("node n1's already"), "{said}");
    let said = host.refused("kumiki image rm deb");
    assert!(said.contains("in use by n1"), "{said}");
    let said = host.refused("kumiki node device add n1 --rng");
    assert!(said.contains("sleeps in a file, without memory"), "{said}");
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("does not run"), "{said}");
}

/// It stays in its file, whole, whatever becomes of those who wake it.
fn what_goes_wrong(host: &Host, before: &str) {
    // Its memory is not to be had.
    let block = host.ok("sed 's/.*\"blocks\":\\[\\([0-9]*\\).*/\\1/' /run/kumiki-node/n1.stowed");
    let state = format!("/sys/devices/system/memory/memory{}/state", block.trim());
    host.ok(&format!("echo offline > {state}"));
    let said = host.refused("kumiki node exec n1 -- true");
    assert!(said.contains("is off line, for another node or by hand"), "{said}");
    host.ok(&format!("echo online_movable > {state}"));
    // Its file is not what it was.
    let flip = format!(
        "size=$(stat -c %s {FILE}); (head -c $((size / 2)) {FILE}; printf kumiki; \
         tail -c +$((size / 2 + 7)) {FILE}) > other; mv {FILE} whole; mv other {FILE}"
    );
    host.ok(&flip);
    let said = host.refused("kumiki node exec n1 -- true");
    assert!(said.contains(&format!("{FILE} is damaged")), "{said}");
    assert_eq!(host.ok(STATES), before);
    host.ok(&format!("mv whole {FILE}"));
    // Killed before it has its memory, or with a part of that.
    for seconds in ["0.3", "2"] {
        host.run(&format!("timeout -s KILL {seconds} kumiki node exec n1 -- true"));
        assert!(host.ok("kumiki node ls --json").contains(r#""state":"idle""#), "{seconds} s");
    }
}

/// What was in its memory is lost then, and it has memory.
fn is_started_anew(host: &Host) {
    host.ok(&format!(
        "kumiki node exec n1 -- umount /data; \
         kumiki node idle n1 --after 3s --file {FILE} 2> said & echo $! > idle.pid"
    ));
    is_away(host);
    nobody_looks(host);
    host.ok(&format!("kumiki node start n1 --timeout 120; ! test -e {FILE}"));
    assert_ne!(host.run(HAS).exit.code(), 0);
}
