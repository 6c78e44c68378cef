//! Servers and async programs beside nginx, redis, memcached, tokio and io_uring, measured by
//! `dev/bench/`, and what they promise of it.

use std::fs;

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, Must, promises};
use crate::capi::{self, Place};
use crate::debian;
use crate::run::{cargo, program, run, target_folder};

/// Measures every subject, or these cases; with `judge` says whether the promises hold.
pub(super) fn servers(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-servers")?;
    // Not among the programs of all benches, whose features it would change.
    for server in ["kumiki-httpd", "kumiki-kv"] {
        run(&mut cargo(&format!("build --profile dist --locked --package {server}")))?;
    }
    if cases.is_empty() || cases.iter().any(|case| case.starts_with("rocksdb_")) {
        rocksdb()?;
    }
    let mut outcome = measured("servers", cases)?;
    if judge {
        outcome.musts = musts(&Figures(&outcome.rows));
    }
    Ok(outcome)
}

/// Builds the file system for RocksDB, and the program that measures it, beside the bench's own.
fn rocksdb() -> Result<()> {
    let built = target_folder()?.join("dist");
    let prefix = built.join("rocksdb-capi");
    capi::install(&Place { staging: None, prefix: prefix.clone(), libdir: None }, "dist")?;
    let mut make = program("make", ["-C", "apps/rocksdb", "-j2"]);
    make.arg(format!("BUILD={}", built.join("rocksdb").display()));
    run(make.arg(format!("KUMIKI={}", prefix.display())))?;
    let library = "libkumiki-rocksdb.so";
    fs::copy(built.join("rocksdb").join(library), built.join(library))?;
    let mut compiler = program("g++", ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.args(["dev/bench/rocksdb/multiget.cc", "dev/bench/rocksdb/io_uring.cc", "-o"]);
    compiler.arg(built.join("rocksdb-multiget"));
    run(compiler.args(["-lrocksdb", "-luring", "-pthread"]))
}

fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("servers", figures)
}

#[cfg(test)]
mod tests {
    use super::super::judge::KUMIKI;
    use super::super::sample::{broken, row};
    use super::*;

    const HOT: &str = "web_mix_hot_p99";
    const COLD: &str = "web_mix_cold_rate";
    const WARM: &str = "web_warm_cpu";

    #[test]
    fn the_best_nginx_counts_and_what_is_missing_is_broken() {
        let mut rows = vec![
            row(HOT, KUMIKI, 1, 40.0),
            row(HOT, "nginx", 1, 100.0),
            row(HOT, "nginx/aio", 1, 90.0),
            row(HOT, "io_uring", 1, 35.0),
            row(COLD, KUMIKI, 1, 140.0),
            row(COLD, "nginx", 1, 50.0),
            row(COLD, "nginx/aio", 1, 100.0),
            row(WARM, KUMIKI, 1, 10.0),
            row(WARM, "plain", 1, 10.0),
            row(WARM, "nginx", 1, 12.0),
            row(WARM, "nginx/cache", 1, 9.6),
            row("submit_cached", KUMIKI, 4096, 12.0),
            row("submit_cached", "plain", 4096, 10.0),
            row("tokio_read_at", KUMIKI, 4096, 12.0),
            row("tokio_read_at", "plain", 4096, 10.0),
            row("tokio_read_at", "tokio_fs", 4096, 100.0),
            row("tokio_ranges", KUMIKI, 20_000, 10.0),
            row("tokio_ranges", "tokio_blocking", 20_000, 30.0),
            row("tokio_ranges", "io_uring", 20_000, 9.0),
            row("rocksdb_multiget_direct", KUMIKI, 64, 30.0),
            row("rocksdb_multiget_direct", "posix", 64, 100.0),
            row("rocksdb_multiget_direct", "io_uring", 64, 26.0),
            row("rocksdb_multiget_warm", KUMIKI, 64, 10.2),
            row("rocksdb_multiget_warm", "posix", 64, 10.0),
        ];
        for busy in [1, 2, 4] {
            rows.push(row("web_mix_hot_p99_busy", KUMIKI, busy, 10.0));
            rows.push(row("web_mix_hot_p99_busy", "nginx", busy, 9.5));
        }
        for case in ["kv_get", "kv_set"] {
            for (subject, rate, p99) in
                [(KUMIKI, 10.0, 9.0), ("redis", 9.0, 10.0), ("memcached", 10.0, 9.0)]
            {
                rows.push(row(case, subject, 16, rate));
                rows.push(row(&format!("{case}_p99"), subject, 16, p99));
            }
        }
        assert!(broken(musts(&Figures(&rows))).is_empty());
        rows[6].median = 120.0;
        let faults = broken(musts(&Figures(&rows)));
        assert!(faults.len() == 1 && faults[0].contains("cold files a second"), "{faults:?}");
        rows.retain(|row| row.subject != "io_uring");
        assert_eq!(broken(musts(&Figures(&rows))).len(), 4);
    }
}
