//! What a node may do, and what may be asked for, without harm to the host.

use crate::Host;

#[test]
fn what_ends_a_node_leaves_the_host_and_is_told() {
    let Some(host) = Host::start("6.1") else { return };
    let host = host.with_image();
    refusals(&host);
    host.ok("kumiki node create n1 --cpus 1 --memory 256M --image deb");
    for (command, word) in [
        ("reboot -f", "restart"),
        ("poweroff -f", "halted"),
        ("sh -c \"echo c > /proc/sysrq-trigger\"", "panic"),
    ] {
        host.ok("kumiki node start n1 --timeout 120");
        let output = host.run(&format!("kumiki node exec n1 -- {command}"));
        assert_eq!(output.exit.code(), 2);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("has ended ({word})")), "{said}");
        let list = host.ok("kumiki node ls --json");
        assert!(list.contains(&format!(r#""word":"{word}""#)), "{list}");
        assert_eq!(list.contains("sysrq triggered crash"), word == "panic", "{list}");
        assert!(!host.ok("kumiki node logs n1").is_empty());
        // From the image that is still there.
        host.ok("kumiki node restart n1 --timeout 120");
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
        host.ok("kumiki node stop n1");
    }
    // A node that is busy is not asked.
    host.ok("kumiki node start n1 --timeout 120");
    host.run("kumiki node exec n1 -- sh -c 'while :; do :; done' > /dev/null 2>&1 & sleep 1");
    host.ok("kumiki node kill n1");
    host.ok("kumiki node delete n1");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n");
    killed(&host);
    host.machine.shut_down(0).unwrap();
}

/// Whenever a `create` is killed, what it has taken is shown and can be given back.
fn killed(host: &Host) {
    for seconds in ["0.1", "0.5", "1.0", "1.3", "1.5", "1.7", "2.0", "2.5"] {
        let create = "kumiki node create n2 --cpus 2 --memory 256M --image deb";
        host.run(&format!("timeout -s KILL {seconds} {create}"));
        let list = host.ok("kumiki node ls --json");
        if list != "[]\n" {
            host.ok("kumiki node delete n2");
        }
        assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n", "after {seconds} s");
    }
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
}

fn refusals(host: &Host) {
    for (line, says) in [
        ("kumiki node create n1 --memory 256M --image none", "there is no image none"),
        ("kumiki node create n1 --memory 32M --image deb", "alone needs"),
        ("kumiki node create n1 --cpus 4 --memory 256M --image deb", "3 online"),
        ("kumiki node create N1 --memory 256M --image deb", "1 to 31"),
        ("kumiki node create n1 --memory 100G --image deb", "are not free"),
        ("kumiki image add deb --kernel /boot/vmlinuz --guest-module osnode-guest.ko", "exists"),
        (
            "echo text > plain; kumiki image add x --kernel plain --guest-module osnode-guest.ko",
            "no Linux kernel",
        ),
        ("kumiki image add x --kernel /boot/vmlinuz", "--guest-module"),
        ("head -c 1000000 /boot/vmlinuz > half; kumiki image add x --kernel half", "truncated"),
        ("kumiki node start n9", "there is no node n9"),
    ] {
        let said = host.refused(line);
        assert!(said.contains(says), "{line}: {said}");
    }
    // Nothing of it is left.
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n");
}
