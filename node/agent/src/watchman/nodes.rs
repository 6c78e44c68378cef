//! The nodes of a machine, as one of them sees the others in their windows.

use std::fs::File;
use std::os::fd::AsFd;

use kumiki_node_devices::record::{Record, window_of};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;
use kumiki_node_wire::module::sysfs::{RUNNING, Status};
use kumiki_node_wire::window::{Window, meaning};

use super::order;
use crate::{Error, Result};

const MEMORY: &str = "/dev/mem";

/// A node, as its window shows it.
#[derive(Debug)]
pub struct Seen {
    /// The node as the host has told of it, with its window as it is now.
    pub entry: Status,
    /// Parts of which it was made.
    pub record: Record,
    /// True if another node may start it.
    pub is_lent: bool,
    /// A panic's text.
    pub message: Option<String>,
}

/// Nodes of this list that are there still.
pub(super) fn seen(told: &[Status]) -> Result<Vec<Seen>> {
    let device = File::open(MEMORY).map_err(|error| Error::file(MEMORY, error))?;
    let mut all = Vec::new();
    for entry in told {
        let Some(first) = entry.pieces.first() else { continue };
        let window = Window::new(Memory::map(device.as_fd(), &[window_of(first)], Access::Read)?);
        let record = serde_json::from_slice::<Record>(&window.record()).ok();
        // Deleted, it has none; and its memory may be something else by now.
        let Some(record) = record.filter(|record| record.name == entry.name) else { continue };
        all.push(as_seen(entry, &window, record));
    }
    Ok(all)
}

fn as_seen(entry: &Status, window: &Window, record: Record) -> Seen {
    // Which it was when the host told of it, its window tells better: a stop is said there.
    let word = if window.is_one() { window.word() } else { abi::WORD_SILENT };
    let state = match word {
        abi::WORD_SILENT => "created",
        abi::WORD_STOPPED => "stopped",
        _ => RUNNING,
    };
    let entry = Status { state: state.into(), word, owner: 0, ..entry.clone() };
    let message = (meaning(word) == "panic").then(|| window.message());
    Seen { entry, record, is_lent: window.is_lent(), message }
}

/// All nodes of the machine, in a node that watches, itself among them.
pub fn seen_here() -> Result<Vec<Seen>> {
    match order::last() {
        Some(order) => seen(&order.signs()?.host_description()?.nodes),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let record = Record::new("n2", "deb", vec![2]);
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        let state = |window: &Window| {
            let seen = as_seen(&entry, window, record.clone());
            (seen.entry.state, seen.entry.word, seen.entry.owner)
        };
        assert_eq!(state(&window), ("created".to_owned(), abi::WORD_SILENT, 0));
        window.make_one();
        window.say(abi::WORD_READY);
        assert_eq!(state(&window), (RUNNING.to_owned(), abi::WORD_READY, 0));
        window.say(abi::WORD_STOPPED);
        assert_eq!(state(&window), ("stopped".to_owned(), abi::WORD_STOPPED, 0));
        window.say_panic("no root");
        let seen = as_seen(&entry, &window, record);
        assert_eq!((meaning(seen.entry.word), seen.message.as_deref()), ("panic", Some("no root")));
    }
}
