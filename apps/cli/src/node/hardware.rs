//! `kumiki node try-hardware`: a first session with a node on a machine where none has run, and its record.
//!
//! Each step is one of this program's own commands, as a person would type it. The record is on the disk before a
//! step begins: of a machine that does not come back it says in which.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kumiki_sys::sentence::with_causes;
use serde::Serialize;

use crate::destination::{Destination, STDOUT};
use crate::{Verdict, output};

/// Name of the image and of the node.
const NAME: &str = "try-hardware";
/// The most that is kept of what a step says, bytes.
const SAID_MOST: usize = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// Do it: a node's kernel reaches the whole machine, which may hang or be reset
    #[arg(long)]
    yes: bool,
    /// Kernel of the node [default: this machine's]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// osnode-guest.ko built for this kernel [default: looked for in /lib/modules]
    #[arg(long, value_name = "FILE")]
    guest_module: Option<PathBuf>,
    /// Cpu of the node, its only one [default: the last one]
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Memory of the node
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: String,
    /// Times that it is stopped and started again
    #[arg(long, value_name = "N", default_value_t = 10)]
    starts: u32,
    /// File for the record
    #[arg(long, value_name = "FILE", default_value = "kumiki-hardware.json")]
    output: PathBuf,
}

/// Record that is sent to whoever maintains the page of machines.
#[derive(Debug, Serialize)]
struct Record {
    version: &'static str,
    machine: Vec<(String, String)>,
    steps: Vec<Step>,
    /// Lines of this machine's kernel log from the first step on.
    kernel_log: String,
    /// True once all steps have ended well.
    good: bool,
}

#[derive(Debug, Serialize)]
struct Step {
    command: String,
    /// Nothing while it runs.
    seconds: Option<f64>,
    status: Option<i32>,
    said: String,
}

/// Files that say which machine it is. Those that are not there are left out.
const FACTS: [(&str, &str); 11] = [
    ("maker", "/sys/class/dmi/id/sys_vendor"),
    ("product", "/sys/class/dmi/id/product_name"),
    ("board", "/sys/class/dmi/id/board_name"),
    ("firmware", "/sys/class/dmi/id/bios_version"),
    ("kernel", "/proc/version"),
    ("command line", "/proc/cmdline"),
    ("cpus", "/sys/devices/system/cpu/online"),
    ("threads", "/sys/devices/system/cpu/smt/active"),
    ("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("lockdown", "/sys/kernel/security/lockdown"),
    ("memory", "/proc/meminfo"),
];

pub(super) fn run(args: &TryArgs) -> Result<Verdict> {
    ensure!(
        args.yes,
        "a node's kernel reaches the whole machine, which may hang or be reset: on one that you can afford to \
         lose, add --yes (docs/nodes-on-hardware.md)"
    );
    ensure!(
        args.output != Path::new(STDOUT),
        "--output {STDOUT}: the record has to be on a disk before each step; name a file"
    );
    let mut log = KernelLog::from_now()?;
    let record = Record {
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        steps: Vec::new(),
        kernel_log: String::new(),
        good: false,
    };
    let mut session = Session { record, file: &args.output };
    let good = steps(args).into_iter().all(|words| {
        session.step(&words).unwrap_or_else(|error| {
            output::talk(with_causes(error.as_ref()));
            false
        })
    });
    if !good {
        // What a failed step has left; that nothing is there is no fault.
        let _ = session.step(&["node", "logs", NAME].map(str::to_owned));
        let _ = session.step(&["node", "rm", NAME, "--force"].map(str::to_owned));
        let _ = session.step(&["image", "rm", NAME].map(str::to_owned));
    }
    session.record.kernel_log = log.since()?;
    session.record.good = good;
    session.keep()?;
    output::line(format!("the record is {}", args.output.display()))?;
    Ok(if good { Verdict::Fine } else { Verdict::Negative })
}

/// Commands of this program, each of which must end with 0.
fn steps(args: &TryArgs) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let path = |path: &Path| path.display().to_string();
    let mut add = words("image add try-hardware --kernel");
    add.push(path(&args.kernel.clone().unwrap_or_else(own_kernel)));
    if let Some(module) = &args.guest_module {
        add.extend(["--guest-module".to_owned(), path(module)]);
    }
    let mut create = words("node create try-hardware --image try-hardware --memory");
    create.push(args.memory.clone());
    if let Some(cpu) = args.cpu {
        create.extend(["--cpu-list".to_owned(), cpu.to_string()]);
    }
    let start = words("node start try-hardware --json");
    let remove = words("node rm try-hardware");
    let mut steps = vec![words("node ls"), add, create.clone()];
    // Taken and given back, before anything is started.
    steps.extend([remove.clone(), create, start.clone()]);
    steps.extend([words("node exec try-hardware -- uname -a"), words("node logs try-hardware")]);
    for _ in 0..args.starts {
        steps.extend([words("node stop try-hardware"), start.clone()]);
        steps.push(words("node exec try-hardware -- true"));
    }
    steps.extend([words("node kill try-hardware"), remove, words("image rm try-hardware")]);
    steps
}

/// The kernel that runs here, as distributions name its file.
fn own_kernel() -> PathBuf {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()))
}

struct Session<'a> {
    record: Record,
    file: &'a Path,
}

impl Session<'_> {
    /// Runs a command of this program; true if it ended with 0.
    fn step(&mut self, words: &[String]) -> Result<bool> {
        let command = format!("kumiki {}", words.join(" "));
        output::talk(&command);
        self.record.steps.push(Step { command, seconds: None, status: None, said: String::new() });
        self.keep()?;
        let program = std::env::current_exe().context("finding this program")?;
        let begin = Instant::now();
        let ended = Command::new(program).args(words).output().context("running this program")?;
        let step = self.record.steps.last_mut().expect("it was pushed");
        step.seconds = Some(begin.elapsed().as_secs_f64());
        step.status = ended.status.code();
        let said = [ended.stdout, ended.stderr].concat();
        step.said = String::from_utf8_lossy(&said[..said.len().min(SAID_MOST)]).into_owned();
        let good = ended.status.success();
        if !good {
            output::talk(format_args!("{}: {}", ended.status, step.said.trim()));
        }
        self.keep()?;
        Ok(good)
    }

    /// Has the record as it is on the disk, beside its predecessor until it is whole: the machine may stop at any time.
    fn keep(&self) -> Result<()> {
        Destination::new(self.file)?.write(|out| -> Result<()> {
            serde_json::to_writer_pretty(&mut *out, &self.record)?;
            Ok(out.write_all(b"\n")?)
        })?;
        // Else its name may still be the predecessor's.
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.with_context(|| format!("syncing {}", folder.display()))
    }
}

/// Facts about the machine.
fn machine() -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for field in
        ["vendor_id", "model name", "cpu family", "model", "stepping", "microcode", "flags"]
    {
        let line = processor.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == field).then(|| value.trim().to_owned())
        });
        facts.extend(line.map(|value| (field.to_owned(), value)));
    }
    for (name, file) in FACTS {
        if let Ok(text) = fs::read_to_string(file) {
            let first = text.lines().next().unwrap_or_default();
            facts.push((name.to_owned(), first.to_owned()));
        }
    }
    facts
}

/// This machine's kernel log.
struct KernelLog {
    file: File,
}

impl KernelLog {
    const DEVICE: &str = "/dev/kmsg";

    /// The log from now on.
    fn from_now() -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let mut file = options.open(Self::DEVICE).context(Self::DEVICE)?;
        file.seek(SeekFrom::End(0)).context(Self::DEVICE)?;
        Ok(KernelLog { file })
    }

    /// Lines since then.
    fn since(&mut self) -> Result<String> {
        let mut said = String::new();
        let mut record = [0; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(bytes) => said += &String::from_utf8_lossy(&record[..bytes]),
                // Some were said faster than we read.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(said),
                Err(error) => return Err(error).context(Self::DEVICE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: TryArgs,
    }

    fn args(words: &[&str]) -> TryArgs {
        Words::parse_from([&["try"], words].concat()).args
    }

    #[test]
    fn nothing_is_tried_before_somebody_has_said_so() {
        let error = run(&args(&[])).err().unwrap().to_string();
        assert!(error.contains("--yes") && error.contains("may hang"), "{error}");
    }

    #[test]
    fn each_start_is_followed_by_a_command_and_all_is_given_back() {
        let steps = steps(&args(&["--yes", "--starts", "3", "--cpu", "7"]));
        let lines: Vec<_> = steps.iter().map(|words| words.join(" ")).collect();
        let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        assert_eq!((count("node start"), count("-- true"), count("node rm")), (4, 3, 2));
        assert_eq!(count("--cpu-list 7"), 2);
        assert_eq!(lines.last().unwrap(), "image rm try-hardware");
    }

    #[test]
    fn a_record_says_which_step_began_and_did_not_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record");
        let step = Step {
            command: "kumiki node start".into(),
            seconds: None,
            status: None,
            said: String::new(),
        };
        let record = Record {
            version: "1",
            machine: machine(),
            steps: vec![step],
            kernel_log: String::new(),
            good: false,
        };
        Session { record, file: &file }.keep().unwrap();
        let text: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert!(text["steps"][0]["seconds"].is_null() && text["good"] == false, "{text}");
        assert!(text["machine"].as_array().unwrap().iter().any(|fact| fact[0] == "kernel"));
    }
}
