//! Operands: from the command line, or from a file of names.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;

use crate::quote::{if_needed, in_shell};
use crate::talk::reason;

/// Operands to count, one after the other.
pub(crate) enum Names {
    Given(std::vec::IntoIter<OsString>),
    Listed(List),
}

/// Names in a file, each with a NUL behind it.
pub(crate) struct List {
    from: Box<dyn BufRead>,
    /// Name of the file as it was given.
    file: Vec<u8>,
    /// Names read so far.
    read: u64,
    over: bool,
}

impl Names {
    /// Names in `file`; `-` is stdin.
    pub(crate) fn listed(file: OsString) -> io::Result<Self> {
        let file = file.into_vec();
        let from: Box<dyn BufRead> = if file == b"-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(OsString::from_vec(file.clone()))?))
        };
        Ok(Names::Listed(List { from, file, read: 0, over: false }))
    }
}

/// A name that cannot be one, or that there are no more: what is wrong.
pub(crate) type NoName = Vec<u8>;

impl Iterator for Names {
    type Item = Result<CString, NoName>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Names::Given(names) => {
                let name = names.next()?.into_vec();
                let empty = || b"invalid zero-length file name".to_vec();
                Some(if name.is_empty() { Err(empty()) } else { operand(name) })
            }
            Names::Listed(list) => list.next(),
        }
    }
}

impl List {
    fn next(&mut self) -> Option<Result<CString, NoName>> {
        if self.over {
            return None;
        }
        let mut name = Vec::new();
        match self.from.read_until(0, &mut name) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => {
                self.over = true;
                let text = format!(": read error: {}", reason(&error));
                return Some(Err([if_needed(&self.file), text.into()].concat()));
            }
        }
        self.read += 1;
        name.pop_if(|last| *last == 0);
        Some(match &name[..] {
            b"" => {
                let text = format!(":{}: invalid zero-length file name", self.read);
                Err([if_needed(&self.file), text.into()].concat())
            }
            b"-" if self.file == b"-" => {
                let what = b"when reading file names from stdin, no file name of ";
                Err([&what[..], &in_shell(&name), b" allowed"].concat())
            }
            _ => operand(name),
        })
    }
}

/// An operand as it is opened and printed: of several slashes at the end one
/// is kept.
fn operand(mut name: Vec<u8>) -> Result<CString, NoName> {
    if name.len() > 2 {
        while name.ends_with(b"//") {
            name.pop();
        }
    }
    CString::new(name).map_err(|_| b"a name with a NUL in it".to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end() {
        for (given, kept) in [("a", "a"), ("a/", "a/"), ("a//", "a/"), ("//", "//"), ("///", "/")] {
            assert_eq!(operand(given.into()).unwrap().to_str().unwrap(), kept, "{given}");
        }
    }

    #[test]
    fn names_of_a_list() {
        let from = Box::new(&b"a\0\0b\nc\0-\0last"[..]);
        let mut list = List { from, file: b"-".to_vec(), read: 0, over: false };
        let names: Vec<_> = std::iter::from_fn(|| list.next()).collect();
        let good = |name: &str| Ok(CString::new(name).unwrap());
        assert_eq!(names.len(), 5);
        assert_eq!(names[0], good("a"));
        assert_eq!(names[1], Err(b"-:2: invalid zero-length file name".to_vec()));
        assert_eq!(names[2], good("b\nc"));
        assert!(names[3].is_err());
        assert_eq!(names[4], good("last"));
    }
}
