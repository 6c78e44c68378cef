//! Programs that run in a node: the first process, and the agent that answers the host.
//!
//! The first process sets up the file systems, loads the module, starts the
//! agent and reaps whatever loses its parent; should the agent die, it starts
//! another one. It ends the node when reboot(8) and its like ask for it.

mod cpus;
#[doc(hidden)]
pub mod delegated;
mod devices;
mod drivers;
mod ending;
mod environment;
mod init;
mod keeper;
mod memory;
mod program;
mod root;
mod sleep;
mod spared;
mod users;
mod watching;
#[doc(hidden)]
pub mod watchman;

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kumiki_boot::{Piece, WINDOW_BYTES};
use kumiki_node_devices::record::Record;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::brought;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::{abi, doorbell};
use kumiki_node_wire::times::{memory_here, times_here};
use kumiki_node_wire::window::Window;
use kumiki_node_wire::{AGENT, time_stamp};
use kumiki_node_wire::{Error, ErrorKind, Result, Subject, json};
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, getpid, wait};
use rustix::system::{finit_module, sethostname};

use sleep::Talks;

/// Longest sleep, should a doorbell get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A shorter one where the host looks at what the cpus do.
const TIMES_AGAIN: Duration = Duration::from_millis(250);

/// Pause between an agent's death and the next one.
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

pub use root::go_in;

/// Purpose of a process of ours in a node, but for the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Answers the host.
    #[default]
    Agent,
    /// Keeps the program of the node's image.
    Keeper,
    /// Starts the agent again, where the first process is somebody else's.
    Watcher,
    /// Watches the host.
    Watchman,
    /// Releases memory at this address.
    Releases(u64),
}

impl Role {
    fn word(self) -> Option<&'static str> {
        match self {
            Role::Agent | Role::Releases(_) => None,
            Role::Keeper => Some("--keeps"),
            Role::Watcher => Some("--watches"),
            Role::Watchman => Some("--watchman"),
        }
    }
}

/// Does what this process has to do in a node whose window is at this physical
/// address: as the first process everything, as another one what it is for.
pub fn main(window: u64, role: Role) -> Result<()> {
    spared::begin();
    match role {
        _ if getpid().is_init() => first_process(window),
        Role::Agent => serve(window),
        Role::Keeper => keeper::keep(),
        Role::Watcher => watch(window, Role::Agent, None),
        Role::Watchman => watchman::keep(PATH, &log),
        Role::Releases(address) => memory::release_here(address),
    }
}

/// Starts this program anew. Marked, it is spared by an init that ends all others (systemd's
/// root storage daemons).
fn begin(window: u64, role: Role, marked: bool) -> Result<Child> {
    let mut command = Command::new(AGENT);
    command.args(["node", "agent", &format!("--window={window:#x}")]).args(role.word());
    if marked {
        command.arg0(format!("@{}", AGENT));
    }
    command.env("PATH", PATH).spawn().map_err(|error| Error::file(AGENT, error))
}

fn first_process(window: u64) -> Result<()> {
    let begun = time_stamp();
    for (kind, place) in FILE_SYSTEMS {
        // A folder that is there, or mounted already, is as good.
        let _ = fs::create_dir_all(place);
        let _ = mount(kind, place, kind, MountFlags::empty(), None);
    }
    if !Path::new(abi::GUEST_DEVICE).exists() {
        let root = root::memory(Path::new(root::MEMORY_MAP));
        let root = root.map_or(String::new(), |(at, bytes)| format!(" root={at:#x},{bytes:#x}"));
        let parameter = CString::new(format!("window={window:#x}{root}")).expect("no zero");
        load(Path::new(brought::GUEST_MODULE), &parameter)?;
        shared(&open()?)?.set_stamp(abi::STAMP_INIT, begun);
        for path in modules() {
            // It is in the log; the node works without it.
            let _ = load(&path, c"");
        }
        let bell = open()?;
        let window = shared(&bell)?;
        let record = serde_json::from_slice::<Record>(&window.record());
        if record.is_ok_and(|record| record.elastic.is_some()) {
            cpus::begin(&window, &bell);
        }
        memory::begin(&window, &bell);
    }
    // The agent tells who asks what there is; the log says what there is not.
    let said = |what: &str, error: &Error| log(&format!("the image's {what}: {error}"));
    let has_root = root::begin().inspect_err(|error| said("root", error)).unwrap_or(false);
    let program = keeper::program().inspect_err(|error| said("program", error)).ok().flatten();
    let record = shared(&open()?)?.record();
    let record = serde_json::from_slice::<Record>(&record).ok();
    let mut watcher = None;
    if let Some(init) = init::wanted(record.as_ref(), has_root, program.is_some()) {
        match record.as_ref().map_or(Ok(None), |record| init::root_for(record, has_root)) {
            Ok(root) => {
                let _ = fs::write(root::HANDED_OVER, &init);
                watcher = Some(begin(window, Role::Watcher, true)?);
                said("init", &init::become_it(&init, root));
                let _ = fs::remove_file(root::HANDED_OVER);
            }
            Err(error) => said("init", &error),
        }
    } else if has_root && program.is_some() {
        // Nobody waits for it: whatever loses its parent is reaped below.
        begin(window, Role::Keeper, false)?;
    }
    ending::listen()?;
    match watcher {
        Some(watcher) => watch(window, Role::Watcher, Some(watcher)),
        None => watch(window, Role::Agent, None),
    }
}

/// Starts such a process, unless it runs, and another one when it has died, and reaps whatever
/// else there is.
fn watch(window: u64, role: Role, mut running: Option<Child>) -> Result<()> {
    // A watcher's agent is marked as itself is.
    let marked = !getpid().is_init() || role == Role::Watcher;
    loop {
        let child = running.take().map_or_else(|| begin(window, role, marked), Ok)?;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) if pid.as_raw_nonzero().get() == child.id() as i32 => break,
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
    let entries = fs::read_dir(brought::MODULES).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Says something in the kernel's log, which the host reads.
fn log(text: &str) {
    if let Ok(mut log) = OpenOptions::new().write(true).open("/dev/kmsg") {
        // Each write is a line of its own.
        let _ = log.write_all(format!("kumiki: {text}\n").as_bytes());
    }
}

fn serve(at: u64) -> Result<()> {
    watching::begin(at);
    let bell = open()?;
    let window = Arc::new(shared(&bell)?);
    if !window.is_one() {
        return Err(Error::refused(
            ErrorKind::Protocol,
            Subject::File(abi::GUEST_DEVICE.into()),
            format!(
                "{} gives memory that no host's module has made a window: the node was not started \
             by kumiki node start",
                abi::GUEST_DEVICE
            ),
        ));
    }
    init::wait_for_it();
    devices::Devices::begin(&window).follow(Arc::clone(&window));
    introduce(&window, &bell)?;

    let record = serde_json::from_slice::<Record>(&window.record());
    let is_elastic = record.is_ok_and(|record| record.elastic.is_some() || record.memory.is_some());
    let talks = Arc::new(Talks::default());
    loop {
        for number in 0..abi::CHANNELS {
            match window.channel(number).state() {
                abi::CHANNEL_OPEN => {
                    let Some(turn) = talks.begin(number) else { continue };
                    let (window, talks) = (Arc::clone(&window), Arc::clone(&talks));
                    thread::spawn(move || {
                        if let Err(error) = program::serve(&window, turn, &talks) {
                            log(&format!("channel {number}: {error}"));
                        }
                        talks.end(&window, turn);
                    });
                }
                abi::CHANNEL_CLOSED => talks.free_forgotten(&window, number),
                _ => {}
            }
        }
        // Without such figures it is given no more cpus than it begins with.
        let times = if is_elastic { times_here().ok() } else { None };
        if let Some((waited, worked)) = times {
            window.set_stamp(abi::WAITED_US, waited);
            window.set_stamp(abi::WORKED_US, worked);
            // A kernel may say nothing of its memory: then it is given no more.
            if let Ok(times) = memory_here() {
                window.set_memory_times(times);
            }
        }
        window.set_stamp(abi::STAMP_BEAT, time_stamp());
        doorbell::wait(&bell, &[], if is_elastic { TIMES_AGAIN } else { LOOK_AGAIN })
            .map_err(|error| Error::os("waiting for the host", error))?;
    }
}

/// Takes the node's name, and says that it is ready.
fn introduce(window: &Window, bell: &File) -> Result<()> {
    if let Ok(record) = serde_json::from_slice::<Record>(&window.record()) {
        // A name is a convenience.
        let _ = sethostname(record.name.as_bytes());
    }
    window.set_stamp(abi::STAMP_READY, time_stamp());
    window.set_stamp(abi::STAMP_BEAT, time_stamp());
    window.say(abi::WORD_READY);
    ring(bell)
}

fn open() -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(abi::GUEST_DEVICE);
    opened.map_err(|error| Error::file(abi::GUEST_DEVICE, error))
}

fn shared(bell: &File) -> Result<Window> {
    let whole = Piece { address: 0, bytes: WINDOW_BYTES };
    Ok(Window::new(Memory::map(bell.as_fd(), &[whole], Access::Write)?))
}

fn ring(bell: &File) -> Result<()> {
    doorbell::ring(bell).map_err(|error| Error::os("ringing the host", error))
}
