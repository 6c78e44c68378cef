//! A NATS server for tests, on a port that is free, and a line to it that can be cut. Tests of
//! other crates use it too.

#![allow(dead_code, reason = "who includes this file may need part of it")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of its own, ended with the value.
pub(crate) struct NatsServer {
    child: Child,
    port: u16,
    /// Keeps the file of its ports.
    _folder: tempfile::TempDir,
}

impl NatsServer {
    pub(crate) fn start() -> NatsServer {
        Self::start_with(&[])
    }

    /// With more arguments.
    pub(crate) fn start_with(more: &[&str]) -> NatsServer {
        Self::start_at(-1, more)
    }

    /// At this port, or any that is free.
    pub(crate) fn start_at(port: i32, more: &[&str]) -> NatsServer {
        let folder = tempfile::tempdir().unwrap();
        // Debian has it where users do not look.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let child = Command::new("/usr/bin/env")
            .arg(format!("PATH={path}"))
            .args(["nats-server", "--addr", "127.0.0.1", "--port", &port.to_string()])
            .arg("--ports_file_dir")
            .arg(folder.path())
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("env(1) is everywhere");
        let ports = folder.path().join(format!("nats-server_{}.ports", child.id()));
        let end = Instant::now() + PATIENCE;
        let port = loop {
            let said = std::fs::read_to_string(&ports).ok();
            let said = said.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            if let Some(url) = said.as_ref().and_then(|ports| ports["nats"][0].as_str()) {
                break url.rsplit(':').next().unwrap().parse().unwrap();
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "nats-server has ended, {ended:?}: is it installed?");
            assert!(Instant::now() < end, "nats-server does not say its port");
            thread::sleep(Duration::from_millis(5));
        };
        NatsServer { child, port, _folder: folder }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line to a server that can be cut: all its connections break, and those made later work.
pub(crate) struct Line {
    port: u16,
    ends: Arc<Mutex<Vec<TcpStream>>>,
    /// Connections made later break at once.
    is_down: Arc<AtomicBool>,
    /// Bytes that go through before the line breaks by itself; none if it is not to.
    left: Arc<AtomicUsize>,
}

impl Line {
    pub(crate) fn to(server: &NatsServer) -> Line {
        Line::to_port(server.port())
    }

    /// To any port of this machine.
    pub(crate) fn to_port(target: u16) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Line {
            port,
            ends: Arc::default(),
            is_down: Arc::default(),
            left: Arc::new(AtomicUsize::new(usize::MAX)),
        };
        let (ends, is_down, left) =
            (Arc::clone(&line.ends), Arc::clone(&line.is_down), Arc::clone(&line.left));
        // Ends with the process.
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_down.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                let clone = |end: &TcpStream| end.try_clone().unwrap();
                ends.lock().unwrap().extend([clone(&near), clone(&far)]);
                // It may have gone down between the look and this.
                if is_down.load(Ordering::SeqCst) {
                    let _ = near.shutdown(Shutdown::Both);
                    continue;
                }
                for (from, to) in [(clone(&near), clone(&far)), (far, near)] {
                    let left = Arc::clone(&left);
                    thread::spawn(move || carry(from, to, &left));
                }
            }
        });
        line
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Breaks all connections.
    pub(crate) fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Breaks all connections after so many bytes more, in the middle of whatever that is.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    /// Breaks them and lets none be made, until [`up`](Self::up).
    pub(crate) fn down(&self) {
        self.is_down.store(true, Ordering::SeqCst);
        self.cut();
    }

    pub(crate) fn up(&self) {
        self.is_down.store(false, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, left: &AtomicUsize) {
    let mut buffer = vec![0; 1 << 16];
    let mut pass = || -> io::Result<()> {
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            let limit = left.load(Ordering::SeqCst);
            if limit == usize::MAX {
                to.write_all(&buffer[..count])?;
                continue;
            }
            to.write_all(&buffer[..count.min(limit)])?;
            if count >= limit {
                left.store(usize::MAX, Ordering::SeqCst);
                return Ok(());
            }
            left.fetch_sub(count, Ordering::SeqCst);
        }
    };
    let _ = pass();
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
