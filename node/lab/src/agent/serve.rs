//! The process that serves the lab: reads what it asks for, runs commands.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_stream::frame::decode;
use kumiki_stream::{Error, Kind, MOST_STREAMS, Message, Mux, Side, Stream};

use super::{PORT, command, ports, power_off, say};
use crate::wish::{Hello, Wish, mark};

/// Time that the kernel may take to show the port after its driver is there.
const PORT_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn serve() -> Result<(), String> {
    let port = open_port()?;
    let writer = port.try_clone().map_err(|error| error.to_string())?;
    let reader = BufReader::new(Connected { port, seen: false });
    let (lab, incoming) = Mux::over(Side::Far, MOST_STREAMS, reader, writer)
        .map_err(|error| format!("reading the port: {error}"))?;
    say(&mark(0));
    let hello = Hello { uptime_ms: uptime_ms(), debug_exit: ports().is_ok() };
    // Open as long as the machine runs.
    let _hello = lab.open(&hello).map_err(|error| format!("answering the lab: {error}"))?;
    while let Some(link) = incoming.next() {
        let mut stream = Stream::new(link);
        let wish = match stream.receive() {
            Ok(Some(Message::Open(body))) => decode(Kind::Open, &body),
            other => Err(Error::Protocol(format!("{other:?} at a beginning"))),
        };
        match wish.map_err(|error| format!("reading from the lab: {error}"))? {
            Wish::PowerOff(code) => return power_off(code),
            Wish::Run(program, number) => {
                thread::spawn(move || {
                    if let Err(error) = command::serve(&program, number, stream) {
                        say(&format!("kumiki-lab: a command: {error}"));
                    }
                });
            }
        }
    }
    if let Err(error) = incoming.end() {
        say(&format!("kumiki-lab: reading from the lab: {error}"));
    }
    // Without its lab a machine has nothing to do.
    power_off(0)
}

/// The port reads as ended until the lab's end of it is open, too.
struct Connected {
    port: File,
    seen: bool,
}

impl Read for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.port.read(buffer)? {
                0 if !self.seen => thread::sleep(Duration::from_millis(5)),
                bytes => {
                    self.seen = true;
                    return Ok(bytes);
                }
            }
        }
    }
}

/// /dev/vportNpM is the port whose name sysfs shows.
fn open_port() -> Result<File, String> {
    let begin = Instant::now();
    while begin.elapsed() < PORT_LIMIT {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            let device = std::path::Path::new("/dev").join(entry.file_name());
            if name.trim_end() == PORT && device.exists() {
                let port = File::options().read(true).write(true).open(&device);
                return port.map_err(|error| format!("{}: {error}", device.display()));
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("no virtio port {PORT} within {} s", PORT_LIMIT.as_secs()))
}

fn uptime_ms() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = text.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or_default();
    (seconds * 1000.0) as u64
}
