//! Resources owned per core beside allocators, channels and locks.

use anyhow::{Result, bail};

use crate::pair::Pair;

mod alloc;
mod calls;
mod local;
mod pages;
mod paired;
mod plan;
mod request;
mod table;
mod together;

pub(crate) use self::plan::Resource;

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
        _ => bail!("there is no subject {subject:?} in this build"),
    }
}
