//! A host that dies, and a node that keeps what it was.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::functions::{self, DISK, NVME};
use crate::{Host, built, controllers};

/// More than the host's memory.
const DISK_BYTES: u64 = 3 << 30;
/// The death, the vmcore of a machine that QEMU emulates, and a start.
const LIMIT: Duration = Duration::from_secs(300);
const WINDOW_BYTES: u64 = 2 << 20;
/// Offsets in a window: bytes of log so far, and the log.
const LOG_HEAD: usize = 0x18;
const LOG: usize = 0x10000;
const LOG_BYTES: usize = 0x40000;

/// The log of a node, looked at from outside of the machine.
struct Log<'a> {
    monitor: &'a Path,
    window: u64,
}

impl<'a> Log<'a> {
    fn of(host: &Host, monitor: &'a Path, node: &str) -> Self {
        let line = host.ok(&format!("head -n 1 /sys/class/misc/kumiki-osnode/nodes/{node}/memory"));
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let (address, bytes) = line.trim().split_once(' ').unwrap();
        Log { monitor, window: number(address) + number(bytes) - WINDOW_BYTES }
    }

    fn read(&self) -> String {
        let window = controllers::memory(self.monitor, self.window, (LOG + LOG_BYTES) as u64);
        let head = u64::from_le_bytes(window[LOG_HEAD..][..8].try_into().unwrap()) as usize;
        let ring = &window[LOG..];
        let start = head.saturating_sub(LOG_BYTES);
        let bytes: Vec<u8> = (start..head).map(|at| ring[at % LOG_BYTES]).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn wait(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let log = self.read();
            if log.contains(text) {
                return log;
            }
            assert!(begin.elapsed() < LIMIT, "no {text:?}: {log}");
            sleep(Duration::from_secs(1));
        }
    }
}

/// Times, in seconds, of the lines of a log that end in this word.
fn times(log: &str, word: &str) -> Vec<f64> {
    let lines = log.lines().filter(|line| line.ends_with(word));
    lines.filter_map(|line| line.split(']').next()?.trim_matches(['[', ' ']).parse().ok()).collect()
}

/// Dead by a panic: a node says so and keeps the host's memory on a disk of its own, another one
/// works on, and a third one is started by the first.
fn a_host_dies(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let monitor = folder.path().join("monitor");
    let more = |config: &mut kumiki_lab::Config| {
        let module = built(kernel).unwrap().module("osnode-watch.ko").to_owned();
        config.modules.push(module.as_path().into());
        config.qemu.extend(controllers::monitor(&monitor));
    };
    let Some(host) = functions::host(kernel, &folder, DISK_BYTES, more) else { return };
    for node in ["n1", "n2", "n3"] {
        host.ok(&format!("kumiki node create {node} --memory 320M --image nvme"));
    }
    host.ok(&format!("kumiki node device add n1 --pci {NVME} --dma-unconfined"));
    host.ok("kumiki node start n1 --timeout 240; kumiki node start n2 --timeout 240");
    host.ok("kumiki node lend n3 n1");
    let order = "kumiki node watchman n1 --then 'kumiki node start n3 --timeout 120'";
    let said = host.refused(&format!("{order} --to /dev/nvme0n1"));
    assert!(said.contains("sysctl kernel.panic=0"), "{said}");
    host.ok("echo 0 > /proc/sys/kernel/panic");
    for (to, says) in [("/dev/nvme9n1", "nvme9n1"), ("tcp:here", "tcp:HOST:PORT")] {
        let said = host.refused(&format!("{order} --to {to}"));
        assert!(said.contains(says), "{said}");
    }
    host.ok("kumiki node exec n1 -- sh -c 'until test -b /dev/nvme0n1; do sleep 0.1; done'");
    host.ok(&format!("{order} --to /dev/nvme0n1"));
    let list = host.ok("kumiki node exec n1 -- kumiki node ls --json");
    assert!(["n1", "n2", "n3"].iter().all(|node| list.contains(node)), "{list}");
    // The watchman dies, and another one follows.
    let log = Log::of(&host, &monitor, "n1");
    log.wait("watching the host");
    host.ok("kumiki node exec n1 -- sh -c 'for one in /proc/[0-9]*; do \
         grep -q -e \"--watchma[n]\" $one/cmdline && kill -9 ${one#/proc/}; done; true'");
    log.wait("the watchman has died");
    host.ok("kumiki node exec n2 -- sh -c '(setsid sh -c \"while :; do echo tick > /dev/kmsg; \
         sleep 0.1; done\" > /dev/null 2>&1 &)'");
    let other = Log::of(&host, &monitor, "n2");
    let third = Log::of(&host, &monitor, "n3");
    other.wait("tick");

    host.ok("(sleep 1; echo c > /proc/sysrq-trigger) > /dev/null 2>&1 &");
    let text = log.wait("THE HOST IS DEAD");
    assert!(text.contains("panic on cpu ") && text.contains("sysrq triggered crash"), "{text}");
    let before = times(&other.read(), "tick").len();
    let text = log.wait("the vmcore is complete");
    let ticks = times(&other.read(), "tick");
    assert!(ticks.len() > before, "the other node stands still");
    let pause = ticks.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
    eprintln!("{text}\nlongest pause of the other node: {:.0} ms", (pause - 0.1) * 1e3);
    assert!(!text.contains("could not be read"), "{text}");
    for line in ["node n1: ready", "node n2: ready", "node n3: silent"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = log.wait("kumiki node start n3 --timeout 120: exit status: ");
    assert!(text.contains("--timeout 120: exit status: 0"), "{text}\n{}", third.read());
    // QEMU ends with it, and what was written is read.
    drop(host);

    let core = folder.path().join(DISK);
    let reader = |words: &[&str], to: &Path| {
        let mut command = Command::new("makedumpfile");
        command.args(words).arg(&core).arg(to);
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => panic!("makedumpfile: {error}: apt-get install makedumpfile"),
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "makedumpfile {words:?}: {said}");
        said
    };
    let dmesg = folder.path().join("dmesg");
    reader(&["--dump-dmesg"], &dmesg);
    let dmesg = String::from_utf8_lossy(&std::fs::read(dmesg).unwrap()).into_owned();
    let last = dmesg.split("Kernel panic - not syncing: sysrq triggered crash").nth(1);
    assert!(last.is_some_and(|text| text.contains("Comm: sh ")), "{dmesg}");
    // By the host's page structures: all of them can be read.
    let said = reader(&["-l", "-d", "31"], &folder.path().join("filtered"));
    assert!(said.contains("The dumpfile is saved"), "{said}");
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to watch.c or crates/node/src/watchman"]
fn a_node_outlives_its_host() {
    a_host_dies("6.1");
}
