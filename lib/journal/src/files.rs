//! What the files say, taken together: the newest snapshot, and the logs behind it.

use std::io;

use crate::disk::{Disk, failed, no_room};
use crate::error::{Error, Result};
use crate::frame::{self, HEAD, Salt, What, WholeFrame};

/// Beginning of a log's name; its first frame's number follows.
const LOG: &str = "log-";
/// Beginning of a snapshot's name; the first frame's number that is not in it follows.
const SNAPSHOT: &str = "snapshot-";
/// Name of the file that is made ahead.
pub(crate) const SPARE: &str = "spare";
/// Name of one that is longer, until it takes the place of the other.
pub(crate) const LONGER: &str = "longer";
/// Name of a log's copy that is not flushed yet: one that is left is removed as a file made ahead is.
const COPY: &str = SPARE;
/// Bytes that are read at once, at least.
const PIECE: usize = 1 << 20;

/// A taker of what the files say.
pub trait Reader {
    /// Its error.
    type Error: From<Error>;

    /// Takes the head of a file, which is called `file` for a person.
    ///
    /// # Errors
    /// Nothing more is read then.
    fn head(&mut self, file: &str, payload: &[u8]) -> Result<(), Self::Error>;

    /// Takes the records of a frame.
    ///
    /// # Errors
    /// A sentence that says why they cannot be what was written: the file is rotten.
    fn records(&mut self, payload: &[u8]) -> Result<(), String>;
}

/// Summary of what was found.
#[derive(Debug)]
pub struct Found {
    /// Number of the frame that comes next.
    pub next: u64,
    /// Logs, and their bytes up to the last whole frame.
    pub logs: Vec<(u64, u64)>,
    /// Name and bytes of the snapshot.
    pub snapshot: Option<(String, u64)>,
    /// Bytes that were cut off at the end, in a sentence.
    pub cut: Option<String>,
    /// The word behind the last frame of what has left for another folder.
    pub left: Option<Vec<u8>>,
    /// Bytes of the last log, with the frame that ends it if there is one.
    whole: u64,
}

/// Name of the log whose first frame has this number.
pub fn log_name(first: u64) -> String {
    format!("{LOG}{first:016x}")
}

/// Name of the snapshot of what comes before the frame of this number.
pub fn snapshot_name(next: u64) -> String {
    format!("{SNAPSHOT}{next:016x}")
}

fn number_of(name: &str, beginning: &str) -> Option<u64> {
    let digits = name.strip_prefix(beginning).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Numbers of the files of this beginning, in their order.
fn numbers(names: &[String], beginning: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| number_of(name, beginning)).collect();
    numbers.sort_unstable();
    numbers
}

/// Files that the newest snapshot takes the place of.
pub(crate) fn superseded(names: &[String]) -> Vec<String> {
    let snapshots = numbers(names, SNAPSHOT);
    let Some(newest) = snapshots.last() else { return Vec::new() };
    let logs = numbers(names, LOG).into_iter().filter(|first| first < newest).map(log_name);
    let older = snapshots.iter().filter(|next| *next < newest).map(|next| snapshot_name(*next));
    logs.chain(older).collect()
}

/// A fault of a file.
fn rotten(disk: &dyn Disk, name: &str, at: u64, why: impl Into<String>) -> Error {
    Error::Rotten { file: format!("{}/{name}", disk.name()), at, why: why.into() }
}

/// Reads all files, or what comes before frame `below`.
///
/// # Errors
/// [`Error::Io`]; [`Error::Rotten`]; those of `reader`.
pub fn read<R: Reader>(
    disk: &dyn Disk,
    below: Option<u64>,
    reader: &mut R,
) -> Result<Found, R::Error> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    let mut found =
        Found { next: 1, logs: Vec::new(), snapshot: None, cut: None, left: None, whole: 0 };
    let is_below = |first: &u64| below.is_none_or(|below| *first < below);
    if let Some(next) = numbers(&names, SNAPSHOT).pop() {
        let name = snapshot_name(next);
        let end = one(disk, &name, 1, None, reader)?;
        if end.what != Some(What::End) {
            return Err(rotten(disk, &name, end.at, "the snapshot is not whole").into());
        }
        found.next = next;
        found.snapshot = Some((name, end.at + frame::size(0) as u64));
    }
    let logs = numbers(&names, LOG).into_iter().filter(|first| *first >= found.next);
    let logs: Vec<u64> = logs.filter(is_below).collect();
    if logs.is_empty() && found.snapshot.is_some() && below.is_none() {
        let name = log_name(found.next);
        return Err(rotten(disk, &name, 0, "the log behind the snapshot is missing").into());
    }
    read_logs(disk, &logs, None, below.is_none(), &mut found, reader)?;
    Ok(found)
}

/// Reads on behind what was found before: frames that the last log has more, and logs behind it. False where another
/// snapshot has taken the place of what was found: all is to be read anew.
///
/// # Errors
/// As [`read`].
pub fn read_on<R: Reader>(
    disk: &dyn Disk,
    found: &mut Found,
    reader: &mut R,
) -> Result<bool, R::Error> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    let snapshot = numbers(&names, SNAPSHOT).pop().map(snapshot_name);
    if snapshot != found.snapshot.as_ref().map(|(name, _)| name.clone()) {
        return Ok(false);
    }
    let Some((last, at)) = found.logs.pop() else { return Ok(false) };
    let logs = numbers(&names, LOG).into_iter().filter(|first| *first >= last);
    let logs: Vec<u64> = logs.collect();
    if logs.first() != Some(&last) {
        return Ok(false);
    }
    let behind = Behind { at, number: found.next };
    (found.next, found.cut) = (last, None);
    read_logs(disk, &logs, Some(behind), true, found, reader)?;
    Ok(true)
}

/// Place in a file at which reading goes on.
#[derive(Clone, Copy)]
struct Behind {
    at: u64,
    /// Number of the frame that is to stand there.
    number: u64,
}

/// Reads logs in their order, the first one from `behind` on; `to_end` if the last of them is the last there is.
fn read_logs<R: Reader>(
    disk: &dyn Disk,
    logs: &[u64],
    behind: Option<Behind>,
    to_end: bool,
    found: &mut Found,
    reader: &mut R,
) -> Result<(), R::Error> {
    for (at, first) in logs.iter().enumerate() {
        let name = log_name(*first);
        if *first != found.next {
            let why =
                format!("what was flushed before it, from {} on, is missing", log_name(found.next));
            return Err(rotten(disk, &name, 0, why).into());
        }
        let end = one(disk, &name, *first, behind.filter(|_| at == 0), reader)?;
        found.logs.push((*first, end.at));
        found.next = end.next;
        let is_last = at + 1 == logs.len() && to_end;
        if is_last && end.what == Some(What::Next) {
            return Err(rotten(disk, &name, end.at, "the log that follows it is missing").into());
        }
        if end.what == Some(What::Left) && !is_last {
            let why = "it has left for another folder, and a log follows all the same";
            return Err(rotten(disk, &name, end.at, why).into());
        }
        if is_last && end.what.is_none() && end.torn > 0 {
            found.cut = Some(format!(
                "{}/{name} was cut at byte {}: what stands behind it, {} bytes, was being written when \
                 its process ended, and nobody was answered by it",
                disk.name(),
                end.at,
                end.torn
            ));
        }
        found.left = end.left;
        found.whole = end.whole;
    }
    Ok(())
}

/// Has what was read of the last log be on the disk: it may stand in the machine's memory alone, as whoever wrote it was
/// killed before it was flushed, or as a flush has failed. It is written anew, as what could not be flushed is not tried
/// again, and what was cut is left out. Nobody is to be answered by what was read before this returns.
///
/// # Errors
/// The disk's.
pub fn settle(disk: &dyn Disk, found: &Found) -> Result<()> {
    let Some((first, _)) = found.logs.last() else { return Ok(()) };
    let name = log_name(*first);
    copy(disk, &name, found.whole)
        .inspect_err(|_| _ = disk.remove(COPY))
        .map_err(no_room(disk, found.whole))?;
    let renamed = disk.rename(COPY, &name).and_then(|()| disk.sync());
    renamed.map_err(failed("naming", disk, &name))
}

/// Has the log before what is found to come next say that it follows: the new one has its name. Whatever stood behind
/// its last frame, an end or nothing, goes.
///
/// # Errors
/// The disk's.
pub(crate) fn end_former(disk: &dyn Disk, found: &Found) -> Result<()> {
    // One without a frame has the name of the new one.
    let Some((first, at)) = found.logs.iter().rfind(|(first, _)| *first < found.next) else {
        return Ok(());
    };
    let name = log_name(*first);
    let mut pieces = Pieces { disk, name: &name, bytes: Vec::new(), start: 0, at: 0 };
    pieces.fill_frame().map_err(failed("reading", disk, &name))?;
    let (_, salt) = pieces.head()?;
    let framed = frame::framed(What::Next, found.next, &[], salt)?;
    let mut file = disk.open(&name).map_err(failed("opening", disk, &name))?;
    let written = file.write(*at, &framed);
    let ended = written.and_then(|()| file.end(*at + framed.len() as u64));
    ended.and_then(|()| file.flush()).map_err(failed("ending", disk, &name))
}

/// Copies so many bytes of a file, and returns when the copy is flushed.
fn copy(disk: &dyn Disk, name: &str, whole: u64) -> Result<()> {
    let mut copy = disk.create(COPY, 0).map_err(failed("making", disk, COPY))?;
    let mut at = 0;
    while at < whole {
        let bytes = usize::try_from(whole - at).unwrap_or(PIECE).min(PIECE);
        let piece = disk.read_at(name, at, bytes).map_err(failed("reading", disk, name))?;
        if piece.is_empty() {
            return Err(rotten(disk, name, at, "it has become shorter while it was read"));
        }
        copy.write(at, &piece).map_err(failed("writing", disk, COPY))?;
        at += piece.len() as u64;
    }
    copy.flush().map_err(failed("flushing", disk, COPY))
}

/// A file's end.
struct Ending {
    at: u64,
    /// Number of the frame that comes next.
    next: u64,
    /// The frame that says so; none where the file just stops.
    what: Option<What>,
    /// Bytes behind that up to the last that is not 0.
    torn: usize,
    left: Option<Vec<u8>>,
    /// Offset behind that frame.
    whole: u64,
}

/// Takes a file's frames, or those from `behind` on, up to the last whole one. Its first one has number `first`.
fn one<R: Reader>(
    disk: &dyn Disk,
    name: &str,
    first: u64,
    behind: Option<Behind>,
    reader: &mut R,
) -> Result<Ending, R::Error> {
    let file = format!("{}/{name}", disk.name());
    let reading = || failed("reading", disk, name);
    let mut pieces = Pieces { disk, name, bytes: Vec::new(), start: 0, at: 0 };
    pieces.fill_frame().map_err(reading())?;
    let (head, salt) = pieces.head()?;
    if head.number != first {
        let why = format!("it is the log of frame {}, by another name", head.number);
        return Err(rotten(disk, name, 0, why).into());
    }
    let (mut number, mut next) = (head.number, head.next);
    match behind {
        None => reader.head(&file, head.payload)?,
        Some(behind) => {
            (number, next) = (behind.number, 0);
            pieces = Pieces { disk, name, bytes: Vec::new(), start: 0, at: behind.at };
        }
    }
    loop {
        pieces.pass(next);
        pieces.fill_frame().map_err(reading())?;
        let at = pieces.at;
        let frame = frame::at(pieces.rest(), 0, salt).filter(|frame| frame.number == number);
        let Some(frame) = frame else { break };
        let whole = at + frame.next as u64;
        let ending =
            |what, left| Ending { at, next: number, what: Some(what), torn: 0, left, whole };
        match frame.what {
            What::Records => {
                reader.records(frame.payload).map_err(|why| rotten(disk, name, at, why))?;
            }
            What::Left => {
                let left = ending(What::Left, Some(frame.payload.to_vec()));
                pieces.pass(frame.next);
                pieces.fill_frame().map_err(reading())?;
                // What guards it is of it.
                let guard = frame::at(pieces.rest(), 0, salt)
                    .filter(|guard| guard.what == What::End && guard.number == number + 1)
                    .map_or(0, |guard| guard.next as u64);
                return Ok(Ending { whole: whole + guard, ..left });
            }
            What::End | What::Next => return Ok(ending(frame.what, None)),
            What::Head => return Err(rotten(disk, name, at, "a second head").into()),
        }
        next = frame.next;
        number += 1;
    }
    pieces.fill(usize::MAX).map_err(reading())?;
    let at = pieces.at;
    // What was made ahead is 0, and much of it.
    let rest = pieces.rest();
    let rest = rest.get(..written(rest)).unwrap_or_default();
    if let Some(later) = frame::later(rest, 0, number, salt) {
        let why = format!(
            "what stands there was flushed and is not what was written: a later frame is whole at \
             byte {}",
            at + later as u64
        );
        return Err(rotten(disk, name, at, why).into());
    }
    Ok(Ending { at, next: number, what: None, torn: rest.len(), left: None, whole: at })
}

/// Bytes up to the last that is not 0.
fn written(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let is_zero = |piece: &&[u8]| ZEROS.get(..piece.len()) == Some(*piece);
    let zeros: usize = bytes.rchunks(ZEROS.len()).take_while(is_zero).map(<[u8]>::len).sum();
    let rest = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// A file that is read by and by: a snapshot may have as many bytes as there is memory.
struct Pieces<'a> {
    disk: &'a dyn Disk,
    name: &'a str,
    bytes: Vec<u8>,
    /// Bytes that have been taken.
    start: usize,
    /// Offset of that in the file.
    at: u64,
}

impl Pieces<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Has so many bytes be there, or all up to the file's end.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.rest().len() < bytes {
            self.bytes.drain(..self.start);
            self.start = 0;
            let missing = (bytes - self.bytes.len()).clamp(PIECE, 64 * PIECE);
            let at = self.at + self.bytes.len() as u64;
            let more = self.disk.read_at(self.name, at, missing)?;
            if more.is_empty() {
                break;
            }
            self.bytes.extend_from_slice(&more);
        }
        Ok(())
    }

    /// Has the frame that begins here be there, if one does.
    fn fill_frame(&mut self) -> io::Result<()> {
        self.fill(HEAD)?;
        match frame::said_size(self.rest()) {
            Some(bytes) => self.fill(bytes),
            None => Ok(()),
        }
    }

    /// The head that stands here, and the salt of what follows.
    fn head(&self) -> Result<(WholeFrame<'_>, Salt)> {
        if frame::is_earlier(self.rest()) {
            let file = format!("{}/{}", self.disk.name(), self.name);
            return Err(Error::EarlierForm { file, form: "KmkL" });
        }
        let wrong = || rotten(self.disk, self.name, 0, "its head is not what was written");
        frame::head_at(self.rest()).ok_or_else(wrong)
    }

    /// Takes so many bytes.
    fn pass(&mut self, bytes: usize) {
        self.start += bytes;
        self.at += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::Folder;
    use crate::segments::Segments;
    use crate::snapshot::Snapshot;

    /// Lengths of the records, and the heads.
    #[derive(Default)]
    struct Seen {
        lengths: Vec<usize>,
        heads: usize,
    }

    impl Reader for Seen {
        type Error = Error;

        fn head(&mut self, _: &str, payload: &[u8]) -> Result<()> {
            assert_eq!(payload, b"head");
            self.heads += 1;
            Ok(())
        }

        fn records(&mut self, payload: &[u8]) -> Result<(), String> {
            assert!(payload.iter().all(|byte| *byte == 7));
            self.lengths.push(payload.len());
            Ok(())
        }
    }

    #[test]
    fn what_is_longer_than_a_piece_and_what_has_left_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(Folder::open(folder.path()).unwrap());
        let mut segments = Segments::begin(&disk, b"head".to_vec(), 1).unwrap();
        let lengths = [5, 3 * PIECE, 0, PIECE - HEAD, 40 * PIECE, 9];
        for length in lengths {
            segments.prepare_for(length as u64).unwrap();
            assert!(segments.fits() >= length as u64);
            segments.write(&[vec![7; length]]).unwrap();
        }
        let mut seen = Seen::default();
        let found = read(&*disk, None, &mut seen).unwrap();
        assert_eq!((seen.lengths, found.logs.len()), (lengths.to_vec(), seen.heads));
        assert_eq!((found.next, found.cut, found.left), (7, None, None));
        segments.leave(b"there").unwrap();
        let mut seen = Seen::default();
        let found = read(&*disk, None, &mut seen).unwrap();
        assert_eq!((seen.lengths.len(), found.left), (6, Some(b"there".to_vec())));
        // And a snapshot of it.
        let mut snapshot = Snapshot::begin(&disk, b"head", found.next).unwrap();
        snapshot.frame().extend_from_slice(&[7; 3]);
        snapshot.gathered().unwrap();
        let bytes = snapshot.end().unwrap();
        drop(Segments::begin(&disk, b"head".to_vec(), found.next).unwrap());
        let mut seen = Seen::default();
        let found = read(&*disk, None, &mut seen).unwrap();
        assert_eq!((seen.lengths, found.logs.len()), (vec![3], 1));
        assert_eq!(found.snapshot, Some((snapshot_name(7), bytes)));
    }

    #[test]
    fn what_has_come_since_is_read_behind_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(Folder::open(folder.path()).unwrap());
        let mut segments = Segments::begin(&disk, b"head".to_vec(), 1).unwrap();
        let mut seen = Seen::default();
        segments.write(&[[7; 5]]).unwrap();
        let mut found = read(&*disk, None, &mut seen).unwrap();
        for number in 1..8 {
            if number % 3 == 0 {
                segments.another(0).unwrap();
            }
            // Nothing, one, and two more.
            for _ in 0..number % 3 {
                segments.write(&[vec![7; number]]).unwrap();
            }
            assert!(read_on(&*disk, &mut found, &mut seen).unwrap());
            let mut all = Seen::default();
            let whole = read(&*disk, None, &mut all).unwrap();
            assert_eq!((&seen.lengths, seen.heads), (&all.lengths, all.heads), "{number}");
            assert_eq!((found.next, &found.logs), (whole.next, &whole.logs), "{number}");
            assert_eq!((found.whole, &found.cut, &found.left), (whole.whole, &None, &None));
        }
        // Where a snapshot has taken the place of what was read, it cannot be.
        let below = segments.first();
        Snapshot::begin(&disk, b"head", below).unwrap().end().unwrap();
        assert!(!read_on(&*disk, &mut found, &mut seen).unwrap());
    }

    #[test]
    fn the_last_byte_that_is_not_0_is_found() {
        for (length, last) in
            [(0, None), (1, None), (1, Some(0)), (9000, Some(8999)), (9000, Some(3))]
        {
            let mut bytes = vec![0; length];
            if let Some(last) = last {
                bytes[last] = 1;
            }
            assert_eq!(written(&bytes), last.map_or(0, |last| last + 1));
        }
    }
}
