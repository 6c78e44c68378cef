//! Debian's db_bench and ldb, as they are.

use std::process::Command;

use crate::built::{folder, well, with_library};

/// What the reading benchmarks have found, `(1982 of 1984 found)` each.
fn found(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_suffix(" found)")?.rsplit('(').next()).collect()
}

#[test]
fn db_bench_runs_unchanged() {
    let folder = folder();
    let bench = |uri: &str, words: &[&str]| {
        let mut bench = with_library("db_bench");
        bench.arg(format!("--db={}", folder.path().display())).arg(format!("--fs_uri={uri}"));
        bench.args(["--num=20000", "--value_size=400", "--seed=1", "--cache_size=65536"]);
        bench.args(["--bytes_per_sync=65536", "--wal_bytes_per_sync=65536"]);
        well(bench.args(words))
    };
    bench("kumiki://", &["--benchmarks=fillseq,overwrite,compact", "--threads=2"]);
    for direct in ["--use_direct_reads=false", "--use_direct_reads=true"] {
        let read = |uri| {
            let words = ["--use_existing_db", "--multiread_batched", "--batch_size=64", direct];
            let more = ["--async_io", "--reads=2000", "--threads=2"];
            let names = ["--benchmarks=multireadrandom,readrandom,seekrandom,readseq"];
            bench(uri, &[&words[..], &more, &names].concat())
        };
        let (ours, theirs) = (read("kumiki://"), read("posix://"));
        assert_eq!(found(&ours), found(&theirs));
        assert!(found(&ours).len() == 3 && ours.contains("readseq  "), "{ours}");
    }
}

#[test]
fn ldb_reads_back_what_it_has_written() {
    let folder = folder();
    let ldb = |words: &[&str]| {
        let mut ldb = with_library("ldb");
        ldb.arg(format!("--db={}", folder.path().display())).arg("--fs_uri=kumiki://");
        well(ldb.args(words))
    };
    ldb(&["put", "--create_if_missing", "joinery", "kumiki"]);
    assert_eq!(ldb(&["get", "joinery"]).trim(), "kumiki");
}

/// That it is this library that knows the name.
#[test]
fn without_the_library_the_name_is_unknown() {
    let folder = folder();
    let mut bench = Command::new("db_bench");
    bench.arg(format!("--db={}", folder.path().display())).arg("--fs_uri=kumiki://");
    let output = bench.args(["--benchmarks=fillseq", "--num=10"]).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}
