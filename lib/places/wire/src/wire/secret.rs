//! Numbers that nobody can guess: leases' secrets, places' lives, the names of who calls.
//!
//! They come from getrandom(2) alone: a generator that is seeded by a clock gives away what it has given to
//! others. `cargo xtask lint secrets` looks for such.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// A number that nobody can guess, and not 0.
pub fn number(of: &str) -> Result<u64> {
    drawn().map_err(|error| Error::Io {
        what: format!("drawing {of} by getrandom(2)"),
        source: io::Error::from(error),
    })
}

fn drawn() -> Result<u64, Errno> {
    loop {
        let mut bytes = [0; 8];
        match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
            Ok(8) if bytes != [0; 8] => return Ok(u64::from_ne_bytes(bytes)),
            // By a signal; and 0 stands for none.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_do_not_repeat() {
        let drawn: BTreeSet<u64> = (0..1000).map(|_| number("one").unwrap()).collect();
        assert!(drawn.len() == 1000 && !drawn.contains(&0));
        // All bits are drawn.
        let (any, all) = drawn.iter().fold((0, u64::MAX), |(any, all), one| (any | one, all & one));
        assert_eq!((any, all), (u64::MAX, 0));
    }
}
