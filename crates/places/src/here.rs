//! Serving processes of the same user on this machine: each place at a socket, without a NATS server.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kumiki_resource::Manager;
use rustix::fs::{FlockOperation, flock};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, channel};
use tokio::sync::{Semaphore, oneshot};

use crate::blocked::{Ended, Waiting, Waits};
use crate::error::{Error, Result};
use crate::site::{Answered, LOOK, Site, every};
use crate::sockets::{self, LIMIT};

/// Clients of one place at a time, at most; more wait to be let in.
const MOST_CLIENTS: usize = 1024;
/// Replies that wait for a client to take them, at most; then its requests wait.
const REPLIES: usize = 16;

/// A reply's way to its client.
#[derive(Clone)]
struct Back {
    number: u64,
    to: Sender<(u64, Bytes)>,
}

/// A place at its socket.
pub(crate) struct Desk {
    here: Arc<Here>,
    blocked: UnboundedReceiver<Ended>,
    listener: UnixListener,
    path: PathBuf,
    /// Locked as long as the place is served.
    _lock: File,
}

/// State that all clients' tasks share.
struct Here {
    site: Site,
    waiting: Mutex<Waiting<Back>>,
}

impl Desk {
    pub(crate) fn open(site: Site, blocked: UnboundedReceiver<Ended>) -> Result<Desk> {
        let (path, lock_path) = sockets::paths(&sockets::folder()?, &site.name);
        let failed = |what: &str| {
            let what = format!("{what} {}", path.display());
            move |source| Error::Io { what, source }
        };
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path);
        let lock = options.map_err(failed("locking"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::PlaceTaken { place: site.name });
        }
        // Of a process that was killed.
        let _ = fs::remove_file(&path);
        let listener = StdListener::bind(&path).map_err(failed("making the socket"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(failed("keeping others from the socket"))?;
        let listener = UnixListener::from_std(listener).map_err(failed("hearing at the socket"))?;
        let here = Arc::new(Here { site, waiting: Mutex::default() });
        Ok(Desk { here, blocked, listener, path, _lock: lock })
    }

    /// Serves until it is stopped.
    pub(crate) async fn serve(
        mut self,
        manager: Option<Manager>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<()> {
        let mut leases = every(self.here.site.lease_check());
        let mut look = every(LOOK);
        let clients = Arc::new(Semaphore::new(MOST_CLIENTS));
        loop {
            let has_room = clients.available_permits() > 0;
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                _ = look.tick(), if manager.is_some() || !has_room => {}
                _ = leases.tick() => self.here.site.end_leases()?,
                Some(ended) = self.blocked.recv() => self.ended(ended)?,
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) if sockets::is_trusted(&stream) => {
                        let here = Arc::clone(&self.here);
                        let permit = Arc::clone(&clients).try_acquire_owned();
                        tokio::spawn(async move {
                            here.attend(stream).await;
                            drop(permit);
                        });
                    }
                    // A stranger goes.
                    Ok(_) => {}
                    // No descriptor is left, say.
                    Err(_) => tokio::time::sleep(LOOK).await,
                },
            }
            if let Some(manager) = &manager {
                manager.serve();
            }
        }
        let waiting = self.here.waiting().take_all();
        for Waits { payload, to, .. } in waiting {
            let _ = to.to.try_send((to.number, self.here.site.give_up(&payload)));
        }
        // What was answered leaves.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Keeps what an operation that has blocked gives, and answers those who have waited for it.
    fn ended(&self, ended: Ended) -> Result<()> {
        let of = ended.of;
        self.here.site.ended(ended)?;
        let waited = self.here.waiting().take(of);
        for Waits { payload, to, .. } in waited {
            self.here.answer(payload, to);
        }
        Ok(())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Here {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting<Back>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one client's requests until it goes, or sends what is no frame.
    async fn attend(&self, stream: UnixStream) {
        let (from, mut to) = stream.into_split();
        let (back, mut replies) = channel::<(u64, Bytes)>(REPLIES);
        let write = async move {
            while let Some((number, reply)) = replies.recv().await {
                if sockets::write(&mut to, number, &reply).await.is_err() {
                    return;
                }
            }
        };
        let read = async move {
            let mut from = BufReader::new(from);
            while let Ok(Some((number, payload))) = sockets::read(&mut from).await {
                // A client that takes no replies waits for itself.
                let Ok(room) = back.reserve().await else { return };
                let to = Back { number, to: back.clone() };
                if let Some(reply) = self.reply(payload, to, false) {
                    room.send((number, reply));
                }
            }
        };
        tokio::select! {
            () = write => {}
            () = read => {}
        }
    }

    /// A reply, if there is one now.
    fn reply(&self, payload: Bytes, to: Back, has_waited: bool) -> Option<Bytes> {
        match self.site.answer(&payload, LIMIT, has_waited) {
            Answered::Reply(reply) => Some(reply),
            Answered::Waits { of, first } => {
                self.waiting().add(of, Waits { payload, to, first });
                None
            }
        }
    }

    /// Answers a request that has waited. A client that takes none asks again.
    fn answer(&self, payload: Bytes, to: Back) {
        if let Some(reply) = self.reply(payload, to.clone(), true) {
            let _ = to.to.try_send((to.number, reply));
        }
    }
}
