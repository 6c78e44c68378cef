//! Physical memory of the machine, read by a node whose own kernel does not manage it.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;

use kumiki_boot::Piece;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::memory::Memory;

use crate::{Error, ErrorKind, Result, Subject};

/// Memory that a node's kernel does not know as its own can be mapped here; read(2) ends at
/// the last byte of its own.
const MEMORY: &str = "/dev/mem";

/// Mapped at a time: page tables for more would take the node's own memory.
const WINDOW_BYTES: u64 = 8 << 20;
/// Number of mappings that are kept: a walk of page tables looks at five places in turn.
const WINDOWS: usize = 8;

/// Bytes by their physical address.
pub(super) trait Physical {
    /// Fills `into` from this address on.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<()>;

    fn u64(&mut self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The host's memory, through windows that are mapped where something is looked at.
pub(super) struct HostMemory {
    device: File,
    ram: Vec<Piece>,
    /// The last one that was used comes first.
    windows: Vec<(Piece, Memory)>,
}

impl HostMemory {
    /// Opens it, for these ranges alone: what is between them are devices, which reading may upset.
    pub(super) fn new(ram: Vec<Piece>) -> Result<Self> {
        let device = OpenOptions::new().read(true).open(MEMORY);
        let device = device.map_err(|error| Error::file(MEMORY, error))?;
        Ok(HostMemory { device, ram, windows: Vec::new() })
    }

    /// A window that this address is in, at the front.
    fn window(&mut self, address: u64) -> Result<&(Piece, Memory)> {
        let known = self.windows.iter().position(|(piece, _)| holds(piece, address));
        let window = match known {
            Some(at) => self.windows.remove(at),
            None => {
                let piece = around(&self.ram, address)?;
                self.windows.truncate(WINDOWS - 1);
                (piece, Memory::map(self.device.as_fd(), &[piece], Access::Read)?)
            }
        };
        self.windows.insert(0, window);
        Ok(&self.windows[0])
    }
}

fn holds(piece: &Piece, address: u64) -> bool {
    (piece.address..piece.end()).contains(&address)
}

/// The aligned window around an address, as far as it is memory of that range.
fn around(ram: &[Piece], address: u64) -> Result<Piece> {
    let range = ram.iter().find(|range| holds(range, address)).ok_or_else(|| {
        Error::refused(
            ErrorKind::Invalid,
            Subject::Address(address),
            format!("{address:#x} is no memory of the host's"),
        )
    })?;
    let start = (address / WINDOW_BYTES * WINDOW_BYTES).max(range.address);
    let end = ((address / WINDOW_BYTES + 1) * WINDOW_BYTES).min(range.end());
    Ok(Piece { address: start, bytes: end - start })
}

impl Physical for HostMemory {
    fn read(&mut self, mut address: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let (piece, memory) = self.window(address)?;
            let length = into.len().min((piece.end() - address) as usize);
            let (now, rest) = into.split_at_mut(length);
            memory.read((address - piece.address) as usize, now);
            (address, into) = (address + length as u64, rest);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod fixtures {
    use std::collections::BTreeMap;

    use super::*;

    /// Pages by their address.
    #[derive(Default)]
    pub(in crate::watchman) struct Pages(pub(in crate::watchman) BTreeMap<u64, Vec<u8>>);

    impl Pages {
        pub(in crate::watchman) fn write(&mut self, address: u64, bytes: &[u8]) {
            for (n, &byte) in bytes.iter().enumerate() {
                let at = address + n as u64;
                let page = self.0.entry(at & !0xfff).or_insert_with(|| vec![0; 0x1000]);
                page[(at & 0xfff) as usize] = byte;
            }
        }
    }

    impl Physical for Pages {
        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<()> {
            for (n, byte) in into.iter_mut().enumerate() {
                let at = address + n as u64;
                let page = self.0.get(&(at & !0xfff)).ok_or_else(|| {
                    Error::refused(
                        ErrorKind::Invalid,
                        Subject::Address(at),
                        format!("{at:#x} is no memory"),
                    )
                })?;
                *byte = page[(at & 0xfff) as usize];
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_stays_in_the_range_that_its_address_is_in() {
        let ram = [(0x1000, 0x9e000), (0x10_0000, 0x3ff0_0000)];
        let ram = ram.map(|(address, bytes)| Piece { address, bytes });
        let of = |address| around(&ram, address).map(|piece| (piece.address, piece.end()));
        assert_eq!(of(0x2000).unwrap(), (0x1000, 0x9f000));
        assert_eq!(of(0x10_0000).unwrap(), (0x10_0000, 0x80_0000));
        assert_eq!(of(0x80_0001).unwrap(), (0x80_0000, 0x100_0000));
        assert_eq!(of(0x3fff_ffff).unwrap(), (0x3f80_0000, 0x4000_0000));
        assert!(of(0xa_0000).unwrap_err().to_string().contains("0xa0000 is no memory"));
    }

    #[test]
    fn reading_goes_on_over_windows() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 * WINDOW_BYTES).unwrap();
        let at = 2 * WINDOW_BYTES - 3;
        std::os::unix::fs::FileExt::write_at(file.as_file(), b"abcdef", at).unwrap();
        let ram = vec![Piece { address: 0, bytes: 3 * WINDOW_BYTES }];
        let device = file.reopen().unwrap();
        let mut memory = HostMemory { device, ram, windows: Vec::new() };
        let mut bytes = [0; 6];
        memory.read(at, &mut bytes).unwrap();
        assert_eq!((&bytes, memory.windows.len()), (b"abcdef", 2));
        assert!(memory.read(3 * WINDOW_BYTES - 1, &mut bytes).is_err());
    }
}
