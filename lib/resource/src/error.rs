//! Everything that can go wrong with a resource.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::id::{Id, Place};
use crate::rights::Rights;

/// An error of this crate: what failed, on which resource, why, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A malformed name.
    #[error("{name:?} is no resource name: {why}; names look like core2/memory/buffer-7")]
    Name {
        /// The name, or its unique part.
        name: String,
        /// Reason for which it is none.
        why: &'static str,
    },
    /// A pattern that cannot be matched.
    #[error("{pattern:?} is no pattern: {why}; patterns look like core*/memory/*")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Reason for which it is none.
        why: String,
    },
    /// Two resources of one kind at one place with one name.
    #[error("{name} exists already, as {id}: choose another name, or destroy that one")]
    Taken {
        /// The name.
        name: String,
        /// Number of the resource.
        id: Id,
    },
    /// No resource has that name.
    #[error("no resource is called {name}: `ls` shows those that there are")]
    NotFound {
        /// The name.
        name: String,
    },
    /// A place that this interface does not have.
    #[error("there is no place {place}: this interface has {places}")]
    NoPlace {
        /// The place, by name or by number.
        place: String,
        /// Places that there are.
        places: String,
    },
    /// A kind that was not registered.
    #[error("there is no kind {kind} here: this interface has {kinds}")]
    NoKind {
        /// The kind, by name or by number.
        kind: String,
        /// Kinds that there are.
        kinds: String,
    },
    /// Two kinds of one name.
    #[error("two kinds are called {kind}, which names and listings could not tell: rename one")]
    KindTaken {
        /// Name of the kind.
        kind: &'static str,
    },
    /// More kinds than their numbers tell apart.
    #[error("{count} kinds are more than an interface can have, {limit}: make two interfaces")]
    TooManyKinds {
        /// Number of kinds that were registered.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// An id or a handle of another kind.
    #[error("resource {id} is of kind {is}, not {wanted}: use it as what it is")]
    WrongKind {
        /// The resource.
        id: Id,
        /// Its real kind.
        is: &'static str,
        /// Kind as which it was used.
        wanted: &'static str,
    },
    /// The resource has been destroyed.
    #[error("resource {id} was destroyed: its id is never used again; look its name up anew")]
    Stale {
        /// The resource.
        id: Id,
    },
    /// The resource never existed.
    #[error("no resource was ever {id}: an id comes from create, open or ls")]
    Unknown {
        /// The id.
        id: Id,
    },
    /// The handle does not allow it.
    #[error("the handle of {id} allows {has}, and this needs {needs}: ask for a handle with it")]
    Rights {
        /// The resource.
        id: Id,
        /// Rights of the handle.
        has: Rights,
        /// Rights that are missing.
        needs: Rights,
    },
    /// A handle of another interface.
    #[error("the handle of {id} is of another interface: use it with the one that has made it")]
    Foreign {
        /// The resource.
        id: Id,
    },
    /// A management table is full.
    #[error("{place} has {limit} resources of kind {kind}, which is the limit: destroy some")]
    TableFull {
        /// Place of the table.
        place: String,
        /// The kind.
        kind: &'static str,
        /// The limit.
        limit: u32,
    },
    /// More memory than the place's share of the machine's, where one was
    /// [set](crate::Interface::limit).
    #[error(
        "{kind}: {bytes} bytes more, where {used} of this place's share of {limit} are used: destroy some, \
         make it at another place, or raise the limit"
    )]
    Share {
        /// The kind.
        kind: &'static str,
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes that its resources have here.
        used: u64,
        /// Bytes that they may have.
        limit: u64,
    },
    /// A program part was called from within one of the same core and kind; or a core was called, or its answer waited for,
    /// from within a program part.
    #[error(
        "a program part on place {} called the interface for {what}: it would wait for itself; \
         return first, and let the caller go on",
        place.0
    )]
    Nested {
        /// Place at which it runs.
        place: Place,
        /// The operation that it asked for.
        what: &'static str,
    },
    /// The kind's own refusal.
    #[error("{kind}: {text}")]
    Kind {
        /// Name of the kind.
        kind: &'static str,
        /// The kind's sentence: the failure, value and limit, and a way out.
        text: String,
    },
    /// The system's refusal of something that a kind needs.
    #[error("{kind}: {what}: {source}{way}")]
    System {
        /// Name of the kind.
        kind: &'static str,
        /// The call that was tried.
        what: String,
        /// The system's answer.
        #[source]
        source: io::Error,
        /// A way out, after a semicolon; empty if none is known.
        way: &'static str,
    },
    /// The core's manager did not answer.
    #[error("the manager of {place}: {source}")]
    Manager {
        /// Name of the place.
        place: String,
        /// The desk's reason.
        #[source]
        source: crate::desk::Error,
    },
    /// A failure of a whole batch, which each of its operations has.
    #[error(transparent)]
    OfBatch(Arc<Error>),
    /// The core's manager ended before it served.
    #[error(
        "the manager of {place} ended while a kind made its pool there: the kind panicked, or a \
         filter killed the thread; see what it has written"
    )]
    Setup {
        /// Name of the place.
        place: String,
    },
    /// The socket at which a process publishes its interface.
    #[error("{what}, {}: {source}", path.display())]
    Socket {
        /// The step that failed.
        what: &'static str,
        /// The socket, or its folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Another process's words instead of a listing.
    #[error("process {process} answers: {error}")]
    Refused {
        /// Number of the process.
        process: u32,
        /// Its words.
        error: String,
    },
    /// Another process's answer that is no listing.
    #[error("what process {process} answers is no listing, and is left out: {why}")]
    Forged {
        /// Number of the process.
        process: u32,
        /// Reason for which it is none.
        why: String,
    },
    /// A manager could not be started.
    #[error(transparent)]
    Crew(#[from] kumiki_crew::Error),
    /// The machine.
    #[error(transparent)]
    Sys(#[from] kumiki_sys::Error),
    /// A way to wait that the machine lacks.
    #[error(transparent)]
    Wait(#[from] kumiki_wait::Error),
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    #[cold]
    pub(crate) fn manager(place: Place, source: crate::desk::Error) -> Error {
        Error::Manager { place: format!("core{}", place.0), source }
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A result within this crate, in a word or two: an [`Error`] is larger than a line that
/// carries results, and each that is handed on by value is copied whole.
pub(crate) type Outcome<T> = std::result::Result<T, Box<Error>>;

impl From<Box<Error>> for Error {
    fn from(boxed: Box<Error>) -> Error {
        *boxed
    }
}
