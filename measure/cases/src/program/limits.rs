//! What the machine has room for, asked before the work begins.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use procfs::Current;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use kumiki_measure::error::{Error, Result};

/// Checks that the file system of `folder` takes a file of `bytes`.
pub(super) fn file_fits(folder: &Path, bytes: u64) -> Result<()> {
    let disk = rustix::fs::statvfs(folder)
        .map_err(|source| Error::File { path: folder.to_owned(), source: source.into() })?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Beyond this limit the kernel would end the harness by SIGXFSZ.
    let allowed = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    if bytes > free.min(allowed) {
        return Err(Error::unsupported(
            format!("a program file of {bytes} bytes in {}", folder.display()),
            format!(
                "the file system has {free} bytes free and `ulimit -f` allows {}; choose smaller \
                 sizes or another folder (TMPDIR)",
                if allowed == u64::MAX { "any size".into() } else { format!("{allowed} bytes") }
            ),
        ));
    }
    Ok(())
}

/// Checks that the machine, and the control group this process is in, can give `bytes` of memory
/// for `what` without swapping or killing.
pub(crate) fn memory_fits(what: &str, bytes: u64) -> Result<()> {
    let Some(free) = available_memory() else { return Ok(()) };
    if bytes > free {
        return Err(Error::unsupported(
            format!("{bytes} bytes of memory for {what}"),
            format!("{free} bytes are available here; choose smaller sizes or free some"),
        ));
    }
    Ok(())
}

/// Checks that the kernel promises `bytes` of memory for `what`, used or not: by its heuristic it
/// refuses a mapping larger than memory and swap together (`vm.overcommit_memory` 0), and ends a
/// program whose bss it refuses.
pub(crate) fn memory_promised(what: &str, bytes: u64) -> Result<()> {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let Ok(machine) = procfs::Meminfo::current() else { return Ok(()) };
    let most = machine.mem_total.saturating_add(machine.swap_total);
    if bytes > most && mode.trim() != "1" {
        return Err(Error::unsupported(
            format!("{bytes} bytes of address space for {what}"),
            format!(
                "memory and swap are {most} bytes and vm.overcommit_memory is not 1; choose \
                 smaller sizes"
            ),
        ));
    }
    Ok(())
}

/// `MemAvailable`, or less if a version 2 control group allows less; `None` if
/// there is no /proc.
pub(crate) fn available_memory() -> Option<u64> {
    let machine = procfs::Meminfo::current().ok()?.mem_available?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let bytes = |folder: &Path, file: &str| -> Option<u64> {
        std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    // A limit ("max" if there is none) holds for the group and all below it.
    let limits = Path::new("/sys/fs/cgroup").join(group);
    let limits = limits.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
    limits
        .filter_map(|folder| {
            let limit = bytes(folder, "memory.max")?;
            Some(limit.saturating_sub(bytes(folder, "memory.current")?))
        })
        .chain([machine])
        .min()
}

/// This process's soft stack limit, raised for a child that is started under
/// it; dropping it puts the old one back.
///
/// Raised here, not in the child, for two reasons: the kernel lays out an
/// address space by the limit at the time of exec, and a hook between fork and
/// exec would cost the child the fast way of being started.
pub(crate) struct StackLimit {
    before: Option<Rlimit>,
    /// The limit is the whole process's: one at a time changes it or relies on it.
    _turn: MutexGuard<'static, ()>,
}

impl StackLimit {
    /// Raises it to `bytes` if it is lower; `why` says who needs it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the hard limit is lower.
    pub(crate) fn at_least(bytes: u64, why: &str) -> Result<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = getrlimit(Resource::Stack);
        if before.current.is_none_or(|soft| soft >= bytes) {
            return Ok(StackLimit { before: None, _turn: turn });
        }
        if let Some(hard) = before.maximum.filter(|hard| *hard < bytes) {
            return Err(Error::Invalid(format!(
                "{why} needs a stack limit of {bytes} bytes, and the hard limit is {hard}: choose \
                 a smaller size or raise the limit (as root: `ulimit -Hs {}`)",
                bytes.div_ceil(1024)
            )));
        }
        setrlimit(Resource::Stack, Rlimit { current: Some(bytes), maximum: before.maximum })
            .map_err(|e| Error::os(format!("raise the stack limit to {bytes} bytes"), e))?;
        Ok(StackLimit { before: Some(before), _turn: turn })
    }
}

/// True if this process may not raise its stack limit to `bytes`: a test that needs more says so
/// and ends.
#[cfg(test)]
pub(crate) fn hard_stack_limit_below(bytes: u64) -> bool {
    let below = getrlimit(Resource::Stack).maximum.is_some_and(|hard| hard < bytes);
    if below {
        eprintln!("skipped: the hard stack limit is below {bytes} bytes");
    }
    below
}

impl Drop for StackLimit {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // Lowering a soft limit is always allowed.
            let _ = setrlimit(Resource::Stack, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soft() -> Option<u64> {
        getrlimit(Resource::Stack).current
    }

    #[test]
    fn the_stack_limit_is_raised_and_put_back() {
        let enough = StackLimit::at_least(4096, "a test").unwrap();
        let before = soft();
        drop(enough);
        let Some(limit) = before else { return };
        let raised = StackLimit::at_least(limit + 4096, "a test");
        // With a hard limit just as low, there is nothing to be raised.
        let Ok(raised) = raised else { return };
        assert_eq!(soft(), Some(limit + 4096));
        let inherited = std::process::Command::new("sh").args(["-c", "ulimit -s"]).output();
        drop(raised);
        let inherited = String::from_utf8(inherited.unwrap().stdout).unwrap();
        assert_eq!(inherited.trim(), (limit / 1024 + 4).to_string());
    }

    /// A hard limit cannot be raised again, so that another process takes it on.
    #[test]
    fn a_hard_limit_that_is_too_low_is_named() {
        const INSIDE: &str = "KUMIKI_TEST_HARD_LIMIT";
        if std::env::var_os(INSIDE).is_some() {
            let error = StackLimit::at_least(8 << 20, "stack_bytes 8000000").err().unwrap();
            let text = error.to_string();
            assert!(matches!(error, Error::Invalid(_)), "{text}");
            for part in ["stack_bytes 8000000", "8388608", "4194304", "`ulimit -Hs 8192`"] {
                assert!(text.contains(part), "{text}");
            }
            return;
        }
        let inside = std::process::Command::new("sh")
            .args(["-c", "ulimit -Ss 4096 && ulimit -Hs 4096 && exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "program::limits::tests::a_hard_limit_that_is_too_low_is_named"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&inside.stdout);
        assert!(inside.status.success() && output.contains("1 passed"), "{output}");
    }

    #[test]
    fn memory_that_no_machine_has_is_refused_by_value() {
        for refuse in [memory_fits, memory_promised] {
            let error = refuse("a test", 1 << 60).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Unsupported { .. }), "{text}");
            assert!(text.contains("a test") && text.contains(&(1u64 << 60).to_string()), "{text}");
        }
        memory_fits("a test", 4096).unwrap();
    }
}
