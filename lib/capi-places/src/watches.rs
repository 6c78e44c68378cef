//! News of a place.

use std::ffi::{c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kumiki_places::{News, Watch};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::calls::limit;
use crate::client::{Places, Shared, event, ring};
use crate::failure::{Failure, run};
use crate::text::{give, text};

/// Time for which a place is waited for by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// News that wait to be taken, at most; then none is heard until there is room.
const MOST: usize = 1024;

/// `struct kumiki_places_watch`.
pub struct Watching {
    shared: Arc<Shared>,
    news: Mutex<Receiver<Value>>,
    task: JoinHandle<()>,
    /// Readable while there are news.
    event: Arc<OwnedFd>,
}

impl Watching {
    fn begin(shared: &Arc<Shared>, mut watch: Watch, place: String) -> Result<Watching, Failure> {
        let event = Arc::new(event()?);
        let (tell, news) = channel(MOST);
        let rung = Arc::clone(&event);
        let task = shared.runtime().spawn(async move {
            loop {
                let news = described(&place, &watch.next().await);
                if tell.send(news).await.is_err() {
                    return;
                }
                ring(&*rung);
            }
        });
        Ok(Watching { shared: Arc::clone(shared), news: Mutex::new(news), task, event })
    }

    /// # Safety
    /// It is null, or a watch that was not ended.
    unsafe fn of<'a>(watch: *const Watching) -> Result<&'a Watching, Failure> {
        // SAFETY: the caller's promise.
        unsafe { watch.as_ref() }.ok_or_else(|| Failure::invalid("the watch is null"))
    }

    fn next(&self, limit: Option<Duration>) -> Result<Value, Failure> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.shared.runtime().block_on(async {
            match limit {
                Some(limit) => timeout(limit, news.recv()).await.ok(),
                None => Some(news.recv().await),
            }
        });
        // Quiet, and then again readable if more is there: one that comes between is not lost.
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
        if !news.is_empty() {
            ring(&*self.event);
        }
        let next = next.ok_or_else(|| Failure::new(libc::ETIMEDOUT, "there are no news"))?;
        next.ok_or_else(|| Failure::new(libc::EIO, "the watch has ended"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn described(place: &str, news: &News) -> Value {
    match news {
        News::Here { life } => json!({ "news": "here", "place": place, "life": life }),
        News::Changed(change) => {
            let what = if change.created { "created" } else { "destroyed" };
            let id = change.id.to_string();
            json!({ "news": what, "place": place, "name": change.name, "id": id })
        }
        News::Missed => json!({ "news": "missed", "place": place }),
        News::Gone => json!({ "news": "gone", "place": place }),
        News::Unheard => json!({ "news": "unheard", "place": place }),
    }
}

/// Begins to watch a place.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_watch(
    places: *mut Places,
    place: *const c_char,
    pattern: *const c_char,
    timeout_ms: u64,
    watch: *mut *mut Watching,
) -> c_int {
    run("kumiki_places_watch", || {
        // SAFETY: the caller's promise.
        let shared = unsafe { Places::of(places) }?;
        // SAFETY: the caller's promise.
        let place = unsafe { text("the place", place) }?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { text("the pattern", pattern) }?;
        if watch.is_null() {
            return Err(Failure::invalid("where the watch is to be written is null"));
        }
        let most = if timeout_ms == 0 { PATIENCE } else { Duration::from_millis(timeout_ms) };
        let begin = async { timeout(most, shared.client.watch(place, pattern)).await };
        let begun = shared.runtime().block_on(begin);
        let begun = begun.map_err(|_| {
            Failure::new(libc::ENOTCONN, format!("{place} has not answered in time"))
        })??;
        let made = Watching::begin(shared, begun, place.to_owned())?;
        // SAFETY: it is not null, and the rest is the caller's promise.
        unsafe { watch.write(Box::into_raw(Box::new(made))) };
        Ok(0)
    })
}

/// Gives a watch's descriptor.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_watch_fd(watch: *const Watching) -> c_int {
    run("kumiki_places_watch_fd", || {
        // SAFETY: the caller's promise.
        Ok(unsafe { Watching::of(watch) }?.event.as_raw_fd())
    })
}

/// Waits for the next news.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_watch_next(
    watch: *mut Watching,
    timeout_ms: i64,
    json: *mut *mut c_char,
) -> c_int {
    run("kumiki_places_watch_next", || {
        // SAFETY: the caller's promise.
        let news = unsafe { Watching::of(watch) }?.next(limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        unsafe { give(&news, json) }?;
        Ok(0)
    })
}

/// Ends a watch.
///
/// # Safety
/// As `kumiki/places.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_places_watch_end(watch: *mut Watching) {
    run("kumiki_places_watch_end", || {
        if !watch.is_null() {
            // SAFETY: the caller's promise; it was made so.
            drop(unsafe { Box::from_raw(watch) });
        }
        Ok(0)
    });
}
