//! Nodes of several cpus, and several nodes at once.

use crate::Host;

fn nodes(host: &Host) {
    host.ok("kumiki node create n1 --cpus 2 --memory 256M --image deb");
    host.ok("kumiki node create n2 --cpus 1 --memory 192M --image deb");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0\n");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok("kumiki node start n2 --timeout 120");
    assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n");
    assert_eq!(host.ok("kumiki node exec n2 -- nproc"), "1\n");
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
    nodes(&host);
    host.machine.shut_down(0).unwrap();
}

#[test]
fn the_same_on_debian_13() {
    let Some(host) = Host::start("6.12") else { return };
    let host = host.with_image();
    nodes(&host);
    host.machine.shut_down(0).unwrap();
}
