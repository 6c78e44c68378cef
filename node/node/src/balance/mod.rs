//! Cpus that go to the kernel whose tasks wait for one, within each node's limits. See
//! `docs/design/node-elastic.md`.

mod decide;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kumiki_node_devices::record;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::time_stamp;
use kumiki_node_wire::times::times_here;

use crate::host::cpus;
use crate::host::spec::Cpus;
use crate::service::is_held;
use crate::{Node, Result};
use decide::{Kernel, Move, decide};

/// Interval between two looks at whether this is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The host's own, in lists.
const HOST: &str = "0";

/// Times of a kernel in µs: of which moment, in which a task waited for a cpu, and in which its
/// cpus worked, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    at: u64,
    waited: u64,
    worked: u64,
}

/// A kernel as it is seen at one look.
struct Seen {
    kernel: Kernel,
    times: Times,
}

/// Moves cpus to who waits for them, every so often, until `stop`; `rounds` limits it. Of the
/// host's own kernel at least so many stay. `told` hears of each move, and of one that failed.
///
/// # Errors
/// This machine's kernel says nothing of its pressure, or the module is not there.
pub fn balance(
    every: Duration,
    rounds: Option<u64>,
    host_keeps: usize,
    stop: &AtomicBool,
    told: impl Fn(&str),
) -> Result<()> {
    let mut before = look(host_keeps)?;
    let mut left = rounds;
    while left != Some(0) {
        if !pause(every, stop) {
            break;
        }
        let now = look(host_keeps)?;
        let (names, kernels): (Vec<&str>, Vec<Kernel>) = now
            .iter()
            .filter_map(|(name, seen)| {
                let since = before.get(name)?;
                Some((name.as_str(), with_load(seen, since)?))
            })
            .unzip();
        let moves = decide(&kernels);
        carry_out(&moves, &names, &kernels, &told);
        // What was moved is looked at anew, from now on.
        before = if moves.is_empty() { now } else { look(host_keeps)? };
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

/// This machine's kernel, and the elastic nodes that answer, by their names.
fn look(host_keeps: usize) -> Result<BTreeMap<String, Seen>> {
    let khz = sysfs::tsc_khz()?;
    let (waited, worked) = times_here()?;
    let free = cpus::free()?.len();
    let host = Seen {
        kernel: Kernel {
            cpus: free + 1,
            min: host_keeps.max(1),
            max: free + 1 + cpus::held()?.len(),
            pressure: 0.0,
            busy: 0.0,
        },
        times: Times { at: us(time_stamp(), khz), waited, worked },
    };
    let mut all = BTreeMap::from([(HOST.to_owned(), host)]);
    let nodes = sysfs::each(Holding::Node, |entry| {
        if !entry.runs() || entry.word != abi::WORD_READY || entry.pieces.is_empty() {
            return Ok(None);
        }
        let device = Device::read(Holding::Node, &entry.name)?;
        let (window, record) = record::window(&device, entry, Access::Read)?;
        let Some(elastic) = record.and_then(|record| record.elastic) else { return Ok(None) };
        if window.is_lent() {
            return Ok(None);
        }
        let times = Times {
            // Read first: a node that writes meanwhile is taken for busier by a moment.
            at: us(window.stamp(abi::STAMP_BEAT), khz),
            waited: window.stamp(abi::WAITED_US),
            worked: window.stamp(abi::WORKED_US),
        };
        let (min, max) = (elastic.min, elastic.max);
        let kernel = Kernel { cpus: entry.cpus.len(), min, max, pressure: 0.0, busy: 0.0 };
        Ok(Some((entry.name.clone(), Seen { kernel, times })))
    })?;
    all.extend(nodes.into_iter().flatten());
    Ok(all)
}

fn us(ticks: u64, khz: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1000 / u128::from(khz.max(1))).unwrap_or(u64::MAX)
}

/// Adds to a kernel what it did since; nothing of one that was started anew, or says nothing.
fn with_load(seen: &Seen, before: &Seen) -> Option<Kernel> {
    let (now, then) = (seen.times, before.times);
    let time = now.at.checked_sub(then.at).filter(|&time| time > 0)? as f64;
    let share = |now: u64, then: u64| Some(now.checked_sub(then)? as f64 / time);
    let (pressure, busy) = (share(now.waited, then.waited)?, share(now.worked, then.worked)?);
    Some(Kernel { pressure, busy, ..seen.kernel.clone() })
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

/// The host has what no node has.
fn set(name: &str, count: usize) -> Result<()> {
    if name == HOST { Ok(()) } else { Node::find(name)?.set_cpus(&Cpus::Count(count)).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_what_came_in_between() {
        let seen = |at, waited, worked| Seen {
            kernel: Kernel { cpus: 2, min: 1, max: 4, pressure: 0.0, busy: 0.0 },
            times: Times { at, waited, worked },
        };
        let kernel = with_load(&seen(3_000, 1_500, 2_000), &seen(1_000, 500, 0)).unwrap();
        assert_eq!((kernel.pressure, kernel.busy, kernel.cpus), (0.5, 1.0, 2));
        // No look since; started anew.
        assert_eq!(with_load(&seen(1_000, 500, 0), &seen(1_000, 500, 0)), None);
        assert_eq!(with_load(&seen(3_000, 0, 0), &seen(1_000, 500, 0)), None);
        assert_eq!(us(3_000_000, 3_000), 1_000_000);
    }
}
