//! Signals that a thread sends to itself. They are delivered before the call
//! that sent them returns.

use nix::sys::signal::SigSet;
use nix::sys::signalfd::SignalFd;

use super::SIGNAL;
use super::disposition::{Disposition, caught};
use super::target::SignalTarget;
use crate::mask::Mask;
use kumiki_measure::case::{Case, Each, Level, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("signal.catch", "signal the own thread and run its handler", |_| {
            let me = SignalTarget::me();
            Caught::new(move || me.signal())
        }),
        Case::new(
            "signal.queue",
            "signal the own thread with a value (sigqueue) and run its handler",
            |_| {
                let me = SignalTarget::me();
                Caught::new(move || me.queue())
            },
        )
        .level(Level::Default),
        Case::new("signal.ignore", "signal the own thread, which ignores it", |_| {
            let me = SignalTarget::me();
            let ignored = Disposition::ignore()?;
            // While blocked, even an ignored signal is kept.
            let through = (Mask::unblock(&SigSet::from(SIGNAL))?, ignored);
            Ok(Each(move || {
                let _put_back_on_drop = &through;
                me.signal()
            }))
        }),
        Case::new("signal.signalfd", "signal the own thread and read it from a signalfd", |_| {
            Readable::new()
        })
        .level(Level::Default),
    ]
}

/// Sends signals and checks that the handler ran for each.
struct Caught<F> {
    send: F,
    _unblocked: Mask,
    _handler: Disposition,
}

impl<F: FnMut() -> Result<()>> Caught<F> {
    fn new(send: F) -> Result<Self> {
        // In this order: what is pending when it is let through finds the handler.
        let handler = Disposition::count()?;
        let unblocked = Mask::unblock(&SigSet::from(SIGNAL))?;
        Ok(Caught { send, _unblocked: unblocked, _handler: handler })
    }
}

impl<F: FnMut() -> Result<()>> Workload for Caught<F> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let before = caught();
        let sample = meter.time(|| (0..iterations).try_for_each(|_| (self.send)()))?;
        let ran = caught() - before;
        if ran < iterations {
            return Err(Error::Program {
                program: format!("handler of {SIGNAL}"),
                what: format!("ran {ran} times for {iterations} signals"),
            });
        }
        Ok(sample)
    }
}

/// Sends blocked signals and reads each. Fields go in this order, so that a
/// signal which a failure left pending finds a handler and does not kill.
struct Readable {
    descriptor: SignalFd,
    me: SignalTarget,
    _blocked: Mask,
    _handler: Disposition,
}

impl Readable {
    fn new() -> Result<Self> {
        let handler = Disposition::count()?;
        let signals = SigSet::from(SIGNAL);
        let blocked = Mask::block(&signals)?;
        let descriptor = SignalFd::new(&signals).map_err(|e| Error::os("signalfd", e))?;
        Ok(Readable { descriptor, me: SignalTarget::me(), _blocked: blocked, _handler: handler })
    }
}

impl Workload for Readable {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| {
            for _ in 0..iterations {
                self.me.signal()?;
                let read = self.descriptor.read_signal();
                read.map_err(|e| Error::os("read a signalfd", e))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kumiki_sys::clock::Clock;

    use super::*;
    use crate::signal::tests::alone;

    #[test]
    fn every_signal_runs_the_handler() {
        let _alone = alone();
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(1)));
        let me = SignalTarget::me();
        for send in [SignalTarget::signal, SignalTarget::queue] {
            let before = caught();
            Caught::new(|| send(me)).unwrap().sample(10, &meter).unwrap();
            assert_eq!(caught() - before, 10);
        }
    }

    #[test]
    fn a_signal_that_runs_no_handler_is_an_error() {
        let _alone = alone();
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(1)));
        let outcome = Caught::new(|| Ok(())).unwrap().sample(10, &meter);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("ran 0 times for 10 signals"), "{error}");
    }

    #[test]
    fn a_blocked_signal_waits_in_the_descriptor() {
        let _alone = alone();
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(1)));
        let mut readable = Readable::new().unwrap();
        let before = caught();
        readable.sample(10, &meter).unwrap();
        assert_eq!(caught(), before);
    }
}
