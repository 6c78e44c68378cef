//! `kumiki report`: the page is written, or what was there stays.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Home, entries, skip};
use predicates::prelude::*;

#[test]
fn a_page_about_stored_results() {
    let home = Home::measured("mine");
    let host = home.json(&["results", "show", "--json"])["machine"]["hostname"].clone();
    home.kumiki(&["report", "latest", "--output", "page.html"])
        .assert()
        .success()
        .stdout("")
        .stderr(predicate::str::contains("wrote").and(predicate::str::contains("page.html")));
    let page = fs::read_to_string(home.path("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains(host.as_str().unwrap()) && page.contains("entry.getppid"));

    // A default name, several results, and a file among them.
    home.prints(&["results", "export", "-o", "other.json"]);
    home.prints(&["report", "latest", "other.json"]);
    assert!(home.path("kumiki-report.html").is_file());
    // To a pipe.
    let piped = home.prints(&["report", "1", "--output", "/dev/stdout"]);
    assert!(piped.contains("</html>"));
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_measuring() {
    let home = Home::new();
    for output in ["missing/page.html", "tmp", "/proc/page.html"] {
        let parts = [output, "cannot be written", "--output"];
        home.refuses(&["report", "--quick", "--output", output], &parts);
    }
    assert!(!home.path("data").exists(), "refused before a database is made");
    if rustix::process::geteuid().is_root() {
        return skip("the rest: root may write everywhere");
    }
    fs::create_dir(home.path("locked")).unwrap();
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    let page = "locked/page.html";
    home.refuses(&["report", "--output", page], &[page, "permission denied"]);
    let former = home.write("former.html", "former");
    fs::set_permissions(&former, fs::Permissions::from_mode(0o400)).unwrap();
    home.refuses(&["report", "--output", "former.html"], &["former.html", "Permission denied"]);
    assert_eq!(fs::read(&former).unwrap(), b"former");
}

#[test]
fn a_former_page_stays_if_there_is_no_new_one() {
    let home = Home::new();
    let former = home.write("former.html", "former");
    for args in [
        &["report", "nothing", "-o", "former.html"][..],
        &["report", "--with", "nothing", "-o", "former.html"],
        &["report", "-o", "former.html", "--cpus", "99999"],
        &["report", "-o", "former.html", "--scratch", "/nowhere"],
        &["report", "-o", "former.html", "--db", "/dev/null"],
    ] {
        home.fails(args);
        assert_eq!(fs::read(&former).unwrap(), b"former", "{args:?}");
    }
    assert!(entries(&home.path("")).iter().all(|name| !name.starts_with(".kumiki")));
}

#[test]
fn choices_that_exclude_each_other() {
    let home = Home::new();
    home.refuses(&["report", "latest", "--quick"], &["--quick"]);
    home.refuses(&["report", "latest", "--with", "1"], &["--with"]);
    home.refuses(&["report", "latest", "--label", "x"], &["--label"]);
}
