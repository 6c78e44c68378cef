//! Hearing of a place's names as they come and go, and of the place itself.
//!
//! ```text
//!   Here ──── Created, Destroyed ────▶ Missed (some were not heard: list anew)
//!    ▲ ╲
//!    │  ╲── nobody answers at its name any more ──▶ Gone
//!    │  ╲── no beat, and no answer either ────────▶ Unheard
//!    ╰───── it answers (again): list anew, and open anew if its life is another
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::{FutureExt, StreamExt};
use kumiki_resource::{Change, Id, Pattern};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::{Client, Way};
use crate::error::{Error, Result};
use crate::transport::denied::Doing;
use crate::transport::nats::refused;
use crate::transport::near::{self, Sign};
use crate::wire::beat::{BEAT, BEATS, Beat};
use crate::wire::changes::{CHANGES, Changes, Watching};
use crate::wire::{self, Operation, Why};

/// A beat that is so late makes a watcher ask.
const LATE: Duration = BEAT.saturating_add(Duration::from_secs(1));
/// Time that a denial may be on its way from one task to another.
const DENIED: Duration = Duration::from_millis(20);
/// Time that a watcher that asks waits for an answer.
const ANSWER: Duration = BEAT;

/// News of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The place answers, in this life. After another life, or after [`News::Unheard`], what was
    /// known of its names is to be listed anew.
    Here {
        /// Number of the life.
        life: u64,
    },
    /// A name has come or gone.
    Changed(Change),
    /// Changes were lost on their way: list anew.
    Missed,
    /// Nobody answers at the place's name: it has ended, and its resources with it.
    Gone,
    /// Neither a beat nor an answer has come: the place, or the way to it, is cut off. It may be
    /// there.
    Unheard,
}

/// State of the place, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceState {
    Here(u64),
    Gone,
    Unheard,
}

/// Ways to hear of a place.
enum Source {
    Nats {
        changes: Subscriber,
        beats: Subscriber,
    },
    /// Watch at its socket. What is sent on one connection comes, and in its order.
    Here {
        signs: Receiver<Sign>,
        /// True if it is another connection than before.
        is_new: bool,
    },
}

/// A watch on a place's names, until it is dropped.
pub struct Watch {
    client: Client,
    place: String,
    pattern: Pattern,
    source: Source,
    state: PlaceState,
    /// Number of the last message with changes that was heard.
    number: u64,
    /// Time at which it is asked to tell its changes further on.
    renew: Instant,
    /// Time at which it is asked whether it is there.
    late: Instant,
    heard: Instant,
    news: VecDeque<News>,
}

impl Client {
    /// Watches a place's names that match. News come from now on, [`News::Here`] first; what is
    /// there already, [`ls`](Client::ls) tells. That a place has died is noticed within five
    /// seconds, of one at a socket at once.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`].
    pub async fn watch(&self, place: &str, pattern: &str) -> Result<Watch> {
        let pattern = Pattern::new(pattern).map_err(|error| Error::Value {
            what: "watching".to_owned(),
            why: error.to_string(),
        })?;
        let since = match &self.inner.way {
            Way::Nats { link, .. } => Some(link.borrow().denied.count()),
            Way::Here => None,
        };
        let source = match self.inner.way {
            Way::Nats { .. } => Source::Nats {
                changes: self.hear(format!("{CHANGES}{place}")).await?,
                beats: self.hear(format!("{BEATS}{place}")).await?,
            },
            Way::Here => {
                let mut signs = near::listen(place.to_owned(), BEAT);
                // Before it is asked, which would tell how far it is.
                match timeout(ANSWER, signs.recv()).await {
                    Ok(Some(Sign::Up)) => Source::Here { signs, is_new: false },
                    Ok(_) => return Err(Error::Gone { place: place.to_owned() }),
                    Err(_) => {
                        let why = "it has not answered in time".to_owned();
                        return Err(Error::Unanswered { place: place.to_owned(), why });
                    }
                }
            }
        };
        let now = Instant::now();
        let mut watch = Watch {
            client: self.clone(),
            place: place.to_owned(),
            pattern,
            source,
            state: PlaceState::Gone,
            number: 0,
            renew: now,
            late: now,
            heard: now,
            news: VecDeque::new(),
        };
        let watching = watch.asked(self.clone()).await?;
        if let (Way::Nats { link, .. }, Some(since)) = (&self.inner.way, since) {
            let subjects = [format!("{CHANGES}{place}"), format!("{BEATS}{place}")];
            let denied = subjects.each_ref().map(|subject| (Doing::Subscribe, &**subject));
            // The server said so before the place has answered; it is heard by another task.
            let denied = timeout(DENIED, refused(&mut link.clone(), since, &denied)).await;
            if let Ok(why) = denied {
                return Err(Error::Nats { what: "watching a place", why });
            }
        }
        watch.here(watching);
        Ok(watch)
    }

    async fn hear(&self, subject: String) -> Result<Subscriber> {
        let heard = self.inner.nats("watching a place")?.subscribe(subject).await;
        heard.map_err(|error| Error::Nats { what: "watching a place", why: error.to_string() })
    }
}

impl Watch {
    /// The next news. It may be dropped while it waits, and asked for again.
    pub async fn next(&mut self) -> News {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let due = self.renew.min(self.late);
            match &mut self.source {
                Source::Nats { changes, beats } => tokio::select! {
                    biased;
                    Some(message) = changes.next() => self.changed(&message.payload),
                    Some(beat) = beats.next() => self.beaten(&beat.payload),
                    () = sleep_until(due) => self.look().await,
                },
                Source::Here { signs, .. } => tokio::select! {
                    biased;
                    Some(sign) = signs.recv() => self.sign(sign),
                    () = sleep_until(due) => self.look().await,
                },
            }
        }
    }

    /// Asks the place to tell its changes, and whether it is there.
    async fn asked(&self, client: Client) -> Result<Watching> {
        let answer = client.ask(&self.place, Operation::Watch).await?;
        wire::read(&answer).map_err(|error| Error::Value {
            what: format!("what {} has answered to who watches it", self.place),
            why: error.to_string(),
        })
    }

    async fn look(&mut self) {
        // Dropped while it waits for the answer, this is asked again.
        let asked = self.asked(self.client.with_timeout(ANSWER)).await;
        let now = Instant::now();
        match asked {
            Ok(watching) => self.here(watching),
            Err(Error::Gone { .. }) => self.away(PlaceState::Gone, News::Gone),
            // It is there, and no more to be watched.
            Err(Error::Refused { why: Why::NotAllowed, .. }) => {
                self.away(PlaceState::Gone, News::Gone)
            }
            Err(_) if now.duration_since(self.heard) > LATE => {
                self.away(PlaceState::Unheard, News::Unheard);
            }
            Err(_) => self.later(now + BEAT),
        }
    }

    fn here(&mut self, watching: Watching) {
        let holds = Duration::from_millis(watching.holds_ms).max(BEAT);
        self.later(Instant::now() + holds / 3);
        self.hears();
        let before = self.state;
        let may_have_lost = self.source.may_have_lost();
        self.state = PlaceState::Here(watching.life);
        if before != self.state {
            self.number = watching.number;
            self.news.push_back(News::Here { life: watching.life });
        } else if may_have_lost {
            self.compare(watching.number);
        }
    }

    fn away(&mut self, state: PlaceState, news: News) {
        if self.state != state {
            self.state = state;
            self.news.push_back(news);
        }
        self.later(Instant::now() + BEAT);
    }

    /// Takes what was heard at the place's socket.
    fn sign(&mut self, sign: Sign) {
        match sign {
            Sign::Changes(message) => self.changed(&message),
            // Who is there is asked: perhaps another one by now.
            Sign::Up => {
                if let Source::Here { is_new, .. } = &mut self.source {
                    *is_new = true;
                }
                self.late = Instant::now();
            }
            Sign::Down => {
                if self.state != PlaceState::Gone {
                    self.late = Instant::now();
                }
            }
        }
    }

    /// Sets the next question at this time, whatever it is for.
    fn later(&mut self, at: Instant) {
        (self.renew, self.late) = (at, at);
    }

    /// Notes that the place was heard of just now: whether it is there need not be asked until a
    /// beat is late.
    fn hears(&mut self) {
        self.heard = Instant::now();
        self.late = match self.source {
            Source::Nats { .. } => self.heard + LATE,
            // Its end is told by its connection.
            Source::Here { .. } => self.renew,
        };
    }

    fn changed(&mut self, message: &[u8]) {
        // Anybody may send anything.
        let Ok(changes) = wire::parse::<Changes>(message) else { return };
        if self.state != PlaceState::Here(changes.life) {
            self.late = Instant::now();
            return;
        }
        self.hears();
        // Told before the answer that this watch began with.
        if changes.number <= self.number {
            return;
        }
        if changes.number > self.number + 1 {
            self.news.push_back(News::Missed);
        }
        self.number = changes.number;
        for told in changes.changes {
            if self.pattern.matches(&told.name) {
                let (name, id) = (told.name, Id::from_u64(told.id));
                self.news.push_back(News::Changed(Change { name, id, created: told.created }));
            }
        }
    }

    fn beaten(&mut self, beat: &[u8]) {
        let Ok(beat) = serde_json::from_slice::<Beat>(beat) else { return };
        if self.state != PlaceState::Here(beat.life) {
            self.late = Instant::now();
            return;
        }
        self.hears();
        self.compare(beat.changes);
    }

    /// A message of this number was sent, so that it is here by now, or lost; on a new connection to a
    /// socket it may be on its way, and is said to be missed then.
    fn compare(&mut self, number: u64) {
        while let Some(sign) = self.source.waiting() {
            self.sign(sign);
        }
        if number > self.number {
            self.number = number;
            self.news.push_back(News::Missed);
        }
    }
}

impl Source {
    /// True if a message may have been sent that does not come.
    fn may_have_lost(&mut self) -> bool {
        match self {
            Source::Nats { .. } => true,
            Source::Here { is_new, .. } => std::mem::take(is_new),
        }
    }

    /// Takes a sign that is here already.
    fn waiting(&mut self) -> Option<Sign> {
        match self {
            Source::Nats { changes, .. } => {
                changes.next().now_or_never()?.map(|one| Sign::Changes(one.payload))
            }
            Source::Here { signs, .. } => signs.try_recv().ok(),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("place", &self.place).field("state", &self.state).finish()
    }
}
