//! Many parts of one file at once.

use std::io;
use std::ops::Range;

use crate::engine::{attempt, ended};
use crate::file::File;
use crate::turn;
use kumiki_parasc::op::Pread;

/// When parts that would sleep are read together.
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
/// fewer bytes.
///
/// Those in memory are read at once. All others are under way at the same time, near ones
/// together ([`Merge`]).
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
/// As pread(2), of the first range that fails; `InvalidInput` for one that ends before it
/// begins.
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
    let mut parts = Vec::with_capacity(ranges.len());
    let mut cold = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let length = length(range)?;
        let mut part = Vec::with_capacity(length);
        match file.try_read(&mut part, range.start) {
            _ if length == 0 => (),
            Some(read) => {
                read?;
                part.truncate(length);
                turn::take().await;
            }
            None => cold.push(at),
        }
        parts.push(part);
    }
    let spans = merged(ranges, cold, merge);
    // All are under way before one is awaited.
    let mut reads = Vec::with_capacity(spans.len());
    for (span, members) in spans {
        let room = Vec::with_capacity((span.end - span.start) as usize);
        reads.push((attempt(Pread::new(file.shared(), span.start, room))?, span, members));
    }
    for (read, span, members) in reads {
        let made = ended(read.await)?;
        made.output?;
        let mut bytes = made.operation.into_buffer();
        bytes.truncate((span.end - span.start) as usize);
        // A file that shrinks, or a file system that gives parts: what is missing is asked for.
        while bytes.len() < (span.end - span.start) as usize {
            let at = span.start + bytes.len() as u64;
            let room = Vec::with_capacity((span.end - at) as usize);
            match file.hand_over_read(room, at).await? {
                (_, 0) => break,
                (more, _) => bytes.extend_from_slice(&more),
            }
        }
        if let [only] = members[..] {
            parts[only] = bytes;
            continue;
        }
        for at in members {
            let within = |offset: u64| bytes.len().min((offset - span.start) as usize);
            let range = &ranges[at];
            parts[at].extend_from_slice(&bytes[within(range.start)..within(range.end)]);
        }
    }
    Ok(parts)
}

fn length(range: &Range<u64>) -> io::Result<usize> {
    let length = range.end.checked_sub(range.start).and_then(|bytes| usize::try_from(bytes).ok());
    length.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or_else(|| {
        let text = format!("the range {range:?} ends before it begins, or is longer than memory");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// These ranges in spans that are read at once, each with its ranges.
fn merged(
    ranges: &[Range<u64>],
    mut chosen: Vec<usize>,
    merge: Merge,
) -> Vec<(Range<u64>, Vec<usize>)> {
    chosen.sort_unstable_by_key(|at| ranges[*at].start);
    let mut spans: Vec<(Range<u64>, Vec<usize>)> = Vec::new();
    for at in chosen {
        let range = &ranges[at];
        if let Some((span, members)) = spans.last_mut() {
            let near = range.start <= span.end.saturating_add(merge.gap_bytes);
            let end = span.end.max(range.end);
            if near && end - span.start <= merge.most_bytes {
                span.end = end;
                members.push(at);
                continue;
            }
        }
        spans.push((range.clone(), vec![at]));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_together_up_to_a_length() {
        let ranges = [100..110, 0..10, 15..20, 5..8, 1000..1010];
        let merge = Merge { gap_bytes: 5, most_bytes: 1000 };
        let all = (0..ranges.len()).collect();
        let spans = merged(&ranges, all, merge);
        assert_eq!(spans, [(0..20, vec![1, 3, 2]), (100..110, vec![0]), (1000..1010, vec![4])]);
        let merge = Merge { gap_bytes: 1 << 30, most_bytes: 110 };
        let spans = merged(&ranges, (0..5).collect(), merge);
        assert_eq!(spans, [(0..110, vec![1, 3, 2, 0]), (1000..1010, vec![4])]);
        // One that is longer than that is read alone.
        let merge = Merge { gap_bytes: 5, most_bytes: 3 };
        assert_eq!(merged(&ranges, vec![0, 1], merge).len(), 2);
    }
}
