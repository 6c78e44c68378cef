//! What is left of a place's processes is ended when the place is killed: by a small process that keeps watch.
//!
//! A place that ends by itself ends its processes with their groups. One that is killed ends nothing: the kernel kills its
//! children then (PR_SET_PDEATHSIG), and not what came of them. So each process of a place has a variable in its
//! environment whose name is the place's process' alone, which what comes of it has, too, in whatever group or session it
//! goes. A keeper, a process of its own, holds one end of a pipe; when the other one closes, however that came about, it
//! kills whatever has the variable, until it finds nothing more.
//!
//! Needs no right but to see processes of its own user. It does not find what has put its environment away (`env -i`, or
//! a program that writes its title over it) and left its parent as well, nor what another user runs: a unit of systemd's
//! or a cgroup holds those, too (`kumiki-place.service`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};
use crate::wire::secret;

/// Beginning of the variable.
const VARIABLE: &str = "KUMIKI_KEPT_";
/// Looks for what is left, at most: what forks faster than it is found is not outrun for ever.
const LOOKS: usize = 10_000;
/// Looks that have found nothing, one after the other, before it is believed.
const EMPTY: usize = 3;
/// Pause between two of those.
const MOMENT: Duration = Duration::from_millis(2);

/// The variable that processes of this process' places have; none where it cannot be drawn.
pub(crate) fn variable() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let number = secret::number("a mark for processes").ok()?;
        Some(format!("{VARIABLE}{number:016X}"))
    });
    name.as_deref()
}

/// A process that ends what this one's places have left when this one has ended.
#[derive(Debug)]
pub struct Keeper(Child);

impl Keeper {
    /// Starts it by a command that calls [`keep`] with what is appended as its last argument: this program itself, say.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be started.
    pub fn start(command: &mut Command) -> Result<Keeper> {
        use std::os::unix::process::CommandExt;
        let failed =
            |source| Error::Io { what: "starting a keeper of processes".to_owned(), source };
        let variable = variable().ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
        // Of a group of its own: what a terminal sends to this one's group is not for it.
        command.arg(variable).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Keeper(command.spawn().map_err(failed)?))
    }
}

impl Drop for Keeper {
    /// Has it end what is left, and waits until it has.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits until the other end of `input` has gone, and ends what has this variable in its environment.
///
/// # Errors
/// [`Error::Value`] for a name that is not one of a [`Keeper`]'s; /proc that cannot be read.
pub fn keep(variable: &str, mut input: impl Read) -> Result<()> {
    let digits = variable.strip_prefix(VARIABLE).filter(|digits| digits.len() == 16);
    if digits.is_none_or(|digits| !digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let what = format!("keeping processes with {variable:?}");
        return Err(Error::Value { what, why: "no place gives such a variable".to_owned() });
    }
    let mut bytes = [0; 64];
    // Nobody writes to it.
    while matches!(&input.read(&mut bytes), Ok(1..)) {}
    let mut empty = 0;
    for _ in 0..LOOKS {
        match end_all(variable)
            .map_err(|source| Error::Io { what: "reading /proc".to_owned(), source })?
        {
            0 => empty += 1,
            _ => empty = 0,
        }
        if empty >= EMPTY {
            break;
        }
        std::thread::sleep(MOMENT);
    }
    Ok(())
}

/// Kills what has the variable, and what came of that; gives how many there were.
fn end_all(variable: &str) -> io::Result<usize> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
        if has(pid, variable) {
            found.push(pid);
        }
    }
    let own = std::process::id();
    let (mut seen, mut held) = (HashSet::from([own]), Vec::new());
    while let Some(pid) = found.pop() {
        if !seen.insert(pid) {
            continue;
        }
        // Held by a descriptor before it is looked at again, so that no other process of the number is killed; and
        // before any is killed, as long as what came of one still has its parent.
        let process = Pid::from_raw(pid as i32)
            .and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        let is_below = || parent(pid).is_some_and(|parent| parent != own && seen.contains(&parent));
        if let Some(process) = process.filter(|_| has(pid, variable) || is_below()) {
            held.push(process);
            found.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    Ok(held.iter().filter(|process| pidfd_send_signal(process, Signal::KILL).is_ok()).count())
}

/// True if a process was started with this variable.
fn has(pid: u32, variable: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let is_it =
        |one: &[u8]| one.strip_prefix(variable.as_bytes()).is_some_and(|rest| rest == b"=1");
    environment.split(|byte| *byte == 0).any(is_it)
}

/// The parent of a process that has not ended.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its program's name may have any character, brackets and blanks among them.
    let (_, rest) = status.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.next()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_variable_of_ours_is_taken() {
        for other in ["", "PATH", "KUMIKI_KEPT_", "KUMIKI_KEPT_00", "KUMIKI_KEPT_000000000000000g"]
        {
            keep(other, io::empty()).unwrap_err();
        }
        keep(variable().unwrap(), io::empty()).unwrap();
    }

    #[test]
    fn what_has_the_variable_and_what_came_of_it_is_ended_and_nothing_else() {
        let name = format!("{VARIABLE}{:016X}", 7);
        let sleep = |variables: &[(&str, &str)], words: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", words]).envs(variables.iter().copied());
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut other = sleep(&[(&format!("{name}0"), "1"), (&name, "11")], "exec sleep 1000");
        // Without its environment, but below one that has it.
        let mut marked = sleep(&[(&name, "1")], "env -i sleep 1001.59 & setsid sleep 1002 & wait");
        let below = || {
            let named = |pid: &u32| {
                fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line == b"sleep\x001001.59\0")
            };
            let all = fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            all.filter_map(|name| name.parse().ok()).find(named)
        };
        while below().is_none() {
            std::thread::sleep(MOMENT);
        }
        keep(&name, io::empty()).unwrap();
        assert!(!marked.wait().unwrap().success());
        assert_eq!(below(), None);
        assert!(other.try_wait().unwrap().is_none(), "it has another variable");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
