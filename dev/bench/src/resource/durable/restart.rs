//! A place of a million named counters, made by callers, that a new process serves again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_places::Client;
use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Counter, Get};
use kumiki_resource::Name;

use crate::child::turns;
use crate::pair::Pair;

use super::{DurableRequest, ServedPlace, durable, runtime};

pub(super) const SUBJECT: &str = "restart:kumiki";

/// Counters of the place.
pub(super) const COUNTERS: u64 = 1_000_000;
/// Counters that are made by one request.
const AT_A_TIME: u64 = 1000;
/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(50);

fn place(host: &str, folder: &Path, pair: Pair) -> Result<ServedPlace> {
    let folder = folder.to_owned();
    let disk = move |core: &str| Ok(Arc::new(Folder::open(&folder.join(core))?) as Arc<dyn Disk>);
    ServedPlace::serve(durable(host, disk), pair.helper)
}

/// Has callers make the counters, each with its number as its value.
pub(super) fn fill(host: &str, folder: &Path, pair: Pair) -> Result<()> {
    let place = place(host, folder, pair)?;
    let name = place.name()?;
    runtime()?.block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        for first in (0..COUNTERS).step_by(AT_A_TIME as usize) {
            let numbers = first..COUNTERS.min(first + AT_A_TIME);
            let wishes = numbers.map(|number| (Some(format!("n{number}")), number as i64));
            for made in client.create_each::<Counter>(&name, wishes).await {
                made?;
            }
        }
        Ok(())
    })
}

/// Serves by restarts. `argument` is the machine's name and the folder: `HOST:FOLDER`.
pub(super) fn serve(argument: &Path, pair: Pair) -> Result<()> {
    let argument = argument.to_str().context("the folder is text")?;
    let (host, folder) = argument.split_once(':').context("HOST:FOLDER")?;
    pair.bind_both()?;
    let runtime = runtime()?;
    turns(|request| match request {
        DurableRequest::Restart { counters } => {
            let begin = Instant::now();
            let place = place(host, Path::new(folder), pair)?;
            let last: Name = format!("{}/counter/n{}", place.name()?, counters - 1).parse()?;
            let value = runtime.block_on(async {
                let client = Client::here().with_timeout(PATIENCE);
                let counter = client.open::<Counter>(&last).await?;
                client.call::<Get>(&counter, ()).await
            })?;
            let ms = begin.elapsed().as_secs_f64() * 1e3;
            let restored = place.served.restored().first().context("a durable place")?.resources;
            ensure!(
                (restored as u64, value) == (counters, counters as i64 - 1),
                "of {counters} counters {restored} are back, and the last one's value is {value}"
            );
            Ok(Some(vec![ms]))
        }
        _ => Ok(None),
    })
}
