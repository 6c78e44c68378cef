//! How much of a doze the processor really sleeps.

use std::time::{Duration, Instant};

use crate::doze::{Monitor, doze};
use crate::error::Error;
use crate::machine::Machine;
use crate::policy::{Doze, Sleep, Way};
use crate::ticks::tsc;

/// Ticks of the time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rested {
    /// Ticks within the instruction that rests.
    pub rested: u64,
    /// Ticks in all.
    pub total: u64,
}

/// A monitor whose rests are counted.
struct Counted<M> {
    monitor: M,
    rested: std::cell::Cell<u64>,
}

impl<M: Monitor> Monitor for Counted<M> {
    type Armed = M::Armed;

    fn arm(&self, address: *const u8) -> M::Armed {
        self.monitor.arm(address)
    }

    fn rest(&self, armed: M::Armed, ticks: u32) {
        let before = tsc();
        self.monitor.rest(armed, ticks);
        self.rested.set(self.rested.get() + tsc().wrapping_sub(before));
    }
}

/// Waits `span` for a word that nobody changes by the monitor instruction that `sleep` names,
/// or by the one that there is: what of that passed within it. A hypervisor that ends each
/// rest at once, and the kernel's limit on it, show here.
///
/// # Errors
/// The machine has none.
pub fn rested(sleep: Sleep, span: Duration) -> Result<Rested, Error> {
    match Way::choose(sleep, Machine::this())?.doze {
        Doze::Umwait(monitor) => Ok(counted(monitor, span)),
        Doze::Mwaitx(monitor) => Ok(counted(monitor, span)),
        Doze::Mwait(monitor) => Ok(counted(monitor, span)),
        #[cfg(test)]
        Doze::Pretended(monitor) => Ok(counted(monitor, span)),
        Doze::None => Err(Error::Unsupported {
            feature: "a sleep in the processor".to_owned(),
            needs: "UMWAIT (Intel, WAITPKG) or MWAITX (AMD, MONITORX), and a hypervisor that \
                    shows it; or MONITOR and the module parasc.ko"
                .to_owned(),
        }),
    }
}

fn counted(monitor: impl Monitor, span: Duration) -> Rested {
    let word = 0_u64;
    let counted = Counted { monitor, rested: std::cell::Cell::new(0) };
    let until = Some(Instant::now() + span);
    let start = tsc();
    let never: Option<()> = doze(&counted, (&raw const word).cast(), until, &mut || None);
    debug_assert!(never.is_none());
    Rested { rested: counted.rested.get(), total: tsc().wrapping_sub(start) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doze::Pretended;

    #[test]
    fn what_passes_within_a_rest_is_counted_and_nothing_else() {
        const SPAN: Duration = Duration::from_millis(20);
        let sleeps = counted(Pretended(|| std::thread::sleep(Duration::from_millis(1))), SPAN);
        assert!(sleeps.rested <= sleeps.total, "{sleeps:?}");
        assert!(sleeps.rested > sleeps.total / 2, "{sleeps:?}");
        // One that ends at once rests for no part of it to speak of.
        // Of several one in which its cpu was not taken from it within a rest.
        let mut trapped = (0..10).map(|_| counted(Pretended(|| ()), SPAN));
        assert!(trapped.any(|trapped| trapped.rested < trapped.total / 2));
    }

    #[test]
    fn a_machine_without_such_an_instruction_says_so() {
        match rested(Sleep::Auto, Duration::from_millis(1)) {
            Ok(rested) => assert!(rested.rested <= rested.total, "{rested:?}"),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("UMWAIT") && said.contains("MWAITX"), "{said}");
            }
        }
        let futex = rested(Sleep::Futex, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(futex, Error::Unsupported { .. }), "{futex}");
    }
}
