//! One descriptor that tells an event loop of ended requests.

use std::fmt;
use std::future::Future;
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kumiki_wait::PollBell;

use crate::error::Result;
use crate::primitive::{Mutex, lock};

/// A request that a [`Completions`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(usize);

/// Requests under way, for a loop that waits by epoll, poll or select: its descriptor is
/// readable when some of them have ended.
///
/// ```text
///  add(future) ─▶ kept under a key ┄┄ ends, on another thread ┄▶ eventfd readable ─▶ epoll
///                                                                                      │
///  (key, output) ◀──────────────────────────────── take ◀──────────────────────────────┘
/// ```
///
/// ```
/// use kumiki_parasc::op::Read;
/// use kumiki_parasc::{Completions, Config, Engine};
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// let engine = Engine::new(&Config::default())?;
/// let mut under_way = Completions::new()?;
/// let (reader, mut writer) = kumiki_sys::descriptors::pipe()?;
/// let read = engine.attempt(Read::new(reader, vec![0; 8].into_boxed_slice()));
/// let key = under_way.add(read);
/// std::io::Write::write_all(&mut writer, b"go")?;
/// poll(&mut [PollFd::new(&under_way, PollFlags::IN)], None)?;
/// let ended: Vec<_> = under_way.take().collect();
/// assert_eq!((ended.len(), ended[0].0), (1, key));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It may take any futures that wake by the waker which they are given. Dropped, it drops those
/// that it has.
pub struct Completions<F: Future> {
    kept: Vec<Option<KeptFuture<F>>>,
    free: Vec<usize>,
    count: usize,
    /// Emptied by `take`, and kept for its memory.
    ended: Vec<usize>,
    told: Arc<WakeList>,
}

enum KeptFuture<F: Future> {
    UnderWay(F, Waker),
    /// Future that had ended when it was added, with its output.
    Ended(F::Output),
}

#[derive(Debug)]
struct WakeList {
    bell: PollBell,
    /// Futures to look at.
    woken: Mutex<Vec<usize>>,
}

impl WakeList {
    fn tell(&self, at: usize) {
        lock(&self.woken).push(at);
        self.bell.ring();
    }
}

/// Wakes for one of them.
struct One {
    told: Arc<WakeList>,
    at: usize,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        self.told.tell(self.at);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.told.tell(self.at);
    }
}

impl<F: Future + Unpin> Completions<F> {
    /// None, and their descriptor.
    ///
    /// # Errors
    /// [`Error::Sys`](crate::Error::Sys) if the kernel gives no descriptor.
    pub fn new() -> Result<Self> {
        let bell = PollBell::new().map_err(|error| kumiki_sys::Error::os("eventfd2", error))?;
        let told = WakeList { bell, woken: Mutex::new(Vec::new()) };
        let (kept, free, ended) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Completions { kept, free, count: 0, ended, told: Arc::new(told) })
    }

    /// Keeps one until it has ended; if it has already, the descriptor is readable at once.
    pub fn add(&mut self, future: F) -> Key {
        let at = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        let waker = Waker::from(Arc::new(One { told: Arc::clone(&self.told), at }));
        let mut future = future;
        let look = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        self.kept[at] = Some(match look {
            Poll::Pending => KeptFuture::UnderWay(future, waker),
            Poll::Ready(output) => {
                self.told.tell(at);
                KeptFuture::Ended(output)
            }
        });
        self.count += 1;
        Key(at)
    }

    /// Number of futures that are kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Drops one, and says whether it was there.
    ///
    /// A key is used again for another one: one that has been taken must not be given up.
    pub fn give_up(&mut self, key: Key) -> bool {
        let kept = self.kept.get_mut(key.0).and_then(Option::take);
        if kept.is_some() {
            self.free.push(key.0);
            self.count -= 1;
        }
        kept.is_some()
    }

    /// Takes the futures that have ended since the last time, with their outputs. The descriptor is
    /// not readable any more, until the next one ends.
    pub fn take(&mut self) -> impl Iterator<Item = (Key, F::Output)> {
        // Before the list is taken: who comes after that writes again.
        self.told.bell.listen();
        let mut woken = std::mem::take(&mut self.ended);
        std::mem::swap(&mut woken, &mut *lock(&self.told.woken));
        let mut outputs = Vec::new();
        for at in woken.drain(..) {
            // It may have been given up, or woken twice.
            let Some(place) = self.kept.get_mut(at) else { continue };
            let output = match place.take() {
                None => continue,
                Some(KeptFuture::Ended(output)) => output,
                Some(KeptFuture::UnderWay(mut future, waker)) => {
                    match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                        Poll::Ready(output) => output,
                        Poll::Pending => {
                            *place = Some(KeptFuture::UnderWay(future, waker));
                            continue;
                        }
                    }
                }
            };
            self.free.push(at);
            self.count -= 1;
            outputs.push((Key(at), output));
        }
        self.ended = woken;
        outputs.into_iter()
    }
}

impl<F: Future> fmt::Debug for Completions<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("kept", &self.count).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
impl<F: Future> AsFd for Completions<F> {
    /// Descriptor to be waited for; reading it is [`take`](Completions::take)'s.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.bell.as_fd()
    }
}

#[cfg(loom)]
impl<F: Future> Completions<F> {
    /// Waits until the descriptor is readable.
    pub(crate) fn poll(&self) {
        self.told.bell.poll();
    }
}
