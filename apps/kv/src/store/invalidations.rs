//! Invalidations: messages to clients with copies that keys have changed.

use std::sync::Arc;

use crate::resp::Out;

/// Bytes of unsent invalidations at most. Beyond it, one says that all keys have changed.
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

/// Reason of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The client has read the key.
    Followed,
    /// The client listens to the key's prefix.
    Listened,
    /// All keys have changed.
    All,
    /// Another client has its invalidations sent there.
    Redirected,
    /// The client to which the messages were redirected is gone.
    Broken,
}

/// Messages that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    messages: Vec<Invalidation>,
    pub(super) bytes: usize,
}

impl Unsent {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message.
    pub(super) fn push(&mut self, message: Invalidation) {
        if message.to.is_empty() {
            return;
        }
        self.bytes += message.bytes.len() + 8 * message.to.len() + size_of::<Invalidation>();
        self.messages.push(message);
        if self.bytes > MOST {
            self.all(Vec::new());
        }
    }

    /// Replaces all messages by one, to their clients and to these: all keys have changed.
    pub(super) fn all(&mut self, also: Vec<u64>) {
        let mut to = also;
        self.messages.drain(..).for_each(|message| to.extend(message.to));
        let message = all_have_changed(to);
        self.bytes = 8 * message.to.len();
        if !message.to.is_empty() {
            self.messages.push(message);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Invalidation> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Removes a client from the messages about its own copies that stand behind the first so many,
    /// and calls `each` with them.
    pub(super) fn of(&mut self, client: u64, from: usize, mut each: impl FnMut(&Invalidation)) {
        let from = from.min(self.messages.len());
        for message in &mut self.messages[from..] {
            if matches!(message.how, How::Followed | How::All)
                && let Ok(at) = message.to.binary_search(&client)
            {
                message.to.remove(at);
                each(message);
            }
        }
        let mut at = 0;
        self.messages.retain(|message| {
            at += 1;
            at <= from || !message.to.is_empty()
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
