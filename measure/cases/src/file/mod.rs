//! Files: their names, their contents, their way to the disk.
//!
//! All on the file system of [`Place::scratch`](kumiki_measure::case::Place), with the
//! contents in the page cache.

use kumiki_measure::case::{Case, Choice};

mod contents;
mod descriptor;
mod durable;
mod folder;
mod listing;
mod names;
mod status;
mod warm;

pub(super) use warm::warm_file;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = names::cases();
    cases.extend(status::cases());
    cases.extend(listing::cases());
    cases.extend(contents::cases(choice));
    cases.extend(durable::cases());
    cases.extend(descriptor::cases());
    cases.into_iter().map(Case::apart).collect()
}
