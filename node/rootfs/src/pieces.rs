//! What is packed in several pieces after each other: members of gzip (RFC 1952, 2.2), frames of
//! zstd (RFC 8878, 3), of which some hold nothing or are to be skipped.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// Begins a zstd frame to be skipped, after a byte from 0x50 to 0x5f.
const SKIPPED: &[u8] = b"\x2a\x4d\x18";
/// Memory for what a zstd frame looks back to: as much as `zstd -d` allows by itself.
const WINDOW_BYTES: u64 = 128 << 20;

/// True if such a piece begins here.
pub(crate) fn begin(first: &[u8]) -> bool {
    PieceKind::of(first).is_some()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Gzip,
    Zstd,
    Skipped,
}

impl PieceKind {
    fn of(first: &[u8]) -> Option<Self> {
        let is_skipped = |first: &[u8]| {
            let (kind, rest) = first.split_first().unwrap_or((&0, &[]));
            kind & 0xf0 == 0x50 && rest.starts_with(SKIPPED)
        };
        match first {
            _ if first.starts_with(GZIP) => Some(PieceKind::Gzip),
            _ if first.starts_with(ZSTD) => Some(PieceKind::Zstd),
            _ if is_skipped(first) => Some(PieceKind::Skipped),
            _ => None,
        }
    }
}

/// State of the reader.
enum State<R: BufRead> {
    Between(Peeked<R>),
    Gzip(Box<GzDecoder<Peeked<R>>>),
    /// Decoder of zstd, with the number of bytes that came of this frame.
    Zstd(Box<StreamingDecoder<Peeked<R>, FrameDecoder>>, u64),
    Ended,
    Failed,
}

/// Reads all pieces as one text. All that is there must be pieces of one kind.
pub(crate) struct Pieces<R: BufRead> {
    state: State<R>,
    /// True if they are of gzip.
    gzip: Option<bool>,
}

impl<R: BufRead> Pieces<R> {
    pub(crate) fn new(packed: R) -> Self {
        let state = State::Between(Peeked { first: [0; 4], at: 0, end: 0, inner: packed });
        Pieces { state, gzip: None }
    }

    /// The next piece, begun; `None` at the end.
    fn next_piece(&mut self, mut packed: Peeked<R>) -> io::Result<Option<State<R>>> {
        loop {
            packed.peek(self.gzip == Some(true))?;
            let first = packed.first();
            if first.is_empty() {
                return Ok(None);
            }
            let kind = PieceKind::of(first);
            let is_gzip = kind == Some(PieceKind::Gzip);
            let kind = kind.filter(|_| self.gzip.is_none_or(|before| before == is_gzip));
            self.gzip = Some(is_gzip);
            match kind {
                Some(PieceKind::Gzip) => {
                    return Ok(Some(State::Gzip(Box::new(GzDecoder::new(packed)))));
                }
                Some(PieceKind::Zstd) => {
                    let frame = StreamingDecoder::new_with_max_window_size(packed, WINDOW_BYTES);
                    let frame = frame.map_err(|error| invalid(error.to_string()))?;
                    return Ok(Some(State::Zstd(Box::new(frame), 0)));
                }
                Some(PieceKind::Skipped) => packed.skip()?,
                None => {
                    let after = "what follows its packed pieces is none of their kind: it is \
                                 damaged, or was not copied whole";
                    return Err(invalid(after));
                }
            }
        }
    }
}

impl<R: BufRead> Read for Pieces<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let packed = match std::mem::replace(&mut self.state, State::Failed) {
                State::Failed => return Err(invalid("it failed before")),
                State::Ended => {
                    self.state = State::Ended;
                    return Ok(0);
                }
                State::Between(packed) => packed,
                State::Gzip(mut member) => {
                    let count = member.read(into)?;
                    if count > 0 {
                        self.state = State::Gzip(member);
                        return Ok(count);
                    }
                    member.into_inner()
                }
                State::Zstd(mut frame, came) => {
                    let count = frame.read(into)?;
                    if count > 0 {
                        self.state = State::Zstd(frame, came.saturating_add(count as u64));
                        return Ok(count);
                    }
                    let (packed, frame) = frame.into_parts();
                    whole(&frame, came)?;
                    packed
                }
            };
            self.state = self.next_piece(packed)?.unwrap_or(State::Ended);
        }
    }
}

/// Checks that a frame gave as many bytes as it said, which the decoder does not ask.
fn whole(frame: &FrameDecoder, came: u64) -> io::Result<()> {
    let said = frame.content_size();
    if said != 0 && said != came {
        return Err(invalid(format!("a zstd frame of {said} bytes, as it says, has {came}")));
    }
    match (frame.get_checksum_from_data(), frame.get_calculated_checksum()) {
        (Some(said), Some(have)) if said != have => {
            Err(invalid("a zstd frame whose checksum is wrong: it is damaged"))
        }
        _ => Ok(()),
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// A reader whose next bytes have been looked at.
struct Peeked<R> {
    first: [u8; 4],
    at: usize,
    end: usize,
    inner: R,
}

impl<R: BufRead> Peeked<R> {
    fn first(&self) -> &[u8] {
        self.first.get(self.at..self.end).unwrap_or_default()
    }

    /// Looks at what follows a piece: fewer bytes at the end. Zeros that fill up a tape's last block
    /// are passed over by gzip.
    fn peek(&mut self, passes_zeros: bool) -> io::Result<()> {
        let mut next = [0; 4];
        let mut have = 0;
        while have < next.len() {
            let mut one = [0];
            if self.read(&mut one)? == 0 {
                break;
            }
            if passes_zeros && have == 0 && one == [0] {
                continue;
            }
            next[have] = one[0];
            have += 1;
        }
        (self.first, self.at, self.end) = (next, 0, have);
        Ok(())
    }

    /// Passes over a zstd frame that is to be skipped.
    fn skip(&mut self) -> io::Result<()> {
        let mut head = [0; 8];
        self.read_exact(&mut head)?;
        let [_, _, _, _, length @ ..] = head;
        let length = u64::from(u32::from_le_bytes(length));
        let skipped = io::copy(&mut self.take(length), &mut io::sink())?;
        if skipped < length {
            return Err(invalid("it ends within a zstd frame: it was not copied whole"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Peeked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let have = self.fill_buf()?;
        let count = have.len().min(into.len());
        into[..count].copy_from_slice(&have[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Peeked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.end {
            return Ok(&self.first[self.at..self.end]);
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.end {
            self.at = self.at.saturating_add(count).min(self.end);
        } else {
            self.inner.consume(count);
        }
    }
}
