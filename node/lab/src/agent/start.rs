//! What the first process of the machine does.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, wait};

use super::{SERVE, WORD, power_off, say};
use crate::initramfs::{AGENT, MODULES};

/// Mounts: file system, and mount point.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
];
const AFTER: [(&str, &str); 3] =
    [("devpts", "/dev/pts"), ("tmpfs", "/dev/shm"), ("debugfs", "/sys/kernel/debug")];

pub(super) fn first_process() -> Result<(), String> {
    let outcome = prepare().and_then(|()| collect());
    if let Err(reason) = &outcome {
        say(&format!("kumiki-lab: {reason}"));
    }
    // Process 1 must not end: the kernel would panic and hide the reason.
    power_off(1)
}

fn prepare() -> Result<(), String> {
    MOUNTS.iter().try_for_each(|(kind, place)| mounted(kind, place))?;
    for (kind, place) in AFTER {
        // Which of them there are is the kernel's choice.
        let _ = fs::create_dir(place);
        let _ = mounted(kind, place);
    }
    let _ = std::os::unix::fs::symlink("/proc/self/fd", "/dev/fd");
    let _ = rustix::system::sethostname(b"lab");
    load_modules()?;
    // As every system has it: servers and their clients in one machine.
    let _ = Command::new("/bin/ip").args(["link", "set", "lo", "up"]).status();
    Ok(())
}

fn mounted(kind: &str, place: &str) -> Result<(), String> {
    // Debian's kernels may have mounted /dev by themselves.
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if mounts.lines().any(|line| line.split(' ').nth(1) == Some(place)) {
        return Ok(());
    }
    mount(kind, place, kind, MountFlags::empty(), None)
        .map_err(|error| format!("mounting {kind} on {place}: {error}"))
}

fn load_modules() -> Result<(), String> {
    let list = fs::read_to_string(MODULES).map_err(|error| format!("{MODULES}: {error}"))?;
    for line in list.lines() {
        let (path, parameters) = line.split_once(' ').unwrap_or((line, ""));
        let failed = |error: std::io::Error| {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            format!("loading the module {name}: {error}")
        };
        let parameters = CString::new(parameters).map_err(|error| failed(error.into()))?;
        let file = File::open(path).map_err(failed)?;
        rustix::system::finit_module(&file, &parameters, 0)
            .map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

/// Runs the process that serves the lab, and collects every process that has
/// lost its parent until that one ends.
fn collect() -> Result<(), String> {
    let serving = Command::new(AGENT)
        .args([WORD, SERVE])
        .env_clear()
        .envs([("PATH", "/bin"), ("HOME", "/root"), ("TERM", "linux"), ("USER", "root")])
        .current_dir("/root")
        .spawn()
        .map_err(|error| format!("running {AGENT}: {error}"))?;
    loop {
        // `waitpid` of nobody in particular waits for this process's own group only, and
        // whoever called setsid(2) is of another one.
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() as u32 == serving.id() => {
                return Err(format!("the agent has ended: {status:?}"));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("waiting for processes: {error}")),
        }
    }
}
