//! Words that several commands have: numbers, times, options.

use super::row::Refused;
use crate::resp::{Words, number};

pub(crate) const SYNTAX: Refused = "ERR syntax error";
pub(crate) const NUMBER: Refused = "ERR value is not an integer or out of range";
pub(super) const FULL: Refused = "OOM command not allowed when used memory > 'maxmemory'.";

/// A number.
pub(super) fn integer(word: &[u8]) -> Result<i64, Refused> {
    number(word).ok_or(NUMBER)
}

/// A number of 32 bits.
pub(super) fn small_integer(word: &[u8]) -> Result<i64, Refused> {
    let number = integer(word)?;
    match i32::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err("ERR value is out of range, value must between -2147483648 and 2147483647"),
    }
}

/// Time at which a key expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time {
    /// Never.
    #[default]
    Never,
    /// The time that the key has now.
    Kept,
    /// A word's number in this unit, from this moment on or from 1970 on.
    Word { at: usize, unit: i64, is_from_now: bool },
}

/// Options of `SET` and `GETEX`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    pub(super) gets: bool,
    pub(super) persists: bool,
    pub(super) time: Time,
}

/// Reads options from a word on; those of `GETEX`, or else those of `SET`.
pub(super) fn options(words: Words<'_>, first: usize, is_get: bool) -> Result<Options, Refused> {
    let mut its = Options::default();
    let mut at = first;
    while at < words.len() {
        let word = words.get(at);
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        // The time may be said twice, but in one way.
        let unit = match word {
            _ if is(b"EX") => Some((1000, true)),
            _ if is(b"PX") => Some((1, true)),
            _ if is(b"EXAT") => Some((1000, false)),
            _ if is(b"PXAT") => Some((1, false)),
            _ => None,
        };
        match unit {
            Some((unit, is_from_now)) => {
                let is_same = match its.time {
                    Time::Never => true,
                    Time::Kept => false,
                    Time::Word { unit: old, is_from_now: from, .. } => {
                        (old, from) == (unit, is_from_now)
                    }
                };
                if !is_same || its.persists || at + 1 >= words.len() {
                    return Err(SYNTAX);
                }
                at += 1;
                its.time = Time::Word { at, unit, is_from_now };
            }
            None if is(b"NX") && !its.if_present && !is_get => its.if_absent = true,
            None if is(b"XX") && !its.if_absent && !is_get => its.if_present = true,
            None if is(b"GET") && !is_get => its.gets = true,
            None if is(b"KEEPTTL") && !is_get && !matches!(its.time, Time::Word { .. }) => {
                its.time = Time::Kept;
            }
            None if is(b"PERSIST") && is_get && its.time == Time::Never => its.persists = true,
            None => return Err(SYNTAX),
        }
        at += 1;
    }
    Ok(its)
}

/// Time at which a key expires that is set for so long: ms since 1970. None: the time is wrong.
pub(super) fn goes_at(value: i64, unit: i64, is_from_now: bool, now: u64) -> Option<u64> {
    if value <= 0 {
        return None;
    }
    let ms = value.checked_mul(unit)?;
    let base = if is_from_now { i64::try_from(now).ok()? } else { 0 };
    u64::try_from(ms.checked_add(base)?).ok()
}
