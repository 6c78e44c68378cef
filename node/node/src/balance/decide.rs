//! Who gets cpus of whom, by what each kernel's cpus did of late.

/// More than this share of the time in which a task waited for a cpu: it wants more.
const WANTS: f64 = 0.2;
/// Less than this: it may give.
const CALM: f64 = 0.05;
/// Share of a cpu that it keeps idle beside the part that it used.
const SPARE: f64 = 0.2;

/// A kernel that has cpus, the host's or an elastic node's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kernel {
    pub(super) cpus: usize,
    pub(super) min: usize,
    pub(super) max: usize,
    /// Share of the time in which a task waited for a cpu.
    pub(super) pressure: f64,
    /// Number of cpus that worked, on average.
    pub(super) busy: f64,
}

impl Kernel {
    /// Number of cpus that it wants: as many again if a task waited all the time.
    fn wants(&self) -> usize {
        if self.pressure < WANTS {
            return 0;
        }
        let more = (self.cpus as f64 * self.pressure.min(1.0)).round().max(1.0) as usize;
        more.min(self.max.saturating_sub(self.cpus))
    }

    fn may_give(&self) -> usize {
        if self.pressure > CALM {
            return 0;
        }
        let idle = (self.cpus as f64 - self.busy - SPARE).floor().max(0.0) as usize;
        idle.min(self.cpus.saturating_sub(self.min))
    }
}

/// A move of cpus from one kernel to another, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) cpus: usize,
}

/// The moves of one turn: who waits most is served first, and who idles most gives first.
pub(super) fn decide(kernels: &[Kernel]) -> Vec<Move> {
    let mut idle: Vec<(usize, usize)> =
        kernels.iter().map(Kernel::may_give).enumerate().filter(|&(_, count)| count > 0).collect();
    let mut wanting: Vec<usize> = (0..kernels.len()).filter(|&n| kernels[n].wants() > 0).collect();
    wanting.sort_by(|&a, &b| kernels[b].pressure.total_cmp(&kernels[a].pressure));
    let mut moves = Vec::new();
    for to in wanting {
        let mut wants = kernels[to].wants();
        while wants > 0 {
            let Some(most) = idle.iter_mut().max_by_key(|(_, count)| *count) else { break };
            if most.1 == 0 {
                break;
            }
            let cpus = wants.min(most.1);
            moves.push(Move { from: most.0, to, cpus });
            most.1 -= cpus;
            wants -= cpus;
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kernel(cpus: usize, pressure: f64, busy: f64) -> Kernel {
        Kernel { cpus, min: 1, max: 8, pressure, busy }
    }

    #[test]
    fn who_waits_gets_what_others_have_idle() {
        let moves = decide(&[kernel(3, 0.0, 0.1), kernel(1, 0.9, 1.0), kernel(2, 0.1, 0.0)]);
        assert_eq!(moves, [Move { from: 0, to: 1, cpus: 1 }]);
        // It doubles, and takes of the next where one has not enough.
        let moves = decide(&[kernel(2, 0.0, 0.0), kernel(3, 1.0, 3.0), kernel(3, 0.0, 0.0)]);
        let each = [Move { from: 2, to: 1, cpus: 2 }, Move { from: 0, to: 1, cpus: 1 }];
        assert_eq!(moves, each);
        // The one that waits most comes first.
        let moves = decide(&[kernel(1, 0.3, 1.0), kernel(2, 0.0, 0.0), kernel(1, 0.8, 1.0)]);
        assert_eq!(moves, [Move { from: 1, to: 2, cpus: 1 }]);
    }

    #[test]
    fn nobody_gives_what_it_uses_or_has_to_keep() {
        // Busy, though nobody waits; waiting itself; at its least; and a full one wants none.
        assert!(decide(&[kernel(2, 0.0, 1.0), kernel(1, 1.0, 1.0)]).is_empty());
        assert!(decide(&[kernel(2, 0.1, 0.0), kernel(1, 1.0, 1.0)]).is_empty());
        let least = Kernel { min: 3, ..kernel(3, 0.0, 0.0) };
        assert!(decide(&[least, kernel(1, 1.0, 1.0)]).is_empty());
        let full = Kernel { max: 1, ..kernel(1, 1.0, 1.0) };
        assert!(decide(&[kernel(4, 0.0, 0.0), full]).is_empty());
        assert!(decide(&[kernel(4, 0.0, 0.0), kernel(4, 0.1, 4.0)]).is_empty());
    }

    proptest! {
        #[test]
        fn all_stay_within_their_limits_whatever_they_say(
            said in prop::collection::vec((1..9usize, 0..8usize, 0..8usize, any::<f64>(), any::<f64>()), 0..6),
        ) {
            let kernels: Vec<_> = said.into_iter().map(|(cpus, less, more, pressure, busy)| Kernel {
                cpus, min: cpus.saturating_sub(less).max(1), max: cpus + more, pressure, busy,
            }).collect();
            let mut after: Vec<_> = kernels.iter().map(|kernel| kernel.cpus).collect();
            for one in decide(&kernels) {
                prop_assert!(one.from != one.to && one.cpus > 0);
                after[one.from] -= one.cpus;
                after[one.to] += one.cpus;
            }
            for (kernel, after) in kernels.iter().zip(after) {
                prop_assert!((kernel.min..=kernel.max).contains(&after));
            }
        }
    }
}
