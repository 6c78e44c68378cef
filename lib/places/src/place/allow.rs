//! A place's allow-list: which kinds and program parts may be asked for from afar.
//!
//! ```toml
//! list = true                 # names may be listed and opened
//! move = true                 # a durable place may be moved to another folder: all of it may be read
//!
//! [kind.counter]
//! create = true
//! destroy = true
//! parts = ["add", "get"]      # or ["*"], for all of them
//! ```
//!
//! What it does not say is not allowed. Who may reach the place at all is for NATS' accounts.

use std::collections::{BTreeMap, BTreeSet};

/// An allow-list.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    everything: bool,
    list: bool,
    leave: bool,
    kinds: BTreeMap<String, Rules>,
}

/// Permissions of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) create: bool,
    pub(crate) destroy: bool,
    pub(crate) all_parts: bool,
    pub(crate) parts: BTreeSet<String>,
}

impl Allow {
    /// Nothing, as a place begins.
    pub fn nothing() -> Allow {
        Allow::default()
    }

    /// Names may be listed and opened, and nothing else: as for this user's other processes, if nothing is
    /// said.
    pub fn listing() -> Allow {
        Allow { list: true, ..Allow::default() }
    }

    /// All that the place has: where NATS' accounts let only the right ones in.
    pub fn everything() -> Allow {
        Allow { everything: true, ..Allow::default() }
    }

    /// Names if so, a move if so, and of each kind what its rules say.
    pub(crate) fn of(list: bool, leave: bool, kinds: BTreeMap<String, Rules>) -> Allow {
        Allow { everything: false, list, leave, kinds }
    }

    /// True if the place may be moved to another folder.
    pub(crate) fn leaves(&self) -> bool {
        self.everything || self.leave
    }

    /// True if names may be listed and opened.
    pub(crate) fn lists(&self) -> bool {
        self.everything || self.list
    }

    /// True if resources of a kind may be made.
    pub fn creates(&self, kind: &str) -> bool {
        self.everything || self.kinds.get(kind).is_some_and(|rules| rules.create)
    }

    pub(crate) fn destroys(&self, kind: &str) -> bool {
        self.everything || self.kinds.get(kind).is_some_and(|rules| rules.destroy)
    }

    pub(crate) fn calls(&self, kind: &str, part: &str) -> bool {
        let allows = |rules: &Rules| rules.all_parts || rules.parts.contains(part);
        self.everything || self.kinds.get(kind).is_some_and(allows)
    }
}
