//! Figures in the OpenMetrics format, for who asks by HTTP: `GET /metrics`, and nothing else.
//!
//! One client at a time, each for two seconds at most: who asks is a collector, a few times a minute.

#![forbid(unsafe_code)]

mod text;

use std::convert::Infallible;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::Duration;

pub use text::{Kind, Text, label};

/// Time for a client to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request's head, at most.
const HEAD: usize = 8192;
/// Mode of a socket: who may connect.
const MODE: u32 = 0o770;

/// An address at which figures are told.
#[derive(Debug)]
pub struct Endpoint(Listener);

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Endpoint {
    /// Listens at `ADDRESS:PORT` or `unix:PATH`. A socket that a former process has left is replaced.
    ///
    /// # Errors
    /// It is no address, or is taken.
    pub fn bind(at: &str) -> io::Result<Self> {
        let of = |error: io::Error| io::Error::new(error.kind(), format!("{at}: {error}"));
        if let Some(path) = at.strip_prefix("unix:") {
            return unix(Path::new(path)).map(Listener::Unix).map(Endpoint).map_err(of);
        }
        let address: SocketAddr = at.parse().map_err(|_| {
            let text = format!("{at}: ADDRESS:PORT or unix:PATH is meant");
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        TcpListener::bind(address).map(Listener::Tcp).map(Endpoint).map_err(of)
    }

    /// The address, with the port that the kernel chose for port 0; none of a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// Answers whoever asks with what `text` gives then, for ever. A panic in it is said, and ends its connection alone.
    pub fn serve(self, text: impl Fn() -> String) -> Infallible {
        loop {
            let served = catch_unwind(AssertUnwindSafe(|| self.serve_one(&text)));
            if served.is_ok_and(|answered| answered.is_err()) {
                // Without a descriptor the next one would fail at once, too.
                thread::sleep(Duration::from_millis(200));
            }
        }
    }

    /// Answers one client, as far as it takes its answer; an error is of the listener.
    fn serve_one(&self, text: &impl Fn() -> String) -> io::Result<()> {
        match &self.0 {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                let set = |stream: &TcpStream| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))
                };
                let _ = set(&stream).and_then(|()| answer(stream, text));
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let set = |stream: &UnixStream| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))
                };
                let _ = set(&stream).and_then(|()| answer(stream, text));
            }
        }
        Ok(())
    }
}

fn unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    // Left by one that has ended: nobody answers there.
    let is_left =
        || UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
    if is_socket && is_left() {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

fn answer(mut stream: impl Read + Write, text: &impl Fn() -> String) -> io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || head.len() > HEAD {
            return Ok(());
        }
    }
    let is_right = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
    let (status, kind, body) = match is_right {
        true => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text()),
        false => ("404 Not Found", "text/plain", "GET /metrics is all that there is\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer to a request, of one client.
    fn asked(endpoint: &Endpoint, mut stream: impl Read + Write, request: &str) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        endpoint.serve_one(&|| "x 1\n# EOF\n".to_owned()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn figures_are_told_at_a_port_and_nothing_else_is() {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let stream = || TcpStream::connect(endpoint.address().unwrap()).unwrap();
        let answer = asked(&endpoint, stream(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text")
        );
        assert!(answer.ends_with("Content-Length: 10\r\nConnection: close\r\n\r\nx 1\n# EOF\n"));
        let answer = asked(&endpoint, stream(), "GET /metricsx HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        // Who sends a head without end has no answer.
        assert_eq!(asked(&endpoint, stream(), &"x".repeat(HEAD + 1)), "");
        for (odd, said) in [("nowhere", "is meant"), ("192.0.2.1:1", "192.0.2.1:1: ")] {
            let error = Endpoint::bind(odd).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_panic_ends_its_connection_and_no_other() {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let address = endpoint.address().unwrap();
        let calls = std::sync::atomic::AtomicU32::new(0);
        thread::spawn(move || {
            endpoint.serve(|| {
                let first = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
                assert!(!first, "by its test");
                "x 1\n# EOF\n".to_owned()
            })
        });
        let ask = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        // What it had not read may reset it.
        assert_eq!(ask().unwrap_or_default(), "");
        assert!(ask().unwrap().ends_with("x 1\n# EOF\n"));
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_one_that_answers_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let at = format!("unix:{}", path.display());
        let first = Endpoint::bind(&at).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        assert!(asked(&first, stream, "GET /metrics?a HTTP/1.0\r\n\r\n").ends_with("# EOF\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(Endpoint::bind(&at).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        assert!(Endpoint::bind(&at).is_ok());
        // What is no socket is nobody's to remove.
        fs::write(folder.path().join("file"), "kept").unwrap();
        let file = format!("unix:{}", folder.path().join("file").display());
        assert_eq!(Endpoint::bind(&file).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
}
