//! Kinds of requests.

use fastrand::Rng;

/// What a request does, and how its trace is told from others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A known answer.
    Getppid,
    /// An answer that tells who has made the call.
    Gettid,
    /// An error that the kernel gives.
    BadDescriptor,
    /// A word whose content tells its place.
    Pread,
    /// A byte at the end of a file: lost or made twice, that is too short or too long.
    Append,
    /// A number added to a counter: lost or made twice, the sum is wrong.
    Add,
    /// Sleeps.
    Nanosleep,
    /// Takes one of as many messages, by a call that is taken for one that
    /// sleeps: lost, one is left over; made twice, it finds none.
    Receive,
}

impl Kind {
    /// Whether a signal has interrupted such a request: it has had no effect then.
    pub(crate) fn is_interrupted(self, result: i64) -> bool {
        SLEEPING.contains(&self) && result == -i64::from(libc::EINTR)
    }
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Getppid,
    Kind::Gettid,
    Kind::BadDescriptor,
    Kind::Pread,
    Kind::Append,
    Kind::Add,
    Kind::Nanosleep,
    Kind::Receive,
];
/// Those that are soon over.
const QUICK: &[Kind] = KINDS.split_at(6).0;
/// Those for which there are many threads.
const SLEEPING: &[Kind] = KINDS.split_at(6).1;

/// Requests of one batch, at most.
pub(crate) const MOST: usize = 700;
/// The same if they sleep.
const MOST_SLEEPING: usize = 50;
/// One batch in so many sleeps.
const SLEEPS_ONE_IN: u32 = 200;

/// The kind of a request that is made by itself. What is appended is looked at where
/// batches are, and so is who has made a call.
pub(crate) fn single(random: &mut Rng) -> Kind {
    match random.u32(..16) {
        0..2 => SLEEPING[random.usize(..SLEEPING.len())],
        2..10 => Kind::Add,
        10..12 => Kind::Pread,
        12..14 => Kind::Getppid,
        _ => Kind::BadDescriptor,
    }
}

/// The kinds of a batch.
pub(crate) fn batch(random: &mut Rng) -> Vec<Kind> {
    if random.u32(..SLEEPS_ONE_IN) == 0 {
        let kind = SLEEPING[random.usize(..SLEEPING.len())];
        return vec![kind; random.usize(..MOST_SLEEPING)];
    }
    let count = match random.u32(..8) {
        0 => random.usize(..3),
        1..4 => random.usize(..40),
        _ => random.usize(..MOST),
    };
    let any = |random: &mut Rng| QUICK[random.usize(..QUICK.len())];
    // Mostly one kind: what is mixed is learnt as one more kind.
    match random.u32(..4) {
        0 => (0..count).map(|_| any(random)).collect(),
        _ => vec![any(random); count],
    }
}

/// Those of a batch's requests that a signal has interrupted.
pub(crate) fn interrupted(kinds: &[Kind], results: &[i64]) -> Vec<usize> {
    let ended = kinds.iter().zip(results).enumerate();
    let interrupted = ended.filter(|(_, (kind, result))| kind.is_interrupted(**result));
    interrupted.map(|(at, _)| at).collect()
}
