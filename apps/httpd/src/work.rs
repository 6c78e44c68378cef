//! Calls on files, tried first: one kind of future for all that a worker has under way.

use std::ffi::CString;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kumiki_parasc::op::{Errno, Getdents64, Pread};
use kumiki_parasc::tries::{Attempt, OpenRead, OpenReadError, Opened, Step};
use kumiki_parasc::{Completed, Engine, Failed, Job};

type Open = OpenRead<Arc<OwnedFd>, CString>;
type Part = Pread<Arc<OwnedFd>, Vec<u8>>;
type Entries = Getdents64<Arc<OwnedFd>, Vec<u8>>;

/// Calls that a connection asks for.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "passed on once, not kept")]
pub(crate) enum Done {
    Opened(Result<Opened, OpenReadError>),
    /// A vector with the next bytes of the file.
    Read(Result<Vec<u8>, Errno>),
    /// A vector with a part of a folder's entries, none at the end.
    Entries(Result<Vec<u8>, Errno>),
}

/// A request for it that is under way, of the connection of this number.
pub(crate) struct Work {
    connection: usize,
    calls: Calls,
}

#[allow(clippy::large_enum_variant, reason = "in a box as a whole")]
enum Calls {
    Open(Attempt<Open>),
    Read(Attempt<Part>),
    Entries(Attempt<Entries>),
}

/// Result of calls made at once, or the work under way.
pub(crate) type Tried = Result<Done, Box<Work>>;

/// Maker of the calls.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    engine: Arc<Engine>,
}

impl Files {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Files { engine }
    }

    pub(crate) fn open(&self, connection: usize, open: Open) -> Tried {
        self.make(connection, open, opened, Calls::Open)
    }

    /// Reads from `offset` on, as many bytes as `room` has of spare capacity.
    pub(crate) fn read(
        &self,
        connection: usize,
        file: &Arc<OwnedFd>,
        offset: u64,
        room: Vec<u8>,
    ) -> Tried {
        self.make(connection, Pread::new(Arc::clone(file), offset, room), read, Calls::Read)
    }

    pub(crate) fn entries(&self, connection: usize, folder: &Arc<OwnedFd>, room: Vec<u8>) -> Tried {
        let job = Getdents64::new(Arc::clone(folder), room);
        self.make(connection, job, entries, Calls::Entries)
    }

    fn make<J: Job + Send + 'static>(
        &self,
        connection: usize,
        job: J,
        done: impl Fn(Completed<J>) -> Done,
        calls: impl Fn(Attempt<J>) -> Calls,
    ) -> Tried {
        match self.engine.attempt(job).made() {
            Ok(completed) => Ok(done(completed)),
            Err(attempt) => Err(Box::new(Work { connection, calls: calls(attempt) })),
        }
    }
}

impl Future for Work {
    type Output = (usize, Done);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Work { connection, calls } = self.get_mut();
        let done = match calls {
            Calls::Open(open) => poll(open, context, opened, |error| {
                Done::Opened(Err(OpenReadError { step: Step::Open, errno: error }))
            }),
            Calls::Read(part) => poll(part, context, read, |error| Done::Read(Err(error))),
            Calls::Entries(part) => poll(part, context, entries, |error| Done::Entries(Err(error))),
        };
        done.map(|done| (*connection, done))
    }
}

/// Polls a job; if its engine ends, the error is that of a call that was cancelled.
fn poll<J: Job + Send + 'static>(
    attempt: &mut Attempt<J>,
    context: &mut Context<'_>,
    done: impl Fn(Completed<J>) -> Done,
    failed: impl Fn(Errno) -> Done,
) -> Poll<Done> {
    Pin::new(attempt).poll(context).map(|outcome| match outcome {
        Ok(completed) => done(completed),
        Err(Failed { .. }) => failed(Errno::CANCELED),
    })
}

fn opened(completed: Completed<Open>) -> Done {
    Done::Opened(completed.output)
}

fn read(completed: Completed<Part>) -> Done {
    Done::Read(completed.output.map(|_| completed.operation.into_buffer()))
}

fn entries(completed: Completed<Entries>) -> Done {
    Done::Entries(completed.output.map(|_| completed.operation.into_buffer()))
}
