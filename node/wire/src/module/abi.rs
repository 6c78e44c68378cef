//! The module's interface, `node/kernel/uapi/osnode.h`, word for word.

use std::mem::offset_of;

use rustix::ioctl::{Opcode, opcode};

pub const DEVICE: &str = "/dev/kumiki-osnode";
pub const GUEST_DEVICE: &str = "/dev/kumiki-osnode-guest";
pub const EVENTFD_DEVICE: &str = "/dev/kumiki-osnode-eventfd";
pub const VERSION: u32 = 7;
pub const NAME_BYTES: usize = 32;
pub const PIECE_UNIT: u64 = 2 << 20;
pub const PIECES: usize = 64;
pub const CPUS: usize = 64;
pub const APIC_IDS: usize = 1024;

pub const NODE: u32 = 1;
pub const IMAGE: u32 = 2;

pub const OWN: u32 = 1;
pub const READ: u32 = 2;
pub const TALK: u32 = 3;
pub const SERVE: u32 = 4;

#[repr(C)]
#[derive(Debug, Default)]
pub struct Create {
    pub name: [u8; NAME_BYTES],
    pub kind: u32,
    pub shares: u32,
    pub slice: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Attach {
    pub name: [u8; NAME_BYTES],
    pub kind: u32,
    pub mode: u32,
    pub channel: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Memory {
    pub bytes: u64,
    pub numa_node: u32,
    pub aligned: u32,
    pub address: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Cpu {
    pub cpu: u32,
    pub apic_id: u32,
}

#[derive(Debug)]
#[repr(C)]
pub struct Link {
    pub name: [u8; NAME_BYTES],
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Pci {
    pub segment: u32,
    pub function: u32,
    pub give_back: u32,
    pub confine: u32,
}

/// Descriptors: one in mode SERVE, and an eventfd.
#[derive(Debug)]
#[repr(C)]
pub struct Wires {
    pub server: i32,
    pub left: i32,
}

#[derive(Debug)]
#[repr(C)]
pub struct Wire {
    pub slot: u32,
    pub queue: u32,
    pub kick: i32,
    pub call: i32,
}

const TYPE: u8 = 0xbe;
pub const IOC_VERSION: Opcode = opcode::read::<u32>(TYPE, 0);
pub const IOC_CREATE: Opcode = opcode::read_write::<Create>(TYPE, 1);
pub const IOC_ATTACH: Opcode = opcode::read_write::<Attach>(TYPE, 2);
pub const IOC_MEMORY: Opcode = opcode::read_write::<Memory>(TYPE, 3);
pub const IOC_CPU: Opcode = opcode::read_write::<Cpu>(TYPE, 4);
pub const IOC_SEAL: Opcode = opcode::none(TYPE, 5);
pub const IOC_START: Opcode = opcode::none(TYPE, 6);
pub const IOC_STOP: Opcode = opcode::none(TYPE, 7);
pub const IOC_RELEASE: Opcode = opcode::none(TYPE, 8);
pub const IOC_BELL: Opcode = opcode::none(TYPE, 9);
pub const IOC_LINK: Opcode = opcode::write::<Link>(TYPE, 10);
pub const IOC_LEND: Opcode = opcode::none(TYPE, 11);
pub const IOC_PCI: Opcode = opcode::write::<Pci>(TYPE, 15);
pub const IOC_CPUS_BACK: Opcode = opcode::none(TYPE, 16);
pub const EVENTFD_IOC_ATTACH: Opcode = opcode::write::<Wires>(TYPE, 17);
pub const EVENTFD_IOC_CONNECT: Opcode = opcode::write::<Wire>(TYPE, 18);
pub const EVENTFD_IOC_DISCONNECT: Opcode = opcode::write::<u32>(TYPE, 19);
pub const IOC_MEMORY_BACK: Opcode = opcode::none(TYPE, 20);
pub const IOC_PIECE_BACK: Opcode = opcode::write::<Memory>(TYPE, 24);
pub const IOC_CPU_BACK: Opcode = opcode::write::<Cpu>(TYPE, 21);
pub const GUEST_IOC_INIT: Opcode = opcode::none(TYPE, 12);
pub const GUEST_IOC_START: Opcode = opcode::none(TYPE, 13);
pub const GUEST_IOC_SLEEP: Opcode = opcode::none(TYPE, 14);
pub const GUEST_IOC_CPU_ON: Opcode = opcode::none(TYPE, 22);
pub const GUEST_IOC_CPU_OFF: Opcode = opcode::none(TYPE, 23);
pub const GUEST_IOC_MEMORY_ON: Opcode = opcode::none(TYPE, 25);
pub const GUEST_IOC_MEMORY_OFF: Opcode = opcode::none(TYPE, 26);

pub const WINDOW_MAGIC: u64 = 0x6564_6f6e_736f;
pub const LOG_AT: usize = 0x1_0000;
pub const LOG_BYTES: usize = 0x4_0000;
pub const RINGS_AT: usize = 0x8_0000;
pub const RING_BYTES: usize = 0x1_0000;
pub const CHANNELS: usize = 8;
/// Number of channels that are kept for the host's own questions.
pub const RESERVED_CHANNELS: usize = 1;
/// Offset between the channels and the log: no kernel writes there.
pub const RECORD_AT: usize = 0x2000;
pub const RECORD_BYTES: usize = BLOCKS_AT - RECORD_AT;
/// Memory that came while a node ran: its unit, then an entry a piece.
pub const BLOCKS_AT: usize = 0xf000;
pub const BLOCKS_BYTES: usize = BLOCK_AT + PIECES * BLOCK_BYTES;
/// Offsets there, and in an entry.
pub const BLOCK_AT: usize = 64;
pub const BLOCK_BYTES: usize = 24;
pub const BLOCK_LENGTH: usize = 8;
pub const BLOCK_STATE: usize = 16;
pub const BLOCK_NONE: u32 = 0;
pub const BLOCK_OFF: u32 = 1;
pub const BLOCK_ON: u32 = 2;

pub const STATE: usize = 0x0c;
pub const RESET: usize = 0x14;
pub const LOG_HEAD: usize = 0x18;
pub const LENT_STATE: usize = 0x20;
pub const STAMPS: usize = 0x40;
pub const STARTED_CPUS: usize = 0x24;
pub const STARTED_APIC_IDS: usize = 0x180;
/// The state of each cpu, by its APIC id: the modules'.
const CPU_STATES: usize = 0x280;
/// Time of the node's kernel in µs in which a task waited for memory, and bytes that programs can have.
pub const STALLED_US: usize = 0x680;
pub const AVAILABLE: usize = 0x688;
pub const MESSAGE: usize = 0x80;
pub const MESSAGE_BYTES: usize = 256;
pub const CHANNELS_AT: usize = 0x1000;
pub const CHANNEL_BYTES: usize = 512;
/// Offsets in a channel.
pub const CHANNEL_TO_NODE: usize = 64;
pub const CHANNEL_TO_HOST: usize = 192;
/// Offset of a ring's tail from its head.
pub const RING_TAIL: usize = 64;

pub const STAMP_SIPI: usize = 0;
pub const STAMP_TRAMPOLINE: usize = 1;
pub const STAMP_MODULE: usize = 2;
pub const STAMP_READY: usize = 3;
pub const STAMP_INIT: usize = 4;
/// The agent lives: each second.
pub const STAMP_BEAT: usize = 5;
/// Times of the node's kernel in µs: a task waited for a cpu, and its cpus worked.
pub const WAITED_US: usize = 6;
pub const WORKED_US: usize = 7;

pub const CHANNEL_FREE: u32 = 0;
pub const CHANNEL_OPEN: u32 = 1;
pub const CHANNEL_CLOSED: u32 = 2;

pub const NOT_LENT: u32 = 0;
pub const LENT: u32 = 1;
pub const STARTING: u32 = 2;

pub const WORD_SILENT: u32 = 0;
pub const WORD_READY: u32 = 2;
pub const WORD_HALTED: u32 = 3;
pub const WORD_PANIC: u32 = 6;
pub const WORD_STOPPED: u32 = 7;
pub const WORD_KEPT: u32 = 8;

/// A sleeping node's words, and its host's to it, between the log and the channels' rings.
pub const SLEEP_AT: usize = 0x5_0000;
/// Offsets there.
pub const SLEEP_WAKE: usize = 0;
pub const SLEEP_TABLES: usize = 8;
pub const SLEEP_RUNS: usize = 0x10;
pub const SLEEP_NOW_NS: usize = 0x18;
pub const SLEEP_NOW_TICKS: usize = 0x20;
pub const SLEEP_RANDOM: usize = 0x40;
pub const RANDOM_BYTES: usize = 64;
pub const SLEEP_COVERED: usize = 0x1000;
pub const COVERED_BYTES: usize = 0x2000;
/// Runs of free pages: how many of them, above the first one's number.
pub const FREE_AT: usize = 0x5_3000;
pub const FREE_RUNS: usize = 23040;
pub const RUN_SHIFT: u32 = 40;

/// Devices: the bus in the window, and its slots behind it.
pub const BUS_AT: usize = 0x18_0000;
pub const BUS_BYTES: usize = 0x1000;
pub const SLOTS: usize = 63;
pub const QUEUES: usize = 32;
pub const CONFIG_BYTES: usize = 1024;
/// Bit of kicks and interrupts that stands for the configuration.
pub const CONFIG_BIT: u32 = 63;
/// Offsets in the bus.
pub const BUS_TO_NODE: usize = 0;
pub const BUS_TO_HOST: usize = 0x40;
pub const BUS_ANNOUNCED: usize = 0x80;
pub const SLOT_BYTES: usize = 0x1000;
/// Offsets in a slot.
pub const SLOT_PRESENT: usize = 0;
pub const SLOT_ID: usize = 4;
pub const SLOT_FEATURES: usize = 8;
pub const SLOT_CONFIG_BYTES: usize = 0x10;
pub const SLOT_GENERATION: usize = 0x14;
pub const SLOT_ANSWER: usize = 0x18;
pub const SLOT_HOST_STATUS: usize = 0x1c;
pub const SLOT_REQUEST: usize = 0x40;
pub const SLOT_STATUS: usize = 0x44;
pub const SLOT_ACCEPTED: usize = 0x48;
pub const SLOT_KICKS: usize = 0x80;
pub const SLOT_INTERRUPTS: usize = 0xc0;
pub const SLOT_QUEUES: usize = 0x100;
pub const QUEUE_BYTES: usize = 32;
pub const SLOT_CONFIG: usize = 0x500;

/// Lines between programs of the node and of its host: a part a channel.
pub const LANES_AT: usize = 0x1c_0000;
pub const LANES_BYTES: usize = 0x4_0000;

/// Signs of life of the host, for a node that watches it.
pub const WATCH_DEVICE: &str = "/dev/kumiki-osnode-watch";
pub const WATCH_MAGIC: u64 = 0x6863_7461_7764;
pub const WATCH_PANIC: u32 = 1;
pub const BEAT_MS: u64 = 250;
pub const WATCH_CPUS: usize = 384;
pub const TOLD_BYTES: usize = 0x8000;
/// Offsets there.
pub const WATCH_VERSION: usize = 8;
pub const WATCH_STATE: usize = 12;
pub const WATCH_TOLD: usize = 16;
pub const WATCH_TEXT_BYTES: usize = 20;
pub const WATCH_CPU: usize = 28;
pub const WATCH_PID: usize = 32;
pub const WATCH_COMM: usize = 36;
pub const COMM_BYTES: usize = 16;
pub const WATCH_MESSAGE: usize = 64;
pub const WATCH_IP: usize = 320;
pub const WATCH_SP: usize = 328;
pub const WATCH_BEATS: usize = 0x400;
pub const WATCH_TEXT: usize = 0x1000;
pub const WATCH_BYTES: usize = WATCH_TEXT + 2 * TOLD_BYTES;

const _: () = {
    assert!(WATCH_COMM + COMM_BYTES <= WATCH_MESSAGE);
    assert!(WATCH_BEATS + 8 * WATCH_CPUS == WATCH_TEXT);
    assert!(BUS_AT + BUS_BYTES + SLOTS * SLOT_BYTES <= LANES_AT);
    assert!(LANES_AT + LANES_BYTES == kumiki_boot::WINDOW_BYTES as usize);
    assert!((LANES_BYTES / CHANNELS).is_multiple_of(4096));
    assert!(RINGS_AT + CHANNELS * 2 * RING_BYTES <= BUS_AT);
    assert!(SLOT_QUEUES + QUEUES * QUEUE_BYTES == SLOT_CONFIG);
    assert!(size_of::<Create>() == 48 && offset_of!(Create, slice) == 40);
    assert!(size_of::<Attach>() == 48 && offset_of!(Attach, channel) == 40);
    assert!(size_of::<Memory>() == 24 && offset_of!(Memory, address) == 16);
    assert!(size_of::<Cpu>() == 8);
    assert!(size_of::<Link>() == 32);
    assert!(size_of::<Pci>() == 16);
    assert!(size_of::<Wires>() == 8 && offset_of!(Wires, left) == 4);
    assert!(size_of::<Wire>() == 16 && offset_of!(Wire, kick) == 8);
    assert!(CHANNELS_AT + CHANNELS * CHANNEL_BYTES == RECORD_AT);
    assert!(STAMPS + 8 * WORKED_US + 8 == MESSAGE);
    assert!(STARTED_APIC_IDS + 4 * CPUS == CPU_STATES);
    assert!(CPU_STATES + APIC_IDS == STALLED_US && AVAILABLE + 8 <= CHANNELS_AT);
    assert!(BLOCKS_AT + BLOCKS_BYTES <= LOG_AT);
    assert!(LOG_AT + LOG_BYTES <= SLEEP_AT);
    assert!(SLEEP_COVERED + COVERED_BYTES == FREE_AT - SLEEP_AT);
    assert!(FREE_AT + 8 * FREE_RUNS <= RINGS_AT);
    assert!(RINGS_AT + CHANNELS * 2 * RING_BYTES <= kumiki_boot::WINDOW_BYTES as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel");

    fn source(path: &str) -> String {
        let path = format!("{KERNEL}/{path}");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Lines that hold more than a comment.
    fn lines_of_code(text: &str) -> usize {
        let mut in_comment = false;
        let is_code = |line: &&str| {
            let mut rest = line.trim();
            let mut code = false;
            while !rest.is_empty() {
                let (end, inside) = if in_comment { ("*/", false) } else { ("/*", true) };
                let (before, after) = rest.split_once(end).unwrap_or((rest, ""));
                code |= !in_comment && !before.trim().is_empty() && !before.starts_with("//");
                if !rest.contains(end) {
                    break;
                }
                (rest, in_comment) = (after.trim(), inside);
            }
            code
        };
        text.lines().filter(is_code).count()
    }

    #[test]
    fn the_module_is_as_small_as_is_promised() {
        let text = "/* a\n * b */\nint c; /* d\n*/ int e;\n// f\n\n/* g */\n";
        assert_eq!(lines_of_code(text), 2);
        let kbuild = source("osnode/Kbuild");
        let objects = kbuild.lines().find_map(|line| line.strip_prefix("osnode-y := ")).unwrap();
        let own = objects.split(' ').map(|object| object.replace(".o", ".c"));
        let headers = ["osnode.h", "bell.h", "ipi.h", "symbols.h", "vector.h"].map(str::to_owned);
        let files = own.chain(headers).map(|file| source(&format!("osnode/{file}")));
        let lines: usize = files.map(|text| lines_of_code(&text)).sum();
        assert!((500..=1600).contains(&lines), "osnode.ko has {lines} lines of code");
        let devices = lines_of_code(&source("osnode/virtio.c"));
        assert!((200..=350).contains(&devices), "osnode-virtio.ko has {devices} lines of code");
        let eventfds = lines_of_code(&source("osnode/eventfd.c"));
        assert!((150..=250).contains(&eventfds), "osnode-eventfd.ko has {eventfds} lines of code");
        let iommu = lines_of_code(&source("osnode/iommu.c"));
        assert!((30..=80).contains(&iommu), "osnode-iommu.ko has {iommu} lines of code");
        let functions = lines_of_code(&source("osnode/functions.c"));
        let claims = lines_of_code(&source("osnode/claim.c"));
        assert!((50..=100).contains(&claims), "osnode-claim.ko has {claims} lines of code");
        assert!((80..=180).contains(&functions), "osnode-pci.ko has {functions} lines of code");
        let watch = lines_of_code(&source("osnode/watch.c"));
        assert!((80..=200).contains(&watch), "osnode-watch.ko has {watch} lines of code");
    }

    #[test]
    fn dkms_builds_what_kbuild_makes_and_of_this_version() {
        let dkms = source("dkms.conf");
        let modules = ["osnode", "parasc"].into_iter().flat_map(|part| {
            let kbuild = source(&format!("{part}/Kbuild"));
            let modules = kbuild.lines().find_map(|line| line.strip_prefix("obj-m := ")).unwrap();
            let named = |object: &str| (part, object.strip_suffix(".o").unwrap().to_owned());
            modules.split(' ').map(named).collect::<Vec<_>>()
        });
        let mut count = 0;
        for (n, (part, name)) in modules.enumerate() {
            assert!(dkms.contains(&format!("BUILT_MODULE_NAME[{n}]=\"{name}\"")), "{name}");
            assert!(dkms.contains(&format!("BUILT_MODULE_LOCATION[{n}]=\"{part}\"")), "{name}");
            count += 1;
        }
        assert_eq!(dkms.matches("BUILT_MODULE_NAME").count(), count);
        let version = env!("CARGO_PKG_VERSION");
        assert!(dkms.contains(&format!("PACKAGE_VERSION=\"{version}\"")));
        for file in [
            "osnode/device.c",
            "osnode/guest.c",
            "osnode/virtio.c",
            "osnode/watch.c",
            "osnode/eventfd.c",
            "osnode/iommu.c",
            "parasc/device.c",
        ] {
            assert!(source(file).contains(&format!("MODULE_VERSION(\"{version}\")")), "{file}");
        }
    }

    /// The header is C; what stands there as a number has to stand here.
    #[test]
    fn numbers_are_those_of_the_header() {
        let header = source("uapi/osnode.h");
        let defined = |name: &str| {
            let line = header.lines().find(|line| line.starts_with(&format!("#define {name} ")));
            let value = line.unwrap().split_whitespace().nth(2).unwrap();
            let value = value.trim_end_matches("ULL");
            match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => value.parse().unwrap(),
            }
        };
        assert_eq!(defined("OSNODE_VERSION"), u64::from(VERSION));
        assert_eq!(defined("OSNODE_NAME_BYTES"), NAME_BYTES as u64);
        assert_eq!(defined("OSNODE_PIECES"), PIECES as u64);
        assert_eq!(defined("OSNODE_CPUS"), CPUS as u64);
        assert_eq!(defined("OSNODE_APIC_IDS"), APIC_IDS as u64);
        assert_eq!(defined("OSNODE_SLICE_BYTES"), kumiki_boot::SLICE_BYTES);
        assert_eq!(defined("OSNODE_IOC_TYPE"), u64::from(TYPE));
        assert_eq!(defined("OSNODE_WINDOW_MAGIC"), WINDOW_MAGIC);
        assert_eq!(defined("OSNODE_CHANNELS"), CHANNELS as u64);
        assert_eq!(defined("OSNODE_BLOCKS_AT"), BLOCKS_AT as u64);
        assert_eq!(defined("OSNODE_LOG_AT"), LOG_AT as u64);
        assert_eq!(defined("OSNODE_LOG_BYTES"), LOG_BYTES as u64);
        assert_eq!(defined("OSNODE_RINGS_AT"), RINGS_AT as u64);
        assert_eq!(defined("OSNODE_RING_BYTES"), RING_BYTES as u64);
        assert_eq!(defined("OSNODE_SLEEP_AT"), SLEEP_AT as u64);
        assert_eq!(defined("OSNODE_FREE_AT"), FREE_AT as u64);
        assert_eq!(defined("OSNODE_FREE_RUNS"), FREE_RUNS as u64);
        assert_eq!(defined("OSNODE_RUN_SHIFT"), u64::from(RUN_SHIFT));
        assert_eq!(defined("OSNODE_BUS_AT"), BUS_AT as u64);
        assert_eq!(defined("OSNODE_SLOTS"), SLOTS as u64);
        assert_eq!(defined("OSNODE_QUEUES"), QUEUES as u64);
        assert_eq!(defined("OSNODE_CONFIG_BYTES"), CONFIG_BYTES as u64);
        assert_eq!(defined("OSNODE_CONFIG_BIT"), u64::from(CONFIG_BIT));
        assert_eq!(defined("OSNODE_LANES_AT"), LANES_AT as u64);
        assert_eq!(defined("OSNODE_LANES_BYTES"), LANES_BYTES as u64);
        assert_eq!(defined("OSNODE_WATCH_MAGIC"), WATCH_MAGIC);
        assert_eq!(defined("OSNODE_BEAT_MS"), BEAT_MS);
        assert_eq!(defined("OSNODE_WATCH_CPUS"), WATCH_CPUS as u64);
        assert_eq!(defined("OSNODE_TOLD_BYTES"), TOLD_BYTES as u64);
    }
}
