//! Programs drawn by numbers against the module `parasc`, in one machine of the lab after the
//! other: `apps/cli/tests/lab/parasc/drawn.c` says what they do and what is judged.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use kumiki_lab::{Cache, KernelName, Talk};

use crate::debian;
use crate::run::{cargo, program, root, run, target_folder};

/// What `cargo xtask stress parasc-kernel` is told.
#[derive(Debug, Args)]
pub(crate) struct Drawn {
    /// For so long; part of one, too
    #[arg(long, default_value_t = 8.0)]
    hours: f64,
    /// Number of the first program [default: the clock's seconds]
    #[arg(long)]
    seed: Option<u64>,
    /// Kernels that take turns, by the lab's names [default: 6.1 6.12]
    #[arg(long = "kernel", value_name = "KERNEL")]
    kernels: Vec<KernelName>,
    /// Seconds of one machine
    #[arg(long, default_value_t = 300)]
    turn: u64,
}

const TESTS: &str = "apps/cli/tests/lab/parasc";
/// What a machine may need beside its turn: it starts, builds the module, ends; and a program
/// that does not end is waited for.
const BESIDE: u64 = 900;

/// In a shell of the machine: the module can be unloaded after it, so nothing is left inside.
const INSIDE: &str = "echo begun; ./drawn $FIRST $SECONDS && rmmod parasc";
/// The shell's first word: a machine without it has tried nothing.
const BEGUN: &str = "begun";
/// Number of machines that do not start before any has, which says that none will: a host that is busy may take
/// longer than the lab waits.
const NOT_STARTED: u32 = 3;
/// Rest after one that did not: who keeps this host busy may end.
const REST: Duration = Duration::from_secs(60);

/// Runs them until the time is over, or one machine has not been well.
pub(crate) fn drawn(asked: &Drawn) -> Result<ExitCode> {
    debian::install("lab")?;
    run(&mut cargo("build --quiet --locked --package kumiki-cli --bin kumiki"))?;
    let own = ["6.1", "6.12"].map(str::parse).into_iter().collect::<Result<Vec<_>, _>>()?;
    let kernels = if asked.kernels.is_empty() { &own } else { &asked.kernels };
    // One that is built first takes none of the time.
    for kernel in kernels {
        kernel.get(&Cache::of_user()?, Talk::to(&|text| eprintln!("{text}")))?;
    }
    let (folder, program) = compiled()?;
    let kept = folder.join(format!("{}.log", seconds_now()));
    let mut log = File::create(&kept).with_context(|| format!("making {}", kept.display()))?;
    eprintln!("numbers are kept in {}", kept.display());
    let end = Instant::now() + Duration::from_secs_f64(asked.hours * 3600.0);
    let mut first = asked.seed.unwrap_or_else(seconds_now);
    let mut count = Count::default();
    for kernel in kernels.iter().cycle() {
        let left = end.saturating_duration_since(Instant::now()).as_secs();
        if left == 0 {
            break;
        }
        let turn = Turn { kernel, first, seconds: left.min(asked.turn) };
        writeln!(log, "{kernel}: from {first} on for {} s", turn.seconds)?;
        let outcome = turn.run(&program)?;
        let line = outcome.line(&turn);
        writeln!(log, "{line}")?;
        println!("{kernel}: {line}");
        match outcome {
            DrawnOutcome::Well(said) => {
                first = 1 + last(&said).context("a machine has said nothing of its programs")?;
                count.well += 1;
            }
            DrawnOutcome::NotStarted(_) => {
                count.not_started += 1;
                ensure!(
                    !count.is_hopeless(),
                    "{NOT_STARTED} machines have not started, and none has"
                );
                let left = end.saturating_duration_since(Instant::now());
                std::thread::sleep(REST.min(left));
            }
            DrawnOutcome::Wrong(_) => bail!("a machine has not been well: {}", kept.display()),
        }
    }
    writeln!(log, "{count}")?;
    println!("{count}; numbers are kept in {}", kept.display());
    ensure!(count.well > 0, "no machine has started: nothing is known of the module");
    Ok(ExitCode::SUCCESS)
}

/// Machines so far.
#[derive(Default)]
struct Count {
    well: u32,
    not_started: u32,
}

impl Count {
    /// True if this host seems to start none. One of many that does not is a busy host's.
    fn is_hopeless(&self) -> bool {
        self.well == 0 && self.not_started >= NOT_STARTED
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} machines well, {} not started", self.well, self.not_started)
    }
}

/// Programs of one machine.
struct Turn<'a> {
    kernel: &'a KernelName,
    first: u64,
    seconds: u64,
}

/// End of a machine's turn.
enum DrawnOutcome {
    /// Well, and its words.
    Well(String),
    /// Ended before the programs, and its words: nothing is known of the module.
    NotStarted(String),
    /// Wrong, and the words that say how.
    Wrong(String),
}

impl DrawnOutcome {
    /// Judges how the lab ended, by what it and the machine have said.
    fn of(is_well: bool, said: String, wrong: &str) -> Self {
        match said.lines().any(|line| line == BEGUN) {
            true if is_well => DrawnOutcome::Well(said),
            true => DrawnOutcome::Wrong(said + wrong),
            false => DrawnOutcome::NotStarted(said + wrong),
        }
    }

    /// Line that is kept of it.
    fn line(&self, turn: &Turn<'_>) -> String {
        let Turn { kernel, first, .. } = turn;
        match self {
            DrawnOutcome::Well(said) => said.trim_start_matches(BEGUN).trim().to_owned(),
            DrawnOutcome::NotStarted(why) => {
                format!("has not started, goes on with the next: {why}")
            }
            DrawnOutcome::Wrong(why) => format!(
                "from {first} on, not as it should:\n{why}\nagain: cargo xtask stress \
                 parasc-kernel --seed {first} --kernel {kernel}; the kernel's log names the last \
                 program"
            ),
        }
    }
}

impl Turn<'_> {
    /// Makes a machine, and runs the programs in it.
    fn run(&self, drawn: &Path) -> Result<DrawnOutcome> {
        let kumiki = target_folder()?.join("debug/kumiki");
        let mut lab = program(&kumiki.to_string_lossy(), ["lab", "run", "--module", "parasc"]);
        lab.args(["--cpus", "4", "--memory", "1G", "--kernel", &self.kernel.to_string()]);
        lab.args(["--timeout", &(self.seconds + BESIDE).to_string()]);
        lab.args(["--env", &format!("FIRST={}", self.first)]);
        lab.args(["--env", &format!("SECONDS={}", self.seconds), "--in"]).arg(drawn);
        lab.args(["--", "sh", "-c", INSIDE]).stderr(Stdio::piped());
        let output = lab.output().context("running the lab")?;
        let wrong = format!("{}\n{}", text(&output.stderr), output.status);
        Ok(DrawnOutcome::of(output.status.success(), text(&output.stdout), &wrong))
    }
}

/// Number of the last program, of `programs FIRST to LAST: …`.
fn last(said: &str) -> Option<u64> {
    let words = said.lines().find_map(|line| line.strip_prefix("programs "))?;
    words.split_once(" to ")?.1.split_once(':')?.0.parse().ok()
}

/// The program, and the folder that it is in.
fn compiled() -> Result<(PathBuf, PathBuf)> {
    let folder = target_folder()?.join("parasc-kernel");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let made = folder.join("drawn");
    let mut cc = program("cc", ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    cc.arg("-I").arg(root().join("node/kernel/uapi"));
    run(cc.arg(root().join(TESTS).join("drawn.c")).arg("-o").arg(&made))?;
    Ok((folder, made))
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_does_not_start_says_nothing_of_the_module() {
        let of =
            |is_well, said: &str| DrawnOutcome::of(is_well, said.to_owned(), "exit status: 125");
        assert!(matches!(of(true, "begun\nprograms 1 to 2: x\n"), DrawnOutcome::Well(_)));
        assert!(matches!(of(false, "begun\n"), DrawnOutcome::Wrong(why) if why.contains("125")));
        assert!(matches!(of(false, ""), DrawnOutcome::NotStarted(_)));
    }

    #[test]
    fn a_machine_among_many_that_does_not_start_ends_nothing() {
        let of = |well, not_started| Count { well, not_started };
        assert!(!of(0, 2).is_hopeless() && of(0, 3).is_hopeless() && !of(1, 30).is_hopeless());
        assert_eq!(of(7, 2).to_string(), "7 machines well, 2 not started");
    }

    #[test]
    fn the_next_machine_goes_on_where_the_last_one_ended() {
        let said = "begun\nprograms 1795 to 1830: as it should, 77 calls made inside\n";
        assert_eq!(last(said), Some(1830));
        assert_eq!(last("1830 to 1840: x\n"), None);
    }
}
