//! The near side of a program that runs in a node: its streams, and what
//! somebody here asks of it.

use std::io::Write;
use std::os::fd::BorrowedFd;

use kumiki_node_wire::frame::{CHUNK_BYTES, FrameKind, Size, send};
use kumiki_node_wire::window::Channel;
use rustix::event::PollFlags;

use crate::{Error, Result};

/// Leaves a console: Ctrl-], as of telnet(1) and virsh(1).
pub(crate) const LEAVE: u8 = 0x1d;

/// End of a program in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Exit by itself, with this status.
    Exited(u32),
    /// End by this signal.
    Signalled(u32),
    /// Somebody at its console has left it with Ctrl-].
    Left,
}

/// Orders to a program beside its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A signal for it and all it has started.
    Signal(u32),
    /// Its terminal has another size.
    Resize(Size),
}

/// Source of orders.
pub trait Orders {
    /// Readable as soon as there is one.
    fn ready(&self) -> BorrowedFd<'_>;

    /// The next one. Called again only once the program has been told it.
    fn next(&mut self) -> std::io::Result<Option<Order>>;
}

/// A program's streams, and orders for it.
pub struct Client<'a> {
    /// Its standard input; without one it reads an end at once.
    pub input: Option<BorrowedFd<'a>>,
    /// Receiver of its output.
    pub out: &'a mut dyn Write,
    /// Receiver of its errors; a terminal's come with the output.
    pub err: &'a mut dyn Write,
    /// Its orders.
    pub orders: Option<&'a mut dyn Orders>,
}

impl std::fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("input", &self.input).finish_non_exhaustive()
    }
}

/// Standard input on its way to the node.
pub(crate) struct Input<'a> {
    from: Option<BorrowedFd<'a>>,
    /// Read, and not sent for want of room.
    pending: Option<Vec<u8>>,
    /// True if [`LEAVE`] ends it.
    may_leave: bool,
    /// Seen in the input; what came before it is still sent.
    leaving: bool,
}

impl<'a> Input<'a> {
    pub(crate) fn new(from: Option<BorrowedFd<'a>>, may_leave: bool) -> Self {
        Input { pending: from.is_none().then(Vec::new), from, may_leave, leaving: false }
    }

    /// Event to wait for: more input, unless some waits already.
    pub(crate) fn wanted(&self) -> Option<BorrowedFd<'a>> {
        self.from.filter(|_| self.pending.is_none())
    }

    /// True if somebody has left and all before that is sent.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving && self.pending.is_none()
    }

    /// Sends what there is, as far as there is room; whether anything was sent.
    pub(crate) fn pass_on(&mut self, channel: &Channel<'_>) -> Result<bool> {
        if let Some(from) = self.wanted()
            && is_readable(from)
        {
            let mut bytes = vec![0; CHUNK_BYTES];
            let read = rustix::io::read(from, &mut bytes)
                .map_err(|error| Error::os("reading standard input", error))?;
            bytes.truncate(read);
            self.take(bytes);
        }
        let Some(bytes) = &self.pending else { return Ok(false) };
        let kind = if bytes.is_empty() { FrameKind::StdinEnd } else { FrameKind::Stdin };
        if !send(&channel.to_node, kind, bytes)? {
            return Ok(false);
        }
        if bytes.is_empty() {
            self.from = None;
        }
        self.pending = None;
        Ok(true)
    }

    fn take(&mut self, mut bytes: Vec<u8>) {
        let end = bytes.iter().position(|&byte| byte == LEAVE).filter(|_| self.may_leave);
        if let Some(end) = end {
            bytes.truncate(end);
            (self.leaving, self.from) = (true, None);
        }
        // Nothing at all is its end, unless somebody leaves.
        self.pending = (end != Some(0)).then_some(bytes);
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use kumiki_node_wire::frame::receive;
    use kumiki_node_wire::memory::Memory;
    use kumiki_node_wire::window::Window;

    use super::*;

    fn sent(typed: &[u8], may_leave: bool) -> (Vec<(FrameKind, Vec<u8>)>, bool) {
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, typed).unwrap();
        drop(writer);
        let mut input = Input::new(Some(reader.as_fd()), may_leave);
        let channel = window.channel(0);
        while input.pass_on(&channel).unwrap() {}
        let frames = std::iter::from_fn(|| receive(&channel.to_node).unwrap()).collect();
        (frames, input.has_left())
    }

    #[test]
    fn a_key_leaves_a_console_and_is_input_elsewhere() {
        let end = (FrameKind::StdinEnd, Vec::new());
        let (frames, left) = sent(b"ab\x1dcd", false);
        assert_eq!((frames, left), (vec![(FrameKind::Stdin, b"ab\x1dcd".to_vec()), end], false));
        let (frames, left) = sent(b"ab\x1dcd", true);
        assert_eq!((frames, left), (vec![(FrameKind::Stdin, b"ab".to_vec())], true));
        assert_eq!(sent(b"\x1d", true), (vec![], true));
    }
}
