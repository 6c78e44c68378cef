//! Nodes that are handed over to a system of their owner's: Debian with systemd, from a disk and
//! from an image, and what an initramfs begins with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_lab::{Cache, Config, Talk, debian_root};

use crate::devices::bring;
use crate::pool::{Kind, Turn};
use crate::{Host, built, had, rooted};

/// Debian's own, and what makes a system of unpacked packages that nobody has set up.
const PACKAGES: [&str; 8] =
    ["systemd-sysv", "bash", "coreutils", "dash", "kmod", "libc-bin", "util-linux", "mawk"];
const FILES: [(&str, &str); 5] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nmessagebus:x:100:100::/:/bin/false\n"),
    ("etc/group", "root:x:0:\nmessagebus:x:100:\n"),
    ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("etc/fstab", ""),
    ("etc/systemd/system/kept.service", KEPT),
];
/// Says on its disk that it was stopped in order.
const KEPT: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo up >> \
    /kept'\nExecStop=/bin/sh -c 'echo down >> /kept'\n[Install]\nWantedBy=multi-user.target\n";
const DISK_MIB: u32 = 600;

fn run(program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).status().unwrap();
    assert!(status.success(), "{program} {words:?}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A disk with a system on it, of these packages, too, and with whatever else is done to its root.
pub(crate) fn disk(folder: &Path, further: &[&str], finish: impl FnOnce(&Path)) -> PathBuf {
    let root = root(folder, further);
    finish(&root);
    let disk = folder.join("disk");
    let size = format!("{DISK_MIB}M");
    run("mkfs.ext4", &["-q", "-d", &text(&root), &text(&disk), &size]);
    fs::remove_dir_all(root).unwrap();
    disk
}

/// A host that has this disk at /dev/vda.
pub(crate) fn host_with(disk: &Path) -> Option<Host> {
    let wanted = |config: &mut Config| {
        let drive = format!("file={},if=virtio,format=raw,cache=unsafe", disk.display());
        config.qemu.extend(["-drive".into(), drive.into()]);
        config.memory_bytes = 3 << 30;
        for module in ["virtio_blk", "ext4"] {
            config.modules.push(module.parse().unwrap());
        }
    };
    had(Host::start("6.12", wanted, Turn::wait()))
}

fn root(folder: &Path, further: &[&str]) -> PathBuf {
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let all = [&PACKAGES[..], further].concat();
    let packages = debian_root(&Cache::of_user().unwrap(), "trixie", &all, talk).unwrap();
    let root = folder.join("root");
    run("cp", &["-a", &text(&packages), &text(&root)]);
    for (path, content) in FILES {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink("../kept.service", wants.join("kept.service")).unwrap();
    let default = root.join("etc/systemd/system/default.target");
    std::os::unix::fs::symlink("/usr/lib/systemd/system/multi-user.target", default).unwrap();
    root
}

fn systemd_runs(host: &Host) {
    // It is up when its agent answers; systemd has only begun then.
    let state = "kumiki node exec n1 -- sh -c 'until test -S /run/systemd/private; do \
                 sleep 0.1; done; systemctl is-system-running --wait'";
    let state = host.run(&format!("timeout 240 {state}"));
    let said = String::from_utf8_lossy(&state.stdout).into_owned();
    if said != "running\n" {
        host.run("kumiki node exec n1 -- systemctl --failed --no-pager");
        host.run("kumiki node logs n1 | tail -n 60");
    }
    assert_eq!(said, "running\n");
    assert_eq!(host.ok("kumiki node exec n1 -- cat /proc/1/comm"), "systemd\n");
}

/// A node's kernel has nothing that switches power off: it halts instead.
fn stopped_in_order(host: &Host) {
    host.ok("kumiki node stop n1 --timeout 240");
    let list = host.ok("kumiki node ls --json");
    assert!(list.contains(r#""word":"halted""#), "{list}");
}

/// How often it boots and is stopped: `KUMIKI_BOOTS` times, or twice.
fn boots() -> usize {
    let asked = std::env::var("KUMIKI_BOOTS").ok();
    asked.map_or(2, |text| text.parse().expect("KUMIKI_BOOTS: a number"))
}

#[test]
#[ignore = "minutes: systemd starts in an emulated node; `cargo xtask test long`, after a change to inits"]
fn debian_with_systemd_boots_from_a_disk_and_is_stopped_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), &[], |_| {});
    let Some(host) = host_with(&disk) else { return };
    host.add_image();
    host.ok("kumiki node create n1 --memory 512M --image deb --disk /dev/vda --init /sbin/init");
    for run in 1..=boots() {
        host.ok("kumiki node start n1 --timeout 240");
        systemd_runs(&host);
        assert_eq!(host.ok("kumiki node exec n1 -- findmnt -n -o FSTYPE /"), "ext4\n");
        host.ok("echo text > file; kumiki node cp file n1:/root/; \
                 kumiki node cp n1:/root/file back; cmp file back");
        stopped_in_order(&host);
        host.ok("mkdir -p m; mount -t ext4 /dev/vda m");
        assert_eq!(host.ok("cat m/kept"), "up\ndown\n".repeat(run));
        host.ok("umount m");
    }
    // An init that cannot be started: the node is as without one, and says why.
    host.ok("kumiki node rm n1; kumiki node create n1 --memory 512M --image deb --disk /dev/vda \
             --init /etc/fstab; kumiki node start n1 --timeout 240; \
             kumiki node exec n1 -- kumiki --version");
    assert!(host.ok("kumiki node logs n1").contains("starting /etc/fstab: Permission denied"));
    host.ok("kumiki node stop n1 --timeout 60; kumiki node rm n1; kumiki image rm deb");
    host.machine.shut_down(0).unwrap();
}

/// It is in memory once, as any image, and what systemd writes is the node's own.
#[test]
#[ignore = "minutes: systemd starts in an emulated node; `cargo xtask test long`, after a change to inits or roots"]
fn debian_with_systemd_boots_from_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("system.tar");
    let root = root(folder.path(), &[]);
    run("tar", &["-C", &text(&root), "-cf", &text(&packed), "."]);
    let wanted = |config: &mut Config| {
        config.memory_bytes = 5 << 30;
        config.files.extend(built("6.12").unwrap().kernel.driver_files(&rooted::DRIVERS).unwrap());
    };
    let Some(host) = had(Host::start("6.12", wanted, Turn::wait())) else { return };
    bring(&host, "erofs-utils", "/usr/bin/mkfs.erofs", "/opt/erofs");
    host.machine.guest().put(&packed, Path::new("system.tar")).unwrap();
    host.ok("kumiki image add system --kernel /boot/vmlinux --guest-module osnode-guest.ko \
             --rootfs system.tar; rm system.tar; \
             kumiki node create n1 --memory 512M --image system");
    for _ in 0..2 {
        host.ok("kumiki node start n1 --timeout 240");
        systemd_runs(&host);
        assert_eq!(host.ok("kumiki node exec n1 -- findmnt -n -o FSTYPE /"), "overlay\n");
        // The last start's is gone.
        assert_eq!(host.ok("kumiki node exec n1 -- cat /kept"), "up\n");
        stopped_in_order(&host);
    }
    host.ok("kumiki node rm n1; kumiki image verify system; kumiki image rm system");
    host.machine.shut_down(0).unwrap();
}

/// First process of an initramfs: a shell's script.
const OWN: &str = "#!/bin/sh\necho own init as $$ > /dev/kmsg\nwhile :; do sleep 1; done\n";

#[test]
fn an_initramfs_s_own_init_is_run() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    host.ok(&format!(
        "mkdir -p own/bin; cp $(which busybox) own/bin; cat > own/begin <<'EOF'\n{OWN}EOF\n\
         cd own; chmod +x begin; for name in sh sleep cat; do ln -s busybox bin/$name; done; \
         find . | cpio -o -H newc > ../own.cpio"
    ));
    host.ok("kumiki image add own --kernel /boot/vmlinux --guest-module osnode-guest.ko \
             --initrd own.cpio; kumiki node create n1 --memory 256M --image own --init /begin; \
             kumiki node start n1 --timeout 120");
    assert_eq!(host.ok("kumiki node exec n1 -- cat /proc/1/comm"), "begin\n");
    assert!(host.ok("kumiki node logs n1").contains("own init as 1"));
    host.ok("kumiki node kill n1; kumiki node rm n1; kumiki image rm own");
    host.leave();
}
