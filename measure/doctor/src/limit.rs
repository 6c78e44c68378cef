//! A resource limit of this process.

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::finding::{Finding, Topic};

/// A resource limit that some case or part may hit.
pub(crate) struct Limit {
    pub(crate) topic: Topic,
    pub(crate) resource: Resource,
    /// Value below which it is in the way.
    pub(crate) enough: u64,
    /// True if the cases raise the soft limit themselves, as anybody may up to the hard one.
    pub(crate) raised_by_cases: bool,
    /// The shell's switch.
    pub(crate) ulimit: &'static str,
}

impl Limit {
    /// Finding about this process's limit.
    pub(crate) fn finding(&self) -> Finding {
        self.judge(getrlimit(self.resource))
    }

    pub(crate) fn judge(&self, limit: Rlimit) -> Finding {
        // `None` is no limit.
        let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= self.enough);
        let detail = format!(
            "soft {}, hard {}; {} wanted",
            show(limit.current),
            show(limit.maximum),
            self.enough
        );
        let ulimit = self.ulimit;
        if enough(limit.current) || self.raised_by_cases && enough(limit.maximum) {
            self.topic.present(detail)
        } else if enough(limit.maximum) {
            self.topic.limited(detail, format!("ulimit {ulimit} hard"))
        } else {
            self.topic.limited(
                detail,
                format!(
                    "as root raise the hard limit (`ulimit -H {ulimit}`, \
                     /etc/security/limits.conf, systemd Limit…=, `docker run --ulimit`)"
                ),
            )
        }
    }
}

pub(crate) fn show(limit: Option<u64>) -> String {
    limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;

    const TOPIC: Topic = Topic { part: "measure", thing: "a limit", consequence: "so it is" };

    fn limit(enough: u64, raised_by_cases: bool) -> Limit {
        let (resource, ulimit) = (Resource::Nproc, "-u");
        Limit { topic: TOPIC, resource, enough, raised_by_cases, ulimit }
    }

    fn rlimit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn soft_and_hard_limits_ask_for_different_remedies() {
        let processes = limit(1024, false);
        let judge = |soft, hard| processes.judge(rlimit(soft, hard));
        assert_eq!(judge(Some(1024), Some(1024)).state, State::Present);
        assert_eq!(judge(None, None).state, State::Present);
        let soft = judge(Some(256), None);
        assert_eq!(soft.remedy.as_deref(), Some("ulimit -u hard"));
        assert!(soft.detail.contains("soft 256, hard unlimited"));
        let hard = judge(Some(256), Some(256));
        assert_eq!(hard.state, State::Limited);
        assert!(hard.remedy.unwrap().contains("limits.conf"));
    }

    #[test]
    fn what_cases_raise_counts_by_its_hard_limit() {
        let stack = limit(64 << 20, true);
        assert_eq!(stack.judge(rlimit(Some(8 << 20), None)).state, State::Present);
        let hard = stack.judge(rlimit(Some(8 << 20), Some(8 << 20)));
        assert_eq!(hard.state, State::Limited);
    }
}
