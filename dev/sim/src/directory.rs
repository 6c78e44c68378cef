//! The directory: which cpus have a line, who waits for it, and what each access costs.
//!
//! A line is in no cache, in several as copies (shared), or in one that may write (exclusive). An
//! access that finds it so is a *hit*; otherwise the line is asked for. One is served at a time, in
//! the order in which they have asked:
//!
//! ```text
//!   asked ──▶ queue ──▶ granted ──────────▶ there ─────────▶ the next one
//!                       copies go,          ends             readers: read_busy after the grant
//!                       the owner changes   distance later   writers: hold after the end
//! ```
//!
//! Until the grant the former owner's further accesses are hits: they belong to what it has the line
//! for. A store is posted: its cpu goes on, and asks for the line in its name. From then on copies
//! of others are no good any more, as their looks would find in the old copy what only the new one has.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use kumiki_sys::sim::{Access, Site};

use crate::machine::{Machine, Time, picoseconds};

/// Bytes of a line.
pub(crate) const LINE: usize = kumiki_sys::sim::LINE;

/// Set of up to 256 cpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpus([u64; 4]);

impl Cpus {
    fn of(cpu: usize) -> Self {
        let mut set = Cpus::default();
        set.insert(cpu);
        set
    }

    fn insert(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

/// Request for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) thread: usize,
    pub(crate) cpu: usize,
    pub(crate) access: Access,
    pub(crate) site: Site,
}

#[derive(Debug, Default)]
struct Line {
    copies: Cpus,
    exclusive: bool,
    queue: VecDeque<Asked>,
    /// Posted stores that have not got it yet.
    posted: u32,
    /// The next reader is served from then on, and the next writer.
    free: [Time; 2],
    /// A grant is due.
    due: bool,
    /// Threads that look at it, with the number of the wait that they are in.
    watchers: Vec<(usize, u64)>,
    counts: LineCounts,
}

/// Costs of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCounts {
    pub(crate) data: u64,
    pub(crate) upgrades: u64,
    /// Transfers by who has asked.
    pub(crate) sites: HashMap<Site, u64>,
}

/// Outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Over after that time.
    Hit(Time),
    /// The line was asked for; a grant is due at that time, unless one is already.
    Asked(Option<Time>),
}

/// A grant: the line is there at `end`.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) asked: Asked,
    pub(crate) end: Time,
    /// The next grant.
    pub(crate) next: Option<Time>,
    /// Threads that looked at a copy that has gone.
    pub(crate) watchers: Vec<(usize, u64)>,
}

/// Hash of a line's number: one multiplication.
#[derive(Default)]
pub(crate) struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The lines of a run.
#[derive(Debug)]
pub(crate) struct Directory {
    lines: HashMap<usize, Line, BuildHasherDefault<ByNumber>>,
    hit: Time,
    swap: Time,
    hold: Time,
    read_busy: Time,
    memory: Time,
    machine: Machine,
}

impl Directory {
    pub(crate) fn new(machine: &Machine) -> Self {
        Directory {
            lines: HashMap::default(),
            hit: picoseconds(machine.hit),
            swap: picoseconds(machine.swap),
            hold: picoseconds(machine.hold),
            read_busy: picoseconds(machine.read_busy),
            memory: picoseconds(machine.memory),
            machine: machine.clone(),
        }
    }

    /// A cpu's access to a line at `now`. Of who posts a store that is asked for, the watchers of
    /// the line's copies are appended to `woken`.
    pub(crate) fn access(
        &mut self,
        number: usize,
        asked: Asked,
        now: Time,
        woken: &mut Vec<(usize, u64)>,
    ) -> Outcome {
        let (hit, swap) = (self.hit, self.swap);
        let line = self.lines.entry(number).or_default();
        let cpu = asked.cpu;
        let own_posted = || line.queue.iter().any(|a| a.cpu == cpu && a.access == Access::Store);
        let has = line.copies.contains(cpu);
        let is_hit = match asked.access {
            Access::Load => (has && line.posted == 0) || (line.posted > 0 && own_posted()),
            Access::Store => (has && line.exclusive) || (line.posted > 0 && own_posted()),
            Access::Swap => has && line.exclusive,
        };
        if is_hit {
            return Outcome::Hit(if asked.access == Access::Swap { swap } else { hit });
        }
        if asked.access == Access::Store {
            line.posted += 1;
            woken.append(&mut line.watchers);
        }
        line.queue.push_back(asked);
        let at = now.max(line.free[usize::from(asked.access != Access::Load)]);
        Outcome::Asked((!std::mem::replace(&mut line.due, true)).then_some(at))
    }

    /// Grants a line to the first who asks for it.
    pub(crate) fn grant(&mut self, number: usize, now: Time) -> Granted {
        let Directory { hold, read_busy, memory, ref machine, .. } = *self;
        let line = self.lines.get_mut(&number).expect("it was asked for");
        let asked = line.queue.pop_front().expect("somebody asks");
        let (cpu, reads) = (asked.cpu, asked.access == Access::Load);
        let has = line.copies.contains(cpu);
        let others = || line.copies.iter().filter(|other| *other != cpu);
        let nearest = others().map(|other| machine.distance(other, cpu)).min();
        let farthest = others().map(|other| machine.distance(other, cpu)).max();
        let invalidation = farthest.map_or(0, |far| (far as f64 * machine.upgrade) as Time);
        let data = if has { 0 } else { nearest.unwrap_or(memory) };
        let mut watchers = Vec::new();
        let end = now + if reads { data } else { data.max(invalidation) };
        if !has {
            line.counts.data += 1;
            *line.counts.sites.entry(asked.site).or_default() += 1;
        } else if !reads && farthest.is_some() {
            line.counts.upgrades += 1;
            *line.counts.sites.entry(asked.site).or_default() += 1;
        }
        if reads {
            line.copies.insert(cpu);
            line.exclusive = line.exclusive && has;
            line.free = [now + if has { 0 } else { read_busy }, end];
        } else {
            line.copies = Cpus::of(cpu);
            line.exclusive = true;
            line.free = [end + hold; 2];
            watchers = std::mem::take(&mut line.watchers);
        }
        line.posted -= u32::from(asked.access == Access::Store);
        let next =
            line.queue.front().map(|next| line.free[usize::from(next.access != Access::Load)]);
        line.due = next.is_some();
        let end = end + if asked.access == Access::Swap { self.swap } else { 0 };
        Granted { asked, end, next: next.map(|at| at.max(now)), watchers }
    }

    /// Has a thread told when one of these lines changes.
    pub(crate) fn watch(&mut self, lines: &[usize], thread: usize, wait: u64) {
        for number in lines {
            let Some(line) = self.lines.get_mut(number) else { continue };
            match line.watchers.iter_mut().find(|(watcher, _)| *watcher == thread) {
                Some((_, last)) => *last = wait,
                None => line.watchers.push((thread, wait)),
            }
        }
    }

    /// Forgets what was counted.
    pub(crate) fn forget(&mut self) {
        self.lines.values_mut().for_each(|line| line.counts = LineCounts::default());
    }

    /// Lines that have moved, and what that was, the busiest first.
    pub(crate) fn moved(&self) -> Vec<LineCounts> {
        let mut lines: Vec<_> = self
            .lines
            .values()
            .filter(|line| line.counts.data + line.counts.upgrades > 0)
            .map(|line| line.counts.clone())
            .collect();
        let key = |line: &LineCounts| (line.data + line.upgrades, line.busiest());
        lines.sort_by_key(|line| std::cmp::Reverse(key(line)));
        lines
    }
}

impl LineCounts {
    /// The place in a program that has moved it most.
    pub(crate) fn busiest(&self) -> Option<(u64, String)> {
        let named = self.sites.iter().map(|(site, count)| {
            let file = site.file().rsplit('/').next().unwrap_or_default();
            (*count, format!("{file}:{}", site.line()))
        });
        named.max()
    }
}
