//! The process that keeps the program of a node's image: starts it once the node is ready,
//! has what it says in the kernel's log, and ends the node when it has ended, as a container
//! ends with its program.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kumiki_node_wire::brought::PROGRAM;
use kumiki_node_wire::module::abi;
use kumiki_rootfs::Program;

use super::{PATH, ending, environment, log, open, root, shared, users};
use crate::{Error, ErrorKind, Result, Subject};

/// Interval of looks whether the node is ready.
const LOOK: Duration = Duration::from_millis(5);
/// Length of a line in the kernel's log, which takes no longer ones.
const LINE_BYTES: u64 = 900;

/// The program, if the image has one.
pub(super) fn program() -> Result<Option<Program>> {
    let text = match fs::read(PROGRAM) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(PROGRAM, error)),
    };
    let program: Program = serde_json::from_slice(&text).map_err(|error| {
        Error::refused(
            ErrorKind::Damaged,
            Subject::File(PROGRAM.into()),
            format!("{PROGRAM}: {error}"),
        )
    })?;
    Ok(Some(program).filter(|program| !program.words.is_empty()))
}

/// Keeps it to its end.
pub(super) fn keep() -> Result<()> {
    let Some(program) = program()? else { return Ok(()) };
    // The kernel drops what comes fast, unless it is told not to.
    let _ = fs::write("/proc/sys/kernel/printk_devkmsg", "on");
    let window = shared(&open()?)?;
    while window.word() != abi::WORD_READY {
        thread::sleep(LOOK);
    }
    let word = program.words.join(" ");
    let ended = start(&program).and_then(|mut child| {
        ending::begins_with(child.id(), &program.stop_signal);
        let passing = pass_on(&mut child);
        let status = child.wait().map_err(|error| Error::os(format!("waiting for {word}"), error));
        passing.into_iter().for_each(|thread| drop(thread.join()));
        status
    });
    match ended {
        Ok(status) => log(&format!("the image's program has ended: {word}: {status}")),
        Err(error) => log(&format!("the image's program: {error}")),
    }
    ending::ask_for_power_off()
}

fn start(program: &Program) -> Result<Child> {
    let place = root::place().unwrap_or(Path::new("/"));
    let who = users::who(place, &program.user)?;
    let mut command = Command::new(&program.words[0]);
    command.args(&program.words[1..]).env_clear().env("PATH", PATH);
    environment::of(Some(&who), Some(program.clone())).tell(&mut command);
    super::spared::not(&mut command);
    let folder = if program.folder.is_empty() { "/" } else { &program.folder };
    root::enter(&mut command, folder, Some(who))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let word = &program.words[0];
    command.spawn().map_err(|error| Error::os(format!("starting {word}"), error))
}

/// Its lines, to the log.
fn pass_on(child: &mut Child) -> Vec<JoinHandle<()>> {
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|output| Box::new(output) as _),
        child.stderr.take().map(|output| Box::new(output) as _),
    ];
    let each = outputs.into_iter().flatten();
    each.map(|output| thread::spawn(move || lines(output, log))).collect()
}

/// Lines as they are, long ones in parts.
fn lines(output: impl Read, mut pass: impl FnMut(&str)) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        match output.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches(['\n', '\r']);
                if !text.is_empty() {
                    pass(text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_passed_on_and_none_is_longer_than_the_log_takes() {
        let mut seen = Vec::new();
        let text = format!("one\r\n\n{}\nlast", "x".repeat(1000));
        lines(text.as_bytes(), |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", &"x".repeat(900), &"x".repeat(100), "last"]);
    }
}
