//! `kumiki-spawn`: threads that start children by themselves and by spawn servers, while servers and
//! children are killed and descriptors run out.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use kumiki_spawn::{Command, SpawnServer, Stdio};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::{self, Calm, Fault};
use crate::soak::Soak;

const THREADS: u64 = 6;
/// The program that a spawn server runs, as its link in /proc shows it.
const SERVER: &str = "/memfd:kumiki-spawn";

pub(crate) fn soak(soak: &'static Soak) -> Result<()> {
    std::thread::scope(|threads| {
        for number in 0..THREADS {
            threads.spawn(move || {
                let mut starter = Starter { soak, rng: soak.rng(number), own: SpawnServer::new() };
                while !soak.is_over() {
                    if let Err(error) = starter.act() {
                        soak.fail(&format!("thread {number}: {error:#}"));
                    }
                }
            });
        }
        threads.spawn(move || {
            let killed = Fault::new("spawn servers killed", move |_| {
                soak.excuse(Duration::from_secs(1));
                kill_servers();
                Ok(())
            });
            let all = vec![killed, descriptors_out(soak)];
            faults::draw_with_rests(soak, &Calm::default(), all, Duration::from_millis(300));
        });
        soak.guard();
    });
    for what in ["wrote", "copied", "ended by a number", "not there", "killed"] {
        ensure!(soak.counted(what) > 0, "no child {what}");
    }
    Ok(())
}

/// Kills those children of this process that are spawn servers.
fn kill_servers() {
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        let program = fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        if parent == Some(&own) && program.to_string_lossy().starts_with(SERVER) {
            let _ = Pid::from_raw(id).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// Lets this process have no more descriptors than it has, for a moment.
fn descriptors_out<'a>(soak: &'a Soak) -> Fault<'a> {
    Fault::new("descriptors out", move |rng| {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit")?;
        soak.excuse(Duration::from_secs(1));
        setrlimit(Resource::RLIMIT_NOFILE, rng.u64(4..40), hard).context("the limit")?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..50)));
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).context("the limit")
    })
}

struct Starter {
    soak: &'static Soak,
    rng: Rng,
    own: SpawnServer,
}

impl Starter {
    fn act(&mut self) -> Result<()> {
        let act = self.rng.u32(..5);
        let waits = self.soak.request(format!("a child, by way {act}"));
        let done = match act {
            0 => self.writes(),
            1 => self.copies(),
            2 => self.ends(),
            3 => self.is_missing(),
            _ => self.is_killed(),
        };
        drop(waits);
        match done {
            // A server was killed, or there was no descriptor: said, and nothing is left.
            Err(error) if self.soak.is_excused() => {
                self.soak.count("refused");
                let text = format!("{error:#}");
                let known = ["spawn server", "Too many open files", "killed", "signal"];
                ensure!(known.iter().any(|word| text.contains(word)), "{text}");
                Ok(())
            }
            done => done,
        }
    }

    fn command(&mut self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.by_server(self.rng.bool());
        command
    }

    fn spawn(&mut self, command: &mut Command) -> std::io::Result<kumiki_spawn::Child> {
        if self.rng.u8(..4) == 0 { command.spawn_by(&mut self.own) } else { command.spawn() }
    }

    fn writes(&mut self) -> Result<()> {
        let word = format!("{:x}", self.rng.u128(..));
        let output = self.command("/bin/echo").arg(&word).output().context("echo")?;
        ensure!(output.status.success(), "echo: {}", output.status);
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said == format!("{word}\n") && output.stderr.is_empty(), "echo wrote {said:?}");
        self.soak.count("wrote");
        Ok(())
    }

    /// A child that gives back what it gets.
    fn copies(&mut self) -> Result<()> {
        let bytes: Vec<u8> = (0..self.rng.usize(..60_000)).map(|_| self.rng.u8(..)).collect();
        let mut command = self.command("/bin/cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = self.spawn(&mut command).context("cat")?;
        let mut input = child.stdin.take().context("no input")?;
        let mut output = child.stdout.take().context("no output")?;
        let mut back = Vec::new();
        let read = std::thread::scope(|threads| {
            let bytes = &bytes;
            // One that was killed takes no more.
            threads.spawn(move || _ = input.write_all(bytes));
            output.read_to_end(&mut back)
        });
        let status = child.wait().context("waiting for cat")?;
        read.context("reading from cat")?;
        ensure!(status.success(), "cat: {status}");
        ensure!(back == bytes, "cat gave {} bytes, not the {} it got", back.len(), bytes.len());
        self.soak.count("copied");
        Ok(())
    }

    fn ends(&mut self) -> Result<()> {
        let number = self.rng.i32(0..256);
        let mut command = self.command("/bin/sh");
        command.args(["-c", &format!("exit {number}")]);
        let status = self.spawn(&mut command).context("sh")?.wait().context("waiting for sh")?;
        ensure!(status.code() == Some(number), "sh was to end by {number}: {status}");
        self.soak.count("ended by a number");
        Ok(())
    }

    fn is_missing(&mut self) -> Result<()> {
        let mut command = self.command("/no/such/program");
        match self.spawn(&mut command) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("a program that is not there"),
            Ok(mut child) => {
                let status = child.wait()?;
                // With its server goes who would have told that there is no program.
                let told = status.code() == Some(127) && self.soak.is_excused();
                ensure!(told || status.signal().is_some(), "there is no program: {status}");
                bail!("killed on its way: {status}");
            }
        }
        self.soak.count("not there");
        Ok(())
    }

    fn is_killed(&mut self) -> Result<()> {
        let mut command = self.command("/bin/sleep");
        let mut child = self.spawn(command.arg("1000")).context("sleep")?;
        std::thread::sleep(Duration::from_micros(self.rng.u64(..2000)));
        child.kill().context("killing sleep")?;
        let status = child.wait().context("waiting for sleep")?;
        ensure!(status.signal() == Some(9), "sleep was killed: {status}");
        self.soak.count("killed");
        Ok(())
    }
}
