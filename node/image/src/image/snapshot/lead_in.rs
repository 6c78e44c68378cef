//! The way from a start's interrupt to a kernel that sleeps in a node's memory: written by whoever
//! starts it, its host or another node.

use std::time::{SystemTime, UNIX_EPOCH};

use kumiki_boot::{Partition, Plan, Source};
use kumiki_node_wire::asleep::Waking;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::time_stamp;
use kumiki_node_wire::window::Window;
use rustix::rand::{GetRandomFlags, getrandom};

use super::pages::Places;
use crate::{Error, ErrorKind, Result, Subject};

const TABLE_BYTES: u64 = 4096;

/// Writes what leads to the kernel, and what that is told as it wakes up. `memory` is mapped as
/// the places are; the kernel goes on at `wake`, by the page table at `tables`.
pub fn lead_in(
    node: &sysfs::Status,
    window: &Window,
    (memory, places): (&Memory, &Places),
    (wake, tables): (u64, u64),
) -> Result<()> {
    let partition = Partition::new(node.slice, node.pieces.clone())?;
    let at = places.offset(tables, TABLE_BYTES).filter(|at| at % TABLE_BYTES as usize == 0);
    let at = at.ok_or_else(|| {
        Error::refused(
            ErrorKind::Damaged,
            Subject::node(&node.name),
            format!(
                "the kernel of node {} says that its page table is at {tables:#x}, which is no page \
                 of its memory: its osnode-guest.ko is damaged",
                node.name
            ),
        )
    })?;
    let mut table = [0; TABLE_BYTES as usize];
    memory.read(at, &mut table);
    // They are the kernel's, and it needs them for its other cpus.
    let mut covered = [0; abi::COVERED_BYTES];
    let slice = places.offset(node.slice, covered.len() as u64);
    memory.read(slice.expect("the slice is one of the places"), &mut covered);
    let stamp = abi::STAMPS + 8 * abi::STAMP_TRAMPOLINE;
    let kernel = kumiki_boot::Asleep { entry: wake, table: &table };
    let plan = Plan::wake(&partition, &kernel, stamp as u64)?;
    for write in plan.writes {
        let at = places.offset(write.address, write.source.bytes());
        if let (Some(at), Source::Bytes(bytes)) = (at, write.source) {
            memory.write(at, &bytes);
        }
    }
    let mut random = [0; abi::RANDOM_BYTES];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|error| Error::os("taking random bytes for the node", error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ticks = time_stamp();
    let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    window.tell_waking(&Waking { covered: &covered, now_ns, now_ticks, random: &random });
    Ok(())
}
