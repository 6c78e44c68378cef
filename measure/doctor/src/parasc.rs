//! What parallel system calls can have here.

use kumiki_parasc::backend::{Availability, Backend, availability};
use rustix::process::Resource;

use crate::finding::{Finding, State, Topic};
use crate::host::{Host, status_field};
use crate::limit::Limit;

const SECCOMP: Topic = Topic {
    part: "parasc",
    thing: "unfiltered system calls (no seccomp)",
    consequence: "each system call costs a filter's run, and some may be refused",
};

const OPEN_FILES: Limit = Limit {
    topic: Topic {
        part: "parasc",
        thing: "open file limit",
        consequence: "requests on hundreds of files of their own are refused by open",
    },
    resource: Resource::Nofile,
    enough: 1024,
    raised_by_cases: false,
    ulimit: "-n",
};

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let mut findings = vec![
        match host.read("/proc/self/status") {
            Ok(status) => seccomp(&status),
            Err(reason) => SECCOMP.unknown(reason),
        },
        OPEN_FILES.finding(),
    ];
    findings.extend(availability().into_iter().map(backend));
    findings
}

/// `Seccomp:` 0 none, 1 strict, 2 filter; `Seccomp_filters:` since Linux 5.9.
fn seccomp(status: &str) -> Finding {
    let filters = status_field(status, "Seccomp_filters");
    match status_field(status, "Seccomp") {
        None => SECCOMP.present("the kernel has no seccomp"),
        Some("0") => SECCOMP.present("no filter"),
        Some(mode) => {
            let filters = filters.map_or(String::new(), |n| format!(", {n} filters"));
            SECCOMP.limited(
                format!("seccomp mode {mode}{filters}"),
                "run outside the sandbox, or `docker run --security-opt seccomp=…` with a profile \
                 of your own",
            )
        }
    }
}

/// Finding about a backend of parallel system calls.
fn backend(one: Availability) -> Finding {
    let (thing, consequence) = match one.backend {
        Backend::User => ("backend user", "no parallel system calls"),
        Backend::Kernel => {
            ("backend kernel", "processing threads serve from user space; no call is left out")
        }
        _ => ("another backend", "it is not used"),
    };
    let choice =
        if one.auto { "automatic choice uses it" } else { "automatic choice does not use it" };
    Finding {
        part: "parasc",
        thing,
        state: if one.available { State::Present } else { State::Absent },
        detail: format!("{}; {choice}: {}", one.detail, one.reason),
        consequence: consequence.to_owned(),
        remedy: one.remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seccomp_is_read_from_status() {
        let status = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let finding = seccomp(status);
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.detail, "seccomp mode 2, 3 filters");
        assert_eq!(seccomp("Seccomp:\t0\n").state, State::Present);
        assert_eq!(seccomp("Name:\tSeccomp: 2\n").state, State::Present);
    }
}
