//! Configuration of PCI functions, as far as a node's bus depends on it (PCI Local Bus
//! Specification 3.0, chapter 6; PCI-to-PCI Bridge Architecture Specification 1.2, chapter 3).

use std::fs;
use std::path::Path;

use crate::{Error, Result};

const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u16 = 1 << 4;
const HEADER_TYPE: usize = 0x0e;
const CAPABILITIES: usize = 0x34;
const MSI: u8 = 0x05;
const MSI_X: u8 = 0x11;
/// Numbers of the buses behind a bridge.
const SECONDARY: usize = 0x19;
const SUBORDINATE: usize = 0x1a;

/// The first 256 bytes.
#[derive(Debug)]
pub struct Config(Vec<u8>);

/// Addresses that a bridge hands on.
#[derive(Debug, PartialEq, Eq)]
pub struct Windows {
    /// First and last port, if any.
    pub ports: Option<(u16, u16)>,
    /// First and last byte, and whether reads have no effects.
    pub memory: Vec<(u64, u64, bool)>,
}

impl Config {
    /// Reads that of the function whose folder this is.
    pub fn of(folder: &Path) -> Result<Self> {
        let path = folder.join("config");
        let mut bytes = fs::read(&path).map_err(|error| Error::file(path, error))?;
        bytes.resize(256, 0);
        Ok(Config(bytes))
    }

    fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    pub fn is_bridge(&self) -> bool {
        self.u8(HEADER_TYPE) & 0x7f != 0
    }

    /// True if it can interrupt by writing to memory.
    pub fn has_messages(&self) -> bool {
        let mut at =
            if self.u16(STATUS) & HAS_CAPABILITIES == 0 { 0 } else { self.u8(CAPABILITIES) };
        // Each takes four bytes at least: a list that is longer goes round.
        for _ in 0..48 {
            let place = usize::from(at & !3);
            if place < 0x40 {
                return false;
            }
            if [MSI, MSI_X].contains(&self.u8(place)) {
                return true;
            }
            at = self.u8(place + 1);
        }
        false
    }

    /// The windows of a bridge to this bus alone.
    pub fn windows(&self, bus: u8) -> Option<Windows> {
        if !self.is_bridge() || [self.u8(SECONDARY), self.u8(SUBORDINATE)] != [bus, bus] {
            return None;
        }
        let (base, limit) = (self.u8(0x1c), self.u8(0x1d));
        let high = |at| if base & 0xf == 1 { self.u16(at) } else { 0 };
        let of_ports = |byte: u8| u32::from(byte & 0xf0) << 8;
        let ports = (
            u32::from(high(0x30)) << 16 | of_ports(base),
            u32::from(high(0x32)) << 16 | of_ports(limit) | 0xfff,
        );
        let of_memory = |word: u16| u64::from(word & 0xfff0) << 16;
        let plain = (of_memory(self.u16(0x20)), of_memory(self.u16(0x22)) | 0xf_ffff, false);
        let is_wide = self.u16(0x24) & 0xf == 1;
        let high = |at| if is_wide { u64::from(self.u32(at)) << 32 } else { 0 };
        let prefetchable = (
            high(0x28) | of_memory(self.u16(0x24)),
            high(0x2c) | of_memory(self.u16(0x26)) | 0xf_ffff,
            true,
        );
        // A window that is closed ends before it begins, or was never opened.
        let is_open = |&(first, last, _): &(u64, u64, bool)| first != 0 && first < last;
        let ports = u16::try_from(ports.0).ok().zip(u16::try_from(ports.1).ok());
        Some(Windows {
            ports: ports.filter(|&(first, last)| first != 0 && first < last),
            memory: [plain, prefetchable].into_iter().filter(is_open).collect(),
        })
    }
}

/// Address of a segment's configuration in a machine's memory, that of bus 0, by its MCFG (PCI
/// Firmware Specification 3.0, 4.1.2).
pub fn ecam(mcfg: &[u8], segment: u16, bus: u8) -> Option<u64> {
    let found = mcfg.get(44..)?.chunks_exact(16).find(|entry| {
        u16::from_le_bytes([entry[8], entry[9]]) == segment
            && (entry[10]..=entry[11]).contains(&bus)
    })?;
    Some(u64::from_le_bytes(std::array::from_fn(|n| found[n])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(words: &[(usize, &[u8])]) -> Config {
        let mut bytes = vec![0; 256];
        for (at, word) in words {
            bytes[*at..at + word.len()].copy_from_slice(word);
        }
        Config(bytes)
    }

    #[test]
    fn messages_are_found_in_the_list_and_a_list_that_goes_round_ends() {
        let list = |kind: u8| {
            config(&[
                (STATUS, &[0x10, 0]),
                (CAPABILITIES, &[0x40]),
                (0x40, &[1, 0x60]),
                (0x60, &[kind, 0x40]),
            ])
        };
        assert!(list(MSI).has_messages() && list(MSI_X).has_messages());
        assert!(!list(9).has_messages());
        assert!(!config(&[(CAPABILITIES, &[0x40]), (0x40, &[MSI, 0])]).has_messages());
    }

    /// A root port of QEMU's.
    #[test]
    fn a_bridges_windows_are_read_as_it_has_them() {
        let port = [
            (HEADER_TYPE, &[1_u8][..]),
            (SECONDARY, &[1, 1]),
            (0x1c, &[0x11, 0x11]),
            (0x20, &[0x00, 0xfe, 0x10, 0xfe]),
            (0x24, &[0x01, 0, 0x11, 0]),
            (0x28, &[8, 0, 0, 0, 8, 0, 0, 0]),
        ];
        let windows = config(&port).windows(1).unwrap();
        assert_eq!(windows.ports, Some((0x1000, 0x1fff)));
        let memory = [(0xfe00_0000, 0xfe1f_ffff, false), (0x8_0000_0000, 0x8_001f_ffff, true)];
        assert_eq!(windows.memory, memory);
        assert_eq!(config(&port).windows(2), None);
        // Closed: the limit is below the base.
        let closed = [&port[..2], &[(0x1c, &[0xf1, 0x01]), (0x20, &[0xf0, 0xff, 0, 0])]].concat();
        let closed = config(&closed).windows(1).unwrap();
        assert_eq!(closed, Windows { ports: None, memory: vec![] });
    }

    #[test]
    fn the_segments_memory_is_found_by_bus() {
        let mut mcfg = vec![0; 44];
        let entry = |base: u64, segment: u8, first: u8, last: u8| {
            [&base.to_le_bytes()[..], &[segment, 0, first, last, 0, 0, 0, 0]].concat()
        };
        mcfg.extend(entry(0xb000_0000, 0, 0, 0x7f));
        mcfg.extend(entry(0xe000_0000, 1, 0, 0xff));
        assert_eq!(ecam(&mcfg, 0, 1), Some(0xb000_0000));
        assert_eq!(ecam(&mcfg, 1, 1), Some(0xe000_0000));
        assert_eq!(ecam(&mcfg, 0, 0x80), None);
        assert_eq!(ecam(&[], 0, 1), None);
    }
}
