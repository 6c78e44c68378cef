//! In a node: cpus that its host gives it or takes from it, brought on and off line.

use std::fs::File;

use kumiki_node_wire::module::requests;
use kumiki_node_wire::window::Window;
use kumiki_node_wire::wish::CpuOrder;
use kumiki_node_wire::{Error, ErrorKind, Result, Subject};
use rustix::io::Errno;

use super::log;

/// Does what the host asks. Each is tried, and the first failure told.
pub(super) fn carry_out(order: &CpuOrder, bell: &File) -> Result<()> {
    let on = order.on.iter().map(|&id| (id, requests::guest_cpu_on(bell, id.into())));
    let off = order.off.iter().map(|&id| (id, requests::guest_cpu_off(bell, id.into())));
    let mut outcome = Ok(());
    for (id, done) in off.chain(on) {
        outcome = outcome.and(done.map_err(|error| refused(id, error)));
    }
    outcome
}

/// Brings those on line that the node was started with: its kernel has begun with the first alone,
/// so that it sends nothing to cpus that are not its own.
pub(super) fn begin(window: &Window, bell: &File) {
    for &id in window.started_with().iter().skip(1) {
        if let Err(error) = requests::guest_cpu_on(bell, id.into()) {
            log(&refused(id, error).to_string());
        }
    }
}

fn refused(id: u32, error: Errno) -> Error {
    let (kind, why) = match error {
        Errno::NODEV => {
            (ErrorKind::NoCpu, "this kernel was not told of it as it started".to_owned())
        }
        Errno::PERM => {
            (ErrorKind::NoCpu, "it is not this node's, or cannot be switched off".to_owned())
        }
        Errno::BUSY => {
            (ErrorKind::Busy, "the kernel keeps it: something runs that needs it".to_owned())
        }
        error => (ErrorKind::System, error.to_string()),
    };
    Error::refused(kind, Subject::Cpu(id), format!("the cpu of APIC id {id}: {why}"))
}
