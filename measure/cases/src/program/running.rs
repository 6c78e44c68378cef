//! A program that runs and waits for commands.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::answer::{Answer, BYTES};
use kumiki_measure::error::{Error, Result};

/// Time a program may work on one command before it is given up. A dead one is noticed at once;
/// this is for one that was stopped.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running program. Dropping it kills it, and a child that it may have just
/// then, and reaps it.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    commands: ChildStdin,
    answers: ChildStdout,
    patience: Duration,
}

impl Program {
    /// Starts `command`, calls it `name` in errors, sends it `first` and waits
    /// until it answers that it is ready.
    ///
    /// It gets a process group of its own, so that a terminal's Ctrl-C reaches
    /// the harness alone, which then ends it in order.
    pub(crate) fn start(
        name: impl Into<String>,
        command: &mut Command,
        first: &[u8],
    ) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = start(command)?;
        let commands = child.stdin.take().expect("asked for above");
        let answers = child.stdout.take().expect("asked for above");
        let name = name.into();
        let mut program = Program { name, child, commands, answers, patience: PATIENCE };
        program.ask(first)?;
        Ok(program)
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Program`] if it died, failed or does not answer; it is of no
    /// use afterwards.
    pub(crate) fn ask(&mut self, command: &[u8]) -> Result<Answer> {
        if self.commands.write_all(command).is_err() {
            return Err(self.died());
        }
        let mut bytes = [0; BYTES];
        let mut have = 0;
        let deadline = Instant::now() + self.patience;
        while have < BYTES {
            self.wait_for_answer(deadline)?;
            match rustix::io::read(&self.answers, &mut bytes[have..]) {
                Ok(0) => return Err(self.died()),
                Ok(n) => have += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::os(format!("read from {}", self.name), e)),
            }
        }
        let answer = Answer::parse(&bytes);
        match answer.failure() {
            Some(what) => Err(self.error(what)),
            None => Ok(answer),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error about this program.
    pub(crate) fn error(&self, what: String) -> Error {
        Error::Program { program: self.name.clone(), what }
    }

    fn wait_for_answer(&self, deadline: Instant) -> Result<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).expect("some minutes");
            let mut fds = [PollFd::new(&self.answers, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => {
                    let patience = self.patience.as_secs_f64();
                    return Err(self.error(format!("did not answer within {patience} s")));
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::os(format!("wait for {}", self.name), e)),
            }
        }
    }

    /// The error for a program that closed its pipes: how it ended.
    fn died(&mut self) -> Error {
        match self.end() {
            Ok(status) => self.error(format!("ended before it answered ({status})")),
            Err(e) => Error::os(format!("wait for the end of {}", self.name), e),
        }
    }

    /// Kills it if it still runs, and reaps it. Killing what has ended already
    /// but was not reaped changes nothing about its status.
    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        // Once reaped, the number may belong to somebody else.
        if self.child.try_wait()?.is_none() {
            let group = Pid::from_child(&self.child);
            if kill_process_group(group, Signal::KILL).is_err() {
                self.child.kill()?;
            }
        }
        self.child.wait()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Starts `command`.
pub(crate) fn start(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|e| {
        let hint = match e.kind() {
            io::ErrorKind::PermissionDenied => {
                " (is the folder mounted noexec? TMPDIR chooses another)"
            }
            io::ErrorKind::NotFound if Path::new(command.get_program()).exists() => {
                " (is its dynamic linker or interpreter missing here?)"
            }
            _ => "",
        };
        let program = command.get_program().to_string_lossy();
        Error::os(format!("start {program}{hint}"), e)
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::{kill_process, test_kill_process};

    use super::*;
    use crate::program::{Code, Image, file};

    /// A fork program without memory of its own; with a mapping of
    /// `anon_bytes` if not 0.
    fn program(folder: &Path, anon_bytes: u64) -> Result<Program> {
        let image = Image::of(Code::Fork);
        let path = image.file(folder, "fork").unwrap();
        let prepare: Vec<u8> =
            [0, anon_bytes, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Program::start("fork", &mut Command::new(path), &prepare)
    }

    fn pid(program: &Program) -> Pid {
        Pid::from_child(&program.child)
    }

    #[test]
    fn dropping_leaves_no_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(folder.path(), 0).unwrap();
        program.ask(&3u64.to_ne_bytes()).unwrap();
        let pid = pid(&program);
        assert!(test_kill_process(pid).is_ok());
        drop(program);
        assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH), "neither runs nor zombie");
    }

    #[test]
    fn it_ends_with_its_commands() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(folder.path(), 0).unwrap();
        let (_, nobody) = kumiki_sys::descriptors::pipe().unwrap();
        program.commands = ChildStdin::from(std::os::fd::OwnedFd::from(nobody));
        assert!(program.child.wait().unwrap().success());
    }

    #[test]
    fn a_killed_program_is_an_error_and_not_a_hang() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(folder.path(), 0).unwrap();
        kill_process(pid(&program), Signal::KILL).unwrap();
        for _ in 0..2 {
            let error = program.ask(&1u64.to_ne_bytes()).unwrap_err();
            assert!(matches!(error, Error::Program { .. }), "{error}");
            assert!(error.to_string().contains("SIGKILL"), "{error}");
        }
    }

    #[test]
    fn a_program_killed_while_it_works_is_an_error_and_not_a_hang() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(folder.path(), 0).unwrap();
        let pid = pid(&program);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            kill_process(pid, Signal::TERM).unwrap();
        });
        let error = program.ask(&u64::MAX.to_ne_bytes()).unwrap_err();
        killer.join().unwrap();
        assert!(error.to_string().contains("SIGTERM"), "{error}");
    }

    #[test]
    fn a_stopped_program_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(folder.path(), 0).unwrap();
        program.patience = Duration::from_millis(50);
        kill_process(pid(&program), Signal::STOP).unwrap();
        let error = program.ask(&1u64.to_ne_bytes()).unwrap_err();
        assert!(error.to_string().contains("did not answer within 0.05 s"), "{error}");
        let pid = pid(&program);
        drop(program);
        assert!(test_kill_process(pid).is_err());
    }

    #[test]
    fn a_system_call_that_fails_in_the_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = program(folder.path(), 1 << 47).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("mmap") && text.contains("Cannot allocate memory"), "{text}");
    }

    #[test]
    fn programs_are_killed_when_their_thread_ends_without_dropping_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_owned();
        let leak = move || std::mem::ManuallyDrop::new(program(&folder, 0).unwrap());
        let mut program = std::thread::spawn(leak).join().unwrap();
        let status = program.child.wait().unwrap();
        assert!(status.to_string().contains("SIGKILL"), "{status}");
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "no program").unwrap();
        let error = start(&mut Command::new(&file)).unwrap_err().to_string();
        assert!(error.contains("text") && error.contains("noexec"), "{error}");
        let error = start(&mut Command::new("/nonexistent-program")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent-program"), "{error}");
        // As a dynamic program on a machine without a C library.
        let script = b"#!/nonexistent-interpreter\n";
        let script = file::make(folder.path(), "script", 0, |to| to.write_all(script)).unwrap();
        let error = start(&mut Command::new(&script)).unwrap_err().to_string();
        assert!(error.contains("script (is its dynamic linker"), "{error}");
    }
}
