//! `kumiki report`: the page is written, or what was there stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Home, entries, skip};
use predicates::prelude::*;

#[test]
fn a_page_about_stored_results() {
    let home = Home::measured("mine");
    let host = home.json(&["results", "show", "--json"])["machine"]["hostname"].clone();
    home.kumiki(&["report", "latest", "--output", "page.html"])
        .assert()
        .success()
        .stdout(predicate::str::contains(format!("Page: {}", home.path("page.html").display())))
        .stdout(predicate::str::contains("result 1 (mine): "))
        .stderr("");
    let page = fs::read_to_string(home.path("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains(host.as_str().unwrap()) && page.contains("entry.getppid"));

    // A default name, several results, and a file among them.
    home.prints(&["results", "export", "-o", "other.json"]);
    home.prints(&["report", "latest", "other.json"]);
    assert!(home.path("kumiki-report.html").is_file());
    // To a pipe.
    let piped = home.kumiki(&["report", "1", "--output", "/dev/stdout"]).assert().success();
    let piped = piped.get_output();
    assert!(piped.stdout.trim_ascii_end().ends_with(b"</html>"), "the page and nothing else");
    assert!(String::from_utf8_lossy(&piped.stderr).contains("result 1 (mine): "));
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
        &["report", "-o", "former.html", "--cpu-list", "99999"],
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
    home.refuses(&["report", "latest", "--sizes", "64K"], &["--sizes"]);
    home.refuses(&["report", "latest", "fork"], &["\"latest\"", "\"fork\"", "--results"]);
    home.refuses(&["report", "--results", "latest", "--quick"], &["--results", "--quick"]);
    home.refuses(&["report", "fork", "--results", "latest"], &["--results"]);
}

/// Words that are no result choose what is measured, as `kumiki measure` does.
#[test]
fn a_selection_is_measured_and_reported() {
    let home = Home::new();
    let answer = home.prints(&["report", "entry.", "--quick", "--time", "1"]);
    assert!(answer.contains("entry.invalid") && answer.contains("result 1: "), "{answer}");
    assert!((4..=24).contains(&answer.lines().count()), "{answer}");
    let page = fs::read_to_string(home.path("kumiki-report.html")).unwrap();
    assert!(page.contains("entry.getppid") && !page.contains("process.fork"));
    home.refuses(&["report", "process.frok"], &["\"process.frok\"", "process.fork,"]);
    assert_eq!(home.runs().len(), 1);
}

#[test]
fn a_result_is_reported_by_its_label() {
    let home = Home::measured("nightly");
    home.refuses(&["report", "nightly"], &["no case", "kumiki report --results nightly"]);
    let answer = home.prints(&["report", "--results", "nightly", "latest"]);
    assert!(answer.contains("result 1 (nightly): "), "{answer}");
    assert_eq!(home.runs().len(), 1, "nothing was measured");
}

/// Processes that do nothing but use the cpus, until it is dropped.
struct Busy(Vec<std::process::Child>);

impl Busy {
    fn on_every_cpu() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let busy = |_| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Busy((0..cpus).map(busy).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn beside_busy_processes_the_page_claims_nothing_and_says_why() {
    let home = Home::new();
    let busy = Busy::on_every_cpu();
    home.prints(&["measure", "entry.", "--quick", "--time", "2"]);
    drop(busy);
    let result = home.json(&["results", "show", "--json"]);
    let rows = result["rows"].as_array().unwrap();
    let disturbed = rows.iter().filter(|row| row["disturbed"] == true).count();
    assert!(2 * disturbed > rows.len(), "{disturbed} of {} rows", rows.len());
    home.prints(&["report", "latest", "--output", "page.html"]);
    let page = fs::read_to_string(home.path("page.html")).unwrap();
    // No grade but that it is unclear, and the first advice says so.
    for grade in ["good", "usual", "bad"] {
        assert!(!page.contains(&format!("class=\"pill {grade}\" title")), "{grade}");
    }
    assert!(page.contains("class=\"pill unclear\" title"), "a grade is asked for");
    assert!(page.contains("so nothing here is graded"));
}
