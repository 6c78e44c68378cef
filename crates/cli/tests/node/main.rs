//! OS nodes in machines of the lab, as a person starts them. Where QEMU or
//! Debian's packages cannot be had they say so and pass over, unless
//! `KUMIKI_LAB=required`.

mod faults;
mod one;
mod several;

use std::path::Path;

use kumiki_lab::{Cache, Config, Error, KernelName, Machine, Output, Talk, kbuild};

/// Modules and the headers that they share.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel");

/// A host with the module loaded, a kernel at /boot/vmlinuz and an image of it.
struct Host {
    machine: Machine,
}

impl Host {
    /// With this stock kernel as host and in the image; `None` if no lab can be had.
    fn start(kernel: &str) -> Option<Self> {
        match Self::try_start(kernel) {
            Ok(host) => Some(host),
            Err(error) if is_lack(&error) => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn try_start(kernel: &str) -> Result<Self, Error> {
        let talk = Talk::to(&|text| eprintln!("{text}"));
        let cache = Cache::of_user()?;
        let name: KernelName = kernel.parse()?;
        let files = name.get(&cache, talk)?;
        let modules = kbuild::build(&cache, &files, Path::new(TREE), "osnode", talk)?;
        let module = |name: &str| {
            modules.iter().find(|path| path.ends_with(name)).expect("the part builds it")
        };
        let config = Config {
            cpus: 4,
            memory_bytes: 2 << 30,
            kernel: name,
            modules: vec![module("osnode.ko").display().to_string().parse()?],
            ..Config::new(env!("CARGO_BIN_EXE_kumiki"))
        };
        let machine = Machine::start(&cache, &config, talk)?;
        machine.guest().put(&files.bzimage, Path::new("/boot/vmlinuz"))?;
        machine.guest().put(module("osnode-guest.ko"), Path::new("/root/osnode-guest.ko"))?;
        Ok(Host { machine })
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine merely lacks what a lab needs.
fn is_lack(error: &Error) -> bool {
    let lack = matches!(error, Error::Program { .. } | Error::Package { .. });
    lack && std::env::var_os("KUMIKI_LAB").is_none_or(|value| value != "required")
}
