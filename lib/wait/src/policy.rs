//! How a user wants to wait: for how long to spin, how to spin, how to sleep. How the time to spin
//! adapts is `adapt.rs`, between bounds that are in `waiter.rs`.

use std::fmt;
use std::str::FromStr;

#[cfg(test)]
use crate::doze::Pretended;
use crate::doze::{Mwait, Mwaitx, Umwait};
use crate::error::Error;
use crate::machine::Machine;

/// The variable that names the way to sleep for [`Policy::from_env`].
const VARIABLE: &str = "KUMIKI_WAIT";

/// Way to wait: how to sleep, how to spin. The default adapts to the waits it sees, and suits
/// almost every program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Threshold: how long to spin before sleeping.
    pub threshold: Threshold,
    /// Way to sleep.
    pub sleep: Sleep,
    /// Way to spin.
    pub relax: Relax,
}

impl Policy {
    /// The default, but for the way to sleep that the environment variable `KUMIKI_WAIT` names
    /// (`auto`, `umwait`, `mwaitx`, `mwait`, `futex`), if it is set and not empty: for commands, whose users
    /// choose by it. Nothing else looks at the variable.
    ///
    /// # Errors
    /// [`Error::UnknownSleep`] if it names no way to sleep, [`Error::Unsupported`] if this machine
    /// lacks that way.
    pub fn from_env() -> Result<Policy, Error> {
        let variable = std::env::var_os(VARIABLE);
        // A value that is not UTF-8 is refused as an unknown name.
        Policy::named(variable.map(|text| text.to_string_lossy().into_owned()), Machine::this())
    }

    fn named(variable: Option<String>, machine: Machine) -> Result<Policy, Error> {
        let Some(text) = variable.filter(|text| !text.is_empty()) else {
            return Ok(Policy::default());
        };
        let asked = format!("{VARIABLE}={text}");
        let sleep = text.parse().map_err(|_| Error::UnknownSleep { text: asked.clone() })?;
        Way::choose(sleep, machine).map_err(|error| match error {
            Error::Unsupported { feature, needs } => {
                Error::Unsupported { feature: format!("{feature} ({asked})"), needs }
            }
            other => other,
        })?;
        Ok(Policy { sleep, ..Policy::default() })
    }
}

/// Threshold: how long to spin before sleeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threshold {
    /// A fixed number of ticks of the time stamp counter (nanoseconds where it cannot be
    /// trusted); 0 sleeps at once.
    Ticks(u64),
    /// Follows the recent waits: at least 2 µs and an eighth of [what a sleep costs
    /// here](crate::sleep_cost_ticks), at most twice that cost, or twice what sleeps have
    /// really cost if that is more.
    #[default]
    Adaptive,
    /// Never sleep.
    Infinite,
}

/// Way to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// The best way of this machine: a monitor instruction, if there is one, or the kernel
    /// module's, for the first millisecond, then futex.
    #[default]
    Auto,
    /// Intel's UMONITOR and UMWAIT (WAITPKG), without a limit: never a system call, but
    /// the kernel takes the cpu for busy.
    Umwait,
    /// AMD's MONITORX and MWAITX, otherwise the same.
    Mwaitx,
    /// MONITOR and MWAIT of any processor, in the kernel: by `/dev/kumiki-mwait` of the module
    /// `parasc`, a system call for each 50 µs; otherwise the same.
    Mwait,
    /// futex(2): other threads get the cpu.
    Futex,
}

/// Way in which a spinning thread passes the time between two polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relax {
    /// `Pause` where cores have several hardware threads, else `Tight`.
    #[default]
    Auto,
    /// PAUSE (ISB on aarch64) after each poll: leaves the core to its other hardware
    /// thread, and delays the next poll by up to 140 cycles.
    Pause,
    /// Nothing for the first few microseconds, in which a late poll would show; then
    /// `Pause`.
    Tight,
}

impl Sleep {
    const NAMES: [(Sleep, &str); 5] = [
        (Sleep::Auto, "auto"),
        (Sleep::Umwait, "umwait"),
        (Sleep::Mwaitx, "mwaitx"),
        (Sleep::Mwait, "mwait"),
        (Sleep::Futex, "futex"),
    ];
}

impl fmt::Display for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::NAMES.iter().find(|(sleep, _)| sleep == self).expect("all are named");
        f.pad(name)
    }
}

impl FromStr for Sleep {
    type Err = Error;

    /// # Errors
    /// [`Error::UnknownSleep`], which lists the names.
    fn from_str(text: &str) -> Result<Self, Error> {
        let named = Self::NAMES.iter().find(|(_, name)| *name == text);
        let named = named.ok_or_else(|| Error::UnknownSleep { text: text.to_owned() });
        named.map(|(sleep, _)| *sleep)
    }
}

/// The processor's part of a sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doze {
    None,
    Umwait(Umwait),
    Mwaitx(Mwaitx),
    Mwait(Mwait),
    /// A test double: a machine that runs the tests may have neither.
    #[cfg(test)]
    Pretended(Pretended),
}

/// A way to sleep that this machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) sleep: Sleep,
    pub(crate) doze: Doze,
    /// True if the doze gives way to futex after a while.
    pub(crate) futex: bool,
}

impl Way {
    /// # Errors
    /// [`Error::Unsupported`] if `machine` lacks what was chosen.
    pub(crate) fn choose(sleep: Sleep, machine: Machine) -> Result<Self, Error> {
        let lacks = |feature: &str, needs: &str| Error::Unsupported {
            feature: feature.to_owned(),
            needs: format!("it takes {needs}; otherwise sleep by auto or futex"),
        };
        let of = |doze, sleep| Some(Way { sleep, doze: doze?, futex: false });
        let umwait = of(Umwait::of(machine).map(Doze::Umwait), Sleep::Umwait);
        let mwaitx = of(Mwaitx::of(machine).map(Doze::Mwaitx), Sleep::Mwaitx);
        let mwait = of(Mwait::of(machine).map(Doze::Mwait), Sleep::Mwait);
        let futex = Way { sleep: Sleep::Futex, doze: Doze::None, futex: true };
        match sleep {
            Sleep::Auto => {
                let best = umwait.or(mwaitx).or(mwait);
                Ok(best.map_or(futex, |way| Way { futex: true, ..way }))
            }
            Sleep::Futex => Ok(futex),
            Sleep::Umwait => umwait.ok_or_else(|| {
                lacks("UMWAIT", "an Intel processor with WAITPKG (from Tremont, Alder Lake, \
                                 Sapphire Rapids on), and a hypervisor that shows it")
            }),
            Sleep::Mwaitx => mwaitx.ok_or_else(|| {
                lacks("MWAITX", "an AMD processor with MONITORX (from Excavator, Zen on), and a \
                                 hypervisor that shows it")
            }),
            Sleep::Mwait => mwait.ok_or_else(|| {
                lacks("MWAIT", "a processor and a hypervisor that show MONITOR, the kernel module \
                                parasc (`modprobe parasc`), and the right to open /dev/kumiki-mwait")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Machine =
        Machine { waitpkg: false, monitorx: false, mwait: false, tsc: true, smt: false };
    const INTEL: Machine = Machine { waitpkg: true, ..PLAIN };
    const AMD: Machine = Machine { monitorx: true, ..PLAIN };
    #[cfg(target_arch = "x86_64")]
    const MODULE: Machine = Machine { mwait: true, ..PLAIN };

    fn way(sleep: Sleep, machine: Machine) -> Result<(Sleep, bool), Error> {
        Way::choose(sleep, machine).map(|way| {
            let agrees = match way.doze {
                Doze::None => way.sleep == Sleep::Futex,
                Doze::Umwait(_) => way.sleep == Sleep::Umwait,
                Doze::Mwaitx(_) => way.sleep == Sleep::Mwaitx,
                Doze::Mwait(_) => way.sleep == Sleep::Mwait,
                Doze::Pretended(_) => false,
            };
            assert!(agrees, "{way:?}");
            (way.sleep, way.futex)
        })
    }

    fn named(variable: &str, machine: Machine) -> Result<Sleep, Error> {
        Policy::named(Some(variable.to_owned()), machine).map(|policy| policy.sleep)
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn auto_takes_what_the_machine_has() {
        assert_eq!(way(Sleep::Auto, PLAIN), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Auto, INTEL), Ok((Sleep::Umwait, true)));
        assert_eq!(way(Sleep::Auto, AMD), Ok((Sleep::Mwaitx, true)));
        assert_eq!(way(Sleep::Auto, MODULE), Ok((Sleep::Mwait, true)));
        // Without a system call is better.
        assert_eq!(way(Sleep::Auto, Machine { mwait: true, ..AMD }), Ok((Sleep::Mwaitx, true)));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_chosen_is_taken_and_nothing_beside_it() {
        assert_eq!(way(Sleep::Futex, INTEL), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Umwait, INTEL), Ok((Sleep::Umwait, false)));
        assert_eq!(way(Sleep::Mwaitx, AMD), Ok((Sleep::Mwaitx, false)));
        assert_eq!(way(Sleep::Mwait, MODULE), Ok((Sleep::Mwait, false)));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_variable_names_a_way_that_the_machine_has() {
        assert_eq!(named("futex", INTEL), Ok(Sleep::Futex));
        assert_eq!(named("umwait", INTEL), Ok(Sleep::Umwait));
        assert_eq!(named("auto", AMD), Ok(Sleep::Auto));
        assert_eq!(named("", INTEL), Ok(Sleep::Auto));
        assert_eq!(Policy::named(None, INTEL), Ok(Policy::default()));
    }

    #[test]
    fn what_is_missing_is_said_with_who_asked() {
        for (sleep, machine) in [(Sleep::Umwait, AMD), (Sleep::Mwaitx, INTEL), (Sleep::Mwait, AMD)]
        {
            let error = way(sleep, machine).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let asked = named(&sleep.to_string(), machine).unwrap_err();
            assert!(asked.to_string().contains(&format!("(KUMIKI_WAIT={sleep})")), "{asked}");
        }
        let error = named("nap", PLAIN).unwrap_err().to_string();
        assert!(error.contains("KUMIKI_WAIT=nap") && error.contains("mwaitx"), "{error}");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (sleep, name) in Sleep::NAMES {
            assert_eq!(sleep.to_string(), name);
            assert_eq!(name.parse(), Ok(sleep));
        }
        assert!("Futex".parse::<Sleep>().is_err());
    }
}
