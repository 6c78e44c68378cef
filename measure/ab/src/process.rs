//! One run of a command, and what it used.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kumiki_measure::others::{Others, Work};
use kumiki_measure::schema::Results;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Counts};
use crate::error::{Error, Result};
use crate::outlived::Before;
use crate::side::Side;
use crate::usage;

/// A machine that slept lost this much between two clocks, of which one stands still then.
const SLEPT: Duration = Duration::from_millis(50);

/// File that says how long this thread waited for a cpu.
const OWN: &str = "/proc/thread-self/schedstat";

/// Longest part of a command's standard error that is repeated, bytes.
const SAID: u64 = 600;

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Exit with success.
    Success,
    /// Exit with this status.
    Status(i32),
    /// A signal ended it.
    Signal(i32),
    /// The machine slept meanwhile, so its time is not its own.
    Slept,
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => End::Success,
            (Some(code), _) => End::Status(code),
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        }
    }

    /// The end in words.
    pub fn words(self) -> String {
        match self {
            End::Success => "success".to_owned(),
            End::Status(code) => format!("exit status {code}"),
            End::Signal(signal) => format!("killed by signal {signal}"),
            End::Slept => "the machine slept".to_owned(),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time from before the start until it had ended, nanoseconds.
    pub wall_ns: f64,
    /// Processor time in user mode, of it, of the children that it waited for, and of those that
    /// outlived it and ended within as long as it took; where perf_event_open(2) is allowed, also of children
    /// that nobody waits for, and of those that still run then.
    pub user_ns: f64,
    /// Time in the kernel, nanoseconds: its system calls and faults.
    pub system_ns: f64,
    /// The most memory it had, bytes; nothing where that is no more than this process has, from
    /// which the kernel begins to count for a child.
    pub max_rss_bytes: Option<u64>,
    /// Page faults without and with a disk.
    pub faults: [u64; 2],
    /// Times that it gave the cpu up, and that it was taken from it.
    pub switches: [u64; 2],
    /// Blocks of 512 bytes read from and written to a disk.
    #[serde(default)]
    pub blocks: [u64; 2],
    /// Counts of the processor.
    #[serde(default, skip_serializing_if = "Counts::is_none")]
    pub counts: Counts,
    /// Time that its first thread was ready but others ran, and that who waited for it was,
    /// nanoseconds. The second may be a part of the first, or after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<[f64; 2]>,
    /// Share of its wall time that others took from it: time its first thread waited for a cpu that
    /// others had, or, where the kernel counts it, time all of its cpus worked for others or were
    /// taken by a hypervisor, whichever is more.
    pub others: Option<f64>,
    /// End of the run.
    pub end: End,
    /// Length and hash of what it wrote to standard output.
    pub output: (u64, u64),
    /// True for the first run of its pair.
    pub first: bool,
    /// Figure that is compared instead of wall time, where the command measures by itself: the
    /// quiet cost that its result tells, the geometric mean of its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Sample {
    /// Figure that is compared: wall time, nanoseconds, unless the command measures by itself.
    pub fn compared(&self) -> f64 {
        self.cost.unwrap_or(self.wall_ns)
    }

    /// Processor time, nanoseconds.
    pub fn cpu_ns(&self) -> f64 {
        self.user_ns + self.system_ns
    }
}

#[cfg(test)]
impl Sample {
    /// Run that used nothing.
    pub(crate) fn none() -> Self {
        Sample {
            wall_ns: 0.0,
            user_ns: 0.0,
            system_ns: 0.0,
            max_rss_bytes: None,
            faults: [0; 2],
            switches: [0; 2],
            blocks: [0; 2],
            counts: Counts::default(),
            waited_ns: None,
            others: None,
            end: End::Success,
            output: (0, 0),
            first: false,
            cost: None,
        }
    }
}

/// The command that runs, 0 if none does.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Ends the command that runs: who leaves at once leaves nothing behind that nobody waits for.
pub fn end_running() {
    let pid = i32::try_from(RUNNING.load(Relaxed)).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Starts commands one after the other.
pub(crate) struct Runner {
    others: Option<Others>,
    output: File,
    said: File,
    cpus: usize,
    counters: Counters,
    begin: Before,
}

impl Runner {
    /// Makes a runner on these cpus.
    pub(crate) fn new(cpus: &[usize]) -> Result<Self> {
        let file = || {
            tempfile::tempfile().map_err(|source| Error::Os {
                what: "a temporary file for what the commands print",
                source,
            })
        };
        // Who outlives a command is then ours, and seen.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        Ok(Runner {
            others: Others::new(cpus).ok(),
            output: file()?,
            said: file()?,
            cpus: cpus.len(),
            counters: Counters::open(),
            begin: Before::now(),
        })
    }

    /// True if instructions are counted.
    pub(crate) fn counts_instructions(&self) -> bool {
        self.counters.instructions()
    }

    /// Runs a side once.
    pub(crate) fn run(&mut self, side: &Side, name: char, first: bool) -> Result<Sample> {
        let failed = |source| Error::Start { side: name, command: side.command(), source };
        for file in [&mut self.output, &mut self.said] {
            file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        }
        let mut command = command(side);
        let again = |file: &File| file.try_clone().map(Stdio::from);
        command.stdin(Stdio::null());
        command.stdout(again(&self.output).map_err(failed)?);
        command.stderr(again(&self.said).map_err(failed)?);
        // Whoever outlived an earlier run and has ended since is waited for, and of no run.
        self.begin.running();
        let children = Before::now();
        let before = self.read();
        let slept = asleep();
        let own = usage::waited_ns(OWN);
        let counted = self.counters.read();
        let started = self.counters.started_ns();
        let start = now(ClockId::Monotonic);
        let child = command.spawn().map_err(failed)?;
        RUNNING.store(child.id(), Relaxed);
        let waited = usage::wait(child.id());
        RUNNING.store(0, Relaxed);
        let (status, mut usage, waited) = waited.map_err(|source| Error::Os {
            what: "waiting for a command (is SIGCHLD ignored here, or does somebody else wait for it?)",
            source,
        })?;
        let wall = now(ClockId::Monotonic).saturating_sub(start);
        let own = own.zip(usage::waited_ns(OWN)).map(|(before, after)| after - before);
        let slept = asleep().saturating_sub(slept) > SLEPT;
        let after = self.read();
        usage.add(&children.usage(wall));
        if let Some((before, after)) = started.zip(self.counters.started_ns()) {
            usage.add_untold(after - before);
        }
        let counts = self.counters.read().since(&counted);
        let wall_ns = wall.as_nanos() as f64;
        let worked = before
            .zip(after)
            .map(|(before, after)| after.since(&before) / wall_ns / self.cpus as f64);
        let others = worked.into_iter().chain(waited.map(|ns| ns / wall_ns)).reduce(f64::max);
        let end = if slept { End::Slept } else { End::of(status) };
        // No two results are the same bytes.
        let (output, cost) = match side.measures && end == End::Success {
            true => ((0, 0), Some(self.cost(side, name)?)),
            false => (digest(&mut self.output).map_err(failed)?, None),
        };
        Ok(Sample {
            wall_ns,
            user_ns: usage.cpu_ns[0],
            system_ns: usage.cpu_ns[1],
            max_rss_bytes: Some(usage.max_rss_kib)
                .filter(|most| *most > usage::own_kib())
                .map(|kib| kib * 1024),
            faults: usage.faults,
            switches: usage.switches,
            blocks: usage.blocks,
            counts,
            waited_ns: waited.zip(own).map(|(its, own)| [its, own]),
            others,
            end,
            output,
            first,
            cost,
        })
    }

    /// Cost that the last run, a `kumiki measure --json`, found.
    fn cost(&mut self, side: &Side, name: char) -> Result<f64> {
        let failed = |why: String| Error::NoResult { side: name, command: side.command(), why };
        let mut text = String::new();
        let read = self.output.rewind().and_then(|()| self.output.read_to_string(&mut text));
        read.map_err(|e| failed(e.to_string()))?;
        let results: Results = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
        let logs = results.rows.iter().map(|row| {
            let cost = row.quiet.max(f64::MIN_POSITIVE).ln();
            if row.unit.less_is_better() { cost } else { -cost }
        });
        let rows = results.rows.len();
        if rows == 0 {
            return Err(failed("its result has no row".to_owned()));
        }
        Ok((logs.sum::<f64>() / rows as f64).exp())
    }

    fn read(&self) -> Option<Work> {
        self.others.as_ref()?.read().ok()
    }

    /// The end of what the last run wrote to standard error.
    pub(crate) fn said(&mut self) -> String {
        let length = self.said.seek(SeekFrom::End(0)).unwrap_or(0);
        let mut bytes = Vec::new();
        let _ = self.said.seek(SeekFrom::Start(length.saturating_sub(SAID)));
        let _ = self.said.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Processes that the commands left behind and that still run.
    pub(crate) fn left(&self) -> usize {
        self.begin.running()
    }
}

/// The command, its standard streams not set yet.
fn command(side: &Side) -> Command {
    let mut command = match side.shell {
        true => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(side.words.join(" "));
            shell
        }
        false => {
            let mut words = side.words.iter();
            let mut command = Command::new(words.next().map_or("", String::as_str));
            command.args(words);
            command
        }
    };
    if side.shell {
        command.arg0("sh");
    }
    command.envs(side.env.iter().map(|(name, value)| (name, value)));
    command
}

/// Runs a shell line and waits for it.
pub(crate) fn prepare(line: &str) -> Result<()> {
    let failed = |how| Error::Prepare { command: line.to_owned(), how };
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(End::of(status).words())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Time for which this machine has slept since it started.
fn asleep() -> Duration {
    now(ClockId::Boottime).saturating_sub(now(ClockId::Monotonic))
}

fn digest(file: &mut File) -> std::io::Result<(u64, u64)> {
    file.rewind()?;
    let (mut hasher, mut buffer, mut length) = (DefaultHasher::new(), [0; 16384], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, hasher.finish())),
            n => {
                hasher.write(&buffer[..n]);
                length += n as u64;
            }
        }
    }
}
