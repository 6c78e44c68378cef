//! The tree seen from outside: a process publishes its interface at a socket that only its
//! user can reach, and others list what it has.
//!
//! A client connects, sends a pattern and a line's end, and gets the listing as one JSON
//! array, or an object with the word `error`. The socket is
//! `$XDG_RUNTIME_DIR/kumiki/PID.sock`, or `/tmp/kumiki-UID/PID.sock` where that is not set.
//!
//! Neither side trusts the other: what one sends is bounded in bytes, and in time from the
//! first byte to the last, so that a peer which stops, trickles or floods costs some seconds
//! and some megabytes; and what a listing says is checked before it is believed (`reply.rs`).

mod ask;
mod reply;
mod sockets;
mod timed;

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_crew::with_signals_blocked;
use kumiki_sys::fork::Process;
use rustix::io::Errno;
use rustix::net::Shutdown;

pub use self::ask::{Answers, ls_in, ls_of, ls_of_each};
use self::reply::Reply;
pub use self::reply::{MOST_BYTES, parse};
use self::sockets::{LONGEST, PATIENCE, connect, path_of, trusted};
pub use self::sockets::{folder, processes};
use self::timed::Timed;
use crate::error::{Error, Result};
use crate::here;
use crate::interface::Interface;
use crate::list::Pattern;

/// Held while a thread looks whether this process publishes, and begins to.
static PUBLISHING: Mutex<()> = Mutex::new(());

/// Time that a server waits for the whole request, which a client sends at once: others wait
/// meanwhile.
const REQUEST: Duration = Duration::from_secs(1);
/// Time that all places together may take: less, so that the client is told which one does not
/// answer.
const LISTING: Duration = Duration::from_secs(3);
/// Pause after a failure to take a client, such as no descriptor left.
const RETRY: Duration = Duration::from_millis(100);

/// A published interface: as long as the value lives, other processes of the same user can list it.
/// A child of fork(2) has the value but publishes nothing.
#[derive(Debug)]
pub struct Published {
    process: Process,
    path: PathBuf,
    listener: UnixListener,
    thread: Option<JoinHandle<()>>,
}

impl Interface {
    /// Lets other processes of the same user list this interface and what else of this
    /// process serves (its [tree](Self::tree)), until the value is dropped:
    /// `kumiki resource ls` shows it. An interface without kinds and places will do.
    ///
    /// # Errors
    /// The socket cannot be made, or this process has one already.
    pub fn publish(&self) -> Result<Published> {
        self.publish_in(&folder()?)
    }

    /// Publishes with the socket in another folder, which is made if need be: for a
    /// process whose users look there.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_in(&self, folder: &Path) -> Result<Published> {
        let process = Process::current()?;
        let path = path_of(trusted(folder)?, std::process::id());
        let failed = |what| {
            let path = path.clone();
            move |source| Error::Socket { what, path, source }
        };
        // Two threads that looked at the same time would both find nobody there.
        let _one = PUBLISHING.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(connect(&path), Ok(_) | Err(Errno::AGAIN)) {
            return Err(failed("publishing a second interface of this process")(
                rustix::io::Errno::ADDRINUSE.into(),
            ));
        }
        // Left by a process of the same number that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed("making the socket"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .map_err(failed("keeping others from the socket"))?;
        let (theirs, interface) =
            (listener.try_clone().map_err(failed("sharing the socket"))?, self.clone());
        let builder = Builder::new().name("kumiki-names".to_owned());
        let thread = with_signals_blocked(|| builder.spawn(move || serve(&theirs, &interface)))
            .map_err(failed("starting the thread of the socket"))?;
        Ok(Published { process, path, listener, thread: Some(thread) })
    }
}

impl Published {
    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.process.is_current() {
            // The socket and its thread are the parent's.
            return mem::forget(thread);
        }
        // Wakes the thread out of accept(2), which fails from then on.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        // It may be waiting for the place that this thread manages.
        here::wait_until(|| thread.is_finished());
        let _ = thread.join();
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, interface: &Interface) {
    loop {
        match listener.accept() {
            // A client that goes away is its own affair.
            Ok((client, _)) => _ = answer(client, interface),
            // It was shut down.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => return,
            Err(_) => thread::sleep(RETRY),
        }
    }
}

fn answer(client: UnixStream, interface: &Interface) -> io::Result<()> {
    let mut pattern = String::new();
    let request = Timed::new(&client, REQUEST).take(LONGEST as u64);
    if BufReader::new(request).read_line(&mut pattern)? == 0 {
        // It only looked whether there is somebody.
        return Ok(());
    }
    let pattern = Pattern::new(pattern.trim_end_matches('\n'));
    let listing = pattern.and_then(|p| interface.tree_until(&p, Instant::now() + LISTING));
    let reply = Reply::of(listing).text()?;
    Timed::new(&client, PATIENCE).write_all(reply.as_bytes())
}
