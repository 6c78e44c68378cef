//! Places by messages: behind a NATS server, or at a socket. What waits here is a thread; the messages' own tasks run
//! on one thread of the control's.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use bytes::Bytes;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Listed, Name, Rights};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::client::{Client, call, decode};
use crate::control::transport::{Limit, Transport};
use crate::error::{Error, Result};
use crate::part::{Part, Portable};
use crate::reference::Reference;
use crate::wire::chain::{ChainReply, StepCall};

/// The thread on which connections are served.
pub(crate) struct Engine(Option<Runtime>);

impl Engine {
    pub(crate) fn start() -> Result<Engine> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("kumiki-control").enable_all();
        let runtime = kumiki_crew::with_signals_blocked(|| builder.build());
        let what = "starting an interface control's thread".to_owned();
        Ok(Engine(Some(runtime.map_err(|source| Error::Io { what, source })?)))
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Waits for it. In a task of somebody's runtime that holds up the task's thread, and no more.
    pub(crate) fn wait<T: Send>(&self, what: impl Future<Output = T> + Send) -> T {
        if Handle::try_current().is_err() {
            return self.runtime().block_on(what);
        }
        // A runtime's thread does not wait for another runtime.
        thread::scope(|threads| {
            let waits = threads.spawn(|| self.runtime().block_on(what));
            waits.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `f` where it may begin tasks.
    pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
        let _in = self.runtime().enter();
        f()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may be dropped by a task of another runtime, which does not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client's places.
pub(crate) struct Net {
    engine: Arc<Engine>,
    pub(crate) client: Client,
}

impl Net {
    pub(crate) fn new(engine: &Arc<Engine>, client: &Client) -> Net {
        Net { engine: Arc::clone(engine), client: client.clone() }
    }

    pub(crate) fn within(&self, limit: Limit) -> Client {
        match limit {
            Some(limit) => self.client.with_timeout(limit),
            None => self.client.clone(),
        }
    }

    /// Checks that a part can be called where the resource is, in this life.
    pub(crate) fn check<P: Part>(&self, on: &Reference<P::Kind>, limit: Limit) -> Result<()> {
        self.engine.wait(self.within(limit).check::<P>(on))
    }

    /// True if it goes by the same connection.
    pub(crate) fn is_by_same(&self, other: &Net) -> bool {
        Arc::ptr_eq(&self.client.inner, &other.client.inner)
    }

    /// Has places run these steps, as [`Client::run_steps`].
    pub(crate) fn run_steps(
        &self,
        steps: Vec<StepCall>,
        input: Bytes,
        limit: Limit,
    ) -> Result<ChainReply> {
        let client = self.within(limit);
        if Handle::try_current().is_err() {
            return self.engine.runtime().block_on(client.run_steps(steps, input));
        }
        // A place's thread for what blocks: a task has all that it needs, and no other thread is made for it.
        let place = steps[0].place.clone();
        let (tell, told) = channel();
        self.engine.runtime().spawn(async move {
            let _ = tell.send(client.run_steps(steps, input).await);
        });
        told.recv().unwrap_or_else(|_| {
            Err(Error::Unknown { place, why: "the control's thread has ended".to_owned() })
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Transport for Net {
    fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
        limit: Limit,
    ) -> Result<Reference<K>> {
        self.engine.wait(self.within(limit).create::<K>(place, unique, spec))
    }

    fn open<K: Kind>(&self, name: &Name, limit: Limit) -> Result<Reference<K>> {
        self.engine.wait(self.within(limit).open::<K>(name))
    }

    fn call<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: &P::In,
        limit: Limit,
    ) -> Result<P::Out> {
        on.require(Rights::USE)?;
        // Written before it is waited for: it need not be what threads may share.
        let (operation, client) = (call::<P>(on.id().to_u64(), input)?, self.within(limit));
        let asked = client.ask_with_life(on.place(), on.life(), operation);
        let (_, answer) = self.engine.wait(asked)?;
        decode(P::NAME, &answer)
    }

    fn destroy<K: Portable>(&self, what: &Reference<K>, limit: Limit) -> Result<()> {
        self.engine.wait(self.within(limit).destroy(what.clone()))
    }

    fn list(&self, place: &str, pattern: &str, limit: Limit) -> Result<Vec<Listed>> {
        self.engine.wait(self.within(limit).ls(place, pattern))
    }

    /// A client finds by itself what has come back.
    fn has_ended(&self) -> bool {
        false
    }
}
