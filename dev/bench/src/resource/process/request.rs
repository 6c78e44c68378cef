//! What a subject is asked for: one turn at one case.

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A case with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "case")]
pub(crate) enum Request {
    /// A program started and waited for; nanoseconds.
    Spawn {
        /// By a process with so much resident memory in ordinary pages.
        mib: u64,
        way: Way,
    },
    /// The same: the processor time of the thread that starts it and waits.
    SpawnCpu { mib: u64, way: Way },
    /// Of it what the call takes that starts the program, without the wait for its end.
    SpawnCall { mib: u64, way: Way },
    /// By so many threads at once, a cpu each, with a spawn server each; nanoseconds a
    /// program, of all together.
    SpawnServers { servers: u64 },
    /// A process made under a name and destroyed, by so many cores at once; nanoseconds a
    /// pair, of all together.
    ProcessPair { cores: u64 },
    /// From Python with so much resident memory, with a session, a limit and, where the
    /// machine has cgroup v2, a cgroup of its own; nanoseconds.
    PythonSpawn { mib: u64 },
}

/// A way to start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// By the calling thread itself.
    Kumiki,
    /// By a spawn server of its own.
    Server,
    PosixSpawn,
    Command,
    ForkExec,
    VforkExec,
    /// By clone3 in a process that does nothing else, whatever the size of others: the
    /// limit.
    Bare,
    /// No program: another process is woken and answers, on the same cpu. The limit of what
    /// asking somebody else can cost.
    Futex,
}

impl Way {
    pub(crate) const ALL: [Way; 7] = [
        Way::Kumiki,
        Way::Server,
        Way::PosixSpawn,
        Way::Command,
        Way::ForkExec,
        Way::VforkExec,
        Way::Bare,
    ];
    /// Those whose call is told from the wait.
    pub(crate) const CALLS: [Way; 3] = [Way::Kumiki, Way::Server, Way::Futex];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Kumiki => "kumiki",
            Way::Server => "kumiki/server",
            Way::PosixSpawn => "posix_spawn",
            Way::Command => "command",
            Way::ForkExec => "fork_exec",
            Way::VforkExec => "vfork_exec",
            Way::Bare => "bare",
            Way::Futex => "futex",
        }
    }
}

impl Case for Request {
    fn name(self) -> &'static str {
        match self {
            Request::Spawn { .. } => "spawn",
            Request::SpawnCpu { .. } => "spawn_cpu",
            Request::SpawnCall { .. } => "spawn_call",
            Request::SpawnServers { .. } => "spawn_servers",
            Request::ProcessPair { .. } => "process_pair",
            Request::PythonSpawn { .. } => "python_spawn",
        }
    }

    fn size(self) -> Option<u64> {
        Some(match self {
            Request::Spawn { mib: n, .. }
            | Request::SpawnCpu { mib: n, .. }
            | Request::SpawnCall { mib: n, .. }
            | Request::SpawnServers { servers: n }
            | Request::ProcessPair { cores: n }
            | Request::PythonSpawn { mib: n } => n,
        })
    }
}
