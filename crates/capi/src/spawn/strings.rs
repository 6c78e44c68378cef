//! Lists of strings as C has them.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use crate::failure::Failure;

/// # Safety
/// `list` is null, or ends with a null pointer, and so long as `'a` neither it nor its
/// strings change.
pub(super) unsafe fn strings<'a>(
    list: *const *mut c_char,
    name: &str,
) -> Result<Vec<&'a OsStr>, Failure> {
    if list.is_null() {
        return Err(Failure::invalid(format!("{name} is a null pointer")));
    }
    let mut all = Vec::new();
    loop {
        // SAFETY: not beyond the null pointer at the end.
        let at = unsafe { list.add(all.len()) };
        // SAFETY: as above.
        let string = unsafe { at.read() };
        if string.is_null() {
            return Ok(all);
        }
        // SAFETY: the caller's promise.
        let string = unsafe { CStr::from_ptr(string) };
        all.push(OsStr::from_bytes(string.to_bytes()));
    }
}

/// Variables and their values. Of one name the first holds, as getenv(3) has it.
pub(super) fn pairs<'a>(env: &[&'a OsStr]) -> Result<Vec<(&'a OsStr, &'a OsStr)>, Failure> {
    let pair = |variable: &&'a OsStr| {
        let bytes = variable.as_bytes();
        // A name has at least one byte, whatever that is.
        let end = bytes.iter().skip(1).position(|byte| *byte == b'=').map(|at| at + 1);
        let end = end.ok_or_else(|| {
            let text = variable.display();
            Failure::invalid(format!("{text:?} in envp is no variable: it has no = behind a name"))
        })?;
        Ok((OsStr::from_bytes(&bytes[..end]), OsStr::from_bytes(&bytes[end + 1..])))
    };
    // Of what is set twice the later one holds.
    env.iter().rev().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_split_behind_their_names() {
        let env = ["A=1", "=B=2", "C=", "A=3"].map(OsStr::new);
        let expected = [("A", "3"), ("C", ""), ("=B", "2"), ("A", "1")];
        let expected = expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        assert_eq!(pairs(&env).unwrap(), expected);
        assert!(pairs(&[OsStr::new("NOTHING")]).is_err());
        assert!(pairs(&[OsStr::new("")]).is_err());
    }
}
