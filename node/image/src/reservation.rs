//! Taking memory from the host: from its kernel's allocator, by taking blocks off
//! line, or what it was started without.

use kumiki_boot::Piece;
use kumiki_node_wire::device::{Device, HOST_KEEPS_BYTES, available_bytes};
use kumiki_node_wire::memory::{blocks, numa};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use serde::{Deserialize, Serialize};

use crate::watchmen::{Telling, abandon};
use crate::{Error, ErrorKind, Result, Subject};

/// Origin of a node's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemorySource {
    /// The first of the others that has enough, or several.
    #[default]
    Any,
    /// The running kernel's allocator.
    Contiguous,
    /// Whole blocks that are taken off line, within a minute.
    Offline,
    /// Memory that `memmap=SIZE$ADDRESS` or `mem=SIZE` kept from this machine's kernel.
    Boot,
}

impl MemorySource {
    /// Each by the word that a person writes.
    pub const WORDS: [(&str, MemorySource); 4] = [
        ("any", MemorySource::Any),
        ("contig", MemorySource::Contiguous),
        ("offline", MemorySource::Offline),
        ("boot", MemorySource::Boot),
    ];
}

/// Adds pieces, or says why there are not enough.
type Way = fn(&Device, u64, u64, &[u32], &mut Vec<Piece>) -> Result<()>;

/// `bytes` in as few pieces as there are, of the first of these NUMA nodes that have
/// them; the first piece has at least `first_bytes`. Where what was kept from the host's
/// kernel is nearest this kernel does not know.
pub fn pieces(
    device: &Device,
    bytes: u64,
    first_bytes: u64,
    source: MemorySource,
    numa_nodes: &[u32],
) -> Result<Vec<Piece>> {
    let ways: &[Way] = match source {
        MemorySource::Any => &[contiguous, off_line, set_aside],
        MemorySource::Contiguous => &[contiguous],
        MemorySource::Offline => &[off_line],
        MemorySource::Boot => &[set_aside],
    };
    let _telling = Telling;
    let mut taken = Vec::new();
    let mut reasons = Vec::new();
    for way in ways {
        let left = bytes.saturating_sub(taken.iter().map(|piece: &Piece| piece.bytes).sum());
        if left == 0 {
            break;
        }
        let least = if taken.is_empty() { first_bytes } else { abi::PIECE_UNIT };
        if let Err(error) = way(device, left, least, numa_nodes, &mut taken) {
            reasons.push(error.to_string());
        }
    }
    if taken.iter().map(|piece| piece.bytes).sum::<u64>() >= bytes {
        return Ok(taken);
    }
    let most = taken.iter().map(|piece| piece.bytes).sum();
    Err(Error::refused(
        ErrorKind::NoMemory,
        Subject::Memory { asked: bytes, most },
        format!("{}: {}", device.title(), reasons.join("; ")),
    ))
}

pub fn leaves_enough(bytes: u64) -> Result<()> {
    let available = available_bytes()?;
    if bytes.saturating_add(HOST_KEEPS_BYTES) > available {
        return Err(Error::refused(
            ErrorKind::NoMemory,
            Subject::Memory { asked: bytes, most: available.saturating_sub(HOST_KEEPS_BYTES) },
            format!(
                "{bytes} bytes of memory are not free: the host has {available} available and \
             keeps {HOST_KEEPS_BYTES}; ask for less, or delete a node or an image"
            ),
        ));
    }
    Ok(())
}

/// Takes memory from the kernel's allocator.
fn contiguous(
    device: &Device,
    bytes: u64,
    first_bytes: u64,
    numa_nodes: &[u32],
    taken: &mut Vec<Piece>,
) -> Result<()> {
    leaves_enough(bytes)?;
    let mut left = bytes;
    let mut size = bytes;
    while left > 0 {
        size = size.min(left);
        let of = |&node: &u32| device.memory(size, node).transpose();
        if let Some(piece) = numa_nodes.iter().find_map(of).transpose()? {
            left -= size;
            taken.push(piece);
            continue;
        }
        // The next power of two below is found more easily than what it was.
        let smaller = 1 << (size - 1).ilog2();
        let least = if taken.is_empty() { first_bytes } else { abi::PIECE_UNIT };
        size = if smaller >= least || size <= least { smaller } else { least };
        if size < least || taken.len() == abi::PIECES {
            return Err(Error::refused(
                ErrorKind::NoMemory,
                Subject::Memory { asked: bytes, most: bytes - left },
                format!(
                    "{left} of {bytes} bytes of memory are not free in contiguous pieces (of at \
                 least {least}){}: free some (echo 1 > /proc/sys/vm/drop_caches), or ask for less",
                    numa::restriction(numa_nodes)
                ),
            ));
        }
    }
    Ok(())
}

/// Blocks of memory that are taken off line for it.
fn off_line(
    device: &Device,
    bytes: u64,
    first_bytes: u64,
    numa_nodes: &[u32],
    taken: &mut Vec<Piece>,
) -> Result<()> {
    leaves_enough(bytes)?;
    let mut left = bytes;
    for whole in device.notes().take(bytes, first_bytes, numa_nodes)? {
        // Of the last block what was asked for: the same request finds it complete.
        let piece = Piece { bytes: whole.bytes.min(left), ..whole };
        device.claim(&piece)?;
        left -= piece.bytes;
        taken.push(piece);
    }
    Ok(())
}

/// Memory kept from this machine's kernel at its start.
fn set_aside(
    device: &Device,
    bytes: u64,
    first_bytes: u64,
    _: &[u32],
    taken: &mut Vec<Piece>,
) -> Result<()> {
    let mut left = bytes;
    let mut refusals = String::new();
    for whole in blocks::set_aside()? {
        for piece in free_of(whole, &held()?) {
            let least = if taken.is_empty() { first_bytes } else { abi::PIECE_UNIT };
            if left > 0 && piece.bytes >= least {
                let piece = Piece { bytes: piece.bytes.min(left), ..piece };
                match device.claim(&piece) {
                    Ok(()) => {
                        left -= piece.bytes;
                        taken.push(piece);
                    }
                    // Another one may do.
                    Err(Error::Refused(why)) => refusals = format!("{refusals}; {why}"),
                    Err(error) => return Err(error),
                }
            }
        }
    }
    if left == 0 {
        return Ok(());
    }
    Err(Error::refused(
        ErrorKind::NoMemory,
        Subject::Memory { asked: bytes, most: bytes - left },
        format!(
            "{left} of {bytes} bytes were not kept from this machine's kernel: start it with \
         memmap=SIZE$ADDRESS or mem=SIZE{refusals}"
        ),
    ))
}

/// Memory taken from the host that is no node's yet. It stays when this value goes:
/// an image that is not complete, `kumiki image rm` gives it back.
pub struct Reservation(Device);

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl Reservation {
    /// Takes so much.
    pub fn take(name: &str, bytes: u64, source: MemorySource) -> Result<Self> {
        let (device, _) = Device::create(Holding::Image, name)?;
        match pieces(&device, bytes, abi::PIECE_UNIT, source, &numa::with_memory()) {
            Ok(_) => Ok(Reservation(device)),
            Err(error) => {
                abandon(&device);
                Err(error)
            }
        }
    }

    /// Gives it back.
    pub fn give_back(self) -> Result<()> {
        let _telling = Telling;
        self.0.release()
    }
}

/// Memory of all nodes and images.
fn held() -> Result<Vec<Piece>> {
    let all = [sysfs::all(Holding::Node)?, sysfs::all(Holding::Image)?].concat();
    Ok(all.into_iter().flat_map(|entry| entry.pieces).collect())
}

/// Rest of a piece between those that are held.
fn free_of(whole: Piece, held: &[Piece]) -> Vec<Piece> {
    let mut held: Vec<&Piece> = held.iter().collect();
    held.sort_by_key(|piece| piece.address);
    let (mut at, mut free) = (whole.address, Vec::new());
    for piece in held {
        let end = piece.address.min(whole.end());
        if end > at {
            free.push(Piece { address: at, bytes: end - at });
        }
        at = at.max(piece.end());
    }
    if at < whole.end() {
        free.push(Piece { address: at, bytes: whole.end() - at });
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_free() {
        let piece = |address, bytes| Piece { address, bytes };
        let free = |held: &[Piece]| free_of(piece(100, 100), held);
        assert_eq!(free(&[]), [piece(100, 100)]);
        assert_eq!(free(&[piece(150, 10), piece(0, 50)]), [piece(100, 50), piece(160, 40)]);
        assert_eq!(free(&[piece(90, 20), piece(190, 20)]), [piece(110, 80)]);
        assert_eq!(free(&[piece(100, 100)]), []);
        assert_eq!(free(&[piece(300, 100), piece(0, 100)]), [piece(100, 100)]);
    }

    #[test]
    fn more_than_the_host_has_is_refused_as_memory() {
        assert_eq!(leaves_enough(u64::MAX).unwrap_err().kind(), ErrorKind::NoMemory);
        leaves_enough(0).unwrap();
    }
}
