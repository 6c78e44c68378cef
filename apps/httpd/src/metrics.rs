//! Figures in the OpenMetrics format, for who asks by HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::counts::{Count, Counts};
use crate::devices::Devices;
use crate::failure::Failure;
use crate::log::Log;
use crate::say::say;
use crate::worker::Shared;

/// Time for a client to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request's head, at most.
const HEAD: usize = 8192;

/// Everything that figures are taken from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) shared: Arc<Shared>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) log: Option<Log>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Answers at an address, `ADDRESS:PORT` or `unix:PATH`, by a thread of its own.
///
/// # Errors
/// It is no address, or is taken.
pub(crate) fn start(at: &str, sources: Arc<Sources>, failure: &Arc<Failure>) -> Result<()> {
    let what = || format!("--metrics {at}");
    let listener = match at.strip_prefix("unix:") {
        Some(path) => {
            // Left by one that was killed: nobody answers there.
            if UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            {
                let _ = std::fs::remove_file(path);
            }
            Listener::Unix(UnixListener::bind(path).with_context(what)?)
        }
        None => {
            let address: SocketAddr = at
                .parse()
                .with_context(|| format!("{}: ADDRESS:PORT or unix:PATH is meant", what()))?;
            let listener = TcpListener::bind(address).with_context(what)?;
            if let Ok(address) = listener.local_addr() {
                say(format_args!("metrics at http://{address}/metrics"));
            }
            Listener::Tcp(listener)
        }
    };
    let failure = Arc::clone(failure);
    let work = move || {
        failure.watch("the thread for metrics", || {
            loop {
                if serve(&listener, &sources).is_err() {
                    // Without a descriptor the next one would fail at once, too.
                    thread::sleep(Duration::from_millis(200));
                }
            }
        });
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(work).with_context(what)?;
    Ok(())
}

/// Answers one client, as far as it takes its answer.
fn serve(listener: &Listener, sources: &Sources) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept()?;
            let set = |stream: &TcpStream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))
            };
            let _ = set(&stream).and_then(|()| answer(stream, sources));
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept()?;
            let set = |stream: &UnixStream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))
            };
            let _ = set(&stream).and_then(|()| answer(stream, sources));
        }
    }
    Ok(())
}

fn answer(mut stream: impl Read + Write, sources: &Sources) -> io::Result<()> {
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
        true => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ("200 OK", kind, text(sources))
        }
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

/// All figures.
fn text(sources: &Sources) -> String {
    let Sources { shared, devices, log } = sources;
    let sum = |of: fn(&Counts) -> &Count| {
        shared.counts.iter().map(|counts| of(counts).get()).sum::<u64>()
    };
    let mut text = String::new();
    let head = |text: &mut String, kind: &str, name: &str, help: &str| {
        // To a string it cannot fail.
        let _ =
            writeln!(text, "# TYPE kumiki_httpd_{name} {kind}\n# HELP kumiki_httpd_{name} {help}");
    };
    head(&mut text, "counter", "answers", "Answers by their status.");
    for at in 0..5_usize {
        let count: u64 =
            shared.counts.iter().filter_map(|counts| counts.answers.get(at)).map(Count::get).sum();
        let _ = writeln!(text, "kumiki_httpd_answers_total{{code=\"{}xx\"}} {count}", at + 1);
    }
    let counters: [(&str, &str, u64); 9] = [
        ("hits", "Answers for which no call waited for a disk.", sum(|it| &it.hits)),
        ("body_bytes", "Bytes of answers' bodies.", sum(|it| &it.body_bytes)),
        ("cold_calls", "Calls on files that would have slept.", sum(|it| &it.cold)),
        ("disk_time_over", "Clients that waited for a disk for too long.", sum(|it| &it.disk_time)),
        ("connections_accepted", "Connections that were taken.", sum(|it| &it.accepted)),
        ("connections_refused", "Times that there was no place for one.", sum(|it| &it.refused)),
        ("connections_closed", "Idle ones that were closed for others.", sum(|it| &it.closed)),
        ("panics", "Connections that a fault of the server has ended.", sum(|it| &it.panics)),
        (
            "log_lines_left_out",
            "Lines that the log's disk was too slow for.",
            log.as_ref().map_or(0, Log::all_left_out),
        ),
    ];
    for (name, help, value) in counters {
        head(&mut text, "counter", name, help);
        let _ = writeln!(text, "kumiki_httpd_{name}_total {value}");
    }
    let gauges: [(&str, &str, u64); 5] = [
        ("cold_calls_under_way", "Calls that other threads are in.", devices.under_way()),
        ("connections", "Connections that are there.", shared.places.taken() as u64),
        ("connections_max", "Connections that there may be.", shared.places.most() as u64),
        ("workers", "Threads that serve.", shared.counts.len() as u64),
        ("resident_memory_bytes", "Memory of the process.", resident()),
    ];
    for (name, help, value) in gauges {
        head(&mut text, "gauge", name, help);
        let _ = writeln!(text, "kumiki_httpd_{name} {value}");
    }
    text.push_str("# EOF\n");
    text
}

/// Bytes of the process in memory, as the kernel counts them.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}
