//! Tokens of a place: each lets one client in, once, soon after it was given.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::Result;
use crate::wire::secret;

/// Bytes of a token.
pub const TOKEN: usize = 16;

/// Time in which a token is to be used.
const USED_WITHIN: Duration = Duration::from_secs(15);
/// Tokens that were not used yet, at most: for one more the oldest goes, whose client stays with NATS for a while.
const MOST: usize = 1024;

/// Tokens that were given and not used yet, the oldest first.
#[derive(Default)]
pub struct Tokens(Mutex<VecDeque<([u8; TOKEN], Instant)>>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tokens").field(&self.queue().len()).finish()
    }
}

impl Tokens {
    fn queue(&self) -> MutexGuard<'_, VecDeque<([u8; TOKEN], Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws one for a client.
    pub fn give(&self, now: Instant) -> Result<Bytes> {
        let mut token = [0; TOKEN];
        for half in token.chunks_exact_mut(8) {
            half.copy_from_slice(&secret::number("a token")?.to_ne_bytes());
        }
        let mut given = self.queue();
        if given.len() >= MOST {
            given.pop_front();
        }
        given.push_back((token, now));
        Ok(Bytes::copy_from_slice(&token))
    }

    /// Takes one back, and tells when it was given; none if it never was, was used, or is too old.
    pub fn take(&self, token: &[u8], now: Instant) -> Option<Instant> {
        let mut given = self.queue();
        while given.front().is_some_and(|(_, at)| now.duration_since(*at) > USED_WITHIN) {
            given.pop_front();
        }
        // All of all of them is compared, so that the time that it takes tells nothing.
        let found = given.iter().enumerate().fold(None, |found, (at, (one, _))| {
            let differs = one.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
            if differs == 0 && token.len() == TOKEN { Some(at) } else { found }
        });
        given.remove(found?).map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_once_and_soon() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let (one, two) = (tokens.give(now).unwrap(), tokens.give(now).unwrap());
        assert_ne!(one, two);
        for wrong in [&[][..], &[0; TOKEN], &one[..TOKEN - 1], &[&one[..], &[0]].concat()] {
            assert_eq!(tokens.take(wrong, now), None, "{wrong:?}");
        }
        assert_eq!(tokens.take(&two, now + USED_WITHIN), Some(now));
        assert_eq!(tokens.take(&two, now), None, "it was used");
        assert_eq!(tokens.take(&one, now + USED_WITHIN + Duration::from_secs(1)), None);
        assert_eq!(tokens.take(&one, now), None, "it has gone");
    }

    #[test]
    fn whoever_asks_without_end_takes_no_more_than_there_is() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let first = tokens.give(now).unwrap();
        let rest: Vec<_> = (0..MOST).map(|_| tokens.give(now).unwrap()).collect();
        assert_eq!(tokens.queue().len(), MOST);
        assert_eq!(tokens.take(&first, now), None);
        assert!(rest.iter().all(|one| tokens.take(one, now) == Some(now)));
    }
}
