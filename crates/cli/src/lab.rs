//! `kumiki lab`: commands in a QEMU machine with a stock kernel.

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use kumiki_lab::{Accelerator, Cache, Config, Control, KernelName, Machine, Module, Outcome, Talk};

use crate::args::size;
use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Start a machine, run a command in it as root, and end it
    ///
    /// Exit status: the command's own; 2 also if the machine failed or its
    /// kernel log shows a fault.
    Run {
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        what: What,
    },
}

/// Which machine.
#[derive(Debug, Args)]
struct Shape {
    /// Number of cpus
    #[arg(long, default_value_t = 2, value_name = "N")]
    cpus: u32,
    /// Memory, e.g. 512M
    #[arg(long, default_value = "512M", value_parser = size, value_name = "SIZE")]
    memory: u64,
    /// Stock kernel: 6.1, 6.1-cloud, 6.12, … or RELEASE/PACKAGE
    /// [default: that of this machine's Debian]
    #[arg(long, value_name = "PACKAGE")]
    kernel: Option<KernelName>,
    /// Kernel module to load first, with its parameters: a name of the kernel's
    /// own or a .ko file; may be given several times
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<Module>,
    /// Words for the kernel's command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// A word for QEMU's command line; may be given several times
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    qemu: Vec<OsString>,
    /// What executes the machine's instructions
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    accelerator: By,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum By {
    /// KVM where it is seen to work, else TCG
    #[default]
    Auto,
    Kvm,
    Tcg,
}

/// What to run.
#[derive(Debug, Args)]
struct What {
    /// Variable for the command
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
    /// End the command after so long
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

pub(crate) fn run(args: Lab) -> Result<Verdict> {
    let cache = Cache::of_user()?;
    match args.command {
        LabCommand::Run { shape, what } => run_once(&cache, &shape.config()?, &what),
    }
}

impl Shape {
    fn config(self) -> Result<Config> {
        let agent = std::env::current_exe().context("finding this program, the machine's agent")?;
        Ok(Config {
            cpus: self.cpus,
            memory_bytes: self.memory,
            kernel: self.kernel.unwrap_or_default(),
            modules: self.modules,
            append: self.append,
            qemu: self.qemu,
            accelerator: match self.accelerator {
                By::Auto => Accelerator::Auto,
                By::Kvm => Accelerator::Kvm,
                By::Tcg => Accelerator::Tcg,
            },
            ..Config::new(agent)
        })
    }
}

fn run_once(cache: &Cache, config: &Config, what: &What) -> Result<Verdict> {
    let machine = Machine::start(cache, config, Talk::to(&|text| output::talk(text)))?;
    let outcome = execute(machine.command(&what.words[0]), what);
    let failed = match &outcome {
        Ok(outcome) => !outcome.faults.is_empty(),
        Err(error) => !output::is_broken_pipe(error),
    };
    if failed && let Some(path) = machine.keep_log() {
        output::talk(format_args!("the kernel log is kept in {}", path.display()));
    }
    let outcome = outcome?;
    machine.shut_down(outcome.exit.code())?;
    verdict(outcome)
}

/// Runs the command with our own streams.
fn execute(command: kumiki_lab::Command, what: &What) -> Result<Outcome> {
    let mut command = command.args(&what.words[1..]);
    for (name, value) in &what.environment {
        command = command.env(name, value);
    }
    if let Some(seconds) = what.timeout {
        command = command.time_limit(Duration::from_secs(seconds));
    }
    let running = command.spawn()?;
    interrupt(running.control())?;
    // Not locked: the handler of an interrupt has something to say, too.
    Ok(running.pass(io::stdin(), io::stdout(), io::stderr())?)
}

/// Passes the first interrupt on to the command; the next one ends us, and the
/// machine with us.
fn interrupt(control: Control) -> Result<()> {
    const SIGINT: i32 = 2;
    let seen = AtomicU32::new(0);
    ctrlc::set_handler(move || {
        if seen.fetch_add(1, Ordering::Relaxed) > 0 || control.signal(SIGINT).is_err() {
            std::process::exit(128 + SIGINT);
        }
        output::talk("interrupted; once more ends the machine");
    })
    .context("taking over Ctrl-C")
}

fn verdict(outcome: Outcome) -> Result<Verdict> {
    if !outcome.faults.is_empty() {
        return Err(kumiki_lab::Error::Faulty { lines: outcome.faults }.into());
    }
    Ok(Verdict::Exit(outcome.exit.code()))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is expected".to_owned()),
    }
}
