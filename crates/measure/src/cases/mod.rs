//! The operating system's own cases. A case is named `part.operation` and,
//! where several ways do the same, `part.operation.way`.

use crate::case::{Case, Choice, Level};

mod child;
mod entry;
mod file;
mod ipc;
mod mapping;
mod memory;
mod other_end;
mod process;
mod signal;
mod sweep;
mod thread;

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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
}
