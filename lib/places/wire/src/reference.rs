//! A reference to a resource, wherever it is.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kumiki_resource::kind::Kind;
use kumiki_resource::{Id, Rights};

use crate::error::{Error, Result};

/// A reference to a resource of kind `K` at any place, with rights. It does not own the
/// resource. It holds for one life of the place: a place that was started anew knows it not.
pub struct Reference<K> {
    place: Arc<str>,
    life: u64,
    id: Id,
    rights: Rights,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Reference<K> {
    fn clone(&self) -> Self {
        Reference { place: Arc::clone(&self.place), kind: PhantomData, ..*self }
    }
}

impl<K: Kind> Reference<K> {
    #[doc(hidden)]
    pub fn new(place: Arc<str>, life: u64, id: Id, rights: Rights) -> Self {
        Reference { place, life, id, rights, kind: PhantomData }
    }

    /// Place of the resource: `hostb.core3`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Place of the resource, to be kept or compared by its address.
    #[doc(hidden)]
    pub fn shared_place(&self) -> &Arc<str> {
        &self.place
    }

    /// The life of its place.
    #[doc(hidden)]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Number of the resource there.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The rights that it carries.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// A further reference, with `rights` of this one's.
    ///
    /// # Errors
    /// [`Error::Rights`] without [`Rights::SHARE`], or if `rights` are more.
    pub fn share(&self, rights: Rights) -> Result<Reference<K>> {
        self.require(Rights::SHARE | rights)?;
        Ok(Reference { rights, ..self.clone() })
    }

    #[inline]
    #[doc(hidden)]
    pub fn require(&self, needs: Rights) -> Result<()> {
        if self.rights.contains(needs) {
            return Ok(());
        }
        Err(self.refused(needs))
    }

    #[cold]
    fn refused(&self, needs: Rights) -> Error {
        let name = format!("{}/{}/{}", self.place, K::NAME, self.id);
        Error::Rights { name, has: self.rights, needs: needs.difference(self.rights) }
    }
}

impl<K: Kind> fmt::Debug for Reference<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference<{}>({}, {}, {})", K::NAME, self.place, self.id, self.rights)
    }
}
