//! RESP, the protocol of Redis, as far as a server reads and writes it.
//!
//! A command is an array of bulk strings, or a line of words. A parser of our own, not a crate's:
//! those that there are build a tree of frames for each command and begin anew where one has come
//! in pieces; this one reads each byte once, allocates nothing and refuses a length when it reads it.

use std::fmt;
use std::ops::Range;

/// Words of one command, at most.
pub const MOST_WORDS: usize = 1 << 16;
/// Bytes of a line, at most: of a length, or of a command that is typed by hand.
const MOST_LINE: usize = 64 << 10;
/// Digits of a length, at most.
const MOST_DIGITS: usize = 20;

/// Something that is no command; nothing that follows can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A number of words beyond [`MOST_WORDS`], or none.
    Words,
    /// A length beyond the limit, or none.
    Length,
    /// Another byte than `$` before a length.
    NoBulk,
    /// A line that does not end.
    Line,
    /// More bytes than a command may have.
    TooLong,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Words => "Protocol error: invalid multibulk length",
            Wrong::Length => "Protocol error: invalid bulk length",
            Wrong::NoBulk => "Protocol error: expected '$'",
            Wrong::Line => "Protocol error: too big inline request",
            Wrong::TooLong => "Protocol error: too many bytes in one request",
        })
    }
}

/// Limits of what one client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one word.
    pub word: usize,
    /// Bytes of one command.
    pub command: usize,
}

/// Bytes that have come, and the command that is being read.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    /// Where the command begins.
    start: usize,
    /// Up to where it has been read.
    at: usize,
    /// Words of it so far, from `start` on.
    words: Vec<Range<usize>>,
    /// Words that are to come.
    left: usize,
    /// Length of the next word, once it was read.
    length: Option<usize>,
}

impl Reader {
    /// Adds bytes that have come.
    pub fn push(&mut self, more: &[u8]) {
        if self.start > 0 && self.bytes.len() + more.len() > self.bytes.capacity() {
            self.bytes.drain(..self.start);
            self.at -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(more);
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reads the next command; `false` if it has not come whole.
    ///
    /// # Errors
    /// [`Wrong`]: the connection is of no use any more.
    pub fn next(&mut self, limits: Limits) -> Result<bool, Wrong> {
        // The command before has been used.
        if self.left == 0 && !self.words.is_empty() {
            self.words.clear();
            self.start = self.at;
        }
        loop {
            if self.start == self.bytes.len() {
                self.forget();
                return Ok(false);
            }
            if self.left == 0 && !self.begin()? {
                return Ok(false);
            }
            while self.left > 0 {
                if !self.word(limits)? {
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

    /// The words of the command that [`next`](Self::next) has read.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.words.iter().map(|word| &self.bytes[self.start + word.start..self.start + word.end])
    }

    /// Memory of a large command is not kept for small ones.
    fn forget(&mut self) {
        self.bytes.clear();
        (self.start, self.at) = (0, 0);
        if self.bytes.capacity() > 64 << 10 {
            self.bytes.shrink_to(4096);
        }
    }

    /// Reads the first line of a command.
    fn begin(&mut self) -> Result<bool, Wrong> {
        let is_array = self.bytes[self.start] == b'*';
        let most = if is_array { MOST_DIGITS } else { MOST_LINE };
        let Some(line) = self.line(most, if is_array { Wrong::Words } else { Wrong::Line })? else {
            return Ok(false);
        };
        let end = self.at;
        if is_array {
            let count = number(&self.bytes[line.start + 1..line.end]).ok_or(Wrong::Words)?;
            // Minus one is an array that is not there.
            self.left = usize::try_from(count.max(0)).map_err(|_| Wrong::Words)?;
            if self.left > MOST_WORDS {
                self.left = 0;
                return Err(Wrong::Words);
            }
        } else {
            let text = &self.bytes[line.clone()];
            let mut at = 0;
            for word in text.split(u8::is_ascii_whitespace) {
                if !word.is_empty() {
                    let from = line.start - self.start + at;
                    self.words.push(from..from + word.len());
                }
                at += word.len() + 1;
            }
        }
        self.at = end;
        Ok(true)
    }

    /// Reads a word of an array.
    fn word(&mut self, limits: Limits) -> Result<bool, Wrong> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(line) = self.line(MOST_DIGITS, Wrong::Length)? else { return Ok(false) };
                if self.bytes.get(line.start) != Some(&b'$') {
                    return Err(Wrong::NoBulk);
                }
                let length = number(&self.bytes[line.start + 1..line.end]);
                let length = length.and_then(|length| usize::try_from(length).ok());
                let length = length.filter(|length| *length <= limits.word).ok_or(Wrong::Length)?;
                if self.at - self.start + length > limits.command {
                    return Err(Wrong::TooLong);
                }
                self.length = Some(length);
                length
            }
        };
        let end = self.at + length;
        if self.bytes.len() < end + 2 {
            // Once, and not each time that a piece has come.
            self.bytes.reserve(end + 2 - self.bytes.len());
            return Ok(false);
        }
        if &self.bytes[end..end + 2] != b"\r\n" {
            return Err(Wrong::Length);
        }
        self.words.push(self.at - self.start..end - self.start);
        (self.at, self.length) = (end + 2, None);
        self.left -= 1;
        Ok(true)
    }

    /// The next line, without its end, if it is there; reading goes on behind it.
    fn line(&mut self, most: usize, wrong: Wrong) -> Result<Option<Range<usize>>, Wrong> {
        let rest = &self.bytes[self.at..];
        let looked = &rest[..rest.len().min(most + 2)];
        match looked.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let text = looked[..end].strip_suffix(b"\r").map_or(end, <[u8]>::len);
                let line = self.at..self.at + text;
                self.at += end + 1;
                Ok(Some(line))
            }
            None if rest.len() >= most + 2 => Err(wrong),
            None => Ok(None),
        }
    }
}

/// A decimal number, if the text is one and nothing else.
pub fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let sum = sum.checked_mul(10)?;
        if is_negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
    })
}

/// Writes a text that says how it went: `+OK`.
pub fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes an error; `text` begins with its word in capitals.
pub fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    // A line's end would be another answer.
    out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// Writes a number.
pub fn integer(out: &mut Vec<u8>, number: i64) {
    marked(out, b':', number);
}

/// Writes how many answers follow.
pub fn array(out: &mut Vec<u8>, count: usize) {
    marked(out, b'*', count as i64);
}

/// Writes bytes.
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    marked(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes that there is nothing.
pub fn nothing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

fn marked(out: &mut Vec<u8>, mark: u8, number: i64) {
    let mut digits = [0; 24];
    let (mut at, mut left) = (digits.len(), number.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.push(mark);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { word: 1000, command: 4000 };

    fn all(reader: &mut Reader) -> Result<Vec<Vec<Vec<u8>>>, Wrong> {
        let mut commands = Vec::new();
        while reader.next(LIMITS)? {
            commands.push(reader.words().map(<[u8]>::to_vec).collect());
        }
        Ok(commands)
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        let mut reader = Reader::default();
        reader.push(b"*2\r\n$3\r\nGET\r\n$2\r\na\n\r\nPING\r\n\r\n*0\r\n*-1\r\n  set  a b \r\n*1\r\n$0\r\n\r\n");
        let commands = all(&mut reader).unwrap();
        let expected: [&[&[u8]]; 4] =
            [&[b"GET", b"a\n"], &[b"PING"], &[b"set", b"a", b"b"], &[b""]];
        assert_eq!(commands, expected);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let long = [b'a'; MOST_LINE + 2];
        for (bytes, wrong) in [
            (&b"*65537\r\n"[..], Wrong::Words),
            (b"*x\r\n", Wrong::Words),
            (b"*99999999999999999999999", Wrong::Words),
            (b"*1\r\n$536870912\r\n", Wrong::Length),
            (b"*1\r\n$-1\r\n", Wrong::Length),
            (b"*1\r\n$\r\n", Wrong::Length),
            (b"*1\r\n:1\r\n", Wrong::NoBulk),
            (b"*1\r\n\r\n", Wrong::NoBulk),
            (b"*1\r\n$1\r\nabc", Wrong::Length),
            (&long, Wrong::Line),
        ] {
            let mut reader = Reader::default();
            reader.push(bytes);
            assert_eq!(all(&mut reader), Err(wrong), "{:?}", String::from_utf8_lossy(bytes));
        }
        let mut reader = Reader::default();
        reader.push(b"*9\r\n");
        let word = [b"$900\r\n".to_vec(), vec![b'a'; 900], b"\r\n".to_vec()].concat();
        (0..5).for_each(|_| reader.push(&word));
        assert_eq!(all(&mut reader), Err(Wrong::TooLong));
    }

    #[test]
    fn a_length_alone_takes_no_memory() {
        let mut reader = Reader::default();
        reader.push(b"*1\r\n$536870912\r\n");
        let limits = Limits { word: 1 << 20, command: 2 << 20 };
        assert_eq!(reader.next(limits), Err(Wrong::Length));
        assert!(reader.kept() < 100_000);
    }

    fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut out = Vec::new();
        for command in commands {
            array(&mut out, command.len());
            command.iter().for_each(|word| bulk(&mut out, word));
        }
        out
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_the_same_commands(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5), 0..9),
            pieces in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let bytes = written(&commands);
            let (mut reader, mut seen, mut rest) = (Reader::default(), Vec::new(), &bytes[..]);
            for size in pieces.iter().cycle() {
                let (piece, more) = rest.split_at(rest.len().min(*size));
                reader.push(piece);
                seen.extend(all(&mut reader).unwrap());
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, commands);
        }

        #[test]
        fn nothing_panics_and_nothing_grows(bytes in prop::collection::vec(
            prop::sample::select(b"*$:\r\n0123459-a ".to_vec()), 0..300)) {
            let mut reader = Reader::default();
            for byte in bytes {
                reader.push(&[byte]);
                if all(&mut reader).is_err() {
                    break;
                }
            }
            prop_assert!(reader.kept() < 10_000);
        }

        #[test]
        fn numbers_come_back(number: i64) {
            prop_assert_eq!(super::number(number.to_string().as_bytes()), Some(number));
            let mut out = Vec::new();
            integer(&mut out, number);
            prop_assert_eq!(out, format!(":{number}\r\n").into_bytes());
        }
    }
}
