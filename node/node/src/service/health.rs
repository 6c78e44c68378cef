//! Whether a node does what it is for.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::program;
use serde::{Serialize, Serializer};

/// Time that an answer may take.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Length of a server's first line at the most.
const LINE_BYTES: u64 = 1024;

/// Means by which a node's health is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// A connection to this port is taken.
    Tcp(u16),
    /// A page of this port is answered with 2xx or 3xx.
    Http(u16, String),
    /// A line of shell in the node ends with 0.
    Command(String),
    /// The HEALTHCHECK of the node's container image ends with 0.
    Image,
}

impl Health {
    /// `tcp:80`, `http:80/path`, `exec:LINE` or `image`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?}: tcp:PORT, http:PORT/PATH, exec:LINE or image is expected");
        if text == "image" {
            return Ok(Health::Image);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let port = |text: &str| text.parse().ok().filter(|&port| port != 0).ok_or_else(wrong);
        match kind {
            "tcp" => Ok(Health::Tcp(port(rest)?)),
            "http" => {
                let (number, path) = rest.split_once('/').unwrap_or((rest, ""));
                let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
                plain.then_some(()).ok_or_else(wrong)?;
                Ok(Health::Http(port(number)?, format!("/{path}")))
            }
            "exec" if !rest.is_empty() => Ok(Health::Command(rest.to_owned())),
            _ => Err(wrong()),
        }
    }

    /// True if it needs to reach the node by its network.
    pub(crate) fn needs_address(&self) -> bool {
        !matches!(self, Health::Command(_) | Health::Image)
    }

    /// Asks the node; an error says what it did not do.
    pub(crate) fn ask(&self, node: &str, address: Option<IpAddr>) -> Result<(), String> {
        let to = |port: u16| {
            let address = address.ok_or("it has no address that this machine knows")?;
            Ok::<_, String>(SocketAddr::new(address, port))
        };
        match self {
            Health::Tcp(port) => connect(to(*port)?).map(drop),
            Health::Http(port, path) => page(to(*port)?, path),
            Health::Command(line) => {
                let noded = program::find(program::NODED).map_err(|error| error.to_string())?;
                ended_well(Command::new(noded).args(["ask", node, line]), LIMIT)
            }
            Health::Image => {
                let noded = program::find(program::NODED).map_err(|error| error.to_string())?;
                ended_well(Command::new(noded).args(["ask", node]), LIMIT)
            }
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::Tcp(port) => write!(f, "tcp:{port}"),
            Health::Http(port, path) => write!(f, "http:{port}{path}"),
            Health::Command(line) => write!(f, "exec:{line}"),
            Health::Image => f.write_str("image"),
        }
    }
}

impl Serialize for Health {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn connect(to: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect_timeout(&to, LIMIT).map_err(|error| format!("{to}: {error}"))
}

fn page(to: SocketAddr, path: &str) -> Result<(), String> {
    let said = |error: std::io::Error| format!("http://{to}{path}: {error}");
    let mut stream = connect(to)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(said)?;
    stream.set_write_timeout(Some(LIMIT)).map_err(said)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\nUser-Agent: kumiki\r\n\r\n", to.ip());
    stream.write_all(request.as_bytes()).map_err(said)?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES)).read_line(&mut line).map_err(said)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    match status {
        Some(200..=399) => Ok(()),
        Some(status) => Err(format!("http://{to}{path}: status {status}")),
        None => Err(format!("http://{to}{path}: no answer by HTTP")),
    }
}

/// Runs a program that may hang.
fn ended_well(command: &mut Command, limit: Duration) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("the command has ended with {status}")),
            None if begin.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the command has not ended within {limit:?}"));
            }
            None => thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn health_is_written_in_four_ways() {
        for text in ["image", "tcp:80", "http:8080/a/b?c", "http:80/", "exec:test -e /ok"] {
            assert_eq!(Health::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Health::parse("http:80").unwrap().to_string(), "http:80/");
        for text in ["tcp", "tcp:0", "tcp:x", "udp:1", "http:80/a b", "exec:"] {
            assert!(Health::parse(text).unwrap_err().contains("tcp:PORT"), "{text}");
        }
    }

    #[test]
    fn a_page_is_answered_or_it_is_said_how_not() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let answers = ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 x\r\n\r\n", "what\r\n"];
        let serving = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = server.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let ask = || Health::Http(at.port(), "/".into()).ask("n1", Some(at.ip()));
        assert_eq!(ask(), Ok(()));
        assert!(ask().unwrap_err().contains("status 503"));
        assert!(ask().unwrap_err().contains("no answer by HTTP"));
        serving.join().unwrap();
        // The server's own port may be another test's by now.
        assert!(Health::Tcp(1).ask("n1", Some(at.ip())).unwrap_err().contains("refused"));
        assert!(Health::Tcp(80).ask("n1", None).unwrap_err().contains("no address"));
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let mut hangs = Command::new("sleep");
        let error = ended_well(hangs.arg("1000"), Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("not ended within 50ms"), "{error}");
        assert!(ended_well(&mut Command::new("false"), LIMIT).unwrap_err().contains("status: 1"));
        assert!(ended_well(&mut Command::new("true"), LIMIT).is_ok());
    }
}
