//! Replies of a durable place that wait until what they tell is flushed: so many bytes at most, however long a flush takes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of them, and of the messages that are held with them, at most, but for those of the last one.
pub(crate) const MOST_UNFLUSHED: usize = 64 << 20;
/// Bytes of one beside these, about: its task.
const BESIDE: usize = 1024;

/// Room for such replies.
#[derive(Clone, Debug)]
pub(crate) struct Unflushed(Arc<Semaphore>);

impl Unflushed {
    pub(crate) fn new() -> Unflushed {
        Unflushed(Arc::new(Semaphore::new(MOST_UNFLUSHED)))
    }

    /// True if there is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.0.available_permits() == 0
    }

    /// Takes room for one with so many bytes, until the value is dropped: what there is of that.
    pub(crate) fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = bytes.saturating_add(BESIDE).min(self.0.available_permits());
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(count).ok()
    }

    /// Takes room for one with so many bytes, when there is some.
    pub(crate) async fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = bytes.saturating_add(BESIDE).min(MOST_UNFLUSHED);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Arc::clone(&self.0).acquire_many_owned(count).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_until_there_is_none_and_given_back() {
        let unflushed = Unflushed::new();
        let mut taken = Vec::new();
        while !unflushed.is_full() {
            taken.push(unflushed.take(1 << 20).unwrap());
        }
        assert_eq!(taken.len(), MOST_UNFLUSHED.div_ceil((1 << 20) + BESIDE));
        drop(taken.pop());
        assert!(!unflushed.is_full());
    }
}
