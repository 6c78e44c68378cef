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
    let name = below_criterion(path);
    let runs = formats::runs(&text, &name).map_err(failed)?;
    match runs.is_empty() {
        true => Err(failed("it has no time of any run".to_owned())),
        false => Ok(runs),
    }
}

/// The benchmark's name of a file of criterion's: the folders between `criterion` and `new/sample.json`.
fn below_criterion(path: &Path) -> String {
    let Some(folder) = path.ancestors().nth(2) else { return String::new() };
    let words: Vec<_> = folder.iter().map(|word| word.to_string_lossy()).collect();
    let begin = match words.iter().rposition(|word| word == "criterion") {
        Some(at) => at + 1,
        None => words.len().saturating_sub(1),
    };
    words[begin..].join("/")
}

/// Runs in the files of one side.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// Time of each process by the benchmark's name.
    pub runs: Runs,
    /// Runs that failed and are left out.
    pub failed: usize,
}

/// Reads the files of one side, each of other processes.
///
/// # Errors
/// As [`read`]; and two files of hyperfine that are of different commands: a side is one.
pub fn read_side<P: AsRef<Path>>(paths: &[P]) -> Result<Timed> {
    let mut all = Timed::default();
    let mut command: Option<String> = None;
    for path in paths.iter().map(AsRef::as_ref) {
        for (name, times) in read(path)? {
            all.runs.entry(name).or_default().extend(times);
        }
        let failed = |why: String| Error::File { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
        let Some((own, left_out)) = formats::command(&text) else { continue };
        all.failed += left_out;
        match &command {
            Some(first) if *first != own => {
                let why = format!(
                    "it has timed {own:?}, the first file of this side {first:?}: a side is one command"
                );
                return Err(failed(why));
            }
            _ => command = Some(own),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_side_is_one_command_and_failed_runs_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let of = |command: &str| {
            format!(
                r#"{{"results":[{{"command":"{command}","times":[1.0,2.0],"exit_codes":[0,1]}}]}}"#
            )
        };
        let sort = file(folder.path(), "sort.json", &of("sort"));
        let again = file(folder.path(), "again.json", &of("sort"));
        let grep = file(folder.path(), "grep.json", &of("grep"));
        let side = read_side(&[&sort, &again]).unwrap();
        assert_eq!((side.runs[""].len(), side.failed), (2, 2));
        let error = read_side(&[&sort, &grep]).unwrap_err().to_string();
        assert!(error.contains("grep.json") && error.contains("a side is one command"), "{error}");
    }

    /// Two groups may have a benchmark of one name.
    #[test]
    fn benchmarks_of_criterion_have_the_names_of_all_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"iters":[1],"times":[10]}"#;
        let files = ["rec", "iter"].map(|group| {
            file(folder.path(), &format!("target/criterion/g/{group}/20/new/sample.json"), text)
        });
        let side = read_side(&files).unwrap();
        assert_eq!(side.runs.keys().collect::<Vec<_>>(), ["g/rec/20", "g/iter/20"]);
        let elsewhere = file(folder.path(), "kept/fib/new/sample.json", text);
        assert_eq!(read_side(&[elsewhere]).unwrap().runs.keys().collect::<Vec<_>>(), ["fib"]);
    }
}
