//! A place's names as they come and go, told at a subject while anybody watches.
//!
//! Watching is asked for anew every third of what it holds for, so that a watcher that dies costs
//! nothing for long, and each message has a number: NATS delivers at most once, and who misses one
//! knows it by the next, or by the number in the place's next beat.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use kumiki_resource::Change;
use serde::{Deserialize, Serialize};

/// Prefix of a place's name in the subject of its changes.
pub const CHANGES: &str = "kumiki.change.";
/// Time for which changes are told after somebody has asked for it.
pub const HOLDS: Duration = Duration::from_secs(60);
/// Bytes of one change beside its name, at most.
const CHANGE: usize = 32;

/// The answer to who asks to watch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watching {
    pub life: u64,
    /// Number of the last message with changes.
    pub number: u64,
    /// Asking anew is due before so many milliseconds have passed.
    pub holds_ms: u64,
}

/// A message with changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    pub life: u64,
    /// One more than that of the message before.
    pub number: u64,
    pub changes: Vec<NameChange>,
}

/// One change: a whole name as others have it, the id, and whether it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NameChange {
    pub name: String,
    pub id: u64,
    pub created: bool,
}

/// Changes that a place hears of itself while it is watched.
#[derive(Debug)]
pub struct Heard {
    changes: Receiver<Change>,
    until: Instant,
}

impl Heard {
    pub fn new(changes: Receiver<Change>) -> Heard {
        Heard { changes, until: Instant::now() + HOLDS }
    }

    /// Somebody has asked anew.
    pub fn hold(&mut self) {
        self.until = Instant::now() + HOLDS;
    }

    pub fn is_over(&self) -> bool {
        Instant::now() > self.until
    }

    /// Changes that fit into `limit` bytes, as `renamed` for others.
    pub fn take(&self, limit: usize, renamed: impl Fn(&str) -> Option<String>) -> Vec<NameChange> {
        let mut room = limit;
        let mut told = Vec::new();
        // A name has a few hundred bytes at most, and the rest stays for the next message.
        while room > limit / 2 {
            let Ok(change) = self.changes.try_recv() else { break };
            let Some(name) = renamed(&change.name) else { continue };
            room = room.saturating_sub(name.len() + CHANGE);
            told.push(NameChange { name, id: change.id.to_u64(), created: change.created });
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use kumiki_resource::Id;

    use super::*;

    #[test]
    fn a_message_takes_what_it_has_room_for() {
        let (tell, changes) = channel();
        let heard = Heard::new(changes);
        for number in 0..100 {
            let name = format!("core0/counter/n{number:03}");
            tell.send(Change { name, id: Id::from_u64(number), created: true }).unwrap();
        }
        let renamed = |name: &str| (!name.ends_with('0')).then(|| format!("hostb.{name}"));
        let mut taken = Vec::new();
        loop {
            let told = heard.take(1000, renamed);
            if told.is_empty() {
                break;
            }
            assert!(told.len() < 20, "{}", told.len());
            taken.extend(told);
        }
        assert_eq!(taken.len(), 90);
        assert!(
            taken.iter().all(|told| told.name == format!("hostb.core0/counter/n{:03}", told.id))
        );
    }
}
