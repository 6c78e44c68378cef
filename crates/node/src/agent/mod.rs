//! Programs that run in a node: the first process, and the agent that answers the host.
//!
//! The first process sets up the file systems, loads the module, starts the
//! agent and reaps whatever loses its parent; should the agent die, it starts
//! another one. It ends the node when reboot(8) and its like ask for it.

mod devices;
mod ending;
mod program;
mod streams;

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kumiki_boot::{Piece, WINDOW_BYTES};
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, getpid, wait};
use rustix::system::{finit_module, sethostname};

use crate::memory::Memory;
use crate::record::Record;
use crate::window::Window;
use crate::{Error, Result, abi, bell, compose};

/// How long a sleep may last, should a doorbell get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Between an agent's death and the next one.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

const FILE_SYSTEMS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
];

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Does what this process has to do in a node whose window is at this physical
/// address: as the first process everything, as another one the agent's work.
pub fn main(window: u64) -> Result<()> {
    if getpid().is_init() { first_process(window) } else { serve() }
}

fn first_process(window: u64) -> Result<()> {
    let begin = time_stamp();
    for (kind, place) in FILE_SYSTEMS {
        // A folder that is there, or mounted already, is as good.
        let _ = fs::create_dir_all(place);
        let _ = mount(kind, place, kind, MountFlags::empty(), None);
    }
    if !Path::new(abi::GUEST_DEVICE).exists() {
        let parameter = CString::new(format!("window={window:#x}")).expect("digits only");
        load(Path::new(compose::GUEST_MODULE), &parameter)?;
        shared(&open()?)?.set_stamp(abi::STAMP_INIT, begin);
        for path in modules() {
            // It is in the log; the node works without it.
            let _ = load(&path, c"");
        }
    }
    ending::listen()?;
    loop {
        let argument = format!("--window={window:#x}");
        let mut command = Command::new(compose::AGENT);
        command.args(["node", "agent", &argument]).env("PATH", PATH);
        let agent = command.spawn().map_err(|error| Error::file(compose::AGENT, error))?;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) if pid.as_raw_nonzero().get() == agent.id() as i32 => break,
                Ok(_) => {}
                Err(error) => return Err(Error::os("waiting for the agent", error)),
            }
        }
        log("the agent has died; another one begins");
        // One that dies at once leaves the node's cpu to others.
        thread::sleep(RESTART_PAUSE);
    }
}

/// Loads a module; a failure is in the kernel's log.
fn load(path: &Path, parameters: &CStr) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    finit_module(&file, parameters, 0).map_err(|error| {
        let doing = format!("loading {}", path.display());
        log(&format!("{doing}: {error}"));
        Error::os(doing, error)
    })
}

/// Modules that the image brings beside the agent's own, in order.
fn modules() -> Vec<PathBuf> {
    let entries = fs::read_dir(compose::MODULES).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Says something in the kernel's log, which the host reads.
fn log(text: &str) {
    if let Ok(mut log) = OpenOptions::new().write(true).open("/dev/kmsg") {
        let _ = writeln!(log, "kumiki: {text}");
    }
}

fn serve() -> Result<()> {
    let bell = open()?;
    let window = Arc::new(shared(&bell)?);
    if !window.is_one() {
        return Err(Error::Refused(format!(
            "{} gives memory that no host's module has made a window: the node was not started \
             by kumiki node start",
            abi::GUEST_DEVICE
        )));
    }
    if let Ok(record) = serde_json::from_slice::<Record>(&window.record()) {
        // A name is a convenience.
        let _ = sethostname(record.name.as_bytes());
    }
    devices::Devices::begin(&window).follow(Arc::clone(&window));
    window.set_stamp(abi::STAMP_READY, time_stamp());
    window.say(abi::WORD_READY);
    ring(&bell)?;

    let busy = Arc::new(Mutex::new(HashSet::new()));
    loop {
        for number in 0..abi::CHANNELS {
            let mut taken = busy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match window.channel(number).state() {
                abi::CHANNEL_OPEN if taken.insert(number) => {
                    let (window, busy) = (Arc::clone(&window), Arc::clone(&busy));
                    thread::spawn(move || {
                        if let Err(error) = program::serve(&window, number) {
                            log(&format!("channel {number}: {error}"));
                        }
                        // Both at once: a client may open the channel as soon as it is free.
                        let mut busy = busy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        window.channel(number).free();
                        busy.remove(&number);
                    });
                }
                // Of an agent that has died.
                abi::CHANNEL_CLOSED if !taken.contains(&number) => window.channel(number).free(),
                _ => {}
            }
        }
        bell::wait(&bell, &[], LOOK_AGAIN)
            .map_err(|error| Error::os("waiting for the host", error))?;
    }
}

fn open() -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(abi::GUEST_DEVICE);
    opened.map_err(|error| Error::file(abi::GUEST_DEVICE, error))
}

fn shared(bell: &File) -> Result<Window> {
    let whole = Piece { address: 0, bytes: WINDOW_BYTES };
    Ok(Window::new(Memory::map(bell.as_fd(), &[whole], true)?))
}

fn ring(bell: &File) -> Result<()> {
    bell::ring(bell).map_err(|error| Error::os("ringing the host", error))
}

/// The time stamp counter, which all cpus of the machine share.
fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and no system of ours
    // keeps it from user space.
    unsafe { std::arch::x86_64::_rdtsc() }
}
