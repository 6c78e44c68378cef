//! The answer to a request for a file or folder: fields that only such answers have, and the body as far
//! as that is in memory. What every answer has is in `response.rs`.

use std::ffi::CString;
use std::sync::Arc;

use kumiki_parasc::op::{Entries, Errno};
use kumiki_parasc::tries::{OpenRead, OpenReadError};
use rustix::fs::FileType;

use crate::beneath::BENEATH;
use crate::conditions::Verdict;
use crate::described::Described;
use crate::held::Held;
use crate::listing::{self, Entry, folder_of};
use crate::pages::PageShare;
use crate::range::{Part, RangeRequest};
use crate::request::{Head, Method};
use crate::response::{Clock, Status, Writer};
use crate::second::{Stage, Why};
use crate::site::{Candidate, Kind};
use crate::target;
use crate::work::Opened;

/// Bytes of an entry of a folder, beside its name.
const ENTRY: usize = 64;

/// An answer that is being found or sent.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The number of the candidate that is tried.
    pub(crate) candidate: usize,
    /// Offset of the first bytes that were read with the open, number that was asked for, and
    /// number of a file that tells no length.
    first: u64,
    asked: usize,
    of_unknown: usize,
    pub(crate) stage: Stage,
    /// Looks that an open was followed by: a long path is not gone through to its start.
    pub(crate) looks: usize,
    /// The head, and after it a page that is made here.
    pub(crate) head: Vec<u8>,
    head_sent: usize,
    data: Vec<u8>,
    data_sent: usize,
    file: Option<Arc<Held>>,
    /// Offset of the file's next bytes, and number of those that are to come beside `data`.
    offset: u64,
    left: u64,
    pub(crate) folder: Option<Arc<Held>>,
    entries: Vec<Entry>,
    /// Memory of those, and then of the page.
    pub(crate) share: Option<PageShare>,
    are_all: bool,
    /// Status for the log, and the bytes of its body.
    pub(crate) status: u16,
    pub(crate) bytes: u64,
}

/// Outcome of an open.
#[derive(Debug)]
pub(crate) enum Body {
    /// The file is not there: the next candidate.
    Next,
    /// The file may be there: another look.
    Look(Why),
    /// The answer is ready to be sent.
    Ready,
    Short(Status),
    /// A folder whose entries are to be read.
    Folder(Arc<Held>),
}

impl Answer {
    /// Forgets the last one; its memory is used again.
    pub(crate) fn begin(&mut self) {
        let (mut head, entries) = (std::mem::take(&mut self.head), Vec::new());
        head.clear();
        *self = Answer { head, entries, are_all: true, ..Answer::default() };
    }

    /// The request for a candidate: open, attributes, and the first bytes where they are surely
    /// wanted.
    pub(crate) fn request(
        &mut self,
        head: &Head<'_>,
        path: CString,
        folder: &Arc<Held>,
        chunk: usize,
    ) -> OpenRead<Arc<Held>, CString> {
        let open = OpenRead::new(Arc::clone(folder), path).resolve(BENEATH).look_first();
        self.wanted(head, open, chunk)
    }

    /// Answers as [`request`](Self::request), for an open that is made otherwise.
    pub(crate) fn wanted(
        &mut self,
        head: &Head<'_>,
        open: OpenRead<Arc<Held>, CString>,
        chunk: usize,
    ) -> OpenRead<Arc<Held>, CString> {
        let (start, limit) = self.first_bytes(head, chunk);
        open.range(start, limit).unknown_length(chunk).keep()
    }

    /// Offset of the bytes that are read with an open, and their largest number: those that are
    /// surely wanted.
    pub(crate) fn first_bytes(&mut self, head: &Head<'_>, chunk: usize) -> (u64, usize) {
        let fields = &head.fields;
        let (start, most) = match fields.range.and_then(RangeRequest::parse) {
            Some(RangeRequest::From(start, last)) => {
                let length = last.map_or(u64::MAX, |last| (last - start).saturating_add(1));
                (start, usize::try_from(length).map_or(chunk, |length| length.min(chunk)))
            }
            Some(RangeRequest::Last(_)) => (0, 0),
            None => (0, chunk),
        };
        let conditional = fields.if_none_match.is_there() || fields.if_modified_since.is_some();
        // Beyond what the kernel takes for an offset there is nothing to be read.
        let is_there = i64::try_from(start).is_ok();
        let wants = is_there && !conditional && head.method == Method::Get;
        let limit = if wants { most } else { 0 };
        let start = if is_there { start } else { 0 };
        (self.first, self.asked, self.of_unknown) = (start, limit, chunk);
        self.stage = Stage::First;
        (start, limit)
    }

    /// Goes on after the open of a candidate.
    pub(crate) fn opened(
        &mut self,
        head: &Head<'_>,
        candidate: &Candidate,
        result: Result<Opened, OpenReadError>,
        lists: bool,
        keeps_alive: bool,
        clock: &mut Clock,
    ) -> Body {
        let Opened { file, attributes, data, described } = match result {
            Ok(opened) => opened,
            // The file itself is there to be tried.
            Err(_) if candidate.encoding.is_some() => return Body::Next,
            Err(error) => {
                let again = Why::of(error.errno).filter(|_| self.stage == Stage::First);
                return again.map_or_else(|| Body::of_error(error.errno), Body::Look);
            }
        };
        match (attributes.file_type(), candidate.kind) {
            (FileType::RegularFile, Kind::File | Kind::Index) => {
                let opened = Opened { file, attributes, data, described };
                self.file(head, candidate, opened, keeps_alive, clock)
            }
            // A variant that is no file hides none.
            _ if candidate.encoding.is_some() => Body::Next,
            (FileType::Directory, Kind::Folder) if lists => Body::Folder(file),
            (FileType::Directory, Kind::File) => {
                self.redirect(head, keeps_alive, clock);
                Body::Ready
            }
            // A folder of the index's name.
            (FileType::Directory, Kind::Index) => Body::Next,
            (FileType::RegularFile, Kind::Folder) => Body::Short(Status::NOT_FOUND),
            // FIFOs, sockets, devices; folders that are not listed.
            _ => Body::Short(Status::FORBIDDEN),
        }
    }

    fn file(
        &mut self,
        head: &Head<'_>,
        candidate: &Candidate,
        Opened { file, attributes, data, described }: Opened,
        keeps_alive: bool,
        clock: &mut Clock,
    ) -> Body {
        let length = attributes.size();
        // Made up when it is read, as those of /proc; or shorter than it says, as those of /sys and
        // one that has been cut just now. It has a version, and parts, that nobody can name again.
        let tells_nothing = length == 0 && !data.is_empty();
        let most = usize::try_from(length).map_or(self.asked, |length| length.min(self.asked));
        let is_short = length > 0 && head.fields.range.is_none() && data.len() < most;
        if tells_nothing && data.len() >= self.of_unknown {
            return Body::Short(Status::FORBIDDEN);
        }
        let has_its_length = !tells_nothing && !is_short;
        let size = if has_its_length { length } else { data.len() as u64 };
        let made;
        let described = match described.as_deref().filter(|_| has_its_length) {
            Some(described) => described,
            None => {
                made = Described::of(&attributes, candidate, has_its_length);
                &made
            }
        };
        let version = &described.version;
        let verdict = version.judge(&head.fields);
        let range = head.fields.range.and_then(RangeRequest::parse).map(|asked| asked.of(size));
        // A range means something to GET alone (section 14.2).
        let takes_range = head.method == Method::Get && has_its_length;
        let range =
            range.filter(|_| takes_range && matches!(verdict, Verdict::Whole { range: true }));
        let (status, start, length) = match (verdict, range) {
            (Verdict::Failed, _) => return Body::Short(Status::PRECONDITION_FAILED),
            (Verdict::NotModified, _) => (Status::NOT_MODIFIED, 0, 0),
            (_, Some(Part::None)) => (Status::RANGE_NOT_SATISFIABLE, 0, 0),
            (_, Some(Part::Bytes { start, length })) => (Status::PARTIAL, start, length),
            (_, Some(Part::Empty) | None) => (Status::OK, 0, size),
        };
        let mut writer = Writer::new(&mut self.head, status, keeps_alive, clock);
        let now = clock.second();
        writer.field_if("ETag", version.tag());
        // Where a cache has the tag it needs no more (section 15.4.5).
        if status != Status::NOT_MODIFIED || version.tag().is_none() {
            writer.field_if("Last-Modified", version.date(now).as_deref());
        }
        writer.field_if("Accept-Ranges", has_its_length.then_some("bytes"));
        writer.field("X-Content-Type-Options", "nosniff");
        writer.field("Vary", "Accept-Encoding");
        match status {
            Status::NOT_MODIFIED => (),
            Status::RANGE_NOT_SATISFIABLE => {
                writer.field("Content-Range", &format!("bytes */{size}")).length(0);
            }
            _ => {
                writer.field("Content-Type", described.content_type).length(length);
                if let Some(encoding) = candidate.encoding {
                    writer.field("Content-Encoding", encoding.name());
                }
                if status == Status::PARTIAL {
                    let last = (start + length).saturating_sub(1);
                    writer.field("Content-Range", &format!("bytes {start}-{last}/{size}"));
                }
            }
        }
        writer.end();
        self.status = status.code();
        if head.method == Method::Head {
            return Body::Ready;
        }
        self.bytes = length;
        (self.file, self.offset, self.left) = (Some(file), start, length);
        // What was read with the open is of use if it begins where the answer does.
        if (self.first == start || !has_its_length) && !data.is_empty() {
            self.take(data);
        }
        Body::Ready
    }

    fn redirect(&mut self, head: &Head<'_>, keeps_alive: bool, clock: &mut Clock) {
        let mut writer = Writer::new(&mut self.head, Status::MOVED, keeps_alive, clock);
        let query = target::query(head.raw_target.as_bytes());
        writer.field("Location", &folder_of(&head.target.path, query)).length(0).end();
        self.status = Status::MOVED.code();
    }

    /// Takes a part of a folder's entries, and says whether there may be more; [`Errno::NOMEM`] if other
    /// pages have all the memory.
    pub(crate) fn listed(
        &mut self,
        part: Result<Vec<u8>, Errno>,
        hides_dot: bool,
    ) -> Result<bool, Errno> {
        let part = part?;
        let is_shown = |name: &[u8]| match hides_dot {
            true => !name.starts_with(b"."),
            false => name != b"." && name != b"..",
        };
        for entry in Entries::new(&part).filter(|entry| is_shown(entry.name.to_bytes())) {
            if self.entries.len() == listing::MOST {
                self.are_all = false;
                return Ok(false);
            }
            let (is_file, name) = (entry.kind != FileType::Directory, entry.name.to_bytes());
            self.take_room(name.len() + ENTRY)?;
            self.entries.push(Entry { is_file, name: name.to_vec() });
        }
        Ok(!part.is_empty())
    }

    fn take_room(&mut self, bytes: usize) -> Result<(), Errno> {
        let has_room = self.share.as_mut().is_none_or(|share| share.take(bytes));
        if has_room { Ok(()) } else { Err(Errno::NOMEM) }
    }

    /// The page of the entries that were taken.
    pub(crate) fn page(
        &mut self,
        head: &Head<'_>,
        keeps_alive: bool,
        clock: &mut Clock,
    ) -> Result<(), Errno> {
        let entries = std::mem::take(&mut self.entries);
        let page = listing::page(&head.target.path, entries, self.are_all);
        self.take_room(page.len())?;
        let mut writer = Writer::new(&mut self.head, Status::OK, keeps_alive, clock);
        writer.field("Content-Type", "text/html; charset=utf-8");
        writer.field("Cache-Control", "no-cache").length(page.len() as u64).end();
        self.status = Status::OK.code();
        if head.method == Method::Get {
            self.bytes = page.len() as u64;
            self.data = page.into_bytes();
        }
        Ok(())
    }

    /// Bytes in memory that are not sent.
    pub(crate) fn unsent(&self) -> (&[u8], &[u8]) {
        (
            self.head.get(self.head_sent..).unwrap_or_default(),
            self.data.get(self.data_sent..).unwrap_or_default(),
        )
    }

    pub(crate) fn sent(&mut self, count: usize) {
        let of_head = count.min(self.head.len().saturating_sub(self.head_sent));
        self.head_sent += of_head;
        self.data_sent += count - of_head;
    }

    /// The bytes of the file that come next, and memory for them; `None` after the last.
    pub(crate) fn next_part(&mut self, chunk: usize) -> Option<(Arc<Held>, u64, Vec<u8>)> {
        let file = self.file.as_ref().filter(|_| self.left > 0)?;
        let bytes = usize::try_from(self.left).map_or(chunk, |left| left.min(chunk));
        let mut room = std::mem::take(&mut self.data);
        room.clear();
        // No larger than what is asked for: a read of the file's end would be a short one.
        if room.capacity() != bytes {
            room = Vec::with_capacity(bytes);
        }
        Some((Arc::clone(file), self.offset, room))
    }

    /// Takes what was read; `false` if it is not what was promised.
    pub(crate) fn take_part(&mut self, part: Result<Vec<u8>, Errno>) -> bool {
        match part {
            Ok(data) if !data.is_empty() => {
                self.take(data);
                true
            }
            Err(Errno::INTR) => true,
            _ => false,
        }
    }

    /// Memory for bytes of a file, that is not needed any more.
    pub(crate) fn give_back(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }

    fn take(&mut self, mut data: Vec<u8>) {
        data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= data.len() as u64;
        self.offset += data.len() as u64;
        (self.data, self.data_sent) = (data, 0);
    }

    /// True if some of it was sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.head_sent > 0
    }

    /// Bytes of the body that were not sent.
    pub(crate) fn left(&self) -> u64 {
        self.left + self.data.len().saturating_sub(self.data_sent) as u64
    }
}

impl Body {
    fn of_error(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Body::Next,
            Errno::NAMETOOLONG | Errno::LOOP => Body::Short(Status::NOT_FOUND),
            // A link that leads out of the folder; a device without a driver.
            Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::NXIO => {
                Body::Short(Status::FORBIDDEN)
            }
            // Of descriptors or memory; a name that is being changed (openat2(2)).
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::CANCELED => {
                Body::Short(Status::UNAVAILABLE)
            }
            _ => Body::Short(Status::INTERNAL),
        }
    }
}
