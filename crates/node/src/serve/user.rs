//! A shared folder: virtiofsd, a process of its own, by vhost-user.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{GuestAddress, GuestMemoryBackend};

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, NodeMemory, Ring,
};
use super::vhost::{regions, vring};
use crate::{Error, ErrorKind, Result};

const ID: u32 = 26;
const QUEUE_SIZE: u16 = 256;
/// For requests that overtake others, and for all others.
const QUEUES: u64 = 2;
pub(crate) const TAG_BYTES: usize = 36;
const F_PROTOCOL: u64 = 1 << 30;

/// virtiofsd, connected.
pub(crate) struct Share {
    frontend: Frontend,
    memory: Arc<NodeMemory>,
    offered: u64,
    tag: String,
    started: Vec<usize>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::refused(ErrorKind::Refused, format!("virtiofsd: {error}"))
}

impl Share {
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
        }
        Ok(Share { frontend, memory, offered, tag: tag.to_owned(), started: Vec::new() })
    }
}

impl Share {
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

impl Backend for Share {
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
}
