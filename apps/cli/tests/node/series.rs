//! Starts from snapshots, one after the other, while other nodes work: by request, they take
//! a quarter of an hour.

use crate::Host;
use crate::pool::Kind;

/// Works on, and notes how far it is.
const WORK: &str = "sh -c '(setsid sh -c \"n=0; while :; do n=\\$((n + 1)); echo \\$n > /tmp/n.new; \
                    mv /tmp/n.new /tmp/n; done\" > /dev/null 2>&1 &)'";

/// `KUMIKI_SNAPSHOT_STARTS=8 cargo test -p kumiki-cli --test node -- --ignored snapshots_start`:
/// so many in all.
#[test]
#[ignore = "a quarter of an hour; `cargo xtask test long`, after a change to sleep.c or to boot's wake.rs"]
fn nodes_of_one_and_two_cpus_of_two_kernels_start_from_snapshots() {
    let asked = std::env::var("KUMIKI_SNAPSHOT_STARTS").map_or(200, |text| text.parse().unwrap());
    for kind in [Kind::Debian12, Kind::Debian13] {
        let Some(host) = Host::shared(kind) else { return };
        for (node, cpus) in [("n1", 1), ("n2", 2)] {
            host.ok(&format!("kumiki node create {node} --cpus {cpus} --memory 256M --image deb"));
        }
        for (node, other) in [("n1", "n2"), ("n2", "n1")] {
            starts(&host, (node, other), asked / 4);
        }
        host.ok("for node in n1 n2; do kumiki node rm $node --force; done");
        host.leave();
    }
}

/// Each as the snapshot is, not as the one before it left it; the other node works on.
fn starts(host: &Host, (node, other): (&str, &str), rounds: u32) {
    host.ok(&format!(
        "kumiki node start {node} --timeout 240; kumiki node exec {node} -- {WORK}; \
         kumiki node exec {node} -- sh -c 'until test -s /tmp/n; do sleep 0.1; done'; \
         kumiki node snapshot {node} warm; kumiki node start {other} --timeout 240; \
         kumiki node exec {other} -- {WORK}"
    ));
    let cpus = if node == "n1" { "1\n" } else { "2\n" };
    let far = |node: &str| -> u64 {
        host.ok(&format!("kumiki node exec {node} -- cat /tmp/n")).trim().parse().unwrap()
    };
    for round in 1..=rounds {
        host.ok(&format!("kumiki node start {node} --from warm --timeout 120"));
        let said = host.ok(&format!(
            "kumiki node exec {node} -- sh -c 'test ! -e /tmp/mark; touch /tmp/mark; nproc'"
        ));
        assert_eq!(said, cpus, "round {round}");
        let before = far(node);
        host.ok(&format!(
            "kumiki node exec {node} -- sh -c 'while test $(cat /tmp/n) -le {before}; do sleep 0.1; done'"
        ));
        let before = far(other);
        host.ok(&format!(
            "kumiki node exec {other} -- sh -c 'while test $(cat /tmp/n) -le {before}; do sleep 0.1; done'"
        ));
        host.ok(&format!("kumiki node kill {node}"));
    }
    host.ok(&format!("kumiki node kill {other}; kumiki image verify warm; kumiki image rm warm"));
}
