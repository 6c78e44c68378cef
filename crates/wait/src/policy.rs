//! How to wait: for how long to spin, how to spin, how to sleep.

use std::fmt;
use std::str::FromStr;

#[cfg(test)]
use crate::doze::Pretended;
use crate::doze::{Mwaitx, Umwait};
use crate::error::Error;
use crate::machine::Machine;

/// The variable that sets the way to sleep for [`Sleep::Auto`].
const VARIABLE: &str = "KUMIKI_WAIT";

/// How to wait. The default adapts to the waits it sees, and suits almost every program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// For how long to spin before sleeping.
    pub threshold: Threshold,
    /// How to sleep.
    pub sleep: Sleep,
    /// How to spin.
    pub relax: Relax,
}

/// For how long to spin before sleeping.
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

/// How to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// As the environment variable `KUMIKI_WAIT` says (`umwait`, `mwaitx`, `futex`), just
    /// as if the program had chosen it. Without the variable, the best way of this
    /// machine: a monitor instruction, if there is one, for the first millisecond, then
    /// futex.
    #[default]
    Auto,
    /// Intel's UMONITOR and UMWAIT (WAITPKG), without a limit: never a system call, but
    /// the kernel takes the cpu for busy.
    Umwait,
    /// AMD's MONITORX and MWAITX, otherwise the same.
    Mwaitx,
    /// futex(2): other threads get the cpu.
    Futex,
}

/// What a spinning thread does between two polls.
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
    const NAMES: [(Sleep, &str); 4] = [
        (Sleep::Auto, "auto"),
        (Sleep::Umwait, "umwait"),
        (Sleep::Mwaitx, "mwaitx"),
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
    /// A test double: a machine that runs the tests may have neither.
    #[cfg(test)]
    Pretended(Pretended),
}

/// A way to sleep that this machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) sleep: Sleep,
    pub(crate) doze: Doze,
    /// Whether the doze gives way to futex after a while.
    pub(crate) futex: bool,
}

impl Way {
    /// # Errors
    /// [`Error::Unsupported`] if `machine` lacks what was chosen.
    pub(crate) fn choose(sleep: Sleep, machine: Machine) -> Result<Self, Error> {
        let variable = std::env::var_os(VARIABLE);
        // A value that is not UTF-8 is refused as an unknown name.
        let variable = variable.as_ref().map(|text| text.to_string_lossy());
        Self::resolve(sleep, variable.as_deref(), machine)
    }

    fn resolve(sleep: Sleep, variable: Option<&str>, machine: Machine) -> Result<Self, Error> {
        let variable = variable.filter(|text| sleep == Sleep::Auto && !text.is_empty());
        let chosen = match variable {
            None => sleep,
            Some(text) => text
                .parse()
                .map_err(|_| Error::UnknownSleep { text: format!("{VARIABLE}={text}") })?,
        };
        let lacks = |instructions: &str, needs: &str| Error::Unsupported {
            feature: match variable {
                None => instructions.to_owned(),
                Some(text) => format!("{instructions} ({VARIABLE}={text})"),
            },
            needs: format!(
                "it takes {needs}, and a hypervisor that shows it; otherwise sleep by auto or futex"
            ),
        };
        let (umwait, mwaitx) = (umwait(machine), mwaitx(machine));
        match (chosen, umwait, mwaitx) {
            (Sleep::Auto, Some(way), _) | (Sleep::Auto, None, Some(way)) => {
                Ok(Way { futex: true, ..way })
            }
            (Sleep::Auto | Sleep::Futex, ..) => {
                Ok(Way { sleep: Sleep::Futex, doze: Doze::None, futex: true })
            }
            (Sleep::Umwait, way, _) => way.ok_or_else(|| {
                lacks("UMWAIT", "an Intel processor with WAITPKG (from Tremont, Alder Lake, Sapphire Rapids on)")
            }),
            (Sleep::Mwaitx, _, way) => way.ok_or_else(|| {
                lacks("MWAITX", "an AMD processor with MONITORX (from Excavator, Zen on)")
            }),
        }
    }
}

fn umwait(machine: Machine) -> Option<Way> {
    let monitor = Umwait::of(machine)?;
    Some(Way { sleep: Sleep::Umwait, doze: Doze::Umwait(monitor), futex: false })
}

fn mwaitx(machine: Machine) -> Option<Way> {
    let monitor = Mwaitx::of(machine)?;
    Some(Way { sleep: Sleep::Mwaitx, doze: Doze::Mwaitx(monitor), futex: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Machine = Machine { waitpkg: false, monitorx: false, tsc: true, smt: false };
    const INTEL: Machine = Machine { waitpkg: true, ..PLAIN };
    const AMD: Machine = Machine { monitorx: true, ..PLAIN };

    fn way(sleep: Sleep, variable: Option<&str>, machine: Machine) -> Result<(Sleep, bool), Error> {
        Way::resolve(sleep, variable, machine).map(|way| {
            let agrees = match way.doze {
                Doze::None => way.sleep == Sleep::Futex,
                Doze::Umwait(_) => way.sleep == Sleep::Umwait,
                Doze::Mwaitx(_) => way.sleep == Sleep::Mwaitx,
                Doze::Pretended(_) => false,
            };
            assert!(agrees, "{way:?}");
            (way.sleep, way.futex)
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn auto_takes_what_the_machine_has() {
        assert_eq!(way(Sleep::Auto, None, PLAIN), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Auto, None, INTEL), Ok((Sleep::Umwait, true)));
        assert_eq!(way(Sleep::Auto, None, AMD), Ok((Sleep::Mwaitx, true)));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_chosen_is_taken_and_nothing_beside_it() {
        assert_eq!(way(Sleep::Futex, None, INTEL), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Umwait, None, INTEL), Ok((Sleep::Umwait, false)));
        assert_eq!(way(Sleep::Mwaitx, None, AMD), Ok((Sleep::Mwaitx, false)));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_variable_counts_where_the_program_leaves_it_open() {
        assert_eq!(way(Sleep::Auto, Some("futex"), INTEL), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Auto, Some("umwait"), INTEL), Ok((Sleep::Umwait, false)));
        assert_eq!(way(Sleep::Auto, Some("auto"), INTEL), Ok((Sleep::Umwait, true)));
        assert_eq!(way(Sleep::Auto, Some(""), INTEL), Ok((Sleep::Umwait, true)));
        assert_eq!(way(Sleep::Futex, Some("umwait"), INTEL), Ok((Sleep::Futex, true)));
        assert_eq!(way(Sleep::Futex, Some("nonsense"), PLAIN), Ok((Sleep::Futex, true)));
    }

    #[test]
    fn what_is_missing_is_said_with_who_asked() {
        for (sleep, machine) in [(Sleep::Umwait, AMD), (Sleep::Mwaitx, INTEL)] {
            let error = way(sleep, None, machine).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let asked = way(Sleep::Auto, Some(&sleep.to_string()), machine).unwrap_err();
            assert!(asked.to_string().contains(&format!("(KUMIKI_WAIT={sleep})")), "{asked}");
        }
        let error = way(Sleep::Auto, Some("nap"), PLAIN).unwrap_err().to_string();
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
