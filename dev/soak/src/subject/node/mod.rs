//! An OS node in a machine of the lab: execs, calls by the window, network and disk, each answer
//! compared and each effect counted, while the server of its devices is stopped and killed, all cpus
//! stop, and the node is killed and started anew.

mod host;
mod traffic;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::faults::{self, Calm, Fault};
use crate::soak::Soak;
use host::Host;
pub(crate) use host::prepare;
use traffic::Traffic;

/// A line of shell takes seconds where each instruction is emulated, on a machine that others use.
const LOST: Duration = Duration::from_secs(60);

const NET: &str = "auto,address=10.77.0.2/24,host=10.77.0.1/24";
const ALLOW: &str = "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";
/// Bytes of a page that both sides serve.
const PAGE: usize = 300_000;
/// The process that serves a node's devices.
const SERVER: &str = "ps | grep 'serve --worker' | grep -v grep | awk '{print $1}'";

/// The node, and which life of it this is: an odd number while it is being started anew.
struct Node {
    host: Host,
    life: AtomicU64,
}

impl Node {
    /// Makes it and all that its clients need.
    fn create(&self, page: Vec<u8>) -> Result<()> {
        self.host.run("mkdir -p /tmp/www; cat > /tmp/www/page", page)?;
        self.host.ok(&format!(
            "kumiki image add deb --kernel /boot/vmlinux --guest-module /root/osnode-guest.ko \
             --program /bin/kumiki && \
             printf '%s' '{ALLOW}' > /tmp/allow && truncate -s 16M /root/disk && \
             kumiki node create n1 --cpus 1 --memory 320M --image deb --net {NET} --disk /root/disk"
        ))?;
        self.start()?;
        self.host.ok("httpd -h /tmp/www")?;
        Ok(())
    }

    /// Starts it, with a server of pages and a place.
    fn start(&self) -> Result<()> {
        self.host.ok(
            "set -e; kumiki node start n1 --timeout 300 > /dev/null; \
             n=0; until ping -c 1 -W 2 10.77.0.2 > /dev/null; do n=$((n+1)); test $n -lt 30; done; \
             n=0; until kumiki node exec n1 -- test -b /dev/vda; do n=$((n+1)); test $n -lt 100; sleep 0.2; done; \
             kumiki node exec n1 -- mkdir -p /tmp/www; \
             kumiki node exec n1 -- sh -c 'cat > /tmp/www/page' < /tmp/www/page; \
             kumiki node exec n1 -- httpd -h /tmp/www; \
             kumiki node exec n1 -- sh -c 'cat > /tmp/allow' < /tmp/allow; rm -f /tmp/served; \
             kumiki node exec n1 -- kumiki place serve --allow /tmp/allow > /tmp/served 2>&1 < /dev/null & \
             until grep -qs 'serving n1.core0' /tmp/served; do sleep 0.2; done; \
             kumiki node exec n1 -- kumiki resource create n1.core0/counter/hits 0 > /dev/null",
        )?;
        Ok(())
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn life(&self) -> u64 {
        self.life.load(SeqCst)
    }
}

pub(crate) fn soak(soak: &'static Soak) -> Result<()> {
    soak.lost_after(LOST);
    let Some(host) = Host::start()? else { return Ok(()) };
    // As long as the process, with which the machine ends.
    let node: &Node = Box::leak(Box::new(Node { host, life: AtomicU64::new(0) }));
    let page: Vec<u8> = {
        let mut rng = soak.rng(1 << 34);
        (0..PAGE).map(|_| rng.u8(..)).collect()
    };
    node.create(page.clone()).context("making the node")?;
    soak.tells_at_failure(|| node.host.look());
    // The start is no part of its time.
    soak.begins_now();
    let emulator = emulators();
    emulator.iter().for_each(|pid| soak.watch_process(*pid));
    std::thread::scope(|threads| {
        let page = &page;
        for number in 0..5 {
            threads.spawn(move || {
                let mut traffic = Traffic::new(soak, node, number, page);
                while !soak.is_over() {
                    if let Err(error) = traffic.act() {
                        soak.fail(&format!("{error:#}"));
                    }
                }
            });
        }
        let emulator = &emulator;
        threads.spawn(move || {
            let all = vec![
                server_stopped(node),
                server_killed(node),
                machine_stopped(emulator),
                killed(node),
            ];
            faults::draw_with_rests(soak, &Calm::default(), all, Duration::from_secs(6));
        });
        soak.guard();
    });
    emulator.iter().for_each(|pid| soak.forget_process(*pid));
    for what in traffic::ALL {
        ensure!(soak.counted(what) > 0, "nothing was {what}");
    }
    node.host.ok("kumiki node rm n1 --force")?;
    Ok(())
}

/// The machine's processes.
fn emulators() -> Vec<u32> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map(|(name, rest)| (name.contains("qemu"), rest));
        let parent = rest.and_then(|(is, rest)| {
            rest.split_whitespace().nth(1)?.parse::<u32>().ok().filter(|_| is)
        });
        parent == Some(own)
    };
    pids.filter(is_ours).collect()
}

fn server_stopped(node: &Node) -> Fault<'_> {
    Fault::new("the server stopped by SIGSTOP", |rng| {
        let ms = rng.u32(1..2000);
        let seconds = format!("{}.{:03}", ms / 1000, ms % 1000);
        // It may be the node's next one when it goes on.
        node.host.ok(&format!(
            "p=$({SERVER}); kill -STOP $p; sleep {seconds}; kill -CONT $p 2> /dev/null || true"
        ))?;
        Ok(())
    })
}

fn server_killed(node: &Node) -> Fault<'_> {
    Fault::new("the server killed", |_| {
        node.host.ok(&format!("kill -9 $({SERVER})"))?;
        Ok(())
    })
}

fn machine_stopped(emulator: &[u32]) -> Fault<'_> {
    Fault::new("all cpus stopped", move |rng| {
        for pid in emulator {
            signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGSTOP)?;
        }
        std::thread::sleep(Duration::from_millis(rng.u64(1..1000)));
        for pid in emulator {
            signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGCONT)?;
        }
        Ok(())
    })
}

fn killed(node: &Node) -> Fault<'_> {
    Fault::new("the node killed and started anew", |_| {
        node.life.fetch_add(1, SeqCst);
        node.host.ok("kumiki node kill n1")?;
        node.start()?;
        node.life.fetch_add(1, SeqCst);
        Ok(())
    })
}
