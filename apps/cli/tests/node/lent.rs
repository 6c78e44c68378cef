//! A node that another node starts.

use crate::Host;
use crate::pool::Kind;

#[test]
fn a_node_starts_another_one_from_the_resident_image() {
    let Some(host) = Host::shared_without_image(Kind::Debian13) else { return };
    host.add_shipped_image();
    for node in ["n1", "n2"] {
        host.ok(&format!("kumiki node create {node} --memory 256M --image deb"));
    }
    assert!(host.refused("kumiki node delegate n2 n1").contains("n1 does not run"));
    host.ok("kumiki node start n1 --timeout 120");
    let in_n1 = "kumiki node exec n1 -- kumiki node";
    assert!(host.refused(&format!("{in_n1} start n2")).contains("is not lent"));
    host.ok("kumiki node delegate n2 n1");
    let list = host.ok("kumiki node ls --json");
    assert!(list.contains(r#""lent_to":"n1""#) && list.contains(r#""state":"lent""#), "{list}");
    // The node lists it as the host does.
    let here = host.ok(&format!("{in_n1} ls --json"));
    let fields = [r#""lent_to":"n1""#, r#""state":"lent""#, r#""image":"deb""#];
    assert!(fields.iter().all(|field| here.contains(field)), "{here}");
    assert!(host.refused("kumiki node start n2").contains("node stop n2"));
    assert!(host.refused("kumiki image rm deb --force").contains("node stop n2"));

    // The first start, one after an end, and one of a node that runs.
    let started = host.ok(&format!("{in_n1} start n2 --timeout 120 --json"));
    assert!(started.contains("load_ms"), "{started}");
    assert_eq!(host.ok("kumiki node exec n2 -- hostname"), "n2\n");
    assert!(host.refused(&format!("{in_n1} start n2")).contains("runs already"));
    assert!(host.ok(&format!("{in_n1} ls")).contains("ready"));
    host.run("kumiki node exec n2 -- poweroff -f");
    host.ok(&format!("{in_n1} start n2 --timeout 120 --bzimage"));
    host.ok("kumiki node exec n2 -- touch /mark");
    host.ok(&format!("{in_n1} restart n2 --timeout 120"));
    assert_eq!(host.run("kumiki node exec n2 -- test -e /mark").exit.code(), 1);
    assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");

    // The host takes it back, and starts it itself.
    host.ok("kumiki node stop n2");
    assert!(host.refused(&format!("{in_n1} start n2")).contains("is not lent"));
    host.ok("kumiki node start n2 --timeout 120");
    assert!(host.refused(&format!("{in_n1} restart n2")).contains("is not lent"));
    host.ok("kumiki node stop n2");

    // A start that never ends keeps the host off, until the node that began it has ended.
    host.ok("kumiki node delegate n2 n1");
    let memory = host.ok("head -n 1 /sys/class/misc/kumiki-osnode/nodes/n2/memory");
    let mut numbers = memory[2..].trim().split(" 0x");
    let mut number = || u64::from_str_radix(numbers.next().unwrap(), 16).unwrap();
    let lent = number() + number() - (2 << 20) + 0x20;
    host.ok(&format!("kumiki node exec n1 -- devmem {lent:#x} 32 2"));
    host.run("timeout 3 kumiki node stop n2");
    assert!(host.ok("kumiki node ls").contains("lent"));
    host.ok("kumiki node kill n1");
    host.ok("kumiki node stop n2");
    for node in ["n1", "n2"] {
        host.ok(&format!("kumiki node rm {node}"));
    }
    host.leave();
}
