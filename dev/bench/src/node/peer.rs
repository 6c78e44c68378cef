//! Who is at the other end of a stream: in a node, in another network namespace, or on
//! the same machine. One port for what is asked for, by TCP and by vsock.
//!
//! A stream begins with a letter and a number of bytes: `e` has each byte sent back, `p`
//! takes so many and answers with one byte, `g` sends so many.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kumiki_node::vsock;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::run;
use crate::child::end_with_parent;

pub(crate) const WORD: &str = "peer";
/// Word for a peer on this machine, which ends with who started it.
const HERE: &str = "here";
/// Word for one in a network namespace of its own.
const APART: &str = "apart";
pub(super) const PORT: u16 = 7100;
const CHUNK_BYTES: usize = 128 << 10;

/// Another process as the peer, until this is dropped.
pub(super) struct Peer {
    child: Child,
    orders: ChildStdin,
}

impl Peer {
    /// On this machine.
    pub(super) fn here() -> Result<Self> {
        // A machine in the lab has not, yet.
        run(&["ip", "link", "set", "lo", "up"])?;
        let (child, orders) = start(HERE)?;
        Peer { child, orders }.listening()
    }

    /// In a network namespace of its own, with one end of a veth pair. This one's end has
    /// the address `near`, and the peer `far`.
    pub(super) fn apart(near: &str, far: &str) -> Result<Self> {
        let (child, mut orders) = start(APART)?;
        let pid = child.id().to_string();
        run(&["ip", "link", "add", "near", "type", "veth"])?;
        let far_end = "veth0";
        run(&["ip", "link", "set", far_end, "netns", &pid])?;
        run(&["ip", "addr", "add", near, "dev", "near"])?;
        run(&["ip", "link", "set", "near", "up"])?;
        writeln!(orders, "{far_end} {far}").context("telling the peer its address")?;
        Peer { child, orders }.listening()
    }

    fn listening(mut self) -> Result<Self> {
        let mut byte = [0];
        let out = self.child.stdout.as_mut().context("the peer's output")?;
        out.read_exact(&mut byte).context("waiting for the peer to listen")?;
        Ok(self)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.orders.flush();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(word: &str) -> Result<(Child, ChildStdin)> {
    let own = std::env::current_exe().context("finding our own program")?;
    let mut command = Command::new(own);
    command.args([WORD, word]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting a peer")?;
    let orders = child.stdin.take().context("the peer's input")?;
    if word == APART {
        // Its namespace is there.
        let mut byte = [0];
        child.stdout.as_mut().context("the peer's output")?.read_exact(&mut byte)?;
    }
    Ok((child, orders))
}

/// Serves until it is killed; in a node, where no word says who started it, as long as that runs.
pub(crate) fn serve(words: &[&str]) -> Result<()> {
    if !words.is_empty() {
        end_with_parent()?;
    }
    if words == [APART] {
        // SAFETY: a new network namespace changes nothing that memory depends on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.context("a network namespace")?;
        println!();
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).context("reading our address")?;
        let (end, address) = line.trim().split_once(' ').context("an address")?;
        run(&["ip", "addr", "add", address, "dev", end])?;
        run(&["ip", "link", "set", end, "up"])?;
        run(&["ip", "link", "set", "lo", "up"])?;
    }
    let listener = TcpListener::bind(("0.0.0.0", PORT)).context("listening")?;
    if let Ok(listener) = vsock::Listener::new(PORT.into()) {
        thread::spawn(move || {
            while let Ok(stream) = listener.accept() {
                thread::spawn(move || answer(stream));
            }
        });
    }
    println!();
    loop {
        let (stream, _) = listener.accept().context("accepting")?;
        stream.set_nodelay(true).context("TCP_NODELAY")?;
        thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: impl Read + Write) -> std::io::Result<()> {
    let mut asked = [0; 9];
    stream.read_exact(&mut asked)?;
    let [kind, number @ ..] = asked;
    let mut left = u64::from_le_bytes(number);
    let mut bytes = vec![0; CHUNK_BYTES];
    match kind {
        b'e' => loop {
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            stream.write_all(&bytes[..length])?;
        },
        b'p' => {
            while left > 0 {
                let length = stream.read(&mut bytes)? as u64;
                if length == 0 {
                    return Ok(());
                }
                left = left.saturating_sub(length);
            }
            stream.write_all(&[1])
        }
        _ => {
            while left > 0 {
                let length = left.min(CHUNK_BYTES as u64);
                stream.write_all(&bytes[..length as usize])?;
                left -= length;
            }
            Ok(())
        }
    }
}

/// A peer's place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(&'static str),
    Vsock(u32),
}

impl Place {
    /// A stream for this, with this many bytes to come.
    fn ask(self, kind: u8, bytes: u64) -> Result<Box<dyn Stream>> {
        let mut stream: Box<dyn Stream> = match self {
            Place::Tcp(address) => {
                let stream = TcpStream::connect((address, PORT))
                    .with_context(|| format!("connecting to {address}"))?;
                stream.set_nodelay(true).context("TCP_NODELAY")?;
                Box::new(stream)
            }
            Place::Vsock(cid) => Box::new(vsock::stream(cid, PORT.into())?),
        };
        let mut asked = vec![kind];
        asked.extend(bytes.to_le_bytes());
        stream.write_all(&asked).context("asking a peer")?;
        Ok(stream)
    }

    /// Round trips of one byte, ns each.
    pub(super) fn echo(self, times: usize) -> Result<Vec<f64>> {
        let mut stream = self.ask(b'e', 0)?;
        let mut byte = [7];
        // The first ones wake whoever sleeps.
        for _ in 0..times / 10 {
            stream.write_all(&byte)?;
            stream.read_exact(&mut byte)?;
        }
        let mut trip = || -> Result<f64> {
            let begin = Instant::now();
            stream.write_all(&byte)?;
            stream.read_exact(&mut byte)?;
            Ok(begin.elapsed().as_nanos() as f64)
        };
        (0..times).map(|_| trip()).collect()
    }

    /// Sends so many bytes to the peer; GB/s.
    pub(super) fn put(self, bytes: u64) -> Result<f64> {
        let mut stream = self.ask(b'p', bytes)?;
        let chunk = vec![7; CHUNK_BYTES];
        let begin = Instant::now();
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            stream.write_all(&chunk)?;
        }
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(bytes as f64 / begin.elapsed().as_nanos() as f64)
    }

    /// Receives so many bytes from it.
    pub(super) fn get(self, bytes: u64) -> Result<f64> {
        let begin = Instant::now();
        let mut stream = self.ask(b'g', bytes)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut got = 0;
        while got < bytes {
            let length = stream.read(&mut chunk)? as u64;
            ensure!(length > 0, "the stream ended after {got} bytes");
            got += length;
        }
        Ok(bytes as f64 / begin.elapsed().as_nanos() as f64)
    }
}

trait Stream: Read + Write {}
impl Stream for TcpStream {}
impl Stream for File {}
