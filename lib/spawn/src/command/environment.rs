//! The variables of a child.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// The caller's, with changes.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// `None`: taken away.
    pub(crate) changes: BTreeMap<OsString, Option<OsString>>,
    /// True without the caller's.
    pub(crate) clear: bool,
    /// Instead of all others: each string with a zero at its end.
    pub(crate) whole: Option<Vec<u8>>,
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

impl Environment {
    /// The PATH that the child has, if it has one.
    pub(crate) fn path(&self) -> Option<OsString> {
        if let Some(whole) = &self.whole {
            let path = whole.split(|byte| *byte == 0).find_map(|it| it.strip_prefix(b"PATH="));
            return path.map(|path| OsStr::from_bytes(path).to_owned());
        }
        match self.changes.get(OsStr::new("PATH")) {
            Some(path) => path.clone(),
            None if self.clear => None,
            None => std::env::var_os("PATH"),
        }
    }

    /// Each as `KEY=value`, in parts.
    pub(crate) fn each(&self, mut f: impl FnMut(&[&[u8]]) -> io::Result<()>) -> io::Result<()> {
        if let Some(whole) = &self.whole {
            return whole
                .split_inclusive(|byte| *byte == 0)
                .try_for_each(|string| f(&[&string[..string.len() - 1]]));
        }
        if !self.clear {
            each_own(|entry| {
                // A name may begin with an equals sign, as for the standard library.
                let end = entry.iter().skip(1).position(|byte| *byte == b'=');
                let key = end.map_or(entry, |end| &entry[..end + 1]);
                match self.changes.is_empty() || !self.changes.contains_key(OsStr::from_bytes(key))
                {
                    true => f(&[entry]),
                    false => Ok(()),
                }
            })?;
        }
        let set = self.changes.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        set.into_iter().try_for_each(|(key, value)| f(&[key.as_bytes(), b"=", value.as_bytes()]))
    }
}

/// The caller's own, as posix_spawn(3) takes them: without a copy of each.
fn each_own(mut f: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    // SAFETY: a word that the C library sets.
    let mut at = unsafe { environ };
    if at.is_null() {
        return Ok(());
    }
    loop {
        // SAFETY: a list of pointers with a null at its end. Whoever changes it in a program
        // with other threads has promised that none of them reads it meanwhile other than by
        // the standard library (`std::env::set_var`), as all of the C library does.
        let entry = unsafe { at.read() };
        if entry.is_null() {
            return Ok(());
        }
        // SAFETY: as above; each is a string.
        f(unsafe { CStr::from_ptr(entry) }.to_bytes())?;
        // SAFETY: not yet at the null.
        at = unsafe { at.add(1) };
    }
}
