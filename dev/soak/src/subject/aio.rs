//! `kumiki.aio`: children in one asyncio loop, by a program in Python that checks each one itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child::Server;
use crate::libkumiki::{self, prefix};
use crate::soak::Soak;

const PROGRAM: &str = include_str!("aio.py");
/// For what is under way at the end.
const REST: Duration = Duration::from_secs(150);

pub(crate) fn soak(soak: &'static Soak, folder: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("a package has a folder")?;
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM]);
    command.args([soak.left().as_secs_f64().to_string(), soak.seed().to_string()]);
    command.env("PYTHONPATH", root.join("lib/python")).env("KUMIKI_LIBRARY", library(folder));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let (program, _) = Server::of(command, |line| line == "begun")?;
    soak.watch_process(program.pid());
    let ended = loop {
        if let Some(why) = program.said().iter().find_map(|line| line.strip_prefix("FAILED: ")) {
            soak.fail(why);
        }
        if let Some(status) = program.ended() {
            break status;
        }
        if soak.overdue() > REST {
            soak.fail("the program in Python does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // What it has printed last is read by another thread.
    std::thread::sleep(Duration::from_millis(200));
    let said = program.said();
    ensure!(ended.success(), "the program in Python: {ended}: {}", said.join(" | "));
    for line in said {
        if let Some((count, what)) =
            line.strip_prefix("count ").and_then(|rest| rest.split_once(' '))
        {
            soak.count_many(what, count.parse().context("a count")?);
        }
        if let Some(longest) = line.strip_prefix("longest ") {
            soak.count_many("ms: longest silence of a child", longest.parse().context("a time")?);
        }
    }
    for what in ["wrote", "copied", "ended by a number", "not there", "killed", "given up"] {
        ensure!(soak.counted(what) > 0, "no child {what}");
    }
    Ok(())
}

/// libkumiki: the one that is named, or the one below the folder.
fn library(folder: &Path) -> PathBuf {
    let named = std::env::var_os("KUMIKI_LIBRARY").map(PathBuf::from);
    named.unwrap_or_else(|| prefix(folder).join("lib/libkumiki.so"))
}

/// Builds and installs libkumiki below the folder, unless one is named; whether there is a Python.
pub(crate) fn prepare(folder: &Path) -> Result<bool> {
    if Command::new("python3").args(["-c", ""]).status().is_err() {
        println!("there is no python3: passed over");
        return Ok(false);
    }
    if std::env::var_os("KUMIKI_LIBRARY").is_none() {
        libkumiki::install(folder)?;
    }
    Ok(true)
}
