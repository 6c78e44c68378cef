//! Calls: started, waited for, given up.

use std::ffi::{c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kumiki_resource::Name;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Places, Shared, event, ring};
use crate::failure::{Failure, run};
use crate::text::{give, json, text};

/// `struct kumiki_places_call`.
pub struct Call {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Readable once it has ended.
    event: Arc<OwnedFd>,
}

enum State {
    UnderWay(JoinHandle<Outcome>),
    Ended(Outcome),
}

type Outcome = Result<Value, Failure>;

/// Starts something.
///
/// # Safety
/// `to` is null or to be written to.
pub(crate) unsafe fn start(
    shared: &Arc<Shared>,
    to: *mut *mut Call,
    work: impl Future<Output = Result<Value, kumiki_places::Error>> + Send + 'static,
) -> Result<c_int, Failure> {
    if to.is_null() {
        return Err(Failure::invalid("where the call is to be written is null"));
    }
    let event = Arc::new(event()?);
    let rings = Rings(Arc::clone(&event));
    let task = shared.runtime().spawn(async move {
        // Also if it panics.
        let _rings = rings;
        work.await.map_err(Failure::from)
    });
    let state = Mutex::new(State::UnderWay(task));
    let call = Call { shared: Arc::clone(shared), state, event };
    // SAFETY: it is not null, and the rest is the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(call))) };
    Ok(0)
}

/// Makes a call's descriptor readable at its end.
struct Rings(Arc<OwnedFd>);

impl Drop for Rings {
    fn drop(&mut self) {
        ring(&*self.0);
    }
}

impl Call {
    /// # Safety
    /// It is null, or a call that was not ended.
    unsafe fn of<'a>(call: *const Call) -> Result<&'a Call, Failure> {
        // SAFETY: the caller's promise.
        unsafe { call.as_ref() }.ok_or_else(|| Failure::invalid("the call is null"))
    }

    fn wait(&self, limit: Option<Duration>) -> Outcome {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let task = match &mut *state {
            State::Ended(outcome) => return outcome.clone(),
            State::UnderWay(task) => task,
        };
        let ended = self.shared.runtime().block_on(async {
            match limit {
                Some(limit) => tokio::time::timeout(limit, task).await.ok(),
                None => Some(task.await),
            }
        });
        let Some(ended) = ended else {
            return Err(Failure::new(libc::ETIMEDOUT, "it is still under way"));
        };
        let outcome =
            ended.unwrap_or_else(|error| Err(Failure::new(libc::EIO, format!("a call: {error}"))));
        *state = State::Ended(outcome.clone());
        outcome
    }
}

/// A limit of C's: none if it is negative.
pub(crate) fn limit(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

pub(crate) fn name(text: &str) -> Result<Name, Failure> {
    text.parse().map_err(|error: kumiki_resource::Error| Failure::invalid(error))
}

/// Starts to make a resource.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_create(
    places: *mut Places,
    of: *const c_char,
    wishes: *const c_char,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_create", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let of = name(unsafe { text("the name", of) }?)?;
        // SAFETY: the caller's promise.
        let wishes = unsafe { json("the wishes", wishes) }?;
        let client = shared.client(timeout_ms);
        let work = async move {
            let id = client.create_named(&of, &wishes).await?;
            Ok(Value::from(id.to_string()))
        };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Starts a call of a program part.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_call(
    places: *mut Places,
    of: *const c_char,
    part: *const c_char,
    input: *const c_char,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_call", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let of = name(unsafe { text("the name", of) }?)?;
        // SAFETY: the caller's promise.
        let part = unsafe { text("the program part", part) }?.to_owned();
        // SAFETY: the caller's promise.
        let input = unsafe { json("the input", input) }?;
        let client = shared.client(timeout_ms);
        let work = async move { client.call_named(&of, &part, &input).await };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Starts to destroy a resource.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_destroy(
    places: *mut Places,
    of: *const c_char,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_destroy", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let of = name(unsafe { text("the name", of) }?)?;
        let client = shared.client(timeout_ms);
        let work = async move { client.destroy_named(&of).await.map(|()| Value::Null) };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Starts to list a place's resources.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_ls(
    places: *mut Places,
    place: *const c_char,
    pattern: *const c_char,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_ls", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let place = unsafe { text("the place", place) }?.to_owned();
        // SAFETY: the caller's promise.
        let pattern = unsafe { text("the pattern", pattern) }?.to_owned();
        let client = shared.client(timeout_ms);
        let work = async move {
            let listed = client.ls(&place, &pattern).await?;
            let listed = listed.into_iter().map(|one| {
                json!({
                    "name": one.name,
                    "id": one.id.to_string(),
                    "state": one.about.state,
                    "bytes": one.about.bytes,
                    "calls": one.calls,
                })
            });
            Ok(Value::Array(listed.collect()))
        };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Starts to list places.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_start_places(
    places: *mut Places,
    timeout_ms: u64,
    call: *mut *mut Call,
) -> c_int {
    run("kumiki_places_start_places", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        let client = shared.client(timeout_ms);
        let work = async move {
            let seen = client.places().await?.into_iter().map(|seen| Value::from(seen.place));
            Ok(Value::Array(seen.collect()))
        };
        // SAFETY: the caller's promise.
        unsafe { start(shared, call, work) }
    })
}

/// Gives a call's descriptor.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_call_fd(call: *const Call) -> c_int {
    run("kumiki_places_call_fd", || {
        // SAFETY: the caller's promise.
        Ok(unsafe { Call::of(call) }?.event.as_raw_fd())
    })
}

/// Waits for a call's end.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_call_wait(
    call: *mut Call,
    timeout_ms: i64,
    json: *mut *mut c_char,
) -> c_int {
    run("kumiki_places_call_wait", || {
        // SAFETY: the caller's promise.
        let given = unsafe { Call::of(call) }?.wait(limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        unsafe { give(&given, json) }?;
        Ok(0)
    })
}

/// Ends a call.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_call_end(call: *mut Call) -> c_int {
    run("kumiki_places_call_end", || {
        if call.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller's promise; `start` made it so.
        let call = unsafe { Box::from_raw(call) };
        let state = call.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state {
            State::UnderWay(task) if !task.is_finished() => {
                task.abort();
                let text =
                    "it was given up while it was under way: nobody knows whether it was done";
                Err(Failure::new(libc::ECANCELED, text))
            }
            _ => Ok(0),
        }
    })
}
