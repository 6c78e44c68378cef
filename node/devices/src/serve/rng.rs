//! Entropy: the host's own random bytes, by a thread of this process.

use std::io::Write;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};
use virtio_queue::DescriptorChain;

use super::backend::{Backend, Description, F_EVENT_IDX, F_VERSION_1, NodeMemory, Ring};
use super::queue::Server;
use crate::Result;

const ID: u32 = 4;
const QUEUE_SIZE: u16 = 8;
/// Bytes of one request at the most; a driver asks for 64 at a time.
const BYTES: usize = 4096;

/// A source of entropy, and its thread while it is started.
pub(super) struct Entropy {
    memory: Arc<NodeMemory>,
    server: Server,
}

impl Entropy {
    pub(super) fn new(memory: Arc<NodeMemory>) -> Self {
        Entropy { memory, server: Server::default() }
    }
}

impl Backend for Entropy {
    fn describe(&self) -> Description {
        Description {
            id: ID,
            features: F_VERSION_1 | F_EVENT_IDX,
            limits: vec![QUEUE_SIZE],
            config: Vec::new(),
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        self.stop()?;
        self.server.answer("source of entropy", rings, accepted, Arc::clone(&self.memory), fill)
    }

    fn stop(&mut self) -> Result<()> {
        self.server.stop()
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }
}

/// Random bytes for one request, as far as it has room; how many.
pub(super) fn fill(memory: &NodeMemory, chain: DescriptorChain<&NodeMemory>) -> u32 {
    let Ok(mut writer) = chain.writer::<()>(memory) else { return 0 };
    let mut bytes = [0; BYTES];
    let wanted = writer.available_bytes().min(BYTES);
    let Ok(got) = getrandom(&mut bytes[..wanted], GetRandomFlags::empty()) else { return 0 };
    writer.write(&bytes[..got]).map_or(0, |written| written as u32)
}
