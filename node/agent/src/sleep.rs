//! In a node: its kernel sleeps by its host's wish, so that its memory can be kept. What wakes up
//! may be a copy, under another name and at another time: what must not be the same in two of
//! them is made anew here.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::block::{Asked, Block};
use kumiki_node_wire::module::{abi, requests};
use kumiki_node_wire::window::Window;
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};
use rustix::process::{Pid, Signal, kill_process};
use rustix::rand::{GetRandomFlags, getrandom};

use super::root;
use crate::{Error, ErrorKind, Result, Subject};

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The time stamp counter with the rate that the host has given, before it is measured.
const EARLY_CLOCK: &str = "tsc-early";
/// Time for which that is waited: it takes the kernel a second or two.
const CLOCK_LIMIT: Duration = Duration::from_secs(10);
const CACHES: &str = "/proc/sys/vm/drop_caches";
const LOOK: Duration = Duration::from_millis(20);
const BLOCKS: &str = "/sys/block";
/// `BLKFLSBUF`, linux/fs.h.
const FLUSH: Opcode = opcode::none(0x12, 97);
const MACHINE_ID: &str = "/etc/machine-id";
const SEED: &str = "/var/lib/systemd/random-seed";

/// Channels that threads of the agent serve, and whether the node is about to sleep: then none
/// is begun.
#[derive(Default)]
pub(super) struct Talks(Mutex<State>);

#[derive(Default)]
struct State {
    busy: HashSet<Turn>,
    asleep: bool,
    /// Number of times that the node has woken up: its channels are others then.
    life: u64,
}

/// A thread's right to a channel, in one life of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    number: usize,
    life: u64,
}

impl State {
    fn is_busy(&self, number: usize) -> bool {
        self.busy.iter().any(|turn| turn.number == number)
    }
}

impl Turn {
    /// The channel's.
    pub(super) fn number(self) -> usize {
        self.number
    }
}

impl Talks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to serve this channel, which has a client, unless a thread has it.
    pub(super) fn begin(&self, number: usize) -> Option<Turn> {
        let mut state = self.state();
        let turn = Turn { number, life: state.life };
        (!state.asleep && !state.is_busy(number) && state.busy.insert(turn)).then_some(turn)
    }

    /// The channel is the next client's, unless it is so already.
    pub(super) fn end(&self, window: &Window, turn: Turn) {
        // Under the lock: a client may open the channel as soon as it is free.
        let mut state = self.state();
        if state.busy.remove(&turn) {
            window.channel(turn.number).free();
        }
    }

    /// Frees a channel of an agent that has died.
    pub(super) fn free_forgotten(&self, window: &Window, number: usize) {
        let state = self.state();
        if !state.asleep && !state.is_busy(number) {
            window.channel(number).free();
        }
    }

    /// Silences all other talk from now on: a thread that sleeps with the node would wake up in a
    /// window in which its channel is somebody else's.
    fn silence(&self, window: &Window, own: Turn) -> Result<()> {
        let mut state = self.state();
        let others = (0..abi::CHANNELS).filter(|&number| {
            number != own.number
                && (state.is_busy(number) || window.channel(number).state() != abi::CHANNEL_FREE)
        });
        let others = others.count();
        if others > 0 {
            return Err(Error::inner(
                ErrorKind::Busy,
                format!(
                    "{others} other {} by a channel of it: end them (kumiki node exec, console, cp, \
                 top), or detach what is to go on (setsid, with its output elsewhere)",
                    if others == 1 {
                        "client talks to the node"
                    } else {
                        "clients talk to the node"
                    }
                ),
            ));
        }
        state.asleep = true;
        Ok(())
    }

    /// Lets others begin. Of a node that has slept no channel is anybody's.
    fn resume(&self, slept: bool) {
        let mut state = self.state();
        state.asleep = false;
        if slept {
            state.busy.clear();
            state.life += 1;
        }
    }
}

/// Sleeps, and returns when the node has woken up, maybe as a copy. The channel by which the host
/// asks is not this talk's afterwards.
/// One that `stays` wakes where it is, as what it was: what it has mounted is as it left it.
pub(super) fn sleep(
    window: &Window,
    bell: &File,
    (talks, turn): (&Talks, Turn),
    stays: bool,
) -> Result<()> {
    has_no_folder(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())?;
    // One that wakes where it is finds its disks as it left them. Of others no use begins either
    // until the node sleeps.
    let _claimed = if stays { Vec::new() } else { disks_at_rest()? };
    clock_is_measured(Path::new(CLOCK))?;
    talks.silence(window, turn)?;
    // What it has read of disks is forgotten when it wakes: that need not be kept.
    if !stays {
        let _ = fs::write(CACHES, "3");
    }
    let slept = requests::guest_sleep(bell).map_err(|error| {
        let kind = match error {
            Errno::BUSY => ErrorKind::Busy,
            Errno::AGAIN => ErrorKind::Interrupted,
            Errno::OPNOTSUPP => ErrorKind::Unsupported,
            _ => ErrorKind::System,
        };
        Error::inner(
            kind,
            match error {
                Errno::BUSY => "a task or a device of it does not sleep".to_owned(),
                Errno::AGAIN => "its kernel was woken before it slept (is /sys/power/pm_test not \
                             none there?)"
                    .to_owned(),
                Errno::OPNOTSUPP => {
                    "its kernel cannot be kept: it was built without CONFIG_SUSPEND, \
                                 or has page tables of five levels (no5lvl in the node's --append \
                                 is the way out), or lacks what its log names"
                        .to_owned()
                }
                error => format!("a device of it does not sleep: {error}"),
            },
        )
    });
    talks.resume(slept.is_ok());
    slept?;
    if !stays {
        renew();
    }
    renew_leases();
    super::introduce(window, bell)
}

/// Refuses folders, whose driver does not sleep.
fn has_no_folder(mounts: &str) -> Result<()> {
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [source, place, kind, ..] = words[..] else { continue };
        if kind == "virtiofs" {
            return Err(Error::refused(
                ErrorKind::Unsupported,
                Subject::Folder(place.into()),
                format!(
                    "folder {source} is mounted at {place}, and its driver does not sleep: kumiki node \
                 device rm takes it away"
                ),
            ));
        }
    }
    Ok(())
}

/// Claims all disks, of which nothing may be written once the node sleeps: each copy that wakes up
/// would go on from what it knew of them. What only reads may have them.
fn disks_at_rest() -> Result<Vec<File>> {
    let mut claimed = Vec::new();
    for disk in Block::disks(|name| name.starts_with("vd")) {
        match disk.ask()? {
            Asked::Free(file) => claimed.extend(file),
            Asked::Used(used) if used.read_only || disk.is_read_only() => {}
            Asked::Used(used) => {
                return Err(Error::refused(
                    ErrorKind::Busy,
                    Subject::Word(disk.name.clone()),
                    format!(
                        "disk {} {}: what is kept of it would be written over what is on \
                     the disk when the node starts from that; unmount it (swapoff, losetup -d), or \
                     mount it read only",
                        disk.name, used.how
                    ),
                ));
            }
        }
    }
    Ok(claimed)
}

/// A kernel that has not measured its clock yet would measure on as it wakes up, by another time.
fn clock_is_measured(clock: &Path) -> Result<()> {
    let begin = Instant::now();
    while fs::read_to_string(clock).is_ok_and(|name| name.trim() == EARLY_CLOCK) {
        if begin.elapsed() > CLOCK_LIMIT {
            return Err(Error::refused(
                ErrorKind::TimedOut,
                Subject::File(clock.into()),
                format!(
                    "its kernel has not measured its time stamp counter after {CLOCK_LIMIT:?}: try \
                 again later"
                ),
            ));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Makes anew what two copies must not share, as far as it is in files and can be made anew. The kernel's
/// random numbers are other ones already.
fn renew() {
    let random = |bytes: &mut [u8]| getrandom(bytes, GetRandomFlags::empty()).is_ok();
    let id = root::within(Path::new(MACHINE_ID));
    let mut bytes = [0; 16];
    if fs::metadata(&id).is_ok_and(|about| about.len() > 0) && random(&mut bytes) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = fs::write(&id, digits + "\n");
    }
    let seed = root::within(Path::new(SEED));
    let mut bytes = [0; 256];
    if seed.exists() && random(&mut bytes) {
        let _ = fs::write(&seed, bytes);
    }
    forget_disks();
}

fn renew_leases() {
    // An address that was lent may be somebody else's by now.
    for client in named("udhcpc") {
        let _ = kill_process(client, Signal::USR1);
    }
}

/// Forgets what the kernel has read of disks: others may have written since.
fn forget_disks() {
    for entry in fs::read_dir(BLOCKS).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("vd") {
            continue;
        }
        if let Ok(disk) = OpenOptions::new().read(true).open(Path::new("/dev").join(name)) {
            // SAFETY: the request takes no argument (block/ioctl.c).
            let flush = unsafe { NoArg::<FLUSH>::new() };
            // SAFETY: as above.
            let _ = unsafe { ioctl(disk.as_fd(), flush) };
        }
    }
}

/// Processes of this name.
fn named(name: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|text| text.trim() == name)
    };
    let pid =
        |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw);
    entries.filter(is_it).filter_map(pid).collect()
}

#[cfg(test)]
mod tests {
    use kumiki_node_wire::memory::Memory;

    use super::*;

    fn window() -> Window {
        Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES))
    }

    #[test]
    fn a_node_with_other_clients_does_not_sleep() {
        let (window, talks) = (window(), Talks::default());
        let (own, other) = (talks.begin(2).unwrap(), talks.begin(5).unwrap());
        assert_eq!(talks.begin(5), None);
        let said = talks.silence(&window, own).unwrap_err().to_string();
        assert!(said.contains("1 other client talks"), "{said}");
        talks.end(&window, other);
        // One whose thread is not begun yet.
        window.channel(1).open();
        assert!(talks.silence(&window, own).is_err());
        window.channel(1).free();
        talks.silence(&window, own).unwrap();
        assert_eq!(talks.begin(3), None);
    }

    /// The window of a node that wakes up is empty, and its channels new clients'.
    #[test]
    fn who_slept_leaves_the_channel_to_its_next_client() {
        let (window, talks) = (window(), Talks::default());
        let slept = talks.begin(2).unwrap();
        talks.silence(&window, slept).unwrap();
        window.channel(2).open();
        talks.resume(true);
        let next = talks.begin(2).unwrap();
        // The thread that slept ends a moment later.
        talks.end(&window, slept);
        assert_eq!((window.channel(2).state(), talks.begin(2)), (abi::CHANNEL_OPEN, None));
        talks.end(&window, next);
        assert_eq!(window.channel(2).state(), abi::CHANNEL_FREE);
        // One that did not sleep still has it, and answers there.
        let awake = talks.begin(4).unwrap();
        talks.silence(&window, awake).unwrap();
        talks.resume(false);
        window.channel(4).open();
        talks.end(&window, awake);
        assert_eq!(window.channel(4).state(), abi::CHANNEL_FREE);
    }

    #[test]
    fn a_folder_that_is_mounted_is_refused_by_name() {
        let mounts = "none / rootfs rw 0 0\nshare0 /mnt/shared virtiofs rw,relatime 0 0\n";
        let said = has_no_folder(mounts).unwrap_err().to_string();
        assert!(said.contains("folder share0 is mounted at /mnt/shared"), "{said}");
        has_no_folder("/dev/vda /data ext4 rw 0 0\n/dev/pmem0 /kumiki/image erofs ro 0 0\n")
            .unwrap();
    }

    #[test]
    fn a_clock_that_is_measured_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let clock = folder.path().join("clock");
        clock_is_measured(&clock).unwrap();
        fs::write(&clock, "tsc-early\n").unwrap();
        let begin = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(5 * LOOK);
                fs::write(&clock, "tsc\n").unwrap();
            });
            clock_is_measured(&clock).unwrap();
        });
        assert!(begin.elapsed() >= 5 * LOOK);
    }
}
