//! Waiting for what another thread is at, which may have died with it: the one loop of all
//! who do, whatever they wait on.
//!
//! ```text
//!   wait a step ──ended──▶ its end
//!     ▲   │ late: a dead thread does not say so
//!     │   ▼
//!     │  repair ──▶ mend ──made by who waits──▶ its end
//!     └──────────────┘
//! ```

/// End of a step of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStep<T> {
    /// Ended: the result is there.
    Ended(T),
    /// Something else has changed: the next step may be another one.
    Changed,
    /// The time is over.
    Late,
}

/// Waits by `once`, a step at a time. After each that was too long, `repair` answers what dead
/// threads were at, and `mend` does what is left to the waiting thread; it may end the wait.
pub(crate) fn wait<T>(
    mut once: impl FnMut() -> WaitStep<T>,
    repair: impl Fn(),
    mut mend: impl FnMut() -> Option<T>,
) -> T {
    loop {
        match once() {
            WaitStep::Ended(end) => return end,
            WaitStep::Changed => continue,
            WaitStep::Late => repair(),
        }
        if let Some(end) = mend() {
            return end;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Steps that end so, and what was done.
    fn log(steps: &[WaitStep<u32>], mended_at: usize) -> (u32, Vec<&'static str>) {
        let log = RefCell::new(Vec::new());
        let (mut steps, mut mends) = (steps.iter(), 0);
        let end = wait(
            || {
                log.borrow_mut().push("once");
                *steps.next().unwrap()
            },
            || log.borrow_mut().push("repair"),
            || {
                log.borrow_mut().push("mend");
                mends += 1;
                (mends == mended_at).then_some(9)
            },
        );
        (end, log.into_inner())
    }

    #[test]
    fn only_who_waits_too_long_repairs_and_only_then_makes_it_itself() {
        use WaitStep::{Changed, Ended, Late};
        assert_eq!(log(&[Ended(1)], 1), (1, vec!["once"]));
        assert_eq!(log(&[Changed, Ended(2)], 1), (2, vec!["once", "once"]));
        let late = ["once", "repair", "mend"];
        assert_eq!(log(&[Late, Late], 2), (9, [late, late].concat()));
        assert_eq!(log(&[Late, Ended(3)], 2), (3, [&late[..], &["once"]].concat()));
    }
}
