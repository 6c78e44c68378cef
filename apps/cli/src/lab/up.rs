//! `kumiki lab up`: a machine that stays, kept by a process in the background.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Cache, Config, Talk, standing};

use crate::{Verdict, output};

/// Starts the keeper with our own words and waits until the machine is up.
pub(super) fn up(name: &str) -> Result<Verdict> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let at = words.iter().position(|word| word == "up").context("this is `kumiki lab up`")?;
    words[at] = "keep".into();
    let own = std::env::current_exe().context("finding this program, the machine's keeper")?;
    let mut keeper = Command::new(&own)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {}", own.display()))?;
    // Its own stderr would keep ours open for as long as the machine stays.
    let talk = keeper.stderr.take().context("it was asked for")?;
    let talking = thread::spawn(move || {
        let mut last = None;
        for line in BufReader::new(talk).lines().map_while(Result::ok) {
            output::aside(&format!("{line}\n"));
            last = Some(line);
        }
        last
    });
    let mut ready = String::new();
    let stdout = keeper.stdout.take().context("it was asked for")?;
    BufReader::new(stdout).read_line(&mut ready).context("waiting for the machine")?;
    if ready.is_empty() {
        let status = keeper.wait().context("waiting for the machine's keeper")?;
        let said = talking.join().ok().flatten();
        ensure!(said.is_some(), "the machine's keeper ended with {status}");
        // It has said why.
        return Ok(Verdict::Exit(2));
    }
    output::line(name)?;
    output::talk(format_args!("up after {} s", ready.trim()));
    Ok(Verdict::Fine)
}

/// Is the keeper: it stays until the machine ends.
pub(super) fn keep(name: &str, config: &Config) -> Result<Verdict> {
    // A session of its own, so that no terminal's end is ours. It fails only
    // where there is one already.
    let _ = rustix::process::setsid();
    let cache = Cache::of_user()?;
    standing::keep(name, &cache, config, Talk::to(&|text| output::talk(text)), |about| {
        // Nobody's folder is to be held by us.
        let _ = std::env::set_current_dir("/");
        // Whoever waited may have been interrupted meanwhile.
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{:.1}", about.start_s).and_then(|()| stdout.flush())
    })?;
    Ok(Verdict::Fine)
}
