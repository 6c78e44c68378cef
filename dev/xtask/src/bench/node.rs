//! OS nodes, measured in a machine of the lab by `dev/bench/`, and what they promise of it.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{
    Accelerator, Cache, Config, Kernel, KernelName, Machine, Talk, borrowed, kbuild, saved_nginx,
};

use super::judge::{Figures, print_rows};
use super::{BenchOutcome, Must, promises};
use crate::debian;
use crate::run::{cargo, program, root, run, target_folder};

/// The machine: the host's kernel and the nodes' are the same.
const KERNEL: &str = "6.1";
const CPUS: u32 = 4;
const MEMORY_BYTES: u64 = 2 << 30;
/// Starts of each kind.
const ROUNDS: &str = "7";
/// Size of the disk: a container image, and what is made of it, have room.
const DISK_BYTES: u64 = 2 << 30;
/// Size of the NVMe that a node has for its own: as much as the bench reads of it.
const NVME_BYTES: u64 = 64 << 20;
/// The rate of the second disk, as of a volume in a cloud: 100 MB/s.
const SLOW: &str = "throttling.bps-total=100000000";

/// Brings the machine to where `kumiki-bench node` begins.
const PREPARE: &str = "mount -t ext4 /dev/vda /mnt && mkdir /mnt/slow && \
                       mount -t ext4 /dev/vdb /mnt/slow && kumiki image add deb \
                       --kernel /root/vmlinuz --guest-module /root/osnode-guest.ko";

/// Adds an image whose nodes load these modules.
const ADD_NVME: &str = "kumiki image add nvme --kernel /root/vmlinuz \
                        --guest-module /root/osnode-guest.ko --modules";

/// Packages that the host needs to serve devices, and for the streams that they are compared with.
const SERVING: [&str; 5] = ["tun", "vhost_net", "vhost_vsock", "vsock_loopback", "veth"];
/// What a node's kernel drives them by.
const DRIVERS: [&str; 14] = [
    "nvme",
    "virtio_ring",
    "virtio",
    "virtio_net",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "virtiofs",
    "vmw_vsock_virtio_transport",
    // And its root, where that is a container image.
    "libnvdimm",
    "nd_e820",
    "nd_pmem",
    "erofs",
    "overlay",
];
/// Page of a server from a container image, as the bench has others answer.
const PAGE: &str = "answer\n";
const VIRTIOFSD: &str = "/usr/libexec/virtiofsd";
const BORROWED: &str = "/opt/virtiofsd";
/// It executes itself, which a loader that is named forbids: with its own library beside it.
const RUNC: &str = "/opt/runc";
const RUNC_LIBRARY: &str = "libseccomp.so.2";

/// Measures in a machine all, or the parts that `only` names; with `judge` says whether the
/// promises hold.
pub(super) fn node(judge: bool, only: &[String]) -> Result<BenchOutcome> {
    debian::install("lab")?;
    debian::install("bench-node")?;
    run(&mut cargo("build --profile dist --locked --package kumiki-cli --package kumiki-bench"))?;
    let json = measured(&target_folder()?.join("dist"), only)?;
    let mut outcome = BenchOutcome::read(&json).context("result of `kumiki-bench node`")?;
    print_rows(&outcome.rows);
    if judge {
        outcome.musts = musts(&Figures(&outcome.rows));
    }
    Ok(outcome)
}

/// What the bench in a machine prints. The machine's disks are files of this one, read
/// through this one's page cache. Nothing slows the first one down: a real disk is slower.
fn measured(programs: &Path, only: &[String]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("making a folder for the machine's disks")?;
    let [disk, slow, nvme] = ["disk", "slow", "nvme"].map(|name| folder.path().join(name));
    File::create(&nvme)?.set_len(NVME_BYTES)?;
    for disk in [&disk, &slow] {
        File::create(disk)?.set_len(DISK_BYTES)?;
        run(&mut program("mke2fs", ["-q", "-t", "ext4", &disk.to_string_lossy()]))?;
    }

    let talk = Talk::to(&|text| eprintln!("{text}"));
    let cache = Cache::of_user()?;
    let kernel = KERNEL.parse::<KernelName>()?.get(&cache, talk)?;
    let modules = kbuild::build(&cache, &kernel, &root().join("node/kernel"), "osnode", talk)?;
    let built = |name: &str| {
        let found = modules.iter().find(|path| path.ends_with(name));
        found.with_context(|| format!("node/kernel/osnode builds no {name}"))
    };
    let own = built("osnode.ko")?.display().to_string();
    let eventfds = built("osnode-eventfd.ko")?.display().to_string();
    let needed =
        [&[&*own, &*eventfds, "virtio_blk", "ext4", "crc32c_generic", "nvme"][..], &SERVING]
            .concat();
    let drive = format!("file={},if=none,id=disk,format=raw", disk.display());
    let nvme = format!("file={},if=none,id=nvme,format=raw", nvme.display());
    let slow = format!("file={},if=none,id=slow,format=raw,{SLOW}", slow.display());
    let config = Config {
        cpus: CPUS,
        memory_bytes: MEMORY_BYTES,
        kernel: KERNEL.parse()?,
        // QEMU 7.2 does not survive a device that comes and goes beside cpus in threads of their own.
        accelerator: if only == ["functions"] { Accelerator::OneThread } else { Accelerator::Auto },
        files: kernel.driver_files(&DRIVERS)?,
        modules: needed.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        qemu: [
            &["-drive", &*drive, "-device", "virtio-blk-pci,drive=disk"][..],
            &["-drive", &*slow, "-device", "virtio-blk-pci,drive=slow"],
            &["-device", "pcie-root-port,id=p1,bus=pcie.0,chassis=1,slot=1"],
            &["-drive", &*nvme, "-device", "nvme,drive=nvme,serial=nvme,bus=p1"],
        ]
        .concat()
        .into_iter()
        .map(Into::into)
        .collect(),
        programs: ["kumiki-noded", "kumiki-node-agent"].map(|name| programs.join(name)).into(),
        ..Config::new(programs.join("kumiki"))
    };
    let machine = Machine::start(&cache, &config, talk)?;
    let guest = machine.guest();
    guest.put(&kernel.bzimage, Path::new("/root/vmlinuz"))?;
    guest.put(built("osnode-guest.ko")?, Path::new("/root/osnode-guest.ko"))?;
    guest.put(built("osnode-virtio.ko")?, Path::new("/root/osnode-virtio.ko"))?;
    // The host's release has none that serves a node.
    let folder = borrowed(&cache, ("trixie", "virtiofsd"), VIRTIOFSD, Path::new(BORROWED), talk)?;
    guest.put(folder.path(), Path::new(BORROWED))?;
    let folder = borrowed(&cache, ("bookworm", "runc"), "/usr/sbin/runc", Path::new(RUNC), talk)?;
    let library = folder.path().join(RUNC_LIBRARY);
    guest.put(&folder.path().join("runc"), &Path::new(RUNC).join("runc"))?;
    guest.put(&library, &Path::new(RUNC).join("lib").join(RUNC_LIBRARY))?;
    // Of the newer release: it knows how to lay files out for DAX.
    let mkfs = ("/usr/bin/mkfs.erofs", "/opt/erofs");
    let folder = borrowed(&cache, ("trixie", "erofs-utils"), mkfs.0, Path::new(mkfs.1), talk)?;
    guest.put(folder.path(), Path::new(mkfs.1))?;
    guest.put(&programs.join("kumiki-bench"), Path::new("/root/kumiki-bench"))?;
    let prepare = format!(
        "{PREPARE} && mkdir -p /usr/libexec && ln -s {BORROWED}/run {VIRTIOFSD} && \
                           mkdir -p /usr/bin && ln -s {}/run {}",
        mkfs.1, mkfs.0
    );
    let prepared = machine.command("sh").args(["-c", &prepare]).output()?;
    let said = String::from_utf8_lossy(&prepared.stderr);
    ensure!(prepared.exit.code() == 0, "preparing the machine in the lab: {said}");
    let asked = |part: &str| only.is_empty() || only.iter().any(|asked| asked == part);
    if asked("functions") {
        let add = format!("{ADD_NVME} {}", modules_of(&kernel, "nvme")?);
        let added = machine.command("sh").args(["-c", &add]).output()?;
        let said = String::from_utf8_lossy(&added.stderr);
        ensure!(added.exit.code() == 0, "adding an image with a driver: {said}");
    }
    if asked("rooted") {
        let folder = tempfile::tempdir().context("making a folder for a container image")?;
        let saved = saved_nginx(&cache, folder.path(), PAGE, talk)?;
        guest.put(&saved, Path::new("/mnt/saved.tar"))?;
    }
    let mut json = Vec::new();
    let words = ["node", "/mnt", ROUNDS].into_iter().chain(only.iter().map(String::as_str));
    let bench = machine.command("/root/kumiki-bench").args(words).env("TMPDIR", "/mnt").spawn()?;
    let outcome = bench.pass(io::empty(), &mut json, io::stderr())?;
    ensure!(outcome.faults.is_empty(), "the machine's kernel log: {}", outcome.faults.join("\n"));
    ensure!(outcome.exit.code() == 0, "`kumiki-bench node` failed with {}", outcome.exit.code());
    machine.shut_down(0)?;
    Ok(json)
}

/// Places of a module and of those that it needs, in the order in which they are loaded, as
/// `--modules` has them.
fn modules_of(kernel: &Kernel, name: &str) -> Result<String> {
    // The first is the list of what is built in.
    let places = kernel.driver_files(&[name])?.into_iter().skip(1);
    Ok(places.map(|(_, place)| place.display().to_string()).collect::<Vec<_>>().join(","))
}

fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("node", figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Row;

    fn row(case: &str, subject: &str, median: f64) -> Row {
        Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            unit: "ms".to_owned(),
            n: 7,
            median,
            p99: median,
            ci: [median, median],
            ..Row::default()
        }
    }

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        vec![
            row("load", "disk", 100.0),
            row("load", "resident", 25.0),
            row("load", "bare", 20.0),
            row("start", "disk", 5000.0),
            row("start", "resident_elf", 2500.0),
            row("start", "snapshot", 300.0),
            row("start", "resident_http", 3000.0),
            row("start", "snapshot_http", 450.0),
            row("idle_wake", "kumiki", 600.0),
            row("idle_wake", "snapshot_http", 400.0),
            Row { unit: "MiB".to_owned(), ..row("snapshot_bytes", "kept", 90.0) },
            row("http_first", "kumiki", 1600.0),
            row("http_first", "ready", 1000.0),
            Row { n: 1, ..row("root_memory", "kumiki", 100.0) },
            Row { n: 10, ..row("root_memory", "kumiki", 110.0) },
            Row { n: 3, ..row("starts_at_once", "kumiki", 1000.0) },
            Row { n: 3, ..row("starts_at_once", "in_turn", 2000.0) },
            row("exec_true", "kumiki", 30.0),
            row("exec_true", "host", 10.0),
            row("ping", "kumiki", 250.0),
            row("ping", "tap_pair", 100.0),
            row("tcp_put", "kumiki", 1.0),
            row("tcp_put", "tap_pair", 2.0),
            row("tcp_get", "kumiki", 1.0),
            row("tcp_get", "tap_pair", 2.0),
            row("blk_read", "kumiki", 0.6),
            row("blk_read", "host", 1.0),
            row("device_read", "kumiki", 0.9),
            row("device_read", "host", 1.0),
            row("node_call", "kumiki", 1.3),
            row("node_call", "raw", 1.0),
            row("cpu_move", "kumiki", 350.0),
            row("cpu_move", "kernels", 300.0),
            row("balance", "kumiki", 2000.0),
        ]
    }

    fn broken(change: impl Fn(&mut Row)) -> Vec<String> {
        let mut rows = good();
        rows.iter_mut().for_each(change);
        let all = musts(&Figures(&rows)).into_iter();
        all.filter(|must| !must.holds).map(|must| must.figure).collect()
    }

    fn set(case: &'static str, subject: &'static str, median: f64) -> impl Fn(&mut Row) {
        move |row| {
            if row.case == case && row.subject == subject {
                row.median = median;
            }
        }
    }

    #[test]
    fn limits_themselves_hold_and_each_promise_can_break() {
        assert_eq!(broken(|_| {}), [] as [&str; 0]);
        assert_eq!(broken(set("load", "resident", 26.0)), ["0.260 × disk, 1.300 × bare"]);
        assert_eq!(broken(set("start", "resident_elf", 2600.0)), ["0.520 ×"]);
        assert_eq!(broken(set("start", "snapshot", 310.0)), ["0.124 ×"]);
        assert_eq!(broken(set("start", "snapshot_http", 460.0)), ["0.153 ×"]);
        assert_eq!(broken(set("idle_wake", "kumiki", 610.0)), ["1.525 ×"]);
        assert_eq!(broken(set("snapshot_bytes", "kept", 91.0)), ["91.000 MiB"]);
        assert_eq!(broken(set("http_first", "kumiki", 1610.0)), ["1.610 ×"]);
        let heavier = |row: &mut Row| set("root_memory", "kumiki", 10.0 * row.n as f64 + 50.0)(row);
        assert_eq!(broken(heavier), ["2.500 ×"]);
        assert_eq!(broken(set("starts_at_once", "kumiki", 1010.0)), ["0.505 ×"]);
        assert_eq!(broken(set("exec_true", "kumiki", 31.0)), ["3.100 ×"]);
        assert_eq!(broken(set("ping", "kumiki", 260.0)), ["2.600 ×"]);
        assert_eq!(broken(set("tcp_put", "kumiki", 0.9)), ["0.450 ×"]);
        assert_eq!(broken(set("tcp_get", "kumiki", 0.9)), ["0.450 ×"]);
        assert_eq!(broken(set("blk_read", "kumiki", 0.5)), ["0.500 ×"]);
        assert_eq!(broken(set("device_read", "kumiki", 0.8)), ["0.800 ×"]);
        assert_eq!(broken(set("node_call", "kumiki", 1.4)), ["1.400 ×"]);
        assert_eq!(broken(set("cpu_move", "kumiki", 351.0)), ["51.000 ms"]);
        let late = |row: &mut Row| {
            if row.case == "balance" {
                row.p99 = 2001.0;
            }
        };
        assert_eq!(broken(late), ["2001.000 ms"]);
    }

    #[test]
    fn a_load_as_fast_as_a_bare_copy_is_enough() {
        assert_eq!(
            broken(|row| {
                set("load", "resident", 30.0)(row);
                set("load", "bare", 28.0)(row);
            }),
            [] as [&str; 0]
        );
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert!(musts(&Figures(&[])).iter().all(|must| !must.holds));
    }
}
