//! From a request's head to its file: opens, second opens, lists of folders.

use std::ffi::CString;
use std::sync::Arc;

use kumiki_parasc::op::{Errno, Pread};
use kumiki_parasc::tries::{OpenRead, OpenReadError, attempt};
use rustix::fs::{FileType, OFlags};

use super::{CHUNK, Connection, Next, Surroundings};
use crate::answer::Body;
use crate::held::Held;
use crate::request::{Head, Method};
use crate::response::Status;
use crate::second::{Found, Stage, Why, longer, shorter};
use crate::site::Candidate;
use crate::work::{Done, Opened};

/// Looks for second opens that a request may cost.
const LOOKS: usize = 16;

impl Connection {
    /// Tries the request's candidates, from the one that is due.
    pub(super) fn open(&mut self, head: &Head<'_>, around: &mut Surroundings<'_>) -> Option<Next> {
        loop {
            let Some(candidate) = around.site.candidate(head, self.answer.candidate) else {
                self.answer_shortly(Status::NOT_FOUND, head.method == Method::Head, around);
                return None;
            };
            let (at, site) = (self.answer.candidate, around.site);
            let path = || site.candidate(head, at).map(|candidate| candidate.path);
            let made = match self.open_kept(head, &candidate, around) {
                Some(done) => Ok(done),
                None => {
                    let folder = &around.root.folder;
                    let open = self.answer.request(head, candidate.path, folder, CHUNK);
                    let made = around.files.open(self.number, open, folder, path);
                    // What says that it has no length is to be read anew each time.
                    if let Ok(Done::Opened(Ok(Opened { file, attributes, .. }))) = &made
                        && attributes.file_type() == FileType::RegularFile
                        && attributes.size() > 0
                        && let Some(path) = path()
                    {
                        around.kept.keep(path, file, attributes, around.now);
                    }
                    made
                }
            };
            match made {
                // What is kept open goes first.
                Ok(Done::Opened(Err(OpenReadError {
                    errno: Errno::MFILE | Errno::NFILE, ..
                }))) if around.kept.clear() => {}
                Ok(done) => {
                    if let Some(next) = self.opened(head, done, around) {
                        return next;
                    }
                }
                Err(work) => return Some(self.wait(work, around.now)),
            }
        }
    }

    /// The file that is kept open under the candidate's name, with its first bytes, if all of that is
    /// in memory.
    fn open_kept(
        &mut self,
        head: &Head<'_>,
        candidate: &Candidate,
        around: &mut Surroundings<'_>,
    ) -> Option<Done> {
        let found = around.kept.find(&*around.root.folder, candidate, around.now);
        let (file, attributes, described) = found?;
        let (start, limit) = self.answer.first_bytes(head, CHUNK);
        let left = attributes.size().saturating_sub(start);
        let bytes = usize::try_from(left).map_or(limit, |left| left.min(limit));
        let data = match bytes {
            0 => Vec::new(),
            bytes => {
                let mut room = around.kept.room(bytes);
                let read = attempt(&mut Pread::new(&*file, start, &mut room[..]));
                room.truncate(read.ok()?.ok()?);
                room
            }
        };
        let described = Some(described);
        Some(Done::Opened(Ok(Opened { file, attributes, data, described })))
    }

    /// Goes on after an open; `None` if the next candidate is due.
    fn opened(
        &mut self,
        head: &Head<'_>,
        done: Done,
        around: &mut Surroundings<'_>,
    ) -> Option<Option<Next>> {
        let Done::Opened(result) = done else { return Some(Some(Next::Close)) };
        if let Stage::Looking(why, length) = self.answer.stage {
            return self.looked(head, (why, length), result, around);
        }
        let candidate = around.site.candidate(head, self.answer.candidate)?;
        let lists = !around.site.args().no_list;
        let is_head = head.method == Method::Head;
        let (keeps_alive, clock) = (self.keeps_alive, &mut *around.clock);
        match self.answer.opened(head, &candidate, result, lists, keeps_alive, clock) {
            Body::Next => {
                self.answer.candidate += 1;
                return None;
            }
            Body::Look(why) => {
                let length = candidate.path.count_bytes();
                return self.look(head, why, (candidate.path, length), around);
            }
            Body::Ready => self.begin_sending(around.now),
            Body::Short(status) => self.answer_shortly(status, is_head, around),
            Body::Folder(folder) => {
                self.answer.share = Some(around.pages.share());
                return Some(self.list(head, folder, around));
            }
        }
        Some(None)
    }

    /// Looks at what an open was refused, for a second one: at this part of its path.
    fn look(
        &mut self,
        head: &Head<'_>,
        why: Why,
        (path, length): (CString, usize),
        around: &mut Surroundings<'_>,
    ) -> Option<Option<Next>> {
        let root = Arc::clone(around.root);
        let look = why.look(&root.folder, path.clone());
        self.answer.stage = Stage::Looking(why, length);
        self.answer.looks += 1;
        self.open_by(head, look, &root.folder, path, around)
    }

    /// Goes on after that look: the second open, or a look at less of the path.
    fn looked(
        &mut self,
        head: &Head<'_>,
        (why, length): (Why, usize),
        result: Result<Opened, OpenReadError>,
        around: &mut Surroundings<'_>,
    ) -> Option<Option<Next>> {
        let root = Arc::clone(around.root);
        let path = around.site.candidate(head, self.answer.candidate)?.path;
        let found = match result {
            Ok(opened) => why.found(&root.folder, opened),
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::NOTDIR) => {
                match shorter(&path, length).filter(|_| self.answer.looks < LOOKS) {
                    Some(part) => return self.look(head, why, part, around),
                    None => Found::Other,
                }
            }
            Err(_) => Found::Other,
        };
        let (open, path) = match found {
            Found::Path(found) => {
                let path = longer(found, &path, length);
                let open = self.answer.request(head, path.clone(), &root.folder, CHUNK);
                (open, path)
            }
            Found::File(file, name) => {
                // Without O_NONBLOCK: it waits for the lease, and is not tried before.
                let open = OpenRead::new(file, name).flags(OFlags::RDONLY);
                (self.answer.wanted(head, open, CHUNK), path)
            }
            Found::Other => {
                self.answer_shortly(why.status(), head.method == Method::Head, around);
                return Some(None);
            }
        };
        self.answer.stage = Stage::Second;
        self.open_by(head, open, &root.folder, path, around)
    }

    fn open_by(
        &mut self,
        head: &Head<'_>,
        open: OpenRead<Arc<Held>, CString>,
        folder: &Held,
        path: CString,
        around: &mut Surroundings<'_>,
    ) -> Option<Option<Next>> {
        match around.files.open(self.number, open, folder, || Some(path)) {
            Ok(done) => self.opened(head, done, around),
            Err(work) => Some(Some(self.wait(work, around.now))),
        }
    }

    /// Reads a folder's entries, as many parts as there are.
    fn list(
        &mut self,
        head: &Head<'_>,
        folder: Arc<Held>,
        around: &mut Surroundings<'_>,
    ) -> Option<Next> {
        let mut room = Vec::with_capacity(CHUNK);
        loop {
            match around.files.entries(self.number, &folder, room) {
                Ok(Done::Entries(part)) => {
                    if self.listed(head, part, around) {
                        return None;
                    }
                    room = Vec::with_capacity(CHUNK);
                }
                Ok(_) => return Some(Next::Close),
                Err(work) => {
                    self.answer.folder = Some(folder);
                    return Some(self.wait(work, around.now));
                }
            }
        }
    }

    /// Takes a part of a folder's entries; true if it was the last, and an answer is to be sent.
    fn listed(
        &mut self,
        head: &Head<'_>,
        part: Result<Vec<u8>, Errno>,
        around: &mut Surroundings<'_>,
    ) -> bool {
        let made = match self.answer.listed(part, around.site.args().hide_dot) {
            Ok(true) => return false,
            Ok(false) => self.answer.page(head, self.keeps_alive, around.clock),
            Err(errno) => Err(errno),
        };
        let is_head = head.method == Method::Head;
        match made {
            Ok(()) => self.begin_sending(around.now),
            Err(Errno::NOMEM) => self.answer_shortly(Status::UNAVAILABLE, is_head, around),
            Err(_) => self.answer_shortly(Status::INTERNAL, is_head, around),
        }
        true
    }

    pub(super) fn looked_up(
        &mut self,
        head: &Head<'_>,
        done: Done,
        around: &mut Surroundings<'_>,
    ) -> Option<Next> {
        match (done, self.answer.folder.take()) {
            (Done::Entries(part), Some(folder)) => match self.listed(head, part, around) {
                true => None,
                false => self.list(head, folder, around),
            },
            (done, _) => self.opened(head, done, around).unwrap_or_else(|| self.open(head, around)),
        }
    }
}
