//! Runs that other tools have timed: what may be said of them.
//!
//! Two loops of one process share its pages, its heap and its cpu: they are no independent
//! experiments, however many there are. So what counts is the process. hyperfine times processes and
//! pyperf has several; of the others a file is one, and a verdict takes several files a side.
//!
//! | tool | what is read | a process is |
//! |---|---|---|
//! | hyperfine | `--export-json`: `results[].times`, by version 2 `results[].measurements[].time_wall_clock` | each run |
//! | pyperf | `-o`: `benchmarks[].runs[].values` | each run |
//! | criterion | `target/criterion/NAME/new/sample.json` | a file |
//! | Google Benchmark | `--benchmark_out`: entries of run type `iteration` | a file |
//! | pytest-benchmark | `--benchmark-json`, with or without `--benchmark-save-data` | a file |
//! | Go | what `go test -bench` prints | a file |
//!
//! These sides were run in blocks, not in turns: what moved the machine between them is in the
//! difference, and nothing can take it out ([`Blocks`] says so).

mod blocks;
mod formats;

use std::path::Path;

use indexmap::IndexMap;

pub use blocks::{Blocks, blocks};

use crate::error::{Error, Result};

/// Time of each process, nanoseconds, by the benchmark's name.
pub type Runs = IndexMap<String, Vec<f64>>;

/// Reads the runs of one file.
///
/// # Errors
/// It cannot be read, or is of none of these tools.
pub fn read(path: &Path) -> Result<Runs> {
    let failed = |why: String| Error::File { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    let name = path.ancestors().nth(2).and_then(Path::file_name);
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let runs = formats::runs(&text, &name).map_err(failed)?;
    match runs.is_empty() {
        true => Err(failed("it has no time of any run".to_owned())),
        false => Ok(runs),
    }
}

/// Reads several files, each of other processes.
///
/// # Errors
/// As [`read`].
pub fn read_all<P: AsRef<Path>>(paths: &[P]) -> Result<Runs> {
    let mut all = Runs::new();
    for path in paths {
        for (name, times) in read(path.as_ref())? {
            all.entry(name).or_default().extend(times);
        }
    }
    Ok(all)
}
