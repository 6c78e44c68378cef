//! The nodes of a machine, as one of them sees the others in their windows.

use std::fs::File;
use std::os::fd::AsFd;

use super::order;
use crate::host::record::{Record, window_of};
use crate::listing::{self, NodeInfo};
use crate::memory::Memory;
use crate::module::abi;
use crate::module::sysfs::{RUNNING, Status};
use crate::wire::window::{Window, meaning};
use crate::{Error, Result};

const MEMORY: &str = "/dev/mem";

/// Those of this list that are there still.
pub(super) fn seen(told: &[Status]) -> Result<Vec<NodeInfo>> {
    let device = File::open(MEMORY).map_err(|error| Error::file(MEMORY, error))?;
    let mut all = Vec::new();
    for entry in told {
        let Some(first) = entry.pieces.first() else { continue };
        let window = Window::new(Memory::map(device.as_fd(), &[window_of(first)], false)?);
        let record = serde_json::from_slice::<Record>(&window.record()).ok();
        // Deleted, it has none; and its memory may be something else by now.
        let Some(record) = record.filter(|record| record.name == entry.name) else { continue };
        all.push(as_seen(entry, &window, &record));
    }
    Ok(all)
}

fn as_seen(entry: &Status, window: &Window, record: &Record) -> NodeInfo {
    // Which it was when the host told of it, its window tells better: a stop is said there.
    let word = if window.is_one() { window.word() } else { abi::WORD_SILENT };
    let state = match word {
        abi::WORD_SILENT => "created",
        abi::WORD_STOPPED => "stopped",
        _ => RUNNING,
    };
    let entry = Status { state: state.into(), word, owner: 0, ..entry.clone() };
    let message = (meaning(word) == "panic").then(|| window.message());
    listing::described(&entry, Some(record), window.is_lent(), message)
}

/// In a node that watches: all nodes of its machine, itself among them.
pub fn seen_here() -> Result<Vec<NodeInfo>> {
    match order::last() {
        Some(order) => seen(&order.signs()?.told()?.nodes),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::NodeState;

    #[test]
    fn a_node_stands_as_its_window_says() {
        let entry = Status {
            name: "n2".into(),
            state: "created".into(),
            owner: 7,
            pieces: vec![],
            cpus: vec![(2, 2)],
            slice: 0,
            word: 0,
        };
        let record = r#"{"version":1,"name":"n2","image":"deb","cpus":[2],"command_line":""}"#;
        let record: Record = serde_json::from_str(record).unwrap();
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        let state = |window: &Window| as_seen(&entry, window, &record).state;
        assert_eq!(state(&window), NodeState::Created);
        window.make_one();
        window.say(abi::WORD_READY);
        assert_eq!(state(&window), NodeState::Ready);
        window.say(abi::WORD_STOPPED);
        assert_eq!(state(&window), NodeState::Stopped);
        window.say_panic("no root");
        let info = as_seen(&entry, &window, &record);
        assert_eq!((info.state, info.message.as_deref()), (NodeState::Ended, Some("no root")));
    }
}
