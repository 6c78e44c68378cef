//! Where a difference between two commands stands, in words.

use kumiki_measure::format::{bytes, count, time};

use crate::{Cause, Counted, Measure, Outcome, Verdict};

/// Sentence on what moved beyond doubt; nothing where the commands are not apart.
pub(crate) fn sentence(outcome: &Outcome) -> Option<String> {
    let apart = |verdict| matches!(verdict, Verdict::Slower | Verdict::Faster);
    let answered = apart(outcome.verdict) || outcome.findings.iter().any(|f| apart(f.verdict));
    if !answered || outcome.causes.is_empty() {
        return None;
    }
    let moved: Vec<&Cause> = outcome.causes.iter().filter(|cause| cause.moved()).collect();
    if moved.is_empty() {
        return Some("No count of a run moved beyond doubt.".to_owned());
    }
    let said = moved.iter().map(|cause| more(cause)).collect::<Vec<_>>().join(", ");
    Some(match side(&outcome.causes) {
        Some((place, least)) => format!(
            "At least {:.0} % of the processor time's difference is {place}; a run of B has {said}.",
            (100.0 * least).floor()
        ),
        None => format!("Beyond doubt a run of B has {said}."),
    })
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// Two digits at most after the point, none that says nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The least share of the processor time's difference that makes a place worth naming.
const MOST: f64 = 2.0 / 3.0;

/// Place of the processor time's difference, if it is on one side, and the share of it that is
/// there beyond doubt: that one moved, and the other one by much less if at all.
fn side(causes: &[Cause]) -> Option<(&'static str, f64)> {
    let of = |counted| causes.iter().find(|cause| cause.of == counted);
    let (user, kernel) = (of(Counted::User)?, of(Counted::Kernel)?);
    let share = |still: &Cause, moved: &Cause| {
        // The one by no less than this, the other by no more.
        let least = moved.interval[0].abs().min(moved.interval[1].abs());
        let most = still.interval[0].abs().max(still.interval[1].abs());
        let share = least / (least + most);
        (!still.moved() && moved.moved() && share >= MOST).then_some(share)
    };
    let kernel_has = share(user, kernel).map(|share| ("in the kernel", share));
    kernel_has.or_else(|| share(kernel, user).map(|share| ("in user mode", share)))
}

/// "40 more page faults".
fn more(cause: &Cause) -> String {
    let word = if cause.more > 0.0 { "more" } else { "less" };
    let fewer = if cause.more > 0.0 { "more" } else { "fewer" };
    let size = cause.more.abs();
    // A run has whole ones; the middle of many may lie between two.
    let said = if size < 9.95 { format!("{size:.1}") } else { count(size.round() as u64) };
    let said = said.trim_end_matches(".0");
    let counted = |name: &str| format!("{said} {fewer} {name}");
    match cause.of {
        Counted::User => format!("{} {word} in user mode", time(size)),
        Counted::Kernel => format!("{} {word} in the kernel", time(size)),
        Counted::Memory => format!("{} {word} memory", bytes(size.round() as u64)),
        Counted::MinorFaults => counted("page faults"),
        Counted::MajorFaults => counted("page faults with a disk"),
        Counted::Yields => counted("switches of its own will"),
        Counted::Preemptions => counted("switches that others forced"),
        Counted::BlocksRead => counted("blocks read"),
        Counted::BlocksWritten => counted("blocks written"),
        Counted::Instructions => counted("instructions"),
        Counted::Cycles => counted("cycles"),
        Counted::CacheMisses => counted("cache misses"),
        Counted::BranchMisses => counted("branches guessed wrongly"),
    }
}

/// Sentence on what B leaves to the run after it.
pub(crate) fn leaves(outcome: &Outcome) -> Option<String> {
    let leaves = outcome.leaves?;
    let [low, high] = leaves.interval;
    if !leaves.differs {
        let least = (high - 1.0).max(1.0 - low);
        return Some(format!(
            "Whether B leaves less to the run after it than A does (files, caches, a clock) could \
             be told from {} on, and is not seen.",
            percent((least * 1e3).ceil() / 1e3)
        ));
    }
    let of = if leaves.by == Measure::Cpu { "costs" } else { "takes" };
    let figure = format!("{:.3} × [{low:.3}, {high:.3}]", leaves.ratio);
    // In pairs B comes after A and A half of the time after B; alone, each comes after itself.
    let itself = |ratio: f64| ratio * leaves.ratio.powf(1.5);
    let own = outcome.finding(leaves.by).map_or(String::new(), |finding| {
        format!("; by itself, after itself, B is about {:.2} × A", itself(finding.ratio))
    });
    let who = if leaves.ratio > 1.0 { ["B", "A"] } else { ["A", "B"] };
    Some(format!(
        "After B a run {of} {figure} of what it does after A: {} spoils for the next run what {} \
         does not (files, caches, a clock){own}.",
        who[0], who[1]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(of: Counted, more: f64, half: f64) -> Cause {
        Cause { of, a: 100.0, more, interval: [more - half, more + half] }
    }

    #[test]
    fn one_side_has_it_all_only_if_the_other_one_stands_still() {
        let all = |user: [f64; 2], kernel: [f64; 2]| {
            side(&[
                cause(Counted::User, user[0], user[1]),
                cause(Counted::Kernel, kernel[0], kernel[1]),
            ])
        };
        // 0.9 ms of it at least there, 0.1 ms at most elsewhere: not all of it is sure.
        assert_eq!(all([0.0, 1e5], [1e6, 1e5]), Some(("in the kernel", 0.9)));
        assert_eq!(all([-1e6, 1e5], [0.0, 1e5]), Some(("in user mode", 0.9)));
        assert_eq!(all([0.0, 8e5], [1e6, 1e5]), None, "it may have moved by as much");
        assert_eq!(all([0.0, 4e5], [1e6, 3e5]), None, "0.4 and 0.7 ms may be it");
        assert_eq!(all([1e6, 1e5], [1e6, 1e5]), None);
        assert_eq!(all([0.0, 1.0], [0.0, 1.0]), None);
        assert_eq!(side(&[]), None);
    }

    #[test]
    fn counts_are_told_in_their_units() {
        assert_eq!(more(&cause(Counted::MinorFaults, 40.0, 1.0)), "40 more page faults");
        assert_eq!(more(&cause(Counted::Kernel, -1.2e6, 1.0)), "1.20\u{202f}ms less in the kernel");
        assert_eq!(more(&cause(Counted::Yields, -3.0, 1.0)), "3 fewer switches of its own will");
        assert_eq!(more(&cause(Counted::Memory, 2_097_152.0, 1.0)), "2\u{202f}MiB more memory");
    }
}
