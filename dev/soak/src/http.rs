//! A client of HTTP/1.1 that can be cut off at any byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Longer than a request may go without an answer, which is found elsewhere.
const PATIENCE: Duration = Duration::from_secs(180);
/// Bytes of a head, at most.
const HEAD: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Bytes that were said to come; more than came where the server closed before.
    pub(crate) length: usize,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.body.len() == self.length
    }
}

impl Http {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Http> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Http { stream, buffer: Vec::new() })
    }

    pub(crate) fn send(&mut self, method: &str, target: &str, fields: &str) -> io::Result<()> {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: soak\r\n{fields}\r\n");
        self.stream.write_all(head.as_bytes())
    }

    /// Reads more; 0 at the end, which a connection that is cut has, too.
    fn more(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.buffer.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The next answer; `None` if the server has closed instead.
    pub(crate) fn answer(&mut self, is_head: bool) -> Result<Option<Answer>> {
        let mut answer = loop {
            if let Some(answer) = self.head()? {
                break answer;
            }
            ensure!(self.buffer.len() < HEAD, "a head of more than {HEAD} bytes");
            if self.more().context("reading a head")? == 0 {
                ensure!(self.buffer.is_empty(), "closed within a head");
                return Ok(None);
            }
        };
        if is_head || answer.status == 304 {
            answer.length = 0;
        }
        while self.buffer.len() < answer.length {
            if self.more().context("reading a body")? == 0 {
                break;
            }
        }
        let there = answer.length.min(self.buffer.len());
        answer.body = self.buffer.drain(..there).collect();
        Ok(Some(answer))
    }

    fn head(&mut self) -> Result<Option<Answer>> {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut fields);
        let end = match response.parse(&self.buffer).context("a head")? {
            httparse::Status::Complete(end) => end,
            httparse::Status::Partial => return Ok(None),
        };
        let fields: Vec<_> = response
            .headers
            .iter()
            .map(|field| (field.name.to_owned(), String::from_utf8_lossy(field.value).into_owned()))
            .collect();
        let mut answer =
            Answer { status: response.code.unwrap_or(0), fields, body: Vec::new(), length: 0 };
        answer.length = match answer.field("Content-Length") {
            Some(length) => length.parse().with_context(|| format!("Content-Length {length:?}"))?,
            None if answer.status == 304 => 0,
            None => bail!("no Content-Length in an answer {}", answer.status),
        };
        self.buffer.drain(..end);
        Ok(Some(answer))
    }
}
