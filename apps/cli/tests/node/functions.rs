//! PCI functions that nodes have for their own.

use std::fs::File;
use std::path::PathBuf;

use kumiki_lab::{Accelerator, Config};

use crate::in_use::{SHOWN, hidden};
use crate::trace::Trace;
use crate::{Host, built};

const DISK_BYTES: u64 = 64 << 20;
/// Name of the file that is its contents.
pub(crate) const DISK: &str = "disk";
/// Address of what is alone behind the first port.
pub(crate) const NVME: &str = "0000:01:00.0";
const CARD: &str = "0000:02:00.0";
/// Drivers for a disk of that kind with a file system.
const DRIVERS: [&str; 3] = ["nvme", "crc32c_generic", "ext4"];

/// A host with an NVMe and a card, each behind a port of its own, and the image `nvme` with drivers
/// for the former, and `others`.
pub(crate) fn host(
    kernel: &str,
    folder: &tempfile::TempDir,
    (disk_bytes, others): (u64, &[&str]),
    more: impl FnOnce(&mut Config),
) -> Option<Host> {
    let disk = folder.path().join(DISK);
    File::create(&disk).unwrap().set_len(disk_bytes).unwrap();
    let of_nodes = [&DRIVERS[..], others].concat();
    let ours = built(kernel).ok()?;
    let drivers = ours.kernel.driver_files(&of_nodes).unwrap();
    let (_, places): (Vec<PathBuf>, Vec<PathBuf>) = drivers.iter().cloned().unzip();
    let host = Host::own(kernel, |config: &mut Config| {
        config.accelerator = Accelerator::OneThread;
        config.modules.extend(ours.loadable(&DRIVERS).unwrap());
        let module = ours.module("osnode-pci.ko").display().to_string();
        config.modules.push(module.parse().unwrap());
        config.files.extend(drivers);
        let drive = format!("file={},if=none,id=disk,format=raw", disk.display());
        let words = format!(
            "-drive {drive} -device pcie-root-port,id=p1,bus=pcie.0,chassis=1,slot=1 \
             -device nvme,drive=disk,serial=x,bus=p1 \
             -device pcie-root-port,id=p2,bus=pcie.0,chassis=2,slot=2 -device e1000e,bus=p2"
        );
        config.qemu.extend(words.split(' ').map(Into::into));
        more(config);
    })?;
    // The first is the list of what is built in.
    let places: Vec<String> = places[1..].iter().map(|path| path.display().to_string()).collect();
    host.ok(&format!(
        "kumiki image add nvme --kernel /boot/vmlinux --guest-module osnode-guest.ko --modules {}",
        places.join(",")
    ));
    Some(host)
}

/// Given, used, killed in the midst of reads, given back: what either has written the other reads.
fn a_disk_goes_to_a_node_and_back(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trace = Trace::of(folder.path());
    let traced = |config: &mut Config| config.qemu.extend(trace.words());
    let Some(host) = host(kernel, &folder, (DISK_BYTES, &[]), traced) else { return };
    host.ok(
        "mke2fs /dev/nvme0n1 > /dev/null 2>&1; mkdir -p /mnt; mount -t ext4 /dev/nvme0n1 /mnt && \
             dd if=/dev/urandom of=/mnt/ours bs=1M count=4 2> /dev/null",
    );
    let sum = host.ok("md5sum < /mnt/ours");
    host.ok("kumiki node create n1 --cpu-list 3 --memory 288M --image nvme");
    let begin = trace.at();
    let add = format!("kumiki node device add n1 --pci {NVME}");
    let said = host.refused(&format!("{add} --dma-unconfined"));
    assert!(said.contains("this machine uses it: disk nvme0n1 is mounted"), "{said}");
    host.ok("umount /mnt");
    host.ok(&hidden("/dev/nvme0n1"));
    let said = host.refused(&format!("{add} --dma-unconfined"));
    assert!(said.contains("disk nvme0n1 is mounted at /hidden"), "{said}");
    host.ok(&format!("{SHOWN}; losetup /dev/loop0 /dev/nvme0n1"));
    let said = host.refused(&format!("{add} --dma-unconfined"));
    assert!(said.contains("disk nvme0n1 is what /dev/loop0 lies over"), "{said}");
    host.ok("losetup -d /dev/loop0");
    let said = host.refused(&add);
    assert!(
        said.contains("not confined to node n1") && said.contains("--dma-unconfined"),
        "{said}"
    );
    for (other, says) in [("0000:00:1f.2", "on the root bus"), ("0000:01:01.0", "has none of this")]
    {
        let said = host.refused(&format!("{} --dma-unconfined", add.replace(NVME, other)));
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(host.ok("kumiki node device ls n1 --json"), "[]\n");

    assert_eq!(host.ok(&format!("{add} --dma-unconfined")), format!("pci:{NVME}\n"));
    host.ok("! test -e /dev/nvme0n1");
    host.ok("kumiki node create n2 --memory 288M --image nvme");
    let said = host.refused(&format!("{} --dma-unconfined", add.replace("n1", "n2")));
    assert!(said.contains("is node n1's"), "{said}");
    host.ok("kumiki node rm n2");
    let said = host.refused("kumiki node device rm n1 pci:0000:02:00.0");
    assert!(said.contains("node n1 has no PCI function 0000:02:00.0"), "{said}");

    for round in 0..2 {
        host.ok("kumiki node start n1 --timeout 240");
        let sees =
            host.ok("kumiki node exec n1 -- sh -c 'cd /sys/bus/pci/devices; ls; cat */class'");
        assert_eq!(sees, format!("{NVME}\n0x010802\n"));
        host.ok("kumiki node exec n1 -- sh -c 'until test -b /dev/nvme0n1; do sleep 0.1; done; \
                 mkdir -p /mnt; mount -t ext4 /dev/nvme0n1 /mnt'");
        assert_eq!(
            host.ok("kumiki node exec n1 -- md5sum /mnt/ours").split(' ').next(),
            sum.split(' ').next()
        );
        let list = host.ok("kumiki node exec n1 -- cat /proc/interrupts");
        assert!(list.contains("PCI-MSI") && list.contains("nvme0q1"), "{list}");
        host.ok(&format!("kumiki node exec n1 -- sh -c 'echo {round} > /mnt/theirs; umount /mnt'"));
        let said = host.refused("kumiki node snapshot n1 warm");
        assert!(said.contains("which is reset when the node is stopped"), "{said}");
        let said = host.refused(&format!("kumiki node device rm n1 pci:{NVME}"));
        assert!(said.contains("node n1 runs"), "{said}");
        by_hand(&host, round);
        // With reads under way.
        host.run("kumiki node exec n1 -- sh -c 'for n in 1 2 3 4; do \
                  (setsid dd if=/dev/nvme0n1 of=/dev/null bs=64k iflag=direct > /dev/null 2>&1 &); done'");
        host.ok("kumiki node kill n1");
    }
    host.ok("until test -e unbound; do sleep 0.1; done");
    let list = host.ok("kumiki node device ls n1");
    assert!(list.contains(&format!("pci:{NVME}")) && list.contains("stopped"), "{list}");
    // From here on its cpu may be the host's.
    trace.shows_its_own_alone((begin..trace.at(), 2), 3, NVME);
    // By removal, and once more by the end of the node.
    host.ok(&format!("kumiki node device rm n1 pci:{NVME}"));
    back(&host);
    host.ok(&format!("umount /mnt; {add} --dma-unconfined; kumiki node rm n1"));
    back(&host);
    assert_eq!(host.ok("md5sum < /mnt/ours; cat /mnt/theirs; umount /mnt"), format!("{sum}1\n"));
    by_a_file(&host);
    // A card that nobody drives is given and comes back without a driver.
    host.ok(&format!(
        "kumiki node create n1 --memory 288M --image nvme; \
         kumiki node device add n1 --pci {CARD} --dma-unconfined; kumiki node rm n1; \
         ! test -e /sys/bus/pci/devices/{CARD}/driver"
    ));
    host.ok("kumiki image rm nvme");
    host.leave();
}

/// Unbound by hand it stays the node's until that has ended, in the last round.
fn by_hand(host: &Host, round: u32) {
    if round == 0 {
        return;
    }
    host.ok(&format!(
        "(echo {NVME} > /sys/bus/pci/drivers/kumiki-osnode/unbind; touch unbound) > /dev/null 2>&1 & \
         sleep 1; ! test -e unbound"
    ));
    host.ok("kumiki node exec n1 -- dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct");
}

/// As a machine file has it: made with it, found as it is wanted, and given back.
fn by_a_file(host: &Host) {
    let file = |more: &str| {
        format!(
            "cat > own.toml <<'EOF'\n[node.n3]\nimage = \"nvme\"\nmemory = \"288M\"\n\
             start = false\npci = [\"{NVME}\"]\n{more}EOF\n"
        )
    };
    let said = host.refused(&format!("{}kumiki node apply own.toml", file("")));
    assert!(said.contains("own.toml:5") && said.contains("dma_unconfined = true"), "{said}");
    let apply = format!("{}kumiki node apply own.toml", file("dma_unconfined = true\n"));
    let said = host.refused(&format!("mount -t ext4 /dev/nvme0n1 /mnt; {apply}"));
    assert!(said.contains("disk nvme0n1 is mounted"), "{said}");
    assert!(!host.ok("umount /mnt; kumiki node ls").contains("n3"));
    host.ok(&apply);
    assert!(host.ok("kumiki node device ls n3").contains(&format!("pci:{NVME}")));
    host.ok("kumiki node apply own.toml; sed -i '/^pci/d' own.toml");
    let said = host.refused("kumiki node apply own.toml");
    assert!(said.contains(&format!("node n3 exists with {NVME}")), "{said}");
    host.ok("kumiki node apply own.toml --yes");
    back(host);
    host.ok("umount /mnt; kumiki node rm n3");
}

/// The host's driver has it again, and mounts what is on it.
fn back(host: &Host) {
    host.ok("until test -b /dev/nvme0n1; do sleep 0.1; done; mount -t ext4 /dev/nvme0n1 /mnt; \
             test -s /mnt/theirs");
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to functions.c or to what a node is told of PCI"]
fn a_node_has_a_disk_of_its_own() {
    a_disk_goes_to_a_node_and_back("6.1");
}

#[test]
#[ignore = "as the one above, on Debian 13's kernel"]
fn a_node_has_a_disk_of_its_own_on_debian_13() {
    a_disk_goes_to_a_node_and_back("6.12");
}

/// A disk and a card, each a node's own, at work at the same time; either ends without the other.
#[test]
#[ignore = "three minutes: `cargo xtask test long`, after a change to functions.c or to what a node is told of PCI"]
fn two_nodes_have_a_device_each() {
    const PORT: &str = "0000:03:00.0";
    const UP: &str = "kumiki node exec n2 -- sh -c 'until test -e /sys/class/net/eth0; do \
                      sleep 0.1; done; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; \
                      until grep -q 1 /sys/class/net/eth0/carrier; do sleep 0.1; done'";
    let folder = tempfile::tempdir().unwrap();
    let trace = Trace::of(folder.path());
    let more = |config: &mut Config| {
        let words = "-device pcie-root-port,id=p3,bus=pcie.0,chassis=3,slot=3 \
                     -netdev user,id=out -device e1000e,bus=p3,netdev=out";
        config.qemu.extend(words.split(' ').map(Into::into));
        config.qemu.extend(trace.words());
    };
    let Some(host) = host(&crate::chosen_kernel(), &folder, (DISK_BYTES, &["e1000e"]), more) else {
        return;
    };
    host.ok("dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=16 2> /dev/null; sync");
    let sum =
        |place: &str| format!("dd if={place} bs=1M count=16 iflag=direct 2> /dev/null | md5sum");
    let data = host.ok(&sum("/dev/nvme0n1"));
    host.ok(&format!(
        "kumiki node create n1 --cpu-list 3 --memory 320M --image nvme --pci {NVME} --dma-unconfined; \
         kumiki node create n2 --cpu-list 2 --memory 320M --image nvme --pci {PORT} --dma-unconfined"
    ));
    let begin = trace.at();
    host.ok("kumiki node start n1 n2 --timeout 240");
    for (node, own) in [("n1", NVME), ("n2", PORT)] {
        assert_eq!(
            host.ok(&format!("kumiki node exec {node} -- ls /sys/bus/pci/devices")),
            format!("{own}\n")
        );
    }
    host.ok("kumiki node exec n1 -- sh -c 'until test -b /dev/nvme0n1; do sleep 0.1; done'");
    host.ok(UP);
    let reads = format!("kumiki node exec n1 -- sh -c '{}'", sum("/dev/nvme0n1"));
    // As long as the card's node asks, the disk's node reads.
    host.ok(&format!(
        "(while ! test -e enough; do {reads}; done; echo end) > read 2>&1 & \
         kumiki node exec n2 -- ping -c 100 -i 0.1 -W 20 10.0.2.2 > pings; \
         touch enough; wait; tail -n 3 pings; grep -q ' 0% packet loss' pings"
    ));
    let read = host.ok("cat read");
    let lines: Vec<&str> = read.lines().collect();
    assert!(
        lines.len() > 1 && lines[..lines.len() - 1].iter().all(|line| *line == data.trim_end())
    );
    let messages = host.ok("kumiki node exec n2 -- grep eth0 /proc/interrupts");
    assert!(messages.contains("PCI-MSI"), "{messages}");
    // One ends with frames under way, and the other goes on; and the other way round.
    host.run("kumiki node exec n2 -- sh -c '(setsid ping -i 0.01 10.0.2.2 > /dev/null 2>&1 &)'");
    host.ok("kumiki node kill n2");
    assert_eq!(host.ok(&reads), data);
    host.ok("kumiki node start n2 --timeout 240; kumiki node kill n1");
    host.ok(&format!("{UP}; kumiki node exec n2 -- ping -c 20 -W 20 10.0.2.2"));
    let end = trace.at();
    trace.shows_its_own_alone((begin..end, 1), 3, NVME);
    trace.shows_its_own_alone((begin..end, 2), 2, PORT);
    host.ok("kumiki node rm n2 --force; kumiki node rm n1; \
             until test -b /dev/nvme0n1; do sleep 0.1; done");
    assert_eq!(host.ok(&sum("/dev/nvme0n1")), data);
    host.ok("kumiki image rm nvme");
    host.leave();
}

/// How often the disk goes to the node and back; `KUMIKI_ROUNDS` of them.
const ROUNDS: u32 = 50;
/// MiB that each side writes in a round.
const MIB: u32 = 4;

/// A node's writes and the host's, in turns, with the host at work; in each second round the node
/// is killed while it reads and writes elsewhere on the disk.
#[test]
#[ignore = "ten minutes: `cargo xtask test long`, after a change to functions.c or to who gets a function back"]
fn a_disk_goes_back_and_forth_without_a_wrong_block() {
    let asked = std::env::var("KUMIKI_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let Some(host) = host(&crate::chosen_kernel(), &folder, (DISK_BYTES, &[]), |_| {}) else {
        return;
    };
    let sum = |at: u32| {
        format!("dd if=/dev/nvme0n1 bs=1M count={MIB} skip={at} iflag=direct 2> /dev/null | md5sum")
    };
    let write = |at: u32| {
        let to = format!("of=/dev/nvme0n1 bs=1M seek={at} conv=notrunc");
        format!(
            "head -c {} /dev/urandom > /tmp/own; dd {to} < /tmp/own 2> /dev/null; sync",
            MIB << 20
        )
    };
    let until = "until test -b /dev/nvme0n1; do sleep 0.1; done";
    host.ok("kumiki node create n1 --memory 384M --image nvme; \
             (while :; do head -c 2000000 /dev/urandom | md5sum; done) > /dev/null 2>&1 & echo $! > load");
    let (ours, theirs, elsewhere) = (0, MIB, 4 * MIB);
    let mut known = String::new();
    for round in 0..asked {
        host.ok(&format!("{until}; {}", write(ours)));
        let before = host.ok(&sum(ours));
        if round > 0 {
            assert_eq!(host.ok(&sum(theirs)), known, "round {round}, the host reads");
        }
        host.ok(&format!(
            "kumiki node device add n1 --pci {NVME} --dma-unconfined; \
             kumiki node start n1 --timeout 240"
        ));
        let there =
            |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{until}; {line}'"));
        assert_eq!(there(&sum(ours)), before, "round {round}, the node reads");
        there(&write(theirs));
        known = there(&sum(theirs));
        if round % 2 == 0 {
            let at = format!("bs=64k seek={0} skip={0} count=512", elsewhere * 16);
            there(&format!(
                "(while :; do dd if=/dev/zero of=/dev/nvme0n1 {at} oflag=direct; done > /dev/null 2>&1 &); \
                 (while :; do dd if=/dev/nvme0n1 of=/dev/null {at} iflag=direct; done > /dev/null 2>&1 &)"
            ));
            host.ok("sleep 0.5; kumiki node kill n1");
        } else {
            host.ok("kumiki node stop n1 --timeout 60");
        }
        host.ok(&format!("kumiki node device rm n1 pci:{NVME}"));
    }
    assert_eq!(host.ok(&format!("{until}; {}", sum(theirs))), known);
    let log = host
        .ok("dmesg | grep -i 'i/o error\\|nvme.*timeout\\|AER:.*error' | head; kill $(cat load)");
    assert_eq!(log, "");
    host.ok("kumiki node rm n1; kumiki image rm nvme");
    host.leave();
}
