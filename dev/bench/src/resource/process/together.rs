//! Processes made by one core, or by several at once.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kumiki_cases::ways::{Target, clone3, posix_spawn};
use kumiki_experiments::resource::shared::{self, SharedKind};
use kumiki_resource::{Interface, Place};
use kumiki_spawn::{Command, Process, SpawnServer};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::child::turns;
use crate::pair::Pair;

use super::parent;
use super::request::Request;

/// A sample lasts so long.
const SPAN: Duration = Duration::from_millis(40);
/// Samples of a turn.
const SAMPLES: usize = 3;
/// Before each, so that each core's server is there.
const WARM: usize = 3;

/// Serves as one of several that start the program at `path`.
pub(crate) fn serve(subject: &str, path: &Path, pair: Pair) -> Result<()> {
    let text = path.to_string_lossy().into_owned();
    let target = || Target::new(path).expect("its path has no zero byte");
    match subject {
        "servers:kumiki" => servers(pair, || {
            let (mut server, text) = (SpawnServer::new(), &text);
            move || parent::kumiki(text, Some(&mut server)).expect("it ends with 0")
        }),
        "servers:posix_spawn" => servers(pair, || {
            let target = target();
            move || posix_spawn(&target).expect("it ends with 0")
        }),
        // One thread of a process of its own, of which there are two.
        "servers:bare" => servers(pair, || {
            let target = target();
            move || clone3(&target).expect("it ends with 0")
        }),
        "process:kumiki" => {
            pair.bind_both()?;
            let both = [pair.main, pair.helper];
            pairs(|cores| {
                // A place whose manager has ended takes no other one.
                let builder = Interface::builder().kind::<Process>().cores([]).adopted(both);
                let interface = builder.per_core()?;
                samples(pair, cores, |cpu| {
                    let place = interface.place(&format!("core{cpu}")).expect("each cpu has one");
                    let manager = interface.manage(place).expect("its place is free");
                    let (interface, text) = (&interface, &text);
                    move || {
                        let _serves = &manager;
                        once(interface, place, "worker", text);
                    }
                })
            })
        }
        "process:kumiki/shared" => {
            let all = SharedKind::<Process>::new()?;
            pairs(|cores| {
                samples(pair, cores, |cpu| {
                    let (all, text, name) = (&all, &text, format!("worker-{cpu}"));
                    move || {
                        let process = all.create(Some(&name), command(text)).expect("it starts");
                        shared::wait(all, process).expect("it ends");
                        all.destroy(process).expect("made just now");
                    }
                })
            })
        }
        _ => anyhow::bail!("there is no subject {subject:?} in this build"),
    }
}

/// Makes a process with this name, waits for its end, and destroys it.
fn once(interface: &Interface, place: Place, name: &str, path: &str) {
    let command = command(path);
    let process = interface.create::<Process>(place, Some(name), command).expect("it starts");
    Process::wait(interface, &process).expect("it ends");
    interface.destroy(process).expect("made just now");
}

/// The program, without an environment.
fn command(path: &str) -> Command {
    let mut command = Command::new(path);
    command.env_clear();
    command
}

fn servers<O: FnMut()>(pair: Pair, make: impl Fn() -> O + Sync) -> Result<()> {
    turns(|request| {
        let Request::SpawnServers { servers } = request else { return Ok(None) };
        samples(pair, servers, |_| make()).map(Some)
    })
}

fn pairs(samples: impl Fn(u64) -> Result<Vec<f64>>) -> Result<()> {
    turns(|request| {
        let Request::ProcessPair { cores } = request else { return Ok(None) };
        samples(cores).map(Some)
    })
}

/// Nanoseconds of an operation, of all threads together.
fn samples<O: FnMut()>(
    pair: Pair,
    threads: u64,
    make: impl Fn(usize) -> O + Sync,
) -> Result<Vec<f64>> {
    ensure!((1..=2).contains(&threads), "{threads} threads: there are two cpus");
    let cpus = &[pair.main, pair.helper][..threads as usize];
    let (start, make) = (Barrier::new(cpus.len()), &make);
    let each = |cpu: usize| {
        affinity::set(&CpuSet::from_iter([cpu])).expect("it is one of the pair");
        let mut operation = make(cpu);
        let one = |_| {
            (0..WARM).for_each(|_| operation());
            start.wait();
            let (begin, mut count) = (Instant::now(), 0);
            while begin.elapsed() < SPAN {
                operation();
                count += 1;
            }
            let ns = begin.elapsed().as_nanos() as f64 / f64::from(count);
            // Nobody ends while another one still counts.
            start.wait();
            ns
        };
        (0..SAMPLES).map(one).collect::<Vec<f64>>()
    };
    let all: Vec<Vec<f64>> = thread::scope(|scope| {
        let running: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || each(cpu))).collect();
        running.into_iter().map(|thread| thread.join().expect("it has said why")).collect()
    });
    Ok((0..SAMPLES).map(|at| together(all.iter().map(|one| one[at]))).collect())
}

/// Of what each takes for one, what all together take for one.
pub(super) fn together(each: impl Iterator<Item = f64>) -> f64 {
    each.map(f64::recip).sum::<f64>().recip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_alike_take_half_of_one() {
        assert_eq!(together([50.0].into_iter()), 50.0);
        assert_eq!(together([50.0, 50.0].into_iter()), 25.0);
        assert_eq!(together([20.0, 5.0].into_iter()), 4.0);
    }
}
