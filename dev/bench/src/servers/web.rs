//! Static files: the server's cpu time where all is in memory, and hot files with cold ones in
//! the mix.

use std::fs::File;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;
use kumiki_measure::stats::describe;

use super::client::{Client, at_fixed_rate};
use super::file_servers;
use super::folder::{Folder, make_cold};
use super::program::Program;
use super::turns::{Measured, Subject, figure, interleaved};
use crate::busy::Busy;
use crate::pair::Pair;
use crate::run::median_of;

const HOT: usize = 500;
const HOT_BYTES: usize = 8 * 1024;
const COLD: usize = 4000;
const COLD_BYTES: usize = 64 * 1024;

const WARM_ROUNDS: usize = 9;
const WARM_REQUESTS: usize = 2000;

/// One turn's tail varies twofold: the interval of so many says how sure their median is.
const MIX_ROUNDS: usize = 15;
/// Turns beside each load, of fewer subjects.
const BUSY_ROUNDS: usize = 9;
/// Busy processes that may run on any cpu.
const LOADS: [usize; 4] = [1, 2, 4, 8];
const MIX_TIME: Duration = Duration::from_millis(1500);
/// Connections that ask for hot files at fixed times, and those that ask for one cold file after
/// the other.
const HOT_CLIENTS: usize = 8;
const HOT_PERIOD: Duration = Duration::from_millis(8);
const COLD_CLIENTS: usize = 8;

fn fill(folder: &Folder, cold: usize) -> Result<()> {
    for at in 0..HOT {
        folder.file(&format!("hot{at}"), HOT_BYTES)?;
    }
    for at in 0..cold {
        folder.file(&format!("cold{at}"), COLD_BYTES)?;
    }
    Ok(())
}

/// `web_warm_cpu`: a request after the other, each for another file in memory.
pub(super) fn warm(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    fill(&folder, 0)?;
    pair.bind_main()?;
    let programs = file_servers::all(folder.path(), pair)?;
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for program in &programs {
        let turn = move || {
            // Anew: between turns it would be idle for longer than a server waits.
            let mut client = Client::connect(program.address)?;
            let begin = program.cpu_ns()?;
            for at in 0..WARM_REQUESTS {
                client.get(&format!("hot{}", at % HOT))?;
            }
            Ok(vec![(program.cpu_ns()? - begin) as f64 / WARM_REQUESTS as f64])
        };
        subjects.push((program.name, Box::new(turn)));
    }
    let groups = interleaved(WARM_ROUNDS, &mut subjects)?;
    let base = groups.iter().find(|(name, _)| *name == "plain").map(|(_, its)| median_of(its));
    let row = |(name, its): &Measured| {
        Row::of(("web_warm_cpu", name), "ns", its, base).of_size(HOT_BYTES)
    };
    Ok(groups.iter().map(row).collect())
}

/// `web_mix_hot_p99` and `web_mix_cold_rate`: of each turn the 99th percentile of the times that
/// hot files took, from when they were due, and how many cold files a second.
pub(super) fn mix(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    fill(&folder, COLD)?;
    pair.bind_main()?;
    let programs = file_servers::all(folder.path(), pair)?;
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for program in &programs {
        let folder = &folder;
        let turn = move || {
            for at in 0..COLD {
                make_cold(&File::open(folder.path().join(format!("cold{at}")))?)?;
            }
            let (p99, rate) = mixed(program)?;
            Ok(vec![p99, rate])
        };
        subjects.push((program.name, Box::new(turn)));
    }
    let mut rows = Vec::new();
    for (name, its) in interleaved(MIX_ROUNDS, &mut subjects)? {
        rows.push(Row::of(("web_mix_hot_p99", name), "ns", &figure(&its, 0), None));
        rows.push(Row::rate(("web_mix_cold_rate", name), "1/s", &figure(&its, 1), None));
    }
    Ok(rows)
}

/// `web_mix_hot_p99_busy`: the same beside `n` processes that only keep a cpu busy. `nginx` is
/// that setting of it which is best in the row.
pub(super) fn busy(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    fill(&folder, COLD)?;
    pair.bind_main()?;
    let programs = file_servers::kumiki_and_nginx(folder.path(), pair)?;
    let mut rows = Vec::new();
    for load in LOADS {
        let mut subjects: Vec<Subject<'_>> = Vec::new();
        for program in &programs {
            let folder = &folder;
            let turn = move || {
                for at in 0..COLD {
                    make_cold(&File::open(folder.path().join(format!("cold{at}")))?)?;
                }
                let _busy = Busy::start(load)?;
                Ok(vec![mixed(program)?.0])
            };
            subjects.push((program.name, Box::new(turn)));
        }
        let (nginx, mut others): (Vec<_>, Vec<_>) = interleaved(BUSY_ROUNDS, &mut subjects)?
            .into_iter()
            .partition(|(name, _)| name.starts_with("nginx"));
        let median = |(_, its): &Measured| median_of(its);
        let best = nginx.into_iter().min_by(|a, b| median(a).total_cmp(&median(b)));
        if let Some((name, its)) = best {
            eprintln!("beside {load} busy processes the best nginx is {name}");
            others.push(("nginx", its));
        }
        let row = |(name, its): &Measured| {
            Row::of(("web_mix_hot_p99_busy", name), "ns", its, None).of_size(load)
        };
        rows.extend(others.iter().map(row));
    }
    Ok(rows)
}

/// One turn of a server.
fn mixed(program: &Program) -> Result<(f64, f64)> {
    let (begin, next) = (Instant::now(), AtomicUsize::new(0));
    let until = begin + MIX_TIME;
    let (hot, cold) = std::thread::scope(|scope| {
        let hot: Vec<_> = (0..HOT_CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(client as u64);
                    let mut connection = Client::connect(program.address)?;
                    // Not all at the same moment.
                    std::thread::sleep(HOT_PERIOD / HOT_CLIENTS as u32 * client as u32);
                    let target = || format!("hot{}", random.usize(..HOT));
                    at_fixed_rate(&mut connection, HOT_PERIOD, until, target)
                })
            })
            .collect();
        let cold: Vec<_> = (0..COLD_CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut connection, mut count) = (Client::connect(program.address)?, 0);
                    while Instant::now() < until {
                        let at = next.fetch_add(1, Relaxed);
                        // All were asked for: what comes now is warm, and does not count.
                        if at >= COLD {
                            break;
                        }
                        connection.get(&format!("cold{at}"))?;
                        count += 1;
                    }
                    Ok::<_, anyhow::Error>((count, begin.elapsed()))
                })
            })
            .collect();
        let hot: Result<Vec<_>> = hot.into_iter().map(|it| it.join().expect("no panic")).collect();
        let cold: Result<Vec<_>> =
            cold.into_iter().map(|it| it.join().expect("no panic")).collect();
        (hot, cold)
    });
    let (hot, cold) = (describe::sorted(hot?.into_iter().flatten()), cold?);
    let count: usize = cold.iter().map(|(count, _)| count).sum();
    let time = cold.iter().map(|(_, time)| *time).max().context("clients for cold files")?;
    Ok((describe::quantile(&hot, 0.99), count as f64 / time.as_secs_f64()))
}
