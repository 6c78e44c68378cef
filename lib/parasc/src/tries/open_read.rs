//! A file's content in one request: open, attributes, read, close.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::job::Job;
use crate::op::{Attributes, Fstatat, Openat, Openat2, Pread, Statx};
use kumiki_calls::Request;

/// Room for a file that does not tell its length, as those of `/proc`.
const UNKNOWN_LENGTH: usize = 4096;

/// Opens a file, asks for its attributes, reads of it, and closes it or keeps it open: several
/// calls, each of which needs the one before, as one [`Job`]. Handed over they cost one
/// hand-over, and [attempted](crate::Engine::attempt) none, as far as all is in memory.
///
/// ```
/// use kumiki_parasc::op::CWD;
/// use kumiki_parasc::tries::OpenRead;
/// use kumiki_parasc::{Config, Engine};
///
/// let engine = Engine::new(&Config::default())?;
/// let opened = engine.attempt(OpenRead::new(CWD, c"/etc/passwd")).wait()?.output?;
/// assert!(opened.data.starts_with(b"root:"));
/// assert_eq!(opened.data.len() as u64, opened.attributes.size());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Of a regular file it reads up to the length that it had when asked; a file that has become
/// shorter gives fewer bytes. Of one that tells no length (`/proc`) it reads to the end. What is
/// not a regular file is opened and not read, or not even [opened](Self::look_first).
#[derive(Debug)]
pub struct OpenRead<F, P> {
    flags: OFlags,
    resolve: ResolveFlags,
    offset: u64,
    limit: usize,
    /// Bytes of a file that tells no length, if those of its range are not meant.
    unknown: Option<usize>,
    keep: Keep,
    looks: bool,
    /// Path of the file, as long as it has not been opened but looked at.
    looked_at: Option<(F, P)>,
    attributes: Option<Attributes>,
    data: Vec<u8>,
    file: Option<OwnedFd>,
    state: State<F, P>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box more would be an allocation a file")]
enum State<F, P> {
    /// State before the first request.
    New(F, P),
    Open(Openat<F, P>),
    /// State with a restriction, which openat(2) cannot be told of.
    Restricted(Openat2<F, P>),
    Stat(Statx<OwnedFd, &'static CStr>),
    /// Question by fstatat(2), where a filter or kernel knows no statx(2).
    OldStat(Fstatat<OwnedFd, &'static CStr>),
    Read(Pread<OwnedFd, Vec<u8>>),
    Done,
    Failed(OpenReadError),
    /// State while it changes.
    Between,
}

/// Files that stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    None,
    Unread,
    All,
}

/// A file that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The open file, if it is [kept](OpenRead::keep).
    pub file: Option<OwnedFd>,
    /// Its attributes just after it was opened.
    pub attributes: Attributes,
    /// Bytes that were read.
    pub data: Vec<u8>,
}

/// Call of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// openat(2), or openat2(2) with a [restriction](OpenRead::resolve).
    Open,
    /// statx(2), or fstatat(2) where that is refused.
    Attributes,
    /// pread(2)
    Read,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Open => "open",
            Step::Attributes => "statx",
            Step::Read => "pread64",
        })
    }
}

/// The call that has failed, and its error.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {errno}")]
pub struct OpenReadError {
    /// Call that has failed.
    pub step: Step,
    /// Kernel's answer.
    pub errno: Errno,
}

kumiki_sys::debug_is_display!(OpenReadError);

impl From<OpenReadError> for std::io::Error {
    fn from(error: OpenReadError) -> Self {
        error.errno.into()
    }
}

impl<F: AsFd, P: AsRef<CStr>> OpenRead<F, P> {
    /// The whole of the file at `path`, relative to `dir`, which is closed then.
    ///
    /// It is opened with `O_RDONLY`, `O_CLOEXEC` and `O_NONBLOCK`, so that a FIFO holds up
    /// nobody.
    pub fn new(dir: F, path: P) -> Self {
        OpenRead {
            flags: OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
            resolve: ResolveFlags::empty(),
            offset: 0,
            limit: usize::MAX,
            unknown: None,
            keep: Keep::None,
            looks: false,
            looked_at: None,
            attributes: None,
            data: Vec::new(),
            file: None,
            state: State::New(dir, path),
        }
    }

    /// Opens with these flags beside `O_CLOEXEC`: without `O_NONBLOCK` or
    /// `O_PATH` it is not tried.
    #[must_use]
    pub fn flags(self, flags: OFlags) -> Self {
        OpenRead { flags: flags | OFlags::CLOEXEC, ..self }
    }

    /// Restricts how the path is resolved, as by
    /// [`ResolveFlags::BENEATH`].
    #[must_use]
    pub fn resolve(self, resolve: ResolveFlags) -> Self {
        OpenRead { resolve, ..self }
    }

    /// Reads at most `limit` bytes from `offset` on; with 0 nothing is read.
    #[must_use]
    pub fn range(self, offset: u64, limit: usize) -> Self {
        OpenRead { offset, limit, ..self }
    }

    /// Reads of a file that tells no length from its start, and at most so many bytes, whatever
    /// the range: what there is of it nobody can say otherwise.
    #[must_use]
    pub fn unknown_length(self, limit: usize) -> Self {
        OpenRead { unknown: Some(limit), ..self }
    }

    /// Looks what it is before it is opened, by `O_PATH`, which opens nothing: only files and
    /// folders are. A FIFO's writer who waits for a reader does not get one that closes at once,
    /// a device does nothing, and who [attempts](crate::Engine::attempt) it asks no server: on a
    /// file system that may have one (FUSE, NFS) the open is handed over, though the name is in
    /// memory. What is not opened is [kept](Self::keep) as a descriptor of `O_PATH`.
    ///
    /// ```
    /// use kumiki_parasc::op::CWD;
    /// use kumiki_parasc::tries::OpenRead;
    /// use kumiki_parasc::{Config, Engine};
    ///
    /// let engine = Engine::new(&Config::default())?;
    /// let tape = engine.attempt(OpenRead::new(CWD, c"/dev/full").look_first()).wait()?.output?;
    /// assert!(tape.data.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// By its name again: should that lead elsewhere meanwhile, it is that which is opened. It
    /// costs an open, a statx(2) and a close(2) of `O_PATH` more.
    #[must_use]
    pub fn look_first(self) -> Self {
        OpenRead { looks: true, ..self }
    }

    /// Reads into this vector's memory, behind what it holds.
    #[must_use]
    pub fn into(self, data: Vec<u8>) -> Self {
        OpenRead { data, ..self }
    }

    /// Leaves the file open.
    #[must_use]
    pub fn keep(self) -> Self {
        OpenRead { keep: Keep::All, ..self }
    }

    /// Leaves open what is not a regular file: a FIFO's other end knows of this descriptor, so
    /// whoever reads it has to go on with it.
    #[must_use]
    pub fn keep_unread(self) -> Self {
        OpenRead { keep: Keep::Unread, ..self }
    }

    /// The open of what is there, or a look at it.
    fn open(&self, dir: F, path: P, looks: bool) -> State<F, P> {
        let of_names = OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let flags = if looks { self.flags & of_names | OFlags::PATH } else { self.flags };
        match self.resolve.is_empty() {
            true => State::Open(Openat::new(dir, path, flags, Mode::empty())),
            false => State::Restricted(Openat2::new(dir, path, flags, Mode::empty(), self.resolve)),
        }
    }

    /// Goes on after the open.
    fn opened(&mut self, opened: Result<OwnedFd, Errno>) {
        self.state = match opened {
            Ok(file) => {
                State::Stat(Statx::new(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS))
            }
            Err(errno) => State::Failed(OpenReadError { step: Step::Open, errno }),
        };
    }

    /// Goes on after the question for attributes.
    fn take_attributes(&mut self, file: OwnedFd, told: Result<Attributes, Errno>) {
        self.state = match (told, self.looked_at.take()) {
            (Ok(attributes), Some((dir, path))) => {
                self.attributes = Some(attributes);
                match attributes.file_type() {
                    FileType::RegularFile | FileType::Directory => self.open(dir, path, false),
                    _ => self.end(file),
                }
            }
            (Ok(attributes), None) => self.begin_read(file, attributes),
            (Err(errno), _) => State::Failed(OpenReadError { step: Step::Attributes, errno }),
        };
    }

    /// Attributes of the file, as far as it was opened already.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_ref()
    }

    /// Goes on after the file's attributes: reads of it, or not.
    fn begin_read(&mut self, file: OwnedFd, attributes: Attributes) -> State<F, P> {
        self.attributes = Some(attributes);
        let is_unknown = attributes.file_type() == FileType::RegularFile && attributes.size() == 0;
        if let Some(limit) = self.unknown.filter(|_| is_unknown) {
            (self.offset, self.limit) = (0, limit);
        }
        let left = attributes.size().saturating_sub(self.offset);
        let room = match (attributes.file_type(), attributes.size()) {
            _ if self.limit == 0 || self.flags.contains(OFlags::PATH) => 0,
            (FileType::RegularFile, 0) => UNKNOWN_LENGTH.min(self.limit),
            (FileType::RegularFile, _) => {
                usize::try_from(left).unwrap_or(self.limit).min(self.limit)
            }
            _ => 0,
        };
        if room == 0 {
            return self.end(file);
        }
        // What the kernel can be asked for at once, and no more memory than the file is long.
        let mut data = std::mem::take(&mut self.data);
        if data.try_reserve_exact(room).is_err() {
            return State::Failed(OpenReadError { step: Step::Read, errno: Errno::NOMEM });
        }
        State::Read(Pread::new(file, self.offset, data))
    }

    /// Goes on after a read of so many bytes.
    fn go_on_reading(&mut self, read: Pread<OwnedFd, Vec<u8>>, count: usize) -> State<F, P> {
        let (file, offset, mut data) = read.into_parts();
        let at = offset + count as u64;
        let done = (at - self.offset) as usize;
        let size = self.attributes.map_or(0, |attributes| attributes.size());
        let is_over = count == 0 || done >= self.limit || size != 0 && at >= size;
        if is_over {
            // A vector may have more room than it was asked for.
            data.truncate(data.len() - done.saturating_sub(self.limit));
            self.data = data;
            return self.end(file);
        }
        if data.len() == data.capacity()
            && data.try_reserve(data.len().min(self.limit - done)).is_err()
        {
            return State::Failed(OpenReadError { step: Step::Read, errno: Errno::NOMEM });
        }
        State::Read(Pread::new(file, at, data))
    }

    fn is_due(&self) -> bool {
        !matches!(self.state, State::New(..) | State::Between | State::Done | State::Failed(_))
    }

    fn end(&mut self, file: OwnedFd) -> State<F, P> {
        // Closed here, by the thread that has made the last call.
        let is_file = self.attributes.is_some_and(|it| it.file_type() == FileType::RegularFile);
        self.file = match self.keep {
            Keep::All => Some(file),
            Keep::Unread if !is_file => Some(file),
            _ => None,
        };
        State::Done
    }
}

// SAFETY: each request is that of an operation in `state`, which vouches for it and is neither
// moved nor touched until its result is there.
unsafe impl<F: AsFd, P: AsRef<CStr>> Job for OpenRead<F, P> {
    type Output = Result<Opened, OpenReadError>;

    fn request(&mut self) -> Request {
        if matches!(self.state, State::New(..)) {
            if let State::New(dir, path) = std::mem::replace(&mut self.state, State::Between) {
                self.state = self.open(dir, path, self.looks);
            }
        }
        match &mut self.state {
            State::Open(open) => open.request(),
            State::Restricted(open) => open.request(),
            State::Stat(stat) => stat.request(),
            State::OldStat(stat) => stat.request(),
            State::Read(read) => read.request(),
            // Asked though nothing is due: a call that does nothing.
            _ => Request::new(libc::SYS_getppid, []),
        }
    }

    unsafe fn goes_on(&mut self, ret_val: i64) -> bool {
        // Taken out of its place, where the kernel does not write any more, once it is complete.
        match &mut self.state {
            State::Open(open) => {
                // SAFETY: in each case the result of its request, the caller vouches.
                let opened = unsafe { open.complete(ret_val) };
                if std::mem::take(&mut self.looks) {
                    if let State::Open(open) = std::mem::replace(&mut self.state, State::Between) {
                        let (dir, path, ..) = open.into_parts();
                        self.looked_at = Some((dir, path));
                    }
                }
                self.opened(opened);
            }
            State::Restricted(open) => {
                // SAFETY: as above.
                let opened = unsafe { open.complete(ret_val) };
                if std::mem::take(&mut self.looks) {
                    if let State::Restricted(open) =
                        std::mem::replace(&mut self.state, State::Between)
                    {
                        self.looked_at = Some(open.into_parts());
                    }
                }
                self.opened(opened);
            }
            State::Stat(stat) => {
                // SAFETY: as above.
                let result = unsafe { stat.complete(ret_val) };
                let told = stat.attributes().copied();
                let State::Stat(stat) = std::mem::replace(&mut self.state, State::Between) else {
                    return false;
                };
                let (file, _) = stat.into_parts();
                match result {
                    // An answer about this very file is never one of these.
                    Err(Errno::NOSYS | Errno::PERM) => {
                        let old = Fstatat::new(file, c"", AtFlags::EMPTY_PATH);
                        self.state = State::OldStat(old);
                    }
                    result => self.take_attributes(file, result.and(told.ok_or(Errno::IO))),
                }
            }
            State::OldStat(stat) => {
                // SAFETY: as above.
                let result = unsafe { stat.complete(ret_val) };
                let told = stat.stat().map(Attributes::from);
                let State::OldStat(stat) = std::mem::replace(&mut self.state, State::Between)
                else {
                    return false;
                };
                let (file, _) = stat.into_parts();
                self.take_attributes(file, result.and(told.ok_or(Errno::IO)));
            }
            State::Read(read) => {
                // SAFETY: as above.
                let result = unsafe { read.complete(ret_val) };
                match result {
                    // Made again.
                    Err(Errno::INTR) => return true,
                    Err(errno) => {
                        self.state = State::Failed(OpenReadError { step: Step::Read, errno });
                    }
                    Ok(count) => {
                        let State::Read(read) = std::mem::replace(&mut self.state, State::Between)
                        else {
                            return false;
                        };
                        self.state = self.go_on_reading(read, count);
                    }
                }
            }
            _ => (),
        }
        self.is_due()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        if self.is_due() {
            // It was due and not made, or nobody knows.
            // SAFETY: the caller's promise.
            unsafe { self.goes_on(ret_val) };
        }
        match std::mem::replace(&mut self.state, State::Between) {
            State::Failed(error) => Err(error),
            State::Done => {
                let (file, data) = (self.file.take(), std::mem::take(&mut self.data));
                let attributes = self.attributes.take();
                let attributes =
                    attributes.ok_or(OpenReadError { step: Step::Attributes, errno: Errno::IO })?;
                Ok(Opened { file, attributes, data })
            }
            // Statx(2) was answered in place of a result: no other call is made for it.
            State::OldStat(_) => {
                let errno = Errno::from_raw_os_error(ret_val.unsigned_abs() as i32);
                Err(OpenReadError { step: Step::Attributes, errno })
            }
            // An answer in place of a result, which is an error of its step, has ended it.
            _ => Err(OpenReadError { step: Step::Open, errno: Errno::CANCELED }),
        }
    }
}
