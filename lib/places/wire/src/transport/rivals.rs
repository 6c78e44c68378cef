//! Who else answers at a place's name, asked and not believed.
//!
//! A beat may be anybody's, and a subject may be heard by who answers nothing (a tap on `>`). So another place of the
//! same name is one that answers at the name's subject, with a life of its own, and says itself for how long it has served.
//!
//! ```text
//!  beat of another life ──▶ one question at the subject ──▶ answers within two seconds
//!                           (at most one in two seconds)     │ none of another life that has the name: nothing
//!                                                            ╰ of one: this place ends, and no other
//! ```
//!
//! The one that has served longer has the name, by more than [`NEAR`]; of two that are nearer to each other, the lower life
//! has. Both compare by themselves, at moments of their own, so an answer's way is part of what they compare: of two places
//! 1 ms apart, whose answers take 5 ms, each would be the older one to itself for ever. So both look at it over the same
//! way. The lower life (A) takes its own age when it hears the answer of the other one (B), and the higher one its own when
//! it asks:
//!
//! ```text
//!   A ends:  age of B as it answers − age of A, a way from B to A later ≥ NEAR
//!   B ends:  age of B as it asks    − age of A, a way from B to A later < NEAR
//! ```
//!
//! Where these two ways take as long as each other, exactly one ends. Where they do not, the difference of the ages has to be
//! within theirs of `NEAR` for something else to come: then it is asked again with the next beat. Two processes that were
//! started at the same time are seconds away from that.

use std::time::Duration;

use async_nats::{Client, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::wire::{self, Operation, Reply, Request};

/// Time for which answers are waited for.
pub const LONGEST: Duration = Duration::from_secs(2);
/// Difference of two ages up to which the life decides: more than there may be between two places of which neither heard the
/// other one when it began, each of which has asked for [`LONGEST`].
const NEAR: Duration = Duration::from_secs(4);
/// Answers that are heard, at most: one of each life is what there can be.
const MOST: usize = 256;

/// A place that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    pub life: u64,
    /// Time that it has served, if it says so.
    pub age_ms: Option<u64>,
    /// Time of the question.
    pub asked: Instant,
    /// Time of its answer.
    pub at: Instant,
}

impl Rival {
    /// True if it has the name, and a place of this life that has served since then ends.
    pub fn has_name(&self, life: u64, since: std::time::Instant) -> bool {
        // Who does not say for how long it has served is asked again.
        let Some(age) = self.age_ms.filter(|_| self.life != life) else { return false };
        let older_than_own = |at: Instant| {
            let own = at.into_std().saturating_duration_since(since).as_millis();
            i128::from(age) - i128::try_from(own).unwrap_or(i128::MAX)
        };
        let near = NEAR.as_millis() as i128;
        match life < self.life {
            true => older_than_own(self.at) >= near,
            false => older_than_own(self.asked) > -near,
        }
    }
}

/// Asks who answers at a subject, until one of them is `enough`, nobody is there, or time is over.
pub async fn ask(
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
    let begin = Instant::now();
    let asked = client.publish_with_reply(subject, inbox, bytes).await;
    asked.map_err(|error| failed(error.to_string()))?;
    let until = begin + LONGEST;
    let mut rivals = Vec::new();
    for _ in 0..MOST {
        let Ok(Some(answer)) = timeout_at(until, answers.next()).await else { break };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        let Some(rival) = read(&answer.payload, begin) else { continue };
        rivals.push(rival);
        if enough(&rival) {
            break;
        }
    }
    Ok(rivals)
}

/// An answer of a place; none of what is something else.
fn read(answer: &Bytes, asked: Instant) -> Option<Rival> {
    let reply: Reply = wire::parse(answer).ok()?;
    let age_ms = match reply.answers.first()? {
        Ok(age) => wire::read(age).ok(),
        Err(_) => None,
    };
    Some(Rival { life: reply.life, age_ms, asked, at: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_two_places_ends_however_near_they_are() {
        let began = std::time::Instant::now();
        let ms = Duration::from_millis;
        let near = NEAR.as_millis() as u64;
        for (lives, apart, way) in [(5, 7), (7, 5)].into_iter().flat_map(|lives| {
            let apart = [0, 1, 4, 5, 6, near - 1, near, near + 1, near + 5, near + 6, 3_600_000];
            apart.into_iter().flat_map(move |apart| [0, 5, 900].map(|way| (lives, apart, way)))
        }) {
            // The first one began so much before the second one; each of their ways takes as long.
            let (first, second) = ((lives.0, began), (lives.1, began + ms(apart)));
            let ends = |own: (u64, std::time::Instant), other: (u64, std::time::Instant), asks| {
                let asked = began + ms(asks);
                let age = (asked + ms(way)).duration_since(other.1).as_millis() as u64;
                let at = asked + ms(2 * way);
                let (life, age_ms) = (other.0, Some(age));
                let rival = Rival { life, age_ms, asked: asked.into(), at: at.into() };
                rival.has_name(own.0, own.1)
            };
            let asks = [apart + 10_000, apart + 10_777];
            let ended = (ends(first, second, asks[0]), ends(second, first, asks[1]));
            let at = format!("{lives:?}, {apart} ms apart, {way} ms away: {ended:?}");
            assert!(ended.0 != ended.1, "{at}");
            if apart > near + way {
                assert!(ended.1, "the older one stays: {at}");
            }
            if apart + way < near {
                assert_eq!(ended.0, lives.1 < lives.0, "the lower life stays: {at}");
            }
        }
    }

    #[test]
    fn who_does_not_say_its_age_and_this_place_itself_end_nobody() {
        let since = std::time::Instant::now();
        let rival = |life, age_ms| {
            let at = since + LONGEST;
            Rival { life, age_ms, asked: since.into(), at: at.into() }
        };
        assert!(rival(7, Some(u64::MAX)).has_name(5, since));
        assert!(!rival(7, None).has_name(5, since) && !rival(3, None).has_name(5, since));
        assert!(!rival(5, Some(u64::MAX)).has_name(5, since), "this one itself");
        // A clock that goes back.
        assert!(!rival(9, Some(0)).has_name(7, since + LONGEST));
    }

    #[test]
    fn only_a_place_s_answer_is_one() {
        let reply = |answers| wire::message(&Reply { life: 7, answers }).unwrap();
        let age =
            |bytes: &Bytes| read(bytes, Instant::now()).map(|rival| (rival.life, rival.age_ms));
        assert_eq!(age(&reply(vec![Ok(wire::named(&5_u64).unwrap())])), Some((7, Some(5))));
        assert_eq!(age(&reply(vec![Ok(Bytes::from_static(b"\xc1"))])), Some((7, None)));
        let refusal = wire::Refusal::new(wire::Why::Unreadable, "an older version");
        assert_eq!(age(&reply(vec![Err(refusal)])), Some((7, None)));
        assert_eq!(age(&reply(vec![])), None);
        assert_eq!(age(&Bytes::from_static(b"")), None);
        assert_eq!(age(&Bytes::from_static(b"{\"life\":7}")), None);
    }
}
