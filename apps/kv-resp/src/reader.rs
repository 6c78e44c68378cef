//! Commands out of bytes as they come.
//!
//! A command is an array of bulk strings, or a line of words. A parser of our own, not a crate's:
//! those that there are build a tree of frames for each command and begin anew where one has come
//! in pieces; this one reads each byte once, allocates nothing for a command that is there whole,
//! and refuses a length when it reads it.

use std::fmt;
use std::ops::Range;

use super::words::{Span, Words};
use super::{number, quotes};

/// Words of one command, at most.
const MOST_WORDS: usize = 1 << 20;
/// Bytes of a line, at most: of a length, or of a command that is typed by hand.
const MOST_LINE: usize = 64 << 10;
/// Digits of a length, at most.
const MOST_DIGITS: usize = 20;

/// Bytes that are no command; nothing that follows can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A number of words beyond the limit, or none.
    Words,
    /// Too much of it for somebody who has said no password.
    WordsOfStranger,
    /// A length beyond the limit, or none.
    Length,
    /// Too much of it for somebody who has said no password.
    LengthOfStranger,
    /// Another byte than `$` before a length.
    NoBulk(u8),
    /// A line that does not end.
    Line,
    /// A number of words that does not end.
    LongWords,
    /// A length that does not end.
    LongLength,
    /// A quote that does not end.
    Quotes,
    /// More bytes than a command may have.
    TooLong,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            Wrong::NoBulk(got) => {
                let got = [*got];
                return write!(f, "expected '$', got '{}'", String::from_utf8_lossy(&got));
            }
            Wrong::Words => "invalid multibulk length",
            Wrong::WordsOfStranger => "unauthenticated multibulk length",
            Wrong::Length => "invalid bulk length",
            Wrong::LengthOfStranger => "unauthenticated bulk length",
            Wrong::Line => "too big inline request",
            Wrong::LongWords => "too big mbulk count string",
            Wrong::LongLength => "too big bulk count string",
            Wrong::Quotes => "unbalanced quotes in request",
            Wrong::TooLong => "too many bytes in one request",
        })
    }
}

/// Limits of what one client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one word.
    pub word: usize,
    /// Bytes of one command, its words' places counted.
    pub command: usize,
    /// True if it still has to say the password.
    pub is_stranger: bool,
}

/// Reader of a client's bytes. The bytes are the caller's, who keeps those from
/// [`rest`](Self::rest) on until more have come.
#[derive(Debug, Default)]
pub struct Reader {
    /// Beginning of the command.
    start: usize,
    /// Up to where it has been read.
    at: usize,
    /// Words of it so far, from `start` on, or in `typed`.
    words: Vec<Span>,
    /// Words that are to come.
    left: usize,
    /// Length of the next word, once it was read.
    length: Option<usize>,
    /// A typed line's words without their quotes.
    typed: Vec<u8>,
    /// True if the command is such a line.
    is_typed: bool,
}

impl Reader {
    /// Bytes of memory that it has.
    pub fn kept(&self) -> usize {
        self.words.capacity() * size_of::<Span>() + self.typed.capacity()
    }

    /// Number of bytes that the command has at least, as far as that is known.
    pub fn wanted(&self) -> usize {
        self.length.map_or(0, |length| self.at - self.start + length + 2)
    }

    /// Offset from which on bytes are still needed; for the next call they begin there.
    pub fn rest(&mut self) -> usize {
        if self.left == 0 && !self.words.is_empty() {
            self.words.clear();
            self.start = self.at;
        }
        let start = self.start;
        self.at -= start;
        self.start = 0;
        if self.left == 0 {
            // Memory of a large command is not kept for small ones.
            self.words.shrink_to(if self.words.capacity() > 64 { 0 } else { 64 });
            self.typed = Vec::new();
        }
        start
    }

    /// Reads the next command of `bytes`; `false` if it has not come whole.
    ///
    /// # Errors
    /// [`Wrong`]: the connection is of no use any more.
    #[inline]
    pub fn next(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Wrong> {
        // The command before has been used.
        if self.left == 0 && !self.words.is_empty() {
            self.words.clear();
            self.start = self.at;
        }
        loop {
            if self.left == 0 && (self.start == bytes.len() || !self.begin(bytes, limits)?) {
                return Ok(false);
            }
            while self.left > 0 {
                if !self.word(bytes, limits)? {
                    return Ok(false);
                }
            }
            if !self.words.is_empty() {
                return Ok(true);
            }
            // An empty line, or an array of nothing.
            self.start = self.at;
        }
    }

    /// The words of the command that [`next`](Self::next) has read in these bytes.
    #[inline]
    pub fn words<'a>(&'a self, bytes: &'a [u8]) -> Words<'a> {
        let its = bytes.get(self.start..self.at).unwrap_or_default();
        Words { bytes: if self.is_typed { &self.typed } else { its }, spans: &self.words }
    }

    /// The command that was read is to be read again.
    pub fn again(&mut self) {
        self.words.clear();
        (self.at, self.left, self.length) = (self.start, 0, None);
    }

    /// Reads the first line of a command.
    fn begin(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Wrong> {
        self.is_typed = bytes[self.start] != b'*';
        if !self.is_typed {
            let line = self.line(bytes, MOST_LINE, Wrong::LongWords)?;
            let Some(line) = line else { return Ok(false) };
            let count = number(&bytes[line.start + 1..line.end]).ok_or(Wrong::Words)?;
            // None, or minus one: an array that is not there.
            let count = usize::try_from(count.max(0)).map_err(|_| Wrong::Words)?;
            if count > MOST_WORDS {
                return Err(Wrong::Words);
            }
            if limits.is_stranger && count > 10 {
                return Err(Wrong::WordsOfStranger);
            }
            self.left = count;
            return Ok(true);
        }
        let Some(line) = self.line(bytes, MOST_LINE, Wrong::Line)? else { return Ok(false) };
        let Reader { words, typed, .. } = self;
        typed.clear();
        let each = |from, to| words.push((from as u32, to as u32));
        if quotes::split(&bytes[line], typed, each) { Ok(true) } else { Err(Wrong::Quotes) }
    }

    /// Reads a word of an array.
    #[inline]
    fn word(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Wrong> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let line = self.line(bytes, MOST_LINE, Wrong::LongLength)?;
                let Some(line) = line else { return Ok(false) };
                let mark = bytes.get(line.start).copied().unwrap_or_default();
                if mark != b'$' {
                    return Err(Wrong::NoBulk(mark));
                }
                let length = number(bytes.get(line.start + 1..line.end).unwrap_or_default());
                let length = length.and_then(|length| usize::try_from(length).ok());
                let length = length.filter(|length| *length <= limits.word).ok_or(Wrong::Length)?;
                if limits.is_stranger && length > 16384 {
                    return Err(Wrong::LengthOfStranger);
                }
                let places = self.words.len() * size_of::<Span>();
                if self.at - self.start + length + places > limits.command {
                    return Err(Wrong::TooLong);
                }
                self.length = Some(length);
                length
            }
        };
        let end = self.at + length;
        if bytes.len() < end + 2 {
            return Ok(false);
        }
        self.words.push(((self.at - self.start) as u32, (end - self.start) as u32));
        // What stands behind it is passed over unseen, as Redis does.
        (self.at, self.length) = (end + 2, None);
        self.left -= 1;
        Ok(true)
    }

    /// The next line, without its end, if it is there; reading goes on behind it.
    #[inline]
    fn line(
        &mut self,
        bytes: &[u8],
        most: usize,
        wrong: Wrong,
    ) -> Result<Option<Range<usize>>, Wrong> {
        let rest = &bytes[self.at..];
        // Of a length all but the first few digits are no length.
        let most = if self.is_typed { most } else { MOST_DIGITS };
        let looked = &rest[..rest.len().min(most + 2)];
        // A typed line ends with a line feed; a length with a return, and one byte more.
        let end = if self.is_typed { b'\n' } else { b'\r' };
        match looked.iter().position(|byte| *byte == end) {
            Some(end) if self.is_typed => {
                let text = looked[..end].strip_suffix(b"\r").map_or(end, <[u8]>::len);
                let line = self.at..self.at + text;
                self.at += end + 1;
                Ok(Some(line))
            }
            Some(end) if end + 2 <= rest.len() => {
                let line = self.at..self.at + end;
                self.at += end + 2;
                Ok(Some(line))
            }
            Some(_) => Ok(None),
            None if rest.len() >= most + 2 => Err(wrong),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Out;

    const LIMITS: Limits = Limits { word: 1000, command: 4000, is_stranger: false };

    /// A reader with the bytes that it still needs.
    #[derive(Default)]
    struct Fed(Reader, Vec<u8>);

    impl Fed {
        fn push(&mut self, more: &[u8]) {
            self.1.extend_from_slice(more);
        }

        fn all(&mut self, limits: Limits) -> Result<Vec<Vec<Vec<u8>>>, Wrong> {
            let mut commands = Vec::new();
            while self.0.next(&self.1, limits)? {
                commands.push(self.0.words(&self.1).iter().map(<[u8]>::to_vec).collect());
            }
            let start = self.0.rest();
            self.1.drain(..start);
            Ok(commands)
        }
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        let mut fed = Fed::default();
        fed.push(b"*2\r\n$3\r\nGET\r\n$2\r\na\n\r\nPING\r\n\r\n*0\r\n*-1\r\n  set  a 'b c' \r\n*1\r\n$0\r\n\r\n");
        let commands = fed.all(LIMITS).unwrap();
        let expected: [&[&[u8]]; 4] =
            [&[b"GET", b"a\n"], &[b"PING"], &[b"set", b"a", b"b c"], &[b""]];
        assert_eq!(commands, expected);
        assert!(fed.1.is_empty());
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let long = [b'a'; MOST_LINE + 2];
        for (bytes, wrong) in [
            (&b"*1048577\r\n"[..], Wrong::Words),
            (b"*x\r\n", Wrong::Words),
            (b"*03\r\n", Wrong::Words),
            (b"*99999999999999999999999", Wrong::LongWords),
            (b"*1\r\n$99999999999999999999999", Wrong::LongLength),
            (b"*1\r\n$536870912\r\n", Wrong::Length),
            (b"*1\r\n$-1\r\n", Wrong::Length),
            (b"*1\r\n$\r\n", Wrong::Length),
            (b"*1\r\n:1\r\n", Wrong::NoBulk(b':')),
            (b"*1\r\n\r\n", Wrong::NoBulk(b'\r')),
            (b"set a 'b\r\n", Wrong::Quotes),
            (&long, Wrong::Line),
        ] {
            let mut fed = Fed::default();
            fed.push(bytes);
            assert_eq!(fed.all(LIMITS), Err(wrong), "{:?}", String::from_utf8_lossy(bytes));
        }
        let mut fed = Fed::default();
        fed.push(b"*9\r\n");
        let word = [b"$900\r\n".to_vec(), vec![b'a'; 900], b"\r\n".to_vec()].concat();
        (0..5).for_each(|_| fed.push(&word));
        assert_eq!(fed.all(LIMITS), Err(Wrong::TooLong));
        let stranger = Limits { word: 1 << 20, command: 1 << 20, is_stranger: true };
        for (bytes, wrong) in [
            (&b"*11\r\n"[..], Wrong::WordsOfStranger),
            (b"*2\r\n$16385\r\n", Wrong::LengthOfStranger),
        ] {
            let mut fed = Fed::default();
            fed.push(bytes);
            assert_eq!(fed.all(stranger), Err(wrong));
        }
    }

    /// Each empty word has a place, which is memory: they are counted, and end.
    #[test]
    fn words_of_nothing_are_counted() {
        let mut fed = Fed::default();
        fed.push(b"*1000000\r\n");
        (0..100_000).for_each(|_| fed.push(b"$0\r\n\r\n"));
        let limits = Limits { word: 1 << 20, command: 1 << 20, is_stranger: false };
        assert_eq!(fed.all(limits), Err(Wrong::TooLong));
        let mut fed = Fed::default();
        fed.push(b"*65536\r\n");
        (0..65_535).for_each(|_| fed.push(b"$0\r\n\r\n"));
        assert!(fed.all(limits).unwrap().is_empty());
        assert!(fed.0.kept() >= 8 * 65_535, "{}", fed.0.kept());
        fed.push(b"$0\r\n\r\n");
        assert_eq!(fed.all(limits).unwrap().len(), 1);
        assert!(fed.0.kept() < 1000, "{}", fed.0.kept());
    }

    fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut out = Out::default();
        for command in commands {
            out.array(command.len());
            command.iter().for_each(|word| out.bulk(word));
        }
        out.bytes
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_the_same_commands(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5), 0..9),
            pieces in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let bytes = written(&commands);
            let (mut fed, mut seen, mut rest) = (Fed::default(), Vec::new(), &bytes[..]);
            for size in pieces.iter().cycle() {
                let (piece, more) = rest.split_at(rest.len().min(*size));
                fed.push(piece);
                seen.extend(fed.all(LIMITS).unwrap());
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, commands);
        }

        #[test]
        fn nothing_panics_and_nothing_grows(bytes in prop::collection::vec(
            prop::sample::select(b"*$:\r\n0123459-a '\"\\".to_vec()), 0..300)) {
            let mut fed = Fed::default();
            for byte in bytes {
                fed.push(&[byte]);
                if fed.all(LIMITS).is_err() {
                    break;
                }
            }
            prop_assert!(fed.0.kept() < 10_000);
        }
    }
}
