//! A client: requests at fixed times, or one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// A server that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, buffer: vec![0; 256 * 1024] })
    }

    /// Gets a file, whole; gives its length.
    pub(super) fn get(&mut self, target: &str) -> Result<usize> {
        let request = format!("GET /{target} HTTP/1.1\r\nHost: bench\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        let mut have = 0;
        let head = loop {
            let count = self.stream.read(&mut self.buffer[have..])?;
            ensure!(count > 0, "the server has closed the connection: GET /{target}");
            have += count;
            let found = self.buffer[..have].windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = found {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        ensure!(text.starts_with("HTTP/1.1 200"), "GET /{target}: {text}");
        let length = text.lines().filter_map(|line| line.split_once(": "));
        let length = length.clone().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.context("no Content-Length")?.1.parse()?;
        let mut left = (head + length).checked_sub(have).context("more than was asked for")?;
        while left > 0 {
            let room = left.min(self.buffer.len());
            let count = self.stream.read(&mut self.buffer[..room])?;
            ensure!(count > 0, "the server has closed the connection: GET /{target}");
            left -= count;
        }
        Ok(length)
    }
}

/// Nanoseconds from when each request was due to its end: a request that waits for the one
/// before it waits all the same (coordinated omission).
pub(super) fn at_fixed_rate(
    client: &mut Client,
    period: Duration,
    until: Instant,
    mut target: impl FnMut() -> String,
) -> Result<Vec<f64>> {
    let (mut due, mut taken) = (Instant::now(), Vec::new());
    while due < until {
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        client.get(&target())?;
        taken.push(due.elapsed().as_nanos() as f64);
        due += period;
    }
    Ok(taken)
}
