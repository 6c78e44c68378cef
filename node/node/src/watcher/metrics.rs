//! Services as Prometheus reads them, at a socket.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kumiki_node_devices::runtime;

use crate::service::ServiceState;
use crate::{Error, ErrorKind, Result};

const SOCKET: &str = "metrics.sock";
/// A client may not read.
const LIMIT: Duration = Duration::from_secs(2);
/// Pause where no client can be taken.
const REST: Duration = Duration::from_millis(100);

/// One metric: name, kind, help, value.
type Metric = (&'static str, &'static str, &'static str, fn(&ServiceState) -> u64);

const METRICS: [Metric; 3] = [
    ("kumiki_node_up", "gauge", "1 if the node answers and is healthy", |state| {
        u64::from(state.state == "up")
    }),
    ("kumiki_node_restarts_total", "counter", "Starts after the first", |state| state.restarts),
    ("kumiki_node_unhealthy_total", "counter", "Questions that were not answered well", |state| {
        state.unhealthy
    }),
];

/// The text for these nodes, by their names.
fn text(nodes: &[(String, ServiceState)]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in METRICS {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (node, state) in nodes {
            let _ = writeln!(text, "{name}{{node=\"{node}\"}} {}", value(state));
        }
    }
    text
}

/// Answers whoever connects, in a thread of its own. One process serves them.
pub(super) fn serve(
    states: impl Fn() -> Vec<(String, ServiceState)> + Send + 'static,
) -> Result<()> {
    let path = runtime::file(SOCKET)?;
    let failed = |error| Error::file(&path, error);
    if UnixStream::connect(&path).is_ok() {
        return Err(Error::refused(
            ErrorKind::Running,
            format!(
                "{}: another kumiki node supervise serves it: one keeps all services",
                path.display()
            ),
        ));
    }
    // Of one that was killed.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let thread = std::thread::Builder::new().name("metrics".to_owned());
    let thread = thread.spawn(move || {
        for stream in listener.incoming() {
            match stream {
                // A panic is said, and ends its connection alone: services are kept, and the next
                // one is answered.
                Ok(stream) => drop(catch_unwind(AssertUnwindSafe(|| answer(stream, &states)))),
                // No descriptor is left, say.
                Err(_) => std::thread::sleep(REST),
            }
        }
    });
    thread.map(drop).map_err(|error| Error::os("a thread for metrics", error))
}

fn answer(mut stream: UnixStream, states: &impl Fn() -> Vec<(String, ServiceState)>) {
    let limited =
        stream.set_read_timeout(Some(LIMIT)).and_then(|()| stream.set_write_timeout(Some(LIMIT)));
    if limited.is_err() {
        return;
    }
    // Whatever is asked for, there is one page.
    let _ = stream.read(&mut [0; 1024]);
    let text = text(&states());
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_connection_and_no_other() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let panics = || -> Vec<(String, ServiceState)> { panic!("by its test") };
        assert!(catch_unwind(AssertUnwindSafe(|| answer(theirs, &panics))).is_err());
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }

    #[test]
    fn each_metric_has_a_line_a_node() {
        let state = ServiceState { state: "up".into(), restarts: 3, ..ServiceState::default() };
        let waits = ServiceState { state: "waiting".into(), unhealthy: 7, ..state.clone() };
        let text = text(&[("web".into(), state), ("db".into(), waits)]);
        for line in [
            "# TYPE kumiki_node_up gauge",
            "kumiki_node_up{node=\"web\"} 1",
            "kumiki_node_up{node=\"db\"} 0",
            "kumiki_node_restarts_total{node=\"web\"} 3",
            "kumiki_node_unhealthy_total{node=\"db\"} 7",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }
}
