//! Databases on `kumiki://`, in programs that were built without it: ours and RocksDB's own.

mod built;
mod crash;
mod tools;

use built::{compiled, folder, well, with_library};

#[test]
fn a_database_has_what_was_put_into_it() {
    let folder = folder();
    well(with_library(compiled("database")).arg(folder.path()));
}

#[test]
fn files_end_and_fail_as_rocksdbs_own_do() {
    let folder = folder();
    well(with_library(compiled("files")).arg(folder.path()));
}
