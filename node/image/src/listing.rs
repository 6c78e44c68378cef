//! Nodes as they are listed.

use std::net::IpAddr;

use kumiki_node_agent::watchman;
use kumiki_node_devices::record::{self, Record};
use kumiki_node_devices::service_state::{self, ServiceState};
use kumiki_node_devices::spec::{Addressing, Assigned, DeviceSpec};
use kumiki_node_devices::stowed::{Stowed, record_of};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::time_stamp;
use kumiki_node_wire::window::{Window, has_ended, meaning};
use serde::Serialize;

use crate::Result;

/// An agent looks about each second, if its kernel lets it.
const SILENT_LIMIT_MS: u64 = 20_000;

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Has resources and was never started.
    Created,
    /// Waits for another node to start it.
    Lent,
    /// Was started and does not answer yet.
    Starting,
    /// Its agent answers.
    Ready,
    /// Its agent has answered, and has shown no sign of life for long.
    Hung,
    /// Has halted, switched itself off, asked for a restart or panicked.
    Ended,
    /// Was stopped.
    Stopped,
    /// Sleeps until somebody asks for it, its cpus with the host.
    Idle,
}

/// A node as it is listed.
#[derive(Debug, Serialize)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// State of the node.
    pub state: NodeState,
    /// Its last word about itself.
    pub word: &'static str,
    /// A panic's text.
    pub message: Option<String>,
    /// The host's cpus that it has.
    pub cpus: Vec<u32>,
    /// Memory in all its pieces.
    pub bytes: u64,
    /// Addresses of the pieces.
    pub memory: Vec<String>,
    /// The image that it starts from; none if making it was interrupted.
    pub image: Option<String>,
    /// Words added to its kernel's command line; as above.
    pub command_line: Option<String>,
    /// The node that may start it, if it is lent.
    pub lent_to: Option<String>,
    /// The snapshot that the other one may start it from.
    pub lent_snapshot: Option<String>,
    /// Address at which this machine reaches it: its first card's, if that is known here.
    pub address: Option<IpAddr>,
    /// Process that works on it; 0 if none does.
    pub owner: u32,
    /// State of its service, if a process keeps it up.
    pub service: Option<ServiceState>,
}

impl NodeInfo {
    /// Names its state in a word; of one that has ended, how.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            NodeState::Created => "created",
            NodeState::Lent => "lent",
            NodeState::Starting => "starting",
            NodeState::Ready => "ready",
            NodeState::Hung => "hung",
            NodeState::Ended => self.word,
            NodeState::Stopped => "stopped",
            NodeState::Idle => "idle",
        }
    }
}

/// All nodes.
pub fn nodes() -> Result<Vec<NodeInfo>> {
    sysfs::each(Holding::Node, |entry| Ok(look(entry)?.0))
}

/// A node with its record, where making it was not interrupted, and the sizes of its pieces.
#[derive(Debug)]
pub struct Recorded {
    pub info: NodeInfo,
    pub record: Option<Record>,
    /// Sizes of its pieces of memory.
    pub pieces: Vec<u64>,
    /// Bytes of which what its kernel adds is a multiple; 0: none, or it has not run.
    pub unit: u64,
}

/// All nodes by their records.
pub fn records() -> Result<Vec<Recorded>> {
    sysfs::each(Holding::Node, |entry| {
        let (info, record) = look(entry)?;
        // Of one that sleeps in a file, what it will have.
        let stowed = Stowed::of(&entry.name)?.filter(|_| !entry.runs());
        let pieces = stowed.map_or_else(|| entry.pieces.clone(), |stowed| stowed.pieces);
        let unit = if entry.pieces.is_empty() || entry.state == "created" {
            0
        } else {
            let device = Device::read(Holding::Node, &entry.name)?;
            record::window(&device, entry, Access::Read)?.0.memory_unit()
        };
        let pieces = pieces.iter().map(|piece| piece.bytes).collect();
        Ok(Recorded { info, record, pieces, unit })
    })
}

fn look(entry: &sysfs::Status) -> Result<(NodeInfo, Option<Record>)> {
    let device = Device::read(Holding::Node, &entry.name)?;
    let record = record_of(&device, entry)?;
    let (mut message, mut is_lent, mut is_hung) = (None, false, false);
    let panicked = meaning(entry.word) == "panic";
    if !entry.pieces.is_empty() && (entry.runs() || panicked) {
        let window = record::window(&device, entry, Access::Read)?.0;
        is_lent = entry.runs() && window.is_lent();
        message = panicked.then(|| window.message());
        is_hung = entry.word == abi::WORD_READY && is_silent(&window, sysfs::tsc_khz()?);
    }
    let mut info = described(entry, record.as_ref(), is_lent, message);
    if is_hung && info.state == NodeState::Ready {
        info.state = NodeState::Hung;
    }
    Ok((info, record))
}

/// True if a node that is ready has shown no sign of life for so long that it does nothing more.
fn is_silent(window: &Window, khz: u64) -> bool {
    let beat = window.stamp(abi::STAMP_BEAT);
    // Read before the time, which may have gone on meanwhile, and never back.
    let silent = time_stamp().saturating_sub(beat);
    beat != 0 && silent > khz.saturating_mul(SILENT_LIMIT_MS)
}

/// A node by its entry, and its record where making it was not interrupted.
pub fn described(
    entry: &sysfs::Status,
    record: Option<&Record>,
    is_lent: bool,
    message: Option<String>,
) -> NodeInfo {
    let state = match entry.state.as_str() {
        "running" if has_ended(entry.word) => NodeState::Ended,
        "running" if entry.word == abi::WORD_READY => NodeState::Ready,
        "running" if is_lent && entry.word == abi::WORD_SILENT => NodeState::Lent,
        "running" => NodeState::Starting,
        "stopped" if record.is_some_and(|record| record.idle) => NodeState::Idle,
        "stopped" => NodeState::Stopped,
        _ => NodeState::Created,
    };
    NodeInfo {
        state,
        word: meaning(entry.word),
        message,
        cpus: entry.cpus.iter().map(|&(cpu, _)| cpu).collect(),
        bytes: entry.pieces.iter().map(|piece| piece.bytes).sum(),
        memory: entry.pieces.iter().map(sysfs::range).collect(),
        lent_to: record.and_then(|record| record.lent_to.clone()).filter(|_| is_lent),
        lent_snapshot: record.and_then(|record| record.lent_snapshot.clone()).filter(|_| is_lent),
        command_line: record.map(|record| record.command_line.clone()),
        image: record.map(|record| record.image.clone()),
        address: record.and_then(|record| address(&entry.name, &record.devices)),
        owner: entry.owner,
        service: service_state::state_of(&entry.name),
        name: entry.name.clone(),
    }
}

/// All nodes of the machine, in a node that watches its host, itself among them.
pub fn seen_here() -> Result<Vec<NodeInfo>> {
    let all = watchman::seen_here()?;
    Ok(all
        .into_iter()
        .map(|seen| described(&seen.entry, Some(&seen.record), seen.is_lent, seen.message))
        .collect())
}

/// Address at which this machine reaches a node: its first card with an address that is known here.
pub fn address(node: &str, devices: &[Assigned]) -> Option<IpAddr> {
    let of = |device: &Assigned| match &device.device {
        DeviceSpec::Net(net) => match net.address {
            Addressing::Static(address) => Some(address),
            Addressing::User => device.user_address(node),
            _ => None,
        },
        _ => None,
    };
    devices.iter().find_map(of).map(|address| IpAddr::V4(address.address))
}

/// Nodes with the images they start from, and whether another node starts them.
#[derive(Debug)]
pub struct Users(Vec<NodeInfo>);

pub fn users() -> Result<Users> {
    Ok(Users(nodes()?))
}

impl Users {
    pub fn of(&self, image: &str) -> Vec<String> {
        let uses = |node: &&NodeInfo| node.image.as_deref() == Some(image);
        self.0.iter().filter(uses).map(|node| node.name.clone()).collect()
    }

    /// Names of the nodes that were started from an image, whatever has become of them.
    pub fn running_of(&self, image: &str) -> Vec<String> {
        let runs = |node: &&NodeInfo| {
            node.image.as_deref() == Some(image)
                && !matches!(node.state, NodeState::Created | NodeState::Stopped)
        };
        self.0.iter().filter(runs).map(|node| node.name.clone()).collect()
    }

    pub fn lent_of(&self, image: &str) -> Vec<String> {
        let uses = |node: &&NodeInfo| {
            let from = [&node.image, &node.lent_snapshot];
            node.lent_to.is_some() && from.iter().any(|name| name.as_deref() == Some(image))
        };
        self.0.iter().filter(uses).map(|node| node.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use kumiki_node_wire::memory::Memory;

    use super::*;

    #[test]
    fn a_node_whose_agent_is_silent_for_long_hangs() {
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        // At 1 kHz, so that no clock of a test's machine is too slow.
        let is_silent = |beat: u64| {
            window.set_stamp(abi::STAMP_BEAT, beat);
            super::is_silent(&window, 1)
        };
        // An agent that is not there yet, or is of a kumiki that shows none.
        assert!(!is_silent(0));
        assert!(!is_silent(time_stamp() + 1_000_000_000_000));
        assert!(is_silent(time_stamp() - SILENT_LIMIT_MS - 1));
    }
}
