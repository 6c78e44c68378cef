//! The kernel log of a machine, as its serial line writes it, and what in it
//! shows that something is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::wish::mark;

/// Time that the console may lag behind its writers. Emulated on a busy machine, a long trace of
/// calls takes seconds.
const LAG_LIMIT: Duration = Duration::from_secs(10);

/// Beginnings of lines that tell of a fault, after their time stamp. Linux: lib/bug.c,
/// kernel/panic.c, kernel/locking/lockdep.c, mm/kasan.
const BEGINNINGS: [&str; 6] =
    ["BUG:", "WARNING:", "Oops:", "Kernel panic", "kernel BUG at", "general protection fault"];
/// Texts that such a line contains, wherever.
const CONTAINED: [&str; 13] = [
    "BUG: soft lockup",
    "BUG: unable to handle",
    "Oops: ",
    "general protection fault, ",
    "kernel BUG at ",
    "possible circular locking dependency",
    "possible recursive locking",
    "inconsistent lock state",
    "suspicious RCU usage",
    "detected stall",
    "blocked for more than",
    "refcount_t: ",
    "UBSAN: ",
];
/// Beginning of a race that a kernel with KCSAN has found. Of itself it has many that are known: those
/// alone count that have a module's function in them, `f [MODULE]`.
const RACE: &str = "BUG: KCSAN:";
/// Failure of QEMU's emulation while several cpus run code that is being patched, on any kernel;
/// docs/design/lab.md.
const PATCHED_TEXT: &str = "Oops: int3";

/// A machine's log.
#[derive(Clone, Debug)]
pub(crate) struct KernelLog {
    path: PathBuf,
}

impl KernelLog {
    pub(crate) fn at(path: PathBuf) -> Self {
        KernelLog { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes now.
    pub(crate) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// All of it as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).into_owned()
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> Vec<String> {
        const LINES: usize = 20;
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect()
    }

    /// The faults in what there is of it.
    pub(crate) fn faults_so_far(&self) -> Vec<String> {
        faults(&self.text())
    }

    /// The faults between a length that it had and a command's end.
    pub(crate) fn faults(&self, from: u64, command: u64) -> Vec<String> {
        let mark = mark(command);
        let begin = Instant::now();
        loop {
            let bytes = fs::read(&self.path).unwrap_or_default();
            let rest = bytes.get(from as usize..).unwrap_or_default();
            let text = String::from_utf8_lossy(rest);
            if let Some(end) = text.find(&mark) {
                return faults(&text[..end]);
            }
            if begin.elapsed() > LAG_LIMIT {
                let mut faults = faults(&text);
                faults.push(format!(
                    "(the log has no line that says `{mark}`: it does not tell whether all was \
                     well until then)"
                ));
                return faults;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The lines of a log that tell of faults.
fn faults(text: &str) -> Vec<String> {
    text.lines().filter(|line| is_fault(line)).map(str::to_owned).collect()
}

fn is_fault(line: &str) -> bool {
    let message = without_time(line);
    if message.starts_with(RACE) {
        return message.contains(" [");
    }
    BEGINNINGS.iter().any(|beginning| message.starts_with(beginning))
        || CONTAINED.iter().any(|part| message.contains(part))
}

/// True if these are of QEMU's own making.
pub(crate) fn is_emulation(faults: &[String]) -> bool {
    faults.first().is_some_and(|line| line.contains(PATCHED_TEXT))
}

/// `[    1.234567] message` without the time.
fn without_time(line: &str) -> &str {
    let line = line.trim_start();
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((time, message)) if time.trim().parse::<f64>().is_ok() => message.trim_start(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_and_ordinary_lines_are_not() {
        let bad = [
            "[    5.170000] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[    5.1] WARNING: CPU: 1 PID: 70 at kernel/smp.c:1 f+0x1/0x2",
            "[    5.1] WARNING: possible circular locking dependency detected",
            "[   30.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [sh:70]",
            "[    5.1] Oops: 0002 [#1] PREEMPT SMP PTI",
            "[    5.1] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI",
            "[    5.1] general protection fault, probably for non-canonical address 0x1",
            "[    5.1] kernel BUG at mm/slub.c:440!",
            "[    5.1] BUG: KCSAN: data-race in f [parasc] / g",
            "[   22.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[  242.0] INFO: task sh:70 blocked for more than 120 seconds.",
            "[    5.1] Kernel panic - not syncing: sysrq triggered crash",
            "[    5.1] refcount_t: underflow; use-after-free.",
        ];
        let good = [
            "[    0.000000] Linux version 6.1.0 (debian-kernel@lists.debian.org)",
            "[    0.1] Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on",
            "[    0.1] DEBUG: a driver's own",
            "[    5.1] BUG: KCSAN: data-race in tick_nohz_stop_tick / tick_sched_timer",
            "[    0.1] debugfs: Directory 'x' already present",
            "",
            "[oops",
        ];
        for line in bad {
            assert!(is_fault(line), "{line}");
        }
        for line in good {
            assert!(!is_fault(line), "{line}");
        }
        assert!(is_emulation(&[bad[5].to_owned()]));
        assert!(!is_emulation(&[bad[4].to_owned(), bad[5].to_owned()]), "it was broken before");
    }

    #[test]
    fn faults_count_from_a_command_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = KernelLog::at(folder.path().join("log"));
        let write = |text: &str| {
            let old = log.text();
            fs::write(log.path(), old + text).unwrap();
        };
        write("[ 1.0] WARNING: before\n");
        let from = log.length();
        write(&format!("[ 2.0] all is well\n[ 3.0] {}\n[ 4.0] BUG: after\n", mark(7)));
        assert_eq!(log.faults(from, 7), Vec::<String>::new());
        assert_eq!(log.faults(0, 7), ["[ 1.0] WARNING: before"]);
        assert_eq!(log.tail().len(), 4);
    }
}
