//! RocksDB with `kumiki://` beside its own file system: clients that each know what their keys hold,
//! while files are cold and cut, and the process is stopped, killed and started anew, by the one file
//! system on what the other has written.

mod build;
mod client;
mod cutter;
mod words;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::Signal;

use crate::child::Server;
use crate::faults::{self, Calm, Fault};
use crate::ground::{Ground, make_cold};
use crate::soak::Soak;
use build::Built;
pub(crate) use build::prepare;
use client::Client;
use cutter::Cutter;

/// Clients of each database.
const CLIENTS: u64 = 4;
/// File systems and whether reads are direct, as they are drawn.
const WAYS: [(&str, &str); 5] = [
    ("kumiki://", "cached"),
    ("kumiki://", "direct"),
    ("kumiki://threads", "direct"),
    ("posix://", "cached"),
    ("posix://", "direct"),
];

/// A database, and the process that serves it.
struct Database {
    /// `ours` begins with our file system and stays with it, `both` changes.
    name: &'static str,
    folder: PathBuf,
    cut: PathBuf,
    socket: PathBuf,
    server: Mutex<Option<Server>>,
}

impl Database {
    fn new(ground: &Ground, name: &'static str) -> Database {
        let path = |kind: &str| ground.path(&format!("{kind}-{name}"));
        let (folder, cut, socket) = (path("db"), path("cut"), path("socket"));
        Database { name, folder, cut, socket, server: Mutex::default() }
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it by a file system that is drawn.
    fn start(&self, soak: &Soak, built: &Built, rng: &mut Rng) -> Result<()> {
        let ways = if self.name == "ours" { &WAYS[..3] } else { &WAYS[..] };
        let (uri, reads) = ways[rng.usize(..ways.len())];
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&built.program);
        command.args([&self.socket, &self.folder, &self.cut]).args([uri, reads]);
        command.env("LD_PRELOAD", &built.library);
        let (server, _) = Server::of(command, |line| line == "it serves")?;
        soak.watch_process(server.pid());
        soak.count(&format!("opened by {uri}, {reads}"));
        *self.server() = Some(server);
        Ok(())
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = [&self.folder, &self.cut].into_iter().filter_map(|of| of.read_dir().ok());
        entries.flatten().flatten().map(|entry| entry.path()).collect()
    }
}

pub(crate) fn soak(soak: &'static Soak, ground: &Ground) -> Result<()> {
    let built = Built::of(&std::path::absolute(ground.within()).context("the folder")?);
    let databases = ["ours", "both"].map(|name| Database::new(ground, name));
    let mut rng = soak.rng(1 << 33);
    for database in &databases {
        database.start(soak, &built, &mut rng)?;
    }
    std::thread::scope(|threads| {
        for (at, database) in databases.iter().enumerate() {
            let (at, built) = (at as u64, &built);
            for number in at * CLIENTS..(at + 1) * CLIENTS {
                let client = Client::new(soak, database.socket.clone(), database.name, number);
                threads.spawn(|| client.run());
            }
            let cutter = Cutter {
                soak,
                socket: database.socket.clone(),
                folder: database.cut.clone(),
                way: database.name,
                rng: soak.rng(100 + at),
            };
            threads.spawn(|| cutter.run());
            threads.spawn(move || {
                let all = vec![stopped(database), killed(soak, database, built)];
                faults::draw_with_rests(soak, &Calm::default(), all, Duration::from_secs(2));
            });
            threads
                .spawn(move || faults::draw(soak, vec![cold(database)], Duration::from_millis(20)));
        }
        soak.guard();
    });
    for database in &databases {
        let server = database.server().take().context("no server")?;
        soak.forget_process(server.pid());
        // It ends with the thread that has started it, and that one draws no faults any more.
        if let Some(status) = server.ended().filter(|status| status.signal() != Some(9)) {
            soak.fail(&format!("the database has ended, {status}: {}", server.said().join(" | ")));
        }
        for what in ["written", "read", "read, many at once", "read in order"] {
            let what = format!("{what}, {}", database.name);
            ensure!(soak.counted(&what) > 0, "nothing was {what}");
        }
    }
    // Of one that is just made anew there may be none.
    for what in ["tables cut", "read right around a cut", "refused of a cut table"] {
        let counted = |database: &Database| soak.counted(&format!("{what}, {}", database.name));
        ensure!(databases.iter().map(counted).sum::<u64>() > 0, "nothing was {what}");
    }
    Ok(())
}

fn stopped(database: &Database) -> Fault<'_> {
    Fault::new("stopped by SIGSTOP", |rng| {
        let server = database.server();
        let server = server.as_ref().context("no server")?;
        server.signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        server.signal(Signal::SIGCONT)
    })
}

fn killed<'a>(soak: &'a Soak, database: &'a Database, built: &'a Built) -> Fault<'a> {
    Fault::new("killed and opened anew", move |rng| {
        let server = database.server().take().context("no server")?;
        server.look(soak);
        server.signal(Signal::SIGKILL)?;
        server.wait(Duration::from_secs(60))?;
        soak.forget_process(server.pid());
        database.start(soak, built, rng)
    })
}

/// Has the kernel forget some files; those that have gone meanwhile are as cold as can be.
fn cold(database: &Database) -> Fault<'_> {
    Fault::new("files cold", |rng| {
        for path in database.files() {
            if rng.bool() {
                forget(&path)?;
            }
        }
        Ok(())
    })
}

fn forget(path: &Path) -> Result<()> {
    match make_cold(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}
