//! Switching between processes: a byte goes round a ring of them, all on one
//! cpu, so that each step is a switch. Each process reads its own working set
//! at every step, which it finds in the caches or not.
//!
//! A step is more than the switch: writing and reading a pipe and reading the
//! working set are in it. `processes = 1` is that work without a switch, as a
//! row of its own: nothing is subtracted behind the reader's back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::child::time_with;
use crate::ipc::caller::Forked;
use crate::ipc::peer::Peer;
use crate::ipc::{read_all, write_all};
use crate::sweep;
use kumiki_measure::case::{Case, Choice, Level, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::CpuTime;

/// Words in a cache line: one of them is read of each.
const LINE_WORDS: usize = 8;
/// Words in a page.
const PAGE_WORDS: usize = 512;

pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let sizes = sweep::sizes(choice, &sweep::own(&[], &[0, 16 << 10, 64 << 10, 256 << 10]));
    let mut cases = Vec::new();
    for processes in [1, 2, 4, 8, 16] {
        for &(bytes, level) in &sizes {
            let quick = matches!((processes, bytes), (2 | 8, 0) | (8, 65_536));
            let case = Case::new(
                "thread.context_switch",
                "a step of a byte round a ring of processes on one cpu: switch, pipe write and read, working set (processes=1: no switch)",
                move |place: &Place| PipeRing::start(place.cpu, processes, bytes),
            );
            let case = case.with("processes", processes as u64).with("working_set_bytes", bytes);
            let level = if quick { Level::Quick } else { level };
            cases.push(case.level(level).asks(bytes));
        }
    }
    cases
}

/// The measuring process and the other members of the ring. Pipe `i` leads
/// from member `i` to the next; the measuring process is member 0.
pub(super) struct PipeRing {
    peers: Vec<Peer>,
    pipes: Vec<(OwnedFd, OwnedFd)>,
    working_set: Vec<u64>,
}

impl PipeRing {
    pub(super) fn start(cpu: usize, members: usize, bytes: u64) -> Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::os("make a pipe", e));
        let pipes = (0..members).map(|_| pipe()).collect::<Result<Vec<_>>>()?;
        let mut working_set = working_set(bytes)?;
        let mut peers = Vec::new();
        for member in 1..members {
            let (from, to) = ends(&pipes, member);
            peers.push(Peer::spawn(cpu, || {
                // Until written, its pages are those of the measuring process.
                working_set.iter_mut().step_by(PAGE_WORDS).for_each(|word| *word = 2);
                loop {
                    read_all(&Forked, from, &mut [0])?;
                    read(&working_set);
                    write_all(&Forked, to, &[1])?;
                }
            })?);
        }
        Ok(PipeRing { peers, pipes, working_set })
    }

    /// Sends a byte round the whole ring: as many steps as members.
    #[inline]
    fn lap(&self) -> Result<()> {
        let everybody = self.peers.as_slice();
        let (from, to) = ends(&self.pipes, 0);
        write_all(&everybody, to, &[1])?;
        read_all(&everybody, from, &mut [0])?;
        read(&self.working_set);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn kill(&self, peer: usize) {
        let id = self.peers[peer].id();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }
}

fn working_set(bytes: u64) -> Result<Vec<u64>> {
    let refused = || {
        Error::Invalid(format!(
            "no memory for a working set of {bytes} bytes: choose a smaller size"
        ))
    };
    let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| refused())?;
    let mut set = Vec::new();
    set.try_reserve_exact(words).map_err(|_| refused())?;
    set.resize(words, 1);
    Ok(set)
}

/// Ends from which member `member` reads, and to which it writes.
fn ends(pipes: &[(OwnedFd, OwnedFd)], member: usize) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
    let before = (member + pipes.len() - 1) % pipes.len();
    (pipes[before].0.as_fd(), pipes[member].1.as_fd())
}

/// Reads one word of each cache line.
#[inline]
fn read(set: &[u64]) {
    let sum = set.iter().step_by(LINE_WORDS).fold(0u64, |sum, word| sum.wrapping_add(*word));
    std::hint::black_box(sum);
}

impl Workload for PipeRing {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let steps = self.pipes.len() as u64;
        let laps = iterations.div_ceil(steps);
        self.lap()?;
        let Sample { wall_ns, cpu, .. } =
            time_with(&self.peers, meter, || (0..laps).try_for_each(|_| self.lap()))?;
        // Whole laps only: more steps than asked for, so their share of it.
        let share = iterations as f64 / (laps * steps).max(1) as f64;
        let cpu = CpuTime {
            user_ns: cpu.user_ns * share,
            system_ns: cpu.system_ns * share,
            children_ns: cpu.children_ns * share,
        };
        Ok(Sample { wall_ns: wall_ns * share, cpu, ..Sample::default() })
    }
}
