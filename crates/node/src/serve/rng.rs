//! Entropy: the host's own random bytes, by a thread of this process.

use std::io::Write;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::rand::{GetRandomFlags, getrandom};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::backend::{Backend, Description, F_EVENT_IDX, F_VERSION_1, Interrupt, NodeMemory, Ring};
use super::block::{queue, wait, went_on};
use crate::{Error, ErrorKind, Result};

const ID: u32 = 4;
const QUEUE_SIZE: u16 = 8;
/// Bytes of one request at the most; a driver asks for 64 at a time.
const BYTES: usize = 4096;
/// Requests between two looks whether the device is to stop.
const ROUND: u32 = 64;

/// A source of entropy, and its thread while it is started.
pub(super) struct Entropy {
    memory: Arc<NodeMemory>,
    running: Option<(EventFd, JoinHandle<()>)>,
}

impl Entropy {
    pub(super) fn new(memory: Arc<NodeMemory>) -> Self {
        Entropy { memory, running: None }
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
        let Some(ring) = rings.into_iter().next() else {
            return Err(Error::refused(ErrorKind::Protocol, "a source of entropy without a queue"));
        };
        let mut queue = queue(&ring, accepted)?;
        let end = EventFd::new(EFD_NONBLOCK).map_err(|error| Error::os("an eventfd", error))?;
        let ended = end.try_clone().map_err(|error| Error::os("an eventfd", error))?;
        let memory = Arc::clone(&self.memory);
        let thread = thread::Builder::new().name("rng".into()).spawn(move || {
            loop {
                match drain(&mut queue, &memory, &ring.interrupt) {
                    Ok(more) if wait(&ring.kick, &ended, more) => {}
                    Ok(_) => return,
                    Err(error) => {
                        super::say(format_args!("a queue for entropy stands still: {error}"));
                        return ring.interrupt.broken();
                    }
                }
            }
        });
        let thread = thread.map_err(|error| Error::os("a thread for entropy", error))?;
        self.running = Some((end, thread));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some((end, thread)) = self.running.take() {
            end.write(1).map_err(|error| Error::os("stopping a source of entropy", error))?;
            // One that has panicked touches nothing more.
            let _ = thread.join();
        }
        Ok(())
    }
}

/// Fills what is in the queue, [`ROUND`] requests at most. Whether there may be more.
fn drain(
    queue: &mut Queue,
    memory: &NodeMemory,
    interrupt: &Interrupt,
) -> Result<bool, virtio_queue::Error> {
    let (mut left, mut last) = (ROUND, None);
    loop {
        queue.disable_notification(memory)?;
        while let Some(chain) = queue.iter(memory)?.next() {
            let head = chain.head_index();
            let written = fill(memory, chain);
            queue.add_used(memory, head, written)?;
            if queue.needs_notification(memory)? {
                interrupt.raise();
            }
            left -= 1;
            if left == 0 {
                return Ok(true);
            }
        }
        if !queue.enable_notification(memory)? {
            return Ok(false);
        }
        went_on(queue, &mut last)?;
    }
}

/// Random bytes for one request, as far as it has room; how many.
fn fill(memory: &NodeMemory, chain: DescriptorChain<&NodeMemory>) -> u32 {
    let Ok(mut writer) = chain.writer::<()>(memory) else { return 0 };
    let mut bytes = [0; BYTES];
    let wanted = writer.available_bytes().min(BYTES);
    let Ok(got) = getrandom(&mut bytes[..wanted], GetRandomFlags::empty()) else { return 0 };
    writer.write(&bytes[..got]).map_or(0, |written| written as u32)
}
