//! A shared folder: virtiofsd, a process of its own, by vhost-user.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{GuestAddress, GuestMemoryBackend};

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, NodeMemory, Ring,
};
use super::vhost::{regions, vring};
use crate::{Error, ErrorKind, Result, Subject};

const ID: u32 = 26;
const QUEUE_SIZE: u16 = 256;
/// Queues for requests that overtake others, and for all others.
const QUEUES: u64 = 2;
pub(crate) const TAG_BYTES: usize = 36;
const F_PROTOCOL: u64 = 1 << 30;

/// virtiofsd, connected.
pub(crate) struct VhostUserFs {
    frontend: Frontend,
    memory: Arc<NodeMemory>,
    offered: u64,
    tag: String,
    started: Vec<usize>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::refused(
        ErrorKind::Refused,
        Subject::Program("virtiofsd".into()),
        format!("virtiofsd: {error}"),
    )
}

impl VhostUserFs {
    pub(crate) fn new(socket: File, tag: &str, memory: Arc<NodeMemory>) -> Result<Self> {
        let socket = UnixStream::from(OwnedFd::from(socket));
        let mut frontend = Frontend::from_stream(socket, QUEUES);
        frontend.set_owner().map_err(failed)?;
        let offered = frontend.get_features().map_err(failed)?;
        if offered & F_PROTOCOL != 0 {
            // Known to both before any queue is enabled by itself.
            frontend.set_features(offered & (F_PROTOCOL | F_VERSION_1)).map_err(failed)?;
            let known = frontend.get_protocol_features().map_err(failed)?;
            let wanted = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
            frontend.set_protocol_features(known & wanted).map_err(failed)?;
            if known.contains(VhostUserProtocolFeatures::REPLY_ACK) {
                // It hears kicks before its queues are enabled, and forgets them: whoever starts it
                // waits until each word was taken in.
                frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
            }
        }
        Ok(VhostUserFs { frontend, memory, offered, tag: tag.to_owned(), started: Vec::new() })
    }
}

impl VhostUserFs {
    /// A queue by where it is in this process, as this protocol has it.
    fn here(&self, ring: &Ring) -> Result<VringConfigData> {
        let at = |address| -> Result<u64> {
            let here = self.memory.get_host_address(GuestAddress(address));
            Ok(here.map_err(failed)? as u64)
        };
        Ok(VringConfigData {
            desc_table_addr: at(ring.descriptors)?,
            used_ring_addr: at(ring.device)?,
            avail_ring_addr: at(ring.driver)?,
            ..vring(ring)
        })
    }
}

impl Backend for VhostUserFs {
    fn describe(&self) -> Description {
        let mut config = vec![0; TAG_BYTES];
        config[..self.tag.len()].copy_from_slice(self.tag.as_bytes());
        config.extend(1_u32.to_le_bytes());
        Description {
            id: ID,
            features: self.offered & (F_VERSION_1 | F_EVENT_IDX | F_INDIRECT_DESC),
            limits: vec![QUEUE_SIZE; QUEUES as usize],
            config,
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        let regions = regions(&self.memory)?;
        let protocol = self.offered & F_PROTOCOL;
        self.frontend.set_features(accepted | protocol).map_err(failed)?;
        self.frontend.set_mem_table(&regions).map_err(failed)?;
        for ring in &rings {
            let (index, here) = (ring.index.into(), self.here(ring)?);
            let mut tell = || -> vhost::Result<()> {
                self.frontend.set_vring_num(index, ring.size)?;
                self.frontend.set_vring_base(index, ring.next)?;
                self.frontend.set_vring_addr(index, &here)?;
                self.frontend.set_vring_call(index, &ring.call)?;
                self.frontend.set_vring_kick(index, &ring.kick)?;
                if protocol != 0 { self.frontend.set_vring_enable(index, true) } else { Ok(()) }
            };
            tell().map_err(failed)?;
            self.started.push(index);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let stop = |index| self.frontend.get_vring_base(index).map(drop).map_err(failed);
        super::each(std::mem::take(&mut self.started).into_iter().map(stop))
    }

    /// Goes on without a stop: requests end in any order, and those under way would be lost.
    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        if !self.started.is_empty() {
            let regions = regions(&self.memory)?;
            self.frontend.set_mem_table(&regions).map_err(failed)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::sync::Mutex;
    use std::thread;
    use std::time::Duration;

    use kumiki_node_wire::memory::Memory;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use vm_memory::FileOffset;
    use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

    use super::*;
    use crate::serve::backend::Interrupt;
    use crate::serve::bus::{Bus, Doorbell};

    const GET_FEATURES: u32 = 1;
    const GET_PROTOCOL_FEATURES: u32 = 15;
    const SET_VRING_ENABLE: u32 = 18;
    const REPLY: u32 = 0x5;
    const NEED_REPLY: u32 = 0x8;

    /// A daemon that others keep from its cpu; notes each request once it has carried it out.
    fn busy(mut socket: UnixStream, done: &Mutex<Vec<u32>>) {
        let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
        let mut header = [0; 12];
        while socket.read_exact(&mut header).is_ok() {
            let [request, flags, bytes] = [0, 4, 8].map(|at| word(&header[at..at + 4]));
            socket.read_exact(&mut vec![0; bytes as usize]).unwrap();
            thread::sleep(Duration::from_millis(5));
            done.lock().unwrap().push(request);
            let ack = VhostUserProtocolFeatures::REPLY_ACK.bits();
            let answer = match request {
                GET_FEATURES => F_PROTOCOL | F_VERSION_1,
                GET_PROTOCOL_FEATURES => ack | VhostUserProtocolFeatures::MQ.bits(),
                _ if flags & NEED_REPLY != 0 => 0,
                _ => continue,
            };
            let header = [request, REPLY, 8].map(u32::to_ne_bytes).concat();
            socket.write_all(&[&header[..], &answer.to_ne_bytes()].concat()).unwrap();
        }
    }

    fn ring(index: u16) -> Ring {
        let bus = Arc::new(Bus::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES)));
        let doorbell = Doorbell { bus, device: None };
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        Ring {
            index,
            limit: QUEUE_SIZE,
            size: 4,
            descriptors: 0x1000,
            driver: 0x2000,
            device: 0x3000,
            next: 0,
            kick: event(),
            call: event(),
            interrupt: Interrupt { doorbell, slot: 0, bit: index.into(), call: None },
        }
    }

    /// The node kicks as soon as it is told that its folder's queues have begun; a kick before
    /// they are enabled is lost, and with it the mount.
    #[test]
    fn a_queue_has_begun_when_its_daemon_has_enabled_it() {
        let file = memfd_create("node", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 0x8000).unwrap();
        let file = FileOffset::new(File::from(file.as_fd().try_clone_to_owned().unwrap()), 0);
        let ranges = [(GuestAddress(0x1000), 0x8000, Some(file))];
        let memory = Arc::new(NodeMemory::from_ranges_with_files(ranges).unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&done);
        let daemon = thread::spawn(move || busy(theirs, &noted));
        let mut share = VhostUserFs::new(File::from(OwnedFd::from(ours)), "tag", memory).unwrap();
        share.start(F_VERSION_1, vec![ring(0), ring(1)]).unwrap();
        let enabled = done.lock().unwrap().iter().filter(|&&one| one == SET_VRING_ENABLE).count();
        assert_eq!(enabled, 2);
        drop(share);
        daemon.join().unwrap();
    }
}
