//! Errors of nodes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::subject::Subject;

/// An error of this crate: what failed, on which thing, and the way out.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kernel or an initramfs cannot be used.
    #[error(transparent)]
    Boot(#[from] kumiki_boot::Error),
    /// The kernel refused something.
    #[error("{what}: {source}")]
    Os {
        /// Action that was tried, on which thing.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// Missing thing.
        feature: String,
        /// Amount that it would take.
        needs: String,
    },
    /// A request that cannot be met, or not now.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A machine file asks for what cannot be.
    #[error("{}:{line}: {problem}", file.display())]
    MachineFile {
        /// The file.
        file: PathBuf,
        /// Line of the fault.
        line: usize,
        /// Key, value, limit, and what to do.
        problem: String,
    },
    /// A step for a machine file failed, and what was done before it was undone.
    #[error("{step}: {source}; undone: {undone} step{} before it{left}", if *.undone == 1 { "" } else { "s" })]
    RolledBack {
        /// The step that failed.
        step: String,
        /// The system's reason.
        source: Box<Error>,
        /// Steps that had been done.
        undone: usize,
        /// Things that could not be undone, and why.
        left: String,
    },
    /// A node came to its end before it was what was waited for.
    #[error("node {name} ended before it was ready: {word}{log}")]
    Ended {
        /// Name of the node.
        name: String,
        /// Cause of its end, and how far its start came.
        word: String,
        /// The end of its log, with a heading.
        log: String,
    },
    /// A node did not answer in time.
    #[error("node {name} {what} within {limit:?}; its last words are {word}{log}")]
    Silent {
        /// Name of the node.
        name: String,
        /// Thing that it did not do.
        what: &'static str,
        /// Time that it had.
        limit: Duration,
        /// Its last word about itself, and how far its start came.
        word: String,
        /// The end of its log, with a heading.
        log: String,
    },
    /// The other side of the shared window broke the protocol.
    #[error("the node's channel holds {0}; its agent is damaged: stop the node")]
    Protocol(String),
}

kumiki_sys::debug_is_display!(Error);

/// A refusal: its kind and what it is about for a program, its text for a person.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Refusal {
    kind: ErrorKind,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<Box<Subject>>,
}

kumiki_sys::debug_is_display!(Refusal);

impl Refusal {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The thing that it is about, as far as a program can tell it from others.
    pub fn subject(&self) -> Option<&Subject> {
        self.about.as_deref()
    }
}

/// Hands an error on to another process, which learns its kind, its text and what it is about.
impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let about = error.subject().map(Box::new);
        Refusal { kind: error.kind(), text: error.to_string(), about }
    }
}

/// Hands on an error that is of no more use here.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::from(&error)
    }
}

/// Kinds of errors that a program can tell apart: see [`Error::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name, a number, a file or a combination of them that cannot be: ask for something else.
    Invalid,
    /// No such node, image, device, module or file.
    NotFound,
    /// The name is taken.
    Exists,
    /// The node runs, or is lent to one that may start it.
    Running,
    /// The node does not run.
    NotRunning,
    /// Too few cpus that may be given away, or not this one.
    NoCpu,
    /// Too little memory that may be given away, or not in pieces that do.
    NoMemory,
    /// The node has as many devices or pieces of memory as a node can have.
    Full,
    /// Another process or node has it now: try again later, or end that one.
    Busy,
    /// The node or process that was to do it has ended meanwhile.
    Lost,
    /// No answer in time.
    TimedOut,
    /// The caller, or the other end of a copy, has stopped it half-way.
    Interrupted,
    /// A node or an image of which something is missing or overwritten: delete it, make it again.
    Damaged,
    /// The other side broke the protocol between the two.
    Protocol,
    /// The machine, its kernel or the node's kernel lacks something.
    Unsupported,
    /// A program in the node, its agent, or one that serves it refused, in its own words.
    Refused,
    /// The kernel refused a call: [`Error::Os`] and [`Error::File`] have its answer.
    System,
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused(refusal) => refusal.kind,
            Error::Boot(_) | Error::MachineFile { .. } => ErrorKind::Invalid,
            Error::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            Error::Os { .. } | Error::File { .. } => ErrorKind::System,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::RolledBack { source, .. } => source.kind(),
            Error::Ended { .. } => ErrorKind::Lost,
            Error::Silent { .. } => ErrorKind::TimedOut,
            Error::Protocol(_) => ErrorKind::Protocol,
        }
    }

    /// The thing that it is about. None of an answer of the kernel that names nothing, of a damaged
    /// channel, and of a kernel's file or an initramfs that cannot be used.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Error::Refused(refusal) => refusal.subject().cloned(),
            Error::RolledBack { source, .. } => source.subject(),
            Error::File { path, .. } => Some(Subject::File(path.clone())),
            Error::MachineFile { file, .. } => Some(Subject::File(file.clone())),
            Error::Unsupported { feature, .. } => Some(Subject::Feature(feature.clone())),
            Error::Ended { name, .. } | Error::Silent { name, .. } => Some(Subject::node(name)),
            Error::Boot(_) | Error::Os { .. } | Error::Protocol(_) => None,
        }
    }

    /// A refusal of this kind, about one thing, with its text.
    pub fn refused(kind: ErrorKind, subject: Subject, text: impl Into<String>) -> Self {
        Error::Refused(Refusal { kind, text: text.into(), about: Some(Box::new(subject)) })
    }

    /// A refusal by a part that does not know which thing it works for: [`about`](Self::about) says
    /// it, in the caller that knows.
    pub fn inner(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error::Refused(Refusal { kind, text: text.into(), about: None })
    }

    /// Says that the error is about this thing if it is a refusal, or a kernel's or an initramfs' error,
    /// that says none.
    pub fn about(self, subject: impl FnOnce() -> Subject) -> Self {
        match self {
            Error::Refused(mut refusal) => {
                refusal.about.get_or_insert_with(|| Box::new(subject()));
                Error::Refused(refusal)
            }
            Error::Boot(error) => Error::refused(ErrorKind::Invalid, subject(), error.to_string()),
            other => other,
        }
    }

    /// Puts a refusal into other words: of the same kind, and about the same thing.
    pub fn reworded(self, text: impl Into<String>) -> Self {
        Error::Refused(Refusal { text: text.into(), ..Refusal::from(self) })
    }

    /// The kernel's answer to what was tried.
    pub fn os(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Os { what: what.into(), source: source.into() }
    }

    /// A failure of a file.
    pub fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::File { path: path.into(), source }
    }
}

/// A stream's failure, in a channel of a node.
impl From<kumiki_stream::Error> for Error {
    fn from(error: kumiki_stream::Error) -> Self {
        match error {
            kumiki_stream::Error::Os { what, source } => Error::Os { what, source },
            kumiki_stream::Error::Protocol(what) => Error::Protocol(what),
            kumiki_stream::Error::Passing { what, source } => {
                Error::os(format!("passing on {what}"), source)
            }
            gone => Error::inner(ErrorKind::Lost, gone.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_is_about_comes_along_and_may_be_missing() {
        let subject = Subject::Memory { asked: 3, most: 2 };
        let error = Error::refused(ErrorKind::NoMemory, subject.clone(), "3 bytes of 2");
        let sent = serde_json::to_string(&Refusal::from(error)).unwrap();
        let error = Error::from(serde_json::from_str::<Refusal>(&sent).unwrap());
        assert_eq!((error.kind(), error.subject()), (ErrorKind::NoMemory, Some(subject)));
        // Of a process that says none, as those before it.
        let text = r#"{"kind":"Busy","text":"later"}"#;
        let error = Error::from(serde_json::from_str::<Refusal>(text).unwrap());
        assert_eq!((error.kind(), error.subject()), (ErrorKind::Busy, None));
        assert_eq!(serde_json::to_string(&Refusal::from(error)).unwrap(), text);
    }

    #[test]
    fn who_knows_the_thing_says_it_once_and_other_words_keep_it() {
        let error = Error::inner(ErrorKind::Lost, "gone").about(|| Subject::node("n1"));
        let error = error.about(|| Subject::node("n2")).reworded("gone, and more");
        assert_eq!((error.kind(), error.subject()), (ErrorKind::Lost, Some(Subject::node("n1"))));
        assert_eq!(error.to_string(), "gone, and more");
        // What names its thing itself keeps it where it is handed on.
        let error = Error::file("/etc/x", io::ErrorKind::NotFound.into());
        let sent = Error::from(Refusal::from(&error));
        assert_eq!(sent.subject(), Some(Subject::File("/etc/x".into())));
        assert_eq!((sent.kind(), sent.to_string()), (error.kind(), error.to_string()));
    }
}
