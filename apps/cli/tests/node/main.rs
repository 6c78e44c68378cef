//! OS nodes in machines of the lab, as a person starts them. Where QEMU or
//! Debian's packages cannot be had they say so and pass over, unless
//! `KUMIKI_LAB=required`.

mod balanced;
mod bells;
mod cloud;
mod confined;
mod controllers;
mod devices;
mod duel;
mod elastic;
mod faults;
mod five_places;
mod functions;
mod hardware;
mod hotplug;
mod images;
mod in_use;
mod keeping;
mod late;
mod lent;
mod machine;
mod memory;
mod modules;
mod moved;
mod one;
mod pauses;
mod places;
mod pool;
mod refused;
mod rooted;
mod series;
mod several;
mod snapshots;
mod soak;
mod spared;
mod steps;
mod stowed;
mod systems;
mod terminal;
mod trace;
mod typed;
mod units;
mod watchman;
mod yields;

use std::path::{Path, PathBuf};
use std::time::Instant;

use kumiki_lab::{
    Cache, Config, Error, Kernel, KernelName, Machine, Module, Output, Running, Talk, kbuild,
};

use pool::{Kind, Turn};

/// Modules and the headers that they share.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../node/kernel");

/// What a host needs to serve nodes their devices, and nodes to use them.
const SERVING: [&str; 10] = [
    "tun",
    "vhost_net",
    "vhost_vsock",
    "bridge",
    "veth",
    // libcrc32c asks for it by its algorithm.
    "crc32c_generic",
    "nft_chain_nat",
    "nft_masq",
    // Of a disk whose reads fail, or that is in use.
    "loop",
    "ext4",
];
const DRIVERS: [&str; 10] = [
    "virtio_ring",
    "virtio",
    "virtio_net",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "virtiofs",
    "vmw_vsock_virtio_transport",
    "virtio_rng",
    "virtio_console",
];

/// Every cpu of a host whose nodes are gone.
const ALL_CPUS: &str = "0-3\n";

/// A host with the module loaded, the module itself, the one for nodes and a kernel at
/// /boot/vmlinuz, uncompressed at /boot/vmlinux as well. Dropped by a test that fails, it is
/// gone with what that left there.
struct Host {
    machine: Machine,
    _turn: Turn,
    /// Which other tests may have it; a test's own is nobody's.
    kind: Option<Kind>,
    /// Free memory at its start, KiB.
    free_kib: u64,
}

impl Host {
    /// A machine that tests share, with this stock kernel as host and in the image `deb`;
    /// `None` if no lab can be had. [`Host::leave`] hands it to the next one.
    fn shared(kind: Kind) -> Option<Self> {
        let host = Self::of_pool(kind)?;
        if host.ok("kumiki image ls --json") == "[]\n" {
            host.add_image();
        }
        Some(host)
    }

    /// The same without any image.
    fn shared_without_image(kind: Kind) -> Option<Self> {
        let host = Self::of_pool(kind)?;
        host.ok("kumiki image evict");
        Some(host)
    }

    fn of_pool(kind: Kind) -> Option<Self> {
        let turn = Turn::wait();
        if let Some((machine, free_kib)) = pool::idle(kind) {
            let host = Host { machine, _turn: turn, kind: Some(kind), free_kib };
            return Some(host);
        }
        let memory = |config: &mut Config| config.memory_bytes = kind.memory_bytes();
        let host = had(Self::start(&kind.kernel(), memory, turn))?;
        Some(Host { kind: Some(kind), ..host })
    }

    /// A machine of the test's own, as large as its kernel asks for, and whatever else it wants.
    fn own(kernel: &str, wanted: impl FnOnce(&mut Config)) -> Option<Self> {
        had(Self::start(kernel, wanted, Turn::wait()))
    }

    fn start(kernel: &str, wanted: impl FnOnce(&mut Config), turn: Turn) -> Result<Self, Error> {
        let talk = Talk::to(&|text| eprintln!("{text}"));
        let cache = Cache::of_user()?;
        let built = built(kernel)?;
        let file = |from: &Path, to: &str| (from.to_owned(), PathBuf::from(to));
        let drivers = built.kernel.driver_files(&DRIVERS)?;
        let mut modules = Vec::new();
        for name in ["osnode.ko", "osnode-claim.ko"] {
            modules.push(built.module(name).display().to_string().parse()?);
        }
        modules.extend(built.loadable(&SERVING)?);
        let mut config = Config {
            cpus: 4,
            memory_bytes: least_bytes(kernel),
            files: vec![
                file(&built.kernel.vmlinux, "/boot/vmlinux"),
                file(&built.kernel.bzimage, "/boot/vmlinuz"),
                file(built.module("osnode-guest.ko"), "/root/osnode-guest.ko"),
                file(built.module("osnode-virtio.ko"), "/root/osnode-virtio.ko"),
                file(built.module("osnode.ko"), "/root/osnode.ko"),
                file(built.module("osnode-eventfd.ko"), "/root/osnode-eventfd.ko"),
            ]
            .into_iter()
            .chain(drivers)
            .collect(),
            kernel: kernel.parse()?,
            modules,
            programs: vec![
                env!("CARGO_BIN_EXE_kumiki-noded").into(),
                env!("CARGO_BIN_EXE_kumiki-node-agent").into(),
            ],
            ..Config::new(env!("CARGO_BIN_EXE_kumiki"))
        };
        wanted(&mut config);
        let machine = Machine::start(&cache, &config, talk)?;
        let mut host = Host { machine, _turn: turn, kind: None, free_kib: 0 };
        host.free_kib = host.free_kib();
        Ok(host)
    }

    /// The test has ended well: the machine is as it was, or the test fails after all,
    /// and is the next one's.
    fn leave(self) {
        assert_eq!(self.ok("cat /sys/devices/system/cpu/online"), ALL_CPUS);
        assert_eq!(self.ok("kumiki node ls --json"), "[]\n");
        let images = self.ok("kumiki image ls --json");
        assert!(images == "[]\n" || images.matches(r#""name":"#).count() == 1, "{images}");
        self.ok("cd /root; mkdir -p .kept; mv osnode*.ko .kept/; rm -rf ./*; \
                 mv .kept/* .");
        // Slabs move; a partition or another image would be 48 MiB and more.
        let image_kib = if images == "[]\n" { 0 } else { 80 << 10 };
        let free_kib = self.free_kib();
        assert!(
            free_kib + image_kib + (40 << 10) > self.free_kib,
            "{free_kib} KiB free, {} before",
            self.free_kib
        );
        match self.kind {
            Some(kind) => pool::put(kind, self.machine, self.free_kib),
            None => self.machine.shut_down(0).unwrap(),
        }
    }

    /// Brings a kernel and the guest module for it.
    fn put(&self, built: &Built, kernel: &str, module: &str) {
        let guest = self.machine.guest();
        guest.put(&built.kernel.bzimage, Path::new(kernel)).unwrap();
        guest.put(built.module("osnode-guest.ko"), Path::new(module)).unwrap();
    }

    /// Runs a line of shell; fails the test if the kernel's log shows a fault, or if it hangs.
    fn run(&self, line: &str) -> Output {
        let begin = Instant::now();
        let output = late::in_time(&self.machine, line);
        let said = [&*output.stdout, &*output.stderr].concat();
        eprintln!("$ {line} [{:.1} s]\n{}", begin.elapsed().as_secs_f64(), text(&said));
        output
    }

    /// Has its kernel panic. Nothing is waited for that only a living one could send.
    fn dies(&self) -> Running {
        let line = ["-c", "echo c > /proc/sysrq-trigger"];
        self.machine.guest().command("sh").args(line).spawn().unwrap()
    }

    /// What a line prints that has to succeed.
    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.exit.code(), 0, "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What a line says that has to fail with an error, which says what it is about.
    fn refused(&self, line: &str) -> String {
        let output = self.run(&format!("export KUMIKI_ERRORS=json; {line}"));
        assert_eq!(output.exit.code(), 2, "{line}: {}", text(&output.stdout));
        let said = text(&output.stderr);
        said.lines().map(|line| sentence(line) + "\n").collect()
    }

    /// Of the uncompressed kernel: nothing is unpacked where no test asks for that.
    fn add_image(&self) {
        self.ok("kumiki image add deb --kernel /boot/vmlinux --guest-module osnode-guest.ko");
    }

    /// Of the kernel as it is shipped.
    fn add_shipped_image(&self) {
        self.ok("kumiki image add deb --kernel /boot/vmlinuz --guest-module osnode-guest.ko");
    }

    /// Cpus on line and free memory in KiB, to be compared.
    fn resources(&self) -> (String, u64) {
        (self.ok("cat /sys/devices/system/cpu/online"), self.free_kib())
    }

    fn free_kib(&self) -> u64 {
        // What the page cache holds is free as well, and what a cpu keeps of freed pages on a
        // list of its own, which since 6.7 may be much and which MemFree does not count.
        let free = self
            .ok("sync; echo 3 > /proc/sys/vm/drop_caches; grep MemFree: /proc/meminfo; \
                            awk '$1 == \"count:\" {n += $2} END {print n * 4}' /proc/zoneinfo");
        let mut kib = free.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        kib.next().unwrap() + kib.next().unwrap()
    }
}

/// A host, or `None` where no lab can be had.
fn had(host: Result<Host, Error>) -> Option<Host> {
    match host {
        Ok(host) => Some(host),
        Err(error) if is_lack(&error) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Kernel of every test that is not about one: what `KUMIKI_LAB_KERNEL` names, 6.1 without it.
fn chosen_kernel() -> String {
    std::env::var("KUMIKI_LAB_KERNEL").unwrap_or_else(|_| "6.1".to_owned())
}

/// A kernel that is not the chosen one.
fn another_kernel() -> &'static str {
    if chosen_kernel() == "6.12" { "6.1" } else { "6.12" }
}

/// Memory of a host of this kernel, with an image and the nodes of most tests: newer ones take more
/// for themselves.
fn least_bytes(kernel: &str) -> u64 {
    if kernel.starts_with("6.1-") || kernel == "6.1" { 2 << 30 } else { 3 << 30 }
}

/// A stock kernel and our modules for it.
struct Built {
    kernel: Kernel,
    modules: Vec<PathBuf>,
}

fn built(kernel: &str) -> Result<Built, Error> {
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let cache = Cache::of_user()?;
    let kernel = kernel.parse::<KernelName>()?.get(&cache, talk)?;
    let modules = kbuild::build(&cache, &kernel, Path::new(TREE), "osnode", talk)?;
    Ok(Built { kernel, modules })
}

impl Built {
    /// Those of the kernel's own modules that it has as files: newer ones have some built in, or no
    /// longer.
    fn loadable(&self, names: &[&str]) -> Result<Vec<Module>, Error> {
        let mut modules = Vec::new();
        for name in names {
            // The first file is the list of what is built in.
            if self.kernel.driver_files(&[name])?.len() > 1 {
                modules.push(name.parse()?);
            }
        }
        Ok(modules)
    }

    fn module(&self, name: &str) -> &Path {
        self.modules.iter().find(|path| path.ends_with(name)).expect("the part builds it")
    }
}

/// The sentence of a line that a command says. Of an error of nodes it is one whose thing a script
/// can tell, unless the kernel has refused something or a channel is damaged.
fn sentence(line: &str) -> String {
    let Ok(failure) = serde_json::from_str::<serde_json::Value>(line) else {
        return line.to_owned();
    };
    let Some(error) = failure["error"].as_str() else { return line.to_owned() };
    let kind = failure["kind"].as_str();
    let is_named = failure["about"].is_object();
    assert!(is_named || matches!(kind, None | Some("System" | "Protocol")), "{line}");
    error.to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine merely lacks what a lab needs.
fn is_lack(error: &Error) -> bool {
    let lack = matches!(error, Error::Program { .. } | Error::Package { .. });
    lack && std::env::var_os("KUMIKI_LAB").is_none_or(|value| value != "required")
}
