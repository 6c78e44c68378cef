//! What a kernel's cpus and memory did: for the host, which gives both to the kernel whose tasks wait.

use std::fs;

use crate::{Error, Result};

const PRESSURE: &str = "/proc/pressure/cpu";
const STAT: &str = "/proc/stat";
const MEMORY_PRESSURE: &str = "/proc/pressure/memory";
const MEMORY: &str = "/proc/meminfo";
/// Ticks of /proc/stat, each.
const TICK_US: u64 = 10_000;

/// Times of the kernel that this runs on in µs: a task waited for a cpu, and its cpus worked, all
/// together.
pub fn times_here() -> Result<(u64, u64)> {
    let read = |path| fs::read_to_string(path).map_err(|error| Error::file(path, error));
    let waited = waited(&read(PRESSURE)?).ok_or_else(|| unknown(PRESSURE))?;
    let worked = worked(&read(STAT)?).ok_or_else(|| unknown(STAT))?;
    Ok((waited, worked))
}

/// Memory of a kernel: how long tasks waited for it, and how much they can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTimes {
    /// Time in µs in which a task waited: while pages were looked for, or read again.
    pub stalled_us: u64,
    /// Bytes that programs can have.
    pub available: u64,
}

/// Memory of the kernel that this runs on.
pub fn memory_here() -> Result<MemoryTimes> {
    let read = |path| fs::read_to_string(path).map_err(|error| Error::file(path, error));
    let stalled_us = waited(&read(MEMORY_PRESSURE)?).ok_or_else(|| unknown(MEMORY_PRESSURE))?;
    let available = available(&read(MEMORY)?).ok_or_else(|| unknown(MEMORY))?;
    Ok(MemoryTimes { stalled_us, available })
}

/// `MemAvailable:    1234 kB`
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1 << 10)
}

fn unknown(path: &str) -> Error {
    let needs =
        "a kernel with CONFIG_PSI=y, and psi=1 on its command line where that is off".into();
    Error::Unsupported { feature: format!("what is expected in {path}"), needs }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`
fn waited(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

/// User, nice, system, idle, waiting for disks, interrupts (two kinds).
fn worked(stat: &str) -> Option<u64> {
    let cpu = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = cpu.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, hard, soft, ..] = ticks[..] else { return None };
    let sum = [user, nice, system, hard, soft].into_iter().try_fold(0_u64, u64::checked_add)?;
    sum.checked_mul(TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_what_a_kernel_says() {
        let pressure =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=0\n";
        assert_eq!(waited(pressure), Some(1234));
        assert_eq!(waited(""), None);
        let meminfo = "MemTotal: 9 kB\nMemFree: 8 kB\nMemAvailable:  7 kB\n";
        assert_eq!(available(meminfo), Some(7 << 10));
        assert_eq!(available("MemAvailable:\n"), None);
        assert_eq!(available(&format!("MemAvailable: {} kB\n", u64::MAX)), None);
        let stat = "cpu  1 2 3 400 5 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n";
        assert_eq!(worked(stat), Some(190_000));
        assert_eq!(worked("cpu  1 2 3\n"), None);
        assert_eq!(worked(&format!("cpu  {} 2 3 4 5 6 7\n", u64::MAX)), None);
        assert!(times_here().is_ok() || !std::path::Path::new(PRESSURE).exists());
    }
}
