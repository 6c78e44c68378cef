//! Resources owned per core beside allocators, channels and locks.

use anyhow::{Result, bail};
use kumiki_experiments::resource::cores::By;
use kumiki_measure::bench::Row;

use crate::pair::Pair;
use crate::run;

mod alloc;
mod calls;
pub(crate) mod control;
pub(crate) mod durable;
mod kept;
mod lines;
mod local;
mod pages;
mod paired;
mod paper;
#[cfg(feature = "peers")]
mod places;
mod plan;
pub(crate) mod process;
mod request;
mod table;
mod together;

use self::plan::Resource;

/// Measures everything, or the cases in `only` if it names some.
pub(crate) fn rows(pair: Pair, only: &[&str]) -> Result<Vec<Row>> {
    let is_process = |name: &&str| process::NAMES.contains(name);
    let (processes, others): (Vec<&str>, Vec<&str>) = only.iter().copied().partition(is_process);
    let is_durable = |name: &&str| durable::NAMES.contains(name);
    let (durables, others): (Vec<&str>, Vec<&str>) = others.into_iter().partition(is_durable);
    let mut rows = Vec::new();
    if only.is_empty() || !others.is_empty() {
        rows = run::run(&mut Resource, pair, &others)?;
    }
    if only.is_empty() || !processes.is_empty() {
        rows.extend(process::rows(pair, &processes)?);
    }
    if only.is_empty() || !durables.is_empty() {
        rows.extend(durable::rows(pair, &durables)?);
    }
    Ok(rows)
}

/// Serves as `subject`.
pub(crate) fn serve(subject: &str, pair: Pair) -> Result<()> {
    pair.bind_main()?;
    match subject {
        "pages:kumiki" => alloc::serve(pages::Kumiki, pair),
        "pages:glibc" => alloc::serve(pages::Glibc, pair),
        "pages:mmap" => alloc::serve(pages::Mmap, pair),
        #[cfg(feature = "peers")]
        "pages:jemalloc" => alloc::serve(pages::Jemalloc, pair),
        #[cfg(feature = "peers")]
        "pages:mimalloc" => alloc::serve(pages::Mimalloc, pair),
        #[cfg(feature = "peers")]
        "pages:snmalloc" => alloc::serve(pages::Snmalloc, pair),
        #[cfg(feature = "peers")]
        "pages:tcmalloc" => alloc::serve(pages::Tcmalloc::load()?, pair),
        "calls:kumiki" => calls::serve(calls::Kumiki::new(pair)?),
        "calls:kumiki/shared" => calls::serve(calls::Shared::new(pair)?),
        "calls:mutex_map" => calls::serve(calls::MutexMap::new(pair)?),
        "calls:tokio_oneshot" => calls::serve(calls::Oneshot::new(pair)?),
        "calls:bare" => calls::serve(calls::Bare::new(pair)?),
        #[cfg(feature = "peers")]
        "calls:crossbeam_channel" => calls::serve(calls::Channel::new(pair)?),
        "local:kumiki" => local::kumiki(pair),
        "local:kumiki/shared" => local::shared(),
        "local:mutex_map" => local::mutex_map(),
        "local:direct" => local::direct(),
        "paired:kumiki" => paired::kumiki(pair),
        "paired:kumiki/shared" => paired::shared(pair),
        #[cfg(feature = "peers")]
        "paired:concurrent_map" => paired::map(pair),
        "lines:kumiki" => lines::kumiki(pair),
        "control:kumiki" => control::kumiki(pair),
        "control:interface" => control::interface(pair),
        #[cfg(feature = "peers")]
        "places:kumiki" => places::kumiki(pair, false),
        #[cfg(feature = "peers")]
        "places:kumiki/own" => places::kumiki(pair, true),
        #[cfg(feature = "peers")]
        "places:kumiki/control" => places::control(pair),
        #[cfg(feature = "peers")]
        "places:nats" => places::nats(pair),
        "paper:kumiki" => paper::serve(By::PerCore, pair),
        "paper:kumiki/mapped_once" => paper::serve(By::MappedOnce, pair),
        "paper:kumiki/shared" => paper::serve(By::Shared, pair),
        "paper:plain_threads" => paper::serve(By::PlainThreads, pair),
        "paper:plain_processes" => paper::serve(By::PlainProcesses, pair),
        #[cfg(feature = "peers")]
        "paper:concurrent_map" => paper::map::serve(pair),
        _ => bail!("there is no subject {subject:?} in this build"),
    }
}
