//! What there is to be had: threads that stand ready, spin, and do nothing but their part of
//! the calls. No requests, nothing that a program could use for anything else.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{Builder, JoinHandle};

use kumiki_measure::case::Workload;
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use super::running::ThreadsGone;

/// One thread's part of the calls.
pub(super) type Part = Box<dyn FnMut() -> Result<()> + Send>;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const OVER: u32 = 2;

/// Threads with their parts, and the calling thread's own.
pub(super) struct Bare {
    own: Part,
    helpers: Vec<Helper>,
    _gone: ThreadsGone,
}

struct Helper {
    line: Arc<Line>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// Word on a line, and its neighbour, of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

impl Bare {
    /// A thread on each of `cpus`; the calling thread's part is the first.
    pub(super) fn new(mut parts: Vec<Part>, cpus: &CpuSet) -> Result<Self> {
        let gone = ThreadsGone::then();
        let own = parts.remove(0);
        let helpers = parts.into_iter().zip(cpus.iter()).map(|(part, cpu)| Helper::new(part, cpu));
        Ok(Bare { own, helpers: helpers.collect::<Result<_>>()?, _gone: gone })
    }
}

impl Helper {
    fn new(mut part: Part, cpu: usize) -> Result<Self> {
        let line = Arc::new(Line::default());
        let its = Arc::clone(&line);
        let serve = move || {
            let _bound = affinity::bind(cpu)?;
            loop {
                match its.0.load(Acquire) {
                    IDLE => std::hint::spin_loop(),
                    ASKED => {
                        part()?;
                        its.0.store(IDLE, Release);
                    }
                    _ => return Ok(()),
                }
            }
        };
        let thread = Builder::new().name("bare".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| {
            Error::Invalid(format!("no thread for bare threads' part of the calls: {error}"))
        })?;
        Ok(Helper { line, thread: Some(thread) })
    }

    /// Waits for its part.
    fn await_part(&mut self) -> Result<()> {
        while self.line.0.load(Acquire) == ASKED {
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                let ended = self.thread.take().map(JoinHandle::join);
                return ended.and_then(std::result::Result::ok).unwrap_or(Ok(()));
            }
        }
        Ok(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.line.0.store(OVER, Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Workload for Bare {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| {
            (0..iterations).try_for_each(|_| {
                self.helpers.iter().for_each(|helper| helper.line.0.store(ASKED, Release));
                (self.own)()?;
                self.helpers.iter_mut().try_for_each(Helper::await_part)
            })
        })
    }
}
