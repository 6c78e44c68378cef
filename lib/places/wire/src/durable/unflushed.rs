//! Replies of a durable place that wait until what they tell is flushed: so many bytes at most, however long a flush takes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of them, and of the messages that are held with them, at most, but for those of the last one.
pub const MOST_UNFLUSHED: usize = 64 << 20;
/// Bytes of one beside these, about: its task.
const BESIDE: usize = 1024;

/// Room for such replies.
#[derive(Clone, Debug)]
pub struct Unflushed(Arc<Semaphore>);

impl Default for Unflushed {
    fn default() -> Unflushed {
        Unflushed(Arc::new(Semaphore::new(MOST_UNFLUSHED)))
    }
}

impl Unflushed {
    /// True if there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.0.available_permits() == 0
    }

    /// Takes room for one with so many bytes, until the value is dropped: what there is of that.
    pub fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = bytes.saturating_add(BESIDE).min(self.0.available_permits());
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(count).ok()
    }

    /// Takes room for one with so many bytes, when there is some.
    pub async fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
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
        let unflushed = Unflushed::default();
        let mut taken = Vec::new();
        while !unflushed.is_full() {
            taken.push(unflushed.take(1 << 20).unwrap());
        }
        assert_eq!(taken.len(), MOST_UNFLUSHED.div_ceil((1 << 20) + BESIDE));
        drop(taken.pop());
        assert!(!unflushed.is_full());
    }
}
