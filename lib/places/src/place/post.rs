//! A place at its subject of a NATS server: requests, beats, changes of names, and who else has the name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;
use async_nats::service::{self, ServiceExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use kumiki_resource::Manager;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::durable::leaving::MoveStage;
use crate::durable::unflushed::Unflushed;
use crate::error::{Error, Result};
use crate::lease::{Finished, Waiting, Waits};
use crate::place::site::{Answered, Coming, LOOK, Site, every};
use crate::transport::direct::{Ask, AtOnce, Back, Direct, Letter, ListenAt};
use crate::transport::nats::Nats;
use crate::transport::permission::needed;
use crate::transport::rivals::{self, Rival};
use crate::wire::beat::{BEAT, BEATS, Beat};
use crate::wire::changes::CHANGES;
use crate::wire::{SERVICE, SUBJECT, subject_of};

/// Bytes of a request that is held beside what it says, about.
const HELD: usize = 512;
/// Bytes of requests that are held while a place stands still, at most: more are to be sent again.
const MOST_HELD: usize = 16 << 20;
/// Time that a place that ends lets its last answers leave.
const LAST: Duration = Duration::from_secs(2);

/// A place at its subject.
pub(crate) struct Post {
    site: Arc<Site>,
    client: Client,
    /// Requests of this life, and of whichever has the name, in turns.
    requests: BoxStream<'static, (Coming, Letter)>,
    blocked: UnboundedReceiver<Finished>,
    waiting: Waiting<Back>,
    beats: async_nats::Subscriber,
    service: async_nats::service::Service,
    /// Requests that are held while the place stands still.
    held: Vec<(Letter, Coming)>,
    /// Bytes of them.
    held_bytes: usize,
    /// Answers of who else has the name, when it is asked.
    asked: Option<JoinSet<Result<Vec<Rival>>>>,
    /// Time at which it may be asked again.
    ask_again: tokio::time::Instant,
    /// Room for replies that wait for the place's log.
    unflushed: Unflushed,
}

impl Post {
    pub(crate) async fn open(
        mut site: Site,
        blocked: UnboundedReceiver<Finished>,
        nats: &Nats,
        host: &str,
        listen: Option<ListenAt>,
    ) -> Result<Post> {
        let failed =
            |what| move |why: async_nats::Error| Error::Nats { what, why: why.to_string() };
        let (client, link) = nats.connect(&site.name).await?;
        let subject = format!("{SUBJECT}{}", site.name);
        // Who hears the question and is no place, a tap on all subjects, keeps none from starting.
        if !rivals::ask(&client, subject.clone(), |_| true).await?.is_empty() {
            return Err(Error::PlaceTaken { place: site.name });
        }
        let metadata = HashMap::from([
            ("place".to_owned(), site.name.clone()),
            ("host".to_owned(), host.to_owned()),
            ("life".to_owned(), site.life.to_string()),
        ]);
        let service = client
            .service_builder()
            .description(format!("place {}", site.name))
            .metadata(metadata)
            .start(SERVICE, env!("CARGO_PKG_VERSION"))
            .await
            .map_err(failed("announcing a place"))?;
        // A group of its own: of two places of one name both are to hear, and one to end.
        let hear = async |name, subject| {
            let endpoint = service.endpoint_builder().name(name);
            let endpoint = endpoint.queue_group(format!("life-{}", site.life)).add(subject);
            endpoint.await.map_err(failed("opening a place"))
        };
        let by_name = hear("place", subject).await?;
        let by_life = hear("life", subject_of(&site.name, site.life)).await?;
        // Whoever sends one without a place for the answer is no caller; async-nats of Rust 1.85 panics by it.
        let letter = |coming| {
            move |request: service::Request| {
                let has_reply = request.message.reply.is_some();
                let payload = request.message.payload.clone();
                let back = Back::Nats(Box::new(request));
                let letter = Letter { payload, back, has_begun: false };
                std::future::ready(has_reply.then_some((coming, letter)))
            }
        };
        let (by_life, by_name) = (
            by_life.filter_map(letter(Coming::ByLife)),
            by_name.filter_map(letter(Coming::ByName)),
        );
        let mut requests = stream::select(by_life, by_name).boxed();
        let mut port = None;
        let most = client.server_info().max_payload;
        if let Some(listen) = listen {
            let (most, busy) = ((most, site.holds), Arc::clone(&site.busy));
            let (direct, open) = Direct::open(listen, most, busy)?;
            (site.direct, port) = (Some(direct), Some(open));
        }
        let site = Arc::new(site);
        if let Some(port) = port {
            let mut come = port.serve(at_once(&site, most));
            let come = stream::poll_fn(move |context| come.poll_recv(context));
            let come = come.map(|letter| match letter.has_begun {
                true => (Coming::Again, letter),
                false => (Coming::ByLife, letter),
            });
            requests = stream::select(requests, come).boxed();
        }
        let beats = client.subscribe(format!("{BEATS}{}", site.name)).await;
        let beats = beats.map_err(|error| failed("hearing a place's beats")(error.into()))?;
        let (waiting, held) = (Waiting::default(), Vec::new());
        let (asked, ask_again) = (None, tokio::time::Instant::now());
        let mut post = Post {
            site,
            client,
            requests,
            blocked,
            waiting,
            held,
            held_bytes: 0,
            beats,
            service,
            asked,
            ask_again,
            unflushed: Unflushed::default(),
        };
        // Once the server gives a beat back it knows what was subscribed to before: whoever calls
        // as soon as this returns is heard. A flush only says that the lines have left.
        post.beat().await;
        let opened = post.client.flush().await;
        opened.map_err(|error| failed("opening a place")(error.into()))?;
        let _ = tokio::time::timeout(LAST, post.beats.next()).await;
        // What the server denies it has said by now.
        let needed = needed(&post.site.name, post.site.life);
        let link = link.borrow().clone();
        let denied = needed.iter().find_map(|(doing, subject)| link.denied(0, *doing, subject));
        if let Some(why) = denied {
            return Err(Error::Nats { what: "opening a place", why });
        }
        Ok(post)
    }

    /// Says that it is there.
    async fn beat(&mut self) {
        let age_ms = self.site.age_ms();
        let busy_permille = self.site.busy.permille(Instant::now());
        let (life, changes) = (self.site.life, self.site.changes_sent());
        let beat = Beat { life, age_ms, changes, busy_permille };
        if let Ok(bytes) = serde_json::to_vec(&beat) {
            let subject = format!("{BEATS}{}", self.site.name);
            let _ = self.client.publish(subject, bytes.into()).await;
        }
    }

    /// Serves until it is stopped.
    pub(crate) async fn serve(
        mut self,
        manager: Option<Manager>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<()> {
        let mut beat = every(BEAT);
        let mut leases = every(self.site.lease_check());
        let mut look = every(LOOK);
        let mut failed = std::pin::pin!(self.site.log_failed());
        let (mut wanted, mut is_wanted) = (std::pin::pin!(self.site.is_wanted()), false);
        let mut stages = self.site.leaving.stages();
        loop {
            tokio::select! {
                // Requests that never rest are to hold up none of the others.
                biased;
                _ = &mut stopped => break,
                error = &mut failed => return Err(error),
                () = &mut wanted => {
                    is_wanted = true;
                    break;
                }
                _ = stages.changed() => match self.site.leaving.stage() {
                    MoveStage::Left => {
                        is_wanted = true;
                        break;
                    }
                    MoveStage::Serves => {
                        self.held_bytes = 0;
                        for (letter, coming) in std::mem::take(&mut self.held) {
                            self.answer(letter, coming).await;
                        }
                    }
                    MoveStage::Still => {}
                },
                () = self.site.leaving.thaw_when_due() => {}
                other = self.beats.next() => {
                    let Some(other) = other else { return Err(closed("hearing a place's beats")) };
                    self.heard(&other.payload);
                }
                Some(asked) = answered(&mut self.asked) => {
                    self.asked = None;
                    self.compare(&asked)?;
                }
                _ = beat.tick() => self.beat().await,
                _ = look.tick(), if manager.is_some() || self.site.is_watched() => {
                    self.tell().await;
                }
                _ = leases.tick() => self.site.end_leases()?,
                Some(ended) = self.blocked.recv() => {
                    let of = ended.of;
                    self.site.ended(ended)?;
                    for Waits { payload, to: back, .. } in self.waiting.take(of) {
                        let letter = Letter { payload, back, has_begun: true };
                        self.answer(letter, Coming::Again).await;
                    }
                }
                request = self.requests.next() => {
                    let Some((coming, letter)) = request else {
                        return Err(closed("hearing requests"));
                    };
                    self.answer(letter, coming).await;
                }
            }
            if let Some(manager) = &manager {
                manager.serve();
            }
        }
        for Waits { payload, to, .. } in self.waiting.take_all() {
            to.respond(self.site.give_up(&payload)).await;
        }
        for (Letter { payload, back, .. }, _) in std::mem::take(&mut self.held) {
            back.respond(self.site.ask_again(&payload)).await;
        }
        let place = self.site.name.clone();
        let Post { client, requests, service, .. } = self;
        let _ = service.stop().await;
        drop(requests);
        // That is told by a task of its own.
        tokio::task::yield_now().await;
        let end = async {
            // What was answered leaves. Then a message to itself, which comes behind: whoever asks from here on is
            // told by the server that nobody is here.
            let inbox = client.new_inbox();
            let mut own = client.subscribe(inbox.clone()).await.ok()?;
            client.publish(inbox, "".into()).await.ok()?;
            own.next().await
        };
        // A server that is not there keeps nobody.
        let _ = tokio::time::timeout(LAST, end).await;
        if is_wanted { Err(Error::HandedOver { place }) } else { Ok(()) }
    }

    /// Answers a request, or keeps it until what it waits for has ended.
    async fn answer(&mut self, letter: Letter, coming: Coming) {
        let Letter { payload, back, has_begun } = letter;
        if self.unflushed.is_full() {
            // What is not answered is asked for again.
            if let Some(reply) = self.site.refuse_all(&payload) {
                back.respond(reply).await;
            }
            return;
        }
        let limit = self.client.server_info().max_payload;
        match self.site.answer(&payload, limit, coming) {
            Answered::Reply(reply) => back.respond(reply).await,
            Answered::Flushes { reply, after } => {
                let flushed = self.site.is_flushed(after);
                let room = self.unflushed.take(reply.len() + payload.len());
                tokio::spawn(async move {
                    if flushed.await {
                        back.respond(reply).await;
                    }
                    drop(room);
                });
            }
            Answered::Leaves { reply, after } => {
                let (flushed, leaving) =
                    (self.site.is_flushed(after), Arc::clone(&self.site.leaving));
                tokio::spawn(async move {
                    if flushed.await {
                        back.respond(reply).await;
                        leaving.set_left();
                    }
                });
            }
            Answered::Held => {
                let bytes = HELD + payload.len();
                if self.held_bytes + bytes > MOST_HELD {
                    back.respond(self.site.ask_again(&payload)).await;
                    return;
                }
                self.held_bytes += bytes;
                self.held.push((Letter { payload, back, has_begun }, coming));
            }
            Answered::Waits { of, first } => {
                self.waiting.add(of, Waits { payload, to: back, first });
            }
        }
    }

    /// Tells those who watch what has changed.
    async fn tell(&self) {
        let subject = format!("{CHANGES}{}", self.site.name);
        while let Some(changes) = self.site.changes(self.client.server_info().max_payload) {
            // Without a connection it would wait for one, and with it whoever asks this place. What is
            // not told is missed by its number.
            if self.client.connection_state() == State::Connected {
                let _ = self.client.publish(subject.clone(), changes).await;
            }
        }
    }

    /// Hears a beat of this name. Anybody may send one: of another life it is a reason to ask, now and then.
    fn heard(&mut self, beat: &[u8]) {
        let Ok(Beat { life, .. }) = serde_json::from_slice(beat) else { return };
        let now = tokio::time::Instant::now();
        if life == self.site.life || self.asked.is_some() || now < self.ask_again {
            return;
        }
        self.ask_again = now + rivals::LONGEST;
        let (client, subject) = (self.client.clone(), format!("{SUBJECT}{}", self.site.name));
        let (life, since) = (self.site.life, self.site.since);
        let mut asked = JoinSet::new();
        // This place's own answer comes, too.
        asked.spawn(async move {
            rivals::ask(&client, subject, |rival| rival.has_name(life, since)).await
        });
        self.asked = Some(asked);
    }

    /// Ends this place if another one that has answered has its name.
    fn compare(&self, asked: &Result<Vec<Rival>>) -> Result<()> {
        // Who cannot ask hears the next beat.
        let Ok(rivals) = asked else { return Ok(()) };
        let has_name = |rival: &Rival| rival.has_name(self.site.life, self.site.since);
        match rivals.iter().any(has_name) {
            true => Err(Error::PlaceTaken { place: self.site.name.clone() }),
            false => Ok(()),
        }
    }
}

/// Answers of a place that need nothing but its table, without a turn of its queue: what waits, blocks or is to be flushed is
/// the queue's.
fn at_once(site: &Arc<Site>, most: usize) -> Ask {
    let site = Arc::clone(site);
    Arc::new(move |payload| {
        if site.keeping.is_some() {
            return AtOnce::Queue { has_begun: false };
        }
        match site.answer(payload, most, Coming::ByLife) {
            Answered::Reply(reply) => AtOnce::Reply(reply),
            // It may have ended before the queue looks: that asks again what has come of it.
            _ => AtOnce::Queue { has_begun: true },
        }
    })
}

/// The answers, when they have come; it waits for ever where nobody was asked.
async fn answered(asked: &mut Option<JoinSet<Result<Vec<Rival>>>>) -> Option<Result<Vec<Rival>>> {
    match asked {
        Some(asked) => Some(asked.join_next().await?.unwrap_or_else(|_| Ok(Vec::new()))),
        None => std::future::pending().await,
    }
}

/// The client's library has given a subscription up.
fn closed(what: &'static str) -> Error {
    Error::Nats { what, why: "the connection is closed, and not made anew".to_owned() }
}
