//! What this process may do beyond an ordinary one.

use rustix::thread::{CapabilitySet, capabilities};

use crate::finding::{Finding, Topic};

/// Capabilities (capabilities(7)) that some part has a use for.
const CAPABILITIES: [(CapabilitySet, Topic); 2] = [
    (
        CapabilitySet::SYS_ADMIN,
        Topic {
            part: "node",
            thing: "CAP_SYS_ADMIN",
            consequence: "cpus and memory cannot be reserved for an OS node",
        },
    ),
    (
        CapabilitySet::SYS_RAWIO,
        Topic {
            part: "node",
            thing: "CAP_SYS_RAWIO",
            consequence: "the module osnode refuses to work: a node's kernel reaches all memory",
        },
    ),
];

pub(crate) fn findings() -> Vec<Finding> {
    match capabilities(None) {
        Ok(sets) => judge(sets.effective).collect(),
        Err(errno) => {
            let unknown = |(_, topic): &(_, Topic)| topic.unknown(format!("capget: {errno}"));
            CAPABILITIES.iter().map(unknown).collect()
        }
    }
}

fn judge(effective: CapabilitySet) -> impl Iterator<Item = Finding> {
    CAPABILITIES.iter().map(move |(capability, topic)| {
        if effective.contains(*capability) {
            topic.present("effective")
        } else {
            let name = topic.thing;
            let lower = name.to_lowercase();
            topic.absent(
                "not in the effective set",
                format!(
                    "run as root, `setcap {lower}=ep` on the program, systemd \
                     AmbientCapabilities={name}, or `docker run --cap-add {name}`"
                ),
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;

    #[test]
    fn each_capability_by_itself() {
        let some = CapabilitySet::SYS_RAWIO | CapabilitySet::CHOWN;
        let findings: Vec<_> = judge(some).collect();
        assert_eq!(findings.len(), CAPABILITIES.len());
        for finding in findings {
            let expected = match finding.thing {
                "CAP_SYS_RAWIO" => State::Present,
                _ => State::Absent,
            };
            assert_eq!(finding.state, expected, "{}", finding.thing);
        }
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        // Bit numbers of include/uapi/linux/capability.h.
        for (bit, name) in [(21, "CAP_SYS_ADMIN"), (17, "CAP_SYS_RAWIO")] {
            let set = CapabilitySet::from_bits_retain(1 << bit);
            let mut present = judge(set).filter(|finding| finding.state == State::Present);
            assert_eq!(present.next().unwrap().thing, name);
            assert!(present.next().is_none());
        }
    }
}
