//! One cached read: plainly, by an engine that tries first, and from tokio.

use std::fs::File;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;
use kumiki_parasc::op::{Operation, Pread};
use kumiki_parasc::{Config, Engine};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::folder::Folder;
use super::turns::{Measured, Subject, interleaved};
use crate::pair::Pair;
use crate::run::median_of;

const ROUNDS: usize = 9;
/// Samples of a turn, and calls of a sample.
const SAMPLES: usize = 20;
const CALLS: usize = 100;
/// Of those that take a hand-over each.
const SLOW_CALLS: usize = 10;

/// A turn of a call: nanoseconds of one, in mean over a sample's.
fn turn(calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut sample = || {
        let begin = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        Ok(begin.elapsed().as_nanos() as f64 / calls as f64)
    };
    (0..SAMPLES).map(|_| sample()).collect()
}

fn measured(case: &'static str, n: usize, subjects: &mut [Subject<'_>]) -> Result<Vec<Row>> {
    let groups = interleaved(ROUNDS, subjects)?;
    let base = groups.iter().find(|(name, _)| *name == "plain").map(|(_, its)| median_of(its));
    let row = |(name, its): &Measured| Row::of((case, name), "ns", its, base).of_size(n);
    Ok(groups.iter().map(row).collect())
}

/// `submit_cached`: a pread of what is in memory.
pub(super) fn submit(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    let mut rows = Vec::new();
    for n in [512, 4096, 65_536] {
        let file = Arc::new(folder.file("cached", n)?);
        pair.bind_both()?;
        let engine = Engine::new(&Config::default())?;
        pair.bind_main()?;
        let mut kept = Some(vec![0_u8; n].into_boxed_slice());
        let mut handed = Some(vec![0_u8; n].into_boxed_slice());
        let mut own = vec![0_u8; n];
        rows.extend(measured(
            "submit_cached",
            n,
            &mut [
                (
                    "plain",
                    Box::new(|| {
                        turn(CALLS, || {
                            Pread::new(&*file, 0, &mut own[..]).call()?;
                            Ok(())
                        })
                    }),
                ),
                (
                    "kumiki",
                    Box::new(|| {
                        turn(CALLS, || {
                            let buffer = kept.take().context("the buffer")?;
                            let attempt = engine.attempt(Pread::new(Arc::clone(&file), 0, buffer));
                            let made = attempt.made().ok().context("it is not in memory")?;
                            made.output?;
                            kept = Some(made.operation.into_buffer());
                            Ok(())
                        })
                    }),
                ),
                (
                    "submit",
                    Box::new(|| {
                        turn(SLOW_CALLS, || {
                            let buffer = handed.take().context("the buffer")?;
                            let made =
                                engine.submit(Pread::new(Arc::clone(&file), 0, buffer)).wait()?;
                            made.output?;
                            handed = Some(made.operation.into_buffer());
                            Ok(())
                        })
                    }),
                ),
            ],
        )?);
    }
    Ok(rows)
}

/// `tokio_read_at`: the same within tokio.
pub(super) fn read_at(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    pair.bind_both()?;
    // As a program has it; a runtime of one thread, so that the case is one call.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut rows = Vec::new();
    for n in [4096, 65_536] {
        let file = Arc::new(folder.file("cached", n)?);
        let ours = kumiki_tokio::File::from_std(file.try_clone()?);
        let (mut a, mut b, mut c) = (vec![0; n], vec![0; n], vec![0; n]);
        let mut theirs = tokio::fs::File::from_std(File::try_clone(&file)?);
        theirs.set_max_buf_size(n);
        let turns = |calls: usize| (calls, SAMPLES);
        rows.extend(measured(
            "tokio_read_at",
            n,
            &mut [
                (
                    "plain",
                    Box::new(|| {
                        runtime.block_on(sampled(turns(CALLS), async |_| {
                            file.read_at(&mut a, 0)?;
                            Ok(())
                        }))
                    }),
                ),
                (
                    "kumiki",
                    Box::new(|| {
                        runtime.block_on(sampled(turns(CALLS), async |_| {
                            ours.read_at(&mut b, 0).await?;
                            Ok(())
                        }))
                    }),
                ),
                // It has no read at a place: seek and read.
                (
                    "tokio_fs",
                    Box::new(|| {
                        runtime.block_on(sampled(turns(SLOW_CALLS), async |_| {
                            theirs.seek(SeekFrom::Start(0)).await?;
                            theirs.read_exact(&mut c).await?;
                            Ok(())
                        }))
                    }),
                ),
                (
                    "tokio_blocking",
                    Box::new(|| {
                        runtime.block_on(sampled(turns(SLOW_CALLS), async |_| {
                            let file = Arc::clone(&file);
                            let read = move || {
                                let mut buffer = vec![0; n];
                                file.read_at(&mut buffer, 0).map(|_| buffer)
                            };
                            drop(tokio::task::spawn_blocking(read).await??);
                            Ok(())
                        }))
                    }),
                ),
            ],
        )?);
    }
    Ok(rows)
}

/// As [`turn`], of a future.
async fn sampled(
    (calls, samples): (usize, usize),
    mut call: impl AsyncFnMut(()) -> Result<()>,
) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(samples);
    for _ in 0..samples {
        let begin = Instant::now();
        for _ in 0..calls {
            call(()).await?;
        }
        all.push(begin.elapsed().as_nanos() as f64 / calls as f64);
    }
    Ok(all)
}
