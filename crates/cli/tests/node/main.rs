//! OS nodes in machines of the lab, as a person starts them. Where QEMU or
//! Debian's packages cannot be had they say so and pass over, unless
//! `KUMIKI_LAB=required`.

mod cloud;
mod controllers;
mod faults;
mod images;
mod lent;
mod machine;
mod memory;
mod one;
mod refused;
mod several;
mod soak;
mod terminal;
mod typed;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kumiki_lab::{Cache, Config, Error, Kernel, KernelName, Machine, Output, Talk, kbuild};

/// Modules and the headers that they share.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel");

/// A host with the module loaded, a kernel at /boot/vmlinuz and an image of it.
struct Host {
    machine: Machine,
    /// One at a time: each takes as many processors as a small machine has.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Host {
    /// With this stock kernel as host and in the image; `None` if no lab can be had.
    fn start(kernel: &str) -> Option<Self> {
        Self::start_with(kernel, 2 << 30)
    }

    /// The same, with so much memory.
    fn start_with(kernel: &str, memory_bytes: u64) -> Option<Self> {
        Self::start_as(kernel, |config| config.memory_bytes = memory_bytes)
    }

    /// The same, with 2 GiB and whatever else the test wants of the machine.
    fn start_as(kernel: &str, wanted: impl FnOnce(&mut Config)) -> Option<Self> {
        match Self::try_start(kernel, wanted) {
            Ok(host) => Some(host),
            Err(error) if is_lack(&error) => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn try_start(kernel: &str, wanted: impl FnOnce(&mut Config)) -> Result<Self, Error> {
        let talk = Talk::to(&|text| eprintln!("{text}"));
        let cache = Cache::of_user()?;
        let built = built(kernel)?;
        let mut config = Config {
            cpus: 4,
            memory_bytes: 2 << 30,
            kernel: kernel.parse()?,
            modules: vec![built.module("osnode.ko").display().to_string().parse()?],
            ..Config::new(env!("CARGO_BIN_EXE_kumiki"))
        };
        wanted(&mut config);
        // A test that failed has left nothing that another one meets.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let host = Host { machine: Machine::start(&cache, &config, talk)?, _alone: alone };
        host.put(&built, "/boot/vmlinuz", "/root/osnode-guest.ko");
        Ok(host)
    }

    /// Brings a kernel and the guest module for it.
    fn put(&self, built: &Built, kernel: &str, module: &str) {
        let guest = self.machine.guest();
        guest.put(&built.kernel.bzimage, Path::new(kernel)).unwrap();
        guest.put(built.module("osnode-guest.ko"), Path::new(module)).unwrap();
    }

    /// Runs a line of shell; fails the test if the kernel's log shows a fault.
    fn run(&self, line: &str) -> Output {
        let output = self.machine.command("sh").args(["-c", line]).output();
        let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
        eprintln!("$ {line}\n{}{}", text(&output.stdout), text(&output.stderr));
        output
    }

    /// What a line prints that has to succeed.
    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.exit.code(), 0, "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// What a line says that has to fail with an error.
    fn refused(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.exit.code(), 2, "{line}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn with_image(self) -> Self {
        self.ok("kumiki image add deb --kernel /boot/vmlinuz --guest-module osnode-guest.ko");
        self
    }

    /// Cpus on line and free memory in KiB, to be compared.
    fn resources(&self) -> (String, u64) {
        let online = self.ok("cat /sys/devices/system/cpu/online");
        let free = self.ok("grep MemFree: /proc/meminfo");
        (online, free.split_whitespace().nth(1).unwrap().parse().unwrap())
    }
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
    fn module(&self, name: &str) -> &Path {
        self.modules.iter().find(|path| path.ends_with(name)).expect("the part builds it")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine merely lacks what a lab needs.
fn is_lack(error: &Error) -> bool {
    let lack = matches!(error, Error::Program { .. } | Error::Package { .. });
    lack && std::env::var_os("KUMIKI_LAB").is_none_or(|value| value != "required")
}
