//! What each thread of a process is at.

use std::fmt::Write;
use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};

/// Threads that are told of; a server with a thousand tells of the first ones.
const MOST: usize = 200;

/// For each thread its name, where it sleeps, in which system call, and both stacks as far as they
/// can be had.
pub(crate) fn of(pid: u32) -> String {
    let mut text = format!("process {pid}:\n");
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks: Vec<_> = tasks.into_iter().flatten().flatten().map(|task| task.path()).collect();
    if tasks.is_empty() {
        let _ = writeln!(text, "  it is not there any more");
    }
    tasks.sort();
    tasks.iter().take(MOST).for_each(|task| thread(&mut text, task));
    match by_gdb(pid) {
        Ok(stacks) => {
            let told = stacks.lines().filter(|line| line.starts_with(['#', 'T']));
            told.for_each(|line| {
                let _ = writeln!(text, "  {}", line.chars().take(160).collect::<String>());
            });
        }
        Err(error) => _ = writeln!(text, "  no stacks of its own: gdb: {error}"),
    }
    text
}

/// Asks gdb for each thread's stack. It writes to a file, and has so long: it may be asked about this
/// process, which stands still meanwhile and reads no pipe.
fn by_gdb(pid: u32) -> std::io::Result<String> {
    let mut file = tempfile::tempfile()?;
    let pid = pid.to_string();
    let all = "thread apply all bt 24";
    let words = ["-s", "KILL", "30", "gdb", "-p", &pid, "-batch", "-nx", "-ex", all];
    Command::new("timeout")
        .args(words)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(Stdio::null())
        .status()?;
    file.rewind()?;
    let mut stacks = Vec::new();
    file.read_to_end(&mut stacks)?;
    Ok(String::from_utf8_lossy(&stacks).into_owned())
}

fn thread(text: &mut String, task: &Path) {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let status = read("status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("").trim();
    let number = task.file_name().unwrap_or_default().to_string_lossy();
    let (comm, wchan, syscall) = (read("comm"), read("wchan"), read("syscall"));
    let call = syscall.split(' ').next().unwrap_or("").trim();
    let _ = writeln!(
        text,
        "  thread {number} {}: {state}, in {}, system call {call}",
        comm.trim(),
        wchan.trim()
    );
    read("stack").lines().take(12).for_each(|line| _ = writeln!(text, "      {line}"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_threads_with_names() {
        let told = super::of(std::process::id());
        assert!(told.contains("system call") && told.contains("state") || told.contains("running"));
        assert!(super::of(u32::MAX).contains("not there"));
    }
}
