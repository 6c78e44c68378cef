//! What a case is: a name, parameters, and a way to set up a [`Workload`].

use std::path::PathBuf;

use crate::error::Result;
use crate::meter::{Meter, Sample};
use crate::schema::{Params, Unit, Value};

/// Cpus on which a workload runs. The sampler has already bound the calling thread to `cpu` when it
/// sets a workload up and while it samples.
#[derive(Clone, Debug)]
pub struct Place {
    /// The measuring cpu.
    pub cpu: usize,
    /// Another cpu for the other end of a pair: the nearest one that is
    /// allowed, or `None` if there is none.
    pub partner: Option<usize>,
    /// A folder for files of this run, on a real file system; removed at the end.
    pub scratch: PathBuf,
}

/// An operation, set up and ready to be repeated. Dropping it undoes the
/// set-up: no process, thread, file, mapping or signal handler stays behind
/// (but program files, kept in the scratch folder's `programs` for later visits).
pub trait Workload {
    /// Runs the operation `iterations` times and says how long just that took.
    ///
    /// In-process workloads do what need not be timed, then call
    /// [`Meter::time`]; a workload that measures in another process returns
    /// what that process reports.
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample>;

    /// The sampler's own share of such a sample: the same clocks around the
    /// same loop without the operation. Subtracted from each sample.
    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| {
            for iteration in 0..iterations {
                std::hint::black_box(iteration);
            }
            Ok(())
        })
    }

    /// Operations that one sample can hold at most (`None`: any number).
    fn max_batch(&self) -> Option<u64> {
        None
    }
}

/// A [`Workload`] from a closure that runs one operation.
pub struct Each<F>(pub F);

impl<F> std::fmt::Debug for Each<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Each").finish_non_exhaustive()
    }
}

impl<F: FnMut() -> Result<()>> Workload for Each<F> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| {
            for _ in 0..iterations {
                (self.0)()?;
            }
            Ok(())
        })
    }
}

/// The shortest kind of run that includes a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every run.
    Quick,
    /// Runs of some minutes.
    Default,
    /// Only long runs.
    Full,
}

/// Sets a workload up.
pub type Setup = Box<dyn Fn(&Place) -> Result<Box<dyn Workload>>>;

/// One case with one set of parameters.
pub struct Case {
    /// Dotted name, e.g. `process.fork`; a word of `kumiki measure`'s filter.
    pub name: &'static str,
    /// One line for `kumiki measure ls`.
    pub about: &'static str,
    /// Parameters; with the name, the identity of a row.
    pub params: Params,
    /// Unit of the figures.
    pub unit: Unit,
    /// Bytes moved by one operation, for [`Unit::GigabytesPerSecond`].
    pub bytes: u64,
    /// Runs that include it.
    pub level: Level,
    /// True if it needs [`Place::partner`].
    pub two_cpus: bool,
    /// The cpu and the partner that it is about, whatever the run's place is.
    pub cpus: Option<[usize; 2]>,
    /// Memory that the case asks for in the measuring process, bytes: not
    /// counted as the tool's own.
    pub asks_bytes: u64,
    /// True if each visit is made by a new process, because where a process's pages lie decides
    /// what it costs.
    pub apart: bool,
    /// True if it lasts for seconds: visited once a run, for one sample and without a warm-up.
    pub once: bool,
    /// Sets a workload up.
    pub setup: Setup,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}

impl Case {
    /// A case without parameters, in nanoseconds, of every run, on one cpu.
    pub fn new<W: Workload + 'static>(
        name: &'static str,
        about: &'static str,
        setup: impl Fn(&Place) -> Result<W> + 'static,
    ) -> Self {
        Case {
            name,
            about,
            params: Params::new(),
            unit: Unit::Nanoseconds,
            bytes: 0,
            level: Level::Quick,
            two_cpus: false,
            cpus: None,
            asks_bytes: 0,
            apart: false,
            once: false,
            setup: Box::new(move |place| Ok(Box::new(setup(place)?))),
        }
    }

    /// Adds a parameter.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// Leaves the case to longer runs.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Needs a second cpu.
    pub fn two_cpus(mut self) -> Self {
        self.two_cpus = true;
        self
    }

    /// Is about these two cpus: its place has them as cpu and partner.
    pub fn between(mut self, cpu: usize, partner: usize) -> Self {
        self.cpus = Some([cpu, partner]);
        self.two_cpus()
    }

    /// Is visited in a process of its own.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Is visited once a run, by one sample.
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Reports another unit than nanoseconds.
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Reports bandwidth: `bytes` are moved by one operation.
    pub fn bandwidth(mut self, bytes: u64) -> Self {
        self.unit = Unit::GigabytesPerSecond;
        self.bytes = bytes;
        self
    }

    /// States memory that the case asks for in this process.
    pub fn asks(mut self, bytes: u64) -> Self {
        self.asks_bytes = bytes;
        self
    }
}

/// A person's choice from the catalogue.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The longest level to include.
    pub level: Option<Level>,
    /// Sizes for the sweeps over bytes, instead of each case's own.
    pub sizes: Option<Vec<u64>>,
}
