//! Entries one behind the other in segments of memory.
//!
//! A general allocator is not asked for values: what it has split it cannot give back, so that
//! clients who set and delete values of the right lengths make a process several times as large
//! as what it holds. Here an entry is written behind the last one, and what is left of a segment
//! that has lost most of its entries is moved (`Keys::make_room`). All memory is in segments,
//! each of which is mapped and unmapped whole: so much is mapped, and no more is resident.
//!
//! ```text
//!  entry: key's length u32 · value's length u32 · when it goes u64 · key · value · up to 8 bytes
//! ```

use std::ops::Range;

use memmap2::MmapMut;

/// Bytes of an entry in front of its key.
const HEAD: usize = 16;
const PAGE: usize = 4096;

/// Error where there is no memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Bits of a place for the offset in its segment, in parts of eight bytes.
const OFFSET: u32 = 21;
/// Segments at most: a place has 48 bits, and is counted from one on.
const MOST: usize = (1 << (48 - OFFSET)) - 1;
/// Bytes of a segment that entries share, at most: as far as offsets reach.
const LARGEST: usize = 8 << OFFSET;

/// A place of an entry, in 48 bits: the segment's number above, the offset in it below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loc(u64);

impl Loc {
    fn new(segment: usize, offset: usize) -> Loc {
        Loc(((segment as u64) << OFFSET) | (offset as u64 / 8))
    }

    #[inline]
    pub(super) fn of_bits(bits: u64) -> Loc {
        Loc(bits)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn segment(self) -> usize {
        (self.0 >> OFFSET) as usize
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0 as usize & ((1 << OFFSET) - 1)) * 8
    }
}

/// An entry, read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) goes_at: u64,
}

#[derive(Debug)]
struct Segment {
    memory: MmapMut,
    /// Up to here it has entries, dead ones among them.
    end: usize,
    /// Bytes of those that live.
    live: usize,
}

#[derive(Debug)]
pub(super) struct Log {
    segments: Vec<Option<Segment>>,
    free: Vec<usize>,
    /// Segments that have several entries.
    shared: Vec<usize>,
    /// The last of them, which is written to.
    head: Option<usize>,
    segment: usize,
    mapped: usize,
}

/// Bytes of an entry.
pub(super) fn size(key: usize, value: usize) -> usize {
    (HEAD + key + value).next_multiple_of(8)
}

impl Log {
    /// An empty one, which will have about so many bytes at most.
    pub(super) fn new(limit: usize) -> Log {
        let segment = (limit / 64).next_power_of_two().clamp(64 << 10, LARGEST);
        Log {
            segments: Vec::new(),
            free: Vec::new(),
            shared: Vec::new(),
            head: None,
            segment,
            mapped: 0,
        }
    }

    /// Bytes that it has from the system.
    pub(super) fn mapped(&self) -> usize {
        self.mapped
    }

    /// Bytes of a segment that entries share.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// Bytes that must be had for an entry of so many.
    pub(super) fn needed(&self, size: usize) -> usize {
        if size > self.segment / 8 {
            return size.next_multiple_of(PAGE);
        }
        let has_room = self.head().is_some_and(|head| head.end + size <= self.segment);
        if has_room { 0 } else { self.segment }
    }

    fn head(&self) -> Option<&Segment> {
        self.segments.get(self.head?)?.as_ref()
    }

    /// Writes an entry, for which [`needed`](Self::needed) may be had.
    pub(super) fn put(&mut self, key: &[u8], value: &[&[u8]], goes_at: u64) -> Result<Loc, Full> {
        let length = value.iter().map(|piece| piece.len()).sum();
        let (loc, room) = self.room(size(key.len(), length))?;
        room[0..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        room[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        room[8..16].copy_from_slice(&goes_at.to_le_bytes());
        room[HEAD..HEAD + key.len()].copy_from_slice(key);
        let mut to = HEAD + key.len();
        for piece in value {
            room[to..to + piece.len()].copy_from_slice(piece);
            to += piece.len();
        }
        Ok(loc)
    }

    /// Room for an entry of so many bytes, which counts as one that lives.
    fn room(&mut self, size: usize) -> Result<(Loc, &mut [u8]), Full> {
        let at = if size > self.segment / 8 {
            self.map(size.next_multiple_of(PAGE))?
        } else {
            match self.head.filter(|_| self.needed(size) == 0) {
                Some(head) => head,
                None => {
                    let new = self.map(self.segment)?;
                    self.shared.push(new);
                    if let Some(old) = self.head.replace(new) {
                        // It may have lost all while it was the last.
                        self.lost(old, 0);
                    }
                    new
                }
            }
        };
        let segment = self.segments.get_mut(at).and_then(Option::as_mut).ok_or(Full)?;
        let (start, end) = (segment.end, segment.end + size);
        let room = segment.memory.get_mut(start..end).ok_or(Full)?;
        segment.end = end;
        segment.live += size;
        Ok((Loc::new(at, start), room))
    }

    fn map(&mut self, bytes: usize) -> Result<usize, Full> {
        if self.free.is_empty() && self.segments.len() >= MOST {
            return Err(Full);
        }
        // What the system refuses is no more than what the limit does.
        let memory = MmapMut::map_anon(bytes).map_err(|_| Full)?;
        self.mapped += bytes;
        let segment = Some(Segment { memory, end: 0, live: 0 });
        if let Some(at) = self.free.pop() {
            self.segments[at] = segment;
            return Ok(at);
        }
        self.segments.push(segment);
        Ok(self.segments.len() - 1)
    }

    #[inline]
    fn bytes(&self, loc: Loc) -> &[u8] {
        let segment = self.segments.get(loc.segment()).and_then(Option::as_ref);
        segment.and_then(|segment| segment.memory.get(loc.offset()..)).unwrap_or_default()
    }

    /// An entry of one's own table.
    #[inline]
    pub(super) fn get(&self, loc: Loc) -> Entry<'_> {
        read(self.bytes(loc)).0
    }

    /// True if an entry has this key.
    #[inline]
    pub(super) fn is(&self, loc: Loc, key: &[u8]) -> bool {
        self.get(loc).key == key
    }

    fn bytes_mut(&mut self, loc: Loc) -> &mut [u8] {
        let segment = self.segments.get_mut(loc.segment()).and_then(Option::as_mut);
        segment.and_then(|segment| segment.memory.get_mut(loc.offset()..)).unwrap_or_default()
    }

    /// Writes another value of about the same length where the old one is; whether it fits.
    #[inline]
    pub(super) fn replace(&mut self, loc: Loc, value: &[u8], goes_at: u64) -> bool {
        let Entry { key, value: old, .. } = self.get(loc);
        let (key, old) = (key.len(), old.len());
        if size(key, old) != size(key, value.len()) {
            return false;
        }
        let bytes = self.bytes_mut(loc);
        bytes[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&goes_at.to_le_bytes());
        bytes[HEAD + key..HEAD + key + value.len()].copy_from_slice(value);
        true
    }

    /// Sets when an entry goes.
    pub(super) fn goes(&mut self, loc: Loc, at: u64) {
        self.bytes_mut(loc)[8..16].copy_from_slice(&at.to_le_bytes());
    }

    /// An entry is nobody's any more.
    pub(super) fn dead(&mut self, loc: Loc) {
        let Entry { key, value, .. } = self.get(loc);
        let size = size(key.len(), value.len());
        self.lost(loc.segment(), size);
    }

    fn lost(&mut self, at: usize, bytes: usize) {
        let Some(Some(segment)) = self.segments.get_mut(at) else { return };
        segment.live -= bytes;
        if segment.live > 0 {
            return;
        }
        if self.head == Some(at) {
            // It is written to again, and not mapped anew each time that a last key goes.
            segment.end = 0;
            return;
        }
        self.mapped -= segment.memory.len();
        self.segments[at] = None;
        self.free.push(at);
        self.shared.retain(|other| *other != at);
    }

    /// The segment that has least, if it has lost so many of its bytes at least.
    pub(super) fn emptiest(&self, lost: usize) -> Option<usize> {
        let shared = self.shared.iter().filter(|at| self.head != Some(**at));
        let live = shared.filter_map(|at| Some((self.segments.get(*at)?.as_ref()?.live, *at)));
        let (live, at) = live.min()?;
        (live + lost <= self.segment).then_some(at)
    }

    /// Places of the entries of a segment, dead ones among them.
    pub(super) fn entries(&self, at: usize) -> Vec<Loc> {
        let Some(Some(segment)) = self.segments.get(at) else { return Vec::new() };
        let (mut entries, mut offset) = (Vec::new(), 0);
        while offset < segment.end {
            entries.push(Loc::new(at, offset));
            offset += read(&segment.memory[offset..]).1;
        }
        entries
    }

    /// Copies an entry behind the last one; its old place is dead.
    pub(super) fn moved(&mut self, loc: Loc) -> Result<Loc, Full> {
        let bytes = self.bytes(loc);
        let entry = bytes.get(..read(bytes).1).ok_or(Full)?.to_vec();
        let (new, room) = self.room(entry.len())?;
        room.copy_from_slice(&entry);
        self.lost(loc.segment(), entry.len());
        Ok(new)
    }
}

/// An entry at the beginning of these bytes, and how many it has.
#[inline]
fn read(bytes: &[u8]) -> (Entry<'_>, usize) {
    let field = |range: Range<usize>| bytes.get(range).and_then(|field| field.try_into().ok());
    let key = u32::from_le_bytes(field(0..4).unwrap_or_default()) as usize;
    let value = u32::from_le_bytes(field(4..8).unwrap_or_default()) as usize;
    let goes_at = bytes.get(8..16).and_then(|field| field.try_into().ok());
    let goes_at = u64::from_le_bytes(goes_at.unwrap_or_default());
    let entry = Entry {
        key: bytes.get(HEAD..HEAD + key).unwrap_or_default(),
        value: bytes.get(HEAD + key..HEAD + key + value).unwrap_or_default(),
        goes_at,
    };
    (entry, size(key, value))
}
