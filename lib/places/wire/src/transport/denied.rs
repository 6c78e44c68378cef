//! What a NATS server denies this connection: it says so once, beside all answers.
//!
//! `Permissions Violation for Publish to "kumiki.place.h.core0"`: what was published there went nowhere. A denied
//! subscription to the inbox, which answers come to, is noted until there is another connection: what is asked on this one
//! is delivered, and answered in vain.

use std::collections::VecDeque;

/// Denials that are kept, at most.
const MOST: usize = 64;
/// Beginning of inboxes.
const INBOX: &str = "_INBOX.";

/// Operation that a connection may be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Publish,
    Subscribe,
}

/// Denials so far.
#[derive(Clone, Debug, Default)]
pub struct Denied {
    count: u64,
    last: VecDeque<(u64, Doing, String)>,
    inbox: Option<String>,
}

impl Denied {
    /// Hears an error of the server.
    pub fn hear(&mut self, text: &str) {
        let Some((doing, subject)) = read(text) else { return };
        if doing == Doing::Subscribe && subject.starts_with(INBOX) {
            self.inbox = Some(subject.to_owned());
        }
        self.count += 1;
        self.last.push_back((self.count, doing, subject.to_owned()));
        if self.last.len() > MOST {
            self.last.pop_front();
        }
    }

    /// Number of denials.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if this was denied after so many others.
    pub fn has(&self, since: u64, doing: Doing, subject: &str) -> bool {
        let mut later = self.last.iter().rev().take_while(|(number, ..)| *number > since);
        later.any(|(_, its, of)| *its == doing && of == subject)
    }

    /// The inbox that answers cannot come to.
    pub fn inbox(&self) -> Option<&str> {
        self.inbox.as_deref()
    }

    pub fn forget_inbox(&mut self) {
        self.inbox = None;
    }
}

/// Reads what is denied by the server's words.
fn read(text: &str) -> Option<(Doing, &str)> {
    let rest = text.strip_prefix("Permissions Violation for ")?;
    let (doing, rest) = if let Some(rest) = rest.strip_prefix("Publish to ") {
        (Doing::Publish, rest)
    } else {
        (Doing::Subscribe, rest.strip_prefix("Subscription to ")?)
    };
    let (subject, _) = rest.strip_prefix('"')?.split_once('"')?;
    Some((doing, subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_s_words_are_read_and_others_are_not() {
        let of = |text| read(text).map(|(doing, subject)| (doing, subject.to_owned()));
        let publish = "Permissions Violation for Publish to \"kumiki.place.h.core0\"";
        assert_eq!(of(publish), Some((Doing::Publish, "kumiki.place.h.core0".to_owned())));
        let group = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(of(group), Some((Doing::Subscribe, "a.>".to_owned())));
        for other in [
            "",
            "Permissions Violation",
            "Stale Connection",
            "é",
            "Permissions Violation for Publish to x",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        for cut in 0..publish.len() {
            of(&publish[..cut]);
        }
    }

    #[test]
    fn what_was_denied_before_is_not_denied_now() {
        let mut denied = Denied::default();
        denied.hear("Permissions Violation for Publish to \"a\"");
        let before = denied.count();
        assert!(denied.has(0, Doing::Publish, "a") && !denied.has(before, Doing::Publish, "a"));
        assert!(!denied.has(0, Doing::Subscribe, "a") && !denied.has(0, Doing::Publish, "b"));
        for _ in 0..2 * MOST {
            denied.hear("Permissions Violation for Subscription to \"_INBOX.x.*\"");
        }
        assert_eq!((denied.last.len(), denied.inbox()), (MOST, Some("_INBOX.x.*")));
        denied.forget_inbox();
        assert_eq!(denied.inbox(), None);
    }
}
