//! Servers and async programs: calls that are tried first, beside plain ones, tokio's and
//! io_uring's, static files beside nginx, keys beside redis and memcached, and RocksDB's MultiGet.

mod calls;
mod client;
#[cfg(feature = "peers")]
mod confined;
mod file_servers;
mod folder;
mod kv;
mod multiget;
mod plain;
mod program;
mod ranges;
mod turns;
#[cfg(feature = "peers")]
mod uring;
mod web;

use anyhow::{Result, ensure};
use kumiki_measure::bench::Row;

#[cfg(feature = "peers")]
pub(crate) use confined::execute as execute_confined;
pub(crate) use plain::{serve as serve_plainly, serve_by_threads};
#[cfg(feature = "peers")]
pub(crate) use uring::serve as serve_by_uring;

use crate::pair::Pair;

/// Word by which the program serves files plainly.
pub(crate) const PLAIN: &str = "plain-server";
/// Word by which it does so by threads that wait.
pub(crate) const THREADS: &str = "threads-server";
/// Word by which it becomes another program under a filter as of a container.
pub(crate) const CONFINED: &str = "confined";
/// Words by which it does so by io_uring: trying first, and not.
pub(crate) const URING: [&str; 2] = ["uring-server", "uring-server-untried"];

/// Names of cases that are measured together, and by whom.
type Cases = (&'static [&'static str], fn(Pair) -> Result<Vec<Row>>);

/// The cases, in the order in which they are measured.
const CASES: [Cases; 8] = [
    (&["submit_cached"], calls::submit),
    (&["tokio_read_at"], calls::read_at),
    (&["tokio_ranges"], ranges::rows),
    (&["web_warm_cpu"], web::warm),
    (&["web_mix_hot_p99", "web_mix_cold_rate"], web::mix),
    (&["web_mix_hot_p99_busy"], web::busy),
    (&kv::CASES, kv::rows),
    (&["rocksdb_multiget_direct", "rocksdb_multiget_warm"], multiget::rows),
];

/// Measures all, or the cases in `only` if it names some.
pub(crate) fn rows(pair: Pair, only: &[&str]) -> Result<Vec<Row>> {
    let known = |name: &&str| CASES.iter().any(|(names, _)| names.contains(name));
    ensure!(only.iter().all(known), "the bench servers has no such case: {only:?}");
    let mut rows = Vec::new();
    for (names, measure) in CASES {
        if only.is_empty() || names.iter().any(|name| only.contains(name)) {
            eprintln!("{}", names.join(", "));
            rows.extend(measure(pair)?);
        }
    }
    Ok(rows)
}
