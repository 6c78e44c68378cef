//! Control messages of sockets, cmsg(3): what travels beside the bytes.
//!
//! Rustix reads them here. It does not write them: its buffer for sending keeps
//! to itself where in the caller's memory the messages lie.

use std::fmt;
use std::mem::{offset_of, take};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::slice;

use libc::cmsghdr;
use rustix::net::{AncillaryDrain, RecvAncillaryMessage};

const _: () = assert!(
    size_of::<cmsghdr>() == 16
        && offset_of!(cmsghdr, cmsg_level) == 8
        && offset_of!(cmsghdr, cmsg_type) == 12,
    "the header is a length of eight bytes, the level and the type"
);

/// Appends the message that passes descriptors.
pub(super) fn append_rights(messages: &mut Vec<u8>, descriptors: &[impl AsFd]) {
    let length = size_of::<cmsghdr>() + size_of::<i32>() * descriptors.len();
    messages.resize(messages.len().next_multiple_of(align_of::<cmsghdr>()), 0);
    messages.extend(length.to_ne_bytes());
    messages.extend(libc::SOL_SOCKET.to_ne_bytes());
    messages.extend(libc::SCM_RIGHTS.to_ne_bytes());
    for descriptor in descriptors {
        messages.extend(descriptor.as_fd().as_raw_fd().to_ne_bytes());
    }
}

/// Room for messages that the kernel writes, and the descriptors among them.
#[derive(Default)]
pub(super) struct ControlRoom {
    /// Aligned as messages are.
    room: Box<[u64]>,
    filled: usize,
    descriptors: Vec<OwnedFd>,
}

impl ControlRoom {
    /// Room for `bytes` bytes at least.
    pub(super) fn new(bytes: usize) -> ControlRoom {
        ControlRoom {
            room: vec![0; bytes.div_ceil(size_of::<u64>())].into(),
            ..ControlRoom::default()
        }
    }

    /// Memory to be written, and its length in bytes. What was told before is gone.
    #[inline]
    pub(super) fn room(&mut self) -> (u64, u64) {
        self.filled = 0;
        self.descriptors.clear();
        (self.room.as_mut_ptr() as u64, size_of_val(&*self.room) as u64)
    }

    /// Takes note that so many bytes were written, and takes the descriptors.
    ///
    /// # Safety
    /// The kernel wrote them, of the messages that came with one recvmsg, and
    /// this is the only call for them.
    pub(super) unsafe fn take(&mut self, filled: usize) {
        self.filled = filled.min(size_of_val(&*self.room));
        // SAFETY: all of the room is initialised, and borrowed for this long.
        let bytes =
            unsafe { slice::from_raw_parts_mut(self.room.as_mut_ptr().cast(), self.filled) };
        // SAFETY: messages that the kernel wrote, aligned; the descriptors are new
        // and, this being the only call, nobody's yet.
        for message in unsafe { AncillaryDrain::parse(bytes) } {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
    }

    /// The messages.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: all of the room is initialised, and borrowed for this long.
        unsafe { slice::from_raw_parts(self.room.as_ptr().cast(), self.filled) }
    }

    /// The descriptors, which are the caller's from now on.
    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        take(&mut self.descriptors)
    }
}

impl fmt::Debug for ControlRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("bytes", &self.bytes())
            .field("descriptors", &self.descriptors)
            .finish()
    }
}
