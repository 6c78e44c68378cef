//! What cpus of a machine write to PCI configuration, looked at from outside: QEMU traces each
//! write to a device's memory or ports, with the cpu that does it, whatever kernel that runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Configuration in memory: 4 KiB a function, of all buses from an address that is a multiple of
/// 256 MiB.
const BY_MEMORY: &str = "'pcie-mmcfg-mmio'";
const ALL_BUSES: u64 = (256 << 20) - 1;
/// A function's address, and its data: one pair of ports for the whole machine.
const INDEX: &str = "'pci-conf-idx'";
const DATA: &str = "'pci-conf-data'";
/// A stock kernel asks by ports before it has read that it is not to: writes an address, and reads.
const EARLY: usize = 3;

/// Whose configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// As it is numbered: bus, device, function.
    Function(u16),
    Index,
    Data,
}

pub(crate) struct Trace(PathBuf);

impl Trace {
    pub(crate) fn of(folder: &Path) -> Self {
        Trace(folder.join("trace"))
    }

    /// QEMU's words for it.
    pub(crate) fn words(&self) -> Vec<OsString> {
        ["-trace".into(), "memory_region_ops_write".into(), "-D".into(), self.0.clone().into()]
            .into()
    }

    /// How far it is.
    pub(crate) fn at(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }

    fn writes(&self, part: Range<u64>) -> Vec<(i32, Target)> {
        let mut file = File::open(&self.0).unwrap();
        file.seek(SeekFrom::Start(part.start)).unwrap();
        let (mut file, mut at, mut line) = (BufReader::new(file), part.start, Vec::new());
        let mut writes = Vec::new();
        while at < part.end {
            line.clear();
            let length = file.read_until(b'\n', &mut line).unwrap();
            if length == 0 {
                break;
            }
            at += length as u64;
            writes.extend(write_of(&String::from_utf8_lossy(&line)));
        }
        writes
    }

    /// That the cpu of a node, started so often meanwhile, has written to the configuration of its
    /// own function, and to no other.
    pub(crate) fn shows_its_own_alone(
        &self,
        (part, starts): (Range<u64>, usize),
        cpu: i32,
        function: &str,
    ) {
        let own = number(function);
        let by = |cpu: i32, writes: &[(i32, Target)]| -> Vec<Target> {
            writes.iter().filter(|write| write.0 == cpu).map(|write| write.1).collect()
        };
        let writes = by(cpu, &self.writes(part));
        let count = |target: Target| writes.iter().filter(|write| **write == target).count();
        let by_ports = count(Target::Index);
        eprintln!(
            "cpu {cpu}: {} writes to the configuration of {function}, {by_ports} to the ports",
            count(Target::Function(own))
        );
        let others: Vec<&Target> = writes
            .iter()
            .filter(|write| !matches!(write, Target::Index) && **write != Target::Function(own))
            .collect();
        assert!(others.is_empty(), "cpu {cpu}, whose is {function}: {others:x?}");
        assert!(by_ports <= EARLY * starts, "{by_ports} addresses written to 0xcf8");
        // The trace shows what there is: of each start, and what its host does to others.
        assert!(count(Target::Function(own)) >= 8 * starts, "{writes:?}");
        let all = self.writes(0..u64::MAX);
        let is_other = |write: &(i32, Target)| {
            write.0 != cpu && !matches!(write.1, Target::Function(number) if number == own)
        };
        assert!(all.iter().any(is_other), "nobody writes");
    }
}

/// `0000:01:00.0` as configuration in memory has it.
fn number(function: &str) -> u16 {
    let digits = |text: &str| u16::from_str_radix(text, 16).unwrap();
    let (place, number) = function.rsplit_once('.').unwrap();
    let (bus, device) = place.split_once(':').unwrap().1.split_once(':').unwrap();
    digits(bus) << 8 | digits(device) << 3 | digits(number)
}

/// A write to configuration, with its cpu.
fn write_of(line: &str) -> Option<(i32, Target)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| Some(words[words.iter().position(|word| *word == name)? + 1]);
    let target = match after("name")? {
        BY_MEMORY => {
            let address = u64::from_str_radix(after("addr")?.strip_prefix("0x")?, 16).ok()?;
            Target::Function(((address & ALL_BUSES) >> 12) as u16)
        }
        INDEX => Target::Index,
        DATA => Target::Data,
        _ => return None,
    };
    Some((after("cpu")?.parse().ok()?, target))
}

#[test]
fn a_line_of_the_trace_is_read() {
    let line = |addr: &str, name: &str| {
        format!(
            "memory_region_ops_write cpu 3 mr 0x55d0 addr {addr} value 0x406 size 2 name '{name}'\n"
        )
    };
    let of = |addr: &str, name: &str| write_of(&line(addr, name));
    let own = (3, Target::Function(number("0000:01:00.0")));
    assert_eq!(of("0xb0100004", "pcie-mmcfg-mmio"), Some(own));
    assert_eq!(of("0xe0000004", "pcie-mmcfg-mmio"), Some((3, Target::Function(0))));
    assert_eq!(of("0xcf8", "pci-conf-idx"), Some((3, Target::Index)));
    assert_eq!(of("0xcfc", "pci-conf-data"), Some((3, Target::Data)));
    assert_eq!((of("0xfee00300", "apic-msi"), write_of("")), (None, None));
    assert_eq!(number("0000:02:1f.3"), 0x2fb);
}
