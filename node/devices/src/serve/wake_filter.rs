//! Frames that wake a node: a filter on its TAP, while nobody serves it.

use std::fs::File;
use std::net::Ipv4Addr;

use libc::{sock_filter, sock_fprog};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use crate::{Error, Result};

const TYPE: u8 = b'T';
const ATTACH: Opcode = opcode::write::<sock_fprog>(TYPE, 213);
const DETACH: Opcode = opcode::write::<sock_fprog>(TYPE, 214);

/// Classic BPF, linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_IF: u16 = 0x15;
const RETURN: u16 = 0x06;
const ARP: u32 = 0x0806;
const REQUEST: u32 = 1;

/// Lets through what is sent to this card alone, and questions for its addresses: ARP's for that of
/// IPv4, and IPv6's for those whose end is the card's. All else is dropped.
fn filter(mac: [u8; 6], address: Option<Ipv4Addr>) -> [sock_filter; 13] {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let [a, b, c, d, e, f] = mac;
    let address = address.map_or(0, u32::from);
    [
        step(LOAD_HALF, 0, 0, 12),
        step(JUMP_IF, 0, 4, ARP),
        step(LOAD_HALF, 0, 0, 20),
        step(JUMP_IF, 0, 8, REQUEST),
        step(LOAD_WORD, 0, 0, 38),
        step(JUMP_IF, 5, 6, address),
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF, 1, 0, u32::from_be_bytes([a, b, c, d])),
        step(JUMP_IF, 0, 3, u32::from_be_bytes([0x33, 0x33, 0xff, d])),
        step(LOAD_HALF, 0, 0, 4),
        step(JUMP_IF, 0, 1, u16::from_be_bytes([e, f]).into()),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// Filters the TAP: from now on it has only packets for its node.
pub fn only(tap: &File, mac: [u8; 6], address: Option<Ipv4Addr>) -> Result<()> {
    let mut steps = filter(mac, address);
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: this request reads one such structure, and the steps that it points to, which
    // outlive it.
    let setter = unsafe { Setter::<ATTACH, sock_fprog>::new(program) };
    // SAFETY: as above; the kernel keeps a copy.
    unsafe { ioctl(tap, setter) }.map_err(|error| Error::os("filtering a TAP", error))
}

/// Takes away what came before the filter: this machine's own greetings as a card came up.
pub fn drain(tap: &File) {
    let mut frame = [0; 2048];
    loop {
        match rustix::io::read(tap, &mut frame) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// All frames again.
pub fn detach(tap: &File) -> Result<()> {
    let none = sock_fprog { len: 0, filter: std::ptr::null_mut() };
    // SAFETY: this request's argument is not looked at.
    let setter = unsafe { Setter::<DETACH, sock_fprog>::new(none) };
    // SAFETY: as above.
    unsafe { ioctl(tap, setter) }.map_err(|error| Error::os("a TAP's filter", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own rules for these few instructions.
    fn passes(steps: &[sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &steps[at];
            let k = step.k as usize;
            at += 1;
            match step.code {
                LOAD_WORD | LOAD_HALF => {
                    let bytes = if step.code == LOAD_WORD { 4 } else { 2 };
                    let Some(bytes) = frame.get(k..k + bytes) else { return false };
                    value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
                }
                JUMP_IF => {
                    at += usize::from(if value == step.k { step.jt } else { step.jf });
                }
                RETURN => return step.k != 0,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn only_what_asks_for_a_node_wakes_it() {
        let mac = [2, 1, 2, 3, 4, 5];
        let steps = filter(mac, Some(Ipv4Addr::new(10, 77, 0, 2)));
        let frame = |to: [u8; 6], kind: u16, rest: &[u8]| {
            [&to[..], &[2, 9, 9, 9, 9, 9], &kind.to_be_bytes(), rest].concat()
        };
        let arp = |operation: u8, target: [u8; 4]| {
            let begin = [0, 1, 8, 0, 6, 4, 0, operation];
            frame([0xff; 6], 0x0806, &[&begin[..], &[0; 16], &target].concat())
        };
        let yes = [
            frame(mac, 0x0800, &[0; 40]),
            frame(mac, 0x86dd, &[0; 40]),
            arp(1, [10, 77, 0, 2]),
            frame([0x33, 0x33, 0xff, 3, 4, 5], 0x86dd, &[0; 40]),
        ];
        let no = [
            arp(1, [10, 77, 0, 3]),
            arp(2, [10, 77, 0, 2]),
            frame([0xff; 6], 0x0800, &[0; 40]),
            frame([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &[0; 40]),
            frame([2, 1, 2, 3, 4, 6], 0x0800, &[0; 40]),
            vec![0; 10],
        ];
        yes.iter().for_each(|frame| assert!(passes(&steps, frame), "{frame:x?}"));
        no.iter().for_each(|frame| assert!(!passes(&steps, frame), "{frame:x?}"));
        // One whose address is not known here.
        assert!(!passes(&filter(mac, None), &arp(1, [10, 77, 0, 2])));
    }
}
