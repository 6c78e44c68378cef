//! A client whose answers and messages are read as they come.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    asked: u64,
    pub(super) id: u64,
}

impl Peer {
    pub(super) fn open(at: SocketAddr) -> Peer {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut peer = Peer { stream, asked: 0, id: 0 };
        let id = peer.ask("CLIENT ID\r\n");
        peer.id = id.trim_start_matches(':').trim_end().parse().unwrap();
        peer
    }

    /// One that speaks version 3.
    pub(super) fn three(at: SocketAddr) -> Peer {
        let mut peer = Peer::open(at);
        assert!(peer.ask("HELLO 3\r\n").starts_with('%'));
        peer
    }

    /// Sends commands, and reads nothing.
    pub(super) fn send(&mut self, commands: &str) {
        self.stream.write_all(commands.as_bytes()).unwrap();
    }

    /// What comes for commands, and what has come beside that, until a later question is answered.
    pub(super) fn ask(&mut self, commands: &str) -> String {
        let mut said = if commands.is_empty() { String::new() } else { self.until_mark(commands) };
        // What is told at the end of a turn stands behind its last answer.
        said += &self.until_mark("");
        said
    }

    fn until_mark(&mut self, commands: &str) -> String {
        self.asked += 1;
        let mark = format!("mark {:08}", self.asked);
        let end = format!("${}\r\n{mark}\r\n", mark.len());
        self.stream.write_all(format!("{commands}ECHO '{mark}'\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            // It is among the last: what is told in between is short.
            let from = said.len().saturating_sub(2 << 20);
            if let Some(at) = said[from..].find(&end).map(|at| from + at) {
                said.replace_range(at..at + end.len(), "");
                return said;
            }
            match self.stream.read(&mut buffer) {
                Ok(count @ 1..) => said += std::str::from_utf8(&buffer[..count]).unwrap(),
                other => panic!("{other:?} after {commands:?}: {said}"),
            }
        }
    }
}
