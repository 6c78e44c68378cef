//! Calls on files, tried first: one kind of future for all that a worker has under way.

use std::ffi::CString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kumiki_parasc::op::{Attributes, Errno, Getdents64, Pread};
use kumiki_parasc::tries::{Attempt, OpenRead, OpenReadError, Step};
use kumiki_parasc::{Completed, Engine, Failed, Job};

use crate::described::Described;
use crate::devices::{Devices, device_of};
use crate::held::Held;

type Open = OpenRead<Arc<Held>, CString>;
type PartRead = Pread<Arc<Held>, Vec<u8>>;
type Entries = Getdents64<Arc<Held>, Vec<u8>>;

/// A file that was opened, or looked at.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: Arc<Held>,
    pub(crate) attributes: Attributes,
    /// Bytes that were read with it.
    pub(crate) data: Vec<u8>,
    /// Fields for the head of its answer, if that is known.
    pub(crate) described: Option<Arc<Described>>,
}

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
    device: u64,
    devices: Arc<Devices>,
    calls: Calls,
    /// Its result was given away.
    is_over: bool,
}

#[allow(clippy::large_enum_variant, reason = "in a box as a whole")]
enum Calls {
    Open(Attempt<Open>),
    Read(Attempt<PartRead>),
    Entries(Attempt<Entries>),
}

/// Result of calls made at once, or the work under way.
pub(crate) type Tried = Result<Done, Box<Work>>;

/// Maker of the calls.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// Engine that tries; calls that would sleep go to the device's.
    engine: Arc<Engine>,
    devices: Arc<Devices>,
}

impl Files {
    pub(crate) fn new(engine: Arc<Engine>, devices: Arc<Devices>) -> Self {
        Files { engine, devices }
    }

    /// Opens what is at `path` below the folder, which `open` has been made of.
    pub(crate) fn open(
        &self,
        connection: usize,
        open: Open,
        folder: &Held,
        path: impl FnOnce() -> Option<CString>,
    ) -> Tried {
        let device = |open: &Open| match open.attributes() {
            Some(attributes) => attributes.dev(),
            None => device_of(folder, &path().unwrap_or_default()),
        };
        let opened = |completed| opened(completed, &self.devices);
        self.make(connection, open, device, opened, Calls::Open)
    }

    /// Reads from `offset` on, as many bytes as `room` has of spare capacity.
    pub(crate) fn read(
        &self,
        connection: usize,
        file: &Arc<Held>,
        offset: u64,
        room: Vec<u8>,
    ) -> Tried {
        let job = Pread::new(Arc::clone(file), offset, room);
        self.make(connection, job, |_| file.device(), read, Calls::Read)
    }

    pub(crate) fn entries(&self, connection: usize, folder: &Arc<Held>, room: Vec<u8>) -> Tried {
        let job = Getdents64::new(Arc::clone(folder), room);
        self.make(connection, job, |_| folder.device(), entries, Calls::Entries)
    }

    fn make<J: Job + Send + 'static>(
        &self,
        connection: usize,
        job: J,
        device: impl FnOnce(&J) -> u64,
        done: impl Fn(Completed<J>) -> Done,
        calls: impl Fn(Attempt<J>) -> Calls,
    ) -> Tried {
        let mut of = 0;
        let attempt = self.engine.attempt_by(job, |job| {
            of = device(job);
            self.devices.engine(of)
        });
        match attempt.made() {
            Ok(completed) => Ok(done(completed)),
            Err(attempt) => {
                let devices = Arc::clone(&self.devices);
                devices.enter();
                let (device, calls) = (of, calls(attempt));
                Err(Box::new(Work { connection, device, devices, calls, is_over: false }))
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.devices.leave();
        // Given up, it may have opened a file all the same, whose close may sleep.
        if !self.is_over && matches!(self.calls, Calls::Open(_)) {
            let _ = Pin::new(self).poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl Future for Work {
    type Output = (usize, Done);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Work { connection, device, devices, calls, is_over } = self.get_mut();
        let done = match calls {
            Calls::Open(open) => poll(
                open,
                context,
                |it| opened(it, devices),
                |error| Done::Opened(Err(OpenReadError { step: Step::Open, errno: error })),
            ),
            Calls::Read(part) => poll(part, context, read, |error| Done::Read(Err(error))),
            Calls::Entries(part) => poll(part, context, entries, |error| Done::Entries(Err(error))),
        };
        done.map(|done| {
            devices.ended(*device);
            *is_over = true;
            (*connection, done)
        })
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

fn opened(completed: Completed<Open>, devices: &Arc<Devices>) -> Done {
    Done::Opened(completed.output.and_then(|opened| {
        let (attributes, data) = (opened.attributes, opened.data);
        let file = opened.file.ok_or(OpenReadError { step: Step::Open, errno: Errno::BADF })?;
        let file = Arc::new(Held::new(file, attributes.dev(), devices));
        Ok(Opened { file, attributes, data, described: None })
    }))
}

fn read(completed: Completed<PartRead>) -> Done {
    Done::Read(completed.output.map(|_| completed.operation.into_buffer()))
}

fn entries(completed: Completed<Entries>) -> Done {
    Done::Entries(completed.output.map(|_| completed.operation.into_buffer()))
}
