//! What requests work on, and what must come of each.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use kumiki_parasc::Request;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;

use super::kind::Kind;
use super::{Scene, word};

/// One request on its way takes less; after that there is no message for it.
const RECEIVE: Duration = Duration::from_secs(10);

/// A file without a name, in which each write goes to the end.
fn appended() -> std::io::Result<File> {
    let file = tempfile::tempfile()?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// Files of one thread's own, and the one that all read.
pub(crate) struct Things {
    known: Arc<File>,
    /// Written to at its end only.
    pub(crate) file: File,
    counter: OwnedFd,
    sender: UnixStream,
    receiver: UnixStream,
    time: libc::timespec,
    parent: i64,
}

impl Things {
    pub(crate) fn new(scene: &Scene) -> Result<Self, String> {
        let (sender, receiver) = UnixStream::pair().map_err(|error| error.to_string())?;
        receiver.set_read_timeout(Some(RECEIVE)).map_err(|error| error.to_string())?;
        Ok(Things {
            known: Arc::clone(&scene.known),
            file: appended().map_err(|error| error.to_string())?,
            counter: eventfd(0, EventfdFlags::NONBLOCK).map_err(|error| error.to_string())?,
            sender,
            receiver,
            time: libc::timespec { tv_sec: 0, tv_nsec: 1000 },
            parent: i64::from(std::os::unix::process::parent_id()),
        })
    }

    /// A request that reads or writes at `address`: a byte if it is an `Append`,
    /// else a word. `number` goes with it: a place in a file, or nothing.
    pub(crate) fn request(&self, kind: Kind, address: u64, number: u64) -> Request {
        let descriptor = |fd: &dyn AsRawFd| fd.as_raw_fd() as u64;
        match kind {
            Kind::Getppid => Request::new(libc::SYS_getppid, []),
            Kind::Gettid => Request::new(libc::SYS_gettid, []),
            // Negative as an int.
            Kind::BadDescriptor => Request::new(libc::SYS_close, [number | 1 << 31]),
            Kind::Pread => {
                let known = descriptor(&self.known);
                Request::new(libc::SYS_pread64, [known, address, 8, number * 8])
            }
            Kind::Append => Request::new(libc::SYS_write, [descriptor(&self.file), address, 1]),
            Kind::Add => Request::new(libc::SYS_write, [descriptor(&self.counter), address, 8]),
            Kind::Nanosleep => Request::new(libc::SYS_nanosleep, [&raw const self.time as u64, 0]),
            Kind::Receive => {
                let receiver = descriptor(&self.receiver);
                Request::new(libc::SYS_recvfrom, [receiver, address, 8, 0, 0, 0])
            }
        }
    }

    /// Whether `result` is the answer to such a request, whose word was `sent`
    /// and has become `word`.
    pub(crate) fn check(&self, kind: Kind, sent: u64, result: i64, got: u64) -> Result<(), String> {
        let expected = match kind {
            _ if kind.is_interrupted(result) => result,
            Kind::Getppid => self.parent,
            Kind::Gettid => result.max(1),
            Kind::BadDescriptor => -i64::from(libc::EBADF),
            Kind::Pread | Kind::Add | Kind::Receive => 8,
            Kind::Append => 1,
            Kind::Nanosleep => 0,
        };
        let is_right = match kind {
            Kind::Pread => got == word(sent),
            Kind::Receive => !kind.is_interrupted(result) || got == sent,
            _ => got == sent,
        };
        if result == expected && is_right {
            return Ok(());
        }
        Err(format!("{kind:?}: answer {result} for {expected}, {sent} became {got}"))
    }

    /// Sends a message for a `Receive`.
    pub(crate) fn send(&self, message: u64) {
        let sent = (&self.sender).write_all(&message.to_ne_bytes());
        sent.expect("so few bytes always fit");
    }

    /// The messages that nobody has received. Requests must have ended.
    pub(crate) fn left_over(&self) -> Result<Vec<u64>, String> {
        self.sender.shutdown(std::net::Shutdown::Write).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        (&self.receiver).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let words = bytes.chunks(8).map(|word| word.try_into().map(u64::from_ne_bytes));
        words.collect::<Result<_, _>>().map_err(|_| "part of a message is left".to_owned())
    }

    /// The sum of what was added since this was asked last.
    pub(crate) fn sum(&self) -> Result<u64, String> {
        let mut sum = [0; 8];
        match rustix::io::read(&self.counter, &mut sum) {
            Ok(_) => Ok(u64::from_ne_bytes(sum)),
            // It is 0.
            Err(rustix::io::Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }
}
