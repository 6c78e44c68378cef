//! Limits of this process, of message queues and of System V IPC.

use rustix::process::{Resource, Rlimit, getrlimit};

use crate::finding::{Finding, Topic};
use crate::host::Host;
use crate::limit::{Limit, show};

const LIMITS: [Limit; 2] = [
    Limit {
        topic: Topic {
            part: "measure",
            thing: "stack size limit",
            consequence: "fork and exec cannot be measured against large stacks and arguments",
        },
        resource: Resource::Stack,
        enough: 64 << 20,
        raised_by_cases: true,
        ulimit: "-s",
    },
    Limit {
        topic: Topic {
            part: "measure",
            thing: "process limit",
            consequence: "cases with many processes or threads are refused by fork",
        },
        resource: Resource::Nproc,
        enough: 1024,
        raised_by_cases: false,
        ulimit: "-u",
    },
];

const QUEUES: Topic = Topic {
    part: "measure",
    thing: "POSIX message queues",
    consequence: "the message queue cases are skipped",
};
const SYSTEM_V: Topic = Topic {
    part: "measure",
    thing: "System V IPC",
    consequence: "the System V semaphore, message and shared memory cases are skipped",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    let limits = LIMITS.iter().map(Limit::finding);
    let mut findings: Vec<_> = limits.collect();
    findings.push(queues(host, getrlimit(Resource::Msgqueue)));
    findings.push(system_v(host));
    findings
}

/// mq_overview(7); the kernel mounts its own file system for mq_open, so
/// /dev/mqueue is only for people.
fn queues(host: &Host, bytes: Rlimit) -> Finding {
    let number = |file: &str| host.number(&format!("/proc/sys/fs/mqueue/{file}"));
    let (count, depth, size) =
        match (number("queues_max"), number("msg_max"), number("msgsize_max")) {
            (Ok(count), Ok(depth), Ok(size)) => (count, depth, size),
            (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason))
                if host.exists("/proc/sys") =>
            {
                return QUEUES.absent(reason, "a kernel with CONFIG_POSIX_MQUEUE");
            }
            _ => return QUEUES.unknown("/proc/sys is not there"),
        };
    let shown = if host.exists("/dev/mqueue") { "" } else { " (not mounted on /dev/mqueue)" };
    let detail = format!(
        "{count} queues of {depth} messages of {size} bytes, {} bytes a user{shown}",
        show(bytes.current)
    );
    // What a queue of the default shape takes, roughly.
    let one_queue = 10 * 8192;
    if count == 0 || depth == 0 || bytes.current.is_some_and(|bytes| bytes < one_queue) {
        return QUEUES.limited(detail, "ulimit -q 819200; sysctl fs.mqueue.queues_max=256");
    }
    QUEUES.present(detail)
}

/// sysvipc(7). `sem` is SEMMSL, SEMMNS, SEMOPM, SEMMNI.
fn system_v(host: &Host) -> Finding {
    let read = |file: &str| host.read(&format!("/proc/sys/kernel/{file}"));
    let texts = (read("sem"), read("msgmni"), read("msgmax"), read("shmmni"));
    let (sem, msgmni, msgmax, shmmni) = match texts {
        (Ok(a), Ok(b), Ok(c), Ok(d)) => (a, b, c, d),
        (Err(reason), ..) | (_, Err(reason), ..) | (.., Err(reason), _) | (.., Err(reason))
            if host.exists("/proc/sys") =>
        {
            return SYSTEM_V.absent(reason, "a kernel with CONFIG_SYSVIPC");
        }
        _ => return SYSTEM_V.unknown("/proc/sys is not there"),
    };
    let sets = sem.split_whitespace().nth(3).unwrap_or("0");
    let detail = format!(
        "{sets} semaphore sets, {msgmni} queues with messages of {msgmax} bytes, \
         {shmmni} shared segments"
    );
    if [sets, &msgmni, &shmmni].contains(&"0") {
        return SYSTEM_V.limited(
            detail,
            "sysctl kernel.sem='32000 1024000000 500 32000' kernel.msgmni=32000 kernel.shmmni=4096",
        );
    }
    SYSTEM_V.present(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    fn rlimit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn message_queues_need_kernel_and_bytes() {
        let (_dir, host) = host_with(&[
            ("/proc/sys/fs/mqueue/queues_max", "256"),
            ("/proc/sys/fs/mqueue/msg_max", "10"),
            ("/proc/sys/fs/mqueue/msgsize_max", "8192"),
        ]);
        let finding = queues(&host, rlimit(Some(819_200), None));
        assert_eq!(finding.state, State::Present);
        assert!(finding.detail.contains("not mounted"));
        assert_eq!(queues(&host, rlimit(Some(0), None)).state, State::Limited);
        let (_dir, host) = host_with(&[("/proc/sys/kernel/ostype", "Linux")]);
        assert_eq!(queues(&host, rlimit(None, None)).state, State::Absent);
        let (_dir, host) = host_with(&[]);
        assert_eq!(queues(&host, rlimit(None, None)).state, State::Unknown);
    }

    #[test]
    fn system_v_needs_room_for_each_kind() {
        let with = |sem: &str| {
            let (_dir, host) = host_with(&[
                ("/proc/sys/kernel/sem", sem),
                ("/proc/sys/kernel/msgmni", "32000"),
                ("/proc/sys/kernel/msgmax", "8192"),
                ("/proc/sys/kernel/shmmni", "4096"),
            ]);
            system_v(&host)
        };
        assert_eq!(with("32000\t1024000000\t500\t32000").state, State::Present);
        assert_eq!(with("32000\t1024000000\t500\t0").state, State::Limited);
        let (_dir, host) = host_with(&[("/proc/sys/kernel/ostype", "Linux")]);
        assert_eq!(system_v(&host).state, State::Absent);
    }
}
