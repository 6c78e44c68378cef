//! Figures 5 to 8: memory allocated and freed, a process created and deleted, by so many cores
//! at once, each with tables of its own or all with one, and by the operating system's own
//! calls. Besides, a frame of memory with a name, and a process of the smallest program.
//!
//! As in the paper, each core does it again and again, and the middle third counts: nobody
//! begins late or ends early beside whom others would be alone.

mod board;
mod counts;
mod forked;
mod once;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use kumiki_cases::ways;
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use self::board::Board;
use self::counts::{counts, cpus, level, reach_of};
use self::forked::Forked;
use self::once::{One, OneOfAll, PlainWork, Tables, builder};
pub use self::once::{What, program};
use super::refused;
use crate::Widened;

const FRAME: &str = "A frame of 4 KiB with a name, made and deleted by so many cores at once, each \
                     with tables of its own (per_core) or all with one (shared: a lock a resource, \
                     and one a kind for names): the time in which each core does it once";

const MEMORY: &str = "4 KiB of memory allocated and freed as in the paper, by so many cores at \
                      once: a region made and attached as a user space, written to, both deleted, \
                      3,000 times, of which the middle third counts; mapped_once: the space is \
                      mapped over its core's frames from the beginning; plain: mmap and munmap, by \
                      threads or by processes. The time in which each core does it once";

const STARTED: &str = "A process of the smallest program created under a name, waited for and \
                       deleted, by so many cores at once, each with tables of its own (per_core) \
                       or all with one (shared): the time in which each core does it once";

const PROCESS: &str = "A process created and deleted as in the paper, by so many cores at once: \
                       its program (text 1,000 bytes, data 220, bss 8) is resident, 300 times, of \
                       which the middle third counts; plain: posix_spawn and waitpid, by threads \
                       or by processes. The time in which each core does it once";

/// A case's name, what it says, and how often the middle third has it where the paper says so.
type Experiment = (&'static str, &'static str, Option<u64>);

const EXPERIMENTS: [Experiment; 4] = [
    ("resource.memory", FRAME, None),
    ("resource.process", STARTED, None),
    ("resource.memory_paper", MEMORY, Some(1000)),
    ("resource.process_paper", PROCESS, Some(100)),
];

/// The experiment whose space may be mapped once.
const MAPPED: &str = "resource.memory_paper";

fn what(name: &str, place: &Place) -> Result<What> {
    Ok(match name {
        "resource.memory" => What::Frame,
        "resource.process" => What::Started(ways::smallest_program(&place.scratch)?),
        "resource.memory_paper" => What::Memory,
        _ => What::Process(program(&place.scratch)?),
    })
}

/// Maker of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Threads, each with tables of its own.
    PerCore,
    /// Threads with tables of their own, and each core's space is mapped once over its frames.
    MappedOnce,
    /// Threads that have the tables together.
    Shared,
    /// Threads that ask the operating system.
    PlainThreads,
    /// Processes that do.
    PlainProcesses,
}

impl By {
    const ALL: [(By, &'static str); 5] = [
        (By::PerCore, "per_core"),
        (By::Shared, "shared"),
        (By::MappedOnce, "mapped_once"),
        (By::PlainThreads, "plain_threads"),
        (By::PlainProcesses, "plain_processes"),
    ];
}

pub(super) fn cases() -> Vec<Case> {
    let Ok(all) = affinity::current() else { return Vec::new() };
    let mut cases = Vec::new();
    for (experiment, cores) in EXPERIMENTS
        .iter()
        .flat_map(|experiment| counts(all.len()).into_iter().map(move |cores| (experiment, cores)))
    {
        // What has no table of ours stands beside what the paper has measured.
        let types = if experiment.2.is_some() { &By::ALL[..] } else { &By::ALL[..2] };
        let types = types.iter().filter(|(by, _)| *by != By::MappedOnce || experiment.0 == MAPPED);
        cases.extend(types.map(|&(by, name)| case(*experiment, by, name, cores, &all)));
    }
    cases
}

fn case(
    (name, about, third): Experiment,
    by: By,
    by_name: &str,
    cores: usize,
    all: &CpuSet,
) -> Case {
    let (reach, mut level) = (reach_of(cores, all), level(cores, all.len()));
    if !matches!(by, By::PerCore | By::Shared | By::MappedOnce) {
        level = level.max(Level::Default);
    }
    let all = all.clone();
    let case = Case::new(name, about, move |place| {
        let cores = Cores::new(&cpus(place, cores, &all)?, by, &what(name, place)?)?;
        Ok(Thirds { cores, third })
    });
    let mut case = case.with("type", by_name).with("cores", cores).level(level);
    // From here on the axis is another one.
    if reach != counts::WHOLE {
        case = case.with("cpus", reach);
    }
    if cores > 1 { case.two_cpus() } else { case }
}

/// Does it so often.
pub type Work = Box<dyn FnMut(u64) -> Result<()>>;

/// Kind of the workers of [`Cores`], but for the first one: the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this process.
    Threads,
    /// Processes that were forked.
    Processes,
}

/// This thread, and a thread or process on each further cpu.
pub struct Cores {
    board: Arc<Board>,
    own: Work,
    sample: u32,
    others: Vec<Other>,
}

impl std::fmt::Debug for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cores").field("sample", &self.sample).finish_non_exhaustive()
    }
}

enum Other {
    Thread(Option<JoinHandle<()>>),
    Process { _child: Forked },
}

impl Cores {
    /// Makes one worker for each cpu, the first of which is the calling thread's.
    ///
    /// # Errors
    /// What the machine lacks.
    pub fn new(cpus: &[usize], by: By, what: &What) -> Result<Self> {
        let _widened = Widened::to(cpus.iter().copied())?;
        let what = what.clone();
        match by {
            By::PerCore | By::MappedOnce => {
                let what = if by == By::MappedOnce { what.mapped_once() } else { what };
                let builder = builder().cores([]).adopted(cpus.iter().copied());
                let interface = builder.per_core().map_err(refused)?;
                Self::of(cpus, Workers::Threads, move |cpu| -> Result<Work> {
                    let one = One::new(&interface, cpu, &what).map_err(refused)?;
                    Ok(Box::new(move |times| (0..times).try_for_each(|_| one.once())))
                })
            }
            By::Shared => {
                let tables = Arc::new(Tables::new().map_err(refused)?);
                Self::of(cpus, Workers::Threads, move |cpu| -> Result<Work> {
                    let one = OneOfAll::new(&tables, cpu, &what).map_err(refused)?;
                    Ok(Box::new(move |times| (0..times).try_for_each(|_| one.once())))
                })
            }
            By::PlainThreads | By::PlainProcesses => {
                let make = move |_| -> Result<Work> {
                    let plain = PlainWork::new(&what)?;
                    Ok(Box::new(move |times| (0..times).try_for_each(|_| plain.once())))
                };
                let of_processes = by == By::PlainProcesses;
                let workers = if of_processes { Workers::Processes } else { Workers::Threads };
                Self::of(cpus, workers, make)
            }
        }
    }

    /// Makes workers of any kind: `make` gives each of them its work on its cpu.
    ///
    /// # Errors
    /// Those of `make`; no thread, process or memory is to be had.
    pub fn of(
        cpus: &[usize],
        workers: Workers,
        make: impl Fn(usize) -> Result<Work> + Clone + Send + 'static,
    ) -> Result<Self> {
        let _widened = Widened::to(cpus.iter().copied())?;
        let board = Arc::new(Board::new(cpus.len() - 1)?);
        let mut others = Vec::new();
        for (other, &cpu) in cpus[1..].iter().enumerate() {
            let (its, make) = (Arc::clone(&board), make.clone());
            let work = move || {
                let _gives_up = GivesUp(&its);
                let bound = affinity::set(&CpuSet::from_iter([cpu])).map_err(Error::from);
                let mut own = bound.and_then(|()| make(cpu));
                its.follow(other, |times, start| match &mut own {
                    Ok(own) => third(times, own, start),
                    Err(error) => Err(Error::Invalid(error.to_string())),
                });
            };
            others.push(if workers == Workers::Processes {
                Other::Process { _child: Forked::start(work)? }
            } else {
                let thread = thread::Builder::new().name(format!("core{cpu}")).spawn(work);
                let thread = thread.map_err(|error| Error::os("start a thread", error))?;
                Other::Thread(Some(thread))
            });
        }
        // After the others: processes have no part of it.
        Ok(Cores { own: make(cpus[0])?, board, sample: 0, others })
    }

    /// Has all do it three times so often; how many nanoseconds each core took for one in the
    /// middle third.
    ///
    /// # Errors
    /// One cannot do it.
    pub fn middle(&mut self, times: u64) -> Result<Vec<f64>> {
        self.sample += 1;
        self.board.ask(self.sample, times)?;
        let own = third(times, &mut self.own, &|| ())?;
        let all = [own].into_iter().chain(self.board.answers(self.sample)?);
        Ok(all.map(|ns| ns as f64 / times as f64).collect())
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.board.quit();
        for other in &mut self.others {
            if let Other::Thread(thread) = other {
                // One that panicked has said so.
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

/// Says so if the thread panics.
struct GivesUp<'a>(&'a Board);

impl Drop for GivesUp<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}

/// Works three times so often; the nanoseconds of the second time.
fn third(times: u64, work: &mut Work, start: &dyn Fn()) -> Result<u64> {
    start();
    work(times)?;
    let begin = Instant::now();
    work(times)?;
    let ns = begin.elapsed().as_nanos() as u64;
    work(times)?;
    Ok(ns)
}

/// Case that takes thirds.
struct Thirds {
    cores: Cores,
    /// Fixed number of operations, whatever is asked for.
    third: Option<u64>,
}

impl Workload for Thirds {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let times = self.third.unwrap_or(iterations);
        let mut each = Vec::new();
        let mut sample = meter.time(|| {
            each = self.cores.middle(times)?;
            Ok(())
        })?;
        // What one core takes for one if all do as much as these together.
        let rate: f64 = each.iter().map(|ns| ns.recip()).sum();
        sample.wall_ns = iterations as f64 * each.len() as f64 / rate;
        let share = iterations as f64 / (3 * times) as f64;
        sample.cpu.user_ns *= share;
        sample.cpu.system_ns *= share;
        sample.cpu.children_ns *= share;
        Ok(sample)
    }

    fn max_batch(&self) -> Option<u64> {
        self.third
    }
}

#[cfg(test)]
mod tests {
    use kumiki_resource::Interface;
    use kumiki_sys::clock::Clock;

    use super::*;

    fn place(scratch: &std::path::Path) -> Place {
        let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
        Place { cpu: cpus[0], partner: cpus.get(1).copied(), scratch: scratch.to_owned() }
    }

    #[test]
    fn each_core_makes_as_often_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let cpus: Vec<usize> = [Some(place.cpu), place.partner].into_iter().flatten().collect();
        let meter = Meter::new(Clock::new());
        for (name, ..) in EXPERIMENTS {
            let what = what(name, &place).unwrap();
            for (by, _) in By::ALL {
                for cores in 1..=cpus.len() {
                    let _back = Widened::to([cpus[0]]).unwrap();
                    let cores = Cores::new(&cpus[..cores], by, &what).unwrap();
                    let mut thirds = Thirds { cores, third: Some(3) };
                    for _ in 0..2 {
                        let sample = thirds.sample(2, &meter).unwrap();
                        assert!(sample.wall_ns > 0.0, "{name} {by:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_paper_s_memory_is_made_attached_written_and_gone() {
        let cpu = affinity::current().unwrap().first().unwrap();
        let interface = builder().cores([]).adopted([cpu]).per_core().unwrap();
        let one = One::new(&interface, cpu, &What::Memory).unwrap();
        let all = |interface: &Interface| interface.ls(&kumiki_resource::Pattern::all()).unwrap();
        let before = all(&interface);
        one.once().unwrap();
        assert_eq!(all(&interface).len(), before.len(), "the space alone");
        assert_eq!(before.len(), 1);
        // Names are free again after each, so that a second one of the same is made.
        let tables = Arc::new(Tables::new().unwrap());
        let one = OneOfAll::new(&tables, cpu, &What::Memory).unwrap();
        (0..3).for_each(|_| one.once().unwrap());
    }

    #[test]
    fn one_that_fails_ends_the_wait_of_the_others() {
        let Ok(cpus) = affinity::current() else { return };
        let cpus: Vec<usize> = cpus.iter().take(2).collect();
        if cpus.len() < 2 {
            return eprintln!("skipped: needs two cpus");
        }
        for workers in [Workers::Threads, Workers::Processes] {
            let first = cpus[0];
            let make = move |cpu| -> Result<Work> {
                let text = || Error::Invalid("what a test wants".to_owned());
                Ok(Box::new(move |_| if cpu == first { Ok(()) } else { Err(text()) }))
            };
            let mut cores = Cores::of(&cpus, workers, make).unwrap();
            assert!(cores.middle(1).is_err());
        }
    }
}
