//! Who gets memory of whom, by what each kernel's tasks waited for of late and have left.

/// More than this share of the time in which a task waited for memory: it wants more.
const WANTS: f64 = 0.1;
/// Less than this: it may give.
const CALM: f64 = 0.01;
/// A part of its memory, one of so many, that is less than it wants left: where nothing can be
/// written out or read again nobody waits before programs are ended.
const LEFT: u64 = 8;
/// A part of its memory that it keeps left when it gives.
const SPARE: u64 = 4;
/// A part of its memory that it gets at a time.
const STEP: u64 = 4;

/// Memory of a kernel, the host's or a node's that has limits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory {
    pub(super) bytes: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    /// Bytes of which it gets and gives multiples; 0: none.
    pub(super) unit: u64,
    /// Bytes that programs can have.
    pub(super) available: u64,
    /// Share of the time in which a task waited for memory.
    pub(super) stalled: f64,
}

fn whole(bytes: u64, unit: u64) -> u64 {
    bytes.checked_div(unit).unwrap_or(0) * unit
}

impl Memory {
    fn wants(&self) -> u64 {
        if self.stalled < WANTS && self.available >= self.bytes / LEFT {
            return 0;
        }
        let step = whole(self.bytes / STEP, self.unit).max(self.unit);
        step.min(whole(self.max.saturating_sub(self.bytes), self.unit))
    }

    fn may_give(&self) -> u64 {
        if self.stalled > CALM {
            return 0;
        }
        let spare = self.available.saturating_sub(self.bytes / SPARE);
        whole(spare.min(self.bytes.saturating_sub(self.min)), self.unit)
    }
}

/// Memory that goes from one kernel to another, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

/// The moves of one turn: who waits most is served first, of who has most to spare. What one gives
/// the other must be able to take: steps of either may be larger than the other's.
pub(super) fn decide(kernels: &[Memory]) -> Vec<Transfer> {
    let mut spare: Vec<u64> = kernels.iter().map(Memory::may_give).collect();
    let mut wanting: Vec<usize> = (0..kernels.len()).filter(|&n| kernels[n].wants() > 0).collect();
    wanting.sort_by(|&a, &b| {
        let of = |n: usize| &kernels[n];
        of(b).stalled.total_cmp(&of(a).stalled).then(of(a).available.cmp(&of(b).available))
    });
    let mut moves = Vec::new();
    for to in wanting {
        let Some((from, &most)) = spare.iter().enumerate().max_by_key(|&(_, bytes)| bytes) else {
            break;
        };
        let unit = kernels[from].unit.max(kernels[to].unit);
        let bytes = whole(kernels[to].wants().max(unit).min(most), unit);
        let room = kernels[to].max.saturating_sub(kernels[to].bytes);
        if from != to && (1..=room).contains(&bytes) {
            moves.push(Transfer { from, to, bytes });
            spare[from] -= bytes;
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: u64 = 128;

    fn memory(bytes: u64, available: u64, stalled: f64) -> Memory {
        Memory { bytes, min: 256, max: 1024, unit: UNIT, available, stalled }
    }

    #[test]
    fn who_waits_or_has_little_left_gets_of_who_has_most() {
        let moves = decide(&[memory(512, 400, 0.0), memory(512, 200, 0.5), memory(1024, 900, 0.0)]);
        assert_eq!(moves, [Transfer { from: 2, to: 1, bytes: 128 }]);
        // Nobody waits, and an eighth is not left.
        let moves = decide(&[memory(1024, 900, 0.0), memory(768, 90, 0.0)]);
        assert_eq!(moves, [Transfer { from: 0, to: 1, bytes: 128 }]);
        // It gets a quarter of what it has at a time, and no more than its limit.
        let large = Memory { max: 4096, ..memory(2048, 0, 0.0) };
        let host = Memory { min: 0, max: u64::MAX, unit: 2, ..memory(8192, 8000, 0.0) };
        assert_eq!(decide(&[host.clone(), large.clone()])[0].bytes, 512);
        assert_eq!(decide(&[host.clone(), Memory { max: 2304, ..large }])[0].bytes, 256);
        // A host that has nothing left of its own gets a whole step of a node's.
        let host = Memory { bytes: 0, available: 0, stalled: 0.5, ..host };
        let moves = decide(&[host, memory(1024, 900, 0.0)]);
        assert_eq!(moves, [Transfer { from: 1, to: 0, bytes: UNIT }]);
    }

    #[test]
    fn nobody_gives_what_it_uses_or_has_to_keep() {
        let wants = memory(256, 0, 1.0);
        // At its least; with too little left; waiting itself; and nobody wants of itself.
        assert!(decide(&[memory(256, 256, 0.0), wants.clone()]).is_empty());
        assert!(decide(&[memory(1024, 380, 0.0), wants.clone()]).is_empty());
        assert!(decide(&[memory(1024, 900, 0.05), wants.clone()]).is_empty());
        assert!(decide(&[wants]).is_empty());
        assert!(decide(&[memory(1024, 900, 0.0), memory(512, 300, 0.05)]).is_empty());
        // A kernel that can have none, and one of larger steps than the other has to spare.
        let none = Memory { unit: 0, ..memory(256, 0, 1.0) };
        assert!(decide(&[memory(1024, 900, 0.0), none]).is_empty());
        let large = Memory { unit: 1024, max: 4096, ..memory(2048, 0, 1.0) };
        assert!(decide(&[memory(1024, 900, 0.0), large]).is_empty());
    }

    proptest! {
        #[test]
        fn all_stay_within_their_limits_whatever_they_say(
            said in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), 0..4u32, any::<u64>(), any::<f64>()), 0..6),
        ) {
            let kernels: Vec<_> = said.into_iter().map(|(bytes, less, more, unit, available, stalled)| Memory {
                bytes, min: bytes.saturating_sub(less), max: bytes.saturating_add(more),
                unit: if unit == 0 { 0 } else { 1 << (26 + unit) }, available, stalled,
            }).collect();
            let mut after: Vec<_> = kernels.iter().map(|kernel| kernel.bytes).collect();
            for one in decide(&kernels) {
                prop_assert!(one.from != one.to && one.bytes > 0);
                after[one.from] -= one.bytes;
                after[one.to] += one.bytes;
            }
            for (kernel, after) in kernels.iter().zip(after) {
                prop_assert!((kernel.min..=kernel.max).contains(&after));
            }
        }
    }
}
