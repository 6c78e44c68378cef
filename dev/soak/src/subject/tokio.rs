//! `kumiki-tokio`: tasks that read files while others replace and cut them; some reads are dropped
//! while they are under way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use kumiki_tokio::{File, fs};

use crate::faults;
use crate::ground::Ground;
use crate::site::{Page, Site};
use crate::soak::Soak;

const TASKS: u64 = 24;

pub(crate) fn soak(soak: &'static Soak, ground: &Ground) -> Result<()> {
    let site = Arc::new(Site::new(ground)?);
    let runtime = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .context("a runtime")?;
    std::thread::scope(|threads| {
        let files = &site;
        threads.spawn(move || faults::draw(soak, files.faults(), Duration::from_millis(30)));
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let (site, rng) = (Arc::clone(&site), soak.rng(number));
                runtime.spawn(task(soak, site, rng))
            })
            .collect();
        soak.guard();
        // Their last requests have been answered.
        runtime.block_on(async {
            for task in tasks {
                task.await.context("a task")?;
            }
            Ok::<_, anyhow::Error>(())
        })
    })?;
    for what in ["read", "read in part", "left while it was read"] {
        ensure!(soak.counted(what) > 0, "nothing was {what}");
    }
    Ok(())
}

async fn task(soak: &'static Soak, site: Arc<Site>, mut rng: Rng) {
    while !soak.is_over() {
        let page = site.page(&mut rng);
        let waits = soak.request(format!("a read of {}", page.name));
        let done = act(soak, &site, page, &mut rng).await;
        drop(waits);
        if let Err(error) = done {
            soak.fail(&format!("{}: {error:#}", page.name));
        }
        if rng.u8(..) == 0 {
            ::tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn act(soak: &Soak, site: &Site, page: &Page, rng: &mut Rng) -> Result<()> {
    let path = site.folder.join(&page.name);
    let oldest = page.oldest();
    match rng.u32(..10) {
        0..4 => {
            let bytes = fs::read(&path).await.context("reading all")?;
            page.check(oldest, &bytes)?;
            soak.count("read");
        }
        4..6 => {
            let file = File::open(&path).await.context("opening")?;
            let start = rng.usize(..=page.file.most);
            let mut bytes = vec![0; rng.usize(1..=64 << 10)];
            let count = file.read_at(&mut bytes, start as u64).await.context("reading a part")?;
            page.check_part(oldest, start, bytes.len(), &bytes[..count])?;
            soak.count("read in part");
        }
        6..8 => {
            let file = File::open(&path).await.context("opening")?;
            let start = rng.usize(..=page.file.most);
            let room = vec![0; rng.usize(1..=64 << 10)].into_boxed_slice();
            let (count, bytes) =
                file.read_at_into(room, start as u64).await.context("reading into a buffer")?;
            page.check_part(oldest, start, bytes.len(), &bytes[..count])?;
            soak.count("read in part");
        }
        8 => {
            let there = fs::metadata(&path).await.context("its attributes")?;
            ensure!(there.is_file() && there.len() <= page.file.most as u64, "it is another one");
            soak.count("asked for its attributes");
        }
        _ => {
            let patience = Duration::from_micros(rng.u64(..200));
            if ::tokio::time::timeout(patience, fs::read(&path)).await.is_err() {
                soak.count("left while it was read");
            }
        }
    }
    Ok(())
}
