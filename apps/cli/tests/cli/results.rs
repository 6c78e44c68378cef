//! `kumiki results`: list, show, export, import, remove.

use std::fs;

use crate::common::{Home, text};
use predicates::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_result_travels_to_another_database_unchanged() {
    let home = Home::measured("travel");
    home.prints(&["results", "export", "travel", "--output", "out.json"]);
    let exported: Value =
        serde_json::from_slice(&fs::read(home.path("out.json")).unwrap()).unwrap();
    home.kumiki(&["results", "import", "out.json", "--db", "second.db"])
        .assert()
        .success()
        .stdout("")
        .stderr(predicate::str::contains("out.json is now result 1"));
    let arrived = home.json(&["results", "export", "latest", "--db", "second.db"]);
    assert_eq!(arrived, exported);
    assert_eq!(home.json(&["results", "show", "out.json", "--json"]), exported);
    // From a pipe as well.
    let piped = home
        .kumiki(&["results", "show", "/dev/stdin", "--json"])
        .write_stdin(serde_json::to_vec(&exported).unwrap())
        .assert()
        .success();
    let piped: Value = serde_json::from_slice(&piped.get_output().stdout).unwrap();
    assert_eq!(piped, exported);
}

#[test]
fn a_result_is_exported_for_other_programs() {
    let home = Home::measured("a");
    let csv = home.prints(&["results", "export", "--format", "csv"]);
    let heading = csv.lines().next().unwrap();
    assert!(
        heading.starts_with("host,started,") && heading.contains(",median,p99,ci_low,ci_high,")
    );
    assert_eq!(csv.lines().count() as u64, home.rows() + 1);
    let markdown = home.prints(&["results", "export", "--format", "markdown"]);
    assert!(markdown.starts_with("# ") && markdown.contains("entry.getppid"));
    home.prints(&["results", "export", "--format", "csv", "-o", "file.csv"]);
    assert_eq!(fs::read_to_string(home.path("file.csv")).unwrap(), csv);
    let table = home.prints(&["results", "show"]);
    assert!(table.contains("median") && table.contains("entry.getppid"));
}

#[test]
fn names_are_listed_and_removed() {
    let home = Home::measured("one");
    for label in ["two", "three"] {
        let mut copy = home.json(&["results", "export", "1"]);
        copy["run"]["label"] = json!(label);
        home.write("x.json", copy.to_string());
        home.kumiki(&["results", "import", "x.json"]).assert().success();
    }
    let table = home.prints(&["results", "ls"]);
    let (references, own) = table.split_once("\n\n").unwrap();
    assert!(references.contains("shipped with the tool") && references.contains("  @"), "{table}");
    assert_eq!(own.lines().count(), 4, "{table}");
    assert!(own.contains("one") && own.contains("three") && own.contains("quick"), "{table}");

    let known = ["\"four\"", "1 (one)", "results.db"];
    home.refuses(&["results", "rm", "1", "four"], &known);
    assert_eq!(home.runs().len(), 3);
    for args in [
        &["results", "show", "four"][..],
        &["results", "export", "four"],
        &["compare", "1", "four"],
        &["compare", "four", "1"],
        &["report", "--results", "four"],
        &["report", "--with", "four"],
    ] {
        home.refuses(args, &known);
    }

    // A number and a label of the same result, and one twice.
    home.prints(&["results", "rm", "1", "1", "latest"]);
    assert_eq!(home.runs().iter().map(|run| run["id"].clone()).collect::<Vec<_>>(), [2]);
    home.prints(&["results", "rm", "2"]);
    home.kumiki(&["results", "ls"])
        .assert()
        .success()
        .stderr(predicate::str::contains("no results yet"));
    assert_eq!(home.runs(), Vec::<Value>::new());
    home.refuses(&["results", "show"], &["latest", "none yet"]);
}

#[test]
fn a_file_imported_twice_is_one_result() {
    let home = Home::measured("one");
    home.prints(&["results", "export", "-o", "x.json"]);
    let again = |files: &[&str], says: &str| {
        let args = [&["results", "import", "--db", "other.db"], files].concat();
        home.kumiki(&args).assert().success().stdout("").stderr(predicate::str::contains(says));
    };
    again(&["x.json", "x.json"], "x.json is now result 1\nkumiki: x.json is already result 1");
    again(&["x.json"], "x.json is already result 1");
    // Nor is what was measured here another result when it comes back.
    home.kumiki(&["results", "import", "x.json"])
        .assert()
        .success()
        .stderr(predicate::str::contains("x.json is already result 1"));
    let mut other = home.json(&["results", "export"]);
    other["rows"][0]["visits"][0]["samples"][0] = json!(12345.0);
    home.write("x.json", other.to_string());
    again(&["x.json"], "x.json is now result 2");
}

/// They are shipped with the tool: no database is opened, none is made.
#[test]
fn references_need_no_database() {
    let home = Home::new();
    let name = home.reference();
    let table = home.prints(&["results", "ls"]);
    assert!(table.contains(&name) && table.contains("rows disturbed"), "{table}");
    assert!(home.prints(&["results", "show", &name]).contains("entry.getppid"));
    let exported = home.json(&["results", "export", &name]);
    assert_eq!(exported["schema"], 1);
    let itself = home.prints(&["compare", &name, &name]);
    assert!(itself.contains("0 worse, 0 better"), "{itself}");
    assert!(itself.contains(&format!("A is {name}: ")), "{itself}");
    home.prints(&["report", &name]);
    home.refuses(&["results", "show", "@nobodys"], &["@nobodys", &name]);
    home.refuses(&["results", "rm", &name], &[&name, "shipped"]);
    home.refuses(&["measure", "entry", "--label", "@mine"], &["@mine", "--label"]);
    assert!(!home.path("data").exists(), "no database was made");
    // Imported it is a result like any other.
    home.write("x.json", exported.to_string());
    home.kumiki(&["results", "import", "x.json"]).assert().success();
    let same = home.prints(&["compare", &name, "latest"]).replace('\n', " ");
    assert!(same.contains("0 worse, 0 better") && same.contains("only in A 0"), "{same}");
}

#[test]
fn json_that_is_no_result_is_refused() {
    let home = Home::measured("kept");
    let good = home.prints(&["results", "export"]);
    let mut newer: Value = serde_json::from_str(&good).unwrap();
    newer["schema"] = json!(2);
    let mut older = newer.clone();
    older["schema"] = json!(0);
    let mut none = newer.clone();
    none.as_object_mut().unwrap().remove("schema");
    let sample = good.find("\"samples\":[").unwrap() + "\"samples\":[".len();
    let not_a_number = [&good[..sample], "NaN,", &good[sample..]].concat();
    let cases = [
        (String::new(), "line 1 column 0"),
        ("dear diary".into(), "line 1 column 1"),
        (good[..good.len() / 2].to_owned(), "line 1 column"),
        (newer.to_string(), "schema 2, this program reads schema 1; update Kumiki"),
        (older.to_string(), "schema 0, this program reads schema 1; measure again"),
        (none.to_string(), "no \"schema\" number"),
        (not_a_number, "line 1 column"),
        (good.replacen("\"samples\":[", "\"samples\":[-1,", 1), "sample 0 is -1"),
    ];
    for (content, says) in cases {
        home.write("bad.json", content);
        for args in [
            &["results", "show", "bad.json"][..],
            &["results", "import", "bad.json"],
            &["compare", "kept", "bad.json"],
            &["report", "bad.json"],
            &["report", "--with", "bad.json"],
        ] {
            home.refuses(args, &["bad.json", says]);
        }
    }
    home.refuses(&["results", "import", "no.json"], &["no.json", "No such file"]);
    home.refuses(&["results", "import", "."], &["directory"]);

    // Of several files one is bad: none is taken.
    home.write("good.json", &good);
    home.fails(&["results", "import", "good.json", "bad.json"]);
    assert_eq!(home.runs().len(), 1);
    assert_eq!(home.prints(&["results", "export"]), good);
}

#[test]
fn an_export_that_cannot_be_written_is_refused() {
    let home = Home::measured("kept");
    let former = home.write("former.csv", "former");
    let refuses = |output: &str, parts: &[&str]| {
        home.refuses(&["results", "export", "--output", output], &[&[output], parts].concat());
    };
    refuses("missing/x.json", &["cannot be written", "--output"]);
    refuses("tmp", &["directory", "--output"]);
    refuses("/proc/x", &["cannot be written", "--output"]);
    refuses("/dev/full", &["No space left"]);
    home.fails(&["results", "export", "nothing", "--output", "former.csv"]);
    assert_eq!(fs::read(&former).unwrap(), b"former");
    home.prints(&["results", "export", "--format", "csv", "--output", "former.csv"]);
    assert!(fs::read_to_string(&former).unwrap().starts_with("host,"));
}

#[test]
fn a_reader_that_leaves_early_is_told_nothing_and_the_status_says_it() {
    let home = Home::measured("a");
    for args in [
        &["measure", "ls"][..],
        &["measure", "ls", "--json"],
        &["results", "ls"],
        &["results", "show"],
        &["results", "show", "--json"],
        &["results", "export", "--format", "csv"],
        &["results", "export", "--format", "markdown"],
        &["compare", "a", "a"],
        &["doctor"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = home.start(args).stdout(writer).output().unwrap();
        assert_eq!(text(output.stderr), "", "{args:?}");
        // As of a program that SIGPIPE has ended.
        assert_eq!(output.status.code(), Some(141), "{args:?}");
    }
}

/// What somebody's file says goes to a terminal as text, in its own row, and into a
/// spreadsheet as text.
#[test]
fn a_foreign_result_controls_nothing() {
    const EVIL: &str = "\u{1b}[2J\u{9b}31m\u{202e}a\nkumiki: all is well\r\u{7f}";
    let home = Home::measured("own");
    let mut foreign = home.json(&["results", "export"]);
    for field in ["hostname", "kernel", "cpu_model", "os", "governor", "hypervisor", "scratch"] {
        foreign["machine"][field] = json!(EVIL);
    }
    for field in ["mode", "command", "version"] {
        foreign["run"][field] = json!(EVIL);
    }
    let row = &mut foreign["rows"][0];
    row["case"] = json!(format!("=cmd|' /C calc'!A0{EVIL}"));
    row["params"] = json!({ "+name": "@SUM(A1)", "digits": "-12", "word": EVIL });
    for visit in row["visits"].as_array_mut().unwrap() {
        visit["disturbances"] = json!([EVIL]);
    }
    foreign["skipped"] = json!([{ "case": EVIL, "params": { "word": EVIL }, "reason": EVIL }]);
    home.write("evil.json", foreign.to_string());
    foreign["run"]["label"] = json!(EVIL);
    home.write("label.json", foreign.to_string());
    home.refuses(&["results", "import", "label.json"], &["label", "import has --label"]);
    home.kumiki(&["results", "import", "label.json", "--label", "evil"]).assert().success();

    for args in [
        &["results", "ls"][..],
        &["results", "ls", "--json"],
        &["results", "show", "evil", "--verbose"],
        &["results", "show", "label.json"],
        &["results", "show", "evil", "--json"],
        &["results", "export", "evil"],
        &["results", "export", "evil", "--format", "csv"],
        &["results", "export", "evil", "--format", "markdown"],
        &["compare", "own", "evil", "--all"],
        &["compare", "evil", "own", "--json"],
        &["report", "evil", "--verbose"],
        &["results", "rm", "no\u{1b}[2J"],
    ] {
        let output = home.kumiki(args).assert().get_output().clone();
        for told in [text(output.stdout), text(output.stderr)] {
            let hidden = told.chars().find(|c| *c != '\n' && !kumiki_sys::visible::is_shown(*c));
            assert_eq!(hidden, None, "{args:?}: {told}");
            let forged = told.lines().find(|line| line.starts_with("kumiki: all is"));
            assert_eq!(forged, None, "{args:?}: {told}");
        }
    }
    assert_eq!(home.json(&["results", "export", "evil"])["machine"]["hostname"], EVIL);
    let csv = home.prints(&["results", "export", "evil", "--format", "csv"]);
    let cells: Vec<&str> = csv.lines().flat_map(|line| line.split(',')).collect();
    let params = cells.iter().find(|cell| cell.starts_with("'+name=@SUM(A1);digits=-12;word="));
    assert!(params.is_some() && csv.contains(",'=cmd|"), "{csv}");
    let formula = |cell: &&&str| {
        let text = cell.trim_start_matches('"');
        text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err()
    };
    assert_eq!(cells.iter().find(formula), None, "{csv}");
}

#[test]
fn a_label_that_names_another_result_is_refused() {
    let home = Home::measured("own");
    for label in ["1", "latest", "latest~1", "x.json", "a/b", ""] {
        home.refuses(&["measure", "entry", "--label", label], &["--label"]);
        let mut copy = home.json(&["results", "export"]);
        copy["run"]["label"] = json!(label);
        home.write("copy.json", copy.to_string());
        home.refuses(&["results", "import", "copy.json"], &["label", "--label"]);
    }
    home.kumiki(&["results", "import", "copy.json", "--label", "copy"]).assert().success();
    assert_eq!(home.runs().len(), 2);
    assert_eq!(home.json(&["results", "export", "copy"])["run"]["label"], "copy");
}

#[test]
fn a_cost_that_changed_and_stayed_is_marked() {
    let home = Home::measured("a");
    let first = home.json(&["results", "show", "--json"]);
    for night in 0..12 {
        let mut result = first.clone();
        result["run"]["label"] = Value::Null;
        result["run"]["started"] = format!("2025-03-{:02}T01:00:00Z", night + 1).into();
        let factor = [1.0, 1.01, 0.99][night % 3] * if night < 6 { 1.0 } else { 1.5 };
        for row in result["rows"].as_array_mut().unwrap() {
            for visit in row["visits"].as_array_mut().unwrap() {
                for sample in visit["samples"].as_array_mut().unwrap() {
                    *sample = (sample.as_f64().unwrap() * factor).into();
                }
            }
        }
        let file = format!("night{night}.json");
        home.write(&file, result.to_string());
        home.prints(&["results", "import", &file]);
    }
    // Of the one that was measured now, nothing is known.
    home.prints(&["results", "rm", "a"]);
    // It is a negative result, as of `compare`.
    let risen = |more: &[&str]| {
        let words = [&["results", "trend", "entry.getppid"], more].concat();
        let output = home.kumiki(&words).assert().code(1).get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    let said = risen(&[]);
    assert!(said.contains("▶") && said.contains("from 2025-03-07 01:00 on it costs 1.5"), "{said}");
    let json: Value = serde_json::from_str(&risen(&["--json"])).unwrap();
    let points = json[0]["points"].as_array().unwrap();
    let changed: Vec<usize> =
        (0..points.len()).filter(|at| points[*at]["changed"] == true).collect();
    assert_eq!((points.len(), changed), (12, vec![6]), "{json}");
    // What became cheaper is no rise, and a change all the same.
    let words = ["results", "trend", "entry.getppid", "--fail-on", "change"];
    home.kumiki(&words).assert().code(1);
    assert!(said.replace('\n', " ").contains("12 results tell a change"), "{said}");
    risen(&["-o", "trend.html"]);
    let page = std::fs::read_to_string(home.path("trend.html")).unwrap();
    assert!(page.contains("from 2025-03-07 01:00 on it costs 1.5") && page.contains("<svg"));
    home.refuses(&["results", "trend", "no.such.case"], &["no.such.case", "measure ls"]);
}

#[test]
fn a_result_is_exported_for_prometheus() {
    let home = Home::measured("a");
    let metrics = home.prints(&["results", "export", "--format", "prometheus"]);
    let line = "kumiki_operation_seconds{case=\"entry.getppid\"";
    assert!(metrics.contains(line) && metrics.contains("figure=\"quiet\"} "), "{metrics}");
}
