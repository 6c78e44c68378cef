//! The stores, each on one cpu, as its own documents advise for that: nothing kept on a disk.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::words::Words;
use crate::pair::Pair;
use crate::servers::program::{Program, built, first_line, free_address, is_here, on_cpu};

/// Every store that is to be had here, and its language.
pub(super) fn all(pair: Pair) -> Result<Vec<(Program, Words)>> {
    let mut all = vec![(kumiki(pair)?, Words::Resp)];
    if is_here("redis-server", "--version") {
        let words = ["--save", "", "--appendonly", "no", "--daemonize", "no"];
        all.push((peer("redis", "redis-server", ["--bind", "--port"], &words, pair)?, Words::Resp));
    }
    if is_here("memcached", "--version") {
        let words = ["-U", "0", "-t", "1", "-m", "256", "-u", "root"];
        all.push((peer("memcached", "memcached", ["-l", "-p"], &words, pair)?, Words::Memcached));
    }
    Ok(all)
}

fn kumiki(pair: Pair) -> Result<Program> {
    let mut command = on_cpu(pair, &built("kumiki-kv")?);
    command.args(["--port", "0", "--cpu-list", &pair.helper.to_string()]).stdout(Stdio::piped());
    let child = command.spawn().context("starting kumiki-kv")?;
    Program::saying("kumiki", child, |child| {
        let line = first_line(child)?;
        let address = line.split(' ').nth(2).and_then(|word| word.parse().ok());
        address.with_context(|| format!("kumiki-kv says no address: {line:?}"))
    })
}

fn peer(
    name: &'static str,
    program: &str,
    where_at: [&str; 2],
    words: &[&str],
    pair: Pair,
) -> Result<Program> {
    let (folder, address) = (tempfile::tempdir()?, free_address()?);
    let mut command = on_cpu(pair, Path::new(program));
    let [ip, port] = [address.ip().to_string(), address.port().to_string()];
    command.args([where_at[0], &ip, where_at[1], &port]).args(words);
    let child = command.current_dir(folder.path()).stdout(Stdio::null()).spawn();
    Program::listening(name, address, child.with_context(|| format!("starting {name}"))?, folder)
}
