//! POSIX message queues (`mq_overview(7)`).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::caller::Caller;
use super::transport::{Direction, Transport};
use kumiki_measure::error::{Error, Result, last_errno};

/// Messages that a queue holds: below the default limit of 10.
const DEPTH: libc::c_long = 8;

/// One queue each way. They have no name any more once they are open, so
/// closing is all it takes to be rid of them.
pub(super) struct Queues([OwnedFd; 2]);

impl Queues {
    /// Opens both for messages of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a limit forbids it; the text names the limit.
    pub(super) fn open(bytes: u64) -> Result<Self> {
        Ok(Queues([open(bytes)?, open(bytes)?]))
    }
}

fn open(bytes: u64) -> Result<OwnedFd> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let process = rustix::process::getpid();
    let name = format!("/kumiki-{process}-{}", SERIAL.fetch_add(1, Ordering::Relaxed));
    let refused = |needs: String| {
        Err(Error::unsupported(
            format!("a message queue for {DEPTH} messages of {bytes} bytes"),
            needs,
        ))
    };
    let Ok(size) = libc::c_long::try_from(bytes) else {
        return refused("a smaller size".into());
    };
    let c_name = CString::new(name.as_str()).expect("digits and letters");
    // SAFETY: all-zero bytes are a valid `mq_attr`, a struct of integers.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = DEPTH;
    attributes.mq_msgsize = size;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the name ends in a zero byte; with O_CREAT the call takes a mode
    // and a pointer to attributes, which are initialised.
    let queue =
        unsafe { libc::mq_open(c_name.as_ptr(), flags, 0o600 as libc::mode_t, &attributes) };
    if queue < 0 {
        let error = io::Error::last_os_error();
        return match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => refused("a kernel with CONFIG_POSIX_MQUEUE".into()),
            Some(Errno::INVAL) => refused(format!(
                "sizes up to fs.mqueue.msgsize_max ({}) and fs.mqueue.msg_max ({}) of at least {DEPTH}",
                limit("msgsize_max"),
                limit("msg_max")
            )),
            Some(Errno::MFILE | Errno::NOMEM) => {
                refused("more room in RLIMIT_MSGQUEUE (`ulimit -q`), or smaller messages".into())
            }
            Some(Errno::NOSPC) => {
                refused(format!("a free queue: fs.mqueue.queues_max is {}", limit("queues_max")))
            }
            _ => Err(Error::os(format!("open message queue {name}"), error)),
        };
    }
    // SAFETY: on Linux a queue descriptor is a file descriptor (mq_overview(7),
    // "Linux implementation details"), new and owned by nobody else.
    let queue = unsafe { OwnedFd::from_raw_fd(queue) };
    // SAFETY: the name ends in a zero byte.
    if unsafe { libc::mq_unlink(c_name.as_ptr()) } < 0 {
        return Err(Error::last_os(format!("unlink message queue {name}")));
    }
    Ok(queue)
}

/// The value of a limit, as text for a person.
fn limit(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}"));
    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

impl Transport for Queues {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, message: &[u8]) -> Result<(), C::Error> {
        let queue = self.0[way as usize].as_raw_fd();
        caller.call("send to a message queue", || {
            // SAFETY: the kernel reads `len` bytes of `message`.
            match unsafe { libc::mq_send(queue, message.as_ptr().cast(), message.len(), 0) } {
                0 => Ok(()),
                _ => Err(last_errno()),
            }
        })
    }

    #[inline]
    fn receive<C: Caller>(
        &self,
        caller: &C,
        way: Direction,
        message: &mut [u8],
    ) -> Result<(), C::Error> {
        let queue = self.0[way as usize].as_raw_fd();
        caller.call("receive from a message queue", || {
            let (start, room) = (message.as_mut_ptr().cast(), message.len());
            // SAFETY: the kernel writes at most `room` bytes into `message`; a
            // null priority is not written.
            match unsafe { libc::mq_receive(queue, start, room, ptr::null_mut()) } {
                -1 => Err(last_errno()),
                received if received as usize == room => Ok(()),
                _ => Err(Errno::BADMSG),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_a_message_is_a_typed_skip() {
        for bytes in [1 << 40, u64::MAX] {
            let outcome = Queues::open(bytes).map(drop);
            assert!(matches!(outcome, Err(Error::Unsupported { .. })), "{outcome:?}");
        }
    }
}
