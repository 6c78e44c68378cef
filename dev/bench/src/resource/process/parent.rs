//! One process of some size that starts programs in every way.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_cases::ways::{Resident, Target, clone3, command, fork_exec, posix_spawn, vfork};
use kumiki_spawn::{Child, Command, SpawnServer};
use rustix::time::{ClockId, clock_gettime};

use crate::child::turns;
use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

use super::futex::Other;
use super::request::{Request, Way};

/// A fork from 8 GiB takes a fifth of a second.
const AMOUNT: Amount = Amount {
    warm: 1,
    warm_span: Duration::from_millis(1),
    least: 3,
    most: 100,
    span: Duration::from_millis(10),
};

/// Samples of the processor time span so many programs, of ways that are not slow: the
/// clock is a system call.
const TOGETHER: u32 = 8;

/// Serves as a parent. `argument` is the program and the size: `MIB:PATH`.
pub(crate) fn serve(argument: &Path, pair: Pair) -> Result<()> {
    let argument = argument.to_str().context("the program's path is text")?;
    let (mib, path) = argument.split_once(':').context("MIB:PATH")?;
    let mib: u64 = mib.parse()?;
    pair.bind_main()?;
    let target = Target::new(Path::new(path))?;
    let mut server = SpawnServer::new();
    // Of an empty process only.
    let other = if mib == 0 { Some(Other::start()?) } else { None };
    if mib > 0 {
        // Before the program is large, as its documentation says.
        server.start()?;
    }
    let _memory = Resident::new(mib << 20)?;
    let (watch, clock_ns) = (Stopwatch::new(), clock_ns());
    turns(|request| {
        Ok(match request {
            Request::Spawn { mib: asked, way } if asked == mib || way == Way::Bare => {
                Some(watch.each(AMOUNT, || start(way, &target, path, &mut server)))
            }
            Request::SpawnCpu { mib: asked, way } if asked == mib || way == Way::Bare => {
                let times = if way == Way::ForkExec { 1 } else { TOGETHER };
                Some(watch.means(AMOUNT, |_| {
                    let before = own_ns();
                    (0..times).for_each(|_| start(way, &target, path, &mut server));
                    (own_ns() - before) / f64::from(times)
                }))
            }
            Request::SpawnCall { mib: asked, way } if asked == mib || way == Way::Futex => {
                Some(watch.samples(AMOUNT, |_| {
                    let each = (0..TOGETHER).map(|_| match way {
                        Way::Futex => {
                            let other = other.as_ref().expect("an empty process is asked");
                            call(|| other.ask()).1
                        }
                        _ => {
                            let (mut child, ns) = call(|| handed_back(way, path, &mut server));
                            assert!(child.wait().expect("it ends").success(), "it ends with 0");
                            ns
                        }
                    });
                    each.sum::<f64>() / f64::from(TOGETHER) - clock_ns
                }))
            }
            _ => None,
        })
    })
}

/// What it does, and the processor time that it takes, with a look at the clock in it.
fn call<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = own_ns();
    let done = work();
    (done, own_ns() - before)
}

/// Of reading the clock, between two looks at it.
fn clock_ns() -> f64 {
    let mut all: Vec<f64> = (0..1000).map(|_| call(|| ()).1).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Processor time of this thread.
fn own_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn start(way: Way, target: &Target, path: &str, server: &mut SpawnServer) {
    let started = match way {
        Way::Kumiki => return kumiki(path, None).expect("it ends with 0"),
        Way::Server => return kumiki(path, Some(server)).expect("it ends with 0"),
        Way::PosixSpawn => posix_spawn(target),
        Way::Command => command(target),
        Way::ForkExec => fork_exec(target),
        Way::VforkExec => vfork(target),
        Way::Bare => clone3(target),
        Way::Futex => unreachable!("it starts nothing"),
    };
    started.expect("it ends with 0");
}

/// By a spawn server, or without one.
pub(super) fn kumiki(path: &str, server: Option<&mut SpawnServer>) -> Result<()> {
    let mut child = started(path, server)?;
    let status = child.wait()?;
    ensure!(status.success(), "{path}: {status}");
    Ok(())
}

fn handed_back(way: Way, path: &str, server: &mut SpawnServer) -> Child {
    started(path, (way == Way::Server).then_some(server)).expect("it starts")
}

fn started(path: &str, server: Option<&mut SpawnServer>) -> Result<Child> {
    let mut command = Command::new(path);
    command.env_clear();
    Ok(match server {
        Some(server) => command.spawn_by(server)?,
        None => command.spawn()?,
    })
}
