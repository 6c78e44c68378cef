//! A folder and a server of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// One that takes longer hangs, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server, ended when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_with(args, |_| ())
    }

    /// One of a folder that `fill` fills.
    pub(crate) fn start_with(args: &[&str], fill: impl FnOnce(&Path)) -> Server {
        // Below the build's folder, which is on a disk where the machine has one.
        Server::start_in(Path::new(env!("CARGO_TARGET_TMPDIR")), args, fill)
    }

    /// The same, with the folder in this one.
    pub(crate) fn start_in(place: &Path, args: &[&str], fill: impl FnOnce(&Path)) -> Server {
        let (server, mut said) = Server::start_heard(place, args, fill);
        // What it says later is not to hold it up.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        server
    }

    /// The same, with what it says on standard error after its first line.
    pub(crate) fn start_heard(
        place: &Path,
        args: &[&str],
        fill: impl FnOnce(&Path),
    ) -> (Server, BufReader<ChildStderr>) {
        let folder = tempfile::tempdir_in(place).unwrap();
        fill(folder.path());
        let served = folder.path().to_owned();
        Server::start_of(&served, folder, args)
    }

    /// One of a folder that is there anyway.
    pub(crate) fn of(folder: &Path, args: &[&str]) -> Server {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Server::start_of(folder, place, args).0
    }

    fn start_of(
        served: &Path,
        folder: tempfile::TempDir,
        args: &[&str],
    ) -> (Server, BufReader<ChildStderr>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki-httpd"));
        command.arg(served);
        Server::heard(command, folder, args)
    }

    /// One that a command starts, which has its folder.
    pub(crate) fn by(command: Command, folder: tempfile::TempDir, args: &[&str]) -> Server {
        let (server, mut said) = Server::heard(command, folder, args);
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        server
    }

    fn heard(
        mut command: Command,
        folder: tempfile::TempDir,
        args: &[&str],
    ) -> (Server, BufReader<ChildStderr>) {
        command.args(["--listen", "127.0.0.1:0"]).args(args);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(" on 127.0.0.1:") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it has ended: {:?}", child.wait());
        }
        let address = line.split(" on ").nth(1).unwrap().split(',').next().unwrap();
        let address = address.parse().unwrap();
        (Server { folder, child, address }, said)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes and reads until the server closes.
    pub(crate) fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// The answer to a GET of `target`, on a connection of its own.
    pub(crate) fn get(&self, target: &str, fields: &str) -> Answer {
        self.ask("GET", target, fields)
    }

    pub(crate) fn ask(&self, method: &str, target: &str, fields: &str) -> Answer {
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        let answer = self.send(request.as_bytes());
        let (answer, rest) = Answer::parse(&answer, method == "HEAD");
        assert!(rest.is_empty());
        answer
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Files of its folder that it has open.
    pub(crate) fn open_files(&self) -> usize {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let targets = all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets
            .filter(|target| *target != self.path("") && target.starts_with(self.path("")))
            .count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The first answer in `bytes`, and what comes after it.
    pub(crate) fn parse(bytes: &[u8], is_head: bool) -> (Answer, &[u8]) {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status: u16 = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        let length = if is_head || status == 304 { 0 } else { length };
        let rest = &bytes[end + 4..];
        answer.body = rest[..length].to_vec();
        (answer, &rest[length..])
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
