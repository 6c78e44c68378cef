//! Many parts of one file at once.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kumiki_parasc::op::{self, Aligned, BufferMut, Errno, Fadvise, FileAdvice};
use kumiki_parasc::{Pending, Sequence, Then};

use crate::engine::{ended, engine};
use crate::file::{File, PIECE};
use crate::{memory, turn};

/// Bytes that are read at once, and the ranges in them.
type Span = (Range<u64>, Vec<usize>);

/// Spans of a group: so many that handing it over costs little beside them.
const GROUP: usize = 32;
/// Bytes of a group, unless one span has more: what is copied by one thread.
const GROUP_BYTES: u64 = 4 << 20;
/// Up to so many bytes in all a file is not asked where it ends.
const FEW: u64 = 1 << 20;

/// Number in a row that were not in memory after which …
const ABSENT: usize = 32;
/// … only one of so many is tried: each that is not there would cost a system call for nothing.
const STILL_TRIED: usize = 8;

/// Rule for parts that would sleep: those near each other are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Parts with at most so many bytes between them.
    pub gap_bytes: u64,
    /// Not more at once than this, in all.
    pub most_bytes: u64,
}

impl Default for Merge {
    /// Gap that a disk reads in about the time of a request: parts at most 16 KiB apart, 1 MiB at
    /// once.
    fn default() -> Self {
        Merge { gap_bytes: 16 * 1024, most_bytes: 1 << 20 }
    }
}

/// Reads these ranges of a file, in their order. A range that ends behind the file's end gives
/// fewer bytes, and takes no more memory than it gives.
///
/// Those in memory are read at once. All others are under way at the same time, near ones
/// together ([`Merge`]): posix_fadvise(2) announces them to the kernel, and reads ahead while others are
/// announced.
///
/// ```
/// # futures_lite::future::block_on(async {
/// let file = kumiki_tokio::File::open("/etc/passwd").await?;
/// let parts = kumiki_tokio::read_ranges(&file, &[0..4, 1..3]).await?;
/// assert_eq!(parts, [&b"root"[..], b"oo"]);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// As pread(2), of a range that fails; `InvalidInput` for one that ends before it begins;
/// `OutOfMemory` if there is not so much memory.
pub async fn read_ranges(file: &File, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
    read_ranges_merged(file, ranges, Merge::default()).await
}

/// Reads ranges with control over what is read together.
///
/// # Errors
/// As [`read_ranges`].
pub async fn read_ranges_merged(
    file: &File,
    ranges: &[Range<u64>],
    merge: Merge,
) -> io::Result<Vec<Vec<u8>>> {
    let asked =
        ranges.iter().try_fold(0_u64, |all, range| match range.end.checked_sub(range.start) {
            Some(bytes) => Ok(all.saturating_add(bytes)),
            None => {
                let text = format!("the range {range:?} ends before it begins");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        })?;
    let ends = if asked > FEW { Ends::of(file).await? } else { Ends::Anywhere };
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|at| ranges[*at].start);
    let mut parts = vec![Vec::new(); ranges.len()];
    let (is_direct, mut absent) = (file.is_direct(), 0);
    // The disk is at work on the first ones while others are tried.
    let (mut cold, mut reads) = (ColdGroup::new(merge), Vec::new());
    let begin = |group: Vec<Span>| -> io::Result<_> {
        let read = match is_direct {
            true => Reads::Direct(submit(file, &group, memory::aligned)?),
            false => Reads::Cached(submit(file, &group, memory::room)?),
        };
        Ok((read, group))
    };
    for at in order {
        let (range, part) = (ends.cut(&ranges[at]), &mut parts[at]);
        let bytes = range.end - range.start;
        if bytes > FEW && ends == Ends::Unknown {
            *part = read_on(file, range).await?;
            continue;
        }
        if bytes == 0 {
            continue;
        }
        let is_tried = absent < ABSENT || at % STILL_TRIED == 0;
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let read = match is_tried {
            true => {
                memory::reserve(part, length)?;
                file.try_read(part, range.start)
            }
            false => None,
        };
        match read {
            Some(read) => {
                read?;
                absent = 0;
                part.truncate(length);
                turn::take().await;
            }
            None => {
                absent += usize::from(is_tried);
                // It is read elsewhere.
                *part = Vec::new();
                reads.extend(cold.add(&range, at).map(begin).transpose()?);
            }
        }
    }
    reads.extend(cold.rest().map(begin).transpose()?);
    let mut spans = Vec::new();
    for (read, group) in reads {
        spans.extend(read.made().await?.into_iter().zip(group));
    }
    for ((output, mut bytes), (span, members)) in spans {
        match output {
            // What was not made, as the engine may have ended or its list has not the advice, or
            // perhaps is a device's that writes only to aligned memory, is asked for below.
            Ok(_) | Err(Errno::INTR | Errno::INVAL | Errno::PERM | Errno::OWNERDEAD) => {}
            Err(errno) => return Err(errno.into()),
        }
        bytes.truncate((span.end - span.start) as usize);
        // A file that shrinks, or a file system that gives parts: what is missing is asked for.
        while bytes.len() < (span.end - span.start) as usize {
            let at = span.start + bytes.len() as u64;
            let room = memory::aligned((span.end - at) as usize)?;
            match file.hand_over_read(room, at).await? {
                (_, 0) => break,
                (more, _) => append(&mut bytes, more.as_ref())?,
            }
        }
        if let [only] = members[..] {
            parts[only] = bytes;
            continue;
        }
        for at in members {
            let within = |offset: u64| bytes.len().min((offset - span.start) as usize);
            let range = ends.cut(&ranges[at]);
            append(&mut parts[at], &bytes[within(range.start)..within(range.end)])?;
        }
    }
    Ok(parts)
}

/// End of a file, as far as it tells: memory is asked for no more than it has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Little is asked for: it is no matter.
    Anywhere,
    /// Files of `/proc`, and devices.
    Unknown,
    At(u64),
}

impl Ends {
    async fn of(file: &File) -> io::Result<Ends> {
        let metadata = file.metadata().await?;
        Ok(match metadata.len() {
            length if metadata.is_file() && length > 0 => Ends::At(length),
            _ => Ends::Unknown,
        })
    }

    /// The range as far as the file goes.
    fn cut(self, range: &Range<u64>) -> Range<u64> {
        match self {
            Ends::At(end) => range.start.min(end)..range.end.min(end),
            Ends::Anywhere | Ends::Unknown => range.clone(),
        }
    }
}

/// Reads a long range of a file that does not tell its length, as far as it goes.
async fn read_on(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let at = range.start + all.len() as u64;
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let room = memory::aligned(left.min(PIECE))?;
        match file.hand_over_read(room, at).await? {
            (_, 0) => return Ok(all),
            (more, _) => append(&mut all, more.as_ref())?,
        }
    }
}

fn append(bytes: &mut Vec<u8>, more: &[u8]) -> io::Result<()> {
    bytes.try_reserve(more.len()).map_err(|_| memory::lacking(more.len()))?;
    bytes.extend_from_slice(more);
    Ok(())
}

type Pread<B> = op::Pread<Arc<OwnedFd>, B>;
/// All of them are announced to the kernel, and then they are read, whatever it has made of the advice: a
/// file may know none.
type Announced<B> = Then<Sequence<Fadvise<Arc<OwnedFd>>>, Sequence<Pread<B>>>;

/// Reads of a group, under way.
enum Reads {
    Cached(Pending<Announced<Vec<u8>>>),
    /// Into memory that a device writes to itself.
    Direct(Pending<Announced<Aligned>>),
}

fn submit<B: BufferMut + Send + 'static>(
    file: &File,
    group: &[Span],
    memory: fn(usize) -> io::Result<B>,
) -> io::Result<Pending<Announced<B>>> {
    let advise = |(span, _): &Span| {
        Fadvise::new(file.shared(), span.start, span.end - span.start, FileAdvice::WillNeed)
    };
    let read = |(span, _): &Span| {
        let room = memory((span.end - span.start) as usize)?;
        Ok(Pread::new(file.shared(), span.start, room))
    };
    let reads = Sequence::new(group.iter().map(read).collect::<io::Result<_>>()?);
    Ok(engine()?.submit(Then::new(Sequence::new(group.iter().map(advise).collect()), reads)))
}

/// Result of a read, and its bytes.
type ReadOutcome = (Result<usize, Errno>, Vec<u8>);

impl Reads {
    async fn made(self) -> io::Result<Vec<ReadOutcome>> {
        match self {
            Reads::Cached(reads) => made(reads, Ok).await,
            Reads::Direct(reads) => {
                let copy = |all: Aligned| {
                    let mut bytes = Vec::new();
                    append(&mut bytes, all.as_ref()).map(|()| bytes)
                };
                made(reads, copy).await
            }
        }
    }
}

/// Awaits all of a group; those that were not made are as if they had been interrupted.
async fn made<B: BufferMut + Send + 'static>(
    reads: Pending<Announced<B>>,
    bytes: impl Fn(B) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<ReadOutcome>> {
    let made = ended(reads.await)?;
    let (_, outputs) = made.output;
    let outputs = outputs.into_iter().chain(std::iter::repeat(Err(Errno::INTR)));
    let all = made.operation.into_jobs().1.into_operations();
    outputs.zip(all).map(|(output, read)| Ok((output, bytes(read.into_buffer())?))).collect()
}

/// Ranges that are not in memory, in rising order: near ones in spans, spans in groups, each of
/// which one thread announces to the kernel and then reads, so that a disk has many reads
/// outstanding for one hand-over.
struct ColdGroup {
    merge: Merge,
    group: Vec<Span>,
    bytes: u64,
}

impl ColdGroup {
    fn new(merge: Merge) -> Self {
        ColdGroup { merge, group: Vec::new(), bytes: 0 }
    }

    /// Adds the range of this number; the group before it, if that is full.
    fn add(&mut self, range: &Range<u64>, at: usize) -> Option<Vec<Span>> {
        if let Some((span, members)) = self.group.last_mut() {
            let near = range.start <= span.end.saturating_add(self.merge.gap_bytes);
            let end = span.end.max(range.end);
            if near && end - span.start <= self.merge.most_bytes {
                self.bytes += end - span.end;
                span.end = end;
                members.push(at);
                return None;
            }
        }
        let more = range.end - range.start;
        let is_full = self.group.len() == GROUP || self.bytes.saturating_add(more) > GROUP_BYTES;
        let full = if is_full { self.rest() } else { None };
        self.bytes += more;
        self.group.push((range.clone(), vec![at]));
        full
    }

    /// The last group, which may be none.
    fn rest(&mut self) -> Option<Vec<Span>> {
        self.bytes = 0;
        let group = std::mem::take(&mut self.group);
        (!group.is_empty()).then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All groups of these.
    fn groups(ranges: &[Range<u64>], merge: Merge) -> Vec<Vec<Span>> {
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_by_key(|at| ranges[*at].start);
        let mut cold = ColdGroup::new(merge);
        let mut groups: Vec<_> =
            order.into_iter().filter_map(|at| cold.add(&ranges[at], at)).collect();
        groups.extend(cold.rest());
        groups
    }

    #[test]
    fn near_ranges_are_read_together_up_to_a_length() {
        let ranges = [100..110, 0..10, 15..20, 5..8, 1000..1010];
        let merge = Merge { gap_bytes: 5, most_bytes: 1000 };
        let spans = [(0..20, vec![1, 3, 2]), (100..110, vec![0]), (1000..1010, vec![4])];
        assert_eq!(groups(&ranges, merge), [spans]);
        let merge = Merge { gap_bytes: 1 << 30, most_bytes: 110 };
        let spans = [(0..110, vec![1, 3, 2, 0]), (1000..1010, vec![4])];
        assert_eq!(groups(&ranges, merge), [spans]);
        // One that is longer than that is read alone.
        let merge = Merge { gap_bytes: 5, most_bytes: 3 };
        assert_eq!(groups(&ranges[..2], merge)[0].len(), 2);
    }

    #[test]
    fn groups_are_full_by_their_number_or_their_bytes() {
        let apart = |count: u64, length: u64| -> Vec<Range<u64>> {
            (0..count).map(|at| at * (1 << 30)..at * (1 << 30) + length).collect()
        };
        let sizes = |ranges: &[Range<u64>]| -> Vec<usize> {
            groups(ranges, Merge::default()).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&apart(70, 1)), [32, 32, 6]);
        assert_eq!(sizes(&apart(9, 1 << 20)), [4, 4, 1]);
        assert_eq!(sizes(&apart(2, 64 << 20)), [1, 1]);
        assert_eq!(groups(&[], Merge::default()), Vec::<Vec<Span>>::new());
    }
}
