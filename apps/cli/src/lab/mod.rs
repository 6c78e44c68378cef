//! `kumiki lab`: commands in a QEMU machine with a stock kernel.

mod args;
mod modules;
mod nodes;
mod terminal;
mod up;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use kumiki_lab::{
    Accelerator, Arch, Cache, Command, Config, Control, Guest, Machine, Outcome, Talk, standing,
};

pub(crate) use args::Lab;
use args::{By, LabCommand, Shape, What};

use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: Lab) -> Result<Verdict> {
    match args.command {
        LabCommand::Run { shape, what } => once(&shape.config()?, &what),
        LabCommand::Up { name, .. } => up::up(&name.name),
        LabCommand::Keep { name, shape } => up::keep(&name.name, &shape.config()?),
        LabCommand::Exec { name, tty, what } => exec(&standing::connect(&name.name)?, tty, &what),
        LabCommand::Console { name } => {
            let guest = standing::connect(&name.name)?;
            verdict(terminal::attached(guest.command("sh").arg("-l"))?)
        }
        LabCommand::Logs { name } => {
            output::log(standing::log_text(&name.name)?.as_bytes())?;
            Ok(Verdict::Fine)
        }
        LabCommand::Down { name, all } => down(&name.name, all),
        LabCommand::Ls { json } => ls(json),
        LabCommand::Clean => clean(),
        LabCommand::Fetch { kernels } => {
            let _interrupts = Interrupts::watched()?;
            let own = [Default::default()];
            let cache = Cache::of_user()?;
            for name in if kernels.is_empty() { &own[..] } else { &kernels } {
                let kernel = name.renew(&cache, Talk::to(&|text| output::talk(text)))?;
                output::line(kernel.version)?;
            }
            Ok(Verdict::Fine)
        }
    }
}

impl Shape {
    fn config(self) -> Result<Config> {
        let kernel = self.kernel.unwrap_or_default();
        let kernel = match self.arch {
            Some(arch) => kernel.on(arch.into()),
            None => kernel,
        };
        let small = Config::new(agent(self.agent, kernel.arch())?);
        let (cpus, memory_bytes) =
            if self.nodes { (4, 2 << 30) } else { (small.cpus, small.memory_bytes) };
        ensure!(
            !self.nodes || kernel.arch() == Arch::Amd64,
            "--nodes: OS nodes are for x86-64, and the machine is to be {}",
            kernel.arch().name()
        );
        let modules = modules::with_ours(self.modules, &kernel)?;
        let config = Config {
            cpus: self.cpus.unwrap_or(cpus),
            memory_bytes: self.memory.unwrap_or(memory_bytes),
            kernel,
            modules,
            append: self.append,
            qemu: self.qemu,
            accelerator: match self.accelerator {
                By::Auto => Accelerator::Auto,
                By::Kvm => Accelerator::Kvm,
                By::Tcg => Accelerator::Tcg,
            },
            ..small
        };
        if self.nodes { nodes::equipped(config, &Cache::of_user()?) } else { Ok(config) }
    }
}

/// The program that runs commands in a machine of this processor.
fn agent(chosen: Option<PathBuf>, arch: Arch) -> Result<PathBuf> {
    let own = Arch::own();
    match chosen {
        Some(agent) => Ok(agent),
        None if arch == own => {
            std::env::current_exe().context("finding this program, the machine's agent")
        }
        None => bail!(
            "a machine of {} needs a program of that processor to run its commands, and this one is for {}: \
             --agent FILE, a `kumiki` for it without libraries (cargo xtask dist --musl --arch aarch64)",
            arch.name(),
            own.name()
        ),
    }
}

fn once(config: &Config, what: &What) -> Result<Verdict> {
    let interrupts = Interrupts::watched()?;
    let cache = Cache::of_user()?;
    let machine = Machine::start(&cache, config, Talk::to(&|text| output::talk(text)))?;
    let outcome = with_files(machine.guest(), what, || {
        piped(prepared(machine.command(&what.words[0]), what), &interrupts)
    });
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

fn exec(guest: &Guest, tty: bool, what: &What) -> Result<Verdict> {
    let interrupts = Interrupts::watched()?;
    verdict(with_files(guest, what, || {
        let command = prepared(guest.command(&what.words[0]), what);
        if tty { terminal::attached(command) } else { piped(command, &interrupts) }
    })?)
}

/// Copies files in before and out after.
fn with_files(
    guest: &Guest,
    what: &What,
    command: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    for (from, to) in what.copies_in() {
        guest.put(&from, &to)?;
    }
    let outcome = command()?;
    for (from, folder) in what.copies_out() {
        guest.get(&from, &folder)?;
    }
    Ok(outcome)
}

fn prepared(command: Command, what: &What) -> Command {
    let mut command = command.args(&what.words[1..]);
    for (name, value) in &what.environment {
        command = command.env(name, value);
    }
    match what.timeout {
        Some(limit) => command.time_limit(limit),
        None => command,
    }
}

/// Runs a command with our own streams.
fn piped(command: Command, interrupts: &Interrupts) -> Result<Outcome> {
    let running = command.spawn()?;
    interrupts.are_for(running.control());
    // Not locked: the handler of an interrupt has something to say, too.
    Ok(running.pass(io::stdin(), output::Stream, io::stderr())?)
}

/// The first interrupt is for the command, if one runs; the next one ends us, and
/// what is ours with us.
#[derive(Clone, Default)]
struct Interrupts(Arc<Mutex<Option<Control>>>);

impl Interrupts {
    fn watched() -> Result<Self> {
        let own = Self::default();
        let seen = own.clone();
        interrupt::each(move |signal| {
            let control = seen.0.lock().expect("no holder panics").take();
            if control.is_some_and(|control| control.signal(signal.number()).is_ok()) {
                return output::talk("interrupted; once more does not wait for the command");
            }
            kumiki_lab::remove_all();
            std::process::exit(signal.exit_status().into());
        })?;
        Ok(own)
    }

    fn are_for(&self, control: Control) {
        *self.0.lock().expect("no holder panics") = Some(control);
    }
}

fn verdict(outcome: Outcome) -> Result<Verdict> {
    if !outcome.faults.is_empty() {
        return Err(kumiki_lab::Error::Faulty { lines: outcome.faults }.into());
    }
    Ok(Verdict::Exit(outcome.exit.code()))
}

fn down(name: &str, all: bool) -> Result<Verdict> {
    if !all {
        standing::down(name)?;
        return Ok(Verdict::Fine);
    }
    for lab in standing::list()? {
        standing::down(&lab.name)?;
        output::line(lab.name)?;
    }
    Ok(Verdict::Fine)
}

fn clean() -> Result<Verdict> {
    let cleaned = kumiki_lab::clean(&Cache::of_user()?)?;
    cleaned.machines.iter().try_for_each(output::line)?;
    output::talk(format_args!(
        "{} in {} removed",
        kumiki_report::format::bytes(cleaned.bytes),
        cleaned.cache.display()
    ));
    Ok(Verdict::Fine)
}

fn ls(json: bool) -> Result<Verdict> {
    let labs = standing::list()?;
    if json {
        output::json(&labs)?;
        return Ok(Verdict::Fine);
    }
    let mut table = output::Rows::new(&["name", "state", "kernel", "cpus", "memory"], 3);
    for lab in &labs {
        table.add([
            lab.name.clone(),
            if lab.running { "running" } else { "ended" }.to_owned(),
            lab.kernel.clone(),
            lab.cpus.to_string(),
            kumiki_report::format::bytes(lab.memory_bytes),
        ]);
    }
    table.print()?;
    Ok(Verdict::Fine)
}
