//! What a kernel's processors and memory are used for, the host's or a node's, by its own words.

use std::fs;

use kumiki_node_wire::wish::Run;
use kumiki_stream::exec::Client;

use crate::node::session::{Ending, Session};
use crate::{Error, ErrorKind, Result, Subject};

const STAT: &str = "/proc/stat";
const MEMORY: &str = "/proc/meminfo";
/// More than these files have of a machine of many cpus; a node may say anything, without an end.
const TEXT_BYTES: usize = 1 << 20;

/// Use of processors since a kernel's start, and of memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Ticks of all its processors that were spent in something else than waiting.
    pub busy_ticks: u64,
    /// Ticks of all its processors.
    pub all_ticks: u64,
    /// Memory that programs could not have, in bytes.
    pub used_bytes: u64,
    /// Memory that the kernel manages, in bytes.
    pub bytes: u64,
}

impl Usage {
    /// Use of the kernel that this runs on.
    ///
    /// # Errors
    /// Its files in /proc cannot be read, or have none of the figures.
    pub fn here() -> Result<Self> {
        let read = |path| fs::read_to_string(path).map_err(|error| Error::file(path, error));
        Self::parse(&(read(STAT)? + &read(MEMORY)?))
            .ok_or_else(|| unknown("this machine", Subject::File(STAT.into())))
    }

    /// Use of a node's; waits for its agent.
    ///
    /// # Errors
    /// The node does not run, has no cat(1) in its initramfs, or says no such figures.
    pub fn of(node: &str) -> Result<Self> {
        let run = Run::beside_root(["cat", STAT, MEMORY]);
        let (mut out, mut err) = (Bounded(Vec::new()), Bounded(Vec::new()));
        let mut client = Client { input: None, out: &mut out, err: &mut err, orders: None };
        let ending = Session::open_by_host(node)?.run(&run, &mut client)?;
        let text = String::from_utf8_lossy(&out.0);
        let usage = Self::parse(&text).filter(|_| ending == Ending::Exited(0));
        usage.ok_or_else(|| unknown(&format!("node {node}"), Subject::node(node)))
    }

    /// Share of its processors' time that was used since `before`, from 0 to 1.
    pub fn busy_since(&self, before: &Usage) -> Option<f64> {
        let all = self.all_ticks.checked_sub(before.all_ticks).filter(|&all| all > 0)?;
        let busy = self.busy_ticks.checked_sub(before.busy_ticks)?;
        Some((busy as f64 / all as f64).min(1.0))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = |key: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            lines.find_map(|mut words| (words.next() == Some(key)).then_some(words))
        };
        // User, nice, system, idle, waiting for disks, interrupts (two kinds), stolen. What guests
        // took is in the first two already.
        let ticks: Vec<u64> = line("cpu")?.take(8).map_while(|word| word.parse().ok()).collect();
        let all_ticks = ticks.iter().fold(0, |sum: u64, &ticks| sum.saturating_add(ticks));
        let waited = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        let kib = |key| line(key)?.next()?.parse::<u64>().ok();
        let (all, available) = (kib("MemTotal:")?, kib("MemAvailable:")?);
        Some(Usage {
            busy_ticks: all_ticks.saturating_sub(waited),
            all_ticks,
            used_bytes: all.saturating_sub(available).saturating_mul(1024),
            bytes: all.saturating_mul(1024),
        })
    }
}

fn unknown(of: &str, subject: Subject) -> Error {
    let text = format!("{of} does not say what its cpus and memory are used for");
    Error::refused(ErrorKind::Unsupported, subject, text)
}

/// Output as far as it is of use.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = TEXT_BYTES - self.0.len();
        self.0.extend(&bytes[..room.min(bytes.len())]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_says_is_summed_and_nonsense_is_none() {
        let text = "cpu  10 1 20 100 5 2 3 4 9 9\ncpu0 1 1 1 1\nMemTotal:  1000 kB\n\
                    MemFree: 1 kB\nMemAvailable:  600 kB\n";
        let usage = Usage::parse(text).unwrap();
        assert_eq!((usage.busy_ticks, usage.all_ticks), (40, 145));
        assert_eq!((usage.used_bytes, usage.bytes), (400 << 10, 1000 << 10));
        let later = Usage { busy_ticks: 65, all_ticks: 245, ..usage };
        assert_eq!(later.busy_since(&usage), Some(0.25));
        assert_eq!(usage.busy_since(&later), None);
        let huge = text.replace(" 100 ", &format!(" {} ", u64::MAX));
        assert!(Usage::parse(&huge).is_some());
        for cut in 0..text.len() - 10 {
            assert!(Usage::parse(&text[..cut]).is_none_or(|usage| usage.all_ticks > 0));
        }
        assert_eq!(Usage::parse("cpu x\nMemTotal: y"), None);
        assert!(Usage::here().unwrap().bytes > 0);
    }
}
