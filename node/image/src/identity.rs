//! Identity of this machine, as far as the memory of a node that sleeps depends on it.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hash::hex;

/// Lines of `/proc/cpuinfo` that a kernel has fitted itself to as it booted.
const CPU: [&str; 6] = ["vendor_id", "cpu family", "model", "stepping", "microcode", "flags"];
/// Digits of a hash that are enough for telling two machines apart, and for a person.
const DIGITS: usize = 16;

/// A machine, told from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its first processor: family, model, stepping, microcode, and a hash of its flags.
    cpu: String,
    /// Its number by its firmware or, without one, by its system; none has neither.
    id: Option<String>,
}

impl Identity {
    /// This machine's.
    pub fn of_host() -> Self {
        let id = ["/sys/class/dmi/id/product_uuid", "/etc/machine-id"]
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())
            .map(|text| text.trim().to_owned());
        Identity {
            cpu: cpu(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            id: id.filter(|id| !id.is_empty()),
        }
    }
}

#[cfg(test)]
impl Identity {
    /// Makes an identity up.
    pub fn of(id: &str, cpu: &str) -> Self {
        Identity { cpu: cpu.to_owned(), id: Some(id.to_owned()) }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cpu {})", self.id.as_deref().unwrap_or("without a number"), self.cpu)
    }
}

/// Describes the first processor of the kernel's list.
fn cpu(list: &str) -> String {
    let first = list.split("\n\n").next().unwrap_or_default();
    let value = |key: &str| {
        let line = first.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        });
        line.unwrap_or("?").to_owned()
    };
    let [vendor, family, model, stepping, microcode, flags] = CPU.map(value);
    let flags = hex(Sha256::new().chain_update(flags));
    format!("{vendor} {family}/{model}/{stepping} {microcode} {}", &flags[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_fits_itself_to_tells_cpus_apart() {
        let list = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                    model name\t: X\nstepping\t: 1\nmicrocode\t: 0xa1\ncpu MHz\t\t: 2400.1\n\
                    flags\t\t: fpu vme\n\nprocessor\t: 1\nmodel\t\t: 18\n";
        let one = cpu(list);
        assert!(one.starts_with("AuthenticAMD 25/17/1 0xa1 "), "{one}");
        assert_eq!(one, cpu(&list.replace("2400.1", "3000.0")));
        for (from, to) in [("vme", "vme smap"), ("0xa1", "0xa2"), ("25", "26")] {
            assert_ne!(one, cpu(&list.replace(from, to)), "{to}");
        }
        assert!(cpu("").starts_with("? ?/?/? ? "));
    }

    #[test]
    fn a_machine_is_itself() {
        assert_eq!(Identity::of_host(), Identity::of_host());
    }
}
