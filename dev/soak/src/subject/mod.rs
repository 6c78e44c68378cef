//! What can be run, each with its clients and its faults.

mod aio;
mod completions;
mod httpd;
mod kv;
mod node;
mod place;
mod rocksdb;
mod spawn;
mod tokio;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::ground::Ground;
use crate::soak::Soak;

/// Everything that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Children in an asyncio loop, by `kumiki.aio`
    Aio,
    /// `kumiki-httpd`, and clients that read, leave, and cut connections
    Httpd,
    /// `kumiki-kv`, and clients that know what their keys hold
    Kv,
    /// `kumiki-kv` with `--durable`, on a disk that is full at times
    #[value(name = "kv_durable")]
    KvDurable,
    /// An OS node in a machine of the lab
    Node,
    /// A place of another process, and calls of which each runs once at most
    Place,
    /// Databases of RocksDB by `kumiki://`, and by its own file system
    Rocksdb,
    /// Children, made by threads and by spawn servers
    Spawn,
    /// Files in tokio tasks, by `kumiki-tokio`
    Tokio,
    /// Requests of `kumiki-parasc` in loops that have one descriptor to go by
    Completions,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Aio => "aio",
            Subject::Httpd => "httpd",
            Subject::Kv => "kv",
            Subject::KvDurable => "kv_durable",
            Subject::Node => "node",
            Subject::Place => "place",
            Subject::Rocksdb => "rocksdb",
            Subject::Spawn => "spawn",
            Subject::Tokio => "tokio",
            Subject::Completions => "completions",
        }
    }

    /// Builds what it needs, which takes none of its time; whether it can run here.
    pub(crate) fn prepare(self, ground: &Ground) -> Result<bool> {
        match self {
            Subject::Aio => aio::prepare(ground.within()),
            Subject::Node => node::prepare(),
            Subject::Rocksdb => rocksdb::prepare(ground.within()),
            _ => Ok(true),
        }
    }

    /// Runs it, until the run is over.
    pub(crate) fn soak(self, soak: &'static Soak, ground: &Ground) -> Result<()> {
        match self {
            Subject::Httpd => httpd::soak(soak, ground),
            Subject::Aio => aio::soak(soak, ground.within()),
            Subject::Kv => kv::soak(soak, None),
            Subject::KvDurable => kv::soak(soak, Some(ground)),
            Subject::Node => node::soak(soak),
            Subject::Place => place::soak(soak, ground),
            Subject::Rocksdb => rocksdb::soak(soak, ground),
            Subject::Spawn => spawn::soak(soak),
            Subject::Tokio => tokio::soak(soak, ground),
            Subject::Completions => completions::soak(soak, ground),
        }
    }

    /// Is the server, in a process of its own; `words` are those of its command line.
    pub(crate) fn serve(self, words: &[String]) -> Result<()> {
        match self {
            Subject::Httpd => httpd::serve(words),
            Subject::Kv => kv::serve(words),
            Subject::Place => place::serve(words),
            _ => bail!("{} has no server", self.name()),
        }
    }
}
