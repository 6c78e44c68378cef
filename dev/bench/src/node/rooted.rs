//! Nodes whose root is a container image: how long until its server answers, and what the root
//! takes of a node's own memory, of which there are as many as nodes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;
use kumiki_node::{Image, KernelForm, Node};

use super::devices::in_node;
use super::warm::{CARD, answered, ms};
use super::{NODE, run};
use crate::run::median_of;

/// The image that `cargo xtask bench node` brings: nginx, with [`super::warm`]'s page.
const SAVED: &str = "/mnt/saved.tar";
/// Kernel and module that nodes of images start from.
const KERNEL: [&str; 4] = ["--kernel", "/root/vmlinuz", "--guest-module", "/root/osnode-guest.ko"];
const SERVER: &str = "web";
/// Two images whose nodes run alike: that one, and one with nothing but the programs that read it.
const WHOLE: &str = "whole";
const SMALL: &str = "small";
const LIMIT: Duration = Duration::from_secs(240);
/// Nothing that changes a node's memory.
const PROGRAM: &str = "/bin/busybox sleep 1000000";
const PROGRAMS: [&str; 4] = ["sh", "cat", "find", "grep"];
/// Reads all there is.
const READ: &str = "find / -xdev -type f -exec cat {} + > /dev/null";
/// Has the kernel forget names, inodes and blocks, as it does when it needs the memory.
const FORGET: &str = "echo 3 > /proc/sys/vm/drop_caches";
const KIB_OF_MIB: f64 = 1024.0;
const MIB: f64 = 1048576.0;
const MANY: usize = 10;

pub(super) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    add(SERVER, &format!("docker-archive:{SAVED}"), None)?;
    create(SERVER)?;
    let (mut ready, mut http) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let node = Node::find(NODE)?;
        node.wipe()?;
        let begin = Instant::now();
        node.start(KernelForm::Vmlinux, LIMIT)?;
        ready.push(vec![ms(begin)]);
        answered(Duration::from_millis(200))?;
        http.push(vec![ms(begin)]);
        node.stop(Duration::ZERO)?;
        eprintln!("http_first: round {} of {rounds}", round + 1);
    }
    remove(SERVER)?;
    let base = Some(median_of(&ready));
    let mut rows = vec![
        Row::of(("http_first", "kumiki"), "ms", &http, base),
        Row::of(("http_first", "ready"), "ms", &ready, base),
    ];
    rows.extend(memory(folder, rounds)?);
    Ok(rows)
}

/// One copy of the root, and what each node has beside it: one node's, as often as there are
/// nodes.
fn memory(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let whole = add(WHOLE, &format!("docker-archive:{SAVED}"), Some(PROGRAM))?;
    let small = add(SMALL, &small(folder)?, Some(PROGRAM))?;
    let root = (whole - small) as f64 / MIB;
    let (mut own, mut whole) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let [with, without] = [used(WHOLE)?, used(SMALL)?];
        own.push(with.kept - without.kept);
        whole.push(with.all - without.all);
        eprintln!("root_memory: round {} of {rounds}: {:.1} MiB", round + 1, own[round]);
    }
    for name in [WHOLE, SMALL] {
        Image::remove(name)?;
    }
    let of = |subject, own: &[f64], nodes: usize| {
        let all: Vec<_> = own.iter().map(|own| vec![root + own * nodes as f64]).collect();
        Row::of(("root_memory", subject), "MiB", &all, Some(root)).of_size(nodes)
    };
    Ok([("kumiki", own), ("kumiki/remembered", whole)]
        .iter()
        .flat_map(|(subject, own)| [1, MANY].map(|nodes| of(subject, own, nodes)))
        .collect())
}

/// An archive of few files.
fn small(folder: &Path) -> Result<String> {
    let root = folder.join(SMALL);
    let programs = root.join("bin");
    fs::create_dir_all(&programs).with_context(|| format!("making {}", programs.display()))?;
    fs::copy("/bin/busybox", programs.join("busybox")).context("copying busybox")?;
    for program in PROGRAMS {
        symlink("busybox", programs.join(program)).context("linking a program")?;
    }
    let tar = folder.join("small.tar").display().to_string();
    run(&["tar", "-C", &root.to_string_lossy(), "-cf", &tar, "."])?;
    Ok(tar)
}

/// Bytes that it takes.
fn add(name: &str, source: &str, program: Option<&str>) -> Result<u64> {
    let mut words = vec!["kumiki", "image", "add", name, "--rootfs", source];
    words.extend(KERNEL);
    words.extend(program.iter().flat_map(|program| ["--entrypoint", program]));
    run(&words)?;
    let all = Image::list()?;
    let made = all.iter().find(|image| image.name == name);
    Ok(made.with_context(|| format!("no image {name}"))?.bytes)
}

fn create(image: &str) -> Result<()> {
    run(&["kumiki", "node", "create", NODE, "--memory", "256M", "--image", image, "--net", CARD])
}

fn remove(image: &str) -> Result<()> {
    Node::find(NODE)?.delete()?;
    Ok(Image::remove(image)?)
}

/// A node's own memory in use, MiB.
struct Used {
    /// But for what its kernel remembers.
    kept: f64,
    all: f64,
}

/// Starts a node and has it read its whole root.
fn used(image: &str) -> Result<Used> {
    create(image)?;
    let node = Node::find(NODE)?;
    node.start(KernelForm::Vmlinux, LIMIT)?;
    let [all, kept] = [READ, FORGET].map(in_use_after);
    node.stop(Duration::ZERO)?;
    node.delete()?;
    Ok(Used { kept: kept?, all: all? })
}

/// MiB of the node's memory, after a line of shell in it.
fn in_use_after(line: &str) -> Result<f64> {
    let said = in_node(&["sh", "-c", &format!("{line}; cat /proc/meminfo /proc/zoneinfo")])?;
    let mib = |name: &str| -> Result<f64> {
        let mut lines = said.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(start, _)| *start == name);
        let kib = found.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.with_context(|| format!("{name} of a node's /proc/meminfo: {said:?}"))? / KIB_OF_MIB)
    };
    // On a cpu's own list of free pages, which MemFree does not count.
    let counts = said.lines().filter_map(|line| line.trim().strip_prefix("count:"));
    let listed: u64 = counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum();
    Ok(mib("MemTotal")? - mib("MemFree")? - (listed * 4) as f64 / KIB_OF_MIB)
}
