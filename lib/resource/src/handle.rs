//! A reference to a resource.

use std::fmt;
use std::marker::PhantomData;

use crate::error::{Error, Result};
use crate::id::Id;
use crate::kind::Kind;
use crate::rights::Rights;

/// A reference to a resource of kind `K`, with rights. It can be moved to other threads;
/// a further one is made by [`share`](Self::share). It does not own the resource: that
/// goes when it is destroyed.
#[derive(PartialEq, Eq, Hash)]
pub struct Handle<K> {
    id: Id,
    rights: Rights,
    /// The resource's interface: others have the same ids.
    interface: u64,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Handle<K> {
    pub(crate) fn new(interface: u64, id: Id, rights: Rights) -> Self {
        Handle { id, rights, interface, kind: PhantomData }
    }

    /// Number of the resource.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The rights that it carries.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// A further handle, with `rights` of this one's.
    ///
    /// # Errors
    /// [`Error::Rights`] without [`Rights::SHARE`], or if `rights` are more.
    pub fn share(&self, rights: Rights) -> Result<Handle<K>> {
        self.require(self.interface, Rights::SHARE | rights)?;
        Ok(Handle::new(self.interface, self.id, rights))
    }

    /// Checks that it allows this in `interface`.
    #[inline]
    pub(crate) fn require(&self, interface: u64, needs: Rights) -> Result<()> {
        if self.interface == interface && self.rights.contains(needs) {
            return Ok(());
        }
        Err(self.refused(interface, needs))
    }

    #[cold]
    fn refused(&self, interface: u64, needs: Rights) -> Error {
        if self.interface != interface {
            return Error::Foreign { id: self.id };
        }
        Error::Rights { id: self.id, has: self.rights, needs: needs.difference(self.rights) }
    }
}

impl<K: Kind> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle<{}>({}, {})", K::NAME, self.id, self.rights)
    }
}
