//! A place's allow-list: which kinds and program parts may be asked for from afar.
//!
//! ```toml
//! list = true                 # names may be listed and opened
//! move = true                 # a durable place may be moved to another folder: all of it may be read
//! chain = ["hostb.*"]         # places that may be asked for the later steps of a chain, if the server has a control for it
//!
//! [kind.counter]
//! create = true
//! destroy = true
//! parts = ["add", "get"]      # or ["*"], for all of them
//! ```
//!
//! What it does not say is not allowed. Who may reach the place at all is for NATS' accounts.

use std::collections::{BTreeMap, BTreeSet};

use kumiki_resource::Pattern;

/// An allow-list.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    everything: bool,
    list: bool,
    leave: bool,
    kinds: BTreeMap<String, Rules>,
    chain: Vec<Pattern>,
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
        Allow { everything: false, list, leave, kinds, chain: Vec::new() }
    }

    /// Lets the place ask those of these names (`hostb.*`) for the later steps of its callers' chains, by the control that its
    /// server has for it (`Server::chains`). No other list says so, also not the one of everything.
    #[must_use]
    pub fn chaining(mut self, places: impl IntoIterator<Item = Pattern>) -> Allow {
        self.chain.extend(places);
        self
    }

    /// True if it names places that may be asked so.
    pub fn is_chaining(&self) -> bool {
        !self.chain.is_empty()
    }

    /// True if this place may be asked for the later steps of a chain.
    pub(crate) fn chains(&self, place: &str) -> bool {
        self.chain.iter().any(|pattern| pattern.matches(place))
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
