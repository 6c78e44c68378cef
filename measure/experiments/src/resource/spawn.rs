//! A program started by a process of some size: by the calling thread itself, by a spawn server
//! and in the other ways.

use std::path::PathBuf;

use kumiki_cases::ways::{self, Resident, Target};
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_spawn::{Command, SpawnServer};

const ABOUT: &str = "The smallest program started by a process with so much resident memory in \
                     ordinary pages, and waited for: by the calling thread itself (kumiki), by a \
                     spawn server (kumiki/server) and in other ways";

const M: u64 = 1 << 20;
/// Bytes that the process has.
const SIZES: [(u64, Level); 4] = [
    (M, Level::Quick),
    (64 * M, Level::Quick),
    (1024 * M, Level::Default),
    (8192 * M, Level::Full),
];

/// A way to start a program and wait for it.
#[derive(Clone, Copy)]
enum SpawnWay {
    Kumiki,
    Server,
    Other(fn(&Target) -> Result<()>),
}

const WAYS: [(&str, SpawnWay); 6] = [
    ("kumiki", SpawnWay::Kumiki),
    ("kumiki/server", SpawnWay::Server),
    ("posix_spawn", SpawnWay::Other(ways::posix_spawn)),
    ("command", SpawnWay::Other(ways::command)),
    ("fork_exec", SpawnWay::Other(ways::fork_exec)),
    ("vfork_exec", SpawnWay::Other(ways::vfork)),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, level) in SIZES {
        for (name, way) in WAYS {
            let case =
                Case::new("resource.spawn", ABOUT, move |place| Parent::new(way, bytes, place));
            let case = case.with("way", name).with("anon_bytes", bytes).asks(bytes);
            // A fork pays for all that its process has, and a run has more of it from pass to pass.
            cases.push(case.level(level).apart());
        }
    }
    cases
}

struct Parent {
    way: SpawnWay,
    program: PathBuf,
    target: Target,
    /// Server of this case alone: nothing of it stays for the next one.
    server: SpawnServer,
    _memory: Resident,
}

impl Parent {
    fn new(way: SpawnWay, bytes: u64, place: &Place) -> Result<Self> {
        let program = ways::smallest_program(&place.scratch)?;
        let mut server = SpawnServer::new();
        if let SpawnWay::Server = way {
            server.start().map_err(|error| Error::os("start a spawn server", error))?;
        }
        let target = Target::new(&program)?;
        Ok(Parent { way, program, target, server, _memory: Resident::new(bytes)? })
    }

    fn once(&mut self) -> Result<()> {
        match self.way {
            SpawnWay::Other(way) => way(&self.target),
            SpawnWay::Kumiki | SpawnWay::Server => {
                let mut command = Command::new(&self.program);
                command.env_clear();
                let child = match self.way {
                    SpawnWay::Server => command.spawn_by(&mut self.server),
                    _ => command.spawn(),
                };
                let status = child.and_then(|mut child| child.wait());
                let status = status.map_err(|error| Error::os("start a program", error))?;
                if status.success() {
                    return Ok(());
                }
                let program = self.program.display().to_string();
                Err(Error::Program { program, what: status.to_string() })
            }
        }
    }
}

impl Workload for Parent {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| (0..iterations).try_for_each(|_| self.once()))
    }
}

#[cfg(test)]
mod tests {
    use kumiki_sys::clock::Clock;

    use super::*;

    #[test]
    fn every_way_starts_programs_and_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { cpu: 0, partner: None, scratch: folder.path().to_owned() };
        for (name, way) in WAYS {
            let mut parent = Parent::new(way, M, &place).unwrap();
            let sample = parent.sample(3, &Meter::new(Clock::new())).unwrap();
            assert!(sample.wall_ns > 0.0, "{name}");
        }
    }
}
