//! The watch itself: a process of a node's own, which looks at the host's signs of life until
//! there are none.

use std::fs::{self, File, OpenOptions};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use kumiki_node_wire::window::meaning;
use rustix::fs::{FlockOperation, flock};

use super::dump::dump;
use super::nodes;
use super::order::{self, Order};
use super::signs::{Death, LOOK, Patience, Signs, Verdict};
use super::told::HostDescription;
use super::voice::Voice;
use crate::{Error, Result};

/// Locked by who watches: an agent that has died may have left one.
const LOCK: &str = "/run/kumiki/watchman.lock";

/// Watches as it was ordered, until it is ordered to end or all is done. What it sees, `log` is
/// told; programs find what they need in `path`.
pub(crate) fn keep(path: &str, log: &dyn Fn(&str)) -> Result<()> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(LOCK);
    let lock = opened.map_err(|error| Error::file(LOCK, error))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| Error::os(format!("locking {LOCK}"), error))?;
    // Whatever memory its node lacks, this is what the node is for.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let to_log = log;
    while let Some(order) = Order::read()? {
        let voice = Voice::to(order.say.as_deref());
        let log: &dyn Fn(&str) = &|text| {
            to_log(text);
            voice.say(text, to_log);
        };
        let signs = match order.signs() {
            Ok(signs) => signs,
            Err(error) => {
                log(&error.to_string());
                return accept_end();
            }
        };
        log(&format!(
            "watching the host; dead after {} s without a sign, its memory then goes to {}",
            order.after.as_secs(),
            order.to.as_deref().unwrap_or("nowhere")
        ));
        match watch(&signs, &order, log)? {
            End::Order => {}
            End::Gone => {
                log("osnode-watch.ko has left the host: it is watched no more");
                return accept_end();
            }
            End::Death(death) => return after(&signs, &order, &death, path, log),
        }
    }
    Ok(())
}

enum End {
    /// Another order, or none.
    Order,
    Gone,
    Death(Death),
}

fn accept_end() -> Result<()> {
    order::accept(&[])
}

fn watch(signs: &Signs, order: &Order, log: &dyn Fn(&str)) -> Result<End> {
    let mut patience = Patience::new(order.after);
    loop {
        match patience.judge(signs.look()) {
            Verdict::Alive => {}
            Verdict::Still(cpu) => log(&format!(
                "cpu {cpu} of the host has given no sign for {} s, others do",
                order.after.as_secs()
            )),
            Verdict::Again(cpu) => log(&format!("cpu {cpu} of the host goes on")),
            Verdict::Dead(death) => return Ok(End::Death(death)),
            Verdict::Gone => return Ok(End::Gone),
        }
        thread::sleep(LOOK);
        if Order::read()?.as_ref() != Some(order) {
            return Ok(End::Order);
        }
    }
}

/// All that is left to do for a host that is dead. One thing that fails keeps no other off.
fn after(
    signs: &Signs,
    order: &Order,
    death: &Death,
    path: &str,
    log: &dyn Fn(&str),
) -> Result<()> {
    log(&format!("THE HOST IS DEAD: {}", death.said()));
    match signs.host_description() {
        Ok(told) => {
            list(&told, log);
            if let Some(to) = &order.to {
                write(signs, death, &told, to, log);
                list(&told, log);
            }
        }
        Err(error) => log(&error.to_string()),
    }
    // Before the line, which may start what takes long, or this again.
    order::is_done()?;
    if let Some(line) = &order.then {
        match run(line, path) {
            Ok(status) => log(&format!("{line}: {status}")),
            Err(error) => log(&error.to_string()),
        }
    }
    Ok(())
}

fn list(told: &HostDescription, log: &dyn Fn(&str)) {
    match nodes::seen(&told.nodes) {
        Ok(nodes) => {
            for node in nodes {
                let why = node.message.map(|message| format!(": {message}")).unwrap_or_default();
                log(&format!("node {}: {}{why}", node.entry.name, meaning(node.entry.word)));
            }
        }
        Err(error) => log(&format!("the nodes of the host: {error}")),
    }
}

fn write(signs: &Signs, death: &Death, told: &HostDescription, to: &str, log: &dyn Fn(&str)) {
    let begin = Instant::now();
    match dump((signs, death), told, to, log) {
        Ok(dumped) => {
            log(&format!(
                "the vmcore is complete: {} MiB of {} in {:.1} s",
                dumped.file_bytes >> 20,
                dumped.ram_bytes >> 20,
                begin.elapsed().as_secs_f64()
            ));
            if let Some((at, why)) = dumped.unread.first {
                let bytes = dumped.unread.bytes;
                log(&format!("{bytes} bytes of it could not be read, at {at:#x} and on: {why}"));
            }
        }
        Err(error) => log(&format!("no vmcore: {error}")),
    }
}

fn run(line: &str, path: &str) -> Result<std::process::ExitStatus> {
    let kernel = || {
        let file: Option<File> = OpenOptions::new().write(true).open("/dev/kmsg").ok();
        file.map_or(Stdio::null(), Stdio::from)
    };
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path).stdin(Stdio::null());
    command.stdout(kernel()).stderr(kernel());
    command.status().map_err(|error| Error::file("sh", error))
}
