//! Disks that something has: they are neither given to nodes nor kept with them.

use kumiki_lab::Config;

use crate::devices::bring;
use crate::functions::{self, NVME};
use crate::pool::Kind;
use crate::{Host, built, chosen_kernel};

/// Mounts a disk where only one process sees it, until `enough` is there.
pub(crate) fn hidden(disk: &str) -> String {
    format!(
        "rm -f enough seen; (setsid unshare -m sh -c 'mkdir -p /hidden && \
         mount -t ext4 {disk} /hidden && touch seen; \
         until test -e enough; do sleep 0.1; done; umount /hidden; rm seen' > /dev/null 2>&1 &); \
         until test -e seen; do sleep 0.1; done; ! grep -q hidden /proc/mounts"
    )
}

pub(crate) const SHOWN: &str = "touch enough; while test -e seen; do sleep 0.1; done";

#[test]
fn a_disk_in_use_is_not_given_and_not_kept() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("truncate -s 16M plain back; losetup /dev/loop0 back; mke2fs /dev/loop0 > made 2>&1; \
             mkdir -p /mnt");
    of_the_host(&host);
    host.ok("kumiki node create n1 --memory 256M --image deb --disk plain --disk /dev/loop0");
    host.ok("kumiki node start n1 --timeout 120");
    // It is the node's as long as that runs, by whatever name.
    assert_ne!(host.run("mount -t ext4 /dev/loop0 /mnt").exit.code(), 0);
    let said = host.refused("kumiki node create n2 --memory 256M --image deb --disk back");
    assert!(said.contains("/dev/loop0"), "{said}");
    of_the_node(&host);
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    host.ok("mount -t ext4 /dev/loop0 /mnt; umount /mnt; losetup -d /dev/loop0");
    host.leave();
}

fn of_the_host(host: &Host) {
    let refused = |disk: &str, says: &str| {
        let said =
            host.refused(&format!("kumiki node create n1 --memory 256M --image deb --disk {disk}"));
        assert!(said.contains(says), "{disk}: {said}");
    };
    host.ok("mount -t ext4 /dev/loop0 /mnt");
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /mnt");
    refused("/dev/loop0,ro", "disk /dev/loop0 is mounted at /mnt");
    host.ok("umount /mnt; mount -t ext4 -o ro /dev/loop0 /mnt");
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /mnt");
    // Two that read have it both, also the second node.
    host.ok("kumiki node create n1 --memory 256M --image deb --disk /dev/loop0,ro; \
             kumiki node rm n1; umount /mnt");
    host.ok(&hidden("/dev/loop0"));
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /hidden");
    host.ok(SHOWN);
    refused("back", "back is what /dev/loop0 lies over");
    host.ok("mkswap /dev/loop0 && swapon /dev/loop0");
    refused("/dev/loop0", "disk /dev/loop0 is swapped to");
    host.ok("swapoff /dev/loop0; mke2fs /dev/loop0 > made 2>&1");
}

fn of_the_node(host: &Host) {
    let there = |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    let refused = |says: &str| {
        let said = host.refused("kumiki node snapshot n1 warm");
        assert!(said.contains(says), "{said}");
    };
    there("mkswap /dev/vda && swapon /dev/vda");
    refused("disk vda is swapped to");
    there("swapoff /dev/vda; mkdir -p /m; mount -t ext4 /dev/vdb /m; mount -o remount,bind,ro /m");
    // What this mount only reads another one writes.
    refused("disk vdb is mounted at /m");
    there("umount /m");
    // The script goes there by a file: it has quotes of its own.
    host.ok(&format!(
        "cat > line <<'EOF'\n{}\nEOF\nkumiki node exec n1 -- sh -c 'cat > line' < line",
        hidden("/dev/vdb")
    ));
    there("sh line");
    refused("disk vdb is mounted at /hidden");
    there(SHOWN);
    there("mount -t ext4 -o ro /dev/vdb /m");
    host.ok("kumiki node snapshot n1 warm; kumiki node start n1 --from warm --timeout 120");
    assert!(there("cat /proc/mounts").contains("/dev/vdb /m ext4 ro"));
}

/// Modules of what may lie over a disk.
const LAYERS: [&str; 2] = ["btrfs", "dm_mod"];
/// The least that btrfs makes a file system of, and something.
const DISK_BYTES: u64 = 160 << 20;

/// An NVMe that the host has by no mount that names it: it is neither given to a node nor a node's disk.
#[test]
#[ignore = "three minutes: `cargo xtask test long`, after a change to what is asked before a disk is given"]
fn a_disk_that_something_lies_over_is_not_given() {
    let folder = tempfile::tempdir().unwrap();
    let layers = |config: &mut Config| {
        config.modules.extend(built(&chosen_kernel()).unwrap().loadable(&LAYERS).unwrap());
    };
    let kernel = chosen_kernel();
    let Some(host) = functions::host(&kernel, &folder, (DISK_BYTES, &[]), layers) else { return };
    bring(&host, "btrfs-progs", "/usr/sbin/mkfs.btrfs", "/opt/btrfs");
    bring(&host, "dmsetup", "/usr/sbin/dmsetup", "/opt/dmsetup");
    host.ok("mkdir -p /mnt; kumiki node create n1 --memory 288M --image nvme; \
             truncate -s 160M other; losetup /dev/loop0 other");
    let refused = |says: &str| {
        let give = format!("kumiki node device add n1 --pci {NVME} --dma-unconfined");
        let disk = "kumiki node create n2 --memory 288M --image nvme --disk /dev/nvme0n1";
        for line in [&*give, disk] {
            let said = host.refused(line);
            assert!(said.contains(says), "{line}: {said}");
        }
    };
    // The second of two devices: tables of mounts name the first one.
    host.ok("mkfs.btrfs -q -d raid0 -m raid0 /dev/loop0 /dev/nvme0n1 && \
             mount -t btrfs -o device=/dev/loop0,device=/dev/nvme0n1 /dev/loop0 /mnt && \
             grep -q '^/dev/loop0 /mnt' /proc/mounts && ! grep -q nvme /proc/mounts");
    refused("is part of a btrfs that is mounted");
    host.ok("umount /mnt; losetup -d /dev/loop0");
    // A part of a mapped device.
    host.ok("dmsetup create all --noudevsync --table '0 300000 linear /dev/nvme0n1 0'");
    refused("is part of dm-0");
    host.ok("dmsetup remove --noudevsync all");
    // A partition: one of the type of Linux, from the first MiB on, to the end of 128 MiB.
    host.ok("dd if=/dev/zero of=/dev/nvme0n1 bs=64k count=32 2> /dev/null; \
             printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\010\\0\\0\\0\\370\\003\\0' | \
             dd of=/dev/nvme0n1 bs=1 seek=446 conv=notrunc 2> /dev/null; \
             printf '\\125\\252' | dd of=/dev/nvme0n1 bs=1 seek=510 conv=notrunc 2> /dev/null; \
             sync; blockdev --rereadpt /dev/nvme0n1; \
             until test -b /dev/nvme0n1p1; do sleep 0.1; done; \
             mke2fs /dev/nvme0n1p1 > /dev/null 2>&1; mount -t ext4 /dev/nvme0n1p1 /mnt");
    refused("has nvme0n1p1, which is mounted at /mnt");
    host.ok(&format!("umount /mnt; {}", hidden("/dev/nvme0n1p1")));
    refused("has nvme0n1p1, which is mounted at /hidden");
    host.ok(&format!("{SHOWN}; mkswap /dev/nvme0n1p1 > /dev/null; swapon /dev/nvme0n1p1"));
    refused("has nvme0n1p1, which is swapped to");
    host.ok("swapoff /dev/nvme0n1p1");
    // Of nobody it is given.
    host.ok(&format!(
        "kumiki node device add n1 --pci {NVME} --dma-unconfined && ! test -e /dev/nvme0n1; \
         kumiki node rm n1; kumiki image rm nvme"
    ));
    host.leave();
}

/// Of an array on the host, and of what may lie over a node's own disks.
const OVER: [&str; 4] = ["md_mod", "raid0", "dm_mod", "loop"];

/// Arrays of the host's, and mapped and loop devices of a node's own kernel.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to what is asked of a disk"]
fn what_lies_over_a_disk_has_it_on_the_host_and_in_a_node() {
    let kernel = chosen_kernel();
    let Ok(ours) = built(&kernel) else { return };
    let drivers = ours.kernel.driver_files(&OVER).unwrap();
    // The first is the list of what is built in.
    let places: Vec<String> = drivers[1..].iter().map(|one| one.1.display().to_string()).collect();
    let more = |config: &mut Config| {
        config.modules.extend(ours.loadable(&OVER).unwrap());
        config.files.extend(drivers);
    };
    let Some(host) = Host::own(&kernel, more) else { return };
    bring(&host, "mdadm", "/usr/sbin/mdadm", "/opt/mdadm");
    bring(&host, "dmsetup", "/usr/sbin/dmsetup", "/opt/dmsetup");
    host.ok(&format!(
        "kumiki image add deb --kernel /boot/vmlinux --guest-module osnode-guest.ko --modules {}",
        places.join(",")
    ));
    host.ok("truncate -s 16M plain other; truncate -s 64M part; losetup /dev/loop0 part; \
             mkdir -p /run/mdadm; mdadm --create /dev/md0 --run --force --level=0 \
             --raid-devices=1 --metadata=1.2 /dev/loop0; cat /proc/mdstat >&2");
    let create = "kumiki node create n1 --memory 256M --image deb --disk";
    for disk in ["/dev/loop0", "/dev/loop0,ro"] {
        let said = host.refused(&format!("{create} {disk}"));
        assert!(said.contains("disk /dev/loop0 is part of md0"), "{said}");
    }
    host.ok("mdadm --stop /dev/md0");
    host.ok(&format!("{create} /dev/loop0 --disk plain --disk other"));
    host.ok("kumiki node start n1 --timeout 240; \
             tar c -C / opt/dmsetup | kumiki node exec n1 -- tar x -C /");
    let there = |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    let refused = |says: &str| {
        let said = host.refused("kumiki node snapshot n1 warm");
        assert!(said.contains(says), "{said}");
    };
    let dmsetup = "/opt/dmsetup/run";
    there(&format!("{dmsetup} create all --noudevsync --table \"0 16384 linear /dev/vdb 0\""));
    refused("disk vdb is part of dm-0");
    there(&format!("{dmsetup} remove --noudevsync all"));
    there("losetup /dev/loop0 /dev/vdc");
    refused("disk vdc is what /dev/loop0 lies over");
    there("losetup -d /dev/loop0");
    host.ok("kumiki node snapshot n1 warm; kumiki node rm n1; kumiki image rm warm; \
             kumiki image rm deb; losetup -d /dev/loop0");
    host.leave();
}
