//! Shadow threads beside other ways to fork, join, divide loops, and copy.

use std::path::Path;

use anyhow::{Result, bail};
use kumiki_copy::Method;

use crate::child::turns;
use crate::pair::Pair;

use self::copy::kumiki::Kumiki;
use self::copy::{Arena, Copier};
use self::fork::{Fork, Forker};
use self::nbody::{Looper, Loops};

mod copy;
mod fork;
mod job;
mod nbody;
mod plan;
pub mod request;
mod sum;

pub use self::plan::Shadow;

/// Serves as `subject`, which copies in the arena at this path.
pub fn serve(subject: &str, pair: Pair, arena: &Path) -> Result<()> {
    // OpenMP's runtime binds the threads, and had to see both cpus to do so.
    if !subject.contains("openmp") {
        pair.bind_main()?;
    }
    match subject {
        #[cfg(feature = "peers")]
        "openmp_active" | "openmp_passive" => forker(fork::openmp::OpenMp, pair),
        "kumiki" => forker(fork::kumiki::Kumiki::new(pair)?, pair),
        "kumiki/bound" => forker(fork::kumiki::Kumiki::bound(pair)?, pair),
        "kumiki/team" => forker(fork::team::KumikiTeam::new(pair)?, pair),
        "sequential" => forker(fork::sequential::Sequential, pair),
        "pthread" => forker(fork::pthread::Pthread::new(pair)?, pair),
        "std_scope" => forker(fork::std_scope::StdScope::new(pair)?, pair),
        "crossbeam_scope" => forker(fork::crossbeam::CrossbeamScope::new(pair)?, pair),
        "rayon_join" => forker(fork::rayon::RayonJoin::new(pair)?, pair),
        "rayon_scope" => forker(fork::rayon::RayonScope::new(pair)?, pair),
        "tokio" => forker(fork::tokio::Tokio::new(pair)?, pair),
        "futex" => forker(fork::futex::Futex::new(pair)?, pair),
        "park" => forker(fork::park::Park::new(pair)?, pair),
        #[cfg(feature = "peers")]
        "forkunion" => forker(fork::forkunion::ForkUnion::new(pair)?, pair),
        #[cfg(highway)]
        "highway" => forker(fork::highway::Highway::new(pair), pair),
        #[cfg(feature = "peers")]
        "onetbb" => fork::onetbb::inside(pair, |subject| forker(subject, pair)),
        "nbody:kumiki" => looper(nbody::kumiki::Broadcast::new(pair)?, pair),
        "nbody:kumiki/for_each" => looper(nbody::kumiki::ForEach::new(pair)?, pair),
        "nbody:kumiki/barrier" => looper(nbody::kumiki::Met::new(pair)?, pair),
        "nbody:rayon" => looper(nbody::rayon::Divided::new(pair)?, pair),
        "nbody:rayon/halves" => looper(nbody::rayon::Halves::new(pair)?, pair),
        "nbody:sequential" => looper(nbody::Sequential, pair),
        #[cfg(feature = "peers")]
        "nbody:forkunion/static" => looper(nbody::forkunion::Static::new(pair)?, pair),
        #[cfg(feature = "peers")]
        "nbody:forkunion/dynamic" => looper(nbody::forkunion::Dynamic::new(pair)?, pair),
        #[cfg(feature = "peers")]
        "nbody:openmp/static" => looper(nbody::openmp::Static, pair),
        #[cfg(feature = "peers")]
        "nbody:openmp/dynamic" => looper(nbody::openmp::Dynamic, pair),
        #[cfg(feature = "peers")]
        "nbody:openmp/barrier" => looper(nbody::openmp::Met, pair),
        "first:kumiki" => {
            let shadow = fork::kumiki::shadow(pair)?;
            copier(Kumiki::unprepared(shadow, || Method::Auto), arena)
        }
        "first:libc" | "copy:libc" => copier(copy::libc::Libc, arena),
        "copy:nontemporal_1t" => copier(copy::nontemporal::NonTemporal, arena),
        "copy:nontemporal_2t" => copier(copy::nontemporal::TwoThreads::new(pair)?, arena),
        "copy:kumiki/memcpy" => copier(copy::kumiki::Memcpy(fork::kumiki::shadow(pair)?), arena),
        _ => {
            let method = subject.strip_prefix("copy:").and_then(copy::kumiki::method);
            let Some((method, awake_from)) = method else {
                bail!("there is no subject {subject:?} in this build")
            };
            let shadow = fork::kumiki::shadow(pair)?;
            match method {
                Method::Auto => copier(Kumiki::new(shadow, || Method::Auto, awake_from), arena),
                other => copier(Kumiki::new(shadow, move || other, awake_from), arena),
            }
        }
    }
}

fn forker<S: Fork>(mut subject: S, pair: Pair) -> Result<()> {
    fork::check(&mut subject, pair)?;
    let mut forker = Forker::new(subject);
    turns(|request| Ok(forker.answer(request)))
}

fn looper<S: Loops>(subject: S, pair: Pair) -> Result<()> {
    let mut looper = Looper::new(subject, pair);
    turns(|request| looper.answer(request))
}

fn copier<S: copy::Copy>(subject: S, arena: &Path) -> Result<()> {
    let mut copier = Copier::new(subject, Arena::open(arena)?);
    turns(|request| Ok(copier.answer(request)))
}
