//! Many spawns while servers are killed: none is lost, none runs twice, nothing is left. In a
//! process of its own, whose children are known. `cargo xtask stress spawn` makes more.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use kumiki_spawn::{Command, Refusal, SpawnServer, Stdio};
use rustix::process::{Pid, Signal, kill_process};

const THREADS: u64 = 3;

/// Children of this process, and which of them are servers.
fn children() -> Vec<(i32, bool)> {
    let mut all = Vec::new();
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(&own) {
            let program = fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
            all.push((id, program.to_string_lossy().starts_with("/memfd:kumiki-spawn")));
        }
    }
    all
}

fn counts() -> [usize; 2] {
    ["fd", "map_files"].map(|what| fs::read_dir(format!("/proc/self/{what}")).unwrap().count())
}

#[test]
fn servers_are_killed_while_children_are_made() {
    let spawns = std::env::var("KUMIKI_STRESS_SPAWNS").ok().map(|n| n.parse().expect("a number"));
    let spawns: u64 = spawns.unwrap_or(300);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let append = || File::options().append(true).create(true).open(&log).unwrap();
    // The allocator's and the threads' own are there then.
    thread::scope(|threads| {
        _ = threads.spawn(|| Command::new("true").by_server(true).status().unwrap()).join()
    });
    kill_servers();
    let _ = Command::new("/no/such/program").by_server(true).spawn();
    let uid = rustix::process::getuid().as_raw();
    // Their child waits for the library on its way.
    let maps = Command::new("true").uid_map(uid, uid, 1).status().is_ok();
    if !maps {
        println!("no new user namespaces here: none among them");
    }
    kill_servers();
    let _ = Command::new("/no/such/program").by_server(true).spawn();
    let before = counts();
    let (next, stop, kills) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let outcomes = thread::scope(|threads| {
        let work = |thread: u64| {
            let mut own = SpawnServer::new();
            let mut outcomes = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= spawns {
                    return outcomes;
                }
                let refused = number % 10 == 0;
                let program = if refused { "/no/such/program" } else { "/bin/echo" };
                let mut command = Command::new(program);
                command.by_server(true);
                command.arg(number.to_string()).stdin(Stdio::null()).stdout(append());
                if maps && number % 4 == 1 {
                    command.uid_map(uid, uid, 1);
                }
                let child = if thread == 0 { command.spawn_by(&mut own) } else { command.spawn() };
                let started = match child {
                    Ok(mut child) => {
                        let status = child.wait().unwrap();
                        // With its server goes who would have told that there is no program.
                        assert!(
                            status.success()
                                || refused && status.code() == Some(127)
                                || status.signal() == Some(libc::SIGKILL),
                            "{status}"
                        );
                        // Until its exec it looks like the server, and may be taken for one.
                        (status.signal().is_none()).then(|| status.success())
                    }
                    Err(error) if refused && Refusal::number(&error) == Some(libc::ENOENT) => {
                        Some(false)
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("spawn server"), "{error}");
                        Some(false)
                    }
                };
                outcomes.push((number, started));
            }
        };
        threads.spawn(|| {
            let mut random = fastrand::Rng::with_seed(1);
            while !stop.load(Relaxed) {
                kills.fetch_add(kill_servers(), Relaxed);
                thread::sleep(Duration::from_micros(random.u64(500..20_000)));
            }
        });
        let workers: Vec<_> =
            (0..THREADS).map(|thread| threads.spawn(move || work(thread))).collect();
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Relaxed);
        outcomes.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>()
    });
    let mut lines: HashMap<u64, u64> = HashMap::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        *lines.entry(line.parse().unwrap()).or_default() += 1;
    }
    for (number, started) in &outcomes {
        let ran = lines.get(number).copied().unwrap_or(0);
        assert!(started.map_or(ran <= 1, |started| ran == u64::from(started)), "{number}: {ran}");
    }
    let started = outcomes.iter().filter(|(_, started)| *started == Some(true)).count();
    let kills = kills.load(Relaxed);
    println!("{spawns} spawns, {started} ran, each once; {kills} servers killed");
    assert!(started as u64 > spawns / 2 && kills > 0, "{started} {kills}");
    // One that was killed is noticed and waited for by the next start.
    let _ = Command::new("/no/such/program").by_server(true).spawn();
    assert_eq!(children().iter().filter(|(_, is_server)| !is_server).count(), 0);
    assert!(children().len() <= 1);
    assert_eq!(counts(), before, "descriptors and mappings");
}

fn kill_servers() -> u64 {
    let servers = children().into_iter().filter(|(_, is_server)| *is_server);
    let killed = servers.map(|(id, _)| kill_process(Pid::from_raw(id).unwrap(), Signal::KILL));
    killed.filter(Result::is_ok).count() as u64
}
