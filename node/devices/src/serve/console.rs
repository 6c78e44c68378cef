//! A console: the node's /dev/hvc0 at one end, a terminal of the host at the other. Bytes go both
//! ways by a thread of this process.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vmm_sys_util::eventfd::EventFd;

use super::backend::{Backend, Description, F_EVENT_IDX, F_VERSION_1, NodeMemory, Ring, fd};
use super::queue::{Outcome, ROUND, Server, both, drain, ready};
use crate::Result;

pub(super) const ID: u32 = 3;
const QUEUE_SIZE: u16 = 64;
/// Bytes at a time; a driver offers a page.
const BYTES: usize = 4096;

/// A console, and its thread while it is started.
pub(super) struct Console {
    terminal: Arc<File>,
    memory: Arc<NodeMemory>,
    server: Server,
}

impl Console {
    /// `terminal` does not block.
    pub(super) fn new(terminal: File, memory: Arc<NodeMemory>) -> Self {
        Console { terminal: Arc::new(terminal), memory, server: Server::default() }
    }
}

impl Backend for Console {
    fn describe(&self) -> Description {
        Description {
            id: ID,
            features: F_VERSION_1 | F_EVENT_IDX,
            limits: vec![QUEUE_SIZE; 2],
            // Columns and rows, which it does not tell.
            config: vec![0; 4],
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        self.stop()?;
        let (terminal, memory) = (Arc::clone(&self.terminal), Arc::clone(&self.memory));
        let mut ends = Ends::new(terminal, memory, accepted, rings)?;
        let interrupt = ends.transmit.1.interrupt.clone();
        self.server.start("console", interrupt, move |end| ends.run(end))
    }

    fn stop(&mut self) -> Result<()> {
        self.server.stop()
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }
}

/// Both queues, and the terminal between them.
pub(super) struct Ends {
    terminal: Arc<File>,
    memory: Arc<NodeMemory>,
    receive: (Queue, Ring),
    transmit: (Queue, Ring),
    /// The node has room for what is typed.
    room: bool,
}

impl Ends {
    pub(super) fn new(
        terminal: Arc<File>,
        memory: Arc<NodeMemory>,
        accepted: u64,
        rings: Vec<Ring>,
    ) -> Result<Self> {
        let (receive, transmit) = both("console", rings, accepted)?;
        Ok(Ends { terminal, memory, receive, transmit, room: false })
    }

    /// Moves bytes both ways, as far as there are any now. Whether there may be more.
    pub(super) fn move_all(&mut self) -> Outcome<bool> {
        let more = self.show()?;
        Ok(self.type_in()? || more)
    }

    fn run(&mut self, end: &EventFd) -> Outcome<()> {
        loop {
            let more = self.move_all()?;
            let input = PollFlags::IN;
            let typed = if self.room { input } else { PollFlags::empty() };
            let (receive, transmit) = (&self.receive.1.kick, &self.transmit.1.kick);
            let fds = [
                (fd(end), input),
                (fd(receive), input),
                (fd(transmit), input),
                (self.terminal.as_fd(), typed),
            ];
            let [ended, ..] = ready(fds, more);
            if ended.contains(input) {
                return Ok(());
            }
            let _ = (receive.read(), transmit.read());
        }
    }

    /// Output of the node. A terminal that nobody reads takes some of it, and the rest is lost: a
    /// kernel that waited for its console would stand still.
    fn show(&mut self) -> Outcome<bool> {
        let Ends { terminal, memory, transmit: (queue, ring), .. } = self;
        let memory = &**memory;
        drain(queue, memory, &ring.interrupt, ROUND, |chain| {
            let Ok(mut reader) = chain.reader::<()>(memory) else { return 0 };
            let mut bytes = [0; BYTES];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if (&**terminal).write(&bytes[..length]).is_err() {
                    break;
                }
            }
            0
        })
    }

    /// Input for the node, as far as it has room.
    fn type_in(&mut self) -> Outcome<bool> {
        let Ends { terminal, memory, receive: (queue, ring), room, .. } = self;
        let memory = &**memory;
        for _ in 0..ROUND {
            let Some(chain) = queue.iter(memory)?.next() else {
                *room = false;
                // It may have made room just now.
                return queue.enable_notification(memory);
            };
            let head = chain.head_index();
            let mut bytes = [0; BYTES];
            let mut written = 0;
            if let Ok(mut writer) = chain.writer::<()>(memory) {
                let wanted = writer.available_bytes().min(BYTES);
                let Ok(length) = (&**terminal).read(&mut bytes[..wanted]) else {
                    queue.go_to_previous_position();
                    *room = true;
                    return Ok(false);
                };
                written = writer.write(&bytes[..length]).unwrap_or(0);
            }
            queue.add_used(memory, head, written as u32)?;
            if queue.needs_notification(memory)? {
                ring.interrupt.raise();
            }
        }
        *room = true;
        Ok(true)
    }
}
