//! Many starts under load, by request: they take minutes.

use crate::Host;

/// `KUMIKI_NODE_STARTS=100 cargo test -p kumiki-cli --test node -- --ignored soak`
#[test]
#[ignore = "minutes; run it by name after a change to the module"]
fn starts_and_stops_of_two_nodes_under_load() {
    let rounds = std::env::var("KUMIKI_NODE_STARTS").map_or(100, |text| text.parse().unwrap()) / 2;
    let Some(host) = Host::start("6.1") else { return };
    let host = host.with_image();
    let before = host.resources();
    // Writes, reads and processes, on the cpus that stay the host's.
    host.ok("while :; do head -c 20000000 /dev/urandom > /tmp/load; md5sum /tmp/load; done \
         > /dev/null 2>&1 & echo $! > /tmp/pids; \
         while :; do ls -lR /proc/self /sys/class; done > /dev/null 2>&1 & echo $! >> /tmp/pids");
    for name in ["n1", "n2"] {
        host.ok(&format!("kumiki node create {name} --memory 256M --image deb"));
    }
    for round in 0..rounds {
        host.ok("kumiki node start n1 --timeout 120 & one=$!; \
                 kumiki node start n2 --timeout 120 && wait $one");
        for name in ["n1", "n2"] {
            assert_eq!(
                host.ok(&format!("kumiki node exec {name} -- hostname")),
                format!("{name}\n")
            );
        }
        let ways = ["stop", "kill"];
        host.ok(&format!("kumiki node {} n1", ways[round % 2]));
        host.ok(&format!("kumiki node {} n2", ways[(round + 1) % 2]));
        eprintln!("round {} of {rounds}", round + 1);
    }
    host.ok("kumiki node delete n1 && kumiki node delete n2; kill $(cat /tmp/pids); rm /tmp/load");
    let after = host.resources();
    assert_eq!(after.0, before.0);
    assert!(after.1 + 48 * 1024 > before.1, "{} KiB free, {} before", after.1, before.1);
    host.machine.shut_down(0).unwrap();
}
