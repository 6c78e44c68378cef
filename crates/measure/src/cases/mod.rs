//! The operating system's own cases. A case is named `part.operation` and,
//! where several ways do the same, `part.operation.way`.

use crate::case::{Case, Choice, Level};

mod entry;
mod file;
mod ipc;
mod memory;
mod process;
mod signal;
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
