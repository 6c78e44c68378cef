//! A host that dies, and a node that keeps what it was.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kumiki_lab::{Cache, Talk};

use crate::functions::{self, DISK, NVME};
use crate::{Host, built, controllers};

/// More than the host's memory.
const DISK_BYTES: u64 = 3 << 30;
/// The death, the vmcore of a machine that QEMU emulates, and a start.
const LIMIT: Duration = Duration::from_secs(300);
/// A card whose network ends in QEMU: what is sent to 10.0.2.2 comes here.
const CARD_WORDS: &str = "-device pcie-root-port,id=p3,bus=pcie.0,chassis=3,slot=3 \
                          -netdev user,id=out -device e1000e,bus=p3,netdev=out";
const CARD: &str = "0000:03:00.0";
/// Has a node say that it works, again and again, without a process more for each time.
pub(crate) const TICKS: &str = "kumiki node exec n2 -- sh -c 'mkfifo /tmp/never; (setsid sh -c \
                     \"exec 9<>/tmp/never; while :; do echo tick > /dev/kmsg; read -t 0.1 x <&9; done\" \
                     > /dev/null 2>&1 &)'";
const TICK_S: f64 = 0.1;
const WINDOW_BYTES: u64 = 2 << 20;
/// Offsets in a window: bytes of log so far, and the log.
const LOG_HEAD: usize = 0x18;
const LOG: usize = 0x10000;
const LOG_BYTES: usize = 0x40000;

/// The log of a node, looked at from outside of the machine.
pub(crate) struct Log<'a> {
    monitor: &'a Path,
    window: u64,
}

impl<'a> Log<'a> {
    pub(crate) fn of(host: &Host, monitor: &'a Path, node: &str) -> Self {
        let line = host.ok(&format!("head -n 1 /sys/class/misc/kumiki-osnode/nodes/{node}/memory"));
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let (address, bytes) = line.trim().split_once(' ').unwrap();
        Log { monitor, window: number(address) + number(bytes) - WINDOW_BYTES }
    }

    pub(crate) fn read(&self) -> String {
        let window = controllers::memory(self.monitor, self.window, (LOG + LOG_BYTES) as u64);
        let head = u64::from_le_bytes(window[LOG_HEAD..][..8].try_into().unwrap()) as usize;
        let ring = &window[LOG..];
        let start = head.saturating_sub(LOG_BYTES);
        let bytes: Vec<u8> = (start..head).map(|at| ring[at % LOG_BYTES]).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn wait(&self, text: &str) -> String {
        self.wait_until(text, |log| log.contains(text))
    }

    /// Times of at least so many ticks.
    pub(crate) fn ticks(&self, count: usize) -> Vec<f64> {
        let log = self.wait_until("tick", |log| times(log, "tick").len() >= count);
        times(&log, "tick")
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let log = self.read();
            if is_so(&log) {
                return log;
            }
            assert!(begin.elapsed() < LIMIT, "not enough of {what:?}: {log}");
            sleep(Duration::from_secs(1));
        }
    }
}

/// Times, in seconds, of the lines of a log that end in this word.
pub(crate) fn times(log: &str, word: &str) -> Vec<f64> {
    let lines = log.lines().filter(|line| line.ends_with(word));
    lines.filter_map(|line| line.split(']').next()?.trim_matches(['[', ' ']).parse().ok()).collect()
}

/// The longest time between two ticks after the first so many, beyond what lies between them.
pub(crate) fn longest_pause_ms(ticks: &[f64], after: usize) -> f64 {
    let ticks = &ticks[after.saturating_sub(1)..];
    let longest = ticks.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
    (longest - TICK_S) * 1e3
}

/// Lines that the watchman sends, until one has this text.
fn heard(ear: &UdpSocket, text: &str) -> Vec<String> {
    ear.set_read_timeout(Some(LIMIT)).unwrap();
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains(text)) {
        let mut bytes = [0; 2000];
        let length = ear.recv(&mut bytes).unwrap_or_else(|error| panic!("{error}: {lines:?}"));
        lines.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    lines
}

/// Dead by a panic: a node says so and keeps the host's memory on a disk of its own, another one
/// works on, and a third one, the host's service, is started by the first where it was kept.
fn a_host_dies(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let monitor = folder.path().join("monitor");
    let ear = UdpSocket::bind("127.0.0.1:0").unwrap();
    let say = format!("--say udp:10.0.2.2:{}", ear.local_addr().unwrap().port());
    let more = |config: &mut kumiki_lab::Config| {
        let module = built(kernel).unwrap().module("osnode-watch.ko").to_owned();
        config.modules.push(module.as_path().into());
        config.qemu.extend(controllers::monitor(&monitor));
        config.qemu.extend(CARD_WORDS.split(' ').map(Into::into));
    };
    let devices = (DISK_BYTES, &["e1000e"][..]);
    let Some(host) = functions::host(kernel, &folder, devices, more) else { return };
    for node in ["n1", "n2", "n3"] {
        host.ok(&format!("kumiki node create {node} --memory 320M --image nvme"));
    }
    for function in [NVME, CARD] {
        host.ok(&format!("kumiki node device add n1 --pci {function} --dma-unconfined"));
    }
    host.ok("kumiki node start n1 n2 n3 --timeout 240");
    // One has grown, and one has grown and shrunk: what it gave back is the host's, whose memory is written.
    host.ok("for memory in 448M 320M; do kumiki node set n3 --memory $memory || exit 1; done; \
             kumiki node set n2 --memory 448M");
    let start = the_service_is_kept(&host);
    let order = format!("kumiki node watchman n1 --then '{start}'");
    let said = host.refused(&format!("{order} --to /dev/nvme0n1"));
    assert!(said.contains("sysctl kernel.panic=0"), "{said}");
    host.ok("echo 0 > /proc/sys/kernel/panic");
    for (more, says) in [
        ("--to /dev/nvme9n1", "nvme9n1"),
        ("--to tcp:here", "tcp:HOST:PORT"),
        ("--say 10.0.2.2", "udp:HOST:PORT"),
    ] {
        let said = host.refused(&format!("{order} {more}"));
        assert!(said.contains(says), "{said}");
    }
    host.ok("kumiki node exec n1 -- sh -c 'until test -b /dev/nvme0n1 -a -e /sys/class/net/eth0; \
             do sleep 0.1; done; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; \
             until grep -q 1 /sys/class/net/eth0/carrier; do sleep 0.1; done'");
    host.ok(&format!("{order} {say} --to /dev/nvme0n1"));
    heard(&ear, "n1: watching the host");
    // And while it is watched.
    host.ok("for memory in 320M 448M; do kumiki node set n2 --memory $memory || exit 1; done");
    let list = host.ok("kumiki node exec n1 -- kumiki node ls --json");
    assert!(["n1", "n2", "n3"].iter().all(|node| list.contains(node)), "{list}");
    // The watchman dies, and another one follows.
    let log = Log::of(&host, &monitor, "n1");
    host.ok("kumiki node exec n1 -- sh -c 'for one in /proc/[0-9]*; do \
         grep -q -e \"--watchma[n]\" $one/cmdline && kill -9 ${one#/proc/}; done; true'");
    log.wait("the watchman has died");
    heard(&ear, "n1: watching the host");
    let other = Log::of(&host, &monitor, "n2");
    let third = Log::of(&host, &monitor, "n3");
    host.ok(TICKS);
    other.wait("tick");

    // As busy as after the death: a cpu of the host that spins, and the node that copies and writes.
    // The emulator has all cpus in one thread, for a tenth of a second each that has something to do.
    let begin = times(&other.read(), "tick").len();
    host.ok("while :; do :; done & busy=$!; kumiki node exec n1 -- sh -c 'while :; do :; done & \
         dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=100 oflag=direct; kill $!'; kill $busy");
    let alive = longest_pause_ms(&times(&other.read(), "tick"), begin);

    let _dying = host.dies();
    let text = log.wait("THE HOST IS DEAD");
    assert!(text.contains("panic on cpu ") && text.contains("sysrq triggered crash"), "{text}");
    let before = times(&other.read(), "tick").len();
    let text = log.wait("the vmcore is complete");
    let ticks = times(&other.read(), "tick");
    assert!(ticks.len() > before, "the other node stands still");
    let pause = longest_pause_ms(&ticks, before);
    eprintln!(
        "{text}\nlongest pause of the other node: {pause:.0} ms; with its host alive, and as busy: \
         {alive:.0} ms"
    );
    assert!(!text.contains("could not be read"), "{text}");
    let words = heard(&ear, "the vmcore is complete").concat();
    for line in ["node n1: ready", "node n2: ready", "node n3: silent"] {
        assert!(text.contains(line), "{line}: {text}");
        assert!(words.contains(&format!("kumiki: n1: {line}")), "{line}: {words}");
    }
    assert!(words.contains("n1: THE HOST IS DEAD: panic on cpu "), "{words}");
    let ended = format!("{start}: exit status: ");
    let text = log.wait(&ended);
    assert!(text.contains(&format!("{ended}0")), "{text}\n{}", third.read());
    // It goes on where it was.
    let begun = times(&third.read(), "serving").len();
    third.wait_until("serving", |log| times(log, "serving").len() > begun);
    // QEMU ends with it, and what was written is read.
    drop(host);

    let core = folder.path().join(DISK);
    let task = text.split("task sh (").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    makedumpfile_reads(&core, folder.path(), task);
    crash_reads(kernel, &core, task);
}

/// It shows the panic with its task, and reads all of the host's page structures.
fn makedumpfile_reads(core: &Path, folder: &Path, task: &str) {
    let reader = |words: &[&str], to: &Path| {
        let mut command = Command::new("makedumpfile");
        output(command.args(words).arg(core).arg(to))
    };
    let dmesg = folder.join("dmesg");
    reader(&["--dump-dmesg"], &dmesg);
    let dmesg = String::from_utf8_lossy(&std::fs::read(dmesg).unwrap()).into_owned();
    let last = dmesg.split("Kernel panic - not syncing: sysrq triggered crash").nth(1);
    let is_it = |text: &str| text.contains(&format!("PID: {task} Comm: sh "));
    assert!(last.is_some_and(is_it), "{task}: {dmesg}");
    // By the host's page structures: all of them can be read.
    let said = reader(&["-l", "-d", "31"], &folder.join("filtered"));
    assert!(said.contains("The dumpfile is saved"), "{said}");
}

/// By the kernel's symbols it finds the panic's task, and what that was doing.
fn crash_reads(kernel: &str, core: &Path, task: &str) {
    let (cache, talk) = (Cache::of_user().unwrap(), Talk::to(&|text| eprintln!("{text}")));
    if kernel != "6.1" {
        return eprintln!(
            "crash reads nothing: the symbols of {kernel} are a gigabyte of their own"
        );
    }
    let symbols = match built(kernel).unwrap().kernel.symbols(&cache, talk) {
        Ok(symbols) => symbols,
        Err(error) if crate::is_lack(&error) => return eprintln!("crash reads nothing: {error}"),
        Err(error) => panic!("{error}"),
    };
    let orders = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(orders.path(), "sys\nset\nbt\nquit\n").unwrap();
    let mut command = Command::new("crash");
    command.arg("-s").arg("-i").arg(orders.path()).arg(symbols).arg(core);
    let said = output(command.stdin(Stdio::null()));
    for line in [
        "PANIC: \"Kernel panic - not syncing: sysrq triggered crash\"",
        &format!("PID: {task}\n"),
        "COMMAND: \"sh\"",
        "sysrq_handle_crash",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

/// What a program prints that has to be there, and to end well.
fn output(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{name}: {error}: apt-get install {name}"),
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{name}: {said}");
    said
}

/// A service whose work is in its snapshot alone, lent with that to the watchman: the line that
/// starts it.
fn the_service_is_kept(host: &Host) -> String {
    host.ok("kumiki node exec n3 -- sh -c 'echo serving > /tmp/said; (setsid sh -c \
             \"while :; do cat /tmp/said > /dev/kmsg; sleep 1; done\" > /dev/null 2>&1 &)'");
    host.ok("kumiki node snapshot n3 warm");
    let said = host.refused("kumiki node delegate n3 n1 --from nvme");
    assert!(said.contains("image nvme is no snapshot"), "{said}");
    host.ok("kumiki node delegate n3 n1 --from warm");
    let said = host.refused("kumiki image rm warm");
    assert!(said.contains("starts n3 from at any time"), "{said}");
    let said = host.refused("kumiki node exec n1 -- kumiki node start n3 --from cold");
    assert!(said.contains("n3 was lent with snapshot warm"), "{said}");
    "kumiki node start n3 --from warm --timeout 120".to_owned()
}

#[test]
#[ignore = "four minutes: `cargo xtask test long`, after a change to watch.c or node/agent/src/watchman"]
fn a_node_outlives_its_host() {
    a_host_dies(&crate::chosen_kernel());
}
