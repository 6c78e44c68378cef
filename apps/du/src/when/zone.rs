//! Time zones as the environment's `TZ` names them to the C library.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Seconds after which the calendar comes again, weekdays too: 400 years.
const CYCLE_SECONDS: i64 = 146_097 * 24 * 60 * 60;

/// Changes that were made by decision, not by a rule, are over by then: 2400.
const RULED_SECONDS: i64 = 13_569_465_600;

/// Local time of a place's clocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// East of Greenwich.
    pub(crate) offset_seconds: i32,
    pub(crate) abbreviation: String,
}

/// A place's clocks over time.
#[derive(Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    /// Name in place of `UTC`, in a zone that has no rules.
    called: Option<String>,
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Zone { zone: TimeZone::UTC, called: None }
    }

    /// The one of `TZ`.
    pub(crate) fn of_environment() -> Self {
        let Some(variable) = std::env::var_os("TZ") else {
            return from_file(Path::new("/etc/localtime")).unwrap_or_else(Zone::utc);
        };
        // A name of any other bytes is no zone's.
        let variable = variable.to_string_lossy();
        let name = variable.strip_prefix(':').unwrap_or(&variable);
        // So the C library calls it, and takes it for a name where there is no such file.
        let name = if name.is_empty() { "Universal" } else { name };
        let folder = std::env::var_os("TZDIR").filter(|folder| !folder.is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("/usr/share/zoneinfo"), PathBuf::from);
        from_file(&folder.join(name)).or_else(|| from_rules(name)).unwrap_or_else(|| {
            // As the C library: what could be a zone's abbreviation is printed as that.
            let letters = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
            let called = (letters >= 3).then(|| name[..letters].to_owned());
            Zone { called, ..Zone::utc() }
        })
    }

    /// Local time at a second since 1970.
    pub(crate) fn at(&self, seconds: i64) -> Local {
        let within = |seconds| Timestamp::from_second(seconds).ok();
        let found = within(seconds).unwrap_or_else(|| match seconds {
            ..0 => Timestamp::MIN,
            _ => {
                let same = RULED_SECONDS + (seconds - RULED_SECONDS) % CYCLE_SECONDS;
                within(same).unwrap_or(Timestamp::MAX)
            }
        });
        let info = self.zone.to_offset_info(found);
        let abbreviation = self.called.clone().unwrap_or_else(|| info.abbreviation().to_owned());
        Local { offset_seconds: info.offset().seconds(), abbreviation }
    }
}

fn from_file(path: &Path) -> Option<Zone> {
    let bytes = std::fs::read(path).ok()?;
    let zone = TimeZone::tzif("", &bytes).ok()?;
    Some(Zone { zone, called: None })
}

/// A zone that `TZ` itself describes, as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn from_rules(text: &str) -> Option<Zone> {
    // Where only the names of both times are given, they change as in New York.
    let with_default = format!("{text},M3.2.0,M11.1.0");
    let zone = TimeZone::posix(text).or_else(|_| TimeZone::posix(&with_default)).ok()?;
    Some(Zone { zone, called: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(zone: &Zone, seconds: i64) -> (i32, String) {
        let Local { offset_seconds, abbreviation } = zone.at(seconds);
        (offset_seconds, abbreviation)
    }

    #[test]
    fn rules() {
        let zone = from_rules("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(at(&zone, 0), (3600, "CET".to_owned()));
        assert_eq!(at(&zone, 1_720_000_000), (7200, "CEST".to_owned()));
        // The same day, 400 and 40,000 years later.
        assert_eq!(at(&zone, 1_720_000_000 + CYCLE_SECONDS), (7200, "CEST".to_owned()));
        assert_eq!(at(&zone, 1_720_000_000 + 100 * CYCLE_SECONDS), (7200, "CEST".to_owned()));
        assert_eq!(at(&zone, i64::MIN), (3600, "CET".to_owned()));
        assert_eq!(at(&from_rules("EST5EDT").unwrap(), 1_720_000_000), (-14400, "EDT".to_owned()));
        assert!(from_rules("nonsense").is_none());
    }
}
