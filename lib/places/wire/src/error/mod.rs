//! Everything that can go wrong with a place on another machine.

mod failed_step;

use std::io;
use std::path::PathBuf;

pub use crate::error::failed_step::FailedStep;
use crate::refused::Why;

/// An error of this crate: what failed, on which thing, why, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection to the server.
    #[error("connecting to NATS at {url}: {source}; is nats-server running there?")]
    Connect {
        /// URL of the server.
        url: String,
        /// Reason of the client library.
        #[source]
        source: async_nats::ConnectError,
    },
    /// The server's refusal, or the client's, of something that a place needs.
    #[error("{what}: {why}")]
    Nats {
        /// The step.
        what: &'static str,
        /// Reason.
        why: String,
    },
    /// Nobody answers to the name. Nothing was done.
    #[error(
        "nobody answers at place {place}: it has ended, or never was; nothing was done. `kumiki \
         resource ls` shows those of this machine, and with --nats URL those behind that server"
    )]
    Gone {
        /// Name of the place.
        place: String,
    },
    /// The request never left: there was no connection, or the place has not answered what is asked before. Nothing was
    /// done.
    #[error("not sent to place {place}: {why}; nothing was done")]
    NotSent {
        /// Name of the place.
        place: String,
        /// Reason.
        why: String,
    },
    /// A question, which changes nothing, without an answer that is known. Nothing was done.
    #[error(
        "place {place} was asked, and what it answers is not known: {why}; it was only a question, and \
         nothing was done"
    )]
    Unanswered {
        /// Name of the place.
        place: String,
        /// Reason.
        why: String,
    },
    /// The request was sent and there is no answer: it has run once, or not at all.
    #[error("unknown whether place {place} has done it: {why}; look before asking again")]
    Unknown {
        /// Name of the place.
        place: String,
        /// Reason.
        why: String,
    },
    /// The place's refusal. Nothing was done, unless `why` says that it has run.
    #[error("place {place}: {text}")]
    Refused {
        /// Name of the place.
        place: String,
        /// Kind of the refusal.
        why: Why,
        /// The place's words.
        text: String,
    },
    /// Too much for one message. Nothing was done.
    #[error(
        "{bytes} bytes for place {place} are more than a message may be, {limit}: send less at a time"
    )]
    TooLarge {
        /// Name of the place.
        place: String,
        /// The message.
        bytes: usize,
        /// The server's limit.
        limit: usize,
    },
    /// A value that is not what it should be: of the caller's that cannot be written, or of the
    /// place's that cannot be read.
    #[error("{what}: {why}")]
    Value {
        /// Setting at fault.
        what: String,
        /// Reason.
        why: String,
    },
    /// The reference does not allow it.
    #[error("the reference of {name} allows {has}, and this needs {needs}")]
    Rights {
        /// The resource.
        name: String,
        /// Rights of the reference.
        has: kumiki_resource::Rights,
        /// Rights that are missing.
        needs: kumiki_resource::Rights,
    },
    /// A place of that name is served already.
    #[error(
        "place {place} is served by another process already: end that one, or choose another name"
    )]
    PlaceTaken {
        /// Name of the place.
        place: String,
    },
    /// The thread of a place has panicked: it answers nobody any more.
    #[error("place {place} has ended by a panic: {text}; please report it")]
    Panicked {
        /// Name of the place.
        place: String,
        /// The panic's text.
        text: String,
    },
    /// A machine's name that cannot stand in a resource's name.
    #[error("{host:?} cannot be a machine's name here: {why}")]
    Host {
        /// The name.
        host: String,
        /// Reason.
        why: &'static str,
    },
    /// A mistake in an allow-list.
    #[error("{}:{line}:{column}: {why}", path.display())]
    Allow {
        /// The file.
        path: PathBuf,
        /// Line, from 1 on.
        line: usize,
        /// Column, from 1 on, in characters.
        column: usize,
        /// The mistake.
        why: String,
    },
    /// A file of a durable place is not what was written.
    #[error(
        "{file} is not what was written, at byte {at}: {why}; restore the folder from a copy, or move it \
         away and begin with an empty one"
    )]
    Rotten {
        /// The file.
        file: String,
        /// Offset of the fault.
        at: u64,
        /// The fault.
        why: String,
    },
    /// Something of a durable place was written in another form than this version reads.
    #[error(
        "{what} is of form {form}, and {known} is known here: serve it by the version of Kumiki, or of \
         the program, that has written it"
    )]
    OtherForm {
        /// A file, or a kind's states.
        what: String,
        /// Form in which it is written.
        form: u32,
        /// The one that is known.
        known: u32,
    },
    /// A durable place has left this folder: it is served from another one.
    #[error(
        "place {place} has left {folder} for {to}: serve it there. What stands in this folder is what it          was when it left; to have the place here, move it here"
    )]
    Moved {
        /// Name of the place.
        place: String,
        /// The folder that it has left.
        folder: String,
        /// Place's present folder, in the words of who has it.
        to: String,
    },
    /// A durable place has gone to another process, which serves it from now on.
    #[error("place {place} was handed over: another process serves it from now on")]
    HandedOver {
        /// Name of the place.
        place: String,
    },
    /// A durable place cannot be served like this.
    #[error("place {place} cannot be durable: {why}")]
    NotDurable {
        /// Name of the place.
        place: String,
        /// Reason.
        why: String,
    },
    /// The system's refusal.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A step of a chain has failed, or is not known to have run: what those before it have given stands there.
    #[error("{0}")]
    Step(#[source] Box<FailedStep>),
    /// The interface of this process.
    #[error(transparent)]
    Resource(#[from] kumiki_resource::Error),
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    /// A program part or kind has given what is no value of its type.
    #[cold]
    #[doc(hidden)]
    pub fn undecodable(what: &str, why: &dyn std::fmt::Display) -> Error {
        let what = format!("what {what} has given is something else");
        Error::Value { what, why: why.to_string() }
    }

    /// True if it is certain that the place has done nothing, and another one may be asked.
    pub fn is_passed_over(&self) -> bool {
        let passed = [Why::NotAllowed, Why::NoPart, Why::OtherVersion, Why::Full];
        match self {
            Error::Gone { .. } | Error::NotSent { .. } | Error::Unanswered { .. } => true,
            Error::Refused { why, .. } => passed.contains(why),
            Error::Step(step) => step.has_run() == 0 && step.error().is_passed_over(),
            _ => false,
        }
    }
}

impl From<kumiki_journal::Error> for Error {
    fn from(error: kumiki_journal::Error) -> Error {
        match error {
            kumiki_journal::Error::Rotten { file, at, why } => Error::Rotten { file, at, why },
            kumiki_journal::Error::Io { what, source } => Error::Io { what, source },
            other => {
                Error::Io { what: "keeping a place".to_owned(), source: io::Error::other(other) }
            }
        }
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
