//! Memory for a node, taken from a running host and given back.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use kumiki_measure::bench::Row;
use kumiki_node::{MemorySource, Reservation};

use super::start::drop_caches;

const BYTES: u64 = 256 << 20;
const NAME: &str = "bench-reserve";
/// More than the machine has: reading it leaves no page unused.
const FILL_BYTES: u64 = 3 << 30;

/// Source of the memory, and what is in the page cache.
#[derive(Clone, Copy)]
struct ReserveWay {
    subject: &'static str,
    source: MemorySource,
    full: bool,
}

const WAYS: [ReserveWay; 4] = [
    ReserveWay { subject: "contig", source: MemorySource::Contiguous, full: false },
    ReserveWay { subject: "contig/full", source: MemorySource::Contiguous, full: true },
    ReserveWay { subject: "offline", source: MemorySource::Offline, full: false },
    ReserveWay { subject: "offline/full", source: MemorySource::Offline, full: true },
];

/// Time that each way takes, until it has the memory or has given up.
pub(super) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let filler = folder.join("filler");
    let file = File::create(&filler).with_context(|| format!("making {}", filler.display()))?;
    // Without any block on the disk: its pages are in the cache all the same.
    file.set_len(FILL_BYTES)?;
    let mut order = WAYS.map(|way| (way, Vec::new(), 0));
    let mut rng = fastrand::Rng::new();
    for round in 0..rounds {
        rng.shuffle(&mut order);
        for (way, samples, failed) in &mut order {
            drop_caches()?;
            if way.full {
                read(&filler)?;
            }
            let begin = Instant::now();
            let taken = Reservation::take(NAME, BYTES, way.source);
            samples.push(vec![begin.elapsed().as_secs_f64() * 1e3]);
            match taken {
                Ok(taken) => taken.give_back()?,
                Err(error) => {
                    eprintln!("{}: {error}", way.subject);
                    *failed += 1;
                }
            }
        }
        eprintln!("memory: round {} of {rounds}", round + 1);
    }
    fs::remove_file(&filler)?;
    order.sort_by_key(|(way, ..)| way.subject);
    let row = |(way, samples, failed): &(ReserveWay, Vec<Vec<f64>>, usize)| {
        Row::of(("reserve", way.subject), "ms", samples, None).failed(*failed)
    };
    Ok(order.iter().map(row).collect())
}

fn read(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 1 << 20];
    while file.read(&mut bytes)? > 0 {}
    Ok(())
}
