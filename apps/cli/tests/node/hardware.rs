//! A first session on a machine: its record, of one that goes well and of one that does not.

use serde_json::Value;

use crate::Host;
use crate::pool::Kind;

#[test]
fn a_first_session_leaves_a_record_and_nothing_else() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let line =
        "kumiki node try-hardware --kernel /boot/vmlinux --guest-module osnode-guest.ko --starts 2";
    assert!(host.refused(line).contains("--yes"));
    let before = host.ok("cat /sys/devices/system/cpu/online");
    host.ok(&format!("{line} --yes"));
    let record: Value = serde_json::from_str(&host.ok("cat kumiki-hardware.json")).unwrap();
    assert_eq!(record["good"], true, "{record}");
    let steps = record["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["status"] == 0), "{record}");
    let said = |command: &str| {
        let step = steps.iter().find(|step| step["command"].as_str().unwrap().contains(command));
        step.unwrap()["said"].as_str().unwrap().to_owned()
    };
    assert!(said("uname -a").contains("Linux"), "{record}");
    assert!(said("node logs").contains("Command line"), "{record}");
    assert!(said("node start").contains("kernel"), "{record}");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), before);
    assert_eq!(host.ok("kumiki image ls --json"), "[]\n");

    // A guest module that is none: the step that fails ends it, and what was made is removed.
    host.ok("echo none >none.ko");
    let line = "kumiki node try-hardware --kernel /boot/vmlinux --guest-module none.ko --yes --output bad.json";
    assert_eq!(host.run(line).exit.code(), 1);
    let record: Value = serde_json::from_str(&host.ok("cat bad.json")).unwrap();
    assert_eq!(record["good"], false, "{record}");
    let steps = record["steps"].as_array().unwrap();
    let failed = steps.iter().find(|step| step["status"] != 0).unwrap();
    assert!(failed["command"].as_str().unwrap().contains("image add"), "{record}");
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
    host.leave();
}
