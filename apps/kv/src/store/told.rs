//! What clients are told beside their answers: that keys have changed.

use std::sync::Arc;

use crate::resp::Out;

/// Bytes of what has not been told yet, at most: beyond, all keys are said to have changed.
pub(super) const MOST: usize = 1 << 20;

/// A message to some clients.
#[derive(Clone, Debug)]
pub struct Invalidation {
    /// Their numbers.
    pub to: Vec<u64>,
    /// The client that has made the change; 0: none. Of what is redirected: the one it is for.
    pub by: u64,
    /// Reason of the message.
    pub how: How,
    /// The message, in version 3 of the protocol.
    pub bytes: Arc<[u8]>,
}

/// Reason for which a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The client has read the key.
    Followed,
    /// The client listens to the key's prefix.
    Listened,
    /// All keys have changed.
    All,
    /// Another client has what it is told sent there.
    Redirected,
    /// The client is gone to which its messages were to be sent.
    Broken,
}

/// Messages that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    told: Vec<Invalidation>,
    pub(super) bytes: usize,
}

impl Untold {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Adds a message.
    pub(super) fn push(&mut self, told: Invalidation) {
        if told.to.is_empty() {
            return;
        }
        self.bytes += told.bytes.len() + 8 * told.to.len() + size_of::<Invalidation>();
        self.told.push(told);
        if self.bytes > MOST {
            self.all(Vec::new());
        }
    }

    /// Tells all that are to be told something, and these, that all keys have changed, and no more.
    pub(super) fn all(&mut self, also: Vec<u64>) {
        let mut to = also;
        self.told.drain(..).for_each(|told| to.extend(told.to));
        let told = all_have_changed(to);
        self.bytes = 8 * told.to.len();
        if !told.to.is_empty() {
            self.told.push(told);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Invalidation> {
        self.bytes = 0;
        std::mem::take(&mut self.told)
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.told.len()
    }

    /// Takes a client off what has been added behind the first so many and is of its own copies, and
    /// gives `each` of it.
    pub(super) fn of(&mut self, client: u64, from: usize, mut each: impl FnMut(&Invalidation)) {
        let from = from.min(self.told.len());
        for told in &mut self.told[from..] {
            if matches!(told.how, How::Followed | How::All)
                && let Ok(at) = told.to.binary_search(&client)
            {
                told.to.remove(at);
                each(told);
            }
        }
        let mut at = 0;
        self.told.retain(|told| {
            at += 1;
            at <= from || !told.to.is_empty()
        });
    }
}

/// The message that these keys have changed.
pub(super) fn keys_have_changed<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Out::of(true);
    out.push(2);
    out.bulk(b"invalidate");
    out.array(keys.len());
    keys.for_each(|key| out.bulk(key));
    out.bytes
}

/// The message to these that all keys have changed.
pub(super) fn all_have_changed(mut to: Vec<u64>) -> Invalidation {
    to.sort_unstable();
    to.dedup();
    let mut out = Out::of(true);
    out.push(2);
    out.bulk(b"invalidate");
    out.nothing();
    Invalidation { to, by: 0, how: How::All, bytes: Arc::from(out.bytes) }
}

/// The message that a client is gone to which others' messages were to be sent.
pub fn redirection_is_broken(to: u64) -> Vec<u8> {
    let mut out = Out::of(true);
    out.push(2);
    out.bulk(b"tracking-redir-broken");
    out.integer(to as i64);
    out.bytes
}
