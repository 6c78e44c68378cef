//! A subject in a process of its own: ready, then a turn for each request.
//!
//! A process for each, because helpers that spin cannot all be put to rest by
//! their own means: the parent stops the whole process between its turns. And
//! some are tuned by the environment that a process starts with.

use std::io::{self, BufRead, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::copy::{self, Arena, Copier};
use crate::fork::{self, Fork, Forker};
use crate::pair::Pair;
use crate::request::Request;

/// What a child says when it is ready and after each turn: samples, or `None`
/// if the subject has nothing of the kind; else why it cannot go on.
pub(crate) type Reply = Result<Option<Vec<f64>>, String>;

/// Serves as `subject` until the parent closes the pipe.
pub(crate) fn serve(subject: &str, pair: Pair, arena: &Path) -> Result<()> {
    // A stopped process would outlive its parent for ever.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let outcome = begin(subject, pair, arena);
    if let Err(error) = &outcome {
        say(&Err(format!("{error:#}")))?;
    }
    outcome
}

fn begin(subject: &str, pair: Pair, arena: &Path) -> Result<()> {
    if subject.starts_with("openmp") {
        // Its runtime binds the threads, and had to see both cpus to do so.
        #[cfg(feature = "peers")]
        return forker(fork::openmp::OpenMp, pair);
    } else {
        pair.bind_main()?;
    }
    match subject {
        "raw" => {
            let mut raw = fork::raw::Raw::new(pair)?;
            turns(|request| raw.answer(request))
        }
        "kumiki" => forker(fork::kumiki::Kumiki::new(pair)?, pair),
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
        "fork_union" => forker(fork::fork_union::ForkUnion::new(pair)?, pair),
        #[cfg(feature = "peers")]
        "onetbb" => fork::onetbb::inside(pair, |subject| forker(subject, pair)),
        "copy:libc" => copier(copy::libc::Libc, arena),
        "copy:nontemporal_1t" => copier(copy::nontemporal::NonTemporal, arena),
        _ => {
            let method = subject.strip_prefix("copy:").and_then(copy::kumiki::method);
            let Some(method) = method else {
                bail!("there is no subject {subject:?} in this build")
            };
            let shadow = fork::kumiki::shadow(pair)?;
            copier(copy::kumiki::Kumiki { shadow, method }, arena)
        }
    }
}

fn forker<S: Fork>(mut subject: S, pair: Pair) -> Result<()> {
    fork::check(&mut subject, pair)?;
    let mut forker = Forker::new(subject);
    turns(|request| forker.answer(request))
}

fn copier<S: copy::Copy>(subject: S, arena: &Path) -> Result<()> {
    let mut copier = Copier::new(subject, Arena::open(arena)?);
    turns(|request| copier.answer(request))
}

fn turns(mut answer: impl FnMut(Request) -> Option<Vec<f64>>) -> Result<()> {
    say(&Ok(None))?;
    for line in io::stdin().lock().lines() {
        let line = line.context("reading the next request")?;
        let request = serde_json::from_str(&line).with_context(|| format!("request {line:?}"))?;
        say(&Ok(answer(request)))?;
    }
    Ok(())
}

fn say(reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes()).context("answering the parent")
}
