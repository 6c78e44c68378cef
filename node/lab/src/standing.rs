//! Machines that stay: one process keeps each, others reach it by a socket.
//!
//! The keeper relays frames between its clients and the agent: a command has a
//! stream on either side. A client that goes away, however it ends, takes its
//! commands with it.

use std::fs;
use std::io::ErrorKind::AlreadyExists;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_stream::frame::decode;
use kumiki_stream::{Kind, Link, MOST_STREAMS, Mux, Side, relay};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::log::KernelLog;
use crate::machine::{LOG, Machine};
use crate::place::{LOCK, Place, UNNAMED, is_left_over, remove_left_over, root, sweep};
use crate::talk::Talk;
use crate::wish::Wish;

const SOCKET: &str = "socket";
const ABOUT: &str = "about.json";
const BEING_STARTED: &str = "it is being started: wait for the `kumiki lab up` that does it";
/// Interval at which the keeper looks whether its machine still runs.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a keeper may take to end its machine.
const DOWN_LIMIT: Duration = Duration::from_secs(20);

/// A machine that stays, as [`list`] shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct About {
    /// Its name.
    pub name: String,
    /// True if it runs; otherwise it has ended by itself, and [`down`] removes its remains.
    pub running: bool,
    /// Its kernel's version.
    pub kernel: String,
    /// Number of cpus.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// True if the processor runs it, not QEMU's emulation.
    pub kvm: bool,
    /// The process that keeps it.
    pub keeper: u32,
    /// Seconds from QEMU's start to the agent's first word.
    pub start_s: f64,
}

/// Starts a machine and keeps it until somebody calls [`down`] or it ends;
/// `ready` is called once commands can be run, and if it fails nobody wants the machine
/// any more. Meant for a process of its own.
pub fn keep(
    name: &str,
    cache: &Cache,
    config: &Config,
    talk: Talk<'_>,
    ready: impl FnOnce(&About) -> std::io::Result<()>,
) -> Result<()> {
    check(name)?;
    let folder = root()?.join(name);
    match about(&folder) {
        Ok(other) => {
            let what =
                if other.running { "it runs already" } else { "what an ended one left is there" };
            return Err(lab(name, format!("{what}; `kumiki lab down {name}` removes it")));
        }
        Err(error) if folder.exists() => return Err(error),
        Err(_) => {}
    }
    let place = || {
        Place::named(name).map_err(|error| match error {
            Error::File { source, .. } if source.kind() == AlreadyExists => {
                lab(name, BEING_STARTED)
            }
            other => other,
        })
    };
    let machine = Machine::start_at(place, cache, config, talk)?;
    let folder = machine.place().folder().to_owned();
    let times = machine.times();
    let about = About {
        name: name.to_owned(),
        running: true,
        kernel: machine.kernel().version.clone(),
        cpus: config.cpus,
        memory_bytes: config.memory_bytes,
        kvm: times.kvm,
        keeper: std::process::id(),
        start_s: times.start.as_secs_f64(),
    };
    let socket = folder.join(SOCKET);
    let listener = UnixListener::bind(&socket).map_err(Error::file("listening on", &socket))?;
    let file = folder.join(ABOUT);
    let text = serde_json::to_string(&about).expect("it is plain data");
    fs::write(&file, text).map_err(Error::file("writing", &file))?;
    if let Err(source) = ready(&about) {
        machine.shut_down(0)?;
        return Err(Error::Stream { what: "that the machine is up", source });
    }
    let (down, asked) = channel();
    let guest = machine.guest().clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (guest, down) = (guest.clone(), down.clone());
            thread::spawn(move || serve(client, &guest, &down));
        }
    });
    loop {
        match asked.recv_timeout(LOOK) {
            Ok(()) => return machine.shut_down(0),
            // Somebody has removed it, and nobody can reach us any more.
            Err(RecvTimeoutError::Timeout) if !socket.exists() => return machine.shut_down(0),
            Err(RecvTimeoutError::Timeout) if !machine.guest().is_over() => {}
            Err(_) => {
                machine.keep_log();
                machine.leave_place();
                return Ok(());
            }
        }
    }
}

/// The way into a machine that stays.
pub fn connect(name: &str) -> Result<Guest> {
    check(name)?;
    let folder = root()?.join(name);
    let about = about(&folder)?;
    let log = KernelLog::at(folder.join(LOG));
    if !about.running {
        let last = log.tail().pop().unwrap_or_default();
        return Err(lab(name, format!("it has ended; its log's last line: {last}")));
    }
    let socket = folder.join(SOCKET);
    let reader = UnixStream::connect(&socket).map_err(Error::file("connecting to", &socket))?;
    let writer = reader.try_clone().map_err(Error::file("connecting to", &socket))?;
    Ok(Guest::over(reader, writer, log, None)?.0)
}

/// The kernel log of a machine that stays, or stayed.
pub fn log_text(name: &str) -> Result<String> {
    check(name)?;
    let folder = root()?.join(name);
    about(&folder)?;
    Ok(KernelLog::at(folder.join(LOG)).text())
}

/// All machines that stay, and those that have ended and not been removed.
pub fn list() -> Result<Vec<About>> {
    let root = root()?;
    sweep(&root)?;
    let entries = fs::read_dir(&root).map_err(Error::file("reading", &root))?.flatten();
    let named = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with(UNNAMED));
    let mut labs: Vec<About> = named.filter_map(|entry| about(&entry.path()).ok()).collect();
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// Ends a machine that stays and removes what it leaves.
pub fn down(name: &str) -> Result<()> {
    check(name)?;
    let folder = root()?.join(name);
    if !folder.exists() {
        return Err(lab(name, "there is none of this name; `kumiki lab ls` lists them"));
    }
    let begin = Instant::now();
    let socket = folder.join(SOCKET);
    if !is_left_over(&folder) {
        let client = UnixStream::connect(&socket).map_err(Error::file("connecting to", &socket))?;
        let writer = client.try_clone().map_err(Error::file("connecting to", &socket))?;
        let log = KernelLog::at(folder.join(LOG));
        let _asked = Guest::over(client, writer, log, None)?.0.open(&Wish::PowerOff(0))?;
        while !is_left_over(&folder) {
            if begin.elapsed() > DOWN_LIMIT {
                let what = format!("ending the lab `{name}`");
                return Err(Error::TimeLimit { what, limit: DOWN_LIMIT });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("removing", folder)(error))
        }
        _ => Ok(()),
    }
}

fn about(folder: &Path) -> Result<About> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let missing =
        "there is none of this name; `kumiki lab ls` lists them, `kumiki lab up` starts one";
    if !folder.is_dir() {
        return Err(lab(&name, missing));
    }
    let running = !is_left_over(folder);
    let file = folder.join(ABOUT);
    match fs::read_to_string(&file) {
        Ok(text) => {
            let about: About = serde_json::from_str(&text)
                .map_err(|error| Error::malformed(file.display(), error))?;
            Ok(About { running, ..about })
        }
        Err(_) if running => Err(lab(&name, BEING_STARTED)),
        // Its keeper was killed while it started.
        Err(_) => {
            remove_left_over(&root()?, folder)?;
            Err(lab(&name, missing))
        }
    }
}

/// Serves one client: carries on what it asks of the machine.
fn serve(client: UnixStream, guest: &Guest, down: &Sender<()>) {
    let Ok(writer) = client.try_clone() else { return };
    let Ok((_client, incoming)) = Mux::over(Side::Far, MOST_STREAMS, client, writer) else {
        return;
    };
    while let Some(near) = incoming.next() {
        let Ok(Some((Kind::Open, body))) = near.receive() else { return };
        match decode(Kind::Open, &body) {
            Ok(Wish::PowerOff(_)) => _ = down.send(()),
            Ok(Wish::Run(..)) => {
                let Ok(far) = guest.open_with(&body) else { return };
                // Whichever ends takes the other one along.
                thread::spawn(move || relay(&near, &far));
            }
            Err(_) => return,
        }
    }
}

fn check(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_ours = name == LOCK || name.starts_with(UNNAMED);
    if name.is_empty() || name.len() > 40 || !name.bytes().all(plain) || is_ours {
        let rule = format!(
            "a name has 1 to 40 of a-z, A-Z, 0-9, - and _, is not {LOCK} and does not begin \
             with {UNNAMED}"
        );
        return Err(lab(name, rule));
    }
    Ok(())
}

fn lab(name: &str, reason: impl ToString) -> Error {
    Error::Lab { name: name.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["lab", "a-1_B", &"x".repeat(40)] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "../x", "a b", "run-1", "lock", "lock.", &"x".repeat(41)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
