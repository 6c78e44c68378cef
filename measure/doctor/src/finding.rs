//! What a part says of the machine.

use std::fmt;

use serde::Serialize;

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The part of Kumiki that it matters to most: `measure`, `wait`,
    /// `shadow`, `parasc`, `node` or `lab`.
    pub part: &'static str,
    /// Thing that was looked for.
    pub thing: &'static str,
    /// State in which it is.
    pub state: State,
    /// Observation, in words.
    pub detail: String,
    /// Loss for that part where it is lacking.
    pub consequence: String,
    /// Remedy that a person has, if any.
    pub remedy: Option<String>,
}

/// State of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Present and usable.
    Present,
    /// Present, but not as it should be.
    Limited,
    /// Absent, or not for this process.
    Absent,
    /// Could not be found out.
    Unknown,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Present => "present",
            State::Limited => "limited",
            State::Absent => "absent",
            State::Unknown => "unknown",
        })
    }
}

/// A thing to look for, before it is known how it stands.
pub(crate) struct Topic {
    pub(crate) part: &'static str,
    pub(crate) thing: &'static str,
    pub(crate) consequence: &'static str,
}

impl Topic {
    pub(crate) fn finding(
        &self,
        state: State,
        detail: impl Into<String>,
        remedy: Option<String>,
    ) -> Finding {
        Finding {
            part: self.part,
            thing: self.thing,
            state,
            detail: detail.into(),
            consequence: self.consequence.to_owned(),
            remedy,
        }
    }

    pub(crate) fn present(&self, detail: impl Into<String>) -> Finding {
        self.finding(State::Present, detail, None)
    }

    pub(crate) fn limited(&self, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.finding(State::Limited, detail, Some(remedy.into()))
    }

    pub(crate) fn absent(&self, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.finding(State::Absent, detail, Some(remedy.into()))
    }

    /// Makes it absent, with nothing that anybody can do about it.
    pub(crate) fn lacking(&self, detail: impl Into<String>) -> Finding {
        self.finding(State::Absent, detail, None)
    }

    pub(crate) fn unknown(&self, reason: impl Into<String>) -> Finding {
        self.finding(State::Unknown, reason, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialised_form() {
        let topic = Topic { part: "lab", thing: "QEMU", consequence: "no lab" };
        let json = serde_json::to_value(topic.absent("not in PATH", "install it")).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "part": "lab", "thing": "QEMU", "state": "absent", "detail": "not in PATH",
                "consequence": "no lab", "remedy": "install it",
            })
        );
    }
}
