//! `kumiki ahead`: runs a command with `libkumiki-ahead.so` in front of the C library, which asks a slow disk ahead.

mod counts;
mod echo;
mod library;
mod program;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};
use clap::Args;
use kumiki_sys::sentence::with_causes;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::size::size;
use crate::{Verdict, interrupt, output, started};

use counts::Counts;
use echo::Echo;
use program::Linkage;

/// The loader's variable, and ours.
const PRELOAD: &str = "LD_PRELOAD";
const SETTINGS: &str = "KUMIKI_AHEAD";
/// Signals that a terminal sends to the command as well.
const OF_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];
const PASSED: [i32; 5] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT];

#[derive(Debug, Args)]
pub(crate) struct AheadArgs {
    /// Say on standard error at the end what was asked ahead, and how much of it the command used
    #[arg(long)]
    say: bool,
    /// Names asked ahead at a time that the command has not come to yet
    #[arg(long, value_name = "NUMBER", default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    names: u32,
    /// Bytes of files read ahead that it has not come to yet
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    bytes: u64,
    /// Threads that ask; each has one request under way
    #[arg(long, value_name = "NUMBER", default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Watch what a process opens whose number comes in, and open it, too
    #[arg(long, hide = true)]
    echo: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

pub(crate) fn run(args: AheadArgs) -> Result<Verdict> {
    if args.echo {
        return echo::run(&args.words);
    }
    let library = library::find()?;
    let word = args.words.first().cloned().unwrap_or_default();
    let linkage = Linkage::of(&word);
    let mut command = Command::new(&word);
    command.args(args.words.iter().skip(1));
    if linkage.takes_libraries() {
        command.env(PRELOAD, beside(std::env::var_os(PRELOAD), library.as_os_str()));
        command.env(SETTINGS, settings(&args));
    }
    let counts = args.say.then(Counts::new).transpose()?;
    let counted = |command: &mut Command| {
        if let Some(counts) = &counts {
            command.env(counts::VARIABLE, counts.path());
        }
    };
    counted(&mut command);
    let echo = linkage.is_watched().then(|| {
        let mut command = Command::new("/proc/self/exe");
        command.env(PRELOAD, library.as_os_str());
        command.env(SETTINGS, echo_settings(&args));
        counted(&mut command);
        Echo::begin(command, &args.words)
    });
    let (mut echo, why_not) = match echo {
        Some(Ok(echo)) => (Some(echo), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    if counts.is_none() && echo.is_none() {
        // Its exit status and its signals are then its own.
        return not_started(command.exec(), &word);
    }
    let signals = watched()?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return not_started(error, &word),
    };
    if let Some(echo) = &mut echo {
        echo.tell(child.id())?;
    }
    let status = attend(&mut child, signals)?;
    drop(echo);
    if let Some(counts) = counts {
        match (linkage.why_not(), why_not) {
            (Some(why), Some(more)) => {
                output::talk(format!(
                    "ahead: {}: {why}: {}",
                    word.to_string_lossy(),
                    with_causes(more.as_ref())
                ));
            }
            (Some(why), None) if !linkage.is_watched() => {
                output::talk(format!("ahead: {}: {why}", word.to_string_lossy()));
            }
            _ => counts.read()?.sentences().iter().for_each(output::talk),
        }
    }
    Ok(Verdict::Exit(code(status)))
}

/// Bounds for the library. What the user has set says more; where it says the same, what is said last holds.
fn settings(args: &AheadArgs) -> OsString {
    let (names, bytes, threads) = (args.names, args.bytes, args.threads);
    let mut settings = OsString::from(format!("names={names},bytes={bytes},threads={threads}"));
    if let Some(more) = std::env::var_os(SETTINGS) {
        settings.push(",");
        settings.push(more);
    }
    settings
}

/// Settings of a program that echoes: it never sleeps for what it opens.
fn echo_settings(args: &AheadArgs) -> OsString {
    let mut settings = settings(args);
    settings.push(",echo=1");
    settings
}

/// The value of `LD_PRELOAD`: ours, then those that stand there.
fn beside(others: Option<OsString>, library: &OsStr) -> OsString {
    let mut value = library.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

fn not_started(error: std::io::Error, word: &OsStr) -> Result<Verdict> {
    started::here(&error, &word.to_string_lossy())
}

/// Signals to this process, from now on.
fn watched() -> Result<Signals> {
    let is_ignored = interrupt::ignored();
    let all = OF_TERMINAL.into_iter().chain(PASSED);
    let watched: Vec<i32> = all.filter(|signal| !is_ignored(*signal)).collect();
    Signals::new(watched).context("installing the handlers for signals")
}

/// Passes signals on until the command has ended.
fn attend(child: &mut Child, mut signals: Signals) -> Result<ExitStatus> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.context("the command has a process")?;
    // Not by its number, which is another's once it has ended.
    let process = pidfd_open(process, PidfdFlags::empty()).context("watching the command")?;
    let handle = signals.handle();
    let pass = move || {
        for signal in signals.forever().filter(|signal| !OF_TERMINAL.contains(signal)) {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It may have ended.
                let _ = pidfd_send_signal(&process, signal);
            }
        }
    };
    let passing = std::thread::Builder::new().name("signals".to_owned()).spawn(pass);
    let passing = passing.context("passing signals on")?;
    let status = child.wait().context("waiting for the command");
    handle.close();
    let _ = passing.join();
    status
}

/// The exit status by which a shell knows how it ended.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_keep_their_place_behind_ours() {
        let beside = |others: Option<&str>| beside(others.map(Into::into), OsStr::new("/lib/a.so"));
        assert_eq!(beside(None), "/lib/a.so");
        assert_eq!(beside(Some("")), "/lib/a.so");
        assert_eq!(beside(Some("libeatmydata.so x.so")), "/lib/a.so:libeatmydata.so x.so");
    }

    #[test]
    fn a_signal_is_a_status_above_128() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }
}
