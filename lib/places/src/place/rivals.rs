//! Who else answers at a place's name, asked and not believed.
//!
//! A beat may be anybody's, and a subject may be heard by who answers nothing (a tap on `>`). So another place of the
//! same name is one that answers at the name's subject, with a life of its own, and says itself for how long it has served.
//!
//! ```text
//!  beat of another life, as old ──▶ one question at the subject ──▶ answers within two seconds
//!                                   (at most one in two seconds)     │ none of another life: nothing
//!                                                                    ╰ an older one: this place ends, and no other
//! ```

use std::time::Duration;

use async_nats::{Client, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::wire::{self, Operation, Reply, Request};

/// Time for which answers are waited for.
pub(crate) const LONGEST: Duration = Duration::from_secs(2);
/// Answers that are heard, at most: one of each life is what there can be.
const MOST: usize = 256;

/// A place that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) life: u64,
    /// Time that it has served, if it says so.
    pub(crate) age_ms: Option<u64>,
    /// Time of its answer.
    pub(crate) at: Instant,
}

impl Rival {
    /// True if it has served for longer than a place of this life that has served since then.
    pub(crate) fn is_older(&self, life: u64, since: std::time::Instant) -> bool {
        let own = self.at.into_std().saturating_duration_since(since).as_millis();
        let age = (u128::from(self.age_ms.unwrap_or(0)), self.life);
        self.life != life && age > (own, life)
    }
}

/// Asks who answers at a subject, until one of them is `enough`, nobody is there, or time is over.
pub(crate) async fn ask(
    client: &Client,
    subject: String,
    enough: impl Fn(&Rival) -> bool,
) -> Result<Vec<Rival>> {
    let failed = |why: String| Error::Nats { what: "asking who else has a place's name", why };
    let operations = vec![(0, Operation::Age)];
    let request = Request { life: 0, lease: 0, key: 0, first: 0, open: vec![], operations };
    let bytes = wire::message(&request).map_err(|error| failed(error.to_string()))?;
    let inbox = client.new_inbox();
    let answers = client.subscribe(inbox.clone()).await;
    let mut answers = answers.map_err(|error| failed(error.to_string()))?;
    let asked = client.publish_with_reply(subject, inbox, bytes).await;
    asked.map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + LONGEST;
    let mut rivals = Vec::new();
    for _ in 0..MOST {
        let Ok(Some(answer)) = timeout_at(until, answers.next()).await else { break };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        let Some(rival) = read(&answer.payload) else { continue };
        rivals.push(rival);
        if enough(&rival) {
            break;
        }
    }
    Ok(rivals)
}

/// An answer of a place; none of what is something else.
fn read(answer: &Bytes) -> Option<Rival> {
    let reply: Reply = wire::parse(answer).ok()?;
    let age_ms = match reply.answers.first()? {
        Ok(age) => wire::read(age).ok(),
        Err(_) => None,
    };
    Some(Rival { life: reply.life, age_ms, at: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_served_longer_is_older_and_who_does_not_say_is_not() {
        let since = std::time::Instant::now();
        let rival = |life, age_ms| Rival { life, age_ms, at: (since + LONGEST).into() };
        assert!(rival(7, Some(2001)).is_older(5, since));
        assert!(!rival(7, Some(1999)).is_older(5, since));
        assert!(
            rival(7, Some(2000)).is_older(5, since) && !rival(3, Some(2000)).is_older(5, since)
        );
        assert!(!rival(7, None).is_older(5, since), "it is asked again");
        assert!(!rival(5, Some(u64::MAX)).is_older(5, since), "this one itself");
        let early = Rival { at: since.into(), ..rival(7, Some(0)) };
        assert!(!early.is_older(9, since + LONGEST), "a clock that goes back");
    }

    #[test]
    fn only_a_place_s_answer_is_one() {
        let reply = |answers| wire::message(&Reply { life: 7, answers }).unwrap();
        let age = |bytes: &Bytes| read(bytes).map(|rival| (rival.life, rival.age_ms));
        assert_eq!(age(&reply(vec![Ok(wire::named(&5_u64).unwrap())])), Some((7, Some(5))));
        assert_eq!(age(&reply(vec![Ok(Bytes::from_static(b"\xc1"))])), Some((7, None)));
        let refusal = wire::Refusal::new(wire::Why::Unreadable, "an older version");
        assert_eq!(age(&reply(vec![Err(refusal)])), Some((7, None)));
        assert_eq!(age(&reply(vec![])), None);
        assert_eq!(age(&Bytes::from_static(b"")), None);
        assert_eq!(age(&Bytes::from_static(b"{\"life\":7}")), None);
    }
}
