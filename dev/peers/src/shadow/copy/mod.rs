//! Subjects that copy memory.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_sys::cache::evict;
use kumiki_sys::shm::{Anon, Huge, Populate, Shared};

use crate::shadow::request::{Request, State};
use crate::stopwatch::Stopwatch;

pub(crate) mod kumiki;
pub(crate) mod libc;
pub(crate) mod nontemporal;

/// A way to copy.
pub(crate) trait Copy {
    /// Copies `from` to `to`, which is as long.
    fn copy(&mut self, from: &[u8], to: &mut [u8]);

    /// Before a copy of so many bytes: a helper that is to help is awake after it.
    fn wake(&mut self, _bytes: usize) {}
}

/// Bytes of a half of the arena: two of the largest copies. What was copied
/// last is then further away than any cache is large.
const HALF: usize = 512 << 20;
/// A copy before the first sample of a turn: code and pages of the stack are
/// there then.
const WARM: usize = 1 << 20;
/// What a process copies that has copied nothing before.
const FIRST: usize = 192 << 20;
/// Larger sources and destinations were pushed out of every cache by
/// themselves, and evicting them would take longer than copying.
const EVICTED: usize = 64 << 20;
/// After this a helper sleeps that had to copy before the first sample, too: many
/// times what any waits for before.
const ASLEEP: Duration = Duration::from_millis(2);
const PAGE: usize = 4096;
/// Shorter copies are made as often as it takes to come to this, if they are of
/// the same bytes in a cache: the clock has steps.
pub(crate) const SAMPLE: usize = 64 << 10;

/// Memory that all subjects copy in, each where nobody has copied for long.
/// The parent makes it and hands out the places; pages are of ordinary size.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Shared,
    next: usize,
}

impl Arena {
    /// Makes the arena, its first half full of a pattern.
    pub(crate) fn new() -> Result<Self> {
        let mut arena = Arena { memory: Shared::new("bench", 2 * HALF, Huge::Never)?, next: 0 };
        let (sources, destinations) = arena.halves();
        destinations.fill(0);
        for (i, word) in sources.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = pattern(8 * i).to_le_bytes();
        }
        Ok(arena)
    }

    /// The arena behind this path, mapped and with every page in place.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.with_context(|| format!("opening the arena at {}", path.display()))?;
        let memory = Shared::from_fd(file.into())?;
        let advice = rustix::mm::Advice::LinuxPopulateWrite;
        // SAFETY: our mapping; populating keeps its bytes.
        unsafe { rustix::mm::madvise(memory.as_ptr().cast(), memory.len(), advice) }
            .context("populating the arena (Linux 5.14 has MADV_POPULATE_WRITE)")?;
        Ok(Arena { memory, next: 0 })
    }

    /// A path by which children can open it while we live.
    pub(crate) fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.memory.fd().as_raw_fd())
    }

    /// A place for the copies of one turn.
    pub(crate) fn reserve(&mut self, state: State, bytes: usize) -> Request {
        let offset = place(&mut self.next, state, bytes);
        Request::Copy { state, bytes, offset }
    }

    fn halves(&mut self) -> (&mut [u8], &mut [u8]) {
        let start = self.memory.as_ptr();
        // SAFETY: mapped, readable and writable, and of this length; other
        // processes that know it are stopped while this one runs.
        let all = unsafe { std::slice::from_raw_parts_mut(start, 2 * HALF) };
        all.split_at_mut(HALF)
    }
}

/// Takes the next place from the ring of places.
fn place(next: &mut usize, state: State, bytes: usize) -> usize {
    let span = span(state, bytes);
    if *next + span > HALF {
        *next = 0;
    }
    let offset = *next;
    *next += span;
    offset
}

/// Bytes that a turn goes through.
fn span(state: State, bytes: usize) -> usize {
    // The largest must fit into a half twice.
    if warm(bytes) { WARM + copies(state, bytes) * stride(bytes) } else { bytes }
}

/// The largest copies take so long that a helper's waking does not count.
fn warm(bytes: usize) -> bool {
    bytes <= 64 << 20
}

/// From one copy to the next: a page between, which the processor's prefetch
/// of the copy before does not cross.
fn stride(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE) + PAGE
}

fn copies(state: State, bytes: usize) -> usize {
    match state {
        State::First => FIRST / bytes,
        _ => ((4 << 20) / bytes.max(1)).clamp(1, 16),
    }
}

/// The word at byte `at` of the sources.
fn pattern(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Memory of which no page is there.
struct NewMemory(Anon);

impl NewMemory {
    fn new(bytes: usize) -> Self {
        NewMemory(Anon::new(bytes, Huge::Never, Populate::OnTouch).expect("memory for one copy"))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped, of this length, private, and borrowed from here.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), self.0.len()) }
    }
}

/// A copy as it stands in a program: in a loop of nothing but the same copy the compiler
/// does for one subject what it does not do for another (unrolls it, keeps the address of
/// `memcpy` in a register), which makes a tenth of 64 bytes. Each `N` lies elsewhere.
#[inline(never)]
fn one_of_many<S: Copy, const N: usize>(subject: &mut S, from: &[u8], to: &mut [u8]) {
    if from.is_empty() {
        // SAFETY: instructions that do nothing, and here no copy comes along.
        unsafe { std::arch::asm!(".nops 16 + 8 * {n}", n = const N, options(nomem, nostack)) };
    }
    subject.copy(from, to);
}

/// Eight copies by eight calls. Where code happens to lie in its lines of the cache makes
/// a fifth of 64 bytes, for another subject in each build.
fn eight<S: Copy>(subject: &mut S, from: &[u8], to: &mut [u8]) {
    one_of_many::<S, 0>(subject, from, to);
    one_of_many::<S, 1>(subject, from, to);
    one_of_many::<S, 2>(subject, from, to);
    one_of_many::<S, 3>(subject, from, to);
    one_of_many::<S, 4>(subject, from, to);
    one_of_many::<S, 5>(subject, from, to);
    one_of_many::<S, 6>(subject, from, to);
    one_of_many::<S, 7>(subject, from, to);
}

/// A copying subject and its memory.
pub(crate) struct Copier<S> {
    subject: S,
    arena: Arena,
    watch: Stopwatch,
}

impl<S: Copy> Copier<S> {
    /// Asks `subject` from now on.
    pub(crate) fn new(subject: S, arena: Arena) -> Self {
        Copier { subject, arena, watch: Stopwatch::new() }
    }

    /// Samples of one turn, GB/s; `None` if it is no copy that is asked for.
    pub(crate) fn answer(&mut self, request: Request) -> Option<Vec<f64>> {
        let Request::Copy { state, bytes, mut offset } = request else { return None };
        let Copier { subject, arena, watch } = self;
        let (sources, destinations) = arena.halves();
        if warm(bytes) {
            let to = &mut destinations[offset..][..WARM];
            if state != State::First {
                subject.copy(&sources[offset..][..WARM], to);
            }
            // Lines that are evicted leave room in the cache, which the copies that
            // follow fill without evicting others: at 16 KiB a twentieth of their time.
            // A copy past the caches leaves none, so all begin after the same one.
            to.copy_from_slice(&sources[offset..][..WARM]);
            // Nor is this written back at the cost of the first sample.
            evict(to);
            offset += WARM;
            if state != State::Cold {
                let start = Instant::now();
                while start.elapsed() < ASLEEP {
                    std::hint::spin_loop();
                }
            }
        }
        let ((skip_from, skip_to), (first, last)) = state.lie(bytes);
        let evicted = first + last;
        let short = evicted == 0 && bytes < SAMPLE;
        let repeats = if short { SAMPLE.div_ceil(bytes).next_multiple_of(8) } else { 1 };
        let mut one = |offset: usize| {
            let from = &sources[offset + skip_from..][..bytes];
            let mut new = (state == State::Fresh).then(|| NewMemory::new(bytes));
            let is_new = new.is_some();
            let to = match &mut new {
                Some(new) => new.bytes(),
                None => &mut destinations[offset + skip_to..][..bytes],
            };
            if evicted < bytes {
                to.copy_from_slice(from);
                to.copy_from_slice(from);
            }
            if evicted <= EVICTED {
                for part in [0..first, bytes - last..bytes] {
                    evict(&from[part.clone()]);
                    if !is_new {
                        evict(&to[part]);
                    }
                }
            }
            // Of a copy before nothing is left by which this one might pass.
            let seen = [0, bytes / 16 * 8, bytes - 8].map(|at| at..at + 8);
            if evicted < bytes {
                seen.iter().for_each(|word| to[word.clone()].fill(0));
            }
            // It may sleep where it is not to help: one that spins on the same core
            // takes a third of what the caller copies in a cache.
            if state == State::Cold {
                subject.wake(bytes);
            }
            let start = watch.clock().start();
            match repeats {
                1 => one_of_many::<S, 0>(subject, from, to),
                _ => (0..repeats / 8).for_each(|_| eight(subject, from, to)),
            }
            let ns = watch.ns(start, watch.clock().end()) / repeats as f64;
            // What ordinary stores left in the caches would be written back at
            // the cost of whoever copies next. It is charged to nobody, in
            // favour of those that use them.
            evict(&to[bytes - bytes.min(EVICTED)..]);
            for word in seen {
                let (to, from) = (&mut to[word.clone()], &from[word.clone()]);
                assert!(to == from, "bytes {word:?} of {bytes} were not copied");
                to.fill(0);
            }
            ns.max(1.0)
        };
        let ns = (0..copies(state, bytes)).map(|i| one(offset + i * stride(bytes)));
        let ns: Vec<f64> = match state {
            // What is spent once counts in all of them.
            State::First => vec![ns.sum::<f64>() / copies(state, bytes) as f64],
            _ => ns.collect(),
        };
        Some(ns.into_iter().map(|ns| bytes as f64 / ns).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_within_the_half_and_apart() {
        let cold = [4096, 65536, 1 << 20, 64 << 20, 256 << 20].map(|bytes| (State::Cold, bytes));
        for (state, bytes) in cold.into_iter().chain([(State::First, 1 << 20)]) {
            let mut next = 0;
            let first = place(&mut next, state, bytes);
            let second = place(&mut next, state, bytes);
            assert!(second >= first + span(state, bytes), "{bytes} bytes");
            assert!(second + span(state, bytes) <= HALF, "{bytes} bytes");
        }
    }

    /// Names and texts of the constants of copies, but for those of the machine.
    fn constants() -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/copy/src");
        let mut all = Vec::new();
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let (mut said, mut is_over) = (String::new(), false);
            for line in text.split("#[cfg(test)]\nmod tests").next().unwrap().lines() {
                let words = line.trim_start_matches("pub(crate) ").strip_prefix("const ");
                match (line.strip_prefix("///"), words) {
                    (Some(text), _) => {
                        let before = if is_over { String::new() } else { said };
                        (said, is_over) = (format!("{before}{text}\n"), false);
                    }
                    // Those right behind each other have one text.
                    (None, Some(words)) => {
                        let name = words.split(':').next().unwrap();
                        let is_number = words.contains("usize") || words.contains("u64");
                        if is_number && !["LINE", "PAGE", "TIMED", "_"].contains(&name) {
                            all.push((format!("{}: {name}", file.display()), said.clone()));
                        }
                        is_over = true;
                    }
                    _ => (said, is_over) = (String::new(), false),
                }
            }
        }
        all
    }

    #[test]
    fn every_constant_of_copies_names_its_row() {
        let promises = include_str!("../../../../bench/promises.toml");
        let constants = constants();
        assert!(constants.len() > 20, "{constants:?}");
        for (name, said) in constants {
            let (_, rows) = said.split_once("Row").unwrap_or_default();
            let its = rows.split('`').nth(1).unwrap_or_default();
            let is_promised = promises.contains(&format!("case = \"{its}\""));
            assert!(
                is_promised || said.contains("No row: a promise"),
                "{name} names no row: {said}"
            );
        }
    }

    #[test]
    fn every_way_copies_everything() {
        type Way = fn(&[u8], &mut [u8]);
        let ways: [Way; 3] = [
            |from, to| libc::Libc.copy(from, to),
            |from, to| nontemporal::NonTemporal.copy(from, to),
            |from, to| {
                std::thread::scope(|threads| {
                    let (ours, theirs) = nontemporal::halves(from, to);
                    threads.spawn(|| theirs.copy());
                    ours.copy();
                });
            },
        ];
        let source: Vec<u8> = (0..10_000).map(|i| (i * 7 % 251) as u8).collect();
        for way in ways {
            for skew in 0..70 {
                for n in [0, 1, 63, 64, 65, 129, 4096, 9001] {
                    let mut to = vec![0xee; n + 2 * skew + 1];
                    way(&source[skew / 2..][..n], &mut to[skew..][..n]);
                    assert_eq!(to[skew..][..n], source[skew / 2..][..n], "{n} at {skew}");
                    assert!(to[..skew].iter().chain(&to[skew + n..]).all(|&b| b == 0xee));
                }
            }
        }
    }
}
