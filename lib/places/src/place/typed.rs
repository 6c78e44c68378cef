//! A program part with its types, for callers of the same process.

use kumiki_resource::kind::Kind;
use kumiki_resource::{Error, Handle, Interface};

use crate::part::{Block, Part, Run, Work};

/// Begins a part on its owner's thread.
type Begin<K, I, O> = fn(&mut K, &mut <K as Kind>::Pool, I) -> Started<O>;

/// Calls a part, and waits as long as its owner lives.
pub(crate) type WholeCall<P> = fn(
    &Interface,
    &Handle<<P as Part>::Kind>,
    <P as Part>::In,
) -> Result<<P as Part>::Out, Box<Error>>;

/// A program part with its types: a call of a function.
pub(crate) struct Typed<P: Part> {
    /// Begins it on the owner's thread.
    pub(crate) begin: Begin<P::Kind, P::In, P::Out>,
    /// The whole call of one that does not block: none of one that may.
    pub(crate) call: Option<WholeCall<P>>,
}

impl<P: Run> Typed<P> {
    /// The types of a part that does not block.
    pub(crate) const QUICK: Typed<P> = Typed {
        begin: |resource, pool, input| Started::Gave(P::run(resource, pool, input)),
        call: Some(call::<P>),
    };
}

impl<P: Block> Typed<P> {
    /// The types of a part that may block.
    pub(crate) const BLOCKING: Typed<P> = Typed {
        begin: |resource, pool, input| Started::Blocks(P::begin(resource, pool, input)),
        call: None,
    };
}

/// A part that has begun: it has given, or the rest of it may block.
pub(crate) enum Started<T> {
    Gave(T),
    Blocks(Work<T>),
}

/// Calls a part: the way to the resource, the part and the guard for its panics are one function, so that a caller who
/// knows it by a pointer makes one call, and has what the part gives, or a box, in registers.
fn call<P: Run>(
    interface: &Interface,
    handle: &Handle<P::Kind>,
    input: P::In,
) -> Result<P::Out, Box<Error>> {
    let run = move |resource: &mut P::Kind, pool: &mut _| P::run(resource, pool, input);
    interface.with_caught(handle, run).map_err(Box::new)
}
