//! The node's end in order: who asks the first process for it, and what that does.
//!
//! reboot(8), poweroff(8) and halt(8) without `-f` send the first process a signal and
//! leave the rest to it. So does this agent when the host asks for the node's end.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, reboot};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::{init, root};
use crate::{Error, Result};

/// Commands by the signal that asks for each, as busybox and sysvinit have them; SIGINT is the
/// kernel's for Ctrl-Alt-Del.
const ORDERS: [(i32, RebootCommand); 4] = [
    (SIGUSR1, RebootCommand::Halt),
    (SIGUSR2, RebootCommand::PowerOff),
    (SIGTERM, RebootCommand::Restart),
    (SIGINT, RebootCommand::Restart),
];

/// Pause before the end, in which the client that asked for it leaves: its own exit status is its
/// answer.
const GRACE: Duration = Duration::from_millis(100);

/// Time that programs have after SIGTERM: a fifth of the wait of `kumiki node stop`.
const TERM_LIMIT: Duration = Duration::from_secs(2);

/// Time that the program of a node's image has after the signal that its image asks for: two thirds
/// of that wait.
const PROGRAM_LIMIT: Duration = Duration::from_secs(6);

/// Number of that program's process and of its signal.
const PROGRAM: &str = "/run/kumiki-program";

/// Time that the agent has then to pass on their last output: a client may not read.
const TELL_LIMIT: Duration = Duration::from_secs(1);

/// Locked, shared, by each of the agent's threads that still has something to tell.
const TELLING: &str = "/run/kumiki-telling";

/// Interval of looks whether they have gone.
const LOOK: Duration = Duration::from_millis(10);

/// Asks the first process to switch the node off.
pub(super) fn ask_for_power_off() -> Result<()> {
    if let Some(root) = root::of_init() {
        return init::ask_for_power_off(root);
    }
    kill_process(Pid::INIT, Signal::USR2)
        .map_err(|error| Error::os("asking the first process for the node's end", error))
}

/// Carries out, in the first process, the signals' orders from now on.
pub(super) fn listen() -> Result<()> {
    let mut signals = Signals::new(ORDERS.map(|(signal, _)| signal))
        .map_err(|error| Error::os("installing the handlers for the node's end", error))?;
    thread::spawn(move || {
        for signal in &mut signals {
            if let Some((_, order)) = ORDERS.iter().find(|(number, _)| *number == signal) {
                end(*order);
            }
        }
    });
    Ok(())
}

/// Notes, in the keeper, by whom and how the node's end begins, as its image says.
pub(super) fn begins_with(process: u32, signal: &str) {
    let signal = signal_of(signal).unwrap_or_else(|| {
        super::log(&format!("the image's stop signal {signal:?} is none: SIGTERM"));
        Signal::TERM
    });
    // Without the note it is one of the others.
    let _ = fs::write(PROGRAM, format!("{process} {}", signal.as_raw()));
}

/// Signal as docker and OCI write it: `SIGQUIT`, `QUIT` or `3`; nothing is SIGTERM.
fn signal_of(text: &str) -> Option<Signal> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let named = match name {
        "" | "TERM" => Signal::TERM,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "ALRM" => Signal::ALARM,
        "WINCH" => Signal::WINCH,
        "PWR" => Signal::POWER,
        number => return number.parse().ok().and_then(Signal::from_named_raw),
    };
    Some(named)
}

/// The image's program, and its signal, if it runs.
fn first_to_end() -> Option<(Pid, Signal)> {
    let text = fs::read_to_string(PROGRAM).ok()?;
    let (process, signal) = text.split_once(' ')?;
    let process = process.parse().ok().and_then(Pid::from_raw)?;
    Some((process, Signal::from_named_raw(signal.parse().ok()?)?))
}

/// Guard of a client's answer, in the agent: as long as it lives the node's end waits for that.
pub(super) struct Telling {
    _locked: Option<File>,
}

impl Telling {
    /// Takes the guard; without the file, or its lock, the node ends all the same, and so does the
    /// program.
    pub(super) fn begin() -> Self {
        let file = lockable().ok();
        Telling { _locked: file.filter(|file| flock(file, FlockOperation::LockShared).is_ok()) }
    }
}

fn lockable() -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(TELLING)
}

/// True if all clients have been told.
fn all_told() -> bool {
    let alone = FlockOperation::NonBlockingLockExclusive;
    lockable().is_ok_and(|file| flock(&file, alone) != Err(rustix::io::Errno::WOULDBLOCK))
}

fn wait_until(holds: impl Fn() -> bool, limit: Duration) {
    let begin = Instant::now();
    while !holds() && begin.elapsed() < limit {
        thread::sleep(LOOK);
    }
}

/// Programs end, then the file systems of disks are given back, then the kernel ends.
/// The agent stays to the last: its clients hear how their programs ended.
fn end(order: RebootCommand) {
    thread::sleep(GRACE);
    if let Some((program, signal)) = first_to_end() {
        // It may have ended, which is why the node ends.
        if kill_process(program, signal).is_ok() {
            wait_until(|| !programs().contains(&program), PROGRAM_LIMIT);
        }
    }
    send_all(Signal::TERM);
    wait_until(|| programs().is_empty(), TERM_LIMIT);
    send_all(Signal::KILL);
    wait_until(all_told, TELL_LIMIT);
    rustix::fs::sync();
    for place in mounted(&fs::read_to_string("/proc/mounts").unwrap_or_default()) {
        // One that is in use is in order as well: it has just been written out.
        let _ = unmount(&place, UnmountFlags::empty());
    }
    if let Err(error) = reboot(order) {
        super::log(&format!("ending the node: {error}"));
    }
}

fn send_all(signal: Signal) {
    for program in programs() {
        // It may have ended just now.
        let _ = kill_process(program, signal);
    }
}

/// Processes that run a program, but for the first one and agents.
fn programs() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_program = |pid: &Pid| {
        let folder = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        // The kernel's own threads have no program, and what has ended has none any more.
        let runs = fs::read_link(folder.join("exe")).is_ok();
        let words = fs::read(folder.join("cmdline")).unwrap_or_default();
        runs && !is_agent(&words)
    };
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| !pid.is_init())
        .filter(is_program)
        .collect()
}

/// True if a process of these words, each with a zero behind it, is the node's agent.
fn is_agent(words: &[u8]) -> bool {
    let agent = format!("{}\0node\0agent\0", kumiki_node_wire::AGENT);
    words.strip_prefix(b"@").unwrap_or(words).starts_with(agent.as_bytes())
}

/// Mount points of disks, the last one first.
fn mounted(mounts: &str) -> Vec<String> {
    let places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, place) = (words.next()?, words.next()?);
        device.starts_with("/dev/").then(|| place.replace("\\040", " "))
    });
    let mut places: Vec<String> = places.collect();
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_unmounted_in_the_reverse_order_and_nothing_else_is() {
        let mounts = "rootfs / rootfs rw 0 0\ndevtmpfs /dev devtmpfs rw 0 0\n\
                      /dev/vda /mnt ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n\
                      /dev/vdb /mnt/in\\040it ext4 rw 0 0\n";
        assert_eq!(mounted(mounts), ["/mnt/in it", "/mnt"]);
    }

    #[test]
    fn a_stop_signal_is_a_name_or_a_number() {
        for (text, signal) in
            [("", 15), ("SIGQUIT", 3), ("QUIT", 3), ("3", 3), ("SIGWINCH", 28), ("SIGPWR", 30)]
        {
            assert_eq!(signal_of(text).map(Signal::as_raw), Some(signal), "{text}");
        }
        for text in ["SIGNONE", "99", "-1", "quit now"] {
            assert_eq!(signal_of(text), None, "{text}");
        }
    }

    #[test]
    fn the_agent_is_told_from_programs_of_the_same_file() {
        assert!(is_agent(b"/bin/kumiki\0node\0agent\0--window=0x1\0"));
        assert!(!is_agent(b"/bin/kumiki\0node\0start\0n2\0") && !is_agent(b""));
    }
}
