//! Figures in the OpenMetrics format, for who asks by HTTP.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::info::resident;
use crate::listen;
use crate::say::say;
use crate::shared::Shared;

/// Time for a client to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request's head, at most.
const HEAD: usize = 8192;

/// Answers at an address.
pub(crate) fn start(at: &str, shared: Arc<Shared>) -> Result<()> {
    let what = || format!("--metrics {at}");
    let builder = thread::Builder::new().name("kv-metrics".to_owned());
    if let Some(path) = at.strip_prefix("unix:") {
        let listener = UnixListener::from(blocking(listen::unix(Path::new(path), 0o770)?)?);
        builder.spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    rest();
                    continue;
                };
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                answer(stream, &shared);
            }
        })
    } else {
        let address: SocketAddr = at
            .parse()
            .with_context(|| format!("{}: ADDRESS:PORT or unix:PATH is meant", what()))?;
        let listener = TcpListener::bind(address).with_context(what)?;
        say(format_args!("metrics at http://{}/metrics", listener.local_addr()?));
        builder.spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    rest();
                    continue;
                };
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                answer(stream, &shared);
            }
        })
    }
    .with_context(what)?;
    Ok(())
}

fn blocking(socket: OwnedFd) -> Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// Pauses: without a descriptor the next one would fail at once, too.
fn rest() {
    thread::sleep(Duration::from_millis(200));
}

fn answer(mut stream: impl Read + Write, shared: &Shared) {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(count @ 1..) if head.len() < HEAD => head.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    let is_right = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
    let (status, kind, body) = match is_right {
        true => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text(shared))
        }
        false => ("404 Not Found", "text/plain", "GET /metrics is all that there is\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// All figures.
fn text(shared: &Shared) -> String {
    let sums = shared.totals();
    let mut text = String::new();
    let mut one = |kind: &str, name: &str, help: &str, value: u64| {
        let total = if kind == "counter" { "_total" } else { "" };
        // Into a String it cannot fail.
        let _ = write!(
            text,
            "# TYPE kumiki_kv_{name} {kind}\n# HELP kumiki_kv_{name} {help}\n\
             kumiki_kv_{name}{total} {value}\n"
        );
    };
    for (name, help, value) in [
        ("commands", "Commands that have been run.", sums.commands),
        ("connections", "Connections that have come.", sums.connections),
        (
            "connections_turned_away",
            "Connections refused as there were too many.",
            sums.turned_away,
        ),
        ("connections_protected", "Connections refused by protected mode.", sums.protected),
        (
            "connections_not_taken",
            "Times that there was no descriptor for a connection.",
            sums.not_taken,
        ),
        ("clients_evicted", "Clients evicted as their memory was full.", sums.evicted),
        ("keyspace_hits", "Keys that were read and there.", sums.hits),
        ("keyspace_misses", "Keys that were read and not there.", sums.misses),
        ("expired_keys", "Keys whose time had come.", sums.expired),
        ("refused_for_memory", "Commands refused for want of memory.", sums.refused),
        ("wrong_passwords", "Passwords that were wrong.", sums.wrong_passwords),
        ("input_bytes", "Bytes that have come.", sums.input),
        ("output_bytes", "Bytes that have been sent.", sums.output),
    ] {
        one("counter", name, help, value);
    }
    let memory = shared.memory.load(Relaxed) as u64;
    for (name, help, value) in [
        ("clients", "Connections that are there.", sums.clients),
        ("clients_max", "Connections that there may be.", shared.clients.load(Relaxed) as u64),
        ("keys", "Keys that are there.", sums.keys),
        ("keys_expiring", "Keys that go at some time.", sums.going),
        ("followers", "Clients that get invalidations.", sums.followers),
        ("followed_keys", "Keys that they follow.", sums.followed_keys),
        ("key_memory_bytes", "Memory of keys and values.", sums.key_bytes),
        ("client_memory_bytes", "Memory of clients' commands and answers.", sums.client_bytes),
        ("memory_max_bytes", "Memory that both may take.", memory),
        ("resident_memory_bytes", "Memory of the process.", resident()),
        ("uptime_seconds", "For how long it has run.", shared.uptime()),
        ("shards", "Shards of the keys.", shared.counters.len() as u64),
    ] {
        one("gauge", name, help, value);
    }
    text.push_str("# EOF\n");
    text
}
