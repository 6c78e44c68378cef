//! Serving processes of the same user on this machine: each place at a socket, without a NATS server.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use kumiki_resource::Manager;
use kumiki_sys::shm::Window;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, channel, unbounded_channel};
use tokio::sync::{Notify, Semaphore, broadcast, oneshot};

use crate::durable::leaving::MoveStage;
use crate::durable::unflushed::Unflushed;
use crate::error::{Error, Result};
use crate::lease::{Finished, Waiting, Waits};
use crate::place::lanes::{Lanes, Said};
use crate::place::site::{Answered, Coming, LOOK, Site, every};
use crate::transport::door::{Door, sweep};
use crate::transport::passed::LIMIT;
use crate::transport::passed::PassedMemory;
use crate::transport::sockets::{self, MOST_NEWS, NEWS};
use crate::wire;
use crate::wire::lane::{LANES, Word};

/// Clients of one place at a time, at most; more wait to be let in.
const MOST_CLIENTS: usize = 1024;
/// Replies that wait for a client to take them, at most; then its requests wait.
const REPLIES: usize = 16;
/// Replies of a durable place that wait for its log, or for a client to take them, at most: as many go with one flush.
const KEPT_REPLIES: usize = 256;

/// Bytes of a request that is held beside what it says, about.
const HELD: usize = 512;
/// Bytes of one connection's requests that are held while a place stands still, at most: then the next ones wait there.
const MOST_HELD: usize = 4 << 20;

/// Turns of the other tasks before a place ends.
const LAST: usize = 8;

/// A reply's way to its client.
#[derive(Clone)]
struct Back {
    number: u64,
    to: Sender<(u64, Bytes)>,
}

/// Fate of a client's request.
enum Requested {
    /// Its reply has been sent, or will be.
    Answered,
    /// Waits, as the place stands still.
    Held(Bytes),
    /// Nobody takes its reply.
    Ended,
}

/// A place at its socket.
pub(crate) struct Desk {
    here: Arc<Here>,
    blocked: UnboundedReceiver<Finished>,
    door: Door,
}

/// State that all clients' tasks share.
struct Here {
    site: Site,
    waiting: Mutex<Waiting<Back>>,
    /// Changes of names, to clients that have asked for news.
    news: broadcast::Sender<Bytes>,
    /// One more has asked; or for a lane, or on one.
    asked: Notify,
    lanes: Mutex<Lanes>,
    /// Number of the last client.
    clients: AtomicU64,
    /// Room for replies that wait for the place's log.
    unflushed: Unflushed,
}

impl Desk {
    /// Opens it, with lanes in this memory if there is any that callers see, too.
    pub(crate) fn open(
        site: Site,
        blocked: UnboundedReceiver<Finished>,
        window: Option<Arc<Window>>,
    ) -> Result<Desk> {
        let folder = sockets::folder()?;
        sweep(&folder);
        let door = Door::open(&folder, &site.name)?;
        let (news, _) = broadcast::channel(MOST_NEWS);
        let lanes = match site.keeping.is_some() {
            true => Lanes::none(
                "a durable place has no lines: an answer on one would not wait for the disk",
            ),
            false => Lanes::new(window),
        };
        let here = Here {
            site,
            waiting: Mutex::default(),
            news,
            asked: Notify::new(),
            lanes: Mutex::new(lanes),
            clients: AtomicU64::new(0),
            unflushed: Unflushed::default(),
        };
        Ok(Desk { here: Arc::new(here), blocked, door })
    }

    /// Serves until it is stopped.
    pub(crate) async fn serve(
        mut self,
        manager: Option<Manager>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<()> {
        let mut leases = every(self.here.site.lease_check());
        let mut look = every(LOOK);
        let mut failed = std::pin::pin!(self.here.site.log_failed());
        let (mut wanted, mut is_wanted) = (std::pin::pin!(self.here.site.is_wanted()), false);
        let leaving = Arc::clone(&self.here.site.leaving);
        let mut stages = leaving.stages();
        let clients = Arc::new(Semaphore::new(MOST_CLIENTS));
        loop {
            let has_room = clients.available_permits() > 0;
            let tells = self.here.news.receiver_count() > 0;
            let has_lanes = !self.here.lanes().is_empty();
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                error = &mut failed => return Err(error),
                () = &mut wanted => {
                    is_wanted = true;
                    break;
                }
                _ = stages.changed() => if leaving.stage() == MoveStage::Left {
                    is_wanted = true;
                    break;
                },
                () = leaving.thaw_when_due() => {}
                _ = look.tick(), if manager.is_some() || !has_room || tells => {
                    self.tell().await;
                }
                () = self.here.asked.notified() => {}
                _ = leases.tick() => self.here.site.end_leases()?,
                Some(ended) = self.blocked.recv() => self.ended(ended)?,
                accepted = self.door.listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) if sockets::is_trusted(&stream) => {
                        let here = Arc::clone(&self.here);
                        let permit = Arc::clone(&clients).try_acquire_owned();
                        tokio::spawn(async move {
                            here.attend(stream).await;
                            drop(permit);
                        });
                    }
                    // Another user's connection is closed.
                    Ok(_) => {}
                    // No descriptor is left, say.
                    Err(_) => tokio::time::sleep(LOOK).await,
                },
                () = self.here.look_at_lanes(manager.as_ref()), if has_lanes => {}
            }
            if let Some(manager) = &manager {
                manager.serve();
            }
        }
        let waiting = self.here.waiting().take_all();
        for Waits { payload, to, .. } in waiting {
            let _ = to.to.try_send((to.number, self.here.site.give_up(&payload)));
        }
        // What was answered leaves: also what its client's task has not been given yet.
        for _ in 0..LAST {
            tokio::task::yield_now().await;
        }
        if is_wanted {
            return Err(Error::HandedOver { place: self.here.site.name.clone() });
        }
        Ok(())
    }

    /// Tells those who watch what has changed: all that waits, and what comes meanwhile at the next look.
    async fn tell(&self) {
        while let Some(changes) = self.here.site.changes(LIMIT) {
            let is_all = changes.len() < LIMIT / 4;
            // Nobody may hear it any more.
            let _ = self.here.news.send(changes);
            if is_all {
                return;
            }
            // It leaves before more than they may wait for has come.
            tokio::task::yield_now().await;
        }
    }

    /// Keeps what an operation that has blocked gives, and answers those who have waited for it.
    fn ended(&self, ended: Finished) -> Result<()> {
        let of = ended.of;
        self.here.site.ended(ended)?;
        let waited = self.here.waiting().take(of);
        for Waits { payload, to, .. } in waited {
            self.here.answer(payload, to);
        }
        Ok(())
    }
}

/// A client's connection; dropped, its lanes go.
struct ClientGuard<'a> {
    here: &'a Here,
    number: u64,
}

impl Drop for ClientGuard<'_> {
    fn drop(&mut self) {
        self.here.lanes().gone(self.number);
    }
}

impl Here {
    fn lanes(&self) -> std::sync::MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting<Back>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what is asked on lanes, in turns with all else that this thread does; it ends with the last lane.
    async fn look_at_lanes(&self, manager: Option<&Manager>) {
        std::future::poll_fn(|context| {
            let mut lanes = self.lanes();
            if lanes.is_empty() {
                return Poll::Ready(());
            }
            if lanes.turn(&self.site, manager) {
                context.waker().wake_by_ref();
            }
            // Asleep, it is polled again when somebody has asked.
            Poll::Pending
        })
        .await;
    }

    /// Answers one client's requests until it goes, or sends what is no frame.
    async fn attend(&self, stream: UnixStream) {
        let (from, to) = stream.into_split();
        let most = if self.site.keeping.is_some() { KEPT_REPLIES } else { REPLIES };
        let (back, replies) = channel::<(u64, Bytes)>(most);
        let (want, wanted) = oneshot::channel();
        let (give, given) = oneshot::channel();
        let write = sockets::deliver(to, replies, wanted, given);
        let client = ClientGuard { here: self, number: self.clients.fetch_add(1, Relaxed) };
        // A relay has one connection for all of its clients: what is held must not hold up the steps of the move.
        let (hold, mut held) = unbounded_channel();
        let held_room = Arc::new(Semaphore::new(MOST_HELD));
        let read = async {
            let (mut from, mut want, mut give) = (BufReader::new(from), Some(want), Some(give));
            while let Ok(Some((number, payload))) = sockets::read(&mut from).await {
                if number == NEWS && payload.is_empty() {
                    if let Some(want) = want.take() {
                        let _ = want.send(self.news.subscribe());
                        self.asked.notify_one();
                    }
                    continue;
                }
                if number == LANES {
                    let said = self.lanes().heard(&payload, client.number, self.site.life, &back);
                    self.asked.notify_one();
                    let Some(said) = said else { continue };
                    let (said, fd) = match said {
                        Said::Word(word) => (word, None),
                        Said::Memory(bytes, fd) => (Word::Memory { at: bytes }, Some(fd)),
                    };
                    let Ok(message) = wire::message(&said) else { continue };
                    match fd {
                        Some(fd) => {
                            let give = give
                                .take()
                                .map(|give| give.send(PassedMemory { number: LANES, message, fd }));
                            let Some(Ok(())) = give else { return };
                        }
                        None => {
                            let Ok(()) = back.send((LANES, message)).await else { return };
                        }
                    }
                    continue;
                }
                match self.request(number, payload, &back).await {
                    Requested::Answered => {}
                    Requested::Ended => return,
                    Requested::Held(payload) => {
                        let bytes = (HELD + payload.len()).min(MOST_HELD) as u32;
                        let room = Arc::clone(&held_room).acquire_many_owned(bytes).await;
                        let _ = hold.send((number, payload, room));
                    }
                }
            }
        };
        let again = async {
            while let Some((number, mut payload, room)) = held.recv().await {
                loop {
                    // Who has a connection to a place that has left asks on another one: this one ends with the
                    // place, and behind what was answered.
                    if self.site.leaving.serves().await.is_err() {
                        return std::future::pending().await;
                    }
                    match self.request(number, payload, &back).await {
                        Requested::Answered => break,
                        Requested::Ended => return,
                        Requested::Held(same) => payload = same,
                    }
                }
                drop(room);
            }
        };
        tokio::select! {
            () = write => {}
            () = read => {}
            () = again => {}
        }
    }

    /// Answers a request as soon as there is room for its reply: a client that takes none waits for itself.
    async fn request(&self, number: u64, payload: Bytes, back: &Sender<(u64, Bytes)>) -> Requested {
        let Ok(room) = back.reserve().await else { return Requested::Ended };
        let to = Back { number, to: back.clone() };
        let answered = match self.site.answer(&payload, LIMIT, Coming::ByLife) {
            Answered::Held => return Requested::Held(payload),
            answered => answered,
        };
        match self.replied(answered, payload, to) {
            Some((reply, None)) => room.send((number, reply)),
            Some((reply, Some(after))) => {
                drop(room);
                let unflushed = self.unflushed.wait(reply.len()).await;
                let Ok(room) = back.clone().reserve_owned().await else {
                    return Requested::Ended;
                };
                let flushed = self.site.is_flushed(after);
                tokio::spawn(async move {
                    if flushed.await {
                        room.send((number, reply));
                    }
                    drop(unflushed);
                });
            }
            None => {}
        }
        Requested::Answered
    }

    /// A reply, if there is one now, and the record of the place's log that is to be flushed before it leaves.
    fn replied(
        &self,
        answered: Answered,
        payload: Bytes,
        to: Back,
    ) -> Option<(Bytes, Option<u64>)> {
        match answered {
            Answered::Reply(reply) => Some((reply, None)),
            Answered::Flushes { reply, after } => Some((reply, Some(after))),
            Answered::Leaves { reply, after } => {
                let (flushed, leaving) =
                    (self.site.is_flushed(after), Arc::clone(&self.site.leaving));
                tokio::spawn(async move {
                    if flushed.await {
                        let _ = to.to.send((to.number, reply)).await;
                        leaving.set_left();
                    }
                });
                None
            }
            // A client whose request has waited asks again.
            Answered::Held => None,
            Answered::Waits { of, first } => {
                self.waiting().add(of, Waits { payload, to, first });
                None
            }
        }
    }

    /// Answers a request that has waited. A client that takes none asks again.
    fn answer(&self, payload: Bytes, to: Back) {
        // A durable place has nothing that blocks, and no reply that waits for its log.
        let answered = self.site.answer(&payload, LIMIT, Coming::Again);
        if let Some((reply, None)) = self.replied(answered, payload, to.clone()) {
            let _ = to.to.try_send((to.number, reply));
        }
    }
}
