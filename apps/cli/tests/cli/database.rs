//! `--db`: whatever a person points it at is used or refused, and never harmed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;

use crate::common::{Home, MEASURE, entries, failure, says, skip, text};

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
    let home = Home::new();
    fs::create_dir(home.path("locked")).unwrap();
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    refused(&home, &home.path("locked/new.db"), &["locked/new.db"]);
    refused(&home, &home.path("locked/folder/new.db"), &["locked/folder"]);
}

/// `kumiki` as somebody whom permissions concern.
fn nobody_special(home: &Home, args: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return home.kumiki(args);
    }
    let without = ["--bounding-set", "-dac_override,-dac_read_search"];
    let kumiki = [env!("CARGO_BIN_EXE_kumiki")];
    Command::from_std(home.run_by("setpriv", &[&without[..], &kumiki, args].concat()))
}

#[test]
fn without_write_permission_a_database_is_read_and_nothing_left_in_the_way() {
    let home = Home::measured("kept");
    let database = home.path("data/kumiki/results.db");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let folder = database.parent().unwrap();
    mode(&database, 0o400);
    for of_folder in [0o700, 0o500] {
        mode(folder, of_folder);
        only_read(|args| nobody_special(&home, args), "Permission denied");
        assert_eq!(entries(folder), ["results.db"]);
    }
    mode(&database, 0o600);
    only_read(|args| nobody_special(&home, args), "its folder: Permission denied");
    mode(folder, 0o700);
    nobody_special(&home, &MEASURE).assert().code(0);
}

/// The database that has the result `kept`, where it cannot be written: whatever
/// reads is answered, and whatever writes says why it cannot.
fn only_read(kumiki: impl Fn(&[&str]) -> Command, why: &str) {
    for args in [&["results", "ls"][..], &["results", "show", "kept"], &["compare", "1", "1"]] {
        let assert = kumiki(args).assert().code(predicates::ord::ne(2));
        assert!(!assert.get_output().stdout.is_empty(), "{args:?}");
    }
    for args in [&MEASURE[..], &["results", "rm", "1"]] {
        says(&failure(&mut kumiki(args)), &["results.db", why, "--db"]);
    }
}

/// `kumiki` with a small file system at `there`, which its own processes alone see
/// and `prepare` (shell) has filled; its database is the one there.
fn behind(home: &Home, prepare: &str, args: &[&str]) -> Command {
    let mount = "mount -t tmpfs -o size=4m kumiki there";
    let script = format!("set -e; {mount}; {prepare}; exec \"$@\"");
    let shell = ["--mount", "--map-root-user", "sh", "-c", &script, "sh"];
    let kumiki = [env!("CARGO_BIN_EXE_kumiki")];
    let mut command = home.run_by("unshare", &[&shell[..], &kumiki, args].concat());
    command.env("XDG_DATA_HOME", home.path("there"));
    Command::from_std(command)
}

/// Whether this process may mount what only it sees.
fn may_mount(home: &Home) -> bool {
    fs::create_dir(home.path("there")).unwrap();
    let may = behind(home, ":", &["--version"]).output().unwrap().status.success();
    if !may {
        skip("no right to mount");
    }
    may
}

const COPY: &str = "cp -r data/kumiki there/kumiki";
const SEAL: &str = "mount -o remount,ro there";

#[test]
fn a_read_only_file_system_keeps_nobody_from_reading() {
    let home = Home::measured("kept");
    if !may_mount(&home) {
        return;
    }
    let (sealed, why) = (format!("{COPY}; {SEAL}"), "Read-only file system");
    only_read(|args| behind(&home, &sealed, args), why);
    // A name that a URI would take for something else.
    let odd = "there/a b?c#d%41&immutable=0.db";
    let named = format!("cp data/kumiki/results.db '{odd}'; {SEAL}");
    let listed = behind(&home, &named, &["results", "ls", "--db", odd]).output().unwrap();
    assert!(text(listed.stdout).contains("kept"));

    // What another process has just written is in its log only.
    let label = |label: &str| format!("UPDATE runs SET run = json_set(run, '$.label', '{label}')");
    let other = rusqlite::Connection::open(home.path("data/kumiki/results.db")).unwrap();
    other.execute_batch(&label("old")).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    other.execute_batch(&label("kept")).unwrap();
    only_read(|args| behind(&home, &sealed, args), why);
    // Without the index of the log it cannot be told, and nothing old is.
    let without = format!("{COPY}; rm there/kumiki/*-shm; {SEAL}");
    let message = failure(&mut behind(&home, &without, &["results", "show", "latest"]));
    says(&message, &["results.db-wal", "not in the database yet", why, "copy both files"]);
}

#[test]
fn a_full_disk_keeps_nobody_from_reading() {
    let home = Home::measured("kept");
    if may_mount(&home) {
        let full = format!("{COPY}; dd if=/dev/zero of=there/rest bs=1k 2>/dev/null || true");
        only_read(|args| behind(&home, &full, args), "file system is full");
    }
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
