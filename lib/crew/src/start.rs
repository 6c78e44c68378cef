//! Starting a thread on its cpu.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use kumiki_sys::affinity;
use kumiki_sys::signals::with_signals_blocked;

use crate::JoinHandle;
use crate::error::Error;

/// Starts a thread of this name, which runs `body` on `cpu` alone, with its signals
/// [blocked](with_signals_blocked). Returns when it is there.
///
/// # Errors
/// No thread is to be had; it may not run on that cpu; or it has not got there at the
/// deadline: then it ends when it does, and never runs `body`.
pub fn start(
    name: &str,
    cpu: usize,
    deadline: Option<Instant>,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle, Error> {
    #[cfg(sim)]
    if let Some(machine) = kumiki_sys::sim::machine() {
        return Ok(JoinHandle::Simulated(machine.spawn(cpu, Box::new(body))));
    }
    kumiki_sys::event!(name, cpu, "start a thread");
    // Without a buffer: what is sent has arrived, or the starter has given up.
    let (ready, bound) = sync_channel(0);
    let builder = thread::Builder::new().name(name.to_owned());
    let thread = with_signals_blocked(|| builder.spawn(move || arrive(cpu, &ready, body)))
        .map_err(|source| Error::Thread { name: name.to_owned(), cpu, source })?;
    let answer = match deadline {
        Some(at) => bound.recv_timeout(at.saturating_duration_since(Instant::now())),
        None => bound.recv().map_err(RecvTimeoutError::from),
    };
    match answer {
        // One that cannot be bound says so and ends.
        Ok(bound) => bound.map(|()| handle(thread)).map_err(Error::from),
        Err(RecvTimeoutError::Timeout) => Err(Error::Late { name: name.to_owned(), cpu }),
        Err(RecvTimeoutError::Disconnected) => {
            unreachable!("the thread answers before it does anything else")
        }
    }
}

#[cfg(not(sim))]
fn handle(thread: thread::JoinHandle<()>) -> JoinHandle {
    thread
}

#[cfg(sim)]
fn handle(thread: thread::JoinHandle<()>) -> JoinHandle {
    JoinHandle::Real(thread)
}

fn arrive(cpu: usize, ready: &SyncSender<kumiki_sys::Result<()>>, body: impl FnOnce()) {
    let _bound = match affinity::bind(cpu) {
        Ok(bound) => bound,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_ok() {
        body();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn it_is_named_and_on_its_cpu() {
        let cpu = affinity::current().unwrap().first().unwrap();
        let (tell, told) = mpsc::channel();
        let body = move || {
            let name = thread::current().name().map(str::to_owned);
            tell.send((name, affinity::current().unwrap().to_string())).unwrap();
        };
        start("crew-test", cpu, None, body).unwrap().join().unwrap();
        assert_eq!(told.recv().unwrap(), (Some("crew-test".to_owned()), cpu.to_string()));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        let error = start("crew-test", 100_000, None, || panic!("it has no cpu")).unwrap_err();
        assert!(error.to_string().contains("100000"), "{error}");
    }

    #[test]
    fn who_is_too_late_never_begins() {
        let cpu = affinity::current().unwrap().first().unwrap();
        let began = Arc::new(AtomicBool::new(false));
        let past = Some(Instant::now());
        let body = {
            let began = Arc::clone(&began);
            move || began.store(true, Ordering::Relaxed)
        };
        match start("crew-test", cpu, past, body) {
            // It was faster than the look at the clock.
            Ok(thread) => thread.join().unwrap(),
            Err(error) => {
                assert!(matches!(error, Error::Late { .. }), "{error}");
                while Arc::strong_count(&began) > 1 {
                    thread::yield_now();
                }
                assert!(!began.load(Ordering::Relaxed));
            }
        }
    }
}
