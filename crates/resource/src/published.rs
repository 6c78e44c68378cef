//! The tree seen from outside: a process publishes its interface at a socket that only its
//! user can reach, and others list what it has.
//!
//! A client connects, sends a pattern and a line's end, and gets the listing as one JSON
//! array, or an object with the word `error`. The socket is
//! `$XDG_RUNTIME_DIR/kumiki/PID.sock`, or `/tmp/kumiki-UID/PID.sock` where that is not set.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_crew::with_signals_blocked;
use kumiki_sys::fork::Process;
use rustix::io::Errno;
use rustix::net::Shutdown;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::here;
use crate::interface::Interface;
use crate::list::{Listed, Pattern};

/// The longest request, bytes.
const LONGEST: u64 = 4096;
/// For how long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// For how long all places together may take: less, so that the client is told which one
/// does not answer.
const LISTING: Duration = Duration::from_secs(3);
/// After a failure to take a client, such as no descriptor left.
const RETRY: Duration = Duration::from_millis(100);

/// What a client gets.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Reply {
    Listing(Vec<Listed>),
    Refusal { error: String },
}

/// As long as it lives, other processes of the same user can list the interface. A child of
/// fork(2) has the value but publishes nothing.
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

    /// The same with the socket in another folder, which is made if need be: for a
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
        if UnixStream::connect(&path).is_ok() {
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
    /// Where the socket is.
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

fn answer(mut client: UnixStream, interface: &Interface) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut pattern = String::new();
    if BufReader::new((&client).take(LONGEST)).read_line(&mut pattern)? == 0 {
        // It only looked whether there is somebody.
        return Ok(());
    }
    let pattern = Pattern::new(pattern.trim_end_matches('\n'));
    let listing = pattern.and_then(|p| interface.tree_until(&p, Instant::now() + LISTING));
    let reply = match listing {
        Ok(listing) => Reply::Listing(listing),
        Err(error) => Reply::Refusal { error: error.to_string() },
    };
    client.write_all(serde_json::to_string(&reply)?.as_bytes())
}

/// The processes of this user that publish an interface, by their numbers.
///
/// # Errors
/// The folder of sockets cannot be read.
pub fn processes() -> Result<Vec<u32>> {
    let folder = folder()?;
    let failed =
        |source| Error::Socket { what: "reading the folder", path: folder.clone(), source };
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let process = name.to_str().and_then(|name| name.strip_suffix(".sock"));
        let Some(process) = process.and_then(|process| process.parse().ok()) else { continue };
        match UnixStream::connect(path_of(&folder, process)) {
            // Its process was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(path_of(&folder, process));
            }
            _ => all.push(process),
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// What `process` has.
///
/// # Errors
/// It publishes nothing, does not answer, or refuses the pattern.
pub fn ls_of(process: u32, pattern: &str) -> Result<Vec<Listed>> {
    let path = path_of(&folder()?, process);
    let failed = |what| {
        let path = path.clone();
        move |source| Error::Socket { what, path, source }
    };
    let mut server = UnixStream::connect(&path).map_err(failed("asking the process"))?;
    let mut exchange = || -> io::Result<String> {
        server.set_read_timeout(Some(PATIENCE))?;
        server.set_write_timeout(Some(PATIENCE))?;
        server.write_all(format!("{pattern}\n").as_bytes())?;
        let mut reply = String::new();
        server.read_to_string(&mut reply)?;
        Ok(reply)
    };
    let reply = exchange().map_err(failed("the answer of the process"))?;
    match serde_json::from_str(&reply) {
        Ok(Reply::Listing(listing)) => Ok(listing),
        Ok(Reply::Refusal { error }) => Err(Error::Refused { process, error }),
        Err(error) => Err(failed("the answer of the process")(error.into())),
    }
}

fn path_of(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.sock"))
}

/// The folder of sockets, which nobody else can write to; made if need be.
fn folder() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("kumiki"),
        _ => PathBuf::from(format!("/tmp/kumiki-{user}")),
    };
    trusted(&folder)?;
    Ok(folder)
}

/// This folder, if nobody else can write to it.
fn trusted(folder: &Path) -> Result<&Path> {
    let user = rustix::process::getuid().as_raw();
    let failed = |what| {
        let path = folder.to_owned();
        move |source| Error::Socket { what, path, source }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed("making the folder"))?;
    let about = fs::symlink_metadata(folder).map_err(failed("looking at the folder"))?;
    if !about.is_dir() || about.uid() != user || about.mode() & 0o022 != 0 {
        let text = "it is another user's, or others may write to it";
        return Err(failed("trusting the folder")(io::Error::other(text)));
    }
    Ok(folder)
}
