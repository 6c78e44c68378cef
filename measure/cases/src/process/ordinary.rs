//! What ordinary programs pay. The sweeps over sizes use bare programs, so that
//! nothing but the kernel is in their figures; here the same operations are done
//! by, or to, programs with a C library, a dynamic linker, an interpreter.
//!
//! - `process.program.fork`: such a program forks by its own means, the child
//!   ends at once, the parent waits.
//! - `process.program.exec`: such a program becomes itself again: exec, and its
//!   start up to its first line.
//! - `process.program.spawn`: posix_spawn of such a program that ends at once,
//!   until it has been waited for: exec, its start and its end.
//!
//! Java has neither fork nor exec.

use std::process::{Command, Stdio};

use super::exec::{Exec, Execing};
use super::fork::{Fork, Forking};
use super::start::{self, Target};
use crate::program::{self, ORDINARY, Ordinary, Program};
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// `process.program.*`.
pub(super) fn cases() -> Vec<Case> {
    let fork = "a program of this kind forks, the child ends, the parent waits";
    let exec = "a program of this kind becomes itself again: exec and its start";
    let spawn = "posix_spawn of a program of this kind, its start and its end";
    let mut cases = Vec::new();
    for program in ORDINARY.into_iter().filter(|program| *program != Ordinary::Java) {
        let case = Case::new("process.program.fork", fork, move |place| forking(program, place));
        cases.push(of(program, case.level(level(program))));
    }
    for program in ORDINARY.into_iter().filter(|program| *program != Ordinary::Java) {
        let case = Case::new("process.program.exec", exec, move |place| execing(program, place));
        cases.push(of(program, case.level(Level::Default)));
    }
    for program in ORDINARY {
        let case = Case::new("process.program.spawn", spawn, move |place| {
            OrdinarySpawning::new(program, place)
        });
        cases.push(of(program, case.level(level(program))));
    }
    cases
}

fn of(program: Ordinary, case: Case) -> Case {
    case.with("program", program.word())
}

/// A quick run has what a program written in C pays.
fn level(program: Ordinary) -> Level {
    match program {
        Ordinary::Bare | Ordinary::StaticC | Ordinary::DynamicC => Level::Quick,
        Ordinary::Rust | Ordinary::Python | Ordinary::Java => Level::Default,
    }
}

/// The command that starts a program to do as `verb` says.
fn command(program: Ordinary, verb: &str, place: &Place) -> Result<Command> {
    let start = program.working(&place.scratch)?;
    let mut command = Command::new(start.path);
    command.args(start.arguments).arg(verb).env_clear();
    Ok(command)
}

fn forking(program: Ordinary, place: &Place) -> Result<Forking> {
    if program == Ordinary::Bare {
        return Forking::start(&Fork::base(), place);
    }
    let mut command = command(program, "fork", place)?;
    command.stderr(Stdio::null());
    Ok(Forking::of(Program::start(program.word(), &mut command, &[])?))
}

fn execing(program: Ordinary, place: &Place) -> Result<Execing> {
    if program == Ordinary::Bare {
        return Execing::start(&Exec::base(), place);
    }
    Execing::begin(program.word(), command(program, "exec", place)?.arg(Execing::NONE))
}

/// Starts programs that end at once.
struct OrdinarySpawning(Target);

impl OrdinarySpawning {
    fn new(program: Ordinary, place: &Place) -> Result<Self> {
        let program::Start { path, arguments } = program.ending(&place.scratch)?;
        // Once by hand, as for the ways to start a program.
        let mut first = Command::new(&path);
        first.args(&arguments).env_clear().stdin(Stdio::null());
        let status = program::start(&mut first)?.wait().map_err(|e| {
            Error::os(format!("wait for the first program of {}", path.display()), e)
        })?;
        if !status.success() {
            let what = format!("ended with {status} when it was tried");
            return Err(Error::Program { program: path.display().to_string(), what });
        }
        Ok(OrdinarySpawning(Target::with_arguments(&path, &arguments)?))
    }
}

impl Workload for OrdinarySpawning {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| (0..iterations).try_for_each(|_| start::posix_spawn(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use procfs::process::Process;

    use super::*;
    use crate::process::tests::{meter, place};

    /// Workload that was set up, or `None` with the reason where the machine lacks something.
    fn there<W>(program: Ordinary, outcome: Result<W>) -> Option<W> {
        match outcome {
            Ok(workload) => Some(workload),
            Err(Error::Unsupported { feature, needs }) => {
                eprintln!("skipped {}: {feature}: {needs}", program.word());
                None
            }
            Err(error) => panic!("{program:?}: {error}"),
        }
    }

    /// Processes that this one has made.
    fn made(pid: u32) -> u64 {
        let stat = Process::new(pid as i32).unwrap().stat().unwrap();
        // Their page faults, once waited for: each process has some.
        stat.cminflt
    }

    #[test]
    fn each_forks_as_often_as_it_is_told_and_says_how_long_it_took() {
        let place = place();
        for program in ORDINARY.into_iter().filter(|program| *program != Ordinary::Java) {
            let Some(mut forking) = there(program, forking(program, &place)) else { continue };
            let pid = forking.program.pid();
            let none = forking.sample(0, &meter()).unwrap();
            assert_eq!(made(pid), 0, "{program:?}");
            let begin = std::time::Instant::now();
            let twenty = forking.sample(20, &meter()).unwrap();
            let outside = begin.elapsed().as_nanos() as f64;
            assert!(made(pid) >= 20, "{program:?}");
            assert!(none.wall_ns < twenty.wall_ns && twenty.wall_ns < outside, "{program:?}");
            let cpu = twenty.cpu;
            assert!(cpu.total_ns() <= outside + 1e6, "{program:?}: {cpu:?} in {outside}");
            // Whole microseconds of 20 processes.
            assert!(cpu.user_ns + cpu.system_ns > 0.0, "{program:?}: {cpu:?}");
        }
    }

    #[test]
    fn each_becomes_itself_again() {
        let place = place();
        for program in ORDINARY.into_iter().filter(|program| *program != Ordinary::Java) {
            let Some(mut execing) = there(program, execing(program, &place)) else { continue };
            let pid = execing.program.pid() as i32;
            let arguments = |pid| Process::new(pid).unwrap().cmdline().unwrap();
            let before = arguments(pid);
            execing.sample(0, &meter()).unwrap();
            let faults = Process::new(pid).unwrap().stat().unwrap().minflt;
            let begin = std::time::Instant::now();
            let sample = execing.sample(5, &meter()).unwrap();
            let outside = begin.elapsed().as_nanos() as f64;
            assert!(sample.wall_ns > 0.0 && sample.wall_ns < outside, "{program:?}");
            assert!(sample.cpu.total_ns() <= outside + 1e6, "{program:?}: {:?}", sample.cpu);
            // Each image maps its pages anew; there is no other sign from outside.
            let after = Process::new(pid).unwrap().stat().unwrap().minflt;
            assert!(after >= faults + 5, "{program:?}: {faults} and {after} faults");
            if program != Ordinary::Bare {
                assert_eq!(arguments(pid), before, "{program:?}");
            }
        }
    }

    #[test]
    fn each_is_started_and_reaped() {
        let place = place();
        for program in ORDINARY {
            let Some(mut spawning) = there(program, OrdinarySpawning::new(program, &place)) else {
                continue;
            };
            let sample = spawning.sample(2, &meter()).unwrap();
            assert!(sample.wall_ns > 0.0 && sample.cpu.children_ns > 0.0, "{program:?}");
        }
    }

    #[test]
    fn a_program_killed_at_its_work_is_an_error() {
        let place = place();
        let mut forking = forking(Ordinary::DynamicC, &place).unwrap();
        let pid = rustix::process::Pid::from_raw(forking.program.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let error = forking.sample(1, &meter()).unwrap_err().to_string();
        assert!(error.contains("dynamic_c") && error.contains("SIGKILL"), "{error}");
    }
}
