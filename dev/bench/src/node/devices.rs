//! What a node's devices do beside the host's own: streams to a node beside streams to
//! another network namespace and to the same machine, a disk and a folder beside the
//! files that they are.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{Ending, KernelForm, Node, Session};

use super::peer::{Peer, Place};
use super::start::drop_caches;
use super::{IMAGE, NODE, peer, run};
use crate::run::median_of;

pub(crate) const READ: &str = "read";
/// Way to read a file: past the page cache, or through it.
pub(super) const DIRECT: &str = "direct";
const CACHED: &str = "cached";
const LIMIT: Duration = Duration::from_secs(240);
const ECHOES: usize = 300;
const STREAM_BYTES: u64 = 32 << 20;
pub(super) const FILE_BYTES: usize = 64 << 20;
/// Bytes of one read, unless it is said.
pub(crate) const READ_BYTES: usize = 1 << 20;
const CID: u32 = 77;
/// Cards of the node: by vhost-net, and by the serving process itself.
const CARDS: [&str; 2] =
    ["auto,address=10.90.0.2/24,host=10.90.0.1/24", "auto,address=10.91.0.2/24,host=10.91.0.1/24"];
const STREAMS: [(&str, Place); 4] = [
    ("kumiki", Place::Tcp("10.90.0.2")),
    ("kumiki/inprocess", Place::Tcp("10.91.0.2")),
    ("tap_pair", Place::Tcp("10.92.0.2")),
    ("loopback", Place::Tcp("127.0.0.1")),
];
const VSOCKS: [(&str, Place); 2] = [("kumiki", Place::Vsock(CID)), ("loopback", Place::Vsock(1))];
const VHOST_NET: &str = "/dev/vhost-net";
pub(super) const IN_NODE: &str = "/bin/kumiki-bench";

/// Streams and files; `folder` is on a disk.
pub(super) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let shared = folder.join("shared");
    std::fs::create_dir_all(&shared).context("making a folder to share")?;
    let file = shared.join("file");
    fill(&file)?;
    let disk = folder.join("disk");
    fill(&disk)?;
    let node = prepare(&disk, &shared)?;
    let _here = Peer::here()?;
    let _apart = Peer::apart("10.92.0.1/24", "10.92.0.2/24")?;
    let mut rows = streams(rounds)?;
    rows.extend(reads("blk_read", (&disk, "/dev/vda"), DIRECT, rounds)?);
    match in_node(&["test", "-e", "/mnt/file"]) {
        Ok(_) => rows.extend(reads("file_read", (&file, "/mnt/file"), CACHED, rounds)?),
        Err(error) => eprintln!("file_read: left out: {error}"),
    }
    node.stop(Duration::ZERO)?;
    node.delete()?;
    Ok(rows)
}

fn fill(path: &Path) -> Result<()> {
    let mut bytes = vec![0; FILE_BYTES];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    let mut file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    file.write_all(&bytes)?;
    Ok(file.sync_all()?)
}

/// A node with all devices, in which the other end of the streams runs.
fn prepare(disk: &Path, shared: &Path) -> Result<Node> {
    let disk = format!("{},ro,direct", disk.display());
    let create = ["kumiki", "node", "create", NODE, "--memory", "384M", "--image", IMAGE];
    let devices = ["--net", CARDS[0], "--disk", &disk, "--vsock", "77"];
    run(&[&create[..], &devices[..]].concat())?;
    let node = Node::find(NODE)?;
    node.start(KernelForm::Vmlinux, LIMIT)?;
    // Where there is no virtiofsd the rest goes on.
    let _ = run(&[
        "kumiki",
        "node",
        "device",
        "add",
        NODE,
        "--share",
        &format!("{}:/mnt", shared.display()),
    ]);
    run(&["mv", VHOST_NET, "/dev/kept"])?;
    let added = run(&["kumiki", "node", "device", "add", NODE, "--net", CARDS[1]]);
    run(&["mv", "/dev/kept", VHOST_NET])?;
    added?;
    let own = std::env::current_exe().context("finding our own program")?;
    run(&["kumiki", "node", "cp", &own.to_string_lossy(), &format!("{NODE}:{IN_NODE}")])?;
    in_node(&["sh", "-c", &format!("{IN_NODE} {} > /dev/null 2>&1 < /dev/null &", peer::WORD)])?;
    for (name, place) in STREAMS[..2].iter().chain(&VSOCKS[..1]) {
        let begin = Instant::now();
        while let Err(error) = place.echo(1) {
            ensure!(begin.elapsed() < Duration::from_secs(60), "{name}: {error:#}");
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(node)
}

/// Output of a program in the node.
pub(super) fn in_node(words: &[&str]) -> Result<String> {
    let owned: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let (ending, out, err) = Session::open(NODE)?.output(&owned)?;
    let err = String::from_utf8_lossy(&err);
    ensure!(ending == Ending::Exited(0), "{words:?} in the node: {ending:?}: {err}");
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Samples by subject, in the order of the subjects.
type DeviceSamples = Vec<(&'static str, Place, Vec<Vec<f64>>)>;

fn streams(rounds: usize) -> Result<Vec<Row>> {
    let all = |places: &[(&'static str, Place)]| -> DeviceSamples {
        places.iter().map(|&(name, place)| (name, place, Vec::new())).collect()
    };
    let (mut echoes, mut puts, mut gets) = (all(&STREAMS), all(&STREAMS), all(&STREAMS));
    let mut vsocks = all(&VSOCKS);
    let mut rng = fastrand::Rng::new();
    for round in 0..rounds {
        for samples in [&mut echoes, &mut puts, &mut gets, &mut vsocks] {
            rng.shuffle(samples);
        }
        for (_, place, samples) in echoes.iter_mut().chain(&mut vsocks) {
            samples.push(place.echo(ECHOES)?);
        }
        for (_, place, samples) in &mut puts {
            samples.push(vec![place.put(STREAM_BYTES)?]);
        }
        for (_, place, samples) in &mut gets {
            samples.push(vec![place.get(STREAM_BYTES)?]);
        }
        eprintln!("streams: round {} of {rounds}", round + 1);
    }
    let mut rows = times("ping", echoes, "tap_pair");
    rows.extend(rates("tcp_put", puts));
    rows.extend(rates("tcp_get", gets));
    rows.extend(times("vsock_echo", vsocks, "loopback"));
    Ok(rows)
}

fn base(samples: &DeviceSamples, name: &str) -> Option<f64> {
    samples.iter().find(|(other, ..)| *other == name).map(|(.., samples)| median_of(samples))
}

fn times(case: &'static str, mut samples: DeviceSamples, of: &str) -> Vec<Row> {
    samples.sort_by_key(|(name, ..)| *name);
    let base = base(&samples, of);
    let row = |(name, _, all): &(&'static str, Place, Vec<Vec<f64>>)| {
        Row::of((case, name), "ns", all, base)
    };
    samples.iter().map(row).collect()
}

fn rates(case: &'static str, mut samples: DeviceSamples) -> Vec<Row> {
    samples.sort_by_key(|(name, ..)| *name);
    let base = base(&samples, "tap_pair");
    let row = |(name, _, all): &(&'static str, Place, Vec<Vec<f64>>)| {
        Row::rate((case, name), "GB/s", all, base)
    };
    samples.iter().map(row).collect()
}

/// One file by the host itself and by the node, neither's pages in a cache.
fn reads(
    case: &'static str,
    (host, node): (&Path, &str),
    how: &str,
    rounds: usize,
) -> Result<Vec<Row>> {
    let (mut of_host, mut of_node) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut by_host = || -> Result<()> {
            drop_caches()?;
            of_host.push(vec![read(host, how, READ_BYTES)?]);
            Ok(())
        };
        let mut by_node = || -> Result<()> {
            drop_caches()?;
            in_node(&["sh", "-c", "echo 3 > /proc/sys/vm/drop_caches"])?;
            let said = in_node(&[IN_NODE, READ, node, how])?;
            of_node.push(vec![said.trim().parse().with_context(|| format!("{said:?}"))?]);
            Ok(())
        };
        if round % 2 == 0 {
            by_host()?;
            by_node()?;
        } else {
            by_node()?;
            by_host()?;
        }
    }
    let base = Some(median_of(&of_host));
    Ok(vec![
        Row::rate((case, "kumiki"), "GB/s", &of_node, base),
        Row::rate((case, "host"), "GB/s", &of_host, base),
    ])
}

/// Reads a file or a device of [`FILE_BYTES`] from its beginning to its end, so many bytes each
/// time; GB/s.
pub(crate) fn read(path: &Path, how: &str, piece: usize) -> Result<f64> {
    let mut options = OpenOptions::new();
    options.read(true);
    if how == DIRECT {
        options.custom_flags(libc::O_DIRECT);
    }
    let mut file = options.open(path).with_context(|| format!("opening {}", path.display()))?;
    // Aligned, as O_DIRECT wants it.
    let mut room = vec![0; piece + 4096];
    let at = room.as_ptr().align_offset(4096);
    let bytes = &mut room[at..at + piece];
    let mut total = 0;
    let begin = Instant::now();
    loop {
        let length = file.read(bytes).with_context(|| format!("reading {}", path.display()))?;
        if length == 0 {
            break;
        }
        total += length;
    }
    ensure!(total == FILE_BYTES, "{}: {total} bytes", path.display());
    Ok(total as f64 / begin.elapsed().as_nanos() as f64)
}
