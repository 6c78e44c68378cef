//! Whether a node does what it is for.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::program;
use kumiki_rootfs::HealthTimes;
use serde::{Serialize, Serializer};

/// Time that an answer may take, but a HEALTHCHECK's, which has its own.
const LIMIT: Duration = Duration::from_secs(5);
/// Interval between two questions, but a HEALTHCHECK's.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// Time that a service may take from its node's start to its first good answer.
const GRACE: Duration = Duration::from_secs(60);
/// Answers that may fail one after the other.
const FAILURES: u32 = 3;
const LOOK: Duration = Duration::from_millis(20);
/// Length of a server's first line at the most.
const LINE_BYTES: u64 = 1024;

/// Exit status of a program that could not ask a node, whose channels all are in use: BSD's EX_TEMPFAIL.
pub const NOT_ASKED: u8 = 75;

/// Reason for which a node was not found to be well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The node did not do this.
    Unwell(String),
    /// Nobody could ask it, for this reason: it says nothing of the node.
    NotAsked(String),
}

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

    /// Times of this check, of a node whose image names these.
    pub(crate) fn times(&self, of_image: impl FnOnce() -> HealthTimes) -> HealthTimes {
        match self {
            Health::Image => of_image(),
            _ => HealthTimes {
                interval: ASKED_EVERY,
                timeout: LIMIT,
                start_period: GRACE.saturating_sub(ASKED_EVERY),
                retries: FAILURES,
            },
        }
    }

    /// Asks the node.
    pub(crate) fn ask(
        &self,
        node: &str,
        address: Option<IpAddr>,
        limit: Duration,
    ) -> Result<(), Doubt> {
        let to = |port: u16| {
            let address = address.ok_or("it has no address that this machine knows")?;
            Ok::<_, String>(SocketAddr::new(address, port))
        };
        let noded = || program::find(program::NODED).map_err(|e| Doubt::NotAsked(e.to_string()));
        match self {
            Health::Tcp(port) => to(*port).and_then(connect).map(drop).map_err(Doubt::Unwell),
            Health::Http(port, path) => {
                to(*port).and_then(|to| page(to, path)).map_err(Doubt::Unwell)
            }
            Health::Command(line) => {
                ended_well(Command::new(noded()?).args(["ask", node, line]), limit)
            }
            Health::Image => ended_well(Command::new(noded()?).args(["ask", node]), limit),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Unwell(why) => f.write_str(why),
            Doubt::NotAsked(why) => write!(f, "it could not be asked: {why}"),
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
fn ended_well(command: &mut Command, limit: Duration) -> Result<(), Doubt> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A machine that has no room for a process says nothing of its nodes.
    let mut child = command.spawn().map_err(|error| Doubt::NotAsked(error.to_string()))?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(|error| Doubt::NotAsked(error.to_string()))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) if status.code() == Some(NOT_ASKED.into()) => {
                return Err(Doubt::NotAsked("all of its channels are in use".to_owned()));
            }
            Some(status) => {
                return Err(Doubt::Unwell(format!("the command has ended with {status}")));
            }
            None if begin.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                let text = format!("the command has not ended within {limit:?}");
                return Err(Doubt::Unwell(text));
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
        let ask = || Health::Http(at.port(), "/".into()).ask("n1", Some(at.ip()), LIMIT);
        assert_eq!(ask(), Ok(()));
        let says = |doubt: Result<(), Doubt>, words: &str| match doubt {
            Err(Doubt::Unwell(why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        says(ask(), "status 503");
        says(ask(), "no answer by HTTP");
        serving.join().unwrap();
        // The server's own port may be another test's by now.
        says(Health::Tcp(1).ask("n1", Some(at.ip()), LIMIT), "refused");
        says(Health::Tcp(80).ask("n1", None, LIMIT), "no address");
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let mut hangs = Command::new("sleep");
        let unwell = |text: &str| Err(Doubt::Unwell(text.to_owned()));
        let ended = ended_well(hangs.arg("1000"), Duration::from_millis(50));
        assert_eq!(ended, unwell("the command has not ended within 50ms"));
        let ended = ended_well(&mut Command::new("false"), LIMIT);
        assert_eq!(ended, unwell("the command has ended with exit status: 1"));
        assert!(ended_well(&mut Command::new("true"), LIMIT).is_ok());
    }

    #[test]
    fn who_could_not_ask_says_nothing_of_the_node() {
        let mut busy = Command::new("sh");
        let ended = ended_well(busy.args(["-c", &format!("exit {NOT_ASKED}")]), LIMIT);
        assert!(matches!(&ended, Err(Doubt::NotAsked(why)) if why.contains("in use")), "{ended:?}");
        let ended = ended_well(&mut Command::new("/no/such"), LIMIT);
        assert!(matches!(ended, Err(Doubt::NotAsked(_))), "{ended:?}");
    }
}
