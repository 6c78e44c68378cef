//! A client that may be left alone by the server, or cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
}

/// A server that takes nothing for so long does so on purpose.
const STUCK: Duration = Duration::from_millis(300);

impl Client {
    pub(super) fn open(at: SocketAddr) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        let client = Client { stream };
        client.wait(STUCK);
        client
    }

    pub(super) fn wait(&self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
        self.stream.set_write_timeout(Some(time)).unwrap();
    }

    /// Sends what the server takes; whether that was all.
    pub(super) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends all of it while it reads what comes, which it throws away; whether that was all.
    pub(super) fn pour(&mut self, mut bytes: &[u8]) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let (mut buffer, mut last) = ([0; 65536], Instant::now());
        while !bytes.is_empty() && last.elapsed() < STUCK {
            let wrote = self.stream.write(bytes);
            let read = self.stream.read(&mut buffer);
            let again = |result: &std::io::Result<usize>| {
                result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            };
            if let Ok(count) = wrote {
                bytes = &bytes[count..];
            } else if !again(&wrote) {
                break;
            }
            if matches!(read, Ok(0)) || read.is_err() && !again(&read) {
                break;
            }
            if again(&wrote) && again(&read) {
                std::thread::sleep(Duration::from_micros(200));
            } else {
                last = Instant::now();
            }
        }
        self.stream.set_nonblocking(false).unwrap();
        bytes.is_empty()
    }

    /// One command and the first line of its answer, or a bulk's text; `None` where there is none.
    pub(super) fn ask(&mut self, words: &[&str]) -> Option<String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.stream.write_all(&command(&words)).ok()?;
        let line = self.line()?;
        match line.strip_prefix('$') {
            None | Some("-1") => Some(line),
            Some(_) => self.line(),
        }
    }

    fn line(&mut self) -> Option<String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).ok()?;
            line.push(byte[0]);
        }
        Some(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }
}

/// A command in bulk.
pub(super) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}
