//! What this machine has and lacks for each part of Kumiki, and what a lack
//! means.
//!
//! Where a kernel feature can be refused for several reasons, it is really
//! tried and the refusal explained; nothing is changed. What cannot be read is
//! [`State::Unknown`] with the reason: the examination as a whole never fails.

mod cgroup;
mod cpu;
mod host;
mod kernel;
mod lab;
mod limits;
mod memory;
mod node;
mod platform;
mod privilege;

use std::fmt;

use host::Host;
pub use kernel::{io_uring, is_filtered};

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// The part of Kumiki that it matters to most: `measure`, `wait`,
    /// `shadow`, `parasc`, `node` or `lab`.
    pub part: &'static str,
    /// What was looked for.
    pub thing: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was seen.
    pub detail: String,
    /// What its lack means for that part.
    pub consequence: String,
    /// What a person can do about the lack, if anything.
    pub remedy: Option<String>,
}

/// Whether a thing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum State {
    /// There, and usable.
    Present,
    /// There, but not as it should be.
    Limited,
    /// Not there, or not for this process.
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

/// Examines the running machine, from the point of view of this process:
/// another user, container or service may have more or less. Takes some
/// milliseconds; more where there are hundreds of cpus.
///
/// ```
/// for finding in kumiki_sys::doctor::examine() {
///     println!("{:8} {}: {}", finding.state, finding.thing, finding.detail);
/// }
/// ```
pub fn examine() -> Vec<Finding> {
    examine_host(&Host::running())
}

fn examine_host(host: &Host) -> Vec<Finding> {
    let groups = [
        cpu::findings,
        platform::findings,
        cgroup::findings,
        kernel::findings,
        memory::findings,
        limits::findings,
        privilege::findings,
        node::findings,
        lab::findings,
    ];
    groups.iter().flat_map(|group| group(host)).collect()
}

/// A thing to look for, before it is known how it stands.
struct Topic {
    part: &'static str,
    thing: &'static str,
    consequence: &'static str,
}

impl Topic {
    fn finding(&self, state: State, detail: impl Into<String>, remedy: Option<String>) -> Finding {
        Finding {
            part: self.part,
            thing: self.thing,
            state,
            detail: detail.into(),
            consequence: self.consequence.to_owned(),
            remedy,
        }
    }

    fn present(&self, detail: impl Into<String>) -> Finding {
        self.finding(State::Present, detail, None)
    }

    fn limited(&self, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.finding(State::Limited, detail, Some(remedy.into()))
    }

    fn absent(&self, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.finding(State::Absent, detail, Some(remedy.into()))
    }

    /// Not there, and nobody can do anything about it.
    fn lacking(&self, detail: impl Into<String>) -> Finding {
        self.finding(State::Absent, detail, None)
    }

    fn unknown(&self, reason: impl Into<String>) -> Finding {
        self.finding(State::Unknown, reason, None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PARTS: [&str; 6] = ["measure", "wait", "shadow", "parasc", "node", "lab"];

    fn well_formed(findings: &[Finding]) {
        for finding in findings {
            assert!(PARTS.contains(&finding.part), "{finding:?}");
            assert!(!finding.detail.is_empty(), "{finding:?}");
            assert!(!finding.consequence.is_empty(), "{finding:?}");
        }
        let things: BTreeSet<_> = findings.iter().map(|f| f.thing).collect();
        assert_eq!(things.len(), findings.len(), "each thing once");
        let parts: BTreeSet<_> = findings.iter().map(|f| f.part).collect();
        assert_eq!(parts, PARTS.into(), "every part has something to say");
    }

    #[test]
    fn this_machine() {
        let findings = examine();
        well_formed(&findings);
        for finding in &findings {
            eprintln!(
                "{:8} {:8} {}: {}",
                finding.part, finding.state, finding.thing, finding.detail
            );
        }
    }

    #[test]
    fn a_machine_without_proc_and_sys() {
        let empty = tempfile::TempDir::new().unwrap();
        let findings = examine_host(&Host::at(empty.path()));
        well_formed(&findings);
        assert_eq!(findings.len(), examine().len(), "nothing is left out");
        let proc = findings.iter().find(|f| f.thing == "/proc").unwrap();
        assert_eq!(proc.state, State::Absent);
    }

    #[cfg(feature = "serde")]
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
