//! Frames: what was flushed at once, with its number and a checksum of all of it.
//!
//! ```text
//!   0     4     8        16      20            24
//!   KmkM  what  number   bytes   CRC-32 of     payload, and zeros up to a multiple of 8
//!                                salt, 8..20,
//!                                4..8, payload
//! ```
//!
//! The salt is a file's own: its first frame, the head, has salt 0, and begins its payload with the salt of all that follow.
//! A payload has what a client likes, and that may look like a frame; without the salt it is none.
//!
//! A frame is written only when the one before it was flushed. So what is no frame, and has none of a higher number
//! behind it, is one that was being written: nobody was answered by it. If there is one of a higher number, what stands
//! before it was flushed and is not what it was.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// First bytes of each frame.
const MARK: [u8; 4] = *b"KmkM";
/// Magic of an earlier form, without a salt.
const EARLIER: [u8; 4] = *b"KmkL";
/// Bytes of the salt before the rest of a head's payload.
const SALT: usize = 8;
/// Bytes of a frame before its payload.
pub(crate) const HEAD: usize = 24;
/// Bytes of a frame's payload, at most: its head has 32 bits for their number.
pub(crate) const MOST: u64 = u32::MAX as u64;
/// A frame begins at a multiple of this.
const STEP: usize = 8;

/// Contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A file's head.
    Head = 1,
    /// Records.
    Records = 2,
    /// The process has ended by itself, or a snapshot is whole: nothing follows.
    End = 3,
    /// The next file begins with this number.
    Next = 4,
    /// All has left for another folder, which alone goes on.
    Left = 5,
}

/// A number of a file's own that its frames' checksums are of, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Salt(u64);

impl Salt {
    /// A salt that nobody can guess.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn drawn() -> Result<Salt> {
        let mut bytes = [0; SALT];
        loop {
            match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
                Ok(SALT) => return Ok(Salt(u64::from_le_bytes(bytes))),
                // By a signal.
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    let what = "drawing a file's salt by getrandom(2)".to_owned();
                    return Err(Error::Io { what, source: error.into() });
                }
            }
        }
    }
}

/// A whole frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WholeFrame<'a> {
    pub(crate) what: What,
    pub(crate) number: u64,
    pub(crate) payload: &'a [u8],
    /// Offset of the one behind it.
    pub(crate) next: usize,
}

impl What {
    fn of(number: u32) -> Option<What> {
        [What::Head, What::Records, What::End, What::Next, What::Left]
            .into_iter()
            .find(|what| *what as u32 == number)
    }
}

/// Bytes of a frame with so many of payload.
pub fn size(payload: usize) -> usize {
    (HEAD + payload).next_multiple_of(STEP)
}

fn sum(what: u32, number: u64, payload: &[u8], salt: Salt) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&salt.0.to_le_bytes());
    sum.update(&number.to_le_bytes());
    sum.update(&(payload.len() as u32).to_le_bytes());
    sum.update(&what.to_le_bytes());
    sum.update(payload);
    sum.finalize()
}

/// Begins a frame in `to`, whose payload is appended to it.
pub(crate) fn begin(to: &mut Vec<u8>) {
    to.clear();
    to.resize(HEAD, 0);
}

/// Number of a payload's bytes as a head has it.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn length(bytes: u64) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Error::TooLong { bytes, most: MOST })
}

/// Ends a frame, of which `bytes` has the head's room and the payload.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn end(bytes: &mut Vec<u8>, what: What, number: u64, salt: Salt) -> Result<()> {
    let payload = bytes.get(HEAD..).unwrap_or_default();
    let (length, sum) = (length(payload.len() as u64)?, sum(what as u32, number, payload, salt));
    let head = [
        &MARK[..],
        &(what as u32).to_le_bytes(),
        &number.to_le_bytes(),
        &length.to_le_bytes(),
        &sum.to_le_bytes(),
    ]
    .concat();
    bytes.splice(..HEAD.min(bytes.len()), head);
    bytes.resize(bytes.len().next_multiple_of(STEP), 0);
    Ok(())
}

/// A whole frame of this payload.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn framed(what: What, number: u64, payload: &[u8], salt: Salt) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    begin(&mut bytes);
    bytes.extend_from_slice(payload);
    end(&mut bytes, what, number, salt)?;
    Ok(bytes)
}

/// The frame that begins a file of this salt.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn head(number: u64, payload: &[u8], salt: Salt) -> Result<Vec<u8>> {
    framed(What::Head, number, &[&salt.0.to_le_bytes(), payload].concat(), Salt::default())
}

/// The head at the beginning of these bytes, the salt of what follows, and what its user has written into it.
pub(crate) fn head_at(bytes: &[u8]) -> Option<(WholeFrame<'_>, Salt)> {
    let frame = at(bytes, 0, Salt::default()).filter(|frame| frame.what == What::Head)?;
    let (salt, payload) = frame.payload.split_first_chunk::<SALT>()?;
    Some((WholeFrame { payload, ..frame }, Salt(u64::from_le_bytes(*salt))))
}

/// Bytes of a head with so many of payload.
pub(crate) fn head_size(payload: usize) -> usize {
    size(SALT + payload)
}

/// True if these bytes begin with a frame of an earlier form.
pub(crate) fn is_earlier(bytes: &[u8]) -> bool {
    bytes.starts_with(&EARLIER)
}

/// Bytes that a frame at the beginning of these says to have, if one begins there.
pub(crate) fn said_size(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(16..20)?.first_chunk::<4>()?;
    (bytes.get(..4)? == MARK).then(|| size(u32::from_le_bytes(*length) as usize))
}

/// The frame of this salt at this offset, if there is a whole one.
pub(crate) fn at(bytes: &[u8], offset: usize, salt: Salt) -> Option<WholeFrame<'_>> {
    let (head, rest) = bytes.get(offset..)?.split_first_chunk::<HEAD>()?;
    let (mark, head) = head.split_first_chunk::<4>()?;
    let (what, head) = head.split_first_chunk::<4>()?;
    let (number, head) = head.split_first_chunk::<8>()?;
    let (length, head) = head.split_first_chunk::<4>()?;
    let (own, _) = head.split_first_chunk::<4>()?;
    let (what, number) = (u32::from_le_bytes(*what), u64::from_le_bytes(*number));
    let payload = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if *mark != MARK || sum(what, number, payload, salt) != u32::from_le_bytes(*own) {
        return None;
    }
    let next = offset.checked_add(size(payload.len()))?;
    Some(WholeFrame { what: What::of(what)?, number, payload, next })
}

/// Offset of the first whole frame from `offset` on that has a number above this one.
pub(crate) fn later(bytes: &[u8], offset: usize, above: u64, salt: Salt) -> Option<usize> {
    let first = offset.checked_next_multiple_of(STEP)?;
    (first..bytes.len())
        .step_by(STEP)
        .find(|offset| at(bytes, *offset, salt).is_some_and(|frame| frame.number > above))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALTED: Salt = Salt(7);

    #[test]
    fn a_frame_comes_back_and_none_of_its_bytes_may_be_another() {
        let payload = b"what was flushed";
        let bytes = framed(What::Records, 7, payload, SALTED).unwrap();
        assert_eq!(bytes.len(), size(payload.len()));
        let whole = WholeFrame { what: What::Records, number: 7, payload, next: bytes.len() };
        assert_eq!(at(&bytes, 0, SALTED), Some(whole));
        assert_eq!(at(&bytes, 0, Salt(8)), None, "another file's");
        for byte in 0..HEAD + payload.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[byte] ^= 1 << bit;
                assert_eq!(at(&other, 0, SALTED), None, "byte {byte}, bit {bit}");
            }
        }
        for bytes_left in 0..HEAD + payload.len() {
            assert_eq!(at(&bytes[..bytes_left], 0, SALTED), None, "{bytes_left}");
        }
    }

    #[test]
    fn a_later_one_is_found_behind_what_is_none() {
        let framed = |what, number, payload| framed(what, number, payload, SALTED).unwrap();
        let (one, two) = (framed(What::Records, 7, &b"a"[..]), framed(What::End, 8, b""));
        let noise = [0x5a; 24];
        let bytes = [&one[..], &noise, &two].concat();
        assert_eq!(later(&bytes, 0, 6, SALTED), Some(0));
        assert_eq!(later(&bytes, one.len(), 7, SALTED), Some(one.len() + noise.len()));
        assert_eq!(later(&bytes, one.len(), 8, SALTED), None);
    }
}
