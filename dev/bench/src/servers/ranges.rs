//! `tokio_ranges`: 20,000 ranges of one cold file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use kumiki_measure::bench::Row;

use super::folder::{Folder, make_cold};
use super::turns::{Measured, Subject, interleaved};
use crate::pair::Pair;

const ROUNDS: usize = 5;
const RANGES: usize = 20_000;
const LENGTH: u64 = 4096;
/// From one range to the next: too far to be read together, in 640 MiB.
const STRIDE: u64 = 32 * 1024;

/// In no order, as row groups of many columns are asked for.
fn ranges() -> Vec<Range<u64>> {
    let mut random = fastrand::Rng::with_seed(20_000);
    let mut starts: Vec<u64> = (0..RANGES as u64).map(|at| at * STRIDE).collect();
    random.shuffle(&mut starts);
    starts.into_iter().map(|start| start..start + LENGTH).collect()
}

pub(super) fn rows(pair: Pair) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    pair.bind_both()?;
    let file = Arc::new(folder.file("ranges", RANGES * STRIDE as usize)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let (ours, ranges) = (kumiki_tokio::File::from_std(file.try_clone()?), ranges());
    let timed = |work: &mut dyn FnMut() -> Result<usize>| {
        make_cold(&file)?;
        let begin = Instant::now();
        let bytes = work()?;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        ensure!(bytes == RANGES * LENGTH as usize, "{bytes} bytes were read");
        Ok(vec![ms])
    };
    let mut subjects: Vec<Subject<'_>> = vec![
        (
            "kumiki",
            Box::new(|| {
                timed(&mut || {
                    let parts = runtime.block_on(kumiki_tokio::read_ranges(&ours, &ranges))?;
                    Ok(parts.iter().map(Vec::len).sum())
                })
            }),
        ),
        (
            "tokio_blocking",
            Box::new(|| timed(&mut || runtime.block_on(by_blocking(&file, &ranges)))),
        ),
    ];
    #[cfg(feature = "peers")]
    subjects.push(("io_uring", Box::new(|| timed(&mut || uring::read(&file, &ranges)))));
    let groups = interleaved(ROUNDS, &mut subjects)?;
    let row =
        |(name, its): &Measured| Row::of(("tokio_ranges", name), "ms", its, None).of_size(RANGES);
    Ok(groups.iter().map(row).collect())
}

/// As tokio::fs does it: each on a thread for blocking calls, of which there are 512 at most.
async fn by_blocking(file: &Arc<File>, ranges: &[Range<u64>]) -> Result<usize> {
    let mut tasks = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (file, start) = (Arc::clone(file), range.start);
        tasks.push(tokio::task::spawn_blocking(move || {
            let mut part = vec![0; LENGTH as usize];
            file.read_exact_at(&mut part, start).map(|()| part)
        }));
    }
    let mut bytes = 0;
    for task in tasks {
        bytes += task.await??.len();
    }
    Ok(bytes)
}

#[cfg(feature = "peers")]
mod uring {
    use std::os::fd::AsRawFd;

    use anyhow::Context;
    use io_uring::{IoUring, opcode, types};

    use super::*;

    /// Reads that are outstanding at a time, as many as Kumiki has threads for.
    const DEPTH: u32 = 64;

    /// By a ring of one thread, which keeps so many reads outstanding.
    pub(super) fn read(file: &File, ranges: &[Range<u64>]) -> Result<usize> {
        let mut ring = IoUring::new(DEPTH).context("setting up an io_uring")?;
        let mut parts: Vec<Vec<u8>> = ranges.iter().map(|_| vec![0; LENGTH as usize]).collect();
        let (mut next, mut done, mut bytes) = (0, 0, 0);
        while done < ranges.len() {
            while next < ranges.len() && next - done < DEPTH as usize {
                let part = parts[next].as_mut_ptr();
                let read = opcode::Read::new(types::Fd(file.as_raw_fd()), part, LENGTH as u32);
                let entry = read.offset(ranges[next].start).build().user_data(next as u64);
                // SAFETY: the part stays until all reads have ended, below.
                unsafe { ring.submission().push(&entry) }.context("a ring that is full")?;
                next += 1;
            }
            ring.submit_and_wait(1)?;
            for entry in ring.completion() {
                ensure!(entry.result() >= 0, "a read has failed: {}", entry.result());
                bytes += entry.result() as usize;
                done += 1;
            }
        }
        Ok(bytes)
    }
}
