//! `--db`: whatever a person points it at is used or refused, and never harmed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Home, MEASURE, entries, skip};

/// Every verb that opens a database refuses this one with a message that has
/// these parts, and leaves its bytes alone.
fn refused(home: &Home, path: &Path, parts: &[&str]) {
    let db = path.to_str().unwrap();
    // The folder is what is wrong in some cases.
    let folder = path.parent().unwrap().to_str().unwrap();
    let before = fs::read(path).ok();
    let verbs: [&[&str]; 5] = [
        &MEASURE,
        &["results", "ls"],
        &["results", "rm", "1"],
        &["compare", "1", "1"],
        &["report", "latest", "--output", "page.html"],
    ];
    for verb in verbs {
        home.refuses(&[verb, &["--db", db]].concat(), &[&[folder, "--db"], parts].concat());
    }
    assert!(fs::read(path).ok() == before, "{db} is left as it was");
    assert!(!home.path("page.html").exists());
}

#[test]
fn other_files_are_refused() {
    let home = Home::new();
    let noise: Vec<u8> =
        (0..9000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    refused(&home, &home.write("noise.db", noise), &["not an SQLite database"]);
    refused(&home, &home.write("text.db", "dear diary"), &["not an SQLite database"]);
    refused(&home, Path::new("/dev/null"), &["not a regular file"]);
    let foreign = home.path("foreign.db");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE birds (name TEXT)").unwrap();
    drop(connection);
    refused(&home, &foreign, &["another program"]);
}

#[test]
fn places_that_take_no_database_are_refused() {
    let home = Home::new();
    refused(&home, &home.path("tmp"), &["is a directory"]);
    refused(&home, Path::new("/proc/kumiki/results.db"), &["/proc/kumiki"]);
    let file = home.write("file", "");
    refused(&home, &file.join("results.db"), &["Not a directory"]);
}

#[test]
fn a_folder_without_write_permission_is_refused() {
    if rustix::process::geteuid().is_root() {
        return skip("root may write everywhere");
    }
    let home = Home::measured("kept");
    let database = home.path("data/kumiki/results.db");
    fs::set_permissions(&database, fs::Permissions::from_mode(0o400)).unwrap();
    refused(&home, &database, &["not writable"]);
    fs::create_dir(home.path("locked")).unwrap();
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    refused(&home, &home.path("locked/new.db"), &["locked/new.db"]);
    refused(&home, &home.path("locked/folder/new.db"), &["locked/folder"]);
}

#[test]
fn a_newer_schema_is_refused() {
    let home = Home::measured("kept");
    let database = home.path("data/kumiki/results.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    refused(&home, &database, &["schema 99", "knows schema 1", "update Kumiki"]);
}

/// Cut anywhere it is refused or, if nothing that is needed is missing, read.
#[test]
fn a_cut_database_is_refused_and_left_as_it_is() {
    let home = Home::measured("kept");
    let whole = fs::read(home.path("data/kumiki/results.db")).unwrap();
    let cut = home.write("cut.db", &whole[..whole.len() / 2]);
    for verb in [&["results", "show", "1"][..], &["compare", "1", "1"], &["report", "1"]] {
        let args = [verb, &["--db", "cut.db"]].concat();
        home.refuses(&args, &["cut.db", "damaged", "--db", ".recover"]);
    }
    assert!(fs::read(cut).unwrap() == whole[..whole.len() / 2]);
    // The header alone, and a page in the middle overwritten.
    home.write("header.db", &whole[..100]);
    home.refuses(&["results", "ls", "--db", "header.db"], &["header.db", "--db"]);
    let mut scribbled = whole.clone();
    scribbled[whole.len() / 2..whole.len() / 2 + 4096].fill(0x5a);
    home.write("scribbled.db", &scribbled);
    let shown = home.kumiki(&["results", "show", "1", "--db", "scribbled.db"]).output().unwrap();
    let message = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success() || message.contains("damaged"), "{message}");
}

#[test]
fn a_database_is_made_where_it_is_asked_for() {
    let home = Home::new();
    home.prints(&[&MEASURE[..], &["--db", "a folder/of mine?mode=ro.db"]].concat());
    assert!(home.path("a folder/of mine?mode=ro.db").is_file());
    assert!(!home.path("data").exists());
    assert!(entries(&home.path("a folder")).len() == 1, "closed, its log is gone");
}

#[test]
fn two_measure_at_once() {
    let home = Home::new();
    let run = |label| home.spawn(&[&MEASURE[..], &["--label", label]].concat());
    for child in [run("left"), run("right")] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let list = home.runs();
    let [a, b] = list.as_slice() else { panic!("{list:?}") };
    for run in [a, b] {
        assert_eq!(run["run"]["complete"], true);
        assert!(run["rows"].as_u64().unwrap() > 0);
    }
    assert_ne!(a["run"]["label"], b["run"]["label"]);
}
