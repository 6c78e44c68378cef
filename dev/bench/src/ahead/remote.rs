//! A file system of another machine, as sshfs has it: its server's answers come after a set time, any number at once.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::SlowFolder;
use super::disk::fill;
use super::image::ran;

const SERVER: &str = "/usr/lib/openssh/sftp-server";
const FILES: usize = 900;
/// Time until it is mounted, and tries within that.
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 500;

/// The two ends, and threads between them that hand each piece on half of the time later.
struct Session {
    server: Child,
    client: Child,
}

/// The folder that is served, and where it is mounted.
pub(super) struct SshFolder {
    folder: TempDir,
    session: Option<Session>,
}

impl SshFolder {
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["served/tree", "mnt"] {
            std::fs::create_dir_all(folder.path().join(name))?;
        }
        fill(&folder.path().join("served/tree"), FILES)?;
        Ok(SshFolder { folder, session: None })
    }

    fn end(&mut self) -> Result<()> {
        if let Some(mut session) = self.session.take() {
            ran(Command::new("umount").arg(self.path()))?;
            session.client.wait()?;
            session.server.kill()?;
            session.server.wait()?;
        }
        Ok(())
    }
}

impl SlowFolder for SshFolder {
    fn path(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn anew(&mut self, answer: Duration) -> Result<()> {
        self.end()?;
        let session = begin(&self.folder.path().join("served"), &self.path(), answer / 2)?;
        self.session = Some(session);
        let is_mounted = (0..STEPS).any(|_| {
            sleep(STEP);
            self.path().join("tree").exists()
        });
        ensure!(is_mounted, "sshfs has mounted nothing within {:?}", STEP * STEPS);
        Ok(())
    }
}

impl Drop for SshFolder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn begin(served: &Path, at: &Path, delay: Duration) -> Result<Session> {
    let piped = |command: &mut Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().with_context(|| format!("{command:?}"))
    };
    let mut server = piped(&mut Command::new(SERVER))?;
    let mut client = Command::new("sshfs");
    client.args(["-f", "-o", "passive,kernel_cache"]).arg(format!(":{}", served.display())).arg(at);
    let mut client = piped(&mut client)?;
    let ends = "both ends have pipes";
    hand_on(client.stdout.take().context(ends)?, server.stdin.take().context(ends)?, delay);
    hand_on(server.stdout.take().context(ends)?, client.stdin.take().context(ends)?, delay);
    Ok(Session { server, client })
}

/// Hands on what comes, each piece that much later, until either end is closed.
fn hand_on(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    delay: Duration,
) {
    let (send, receive) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if send.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receive {
            sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
}
