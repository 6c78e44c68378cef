//! Answers into bytes.

use super::digits;

/// Answers of a client, in the version of the protocol that it speaks.
#[derive(Debug, Default)]
pub struct Out {
    /// The answers so far.
    pub bytes: Vec<u8>,
    /// True for version 3.
    pub is_three: bool,
    /// Length that it may become; nought: as long as it likes, as between two answers.
    room: usize,
    /// True if something had no room.
    is_over: bool,
}

impl Out {
    /// None yet, in this version.
    pub fn of(is_three: bool) -> Out {
        Out { is_three, ..Out::default() }
    }

    /// An answer that begins here has so many bytes at most. What has no more room is not
    /// written, so that no answer takes memory without bound while it is made.
    pub fn begin(&mut self, most: usize) -> usize {
        self.room = self.bytes.len() + most;
        self.is_over = false;
        self.bytes.len()
    }

    /// Ends what began at `start`: too long a one becomes an error; whether it was.
    pub fn end(&mut self, start: usize) -> bool {
        let is_over = std::mem::take(&mut self.is_over);
        let most = std::mem::take(&mut self.room).saturating_sub(start);
        if is_over {
            self.bytes.truncate(start);
            self.error(&format!(
                "ERR the answer would be longer than {most} bytes, more than --memory allows for \
                 one: ask for less at once"
            ));
        }
        is_over
    }

    /// A list of answers, whose number is not known yet, of no more bytes than this may have.
    pub fn list(&self) -> Out {
        // Where there is none left, nothing fits: nought would be no limit.
        let left = self.room.saturating_sub(self.bytes.len()).max(1);
        let room = if self.room == 0 { 0 } else { left };
        Out { bytes: Vec::new(), is_three: self.is_three, room, is_over: self.is_over }
    }

    /// True if something has had no room: what is still written is left out, and who writes much may
    /// end.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if so many bytes have room; else nothing more of this answer is written.
    #[inline]
    fn fits(&mut self, bytes: usize) -> bool {
        self.is_over |= self.room != 0 && self.bytes.len() + bytes > self.room;
        !self.is_over
    }

    /// Writes such a list.
    pub fn array_of(&mut self, count: usize, list: Out) {
        self.is_over |= list.is_over;
        self.array(count);
        if self.fits(list.bytes.len()) {
            self.bytes.extend_from_slice(&list.bytes);
        }
    }

    /// Writes a text that says how it went: `+OK`.
    pub fn simple(&mut self, text: &str) {
        if self.fits(text.len() + 3) {
            self.bytes.push(b'+');
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Writes that it went well.
    #[inline]
    pub fn ok(&mut self) {
        self.line(b"+OK\r\n");
    }

    /// Writes an error; `text` begins with its word in capitals.
    pub fn error(&mut self, text: &str) {
        self.error_of(&[text.as_bytes()]);
    }

    /// Writes an error of these pieces.
    pub fn error_of(&mut self, pieces: &[&[u8]]) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        // A line's end would be another answer; at the end it is left out, as Redis does.
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let text = &self.bytes[start..];
        let end = text.iter().rposition(|byte| !is_line_end(byte)).map_or(0, |last| last + 1);
        self.bytes.truncate(start + end);
        self.bytes[start..]
            .iter_mut()
            .filter(|byte| is_line_end(byte))
            .for_each(|byte| *byte = b' ');
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes a number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.marked(b':', number);
    }

    /// Writes how many answers follow.
    pub fn array(&mut self, count: usize) {
        self.marked(b'*', count as i64);
    }

    /// Writes how many pairs follow.
    pub fn map(&mut self, pairs: usize) {
        match self.is_three {
            true => self.marked(b'%', pairs as i64),
            false => self.array(2 * pairs),
        }
    }

    /// Writes how many answers follow that are all different.
    pub fn set(&mut self, count: usize) {
        self.marked(if self.is_three { b'~' } else { b'*' }, count as i64);
    }

    /// Writes how many parts a message has that answers nothing; of version 3 alone.
    pub fn push(&mut self, count: usize) {
        self.marked(b'>', count as i64);
    }

    /// Writes bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.counted(b'$', b"", bytes);
    }

    /// Writes bytes behind their number, the first of which are `kind`.
    #[inline]
    fn counted(&mut self, mark: u8, kind: &[u8], bytes: &[u8]) {
        let (mut buffer, length) = ([0; 24], kind.len() + bytes.len());
        let number = digits(length as i64, &mut buffer);
        if self.fits(number.len() + length + 5) {
            self.bytes.push(mark);
            self.bytes.extend_from_slice(number);
            self.bytes.extend_from_slice(b"\r\n");
            self.bytes.extend_from_slice(kind);
            self.bytes.extend_from_slice(bytes);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Writes a text for people.
    pub fn text(&mut self, text: &[u8]) {
        match self.is_three {
            true => self.counted(b'=', b"txt:", text),
            false => self.bulk(text),
        }
    }

    /// Writes that there is nothing.
    #[inline]
    pub fn nothing(&mut self) {
        self.line(if self.is_three { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Writes that there is no array.
    pub fn no_array(&mut self) {
        self.line(if self.is_three { b"_\r\n" } else { b"*-1\r\n" });
    }

    #[inline]
    fn line(&mut self, line: &[u8]) {
        if self.fits(line.len()) {
            self.bytes.extend_from_slice(line);
        }
    }

    #[inline]
    fn marked(&mut self, mark: u8, number: i64) {
        let mut buffer = [0; 24];
        let digits = digits(number, &mut buffer);
        if self.fits(digits.len() + 3) {
            self.bytes.push(mark);
            self.bytes.extend_from_slice(digits);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_is_in_it() {
        let mut out = Out::default();
        out.error_of(&[b"ERR no \r\n", b"x\ny\r\n\n"]);
        assert_eq!(out.bytes, b"-ERR no   x y\r\n");
    }

    #[test]
    fn both_versions_are_written() {
        let both = |write: fn(&mut Out)| {
            [false, true].map(|is_three| {
                let mut out = Out { is_three, ..Out::default() };
                write(&mut out);
                String::from_utf8(out.bytes).unwrap()
            })
        };
        assert_eq!(both(Out::nothing), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(Out::no_array), ["*-1\r\n", "_\r\n"]);
        assert_eq!(both(|out| out.map(2)), ["*4\r\n", "%2\r\n"]);
        assert_eq!(both(|out| out.set(2)), ["*2\r\n", "~2\r\n"]);
        assert_eq!(both(|out| out.text(b"a")), ["$1\r\na\r\n", "=5\r\ntxt:a\r\n"]);
        assert_eq!(both(|out| out.error("ERR a\r\nb")), ["-ERR a  b\r\n", "-ERR a  b\r\n"]);
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error_and_no_memory() {
        let mut out = Out::default();
        out.ok();
        let start = out.begin(1000);
        out.array(1000);
        (0..1000).for_each(|_| out.bulk(&[b'v'; 500]));
        assert!(out.bytes.capacity() < 3000, "{}", out.bytes.capacity());
        assert!(out.end(start));
        assert!(out.bytes.starts_with(b"+OK\r\n-ERR the answer would be longer than 1000"));
        let start = out.begin(1000);
        out.bulk(b"a");
        assert!(!out.end(start));
        assert!(out.bytes.ends_with(b"$1\r\na\r\n"));
    }

    #[test]
    fn whatever_an_answer_is_of_it_is_bounded_until_its_end() {
        let writes: [fn(&mut Out); 9] = [
            Out::ok,
            Out::nothing,
            Out::no_array,
            |out| out.simple("QUEUED"),
            |out| out.integer(7),
            |out| out.array(7),
            |out| out.map(7),
            |out| out.set(7),
            |out| {
                let mut list = out.list();
                list.integer(7);
                out.array_of(1, list);
            },
        ];
        for write in writes {
            let mut out = Out::default();
            let start = out.begin(1000);
            (0..1000).for_each(|_| write(&mut out));
            assert!(out.is_over() && out.bytes.len() <= 1000, "{}", out.bytes.len());
            assert!(out.end(start));
            // What comes behind it is of no answer that has a bound.
            let before = out.bytes.len();
            (0..1000).for_each(|_| write(&mut out));
            assert!(!out.is_over() && out.bytes.len() >= before + 4000);
        }
    }
}
