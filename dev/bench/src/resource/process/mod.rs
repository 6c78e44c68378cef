//! Processes: started from parents of any size, by one core or several, from Python.
//!
//! Not one process for each subject, as elsewhere: of 8 GiB there is one, which starts
//! programs in every way by turns.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;

use crate::pair::Pair;
use crate::run::Turns;
use crate::subject::Subject;

mod futex;
mod parent;
mod python;
mod request;
mod together;

use self::request::{Request, Way};

/// Cases.
pub(crate) const NAMES: [&str; 6] =
    ["spawn", "spawn_cpu", "spawn_call", "spawn_servers", "process_pair", "python_spawn"];

/// Memory of parents, MiB.
const PARENTS: [u64; 4] = [1, 64, 1024, 8192];
/// A parent of that size leaves the machine at least as much as a third of it.
const ROOM: (u64, u64) = (4, 3);
/// Turns of each way from each parent.
const ROUNDS: usize = 12;

/// Serves as `subject`; `argument` has the program.
pub(crate) fn serve(subject: &str, argument: &Path, pair: Pair) -> Result<()> {
    match subject {
        "parent" => parent::serve(argument, pair),
        _ => together::serve(subject, argument, pair),
    }
}

/// Measures these cases, or all.
pub(crate) fn rows(pair: Pair, only: &[&str]) -> Result<Vec<Row>> {
    let asked = |name: &str| only.is_empty() || only.contains(&name);
    let folder = tempfile::tempdir().context("making a folder for the program")?;
    let program = kumiki_cases::ways::smallest_program(folder.path())?;
    let bench = Bench { program, pair };
    let mut rows = Vec::new();
    let parents = ["spawn", "spawn_cpu", "spawn_call"].map(asked);
    if parents.contains(&true) {
        rows.extend(bench.parents(parents)?);
    }
    if asked("spawn_servers") {
        rows.extend(bench.servers()?);
    }
    if asked("process_pair") {
        rows.extend(bench.pairs()?);
    }
    if asked("python_spawn") {
        rows.extend(python::rows(&PARENTS, &bench.program)?);
    }
    Ok(rows)
}

struct Bench {
    program: PathBuf,
    pair: Pair,
}

impl Bench {
    /// A process of ours, ready.
    fn start(&self, who: &'static str, size: Option<u64>, pair: Pair) -> Result<Subject> {
        let own = std::env::current_exe().context("finding our own program")?;
        let size = size.map_or_else(String::new, |mib| format!("{mib}:"));
        let argument = format!("{size}{}", self.program.display());
        let mut subject = Subject::start((own, who), "process", who, pair, &argument, Vec::new())?;
        subject.ready()?;
        Ok(subject)
    }

    fn parents(&self, [wall, own, call]: [bool; 3]) -> Result<Vec<Row>> {
        let mut bare = self.start("parent", Some(0), self.pair)?;
        let mut rows = Vec::new();
        for mib in PARENTS {
            if !fits(mib) {
                eprintln!("no parent of {mib} MiB: the machine has too little memory available");
                continue;
            }
            eprintln!("spawn {mib}");
            let mut parent = self.start("parent", Some(mib), self.pair)?;
            let all = Way::ALL.as_slice();
            for (asked, ways, make) in [
                (wall, all, (|mib, way| Request::Spawn { mib, way }) as fn(u64, Way) -> Request),
                (own, all, |mib, way| Request::SpawnCpu { mib, way }),
                (call, Way::CALLS.as_slice(), |mib, way| Request::SpawnCall { mib, way }),
            ] {
                if asked {
                    let cases = ways.iter().map(|&way| (way.name(), make(mib, way)));
                    let cases: Vec<_> = cases.collect();
                    rows.extend(turns(&cases, Some(Way::PosixSpawn.name()), |name, case| {
                        let is_bare = [Way::Bare, Way::Futex].map(Way::name).contains(&name);
                        if is_bare { bare.turn(&case) } else { parent.turn(&case) }
                    })?);
                }
            }
        }
        Ok(rows)
    }

    fn servers(&self) -> Result<Vec<Row>> {
        let start = |who, pair| self.start(who, None, pair);
        let mut kumiki = start("servers:kumiki", self.pair)?;
        let mut posix = start("servers:posix_spawn", self.pair)?;
        let mut bare =
            [start("servers:bare", self.pair)?, start("servers:bare", self.pair.swapped())?];
        let mut rows = Vec::new();
        for servers in [1, 2] {
            eprintln!("spawn_servers {servers}");
            let case = Request::SpawnServers { servers };
            let one = Request::SpawnServers { servers: 1 };
            let cases = ["kumiki", "posix_spawn", "bare"].map(|name| (name, case));
            rows.extend(turns(&cases, Some("posix_spawn"), |name, case| match name {
                "kumiki" => kumiki.turn(&case),
                "posix_spawn" => posix.turn(&case),
                _ => {
                    let [first, second] = &mut bare;
                    if servers == 1 {
                        return first.turn(&one);
                    }
                    let (first, second) = std::thread::scope(|scope| {
                        let second = scope.spawn(|| second.turn(&one));
                        (first.turn(&one), second.join().expect("it does not panic"))
                    });
                    let each = first?.into_iter().flatten().zip(second?.into_iter().flatten());
                    Ok(Some(each.map(|(a, b)| together::together([a, b].into_iter())).collect()))
                }
            })?);
        }
        Ok(rows)
    }

    fn pairs(&self) -> Result<Vec<Row>> {
        let mut kumiki = self.start("process:kumiki", None, self.pair)?;
        let mut shared = self.start("process:kumiki/shared", None, self.pair)?;
        let mut rows = Vec::new();
        for cores in [1, 2] {
            eprintln!("process_pair {cores}");
            let case = Request::ProcessPair { cores };
            let cases = ["kumiki", "kumiki/shared"].map(|name| (name, case));
            rows.extend(turns(&cases, None, |name, case| {
                if name == "kumiki" { kumiki.turn(&case) } else { shared.turn(&case) }
            })?);
        }
        Ok(rows)
    }
}

/// Rounds of turns of each subject, in a new order each time.
fn turns(
    cases: &[(&'static str, Request)],
    base: Option<&str>,
    mut turn: impl FnMut(&'static str, Request) -> Result<Option<Vec<f64>>>,
) -> Result<Vec<Row>> {
    let mut all: Vec<Turns> = cases.iter().map(|_| Turns::default()).collect();
    let mut order: Vec<usize> = (0..cases.len()).collect();
    for _ in 0..ROUNDS {
        fastrand::shuffle(&mut order);
        for &at in &order {
            let (name, case) = cases[at];
            let samples = turn(name, case)?;
            all[at].samples.push(samples.with_context(|| format!("{name}: not asked for"))?);
        }
    }
    let base = cases.iter().position(|(name, _)| Some(*name) == base);
    let base = base.map(|at| all[at].median());
    let rows = cases.iter().zip(&all);
    Ok(rows.map(|((name, case), turns)| crate::run::row(*case, name, turns, base)).collect())
}

/// True if the machine has memory for a process of that size.
pub(crate) fn fits(mib: u64) -> bool {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.is_none_or(|kib| mib * ROOM.0 / ROOM.1 < kib >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn names_are_those_of_the_cases() {
        let way = Way::Kumiki;
        let cases = [
            Request::Spawn { mib: 1, way },
            Request::SpawnCpu { mib: 1, way },
            Request::SpawnCall { mib: 1, way },
            Request::SpawnServers { servers: 1 },
            Request::ProcessPair { cores: 1 },
            Request::PythonSpawn { mib: 1 },
        ];
        assert_eq!(cases.map(Case::name), NAMES);
    }

    #[test]
    fn nothing_has_room_for_an_exbibyte() {
        assert!(fits(0));
        assert!(!fits(1 << 40));
    }
}
