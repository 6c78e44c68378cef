//! The units of this repository, by a Debian with systemd: it is the first process of a namespace, as of
//! a container that may do everything, and all else is as at a boot.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::Host;
use crate::systems::{disk, host_with};

/// Beside what any system has: programs that units use, and a node's.
const PACKAGES: [&str; 3] = ["sed", "grep", "busybox-static"];
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");
const NODES: &str = r#"
[image.deb]
kernel = "/boot/vmlinux"
[node.n1]
image = "deb"
memory = "256M"
restart = true
health = "exec:true"
net = ["auto,address=10.77.0.2/24,host=10.77.0.1/24"]
[node.n2]
image = "deb"
memory = "256M"
"#;
/// Brings kernel, modules and the tool to where Debian has them.
const FILL: &str = "
    set -e; mkdir -p m; mount -t ext4 /dev/vda m; modules=m/lib/modules/$(uname -r)
    mkdir -p $modules/updates m/boot; cp -r /lib/modules/$(uname -r)/. $modules
    cp osnode.ko osnode-guest.ko osnode-virtio.ko $modules/updates
    cp /boot/vmlinux m/boot; cp $(which kumiki kumiki-noded kumiki-node-agent) m/usr/bin
    chroot m /usr/sbin/depmod $(uname -r)";
const REACHED: &str =
    "for n in $(seq 60); do ping -c 1 -w 2 10.77.0.2 && exit 0; sleep 0.5; done; false";
/// `booted`: the process that is the first of its namespace; systemd's children are called so, too,
/// until each has its program.
const BOOT: &str = "rm -f booted; unshare -m -p -f -- chroot m /lib/systemd/systemd \
                    --log-target=kmsg > console 2>&1 < /dev/null & \
                    until [ -s booted ]; do sleep 0.1; for one in $(pidof systemd); do \
                    grep -q 'NSpid.*[^0-9]1$' /proc/$one/status && echo $one > booted; done; done";

/// Runs a line of shell where that system is.
fn inside(line: &str) -> String {
    format!(
        "cd /; nsenter -t $(cat /root/booted) -m -p -r -- /usr/bin/env PATH=/usr/sbin:/usr/bin /bin/sh -c '{line}'"
    )
}

/// Waits for a line to succeed there.
fn until(host: &Host, line: &str) {
    let tries = "for n in $(seq 240); do [ $n -gt 1 ] && sleep 1;";
    let said = "kumiki node ls; dmesg | grep systemd | tail -n 60; false";
    host.ok(&format!("{tries} {} && exit 0; done; {said}", inside(line)));
}

fn boot(host: &Host) {
    host.ok(BOOT);
    until(host, "test -S /run/systemd/private");
    until(host, "systemctl is-active kumiki-nodes");
    until(host, "kumiki node exec n1 -- true && kumiki node exec n2 -- true");
    host.ok(REACHED);
}

#[test]
#[ignore = "minutes: systemd and two nodes; `cargo xtask test long`, after a change to the units or to what they run"]
fn units_bring_nodes_up_at_a_boot_keep_them_and_stop_them() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), &PACKAGES, |root| {
        let units = root.join("usr/lib/systemd/system");
        for unit in fs::read_dir(UNITS).unwrap() {
            let unit = unit.unwrap();
            fs::copy(unit.path(), units.join(unit.file_name())).unwrap();
        }
        fs::create_dir_all(root.join("etc/kumiki")).unwrap();
        fs::write(root.join("etc/kumiki/machine.toml"), NODES).unwrap();
        // As `systemctl enable` does.
        for (by, unit) in
            [("multi-user.target", "kumiki-nodes"), ("kumiki-nodes.service", "kumiki-nodes-watch")]
        {
            let wants = root.join(format!("etc/systemd/system/{by}.wants"));
            fs::create_dir_all(&wants).unwrap();
            let unit = format!("{unit}.service");
            symlink(Path::new("/usr/lib/systemd/system").join(&unit), wants.join(&unit)).unwrap();
        }
    });
    let Some(host) = host_with(&disk) else { return };
    host.ok(FILL);
    for _ in 0..2 {
        boot(&host);
        // One whose server has ended is served by a unit of its own.
        host.ok("kill -9 $(ps | grep 'kumiki-noded serve [n]1' | awk '{print $1}'); sleep 1");
        host.ok(&inside("systemctl start kumiki-node@n1"));
        host.ok(REACHED);
        assert_eq!(host.ok(&inside("systemctl is-active kumiki-node@n1")), "active\n");
        // One that crashes starts again, the other one does not.
        host.run("kumiki node exec n1 -- poweroff -f; kumiki node exec n2 -- poweroff -f");
        until(&host, "kumiki node ls | grep -q \"restarts: 1\" && kumiki node exec n1 -- true");
        let ended = host.run("kumiki node exec n2 -- true");
        assert_ne!(ended.exit.code(), 0);
        // A changed file.
        let file = "/etc/kumiki/machine.toml";
        host.ok(&inside(&format!("sed -i /n2/,\\$d {file} && systemctl reload kumiki-nodes")));
        host.ok(&inside(&format!(
            "echo append = \\\"debug\\\" >> {file}; systemctl reload kumiki-nodes"
        )));
        until(&host, "kumiki node exec n1 -- grep -q debug /proc/cmdline");
        host.ok(&inside("systemctl stop kumiki-nodes"));
        assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
        host.ok(&format!("cat > m{file} <<'EOF'{NODES}EOF\n"));
        host.ok(&inside("systemctl start kumiki-nodes"));
        // The machine's end stops them in order.
        host.run(&inside("systemctl poweroff"));
        host.ok("for n in $(seq 240); do [ -d /proc/$(cat booted) ] || exit 0; sleep 1; done; \
                 dmesg | tail -n 60; false");
        assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
        host.ok("kumiki image evict");
    }
    host.machine.shut_down(0).unwrap();
}
