//! News of a place's names by the interface control, wherever the place is.
//!
//! A task of the control's hears them and hands them over: of this process' places it looks every 50 ms, as a place does
//! for who watches it from elsewhere.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use kumiki_resource::{Change, Pattern};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender, channel};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::client::news::{News, Watch};
use crate::control::Control;
use crate::control::net::Engine;
use crate::control::road::Road;
use crate::error::{Error, Result};

/// Interval between two looks at the changes of this process' places.
const LOOK: Duration = Duration::from_millis(50);
/// News that wait for who watches; then the next ones are [`News::Missed`], or wait where they come from.
const WAITING: usize = 256;

/// A watch on a place's names ([`Control::watch`]), until it is dropped.
pub struct PlaceNews {
    engine: Arc<Engine>,
    place: String,
    told: mpsc::Receiver<News>,
}

impl PlaceNews {
    /// Waits for the next news.
    pub fn wait(&mut self) -> News {
        self.engine.wait(self.told.recv()).unwrap_or(News::Gone)
    }

    /// Waits for the next news for so long at most.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<News> {
        let told = &mut self.told;
        let news = self.engine.wait(async { timeout(limit, told.recv()).await });
        news.ok().map(|news| news.unwrap_or(News::Gone))
    }

    /// The next news, in a task of whichever runtime. It may be dropped while it waits, and asked for again.
    pub async fn next(&mut self) -> News {
        self.told.recv().await.unwrap_or(News::Gone)
    }
}

impl fmt::Debug for PlaceNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceNews").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Control {
    /// Watches a place's names that match. News come from now on, [`News::Here`] first; what is there already,
    /// [`list`](Self::list) tells.
    ///
    /// # Errors
    /// As [`list`](Self::list); [`Error::Value`] of a pattern that is none, and of a place that is reached by lines
    /// alone, which carry no news.
    pub fn watch(&self, place: &str, pattern: &str) -> Result<PlaceNews> {
        self.by_way(place, |road| self.watch_by(road, place, pattern))
    }

    fn watch_by(&self, road: &Road, place: &str, pattern: &str) -> Result<PlaceNews> {
        let engine = Arc::clone(&self.inner.engine);
        let (tell, told) = channel(WAITING);
        let net = match road {
            Road::Home(home) => {
                let bad = |error: kumiki_resource::Error| {
                    let (what, why) = ("watching".to_owned(), error.to_string());
                    Error::Value { what, why }
                };
                let (changes, wanted) = home.watch(place, Pattern::new(pattern).map_err(bad)?)?;
                engine.runtime().spawn(look(changes, wanted, home.life(), tell));
                return Ok(PlaceNews { engine, place: place.to_owned(), told });
            }
            Road::Net(net) => net,
            Road::Lines(lines) => lines.beside.as_ref().ok_or_else(|| {
                let why = "it is reached by lines alone, which carry no news: have it attached here, \
                           too (`kumiki place attach`)";
                Error::Value { what: format!("watching {place}"), why: why.to_owned() }
            })?,
        };
        let watch = engine.wait(net.within(self.limit).watch(place, pattern))?;
        engine.runtime().spawn(hand_over(watch, tell));
        Ok(PlaceNews { engine, place: place.to_owned(), told })
    }
}

/// Hands over what a client hears, as long as somebody wants it.
async fn hand_over(mut watch: Watch, tell: Sender<News>) {
    loop {
        let news = tokio::select! {
            news = watch.next() => news,
            () = tell.closed() => return,
        };
        if tell.send(news).await.is_err() {
            return;
        }
    }
}

/// Hands over this process' own changes, as long as somebody wants them, and the place lives.
async fn look(
    changes: Receiver<Change>,
    wanted: impl Fn(Change) -> Option<Change> + Send,
    life: u64,
    tell: Sender<News>,
) {
    let _ = tell.send(News::Here { life }).await;
    // Whoever takes no news is told that some were lost, before the next one.
    let mut missed = false;
    while !tell.is_closed() {
        missed = missed && tell.try_send(News::Missed).is_err();
        match changes.try_recv() {
            Ok(change) => {
                let Some(change) = wanted(change) else { continue };
                let is_full = |sent| matches!(sent, Err(TrySendError::Full(_)));
                missed = missed || is_full(tell.try_send(News::Changed(change)));
                // The control's other tasks have their turns.
                yield_now().await;
            }
            Err(TryRecvError::Empty) => sleep(LOOK).await,
            // Its owner's thread has ended.
            Err(TryRecvError::Disconnected) => return,
        }
    }
}
