//! Cpus and memory that go to the kernel whose tasks wait for them, within each node's limits. See
//! `docs/design/node-elastic.md`.

mod decide;
mod memory;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kumiki_node_devices::record::{self, Elastic, MemoryLimits};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::{Device, HOST_KEEPS_BYTES, available_bytes};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::time_stamp;
use kumiki_node_wire::times::{MemoryTimes, memory_here, times_here};

use crate::host::cpus;
use crate::host::spec::Cpus;
use crate::service::is_held;
use crate::{Node, Result};
use decide::{Kernel, Move, decide};
use memory::Memory;
use work::Balancing;
pub(crate) use work::is_at_work;

/// Interval between two looks at whether this is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The host's own, in lists.
const HOST: &str = "0";

/// Times of a kernel in µs: in which a task waited for a cpu, and in which its cpus worked, all
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    waited: u64,
    worked: u64,
}

/// A kernel at one look: at which moment, in µs, and what it has that may come and go.
struct Seen {
    at: u64,
    cpus: Option<(Kernel, Times)>,
    memory: Option<(Memory, MemoryTimes)>,
}

/// Moves cpus and memory to who waits for them, every so often, until `stop`; `rounds` limits it. Of the
/// host's own kernel at least so many stay. `told` hears of each move, and of one that failed.
///
/// # Errors
/// This machine's kernel says nothing of its pressure, the module is not there, or another process balances already.
pub fn balance(
    every: Duration,
    rounds: Option<u64>,
    host_keeps: usize,
    stop: &AtomicBool,
    told: impl Fn(&str),
) -> Result<()> {
    let _work = Balancing::begin()?;
    let mut before = look(host_keeps)?;
    let mut left = rounds;
    while left != Some(0) {
        if !pause(every, stop) {
            break;
        }
        let now = look(host_keeps)?;
        let (names, kernels) = loaded(&now, &before, Seen::cpus_since);
        let moves = decide(&kernels);
        carry_out(&moves, &names, &kernels, &told);
        let (names, memories) = loaded(&now, &before, Seen::memory_since);
        let of_memory = memory::decide(&memories);
        carry_out_memory(&of_memory, &names, &memories, &told);
        // What was moved is looked at anew, from now on.
        let is_calm = moves.is_empty() && of_memory.is_empty();
        before = if is_calm { now } else { look(host_keeps)? };
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Waits, and returns true if it is to go on.
fn pause(time: Duration, stop: &AtomicBool) -> bool {
    let mut left = time;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let part = left.min(LOOK);
        thread::sleep(part);
        left -= part;
    }
    !stop.load(Ordering::Relaxed)
}

type Look = BTreeMap<String, Seen>;

/// Kernels that say what they did since `before`, by their names.
fn loaded<'a, Kind>(
    now: &'a Look,
    before: &Look,
    since: impl Fn(&Seen, &Seen) -> Option<Kind>,
) -> (Vec<&'a str>, Vec<Kind>) {
    let of =
        |(name, seen): (&'a String, &Seen)| Some((name.as_str(), since(seen, before.get(name)?)?));
    now.iter().filter_map(of).unzip()
}

/// This machine's kernel, and the nodes that answer and have limits.
fn look(host_keeps: usize) -> Result<Look> {
    let khz = sysfs::tsc_khz()?;
    let (waited, worked) = times_here()?;
    let free = cpus::free()?.len();
    let kernel = Kernel {
        cpus: free + 1,
        min: host_keeps.max(1),
        max: free + 1 + cpus::held()?.len(),
        pressure: 0.0,
        busy: 0.0,
    };
    let at = us(time_stamp(), khz);
    let memory = host_memory()?;
    let host = Seen { at, cpus: Some((kernel, Times { waited, worked })), memory: Some(memory) };
    let mut all = BTreeMap::from([(HOST.to_owned(), host)]);
    let nodes = sysfs::each(Holding::Node, |entry| {
        if !entry.runs() || entry.word != abi::WORD_READY || entry.pieces.is_empty() {
            return Ok(None);
        }
        let device = Device::read(Holding::Node, &entry.name)?;
        let (window, record) = record::window(&device, entry, Access::Read)?;
        let Some(record) = record.filter(|_| !window.is_lent()) else { return Ok(None) };
        // Read first: a node that writes meanwhile is taken for busier by a moment.
        let at = us(window.stamp(abi::STAMP_BEAT), khz);
        let times =
            Times { waited: window.stamp(abi::WAITED_US), worked: window.stamp(abi::WORKED_US) };
        let cpus = record.elastic.map(|Elastic { min, max }| {
            let kernel = Kernel { cpus: entry.cpus.len(), min, max, pressure: 0.0, busy: 0.0 };
            (kernel, times)
        });
        let bytes = entry.pieces.iter().map(|piece| piece.bytes).sum();
        let with: u64 = record.parts(&entry.pieces).0.iter().map(|piece| piece.bytes).sum();
        let memory = record.memory.map(|MemoryLimits { min, max }| {
            let times = window.memory_times();
            let (min, unit) = (min.max(with), window.memory_unit());
            let available = times.available;
            (Memory { bytes, min, max, unit, available, stalled: 0.0 }, times)
        });
        Ok(Some((entry.name.clone(), Seen { at, cpus, memory })))
    })?;
    all.extend(nodes.into_iter().flatten());
    Ok(all)
}

/// Memory of this machine's kernel, which gives all but what it keeps, and in whatever steps.
fn host_memory() -> Result<(Memory, MemoryTimes)> {
    let times = memory_here()?;
    let available = available_bytes()?.saturating_sub(HOST_KEEPS_BYTES);
    let unit = abi::PIECE_UNIT;
    // It is measured by what it has beside that: of nothing it keeps a part.
    let memory = Memory { bytes: available, min: 0, max: u64::MAX, unit, available, stalled: 0.0 };
    Ok((memory, times))
}

fn us(ticks: u64, khz: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1000 / u128::from(khz.max(1))).unwrap_or(u64::MAX)
}

impl Seen {
    /// Share of the time since `before` in which this went on, of which a kernel says how long.
    fn share(&self, before: &Seen, now: u64, then: u64) -> Option<f64> {
        let time = self.at.checked_sub(before.at).filter(|&time| time > 0)?;
        Some(now.checked_sub(then)? as f64 / time as f64)
    }

    /// Its cpus with what they did since; nothing of one that was started anew, or says nothing.
    fn cpus_since(&self, before: &Seen) -> Option<Kernel> {
        let (kernel, now) = self.cpus.as_ref()?;
        let then = before.cpus.as_ref()?.1;
        let pressure = self.share(before, now.waited, then.waited)?;
        let busy = self.share(before, now.worked, then.worked)?;
        Some(Kernel { pressure, busy, ..kernel.clone() })
    }

    /// Its memory with how long tasks waited for it since; the same.
    fn memory_since(&self, before: &Seen) -> Option<Memory> {
        let (memory, now) = self.memory.as_ref()?;
        let then = before.memory.as_ref()?.1;
        // It has not looked yet.
        let stalled = self.share(before, now.stalled_us, then.stalled_us)?;
        (now.available > 0).then(|| Memory { stalled, ..memory.clone() })
    }
}

fn carry_out(moves: &[Move], names: &[&str], kernels: &[Kernel], told: &impl Fn(&str)) {
    let mut has: Vec<usize> = kernels.iter().map(|kernel| kernel.cpus).collect();
    for one in moves {
        let (from, to) = (names[one.from], names[one.to]);
        // `apply` and `watch` may be at work on it.
        if [from, to].iter().any(|name| is_held(name)) {
            continue;
        }
        let cpus = |count| if count == 1 { "1 cpu".to_owned() } else { format!("{count} cpus") };
        let moved = set(from, has[one.from] - one.cpus)
            .and_then(|()| set(to, has[one.to] + one.cpus))
            .map(|()| {
                has[one.from] -= one.cpus;
                has[one.to] += one.cpus;
            });
        match moved {
            Ok(()) => told(&format!("{} from {from} to {to}", cpus(one.cpus))),
            // It is tried again when it is looked at again.
            Err(error) => told(&format!("{} from {from} to {to}: {error}", cpus(one.cpus))),
        }
    }
}

fn carry_out_memory(
    moves: &[memory::Transfer],
    names: &[&str],
    memories: &[Memory],
    told: &impl Fn(&str),
) {
    let set = |name: &str, bytes: u64| {
        if name == HOST { Ok(()) } else { Node::find(name)?.set_memory(bytes).map(drop) }
    };
    let mut has: Vec<u64> = memories.iter().map(|memory| memory.bytes).collect();
    for one in moves {
        let (from, to, bytes) = (names[one.from], names[one.to], one.bytes);
        if [from, to].iter().any(|name| is_held(name)) {
            continue;
        }
        let moved = set(from, has[one.from].saturating_sub(bytes))
            .and_then(|()| set(to, has[one.to].saturating_add(bytes)));
        let what = format!("{} MiB from {from} to {to}", bytes >> 20);
        match moved {
            Ok(()) => {
                has[one.from] = has[one.from].saturating_sub(bytes);
                has[one.to] = has[one.to].saturating_add(bytes);
                told(&what);
            }
            Err(error) => told(&format!("{what}: {error}")),
        }
    }
}

/// The host has what no node has.
fn set(name: &str, count: usize) -> Result<()> {
    if name == HOST { Ok(()) } else { Node::find(name)?.set_cpus(&Cpus::Count(count)).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_what_came_in_between() {
        let seen = |at, waited, worked, stalled_us, available| Seen {
            at,
            cpus: Some((
                Kernel { cpus: 2, min: 1, max: 4, pressure: 0.0, busy: 0.0 },
                Times { waited, worked },
            )),
            memory: Some((
                Memory { bytes: 9, min: 1, max: 9, unit: 1, available, stalled: 0.0 },
                MemoryTimes { stalled_us, available },
            )),
        };
        let (before, now) = (seen(1_000, 500, 0, 100, 7), seen(3_000, 1_500, 2_000, 200, 5));
        let kernel = now.cpus_since(&before).unwrap();
        assert_eq!((kernel.pressure, kernel.busy, kernel.cpus), (0.5, 1.0, 2));
        let memory = now.memory_since(&before).unwrap();
        assert_eq!((memory.stalled, memory.available), (0.05, 5));
        // No look since; started anew; an agent that has not looked yet; no limits.
        assert_eq!(before.cpus_since(&before), None);
        let anew = seen(3_000, 0, 0, 0, 7);
        assert!(anew.cpus_since(&before).is_none() && anew.memory_since(&before).is_none());
        assert_eq!(seen(3_000, 500, 0, 100, 0).memory_since(&before), None);
        assert_eq!(Seen { cpus: None, ..seen(3_000, 0, 0, 0, 0) }.cpus_since(&before), None);
        assert_eq!(us(3_000_000, 3_000), 1_000_000);
    }
}
