//! Where a reply ends, and what it is.

/// A reply of RESP 2 or 3: its bytes up to the first line's end, what it carries, and what it
/// holds.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    /// What stands behind the sign of its kind, without the line's end.
    pub(crate) line: &'a [u8],
    /// The text of a bulk; `None` of what is none.
    pub(crate) text: Option<&'a [u8]>,
    pub(crate) parts: Vec<Frame<'a>>,
}

/// Takes one reply off the front; `None` while it is not whole.
pub(crate) fn frame<'a>(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (head, rest) = bytes.split_at(end);
    let (kind, line) = (*head.first()?, head.get(1..)?);
    *bytes = rest.get(2..)?;
    let count = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let mut frame = Frame { kind, line, text: None, parts: Vec::new() };
    match kind {
        b'$' | b'!' | b'=' => {
            if let Ok(length) = usize::try_from(count()?) {
                frame.text = Some(bytes.get(..length)?);
                *bytes = bytes.get(length + 2..)?;
            }
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
            for _ in 0..count()?.max(0) * each {
                frame.parts.push(self::frame(bytes)?);
            }
        }
        _ => {}
    }
    Some(frame)
}

impl Frame<'_> {
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        (self.kind == b':').then(|| std::str::from_utf8(self.line).ok()?.parse().ok())?
    }
}

/// Replies that stand one behind the other, each with its bytes; what is left is not whole.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(&[u8], Frame<'_>)> {
    let mut all = Vec::new();
    loop {
        let before = bytes;
        let Some(frame) = frame(&mut bytes) else { return all };
        all.push((&before[..before.len() - bytes.len()], frame));
    }
}

#[test]
fn replies_are_taken_one_by_one() {
    let bytes = b"+OK\r\n$3\r\na\r\n\r\n*2\r\n:1\r\n$-1\r\n%1\r\n+k\r\n,1.5\r\n_\r\n$5\r\nhal";
    let all = frames(bytes);
    let kinds: Vec<u8> = all.iter().map(|(_, frame)| frame.kind).collect();
    assert_eq!(kinds, b"+$*%_");
    assert_eq!(all[1].1.text, Some(&b"a\r\n"[..]));
    assert_eq!((all[2].1.parts.len(), all[3].1.parts.len()), (2, 2));
    assert_eq!(all.iter().map(|(bytes, _)| bytes.len()).sum::<usize>(), bytes.len() - 7);
}
