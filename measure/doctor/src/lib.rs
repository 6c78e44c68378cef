//! What this machine has and lacks for each part of Kumiki, and what a lack
//! means.
//!
//! Each part brings its findings: a module here for each, which asks the part itself
//! where that knows, and the machine where it does not. Where a kernel feature can be
//! refused for several reasons, it is really tried and the refusal explained; nothing is
//! changed. What cannot be read is [`State::Unknown`] with the reason: the examination
//! as a whole never fails.
//!
//! ```text
//!   measure ┐
//!   wait    ┤
//!   shadow  ┼─ findings(host) ──► examine() ──► Finding: part, thing, state,
//!   parasc  ┤                                   detail, consequence, remedy
//!   node    ┤
//!   lab     ┘
//! ```
//!
//! ```
//! for finding in kumiki_doctor::examine() {
//!     println!("{:8} {}: {}", finding.state, finding.thing, finding.detail);
//! }
//! ```

mod finding;
mod host;
mod lab;
mod limit;
mod measure;
mod node;
mod parasc;
mod shadow;
mod wait;

pub use finding::{Finding, State};
use host::Host;

/// Examines the running machine, from the point of view of this process:
/// another user, container or service may have more or less. Takes some
/// milliseconds; more where there are hundreds of cpus.
pub fn examine() -> Vec<Finding> {
    examine_host(&Host::running())
}

fn examine_host(host: &Host) -> Vec<Finding> {
    let parts = [
        measure::findings,
        wait::findings,
        shadow::findings,
        parasc::findings,
        node::findings,
        lab::findings,
    ];
    parts.iter().flat_map(|part| part(host)).collect()
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
}
