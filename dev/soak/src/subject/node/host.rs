//! A machine of the lab that hosts OS nodes, and lines of shell in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Cache, Config, Error, KernelName, Machine, Output, Talk, kbuild};

const KERNEL: &str = "6.1";
/// Modules by which the host serves nodes their devices.
const SERVING: [&str; 3] = ["tun", "vhost_net", "crc32c_generic"];
/// Modules by which nodes use them.
const DRIVERS: [&str; 6] =
    ["virtio_ring", "virtio", "virtio_net", "virtio_blk", "crc32c_generic", "ext4"];
/// A line that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);
/// Limit of a look at what hangs.
const LOOK: Duration = Duration::from_secs(90);

/// Tells what runs there and where in the kernel it waits, each part with a limit of its own.
const STACKS: &str = r#"
ps -o pid,stat,args
for task in $(grep -ls kumiki /proc/[0-9]*/task/*/comm); do
    task=${task%/comm}; echo "$task: $(cat $task/comm), system call $(cat $task/syscall)"
    cat $task/stack
done
timeout 10 kumiki node ls --json
timeout 10 kumiki node device ls n1
timeout 5 kumiki node logs n1 | tail -n 40
tail -n 40 /run/kumiki-node/n1.log
echo w > /proc/sysrq-trigger; sleep 1
"#;

/// The program of the command line, which is built beside this one.
fn beside(name: &str) -> PathBuf {
    std::env::current_exe().map_or_else(|_| name.into(), |this| this.with_file_name(name))
}

/// Builds it; whether a lab can be had here is seen when it starts.
pub(crate) fn prepare() -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--locked", "--package", "kumiki-cli", "--bins"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let output = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "building kumiki-cli failed: {said}");
    Ok(true)
}

/// A machine with the modules for nodes.
pub(super) struct Host(Machine);

impl Host {
    /// None where this machine merely lacks what a lab needs, which is said.
    pub(super) fn start() -> Result<Option<Host>> {
        match Self::try_start() {
            Ok(machine) => {
                let how = if machine.times().kvm { "by KVM" } else { "emulated" };
                println!("a machine of the lab, {how}");
                Ok(Some(Host(machine)))
            }
            Err(error @ (Error::Program { .. } | Error::Package { .. }))
                if std::env::var_os("KUMIKI_LAB").is_none_or(|value| value != "required") =>
            {
                println!("there is no lab ({error}): passed over");
                Ok(None)
            }
            Err(error) => Err(error).context("starting a machine of the lab"),
        }
    }

    fn try_start() -> Result<Machine, Error> {
        let talk = Talk::to(&|text| println!("{text}"));
        let cache = Cache::of_user()?;
        let kernel = KERNEL.parse::<KernelName>()?.get(&cache, talk)?;
        let tree = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../node/kernel"));
        let modules = kbuild::build(&cache, &kernel, tree, "osnode", talk)?;
        let module = |name: &str| modules.iter().find(|path| path.ends_with(name)).cloned();
        let put = |name: &str| Some((module(name)?, Path::new("/root").join(name)));
        let own = module("osnode.ko").map(|path| path.display().to_string().parse());
        let served = SERVING.iter().map(|name| name.parse());
        let config = Config {
            cpus: 4,
            memory_bytes: 2 << 30,
            files: [(kernel.vmlinux.clone(), PathBuf::from("/boot/vmlinux"))]
                .into_iter()
                .chain(
                    ["osnode-guest.ko", "osnode-virtio.ko", "osnode.ko"]
                        .iter()
                        .filter_map(|it| put(it)),
                )
                .chain(kernel.driver_files(&DRIVERS)?)
                .collect(),
            kernel: KERNEL.parse()?,
            // A busy machine, or one that is stopped, lets a cpu wait for longer than a kernel would
            // bear in silence.
            append: vec!["rcupdate.rcu_cpu_stall_timeout=300 nosoftlockup".to_owned()],
            modules: own.into_iter().chain(served).collect::<Result<_, _>>()?,
            programs: ["kumiki-noded", "kumiki-node-agent"].map(beside).into(),
            ..Config::new(beside("kumiki"))
        };
        Machine::start(&cache, &config, talk)
    }

    /// Runs a line of shell with this for its input.
    pub(super) fn run(&self, line: &str, input: Vec<u8>) -> Result<Output> {
        let command = self.0.command("sh").args(["-c", line]).time_limit(LIMIT);
        command.output_of(std::io::Cursor::new(input)).with_context(|| line.to_owned())
    }

    /// Runs a line that has to succeed; its output.
    pub(super) fn ok(&self, line: &str) -> Result<String> {
        let output = self.run(line, Vec::new())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.exit.code() == 0, "{line}: {}: {said}", output.exit.code());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Tells what hangs there, for a failure.
    pub(super) fn look(&self) -> String {
        let mut said = Vec::new();
        let looks = self.0.command("sh").args(["-c", STACKS]).time_limit(LOOK).spawn();
        // One that no longer answers has its log.
        let looked = looks.and_then(|looks| looks.pass(std::io::empty(), &mut said, Vec::new()));
        let failed = looked.err().map_or(String::new(), |error| format!("{error}\n"));
        let log = self.0.guest().log_text();
        let from = log.lines().count().saturating_sub(200);
        let log: Vec<_> = log.lines().skip(from).collect();
        format!("{}{failed}kernel log:\n{}\n", String::from_utf8_lossy(&said), log.join("\n"))
    }
}
