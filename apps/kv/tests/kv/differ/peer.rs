//! A client of one of the two servers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One that takes longer hangs, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    asked: u64,
}

/// What a server has said to some commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) bytes: Vec<u8>,
    /// It has closed the connection.
    pub(super) ended: bool,
    /// It has not said all within `PATIENCE`.
    pub(super) late: bool,
}

impl Line {
    pub(super) fn open(at: SocketAddr) -> Line {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Line { stream, asked: 0 }
    }

    /// Sends commands and reads until what is asked behind them is answered. The PING is for
    /// CLIENT REPLY SKIP, which would leave out the ECHO.
    pub(super) fn ask(&mut self, commands: &[u8]) -> Said {
        self.asked += 1;
        let mark = format!("the end of {:08}", self.asked);
        let end = format!("${}\r\n{mark}\r\n", mark.len());
        let tail = format!("*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n{end}");
        let mut said = Said { bytes: Vec::new(), ended: false, late: false };
        // Who has closed the connection has said something, too.
        let _ = self.stream.write_all(&[commands, tail.as_bytes()].concat());
        let mut buffer = [0; 65536];
        while !said.bytes.ends_with(end.as_bytes()) {
            match self.stream.read(&mut buffer) {
                Ok(count @ 1..) => said.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    said.late = true;
                    return said;
                }
                Ok(0) | Err(_) => {
                    said.ended = true;
                    return said;
                }
            }
        }
        said
    }

    /// Sends bytes and no more, and reads to the end.
    pub(super) fn all(mut self, bytes: &[u8]) -> Vec<u8> {
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _ = self.stream.read_to_end(&mut said);
        said
    }
}
