//! `kumiki compare`: exit 0, 1 and 2.

use crate::common::{Home, MEASURE};
use predicates::prelude::*;
use serde_json::{Value, json};

/// A copy of a result whose samples are multiplied.
fn times(result: &Value, factor: f64) -> String {
    let mut copy = result.clone();
    for row in copy["rows"].as_array_mut().unwrap() {
        for visit in row["visits"].as_array_mut().unwrap() {
            for sample in visit["samples"].as_array_mut().unwrap() {
                *sample = (sample.as_f64().unwrap() * factor).into();
            }
        }
    }
    copy.to_string()
}

/// The same result with visits enough, samples that hardly differ and a core whose
/// clock stands still, so that a verdict does not depend on how quiet the machine was.
fn steady(result: &Value) -> Value {
    let mut copy = result.clone();
    for row in copy["rows"].as_array_mut().unwrap() {
        let first = row["visits"][0].clone();
        row["visits"] = Value::Array(vec![first; 10]);
        for visit in row["visits"].as_array_mut().unwrap() {
            for (i, sample) in visit["samples"].as_array_mut().unwrap().iter_mut().enumerate() {
                *sample = (100.0 + (i % 7) as f64 * 0.01).into();
            }
            visit["cycle_ns"] = json!([0.25, 0.25]);
            visit["disturbances"] = json!([]);
        }
    }
    copy
}

#[test]
fn a_result_is_as_good_as_itself() {
    let home = Home::measured("a");
    let all = home.prints(&["compare", "a", "latest", "--all"]);
    assert!(all.contains("entry.getppid") && all.contains("1.000"), "{all}");
    assert!(all.contains("0 worse, 0 better"), "{all}");
    let json = home.json(&["compare", "a", "1", "--json"]);
    assert_eq!(json["rows"].as_array().unwrap().len() as u64, home.rows());
}

#[test]
fn a_regression_beyond_the_threshold_is_exit_1() {
    let home = Home::measured("a");
    let result = steady(&home.json(&["results", "show", "--json"]));
    for (name, factor) in [("base", 1.0), ("double", 2.0), ("slower", 1.25), ("hardly", 1.03)] {
        home.write(&format!("{name}.json"), times(&result, factor));
    }
    let code = |b: &str, more: &[&str]| {
        let args = [&["compare", "base.json", b], more].concat();
        home.kumiki(&args).output().unwrap().status.code().unwrap()
    };
    assert_eq!(code("double.json", &[]), 1);
    assert_eq!(code("double.json", &["--threshold", "150"]), 0);
    assert_eq!(code("slower.json", &[]), 1, "5 % is the default");
    assert_eq!(code("slower.json", &["--threshold", "30%"]), 0);
    // Less than two runs can tell, whatever is asked for.
    assert_eq!(code("hardly.json", &[]), 0);
    assert_eq!(code("hardly.json", &["--threshold", "0.1"]), 0);
    let said = home.prints(&["compare", "base.json", "hardly.json"]);
    for part in ["families compared", "in at most 5 % of comparisons", "show differences of"] {
        assert!(said.replace('\n', " ").contains(part), "{part}: {said}");
    }
    for (threshold, said) in [("0.1", "at 0.1 %"), ("7", "at 7 %"), ("33.3", "at 33.3 %")] {
        let same = home.prints(&["compare", "base.json", "base.json", "--threshold", threshold]);
        assert!(same.contains(said), "{same}");
    }
    home.kumiki(&["compare", "double.json", "base.json"]).assert().code(0); // faster
    home.kumiki(&["compare", "base.json", "double.json"])
        .assert()
        .code(1)
        .stdout(predicate::str::contains("families: ").and(predicate::str::contains("2.000")));
    let json = home.kumiki(&["compare", "base.json", "double.json", "--json"]).assert().code(1);
    let json: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert!(json["rows"].as_array().unwrap().iter().all(|row| row["ratio"].is_number()));
}

#[test]
fn real_samples_doubled_are_a_regression() {
    let home = Home::measured("a");
    let mut result = home.json(&["results", "show", "--json"]);
    for row in result["rows"].as_array_mut().unwrap() {
        // On a machine that has no time there may be too few visits to tell.
        let visits = row["visits"].as_array_mut().unwrap();
        for mut visit in std::mem::take(visits) {
            // Whether others had the cpus is not what this is about.
            visit["disturbances"] = json!([]);
            visits.extend(vec![visit; 4]);
        }
    }
    home.write("single.json", result.to_string());
    home.write("double.json", times(&result, 2.0));
    home.kumiki(&["compare", "single.json", "double.json"]).assert().code(1);
}

#[test]
fn an_unclear_row_says_why_and_what_would_clear_it() {
    let home = Home::measured("a");
    let result = steady(&home.json(&["results", "show", "--json"]));
    home.write("base.json", result.to_string());
    // Visits that lie apart, around the same middle.
    let mut wide = result.clone();
    let rows = wide["rows"].as_array_mut().unwrap();
    let count = rows.len();
    for row in rows {
        for (i, visit) in row["visits"].as_array_mut().unwrap().iter_mut().enumerate() {
            for sample in visit["samples"].as_array_mut().unwrap() {
                let factor = [0.5, 0.7, 1.0, 1.4, 2.0][i % 5];
                *sample = (sample.as_f64().unwrap() * factor).into();
            }
        }
    }
    home.write("wide.json", wide.to_string());
    let said = home.prints(&["compare", "base.json", "wide.json", "--all"]);
    assert!(said.contains(&format!("{count} unclear: ")), "{said}");
    assert!(
        said.contains("families unclear: ")
            && said.contains("\n  → ")
            && said.contains("entry.getppid: "),
        "{said}"
    );
    let fails = ["compare", "base.json", "wide.json", "--fail-on", "unclear"];
    home.kumiki(&fails).assert().code(1);
    home.kumiki(&[&fails[..3], &["--fail-on", "worse"]].concat()).assert().code(0);
    let json = home.json(&["compare", "base.json", "wide.json", "--json"]);
    for row in json["rows"].as_array().unwrap() {
        assert_eq!(row["verdict"], "unclear");
        let doubt = &row["doubt"];
        let all = ["cause", "why", "remedy"].iter().all(|name| doubt[name].is_string());
        assert!(all, "{row}");
        // At the threshold that it names, the row is the same.
        let Some(same_at) = doubt["same_at"].as_f64() else { continue };
        let threshold = format!("{}", same_at * 100.0 + 0.01);
        let args = ["compare", "base.json", "wide.json", "--json", "--threshold", &threshold];
        let again = home.json(&args);
        let rows = again["rows"].as_array().unwrap().iter();
        let mut found = rows.filter(|other| other["case"] == row["case"]);
        assert!(found.all(|other| other["verdict"] == "same"), "{again}");
    }
}

#[test]
fn results_without_a_common_row_are_exit_1() {
    let home = Home::new();
    for case in ["entry.getppid", "entry.clock.vdso"] {
        home.prints(&[&["measure", case], &MEASURE[2..], &["--label", case]].concat());
    }
    home.kumiki(&["compare", "entry.getppid", "entry.clock.vdso"])
        .assert()
        .code(1)
        .stdout(predicate::str::contains("0 rows compared"))
        .stderr(predicate::str::contains("no row in common"));
}

#[test]
fn odd_thresholds_are_refused() {
    let home = Home::new();
    for odd in ["-5", "NaN", "inf", "lots"] {
        let args = ["compare", "a", "b", &format!("--threshold={odd}")];
        home.refuses(&args, &[odd, "--threshold", "percentage"]);
    }
}

#[test]
fn several_results_a_side_are_compared_by_runs() {
    let home = Home::measured("a");
    let result = steady(&home.json(&["results", "show", "--json"]));
    let mut names: [Vec<String>; 2] = Default::default();
    for run in 0..6 {
        let side = run % 2;
        let wobble = 1.0 + 0.002 * ((run * 3) % 5) as f64;
        let mut copy: Value =
            serde_json::from_str(&times(&result, wobble * [1.0, 1.3][side])).unwrap();
        copy["run"]["started"] = format!("2026-11-29T10:0{run}:00Z").into();
        let file = format!("run{run}.json");
        home.write(&file, copy.to_string());
        names[side].push(file);
    }
    let [a, b] = names.each_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let words = [&["compare"][..], &a, &["---"], &b, &["--all"]].concat();
    home.kumiki(&words).assert().code(1).stdout(
        predicate::str::contains("worse").and(predicate::str::contains("Everything: 1.30")),
    );
    let words = [&["compare", "--json", "--time"][..], &b, &["---"], &a].concat();
    let json = home.json(&words);
    assert_eq!((&json["few"], &json["apart"]), (&false.into(), &false.into()), "{json}");
    assert!(json["families"].as_array().unwrap().iter().all(|one| one["verdict"] == "improvement"));
    // Two and two can be named in six ways only.
    let few = [&["compare"][..], &a[..2], &["---"], &b[..2]].concat();
    let said = home.prints(&few).replace('\n', " ");
    assert!(said.contains("So few runs"), "{said}");
    for odd in [
        &["compare", "x.json"][..],
        &["compare", "x.json", "---"],
        &["compare", "a", "b", "--time"],
    ] {
        home.refuses(odd, &["---", "several"]);
    }
}
