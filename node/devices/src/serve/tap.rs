//! A TAP of the host as a node's network card. With several queues, each has a descriptor, and
//! those that the node's driver does not use are detached: the TAP would give them frames.

use std::fs::{File, OpenOptions};
use std::io;

use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl, opcode};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, Subject};

/// Virtio's number of a network card.
pub(crate) const ID: u32 = 1;

const F_CSUM: u64 = 1 << 0;
const F_GUEST_CSUM: u64 = 1 << 1;
const F_MTU: u64 = 1 << 3;
const F_MAC: u64 = 1 << 5;
const F_GUEST_TSO4: u64 = 1 << 7;
const F_GUEST_TSO6: u64 = 1 << 8;
const F_GUEST_ECN: u64 = 1 << 9;
const F_HOST_TSO4: u64 = 1 << 11;
const F_HOST_TSO6: u64 = 1 << 12;
const F_HOST_ECN: u64 = 1 << 13;
pub(crate) const F_MRG_RXBUF: u64 = 1 << 15;
const F_CTRL_VQ: u64 = 1 << 17;
pub(crate) const F_MQ: u64 = 1 << 22;

const PATH: &str = "/dev/net/tun";
const NAME_BYTES: usize = 16;
const TYPE: u8 = b'T';
const SETIFF: Opcode = opcode::write::<i32>(TYPE, 202);
const SETOFFLOAD: Opcode = opcode::write::<u32>(TYPE, 208);
const SETVNETHDRSZ: Opcode = opcode::write::<i32>(TYPE, 216);
const SETQUEUE: Opcode = opcode::write::<i32>(TYPE, 217);
const IFF_TAP: u16 = 0x0002;
const IFF_MULTI_QUEUE: u16 = 0x0100;
const IFF_ATTACH_QUEUE: u16 = 0x0200;
const IFF_DETACH_QUEUE: u16 = 0x0400;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const OFFLOAD_CSUM: usize = 0x01;
const OFFLOAD_TSO4: usize = 0x02;
const OFFLOAD_TSO6: usize = 0x04;
const OFFLOAD_TSO_ECN: usize = 0x08;
/// Bytes of a virtio header before each frame.
const HEADER_BYTES: i32 = 12;

/// State of its link that a node's card is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: Option<u16>,
    /// Pairs of queues, each with a queue of the TAP.
    pub(crate) pairs: u16,
}

impl Link {
    /// `struct virtio_net_config`: address, status, pairs of queues, MTU.
    pub(crate) fn config(&self) -> Vec<u8> {
        let mut config = self.mac.to_vec();
        config.extend([0, 0]);
        config.extend(self.pairs.to_le_bytes());
        config.extend(self.mtu.unwrap_or(1500).to_le_bytes());
        config
    }
}

/// Features of a TAP, by a card's features.
pub(crate) fn features(link: &Link) -> u64 {
    let mtu = if link.mtu.is_some() { F_MTU } else { 0 };
    let pairs = if link.pairs > 1 { F_CTRL_VQ | F_MQ } else { 0 };
    let to_host = F_CSUM | F_HOST_TSO4 | F_HOST_TSO6 | F_HOST_ECN;
    let to_node = F_GUEST_CSUM | F_GUEST_TSO4 | F_GUEST_TSO6 | F_GUEST_ECN;
    F_MAC | mtu | pairs | to_host | to_node
}

/// Has the TAP hand over only what the node's driver can take.
pub(crate) fn offload(tap: &File, accepted: u64) -> Result<()> {
    let table = [
        (F_GUEST_CSUM, OFFLOAD_CSUM),
        (F_GUEST_TSO4, OFFLOAD_TSO4),
        (F_GUEST_TSO6, OFFLOAD_TSO6),
        (F_GUEST_ECN, OFFLOAD_TSO_ECN),
    ];
    let flags = table.iter().filter(|(feature, _)| accepted & feature != 0);
    let flags = flags.fold(0, |flags, (_, flag)| flags | flag);
    // Without a checksum there is no segmentation.
    let flags = if flags & OFFLOAD_CSUM == 0 { 0 } else { flags };
    // SAFETY: this request takes a number.
    let request = unsafe { IntegerSetter::<SETOFFLOAD>::new_usize(flags) };
    // SAFETY: as above.
    unsafe { ioctl(tap, request) }.map_err(|error| Error::os("setting a TAP's offloads", error))
}

#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// The TAP of this name, so many queues of it; it is made if there is none, and goes with its last
/// descriptor.
pub(crate) fn open(name: &str, queues: u16) -> Result<Vec<File>> {
    let all: Vec<File> = (0..queues).map(|_| queue(name, queues > 1)).collect::<Result<_>>()?;
    // Until the node's driver has said how many it uses.
    if queues > 1 {
        attach(&all, 1)?;
    }
    Ok(all)
}

/// Attaches the first `count` queues to their TAP, and detaches the others.
pub(crate) fn attach(queues: &[File], count: u16) -> Result<()> {
    for (n, queue) in queues.iter().enumerate() {
        let flags = if n < usize::from(count) { IFF_ATTACH_QUEUE } else { IFF_DETACH_QUEUE };
        let request = InterfaceRequest { name: [0; NAME_BYTES], flags, rest: [0; 22] };
        // SAFETY: this request reads one `struct ifreq`, which this is.
        let setter = unsafe { Setter::<SETQUEUE, InterfaceRequest>::new(request) };
        // SAFETY: as above.
        match unsafe { ioctl(queue, setter) } {
            // It is so already.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(Error::os("attaching a TAP's queues", error)),
        }
    }
    Ok(())
}

fn queue(name: &str, of_several: bool) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(PATH);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Unsupported {
            feature: format!("a TAP ({PATH})"),
            needs: "load the module tun (modprobe tun)".into(),
        },
        _ => Error::file(PATH, error),
    })?;
    let several = if of_several { IFF_MULTI_QUEUE } else { 0 };
    let flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | several;
    let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: this request reads and writes one `struct ifreq`, which this is.
    let setter = unsafe { Setter::<SETIFF, InterfaceRequest>::new(request) };
    // SAFETY: as above.
    unsafe { ioctl(&file, setter) }.map_err(|error| match error {
        Errno::BUSY => Error::refused(ErrorKind::Busy, Subject::Interface(name.to_owned()), format!("TAP {name} is in use: another node or machine has it")),
        Errno::INVAL => Error::refused(ErrorKind::Invalid, Subject::Interface(name.to_owned()), format!(
            "{name} is no TAP of {}: choose another name, or one made by ip tuntap add {name} mode tap{}",
            if of_several { "several queues" } else { "one queue" },
            if of_several { " multi_queue" } else { "" },
        )),
        error => Error::os(format!("opening TAP {name}"), error),
    })?;
    // SAFETY: this request reads one number.
    let setter = unsafe { Setter::<SETVNETHDRSZ, i32>::new(HEADER_BYTES) };
    // SAFETY: as above.
    unsafe { ioctl(&file, setter) }
        .map_err(|error| Error::os(format!("setting TAP {name}'s header"), error))?;
    rustix::io::ioctl_fionbio(&file, true)
        .map_err(|error| Error::os(format!("opening TAP {name}"), error))?;
    Ok(file)
}
