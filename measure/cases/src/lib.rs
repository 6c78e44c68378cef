//! The operating system's own cases. A case is named `part.operation` and,
//! where several ways do the same, `part.operation.way`.
//!
//! ```
//! use kumiki_cases::catalogue;
//! use kumiki_measure::case::{Choice, Level};
//!
//! let quick = catalogue(&Choice { level: Some(Level::Quick), ..Choice::default() });
//! assert!(quick.iter().any(|case| case.name == "entry.getppid"));
//! ```

use kumiki_measure::case::{Case, Choice, Level};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::schema::Value;

mod child;
mod entry;
mod file;
mod ipc;
mod mapping;
mod mask;
mod memory;
mod other_end;
mod process;
mod program;
mod shared;
mod signal;
mod sweep;
mod thread;
pub mod ways;

/// Every case that `choice` includes, in the order of the catalogue.
pub fn catalogue(choice: &Choice) -> Vec<Case> {
    let level = choice.level.unwrap_or(Level::Full);
    let parts = [
        process::cases,
        memory::cases,
        signal::cases,
        file::cases,
        ipc::cases,
        thread::cases,
        entry::cases,
    ];
    let cases = parts.iter().flat_map(|part| part(choice));
    cases.filter(|case| case.level <= level).collect()
}

/// Checks that sizes a person chose can work here, before long work starts.
///
/// # Errors
/// A size beyond half of the memory that is available (a case may need its
/// size twice: itself and a copy), or a stack beyond the hard limit.
pub fn check(cases: &[Case]) -> Result<()> {
    let available = program::available_memory().unwrap_or(u64::MAX);
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).maximum;
    for case in cases {
        for (name, value) in &case.params {
            let &Value::Number(bytes) = value else { continue };
            if name.ends_with("bytes") && bytes > available / 2 {
                return Err(Error::Invalid(format!(
                    "{} with {name}={bytes}: of {available} bytes of memory available here a case \
                     may use half; choose a smaller --sizes",
                    case.name
                )));
            }
            if name == "stack_bytes" && bytes > stack.unwrap_or(u64::MAX) {
                return Err(Error::Invalid(format!(
                    "{} with {name}={bytes}: the hard limit of the stack is {} bytes; raise it \
                     (`ulimit -Hs`, limits.conf(5)) or choose a smaller --sizes",
                    case.name,
                    stack.unwrap_or(u64::MAX)
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use kumiki_measure::case::Place;

    fn title(case: &Case) -> String {
        format!("{} {:?}", case.name, case.params)
    }

    #[test]
    fn a_name_and_its_parameters_are_one_row() {
        let mut seen = HashSet::new();
        for case in catalogue(&Choice { level: Some(Level::Full), ..Choice::default() }) {
            assert!(seen.insert(title(&case)), "twice: {}", title(&case));
            assert!(!case.about.is_empty() && !case.about.contains('\n'), "{}", title(&case));
        }
    }

    #[test]
    fn a_shorter_run_is_part_of_a_longer_one() {
        let rows = |level| -> Vec<String> {
            catalogue(&Choice { level: Some(level), ..Choice::default() })
                .iter()
                .map(title)
                .collect()
        };
        let (quick, default) = (rows(Level::Quick), rows(Level::Default));
        assert!(quick.len() < default.len());
        assert!(quick.iter().all(|row| default.contains(row)));
    }

    #[test]
    fn chosen_sizes_replace_those_of_every_sweep() {
        let choice = Choice { level: Some(Level::Quick), sizes: Some(vec![12_288]) };
        for case in catalogue(&choice) {
            let swept = ["memory.", "file."].iter().any(|part| case.name.starts_with(part));
            if let (true, Some(bytes)) = (swept, case.params.get("bytes")) {
                assert_eq!(bytes, &12_288_u64.into(), "{}", title(&case));
            }
        }
    }

    #[test]
    fn without_a_second_cpu_what_needs_one_is_skipped_by_type() {
        let place = Place { cpu: 0, partner: None, scratch: std::env::temp_dir() };
        let choice = Choice { level: Some(Level::Full), ..Choice::default() };
        let pairs: Vec<_> = catalogue(&choice).into_iter().filter(|case| case.two_cpus).collect();
        for case in &pairs {
            match (case.setup)(&place) {
                Err(Error::Unsupported { feature, needs }) => {
                    assert_eq!(feature, "a second cpu", "{}", title(case));
                    assert!(needs.contains("at least two"), "{}: {needs}", title(case));
                }
                Err(error) => panic!("{}: {error}", title(case)),
                Ok(_) => panic!("{} runs on one", title(case)),
            }
        }
        // Every part that has a case of two ends.
        for part in ["ipc.", "thread.", "signal."] {
            assert!(pairs.iter().any(|case| case.name.starts_with(part)), "{part}");
        }
    }

    #[test]
    fn a_size_beyond_memory_is_refused_before_it_is_tried() {
        let choice = Choice { level: Some(Level::Quick), sizes: Some(vec![1 << 60]) };
        let error = check(&catalogue(&choice)).unwrap_err().to_string();
        assert!(error.contains("--sizes") && error.contains(&(1u64 << 60).to_string()), "{error}");
        assert!(check(&catalogue(&Choice { sizes: Some(vec![4096]), ..choice })).is_ok());
    }
}
