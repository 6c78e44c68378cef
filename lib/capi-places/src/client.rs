//! A client of places, and the thread of its connections.

use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kumiki_places::{Client, Nats};
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::{self, Runtime};

use crate::failure::{Failure, run};
use crate::text::optional;

/// `struct kumiki_places`.
pub struct Places(pub(crate) Arc<Shared>);

/// State that calls and watches have, too.
pub(crate) struct Shared {
    pub(crate) client: Client,
    /// None while it is dropped.
    runtime: Option<Runtime>,
}

impl Shared {
    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it goes with this")
    }

    /// The client, trying for so many milliseconds.
    pub(crate) fn client(&self, timeout_ms: u64) -> Client {
        match timeout_ms {
            0 => self.client.clone(),
            ms => self.client.with_timeout(Duration::from_millis(ms)),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Places {
    /// # Safety
    /// It is null, or what [`kumiki_places_open`] gave and not closed yet.
    pub(crate) unsafe fn of<'a>(places: *const Places) -> Result<&'a Arc<Shared>, Failure> {
        // SAFETY: the caller's promise.
        let places = unsafe { places.as_ref() };
        places.map(|places| &places.0).ok_or_else(|| Failure::invalid("the client is null"))
    }
}

/// A counter whose descriptor is readable while it is not 0.
pub(crate) fn event() -> Result<OwnedFd, Failure> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let made = eventfd(0, flags);
    made.map_err(|error| Failure::new(error.raw_os_error(), format!("an event: {error}")))
}

/// Makes an event's descriptor readable.
pub(crate) fn ring(event: impl AsFd) {
    // It fails where it is readable for ever.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Makes a client.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_open(
    places: *mut *mut Places,
    nats: *const c_char,
    credentials: *const c_char,
) -> c_int {
    run("kumiki_places_open", || {
        if places.is_null() {
            return Err(Failure::invalid("where the client is to be written is null"));
        }
        // SAFETY: the caller's promise.
        let url = unsafe { optional("the server's URL", nats) }?;
        // SAFETY: the caller's promise.
        let file = unsafe { optional("the credentials' file", credentials) }?;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kumiki-places")
            .enable_all()
            .build()
            .map_err(|error| Failure::new(libc::EAGAIN, format!("a thread: {error}")))?;
        let client = runtime.block_on(async {
            match url {
                Some(url) => {
                    let credentials = file.map(PathBuf::from);
                    let mut nats = Nats::from_environment(url);
                    if credentials.is_some() {
                        nats.credentials = credentials;
                    }
                    Client::connect(&nats).await
                }
                None => Ok(Client::here()),
            }
        })?;
        let made = Places(Arc::new(Shared { client, runtime: Some(runtime) }));
        // SAFETY: it is not null, and the rest is the caller's promise.
        unsafe { places.write(Box::into_raw(Box::new(made))) };
        Ok(0)
    })
}

/// Closes a client.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_close(places: *mut Places) {
    run("kumiki_places_close", || {
        if !places.is_null() {
            // SAFETY: the caller's promise; it was made so.
            drop(unsafe { Box::from_raw(places) });
        }
        Ok(0)
    });
}
