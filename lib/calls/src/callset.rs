//! A set of system call numbers.

/// Numbers below this one have a place of their own in tables; x86-64's table
/// ends well below it.
pub const NUMBERS: usize = 512;

/// A set of the numbers below [`NUMBERS`]: one cache line, asked by one load.
#[repr(align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSet([u64; NUMBERS / 64]);

impl CallSet {
    /// The empty set.
    pub const EMPTY: CallSet = CallSet([0; NUMBERS / 64]);

    /// The set and `sysnum`, which is below [`NUMBERS`].
    pub const fn with(mut self, sysnum: u16) -> CallSet {
        self.0[sysnum as usize / 64] |= 1 << (sysnum % 64);
        self
    }

    /// Returns true if `sysnum` is in the set; `None` for a number that no set holds.
    #[inline]
    pub const fn get(&self, sysnum: u16) -> Option<bool> {
        if sysnum as usize >= NUMBERS {
            return None;
        }
        Some(self.0[sysnum as usize / 64] >> (sysnum % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let numbers = [0, 1, 63, 64, 200, 511];
        let set = numbers.iter().fold(CallSet::EMPTY, |set, &number| set.with(number));
        for number in 0..NUMBERS as u16 {
            assert_eq!(set.get(number), Some(numbers.contains(&number)), "{number}");
        }
        assert_eq!(set.get(NUMBERS as u16), None);
        assert_eq!(set.get(u16::MAX), None);
    }
}
