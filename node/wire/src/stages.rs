//! How long a start took, stage by stage.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::AGENT;
use crate::module::abi;
use crate::window::Window;

/// Time stamps of a start in the order in which they are taken.
pub const STAMPS: [usize; 5] =
    [abi::STAMP_SIPI, abi::STAMP_TRAMPOLINE, abi::STAMP_INIT, abi::STAMP_MODULE, abi::STAMP_READY];

/// Stage that a start with these stamps has reached, for an error.
pub fn reached(stamps: [u64; 5]) -> &'static str {
    match stamps {
        [_, 0, ..] => "not even that its cpu began",
        [.., 0, 0] => "and its kernel began and has not loaded osnode-guest.ko",
        [.., 0] => "and its module is loaded and its agent has not begun",
        _ => "and its agent has begun",
    }
}

/// Times of the stages of a start, ms.
#[derive(Clone, Debug, Serialize)]
pub struct Stages {
    /// The load phase: kernel, initramfs and tables come into the node's memory.
    pub load_ms: f64,
    /// Parts of that.
    #[serde(flatten)]
    pub parts: LoadParts,
    /// Time from the first interrupt to the cpu until the host saw the agent ready: the sum of what
    /// follows, and the doorbell.
    pub start_ms: f64,
    /// Part of that which kept this machine's kernel: interrupts to the cpu.
    pub execute_ms: f64,
    /// Time from the SIPI to the last instruction before the kernel's own.
    pub trampoline_ms: f64,
    /// The kernel, until its clock runs: it decompresses itself, if it has to, and
    /// does its first work. With `kernel_ms`, if the log does not tell.
    pub early_ms: f64,
    /// The kernel by its clock, up to the first process.
    pub kernel_ms: f64,
    /// The first process, up to the module.
    pub init_ms: f64,
    /// Time from there to the agent's readiness.
    pub agent_ms: f64,
    /// Devices that could not be served, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A load phase by the rows of the paper's Table 3, ms. Keeping what was read is not of the
/// load phase: it is done while the node's kernel starts.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LoadParts {
    /// (1) The kernel's file is read; nothing where an image is resident.
    pub read_kernel_ms: f64,
    /// (2) It is put into memory that stays, for the next start.
    pub place_kernel_ms: f64,
    /// (3) The kernel is copied into the node's memory, where the paper copies it into a
    /// buffer, and from there in its execution phase.
    pub copy_kernel_ms: f64,
    /// (4) to (6), the same of the initramfs.
    pub read_initramfs_ms: f64,
    /// See above.
    pub place_initramfs_ms: f64,
    /// See above.
    pub copy_initramfs_ms: f64,
    /// (7) What goes where is worked out; tables and parameters are written.
    pub plan_ms: f64,
    /// Keeping in all: memory is taken for it, (2), (5), a hash, the seal.
    pub keep_ms: f64,
}

impl Stages {
    /// Them, of a node, as a person is told.
    pub fn told_of(&self, node: &str) -> String {
        format!(
            "node {node} is ready: loaded in {:.0} ms, kernel {:.0} ms, agent {:.0} ms",
            self.load_ms,
            self.trampoline_ms + self.early_ms + self.kernel_ms,
            self.init_ms + self.agent_ms
        )
    }
}

impl LoadParts {
    /// Reading both files, ms.
    pub fn read_ms(&self) -> f64 {
        self.read_kernel_ms + self.read_initramfs_ms
    }

    /// Copying both into the node's memory, ms.
    pub fn copy_ms(&self) -> f64 {
        self.copy_kernel_ms + self.copy_initramfs_ms
    }

    /// Rest of a load phase of this length that none of these took, ms.
    pub fn other_ms(&self, load_ms: f64) -> f64 {
        (load_ms - self.read_ms() - self.copy_ms() - self.plan_ms).max(0.0)
    }
}

/// Does something and adds its time, ms.
pub fn timed<T>(ms_so_far: &mut f64, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    *ms_so_far += ms(begin.elapsed());
    done
}

/// A load phase under way.
#[derive(Debug)]
pub struct Loading {
    begin: Instant,
    pub parts: LoadParts,
    whole: Duration,
}

impl Loading {
    pub fn since(begin: Instant) -> Self {
        Loading { begin, parts: LoadParts::default(), whole: Duration::ZERO }
    }

    pub fn done(self) -> Self {
        Loading { whole: self.begin.elapsed(), ..self }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Stages {
    /// Stages of a start that has come to its end.
    pub fn of(load: Loading, execute: Duration, ready: Duration, window: &Window) -> Self {
        Stages::new(load, execute, ready, STAMPS.map(|stamp| window.stamp(stamp)))
            .with_log(&window.log())
    }

    /// The time stamps tell the stages' shares of the time that passed here: a
    /// counter's frequency, as the kernel has it, may be a bad guess.
    fn new(load: Loading, execute: Duration, ready: Duration, stamps: [u64; 5]) -> Self {
        let start_ms = ms(ready);
        let whole = stamps[4].saturating_sub(stamps[0]).max(1) as f64;
        let stage = |n: usize| stamps[n + 1].saturating_sub(stamps[n]) as f64 / whole * start_ms;
        Stages {
            load_ms: ms(load.whole),
            parts: load.parts,
            start_ms,
            execute_ms: ms(execute),
            trampoline_ms: stage(0),
            early_ms: 0.0,
            kernel_ms: stage(1),
            init_ms: stage(2),
            agent_ms: stage(3),
            problems: Vec::new(),
        }
    }

    /// Parts the kernel's time by its log, whose clock begins after the early part.
    fn with_log(mut self, log: &[u8]) -> Self {
        if let Some(clock_ms) = first_process_ms(&String::from_utf8_lossy(log)) {
            self.early_ms = (self.kernel_ms - clock_ms).max(0.0);
            self.kernel_ms -= self.early_ms;
        }
        self
    }
}

/// Time, by its own clock, at which the kernel started the first process.
fn first_process_ms(log: &str) -> Option<f64> {
    let run = format!("Run {} as init process", AGENT);
    let line = log.lines().find(|line| line.contains(&run))?;
    let seconds = line.split_once('[')?.1.split_once(']')?.0.trim();
    Some(seconds.parse::<f64>().ok()? * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(stamps: [u64; 5]) -> Stages {
        let loading = Loading::since(Instant::now()).done();
        Stages::new(loading, Duration::from_millis(11), Duration::from_secs(4), stamps)
    }

    #[test]
    fn stages_share_the_time_that_passed() {
        let known = stages([100, 110, 170, 180, 200]);
        assert_eq!(
            [known.start_ms, known.trampoline_ms, known.kernel_ms, known.init_ms, known.agent_ms],
            [4000.0, 400.0, 2400.0, 400.0, 800.0]
        );
        // A node may write what it likes there.
        let odd = stages([100, 5, u64::MAX, 0, 0]);
        assert!(odd.kernel_ms.is_finite() && odd.agent_ms == 0.0);
    }

    #[test]
    fn what_no_row_of_the_load_phase_has_is_other() {
        let mut parts = LoadParts { plan_ms: 1.0, place_kernel_ms: 50.0, ..LoadParts::default() };
        timed(&mut parts.read_kernel_ms, || std::thread::sleep(Duration::from_millis(3)));
        assert!(parts.read_ms() >= 3.0);
        parts.read_kernel_ms = 4.0;
        (parts.copy_kernel_ms, parts.copy_initramfs_ms) = (2.0, 2.5);
        assert_eq!((parts.copy_ms(), parts.other_ms(10.0), parts.other_ms(1.0)), (4.5, 0.5, 0.0));
    }

    #[test]
    fn an_error_tells_how_far_a_start_came() {
        assert!(reached([1, 0, 0, 0, 0]).contains("cpu began"));
        assert!(reached([1, 2, 0, 0, 0]).contains("osnode-guest.ko"));
        assert!(reached([1, 2, 4, 3, 0]).contains("agent has not"));
        assert!(reached([1, 2, 4, 3, 5]).ends_with("agent has begun"));
    }

    #[test]
    fn the_log_tells_when_the_kernels_clock_began() {
        let known = stages([100, 110, 170, 180, 200]);
        let log = b"[    0.000000] Linux version 6.1\n\
                    [    0.900000] Run /bin/kumiki as init process\n";
        let parted = known.clone().with_log(log);
        assert_eq!((parted.early_ms, parted.kernel_ms), (1500.0, 900.0));
        assert_eq!(known.clone().with_log(b"nothing").kernel_ms, 2400.0);
        // Its clock may be a bad guess, too.
        let fast = known.with_log(b"[    9.0] Run /bin/kumiki as init process\n");
        assert_eq!((fast.early_ms, fast.kernel_ms), (0.0, 2400.0));
    }
}
