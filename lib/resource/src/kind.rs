//! A kind of resource and its program part.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::Place;

/// A kind of resource: what one of them is, what a place keeps for all of its own, and
/// the program part that makes and destroys them.
///
/// A program part sees its own kind's table at its own place, and nothing else; it runs
/// on the owner's thread, one at a time.
/// It does not call an [`Interface`](crate::Interface): for the same kind, and for what it
/// would have to wait for at another place, that is [`Error::Nested`], where it could otherwise
/// wait for ever. Another kind of its own core it would find in the middle of whatever that does.
pub trait Kind: Send + Sized + 'static {
    /// The word in names: `memory`.
    const NAME: &'static str;
    /// The wishes of a creation.
    type Spec: Send;
    /// State that a place keeps for all of its resources of this kind, such as free frames.
    type Pool: Send;

    /// The pool of a place, made at the place's start, on its thread.
    ///
    /// # Errors
    /// The place is not started then.
    fn pool(place: Place) -> Result<Self::Pool>;

    /// Limits the memory that a place's resources of this kind have together, bytes: what
    /// [`Interface::limit`](crate::Interface::limit) asks for.
    ///
    /// # Errors
    /// It is a kind that has none to limit.
    fn limit(pool: &mut Self::Pool, bytes: u64) -> Result<()> {
        let _ = (pool, bytes);
        let text = "there is no memory of it to be limited: limit the kind whose memory it has";
        Err(Error::Kind { kind: Self::NAME, text: text.to_owned() })
    }

    /// Makes one.
    ///
    /// # Errors
    /// The kind's own, best as [`Error::Kind`]; nothing was made then.
    fn create(spec: Self::Spec, pool: &mut Self::Pool) -> Result<Self>;

    /// Takes one apart. What it holds goes back to the pool.
    fn destroy(self, pool: &mut Self::Pool);

    /// Tells a person who looks: its state in a word or two, and how much it holds.
    fn about(&self) -> About;
}

/// State and size of a resource, for listings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `idle`, `serving`, …; empty if there is nothing to say.
    pub state: String,
    /// Memory that it holds, bytes.
    pub bytes: u64,
}

/// One slot of a table as it was in a former life of its place ([`Interface::restore`](crate::Interface::restore)).
#[derive(Debug)]
pub struct Former<K> {
    /// Number of its uses so far.
    pub uses: u32,
    /// Its name, if it had one, and the resource that it had; none of a slot that was empty.
    pub resource: Option<(Option<String>, K)>,
}

/// A resource in its table.
pub(crate) struct TableEntry<K> {
    pub(crate) value: K,
    /// The hash of its name, if it has one.
    pub(crate) named: Option<u64>,
    /// Operations on it so far.
    pub(crate) calls: u64,
}
