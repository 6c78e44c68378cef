//! In a node: memory that its host gives it or takes back, used and released by the kernel.

use std::fs::File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_wire::AGENT;
use kumiki_node_wire::module::requests;
use kumiki_node_wire::window::Window;
use kumiki_node_wire::wish::MemoryOrder;
use kumiki_node_wire::{Error, ErrorKind, Result, Subject};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{log, open};

/// Time for one piece. The kernel tries for ever to move what lies there.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// Does what the host asks. Each is tried, and the first failure told.
pub(super) fn carry_out(order: &MemoryOrder, bell: &File) -> Result<()> {
    let off = order.off.iter().map(|&address| release(address));
    let on = order.on.iter().map(|&address| use_it(bell, address));
    let mut outcome = Ok(());
    for done in off.chain(on) {
        outcome = outcome.and(done);
    }
    outcome
}

/// Uses what its host has given it beside what it was started with.
pub(super) fn begin(window: &Window, bell: &File) {
    for block in window.blocks().iter().filter(|block| !block.is_used) {
        if let Err(error) = use_it(bell, block.piece.address) {
            log(&error.to_string());
        }
    }
}

fn use_it(bell: &File, address: u64) -> Result<()> {
    requests::guest_memory_on(bell, address).map_err(|error| refused(address, error))
}

/// Has another process ask the kernel, which goes on until that is killed.
fn release(address: u64) -> Result<()> {
    let failed = |error| Error::os(format!("releasing the memory at {address:#x}"), error);
    let mut command = Command::new(AGENT);
    command.args(["node", "agent", "--window=0x0", &format!("--releases={address:#x}")]);
    let mut child = command.stderr(Stdio::null()).spawn().map_err(failed)?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            // Of an error its status is the number.
            return match status.code() {
                Some(0) => Ok(()),
                code => Err(refused(address, Errno::from_raw_os_error(code.unwrap_or(0)))),
            };
        }
        if begin.elapsed() >= LIMIT {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(refused(address, Errno::INTR));
        }
        thread::sleep(LOOK);
    }
}

/// Releases it, in a process of its own that ends with who has begun it.
pub(super) fn release_here(address: u64) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Error::os("asking for a signal", error))?;
    match requests::guest_memory_off(&open()?, address) {
        Ok(()) => Ok(()),
        Err(error) => std::process::exit(error.raw_os_error()),
    }
}

fn refused(address: u64, error: Errno) -> Error {
    let (kind, why) = match error {
        Errno::NODEV | Errno::PERM => {
            (ErrorKind::Invalid, "the node's host has not given it, or the kernel has it already")
        }
        Errno::OPNOTSUPP => (
            ErrorKind::Unsupported,
            "this kernel adds and removes none (CONFIG_MEMORY_HOTREMOVE, CONFIG_MEMORY_HOTPLUG)",
        ),
        Errno::NOMEM => {
            (ErrorKind::NoMemory, "the kernel lacks memory to describe it, or keeps it off line")
        }
        Errno::INTR => (ErrorKind::TimedOut, "what lies there does not move elsewhere in time"),
        Errno::BUSY => (ErrorKind::Busy, "something lies there that does not move"),
        _ => (ErrorKind::System, "the kernel's log may say more"),
    };
    Error::refused(
        kind,
        Subject::Address(address),
        format!("the memory at {address:#x}: {error}: {why}"),
    )
}
