//! An allow-list of system calls.

use kumiki_sys::syscall;

use crate::callset::{CallSet, NUMBERS};

/// The system calls that may be requested; every other one is refused.
///
/// A list restricts code that makes its system calls by requests only. It adds to the
/// calls that are refused anyway ([`refusal_of`](crate::refusal_of)), and goes by number,
/// not by arguments. It does not restrict code that makes system calls itself: use
/// seccomp for that.
///
/// ```
/// use kumiki_calls::AllowList;
///
/// let list = AllowList::none().allow("read")?.allow("pread64")?.allow_number(3)?;
/// assert!(list.contains(0) && list.contains(17) && list.contains(3));
/// assert!(!list.contains(1));
///
/// let error = AllowList::none().allow_each(["read", "pread"]).unwrap_err();
/// assert!(error.to_string().contains("pread"));
/// # Ok::<(), kumiki_calls::AllowError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowList {
    calls: CallSet,
    /// True if numbers above the set's are allowed.
    beyond: bool,
}

/// A call that cannot be put on an [`AllowList`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllowError {
    /// Names that are not in x86-64's table.
    #[error(
        "x86-64's table has no system call {names:?}: take the name from there (`pread64`, not \
         `pread`), or the number with `allow_number`"
    )]
    UnknownNames {
        /// The names, as given.
        names: Vec<String>,
    },
    /// A number above those that the list tells apart.
    #[error(
        "system call number {number} is above {}, the highest that an allow-list tells apart: \
         allow all of those with `allow_beyond`", NUMBERS - 1
    )]
    NumberTooHigh {
        /// The number.
        number: u16,
    },
}

kumiki_sys::debug_is_display!(AllowError);

impl AllowList {
    /// No call at all.
    pub const fn none() -> AllowList {
        AllowList { calls: CallSet::EMPTY, beyond: false }
    }

    /// Adds the call `name` of x86-64's table.
    ///
    /// # Errors
    /// [`AllowError::UnknownNames`].
    pub fn allow(self, name: &str) -> Result<AllowList, AllowError> {
        self.allow_each([name])
    }

    /// Adds the calls `names` of x86-64's table.
    ///
    /// # Errors
    /// [`AllowError::UnknownNames`] with every name that is not in the table.
    pub fn allow_each<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<AllowList, AllowError> {
        let mut unknown = Vec::new();
        for name in names {
            match syscall::number(name) {
                Some(number) if number < NUMBERS => self.calls = self.calls.with(number as u16),
                _ => unknown.push(name.to_owned()),
            }
        }
        if unknown.is_empty() { Ok(self) } else { Err(AllowError::UnknownNames { names: unknown }) }
    }

    /// Adds the call `sysnum`, below 512, known to this crate or not: the kernel may be
    /// newer.
    ///
    /// # Errors
    /// [`AllowError::NumberTooHigh`].
    pub fn allow_number(self, sysnum: u16) -> Result<AllowList, AllowError> {
        if usize::from(sysnum) >= NUMBERS {
            return Err(AllowError::NumberTooHigh { number: sysnum });
        }
        Ok(AllowList { calls: self.calls.with(sysnum), ..self })
    }

    /// Adds every number from 512 on. No current kernel has such calls: it answers
    /// `ENOSYS`. The x32 calls of old kernels (512 to 547) are still refused.
    #[must_use]
    pub const fn allow_beyond(self) -> AllowList {
        AllowList { beyond: true, ..self }
    }

    /// True if call `sysnum` is allowed.
    #[inline]
    pub const fn contains(&self, sysnum: u16) -> bool {
        match self.calls.get(sysnum) {
            Some(allowed) => allowed,
            None => self.beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_of_the_table_can_be_allowed_alone() {
        for number in 0..NUMBERS {
            let Some(name) = syscall::name(number) else { continue };
            let list = AllowList::none().allow(name).unwrap();
            let allowed: Vec<u16> = (0..=u16::MAX).filter(|&n| list.contains(n)).collect();
            assert_eq!(allowed, [number as u16], "{name}");
        }
    }

    #[test]
    fn the_error_names_each_unknown_name_and_no_known_one() {
        let error = AllowList::none().allow_each(["read", "pread", "write", "opne"]).unwrap_err();
        let names = vec!["pread".to_owned(), "opne".to_owned()];
        assert_eq!(error, AllowError::UnknownNames { names });
        let text = error.to_string();
        assert!(text.contains(r#""pread", "opne""#), "{text}");
        assert!(!text.contains("write"), "{text}");
    }

    #[test]
    fn numbers_beyond_the_set_go_together() {
        let error = AllowList::none().allow_number(512).unwrap_err();
        assert_eq!(error, AllowError::NumberTooHigh { number: 512 });
        assert!(error.to_string().contains("512") && error.to_string().contains("511"));

        let list = AllowList::none().allow_number(511).unwrap();
        assert!(list.contains(511) && !list.contains(512));
        let list = list.allow_beyond();
        assert!(list.contains(512) && list.contains(u16::MAX));
        assert!(!list.contains(510));
    }

    proptest! {
        #[test]
        fn a_list_is_a_set(numbers in proptest::collection::vec(0u16..512, 0..40), asked: u16) {
            let list = numbers.iter().try_fold(AllowList::none(), |list, &number| {
                list.allow_number(number)
            });
            let numbers: BTreeSet<u16> = numbers.into_iter().collect();
            prop_assert_eq!(list.unwrap().contains(asked), numbers.contains(&asked));
        }
    }
}
