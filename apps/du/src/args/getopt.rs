//! Reads the command line as getopt_long(3) does, down to its words about what is
//! wrong: options and operands mixed, letters together, names shortened.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::{ROWS, Row, Takes};

/// An option as it was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenOption {
    pub(crate) row: &'static Row,
    /// Name in messages: `-B` or `--block-size`.
    pub(crate) called: String,
    pub(crate) value: Option<OsString>,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Row {}

/// Options one after the other; what is left is an operand.
#[derive(Debug)]
pub(crate) struct Options<I> {
    arguments: I,
    /// Letters of an argument that have not been looked at.
    letters: Vec<u8>,
    /// The first operand ends the options.
    posix: bool,
    over: bool,
    pub(crate) operands: Vec<OsString>,
}

impl<I: Iterator<Item = OsString>> Options<I> {
    pub(crate) fn new(arguments: I, posix: bool) -> Self {
        Options { arguments, letters: Vec::new(), posix, over: false, operands: Vec::new() }
    }

    fn letter(&mut self) -> Result<GivenOption, Vec<u8>> {
        let letter = self.letters.remove(0);
        let Some(row) = ROWS.iter().find(|row| row.letters.contains(&letter)) else {
            return Err([b"invalid option -- '", &[letter][..], b"'"].concat());
        };
        let value = match row.takes {
            Takes::Value(_) if self.letters.is_empty() => match self.arguments.next() {
                None => {
                    return Err([b"option requires an argument -- '", &[letter][..], b"'"].concat());
                }
                value => value,
            },
            Takes::Value(_) => Some(OsString::from_vec(std::mem::take(&mut self.letters))),
            Takes::Nothing | Takes::Maybe(_) => None,
        };
        Ok(GivenOption { row, called: format!("-{}", char::from(letter)), value })
    }

    fn named(&mut self, text: &[u8]) -> Result<GivenOption, Vec<u8>> {
        let mut halves = text.splitn(2, |&byte| byte == b'=');
        let name = halves.next().unwrap_or_default();
        let value = halves.next().map(|value| OsStr::from_bytes(value).to_owned());
        let row = find(name, text)?;
        let called = format!("--{}", row.name);
        let value = match (row.takes, value) {
            (Takes::Nothing, Some(_)) => {
                return Err(format!("option '{called}' doesn't allow an argument").into());
            }
            (Takes::Value(_), None) => match self.arguments.next() {
                None => return Err(format!("option '{called}' requires an argument").into()),
                value => value,
            },
            (_, value) => value,
        };
        Ok(GivenOption { row, called, value })
    }
}

/// The option that `name` is, or is short for; `text` is the argument without hyphens.
fn find(name: &[u8], text: &[u8]) -> Result<&'static Row, Vec<u8>> {
    if let Some(row) = ROWS.iter().find(|row| !name.is_empty() && row.name.as_bytes() == name) {
        return Ok(row);
    }
    let short = |row: &&Row| row.name.as_bytes().starts_with(name);
    let named = ROWS.iter().filter(|row| !row.name.is_empty() && row.may_be_shortened());
    let candidates: Vec<_> = named.filter(short).collect();
    match candidates[..] {
        [row] => Ok(row),
        [] => Err([b"unrecognized option '--", text, b"'"].concat()),
        _ => {
            let all = candidates.iter().map(|row| format!(" '--{}'", row.name)).collect::<String>();
            let ambiguous = [b"option '--", text, b"' is ambiguous; possibilities:"].concat();
            Err([&ambiguous, all.as_bytes()].concat())
        }
    }
}

impl<I: Iterator<Item = OsString>> Iterator for Options<I> {
    type Item = Result<GivenOption, Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.letters.is_empty() {
            return Some(self.letter());
        }
        loop {
            let argument = self.arguments.next()?;
            match argument.as_bytes() {
                _ if self.over => self.operands.push(argument),
                b"--" => self.over = true,
                [b'-', b'-', name @ ..] => return Some(self.named(name)),
                [b'-', letters @ ..] if !letters.is_empty() => {
                    self.letters = letters.to_vec();
                    return Some(self.letter());
                }
                _ => {
                    self.over = self.posix;
                    self.operands.push(argument);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Id;
    use super::*;

    fn read(line: &str, posix: bool) -> (Vec<String>, Vec<String>) {
        let arguments = line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let mut options = Options::new(arguments.into_iter(), posix);
        let told = options.by_ref().map(|given| match given {
            Ok(given) => format!("{:?} {} {:?}", given.row.id, given.called, given.value),
            Err(wrong) => String::from_utf8(wrong).unwrap(),
        });
        let told = told.collect();
        let operands = options.operands.into_iter().map(|o| o.into_string().unwrap()).collect();
        (told, operands)
    }

    #[test]
    fn options_and_operands() {
        let (told, operands) = read("-sB 4K a --max=1 -d2 - -B-s --time b --time=use -- -c", false);
        assert_eq!(
            told,
            [
                "Summarize -s None",
                "BlockSize -B Some(\"4K\")",
                "MaxDepth --max-depth Some(\"1\")",
                "MaxDepth -d Some(\"2\")",
                "BlockSize -B Some(\"-s\")",
                "Time --time None",
                "Time --time Some(\"use\")",
            ]
        );
        assert_eq!(operands, ["a", "-", "b", "-c"]);
        let (told, operands) = read("-s a -c --", true);
        assert_eq!((told.len(), &operands[..]), (1, &["a", "-c", "--"].map(String::from)[..]));
    }

    #[test]
    fn what_is_wrong() {
        for (line, expected) in [
            (
                "--t",
                "option '--t' is ambiguous; possibilities: '--total' '--threshold' '--time' '--time-style'",
            ),
            ("--m", ""),
            ("--p", "unrecognized option '--p'"),
            ("--pl", "unrecognized option '--pl'"),
            ("--nonsense=3", "unrecognized option '--nonsense=3'"),
            ("--al=3", "option '--all' doesn't allow an argument"),
            ("--max", "option '--max-depth' requires an argument"),
            ("-d", "option requires an argument -- 'd'"),
            ("-z", "invalid option -- 'z'"),
            ("--=", "option '--=' is ambiguous; possibilities: '--all'"),
        ] {
            let (told, _) = read(line, false);
            assert!(told[0].starts_with(expected), "{line}: {told:?}");
        }
        assert!(find(b"time", b"time").unwrap().id == Id::Time);
        assert!(find(b"plain", b"plain").unwrap().id == Id::Plain);
    }
}
