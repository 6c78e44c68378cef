//! The process that serves the lab: reads what it asks for, runs commands.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::time::{Duration, Instant};

use super::command::AgentCommand;
use super::lab::Lab;
use super::{PORT, ports, power_off, say};
use crate::frame::{Frame, MACHINE, Message};

/// Time that the kernel may take to show the port after its driver is there.
const PORT_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn serve() -> Result<(), String> {
    let port = open_port()?;
    let lab = Lab::at(port.try_clone().map_err(|error| error.to_string())?);
    say(&crate::frame::mark(0));
    lab.send(MACHINE, Message::Hello { uptime_ms: uptime_ms(), debug_exit: ports().is_ok() });
    let mut running: HashMap<u32, AgentCommand> = HashMap::new();
    let mut port = BufReader::new(Connected { port, seen: false });
    loop {
        let frame = match Frame::read(&mut port) {
            Ok(Some(frame)) => frame,
            // Without its lab a machine has nothing to do.
            Ok(None) => return power_off(0),
            Err(error) => {
                say(&format!("kumiki-lab: reading from the lab: {error}"));
                return power_off(0);
            }
        };
        match frame.message {
            Message::PowerOff(code) => return power_off(code),
            Message::Start(start) => {
                running.retain(|_, command| !command.is_over());
                if let Some(command) = AgentCommand::start(frame.stream, &start, &lab) {
                    running.insert(frame.stream, command);
                }
            }
            message => {
                if let Some(command) = running.get_mut(&frame.stream) {
                    command.tell(message);
                }
            }
        }
    }
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
                0 if !self.seen => std::thread::sleep(Duration::from_millis(5)),
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
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("no virtio port {PORT} within {} s", PORT_LIMIT.as_secs()))
}

fn uptime_ms() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = text.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or_default();
    (seconds * 1000.0) as u64
}
