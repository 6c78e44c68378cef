//! Starts of a node, as in the paper's Table 3 and on to user space.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;
use kumiki_node::{Files, Image, KernelForm, Node, Stages};

use super::exec::Exec;
use super::{IMAGE, NODE, run};
use crate::run::median_of;

const LIMIT: Duration = Duration::from_secs(240);
/// The image that a first start leaves.
const KEPT: &str = "kept";
/// The snapshot of the node that has just started from its image, and does nothing.
const WARM: &str = "warm";
const MIB: f64 = 1048576.0;

/// Place where a start finds kernel and initramfs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StartFrom {
    /// Files whose cache was dropped.
    Disk,
    /// Same files, which it keeps in memory.
    First,
    /// Memory, the kernel as it is shipped.
    Resident,
    /// Memory, the kernel uncompressed.
    ResidentElf,
    /// Memory, the kernel asleep.
    Snapshot,
}

impl StartFrom {
    const ALL: [StartFrom; 5] = [
        StartFrom::Disk,
        StartFrom::First,
        StartFrom::Resident,
        StartFrom::ResidentElf,
        StartFrom::Snapshot,
    ];

    fn name(self) -> &'static str {
        match self {
            StartFrom::Disk => "disk",
            StartFrom::First => "first",
            StartFrom::Resident => "resident",
            StartFrom::ResidentElf => "resident_elf",
            StartFrom::Snapshot => "snapshot",
        }
    }

    fn start(self, node: &Node, files: &Files) -> Result<Stages> {
        // The emulator throws what it has translated of a page away at the next store
        // there, and the last start's whole kernel is such: ten times what copying takes,
        // on no processor, and for each way the same. It is done before the clock runs.
        node.wipe()?;
        if matches!(self, StartFrom::Disk | StartFrom::First) {
            drop_caches()?;
        }
        Ok(match self {
            StartFrom::Disk => node.start_from(files, None, LIMIT)?,
            StartFrom::First => node.start_from(files, Some(KEPT), LIMIT)?,
            StartFrom::Resident => node.start(KernelForm::BzImage, LIMIT)?,
            StartFrom::ResidentElf => node.start(KernelForm::Vmlinux, LIMIT)?,
            StartFrom::Snapshot => node.start_snapshot(WARM, LIMIT)?,
        })
    }
}

/// A stage and its row's name; the first ones are the load phase's, the last ones the
/// node's own way to its agent.
type Stage = (&'static str, fn(&Stages) -> f64);
const STAGES: [Stage; 16] = [
    ("load.read_kernel", |s| s.parts.read_kernel_ms),
    ("load.place_kernel", |s| s.parts.place_kernel_ms),
    ("load.copy_kernel", |s| s.parts.copy_kernel_ms),
    ("load.read_initramfs", |s| s.parts.read_initramfs_ms),
    ("load.place_initramfs", |s| s.parts.place_initramfs_ms),
    ("load.copy_initramfs", |s| s.parts.copy_initramfs_ms),
    ("load.plan", |s| s.parts.plan_ms),
    ("load.other", |s| s.parts.other_ms(s.load_ms)),
    ("keep", |s| s.parts.keep_ms),
    ("execute", |s| s.execute_ms),
    ("start.load", |s| s.load_ms),
    ("start.trampoline", |s| s.trampoline_ms),
    ("start.early", |s| s.early_ms),
    ("start.kernel", |s| s.kernel_ms),
    ("start.init", |s| s.init_ms),
    ("start.agent", |s| s.agent_ms),
];

pub(super) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let files = Files { kernel: folder.join("bzImage"), initramfs: folder.join("initramfs") };
    run(&["kumiki", "node", "create", NODE, "--memory", "256M", "--image", IMAGE])?;
    Image::open(IMAGE)?.save(&files)?;
    let node = Node::find(NODE)?;
    let mut bare = BareStart::of(&files)?;
    node.start(KernelForm::Vmlinux, LIMIT)?;
    let kept = node.take_snapshot(WARM)?;

    let mut starts = StartFrom::ALL.map(|from| (from, Vec::new()));
    let mut exec = Exec::default();
    let mut rng = fastrand::Rng::new();
    for round in 0..rounds {
        rng.shuffle(&mut starts);
        for (from, all) in &mut starts {
            bare.measure();
            all.push(from.start(&node, &files)?);
            if *from == StartFrom::ResidentElf {
                exec.measure()?;
            }
            node.stop(Duration::ZERO)?;
            if *from == StartFrom::First {
                Image::remove(KEPT)?;
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    node.delete()?;
    Image::remove(WARM)?;
    let mut rows = figures(&starts, &bare);
    let kept = [("kept", kept.kept_bytes), ("zeros", kept.zero_bytes), ("free", kept.free_bytes)];
    rows.extend(kept.map(|(what, bytes)| {
        Row::of(("snapshot_bytes", what), "MiB", &[vec![bytes as f64 / MIB]], None)
    }));
    rows.extend(exec.rows());
    Ok(rows)
}

fn figures(starts: &[(StartFrom, Vec<Stages>)], bare: &BareStart) -> Vec<Row> {
    let of = |from: StartFrom, figure: &dyn Fn(&Stages) -> f64| -> Vec<Vec<f64>> {
        let all = starts.iter().filter(|(other, _)| *other == from).flat_map(|(_, all)| all);
        all.map(|stages| vec![figure(stages)]).collect()
    };
    let load = |s: &Stages| s.load_ms;
    let whole = |s: &Stages| s.load_ms + s.start_ms;
    let limit = Some(median_of(&bare.ms));
    let load_base = Some(median_of(&of(StartFrom::Disk, &load)));
    let start_base = Some(median_of(&of(StartFrom::Disk, &whole)));
    let source_base = Some(median_of(&of(StartFrom::Disk, &|s| s.load_ms + s.execute_ms)));
    let bare = Row::of(("load", "bare"), "ms", &bare.ms, load_base);
    let mut rows = vec![Row { limit, ..bare }];
    for from in StartFrom::ALL {
        let name = from.name();
        // Other bytes than those that are copied bare.
        let limit =
            limit.filter(|_| ![StartFrom::ResidentElf, StartFrom::Snapshot].contains(&from));
        let row = Row::of(("load", name), "ms", &of(from, &load), load_base);
        rows.push(Row { limit, ..row });
        rows.push(Row::of(("start", name), "ms", &of(from, &whole), start_base));
        let source = |s: &Stages| s.load_ms + s.execute_ms;
        rows.push(Row::of(("load_execute", name), "ms", &of(from, &source), source_base));
        for (case, stage) in STAGES {
            rows.push(Row::of((case, name), "ms", &of(from, &stage), None));
        }
    }
    rows
}

/// Copies the same bytes from memory to memory, and does nothing else.
struct BareStart {
    from: Vec<u8>,
    to: Vec<u8>,
    ms: Vec<Vec<f64>>,
}

impl BareStart {
    fn of(files: &Files) -> Result<Self> {
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
        let mut from = read(&files.kernel)?;
        from.extend(read(&files.initramfs)?);
        // Touched, as a node's memory is.
        let to = vec![1; from.len()];
        Ok(BareStart { from, to, ms: Vec::new() })
    }

    fn measure(&mut self) {
        let begin = Instant::now();
        self.to.copy_from_slice(std::hint::black_box(&self.from));
        std::hint::black_box(&self.to);
        self.ms.push(vec![begin.elapsed().as_secs_f64() * 1e3]);
    }
}

pub(super) fn drop_caches() -> Result<()> {
    run(&["sync"])?;
    let path = "/proc/sys/vm/drop_caches";
    fs::write(path, "3").with_context(|| format!("writing {path}"))
}
