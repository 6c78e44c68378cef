//! PCI functions whose DMA the host's IOMMU confines to their node.

use kumiki_lab::Config;

use crate::functions::{self, NVME};
use crate::{Host, built};

const DISK_BYTES: u64 = 64 << 20;
/// Memory that the host's kernel leaves alone, of which the node's is: its addresses are known.
const ASIDE: &str = "memmap=384M$0x30000000";
/// 64 KiB of that which the node's kernel leaves alone: queues and data of its disk.
const QUEUES: u64 = 0x3800_0000;

/// Registers of an NVMe, from its first address on.
const CONFIGURATION: u64 = 0x14;
const STATUS: u64 = 0x1c;
const QUEUE_LENGTHS: u64 = 0x24;
const COMMANDS: u64 = 0x28;
const COMPLETIONS: u64 = 0x30;
const DOORBELL: u64 = 0x1000;
/// QEMU's number as a maker of such disks, which stands first in what a disk says of itself.
const MAKER: &str = "0x1B36\n";

/// A machine with an IOMMU, and the module for it.
fn host(folder: &tempfile::TempDir, remapped: &str) -> Option<Host> {
    functions::host(&crate::chosen_kernel(), folder, (DISK_BYTES, &[]), |config: &mut Config| {
        let words = ["-device".to_owned(), format!("intel-iommu,intremap={remapped}")];
        config.qemu.extend(words.map(Into::into));
        config.append.extend(["intel_iommu=on".to_owned(), ASIDE.to_owned()]);
        let module = built(&crate::chosen_kernel()).unwrap().module("osnode-iommu.ko").to_owned();
        config.files.push((module, "/root/osnode-iommu.ko".into()));
    })
}

#[test]
#[ignore = "three minutes: `cargo xtask test long`, after a change to functions.c or iommu.c"]
fn dma_reaches_the_memory_of_the_node_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(host) = host(&folder, "off") else { return };
    host.ok(
        "mke2fs /dev/nvme0n1 > /dev/null 2>&1; mkdir -p /mnt; mount -t ext4 /dev/nvme0n1 /mnt && \
             dd if=/dev/urandom of=/mnt/ours bs=1M count=4 2> /dev/null; umount /mnt",
    );
    let create = |name: &str| {
        format!(
            "kumiki node create {name} --memory 256M --memory-from boot --image nvme \
             --append 'memmap=64K${QUEUES:#x}'"
        )
    };
    host.ok(&create("n1"));
    let add = format!("kumiki node device add n1 --pci {NVME}");
    let said = host.refused(&add);
    assert!(said.contains("needs the module osnode-iommu to be confined"), "{said}");
    assert_eq!(host.ok("kumiki node device ls n1 --json"), "[]\n");
    host.ok("until test -b /dev/nvme0n1; do sleep 0.1; done; insmod osnode-iommu.ko");
    assert_eq!(host.ok(&add), format!("pci:{NVME}\n"));
    assert_ne!(host.run("rmmod osnode-iommu").exit.code(), 0);
    let sum = "until test -b /dev/nvme0n1; do sleep 0.1; done; mkdir -p /mnt; \
               mount -t ext4 /dev/nvme0n1 /mnt && md5sum < /mnt/ours; umount /mnt";
    let in_node = format!("kumiki node exec n1 -- sh -c '{sum}'");
    host.ok("kumiki node start n1 --timeout 240");
    let data = host.ok(&in_node);
    goes_nowhere_else(&host);
    // Reset, and confined again, to what the node has then.
    host.ok("kumiki node kill n1; kumiki node start n1 --timeout 240");
    assert_eq!(host.ok(&in_node), data);
    host.ok("kumiki node rm n1 --force; rmmod osnode-iommu");
    assert_eq!(host.ok(sum), data);
    // As its owner wants it: past the IOMMU, without the module.
    host.ok(&format!(
        "{}; {add} --dma-unconfined; kumiki node start n1 --timeout 240",
        create("n1")
    ));
    assert_eq!(host.ok(&in_node), data);
    host.ok("kumiki node rm n1 --force");
    assert_eq!(host.ok(sum), data);
    host.ok("kumiki image rm nvme");
    host.leave();
}

/// The node has its disk write what it says of itself to its own memory, and to the image's, which
/// is the host's.
fn goes_nowhere_else(host: &Host) {
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/images/nvme/memory");
    let image = u64::from_str_radix(memory[2..].split(' ').next().unwrap(), 16).unwrap();
    let shell = |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    let folder = format!("/sys/bus/pci/devices/{NVME}");
    shell(&format!(
        "echo {NVME} > {folder}/driver/unbind; printf \"\\006\\004\" | dd of={folder}/config bs=2 seek=2 \
         conv=notrunc 2> /dev/null"
    ));
    let first = shell(&format!("head -n 1 {folder}/resource"));
    let first = u64::from_str_radix(first[2..].split(' ').next().unwrap(), 16).unwrap();
    let (commands, completions, data) = (QUEUES, QUEUES + 0x1000, QUEUES + 0x2000);
    let set = |at: u64, bits: u32, value: u64| format!("devmem {at:#x} {bits} {value:#x}; ");
    let until = |ready: u32| {
        format!("until test $(($(devmem {:#x} 32) & 1)) = {ready}; do :; done; ", first + STATUS)
    };
    let identify = |place: u64| {
        [
            set(first + CONFIGURATION, 32, 0),
            until(0),
            set(first + QUEUE_LENGTHS, 32, 0x000f_000f),
            set(first + COMMANDS, 64, commands),
            set(first + COMPLETIONS, 64, completions),
            set(first + CONFIGURATION, 32, 0x0046_0001),
            until(1),
            // Identify, of the controller, to this place.
            set(commands, 32, 0x0001_0006),
            set(commands + 24, 64, place),
            set(commands + 40, 32, 1),
            set(first + DOORBELL, 32, 1),
        ]
        .concat()
    };
    let said = format!("devmem {data:#x} 16");
    shell(&set(data, 16, 0));
    shell(&identify(data));
    shell(&format!("until test $({said}) = {}; do sleep 0.1; done", MAKER.trim_end()));
    assert_eq!(host.ok("dmesg | grep 'DMAR: .*fault addr' || true"), "");
    shell(&identify(image));
    let fault = format!("DMAR: .DMA Write.* device .{}. fault addr {image:#x}", &NVME[5..]);
    host.ok(&format!(
        "until dmesg | grep -q '{fault}'; do sleep 0.1; done; kumiki image verify nvme"
    ));
}

/// What a node's kernel writes as the place of its interrupts means nothing to such a machine.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to what is refused of PCI functions"]
fn a_machine_that_remaps_interrupts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(host) = host(&folder, "on") else { return };
    host.ok("insmod osnode-iommu.ko; kumiki node create n1 --memory 256M --image nvme");
    for more in ["", " --dma-unconfined"] {
        let said = host.refused(&format!("kumiki node device add n1 --pci {NVME}{more}"));
        assert!(said.contains("remaps interrupts") && said.contains("intremap=off"), "{said}");
    }
    host.ok("test -b /dev/nvme0n1; kumiki node rm n1; kumiki image rm nvme");
    host.leave();
}
