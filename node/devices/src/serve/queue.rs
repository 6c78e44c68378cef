//! Queues that threads of this process serve: one request after another, an interrupt where the
//! driver wants one, and sleep until its next kick.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::backend::{F_EVENT_IDX, Interrupt, NodeMemory, Ring, fd};
use crate::{Error, ErrorKind, Result};

/// Requests between two looks whether the device is to stop.
pub(super) const ROUND: u32 = 64;
const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

pub(super) type Outcome<T> = Result<T, virtio_queue::Error>;

/// The crate's queue for a ring.
pub(super) fn queue(ring: &Ring, accepted: u64) -> Result<Queue> {
    let refused =
        |error: virtio_queue::Error| Error::inner(ErrorKind::Protocol, format!("a queue: {error}"));
    let mut queue = Queue::new(ring.limit).map_err(refused)?;
    queue.try_set_size(ring.size).map_err(refused)?;
    let half = |address: u64| (Some(address as u32), Some((address >> 32) as u32));
    let (low, high) = half(ring.descriptors);
    queue.set_desc_table_address(low, high);
    let (low, high) = half(ring.driver);
    queue.set_avail_ring_address(low, high);
    let (low, high) = half(ring.device);
    queue.set_used_ring_address(low, high);
    queue.set_event_idx(accepted & F_EVENT_IDX != 0);
    queue.set_next_avail(ring.next);
    queue.set_next_used(ring.next);
    queue.set_ready(true);
    Ok(queue)
}

/// Queues of a device that has one for the node's input, the first, and one for its output.
pub(super) fn both(
    name: &str,
    rings: Vec<Ring>,
    accepted: u64,
) -> Result<((Queue, Ring), (Queue, Ring))> {
    let (mut receive, mut transmit) = (None, None);
    for ring in rings {
        let queue = queue(&ring, accepted)?;
        let side = if ring.index == 0 { &mut receive } else { &mut transmit };
        *side = Some((queue, ring));
    }
    receive.zip(transmit).ok_or_else(|| {
        let text = format!("a {name} without both of its queues");
        Error::inner(ErrorKind::Protocol, text)
    })
}

/// Answers what is in the queue, `round` requests at most: a driver that adds more all the time
/// would else keep who stops the device waiting. `answer` says how many bytes of the node's memory
/// it has written. Whether there may be more.
pub(super) fn drain<'m>(
    queue: &mut Queue,
    memory: &'m NodeMemory,
    interrupt: &Interrupt,
    round: u32,
    mut answer: impl FnMut(DescriptorChain<&'m NodeMemory>) -> u32,
) -> Outcome<bool> {
    let (mut left, mut last) = (round, None);
    loop {
        queue.disable_notification(memory)?;
        // An index out of reach ends it here; `pop_descriptor_chain` would hide it.
        while let Some(chain) = queue.iter(memory)?.next() {
            let head = chain.head_index();
            let written = answer(chain);
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

/// An error if there is said to be more a second time, and nothing could be taken between:
/// that would go on for ever. Once is a driver that adds while it is looked.
fn went_on(queue: &Queue, last: &mut Option<u16>) -> Outcome<()> {
    let at = queue.next_avail();
    match last.replace(at) {
        Some(before) if before == at => Err(virtio_queue::Error::InvalidAvailRingIndex),
        _ => Ok(()),
    }
}

/// Sleeps until one of these is ready for what is asked of it, not at all if there is `more` to
/// do. What each is ready for; nothing at all if a signal came.
pub(super) fn ready<const N: usize>(
    fds: [(BorrowedFd<'_>, PollFlags); N],
    more: bool,
) -> [PollFlags; N] {
    let mut fds = fds.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
    match poll(&mut fds, more.then_some(&NOT_AT_ALL)) {
        Ok(_) => fds.map(|fd| fd.revents()),
        Err(_) => [PollFlags::empty(); N],
    }
}

/// The thread that serves a device, while the device is started.
#[derive(Default)]
pub(super) struct Server(Option<(EventFd, JoinHandle<()>)>);

impl Server {
    /// Starts it: `run` ends when its argument can be read, or with a driver that breaks the
    /// queues' rules, for which the device then stands still.
    pub(super) fn start(
        &mut self,
        name: &'static str,
        interrupt: Interrupt,
        run: impl FnOnce(&EventFd) -> Outcome<()> + Send + 'static,
    ) -> Result<()> {
        let end = EventFd::new(EFD_NONBLOCK).map_err(|error| Error::os("an eventfd", error))?;
        let ended = end.try_clone().map_err(|error| Error::os("an eventfd", error))?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            let _death = Death(name);
            if let Err(error) = run(&ended) {
                super::say(format_args!("the queues of a {name} stand still: {error}"));
                interrupt.broken();
            }
        });
        let thread = thread.map_err(|error| Error::os(format!("a {name}'s thread"), error))?;
        self.0 = Some((end, thread));
        Ok(())
    }

    /// Serves a device of one queue, each request answered by `answer`.
    pub(super) fn answer(
        &mut self,
        name: &'static str,
        rings: Vec<Ring>,
        accepted: u64,
        memory: Arc<NodeMemory>,
        answer: impl Fn(&NodeMemory, DescriptorChain<&NodeMemory>) -> u32 + Send + 'static,
    ) -> Result<()> {
        let Some(ring) = rings.into_iter().next() else {
            return Err(Error::inner(ErrorKind::Protocol, format!("a {name} without a queue")));
        };
        let mut queue = queue(&ring, accepted)?;
        self.start(name, ring.interrupt.clone(), move |end| {
            loop {
                let answer = |chain| answer(&memory, chain);
                let more = drain(&mut queue, &memory, &ring.interrupt, ROUND, answer)?;
                let input = PollFlags::IN;
                let [ended, kicked] = ready([(fd(end), input), (fd(&ring.kick), input)], more);
                if ended.contains(input) {
                    return Ok(());
                }
                if kicked.contains(input) {
                    let _ = ring.kick.read();
                }
            }
        })
    }

    /// Ends it: nothing of the node's memory is touched once this has returned.
    pub(super) fn stop(&mut self) -> Result<()> {
        if let Some((end, thread)) = self.0.take() {
            end.write(1).map_err(|error| Error::os("stopping a device", error))?;
            // It has not panicked: that ends the process.
            let _ = thread.join();
        }
        Ok(())
    }
}

/// Status of a process in which a device's thread has panicked: that of a main thread that panics.
const PANICKED: i32 = 101;

/// Ends the process where a device's thread panics: the supervisor starts another one, which takes
/// all devices over, where this one would go on with one that stands still.
struct Death(&'static str);

impl Drop for Death {
    fn drop(&mut self) {
        if thread::panicking() {
            super::say(format_args!(
                "a {} has panicked, its message stands above: this process ends, and another one \
                 serves its devices",
                self.0
            ));
            std::process::exit(PANICKED);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use kumiki_node_wire::memory::Memory;

    use super::*;
    use crate::serve::bus::{Bus, Doorbell};

    const PANICS: &str = "KUMIKI_TEST_DEVICE_PANICS";

    #[test]
    fn a_device_whose_thread_panics_ends_its_process() {
        if std::env::var_os(PANICS).is_none() {
            let this = std::env::current_exe().unwrap();
            let test = thread::current().name().unwrap().to_owned();
            let mut child = Command::new(this);
            let output = child.args(["--exact", &test]).env(PANICS, "1").output().unwrap();
            assert_eq!(output.status.code(), Some(PANICKED), "{output:?}");
            return;
        }
        let bus = Arc::new(Bus::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES)));
        let doorbell = Doorbell { bus, device: None };
        let interrupt = Interrupt { doorbell, slot: 0, bit: 0, call: None };
        let mut server = Server::default();
        server.start("made-up device", interrupt, |_| panic!("by its test")).unwrap();
        thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn a_queue_stands_still_only_if_there_is_more_twice_and_nothing_to_take() {
        let (mut queue, mut last) = (Queue::new(16).unwrap(), None);
        assert!(went_on(&queue, &mut last).is_ok(), "a driver that has just added");
        queue.set_next_avail(1);
        assert!(went_on(&queue, &mut last).is_ok(), "which was taken");
        assert!(went_on(&queue, &mut last).is_err());
    }
}
