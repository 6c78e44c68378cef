//! Nodes of several cpus, and several nodes at once.

use crate::{Host, built};

/// Two nodes of a host: one of two cpus with the host's kernel, and one of two
/// pieces of memory with another.
fn nodes(host: &Host, other: &str) {
    let other = built(other).unwrap();
    host.put(&other, "/boot/other", "/root/other/osnode-guest.ko");
    host.ok("kumiki image add other --kernel /boot/other --guest-module other/osnode-guest.ko");
    host.ok("kumiki node create n1 --cpus 2 --memory 256M --image deb");
    host.ok("kumiki node create n2 --cpus 1 --memory 192M,64M --image other");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0\n");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok("kumiki node start n2 --timeout 120");
    assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n");
    assert_eq!(host.ok("kumiki node exec n2 -- nproc"), "1\n");
    assert_eq!(host.ok("kumiki node exec n2 -- uname -r"), format!("{}\n", other.kernel.version));
    // The second piece is memory, too: the first alone has less than 192 MiB.
    let total = host.ok("kumiki node exec n2 -- grep MemTotal: /proc/meminfo");
    let kib: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib > 192 << 10, "{total}");
    // Talks at the same time, each with its own node.
    let both =
        host.ok("for n in 1 2 1 2 1 2; do kumiki node exec n$n -- hostname & done | sort; wait");
    assert_eq!(both, "n1\nn1\nn1\nn2\nn2\nn2\n");
    // The first ends, the second lives on.
    host.ok("kumiki node stop n1");
    host.ok("kumiki node delete n1");
    assert_eq!(host.ok("kumiki node exec n2 -- hostname"), "n2\n");
    host.ok("kumiki node delete n2 --force");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n");
}

#[test]
fn two_nodes_and_a_node_of_two_cpus_on_debian_12() {
    let Some(host) = Host::start("6.1") else { return };
    let host = host.with_image();
    nodes(&host, "6.12");
    host.machine.shut_down(0).unwrap();
}

#[test]
fn the_same_above_4_gib_on_debian_13() {
    let Some(host) = Host::start_with("6.12", 5 << 30) else { return };
    let host = host.with_image();
    nodes(&host, "6.1");
    // The allocator begins at the upper end.
    host.ok("kumiki node create n3 --memory 256M --image deb");
    let first = host.ok("head -n 1 /sys/class/misc/kumiki-osnode/nodes/n3/memory");
    let address = u64::from_str_radix(&first[2..first.find(' ').unwrap()], 16).unwrap();
    assert!(address >= 4 << 30, "{first}");
    host.ok("kumiki node delete n3");
    host.machine.shut_down(0).unwrap();
}
