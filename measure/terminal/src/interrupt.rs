//! Ctrl-C and its like during long work.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, iterator::Signals};

/// Number that a shell adds to that of the signal that ended a program.
const ENDED_BY: i32 = 128;

/// SIGINT, SIGTERM and SIGHUP end the work after the visit in progress; a second
/// one ends the program at once, and what was stored stays stored.
#[derive(Debug)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Watches from now to the program's end. A program that ends at once does `leaving` first.
    ///
    /// # Errors
    /// Handlers cannot be installed.
    pub fn watch(leaving: impl FnOnce() + Send + 'static) -> Result<Self> {
        let interrupt = Interrupt { stop: Arc::default(), signal: Arc::default() };
        interrupt.install(leaving).context("installing the handlers for Ctrl-C and SIGTERM")?;
        Ok(interrupt)
    }

    fn install(&self, leaving: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let watched = watched();
        for &signal in &watched {
            // In the handler itself: before a case that the signal broke is blamed.
            flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        let mut signals = Signals::new(&watched)?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().nth(1) {
                leaving();
                std::process::exit(ENDED_BY + signal);
            }
        })?;
        Ok(())
    }

    /// True from the first signal on.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The signal, if there was one.
    pub fn signal(&self) -> Option<Signal> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Signal(number as u8)),
        }
    }
}

/// Has a thread call `handle` at each SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// Handlers cannot be installed.
pub fn each(handle: impl Fn(Signal) + Send + 'static) -> Result<()> {
    let install = || {
        let mut signals = Signals::new(watched())?;
        let wait = move || signals.forever().for_each(|number| handle(Signal(number as u8)));
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait)
    };
    install().context("installing the handlers for Ctrl-C and SIGTERM")?;
    Ok(())
}

/// Signals that end a program and are not ignored.
fn watched() -> Vec<i32> {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored(*signal)).collect()
}

/// Signals that this program ignores because its parent had it do so, as nohup(1) does and a shell
/// for a program in the background: they stay ignored (`SigIgn` in proc_pid_status(5)).
pub fn ignored() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}

/// A signal's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(u8);

impl Signal {
    /// The number by which the kernel knows it.
    pub fn number(self) -> i32 {
        self.0.into()
    }

    /// The exit status by which a shell knows it: 130 after Ctrl-C.
    pub fn exit_status(self) -> u8 {
        ENDED_BY as u8 + self.0
    }
}
