//! `kumiki-noded`: what works for nodes as long as they run. It serves their devices, of which the
//! part that reads what a node writes has no privileges, keeps services up, has nodes sleep, and
//! moves cpus between them.
//! The command `kumiki` starts it.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use kumiki_node::serve::{self, Taps};
use kumiki_node::{Client, Ending, ErrorKind, NOT_ASKED, Run, Session};
use kumiki_sys::sentence::with_causes;
use kumiki_sys::signals::restore_child_signal;
use kumiki_sys::stdio::printed;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Number that a shell adds to that of the signal that ended a program.
const ENDED_BY: i32 = 128;

fn main() -> ExitCode {
    restore_child_signal();
    let heard = kumiki_sys::event::to_file().map_err(anyhow::Error::from);
    match heard.and_then(|()| run(env::args_os().skip(1).collect())) {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("{}", with_causes(error.as_ref())));
            ExitCode::from(2)
        }
    }
}

fn run(words: Vec<OsString>) -> Result<ExitCode> {
    let given = words;
    let words: Vec<&str> =
        given.iter().map(|word| word.to_str()).collect::<Option<_>>().unwrap_or_default();
    match words[..] {
        ["--version"] => {
            let text = concat!("kumiki-noded ", env!("CARGO_PKG_VERSION"), "\n");
            return Ok(ExitCode::from(printed("kumiki-noded", text.as_bytes(), 2)));
        }
        ["serve", "--worker"] => serve::work()?,
        ["serve", name] => serve::serve(name, Taps::Opened)?,
        ["serve", name, "--taps"] => serve::serve(name, Taps::Handed)?,
        ["ask", name, line] => return ask(name, Some(line)),
        ["ask", name] => return ask(name, None),
        _ => return long(&given),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs work until a signal comes; names of files may be anything.
fn long(words: &[OsString]) -> Result<ExitCode> {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str());
    match (text(0), words.len()) {
        (Some("watch"), 2) => {
            let file = PathBuf::from(&words[1]);
            kumiki_node::supervise(&file, &stop()?, |node, what| {
                say(format_args!("node {node}: {what}"));
            })?;
        }
        (Some("idle"), 3 | 4) => {
            let name = text(1).context("a node's name is UTF-8")?;
            let seconds = text(2).and_then(|seconds| seconds.parse().ok());
            let after = Duration::from_secs(seconds.context("idle NAME SECONDS [FILE]")?);
            let file = words.get(3).map(PathBuf::from);
            kumiki_node::idle(name, after, file.as_deref(), &*stop()?, |what, took| {
                say(format_args!("node {name}: {what}, {:.0} ms", took.as_secs_f64() * 1e3));
            })?;
        }
        (Some("balance"), 3 | 4) => {
            let number = |at: usize| text(at).map(str::parse::<u64>).transpose();
            let usage = "balance MILLISECONDS HOST-KEEPS [ROUNDS]";
            let every = Duration::from_millis(number(1)?.context(usage)?);
            let host_keeps = usize::try_from(number(2)?.context(usage)?).context(usage)?;
            kumiki_node::balance(every, number(3)?, host_keeps, &*stop()?, |moved| {
                say(format_args!("{moved}"));
            })?;
        }
        _ => bail!(
            "the command kumiki starts this: serve NAME [--taps], serve --worker, ask NAME [LINE], \
             watch FILE, idle NAME SECONDS [FILE], balance MILLISECONDS HOST-KEEPS [ROUNDS]"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a line of shell in a node, or its image's health check, as whoever wants to know its health;
/// its exit status is this one's.
fn ask(name: &str, line: Option<&str>) -> Result<ExitCode> {
    let run = match line {
        Some(line) => Run::of(["sh", "-c", line]),
        None => Run { health: true, ..Run::default() },
    };
    let (mut out, mut err) = (io::sink(), io::sink());
    let mut client = Client { input: None, out: &mut out, err: &mut err, orders: None };
    let session = match Session::open_by_host(name) {
        Err(error) if error.kind() == ErrorKind::Busy => return Ok(ExitCode::from(NOT_ASKED)),
        session => session?,
    };
    Ok(match session.run(&run, &mut client)? {
        Ending::Exited(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Becomes true by a signal that ends programs; a second one ends this one at once.
fn stop() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // What whoever started this has it ignore stays ignored.
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|n| ignored >> (n - 1) & 1 == 0) {
        flag::register_conditional_shutdown(signal, ENDED_BY + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("installing the handlers for Ctrl-C and SIGTERM")?;
    }
    Ok(stop)
}

/// Tells a person something; who does not listen keeps no node from its devices.
fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "kumiki: {text}");
}
