//! Everything that can go wrong with parallel system calls, apart from what the
//! calls themselves answer.

use kumiki_calls::{Denied, Refusal, Request};

use crate::choice::Backend;

/// An error of this crate. The text says what failed, on which thing, with
/// which value and limit, and what to do. C programs get it too, so it names no
/// thing of Rust's.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or its memory.
    #[error(transparent)]
    Sys(#[from] kumiki_sys::Error),
    /// This machine lacks the chosen way to wait.
    #[error(transparent)]
    Wait(#[from] kumiki_wait::Error),
    /// A value of the configuration is out of range.
    #[error("{what} of {value} is out of range: choose {least} to {most}")]
    Config {
        /// Name of the value.
        what: &'static str,
        /// Value that was chosen.
        value: usize,
        /// The least that works.
        least: usize,
        /// The most that works.
        most: usize,
    },
    /// Every lane of the engine is leased.
    #[error(
        "all {lanes} lanes for requesting threads are leased: give a requester up, or configure \
         more requesters (at most {most})"
    )]
    NoLane {
        /// Lanes of the engine.
        lanes: usize,
        /// Lanes that an engine can have.
        most: usize,
    },
    /// A call that must not be made by another thread; neither it nor another of
    /// its batch was executed.
    #[error("request {index}: {refusal}; nothing was executed")]
    Refused {
        /// Index of the request in the batch; 0 if it is alone.
        index: usize,
        /// The call and the reason.
        refusal: &'static Refusal,
    },
    /// A call that this engine's allow-list does not have; neither it nor another
    /// of its batch was executed.
    #[error(
        "request {index}: system call {name} ({sysnum}) is not on the allow-list with which the \
         engine was configured; nothing was executed"
    )]
    NotAllowed {
        /// Index of the request in the batch; 0 if it is alone.
        index: usize,
        /// The call's number.
        sysnum: u16,
        /// The call's name, "unknown" if it has none here.
        name: &'static str,
    },
    /// More arguments than a system call has; neither it nor another of its batch
    /// was executed.
    #[error(
        "request {index}: {count} arguments, and a system call takes at most 6; nothing was \
         executed"
    )]
    TooManyArguments {
        /// Index of the request in the batch; 0 if it is alone.
        index: usize,
        /// Its `args_num`.
        count: u16,
    },
    /// The chosen backend is not available here.
    #[error("backend {backend} is not available: {reason}; {remedy}")]
    Backend {
        /// The backend.
        backend: Backend,
        /// Reason for which it cannot be had.
        reason: String,
        /// Way out.
        remedy: String,
    },
    /// The engine was shut down before the call was made: it was not executed.
    #[error("the engine was shut down before the call was made; it was not executed")]
    ShutDown,
    /// The call was submitted, or handed over by a batch, before fork(2), to threads
    /// that the child does not have.
    #[error(
        "submitted before fork(2), to threads of the parent: this copy of the request was not \
         executed, submit it again if the child is to make the call too"
    )]
    Forked,
    /// Every slot for requests placed by hand is taken.
    #[error(
        "all {slots} slots hold requests or results: collect results, or configure \
         more slots (at most {most})"
    )]
    Full {
        /// Slots of the engine.
        slots: usize,
        /// Slots that an engine can have.
        most: usize,
    },
    /// The ticket's number belongs to no request, or no longer.
    #[error(
        "ticket {number:#x} is of no request that waits to be collected here: it was collected \
         before, or comes from another engine"
    )]
    UnknownTicket {
        /// The number.
        number: u64,
    },
    /// The room for results does not match the number of requests.
    #[error("{requests} requests but room for {results} results: both must be the same")]
    Lengths {
        /// Number of requests.
        requests: usize,
        /// Room for how many results.
        results: usize,
    },
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    /// Error for request `index` of a batch, which was denied.
    #[cold]
    pub(crate) fn denied(denied: Denied, index: usize, request: &Request) -> Self {
        let sysnum = request.sysnum;
        match denied {
            Denied::Refused(refusal) => Error::Refused { index, refusal },
            Denied::TooManyArguments => Error::TooManyArguments { index, count: request.args_num },
            Denied::NotAllowed => {
                let name = kumiki_sys::syscall::name(usize::from(sysnum)).unwrap_or("unknown");
                Error::NotAllowed { index, sysnum, name }
            }
        }
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
