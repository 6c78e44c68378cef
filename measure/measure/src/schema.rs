//! The shape of a result, in memory and as JSON: what was measured, where, and
//! every sample behind each figure.
//!
//! Only [`Visit`]s are facts; a [`Row`]'s figures are derived from its visits
//! by [`Row::summarise`](crate::summary), and [`Slope`]s from rows. The store keeps the
//! facts, so that a better statistic can be computed from an old run.

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Version of the JSON and of the store. A reader refuses a newer one.
pub const SCHEMA: u32 = 1;

/// One parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `huge`, `fixed`, …
    Flag(bool),
    /// A count or a size; the parameter's name carries the unit (`data_bytes`).
    Number(u64),
    /// Word out of a few (`touch`: none, read, write).
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(v) => v.fmt(f),
            Value::Number(v) => v.fmt(f),
            Value::Word(v) => v.fmt(f),
        }
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Value::Flag(v)
    }
}
impl From<u64> for Value {
    fn from(v: u64) -> Self {
        Value::Number(v)
    }
}
impl From<usize> for Value {
    fn from(v: usize) -> Self {
        Value::Number(v as u64)
    }
}
impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::Word(v.to_owned())
    }
}

/// A case's parameters by name. Case name and parameters together identify a
/// row within a run and across runs.
pub type Params = BTreeMap<String, Value>;

/// Unit of a row's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds an operation; less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// 10⁹ bytes a second; more is better.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Seconds of processor time a second, of all threads; less is better.
    #[serde(rename = "cpu")]
    Cpus,
    /// Joules a second, of what the machine's energy counters cover; less is
    /// better.
    #[serde(rename = "W")]
    Watts,
}

impl Unit {
    /// The unit as it is printed and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Cpus => "cpu",
            Unit::Watts => "W",
        }
    }

    /// True if a larger figure is a worse one.
    pub fn less_is_better(self) -> bool {
        self != Unit::GigabytesPerSecond
    }
}

/// Processor time, in nanoseconds: of this process and of the children it
/// waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Time in user mode, the measuring process itself (all its threads).
    pub user_ns: f64,
    /// Time in the kernel, the measuring process itself.
    pub system_ns: f64,
    /// User and kernel mode, the children that were waited for.
    pub children_ns: f64,
}

impl CpuTime {
    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.user_ns + self.system_ns + self.children_ns
    }
}

/// Other activity of the machine during a visit. A count that the machine cannot report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Length of the visit, nanoseconds.
    pub wall_ns: f64,
    /// Minor page faults of the measuring process, its waited children, and the measured
    /// programs while they were timed (fork, exec).
    pub minor_faults: u64,
    /// Major page faults (a disk was read).
    pub major_faults: u64,
    /// Times the measuring process gave the cpu up by itself.
    pub voluntary_switches: u64,
    /// Times it was taken off the cpu.
    pub involuntary_switches: u64,
    /// Reads from a disk by the same, in blocks of 512 bytes.
    pub blocks_in: u64,
    /// Writes to a disk by the same, in blocks of 512 bytes.
    pub blocks_out: u64,
    /// Time a hypervisor took the measured cpus away, nanoseconds.
    pub steal_ns: Option<u64>,
    /// Interrupts of the whole machine.
    pub interrupts: Option<u64>,
    /// Time the measured cpus worked for somebody else, nanoseconds.
    pub other_cpu_ns: Option<f64>,
    /// Time the measuring thread was ready to run but a task that is not of
    /// the case ran instead, nanoseconds.
    pub lost_cpu_ns: Option<f64>,
}

/// One stay at a case within a run: fresh set-up, warm-up, then samples in a
/// row. A run visits every case several times, and the visits of one case are
/// as far apart as the run allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Operations in one sample.
    pub batch: u64,
    /// Cost of the sampler itself, nanoseconds an operation, already subtracted from the samples.
    pub overhead_ns: f64,
    /// The samples in the row's unit, in the order they were taken. None is
    /// ever dropped.
    pub samples: Vec<f64>,
    /// Processor time of one operation, mean over the visit.
    pub cpu: CpuTime,
    /// Raw cache-line round trip between the cpus used, before the visit;
    /// `None` on a machine with one cpu.
    pub round_trip_before_ns: Option<f64>,
    /// Round trip after the visit, nanoseconds.
    pub round_trip_after_ns: Option<f64>,
    /// Time of one cycle of the measuring cpu's core just before and just after
    /// the visit, nanoseconds: boost, heat and neighbours move it.
    #[serde(default)]
    pub cycle_ns: [Option<f64>; 2],
    /// Time of one cycle just before the samples that the visit's quiet cost is of, their
    /// median: a clock may jump many times in a visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_cycle_ns: Option<f64>,
    /// Other activity meanwhile.
    pub activity: Activity,
    /// Reasons not to trust this visit: causes in fixed words, so that they can be counted; how
    /// much is in `activity`. Empty if undisturbed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<String>,
}

/// One case with one set of parameters: the figures, and the facts below them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Dotted name, e.g. `process.fork`.
    pub case: String,
    /// Parameters that this row was measured with.
    pub params: Params,
    /// Unit of `median`, `p99`, `ci`, `min`, `mad` and the samples.
    pub unit: Unit,
    /// Samples.
    pub n: usize,
    /// Median of all samples.
    pub median: f64,
    /// 99 % of the samples are at least as good as this.
    pub p99: f64,
    /// 95 % interval of the median: bootstrap over visits, then over samples
    /// within a visit, widened by `wander` as an
    /// independent error.
    pub ci: [f64; 2],
    /// Cost where others leave it alone: the median over visits of each visit's 10th percentile
    /// ([`stats::quiet`](crate::stats::quiet)).
    #[serde(default)]
    pub quiet: f64,
    /// An interval of `quiet` that also holds what changes from run to run: some 95 of 100
    /// hold what other runs of the same machine find. `None` of fewer visits than
    /// [`stats::quiet::LEAST`](crate::stats::quiet::LEAST): they tell nothing of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ci: Option<[f64; 2]>,
    /// Wander of the core's clock around the visits: half the range of the middle 90 % of its cycle
    /// times over their median. It moves all rows of a run together, more slowly than a run lasts,
    /// so that no resampling of one run's visits shows it whole.
    #[serde(default)]
    pub wander: f64,
    /// The smallest sample.
    pub min: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Samples further than 5 scaled MADs from the median: counted, not dropped.
    pub outliers: usize,
    /// Processor time of one operation, nanoseconds, all of it.
    pub cpu_ns: f64,
    /// The parts of `cpu_ns`.
    pub cpu: CpuTime,
    /// True if one cause disturbed a quarter of the visits or more.
    pub disturbed: bool,
    /// Every cause with the number of visits that it disturbed, in words; also
    /// those that struck too few visits to call the row disturbed.
    #[serde(default)]
    pub disturbances: Vec<String>,
    /// Median over the visits of the raw cache-line round trip between the
    /// cpus used, nanoseconds.
    pub round_trip_ns: Option<f64>,
    /// The cpus the case ran on: its own, and its partner's if it has one.
    pub cpus: Vec<usize>,
    /// The facts.
    pub visits: Vec<Visit>,
}

impl Row {
    /// Number of operations in all samples.
    pub fn operations(&self) -> u64 {
        let each = |visit: &Visit| visit.batch.saturating_mul(visit.samples.len() as u64);
        self.visits.iter().map(each).fold(0, u64::saturating_add)
    }
}

/// Direction in which a cost changes with a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// The whole interval of the slope lies above zero, or the cost of the largest size lies
    /// above that of the smallest, their intervals apart by more than [`FLAT`] and what such
    /// a row moves by from run to run: then it grows, and only how fast is unclear ([`Slope::is_graded`]).
    Grows,
    /// Falls: the slope is below zero, or the largest size's cost below the smallest's.
    Falls,
    /// The interval of the slope holds zero, and from its one end to its other the cost changes by at
    /// most [`FLAT`] over the sizes that were measured.
    Flat,
    /// The interval holds zero and much else: nothing may be said.
    #[default]
    Unclear,
}

/// The change over all measured sizes, as a share of the cost at the smallest of them,
/// up to which a cost is called flat.
pub const FLAT: f64 = 0.1;

impl Trend {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Trend::Grows => "grows",
            Trend::Falls => "falls",
            Trend::Flat => "flat",
            Trend::Unclear => "unclear",
        }
    }
}

/// Growth of a case's cost with one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// The rows' case.
    pub case: String,
    /// The parameter that varies, in bytes.
    pub param: String,
    /// The parameters that stay.
    pub params: Params,
    /// Nanoseconds for each 4 KiB page, below the knee if there is one.
    pub ns_per_page: f64,
    /// 95 % confidence interval of `ns_per_page`.
    pub ci: [f64; 2],
    /// Trend that the interval allows to state.
    #[serde(default)]
    pub trend: Trend,
    /// Cost at size zero by the same line, nanoseconds.
    pub base_ns: f64,
    /// Share of the variance that the line explains.
    pub r2: f64,
    /// Size at which the line breaks, if two lines explain the rows clearly better.
    pub knee_bytes: Option<u64>,
    /// Nanoseconds a page beyond the knee.
    pub ns_per_page_beyond: Option<f64>,
    /// Jump at the break, if the two lines do not meet there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Jump>,
}

/// Jump of a cost at a threshold, which begins beyond the size at which the line breaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jump {
    /// The next size that was measured, bytes: the threshold is before it.
    pub until_bytes: u64,
    /// Cost beyond less cost before, nanoseconds.
    pub ns: f64,
}

impl Slope {
    /// True if the slope itself may be told: its interval does not hold zero.
    pub fn is_graded(&self) -> bool {
        self.ci[0] > 0.0 || self.ci[1] < 0.0
    }
}

/// A case that could not run here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// Dotted name.
    pub case: String,
    /// Its parameters.
    pub params: Params,
    /// Lack, and the way out.
    pub reason: String,
}

/// Cases of one name that could not run for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Skips<'a> {
    /// Dotted name.
    pub case: &'a str,
    /// Reason, and what to do.
    pub reason: &'a str,
    /// Parameters of each.
    pub params: Vec<&'a Params>,
}

impl Skipped {
    /// Groups of one name and one reason, in the order in which each first comes.
    ///
    /// ```
    /// use kumiki_measure::schema::{Params, Skipped};
    ///
    /// let skipped = |case: &str, reason: &str| Skipped {
    ///     case: case.to_owned(),
    ///     params: Params::new(),
    ///     reason: reason.to_owned(),
    /// };
    /// let all = [skipped("a", "one cpu"), skipped("b", "one cpu"), skipped("a", "one cpu")];
    /// let together = Skipped::together(&all);
    /// let told: Vec<_> = together.iter().map(|one| (one.case, one.params.len())).collect();
    /// assert_eq!(told, [("a", 2), ("b", 1)]);
    /// assert_eq!(Skipped::together(&[skipped("a", "x"), skipped("a", "y")]).len(), 2);
    /// ```
    pub fn together(skipped: &[Skipped]) -> Vec<Skips<'_>> {
        let mut all: IndexMap<[&str; 2], Vec<&Params>> = IndexMap::new();
        for Skipped { case, params, reason } in skipped {
            all.entry([case, reason]).or_default().push(params);
        }
        all.into_iter().map(|([case, reason], params)| Skips { case, reason, params }).collect()
    }
}

/// Machine on which it was measured, and its state. What could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Kernel build string.
    pub kernel_version: String,
    /// `PRETTY_NAME` of the distribution.
    pub os: String,
    /// Processor's own name.
    pub cpu_model: String,
    /// Cpus online.
    pub cpus: usize,
    /// Cpus that this process may use.
    pub cpus_allowed: String,
    /// Physical cores.
    pub cores: usize,
    /// Hardware threads of a core.
    pub threads_per_core: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Last-level cache, bytes.
    pub cache_bytes: Option<u64>,
    /// Name of the hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// Time stamp counter, Hz, as calibrated.
    pub tsc_hz: Option<f64>,
    /// Name of the clock that took the samples.
    pub clock: String,
    /// cpufreq governor.
    pub governor: Option<String>,
    /// Turbo or boost on.
    pub boost: Option<bool>,
    /// Transparent huge pages: always, madvise, never.
    pub transparent_huge_pages: Option<String>,
    /// Active mitigations of processor faults, one a line.
    pub mitigations: Vec<String>,
    /// Load average of the last minute at the start.
    pub load: Option<f64>,
    /// File system of the folder that cases make their files in.
    pub scratch: String,
    /// Raw cache-line round trip at the start between the cpus used, nanoseconds.
    pub round_trip_ns: Option<f64>,
}

/// Settings and times of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// A name that a person gave.
    pub label: Option<String>,
    /// RFC 3339, UTC.
    pub started: String,
    /// Seconds from start to end.
    pub seconds: f64,
    /// `quick`, `default` or `full`.
    pub mode: String,
    /// The command line that makes it again.
    pub command: String,
    /// Version of Kumiki.
    pub version: String,
    /// False if it was interrupted: what was done is here, the rest is missing.
    pub complete: bool,
    /// Peak memory of the tool beside what a case asks for, bytes.
    pub peak_bytes: Option<u64>,
    /// Processes that used the cpus meanwhile, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
}

/// Processes of one name that are no part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// The command's name, as the kernel keeps it.
    pub name: String,
    /// Processor time during the run, as far as it was seen.
    pub cpu_seconds: f64,
    /// Cpus on which they were seen.
    pub cpus: Vec<usize>,
}

/// A whole result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Settings and times of the run.
    #[serde(default)]
    pub run: Run,
    /// Machine on which it ran.
    pub machine: Machine,
    /// Rows that were measured.
    pub rows: Vec<Row>,
    /// Growth with each size.
    #[serde(default)]
    pub slopes: Vec<Slope>,
    /// Cases that could not run.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}
