//! Everything of this process that can be named: an interface's resources and what other
//! parts of Kumiki have on the roll.

use std::time::Instant;

use kumiki_crew::roll::{self, Seen};

use crate::error::Result;
use crate::id::{Id, KindId, Place, Serial};
use crate::interface::Interface;
use crate::kind::About;
use crate::list::{Listed, Pattern};

/// Place of a resource that is at no core in particular.
const PROCESS: (Place, &str) = (Place(u16::MAX), "process");

/// Kinds of the roll, numbered from the last one down: those of an interface are numbered
/// from the first one up.
const ROLL: [&str; 4] = ["server", "shadow", "team", "engine"];

impl Interface {
    /// All resources whose names match, place by place, and what else of this process
    /// serves: shadow threads, teams, engines and managers. Those are the parts' own: their
    /// names and ids tell them apart, and open nothing.
    ///
    /// # Errors
    /// As [`ls`](Self::ls).
    pub fn tree(&self, pattern: &Pattern) -> Result<Vec<Listed>> {
        self.ls(pattern).map(|all| with_roll(all, pattern))
    }

    /// Lists the tree until `deadline` at most.
    pub(crate) fn tree_until(&self, pattern: &Pattern, deadline: Instant) -> Result<Vec<Listed>> {
        self.ls_until(pattern, deadline).map(|all| with_roll(all, pattern))
    }
}

fn with_roll(mut all: Vec<Listed>, pattern: &Pattern) -> Vec<Listed> {
    all.extend(roll::call().into_iter().map(listed).filter(|one| pattern.matches(&one.name)));
    all
}

fn listed(Seen { kind, number, cpu, owner, look }: Seen) -> Listed {
    let (place, place_name) = match cpu {
        Some(cpu) => (Place(u16::try_from(cpu).unwrap_or(u16::MAX)), format!("core{cpu}")),
        None => (PROCESS.0, PROCESS.1.to_owned()),
    };
    let from_last = ROLL.iter().position(|known| *known == kind).unwrap_or(ROLL.len());
    let kind_id = KindId(u8::MAX - from_last as u8);
    Listed {
        name: format!("{place_name}/{kind}/{number}"),
        id: Id::new(place, kind_id, Serial::of_number(number)),
        named: true,
        owner,
        calls: look.calls,
        about: About { state: look.state, bytes: look.bytes },
    }
}
