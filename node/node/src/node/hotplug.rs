//! Memory that a node gets and gives back while it runs. See `docs/design/node-elastic.md`.

use std::time::Duration;

use kumiki_boot::Piece;
use kumiki_node_devices::record::{self, MemoryLimits, Record};
use kumiki_node_devices::serve::{self, Control};
use kumiki_node_image::reservation::leaves_enough;
use kumiki_node_image::watchmen::Telling;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::window::Window;
use kumiki_node_wire::wish::{MemoryOrder, Wish};

use super::Node;
use super::resize::not_answering;
use crate::node::session::Session;
use crate::{Error, ErrorKind, Result, Subject};

/// Time that a node's kernel may take for an order: longer than its agent tries.
const ORDER_LIMIT: Duration = Duration::from_secs(60);

impl Node {
    /// Gives it memory, or has it give some back, until it has so many bytes or the next more that
    /// is possible; at once if it runs. Returns those that it has then.
    pub fn set_memory(&self, wanted: u64) -> Result<u64> {
        let _telling = Telling;
        let (device, entry, record) = self.owned()?;
        let window = record::window(&device, &entry, Access::Write)?.0;
        let (with, added) = record.parts(&entry.pieces);
        let (with, added) = (with.to_vec(), added.to_vec());
        let unit = window.memory_unit();
        let runs = entry.runs();
        let named = record.numa.clone();
        let mut change =
            MemoryChange { node: self, device, window, with, added, unit, runs, named };
        let wanted = change.possible(&entry, &record, wanted)?;
        change.settle()?;
        if change.bytes() < wanted {
            change.grow(wanted)?;
        } else if change.bytes() > wanted {
            change.shrink(wanted)?;
        }
        Ok(change.bytes())
    }
}

struct MemoryChange<'a> {
    node: &'a Node,
    device: Device,
    window: Window,
    /// Memory that its kernel was started with.
    with: Vec<Piece>,
    /// Memory that it has added, or is to add.
    added: Vec<Piece>,
    unit: u64,
    runs: bool,
    /// NUMA nodes that a person has named for it.
    named: Vec<u32>,
}

fn sum(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes).sum()
}

fn mib(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

/// The next size from so many bytes on: what it was started with, and whole units.
pub(crate) fn next_size(with: u64, unit: u64, wanted: u64) -> Option<u64> {
    let more = wanted.checked_sub(with)?;
    more.checked_next_multiple_of(unit)?.checked_add(with)
}

impl MemoryChange<'_> {
    fn bytes(&self) -> u64 {
        sum(&self.with) + sum(&self.added)
    }

    /// The size that it is to have; refuses what cannot be.
    fn possible(&self, entry: &sysfs::Status, record: &Record, wanted: u64) -> Result<u64> {
        let name = &self.node.name;
        let refused = |kind, problem: String| {
            let text = format!("node {name}: memory of {wanted} bytes: {problem}");
            Err(Error::refused(kind, Subject::node(name), text))
        };
        if let Some((kind, problem)) = not_answering(entry, &self.window, self.runs) {
            return refused(kind, problem.to_owned());
        }
        if self.unit == 0 || !self.unit.is_multiple_of(abi::PIECE_UNIT) {
            let problem = "its kernel adds none while it runs (CONFIG_MEMORY_HOTREMOVE), or has not \
                           run since it was made";
            return refused(ErrorKind::Unsupported, problem.to_owned());
        }
        if let Some(function) = record.pci.first() {
            let problem = format!(
                "it has PCI function {function}, which may write to the memory that the node was \
                 started with, and no other: kumiki node device rm {name} pci:{function}"
            );
            return refused(ErrorKind::Unsupported, problem);
        }
        let with = sum(&self.with);
        let possible = with + (abi::PIECES - self.with.len()) as u64 * self.unit;
        let limits = record.memory.unwrap_or(MemoryLimits { min: with, max: possible });
        let (least, most) = (limits.min.max(with), limits.max.min(possible));
        match next_size(with, self.unit, wanted) {
            Some(size) if (least..=most).contains(&size) => Ok(size),
            _ => refused(
                ErrorKind::Invalid,
                format!(
                    "{} to {} are possible, in steps of {}: what it was started with, and {} pieces \
                     of what its kernel adds at a time{}",
                    mib(least),
                    mib(most),
                    mib(self.unit),
                    abi::PIECES - self.with.len(),
                    if record.memory.is_some() {
                        ", within its min_memory and max_memory (--min-memory, --max-memory)"
                    } else {
                        ""
                    }
                ),
            ),
        }
    }

    /// Memory that was neither used nor given back goes back: a change may have been killed in the
    /// midst.
    fn settle(&mut self) -> Result<()> {
        let known = self.window.blocks();
        for piece in self.added.clone() {
            let block = known.iter().find(|block| block.piece == piece);
            if block.is_some_and(|block| block.is_used) || !self.runs {
                continue;
            }
            if block.is_none() && !self.window.offer(&piece) {
                continue;
            }
            self.back(&piece)?;
        }
        Ok(())
    }

    /// Gives one piece back, if its kernel has let go of it.
    fn back(&mut self, piece: &Piece) -> Result<bool> {
        let is_back = self.device.piece_back(piece)?;
        self.added.retain(|own| !is_back || own != piece);
        Ok(is_back)
    }

    /// Tells who serves its devices of all of its memory.
    fn tell_server(&self) -> Result<()> {
        let pieces = self.with.iter().chain(&self.added);
        let pieces = pieces.map(|piece| (piece.address, piece.bytes)).collect();
        serve::ask(&self.node.name, &Control::Memory(pieces)).map(drop)
    }

    fn order(&self, order: MemoryOrder) -> Result<()> {
        Session::open_by_host(&self.node.name)?.order(&Wish::Memory(order), ORDER_LIMIT)
    }

    /// Takes memory from this machine's kernel and has the node's use it.
    fn grow(&mut self, wanted: u64) -> Result<()> {
        let before = self.added.len();
        let used = self.take(wanted).and_then(|()| {
            if !self.runs {
                return Ok(());
            }
            // First: its devices are told to read and write there at once.
            self.tell_server()?;
            let on = self.added[before..].iter().map(|piece| piece.address).collect();
            self.order(MemoryOrder { on, off: vec![] })
        });
        let Err(error) = used else { return Ok(()) };
        // What it does not use goes back; what it uses in spite of its word is its own.
        let mut left = String::new();
        for piece in self.added.split_off(before).into_iter().rev() {
            self.added.push(piece);
            if let Err(error) = self.back(&piece) {
                left = format!("{left}; and this was not undone: {error}");
            }
        }
        let _ = self.tell_server();
        let text = format!("{error}{left}");
        Err(error.reworded(text))
    }

    fn take(&mut self, wanted: u64) -> Result<()> {
        let more = wanted - self.bytes();
        leaves_enough(more)?;
        let near = self.near()?;
        while self.bytes() < wanted {
            let of =
                |&node: &u32| self.device.memory_aligned(self.unit, self.unit, node).transpose();
            let Some(piece) = near.iter().find_map(of).transpose()? else {
                return Err(Error::refused(
                    ErrorKind::NoMemory,
                    Subject::Memory { asked: more, most: more - (wanted - self.bytes()) },
                    format!(
                        "node {}: {} of {} more are not free in pieces of {}{}: free some (echo 1 > \
                         /proc/sys/vm/drop_caches), or ask for less",
                        self.node.name,
                        mib(wanted - self.bytes()),
                        mib(more),
                        mib(self.unit),
                        numa::restriction(&near)
                    ),
                ));
            };
            self.added.push(piece);
            if self.runs && !self.window.offer(&piece) {
                return Err(Error::refused(
                    ErrorKind::Full,
                    Subject::limit("pieces of memory", abi::PIECES + 1, abi::PIECES),
                    format!("node {} has {} pieces of memory", self.node.name, abi::PIECES),
                ));
            }
        }
        Ok(())
    }

    /// The NUMA nodes that were named; else the one that has its first piece, or all where this machine's
    /// kernel does not know.
    fn near(&self) -> Result<Vec<u32>> {
        if !self.named.is_empty() {
            return Ok(self.named.clone());
        }
        let all = numa::with_memory();
        let of_first = |&node: &u32| numa::has_address(node, self.with[0].address);
        let own: Vec<u32> = all.iter().copied().filter(of_first).collect();
        Ok(if own.is_empty() { all } else { own })
    }

    /// Has its kernel let go of some, and takes that back.
    fn shrink(&mut self, wanted: u64) -> Result<()> {
        let mut why = None;
        for piece in self.added.clone().into_iter().rev() {
            if self.bytes() <= wanted {
                break;
            }
            if self.runs {
                let order = self.order(MemoryOrder { on: vec![], off: vec![piece.address] });
                why = order.err().or(why);
            }
            self.back(&piece)?;
        }
        if self.runs {
            self.tell_server()?;
        }
        if self.bytes() <= wanted {
            return Ok(());
        }
        let why = why.map_or(String::new(), |error| format!(" ({error})"));
        Err(Error::refused(
            ErrorKind::Busy,
            Subject::node(&self.node.name),
            format!(
                "node {}: its kernel does not let go of {} of its memory{why}: it keeps that, and has \
                 {}; try again later, or end what holds memory there",
                self.node.name,
                mib(self.bytes() - wanted),
                mib(self.bytes())
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_it_was_started_with_and_whole_units() {
        let size = |wanted: u64| next_size(400, 128, wanted);
        assert_eq!(size(399), None);
        assert_eq!((size(400), size(401), size(528)), (Some(400), Some(528), Some(528)));
        assert_eq!(size(u64::MAX), None);
    }
}
