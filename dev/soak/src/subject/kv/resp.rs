//! A connection by RESP 2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Longer than a request may go without an answer, which is found elsewhere.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// A command as it is sent.
pub(super) fn words(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// An answer of RESP 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Option<Vec<u8>>),
    List(Vec<Value>),
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read.
    at: usize,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).context("connecting")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::new(), at: 0 })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("sending")
    }

    pub(super) fn ask(&mut self, bytes: &[u8]) -> Result<Value> {
        self.send(bytes)?;
        self.answer()
    }

    fn more(&mut self) -> Result<()> {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let mut more = [0; 16 << 10];
        let count = self.stream.read(&mut more).context("reading an answer")?;
        ensure!(count > 0, "closed");
        self.buffer.extend_from_slice(&more[..count]);
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        loop {
            let rest = &self.buffer[self.at..];
            if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.at += end + 2;
                return Ok(line);
            }
            self.more()?;
        }
    }

    pub(super) fn answer(&mut self) -> Result<Value> {
        let line = self.line()?;
        let (kind, rest) =
            line.split_at_checked(1).with_context(|| format!("an answer {line:?}"))?;
        let number = || rest.parse::<i64>().with_context(|| format!("an answer {line:?}"));
        Ok(match kind {
            "+" => Value::Text(rest.to_owned()),
            // In place of an answer, and then it closes.
            "-" if rest.starts_with("ERR max number of clients") => bail!("{rest}"),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Number(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Value::Bytes(None),
                Ok(length) => {
                    while self.buffer.len() - self.at < length + 2 {
                        self.more()?;
                    }
                    let bytes = self.buffer[self.at..self.at + length].to_vec();
                    self.at += length + 2;
                    Value::Bytes(Some(bytes))
                }
            },
            "*" => Value::List((0..number()?).map(|_| self.answer()).collect::<Result<_>>()?),
            _ => bail!("an answer {line:?}"),
        })
    }
}
