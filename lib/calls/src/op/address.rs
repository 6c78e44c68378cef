//! Addresses of sockets, given to the kernel and told by it.

use std::fmt;
use std::mem::MaybeUninit;

use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;

/// Room for an address that the kernel tells.
pub(super) struct AddressRoom {
    storage: MaybeUninit<SocketAddrStorage>,
    /// Length of the room, and then of the address that the kernel would have written.
    pub(super) length: u32,
    pub(super) written: bool,
}

impl AddressRoom {
    pub(super) const fn new() -> AddressRoom {
        AddressRoom { storage: MaybeUninit::uninit(), length: 0, written: false }
    }

    /// Pointers to the address and to its length.
    #[inline]
    pub(super) fn room(&mut self) -> (u64, u64) {
        self.written = false;
        self.length = size_of::<SocketAddrStorage>() as u32;
        (self.storage.as_mut_ptr() as u64, &raw mut self.length as u64)
    }

    pub(super) fn address(&self) -> Option<SocketAddrAny> {
        // Stream sockets tell nothing when they receive: no length.
        let family = size_of::<libc::sa_family_t>();
        let length = (self.length as usize).min(size_of::<SocketAddrStorage>());
        (self.written && length >= family).then(|| {
            // SAFETY: the kernel wrote an address of this length.
            unsafe { SocketAddrAny::new(self.storage, length as u32) }
        })
    }
}

impl fmt::Debug for AddressRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// An address and its length as arguments.
#[inline]
pub(super) fn arguments(address: &SocketAddrAny) -> (u64, u64) {
    (address.as_ptr() as u64, address.addr_len().into())
}
