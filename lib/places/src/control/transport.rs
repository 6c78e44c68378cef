//! A transport: one way to a place. All say the same by the same words.

use std::time::Duration;

use kumiki_resource::kind::Kind;
use kumiki_resource::{Listed, Name};

use crate::error::Result;
use crate::part::{Part, Portable};
use crate::reference::Reference;

/// Time that a call waits at most; none is what its way does if nothing is said.
pub(crate) type Limit = Option<Duration>;

/// A call of this process that has begun.
pub(crate) enum Ongoing<T> {
    Gave(T),
    /// Rest of it, which may block.
    Rest(Box<dyn FnOnce() -> Result<T> + Send>),
}

/// A way to places. Each operation runs once or not at all, and its error says which, or that nobody knows.
pub(crate) trait Transport {
    fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
        limit: Limit,
    ) -> Result<Reference<K>>;

    fn open<K: Kind>(&self, name: &Name, limit: Limit) -> Result<Reference<K>>;

    /// Leaves what the part takes to the caller, who asks by another way where nobody answers.
    fn call<P: Part>(&self, on: &Reference<P::Kind>, input: &P::In, limit: Limit)
    -> Result<P::Out>;

    fn destroy<K: Portable>(&self, what: &Reference<K>, limit: Limit) -> Result<()>;

    fn list(&self, place: &str, pattern: &str, limit: Limit) -> Result<Vec<Listed>>;

    /// True if nothing goes this way any more, and the place is to be looked for anew.
    fn has_ended(&self) -> bool;
}
