//! Figures 5 and 6, and those of processes: 4 KiB of memory allocated and freed as a resource
//! with a name, and a process created and deleted, by so many cores at once, each with tables
//! of its own or all with one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result, ways};
use kumiki_resource::{Interface, Manager, Memory};
use kumiki_spawn::{Command, Process};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use super::refused;
use crate::{Widened, partner};

const MEMORY: &str = "4 KiB of memory allocated and freed as a resource with a name, by so many \
                     cores at once, each with tables of its own (per_core) or all with one under \
                     locks (shared): the time in which each core does it once";

const PROCESS: &str = "A process created under a name, waited for and deleted, by so many cores \
                       at once, each with tables of its own (per_core) or all with one under \
                       locks (shared): the time in which each core does it once";

/// Cores at once that every run has.
const QUICK: usize = 2;

pub(super) fn cases() -> Vec<Case> {
    let Ok(all) = affinity::current() else { return Vec::new() };
    let both = |what, cores| [case(what, cores, false, &all), case(what, cores, true, &all)];
    let each = |what| counts(all.len()).into_iter().flat_map(move |cores| both(what, cores));
    [Kind::Memory, Kind::Process].into_iter().flat_map(each).collect()
}

/// Powers of two, and all.
fn counts(cpus: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n < cpus).collect();
    counts.push(cpus.max(1));
    counts
}

fn case(kind: Kind, cores: usize, shared: bool, all: &CpuSet) -> Case {
    let all = all.clone();
    let (name, about) = match kind {
        Kind::Memory => ("resource.memory", MEMORY),
        Kind::Process => ("resource.process", PROCESS),
    };
    let case = Case::new(name, about, move |place| {
        let what = match kind {
            Kind::Memory => What::Memory,
            Kind::Process => What::Process(ways::smallest_program(&place.scratch)?),
        };
        Cores::new(&cpus(place, cores, &all)?, shared, &what)
    });
    let case = case.with("type", if shared { "shared" } else { "per_core" }).with("cores", cores);
    let case = case.level(if cores <= QUICK { Level::Quick } else { Level::Default });
    if cores > 1 { case.two_cpus() } else { case }
}

/// A kind of resource.
#[derive(Clone, Copy)]
enum Kind {
    Memory,
    Process,
}

/// What is made and deleted.
#[derive(Clone)]
enum What {
    Memory,
    /// Of this program.
    Process(PathBuf),
}

/// What all threads see.
#[derive(Default)]
struct Shared {
    /// The sample that is asked for; [`QUIT`]: none any more.
    sample: AtomicU64,
    /// Allocations of each thread in it.
    iterations: AtomicU64,
    /// Threads that wait for the start, and then those that are done, over all samples.
    arrived: AtomicU64,
    /// The sample whose start has been.
    started: AtomicU64,
    done: AtomicU64,
}

const QUIT: u64 = u64::MAX;

/// This thread and one on each further cpu.
struct Cores {
    one: One,
    shared: Arc<Shared>,
    sample: u64,
    others: Vec<JoinHandle<()>>,
}

/// What one core does.
struct One {
    interface: Interface,
    place: kumiki_resource::Place,
    name: String,
    what: What,
    /// Of the type that has one for each place.
    _manager: Option<Manager>,
}

impl One {
    /// For the calling thread, which runs on `cpu`.
    fn new(
        interface: &Interface,
        cpu: usize,
        shared: bool,
        what: &What,
    ) -> kumiki_resource::Result<Self> {
        let what = what.clone();
        let interface = interface.clone();
        let place =
            if shared { interface.places()[0] } else { interface.place(&format!("core{cpu}"))? };
        let manager = if shared { None } else { Some(interface.manage(place)?) };
        // One tree of names has them all.
        let name = if shared { format!("own-{cpu}") } else { "own".to_owned() };
        Ok(One { interface, place, name, what, _manager: manager })
    }

    fn run(&self, iterations: u64) -> kumiki_resource::Result<()> {
        for _ in 0..iterations {
            self.once()?;
        }
        Ok(())
    }
}

impl One {
    fn once(&self) -> kumiki_resource::Result<()> {
        let One { interface, place, name, what, .. } = self;
        match what {
            What::Memory => {
                let memory = interface.create::<Memory>(*place, Some(name), 1)?;
                interface.destroy(memory)
            }
            What::Process(program) => {
                let mut command = Command::new(program);
                command.env_clear();
                let process = interface.create::<Process>(*place, Some(name), command)?;
                Process::wait(interface, &process)?;
                interface.destroy(process)
            }
        }
    }
}

/// This thread's cpu, its partner, then the others.
fn cpus(place: &Place, cores: usize, all: &CpuSet) -> Result<Vec<usize>> {
    if cores == 1 {
        return Ok(vec![place.cpu]);
    }
    let mut cpus = vec![place.cpu, partner(place)?];
    let others = all.iter().filter(|cpu| ![place.cpu, cpus[1]].contains(cpu));
    let others: Vec<usize> = others.take(cores - 2).collect();
    cpus.extend(others);
    Ok(cpus)
}

impl Cores {
    /// One of each cpu, the first of which is the calling thread's.
    fn new(cpus: &[usize], of_all: bool, what: &What) -> Result<Self> {
        let _widened = Widened::to(cpus.iter().copied())?;
        let builder = Interface::builder().kind::<Memory>().kind::<Process>();
        let interface = if of_all {
            builder.shared()
        } else {
            builder.cores([]).adopted(cpus.iter().copied()).per_core()
        };
        let interface = interface.map_err(refused)?;
        let shared = Arc::new(Shared::default());
        let one = One::new(&interface, cpus[0], of_all, what).map_err(refused)?;
        let mut all = Cores { one, shared, sample: 0, others: Vec::new() };
        for &cpu in &cpus[1..] {
            let (its, interface) = (Arc::clone(&all.shared), interface.clone());
            let what = what.clone();
            let work = move || {
                let _bound = affinity::bind(cpu);
                let one = One::new(&interface, cpu, of_all, &what).expect("its place is free");
                work(&one, &its);
            };
            let thread = thread::Builder::new().name(format!("core{cpu}")).spawn(work);
            all.others.push(thread.map_err(|error| Error::os("start a thread", error))?);
        }
        Ok(all)
    }

    fn ask(&self, sample: u64) {
        // Release: partner is the load in `work`.
        self.shared.sample.store(sample, Ordering::Release);
        self.others.iter().for_each(|other| other.thread().unpark());
    }

    /// Waits until each other thread has counted itself so often as there were samples.
    fn wait(&self, counter: &AtomicU64) {
        let all = self.sample * self.others.len() as u64;
        while counter.load(Ordering::Acquire) < all {
            std::hint::spin_loop();
        }
    }
}

fn work(one: &One, shared: &Shared) {
    let mut last = 0;
    loop {
        match shared.sample.load(Ordering::Acquire) {
            QUIT => return,
            sample if sample == last => thread::park(),
            sample => {
                last = sample;
                let iterations = shared.iterations.load(Ordering::Relaxed);
                // Release: partners are the loads in `wait`.
                shared.arrived.fetch_add(1, Ordering::Release);
                while shared.started.load(Ordering::Acquire) != sample {
                    std::hint::spin_loop();
                }
                one.run(iterations).expect("there is memory for a page, and room for a process");
                shared.done.fetch_add(1, Ordering::Release);
            }
        }
    }
}

impl Workload for Cores {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        self.sample += 1;
        self.shared.iterations.store(iterations, Ordering::Relaxed);
        self.ask(self.sample);
        self.wait(&self.shared.arrived);
        meter.time(|| {
            self.shared.started.store(self.sample, Ordering::Release);
            self.one.run(iterations).map_err(refused)?;
            self.wait(&self.shared.done);
            Ok(())
        })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.ask(QUIT);
        for other in self.others.drain(..) {
            // One that panicked has said so.
            let _ = other.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use kumiki_sys::clock::Clock;

    use super::*;

    #[test]
    fn counts_are_powers_of_two_and_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn each_core_makes_as_often_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        let process = What::Process(ways::smallest_program(folder.path()).unwrap());
        let cpus: Vec<usize> = affinity::current().unwrap().iter().collect();
        for cores in counts(cpus.len().min(2)) {
            for shared in [false, true] {
                let _back = Widened::to([cpus[0]]).unwrap();
                let meter = Meter::new(Clock::new());
                for (what, times) in [(&What::Memory, 100), (&process, 5)] {
                    let mut all = Cores::new(&cpus[..cores], shared, what).unwrap();
                    for _ in 0..3 {
                        assert!(all.sample(times, &meter).unwrap().wall_ns > 0.0);
                    }
                }
            }
        }
    }
}
